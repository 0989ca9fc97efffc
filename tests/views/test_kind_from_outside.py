"""The seam for new kinds of columns: counts with a Poisson distribution, added from here. They are
fitted, predicted, filled in and checked as the package's own."""

import dataclasses
import math
import warnings
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from scipy.special import logsumexp, ndtri

import checks
import dualview as dv
from dualview.chains.storage import Store
from dualview.columns import Column, Columns
from dualview.columns.kinds import register_kind
from dualview.columns.numbers import are_whole
from dualview.errors import AbsentError, InputError
from dualview.model import Model, Observed, State
from dualview.numerics.compiling import uncached
from dualview.numerics.kinds import register
from dualview.numerics.linalg import put
from dualview.numerics.streams import standard_gamma, stream_of
from dualview.partitions.agreement import LabelsByView
from dualview.partitions.alpha import Gamma
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet
from dualview.posterior import Posterior
from dualview.posterior.checks.model_checks import Context, vector_checks
from dualview.posterior.checks.residuals import residuals_of
from dualview.posterior.draws.from_records import tree_of
from dualview.posterior.partition.averages import profiles_of
from dualview.posterior.partition.profiles import table_profile
from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.imputation import imputed_of_fit, imputed_of_new
from dualview.posterior.prediction.new_users import NewUsers
from dualview.posterior.prediction.user_features import Features
from dualview.posterior.spec import ModelSpec
from dualview.views import View
from dualview.views.features import BlockRows, FeatureBlock, FeatureKind

SHAPE, RATE = 2.0, 0.5  # of the gamma prior of a component's rate


def slow(name):
    return pytest.param(name, marks=pytest.mark.slow)


class Poisson(NamedTuple):
    """vectors (U, J): counts, as floats, NaN where they are missing; rates (C, J) of the
    components."""

    vectors: np.ndarray
    rates: np.ndarray


@dataclass(frozen=True)
class PoissonState:
    rates: np.ndarray
    base_parts = MappingProxyType({})
    component_parts = property(vars)
    n_components = property(lambda state: len(state.rates))


@uncached
def rate_law(count, total):
    return SHAPE + total, RATE + count


@uncached
def redraw(rng, z, view):
    counts, totals = np.zeros(view.rates.shape), np.zeros(view.rates.shape)
    rates = np.empty(view.rates.shape)
    for u in range(len(z)):
        for j in range(rates.shape[1]):
            if not math.isnan(view.vectors[u, j]):
                counts[z[u], j] += 1.0
                totals[z[u], j] += view.vectors[u, j]
    for k in range(rates.shape[0]):
        for j in range(rates.shape[1]):
            shape, rate = rate_law(counts[k, j], totals[k, j])
            rates[k, j] = standard_gamma(rng, shape) / rate
    return Poisson(view.vectors, rates)


@uncached
def with_room(view, n):
    wide = np.empty((view.rates.shape[0] + n, view.rates.shape[1]))
    wide[: view.rates.shape[0]] = view.rates
    return Poisson(view.vectors, wide)


@uncached
def open_columns(rng, n_auxiliary, n_room, marginal, view):  # noqa: ARG001
    n, wide = len(view.rates), with_room(view, n_auxiliary + n_room)
    for c in range(n, n + n_auxiliary):
        open_column(rng, c, wide)
    return wide


@uncached
def open_column(rng, column, view):
    for j in range(view.rates.shape[1]):
        view.rates[column, j] = standard_gamma(rng, SHAPE) / RATE


@uncached
def log_count(x, rate):
    return 0.0 if math.isnan(x) else x * math.log(rate) - rate - math.lgamma(x + 1.0)


@uncached
def score(table, offset, first, end, column, view):
    for u in range(first, end):
        for j in range(view.rates.shape[1]):
            table[column, u - offset] += log_count(view.vectors[u, j], view.rates[column, j])


@uncached
def log_density(z, start, view):
    for j in range(view.rates.shape[1]):
        for k in range(view.rates.shape[0]):
            start += (SHAPE - 1.0) * math.log(view.rates[k, j]) - RATE * view.rates[k, j]
        for u in range(len(z)):
            start += log_count(view.vectors[u, j], view.rates[z[u], j])
    return start


@uncached
def grow(view):
    return with_room(view, len(view.rates))


@uncached
def compact(counts, n_kept, view):  # noqa: ARG001
    return Poisson(view.vectors, view.rates[: len(counts)][counts > 0])


@uncached
def component_width(view):
    return view.rates.shape[1]


@uncached
def put_component(row, at, column, view):
    return put(row, at, view.rates[column])


VERBS = (
    redraw,
    open_columns,
    open_column,
    grow,
    compact,
    score,
    log_density,
    component_width,
    put_component,
)
register(Poisson, **{function.__name__: function for function in VERBS})


@dataclass(frozen=True)
class PoissonView(View):
    n_dims: int = 1

    @property
    def component_shapes(self):
        return {"rates": (self.n_dims,)}

    def log_joint(self, state, x, z):
        return float(log_density(z, 0.0, Poisson(x, state.rates)))

    def start(self, rng, x, z, n_components):
        before = Poisson(x, np.ones((n_components, self.n_dims)))
        return PoissonState(redraw(stream_of(rng), z, before).rates)

    def draw_prior(self, rng, n_components):
        return PoissonState(rng.gamma(SHAPE, 1.0 / RATE, (n_components, self.n_dims)))

    def simulate(self, rng, state, z):
        return rng.poisson(state.rates[z]).astype(float)

    def observed(self, x, before):
        return self, np.where(np.isnan(before), np.nan, x)

    def record(self, state, x, rows):  # noqa: ARG002
        return Poisson(x, state.rates)

    def state(self, record):
        return PoissonState(record.rates)

    def restored(self, parts):
        return PoissonState(**parts)


class PoissonBlock(FeatureBlock):
    """Counts in the draws of a fit: cells (J, columns), NaN where they are missing."""

    view, variable, dim = "counts", "counts", "count"

    def __init__(self, draws, columns, table, own):
        super().__init__(columns[own], table)
        self.own, self.rates = own, draws.components["counts.rates"][:, own]

    def cells(self, data):
        return data["counts"][:, self.own]

    def values(self, x):
        return x

    def recorded(self, vectors):
        return vectors[..., self.own]

    def rows(self, rng, rows):  # noqa: ARG002
        return PoissonRows(self.rates, rows)

    def log_density(self, x, rows):
        return np.nan_to_num(stats.poisson(self.rates[rows]).logpmf(x)).sum(axis=-1)

    def replicates(self, rng, rows):
        return rng.poisson(self.rates[rows])

    def unknown(self, x):
        return np.nonzero(np.isnan(x))

    def fill(self, rng, x, cells, rows):  # noqa: ARG002
        return rng.poisson(self.rates[rows[:, cells[0]], cells[1]]), None

    def residuals(self, rng, x, draws, rows):  # noqa: ARG002
        law = stats.poisson(self.rates[rows])
        below = np.where(np.isnan(x), 0.0, law.cdf(x - 1.0))
        within = np.where(np.isnan(x), 1.0, law.pmf(x))
        return ndtri(below + rng.random(within.shape) * within)

    def profile(self, x):
        names = [column.name for column in self.columns]
        return {"feature_medians": dict(zip(names, np.nanmedian(x, axis=0).tolist(), strict=True))}


class PoissonRows(BlockRows):
    """Counts in every row; in fresh clusters the rates are integrated out."""

    def __init__(self, rates, rows):
        empty = np.full((1, rates.shape[1]), np.nan)
        self.known, self.rates = rows.known, np.vstack([rates, empty])[rows.component]

    def log_density(self, x, log_weights):  # noqa: ARG002
        fresh = stats.nbinom(SHAPE, RATE / (RATE + 1.0)).logpmf(x[:, None])
        known = stats.poisson(self.rates).logpmf(x[:, None])
        return np.nan_to_num(np.where(self.known[:, None], known, fresh)).sum(axis=-1)

    def opened(self, rng, rows, x, values=None):  # noqa: ARG002
        shape, rate = rate_law((~np.isnan(x[0])).astype(float), np.nan_to_num(x[0]))
        return rng.gamma(shape, 1.0 / rate, (len(rows), len(shape)))

    def log_opened(self, x, rows, opened):  # noqa: ARG002
        return np.nan_to_num(stats.poisson(opened).logpmf(x[0])).sum(axis=-1)

    def fill(self, rng, rows, weights, x, columns):  # noqa: ARG002
        fresh = rng.gamma(SHAPE, 1.0 / RATE, (len(rows), len(columns)))
        known = self.known[rows][:, None]
        return rng.poisson(np.where(known, self.rates[rows][:, columns], fresh)), None


class PoissonKind(FeatureKind):
    view, arrays, dim = "counts", ("counts",), "count"
    words = MappingProxyType({"poisson": ()})

    def column(self, name, table, wish):
        values = table.source(name).known()
        if values.min() < 0 or not are_whole(values):
            raise InputError(f"Column {name!r} cannot be {wish.kind}: counts are whole numbers.")
        return Column(name, "poisson", "counts, as asked")

    def cells(self, columns, table, unknown):  # noqa: ARG002
        return {"counts": np.column_stack([table.source(own.name).numbers() for own in columns])}

    def missing(self, cells):
        return np.isnan(cells.data["counts"])

    def make_view(self, columns):
        return PoissonView(len(columns))

    def block(self, draws, columns, table, own):
        return PoissonBlock(draws, columns, table, own)


register_kind(PoissonKind())

# The kind ends here: what follows are its tests.


def test_rates_by_ratio():
    """Log joint minus log density of a component's rate is constant."""
    rng, z, view = np.random.default_rng(0), np.array([0, 1, 0, 0, 1]), PoissonView()
    x = rng.poisson(3.0, (5, 1)).astype(float)
    shape, rate = rate_law(3.0, x[z == 0].sum())
    grid = np.geomspace(0.1, 20.0, 7)
    joint = [view.log_joint(PoissonState(np.array([[value], [1.5]])), x, z) for value in grid]
    assert np.ptp(joint - stats.gamma(shape, scale=1.0 / rate).logpdf(grid)) < 1e-9


def model(partition, **options):
    return Model(
        partition,
        n_users=6,
        others={"counts": Observed(PoissonView(), np.zeros((6, 1)))},
        **options,
    )


MODELS = {
    "counts alone": lambda: model(ChineseRestaurant(Gamma(2.0, 2.0))),
    "counts beside features": lambda: model(
        ChineseRestaurant(Gamma(2.0, 2.0)), features=np.zeros((6, 2))
    ),
    "counts of four clusters": lambda: model(FiniteDirichlet(4, Gamma(2.0, 2.0))),
}


def statistics(model, state):
    """Those of every model, and of the rates and counts."""
    rates, counts = state.views["counts"].rates, model.others["counts"].vectors[:, 0]
    own = {
        "rates": np.log(rates).mean(),
        "counts": np.sqrt(counts).mean(),
        "fit": np.arctan(counts - rates[state.z, 0]).mean(),
    }
    return checks.statistics(model, state) | own


@pytest.mark.parametrize(
    "name", [slow("counts alone"), slow("counts beside features"), slow("counts of four clusters")]
)
def test_joint(name):
    checks.assert_joint(MODELS[name](), seed=1, look=statistics)


@pytest.mark.slow
def test_a_wrong_rate_is_rejected():
    """A component that counts one user too many, drawn after each step."""
    wrong = checks.mutate(
        redraw, rate_law=checks.mutate(rate_law, "RATE + count", "RATE + count + 1.0")
    )

    def step(rng, model, state):
        state = checks.gibbs_step(rng, model, state)
        record = Poisson(model.others["counts"].vectors, state.views["counts"].rates)
        drawn = PoissonState(wrong(stream_of(rng), state.z, record).rates)
        return dataclasses.replace(state, views={**state.views, "counts": drawn})

    checks.assert_rejected(MODELS["counts beside features"](), 1, step=step, look=statistics)


N_USERS, N_DRAWS = 400, 60


@pytest.fixture(scope="module")
def post():
    """Draws of two clusters of users, whose counts come from the last of the draws; the first user
    has none."""
    rng, z = np.random.default_rng(0), np.arange(N_USERS) % 2
    rates = rng.gamma(20.0, np.array([0.1, 0.6]), (N_DRAWS, 2))
    x = rng.poisson(rates[-1][z]).astype(float)[:, None]
    own = Model(
        ChineseRestaurant(Gamma(2.0, 2.0)),
        n_users=N_USERS,
        others={"counts": Observed(PoissonView(), x)},
    )
    store = Store(own)
    for drawn in rates:
        store.append(
            State(
                LabelsByView.agreeing(z), rng.gamma(2.0), {"counts": PoissonState(drawn[:, None])}
            )
        )
    coords = {"user": np.arange(N_USERS)}
    spec = ModelSpec(None, codebook=Columns((Column("posts", "poisson"),)))
    found = Posterior(tree_of([store.drain()], spec, None, coords))
    x[0] = np.nan
    found.tree["observed_data"] = xr.DataTree(xr.Dataset({"counts": (("user", "count"), x)}))
    return found


def log_predictive(post, count):
    """ln p(count of a new user) by the mixture of every draw, the rate of a new cluster integrated
    out."""
    alpha, half = post.flat("alpha"), 0.5 * N_USERS
    known = (
        stats.poisson(post.components["counts.rates"].reshape(N_DRAWS, 2)).pmf(count).sum(axis=1)
    )
    fresh = stats.nbinom(SHAPE, RATE / (RATE + 1.0)).pmf(count)
    return np.log(np.mean((half * known + alpha * fresh) / (N_USERS + alpha)))


def new_users(post, counts):
    x = Features.of(post, {"counts": np.array(counts, dtype=float)[:, None]})
    return NewUsers(Candidates(post), x, len(x)), x


def test_new_rows_have_the_density_of_the_mixture(post):
    users, _ = new_users(post, [0, 3, 17, np.nan])
    expected = [*(log_predictive(post, count) for count in (0, 3, 17)), 0.0]
    np.testing.assert_allclose(users.log_density(), expected, atol=1e-10)
    every, _ = new_users(post, np.arange(300))
    assert logsumexp(every.log_density()) == pytest.approx(0.0, abs=1e-6)
    few, many = new_users(post, [0, 25])[0].probabilities()
    assert few[0] > 0.9
    assert many[1] > 0.9


def test_whoever_opens_a_cluster_leaves_its_mark(post):
    """The mean of p(next | opened) is the predictive given one count, a negative binomial."""
    rows, first, following = Candidates(post), *new_users(post, [30, 24])[1].cells[0][:, None]
    opened = np.repeat(np.flatnonzero(~rows.known)[:1], 20_000)
    own, rng = rows.features._rows[0], np.random.default_rng(1)
    found = np.exp(own.log_opened(following, opened, own.opened(rng, opened, first)))
    shape, rate = rate_law(1.0, 30.0)
    expected = stats.nbinom(shape, rate / (rate + 1.0)).pmf(24)
    error = found.std() / np.sqrt(len(found))
    assert abs(found.mean() - expected) < checks.ACCEPT * error


def test_cells_of_new_users_and_of_the_fit_are_filled_in(post):
    users, x = new_users(post, [4, np.nan])
    rng, n = np.random.default_rng(2), 4000
    found = imputed_of_new(rng, post, users, x, n, ["a", "b"])
    drawn = found.draws("b", "posts")
    for count in (0, 2, 12):
        share = np.exp(log_predictive(post, count))
        error = np.sqrt(share * (1.0 - share) / n)
        assert abs((drawn == count).mean() - share) < checks.ACCEPT * error
    assert found.frame["posts"].tolist() == [4.0, np.median(drawn)]
    own = imputed_of_fit(rng, post)
    assert own.cells[["user", "column"]].to_numpy().tolist() == [[0, "posts"]]
    assert own.n_draws == N_DRAWS
    assert own.draws(0, "posts").mean() == pytest.approx(2.0, abs=1.0)


def test_checks_profiles_and_replicates(post):
    """Residuals in the draw that the counts come from are standard normal."""
    residuals = residuals_of(post, None)
    assert residuals.features.shape == (N_DRAWS, N_USERS, 1)
    assert stats.kstest(residuals.features[-1, 1:, 0], "norm").pvalue > 0.001
    assert table_profile(post, np.arange(2, N_USERS, 2))["feature_medians"]["posts"] < 4
    tree = post.to_arviz(["observed_data", "posterior_predictive", "log_likelihood"])
    counts = tree["posterior_predictive"]["counts"]
    assert counts.dims == ("chain", "draw", "user", "count")
    rates = post.components["counts.rates"].reshape(N_DRAWS, 2)
    np.testing.assert_allclose(
        counts.values[0, :, ::2].mean(axis=(1, 2)), rates[:, 0], rtol=0.5, atol=0.5
    )
    log_likelihood = tree["log_likelihood"]["features"].values[0]
    assert (log_likelihood[:, 0] == 0.0).all()
    observed = tree["observed_data"]["counts"].values[1:, 0]
    np.testing.assert_allclose(
        log_likelihood[-1, 1:], stats.poisson(rates[-1][np.arange(1, N_USERS) % 2]).logpmf(observed)
    )


def test_profiles_leave_the_kind_out_and_say_so(post):
    with pytest.raises(AbsentError, match="Kinds from outside the package are left out: posts"):
        profiles_of(post, np.arange(N_USERS) % 2, None, None, 0.95)


@pytest.mark.parametrize(
    ("times", "verdict"),
    [pytest.param(1.0, "fine", marks=pytest.mark.slow), (2.0, "the model is wrong here")],
)
def test_checks_notice_counts_of_another_distribution(post, times, verdict):
    rng, draws = np.random.default_rng(3), np.full(5, N_DRAWS - 1)
    rows = 2 * draws[:, None] + np.arange(N_USERS) % 2
    own = post.blocks[0].residuals(rng, times * post.data["counts"], draws, rows)
    residuals = dataclasses.replace(residuals_of(post, None), features=own)
    context = Context({}, False, ChineseRestaurant(Gamma(2.0, 2.0)))
    assert vector_checks(rng, residuals, context)[0].verdict == verdict


def forum_users(n=30):
    """Two groups of users, who differ in how often they post and vote; some cells are missing."""
    rng, group = np.random.default_rng(4), np.arange(n) % 2
    table = pd.DataFrame(
        {
            "posts": rng.poisson(np.array([2.0, 14.0])[group]).astype(float),
            "age": rng.normal(40.0, 9.0, n),
            "town": rng.choice(["Lyon", "Metz"], n),
            "votes": rng.poisson(np.array([9.0, 1.0])[group]),
        }
    )
    table.loc[4, "posts"] = np.nan
    table.loc[5, "age"] = np.nan
    return table, group


@pytest.fixture(scope="module")
def fitted():
    columns = {"posts": "poisson", "votes": "poisson"}
    made = dv.DualViewMixture(
        columns=columns, engine=dv.Gibbs(n_warmup=40), n_draws=40, n_chains=1, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # forty draws have not converged
        return made.fit(forum_users()[0])


def test_words_and_cells_of_the_kind():
    table = forum_users()[0]
    codebook = Columns.from_table(table, {"posts": "poisson"})
    assert [column.kind for column in codebook.columns] == [
        "poisson",
        "continuous",
        "nominal",
        "count",
    ]
    assert codebook.columns[0].missing == pytest.approx(1 / 30)
    assert Columns.from_json(codebook.to_json()) == codebook
    with pytest.raises(InputError, match="takes no 'levels'"):
        Columns.from_table(table, {"posts": {"kind": "poisson", "levels": ["a", "b"]}})
    with pytest.raises(InputError, match="'age' cannot be poisson"):
        Columns.from_table(table, {"age": "poisson"})


@pytest.mark.slow
def test_a_fit_predicts_fills_in_and_checks_the_kind(fitted, tmp_path):
    _, group = forum_users()
    post = fitted.posterior_
    assert [block.view for block in post.blocks] == ["features", "categories", "counts"]
    rates = post.components["counts.rates"]
    assert rates.shape[1] == 2
    labels = fitted.labels_
    likeness = [(labels == labels[own])[group == own].mean() for own in (0, 1)]
    assert min(likeness) > 0.8
    new = pd.DataFrame(
        {"votes": [0, 9], "town": [None, "Metz"], "posts": [15.0, np.nan], "age": 40.0}
    )
    assert fitted.predict(new).tolist() == [fitted.labels_[1], fitted.labels_[0]]
    assert np.isfinite(fitted.score_samples(new)).all()
    filled = fitted.impute()
    assert filled.cells[["user", "column"]].to_numpy().tolist() == [[4, "posts"], [5, "age"]]
    assert filled.draws(4, "posts").mean() < 6.0
    assert fitted.impute(new, n_draws=20).frame["posts"].iloc[1] < 6.0
    assert len(fitted.check()) > 0
    assert set(fitted.profiles()["column"]) == {"age", "town"}
    tree = post.to_arviz(["observed_data", "posterior_predictive", "log_likelihood"])
    assert tree["posterior_predictive"]["counts"].dims[-1] == "count"
    post.save(tmp_path / "run.nc")
    again = dv.load(tmp_path / "run.nc")
    assert again.spec.codebook == post.spec.codebook
    found, own = (Features.of(one, one.data).cells for one in (again, post))
    np.testing.assert_array_equal(found[2], own[2])


@pytest.mark.slow
def test_a_fit_of_several_tables(fitted):
    table, _ = forum_users()
    tables = {"profile": table[["age", "posts"]], "activity": table[["votes", "town"]]}
    columns = {"profile.posts": "poisson", "activity.votes": "poisson"}
    several = dv.DualViewMixture(**fitted.get_params()).set_params(columns=columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        several.fit(tables)
    assert several.posterior_.spec.layout.others["counts"] == (1, 1)
    assert several.predict_proba(tables).shape[0] == len(table)
    assert several.impute().cells["column"].tolist() == ["profile.posts", "profile.age"]
