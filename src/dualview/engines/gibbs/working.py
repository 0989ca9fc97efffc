"""The state of a chain while the sampler works on it: records, as compiled code sees them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.numerics.compiling import compiled, in_place, inlined
from dualview.numerics.messages import Terms
from dualview.views.verbs import compact_each, grow_each

NO_WEIGHT = -1  # what ``choose`` returns where no column has any weight
NOT_FINITE = -2  # and less by i, where the exponent of column i is NaN or +inf


class Outcome(NamedTuple):
    """What became of the assignments: clusters opened, and a user without a column to go to (−1:
    there is none).

    verdict: what ``choose`` returned for that user.
    """

    n_opened: int
    user_without_weight: int
    verdict: int

    @classmethod
    def none(cls) -> "Outcome":
        """Nothing has happened yet."""
        return cls(0, -1, NO_WEIGHT)

    @property
    def column(self) -> int | None:
        """The column whose exponent is NaN or +inf; None where there is none."""
        return NOT_FINITE - self.verdict if self.verdict <= NOT_FINITE else None


class WorkingState(NamedTuple):
    """z (U,): the column of every user. counts (C,): the users of every column; free ones have −1.

    views: records of registered kinds, that of the latent vectors last. terms: what the
    observations say. noises (C,): the noise of every column, empty where clusters share it.
    partition: the record of its prior. n_auxiliary: components that stand for new clusters in an
    assignment sweep, where users can open some. tabulated: users are independent given their
    clusters, and tables hold what their observations say; else latent vectors are integrated out
    user by user.
    """

    z: NDArray[np.int64]
    counts: NDArray[np.int64]
    views: Any
    terms: Terms
    noises: NDArray[np.float64]
    partition: Any
    n_auxiliary: int
    tabulated: bool
    outcome: Outcome


@inlined
def with_views(state, views):
    """The state with other views."""
    z, counts, partition = state.z, state.counts, state.partition
    return WorkingState(
        z,
        counts,
        views,
        state.terms,
        state.noises,
        partition,
        state.n_auxiliary,
        state.tabulated,
        state.outcome,
    )


@inlined
def with_columns(state, counts, views, noises):
    """The state with other columns."""
    z, partition = state.z, state.partition
    return WorkingState(
        z,
        counts,
        views,
        state.terms,
        noises,
        partition,
        state.n_auxiliary,
        state.tabulated,
        state.outcome,
    )


@inlined
def with_partition(state, partition):
    """The state with another record of the partition prior."""
    z, counts, views = state.z, state.counts, state.views
    return WorkingState(
        z,
        counts,
        views,
        state.terms,
        state.noises,
        partition,
        state.n_auxiliary,
        state.tabulated,
        state.outcome,
    )


@inlined
def with_outcome(state, outcome):
    """The state with another outcome."""
    z, counts, views, partition = state.z, state.counts, state.views, state.partition
    return WorkingState(
        z,
        counts,
        views,
        state.terms,
        state.noises,
        partition,
        state.n_auxiliary,
        state.tabulated,
        outcome,
    )


@compiled
def count_users(z, n_components, n_auxiliary, n_columns):
    """Users of every column: components, auxiliary ones (0), free room (−1)."""
    counts = np.empty(n_columns, dtype=np.int64)
    for c in range(n_columns):
        counts[c] = 0 if c < n_components + n_auxiliary else -1
    for u in range(z.shape[0]):
        counts[z[u]] += 1
    return counts


@in_place
def columns_in_use(counts):
    """The columns up to the last that is not free."""
    n = counts.shape[0]
    while n > 0 and counts[n - 1] < 0:
        n -= 1
    return n


@compiled
def grown(state):
    """The state with as many columns again, all free."""
    n = state.counts.shape[0]
    counts, noises = np.empty(2 * n, dtype=np.int64), np.empty(2 * state.noises.shape[0])
    for c in range(2 * n):
        counts[c] = state.counts[c] if c < n else -1
    for c in range(state.noises.shape[0]):
        noises[c] = state.noises[c]
    return with_columns(state, counts, grow_each(state.views), noises)


@inlined
def compacted(state):
    """The state with the occupied columns only, in their order; z in place."""
    label, n_kept = np.empty(state.counts.shape[0], dtype=np.int64), 0
    for c in range(state.counts.shape[0]):
        label[c] = n_kept
        n_kept += state.counts[c] > 0
    for u in range(state.z.shape[0]):
        state.z[u] = label[state.z[u]]
    views = compact_each(state.counts, n_kept, state.views)
    return with_columns(state, count_users(state.z, n_kept, 0, n_kept), views, state.noises)
