"""Tables of users from any library, column by column: the values of each column before its kind is
chosen."""

import datetime
import decimal
import numbers as abstract
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from dualview.checks import (
    check_range,
    index_names,
    names_text,
    refuse_non_numbers,
    rows_text,
    unmasked,
)
from dualview.errors import InputError, MissingExtraError

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_SPANS = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    np.datetime64,
    np.timedelta64,
    pd.Period,
)
_NESTED = (list, tuple, dict, set, frozenset, np.ndarray, pd.Series)


@dataclass(frozen=True)
class Texts:
    """A column as levels: codes (U,), −1 where missing, of levels in order; is_ordered: the table
    says that order matters."""

    codes: NDArray[np.int64]
    levels: tuple[str, ...]
    is_ordered: bool


@dataclass(frozen=True)
class Source:
    """A column as it came. ``holds`` says what: numbers, flags, text, categories, intervals, or
    what cannot be used."""

    name: str
    holds: str
    cells: pd.Series
    table: "Table"

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers."""
        return self.holds == "numbers"

    @property
    def is_listable(self) -> bool:
        """Whether its values can be levels."""
        return self.holds in ("numbers", "flags", "text", "categories", "mixed numbers and text")

    @property
    def precision(self) -> float:
        """Relative precision of its numbers as they were stored."""
        stored = getattr(self.cells.dtype, "numpy_dtype", self.cells.dtype)
        return float(np.finfo(stored if stored in (np.float32, np.float16) else float).eps)

    def numbers(self, open_ends: bool = False) -> Array:
        """Numbers (U,), NaN where missing. Infinite ones are refused unless they stand for open
        ends."""
        values = np.asarray(self.cells.to_numpy(dtype=float, na_value=np.nan))
        infinite = np.isinf(values)
        if infinite.any() and not open_ends:
            raise InputError(
                f"Column {self.name!r} has infinite values, in {self.table.who(infinite)}. Make "
                "them missing (NaN) or leave "
                f"the column out: {leave_out(self.name)}."
            )
        check_range(np.abs(values[np.isfinite(values)]).max(initial=0.0), f"Column {self.name!r}")
        return values

    def known(self) -> Array:
        """The numbers that are there; raises where there are none, or, in a table with names, one
        only."""
        values = self.numbers()
        values = values[~np.isnan(values)]
        if not len(values):
            raise InputError(no_value(self.name))
        if values.min() == values.max() and self.table.is_named:
            raise InputError(one_value(self.name, f"{values[0]:g}"))
        return values

    def texts(self) -> Texts:
        """The cells as levels: declared ones where the table has them, else those that are there,
        sorted."""
        if isinstance(self.cells.dtype, pd.CategoricalDtype):
            levels = [level_text(level) for level in self.cells.cat.categories]
            if len(set(levels)) < len(levels):
                raise InputError(
                    f"Column {self.name!r} has categories that read the same: "
                    f"{', '.join(levels)}. Rename them."
                )
            codes = self.cells.cat.codes.to_numpy().astype(np.int64)
            return Texts(codes, tuple(levels), bool(self.cells.cat.ordered))
        if self.is_numeric:
            local, uniques = pd.factorize(self.numbers(), sort=True)
            return Texts(
                local.astype(np.int64), tuple(level_text(value) for value in uniques), False
            )
        texts = self.cells.astype(object).map(level_text, na_action="ignore")
        local, uniques = pd.factorize(texts, sort=True)
        return Texts(local.astype(np.int64), tuple(str(level) for level in uniques), False)


@dataclass(frozen=True)
class Table:
    """Columns of a table; ``is_named`` is False for an array, whose columns are x0, x1, …"""

    frame: pd.DataFrame
    is_named: bool
    users: Sequence[str] | None

    @classmethod
    def of(cls, X: Any) -> "Table":
        """A pandas, polars or Arrow table, or an array of numbers."""
        if isinstance(X, pd.DataFrame):
            frame = X.copy(deep=False)
            users = index_names(X)
            frame.columns = [str(name) for name in X.columns]
            _check_columns(list(frame.columns))
            _check_users(len(frame))
            return cls(frame.reset_index(drop=True), True, users)
        if hasattr(X, "to_pandas") and hasattr(X, "columns"):
            _check_columns(list(getattr(X, "column_names", None) or X.columns))
            return cls.of(to_pandas(X))
        return cls(_of_array(X), False, None)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [str(name) for name in self.frame.columns]

    @property
    def n_users(self) -> int:
        """Number of rows."""
        return len(self.frame)

    def source(self, name: str) -> Source:
        """A column by its name."""
        cells = self.frame[name]
        return Source(name, _holds(cells), cells, self)

    def who(self, mask: Mask) -> str:
        """Users by their names where the table has them, else by rows."""
        return (
            rows_text(mask) if self.users is None else f"users {names_text(list(self.users), mask)}"
        )


def level_text(value: Any) -> str:
    """A level as text: whole numbers without a decimal point, whatever type they come in."""
    if isinstance(value, abstract.Real) and not isinstance(value, bool | np.bool_):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)


def leave_out(name: str) -> str:
    """How a column is left out."""
    return f"columns={{{name!r}: 'ignore'}}"


def no_value(name: str) -> str:
    """What is wrong with a column without values."""
    return f"Column {name!r} has no value at all. Leave it out: {leave_out(name)}."


def one_value(name: str, value: str) -> str:
    """What is wrong with a column that does not vary."""
    return (
        f"Column {name!r} has one value only, {value:.40}: it says nothing about clusters. "
        f"Leave it out: {leave_out(name)}."
    )


def to_pandas(X: Any) -> pd.DataFrame:
    try:
        return X.to_pandas()
    except ImportError as error:
        raise MissingExtraError(
            f"Reading this table needs another package ({error}): pip install 'dualview[tables]'."
        ) from error


def _of_array(X: Any) -> pd.DataFrame:
    if sparse.issparse(X):
        raise InputError(
            "X must be a dense array or a table; got a sparse matrix. Pass X.toarray()."
        )
    refuse_non_numbers(X, "X")
    cells = np.asarray(unmasked(X))
    if cells.ndim != 2:
        raise InputError(
            f"X must be (n_users, n_features), a row per user; got shape {cells.shape}. Reshape "
            "your data: a single feature is "
            "X.reshape(-1, 1), of a Series X.to_frame(); a single user is X.reshape(1, -1)."
        )
    _check_users(len(cells))
    frame = pd.DataFrame(cells, columns=[f"x{j}" for j in range(cells.shape[1])])
    return (
        frame.apply(pd.to_numeric).astype(float) if cells.dtype.kind == "O" else frame.astype(float)
    )


def _check_columns(names: list[str]) -> None:
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise InputError(
            f"X must name each column once; more than once: {', '.join(repeated[:5])}. Rename or "
            "drop them."
        )
    if not names:
        raise InputError("X has no columns. Pass X=None to cluster by behavior alone.")


def _check_users(n_users: int) -> None:
    if n_users == 0:
        raise InputError("X has no rows; give a row per user.")


def _holds(cells: pd.Series) -> str:
    """What a column holds, in words."""
    kind = cells.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return "categories"
    if isinstance(kind, pd.IntervalDtype):
        return "intervals"
    if pd.api.types.is_bool_dtype(kind):
        return "flags"
    if pd.api.types.is_complex_dtype(kind):
        return "complex numbers"
    if pd.api.types.is_numeric_dtype(kind):
        return "numbers"
    if not pd.api.types.is_object_dtype(kind) and pd.api.types.is_string_dtype(kind):
        return "text"
    if (
        isinstance(kind, pd.PeriodDtype)
        or pd.api.types.is_datetime64_any_dtype(kind)
        or kind.kind == "m"
    ):
        return "dates or time spans"
    known = cells.dropna().astype(object)
    try:
        return _held(list(known.unique()))
    except TypeError:  # lists cannot be compared by hash
        return _held(list(known))


def _held(values: list[Any]) -> str:
    """What objects are, in words."""
    if not values:
        return "nothing"
    tests: dict[str, Callable[[Any], bool]] = {
        "flags": lambda value: isinstance(value, bool | np.bool_),
        "numbers": lambda value: (
            isinstance(value, abstract.Real | decimal.Decimal) and not isinstance(value, bool)
        ),
        "text": lambda value: isinstance(value, str),
        "intervals": lambda value: isinstance(value, pd.Interval),
        "mixed numbers and text": lambda value: isinstance(
            value, abstract.Real | decimal.Decimal | str | np.bool_
        ),
    }
    for word, test in tests.items():
        if all(test(value) for value in values):
            return word
    if any(isinstance(value, _NESTED) for value in values):
        return "lists or records"
    if any(isinstance(value, _SPANS) for value in values):
        return "dates or time spans"
    return f"objects of type {type(values[0]).__name__}"
