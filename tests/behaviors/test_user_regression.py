"""UserRegression: its constants, its noise against the joint density, closed forms, a mixed model,
units and refusals."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import chi2, kstest

import dualview as dv
from dualview.behaviors.base import Behavior
from dualview.engines.gibbs import GibbsEngine
from dualview.errors import DataWarning, InputError
from dualview.model import Model, State
from dualview.partitions.agreement import LabelsByView
from dualview.partitions.priors import ChineseRestaurant
from dualview.units import GaussianPrior
from rows import residual as residual_of

Q = 3
N_USERS = 6
FEATURES = np.random.default_rng(9).normal(3.0, 2.0, (N_USERS, 2))


def measures(n=40, seed=0, **options):
    """Observations of users 0 to 4 of six, in odd units."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, N_USERS - 1, n)
    design = rng.normal(1.0, [1.0, 5.0, 0.1], (n, Q))
    outcome = 20 * (design * rng.normal(size=(N_USERS, Q))[user]).sum(axis=1) + rng.normal(size=n)
    return dv.UserRegression(user, design, outcome, n_users=N_USERS, **options), rng


def test_it_is_a_behavior():
    behavior, _ = measures()
    assert isinstance(behavior, Behavior)
    assert (len(behavior), behavior.n_observations, behavior.n_dims) == (N_USERS, 40, Q)
    assert repr(behavior) == "UserRegression(40 observations, 6 users, outcome)"


def scores(n_each=1, n_users=30, outcome=None, **options):
    """Scores from 1 to 5, n_each of each user."""
    user = np.repeat(np.arange(n_users), n_each)
    if outcome is None:
        outcome = np.random.default_rng(1).integers(1, 6, len(user)).astype(float)
    return dv.UserRegression(user, np.ones((len(user), 1)), outcome, **options)


def test_one_score_of_each_user_is_warned_of_once():
    model = dv.DualViewMixture(2, n_warmup=1, n_draws=2, n_chains=2, n_jobs=1)
    with pytest.warns(
        DataWarning, match="whole numbers from 1 to 5, and 30 users have 30"
    ) as caught:
        model.fit(None, scores())
    told = [str(warning.message) for warning in caught if "whole numbers" in str(warning.message)]
    assert len(told) == 1
    assert 'outcome_kind="rounded"' in told[0]
    assert "OrdinalOutcomes" in told[0]


@pytest.mark.parametrize(
    "behavior",
    [
        scores(n_each=2),
        scores(outcome_kind="rounded"),
        scores(noise_variance=0.5),
        scores(weights=np.ones(30)),
        scores(outcome=np.random.default_rng(1).standard_normal(30)),
        scores(outcome=np.random.default_rng(1).integers(0, 100, 30).astype(float)),
        scores(outcome=np.random.default_rng(1).integers(1, 6, 30) + 0.5),
    ],
    ids=["two each", "rounded", "noise given", "weights", "fractions", "a long scale", "halves"],
)
def test_other_outcomes_are_not_warned_of(behavior):
    behavior.prepare(GaussianPrior(3.0, 1.0))


def test_ridge_estimates_are_the_users_own():
    behavior, _ = measures(ridge=0.5)
    estimate = behavior.ridge_estimate()
    for u in range(N_USERS):
        own = behavior.user == u
        x, y = behavior.design[own], behavior.outcome[own]
        np.testing.assert_allclose(
            estimate[u], np.linalg.solve(x.T @ x + 0.5 * np.eye(Q), x.T @ y), rtol=1e-9, atol=1e-12
        )
    np.testing.assert_array_equal(estimate[-1], 0.0)


def test_the_noise_is_guessed_from_what_the_users_own_estimates_leave():
    behavior, rng = measures(n=2000, ridge=1e-6)
    assert behavior.prepare(None)[1].family.noise.prior.variance == pytest.approx(1.0, rel=0.15)
    few = dv.UserRegression(np.arange(4), rng.normal(size=(4, 2)), rng.normal(size=4))
    around = np.linalg.lstsq(few.design, few.outcome)[1][0] / 2
    with pytest.warns(DataWarning, match="4 users have 4 observations and 2 coefficients each"):
        assert few.prepare(None)[1].family.noise.prior == pytest.approx((0.5 * around, 1.0))
    assert measures(noise_variance=7.0)[0].prepare(None)[1].family.noise.prior.variance == 7.0


def test_working_units_are_the_users_units():
    """The same residuals, by vectors in either units."""
    behavior, rng = measures()
    units, likelihood = behavior.prepare(None)
    working = rng.normal(size=(N_USERS, Q))
    vectors = units.vectors(working)
    residual = behavior.outcome - (behavior.design * vectors[behavior.user]).sum(axis=1)
    order = np.argsort(behavior.user, kind="stable")
    np.testing.assert_allclose(
        residual_of(likelihood, working),
        residual[order] / np.sqrt(likelihood.family.noise.prior.variance),
        rtol=1e-8,
    )
    assert likelihood.reported({"noise_precision": 3.0})["noise_precision"] == pytest.approx(
        3.0 / likelihood.family.noise.prior.variance
    )


def test_the_noises_law_is_the_joint_densitys():
    behavior, rng = measures()
    likelihood = behavior.prepare(None)[1]
    latent = rng.normal(size=(N_USERS, Q))
    law = likelihood.family.noise.prior.law(residual_of(likelihood, latent))
    grid = np.geomspace(0.01, 10, 7)
    differences = [
        likelihood.log_density(latent, {"noise_precision": s}) - law.log_density(s) for s in grid
    ]
    np.testing.assert_allclose(differences, differences[0], rtol=1e-10)


def one_cluster(behavior, **options):
    """A long run with everybody in one cluster."""
    defaults = {"n_warmup": 500, "n_draws": 4000, "n_chains": 2}
    return dv.DualViewMixture(1, **(defaults | options)).fit(None, behavior)


def test_one_cluster_is_a_mixed_model():
    """Balanced and with many users, where the prior hardly matters: statsmodels' random
    coefficients and noise."""
    rng = np.random.default_rng(3)
    n_users, n_each = 60, 8
    user = np.repeat(np.arange(n_users), n_each)
    design = np.column_stack([np.ones(len(user)), np.tile(np.linspace(-1, 1, n_each), n_users)])
    latent = rng.multivariate_normal([3.0, -1.0], [[1.0, 0.4], [0.4, 0.5]], n_users)
    outcome = (design * latent[user]).sum(axis=1) + 0.7 * rng.normal(size=len(user))
    model = one_cluster(dv.UserRegression(user, design, outcome), n_draws=2000)
    mixed = sm.MixedLM(outcome, design, user, exog_re=design).fit()
    blups = mixed.fe_params + np.array([mixed.random_effects[u] for u in range(n_users)])
    spread = np.sqrt(np.array([np.diagonal(mixed.random_effects_cov[u]) for u in range(n_users)]))
    assert np.abs(model.latent_ - blups).max() < 0.25 * spread.min()
    found = model.posterior_.flat("latent").std(axis=0)
    np.testing.assert_allclose(found, spread, rtol=0.15)
    assert 1.0 / model.posterior_["noise_precision"].mean() == pytest.approx(mixed.scale, rel=0.05)


def test_a_user_without_observations_has_the_predictive_of_a_new_one():
    behavior, _ = measures(n=200)
    model = one_cluster(behavior, n_draws=2000)
    silent = model.posterior_.flat("latent")[:, -1]
    nobody = dv.UserRegression([0], np.ones((1, Q)), [0.0]).take([])
    assert len(nobody) == 1
    predicted = model.predict_latent(None, nobody)
    error = silent.std(axis=0) / np.sqrt(200)
    assert (np.abs(predicted.mean[0] - silent.mean(axis=0)) < 4.5 * error).all()
    draws = predicted.draws(4000)[:, 0]
    for p in (0.1, 0.5, 0.9):
        np.testing.assert_allclose(
            (draws < np.quantile(silent, p, axis=0)).mean(axis=0), p, atol=0.08
        )


def test_evidence_is_the_likelihood_of_new_users_observations():
    behavior, rng = measures()
    new = dv.UserRegression([0, 0, 1], rng.normal(size=(3, Q)), rng.normal(size=3), n_users=3)
    precisions = rng.gamma(2.0, size=5)
    constant, linear, precision, *_ = behavior.evidence(
        new, np.zeros((5, N_USERS, Q)), {"noise_precision": precisions}, 3
    )
    for j, rows in ((0, [0, 1]), (1, [2]), (2, [])):
        f = rng.normal(size=Q)
        residual = new.outcome[rows] - new.design[rows] @ f
        expected = 0.5 * len(rows) * np.log(precisions / (2 * np.pi)) - 0.5 * precisions * (
            residual @ residual
        )
        np.testing.assert_allclose(
            constant[:, j] + linear[:, j] @ f - 0.5 * f @ precision[:, j] @ f, expected, atol=1e-12
        )


@pytest.fixture(scope="module")
def fitted():
    behavior, _ = measures(n=120)
    return dv.DualViewMixture(n_warmup=50, n_draws=60, n_chains=2).fit(FEATURES, behavior), behavior


class TestPrediction:
    def test_known_users(self, fitted):
        model, behavior = fitted
        new = behavior.take([3, 5])
        predicted = model.predict_outcome(new)
        latent, precision = (
            model.posterior_.flat("latent"),
            model.posterior_.flat("noise_precision"),
        )
        for i in range(2):
            locations = latent[:, new.user[i]] @ new.design[i]
            assert predicted.mean[i] == pytest.approx(locations.mean())
            assert predicted.std[i] == pytest.approx(
                np.sqrt(locations.var() + (1 / precision).mean())
            )

    def test_new_users_by_features_agree_with_their_latent_vectors(self, fitted):
        model, _ = fitted
        X_new, row = np.array([[3.0, 4.0]]), np.array([0.5, -1.0, 2.0])
        outcome = model.predict_outcome(
            dv.UserRegression([N_USERS], [row], n_users=N_USERS + 1), X_new=X_new
        )
        vector = model.predict_latent(X_new)
        inner = np.quantile(vector.draws(20000)[:, 0] @ row, [0.25, 0.5, 0.75])
        noise = np.sqrt(1 / model.posterior_["noise_precision"].mean())
        assert abs(outcome.quantile(0.5)[0] - inner[1]) < 0.2 * (inner[2] - inner[0] + noise)
        assert vector.interval().shape == (1, Q, 2)
        assert vector.log_density(vector.mean).shape == (1,)

    def test_density_of_a_vector_is_that_of_its_parts(self, fitted):
        vector = fitted[0].predict_latent(np.array([[3.0, 4.0]]))
        log_weights, means, covariances = vector._parts(slice(0, 1))
        point = vector.mean[0]
        away, spread = point - means[:, 0], covariances[:, 0]
        squares = (away * np.linalg.solve(spread, away[..., None])[..., 0]).sum(axis=1)
        terms = np.exp(-0.5 * squares) / np.sqrt(np.linalg.det(2 * np.pi * spread))
        assert vector.log_density([point])[0] == pytest.approx(
            np.log(np.exp(log_weights[:, 0]) @ terms)
        )

    def test_a_saved_posterior_predicts_the_same(self, fitted, tmp_path):
        model, behavior = fitted
        model.posterior_.save(tmp_path / "run.nc")
        again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
        np.testing.assert_array_equal(
            again.predict_outcome(behavior).mean, model.predict_outcome(behavior).mean
        )
        assert again.posterior_.latent_names == ["x0", "x1", "x2"]

    @pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
    def test_observations_move_a_new_user_towards_them(self, fitted):
        model, _ = fitted
        row = [[0.0, 1.0, 0.0]]
        place, spread = (
            part[0, 1]
            for part in (
                model.predict_latent([[3.0, 4.0]]).mean,
                model.predict_latent([[3.0, 4.0]]).std,
            )
        )
        target = place + 0.5 * min(spread, 20.0)
        many = dv.UserRegression(
            np.zeros(60, dtype=int), np.repeat(row, 60, axis=0), np.full(60, target)
        )
        assert model.predict_latent([[3.0, 4.0]], many).mean[0, 1] == pytest.approx(target, abs=1.0)
        new = dv.UserRegression([N_USERS], row, n_users=N_USERS + 1)
        assert model.predict_outcome(new, [[3.0, 4.0]], many).mean[0] == pytest.approx(
            target, abs=1.0
        )


def two_kinds(n_each=12, n_rows=20, seed=4, **options):
    """Calm users and wild ones, told apart by their features; the wild ones' noise has ten times
    the standard deviation."""
    rng = np.random.default_rng(seed)
    kind = np.repeat([0, 1], n_each)
    X = 6.0 * kind[:, None] + rng.normal(size=(2 * n_each, 2))
    user = np.repeat(np.arange(2 * n_each), n_rows)
    design = rng.normal(size=(len(user), 1))
    level = 3.0 * kind + rng.normal(size=2 * n_each)
    outcome = design[:, 0] * level[user] + np.where(kind[user], 5.0, 0.5) * rng.normal(
        size=len(user)
    )
    return X, dv.UserRegression(user, design, outcome, noise="cluster", **options)


@pytest.fixture(scope="module")
def noisy():
    X, behavior = two_kinds()
    return dv.DualViewMixture(n_warmup=200, n_draws=200, n_chains=2, random_state=1).fit(
        X, behavior
    ), behavior


class TestNoiseByCluster:
    def test_each_cluster_has_its_noise(self, noisy):
        model, _ = noisy
        post = model.posterior_
        assert post.to_arviz()["posterior"]["noise_precision"].dims == ("chain", "draw", "user")
        sds = np.median(post.flat("noise_precision"), axis=0) ** -0.5
        assert sds[:12] == pytest.approx(0.5, rel=0.25)
        assert sds[12:] == pytest.approx(5.0, rel=0.25)
        z, precision = post.flat("z"), post.flat("noise_precision")
        same = z[:, :, None] == z[:, None, :]
        np.testing.assert_array_equal(same, precision[:, :, None] == precision[:, None, :])
        assert "mean log noise_precision" in post.diagnostics().index

    def test_known_users(self, noisy):
        model, behavior = noisy
        new = behavior.take([3, 300])
        predicted = model.predict_outcome(new)
        latent, precision = (
            model.posterior_.flat("latent"),
            model.posterior_.flat("noise_precision"),
        )
        for i, u in enumerate(new.user):
            locations = latent[:, u] * new.design[i, 0]
            assert predicted.mean[i] == pytest.approx(locations.mean())
            assert predicted.std[i] == pytest.approx(
                np.sqrt(locations.var() + (1 / precision[:, u]).mean())
            )

    def test_new_users_by_features(self, noisy):
        model, _ = noisy
        new = dv.UserRegression([24, 25, 0], [[0.0], [0.0], [0.0]], n_users=26)
        low, high = model.predict_outcome(new, X_new=[[0.0, 0.0], [6.0, 6.0]]).interval(0.5).T
        assert (high - low)[:2] / 1.349 == pytest.approx([0.5, 5.0], rel=0.3)
        assert (high - low)[2] / 1.349 == pytest.approx(0.5, rel=0.3)

    def test_wild_observations_move_a_new_user_to_the_wild_cluster(self, noisy):
        model, _ = noisy
        middle = [[3.0, 3.0]]
        shares = []
        for size in (0.4, 4.0):
            seen = dv.UserRegression(
                [0] * 6, np.zeros((6, 1)), size * np.array([1, -1, 0.5, -1.5, 1, -1])
            )
            new = dv.UserRegression([24], [[0.0]], n_users=25)
            low, high = model.predict_outcome(new, middle, seen).interval(0.5)[0]
            shares.append((high - low) / 1.349)
        assert shares[0] < 1.5
        assert shares[1] > 2.5

    def test_evidence_under_each_clusters_noise_is_the_likelihood(self, noisy):
        _, behavior = noisy
        rng = np.random.default_rng(3)
        new = dv.UserRegression([0, 0, 1], rng.normal(size=(3, 1)), rng.normal(size=3), n_users=3)
        by_one = behavior.evidence(
            new, np.zeros((5, 24)), {"noise_precision": rng.gamma(1.0, size=(5, 24))}, 3
        )
        noise, f = rng.gamma(2.0, size=7), 0.7
        under = by_one.under(noise, slice(0, 2))
        for j, rows in ((0, [0, 1]), (1, [2])):
            residual = new.outcome[rows] - new.design[rows, 0] * f
            expected = 0.5 * len(rows) * np.log(noise / (2 * np.pi)) - 0.5 * noise * (
                residual @ residual
            )
            value = (
                under.constant[:, j]
                + under.linear[:, j, 0] * f
                - 0.5 * under.precision[:, j, 0, 0] * f**2
            )
            np.testing.assert_allclose(value, expected, atol=1e-12)

    def test_a_cluster_of_nobody_has_noise_from_the_prior(self, noisy):
        model, behavior = noisy
        candidates = model._candidates()
        noise = candidates.noise(behavior.forecast(behavior, *model._known(), 0).noise)
        fresh = candidates.component < 0
        scale = behavior.prepare(None)[1].family.noise.prior.variance
        assert kstest(noise[fresh] * scale, chi2(1).cdf).pvalue > 1e-4
        draw, z = candidates.draw[~fresh], model.posterior_.flat("z")
        precision = model.posterior_.flat("noise_precision")
        for row in np.flatnonzero(~fresh)[:50]:
            i = candidates.draw[row]
            k = row - np.flatnonzero(candidates.draw == i)[0]
            assert (precision[i, z[i] == k] == noise[row]).all()
        assert len(np.unique(draw)) == candidates.n_draws

    def test_a_saved_posterior_predicts_the_same(self, noisy, tmp_path):
        model, _ = noisy
        model.posterior_.save(tmp_path / "run.nc")
        again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
        new = dv.UserRegression([24, 3], [[1.0], [1.0]], n_users=25)
        for X_new in (np.array([[2.0, 2.0]]),):
            ours, theirs = (m.predict_outcome(new, X_new=X_new) for m in (model, again))
            np.testing.assert_allclose(ours.interval(), theirs.interval(), rtol=1e-12)

    def test_it_is_told_from_a_shared_noise(self, noisy):
        model, behavior = noisy
        shared = dv.UserRegression(behavior.user, behavior.design, behavior.outcome)
        X, _ = two_kinds()
        plain = dv.DualViewMixture(n_warmup=200, n_draws=200, n_chains=2, random_state=1).fit(
            X, shared
        )
        table = dv.compare({"own": model, "shared": plain})
        assert table.index[0] == "own"
        assert table["difference"]["shared"] > 4 * table["difference_se"]["shared"]
        assert behavior.fingerprint() != shared.fingerprint()

    @pytest.mark.parametrize(
        "options", [{"pooling": "cluster"}, {"link": "linear"}, {"keep": "summary", "n_whole": 10}]
    )
    def test_it_goes_with_every_option(self, options):
        X, behavior = two_kinds(n_each=6)
        model = dv.DualViewMixture(
            n_warmup=100, n_draws=60, n_chains=2, random_state=2, **options
        ).fit(X, behavior)
        sds = np.median(model.posterior_.flat("noise_precision"), axis=0) ** -0.5
        assert sds[6:].min() > 2 * sds[:6].max()
        model.posterior_.diagnostics()
        assert np.isfinite(model.predict_outcome(behavior).nll(behavior.outcome))


class TestUsers:
    def test_ids_are_matched(self):
        X = pd.DataFrame(
            np.random.default_rng(0).normal(size=(4, 2)), index=list("abcd"), columns=["p", "q"]
        )
        rng = np.random.default_rng(1)
        user = np.array(["c", "a", "c", "d", "a", "d"])
        behavior = dv.UserRegression(user, rng.normal(size=(6, 1)), rng.normal(size=6))
        aligned = behavior.aligned(["a", "b", "c", "d"])
        assert aligned.user.tolist() == [2, 0, 2, 3, 0, 3]
        assert len(aligned) == 4
        model = dv.DualViewMixture(n_warmup=5, n_draws=5, n_chains=1).fit(X, behavior)
        assert model.posterior_.user_ids == list("abcd")
        assert model.predict_outcome(dv.UserRegression(["d"], [[1.0]])).mean.shape == (1,)
        with pytest.raises(
            InputError, match=r"2 user\(s\) unknown to the fit \(x, y\) and there are features of 1"
        ):
            model.predict_outcome(dv.UserRegression(["x", "y"], [[1.0], [1.0]]), X_new=X.iloc[:1])

    def test_splits_keep_everybody(self):
        behavior, _ = measures()
        seen = []
        for train, held_out in behavior.split(4):
            assert len(train) == len(held_out) == N_USERS
            assert train.n_observations + held_out.n_observations == 40
            seen += held_out.outcome.tolist()
        assert sorted(seen) == sorted(behavior.outcome.tolist())


REFUSALS = {
    "outcome": (
        lambda: dv.UserRegression([0, 1], [[1.0], [2.0]], [1.0]),
        "outcome must have a value per row of design, 2; got 1",
    ),
    "user": (
        lambda: dv.UserRegression([0], [[1.0], [2.0]], [1.0, 2.0]),
        "user must name one user per row, 2; got 1",
    ),
    "negative": (
        lambda: dv.UserRegression([0, -1], [[1.0], [2.0]]),
        "positions from 0, or ids; got a negative",
    ),
    "missing": (
        lambda: dv.UserRegression([0.0, np.nan], [[1.0], [2.0]]),
        "got fractions or missing values",
    ),
    "n_users": (
        lambda: dv.UserRegression([0, 4], [[1.0], [2.0]], n_users=3),
        "n_users must be at least 5",
    ),
    "noise": (
        lambda: dv.UserRegression([0], [[1.0]], noise="own"),
        'noise must be "shared", "cluster", "user" or "student"; got \'own\'',
    ),
    "unknown": (lambda: dv.UserRegression(["a", "b"], [[1.0], [2.0]], users=["a"]), "missing: b"),
    "twice": (lambda: dv.UserRegression(["a"], [[1.0]], users=["a", "a"]), "more than once: a"),
    "by users": (lambda: measures()[0][0], "behavior.split"),
    "constant": (
        lambda: dv.UserRegression([0, 1, 1], np.eye(3), np.ones(3)).prepare(
            GaussianPrior(np.zeros(3), np.eye(3))
        ),
        "outcome is constant",
    ),
    "one user": (
        lambda: dv.UserRegression([0, 0], [[1.0], [2.0]], [1.0, 2.0]).prepare(None),
        "do not vary",
    ),
    "zero column": (
        lambda: dv.UserRegression([0, 1], [[1.0, 0.0], [2.0, 0.0]], [1.0, 2.0]).prepare(None),
        "all zero: x1",
    ),
    "no outcome": (
        lambda: dv.UserRegression([0, 1], [[1.0], [2.0]]).prepare(None),
        "Outcomes are needed",
    ),
    "silent users": (
        lambda: dv.DualViewMixture().fit(np.eye(4), measures(seed=1)[0].take(np.arange(40))),
        "X has 4 rows, the behavior has 6 users",
    ),
    "more rows": (
        lambda: dv.DualViewMixture().fit(
            np.eye(9), dv.UserRegression([0, 1], [[1.0], [2.0]], [1.0, 2.0])
        ),
        r"If users from 2 on have no observations, say so: n_users=9",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_wrong_is_said(case):
    make, message = REFUSALS[case]
    with pytest.raises(InputError, match=message):
        make()


class TestScores:
    """One score of one item for each user, four coefficients: clusters by score fit everything
    without any noise."""

    N_USERS = 200

    def behavior(self, **options):
        rng = np.random.default_rng(0)
        items = np.column_stack([np.ones(5), rng.standard_normal((5, 3))])
        latent = [3.0, 0.5, -0.3, 0.2] + 0.4 * rng.standard_normal((self.N_USERS, 4))
        design = items[rng.integers(0, 5, self.N_USERS)]
        scores = (design * latent).sum(axis=1) + rng.standard_normal(self.N_USERS)
        return dv.UserRegression(
            np.arange(self.N_USERS), design, np.clip(np.round(scores), 1, 5), **options
        )

    def without_noise(self, rng, behavior, units, likelihood):
        """A state in which clusters are the scores and nothing is left over."""
        z = np.unique(behavior.outcome, return_inverse=True)[1]
        model = Model(ChineseRestaurant(), None, likelihood, self.N_USERS)
        exact = np.column_stack([behavior.outcome, np.zeros((self.N_USERS, 3))])
        latent = units.to_working(exact) + 1e-3 * rng.standard_normal(exact.shape)
        precision = np.full(self.N_USERS, 1e3) if likelihood.per_user else 1e3
        view = model.views["behavior"].start(rng, latent, z, 5)
        labels, params = LabelsByView.agreeing(z), {"noise_precision": precision}
        return model, State(labels, 1.0, {"behavior": view}, latent, params)

    @pytest.mark.parametrize("noise", ["shared", "cluster"])
    def test_the_noise_does_not_collapse(self, noise):
        behavior, rng = self.behavior(noise=noise), np.random.default_rng(1)
        with (
            pytest.warns(
                DataWarning, match="200 users have 200 observations and 4 coefficients each"
            ),
            pytest.warns(DataWarning, match="200 users have 200 of them"),
        ):
            units, likelihood = behavior.prepare(None)
        assert likelihood.family.noise.prior.dof == 201.0
        model, state = self.without_noise(rng, behavior, units, likelihood)
        for _ in range(100):
            state = GibbsEngine().step(rng, model, state)
        variance = likelihood.family.noise.prior.variance / np.asarray(
            state.params["noise_precision"]
        )
        assert (variance > 0.25 * np.var(behavior.outcome)).all()

    def test_outcomes_that_differ_leave_the_prior_as_it_was(self):
        behavior = self.behavior()
        behavior.outcome = behavior.outcome + np.linspace(0.0, 0.1, self.N_USERS)
        with pytest.warns(DataWarning):
            assert behavior.prepare(None)[1].family.noise.prior.dof == 1.0

    def test_observations_beyond_the_coefficients_leave_the_prior_as_it_was(self):
        user = np.repeat(np.arange(self.N_USERS // 8), 8)
        every = self.behavior()
        behavior = dv.UserRegression(user, every.design, every.outcome)
        assert behavior.prepare(None)[1].family.noise.prior.dof == 1.0

    def test_a_saved_prior_is_the_same(self):
        behavior = self.behavior(noise="cluster")
        again = dv.UserRegression.from_description(behavior.described() | {"users": None})
        assert again._noise_prior == behavior._noise_prior
