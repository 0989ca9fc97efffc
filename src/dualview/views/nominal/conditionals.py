"""The conditional distributions of nominal columns, (C17) and (C18), and their prior (M15).

levels (K, Σ L_j): how many users of each component have each level; missing cells are in no count.
"""

import math
from typing import NamedTuple

import numpy as np

from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.slice_sampling import sampler
from dualview.numerics.special import log_gamma, log_rising
from dualview.numerics.streams import random, standard_gamma
from dualview.views.base import Array

_WIDTH = 1.0  # of a slice of ln γ


class Counts(NamedTuple):
    """What users say about the components, summed up."""

    levels: Array


class _Column(NamedTuple):
    """One column's levels and shares, and what users have of it."""

    levels: Array
    shares: Array


@compiled
def count_levels(z, first, end, codes, starts, n_components):
    """How many users from first to end have each level, by component: (K, Σ L_j)."""
    levels = np.zeros((n_components, starts[starts.shape[0] - 1]))
    for j in range(codes.shape[0]):
        for u in range(first, end):
            if codes[j, u] >= 0:
                levels[z[u], starts[j] + codes[j, u]] += 1.0
    return levels


@in_place
def join_counts(sums, more):
    """In place on the first: the counts of two parts of the users."""
    for k in range(sums.levels.shape[0]):
        for i in range(sums.levels.shape[1]):
            sums.levels[k, i] += more.levels[k, i]


@in_place
def log_evidence(levels, shares, concentration):
    """ln of the probability of a component's levels in one column, θ integrated out."""
    total, n = 0.0, 0.0
    for i in range(shares.shape[0]):
        if levels[i] > 0.0:
            n += levels[i]
            total += log_rising(concentration * shares[i], levels[i])
    return total - log_rising(concentration, n) if n > 0.0 else total


@in_place
def log_prior(log_concentration, n_levels):
    """ln p(ln γ) up to a constant: L/γ ~ G(1, 1)."""
    return -0.5 * log_concentration - 0.5 * n_levels * math.exp(-log_concentration)


@in_place
def log_concentration_density(value, column):
    """ln p(ln γ | levels) up to a constant, (C18)."""
    concentration = math.exp(value)
    if not 0.0 < concentration < math.inf:
        return -math.inf
    total = log_prior(value, column.shares.shape[0])
    for k in range(column.levels.shape[0]):
        total += log_evidence(column.levels[k], column.shares, concentration)
    return total


_slice = sampler(log_concentration_density)


@in_place
def draw_concentrations(rng, levels, starts, shares, concentrations):
    """In place: γ of every column by slice sampling of its logarithm."""
    for j in range(concentrations.shape[0]):
        column = _Column(levels[:, starts[j] : starts[j + 1]], shares[starts[j] : starts[j + 1]])
        concentrations[j] = math.exp(_slice(rng, column, math.log(concentrations[j]), _WIDTH))


@in_place
def log_standard_gamma(rng, shape):
    """ln of a gamma draw: for small shapes the draw itself would be 0."""
    if shape >= 1.0:
        return math.log(standard_gamma(rng, shape))
    return math.log(standard_gamma(rng, shape + 1.0)) + math.log(1.0 - random(rng)) / shape


@in_place
def draw_shares(rng, counts, starts, shares, concentrations, logs):
    """In place: logs (Σ L_j,) become ln θ of one component given its counts, (C17)."""
    for j in range(concentrations.shape[0]):
        top = -math.inf
        for i in range(starts[j], starts[j + 1]):
            logs[i] = log_standard_gamma(rng, concentrations[j] * shares[i] + counts[i])
            top = max(top, logs[i])
        total = 0.0
        for i in range(starts[j], starts[j + 1]):
            total += math.exp(logs[i] - top)
        for i in range(starts[j], starts[j + 1]):
            logs[i] -= top + math.log(total)


@in_place
def log_shares(logs, starts, shares, concentrations):
    """ln of the Dirichlet density of one component's θ."""
    total = 0.0
    for j in range(concentrations.shape[0]):
        total += log_gamma(concentrations[j])
        for i in range(starts[j], starts[j + 1]):
            weight = concentrations[j] * shares[i]
            total += (weight - 1.0) * logs[i] - log_gamma(weight)
    return total


@in_place
def log_concentrations(concentrations, starts):
    """ln of the prior density of the γ, up to a constant."""
    total = 0.0
    for j in range(concentrations.shape[0]):
        value = math.log(concentrations[j])
        total += log_prior(value, starts[j + 1] - starts[j]) - value
    return total
