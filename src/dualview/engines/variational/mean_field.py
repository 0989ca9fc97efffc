"""q of everything, and the updates of its factors: q(z) q(α, weights) Π_views q(components, base)
q(f, parameters).

Each update makes one factor the best given the others, so that none lowers the bound, which is at
most ln p(data). A step makes them all in turn. responsibilities (K, U): q(z_u = k).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.soft import LatentApproximation, SoftPrior
from dualview.engines.variational.two_means import Plane
from dualview.model import Model
from dualview.partitions.soft import SoftWeights
from dualview.views import verbs
from dualview.views.approximation import Approximation
from dualview.views.soft_vectors import SoftVectors

Array = NDArray[np.float64]
Update = Callable[["MeanField"], "MeanField"]

_FIRST_ROUNDS = 5  # of updates with the first partition held
_LOOKED_AT = 500  # users by which components are told apart

_ASSIGNED, _WEIGHED, _SOLVED, _WITH_PARAMS = map(
    methodcaller, ("assigned", "weighed", "solved", "with_params")
)


@dataclass(frozen=True)
class MeanField:
    """q of everything that a model learns. sums: over users, by view, those that are up to date.

    seen: what q says of the vectors of observed views, of which some cells may be hidden. q of
    these cells, given the users' components, belongs to the factor q(z).
    """

    model: Model
    responsibilities: Array
    entropy: float
    weights: SoftWeights
    views: Mapping[str, Approximation]
    latent: LatentApproximation | None
    seen: Mapping[str, SoftVectors]
    sums: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def start(
        cls, model: Model, z: NDArray[np.int64], latent: LatentApproximation | None = None
    ) -> "MeanField":
        """From a partition z (U,), held while everything else is updated some times; from a given q
        of latent vectors too."""
        responsibilities = np.zeros((int(z.max()) + 1, len(z)))
        responsibilities[z, np.arange(len(z))] = 1.0
        return cls.given(model, responsibilities, latent)

    @classmethod
    def given(
        cls, model: Model, responsibilities: Array, latent: LatentApproximation | None = None
    ) -> "MeanField":
        """From q(z), held while everything else is updated some times; from a given q of latent
        vectors too."""
        if latent is None and model.likelihood is not None:
            latent = model.likelihood.approximate()
        vectors = {name: seen.vectors for name, seen in model.observed.items()}
        if latent is not None:
            vectors["behavior"] = latent.means
        joint = latent is not None and latent.joint
        views = {
            name: view.approximate(vectors[name], responsibilities, joint and name == "behavior")
            for name, view in model.views.items()
        }
        weights = model.partition.approximate(responsibilities.sum(axis=1))
        seen = {
            name: own.view.soft_vectors(own.vectors, len(responsibilities))
            for name, own in model.observed.items()
        }
        found = cls(
            model, responsibilities, entropy_of(responsibilities), weights, views, latent, seen
        )
        return found._completed()._settled(_FIRST_ROUNDS)

    @property
    def n_components(self) -> int:
        return len(self.responsibilities)

    @cached_property
    def counts(self) -> Array:
        """Expected users of every component, (K,)."""
        return np.asarray(self.responsibilities.sum(axis=1))

    def vectors(self, name: str) -> SoftVectors:
        """What q says of a view's vectors."""
        if name != "behavior" or self.latent is None:
            return self.seen[name]
        return SoftVectors(self.latent.means, self.latent.covariances, self.latent.crosses)

    def sums_of(self, name: str) -> Any:
        """The sums over users of a view, made when they are asked for."""
        if name not in self.sums:
            self.sums[name] = verbs.absorb(
                self.responsibilities, self.vectors(name), self.views[name].factors
            )
        return self.sums[name]

    def scores_of(self, model: Model) -> Array:
        """:meth:`table` of the users of another model with the same observed views, and no
        behavior, (K, U)."""
        table = np.repeat(self.weights.log_weights[:, None], model.n_users, axis=1)
        for name, own in model.observed.items():
            vectors = self.views[name].completed(
                own.view.soft_vectors(own.vectors, self.n_components)
            )
            verbs.expected_score(table, vectors, self.views[name].factors)
        return table

    def table(self) -> Array:
        """E ln weight_k + Σ_views E ln p(vector of u | k), (K, U)."""
        table = np.repeat(self.weights.log_weights[:, None], self.responsibilities.shape[1], axis=1)
        for name, view in self.views.items():
            verbs.expected_score(table, self.vectors(name), view.factors)
        return table

    def _completed(self) -> "MeanField":
        """q of hidden cells given the users' components."""
        return replace(
            self,
            seen={name: self.views[name].completed(vectors) for name, vectors in self.seen.items()},
            sums={},
        )

    def assigned(self) -> "MeanField":
        """q(z) and q of hidden cells given z, (V1)."""
        found = self._completed()
        responsibilities, entropy = by_scores(found.table())
        return replace(found, responsibilities=responsibilities, entropy=entropy, sums={})

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
        prior = SoftPrior(
            self.responsibilities,
            view.factors.precisions,
            view.base_precision.mean,
            view.base_mean,
            view.factors.means,
        )
        latent = self.latent.with_latent(prior)
        if latent.joint:
            view = replace(
                view, means=latent.component_means, mean_covariances=latent.component_covariances
            )
        sums = {name: part for name, part in self.sums.items() if name != "behavior"}
        return replace(self, latent=latent, views={**self.views, "behavior": view}, sums=sums)

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

    def rearranged(self, responsibilities: Array, sources: NDArray[np.intp]) -> "MeanField":
        """q with other components, each begun from one of these: q(z) given, everything else
        updated from it."""
        views = {name: view.take(sources) for name, view in self.views.items()}
        seen = {name: vectors.take(sources) for name, vectors in self.seen.items()}
        entropy = entropy_of(responsibilities)
        found = replace(
            self,
            responsibilities=responsibilities,
            entropy=entropy,
            views=views,
            seen=seen,
            sums={},
        )
        return found._settled(2)

    def reordered(self, order: NDArray[np.intp]) -> "MeanField":
        """q with its components in another order."""
        return self.rearranged(self.responsibilities[order], order)

    def merged(self, k: int, other: int) -> "MeanField":
        """q with the users of another component in k."""
        kept = np.delete(np.arange(self.n_components), other)
        return self.rearranged(merged_rows(self.responsibilities, k, other), kept)

    def deleted(self, k: int, table: Array) -> "MeanField":
        """q without k, its users where they belong among the others; table: scores (K, U)."""
        kept = np.delete(np.arange(self.n_components), k)
        return self.rearranged(by_scores(table[kept])[0], kept)

    def located(self, k: int, names: list[str]) -> Array:
        """Where users are in some views, about the mean of component k and in units of its width,
        (U, …)."""
        return np.hstack(
            [self.views[name].whitened(k, self.vectors(name).of_component(k)) for name in names]
        )

    def split(self, k: int, names: list[str], plane: Plane) -> "MeanField":
        """q with k in two parts, by the side of a plane that users are on in some views."""
        sources = np.append(np.arange(self.n_components), k)
        return self.rearranged(
            split_rows(self.responsibilities, k, plane.is_above(self.located(k, names))), sources
        )

    def drawn_labels(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Components of users drawn from q(z), (U,)."""
        uniform = rng.random(self.model.n_users) * self._cumulative[-1]
        return labels_below(uniform, self._cumulative)

    @cached_property
    def _cumulative(self) -> Array:
        """Σ_{l ≤ k} q(z_u = l), (K, U)."""
        return np.asarray(np.cumsum(self.responsibilities, axis=0))


def by_scores(table: Array) -> tuple[Array, float]:
    """In place: responsibilities (K, U) in proportion to the exponentials of a table of scores, and
    their entropy."""
    table -= table.max(axis=0)
    responsibilities = np.exp(table)
    totals = responsibilities.sum(axis=0)
    responsibilities /= totals
    return responsibilities, float(
        np.log(totals).sum() - np.einsum("ku,ku->", responsibilities, table)
    )


def labels_below(uniform: Array, cumulative: Array) -> NDArray[np.int64]:
    """The component whose share of the cumulative responsibilities (K, U) each of some numbers (U,)
    falls into."""
    return np.asarray(
        np.minimum((uniform >= cumulative).sum(axis=0), len(cumulative) - 1), dtype=np.int64
    )


def merged_rows(responsibilities: Array, k: int, other: int) -> Array:
    """Responsibilities with those of another component added to k's, and without it."""
    found = responsibilities.copy()
    found[k] += found[other]
    return np.delete(found, other, axis=0)


def split_rows(responsibilities: Array, k: int, side: NDArray[np.bool_]) -> Array:
    """Responsibilities with those of k for users on one side (U,), and of a last component for the
    others."""
    found = np.vstack([responsibilities, responsibilities[k]])
    found[k] *= side
    found[-1] *= ~side
    return found


def entropy_of(responsibilities: Array) -> float:
    """−Σ q(z_u = k) ln q(z_u = k)."""
    return -float(
        np.sum(responsibilities * np.log(np.maximum(responsibilities, np.finfo(float).tiny)))
    )


def _of_view(name: str, update: str) -> Update:
    return lambda q: q.updated(name, update)
