"""Categories of users: independent columns given the cluster.

codes (U, J): every user's level in every column, as whole numbers from 0; −1, or below, where it is
missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.numerics.streams import stream_of
from dualview.views.base import Array, Labels, View
from dualview.views.nominal import kind, splitting  # noqa: F401  (registers what splits and merges need)
from dualview.views.nominal.approximation import NominalApproximation
from dualview.views.nominal.conditionals import count_levels, draw_shares, log_concentrations
from dualview.views.nominal.kind import Nominal
from dualview.views.nominal.state import (
    NominalState,
    draw_levels,
    level_indicators,
    unit_indicators,
)


@dataclass(frozen=True)
class NominalView(View):
    """(M15). shares: g of every column, one array for each."""

    shares: tuple[tuple[float, ...], ...]

    @property
    def n_dims(self) -> int:  # type: ignore[override]
        """Columns."""
        return len(self.shares)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each column's levels begin (J + 1,)."""
        return np.cumsum([0, *(len(column) for column in self.shares)], dtype=np.int64)

    @cached_property
    def flat(self) -> Array:
        """g of all levels, column after column."""
        return np.array([share for column in self.shares for share in column], dtype=np.float64)

    @property
    def base_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"concentrations": (self.n_dims,)}

    @property
    def component_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"log_shares": (len(self.flat),)}

    def log_joint(self, state: NominalState, x: Array, z: Labels) -> float:
        """ln p(x, components, base | z) up to a constant."""
        return float(kind.log_density(z, 0.0, self.record(state, x, np.ascontiguousarray(x.T))))

    def log_base(self, parts: Mapping[str, Any]) -> float:
        """ln p(γ), (M15)."""
        concentrations = np.ascontiguousarray(parts["concentrations"])
        return float(log_concentrations(concentrations, self.starts))

    def start(
        self, rng: np.random.Generator, x: Array, z: Labels, n_components: int
    ) -> NominalState:
        """A state to start from: γ at its prior's center, θ drawn."""
        codes = np.ascontiguousarray(x.T).astype(np.int64)
        levels = count_levels(z, 0, len(z), codes, self.starts, n_components)
        return self._drawn(rng, levels, np.diff(self.starts).astype(np.float64))

    def approximate(self, x: Array, responsibilities: Array, joint: bool) -> NominalApproximation:  # noqa: ARG002
        """The best q given q(z)."""
        return NominalApproximation.start(self.shares, x, responsibilities)

    def draw_prior(self, rng: np.random.Generator, n_components: int) -> NominalState:
        """γ and θ from (M15)."""
        concentrations = np.diff(self.starts) / rng.chisquare(1.0, self.n_dims)
        return self._drawn(rng, np.zeros((n_components, len(self.flat))), concentrations)

    def _drawn(
        self, rng: np.random.Generator, levels: Array, concentrations: Array
    ) -> NominalState:
        """θ of components given their levels."""
        stream, logs = stream_of(rng), np.empty(levels.shape)
        for k in range(len(levels)):
            draw_shares(stream, levels[k], self.starts, self.flat, concentrations, logs[k])
        return NominalState(logs, concentrations)

    def simulate(self, rng: np.random.Generator, state: NominalState, z: Labels) -> Array:
        """Levels given the components' shares."""
        codes = np.empty((len(z), self.n_dims))
        for j in range(self.n_dims):
            shares = np.exp(state.logs[:, self.starts[j] : self.starts[j + 1]])
            codes[:, j] = draw_levels(rng, shares[z])
        return codes

    def design(self, x: Array) -> Array:
        """A column for every level, 1 less its share where users have it; 0 where the level is
        missing."""
        return level_indicators(x, self.shares)

    def start_vectors(self, x: Array) -> Array:
        """A column for every level, each nominal column with a total variance of 1."""
        return unit_indicators(x, self.shares)

    def observed(self, x: Array, before: Array) -> tuple["NominalView", Array]:
        """Levels as they would be observed: those that were missing are."""
        return self, np.where(before < 0.0, -1.0, x)

    def record(self, state: NominalState, x: Array, rows: Array) -> Nominal:  # noqa: ARG002
        """The state with its levels as the sampler sees it, its arrays copied."""
        return Nominal(
            rows.astype(np.int64),
            self.starts,
            self.flat,
            state.logs.copy(),
            state.concentrations.copy(),
            False,
        )

    def state(self, record: Nominal) -> NominalState:
        """What a sweep has left, as a state."""
        return NominalState(record.logs, record.concentrations)

    def restored(self, parts: dict[str, Any]) -> NominalState:
        """The state with these parts, by name."""
        return NominalState(parts["log_shares"], parts["concentrations"])


def no_columns(n_users: int, n_components: int) -> Nominal:
    """The record of a view of no columns."""
    starts, empty = np.zeros(1, dtype=np.int64), np.empty(0)
    return Nominal(
        np.empty((0, n_users), dtype=np.int64),
        starts,
        empty,
        np.empty((n_components, 0)),
        empty.copy(),
        False,
    )
