"""The sampler with nominal columns leaves the joint prior as it is, and mutants of it do not."""

import numpy as np
import pytest

import checks
from dualview.model import Model, Observed
from dualview.partitions.alpha import Gamma
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet
from dualview.views import Intervals, NominalView

SHARES = (0.5, 0.3, 0.2), (0.6, 0.4)


def slow(name):
    return pytest.param(name, marks=pytest.mark.slow)


def exact():
    """Two columns without a cell that is not exact."""
    return Intervals(np.zeros((6, 2)), np.zeros((6, 2)), np.zeros(2), np.eye(2), np.eye(2))


def model(partition, **options):
    codes = np.zeros((6, 2))
    codes[0, 0] = codes[3, 1] = codes[4, 0] = codes[4, 1] = -1.0
    return Model(
        partition, n_users=6, others={"categories": Observed(NominalView(SHARES), codes)}, **options
    )


MODELS = {
    "alone": lambda: model(ChineseRestaurant(Gamma(2.0, 2.0))),
    "beside features": lambda: model(
        ChineseRestaurant(Gamma(2.0, 2.0)), features=np.zeros((6, 2)), intervals=exact()
    ),
    "four clusters": lambda: model(FiniteDirichlet(4, Gamma(2.0, 2.0))),
}


def statistics(model, state):
    """Those of every model, and of shares, concentrations and levels."""
    view, codes = state.views["categories"], model.others["categories"].vectors
    theta = np.exp(view.logs)
    fit = [theta[state.z[u], codes[u, 0].astype(int)] for u in range(6) if codes[u, 0] >= 0]
    own = {
        "first share": theta[:, 0].mean(),
        "spread": np.abs(theta[:, 3] - 0.6).mean(),
        "concentration": np.log(view.concentrations).mean(),
        "level": (codes[:, 0] == 0).mean(),
        "fit": np.mean(fit),
        "same": (codes[1, 1] == codes[2, 1]) * (state.z[1] == state.z[2]),
    }
    return checks.statistics(model, state) | own


@pytest.mark.parametrize("name", [slow("alone"), slow("beside features"), slow("four clusters")])
def test_joint(name):
    checks.assert_joint(MODELS[name](), seed=1, look=statistics)
