"""Validation of input. A message says what was expected, what was given, and what to do."""

import datetime
import decimal
import numbers as abstract
import os
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dualview.errors import InputError, InputTypeError, MissingExtraError

Array = NDArray[np.float64]

SMALLEST, LARGEST = 1e-100, 1e100  # leaves room for squares, products and heavy tails of draws
_SHOWN = 5  # rows or columns that a message names
_KINDS = {
    "U": "text",
    "S": "text",
    "T": "text",
    "M": "dates",
    "m": "time spans",
    "c": "complex numbers",
}
_NUMBERS = (abstract.Real, decimal.Decimal, np.bool_)
# Messages have a word for these.
_KNOWN = (str, bytes, complex, datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)


def whole_number(value: Any, name: str, least: int) -> int:
    """An int of at least this much; True and 2.0 are none."""
    if not isinstance(value, abstract.Integral) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}.")
    return int(value)


def positive_number(value: Any, name: str) -> float:
    """A finite number above zero."""
    if (
        not isinstance(value, abstract.Real)
        or isinstance(value, bool)
        or not 0 < float(value) < np.inf
    ):
        raise InputError(f"{name} must be a positive number; got {value!r}.")
    return float(value)


def number_in(value: Any, name: str, least: float, below: float) -> float:
    """A number from the least to less than another."""
    if (
        not isinstance(value, abstract.Real)
        or isinstance(value, bool)
        or not least <= float(value) < below
    ):
        raise InputError(
            f"{name} must be a number from {least:g} to less than {below:g}; got {value!r}."
        )
    return float(value)


def is_learned(value: Any, name: str) -> bool:
    """Whether a parameter is the word "learned"; its former spelling, "learnt", gets a warning."""
    if isinstance(value, str) and value == "learnt":
        warnings.warn(
            f'{name}="learnt" is now {name}="learned"; the former spelling will go in the next '
            "release.",
            FutureWarning,
            stacklevel=3,
        )
        return True
    return isinstance(value, str) and value == "learned"


def generator(seed: Any) -> np.random.Generator:
    """A generator of random numbers; an error where there is none with such a seed."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InputError(f"seed must be a whole number of at least 0; got {seed!r}.") from None


def draws_generator(n: Any, seed: Any, size: int) -> np.random.Generator:
    """A generator for n draws of this many numbers each; an error where n is no number of draws, or
    memory has no room."""
    n_numbers = whole_number(n, "n, the number of draws,", 0) * size
    what = f"n, the number of draws, is too large: {n:,} draws of {size:,} numbers each"
    check_memory(8.0 * n_numbers, what, "Draw fewer, or predict fewer cases at a time.")
    return generator(seed)


def check_memory(needed: float, what: str, advice: str) -> None:
    """Raise where something takes more bytes than this machine has."""
    there = memory()
    if needed > there:
        raise InputError(
            f"{what} take {needed / 1e9:,.0f} GB, and this machine has {there / 1e9:,.0f} GB. "
            f"{advice}"
        )


def memory() -> float:
    """Bytes of memory of this machine; without a limit where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # Windows
        return float("inf")


def file_path(value: Any, name: str) -> Path:
    """The name of a file or folder as a path."""
    if isinstance(value, bytes) or not isinstance(value, str | os.PathLike):
        raise InputTypeError(
            f"{name} must be the name of a file or folder, as text or pathlib.Path; got "
            f"{value!r:.80}."
        )
    return Path(value)


def require_extra(module: str, wanted: str, extra: str) -> Any:
    """A module that an extra installs; where it is missing, an error in words that ``wanted``
    begins."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{wanted} {module}, which is not installed: pip install 'dualview[{extra}]'."
        ) from error


def chosen_rows(rows: Any, n: int, what: str) -> NDArray[Any]:
    """Positions among n rows, or a mask of them, as an array; what: the rows are called."""
    wanted = f"take needs positions or a mask of the {n} {what}"
    try:
        chosen = np.asarray(unmasked(rows), dtype=None if np.size(rows) else np.int64)
    except (TypeError, ValueError):
        raise InputError(f"{wanted}; got {rows!r:.80}.") from None
    if chosen.ndim != 1 or chosen.dtype.kind not in "iub":
        raise InputError(f"{wanted}; got {rows!r:.80}.")
    if chosen.dtype.kind == "b" and len(chosen) != n:
        raise InputError(
            f"{wanted}; got a mask of length {len(chosen)}. A mask has a value for each of them."
        )
    outside = np.zeros(0) if chosen.dtype.kind == "b" else chosen[(chosen < -n) | (chosen >= n)]
    if len(outside):
        raise InputError(
            f"{wanted}; got {outside[0]}. Positions go from 0 to {n - 1}, those from the end "
            f"from -1 to {-n}."
        )
    return chosen


def interval_ends(probability: Any) -> tuple[float, float]:
    """The probabilities below the low and the high end of a central interval that holds this
    much."""
    tail = 0.5 * (1.0 - checked_probability(probability, "An interval's"))
    return tail, 1.0 - tail


def checked_probability(probability: Any, whose: str) -> float:
    """A number between 0 and 1, both left out; an error otherwise, also for several of them."""
    is_one = isinstance(probability, abstract.Real) and not isinstance(probability, bool)
    if not is_one or not 0 < float(probability) < 1:
        raise InputError(f"{whose} probability lies between 0 and 1; got {probability!r}.")
    return float(probability)


def column_names(table: Any) -> list[str] | None:
    """The column names of a DataFrame of any library; None without names, or with numbers in their
    place."""
    columns = getattr(table, "column_names", None)  # pyarrow's, whose columns are the data
    if not isinstance(columns, list):
        columns = getattr(table, "columns", None)
    if columns is None or not all(isinstance(c, str) for c in columns):
        return None
    return [str(c) for c in columns]


def index_names(table: Any) -> list[str] | None:
    """The row names of a DataFrame; None without an index, with numbers in their place, or where a
    name repeats."""
    index = getattr(table, "index", None)
    if (
        index is None
        or callable(index)
        or getattr(index, "dtype", None) is None
        or index.dtype.kind in "iuf"
    ):
        return None
    names = [str(name) for name in index]
    return names if len(set(names)) == len(names) else None


def refuse_repeated_columns(table: Any, name: str) -> None:
    """Raise where two columns of a DataFrame have the same name."""
    names = column_names(table)
    if names is None or len(set(names)) == len(names):
        return
    repeated = sorted({column for column in names if names.count(column) > 1})
    raise InputError(
        f"{name} must name each column once; more than once: {listed(repeated)}. Rename or "
        "drop them."
    )


def refuse_non_numbers(values: Any, name: str) -> None:
    """Raise on text, dates, periods, lists and complex numbers, digits in quotes included."""
    found = _foreign(values, name)
    if found is None:
        return
    foreign, example = found
    where = _where(foreign, values)
    if not isinstance(example, _KNOWN) and not hasattr(example, "ordinal"):
        raise InputTypeError(
            f"{name} must hold numbers only; got something of type "
            f"{type(example).__name__}{where}. Each cell of this argument "
            "must be a number, not a string, list or record of numbers."
        )
    what = (
        "periods"
        if hasattr(example, "ordinal")
        else _KINDS.get(np.asarray(example).dtype.kind, "dates or time spans")
    )
    remedy = (
        "Complex data not supported."
        if "complex" in what
        else "Convert it to numbers, encode it or drop it."
    )
    raise InputError(
        f"{name} must hold numbers only; got {what}, such as {example!s:.40}{where}. {remedy}"
    )


def _foreign(values: Any, name: str) -> tuple[NDArray[np.bool_], Any] | None:
    """Which cells are no numbers, and one of them; None where all are.

    A DataFrame is looked at column by column: polars makes numbers of dates when it makes one array
    of all columns.
    """
    names = column_names(values) if hasattr(values, "__getitem__") else None
    if names and all(
        getattr(kind, "kind", "O") in "buif" for kind in getattr(values, "dtypes", "?")
    ):
        return None  # pandas' own word for it, which saves a look at each of very many columns
    if names is None or len(set(names)) < len(names):
        columns = [as_array(values, name)]
    else:
        columns = [as_array(values[column], name) for column in names]
    if all(column.dtype.kind in "buif" for column in columns):
        return None
    masks = [_foreign_cells(column) for column in columns]
    if not any(mask.any() for mask in masks):
        return None
    cells, mask = next(
        (column, mask) for column, mask in zip(columns, masks, strict=True) if mask.any()
    )
    example = next((value for value in cells[mask] if not _is_digits(value)), cells[mask][0])
    return (
        masks[0] if names is None or len(columns) < len(names) else np.column_stack(masks)
    ), example


def _foreign_cells(cells: NDArray[Any]) -> NDArray[np.bool_]:
    if cells.dtype.kind == "O":
        return _cells_where(
            cells, lambda value: not (isinstance(value, _NUMBERS) or is_missing(value))
        )
    return np.full(cells.shape, cells.dtype.kind not in "buif")


def _is_digits(value: Any) -> bool:
    """Whether this is a number in quotes: in a column of a file, it is the others that are to
    blame."""
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def numbers(values: Any, name: str, *, n_dims: int) -> Array:
    """A finite array of floats with n_dims dimensions, of a size that can be squared."""
    if sparse.issparse(values):
        raise InputError(
            f"{name} must be a dense array; got a sparse matrix. Pass {name}.toarray()."
        )
    refuse_non_numbers(values, name)
    cells = as_array(values, name)
    if cells.dtype.kind == "O":
        cells = np.where(_cells_where(cells, is_missing), np.nan, cells)
    try:
        array = np.asarray(cells, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold numbers only; got something else ({error}).") from None
    if array.ndim != n_dims:
        raise InputError(_dimensions_message(array.shape, name, n_dims, values))
    check_finite(array, name, column_names(values))
    check_range(np.abs(array).max(initial=0.0), name)
    return array


def check_finite(array: Array, name: str, columns: list[str] | None = None) -> None:
    """Raise on NaN and infinity, with the rows and columns where they are."""
    bad = np.asarray(~np.isfinite(array))
    if not bad.any():
        return
    where = rows_text(bad if bad.ndim == 1 else np.any(bad, axis=1))
    if bad.ndim == 2 and columns is not None:
        where += f", column(s) {names_text(columns, np.any(bad, axis=0))}"
    raise InputError(
        f"{name} must be finite; it contains NaN or infinity (inf) in {where}. Drop or fill them "
        "first."
    )


def check_range(magnitude: Any, name: str, columns: list[str] | None = None) -> None:
    """Raise where a largest magnitude, of the whole or of each column, has no square in the range
    of numbers."""
    largest = np.atleast_1d(magnitude)
    bad = (largest > LARGEST) | ((largest > 0) & (largest < SMALLEST))
    if bad.any():
        size = "large" if (largest > LARGEST).any() else "small"
        where = "" if columns is None else f" in column(s) {names_text(columns, bad)}"
        raise InputError(
            f"{name} is too {size} to compute with{where}: its largest magnitude is "
            f"{largest[bad][0]:.3g}, and {SMALLEST:g} to "
            f"{LARGEST:g} is possible. Use another unit."
        )


def varies(values: Array, tolerance: float = 1e-14) -> bool:
    """Whether numbers (n,) differ by more than rounding."""
    return bool(np.std(values) > tolerance * np.abs(values).max())


def participation_matrix(values: Any) -> Any:
    """A finite (T, U) matrix: a float array, or a CSR array when the input is sparse."""
    matrix = (
        _sparse_participation(values)
        if sparse.issparse(values)
        else numbers(values, "participation", n_dims=2)
    )
    if matrix.shape[0] == 0 or matrix.shape[1] == 0:
        raise InputError(
            "participation must be (n_threads, n_users); got an empty matrix of shape "
            f"{matrix.shape}."
        )
    return matrix


def _sparse_participation(values: Any) -> Any:
    if values.dtype.kind not in "buif":
        raise InputError(
            f"participation must hold numbers only; got a sparse matrix of {values.dtype}. "
            "Convert it first."
        )
    if values.ndim != 2:
        raise InputError(_dimensions_message(values.shape, "participation", 2))
    matrix = sparse.csr_array(values, dtype=float, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    finite = np.isfinite(matrix.data)
    if not finite.all():
        bad = np.zeros(matrix.shape[0], dtype=bool)
        bad[np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[~finite]] = True
        raise InputError(
            "participation must be finite; it contains NaN or infinity (inf) in "
            f"{rows_text(bad)}. Drop or fill them first."
        )
    check_range(np.abs(matrix.data).max(initial=0.0), "participation")
    return matrix


def rows_text(mask: Any) -> str:
    """'row 3' or 'rows 3, 7, 9, … (12 in all)'."""
    rows = np.flatnonzero(mask)
    if len(rows) == 1:
        return f"row {rows[0]}"
    return f"rows {listed([str(r) for r in rows])}"


def names_text(names: list[str], mask: Any) -> str:
    """'age, height' or 'a, b, c, d, e, … (40 in all)'."""
    return listed([name for name, chosen in zip(names, mask, strict=True) if chosen])


def words_text(words: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def listed(words: Sequence[str]) -> str:
    """The first few of some words for a message."""
    more = f", … ({len(words)} in all)" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more


def _where(mask: NDArray[np.bool_], values: Any) -> str:
    if mask.ndim == 1:
        return f", in {rows_text(mask)}"
    if mask.ndim != 2:
        return ""
    names = column_names(values) or [str(j) for j in range(mask.shape[1])]
    return f", in column(s) {names_text(names, np.any(mask, axis=0))}"


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Values of any kind as an array; an error where rows have different lengths."""
    try:
        return np.asarray(unmasked(values))
    except (TypeError, ValueError) as error:
        ragged = _ragged_text(values)
        if ragged is not None:
            raise InputError(f"{name} must have rows of one length; {ragged}") from None
        raise InputError(
            f"{name} must be an array of numbers; got something else ({error})."
        ) from None


def unmasked(values: Any) -> Any:
    """A masked array as one in which masked cells are missing; all else as it is."""
    if not np.ma.isMaskedArray(values):
        return values
    if values.dtype.kind in "buif":
        return np.ma.filled(values.astype(float), np.nan)
    cells = values.data.astype(object)
    cells[np.ma.getmaskarray(values)] = None
    return cells


def _ragged_text(values: Any) -> str | None:
    """Which rows of a list have another length than the first, and what to do; None where that is
    not what is wrong."""
    if not isinstance(values, list | tuple) or not values:
        return None
    lengths = np.array(
        [len(row) if hasattr(row, "__len__") and not isinstance(row, str) else -1 for row in values]
    )
    if (lengths == lengths[0]).all():
        return None
    others = lengths != lengths[0]
    first, other = (
        "a single value" if n < 0 else f"{n} value(s)" for n in (lengths[0], lengths[others][0])
    )
    what = f"row 0 has {first}, row {int(np.argmax(others))} has {other}"
    gaps = "Fill the gaps with NaN, or leave such rows out."
    return f"{what}; of another length than row 0: {others.sum()} of {len(others)}. {gaps}"


def _cells_where(cells: NDArray[Any], condition: Callable[[Any], bool]) -> NDArray[np.bool_]:
    return np.asarray(np.frompyfunc(condition, 1, 1)(cells), dtype=bool)


def is_missing(value: Any) -> bool:
    # NAType is of pandas, which is not imported here.
    return value is None or type(value).__name__ == "NAType"


def _dimensions_message(shape: tuple[int, ...], name: str, n_dims: int, values: Any = None) -> str:
    wanted = {1: "one-dimensional", 2: "a table with rows and columns"}[n_dims]
    if n_dims == 2 and is_series(values):
        return (
            f"{name} must be {wanted}; got a {type(values).__name__}. {series_remedy(values, name)}"
        )
    remedy = ""
    if n_dims == 2 and len(shape) == 1:
        remedy = f" A single column is {name}.reshape(-1, 1), a single row {name}.reshape(1, -1)."
    if n_dims == 1 and len(shape) == 2 and 1 in shape:
        names = column_names(values)
        remedy = f" Pass {name}.ravel(), or the column itself."
        if names:
            remedy = f" Pass the column itself, as in table[{names[0]!r}]."
        elif isinstance(values, np.matrix):
            remedy = f" Pass np.asarray({name}).ravel(): a np.matrix always has two dimensions."
    return (
        f"{name} must be {wanted}; got {'a table' if column_names(values) else 'an array'} "
        f"of shape {shape}.{remedy}"
    )


def is_series(values: Any) -> bool:
    """Whether this is one column of a table, of pandas or of polars."""
    return hasattr(values, "to_frame") and np.ndim(values) == 1


def series_remedy(values: Any, name: str) -> str:
    """How to make a table of one column."""
    column = getattr(values, "name", None)
    brackets = f", or table[[{column!r}]]" if isinstance(column, str) and column else ""
    return f"A table of this one column is {name}.to_frame(){brackets}."
