"""Numbers of users in the draws of a fit: exact cells, intervals and missing cells, (M14)."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.columns import Column
from dualview.columns.cells import drawn_cells, inside
from dualview.units import Whitening
from dualview.views.base import Components
from dualview.views.features import (
    Array,
    BlockRows,
    ClusterRows,
    FeatureBlock,
    Fitted,
    Places,
    Taken,
)
from dualview.views.gaussian import density as densities
from dualview.views.gaussian import user_cells
from dualview.views.gaussian.fresh import GaussianClusters, components_at
from dualview.views.gaussian.ghk import Gaussians
from dualview.views.gaussian.user_cells import UserCells, gaussians_at

MOST_CELLS = 4_000_000  # numbers worked on at a time
_SHIFT_SEED = 21  # of where the points of each row begin that estimate probabilities of intervals


class GaussianBlock(FeatureBlock):
    """Numbers of one table. number: among the tables that have some, where there are several.

    own: its columns among all of numbers. dims: the dimensions in working units that they have to
    themselves.
    """

    view, variable, dim = "features", "features", "feature"

    def __init__(
        self,
        draws: Fitted,
        columns: Sequence[Column],
        table: int = 0,
        number: int | None = None,
        own: slice = slice(None),
        dims: slice = slice(None),
    ) -> None:
        super().__init__(columns[own], table)
        self.draws, self._number, self._own, self._dims = draws, number, own, dims
        whole = draws.spec.units["features"]
        self.units = Whitening(whole.mean[own], whole.factor[own, dims], whole.inverse[dims, own])

    @cached_property
    def _tail_dofs(self) -> Array:
        """ν of every draw, (N,); none without heavy tails."""
        if "features.tail_dof" not in self.draws:
            return user_cells.NORMAL
        found = self.draws.flat("features.tail_dof")
        return found if self._number is None else found[:, self._number]

    def tail_dofs(self, draws: Places) -> Array:
        """ν of some draws; none without heavy tails."""
        return self._tail_dofs[draws] if len(self._tail_dofs) else self._tail_dofs

    def _dofs_at(self, rows: Places) -> Array:
        """ν of the draws (S,) that components in rows (S, U) belong to."""
        return self.tail_dofs(self.draws.components["owner"][rows[:, 0]])

    def cells(self, data: Mapping[str, NDArray[Any]]) -> UserCells:
        """Ends of intervals, or numbers."""
        low, high = (data.get(name, data.get("features")) for name in ("low", "high"))
        assert low is not None
        assert high is not None
        return UserCells(low[:, self._own], high[:, self._own], self.units)

    def values(self, x: UserCells) -> Array:
        """A number inside each interval: any of a rounded number's says the same."""
        return inside(x.low, x.high)

    def known(self, x: UserCells) -> Array:
        """The numbers; of censored ones, the only end."""
        return np.column_stack(
            [
                column.observed(low, high)
                for column, low, high in zip(self.columns, x.low.T, x.high.T, strict=True)
            ]
        )

    def recorded(self, vectors: Array) -> Array:
        """Rounded, counted, as numbers of levels."""
        return self._recorded(vectors[..., self._dims])

    def _recorded(self, vectors: Array) -> Array:
        own = self.units.vectors(vectors)
        parts = [column.values(own[..., d]) for d, column in enumerate(self.columns)]
        return np.stack(parts, axis=-1)

    def rows(self, rng: np.random.Generator, rows: ClusterRows) -> "GaussianRows":
        block = None if self._number is None else (self._number, self._dims)
        clusters = GaussianClusters.of(rng, self.draws, self.view, rows, block, self._tail_dofs)
        return GaussianRows(self, rows, clusters)

    def _components(self, rows: Places | slice) -> Components:
        return components_at(self.draws, self.view, rows, self._dims)

    def log_density(self, x: UserCells, rows: Places) -> Array:
        """By the volume of exact cells and the probability of intervals; missing cells are
        integrated out."""
        return user_cells.log_density(x, self._components(slice(None)), rows, self._dofs_at(rows))

    def replicates(self, rng: np.random.Generator, rows: Places) -> Array:
        means, factors = self._components(rows)
        away = np.linalg.solve(
            np.swapaxes(factors, -1, -2), rng.standard_normal(means.shape)[..., None]
        )[..., 0]
        dofs = self._dofs_at(rows)
        if len(dofs):
            away /= np.sqrt(rng.chisquare(dofs[:, None], rows.shape) / dofs[:, None])[..., None]
        return self._recorded(means + away)

    def unknown(self, x: UserCells) -> tuple[Places, Places]:
        """Missing cells, and those of censored columns that are not exact. What others are in the
        user's units is known."""
        censored = np.array([column.kind == "censored" for column in self.columns], dtype=bool)
        users, columns = np.nonzero(x.missing | ((x.low < x.high) & censored))
        return users, columns

    @cached_property
    def _drawn(self) -> NDArray[np.bool_]:
        """Which of the cells that the sampler draws are in this block."""
        data = self.draws.data
        columns = drawn_cells(data["low"], data["high"])[1]
        own = np.arange(len(self.draws.spec.units["features"].mean))[self._own]
        return np.isin(columns, own)

    def fill(
        self,
        rng: np.random.Generator,  # noqa: ARG002
        x: UserCells,
        cells: tuple[Places, Places],
        rows: Places,
    ) -> tuple[Array, None]:
        """As the sampler has drawn them."""
        if not len(cells[0]):
            return np.empty((len(rows), 0)), None
        places = np.full(x.low.shape, -1)
        places[drawn_cells(x.low, x.high)] = np.flatnonzero(self._drawn)
        return self.draws.flat("features.cells")[:, places[cells]], None

    def completed(self, x: UserCells, draws: Places) -> Array | None:
        if "features.cells" not in self.draws or x.complete.all():
            return None
        found = np.repeat(x.low[None], len(draws), axis=0)
        users, columns = drawn_cells(x.low, x.high)
        found[:, users, columns] = self.draws.flat("features.cells")[draws][:, self._drawn]
        return found

    def _vectors(self, x: UserCells, values: Array | None) -> Array:
        return x.vectors() if values is None else self.units.to_working(values)

    def residuals(
        self,
        rng: np.random.Generator,
        x: UserCells,
        draws: Places,
        rows: Places,
    ) -> Array:
        """Vectors standardized by their clusters' means and covariances; with heavy tails given
        weights that are drawn."""
        vectors = self._vectors(x, self.completed(x, draws))
        found, dofs = user_cells.standardized(vectors, *self._components(rows)), self._dofs_at(rows)
        if not len(dofs):
            return found
        squares = (found**2).sum(axis=-1)
        weights = user_cells.draw_weights(rng, squares, found.shape[-1], dofs[:, None])
        return np.asarray(found * np.sqrt(weights)[..., None])

    def complete(self, x: UserCells) -> NDArray[np.bool_]:
        return x.complete

    def design(self, x: UserCells, values: Array | None = None) -> Array:
        """The numbers, less their means."""
        return self._vectors(x, values) @ self.units.factor.T

    def scalar_text(self, name: str, number: int) -> str | None:
        """Which cell it is."""
        if name != "cells" or not self._drawn[number]:
            return None
        data = self.cells(self.draws.data)
        place = np.count_nonzero(self._drawn[:number])
        user, column = (part[place] for part in drawn_cells(data.low, data.high))
        return f"cell {self.draws.user_ids[user]}/{self.columns[column].name}"

    def profile(self, x: UserCells) -> dict[str, dict[str, Any]]:
        """Medians of what is known in the user's units; of levels, one that there is."""
        found: dict[str, Any] = {}
        for column, values in zip(self.columns, self.known(x).T, strict=True):
            known = np.sort(values[np.isfinite(values)])
            if len(known) and column.levels:
                found[column.name] = column.levels[int(known[(len(known) - 1) // 2])]
            elif len(known):
                found[column.name] = float(np.median(known))
        return {"feature_medians": found}


class GaussianRows(BlockRows):
    """The numbers of a table in every row."""

    def __init__(self, block: GaussianBlock, rows: ClusterRows, clusters: GaussianClusters) -> None:
        self._block, self._rows = block, rows
        self._known, self._fresh = clusters
        self._dofs = block.tail_dofs(rows.draw)  # of known rows
        self.has_tails = bool(len(self._dofs))

    def log_density(self, x: UserCells, log_weights: Array) -> Array:
        """Cells that are missing are integrated out."""
        result = np.zeros((len(x), len(self._rows)))
        complete = np.flatnonzero(x.complete)
        if len(complete):
            result[complete] = self._log_vectors(x.vectors()[complete])
        patterns = list(x.patterns())
        for draws in self._parts if patterns else ():
            first = self._rows.first[draws]
            rows = np.arange(first[0], self._end_of(draws))
            gaussians = self.gaussians(rows)
            for pattern in patterns:
                places = np.ix_(pattern.users, rows)
                result[places] = pattern.log_density(
                    gaussians, first - first[0], log_weights[places], self._shifts[rows]
                )
        return result

    def _log_vectors(self, x: Array) -> Array:
        result = np.empty((len(x), len(self._rows)))
        dofs = self._dofs[self._rows.known] if self.has_tails else self._dofs
        result[:, self._rows.known] = densities.log_likelihood(x, *self._known, dofs)
        if self._fresh is not None:
            result[:, ~self._rows.known] = [self._fresh.log_density(one) for one in x]
        return result

    @cached_property
    def _parts(self) -> list[slice]:
        """All draws, in parts whose rows fit into memory."""
        rows_at_once = max(1, MOST_CELLS // max(1, self._block.units.n_dims) ** 2)
        number = self._rows.first // rows_at_once
        starts = np.flatnonzero(np.diff(number, prepend=-1))
        ends = [*starts[1:], self._rows.n_draws]
        return [slice(first, end) for first, end in zip(starts, ends, strict=True)]

    def _end_of(self, draws: slice) -> int:
        """The row behind those of some draws."""
        last = draws.stop == self._rows.n_draws
        return len(self._rows) if last else int(self._rows.first[draws.stop])

    @cached_property
    def _shifts(self) -> Array:
        """Where points begin that estimate probabilities of intervals, (R, D − 1): another place in
        each row and table."""
        seed = [_SHIFT_SEED, self._block.table] if self._block.table else _SHIFT_SEED
        n_others = max(0, len(self._block.columns) - (0 if self.has_tails else 1))
        return np.random.default_rng(seed).random((len(self._rows), n_others))

    def gaussians(self, rows: Places) -> Gaussians:
        """Some rows' distribution of the vector, as a user sees it who is new to them; a fresh one
        is normal given its weight."""
        n_dims, shape = self._block.units.n_dims, len(rows)
        is_known, places = self._rows.known[rows], self._rows.places[rows]
        dofs = np.where(is_known, self._dofs[rows], np.inf) if self.has_tails else self._dofs
        found = Gaussians(np.empty((shape, n_dims)), np.empty((shape, n_dims, n_dims)), dofs)
        own = places[is_known]
        found.means[is_known], found.roots[is_known], _ = gaussians_at(self._known, own)
        if self._fresh is not None:
            own = places[~is_known]
            found.means[~is_known] = self._fresh.base.means[self._fresh.draw[own]]
            found.roots[~is_known] = self._fresh.roots_of(own)
        return found

    def draw(
        self, rng: np.random.Generator, rows: Places, x: UserCells, taken: Taken = ()
    ) -> Array:
        gaussians = self.gaussians(rows)
        for opened_rows, opened in taken:
            _, own, other = np.intersect1d(rows, opened_rows, return_indices=True)
            if len(own):
                gaussians.means[own], gaussians.roots[own], _ = gaussians_at(opened, other)
                if self.has_tails:
                    gaussians.dofs[own] = self._dofs[rows[own]]
        result = np.repeat(x.low[:1], len(rows), axis=0)
        for pattern in x.patterns():
            columns = np.concatenate([pattern.intervals, pattern.missing])
            result[:, columns] = pattern.draw(rng, gaussians, 0)
        return np.clip(result, x.low[0], x.high[0])  # against rounding

    def fill(
        self,
        rng: np.random.Generator,
        rows: Places,
        weights: Array,  # noqa: ARG002
        x: UserCells,
        columns: Places,
    ) -> tuple[Array, None]:
        return self.draw(rng, rows, x)[:, columns], None

    def opened(
        self, rng: np.random.Generator, rows: Places, x: UserCells, values: Array | None = None
    ) -> Components:
        if x.complete[0]:
            vectors = x.vectors()[0]
        else:
            drawn = self.draw(rng, rows, x) if values is None else values
            vectors = self._block.units.to_working(drawn)
        assert self._fresh is not None
        return self._fresh.opened(rng, self._rows.places[rows], vectors)

    def log_opened(self, x: UserCells, rows: Places, opened: Components) -> Array:
        dofs = self._dofs[rows] if self.has_tails else self._dofs
        if x.complete[0]:
            return np.asarray(densities.log_likelihood(x.vectors(), *opened, dofs)[0])
        (pattern,) = x.patterns()
        gaussians, first = gaussians_at(opened, slice(None), dofs), np.arange(len(rows))
        even = np.zeros((1, len(rows)))
        return np.asarray(pattern.log_density(gaussians, first, even, self._shifts[rows])[0])
