"""A grid of cells that can be killed at any moment: a small file for each cell that is done, and
nothing else to lose."""

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

import joblib

from dualview.errors import FileError
from dualview.files.writing import make_folder, write_whole
from dualview.numerics.parallel import n_cores
from reproduction.cells import Cell

Work = Callable[[Cell], dict[str, Any]]

_LINES = 20  # that progress writes to a log


@dataclass(frozen=True)
class Outcome:
    """The result of a cell: scores, extras and warnings, or the error that stopped it."""

    cell: Cell
    scores: dict[str, float] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: str = ""


class Tally:
    """Cells done, as a line that is written over on a terminal, or as some lines in a log."""

    def __init__(self, total: int, quiet: bool, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._total, self._quiet = total, quiet
        self._done = 0
        self._began = time.monotonic()

    def __call__(self, cell: Cell) -> None:
        """One more is done."""
        self._done += 1
        if self._quiet:
            return
        left = (time.monotonic() - self._began) / self._done * (self._total - self._done)
        counted = f"{self._done}/{self._total} fits, {_duration(left)} left"
        if self._stream.isatty():
            filled = 20 * self._done // self._total
            end = "\n" if self._done == self._total else ""
            text = f"{'█' * filled}{'░' * (20 - filled)} {counted}, {cell}"
            self._stream.write(f"\r{text[:118]:<118}{end}")
        elif _LINES * self._done // self._total > _LINES * (self._done - 1) // self._total:
            self._stream.write(f"{counted}\n")
        self._stream.flush()


def run_grid(
    cells: Iterable[Cell], folder: Path, work: Work, *, n_jobs: int = -1, quiet: bool = False
) -> list[Outcome]:
    """Outcomes in the order of the cells, each cell once; those with a file in the folder are read,
    the others are run.

    A cell that fails is an outcome with its error. It leaves no file, so that the next run tries it
    again.
    """
    wanted = list(dict.fromkeys(cells))
    make_folder(folder)
    found = {cell: outcome for cell in wanted if (outcome := _read(folder, cell)) is not None}
    missing = [cell for cell in wanted if cell not in found]
    if not quiet and found:
        print(f"{len(found)} of {len(wanted)} fits are there already.", file=sys.stderr, flush=True)
    tally = Tally(len(missing), quiet)
    try:
        for cell, result in _run(missing, work, n_jobs):
            found[cell] = _kept(folder, cell, result)
            tally(cell)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"{len(found)} of {len(wanted)} fits are saved; the same command continues."
        ) from None
    return [found[cell] for cell in wanted]


def _run(cells: list[Cell], work: Work, n_jobs: int) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Results as they come; processes, so that each has its core to itself."""
    n_workers = min(len(cells), n_cores() if n_jobs < 0 else n_jobs)
    if n_workers <= 1:
        yield from (_attempt(work, cell) for cell in cells)
        return
    parallel = joblib.Parallel(
        n_workers, backend="loky", return_as="generator_unordered", batch_size=1
    )
    yield from parallel(joblib.delayed(_attempt)(work, cell) for cell in cells)


def _attempt(work: Work, cell: Cell) -> tuple[Cell, dict[str, Any]]:
    try:
        return cell, work(cell)
    except Exception as error:
        return cell, {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}


def _kept(folder: Path, cell: Cell, result: dict[str, Any]) -> Outcome:
    """The outcome, written to its file unless it is an error."""
    if "error" in result:
        return Outcome(cell, error=result["error"])
    text = json.dumps(
        {"cell": asdict(cell), **_without_nan(result)}, ensure_ascii=False, allow_nan=False
    )
    write_whole(folder / f"{cell.name}.json", text.encode())
    return _outcome(cell, json.loads(text))


def _read(folder: Path, cell: Cell) -> Outcome | None:
    """The outcome in the cell's file; None where there is none or it cannot be read."""
    try:
        content = json.loads((folder / f"{cell.name}.json").read_text(encoding="utf-8"))
        return _outcome(cell, content)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(
            f"{folder / cell.name}.json cannot be read: {error.strerror or error}."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _outcome(cell: Cell, content: dict[str, Any]) -> Outcome:
    scores = {
        name: math.nan if value is None else float(value)
        for name, value in content["scores"].items()
    }
    return Outcome(cell, scores, content["extras"], tuple(content["warnings"]))


def _without_nan(value: Any) -> Any:
    """JSON has no NaN and no infinity: None in their place."""
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
