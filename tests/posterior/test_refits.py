"""Newcomers of every kind of behavior against fits that include them: the same probabilities within
Monte-Carlo error.

A refit has the newcomer as its last user. Each estimate is the average of independent runs, whose
spread is the tolerance.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualview as dv
from checks import ACCEPT

N_USERS, N_RUNS = 10, 8
LEVELS = np.array([-1.0, 0.5, 2.0])
TWO = {"feature_prior": dv.GaussianPrior([0.0, 1.0], [[1.0, 0.3], [0.3, 2.0]])}
PRIORS = {
    1: dv.GaussianPrior(0.5, 2.0),
    2: dv.GaussianPrior([0.5, -0.5], [[2.0, 0.4], [0.4, 1.0]]),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def features(seed: int = 3) -> np.ndarray:
    """Two groups in two features of different scales; the last user is the newcomer."""
    rng = np.random.default_rng(seed)
    group = np.arange(N_USERS + 1) % 2
    return np.column_stack([2.0 * group - 1.0, -1.5 * group + 1.5]) + 0.5 * rng.standard_normal(
        (N_USERS + 1, 2)
    ) * [1.0, 1.5]


X = features()


def regression(
    n_each: int, noise: str, slopes: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """user, design (n, 2), outcome of n_each observations a user; clusters differ in noise,
    features shift coefficients."""
    rng = np.random.default_rng(5)
    user = np.repeat(np.arange(N_USERS + 1), n_each)
    design = np.column_stack([np.ones(len(user)), rng.standard_normal(len(user))])
    latent = np.where(np.arange(N_USERS + 1)[:, None] % 2, [2.0, -1.0], [-0.5, 0.5])
    if slopes is not None:
        latent = latent + (X - [0.0, 1.0]) @ slopes.T
    latent = latent + 0.3 * rng.standard_normal(latent.shape)
    sd = np.where(user % 2, 0.3, 1.2) if noise == "cluster" else 0.6
    return (
        user,
        design,
        np.einsum("nq,nq->n", design, latent[user]) + sd * rng.standard_normal(len(user)),
    )


def mixture(seed: int, q: int, **options: Any) -> dv.DualViewMixture:
    settings = {
        "n_warmup": 500,
        "n_draws": 2000,
        "n_chains": 1,
        "init": "one",
        "random_state": seed,
    }
    return dv.DualViewMixture(**settings, **TWO, behavior_prior=PRIORS[q], **options)


def largest_score(
    predicted: Callable[[int], np.ndarray], refitted: Callable[[int], np.ndarray]
) -> float:
    """Largest |z| between two estimates of the same numbers."""
    runs = [
        np.array([estimate(seed) for seed in range(N_RUNS)]) for estimate in (predicted, refitted)
    ]
    error = np.sqrt(sum(run.var(axis=0, ddof=1) / N_RUNS for run in runs))
    return float(np.abs((runs[0].mean(axis=0) - runs[1].mean(axis=0)) / error).max())


def below(prediction: Any, levels: np.ndarray = LEVELS) -> np.ndarray:
    """Distribution functions of one case at some levels."""
    return np.array([prediction.cdf([level])[0] for level in levels])


ASKED = np.array([[1.0, 0.7]])  # the design of an outcome to be predicted


@pytest.mark.parametrize("noise", ["shared", "cluster"])
@pytest.mark.parametrize("n_known", [0, 2], ids=["silent", "observed"])
def test_regressions(noise: str, n_known: int) -> None:
    user, design, outcome = regression(3, noise)
    mine = np.flatnonzero(user == N_USERS)
    seen = np.concatenate([np.flatnonzero(user < N_USERS), mine[:n_known]])
    options = {"noise": noise, "noise_variance": 0.5}

    def predicted(seed: int) -> np.ndarray:
        known = user < N_USERS
        model = mixture(seed, 2).fit(
            X[:-1], dv.UserRegression(user[known], design[known], outcome[known], **options)
        )
        own = (
            dv.UserRegression(
                [0] * n_known, design[mine[:n_known]], outcome[mine[:n_known]], n_users=1
            )
            if n_known
            else None
        )
        asked = model.predict_outcome(dv.UserRegression([N_USERS], ASKED), X[-1:], own)
        return np.concatenate([below(asked), below(model.predict_latent(X[-1:], own).marginal(1))])

    def refitted(seed: int) -> np.ndarray:
        behavior = dv.UserRegression(
            user[seen], design[seen], outcome[seen], n_users=N_USERS + 1, **options
        )
        model = mixture(100 + seed, 2).fit(X, behavior)
        slope = model.posterior_.flat("latent")[:, -1, 1]
        asked = model.predict_outcome(dv.UserRegression([N_USERS], ASKED))
        return np.concatenate([below(asked), (slope[:, None] <= LEVELS).mean(axis=0)])

    assert largest_score(predicted, refitted) < ACCEPT


@pytest.mark.parametrize("n_known", [0, 1], ids=["silent", "observed"])
def test_regressions_with_a_link(n_known: int) -> None:
    """Slopes of two coefficients on two features, none like another."""
    user, design, outcome = regression(4, "shared", np.array([[2.0, 0.0], [-0.5, -1.0]]))
    mine = np.flatnonzero(user == N_USERS)[:n_known]
    seen = np.concatenate([np.flatnonzero(user < N_USERS), mine])

    def predicted(seed: int) -> np.ndarray:
        known = user < N_USERS
        model = mixture(seed, 2, link="linear")
        model.fit(
            X[:-1],
            dv.UserRegression(user[known], design[known], outcome[known], noise_variance=0.5),
        )
        own = (
            dv.UserRegression([0] * n_known, design[mine], outcome[mine], n_users=1)
            if n_known
            else None
        )
        latent = model.predict_latent(X[-1:], own)
        return np.concatenate([below(latent.marginal(d)) for d in (0, 1)])

    def refitted(seed: int) -> np.ndarray:
        behavior = dv.UserRegression(
            user[seen], design[seen], outcome[seen], n_users=N_USERS + 1, noise_variance=0.5
        )
        post = mixture(200 + seed, 2, link="linear").fit(X, behavior).posterior_
        return (post.flat("latent")[:, -1, :, None] <= LEVELS).mean(axis=0).ravel()

    assert largest_score(predicted, refitted) < ACCEPT


@pytest.mark.parametrize("n_known", [0, 3], ids=["silent", "observed"])
def test_yes_or_no(n_known: int) -> None:
    rng = np.random.default_rng(6)
    user = np.repeat(np.arange(N_USERS + 1), 6)
    design = rng.standard_normal((len(user), 1))
    yes = rng.random(len(user)) < 1 / (1 + np.exp(-design[:, 0] * np.where(user % 2, 2.0, -1.0)))
    mine = np.flatnonzero(user == N_USERS)[:n_known]
    seen = np.concatenate([np.flatnonzero(user < N_USERS), mine])

    def predicted(seed: int) -> np.ndarray:
        known = user < N_USERS
        model = mixture(seed, 1).fit(
            X[:-1], dv.BinaryOutcomes(user[known], design[known], yes[known])
        )
        own = (
            dv.BinaryOutcomes([0] * n_known, design[mine], yes[mine], n_users=1)
            if n_known
            else None
        )
        return model.predict_outcome(
            dv.BinaryOutcomes([N_USERS] * 2, [[1.0], [-2.0]]), X[-1:], own
        ).mean

    def refitted(seed: int) -> np.ndarray:
        behavior = dv.BinaryOutcomes(user[seen], design[seen], yes[seen], n_users=N_USERS + 1)
        model = mixture(300 + seed, 1).fit(X, behavior)
        return model.predict_outcome(dv.BinaryOutcomes([N_USERS] * 2, [[1.0], [-2.0]])).mean

    assert largest_score(predicted, refitted) < ACCEPT


def test_choices_between_items_of_unequal_appeal() -> None:
    """The newcomer's own choices are explained by the items' appeal, as everybody's are."""
    rng = np.random.default_rng(7)
    items, appeal = rng.standard_normal((4, 1)), np.array([2.5, -2.5, 0.0, 0.0])
    user = np.repeat(np.arange(N_USERS + 1), 6)
    pairs = np.array([rng.choice(4, 2, replace=False) for _ in user])
    odds = (
        (items[pairs[:, 0], 0] - items[pairs[:, 1], 0]) * np.where(user % 2, 1.0, -1.0)
        + appeal[pairs[:, 0]]
        - appeal[pairs[:, 1]]
    )
    flip = rng.random(len(user)) > 1 / (1 + np.exp(-odds))
    winner, loser = np.where(flip[:, None], pairs[:, ::-1], pairs).T
    options = {"items": items, "item_intercept": True}
    asked = ([0, 0, 2], [1, 2, 3])

    def predicted(seed: int) -> np.ndarray:
        known, mine = user < N_USERS, user == N_USERS
        model = mixture(seed, 1).fit(
            X[:-1], dv.PairwiseChoices(user[known], winner[known], loser[known], **options)
        )
        own = dv.PairwiseChoices([0] * 6, winner[mine], loser[mine], n_users=1, **options)
        return model.predict_outcome(
            dv.PairwiseChoices([N_USERS] * 3, *asked, **options), X[-1:], own
        ).mean

    def refitted(seed: int) -> np.ndarray:
        model = mixture(400 + seed, 1).fit(X, dv.PairwiseChoices(user, winner, loser, **options))
        return model.predict_outcome(dv.PairwiseChoices([N_USERS] * 3, *asked, **options)).mean

    assert largest_score(predicted, refitted) < ACCEPT
