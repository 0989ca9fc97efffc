"""Activity of users before the test threads: counts, habits and their position in the graph of
replies, in plain units.

Only threads that began before the first test thread count, and of these only posts made before it;
with a random split, all threads but those of the test. Threads of any length count.
Earliness is a share of threads, not of posts: long threads would lower a share of posts, and so
give their length away.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.columns.numbers import common_step
from dualview.forum.archive import Archive
from dualview.forum.graph import closeness, pagerank, reply_graph
from dualview.forum.threads import ThreadTable

Array = NDArray[np.float64]

# What each number is, in the words of reports. The order decides which of two columns stays when
# they tell the same: rates and means first, which do not grow with the length of threads, counts
# last.
MEANINGS = {
    "started_share": "share of the threads taken part in that the user started",
    "early_share": "share of those threads with a post among the first ones",
    "text_length": "mean length of a post, in characters",
    "score": "mean score of a post",
    "replies_per_post": "replies by others for each post",
    "replying_share": "share of the posts that are replies to others",
    "tenure_days": "days from the first to the last post",
    "pagerank": "PageRank in the graph of replies, 1 on average",
    "closeness": "mean of 1 / distance to others in the graph of replies",
    "threads": "threads taken part in",
    "posts": "posts written",
    "started": "threads started",
    "replies_received": "replies by others",
    "replies_given": "replies to others",
    "in_degree": "users who replied",
    "out_degree": "users replied to",
}
WHOLE_NUMBERS = (
    "posts",
    "threads",
    "started",
    "replies_given",
    "replies_received",
    "out_degree",
    "in_degree",
)
# Rates: what is counted, for each of what, as if there were one more that is like the forum's
# average. It takes the edge off rates of users with little to go by.
RATES = {
    "started_share": ("started", "threads"),
    "early_share": ("early", "threads"),
    "text_length": ("characters", "posts"),
    "score": ("points", "posts"),
    "replies_per_post": ("replies_received", "posts"),
    "replying_share": ("replies_given", "posts"),
}
# Rates of cases that are among those they are counted for.
_SHARES = ("started_share", "early_share", "replying_share")


@dataclass(frozen=True)
class Activity:
    """Activity of users, one row each, in plain units.

    low and high have the columns that are rates: the numbers between which each lies. A rate of c
    cases is known to half a case more or less. Where there can be no fewer cases it has no lower
    end, and where there can be no more, no upper one.
    """

    values: pd.DataFrame
    low: pd.DataFrame
    high: pd.DataFrame

    def take(self, codes: NDArray[np.int64], index: pd.Index) -> "Activity":
        return Activity(
            *(
                table.iloc[codes].set_axis(index, axis=0)
                for table in (self.values, self.low, self.high)
            )
        )


def measure_activity(archive: Archive, threads: ThreadTable) -> Activity:
    """A row per user of the archive, by code; users without a post before the test have zeros."""
    _mark_training(archive, threads)
    n_people = archive.one("SELECT count(*) FROM people")[0]
    counted = archive.arrays(_habits_query(archive))
    codes = np.asarray(counted.pop("user"), dtype=np.int64)
    table = pd.DataFrame(
        {name: _spread(column, codes, n_people) for name, column in counted.items()}
    )
    edges = archive.arrays(_edges_query(archive))
    source, target = (np.asarray(edges[name], dtype=np.int64) for name in ("source", "target"))
    graph = reply_graph(source, target, np.asarray(edges["n"], dtype=float), n_people)
    archive.facts["reply_pairs"] = int(graph.nnz)
    table["replies_given"] = np.asarray(graph.sum(axis=0)).ravel()
    table["replies_received"] = np.asarray(graph.sum(axis=1)).ravel()
    table["out_degree"] = np.bincount(graph.indices, minlength=n_people).astype(float)
    table["in_degree"] = np.diff(graph.indptr).astype(float)
    # Over those who posted: the graph has no place for users who come later.
    present = np.flatnonzero(table["posts"].to_numpy() > 0)
    inner = graph[present][:, present]
    table["pagerank"] = _spread(pagerank(inner), present, n_people)
    table["closeness"] = _spread(
        closeness(np.random.default_rng(archive.options.seed), inner), present, n_people
    )
    low, high = pd.DataFrame(index=table.index), pd.DataFrame(index=table.index)
    for name, (counted_of, each) in RATES.items():
        if counted_of in table:
            cases, n_each = (
                table[counted_of].to_numpy(dtype=float),
                table[each].to_numpy(dtype=float),
            )
            average = cases.sum() / n_each.sum()
            table[name] = (cases + average) / (n_each + 1.0)
            ends = rounded_cases(cases, n_each if name in _SHARES else None)
            low[name], high[name] = ((end + average) / (n_each + 1.0) for end in ends)
    return Activity(table[[name for name in MEANINGS if name in table]], low, high)


def rounded_cases(cases: Array, most: Array | None) -> tuple[Array, Array]:
    """Ends of the intervals in which counted cases (U,) lie: half a step more or less, open at the
    fewest and the most.

    The step is 1. Scores that are not whole numbers have their own. The fewest are 0, unless there
    are negative scores.

    >>> low, high = rounded_cases(np.array([0.0, 1.0, 3.0]), most=np.array([5.0, 5.0, 3.0]))
    >>> low.tolist(), high.tolist()
    ([-inf, 0.5, 2.5], [0.5, 1.5, inf])
    """
    step = 1.0 if np.all(cases == np.round(cases)) else common_step(cases)
    half = 0.5 * (step or 0.0)
    low = np.where((cases == 0) & (cases.min() >= 0), -np.inf, cases - half)
    high = cases + half if most is None else np.where(cases >= most, np.inf, cases + half)
    return low, high


def _mark_training(archive: Archive, threads: ThreadTable) -> None:
    test = threads.codes[threads.n_training :]
    if archive.options.split == "random":
        given = pd.DataFrame({"thread": test})  # noqa: F841 (the engine finds it by its name)
        archive.connection.execute(
            "CREATE OR REPLACE TEMP TABLE test_threads AS SELECT thread FROM given"
        )
        query = "SELECT * FROM posts WHERE thread NOT IN (SELECT thread FROM test_threads)"
    elif threads.cut is None:
        query = f"SELECT * FROM posts WHERE thread < {int(test[0])}"
    else:
        began = f"SELECT thread FROM posts WHERE position = 0 AND seconds < {threads.cut!r}"
        query = f"SELECT * FROM posts WHERE thread IN ({began}) AND seconds < {threads.cut!r}"
    archive.connection.execute(f"CREATE OR REPLACE TEMP VIEW training AS {query}")


def _habits_query(archive: Archive) -> str:
    parts = [
        '"user"',
        "count(*) AS posts",
        "count(DISTINCT thread) AS threads",
        "count(*) FILTER (WHERE position = 0) AS started",
        f"count(DISTINCT thread) FILTER (WHERE position < {archive.options.first}) AS early",
    ]
    if archive.names.length is not None or archive.names.text is not None:
        parts.append("sum(coalesce(length, 0)) AS characters")
    if archive.names.score is not None:
        parts.append("sum(coalesce(score, 0)) AS points")
    if not archive.options.relative_time:
        parts.append("(max(seconds) - min(seconds)) / 86400 AS tenure_days")
    return f'SELECT {", ".join(parts)} FROM training WHERE "user" IS NOT NULL GROUP BY "user"'


def _edges_query(archive: Archive) -> str:
    """Who replied to whom how often: to the author of the parent where it is known, else to the
    thread's starter.

    Without parents the reply is taken to go to whoever wrote the post before.
    """
    names = archive.names
    if names.parent is None or (names.post is None and names.number is None):
        replies = 'SELECT "user" AS source, previous AS target FROM training WHERE position > 0'
    else:
        key = "number" if names.parent_is_number else "post"
        replies = f"""
            SELECT c."user" AS source,
                CASE WHEN p.thread IS NULL THEN c.starter ELSE p."user" END AS target
            FROM (SELECT * FROM training WHERE position > 0) c
            LEFT JOIN (
                SELECT thread, {key}, any_value("user") AS "user" FROM training
                GROUP BY thread, {key}
            ) p ON c.thread = p.thread AND c.parent = p.{key}
        """
    return (
        f"SELECT source, target, count(*) AS n FROM ({replies}) WHERE source IS NOT NULL AND "
        "target IS NOT NULL AND source <> target GROUP BY ALL"
    )


def _spread(values: Any, codes: Any, n: int) -> Any:
    full = np.zeros(n)
    full[codes] = np.ma.filled(np.ma.asarray(values, dtype=float), 0.0)
    return full
