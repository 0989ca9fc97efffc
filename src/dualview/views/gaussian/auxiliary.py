"""Auxiliary components without their means.

An auxiliary component has a precision S_j from (M3); its mean is integrated out, so that a vector's
distribution in it is N(μ_0, S_j⁻¹ + R_0⁻¹). Until a user opens it its column holds that mean and
the factor of that precision, and cores (C, D, D) holds the factor of S_j. Whoever opens the cluster
draws its mean, (C2). A component whose factor has a 0 on its diagonal, as ``wishart_factor`` says,
keeps it: nobody opens it.
"""

import numpy as np

from dualview.numerics.compiling import compiled
from dualview.numerics.draws import normal
from dualview.numerics.linalg import add_to_cholesky, cholesky, multiply, solve_lower_transposed
from dualview.views.gaussian.conditionals import component_mean


@compiled
def marginalise_mean(column, components, cores, base):
    """In place: a component gives up its mean and becomes N(μ_0, S⁻¹ + R_0⁻¹), by rotations that
    keep digits."""
    means, factors = components.means, components.factors
    n_dims = means.shape[1]
    root, spread, vector = cholesky(base.precision), np.zeros((n_dims, n_dims)), np.empty(n_dims)
    for j in range(n_dims):
        means[column, j] = base.mean[j]
        for i in range(n_dims):
            cores[column, i, j] = factors[column, i, j]
    if factors[column, 0, 0] == 0.0:
        return
    for j in range(n_dims):
        for i in range(j, n_dims):  # spread = T⁻ᵀ, a lower factor of S⁻¹
            rest = 1.0 if i == j else 0.0
            for k in range(j, i):
                rest -= factors[column, k, i] * spread[k, j]
            spread[i, j] = rest / factors[column, i, i]
    for j in range(
        n_dims
    ):  # R_0⁻¹ is the sum of b bᵀ over columns b of the inverse of its transposed factor
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
def draw_mean(rng, column, vector, components, cores, base):
    """In place: an auxiliary component has its precision back and gets a mean, given the vector of
    who has opened it."""
    means, factors = components.means, components.factors
    n_dims = means.shape[1]
    for i in range(n_dims):
        for j in range(n_dims):
            factors[column, i, j] = cores[column, i, j]
    matrix, linear = np.empty((n_dims, n_dims)), multiply(base.precision, base.mean)
    component_mean(linear, base.precision, 1.0, vector, factors[column], means[column], matrix)
    normal(rng, means[column], matrix)
