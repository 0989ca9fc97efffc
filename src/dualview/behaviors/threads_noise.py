"""The noise that the restricted likelihood of one cluster estimates: σ_0² of (M9) by default.

All users are taken for one cluster: y = B b + P f + noise with b flat, f_u ~ N(0, r v) and noise of
variance v. P (T, U) is the participation; B (T, C) has the totals of its rows, which stand for the
mean of f, the intercept and the covariates. Of what is left of y and P after B, the likelihood of
(v, r) needs the eigenvalues of PᵀP, the squares of Pᵀy along its eigenvectors and yᵀy. The mode of
v is 0 where users can fit the outcomes exactly, so the estimate is the median of v under p(v, h) ∝
1/v, where the users' share h of an outcome's variance is uniform between 0 and 1.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh, eigh_tridiagonal
from scipy.optimize import brentq
from scipy.special import gammaincc, gammainccinv, log_expit

from dualview.behaviors.likelihoods.ridge import column_space

Array = NDArray[np.float64]

# users, or threads if they are fewer, whose eigenvalues are computed; of more they are estimated
_MOST_EXACT = 500
_N_PROBES = 3  # random vectors that stand for the trace
_N_STEPS = 50  # of Lanczos' method
_SEED = 29
_ROUNDING = 1e-12  # of the trace of PᵀP
_RANGE = (-14.0, 14.0)  # of ln h/(1 − h)
_NEGLIGIBLE = 25.0  # a log density this far below the largest
_N_COARSE, _N_FINE = 141, 401
# of the sum of squares of outcomes, after the columns outside the mixture; less is rounding
_LEAST_LEFT = 1e-24


class Left(NamedTuple):
    """What is left after B: dimensions (freedom) and yᵀy (total). size: the trace of PᵀP before, to
    tell rounding by."""

    freedom: int
    total: float
    size: float


class Spectrum(NamedTuple):
    """Σ_j squares_j g(values_j) = yᵀP g(PᵀP) Pᵀy and Σ_j counts_j g(nodes_j) = trace g(PᵀP), for
    any g with g(0) = 0."""

    left: Left
    values: Array
    squares: Array
    nodes: Array
    counts: Array


def likely_noise(participation: Any, outcome: Array, outside: Array) -> float | None:
    """The noise variance of outcomes (T,), with columns outside the mixture (T, C); None where
    nothing is left to see it in."""
    totals = np.asarray(participation.sum(axis=1), dtype=float).reshape(-1, 1)
    basis = column_space(np.hstack([totals, outside]))
    target = outcome - basis @ (basis.T @ outcome)
    freedom, total = len(outcome) - basis.shape[1], float(target @ target)
    if freedom < 1 or not total > _LEAST_LEFT * float(outcome @ outcome):
        return None
    n_threads, n_users = participation.shape
    size = float((participation * participation).sum())
    if n_threads < n_users and n_threads <= _MOST_EXACT:
        return median_noise(_of_threads(participation, target, basis, size))

    def gram_times(vectors: Array) -> Array:
        product = participation @ vectors
        return np.asarray(participation.T @ (product - basis @ (basis.T @ product)))

    return median_noise(
        spectrum_of(gram_times, participation.T @ target, Left(freedom, total, size))
    )


def spectrum_of(gram_times: Callable[[Array], Array], cross: Array, left: Left) -> Spectrum:
    """From products of PᵀP with vectors (U, M), and Pᵀy (U,): exactly for few users, else by
    Lanczos' method."""
    n_users = len(cross)
    if n_users <= _MOST_EXACT:
        values, vectors = eigh(gram_times(np.eye(n_users)))
        return _above_rounding(
            Spectrum(left, values, (vectors.T @ cross) ** 2, values, np.ones(n_users))
        )
    signs = np.random.default_rng(_SEED).choice([-1.0, 1.0], (n_users, _N_PROBES))
    (values, squares), *probes = _quadratures(gram_times, np.column_stack([cross, signs]))
    nodes, counts = (np.concatenate(part) for part in zip(*probes, strict=True))
    return _above_rounding(Spectrum(left, values, squares, nodes, counts / _N_PROBES))


def _above_rounding(spectrum: Spectrum) -> Spectrum:
    """The same without eigenvalues that are 0 but for rounding."""
    least = _ROUNDING * spectrum.left.size
    seen, counted = spectrum.values > least, spectrum.nodes > least
    own = spectrum.values[seen], spectrum.squares[seen]
    return Spectrum(spectrum.left, *own, spectrum.nodes[counted], spectrum.counts[counted])


def _of_threads(participation: Any, target: Array, basis: Array, size: float) -> Spectrum:
    """The same from P Pᵀ, where threads are fewer than users."""
    product = participation @ participation.T
    gram = np.asarray(product.toarray() if sparse.issparse(product) else product, dtype=float)
    gram = gram - basis @ (basis.T @ gram)
    values, vectors = eigh(gram - (gram @ basis) @ basis.T)
    left = Left(len(target) - basis.shape[1], float(target @ target), size)
    return _above_rounding(
        Spectrum(left, values, values * (vectors.T @ target) ** 2, values, np.ones(len(values)))
    )


def _quadratures(times: Callable[[Array], Array], starts: Array) -> list[tuple[Array, Array]]:
    """For each start s (U, M), nodes and weights of Gauss' quadrature of sᵀ g(A) s, (Golub and
    Meurant 2010, chapter 4)."""
    norms = np.linalg.norm(starts, axis=0)
    before, vectors = np.zeros_like(starts), starts / np.where(norms > 0.0, norms, 1.0)
    diagonals, offs = [], [np.zeros(starts.shape[1])]
    for _ in range(min(_N_STEPS, len(starts))):
        product = times(vectors) - offs[-1] * before
        diagonals.append((product * vectors).sum(axis=0))
        product -= diagonals[-1] * vectors
        lengths = np.linalg.norm(product, axis=0)
        ended = lengths <= 1e-12 * np.abs(diagonals).max(axis=0)
        offs.append(np.where(ended, 0.0, lengths))
        before, vectors = vectors, np.where(ended, 0.0, product / np.where(ended, 1.0, lengths))
    found = []
    for m, norm in enumerate(norms):
        nodes, parts = eigh_tridiagonal([d[m] for d in diagonals], [off[m] for off in offs[1:-1]])
        found.append((nodes, (norm * parts[0]) ** 2))
    return found


def median_noise(spectrum: Spectrum) -> float:
    """The median of v under the restricted likelihood, p(v) ∝ 1/v and a uniform share h of the
    users."""
    coarse = np.linspace(*_RANGE, _N_COARSE)
    height = _log_density(spectrum, coarse)[0]
    kept = np.flatnonzero(height > height.max() - _NEGLIGIBLE)
    ends = coarse[max(kept[0] - 1, 0)], coarse[min(kept[-1] + 1, _N_COARSE - 1)]
    height, misfit = _log_density(spectrum, np.linspace(*ends, _N_FINE))
    weights, half = np.exp(height - height.max()), 0.5 * spectrum.left.freedom
    weights /= weights.sum()

    def above_half(log_variance: float) -> float:
        return float(weights @ gammaincc(half, 0.5 * misfit * np.exp(-log_variance))) - 0.5

    medians = np.log(
        0.5 * misfit / gammainccinv(half, 0.5)
    )  # given each share: the median lies between them
    found = np.exp(brentq(above_half, medians.min() - 1e-6, medians.max() + 1e-6, xtol=1e-14))
    return float(f"{found:.8g}")  # the same however sums are rounded


def _log_density(spectrum: Spectrum, logits: Array) -> tuple[Array, Array]:
    """ln p(y, logit) of the users' share with v integrated out, up to a constant, and the misfit Q:
    v | h, y ~ Q/χ² then."""
    freedom, total, _ = spectrum.left
    brought = float(spectrum.counts @ spectrum.nodes) / freedom  # to an outcome's variance by r = 1
    ratios = np.exp(logits)[:, None] / (brought or 1.0)
    explained = (ratios * spectrum.squares / (1.0 + ratios * spectrum.values)).sum(axis=1)
    misfit = np.maximum(total - explained, np.finfo(float).eps * total)
    log_determinant = np.log1p(ratios * spectrum.nodes) @ spectrum.counts
    height = (
        -0.5 * (freedom * np.log(misfit) + log_determinant) + log_expit(logits) + log_expit(-logits)
    )
    return height, misfit
