"""Observations left out one at a time: against the joint normal distribution, brute force and refits by hand."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from scipy.stats import multivariate_normal, norm

import dualview as dv
from dualview.behaviors import left_out as module
from dualview.behaviors.base import LatentPrior
from dualview.units import Whitening

RNG = np.random.default_rng(0)
N_USERS = 6
NOISE = 1.7


def prior_of(pooled: bool, q: int = 1, seed: int = 0) -> LatentPrior:
    rng = np.random.default_rng(seed)
    n = 3 if pooled else N_USERS
    owner = rng.integers(0, 3, N_USERS) if pooled else np.arange(N_USERS)
    if pooled:
        owner[:3] = np.arange(3)
    roots = rng.standard_normal((n, q, q)) + 2 * np.eye(q)
    shift = rng.standard_normal((N_USERS, q)) if pooled else np.zeros((N_USERS, q))
    return LatentPrior(owner, rng.standard_normal((n, q)), roots @ np.swapaxes(roots, -1, -2), shift)


def left_out_by_hand(design: np.ndarray, prior: LatentPrior, offset: np.ndarray, y: np.ndarray, noise: Any) -> np.ndarray:
    """ln p(y_t | y without t) of y = design · (all vectors end to end) + offset + noise, from the joint distribution."""
    n, q = prior.means.shape
    covariance = np.zeros((n * q, n * q))
    for j in range(n):
        covariance[j * q : (j + 1) * q, j * q : (j + 1) * q] = np.linalg.inv(prior.precisions[j])
    joint = design @ covariance @ design.T + np.diag(np.broadcast_to(1 / np.asarray(noise), len(y)))
    mean = design @ prior.means.ravel() + offset
    result = np.empty(len(y))
    for t in range(len(y)):
        rest = np.arange(len(y)) != t
        without = multivariate_normal(mean[rest], joint[np.ix_(rest, rest)]).logpdf(y[rest])
        result[t] = multivariate_normal(mean, joint).logpdf(y) - without
    return result


@pytest.mark.parametrize("n_threads", [4, 9], ids=["fewer threads than users", "more"])
@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("covariates", [0, 2])
def test_threads_are_left_out_of_the_joint_distribution(n_threads: int, pooled: bool, covariates: int) -> None:
    rng, prior = np.random.default_rng(1), prior_of(pooled)
    participation, outcome = rng.integers(0, 2, (n_threads, N_USERS)).astype(float), 3 * rng.standard_normal(n_threads)
    options: dict[str, Any] = {}
    if covariates:
        root = rng.standard_normal((2, 2)) + 2 * np.eye(2)
        options["covariates"] = rng.standard_normal((n_threads, 2))
        options["coefficient_prior"] = dv.GaussianPrior([0.5, -1.0], root @ root.T)
    behavior = dv.SharedOutcome(sparse.csr_array(participation), outcome, **options)
    members = np.eye(len(prior.means))[prior.owner]
    design, wide, offset = participation @ members, prior, participation @ prior.shift[:, 0]
    if covariates:  # their slopes, in units in which they are independent, are two more vectors
        units = Whitening.of(options["coefficient_prior"])
        design = np.hstack([design, options["covariates"] @ units.factor])
        offset = offset + options["covariates"] @ units.mean
        wide = LatentPrior(
            prior.owner,
            np.vstack([prior.means, np.zeros((2, 1))]),
            np.concatenate([prior.precisions, np.ones((2, 1, 1))]),
            prior.shift,
        )
    laws = behavior.left_out().laws(prior, {"noise_precision": NOISE, "coefficients": np.zeros(2)}, np.zeros((N_USERS, 1)))
    wanted = left_out_by_hand(design, wide, offset, outcome, NOISE)
    np.testing.assert_allclose(laws.log_density(outcome), wanted, rtol=1e-9)
    np.testing.assert_allclose(norm.logpdf(laws.standardised(rng, outcome)) - np.log(laws.sds), wanted, rtol=1e-9)


def test_large_forums_integrate_the_participants_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the vectors of everybody else, which are then known numbers."""
    monkeypatch.setattr(module, "MOST_WHOLE", 1)
    rng, prior = np.random.default_rng(2), prior_of(False)
    participation, outcome = rng.integers(0, 2, (9, N_USERS)) * rng.uniform(0.5, 1.5, (9, N_USERS)), rng.standard_normal(9)
    latent = rng.standard_normal((N_USERS, 1))
    covariates, slopes = rng.standard_normal((9, 1)), np.array([0.7])
    behavior = dv.SharedOutcome(participation, outcome, covariates)
    found = behavior.left_out().laws(prior, {"noise_precision": NOISE, "coefficients": slopes}, latent).log_density(outcome)
    for t in range(9):
        inside = participation[t] > 0
        own = LatentPrior(np.arange(inside.sum()), prior.means[inside], prior.precisions[inside], np.zeros((inside.sum(), 1)))
        offset = participation[:, ~inside] @ latent[~inside, 0] + covariates @ slopes
        wanted = left_out_by_hand(participation[:, inside], own, offset, outcome, NOISE)[t]
        assert found[t] == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("by_user", [False, True], ids=["shared noise", "noise by user"])
def test_observations_of_users_are_left_out_of_the_joint_distribution(pooled: bool, by_user: bool) -> None:
    rng, prior = np.random.default_rng(3), prior_of(pooled, q=2)
    user, design = rng.integers(0, N_USERS, 14), rng.standard_normal((14, 2))
    outcome = rng.standard_normal(14)
    noise = rng.uniform(0.5, 2.0, N_USERS) if by_user else np.float64(NOISE)
    behavior = dv.UserRegression(user, design, outcome, n_users=N_USERS)
    wide = np.zeros((14, len(prior.means), 2))
    wide[np.arange(14), prior.owner[user]] = design
    offset = (design * prior.shift[user]).sum(axis=1)
    found = behavior.left_out().laws(prior, {"noise_precision": noise}, np.zeros((N_USERS, 2))).log_density(outcome)
    precision = noise[user] if by_user else noise
    np.testing.assert_allclose(found, left_out_by_hand(wide.reshape(14, -1), prior, offset, outcome, precision), rtol=1e-8)


def marginal(behavior: Any, prior: LatentPrior, rows: np.ndarray) -> float:
    """ln p(some answers), by a fine grid over each group's vector of one or two numbers."""
    total, q = 0.0, prior.means.shape[1]
    axis = np.linspace(-12, 12, 2401 if q == 1 else 241)
    grid = np.stack(np.meshgrid(*[axis] * q, indexing="ij"), axis=-1).reshape(-1, q)
    for j in range(len(prior.means)):
        density = multivariate_normal(prior.means[j], np.linalg.inv(prior.precisions[j])).pdf(grid)
        chance = np.ones(len(grid))
        for i in rows[prior.owner[behavior.user[rows]] == j]:
            odds = (grid + prior.shift[behavior.user[i]]) @ behavior.design[i]
            chance *= expit((2 * behavior.outcome[i] - 1) * odds)
        total += np.log((density * chance).sum() * (axis[1] - axis[0]) ** q)
    return total


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("pooled", [False, True])
def test_answers_are_left_out_by_quadrature(q: int, pooled: bool) -> None:
    rng, prior = np.random.default_rng(4), prior_of(pooled, q)
    n = 12
    behavior = dv.BinaryOutcomes(rng.integers(0, N_USERS, n), rng.standard_normal((n, q)), rng.random(n) < 0.5, n_users=N_USERS)
    found = behavior.left_out().laws(prior, {}, np.zeros((N_USERS, q)))
    everything = np.arange(n)
    whole = marginal(behavior, prior, everything)
    wanted = [whole - marginal(behavior, prior, everything[everything != i]) for i in range(n)]
    np.testing.assert_allclose(found.log_density(behavior.outcome), wanted, atol=1e-4)
    np.testing.assert_allclose(
        np.exp(found.log_density(behavior.outcome)) + np.exp(found.log_density(1 - behavior.outcome)), 1.0
    )


def test_many_dimensions_by_importance_sampling_agree_with_the_quadrature(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, prior = np.random.default_rng(5), prior_of(False, 2)
    behavior = dv.BinaryOutcomes(
        rng.integers(0, N_USERS, 15), rng.standard_normal((15, 2)), rng.random(15) < 0.5, n_users=N_USERS
    )
    exact = behavior.left_out().laws(prior, {}, np.zeros((N_USERS, 2))).log_density(behavior.outcome)
    monkeypatch.setattr(module, "_NODES", {})
    sampled = behavior.left_out().laws(prior, {}, np.zeros((N_USERS, 2))).log_density(behavior.outcome)
    np.testing.assert_allclose(sampled, exact, atol=0.05)
    assert np.abs(sampled - exact).max() > 0


def test_answers_all_alike_have_a_mode() -> None:
    """A user with very many answers, all yes, under a wide prior: Newton's steps must not run away."""
    behavior = dv.BinaryOutcomes(np.zeros(400, dtype=int), np.ones((400, 1)), np.ones(400), n_users=2)
    prior = LatentPrior(np.arange(2), np.full((2, 1), -30.0), np.full((2, 1, 1), 1e-4), np.zeros((2, 1)))
    found = behavior.left_out().laws(prior, {}, np.zeros((2, 1))).log_density(behavior.outcome)
    assert np.all(np.isfinite(found))
    assert found.min() > -0.02


def test_randomised_levels_of_answers_are_uniform() -> None:
    rng = np.random.default_rng(6)
    chances = rng.random(4000)
    values = (rng.random(4000) < chances).astype(float)
    laws = module.BinaryLaws(values, np.log(np.where(values == 1, chances, 1 - chances)))
    standard = laws.standardised(rng, values)
    assert abs(standard.mean()) * np.sqrt(4000) < 4.5
    assert abs(standard.std() - 1) * np.sqrt(8000) < 4.5


def test_threads_of_a_user_are_left_out_of_the_joint_distribution() -> None:
    """ln p(threads of u | the others) for u with a known coefficient is a quadratic in it."""
    rng, prior = np.random.default_rng(8), prior_of(False)
    participation = rng.integers(0, 2, (9, N_USERS)) * rng.uniform(0.5, 1.5, (9, N_USERS))
    participation[:, 5] = 0.0
    outcome = rng.standard_normal(9)
    behavior = dv.SharedOutcome(participation, outcome, rng.standard_normal((9, 1)))
    constant, linear, precision = behavior.left_out().evidence(prior, NOISE)
    units = behavior.coefficient_units()
    slopes = behavior.coefficient_design @ units.factor
    for u in range(N_USERS):
        others, inside = np.arange(N_USERS) != u, participation[:, u] > 0
        spread = participation[:, others] / prior.precisions[others, 0, 0] @ participation[:, others].T
        joint = spread + slopes @ slopes.T + np.eye(9) / NOISE
        mean = participation[:, others] @ prior.means[others, 0] + behavior.coefficient_design @ units.mean
        for f in (-1.0, 0.5):
            whole = multivariate_normal(mean + f * participation[:, u], joint).logpdf(outcome)
            rest = ~inside
            without = multivariate_normal(mean[rest], joint[np.ix_(rest, rest)]).logpdf(outcome[rest]) if rest.any() else 0.0
            assert constant[u] + linear[u] * f - 0.5 * precision[u] * f**2 == pytest.approx(whole - without, abs=1e-8)


def test_a_known_user_as_a_new_one() -> None:
    rng = np.random.default_rng(9)
    participation = rng.integers(0, 2, (9, N_USERS)).astype(float)
    behavior = dv.SharedOutcome(participation, rng.standard_normal(9), users=list("abcdef"))
    new = behavior.as_new(2)
    inside = participation[:, 2] > 0
    np.testing.assert_array_equal(new.participation.toarray()[:, 6], 1.0)
    np.testing.assert_array_equal(new.participation.toarray()[:, 2], 0.0)
    np.testing.assert_array_equal(new.participation.toarray()[:, :2], participation[inside, :2])
    np.testing.assert_array_equal(new.outcome, behavior.outcome[inside])
    panel = dv.UserRegression([0, 1, 1, 2], np.ones((4, 1)), [1.0, 2.0, 3.0, 4.0]).as_new(1)
    assert len(panel) == 1
    assert panel.outcome.tolist() == [2.0, 3.0]
