"""Moves of a Gaussian view's scale: of W_0 and β without the precisions S_k, and of W_0 together
with latent vectors.

All but the last integrate the S_k out of (M1) and (M3). Given z, the vectors and the means μ_k,
with C_k the scatter of cluster k about its mean,

    p(vectors | W_0, β) ∝ Π_k Π_{d<D} Γ((β + n_k − d)/2)/Γ((β − d)/2) |β W_0|^(−n_k/2) |I + (β
    W_0)⁻¹ C_k|^(−(β + n_k)/2).

First each column of L, W_0 = L Lᵀ, alone: column d times √c, which makes L E Lᵀ of W_0, E = I but
E_dd = c. With B_k = L⁻¹ C_k L⁻ᵀ the determinant |β E + B_k| is c β + h_kd times what does not
change, h_kd = B_dd − bᵀ (β I + B')⁻¹ b, where b is the rest of row d and B' the rest of the matrix.
dW_0 grows by c^(D − d), d = 0, 1, …, and tr W_0 by (c − 1)|l_d|².

Then the size of W_0, and β. With the eigenvalues λ_ki of W_0⁻¹ C_k the last determinant is Π_i (1 +
λ_ki/(c β)) after W_0 → c W_0, so one table of them serves both. Drawing the S_k right afterwards
makes all of it a joint update.
"""

import math

import numpy as np

from dualview.numerics.compiling import compiled, in_place, inlined
from dualview.numerics.hyperprior import PUBLISHED
from dualview.numerics.linalg import add_to_cholesky, scaled, solve_lower, squared_singular_values
from dualview.numerics.slice_sampling import sampler
from dualview.numerics.special import log_gamma, log_gamma_ratio

_LARGE_DOF = 1e4
_LOG_2 = math.log(2.0)


@compiled
def whiten(scatters, base_factor):
    """L⁻¹ times the factors of the C_k (K, D, D), W_0 = L Lᵀ."""
    n_components, n_dims = scatters.shape[:2]
    whitened = np.empty((n_components, n_dims, n_dims))
    for k in range(n_components):
        for j in range(n_dims):
            for i in range(n_dims):
                rest = scatters[k, i, j]
                for m in range(i):
                    rest -= base_factor[i, m] * whitened[k, m, j]
                whitened[k, i, j] = rest / base_factor[i, i]
    return whitened


@inlined
def scatter_roots(whitened):
    """λ (K, D): the eigenvalues of W_0⁻¹ C_k, from what ``whiten`` returns, which is used up."""
    n_components, n_dims = whitened.shape[:2]
    roots = np.empty((n_components, n_dims))
    for k in range(n_components):
        squared_singular_values(whitened[k], roots[k])
    return roots


@compiled
def _log_multigamma(argument, n_dims):
    """Σ_{d<D} lnΓ(a − d/2) up to a multiple of D; two at a time by Γ(a) Γ(a − ½) ∝ 4⁻ᵃ Γ(2a −
    1)."""
    total = 0.0
    for d in range(0, n_dims - 1, 2):
        double = 2.0 * argument - d
        total += log_gamma(double - 1.0) - double * _LOG_2
    return total + log_gamma(argument - 0.5 * (n_dims - 1)) if n_dims % 2 else total


@inlined
def _log_determinant(roots, k, inverse):
    """ln Π_d (1 + λ_kd/b) with inverse = 1/b, by few logarithms."""
    total, product = 0.0, 1.0
    for d in range(roots.shape[1]):
        product *= 1.0 + roots[k, d] * inverse
        if product > 1e100:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@in_place
def _log_marginal(dof, counts, roots):
    """ln p(vectors | z, μ, W_0, β) up to a constant in β, for β that are not large."""
    n_components, n_dims = roots.shape
    total = n_users = 0.0
    inverse = 1.0 / dof
    own = _log_multigamma(0.5 * dof, n_dims)
    for k in range(n_components):
        if counts[k] > 0.0:
            n_users += counts[k]
            total += _log_multigamma(0.5 * (dof + counts[k]), n_dims) - own
            total -= 0.5 * (dof + counts[k]) * _log_determinant(roots, k, inverse)
    return total - 0.5 * n_dims * n_users * math.log(0.5 * dof)


@in_place
def _log_marginal_of_large(dof, spare, counts, roots):
    """The same, by differences that keep their digits however large β is; spare = β − D + 1."""
    n_components, n_dims = roots.shape
    total = n_users = 0.0
    for k in range(n_components):
        if counts[k] > 0.0:
            n_users += counts[k]
            for d in range(n_dims):
                total += log_gamma_ratio(0.5 * (spare + (n_dims - 1 - d)), 0.5 * counts[k])
                total -= 0.5 * (dof + counts[k]) * math.log1p(roots[k, d] / dof)
    for d in range(1, n_dims):
        total += 0.5 * n_users * math.log1p(-d / dof)
    return total


@in_place
def _log_determinants(dof, scale, counts, roots):
    """−Σ_k (β + n_k)/2 ln|I + (c β W_0)⁻¹ C_k| − (n_k D/2) ln c."""
    n_components, n_dims = roots.shape
    inverse = 1.0 / (dof * scale)
    total = n_users = 0.0
    for k in range(n_components):
        if counts[k] > 0.0:
            n_users += counts[k]
            if dof < _LARGE_DOF:
                total -= 0.5 * (dof + counts[k]) * _log_determinant(roots, k, inverse)
            else:
                for d in range(n_dims):
                    total -= 0.5 * (dof + counts[k]) * math.log1p(roots[k, d] * inverse)
    return total - 0.5 * n_dims * n_users * math.log(scale)


@in_place
def log_dof_density(log_spare, parameters):
    """Log density of y = ln(β − β_min) without the S_k; parameters: counts, roots, β_min − D +
    1."""
    counts, roots, least = parameters
    if abs(log_spare) > 700.0:
        return -math.inf
    n_dims = roots.shape[1]
    spare = math.exp(log_spare)
    dof = spare + (n_dims - 1 + least)
    prior = -0.5 * log_spare - 0.5 * n_dims / spare
    if dof < _LARGE_DOF:
        return prior + _log_marginal(dof, counts, roots)
    return prior + _log_marginal_of_large(dof, spare + least, counts, roots)


@in_place
def log_scale_density(log_scale, parameters):
    """Log density of t = ln c along W_0 → c W_0, without the S_k; parameters: counts, roots, β, tr
    W_0, ω."""
    counts, roots, dof, trace, prior_dof = parameters
    if abs(log_scale) > 700.0:
        return -math.inf
    n_dims = roots.shape[1]
    scale = math.exp(log_scale)
    return (
        _log_determinants(dof, scale, counts, roots)
        + 0.5 * n_dims * prior_dof * log_scale
        - 0.5 * prior_dof * scale * trace
    )


_sample_log_spare = sampler(log_dof_density)
_sample_log_scale = sampler(log_scale_density)


@inlined
def draw_scales(rng, counts, roots, trace, dof, hyperprior=PUBLISHED):
    """The factor c of W_0 and β, one after the other."""
    least, n_dims = hyperprior.least_of_vectors, roots.shape[1]
    prior_dof = float(n_dims - 1 + hyperprior.of_spreads)
    smallest = n_dims - 1 + least
    scale = math.exp(_sample_log_scale(rng, (counts, roots, dof, trace, prior_dof), 0.0, 1.0))
    log_spare = _sample_log_spare(
        rng, (counts, scaled(roots, 1.0 / scale), least), math.log(dof - smallest), 2.0
    )
    return scale, math.exp(log_spare) + smallest


@in_place
def log_column_density(log_scale, parameters):
    """Log density of t = ln c along one column of L, without the S_k; parameters: counts, h (K, 1),
    β, |l_d|², D, d, ω."""
    counts, heights, dof, square, n_dims, d, prior_dof = parameters
    if abs(log_scale) > 700.0:
        return -math.inf
    scale = math.exp(log_scale)
    prior = (
        n_dims - d + 0.5 * (prior_dof - n_dims - 1.0)
    ) * log_scale - 0.5 * prior_dof * scale * square
    return _log_determinants(dof, scale, counts, heights) + prior


_sample_column_scale = sampler(log_column_density)


@compiled
def column_heights(d, dof, whitened, heights):
    """In place: h (K, 1) of column d, as a sum of squares: rᵀ (I + Σ q qᵀ/β)⁻¹ r, r the row d of
    ``whiten``, q the others."""
    n_components, n_dims = whitened.shape[:2]
    factor, vector, root = np.empty((n_dims, n_dims)), np.empty(n_dims), math.sqrt(dof)
    for k in range(n_components):
        for i in range(n_dims):
            for j in range(n_dims):
                factor[i, j] = 1.0 if i == j else 0.0
        for m in range(n_dims):
            if m != d:
                for i in range(n_dims):
                    vector[i] = whitened[k, m, i] / root
                add_to_cholesky(factor, vector)
        for i in range(n_dims):
            vector[i] = whitened[k, d, i]
        solve_lower(factor, vector)
        heights[k, 0] = 0.0
        for i in range(n_dims):
            heights[k, 0] += vector[i] * vector[i]


@compiled
def redraw_columns(rng, counts, whitened, base_factor, dof, hyperprior=PUBLISHED):
    """In place on L and what ``whiten`` returns: a factor √c for each column of L in turn."""
    n_components, n_dims = whitened.shape[:2]
    heights, prior_dof = np.empty((n_components, 1)), float(n_dims - 1 + hyperprior.of_spreads)
    for d in range(n_dims):
        column_heights(d, dof, whitened, heights)
        square = 0.0
        for i in range(d, n_dims):
            square += base_factor[i, d] * base_factor[i, d]
        parameters = (counts, heights, dof, square, float(n_dims), float(d), prior_dof)
        root = math.exp(0.5 * _sample_column_scale(rng, parameters, 0.0, 1.0))
        for i in range(d, n_dims):
            base_factor[i, d] *= root
        for k in range(n_components):
            for j in range(n_dims):
                whitened[k, d, j] /= root


@in_place
def log_latent_scale_density(log_scale, parameters):
    """Log density of t = ln c along W_0 → c W_0, S_k → S_k/c, f_u − μ_{z_u} → √c (f_u − μ_{z_u}).

    Everything in the view but the prior of W_0 is the same all along; the likelihood changes by a
    quadratic in √c − 1. Parameters: its slope and curvature at √c = 1, tr W_0, D, ω.
    """
    slope, curvature, trace, n_dims, prior_dof = parameters
    if abs(log_scale) > 700.0:
        return -math.inf
    step = math.expm1(0.5 * log_scale)
    prior = 0.5 * n_dims * prior_dof * log_scale - 0.5 * prior_dof * math.exp(log_scale) * trace
    return prior + slope * step - 0.5 * curvature * step * step


# From where a chain starts, or after a jump of what else explains the vectors, the likelihood may
# want them all at their means: then the density is nearly flat down to scales that rounding makes
# zero.
_sample_latent_scale = sampler(log_latent_scale_density, reach=10)


@inlined
def draw_latent_scale(rng, slope, curvature, trace, n_dims, prior_dof):
    """c of the joint move of W_0, the S_k and the latent vectors."""
    return math.exp(
        _sample_latent_scale(rng, (slope, curvature, trace, n_dims, prior_dof), 0.0, 1.0)
    )
