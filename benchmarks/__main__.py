"""All benchmarks, as ratios within one run: ``python -m benchmarks [--quick] [--peers] [--out
bench.json]``.

Times are CPU seconds of this process after compilation, which is measured on its own in fresh
processes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dualview as dv
from benchmarks import mixing, scale
from benchmarks.paste import as_table, printed
from dualview.chains.chain import Chain
from dualview.chains.schedule import FixedLength
from dualview.engines.gibbs import GibbsEngine
from dualview.model import Model
from dualview.partitions.choice import partition_prior
from dualview.units import Whitening

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import naive

N_USERS, N_THREADS = 50, 100
PLAIN = "plain sampler, dual-DP"
GROWTH = "users", "CPU of a sweep (ms)", "wall time (ms)", "growth exponent", "peak (GB)"

FIT = """
import time
began = time.perf_counter()
import dualview as dv
imported = time.perf_counter() - began
forum = dv.datasets.agreement(20, 30, seed=0)
behavior = dv.SharedOutcome(forum.participation, forum.outcome)
began = time.perf_counter()
import warnings
warnings.simplefilter("ignore")
dv.DualViewMixture(engine=dv.Gibbs(n_warmup=1), n_draws=1, n_chains=1).fit(forum.features, behavior)
print(imported, time.perf_counter() - began)
"""


def start_up() -> dict[str, float]:
    """Seconds to import, and to a first fit's end without and with compiled code on disk, each in a
    fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        runs = []
        for _ in range(2):
            run = subprocess.run(
                [sys.executable, "-c", FIT],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            runs.append([float(value) for value in run.stdout.split()])
    return {"import_s": runs[1][0], "first_fit_s": runs[0][1], "cached_fit_s": runs[1][1]}


def seconds_per_call(function: Callable[[], object], n: int) -> float:
    """CPU seconds of one call, after some that are not counted."""
    for _ in range(max(1, n // 10)):
        function()
    began = time.process_time()
    for _ in range(n):
        function()
    return (time.process_time() - began) / n


def sampler(
    n_clusters: int | None, features: np.ndarray | None, behavior: dv.SharedOutcome
) -> Callable[[int, bool], float]:
    """Microseconds of an iteration of the shipped sampler: n of them, kept or not, as a fit makes
    them."""
    working = (
        None
        if features is None
        else np.ascontiguousarray(Whitening.of_data(features).to_working(features))
    )
    model = Model(partition_prior(n_clusters), working, behavior.prepare(None)[1], N_USERS)
    z = np.arange(N_USERS) % (n_clusters or 5)

    def run(n: int, kept: bool) -> float:
        schedule = FixedLength(0 if kept else n - 1, n if kept else 1)
        began = time.process_time()
        Chain(0, np.random.SeedSequence(0), model, GibbsEngine(), lambda _: z, schedule).run()
        return 1e6 * (time.process_time() - began) / n

    run(100, True)
    return run


def numpy_twin(forum: dv.datasets.Forum) -> Callable[[], object]:
    """One sweep of the transparent twin in NumPy at a time, dual view with an inferred number of
    clusters."""
    rng = np.random.default_rng(0)
    features = Whitening.of_data(forum.features).to_working(forum.features)
    data = {
        "design": forum.participation,
        "outcome": forum.outcome,
        "noise_variance": float(forum.outcome.var(ddof=1)),
    }
    state, _ = naive.draw_prior(rng, N_USERS, {"features": 2, "behavior": 1}, **data)
    one = (np.zeros(2), np.eye(2)), (np.zeros(1), 1000.0 * np.eye(1))
    data |= {
        "features": features,
        "feature_constants": one[0],
        "behavior_constants": one[1],
        "partition": ("dp", None),
    }

    def sweep() -> None:
        nonlocal state
        state = naive.gibbs_sweep(rng, state, data)

    return sweep


def steps() -> dict[str, Any]:
    """Microseconds of CPU an iteration at 50 users and 100 threads: three models, the plain
    sampler, the NumPy twin."""
    forum = dv.datasets.agreement(N_USERS, N_THREADS, seed=0)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    model = mixing.problem("agreement")
    z = np.arange(N_USERS) % 5
    mixing.plain_twin(model, z, 10, 0)
    n = 10_000
    samplers = {
        "dual-DP": sampler(None, forum.features, behavior),
        "dual-fixed, 5 clusters": sampler(5, forum.features, behavior),
        "single": sampler(1, None, behavior),
    }
    return {
        **{name: run(n, False) for name, run in samplers.items()},
        **{
            f"{name.split(',')[0]}, every draw kept": run(n, True) for name, run in samplers.items()
        },
        PLAIN: 1e6 * mixing.plain_twin(model, z, n, 0)[1] / n,
        "NumPy twin, dual-DP": 1e6 * seconds_per_call(numpy_twin(forum), 10),
    }


def growth(quick: bool) -> list[dict[str, float]]:
    """Sweeps of skewed forums with ten threads a user, and how time grows from size to size."""
    rows: list[dict[str, float]] = []
    for n_users in (50, 500, 5000) if quick else (50, 500, 5000, 50_000):
        row = scale.sweeps(n_users, 10 * n_users, max(20, 20_000 // n_users))
        if rows:
            before = rows[-1]
            row["exponent"] = np.log(row["sweep_cpu_s"] / before["sweep_cpu_s"]) / np.log(
                n_users / before["users"]
            )
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="shorter chains, no forum of 50,000 users"
    )
    parser.add_argument(
        "--peers", action="store_true", help="JAGS and NumPyro as well, where installed (minutes)"
    )
    parser.add_argument("--out", type=Path, default=None, help="write the numbers as JSON")
    options = parser.parse_args()
    result: dict[str, Any] = {"start_up": start_up()}
    imported, first, cached = result["start_up"].values()
    head = "import", "first fit, compiling", "first fit, compiled before"
    printed(
        "start-up", as_table([head, (f"{imported:.2f} s", f"{first:.0f} s", f"{cached:.1f} s")])
    )

    result["steps"] = made = steps()
    rows = [("sampler", "µs", "times the plain sampler's speed")]
    rows += [
        (name, f"{micros:,.0f}", f"{made[PLAIN] / micros:.3g}") for name, micros in made.items()
    ]
    printed("iteration", as_table(rows))

    result["growth"] = growth(options.quick)
    rows = [
        (
            f"{row['users']:,.0f}",
            f"{1e3 * row['sweep_cpu_s']:.2f}",
            f"{1e3 * row['sweep_s']:.2f}",
            f"{row['exponent']:.2f}" if "exponent" in row else "",
            f"{row['peak_gb']:.2f}",
        )
        for row in result["growth"]
    ]
    printed("growth", as_table([GROWTH, *rows]))

    n, seeds = (4000, (0,)) if options.quick else (20_000, (0, 1, 2))
    result["mixing"] = [mixing.compare(scenario, n, seeds) for scenario in mixing.SCENARIOS]
    printed("mixing", mixing.table(result["mixing"]))
    printed("speed", mixing.short_table(result["mixing"]))
    if options.peers:
        result["peers"] = mixing.compare_peers()
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1))
        print(f"\nwrote {options.out}")


if __name__ == "__main__":
    main()
