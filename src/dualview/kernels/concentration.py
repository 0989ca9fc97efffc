"""The concentration α of the partition prior."""

import math

import numpy as np

from dualview.kernels.ars import sampler
from dualview.kernels.compiling import compiled
from dualview.kernels.special import log1pmx, log_minus_digamma, stirling_remainder


@compiled
def log_alpha_density(log_alpha, parameters):
    """Log density and derivative of y = ln α, (C9); parameters: K, U.

    (C9) in differences of Stirling's formula, so that no digits are lost at large α.
    Beyond the range of numbers the density is 0.
    """
    if abs(log_alpha) > 700.0:
        return -math.inf, -math.copysign(math.inf, log_alpha)
    n_clusters, n_users = parameters[0], parameters[1]
    alpha = math.exp(log_alpha)
    inverse = math.exp(-log_alpha)
    ratio = n_users * inverse
    bend = alpha * log1pmx(ratio)
    density = (n_clusters - n_users - 0.5) * log_alpha - 0.5 * inverse - bend
    density += (0.5 - n_users) * math.log1p(ratio)
    density += stirling_remainder(alpha) - stirling_remainder(alpha + n_users)
    slope = n_clusters - n_users - 0.5 + 0.5 * inverse - bend
    slope -= alpha * (log_minus_digamma(alpha) - log_minus_digamma(alpha + n_users))
    return density, slope


_sample_log_alpha = sampler(log_alpha_density)


@compiled
def draw_alpha(rng, n_clusters, n_users, alpha):
    """α | K, U under the Dirichlet process, (C9), by adaptive rejection from its present value."""
    parameters = np.array([float(n_clusters), float(n_users)])
    return math.exp(_sample_log_alpha(rng, parameters, math.log(alpha), -math.inf))


@compiled
def draw_table_counts(rng, counts, concentration):
    """Σ_k l_k with l_k = Σ_{i < n_k} Bernoulli(c / (c + i)), c = concentration = α/K: the augmentation of (C10)."""
    total = 0
    for k in range(counts.shape[0]):
        for i in range(counts[k]):
            if rng.random() * (concentration + i) < concentration:
                total += 1
    return total
