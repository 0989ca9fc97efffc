"""The seam for new kinds of views: counts with a Poisson distribution, added from here."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from checks import assert_joint
from dualview.model import Model, Observed
from dualview.numerics.compiling import uncached
from dualview.numerics.dispatch import register
from dualview.numerics.packing import put
from dualview.numerics.streams import standard_gamma, stream_of
from dualview.partitions.alpha import Gamma
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet

SHAPE, RATE = 2.0, 0.5  # of the gamma prior of a component's rate


class Poisson(NamedTuple):
    """vectors (U, 1): counts, as floats; rates (C,) of the columns."""

    vectors: np.ndarray
    rates: np.ndarray


class PoissonState(NamedTuple):
    rates: np.ndarray

    @property
    def component_parts(self):
        return {"rates": self.rates}

    @property
    def base_parts(self):
        return {}

    @property
    def n_components(self):
        return len(self.rates)


@uncached
def rate_law(count, total):
    return SHAPE + total, RATE + count


@uncached
def redraw(rng, z, view):
    counts, totals, rates = np.zeros(len(view.rates)), np.zeros(len(view.rates)), np.empty(len(view.rates))
    for u in range(len(z)):
        counts[z[u]] += 1.0
        totals[z[u]] += view.vectors[u, 0]
    for k in range(len(rates)):
        shape, rate = rate_law(counts[k], totals[k])
        rates[k] = standard_gamma(rng, shape) / rate
    return Poisson(view.vectors, rates)


@uncached
def open_columns(rng, n_auxiliary, n_room, marginal, view):
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
        table[column, u - offset] += x * math.log(view.rates[column]) - view.rates[column] - math.lgamma(x + 1.0)


@uncached
def log_density(z, start, view):
    for k in range(len(view.rates)):
        start += (SHAPE - 1.0) * math.log(view.rates[k]) - RATE * view.rates[k]
    for u in range(len(z)):
        start += view.vectors[u, 0] * math.log(view.rates[z[u]]) - view.rates[z[u]] - math.lgamma(view.vectors[u, 0] + 1.0)
    return start


register(
    Poisson,
    redraw=redraw,
    open_columns=open_columns,
    open_column=open_column,
    retire=uncached(lambda column, view: None),
    adopt=uncached(lambda rng, u, column, view: None),
    grow=uncached(lambda view: Poisson(view.vectors, np.append(view.rates, np.empty(len(view.rates))))),
    compact=uncached(lambda counts, n_kept, view: Poisson(view.vectors, view.rates[: len(counts)][counts > 0])),
    score=score,
    collapsed=uncached(lambda view: False),
    log_density=log_density,
    base_width=uncached(lambda view: 0),
    put_base=uncached(lambda row, at, view: at),
    component_width=uncached(lambda view: 1),
    put_component=uncached(lambda row, at, column, view: put(row, at, view.rates[column : column + 1])),
)


@dataclass(frozen=True)
class PoissonView:
    n_dims = 1
    base_shapes = {}
    component_shapes = {"rates": ()}

    def log_joint(self, state, x, z):
        return float(log_density(z, 0.0, Poisson(x, state.rates)))

    def start(self, rng, x, z, n_components):
        return PoissonState(redraw(stream_of(rng), z, Poisson(x, np.ones(n_components))).rates)

    def draw_prior(self, rng, n_components):
        return PoissonState(rng.gamma(SHAPE, 1.0 / RATE, n_components))

    def simulate(self, rng, state, z):
        return rng.poisson(state.rates[z]).astype(float)[:, None]

    def record(self, state, x, rows):
        return Poisson(x, state.rates)

    def state(self, record):
        return PoissonState(record.rates)

    def restored(self, parts):
        return PoissonState(**parts)

    def is_narrow(self, record, least):
        return False


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
    return Model(partition, n_users=6, others={"counts": Observed(PoissonView(), np.zeros((6, 1)))}, **options)


MODELS = {
    "counts alone": lambda: model(ChineseRestaurant(Gamma(2.0, 2.0))),
    "counts beside features": lambda: model(ChineseRestaurant(Gamma(2.0, 2.0)), features=np.zeros((6, 2))),
    "of four clusters": lambda: model(FiniteDirichlet(4, Gamma(2.0, 2.0))),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name != "counts beside features" else name for name in MODELS])
def test_joint(name):
    assert_joint(MODELS[name](), seed=1)
