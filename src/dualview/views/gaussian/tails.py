"""Clusters with heavy tails, (M19): a weight λ_u of each user, and the degrees of freedom ν of all.

    x_u | z_u = k, λ_u ~ N(μ_k, (λ_u S_k)⁻¹),   λ_u ~ Gamma(ν/2, rate ν/2)

with p(ν) ∝ ν e^(−ν/10) above 1.
Without its weight a vector has a multivariate t distribution with ν degrees of freedom, location
μ_k and scale matrix S_k⁻¹. Squares are (x_u − μ_k)ᵀ S_k (x_u − μ_k). ν = ∞ stands for a normal.
"""

import math

from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.hyperprior import LEAST_TAIL_DOF, TAIL_RATE
from dualview.numerics.slice_sampling import sampler
from dualview.numerics.special import log_gamma_ratio
from dualview.numerics.streams import standard_gamma

_MOST_LOG = 600.0  # a logarithm beyond which numbers leave their range


@in_place
def log_tails(square, n_dims, dof):
    """What a density of n_dims dimensions has in its exponent for a square: −square/2 of a normal
    one; of a t density all that is not in the normal one's constant."""
    if dof == math.inf:
        return -0.5 * square
    height = log_gamma_ratio(0.5 * dof, 0.5 * n_dims)
    return height - 0.5 * (dof + n_dims) * math.log1p(square / dof)


@in_place
def log_tail_prior(dof):
    """ln p(ν) up to a constant; 0 of a normal distribution, which has no ν."""
    if dof == math.inf:
        return 0.0
    return math.log(dof) - TAIL_RATE * dof if dof > LEAST_TAIL_DOF else -math.inf


@in_place
def log_tail_density(log_dof, parameters):
    """Log density of ln ν up to a constant, the weights integrated out, (C25); parameters: squares
    (U,), D."""
    squares, n_dims = parameters
    if not math.log(LEAST_TAIL_DOF) < log_dof < _MOST_LOG:
        return -math.inf
    dof = math.exp(log_dof)
    total = squares.shape[0] * log_gamma_ratio(0.5 * dof, 0.5 * n_dims)
    for u in range(squares.shape[0]):
        total -= 0.5 * (dof + n_dims) * math.log1p(squares[u] / dof)
    return total + log_tail_prior(dof) + log_dof


_sample_log_dof = sampler(log_tail_density)


@compiled
def draw_tail_dof(rng, squares, n_dims, dof):
    """The next ν, by a slice of its logarithm."""
    return math.exp(_sample_log_dof(rng, (squares, n_dims), math.log(dof), 1.0))


@in_place
def weight_law(square, n_dims, dof):
    """λ | rest, (C23): shape and rate of a gamma distribution, given n_dims numbers."""
    return 0.5 * (dof + n_dims), 0.5 * (dof + square)


@compiled
def draw_weight(rng, square, n_dims, dof):
    """λ of a user, given n_dims numbers of its vector."""
    shape, rate = weight_law(square, n_dims, dof)
    return standard_gamma(rng, shape) / rate
