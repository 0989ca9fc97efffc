"""Users sorted by their component."""

import numpy as np

from dualview.numerics.compiling import compiled


@compiled
def by_component(z, n_components):
    """Users sorted by component, and where each component's begin."""
    begins = np.zeros(n_components + 1, dtype=np.int64)
    for u in range(z.shape[0]):
        begins[z[u] + 1] += 1
    for k in range(n_components):
        begins[k + 1] += begins[k]
    users, places = np.empty(z.shape[0], dtype=np.int64), begins.copy()
    for u in range(z.shape[0]):
        users[places[z[u]]] = u
        places[z[u]] += 1
    return users, begins
