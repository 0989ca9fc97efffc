"""Predictive distributions: mixtures over the draws of a posterior and what each draw leaves open.

Of numbers, of yes or no, of vectors; and weighted draws where a mixture has no closed form.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import elementwise
from scipy.special import expit, logsumexp, ndtr

from dualview.checks import interval_ends, numbers
from dualview.errors import InputError

Array = NDArray[np.float64]

_CELLS = 2_000_000  # components × cases held at once
_PRECISION = 2e-13  # of quantiles, in units of themselves or of the smallest component
_NO_DENSITY = (
    "There is no density here: some of the draws have a single value, as the latent behaviour of a cluster does when its users "
    "share one. interval and draws are there."
)


class Parts(NamedTuple):
    """Components of some cases: log weights, locations and standard deviations, each (S, cases) or (S, 1)."""

    log_weights: Array
    locations: Array
    sds: Array


class _Mixture:
    """n cases of S components each; ``parts(cases)`` gives those of a slice, so that only a batch of cases is ever held."""

    def __init__(self, n: int, n_components: int, parts: Callable[[slice], Parts]) -> None:
        self._n = n
        self._n_components = n_components
        self._parts = parts

    @classmethod
    def over_draws(cls, n: int, locations: Callable[[slice], Array], sds: Array) -> Self:
        """One component per draw, all alike in weight: locations (S, cases) of a slice of the cases, sds (S,)."""
        log_weights = np.full((len(sds), 1), -np.log(len(sds)))
        return cls(n, len(sds), lambda cases: Parts(log_weights, locations(cases), sds[:, None]))

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._n} cases, {self._n_components} components each)"

    def _batches(self) -> Iterator[tuple[slice, Parts]]:
        size = max(1, _CELLS // self._n_components)
        for first in range(0, self._n, size):
            cases = slice(first, min(first + size, self._n))
            yield cases, self._parts(cases)

    def _values(self, y: ArrayLike) -> Array:
        values = numbers(y, "y", n_dims=1)
        if len(values) != self._n:
            raise InputError(f"y must have one value per case, {self._n}; got {len(values)}.")
        return values

    def log_density(self, y: ArrayLike) -> Array:
        raise NotImplementedError

    def nll(self, y: ArrayLike) -> float:
        """Negative log-likelihood per case: minus the mean of ``log_density``."""
        return -float(self.log_density(y).mean())


class NormalMixture(_Mixture):
    """Σ_s w_s N(y; location_s, sd_s²) for each of n cases.

    Weights of a case sum to one.
    """

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        mean, variance = np.empty(self._n), np.empty(self._n)
        for cases, (log_weights, locations, sds) in self._batches():
            weights = np.exp(log_weights)
            mean[cases] = (weights * locations).sum(axis=0)
            variance[cases] = (weights * ((locations - mean[cases]) ** 2 + sds**2)).sum(axis=0)
        return mean, variance

    @property
    def mean(self) -> Array:
        """Expected value of each case.

        It need not exist: where somebody without observations has a part in the outcome, a cluster's spread may have such heavy
        tails that the mean is another number with every seed. ``median`` always exists.
        """
        return self._moments[0]

    @cached_property
    def median(self) -> Array:
        """Median of each case."""
        return self.quantile(0.5)

    @property
    def std(self) -> Array:
        """Standard deviation of each case.

        It need not exist, as ``mean`` says, and is then any large number; ``interval`` always exists.
        """
        return np.asarray(np.sqrt(self._moments[1]))

    def log_density(self, y: ArrayLike) -> Array:
        """Log of the mean density at y (n,); there is none where a component is a single value (standard deviation 0)."""
        values = self._values(y)
        result = np.empty(self._n)
        for cases, (log_weights, locations, sds) in self._batches():
            if not np.all(sds > 0):
                raise InputError(_NO_DENSITY)
            standard = (values[cases] - locations) / sds
            result[cases] = logsumexp(log_weights - np.log(sds) - 0.5 * standard**2, axis=0)
        return np.asarray(result - 0.5 * np.log(2 * np.pi))

    def cdf(self, y: ArrayLike) -> Array:
        """Probability of an outcome up to y (n,)."""
        values = self._values(y)
        result = np.empty(self._n)
        for cases, parts in self._batches():
            result[cases] = _cdf(parts, values[cases])
        return result

    def quantile(self, probability: float) -> Array:
        """Quantile of each case, where the mixture's distribution function has this value."""
        if not 0 < probability < 1:
            raise InputError(f"A quantile's probability lies between 0 and 1; got {probability!r}.")
        result = np.empty(self._n)
        for cases, parts in self._batches():
            result[cases] = _quantile(parts, probability)
        return result

    def interval(self, probability: float = 0.95) -> Array:
        """Central interval of each case, (n, 2): low and high are quantiles of the mixture, not of a normal approximation."""
        return np.stack([self.quantile(end) for end in interval_ends(probability)], axis=-1)

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent draws of each case, (n, cases)."""
        rng = np.random.default_rng(seed)
        result = np.empty((n, self._n))
        for cases, (log_weights, locations, sds) in self._batches():
            size = locations.shape[1]
            cumulative = np.cumsum(np.broadcast_to(np.exp(log_weights), locations.shape), axis=0)
            for i in range(size):
                uniforms = rng.random(n) * cumulative[-1, i]
                chosen = np.searchsorted(cumulative[:, i], uniforms, side="right")
                spread = np.broadcast_to(sds, locations.shape)[chosen, i]
                result[:, cases.start + i] = locations[chosen, i] + spread * rng.standard_normal(n)
        return result


class ChoiceMixture(_Mixture):
    """The probability of 1 in each of n yes-or-no cases: Σ_s w_s E σ(N(location_s, sd_s²)), locations being log odds."""

    @cached_property
    def mean(self) -> Array:
        """Probability of 1 in each case."""
        result = np.empty(self._n)
        for cases, (log_weights, locations, sds) in self._batches():
            result[cases] = (np.exp(log_weights) * _expected_probability(locations, sds)).sum(axis=0)
        return np.minimum(result, 1.0)  # weights sum to one up to rounding

    @cached_property
    def median(self) -> Array:
        """Median of the probability of 1 in each case, over what the posterior leaves open."""
        odds = NormalMixture(self._n, self._n_components, self._spread_parts)
        return np.asarray(expit(odds.median))

    @property
    def std(self) -> Array:
        """Standard deviation of the outcome of each case."""
        return np.asarray(np.sqrt(self.mean * (1.0 - self.mean)))

    def interval(self, probability: float = 0.95) -> Array:
        """Central interval of the probability of 1 in each case, over what the posterior leaves open, (n, 2): low and high."""
        odds = NormalMixture(self._n, self._n_components, self._spread_parts)
        return np.asarray(expit(odds.interval(probability)))

    def _spread_parts(self, cases: slice) -> Parts:
        """Log odds with a little spread where a draw leaves none, so that they have a distribution function to invert."""
        log_weights, locations, sds = self._parts(cases)
        return Parts(log_weights, locations, np.maximum(sds, 1e-6 * (1.0 + np.abs(locations))))

    def log_density(self, y: ArrayLike) -> Array:
        """Log probability of the outcomes y (n,), 0 or 1."""
        values = self._values(y)
        if not np.isin(values, (0.0, 1.0)).all():
            raise InputError("y must hold 0 and 1 only.")
        result = np.empty(self._n)
        for cases, (log_weights, locations, sds) in self._batches():
            sign = 2.0 * values[cases] - 1.0
            probability = (np.exp(log_weights) * _expected_probability(sign * locations, sds)).sum(axis=0)
            result[cases] = np.log(probability)
        return result

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent outcomes of each case, (n, cases)."""
        return np.asarray(np.random.default_rng(seed).random((n, self._n)) < self.mean, dtype=float)


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_STEP = 0.5
_GRID = np.arange(-40.0, 40.0 + _STEP, _STEP)


def _expected_probability(locations: Array, sds: Array) -> Array:
    """E σ(N(location, sd²)): quadrature over the normal where it is narrow, else over the logistic.

    The second is P(L < X) = E Φ((location − L)/sd) for a logistic L, by the trapezoidal rule. Both are right to rounding.
    """
    if not np.any(sds):
        return np.asarray(expit(locations))
    locations, sds = np.broadcast_arrays(locations, sds)
    narrow = sds < 1.0
    result = np.zeros(locations.shape)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        result[narrow] += weight * expit(locations[narrow] + node * sds[narrow])
    for point in _GRID if not narrow.all() else ():
        weight = _STEP * expit(point) * expit(-point)
        result[~narrow] += weight * ndtr((locations[~narrow] - point) / sds[~narrow])
    return result


class VectorParts(NamedTuple):
    """Components of some cases: log weights (S, cases), means (S, cases, q), covariances (S, cases, q, q)."""

    log_weights: Array
    means: Array
    covariances: Array


class VectorMixture:
    """A predictive distribution of a vector of q numbers for each of n cases: a mixture of multivariate normals."""

    def __init__(self, n: int, n_dims: int, n_components: int, parts: Callable[[slice], VectorParts]) -> None:
        self._n, self._n_dims, self._n_components, self._parts = n, n_dims, n_components, parts

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        return f"VectorMixture({self._n} cases of {self._n_dims} numbers, {self._n_components} components each)"

    def marginal(self, dimension: int) -> NormalMixture:
        """The distribution of one of the q numbers."""

        def parts(cases: slice) -> Parts:
            log_weights, means, covariances = self._parts(cases)
            variances = covariances[..., dimension, dimension]
            return Parts(log_weights, means[..., dimension], np.sqrt(variances))

        return NormalMixture(self._n, self._n_components, parts)

    @property
    def mean(self) -> Array:
        """Expected vectors, (n, q); they need not exist, see :class:`NormalMixture`."""
        return np.column_stack([self.marginal(d).mean for d in range(self._n_dims)])

    @property
    def median(self) -> Array:
        """Median of each number by itself, (n, q)."""
        return np.column_stack([self.marginal(d).median for d in range(self._n_dims)])

    @property
    def std(self) -> Array:
        """Standard deviations of each number, (n, q)."""
        return np.column_stack([self.marginal(d).std for d in range(self._n_dims)])

    def interval(self, probability: float = 0.95) -> Array:
        """Central interval of each number by itself, (n, q, 2): low and high along the last axis."""
        return np.stack([self.marginal(d).interval(probability) for d in range(self._n_dims)], axis=1)

    def _batches(self) -> Iterator[tuple[slice, VectorParts]]:
        size = max(1, _CELLS // (self._n_components * self._n_dims**2))
        for first in range(0, self._n, size):
            cases = slice(first, min(first + size, self._n))
            yield cases, self._parts(cases)

    def log_density(self, vectors: ArrayLike) -> Array:
        """Log of the mean density at vectors (n, q)."""
        values = numbers(vectors, "vectors", n_dims=2)
        if values.shape != (self._n, self._n_dims):
            raise InputError(f"vectors must be {(self._n, self._n_dims)}, a row per case; got {values.shape}.")
        result = np.empty(self._n)
        for cases, (log_weights, means, covariances) in self._batches():
            if not np.all(np.any(covariances, axis=(-2, -1))):
                raise InputError(_NO_DENSITY)
            scales, axes = _principal(covariances)
            standard = ((values[cases] - means)[..., None, :] @ axes)[..., 0, :] / scales
            log_scales = np.log(scales).sum(axis=-1)
            result[cases] = logsumexp(log_weights - log_scales - 0.5 * (standard**2).sum(axis=-1), axis=0)
        return np.asarray(result - 0.5 * self._n_dims * np.log(2 * np.pi))

    def nll(self, vectors: ArrayLike) -> float:
        """Negative log-likelihood per case."""
        return -float(self.log_density(vectors).mean())

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent draws of each case, (n, cases, q)."""
        rng = np.random.default_rng(seed)
        result = np.empty((n, self._n, self._n_dims))
        for cases, (log_weights, means, covariances) in self._batches():
            shape = means.shape[:2]
            weights = np.broadcast_to(np.exp(log_weights), shape)
            for i in range(shape[1]):
                chosen = rng.choice(shape[0], size=n, p=weights[:, i] / weights[:, i].sum())
                scales, axes = _principal(np.broadcast_to(covariances, (*shape, *covariances.shape[2:]))[chosen, i])
                noise = scales * rng.standard_normal((n, self._n_dims))
                result[:, cases.start + i] = means[chosen, i] + (axes @ noise[..., None])[..., 0]
        return result


def _principal(covariances: Array) -> tuple[Array, Array]:
    """Standard deviations along the principal axes, and the axes as columns; rounding may have made a covariance singular."""
    variances, axes = np.linalg.eigh(covariances)
    least = np.finfo(float).eps * variances[..., -1:]
    return np.sqrt(np.maximum(variances, least)), axes


class WeightedDraws:
    """A predictive distribution known by weighted draws: values (S, n) or (S, n, q), log weights (S, n) that sum to one."""

    def __init__(self, values: Array, log_weights: Array) -> None:
        self._values, self._weights = values, np.exp(log_weights)

    def __len__(self) -> int:
        return int(self._values.shape[1])

    def __repr__(self) -> str:
        return f"WeightedDraws({len(self)} cases, {len(self._values)} draws each)"

    def _average(self, values: Array) -> Array:
        weights = self._weights if values.ndim == 2 else self._weights[..., None]
        return np.asarray((weights * values).sum(axis=0))

    @property
    def mean(self) -> Array:
        """Expected value of each case, (n,) or (n, q); it need not exist, see :class:`NormalMixture`."""
        return self._average(self._values)

    @cached_property
    def median(self) -> Array:
        """Median of each number, (n,) or (n, q)."""
        return self._quantiles((0.5,))[..., 0]

    @property
    def std(self) -> Array:
        """Standard deviation of each case, (n,) or (n, q)."""
        return np.asarray(np.sqrt(self._average((self._values - self.mean) ** 2)))

    def interval(self, probability: float = 0.95) -> Array:
        """Central interval of each number, (n, 2) or (n, q, 2): low and high along the last axis."""
        return self._quantiles(interval_ends(probability))

    def _quantiles(self, probabilities: tuple[float, ...]) -> Array:
        """Quantiles of each number, (n, …) or (n, q, …)."""
        flat = self._values.reshape(len(self._values), len(self), -1)
        order = np.argsort(flat, axis=0)
        values = np.take_along_axis(flat, order, axis=0)
        weights = np.take_along_axis(np.broadcast_to(self._weights[..., None], flat.shape), order, axis=0)
        share = np.cumsum(weights, axis=0)
        found = [np.take_along_axis(values, np.argmax(share >= p, axis=0)[None], axis=0)[0] for p in probabilities]
        return np.stack(found, axis=-1).reshape(*self._values.shape[1:], len(probabilities))

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent draws of each case, (n, cases) or (n, cases, q)."""
        rng = np.random.default_rng(seed)
        columns = [
            self._values[rng.choice(len(self._values), size=n, p=self._weights[:, i] / self._weights[:, i].sum()), i]
            for i in range(len(self))
        ]
        return np.stack(columns, axis=1)

    def log_density(self, values: ArrayLike) -> Array:  # noqa: ARG002
        raise InputError("This prediction is known by weighted draws, which have no density; use mean, interval and draws.")


def _cdf(parts: Parts, values: Array) -> Array:
    return _below(np.exp(parts.log_weights), parts.locations, parts.sds, values)


def _below(weights: Array, locations: Array, sds: Array, values: Array) -> Array:
    """Probability up to values (cases,); components without a spread are single values."""
    away, spread = values - locations, sds > 0
    below = ndtr(away / np.where(spread, sds, 1.0))
    if not spread.all():
        below = np.where(spread, below, away >= 0)
    return np.asarray((weights * below).sum(axis=0))


def _quantile(parts: Parts, probability: float) -> Array:
    """Where the distribution function has a value, (cases,): a bracketed root in asinh(y / scale).

    Components may be many orders of magnitude wider than others, and the scale is that of the smallest.
    """
    sizes = np.abs(parts.locations) + parts.sds
    scale = np.where(sizes > 0.0, sizes, np.inf).min(axis=0)
    scale[np.isinf(scale)] = 1.0
    arrays = (np.exp(parts.log_weights), parts.locations, parts.sds)

    def excess(t: Array, cases: NDArray[np.intp]) -> Array:
        weights, locations, sds = (part if part.shape[1] == 1 else part[:, cases] for part in arrays)
        return _below(weights, locations, sds, scale[cases] * np.sinh(t)) - probability

    low, high = (np.arcsinh(end / scale) for end in _reach(parts))
    ends = (low - 1.0, high + 1.0)  # a single value at an end has the probability on one side of it only
    tolerances = {"xatol": _PRECISION, "xrtol": 0.0, "fatol": 0.0, "frtol": 0.0}
    found = elementwise.find_root(excess, ends, args=(np.arange(len(scale)),), tolerances=tolerances)
    return np.asarray(scale * np.sinh(found.x))


def _reach(parts: Parts) -> tuple[Array, Array]:
    """Bounds with practically no probability outside."""
    return (parts.locations - 40.0 * parts.sds).min(axis=0), (parts.locations + 40.0 * parts.sds).max(axis=0)
