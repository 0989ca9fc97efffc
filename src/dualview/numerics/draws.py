"""Draws from normal and Wishart distributions in canonical parameters, and from weights.

A precision matrix is carried as its upper factor T with S = T Tᵀ: a Wishart draw makes T without
another factorization, and a quadratic form is |Tᵀ x|².
"""

import math

from dualview.numerics.compiling import in_place, inlined
from dualview.numerics.linalg import factorise, solve_lower, solve_lower_transposed
from dualview.numerics.streams import standard_gamma, standard_normal

# A Wishart distribution with hardly more than D − 1 degrees of freedom has draws of any smallness.
# Below this number a diagonal element of Bartlett's factor is 0: squares of it and of its inverse
# would be out of range.
LEAST_ROOT = 1e-140


@in_place
def normal(rng, linear, precision):
    """In place: linear becomes one draw from N(Λ⁻¹ h, Λ⁻¹) with h = linear, Λ = precision; the
    precision is used up."""
    factorise(precision)
    solve_lower(precision, linear)
    for i in range(linear.shape[0]):
        linear[i] += standard_normal(rng)
    solve_lower_transposed(precision, linear)


@in_place
def wishart_factor(rng, dof, inverse_scale_factor, factor):
    """In place: factor becomes upper T with T Tᵀ ~ W(dof, (C Cᵀ)⁻¹), C = inverse_scale_factor
    lower.

    Bartlett's decomposition from the last row upwards: B upper with B_ii² ~ χ²(dof − (D−1−i)), T =
    C⁻ᵀ B.

    With dof close to D − 1 the first diagonal element can be 0 for lack of smaller numbers. A
    component with this precision is wider than any vector and has a density below e⁻³²⁰ everywhere:
    the callers give it no weight, see ``log_root``.
    """
    n = inverse_scale_factor.shape[0]
    for j in range(n):
        root = math.sqrt(2.0 * standard_gamma(rng, 0.5 * (dof - (n - 1 - j))))
        factor[j, j] = root if root >= LEAST_ROOT else 0.0
        for i in range(j):
            factor[i, j] = standard_normal(rng)
            factor[j, i] = 0.0
    for j in range(n):
        for i in range(j, -1, -1):
            rest = factor[i, j]
            for k in range(i + 1, j + 1):
                rest -= inverse_scale_factor[k, i] * factor[k, j]
            factor[i, j] = rest / inverse_scale_factor[i, i]


@inlined
def log_root(root):
    """Logarithm of a diagonal element of a precision's factor; −inf for 0, which ``wishart_factor``
    may draw."""
    return math.log(root) if root != 0.0 else -math.inf


@inlined
def invert_cumulative(threshold, weights):
    """The index at which the sum of the weights up to it exceeds the threshold, or the last with
    any weight; −1 if none has."""
    place = -1
    for i in range(weights.shape[0]):
        if weights[i] > 0.0:
            place = i
            threshold -= weights[i]
            if threshold < 0.0:
                break
    return place
