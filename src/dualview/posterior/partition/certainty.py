"""How certain a partition estimate is, in words. labels (U,) and draws z (N, U), clusters numbered
from 0."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from dualview.posterior.partition import Labels, PartitionEstimate

_MOST_DRAWS = 500  # that are compared with the estimate
_UNSETTLED = 0.25  # a share of users that half of the draws place otherwise
_MOST_CHANGES = 3  # named
_CUT_SHORT = (
    "The search for these {noun}s was cut short; they are the best found until then, and "
    "posterior_.partition(max_time=60) in Python searches on. "
)
_PART = 0.15  # of a cluster's users, at least, that are worth a word


def moved(labels: Labels, other: NDArray[np.integer]) -> int:
    """Users who would have to move to turn one partition into the other, clusters being renamed as
    fits best."""
    together = _table(labels, other)
    rows, columns = linear_sum_assignment(together, maximize=True)
    return len(labels) - int(together[rows, columns].sum())


def _table(labels: Labels, other: NDArray[np.integer]) -> NDArray[np.int64]:
    """Users by their cluster in both partitions."""
    names, codes = np.unique(other, return_inverse=True)
    n_columns = len(names)
    return np.bincount(
        labels * n_columns + codes, minlength=(int(labels.max()) + 1) * n_columns
    ).reshape(-1, n_columns)


def certainty_text(
    z: NDArray[np.integer], estimate: PartitionEstimate, noun: str = "cluster"
) -> str:
    """What half of the draws and nearly all of them do with the users, and what the farthest
    partition of the ball changes; before it, where the search for the estimate was cut short, a
    sentence that says so.

    A partition of which half of the draws place many users otherwise is called unsettled.
    """
    unfinished = "" if estimate.finished else _CUT_SHORT.format(noun=noun)
    return unfinished + _scatter_text(z, estimate, noun)


def _scatter_text(z: NDArray[np.integer], estimate: PartitionEstimate, noun: str) -> str:
    labels, n_users = estimate.labels, len(estimate.labels)
    draws = z[np.linspace(0, len(z) - 1, min(len(z), _MOST_DRAWS)).round().astype(int)]
    numbers = np.array([moved(labels, draw) for draw in draws])
    half, most = (
        int(np.quantile(numbers, level, method="higher")) for level in (0.5, estimate.probability)
    )
    shown = f"{estimate.probability:.0%}"
    if most == 0:
        return f"{shown} of the draws have exactly these {noun}s."
    first = (
        f"these {noun}s but for at most {half} of {n_users} users"
        if half
        else f"exactly these {noun}s"
    )
    text = (
        f"Half of the draws have {first}, and {shown} but for at most {most} of {n_users}; at "
        "the edge of this credible ball "
        f"{_changes(labels, estimate.farthest, noun)}."
    )
    if half > _UNSETTLED * n_users:
        return f"These {noun}s are not settled: they are one way of many to sort the users. {text}"
    return text


def _changes(labels: Labels, farthest: Labels, noun: str) -> str:
    """Which clusters fall apart or are joined in another partition."""
    table = _table(labels, farthest)
    large = table >= np.maximum(2, _PART * table.sum(axis=1, keepdims=True))
    split = [
        f"{noun} {k} falls into {int(row.sum())} parts"
        for k, row in enumerate(large)
        if row.sum() > 1
    ]
    main = np.argmax(table, axis=1)
    joined = [np.flatnonzero(main == column) for column in np.unique(main)]
    found = [
        f"{noun}s {', '.join(map(str, own[:-1]))} and {own[-1]} are one"
        for own in joined
        if len(own) > 1
    ] + split
    if not found:
        return f"single users change their {noun}"
    rest = len(found) - _MOST_CHANGES
    return ", ".join(found[:_MOST_CHANGES]) + (f", and {rest} more such" if rest > 0 else "")
