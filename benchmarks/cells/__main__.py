"""Held-out cells of six public tables: ``python -m benchmarks.cells [--masks 3] [--tables NAME …]
[--keep FOLDER]``.

A tenth, three tenths and half of the known cells are hidden at random, several times. Each method
fits the rest and says what the hidden cells may be. Prints, as Markdown, mean log scores of a cell,
differences, and calibration. Lace and StepMix come with ``pip install -e '.[benchmarks]'``; a
method whose package is missing is left out, and said to be.
"""

import argparse
import importlib.util
import io
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.cells.marginals import PLAIN_SHARE
from benchmarks.cells.methods import METHODS, NEEDED
from benchmarks.cells.problem import Problem
from benchmarks.cells.scores import COVERAGES, LEVELS, Scored, calibration_error, scored
from benchmarks.cells.tables import TABLES, Table
from dualview.files.writing import make_folder, write_whole

Array = NDArray[np.float64]

SHARES = (0.1, 0.3, 0.5)
OWN, MIXED = "dualview", f"dualview, {PLAIN_SHARE:.0%} marginals"


class Result(NamedTuple):
    """Scores of one method on one masked table."""

    method: str
    table: str
    share: float
    mask: int
    numbers: Scored
    levels: Scored
    seconds: float

    @property
    def mean(self) -> float:
        """Mean log score of all cells."""
        return float(np.concatenate([self.numbers.logs, self.levels.logs]).mean())


def score(problem: Problem, method: str) -> tuple[Scored, Scored, float]:
    """Scores of numbers and of levels, and the CPU seconds that predictions took."""
    began = time.process_time()
    predictions = METHODS[method](problem)
    seconds = time.process_time() - began
    parts: dict[bool, list[Scored]] = {True: [], False: []}
    for column in problem.table.codebook.columns:
        rows = problem.rows(column)
        spread = (
            float(problem.table.frame[column.name].std()) if column.kind == "continuous" else 1.0
        )
        found = scored(column, problem.truth(column, rows), predictions[column.name], spread)
        parts[column.kind in LEVELS].append(found)
    numbers, levels = (
        Scored(*map(np.concatenate, zip(*parts[key], strict=True))) for key in (False, True)
    )
    return numbers, levels, seconds


def kept_score(problem: Problem, method: str, path: Path | None) -> tuple[Scored, Scored, float]:
    """``score``, from a file where there is one; without one it is written."""
    if path is None:
        return score(problem, method)
    if not path.exists():
        *parts, seconds = score(problem, method)
        named = {
            f"{name}_{field}": value
            for name, part in zip("nl", parts, strict=True)
            for field, value in part._asdict().items()
        }
        content = io.BytesIO()
        np.savez(content, seconds=seconds, **named)
        make_folder(path.parent)
        write_whole(path, content.getvalue())
    with np.load(path) as found:
        numbers, levels = (
            Scored(*(found[f"{name}_{field}"] for field in Scored._fields)) for name in "nl"
        )
        return numbers, levels, float(found["seconds"])


def results(
    tables: Sequence[Table], methods: Sequence[str], n_masks: int, folder: Path | None
) -> Iterator[Result]:
    """Every method on every masked table."""
    for mask, table, share in product(range(n_masks), tables, SHARES):
        hidden = table.hide(share, [list(TABLES).index(table.name), round(100 * share), mask])
        problem = Problem(table, hidden, mask)
        for method in methods:
            path = (
                None
                if folder is None
                else folder / f"{table.name}-{round(100 * share)}-{mask}-{method}.npz"
            )
            numbers, levels, seconds = kept_score(problem, method, path)
            result = Result(method, table.name, share, mask, numbers, levels, seconds)
            print(
                f"{mask} {table.name} {share} {method} {result.mean:.4f} {seconds:.1f} s",
                file=sys.stderr,
                flush=True,
            )
            yield result


def mixed(found: Sequence[Result]) -> Iterator[Result]:
    """Scores of dualview with the share of the marginals that the other methods have; the rest is
    as it was."""
    plain = {one[1:4]: one for one in found if one.method == "marginals"}
    for one in found:
        if one.method == OWN and one[1:4] in plain:
            other = plain[one[1:4]]
            pairs = ((one.numbers, other.numbers), (one.levels, other.levels))
            parts = [
                own._replace(logs=_log_mixed(own.logs, marginal.logs)) for own, marginal in pairs
            ]
            yield one._replace(method=MIXED, numbers=parts[0], levels=parts[1])


def _log_mixed(own: Array, marginal: Array) -> Array:
    return np.asarray(np.logaddexp(np.log1p(-PLAIN_SHARE) + own, np.log(PLAIN_SHARE) + marginal))


def means(
    found: Sequence[Result], method: str, share: float, table: str, part: str = "mean"
) -> Array:
    """Mean log scores (masks,) of a method on a table, of all cells, of numbers or of levels."""
    chosen = [one for one in found if (one.method, one.share, one.table) == (method, share, table)]
    return np.array(
        [one.mean if part == "mean" else getattr(one, part).logs.mean() for one in chosen]
    )


def difference(
    found: Sequence[Result], method: str, share: float, tables: Sequence[str], part: str
) -> str:
    """Mean over tables of a method's score less dualview's, on the same masks, with its standard
    error over masks."""
    paired = [
        means(found, method, share, table, part) - means(found, OWN, share, table, part)
        for table in tables
    ]
    average = float(np.mean([gaps.mean() for gaps in paired]))
    if len(paired[0]) < 2:
        return f"{average:+.3f}"
    error = np.sqrt(sum(gaps.var(ddof=1) / len(gaps) for gaps in paired)) / len(paired)
    return f"{average:+.3f} ± {error:.3f}"


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def head(names: Sequence[str]) -> str:
    return f"{line(names)}\n|---|{'---:|' * (len(names) - 1)}"


def score_table(
    found: Sequence[Result], share: float, tables: Sequence[str], methods: Sequence[str]
) -> Iterator[str]:
    """Mean log scores, a row for each method, and differences from dualview; the best of each
    column in bold."""
    yield head([f"{share:.0%} hidden", *tables, "mean", "less dualview", "numbers", "levels"])
    rows = {
        method: [float(means(found, method, share, table).mean()) for table in tables]
        for method in methods
    }
    rows = {method: [*row, float(np.mean(row))] for method, row in rows.items()}
    best = np.max(list(rows.values()), axis=0)
    for method, row in rows.items():
        shown = [
            f"**{value:.3f}**" if value == top else f"{value:.3f}"
            for value, top in zip(row, best, strict=True)
        ]
        gaps = ["", "", ""]
        if method != OWN and OWN in methods:
            gaps = [
                difference(found, method, share, tables, part)
                for part in ("mean", "numbers", "levels")
            ]
        yield line([method, *shown, *gaps])


def calibration_table(found: Sequence[Result], methods: Sequence[str]) -> Iterator[str]:
    """Coverage of central intervals of numbers, calibration of levels, and seconds, all tables
    together."""
    covers = [f"{100 * probability:.0f} % interval" for probability in COVERAGES]
    yield head(
        [
            "hidden, method",
            *covers,
            "calibration error",
            "confidence less accuracy",
            "CPU seconds a fit",
        ]
    )
    for share in SHARES:
        for method in methods:
            chosen = [one for one in found if one.method == method and one.share == share]
            inside = np.concatenate([one.numbers.covered for one in chosen]).mean(axis=0)
            confidence, right = (
                np.concatenate([getattr(one.levels, name) for one in chosen])
                for name in ("confidence", "right")
            )
            cells = [f"{share:.0%}, {method}", *(f"{100 * part:.1f} %" for part in inside)]
            cells += [
                f"{calibration_error(confidence, right):.3f}",
                f"{(confidence - right).mean():+.3f}",
            ]
            yield line([*cells, f"{np.mean([one.seconds for one in chosen]):.1f}"])


def available(methods: Sequence[str]) -> Iterator[str]:
    """The methods whose packages are there; says of the others how to get them."""
    for method in methods:
        if method in NEEDED and importlib.util.find_spec(NEEDED[method]) is None:
            print(
                f"{method} is left out: it is not installed. To compare with it: pip install -e "
                "'.[benchmarks]'",
                flush=True,
            )
        else:
            yield method


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cells", description="Held-out cells of six public tables."
    )
    parser.add_argument("--masks", type=int, default=3, help="of each table and share")
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument(
        "--keep",
        type=Path,
        default=None,
        help="a folder for finished scores: to continue, or to print again",
    )
    plan = parser.parse_args(arguments)
    methods = list(available(plan.methods))
    found = list(results([TABLES[name]() for name in plan.tables], methods, plan.masks, plan.keep))
    more = list(mixed(found))
    rows = [*methods[:1], MIXED, *methods[1:]] if more else methods
    for share in SHARES:
        print("\n".join(score_table([*found, *more], share, plan.tables, rows)), end="\n\n")
    print("\n".join(calibration_table(found, methods)))


if __name__ == "__main__":
    main()
