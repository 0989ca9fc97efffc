"""Predictive distributions of vectors, and weighted draws where a mixture has no closed form.

Those of numbers and of yes or no are in ``dualview.behaviors.families``.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from dualview.behaviors.families.base import Parts, join_parts
from dualview.behaviors.families.gaussian import NO_DENSITY, NormalMixture
from dualview.checks import draws_generator, interval_ends, numbers
from dualview.errors import InputError

Array = NDArray[np.float64]

_CELLS = 2_000_000  # components × cases × covariances held at once


class VectorParts(NamedTuple):
    """Components of some cases: log weights (S, cases), means (S, cases, q), covariances (S, cases,
    q, q)."""

    log_weights: Array
    means: Array
    covariances: Array


class VectorMixture:
    """A predictive distribution of a vector of q numbers for each of n cases: a mixture of
    multivariate normals."""

    def __init__(
        self, n: int, n_dims: int, n_components: int, parts: Callable[[slice], VectorParts]
    ) -> None:
        self._n, self._n_dims, self._n_components, self._parts = n, n_dims, n_components, parts

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        return (
            f"VectorMixture({self._n} cases of {self._n_dims} numbers, {self._n_components} "
            "components each)"
        )

    def joined(self, others: Sequence["VectorMixture"], weights: Array) -> "VectorMixture":
        """The mixture of this distribution and of others of the same cases, with weights (M,) that
        sum to one."""
        everything = (self, *others)

        def parts(cases: slice) -> VectorParts:
            return VectorParts(*join_parts([own._full_parts(cases) for own in everything], weights))

        n_components = sum(own._n_components for own in everything)
        return VectorMixture(self._n, self._n_dims, n_components, parts)

    def _full_parts(self, cases: slice) -> VectorParts:
        """Components of some cases with a row for each component and a column for each case."""
        log_weights, means, covariances = self._parts(cases)
        shape = (self._n_components, means.shape[1])
        return VectorParts(
            np.broadcast_to(log_weights, shape),
            np.broadcast_to(means, (*shape, self._n_dims)),
            np.broadcast_to(covariances, (*shape, self._n_dims, self._n_dims)),
        )

    def marginal(self, dimension: int) -> NormalMixture:
        """The distribution of one of the q numbers."""

        def parts(cases: slice) -> Parts:
            log_weights, means, covariances = self._parts(cases)
            variances = covariances[..., dimension, dimension]
            return Parts(log_weights, means[..., dimension], np.sqrt(variances))

        return NormalMixture(self._n, self._n_components, parts)

    def block(self, dimensions: NDArray[np.intp]) -> "VectorMixture | NormalMixture":
        """The distribution of some of the q numbers."""
        if len(dimensions) == 1:
            return self.marginal(int(dimensions[0]))

        def parts(cases: slice) -> VectorParts:
            log_weights, means, covariances = self._parts(cases)
            return VectorParts(
                log_weights,
                means[..., dimensions],
                covariances[..., dimensions[:, None], dimensions],
            )

        return VectorMixture(self._n, len(dimensions), self._n_components, parts)

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
        """Central interval of each number by itself, (n, q, 2): low and high along the last
        axis."""
        return np.stack(
            [self.marginal(d).interval(probability) for d in range(self._n_dims)], axis=1
        )

    def _batches(self) -> Iterator[tuple[slice, VectorParts]]:
        size = max(1, _CELLS // (self._n_components * self._n_dims**2))
        for first in range(0, self._n, size):
            cases = slice(first, min(first + size, self._n))
            yield cases, self._parts(cases)

    def log_density(self, vectors: ArrayLike) -> Array:
        """Log of the mean density at vectors (n, q)."""
        values = numbers(vectors, "vectors", n_dims=2)
        if values.shape != (self._n, self._n_dims):
            raise InputError(
                f"vectors must be {(self._n, self._n_dims)}, a row per case; got {values.shape}."
            )
        result = np.empty(self._n)
        for cases, (log_weights, means, covariances) in self._batches():
            if not np.all(np.any(covariances, axis=(-2, -1))):
                raise InputError(NO_DENSITY)
            scales, axes = _principal(covariances)
            standard = ((values[cases] - means)[..., None, :] @ axes)[..., 0, :] / scales
            log_scales = np.log(scales).sum(axis=-1)
            result[cases] = logsumexp(
                log_weights - log_scales - 0.5 * (standard**2).sum(axis=-1), axis=0
            )
        return np.asarray(result - 0.5 * self._n_dims * np.log(2 * np.pi))

    def nll(self, vectors: ArrayLike) -> float:
        """Negative log-likelihood per case."""
        return -float(self.log_density(vectors).mean())

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent draws of each case, (n, cases, q)."""
        rng = draws_generator(n, seed, self._n * self._n_dims)
        result = np.empty((n, self._n, self._n_dims))
        for cases, (log_weights, means, covariances) in self._batches():
            shape = means.shape[:2]
            weights = np.broadcast_to(np.exp(log_weights), shape)
            for i in range(shape[1]):
                chosen = rng.choice(shape[0], size=n, p=weights[:, i] / weights[:, i].sum())
                scales, axes = _principal(
                    np.broadcast_to(covariances, (*shape, *covariances.shape[2:]))[chosen, i]
                )
                noise = scales * rng.standard_normal((n, self._n_dims))
                result[:, cases.start + i] = means[chosen, i] + (axes @ noise[..., None])[..., 0]
        return result


def _principal(covariances: Array) -> tuple[Array, Array]:
    """Standard deviations along the principal axes, and the axes as columns; rounding may have made
    a covariance singular."""
    variances, axes = np.linalg.eigh(covariances)
    least = np.finfo(float).eps * variances[..., -1:]
    return np.sqrt(np.maximum(variances, least)), axes


class WeightedDraws:
    """A predictive distribution known by weighted draws: values (S, n) or (S, n, q), log weights
    (S, n) that sum to one."""

    def __init__(self, values: Array, log_weights: Array) -> None:
        self._values, self._weights, self._log_weights = values, np.exp(log_weights), log_weights

    def joined(self, others: Sequence["WeightedDraws"], weights: Array) -> "WeightedDraws":
        """The mixture of this distribution and of others of the same cases, with weights (M,) that
        sum to one."""
        everything = (self, *others)
        shifted = [
            own._log_weights + np.log(share) for own, share in zip(everything, weights, strict=True)
        ]
        return WeightedDraws(
            np.concatenate([own._values for own in everything]), np.concatenate(shifted)
        )

    def block(self, dimensions: NDArray[np.intp]) -> "WeightedDraws":
        """The distribution of some of the q numbers."""
        own = self._values[..., dimensions]
        return WeightedDraws(own[..., 0] if len(dimensions) == 1 else own, self._log_weights)

    def __len__(self) -> int:
        return int(self._values.shape[1])

    def __repr__(self) -> str:
        return f"WeightedDraws({len(self)} cases, {len(self._values)} draws each)"

    def _average(self, values: Array) -> Array:
        weights = self._weights if values.ndim == 2 else self._weights[..., None]
        return np.asarray((weights * values).sum(axis=0))

    @property
    def mean(self) -> Array:
        """Expected value of each case, (n,) or (n, q); it need not exist, see
        :class:`NormalMixture`."""
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
        """Central interval of each number, (n, 2) or (n, q, 2): low and high along the last
        axis."""
        return self._quantiles(interval_ends(probability))

    def _quantiles(self, probabilities: tuple[float, ...]) -> Array:
        """Quantiles of each number, (n, …) or (n, q, …)."""
        flat = self._values.reshape(len(self._values), len(self), -1)
        order = np.argsort(flat, axis=0)
        values = np.take_along_axis(flat, order, axis=0)
        weights = np.take_along_axis(
            np.broadcast_to(self._weights[..., None], flat.shape), order, axis=0
        )
        share = np.cumsum(weights, axis=0)
        found = [
            np.take_along_axis(values, np.argmax(share >= p, axis=0)[None], axis=0)[0]
            for p in probabilities
        ]
        return np.stack(found, axis=-1).reshape(*self._values.shape[1:], len(probabilities))

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent draws of each case, (n, cases) or (n, cases, q)."""
        rng = draws_generator(n, seed, self._values[0].size)
        columns = [
            self._values[
                rng.choice(
                    len(self._values), size=n, p=self._weights[:, i] / self._weights[:, i].sum()
                ),
                i,
            ]
            for i in range(len(self))
        ]
        return np.stack(columns, axis=1)

    def log_density(self, values: ArrayLike) -> Array:  # noqa: ARG002
        raise InputError(
            "This prediction is known by weighted draws, which have no density; use mean, "
            "interval and draws."
        )
