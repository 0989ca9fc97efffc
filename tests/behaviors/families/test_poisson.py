"""The Poisson family: its distribution, the Metropolis step of families without an augmentation,
and a behavior that is made of it."""

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm, poisson

import dualview as dv
from behaviors.families.counts import Counts
from behaviors.families.known_prior import (
    FACTORS,
    MEANS,
    N_USERS,
    PRIOR,
    Q,
    Z,
    joint_scores,
    rows,
)
from checks import ACCEPT, REJECT, worst
from dualview.behaviors.families.base import Parts
from dualview.behaviors.families.poisson import PoissonFamily, PoissonOutcome
from dualview.behaviors.likelihoods import metropolis
from dualview.behaviors.likelihoods.effects_draw import redraw_vectors

Array = Any


def test_the_distribution_is_poisson() -> None:
    outcome, eta, y = PoissonOutcome(), np.linspace(-2.0, 3.0, 6), np.array([0, 1, 2, 5, 9, 20.0])
    every = slice(0, 6)
    np.testing.assert_allclose(
        outcome.log_density(y, eta[None], every)[0], poisson.logpmf(y, np.exp(eta))
    )
    np.testing.assert_allclose(outcome.below(y, eta), poisson.cdf(y, np.exp(eta)))
    slope, bend = outcome.derivatives(y, eta)
    low, middle, high = (
        outcome.log_density(y, (eta + step)[None], every)[0] for step in (-1e-4, 0.0, 1e-4)
    )
    np.testing.assert_allclose(slope, (high - low) / 2e-4, atol=1e-5)
    np.testing.assert_allclose(bend, (2.0 * middle - low - high) / 1e-8, rtol=1e-4, atol=1e-5)


def test_predictions_integrate_over_unsure_locations() -> None:
    locations, sds = np.array([[0.5, 2.0], [1.0, -1.0]]), np.array([[0.4, 0.0], [0.4, 1.5]])
    even = np.full((2, 1), np.log(0.5))
    mixture = PoissonOutcome().predictive(
        2, 2, lambda cases: Parts(even, locations[:, cases], sds[:, cases])
    )

    def expected(function: Any, case: int) -> float:
        total = 0.0
        for location, sd in zip(locations[:, case], sds[:, case], strict=True):
            if sd == 0.0:
                total += 0.5 * function(np.exp(location))
                continue
            value, _ = quad(
                lambda x, m=location, s=sd: function(np.exp(x)) * norm.pdf(x, m, s),
                location - 9 * sd,
                location + 9 * sd,
                limit=200,
            )
            total += 0.5 * value
        return total

    y = np.array([3.0, 11.0])
    wanted = [expected(lambda rate, k=k: poisson.pmf(k, rate), i) for i, k in enumerate(y)]
    np.testing.assert_allclose(np.exp(mixture.log_density(y)), wanted, rtol=1e-6)
    below = [expected(lambda rate, k=k: poisson.cdf(k, rate), i) for i, k in enumerate(y)]
    np.testing.assert_allclose(mixture.cdf(y), below, rtol=1e-6)
    np.testing.assert_allclose(mixture.mean, [expected(lambda r: r, i) for i in (0, 1)], rtol=1e-6)
    for probability in (0.1, 0.5, 0.95):
        found = mixture.quantile(probability)
        assert (mixture.cdf(found) >= probability).all()
        assert ((found == 0) | (mixture.cdf(np.maximum(found - 1, 0)) < probability)).all()
    drawn = mixture.draws(4000, seed=1)
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - mixture.mean) < 4.5 * error).all()


def test_the_target_of_the_step_is_the_joint_density() -> None:
    """Log joint − log target is constant, of every user's vector."""
    likelihood, rng = rows(PoissonFamily()), np.random.default_rng(1)
    panel, precisions = likelihood.panel, FACTORS @ np.swapaxes(FACTORS, 1, 2)
    assert likelihood.constant is not None
    target = metropolis.Target(
        MEANS[Z],
        precisions[Z],
        panel.user,
        panel.design,
        likelihood.constant,
        panel.outcome,
        PoissonOutcome(),
    )
    latent = rng.standard_normal((N_USERS, Q))
    for user in range(N_USERS):
        differences = []
        for _ in range(6):
            vectors = latent.copy()
            vectors[user] = rng.standard_normal(Q)
            prior = sum(
                multivariate_normal.logpdf(vectors[u], MEANS[k], np.linalg.inv(precisions[k]))
                for u, k in enumerate(Z)
            )
            joint = likelihood.log_density(vectors, {}) + prior
            differences.append(joint - target.log_density(vectors)[user])
        np.testing.assert_allclose(differences, differences[0], atol=1e-8)
    modes, curvatures = target.mode()
    for i, step in enumerate(1e-4 * np.eye(Q)):
        ahead, behind = target.log_density(modes + step), target.log_density(modes - step)
        np.testing.assert_allclose(ahead, behind, atol=1e-8)
        bend = (2.0 * target.log_density(modes) - ahead - behind) / 1e-8
        np.testing.assert_allclose(bend, curvatures[:, i, i], rtol=1e-3)


def test_a_sweep_holds_rows_where_they_are() -> None:
    likelihood, rng = rows(PoissonFamily()), np.random.default_rng(2)
    latent, params = likelihood.start(rng)
    terms = likelihood.terms(rng, latent, params)
    moved = redraw_vectors(rng, terms, PRIOR, latent)
    before, after = likelihood.predictor(latent), likelihood.predictor(moved)
    np.testing.assert_allclose(before, after, atol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("pooled", [False, True])
def test_steps_leave_the_joint_prior_as_it_is(pooled: bool) -> None:
    which, size = worst(joint_scores(rows(PoissonFamily()), pooled=pooled))
    assert size < ACCEPT, which


@pytest.mark.slow
def test_a_step_without_the_proposals_density_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: proposals about the mode are taken for steps that are as likely back as forth."""
    monkeypatch.setattr(metropolis, "_log_t", lambda away, _: np.zeros(len(away)))
    _, size = worst(joint_scores(rows(PoissonFamily())))
    assert size > REJECT


def simulated(n_users: int = 12, n_each: int = 8) -> tuple[Array, Counts, Array]:
    rng = np.random.default_rng(3)
    user = np.repeat(np.arange(n_users), n_each)
    x, exposure = rng.standard_normal(len(user)), rng.uniform(0.5, 2.0, len(user))
    levels = np.where(np.arange(n_users) % 2, 2.0, 0.5) + 0.2 * rng.standard_normal(n_users)
    rates = exposure * np.exp(levels[user] + 0.3 * x)
    features = np.where(np.arange(n_users) % 2, 3.0, -3.0) + rng.standard_normal(n_users)
    counts = Counts(user, x[:, None], rng.poisson(rates), exposure, n_users)
    return features[:, None], counts, levels


def test_counts_are_fitted_predicted_and_scored() -> None:
    features, counts, levels = simulated()
    model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=60), n_draws=60, n_chains=2)
    model.fit(features, counts)
    assert np.corrcoef(model.latent_[:, 0], levels)[0, 1] > 0.9
    known = model.predict_outcome(counts)
    own = np.array([counts.observed[counts.user == u].sum() for u in range(12)])
    assert np.corrcoef(np.bincount(counts.user, known.mean), own)[0, 1] > 0.98
    new = Counts([12, 12], [[0.0], [0.0]], None, [1.0, 1.0], 13)
    typical, rare = (model.predict_outcome(new, X_new=[[x]]).mean[0] for x in (3.0, -3.0))
    assert typical > 2.0 * rare
    seen = Counts([0] * 3, [[0.0]] * 3, [12, 11, 14], [1.0] * 3, 1)
    high = model.predict_latent(np.array([[3.0]]), seen)
    assert high.mean[0, 0] > model.predict_latent(np.array([[3.0]])).mean[0, 0]
    scores = dv.compare({"counts": model, "again": model})
    assert np.isfinite(scores["elpd"]).all()
