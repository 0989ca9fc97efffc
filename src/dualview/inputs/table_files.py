"""Tables as files have them: CSV, TSV or Parquet, compressed or not, whole or in pieces."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dualview.checks import listed
from dualview.columns.table import to_pandas
from dualview.errors import FileError, MissingExtraError
from dualview.files.reading import first_lines, input_file, probe, unpacked

_ROWS = 200_000  # of a piece
_MOST_COLUMNS = 10_000  # a draw has two matrices of columns × columns, 1.6 GB then
_ABSENT = (  # what pandas takes for nothing; in a column of ids it is a name like any other
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)


def read_table(path: Path, ids: Sequence[str] = (), name: Path | None = None) -> pd.DataFrame:
    """A CSV, TSV or Parquet file, compressed or not; columns of ids stay as they are written, such
    as 007 and NA.

    name: what messages call it, where it is a copy of something else.
    """
    with _as_file_errors(path if name is None else name), input_file(path) as file:
        return _parquet(file) if ".parquet" in _endings(file) else _csv(file, ids)


def _endings(file: Path) -> list[str]:
    return [suffix.lower() for suffix in file.suffixes]


@contextmanager
def _as_file_errors(name: Path) -> Iterator[None]:
    """Inside, whatever goes wrong says that this file cannot be read."""
    try:
        yield
    except FileError:
        raise
    except ImportError as error:
        raise MissingExtraError(
            f"{name}: reading it needs another package ({error}): pip install 'dualview[tables]'."
        ) from error
    except MemoryError as error:
        raise FileError(f"{name} does not fit into memory.") from error
    except Exception as error:  # decompressors and parsers raise anything at a damaged file
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise FileError(f"{name} cannot be read as a table: {reason[:300]}.") from error


def pieces_of(table: Any, ids: Sequence[str], n_rows: int = _ROWS) -> Iterator[Any]:
    """The pieces of a table that may be larger than memory, in order: of a CSV, TSV or Parquet
    file, of a list or another series of tables, or the one; tables come as pandas'. Columns of ids
    stay as they are written."""
    if isinstance(table, str | Path):
        with input_file(Path(table)) as file:
            rows = _parquet_pieces if ".parquet" in _endings(file) else partial(_csv_pieces, ids)
            reader = rows(file, n_rows)
            while True:
                with _as_file_errors(Path(table)):
                    piece = next(reader, None)
                if piece is None:
                    return
                yield piece
    elif isinstance(table, Iterable) and not hasattr(table, "shape"):
        for part in table:
            yield from pieces_of(part, ids, n_rows)
    else:
        yield to_pandas(table) if hasattr(table, "to_pandas") else table


def _check_names(names: Sequence[str]) -> None:
    """Columns must have names that differ, and not be very many."""
    repeated = pd.Series(names)[pd.Series(names).duplicated()].unique().tolist()
    if repeated:
        raise ValueError(f"it must name each column once; more than once: {listed(repeated)}")
    if any("\0" in name for name in names):
        raise ValueError("a NUL character is in the name of a column; rename it")
    if len(names) > _MOST_COLUMNS:
        raise ValueError(
            f"it has {len(names):,} columns, where at most {_MOST_COLUMNS:,} can be used. Give it "
            "a row per user or participant, if it is transposed; else leave columns out"
        )


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | tuple | dict | set | np.ndarray)


def _parquet(path: Path) -> pd.DataFrame:
    table = pd.read_parquet(path)
    _check_names([str(name) for name in table.columns])
    nested = [
        name
        for name, column in table.items()
        if column.dtype.kind == "O" and column.map(_is_nested).any()
    ]
    if nested:
        raise ValueError(
            f"it must hold one value in each cell, and column(s) {listed(nested)} have lists or "
            "records. Spread them over columns, or drop them"
        )
    return table


def _parquet_pieces(path: Path, n_rows: int) -> Iterator[pd.DataFrame]:
    from pyarrow import parquet  # type: ignore[import-untyped]

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=n_rows):
            yield batch.to_pandas()


def _csv_options(path: Path, ids: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The names of the columns of a CSV or TSV file, checked, those without a name as pandas calls
    them; and how pandas reads it: in columns of ids nothing stands for nothing."""
    probe(path)
    separator = "\t" if ".tsv" in _endings(path) else ","
    lines = first_lines(path)
    if not lines.strip():
        raise ValueError("it is empty, and its first line must name columns")
    begin = io.BytesIO(lines)
    first = pd.read_csv(
        begin, sep=separator, nrows=1, header=None, dtype=str, keep_default_na=False
    )
    head = first.iloc[0].tolist()
    _check_names([name for name in head if name])  # before pandas renames those that are twice
    names = [name or f"Unnamed: {place}" for place, name in enumerate(head)]
    return names, {
        "sep": separator,
        "dtype": dict.fromkeys(ids, str),
        "keep_default_na": False,
        "na_values": {name: _ABSENT for name in names if name not in ids},
    }


def _csv(path: Path, ids: Sequence[str]) -> pd.DataFrame:
    names, options = _csv_options(path, ids)
    with unpacked(path) as file:
        table = pd.read_csv(file, **options)
    if not isinstance(table.index, pd.RangeIndex):
        raise ValueError(
            f"its rows have more fields than its header, which names {len(names)} columns. "
            f"{separator_advice(names)}"
        )
    if sum(1 for _ in _lines(path)) > len(table) + 1:
        begins = np.fromiter(_begins_of_rows(path, options["sep"]), dtype=np.int64)
        if len(begins) == len(table) + 1:
            table.index = pd.Index(begins[1:] - 1)
    return table


def _lines(path: Path) -> Iterator[str]:
    with (
        unpacked(path) as file,
        io.TextIOWrapper(file, "utf-8-sig", errors="replace", newline="") as text,
    ):
        yield from text


def _begins_of_rows(path: Path, separator: str) -> Iterator[int]:
    """The line, from 0, in which each row of a CSV or TSV file begins, its header's first. As for
    pandas a blank line is no row, and a field in quotes may go over several lines."""
    field = rf'(?:"(?:[^"]++|"")*+"[^{separator}]*+|[^"{separator}][^{separator}]*+|)'
    closed = re.compile(f"{field}(?:{separator}{field})*+")
    blank = " \t\r\n".replace(separator, "")
    inside = False  # a field in quotes
    for place, line in enumerate(_lines(path)):
        if not inside and line.strip(blank):
            yield place
        if '"' in line:
            inside = not closed.fullmatch(f'"{line}' if inside else line)


def _csv_pieces(ids: Sequence[str], path: Path, n_rows: int) -> Iterator[pd.DataFrame]:
    options = _csv_options(path, ids)[1]
    with unpacked(path) as file, pd.read_csv(file, chunksize=n_rows, **options) as reader:
        yield from reader


def separator_advice(names: Sequence[Any]) -> str:
    """What to do where the one name of a header looks like several; nothing otherwise."""
    if len(names) == 1 and any(separator in str(names[0]) for separator in ";,\t"):
        return (
            "Its fields must be separated by commas, or by tabs in a file called .tsv, and its "
            "numbers written with points."
        )
    return ""
