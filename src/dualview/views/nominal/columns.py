"""Nominal columns, (M15): levels without an order, which users have by chance."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dualview.columns import Cells, Column
from dualview.columns.kinds import Wish, register_kind
from dualview.columns.levels import codes_of, expected_shares, used_levels
from dualview.columns.table import Source, Table, Texts, leave_out
from dualview.errors import InputError
from dualview.views.features import FeatureKind, Fitted
from dualview.views.nominal.block import NominalBlock
from dualview.views.nominal.view import NominalView

_MANY_LEVELS = 10  # at most this many are never too many, unless each user has a level of its own


class NominalKind(FeatureKind):
    """Levels without an order."""

    view, arrays, dim, is_basic = "categories", ("codes",), "category", True
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {"nominal": ("levels",)}
    shared_dims: ClassVar[Mapping[str, tuple[str, ...]]] = {"concentrations": ("category",)}

    def recognize(self, source: Source) -> Column | None:
        """Text, flags, and numbers of which there are two; ordered categories are none if there are
        more."""
        if source.is_numeric:
            values = source.known()
            is_nominal = len(np.unique(values)) == 2 and len(values) > 2
        elif source.is_listable and source.holds != "mixed numbers and text":
            texts = source.texts()
            is_nominal = not texts.is_ordered or len(texts.levels) <= 2
            if source.holds != "categories":
                _refuse_many_levels(source, texts)
        else:
            is_nominal = False
        return self.column(source.name, source.table, Wish("nominal")) if is_nominal else None

    def column(self, name: str, table: Table, wish: Wish) -> Column:
        source = table.source(name)
        texts = used_levels(source, wish)
        what = {"flags": "flags", "numbers": "numbers", "categories": "categories"}.get(
            source.holds, "text"
        )
        why = f"{what}, {len(texts.levels)} levels"
        shares = tuple(float(share) for share in expected_shares(texts))
        return Column(name, "nominal", why, levels=texts.levels, shares=shares)

    def cells(
        self, columns: Sequence[Column], table: Table, unknown: str
    ) -> dict[str, NDArray[Any]]:
        codes = np.empty((table.n_users, len(columns)), dtype=np.int64)
        for j, column in enumerate(columns):
            codes[:, j] = codes_of(column, table.source(column.name), unknown)
        return {"codes": codes}

    def missing(self, cells: Cells) -> NDArray[np.bool_]:
        return np.asarray(cells.data["codes"] < 0)

    def make_view(self, columns: Sequence[Column]) -> NominalView:
        return NominalView(tuple(column.shares for column in columns))

    def block(
        self, draws: Fitted, columns: Sequence[Column], table: int, own: slice
    ) -> NominalBlock:
        return NominalBlock(draws, columns, table, own)

    def coords(
        self,
        columns: Sequence[Column],
        cells: Cells,  # noqa: ARG002
        users: Sequence[Any],  # noqa: ARG002
    ) -> dict[str, list[str]]:
        """Names of the columns and of their levels."""
        return {
            "category": [column.name for column in columns],
            "level": self.slope_names(columns),
        }

    def slope_names(self, columns: Sequence[Column]) -> list[str]:
        """The levels."""
        return [f"{column.name}={level}" for column in columns for level in column.levels]


def _refuse_many_levels(source: Source, texts: Texts) -> None:
    n_known, n_levels = int((texts.codes >= 0).sum()), len(texts.levels)
    if n_levels > 2 and n_levels > min(n_known - 1, max(_MANY_LEVELS, n_known // 2)):
        example = texts.levels[0]
        raise InputError(
            f"Column {source.name!r} has {n_levels} levels for {n_known} users, such as "
            f"{example:.40}: names, ids or free text "
            f"say nothing about clusters. Leave it out: {leave_out(source.name)}; merge levels; "
            "turn digits into numbers; or "
            f"keep it as it is: columns={{{source.name!r}: 'nominal'}}."
        )


register_kind(NominalKind())
