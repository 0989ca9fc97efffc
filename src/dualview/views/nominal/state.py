"""Everything a nominal view learns, as the rest of the package sees it; levels as numbers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.views.base import Array


class NominalState(NamedTuple):
    """Everything a nominal view learns: logs (K, Σ L_j), ln θ of every component, and the
    concentrations γ (J,)."""

    logs: Array
    concentrations: Array

    @property
    def component_parts(self) -> dict[str, Array]:
        return {"log_shares": self.logs}

    @property
    def base_parts(self) -> dict[str, Any]:
        return {"concentrations": self.concentrations}

    @property
    def n_components(self) -> int:
        return len(self.logs)


def level_indicators(codes: NDArray[Any], shares: Sequence[Sequence[float]]) -> Array:
    """A column for every level of every column (U, Σ L): 1 less its share where users have it, 0
    where it is missing."""
    parts = [np.empty((len(codes), 0))]
    for own, of_levels in zip(codes.T, shares, strict=True):
        centred = (own[:, None] == np.arange(len(of_levels))) - np.array(of_levels)
        parts.append(np.where(own[:, None] < 0, 0.0, centred))
    return np.hstack(parts)


def unit_indicators(codes: NDArray[Any], shares: Sequence[Sequence[float]]) -> Array:
    """The same, with a total variance of 1 of each column."""
    sds = [np.sqrt((np.array(own) * (1.0 - np.array(own))).sum()) for own in shares]
    return np.asarray(level_indicators(codes, shares) / np.repeat(sds, [*map(len, shares)]))


def draw_levels(rng: np.random.Generator, shares: Array) -> NDArray[np.int64]:
    """A level (…) by its share, of shares (…, L)."""
    cumulative = np.cumsum(shares, axis=-1)
    drawn = rng.random(cumulative.shape[:-1])[..., None] * cumulative[..., -1:]
    return np.asarray((drawn >= cumulative).sum(axis=-1))
