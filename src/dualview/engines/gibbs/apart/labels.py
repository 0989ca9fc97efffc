"""The working state with a label for each table of features and one for behavior."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.engines.gibbs.working import WorkingState, with_columns
from dualview.numerics.compiling import compiled, inlined
from dualview.views.verbs import compact_each


class Apart(NamedTuple):
    """state: its counts are customers, and its z are the labels of the first table, in the memory
    of looks.

    acts (U,): the labels of behavior. looks (T, U): those of the tables of features. agrees (T, U):
    1 for users whose label of a table is that of their behavior by construction. places (V,): the
    table of each observed view. shares (T,): ρ of each table. priors (T, 2): a and b of its Beta
    prior; 0 where it is known.
    """

    state: WorkingState
    acts: NDArray[np.int64]
    looks: NDArray[np.int64]
    agrees: NDArray[np.int64]
    places: NDArray[np.int64]
    shares: NDArray[np.float64]
    priors: NDArray[np.float64]


@inlined
def with_state(apart, state):
    """The same labels with another state."""
    return Apart(
        state, apart.acts, apart.looks, apart.agrees, apart.places, apart.shares, apart.priors
    )


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
    for u in range(apart.acts.shape[0]):
        apart.acts[u] = label[apart.acts[u]]
        for t in range(apart.looks.shape[0]):
            apart.looks[t, u] = label[apart.looks[t, u]]
    views = compact_each(state.counts, n_kept, state.views)
    return with_state(apart, with_columns(state, counts, views, state.noises))
