"""Observations left out one at a time: against the joint normal distribution, brute force and
refits by hand."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import block_diag
from scipy.special import expit
from scipy.stats import multivariate_normal, norm

import dualview as dv
from dualview.behaviors import leave_one_out
from dualview.behaviors.families.gaussian import NormalOutcome
from dualview.behaviors.families.logit import BinaryOutcome
from dualview.behaviors.records import LatentPrior

N_USERS = 6
NOISE = 1.7


def prior_of(pooled: bool, q: int = 1, seed: int = 0) -> LatentPrior:
    rng = np.random.default_rng(seed)
    z = np.array([0, 1, 2, 0, 1, 0])
    roots = rng.standard_normal((4, q, q)) + 2 * np.eye(q)
    precisions = roots @ np.swapaxes(roots, -1, -2)
    means = rng.standard_normal((4, q))
    return LatentPrior(
        z,
        means[:3],
        None if pooled else precisions[:3],
        means[3],
        precisions[3],
        rng.standard_normal((N_USERS, q)),
    )


def law_of_vectors(prior: LatentPrior, given_means: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Mean (U q,) and covariance of all users' vectors end to end; given the means of clusters, or
    without them."""
    q = prior.means.shape[1]
    means = (
        prior.means[prior.z] if given_means else np.tile(prior.base_mean, (N_USERS, 1))
    ) + prior.shift
    covariance = np.zeros((N_USERS, q, N_USERS, q))
    for u, v in np.ndindex(N_USERS, N_USERS):
        if prior.z[u] == prior.z[v] and not given_means:
            covariance[u, :, v] += np.linalg.inv(prior.base_precision)
        if u == v and prior.precisions is not None:
            covariance[u, :, u] += np.linalg.inv(prior.precisions[prior.z[u]])
    return means.ravel(), covariance.reshape(N_USERS * q, N_USERS * q)


def left_out_by_hand(
    design: np.ndarray, law: tuple[np.ndarray, np.ndarray], y: np.ndarray, noise: Any
) -> np.ndarray:
    """ln p(y_t | y without t) of y = design · vector + noise, from the joint distribution."""
    joint = design @ law[1] @ design.T + np.diag(np.broadcast_to(1 / np.asarray(noise), len(y)))
    mean = design @ law[0]
    result = np.empty(len(y))
    for t in range(len(y)):
        rest = np.arange(len(y)) != t
        without = multivariate_normal(mean[rest], joint[np.ix_(rest, rest)]).logpdf(y[rest])
        result[t] = multivariate_normal(mean, joint).logpdf(y) - without
    return result


def extended(
    law: tuple[np.ndarray, np.ndarray], mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The law of a vector with an independent one behind it."""
    return np.concatenate([law[0], mean]), block_diag(law[1], covariance)


@pytest.mark.parametrize("n_threads", [4, 9], ids=["fewer threads than users", "more"])
@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("covariates", [0, 2])
def test_threads_are_left_out_of_the_joint_distribution(
    n_threads: int, pooled: bool, covariates: int
) -> None:
    rng, prior = np.random.default_rng(1), prior_of(pooled)
    participation, outcome = (
        rng.integers(0, 2, (n_threads, N_USERS)).astype(float),
        3 * rng.standard_normal(n_threads),
    )
    design, law = participation, law_of_vectors(prior)
    options: dict[str, Any] = {}
    if covariates:
        root = rng.standard_normal((2, 2)) + 2 * np.eye(2)
        options["covariates"] = rng.standard_normal((n_threads, 2))
        options["coefficient_prior"] = dv.GaussianPrior([0.5, -1.0], root @ root.T)
        design, law = (
            np.hstack([design, options["covariates"]]),
            extended(law, np.array([0.5, -1.0]), root @ root.T),
        )
    laws = [
        dv.SharedOutcome(matrix, outcome, **options)
        .left_out()
        .predictive(prior, {"noise_precision": NOISE}, np.zeros((N_USERS, 1)))
        for matrix in (participation, sparse.csr_array(participation))
    ]
    wanted = left_out_by_hand(design, law, outcome, NOISE)
    for found in laws:
        np.testing.assert_allclose(found.log_density(outcome), wanted, rtol=1e-9)
        np.testing.assert_allclose(
            norm.logpdf(found.standardized(rng, outcome)) - np.log(found.std), wanted, rtol=1e-9
        )


def test_large_forums_integrate_the_participants_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the vectors of everybody else and the means of clusters, which are then known
    numbers."""
    monkeypatch.setattr(leave_one_out, "MOST_WHOLE", 1)
    rng, prior = np.random.default_rng(2), prior_of(False)
    participation, outcome = (
        rng.integers(0, 2, (9, N_USERS)) * rng.uniform(0.5, 1.5, (9, N_USERS)),
        rng.standard_normal(9),
    )
    latent = rng.standard_normal((N_USERS, 1))
    covariates, slopes = rng.standard_normal((9, 1)), np.array([0.7])
    behavior = dv.SharedOutcome(participation, outcome, covariates)
    found = (
        behavior.left_out()
        .predictive(prior, {"noise_precision": NOISE, "coefficients": slopes}, latent)
        .log_density(outcome)
    )
    means, covariance = law_of_vectors(prior, given_means=True)
    for t in range(9):
        inside = participation[t] > 0
        law = means[inside], covariance[np.ix_(inside, inside)]
        known = participation[:, ~inside] @ latent[~inside, 0] + covariates @ slopes
        wanted = left_out_by_hand(participation[:, inside], law, outcome - known, NOISE)[t]
        assert found[t] == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("by_user", [False, True], ids=["shared noise", "noise by user"])
def test_observations_of_users_are_left_out_of_the_joint_distribution(
    pooled: bool, by_user: bool
) -> None:
    rng, prior = np.random.default_rng(3), prior_of(pooled, q=2)
    user, design = rng.integers(0, N_USERS, 14), rng.standard_normal((14, 2))
    outcome = rng.standard_normal(14)
    noise = rng.uniform(0.5, 2.0, N_USERS) if by_user else np.float64(NOISE)
    behavior = dv.UserRegression(user, design, outcome, n_users=N_USERS)
    wide = np.zeros((14, N_USERS, 2))
    wide[np.arange(14), user] = design
    found = (
        behavior.left_out()
        .predictive(prior, {"noise_precision": noise}, np.zeros((N_USERS, 2)))
        .log_density(outcome)
    )
    precision = noise[user] if by_user else noise
    wanted = left_out_by_hand(wide.reshape(14, -1), law_of_vectors(prior), outcome, precision)
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


def marginal(behavior: Any, prior: LatentPrior, rows: np.ndarray) -> float:
    """ln p(some answers), by a fine grid over each group's vector of one or two numbers."""
    total, q = 0.0, prior.means.shape[1]
    axis = np.linspace(-12, 12, 2401 if q == 1 else 241)
    grid = np.stack(np.meshgrid(*[axis] * q, indexing="ij"), axis=-1).reshape(-1, q)
    for j in range(len(prior.means) if prior.precisions is None else N_USERS):
        if prior.precisions is None:
            inside, law = (
                prior.z[behavior.user[rows]] == j,
                (prior.base_mean, np.linalg.inv(prior.base_precision)),
            )
        else:
            inside, law = (
                behavior.user[rows] == j,
                (prior.means[prior.z[j]], np.linalg.inv(prior.precisions[prior.z[j]])),
            )
        density = multivariate_normal(*law).pdf(grid)
        chance = np.ones(len(grid))
        for i in rows[inside]:
            odds = (grid + prior.shift[behavior.user[i]]) @ behavior.design[i]
            chance *= expit((2 * behavior.outcome[i] - 1) * odds)
        total += np.log((density * chance).sum() * (axis[1] - axis[0]) ** q)
    return total


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("pooled", [False, True])
def test_answers_are_left_out_of_the_augmented_answers(q: int, pooled: bool) -> None:
    """1/p(answer | the others, their augmentation), averaged over draws of vectors and of
    augmentations, is 1/p(answer | the others), which a fine grid gives."""
    rng, prior = np.random.default_rng(4), prior_of(pooled, q)
    known = prior._replace(base_mean=np.zeros(q), means=np.zeros_like(prior.means))
    if not pooled:  # the grid is given the means of clusters
        known = known._replace(base_precision=1e12 * np.eye(q))
    n, n_draws = 12, 400
    behavior = dv.BinaryOutcomes(
        rng.integers(0, N_USERS, n),
        rng.standard_normal((n, q)),
        rng.random(n) < 0.5,
        n_users=N_USERS,
    )
    left_out, everything = behavior.left_out(), np.arange(n)
    whole = marginal(behavior, known, everything)
    wanted = [whole - marginal(behavior, known, everything[everything != i]) for i in range(n)]
    found = []
    for latent in drawn_given(rng, behavior, known, n_draws):
        predictive = left_out.predictive(known, {}, latent)
        found.append(predictive.log_density(behavior.outcome))
        np.testing.assert_allclose(
            np.exp(found[-1]) + np.exp(predictive.log_density(1 - behavior.outcome)), 1.0
        )
    inverse = np.exp(-np.array(found))
    error = inverse.std(axis=0) / np.sqrt(n_draws)
    away = np.abs(inverse.mean(axis=0) - np.exp(-np.array(wanted)))
    assert (away < 4.5 * error + 1e-9).all()  # a user's only answer has no error but rounding
    assert np.median(error / inverse.mean(axis=0)) < 0.01


def drawn_given(
    rng: np.random.Generator, behavior: Any, prior: LatentPrior, n: int
) -> list[np.ndarray]:
    """Independent draws of all vectors (U, q) given all answers, from a grid of each group's."""
    q = prior.means.shape[1]
    axis = np.linspace(-9, 9, 1801 if q == 1 else 181)
    grid = np.stack(np.meshgrid(*[axis] * q, indexing="ij"), axis=-1).reshape(-1, q)
    vectors = np.empty((n, N_USERS, q))
    for j in range(len(prior.means) if prior.precisions is None else N_USERS):
        users = np.flatnonzero(prior.z == j) if prior.precisions is None else np.array([j])
        precision = (
            prior.base_precision if prior.precisions is None else prior.precisions[prior.z[j]]
        )
        log_density = -0.5 * np.einsum("gq,qr,gr->g", grid, precision, grid)
        for i in np.flatnonzero(np.isin(behavior.user, users)):
            odds = (grid + prior.shift[behavior.user[i]]) @ behavior.design[i]
            log_density += np.log(expit((2 * behavior.outcome[i] - 1) * odds))
        weights = np.exp(log_density - log_density.max())
        drawn = grid[rng.choice(len(grid), n, p=weights / weights.sum())]
        vectors[:, users] = drawn[:, None] + prior.shift[users]
    return list(vectors)


def test_answers_all_alike_are_left_out() -> None:
    """A user with very many answers, all yes, under a wide prior."""
    behavior = dv.BinaryOutcomes(
        np.zeros(400, dtype=int), np.ones((400, 1)), np.ones(400), n_users=2
    )
    far, wide = np.full((1, 1), -30.0), np.full((1, 1, 1), 1e-4)
    prior = LatentPrior(np.zeros(2, dtype=np.int64), far, wide, far[0], wide[0], np.zeros((2, 1)))
    predictive = behavior.left_out().predictive(prior, {}, np.array([[40.0], [0.0]]))
    found = predictive.log_density(behavior.outcome)
    assert np.all(np.isfinite(found))
    assert found.min() > -0.02


def test_randomised_levels_of_answers_are_uniform() -> None:
    rng = np.random.default_rng(6)
    locations, sds = rng.normal(0.0, 2.0, (2, 4000))
    values = (rng.random(4000) < expit(locations + sds * rng.standard_normal(4000))).astype(float)
    predictive = leave_one_out.about(BinaryOutcome(), locations, sds**2)
    standard = predictive.standardized(rng, values)
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
    all_means, covariance = law_of_vectors(prior, given_means=True)
    for u in range(N_USERS):
        others, inside = np.arange(N_USERS) != u, participation[:, u] > 0
        spread = (
            participation[:, others]
            @ covariance[np.ix_(others, others)]
            @ participation[:, others].T
        )
        joint = spread + slopes @ slopes.T + np.eye(9) / NOISE
        mean = (
            participation[:, others] @ all_means[others] + behavior.coefficient_design @ units.mean
        )
        for f in (-1.0, 0.5):
            whole = multivariate_normal(mean + f * participation[:, u], joint).logpdf(outcome)
            rest = ~inside
            without = (
                multivariate_normal(mean[rest], joint[np.ix_(rest, rest)]).logpdf(outcome[rest])
                if rest.any()
                else 0.0
            )
            assert constant[u] + linear[u] * f - 0.5 * precision[u] * f**2 == pytest.approx(
                whole - without, abs=1e-8
            )


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


@pytest.mark.parametrize("pooled", [False, True])
def test_an_observation_that_says_all_is_left_out_by_what_the_others_say(
    pooled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has so much of what is known of its location that a difference would have no digits."""
    rng, prior = np.random.default_rng(4), prior_of(pooled, 2)
    user, design = np.repeat(np.arange(N_USERS), 3), rng.standard_normal((3 * N_USERS, 2))
    response, precision = rng.standard_normal(len(user)), rng.uniform(0.1, 1.0, len(user))
    precision[[4, 11]] = 1e15, 1e11

    class Sure(NormalOutcome):
        def augment(self, rng: Any, values: Any, locations: Any) -> Any:  # noqa: ARG002
            return values - locations, precision

    found: list[Any] = []
    monkeypatch.setattr(leave_one_out, "about", lambda _, *told: found.extend(told))
    nothing = np.zeros((1, len(user)))
    parts = user, design, response, lambda _: nothing, lambda _: Sure([1.0])
    leave_one_out.UsersLeaveOneOut(*parts).predictive(prior, {}, prior.shift)
    locations, variances = found
    mean, covariance = law_of_vectors(prior)
    whole = np.zeros((len(user), N_USERS * 2))
    for i, u in enumerate(user):
        whole[i, 2 * u : 2 * u + 2] = design[i]
    for i in (0, 4, 11):
        rest = np.arange(len(user)) != i
        joint = whole[rest] @ covariance @ whole[rest].T + np.diag(1.0 / precision[rest])
        gain = np.linalg.solve(joint, whole[rest] @ covariance @ whole[i])
        away = response[rest] - whole[rest] @ mean
        assert locations[i] == pytest.approx(whole[i] @ mean + gain @ away, rel=1e-4)
        wanted = whole[i] @ covariance @ whole[i] - gain @ whole[rest] @ covariance @ whole[i]
        assert variances[i] == pytest.approx(wanted, rel=1e-4)
