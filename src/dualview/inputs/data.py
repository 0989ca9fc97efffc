"""The data of a fit: features X (U, D), a behavior, or both, of the same users."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from dualview.behaviors.base import Behavior, check_inherits
from dualview.behaviors.ids import Rows
from dualview.behaviors.naming import is_several, named_parts
from dualview.behaviors.several import SeveralBehaviors
from dualview.checks import column_names
from dualview.columns import Cells, Columns
from dualview.errors import DataWarning, DegenerateError, InputError
from dualview.inputs.cells import cell_coords, checked_table, warn_of_empty_rows
from dualview.inputs.features import feature_names, repeated_rows, repeats_text, row_ids
from dualview.inputs.several_tables import comes_as_tables, joined_tables, table_of

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Data:
    """Features in the user's units with their names, a behavior, and the users' ids; None for a
    view that is not there.

    codebook: what the columns of a table are; None for an array of numbers. cells: the table, where
    some of its cells are not exact or are categories; there are then no features. tables: names of
    the tables, where features came as several; their columns stand side by side.
    """

    features: Array | None
    feature_names: list[str]
    behavior: Behavior | None
    users: Sequence[Any]
    codebook: Columns | None = None
    cells: Cells | None = None
    tables: tuple[str, ...] = ()

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def has_features(self) -> bool:
        """Whether there is a table of users, complete or not."""
        return self.features is not None or self.cells is not None

    @property
    def has_numbers(self) -> bool:
        """Whether some columns of that table belong to the Gaussian view."""
        return bool(self.feature_names)

    def coords(self) -> dict[str, Any]:
        """Names along the dimensions of draws; an error where a file could not hold one."""
        coords: dict[str, Any] = {"user": np.asarray(self.users)}
        if self.feature_names:
            coords["feature"] = coords["feature_other"] = self.feature_names
        if self.tables:
            coords["table"] = list(self.tables)
            coords["block"] = [
                name
                for name in self.tables
                if name in {table_of(column) for column in self.feature_names}
            ]
        if self.cells is not None and self.codebook is not None:
            coords |= cell_coords(self.codebook, self.cells, self.users)
        if self.behavior is not None:
            coords |= self.behavior.coords()
        for kind, names in coords.items():
            odd = [name for name in names if isinstance(name, str) and "\0" in name]
            if odd:
                raise InputError(
                    f"The name of a {kind} has a NUL character: {odd[0]!r}. Give it another name."
                )
        return coords

    @contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """Inside, a DegenerateError names the users who have the same features, where there are
        any."""
        try:
            yield
        except DegenerateError as error:
            raise DegenerateError(f"{error}{self.same_features_text()}") from error

    def same_features_text(self) -> str:
        """A sentence that names the users who have the same features; empty where there are
        none."""
        sets = (
            [] if self.features is None or self.cells is not None else repeated_rows(self.features)
        )
        return (
            f" {repeats_text(sets, self.users)} A cluster of them can shrink onto one point."
            if sets
            else ""
        )


def checked_data(estimator: BaseEstimator, X: Any, y: Any) -> Data:
    """The data that ``fit`` of an estimator is given; sets the estimator's n_features_in_ and
    feature_names_in_."""
    features, codebook, cells, kinds, tables = None, None, None, None, ()
    y, is_table = _checked_behavior(y), _is_table(X)
    if comes_as_tables(X):
        tables = tuple(X)
        X, kinds = joined_tables(X)
    if X is None:
        for name in ("feature_names_in_", "n_features_in_"):
            estimator.__dict__.pop(name, None)
    else:
        features, codebook, cells = checked_table(estimator, X, kinds)
    table = features if cells is None else cells.low
    ids = row_ids(X)
    if ids is None:
        _refuse_ids_as_features(y, column_names(X) or [])
    behavior = (
        None
        if y is None
        else matched_behavior(y, None if table is None else Rows(len(table), ids, is_table))
    )
    if behavior is not None:
        ids = ids or behavior.users
    n_users = _n_users(table, behavior)
    names = [] if table is None else feature_names(estimator, codebook)
    data = Data(
        features, names, behavior, range(n_users) if ids is None else ids, codebook, cells, tables
    )
    if cells is not None and codebook is not None:
        warn_of_empty_rows(cells, codebook, data.users, behavior is not None)
    return data


def matched_behavior(y: Any, rows: Rows | None) -> Behavior:
    """The behavior that y is, of the rows of X; several where y is a list or a dictionary of
    them."""
    return SeveralBehaviors.of(y, rows) if is_several(y) else y.matched(rows)


def rows_of(X: Any) -> Rows | None:
    """The rows of features in a form that ``fit`` takes, and their ids; None without features."""
    if X is None:
        return None
    is_table, table = _is_table(X), joined_tables(X)[0] if comes_as_tables(X) else X
    return Rows(int(np.shape(table)[0]), row_ids(table), is_table)


def _refuse_ids_as_features(y: Any, names: Sequence[str]) -> None:
    """Raise where the column that names the users of observations is a feature of an X without ids,
    whose rows would be matched by position."""
    if is_several(y):
        parts = list(named_parts(y).values())
    else:
        parts = list(y.parts.values()) if isinstance(y, SeveralBehaviors) else [y]
    for part in parts:
        column = part._user_column if isinstance(part, Behavior) else None
        if column in names:
            raise InputError(
                f"X has a column {column!r}, the name of user: it would be a feature, and users "
                "would be counted by rows. If it holds their ids, make it the index of a pandas "
                f"table: X.set_index({column!r}), or X.to_pandas().set_index({column!r}). If user "
                "counts the rows of X from 0, pass user.to_numpy()."
            )


def _is_table(X: Any) -> bool:
    """Whether X is a pandas table, or has one among several."""
    return any(
        isinstance(table, pd.DataFrame) for table in (X.values() if comes_as_tables(X) else [X])
    )


def _checked_behavior(y: Any) -> Any:
    """A behavior, or several in a list or a dictionary; None for what is none."""
    if isinstance(y, type):
        raise InputError(
            f"y must be a behavior; got the class {y.__name__}. Make one: {y.__name__}(...)."
        )
    if y is None or isinstance(y, Behavior) or is_several(y):
        return y
    if hasattr(y, "prepare"):  # written as a behavior, which is not to be passed over
        check_inherits(y, Behavior, "A behavior")
    warnings.warn(
        f"y is not a behavior ({type(y).__name__}) and is ignored, as scikit-learn's clusterers "
        "do. A behavior is for example dv.SharedOutcome(participation, outcome).",
        DataWarning,
        stacklevel=4,
    )
    return None


def _n_users(features: Array | None, behavior: Behavior | None) -> int:
    sizes = [len(part) for part in (features, behavior) if part is not None]
    if not sizes:
        raise InputError("fit needs features X, a behavior, or both; got neither.")
    if behavior is not None and sizes[0] != len(behavior):
        raise InputError(
            f"X and behavior must be of the same users: X has {sizes[0]} rows, the behavior has "
            f"{len(behavior)} users. {behavior.advice(sizes[0])}"
        )
    if sizes[0] < 2:
        raise InputError(f"A mixture needs at least two users; got {sizes[0]}.")
    return sizes[0]
