"""What compiling kernels as parts of others and in two processes gains: ``python -m
benchmarks.compiling [--out FILE]``.

Each row is a fresh process with an empty cache of compiled code. It fits a model of one draw, for
which everything is compiled, and then a longer one, whose speed shows what the compiled code is
worth and whose draws must be the same in every row.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

N_DRAWS = 20_000

PROGRAM = """
import hashlib, json, os, resource, sys, time, warnings
import dualview as dv
warnings.simplefilter("ignore")
if sys.argv[2] == "collector":
    from dualview.numerics import parts
    parts.around_kernels.remove(parts._with_rare_collections)
forum = dv.datasets.agreement(50, 100, seed=0)
behavior = dv.SharedOutcome(forum.participation, forum.outcome)

def fit(n):
    cpu, wall = sum(os.times()[:4]), time.perf_counter()
    model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=n - 1), n_draws=1, n_chains=1)
    model = model.fit(forum.features, behavior)
    return sum(os.times()[:4]) - cpu, time.perf_counter() - wall, model.posterior_

cpu, wall, _ = fit(1)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
n = int(sys.argv[1])
fit(100)
spent, _, posterior = fit(n)
draws = hashlib.sha256(posterior["latent"].tobytes() + posterior["z"].tobytes()).hexdigest()
found = {"cpu_s": cpu, "wall_s": wall, "peak_gb": peak, "iteration_us": 1e6 * spent / n}
print(json.dumps(found | {"draws": draws}))
"""

ROWS = (
    ("two processes, the default", "1", "two"),
    ("one process", "1", "one"),
    ("one process, the collector as always", "1", "collector"),
    ("no parts (`DUALVIEW_COMPILE_PARTS=0`)", "0", "one"),
)


def measure(switch: str, way: str) -> dict[str, Any]:
    """Seconds to a first fit, CPU of both processes; peak memory until then; speed and draws of a
    longer fit."""
    with tempfile.TemporaryDirectory() as folder:
        processes = "2" if way == "two" else "1"
        environment = os.environ | {"NUMBA_CACHE_DIR": folder, "DUALVIEW_COMPILE_PARTS": switch}
        environment["DUALVIEW_COMPILE_PROCESSES"] = processes
        command = [sys.executable, "-c", PROGRAM, str(N_DRAWS), way]
        finished = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        )
    result: dict[str, Any] = json.loads(finished.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compiling", description=__doc__)
    parser.add_argument("--out", type=Path, default=None, help="write the numbers as JSON")
    options = parser.parse_args()
    rows = {name: measure(switch, way) for name, switch, way in ROWS}
    first = next(iter(rows.values()))
    print(
        "| kernels | CPU (s) | ratio | wall time (s) | peak (GB) | iteration (µs) "
        "|\n|---|---|---|---|---|---|"
    )
    for name, row in rows.items():
        print(
            f"| {name} | {row['cpu_s']:.1f} | {row['cpu_s'] / first['cpu_s']:.2f} | "
            f"{row['wall_s']:.1f} | "
            f"{row['peak_gb']:.2f} | {row['iteration_us']:.0f} |"
        )
    same = len({row["draws"] for row in rows.values()}) == 1
    print("\nThe draws are the same in every row." if same else "\nThe draws differ between rows.")
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1))
        print(f"\nwrote {options.out}")


if __name__ == "__main__":
    main()
