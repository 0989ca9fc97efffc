"""One observation of each user, as in profile regression: users share their cluster's vector unless
they are asked to have their own."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dualview as dv
from dualview.errors import DataWarning, InputError
from dualview.inputs.fits import fit_again
from dualview.inputs.parameters import Parameters
from inputs_of import problem_of

pytestmark = pytest.mark.filterwarnings(
    "ignore::dualview.errors.ConvergenceWarning", "ignore::dualview.errors.DataWarning"
)

SHORT: dict[str, Any] = {"engine": dv.Gibbs(n_warmup=20), "n_draws": 30, "n_chains": 2}
N = 60
_RNG = np.random.default_rng(8)
GROUP = np.arange(N) % 2
X = np.where(GROUP, 2.0, -2.0)[:, None] + _RNG.normal(size=(N, 2))
DOSE, AGE = _RNG.normal(3.0, 1.0, N), _RNG.normal(size=N)
RESPONSE = np.where(GROUP, 1.0, -1.0) * DOSE + 0.5 * AGE + 0.3 * _RNG.normal(size=N)
YES = (_RNG.random(N) < 1.0 / (1.0 + np.exp(-RESPONSE))).astype(float)
ONE, TWO = np.arange(N), np.arange(N) // 2


def regression(user: Any = ONE, **options: Any) -> dv.UserRegression:
    own = {"intercept": True, "n_users": N, **options}
    return dv.UserRegression(user, DOSE[:, None], RESPONSE, **own)


def answers(user: Any = ONE, **options: Any) -> dv.BinaryOutcomes:
    own = {"intercept": True, "n_users": N, **options}
    return dv.BinaryOutcomes(user, np.empty((N, 0)), YES, **own)


def ratings(user: Any = ONE) -> dv.OrdinalOutcomes:
    return dv.OrdinalOutcomes(user, DOSE[:, None], np.clip(np.round(RESPONSE), -2, 2), n_users=N)


def choices(user: Any = ONE) -> dv.PairwiseChoices:
    first, second = np.arange(N) % 5, (np.arange(N) + 1) % 5
    return dv.PairwiseChoices(user, first, second, np.eye(5)[:, :2], n_users=N)


def categories(user: Any = ONE, **options: Any) -> dv.CategoricalOutcomes:
    levels = np.array(["bus", "car", "walk"])[np.digitize(RESPONSE, [-2.0, 2.0])]
    return dv.CategoricalOutcomes(user, DOSE[:, None], levels, n_users=N, **options)


def rankings(user: Any = ONE) -> dv.Rankings:
    rows = [np.repeat(part, 3) for part in (user, np.arange(N))]
    design = _RNG.normal(size=(3 * N, 1))
    return dv.Rankings(*rows, design, np.tile([1.0, 2.0, 3.0], N), n_users=N)


def pooling_of(behavior: Any, **parameters: Any) -> str | None:
    """What a fit to a behavior decides."""
    return problem_of(X, behavior, **parameters).spec.pooling


@pytest.mark.parametrize("make", [regression, answers, ratings, choices, categories])
def test_users_with_one_row_each_share_their_clusters_vector(make: Any) -> None:
    assert pooling_of(make()) == "cluster"
    assert pooling_of(make(TWO)) is None
    assert pooling_of(make(), pooling=None) is None
    assert pooling_of(make(TWO), pooling="cluster") == "cluster"
    some = np.r_[0:10]
    assert pooling_of(make().take(some)) == "cluster"  # the others have no rows
    halves = make(TWO).take(np.arange(0, N, 2))
    assert pooling_of(halves) is None, "a part of rows is fitted as the whole is"


def test_users_have_their_own_where_one_observation_tells_them_apart_or_nothing_can_share() -> None:
    forum = dv.datasets.agreement(20, 30, seed=1)
    threads = dv.SharedOutcome(forum.participation, forum.outcome)
    assert problem_of(forum.features, threads).spec.pooling is None
    assert pooling_of(rankings()) is None
    assert pooling_of(regression(standard_errors=np.full(N, 0.3))) is None
    assert pooling_of([regression(), answers()]) is None
    assert pooling_of(answers(), engine="variational") is None
    assert problem_of(X, None).spec.pooling is None
    with pytest.raises(InputError, match="The variational approximation does not do pooling"):
        dv.DualViewMixture(pooling="cluster", engine="variational").fit(X, answers())


def test_draws_are_those_of_pooling_by_cluster_and_files_say_so(tmp_path: Path) -> None:
    behavior = answers(common=AGE[:, None])
    model = dv.DualViewMixture(checkpoint=tmp_path, **SHORT).fit(X, behavior)
    asked = dv.DualViewMixture(pooling="cluster", **SHORT).fit(X, behavior)
    for name in asked.posterior_.names:
        np.testing.assert_array_equal(model.posterior_[name], asked.posterior_[name])
    for z, latent in zip(model.posterior_.flat("z"), model.posterior_.flat("latent"), strict=True):
        assert len(np.unique(latent)) == len(np.unique(z))
    made_with = json.loads((tmp_path / "manifest.json").read_text())["made_with"]
    assert made_with["pooling"] == "cluster"
    with pytest.raises(InputError, match="pooling was 'cluster', now None"):
        dv.DualViewMixture(pooling=None, checkpoint=tmp_path, **SHORT).fit(X, behavior)
    model.posterior_.save(tmp_path / "run.nc")
    assert dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc")).pooling == "cluster"


def test_a_run_from_before_goes_on_with_vectors_of_their_own(tmp_path: Path) -> None:
    """Its manifest has no pooling."""
    own = dv.DualViewMixture(pooling=None, checkpoint=tmp_path, **SHORT).fit(X, answers())
    assert "pooling" not in json.loads((tmp_path / "manifest.json").read_text())["made_with"]
    with pytest.raises(InputError, match="pooling was None, now 'cluster'"):
        dv.DualViewMixture(checkpoint=tmp_path, **SHORT).fit(X, answers())
    assert own.posterior_.spec.pooling is None


def test_a_fit_to_some_of_the_rows_is_of_the_same_model() -> None:
    model = dv.DualViewMixture(**SHORT).fit(X, answers(TWO))
    parameters = Parameters.of(model)
    again = fit_again(parameters, model.posterior_, answers(TWO).take(np.arange(0, N, 2)))
    assert again.spec.pooling is None
    pooled = dv.DualViewMixture(**SHORT).fit(X, answers())
    assert fit_again(parameters, pooled.posterior_, answers()).spec.pooling == "cluster"


def constants_of(behavior: Any, **parameters: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance that vectors have a priori."""
    return problem_of(X, behavior, **parameters).spec.units["behavior"].prior


def test_constants_are_those_of_one_regression_for_everybody() -> None:
    mean, covariance = constants_of(regression())
    design = np.column_stack([np.ones(N), DOSE])
    squares = design.T @ design + 0.01 * np.eye(2)
    np.testing.assert_allclose(mean, np.linalg.solve(squares, design.T @ RESPONSE))
    expected = N * RESPONSE.var(ddof=1) * np.linalg.inv(squares)
    np.testing.assert_allclose(covariance, expected, rtol=1e-8)
    alike = constants_of(regression(weights=np.full(N, 3.0)))
    np.testing.assert_allclose(alike[0], mean, rtol=1e-6)
    np.testing.assert_allclose(alike[1], covariance, rtol=1e-6)
    double = np.r_[np.full(N // 2, 2.0), np.ones(N // 2)]
    weighted = constants_of(regression(weights=double))[0]
    squares = design.T @ (double[:, None] * design) + 0.01 * 1.5 * np.eye(2)
    np.testing.assert_allclose(weighted, np.linalg.solve(squares, design.T @ (double * RESPONSE)))


def test_the_scale_of_answers_with_confounders_is_not_estimated() -> None:
    """With one answer each nothing says how much users differ."""
    behavior = answers(common=AGE[:, None])
    np.testing.assert_allclose(constants_of(behavior)[1], [[1.0]])
    assert constants_of(behavior, behavior_prior="likelihood")[1][0, 0] != 1.0
    plain, more = constants_of(categories()), constants_of(categories(common=AGE[:, None]))
    np.testing.assert_array_equal(plain[1], more[1])


@pytest.mark.filterwarnings("error::dualview.errors.DataWarning")
def test_only_vectors_of_their_own_are_warned_of() -> None:
    problem_of(X, regression())
    with pytest.warns(DataWarning, match='pooling="cluster"'):
        problem_of(X, regression(), pooling=None)


def test_effects_differ_by_cluster_and_confounders_do_not() -> None:
    """What ProfileGLMM calls random slopes by cluster: a vector of the design for each cluster, and
    one coefficient for all."""
    behavior = regression(common=AGE[:, None])
    fixed = {"engine": dv.Gibbs(n_warmup=200), "n_draws": 300, "n_chains": 2}
    model = dv.DualViewMixture(2, **fixed).fit(X, behavior)
    post = model.posterior_
    age = post["coefficients"].ravel()
    assert abs(age.mean() - 0.5) < 4.0 * age.std()
    slopes = post.flat("latent")[:, :, 1]
    for group, slope in ((0, -1.0), (1, 1.0)):
        drawn = slopes[:, group == GROUP].mean(axis=1)
        assert abs(drawn.mean() - slope) < 4.0 * drawn.std() < 1.0
    new = dv.UserRegression(
        [0, 1], [[1.0], [1.0]], intercept=True, common=[[0.0], [2.0]], n_users=2
    )
    predicted = model.predict_outcome(new, X_new=[[-2.0, -2.0], [2.0, 2.0]]).mean
    np.testing.assert_allclose(predicted, [-1.0, 2.0], atol=0.4)


def test_chains_can_start_from_an_approximation_in_which_users_have_their_own() -> None:
    start = SHORT | {"engine": dv.Gibbs(n_warmup=20, init="variational")}
    model = dv.DualViewMixture(2, **start).fit(X, answers())
    assert model.posterior_.spec.pooling == "cluster"
