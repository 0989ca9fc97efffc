"""Imputation of missing and censored cells, given everything else."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.checks import interval_ends
from dualview.columns import Column
from dualview.errors import InputError
from dualview.posterior.posterior import Posterior
from dualview.posterior.prediction.new_users import NewUsers
from dualview.posterior.prediction.user_features import Features, features_of, rows_by_table

Array = NDArray[np.float64]
Places = NDArray[np.int64]

_INTERVALS = (0.8, 0.95)


class Filled(NamedTuple):
    """A block of columns with its cells filled in.

    values (U, columns): what is known, on the view's scale. users, places (n,): cells that are not,
    and draws (S, n) of them. shares: probabilities of each one's levels, where the kind of column
    knows them.
    """

    columns: tuple[Column, ...]
    values: NDArray[Any]
    users: Places
    places: Places
    draws: NDArray[Any]
    shares: list[Array] | None

    @property
    def best(self) -> NDArray[Any]:
        """Medians of the draws, or the most probable levels, (n,)."""
        if self.shares is None:
            return np.asarray(np.median(self.draws, axis=0))
        return np.array([int(np.argmax(own)) for own in self.shares], dtype=np.int64)

    def completed(self, cells: NDArray[Any]) -> NDArray[Any]:
        """All values, with some (n,) for those that are not known."""
        table = self.values.copy()
        table[self.users, self.places] = cells
        return table

    def summary(self, i: int) -> tuple[Any, ...]:
        """Of one cell: its value, the probability of a level, and ends of intervals."""
        column, draws = self.columns[self.places[i]], self.draws[:, i]
        if self.shares is not None:
            best = int(self.best[i])
            ends = [None] * (2 * len(_INTERVALS))
            return column.levels[best], float(self.shares[i][best]), *ends
        levels = [0.5, *(end for share in _INTERVALS for end in interval_ends(share))]
        value, *found = column.named(np.quantile(draws, levels))
        probability = (column.named(draws) == value).mean() if column.levels else np.nan
        return value, float(probability), *found

    def probabilities(self, i: int) -> Array:
        """Of the levels of one cell, (L,)."""
        if self.shares is not None:
            return self.shares[i]
        column = self.columns[self.places[i]]
        codes = column.values(self.draws[:, i]).astype(np.int64)
        return np.asarray(np.bincount(codes, minlength=len(column.levels)) / len(codes))


class Imputation:
    """Imputed missing and censored cells: the result of ``DualViewMixture.impute``.

    Numbers and ordered levels are summarized by their posterior median, which always exists,
    categories by the most probable level. Observed rounded numbers, counts and ratings stay as they
    are. The cells of one user are drawn jointly.

    Attributes
    ----------
    users : list
        Names of the users, a row of the table each.
    n_draws : int
        Draws of each cell.
    """

    def __init__(
        self,
        names: Sequence[str],
        users: Sequence[Any],
        parts: Sequence[Filled],
        given: Any = None,
    ) -> None:
        """names: of the columns, in order. given: the table with the cells to fill in."""
        self._parts, self._given = list(parts), given
        self._names = {name: place for place, name in enumerate(names)}
        self.users = list(users)

    def __repr__(self) -> str:
        n = sum(len(part.users) for part in self._parts)
        return f"Imputation({n} cells of {len(self.users)} users, {self.n_draws} draws)"

    @property
    def n_draws(self) -> int:
        return len(self._parts[0].draws)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The completed table in the user's units, a row per user; without columns that are
        ignored."""
        return self._completed([part.best for part in self._parts])

    @cached_property
    def table(self) -> Any:
        """The completed table as the kind that ``impute`` got: a pandas table with its index, a
        polars or Arrow table, an array, each with its columns, ignored ones too.

        The same as ``frame`` if it got none, or several tables by name.
        """
        given, frame = self._given, self.frame
        if given is None or isinstance(given, Mapping):
            return frame
        if isinstance(given, pd.DataFrame):
            found = given.copy()
            for place, name in enumerate(map(str, given.columns)):
                if name in frame:
                    found.isetitem(place, frame[name].set_axis(given.index))
            return found
        if hasattr(given, "with_columns"):  # polars
            columns = {name: frame[name].tolist() for name in given.columns if name in frame}
            return given.with_columns(type(given)(columns).get_columns())
        if hasattr(given, "set_column"):  # Arrow
            own = {name: given[name].to_pylist() for name in given.column_names}
            return type(given).from_pydict(
                {name: frame[name].tolist() if name in frame else own[name] for name in own}
            )
        numeric = all(pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes)
        array = np.array(given, dtype=float if numeric else object)
        for name, place in self._names.items():
            if name in frame:
                array[:, place] = frame[name]
        return array

    def completed(self, draw: int) -> pd.DataFrame:
        """The table completed with one of the draws; analyze several of them for multiple
        imputation."""
        if not 0 <= draw < self.n_draws:
            raise InputError(f"draw must be from 0 to {self.n_draws - 1}; got {draw}.")
        return self._completed([part.draws[draw] for part in self._parts])

    @property
    def numbers(self) -> Array:
        """The columns that are not nominal, completed, in the user's units, (U, D); of ordinal
        ones, numbers of levels."""
        return np.column_stack(
            [
                column.values(values)
                for part in self._parts
                if part.shares is None
                for column, values in zip(part.columns, part.completed(part.best).T, strict=True)
            ]
        )

    def _completed(self, cells: Sequence[NDArray[Any]]) -> pd.DataFrame:
        found = {
            column.name: column.series(values)
            for part, own in zip(self._parts, cells, strict=True)
            for column, values in zip(part.columns, part.completed(own).T, strict=True)
        }
        ordered = {name: found[name] for name in self._names if name in found}
        return pd.DataFrame(ordered, index=pd.Index(self.users, name="user"))

    @cached_property
    def cells(self) -> pd.DataFrame:
        """A row for each cell that was filled in.

        Columns: user, column, value (median or most probable level), probability (of a level), and
        the ends of central 80 and 95 % intervals: low_80, high_80, low_95, high_95. What a kind of
        column does not have is missing.
        """
        rows = [
            (self.users[user], part.columns[place].name, *part.summary(i))
            for part in self._parts
            for i, (user, place) in enumerate(zip(part.users, part.places, strict=True))
        ]
        ends = [f"{side}_{100 * share:.0f}" for share in _INTERVALS for side in ("low", "high")]
        found = pd.DataFrame(rows, columns=["user", "column", "value", "probability", *ends])
        found["probability"] = found["probability"].astype(float)
        place = {user: i for i, user in enumerate(self.users)}
        keys = np.lexsort(
            (found["column"].map(self._names).to_numpy(), found["user"].map(place).to_numpy())
        )
        return found.iloc[keys].reset_index(drop=True)

    def _cells_of(self, column: str) -> list[tuple[Filled, int]]:
        """The cells of a column that were filled in."""
        return [
            (part, i)
            for part in self._parts
            for i, place in enumerate(part.places)
            if part.columns[place].name == column
        ]

    def draws(self, user: Any, column: str) -> NDArray[Any]:
        """Draws (S,) of one cell that was filled in, in the user's units; of levels, their
        names."""
        for part, i in self._cells_of(column):
            if self.users[part.users[i]] == user:
                return np.asarray(part.columns[part.places[i]].named(part.draws[:, i]))
        raise InputError(
            f"No cell of user {user!r} in column {column!r} was filled in; cells lists those "
            "that were."
        )

    def probabilities(self, column: str) -> pd.DataFrame:
        """Probabilities of the levels of an ordinal or nominal column, a row for each user whose
        cell was filled in."""
        if column not in self._levels:
            raise InputError(
                f"{column!r} is no column with levels; those are "
                f"{', '.join(self._levels) or 'none'}."
            )
        found, levels = self._cells_of(column), self._levels[column]
        index = pd.Index([self.users[part.users[i]] for part, i in found], name="user")
        shares = np.array([part.probabilities(i) for part, i in found])
        return pd.DataFrame(shares.reshape(-1, len(levels)), index, list(levels))

    @property
    def _levels(self) -> dict[str, tuple[str, ...]]:
        """Those of the columns that have some, in order."""
        columns = [column for part in self._parts for column in part.columns if column.levels]
        ordered = sorted(columns, key=lambda column: self._names[column.name])
        return {column.name: column.levels for column in ordered}


def _names(post: Posterior) -> list[str]:
    """Columns in the order of the fit's table."""
    listed = (
        [] if post.spec.codebook is None else [column.name for column in post.spec.codebook.columns]
    )
    others = [column.name for block in post.blocks for column in block.columns]
    return list(dict.fromkeys([*listed, *others]))


def imputed_of_fit(rng: np.random.Generator, post: Posterior, given: Any = None) -> Imputation:
    """The cells of the fit's users, from all draws that were kept whole. given: the table."""
    features = features_of(post)
    assert features is not None
    rows, parts = rows_by_table(post, np.arange(post.n_chains * post.n_draws)), []
    for block, x in zip(post.blocks, features.cells, strict=True):
        cells = block.unknown(x)
        drawn = block.fill(rng, x, cells, rows[block.table])
        parts.append(Filled(block.columns, block.values(x), *cells, *drawn))
    users = post.tree["posterior"].coords["user"].values.tolist()
    return Imputation(_names(post), users, parts, given)


def imputed_of_new(
    rng: np.random.Generator,
    post: Posterior,
    new: NewUsers,
    features: Features,
    n_draws: int,
    users: Sequence[Any],
    given: Any = None,
) -> Imputation:
    """The cells of new users, of a table given: n_draws clusters of each by their probability, and
    cells drawn in these."""
    own = list(zip(post.blocks, features.cells, strict=True))
    unknown = [block.unknown(x) for block, x in own]
    draws: list[NDArray[Any]] = [np.empty((n_draws, len(rows))) for rows, _ in unknown]
    shares: list[dict[int, Array]] = [{} for _ in own]
    for user in sorted({int(user) for rows, _ in unknown for user in rows}):
        found = new.clusters_of(rng, user, n_draws)
        places = [np.flatnonzero(rows == user) for rows, _ in unknown]
        columns = [cells[1][place] for cells, place in zip(unknown, places, strict=True)]
        for b, filled in enumerate(found.fill(rng, columns)):
            if filled is not None:
                draws[b][:, places[b]] = filled[0]
                shares[b] |= dict(zip(places[b].tolist(), filled[1] or (), strict=False))
    parts = []
    for b, (block, x) in enumerate(own):
        of_levels = [shares[b][i] for i in sorted(shares[b])] if block.has_shares else None
        parts.append(Filled(block.columns, block.values(x), *unknown[b], draws[b], of_levels))
    return Imputation(_names(post), users, parts, given)
