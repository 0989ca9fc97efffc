"""Mean and covariance of a Gaussian from cells that are exact, missing or known up to an interval,
(M14).

Shapes: low, high (U, D). What is fitted here are the constants (m, Σ) of a Gaussian view's prior.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dualview.checks import names_text
from dualview.errors import InputError
from dualview.units import sample_moments

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.int64]

_MOST_ITERATIONS = 1000
_TOLERANCE = 1e-7  # of a standard deviation, and of a correlation
_SINGULAR = 1e-8  # a correlation matrix with a smaller eigenvalue counts as singular
_DEPENDENT = 1e-10  # the same of columns that are linearly dependent
_FEW_NODES, _NODES = (np.polynomial.legendre.leggauss(n) for n in (5, 20))
_FLAT = 0.5  # fall in log density over an interval up to which a few nodes are enough
# In standard deviations: where moments of a truncated normal distribution are integrated by nodes.
_NARROW, _FAR = 1.0, 3.0
_BATCH = 1_000_000  # numbers in the precisions of patterns that are worked on at a time
_NEGLIGIBLE = 80.0  # twice the fall in log density after which a tail is left out


class Gaussian(NamedTuple):
    """Mean (D,) and covariance (D, D)."""

    mean: Array
    covariance: Array


class _Batch(NamedTuple):
    """Users (n,) of P patterns of missing cells, (P, D), pattern after pattern.

    pattern (n,): that of each user. starts (P + 1,): where each pattern's users begin. intervals:
    for each column, which of the users have an interval there.
    """

    users: Places
    pattern: Places
    starts: Places
    missing: Mask
    intervals: list[Places]


def fit_gaussian(low: Array, high: Array, names: list[str] | None = None) -> Gaussian:
    """The Gaussian under which cells (U, D) between low and high are most likely; the covariance
    scaled by U/(U − 1).

    Users with no cell known are left out. Exact cells only: mean and covariance of the sample,
    singular where columns are linearly dependent.

    Exact and missing cells: maximum likelihood by EM. Columns that no user has both of stay
    uncorrelated.

    Other intervals: variational EM. The interval cells of a user are taken as independent given the
    parameters, each normal and truncated to its interval. It is maximum likelihood for a single
    column; between columns of wide intervals, correlations come out too small, and where they are
    strong variances do, too. A column with such intervals gets one user more, at their center and
    with their spread: the likelihood of intervals that are all open on one side, or that share a
    point, has no maximum of its own. So does every column where users with all cells are too few
    for a maximum.

    Raises InputError for a column without spread and for linearly dependent columns, which
    ``names`` name.
    """
    known = (np.isfinite(low) | np.isfinite(high)).any(axis=1)
    if not known.all():
        low, high = low[known], high[known]
    exact = low == high
    if exact.all() and len(low) > 1:
        return Gaussian(*sample_moments(low))
    names = [f"x{d}" for d in range(low.shape[1])] if names is None else names
    center, spread = _start(low, high, names)
    low, high = (low - center) / spread, (high - center) / spread
    has_intervals = ~(exact | (np.isneginf(low) & np.isposinf(high))).all(axis=0)
    _refuse_dependent(low, ~has_intervals, names)
    mean, covariance = _fit(low, high, has_intervals.astype(float))
    correction = len(low) / max(len(low) - 1, 1)
    return Gaussian(center + spread * mean, covariance * np.outer(spread, spread) * correction)


def _start(low: Array, high: Array, names: list[str]) -> tuple[Array, Array]:
    """Center and spread (D,) of the columns, from the intervals' middles, or from their only
    ends."""
    middle = _middles(low, high)
    with np.errstate(invalid="ignore"):
        width = np.where(np.isfinite(high - low), high - low, 0.0)
    seen = ~np.isnan(middle)
    count = np.maximum(seen.sum(axis=0), 1)
    center = np.where(seen, middle, 0.0).sum(axis=0) / count
    variance = (np.where(seen, middle - center, 0.0) ** 2 + width**2 / 12.0).sum(axis=0) / count
    spread = np.sqrt(variance)
    flat = ~(spread > 1e-14 * np.abs(np.where(seen, middle, 0.0)).max(axis=0))
    if flat.any():
        raise InputError(
            f"What is known of column(s) {names_text(names, flat)} is one value, or a bound that "
            "all users share: it says "
            "nothing about their spread. Leave them out."
        )
    return center, spread


def _middles(low: Array, high: Array) -> Array:
    """The middle of each interval, its only end where it is open on one side, NaN where the cell is
    missing."""
    with np.errstate(invalid="ignore"):
        middle = 0.5 * low + 0.5 * high
    middle = np.where(np.isposinf(high), low, np.where(np.isneginf(low), high, middle))
    return np.where(np.isfinite(middle), middle, np.nan)


def _refuse_dependent(values: Array, chosen: Mask, names: list[str]) -> None:
    """Raise where chosen columns (D,) of values (U, D), whose cells are exact or missing, are
    linearly dependent."""
    columns = values[:, chosen]
    complete = columns[np.isfinite(columns).all(axis=1)]
    if columns.shape[1] < 2 or len(complete) < columns.shape[1] + 2:
        return
    covariance = sample_moments(complete)[1]
    unit = np.sqrt(np.diagonal(covariance))
    if (unit == 0).any():
        return
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    involved = np.abs(vectors[:, values <= _DEPENDENT * values[-1]]).max(axis=1, initial=0.0) > 1e-6
    if involved.any():
        listed = [name for name, taken in zip(names, chosen, strict=True) if taken]
        raise InputError(
            f"Columns {names_text(listed, involved)} are linearly dependent: one of them follows "
            "from the others. Leave it out."
        )


def _fit(low: Array, high: Array, extra: Array) -> Gaussian:
    """EM in standard units, from independent columns; extra (D,) is 1 for columns that get one user
    more at (0, 1)."""
    missing = np.isneginf(low) & np.isposinf(high)
    batches = _batches(missing, (low < high) & ~missing)
    mean = np.nan_to_num(_middles(low, high), nan=0.0)
    variance = np.zeros_like(mean)
    found = Gaussian(np.zeros(low.shape[1]), np.eye(low.shape[1]))
    for _ in range(_MOST_ITERATIONS):
        before = found
        more = np.zeros_like(found.covariance)
        for batch in batches:
            more += _expect(batch, found, low, high, mean, variance)
        found = _maximise(mean, more, extra)
        if not extra.all() and _is_singular(found.covariance):
            return _fit(low, high, np.ones_like(extra))
        if _is_close(before, found):
            break
    return found


def _batches(missing: Mask, intervals: Mask) -> list[_Batch]:
    """Users (U,) by where their cells (U, D) are missing, some patterns at a time."""
    rows, group = np.unique(missing, axis=0, return_inverse=True)
    group = group.ravel()
    order = np.argsort(group, kind="stable")
    size = max(1, _BATCH // missing.shape[1] ** 2)
    found = []
    for first in range(0, len(rows), size):
        patterns = rows[first : first + size]
        starts = np.searchsorted(group[order], first + np.arange(len(patterns) + 1))
        users = order[starts[0] : starts[-1]]
        known = [np.flatnonzero(column) for column in intervals[users].T]
        found.append(_Batch(users, group[users] - first, starts - starts[0], patterns, known))
    return found


def _expect(
    batch: _Batch, at: Gaussian, low: Array, high: Array, mean: Array, variance: Array
) -> Array:
    """In place: expected cells of a batch's users and variances of interval cells; returns the sum
    of their covariances."""
    users, seen = batch.users, ~batch.missing
    precisions = _seen_precisions(at.covariance, seen)
    values, spread = np.where(seen[batch.pattern], mean[users] - at.mean, 0.0), variance[users]
    for d, known in enumerate(batch.intervals):
        if len(known):
            middle, sd = before_truncation(d, values[known], precisions[batch.pattern[known], d])
            bounds = [(end[users[known], d] - at.mean[d] - middle) / sd for end in (low, high)]
            shift, share = truncated_moments(*bounds)
            values[known, d], spread[known, d] = middle + sd * shift, sd**2 * share
    variance[users] = spread
    # Loadings of all cells on those seen.
    loadings = np.where(seen[:, :, None], np.eye(len(at.mean)), at.covariance @ precisions)
    for first, end, loading in zip(batch.starts[:-1], batch.starts[1:], loadings, strict=True):
        mean[users[first:end]] = at.mean + values[first:end] @ loading.T
    spreads = np.add.reduceat(spread, batch.starts[:-1], axis=0)
    left = (at.covariance - loadings @ at.covariance) * (
        batch.missing[:, :, None] & batch.missing[:, None, :]
    )
    known_cells = (loadings * spreads[:, None, :]) @ np.swapaxes(loadings, 1, 2)
    return np.asarray((known_cells + np.diff(batch.starts)[:, None, None] * left).sum(axis=0))


def _seen_precisions(covariance: Array, seen: Mask) -> Array:
    """Precisions (P, D, D) of the cells seen in P patterns (P, D); 0 in the rows and columns of
    others."""
    both = seen[:, :, None] & seen[:, None, :]
    identity = np.eye(len(covariance))
    return np.where(
        both,
        np.linalg.solve(
            np.where(both, covariance, identity), np.broadcast_to(identity, both.shape)
        ),
        0.0,
    )


def _maximise(mean: Array, more: Array, extra: Array) -> Gaussian:
    weight = len(mean) + extra
    center = mean.sum(axis=0) / weight
    away = mean - center
    scatter = away.T @ away + more + np.diag(extra * (1.0 + center**2))
    root = np.sqrt(weight)
    return Gaussian(center, 0.5 * (scatter + scatter.T) / np.outer(root, root))


def _is_singular(covariance: Array) -> bool:
    variance = np.diagonal(covariance)
    if not (variance > _SINGULAR).all():
        return True
    unit = np.sqrt(variance)
    return bool(np.linalg.eigvalsh(covariance / np.outer(unit, unit))[0] < _SINGULAR)


def _is_close(one: Gaussian, other: Gaussian) -> bool:
    unit = np.sqrt(np.diagonal(other.covariance))
    moved = np.abs(one.mean - other.mean) / unit
    turned = np.abs(one.covariance - other.covariance) / np.outer(unit, unit)
    return bool(max(moved.max(), turned.max()) < _TOLERANCE)


def before_truncation(d: int, values: Array, rows: Array) -> tuple[Array, Array]:
    """Location and scale of a cell's distribution before it is truncated, of users with values (n,
    D) about the mean.

    rows (n, D): row d of the precision of the cells that are seen.
    """
    sd = 1.0 / np.sqrt(rows[:, d])
    return values[:, d] - (values * rows).sum(axis=1) * sd**2, sd


def truncated_moments(low: Array, high: Array) -> tuple[Array, Array]:
    """Mean and variance (n,) of the standard normal distribution on (low, high), one end of which
    may be infinite."""
    flip = low + high < 0
    # The tail is above: near + far ≥ 0.
    near, far = np.where(flip, -high, low), np.where(flip, -low, high)
    flat = (far - near) * np.maximum(far, 1.0) < _FLAT
    wide = ~flat & (near <= _FAR) & (far - near >= _NARROW)
    mean, variance = np.empty_like(near), np.empty_like(near)
    mean[flat], variance[flat] = _by_nodes(near[flat], far[flat], *_FEW_NODES)
    mean[wide], variance[wide] = _by_formula(near[wide], far[wide])
    other = ~(flat | wide)
    mean[other], variance[other] = _by_nodes(near[other], far[other], *_NODES)
    return np.where(flip, -mean, mean), variance


def _by_formula(low: Array, high: Array) -> tuple[Array, Array]:
    end = np.where(np.isposinf(high), 0.0, high)
    density_low, density_high = (
        np.exp(-0.5 * bound**2) / np.sqrt(2.0 * np.pi) for bound in (low, high)
    )
    mass = ndtr(-low) - ndtr(-high)
    mean = (density_low - density_high) / mass
    return mean, 1.0 + (low * density_low - end * density_high) / mass - mean**2


def _by_nodes(low: Array, high: Array, nodes: Array, weights: Array) -> tuple[Array, Array]:
    """By Gauss and Legendre's rule, on the part of the interval that has mass."""
    mode = np.maximum(low, 0.0)
    top = np.minimum(high, np.sqrt(mode**2 + _NEGLIGIBLE))
    half = 0.5 * (top - low)
    t = half[:, None] * (1.0 + nodes)  # from the low end
    weight = weights * np.exp(-0.5 * t * (t + 2.0 * low[:, None]))
    weight /= weight.sum(axis=1, keepdims=True)
    shift = (weight * t).sum(axis=1)
    return low + shift, (weight * (t - shift[:, None]) ** 2).sum(axis=1)
