"""Results as rows of a CSV file: one for each set, control, split and model.

Numbers are written whole, so that a run which continues makes the same tables.
"""

import csv
import io
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.worth.sets import Array
from dualview.files.writing import make_folder, write_whole

Key = tuple[str, str, int, str]
CONTINUED = "continued after an interruption"  # the note of a fit some of whose seconds are unknown


@dataclass(frozen=True, eq=False)
class Row:
    """One fit, or one of the simple models.

    nll: the mean over units. seconds: of CPU. passed: the verdict, and r_hat, the largest R-hat;
    simple models pass, without an R-hat. limit: seconds that the fit was allowed. note: weights of
    a stack, that seconds are missing, or why there is no result. units (n,): NLL of each, NaN where
    nothing was asked.
    """

    set: str
    control: str
    split: int
    model: str
    nll: float
    seconds: float
    passed: bool
    r_hat: float
    limit: float
    note: str
    units: Array

    @property
    def key(self) -> Key:
        return self.set, self.control, self.split, self.model

    @property
    def failed(self) -> bool:
        return not len(self.units)


_READ: dict[str, Callable[[str], Any]] = {
    "split": int,
    "nll": float,
    "seconds": float,
    "passed": lambda text: text == "yes",
    "r_hat": float,
    "limit": float,
    "units": lambda text: np.array(text.split(), dtype=float),
}
_WRITE: dict[str, Callable[[Any], str]] = {
    "passed": lambda value: "yes" if value else "no",
    "units": lambda values: " ".join(str(value) for value in values),
}


class Kept:
    """The rows of a file, which is whole at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[Key, Row] = {}
        make_folder(path.parent)
        if path.exists():
            self.rows = {row.key: row for row in _read(path)}

    def add(self, row: Row) -> None:
        """Keep a row, in the place of an earlier one."""
        self.rows[row.key] = row
        text = io.StringIO()
        writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        for own in self.rows.values():
            writer.writerow(
                {name: _WRITE.get(name, str)(value) for name, value in asdict(own).items()}
            )
        write_whole(self.path, text.getvalue().encode())

    def has(self, key: Key, limit: float | None) -> bool:
        """Whether there is nothing to gain from a fit with this limit: there is a result, with a
        passed verdict or with as much time."""
        row = self.rows.get(key)
        if row is None or row.failed:
            return False
        return row.passed or row.limit >= (math.inf if limit is None else limit)


def _read(path: Path) -> Iterator[Row]:
    csv.field_size_limit(2**31 - 1)  # units of large forums
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            yield Row(**{name: _READ.get(name, str)(text) for name, text in line.items()})
