"""The draw of covariates' coefficients given those of users."""

import numpy as np
import pytest
from scipy import sparse

from dualview.behaviors.likelihoods import threads
from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.behaviors.records import Prior
from dualview.units import Whitening

RNG = np.random.default_rng(3)
N_USERS, N_THREADS, N_COVARIATES = 6, 25, 3
DESIGN = RNG.integers(0, 2, (N_THREADS, N_USERS)).astype(float)
COVARIATES = RNG.standard_normal((N_THREADS, N_COVARIATES)) + 0.5
OUTCOME = RNG.standard_normal(N_THREADS)
LATENT, PARAMS = (
    RNG.standard_normal((N_USERS, 1)),
    {"noise_precision": 1.7, "coefficients": RNG.standard_normal(N_COVARIATES)},
)
PRIOR = Prior(np.zeros(N_USERS, dtype=np.int64), np.zeros((1, 1)), np.ones((1, 1, 1)))


def regression(is_sparse: bool) -> ThreadRegression:
    design = sparse.csr_array(DESIGN) if is_sparse else DESIGN
    units = Whitening(np.zeros(N_COVARIATES), np.eye(N_COVARIATES), np.eye(N_COVARIATES))
    return ThreadRegression(design, COVARIATES, OUTCOME, 1.0, units)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_they_have_the_joints_density_given_users(
    is_sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log joint is quadratic in them: its differences give the mean and the precision."""
    monkeypatch.setattr(threads, "_ALWAYS_TOGETHER", 0)
    monkeypatch.setattr(threads, "_JOINT_SHARE_WITH_COVARIATES", 0.0)
    likelihood, n = regression(is_sparse), N_COVARIATES

    def density(coefficients: np.ndarray) -> float:
        return likelihood.log_density(
            LATENT, {"noise_precision": 1.7, "coefficients": coefficients}
        )

    unit, zero = np.eye(n), density(np.zeros(n))
    precision = np.array(
        [[density(a) + density(b) - density(a + b) - zero for a in unit] for b in unit]
    )
    linear = np.array([0.5 * (density(a) - density(-a)) for a in unit])
    mean, factor = np.linalg.solve(precision, linear), np.linalg.cholesky(precision)
    rng, drawn = np.random.default_rng(0), []
    for _ in range(4000):
        terms = likelihood.terms(rng, LATENT, PARAMS)
        latent, params = likelihood.redraw(rng, LATENT, PARAMS, terms, PRIOR)
        np.testing.assert_array_equal(latent, LATENT)
        drawn.append(params["coefficients"])
    standard = (np.array(drawn) - mean) @ factor
    assert abs(standard.mean(axis=0)).max() < 4.5 / np.sqrt(4000)
    assert abs(standard.T @ standard / 4000 - np.eye(n)).max() < 4.5 * np.sqrt(2.0 / 4000)


def test_the_noise_is_that_of_the_new_residuals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_ALWAYS_TOGETHER", 0)
    monkeypatch.setattr(threads, "_JOINT_SHARE_WITH_COVARIATES", 0.0)
    likelihood, rng, levels = regression(is_sparse=True), np.random.default_rng(1), []
    for _ in range(4000):
        _, params = likelihood.redraw(
            rng, LATENT, PARAMS, likelihood.terms(rng, LATENT, PARAMS), PRIOR
        )
        law = likelihood.noise_law(likelihood.residual(LATENT, params["coefficients"]))
        levels.append(params["noise_precision"] / law.mean)
    dof = 1.0 + N_THREADS
    assert abs(np.mean(levels) - 1.0) < 4.5 * np.sqrt(2.0 / dof / 4000)


@pytest.mark.parametrize(("n_users", "always"), [(297, True), (298, False)])
def test_few_coefficients_are_always_drawn_together(n_users: int, always: bool) -> None:
    units = Whitening(np.zeros(N_COVARIATES), np.eye(N_COVARIATES), np.eye(N_COVARIATES))
    design = sparse.csr_array(
        (np.ones(N_THREADS), (np.arange(N_THREADS), np.arange(N_THREADS))), (N_THREADS, n_users)
    )
    likelihood = ThreadRegression(design, COVARIATES, OUTCOME, 1.0, units)
    prior = PRIOR._replace(z=np.zeros(n_users, dtype=np.int64))
    latent, moved = np.zeros((n_users, 1)), 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        after, _ = likelihood.redraw(
            rng, latent, PARAMS, likelihood.terms(rng, latent, PARAMS), prior
        )
        moved += bool((after != latent).any())
    assert moved == 20 if always else 0 < moved < 20
    pooled = prior._replace(pooled=True)
    after, _ = likelihood.redraw(
        np.random.default_rng(0), latent, PARAMS, likelihood.terms(rng, latent, PARAMS), pooled
    )
    assert (after != latent).any()
