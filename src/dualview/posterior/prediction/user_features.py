"""Features of users as a sum of blocks, each with columns of one kind (``views.features``): what is
known of them, their clusters, and what a link follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.posterior.draws.fit_facts import FitFacts
from dualview.views.features import BlockRows, ClusterRows, FeatureBlock, Taken

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Opened = list[Any]  # clusters that a user has opened, block by block


@dataclass(frozen=True)
class Features:
    """Cells of n users in every block of a fit."""

    n: int
    cells: tuple[Any, ...]

    @classmethod
    def of(cls, post: FitFacts, data: Mapping[str, NDArray[Any]]) -> "Features":
        """From arrays by name, as ``post.data`` has those of the fit's users."""
        n_users = len(next(iter(data.values()), ()))
        return cls(n_users, tuple(block.cells(data) for block in post.blocks))

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, users: Any) -> "Features":
        """Those of some users."""
        return Features(len(np.arange(self.n)[users]), tuple(own[users] for own in self.cells))


class FeatureRows:
    """Features of users in every row: sums over blocks of columns."""

    def __init__(self, rng: np.random.Generator, post: FitFacts, rows: ClusterRows) -> None:
        self.blocks = post.blocks
        self._n_rows, self._rows = len(rows), [block.rows(rng, rows) for block in post.blocks]

    def rows_of(self, block: int) -> BlockRows:
        """One of the blocks in every row."""
        return self._rows[block]

    def log_by_table(
        self, x: Features | None, n_users: int, n_tables: int, log_weights: Array
    ) -> Array:
        """ln p(features of each table | row), (T, J, R); 0 without features. log_weights (R,) or
        (J, R): what the rows of each draw weigh besides, as in ``BlockRows.log_density``.

        Numbers are the first kind and come last: their densities may be estimates, and what other
        columns say tells where these have to be close.
        """
        found = np.zeros((n_tables, n_users, self._n_rows))
        if x is not None:
            parts = zip(self.blocks, self._rows, x.cells, strict=True)
            for block, rows, own in reversed(list(parts)):
                table = found[min(block.table, n_tables - 1)]
                table += _log_density(block, rows, own, log_weights + table)
        return found

    def log_density(self, x: Features | None, n_users: int, log_weights: Array) -> Array:
        """ln p(features of user j | row), (J, R); cells that are missing are integrated out."""
        return np.asarray(self.log_by_table(x, n_users, 1, log_weights)[0])

    def by_lacking(self, x: Features) -> NDArray[np.intp]:
        """The users (J,) in an order in which those who lack the same cells are together: some
        kinds work on these at once."""
        lacks = np.zeros((len(x), 0), dtype=np.bool_)
        for block, own in zip(self.blocks, x.cells, strict=True):
            of_block = np.zeros((len(x), len(block.columns)), dtype=np.bool_)
            of_block[block.unknown(own)] = True
            lacks = np.hstack([lacks, of_block])
        return np.lexsort(lacks.T) if lacks.size else np.arange(len(x))

    def opened(
        self,
        rng: np.random.Generator,
        rows: NDArray[np.intp],
        x: Features | None,
        values: Sequence[Array | None],
    ) -> Opened | None:
        """Fresh clusters, by their rows, as they are once a user with features x is in them, block
        by block; None without features.

        values: the user's complete values in each row, where they were drawn before.
        """
        if x is None or not self.blocks:
            return None
        return [
            own.opened(rng, rows, cells, drawn)
            for own, cells, drawn in zip(self._rows, x.cells, values, strict=True)
        ]

    def log_opened(self, x: Features, rows: NDArray[np.intp], opened: Opened) -> Array:
        """ln p(features of one user | clusters that others have opened), (rows,)."""
        total = np.zeros(len(rows))
        for own, cells, now in zip(self._rows, x.cells, opened, strict=True):
            total += own.log_opened(cells, rows, now)
        return total

    def draw(
        self,
        rng: np.random.Generator,
        rows: NDArray[np.intp],
        x: Features,
        taken: Sequence[tuple[NDArray[np.int64], Opened]] = (),
    ) -> list[Array | None]:
        """What one user lacks for a link drawn in some rows: complete values (rows, columns) of
        each block, None of a complete one. taken: rows that others have opened."""
        found: list[Array | None] = []
        for b, (block, own, cells) in enumerate(zip(self.blocks, self._rows, x.cells, strict=True)):
            met: Taken = [(opened_rows, opened[b]) for opened_rows, opened in taken]
            found.append(None if block.complete(cells).all() else own.draw(rng, rows, cells, met))
        return found

    def fill(
        self,
        rng: np.random.Generator,
        rows: NDArray[np.intp],
        weights: Array,
        x: Features,
        columns: Sequence[NDArray[np.int64]],
    ) -> list[tuple[NDArray[Any], list[Array] | None] | None]:
        """Cells of one user in some columns of each block, as ``BlockRows.fill`` has them; None
        where there are none. rows (T, n), weights (T, R): by table, or the same for all."""
        found: list[tuple[NDArray[Any], list[Array] | None] | None] = []
        for block, own, cells, wanted in zip(
            self.blocks, self._rows, x.cells, columns, strict=True
        ):
            t = min(block.table, len(rows) - 1)
            found.append(own.fill(rng, rows[t], weights[t], cells, wanted) if len(wanted) else None)
        return found


def _log_density(block: FeatureBlock, rows: BlockRows, x: Any, log_weights: Array) -> Array:
    """As ``BlockRows.log_density``; of users who have the same levels only once."""
    if len(x) < 2 or not (block.has_shares and isinstance(x, np.ndarray)):
        return rows.log_density(x, log_weights)
    _, first, alike = np.unique(x, axis=0, return_index=True, return_inverse=True)
    return np.asarray(rows.log_density(x[first], log_weights[first])[alike.ravel()])


def features_of(post: FitFacts) -> Features | None:
    """Those of the fit's users; None where there are none, or where the draws came without them."""
    data = post.data
    return Features.of(post, data) if post.blocks and data else None


def rows_by_table(post: FitFacts, draws: NDArray[np.intp]) -> Rows:
    """The clusters that users look like in some draws (S,), as rows of the table of components, (T,
    S, U); where users have one label for all tables these are the same."""
    first = np.searchsorted(post.components["owner"], draws)[:, None]
    if "z_tables" in post:
        return np.asarray(first + np.moveaxis(post.flat("z_tables")[draws], 1, 0))
    n_tables = 1 if post.spec.layout is None else len(post.spec.layout.names)
    rows = first + post.flat("z")[draws]
    return np.broadcast_to(rows, (n_tables, *rows.shape))


def slopes_of(post: FitFacts) -> Array:
    """Γ of every draw in the user's units, (N, q, columns)."""
    slopes = post.flat("slopes")
    return slopes.reshape(len(slopes), -1, slopes.shape[-1])


def shifts_of_fit(post: FitFacts) -> Array:
    """What a link adds to the latent vectors of the fit's users in every draw, (N, U, q)."""
    slopes, parts = slopes_of(post), []
    for block, x in zip(post.blocks, Features.of(post, post.data).cells, strict=True):
        parts.append(block.design(x, block.completed(x, np.arange(len(slopes)))))
    shape = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
    columns = np.concatenate(
        [np.broadcast_to(part, (*shape, part.shape[-1])) for part in parts], axis=-1
    )
    path = "sqd,sud->suq" if columns.ndim == 3 else "sqd,ud->suq"
    return np.asarray(np.einsum(path, slopes, columns))
