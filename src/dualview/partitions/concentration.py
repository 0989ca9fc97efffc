"""The concentration α of the partition prior, and its prior."""

import math
from typing import NamedTuple

from dualview.numerics.compiling import compiled
from dualview.numerics.slice_sampling import sampler
from dualview.numerics.special import log1pmx, log_gamma, log_rising, stirling_remainder
from dualview.numerics.streams import random


class AlphaPrior(NamedTuple):
    """p(α) = exp(log_constant) α^{power − 1} e^{−rate α − inverse_rate/α}: a generalized inverse
    Gaussian distribution.

    inverse_rate = 0 is a gamma, rate = 0 an inverse gamma distribution. The paper's prior, 1/α ~
    G(1, 1), has power −1/2, rate 0 and inverse_rate 1/2. An α that is known is not learned: its
    powers and rates are those of the constant 1.
    """

    power: float
    rate: float
    inverse_rate: float
    log_constant: float
    learned: bool


@compiled
def log_alpha_prior(alpha, prior):
    """ln p(α); 0 for an α that is known."""
    log_power = (prior.power - 1.0) * math.log(alpha)
    return prior.log_constant + log_power - prior.inverse_rate / alpha - prior.rate * alpha


@compiled
def log_alpha_density(log_alpha, parameters):
    """Log density of y = ln α, (C9) with the prior's factor; parameters: K, U, the prior.

    (C9) in differences of Stirling's formula, so that no digits are lost at large α. The prior adds
    power · y − rate · e^y − inverse_rate · e^{−y}. Beyond the range of numbers the density is 0.
    """
    if abs(log_alpha) > 700.0:
        return -math.inf
    n_clusters, n_users, prior = parameters
    alpha = math.exp(log_alpha)
    inverse = math.exp(-log_alpha)
    ratio = n_users * inverse
    bend = alpha * log1pmx(ratio)
    density = (
        (n_clusters - n_users + prior.power) * log_alpha
        - prior.inverse_rate * inverse
        - bend
        - prior.rate * alpha
    )
    density += (0.5 - n_users) * math.log1p(ratio)
    return density + stirling_remainder(alpha) - stirling_remainder(alpha + n_users)


_sample_log_alpha = sampler(log_alpha_density)


@compiled
def draw_alpha(rng, n_clusters, n_users, alpha, prior):
    """α | K, U under the Dirichlet process, (C9), one step from its present value; a known α
    stays."""
    if not prior.learned:
        return alpha
    return math.exp(
        _sample_log_alpha(rng, (float(n_clusters), float(n_users), prior), math.log(alpha), 2.0)
    )


@compiled
def draw_table_counts(rng, counts, concentration):
    """Σ_k l_k with l_k = Σ_{i < n_k} Bernoulli(c / (c + i)), c = concentration = α/K: the
    augmentation of (C10)."""
    total = 0
    for k in range(counts.shape[0]):
        for i in range(counts[k]):
            if random(rng) * (concentration + i) < concentration:
                total += 1
    return total


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
