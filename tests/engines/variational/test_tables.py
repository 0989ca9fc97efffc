"""Tables with missing cells, intervals and categories in the variational engine: the bound, its
parts, and fits."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.linalg import block_diag
from sklearn.metrics import adjusted_rand_score

import dualview as dv
from dualview.columns.layout import Layout
from dualview.engines.variational.draws import drawn, log_importance, states
from dualview.engines.variational.mean_field import MeanField
from dualview.model import Model, Observed
from dualview.partitions.choice import partition_prior
from dualview.views import BlockedView, Intervals, NominalView
from dualview.views.gaussian.soft_cells import SoftCells
from dualview.views.nominal.approximation import ColumnFactor

_LEAST = 1e-9  # of the bound that rounding may take
N_USERS, LABELS = 18, np.arange(18) % 2
RNG = np.random.default_rng(8)
TABLE = 4.0 * LABELS[:, None] + RNG.standard_normal((N_USERS, 3)) @ np.array(
    [[1.0, 0.6, 0.0], [0.0, 0.8, 0.3], [0.0, 0.0, 1.0]]
)
CODES = np.column_stack(
    [np.where(RNG.random(N_USERS) < 0.8, LABELS, 1 - LABELS), RNG.integers(-1, 3, N_USERS)]
).astype(float)
CATEGORIES = {"categories": Observed(NominalView(((0.5, 0.5), (0.3, 0.3, 0.4))), CODES)}


def _intervals(missing: bool, rounded: bool) -> Intervals:
    low, high = TABLE.copy(), TABLE.copy()
    if rounded:
        low[::2, 1], high[::2, 1] = np.floor(TABLE[::2, 1]), np.floor(TABLE[::2, 1]) + 1.0
        high[3, 2], low[4, 2] = np.inf, -np.inf
    if missing:
        low[1:5, 0], high[1:5, 0] = -np.inf, np.inf
        low[4:7, 1], high[4:7, 1] = -np.inf, np.inf
        low[9], high[9] = -np.inf, np.inf  # nothing is known of this user
    covariance = np.cov(TABLE.T)
    factor = np.linalg.cholesky(covariance)
    return Intervals(low, high, TABLE.mean(axis=0), factor, np.linalg.inv(factor))


def _model(missing: bool, rounded: bool, nominal: bool, n_clusters: int | None = None) -> Model:
    intervals = _intervals(missing, rounded)
    working = np.ascontiguousarray((intervals.start - intervals.mean) @ intervals.inverse.T)
    others = CATEGORIES if nominal else {}
    return Model(
        partition_prior(n_clusters), working, None, N_USERS, others=others, intervals=intervals
    )


KINDS = {
    "missing cells": (True, False, False),
    "intervals": (False, True, False),
    "categories": (False, False, True),
    "all": (True, True, True),
}


def _several_tables() -> Model:
    """A number and a category in the first table, two numbers and a category in the second."""
    covariance = np.cov(TABLE.T)
    factor = block_diag(np.sqrt(covariance[:1, :1]), np.linalg.cholesky(covariance[1:, 1:]))
    intervals = replace(_intervals(True, True), factor=factor, inverse=np.linalg.inv(factor))
    working = np.ascontiguousarray((intervals.start - intervals.mean) @ intervals.inverse.T)
    return Model(
        partition_prior(None),
        working,
        None,
        N_USERS,
        others=_blocked_categories(),
        intervals=intervals,
        layout=Layout(("one", "two"), (1, 2), (1, 2), {"categories": (1, 1)}),
    )


def _blocked_categories() -> dict[str, Observed]:
    shares = CATEGORIES["categories"].view.shares
    views = tuple(NominalView((own,)) for own in shares)
    return {"categories": Observed(BlockedView(views, (0, 1)), CODES)}


@pytest.mark.parametrize("name", [*KINDS, "several tables"])
def test_no_update_lowers_the_bound(name: str) -> None:
    model = _model(*KINDS[name]) if name in KINDS else _several_tables()
    q = MeanField.start(model, np.arange(N_USERS) % 3)
    first = before = q.bound
    for _ in range(12):
        for update in q.updates():
            q = update(q)
            assert q.bound >= before - _LEAST * abs(before)
            before = q.bound
    assert q.bound > first


def test_categories_alone_are_a_model() -> None:
    model = Model(partition_prior(2), None, None, N_USERS, others=CATEGORIES)
    q = MeanField.start(model, LABELS)
    before = q.bound
    for _ in range(5):
        q = q.step()
        assert q.bound >= before - _LEAST * abs(before)
        before = q.bound


def test_categories_of_two_tables_are_those_of_one() -> None:
    """Columns are independent given the cluster, so that it is the same model."""
    found = [
        MeanField.start(Model(partition_prior(2), None, None, N_USERS, others=others), LABELS)
        for others in (CATEGORIES, _blocked_categories())
    ]
    for _ in range(3):
        one, two = (q.bound for q in found)
        assert one == pytest.approx(two, abs=1e-9)
        found = [q.step() for q in found]


def test_draws_of_several_tables() -> None:
    q = MeanField.start(_several_tables(), LABELS).step()
    rng, intervals = np.random.default_rng(3), q.model.intervals
    assert intervals is not None
    assert np.isfinite(log_importance(q, drawn(rng, q, 4))).all()
    for state in states(rng, q, 4):
        cells = state.views["features"].base_parts["cells"]
        low, high = intervals.low[intervals.cells], intervals.high[intervals.cells]
        assert ((low <= cells) & (cells <= high)).all()
        assert np.isfinite(q.model.log_joint(state))
    one, two = q.views["features"].parts
    numbers = q.views["features"].numbers() + 0.01
    first, second = q.views["features"].with_numbers(numbers).parts
    n = len(one.numbers())
    np.testing.assert_array_equal(first.numbers(), one.with_numbers(numbers[:n]).numbers())
    np.testing.assert_array_equal(second.numbers(), two.with_numbers(numbers[n:]).numbers())
    assert q.located(0, ["features", "categories"]).shape == (N_USERS, 8)


MEAN, PRECISION = (
    np.array([0.3, -0.2, 0.1]),
    np.array([[2.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 1.5]]),
)


def _in_data_units(intervals: Intervals) -> tuple[np.ndarray, np.ndarray]:
    covariance = intervals.factor @ np.linalg.inv(PRECISION) @ intervals.factor.T
    return intervals.mean + intervals.factor @ MEAN, covariance


def test_missing_cells_are_integrated_out_exactly() -> None:
    intervals = _intervals(True, False)
    cells = SoftCells.start(intervals, 1).updated(MEAN[None], PRECISION[None])
    mean, covariance = _in_data_units(intervals)
    height = 0.5 * (np.linalg.slogdet(PRECISION)[1] - 3 * np.log(2 * np.pi))
    volume = np.log(
        np.diagonal(intervals.factor)
    ).sum()  # scores are those of densities in working units
    found = height + cells.scores(MEAN[None], PRECISION[None])[0] - volume
    for row, user in enumerate(cells.users):
        seen = intervals.low[user] == intervals.high[user]
        exact = 0.0
        if seen.any():
            law = stats.multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)])
            exact = law.logpdf(intervals.low[user, seen])
            rest = ~seen
            expected = mean[rest] + covariance[np.ix_(rest, seen)] @ np.linalg.solve(
                law.cov, intervals.low[user, seen] - law.mean
            )
            np.testing.assert_allclose(cells.means[0, row, rest], expected)
        assert found[row] == pytest.approx(exact)


def test_cells_known_to_an_interval_are_bounded_from_below_and_one_of_them_exactly() -> None:
    intervals = _intervals(False, True)
    cells = SoftCells.start(intervals, 1)
    for _ in range(30):
        cells = cells.updated(MEAN[None], PRECISION[None])
    mean, covariance = _in_data_units(intervals)
    found = cells.scores(MEAN[None], PRECISION[None])[0] + 0.5 * (
        np.linalg.slogdet(PRECISION)[1] - 3 * np.log(2 * np.pi)
    )
    found -= np.log(np.diagonal(intervals.factor)).sum()
    for row, user in enumerate(cells.users):
        hidden = intervals.low[user] < intervals.high[user]
        seen = ~hidden
        law = stats.multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)])
        loading = covariance[np.ix_(hidden, seen)] @ np.linalg.inv(law.cov)
        middle = mean[hidden] + loading @ (intervals.low[user, seen] - law.mean)
        left = covariance[np.ix_(hidden, hidden)] - loading @ covariance[np.ix_(seen, hidden)]
        ends = (
            np.clip(intervals.low[user, hidden], -1e3, 1e3),
            np.clip(intervals.high[user, hidden], -1e3, 1e3),
        )
        inside = stats.multivariate_normal(middle, left).cdf(ends[1], lower_limit=ends[0])
        exact = law.logpdf(intervals.low[user, seen]) + np.log(inside)
        assert found[row] <= exact + 1e-6
        if hidden.sum() == 1:
            assert found[row] == pytest.approx(exact, abs=1e-6)


def test_an_update_of_interval_cells_never_lowers_their_scores() -> None:
    cells = SoftCells.start(_intervals(True, True), 1).updated(MEAN[None], PRECISION[None])
    for _ in range(10):
        better = cells.updated(MEAN[None], PRECISION[None])
        gain = better.scores(MEAN[None], PRECISION[None]) - cells.scores(
            MEAN[None], PRECISION[None]
        )
        assert gain.min() > -1e-12
        cells = better


def test_scatters_are_those_of_draws() -> None:
    intervals = _intervals(True, True)
    cells = SoftCells.start(intervals, 1).updated(MEAN[None], PRECISION[None])
    weights = np.linspace(0.5, 1.0, len(cells.users))
    rng, n = np.random.default_rng(3), 4000
    noise = rng.standard_normal((n, len(weights), 3))
    interval_part = noise * np.sqrt(cells.variances[0])
    roots = np.linalg.cholesky(cells.covariances[0] + 1e-14 * np.eye(3))[cells.table.pattern]
    x = np.einsum("uij,nuj->nui", cells.loadings[0][cells.table.pattern], interval_part)
    x += np.einsum("uij,nuj->nui", roots, rng.standard_normal(x.shape))
    w = x @ intervals.inverse.T
    sums = np.einsum("u,nui,nuj->nij", weights, w, w)
    error = sums.std(axis=0) / np.sqrt(n)
    assert (abs(sums.mean(axis=0) - cells.scatter(0, weights)) < 4.5 * error + 1e-12).all()


def test_the_factor_of_a_column_is_exact() -> None:
    shares, counts = np.array([0.2, 0.3, 0.5]), np.array([[3.0, 0.0, 1.5], [0.2, 4.0, 0.0]])
    column = ColumnFactor.best(shares, counts)
    total = column.bound() + np.sum(counts * column.logs)
    assert total == pytest.approx(
        np.logaddexp.reduce(column._log_prior + column._log_norms)
    )  # ln p(counts), nothing lost
    worse = replace(column, log_weights=np.roll(column.log_weights, 3))
    assert worse.bound() + np.sum(counts * worse.logs) < total
    sequence = ColumnFactor(shares, np.array([[3.0, 0.0, 1.0]]), column.log_weights)
    for gamma, found in zip(sequence.grid[::40], sequence._log_norms[::40], strict=True):
        orders = np.log(4.0)  # of three of one level and one of another
        exact = stats.dirichlet_multinomial(gamma * shares, 4).logpmf([3, 0, 1]) - orders
        assert found == pytest.approx(exact, rel=1e-6)


def test_at_a_state_missing_cells_are_integrated_out_of_scores() -> None:
    model = _model(True, False, True)
    q = MeanField.start(model, LABELS).step()
    draws = drawn(np.random.default_rng(0), q, 2)
    assert np.isfinite(log_importance(q, draws)).all()
    state, intervals = draws.views["features"][1], model.intervals
    assert intervals is not None
    found = q.views["features"].scores(state, q.vectors("features"))
    user, seen = 5, np.array([0, 2])  # the second cell of this user is missing
    volume = np.log(np.diagonal(intervals.factor)).sum()
    for k, (mean, factor) in enumerate(zip(*state.components, strict=True)):
        covariance = intervals.factor @ np.linalg.inv(factor @ factor.T) @ intervals.factor.T
        law = stats.multivariate_normal(
            (intervals.mean + intervals.factor @ mean)[seen], covariance[np.ix_(seen, seen)]
        )
        assert found[k, user] - volume == pytest.approx(law.logpdf(TABLE[user, seen]))
    levels = draws.views["categories"][1].logs
    found = q.views["categories"].scores(draws.views["categories"][1], q.vectors("categories"))
    for u, (first, second) in enumerate(CODES.astype(int)):
        np.testing.assert_allclose(
            found[:, u], levels[:, first] + (levels[:, 2 + second] if second >= 0 else 0.0)
        )


def test_drawn_cells_are_inside_their_intervals_and_as_spread_as_q_says() -> None:
    model = _model(True, True, True)
    q = MeanField.start(model, LABELS)
    for _ in range(5):
        q = q.step()
    assert model.intervals is not None
    users, columns = model.intervals.cells
    found = np.array(
        [state.views["features"].cells for state in states(np.random.default_rng(1), q, 400)]
    )
    low, high = model.intervals.low[users, columns], model.intervals.high[users, columns]
    assert ((found >= low) & (found <= high)).all()
    cells = q.users.observed["features"].hidden
    assert isinstance(cells, SoftCells)
    row = int(np.flatnonzero(cells.users == 0)[0])
    own = found[:, (users == 0) & (columns == 1)][:, 0]
    k = int(q.responsibilities[:, 0].argmax())
    if q.responsibilities[k, 0] > 0.999:
        assert abs(own.mean() - cells.means[k, row, 1]) < 4.5 * own.std() / 20.0
        assert own.var() == pytest.approx(cells.variances[k, row, 1], rel=0.3)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    z = np.arange(60) % 2
    frame = pd.DataFrame(
        {
            "age": 30.0 + 25.0 * z + 3.0 * rng.standard_normal(60),
            "posts": rng.poisson(np.where(z, 40, 4)),
            "town": np.where(rng.random(60) < 0.85, np.where(z, "Lyon", "Metz"), "Nice"),
        }
    )
    frame.loc[[3, 10], "age"] = np.nan
    frame.loc[[5, 6], "town"] = None
    return frame


def test_tables_of_every_kind_are_fitted_imputed_and_streamed(table: pd.DataFrame) -> None:
    model = dv.DualViewMixture(engine="variational", n_chains=2, n_draws=60).fit(table[:50])
    assert adjusted_rand_score(np.arange(50) % 2, model.labels_) > 0.9
    imputed = model.impute().frame
    assert abs(imputed.loc[3, "age"] - 55.0) < 10.0
    assert abs(imputed.loc[10, "age"] - 30.0) < 10.0
    assert model.predict(table[50:]).tolist() == model.labels_[[0, 1] * 5].tolist()
    model.partial_fit(table[50:])
    assert model.labels_.shape == (60,)
    assert adjusted_rand_score(np.arange(60) % 2, model.labels_) > 0.9
    assert np.isfinite(model.score_samples(table[:3])).all()


def test_a_missing_cell_may_come_with_new_users() -> None:
    holes = TABLE.copy()
    holes[N_USERS - 1, 0] = np.nan
    model = (
        dv.DualViewMixture(engine="variational", n_chains=2, n_draws=20)
        .fit(TABLE[:15])
        .partial_fit(holes[15:])
    )
    assert model.posterior_.cells is not None
    assert model.posterior_["features.cells"].shape == (2, 20, 1)
