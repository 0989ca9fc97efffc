"""A noise of each user's own in UserRegression: conditionals, densities, predictions, refusals."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import gamma, multivariate_t, norm

import dualview as dv
from dualview.behaviors.families.noise import TYPICAL, NoiseByUser, log_own
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.records import Evidence, UserNoise
from dualview.errors import InputError
from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.left_out import LatentPriors
from dualview.posterior.prediction.left_out_users import LeftOutRows
from rows import residual

N_USERS, N_EACH = 12, 10
FEATURES = np.random.default_rng(9).normal(3.0, 2.0, (N_USERS, 2))
RNG = np.random.default_rng(0)
USER = np.repeat(np.arange(N_USERS - 1), N_EACH)  # the last user has no observations
SDS = np.where(np.arange(N_USERS) % 2 == 0, 0.2, 2.0)
DESIGN = RNG.normal(size=(len(USER), 1))
OUTCOME = (
    1.5 + DESIGN[:, 0] * np.where(USER < 6, -1.0, 1.5) + SDS[USER] * RNG.standard_normal(len(USER))
)


def regression(outcome: Any = OUTCOME, **options: Any) -> dv.UserRegression:
    return dv.UserRegression(
        USER, DESIGN, outcome, intercept=True, n_users=N_USERS, noise="user", **options
    )


def prepared(**options: Any) -> UserRows:
    likelihood = regression(**options).prepare(None)[1]
    assert isinstance(likelihood.family.noise, NoiseByUser)
    return likelihood


def test_residuals_of_a_user_are_multivariate_t() -> None:
    residuals, noise, dof = np.array([0.4, -1.0, 2.5]), 0.7, 3.5
    direct = multivariate_t.logpdf(residuals, None, np.eye(3) / noise, dof)
    found = log_own(np.array([(residuals**2).sum(), 0.0]), np.array([3, 0]), noise, dof)
    np.testing.assert_allclose(found, [direct, 0.0], atol=1e-10)


def test_conditionals_are_those_of_the_joint_density() -> None:
    """Log joint − log conditional is constant: of a user's precision; of s and ν with the
    precisions integrated out."""
    likelihood = prepared()
    latent = np.random.default_rng(2).normal(size=(N_USERS, 2))
    noises, counts = likelihood.family.noise, likelihood.panel.counts
    squares = likelihood.panel.sums(residual(likelihood, latent) ** 2)
    noise = np.random.default_rng(3).gamma(2.0, size=N_USERS)

    def joint(own: Any, typical: float, dof: float) -> float:
        return likelihood.log_density(
            latent, {"noise_precision": own, TYPICAL: typical, "degrees_of_freedom": dof}
        )

    shapes, rates = noises.own_law(squares, counts, 0.7, 3.0)
    for user in (0, N_USERS - 1):
        differences = []
        for value in np.linspace(0.1, 3.0, 7):
            own = noise.copy()
            own[user] = value
            differences.append(
                joint(own, 0.7, 3.0)
                - gamma.logpdf(value / 0.7, shapes[user], scale=1 / rates[user])
            )
        np.testing.assert_allclose(differences, differences[0], atol=1e-8)

    def given(typical: float, dof: float) -> float:
        """ln p(precisions | s, ν, rest), of the noises as they stand."""
        shapes, rates = noises.own_law(squares, counts, typical, dof)
        return float(
            (gamma.logpdf(noise / typical, shapes, scale=1 / rates) - np.log(typical)).sum()
        )

    of_typical, of_dof = (
        noises.prior.log_density(
            noises.typical_likelihood(squares, counts, {"degrees_of_freedom": 3.0})
        ),
        noises.tails.log_density(noises.tails_likelihood(squares, counts, 0.7)),
    )
    by_typical = [
        joint(noise, np.exp(x), 3.0) + x - given(np.exp(x), 3.0) - of_typical(x)
        for x in np.linspace(-2.0, 2.0, 7)
    ]
    by_dof = [
        joint(noise, 0.7, np.exp(x)) + x - given(0.7, np.exp(x)) - of_dof(x)
        for x in np.linspace(0.1, 4.0, 7)
    ]
    np.testing.assert_allclose(by_typical, by_typical[0], atol=1e-8)
    np.testing.assert_allclose(by_dof, by_dof[0], atol=1e-8)
    assert of_dof(0.0) == of_typical(800.0) == -np.inf


def test_known_degrees_of_freedom_are_no_parameter() -> None:
    likelihood = prepared(degrees_of_freedom=4.0)
    params = likelihood.draw_prior(np.random.default_rng(0), np.zeros(N_USERS, dtype=np.int64))
    assert set(params) == {"noise_precision", TYPICAL}
    assert set(likelihood.start(np.random.default_rng(0))[1]) == set(params)


@pytest.fixture(scope="module")
def fitted() -> Any:
    return dv.DualViewMixture(n_warmup=150, n_draws=150, n_chains=2).fit(FEATURES, regression())


def test_noisy_users_are_told_from_others(fitted: Any) -> None:
    post = fitted.posterior_
    sds = np.median(post.flat("noise_precision") ** -0.5, axis=0)
    active = np.arange(N_USERS - 1)
    assert sds[active[::2]].max() < 0.6 < 1.2 < sds[active[1::2]].min()
    assert np.median(post.flat("degrees_of_freedom")) < 5.0
    assert post["noise_precision"].shape == (2, 150, N_USERS)


def again(user: Any, design: Any, n_users: int = N_USERS, outcome: Any = None) -> dv.UserRegression:
    return dv.UserRegression(user, design, outcome, intercept=True, n_users=n_users, noise="user")


@pytest.mark.usefixtures("few_replicates")
def test_predictions_scores_and_files(fitted: Any, tmp_path: Any) -> None:
    new = again([0, 1], [[1.0], [-1.0]])
    predicted, post = fitted.predict_outcome(new), fitted.posterior_
    latent, sds = post.flat("latent"), post.flat("noise_precision") ** -0.5
    means = np.column_stack([latent[:, 0] @ [1.0, 1.0], latent[:, 1] @ [1.0, -1.0]])
    direct = norm.pdf([1.0, 2.0], means, sds[:, :2]).mean(axis=0)
    np.testing.assert_allclose(np.exp(predicted.log_density([1.0, 2.0])), direct, rtol=1e-8)
    assert predicted.std[1] > 2.0 * predicted.std[0]
    post.save(tmp_path / "run.nc")
    read = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
    np.testing.assert_array_equal(
        read.predict_outcome(new).log_density([1.0, 2.0]), predicted.log_density([1.0, 2.0])
    )
    assert np.isfinite(dv.compare({"a": fitted, "b": fitted})["elpd"]).all()
    tree = post.to_arviz(n_prior=40)
    assert {TYPICAL, "degrees_of_freedom"} <= set(tree["log_prior"].data_vars)
    assert "noise_precision" not in tree["log_prior"]
    assert len(list(fitted.check(regression(), refit=False))) > 0


def test_new_users_have_a_noise_of_their_own(fitted: Any) -> None:
    """It is drawn around the typical one; what they have done before tells whether theirs is small
    or large."""
    rows, post = Candidates(fitted.posterior_), fitted.posterior_
    noise = UserNoise(post.flat(TYPICAL), post.flat("degrees_of_freedom"))
    share = rows.noise(noise) / noise.typical[rows.draw]
    levels = gamma.cdf(share, 0.5 * noise.dof[rows.draw], scale=2.0 / noise.dof[rows.draw])
    assert abs(levels.mean() - 0.5) < 4.5 / np.sqrt(12 * len(levels))
    later, rng = again([N_USERS], [[0.0]], N_USERS + 1), np.random.default_rng(1)
    past = np.arange(12) % 2 * 2.0 - 1.0
    widths = []
    for sd in (0.2, 2.0):
        seen = again(np.zeros(12, dtype=int), rng.normal(size=(12, 1)) * 0.0, 1, 1.5 + sd * past)
        ends = fitted.predict_outcome(later, FEATURES[:1], seen).interval(0.8)[0]
        widths.append(ends[1] - ends[0])
    before = fitted.predict_outcome(later, FEATURES[:1]).interval(0.8)[0]
    assert widths[0] < 0.5 * widths[1]
    assert widths[0] < before[1] - before[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degrees_of_freedom": 0.5}, "must be above 1"),
        ({"standard_errors": np.ones(len(USER))}, "standard_errors say what the noise is"),
        (
            {"outcome_kind": {"kind": "rounded", "step": 0.5}},
            'noise="user" needs outcomes that are exact numbers',
        ),
    ],
)
def test_refusals(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        regression(**options)


def test_users_left_out_have_a_noise_that_is_integrated_out() -> None:
    """Given a vector, a user's observations are multivariate t; with another, weights count."""
    squares, counts = np.array([[0.7]]), np.array([3])
    noise = UserNoise(np.array([0.4, 1.5]), np.array([2.5, 8.0]))
    one = Evidence(-0.5 * squares, np.zeros((1, 1, 1)), np.zeros((1, 1, 1, 1)), counts, noise)
    draws, vectors = np.array([0, 1]), np.zeros((2, 1))
    residuals = np.sqrt(0.7 / 3.0) * np.ones(3)
    direct = [
        multivariate_t.logpdf(residuals, None, np.eye(3) / typical, dof)
        for typical, dof in zip(*noise, strict=True)
    ]
    found = one.without_noise(noise).log_likelihood(0, draws, vectors)
    np.testing.assert_allclose(found, direct, atol=1e-10)
    weighted = one._replace(height=np.array([0.25])).without_noise(noise)
    np.testing.assert_allclose(
        weighted.log_likelihood(0, draws, vectors), np.add(direct, 0.25), atol=1e-10
    )


def test_density_of_a_user_left_out(fitted: Any) -> None:
    """That of the nodes and an average over draws of vectors and noises, in one draw."""
    post, behavior = fitted.posterior_, regression()
    params = {name: post.flat(name)[:1] for name in behavior.param_names}
    prior = [LatentPriors(post)[0]]
    evidence = behavior.evidence_of_users(prior, post.flat("latent")[:1], params)
    rows = LeftOutRows(Candidates(post), np.array([0]), post.flat("noise_precision"))
    found = rows.log_observations(evidence(1), None)
    latent, rng = rows._all.latent, np.random.default_rng(0)
    own = np.flatnonzero(USER == 1)
    design = np.column_stack([np.ones(N_EACH), DESIGN[own]])
    typical, dof = params[TYPICAL][0], params["degrees_of_freedom"][0]
    for row in range(2):
        normal = rng.standard_normal((200_000, 2))
        vectors = latent.means[rows._kept][row] + normal @ latent.roots[rows._kept][row].T
        residuals = OUTCOME[own] - vectors @ design.T
        values = multivariate_t.logpdf(residuals, None, np.eye(N_EACH) / typical, dof)
        weights = np.exp(values - values.max())
        error = weights.std() / weights.mean() / np.sqrt(len(weights))
        assert abs(found[row] - np.log(weights.mean()) - values.max()) < 4.5 * error + 1e-3


@pytest.mark.slow
def test_users_left_out_are_compared() -> None:
    few = dv.DualViewMixture(n_warmup=10, n_draws=13, n_chains=2).fit(FEATURES, regression())
    scores = dv.compare({"a": few, "b": few}, by="user")
    assert np.isfinite(scores["elpd"].astype(float)).all()
