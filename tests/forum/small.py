"""A forum small enough to count by hand, and slow twins of what is made of it."""

from pathlib import Path

import numpy as np
import pandas as pd

DAY = 86400
BEGIN = 1_600_000_000


def posts(n_threads: int = 60, n_users: int = 8, seed: int = 0) -> pd.DataFrame:
    """Threads of 1 to 12 posts by a few users, with parents, sections, scores and lengths, in the
    order of time."""
    rng = np.random.default_rng(seed)
    rows = []
    for t in range(n_threads):
        length = int(rng.integers(1, 13))
        begin = BEGIN + t * DAY // 3
        rows += [
            {
                "post": f"{t}-{p}",
                "thread": f"thread {t}",
                "user": f"u{rng.integers(n_users)}",
                "time": begin + 600 * p + int(rng.integers(1, 500)) * (p > 0),
                "parent": None if p == 0 else f"{t}-{rng.integers(p)}",
                "section": ("a", "b")[t % 2],
                "score": int(rng.integers(-2, 6)),
                "text_length": int(rng.integers(1, 900)),
            }
            for p in range(length)
        ]
    return pd.DataFrame(rows)


def early_counts(table: pd.DataFrame, m: int) -> pd.DataFrame:
    """Threads with more than m posts by users: how many of the first m posts are whose."""
    table = table.sort_values(["thread", "time"], kind="stable")
    rank = table.groupby("thread").cumcount()
    size = table.groupby("thread")["user"].transform("size")
    early = table[(rank < m) & (size > m)]
    return early.groupby(["thread", "user"]).size().unstack(fill_value=0)


def write(table: pd.DataFrame, path: Path) -> Path:
    table.to_csv(path, index=False)
    return path
