"""Priors of a discount that is learned, and mixtures of finite mixtures: clusters found where there
are three, none, and twelve of very different sizes.

``python -m benchmarks.discount`` prints a row for each world and prior over partitions, in two
minutes.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

import dualview as dv

PRIORS: dict[str, Any] = {
    "Dirichlet process": None,
    "finite mixtures": dv.FiniteMixtures(),
    "discount, Beta(1, 1)": dv.PitmanYor(dv.Beta(1, 1)),
    "discount, Beta(1, 2)": dv.PitmanYor(dv.Beta(1, 2)),
    "discount, Beta(1, 3)": dv.PitmanYor(dv.Beta(1, 3)),
}
N_WORLDS = 3


def worlds(
    rng: np.random.Generator,
) -> Iterator[tuple[str, NDArray[np.float64], NDArray[np.int64]]]:
    """Features of some users, and their clusters, by name."""
    z, angles = np.arange(60) % 3, 2.0 * np.pi * np.arange(3) / 3.0
    centers = 6.0 * np.column_stack([np.cos(angles), np.sin(angles)])
    yield "three", centers[z] + rng.normal(size=(60, 2)), z
    yield "none", rng.normal(size=(60, 2)), np.zeros(60, dtype=np.int64)
    sizes = np.maximum(1, 30.0 / np.arange(1, 13) ** 1.3).astype(np.int64)
    z = np.repeat(np.arange(12), sizes)
    yield "twelve", 12.0 * rng.normal(size=(12, 2))[z] + rng.normal(size=(len(z), 2)), z


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    print("| clusters | prior | in a draw | in the estimate | adjusted Rand | discount |")
    print("|---|---|---:|---:|---:|---:|")
    for seed in range(N_WORLDS):
        for world, x, z in worlds(np.random.default_rng(seed)):
            for name, prior in PRIORS.items():
                engine = dv.Gibbs(n_warmup=1000, max_draws=1000)
                model = dv.DualViewMixture(prior, n_chains=2, n_jobs=1, engine=engine).fit(x)
                post = model.posterior_
                discount = f"{post['discount'].mean():.2f}" if "discount" in post else ""
                print(
                    f"| {world} | {name} | {post['n_clusters'].mean():.1f} | {model.n_clusters_} | "
                    f"{adjusted_rand_score(z, model.labels_):.2f} | {discount} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
