"""Users the fit has not seen: against fits that include them, and against hand-made cases."""

import warnings
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dualview as dv
from dualview.behaviors.families.gaussian import NormalMixture
from dualview.errors import DataWarning, InputError
from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.new_users import NewUsers
from dualview.views.features import ClusterRows

N_USERS, N_THREADS, N_RUNS = 10, 14, 8
PRIORS = {
    "feature_prior": dv.GaussianPrior([0.0], [[1.0]]),
    "behavior_prior": dv.GaussianPrior(0.0, 4.0),
}
THRESHOLDS = np.array([-2.5, -1.5, 0.0, 1.5])


def small_forum() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two groups in one feature; the second has the larger coefficients."""
    rng = np.random.default_rng(3)
    group = np.arange(N_USERS + 1) % 2
    features = (2.0 * group - 1.0 + 0.4 * rng.standard_normal(N_USERS + 1))[:, None]
    latent = 3.0 * group - 1.5 + 0.5 * rng.standard_normal(N_USERS + 1)
    participation = rng.integers(0, 2, (N_THREADS, N_USERS + 1)).astype(float)
    participation[2:, -1] = 0.0  # the last user is new: in the first two threads only
    participation[:2, -1] = 1.0
    return features, participation, participation @ latent + 0.7 * rng.standard_normal(N_THREADS)


FEATURES, PARTICIPATION, OUTCOME = small_forum()


def fit(seed: int, n_users: int, threads: slice, n_clusters: int | None) -> dv.DualViewMixture:
    model = dv.DualViewMixture(
        n_clusters, n_warmup=400, n_draws=1500, n_chains=1, init="one", random_state=seed, **PRIORS
    )
    behavior = dv.SharedOutcome(
        PARTICIPATION[threads, :n_users], OUTCOME[threads], noise_variance=4.0
    )
    return model.fit(FEATURES[:n_users], behavior)


def compare(predicted: Callable[[int], np.ndarray], refitted: Callable[[int], np.ndarray]) -> float:
    """Largest |z| between two estimates of the same numbers, each from independent runs."""
    runs = [
        np.array([estimate(seed) for seed in range(N_RUNS)]) for estimate in (predicted, refitted)
    ]
    error = np.sqrt(sum(run.var(axis=0, ddof=1) / N_RUNS for run in runs))
    return float(np.abs((runs[0].mean(axis=0) - runs[1].mean(axis=0)) / error).max())


def below(mixture: NormalMixture) -> np.ndarray:
    return np.array([mixture.cdf([threshold])[0] for threshold in THRESHOLDS])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
@pytest.mark.parametrize("n_clusters", [None, 3], ids=["inferred", "fixed"])
def test_prediction_equals_a_fit_that_includes_the_silent_user(n_clusters: int | None) -> None:
    """From features alone: in the larger fit the user takes part in nothing, so its posterior is
    the prediction."""
    later = slice(2, None)

    def predicted(seed: int) -> np.ndarray:
        model = fit(seed, N_USERS, later, n_clusters)
        probabilities = model._new_users(FEATURES[-1:], None)._log_weights(slice(0, 1))
        rows = model._candidates()
        mates = (
            model.posterior_.flat("z")[rows.draw]
            == rows.component[:, None] - first_rows(model)[rows.draw][:, None]
        )
        together = np.exp(probabilities[0]) @ (mates & (rows.component >= 0)[:, None])
        return np.concatenate([below(model.predict_latent(FEATURES[-1:])), together[:4]])

    def refitted(seed: int) -> np.ndarray:
        post = fit(100 + seed, N_USERS + 1, later, n_clusters).posterior_
        z, latent = post.flat("z"), post.flat("latent")[:, -1]
        return np.concatenate(
            [(latent[:, None] < THRESHOLDS).mean(axis=0), (z[:, :4] == z[:, -1:]).mean(axis=0)]
        )

    assert compare(predicted, refitted) < 4.5


def first_rows(model: dv.DualViewMixture) -> np.ndarray:
    owner = model.posterior_.components["owner"]
    return np.searchsorted(owner, np.arange(owner.max() + 1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
def test_prediction_with_outcomes_equals_a_fit_that_includes_them() -> None:
    def predicted(seed: int) -> np.ndarray:
        model = fit(seed, N_USERS, slice(2, None), None)
        return below(
            model.predict_latent(FEATURES[-1:], dv.SharedOutcome(PARTICIPATION[:2], OUTCOME[:2]))
        )

    def refitted(seed: int) -> np.ndarray:
        post = fit(200 + seed, N_USERS + 1, slice(None), None).posterior_
        return (post.flat("latent")[:, -1:] < THRESHOLDS).mean(axis=0)

    assert compare(predicted, refitted) < 4.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
def test_outcome_with_a_new_user_equals_a_fit_that_includes_it() -> None:
    thread = np.ones((1, N_USERS + 1))
    thresholds = [-3.0, 0.0, 3.0]

    def predicted(seed: int) -> np.ndarray:
        model = fit(seed, N_USERS, slice(2, None), None)
        outcome = model.predict_outcome(thread, FEATURES[-1:])
        return np.array([outcome.cdf([threshold])[0] for threshold in thresholds])

    def refitted(seed: int) -> np.ndarray:
        outcome = fit(300 + seed, N_USERS + 1, slice(2, None), None).predict_outcome(thread)
        return np.array([outcome.cdf([threshold])[0] for threshold in thresholds])

    assert compare(predicted, refitted) < 4.5


@pytest.mark.parametrize("alpha", [0.5, 30.0])
def test_new_users_meet_in_a_new_cluster_as_often_as_the_prior_says(alpha: float) -> None:
    """Three users of one cluster, and features that say nothing: two newcomers follow the Chinese
    restaurant."""
    n_draws, n_fresh = 40_000, 4
    rows = ClusterRows(np.arange(n_draws), n_draws, n_fresh)
    vars(rows).update(
        weight=np.tile([3.0] + [alpha / n_fresh] * n_fresh, n_draws),
        offset=np.zeros(n_draws),
        new_weight=lambda *_: np.full(n_draws, alpha),
        total=np.full(n_draws, 3.0 + alpha),
        share=None,
        customers=lambda *_: None,
        has_labels_by_table=False,
        log_features=lambda _x, _n: np.zeros((1, len(rows))),
        features=SimpleNamespace(opened=lambda *_: None),
        latent=SimpleNamespace(
            n_dims=1,
            is_shared=False,
            means=np.tile(np.arange(1.0 + n_fresh), n_draws)[:, None],  # the cluster's number
            covariances=np.ones((len(rows), 1, 1)),
            opened=lambda *_: None,
        ),
        link=SimpleNamespace(by_draw=lambda _x: np.zeros((1, 1, 1))),
    )
    users = NewUsers(rows, None, 2)  # type: ignore[arg-type]
    log_density, clusters, *_ = users.impute(np.random.default_rng(0), np.array([0, 1]))
    clusters = clusters[..., 0]
    np.testing.assert_allclose(log_density, 0.0, atol=1e-12)
    first, second = clusters
    expected = {
        "both old": 3 / (3 + alpha) * 4 / (4 + alpha),
        "together in a new one": alpha / (3 + alpha) * 1 / (4 + alpha),
        "each in a new one": alpha / (3 + alpha) * alpha / (4 + alpha),
    }
    found = {
        "both old": (first == 0) & (second == 0),
        "together in a new one": (first > 0) & (second == first),
        "each in a new one": (first > 0) & (second > 0) & (second != first),
    }
    for event, probability in expected.items():
        error = np.sqrt(probability * (1 - probability) / n_draws)
        assert abs(found[event].mean() - probability) < 4.5 * error, event


@pytest.fixture(scope="module")
def fitted() -> tuple[dv.DualViewMixture, dv.datasets.Forum]:
    forum = dv.datasets.agreement(30, 60, seed=1)
    model = dv.DualViewMixture(n_warmup=200, n_draws=200, n_chains=2)
    return model.fit(forum.features, dv.SharedOutcome(forum.participation, forum.outcome)), forum


def test_users_of_the_fit_are_put_where_they_are(
    fitted: tuple[dv.DualViewMixture, dv.datasets.Forum],
) -> None:
    model, forum = fitted
    probabilities = model.predict_proba(forum.features)
    assert probabilities.shape == (30, model.n_clusters_ + 1)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (probabilities >= 0).all()
    sure = (model.posterior_.partition_estimate().membership > 0.9) & (
        probabilities.max(axis=1) > 0.9
    )
    assert sure.sum() >= 5
    np.testing.assert_array_equal(model.predict(forum.features)[sure], model.labels_[sure])


@pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
def test_user_unlike_all_others_opens_a_cluster(
    fitted: tuple[dv.DualViewMixture, dv.datasets.Forum],
) -> None:
    model, _ = fitted
    assert model.predict([[3.0, 3.0]])[0] == -1


def test_user_unlike_all_others_is_worth_a_warning(
    fitted: tuple[dv.DualViewMixture, dv.datasets.Forum],
) -> None:
    model, _ = fitted
    with pytest.warns(DataWarning, match=r"new user\(s\) 0 rests on few"):
        model.predict_proba([[1000.0, 1000.0]])


def test_fixed_number_of_clusters_has_no_column_for_a_new_one() -> None:
    forum = dv.datasets.agreement(30, 60, seed=1)
    model = dv.DualViewMixture(4, n_warmup=100, n_draws=100, n_chains=1).fit(forum.features)
    probabilities = model.predict_proba(forum.features)
    assert probabilities.shape == (30, model.n_clusters_)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_batches_of_new_users_change_nothing(
    fitted: tuple[dv.DualViewMixture, dv.datasets.Forum],
) -> None:
    model, forum = fitted
    whole = model.predict_proba(forum.features[:6])
    np.testing.assert_allclose(
        [model.predict_proba(x[None])[0] for x in forum.features[:6]], whole, rtol=1e-10
    )
    latent = model.predict_latent(forum.features[:6]).mean
    np.testing.assert_allclose(
        [model.predict_latent(x[None]).mean[0] for x in forum.features[:6]], latent, rtol=1e-10
    )


def test_threads_with_two_new_users_and_with_none(
    fitted: tuple[dv.DualViewMixture, dv.datasets.Forum],
) -> None:
    model, forum = fitted
    threads = np.zeros((3, 32))
    threads[:, :4] = 0.25
    threads[1, 30:] = 0.5
    both = model.predict_outcome(threads, forum.features[:2])
    known = model.predict_outcome(threads[:, :30])
    assert both.mean[0] == pytest.approx(known.mean[0])
    assert both.std[1] > known.std[1]
    sparse_threads = model.predict_outcome(sparse.csr_array(threads), forum.features[:2])
    np.testing.assert_allclose(sparse_threads.mean, both.mean)


@pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
def test_outcomes_sharpen_a_prediction(
    fitted: tuple[dv.DualViewMixture, dv.datasets.Forum],
) -> None:
    model, forum = fitted
    threads = np.hstack([np.zeros((40, 30)), np.ones((40, 1))])
    seen = dv.SharedOutcome(threads, 42.0 + np.random.default_rng(0).standard_normal(40))
    after = model.predict_latent(forum.features[:1], seen)
    assert after.mean[0] == pytest.approx(42.0, abs=2.0)
    alone = dv.SharedOutcome(threads[:, 30:], seen.outcome)
    np.testing.assert_allclose(model.predict_latent(forum.features[:1], alone).mean, after.mean)


def test_messages(fitted: tuple[dv.DualViewMixture, dv.datasets.Forum]) -> None:
    model, forum = fitted
    with pytest.raises(
        InputError,
        match="Columns 30 to 31 are users unknown to the fit: give their features as X_new",
    ):
        model.predict_outcome(np.ones((2, 32)))
    with pytest.raises(InputError, match="32 in all; got 31"):
        model.predict_outcome(np.ones((2, 31)), forum.features[:2])
    with pytest.raises(InputError, match=r"one new user; row 0 of behavior_new have more"):
        model.predict_latent(forum.features[:2], dv.SharedOutcome(np.ones((1, 32)), [1.0]))
    with pytest.raises(InputError, match="give those of the new users too"):
        model.predict_latent()
    with pytest.raises(ValueError, match="features"):
        model.predict(np.ones((2, 5)))
    no_behavior = dv.DualViewMixture(1, n_warmup=5, n_draws=5, n_chains=1).fit(forum.features)
    with pytest.raises(InputError, match="without a behavior"):
        no_behavior.predict_latent(forum.features)
    no_features = dv.DualViewMixture(1, n_warmup=5, n_draws=5, n_chains=1)
    no_features.fit(None, dv.SharedOutcome(forum.participation, forum.outcome))
    with pytest.raises(InputError, match="without features"):
        no_features.predict(forum.features)
    with pytest.raises(InputError, match="give behavior_new"):
        no_features.predict_latent()


def narrow(*columns: str) -> dv.DualViewMixture:
    """A fit with a column that is the sum of two others, and one that does not vary; of a table
    where columns are named."""
    x = np.random.default_rng(0).standard_normal((20, 2))
    table = np.column_stack([x[:, 0], 100.0 * x[:, 1], x[:, 0] + 100.0 * x[:, 1], np.full(20, 7.0)])
    given = pd.DataFrame(table[:, : len(columns)], columns=list(columns)) if columns else table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dv.DualViewMixture(1, n_warmup=5, n_draws=5, n_chains=1).fit(given)


class TestOffTheSpanOfTheFit:
    def test_new_users_who_leave_it_are_told_how_far(self) -> None:
        new = np.array([[1.0, 10.0, 11.0, 7.0], [1.0, 10.0, 11.0, 9.0], [1.0, 10.0, 51.0, 7.0]])
        with pytest.warns(
            DataWarning,
            match=r"2 of 3 new user\(s\) lie outside the 2 of 4 dimensions.* row 1 \(by 2 in "
            r"x3\), row 2",
        ):
            narrow().predict_proba(new)

    def test_they_are_named_where_the_table_has_names(self) -> None:
        new = pd.DataFrame(
            {"a": [1.0, 1.0], "b": [10.0, 10.0], "sum": [11.0, 51.0]}, index=["ann", "bob"]
        )
        with pytest.warns(
            DataWarning, match=r"1 of 2 new user\(s\) lie outside the 2 of 3 dimensions.* bob \(by"
        ):
            narrow("a", "b", "sum").predict_proba(new)

    def test_those_who_stay_are_not(self) -> None:
        model = narrow()
        with warnings.catch_warnings():
            warnings.simplefilter("error", DataWarning)
            model.predict_proba([[0.1 + 0.2, 10.0, 10.3, 7.0]])


@pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
@pytest.mark.parametrize("observed", [False, True])
def test_a_new_user_is_placed_once_for_all_its_outcomes(
    observed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    user = np.repeat(np.arange(8), 3)
    design = rng.standard_normal((24, 1))
    model = dv.DualViewMixture(n_warmup=20, n_draws=20, n_chains=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(
            rng.standard_normal((8, 2)), dv.UserRegression(user, design, rng.standard_normal(24))
        )
    calls = []
    right = Candidates.log_features
    monkeypatch.setattr(
        Candidates, "log_features", lambda self, x, n: calls.append(n) or right(self, x, n)
    )
    asked = dv.UserRegression(np.tile([8, 9], 15), rng.standard_normal((30, 1)))
    own = dv.UserRegression([0, 1], [[1.0], [2.0]], [0.5, 0.1]) if observed else None
    predicted = model.predict_outcome(asked, rng.standard_normal((2, 2)), own)
    assert predicted.interval(0.9).shape == (30, 2)
    assert predicted.median.shape == (30,)
    assert sum(calls) == 2
