"""Effects outside the mixture: their conditionals against the joint density, and draws by either
way."""

import math

import numpy as np
import pytest
from scipy import sparse

from dualview.behaviors.families.noise import NoisePrior
from dualview.behaviors.likelihoods import effects_draw
from dualview.behaviors.likelihoods.effects_draw import (
    Drawn,
    EffectsDraw,
    SparseDesign,
    draw_with_vectors,
    owners_of,
    times,
)
from dualview.behaviors.likelihoods.with_effects import (
    EffectUnits,
    GroupSpread,
    WithEffects,
    log_tau_density,
)
from dualview.behaviors.records import Panel, Prior
from dualview.distributions import Normal
from dualview.units import Whitening
from rows import logit_rows, normal_rows

N, U, Q, LEVELS = 24, 5, 2, 4
RNG = np.random.default_rng(3)
USER = np.sort(RNG.integers(1, U, N))  # user 0 has no observations
DESIGN = np.column_stack([np.ones(N), RNG.normal(size=N)])
ITEM, SIGN = RNG.integers(0, LEVELS, (N, 1)), np.ones((N, 1))
EFFECTS = SparseDesign(
    np.hstack([np.zeros((N, 1), dtype=np.int64), 1 + ITEM]),
    np.hstack([RNG.normal(size=(N, 1)), SIGN]),
    1 + LEVELS,
)
UNITS = EffectUnits(Whitening(np.zeros(1), np.eye(1), np.eye(1)), 1.0)
Z = np.array([0, 1, 1, 0, 1])
FACTORS = np.array([[[1.2, 0.4], [0.0, 0.7]], [[0.6, -0.3], [0.0, 1.5]]])
MEANS = np.array([[0.3, -0.5], [1.0, 0.2]])


def around(inner):
    return WithEffects(inner, EFFECTS, 1, np.array([1, 1 + LEVELS]), np.array([0.8]), UNITS)


def regression():
    outcome = np.random.default_rng(4).normal(size=N)
    return around(normal_rows(Panel.of(USER, DESIGN, outcome, U), NoisePrior(1.0, 1.0)))


def answers():
    outcome = (np.random.default_rng(4).random(N) < 0.5).astype(float)
    return around(
        logit_rows(Panel.of(USER, DESIGN, outcome, U), sparse.csr_array((N, 0)), np.zeros(N))
    )


def state(rng):
    params = {
        "noise_precision": 1.7,
        "common": rng.normal(size=1),
        "group_effects": rng.normal(size=LEVELS),
    }
    return rng.normal(size=(U, Q)), params | {"group_sd": np.array([0.6])}


def log_prior(latent, prior):
    """ln p(f | clusters) up to a constant; of the clusters' vectors where users share them."""
    shift = 0.0 if prior.shift is None else prior.shift
    vectors = latent - shift
    if prior.pooled:
        vectors, owner = np.array([vectors[k == Z][0] for k in range(2)]), np.arange(2)
    else:
        owner = Z
    halves = np.einsum("uji,uj->ui", prior.factors[owner], vectors - prior.means[owner])
    return -0.5 * float((halves**2).sum())


@pytest.mark.parametrize("shift", [None, RNG.normal(size=(U, Q))], ids=["plain", "link"])
@pytest.mark.parametrize("pooled", [False, True], ids=["own", "pooled"])
def test_effects_and_vectors_have_the_distribution_of_the_joint(pooled, shift):
    """ln p(observations, f, e) − ln p(e) − ln p(f | e) by (C20) is the same everywhere."""
    likelihood, prior = regression(), Prior(Z, MEANS, FACTORS, pooled, shift)
    _, params = state(np.random.default_rng(0))
    terms = likelihood.terms(
        np.random.default_rng(0),
        np.zeros((U, Q)),
        params | likelihood._params(np.zeros(1 + LEVELS), [0.6]),
    )
    owners = owners_of(terms, prior)
    factors, precision = (
        effects_draw.posterior_factors(owners),
        likelihood.prior_precision(params["group_sd"]),
    )
    by_user = owners_of(terms, prior._replace(pooled=False))
    observed = (
        terms.residual
        if shift is None
        else terms.residual - effects_draw.expected_of(by_user, shift)
    )
    draw = EffectsDraw(EFFECTS, precision, owners)
    law = Normal(
        draw._linear(factors, observed - effects_draw.expected_of(owners, owners.means)),
        draw.precision(factors),
    )
    found = []
    for seed in range(6):
        rng = np.random.default_rng([1, seed])
        vectors, effects = rng.normal(size=(len(owners.means), Q)), rng.normal(size=1 + LEVELS)
        latent = (vectors[Z] if pooled else vectors) + (0.0 if shift is None else shift)
        log_joint = likelihood.log_density(
            latent, params | likelihood._params(effects, params["group_sd"])
        )
        total = log_joint + log_prior(latent, prior) - law.log_density(effects)
        means = effects_draw.draw_vectors(
            owners, factors, observed - times(EFFECTS, effects), np.zeros_like(owners.means)
        )
        halves = np.einsum("oji,oj->oi", factors, vectors - means)
        found.append(total + 0.5 * float((halves**2).sum()))
    np.testing.assert_allclose(found, found[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("most_dense", [400, 0], ids=["factorised", "by conjugate gradients"])
def test_draws_have_that_distribution(most_dense, monkeypatch):
    monkeypatch.setattr(effects_draw, "MOST_DENSE", most_dense)
    likelihood, prior, rng = regression(), Prior(Z, MEANS, FACTORS), np.random.default_rng(5)
    latent, params = state(rng)
    standing = Drawn(latent, likelihood.effects(params))
    precision = likelihood.prior_precision(params["group_sd"])
    draws = []
    for _ in range(4000):
        terms = likelihood.terms(rng, latent, params)
        drawn = draw_with_vectors(rng, EFFECTS, precision, terms, prior, standing)
        draws.append(np.concatenate([drawn.effects, drawn.latent.ravel()]))
    expected = terms.residual
    after = params | likelihood._params(drawn.effects, params["group_sd"])
    np.testing.assert_allclose(
        expected, likelihood.terms(rng, drawn.latent, after).residual, atol=1e-12
    )
    # The joint of effects and vectors by dense matrices.
    full = np.zeros((N, 1 + LEVELS + U * Q))
    np.add.at(full, (np.arange(N)[:, None], EFFECTS.columns), EFFECTS.values)
    for i, u in enumerate(USER):
        full[i, 1 + LEVELS + Q * u : 1 + LEVELS + Q * (u + 1)] = DESIGN[i]
    prior_precision = np.zeros((full.shape[1],) * 2)
    prior_precision[: 1 + LEVELS, : 1 + LEVELS] = np.diag(precision)
    mean = np.zeros(full.shape[1])
    for u in range(U):
        own = slice(1 + LEVELS + Q * u, 1 + LEVELS + Q * (u + 1))
        prior_precision[own, own], mean[own] = FACTORS[Z[u]] @ FACTORS[Z[u]].T, MEANS[Z[u]]
    matrix = prior_precision + 1.7 * full.T @ full
    centre = np.linalg.solve(
        matrix, prior_precision @ mean + 1.7 * full.T @ likelihood.inner.panel.outcome
    )
    covariance = np.linalg.inv(matrix)
    found = np.array(draws)
    scores = (found.mean(axis=0) - centre) / np.sqrt(np.diagonal(covariance) / len(found))
    assert np.abs(scores).max() < 4.5
    half = (found - centre) @ np.linalg.cholesky(matrix)
    products = half.T @ half / len(found) - np.eye(len(centre))
    assert np.abs(products).max() * math.sqrt(len(found) / 2.0) < 5.0


@pytest.mark.parametrize("make", [regression, answers])
def test_a_step_between_effects_and_vectors_keeps_the_observations(make):
    """Along the steps of (C21) the joint changes as their law says, and the likelihood not at
    all."""
    likelihood, base_mean = make(), np.array([0.4, -0.2])
    latent, params = state(np.random.default_rng(0))
    if make is answers:
        params = {name: params[name] for name in ("common", "group_effects", "group_sd")} | {
            "coefficients": np.zeros(0)
        }
    vectors, effects = likelihood.confounded
    assert len(vectors) == 1
    np.testing.assert_allclose(np.abs(vectors[0]), [1.0, 0.0], atol=1e-9)  # the users' levels
    law = likelihood.recentering_law(params, base_mean)
    found = []
    for size in (-1.5, 0.0, 0.3, 2.0):
        step = np.array([size])
        moved = params | likelihood._params(
            likelihood.effects(params) - step @ effects, params["group_sd"]
        )
        away = base_mean + step @ vectors
        log_joint = likelihood.log_density(latent + step @ vectors, moved) - 0.5 * float(
            away @ away
        )
        found.append(log_joint - law.log_density(step))
    np.testing.assert_allclose(found, found[0], rtol=0, atol=1e-7)


def test_the_density_of_tau_is_that_of_the_joint():
    """Given the effects, and given effects over τ."""
    likelihood = regression()
    latent, params = state(np.random.default_rng(0))
    terms, sds = likelihood.terms(np.random.default_rng(0), latent, params), params["group_sd"]
    alone = likelihood._params(np.concatenate([np.zeros(1), params["group_effects"]]), sds)
    by_group = times(EFFECTS, likelihood.effects(alone))
    spread = GroupSpread(float(sds[0]), 0.8)
    growth = spread.given_observations(by_group, np.full(N, 1.7), terms.residual)
    size = spread.given_effects(params["group_effects"])
    given, grown = [], []
    for tau in (0.1, 0.5, 0.6, 3.0):
        changed = params | {"group_sd": np.array([tau])}
        given.append(
            likelihood.log_density(latent, changed)
            + math.log(tau)
            - log_tau_density(math.log(tau), size)
        )
        factor = tau / 0.6
        changed["group_effects"] = factor * params["group_effects"]
        jacobian = (1 + LEVELS) * math.log(tau)  # of ln τ, and of effects given effects over τ
        grown.append(
            likelihood.log_density(latent, changed)
            + jacobian
            - log_tau_density(math.log(tau), growth)
        )
    np.testing.assert_allclose(given, given[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(grown, grown[0], rtol=0, atol=1e-9)


def test_nothing_is_confounded_without_an_intercept():
    slopes = Panel.of(USER, DESIGN[:, 1:], np.zeros(N), U)
    vectors, effects = around(normal_rows(slopes, NoisePrior(1.0, 1.0))).confounded
    assert vectors.shape == (0, 1)
    assert effects.shape == (0, 1 + LEVELS)
