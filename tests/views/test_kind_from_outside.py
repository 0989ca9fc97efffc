"""The seam for new kinds of views: counts with a Poisson distribution, added from here."""

import dataclasses
import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

import checks
from dualview.model import Model, Observed
from dualview.numerics.compiling import uncached
from dualview.numerics.dispatch import register
from dualview.numerics.packing import put
from dualview.numerics.streams import standard_gamma, stream_of
from dualview.partitions.alpha import Gamma
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet
from dualview.views import View

SHAPE, RATE = 2.0, 0.5  # of the gamma prior of a component's rate


def slow(name):
    return pytest.param(name, marks=pytest.mark.slow)


class Poisson(NamedTuple):
    """vectors (U, 1): counts, as floats; rates (C,) of the columns."""

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
    counts, totals, rates = (
        np.zeros(len(view.rates)),
        np.zeros(len(view.rates)),
        np.empty(len(view.rates)),
    )
    for u in range(len(z)):
        counts[z[u]] += 1.0
        totals[z[u]] += view.vectors[u, 0]
    for k in range(len(rates)):
        shape, rate = rate_law(counts[k], totals[k])
        rates[k] = standard_gamma(rng, shape) / rate
    return Poisson(view.vectors, rates)


@uncached
def open_columns(rng, n_auxiliary, n_room, marginal, view):  # noqa: ARG001
    n = len(view.rates)
    wide = Poisson(view.vectors, np.append(view.rates, np.empty(n_auxiliary + n_room)))
    for c in range(n, n + n_auxiliary):
        open_column(rng, c, wide)
    return wide


@uncached
def open_column(rng, column, view):
    view.rates[column] = standard_gamma(rng, SHAPE) / RATE


@uncached
def score(table, offset, first, end, column, view):
    for u in range(first, end):
        x = view.vectors[u, 0]
        table[column, u - offset] += (
            x * math.log(view.rates[column]) - view.rates[column] - math.lgamma(x + 1.0)
        )


@uncached
def log_density(z, start, view):
    for k in range(len(view.rates)):
        start += (SHAPE - 1.0) * math.log(view.rates[k]) - RATE * view.rates[k]
    for u in range(len(z)):
        start += (
            view.vectors[u, 0] * math.log(view.rates[z[u]])
            - view.rates[z[u]]
            - math.lgamma(view.vectors[u, 0] + 1.0)
        )
    return start


@uncached
def grow(view):
    return Poisson(view.vectors, np.append(view.rates, np.empty(len(view.rates))))


@uncached
def compact(counts, n_kept, view):  # noqa: ARG001
    return Poisson(view.vectors, view.rates[: len(counts)][counts > 0])


@uncached
def component_width(view):  # noqa: ARG001
    return 1


@uncached
def put_component(row, at, column, view):
    return put(row, at, view.rates[column : column + 1])


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


class PoissonView(View):
    n_dims = 1
    component_shapes = MappingProxyType({"rates": ()})

    def log_joint(self, state, x, z):
        return float(log_density(z, 0.0, Poisson(x, state.rates)))

    def start(self, rng, x, z, n_components):
        return PoissonState(redraw(stream_of(rng), z, Poisson(x, np.ones(n_components))).rates)

    def draw_prior(self, rng, n_components):
        return PoissonState(rng.gamma(SHAPE, 1.0 / RATE, n_components))

    def simulate(self, rng, state, z):
        return rng.poisson(state.rates[z]).astype(float)[:, None]

    def record(self, state, x, rows):  # noqa: ARG002
        return Poisson(x, state.rates)

    def state(self, record):
        return PoissonState(record.rates)

    def restored(self, parts):
        return PoissonState(**parts)


# The kind ends here: what follows are its tests.


def test_rates_by_ratio():
    """Log joint minus log density of a component's rate is constant."""
    rng, z, view = np.random.default_rng(0), np.array([0, 1, 0, 0, 1]), PoissonView()
    x = rng.poisson(3.0, (5, 1)).astype(float)
    shape, rate = rate_law(3.0, x[z == 0].sum())
    grid = np.geomspace(0.1, 20.0, 7)
    joint = [view.log_joint(PoissonState(np.array([value, 1.5])), x, z) for value in grid]
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
        "fit": np.arctan(counts - rates[state.z]).mean(),
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
    wrong = checks.rebind(
        redraw, rate_law=checks.mutate(rate_law, "RATE + count", "RATE + count + 1.0")
    )

    def step(rng, model, state):
        state = checks.gibbs_step(rng, model, state)
        record = Poisson(model.others["counts"].vectors, state.views["counts"].rates)
        drawn = PoissonState(wrong(stream_of(rng), state.z, record).rates)
        return dataclasses.replace(state, views={**state.views, "counts": drawn})

    scores = checks.joint_test(
        MODELS["counts beside features"](), seed=1, step=step, look=statistics
    )
    assert checks.worst(scores)[1] > checks.REJECT
