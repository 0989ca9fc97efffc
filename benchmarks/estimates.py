"""Which loss finds the true clusters best? ``python -m benchmarks.estimates [seeds]``.

Default fits to each scenario of the paper, 50 users and 100 threads, in 20 worlds or as many as are
asked for. Of each fit the partition estimates by all methods: adjusted Rand index against the
truth, with standard errors over worlds, differences to the default's in the same worlds, and the
mean number of clusters beside the true one.
"""

import sys
import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

import dualview as dv
from benchmarks import mixing
from dualview.posterior.partition import DEFAULT, METHODS

Array = NDArray[np.float64]


class Found(NamedTuple):
    """Of one world: adjusted Rand index and number of clusters by each method, and the true
    number."""

    rand: list[float]
    n_clusters: list[int]
    truth: int


def found(scenario: str, seed: int) -> Found:
    forum = getattr(dv.datasets, scenario)(50, 100, seed=seed)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    post = dv.DualViewMixture(random_state=seed).fit(forum.features, behavior).posterior_
    estimates = [post.partition(method) for method in METHODS]
    rand = [float(adjusted_rand_score(forum.labels, labels)) for labels in estimates]
    return Found(
        rand, [int(labels.max()) + 1 for labels in estimates], len(np.unique(forum.labels))
    )


def with_error(values: Array) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.3f} ± {error:.3f}"


def rows(scenario: str, worlds: list[Found]) -> list[str]:
    rand, sizes = (
        np.array([getattr(world, name) for world in worlds]) for name in ("rand", "n_clusters")
    )
    truth, own = np.mean([world.truth for world in worlds]), rand[:, METHODS.index(DEFAULT)]
    return [
        f"| {scenario} | {method}{' (default)' if method == DEFAULT else ''} | "
        f"{with_error(rand[:, i])} | "
        f"{'–' if method == DEFAULT else with_error(rand[:, i] - own)} | "
        f"{sizes[:, i].mean():.2f} | {truth:.2f} |"
        for i, method in enumerate(METHODS)
    ]


def main(n_seeds: int) -> None:
    print(
        "| scenario | method | adjusted Rand index | less the default's | clusters | true "
        "clusters |"
    )
    print("|---|---|---|---|---|---|")
    everything: list[Found] = []
    for scenario in mixing.SCENARIOS:
        worlds = [found(scenario, seed) for seed in range(n_seeds)]
        print("\n".join(rows(scenario, worlds)), flush=True)
        everything += worlds
    print("\n".join(rows("all", everything)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
