"""What sections are made of, and how their tables look."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from reproduction.grid import Outcome
from reproduction.results import averages
from reproduction.studies import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass
class Section:
    """Markdown text, and the figures it shows by file name."""

    text: str
    figures: "dict[str, Figure]" = field(default_factory=dict)


@dataclass(frozen=True)
class Findings:
    """What a section is made of: the plan, the outcomes of its cells, and the same as a table
    without failed rows."""

    plan: Plan
    outcomes: list[Outcome]
    frame: pd.DataFrame


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right."""
    lines = [list(header), ["---"] + ["---:"] * (len(header) - 1), *map(list, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def shown(mean: float, error: float, n: int = 2, digits: int = 3) -> str:
    """Mean and standard error over n repetitions; the mean alone of one."""
    return f"{mean:.{digits}f} ± {error:.{digits}f}" if n > 1 else f"{mean:.{digits}f}"


def pivot(
    frame: pd.DataFrame, rows: str, columns: str, score: str, title: str, digits: int = 3
) -> str:
    """A table of means and standard errors over repetitions; a dash where there is none."""
    means = averages(frame, [rows, columns], score)
    across = [column for column in dict.fromkeys(frame[columns]) if column in set(means[columns])]
    cells = {
        (row[rows], row[columns]): shown(row["mean"], row["error"], row["n"], digits)
        for _, row in means.iterrows()
    }
    body = [
        [str(name), *(cells.get((name, column), "–") for column in across)]
        for name in dict.fromkeys(frame[rows])
    ]
    return table([title, *map(str, across)], body)


def convergence(frame: pd.DataFrame) -> str:
    """R̂ and effective size of a study's fits in a sentence."""
    fits = frame[frame["r_hat"].notna()]
    if not len(fits):
        return ""
    apart = int((fits["r_hat"] > 1.05).sum())
    return (
        f"Convergence of these {len(fits)} fits: the largest R-hat of a fit is "
        f"{fits['r_hat'].median():.3f} in the median and "
        f"{fits['r_hat'].max():.2f} at worst ({apart} above 1.05); the least effective sample "
        f"size {fits['ess'].median():.0f} "
        f"in the median, {fits['ess'].min():.0f} at worst."
    )
