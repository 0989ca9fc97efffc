"""Covariates of threads, outside the mixture: section, speed of the first posts, hour, weekday."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.checks import varies
from dualview.forum.options import ForumOptions
from dualview.forum.threads import ThreadTable

_LEAST_THREADS = 30  # of a section with a coefficient of its own
_MOST_SECTIONS = 20
_DAYS = ("tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")  # beside Monday


def build_covariates(threads: ThreadTable, options: ForumOptions) -> tuple[pd.DataFrame, list[str]]:
    """A row per thread, and notes; sections are chosen by the training threads."""
    table, notes = pd.DataFrame(index=range(len(threads.ids))), []
    wanted = list(options.covariates)
    if options.relative_time and {"hour", "weekday"} & set(wanted):
        notes.append(
            "times count from the beginning of threads, so there is no hour and no weekday among "
            "the covariates"
        )
        wanted = [name for name in wanted if name not in ("hour", "weekday")]
    if "section" in wanted and threads.section is None:
        notes.append("there is no column for the section, so it is not among the covariates")
    elif "section" in wanted:
        assert threads.section is not None
        chosen = section_levels(threads.section[: threads.n_training])
        for level in chosen:
            table[f"section {level}"] = (threads.section == level).astype(float)
        notes.append(
            f"{len(chosen)} sections have a coefficient of their own; the other threads are the "
            "reference"
        )
    if "speed" in wanted and options.first > 1:
        table["log_seconds_early"] = np.log1p(np.maximum(threads.seconds_early, 0.0))
    if "hour" in wanted:
        angle = 2 * np.pi * (threads.start % 86400) / 86400
        table["hour_sin"], table["hour_cos"] = np.sin(angle), np.cos(angle)
    if "weekday" in wanted:
        weekday = (threads.start // 86400 + 3) % 7  # 1 January 1970 was a Thursday; Monday is 0
        for day, name in enumerate(_DAYS, start=1):
            table[name] = (weekday == day).astype(float)
    return table, notes


def section_levels(sections: NDArray[np.object_]) -> list[str]:
    """Sections with enough threads, the largest first, one left out where they would cover
    everything."""
    names, counts = np.unique(sections.astype(str), return_counts=True)
    order = np.lexsort((names, -counts))
    chosen = [str(names[i]) for i in order if counts[i] >= _LEAST_THREADS][:_MOST_SECTIONS]
    return chosen[1:] if len(chosen) == len(names) else chosen


def without_constants(table: pd.DataFrame, n_training: int) -> tuple[pd.DataFrame, list[str]]:
    """The covariates that vary between training threads, and a note on the others."""
    constant = constant_columns(table.iloc[:n_training])
    notes = (
        [f"covariates that are the same in all training threads left out: {', '.join(constant)}"]
        if constant
        else []
    )
    return table.drop(columns=constant), notes


def constant_columns(table: pd.DataFrame) -> Sequence[str]:
    return [str(name) for name in table if not varies(table[name].to_numpy(dtype=float))]
