import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr

import dualview as dv

mpl.use("Agg")

SETTINGS = {"n_warmup": 30, "n_draws": 40, "n_chains": 2}


@pytest.fixture(scope="session")
def fit():
    """A short fit, with these settings changed."""
    return lambda X=None, behavior=None, **changes: dv.DualViewMixture(**SETTINGS | changes).fit(
        X, behavior
    )


@pytest.fixture(scope="session")
def forum():
    return dv.datasets.agreement(n_users=24, n_threads=40, n_clusters=3, seed=4)


@pytest.fixture(scope="session")
def behavior(forum):
    return dv.SharedOutcome(forum.participation, forum.outcome)


@pytest.fixture(scope="session")
def model(fit, forum, behavior):
    return fit(forum.features, behavior, n_clusters=3)


@pytest.fixture(scope="session")
def inferred(fit, forum, behavior):
    return fit(forum.features, behavior)


@pytest.fixture(scope="session")
def features_only(fit, forum):
    return fit(forum.features, n_clusters=3)


@pytest.fixture(scope="session")
def posterior_from():
    """A posterior with these partitions z (chain, draw, user) and scalars (chain, draw), and
    nothing else."""

    def make(z, **scalars):
        n_clusters = np.array([[len(np.unique(draw)) for draw in chain] for chain in z])
        variables = {
            name: (("chain", "draw"), values)
            for name, values in ({"n_clusters": n_clusters} | scalars).items()
        }
        users = np.arange(np.shape(z)[2]).astype(str)
        draws = xr.Dataset(
            {"z": (("chain", "draw", "user"), z), **variables}, coords={"user": users}
        )
        tree = xr.DataTree.from_dict({"posterior": draws})
        tree.attrs["n_clusters"] = 0
        return dv.Posterior(tree)

    return make


@pytest.fixture
def axes():
    from matplotlib import pyplot

    return pyplot.subplots()[1]


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    from matplotlib import pyplot

    pyplot.close("all")
