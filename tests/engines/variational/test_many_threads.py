"""q of very many coefficients, by conjugate gradients and probes, against the factor of their
precision."""

import numpy as np
import pytest
from scipy import sparse

import dualview as dv
from dualview.behaviors.approximation import many_threads as soft_many_threads
from dualview.behaviors.approximation.latent import SoftPrior
from dualview.behaviors.approximation.many_threads import ManyEquations, SoftManyThreads
from dualview.behaviors.likelihoods.threads import ThreadRegression

N_USERS, N_THREADS = 120, 400


@pytest.fixture(scope="module")
def likelihood() -> ThreadRegression:
    rng = np.random.default_rng(5)
    weights = sparse.random_array(
        (N_THREADS, N_USERS), density=0.04, rng=rng, data_sampler=lambda size: np.ones(size)
    )
    outcome = weights @ rng.standard_normal(N_USERS) + 0.5 * rng.standard_normal(N_THREADS)
    behavior = dv.SharedOutcome(sparse.csr_array(weights), outcome, intercept=True)
    return behavior.prepare(None)[1]


@pytest.fixture(scope="module")
def prior() -> SoftPrior:
    rng = np.random.default_rng(6)
    responsibilities = rng.dirichlet(np.ones(3), N_USERS).T
    means = np.array([[-1.0], [0.0], [1.5]])
    precisions = np.array([2.0, 5.0, 9.0])[:, None, None]
    return SoftPrior(responsibilities, precisions, np.eye(1), np.zeros(1), means)


@pytest.fixture(scope="module")
def exact(
    likelihood: ThreadRegression, prior: SoftPrior
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, covariance and precision of the coefficients under the noise of ``many``."""
    return _exact(likelihood, prior, _start(likelihood).noise.mean)


def _start(likelihood: ThreadRegression) -> SoftManyThreads:
    return SoftManyThreads.start(
        ManyEquations.of(likelihood, likelihood._with_covariates(likelihood.design))
    )


def _exact(
    likelihood: ThreadRegression, prior: SoftPrior, noise: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    design = np.hstack([likelihood.design.toarray(), likelihood.coefficient_design])
    own = np.append(prior.precisions[:, 0, 0] @ prior.responsibilities, 1.0)
    pull = np.append((prior.precisions[:, 0, 0] * prior.means[:, 0]) @ prior.responsibilities, 0.0)
    precision = np.diag(own) + noise * design.T @ design
    covariance = np.linalg.inv(precision)
    return covariance @ (pull + noise * design.T @ likelihood.outcome), covariance, precision


@pytest.fixture(scope="module")
def many(likelihood: ThreadRegression, prior: SoftPrior) -> SoftManyThreads:
    q = _start(likelihood)
    for _ in range(6):
        q = q.with_latent(prior)
    return q


def test_the_mean_is_exact_after_some_updates(many: SoftManyThreads, exact: tuple) -> None:
    np.testing.assert_allclose(many.mean, exact[0], atol=1e-5)


def test_variances_and_trace_are_exact_up_to_the_noise_of_the_probes(
    many: SoftManyThreads, exact: tuple
) -> None:
    ratio = many.covariance.variances / np.diag(exact[1])
    assert 0.97 < ratio.mean() < 1.03
    assert ratio.std() < np.sqrt(
        2.0 / soft_many_threads.N_PROBES
    )  # of averages of squares, without what is known exactly
    design = np.hstack(
        [many.equations.likelihood.design.toarray(), many.equations.likelihood.coefficient_design]
    )
    assert many.covariance.trace == pytest.approx(np.sum((design @ exact[1]) * design), rel=0.05)


def test_the_determinant_is_exact_up_to_the_noise_of_the_signs(
    many: SoftManyThreads, exact: tuple
) -> None:
    assert many.covariance.log_determinant == pytest.approx(np.linalg.slogdet(exact[2])[1], abs=5.0)


def test_no_update_of_the_mean_lowers_the_bound(
    likelihood: ThreadRegression, prior: SoftPrior, many: SoftManyThreads
) -> None:
    own, pull = (
        many.covariance.own,
        np.append((prior.precisions[:, 0, 0] * prior.means[:, 0]) @ prior.responsibilities, 0.0),
    )
    noise, q, values = many.noise.mean, _start(likelihood), []
    for _ in range(5):
        q = q.with_latent(prior)
        values.append(
            0.5 * q.mean @ many.covariance.times(q.mean)
            - q.mean @ (pull + noise * q.equations.weighted)
        )
    assert own.shape == pull.shape
    assert (np.diff(values) <= 1e-9).all()


def test_draws_have_the_mean_and_the_covariance(many: SoftManyThreads, exact: tuple) -> None:
    draws = many.draws(np.random.default_rng(0), 800)
    joint = np.hstack([draws.latent[:, :, 0], [params["coefficients"] for params in draws.params]])
    root = np.linalg.cholesky(exact[2])
    standard = (joint - exact[0]) @ root
    assert abs(standard.mean(axis=0) * np.sqrt(800)).max() < 4.5
    assert (abs((standard**2).mean(axis=0) - 1.0) * np.sqrt(800 / 2)).max() < 4.5
    values = many.log_ratios(draws)
    assert np.isfinite(values).all()


def test_very_many_users_are_fitted_in_this_way(monkeypatch: pytest.MonkeyPatch) -> None:
    from dualview.behaviors.likelihoods import threads

    monkeypatch.setattr(threads, "_MOST_FACTORISED", 10)
    forum = dv.datasets.agreement(n_users=30, n_threads=80, seed=1)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    model = dv.DualViewMixture(engine="variational", n_chains=2, n_draws=20).fit(
        forum.features, behavior
    )
    assert model.posterior_.approximation is not None
    assert np.corrcoef(model.latent_, forum.latent)[0, 1] > 0.9
    assert model.posterior_["latent"].shape == (2, 20, 30)
