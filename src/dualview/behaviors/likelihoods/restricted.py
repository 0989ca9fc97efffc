"""Constants of shared outcomes by the restricted likelihood of one cluster: that of what is left of
outcomes after fixed columns.

The scale of the behavior view is that of a linear mixed model, y = fixed b + slopes g + effects f +
noise with b flat, g ~ N(0, v_g s), f ~ N(0, v_f s) and noise of variance s; each part is (T,
columns). v_g and v_f maximise the likelihood.

The noise's constant, σ_0² of (M9) by default, is that of the same model without slopes, f_u ~ N(0,
r v) and noise of variance v: P (T, U) is the participation; the fixed columns are the totals of its
rows, which stand for the mean of f, the intercept and the covariates. Of what is left of y and P
after them, the likelihood of (v, r) needs the eigenvalues of PᵀP, the squares of Pᵀy along its
eigenvectors and yᵀy. The mode of v is 0 where users can fit the outcomes exactly, so the estimate
is the median of v under p(v, h) ∝ 1/v, where the users' share h of an outcome's variance is uniform
between 0 and 1.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, eigh, eigh_tridiagonal
from scipy.optimize import brentq, minimize
from scipy.special import gammaincc, gammainccinv, log_expit

from dualview.behaviors.likelihoods.ridge import column_space
from dualview.errors import InputError
from dualview.units import GaussianPrior, Whitening

Array = NDArray[np.float64]

_MOST_USERS = 2000  # whose variance is looked for by dense factorisations
_LEAST_BROUGHT = 1e-3  # to an outcome's variance, of the noise's: less cannot be told from nothing
_STARTS = (-4.0, -1.0, 1.0)  # ln of the part's variance in outcomes over that of the noise
_RANGE = (-14.0, 14.0)  # of these logarithms, and of ln h/(1 − h)
# users, or threads if they are fewer, whose eigenvalues are computed; of more they are estimated
_MOST_EXACT = 500
_N_PROBES = 3  # random vectors that stand for the trace
_N_STEPS = 50  # of Lanczos' method
_SEED = 29
_ROUNDING = 1e-12  # of the trace of PᵀP
_NEGLIGIBLE = 25.0  # a log density this far below the largest
_N_COARSE, _N_FINE = 141, 401
# of the sum of squares of outcomes, after the columns outside the mixture; less is rounding
_LEAST_LEFT = 1e-24


class Columns(NamedTuple):
    """What a linear mixed model sees of outcomes."""

    fixed: Array
    slopes: Array
    effects: Array


class Restricted(NamedTuple):
    """A fit: coefficients of the fixed columns, of slopes and of effects; variances of the noise,
    of slopes and of effects."""

    coefficients: tuple[Array, Array, Array]
    noise: float
    slope_variance: float
    effect_variance: float


def fit_restricted(columns: Columns, outcome: Array) -> Restricted:
    """Variances of slopes and effects that maximise the restricted likelihood; a part without
    columns has none."""
    basis = column_space(columns.fixed)
    target = outcome - basis @ (basis.T @ outcome)
    parts = [part - basis @ (basis.T @ part) for part in columns[1:]]
    both, sizes = np.hstack(parts), [part.shape[1] for part in parts]
    gram, cross, total = both.T @ both, both.T @ target, float(target @ target)
    freedom = len(outcome) - basis.shape[1]
    # In units of what a part brings to an outcome, so that neither its size nor that of its columns
    # matters.
    means = [max(float((part * part).sum()) / len(outcome), np.finfo(float).tiny) for part in parts]
    used = [k for k in (0, 1) if sizes[k]]

    def ratios(log_shares: Array) -> Array:
        result = np.ones(2)
        result[used] = np.exp(log_shares) / np.array(means)[used]
        return result

    def solved(log_shares: Array) -> tuple[Array, float, float]:
        ratio = np.repeat(ratios(log_shares), sizes)
        factor = cho_factor(gram + np.diag(1.0 / ratio), lower=True)
        found = cho_solve(factor, cross)
        noise = max(total - float(cross @ found), np.finfo(float).eps * total) / freedom
        log_determinant = 2.0 * float(np.log(np.diag(factor[0])).sum()) + float(np.log(ratio).sum())
        return found, noise, 0.5 * (freedom * np.log(noise) + log_determinant)

    best = np.zeros(0)
    if used:
        tries = [
            minimize(
                lambda v: solved(v)[2],
                np.full(len(used), start),
                method="L-BFGS-B",
                bounds=[_RANGE] * len(used),
            )
            for start in _STARTS
        ]
        best = min(tries, key=lambda result: float(result.fun)).x
    found, noise, _ = solved(best)
    slopes, effects = found[: sizes[0]], found[sizes[0] :]
    rest = outcome - columns.slopes @ slopes - columns.effects @ effects
    fixed = np.asarray(np.linalg.lstsq(columns.fixed, rest, rcond=None)[0], dtype=float)
    shares = noise * ratios(best)
    return Restricted(
        (fixed, slopes, effects),
        noise,
        *(float(v) if n else 0.0 for v, n in zip(shares, sizes, strict=True)),
    )


def likely_prior(
    design: Any, outcome: Array, outside: Array, features: Array | None
) -> GaussianPrior:
    """Mean and variance of users' coefficients; design (T, U), columns outside the mixture (T, C),
    features (U, D) or None."""
    n_users = design.shape[1]
    if n_users > _MOST_USERS:
        raise InputError(
            f'behavior_prior="likelihood" is for up to {_MOST_USERS:,} users; there are '
            f"{n_users:,}. Leave behavior_prior at "
            "None, or give GaussianPrior(m, variance), from some of the users if need be."
        )
    dense = np.asarray(design.toarray() if sparse.issparse(design) else design, dtype=float)
    slopes = np.empty((len(dense), 0))
    if features is not None:
        slopes = dense @ Whitening.of_data(features).to_working(features)
    with_size = np.hstack([dense.sum(axis=1, keepdims=True), outside])
    told_apart = column_space(with_size).shape[1] > column_space(outside).shape[1]
    found = fit_restricted(Columns(with_size if told_apart else outside, slopes, dense), outcome)
    variance = found.slope_variance * slopes.shape[1] + found.effect_variance
    mean_square = float((dense * dense).sum()) / len(
        dense
    )  # what a variance of 1 adds to an outcome's
    mean = float(found.coefficients[0][0]) if told_apart else 0.0
    return GaussianPrior(mean, max(variance, _LEAST_BROUGHT * found.noise / mean_square))


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
