"""Which prior of α? ``python -m benchmarks.alpha [--seeds 10] [--draws 800]`` prints two tables in
Markdown.

The first is of features without structure: 50 users, one Gaussian of 2 to 6 dimensions. How many
clusters has the partition estimate, and how probable are one cluster and more clusters than half
the users? The second is of the paper's scenarios with 50 users and 50 threads: adjusted Rand index
and test NLL beside those under the paper's prior, paired by the forum and its seed. A last case has
many clusters and features alone: 60 users in twelve clusters of five.
"""

import argparse
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score

import dualview as dv

N_USERS, N_THREADS = 50, 50
DIMENSIONS = (2, 3, 4, 5, 6)
SCENARIOS = ("agreement", "disagreement", "iris", "twelve clusters")
PRIORS: dict[str, Any] = {
    "paper": "paper",
    "Gamma(1, 1)": dv.Gamma(1, 1),
    "Gamma(2, 4)": dv.Gamma(2, 4),
    "Gamma(1, 4)": dv.Gamma(1, 4),
    "Gamma(1/2, 1/2)": dv.Gamma(0.5, 0.5),
    "Gamma(1/4, 1/4)": dv.Gamma(0.25, 0.25),
}


class Effort(NamedTuple):
    """How many data sets of each kind, and how long the two chains of a fit run."""

    n_seeds: int
    n_draws: int


def fitted(
    alpha: Any, effort: Effort, seed: int, features: Any, behavior: Any = None
) -> dv.DualViewMixture:
    """Two chains under this prior of α."""
    model = dv.DualViewMixture(
        alpha=alpha,
        engine=dv.Gibbs(n_warmup=effort.n_draws // 2),
        n_draws=effort.n_draws,
        n_chains=2,
        n_jobs=1,
        random_state=seed,
    )
    return model.fit(features, behavior)


def structureless(effort: Effort) -> None:
    """Clusters that are found where there are none."""
    print(
        "| prior of α | one cluster found | largest n_clusters_ | P(K = 1) | mean K | P(K > "
        f"{N_USERS // 2}) |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for name, alpha in PRIORS.items():
        found, draws = [], []
        for n_dims in DIMENSIONS:
            for seed in range(effort.n_seeds):
                x = np.random.default_rng([seed, n_dims]).standard_normal((N_USERS, n_dims))
                model = fitted(alpha, effort, seed, x)
                found.append(model.n_clusters_)
                draws.append(model.posterior_.flat("n_clusters"))
        k = np.concatenate(draws)
        ones = f"{np.count_nonzero(np.equal(found, 1))} of {len(found)}"
        many = np.mean(k > N_USERS / 2)
        print(
            f"| {name} | {ones} | {max(found)} | {np.mean(k == 1):.2f} | {k.mean():.1f} | "
            f"{many:.2f} |",
            flush=True,
        )


def scores(scenario: str, alpha: Any, effort: Effort, seed: int) -> tuple[float, float]:
    """Adjusted Rand index and test NLL of one fit; no NLL without threads."""
    if scenario == "twelve clusters":
        rng = np.random.default_rng(seed)
        labels = np.repeat(np.arange(12), 5)
        model = fitted(
            alpha,
            effort,
            seed,
            4.0 * rng.standard_normal((12, 2))[labels] + 0.5 * rng.standard_normal((60, 2)),
        )
        return float(adjusted_rand_score(labels, model.labels_)), np.nan
    forum = getattr(dv.datasets, scenario)(N_USERS, N_THREADS, seed=seed)
    model = fitted(
        alpha, effort, seed, forum.features, dv.SharedOutcome(forum.participation, forum.outcome)
    )
    nll = model.predict_outcome(forum.test.participation).nll(forum.test.outcome)
    return float(adjusted_rand_score(forum.labels, model.labels_)), float(nll)


def scenarios(effort: Effort, names: Sequence[str]) -> None:
    """What another prior gains and loses where there are clusters."""
    print("| scenario | prior of α | ARI | less the paper's | test NLL | less the paper's |")
    print("|---|---|---:|---:|---:|---:|")
    for scenario in names:
        paper = None
        for name, alpha in PRIORS.items():
            found = np.array(
                [scores(scenario, alpha, effort, seed) for seed in range(effort.n_seeds)]
            )
            paper = found if paper is None else paper
            cells = []
            for values, before in zip(found.T, paper.T, strict=True):
                change = values - before
                error = change.std(ddof=1) / np.sqrt(len(change))
                first = name == "paper" or np.isnan(error)
                cells += [
                    f"{values.mean():.3f}".replace("nan", ""),
                    "" if first else f"{change.mean():+.4f} ± {error:.4f}",
                ]
            print(f"| {scenario} | {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10, help="data sets of each kind")
    parser.add_argument(
        "--draws",
        type=int,
        default=800,
        help="draws of each of two chains, after half as many to warm up",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=SCENARIOS,
        help="these cases only, and not the structureless ones",
    )
    arguments = parser.parse_args()
    effort = Effort(arguments.seeds, arguments.draws)
    warnings.simplefilter("ignore")  # chains this short are said not to have converged
    if arguments.only is None:
        structureless(effort)
        print()
    scenarios(effort, arguments.only or SCENARIOS)


if __name__ == "__main__":
    main()
