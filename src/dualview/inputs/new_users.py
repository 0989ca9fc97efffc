"""Features of users new to a fit, read as the fit's own were."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from dualview.behaviors import Behavior
from dualview.checks import refuse_repeated_columns
from dualview.columns import Cells, Columns
from dualview.errors import InputError
from dualview.inputs.features import checked_features, feature_names, row_ids, warn_of_projection
from dualview.inputs.several_tables import comes_as_tables, joined_tables
from dualview.posterior import Posterior
from dualview.posterior.feature_rows import Features
from dualview.posterior.user_cells import UserCells

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NewFeatures:
    """Cells of J new users, and what predictions see of them: vectors in working units where all cells are exact numbers."""

    cells: UserCells
    seen: Features
    names: Sequence[Any]

    def __len__(self) -> int:
        return len(self.cells)


def new_features(estimator: Any, post: Posterior, X: Any, unknown: Literal["error", "missing"]) -> NewFeatures:
    """Features of new users by the columns of the fit. unknown: what a level is that the fit has not seen."""
    if unknown not in ("error", "missing"):
        raise InputError(f'unknown must be "error" or "missing"; got {unknown!r}.')
    if post.layout is not None and comes_as_tables(X):
        X = joined_tables(X, post.layout.names)[0]
    if post.codebook is None:
        numbers = checked_features(estimator, X, reset=False, missing=True)
        cells = _cells_of(numbers)
    else:
        cells = _read(estimator, post.codebook, X, unknown)
    units = post.units.get("features")
    table, ids = UserCells(cells, units), row_ids(X)
    counted: Sequence[Any] = X.index.tolist() if isinstance(X, pd.DataFrame) else range(cells.n_users)
    if units is not None:
        names = feature_names(estimator) if post.codebook is None else [column.name for column in post.codebook.gaussian]
        rows = ids or [f"row {j}" for j in range(cells.n_users)]
        warn_of_projection(table.filled(), names, units, rows)
    seen = np.ascontiguousarray(units.to_working(cells.low)) if units is not None and cells.is_exact else table
    return NewFeatures(table, seen, counted if ids is None else ids)


def _cells_of(numbers: Array) -> Cells:
    """Numbers, NaN where they are missing, as cells."""
    missing = np.isnan(numbers)
    codes = np.empty((len(numbers), 0), dtype=np.int64)
    return Cells(np.where(missing, -np.inf, numbers), np.where(missing, np.inf, numbers), codes)


def _read(estimator: Any, codebook: Columns, X: Any, unknown: Literal["error", "missing"]) -> Cells:
    if isinstance(X, Behavior):
        raise InputError("X takes the users' features; got a behavior.")
    refuse_repeated_columns(X, "X")
    if all(column.kind == "continuous" for column in codebook.columns):  # scikit-learn's rules for names then hold
        validate_data(estimator, X, reset=False, skip_check_array=True)
    return codebook.cells(X, unknown)
