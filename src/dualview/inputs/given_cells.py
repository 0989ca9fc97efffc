"""Cells that a query names: some of the columns of a fit, as a table, a row or a dictionary."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from dualview.checks import listed
from dualview.columns import Cells, Column, Columns
from dualview.columns.kinds import IGNORE
from dualview.columns.table import Table
from dualview.errors import InputError
from dualview.inputs.cells import new_cells
from dualview.inputs.new_users import new_features
from dualview.inputs.several_tables import joined_tables
from dualview.posterior import Posterior
from dualview.posterior.prediction.cell_table import CellTable, places_of

Unknown = Literal["error", "missing"]

_SHOWN = 8


def read_cells(
    estimator: BaseEstimator, post: Posterior, given: Any, what: str, unknown: Unknown
) -> CellTable:
    """Cells in some of the columns of a fit; columns that are not there are missing.

    given: a table or a dictionary of some columns, a pandas row, an array of all columns, or None.
    what: how messages call it.
    """
    if given is None:
        return CellTable.nothing(post)
    codebook = post.spec.codebook
    if not _has_names(given):
        return CellTable.of(post, new_features(estimator, post, given, unknown).cells)
    frame = _frame(post, given, what)
    if codebook is None:
        whole = frame.reindex(columns=_names(post))
        try:
            numbers = whole.to_numpy(dtype=float, na_value=np.nan)
        except (TypeError, ValueError):
            raise InputError(f"{what} must hold numbers, as the fit's features do.") from None
        X = numbers if not hasattr(estimator, "feature_names_in_") else whole.astype(float)
        cells = new_cells(estimator, None, X, unknown)
    else:
        cells = _by_codebook(estimator, codebook, frame, unknown)
    return CellTable.of(post, cells)


def together(rows: CellTable, given: CellTable) -> tuple[CellTable, CellTable]:
    """Cells of both, and those that are given, a row for each of ``rows``."""
    n = len(rows)
    if len(given) not in (1, n):
        raise InputError(
            f"given must have one row, or one for each row that is asked about, {n}; it has "
            f"{len(given)}."
        )
    known = given if len(given) == n else given.take(np.zeros(n, dtype=np.intp))
    twice = np.flatnonzero((~rows.missing & ~known.missing).any(axis=0))
    if len(twice):
        names = [known.names[place] for place in twice]
        raise InputError(
            f"Cells are asked about or given, not both; {listed(names)} are in both. Take them "
            "out of given, or make them missing."
        )
    return rows.filled(known), known


def _has_names(given: Any) -> bool:
    return (
        isinstance(given, Mapping | pd.Series)
        or hasattr(given, "columns")
        or hasattr(given, "column_names")
    )


def _names(post: Posterior) -> list[str]:
    """Names that columns may have: of a censored column, its own and those of its ends."""
    codebook = post.spec.codebook
    if codebook is None:
        return post.feature_names
    own = [name for column in codebook.columns for name in (column.name, *column.sources) if name]
    return list(dict.fromkeys(own))


def _frame(post: Posterior, given: Any, what: str) -> pd.DataFrame:
    """A table of the columns that are given, whose names the fit knows."""
    layout = post.spec.layout
    if isinstance(given, pd.Series):
        given = given.to_dict()
    if isinstance(given, Mapping):
        if not given:
            return pd.DataFrame(index=range(1))
        if layout is not None and set(given) <= set(layout.names):
            given = joined_tables(given, [name for name in layout.names if name in given])[0]
        else:
            given = _of_dictionary(given, what)
    table = Table.of(given)
    frame = table.frame.set_axis(given.index, axis=0) if hasattr(given, "index") else table.frame
    strange = [name for name in table.names if name not in _names(post)]
    if strange:
        known = list(places_of(post))
        raise InputError(
            f"{what} has {listed(strange)}, which the fit has no column for; its columns are "
            f"{', '.join(known[:_SHOWN])}{', …' if len(known) > _SHOWN else ''}."
        )
    return frame


def _of_dictionary(given: Mapping[str, Any], what: str) -> pd.DataFrame:
    """One row where all values are single ones, else a row for each of the values."""
    sizes = {
        str(name): len(value)
        for name, value in given.items()
        if isinstance(value, list | tuple | np.ndarray | pd.Series)
    }
    if len(set(sizes.values())) > 1:
        raise InputError(
            f"All columns of {what} must have the same number of values: "
            f"{', '.join(f'{name} has {n}' for name, n in sizes.items())}."
        )
    n = next(iter(sizes.values()), 1)
    values = {
        str(name): list(value) if str(name) in sizes else [value] * n
        for name, value in given.items()
    }
    return pd.DataFrame(values)


def _by_codebook(
    estimator: BaseEstimator, codebook: Columns, frame: pd.DataFrame, unknown: Unknown
) -> Cells:
    """Cells of a table that has some of the columns; a censored column by its own name holds exact
    numbers."""
    exact = [column.name for column in codebook.columns if _is_exact(column, frame)]
    rest = frame.drop(columns=exact)
    whole = {
        name: rest[name] if name in rest else _empty(column, frame.index)
        for column in codebook.columns
        if column.kind != IGNORE
        for name in [own for own in column.sources if own] or [column.name]
    }
    cells = new_cells(estimator, codebook, pd.DataFrame(whole, index=frame.index), unknown)
    places = {column.name: place for place, column in enumerate(codebook.of("features"))}
    for name in exact:
        values = _exact_numbers(name, frame[name])
        known, place = ~np.isnan(values), places[name]
        cells.low[known, place] = cells.high[known, place] = values[known]
    return cells


def _is_exact(column: Column, frame: pd.DataFrame) -> bool:
    """Whether a censored column stands in a table by its own name, as one number for each user."""
    if column.kind != "censored" or column.name not in frame:
        return False
    if len(column.sources) == 1:
        return not isinstance(frame[column.name].dtype, pd.IntervalDtype)
    others = [name for name in column.sources if name != column.name]
    return others != [None] and not any(name in frame for name in others)


def _exact_numbers(name: str, cells: pd.Series) -> NDArray[np.float64]:
    try:
        return np.asarray(cells.to_numpy(dtype=float, na_value=np.nan))
    except (TypeError, ValueError):
        raise InputError(
            f"Column {name!r} is censored in the fit. Give a number that is known exactly, or the "
            "columns of its ends."
        ) from None


def _empty(column: Column, index: pd.Index) -> pd.Series:
    """A column without any value, of the kind that the codebook reads."""
    holds_intervals = column.kind == "censored" and len(column.sources) == 1
    return pd.Series(
        np.nan if holds_intervals else None,
        index,
        "interval[float64, right]" if holds_intervals else object,
    )
