"""Yes-or-no answers and ordered levels inside a step: their augmentation, and the coefficients
drawn given it.

Joint tests of both are slow; here each piece is held against the model by itself.
"""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import log_expit

from dualview.behaviors.families.base import Given
from dualview.behaviors.families.gaussian import GaussianFamily
from dualview.behaviors.families.noise import NoisePrior, SharedNoise
from dualview.behaviors.families.ordinal import CutPrior
from dualview.behaviors.families.poisson import PoissonFamily
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.records import Panel, Params, Prior
from rows import logit_rows, ordinal_rows
from yardsticks import check_mean

N_USERS, N, Q, N_ITEMS, N_DRAWS = 4, 9, 2, 3, 3000
RNG = np.random.default_rng(6)
USER, DESIGN = np.sort(RNG.integers(0, N_USERS, N)), RNG.normal(size=(N, Q))
ITEMS, CONSTANT = RNG.normal(size=(N, N_ITEMS)), RNG.normal(size=N)
LATENT, APPEAL, CUTS = (
    RNG.normal(size=(N_USERS, Q)),
    RNG.normal(size=N_ITEMS),
    np.array([-1.0, 0.4]),
)
YES, LEVEL = (RNG.random(N) < 0.5).astype(float), RNG.integers(0, 3, N).astype(float)
PRIOR = Prior(np.zeros(N_USERS, dtype=np.int64), np.zeros((1, Q)), np.eye(Q)[None])
ETA = (DESIGN * LATENT[USER]).sum(axis=1) + CONSTANT


def answers() -> UserRows:
    return logit_rows(Panel.of(USER, DESIGN, YES, N_USERS), sparse.csr_array(ITEMS), CONSTANT)


def levels() -> UserRows:
    return ordinal_rows(Panel.of(USER, DESIGN, LEVEL, N_USERS), CONSTANT, CutPrior(2))


def test_answers_are_completed_by_the_polya_gamma_identity() -> None:
    """σ(±η) ∝ E exp(±η/2 − ω η²/2) over ω ~ PG(1, 0); so ω ~ PG(1, η), and an answer is the number
    ±1/(2ω) of precision ω."""
    rng, odds, signs = np.random.default_rng(1), ETA + ITEMS @ APPEAL, 2.0 * YES - 1.0
    likelihood = answers()
    terms = [likelihood.terms(rng, LATENT, {"coefficients": APPEAL}) for _ in range(N_DRAWS)]
    check_mean([own.precision for own in terms], np.tanh(odds / 2.0) / (2.0 * odds))
    for own in terms[:5]:
        np.testing.assert_allclose(own.precision * (own.residual + odds), 0.5 * signs)
        np.testing.assert_array_equal(own.loads, DESIGN)


def test_levels_are_completed_by_two_answers() -> None:
    """Above the cut point below the level, and not above the one over it; nothing where there is
    none."""
    rng, likelihood = np.random.default_rng(2), levels()
    terms = [likelihood.terms(rng, LATENT, {"cut_points": CUTS}) for _ in range(N_DRAWS)]
    for i in range(N):
        asked = {int(LEVEL[i]) - 1: 1.0, int(LEVEL[i]): -1.0}
        asked = {cut: sign for cut, sign in asked.items() if 0 <= cut < len(CUTS)}
        odds = ETA[i] - CUTS[list(asked)]
        weights = np.tanh(odds / 2.0) / (2.0 * odds)
        precision = np.array([own.precision[i] for own in terms])
        linear = precision * np.array([own.residual[i] for own in terms])
        check_mean(precision, weights.sum())
        check_mean(linear, 0.5 * sum(asked.values()) - weights @ odds)
        if len(asked) == 1:
            np.testing.assert_allclose(linear + precision * odds, 0.5 * sum(asked.values()))


def test_coefficients_given_the_augmentation_have_the_law_of_the_joint() -> None:
    """e ~ N(0, I), and the numbers ±1/(2ω) have the means x'f + c'e + constant and precisions ω."""
    likelihood, rng = answers(), np.random.default_rng(3)
    terms = likelihood.terms(rng, LATENT, {"coefficients": APPEAL})
    numbers = (YES - 0.5) / terms.precision - ETA
    precision = np.eye(N_ITEMS) + ITEMS.T @ (terms.precision[:, None] * ITEMS)
    mean = np.linalg.solve(precision, ITEMS.T @ (terms.precision * numbers))
    draws = [
        likelihood.redraw(rng, LATENT, {"coefficients": APPEAL}, terms, PRIOR)[1]["coefficients"]
        for _ in range(N_DRAWS)
    ]
    away = np.array(draws) - mean
    check_mean(away, np.zeros(N_ITEMS))
    check_mean(away[:, :, None] * away[:, None, :], np.linalg.inv(precision))


@pytest.mark.parametrize("share", [-3.0, 0.0, 2.0])
def test_the_density_is_that_of_the_answers(share: float) -> None:
    odds = ETA + share * (ITEMS @ APPEAL)
    wanted = log_expit((2.0 * YES - 1.0) * odds).sum() - 0.5 * share**2 * APPEAL @ APPEAL
    assert answers().log_density(LATENT, {"coefficients": share * APPEAL}) == pytest.approx(wanted)


def test_new_answers_have_their_probabilities() -> None:
    rng, likelihood = np.random.default_rng(4), answers()
    drawn = [
        likelihood.simulate(rng, LATENT, {"coefficients": APPEAL}).panel.outcome
        for _ in range(N_DRAWS)
    ]
    check_mean(drawn, np.exp(log_expit(ETA + ITEMS @ APPEAL)))
    levelled = [
        levels().simulate(rng, LATENT, {"cut_points": CUTS}).panel.outcome for _ in range(N_DRAWS)
    ]
    check_mean(np.array(levelled) > 0, np.exp(log_expit(ETA - CUTS[0])))
    check_mean(np.array(levelled) > 1, np.exp(log_expit(ETA - CUTS[1])))


def test_coefficients_leave_no_stale_residuals_to_the_noise() -> None:
    """Of a family whose φ is redrawn given residuals: they are those of the fresh coefficients."""
    seen = []

    class Watched(GaussianFamily):
        def redraw(self, rng: np.random.Generator, given: Given) -> Params:
            seen.append(given)
            return super().redraw(rng, given)

    rng = np.random.default_rng(5)
    user, design, y = np.array([0, 0, 1, 1, 1]), np.ones((5, 1)), rng.standard_normal(5)
    covariates = sparse.csr_array(rng.standard_normal((5, 2)))
    family = Watched(SharedNoise(NoisePrior(1.0, 1.0)))
    likelihood = UserRows(Panel.of(user, design, y, 2), family, covariates=covariates)
    latent, params = likelihood.start(rng)
    assert likelihood.conjugate(params) is None
    terms = likelihood.terms(rng, latent, params)
    prior = Prior(np.zeros(2, dtype=np.int64), np.zeros((1, 1)), np.eye(1)[None])
    _, after = likelihood.redraw(rng, latent, params, terms, prior)
    assert np.abs(after["coefficients"]).min() > 0.0
    np.testing.assert_allclose(seen[0].terms.residual, y - seen[0].rows.eta)
    with pytest.raises(NotImplementedError, match="PoissonFamily cannot have covariates"):
        UserRows(
            Panel.of(user, design, np.ones(5), 2), PoissonFamily(), covariates=covariates
        )._coefficients(rng, params, terms)
