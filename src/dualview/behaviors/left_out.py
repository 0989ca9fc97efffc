"""Observations left out one at a time, with the latent vectors integrated out: what leave-one-out scores weigh draws by.

Given clusters and parameters, outcomes are linear in vectors with normal priors. Then the distribution of an observation given
all others has a closed form, (L1) in docs/model.md; yes-or-no outcomes take a quadrature. The importance weights of a draw
carry clusters and parameters only, not the vectors that each observation has pulled towards itself, nor, where outcomes are
normal, the means of their clusters.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack
from scipy.special import expit, log_expit, logsumexp, ndtri

from dualview.behaviors.base import Array, LatentPrior, LeftOut, LeftOutLaws, Params
from dualview.errors import DegenerateError
from dualview.units import Whitening

MOST_WHOLE = 500  # vectors and coefficients, or threads, up to which all are integrated out
_NODES = {1: 61, 2: 25, 3: 11}  # of a quadrature along each of q dimensions; right to four digits for priors of sd up to 3
_N_POINTS = 2048  # of importance sampling, with more dimensions
_WIDER = 1.3  # than the normal approximation, the points of importance sampling
_NEWTON_STEPS = 30


class NormalLaws(LeftOutLaws):
    """Normal distributions with locations and standard deviations (n,)."""

    def __init__(self, locations: Array, sds: Array) -> None:
        self.locations, self.sds = locations, sds

    def log_density(self, values: Array) -> Array:
        return np.asarray(-0.5 * np.log(2 * np.pi) - np.log(self.sds) - 0.5 * ((values - self.locations) / self.sds) ** 2)

    def standardised(self, rng: np.random.Generator, values: Array) -> Array:  # noqa: ARG002
        return np.asarray((values - self.locations) / self.sds)


class BinaryLaws(LeftOutLaws):
    """Outcomes 0 and 1: log probabilities (n,) of the values that were observed."""

    def __init__(self, observed: Array, log_probabilities: Array) -> None:
        self.observed, self.log_probabilities = observed, log_probabilities

    @property
    def chances(self) -> Array:
        """Probabilities of 1, (n,)."""
        likely = np.exp(self.log_probabilities)
        return np.asarray(np.where(self.observed == 1.0, likely, 1.0 - likely))

    def log_density(self, values: Array) -> Array:
        same = values == self.observed
        return np.asarray(
            np.where(same, self.log_probabilities, np.log(-np.expm1(np.minimum(self.log_probabilities, -1e-300))))
        )

    def standardised(self, rng: np.random.Generator, values: Array) -> Array:
        """0 lies in the first 1 − p of the unit interval, 1 in the rest."""
        chances, place = self.chances, rng.random(len(values))
        levels = np.where(values == 1.0, 1.0 - chances * (1.0 - place), (1.0 - chances) * place)
        return np.asarray(ndtri(np.clip(levels, 1e-15, 1.0 - 1e-15)))


def _left_out(outcome: Array, residual: Array, leverage: Array, precision: Any) -> NormalLaws:
    """(L1) from residuals and leverages (n,) of the fit to all observations."""
    left = 1.0 - leverage
    if not np.all(left > 0.0):
        raise DegenerateError("An observation cannot be left out: what the others say about it is lost to round-off.")
    return NormalLaws(outcome - residual / left, 1.0 / np.sqrt(precision * left))


@dataclass(frozen=True)
class ThreadsLeftOut(LeftOut):
    """Threads with participation (T, U), covariates (T, C) and outcomes (T,).

    units: those in which slopes have the prior N(0, I). groups(params): effects of groups, (1, T), given which threads are left
    out; None for none. Up to ``MOST_WHOLE`` unknowns or threads, all vectors, means of
    clusters and slopes are integrated out; beyond, the vectors of a thread's participants, given everything else.
    """

    participation: Any
    covariates: Array
    outcome: Array
    units: Whitening
    groups: Callable[[Params], Array] | None = None

    @cached_property
    def _covariates(self) -> Array:
        """Of slopes with the prior N(0, I)."""
        return self.covariates @ self.units.factor

    @cached_property
    def _centred(self) -> Array:
        """Outcomes less what slopes at their prior's mean explain."""
        return np.asarray(self.outcome - self.covariates @ self.units.mean)

    @cached_property
    def _dense(self) -> Array:
        return self.participation.toarray() if sparse.issparse(self.participation) else np.asarray(self.participation)

    @cached_property
    def _design(self) -> Any:
        """Users and covariates beside each other, (T, U + C)."""
        if sparse.issparse(self.participation):
            return sparse.hstack([self.participation, sparse.csr_array(self._covariates)], format="csr")
        return np.hstack([self._dense, self._covariates])

    @cached_property
    def _gram(self) -> Array:
        gram = self._design.T @ self._design
        return gram.toarray() if sparse.issparse(gram) else np.asarray(gram)

    def laws(self, prior: LatentPrior, params: Params, latent: Array) -> NormalLaws:
        if self.groups is not None:
            added = self._by_groups(params)
            found = self._ungrouped(added).laws(prior, params, latent)
            return NormalLaws(found.locations + added, found.sds)
        unknowns = Unknowns.of(prior, self.covariates.shape[1])
        if min(len(unknowns.means), len(self.outcome)) <= MOST_WHOLE:
            return self._whole(prior, unknowns, float(params["noise_precision"]))
        return self._local(prior, params, latent)

    def _by_groups(self, params: Params) -> Array:
        assert self.groups is not None
        return np.asarray(self.groups({name: np.asarray(value)[None] for name, value in params.items()})[0])

    def _ungrouped(self, added: Array) -> "ThreadsLeftOut":
        """The same with outcomes less these numbers and without groups; what follows from the design is kept."""
        other = copy.copy(self)
        other.__dict__.pop("_centred", None)
        object.__setattr__(other, "outcome", self.outcome - added)
        object.__setattr__(other, "groups", None)
        return other

    def _whole(self, prior: LatentPrior, unknowns: "Unknowns", noise_precision: float) -> NormalLaws:
        outcome = self._centred - self.participation @ prior.shift[:, 0] if prior.shift.any() else self._centred
        means, precisions, spread = unknowns
        if len(outcome) < len(means):
            covariance = self._design @ ((spread / precisions) @ spread.T) @ self._design.T
            inverse = _inverse(covariance + np.eye(len(outcome)) / noise_precision)
            pull = inverse @ (outcome - self._design @ (spread @ means))
            return NormalLaws(self.outcome - pull / np.diagonal(inverse), 1.0 / np.sqrt(np.diagonal(inverse)))
        linear = precisions * means + noise_precision * (spread.T @ (self._design.T @ outcome))
        covariance = _inverse(np.diag(precisions) + noise_precision * (spread.T @ self._gram @ spread))
        residual = outcome - self._design @ (spread @ (covariance @ linear))
        by_users = self._design @ (spread @ covariance @ spread.T)
        products = self._design.multiply(by_users) if sparse.issparse(self._design) else self._design * by_users
        return _left_out(self.outcome, residual, noise_precision * np.asarray(products.sum(axis=1)).ravel(), noise_precision)

    def replicate(self, rng: np.random.Generator, prior: LatentPrior, params: Params) -> "tuple[ThreadsLeftOut, Array, Array]":
        noise_precision, n_slopes = float(params["noise_precision"]), self.covariates.shape[1]
        unknowns = Unknowns.of(prior, n_slopes)
        if min(len(unknowns.means), len(self.outcome)) <= MOST_WHOLE:
            drawn = unknowns.means + rng.standard_normal(len(unknowns.means)) / np.sqrt(unknowns.precisions)
            spread = unknowns.spread @ drawn
            vectors, slopes = spread[: len(prior.z)] + prior.shift[:, 0], self.units.vectors(spread[len(prior.z) :])
        else:
            assert prior.precisions is not None
            noise = rng.standard_normal(len(prior.z)) / np.sqrt(prior.precisions[prior.z, 0, 0])
            vectors = prior.means[prior.z, 0] + prior.shift[:, 0] + noise
            slopes = params["coefficients"] if n_slopes else np.empty(0)
        expected = self.participation @ vectors + self.covariates @ slopes
        if self.groups is not None:
            expected = expected + self._by_groups(params)
        outcome = np.asarray(expected + rng.standard_normal(len(expected)) / np.sqrt(noise_precision))
        return replace(self, outcome=outcome), outcome, vectors[:, None]

    def evidence(self, prior: LatentPrior, noise_precision: float) -> tuple[Array, Array, Array]:
        """Of every user, what its threads say of its coefficient f given all other threads, in one draw; other users' are
        integrated out.

        ln p(threads of u | the others, f) = constant + linear f − precision f²/2, each (U,). With K = C⁻¹ of all outcomes
        without u's part, threads B of u, weights p on them and e = K(y − E y): precision pᵀ K_BB p, linear pᵀ e_B, constant
        (ln |K_BB/2π| − e_Bᵀ K_BB⁻¹ e_B)/2.
        """
        assert prior.precisions is not None
        means, variances = prior.means[prior.z, 0] + prior.shift[:, 0], 1.0 / prior.precisions[prior.z, 0, 0]
        covariance = (self._dense * variances) @ self._dense.T + self._covariates @ self._covariates.T
        covariance[np.diag_indices_from(covariance)] += 1.0 / noise_precision
        precision, away = _inverse(covariance), self._centred - self._dense @ means
        found = np.zeros((3, len(means)))
        for user, (mean, variance) in enumerate(zip(means, variances, strict=True)):
            own = np.flatnonzero(self._dense[:, user])
            if not len(own):
                continue
            weights = self._dense[own, user]
            column = precision[:, own] @ weights
            gain = variance / (1.0 - variance * (weights @ column[own]))
            block = precision[np.ix_(own, own)] + gain * np.outer(column[own], column[own])
            rest = away + mean * self._dense[:, user]
            pull = precision[own] @ rest + gain * column[own] * (column @ rest)
            factor = np.linalg.cholesky(block)
            half = np.linalg.solve(factor, pull)
            height = np.log(np.diagonal(factor)).sum() - 0.5 * len(own) * np.log(2 * np.pi)
            found[:, user] = height - 0.5 * half @ half, weights @ pull, weights @ block @ weights
        return found[0], found[1], found[2]

    @cached_property
    def _crowds(self) -> "list[_Crowd]":
        """Threads of as many participants together, with what their vectors share."""
        rows = sparse.csr_array(self.participation)
        gram = sparse.csr_array(rows.T @ rows)
        sizes = np.diff(rows.indptr)
        return [_Crowd.of(rows, gram, np.flatnonzero(sizes == size), int(size)) for size in np.unique(sizes[sizes > 0])]

    def _local(self, prior: LatentPrior, params: Params, latent: Array) -> NormalLaws:
        """Vectors of a thread's participants integrated out, given those of all others, the clusters' means and the slopes."""
        assert prior.precisions is not None  # clusters that share a vector are few unknowns
        noise_precision = float(params["noise_precision"])
        outcome = self.outcome
        if self.covariates.shape[1]:
            outcome = outcome - self.covariates @ params["coefficients"]
        vectors, all_means = latent[:, 0], prior.means[prior.z, 0] + prior.shift[:, 0]
        all_precisions = prior.precisions[prior.z, 0, 0]
        rest = outcome - self.participation @ vectors
        weighted = self.participation.T @ rest
        residual, leverage = rest.copy(), np.zeros(len(rest))
        for threads, members, weights, gram in self._crowds:
            precisions = all_precisions[members]
            matrices = noise_precision * gram
            matrices[:, np.arange(gram.shape[1]), np.arange(gram.shape[1])] += precisions
            own = vectors[members]
            linear = precisions * all_means[members] + noise_precision * (weighted[members] + (gram @ own[..., None])[..., 0])
            solved = np.linalg.solve(matrices, np.stack([linear, weights], axis=-1))
            residual[threads] += (weights * (own - solved[..., 0])).sum(axis=1)
            leverage[threads] = noise_precision * (weights * solved[..., 1]).sum(axis=1)
        return _left_out(self.outcome, residual, leverage, noise_precision)


class Unknowns(NamedTuple):
    """Independent normal numbers that are integrated out: means (N,), precisions (N,).

    spread (U + C, N): what each counts for in the users' coefficients and the slopes. They are the users' deviations, unless
    users share their cluster's coefficient, the clusters' means, and the slopes.
    """

    means: Array
    precisions: Array
    spread: Array

    @classmethod
    def of(cls, prior: LatentPrior, n_slopes: int) -> "Unknowns":
        n_users, n_clusters = len(prior.z), len(prior.means)
        own = 0 if prior.precisions is None else n_users
        spread = np.zeros((n_users + n_slopes, own + n_clusters + n_slopes))
        spread[np.arange(own), np.arange(own)] = 1.0
        spread[np.arange(n_users), own + prior.z] = 1.0
        spread[n_users + np.arange(n_slopes), own + n_clusters + np.arange(n_slopes)] = 1.0
        means = np.concatenate([np.zeros(own), np.full(n_clusters, prior.base_mean[0]), np.zeros(n_slopes)])
        deviations = np.empty(0) if prior.precisions is None else prior.precisions[prior.z, 0, 0]
        precisions = np.concatenate([deviations, np.full(n_clusters, prior.base_precision[0, 0]), np.ones(n_slopes)])
        return cls(means, precisions, spread)


class _Crowd(NamedTuple):
    """Threads (n,) of m participants: who they are (n, m), their weights (n, m), and Σ p pᵀ over all threads (n, m, m)."""

    threads: NDArray[np.intp]
    members: NDArray[np.int64]
    weights: Array
    gram: Array

    @classmethod
    def of(cls, rows: Any, gram: Any, threads: NDArray[np.intp], size: int) -> "_Crowd":
        places = rows.indptr[threads][:, None] + np.arange(size)
        members = rows.indices[places].astype(np.int64)
        pairs = gram[np.repeat(members, size, axis=1).ravel(), np.tile(members, (1, size)).ravel()]
        return cls(threads, members, rows.data[places], np.asarray(pairs).reshape(len(threads), size, size))


def _inverse(matrix: Array) -> Array:
    """The inverse of a positive definite matrix, from its factor."""
    factor, failed = lapack.dpotrf(matrix, lower=1)
    inverse, failed_too = lapack.dpotri(factor, lower=1)
    if failed or failed_too:
        raise DegenerateError("A precision matrix is numerically singular: these outcomes cannot be left out one by one.")
    return np.asarray(np.tril(inverse) + np.tril(inverse, -1).T)


@dataclass(frozen=True)
class PanelLeftOut(LeftOut):
    """Observations of one user each: user (n,), design (n, q), outcome (n,).

    offset(params): what effects outside the mixture add to the locations, (1, n), given them; None for nothing. weights (n,):
    by what the noise's precision is multiplied; it is 1 where params have none.
    """

    user: NDArray[np.int64]
    design: Array
    outcome: Array
    offset: Callable[[Params], Array] | None = None
    weights: Array | None = None

    @cached_property
    def _squares(self) -> Array:
        return self.design[:, :, None] * self.design[:, None, :]

    def _precision(self, params: Params) -> Array:
        """Of every observation, (n,)."""
        noise = np.asarray(params.get("noise_precision", 1.0), dtype=float)
        precision = np.full(len(self.user), noise) if noise.ndim == 0 else noise[self.user]
        return precision if self.weights is None else precision * self.weights

    def _offset(self, params: Params) -> Array:
        assert self.offset is not None
        return np.asarray(self.offset({name: np.asarray(value)[None] for name, value in params.items()})[0])

    def laws(self, prior: LatentPrior, params: Params, latent: Array) -> NormalLaws:  # noqa: ARG002
        precision, outcome = self._precision(params), self.outcome
        if self.offset is not None:
            outcome = outcome - self._offset(params)
        if prior.shift.any():
            outcome = outcome - (self.design * prior.shift[self.user]).sum(axis=1)
        n_users, q = len(prior.z), self.design.shape[1]
        squares, linear = np.zeros((n_users, q, q)), np.zeros((n_users, q))
        np.add.at(squares, self.user, precision[:, None, None] * self._squares)
        np.add.at(linear, self.user, (precision * outcome)[:, None] * self.design)
        vectors, covariances = _posterior_of_vectors(prior, squares, linear)
        leverage = precision * np.einsum("nq,nqr,nr->n", self.design, covariances[self.user], self.design)
        return _left_out(self.outcome, outcome - (self.design * vectors[self.user]).sum(axis=1), leverage, precision)

    def replicate(self, rng: np.random.Generator, prior: LatentPrior, params: Params) -> "tuple[PanelLeftOut, Array, Array]":
        vectors = drawn_vectors(rng, prior)
        precision = self._precision(params)
        outcome = (self.design * vectors[self.user]).sum(axis=1) + rng.standard_normal(len(self.user)) / np.sqrt(precision)
        if self.offset is not None:
            outcome = outcome + self._offset(params)
        return replace(self, outcome=outcome), outcome, vectors


def drawn_vectors(rng: np.random.Generator, prior: LatentPrior) -> Array:
    """Latent vectors (U, q) from their prior, means of clusters included."""

    def normal(precisions: Array) -> Array:
        factors = np.linalg.cholesky(precisions)
        noise = rng.standard_normal((len(precisions), precisions.shape[-1], 1))
        return np.asarray(np.linalg.solve(np.swapaxes(factors, -1, -2), noise)[..., 0])

    means = prior.base_mean + normal(np.tile(prior.base_precision, (len(prior.means), 1, 1)))
    vectors = means[prior.z] + prior.shift
    return vectors if prior.precisions is None else vectors + normal(prior.precisions[prior.z])


def _posterior_of_vectors(prior: LatentPrior, squares: Array, linear: Array) -> tuple[Array, Array]:
    """Mean (U, q) and covariance (U, q, q) of each user's vector without its shift, means of clusters integrated out.

    ln p(observations of u | f) = linear_u · f − fᵀ squares_u f/2 up to a constant. Users who do not share a vector depend on
    each other through their cluster's mean only: given it, f_u ~ N(Λ_u⁻¹(S_k μ_k + linear_u), Λ_u⁻¹), Λ_u = S_k + squares_u.
    """
    z, (n_clusters, q) = prior.z, prior.means.shape
    matrices, pull = (
        np.tile(prior.base_precision, (n_clusters, 1, 1)),
        np.tile(prior.base_precision @ prior.base_mean, (n_clusters, 1)),
    )
    identity = np.eye(q)
    if prior.precisions is None:
        np.add.at(matrices, z, squares)
        np.add.at(pull, z, linear)
        covariances = np.linalg.solve(matrices, np.broadcast_to(identity, matrices.shape))
        return (covariances @ pull[..., None])[z, :, 0], np.asarray(covariances[z])
    own = prior.precisions[z]
    given = np.linalg.solve(own + squares, np.broadcast_to(identity, own.shape))  # Λ_u⁻¹
    follow = given @ own  # how f_u follows μ_k
    np.add.at(matrices, z, own - own @ follow)
    np.add.at(pull, z, (np.swapaxes(follow, -1, -2) @ linear[..., None])[..., 0])
    of_means = np.linalg.solve(matrices, np.broadcast_to(identity, matrices.shape))
    means = (of_means @ pull[..., None])[..., 0]
    vectors = (follow @ means[z][..., None])[..., 0] + (given @ linear[..., None])[..., 0]
    return vectors, np.asarray(given + follow @ of_means[z] @ np.swapaxes(follow, -1, -2))


@dataclass(frozen=True)
class AnswersLeftOut(LeftOut):
    """Yes-or-no outcomes of one user each; offset(params) is what coefficients add to the log odds, given them.

    1/p(y_i | all others) is the posterior mean of 1/p(y_i | f): a quadrature about the mode of f for up to three dimensions,
    else importance sampling from a normal distribution there. Vectors are integrated out given the means of their clusters, or,
    where users of a cluster share one, given what the clusters have in common.
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
            means, precisions = np.tile(prior.base_mean, (n_clusters, 1)), np.tile(prior.base_precision, (n_clusters, 1, 1))
        else:
            group, means, precisions = self.user, prior.means[prior.z], prior.precisions[prior.z]
        order = np.argsort(group, kind="stable")
        answers = Answers(group[order], self.design[order], 2.0 * self.outcome[order] - 1.0, odds[order])
        log_likelihood, log_weights, _ = quadrature(answers, means, precisions)
        log_probabilities = np.empty(len(order))
        log_probabilities[order] = -logsumexp(log_weights[answers.group] - log_likelihood, axis=1)
        return BinaryLaws(self.outcome, np.minimum(log_probabilities, 0.0))


class Answers(NamedTuple):
    """Answers sorted by group: group (n,), design (n, q), sign (n,) of ±1, and log odds without the vectors' part (n,)."""

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
    """The posterior of vectors g_j ~ N(means_j, precisions_j⁻¹), (G, q), given their answers, on M nodes about its mode.

    Returns ln p(answer | node), (n, M), log weights of the nodes, (G, M), that sum to one, and ln p(answers of j), (G,).
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
    heights = 0.5 * np.linalg.slogdet(precisions)[1] - np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    log_weights = answers.sums(log_likelihood, len(means)) + log_prior + log_node_weights + heights[:, None]
    total = logsumexp(log_weights, axis=1, keepdims=True)
    return log_likelihood, log_weights - total, np.asarray(total[:, 0])


def _nodes(n_dims: int) -> tuple[Array, Array]:
    """Points (M, q), and ln of the weight that makes Σ weight · φ-free integrand an integral over a standard normal vector.

    The weights include exp(|x|²/2), so that a sum of weight × exp(−|x|²/2) × value is a mean under the standard normal.
    """
    if n_dims in _NODES:
        points, weights = np.polynomial.hermite_e.hermegauss(_NODES[n_dims])
        grid = np.array(list(product(points, repeat=n_dims)))
        log_weights = np.log(np.array(list(product(weights / weights.sum(), repeat=n_dims)))).sum(axis=1)
        return grid, log_weights + 0.5 * (grid**2).sum(axis=1)
    half = np.random.default_rng(0).standard_normal((_N_POINTS // 2, n_dims))
    points = np.concatenate([half, -half])
    log_weights = 0.5 * (points**2).sum(axis=1) + n_dims * np.log(_WIDER) - np.log(len(points))
    return _WIDER * points, log_weights


def _modes(answers: Answers, means: Array, precisions: Array) -> tuple[Array, Array]:
    """The modes (G, q) of log-concave posteriors by Newton's method with halved steps, and their curvatures (G, q, q)."""
    vectors, n_groups = means.copy(), len(means)

    def height(values: Array) -> Array:
        odds = answers.odds + (answers.design * values[answers.group]).sum(axis=1)
        away = values - means
        fit = answers.sums(log_expit(answers.sign * odds), n_groups)
        return np.asarray(fit - 0.5 * np.einsum("gq,gqr,gr->g", away, precisions, away))

    def derivatives(values: Array) -> tuple[Array, Array]:
        odds = answers.odds + (answers.design * values[answers.group]).sum(axis=1)
        pull = (answers.sign * expit(-answers.sign * odds))[:, None] * answers.design
        bend = (expit(odds) * expit(-odds))[:, None, None] * answers.design[:, :, None] * answers.design[:, None, :]
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
