"""New clusters, without users of the fit: the distribution of their first vector, with mean and
precision integrated out.

A cluster from the base has μ ~ N(μ_0, R_0⁻¹) and S ~ W(β, (β W_0)⁻¹), (M2) and (M3). Given μ its
first vector is multivariate t, a normal of random scale, so that all that is left of μ and S is one
number g:

    x | g ~ N(μ_0, (β/g) W_0 + R_0⁻¹),   g ~ χ²(β − D + 1)

The axes A make both matrices diagonal: R_0⁻¹ = A Aᵀ and W_0 = A diag(λ) Aᵀ. Scales are kept as
logarithms, because g is smaller than the smallest floating-point number now and then when β is
close to D − 1. Working units throughout. N draws of the posterior have m fresh clusters each; rows
(N m,) are sorted by draw.

With heavy tails, (M19), each row also has the weight λ ~ Gamma(ν/2, ν/2) of its first user, and g λ
stands for g.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, gammaln

from dualview.numerics.draws import wishart_factor
from dualview.numerics.streams import stream_of
from dualview.views.base import Components
from dualview.views.features import ClusterRows, Fitted

Array = NDArray[np.float64]

NO_TAILS = np.empty(0)  # ν of draws without heavy tails
_LOG_TINY = -600.0  # below it the distribution function of a χ² is a power law to all digits
_MOST = 1e300  # variances beyond the range of floating-point numbers are kept at its edge


class Bases(NamedTuple):
    """μ_0 (N, D), R_0 and W_0 (N, D, D) and β (N,) of a Gaussian view in N draws; ν (N,), none
    without heavy tails."""

    means: Array
    precisions: Array
    covariances: Array
    dofs: Array
    tail_dofs: Array = NO_TAILS


class FreshClusters:
    """m clusters from the base of each draw, as a first vector sees them."""

    def __init__(self, rng: np.random.Generator, base: Bases, n_fresh: int) -> None:
        self.base = base
        n_draws, n_dims = base.means.shape
        self.draw = np.repeat(np.arange(n_draws), n_fresh)
        log_g = log_chi_squares(rng, base.dofs - (n_dims - 1), n_fresh).ravel()
        self._log_scale = np.log(base.dofs)[self.draw] - log_g
        self._log_weights = np.zeros(len(self.draw))
        if len(base.tail_dofs):
            self._log_weights = log_chi_squares(rng, base.tail_dofs, n_fresh).ravel()
            self._log_weights -= np.log(base.tail_dofs)[self.draw]
            self._log_scale -= self._log_weights
        precision_roots = _roots(base.precisions)
        # Singular values keep twice the digits that eigenvalues of the product would.
        _, ratios, rotation = np.linalg.svd(
            np.swapaxes(_roots(base.covariances), -1, -2) @ precision_roots
        )
        self._log_ratios = 2.0 * np.log(np.maximum(ratios, np.finfo(float).tiny))
        self._to_axes = rotation @ np.swapaxes(precision_roots, -1, -2)
        self._log_volume = -np.linalg.slogdet(precision_roots)[1]

    @cached_property
    def _log_variances(self) -> Array:
        """ln(1 + λ β/g): variances of the first vector along the axes, (N m, D)."""
        return np.asarray(np.logaddexp(0.0, self._log_ratios[self.draw] + self._log_scale[:, None]))

    @cached_property
    def _heights(self) -> Array:
        n_dims = self.base.means.shape[1]
        heights = -0.5 * self._log_variances.sum(axis=1) - self._log_volume[self.draw]
        return np.asarray(heights - 0.5 * n_dims * np.log(2 * np.pi))

    @cached_property
    def _shrinking(self) -> Array:
        return np.exp(-self._log_variances)

    def log_density(self, x: Array) -> Array:
        """ln p(x | row) of one vector x (D,), (N m,)."""
        standard = (self._to_axes @ (x - self.base.means)[..., None])[..., 0]
        squares = (standard**2)[self.draw] * self._shrinking
        return np.asarray(self._heights - 0.5 * squares.sum(axis=1))

    @cached_property
    def _axes(self) -> Array:
        n_dims = self.base.means.shape[1]
        return np.asarray(
            np.linalg.solve(self._to_axes, np.broadcast_to(np.eye(n_dims), self._to_axes.shape)),
            dtype=float,
        )

    @cached_property
    def roots(self) -> Array:
        """A square root of the covariance of each row's first vector, (N m, D, D)."""
        return self.roots_of(np.arange(len(self.draw)))

    def roots_of(self, rows: NDArray[np.intp]) -> Array:
        """Those of some rows, (rows, D, D)."""
        sds = np.exp(np.minimum(0.5 * self._log_variances[rows], 0.5 * np.log(_MOST)))
        return np.asarray(self._axes[self.draw[rows]] * sds[:, None, :])

    def opened(self, rng: np.random.Generator, rows: NDArray[np.intp], x: Array) -> Components:
        """Clusters whose first vectors are x, (D,) or (rows, D): μ given x and g, then S given x
        and μ."""
        draw = self.draw[rows]
        base_means = self.base.means[draw]
        standard = (self._to_axes[draw] @ (x - base_means)[..., None])[..., 0]
        log_variances = self._log_variances[
            rows
        ]  # ln(1 + r) along each axis, where μ | x ~ N(x/(1 + r), r/(1 + r))
        away = standard * np.exp(-log_variances)
        away += np.sqrt(-np.expm1(-log_variances)) * rng.standard_normal(standard.shape)
        means = base_means + (self._axes[draw] @ away[..., None])[..., 0]
        roots = np.exp(0.5 * self._log_weights[rows])
        return Components(means, self._precision_factors(rng, draw, roots[:, None] * (x - means)))

    def _precision_factors(
        self, rng: np.random.Generator, draw: NDArray[np.intp], rest: Array
    ) -> Array:
        """Factors of S ~ W(β + 1, [β W_0 + rest restᵀ]⁻¹), (C1) with one vector; rest: √λ (x −
        μ)."""
        dofs = self.base.dofs[draw]
        scatters = rest[:, :, None] * rest[:, None, :]
        inverse_scales = np.linalg.cholesky(
            dofs[:, None, None] * self.base.covariances[draw] + scatters
        )
        factors = np.empty_like(inverse_scales)
        stream = stream_of(rng)
        for dof, inverse_scale, factor in zip(dofs, inverse_scales, factors, strict=True):
            wishart_factor(stream, dof + 1.0, inverse_scale, factor)
        return factors


class GaussianClusters(NamedTuple):
    """Components of the rows that the draws have, and the fresh ones where a cluster can be
    opened."""

    known: Components
    fresh: FreshClusters | None

    @classmethod
    def of(
        cls,
        rng: np.random.Generator,
        draws: Fitted,
        view: str,
        rows: ClusterRows,
        block: tuple[int, slice] | None = None,
        tail_dofs: Array = NO_TAILS,
    ) -> "GaussianClusters":
        """Those of a Gaussian view, by its name. block: the number and the dimensions of one of its
        independent blocks. tail_dofs (N,): ν of every draw, none without heavy tails."""
        own = slice(None) if block is None else block[1]
        known = components_at(draws, view, rows.component[rows.known], own)
        if not rows.n_fresh:
            return cls(known, None)
        base = draws.base(view, ("base_mean", "base_precision", "base_covariance", "base_dof"))
        mean, precision, covariance, dof = base.values()
        if block is not None:
            mean, dof = mean[:, own], dof[:, block[0]]
            precision, covariance = precision[:, own, own], covariance[:, own, own]
        bases = Bases(mean, precision, covariance, dof, tail_dofs)
        return cls(known, FreshClusters(rng, bases, rows.n_fresh))


def components_at(
    draws: Fitted, view: str, rows: NDArray[Any] | slice, own: slice = slice(None)
) -> Components:
    """Means (…, D) and precision factors (…, D, D) of rows (…) of the table of components."""
    means, factors = (draws.components[f"{view}.{part}"] for part in ("means", "factors"))
    return Components(
        *map(np.ascontiguousarray, (means[..., own][rows], factors[..., own, own][rows]))
    )


def _roots(matrices: Array) -> Array:
    """B with B Bᵀ equal to each positive definite matrix, which rounding may have made singular."""
    values, vectors = np.linalg.eigh(matrices)
    least = np.finfo(float).eps * values[..., -1:]
    return np.asarray(vectors * np.sqrt(np.maximum(values, least))[..., None, :])


def log_chi_squares(rng: np.random.Generator, dofs: Array, n: int) -> Array:
    """ln of n draws of χ²(dof) for each dof, (N, n): one in each n-th of its probability, in random
    order.

    Each alone has its distribution, so that averages are unbiased; together they cover it evenly.
    """
    levels = (
        rng.permuted(np.tile(np.arange(n), (len(dofs), 1)), axis=1) + rng.random((len(dofs), n))
    ) / n
    levels = np.clip(levels, np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg)
    shapes = 0.5 * dofs[:, None]
    log_small = (np.log(levels) + gammaln(shapes + 1.0)) / shapes
    usual = gammaincinv(shapes, levels)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(2.0) + np.where(log_small < _LOG_TINY, log_small, np.log(usual)))
