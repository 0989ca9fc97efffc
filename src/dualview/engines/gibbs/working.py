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


class WorkingLabels(NamedTuple):
    """z (G, U): the column of every user in each group of views; behavior is in the first group.

    groups (V,): the group of every view. agrees (G − 1, U): 1 for users whose label in a further
    group is that of the first by construction, (M16). shares (G − 1,): ρ of each further group.
    priors (G − 1, 2): a and b of its Beta prior; 0 where it is known. With one group all views
    share one label, and nobody can disagree.
    """

    z: NDArray[np.int64]
    groups: NDArray[np.int64]
    agrees: NDArray[np.int64]
    shares: NDArray[np.float64]
    priors: NDArray[np.float64]

    @classmethod
    def shared(cls, z: NDArray[np.int64], n_views: int) -> "WorkingLabels":
        """All views have the labels z (U,), in the same memory."""
        none = np.empty((0, len(z)), dtype=np.int64)
        groups = np.zeros(n_views, dtype=np.int64)
        return cls(z[None], groups, none, np.empty(0), np.empty((0, 2)))


class WorkingState(NamedTuple):
    """counts (C,): the customers of every column; free ones have −1.

    A user is one customer, and one more for each group of views in which it does not agree. views:
    records of registered kinds, that of the latent vectors last. terms: what the observations say.
    noises (C,): the noise of every column, empty where clusters share it. partition: the record of
    its prior. n_auxiliary: components that stand for new clusters in an assignment sweep, where
    users can open some. tabulated: users are independent given their clusters, and log likelihoods
    hold what their observations say; else latent vectors are integrated out user by user.
    """

    labels: WorkingLabels
    counts: NDArray[np.int64]
    views: Any
    terms: Terms
    noises: NDArray[np.float64]
    partition: Any
    n_auxiliary: int
    tabulated: bool
    outcome: Outcome

    @property
    def z(self) -> NDArray[np.int64]:
        """The labels of behavior, (U,), and of all views that share them."""
        own: NDArray[np.int64] = self.labels.z[0]
        return own


@inlined
def with_columns(state, counts, views, noises):
    """The state with other columns."""
    labels, terms, partition = state.labels, state.terms, state.partition
    n_auxiliary, tabulated, outcome = state.n_auxiliary, state.tabulated, state.outcome
    return WorkingState(
        labels, counts, views, terms, noises, partition, n_auxiliary, tabulated, outcome
    )


@inlined
def with_views(state, views):
    """The state with other views."""
    return with_columns(state, state.counts, views, state.noises)


@inlined
def with_results(state, partition, outcome):
    """The state with another record of the partition prior and another outcome."""
    labels, counts, views, terms = state.labels, state.counts, state.views, state.terms
    noises, n_auxiliary, tabulated = state.noises, state.n_auxiliary, state.tabulated
    return WorkingState(
        labels, counts, views, terms, noises, partition, n_auxiliary, tabulated, outcome
    )


@compiled
def extended(counts, n_auxiliary, n_columns):
    """The customers of n_columns columns: those there are, then auxiliary ones (0), then free room
    (−1)."""
    n, more = counts.shape[0], np.empty(n_columns, dtype=np.int64)
    for c in range(n_columns):
        more[c] = counts[c] if c < n else (0 if c < n + n_auxiliary else -1)
    return more


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
    noises = np.empty(2 * state.noises.shape[0])
    for c in range(state.noises.shape[0]):
        noises[c] = state.noises[c]
    counts = extended(state.counts, 0, 2 * state.counts.shape[0])
    return with_columns(state, counts, grow_each(state.views), noises)


@inlined
def compacted(state):
    """The state with the occupied columns only, in their order; labels in place."""
    z, label, n_kept = state.labels.z, np.empty(state.counts.shape[0], dtype=np.int64), 0
    for c in range(state.counts.shape[0]):
        label[c] = n_kept
        n_kept += state.counts[c] > 0
    counts = np.empty(n_kept, dtype=np.int64)
    for c in range(state.counts.shape[0]):
        if state.counts[c] > 0:
            counts[label[c]] = state.counts[c]
    for g in range(z.shape[0]):
        for u in range(z.shape[1]):
            z[g, u] = label[z[g, u]]
    views = compact_each(state.counts, n_kept, state.views)
    return with_columns(state, counts, views, state.noises)
