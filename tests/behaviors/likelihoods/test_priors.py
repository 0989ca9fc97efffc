"""Densities of likelihoods with the priors of their parameters, and draws from these, against the
model by SciPy's densities.

Ratio tests of conditionals take the likelihoods' own densities for the joint; a prior that is wrong
in both shows here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import beta, gamma, logistic, norm, t, uniform

from dualview.behaviors.families.noise import TYPICAL, NoisePrior
from dualview.behaviors.families.ordinal import CutPrior, Known
from dualview.behaviors.likelihoods.effects_draw import SparseDesign
from dualview.behaviors.likelihoods.with_effects import EffectUnits, WithEffects
from dualview.behaviors.panel import Panel
from dualview.units import GaussianPrior, Whitening
from rows import interval_rows, normal_rows, own_noise_rows, student_rows
from yardsticks import check_law

N_USERS, N, LEVELS, N_DRAWS = 5, 14, 3, 1000
RNG = np.random.default_rng(3)
USER = np.sort(RNG.integers(1, N_USERS, N))  # user 0 has no observations
Z = np.array([0, 1, 1, 0, 1])
DESIGN, OUTCOME = RNG.normal(size=(N, 2)), RNG.normal(size=N)
PANEL = Panel.of(USER, DESIGN, OUTCOME, N_USERS)
PRIOR, SCALE, LOCATION = NoisePrior(2.5, 3.0), 0.8, 4.0
OF_NOISE, OF_DOF, OF_SPREAD = (
    gamma(1.5, scale=2.0 / 3.0),
    gamma(2.0, scale=10.0),
    t(3.0),
)  # the noise's has mean 1
COMMON, ITEM = RNG.normal(size=(N, 1)), RNG.integers(0, LEVELS, (N, 1))
Array = Any


def with_effects() -> WithEffects:
    """A coefficient that is common to all, and a group of three levels."""
    columns = np.hstack([np.zeros((N, 1), dtype=np.int64), 1 + ITEM])
    design = SparseDesign(columns, np.hstack([COMMON, np.ones((N, 1))]), 1 + LEVELS)
    units = EffectUnits(Whitening.of(GaussianPrior(np.array([0.7]), np.array([[9.0]]))), LOCATION)
    return WithEffects(
        normal_rows(PANEL, PRIOR),
        design,
        1,
        np.array([1, 1 + LEVELS]),
        np.array([SCALE]),
        units,
    )


LIKELIHOODS: dict[str, Callable[[], Any]] = {
    "normal": lambda: normal_rows(PANEL, PRIOR),
    "normal, noise by cluster": lambda: normal_rows(PANEL, PRIOR, by_cluster=True),
    "intervals": lambda: interval_rows(PANEL, PRIOR, low=OUTCOME - 0.3, high=OUTCOME + 0.5),
    "student": lambda: student_rows(PANEL, PRIOR),
    "each user's own": lambda: own_noise_rows(PANEL, PRIOR),
    "effects": with_effects,
}


def log_prior(params: Any) -> float:
    """ln p(parameters), each with its distribution."""
    typical = params.get(TYPICAL, params["noise_precision"])
    total = OF_NOISE.logpdf(np.unique(typical)).sum()
    if "degrees_of_freedom" in params:
        total += OF_DOF.logpdf(params["degrees_of_freedom"])
    if TYPICAL in params:
        half = 0.5 * params["degrees_of_freedom"]
        total += gamma.logpdf(params["noise_precision"], half, scale=typical / half).sum()
    if "group_sd" in params:
        total += OF_SPREAD.logpdf(params["group_sd"] / SCALE).sum()
        total += (
            norm.logpdf(params["group_effects"], 0.0, params["group_sd"]).sum()
            + norm.logpdf(params["common"]).sum()
        )
    return float(total)


def log_likelihood(name: str, latent: Array, params: Any) -> float:
    """ln p(outcomes | latent vectors, parameters)."""
    mean, noise = (DESIGN * latent[USER]).sum(axis=1), np.asarray(params["noise_precision"])
    sd = (noise[USER] if noise.ndim else noise) ** -0.5
    if name == "effects":
        mean = mean + COMMON[:, 0] * params["common"] + params["group_effects"][ITEM[:, 0]]
    if name == "intervals":
        return float(
            np.log(norm.cdf(OUTCOME + 0.5, mean, sd) - norm.cdf(OUTCOME - 0.3, mean, sd)).sum()
        )
    if name == "student":
        return float(t.logpdf(OUTCOME, params["degrees_of_freedom"], mean, sd).sum())
    return float(norm.logpdf(OUTCOME, mean, sd).sum())


def drawn(name: str, n: int) -> list[Any]:
    rng, likelihood = np.random.default_rng(1), LIKELIHOODS[name]()
    return [likelihood.draw_prior(rng, Z) for _ in range(n)]


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_densities_are_the_joint_up_to_a_constant(name: str) -> None:
    rng, likelihood, states = np.random.default_rng(2), LIKELIHOODS[name](), drawn(name, 12)
    latents = rng.normal(size=(len(states), N_USERS, 2))
    joints = [
        log_likelihood(name, *state) + log_prior(state[1])
        for state in zip(latents, states, strict=True)
    ]
    assert np.ptp(joints) > 1.0
    found = [
        likelihood.log_density(latent, params)
        for latent, params in zip(latents, states, strict=True)
    ]
    np.testing.assert_allclose(np.subtract(found, joints), found[0] - joints[0], atol=1e-8)


@pytest.mark.parametrize("name", ["normal", "student", "each user's own", "effects"])
def test_priors_in_the_users_units_are_the_same_up_to_a_constant(name: str) -> None:
    """Of all that is not drawn given other parameters: users' own noises and effects of levels are
    not in it."""
    likelihood, states = LIKELIHOODS[name](), drawn(name, 12)
    kept = [{k: v for k, v in state.items() if k != "group_effects"} for state in states]
    reported = [likelihood.reported(state) for state in kept]
    stacked = {key: np.array([one[key] for one in reported]) for key in reported[0]}
    found = sum(
        values for values in likelihood.log_priors(stacked, np.tile(Z, (len(states), 1))).values()
    )
    wanted = []
    for state in states:
        of_all = {**state, "noise_precision": state.get(TYPICAL, state["noise_precision"])}
        wanted.append(
            log_prior(
                {key: value for key, value in of_all.items() if key not in (TYPICAL, "group_sd")}
            )
        )
        if "group_sd" in state:
            wanted[-1] += float(
                OF_SPREAD.logpdf(state["group_sd"] / SCALE).sum()
                + norm.logpdf(state["common"]).sum()
            )
    np.testing.assert_allclose(found - wanted, (found - wanted)[0], atol=1e-8)


def test_draws_of_noise() -> None:
    check_law([state["noise_precision"] for state in drawn("normal", N_DRAWS)], OF_NOISE.cdf)
    by_cluster = np.array(
        [state["noise_precision"] for state in drawn("normal, noise by cluster", N_DRAWS)]
    )
    for user in (0, 1):
        check_law(by_cluster[:, user], OF_NOISE.cdf)
    np.testing.assert_array_equal(
        by_cluster, by_cluster[:, :2][:, Z]
    )  # users 0 and 1 are of clusters 0 and 1


def test_draws_of_degrees_of_freedom_and_of_users_noises() -> None:
    states, below = drawn("each user's own", N_DRAWS), OF_DOF.cdf(1.0)
    dof, typical = (
        np.array([state[name] for state in states]) for name in ("degrees_of_freedom", TYPICAL)
    )
    check_law(dof, lambda x: (OF_DOF.cdf(x) - below) / (1.0 - below))
    check_law(typical, OF_NOISE.cdf)
    own = np.array([state["noise_precision"][2] for state in states])
    check_law(gamma.cdf(own / typical, 0.5 * dof, scale=2.0 / dof), uniform.cdf)


def test_draws_of_effects() -> None:
    states = drawn("effects", N_DRAWS)
    sds = np.array([state["group_sd"][0] for state in states])
    check_law(sds / SCALE, lambda x: 2.0 * OF_SPREAD.cdf(x) - 1.0)
    check_law([state["common"][0] for state in states], norm.cdf)
    check_law(np.array([state["group_effects"][1] for state in states]) / sds, norm.cdf)


def test_draws_of_cut_points() -> None:
    """Ordered logistic numbers: their shares are ordered uniform ones; given one of them, on either
    side of it too."""
    rng = np.random.default_rng(4)
    shares = expit([CutPrior(3).draw(rng) for _ in range(N_DRAWS)])
    for place in range(3):
        check_law(shares[:, place], beta(place + 1, 3 - place).cdf)
    given = expit([CutPrior(4, Known(1, logit(0.3))).draw(rng) for _ in range(N_DRAWS)])
    check_law(given[:, 0] / 0.3, uniform.cdf)
    np.testing.assert_allclose(given[:, 1], 0.3)
    check_law((given[:, 2] - 0.3) / 0.7, beta(1, 2).cdf)
    cuts = np.array([-1.0, 0.2, 0.9])
    assert CutPrior(3).log_density(cuts) == pytest.approx(logistic.logpdf(cuts).sum())
