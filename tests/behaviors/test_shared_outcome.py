"""SharedOutcome: its constants, its conditionals against the joint density, its units, its parts
and its refusals."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal, norm
from sklearn.linear_model import Ridge

import naive
from dualview import GaussianPrior, SharedOutcome
from dualview.behaviors.base import Behavior
from dualview.behaviors.likelihoods import regression
from dualview.behaviors.records import Prior
from dualview.errors import InputError

FORMS = [np.asarray, sparse.csr_array]
SHAPES = [(12, 5), (4, 11)]


def threads(n_threads=12, n_users=5, seed=0, form=np.asarray, **options):
    """A behavior in odd units, and the generator that made it."""
    rng = np.random.default_rng([seed, n_threads, n_users])
    participation = (rng.random((n_threads, n_users)) < 0.6) * rng.uniform(
        0.5, 2.0, (n_threads, n_users)
    )
    outcome = (
        40 * participation @ rng.normal(3.0, 2.0, n_users)
        + 300
        + 20 * rng.standard_normal(n_threads)
    )
    if options.pop("with_covariates", False):
        options["covariates"] = rng.normal(0.5, [0.1, 30.0], (n_threads, 2))
    return SharedOutcome(form(participation), outcome, **options), rng


class Scripted:
    """A generator whose normal numbers are given in advance; its gamma numbers are 1."""

    def __init__(self, noise):
        self.noise, self.used = np.asarray(noise), 0

    def standard_normal(self, size):
        self.used += size
        return self.noise[self.used - size : self.used].copy()

    def standard_gamma(self, shape):
        return np.ones_like(shape)


def weight_of_a_thread(behavior):
    """Mean total weight of the participants, the unit of the ridge penalty."""
    return behavior.participation.sum() / behavior.participation.shape[0]


def latent_law(likelihood, noise_precision, means, precisions):
    """Mean and covariance of latent coefficients and coefficients together: the joint draw is
    affine in its noise."""
    prior = Prior(np.arange(len(means)), means[:, None], np.sqrt(precisions)[:, None, None])

    def draw(noise):
        rng = Scripted(noise)
        latent, coefficients = likelihood._draw_jointly(
            rng, noise_precision, prior, np.ones(likelihood.n_coefficients)
        )
        return np.append(latent[:, 0], coefficients), rng.used

    longest = sum(likelihood.design.shape) + likelihood.n_coefficients
    offset, n_noise = draw(np.zeros(longest))
    columns = np.array([draw(unit)[0] - offset for unit in np.eye(longest)[:n_noise]])
    return offset, columns.T @ columns


def naive_case(likelihood, rng):
    """A state of the naive model in working units, and its data."""
    n_users, n_coefficients = likelihood.n_users, likelihood.n_coefficients
    constants = (np.zeros(1), np.eye(1))
    state = naive.State(
        z=rng.integers(0, 3, n_users),
        alpha=0.7,
        views={"behavior": naive.draw_view(rng, 3, constants)},
        latent=rng.normal(size=(n_users, 1)),
        noise_precision=float(rng.gamma(2.0)),
        coefficients=rng.normal(size=n_coefficients) if n_coefficients else None,
    )
    design = likelihood.design
    data = {
        "behavior_constants": constants,
        "design": design.toarray() if sparse.issparse(design) else design,
        "covariates": likelihood.coefficient_design if n_coefficients else None,
        "outcome": likelihood.outcome,
        "noise_variance": 1.0,
        "coefficient_prior": (np.zeros(n_coefficients), np.eye(n_coefficients)),
    }
    return state, data


def spread(values):
    return np.ptp(values) / (1 + np.abs(values).max())


CASES = [
    {},
    {"intercept": True},
    {"with_covariates": True},
    {"with_covariates": True, "intercept": True},
]


@pytest.mark.parametrize("options", CASES, ids=["plain", "intercept", "covariates", "both"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
class TestConditionals:
    """log joint − log conditional is constant."""

    def test_latent_and_coefficients(self, options, shape, form):  # (C7)
        behavior, rng = threads(*shape, form=form, **options)
        likelihood = behavior.prepare(None)[1]
        state, data = naive_case(likelihood, rng)
        view = state.views["behavior"]
        means, precisions = view.means[state.z, 0], view.precisions[state.z, 0, 0]
        law = multivariate_normal(*latent_law(likelihood, state.noise_precision, means, precisions))
        differences = []
        for _ in range(6):
            state.latent = rng.normal(size=state.latent.shape)
            parts = [state.latent[:, 0]]
            if state.coefficients is not None:
                state.coefficients = rng.normal(size=state.coefficients.shape)
                parts.append(state.coefficients)
            differences.append(naive.log_joint(state, **data) - law.logpdf(np.concatenate(parts)))
        assert spread(differences) < 1e-8

    def test_noise(self, options, shape, form):  # (C8)
        behavior, rng = threads(*shape, form=form, **options)
        likelihood = behavior.prepare(None)[1]
        state, data = naive_case(likelihood, rng)
        coefficients = np.empty(0) if state.coefficients is None else state.coefficients
        law = likelihood.noise_law(likelihood.residual(state.latent, coefficients))
        differences = []
        for state.noise_precision in (0.01, 0.3, 1.0, 2.0, 50.0):
            differences.append(
                naive.log_joint(state, **data) - law.log_density(state.noise_precision)
            )
        assert spread(differences) < 1e-10

    def test_log_density(self, options, shape, form):
        behavior, rng = threads(*shape, form=form, **options)
        likelihood = behavior.prepare(None)[1]
        differences = []
        for _ in range(5):
            state, data = naive_case(likelihood, rng)
            coefficients = np.empty(0) if state.coefficients is None else state.coefficients
            params = {"noise_precision": state.noise_precision, "coefficients": coefficients}
            keys = ("design", "covariates", "outcome", "noise_variance", "coefficient_prior")
            expected = naive.log_outcome(state, *(data[key] for key in keys))
            differences.append(expected - likelihood.log_density(state.latent, params))
        assert spread(differences) < 1e-10

    def test_units(self, options, shape, form):
        """The joint density in the user's units differs from the one in working units by a
        constant."""
        behavior, rng = threads(*shape, form=form, **options)
        units, likelihood = behavior.prepare(None)
        constants = behavior.coefficient_units()
        differences = []
        for _ in range(5):
            state, data = naive_case(likelihood, rng)
            coefficients = np.empty(0) if state.coefficients is None else state.coefficients
            reported = likelihood.reported(
                {"noise_precision": state.noise_precision, "coefficients": coefficients}
            )
            view = state.views["behavior"]
            users = naive.State(
                state.z,
                state.alpha,
                {
                    "behavior": naive.ViewState(
                        units.vectors(view.means),
                        units.precisions(view.precisions),
                        units.vectors(view.base_mean),
                        units.precisions(view.base_precision),
                        units.covariances(view.base_covariance),
                        view.base_dof,
                    )
                },
                units.vectors(state.latent),
                float(reported["noise_precision"]),
                reported.get("coefficients"),
            )
            participation = behavior.participation
            in_units = {
                "behavior_constants": units.prior,
                "design": participation.toarray()
                if sparse.issparse(participation)
                else participation,
                "covariates": behavior.coefficient_design
                if state.coefficients is not None
                else None,
                "outcome": behavior.outcome,
                "noise_variance": likelihood.noise_variance,
                "coefficient_prior": constants.prior,
            }
            differences.append(naive.log_joint(users, **in_units) - naive.log_joint(state, **data))
        assert spread(differences) < 1e-9


class TestClosedForm:
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("limit", [4000, 0])
    def test_one_cluster_is_bayesian_linear_regression(self, shape, form, limit, monkeypatch):
        """Hyperparameters held fixed, in the user's units; limit 0 takes the path for very many
        users."""
        monkeypatch.setattr(regression, "DENSE_LIMIT", limit)
        behavior, _ = threads(*shape, form=form)
        units, likelihood = behavior.prepare(None)
        n_users = shape[1]
        mean, variance, noise_precision = 150.0, 70.0**2, 1 / 25.0**2
        working_mean = np.full(n_users, units.to_working(np.array([mean]))[0])
        working_precision = np.full(n_users, units.factor[0, 0] ** 2 / variance)
        offset, covariance = latent_law(
            likelihood, noise_precision * likelihood.noise_variance, working_mean, working_precision
        )
        participation = behavior.participation
        expected_mean, expected_covariance = naive.blr_posterior(
            participation.toarray() if sparse.issparse(participation) else participation,
            behavior.outcome,
            np.full(n_users, mean),
            np.full(n_users, 1 / variance),
            noise_precision,
        )
        # The iterative solver errs by less than a hundred-thousandth of the posterior's own spread.
        sds = np.sqrt(np.diagonal(expected_covariance))
        assert (np.abs(units.vectors(offset[:, None])[:, 0] - expected_mean) < 1e-5 * sds).all()
        np.testing.assert_allclose(
            units.factor[0, 0] ** 2 * covariance,
            expected_covariance,
            rtol=1e-6,
            atol=2e-6 * np.abs(expected_covariance).max(),
        )

    def test_intercept_and_covariates_are_coefficients_with_priors_of_their_own(self):
        behavior, _ = threads(30, 4, with_covariates=True, intercept=True)
        units, likelihood = behavior.prepare(None)
        constants = behavior.coefficient_units()
        offset, _ = latent_law(likelihood, 2.0, np.zeros(4), np.ones(4))
        latent, slopes = units.vectors(offset[:4, None])[:, 0], constants.vectors(offset[4:])
        (latent_mean,), ((latent_variance,),) = units.prior
        expected, _ = naive.blr_posterior(
            np.hstack([behavior.participation, np.ones((30, 1)), behavior.covariates]),
            behavior.outcome,
            np.append(np.full(4, latent_mean), constants.mean),
            np.append(np.full(4, 1 / latent_variance), 1 / np.diag(constants.prior[1])),
            2.0 / likelihood.noise_variance,
        )
        np.testing.assert_allclose(np.append(latent, slopes), expected, rtol=1e-7)


class TestConstants:
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("form", FORMS)
    def test_ridge_equals_scikit_learn(self, shape, form):
        behavior, _ = threads(*shape, form=form)
        fitted = Ridge(alpha=0.01 * weight_of_a_thread(behavior) ** 2, fit_intercept=False)
        fitted.fit(behavior.participation, behavior.outcome)
        estimate = behavior.ridge_estimate()
        np.testing.assert_allclose(estimate, fitted.coef_, rtol=1e-6)
        units, _ = behavior.prepare(None)
        mean, covariance = units.prior
        np.testing.assert_allclose(mean, [estimate.mean()], rtol=1e-12)
        np.testing.assert_allclose(covariance, [[estimate.var(ddof=1)]], rtol=1e-12)

    def test_ridge_penalty_can_be_given(self):
        behavior, _ = threads(ridge=10.0)
        penalty = 10.0 * weight_of_a_thread(behavior) ** 2
        expected = (
            Ridge(alpha=penalty, fit_intercept=False)
            .fit(behavior.participation, behavior.outcome)
            .coef_
        )
        np.testing.assert_allclose(behavior.ridge_estimate(), expected, rtol=1e-9)

    def test_ridge_with_intercept_and_covariates(self):
        behavior, _ = threads(with_covariates=True, intercept=True)
        columns = np.column_stack([np.ones(12), behavior.covariates])
        penalty = 0.01 * weight_of_a_thread(behavior) ** 2
        expected = naive.ridge(behavior.participation, behavior.outcome, penalty, columns)[:5]
        np.testing.assert_allclose(behavior.ridge_estimate(), expected, rtol=1e-6)

    def test_from_the_data(self):
        behavior, _ = threads(with_covariates=True, intercept=True, noise_variance="paper")
        _, likelihood = behavior.prepare(None)
        variance = behavior.outcome.var(ddof=1)
        assert likelihood.noise_variance == pytest.approx(variance)
        mean, covariance = behavior.coefficient_units().prior
        np.testing.assert_allclose(mean, [behavior.outcome.mean(), 0, 0])
        expected = np.diag(variance / np.append(1.0, behavior.covariates.var(axis=0, ddof=1)))
        np.testing.assert_allclose(covariance, expected, rtol=1e-12)

    def test_given(self):
        prior = GaussianPrior([1.0, -2.0], [[2.0, 0.5], [0.5, 3.0]])
        latent_prior = GaussianPrior(4.0, 9.0)
        rng = np.random.default_rng(3)
        options = {
            "intercept": True,
            "covariates": rng.normal(size=(12, 1)),
            "noise_variance": 7.0,
            "coefficient_prior": prior,
        }
        behavior, _ = threads(**options)
        units, likelihood = behavior.prepare(latent_prior)
        assert likelihood.noise_variance == 7.0
        np.testing.assert_allclose(units.prior[0], latent_prior.mean)
        np.testing.assert_allclose(units.prior[1], latent_prior.covariance)
        mean, covariance = likelihood.coefficient_units.prior
        np.testing.assert_allclose(mean, prior.mean)
        np.testing.assert_allclose(covariance, prior.covariance)

    def test_constant_outcome_with_every_constant_given(self):
        behavior = SharedOutcome(np.eye(3), np.full(3, 2.0), noise_variance=1.0)
        assert behavior.prepare(GaussianPrior(0.0, 1.0))[1].noise_variance == 1.0

    def test_constant_covariate_with_a_prior_given(self):
        behavior, _ = threads(
            covariates=np.full((12, 1), 0.1), coefficient_prior=GaussianPrior(0.0, 1.0)
        )
        assert behavior.prepare(None)[1].n_coefficients == 1

    def test_prior_draws_and_simulated_outcomes_follow_their_laws(self):
        behavior, rng = threads(400, 5, intercept=True)
        likelihood = behavior.prepare(None)[1]
        params = likelihood.draw_prior(rng, np.zeros(5, dtype=int))
        assert params["coefficients"].shape == (1,)
        latent = rng.normal(size=(5, 1))
        params = {"noise_precision": 4.0, "coefficients": params["coefficients"]}
        simulated = likelihood.simulate(rng, latent, params)
        noise = 2.0 * (simulated.outcome - likelihood.expected(latent, params["coefficients"]))
        assert abs(noise.mean()) * np.sqrt(400) < 4.5
        assert abs((noise**2).mean() - 1) * np.sqrt(200) < 4.5


class TestSilence:
    """Users without threads and threads without users are part of the model."""

    def test_a_silent_user_follows_the_prior_and_disturbs_nobody(self):
        behavior, _ = threads(20, 5)
        participation = np.insert(behavior.participation, 2, 0.0, axis=1)
        prior, means, precisions = (
            GaussianPrior(100.0, 400.0),
            np.linspace(-1, 1, 6),
            np.linspace(0.5, 3, 6),
        )
        others = [0, 1, 3, 4, 5]
        for form in FORMS:
            likelihood = SharedOutcome(form(participation), behavior.outcome).prepare(prior)[1]
            offset, covariance = latent_law(likelihood, 1.3, means, precisions)
            assert offset[2] == pytest.approx(means[2], rel=1e-12)
            np.testing.assert_allclose(covariance[2], np.eye(6)[2] / precisions[2], atol=1e-12)
            without = behavior.prepare(prior)[1]
            expected, expected_covariance = latent_law(
                without, 1.3, means[others], precisions[others]
            )
            np.testing.assert_allclose(offset[others], expected, rtol=1e-9)
            np.testing.assert_allclose(
                covariance[np.ix_(others, others)], expected_covariance, rtol=1e-8, atol=1e-12
            )

    def test_an_empty_thread_says_something_about_the_noise_alone(self):
        behavior, rng = threads(20, 5)
        prior, variance = GaussianPrior(100.0, 400.0), 50.0
        more = SharedOutcome(
            np.vstack([behavior.participation, np.zeros(5)]),
            np.append(behavior.outcome, 12.0),
            noise_variance=variance,
        ).prepare(prior)[1]
        less = SharedOutcome(
            behavior.participation, behavior.outcome, noise_variance=variance
        ).prepare(prior)[1]
        means, precisions = np.zeros(5), np.ones(5)
        for one, other in zip(
            latent_law(more, 0.8, means, precisions),
            latent_law(less, 0.8, means, precisions),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        latent = rng.normal(size=(5, 1))
        with_it, without = (
            part.noise_law(part.residual(latent, np.empty(0))) for part in (more, less)
        )
        assert with_it.dof == without.dof + 1
        assert with_it.inverse_scale == pytest.approx(without.inverse_scale + 12.0**2 / variance)


class TestParts:
    def test_is_a_behavior(self):
        behavior, _ = threads()
        assert isinstance(behavior, Behavior)
        assert (len(behavior), behavior.n_observations) == (5, 12)
        assert repr(behavior) == "SharedOutcome(12 threads, 5 users, outcome)"
        assert (
            repr(SharedOutcome(np.ones((2, 3)))) == "SharedOutcome(2 threads, 3 users, no outcome)"
        )

    @pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
    def test_covariates_keep_their_names(self, library):
        table = library({"hour": np.arange(12.0), "day": np.arange(12.0) % 5})
        behavior, _ = threads(covariates=table, intercept=True)
        assert behavior.coefficient_names == ["intercept", "hour", "day"]
        assert behavior.take([0, 3]).coefficient_names == ["intercept", "hour", "day"]
        assert threads(covariates=np.arange(12.0)[:, None])[0].coefficient_names == ["x0"]

    @pytest.mark.parametrize("form", FORMS)
    def test_take_keeps_everything_else(self, form):
        behavior, _ = threads(
            form=form,
            with_covariates=True,
            noise_variance=3.0,
            ridge=0.5,
            coefficient_prior=GaussianPrior(np.zeros(3), np.eye(3)),
            intercept=True,
        )
        rows = [7, 2, 3]
        part = behavior.take(rows)
        participation = [
            p.toarray() if sparse.issparse(p) else p
            for p in (part.participation, behavior.participation)
        ]
        np.testing.assert_array_equal(participation[0], participation[1][rows])
        np.testing.assert_array_equal(part.outcome, behavior.outcome[rows])
        np.testing.assert_array_equal(part.covariates, behavior.covariates[rows])
        for name in (
            "noise_variance",
            "ridge",
            "coefficient_prior",
            "intercept",
            "coefficient_names",
        ):
            assert getattr(part, name) == getattr(behavior, name)
        assert SharedOutcome(np.ones((3, 2))).take([0]).outcome is None

    def test_take_by_mask(self):
        behavior, _ = threads()
        np.testing.assert_array_equal(
            behavior.take(np.arange(12) > 8).outcome, behavior.outcome[9:]
        )

    @pytest.mark.parametrize("rows", [3, [0.5], [[0, 1]], "all"])
    def test_take_refuses_what_is_no_choice_of_threads(self, rows):
        with pytest.raises(InputError, match="take needs positions or a mask of the 12 threads"):
            threads()[0].take(rows)

    def test_split_holds_out_every_thread_once(self):
        behavior, _ = threads(13, 4)
        pairs = list(behavior.split(4, seed=1))
        assert [held.n_observations for _, held in pairs] == [4, 3, 3, 3]
        assert all(train.n_observations + held.n_observations == 13 for train, held in pairs)
        assert all(len(train) == len(held) == 4 for train, held in pairs)
        held_out = np.concatenate([held.outcome for _, held in pairs])
        np.testing.assert_array_equal(np.sort(held_out), np.sort(behavior.outcome))
        again = np.concatenate([held.outcome for _, held in behavior.split(4, seed=1)])
        np.testing.assert_array_equal(held_out, again)
        other = np.concatenate([held.outcome for _, held in behavior.split(4, seed=2)])
        assert not np.array_equal(held_out, other)

    @pytest.mark.parametrize("n_splits", [1, 0, 13, 2.5, True])
    def test_split_refuses_other_numbers(self, n_splits):
        with pytest.raises(InputError, match="n_splits must be"):
            next(threads()[0].split(n_splits))

    @pytest.mark.parametrize("key", [0, slice(2), [0, 1], np.array([True] * 5)])
    def test_indexing_names_split(self, key):
        with pytest.raises(InputError, match=r"behavior\.split\(n_splits\)"):
            threads()[0][key]

    @pytest.mark.parametrize("form", FORMS)
    def test_prediction(self, form):
        behavior, rng = threads(with_covariates=True, intercept=True, form=form)
        new = SharedOutcome(
            form(rng.random((7, 5))), covariates=rng.normal(size=(7, 2)), intercept=True
        )
        latent = rng.normal(size=(20, 5))
        params = {
            "coefficients": rng.normal(size=(20, 3)),
            "noise_precision": rng.gamma(2.0, size=20),
        }
        forecast = behavior.forecast(new, latent, params, 0)
        dense = (
            new.participation.toarray() if sparse.issparse(new.participation) else new.participation
        )
        expected = (
            latent @ dense.T
            + params["coefficients"] @ np.column_stack([np.ones(7), new.covariates]).T
        )
        assert forecast.n == 7
        assert forecast.loads.shape == (7, 0)
        np.testing.assert_allclose(forecast.known(slice(0, 7)), expected)
        np.testing.assert_allclose(forecast.known(slice(2, 4)), expected[:, 2:4])
        np.testing.assert_allclose(
            forecast.outcome.spread(slice(0, 7))[:, 0], params["noise_precision"] ** -0.5
        )

    @pytest.mark.parametrize("form", FORMS)
    def test_prediction_with_new_users(self, form):
        """Known users count through their draws, new ones through what each weighs in each
        thread."""
        behavior, rng = threads(intercept=True, form=form)
        participation = rng.random((7, 8)) * (rng.random((7, 8)) < 0.6)
        latent, params = (
            rng.normal(size=(20, 5)),
            {"coefficients": rng.normal(size=(20, 1)), "noise_precision": np.ones(20)},
        )
        forecast = behavior.forecast(form(participation), latent, params, 3)
        expected = latent @ participation[:, :5].T + params["coefficients"]
        np.testing.assert_allclose(forecast.known(slice(0, forecast.n)), expected)
        np.testing.assert_array_equal(forecast.loads.toarray(), participation[:, 5:])
        forecast = behavior.forecast(form(participation[:, 5:]), latent, params, 3)
        np.testing.assert_allclose(
            forecast.known(slice(0, forecast.n)), np.tile(params["coefficients"], 7)
        )
        np.testing.assert_array_equal(forecast.loads.toarray(), participation[:, 5:])

    @pytest.mark.parametrize("form", FORMS)
    def test_evidence_of_new_users(self, form):
        """ln p(outcomes of user j's threads | f_j), as a quadratic in f_j."""
        behavior, rng = threads(form=form)
        participation = np.zeros((6, 7))
        participation[:, :5] = rng.random((6, 5))
        participation[[0, 1, 2, 4], [5, 5, 6, 6]] = rng.uniform(0.5, 2.0, 4)
        outcome, latent, precisions = (
            rng.normal(size=6),
            rng.normal(size=(4, 5)),
            rng.gamma(2.0, size=4),
        )
        new = SharedOutcome(form(participation), outcome)
        constant, linear, precision, *_ = behavior.evidence(
            new, latent, {"noise_precision": precisions}, 2
        )
        for user, rows in ((0, [0, 1]), (1, [2, 4])):
            for value in (-1.5, 0.0, 2.0):
                mean = (
                    participation[rows, :5] @ latent.T
                    + value * participation[rows, 5 + user][:, None]
                )
                expected = norm.logpdf(outcome[rows][:, None], mean, precisions**-0.5).sum(axis=0)
                quadratic = (
                    constant[:, user]
                    + linear[:, user, 0] * value
                    - 0.5 * precision[:, user, 0, 0] * value**2
                )
                np.testing.assert_allclose(quadratic, expected)

    def test_evidence_of_threads_with_two_new_users_is_refused(self):
        behavior, rng = threads()
        new = SharedOutcome(np.ones((2, 7)), rng.normal(size=2))
        with pytest.raises(
            InputError,
            match="Each thread may have one new user; rows 0, 1 of behavior_new have more",
        ):
            behavior.evidence(new, np.zeros((3, 5)), {"noise_precision": np.ones(3)}, 2)


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"noise_variance": -1.0}, "noise_variance must be a positive number; got -1.0"),
            (
                {"noise_variance": "a"},
                "noise_variance must be a positive number, \"paper\" or None; got 'a'",
            ),
            ({"ridge": 0}, "ridge must be a positive number; got 0"),
            ({"ridge": None}, "ridge must be a positive number; got None"),
            ({"intercept": "yes"}, "intercept must be True or False; got 'yes'"),
            (
                {"intercept": True, "coefficient_prior": (0, 1)},
                r"must be a GaussianPrior\(mean, covariance\) or None; got tuple",
            ),
            (
                {"intercept": True, "coefficient_prior": GaussianPrior([0, 0], np.eye(2))},
                r"coefficient_prior over \(intercept\) must have 1 dimension\(s\); got 2",
            ),
            (
                {"coefficient_prior": GaussianPrior(0, 1)},
                r"over intercept and covariates; there are none\. Set intercept=True",
            ),
            ({"covariates": np.ones((7, 2))}, "covariates must have a row per thread, 12; got 7"),
            (
                {"covariates": np.arange(12.0)},
                r"covariates must be a table .* covariates\.reshape\(-1, 1\)",
            ),
            (
                {"covariates": pd.DataFrame({"h": [np.nan] + [1.0] * 11})},
                r"covariates must be finite; .* row 0, column\(s\) h",
            ),
            (
                {"covariates": pl.DataFrame({"h": ["a"] * 12})},
                r"covariates must hold numbers only; got text, .* column\(s\) h",
            ),
            (
                {"covariates": np.array([[1.0, 1e-200]] * 12)},
                r"covariates is too small to compute with in column\(s\) x1",
            ),
        ],
    )
    def test_options(self, options, message):
        with pytest.raises(InputError, match=message):
            threads(**options)

    @pytest.mark.parametrize(
        ("outcome", "message"),
        [
            (
                np.full(12, np.nan),
                r"outcome must be finite; .* in rows 0, 1, 2, 3, 4, … \(12 in all\)",
            ),
            (["1"] * 12, "outcome must hold numbers only; got text, such as 1"),
            (np.zeros((12, 1)), r"outcome must be one-dimensional; .* Pass outcome\.ravel\(\)"),
            (
                np.zeros(5),
                r"n_threads = 5, the length of outcome; got \(12, 5\)\. It looks transposed: "
                r"pass participation\.T\.",
            ),
            (
                np.zeros(9),
                r"n_threads = 9, the length of outcome; got \(12, 5\)\. Give each row of "
                r"participation one outcome",
            ),
            (np.full(12, 1e200), "outcome is too large to compute with"),
        ],
    )
    def test_outcome(self, outcome, message):
        with pytest.raises(InputError, match=message):
            SharedOutcome(np.ones((12, 5)), outcome)

    @pytest.mark.parametrize("value", [0.0, 0.1, -3e7])
    def test_constant_outcome(self, value):
        behavior = SharedOutcome(threads()[0].participation, np.full(12, value))
        with pytest.raises(
            InputError,
            match=r"outcome is constant \(.* in all 12 threads\): .* give behavior_prior",
        ):
            behavior.prepare(None)

    @pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
    def test_constant_covariate_is_named(self, value):
        table = pd.DataFrame({"hour": np.arange(12.0), "one": np.full(12, value)})
        with pytest.raises(
            InputError,
            match=r"covariates must vary between threads; constant: one\. Use intercept=True",
        ):
            threads(covariates=table, intercept=True)[0].prepare(None)

    def test_too_few_threads_or_no_outcome(self):
        with pytest.raises(InputError, match="A fit needs at least two threads; got 1"):
            SharedOutcome(np.ones((1, 3)), [1.0]).prepare(None)
        with pytest.raises(
            InputError,
            match=r"Outcomes are needed here: pass SharedOutcome\(participation, outcome\)",
        ):
            SharedOutcome(np.eye(3)).prepare(None)

    @pytest.mark.parametrize(
        "participation",
        [np.zeros((12, 5)), np.ones((12, 5)), np.arange(12.0)[:, None] * np.ones(5)],
    )
    def test_users_that_cannot_be_told_apart(self, participation):
        behavior = SharedOutcome(participation, threads()[0].outcome)
        with pytest.raises(
            InputError,
            match=r"all equal, .* does participation differ between users\? .* give behavior_prior",
        ):
            behavior.prepare(None)

    def test_prior_of_the_wrong_size(self):
        with pytest.raises(InputError, match=r"behavior_prior must have 1 dimension\(s\); got 2"):
            threads()[0].prepare(GaussianPrior([0, 0], np.eye(2)))

    def test_new_threads(self):
        behavior, _ = threads(intercept=True)
        for shape, message in (
            ((4, 3), r"\(n_threads, 5\); got \(4, 3\)\.$"),
            ((5, 7), r"got \(5, 7\)\. It looks transposed"),
        ):
            with pytest.raises(InputError, match=message):
                behavior.forecast(np.ones(shape), np.empty((0, 5)), {}, 0)
        with pytest.raises(
            InputError, match=r"must have the coefficients of the fit, \['intercept'\]; got none"
        ):
            behavior.forecast(SharedOutcome(np.ones((4, 5))), np.empty((0, 5)), {}, 0)
        with pytest.raises(
            InputError, match=r"must have the coefficients of the fit, \['intercept'\]; got none"
        ):
            behavior.forecast(SharedOutcome(np.ones((4, 2))), np.empty((0, 5)), {}, 2)
        with pytest.raises(
            InputError,
            match=r"Columns 5 to 7 are users unknown to the fit: give their features as X_new",
        ):
            behavior.forecast(np.ones((4, 8)), np.empty((0, 5)), {}, 0)
        with pytest.raises(
            InputError,
            match=r"5 users of the fit and then for each of the 2 new users, 7 in all; got 8",
        ):
            behavior.forecast(np.ones((4, 8)), np.empty((0, 5)), {}, 2)
