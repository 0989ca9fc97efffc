"""Do intervals hold what they promise, and at what price? ``python -m benchmarks.coverage [worlds]
[--only SCENARIO]``.

Each scenario of the paper in 24 worlds or as many as are asked for: 50 known users and 200 training
threads among them, 20 new users of whom only the features are known, 100 test threads among known
users. Priors of the spread inside clusters and ways to find the behavior view's constants are
compared on the same worlds; with fewer threads, as in ``--threads 20,50,100``, the constants of the
noise and of the behavior view: shares of true coefficients, of known and of new users, and of test
outcomes inside central 50, 80 and 95 % intervals, and negative log densities at the truth. Worlds
are the independent units of standard errors. Features come as tables, so that the rounded
measurements of iris are taken for what they are.
"""

import argparse
import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dualview as dv
from benchmarks import mixing

Array = NDArray[np.float64]

N_KNOWN, N_NEW, N_TRAINING, N_TEST = 50, 20, 200, 100
NOISE_VARIANCE = 5.0
LEVELS = (0.5, 0.8, 0.95)
BY_LIKELIHOOD = {"behavior_prior": "likelihood"}
PRIORS: dict[str, dict[str, str]] = {
    "flat (default)": {},
    "paper": {"spread_prior": "paper"},
    "flat, constants by likelihood": BY_LIKELIHOOD,
    "paper, constants by likelihood": {"spread_prior": "paper"} | BY_LIKELIHOOD,
}
PAPERS_NOISE = {"noise_variance": "paper"}
OF_FEW: dict[str, dict[str, str]] = {
    "default": {},
    "noise as in the paper": PAPERS_NOISE,
    "constants by likelihood": BY_LIKELIHOOD,
}
WHAT = ("new users", "known users", "outcomes")


class World(NamedTuple):
    """A forum cut in two: what a fit sees, and what it is asked for."""

    features: pd.DataFrame
    training: dv.SharedOutcome
    new_features: pd.DataFrame
    test: dv.SharedOutcome
    latent: Array  # known users, then new ones


class Found(NamedTuple):
    """Predicted probabilities of values up to the true ones, and mean negative log densities, each
    in the order of WHAT."""

    levels: list[Array]
    costs: list[float]


def threads(rng: np.random.Generator, n: int, latent: Array) -> dv.SharedOutcome:
    """Threads in which everybody takes part with probability one half, as in the scenarios."""
    takes_part = rng.random((n, len(latent))) < 0.5
    participation = takes_part / np.maximum(takes_part.sum(axis=1, keepdims=True), 1)
    return dv.SharedOutcome(
        participation, participation @ latent + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(n)
    )


def draw_world(scenario: str, seed: int, n_training: int = N_TRAINING) -> World:
    forum = getattr(dv.datasets, scenario)(
        N_KNOWN + N_NEW, 1, noise_variance=NOISE_VARIANCE, seed=seed
    )
    rng, known = np.random.default_rng([seed, 1]), forum.latent[:N_KNOWN]
    training, test = threads(rng, n_training, known), threads(rng, N_TEST, known)
    features = pd.DataFrame(forum.features).add_prefix("feature ")
    return World(features[:N_KNOWN], training, features[N_KNOWN:], test, forum.latent)


def found(world: World, seed: int, options: dict[str, str]) -> Found:
    options = dict(options)
    training = dv.SharedOutcome(
        world.training.participation,
        world.training.outcome,
        noise_variance=options.pop("noise_variance", None),
    )
    model = dv.DualViewMixture(
        engine=dv.Gibbs(n_warmup=500, thin=2),
        n_draws=1000,
        n_chains=2,
        n_jobs=1,
        random_state=seed,
        **options,
    )
    model.fit(world.features, training)
    nothing = dv.SharedOutcome(np.zeros((1, N_KNOWN + N_NEW)), [0.0])  # a thread that nobody is in
    new, outcome = (
        model.predict_latent(world.new_features, nothing),
        model.predict_outcome(world.test),
    )
    known, truth = model.posterior_.flat("latent").reshape(-1, N_KNOWN), world.latent[N_KNOWN:]
    y = np.asarray(world.test.outcome)
    levels = [new.cdf(truth), (known <= world.latent[:N_KNOWN]).mean(axis=0), outcome.cdf(y)]
    return Found(
        levels, [-float(np.mean(new.log_density(truth))), -float(np.mean(outcome.log_density(y)))]
    )


def with_error(values: Array, digits: int) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.{digits}f} ± {error:.{digits}f}"


def row(scenario: str, n_threads: int, prior: str, worlds: list[Found]) -> str:
    cells = [scenario, str(n_threads), prior]
    for what in range(len(WHAT)):
        levels = np.array([world.levels[what] for world in worlds])
        inside = [100 * (np.abs(levels - 0.5) < 0.5 * level).mean(axis=1) for level in LEVELS]
        cells.append(", ".join(with_error(shares, 0) for shares in inside))
    costs = np.array([world.costs for world in worlds])
    return (
        "| " + " | ".join([*cells, with_error(costs[:, 0], 2), with_error(costs[:, 1], 3)]) + " |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Coverage of intervals under priors of the spread inside clusters."
    )
    parser.add_argument("worlds", type=int, nargs="?", default=24)
    parser.add_argument("--only", choices=mixing.SCENARIOS)
    parser.add_argument(
        "--threads", default=str(N_TRAINING), help="Numbers of training threads, with commas."
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    first = "| scenario | threads | prior | new users, % | known users, % | outcomes, % "
    print(first + "| cost of new users | cost of outcomes |")
    print("|---|---:|---|---|---|---|---|---|")
    for scenario in mixing.SCENARIOS if options.only is None else [options.only]:
        for n in map(int, options.threads.split(",")):
            worlds = [draw_world(scenario, seed, n) for seed in range(options.worlds)]
            for prior, settings in (PRIORS if n == N_TRAINING else OF_FEW).items():
                each = [found(world, seed, settings) for seed, world in enumerate(worlds)]
                print(row(scenario, n, prior, each), flush=True)


if __name__ == "__main__":
    main()
