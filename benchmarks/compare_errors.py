"""Are the standard errors of ``dv.compare`` right, and its verdicts? ``python -m benchmarks.compare_errors [worlds]``.

40 worlds or as many as are asked for: 40 users in five clusters, 60 threads among them. In one design everybody is in half of
the threads, as in the paper; in the other a thread has four users on average. The dual model and one without clusters are
fitted to the threads. The difference of their leave-one-out scores estimates that of their log densities of 60 new threads of
the same users, which 2,000 new threads tell. The table has the standard deviation of (estimate − truth) / standard error over
worlds, which should be one, for the error that takes scores as independent and for that of ``compare``, and how often a fit was
"clearly behind" with each, and how often the other one was. ``--folds 5``: the same for refits.
"""

import argparse
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dualview as dv
from dualview.comparison import compare, observation_scores, standing

N_USERS, N_THREADS, N_NEW = 40, 60, 2000
SAMPLER: dict[str, Any] = {"n_warmup": 300, "n_draws": 400, "n_chains": 2, "n_jobs": 1}
DESIGNS = {"half of the users": 0.5, "four users": 0.1}


class Found(NamedTuple):
    """A difference of two fits, dual − single, and its true value; its error as if scores were independent, and by compare."""

    design: str
    world: int
    difference: float
    truth: float
    independent: float
    error: float
    unsure: int


def found(design: str, world: int, folds: int | None) -> Found:
    forum = dv.datasets.agreement(N_USERS, N_THREADS, N_NEW, participation_rate=DESIGNS[design], seed=world)
    threads = dv.SharedOutcome(forum.participation, forum.outcome)
    new = dv.SharedOutcome(forum.test.participation, forum.test.outcome)
    options: dict[str, Any] = SAMPLER | {"random_state": world}
    models = {
        "dual": dv.DualViewMixture(**options).fit(forum.features, threads),
        "single": dv.DualViewMixture(1, **options).fit(None, threads),
    }
    table = compare(models) if folds is None else compare(models, folds=folds)
    terms = observation_scores(models["dual"]).elpd - observation_scores(models["single"]).elpd
    return Found(
        design,
        world,
        float(table.loc["dual", "elpd"] - table.loc["single", "elpd"]),
        N_THREADS * (models["dual"].score(None, new) - models["single"].score(None, new)),
        float(np.sqrt(N_THREADS * terms.var(ddof=1))),
        float(table["difference_se"].max()),
        int(table["unsure"].sum()),
    )


def summary(results: pd.DataFrame) -> Iterator[str]:
    yield "| a thread has | worlds | difference | true | errors | sd of z | clearly behind | wrongly |"
    yield "|---|---:|---:|---:|---|---:|---:|---:|"
    for design, own in results.groupby("design", sort=False):
        away = own["difference"] - own["truth"]
        for name, errors in (("independent", own["independent"]), ("compare", own["error"])):
            clear = [standing(abs(d), e) == "clearly behind" for d, e in zip(own["difference"], errors, strict=True)]
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare_errors", description="Errors of compare.")
    parser.add_argument("worlds", type=int, nargs="?", default=40)
    parser.add_argument("--folds", type=int)
    parser.add_argument("--out", type=Path, help="CSV file of all worlds")
    plan = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # short chains
    results = []
    for world in range(plan.worlds):
        results += [found(design, world, plan.folds) for design in DESIGNS]
        if plan.out is not None:
            pd.DataFrame(results).to_csv(plan.out, index=False)
    print("\n".join(summary(pd.DataFrame(results))))


if __name__ == "__main__":
    main()
