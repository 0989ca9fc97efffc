"""Are the p-values of ``model.check()`` uniform where the model is right? ``python -m
benchmarks.check_calibration [worlds]``.

Draws 40 worlds, or as many as are asked for, from the model itself: 30 users and 60 threads with
normal noise, in turn three clusters of users in both views and none at all. Fits each for a short
time, checks it without refits, and prints for each check the mean of its p-values, which is 1/2
with a standard error of 0.29/√worlds if they are uniform, their Kolmogorov–Smirnov distance from
uniform with its p-value, how many are below 0.05, and how often the verdict was not "fine".
"""

import argparse
import warnings
from collections import defaultdict
from typing import Any

import numpy as np
from scipy.stats import kstest

import dualview as dv
from dualview.posterior.checks import model_checks, residuals
from dualview.posterior.checks.model_checks import VERDICTS, Check

N_USERS, N_THREADS, NOISE = 30, 60, 2.0
N_REPLICATES = 400  # of the 2,000 of model.check(): enough for p-values above 0.005
SAMPLER: dict[str, Any] = {
    "engine": dv.Gibbs(n_warmup=200),
    "n_draws": 200,
    "n_chains": 2,
    "n_jobs": 1,
}


def right_world(seed: int) -> tuple[np.ndarray, dv.SharedOutcome]:
    """Features and threads: three clusters if the seed is even, one if it is odd."""
    rng = np.random.default_rng([11, seed])
    labels = np.arange(N_USERS) % 3 if seed % 2 == 0 else np.zeros(N_USERS, dtype=np.int64)
    features = (
        rng.standard_normal((N_USERS, 2))
        + 6.0 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])[labels]
    )
    latent = np.array([30.0, 50.0, 70.0])[labels] + 5.0 * rng.standard_normal(N_USERS)
    takes_part = rng.random((N_THREADS, N_USERS)) < 0.5
    participation = takes_part / np.maximum(takes_part.sum(axis=1, keepdims=True), 1)
    return features, dv.SharedOutcome(
        participation, participation @ latent + NOISE * rng.standard_normal(N_THREADS)
    )


def checks_of(seed: int) -> list[Check]:
    features, behavior = right_world(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = dv.DualViewMixture(random_state=seed, **SAMPLER).fit(features, behavior)
        return list(model.check(refit=False, seed=seed))


def row(name: str, checks: list[Check]) -> str:
    """One check's line: worlds, mean p, distance from uniform, share below 0.05, worlds that were
    not fine."""
    p = np.array([check.p for check in checks])
    noticed = sum(check.verdict != VERDICTS[0] for check in checks)
    if np.isnan(p).any():
        return f"| {name} | {len(p)} | | | | {noticed} |"
    error, test = p.std(ddof=1) / np.sqrt(len(p)), kstest(p, "uniform")
    distance = f"{test.statistic:.2f} (p {test.pvalue:.2g})"
    return (
        f"| {name} | {len(p)} | {p.mean():.2f} ± {error:.2f} | {distance} | "
        f"{(p < 0.05).sum()} | {noticed} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="p-values of checks where the model is right.")
    parser.add_argument("worlds", type=int, nargs="?", default=40)
    residuals._N_REPLICATES = model_checks._N_NULL = N_REPLICATES
    found: dict[str, list[Check]] = defaultdict(list)
    for seed in range(parser.parse_args().worlds):
        for check in checks_of(seed):
            found[check.name].append(check)
    print(
        "| check | worlds | mean p | distance from uniform | p below 0.05 | not fine "
        "|\n|---|---:|---|---|---:|---:|"
    )
    for name, checks in found.items():
        print(row(name, checks), flush=True)


if __name__ == "__main__":
    main()
