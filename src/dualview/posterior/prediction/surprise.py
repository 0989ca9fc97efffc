"""Cells of the fit that are surprising given everything else.

A cell took part in the fit, so that draws know of it. Given the rest of its row it has in draw i
the probability, or density, p_i: users are left out of the clusters (``left_out_users``), and
weighted by 1/p_i draws are those of a fit without this cell, as in leave-one-out scores. Weights
are cut off at √N times their mean, N being the number of draws (Ionides 2008).

S draws, R rows, J users.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp

from dualview.behaviors.families.base import Parts
from dualview.errors import InputError
from dualview.posterior.posterior import Posterior
from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.cell_table import Array, CellTable, Place
from dualview.posterior.prediction.cells_given import CellGiven, CellLevels, number_distribution
from dualview.posterior.prediction.densities import by_draw
from dualview.posterior.prediction.dependence import codes_at
from dualview.posterior.prediction.left_out_users import LeftOutRows
from dualview.views.gaussian.block import MOST_CELLS

Users = NDArray[np.intp]

_FEW = 0.1  # of the draws: an effective number below it is unsure
_N_DRAWN = 1000  # rows, where something else of the row is known to an interval
_SEED = 40


class Scores(NamedTuple):
    """Of some users' cells in one column, (J,): the probability of a cell at least as surprising,
    and the effective number of draws. weights (J, S): of the draws."""

    probability: Array
    n_effective: Array
    weights: Array


class Surprise:
    """The cells of a fit, each left out."""

    def __init__(self, post: Posterior, candidates: Candidates) -> None:
        if candidates.has_labels_by_table:
            raise InputError(
                "Cells cannot be left out one at a time where several tables of features may "
                "disagree with behavior: fit with agreement=None."
            )
        self._post, self._candidates = post, candidates
        self._cells = CellTable.of_fit(post)
        if not len(self._cells.data):
            raise InputError(
                "The cells of the fit are needed here, which fits to shards do not keep: fit to a "
                "table in memory."
            )
        self._rows = LeftOutRows(candidates, np.arange(candidates.n_draws), None)
        self._users = post.tree["posterior"].coords["user"].values.tolist()

    def most_surprising(self, n: int) -> pd.DataFrame:
        """The n cells of the lowest probability, the lowest first."""
        found = []
        for users in self._batches():
            weighed = self._log_weights(users), self._cells.take(users)
            whole = self._log_cells(*weighed)
            for column, place in enumerate(self._cells.places.values()):
                seen = np.flatnonzero(~self._cells.missing[users, column])
                if not len(seen) or (not place.column.levels and place.arrays != ("low", "high")):
                    continue
                scores = self._scores(place, weighed[0][seen], weighed[1].take(seen), whole[seen])
                best = np.argsort(scores.probability, kind="stable")[:n]
                found += [
                    (
                        scores.probability[i],
                        users[seen[i]],
                        place,
                        scores.n_effective[i],
                        scores.weights[i],
                    )
                    for i in best
                ]
        found.sort(key=lambda cell: float(cell[0]))
        rows = [
            (
                *self._expected(int(user), place, weights),
                float(probability),
                bool(size < _FEW * len(weights)),
            )
            for probability, user, place, size, weights in found[:n]
        ]
        names = ["user", "column", "value", "expected", "low_95", "high_95"]
        return pd.DataFrame(rows, columns=[*names, "probability", "unsure"])

    def _batches(self) -> Iterator[Users]:
        size = max(1, MOST_CELLS // len(self._candidates))
        for first in range(0, len(self._cells), size):
            yield np.arange(first, min(first + size, len(self._cells)))

    def _log_weights(self, users: Users) -> Array:
        """ln of the prior weight of each row without each user, (J, R)."""
        z, acts = self._post.flat("z"), self._post.flat_acts
        agrees = self._post.flat("agrees") if "agrees" in self._post else np.ones(z.shape, bool)
        return np.array(
            [
                self._rows.log_weights(
                    self._rows.without(z[:, user], acts[:, user], agrees[:, user])
                )
                for user in users
            ]
        )

    def _log_cells(self, log_weights: Array, cells: CellTable) -> Array:
        """ln p(cells | everybody else, draw) up to a constant, (J, S)."""
        log_features = self._candidates.log_features(cells.features, len(cells))
        return by_draw(self._candidates, log_weights + log_features)

    def _scores(self, place: Place, log_weights: Array, cells: CellTable, whole: Array) -> Scores:
        if place.column.levels:
            return self._of_levels(place, log_weights, cells)
        name, column = place.column.name, place.number
        low, high = (cells.data[end][:, column] for end in ("low", "high"))

        def log_between(first: Any, last: Any, is_there: NDArray[np.bool_]) -> Array:
            found = self._log_cells(log_weights, cells.at(name, first, last))
            return np.where(is_there[:, None], found, -np.inf)

        below = log_between(-np.inf, np.where(np.isfinite(low), low, 0.0), np.isfinite(low))
        above = log_between(np.where(np.isfinite(high), high, 0.0), np.inf, np.isfinite(high))
        inside = np.where((low < high)[:, None], whole, -np.inf)
        rest = logsumexp([below, inside, above], axis=0)
        weights, size = _without_cell(whole - rest)
        left, middle, right = (
            (weights * np.exp(part - rest)).sum(axis=1) for part in (below, inside, above)
        )
        probability = 2.0 * (np.minimum(left, right) + 0.5 * middle)
        return Scores(np.minimum(probability, 1.0), size, weights)

    def _of_levels(self, place: Place, log_weights: Array, cells: CellTable) -> Scores:
        """Of a column with levels; a category is as surprising as the levels that are at most as
        probable."""
        log_rows = log_weights
        if place.arrays != ("low", "high"):  # independent of the others in every row
            rest = cells.without(place.column.name)
            log_rows = log_rows + self._candidates.log_features(rest.features, len(rest))
        codes = self._codes(place, cells)
        log_levels = np.stack(
            [
                self._log_level(place, log_rows, cells, level)
                for level in range(len(place.column.levels))
            ]
        )
        log_levels -= logsumexp(log_levels, axis=0)
        users = np.arange(len(cells))
        weights, size = _without_cell(log_levels[codes, users])
        chances = (weights * np.exp(log_levels)).sum(axis=2)  # (L, J)
        own = chances[codes, users]
        if place.arrays != ("low", "high"):
            at_most = np.where(chances <= own * (1.0 + 1e-9), chances, 0.0).sum(axis=0)
            return Scores(np.minimum(at_most, 1.0), size, weights)
        left = np.cumsum(chances, axis=0)[codes, users] - own
        right = np.cumsum(chances[::-1], axis=0)[::-1][codes, users] - own
        sides = np.minimum(np.maximum(np.minimum(left, right), 0.0) + 0.5 * own, 0.5)
        return Scores(2.0 * sides, size, weights)

    def _log_level(self, place: Place, log_rows: Array, cells: CellTable, level: int) -> Array:
        """ln p(cells with this level in a column | everybody else, draw) up to a constant, (J,
        S)."""
        if place.arrays == ("low", "high"):
            own = codes_at(place, np.full(len(cells), level))
            return self._log_cells(log_rows, cells.at(place.column.name, *own))
        alone = CellTable.nothing(self._post).at(
            place.column.name, *codes_at(place, np.full(1, level))
        )
        return by_draw(
            self._candidates, log_rows + self._candidates.log_features(alone.features, 1)
        )

    @staticmethod
    def _codes(place: Place, cells: CellTable) -> NDArray[np.int64]:
        parts = [cells.data[name][:, place.number] for name in place.arrays]
        known = place.column.observed(*parts) if place.arrays == ("low", "high") else parts[0]
        return np.asarray(known, dtype=np.int64)

    def _expected(self, user: int, place: Place, of_draws: Array) -> tuple[Any, ...]:
        """What is known of one cell, and what was to be expected: user, column, value, median or
        most probable level, ends of a 95 % interval."""
        column, own = place.column, self._cells.take([user])
        rest, rng = own.without(column.name), np.random.default_rng([_SEED, user])
        log_rows = self._log_weights(np.array([user])) + self._candidates.log_features(
            rest.features, 1
        )
        log_rows -= by_draw(self._candidates, log_rows)[:, self._candidates.draw]
        weights = np.exp(log_rows[0]) * of_draws[self._candidates.draw]
        weights /= weights.sum()
        rows = rng.choice(len(weights), _N_DRAWN, p=weights)
        given = CellGiven(self._candidates, rest, column.name)
        parts = [own.data[name][:, place.number] for name in place.arrays]
        value = column.observed(*parts)[0] if given.is_number else parts[0][0]
        shown = column.levels[int(value)] if column.levels else float(value)
        found: tuple[Any, ...]
        if given.is_number:
            made = given.parts(rng, 0, weights, rows if given.needs_draws() else None)
            whole = Parts(*(part[:, None] for part in made))
            law = number_distribution(column, 1, len(made.sds), lambda _: whole)
            if isinstance(law, CellLevels):
                found = law.most_probable[0], *law.interval(0.95)[0]
            else:
                found = float(law.median[0]), *(float(end) for end in law.interval(0.95)[0])
        else:
            shares = given.filled(rng, 0, weights, rows)[1]
            assert shares is not None
            found = column.levels[int(np.argmax(shares))], None, None
        return self._users[user], column.name, shown, *found


def _without_cell(log_density: Array) -> tuple[Array, Array]:
    """Weights (J, S) of draws as if a cell of this density had not been there, summing to one, and
    their effective number (J,)."""
    weights = np.exp(log_density.min(axis=1, keepdims=True) - log_density)
    most = weights.mean(axis=1, keepdims=True) * np.sqrt(weights.shape[1])
    weights = np.minimum(weights, most)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights, 1.0 / (weights**2).sum(axis=1)
