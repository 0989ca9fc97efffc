"""q(z), and how it is made of any users: from parameters, a few numbers of each user, and changes
of components.

Rows q(z_u = k), (K, U), stay with the shard of their users. What travels is the recipe, from which
a worker can make them again at any time: when its memory is short, or in the place of another
worker that has died. Of users in memory the rows are their own recipe (``GivenRows``).

vectors: what q says of the users' vectors, by view.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.views import verbs
from dualview.views.soft_vectors import SoftVectors

Array = NDArray[np.float64]
Vectors = Mapping[str, SoftVectors]

_LLOYD = 10  # rounds of two means

_numbers = itertools.count()


def with_behavior(observed: Vectors, behavior: SoftVectors | None) -> dict[str, SoftVectors]:
    """The vectors of all views."""
    return dict(observed) if behavior is None else {**observed, "behavior": behavior}


class Scores(NamedTuple):
    """q(z) by expected scores, (V1): E ln weights (K,), the factors of each view, and q of latent
    vectors."""

    log_weights: Array
    factors: Mapping[str, Any]
    behavior: SoftVectors | None

    @property
    def n_components(self) -> int:
        return len(self.log_weights)

    def of_users(self, users: slice) -> "Scores":
        return (
            self if self.behavior is None else self._replace(behavior=self.behavior.of_users(users))
        )

    def rows(self, observed: Vectors) -> tuple[Array, float]:
        return by_scores(self.table(observed))

    def table(self, observed: Vectors) -> Array:
        """E ln weight_k + Σ_views E ln p(vector of u | k), (K, U)."""
        vectors = with_behavior(observed, self.behavior)
        n_users = len(next(iter(vectors.values())).means)
        table = np.repeat(self.log_weights[:, None], n_users, axis=1)
        for name, factors in self.factors.items():
            verbs.expected_score(table, vectors[name], factors)
        return table


class Nearest(NamedTuple):
    """Every user in the component whose center (K, D) its features are nearest to."""

    centers: Array

    @property
    def n_components(self) -> int:
        return len(self.centers)

    def of_users(self, users: slice) -> "Nearest":  # noqa: ARG002
        return self

    def rows(self, observed: Vectors) -> tuple[Array, float]:
        x = observed["features"].means
        distances = np.stack([((x - center) ** 2).sum(axis=1) for center in self.centers])
        return _one_each(distances.argmin(axis=0), len(self.centers)), 0.0


class Given(NamedTuple):
    """Every user in a component that is given, labels (U,)."""

    labels: NDArray[np.int64]
    n_components: int

    def of_users(self, users: slice) -> "Given":
        return Given(self.labels[users], self.n_components)

    def rows(self, observed: Vectors) -> tuple[Array, float]:  # noqa: ARG002
        return _one_each(self.labels, self.n_components), 0.0


@dataclass(frozen=True)
class GivenRows:
    """q(z) itself, (K, U), and its entropy."""

    responsibilities: Array
    entropy: float

    @cached_property
    def cumulative(self) -> Array:
        """Σ_{l ≤ k} q(z_u = l), (K, U)."""
        return np.asarray(np.cumsum(self.responsibilities, axis=0))

    @property
    def n_components(self) -> int:
        return len(self.responsibilities)

    def of_users(self, users: slice) -> "GivenRows":
        own = self.responsibilities[:, users]
        return self if own.shape == self.responsibilities.shape else GivenRows(own, entropy_of(own))

    def rows(self, observed: Vectors) -> tuple[Array, float]:  # noqa: ARG002
        return self.responsibilities, self.entropy


def _one_each(labels: NDArray[np.int64], n_components: int) -> Array:
    rows = np.zeros((n_components, len(labels)))
    rows[labels, np.arange(len(labels))] = 1.0
    return rows


class Reordered(NamedTuple):
    """Components in another order."""

    order: NDArray[np.intp]

    def __call__(self, rows: Array, vectors: Vectors) -> Array:  # noqa: ARG002
        return np.asarray(rows[self.order])


class Merged(NamedTuple):
    """The users of another component in k."""

    k: int
    other: int

    def __call__(self, rows: Array, vectors: Vectors) -> Array:  # noqa: ARG002
        found = rows.copy()
        found[self.k] += found[self.other]
        return np.delete(found, self.other, axis=0)


class Plane(NamedTuple):
    """A plane through a point (D,) with a normal (D,)."""

    point: Array
    normal: Array

    def is_above(self, x: Array) -> NDArray[np.bool_]:
        """Which of some vectors (U, D) are on the side that the normal points to."""
        return np.asarray((x - self.point) @ self.normal > 0.0)


class Split(NamedTuple):
    """k in two parts, by the side of a plane that users are on in some views: those above stay,
    the others are a last component. views: with k as their only component."""

    k: int
    views: Mapping[str, Any]
    plane: Plane

    def __call__(self, rows: Array, vectors: Vectors) -> Array:
        side = self.plane.is_above(located(self.k, self.views, vectors))
        found = np.vstack([rows, rows[self.k]])
        found[self.k] *= side
        found[-1] *= ~side
        return found


def located(k: int, views: Mapping[str, Any], vectors: Vectors) -> Array:
    """Where users are in some views, about the mean of component k and in units of its width,
    (U, …). views: with k as their only component."""
    return np.hstack(
        [view.whitened(0, vectors[name].of_component(k)) for name, view in views.items()]
    )


Base = Scores | Nearest | Given | GivenRows
Change = Reordered | Merged | Split


@dataclass(frozen=True)
class Recipe:
    """How q(z) is made: a base, then changes. behavior: q of latent vectors that the changes look
    at."""

    base: Base
    changes: tuple[Change, ...] = ()
    behavior: SoftVectors | None = None
    number: int = field(default_factory=lambda: next(_numbers))

    def then(self, change: Change, behavior: SoftVectors | None) -> "Recipe":
        """With one more change."""
        return Recipe(self.base, (*self.changes, change), behavior)

    def of_users(self, users: slice) -> "Recipe":
        """For some of the users."""
        behavior = self.behavior if self.changes else None
        if behavior is not None:
            behavior = behavior.of_users(users)
        return replace(self, base=self.base.of_users(users), behavior=behavior)

    def rows(self, observed: Vectors) -> tuple[Array, float]:
        """q(z) (K, U) of users with these vectors, and its entropy."""
        rows, entropy = self.base.rows(observed)
        if not self.changes:
            return rows, entropy
        for change in self.changes:
            rows = change(rows, with_behavior(observed, self.behavior))
        return rows, entropy_of(rows)


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


def entropy_of(responsibilities: Array) -> float:
    """−Σ q(z_u = k) ln q(z_u = k)."""
    return -float(
        np.sum(responsibilities * np.log(np.maximum(responsibilities, np.finfo(float).tiny)))
    )


def two_means(x: Array, weights: Array) -> Plane:
    """The plane between two centers of weighted vectors x (U, D), from a cut across their longest
    direction."""
    total = weights.sum()
    center = weights @ x / total
    away = x - center
    plane = Plane(center, np.linalg.eigh((away * weights[:, None]).T @ away)[1][:, -1])
    for _ in range(_LLOYD):
        side = plane.is_above(x)
        first, second = weights * side, weights * ~side
        if min(first.sum(), second.sum()) <= 1e-6 * total:
            break
        ends = first @ x / first.sum(), second @ x / second.sum()
        plane = Plane(0.5 * (ends[0] + ends[1]), ends[0] - ends[1])
    return plane


def bimodality(x: Array, weights: Array, plane: Plane) -> float:
    """Nats by which two normal clusters, one on each side of a plane, explain weighted vectors x
    (U, D) better than one does, across the plane; less those that say who is on which side."""
    away = (x - plane.point) @ plane.normal
    side, total = away > 0.0, float(weights.sum())
    share = float(weights @ side) / total
    if not 0.0 < share < 1.0:
        return -np.inf
    centers = weights @ (away * side) / (share * total), weights @ (away * ~side) / total
    whole = weights @ (away - weights @ away / total) ** 2
    within = weights @ (away - np.where(side, centers[0], centers[1] / (1.0 - share))) ** 2
    of_sides = share * np.log(share) + (1.0 - share) * np.log1p(-share)
    spread = (within + whole / total) / (whole * (1.0 + 1.0 / total))  # never none
    return float(total * (of_sides - 0.5 * np.log(spread)))
