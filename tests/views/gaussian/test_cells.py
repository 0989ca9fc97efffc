"""Cells that are known to an interval: their conditionals, and the sampler with them."""

import numpy as np
import pytest
from scipy import stats

import checks
from dualview.model import Model
from dualview.numerics.streams import stream_of
from dualview.partitions.alpha import Gamma
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet
from dualview.views import GaussianView, Intervals
from dualview.views.gaussian import cells as kernels
from dualview.views.gaussian.interval_kind import score

MEAN = np.array([0.3, -1.0, 2.0])
FACTOR = np.array([[1.5, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.6, 0.3, 2.0]])
INVERSE = np.linalg.inv(FACTOR)
STEP = 0.7


def slow(name):
    return pytest.param(name, marks=pytest.mark.slow)


def coarsened(values):
    """The first column as it is, the second rounded, the third censored above 1."""
    low, high = values.copy(), values.copy()
    low[:, 1] = np.floor(values[:, 1] / STEP) * STEP
    high[:, 1] = low[:, 1] + STEP
    over = values[:, 2] > 1.0
    low[over, 2], high[over, 2] = 1.0, np.inf
    return low, high


def intervals(n_users=6):
    hidden = np.zeros((n_users, 3))
    hidden[0, 0] = hidden[1, 1] = hidden[1, 2] = hidden[3] = np.inf
    return Intervals(-hidden, hidden, MEAN, FACTOR, INVERSE, coarsened)


def observed(seed=0):
    """Working vectors, the table's values and its intervals."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((6, 3))
    return x, MEAN + x @ FACTOR.T, intervals().observe(x)


def component(rng):
    """Mean and precision factor in working units, and mean and precision in the data's."""
    mean, factor = rng.standard_normal(3), np.triu(rng.standard_normal((3, 3)))
    factor[np.diag_indices(3)] = rng.uniform(0.5, 2.0, 3)
    return mean, factor, MEAN + FACTOR @ mean, INVERSE.T @ factor @ factor.T @ INVERSE


def record(seed=0):
    x, values, known = observed(seed)
    view = GaussianView(3, intervals=known)
    state = view.draw_prior(np.random.default_rng(seed), 2)._replace(cells=known.values(x))
    return view.record(state, x, np.ascontiguousarray(x.T)), values


def test_a_record_has_the_values_that_were_put_in():
    view, values = record()
    np.testing.assert_allclose(view.cells.values, values)
    np.testing.assert_allclose(MEAN + view.vectors @ FACTOR.T, values)
    np.testing.assert_array_equal(view.rows, view.vectors.T)


def test_the_choice_sees_the_marginal_density_of_what_is_not_missing():
    view, values = record()
    mean, precision = (
        view.components.means[1],
        view.components.factors[1] @ view.components.factors[1].T,
    )
    covariance = FACTOR @ np.linalg.inv(precision) @ FACTOR.T
    table = np.zeros((2, 6))
    score(table, 0, 0, 6, 1, view)
    hidden = intervals().is_missing
    for u in range(6):
        seen = np.flatnonzero(~hidden[u])
        expected = 0.0
        if len(seen):
            law = stats.multivariate_normal(
                (MEAN + FACTOR @ mean)[seen], covariance[np.ix_(seen, seen)]
            )
            expected = law.logpdf(values[u, seen])
        assert table[1, u] + np.log(np.linalg.det(INVERSE)) == pytest.approx(
            expected, rel=1e-9, abs=1e-9
        )


def test_the_choice_does_not_depend_on_what_missing_cells_hold():
    view, _ = record()
    first, second = np.zeros((2, 6)), np.zeros((2, 6))
    score(first, 0, 0, 6, 0, view)
    for u, d in np.argwhere(intervals().is_missing):
        view.cells.values[u, d] += 3.0
        kernels.whiten(u, view.cells, view.vectors, view.rows)
    score(second, 0, 0, 6, 0, view)
    np.testing.assert_allclose(first[0], second[0], rtol=1e-9)


def test_nearly_singular_components_keep_their_digits():
    """The choice of a user whose whole row is missing sees nothing of a component, however thin it
    is and far the cells are."""
    view, _ = record()
    for k, thin in enumerate((1e-12, 1e-100)):
        view.components.factors[k, 0, 0] = thin
    view.cells.values[3] = 1e9, -1e9, 1e9
    kernels.whiten(3, view.cells, view.vectors, view.rows)
    table = np.zeros((2, 6))
    for k in range(2):
        score(table, 0, 0, 6, k, view)
    assert np.isfinite(table).all()
    np.testing.assert_allclose(table[:, 3], -np.log(np.linalg.det(INVERSE)), rtol=1e-9)
    kernels.draw_cells(
        stream_of(np.random.default_rng(1)),
        3,
        *(part[1] for part in view.components),
        view.cells,
        view.vectors,
        view.rows,
    )
    assert np.isfinite(view.vectors[3]).all()


def many(view, u, mean, factor, n=6000):
    rng, draws = stream_of(np.random.default_rng(5)), np.empty((n, 3))
    for i in range(n):
        kernels.draw_cells(rng, u, mean, factor, view.cells, view.vectors, view.rows)
        draws[i] = view.cells.values[u]
    return draws


def test_missing_cells_have_the_moments_of_their_conditional():
    """User 1 misses two of three cells: their joint law given the third."""
    view, values = record()
    mean, factor, centre, precision = component(np.random.default_rng(3))
    draws = many(view, 1, mean, factor)[:, 1:]
    own = precision[1:, 1:]
    expected = centre[1:] - np.linalg.solve(own, precision[1:, 0] * (values[1, 0] - centre[0]))
    covariance = np.linalg.inv(own)
    assert (
        np.abs(draws.mean(axis=0) - expected) < 5.0 * np.sqrt(np.diag(covariance) / len(draws))
    ).all()
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.12 * covariance.max())


def test_an_interval_cell_has_its_conditional_law():
    """(C16): user 2 has one rounded cell, and an exact one on either side."""
    view, values = record()
    view.cells.highs[view.cells.starts[2] : view.cells.starts[3]] += (
        1.0  # wider, so that the law has a shape
    )
    mean, factor, centre, precision = component(np.random.default_rng(4))
    assert view.cells.starts[3] - view.cells.starts[2] == 1
    draws = many(view, 2, mean, factor)[:, 1]
    away = values[2] - centre
    expected = centre[1] - (precision[1, 0] * away[0] + precision[1, 2] * away[2]) / precision[1, 1]
    at, sd = view.cells.starts[2], precision[1, 1] ** -0.5
    law = stats.truncnorm(
        (view.cells.lows[at] - expected) / sd, (view.cells.highs[at] - expected) / sd, expected, sd
    )
    assert stats.kstest(draws, law.cdf).pvalue > 1e-4


def model(partition):
    return Model(partition, np.zeros((6, 3)), n_users=6, intervals=intervals())


MODELS = {
    "process": lambda: model(ChineseRestaurant(Gamma(2.0, 2.0))),
    "three clusters": lambda: model(FiniteDirichlet(3, Gamma(2.0, 2.0))),
}


def statistics(model, state):
    """Those of every model, and of the cells."""
    x = model.views["features"].completed(state.views["features"], model.features)
    values = np.arctan(MEAN + x @ FACTOR.T)
    own = {
        f"cell {u} {d}": values[u, d] for u, d in ((0, 0), (1, 1), (1, 2), (2, 1), (3, 2), (4, 2))
    }
    own["spread"] = np.abs(values[1, 1] - values[1, 2])
    own["place in interval"] = np.mod(np.tan(values[2, 1]) / STEP, 1.0)
    own["together"] = (state.z[1] == state.z[2]) * abs(values[1, 1] - values[2, 1])
    return checks.statistics(model, state) | own


@pytest.mark.parametrize("name", [slow("process"), slow("three clusters")])
def test_joint(name):
    checks.assert_joint(MODELS[name](), seed=1, look=statistics)


def test_without_such_cells_draws_are_those_of_a_table():
    x = np.random.default_rng(1).standard_normal((6, 3))
    values = MEAN + x @ FACTOR.T
    plain = Model(ChineseRestaurant(Gamma(2.0, 2.0)), x, n_users=6)
    exact = Model(
        ChineseRestaurant(Gamma(2.0, 2.0)),
        x,
        n_users=6,
        intervals=Intervals(values, values, MEAN, FACTOR, INVERSE),
    )
    start = plain.draw_prior(np.random.default_rng(2))
    first, second = (
        checks.gibbs_step(np.random.default_rng(3), part, start) for part in (plain, exact)
    )
    np.testing.assert_array_equal(first.z, second.z)
    np.testing.assert_array_equal(
        first.views["features"].components.means, second.views["features"].components.means
    )
