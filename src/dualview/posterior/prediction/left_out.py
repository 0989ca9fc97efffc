"""Observations left out one at a time: their densities in every draw, with the latent vectors
integrated out."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.base import Behavior
from dualview.behaviors.records import LatentPrior, Params
from dualview.posterior.draws.fit_facts import FitFacts
from dualview.posterior.prediction.influence import mutual_information
from dualview.posterior.prediction.user_features import shifts_of_fit

Array = NDArray[np.float64]

_N_DRAWS = 100  # that the dependence between observations is averaged over


class LatentPriors:
    """The prior of the users' latent vectors in each draw of a posterior, in the user's units."""

    def __init__(self, post: FitFacts) -> None:
        units, n_draws, table = (
            post.spec.units["behavior"],
            post.n_chains * post.n_draws,
            post.components,
        )
        q = units.n_dims
        self._z = post.flat_acts
        self._base_means = post.flat("behavior.base_mean").reshape(n_draws, q)
        self._base_precisions = post.flat("behavior.base_precision").reshape(n_draws, q, q)
        self._first = np.searchsorted(table["owner"], np.arange(n_draws + 1))
        self._means = units.vectors(table["behavior.means"])
        self._precisions: Array | None = None
        if post.spec.pooling is None:
            factors = table["behavior.factors"]
            self._precisions = units.precisions(factors @ np.swapaxes(factors, -1, -2))
        self._shifts = shifts_of_fit(post) if "slopes" in post else None

    def __getitem__(self, draw: int) -> LatentPrior:
        z, rows = self._z[draw].astype(np.int64), slice(self._first[draw], self._first[draw + 1])
        shift = (
            np.zeros((len(z), self._means.shape[-1]))
            if self._shifts is None
            else self._shifts[draw]
        )
        precisions = None if self._precisions is None else self._precisions[rows]
        return LatentPrior(
            z,
            self._means[rows],
            precisions,
            self._base_means[draw],
            self._base_precisions[draw],
            shift,
        )

    def shifts(self, draws: NDArray[np.intp]) -> Array:
        """What a link adds to the vectors in some draws, (S, U, q); zeros without one."""
        shape = (len(draws), self._z.shape[1], self._means.shape[-1])
        return np.zeros(shape) if self._shifts is None else self._shifts[draws]


def left_out_densities(post: FitFacts, behavior: Behavior) -> Array | None:
    """ln p(observation | all others, draw), (chain, draw, n); None where a behavior cannot
    integrate latent vectors out."""
    parts = behavior.left_out_parts()
    if sum(len(part.left_out.outcome) for part in parts) < behavior.n_observations:
        return None
    values = []
    for drawn in draws_of(post, behavior):
        found = [
            part.left_out.predictive(*part.given(*drawn)).log_density(part.left_out.outcome)
            for part in parts
        ]
        values.append(np.concatenate(found))
    return np.array(values).reshape(post.n_chains, post.n_draws, -1)


def draws_of(
    post: FitFacts, behavior: Behavior, draws: Sequence[Any] | NDArray[np.intp] | None = None
) -> Iterator[tuple[LatentPrior, Params, Array]]:
    """The prior of latent vectors, the behavior's parameters and the vectors (U, q), in some draws,
    all by default."""
    priors, params = LatentPriors(post), {name: post.flat(name) for name in behavior.param_names}
    latent = post.flat("latent").reshape(post.n_chains * post.n_draws, post.n_users, -1)
    for draw in range(len(latent)) if draws is None else draws:
        own = {name: values[draw] for name, values in params.items()}
        yield priors[int(draw)], own, latent[draw]


def left_out_pairs(
    post: FitFacts, behavior: Behavior, rows: NDArray[np.intp]
) -> tuple[Array, Array] | None:
    """What observations (m,) tell about each other given all others, (m, m), averaged over draws,
    by two sets of them.

    None where a behavior has no joint distribution of its outcomes with the latent vectors
    integrated out.
    """
    parts, n_draws = behavior.left_out_parts(), post.n_chains * post.n_draws
    if len(parts) != 1:
        return None
    sums, counts = np.zeros((2, len(rows), len(rows))), np.zeros((2, 1, 1))
    draws = np.unique(np.linspace(0, n_draws - 1, _N_DRAWS).round().astype(np.intp))
    for i, drawn in enumerate(draws_of(post, behavior, draws)):
        found = parts[0].left_out.joint(*parts[0].given(*drawn)[:2], rows)
        if found is None:
            return None
        sums[i % 2] += mutual_information(*found)
        counts[i % 2] += 1.0
    first, second = sums / counts
    return first, second
