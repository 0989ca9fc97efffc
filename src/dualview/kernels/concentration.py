"""The concentration α of the partition prior."""

import math

from dualview.kernels.compiling import compiled
from dualview.kernels.slices import sampler
from dualview.kernels.special import log1pmx, log_gamma, log_gamma_ratio, stirling_remainder
from dualview.kernels.streams import random


@compiled
def log_alpha_density(log_alpha, parameters):
    """Log density of y = ln α, (C9); parameters: K, U.

    (C9) in differences of Stirling's formula, so that no digits are lost at large α.
    Beyond the range of numbers the density is 0.
    """
    if abs(log_alpha) > 700.0:
        return -math.inf
    n_clusters, n_users = parameters
    alpha = math.exp(log_alpha)
    inverse = math.exp(-log_alpha)
    ratio = n_users * inverse
    bend = alpha * log1pmx(ratio)
    density = (n_clusters - n_users - 0.5) * log_alpha - 0.5 * inverse - bend
    density += (0.5 - n_users) * math.log1p(ratio)
    return density + stirling_remainder(alpha) - stirling_remainder(alpha + n_users)


_sample_log_alpha = sampler(log_alpha_density)


@compiled
def draw_alpha(rng, n_clusters, n_users, alpha):
    """α | K, U under the Dirichlet process, (C9), one step from its present value."""
    return math.exp(_sample_log_alpha(rng, (float(n_clusters), float(n_users)), math.log(alpha), 2.0))


@compiled
def draw_table_counts(rng, counts, concentration):
    """Σ_k l_k with l_k = Σ_{i < n_k} Bernoulli(c / (c + i)), c = concentration = α/K: the augmentation of (C10)."""
    total = 0
    for k in range(counts.shape[0]):
        for i in range(counts[k]):
            if random(rng) * (concentration + i) < concentration:
                total += 1
    return total


@compiled
def log_rising(start, n):
    """lnΓ(start + n) − lnΓ(start), with its digits at large start."""
    if start < 1e4:
        return log_gamma(start + n) - log_gamma(start)
    return n * math.log(start) + log_gamma_ratio(start, n)


@compiled
def log_process(counts, alpha):
    """ln p(partition | α) of the Chinese restaurant."""
    total = n_users = 0.0
    for k in range(counts.shape[0]):
        total += math.log(alpha) + log_gamma(float(counts[k]))
        n_users += counts[k]
    return total - log_rising(alpha, n_users)


@compiled
def log_finite(counts, alpha):
    """ln p(labels | α) of K components with a symmetric Dirichlet prior."""
    total = n_users = 0.0
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            total += log_rising(alpha / counts.shape[0], float(counts[k]))
            n_users += counts[k]
    return total - log_rising(alpha, n_users)
