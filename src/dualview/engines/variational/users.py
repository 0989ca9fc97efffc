"""The users of a fit as an ascent sees them: in shards, of which those in memory are one.

Sums over users are asked of each shard, and added up in the order of shards. Everything that users
share is in this process, and so are vectors with a number for each user.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dualview.engines.variational.responsibilities import GivenRows, Recipe, Vectors, with_behavior
from dualview.model import Model
from dualview.views import verbs
from dualview.views.approximation import Approximation
from dualview.views.soft_vectors import SoftVectors

Array = NDArray[np.float64]
Places = slice | NDArray[np.int64]


class UserShard(Protocol):
    """Some users in one place. observed: what q says of the vectors of the observed views."""

    @property
    def observed(self) -> Vectors: ...

    def rows(self, recipe: Recipe) -> tuple[Array, float]:
        """q(z) of the users, (K, U), and its entropy."""


class Asked(NamedTuple):
    """What is asked of q(z): sums of these views about their factors, pulls on latent vectors, the
    rows of some users.

    behavior: q of latent vectors; None where there is no behavior. pulls (n, K): numbers of every
    component, to be averaged for each user. looked_at: places in the shard.
    """

    recipe: Recipe
    factors: Mapping[str, Any]
    behavior: SoftVectors | None
    pulls: Array
    looked_at: Places


class Answer(NamedTuple):
    """q(z): its entropy, expected users (K,) of components, and rows of some users, (K, n); sums by
    view; pulls on every user, (n, U)."""

    entropy: float
    counts: Array
    rows: Array
    sums: dict[str, Any]
    pulls: Array


def assess(shard: UserShard, asked: Asked) -> Answer:
    """q(z) of a shard's users, and what others need of it."""
    rows, entropy = shard.rows(asked.recipe)
    vectors = with_behavior(shard.observed, asked.behavior)
    sums = {
        name: verbs.absorb(rows, vectors[name], factors) for name, factors in asked.factors.items()
    }
    pulls = np.array([own @ rows for own in asked.pulls]).reshape(-1, rows.shape[1])
    return Answer(entropy, rows.sum(axis=1), rows[:, asked.looked_at], sums, pulls)


def _draw_labels(shard: UserShard, asked: tuple[Recipe, Array]) -> NDArray[np.int32]:
    """Components of a shard's users from q(z), (U,), by uniform numbers (U,)."""
    recipe, uniform = asked
    base = recipe.base
    if isinstance(base, GivenRows) and not recipe.changes:
        cumulative = base.cumulative
    else:
        cumulative = np.cumsum(shard.rows(recipe)[0], axis=0)
    below = (uniform * cumulative[-1] >= cumulative).sum(axis=0)
    return np.asarray(np.minimum(below, len(cumulative) - 1), dtype=np.int32)


class Users(ABC):
    """All users of a fit. looked_at: those of whom this process sees features and q(z), by which
    starts and splits are worked out; all, where they are not too many. observed: what q says of
    their vectors in observed views."""

    n_users: int
    looked_at: Places
    observed: Vectors

    @abstractmethod
    def over(self, function: Callable[..., Any], argument: Callable[[slice], Any]) -> Iterator[Any]:
        """What a function of a shard and of an argument returns for each shard; argument: given
        where its users are among all."""

    @abstractmethod
    def looked_at_in(self, users: slice) -> Places:
        """Those of a shard, by their places in it."""

    @abstractmethod
    def approximate(
        self, view: Any, vectors: str | Array, recipe: Recipe, joint: bool
    ) -> Approximation:
        """q of a view's components to start from, given q(z). vectors: the name of an observed
        view, or latent vectors (U, q), which are taken for known."""

    def completed(self, views: Mapping[str, Approximation]) -> "Users":  # noqa: ARG002
        """The users with the best q of what is not observed of their vectors, where there is
        such."""
        return self

    def take(self, components: NDArray[np.intp]) -> "Users":  # noqa: ARG002
        """The users where q has these components only, in this order."""
        return self

    def kept(self, recipe: Recipe, answer: Answer) -> Recipe:  # noqa: ARG002
        """How q(z) is made from now on."""
        return recipe

    def assess(
        self,
        recipe: Recipe,
        factors: Mapping[str, Any],
        behavior: SoftVectors | None,
        pulls: Array,
    ) -> Answer:
        """What all shards say of q(z) together."""

        def asked(users: slice) -> Asked:
            own = None if behavior is None else behavior.of_users(users)
            return Asked(recipe.of_users(users), factors, own, pulls, self.looked_at_in(users))

        parts: list[Answer] = list(self.over(assess, asked))
        if len(parts) == 1:
            return parts[0]
        return Answer(
            sum(part.entropy for part in parts),
            added(part.counts for part in parts),
            np.hstack([part.rows for part in parts]),
            {name: added(part.sums[name] for part in parts) for name in factors},
            np.hstack([part.pulls for part in parts]),
        )

    def draw_labels(self, rng: np.random.Generator, recipe: Recipe) -> NDArray[np.int64]:
        """Components of all users drawn from q(z), (U,)."""
        uniform = rng.random(self.n_users)
        parts = self.over(_draw_labels, lambda users: (recipe.of_users(users), uniform[users]))
        return np.concatenate(list(parts)).astype(np.int64)


def added(parts: Iterable[Any]) -> Any:
    """The sum of numbers, arrays or records with a method ``plus``, in their order."""
    total = None
    for part in parts:
        if total is None:
            total = part
        else:
            total = total.plus(part) if hasattr(total, "plus") else total + part
    return total


@dataclass(frozen=True)
class UsersInMemory(Users):
    """One shard, in this process. observed: some cells may be hidden, and q of these, given the
    users' components, belongs to the factor q(z)."""

    n_users: int
    observed: Vectors

    looked_at = slice(None)

    @classmethod
    def of(cls, model: Model, n_components: int) -> "UsersInMemory":
        return cls(
            model.n_users,
            {
                name: own.view.soft_vectors(own.vectors, n_components)
                for name, own in model.observed.items()
            },
        )

    def rows(self, recipe: Recipe) -> tuple[Array, float]:
        return recipe.rows(self.observed)

    def over(self, function: Callable[..., Any], argument: Callable[[slice], Any]) -> Iterator[Any]:
        yield function(self, argument(slice(0, self.n_users)))

    def looked_at_in(self, users: slice) -> slice:  # noqa: ARG002
        return slice(None)

    def approximate(
        self, view: Any, vectors: str | Array, recipe: Recipe, joint: bool
    ) -> Approximation:
        x = self.observed[vectors].means if isinstance(vectors, str) else vectors
        found: Approximation = view.approximate(x, self.rows(recipe)[0], joint)
        return found

    def completed(self, views: Mapping[str, Approximation]) -> "UsersInMemory":
        return replace(
            self, observed={name: views[name].completed(own) for name, own in self.observed.items()}
        )

    def take(self, components: NDArray[np.intp]) -> "UsersInMemory":
        return replace(
            self, observed={name: own.take(components) for name, own in self.observed.items()}
        )

    def kept(self, recipe: Recipe, answer: Answer) -> Recipe:  # noqa: ARG002
        """The rows themselves: those of q are at hand."""
        return Recipe(GivenRows(answer.rows, answer.entropy))
