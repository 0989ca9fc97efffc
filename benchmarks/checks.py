"""Do the checks of ``model.check()`` cry wolf, and do they see what they are made for?

    python -m benchmarks.checks [--null 60] [--broken 10]

fits data from the model, and data that break it in eight ways, and prints a table of how often each
check was not "fine". Data: 30 users in 3 clusters, 90 threads with normal noise; for noise by
cluster or user, 10 measurements of each user.
"""

import argparse
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import dualview as dv
from dualview.datasets import Forum
from dualview.posterior.checks.model_checks import VERDICTS

SAMPLER: dict[str, Any] = {
    "engine": dv.Gibbs(n_warmup=300),
    "n_draws": 300,
    "n_chains": 2,
    "n_jobs": 1,
}
N_USERS, N_THREADS, NOISE = 30, 90, 3.0
Data = tuple[np.ndarray, Any]


def forum_of(seed: int) -> Forum:
    return dv.datasets.agreement(N_USERS, N_THREADS, n_clusters=3, seed=seed)


def threads(forum: Forum, noise: np.ndarray, latent: np.ndarray | None = None) -> Data:
    outcome = forum.participation @ (forum.latent if latent is None else latent) + noise
    return forum.features, dv.SharedOutcome(forum.participation, outcome)


def nothing(rng: np.random.Generator, seed: int) -> Data:
    return threads(forum_of(seed), NOISE * rng.standard_normal(N_THREADS))


def heavy_tails(rng: np.random.Generator, seed: int) -> Data:
    return threads(forum_of(seed), NOISE * rng.standard_t(2, N_THREADS))


def skew(rng: np.random.Generator, seed: int) -> Data:
    return threads(forum_of(seed), NOISE * (rng.standard_exponential(N_THREADS) - 1.0))


def slopes(rng: np.random.Generator, seed: int) -> Data:
    forum = forum_of(seed)
    centers = np.array([forum.features[forum.labels == k].mean(axis=0) for k in range(3)])[
        forum.labels
    ]
    latent = forum.latent + 200.0 * (forum.features - centers)[:, 0]
    return threads(forum, 0.3 * rng.standard_normal(N_THREADS), latent)


def outliers(rng: np.random.Generator, seed: int) -> Data:
    noise = NOISE * rng.standard_normal(N_THREADS)
    noise[rng.choice(N_THREADS, 2, replace=False)] += 10.0 * NOISE
    return threads(forum_of(seed), noise)


def dependence(rng: np.random.Generator, seed: int) -> Data:
    noise = rng.standard_normal(N_THREADS)
    for t in range(1, N_THREADS):
        noise[t] = 0.7 * noise[t - 1] + np.sqrt(1 - 0.7**2) * noise[t]
    return threads(forum_of(seed), NOISE * noise)


def disagreement(rng: np.random.Generator, seed: int) -> Data:
    forum = forum_of(seed)
    others = replace(forum, features=forum.features[rng.permutation(N_USERS)])
    return measured(rng, others, np.full(N_USERS, 1.0))


def agreement(rng: np.random.Generator, seed: int) -> Data:
    return measured(rng, forum_of(seed), np.full(N_USERS, 1.0))


def noise_by_cluster(rng: np.random.Generator, seed: int) -> Data:
    forum = forum_of(seed)
    return measured(rng, forum, np.array([1.0, 5.0, 1.0])[forum.labels])


def noise_by_user(rng: np.random.Generator, seed: int) -> Data:
    return measured(rng, forum_of(seed), np.exp(0.7 * rng.standard_normal(N_USERS)))


def measured(rng: np.random.Generator, forum: Forum, sds: np.ndarray) -> Data:
    """Ten measurements of each user's coefficient."""
    user = np.repeat(np.arange(N_USERS), 10)
    outcome = forum.latent[user] + sds[user] * rng.standard_normal(len(user))
    return forum.features, dv.UserRegression(user, np.ones((len(user), 1)), outcome)


BROKEN: dict[str, Callable[[np.random.Generator, int], Data]] = {
    "heavy tails": heavy_tails,
    "skew": skew,
    "slopes": slopes,
    "outliers": outliers,
    "dependence in time": dependence,
    "disagreement of views": disagreement,
    "noise by cluster": noise_by_cluster,
    "noise by user": noise_by_user,
}
MADE_FOR = {
    "heavy tails": "outcomes: tails",
    "skew": "outcomes: skew",
    "slopes": "link",
    "outliers": "outcomes: outliers",
    "dependence in time": "outcomes: order",
    "disagreement of views": "views",
    "noise by cluster": "outcomes: noise by cluster",
    "noise by user": "outcomes: noise by user",
}


def noticed(make: Callable[[np.random.Generator, int], Data], n: int, refit: bool) -> Counter[str]:
    """How often each check was not fine."""
    found: Counter[str] = Counter()
    for seed in range(n):
        features, behavior = make(np.random.default_rng([7, seed]), seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = dv.DualViewMixture(random_state=seed, **SAMPLER).fit(features, behavior)
            found.update(
                check.name for check in model.check(refit=refit) if check.verdict != VERDICTS[0]
            )
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.checks", description="False alarms and power of the checks."
    )
    parser.add_argument("--null", type=int, default=60)
    parser.add_argument("--broken", type=int, default=10)
    plan = parser.parse_args(arguments)
    print(
        "| data | sets | seen by its check | other checks that were not fine |\n|---|---:|---|---|"
    )
    for name, make in BROKEN.items():
        own = MADE_FOR[name]
        found = noticed(make, plan.broken, refit=own == "views")
        others = ", ".join(f"{check} {n}" for check, n in found.most_common() if check != own)
        print(f"| {name} | {plan.broken} | {own}: {found[own]} | {others or 'none'} |", flush=True)
    n_views = max(1, plan.null // 6)
    for name, make, n, refit in (
        ("from the model", nothing, plan.null, False),
        ("views that agree", agreement, n_views, True),
    ):
        found = noticed(make, n, refit=refit)
        others = ", ".join(f"{check} {k}" for check, k in found.most_common())
        print(f"| {name} | {n} |  | {others or 'none'} |", flush=True)


if __name__ == "__main__":
    main()
