"""Simulation-based calibration for users: ranks, verdicts and errors."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview import plots
from dualview.errors import InputError
from dualview.evaluation.calibration import Calibration

mpl.use("Agg")


@pytest.fixture(scope="module")
def model() -> dv.DualViewMixture:
    forum = dv.datasets.agreement(8, 10, seed=1)
    return dv.DualViewMixture(n_warmup=20, n_draws=20, n_chains=1).fit(
        forum.features, dv.SharedOutcome(forum.participation, forum.outcome)
    )


def test_ranks_are_those_of_every_quantity(model: dv.DualViewMixture) -> None:
    found = dv.calibrate(model, n=6, n_warmup=30, thin=2)
    assert {"alpha", "n_clusters", "latent", "params.noise_precision", "features.base_dof"} <= set(
        found.ranks
    )
    assert found.ranks.shape[0] == 6
    assert ((found.ranks >= 0) & (found.ranks <= 19)).all().all()
    pd.testing.assert_frame_equal(
        dv.calibrate(model, n=6, n_warmup=30, thin=2, n_jobs=2).ranks, found.ranks
    )
    assert "data sets from the prior" in found.text()
    assert len(plots.ranks(found).ravel()) >= len(found.ranks.columns)


def test_ranks_that_are_not_uniform_are_told() -> None:
    rng = np.random.default_rng(0)
    flat, narrow = (
        rng.integers(0, 20, 200),
        np.clip(np.round(19 * rng.beta(0.3, 0.3, 200)), 0, 19).astype(int),
    )
    assert Calibration(pd.DataFrame({"flat": flat}), 19, 0).calibrated
    both = Calibration(pd.DataFrame({"flat": flat, "narrow": narrow}), 19, 0)
    assert not both.calibrated
    assert both.text().splitlines()[1].startswith("narrow")


@pytest.mark.slow
def test_posteriors_of_small_forums_are_calibrated(model: dv.DualViewMixture) -> None:
    assert dv.calibrate(model, n=200).calibrated


def test_bad_requests(model: dv.DualViewMixture) -> None:
    with pytest.raises(InputError, match=r"takes a fitted DualViewMixture: call model\.fit"):
        dv.calibrate(dv.DualViewMixture())
    with pytest.raises(InputError, match="n must be a whole number of at least 1"):
        dv.calibrate(model, n=0)
    with pytest.raises(InputError, match="ranks draws what"):
        plots.ranks(3)


def test_the_former_address_works_and_names_the_new_one():
    with pytest.warns(FutureWarning, match=r"dualview\.evaluation\.calibration"):
        from dualview.calibration import Calibration as Former
    assert Former is Calibration
