"""Members of the auxiliary pool without their means.

A member has a precision S_j in each view, from (M3); its mean is integrated out, so that a vector's law in it is
N(μ_0, S_j⁻¹ + R_0⁻¹). While it is in the pool its column holds that mean and the factor of that precision, and core (C, D, D)
holds the factor of S_j. Whoever opens the cluster draws its mean, (C2). Without a core (no rows) columns are what they hold.
A member whose factor has a 0 on its diagonal, as ``wishart_factor`` says, keeps it: nobody opens it.
"""

import numpy as np

from dualview.numerics.compiling import compiled
from dualview.numerics.draws import normal
from dualview.numerics.linalg import add_to_cholesky, cholesky, multiply, solve_lower_transposed
from dualview.views.gaussian.conditionals import component_mean


@compiled
def cover(column, means, factors, core, base):
    """In place: a component gives up its mean and becomes N(μ_0, S⁻¹ + R_0⁻¹), by rotations that keep digits."""
    if core.shape[0] == 0:
        return
    n_dims = means.shape[1]
    root, spread, vector = cholesky(base[1]), np.zeros((n_dims, n_dims)), np.empty(n_dims)
    for j in range(n_dims):
        means[column, j] = base[0][j]
        for i in range(n_dims):
            core[column, i, j] = factors[column, i, j]
    if factors[column, 0, 0] == 0.0:
        return
    for j in range(n_dims):
        for i in range(j, n_dims):  # spread = T⁻ᵀ, a lower factor of S⁻¹
            rest = 1.0 if i == j else 0.0
            for k in range(j, i):
                rest -= factors[column, k, i] * spread[k, j]
            spread[i, j] = rest / factors[column, i, i]
    for j in range(n_dims):  # R_0⁻¹ is the sum of b bᵀ over columns b of the inverse of its transposed factor
        for i in range(n_dims):
            vector[i] = 1.0 if i == j else 0.0
        solve_lower_transposed(root, vector)
        add_to_cholesky(spread, vector)
    for j in range(n_dims):
        for i in range(n_dims):
            rest = 1.0 if i == j else 0.0
            for k in range(j, i):
                rest -= spread[i, k] * factors[column, j, k]
            factors[column, j, i] = rest / spread[i, i] if i >= j else 0.0


@compiled
def uncover(rng, column, vector, means, factors, core, base):
    """In place: a member of the pool has its precision back and gets a mean, given the vector of the user who has opened it."""
    if core.shape[0] == 0:
        return
    n_dims = means.shape[1]
    for i in range(n_dims):
        for j in range(n_dims):
            factors[column, i, j] = core[column, i, j]
    matrix, linear = np.empty((n_dims, n_dims)), multiply(base[1], base[0])
    component_mean(linear, base[1], 1.0, vector, factors[column], means[column], matrix)
    normal(rng, means[column], matrix)
