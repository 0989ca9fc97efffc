"""Probabilities of interval cells by compiled code: against the same sampler in NumPy."""

import numpy as np
import pytest
from scipy.special import logsumexp

from checks import ACCEPT
from dualview.distributions import log_normal_mass, normal_quantiles_between
from dualview.units import GaussianPrior, Whitening
from dualview.views.gaussian.ghk import Gaussians
from dualview.views.gaussian.user_cells import UserCells, _points

D = 5
INF = np.inf
UNITS = Whitening.of(GaussianPrior(np.zeros(D), np.eye(D)))


def slow_log_densities(
    cells: UserCells, gaussians: Gaussians, shifts: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """ln p(cells of user j | component), (J, n): every point of every component."""
    found = np.zeros((len(cells), len(gaussians.means)))
    is_open = np.isneginf(cells.low) & np.isposinf(cells.high)
    kinds_of_all = np.where(cells.low == cells.high, 0, np.where(is_open, 2, 1))
    for j, (low, high) in enumerate(zip(cells.low, cells.high, strict=True)):
        kinds = kinds_of_all[j]
        intervals = np.flatnonzero(kinds == 1)
        alike = (kinds_of_all == kinds).all(axis=1)
        widths = np.median((cells.high - cells.low)[alike][:, intervals], axis=0)
        by_width = intervals[np.argsort(widths, kind="stable")]
        order = np.concatenate([np.flatnonzero(kinds == 0), by_width])
        covariances = gaussians.roots @ np.swapaxes(gaussians.roots, 1, 2)
        lower = np.linalg.cholesky(covariances[:, order[:, None], order])
        standard = np.zeros((len(points), len(gaussians.means), 0))
        total = np.zeros(standard.shape[:2])
        for i, cell in enumerate(order):
            middle = gaussians.means[:, cell] + (lower[:, i, :i] * standard).sum(axis=-1)
            scale, place = lower[:, i, i], i - (kinds == 0).sum()
            ends = (low[cell] - middle) / scale, (high[cell] - middle) / scale
            if kinds[cell] == 0:
                new = ends[0]
                total += -0.5 * new**2 - np.log(scale) - 0.5 * np.log(2.0 * np.pi)
            else:
                width = (high[cell] - low[cell]) / scale
                total += log_normal_mass(*ends, width)
                new = np.zeros_like(middle)
                if i + 1 < len(order):
                    levels = (points[:, None, place] + shifts[:, place]) % 1.0
                    new = normal_quantiles_between(levels, *ends, width)
            standard = np.concatenate([standard, new[..., None]], axis=-1)
        found[j] = logsumexp(total, axis=0) - np.log(len(points))
    return found


def components(rng: np.random.Generator, n: int) -> Gaussians:
    roots = np.tril(0.3 * rng.uniform(-1.0, 1.0, (n, D, D))) + np.eye(D)
    return Gaussians(rng.uniform(-2.0, 2.0, (n, D)), roots)


def some_users() -> UserCells:
    """Of every pattern: exact cells, intervals narrow, wide, open and far, and missing ones."""
    low = np.array(
        [
            [0.3, -0.5, 1.0, 0.0, -INF],
            [0.3, -INF, 1.0, 0.0, -INF],
            [0.1, 1.0, 0.5, 30.0, 2.0],
            [0.1, -0.2, 0.5, -1.0, 1.0],
            [-INF, -INF, -INF, -INF, -INF],
            [0.4, 0.1, -80.0, 0.2, -0.1],
        ]
    )
    high = np.array(
        [
            [0.3, 0.5, 1.1, 2.0, INF],
            [0.3, -0.5, 1.0 + 1e-9, INF, -4.0],
            [0.1, 3.0, 1.5, INF, 3.0],
            [1.1, 0.4, 1.5, 0.0, 1.5],
            [INF, INF, INF, INF, INF],
            [0.4, 0.1, -79.0, 0.3, -0.1 + 1e-6],
        ]
    )
    return UserCells(low, high, UNITS)


def log_densities(
    cells: UserCells, gaussians: Gaussians, first: np.ndarray, shifts: np.ndarray
) -> np.ndarray:
    found = np.zeros((len(cells), len(gaussians.means)))
    for pattern in cells.patterns(complete=True):
        even = np.zeros((len(pattern.users), len(gaussians.means)))
        found[pattern.users] = pattern.log_density(gaussians, first, even, shifts)
    return found


def test_a_component_alone_in_its_draw_has_what_the_slow_twin_says() -> None:
    rng, n = np.random.default_rng(0), 150
    gaussians, shifts = components(rng, n), rng.random((n, D - 1))
    cells = some_users()
    found = log_densities(cells, gaussians, np.arange(n), shifts)
    expected = slow_log_densities(cells, gaussians, shifts, _points(D - 1))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


def test_a_draw_has_the_same_density_with_fewer_points_far_away() -> None:
    """Without bias in every component, and as close in all of a draw together."""
    n, n_repeats, user = 24, 2000, 3
    few = components(np.random.default_rng(1), n)
    many = Gaussians(*(np.tile(part, (n_repeats, *[1] * (part.ndim - 1))) for part in few))
    cells, rng = some_users()[user : user + 1], np.random.default_rng(2)
    shifts = rng.random((2, n * n_repeats, D - 1))
    found = np.exp(log_densities(cells, many, n * np.arange(n_repeats), shifts[0]))
    slow = np.exp(slow_log_densities(cells, many, shifts[1], _points(D - 1)))
    ours, theirs = (part.reshape(n_repeats, n) for part in (found, slow))
    assert (ours.std(axis=0) > 1.5 * theirs.std(axis=0)).any()  # some have fewer points
    error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / n_repeats)
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < ACCEPT * error).all()
    assert ours.sum(axis=1).std() < 1.1 * theirs.sum(axis=1).std()


def test_wide_cells_are_drawn_with_narrow_ones_known() -> None:
    """However columns are ordered, and however much two cells have to do with each other."""
    root = np.eye(D)
    root[0, :2] = 0.95, np.sqrt(1.0 - 0.95**2)
    root[1, 0], root[1, 1] = 1.0, 0.0
    n, rng = 400, np.random.default_rng(4)
    gaussians = Gaussians(np.zeros((n, D)), np.tile(root, (n, 1, 1)))
    low, high = np.full((1, D), -INF), np.full((1, D), INF)
    low[0, :2], high[0, 1] = (-1.0, 2.99), 3.01
    found = log_densities(UserCells(low, high, UNITS), gaussians, np.arange(n), rng.random((n, D)))
    assert found.std() < 1e-3


def test_rows_that_weigh_much_have_all_points() -> None:
    """What a component weighs besides decides, not its density alone."""
    rng, n = np.random.default_rng(3), 12
    gaussians, shifts = components(rng, n), rng.random((n, D - 1))
    cells = some_users()[:1]
    (pattern,) = cells.patterns()
    expected = slow_log_densities(cells, gaussians, shifts, _points(D - 1))[0]
    for chosen in range(n):
        weights = np.where(np.arange(n) == chosen, 0.0, -1e3)[None]
        found = pattern.log_density(gaussians, np.zeros(1, dtype=np.int64), weights, shifts)
        assert found[0, chosen] == pytest.approx(expected[chosen], abs=1e-8)
