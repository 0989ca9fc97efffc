"""Time and memory of partition estimates for very many users: no users × users matrix is formed."""

import resource
import sys
import time

import numpy as np

from dualview.posterior import partition


def noisy_partitions(n_users: int, n_draws: int) -> np.ndarray:
    """Draws that scatter around one partition in twelve clusters."""
    rng = np.random.default_rng(0)
    base = rng.integers(0, 12, n_users)
    draws = (
        np.where(rng.random(n_users) < 0.1, rng.integers(0, 15, n_users), base)
        for _ in range(n_draws)
    )
    return np.array(list(draws), dtype=np.int32)


def main(n_users: int = 100_000, n_draws: int = 500) -> None:
    z = noisy_partitions(n_users, n_draws)
    partition.least_loss(z[:5, :100], "vi")  # compiles
    print(f"{n_users} users × {n_draws} draws")
    for name, estimate in {
        "dahl": lambda: partition.dahl(z),
        "binder": lambda: partition.least_loss(z, "binder"),
        "vi": lambda: partition.least_loss(z, "vi"),
    }.items():
        began = time.perf_counter()
        estimate()
        print(f"{name:12s} {time.perf_counter() - began:8.1f} s")
    unit = 1 if sys.platform == "darwin" else 1024
    print(f"peak memory  {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9:8.2f} GB")


if __name__ == "__main__":
    main()
