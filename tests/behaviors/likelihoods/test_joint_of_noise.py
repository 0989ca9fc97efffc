"""Joint tests of regressions with intervals, Student-t noise or users' own noise; latent numbers
have a known prior, N(0, 1).

The tests of the whole sampler (tests/engines/gibbs) are of the same likelihoods inside the mixture.
Here only what a likelihood itself draws can be wrong, and thousands of steps cost seconds.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checks import ACCEPT, REJECT, worst
from dualview.behaviors.families import interval, student
from dualview.behaviors.families import noise as tails
from dualview.behaviors.families.interval import IntervalFamily
from dualview.behaviors.families.noise import TYPICAL, NoisePrior
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.records import Panel, Prior
from rows import interval_rows, own_noise_rows, residual, student_rows

N_USERS = 4
USER = np.array([1, 2, 2, 3, 1, 3, 3, 2])  # user 0 has no observations
Z = np.array([0, 0, 1, 1])
PRIOR = Prior(Z, np.zeros((2, 1)), np.ones((2, 1, 1)))
DESIGN = np.random.default_rng(7).standard_normal((len(USER), 1))
Array = Any


def rounded(outcome: Array) -> tuple[Array, Array]:
    """To whole numbers; the lowest that is recorded is −1."""
    recorded = np.maximum(np.round(outcome), -1.0)
    return np.where(recorded > -1.0, recorded - 0.5, -np.inf), recorded + 0.5


def censored(outcome: Array) -> tuple[Array, Array]:
    """Exact up to 0.3, and only known to be above it beyond."""
    return np.minimum(outcome, 0.3), np.where(outcome > 0.3, np.inf, outcome)


def intervals(record: Any, by_cluster: bool = False) -> UserRows:
    panel, (low, high) = (
        Panel.of(USER, DESIGN, np.zeros(len(USER)), N_USERS),
        record(np.zeros(len(USER))),
    )
    return interval_rows(panel, NoisePrior(1.0, 3.0), by_cluster, low=low, high=high, record=record)


def heavy(dof: float | None = None) -> UserRows:
    return student_rows(
        Panel.of(USER, DESIGN, np.zeros(len(USER)), N_USERS), NoisePrior(1.0, 3.0), dof=dof
    )


def own(dof: float | None = None) -> UserRows:
    return own_noise_rows(
        Panel.of(USER, DESIGN, np.zeros(len(USER)), N_USERS), NoisePrior(1.0, 3.0), dof=dof
    )


LIKELIHOODS: dict[str, Callable[[], Any]] = {
    "censored": lambda: intervals(censored),
    "rounded": lambda: intervals(rounded),
    "rounded, noise by cluster": lambda: intervals(rounded, True),
    "student": heavy,
    "student, known degrees of freedom": lambda: heavy(2.5),
    "each user's own": own,
    "each user's own, known degrees of freedom": lambda: own(2.5),
}


def redraw_latent(rng: np.random.Generator, terms: Any, latent: Array) -> Array:
    """Latent numbers given the terms under N(0, 1); in place on their residuals."""
    user = np.repeat(np.arange(N_USERS), np.diff(terms.starts))
    loads, weights = terms.loads[:, 0], np.broadcast_to(terms.precision, len(user))
    precision = 1.0 + np.bincount(user, weights * loads**2, N_USERS)
    linear = np.bincount(
        user, weights * loads * (terms.residual + loads * latent[user, 0]), N_USERS
    )
    new = linear / precision + rng.standard_normal(N_USERS) / np.sqrt(precision)
    terms.residual[:] -= loads * (new - latent[:, 0])[user]
    return np.asarray(new[:, None])


def look(likelihood: Any, latent: Array, params: Any) -> dict[str, float]:
    noise = np.log(np.asarray(params["noise_precision"]))
    fit = np.arctan(residual(likelihood, latent) ** 2 * np.exp(noise.mean())).mean()
    found = {
        "noise": noise.mean(),
        "latent": np.arctan(latent).mean(),
        "size": np.arctan(latent**2).mean(),
        "fit": fit,
    }
    found["noise_and_fit"] = np.arctan(noise.mean()) * fit
    if isinstance(likelihood.family, IntervalFamily):
        low, high, _ = likelihood.observed
        upper = np.arctan(np.where(np.isfinite(high), high, 5.0))
        found |= {
            "exact": (low == high).mean(),
            "recorded": upper.mean(),
            "spread": upper.std(),
        }
        found["recorded_and_noise"] = upper.std() * np.arctan(noise.mean())
        found["recorded_and_latent"] = (
            np.arctan(latent)[likelihood.panel.user, 0] * upper * likelihood.panel.design[:, 0]
        ).mean()
    if TYPICAL in params:
        typical, spread = np.log(params[TYPICAL]), np.arctan(noise - np.log(params[TYPICAL]))
        squares = np.arctan(
            likelihood.panel.sums(residual(likelihood, latent) ** 2) * params[TYPICAL]
        )
        found |= {
            "typical": typical,
            "spread": spread.std(),
            "above": spread.mean(),
            "typical_and_fit": typical * fit,
        }
        found |= {"own_and_fit": (spread * squares).mean(), "idle": spread[0]}
    if "degrees_of_freedom" in params:
        found["dof"] = np.log(params["degrees_of_freedom"])
        found["dof_and_fit"] = found["dof"] * fit
    return {name: float(value) for name, value in found.items()}


def joint_scores(
    likelihood: Any, n_chains: int = 150, length: int = 30, n_prior: int = 2000
) -> dict[str, float]:
    """z-scores as of ``checks.joint_test``, for a likelihood under a known prior of latent
    numbers."""
    rng = np.random.default_rng(0)

    def prior_draw() -> tuple[Any, Array, Any]:
        latent, params = rng.standard_normal((N_USERS, 1)), likelihood.draw_prior(rng, Z)
        return likelihood.simulate(rng, latent, params), latent, params

    prior, averages = [look(*prior_draw()) for _ in range(n_prior)], []
    for _ in range(n_chains):
        current, latent, params = prior_draw()
        seen = []
        for _ in range(length):
            terms = current.terms(rng, latent, params)
            latent = redraw_latent(rng, terms, latent)
            latent, params = current.redraw(rng, latent, params, terms, PRIOR)
            current = current.simulate(rng, latent, params)
            seen.append(look(current, latent, params))
        averages.append({name: np.mean([one[name] for one in seen]) for name in seen[0]})
    scores = {}
    for name in prior[0]:
        expected, chains = (np.array([one[name] for one in part]) for part in (prior, averages))
        error = np.sqrt(expected.var(ddof=1) / n_prior + chains.var(ddof=1) / n_chains)
        difference = float(chains.mean() - expected.mean())
        scores[name] = difference / error if error > 0.0 else (0.0 if difference == 0.0 else np.inf)
    return scores


@pytest.mark.slow
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_steps_leave_the_joint_prior_as_it_is(name: str) -> None:
    which, size = worst(joint_scores(LIKELIHOODS[name]()))
    assert size < ACCEPT, which


def far_beyond(monkeypatch: pytest.MonkeyPatch) -> str:
    """Outcomes of intervals with one end, four standard deviations beyond it."""

    def wrong(_: Any, low: Array, high: Array, sds: Array) -> Array:
        return np.where(
            np.isfinite(low),
            np.where(np.isfinite(high), 0.5 * (low + high), low + 4.0 * sds),
            high - 4.0 * sds,
        )

    monkeypatch.setattr(interval, "draw_between", wrong)
    return "censored"


def narrow_noise(monkeypatch: pytest.MonkeyPatch) -> str:
    """The noise drawn as if its standard deviation were half of what it is."""
    right = interval.log_probability
    monkeypatch.setattr(
        interval, "log_probability", lambda low, high, mean, sd: right(low, high, mean, 0.5 * sd)
    )
    return "rounded"


def large_weights(monkeypatch: pytest.MonkeyPatch) -> str:
    """Weights eight times as large as they should be."""
    right = student.weight_law

    def wrong(residual: Any, precision: Any, dof: float) -> tuple[float, Any]:
        shape, rates = right(residual, precision, dof)
        return shape, rates / 8.0

    monkeypatch.setattr(student, "weight_law", wrong)
    return "student, known degrees of freedom"


def another_prior_of_dof(monkeypatch: pytest.MonkeyPatch) -> str:
    """Degrees of freedom under another prior than that from which they are drawn."""
    right = tails.log_dof_prior
    monkeypatch.setattr(tails, "log_dof_prior", lambda dof: right(dof) - 0.3 * np.asarray(dof))
    return "student"


def users_with_one_observation(monkeypatch: pytest.MonkeyPatch) -> str:
    """Precisions of users drawn as if each had one observation."""
    right = tails.NoiseByUser.own_law

    def wrong(squares: Array, counts: Array, typical: float, dof: float) -> tuple[Array, Array]:
        shapes, rates = right(squares, counts, typical, dof)
        return np.full_like(shapes, 0.5 * (dof + 1.0)), rates

    monkeypatch.setattr(tails.NoiseByUser, "own_law", staticmethod(wrong))
    return "each user's own, known degrees of freedom"


def another_prior_of_spread(monkeypatch: pytest.MonkeyPatch) -> str:
    """Degrees of freedom of users' noises under another prior than that from which they are
    drawn."""
    right = tails.log_dof_prior
    monkeypatch.setattr(tails, "log_dof_prior", lambda dof: right(dof) - 0.3 * np.asarray(dof))
    return "each user's own"


MUTANTS = [
    *(far_beyond, narrow_noise, large_weights, another_prior_of_dof),
    *(users_with_one_observation, another_prior_of_spread),
]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_rejected(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = mutant(monkeypatch)
    _, size = worst(joint_scores(LIKELIHOODS[name]()))
    assert size > REJECT
