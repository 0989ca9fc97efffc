"""The conditionals of a Gaussian view and the loops that draw from them.

Working units: the view's constants are m = 0 and Σ = I. Shapes: x (U, D), z (U,), means (K, D), factors (K, D, D) upper with
S_k = T_k T_kᵀ. A conditional returns the parameters of its law: (linear, precision) of a normal, (dof, inverse scale) of a
Wishart.
"""

import math

import numpy as np

from dualview.kernels.ars import sampler
from dualview.kernels.compiling import compiled
from dualview.kernels.densities import log_wishart_constant, misfit
from dualview.kernels.draws import normal, wishart_factor
from dualview.kernels.linalg import add_outer, add_to_cholesky, cholesky, loses_digits, multiply, outer_square


@compiled
def component_precision(base_dof, base_covariance, count, scatter):
    """S_k | rest, (C1)."""
    return base_dof + count, base_dof * base_covariance + scatter


@compiled
def component_mean(base_mean, base_precision, count, total, precision):
    """μ_k | rest, (C2)."""
    linear = multiply(base_precision, base_mean) + multiply(precision, total)
    return linear, base_precision + count * precision


@compiled
def base_mean_law(means, base_precision):
    """μ_0 | rest, (C3)."""
    n_components, n_dims = means.shape
    total = np.zeros(n_dims)
    for k in range(n_components):
        total += means[k]
    return multiply(base_precision, total), np.eye(n_dims) + n_components * base_precision


@compiled
def base_precision_law(means, base_mean):
    """R_0 | rest, (C4)."""
    n_components, n_dims = means.shape
    inverse_scale = n_dims * np.eye(n_dims)
    for k in range(n_components):
        add_outer(inverse_scale, means[k] - base_mean, 1.0)
    return float(n_dims + n_components), inverse_scale


@compiled
def base_covariance_law(factors, base_dof):
    """W_0 | rest, (C5)."""
    n_components, n_dims = factors.shape[:2]
    inverse_scale = n_dims * np.eye(n_dims)
    for k in range(n_components):
        inverse_scale += base_dof * outer_square(factors[k])
    return n_dims + n_components * base_dof, inverse_scale


@compiled
def log_dof_density(log_dof, parameters):
    """Log density and derivative of y = ln β, (C6); parameters: K, D and C + K D.

    (C6) in differences of Stirling's formula, so that no digits are lost at large β.
    Beyond the range of numbers the density is 0.
    """
    if abs(log_dof) > 700.0:
        return -math.inf, -math.copysign(math.inf, log_dof)
    n_components, n_dims, misfits = parameters[0], parameters[1], parameters[2]
    dof = math.exp(log_dof)
    spare = dof
    if n_dims > 1.0:
        spare = (n_dims - 1.0) * math.expm1(log_dof - math.log(n_dims - 1.0))
    half = 0.5 * dof
    density, slope = log_wishart_constant(dof, spare, int(n_dims))
    density = n_components * density + half * misfits
    slope = half * (n_components * slope + misfits)
    density += log_dof - 1.5 * math.log(spare) - 0.5 * n_dims / spare
    slope += 1.0 - 1.5 * dof / spare + 0.5 * n_dims * dof / (spare * spare)
    return density, slope


_sample_log_dof = sampler(log_dof_density)


@compiled
def draw_base_dof(rng, factors, base_covariance, base_dof):
    """β | rest, (C6), by adaptive rejection from its present value."""
    n_components, n_dims = factors.shape[:2]
    misfits = 0.0
    for k in range(n_components):
        misfits += misfit(factors[k], base_covariance)
    parameters = np.array([float(n_components), float(n_dims), misfits])
    lower = math.log(n_dims - 1.0) if n_dims > 1 else -math.inf
    return math.exp(_sample_log_dof(rng, parameters, math.log(base_dof), lower))


@compiled
def cluster_sums(x, z, means):
    """Counts (K,), sums of x (K, D) and scatters about the components' means (K, D, D)."""
    n_components, n_dims = means.shape
    counts = np.zeros(n_components)
    totals = np.zeros((n_components, n_dims))
    scatters = np.zeros((n_components, n_dims, n_dims))
    for u in range(x.shape[0]):
        k = z[u]
        counts[k] += 1.0
        totals[k] += x[u]
        add_outer(scatters[k], x[u] - means[k], 1.0)
    return counts, totals, scatters


@compiled
def scatter_factor(inverse_scale, start, x, z, k, centre):
    """Cholesky factor of inverse_scale = start + Σ_{u: z_u = k} (x_u − centre)(x_u − centre)ᵀ.

    Directly where that keeps digits; else from start, vector by vector.
    """
    factor = cholesky(inverse_scale)
    if loses_digits(factor, inverse_scale):
        factor = cholesky(start)
        for u in range(x.shape[0]):
            if z[u] == k:
                add_to_cholesky(factor, x[u] - centre)
    return factor


@compiled
def draw_components(rng, x, z, means, base_mean, base_precision, base_covariance, base_dof):
    """S_k then μ_k for every component: (C1), (C2). Empty components come from their prior."""
    counts, totals, scatters = cluster_sums(x, z, means)
    n_components, n_dims = means.shape
    new_means = np.empty((n_components, n_dims))
    factors = np.empty((n_components, n_dims, n_dims))
    for k in range(n_components):
        dof, inverse_scale = component_precision(base_dof, base_covariance, counts[k], scatters[k])
        factor = scatter_factor(inverse_scale, base_dof * base_covariance, x, z, k, means[k])
        factors[k] = wishart_factor(rng, dof, factor)
        precision = outer_square(factors[k])
        linear, precision = component_mean(base_mean, base_precision, counts[k], totals[k], precision)
        new_means[k] = normal(rng, linear, precision)
    return new_means, factors


@compiled
def draw_base(rng, means, factors, base_mean, base_precision, base_covariance, base_dof):
    """μ_0, R_0, W_0, β in turn: (C3) to (C6)."""
    linear, precision = base_mean_law(means, base_precision)
    base_mean = normal(rng, linear, precision)
    dof, inverse_scale = base_precision_law(means, base_mean)
    everybody = np.zeros(len(means), dtype=np.int64)
    factor = scatter_factor(inverse_scale, len(base_mean) * np.eye(len(base_mean)), means, everybody, 0, base_mean)
    base_precision = outer_square(wishart_factor(rng, dof, factor))
    dof, inverse_scale = base_covariance_law(factors, base_dof)
    base_covariance = outer_square(wishart_factor(rng, dof, cholesky(inverse_scale)))
    base_dof = draw_base_dof(rng, factors, base_covariance, base_dof)
    return base_mean, base_precision, base_covariance, base_dof


@compiled
def draw_from_base(rng, n, base_mean, base_precision, base_covariance, base_dof):
    """n components from the base distributions, (M2) and (M3)."""
    n_dims = base_mean.shape[0]
    covariance_factor = cholesky(base_dof * base_covariance)
    linear = multiply(base_precision, base_mean)
    means = np.empty((n, n_dims))
    factors = np.empty((n, n_dims, n_dims))
    for k in range(n):
        factors[k] = wishart_factor(rng, base_dof, covariance_factor)
        means[k] = normal(rng, linear, base_precision)
    return means, factors
