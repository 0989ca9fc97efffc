"""Observations left out one at a time: their densities in every draw, with the latent vectors integrated out."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors import Behavior
from dualview.behaviors.base import LatentPrior, LeftOutLaws

if TYPE_CHECKING:
    from dualview.posterior.posterior import Posterior

Array = NDArray[np.float64]


class LatentPriors:
    """The prior of the users' latent vectors in each draw of a posterior, in the user's units."""

    def __init__(self, post: "Posterior") -> None:
        self._z, self._pooled = post.flat("z"), post.pooling is not None
        units, n_draws = post.units["behavior"], post.n_chains * post.n_draws
        q = units.n_dims
        self._shifts: Array | None = None
        if "slopes" in post and post.features is not None:
            feature_units = post.units["features"]
            away = feature_units.to_working(post.features) @ feature_units.factor.T
            slopes = post.flat("slopes").reshape(n_draws, q, -1)
            self._shifts = np.einsum("sqd,ud->suq", slopes, away)
        if self._pooled:
            self._means = post.flat("behavior.base_mean").reshape(n_draws, q)
            self._precisions = post.flat("behavior.base_precision").reshape(n_draws, q, q)
            return
        table = post.components
        factors = table["behavior.factors"]
        self._first = np.searchsorted(table["owner"], np.arange(n_draws))
        self._means = units.vectors(table["behavior.means"])
        self._precisions = units.precisions(factors @ np.swapaxes(factors, -1, -2))

    def __getitem__(self, draw: int) -> LatentPrior:
        z = self._z[draw].astype(np.int64)
        shift = np.zeros((len(z), self._means.shape[-1])) if self._shifts is None else self._shifts[draw]
        if self._pooled:
            n_clusters = int(z.max()) + 1
            means, precision = self._means[draw], self._precisions[draw]
            return LatentPrior(z, np.tile(means, (n_clusters, 1)), np.tile(precision, (n_clusters, 1, 1)), shift)
        rows = self._first[draw] + z
        none = np.zeros_like(shift)
        return LatentPrior(np.arange(len(z)), self._means[rows] + shift, self._precisions[rows], none)


def left_out_laws(post: "Posterior", behavior: Behavior, draws: Sequence[int] | None = None) -> Iterator[LeftOutLaws] | None:
    """The distribution of each observation given all others in some draws, all by default; None where a behaviour has none."""
    left_out = behavior.left_out()
    if left_out is None:
        return None
    chosen = range(post.n_chains * post.n_draws) if draws is None else draws
    priors, params = LatentPriors(post), {name: post.flat(name) for name in behavior.param_names}
    latent = post.flat("latent").reshape(post.n_chains * post.n_draws, post.n_users, -1)

    def laws() -> Iterator[LeftOutLaws]:
        for draw in chosen:
            own: dict[str, Any] = {name: values[draw] for name, values in params.items()}
            yield left_out.laws(priors[draw], own, latent[draw])

    return laws()


def left_out_densities(post: "Posterior", behavior: Behavior) -> Array | None:
    """ln p(observation | all others, draw), (chain, draw, n); None where a behaviour cannot integrate latent vectors out."""
    laws = left_out_laws(post, behavior)
    if laws is None:
        return None
    values = np.array([law.log_density(behavior.observed) for law in laws])
    return values.reshape(post.n_chains, post.n_draws, -1)
