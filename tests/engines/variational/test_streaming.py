"""More data for a variational fit: the bound of all data, the users it knows, and when a fit from
scratch is due."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

import dualview as dv
from dualview.behaviors.base import Behavior
from dualview.engines.variational.ascent import ascend
from dualview.engines.variational.engine import VariationalEngine, entered
from dualview.engines.variational.mean_field import MeanField
from dualview.errors import ConvergenceWarning, EngineError, InputError
from dualview.inputs.data import Data
from dualview.inputs.more_data import append_data
from dualview.inputs.parameters import Parameters
from dualview.inputs.problem import build_model
from dualview.inputs.variational_fit import new_users_apart
from dualview.posterior.draws.approximated import ApproximationFacts, StartFacts

N_OLD, N_NEW = 16, 8
RNG = np.random.default_rng(5)
LABELS = np.arange(N_OLD + N_NEW) % 2
LATENT = np.where(LABELS, 4.0, -4.0) + 0.4 * RNG.standard_normal(N_OLD + N_NEW)
FEATURES = 6.0 * LABELS[:, None] + RNG.standard_normal((N_OLD + N_NEW, 2))
PARTICIPATION = (RNG.random((60, N_OLD + N_NEW)) < 0.15).astype(float)
PARTICIPATION[:30, N_OLD:] = 0.0
OUTCOME = PARTICIPATION @ LATENT + 0.5 * RNG.standard_normal(60)
FIRST = dv.SharedOutcome(PARTICIPATION[:30, :N_OLD], OUTCOME[:30])
MORE = dv.SharedOutcome(PARTICIPATION[30:], OUTCOME[30:])
ALL = dv.SharedOutcome(PARTICIPATION, OUTCOME)


def _estimator(**settings) -> dv.DualViewMixture:
    return dv.DualViewMixture(engine="variational", **{"n_chains": 2, "n_draws": 20, **settings})


@pytest.fixture(scope="module")
def model() -> dv.DualViewMixture:
    return _estimator().partial_fit(FEATURES[:N_OLD], FIRST).partial_fit(FEATURES[N_OLD:], MORE)


def test_everything_is_that_of_all_users(model: dv.DualViewMixture) -> None:
    post = model.posterior_
    assert model.labels_.shape == model.latent_.shape == (N_OLD + N_NEW,)
    assert post["z"].shape == (2, 20, N_OLD + N_NEW)
    assert post.features is not None
    np.testing.assert_array_equal(post.features, FEATURES)
    assert post.n_observations == 60
    assert model.predict_outcome(PARTICIPATION[:3]).mean.shape == (3,)
    assert adjusted_rand_score(model.labels_, LABELS) == 1.0
    assert abs(model.latent_ - LATENT).max() < 1.5
    assert post.approximation is not None
    assert post.approximation.continued
    assert "from the fit before" in post.verdict()


def test_the_bound_is_no_lower_than_that_of_a_fit_from_scratch(model: dv.DualViewMixture) -> None:
    scratch = _estimator().fit(FEATURES, ALL).posterior_.approximation
    found = model.posterior_.approximation
    assert found is not None
    assert scratch is not None
    assert found.bound > scratch.bound - 0.05


@pytest.mark.parametrize("behavior", [True, False])
def test_the_bound_rises_from_where_the_fit_before_left_it(behavior: bool) -> None:
    before = build_model(
        Parameters.of(_estimator()),
        Data(FEATURES[:N_OLD], ["a", "b"], FIRST if behavior else None, range(N_OLD)),
    )
    earlier = ascend(MeanField.start(before.model, LABELS[:N_OLD]), 1e-2, 200).q.responsibilities
    everything = build_model(
        Parameters.of(_estimator()),
        Data(FEATURES, ["a", "b"], ALL if behavior else None, range(N_OLD + N_NEW)),
    ).model
    first = entered(everything, earlier)
    np.testing.assert_array_equal(first[:, :N_OLD], earlier)
    np.testing.assert_array_equal(
        first.argmax(axis=0), earlier.argmax(axis=0)[LABELS]
    )  # users 0 and 1 have labels 0 and 1
    start = MeanField.given(everything, first)
    found = VariationalEngine().resume(everything, [earlier], np.arange(N_OLD + N_NEW) >= N_OLD)
    assert found.best.bound >= start.bound
    assert found.best.evidence >= start.evidence
    assert found.found[0].converged


@pytest.mark.slow
def test_users_enter_where_coefficients_are_too_many_to_factorise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dualview.behaviors.likelihoods.threads._MOST_FACTORISED", 4)
    estimator = _estimator().fit(FEATURES[:N_OLD], FIRST).partial_fit(FEATURES[N_OLD:], MORE)
    assert adjusted_rand_score(estimator.labels_, LABELS) == 1.0
    assert abs(estimator.latent_ - LATENT).max() < 1.5


def test_without_observed_views_new_users_enter_by_the_weights_of_clusters() -> None:
    everything = build_model(
        Parameters.of(_estimator()), Data(None, [], ALL, range(N_OLD + N_NEW))
    ).model
    earlier = np.repeat([[0.75], [0.25]], N_OLD, axis=1)
    first = entered(everything, earlier)
    assert (first[0, N_OLD:] > first[1, N_OLD:]).all()
    np.testing.assert_allclose(first.sum(axis=0), 1.0)


def test_a_cluster_of_new_users_is_found_and_a_fit_from_scratch_called_for() -> None:
    apart = np.vstack([FEATURES[:N_OLD], RNG.standard_normal((N_NEW, 2)) + np.array([3.0, -20.0])])
    estimator = _estimator().fit(apart[:N_OLD])
    with pytest.warns(
        ConvergenceWarning, match="from scratch is due: 8 of 24 users are in clusters"
    ):
        estimator.partial_fit(apart[N_OLD:])
    assert estimator.n_clusters_ == 3
    assert len(np.unique(estimator.labels_[N_OLD:])) == 1


def test_more_observations_of_known_users_need_no_features() -> None:
    user = np.repeat(np.arange(N_OLD), 6)
    design = np.column_stack([np.ones(len(user)), RNG.standard_normal(len(user))])
    outcome = LATENT[user] * design[:, 0] + 0.3 * RNG.standard_normal(len(user))
    half = np.arange(len(user)) % 2 == 0
    first, more = (
        dv.UserRegression(user[rows], design[rows], outcome[rows]) for rows in (half, ~half)
    )
    estimator = _estimator(n_chains=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of one start
        estimator.fit(FEATURES[:N_OLD], first).partial_fit(None, more)
    assert estimator.behavior_ is not None
    assert len(estimator.behavior_.observed) == len(user)
    assert estimator.labels_.shape == (N_OLD,)


def test_other_engines_say_which_one_has_it() -> None:
    estimator = dv.DualViewMixture()
    assert not hasattr(estimator, "partial_fit")
    with pytest.raises(
        EngineError, match='engine="variational"; this estimator has engine="gibbs"'
    ):
        estimator.partial_fit(FEATURES)


def test_a_loaded_posterior_cannot_be_continued(model: dv.DualViewMixture, tmp_path: Path) -> None:
    model.posterior_.save(tmp_path / "run.nc")
    loaded = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc")).set_params(
        engine="variational"
    )
    with pytest.raises(InputError, match="loaded from a file"):
        loaded.partial_fit(FEATURES)


def test_fewer_clusters_than_before_or_a_checkpoint_are_refused(
    model: dv.DualViewMixture, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="n_clusters=1 is fewer"):
        model.set_params(n_clusters=1).partial_fit(FEATURES[:1])
    with pytest.raises(InputError, match="no checkpoint"):
        model.set_params(n_clusters=None, checkpoint=tmp_path).partial_fit(FEATURES[:1])
    model.set_params(checkpoint=None)


def _data(
    ids: list[str] | None = None, behavior: dv.SharedOutcome | dv.UserRegression | None = None
) -> Data:
    return Data(FEATURES[:3], ["x0", "x1"], behavior, range(3) if ids is None else ids)


def _fitted_to(columns: int) -> dv.DualViewMixture:
    estimator = _estimator()
    estimator.n_features_in_ = columns
    return estimator


def test_users_are_matched_by_their_ids() -> None:
    threads = dv.SharedOutcome(np.eye(3), [1.0, 2.0, 3.0], users=["a", "b", "c"])
    new = dv.SharedOutcome([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]], [4.0, 5.0], users=["e", "b", "d"])
    rows = pd.DataFrame(FEATURES[3:5], index=["d", "e"])
    data, news = append_data(_fitted_to(2), _data(["a", "b", "c"], threads), rows, new)
    assert list(data.users) == ["a", "b", "c", "d", "e"]
    assert isinstance(data.behavior, dv.SharedOutcome)
    np.testing.assert_array_equal(
        data.behavior.participation[3:], [[0, 2, 0, 0, 1], [0, 1, 0, 3, 0]]
    )
    np.testing.assert_array_equal(data.features, FEATURES[:5])
    assert news.tolist() == [False, True, False, True, True]


def test_users_without_ids_are_appended_in_order() -> None:
    threads = dv.SharedOutcome(np.eye(3), [1.0, 2.0, 3.0])
    own = dv.SharedOutcome([[1.0, 1.0]], [4.0])
    data, news = append_data(_fitted_to(2), _data(behavior=threads), FEATURES[3:5], own)
    assert isinstance(data.behavior, dv.SharedOutcome)
    np.testing.assert_array_equal(data.behavior.participation[3:], [[0, 0, 0, 1, 1]])
    assert news.tolist() == [False, False, False, True, True]
    data, news = append_data(_fitted_to(2), _data(behavior=threads), FEATURES[3:5], None)
    assert data.behavior is not None
    assert (len(data.behavior), len(data.behavior.observed), news.sum()) == (5, 3, 2)
    data, news = append_data(
        _estimator(),
        Data(None, [], threads, range(3)),
        None,
        dv.SharedOutcome(np.eye(4), np.ones(4)),
    )
    assert data.n_users == 4
    assert news.all()


def test_observations_of_single_users_are_joined_with_their_weights() -> None:
    first = dv.UserRegression(["a", "b"], np.ones((2, 1)), [1.0, 2.0], users=["a", "b", "c"])
    more = dv.UserRegression(["e", "a"], np.ones((2, 1)), [3.0, 4.0], weights=[2.0, 3.0])
    rows = pd.DataFrame(FEATURES[3:5], index=["d", "e"])
    behavior = append_data(_fitted_to(2), _data(["a", "b", "c"], first), rows, more).data.behavior
    assert isinstance(behavior, dv.UserRegression)
    assert behavior.user.tolist() == [0, 1, 4, 0]
    assert behavior.weights is not None
    assert behavior.weights.tolist() == [1.0, 1.0, 2.0, 3.0]
    assert (len(behavior), behavior.users) == (5, ["a", "b", "c", "d", "e"])


IDS = ["a", "b", "c"]
NAMED = dv.SharedOutcome(np.eye(3), [1.0, 2.0, 3.0], users=IDS)


@pytest.mark.parametrize(
    ("data", "X", "y", "text"),
    [
        (_data(), None, None, "got neither"),
        (_data(), None, FIRST, "no behavior"),
        (Data(None, [], FIRST, range(N_OLD)), FEATURES, None, "no features"),
        (_data(IDS), FEATURES[:1], None, "ids as its index"),
        (_data(IDS), pd.DataFrame(FEATURES[:1], index=["b"]), None, "already in it: b"),
        (_data(), pd.DataFrame(FEATURES[:1], index=["b"]), None, "by position"),
        (
            _data(IDS, NAMED),
            None,
            dv.SharedOutcome([[1.0]], [1.0], users=["z"]),
            "without features: z",
        ),
        (_data(), FEATURES[:1], "threads", "must be a behavior"),
        (
            Data(None, [], NAMED, IDS),
            None,
            dv.SharedOutcome(np.eye(4), np.ones(4)),
            "the ids of its users",
        ),
        (
            _data(behavior=dv.SharedOutcome(np.eye(3), [1.0, 2.0, 3.0])),
            None,
            dv.SharedOutcome(np.eye(3)),
            "Outcomes are needed",
        ),
    ],
)
def test_what_cannot_be_appended_is_an_error(data: Data, X, y, text: str) -> None:
    with pytest.raises(InputError, match=text):
        append_data(_fitted_to(2), data, X, y)


@pytest.mark.parametrize(
    ("behavior", "text"),
    [
        (
            dv.SharedOutcome(np.eye(3), np.ones(3), groups={"section": ["a", "b", "a"]}),
            "A SharedOutcome with groups cannot",
        ),
        (
            dv.UserRegression([0, 1], [[1.0], [1.0]], [1.0, 2.0], common=[[1.0], [3.0]]),
            "A UserRegression with effects outside the mixture cannot",
        ),
        (
            dv.UserRegression([0, 1], [[1.0], [1.0]], [1.0, 2.0], outcome_kind="rounded"),
            "A UserRegression whose outcomes are not exact numbers cannot",
        ),
    ],
)
def test_a_behavior_that_takes_no_more_says_what_to_do(behavior: Behavior, text: str) -> None:
    advice = r" take in more observations \(partial_fit\): call fit with all of them\.$"
    with pytest.raises(InputError, match=f"^{text}{advice}"):
        behavior.extended(None, 1)


def test_threads_that_are_known_are_not_taken_twice() -> None:
    table = pd.DataFrame(np.eye(3), index=["s", "t", "u"])
    known, again = (dv.SharedOutcome(rows, np.ones(len(rows))) for rows in (table, table[1:]))
    with pytest.raises(InputError, match="already in the fit: t, u"):
        known.extended(again, 0)


def test_a_fit_from_scratch_is_due_when_half_of_the_users_are_new() -> None:
    assert new_users_apart(np.array([[1.0, 1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0, 0.0]]), 2) == 2
    facts = ApproximationFacts(
        [StartFacts(-10.0, 3, 20, True, 1.0)], 1, 0.3, True, "6 of 10 users have entered"
    )
    assert ApproximationFacts.from_json(facts.to_json()) == facts
    converged, text = facts.verdict()
    assert not converged
    assert "a fit from scratch is due: 6 of 10 users have entered" in text
    assert facts._replace(due=None).verdict()[0]
