"""Ordered levels left out one at a time, with the latent vectors integrated out by quadrature,
given the cut points."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, ndtri

from dualview.behaviors.answers_left_out import Answers, quadrature
from dualview.behaviors.likelihoods.ordinal import AnswerRows, log_gap
from dualview.behaviors.records import Array, LatentPrior, LeftOut, LeftOutLaws, Params
from dualview.outcomes import Levels


class LevelLaws(LeftOutLaws):
    """Probabilities of ordered levels, (n, L), and log probabilities (n,) of those that were
    observed, to all digits."""

    def __init__(
        self, levels: Levels, probabilities: Array, observed: NDArray[np.int64], log_observed: Array
    ) -> None:
        self.levels, self.probabilities, self.observed, self.log_observed = (
            levels,
            probabilities,
            observed,
            log_observed,
        )

    def log_density(self, values: Array) -> Array:
        place = self.levels.places(values)
        with np.errstate(divide="ignore"):
            others = np.log(self.probabilities[np.arange(len(place)), place])
        return np.asarray(np.where(place == self.observed, self.log_observed, others))

    def standardised(self, rng: np.random.Generator, values: Array) -> Array:
        """Each level has a part of the unit interval, as long as its probability."""
        place, own = self.levels.places(values), np.arange(len(values))
        upper = np.cumsum(self.probabilities, axis=1)[own, place]
        chosen = upper - rng.random(len(values)) * self.probabilities[own, place]
        return np.asarray(ndtri(np.clip(chosen, 1e-15, 1.0 - 1e-15)))


@dataclass(frozen=True)
class OrdinalLeftOut(LeftOut):
    """Levels of one user each: user (n,), design (n, q), level (n,) from 0.

    offset(params): what effects outside the mixture add to η, given them, (1, n).

    p(level | all others) is the posterior mean of p(level | f) / p(y_i | f) over that of 1 / p(y_i
    | f). Vectors are integrated out given the means of their clusters, or, where users of a cluster share one, given what the clusters have in common.
    """  # noqa: E501

    user: NDArray[np.int64]
    design: Array
    level: NDArray[np.int64]
    levels: Levels
    offset: Callable[[Params], Array]

    def laws(self, prior: LatentPrior, params: Params, latent: Array) -> LevelLaws:  # noqa: ARG002
        cuts = np.asarray(params["cut_points"], dtype=float)
        known = {name: np.asarray(value)[None] for name, value in params.items()}
        shift = self.offset(known)[0] + (self.design * prior.shift[self.user]).sum(axis=1)
        if prior.precisions is None:  # a vector for each cluster
            group, n_clusters = prior.z[self.user], len(prior.means)
            means, precisions = (
                np.tile(prior.base_mean, (n_clusters, 1)),
                np.tile(prior.base_precision, (n_clusters, 1, 1)),
            )
        else:
            group, means, precisions = self.user, prior.means[prior.z], prior.precisions[prior.z]
        rows = AnswerRows.of(self.level, len(cuts))
        order = np.argsort(group[rows.observation], kind="stable")
        order = order[rows.sign[order] != 0.0]
        own, cut = rows.observation[order], rows.cut[order]
        answers = Answers(group[own], self.design[own], rows.sign[order], shift[own] - cuts[cut])
        log_rows, log_weights, _ = quadrature(answers, means, precisions)
        log_own = np.zeros((len(self.level), log_rows.shape[1]))
        np.add.at(log_own, own, log_rows)
        log_own += np.concatenate([[0.0], log_gap(np.diff(cuts)), [0.0]])[self.level, None]
        without = log_weights[group] - log_own  # of the nodes, the observation left out
        log_observed = -logsumexp(without, axis=1)
        weights = np.exp(without + log_observed[:, None])
        first = np.unique(own, return_index=True)[1]
        eta = answers.sign[first, None] * _odds(log_rows[first]) + cuts[cut[first], None]
        cumulative = [(weights * expit(value - eta)).sum(axis=1) for value in cuts]
        padded = np.vstack([np.zeros(len(eta)), *cumulative, np.ones(len(eta))])
        return LevelLaws(
            self.levels,
            np.maximum(np.diff(padded, axis=0).T, 0.0),
            self.level,
            np.minimum(log_observed, 0.0),
        )


def _odds(log_probabilities: Array) -> Array:
    """ln p − ln(1 − p)."""
    with np.errstate(divide="ignore"):
        return np.asarray(log_probabilities - np.log(-np.expm1(log_probabilities)))
