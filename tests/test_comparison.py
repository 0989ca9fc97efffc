"""Leave-one-out scores: by hand, by ArviZ, and by fits without the observation."""

from types import SimpleNamespace
from typing import Any

import arviz_base
import numpy as np
import pytest
from arviz_stats import loo

import dualview as dv
from checks import ACCEPT
from dualview.comparison import _relative_efficiency, leave_one_out, log_likelihoods, standing

USER = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
PRIOR = dv.GaussianPrior(0.3, 0.5)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def behavior(kind: str) -> Any:
    rng = np.random.default_rng(1)
    design = rng.uniform(0.5, 2.0, (len(USER), 1))
    latent = np.array([1.0, -1.0, 0.5, -0.5])[USER]
    if kind == "binary":
        return dv.BinaryOutcomes(USER, design, rng.random(len(USER)) < 1 / (1 + np.exp(-2.0 * design[:, 0] * latent)))
    outcome = design[:, 0] * latent + 0.8 * rng.standard_normal(len(USER))
    return dv.UserRegression(USER, design, outcome, noise_variance=0.5)


def fit(observations: Any, seed: int, n_draws: int = 200) -> dv.DualViewMixture:
    settings = {"n_warmup": 100, "n_draws": n_draws, "n_chains": 2, "behavior_prior": PRIOR, "random_state": seed}
    return dv.DualViewMixture(1, **settings).fit(None, observations)


@pytest.mark.parametrize("kind", ["binary", "normal"])
def test_log_likelihoods_are_those_of_the_outcomes(kind: str) -> None:
    observations = behavior(kind)
    model = fit(observations, 0, 30)
    expected = model.posterior_["latent"][..., USER] * observations.design[:, 0]
    if kind == "binary":
        chance = 1 / (1 + np.exp(-expected))
        wanted = np.log(np.where(observations.outcome == 1, chance, 1 - chance))
    else:
        precision = model.posterior_["noise_precision"][..., None]
        wanted = 0.5 * np.log(precision / (2 * np.pi)) - 0.5 * precision * (observations.outcome - expected) ** 2
    np.testing.assert_allclose(log_likelihoods(model), wanted, rtol=1e-9, atol=1e-14)


def test_table_adds_up_the_scores() -> None:
    observations = behavior("normal")
    models = {"one": fit(observations, 0, 100), "other": fit(observations, 5, 100)}
    table = dv.compare(models)
    scores = {name: leave_one_out(log_likelihoods(model)) for name, model in models.items()}
    first, second = table.index
    behind = scores[first].elpd - scores[second].elpd
    n = len(behind)
    row = table.loc[second]
    assert row["difference"] == pytest.approx(behind.sum())
    assert row["difference_se"] == pytest.approx(np.sqrt(n / (n - 1) * ((behind - behind.mean()) ** 2).sum()))
    assert row["elpd"] == pytest.approx(scores[second].elpd.sum())
    assert row["se"] == pytest.approx(np.sqrt(n) * scores[second].elpd.std())


def autoregressive(rho: float, shape: tuple[int, ...]) -> np.ndarray:
    """Stationary chains (chain, draw, n) of unit variance."""
    noise = np.random.default_rng(3).standard_normal(shape)
    for t in range(1, shape[1]):
        noise[:, t] = rho * noise[:, t - 1] + np.sqrt(1 - rho**2) * noise[:, t]
    return noise


def test_dependent_draws_are_not_taken_for_independent_ones() -> None:
    rho = 0.9
    values = 0.5 * autoregressive(rho, (4, 2000, 3))
    efficiencies = [_relative_efficiency(values[..., i]) for i in range(3)]
    np.testing.assert_allclose(efficiencies, (1 - rho) / (1 + rho), rtol=0.4)
    found = leave_one_out(values)
    for i, efficiency in enumerate(efficiencies):
        data = {"posterior": {"unused": np.zeros((4, 2000))}, "log_likelihood": {"y": values[..., [i, i - 1]]}}
        theirs = loo(arviz_base.from_dict(data), pointwise=True, reff=efficiency)
        assert found.elpd[i] == pytest.approx(float(theirs.elpd_i[0]))
        assert found.shape[i] == pytest.approx(float(theirs.pareto_k[0]))
        assert found.elpd[i] != pytest.approx(
            float(loo(arviz_base.from_dict(data), pointwise=True, reff=1.0).elpd_i[0]), rel=1e-9
        )


def test_few_effective_draws_make_a_score_unsure_sooner() -> None:
    """The same values, each held for a hundred draws: a shape that thousands of draws can bear is too much for a few dozen."""
    rng = np.random.default_rng(4)
    values = np.log(rng.pareto(1 / 0.58, (4, 2000, 1)) + 1.0) * -1.0  # ratios 1/p with a Pareto tail of shape 0.58
    held = np.repeat(values[:, :20], 100, axis=1)
    assert not leave_one_out(values).unsure[0]
    assert leave_one_out(held).unsure[0]


def test_constant_likelihoods_and_short_chains_have_scores() -> None:
    found = leave_one_out(np.full((2, 30, 2), -1.5))
    np.testing.assert_allclose(found.elpd, -1.5)
    assert _relative_efficiency(np.zeros((1, 3))) == 1.0


def test_unsure_scores_are_no_ranking() -> None:
    assert standing(0.0, 0.0) == "best"
    assert standing(9.0, 1.0) == "clearly behind"
    assert standing(0.0, 0.0, unsure=True) == "highest score, not sure"
    assert standing(9.0, 1.0, unsure=True) == "place not sure"


def test_notes_tell_unsure_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two fits has a heavy tail: neither place is sure, and the table says why."""
    rng = np.random.default_rng(6)
    good = -1.0 + 0.1 * rng.standard_normal((2, 500, 4))
    bad = good - 2.0
    bad[..., 1] = -4.0 - np.log(rng.pareto(1 / 1.5, (2, 500)) + 1.0)
    monkeypatch.setattr("dualview.comparison.log_likelihoods", lambda model, _: model.values)
    table = dv.compare({"good": SimpleNamespace(values=good), "bad": SimpleNamespace(values=bad)}, behavior=object())
    assert table["unsure"].tolist() == [0, 1]
    assert table.loc["good", "note"] == "best"
    assert table.loc["bad", "note"].startswith("place not sure; 1 of 4 observations")
    worse = dv.compare({"good": SimpleNamespace(values=good - 9.0), "bad": SimpleNamespace(values=bad)}, behavior=object())
    assert worse.loc["bad", "note"].startswith("highest score, not sure")
    assert worse.loc["good", "note"] == "place not sure"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "normal"])
def test_scores_are_those_of_fits_without_the_observation(kind: str) -> None:
    observations = behavior(kind)
    n, seeds = observations.n_observations, range(5)

    def without(i: int, seed: int) -> float:
        rest, one = observations.take(np.arange(n) != i), observations.take([i])
        return float(fit(rest, 100 + seed, 1000).predict_outcome(one).log_density(one.outcome)[0])

    ours = np.array([leave_one_out(log_likelihoods(fit(observations, seed, 2000))).elpd for seed in seeds])
    theirs = np.array([[without(i, 10 * i + seed) for i in range(n)] for seed in seeds])
    error = np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / len(seeds))
    total = np.sqrt((ours.sum(axis=1).var(ddof=1) + theirs.sum(axis=1).var(ddof=1)) / len(seeds))
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / error).max() < 2 * ACCEPT  # five runs: errors are rough
    assert abs(ours.sum(axis=1).mean() - theirs.sum(axis=1).mean()) < 2 * ACCEPT * total
