"""Users who look like one cluster and act like another, in a table and in words."""

import numpy as np
import pandas as pd

from dualview.posterior.partition.partition_estimates import PartitionEstimates, looks_of

_MOST_NAMED = 5


def text(post: PartitionEstimates, noun: str = "cluster") -> str | None:
    """How many users act as they look, and which do not; None where the fit did not ask."""
    if "agreement" not in post:
        return None
    found = post.disagreements()
    if "z_tables" not in post:
        return _text(post, noun, None, found)
    assert post.spec.layout is not None
    return " ".join(
        _text(post, noun, table, found[found["table"] == table]) for table in post.spec.layout.names
    )


def _text(post: PartitionEstimates, noun: str, table: str | None, found: pd.DataFrame) -> str:
    """The same of one table of features."""
    same = (looks_of(post, table) == post.flat_acts).mean(axis=1)
    low, high = np.quantile(same, [0.025, 0.975])
    first = (
        f"{'' if table is None else f'By {table}, '}{same.mean():.0%} of the users act as they "
        f"look (95 % interval {low:.0%} "
        f"to {high:.0%}; ρ, the probability of having one label for both views, "
        f"{_share(post, table)})."
    )
    if not len(found):
        return f"{first} No single user probably acts otherwise."
    groups = (
        found.groupby(["looks", "acts"])["probability"]
        .agg(["size", "mean"])
        .sort_values("size", ascending=False)
    )
    looks = post.partition() if table is None else post.table_partition(table)
    n_looks = int(looks.max()) + 1
    named = [
        f"{_users(n)} like {noun} {look} and {_acting(noun, acts, n_looks, n)} (probability "
        f"{mean:.2f} on average)"
        for look, acts, n, mean in groups.head(_MOST_NAMED).reset_index().itertuples(index=False)
    ]
    rest = len(groups) - _MOST_NAMED
    more = f"; and {rest} more such pairs of {noun}s" if rest > 0 else ""
    return f"{first} {len(found)} of {post.n_users} probably do not: {'; '.join(named)}{more}."


def _share(post: PartitionEstimates, table: str | None) -> str:
    shares = post.flat("agreement")
    if table is not None and post.spec.layout is not None:
        shares = shares[:, post.spec.layout.names.index(table)]
    low, median, high = np.quantile(shares, [0.025, 0.5, 0.975])
    return f"is given, {median:.2f}" if low == high else f"is {median:.2f}, {low:.2f} to {high:.2f}"


def _users(n: int) -> str:
    return "1 looks" if n == 1 else f"{n} look"


def _acting(noun: str, acts: int, n_looks: int, n: int) -> str:
    verb = "acts" if n == 1 else "act"
    return (
        f"{verb} like {noun} {acts}"
        if acts < n_looks
        else f"{verb} like no {noun} that anyone looks like"
    )
