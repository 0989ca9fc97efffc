"""Stacked fits: weights from their scores, predictions as mixtures made by hand, and what is
refused."""

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import dualview as dv
from dualview.behaviors.families.base import Outcome, Parts
from dualview.behaviors.families.gaussian import NormalMixture, NormalOutcome
from dualview.behaviors.families.interval import IntervalOutcome
from dualview.behaviors.families.levels import Levels
from dualview.behaviors.families.logit import BinaryOutcome
from dualview.behaviors.families.ordinal import OrdinalOutcome
from dualview.behaviors.families.ranking import RankedRows, RankingOutcome
from dualview.behaviors.families.student import StudentMixture, StudentOutcome
from dualview.behaviors.recorded import Recorded
from dualview.columns.column import Column
from dualview.errors import DataWarning, InputError
from dualview.evaluation import stacking
from dualview.evaluation.comparison import check_users, observation_scores, user_scores
from dualview.evaluation.stacking import _design_effect, _lesson, _verdict, mix
from dualview.evaluation.stacking_weights import relative_densities, stacking_weights
from dualview.posterior.prediction.predictive import VectorMixture, VectorParts

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:The weights of this stack rest on:UserWarning"),
    pytest.mark.filterwarnings("ignore:The prediction for new user:UserWarning"),
]
N = 6
WEIGHTS = np.array([0.2, 0.5, 0.3])
SIZES = (7, 4, 9)
LEVELS = Levels(("low", "middle", "high"), np.array([1.0, 2.0, 4.0]))
RANKED = RankedRows.of(np.array([0, 0, 1, 1, 1, 0]), ["a", "b"])
COUNT = Recorded(Column("y", "count", "", lowest=0.0))
FORUM = dv.datasets.agreement(10, 20, seed=1)


def outcome_of(kind: str, rng: np.random.Generator, size: int) -> Outcome:
    """An outcome of this kind in size draws."""
    sds = rng.uniform(0.5, 1.5, size)
    if kind == "ordinal":
        return OrdinalOutcome(np.sort(rng.standard_normal((size, 2))), LEVELS)
    if kind == "student":
        return StudentOutcome(sds, rng.uniform(3.0, 8.0, size), np.linspace(1.0, 2.0, N))
    made = {
        "normal": NormalOutcome(sds),
        "binary": BinaryOutcome(),
        "count": IntervalOutcome(sds, COUNT),
        "ranking": RankingOutcome(RANKED),
    }
    return made[kind]


def predictions(kinds: tuple[str, ...]) -> list[Any]:
    """Three predictive distributions of N cases with weights and locations of their own."""
    rng, found = np.random.default_rng(3), []
    for kind, size in zip(kinds, SIZES, strict=True):
        outcome, locations = outcome_of(kind, rng, size), 2.0 + rng.standard_normal((size, N))
        log_weights = np.log(rng.dirichlet(np.ones(size)))[:, None]

        def parts(
            cases: slice, outcome: Any = outcome, locs: Any = locations, w: Any = log_weights
        ) -> Parts:
            return Parts(w, locs[:, cases], outcome.spread(cases))

        found.append(outcome.predictive(N, size, parts))
    return found


OUTCOMES = {
    "normal": np.linspace(-1.0, 4.0, N),
    "student": np.linspace(-1.0, 4.0, N),
    "binary": np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0]),
    "ordinal": np.array([1.0, 2.0, 4.0, 4.0, 2.0, 1.0]),
    "count": np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
    "ranking": np.array([1.0, 2.0, 3.0, 1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("kind", list(OUTCOMES))
def test_mixture_of_predictions_by_hand(kind: str) -> None:
    given, y = predictions((kind,) * 3), OUTCOMES[kind]
    mixed = mix(given, WEIGHTS)
    assert type(mixed) is type(given[0])
    check_by_hand(mixed, given, y)
    if kind != "ranking":
        by_hand = WEIGHTS @ np.array([own.cdf(y) for own in given])
        np.testing.assert_allclose(mixed.cdf(y), by_hand, atol=2e-3 if kind == "student" else 1e-12)


def check_by_hand(mixed: Any, given: list[Any], y: np.ndarray) -> None:
    """Log densities, means and variances of a mixture."""
    log_densities = np.array([own.log_density(y) for own in given])
    np.testing.assert_allclose(
        mixed.log_density(y), logsumexp(log_densities, axis=0, b=WEIGHTS[:, None]), rtol=1e-9
    )
    mean = WEIGHTS @ np.array([own.mean for own in given])
    second = WEIGHTS @ np.array([own.std**2 + own.mean**2 for own in given])
    np.testing.assert_allclose(mixed.mean, mean)
    np.testing.assert_allclose(mixed.std, np.sqrt(second - mean**2))
    draws = mixed.draws(2000, seed=1)
    assert draws.shape == (2000, N)
    assert len(mixed) == N


def test_quantiles_are_where_the_distribution_function_of_the_mixture_has_their_value() -> None:
    mixed = mix(predictions(("normal",) * 3), WEIGHTS)
    for end, level in zip(mixed.interval(0.8).T, (0.1, 0.9), strict=True):
        np.testing.assert_allclose(mixed.cdf(end), level, atol=1e-9)


def test_draws_come_from_all_parts_by_their_weights() -> None:
    given = [
        NormalMixture.over_draws(1, lambda _, m=m: np.full((1, 1), m), np.full(1, 0.1))
        for m in (0.0, 10.0, 20.0)
    ]
    draws = mix(given, WEIGHTS).draws(4000, seed=2)[:, 0]
    shares = [(abs(draws - m) < 5.0).mean() for m in (0.0, 10.0, 20.0)]
    errors = np.sqrt(WEIGHTS * (1.0 - WEIGHTS) / 4000)
    assert (abs(shares - WEIGHTS) < 4.5 * errors).all()


@pytest.mark.parametrize(
    "kinds", [("student", "normal", "normal"), ("normal", "normal", "student")]
)
def test_normal_and_student_predictions_mix(kinds: tuple[str, ...]) -> None:
    given = predictions(kinds)
    mixed = mix(given, WEIGHTS)
    assert isinstance(mixed, StudentMixture)
    check_by_hand(mixed, given, OUTCOMES["normal"])
    below, above = mixed._tails(OUTCOMES["normal"])
    by_hand = WEIGHTS @ np.array([own._tails(OUTCOMES["normal"])[0] for own in given])
    np.testing.assert_allclose(below, by_hand, atol=1e-7)
    np.testing.assert_allclose(below + above, 1.0, atol=1e-7)


def test_student_predictions_with_and_without_weights_of_observations_mix() -> None:
    given = predictions(("student",) * 3)
    given[1]._outcome.roots = None
    check_by_hand(mix(given, WEIGHTS), given, OUTCOMES["student"])


def test_counts_on_two_scales_are_refused() -> None:
    given = predictions(("count",) * 3)
    given[2]._record = Recorded(Column("y", "count", "", scale="log1p", lowest=0.0))
    with pytest.raises(InputError, match="fit them all on one scale"):
        mix(given, WEIGHTS)


def test_vectors_mix() -> None:
    rng = np.random.default_rng(4)
    given = []
    for size in SIZES:
        roots = rng.standard_normal((size, 1, 2, 2))
        parts = VectorParts(
            np.log(rng.dirichlet(np.ones(size)))[:, None] + np.zeros((size, N)),
            rng.standard_normal((size, N, 2)),
            roots @ np.swapaxes(roots, -1, -2),
        )
        given.append(
            VectorMixture(
                N, 2, size, lambda cases, p=parts: VectorParts(p[0][:, cases], p[1][:, cases], p[2])
            )
        )
    y, mixed = rng.standard_normal((N, 2)), mix(given, WEIGHTS)
    log_densities = np.array([own.log_density(y) for own in given])
    np.testing.assert_allclose(
        mixed.log_density(y), logsumexp(log_densities, axis=0, b=WEIGHTS[:, None])
    )
    np.testing.assert_allclose(
        mixed.mean, np.einsum("m,mnq->nq", WEIGHTS, [own.mean for own in given])
    )


def fit(X: Any, behavior: Any, n_clusters: int | None = None, **more: Any) -> dv.DualViewMixture:
    settings: dict[str, Any] = {"engine": dv.Gibbs(n_warmup=10), "n_draws": 20, "n_chains": 2}
    return dv.DualViewMixture(n_clusters, **(settings | more)).fit(X, behavior)


@pytest.fixture(scope="module")
def fits() -> dict[str, dv.DualViewMixture]:
    behavior = dv.SharedOutcome(FORUM.participation, FORUM.outcome)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "dual": fit(FORUM.features, behavior),
            "single": fit(None, behavior, 1),
            "roles": fit(None, behavior),
        }


def with_weights(fits: dict[str, Any], *weights: float) -> stacking.Stack:
    table = pd.DataFrame({"weight": weights, "low": 0.0, "high": 1.0}, index=list(fits))
    return stacking.Stack(fits, table, "", "observation")


@pytest.mark.parametrize("by", ["observation", "user"])
def test_weights_are_those_of_the_scores(fits: dict[str, Any], by: str) -> None:
    scores = {"observation": observation_scores, "user": user_scores}[by]
    stacked = dv.stack(fits, by=by)
    elpd = np.column_stack([scores(own).elpd for own in fits.values()])
    wanted = stacking_weights(relative_densities(elpd))
    np.testing.assert_allclose(stacked.weights, wanted, atol=1e-6)
    assert list(stacked.weights.index) == list(fits)
    assert (stacked.table["low"] <= stacked.table["high"]).all()
    assert stacked.table["elpd"].to_numpy() == pytest.approx(elpd.sum(axis=0))
    total = np.log(np.exp(elpd) @ wanted).sum()
    assert total >= elpd.sum(axis=0).max() - 1e-6
    text = repr(stacked)
    assert text.startswith(f"Stack of 3 fits, weights by {by}")
    assert stacked.verdict() in text
    assert "<caption>Stack of 3 fits" in stacked._repr_html_()


def by_hand(parts: list[Any], y: Any) -> np.ndarray:
    return np.asarray(logsumexp([own.log_density(y) for own in parts], axis=0, b=WEIGHTS[:, None]))


def test_predictions_of_known_users_by_hand(fits: dict[str, Any]) -> None:
    stacked = with_weights(fits, *WEIGHTS)
    new, y = FORUM.test.participation[:7], FORUM.test.outcome[:7]
    found = stacked.predict_outcome(new)
    parts = [own.predict_outcome(new) for own in fits.values()]
    np.testing.assert_allclose(found.log_density(y), by_hand(parts, y))
    np.testing.assert_allclose(found.mean, WEIGHTS @ [own.mean for own in parts])
    assert found.nll(y) == pytest.approx(-found.log_density(y).mean())
    assert found.interval(0.9).shape == (7, 2)


def test_predictions_of_new_users_by_hand(fits: dict[str, Any]) -> None:
    stacked = with_weights(fits, *WEIGHTS)
    dual, single, roles = fits.values()
    X_new, nothing = FORUM.features[:2] + 0.1, np.empty((2, 0))
    latent = stacked.predict_latent(X_new)
    parts = [dual.predict_latent(X_new), single.predict_latent(nothing)]
    parts.append(roles.predict_latent(nothing))
    np.testing.assert_allclose(latent.log_density([0.5, 1.0]), by_hand(parts, [0.5, 1.0]))
    known = np.asarray(FORUM.test.participation[:4])
    new = np.hstack([known, np.array([[1, 0], [0, 1], [1, 1], [0, 0]])])
    y = FORUM.test.outcome[:4]
    parts = [
        own.predict_outcome(new, x)
        for own, x in zip(fits.values(), (X_new, nothing, nothing), strict=True)
    ]
    np.testing.assert_allclose(
        stacked.predict_outcome(new, X_new).log_density(y), by_hand(parts, y)
    )
    with pytest.warns(UserWarning, match="X has feature names"):
        found = stacked.predict_outcome(new, pd.DataFrame(X_new).add_prefix("x"))
    np.testing.assert_allclose(found.log_density(y), by_hand(parts, y))
    so_far = dv.SharedOutcome(np.hstack([known, [[1.0], [1.0], [0.0], [1.0]]]), y)
    asked = np.hstack([known, np.ones((4, 1))])
    found = stacked.predict_outcome(asked, X_new[:1], so_far)
    parts = [
        own.predict_outcome(asked, x, so_far)
        for own, x in zip(fits.values(), (X_new[:1], nothing[:1], nothing[:1]), strict=True)
    ]
    np.testing.assert_allclose(found.log_density(y), by_hand(parts, y))


def test_a_new_user_of_whom_nothing_is_known_is_one_without_observations(
    fits: dict[str, Any],
) -> None:
    known = np.asarray(FORUM.participation[:1])
    silent = dv.SharedOutcome(np.hstack([known, [[0.0]]]), FORUM.outcome[:1])
    for name in ("single", "roles"):
        nothing = fits[name].predict_latent(np.empty((1, 0)))
        assert nothing.median == pytest.approx(fits[name].predict_latent(None, silent).median)
    with pytest.raises(InputError, match="have a row for each new user and no columns"):
        fits["single"].predict_latent(FORUM.features[:2])


def test_each_fit_is_handed_its_own_columns() -> None:
    frame = pd.DataFrame(FORUM.features, columns=["posts", "degree"])
    new = pd.DataFrame(FORUM.features[:2] + 0.1, columns=["posts", "degree"], index=["x", "y"])
    behavior = dv.SharedOutcome(FORUM.participation, FORUM.outcome)
    fits = {
        "both": fit(frame, behavior, 2),
        "one": fit(frame[["degree"]], behavior, 2),
        "none": fit(None, behavior, 1),
    }
    stacked = with_weights(fits, *WEIGHTS)
    parts = [fits["both"].predict_latent(new), fits["one"].predict_latent(new[["degree"]])]
    parts.append(fits["none"].predict_latent(new[[]]))
    np.testing.assert_allclose(
        stacked.predict_latent(new).log_density([0.5, 1.0]), by_hand(parts, [0.5, 1.0])
    )
    by_name = {"both": new, "one": new[["degree"]], "none": new[[]]}
    np.testing.assert_allclose(
        stacked.predict_latent(by_name).mean, stacked.predict_latent(new).mean
    )


def test_a_fit_without_weight_is_not_asked(fits: dict[str, Any]) -> None:
    stacked = with_weights(fits | {"broken": SimpleNamespace()}, 1.0, 0.0, 0.0, 0.0)
    new = FORUM.test.participation[:3]
    alone = fits["dual"].predict_outcome(new)
    np.testing.assert_array_equal(stacked.predict_outcome(new).mean, alone.mean)


def test_several_behaviors_are_predicted_by_name() -> None:
    user = np.repeat(np.arange(5), 3)
    rng = np.random.default_rng(0)
    behaviors = {
        "sizes": dv.UserRegression(user, np.ones((15, 1)), rng.standard_normal(15)),
        "answers": dv.BinaryOutcomes(user, np.ones((15, 1)), rng.random(15) < 0.5),
    }
    fits = {"two": fit(None, behaviors, 2), "single": fit(None, behaviors, 1)}
    stacked = with_weights(fits, 0.4, 0.6)
    new = {
        "sizes": dv.UserRegression(user[:4], np.ones((4, 1)), n_users=5),
        "answers": dv.BinaryOutcomes(user[:4], np.ones((4, 1)), n_users=5),
    }
    found = stacked.predict_outcome(new)
    for name in behaviors:
        parts = [own.predict_outcome(new)[name].mean for own in fits.values()]
        np.testing.assert_allclose(found[name].mean, 0.4 * parts[0] + 0.6 * parts[1])


def test_latent_vectors_of_different_fits_are_told_apart() -> None:
    user, rng = np.repeat(np.arange(5), 3), np.random.default_rng(0)
    y, design = rng.standard_normal(15), rng.standard_normal((15, 2))
    fits = {
        "line": fit(None, dv.UserRegression(user, design, y), 1),
        "mean": fit(None, dv.UserRegression(user, np.ones((15, 1)), y), 1),
    }
    with pytest.raises(InputError, match="The fits have different latent vectors"):
        with_weights(fits, 0.5, 0.5).predict_latent(np.empty((1, 0)))
    new = {
        "line": dv.UserRegression(user[:2], design[:2], n_users=5),
        "mean": dv.UserRegression(user[:2], np.ones((2, 1)), n_users=5),
    }
    means = [fits[name].predict_outcome(new[name]).mean for name in fits]
    found = with_weights(fits, 0.5, 0.5).predict_outcome(new)
    np.testing.assert_allclose(found.mean, np.mean(means, axis=0))


def test_what_cannot_be_stacked_is_said(fits: dict[str, Any]) -> None:
    dual = fits["dual"]
    other = dv.SharedOutcome(FORUM.participation[::-1], FORUM.outcome)
    cases: list[tuple[Any, str]] = [
        ([dual, dual], r"stack takes fitted models by name, such as stack\(\{"),
        ({"dual": dual}, "stack takes two or more fitted models"),
        (
            {"dual": dual, "new": dv.DualViewMixture()},
            "'new' is a DualViewMixture, which is not fit",
        ),
        ({"dual": dual, "features": fit(FORUM.features, None)}, "stack needs fits with a behavior"),
        (
            {"dual": dual, "other": fit(None, other, 1)},
            "same observations; dual and other differ in participation",
        ),
    ]
    for given, message in cases:
        with pytest.raises(InputError, match=message):
            dv.stack(given)
    with pytest.raises(InputError, match='by must be "observation" or "user"'):
        dv.stack(fits, by="thread")


def test_users_must_be_the_same() -> None:
    def named(ids: str) -> Any:
        return SimpleNamespace(posterior_=SimpleNamespace(user_ids=list(ids), n_users=len(ids)))

    check_users({"a": named("xyz"), "b": named("012")})
    check_users({"a": named("xyz"), "b": named("zyx")})
    with pytest.raises(InputError, match="their ids differ"):
        check_users({"a": named("xyz"), "b": named("xyw")})
    with pytest.raises(InputError, match="their numbers are a: 3, b: 2"):
        check_users({"a": named("xyz"), "b": named("xy")})


def test_unreliable_scores_are_told_with_the_name_of_the_fit() -> None:
    scores: Any = {
        "dual": SimpleNamespace(unsure=np.array([True, False, True])),
        "single": SimpleNamespace(unsure=np.zeros(3, dtype=bool)),
    }
    with pytest.warns(DataWarning, match=r"of 2 of 3 observations in 'dual'\. Use folds=5"):
        stacking._warn_of_unsure(scores, "observation")


def test_scores_that_depend_on_each_other_count_for_less(fits: dict[str, Any]) -> None:
    scores = {name: observation_scores(own) for name, own in fits.items()}
    alone = {
        name: own._replace(
            influence=own.influence._replace(
                first=0.0 * own.influence.first, second=0.0 * own.influence.second
            )
        )
        for name, own in scores.items()
    }
    assert _design_effect(alone) == 1.0
    assert 1.0 <= _design_effect(scores) <= len(FORUM.outcome)


def test_words_say_which_parts_help() -> None:
    def like(n_clusters: int | None, has_features: bool) -> Any:
        spec = SimpleNamespace(n_clusters=n_clusters, agreement=None, link=None, pooling=None)
        own = SimpleNamespace(posterior_=SimpleNamespace(spec=spec))
        if has_features:
            own.n_features_in_ = 2
        return own

    fits = {"dual": like(None, True), "roles": like(None, False), "single": like(1, False)}
    replicates = np.array([[0.0, 0.9, 0.1], [0.02, 0.78, 0.2]])
    text = _verdict(fits, np.array([0.01, 0.84, 0.15]), replicates)
    assert text == (
        "The mixture that predicts best has weights of 0.84 for 'roles' and 0.15 for 'single'. "
        "Features do not help: fits with them have 0.01 of the weight (0.00 to 0.02). Clusters "
        "help: fits with them have 0.85 of the weight (0.80 to 0.90)."
    )
    few = _verdict(fits, np.array([0.0, 1.0, 0.0]), replicates, few=True)
    assert few.startswith("No mixture of the fits predicts better than 'roles' alone.")
    assert "It is not clear whether clusters help" in few
    del fits["roles"]
    text = _verdict(fits, np.array([0.6, 0.4]), np.array([[0.0, 1.0], [0.9, 0.1]]))
    assert "It is not clear whether features and clusters help" in text
    assert _lesson("features", 0.3, 0.1, 0.6) == "Features help"


def test_normal_components_of_a_student_mixture_have_their_density() -> None:
    alone = NormalMixture.over_draws(1, lambda _: np.zeros((1, 1)), np.ones(1))
    student = StudentOutcome(np.ones(1), np.full(1, 4.0)).predictive(
        1, 1, lambda _: Parts(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))
    )
    mixed = mix([alone, student], np.array([1.0 - 1e-15, 1e-15]))
    assert mixed.log_density([1.5])[0] == pytest.approx(norm.logpdf(1.5), abs=1e-12)
