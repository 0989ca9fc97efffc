"""Imputation of missing and censored cells, given everything else."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.checks import interval_ends
from dualview.columns import Cells, Column, Columns
from dualview.errors import InputError
from dualview.posterior.category_shares import nominal_view
from dualview.posterior.new_users import NewUsers
from dualview.posterior.posterior import Posterior
from dualview.posterior.user_rows import rows_by_table, rows_of_category

Array = NDArray[np.float64]
Places = NDArray[np.int64]

_INTERVALS = (0.8, 0.95)


@dataclass(frozen=True)
class Unknown:
    """Cells to be filled in: users and columns of Gaussian ones (n,), and of nominal ones (m,)."""

    gaussian: tuple[Places, Places]
    nominal: tuple[Places, Places]

    @classmethod
    def of(cls, cells: Cells, codebook: Columns) -> "Unknown":
        """Missing cells, and those of censored columns that are not exact. What others are in the
        user's units is known."""
        censored = np.array([column.kind == "censored" for column in codebook.gaussian], dtype=bool)
        users, columns = np.nonzero(cells.missing | (~cells.exact & censored))
        users_of_levels, levels = np.nonzero(cells.codes < 0)
        return cls((users, columns), (users_of_levels, levels))


@dataclass(frozen=True)
class Drawn:
    """Draws (S, n) of Gaussian cells on their view's scale, codes (S, m) of nominal ones, and their
    probabilities, m × (L,)."""

    values: Array
    codes: Places
    probabilities: list[Array]


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
        self, codebook: Columns, users: Sequence[Any], cells: Cells, unknown: Unknown, drawn: Drawn
    ) -> None:
        self._codebook, self._cells, self._unknown, self._drawn = codebook, cells, unknown, drawn
        self.users = list(users)

    def __repr__(self) -> str:
        n = len(self._unknown.gaussian[0]) + len(self._unknown.nominal[0])
        return f"Imputation({n} cells of {len(self.users)} users, {self.n_draws} draws)"

    @property
    def n_draws(self) -> int:
        return len(self._drawn.values)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The completed table in the user's units, a row per user; without columns that are
        ignored."""
        codes = [int(np.argmax(shares)) for shares in self._drawn.probabilities]
        return self._completed(
            np.median(self._drawn.values, axis=0), np.array(codes, dtype=np.int64)
        )

    def completed(self, draw: int) -> pd.DataFrame:
        """The table completed with one of the draws; analyze several of them for multiple
        imputation."""
        if not 0 <= draw < self.n_draws:
            raise InputError(f"draw must be from 0 to {self.n_draws - 1}; got {draw}.")
        return self._completed(self._drawn.values[draw], self._drawn.codes[draw])

    @property
    def numbers(self) -> Array:
        """The columns that are not nominal, completed, in the user's units, (U, D); of ordinal
        ones, numbers of levels."""
        return self._codebook.values(self._table(np.median(self._drawn.values, axis=0)))

    def _table(self, values: Array) -> Array:
        table = self._cells.inside  # any number inside a rounded number's interval says the same
        table[self._unknown.gaussian] = values
        return table

    def _completed(self, values: Array, codes: Places) -> pd.DataFrame:
        levels = self._cells.codes.copy()
        levels[self._unknown.nominal] = codes
        return self._codebook.frame(self._table(values), levels).set_axis(
            pd.Index(self.users, name="user"), axis=0
        )

    @cached_property
    def cells(self) -> pd.DataFrame:
        """A row for each cell that was filled in.

        Columns: user, column, value (median or most probable level), probability (of a level), and
        the ends of central 80 and 95 % intervals: low_80, high_80, low_95, high_95. What a kind of
        column does not have is missing.
        """
        rows = [self._number(i) for i in range(len(self._unknown.gaussian[0]))]
        rows += [self._level(i) for i in range(len(self._unknown.nominal[0]))]
        ends = [f"{side}_{100 * share:.0f}" for share in _INTERVALS for side in ("low", "high")]
        found = pd.DataFrame(rows, columns=["user", "column", "value", "probability", *ends])
        found["probability"] = found["probability"].astype(float)
        order = {column.name: place for place, column in enumerate(self._codebook.columns)}
        place = {user: i for i, user in enumerate(self.users)}
        keys = np.lexsort(
            (found["column"].map(order).to_numpy(), found["user"].map(place).to_numpy())
        )
        return found.iloc[keys].reset_index(drop=True)

    def _number(self, i: int) -> tuple[Any, ...]:
        user, place = (int(part[i]) for part in self._unknown.gaussian)
        column, drawn = self._codebook.gaussian[place], self._drawn.values[:, i]
        levels = [0.5, *(end for share in _INTERVALS for end in interval_ends(share))]
        value, *ends = _named(column, column.values(np.quantile(drawn, levels)))
        probability = (
            float((_named(column, column.values(drawn)) == value).mean())
            if column.levels
            else float("nan")
        )
        return self.users[user], column.name, value, probability, *ends

    def _level(self, i: int) -> tuple[Any, ...]:
        user, place = (int(part[i]) for part in self._unknown.nominal)
        column, shares = self._codebook.nominal[place], self._drawn.probabilities[i]
        best = int(np.argmax(shares))
        return (
            self.users[user],
            column.name,
            column.levels[best],
            float(shares[best]),
            *([None] * (2 * len(_INTERVALS))),
        )

    def draws(self, user: Any, column: str) -> NDArray[Any]:
        """Draws (S,) of one cell that was filled in, in the user's units; of levels, their
        names."""
        for places, columns, drawn in (
            (self._unknown.gaussian, self._codebook.gaussian, self._drawn.values),
            (self._unknown.nominal, self._codebook.nominal, self._drawn.codes),
        ):
            for i, (row, place) in enumerate(zip(*places, strict=True)):
                if self.users[row] == user and columns[place].name == column:
                    found = columns[place]
                    return _named(
                        found, drawn[:, i] if found.kind == "nominal" else found.values(drawn[:, i])
                    )
        raise InputError(
            f"No cell of user {user!r} in column {column!r} was filled in; cells lists those "
            "that were."
        )

    def probabilities(self, column: str) -> pd.DataFrame:
        """Probabilities of the levels of an ordinal or nominal column, a row for each user whose
        cell was filled in."""
        found = next((known for known in self._codebook.columns if known.name == column), None)
        if found is None or not found.levels:
            raise InputError(
                f"{column!r} is no column with levels; those are "
                f"{', '.join(self._with_levels) or 'none'}."
            )
        nominal = found.kind == "nominal"
        users, places = self._unknown.nominal if nominal else self._unknown.gaussian
        columns = self._codebook.nominal if nominal else self._codebook.gaussian
        chosen = [i for i, place in enumerate(places) if columns[place].name == column]
        shares = [
            self._drawn.probabilities[i] if nominal else self._shares(found, i) for i in chosen
        ]
        index = pd.Index([self.users[users[i]] for i in chosen], name="user")
        return pd.DataFrame(
            np.array(shares).reshape(-1, len(found.levels)), index, list(found.levels)
        )

    def _shares(self, column: Column, i: int) -> Array:
        codes = column.values(self._drawn.values[:, i]).astype(np.int64)
        return np.asarray(np.bincount(codes, minlength=len(column.levels)) / len(codes))

    @property
    def _with_levels(self) -> list[str]:
        return [
            column.name
            for column in self._codebook.columns
            if column.levels and column.kind != "ignore"
        ]


def _named(column: Column, values: NDArray[Any]) -> NDArray[Any]:
    """Values of a column, those with levels by name."""
    return (
        np.asarray(column.levels, dtype=object)[values.astype(np.int64)]
        if column.levels
        else values
    )


def codebook_of(post: Posterior) -> Columns:
    """The codebook of a fit: of one to an array of numbers, continuous columns."""
    if post.codebook is not None:
        return post.codebook
    return Columns(tuple(Column(name, "continuous") for name in post.feature_names), is_named=False)


def imputed_of_fit(rng: np.random.Generator, post: Posterior) -> Imputation:
    """The cells of the fit's users, from all draws that were kept whole."""
    codebook, cells = codebook_of(post), post.cells
    if cells is None:
        assert post.features is not None
        cells = Cells(post.features, post.features, np.empty((post.n_users, 0), dtype=np.int64))
    unknown = Unknown.of(cells, codebook)
    users = post.tree["posterior"].coords["user"].values.tolist()
    shape = (post.n_chains * post.n_draws, 0)
    values = np.empty(shape)
    if len(unknown.gaussian[0]):
        places = {
            cell: i
            for i, cell in enumerate(zip(*(part.tolist() for part in cells.drawn), strict=True))
        }
        wanted = [
            places[cell] for cell in zip(*(part.tolist() for part in unknown.gaussian), strict=True)
        ]
        values = post.flat("features.cells")[:, wanted]
    codes, probabilities = np.empty((shape[0], len(unknown.nominal[0])), dtype=np.int64), []
    for i, (user, column) in enumerate(zip(*unknown.nominal, strict=True)):
        shares = _shares_of_user(post, int(user), int(column))
        codes[:, i] = _chosen(rng, shares)
        probabilities.append(shares.mean(axis=0))
    return Imputation(codebook, users, cells, unknown, Drawn(values, codes, probabilities))


def _shares_of_user(post: Posterior, user: int, column: int) -> Array:
    """θ of a nominal column in a user's cluster, in every draw, (S, L)."""
    table, starts = post.components, nominal_view(post).starts
    by_table = rows_by_table(post, np.arange(post.n_chains * post.n_draws))[:, :, user : user + 1]
    rows = rows_of_category(post, by_table, column)[:, 0]
    return np.asarray(
        np.exp(table["categories.log_shares"][rows, starts[column] : starts[column + 1]])
    )


def imputed_of_new(
    rng: np.random.Generator,
    post: Posterior,
    new: NewUsers,
    cells: Cells,
    n_draws: int,
    users: Sequence[Any],
) -> Imputation:
    """The cells of new users: n_draws clusters of each by their probability, and cells drawn in
    these."""
    codebook = codebook_of(post)
    unknown = Unknown.of(cells, codebook)
    values = np.empty((n_draws, len(unknown.gaussian[0])))
    codes = np.empty((n_draws, len(unknown.nominal[0])), dtype=np.int64)
    probabilities: list[Array] = [np.empty(0)] * codes.shape[1]
    for user in np.union1d(unknown.gaussian[0], unknown.nominal[0]).tolist():
        found = new.clusters_of(rng, user, n_draws)
        own = np.flatnonzero(unknown.gaussian[0] == user)
        if len(own):
            values[:, own] = found.cells()[:, unknown.gaussian[1][own]]
        for i in np.flatnonzero(unknown.nominal[0] == user):
            shares, probabilities[i] = found.levels(int(unknown.nominal[1][i]))
            codes[:, i] = _chosen(rng, shares)
    return Imputation(codebook, users, cells, unknown, Drawn(values, codes, probabilities))


def _chosen(rng: np.random.Generator, shares: Array) -> Places:
    """A level for each row of shares (S, L)."""
    cumulative = np.cumsum(shares, axis=1)
    return np.asarray(
        (rng.random(len(shares))[:, None] * cumulative[:, -1:] >= cumulative).sum(axis=1)
    )
