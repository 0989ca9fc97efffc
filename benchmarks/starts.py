"""Do chains from everybody in one cluster and from k-means reach the same posterior? ``python -m benchmarks.starts [repeats]``.

Of each scenario of the paper, 50 users and 100 threads: two chains from each start, 5,000 iterations, the first 500 left out,
with other seeds in each repeat; rank-normalised R̂ over the four chains. Then a forum of 500 users in ten clusters that overlap:
log joint density and clusters along a chain from each start.
"""

import sys
import warnings
from typing import Any

import numpy as np

import dualview as dv
from benchmarks import mixing, scale
from dualview.inference import gibbs
from dualview.model import Model
from dualview.partitions import partition_prior
from dualview.posterior.diagnostics import table
from dualview.units import Whitening

STARTS = ("one", "kmeans")
SCALARS = ("log_joint", "n_clusters", "alpha", "noise_precision")
BASE = ("base_dof", "base_covariance", "base_precision")
PLACES = (10, 50, 100, 200, 500, 1000)


def r_hats(scenario: str, repeat: int) -> Any:
    """R̂ by scalar."""
    forum = getattr(dv.datasets, scenario)(50, 100, seed=0)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    chains: dict[str, list[np.ndarray]] = {}
    for number, start in enumerate(STARTS):
        model = dv.DualViewMixture(init=start, random_state=100 * repeat + number, n_warmup=500, n_draws=4500, n_chains=2)
        post = model.fit(forum.features, behavior).posterior_
        parts = {name: post[name].astype(float) for name in SCALARS} | {"mean latent": post["latent"].mean(axis=2)}
        for view in ("features", "behavior"):
            for part in BASE:
                values = post[f"{view}.{part}"]
                parts[f"{view}.{part}"] = values.reshape(*values.shape[:2], -1)[..., 0]
        for name, values in parts.items():
            chains.setdefault(name, []).append(values.reshape(2, -1))
    return table({name: np.concatenate(parts) for name, parts in chains.items()})["r_hat"]


def agreement(n_repeats: int) -> None:
    """The largest R̂ of every repeat."""
    print("Largest R-hat of a repeat (its scalar), and that of the number of clusters")
    for scenario in mixing.SCENARIOS:
        found = [r_hats(scenario, repeat) for repeat in range(n_repeats)]
        largest = [f"{r.max():.4f} ({r.idxmax()})" for r in found]
        clusters = [f"{r['n_clusters']:.4f}" for r in found]
        print(f"  {scenario}: {', '.join(largest)}; clusters {', '.join(clusters)}", flush=True)


def journey(n_users: int = 500) -> None:
    """From far away on a larger forum."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, scale.N_CLUSTERS, n_users)
    features = rng.standard_normal((scale.N_CLUSTERS, scale.N_FEATURES))[z] + rng.standard_normal((n_users, scale.N_FEATURES))
    behavior = scale.forum(n_users, 10 * n_users)[1]
    working = np.ascontiguousarray(Whitening.of_data(features).to_working(features))
    model = Model(partition_prior(None), working, behavior.prepare(None)[1], n_users)
    print(f"\nClusters of at least five users, and log joint, after iterations {', '.join(map(str, PLACES))}: {n_users} users")
    for name, start in {
        "one cluster": np.zeros(n_users, dtype=np.int64),
        "forty at random": rng.integers(0, 40, n_users),
    }.items():
        state, seen = gibbs.start(rng, model, start), []
        for iteration in range(1, PLACES[-1] + 1):
            state, _ = gibbs.step(rng, model, state, 3)
            if iteration in PLACES:
                seen.append(f"{np.count_nonzero(state.counts >= 5)} ({model.log_joint(state):.0f})")
        print(f"  {name}: {', '.join(seen)}")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agreement(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
        journey()
