"""How q(z) of any users is made: from parameters, a few numbers of each user, and changes of
components.

Rows of q(z) stay with the shard of their users. What travels is the recipe, from which a worker can
make them again at any time: when its memory is short, or in the place of another worker that has
died.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.engines.variational.mean_field import by_scores, entropy_of, merged_rows, split_rows
from dualview.engines.variational.two_means import Plane
from dualview.views import verbs
from dualview.views.soft_vectors import SoftVectors

Array = NDArray[np.float64]

_numbers = itertools.count()


class Latent(NamedTuple):
    """Means and variances of the users' coefficients under q, (U,) each."""

    means: Array
    variances: Array

    def cut(self, users: slice) -> "Latent":
        return Latent(self.means[users], self.variances[users])

    @property
    def vectors(self) -> SoftVectors:
        return SoftVectors(self.means[:, None], self.variances[:, None, None])


def vectors_of(features: Array, latent: Latent | None) -> dict[str, SoftVectors]:
    """What the views look at, by their names."""
    found = {"features": SoftVectors(features)}
    return found if latent is None else found | {"behavior": latent.vectors}


class Scores(NamedTuple):
    """q(z) by expected scores, (V1): E ln weights (K,), and the factors of each view."""

    log_weights: Array
    factors: Mapping[str, Any]
    latent: Latent | None

    def cut(self, users: slice) -> "Scores":
        return self if self.latent is None else self._replace(latent=self.latent.cut(users))

    def rows(self, features: Array) -> tuple[Array, float]:
        """q(z) (K, U) and its entropy."""
        return by_scores(self.table(features))

    def table(self, features: Array) -> Array:
        """Expected scores (K, U)."""
        table = np.repeat(self.log_weights[:, None], len(features), axis=1)
        for name, vectors in vectors_of(features, self.latent).items():
            verbs.expected_score(table, vectors, self.factors[name])
        return table


class Nearest(NamedTuple):
    """Every user in the component with the nearest centre (K, D)."""

    centres: Array

    def cut(self, users: slice) -> "Nearest":  # noqa: ARG002
        return self

    def rows(self, features: Array) -> tuple[Array, float]:
        distances = np.stack([((features - centre) ** 2).sum(axis=1) for centre in self.centres])
        return _one_each(distances.argmin(axis=0), len(self.centres)), 0.0


class Given(NamedTuple):
    """Every user in a component that is given, labels (U,)."""

    labels: NDArray[np.int64]
    n_components: int

    def cut(self, users: slice) -> "Given":
        return Given(self.labels[users], self.n_components)

    def rows(self, features: Array) -> tuple[Array, float]:  # noqa: ARG002
        return _one_each(self.labels, self.n_components), 0.0


def _one_each(labels: NDArray[np.int64], n_components: int) -> Array:
    rows = np.zeros((n_components, len(labels)))
    rows[labels, np.arange(len(labels))] = 1.0
    return rows


class Reordered(NamedTuple):
    """Components in another order."""

    order: NDArray[np.intp]

    def __call__(self, rows: Array, features: Array, latent: Latent | None) -> Array:  # noqa: ARG002
        return np.asarray(rows[self.order])


class Merged(NamedTuple):
    """The users of another component in k."""

    k: int
    other: int

    def __call__(self, rows: Array, features: Array, latent: Latent | None) -> Array:  # noqa: ARG002
        return merged_rows(rows, self.k, self.other)


class Split(NamedTuple):
    """k in two parts, by the side of a plane in some views, which are those of this one
    component."""

    k: int
    views: Mapping[str, Any]
    plane: Plane

    def __call__(self, rows: Array, features: Array, latent: Latent | None) -> Array:
        vectors = vectors_of(features, latent)
        x = np.hstack([view.whitened(0, vectors[name].means) for name, view in self.views.items()])
        return split_rows(rows, self.k, self.plane.is_above(x))


@dataclass(frozen=True)
class Recipe:
    """How q(z) is made: a base, then changes. latent: q of coefficients that the changes look
    at."""

    base: Scores | Nearest | Given
    changes: tuple[Reordered | Merged | Split, ...] = ()
    latent: Latent | None = None
    number: int = field(default_factory=lambda: next(_numbers))

    def then(self, change: Reordered | Merged | Split, latent: Latent | None) -> "Recipe":
        """With one more change."""
        return Recipe(self.base, (*self.changes, change), latent)

    def cut(self, users: slice) -> "Recipe":
        """For some of the users."""
        latent = None if self.latent is None or not self.changes else self.latent.cut(users)
        return replace(self, base=self.base.cut(users), latent=latent)

    def rows(self, features: Array) -> tuple[Array, float]:
        """q(z) (K, U) of users with these features, and its entropy."""
        rows, entropy = self.base.rows(features)
        if not self.changes:
            return rows, entropy
        for change in self.changes:
            rows = change(rows, features, self.latent)
        return rows, entropy_of(rows)
