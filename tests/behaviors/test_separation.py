"""Answers that separate, all yes or all no: chains reach the tails of the posterior, whose means
and variances exist.

With one cluster the posterior is the prior, (M2) to (M6) with (M5′) and (M7′), times the logistic
likelihood. So draws of the prior weighted by the likelihood, which is at most 1, have its moments
and quantiles.
"""

import numpy as np
import pytest
from scipy.special import log_expit

import dualview as dv
from dualview.posterior.diagnostics import table
from yardsticks import LIMIT

N_USERS, N_ANSWERS, N_CHAINS, N_DRAWS = 4, 3, 2, 1500
N_PRIOR = 200_000


def fitted(n_clusters, pooling=None, X=None, yes=None, n_draws=N_DRAWS):
    user = np.repeat(np.arange(N_USERS if yes is None else len(yes)), N_ANSWERS)
    outcome = np.ones(len(user)) if yes is None else np.repeat(yes, N_ANSWERS)
    model = dv.DualViewMixture(
        n_clusters,
        n_warmup=300,
        n_draws=n_draws,
        n_chains=N_CHAINS,
        random_state=0,
        pooling=pooling,
        progress=False,
    )
    return model.fit(X, dv.BinaryOutcomes(user, np.ones((len(user), 1)), outcome))


def weighted_prior(pooling):
    """Draws of f (N, U) from the prior of one cluster in one dimension, and their weights by the
    answers."""
    rng = np.random.default_rng(0)
    base_mean, base_precision = rng.standard_normal(N_PRIOR), rng.chisquare(3.0, N_PRIOR) / 3.0
    mean = base_mean + rng.standard_normal(N_PRIOR) / np.sqrt(base_precision)
    latent = np.repeat(mean[:, None], N_USERS, axis=1)
    if pooling is None:
        base_covariance, base_dof = (
            rng.chisquare(1.0, N_PRIOR),
            2.0 + 1.0 / rng.chisquare(1.0, N_PRIOR),
        )
        precision = rng.chisquare(base_dof) / (base_dof * base_covariance)
        latent = latent + rng.standard_normal(latent.shape) / np.sqrt(precision)[:, None]
    weights = np.exp(N_ANSWERS * log_expit(latent).sum(axis=1))
    return latent, weights / weights.sum()


@pytest.mark.parametrize("pooling", [None, pytest.param("cluster", marks=pytest.mark.slow)])
def test_moments_and_quantiles_are_those_of_the_posterior(pooling):
    draws = fitted(1, pooling).posterior_["latent"].reshape(N_CHAINS, N_DRAWS, -1)
    latent, weights = weighted_prior(pooling)
    ends = np.array([np.quantile(draws[..., 0], p) for p in (0.1, 0.5, 0.9)])
    asked = {f"below {end:.1f}": lambda f, end=end: (f < end).astype(float) for end in ends}
    asked |= {"mean": lambda f: f, "mean of its inverse hyperbolic sine": np.arcsinh}
    for name, statistic in asked.items():
        chain, known = statistic(draws[..., 0]), statistic(latent[:, 0])
        expected = weights @ known
        row = table({name: chain}).loc[name]
        error = np.hypot(
            row.sd * np.sqrt(row.autocorrelation_time / chain.size),
            np.sqrt(weights**2 @ (known - expected) ** 2),
        )
        assert abs(row["mean"] - expected) < LIMIT * error, name
        assert chain.size / row.autocorrelation_time > 200, name


@pytest.mark.slow
def test_chains_agree_on_users_who_separate():
    """Two clusters, one of yes and one of no: effective draws by the hundred, and chains with one
    posterior."""
    yes = np.arange(20) % 2
    X = np.where(yes, 2.0, -2.0)[:, None] + 0.5 * np.random.default_rng(0).standard_normal((20, 1))
    draws = fitted(2, None, X, yes).posterior_["latent"].reshape(N_CHAINS, N_DRAWS, -1)
    rows = table(
        {
            "yes": draws[..., 1::2].mean(axis=-1),
            "no": draws[..., ::2].mean(axis=-1),
            "one": draws[..., 1],
        },
        brief=True,
    )
    assert (rows.r_hat < 1.05).all()
    assert (rows.ess_bulk > 100).all()
    assert rows.loc["yes", "mean"] > 2.0 > -2.0 > rows.loc["no", "mean"]
