"""How much columns tell about each other: the mutual information of two of them in every draw.

In a draw i the features of a user have the density p_i, a mixture of all clusters and of a new one.
Two columns a and b tell about each other

    I_i(a, b) = E_i [ln p_i(a, b) − ln p_i(a) − ln p_i(b)]

nats. Where both have levels it is a sum over all pairs of them. Otherwise it is a mean over users
x_m from q, the average of all p_i, weighted by p_i(a, b)/q(a, b): the same users for all draws, so
that draws differ by their parameters and not by chance. The error of the means is estimated, and
users are added until it is small against the width of the interval over draws.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp

from dualview.checks import interval_ends
from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.cell_table import Array, CellTable, Place
from dualview.posterior.prediction.densities import log_by_draw
from dualview.posterior.prediction.simulation import drawn_values

N_POINTS = 512  # users at first, and each time that more are needed
_MOST_POINTS = 8192
_SMALL = 0.1  # of the width of an interval: an error that does not matter
_LEAST = 1e-3  # nats: nor does this


@dataclass(frozen=True)
class Dependence:
    """Mutual information of all pairs of columns, in nats: the result of
    ``DualViewMixture.dependence``.

    Attributes
    ----------
    columns : list of str
        Names of the columns, in the order of the table.
    probability : float
        Of the intervals.
    draws : array (S, D, D)
        Mutual information in each draw that was used; NaN on the diagonal.
    errors : array (D, D)
        Monte Carlo standard error of the means over draws; 0 where both columns have levels and
        the sum is exact.
    """

    columns: list[str]
    probability: float
    draws: Array
    errors: Array

    def _table(self, values: Array) -> pd.DataFrame:
        return pd.DataFrame(values, index=self.columns, columns=self.columns)

    @property
    def matrix(self) -> pd.DataFrame:
        """Posterior means, (D, D)."""
        return self._table(self.draws.mean(axis=0))

    @property
    def low(self) -> pd.DataFrame:
        """Lower ends of the intervals over draws."""
        return self._table(np.quantile(self.draws, interval_ends(self.probability)[0], axis=0))

    @property
    def high(self) -> pd.DataFrame:
        """Upper ends of the intervals over draws."""
        return self._table(np.quantile(self.draws, interval_ends(self.probability)[1], axis=0))

    @property
    def correlation(self) -> pd.DataFrame:
        """The same between 0 and 1: √(1 − e^{−2I}), which is the absolute correlation of two
        columns that are jointly normal (Linfoot 1957)."""
        return self._table(np.sqrt(-np.expm1(-2.0 * self.draws)).mean(axis=0))

    @property
    def pairs(self) -> pd.DataFrame:
        """A row for each pair, the strongest first: column, other, information, low, high,
        correlation, error."""
        rows, columns = np.triu_indices(len(self.columns), 1)
        names = np.asarray(self.columns, dtype=object)
        tables = {
            "information": self.matrix,
            "low": self.low,
            "high": self.high,
            "correlation": self.correlation,
        }
        found = {name: table.to_numpy()[rows, columns] for name, table in tables.items()}
        ends = {"column": names[rows], "other": names[columns]}
        whole = pd.DataFrame({**ends, **found, "error": self.errors[rows, columns]})
        return whole.sort_values("information", ascending=False, ignore_index=True)

    def __repr__(self) -> str:
        return (
            f"Dependence({len(self.columns)} columns, {len(self.draws)} draws; mutual information "
            f"in nats)\n{self.matrix.round(3)}"
        )

    def _repr_html_(self) -> str:
        return str(self.matrix.round(3).to_html())


def dependence_of(candidates: Candidates, nothing: CellTable, probability: float) -> Dependence:
    """Of all columns, in the draws of the candidates; nothing: a user of whom nothing is known."""
    interval_ends(probability)
    names = nothing.names
    draws = np.full((candidates.n_draws, len(names), len(names)), np.nan)
    errors = np.full((len(names), len(names)), np.nan)
    sampled = _Sampled(candidates, nothing, probability)
    for (i, one), (j, other) in combinations(enumerate(names), 2):
        places = nothing.places[one], nothing.places[other]
        if all(place.column.levels for place in places):
            found, error = _by_levels(candidates, nothing, *places), 0.0
        else:
            found, error = sampled.of(one, other)
        draws[:, i, j] = draws[:, j, i] = found
        errors[i, j] = errors[j, i] = error
    return Dependence(names, probability, draws, errors)


def _by_levels(candidates: Candidates, nothing: CellTable, one: Place, other: Place) -> Array:
    """Of two columns with levels, (N,), from the probabilities of all pairs."""
    sizes = len(one.column.levels), len(other.column.levels)
    first, second = (part.ravel() for part in np.indices(sizes))
    table = nothing.take(np.zeros(len(first), dtype=np.intp))
    table = table.at(one.column.name, *codes_at(one, first))
    table = table.at(other.column.name, *codes_at(other, second))
    log_joint = log_by_draw(candidates, table).reshape(*sizes, -1)
    log_joint = log_joint - logsumexp(log_joint, axis=(0, 1))
    ones, others = (logsumexp(log_joint, axis=axis, keepdims=True) for axis in (1, 0))
    gain = np.where(np.isfinite(log_joint), log_joint - ones - others, 0.0)
    return np.asarray(np.maximum((np.exp(log_joint) * gain).sum(axis=(0, 1)), 0.0))


def codes_at(place: Place, codes: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    """Cells of a column that have these levels, an array for each that holds them."""
    if place.arrays == ("low", "high"):
        return place.column.intervals(codes.astype(float))
    return (codes,) * len(place.arrays)


class _Sampled:
    """Pairs of columns by users from q. Users, and densities of single columns, are kept."""

    def __init__(self, candidates: Candidates, nothing: CellTable, probability: float) -> None:
        self._candidates, self._nothing = candidates, nothing
        self._ends = interval_ends(probability)
        self._users: list[CellTable] = []
        self._singles: dict[tuple[int, str], Array] = {}

    def _points(self) -> Iterator[int]:
        """Numbers of sets of users, made when first asked for."""
        for number in range(_MOST_POINTS // N_POINTS):
            if number == len(self._users):
                rng = np.random.default_rng([30, number])
                values = drawn_values(
                    rng, self._candidates, self._nothing, N_POINTS, independent=False
                )
                self._users.append(CellTable.of_values(self._nothing.post, values))
            yield number

    def _single(self, number: int, name: str) -> Array:
        key = number, name
        if key not in self._singles:
            self._singles[key] = log_by_draw(self._candidates, self._users[number].only(name))
        return self._singles[key]

    def of(self, one: str, other: str) -> tuple[Array, float]:
        """In every draw, (N,), and the standard error of the mean over draws."""
        values, weights = [], []
        found, error = np.empty(0), np.inf
        for number in self._points():
            joint = log_by_draw(self._candidates, self._users[number].only(one, other))
            values.append(joint - self._single(number, one) - self._single(number, other))
            log_q = logsumexp(joint, axis=1, keepdims=True) - np.log(joint.shape[1])
            weights.append(np.exp(joint - log_q))
            value, weight = np.concatenate(values), np.concatenate(weights)
            total = weight.sum(axis=0)
            found = (weight * value).sum(axis=0) / total
            away = (weight * (value - found) / total).mean(axis=1)
            error = float(np.sqrt((away**2).sum()))
            width = np.ptp(np.quantile(found, self._ends))
            if error < max(_SMALL * width, _LEAST):
                break
        return np.maximum(found, 0.0), error
