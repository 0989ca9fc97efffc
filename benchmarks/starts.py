"""Do chains from everybody in one cluster and from k-means reach the same posterior? ``python -m
benchmarks.starts [repeats]``.

Of each scenario of the paper, 50 users and 100 threads: two chains from each start, 5,000
iterations, the first 500 left out, with other seeds in each repeat; rank-normalized R̂ over the
four chains. Then a forum of 500 users in ten clusters that overlap: clusters along a chain from a
single cluster and one from forty at random, with splits and merges and without.
"""

import itertools
import sys
import warnings
from typing import Any
from unittest.mock import patch

import numpy as np

import dualview as dv
from benchmarks import mixing, scale
from benchmarks.paste import as_table, printed
from dualview.engines.gibbs import GibbsEngine, steps
from dualview.engines.gibbs.moves import assignment, split_merge
from dualview.model import Model
from dualview.partitions.choice import partition_prior
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
        model = dv.DualViewMixture(
            alpha="paper",
            init=start,
            random_state=100 * repeat + number,
            engine=dv.Gibbs(n_warmup=500),
            n_draws=4500,
            n_chains=2,
        )
        post = model.fit(forum.features, behavior).posterior_
        parts = {name: post[name].astype(float) for name in SCALARS} | {
            "mean latent": post["latent"].mean(axis=2)
        }
        for view in ("features", "behavior"):
            for part in BASE:
                values = post[f"{view}.{part}"]
                parts[f"{view}.{part}"] = values.reshape(*values.shape[:2], -1)[..., 0]
        for name, values in parts.items():
            chains.setdefault(name, []).append(values.reshape(2, -1))
    return table({name: np.concatenate(parts) for name, parts in chains.items()})["r_hat"]


def agreement(n_repeats: int) -> None:
    """R̂ over the repeats: of the scalar that has the largest in each, and of the number of
    clusters."""
    rows = [("scenario", "", "median", "largest", "below 1.01")]
    for scenario in mixing.SCENARIOS:
        found = [r_hats(scenario, repeat) for repeat in range(n_repeats)]
        for name, values in (
            ("largest of a repeat", [r.max() for r in found]),
            ("number of clusters", [r["n_clusters"] for r in found]),
        ):
            below = np.count_nonzero(np.array(values) < 1.01)
            numbers = f"{np.median(values):.4f}", f"{max(values):.4f}", f"{below} of {n_repeats}"
            rows.append((scenario, name, *numbers))
        print(f"{scenario}: slowest {', '.join(sorted({r.idxmax() for r in found}))}", flush=True)
    printed("starts", as_table(rows))


def journey(n_users: int = 500) -> None:
    """From far away on a larger forum, with splits and merges and without; in blocks, where they
    can be left out."""
    data = np.random.default_rng(0)
    z = data.integers(0, scale.N_CLUSTERS, n_users)
    centers = data.standard_normal((scale.N_CLUSTERS, scale.N_FEATURES))
    features = centers[z] + data.standard_normal((n_users, scale.N_FEATURES))
    working = np.ascontiguousarray(Whitening.of_data(features).to_working(features))
    likelihood = scale.forum(n_users, 10 * n_users)[1].prepare(None)[1]
    model = Model(partition_prior(None), working, likelihood, n_users)
    starts = {
        "one cluster": np.zeros(n_users, dtype=np.int64),
        "forty at random": data.integers(0, 40, n_users),
    }
    rows = [["from", "splits and merges", *(f"{place:,}" for place in PLACES)]]
    without = tuple(
        split_merge.run_without_moves if move is split_merge.run else move for move in steps.MOVES
    )
    for (name, start), moves in itertools.product(starts.items(), (steps.MOVES, without)):
        rng, engine, seen = np.random.default_rng(1), GibbsEngine(), []
        with patch.object(assignment, "BLOCK", n_users - 1), patch.object(steps, "MOVES", moves):
            state = engine.start(rng, model, start)
            for iteration in range(1, PLACES[-1] + 1):
                state = engine.step(rng, model, state)
                if iteration in PLACES:
                    seen.append(str(np.count_nonzero(state.counts >= 5)))
        rows.append([name, "without" if moves is without else "with", *seen])
    printed("starts far away", as_table(rows))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agreement(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
        journey()
