"""Are the standard errors of ``dv.compare`` right, and its verdicts? ``python -m
benchmarks.compare_errors [worlds]``.

40 worlds or as many as are asked for, in each of four designs with 40 users in five clusters: 60
threads in which everybody is with probability one half, as in the paper; 60 threads of four users
on average; the first with features that say nothing; and three measurements of each user. The dual
model and one without clusters are fitted. The difference of their scores estimates that of their
log densities of as many new observations of the same users, which 2,000 new ones tell. The table
has the standard deviation of z = (estimate − truth) / standard error over worlds, which should be
one, for the error that takes scores as independent and for that of ``compare``, how often a fit was
"clearly behind" with each, and how often it was the better one. ``--folds 5``: the same for refits.
``--only``: some designs, by their numbers.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dualview as dv
from dualview.evaluation.comparison import scores_of, standing
from dualview.posterior.prediction.influence import shared_variance

N_USERS, N_THREADS, N_NEW = 40, 60, 2000
SAMPLER: dict[str, Any] = {
    "engine": dv.Gibbs(n_warmup=300),
    "n_draws": 400,
    "n_chains": 2,
    "n_jobs": 1,
}
Drawn = tuple[np.ndarray, Any, Any]


def threads(rate: float, useless: bool = False) -> Callable[[int], Drawn]:
    """Features, threads and new threads of a world; useless: features of other users."""

    def draw(world: int) -> Drawn:
        forum = dv.datasets.agreement(
            N_USERS, N_THREADS, N_NEW, participation_rate=rate, seed=world
        )
        order = (
            np.random.default_rng([1, world]).permutation(N_USERS)
            if useless
            else np.arange(N_USERS)
        )
        new = dv.SharedOutcome(forum.test.participation, forum.test.outcome)
        return forum.features[order], dv.SharedOutcome(forum.participation, forum.outcome), new

    return draw


def measurements(world: int) -> Drawn:
    forum, rng = dv.datasets.agreement(N_USERS, 1, seed=world), np.random.default_rng([2, world])

    def measured(user: np.ndarray) -> dv.UserRegression:
        outcome = forum.latent[user] + 10.0 * rng.standard_normal(len(user))
        return dv.UserRegression(user, np.ones((len(user), 1)), outcome, n_users=N_USERS)

    return (
        forum.features,
        measured(np.repeat(np.arange(N_USERS), 3)),
        measured(rng.integers(0, N_USERS, N_NEW)),
    )


DESIGNS = {
    "threads, half of the users in each": threads(0.5),
    "threads, four users in each": threads(0.1),
    "the first, useless features": threads(0.5, useless=True),
    "three measurements of each user": measurements,
}


class Found(NamedTuple):
    """A difference of two fits, dual − single, and its true value; its error as if scores were
    independent, and by compare."""

    design: str
    world: int
    difference: float
    truth: float
    independent: float
    error: float
    unsure: int


def found(design: str, world: int, folds: int | None) -> Found:
    features, behavior, new = DESIGNS[design](world)
    options: dict[str, Any] = SAMPLER | {"random_state": world}
    models = {
        "dual": dv.DualViewMixture(**options).fit(features, behavior),
        "single": dv.DualViewMixture(1, **options).fit(None, behavior),
    }
    scores = scores_of(models, folds=folds)
    terms, n = scores["dual"].elpd - scores["single"].elpd, behavior.n_observations
    independent = len(terms) * terms.var(ddof=1)
    shared = shared_variance(scores["dual"].influence, scores["single"].influence)
    return Found(
        design,
        world,
        float(terms.sum()),
        n * (models["dual"].score(None, new) - models["single"].score(None, new)),
        float(np.sqrt(independent)),
        float(np.sqrt(independent + shared)),
        int(scores["dual"].unsure.sum() + scores["single"].unsure.sum()),
    )


def summary(results: pd.DataFrame) -> Iterator[str]:
    yield "| data | worlds | difference | true | errors | sd of z | clearly behind | wrongly |"
    yield "|---|---:|---:|---:|---|---:|---:|---:|"
    for design, own in results.groupby("design", sort=False):
        away = own["difference"] - own["truth"]
        for name, errors in (("independent", own["independent"]), ("compare", own["error"])):
            clear = [
                standing(abs(d), e) == "clearly behind"
                for d, e in zip(own["difference"], errors, strict=True)
            ]
            wrong = np.array(clear) & (own["difference"] * own["truth"] < 0).to_numpy()
            cells = [
                str(design),
                str(len(own)),
                f"{own['difference'].mean():.1f} ± {own['difference'].std():.1f}",
                f"{own['truth'].mean():.1f} ± {own['truth'].std():.1f}",
                name,
                f"{(away / errors).std():.2f}",
                str(sum(clear)),
                str(wrong.sum()),
            ]
            yield f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare_errors", description="Errors of compare."
    )
    parser.add_argument("worlds", type=int, nargs="?", default=40)
    parser.add_argument("--folds", type=int)
    parser.add_argument(
        "--only", type=int, nargs="+", choices=range(len(DESIGNS)), default=range(len(DESIGNS))
    )
    parser.add_argument("--out", type=Path, help="CSV file of all worlds")
    plan = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # short chains
    results = []
    for world in range(plan.worlds):
        results += [
            found(design, world, plan.folds) for i, design in enumerate(DESIGNS) if i in plan.only
        ]
        if plan.out is not None:
            pd.DataFrame(results).to_csv(plan.out, index=False)
    print("\n".join(summary(pd.DataFrame(results))))


if __name__ == "__main__":
    main()
