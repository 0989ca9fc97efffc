"""score, score_samples, and scikit-learn's searches over observations."""

import warnings

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dualview as dv
from dualview.errors import DataWarning, InputError

FORUM = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
pytestmark = pytest.mark.filterwarnings("ignore:The partition estimate has")  # fits are short
QUICK = {"n_warmup": 20, "n_draws": 10, "n_chains": 1}


def behavior(**options):
    return dv.SharedOutcome(FORUM.participation, FORUM.outcome, **options)


def one_column(n_clusters):
    rng = np.random.default_rng(3)
    X = 50.0 + 4.0 * np.concatenate([rng.normal(0, 1, 20), rng.normal(9, 1, 20)])[:, None]
    return dv.DualViewMixture(n_clusters, n_warmup=200, n_draws=20, n_chains=1).fit(X)


class TestDensityOfFeatures:
    def test_it_integrates_to_one(self):
        model = one_column(2)
        grid = np.linspace(-600, 800, 40_001)
        density = np.exp(model.score_samples(grid[:, None]))
        np.testing.assert_allclose(
            integrate.simpson(density, x=grid), 1.0, atol=1e-4
        )  # the tails beyond are thinner still

    def test_it_is_the_mean_of_the_draws_mixtures_with_a_new_cluster(self):
        model = one_column(None)
        post, points = model.posterior_, np.array([40.0, 50.0, 66.0, 86.0, 120.0])
        unit, table = post.spec.units["features"], post.components
        scale, centre = unit.factor[0, 0], unit.mean[0]
        alpha, n_users = post.flat("alpha"), post.n_users
        rng = np.random.default_rng(0)
        exact, error = np.zeros(len(points)), np.zeros(len(points))
        names = ("base_mean", "base_precision", "base_covariance", "base_dof")
        for draw, (mean, precision, covariance, dof) in enumerate(
            zip(*post.base("features", names).values(), strict=True)
        ):
            mine = table["owner"] == draw
            sds = scale / np.abs(table["features.factors"][mine, 0, 0])
            known = stats.norm.pdf(
                points[:, None], centre + scale * table["features.means"][mine, 0], sds
            )
            # S ~ G(β, 1/(β W_0)), in the user's units; the cluster's mean is integrated out.
            shape, rate = 0.5 * dof, 0.5 * dof * covariance[0, 0]
            levels = (np.arange(20_000) + 0.5) / 20_000
            variances = scale**2 / stats.gamma.ppf(levels, shape, scale=1 / rate)
            spread = np.sqrt(variances + scale**2 / precision[0, 0])
            fresh = stats.norm.pdf(points[:, None], centre + scale * mean[0], spread).mean(axis=1)
            drawn = stats.norm.pdf(
                points[:, None],
                centre + scale * rng.normal(mean[0], precision[0, 0] ** -0.5, 20_000),
                np.sqrt(variances),
            )
            weight = alpha[draw] / (n_users + alpha[draw])
            exact += (
                known @ table["count"][mine] / (n_users + alpha[draw]) + weight * fresh
            ) / len(alpha)
            error += (weight * drawn.std(axis=1) / len(alpha)) ** 2 / (20_000 / len(alpha))
        found = np.exp(model.score_samples(points[:, None]))
        assert (np.abs(found - exact) < 4.5 * np.sqrt(error) + 1e-4 * exact).all()

    def test_it_is_in_the_units_of_the_features(self):
        plain = dv.DualViewMixture(**QUICK).fit(FORUM.features)
        scaled = dv.DualViewMixture(**QUICK).fit(FORUM.features * [100.0, 1.0] + 7.0)
        np.testing.assert_allclose(
            scaled.score_samples(FORUM.features * [100.0, 1.0] + 7.0),
            plain.score_samples(FORUM.features) - np.log(100.0),
            rtol=1e-6,
        )

    def test_of_features_that_span_less_it_is_the_density_inside(self):
        X = FORUM.features
        plain = dv.DualViewMixture(**QUICK).fit(X)
        with pytest.warns(DataWarning, match="span 2 of 3 dimensions"):
            flat = dv.DualViewMixture(feature_prior=None, **QUICK).fit(
                np.column_stack([X, X[:, 0]])
            )
        stretched = np.log(np.sqrt(2.0))  # (x, y) -> (x, y, x) stretches areas by √2
        volume = (
            flat.posterior_.spec.units["features"].log_volume
            - plain.posterior_.spec.units["features"].log_volume
        )
        assert volume == pytest.approx(stretched, rel=1e-9)

    def test_typical_users_score_more_and_the_score_is_the_mean(self):
        model = dv.DualViewMixture(**QUICK).fit(FORUM.features, behavior())
        scores = model.score_samples(FORUM.features)
        assert scores.shape == (20,)
        assert model.score(FORUM.features) == pytest.approx(scores.mean())
        assert model.score_samples(FORUM.features + 30.0).max() < scores.min()
        with pytest.raises(InputError, match="got neither"):
            model.score()

    def test_without_features_there_is_none(self):
        model = dv.DualViewMixture(**QUICK).fit(None, behavior())
        with pytest.raises(InputError, match="fitted without features, so they have no density"):
            model.score_samples(FORUM.features)


class TestDensityOfOutcomes:
    @pytest.mark.parametrize("X", [None, FORUM.features], ids=["behavior only", "both"])
    def test_it_is_that_of_predict_outcome(self, X):
        train, held_out = next(behavior().split(3))
        model = dv.DualViewMixture(**QUICK).fit(X, train)
        wanted = -model.predict_outcome(held_out.participation).nll(held_out.outcome)
        assert model.score(X, held_out) == pytest.approx(wanted)
        with pytest.raises(InputError, match="this behavior has none"):
            model.score(X, dv.SharedOutcome(FORUM.participation))

    def test_of_answers(self):
        rng = np.random.default_rng(0)
        user = np.repeat(np.arange(10), 6)
        answers = dv.BinaryOutcomes(user, np.ones((60, 1)), rng.random(60) < 0.5)
        model = dv.DualViewMixture(**QUICK).fit(None, answers)
        assert -2.0 < model.score(None, answers) < 0.0


class TestSearches:
    def test_folds_are_those_of_split(self):
        answers = dv.UserRegression([0, 0, 1, 1, 1], np.ones((5, 1)), np.arange(5.0))
        for made in (behavior(), answers):
            for (train, held_out), (first, second) in zip(
                made.split(3, seed=4), made.folds(3, seed=4), strict=True
            ):
                np.testing.assert_array_equal(train.outcome, made.outcome[first])
                np.testing.assert_array_equal(held_out.outcome, made.outcome[second])

    def test_cross_val_score(self):
        model = dv.DualViewMixture(2, **QUICK)
        over = dv.ObservationKFold(model, FORUM.features, behavior())
        scores = cross_val_score(over, over.positions, cv=behavior().folds(3))
        wanted = [
            dv.DualViewMixture(2, **QUICK)
            .fit(FORUM.features, train)
            .score(FORUM.features, held_out)
            for train, held_out in behavior().split(3)
        ]
        np.testing.assert_allclose(scores, wanted)
        assert np.isfinite(cross_val_score(over, over.positions, cv=TimeSeriesSplit(2))).all()

    def test_grid_search(self):
        model = make_pipeline(StandardScaler(), dv.DualViewMixture(**QUICK))
        over = dv.ObservationKFold(model, FORUM.features, behavior())
        search = GridSearchCV(over, {"estimator__dualviewmixture__n_clusters": [1, 3]}, cv=2).fit(
            over.positions
        )
        assert search.best_params_["estimator__dualviewmixture__n_clusters"] in (1, 3)
        assert search.best_estimator_.estimator_[-1].labels_.shape == (20,)
        assert not hasattr(over, "estimator_")

    def test_searches_over_users_score_features(self):
        search = GridSearchCV(dv.DualViewMixture(**QUICK), {"n_clusters": [1, 3]}, cv=2).fit(
            FORUM.features
        )
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()

    def test_what_is_no_position(self):
        over = dv.ObservationKFold(dv.DualViewMixture(**QUICK), FORUM.features, behavior())
        for wrong in (FORUM.features, np.arange(30), [[30]], [[-1]]):
            with pytest.raises(
                InputError,
                match=r"X must be positions of observations, .* from 0 to 29: over\.positions",
            ):
                over.fit(wrong)
        with pytest.raises(InputError, match=r"behavior must have outcomes, .*; got NoneType"):
            dv.ObservationKFold(dv.DualViewMixture()).fit([[0]])
        with pytest.warns(
            FutureWarning, match="OverObservations is called dualview.ObservationKFold now"
        ):
            assert dv.OverObservations is dv.ObservationKFold


def test_an_intercept_beside_constant_totals_is_confounded():
    with pytest.warns(
        DataWarning, match=r"add up to the same total \(1\), so an intercept cannot be told apart"
    ):
        dv.DualViewMixture(**QUICK).fit(FORUM.features, behavior(intercept=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = FORUM.participation * np.arange(1, 31)[:, None]
        dv.SharedOutcome(rows, FORUM.outcome, intercept=True).prepare(None)
        behavior(intercept=True, coefficient_prior=dv.GaussianPrior(0.0, 1.0)).prepare(None)
        behavior().prepare(None)
