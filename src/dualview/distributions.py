"""The distributions of the model in its own parametrization (docs/model.md: N by covariance, W and
G by expectation).

Each says its log density; normal and Wishart take what conjugate updates produce, so nothing is
inverted. Wishart and G also give the expectations that a variational approximation is made of. The
standard normal distribution between two bounds is exact however far out or close together they are.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, log_ndtr, multigammaln, ndtr, ndtri, ndtri_exp

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_HARD = 1e-6  # a smaller share of what is below the upper bound loses too many digits
_SMALLEST = 1e-290
_NARROW = 1e-5  # below it the density is flat between the bounds, to ten digits
_FAR = -1e5  # below it the tail is exponential, to ten digits
_LEAST, _MOST = np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg


def _log_determinant(matrix: Array) -> float:
    return float(2.0 * np.log(np.diagonal(np.linalg.cholesky(matrix))).sum())


@dataclass(frozen=True)
class Normal:
    """N(Λ⁻¹ h, Λ⁻¹) with h = linear, Λ = precision."""

    linear: Array
    precision: Array

    @property
    def mean(self) -> Array:
        return np.asarray(np.linalg.solve(self.precision, self.linear), dtype=float)

    def draw(self, rng: np.random.Generator) -> Array:
        """One draw."""
        factor = np.linalg.cholesky(self.precision)
        half = np.linalg.solve(factor, self.linear)
        return np.asarray(np.linalg.solve(factor.T, half + rng.standard_normal(len(half))))

    def log_density(self, x: Array) -> float:
        deviation = x - self.mean
        quadratic = deviation @ self.precision @ deviation
        return float(
            0.5 * (_log_determinant(self.precision) - len(x) * np.log(2 * np.pi) - quadratic)
        )


@dataclass(frozen=True)
class Wishart:
    """W(dof, inverse_scale⁻¹), expectation dof · inverse_scale⁻¹."""

    dof: float
    inverse_scale: Array

    def log_density(self, x: Array) -> float:
        n_dims = len(x)
        return float(
            0.5 * (self.dof - n_dims - 1) * _log_determinant(x)
            - 0.5 * np.trace(self.inverse_scale @ x)
            + 0.5 * self.dof * (_log_determinant(self.inverse_scale) - n_dims * np.log(2.0))
            - multigammaln(0.5 * self.dof, n_dims)
        )

    @property
    def mean(self) -> Array:
        return np.asarray(
            self.dof * np.linalg.solve(self.inverse_scale, np.eye(len(self.inverse_scale)))
        )

    @property
    def mean_log_determinant(self) -> float:
        """E ln|X|."""
        n_dims = len(self.inverse_scale)
        digammas = digamma(0.5 * (self.dof - np.arange(n_dims))).sum()
        return float(digammas + n_dims * math.log(2.0) - _log_determinant(self.inverse_scale))

    @property
    def entropy(self) -> float:
        """−E ln p(X)."""
        n_dims = len(self.inverse_scale)
        constant = 0.5 * self.dof * (_log_determinant(self.inverse_scale) - n_dims * math.log(2.0))
        constant -= float(multigammaln(0.5 * self.dof, n_dims))
        return (
            -constant
            - 0.5 * (self.dof - n_dims - 1) * self.mean_log_determinant
            + 0.5 * self.dof * n_dims
        )


def wishart_factors(rng: np.random.Generator, dof: Array, inverse_scales: Array) -> Array:
    """T (…, D, D) upper triangular, with each T Tᵀ a draw of W(dof, inverse_scale⁻¹) (Bartlett's
    decomposition); dof (…)."""
    n_dims = inverse_scales.shape[-1]
    noise = np.triu(rng.standard_normal(inverse_scales.shape), 1)
    places = np.arange(n_dims)
    noise[..., places, places] = np.sqrt(rng.chisquare(dof[..., None] - n_dims + 1.0 + places))
    lower = np.linalg.cholesky(inverse_scales)
    return np.asarray(np.triu(np.linalg.solve(np.swapaxes(lower, -1, -2), noise)))


class G(NamedTuple):
    """G(dof, 1/inverse_scale): the one-dimensional Wishart, expectation dof / inverse_scale."""

    dof: float
    inverse_scale: float

    def log_density(self, x: float) -> float:
        half = 0.5 * self.dof
        rate = 0.5 * self.inverse_scale
        return half * math.log(rate) - math.lgamma(half) + (half - 1.0) * math.log(x) - rate * x

    @property
    def mean(self) -> float:
        return self.dof / self.inverse_scale

    @property
    def mean_log(self) -> float:
        """E ln x."""
        return float(digamma(0.5 * self.dof)) - math.log(0.5 * self.inverse_scale)

    @property
    def entropy(self) -> float:
        """−E ln p(x)."""
        half = 0.5 * self.dof
        return (
            half
            - math.log(0.5 * self.inverse_scale)
            + math.lgamma(half)
            + (1.0 - half) * float(digamma(half))
        )

    def draw(self, rng: np.random.Generator) -> float:
        return float(2.0 * rng.standard_gamma(0.5 * self.dof) / self.inverse_scale)


def log_gammas(rng: np.random.Generator, shape: Array) -> Array:
    """Logarithms of gamma draws, which keep their digits where the shape is tiny: Γ(a) = Γ(a + 1)
    U^(1/a)."""
    uniform = np.log1p(-rng.random(shape.shape))
    return np.asarray(np.log(rng.standard_gamma(shape + 1.0)) + uniform / shape)


def log_normal_mass(low: Array, high: Array, width: Array) -> Array:
    """ln(Φ(high) − Φ(low)), which never underflows; width is high − low, which may be below the
    rounding of the two."""
    low, high, _ = _in_lower_half(low, high)
    mass, hard = _masses(low, high)[1:]
    with np.errstate(divide="ignore"):
        found = np.asarray(np.log(mass))
    if hard.any():
        found[hard] = _hard_mass(low[hard], high[hard], np.broadcast_to(width, hard.shape)[hard])
    return found


def normal_quantiles_between(levels: ArrayLike, low: Array, high: Array, width: Array) -> Array:
    """Quantiles of the standard normal distribution between two bounds."""
    levels, low, high, width = np.broadcast_arrays(np.clip(levels, _LEAST, _MOST), low, high, width)
    low, high, flipped = _in_lower_half(low, high)
    levels = np.where(flipped, 1.0 - levels, levels)
    below, mass, hard = _masses(low, high)
    found = np.asarray(ndtri(below + levels * mass))
    if hard.any():
        found[hard] = _hard_quantiles(levels[hard], low[hard], high[hard], width[hard])
    found = np.clip(found, low, high)
    return np.asarray(np.where(flipped, -found, found))


def _in_lower_half(low: Array, high: Array) -> tuple[Array, Array, Mask]:
    """The bounds, mirrored where more of the interval is above zero than below."""
    flipped = np.asarray(low + high > 0.0)
    return np.where(flipped, -high, low), np.where(flipped, -low, high), flipped


def _masses(low: Array, high: Array) -> tuple[Array, Array, Mask]:
    """Φ(low), Φ(high) − Φ(low), and where that is not accurate."""
    below, above = ndtr(low), ndtr(high)
    mass = above - below
    return below, mass, np.asarray((mass < _HARD * above) | (above < _SMALLEST))


def _hard_mass(low: Array, high: Array, width: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        upper, flat = log_ndtr(high), _is_flat(low, high, width)
        wide = upper + np.log1p(-np.exp(log_ndtr(low) - upper))
        far = upper + np.log(-np.expm1(width * (high - 0.5 * width)))
        middle = np.where(flat, 0.5 * low + 0.5 * high, 0.0)
        narrow = np.log(width) - 0.5 * middle**2 - 0.5 * np.log(2.0 * np.pi)
    return np.asarray(np.where(flat, narrow, np.where(high < _FAR, far, wide)))


def _hard_quantiles(levels: Array, low: Array, high: Array, width: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        wide = ndtri_exp(
            np.logaddexp(log_ndtr(low) + np.log1p(-levels), log_ndtr(high) + np.log(levels))
        )
        return np.where(_is_flat(low, high, width), low + levels * width, wide)


def _is_flat(low: Array, high: Array, width: Array) -> Mask:
    return np.asarray(width * (1.0 + np.maximum(np.abs(low), np.abs(high))) < _NARROW)
