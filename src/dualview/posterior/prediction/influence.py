"""How much the observations of a fit tell about each other: the dependence of scores that share
users.

Given all other observations, i and j tell about each other g_ij = ln p(y_i, y_j) − ln p(y_i) − ln
p(y_j), their pointwise mutual information: by so much the score of i would be lower without j, and
that of j without i. A sum of leave-one-out scores differs from its expected value by a sum over
observations and one over pairs; Σ g_ij² is the variance of the second.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_MOST = 1000  # observations of which all pairs are looked at
_MOST_LEVERAGE = 0.8  # beyond it draws do not tell how little the other observations know


class Influence(NamedTuple):
    """Two estimates (m, m) of the g_ij of m among n observations, from different draws, with zeros
    on the diagonal.

    Their errors are independent: products of the two are not too large on average, as squares of
    one would be.
    """

    first: Array
    second: Array
    n: int

    @classmethod
    def of_draws(cls, values: Array, leverage: Array | float = 0.0) -> "Influence":
        """From log likelihoods (chain, draw, n): their posterior covariances, to second order.

        Both observations have their part in that posterior, which is narrower for it: leverage
        (n,), of an observation on its own prediction, undoes this as for normal outcomes.
        """
        n = values.shape[2]
        rows = sampled_rows(n)
        scaled = values[..., rows] / (
            1.0 - np.minimum(np.broadcast_to(leverage, n)[rows], _MOST_LEVERAGE)
        )
        first, second = (without_diagonal(covariance_of(half)) for half in halves(scaled))
        return cls(first, second, n)


def sampled_rows(n: int) -> NDArray[np.intp]:
    """Positions of the observations that stand for all n; the same for every fit."""
    return (
        np.arange(n)
        if n <= _MOST
        else np.sort(np.random.default_rng(0).choice(n, _MOST, replace=False))
    )


def halves(values: Array) -> tuple[Array, Array]:
    """Draws (chain, draw, …) of the first and of the second half of every chain, (S, …) each."""
    flat = np.swapaxes(values, 0, 1).reshape(-1, *values.shape[2:])
    return flat[: len(flat) // 2], flat[len(flat) // 2 :]


def covariance_of(draws: Array) -> Array:
    """(m, m), of draws (S, m)."""
    away = draws - draws.mean(axis=0)
    return np.asarray(away.T @ away / max(len(draws) - 1, 1))


def without_diagonal(matrix: Array) -> Array:
    return np.asarray(matrix - np.diag(np.diagonal(matrix)))


def leverages(at_draws: Array, at_mean: Array) -> Array:
    """Effective parameters that each observation uses, (n,): twice the mean difference of its log
    likelihoods (S, n).

    at_draws: at the location of each draw; at_mean: at the mean location. For a normal outcome this
    is the leverage, the precision of the noise × the posterior variance of the location.
    """
    return np.asarray(2.0 * (at_mean - at_draws).mean(axis=0))


def mutual_information(precision: Array, pull: Array) -> Array:
    """g_ij (m, m) of normal outcomes y with a precision matrix K (m, m) given all others, and pull
    K (y − E y), (m,).

    Given all others, i and j have the correlation ρ and standardized values z_i and z_j: g = −ln(1
    − ρ²)/2
    − (ρ² (z_i² + z_j²) − 2 ρ z_i z_j) / (2 (1 − ρ²)).
    """
    off, own = without_diagonal(precision), np.diagonal(precision)
    scale = np.sqrt(np.outer(own, own))
    correlation = -off / scale
    rest = 1.0 - correlation**2
    # z of the row, without column.
    away = (own[None] * pull[:, None] - off * pull[None]) / (scale * np.sqrt(own[None] * rest))
    squares = correlation**2 * (away**2 + away.T**2)
    return np.asarray(
        -0.5 * np.log(rest) - (squares - 2.0 * correlation * away * away.T) / (2.0 * rest)
    )


def shared_variance(one: Influence, other: Influence | None = None) -> float:
    """Variance of a sum of scores that observations owe to each other, Σ g_ij² over i ≠ j; zero
    where its estimate is below.

    other: that of another fit, for the sum of differences of scores; g_ij is then the difference of
    those of the two.
    """
    first, second = (
        (one.first, one.second)
        if other is None
        else (one.first - other.first, one.second - other.second)
    )
    n, m = one.n, len(first)
    return max(float((first * second).sum()) * (n * (n - 1)) / max(m * (m - 1), 1), 0.0)
