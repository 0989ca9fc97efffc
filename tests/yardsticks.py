"""What the tests of single functions measure with: many-digit gamma functions, distribution
functions from densities, z-scores.

A test of randomness fails beyond LIMIT standard errors, or at the same probability of chance where
it has a p-value.
"""

from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb

import numba
import numpy as np
from scipy.stats import chisquare, kstest, norm

LIMIT = 4.5
RARE = 2 * norm.sf(LIMIT)
EPSILON = np.finfo(float).eps
COMPILED = not numba.config.DISABLE_JIT
N_DRAWS = 3000 if COMPILED else 150

DIGITS = 90
PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510"
    "582097494459230781640628620899862803482534211706798"
)


def python_of(kernel):
    """A compiled function as plain Python."""
    return getattr(kernel, "py_func", kernel)


def leaves(record):
    """The arrays and numbers of a record, those of records inside it in their places."""
    return (
        [leaf for part in record for leaf in leaves(part)]
        if isinstance(record, tuple)
        else [record]
    )


def _bernoulli(n):
    """The Bernoulli numbers B_0 .. B_n."""
    numbers = [Fraction(1)]
    for m in range(1, n + 1):
        numbers.append(-sum(comb(m + 1, k) * numbers[k] for k in range(m)) / (m + 1))
    return numbers


BERNOULLI = _bernoulli(60)


def precise_log_gamma(x):
    """ln Γ(x) for x > 0, to about 70 digits."""
    with localcontext(prec=DIGITS):
        x, product = Decimal(x), Decimal(1)
        while x < 60:
            product *= x
            x += 1
        total = (x - Decimal("0.5")) * x.ln() - x + (2 * PI).ln() / 2 - product.ln()
        for n in range(2, 61, 2):
            total += _decimal(BERNOULLI[n]) / (n * (n - 1) * x ** (n - 1))
        return total


def precise_digamma(x):
    """ψ(x) for x > 0, to about 70 digits."""
    with localcontext(prec=DIGITS):
        x, recurrence = Decimal(x), Decimal(0)
        while x < 60:
            recurrence += 1 / x
            x += 1
        total = x.ln() - 1 / (2 * x) - recurrence
        for n in range(2, 61, 2):
            total -= _decimal(BERNOULLI[n]) / (n * x**n)
        return total


def _decimal(fraction):
    return Decimal(fraction.numerator) / Decimal(fraction.denominator)


def precise(function):
    """The function computed with many digits and rounded once at the end."""

    def rounded(*arguments):
        with localcontext(prec=DIGITS):
            result = function(*map(Decimal, arguments))
            return tuple(map(float, result)) if isinstance(result, tuple) else float(result)

    return rounded


def distribution_function(log_density, low, high, points=4001):
    """The distribution function of an unnormalised log density, by trapezoids on a grid that closes
    in on the mass."""
    for _ in range(5):
        grid = np.linspace(low, high, points)
        values = log_density(grid)
        inside = np.flatnonzero(values > values.max() - 40)
        low, high = grid[max(inside[0] - 1, 0)], grid[min(inside[-1] + 1, points - 1)]
    density = np.exp(values - values.max())
    cumulative = np.append(0.0, np.cumsum(density[1:] + density[:-1]))
    return lambda x: np.interp(x, grid, cumulative / cumulative[-1])


def quantiles(rng, cdf, low, high, size):
    """Draws from a distribution function by inversion on a grid."""
    grid = np.linspace(low, high, 200_001)
    return np.interp(rng.random(size), cdf(grid), grid)


def check_law(draws, cdf, *arguments):
    """Independent draws follow the distribution function."""
    result = kstest(draws, cdf, args=arguments)
    assert result.pvalue > RARE, (
        f"KS distance {result.statistic:.4f} of {len(draws)} draws, p = {result.pvalue:.2g}"
    )


def check_counts(counts, probabilities):
    """How often each case came up fits its probability; rare cases are taken together."""
    expected = counts.sum() * np.asarray(probabilities)
    common = expected >= 10
    observed = np.append(counts[common], counts[~common].sum())
    wanted = np.append(expected[common], expected[~common].sum())
    if wanted[-1] < 1e-9 * counts.sum():
        assert observed[-1] == 0
        observed, wanted = observed[:-1], wanted[:-1]
    elif wanted[-1] < 10:
        observed, wanted = (
            np.append(observed[:-2], observed[-2:].sum()),
            np.append(wanted[:-2], wanted[-2:].sum()),
        )
    if len(wanted) > 1:
        assert chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > RARE


def check_mean(draws, expected):
    """The means of independent draws (N, ...) are as expected."""
    draws = np.asarray(draws, dtype=float)
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    scores = (draws.mean(axis=0) - expected) / error
    assert np.abs(scores).max() < LIMIT, f"z = {scores}"


def check_same_means(draws, others):
    """Two sets of independent draws (N, ...) have the same means."""
    error = np.sqrt(
        np.var(draws, axis=0, ddof=1) / len(draws) + np.var(others, axis=0, ddof=1) / len(others)
    )
    scores = (np.mean(draws, axis=0) - np.mean(others, axis=0)) / error
    assert np.abs(scores).max() < LIMIT, f"z = {scores}"


def check_constant(values, magnitude, condition=1.0):
    """All values are equal up to the rounding of numbers of this magnitude."""
    spread = np.max(values) - np.min(values)
    assert spread <= 1e3 * EPSILON * condition * max(magnitude, 1.0), (
        f"spread {spread:.3g} at magnitude {magnitude:.3g}"
    )


def positive_definite(rng, n_dims, spread=2):
    """A random well-conditioned covariance-like matrix."""
    sample = rng.standard_normal((n_dims, n_dims + spread * n_dims))
    return sample @ sample.T / sample.shape[1] + 0.05 * np.eye(n_dims)


def upper_factor(precision):
    """Upper T with T Tᵀ = precision, by the Cholesky factor of the reversed matrix."""
    return np.linalg.cholesky(precision[..., ::-1, ::-1])[..., ::-1, ::-1].copy()
