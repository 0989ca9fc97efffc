"""Checks of arrays at the door. A message says what was wanted, what came, and what to do."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dualview.errors import InputError

Array = NDArray[np.float64]


def column_names(table: Any) -> list[str] | None:
    """The column names of a DataFrame of any library; None for anything without."""
    columns = getattr(table, "columns", None)
    return None if columns is None else [str(c) for c in columns]


def numbers(values: Any, name: str, *, n_dims: int) -> Array:
    """A finite array of floats with n_dims dimensions."""
    if sparse.issparse(values):
        raise InputError(f"{name} must be a dense array; got a sparse matrix. Pass {name}.toarray().")
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold numbers only; got something else ({error}).") from None
    if array.ndim != n_dims:
        wanted = {1: "one-dimensional", 2: "a table with rows and columns"}[n_dims]
        raise InputError(f"{name} must be {wanted}; got an array of shape {array.shape}.")
    finite = np.isfinite(array) if n_dims == 1 else np.isfinite(array).all(axis=1)
    if not finite.all():
        raise InputError(f"{name} must be finite; NaN or inf in {rows_text(~finite)}. Drop or fill them first.")
    return array


def participation_matrix(values: Any) -> Any:
    """A finite (T, U) matrix: a float array, or a CSR array when the input is sparse."""
    if not sparse.issparse(values):
        matrix = numbers(values, "participation", n_dims=2)
    else:
        if values.dtype.kind not in "buif":
            raise InputError(f"participation must hold numbers only; got a sparse matrix of {values.dtype}.")
        matrix = sparse.csr_array(values, dtype=float)
        if not np.isfinite(matrix.data).all():
            bad = np.zeros(matrix.shape[0], dtype=bool)
            bad[matrix.nonzero()[0][~np.isfinite(matrix.data[matrix.data != 0])]] = True
            raise InputError(f"participation must be finite; NaN or inf in {rows_text(bad)}. Drop or fill them first.")
    if matrix.shape[0] == 0 or matrix.shape[1] == 0:
        raise InputError(f"participation must be (n_threads, n_users); got an empty matrix of shape {matrix.shape}.")
    return matrix


def rows_text(mask: NDArray[np.bool_]) -> str:
    """'row 3' or 'rows 3, 7, 9, … (12 in all)'."""
    rows = np.flatnonzero(mask)
    if len(rows) == 1:
        return f"row {rows[0]}"
    shown = ", ".join(str(r) for r in rows[:5])
    return f"rows {shown}" + (f", … ({len(rows)} in all)" if len(rows) > 5 else "")
