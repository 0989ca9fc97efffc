"""Log densities of a Gaussian view.

Working units: m = 0, Σ = I. Precisions are given by their upper factor T, S = T Tᵀ. Shapes as in
``gaussian``.
"""

import math

import numpy as np

from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.hyperprior import PUBLISHED
from dualview.numerics.linalg import cholesky
from dualview.numerics.special import log1pmx, stirling_remainder
from dualview.views.gaussian.tails import log_tail_prior, log_tails

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_LOG_PI = math.log(math.pi)


@compiled
def log_wishart_constant(dof, spare, n_dims):
    """(Dβ/2)(ln(β/2) − 1) − Σ_{d=1..D} lnΓ((β+d−D)/2), with spare = β − D + 1.

    In differences of Stirling's formula: no digits are lost at large β.
    """
    half = 0.5 * dof
    value = 0.0
    for d in range(n_dims):
        offset = -0.5 * d
        argument = 0.5 * (spare + (n_dims - 1 - d))
        value -= half * log1pmx(offset / half) + (offset - 0.5) * math.log(argument)
        value -= stirling_remainder(argument) + HALF_LOG_2PI
    return value


@in_place
def misfit(factor, base_covariance, base_factor, product, column):
    """ln|S W_0| − tr(S W_0) + D ≤ 0 for S = T Tᵀ, accurate also when S ≈ W_0⁻¹ and when S is nearly
    singular.

    base_factor: the lower factor of W_0; product (D, D) and column (D,) to work in.
    """
    n = factor.shape[0]
    far = 0.0
    for i in range(n):
        for k in range(n):
            column[k] = 0.0
            for j in range(i + 1):
                column[k] += base_covariance[k, j] * factor[j, i]
        for j in range(i + 1):  # lower half of Tᵀ W_0 T
            product[i, j] = 0.0
            for k in range(j + 1):
                product[i, j] += factor[k, j] * column[k]
            far = max(far, abs(product[i, j] - 1.0) if i == j else abs(product[i, j]))
    if far < 0.25:
        return _misfit_near_identity(product)
    total = 0.0
    for i in range(n):
        total += 2.0 * (math.log(factor[i, i]) + math.log(base_factor[i, i])) - (
            product[i, i] - 1.0
        )
    return total


@compiled
def _misfit_near_identity(matrix):
    """ln|M| − tr(M) + D for M near I, given its lower half.

    Elimination of E = M − I keeps each pivot minus one; every term that is left is of second order.
    """
    n = matrix.shape[0]
    excess = matrix.copy()
    total = 0.0
    for j in range(n):
        excess[j, j] -= 1.0
    for j in range(n):
        total += log1pmx(excess[j, j])
        for i in range(j + 1, n):
            ratio = excess[i, j] / (1.0 + excess[j, j])
            for k in range(j + 1, i + 1):
                excess[i, k] -= ratio * excess[k, j]
            total -= ratio * excess[i, j]
    return total


@in_place
def log_normal(x, mean, factor):
    """ln N(x; μ, (T Tᵀ)⁻¹)."""
    n_dims = x.shape[0]
    total = -n_dims * HALF_LOG_2PI
    for i in range(n_dims):
        projection = 0.0
        for j in range(i + 1):
            projection += factor[j, i] * (x[j] - mean[j])
        total += math.log(factor[i, i]) - 0.5 * projection * projection
    return total


@in_place
def log_student(x, mean, factor, dof):
    """The log density of the multivariate t distribution with scale matrix (T Tᵀ)⁻¹ at x; ν = ∞ is
    normal."""
    n_dims, square = x.shape[0], 0.0
    total = -n_dims * HALF_LOG_2PI
    for i in range(n_dims):
        projection = 0.0
        for j in range(i + 1):
            projection += factor[j, i] * (x[j] - mean[j])
        total += math.log(factor[i, i])
        square += projection * projection
    return total + log_tails(square, n_dims, dof)


@compiled
def log_likelihood(x, means, factors, dofs):
    """Table (U, K) of ln p(x_u | component k), (M1) or (C22). dofs (K,): ν of each component; empty
    where all are normal."""
    table = np.empty((x.shape[0], means.shape[0]))
    for u in range(x.shape[0]):
        for k in range(means.shape[0]):
            if dofs.shape[0] > 0:
                table[u, k] = log_student(x[u], means[k], factors[k], dofs[k])
            else:
                table[u, k] = log_normal(x[u], means[k], factors[k])
    return table


@compiled
def log_scale_prior(matrix, dof):
    """ln W(matrix; ν, I/ν) up to a constant: the prior of R_0 and, with ν = D, of W_0, (M5) and
    (M6)."""
    factor, n_dims = cholesky(matrix), matrix.shape[0]
    total = 0.0
    for i in range(n_dims):
        total += (dof - n_dims - 1) * math.log(factor[i, i]) - 0.5 * dof * matrix[i, i]
    return total


@compiled
def log_base_prior(base, hyperprior=PUBLISHED):
    """ln p(μ_0, R_0, W_0, β) up to a constant, (M4) to (M7)."""
    n_dims = base.mean.shape[0]
    total = log_scale_prior(base.precision, n_dims - 1 + hyperprior.of_means) + log_scale_prior(
        base.covariance, n_dims - 1 + hyperprior.of_spreads
    )
    spare = base.dof - (n_dims - 1 + hyperprior.least_of_vectors)
    total -= 1.5 * math.log(spare) + 0.5 * n_dims / spare
    for i in range(n_dims):
        total -= 0.5 * base.mean[i] ** 2
    return total


@compiled
def log_components_prior(components, base):
    """Σ_k ln p(μ_k, S_k | base), (M2) and (M3)."""
    means, factors = components.means, components.factors
    n_components, n_dims = means.shape
    precision_factor = cholesky(base.precision)
    constant = log_wishart_constant(base.dof, base.dof - (n_dims - 1), n_dims)
    constant -= n_dims * HALF_LOG_2PI + 0.25 * n_dims * (n_dims - 1) * _LOG_PI
    for i in range(n_dims):
        constant += math.log(precision_factor[i, i])
    total = n_components * constant
    base_factor, product, column = (
        cholesky(base.covariance),
        np.empty((n_dims, n_dims)),
        np.empty(n_dims),
    )
    for k in range(n_components):
        total += 0.5 * base.dof * misfit(factors[k], base.covariance, base_factor, product, column)
        for i in range(n_dims):
            total -= (n_dims + 1) * math.log(factors[k, i, i])
            projection = 0.0
            for j in range(i, n_dims):
                projection += precision_factor[j, i] * (means[k, j] - base.mean[j])
            total -= 0.5 * projection * projection
    return total


@compiled
def log_assigned(x, z, components, tail_dof=math.inf):
    """Σ_u ln p(x_u | component z_u), (M1), or (C22) where ν is finite."""
    means, factors = components.means, components.factors
    n_components, n_dims = means.shape
    heights, total = np.empty(n_components), 0.0
    for k in range(n_components):
        heights[k] = -n_dims * HALF_LOG_2PI
        for i in range(n_dims):
            heights[k] += math.log(factors[k, i, i])
    for u in range(x.shape[0]):
        k, square = z[u], 0.0
        for i in range(n_dims):
            projection = 0.0
            for j in range(i + 1):
                projection += factors[k, j, i] * (x[u, j] - means[k, j])
            square += projection * projection
        total += heights[k] + log_tails(square, n_dims, tail_dof)
    return total


@compiled
def log_view(x, z, components, base, hyperprior=PUBLISHED, tail_dof=math.inf):
    """ln p(x, components, base | z) up to a constant; with heavy tails the weights are integrated
    out."""
    total = log_components_prior(components, base)
    total += log_base_prior(base, hyperprior) + log_tail_prior(tail_dof)
    return total + log_assigned(x, z, components, tail_dof)
