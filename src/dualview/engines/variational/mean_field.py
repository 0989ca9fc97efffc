"""q of everything, and the updates of its factors: q(z) q(α, weights) Π_views q(components, base)
q(f, parameters).

Each update makes one factor the best given the others, so that none lowers the bound, which is at
most ln p(data). A step makes them all in turn. responsibilities (K, U): q(z_u = k).

Users are in shards, of which those in memory are one. A step has two passes over their shards: one
makes q(z) and the sums that follow from it, the other the sums of latent vectors once these have
changed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.approximation.latent import LatentApproximation, SoftPrior
from dualview.behaviors.approximation.stepwise import stepwise
from dualview.engines.variational import clock
from dualview.engines.variational.responsibilities import (
    Base,
    Change,
    Given,
    GivenRows,
    Merged,
    Plane,
    Recipe,
    Reordered,
    Scores,
    Split,
    entropy_of,
    located,
    with_behavior,
)
from dualview.engines.variational.sharded.model import ShardedModel
from dualview.engines.variational.users import Answer, Users, UsersInMemory
from dualview.model import Model
from dualview.partitions.soft import SoftWeights
from dualview.views.approximation import Approximation
from dualview.views.soft_vectors import SoftVectors

Array = NDArray[np.float64]
Update = Callable[["MeanField"], "MeanField"]

_FIRST_ROUNDS = 5  # of updates with the first partition held
_LOOKED_AT = 500  # users by which components are told apart
_PULLS = "pulls"  # beside the sums of views
_NO_PULLS = np.empty((0, 0))

_ASSIGNED, _WEIGHED, _SOLVED, _WITH_PARAMS = map(
    methodcaller, ("assigned", "weighed", "solved", "with_params")
)


@dataclass(frozen=True)
class MeanField:
    """q of everything that a model learns.

    users: of the fit, with q of what is not observed of their vectors. recipe: how q(z) is made of
    all users. responsibilities (K, n): q(z) of the users who are looked at, in memory all. sums:
    over users, by view, those that are up to date, and pulls on latent vectors.
    """

    model: Model
    users: Users
    recipe: Recipe
    responsibilities: Array
    entropy: float
    counts: Array
    weights: SoftWeights
    views: Mapping[str, Approximation]
    latent: LatentApproximation | None
    sums: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def start(
        cls, model: Model, z: NDArray[np.int64], latent: LatentApproximation | None = None
    ) -> "MeanField":
        """From a partition z (U,)."""
        return cls.begun(model, Given(z, int(z.max()) + 1), latent)

    @classmethod
    def given(
        cls, model: Model, responsibilities: Array, latent: LatentApproximation | None = None
    ) -> "MeanField":
        """From q(z), (K, U)."""
        return cls.begun(model, GivenRows(responsibilities, entropy_of(responsibilities)), latent)

    @classmethod
    def begun(
        cls, model: Model, base: Base, latent: LatentApproximation | None = None
    ) -> "MeanField":
        """From q(z), held while everything else is updated some times; from a given q of latent
        vectors too."""
        if latent is None and model.likelihood is not None:
            latent = stepwise(model.likelihood.approximate())
        users, recipe = _users_of(model, base.n_components), Recipe(base)
        found = users.assess(recipe, {}, None, _NO_PULLS)
        recipe = users.kept(recipe, found)
        views = {}
        for name, view in model.views.items():
            if name in model.observed or latent is None:
                views[name] = users.approximate(view, name, recipe, joint=False)
            else:
                views[name] = users.approximate(view, latent.means, recipe, latent.joint)
        weights = model.partition.approximate(found.counts)
        q = cls(
            model, users, recipe, found.rows, found.entropy, found.counts, weights, views, latent
        )
        return q._completed()._settled(_FIRST_ROUNDS)

    @property
    def n_components(self) -> int:
        return len(self.responsibilities)

    @cached_property
    def _behavior(self) -> SoftVectors | None:
        """What q says of the latent vectors of all users."""
        if self.latent is None:
            return None
        return SoftVectors(self.latent.means, self.latent.covariances, self.latent.crosses)

    @cached_property
    def _looked_at(self) -> dict[str, SoftVectors]:
        """What q says of the vectors of the users who are looked at, by view."""
        some = self._behavior
        if some is not None:
            some = some.of_users(self.users.looked_at)
        return with_behavior(self.users.observed, some)

    def vectors(self, name: str) -> SoftVectors:
        """What q says of a view's vectors, of the users who are looked at."""
        return self._looked_at[name]

    def sums_of(self, name: str) -> Any:
        """The sums over users of a view, made when they are asked for."""
        if name not in self.sums:
            factors = {name: self.views[name].factors}
            self.sums[name] = self._assessed(factors, _NO_PULLS).sums[name]
        return self.sums[name]

    def _assessed(self, factors: Mapping[str, Any], pulls: Array) -> Answer:
        return self.users.assess(self.recipe, factors, self._behavior, pulls)

    def scores_of(self, model: Model) -> Array:
        """:meth:`table` of the users of another model with the same observed views, and no
        behavior, (K, U)."""
        users = UsersInMemory.of(model, self.n_components).completed(self.views)
        factors = {name: self.views[name].factors for name in model.observed}
        return Scores(self.weights.log_weights, factors, None).table(users.observed)

    def table(self) -> Array:
        """E ln weight_k + Σ_views E ln p(vector of u | k), (K, n), of the users who are looked
        at."""
        scores = Scores(self.weights.log_weights, self._factors, self._looked_at.get("behavior"))
        return scores.table(self.users.observed)

    @property
    def _factors(self) -> dict[str, Any]:
        return {name: view.factors for name, view in self.views.items()}

    def _completed(self) -> "MeanField":
        """q of hidden cells given the users' components."""
        return replace(self, users=self.users.completed(self.views), sums={})

    def assigned(self) -> "MeanField":
        """q(z) and q of hidden cells given z, (V1), and the sums that follow from it."""
        scores = Scores(self.weights.log_weights, self._factors, self._behavior)
        return self._completed().reassigned(Recipe(scores))

    def reassigned(self, recipe: Recipe) -> "MeanField":
        """q with q(z) by another recipe, and sums of the views that change next."""
        factors, pulls = self._factors, _NO_PULLS
        if self.together:  # latent vectors are solved for before their sums are asked for
            factors.pop("behavior", None)
        else:
            pulls = _pulls(factors["behavior"])
        found = self.users.assess(recipe, factors, self._behavior, pulls)
        sums = found.sums | {_PULLS: (factors.get("behavior"), found.pulls)}
        return replace(
            self,
            recipe=self.users.kept(recipe, found),
            responsibilities=found.rows,
            entropy=found.entropy,
            counts=found.counts,
            sums=sums,
        )

    def weighed(self) -> "MeanField":
        """q(α, weights)."""
        return replace(self, weights=self.model.partition.approximate(self.counts))

    def updated(self, name: str, update: str) -> "MeanField":
        """One factor of a view's q."""
        return replace(
            self, views={**self.views, name: getattr(self.views[name], update)(self.sums_of(name))}
        )

    def solved(self) -> "MeanField":
        """q(f), and q(μ) of its view where both are together, (V3)."""
        assert self.latent is not None
        view: Any = self.views["behavior"]
        latent: Any = self.latent
        if latent.joint:
            prior = SoftPrior(
                self.responsibilities,
                view.factors.precisions,
                view.base_precision.mean,
                view.base_mean,
                view.factors.means,
            )
            latent = latent.with_latent(prior)
            own = {
                "means": latent.component_means,
                "mean_covariances": latent.component_covariances,
            }
            view = replace(view, **own)
        else:
            latent = latent.with_pulls(*self._pulls_of(view.factors))
        sums = {name: part for name, part in self.sums.items() if name not in ("behavior", _PULLS)}
        return replace(self, latent=latent, views={**self.views, "behavior": view}, sums=sums)

    def _pulls_of(self, factors: Any) -> Array:
        """The precisions and pulls of latent coefficients that follow from q(z), (2, U)."""
        known, pulls = self.sums.get(_PULLS, (None, None))
        if known is None or any(a is not b for a, b in zip(known, factors, strict=True)):
            return self._assessed({}, _pulls(factors)).pulls
        return np.asarray(pulls)

    def with_params(self) -> "MeanField":
        """q of the likelihood's parameters, (V4)."""
        assert self.latent is not None
        return replace(self, latent=self.latent.with_params())

    def component_updates(self) -> Iterator[Update]:
        """Updates of everything but q(z), in the order of a step."""
        yield _WEIGHED
        for name, view in self.views.items():
            if name == "behavior":
                yield _SOLVED
            for update in view.updates():
                yield _of_view(name, update)
        if self.latent is not None:
            yield _WITH_PARAMS

    def updates(self) -> Iterator[Update]:
        """All updates of a step."""
        yield _ASSIGNED
        yield from self.component_updates()

    def step(self) -> "MeanField":
        """Every factor updated once."""
        found = self
        for update in self.updates():
            clock.check()
            found = update(found)
        return found

    @property
    def together(self) -> bool:
        """Whether components cannot change without q of the latent vectors, which has their
        means."""
        return self.latent is None or self.latent.joint

    def trial_step(self) -> "MeanField":
        """A step that leaves q of latent vectors and of the likelihood as it is, where it can."""
        return self.step() if self.together else self.assigned()._settled(1)

    def _settled(self, n_rounds: int) -> "MeanField":
        """All but q(z) updated some times; where it can, q of latent vectors and of the likelihood
        are left as well."""
        found, left = self, set() if self.together else {_SOLVED, _WITH_PARAMS}
        for _ in range(n_rounds):
            for update in self.component_updates():
                clock.check()
                found = found if update in left else update(found)
        return found

    @cached_property
    def bound(self) -> float:
        """The evidence lower bound: E ln p(data, everything) − E ln q(everything)."""
        total = (
            self.entropy + float(self.counts @ self.weights.log_weights) - self.weights.divergence
        )
        for name, view in self.views.items():
            total += view.fitted(self.sums_of(name)) + view.bound()
        return total if self.latent is None else total + self.latent.bound()

    @cached_property
    def evidence(self) -> float:
        """A bound of ln p(data) by partitions: that of q and of the same q with its components in
        any other order.

        Orders are told apart by q(z) as far as pairs of components have different users: H(z |
        partition) is at most Σ_{k<l} ln(1 + b_kl), b the overlap of q(z) with itself after k and l
        have changed places (Kolchinsky and Tracey 2017), here from some of the users, which makes
        it no smaller.
        """
        total = self.bound + self.weights.log_orders
        roots = np.sqrt(
            self.responsibilities[:, :: max(1, self.responsibilities.shape[1] // _LOOKED_AT)]
        )
        for k in range(1, self.n_components):
            apart = np.log1p(-np.minimum((roots[:k] - roots[k]) ** 2, 1.0 - 1e-12)).sum(axis=1)
            total -= float(np.log1p(np.exp(apart)).sum())
        return total

    def sorted(self) -> "MeanField":
        """q with its components from the largest, where that raises the bound: sticks are broken
        from the largest."""
        order = np.argsort(-self.counts, kind="stable")
        if (order == np.arange(self.n_components)).all():
            return self
        found = self.reordered(order)
        return found if found.bound >= self.bound else self

    def numbers(self) -> list[Array]:
        """Numbers of every factor that changes slowly, for extrapolation."""
        parts = [view.numbers() for view in self.views.values()]
        return parts if self.latent is None else [*parts, self.latent.numbers()]

    def with_numbers(self, numbers: list[Array]) -> "MeanField":
        """q with these numbers in the place of its own."""
        views = {
            name: view.with_numbers(part)
            for (name, view), part in zip(self.views.items(), numbers, strict=False)
        }
        latent = None if self.latent is None else self.latent.with_numbers(numbers[-1])
        return replace(self, views=views, latent=latent)

    def _changed(self, recipe: Recipe, sources: NDArray[np.intp]) -> "MeanField":
        """q with other components, each begun from one of these: q(z) given, everything else
        updated from it."""
        views = {name: view.take(sources) for name, view in self.views.items()}
        found = replace(self, users=self.users.take(sources), views=views)
        return found.reassigned(recipe)._settled(2)

    def _after(self, change: Change, sources: NDArray[np.intp]) -> "MeanField":
        return self._changed(self.recipe.then(change, self._behavior), sources)

    def reordered(self, order: NDArray[np.intp]) -> "MeanField":
        """q with its components in another order."""
        return self._after(Reordered(order), order)

    def merged(self, k: int, other: int) -> "MeanField":
        """q with the users of another component in k."""
        return self._after(Merged(k, other), np.delete(np.arange(self.n_components), other))

    def deleted(self, k: int) -> "MeanField":
        """q without k, its users where they belong among the others."""
        kept = np.delete(np.arange(self.n_components), k)
        factors = {name: view.take(kept).factors for name, view in self.views.items()}
        behavior = None if self._behavior is None else self._behavior.take(kept)
        return self._changed(
            Recipe(Scores(self.weights.log_weights[kept], factors, behavior)), kept
        )

    def _only(self, k: int, names: list[str]) -> dict[str, Approximation]:
        """Some views with one component only."""
        return {name: self.views[name].take(np.array([k])) for name in names}

    def located(self, k: int, names: list[str]) -> Array:
        """Where the users who are looked at are in some views, about the mean of component k and in
        units of its width, (n, …)."""
        return located(k, self._only(k, names), self._looked_at)

    def split(self, k: int, names: list[str], plane: Plane) -> "MeanField":
        """q with k in two parts, by the side of a plane that users are on in some views."""
        change = Split(k, self._only(k, names), plane)
        return self._after(change, np.append(np.arange(self.n_components), k))

    def drawn_labels(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Components of users drawn from q(z), (U,)."""
        return self.users.draw_labels(rng, self.recipe)


def _users_of(model: Model, n_components: int) -> Users:
    """The users of a model, in shards or in memory."""
    if isinstance(model, ShardedModel):
        assert model.users is not None
        return model.users
    return UsersInMemory.of(model, n_components)


def _pulls(factors: Any) -> Array:
    """E S_k and E S_k E μ_k of every component, (2, K)."""
    precisions = factors.precisions[:, 0, 0]
    return np.stack([precisions, precisions * factors.means[:, 0]])


def _of_view(name: str, update: str) -> Update:
    return lambda q: q.updated(name, update)
