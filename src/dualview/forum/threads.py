"""Threads of an archive: their early participants, their outcomes, and the split into training and
test.

Threads are in the order of their beginning, the test threads last. participation (T, U) has all
users of the archive as columns.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dualview.errors import InputError
from dualview.forum.archive import Archive
from dualview.forum.options import ForumOptions

Array = NDArray[np.float64]

_AGGREGATES = {
    "same": "any_value(outcome)",
    "first": "arg_min(outcome, position)",
    "last": "arg_max(outcome, position)",
    "sum": "sum(outcome)",
    "mean": "avg(outcome)",
    "max": "max(outcome)",
}


@dataclass(frozen=True)
class ThreadTable:
    """Threads with more than m posts; start in seconds, speed in seconds from the first to the m-th
    post."""

    codes: NDArray[np.int64]
    ids: list[str]
    start: Array
    length: NDArray[np.int64]
    seconds_early: Array
    section: NDArray[Any] | None
    outcome: Array
    participation: sparse.csr_array
    n_training: int
    cut: float | None  # when the first test thread began; None where there is no such time


def build_threads(archive: Archive) -> ThreadTable:
    """The threads that count, their early participants and their outcomes."""
    options = archive.options
    table = archive.arrays(_threads_query(archive))
    long_enough = table["length"] > options.first
    n_long, n_all = int(long_enough.sum()), len(long_enough)
    archive.facts["threads_used"] = n_long
    archive.notes.append(
        f"{n_long} of {n_all} threads have more than {options.first} posts and are used. The "
        "others are not: with them the number of early posts would give the length away"
    )
    if n_long < 10:
        raise InputError(
            f"Only {n_long} of {n_all} threads have more than {options.first} posts: too few to "
            "learn from. Look at fewer early posts with --first, or give more posts."
        )
    kept = {name: column[long_enough] for name, column in table.items()}
    if "outcome" in kept:
        kept["outcome"] = np.ma.filled(kept["outcome"], np.nan)
    # Relative times have no order between threads: codes are then the order of the file.
    order = np.lexsort(
        (kept["thread"],) if options.relative_time else (kept["thread"], kept["start"])
    )
    if options.split == "random":
        order = np.random.default_rng(options.seed).permutation(order)
    kept = {name: column[order] for name, column in kept.items()}
    n_test = min(max(1, round(options.test_share * n_long)), n_long - 1)
    codes = kept["thread"].astype(np.int64)
    names = archive.arrays("SELECT name FROM thread_names ORDER BY code")["name"]
    return ThreadTable(
        codes=codes,
        ids=[str(name) for name in names[codes]],
        start=kept["start"].astype(float),
        length=kept["length"].astype(np.int64),
        seconds_early=kept["seconds_early"].astype(float),
        section=None if "section" not in kept else np.asarray(kept["section"], dtype=object),
        outcome=_outcome(kept, options),
        participation=_participation(archive, codes),
        n_training=n_long - n_test,
        cut=None
        if options.relative_time or options.split == "random"
        else float(kept["start"][n_long - n_test]),
    )


def _threads_query(archive: Archive) -> str:
    m, options = archive.options.first, archive.options
    parts = [
        "thread",
        "count(*) AS length",
        "min(seconds) AS start",
        f"max(seconds) FILTER (WHERE position < {m}) - min(seconds) AS seconds_early",
    ]
    if archive.names.section is not None:
        parts.append("arg_min(coalesce(section, ''), position) AS section")
    if options.outcome_column is not None:
        if options.outcome_from == "same":
            _check_same(archive)
        parts.append(f"{_AGGREGATES[options.outcome_from]} AS outcome")
    return f"SELECT {', '.join(parts)} FROM posts GROUP BY thread ORDER BY thread"


def _check_same(archive: Archive) -> None:
    several = archive.one(
        "SELECT count(*) FROM (SELECT thread FROM posts GROUP BY thread HAVING count(DISTINCT "
        "outcome) > 1)"
    )[0]
    if several:
        raise InputError(
            f"Column {archive.options.outcome} differs between the posts of a thread in {several} "
            "threads, so it is not an outcome yet. Say how it becomes one with --outcome-from: "
            "first, last, sum, mean or max."
        )


def _outcome(kept: dict[str, Any], options: ForumOptions) -> Array:
    if options.outcome_column is None:
        values = kept["length"].astype(float) - (
            options.first if options.outcome == "remaining" else 0
        )
    else:
        values = np.asarray(kept["outcome"], dtype=float)
        missing = int((~np.isfinite(values)).sum())
        if missing:
            raise InputError(
                f"Column {options.outcome} has no number in {missing} of {len(values)} threads: "
                "fill it, or drop them."
            )
    if options.logarithm and not (values > 0).all():
        raise InputError(
            f"The logarithm of {options.outcome} was asked for, but {int((values <= 0).sum())} "
            "threads have 0 or less. Use --scale raw."
        )
    return np.asarray(np.log(values) if options.logarithm else values)


def _participation(archive: Archive, codes: NDArray[np.int64]) -> sparse.csr_array:
    """How many of each thread's first m posts are by whom, (T, all users)."""
    early = archive.arrays(
        f"""
        SELECT thread, "user", count(*) AS n FROM posts
        WHERE position < {archive.options.first} AND "user" IS NOT NULL GROUP BY ALL
        """
    )
    n_people = archive.one("SELECT count(*) FROM people")[0]
    row_of = np.full(archive.one("SELECT count(*) FROM thread_names")[0], -1)
    row_of[codes] = np.arange(len(codes))
    rows = row_of[np.asarray(early["thread"])]
    used = rows >= 0
    columns = np.asarray(early["user"], dtype=np.int64)
    weights = np.asarray(early["n"], dtype=float)
    return sparse.csr_array(
        (weights[used], (rows[used], columns[used])), shape=(len(codes), n_people)
    )
