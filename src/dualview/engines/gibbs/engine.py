"""The Gibbs sampler as an engine."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dualview.engines.base import Engine, Info
from dualview.engines.gibbs import step as gibbs
from dualview.model import Model, State


@dataclass(frozen=True)
class GibbsEngine(Engine):
    """Every step redraws each block of the state given the others (``inference.gibbs``).

    n_auxiliary: auxiliary components that stand ready for new clusters (Neal 2000, algorithm 8).
    """

    n_auxiliary: int = 3

    def start(self, rng: np.random.Generator, model: Model, z: NDArray[np.int64]) -> State:
        """A first state with the clusters z (U,)."""
        return gibbs.start(rng, model, z)

    def advance(self, rng: np.random.Generator, model: Model, state: State, keep: NDArray[np.bool_]) -> tuple[State, Info]:
        """Some steps: many in one compiled call where the likelihood can be redrawn inside it, else one."""
        return gibbs.advance(rng, model, state, self.n_auxiliary, keep)

    def steps_at_once(self, model: Model) -> int:
        """What takes some hundredths of a second."""
        return gibbs.steps_at_once(model)
