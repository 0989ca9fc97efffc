"""The working state with a label for each view."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.engines.gibbs.working import WorkingState, with_columns
from dualview.numerics.compiling import compiled, inlined
from dualview.views.verbs import compact_each


class Apart(NamedTuple):
    """state: its z are the labels of the observed views, and its counts are customers. acts (U,): the labels of behavior.

    agrees (U,): 1 for users who have one label for both. share: ρ. a, b: of its Beta prior; 0 where it is known.
    """

    state: WorkingState
    acts: NDArray[np.int64]
    agrees: NDArray[np.int64]
    share: float
    a: float
    b: float


@inlined
def with_state(apart, state):
    """The same labels with another state."""
    return Apart(state, apart.acts, apart.agrees, apart.share, apart.a, apart.b)


@inlined
def with_share(apart, share):
    """The same with another ρ."""
    return Apart(apart.state, apart.acts, apart.agrees, share, apart.a, apart.b)


@compiled
def compacted(apart):
    """The occupied columns only, in their order; labels change in place."""
    state = apart.state
    label, n_kept = np.empty(state.counts.shape[0], dtype=np.int64), 0
    for c in range(state.counts.shape[0]):
        label[c] = n_kept
        n_kept += state.counts[c] > 0
    counts = np.empty(n_kept, dtype=np.int64)
    for c in range(state.counts.shape[0]):
        if state.counts[c] > 0:
            counts[label[c]] = state.counts[c]
    for u in range(state.z.shape[0]):
        state.z[u] = label[state.z[u]]
        apart.acts[u] = label[apart.acts[u]]
    views = compact_each(state.counts, n_kept, state.views)
    return with_state(apart, with_columns(state, counts, views, state.noises))
