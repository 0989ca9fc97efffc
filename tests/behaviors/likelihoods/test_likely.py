"""The prior under which observations of one user each are most likely, against a mixed model by
maximum likelihood."""

import numpy as np
import pytest
import statsmodels.api as sm

import dualview as dv

N_USERS, N_EACH = 80, 6
RNG = np.random.default_rng(2)
USER = np.repeat(np.arange(N_USERS), N_EACH)
DESIGN = np.column_stack([np.ones(len(USER)), RNG.normal(size=len(USER))])
LATENT = RNG.multivariate_normal([3.0, -1.0], [[1.0, 0.4], [0.4, 0.5]], N_USERS)
AGE = RNG.normal(size=len(USER))
OUTCOME = (DESIGN * LATENT[USER]).sum(axis=1) + 2.0 * AGE + 0.7 * RNG.normal(size=len(USER))


def test_it_is_that_of_a_mixed_model():
    behavior = dv.UserRegression(USER, DESIGN, OUTCOME, common=AGE[:, None])
    found = behavior.likely_prior()
    mixed = sm.MixedLM(OUTCOME, np.column_stack([DESIGN, AGE]), USER, exog_re=DESIGN).fit(
        reml=False
    )
    assert (np.abs(found.mean - mixed.params[:2]) < mixed.bse[:2]).all()
    np.testing.assert_allclose(found.covariance, np.asarray(mixed.cov_re), atol=0.12)
    wide = dv.UserRegression(
        USER, DESIGN, OUTCOME
    )._latent_prior()  # has the noise, and what age explains, in it
    assert (np.diagonal(wide.covariance) > np.diagonal(found.covariance)).all()


def test_it_is_the_default_with_effects_outside_the_mixture():
    short = {"n_clusters": 1, "n_warmup": 2, "n_draws": 3, "n_chains": 1}
    behavior = dv.UserRegression(USER, DESIGN, OUTCOME, common=AGE[:, None])
    fits = [
        dv.DualViewMixture(behavior_prior=prior, **short).fit(None, behavior)
        for prior in (None, "likelihood")
    ]
    np.testing.assert_array_equal(fits[0].posterior_["latent"], fits[1].posterior_["latent"])
    plain = dv.UserRegression(USER, DESIGN, OUTCOME)
    default, likely = (
        dv.DualViewMixture(behavior_prior=p, **short).fit(None, plain) for p in (None, "likelihood")
    )
    assert not np.array_equal(default.posterior_["latent"], likely.posterior_["latent"])


def test_noise_by_cluster_and_few_of_many_users(monkeypatch):
    monkeypatch.setattr("dualview.behaviors.panel._MOST_USERS", 40)
    behavior = dv.UserRegression(USER, DESIGN, OUTCOME, common=AGE[:, None], noise="cluster")
    found = behavior.likely_prior()
    assert found.mean == pytest.approx([3.0, -1.0], abs=0.6)
    assert behavior.noise == "cluster"
