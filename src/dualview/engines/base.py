"""The door of every engine: what chains ask of it, and what it answers.

An engine holds its own settings and no state. Chains hand it the generator, the model and the
state, so that a chain can stop after any step and continue from a snapshot. z (U,) are clusters of
users.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.chains.storage import Record
from dualview.model import Model, State


class Info(NamedTuple):
    """What happened in one step or some.

    draws: those that a compiled call has kept. last: the last state, where it is a draw and not
    among them.
    """

    n_clusters: int
    n_opened: int
    n_steps: int
    draws: Record | None
    last: State | None


class Engine(ABC):
    """How the states of a chain succeed each other."""

    @abstractmethod
    def start(self, rng: np.random.Generator, model: Model, z: NDArray[np.int64]) -> State:
        """A first state with the clusters z (U,)."""

    @abstractmethod
    def advance(
        self, rng: np.random.Generator, model: Model, state: State, keep: NDArray[np.bool_]
    ) -> tuple[State, Info]:
        """The state after some steps, at least one and at most as many as keep (n,) is long, and
        what happened in them.

        keep says after which steps the state is a draw. The states must not depend on how many
        steps are asked for at once.
        """

    def steps_at_once(self, model: Model) -> int:  # noqa: ARG002
        """How many steps to ask :meth:`advance` for; between two calls a chain can stop and save
        itself. The default is 1."""
        return 1
