"""What the rest of the package asks of a kind of column, besides the verbs of the sampler: its
view, the density of rows, imputation, replicates, residuals, what a link follows, profiles.

A kind is an object (:class:`FeatureKind`) that its folder registers
(:func:`dualview.columns.kinds.register_kind`). Features are a sum of blocks:
the columns of one kind in one table, independent of the others given the cluster.

Rows (R,) are the clusters of all draws (:class:`ClusterRows`). S draws, U or J users. Cells x of a
block are a type of its kind's own, with a length and slices. Values are cells on the scale of the
view, which ``Column.values`` turns into the user's units.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dualview.columns import Cells, Column, Columns
from dualview.columns.kinds import ColumnKind, column_kinds
from dualview.columns.layout import Layout
from dualview.units import Whitening
from dualview.views.base import Observed, View
from dualview.views.blocked import BlockedView

Array = NDArray[np.float64]
Places = NDArray[np.int64]
Taken = Sequence[tuple[NDArray[Any], Any]]  # rows that users have opened, and what they are now


class Described(Protocol):
    """The description of a model, as a block sees it."""

    @property
    def units(self) -> Mapping[str, Whitening]: ...
    @property
    def codebook(self) -> Columns | None: ...
    @property
    def layout(self) -> Layout | None: ...


class Fitted(Protocol):
    """The draws of a fit, as a block sees them."""

    @property
    def spec(self) -> Described: ...
    @property
    def components(self) -> dict[str, NDArray[Any]]: ...
    @property
    def feature_names(self) -> list[str]: ...
    @property
    def user_ids(self) -> list[str]: ...
    @property
    def data(self) -> dict[str, NDArray[Any]]: ...
    def flat(self, name: str) -> NDArray[Any]: ...
    def base(self, view: str, names: Sequence[str]) -> dict[str, NDArray[Any]]: ...
    def __contains__(self, name: object) -> bool: ...


class ClusterRows:
    """Clusters of all draws in one table: every component of each draw, then fresh ones from its
    base. Rows are sorted by draw.

    draw (R,): the draw of each row. component (R,): its row in the posterior's table of components,
    −1 for a fresh one. first (N,): each draw's first row. known (R,): which rows are no fresh ones.
    """

    def __init__(self, owner: NDArray[Any], n_draws: int, n_fresh: int) -> None:
        """owner: the draw of each component."""
        self.n_draws, self.n_fresh = n_draws, n_fresh
        draw = np.concatenate([owner, np.repeat(np.arange(n_draws), n_fresh)])
        order = np.argsort(draw, kind="stable")
        self.draw = draw[order]
        self.component = np.concatenate([np.arange(len(owner)), np.full(n_draws * n_fresh, -1)])[
            order
        ]
        self.first = np.searchsorted(self.draw, np.arange(n_draws))
        self.known = self.component >= 0

    def __len__(self) -> int:
        return len(self.draw)

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """Each row's place among the known ones, or among the fresh ones, (R,)."""
        return np.where(self.known, np.cumsum(self.known), np.cumsum(~self.known)) - 1


class BlockRows(ABC):
    """A block in every row."""

    @abstractmethod
    def log_density(self, x: Any, log_weights: Array) -> Array:
        """ln p(cells of user j | row), (J, R), in working units; missing ones add nothing.

        log_weights (J, R): ln of what the rows of each draw weigh besides, up to a constant. A kind
        whose densities are estimates may take more care with rows that weigh more.
        """

    @abstractmethod
    def opened(
        self, rng: np.random.Generator, rows: Places, x: Any, values: Array | None = None
    ) -> Any:
        """Fresh clusters, by their rows, as they are once a user with cells x is in them.

        values (rows, columns): the user's complete cells, where they were drawn before.
        """

    @abstractmethod
    def log_opened(self, x: Any, rows: Places, opened: Any) -> Array:
        """ln p(cells of one user | clusters that another has opened), (rows,)."""

    @abstractmethod
    def fill(
        self, rng: np.random.Generator, rows: Places, weights: Array, x: Any, columns: Places
    ) -> tuple[NDArray[Any], list[Array] | None]:
        """Cells of one user in some columns, drawn in rows (n,): values (n, columns).

        And the probabilities of each one's levels given weights (R,) of all rows, of a kind that
        ``has_shares``.
        """

    def draw(self, rng: np.random.Generator, rows: Places, x: Any, taken: Taken = ()) -> Array:
        """Complete values (rows, columns) of one user, those that ``FeatureBlock.complete`` says it
        lacks drawn in some rows; a kind whose cells are always complete has none."""
        raise NotImplementedError(
            f"{type(self).__name__} lacks `draw`: it cannot complete cells for a link."
        )


class FeatureBlock(ABC):
    """The columns of one kind in one table, in the draws of a fit.

    columns: what each is. table: the place of the table. In trees the columns are along ``dim`` of
    a variable; ``view`` is the name of the view in draws.
    """

    view: ClassVar[str]
    variable: ClassVar[str]
    dim: ClassVar[str]
    has_shares: ClassVar[bool] = False  # cells are levels without an order, filled in by shares

    def __init__(self, columns: Sequence[Column], table: int = 0) -> None:
        self.columns, self.table = tuple(columns), table

    @abstractmethod
    def cells(self, data: Mapping[str, NDArray[Any]]) -> Any:
        """Cells of users (J,), from what is observed of them: arrays by name."""

    @abstractmethod
    def values(self, x: Any) -> NDArray[Any]:
        """Values (J, columns) that say what is known of cells; NaN, or below 0, where missing."""

    def known(self, x: Any) -> NDArray[Any]:
        """What is known of cells in the user's units, (J, columns), NaN where they are missing; of
        levels, numbers, −1 where they are missing."""
        return self.values(x)

    def recorded(self, vectors: Array) -> NDArray[Any]:
        """Vectors (…, columns or dimensions) of the view as they would be recorded, in the user's
        units; as they are by default."""
        return vectors

    @abstractmethod
    def rows(self, rng: np.random.Generator, rows: ClusterRows) -> BlockRows:
        """The block in every row."""

    @abstractmethod
    def log_density(self, x: Any, rows: Places) -> Array:
        """ln p(cells of user u | its cluster) in the user's units, (S, U); rows (S, U): of the
        table of components."""

    @abstractmethod
    def replicates(self, rng: np.random.Generator, rows: Places) -> NDArray[Any]:
        """Cells of users drawn anew in their clusters, as they would be recorded, (S, U,
        columns)."""

    @abstractmethod
    def unknown(self, x: Any) -> tuple[Places, Places]:
        """Users and columns (n,) of the cells to be filled in."""

    @abstractmethod
    def fill(
        self, rng: np.random.Generator, x: Any, cells: tuple[Places, Places], rows: Places
    ) -> tuple[NDArray[Any], list[Array] | None]:
        """Cells of users of the fit in all draws, values (S, n); and probabilities of each one's
        levels, of a kind that ``has_shares``."""

    def residuals(
        self,
        rng: np.random.Generator,  # noqa: ARG002
        x: Any,  # noqa: ARG002
        draws: Places,  # noqa: ARG002
        rows: Places,  # noqa: ARG002
    ) -> Array | None:
        """Numbers of the fit's users (S, U, …) that are standard normal if the model is right, in
        some draws; by default none, and nothing is checked."""
        return None

    def completed(self, x: Any, draws: Places) -> Array | None:  # noqa: ARG002
        """Values (S, U, columns) of the fit's users in some draws, where the sampler has drawn
        cells; None where it draws none."""
        return None

    def complete(self, x: Any) -> NDArray[np.bool_]:
        """Which users (J,) have all that a link follows; by default all."""
        return np.ones(len(x), dtype=np.bool_)

    def design(self, x: Any, values: Array | None = None) -> Array:  # noqa: ARG002
        """What a link lets latent vectors follow, (J, …): numbers that are 0 on average; by default
        none. values (…, columns): those that complete the cells."""
        return np.empty((len(x), 0))

    def scalar_text(self, name: str, number: int) -> str | None:  # noqa: ARG002
        """In words, the number of a row of numbers that were drawn, by the name without that of the
        view; by default none."""
        return None

    def profile(self, x: Any) -> dict[str, dict[str, Any]]:  # noqa: ARG002
        """A summary of some users, by its name and by column; by default none."""
        return {}


class FeatureKind(ColumnKind):
    """A kind of columns. Besides what the codebook asks of it, it says how the model sees its
    columns, and what there is of them in the draws of a fit.

    shared_dims: of numbers that its components share, by name, the dimensions in files.
    """

    shared_dims: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def observed(
        self,
        cells: Cells,
        codebook: Columns,
        layout: Layout | None,
        units: Mapping[str, Whitening],  # noqa: ARG002
    ) -> Observed | None:
        """The columns of a table, or of several by their layout, in the units of each view; None
        where there are none of this kind. By default tables have a view each (``make_view``)."""
        columns = codebook.of(self.view)
        if not columns:
            return None
        if layout is None:
            return Observed(self.make_view(columns), self.vectors(cells))
        places = layout.places(self.view)
        views = tuple(self.make_view(columns[own]) for _, own in places)
        owners = tuple(table for table, _ in places)
        return Observed(BlockedView(views, owners), self.vectors(cells))

    def make_view(self, columns: Sequence[Column]) -> View:
        """The view of the columns of one table."""
        raise NotImplementedError(f"{type(self).__name__} lacks `make_view` or `observed`.")

    def vectors(self, cells: Cells) -> Array:
        """What the view sees of cells, (U, columns): by default the kind's array, as floats."""
        return cells.data[self.arrays[0]].astype(np.float64)

    def blocks(self, draws: Fitted) -> Sequence[FeatureBlock]:
        """The blocks of all tables in the draws of a fit, by default a ``block`` each; none where
        there are no such columns."""
        columns = () if draws.spec.codebook is None else draws.spec.codebook.of(self.view)
        if not columns:
            return []
        places = (
            [(0, slice(None))] if draws.spec.layout is None else draws.spec.layout.places(self.view)
        )
        return [self.block(draws, columns, table, own) for table, own in places]

    def block(
        self, draws: Fitted, columns: Sequence[Column], table: int, own: slice
    ) -> FeatureBlock:
        """The columns of one table; own: which of all columns of this kind they are."""
        raise NotImplementedError(f"{type(self).__name__} lacks `block` or `blocks`.")

    def coords(
        self,
        columns: Sequence[Column],
        cells: Cells,  # noqa: ARG002
        users: Sequence[Any],  # noqa: ARG002
    ) -> dict[str, list[str]]:
        """Names along the dimensions in files, of a table that has such columns."""
        return {self.dim: [column.name for column in columns]}

    def slope_names(self, columns: Sequence[Column]) -> list[str]:  # noqa: ARG002
        """Names of what a link follows of these columns, in the order of ``View.design``; by
        default nothing."""
        return []


def feature_kinds() -> tuple[FeatureKind, ...]:
    """All kinds of columns, in the order in which they were registered: numbers first."""
    return cast(tuple[FeatureKind, ...], column_kinds())


def blocks_of(draws: Fitted) -> list[FeatureBlock]:
    """All blocks of a fit, kind after kind."""
    return [block for kind in feature_kinds() for block in kind.blocks(draws)]
