"""(C17) and (C18): each is the joint density up to a constant. The joint is written from (M15), by
SciPy's densities."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import checks
from dualview.numerics.streams import stream_of
from dualview.views.nominal import conditionals, kind
from dualview.views.nominal.state import NominalState
from dualview.views.nominal.view import NominalView
from yardsticks import N_DRAWS, check_counts, check_law

SHARES = (0.5, 0.3, 0.2), (0.6, 0.4)
VIEW = NominalView(SHARES)
Z = np.array([0, 1, 0, 0, 1, 1, 0])
CODES = np.array([[0, 1], [2, -1], [0, 0], [1, 0], [-1, -1], [2, 1], [0, 1]], dtype=float)
LEVELS = np.array([[3.0, 1.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 0.0, 1.0]])


def state(rng):
    return VIEW.draw_prior(rng, 2)


def log_joint(logs, concentrations):
    """ln p(levels, θ, γ | z), from (M15): L/γ ~ G(1, 1), so that γ is inverse gamma with shape ½
    and scale L/2."""
    total = 0.0
    for j, (shares, first) in enumerate(zip(SHARES, VIEW.starts[:-1], strict=True)):
        total += stats.invgamma.logpdf(concentrations[j], 0.5, scale=0.5 * len(shares))
        theta = np.exp(logs[:, first : first + len(shares)])
        for own in theta / theta.sum(axis=1, keepdims=True):
            total += stats.dirichlet.logpdf(own, concentrations[j] * np.array(shares))
        total += sum(
            np.log(theta[k, int(code)]) for k, code in zip(Z, CODES[:, j], strict=True) if code >= 0
        )
    return float(total)


def test_the_density_of_a_view_is_the_joint():
    rng = np.random.default_rng(4)
    states = [NominalState(state(rng).logs, rng.gamma(2.0, size=2) + 0.2) for _ in range(12)]
    joints = np.array([log_joint(*own) for own in states])
    assert np.ptp(joints) > 1.0
    assert np.ptp(joints - [VIEW.log_joint(own, CODES, Z) for own in states]) < 1e-9


def test_draws_from_the_prior():
    rng = np.random.default_rng(5)
    states = [state(rng) for _ in range(N_DRAWS)]
    for j, shares in enumerate(SHARES):
        gamma, first = np.array([own.concentrations[j] for own in states]), VIEW.starts[j]
        check_law(len(shares) / gamma, stats.chi2(1).cdf)
        theta = np.exp([own.logs[1, first] for own in states])
        check_law(
            stats.beta.cdf(theta, gamma * shares[0], gamma * (1.0 - shares[0])), stats.uniform.cdf
        )


def test_a_choice_sees_the_probabilities_of_the_levels():
    """Of a component by its θ; of an auxiliary one, whose θ is integrated out, by g."""
    own, table = state(np.random.default_rng(6)), np.zeros((2, len(Z)))
    record = VIEW.record(own, CODES, np.ascontiguousarray(CODES.T))._replace(marginal=True)
    kind.retire(1, record)
    for k, flat in enumerate((np.exp(own.logs[0]), VIEW.flat)):
        kind.score(table, 0, 0, len(Z), k, record)
        seen = [
            [
                flat[first + int(code)]
                for first, code in zip(VIEW.starts, row, strict=False)
                if code >= 0
            ]
            for row in CODES
        ]
        np.testing.assert_allclose(table[k], [np.log(levels).sum() for levels in seen])


def test_levels_are_drawn_by_the_shares():
    own, n = state(np.random.default_rng(7)), 4000
    codes = VIEW.simulate(np.random.default_rng(8), own, np.ones(n, dtype=np.int64))
    for j, first in enumerate(VIEW.starts[:-1]):
        theta = np.exp(own.logs[1, first : VIEW.starts[j + 1]])
        check_counts(
            np.bincount(codes[:, j].astype(int), minlength=len(theta)), theta / theta.sum()
        )


def test_missing_cells_are_in_no_count():
    found = conditionals.count_levels(
        Z, 0, len(Z), np.ascontiguousarray(CODES.T).astype(np.int64), VIEW.starts, 2
    )
    np.testing.assert_array_equal(found, LEVELS)


def test_shares_by_ratio():
    rng = np.random.default_rng(0)
    start = state(rng)
    differences = []
    for _ in range(6):
        theta = rng.dirichlet(np.ones(3))
        logs = start.logs.copy()
        logs[0, :3] = np.log(theta)
        joint = log_joint(logs, start.concentrations)
        law = stats.dirichlet(start.concentrations[0] * np.array(SHARES[0]) + LEVELS[0, :3])
        differences.append(joint - law.logpdf(theta))
    assert np.ptp(differences) < 1e-9


def concentration_misfit(log_density):
    """How much ln ∫ joint dθ less a log density of ln γ varies; by the identity joint(θ) / p(θ | γ,
    levels), at any θ."""
    rng = np.random.default_rng(1)
    start = state(rng)
    differences = []
    for value in np.linspace(-1.0, 3.0, 7):
        concentrations = np.array([np.exp(value), start.concentrations[1]])
        joint = log_joint(start.logs, concentrations)
        for k in range(2):
            law = stats.dirichlet(np.exp(value) * np.array(SHARES[0]) + LEVELS[k, :3])
            joint -= law.logpdf(np.exp(start.logs[k, :3]) / np.exp(start.logs[k, :3]).sum())
        column = conditionals._Column(LEVELS[:, :3], np.array(SHARES[0]))
        differences.append(joint + value - log_density(value, column))
    return np.ptp(differences)


def test_concentration_by_ratio_with_shares_integrated_out():
    assert concentration_misfit(conditionals.log_concentration_density) < 1e-9


def test_a_concentration_without_the_number_of_users_is_rejected():
    """The joint test of five users has no power against it: their levels say too little about γ."""
    old, new = "total - log_rising(concentration, n) if n > 0.0 else total", "total - 0.5 * n"
    wrong = checks.mutate(conditionals.log_evidence, old, new)
    assert (
        concentration_misfit(
            checks.mutate(conditionals.log_concentration_density, log_evidence=wrong)
        )
        > 0.5
    )


def test_a_prior_without_the_number_of_levels_is_rejected():
    """The joint density that the package has is of the same prior, and would be wrong with it."""
    wrong = checks.mutate(conditionals.log_prior, "0.5 * n_levels", "0.5")
    assert (
        concentration_misfit(checks.mutate(conditionals.log_concentration_density, log_prior=wrong))
        > 0.5
    )


def test_evidence_is_that_of_a_dirichlet_multinomial():
    shares, levels = np.array([0.2, 0.5, 0.3]), np.array([2.0, 0.0, 5.0])
    for gamma in (0.3, 4.0, 1e7):
        weights = gamma * shares
        expected = (
            gammaln(gamma)
            - gammaln(gamma + 7)
            + (gammaln(weights + levels) - gammaln(weights)).sum()
        )
        assert conditionals.log_evidence(levels, shares, gamma) == pytest.approx(expected, rel=1e-7)


def test_drawn_shares_have_the_moments_of_their_law():
    rng, n = stream_of(np.random.default_rng(2)), 4000
    concentrations, draws = np.array([2.0, 0.05]), np.empty((n, 5))
    for i in range(n):
        conditionals.draw_shares(rng, LEVELS[0], VIEW.starts, VIEW.flat, concentrations, draws[i])
    assert np.isfinite(draws).all()
    theta = np.exp(draws)
    for part, gamma in ((slice(0, 3), 2.0), (slice(3, 5), 0.05)):
        law = stats.dirichlet(gamma * VIEW.flat[part] + LEVELS[0, part])
        np.testing.assert_allclose(theta[:, part].sum(axis=1), 1.0)
        error = np.sqrt(law.var() / n)
        assert (np.abs(theta[:, part].mean(axis=0) - law.mean()) < 5.0 * error).all()


def adopted_scores(kernel):
    """|z| of the mean shares of a cluster that the first user has opened, and the fourth, whose
    first level is missing."""
    codes, scores = np.array([[0, 1, 2, -1], [1, 0, 0, 1]]), []
    for u in (0, 3):
        rng, logs, theta = (
            stream_of(np.random.default_rng(u)),
            np.zeros((2, 5)),
            np.empty((2000, 5)),
        )
        view = kind.Nominal(codes, VIEW.starts, VIEW.flat, logs, np.array([2.0, 1.5]), True)
        for row in theta:
            kernel(rng, u, 1, view)
            row[:] = np.exp(logs[1])
        assert not logs[0].any()
        for j, part in enumerate((slice(0, 3), slice(3, 5))):
            own = np.eye(part.stop - part.start)[codes[j, u]] if codes[j, u] >= 0 else 0.0
            law = stats.dirichlet(view.concentrations[j] * VIEW.flat[part] + own)
            scores.append(
                np.abs(theta[:, part].mean(axis=0) - law.mean()) / np.sqrt(law.var() / len(theta))
            )
    return np.concatenate(scores)


def test_whoever_opens_a_cluster_counts_in_its_shares():
    assert adopted_scores(kind.adopt).max() < checks.ACCEPT


def test_shares_that_do_not_count_who_opens_the_cluster_are_rejected():
    """The joint test has hardly any power against it: the shares are redrawn before the next
    sweep."""
    old, new = (
        "counts[view.starts[j] + view.codes[j, u]] = 1.0",
        "counts[view.starts[j] + view.codes[j, u]] = 0.0",
    )
    assert adopted_scores(checks.mutate(kind.adopt, old, new)).max() > checks.REJECT


def test_shares_of_a_tiny_concentration_stay_finite():
    """A Dirichlet law with parameters of 1e-4 has draws below all numbers; their logarithms are
    none of them."""
    view = NominalView(((0.5, 0.5),))
    logs, rng = np.empty(2), stream_of(np.random.default_rng(3))
    for _ in range(50):
        conditionals.draw_shares(rng, np.zeros(2), view.starts, view.flat, np.array([2e-4]), logs)
        assert np.isfinite(logs).all()
        assert checks.worst({"sum": float(abs(np.exp(logs).sum() - 1.0))})[1] < 1e-9
