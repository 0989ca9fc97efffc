"""BinaryOutcomes with trials: the binomial family, its joint tests, both engines, predictions,
scores, long tables and refusals."""

import functools
import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import binom, norm

import dualview as dv
from behaviors.families.known_prior import N_USERS as N_KNOWN
from behaviors.families.known_prior import USER, Q, joint_scores
from checks import ACCEPT, REJECT, worst
from dualview.behaviors.families import binomial as families
from dualview.behaviors.families.base import Parts
from dualview.behaviors.families.binomial import BinomialFamily, BinomialOutcome
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.records import Panel
from dualview.errors import InputError
from yardsticks import check_mean

TRIALS = np.array([1.0, 3.0, 10.0, 200.0, 7.0])
COUNTS = np.array([1.0, 0.0, 4.0, 150.0, 7.0])
ETA = np.array([-2.0, 0.5, 0.0, 1.2, 3.0])
EVERY = slice(0, 5)


def test_the_distribution_is_binomial() -> None:
    outcome, chances = BinomialOutcome(TRIALS), expit(ETA)
    np.testing.assert_allclose(
        outcome.log_density(COUNTS, ETA[None], EVERY)[0], binom.logpmf(COUNTS, TRIALS, chances)
    )
    np.testing.assert_allclose(
        outcome.below(COUNTS, ETA[None])[0], binom.cdf(COUNTS, TRIALS, chances)
    )
    step = 1e-5
    low, high = (outcome.log_density(COUNTS, (ETA + by)[None], EVERY)[0] for by in (-step, step))
    slope, bend = outcome.derivatives(COUNTS, ETA)
    np.testing.assert_allclose(slope, (high - low) / (2.0 * step), atol=1e-4)
    after, before = (outcome.derivatives(COUNTS, ETA + by)[0] for by in (step, -step))
    np.testing.assert_allclose(bend, (before - after) / (2.0 * step), atol=1e-4)
    low, high = (outcome.below(COUNTS, (ETA + by)[None])[0] for by in (-step, step))
    left = COUNTS < TRIALS
    falls = np.exp(outcome.fall(COUNTS, ETA[None]).value[0])
    np.testing.assert_allclose(falls[left], ((low - high) / (2.0 * step))[left], atol=1e-6)


@pytest.mark.parametrize("sd", [1e-3, 0.3, 1.5, 6.0])
def test_predictions_integrate_unsure_odds(sd: float) -> None:
    locations, sds = ETA[None], np.full((1, 5), sd)
    own = BinomialOutcome(TRIALS).predictive(
        5, 1, lambda cases: Parts(np.zeros((1, 1)), locations[:, cases], sds[:, cases])
    )

    def expected(function: Any, i: int) -> float:
        edges = np.unique(np.append(ETA[i] + sd * np.linspace(-10, 10, 41), [-2.0, 0.0, 2.0]))
        edges = edges[(edges >= ETA[i] - 10 * sd) & (edges <= ETA[i] + 10 * sd)]
        pieces = [
            quad(lambda x: function(expit(x)) * norm.pdf(x, ETA[i], sd), *ends, epsabs=1e-12)[0]
            for ends in itertools.pairwise(edges)
        ]
        return float(sum(pieces))

    wanted = [expected(lambda p, i=i: binom.pmf(COUNTS[i], TRIALS[i], p), i) for i in range(5)]
    np.testing.assert_allclose(np.exp(own.log_density(COUNTS)), wanted, rtol=1e-6, atol=1e-9)
    wanted = [expected(lambda p, i=i: binom.cdf(COUNTS[i], TRIALS[i], p), i) for i in range(5)]
    np.testing.assert_allclose(own.cdf(COUNTS), wanted, atol=1e-6)
    np.testing.assert_allclose(
        own.mean, [expected(lambda p, i=i: p * TRIALS[i], i) for i in range(5)], rtol=1e-6
    )
    high = own.quantile(0.9)
    assert (high <= TRIALS).all()
    assert (own.cdf(high) >= 0.9).all()
    drawn = own.draws(20_000)
    check_mean(drawn, own.mean)
    with pytest.raises(InputError, match="from 0 to the trials; got 2 of 1"):
        own.log_density([2, 0, 0, 0, 0])


def test_given_the_augmentation_successes_are_normal() -> None:
    rng, outcome = np.random.default_rng(2), BinomialOutcome(TRIALS)
    drawn = [outcome.augment(rng, COUNTS, ETA) for _ in range(3000)]
    for residual, precision in drawn[:3]:
        np.testing.assert_allclose(precision * (residual + ETA), COUNTS - 0.5 * TRIALS)
    half = np.where(ETA == 0.0, 0.25, np.tanh(0.5 * ETA) / (2.0 * np.where(ETA == 0, 1, ETA)))
    check_mean([precision for _, precision in drawn], TRIALS * half)


def rows() -> UserRows:
    design = np.random.default_rng(7).standard_normal((len(USER), Q))
    trials = np.array([1, 4, 2, 15, 3, 1, 6, 2.0])
    y = np.column_stack([np.minimum(trials, 1.0), trials])
    return UserRows(Panel.of(USER, design, y, N_KNOWN), BinomialFamily())


def look(likelihood: UserRows, latent: Any, params: Any) -> dict[str, float]:  # noqa: ARG001
    y, eta = likelihood.panel.outcome, likelihood.predictor(latent)
    share = y[:, 0] / y[:, 1]
    found = {f"latent {j}": np.arctan(latent[:, j]).mean() for j in range(Q)}
    found |= {"size": np.arctan(latent**2).mean(), "share": share.mean()}
    found |= {"fit": (np.arctan(eta) * share).mean(), "ends": (share * (1.0 - share)).mean()}
    return {name: float(value) for name, value in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("pooled", [False, True])
def test_steps_leave_the_joint_prior_as_it_is(pooled: bool) -> None:
    which, size = worst(joint_scores(rows(), pooled=pooled, look=look))
    assert size < ACCEPT, which


@pytest.mark.slow
def test_a_mutant_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The augmentation of one trial, and no step that would make good for it."""
    right = families.polya_gamma.draw_shapes_into

    class Wrong:
        @staticmethod
        def draw_shapes_into(rng: Any, shapes: Any, odds: Any, out: Any) -> None:
            right(rng, np.ones_like(shapes), odds, out)

    monkeypatch.setattr(families, "polya_gamma", Wrong)
    monkeypatch.setattr(BinomialFamily, "also_steps", False)
    _, size = worst(joint_scores(rows(), look=look))
    assert size > REJECT


class World:
    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        n_users = 14
        self.user = np.repeat(np.arange(n_users), 4)
        self.keen = np.arange(n_users) % 2
        self.X = np.where(self.keen, 3.0, -3.0)[:, None] + rng.normal(size=(n_users, 1))
        self.x = rng.normal(size=len(self.user))
        self.trials = rng.integers(3, 30, len(self.user))
        odds = np.where(self.keen, 1.0, -1.0)[self.user] + 0.4 * self.x
        self.wins = rng.binomial(self.trials, expit(odds))

    def behavior(self, outcome: bool = True, **options: Any) -> dv.BinaryOutcomes:
        return dv.BinaryOutcomes(
            self.user,
            pd.DataFrame({"x": self.x}),
            self.wins if outcome else None,
            trials=self.trials,
            intercept=True,
            **options,
        )


@functools.cache
def fitted(engine: str) -> tuple[World, dv.DualViewMixture]:
    world = World()
    settings = {"gibbs": dv.Gibbs(n_warmup=80), "variational": dv.Variational(n_starts=1)}
    model = dv.DualViewMixture(engine=settings[engine], n_draws=80, n_chains=2)
    return world, model.fit(world.X, world.behavior())


@pytest.mark.parametrize("engine", ["gibbs", "variational"])
def test_trials_are_fitted_and_predicted(engine: str) -> None:
    world, model = fitted(engine)
    assert (model.latent_[world.keen == 1, 0].min() > model.latent_[world.keen == 0, 0].max()).all()
    prediction = model.predict_outcome(world.behavior(False))
    assert (prediction.mean < world.trials).all()
    assert np.corrcoef(prediction.mean / world.trials, world.wins / world.trials)[0, 1] > 0.85
    new = dv.BinaryOutcomes(
        [14] * 2, pd.DataFrame({"x": [0.0, 0.0]}), trials=[10, 20], intercept=True, n_users=15
    )
    likely, unlikely = (model.predict_outcome(new, X_new=[[x]]).mean for x in (3.0, -3.0))
    np.testing.assert_allclose(likely[1], 2.0 * likely[0])
    assert likely[0] > 5.0 > unlikely[0]


def test_both_engines_agree() -> None:
    latent = [fitted(engine)[1].latent_ for engine in ("gibbs", "variational")]
    np.testing.assert_allclose(*latent, atol=0.25)


@pytest.mark.usefixtures("few_replicates")
def test_trials_are_scored_and_checked() -> None:
    _, model = fitted("gibbs")
    scores = dv.compare({"one": model, "other": fitted("variational")[1]})
    assert np.isfinite(scores["elpd"]).all()
    checks = model.check(refit=False)
    assert checks["outcomes: spread"].verdict == "fine"
    with pytest.raises(InputError, match="No check is called 'spread'; there are outcomes, "):
        checks["spread"]


def test_one_trial_each_is_yes_or_no() -> None:
    world = World()
    y = (world.wins > 0.5 * world.trials).astype(float)
    single = dv.BinaryOutcomes(world.user, world.x[:, None], y, trials=np.ones(len(y)))
    plain = dv.BinaryOutcomes(world.user, world.x[:, None], y)
    latent = np.random.default_rng(0).normal(size=(14, 1))
    found = [own.prepare(None)[1].log_density(latent, {}) for own in (single, plain)]
    np.testing.assert_allclose(*found)


def test_long_tables_have_trials() -> None:
    world = World()
    table = pd.DataFrame({"who": world.user, "wins": world.wins, "n": world.trials})
    _, behavior = dv.from_long(table, user="who", outcome="wins", trials="n")
    np.testing.assert_array_equal(behavior.trials, world.trials)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "more than all": ({"outcome": [4, 1], "trials": [3, 1]}, "got 4 of 3 in row 0"),
    "fractions": ({"outcome": [1, 0.5], "trials": [3, 1]}, "got 0.5 of 1 in row 1"),
    "no trials": ({"outcome": [1, 0], "trials": [3, 0]}, "whole numbers from 1 on; got 0"),
    "one of them": ({"outcome": [1, 0], "trials": [3]}, "a value per row of design, 2; got 1"),
    "none": ({"outcome": [3, 0]}, "give trials"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_are_no_successes_is_refused(case: str) -> None:
    given, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        dv.BinaryOutcomes([0, 1], [[1.0], [2.0]], **given)


def test_new_answers_have_trials_as_those_of_the_fit() -> None:
    _, model = fitted("gibbs")
    plain = dv.BinaryOutcomes([0], pd.DataFrame({"x": [0.0]}), intercept=True)
    with pytest.raises(InputError, match="give each row its trials"):
        model.predict_outcome(plain)
