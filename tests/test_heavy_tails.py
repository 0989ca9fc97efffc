"""Fits with clusters of heavy tails: how they are asked for, what they keep, and what they say of
new users."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

import dualview as dv
from dualview.errors import InputError
from dualview.posterior.prediction import candidates

pytestmark = [
    pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning"),
    pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning"),
]
SHORT: dict[str, Any] = {"engine": dv.Gibbs(n_warmup=60, thin=3), "n_draws": 8, "n_chains": 2}


def people(n: int = 60) -> pd.DataFrame:
    """Two groups of t noise with three degrees of freedom."""
    rng = np.random.default_rng(3)
    group = np.arange(n) % 2
    noise = rng.standard_normal((n, 2)) / np.sqrt(rng.chisquare(3.0, (n, 1)) / 3.0)
    return pd.DataFrame({"age": 40.0 + 20.0 * group + 3.0 * noise[:, 0], "size": noise[:, 1]})


@pytest.fixture(scope="module")
def model() -> dv.DualViewMixture:
    return dv.DualViewMixture(2, feature_prior="student", random_state=1, **SHORT).fit(people())


def laws(model: dv.DualViewMixture, row: int) -> Any:
    """The location, scale matrix and ν of a row of the table of components, in the user's units."""
    post = model.posterior_
    table, units = post.components, post.spec.units["features"]
    factor = table["features.factors"][row]
    scale = units.factor @ np.linalg.inv(factor @ factor.T) @ units.factor.T
    center = units.mean + units.factor @ table["features.means"][row]
    return center, scale, post.flat("features.tail_dof")[table["owner"][row]]


def log_weights(model: dv.DualViewMixture) -> np.ndarray:
    """ln of the prior weight of each component for a new user."""
    post = model.posterior_
    table, alpha = post.components, post.flat("alpha")
    own = alpha[table["owner"]]
    return np.log((table["count"] + own / 2.0) / (60.0 + own) / len(alpha))


def test_new_users_have_a_mixture_of_t_densities(model: dv.DualViewMixture) -> None:
    x = pd.DataFrame({"age": [41.0, 75.0, 300.0], "size": [0.3, -6.0, 4.0]})
    weights = log_weights(model)
    found = []
    for row in x.to_numpy():
        own = [stats.multivariate_t(*laws(model, k)).logpdf(row) for k in range(len(weights))]
        found.append(logsumexp(weights + own))
    np.testing.assert_allclose(model.log_density(x), found, rtol=1e-8)
    alone = []
    for value in x["age"]:
        parts = [laws(model, k) for k in range(len(weights))]
        own = [stats.t(nu, c[0], np.sqrt(s[0, 0])).logpdf(value) for c, s, nu in parts]
        alone.append(logsumexp(weights + own))
    np.testing.assert_allclose(model.log_density(x[["age"]]), alone, rtol=1e-8)
    shares = model.predict_proba(x)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_a_column_given_another_is_a_mixture_of_t_distributions(model: dv.DualViewMixture) -> None:
    law = model.predict_cells("size", given={"age": 90.0}, n_draws=4000)
    weights = log_weights(model)
    below = []
    at = np.array([-3.0, 0.0, 3.0])
    total, cdf = -np.inf, np.zeros(3)
    for k, weight in enumerate(weights):
        center, scale, nu = laws(model, k)
        slope, square = scale[0, 1] / scale[0, 0], (90.0 - center[0]) ** 2 / scale[0, 0]
        own = weight + stats.t(nu, center[0], np.sqrt(scale[0, 0])).logpdf(90.0)
        rest = scale[1, 1] - slope * scale[0, 1]
        spread = np.sqrt((nu + square) / (nu + 1.0) * rest)
        given = stats.t(nu + 1.0, center[1] + slope * (90.0 - center[0]), spread)
        below.append(np.exp(own) * given.cdf(at))
        total = np.logaddexp(total, own)
    cdf = np.sum(below, axis=0) / np.exp(total)
    ours = np.array([law.cdf(np.array([value]))[0] for value in at])
    np.testing.assert_allclose(ours, cdf, atol=0.01)  # rows are drawn


def test_they_are_kept(model: dv.DualViewMixture, tmp_path: Path) -> None:
    post = model.posterior_
    assert post["features.tail_dof"].shape == (2, 8)
    assert (post["features.tail_dof"] > 1.0).all()
    assert "log features.tail_dof" in post.diagnostics().index
    assert post.spec.tails == "student"
    post.save(tmp_path / "run.nc")
    again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
    assert again.feature_prior == "student"
    x = people()[:5]
    np.testing.assert_array_equal(again.score_samples(x), model.score_samples(x))


@pytest.mark.slow  # compiles for a minute
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    x = people(30)
    x.loc[3, "age"] = np.nan
    settings: dict[str, Any] = {"feature_prior": "student", "n_chains": 1, "random_state": 2}
    short, long = ({"engine": dv.Gibbs(n_warmup=10), "n_draws": n} for n in (6, 12))
    whole = dv.DualViewMixture(**settings, **long).fit(x).posterior_
    folder = tmp_path / "run"
    dv.DualViewMixture(**settings, **short, checkpoint=folder).fit(x)
    resumed = dv.DualViewMixture(**settings, **long, checkpoint=folder).fit(x).posterior_
    for name in ("z", "features.tail_dof", "features.cells", "log_joint"):
        np.testing.assert_array_equal(resumed[name], whole[name])


@pytest.fixture(scope="module")
def tables() -> dv.DualViewMixture:
    """Two tables, with missing cells, counts and ratings."""
    x, rng = people(24), np.random.default_rng(0)
    x.loc[[2, 5], "age"] = np.nan
    second = pd.DataFrame({"posts": rng.poisson(4.0, 24), "grade": rng.integers(1, 5, 24)})
    return dv.DualViewMixture(
        feature_prior="student-diagonal",
        columns={"second.grade": "ordinal", "second.posts": "count"},
        random_state=0,
        **SHORT,
    ).fit({"first": x, "second": second})


@pytest.mark.slow  # compiles for a minute
def test_several_tables_have_a_number_each(
    tables: dv.DualViewMixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_BASE_DRAWS", 100)
    post = tables.posterior_
    assert post["features.tail_dof"].shape == (2, 8, 2)
    assert "log features.tail_dof[1]" in post.diagnostics().index
    new = {
        "first": pd.DataFrame({"age": [None, 50.0], "size": [0.1, 9.0]}),
        "second": pd.DataFrame({"posts": [3, 60], "grade": [1, 4]}),
    }
    assert np.isfinite(tables.score_samples(new)).all()
    profiles = tables.profiles()
    assert np.isfinite(profiles["mean"]).all()
    levels = profiles[profiles["column"].str.contains("grade")].groupby("cluster")["mean"].sum()
    np.testing.assert_allclose(levels, 1.0)


def test_what_does_not_go_with_them_is_refused(tmp_path: Path) -> None:
    x, asked = people(20), {"feature_prior": "student"}
    with pytest.raises(InputError, match="does not do clusters with heavy tails yet"):
        dv.DualViewMixture(engine="variational", **asked).fit(x)
    forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=0)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    shards = dv.write_shards(tmp_path / "shards", forum.features, behavior)
    with pytest.raises(InputError, match="do not have clusters with heavy tails"):
        dv.DualViewMixture(engine="variational", **asked).fit(shards)
    prior = dv.GaussianPrior(0.0, 1.0, tails="student")
    with pytest.raises(InputError, match="leave tails out of behavior_prior"):
        dv.DualViewMixture(behavior_prior=prior).fit(forum.features, behavior)
