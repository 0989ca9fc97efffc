"""A move of location for yes-or-no observations: a step δ added to a cluster's mean and to the
latent vectors of its users.

Given a Pólya–Gamma augmentation a mean creeps: where a cluster's answers are all alike, the
augmented likelihood allows steps of about the square root of the log odds, while the likelihood
itself is flat. So the augmentation is integrated out. The users' (M1) and everything else in the
view are the same all along, and the move has no Jacobian, so

    p(δ | rest) ∝ N(μ_k + δ; μ_0, R_0⁻¹) Π_i σ(s_i (o_i + x_iᵀ δ)),

over the observations i of the cluster's users, s_i = ±1 the answer, o_i its log odds. Where users
share a vector (pooling) μ_k is that vector, and the density is the same. δ is drawn by slices along
the columns of L⁻ᵀ, R_0 = L Lᵀ, one after the other: there the prior of each step is a standard
normal about −w_j, w = Lᵀ (μ_k − μ_0), so the width of a slice needs no tuning.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from dualview.numerics.compiling import compiled, inlined
from dualview.numerics.linalg import by_component, cholesky
from dualview.numerics.slice_sampling import sampler

# standard deviations of the prior; where answers tell much, the slice shrinks to them in a few
# steps
_WIDTH = 2.0
_MANY = 1500  # observations, beyond which the move costs as much as a sweep
_SHARE = 0.25  # of the steps that make it then
_REACH = 50  # widths: from a start that is very unlikely a slice has nearly no end


class Locations(NamedTuple):
    """Where clusters are and what pulls them there: z (U,), means μ_k (K, q), μ_0 (q,) and R_0 (q,
    q)."""

    z: Any
    means: Any
    base_mean: Any
    base_precision: Any


class Answers(NamedTuple):
    """Observations sorted by user, those of u from starts[u] to starts[u + 1]: design (N, q), signs
    (N,) of ±1, odds (N,).

    odds are log odds of yes, as they stand.
    """

    starts: Any
    design: Any
    signs: Any
    odds: Any


def is_due(rng: np.random.Generator, n_observations: int) -> bool:
    """Whether a step makes the move: by chance, where there are many observations."""
    return n_observations <= _MANY or rng.random() < _SHARE


@inlined
def log_logistic(x):
    """ln σ(x), with all its digits for any x."""
    return -math.log1p(math.exp(-x)) if x > 0.0 else x - math.log1p(math.exp(x))


@compiled
def log_step_density(step, parameters):
    """Log density of a step t along one direction; parameters: w_j, signed log odds (n,), how much
    t adds to each (n,)."""
    place, odds, slopes = parameters
    total = -0.5 * (place + step) * (place + step)
    for i in range(odds.shape[0]):
        total += log_logistic(odds[i] + step * slopes[i])
    return total


_sample_step = sampler(log_step_density, reach=_REACH)


@compiled
def directions_of(base_factor):
    """The columns of L⁻ᵀ as rows (q, q), L lower."""
    n_dims = base_factor.shape[0]
    directions = np.zeros((n_dims, n_dims))
    for j in range(n_dims):
        for i in range(j, -1, -1):
            rest = 1.0 if i == j else 0.0
            for m in range(i + 1, j + 1):
                rest -= base_factor[m, i] * directions[j, m]
            directions[j, i] = rest / base_factor[i, i]
    return directions


@compiled
def gather(users, answers):
    """Of some users' observations the signed log odds s_i o_i (n,), and the signed design s_i x_i
    (n, q)."""
    n, n_dims = 0, answers.design.shape[1]
    for u in users:
        n += answers.starts[u + 1] - answers.starts[u]
    odds, loads, place = np.empty(n), np.empty((n, n_dims)), 0
    for u in users:
        for i in range(answers.starts[u], answers.starts[u + 1]):
            odds[place] = answers.signs[i] * answers.odds[i]
            for d in range(n_dims):
                loads[place, d] = answers.signs[i] * answers.design[i, d]
            place += 1
    return odds, loads


@compiled
def draw_step(rng, away, base_factor, directions, odds, loads, step):
    """In place on odds, and on step (q,), which was zero: δ of one cluster, by each direction in
    turn; away = μ_k − μ_0."""
    n_dims = away.shape[0]
    slopes = np.empty(odds.shape[0])
    for j in range(n_dims):
        place = 0.0
        for i in range(j, n_dims):
            place += base_factor[i, j] * (away[i] + step[i])
        for i in range(odds.shape[0]):
            slopes[i] = 0.0
            for d in range(j + 1):
                slopes[i] += loads[i, d] * directions[j, d]
        size = _sample_step(rng, (place, odds, slopes), 0.0, _WIDTH)
        for i in range(odds.shape[0]):
            odds[i] += size * slopes[i]
        for d in range(j + 1):
            step[d] += size * directions[j, d]


@compiled
def draw_steps(rng, locations, answers):
    """δ of every cluster, (K, q), one cluster after the other."""
    n_components, n_dims = locations.means.shape
    users, begins = by_component(locations.z, n_components)
    base_factor = cholesky(locations.base_precision)
    directions = directions_of(base_factor)
    steps, away = np.zeros((n_components, n_dims)), np.empty(n_dims)
    for k in range(n_components):
        for i in range(n_dims):
            away[i] = locations.means[k, i] - locations.base_mean[i]
        odds, loads = gather(users[begins[k] : begins[k + 1]], answers)
        draw_step(rng, away, base_factor, directions, odds, loads, steps[k])
    return steps
