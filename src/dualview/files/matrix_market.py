"""Sparse matrices from Matrix Market files, plain or compressed.

A reader of our own, because SciPy's compiled one reads past the end of a file that was cut in the
middle of a line, and allocates whatever the header claims. This one believes nothing that the body
does not show.
"""

import io
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dualview.errors import FileError
from dualview.files.reading import unpacked

_LAYOUTS = ("coordinate", "array")
_FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
_SYMMETRIES = ("general", "symmetric", "skew-symmetric")
_EMPTY_ROWS = 1000  # for each entry; a header that claims more rows than that is wrong


class _Header(NamedTuple):
    """What the first line and the line of sizes say."""

    layout: str
    field: str
    symmetry: str
    sizes: tuple[int, ...]

    @property
    def width(self) -> int:
        """Numbers on a line of the body."""
        return 1 if self.layout == "array" else 2 if self.field == "pattern" else 3


def read_matrix(path: Path, name: str | None = None) -> sparse.coo_array:
    """The matrix of a file; a FileError names the file, or what it is a copy of, and what is wrong
    with it."""
    name = str(path) if name is None else name
    try:
        with unpacked(path) as content, io.TextIOWrapper(content, encoding="utf-8") as file:
            header = _header(file)
            return _matrix(header, _body(file, header.width))
    except MemoryError as error:
        raise FileError(f"{name} holds a matrix that does not fit into memory.") from error
    except (
        Exception
    ) as error:  # a damaged file makes the decompressors and parsers below raise anything at all
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise FileError(
            f"{name} cannot be read as a Matrix Market file: {reason}. Write it again."
        ) from error


def _header(file: io.TextIOBase) -> _Header:
    first = file.readline(1024).lower().split()
    if len(first) != 5 or first[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError(
            "its first line must be '%%MatrixMarket matrix coordinate real general', or the like"
        )
    for word, known in zip(first[2:], (_LAYOUTS, _FIELDS, _SYMMETRIES), strict=True):
        if word not in known:
            raise ValueError(f"its first line says {word}; {', '.join(known)} can be read")
    line = "%"
    while line.startswith("%") or line.isspace():
        line = file.readline(1 << 20)
    sizes = [int(word) for word in line.split()]
    if len(sizes) != (3 if first[2] == "coordinate" else 2) or min(sizes) < 0:
        raise ValueError(f"its line of sizes is {line.strip()[:60]!r}")
    return _Header(first[2], first[3], first[4], tuple(sizes))


def _body(file: io.TextIOBase, width: int) -> NDArray[np.float64]:
    """The numbers below the header, as rows of a given length."""
    lines = file.read()
    if "%" in lines:
        lines = "\n".join(line for line in lines.splitlines() if not line.startswith("%"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # NumPy's only word on what is no number
        numbers = np.fromstring(lines, sep=" ") if lines.strip() else np.empty(0)
    if numbers.size % width:
        raise ValueError(
            f"it has {numbers.size} numbers, where each entry has {width}: it was cut short"
        )
    return numbers.reshape(-1, width)


def _matrix(header: _Header, body: NDArray[np.float64]) -> sparse.coo_array:
    shape = header.sizes[:2]
    if header.layout == "array":
        return _array(header, body)
    n_entries = header.sizes[2]
    if len(body) != n_entries:
        raise ValueError(f"it claims {n_entries} entries and has {len(body)}")
    if shape[0] > _EMPTY_ROWS * (n_entries + 1):
        raise ValueError(f"it claims {shape[0]} rows and has {n_entries} entries")
    places = body[:, :2] - 1
    if not (
        np.isfinite(body).all() and ((places >= 0) & (places < shape) & (places % 1 == 0)).all()
    ):
        raise ValueError(
            f"an entry is not a number, or lies outside the {shape[0]} rows and {shape[1]} columns"
        )
    values = body[:, 2] if header.width == 3 else np.ones(n_entries)
    row, column = places.astype(np.int64).T
    if header.symmetry != "general":
        below = row != column
        sign = 1.0 if header.symmetry == "symmetric" else -1.0
        row, column = np.concatenate([row, column[below]]), np.concatenate([column, row[below]])
        values = np.concatenate([values, sign * values[below]])
    return sparse.coo_array((values, (row, column)), shape=shape)


def _array(header: _Header, body: NDArray[np.float64]) -> sparse.coo_array:
    """A dense matrix, column by column."""
    n_rows, n_columns = header.sizes
    if header.symmetry != "general" or header.field == "pattern":
        raise ValueError("an array must be 'general', and not a 'pattern'")
    if body.size != n_rows * n_columns:
        raise ValueError(f"it claims {n_rows} by {n_columns} numbers and has {body.size}")
    if not np.isfinite(body).all():
        raise ValueError("an entry is not a number")
    return sparse.coo_array(body.reshape(n_columns, n_rows).T)
