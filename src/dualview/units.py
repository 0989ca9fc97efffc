"""Transformations between the user's units and working units.

Each Gaussian view works in w = F⁻¹(x − m) with F Fᵀ = Σ of its own constants, where the constants
are (0, I). Where Σ is singular the columns of F span its range and w has fewer dimensions than x.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag, solve_triangular
from sklearn.covariance import ledoit_wolf_shrinkage

from dualview.errors import InputError

Array = NDArray[np.float64]

_RANK_TOLERANCE = 1e-10  # of the correlation matrix's eigenvalues


def _ledoit_wolf(standard: Array) -> float:
    """The share that is closest to the true correlations in expected squares (Ledoit and Wolf
    2004)."""
    return float(ledoit_wolf_shrinkage(standard, assume_centered=True))


# By name, how far correlations between columns are shrunk towards 0, given the standardized
# columns.
SHRINKAGES: dict[str | None, Callable[[Array], float]] = {
    None: lambda _: 0.0,
    "shrunk": _ledoit_wolf,
    "diagonal": lambda _: 1.0,
}


STUDENT = "student"  # how priors and descriptions of models call clusters with heavy tails


class GaussianPrior:
    """The constants (m, Σ) of a view, in the user's units.

    Parameters
    ----------
    mean : float or array (D,)
        m of (M4).
    covariance : float or array (D, D)
        Σ of (M4) to (M6), symmetric and positive definite. With D = 1 a number: the variance.
    tails : None or "student"
        Of features: "student" for clusters with heavy tails, t distributions in place of normal
        ones.

    Examples
    --------
    >>> GaussianPrior(0.0, 25.0)
    GaussianPrior(mean=[0.0], covariance=[[25.0]])
    """

    mean: Array
    covariance: Array
    tails: str | None

    def __init__(self, mean: ArrayLike, covariance: ArrayLike, tails: str | None = None) -> None:
        if tails not in (None, STUDENT):
            raise InputError(f'tails must be None or "{STUDENT}"; got {tails!r}.')
        self.tails = tails
        try:
            self.mean = np.atleast_1d(np.asarray(mean, dtype=float))
            self.covariance = np.atleast_2d(np.asarray(covariance, dtype=float))
        except (TypeError, ValueError) as error:
            raise InputError(
                f"GaussianPrior takes numbers; got {mean!r} and {covariance!r}."
            ) from error
        n = len(self.mean)
        if self.mean.ndim != 1 or self.covariance.shape != (n, n):
            raise InputError(
                f"GaussianPrior takes a mean of shape (D,) and a covariance of shape (D, D); got "
                f"{self.mean.shape} and {self.covariance.shape}."
            )
        if not (np.isfinite(self.mean).all() and np.isfinite(self.covariance).all()):
            raise InputError(
                "GaussianPrior takes finite numbers; the mean or the covariance has NaN or inf."
            )
        sizes = np.sqrt(np.abs(np.diagonal(self.covariance)))
        if (np.abs(self.covariance - self.covariance.T) > 1e-8 * np.outer(sizes, sizes)).any():
            raise InputError("The covariance of a GaussianPrior must be symmetric.")
        try:
            np.linalg.cholesky(self.covariance)
        except np.linalg.LinAlgError:
            smallest = np.linalg.eigvalsh(self.covariance)[0]
            raise InputError(
                "The covariance of a GaussianPrior must be positive definite; its smallest "
                f"eigenvalue is {smallest:.3g}."
            ) from None

    def __repr__(self) -> str:
        tails = "" if self.tails is None else f", tails={self.tails!r}"
        numbers = f"mean={self.mean.tolist()}, covariance={self.covariance.tolist()}"
        return f"GaussianPrior({numbers}{tails})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GaussianPrior):
            return NotImplemented
        same = np.array_equal(self.mean, other.mean) and self.tails == other.tails
        return same and np.array_equal(self.covariance, other.covariance)

    __hash__ = None  # type: ignore[assignment]

    def block(self, columns: slice) -> "GaussianPrior":
        """The constants of some of the columns."""
        return GaussianPrior(self.mean[columns], self.covariance[columns, columns], self.tails)

    def check_size(self, n_dims: int, name: str) -> None:
        """Raise unless the prior has n_dims dimensions, and where it has tails that only features
        have."""
        if self.tails is not None and name != "feature_prior":
            raise InputError(
                f'tails="{self.tails}" is for features, feature_prior=GaussianPrior(...); leave '
                f"tails out of {name}."
            )
        if len(self.mean) != n_dims:
            raise InputError(f"{name} must have {n_dims} dimension(s); got {len(self.mean)}.")


def tails_of(prior: GaussianPrior | str | None) -> str | None:
    """The tails of clusters that a prior of features asks for: "student", or None for normal
    ones."""
    if isinstance(prior, GaussianPrior):
        return prior.tails
    return STUDENT if prior is not None and prior.split("-")[0] == STUDENT else None


def constants_of(prior: GaussianPrior | str | None) -> GaussianPrior | str | None:
    """The constants of a prior of features without its tails: as given, or a name in
    ``SHRINKAGES``."""
    if prior is None or isinstance(prior, GaussianPrior):
        return prior
    return None if prior == STUDENT else prior.removeprefix(f"{STUDENT}-")


def _standardized(x: Array) -> tuple[Array, Array, Array, Array]:
    """Means (D,) and standard deviations (D,) of x (U, D), its columns by them, their correlations
    (D, D).

    A column that varies by no more than rounding has a standard deviation of 0.
    """
    mean = x.mean(axis=0)
    centered = x - mean
    scale = centered.std(axis=0, ddof=1)
    varies = scale > _rounding(mean, np.abs(x).max(axis=0))
    scale = np.where(varies, scale, 0.0)
    standard = np.where(varies, centered / np.where(varies, scale, 1.0), 0.0)
    return mean, scale, standard, standard.T @ standard / (len(x) - 1)


def _rounding(mean: Array, largest: Array) -> Array:
    """Standard deviations that are no more than rounding, for columns with these means and largest
    absolute values."""
    return np.maximum(1e-14 * np.maximum(np.abs(mean), largest), np.finfo(float).tiny)


def _share(standard: Array, scale: Array, shrinkage: str | None) -> float:
    varies = scale > 0
    return SHRINKAGES[shrinkage](standard[:, varies]) if varies.any() else 0.0


def shrinkage_share(x: Array, shrinkage: str | None) -> float:
    """By how much correlations between the columns of a sample x (U, D) are taken towards 0, by a
    name in ``SHRINKAGES``."""
    _, scale, standard, _ = _standardized(x)
    return _share(standard, scale, shrinkage)


def sample_moments(x: Array) -> tuple[Array, Array]:
    """Mean (D,) and covariance (D, D) of a sample x (U, D): those of ``Whitening.of_data``, to the
    last bit."""
    mean, scale, _, correlation = _standardized(x)
    return mean, correlation * np.outer(scale, scale)


@dataclass(frozen=True)
class Whitening:
    """The affine map x = m + F w; factor F is (D, r) with independent columns, inverse F⁺ is (r,
    D)."""

    mean: Array
    factor: Array
    inverse: Array

    @classmethod
    def of(cls, prior: GaussianPrior) -> "Whitening":
        """By the Cholesky factor: moving the data or scaling a column leaves w as it is."""
        factor = np.asarray(np.linalg.cholesky(prior.covariance), dtype=float)
        inverse = solve_triangular(factor, np.eye(len(factor)), lower=True)
        return cls(prior.mean, factor, inverse)

    @classmethod
    def joined(cls, parts: Sequence["Whitening"]) -> "Whitening":
        """Of vectors side by side, each in its own units."""
        mean = np.concatenate([part.mean for part in parts])
        return cls(
            mean,
            block_diag(*(part.factor for part in parts)),
            block_diag(*(part.inverse for part in parts)),
        )

    def with_others(self, n: int) -> "Whitening":
        """The same for vectors with n more numbers, which stay as they are."""
        mean = np.concatenate([self.mean, np.zeros(n)])
        return Whitening(
            mean, block_diag(self.factor, np.eye(n)), block_diag(self.inverse, np.eye(n))
        )

    @classmethod
    def of_data(cls, x: Array, shrinkage: str | None = None) -> "Whitening":
        """From sample mean and covariance; onto the space the rows span where the covariance is
        singular.

        shrinkage, a name in ``SHRINKAGES``, takes correlations between columns towards 0. It does
        not widen the space: across it the posterior would be improper (docs/model.md, appendix B).
        """
        mean, scale, standard, correlation = _standardized(x)
        return cls._of_correlations(mean, scale, correlation, _share(standard, scale, shrinkage))

    @classmethod
    def of_moments(
        cls, n: int, mean: Array, scatter: Array, largest: Array, share: float = 0.0
    ) -> "Whitening":
        """The same from moments of n vectors: mean (D,), sums of squared deviations (D, D), largest
        absolute values (D,).

        share: by which correlations between columns are taken towards 0, see ``shrinkage_share``.
        """
        scale = np.sqrt(np.diagonal(scatter) / (n - 1))
        scale = np.where(scale > _rounding(mean, largest), scale, 0.0)
        safe = np.where(scale > 0, scale, 1.0)
        correlation = np.where(
            np.outer(scale, scale) > 0, scatter / (n - 1) / np.outer(safe, safe), 0.0
        )
        return cls._of_correlations(mean, scale, correlation, share)

    @classmethod
    def _of_correlations(
        cls, mean: Array, scale: Array, correlation: Array, share: float
    ) -> "Whitening":
        """From means, standard deviations and correlations, these taken towards 0 by a share."""
        varies = scale > 0
        safe = np.where(varies, scale, 1.0)
        values, vectors = np.linalg.eigh(correlation)
        kept = values > _RANK_TOLERANCE * max(values[-1], 1.0)
        if kept.all():
            correlation = (1.0 - share) * correlation + share * np.eye(len(correlation))
            return cls.of(GaussianPrior(mean, correlation * np.outer(scale, scale)))
        root = np.sqrt((1.0 - share) * values[kept] + share)
        factor = safe[:, None] * vectors[:, kept] * root
        inverse = (vectors[:, kept] / root).T * np.where(varies, 1.0 / safe, 0.0)
        return cls(mean, factor, inverse)

    @staticmethod
    def shrunk(covariance: Array, x: Array, shrinkage: str) -> Array:
        """A covariance with correlations taken towards 0, by a name in ``SHRINKAGES``; x (U, D): a
        complete table of it."""
        scale = np.sqrt(np.diag(covariance))
        share = SHRINKAGES[shrinkage]((x - x.mean(axis=0)) / scale)
        return np.asarray((1.0 - share) * covariance + share * np.diag(scale**2))

    @property
    def n_dims(self) -> int:
        """Dimensions in working units."""
        return int(self.factor.shape[1])

    @property
    def prior(self) -> tuple[Array, Array]:
        """(m, Σ) in the user's units."""
        return self.mean, self.factor @ self.factor.T

    @property
    def log_volume(self) -> float:
        """ln of the volume in the user's units of a unit of volume in working units: (ln |Fᵀ F|)/2.

        Where F has fewer columns than rows it is the volume inside the space that they span.
        """
        return float(np.log(np.linalg.svd(self.factor, compute_uv=False)).sum())

    def to_working(self, x: Array) -> Array:
        """w of vectors x (…, D)."""
        return (x - self.mean) @ self.inverse.T

    def vectors(self, w: Any) -> Array:
        """Vectors (…, D) of w (…, r)."""
        return np.asarray(self.mean + w @ self.factor.T)

    def covariances(self, w: Any) -> Array:
        """Covariances (…, D, D) of covariances (…, r, r)."""
        return np.asarray(self.factor @ w @ self.factor.T)

    def precisions(self, w: Any) -> Array:
        """Precisions (…, D, D) of precisions (…, r, r)."""
        return np.asarray(self.inverse.T @ w @ self.inverse)
