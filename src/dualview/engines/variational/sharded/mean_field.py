"""q of everything, where q(z) and the features are in shards.

A step has two passes over the shards of users: one makes q(z) and the sums that follow from it, the
other the sums of coefficients once these have changed. Between them conjugate gradients go over the
shards of threads. Everything that is shared is in the leading process, and so are vectors with a
number for each user.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.soft_many_threads import SoftManyThreads
from dualview.engines.variational.mean_field import MeanField
from dualview.engines.variational.sharded import work
from dualview.engines.variational.sharded.data import ShardedData
from dualview.engines.variational.sharded.model import ShardedModel
from dualview.engines.variational.sharded.recipes import (
    Given,
    Latent,
    Merged,
    Nearest,
    Recipe,
    Reordered,
    Scores,
    Split,
)
from dualview.engines.variational.sharded.work import Assessed, Assessment, First
from dualview.engines.variational.two_means import Plane
from dualview.views.soft_vectors import SoftVectors

Array = NDArray[np.float64]

_FIRST_ROUNDS = 5  # of updates with the first partition held
_PULLS, _COUNTS = "pulls", "counts"  # beside the sums of views


@dataclass(frozen=True)
class ShardedMeanField(MeanField):
    """q of a :class:`ShardedModel`. responsibilities (K, n): of the users who are looked at;
    recipe: how all others' are made.

    sums: besides those of views, the precisions and pulls of coefficients (2, U) that follow from
    q(z).
    """

    recipe: Recipe | None = None

    @classmethod
    def begun(
        cls, model: ShardedModel, base: Nearest | Given, latent: SoftManyThreads | None = None
    ) -> "ShardedMeanField":
        """From a partition, held while everything else is updated some times; from a given q of
        latent vectors too."""
        assert model.data is not None
        if latent is None and model.equations is not None:
            latent = SoftManyThreads.start(model.equations)
        recipe, soft = Recipe(base), _latent(latent)
        if soft is not None:  # a first q of components takes coefficients for known
            soft = soft._replace(variances=np.zeros_like(soft.variances))

        def with_latent(users: slice) -> tuple[Recipe, Latent | None]:
            return recipe.cut(users), None if soft is None else soft.cut(users)

        first = _summed(
            model.data.over_users(work.first_sums, lambda _number, users: with_latent(users))
        )
        assert isinstance(first, First)
        means = {
            name: total / np.maximum(first.counts, 1.0)[:, None]
            for name, total in first.totals.items()
        }
        spreads: dict[str, Array] = {}
        for part in model.data.over_users(
            work.spreads, lambda _number, users: (*with_latent(users), means)
        ):
            spreads = {name: spreads.get(name, 0.0) + spread for name, spread in part.items()}
        kinds: Any = model.views
        factors = {name: kinds[name].centres_at(own) for name, own in means.items()}
        found = _assessed(model.data, recipe, factors, soft, None)
        views = {
            name: kinds[name].approximate_sums(model.n_users, spreads[name], found.sums[name])
            for name in factors
        }
        weights = model.partition.approximate(first.counts)
        sums = {"features": found.sums["features"], _COUNTS: first.counts}
        q = cls(model, found.rows, found.entropy, weights, views, latent, {}, sums, recipe)
        return q._settled(_FIRST_ROUNDS)  # type: ignore[return-value]

    @property
    def data(self) -> ShardedData:
        assert isinstance(self.model, ShardedModel)
        assert self.model.data is not None
        return self.model.data

    @property
    def _soft(self) -> Latent | None:
        return _latent(self.latent)

    @cached_property
    def counts(self) -> Array:
        return np.asarray(self.sums[_COUNTS])

    def vectors(self, name: str) -> SoftVectors:
        """What q says of the vectors of the users who are looked at."""
        if name == "features":
            return SoftVectors(self.data.features)
        assert self._soft is not None
        some = self.data.looked_at
        return Latent(self._soft.means[some], self._soft.variances[some]).vectors

    def sums_of(self, name: str) -> Any:
        if name not in self.sums:
            assert self.recipe is not None
            found = _assessed(
                self.data, self.recipe, {name: self.views[name].factors}, self._soft, None
            )
            self.sums[name] = found.sums[name]
        return self.sums[name]

    def assigned(self) -> "ShardedMeanField":
        """q(z), (V1), and all sums that follow from it."""
        factors = {name: view.factors for name, view in self.views.items()}
        return self._with(Recipe(Scores(self.weights.log_weights, factors, self._soft)))

    def _with(self, recipe: Recipe) -> "ShardedMeanField":
        """q with q(z) by another recipe."""
        factors = {name: view.factors for name, view in self.views.items()}
        pulls = _pulls(factors["behavior"]) if "behavior" in factors else None
        found = _assessed(self.data, recipe, factors, self._soft, pulls)
        counts = next(iter(found.sums.values())).counts
        sums = found.sums | {_COUNTS: counts, _PULLS: (factors.get("behavior"), found.pulls)}
        return replace(
            self, recipe=recipe, responsibilities=found.rows, entropy=found.entropy, sums=sums
        )

    def solved(self) -> "ShardedMeanField":
        """q(f), (V3)."""
        assert isinstance(self.latent, SoftManyThreads)
        assert self.recipe is not None
        factors, (known, pulls) = (
            self.views["behavior"].factors,
            self.sums.get(_PULLS, (None, None)),
        )
        if known is None or any(a is not b for a, b in zip(known, factors, strict=True)):
            pulls = _assessed(self.data, self.recipe, {}, self._soft, _pulls(factors)).pulls
        sums = {name: part for name, part in self.sums.items() if name not in ("behavior", _PULLS)}
        return replace(self, latent=self.latent.with_pulls(pulls[0], pulls[1]), sums=sums)

    def _changed(self, recipe: Recipe, sources: NDArray[np.intp]) -> "ShardedMeanField":
        """q with other components, each begun from one of these."""
        views = {name: view.take(sources) for name, view in self.views.items()}
        return replace(self, views=views)._with(recipe)._settled(2)  # type: ignore[return-value]

    def reordered(self, order: NDArray[np.intp]) -> "ShardedMeanField":
        assert self.recipe is not None
        return self._changed(self.recipe.then(Reordered(order), self._soft), order)

    def merged(self, k: int, other: int) -> "ShardedMeanField":
        assert self.recipe is not None
        kept = np.delete(np.arange(self.n_components), other)
        return self._changed(self.recipe.then(Merged(k, other), self._soft), kept)

    def deleted(self, k: int, table: Array) -> "ShardedMeanField":  # noqa: ARG002
        kept = np.delete(np.arange(self.n_components), k)
        factors = {name: view.take(kept).factors for name, view in self.views.items()}
        return self._changed(
            Recipe(Scores(self.weights.log_weights[kept], factors, self._soft)), kept
        )

    def split(self, k: int, names: list[str], plane: Plane) -> "ShardedMeanField":
        assert self.recipe is not None
        own = np.array([k])
        change = Split(k, {name: self.views[name].take(own) for name in names}, plane)
        return self._changed(
            self.recipe.then(change, self._soft), np.append(np.arange(self.n_components), k)
        )

    def drawn_labels(self, rng: np.random.Generator) -> NDArray[np.int64]:
        assert self.recipe is not None
        recipe, seed = self.recipe, int(rng.integers(2**63))
        parts = self.data.over_users(
            work.draw_labels, lambda _number, users: (recipe.cut(users), seed)
        )
        return np.concatenate(list(parts)).astype(np.int64)


def _latent(latent: Any) -> Latent | None:
    """Means and variances of coefficients under q."""
    return None if latent is None else Latent(latent.means[:, 0], latent.covariances[:, 0, 0])


def _pulls(factors: Any) -> Array:
    """E S_k and E S_k E μ_k of every component, (2, K)."""
    precisions = factors.precisions[:, 0, 0]
    return np.stack([precisions, precisions * factors.means[:, 0]])


def _summed(parts: Any) -> Any:
    """The sum of records, in their order."""
    total = None
    for part in parts:
        total = part if total is None else total.plus(part)
    return total


def _assessed(
    data: ShardedData,
    recipe: Recipe,
    factors: dict[str, Any],
    latent: Latent | None,
    pulls: Array | None,
) -> Assessed:
    """What all shards say of q(z) together."""

    def asked(_number: int, users: slice) -> Assessment:
        own = None if latent is None else latent.cut(users)
        return Assessment(recipe.cut(users), factors, own, pulls, data.looked_at_in(users))

    entropy, sums, all_pulls, rows = 0.0, dict[str, Any](), [], []
    for part in data.over_users(work.assess, asked):
        entropy += part.entropy
        sums = {
            name: own if name not in sums else sums[name].plus(own)
            for name, own in part.sums.items()
        }
        all_pulls.append(part.pulls)
        rows.append(part.rows)
    found = None if pulls is None else np.hstack(all_pulls)
    return Assessed(entropy, sums, found, np.hstack(rows))
