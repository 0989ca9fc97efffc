"""The conditionals of a Gaussian view and the loops that draw from them.

Working units: the view's constants are m = 0 and Σ = I. Shapes: x (U, D), z (U,), means (K, D),
factors (K, D, D) upper with S_k = T_k T_kᵀ, scatters (K, D, D) lower with C_k C_kᵀ = Σ_{u∈k} (x_u −
μ_k)(x_u − μ_k)ᵀ. A conditional writes the parameters of its distribution into arrays it is given:
linear and precision of a normal; the lower factor of a Wishart's inverse scale, and returns its
dof.
"""

import math
from typing import NamedTuple

import numpy as np

from dualview.numerics.compiling import compiled, inlined, standalone
from dualview.numerics.draws import normal, wishart_factor
from dualview.numerics.hyperprior import PUBLISHED
from dualview.numerics.linalg import (
    add_to_cholesky,
    cholesky,
    factorise,
    join_cholesky,
    lower_square,
    multiply,
    outer_square,
    scaled,
    trace,
)
from dualview.views.base import Array, Base, Components
from dualview.views.gaussian.scale import draw_scales, redraw_columns, scatter_roots, whiten

# A base variance below this, in working units, is a view whose clusters have shrunk onto single
# points; rounding of the means stops the shrinking near 1e-32, and a feature with an outlier of
# 1e12 times its spread has about 1e-24.
_SMALLEST = 1e-28


class Sums(NamedTuple):
    """Sums over the users of every cluster: counts (K,), totals (K, D), factors of the scatters (K,
    D, D), and weights (K,). Totals and scatters are weighted, (C24)."""

    counts: Array
    totals: Array
    scatters: Array
    weights: Array


@inlined
def component_precision(base_dof, base_factor, count, scatter, inverse_scale, scratch):
    """S_k | rest, (C1); base_factor lower with base_factor base_factorᵀ = W_0."""
    root = math.sqrt(base_dof)
    n_dims = base_factor.shape[0]
    for i in range(n_dims):
        for j in range(n_dims):
            inverse_scale[i, j] = root * base_factor[i, j]
    if count > 0.0:
        join_cholesky(inverse_scale, scatter, scratch)
    return base_dof + count


@inlined
def component_mean(base_linear, base_precision, weight, total, factor, linear, precision):
    """μ_k | rest, (C2) and (C24); base_linear = R_0 μ_0; weight: n_k, or the sum of the users'
    weights."""
    n_dims = total.shape[0]
    outer_square(factor, weight, precision)
    for i in range(n_dims):
        for j in range(n_dims):
            precision[i, j] += base_precision[i, j]
        linear[i] = base_linear[i]
    for i in range(n_dims):
        projection = 0.0
        for j in range(i + 1):
            projection += factor[j, i] * total[j]
        for j in range(i + 1):
            linear[j] += factor[j, i] * projection


@inlined
def base_mean_law(means, base_precision, linear, precision):
    """μ_0 | rest, (C3)."""
    n_components, n_dims = means.shape
    for i in range(n_dims):
        linear[i] = 0.0
        for j in range(n_dims):
            precision[i, j] = n_components * base_precision[i, j] + (1.0 if i == j else 0.0)
            for k in range(n_components):
                linear[i] += base_precision[i, j] * means[k, j]


@inlined
def base_precision_law(means, base_mean, inverse_scale, scratch, hyperprior=PUBLISHED):
    """R_0 | rest, (C4) with ν for D in its first terms."""
    n_components, n_dims = means.shape
    prior_dof = n_dims - 1 + hyperprior.of_means
    for i in range(n_dims):
        for j in range(n_dims):
            inverse_scale[i, j] = math.sqrt(prior_dof) if i == j else 0.0
    for k in range(n_components):
        for i in range(n_dims):
            scratch[i] = means[k, i] - base_mean[i]
        add_to_cholesky(inverse_scale, scratch)
    return float(prior_dof + n_components)


@inlined
def base_covariance_law(factors, base_dof, inverse_scale, hyperprior=PUBLISHED):
    """W_0 | rest, (C5) with ω for D in its first terms."""
    n_components, n_dims = factors.shape[:2]
    prior_dof = n_dims - 1 + hyperprior.of_spreads
    for i in range(n_dims):
        for j in range(i + 1):
            total = 0.0
            for k in range(n_components):
                for d in range(i, n_dims):
                    total += factors[k, i, d] * factors[k, j, d]
            inverse_scale[i, j] = base_dof * total + (prior_dof if i == j else 0.0)
    factorise(inverse_scale)
    return prior_dof + n_components * base_dof


@standalone(python=True)
def cluster_sums(x, z, means, weights):
    """The sums of the clusters; scatters are about the components' means. weights (U,): of users;
    empty where all are 1."""
    n_components, n_dims = means.shape
    counts = np.zeros(n_components)
    totals = np.zeros((n_components, n_dims))
    scatters = np.zeros((n_components, n_dims, n_dims))
    total_weights, deviation = np.zeros(n_components), np.empty(n_dims)
    for u in range(z.shape[0]):
        k, weight = z[u], weights[u] if weights.shape[0] > 0 else 1.0
        root = math.sqrt(weight)
        counts[k] += 1.0
        total_weights[k] += weight
        for d in range(n_dims):
            totals[k, d] += weight * x[u, d]
            deviation[d] = root * (x[u, d] - means[k, d])
        add_to_cholesky(scatters[k], deviation)
    return Sums(counts, totals, scatters, total_weights)


@compiled
def join_sums(sums, more):
    """In place on the first: the sums of two sets of users, from the sums of each."""
    n_dims = sums.totals.shape[1]
    scratch = np.empty(n_dims)
    for k in range(sums.counts.shape[0]):
        if more.counts[k] > 0.0:
            sums.counts[k] += more.counts[k]
            sums.weights[k] += more.weights[k]
            for i in range(n_dims):
                sums.totals[k, i] += more.totals[k, i]
            join_cholesky(sums.scatters[k], more.scatters[k], scratch)


@standalone(python=True)
def draw_components(rng, sums, base):
    """S_k then μ_k for every component: (C1), (C2). Empty components come from their prior."""
    n_components, n_dims = sums.totals.shape
    means = np.empty((n_components, n_dims))
    factors = np.empty((n_components, n_dims, n_dims))
    matrix, scratch = np.empty((n_dims, n_dims)), np.empty(n_dims)
    base_factor, base_linear = cholesky(base.covariance), multiply(base.precision, base.mean)
    for k in range(n_components):
        dof = component_precision(
            base.dof, base_factor, sums.counts[k], sums.scatters[k], matrix, scratch
        )
        wishart_factor(rng, dof, matrix, factors[k])
        component_mean(
            base_linear,
            base.precision,
            sums.weights[k],
            sums.totals[k],
            factors[k],
            means[k],
            matrix,
        )
        normal(rng, means[k], matrix)
    return Components(means, factors)


@compiled
def draw_location(rng, means, base_precision, hyperprior=PUBLISHED):
    """μ_0 and R_0 in turn: (C3), (C4)."""
    n_dims = means.shape[1]
    base_mean, scratch = np.empty(n_dims), np.empty(n_dims)
    matrix, factor, new_precision = (
        np.empty((n_dims, n_dims)),
        np.empty((n_dims, n_dims)),
        np.empty((n_dims, n_dims)),
    )
    base_mean_law(means, base_precision, base_mean, matrix)
    normal(rng, base_mean, matrix)
    dof = base_precision_law(means, base_mean, matrix, scratch, hyperprior)
    wishart_factor(rng, dof, matrix, factor)
    outer_square(factor, 1.0, new_precision)
    return base_mean, new_precision


@compiled
def draw_base(rng, components, base, hyperprior=PUBLISHED):
    """μ_0, R_0, W_0 in turn: (C3) to (C5)."""
    n_dims = components.means.shape[1]
    mean, precision = draw_location(rng, components.means, base.precision, hyperprior)
    matrix, factor, covariance = (
        np.empty((n_dims, n_dims)),
        np.empty((n_dims, n_dims)),
        np.empty((n_dims, n_dims)),
    )
    dof = base_covariance_law(components.factors, base.dof, matrix, hyperprior)
    wishart_factor(rng, dof, matrix, factor)
    outer_square(factor, 1.0, covariance)
    return Base(mean, precision, covariance, base.dof)


@compiled
def redraw_view(rng, sums, base, hyperprior=PUBLISHED):
    """All a view learns, given sums over its clusters: columns and size of W_0 and β without the
    S_k, then (C1) to (C5)."""
    covariance = base.covariance
    base_factor = cholesky(covariance)
    whitened = whiten(sums.scatters, base_factor)
    if sums.totals.shape[1] > 1:  # a single column is what draw_scales draws
        redraw_columns(rng, sums.counts, whitened, base_factor, base.dof, hyperprior)
        covariance = lower_square(base_factor)
    roots = scatter_roots(whitened)
    scale, dof = draw_scales(rng, sums.counts, roots, trace(covariance), base.dof, hyperprior)
    base = Base(base.mean, base.precision, scaled(covariance, scale), dof)
    components = draw_components(rng, sums, base)
    return components, draw_base(rng, components, base, hyperprior)


@compiled
def degenerate(base_covariance):
    """Whether W_0 is no number any more, or so small in some direction that its clusters have
    shrunk onto single points."""
    factor = cholesky(base_covariance)
    for i in range(base_covariance.shape[0]):
        if not _SMALLEST < base_covariance[i, i] < math.inf or math.isnan(factor[i, i]):
            return True
    return False


@compiled
def draw_means(rng, first, end, means, base_mean, base_precision):
    """In place: the means of components first to end become draws of (M2)."""
    n_dims = base_mean.shape[0]
    linear, matrix = multiply(base_precision, base_mean), np.empty((n_dims, n_dims))
    for k in range(first, end):
        for i in range(n_dims):
            means[k, i] = linear[i]
            for j in range(n_dims):
                matrix[i, j] = base_precision[i, j]
        normal(rng, means[k], matrix)


@compiled
def draw_into(rng, first, end, components, base):
    """In place: components first to end become draws from the base distributions, (M2) and (M3)."""
    factor = cholesky(base.covariance)
    root = math.sqrt(base.dof)
    for i in range(factor.shape[0]):
        for j in range(i + 1):
            factor[i, j] *= root
    for k in range(first, end):
        wishart_factor(rng, base.dof, factor, components.factors[k])
        draw_means(rng, k, k + 1, components.means, base.mean, base.precision)


@compiled
def draw_from_base(rng, n, base):
    """n components from the base distributions, (M2) and (M3)."""
    n_dims = base.mean.shape[0]
    components = Components(np.empty((n, n_dims)), np.empty((n, n_dims, n_dims)))
    draw_into(rng, 0, n, components, base)
    return components
