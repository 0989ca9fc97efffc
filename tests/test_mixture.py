"""DualViewMixture: the seven models, their attributes, seeds and schedules, and what does not
change the posterior."""

import numpy as np
import pytest

import dualview as dv
from dualview.engines.starts import KMeansStart
from dualview.errors import DataWarning, DegenerateError
from dualview.posterior.partition import Found

# These runs are too short to converge, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning")

QUICK = {"n_warmup": 20, "n_draws": 15, "n_chains": 2}
FORUM = dv.datasets.agreement(n_users=15, n_threads=25, seed=2)
FEATURES, BEHAVIOR = FORUM.features, dv.SharedOutcome(FORUM.participation, FORUM.outcome)

MODELS = {  # features, behavior, n_clusters
    "dual-DP": (FEATURES, BEHAVIOR, None),
    "dual-fixed": (FEATURES, BEHAVIOR, 5),
    "single": (None, BEHAVIOR, 1),
    "IGMM": (FEATURES, None, None),
    "GMM": (FEATURES, None, 5),
    "latent-IGMM": (None, BEHAVIOR, None),
    "latent-GMM": (None, BEHAVIOR, 5),
}


def fit(features=FEATURES, behavior=BEHAVIOR, n_clusters=None, **options):
    return dv.DualViewMixture(n_clusters, **(QUICK | options)).fit(features, behavior)


def assert_same_draws(one, other):
    assert one.posterior_.names == other.posterior_.names
    for name in one.posterior_.names:
        np.testing.assert_array_equal(one.posterior_[name], other.posterior_[name], err_msg=name)


@pytest.mark.parametrize("name", MODELS)
class TestSevenModels:
    def test_attributes(self, name):
        features, behavior, n_clusters = MODELS[name]
        model = fit(features, behavior, n_clusters)
        assert model.labels_.shape == (15,)
        assert model.labels_.dtype == np.int64
        np.testing.assert_array_equal(np.unique(model.labels_), np.arange(model.n_clusters_))
        assert (np.diff(np.bincount(model.labels_)) <= 0).all()
        assert model.n_clusters_ <= (n_clusters or 15)
        assert hasattr(model, "latent_") == (behavior is not None)
        if behavior is not None:
            assert model.latent_.shape == (15,)
            np.testing.assert_allclose(
                model.latent_, np.median(model.posterior_["latent"], axis=(0, 1))
            )

    def test_names_and_shapes_of_draws(self, name):
        features, behavior, n_clusters = MODELS[name]
        post = fit(features, behavior, n_clusters).posterior_
        shapes = {"z": (15,), "n_clusters": (), "log_joint": ()}
        if n_clusters != 1:
            shapes["alpha"] = ()
        if features is not None:
            shapes |= {"features.base_mean": (2,), "features.base_precision": (2, 2)}
            shapes |= {"features.base_covariance": (2, 2), "features.base_dof": ()}
        if behavior is not None:
            shapes |= {"latent": (15,), "noise_precision": ()}
            shapes |= {
                f"behavior.base_{part}": () for part in ("mean", "precision", "covariance", "dof")
            }
        assert {draw: post[draw].shape for draw in post.names} == {
            draw: (2, 15, *shape) for draw, shape in shapes.items()
        }
        assert all(np.isfinite(post[draw]).all() for draw in post.names)

    def test_draws_are_in_their_support(self, name):
        features, behavior, n_clusters = MODELS[name]
        post = fit(features, behavior, n_clusters).posterior_
        z = post["z"].reshape(-1, 15)
        np.testing.assert_array_equal(
            [len(np.unique(row)) for row in z], post["n_clusters"].ravel()
        )
        assert z.min() >= 0
        assert z.max() < (n_clusters or 15)
        if n_clusters is None:  # labels without gaps
            np.testing.assert_array_equal(z.max(axis=1) + 1, post["n_clusters"].ravel())
        for draw in ("alpha", "noise_precision", "behavior.base_dof", "behavior.base_precision"):
            assert draw not in post or (post[draw] > 0).all()
        if features is not None:
            assert (post["features.base_dof"] > 1).all()
            assert (np.linalg.eigvalsh(post["features.base_covariance"]) > 0).all()

    def test_same_seed_same_draws(self, name):
        features, behavior, n_clusters = MODELS[name]
        one = fit(features, behavior, n_clusters, random_state=3)
        assert_same_draws(one, fit(features, behavior, n_clusters, random_state=3))
        other = fit(features, behavior, n_clusters, random_state=4)
        assert not np.array_equal(one.posterior_["log_joint"], other.posterior_["log_joint"])

    def test_prediction(self, name):
        features, behavior, n_clusters = MODELS[name]
        if behavior is None:
            return
        model = fit(features, behavior, n_clusters)
        post = model.posterior_
        predicted = model.predict_outcome(FORUM.test.participation)
        expected = FORUM.test.participation @ post["latent"].mean(axis=(0, 1))
        np.testing.assert_allclose(predicted.mean, expected, rtol=1e-9)
        assert np.isfinite(predicted.nll(FORUM.test.outcome))
        assert (predicted.std**2 > (1 / post["noise_precision"]).mean() * (1 - 1e-9)).all()


class TestChains:
    def test_jobs_change_nothing(self):
        assert_same_draws(fit(n_jobs=1), fit(n_jobs=2))

    def test_a_chain_is_the_same_whatever_runs_beside_it(self):
        two, five = fit(n_chains=2).posterior_, fit(n_chains=5).posterior_
        for name in two.names:
            np.testing.assert_array_equal(two[name], five[name][:2], err_msg=name)
        assert not np.array_equal(two["log_joint"][0], two["log_joint"][1])

    def test_thin_and_warmup_choose_among_the_same_states(self):
        every = fit(n_warmup=0, n_draws=30).posterior_
        some = fit(n_warmup=6, n_draws=8, thin=3).posterior_
        assert some.n_draws == 8
        for name in every.names:
            np.testing.assert_array_equal(some[name], every[name][:, 8::3], err_msg=name)

    def test_numbers_of_auxiliary_components(self):
        draws = [fit(n_auxiliary=m).posterior_["log_joint"] for m in (1, 3, 10)]
        assert not np.array_equal(draws[0], draws[1])
        assert np.isfinite(draws).all()


class TestInit:
    def first(self, init, n_clusters=None, features=FEATURES, behavior=BEHAVIOR):
        return fit(
            features, behavior, n_clusters, init=init, n_warmup=0, n_draws=1, n_chains=1
        ).posterior_

    def test_variants_run_and_differ(self):
        starts = [
            "kmeans",
            "one",
            np.arange(15) % 3,
            np.arange(15),
            [f"species {u % 2}" for u in range(15)],
        ]
        draws = [self.first(init)["log_joint"][0, 0] for init in starts]
        assert np.isfinite(draws).all()
        assert len(set(draws)) == len(starts)

    def test_names_of_labels_do_not_matter(self):
        labels = np.arange(15) % 3
        expected = self.first(labels)
        for same in (
            labels + 7,
            labels.tolist(),
            np.array(["a", "b", "c"])[labels],
            labels.astype(np.uint8),
        ):
            np.testing.assert_array_equal(self.first(same)["z"], expected["z"])

    def test_one_cluster_to_start_with(self):
        np.testing.assert_array_equal(
            self.first("one")["z"], self.first(np.zeros(15, dtype=int))["z"]
        )

    def test_given_labels_are_not_changed(self):
        labels = np.arange(15) % 4
        self.first(labels)
        np.testing.assert_array_equal(labels, np.arange(15) % 4)

    def test_kmeans_without_features_and_with_few_distinct_users(self):
        assert self.first("kmeans", features=None)["z"].shape == (1, 1, 15)
        assert self.first("kmeans", n_clusters=1)["n_clusters"] == 1
        three = np.repeat(np.random.default_rng(0).normal(size=(3, 2)), 5, axis=0)
        np.testing.assert_array_equal(
            np.unique(KMeansStart(three, 5)(np.random.default_rng(0))), [0, 1, 2]
        )

    def test_users_who_are_all_alike_are_told_of_before_their_clusters_shrink(self):
        """Soon the clusters are single points."""
        three = np.repeat(np.random.default_rng(0).normal(size=(3, 2)), 5, axis=0)
        with (
            pytest.warns(DataWarning, match="Many users share a value"),
            pytest.warns(
                DataWarning, match=r"same features in all columns: 0, 1, 2, 3, … \(5 users\); 5, 6,"
            ),
            pytest.raises(DegenerateError, match="features view has collapsed"),
        ):
            fit(three, BEHAVIOR, 5, init="kmeans", n_warmup=50, n_draws=1, n_chains=1)


class TestCoefficients:
    def test_intercept_and_covariates_are_learnt(self):
        """With little noise they are found to within their posterior spread, and predictions use
        them."""
        rng = np.random.default_rng(0)
        participation = (rng.random((200, 10)) < 0.4).astype(float)
        covariates = rng.normal(size=(200, 2)) * [1.0, 50.0]
        latent, slopes = rng.normal(0, 3, 10), np.array([40.0, -3.0, 0.5])
        outcome = (
            participation @ latent
            + np.column_stack([np.ones(200), covariates]) @ slopes
            + rng.normal(size=200)
        )
        behavior = dv.SharedOutcome(participation, outcome, covariates=covariates, intercept=True)
        model = fit(None, behavior, n_warmup=200, n_draws=200)
        draws = model.posterior_.flat("coefficients")
        assert draws.shape == (400, 3)
        assert (np.abs(draws.mean(axis=0) - slopes) < 4.5 * draws.std(axis=0)).all()
        spread = model.posterior_.flat("latent").std(axis=0)
        assert (np.abs(model.latent_ - latent) < 4.5 * spread).all()
        new = dv.SharedOutcome(participation[:5], covariates=covariates[:5], intercept=True)
        np.testing.assert_allclose(model.predict_outcome(new).mean, outcome[:5], atol=4.5)


def moved(values, *, shift=0.0, factor=1.0):
    return values * factor + shift


class TestUnits:
    """Moving and rescaling the data changes the draws as it changes the data."""

    factors, shifts = np.array([1e-3, 250.0]), np.array([1e4, -3.0])

    @pytest.mark.parametrize("n_clusters", [None, 4])
    def test_features(self, n_clusters):
        options = {"n_warmup": 100, "n_draws": 100, "n_clusters": n_clusters}
        post = fit(**options).posterior_
        other = fit(moved(FEATURES, shift=self.shifts, factor=self.factors), **options).posterior_
        np.testing.assert_array_equal(other["z"], post["z"])
        np.testing.assert_allclose(other["latent"], post["latent"], rtol=1e-5)
        self.assert_view_moved(post, other)

    def test_dependent_columns(self):
        three = np.column_stack([FEATURES, FEATURES.sum(axis=1)])
        factors, shifts = np.array([0.25, 1.0, 64.0]), np.array([10.0, 0.0, -5.0])
        with pytest.warns(DataWarning, match="linearly dependent"):
            post = fit(three).posterior_
        with pytest.warns(DataWarning, match="linearly dependent"):
            other = fit(moved(three, shift=shifts, factor=factors)).posterior_
        np.testing.assert_array_equal(other["z"], post["z"])

    def test_features_with_a_prior(self):
        mean, covariance = np.array([0.1, -0.2]), np.array([[0.3, 0.1], [0.1, 0.2]])
        options = {"n_warmup": 100, "n_draws": 100}
        post = fit(feature_prior=dv.GaussianPrior(mean, covariance), **options).posterior_
        prior = dv.GaussianPrior(
            moved(mean, shift=self.shifts, factor=self.factors),
            covariance * np.outer(self.factors, self.factors),
        )
        other = fit(
            moved(FEATURES, shift=self.shifts, factor=self.factors), feature_prior=prior, **options
        ).posterior_
        np.testing.assert_array_equal(other["z"], post["z"])
        self.assert_view_moved(post, other)
        assert not np.array_equal(
            fit(**options).posterior_["features.base_mean"], post["features.base_mean"]
        )

    def assert_view_moved(self, post, other):
        squares = np.outer(self.factors, self.factors)
        expected = moved(post["features.base_mean"], shift=self.shifts, factor=self.factors)
        size = np.abs(expected - self.shifts).max(axis=(0, 1))
        np.testing.assert_allclose((other["features.base_mean"] - expected) / size, 0.0, atol=1e-5)
        np.testing.assert_allclose(
            other["features.base_covariance"], post["features.base_covariance"] * squares, rtol=1e-4
        )
        np.testing.assert_allclose(
            other["features.base_precision"], post["features.base_precision"] / squares, rtol=1e-4
        )
        np.testing.assert_allclose(other["features.base_dof"], post["features.base_dof"], rtol=1e-4)

    @pytest.mark.parametrize("given", [False, True])
    def test_outcome(self, given):
        """Outcome and covariates in other units, with the constants from the data or given along
        with them."""
        rng = np.random.default_rng(1)
        hour = rng.normal(3.0, 2.0, (25, 1))
        factor, shift, hour_factor = 1000.0, -7.0, 60.0

        def posterior(scale, move, hour_scale):
            priors, latent = {}, None
            if given:
                units = np.array([scale, scale / hour_scale])
                covariance = np.array([[900.0, -3.0], [-3.0, 4.0]]) * np.outer(units, units)
                mean = np.array([20.0, 1.0]) * units + [move, 0.0]
                priors = {
                    "noise_variance": 30.0 * scale**2,
                    "coefficient_prior": dv.GaussianPrior(mean, covariance),
                }
                latent = dv.GaussianPrior(40.0 * scale, 1500.0 * scale**2)
            behavior = dv.SharedOutcome(
                FORUM.participation,
                FORUM.outcome * scale + move,
                covariates=hour * hour_scale,
                intercept=True,
                **priors,
            )
            return fit(
                behavior=behavior, behavior_prior=latent, n_warmup=100, n_draws=100
            ).posterior_

        post, other = posterior(1.0, 0.0, 1.0), posterior(factor, shift, hour_factor)
        np.testing.assert_array_equal(other["z"], post["z"])
        size = np.abs(post["latent"]).max()
        np.testing.assert_allclose(other["latent"] / factor, post["latent"], atol=1e-6 * size)
        np.testing.assert_allclose(
            other["noise_precision"], post["noise_precision"] / factor**2, rtol=1e-5
        )
        expected = post["coefficients"] * [factor, factor / hour_factor] + [shift, 0.0]
        np.testing.assert_allclose(other["coefficients"], expected, rtol=1e-5, atol=1e-5 * factor)
        np.testing.assert_allclose(
            other["behavior.base_precision"], post["behavior.base_precision"] / factor**2, rtol=1e-4
        )
        np.testing.assert_allclose(
            other["behavior.base_covariance"],
            post["behavior.base_covariance"] * factor**2,
            rtol=1e-4,
        )

    def test_constants_are_honoured(self):
        """Far-off constants of every kind pull the posterior to themselves."""
        few = BEHAVIOR.take(np.arange(3))
        tight = fit(behavior=few, behavior_prior=dv.GaussianPrior(1e6, 1.0), n_draws=50)
        assert (np.abs(np.median(tight.posterior_.flat("latent"), axis=0) - 1e6) < 1e5).all()
        loud = dv.SharedOutcome(few.participation, few.outcome, noise_variance=1e12)
        assert fit(behavior=loud).posterior_["noise_precision"].max() < 1e-6
        prior = dv.GaussianPrior(-500.0, 1e-6)
        anchored = dv.SharedOutcome(
            few.participation, few.outcome, intercept=True, coefficient_prior=prior
        )
        np.testing.assert_allclose(
            fit(behavior=anchored).posterior_["coefficients"], -500.0, atol=0.01
        )


CHAINS = {"n_warmup": 100, "n_draws": 100, "n_chains": 12}


def summaries(post):
    """Chain means (chains, …) of what has no labels: clusters, noise, β, togetherness of some
    pairs, some latent numbers."""
    z, together = post["z"], []
    for i, j in ((0, 1), (0, 5), (3, 9), (11, 14)):
        together.append((z[..., i] == z[..., j]).mean(axis=1))
    return np.column_stack(
        [
            np.log(post["n_clusters"]).mean(axis=1),
            np.log(post["noise_precision"]).mean(axis=1),
            np.log(post["features.base_dof"] - 1).mean(axis=1),
            *together,
            post["latent"][:, :, [0, 4, 9]].mean(axis=1),
        ]
    )


def z_scores(one, other):
    """Of the differences between two sets of independent chains; a statistic without spread must be
    equal."""
    error = np.sqrt(one.var(axis=0, ddof=1) / len(one) + other.var(axis=0, ddof=1) / len(other))
    return (one.mean(axis=0) - other.mean(axis=0)) / np.where(error > 0, error, 1e-12)


@pytest.fixture(scope="module")
def reference():
    return summaries(fit(random_state=1, **CHAINS).posterior_)


class TestSamePosterior:
    """Within Monte-Carlo error, from independent chains."""

    def test_permuted_users(self, reference):
        order = np.random.default_rng(0).permutation(15)
        behavior = dv.SharedOutcome(FORUM.participation[:, order], FORUM.outcome)
        post = fit(FEATURES[order], behavior, random_state=2, **CHAINS).posterior_
        back = np.argsort(order)
        named = {name: post[name] for name in post.names} | {
            "z": post["z"][..., back],
            "latent": post["latent"][..., back],
        }
        assert np.abs(z_scores(reference, summaries(named))).max() < 4.5

    def test_rotated_features(self, reference):
        angle = 0.7
        rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        post = fit(FEATURES @ rotation, random_state=3, **CHAINS).posterior_
        assert np.abs(z_scores(reference, summaries(post))).max() < 4.5

    def test_other_starts_and_numbers_of_auxiliary_components(self, reference):
        post = fit(init="one", n_auxiliary=6, random_state=4, **CHAINS).posterior_
        assert np.abs(z_scores(reference, summaries(post))).max() < 4.5

    def test_the_comparison_sees_a_difference(self, reference):
        """Other outcomes: the same comparison rejects."""
        behavior = dv.SharedOutcome(FORUM.participation, FORUM.outcome[::-1].copy())
        post = fit(behavior=behavior, random_state=5, **CHAINS).posterior_
        assert np.abs(z_scores(reference, summaries(post))).max() > 6


def test_a_better_partition_is_that_of_labels_and_predictions() -> None:
    """A search that goes on may find another number of clusters."""
    features, behavior, _ = MODELS["dual-DP"]
    model = fit(features, behavior, None)
    before = model.predict_proba(features[:3])
    assert before.shape == (3, model.n_clusters_ + 1)
    better = np.arange(15) % 4
    model.posterior_._keep("vi", Found(better, True))
    np.testing.assert_array_equal(model.labels_, model.posterior_.partition())
    assert model.n_clusters_ == 4
    assert model.predict_proba(features[:3]).shape == (3, 5)
    assert len(model.get_feature_names_out()) == 5
    assert set(model.predict(features)) <= {-1, 0, 1, 2, 3}
