"""Tables that are larger than memory, a piece at a time."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dualview.errors import FileError, MissingExtraError
from dualview.files.reading import input_file, unpacked
from dualview.inputs.tables import absent_cells, header_of

ROWS = 200_000  # of a piece


def pieces_of(table: Any, ids: Sequence[str], n_rows: int = ROWS) -> Iterator[Any]:
    """The pieces of a table in order: of a CSV, TSV or Parquet file, of a list or another series of
    tables, or the one.

    Columns of ids stay as they are written.
    """
    if isinstance(table, str | Path):
        yield from _of_file(Path(table), ids, n_rows)
    elif isinstance(table, pd.DataFrame) or hasattr(table, "shape"):
        yield table
    elif isinstance(table, Iterable):
        for part in table:
            yield from pieces_of(part, ids, n_rows)
    else:
        yield table


def _of_file(path: Path, ids: Sequence[str], n_rows: int) -> Iterator[pd.DataFrame]:
    with input_file(path) as file:
        yield from _named(path, _rows_of(file, ids, n_rows))


def _rows_of(file: Path, ids: Sequence[str], n_rows: int) -> Iterator[pd.DataFrame]:
    kinds = [suffix.lower() for suffix in file.suffixes]
    return (
        _parquet(file, n_rows)
        if ".parquet" in kinds
        else _csv(file, "\t" if ".tsv" in kinds else ",", ids, n_rows)
    )


def _named(path: Path, reader: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Yield the pieces of a table in order, with the name of the file in every error."""
    while True:
        try:
            piece = next(reader, None)
        except ImportError as error:
            raise MissingExtraError(
                f"{path}: reading it needs another package ({error}): pip install "
                "'dualview[tables]'."
            ) from error
        except Exception as error:  # a damaged file makes the decompressors and parsers below raise anything at all  # noqa: E501
            reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            raise FileError(f"{path} cannot be read as a table: {reason[:300]}.") from error
        if piece is None:
            return
        yield piece


def _csv(path: Path, separator: str, ids: Sequence[str], n_rows: int) -> Iterator[pd.DataFrame]:
    absent = absent_cells(header_of(path, separator), ids)
    options: dict[str, Any] = {
        "dtype": dict.fromkeys(ids, str),
        "keep_default_na": False,
        "na_values": absent,
    }
    with (
        unpacked(path) as file,
        pd.read_csv(file, sep=separator, chunksize=n_rows, **options) as reader,
    ):
        yield from reader


def _parquet(path: Path, n_rows: int) -> Iterator[pd.DataFrame]:
    from pyarrow import parquet  # type: ignore[import-untyped]

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=n_rows):
            yield batch.to_pandas()
