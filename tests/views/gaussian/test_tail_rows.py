"""Numbers of users in draws with heavy tails: densities, draws and residuals against t
distributions."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from checks import ACCEPT
from dualview.columns import Column
from dualview.posterior.prediction.cells_given import weights_given
from dualview.units import GaussianPrior, Whitening
from dualview.views.base import Components
from dualview.views.features import ClusterRows
from dualview.views.gaussian import density
from dualview.views.gaussian.block import GaussianBlock
from dualview.views.gaussian.user_cells import UserCells, gaussians_at
from yardsticks import N_DRAWS, check_law, positive_definite, upper_factor

D, INF = 3, np.inf
UNITS = Whitening.of(
    GaussianPrior([0.3, -1.0, 2.0], [[2.0, 0.4, 0.1], [0.4, 1.0, -0.3], [0.1, -0.3, 1.5]])
)
DOFS = np.array([1.4, 3.0, 12.0])  # of three draws, with two components each
OWNER = np.array([0, 0, 1, 1, 2, 2])


class Draws:
    """What a block asks of the draws of a fit."""

    feature_names = ("a", "b", "c")
    user_ids = ("u", "v")

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.precisions = np.array([positive_definite(rng, D) for _ in OWNER])
        self.means = rng.standard_normal((len(OWNER), D))
        self.components = {
            "features.means": self.means,
            "features.factors": upper_factor(self.precisions),
            "owner": OWNER,
        }
        self.spec = SimpleNamespace(units={"features": UNITS}, codebook=None, layout=None)
        self.data: dict[str, Any] = {}
        self._flat = {"features.tail_dof": DOFS}

    def flat(self, name: str) -> np.ndarray:
        return self._flat[name]

    def __contains__(self, name: object) -> bool:
        return name in self._flat

    def base(self, view: str, names: Any) -> dict[str, np.ndarray]:
        assert view == "features"
        rng, n = np.random.default_rng(3), len(DOFS)
        matrices = [[positive_definite(rng, D) for _ in range(n)] for _ in range(2)]
        parts = (rng.standard_normal((n, D)), *map(np.array, matrices), np.full(n, D + 1.5))
        return dict(zip(names, parts, strict=True))

    def law(self, row: int, cells: Any) -> Any:
        """The t distribution of some cells in a component, in the user's units."""
        scale = UNITS.factor @ np.linalg.inv(self.precisions[row]) @ UNITS.factor.T
        center = UNITS.mean + UNITS.factor @ self.means[row]
        return stats.multivariate_t(center[cells], scale[np.ix_(cells, cells)], DOFS[OWNER[row]])


def block(draws: Draws) -> GaussianBlock:
    return GaussianBlock(draws, [Column(name, "continuous") for name in draws.feature_names])


def given(law: Any, value: float) -> Any:
    """The t distribution of the second of two cells given the first."""
    (first, second), shape, dof = law.loc, law.shape, law.df
    slope, square = shape[0, 1] / shape[0, 0], (value - first) ** 2 / shape[0, 0]
    rest = shape[1, 1] - slope * shape[0, 1]
    scale = np.sqrt((dof + square) / (dof + 1.0) * rest)
    return stats.t(dof + 1.0, second + slope * (value - first), scale)


ROWS = np.array([[0, 1], [3, 2], [5, 5]])  # of two users in three draws


def test_complete_users_have_the_t_density_of_their_clusters() -> None:
    draws, x = Draws(), np.array([[0.1, -1.5, 6.0], [9.0, 2.0, 2.0]])
    found = block(draws).log_density(UserCells(x, x, UNITS), ROWS)
    expected = [[draws.law(row, [0, 1, 2]).logpdf(x[u]) for u, row in enumerate(r)] for r in ROWS]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_missing_cells_are_integrated_out() -> None:
    draws, x = Draws(), np.array([[0.1, -1.5, 6.0], [9.0, 2.0, 2.0]])
    low, high = x.copy(), x.copy()
    low[0, 1], high[0, 1] = -INF, INF
    found = block(draws).log_density(UserCells(low, high, UNITS), ROWS)
    expected = [draws.law(row, [0, 2]).logpdf(x[0, [0, 2]]) for row in ROWS[:, 0]]
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-8)


@pytest.mark.parametrize("value", [0.1, 40.0])
def test_an_interval_has_the_probability_of_a_t_distribution(value: float) -> None:
    """Without bias: on average over where the points begin."""
    draws, n = Draws(), 4000
    low = np.array([[value, -3.0, -INF]])
    high = np.array([[value, -0.5, INF]])
    (pattern,) = UserCells(low, high, UNITS).patterns()
    components = Components(draws.means, draws.components["features.factors"])
    rng, even = np.random.default_rng(1), np.zeros((1, n))
    for row, dof in enumerate(DOFS[OWNER]):
        gaussians = gaussians_at(components, np.full(n, row), np.full(n, dof))
        found = pattern.log_density(gaussians, np.arange(n), even, rng.random((n, 3)))[0]
        law = draws.law(row, [0, 1])
        one = given(law, value)
        exact = draws.law(row, [0]).logpdf([value]) + np.log(one.cdf(-0.5) - one.cdf(-3.0))
        ratios = np.exp(found - UNITS.log_volume - exact)
        assert abs(ratios.mean() - 1.0) < ACCEPT * ratios.std() / np.sqrt(n) + 1e-9
        assert ratios.std() < 0.2


def test_two_intervals_have_the_probability_of_a_t_distribution() -> None:
    draws, n = Draws(), 4000
    low, high = np.array([[-1.0, -3.0, -INF]]), np.array([[2.0, -0.5, INF]])
    (pattern,) = UserCells(low, high, UNITS).patterns()
    components = Components(draws.means, draws.components["features.factors"])
    rng, even = np.random.default_rng(1), np.zeros((1, n))
    for row in (0, 2):
        law, dof = draws.law(row, [0, 1]), DOFS[OWNER[row]]
        places = (np.arange(2000) + 0.5) / 2000
        exact = np.mean(
            [
                stats.multivariate_normal(law.loc, law.shape / weight).cdf(
                    high[0, :2], lower_limit=low[0, :2]
                )
                for weight in stats.gamma.ppf(places, dof / 2.0, scale=2.0 / dof)
            ]
        )
        gaussians = gaussians_at(components, np.full(n, row), np.full(n, dof))
        found = pattern.log_density(gaussians, np.arange(n), even, rng.random((n, 3)))[0]
        ratios = np.exp(found - UNITS.log_volume) / exact
        assert abs(ratios.mean() - 1.0) < ACCEPT * ratios.std() / np.sqrt(n) + 2e-4


def test_cells_are_drawn_given_each_other() -> None:
    """A user with an exact cell far out, an interval and a missing cell: the interval cell has a t
    distribution cut off, and the missing one a t distribution given both."""
    draws, n, row = Draws(), N_DRAWS, 1
    value, ends = 12.0, (-2.0, 1.0)
    low, high = np.array([[value, ends[0], -INF]]), np.array([[value, ends[1], INF]])
    (pattern,) = UserCells(low, high, UNITS).patterns()
    components = Components(draws.means, draws.components["features.factors"])
    dof = DOFS[OWNER[row]]
    gaussians = gaussians_at(components, np.full(n, row), np.full(n, dof))
    drawn = pattern.draw(np.random.default_rng(0), gaussians, 0)
    one = given(draws.law(row, [0, 1]), value)
    below, above = one.cdf(ends[0]), one.cdf(ends[1])
    check_law(drawn[:, 0], lambda x: (one.cdf(x) - below) / (above - below))
    law = draws.law(row, [0, 1, 2])
    away = np.column_stack([np.full(n, value), drawn[:, 0]]) - law.loc[:2]
    solved = np.linalg.solve(law.shape[:2, :2], np.column_stack([law.shape[:2, 2], away.T]))
    squares = (away * solved[:, 1:].T).sum(axis=1)
    rest = law.shape[2, 2] - law.shape[2, :2] @ solved[:, 0]
    scales = np.sqrt((dof + squares) / (dof + 2.0) * rest)
    middles = law.loc[2] + away @ solved[:, 0]
    check_law(stats.t.cdf((drawn[:, 1] - middles) / scales, dof + 2.0), stats.uniform.cdf)


def test_missing_cells_are_drawn_given_exact_ones() -> None:
    draws, n, row = Draws(), N_DRAWS, 4
    low, high = np.array([[-5.0, -INF, -INF]]), np.array([[-5.0, INF, INF]])
    (pattern,) = UserCells(low, high, UNITS).patterns()
    components = Components(draws.means, draws.components["features.factors"])
    gaussians = gaussians_at(components, np.full(n, row), np.full(n, DOFS[OWNER[row]]))
    drawn = pattern.draw(np.random.default_rng(0), gaussians, 0)
    for i in (1, 2):
        check_law(drawn[:, i - 1], given(draws.law(row, [0, i]), -5.0).cdf)


def test_replicates_and_residuals() -> None:
    """Replicates have t distributions; given drawn weights their residuals are normal."""
    draws, n, rng = Draws(), N_DRAWS, np.random.default_rng(6)
    rows = np.tile([[0], [3], [5]], (1, n))
    made = block(draws).replicates(rng, rows)
    for s, row in enumerate((0, 3, 5)):
        for i in range(D):
            law = draws.law(row, [i])
            check_law(made[s, :, i], stats.t(law.df, law.loc[0], np.sqrt(law.shape[0, 0])).cdf)
        x = UserCells(made[s], made[s], UNITS)
        found = block(draws).residuals(rng, x, np.array([s]), rows[s : s + 1])
        for i in range(D):
            check_law(found[0, :, i], stats.norm.cdf)
        check_law((found[0] ** 2).sum(axis=1), stats.chi2(D).cdf)


def test_new_rows_have_t_densities_in_known_clusters_and_where_others_opened_one() -> None:
    draws, rng = Draws(), np.random.default_rng(0)
    rows = ClusterRows(OWNER, len(DOFS), 4)
    found = block(draws).rows(rng, rows)
    x = np.array([[0.1, -1.5, 6.0], [9.0, 2.0, 2.0]])
    cells, log_weights = UserCells(x, x, UNITS), np.zeros((2, len(rows)))
    values = found.log_density(cells, log_weights)
    for place in np.flatnonzero(rows.known):
        law = draws.law(rows.component[place], [0, 1, 2])
        expected = [law.logpdf(one) + UNITS.log_volume for one in x]
        np.testing.assert_allclose(values[:, place], expected, rtol=1e-9)
    assert np.isfinite(values).all()
    low, high = x.copy(), x.copy()
    low[:, 2], high[:, 2] = -INF, INF
    part = UserCells(low, high, UNITS)
    seen = found.log_density(part, log_weights)
    for place in np.flatnonzero(rows.known):
        law = draws.law(rows.component[place], [0, 1])
        expected = [law.logpdf(one[:2]) + UNITS.log_volume for one in x]
        np.testing.assert_allclose(seen[:, place], expected, rtol=1e-8)
    new = np.flatnonzero(~rows.known)
    opened = found.opened(rng, new, cells[:1])
    after = found.log_opened(cells[1:], new, opened)
    dofs = DOFS[rows.draw[new]]
    expected = density.log_likelihood(cells[1:].vectors(), *opened, dofs)[0]
    np.testing.assert_allclose(after, expected)
    again = found.log_opened(part[1:], new, opened)
    for place, value in enumerate(again):
        scale = np.linalg.inv(opened.factors[place] @ opened.factors[place].T)
        law = stats.multivariate_t(
            (UNITS.mean + UNITS.factor @ opened.means[place])[:2],
            (UNITS.factor @ scale @ UNITS.factor.T)[:2, :2],
            dofs[place],
        )
        assert value == pytest.approx(law.logpdf(x[1, :2]) + UNITS.log_volume, rel=1e-8)
    drawn = found.draw(rng, new, part[1:], [(new, opened)])
    np.testing.assert_array_equal(drawn[:, :2], np.tile(x[1, :2], (len(new), 1)))


def test_a_number_given_others_is_a_mixture_over_weights() -> None:
    draws, others = Draws(), np.array([[11.0, -2.0]])
    loading = UNITS.factor[:2]
    components = Components(draws.means, draws.components["features.factors"])
    for row, dof in enumerate(DOFS[OWNER]):
        gaussians = gaussians_at(components, np.array([row]), np.array([dof]))
        weights, log_shares = weights_given(gaussians, loading, others - UNITS.mean[:2])
        law = draws.law(row, [0, 1])
        away = others[0] - law.loc
        square = away @ np.linalg.solve(law.shape, away)
        assert np.exp(log_shares).sum() == pytest.approx(1.0)
        for x in (0.0, 1.0, 5.0):  # a number of scale 1, in scales
            found = np.log(np.exp(log_shares[0]) @ stats.norm.pdf(x, 0.0, weights[0] ** -0.5))
            scale = np.sqrt((dof + square) / (dof + 2.0))
            assert found == pytest.approx(stats.t(dof + 2.0, 0.0, scale).logpdf(x), abs=2e-3)
    normal = gaussians_at(components, np.array([0]), np.array([INF]))
    np.testing.assert_array_equal(weights_given(normal, loading, others)[0], 1.0)
