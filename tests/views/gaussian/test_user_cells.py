"""Cells of a user in a Gaussian component: densities against SciPy's, draws against rejection."""

import numpy as np
import pytest
from scipy import stats

from checks import ACCEPT
from dualview.units import GaussianPrior, Whitening
from dualview.views import Components
from dualview.views.gaussian.ghk import Gaussians
from dualview.views.gaussian.user_cells import UserCells, log_density

MEAN = np.array([1.0, -2.0, 0.5, 3.0])
ROOT = np.array(
    [[1.0, 0.0, 0.0, 0.0], [0.7, 1.2, 0.0, 0.0], [-0.5, 0.4, 0.8, 0.0], [0.3, -0.6, 0.9, 1.5]]
)
COVARIANCE = ROOT @ ROOT.T
UNITS = Whitening.of(GaussianPrior([0.5, 0.0, 1.0, 2.0], np.diag([2.0, 1.0, 3.0, 0.5]) + 0.2))
INF = np.inf


def components(n: int) -> Gaussians:
    """The same component n times, in working units."""
    root = UNITS.inverse @ ROOT
    return Gaussians(
        np.repeat(UNITS.to_working(MEAN)[None], n, axis=0), np.repeat(root[None], n, axis=0)
    )


def user(low: list[float], high: list[float]) -> UserCells:
    return UserCells(np.array([low]), np.array([high]), UNITS)


def log_densities(cells: UserCells, n: int) -> np.ndarray:
    """In n equal components, with points that begin in different places; in the data's units."""
    (pattern,) = cells.patterns(complete=True)
    shifts = np.random.default_rng(4).random((n, 3))
    first, even = np.arange(n), np.zeros((1, n))
    return pattern.log_density(components(n), first, even, shifts)[0] - UNITS.log_volume


def test_missing_cells_leave_the_density_of_the_others() -> None:
    expected = stats.multivariate_normal(MEAN[[1, 3]], COVARIANCE[np.ix_([1, 3], [1, 3])]).logpdf(
        [0.3, 2.5]
    )
    np.testing.assert_allclose(
        log_densities(user([-INF, 0.3, -INF, 2.5], [INF, 0.3, INF, 2.5]), 3), expected, rtol=1e-12
    )


def test_nothing_known_has_density_one() -> None:
    np.testing.assert_allclose(log_densities(user([-INF] * 4, [INF] * 4), 2), 0.0, atol=1e-12)


def test_one_interval_is_exact() -> None:
    known, cell = [0, 3], 2
    slopes = np.linalg.solve(COVARIANCE[np.ix_(known, known)], COVARIANCE[known, cell])
    values = np.array([0.3, 2.5])
    centre = MEAN[cell] + slopes @ (values - MEAN[known])
    law = stats.norm(centre, np.sqrt(COVARIANCE[cell, cell] - slopes @ COVARIANCE[known, cell]))
    expected = stats.multivariate_normal(MEAN[known], COVARIANCE[np.ix_(known, known)]).logpdf(
        values
    )
    expected += np.log(law.cdf(1.5) - law.cdf(-0.2))
    np.testing.assert_allclose(
        log_densities(user([0.3, -INF, -0.2, 2.5], [0.3, INF, 1.5, 2.5]), 3), expected, rtol=1e-10
    )


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ([-0.5, -3.0, 0.0, -INF], [1.5, -1.0, 1.0, 4.0]),
        ([2.0, -INF, -INF, 2.0], [INF, -3.0, INF, 2.5]),
    ],
    ids=["box", "open, one missing"],
)
def test_ghk_against_the_distribution_function(low: list[float], high: list[float]) -> None:
    n = 4000
    found = np.exp(log_densities(user(low, high), n))
    seen = [d for d in range(4) if not (np.isneginf(low[d]) and np.isposinf(high[d]))]
    ends = [np.clip(np.array(side)[seen], -60.0, 60.0) for side in (low, high)]
    law = stats.multivariate_normal(
        MEAN[seen], COVARIANCE[np.ix_(seen, seen)], abseps=1e-9, releps=1e-9, maxpts=2_000_000
    )
    expected = law.cdf(ends[1], lower_limit=ends[0])
    error = found.std(ddof=1) / np.sqrt(n)
    assert abs(found.mean() - expected) < ACCEPT * error + 2e-7
    assert found.std() / expected < 0.2  # one component's estimate


def test_density_in_the_users_own_components_in_many_draws() -> None:
    low = np.array([[0.3, -INF, 0.2, 2.5], [0.1, 0.2, 0.3, 0.4]])
    precision = np.linalg.inv(UNITS.inverse @ COVARIANCE @ UNITS.inverse.T)
    factor = np.linalg.cholesky(precision[::-1, ::-1])[::-1, ::-1]  # upper, S = T Tᵀ
    component = Components(UNITS.to_working(MEAN)[None], factor[None])
    rows = np.zeros((2, 2), dtype=np.int64)
    found = log_density(UserCells(low, np.abs(low), UNITS), component, rows)
    some = [0, 2, 3]
    first = stats.multivariate_normal(MEAN[some], COVARIANCE[np.ix_(some, some)]).logpdf(
        [0.3, 0.2, 2.5]
    )
    second = stats.multivariate_normal(MEAN, COVARIANCE).logpdf([0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(found, [[first, second]] * 2, rtol=1e-10)
    alone = log_density(UserCells(low[1:], low[1:], UNITS), component, rows[:, 1:])
    np.testing.assert_allclose(alone, [[second]] * 2, rtol=1e-10)


def test_draws_against_rejection() -> None:
    """One exact cell, two intervals, one missing: means and second moments."""
    n, low, high = 20_000, np.array([0.0, -1.0]), np.array([1.2, INF])
    (pattern,) = user([0.0, -2.5, -1.0, -INF], [1.2, -2.5, INF, INF]).patterns()
    drawn = pattern.draw(np.random.default_rng(0), components(n), 0)  # cells 0, 2, then 3
    assert ((drawn[:, :2] >= low - 1e-12) & (drawn[:, :2] <= high + 1e-12)).all()
    others, slopes = [0, 2, 3], COVARIANCE[[0, 2, 3], 1] / COVARIANCE[1, 1]
    spread = COVARIANCE[np.ix_(others, others)] - np.outer(slopes, slopes) * COVARIANCE[1, 1]
    tried = np.random.default_rng(1).multivariate_normal(
        MEAN[others] + slopes * (-2.5 - MEAN[1]), spread, 400_000
    )
    kept = tried[((tried[:, :2] >= low) & (tried[:, :2] <= high)).all(axis=1)]
    for function in (lambda x: x, lambda x: x**2, lambda x: x * np.roll(x, 1, axis=1)):
        one, two = function(drawn), function(kept)
        error = np.sqrt(one.var(axis=0) / len(one) + two.var(axis=0) / len(two))
        assert (np.abs(one.mean(axis=0) - two.mean(axis=0)) < ACCEPT * error).all()


def test_dependent_columns_of_the_fit() -> None:
    """The third column is the sum of the others, the fourth is constant: what is known of a row is
    what varies in it."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 2)) * [1.0, 100.0]
    units = Whitening.of_data(np.column_stack([x, x.sum(axis=1), np.full(30, 7.0)]))
    covariance = units.factor @ units.factor.T
    gaussians = Gaussians(np.zeros((1, 2)), np.eye(2)[None])
    low = np.array([[0.5, 20.0, -INF, -INF], [0.5, 20.0, -INF, 7.0]])
    table = UserCells(low, np.where(np.isinf(low), INF, low), units)
    expected = stats.multivariate_normal(units.mean[:2], covariance[:2, :2]).logpdf([0.5, 20.0])
    for pattern in table.patterns():
        found = pattern.log_density(gaussians, np.arange(1), np.zeros((1, 1)), np.zeros((1, 3)))
        assert found[0, 0] - units.log_volume == pytest.approx(expected, rel=1e-8)
        drawn = dict(zip(pattern.missing, pattern.draw(rng, gaussians, 0)[0], strict=True))
        assert drawn[2] == pytest.approx(20.5)
        assert drawn.get(3, 7.0) == pytest.approx(7.0)
    np.testing.assert_allclose(table.filled(), [[0.5, 20.0, 20.5, 7.0]] * 2)
