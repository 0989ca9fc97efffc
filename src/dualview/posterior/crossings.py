"""Users who look like one cluster and act like another, in a table and in words."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dualview.posterior.partition import Labels

if TYPE_CHECKING:
    from dualview.posterior.posterior import Posterior

_MOST_NAMED = 5


def renumbered(labels: Labels, n_users: int) -> Labels:
    """Labels (2 U,) by features, then by behavior, with clusters numbered from the one that most users look like."""
    sizes = np.bincount(labels[:n_users], minlength=int(labels.max()) + 1)
    place = np.empty(len(sizes), dtype=np.int64)
    place[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return np.asarray(place[labels])


def table(looks: Labels, acts: Labels) -> pd.DataFrame:
    """Users by the cluster they look like (rows) and the one they act like (columns)."""
    return pd.crosstab(pd.Series(looks, name="looks"), pd.Series(acts, name="acts"))


def disagreements(post: "Posterior", least: float) -> pd.DataFrame:
    """Users whose labels differ with at least this probability, and in the estimate: user, looks, acts, probability."""
    apart = (post.flat("z") != post.flat_acts).mean(axis=0)
    table = {"looks": post.partition(), "acts": post.behavior_partition(), "probability": apart}
    found = pd.DataFrame({"user": post.tree["posterior"].coords["user"].values, **table})
    chosen = found[(apart >= least) & (found["looks"] != found["acts"])]
    return chosen.sort_values("probability", ascending=False, kind="stable").reset_index(drop=True)


def text(post: "Posterior", noun: str = "cluster") -> str | None:
    """How many users act as they look, and which do not; None where the fit did not ask."""
    if "agreement" not in post:
        return None
    same = (post.flat("z") == post.flat("z_behavior")).mean(axis=1)
    low, high = np.quantile(same, [0.025, 0.975])
    first = (
        f"{same.mean():.0%} of the users act as they look (95 % interval {low:.0%} to {high:.0%}; ρ, the probability of having "
        f"one label for both views, {_share(post)})."
    )
    found = post.disagreements()
    if not len(found):
        return f"{first} No single user probably acts otherwise."
    groups = found.groupby(["looks", "acts"])["probability"].agg(["size", "mean"]).sort_values("size", ascending=False)
    n_looks = int(post.partition().max()) + 1
    named = [
        f"{_users(n)} like {noun} {looks} and {_acting(noun, acts, n_looks, n)} (probability {mean:.2f} on average)"
        for looks, acts, n, mean in groups.head(_MOST_NAMED).reset_index().itertuples(index=False)
    ]
    rest = len(groups) - _MOST_NAMED
    more = f"; and {rest} more such pairs of {noun}s" if rest > 0 else ""
    return f"{first} {len(found)} of {post.n_users} probably do not: {'; '.join(named)}{more}."


def _share(post: "Posterior") -> str:
    low, high = post.interval("agreement")
    median = float(np.median(post.flat("agreement")))
    return f"is given, {median:.2f}" if low == high else f"is {median:.2f}, {low:.2f} to {high:.2f}"


def _users(n: int) -> str:
    return "1 looks" if n == 1 else f"{n} look"


def _acting(noun: str, acts: int, n_looks: int, n: int) -> str:
    verb = "acts" if n == 1 else "act"
    return f"{verb} like {noun} {acts}" if acts < n_looks else f"{verb} like no {noun} that anyone looks like"
