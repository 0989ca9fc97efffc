"""Several behaviors in one fit: names, users, posterior, predictions, files and scores."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

import dualview as dv
from dualview.behaviors.records import Evidence, SampledEvidence
from dualview.behaviors.several import SeveralBehaviors, joint_evidence, nothing_known
from dualview.errors import ConvergenceWarning, DataWarning, InputError

RNG = np.random.default_rng(0)
N_USERS = 12
GROUP = np.repeat([0, 1], 6)
X = np.column_stack([GROUP, RNG.standard_normal(N_USERS)]) + 0.3 * RNG.standard_normal((N_USERS, 2))
USER = np.repeat(np.arange(N_USERS), 4)
DOSE = RNG.standard_normal((len(USER), 1))
RESPONSE = (
    1.0 + DOSE[:, 0] * np.array([-1.0, 2.0])[GROUP][USER] + 0.3 * RNG.standard_normal(len(USER))
)
YES = (RNG.random(len(USER)) < np.array([0.2, 0.8])[GROUP][USER]).astype(int)
TOOK_PART = (RNG.random((15, N_USERS)) < 0.3).astype(float) + np.eye(15, N_USERS)
LENGTH = TOOK_PART @ (2.0 * GROUP) + 0.5 * RNG.standard_normal(15)
SHORT = {"n_warmup": 20, "n_draws": 30, "n_chains": 1}


def regression(**options: Any) -> dv.UserRegression:
    return dv.UserRegression(USER, DOSE, RESPONSE, intercept=True, **options)


def answers(**options: Any) -> dv.BinaryOutcomes:
    return dv.BinaryOutcomes(USER, np.ones((len(USER), 1)), YES, **options)


def posts() -> dv.SharedOutcome:
    return dv.SharedOutcome(TOOK_PART, LENGTH, noise_variance="paper")


def all_three() -> dict[str, Any]:
    return {"posts": posts(), "visits": regression(), "answers": answers()}


def fitted(y: Any, features: Any = X, **settings: Any) -> dv.DualViewMixture:
    with pytest.warns(ConvergenceWarning):
        return dv.DualViewMixture(**(SHORT | settings)).fit(features, y)


@pytest.fixture(scope="module")
def model() -> dv.DualViewMixture:
    return fitted(all_three())


class TestNames:
    def test_of_a_list(self) -> None:
        assert list(SeveralBehaviors.of([posts(), regression(), answers()]).parts) == [
            "shared_outcome",
            "regression",
            "binary",
        ]

    def test_two_of_a_kind_are_numbered(self) -> None:
        assert list(SeveralBehaviors.of([regression(), posts(), regression()]).parts) == [
            "regression_1",
            "shared_outcome",
            "regression_2",
        ]

    @pytest.mark.parametrize("name", ["a.b", "", "features", "behavior", 3])
    def test_that_cannot_be(self, name: Any) -> None:
        with pytest.raises(InputError, match=r"name of a behavior|cannot be called"):
            SeveralBehaviors({name: posts()})

    @pytest.mark.parametrize("other", [np.ones(3), dv.UserRegression, "posts"])
    def test_what_is_no_behavior(self, other: Any) -> None:
        with pytest.raises(InputError, match="b must be a behavior"):
            dv.DualViewMixture().fit(X, {"a": posts(), "b": other})

    def test_behaviors_inside_behaviors(self) -> None:
        with pytest.raises(InputError, match="one list or dictionary"):
            SeveralBehaviors.of([posts(), SeveralBehaviors.of([regression()])])

    def test_a_list_without_behaviors_is_ignored_as_any_other_y(self) -> None:
        with pytest.warns(DataWarning, match="is ignored"):
            dv.DualViewMixture(1, n_warmup=5, n_draws=5, n_chains=1).fit(X, GROUP.tolist())


class TestUsers:
    def test_by_ids_each_in_its_own_order(self) -> None:
        names = [f"u{u}" for u in range(N_USERS)]
        backwards = dv.SharedOutcome(TOOK_PART[:, ::-1], LENGTH, users=names[::-1])
        some = dv.UserRegression(
            [names[u] for u in USER[:20]], DOSE[:20], RESPONSE[:20], intercept=True
        )  # u0 to u4
        both = SeveralBehaviors({"posts": backwards, "visits": some}, names)
        assert both.users == names
        assert len(both["visits"]) == N_USERS
        np.testing.assert_array_equal(both["posts"].participation.toarray(), TOOK_PART)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(both["visits"].user, USER[:20])  # type: ignore[attr-defined]

    def test_of_all_behaviors_where_x_has_no_ids(self) -> None:
        few = dv.SharedOutcome(TOOK_PART[:, :2], LENGTH, users=["b", "a"])
        more = dv.UserRegression(["a", "c", "a", "c"], DOSE[:4], RESPONSE[:4], intercept=True)
        both = SeveralBehaviors.of([few, more])
        assert both.users == ["b", "a", "c"]
        assert both["shared_outcome"].participation.shape == (15, 3)  # type: ignore[attr-defined]
        assert both["regression"].user.tolist() == [1, 2, 1, 2]  # type: ignore[attr-defined]

    def test_ids_in_some_only(self) -> None:
        named = dv.UserRegression([str(u) for u in USER], DOSE, RESPONSE)
        with pytest.raises(InputError, match="without ids: posts"):
            SeveralBehaviors({"posts": posts(), "visits": named})
        table = pd.DataFrame(X, index=[str(u) for u in range(N_USERS)], columns=["a", "b"])
        assert (
            fitted({"posts": posts(), "visits": named}, table).posterior_.user_ids
            == table.index.tolist()
        )

    def test_of_different_numbers(self) -> None:
        few = dv.UserRegression(USER[:20], DOSE[:20], RESPONSE[:20])
        with pytest.raises(
            InputError,
            match=r"posts has 12, visits has 5\. visits: If users from 5 on .* n_users=12",
        ):
            SeveralBehaviors({"posts": posts(), "visits": few})

    def test_without_features(self) -> None:
        named = dv.UserRegression([f"u{u}" for u in USER], DOSE, RESPONSE)
        more = dv.BinaryOutcomes(["u1", "u99"], np.ones((2, 1)), [0, 1])
        table = pd.DataFrame(X, index=[f"u{u}" for u in range(N_USERS)], columns=["a", "b"])
        with pytest.raises(InputError, match="only in the behavior: u99"):
            dv.DualViewMixture().fit(table, [named, more])
        few = dv.SharedOutcome([[1.0, 1.0]], [0.0], users=["u1", "u99"])
        with pytest.raises(
            InputError, match=r"posts: X and behavior must be of the same users, .* behavior: u99"
        ):
            dv.DualViewMixture().fit(table, {"visits": named, "posts": few})
        assert SeveralBehaviors.of([named, more]).users == [f"u{u}" for u in range(N_USERS)] + [
            "u99"
        ]


class TestRefused:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"pooling": "cluster"}, "pooling"),
            ({"engine": "variational"}, "does not do this behavior, link or list of behaviors"),
            ({"init": "variational"}, "does not do this behavior, link or list of behaviors"),
        ],
    )
    def test_settings(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            dv.DualViewMixture(**settings).fit(X, all_three())

    def test_noise_of_clusters(self) -> None:
        with pytest.raises(InputError, match='regression: noise="cluster"'):
            dv.DualViewMixture().fit(X, [posts(), regression(noise="cluster")])

    def test_priors_that_join_behaviors(self) -> None:
        prior = dv.GaussianPrior(np.zeros(2), [[1.0, 0.5], [0.5, 1.0]])
        with pytest.raises(
            InputError, match="covariances of 0 between different behaviors; posts has others"
        ):
            dv.DualViewMixture(behavior_prior=prior).fit(
                X, {"posts": posts(), "answers": answers()}
            )
        with pytest.raises(
            InputError,
            match=r"over \(posts.latent, visits.intercept, visits.x0\) must have 3 dimension",
        ):
            dv.DualViewMixture(behavior_prior=prior).fit(
                X, {"posts": posts(), "visits": regression()}
            )

    def test_one_that_cannot_be_fitted_is_named(self) -> None:
        with pytest.raises(InputError, match="constant: outcome is constant"):
            dv.DualViewMixture().fit(
                X, {"posts": posts(), "constant": dv.SharedOutcome(TOOK_PART, np.ones(15))}
            )

    def test_what_takes_one_behavior(self, model: dv.DualViewMixture) -> None:
        with pytest.raises(InputError, match="fit of one behavior"):
            model.posterior_.to_arviz(["log_likelihood"])
        with pytest.raises(InputError, match="fit of one behavior"):
            model.posterior_.save("run.nc", whole=True)


class TestChecks:
    """A world of the model, and the same with outcomes of one behavior whose noise has heavy
    tails."""

    @staticmethod
    def checks(heavy: bool) -> Any:
        rng = np.random.default_rng(5)
        group, user = np.repeat([0, 1], 15), np.repeat(np.arange(30), 8)
        features = 3.0 * group[:, None] + rng.standard_normal((30, 2))
        dose, latent = rng.standard_normal(240), 2.0 * group + 0.5 * rng.standard_normal(30)
        noise = rng.standard_cauchy(240) if heavy else rng.standard_normal(240)
        visits = dv.UserRegression(user, dose[:, None], latent[user] * dose + 0.5 * noise)
        took_part = (rng.random((80, 30)) < 0.15).astype(float) + np.eye(80, 30)
        power = group - 0.5 * latent + 0.3 * rng.standard_normal(30)
        posts = dv.SharedOutcome(took_part, took_part @ power + 0.4 * rng.standard_normal(80))
        yes = dv.BinaryOutcomes(
            user,
            np.ones((240, 1)),
            (rng.random(240) < np.array([0.2, 0.8])[group][user]).astype(int),
        )
        model = fitted(
            {"visits": visits, "posts": posts, "yes": yes}, features, n_warmup=100, n_draws=60
        )
        return model.check(refit=False)

    @pytest.mark.slow
    def test_of_a_world_of_the_model(self) -> None:
        checks = self.checks(heavy=False)
        wrong = [check.name for check in checks if check.verdict == "the model is wrong here"]
        assert wrong == []

    def test_heavy_tails_are_seen_where_they_are(self) -> None:
        checks = self.checks(heavy=True)
        assert checks["outcomes of visits: tails"].verdict == "the model is wrong here"
        assert checks["outcomes of posts: tails"].verdict == "fine"
        names = {check.name for check in checks}
        assert {
            "outcomes of visits",
            "outcomes of posts: participants",
            "outcomes of yes",
            "behavior inside clusters",
        } <= names
        assert {"outcomes of yes: tails", "outcomes", "prior: n_clusters"}.isdisjoint(names)
        assert set(checks.levels()) == {
            "outcomes of visits",
            "outcomes of posts",
            "outcomes of yes",
            "features",
            "behavior",
        }


@pytest.mark.usefixtures("few_replicates")
@pytest.mark.parametrize("make", [posts, regression, answers])
def test_one_behavior_in_a_list_is_checked_as_alone(make: Any) -> None:
    alone = fitted(make()).check(refit=False)
    listed = fitted({"own": make()}).check(refit=False)
    for check in listed:
        assert check.p == pytest.approx(
            alone[check.name.replace("outcomes of own", "outcomes")].p, nan_ok=True
        )


@pytest.mark.parametrize("make", [posts, regression, answers, lambda: regression(noise="cluster")])
@pytest.mark.parametrize("n_clusters", [None, 2])
def test_one_behavior_in_a_list_makes_the_draws_it_makes_alone(
    make: Any, n_clusters: int | None
) -> None:
    alone = fitted(make(), n_clusters=n_clusters).posterior_
    listed = fitted({"own": make()}, n_clusters=n_clusters).posterior_
    assert {name.removeprefix("own.") for name in listed.names} == set(alone.names)
    for name in listed.names:
        np.testing.assert_array_equal(listed[name], alone[name.removeprefix("own.")])


class TestPosterior:
    def test_names_and_dimensions(self, model: dv.DualViewMixture) -> None:
        post = model.posterior_
        assert post.latent_names == ["posts.latent", "visits.intercept", "visits.x0", "answers.x0"]
        assert model.latent_.shape == (N_USERS, 4)
        assert post["behavior.base_mean"].shape == (1, 30, 4)
        assert (
            post["posts.noise_precision"].shape == post["visits.noise_precision"].shape == (1, 30)
        )
        assert {"log posts.noise_precision", "log visits.noise_precision"} <= set(post.scalars())
        assert set(post.to_arviz().children) >= {"posterior", "sample_stats"}

    def test_parameters_of_each_behavior_have_its_dimensions(self) -> None:
        items = {"item": (np.arange(len(USER)) % 3).astype(str)}
        age = pd.DataFrame({"age": RNG.standard_normal(len(USER))})
        visits = regression(common=age, groups=items)
        rated = dv.OrdinalOutcomes(USER, np.ones((len(USER), 1)), np.arange(len(USER)) % 3)
        threads = dv.SharedOutcome(
            TOOK_PART, LENGTH, covariates=pd.DataFrame({"hour": RNG.standard_normal(15)})
        )
        post = fitted({"visits": visits, "ratings": rated, "posts": threads}).posterior_
        draws = post.tree["posterior"]
        assert draws["visits.coefficients"].coords["visits.coefficient"].values.tolist() == ["age"]
        assert draws["visits.group_effects"].coords["visits.group_level"].values.tolist() == [
            "item: 0",
            "item: 1",
            "item: 2",
        ]
        assert draws["posts.coefficients"].coords["posts.coefficient"].values.tolist() == ["hour"]
        assert draws["ratings.cut_points"].coords["ratings.cut"].values.tolist() == ["0|1", "1|2"]
        assert {
            "log visits.group_sd[0]",
            "visits.group_effects[0]",
            "ratings.cut_points[1]",
        } <= set(post.scalars())

    def test_users_with_a_noise_of_their_own(self) -> None:
        post = fitted({"visits": regression(noise="user"), "answers": answers()}).posterior_
        assert post["visits.noise_precision"].shape == (1, 30, N_USERS)
        assert "mean log visits.noise_precision" in post.scalars()

    def test_summary(self) -> None:
        items = {"item": (np.arange(len(USER)) % 3).astype(str)}
        made = fitted([regression(groups=items), posts()], keep="summary", n_whole=5)
        assert made.posterior_.summary is not None
        assert "regression.group_effects" not in made.posterior_.summary
        assert "regression.group_sd" in made.posterior_.summary

    def test_saved_and_loaded(self, model: dv.DualViewMixture, tmp_path: Path) -> None:
        model.posterior_.save(tmp_path / "run.nc")
        again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
        assert isinstance(again.behavior_, SeveralBehaviors)
        for new in (all_three(), list(all_three().values())):
            for name, law in again.predict_outcome(new).items():
                np.testing.assert_array_equal(law.mean, model.predict_outcome(new)[name].mean)

    def test_checkpoint(self, tmp_path: Path, model: dv.DualViewMixture) -> None:
        for _ in range(2):
            again = fitted(all_three(), checkpoint=tmp_path / "run")
            np.testing.assert_array_equal(again.posterior_["latent"], model.posterior_["latent"])
        changed = all_three() | {
            "answers": dv.BinaryOutcomes(USER, np.ones((len(USER), 1)), 1 - YES)
        }
        with pytest.raises(InputError, match=r"answers\.outcome"):
            dv.DualViewMixture(**SHORT, checkpoint=tmp_path / "run").fit(X, changed)


class TestPredictions:
    def test_some_behaviors_by_name(self, model: dv.DualViewMixture) -> None:
        whole = model.predict_outcome(all_three())
        assert list(whole) == ["posts", "visits", "answers"]
        part = model.predict_outcome({"visits": regression()})
        assert list(part) == ["visits"]
        np.testing.assert_array_equal(part["visits"].mean, whole["visits"].mean)
        bare = model.predict_outcome({"posts": TOOK_PART})
        np.testing.assert_array_equal(bare["posts"].mean, whole["posts"].mean)

    def test_the_only_one_of_its_kind_needs_no_name(self, model: dv.DualViewMixture) -> None:
        assert list(model.predict_outcome(answers())) == ["answers"]
        with pytest.raises(InputError, match="say of which these observations are"):
            model.predict_outcome(TOOK_PART)

    def test_are_those_of_the_behavior_alone(self, model: dv.DualViewMixture) -> None:
        post, law = model.posterior_, model.predict_outcome({"visits": regression()})["visits"]
        latent, noise = post.flat("latent")[..., 1:3], post.flat("visits.noise_precision")
        alone = regression().forecast(regression(), latent, {"noise_precision": noise}, 0)
        np.testing.assert_allclose(
            law.mean, alone.known(slice(0, alone.n)).mean(axis=0), rtol=1e-12
        )

    @pytest.mark.parametrize(
        ("new", "message"),
        [
            ({"visit": None}, "posts, visits, answers; got visit"),
            ({}, "got none"),
            ([None], "one behavior for each of the fit"),
        ],
    )
    def test_wrong_names(self, model: dv.DualViewMixture, new: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            model.predict_outcome(new)

    def test_of_new_users_by_features(self, model: dv.DualViewMixture) -> None:
        threads = np.hstack([TOOK_PART[:2], np.ones((2, 1))])
        visits = dv.UserRegression([0, N_USERS], [[1.0], [1.0]], intercept=True)
        law = model.predict_outcome({"posts": threads, "visits": visits}, X[:1])
        assert (len(law["posts"]), len(law["visits"])) == (2, 2)
        latent = model.predict_latent(X[:3])
        assert {name: own.mean.shape for name, own in latent.items()} == {
            "posts": (3,),
            "visits": (3, 2),
            "answers": (3,),
        }
        np.testing.assert_allclose(
            law["visits"].mean[1], latent["visits"].mean[0].sum(), rtol=0.3, atol=0.5
        )

    def test_of_new_users_by_what_they_did_in_one_behavior(self, model: dv.DualViewMixture) -> None:
        steep = dv.UserRegression(
            [0] * 6,
            np.linspace(-2, 2, 6)[:, None],
            1.0 + 2.0 * np.linspace(-2, 2, 6),
            intercept=True,
        )
        yes, no = (
            model.predict_latent(X[:1], {"visits": own})["answers"].mean[0]
            for own in (
                steep,
                dv.UserRegression(
                    [0] * 6, steep.design[:, 1:], 1.0 - steep.design[:, 1], intercept=True
                ),
            )
        )
        assert yes > no  # who is steep says yes
        law = model.predict_outcome(answers().take([0]), X[:1], {"visits": steep})
        assert len(law["answers"]) == 1

    def test_of_new_users_with_ids(self) -> None:
        names = [f"u{u}" for u in range(N_USERS)]
        table = pd.DataFrame(X, index=names, columns=["a", "b"])
        made = fitted({"visits": regression(users=None), "answers": answers()}, table)
        one = dv.UserRegression(["new", "new"], [[0.0], [1.0]], [1.0, 3.0], intercept=True)
        other = dv.BinaryOutcomes(["newer"], [[1.0]], [1])
        latent = made.predict_latent(table.iloc[:2], {"visits": one, "answers": other})
        assert latent["visits"].mean.shape == (2, 2)

    def test_noise_of_users_and_what_new_ones_did(self) -> None:
        made = fitted({"visits": regression(noise="user"), "answers": answers()})
        one = dv.UserRegression([0], [[1.0]], [3.0], intercept=True)
        with pytest.raises(InputError, match='visits: with several behaviors and noise="user"'):
            made.predict_latent(X[:1], {"visits": one})
        assert (
            len(
                made.predict_latent(X[:1], {"answers": dv.BinaryOutcomes([0], [[1.0]], [1])})[
                    "visits"
                ].mean
            )
            == 1
        )


class TestScores:
    def test_score_is_the_mean_over_all_observations(self, model: dv.DualViewMixture) -> None:
        laws, given = model.predict_outcome(all_three()), all_three()
        densities = np.concatenate(
            [law.log_density(given[name].outcome) for name, law in laws.items()]
        )
        assert model.score(X, given) == pytest.approx(densities.mean())
        assert model.score(X, {"posts": posts()}) == pytest.approx(
            laws["posts"].log_density(LENGTH).mean()
        )
        with pytest.raises(InputError, match="has none"):
            model.score(X, {"posts": dv.SharedOutcome(TOOK_PART)})
        with pytest.raises(InputError, match="fitted to one behavior, a SharedOutcome"):
            fitted(posts()).score(X, [posts()])

    def test_compare(self, model: dv.DualViewMixture) -> None:
        table = dv.compare({"dual": model, "single": fitted(all_three(), None, n_clusters=1)})
        assert np.isfinite(table["elpd"]).all()

    def test_compare_by_user(self) -> None:
        both = [posts(), regression()]
        table = dv.compare(
            {"dual": fitted(both), "single": fitted(both, None, n_clusters=1)}, by="user"
        )
        assert np.isfinite(table["elpd"]).all()

    def test_scores_of_one_behavior_in_a_list(self) -> None:
        alone, listed = fitted(regression()), fitted([regression()])
        other = fitted(regression(), n_clusters=1), fitted([regression()], n_clusters=1)
        first = dv.compare({"a": alone, "b": other[0]})
        second = dv.compare({"a": listed, "b": other[1]})
        pd.testing.assert_frame_equal(first, second)

    def test_observations_for_a_fit_that_has_lost_them(
        self, model: dv.DualViewMixture, tmp_path: Path
    ) -> None:
        model.posterior_.save(tmp_path / "run.nc")
        again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
        table = dv.compare({"a": model, "b": again}, list(all_three().values()))
        assert table["difference"].abs().max() == pytest.approx(0.0, abs=1e-9)
        with pytest.raises(InputError, match="missing: answers"):
            dv.compare({"a": model, "b": again}, {"posts": posts(), "visits": regression()})

    def test_cross_validation(self) -> None:
        both = SeveralBehaviors.of([posts(), regression()])
        for training, held_out in both.split(3):
            assert training.n_observations + held_out.n_observations == 15 + len(USER)
            assert held_out["shared_outcome"].n_observations == 5  # type: ignore[attr-defined]
        over = dv.ObservationKFold(
            dv.DualViewMixture(1, n_warmup=5, n_draws=5, n_chains=1), X, [posts(), regression()]
        )
        with pytest.warns(ConvergenceWarning):
            assert np.isfinite(over.fit(over.positions[::2]).score(over.positions[1::2]))


class TestBehavior:
    def test_outcomes_known_to_an_interval_stand_with_numbers(self) -> None:
        low = np.where(RESPONSE > 2.0, 2.0, RESPONSE)
        censored = dv.UserRegression(
            USER, DOSE, dv.Censored(low, np.where(RESPONSE > 2.0, np.inf, RESPONSE)), intercept=True
        )
        both = SeveralBehaviors.of([posts(), censored])
        assert both.observed.shape == (15 + len(USER), 2)
        np.testing.assert_array_equal(both.observed[:15], np.column_stack([LENGTH, LENGTH]))
        table = dv.compare({"a": fitted(both), "b": fitted(both, n_clusters=1)})
        assert np.isfinite(table["elpd"]).all()

    def test_shown(self) -> None:
        both = SeveralBehaviors.of([posts(), answers()])
        assert "binary" in both._repr_html_()
        assert repr(both).startswith("SeveralBehaviors(shared_outcome=SharedOutcome(15 threads")
        assert both.n_observations == 15 + len(USER)
        assert both.user_weights().shape == (15 + len(USER), N_USERS)
        with pytest.raises(InputError, match="no behavior 'x'"):
            both["x"]

    def test_rankings_are_taken_whole(self) -> None:
        ranked = dv.Rankings(USER, USER, DOSE, np.tile([1, 2, 3, 4], N_USERS))
        both = SeveralBehaviors.of([posts(), ranked])
        assert both.whole(np.array([0, 15, 16])).tolist() == [0, 15, 16, 17, 18]
        made = fitted(both)
        assert np.isfinite(made.score(X, both))
        assert np.isfinite(dv.compare({"a": made, "b": fitted(both, n_clusters=1)})["elpd"]).all()


def test_evidence_of_several_behaviors_adds_up() -> None:
    rng = np.random.default_rng(2)
    blocks = list(SeveralBehaviors.of([posts(), regression()]).blocks.values())
    first = Evidence(
        rng.standard_normal((3, 2)), rng.standard_normal((3, 2, 1)), np.full((1, 2, 1, 1), 2.0)
    )
    second = Evidence(
        rng.standard_normal((1, 2)),
        rng.standard_normal((1, 2, 2)),
        np.tile(np.eye(2), (1, 2, 1, 1)),
    )
    joint = joint_evidence([first, second], blocks)
    assert isinstance(joint, Evidence)
    sampled = SampledEvidence(lambda j, draws, f: _quadratic(second, j, np.zeros_like(draws), f))
    mixed = joint_evidence([first, sampled], blocks)
    assert isinstance(mixed, SampledEvidence)
    draws, latent = np.array([0, 2, 2]), rng.standard_normal((3, 3))
    for user in range(2):
        wanted = _quadratic(
            first._replace(precision=np.full((3, 2, 1, 1), 2.0)), user, draws, latent[:, :1]
        )
        wanted = wanted + _quadratic(second, user, np.zeros_like(draws), latent[:, 1:])
        np.testing.assert_allclose(_quadratic(joint, user, draws, latent), wanted)
        np.testing.assert_allclose(mixed.log_likelihood(user, draws, latent), wanted)
    assert not any(part.any() for part in nothing_known(2, 3)[:3])


def _quadratic(evidence: Evidence, user: int, draws: np.ndarray, latent: np.ndarray) -> np.ndarray:
    constant, linear, precision = (part[draws, user] for part in evidence[:3])
    return (
        constant
        + (linear * latent).sum(axis=1)
        - 0.5 * np.einsum("ri,rij,rj->r", latent, precision, latent)
    )


def test_sparse_loads_of_new_users_find_their_block() -> None:
    both = SeveralBehaviors.of([posts(), regression()])  # one number, then two
    own = sparse.csr_array(np.array([[1.0, 2.0, 0.0, 3.0]]))  # of two new users
    assert both._wide(own, "regression").toarray().tolist() == [[0.0, 1.0, 2.0, 0.0, 0.0, 3.0]]


@pytest.mark.slow
def test_two_behaviors_tell_clusters_that_neither_tells_alone() -> None:
    """Four groups: one behavior tells two of them from the others, the other behavior cuts
    across."""
    rng = np.random.default_rng(1)
    group = np.arange(80) % 4
    user = np.repeat(np.arange(80), 15)
    dose = rng.standard_normal((len(user), 1))
    slope = np.where(group < 2, -1.5, 1.5)
    response = dose[:, 0] * slope[user] + 0.5 * rng.standard_normal(len(user))
    chance = np.where(group % 2 == 0, 0.1, 0.9)
    yes = (rng.random(len(user)) < chance[user]).astype(int)
    visits = dv.UserRegression(user, dose, response)
    said = dv.BinaryOutcomes(user, np.ones((len(user), 1)), yes)
    settings = {"n_warmup": 1000, "n_draws": 500, "n_chains": 2}
    scores = {}
    for name, y in {"visits": visits, "said": said, "both": [visits, said]}.items():
        scores[name] = adjusted_rand_score(
            group, dv.DualViewMixture(**settings).fit(None, y).labels_
        )
    assert max(scores["visits"], scores["said"]) < 0.6
    assert scores["both"] > 0.9
