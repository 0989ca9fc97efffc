"""What is kept of a state: a row of numbers for each draw, its labels, and a row for each of its
components.

The row of a draw: α, the noise, ln p(data, state), the number of clusters; coefficients (C,); what
each view's components share, view after view; latent vectors (U, q). The row of a component: its
users, then what each view has of it. ``packed_draws`` takes the rows apart.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.conjugate import log_conjugate
from dualview.numerics.compiling import compiled, inlined, standalone
from dualview.numerics.packing import put
from dualview.partitions.verbs import concentration, log_density
from dualview.views.verbs import (
    base_widths,
    component_widths,
    log_densities,
    put_bases,
    put_components,
)

N_SCALARS = 4


class Pack(NamedTuple):
    """rows (draws, …), labels (draws, U), n_components (draws,), components (rows, …), of which
    n_used are filled."""

    rows: NDArray[np.float64]
    labels: NDArray[np.int32]
    n_components: NDArray[np.int64]
    components: NDArray[np.float64]
    n_used: int


@compiled
def new_pack(n_draws, conjugate, state):
    """Room for some draws."""
    n_users, n_latent = state.views[-1].vectors.shape
    width = (
        N_SCALARS + conjugate.coefficients.shape[0] + base_widths(state.views) + n_users * n_latent
    )
    components = np.empty(
        (n_draws * (state.counts.shape[0] + 2), 1 + component_widths(state.views))
    )
    labels, n_components = (
        np.empty((n_draws, n_users), dtype=np.int32),
        np.empty(n_draws, dtype=np.int64),
    )
    return Pack(np.empty((n_draws, width)), labels, n_components, components, 0)


@compiled
def log_joint(state, conjugate):
    """ln p(data, state) up to a constant that depends on nothing learnt."""
    total = log_densities(state.z, log_density(state.counts, state.partition), state.views)
    if conjugate.outcome.shape[0] > 0:
        total += log_conjugate(state.terms, conjugate)
    return total


@compiled
def with_rows(components, n_used, n_more):
    """With room for n_more rows after those in use."""
    if n_used + n_more <= components.shape[0]:
        return components
    more = np.empty((2 * (n_used + n_more), components.shape[1]))
    for k in range(n_used):
        for i in range(components.shape[1]):
            more[k, i] = components[k, i]
    return more


@standalone(returns="kept", work=4)
def pack(draw, kept, state, conjugate):
    """The pack with one more draw: the state as it stands, without empty clusters where users can
    open them."""
    return pack_with(draw, kept, log_joint(state, conjugate), state, conjugate)


@inlined
def pack_with(draw, kept, log_density, state, conjugate):
    """``pack``, with ln p(data, state) given."""
    counts, n_clusters = state.counts, 0
    components = with_rows(kept.components, kept.n_used, counts.shape[0])
    for k in range(counts.shape[0]):
        n_clusters += counts[k] > 0
        row = components[kept.n_used + k]
        row[0] = counts[k]
        put_components(row, np.int64(1), k, state.views)
    for u in range(state.z.shape[0]):
        kept.labels[draw, u] = state.z[u]
    row = kept.rows[draw]
    row[0], row[1], row[2], row[3] = (
        concentration(state.partition),
        state.terms.precision[0],
        log_density,
        n_clusters,
    )
    at = put_bases(row, put(row, np.int64(N_SCALARS), conjugate.coefficients), state.views)
    put(row, at, state.views[-1].vectors)
    kept.n_components[draw] = counts.shape[0]
    return Pack(
        kept.rows, kept.labels, kept.n_components, components, kept.n_used + counts.shape[0]
    )
