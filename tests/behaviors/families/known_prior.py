"""Joint tests of counts under a known prior of latent vectors, so that no rate is beyond all
numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dualview.behaviors.likelihoods.effects_draw import redraw_vectors
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.records import Panel, Params, Prior

N_USERS, Q = 4, 2
USER = np.array([1, 2, 2, 3, 1, 3, 3, 2])  # user 0 has no observations
Z = np.array([0, 0, 1, 1])
MEANS, FACTORS = (
    np.array([[0.3, -0.2], [0.8, 0.4]]),
    np.array([np.eye(Q), [[1.3, 0.0], [0.4, 0.9]]]),
)
PRIOR = Prior(Z, MEANS, FACTORS)
Array = Any
Look = Callable[[UserRows, Array, Params], dict[str, float]]


def rows(family: Any, counts: Array = (0, 1, 4, 2, 0, 7, 3, 1)) -> UserRows:
    design = np.random.default_rng(7).standard_normal((len(USER), Q))
    panel = Panel.of(USER, design, np.asarray(counts, dtype=float), N_USERS)
    return UserRows(panel, family, np.linspace(-0.5, 0.5, len(USER)))


def look(likelihood: UserRows, latent: Array, params: Params) -> dict[str, float]:
    """Bounded statistics of vectors, counts and parameters."""
    eta, counts = likelihood.predictor(latent), np.sqrt(likelihood.panel.outcome)
    found = {f"latent {j}": np.arctan(latent[:, j]).mean() for j in range(Q)}
    found |= {"size": np.arctan(latent**2).mean(), "counts": np.arctan(counts).mean()}
    found |= {"nothing": (counts == 0).mean(), "fit": (np.arctan(eta) * np.arctan(counts)).mean()}
    found |= {"product": np.arctan(latent[1:, 0] * latent[1:, 1]).mean()}
    for name, value in params.items():
        found |= {name: np.arctan(np.log(value)), f"{name} and counts": np.arctan(np.log(value))}
        found[f"{name} and counts"] *= np.arctan(counts).mean()
    return {name: float(value) for name, value in found.items()}


def joint_scores(
    likelihood: UserRows,
    n_chains: int = 150,
    length: int = 30,
    n_prior: int = 2000,
    *,
    pooled: bool = False,
    look: Look = look,
) -> dict[str, float]:
    """z-scores as of ``checks.joint_test``, under a known prior of latent vectors; pooled: that of
    a cluster's users is one."""
    rng = np.random.default_rng(0)
    prior = PRIOR._replace(pooled=pooled)

    def prior_draw() -> tuple[UserRows, Array, Params]:
        noise = rng.standard_normal((N_USERS, Q))
        noise = noise[Z] if pooled else noise
        away = np.linalg.solve(np.swapaxes(FACTORS[Z], 1, 2), noise[..., None])[..., 0]
        latent, params = MEANS[Z] + away, likelihood.draw_prior(rng, Z)
        return likelihood.simulate(rng, latent, params), latent, params

    drawn, averages = [look(*prior_draw()) for _ in range(n_prior)], []
    for _ in range(n_chains):
        current, latent, params = prior_draw()
        seen = []
        for _ in range(length):
            terms = current.terms(rng, latent, params)
            if likelihood.family.has_augmentation and not pooled:
                latent = redraw_vectors(rng, terms, prior, latent)
            latent, params = current.redraw(rng, latent, params, terms, prior)
            current = current.simulate(rng, latent, params)
            seen.append(look(current, latent, params))
        averages.append({name: np.mean([one[name] for one in seen]) for name in seen[0]})
    scores = {}
    for name in drawn[0]:
        expected, chains = (np.array([one[name] for one in part]) for part in (drawn, averages))
        error = np.sqrt(expected.var(ddof=1) / n_prior + chains.var(ddof=1) / n_chains)
        scores[name] = float(chains.mean() - expected.mean()) / error
    return scores
