"""Do default fits end with a passed verdict, and when? ``python -m benchmarks.finished [seeds]
[scenario ...]``;
``python -m benchmarks.finished shares [users draws chains]``: where the CPU time of a fit goes.

Each scenario of the paper, 50 users and 100 threads, in 20 worlds or as many as are asked for, each
with a sampler's seed of its own: fits with default settings, one after the other, with as many
chains at a time as there are cores. Seconds are of the whole fit, looks and verdict included; what
is compiled is compiled before. A fit that has not passed ends at the default limit of draws. The
last columns say how good a finished fit is: the adjusted Rand index of its partition estimate
against the truth.

The shares are those of chains of fixed length (50 users, two chains of 18,000 draws after 2,000
iterations, unless asked otherwise): the chains and the posterior of their draws, the partition
estimate and what else follows from the posterior, and the verdict.
"""

import math
import sys
import time
import warnings
from typing import NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score

import dualview as dv
from benchmarks import mixing
from benchmarks.paste import as_table
from dualview.inputs.data import checked_data
from dualview.inputs.fits import fit_model, warn_of_fit
from dualview.inputs.parameters import Parameters
from dualview.inputs.problem import build_model


class Fit(NamedTuple):
    """One fit."""

    passed: bool
    seconds: float
    cpu_seconds: float
    n_iterations: int
    share_of_warmup: float
    rand: float


def fitted(scenario: str, seed: int) -> Fit:
    forum = getattr(dv.datasets, scenario)(50, 100, seed=seed)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    began, cpu = time.monotonic(), time.process_time()
    model = dv.DualViewMixture(random_state=seed).fit(forum.features, behavior)
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    post = model.posterior_
    assert post.length is not None
    share = post.length.n_warmup / post.length.n_iterations
    rand = float(adjusted_rand_score(forum.labels, model.labels_))
    return Fit(post.converged, seconds, cpu, post.length.n_iterations, share, rand)


def shares(n_users: int, n_draws: int, n_chains: int) -> None:
    """Print CPU seconds of the parts of one fit, and their shares."""
    forum = dv.datasets.agreement(n_users, 2 * n_users, seed=1)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    for n in (100, n_draws):  # the first compiles
        parameters = dv.DualViewMixture(
            engine=dv.Gibbs(n_warmup=n // 9), n_draws=n, n_chains=n_chains
        )
        given = Parameters.of(parameters)
        problem = build_model(given, checked_data(parameters, forum.features, behavior))
        marks = [time.process_time()]
        post = fit_model(given, problem)[0]
        marks.append(time.process_time())
        labels = dv.DualViewMixture.from_posterior(post).labels_
        marks.append(time.process_time())
        warn_of_fit(post, labels)
        marks.append(time.process_time())
    seconds = np.diff(marks)
    rows = [
        (name, f"{own:.1f}", f"{100 * own / seconds.sum():.0f} %")
        for name, own in zip(("chains", "partition estimate", "verdict"), seconds, strict=True)
    ]
    print(as_table([("part", "CPU seconds", "share"), *rows]))


def line(scenario: str, fits: list[Fit]) -> str:
    """A row: fits that passed, then medians with the largest in brackets, and the mean Rand index
    with its standard error."""
    passed, *numbers = np.array(fits, dtype=float).T
    cells = [
        f"{np.median(values):{form}} ({values.max():{form}})"
        for values, form in zip(numbers[:3], (".1f", ".1f", ",.0f"), strict=True)
    ]
    rand = (
        f"{numbers[4].mean():.3f} ± {numbers[4].std(ddof=1) / math.sqrt(len(fits)):.3f}"
        if len(fits) > 1
        else "–"
    )
    shares = f"{np.median(numbers[3]):.0%}"
    return (
        f"| {scenario} | {int(passed.sum())} of {len(fits)} | {' | '.join(cells)} | {shares} "
        f"| {rand} |"
    )


def main(n_seeds: int, scenarios: list[str]) -> None:
    """A table of all scenarios, and how many of all fits have passed."""
    everything: list[Fit] = []
    fitted(scenarios[0], 0)  # compiles
    print(
        "| scenario | passed | seconds | CPU seconds | iterations a chain | warm-up | adjusted "
        "Rand index |"
    )
    print("|---|---|---|---|---|---|---|")
    for scenario in scenarios:
        fits = [fitted(scenario, seed) for seed in range(n_seeds)]
        print(line(scenario, fits), flush=True)
        everything += fits
    print(f"\n{sum(fit.passed for fit in everything)} of {len(everything)} fits pass.")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if sys.argv[1:2] == ["shares"]:
            shares(*(int(text) for text in (sys.argv[2:] or ("50", "18000", "2"))))
            sys.exit()
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:] or list(mixing.SCENARIOS))
