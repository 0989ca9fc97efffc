"""The noise that the restricted likelihood of one cluster estimates, σ_0² of shared outcomes by
default."""

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import null_space
from scipy.special import expit
from scipy.stats import chi2

import dualview as dv
from dualview.behaviors.likelihoods import restricted as threads_noise


def forum(n_threads=60, n_users=40, seed=0, spread=50.0, noise_variance=4.0):
    """Threads among users with coefficients N(50, spread²) in which everybody takes part with
    probability one half."""
    rng = np.random.default_rng(seed)
    takes_part = rng.random((n_threads, n_users)) < 0.5
    participation = takes_part / np.maximum(takes_part.sum(axis=1, keepdims=True), 1)
    latent = 50.0 + spread * rng.standard_normal(n_users)
    return participation, participation @ latent + np.sqrt(noise_variance) * rng.standard_normal(
        n_threads
    )


def by_a_grid(participation, outcome, outside):
    """The median from covariances of contrasts that are free of the fixed columns, on a grid of
    both unknowns."""
    contrasts = null_space(np.column_stack([participation.sum(axis=1), outside]).T).T
    y, design = contrasts @ outcome, contrasts @ participation
    n, of_users = len(y), design @ design.T
    logits = np.linspace(-14.0, 14.0, 1401)
    log_variances = np.linspace(-8.0, 8.0, 1601) + np.log(y @ y / n)
    density = np.zeros(len(log_variances))
    heights = []
    for logit in logits:
        covariance = np.eye(n) + of_users * np.exp(logit) * n / np.trace(of_users)
        misfit, log_determinant = (
            y @ np.linalg.solve(covariance, y),
            np.linalg.slogdet(covariance)[1],
        )
        log_density = -0.5 * (n * log_variances + log_determinant + misfit * np.exp(-log_variances))
        heights.append(log_density + np.log(expit(logit) * expit(-logit)))
    joint = np.exp(np.array(heights) - np.max(heights))
    density = joint.sum(axis=0)
    shares = np.cumsum(density) - 0.5 * density
    return float(np.exp(np.interp(0.5 * density.sum(), shares, log_variances)))


@pytest.mark.parametrize(("n_threads", "n_users"), [(60, 10), (30, 20), (12, 25)])
@pytest.mark.parametrize("intercept", [False, True])
def test_it_is_the_median_of_a_grid(n_threads, n_users, intercept):
    participation, outcome = forum(n_threads, n_users)
    if intercept:
        participation = (participation > 0).astype(float)
    covariates = np.random.default_rng(1).standard_normal((n_threads, 2))
    behavior = dv.SharedOutcome(participation, outcome, covariates, intercept=intercept)
    expected = by_a_grid(participation, outcome, behavior.coefficient_design)
    assert behavior.noise_constant == pytest.approx(expected, rel=2e-3)


def test_without_users_it_is_that_of_a_mean():
    """Users who are all in every thread bring nothing beside their mean: Q/χ² with T − 1 degrees of
    freedom is left."""
    outcome = np.random.default_rng(2).normal(3.0, 2.0, 30)
    found = dv.SharedOutcome(np.ones((30, 4)), outcome).noise_constant
    assert found == pytest.approx(29 * outcome.var(ddof=1) / chi2.median(29), rel=1e-6)


@pytest.mark.parametrize("shape", [(60, 40), (20, 50)])
def test_units_do_not_matter(shape):
    participation, outcome = forum(*shape)
    covariates = np.random.default_rng(1).standard_normal((shape[0], 1))
    found = dv.SharedOutcome(participation, outcome, covariates, intercept=True).noise_constant
    order = np.random.default_rng(3).permutation(shape[0])
    for other in (
        dv.SharedOutcome(participation, outcome + 1e4, covariates, intercept=True),
        dv.SharedOutcome(
            participation, outcome - 7.0 * covariates[:, 0], 3.0 * covariates + 5.0, intercept=True
        ),
        dv.SharedOutcome(1e3 * participation, outcome, covariates, intercept=True),
        dv.SharedOutcome(sparse.csr_array(participation), outcome, covariates, intercept=True),
        dv.SharedOutcome(participation[order], outcome[order], covariates[order], intercept=True),
        dv.SharedOutcome(participation[:, ::-1], outcome, covariates, intercept=True),
    ):
        assert other.noise_constant == pytest.approx(found, rel=1e-6)
    scaled = dv.SharedOutcome(participation, -300.0 * outcome, covariates, intercept=True)
    assert scaled.noise_constant == pytest.approx(9e4 * found, rel=1e-6)


def test_it_is_near_the_noise_where_the_variance_of_outcomes_is_far_above():
    behaviors = [dv.SharedOutcome(*forum(seed=seed)) for seed in range(20)]
    logs = np.log([behavior.noise_constant / 4.0 for behavior in behaviors])
    assert abs(logs.mean()) < 4.5 * logs.std(ddof=1) / np.sqrt(20)
    assert abs(logs.mean()) < 0.5
    assert min(np.var(behavior.outcome, ddof=1) for behavior in behaviors) > 20.0


@pytest.mark.parametrize("seed", range(4))
def test_users_who_can_fit_everything_leave_it_positive(seed):
    """The mode of the likelihood may be 0 there; the median is a fair part of the variance."""
    behavior = dv.SharedOutcome(*forum(20, 50, seed=seed))
    assert 0.02 < behavior.noise_constant / np.var(behavior.outcome, ddof=1) < 1.0


@pytest.mark.parametrize(("n_threads", "n_users"), [(700, 200), (150, 200)])
def test_lanczos_agrees_with_eigenvalues(monkeypatch, n_threads, n_users):
    rng = np.random.default_rng(4)
    activity = 1.0 / np.arange(1, n_users + 1)
    users = rng.choice(n_users, 4 * n_threads, p=activity / activity.sum())
    cells = sparse.csr_array(
        (np.ones(4 * n_threads), (np.repeat(np.arange(n_threads), 4), users)), (n_threads, n_users)
    )
    outcome = cells @ rng.normal(5.0, 1.0, n_users) + 2.0 * rng.standard_normal(n_threads)
    exact = dv.SharedOutcome(cells, outcome, intercept=True).noise_constant
    monkeypatch.setattr(threads_noise, "_MOST_EXACT", 10)
    found = dv.SharedOutcome(cells, outcome, intercept=True).noise_constant
    assert found != exact
    assert found == pytest.approx(exact, rel=0.1)
    assert dv.SharedOutcome(cells, outcome, intercept=True).noise_constant == found


def test_groups_are_taken_out_with_their_degrees_of_freedom():
    logs = []
    for seed in range(10):
        participation, outcome = forum(120, 30, seed=seed)
        rng = np.random.default_rng([seed, 1])
        sections = rng.integers(0, 30, 120)
        outcome = outcome + 20.0 * rng.standard_normal(30)[sections]
        logs.append(
            np.log(
                dv.SharedOutcome(
                    participation, outcome, groups={"section": sections}
                ).noise_constant
                / 4.0
            )
        )
    assert abs(np.mean(logs)) < 0.5


def test_where_nothing_is_left_it_is_the_variance_of_outcomes():
    two = dv.SharedOutcome(np.array([[1.0, 0.0], [1.0, 1.0]]), [1.0, 4.0], intercept=True)
    assert two.noise_constant == pytest.approx(4.5)
    by_total = dv.SharedOutcome(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), [2.0, 4.0, 2.0])
    assert by_total.noise_constant == pytest.approx(np.var([2.0, 4.0, 2.0], ddof=1))


def test_the_papers_is_there_by_name():
    participation, outcome = forum()
    plain, paper = (
        dv.SharedOutcome(participation, outcome, noise_variance=given) for given in (None, "paper")
    )
    assert paper.noise_constant == np.var(outcome, ddof=1)
    assert paper.prepare(None)[1].noise_variance == paper.noise_constant
    assert paper.take(np.arange(30)).noise_constant == np.var(outcome[:30], ddof=1)
    assert plain.take(np.arange(30)).noise_constant != plain.noise_constant
    assert plain.fingerprint()["noise_variance"] == "likelihood"
    assert (
        paper.fingerprint()["noise_variance"] is None
    )  # as in manifests of versions that had no other


def test_a_description_has_the_number():
    behavior = dv.SharedOutcome(*forum())
    told = behavior.described() | {"users": None}
    assert told["noise_variance"] == behavior.noise_constant
    assert dv.SharedOutcome.from_description(told).noise_variance == behavior.noise_constant


def test_other_columns_have_another_constant():
    """A copy with other users does not keep the constant of the first."""
    participation, outcome = forum()
    behavior = dv.SharedOutcome(participation, outcome)
    first = behavior.noise_constant
    both = behavior.extended(dv.SharedOutcome(participation[:20], outcome[:20] + 30.0), 0)
    assert both.noise_constant > first
