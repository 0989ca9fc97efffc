"""Yes-or-no answers left out one at a time: the latent vector of whoever gave it is integrated out
by quadrature."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logsumexp

from dualview.behaviors.left_out import BinaryLaws
from dualview.behaviors.records import Array, LatentPrior, LeftOut, Params

_NODES = {
    1: 61,
    2: 25,
    3: 11,
}  # of a quadrature along each of q dimensions; right to four digits for priors of sd up to 3
_N_POINTS = 2048  # of importance sampling, with more dimensions
_WIDER = 1.3  # than the normal approximation, the points of importance sampling
_NEWTON_STEPS = 30


@dataclass(frozen=True)
class AnswersLeftOut(LeftOut):
    """Yes-or-no outcomes of one user each; offset(params) is what coefficients add to the log odds,
    given them.

    1/p(y_i | all others) is the posterior mean of 1/p(y_i | f): a quadrature about the mode of f
    for up to three dimensions, else importance sampling from a normal distribution there. Vectors
    are integrated out given the means of their clusters, or, where users of a cluster share one,
    given what the clusters have in common.
    """

    user: NDArray[np.int64]
    design: Array
    outcome: Array
    offset: Callable[[Params], Array]

    def laws(self, prior: LatentPrior, params: Params, latent: Array) -> BinaryLaws:  # noqa: ARG002
        known = {name: np.asarray(value)[None] for name, value in params.items()}
        odds = self.offset(known)[0] + (self.design * prior.shift[self.user]).sum(axis=1)
        if prior.precisions is None:  # a vector for each cluster
            group, n_clusters = prior.z[self.user], len(prior.means)
            means, precisions = (
                np.tile(prior.base_mean, (n_clusters, 1)),
                np.tile(prior.base_precision, (n_clusters, 1, 1)),
            )
        else:
            group, means, precisions = self.user, prior.means[prior.z], prior.precisions[prior.z]
        order = np.argsort(group, kind="stable")
        answers = Answers(
            group[order], self.design[order], 2.0 * self.outcome[order] - 1.0, odds[order]
        )
        log_likelihood, log_weights, _ = quadrature(answers, means, precisions)
        log_probabilities = np.empty(len(order))
        log_probabilities[order] = -logsumexp(log_weights[answers.group] - log_likelihood, axis=1)
        return BinaryLaws(self.outcome, np.minimum(log_probabilities, 0.0))


class Answers(NamedTuple):
    """Answers sorted by group: group (n,), design (n, q), sign (n,) of ±1, and log odds without the
    vectors' part (n,)."""

    group: NDArray[np.int64]
    design: Array
    sign: Array
    odds: Array

    def sums(self, values: Array, n_groups: int) -> Array:
        """Sums over each group of values (n, …), (G, …)."""
        result = np.zeros((n_groups, *values.shape[1:]))
        present, first = np.unique(self.group, return_index=True)
        if len(present):
            result[present] = np.add.reduceat(values, first, axis=0)
        return result


def quadrature(answers: Answers, means: Array, precisions: Array) -> tuple[Array, Array, Array]:
    """The posterior of vectors g_j ~ N(means_j, precisions_j⁻¹), (G, q), given their answers, on M
    nodes about its mode.

    Returns ln p(answer | node), (n, M), log weights of the nodes, (G, M), that sum to one, and ln
    p(answers of j), (G,).
    """
    modes, curvatures = _modes(answers, means, precisions)
    nodes, log_node_weights = _nodes(means.shape[1])
    factors = np.linalg.cholesky(curvatures)
    away = np.linalg.solve(np.swapaxes(factors, -1, -2)[:, None], nodes[None, ..., None])[..., 0]
    vectors = modes[:, None] + away  # (G, M, q)
    odds = answers.odds[:, None] + np.einsum("nq,nmq->nm", answers.design, vectors[answers.group])
    log_likelihood = np.asarray(log_expit(answers.sign[:, None] * odds))
    centred = vectors - means[:, None]
    log_prior = -0.5 * np.einsum("gmq,gqr,gmr->gm", centred, precisions, centred)
    heights = 0.5 * np.linalg.slogdet(precisions)[1] - np.log(
        np.diagonal(factors, axis1=1, axis2=2)
    ).sum(axis=1)
    log_weights = (
        answers.sums(log_likelihood, len(means)) + log_prior + log_node_weights + heights[:, None]
    )
    total = logsumexp(log_weights, axis=1, keepdims=True)
    return log_likelihood, log_weights - total, np.asarray(total[:, 0])


def _nodes(n_dims: int) -> tuple[Array, Array]:
    """Points (M, q), and ln of the weight that makes Σ weight · φ-free integrand an integral over a
    standard normal vector.

    The weights include exp(|x|²/2), so that a sum of weight × exp(−|x|²/2) × value is a mean under
    the standard normal.
    """
    if n_dims in _NODES:
        points, weights = np.polynomial.hermite_e.hermegauss(_NODES[n_dims])
        grid = np.array(list(product(points, repeat=n_dims)))
        log_weights = np.log(np.array(list(product(weights / weights.sum(), repeat=n_dims)))).sum(
            axis=1
        )
        return grid, log_weights + 0.5 * (grid**2).sum(axis=1)
    half = np.random.default_rng(0).standard_normal((_N_POINTS // 2, n_dims))
    points = np.concatenate([half, -half])
    log_weights = 0.5 * (points**2).sum(axis=1) + n_dims * np.log(_WIDER) - np.log(len(points))
    return _WIDER * points, log_weights


def _modes(answers: Answers, means: Array, precisions: Array) -> tuple[Array, Array]:
    """The modes (G, q) of log-concave posteriors by Newton's method with halved steps, and their
    curvatures (G, q, q)."""
    vectors, n_groups = means.copy(), len(means)

    def height(values: Array) -> Array:
        odds = answers.odds + (answers.design * values[answers.group]).sum(axis=1)
        away = values - means
        fit = answers.sums(log_expit(answers.sign * odds), n_groups)
        return np.asarray(fit - 0.5 * np.einsum("gq,gqr,gr->g", away, precisions, away))

    def derivatives(values: Array) -> tuple[Array, Array]:
        odds = answers.odds + (answers.design * values[answers.group]).sum(axis=1)
        pull = (answers.sign * expit(-answers.sign * odds))[:, None] * answers.design
        bend = (
            (expit(odds) * expit(-odds))[:, None, None]
            * answers.design[:, :, None]
            * answers.design[:, None, :]
        )
        gradient = answers.sums(pull, n_groups) - (precisions @ (values - means)[..., None])[..., 0]
        return gradient, answers.sums(bend, n_groups) + precisions

    before = height(vectors)
    for _ in range(_NEWTON_STEPS):
        gradient, curvature = derivatives(vectors)
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        if np.all((gradient * step).sum(axis=1) < 1e-10):
            break
        size = np.ones(n_groups)
        for _ in range(_NEWTON_STEPS):
            now = height(vectors + size[:, None] * step)
            worse = now < before
            if not worse.any():
                break
            size[worse] *= 0.5
        better = now >= before
        vectors[better] += (size[:, None] * step)[better]
        before = np.where(better, now, before)
    return vectors, derivatives(vectors)[1]
