"""New observations that name levels, items and groups otherwise than the fit: they are matched by
name, or refused."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import norm

import dualview as dv
from dualview.behaviors.families.ranking import RankedRows, RankingOutcome
from dualview.behaviors.kinds import behavior_from
from dualview.behaviors.records import Forecast
from dualview.errors import ConvergenceWarning, InputError
from dualview.posterior.prediction.new_outcomes import outcomes_given
from dualview.posterior.prediction.new_users import Given

LEVELS = ["low", "mid", "high"]


def described(behavior: Any) -> Any:
    """As it is read back with a posterior, without observations."""
    return behavior_from({**behavior.described(), "users": None, "n_users": len(behavior)})


def ratings(names: list[str], levels: list[str], user: Any = None) -> dv.OrdinalOutcomes:
    user = np.arange(len(names)) % 4 if user is None else user
    outcome = pd.Series(pd.Categorical(names, categories=levels, ordered=True))
    return dv.OrdinalOutcomes(user, np.ones((len(names), 1)), outcome, n_users=4)


def test_levels_are_those_of_the_fit_by_their_names() -> None:
    fitted = ratings([*LEVELS, "low"], LEVELS)
    alphabetical = ratings([*LEVELS, "low"], sorted(LEVELS))
    found = fitted.like(alphabetical, 0)
    assert found.levels.names == tuple(LEVELS)
    np.testing.assert_array_equal(found.outcome, fitted.outcome)
    np.testing.assert_array_equal(fitted.like(found, 0).outcome, fitted.outcome)
    fewer = fitted.like(ratings(["mid", "high"] * 2, ["mid", "high", "low"]), 0)
    np.testing.assert_array_equal(fewer.outcome, [1.0, 2.0, 1.0, 2.0])
    with pytest.raises(InputError, match="must have the levels of the fit, low, mid, high; got no"):
        fitted.like(ratings(["no", "low", "mid", "no"], ["no", "low", "mid"]), 0)


def test_scores_do_not_depend_on_the_order_in_which_levels_are_given() -> None:
    rng = np.random.default_rng(0)
    names = rng.choice(LEVELS, 40, p=[0.6, 0.3, 0.1]).tolist()
    user = np.repeat(np.arange(4), 10)
    model = dv.DualViewMixture(1, engine=dv.Gibbs(n_warmup=20), n_draws=40, n_chains=2, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(None, ratings(names, LEVELS, user))
    scores = [model.score(None, ratings(names, order, user)) for order in (LEVELS, sorted(LEVELS))]
    assert scores[0] == pytest.approx(scores[1])


def items(order: str) -> pd.DataFrame:
    places = {"a": 0.0, "b": 1.0, "c": 3.0}
    return pd.DataFrame({"x": [places[name] for name in order]}, index=list(order))


def choices(order: str, **options: Any) -> dv.PairwiseChoices:
    return dv.PairwiseChoices(
        [0, 1, 0], ["a", "b", "a"], ["b", "c", "c"], items(order), item_intercept=True, **options
    )


@pytest.mark.parametrize("saved", [False, True])
def test_appeals_belong_to_items_by_their_names(saved: bool) -> None:
    fitted = described(choices("abc")) if saved else choices("abc")
    appeals = {"coefficients": np.array([[5.0, 0.0, -5.0]])}
    for order in ("abc", "cba"):
        found = fitted.like(choices(order), 0)
        np.testing.assert_allclose(found.outside(appeals), [[5.0, 5.0, 10.0]])
        again = fitted.like(found, 0)
        np.testing.assert_allclose(again.outside(appeals), [[5.0, 5.0, 10.0]])
    other = dv.PairwiseChoices(
        [0, 1], ["a", "b"], ["b", "d"], items("abc").rename({"c": "d"}), item_intercept=True
    )
    with pytest.raises(InputError, match=r"among the items of the fit; unknown: .*d"):
        fitted.like(other, 0)


@pytest.mark.parametrize("saved", [False, True])
def test_items_without_names_have_the_features_of_the_fit(saved: bool) -> None:
    def unnamed(features: list[float]) -> dv.PairwiseChoices:
        return dv.PairwiseChoices(
            [0, 1, 0], [0, 1, 0], [1, 2, 2], np.array(features)[:, None], item_intercept=True
        )

    fitted = described(unnamed([0.0, 1.0, 3.0])) if saved else unnamed([0.0, 1.0, 3.0])
    assert fitted.like(unnamed([0.0, 1.0, 3.0]), 0).n_observations == 3
    with pytest.raises(InputError, match="the same features in the same order; got other features"):
        fitted.like(unnamed([3.0, 1.0, 0.0]), 0)


@pytest.mark.parametrize("options", [{"noise": "student"}, {"outcome_kind": "rounded"}])
def test_unseen_levels_of_groups_stay_unseen(options: dict[str, Any]) -> None:
    def observed(user: list[int], place: list[str]) -> dv.UserRegression:
        n = len(user)
        y = np.arange(n, dtype=float)
        return dv.UserRegression(user, np.ones((n, 1)), y, groups={"place": place}, **options)

    fitted = observed([0, 0, 1, 1], ["a", "b", "a", "b"])
    new = observed([0, 0], ["zzz", "a"])
    once = fitted.like(new, 1)
    np.testing.assert_array_equal(once.effects.factors[0].places.ravel(), [-1, 0])
    twice = fitted.like(once, 1)
    np.testing.assert_array_equal(twice.effects.factors[0].places.ravel(), [-1, 0])


def test_rankings_of_a_user_known_by_other_behavior_have_its_uncertainty() -> None:
    """f ~ N(1, 4) given what else the user did, items at 1 and −1: the first is preferred with
    probability Φ(2/√18)."""
    n_draws = 4000
    x = np.array([1.0, -1.0])
    forecast = Forecast(
        2,
        lambda cases: np.zeros((n_draws, len(range(*cases.indices(2))))),
        RankingOutcome(RankedRows.of(np.array([0, 0]), ["one"])),
        sparse.csr_array(x[:, None]),
    )

    class Newcomer:
        draw = np.arange(n_draws)

        def __len__(self) -> int:
            return 1

        def given_one(self, user: int) -> Given:
            assert user == 0
            even = np.full((n_draws, 1), -np.log(n_draws))
            return Given(even, np.ones((n_draws, 1, 1)), np.full((1, 1, 1, 1), 4.0))

    found = outcomes_given(forecast, n_draws, Newcomer())  # type: ignore[arg-type]
    assert found.mean[0] == pytest.approx(
        norm.cdf(2 / np.sqrt(18)), abs=4.5 * 0.45 / np.sqrt(n_draws)
    )
    assert found.mean.sum() == pytest.approx(1.0)
