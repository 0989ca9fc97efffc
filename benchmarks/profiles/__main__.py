"""Profile regression on simulated people: ``python -m benchmarks.profiles [--quick] [--keep F]``.

The designs that PReMiuM simulates, rebuilt. Prints, as Markdown, for each design and engine: the
adjusted Rand index of the partition, beside that of the most probable groups by the true
parameters; how often intervals of 80 and 95 % have the true risk of a profile; the negative log
likelihood of new people's outcomes less that by the true parameters; CPU seconds of a fit, and how
many verdicts have passed. With --keep a run that was stopped continues.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.profiles import premium
from benchmarks.profiles.designs import DESIGNS
from benchmarks.profiles.fits import ENGINES, Result, Task, is_there, run
from benchmarks.profiles.records import Records

PREMIUM = "PReMiuM"
_HEAD = (
    "design",
    "fit by",
    "people",
    "profiles (true)",
    "ARI (best)",
    "risk in 80 %",
    "in 95 %",
    "NLL less the truth's",
    "CPU seconds",
    "passed",
)


def results(tasks: Sequence[Task], kept: Records) -> None:
    """Run each task that has no result yet."""
    for task in tasks:
        if task in kept.found:
            continue
        found = premium.run(task) if task.engine == PREMIUM else run(task)
        kept.add(task, found)
        said = found.note or f"ARI {found.ari:.3f}, {found.seconds:.0f} s, passed {found.passed}"
        print(f"{task.design}, {task.engine}, {task.seed}: {said}", file=sys.stderr, flush=True)


def table(tasks: Sequence[Task], kept: Records) -> Iterator[str]:
    """A row for each design and engine, over seeds; then, why some have none."""
    yield f"| {' | '.join(_HEAD)} |\n|---|---|{'---:|' * (len(_HEAD) - 2)}"
    refused: dict[str, list[str]] = {}
    for design, engine in dict.fromkeys((task.design, task.engine) for task in tasks):
        own = [kept.found[task] for task in tasks if (task.design, task.engine) == (design, engine)]
        there = [one for one in own if not one.note]
        if there:
            yield f"| {' | '.join([design, engine, *_cells(there)])} |"
        for one in own[: 1 - min(1, len(there))]:
            refused.setdefault(f"{engine}: {one.note}", []).append(design)
    for why, designs in refused.items():
        yield f"\nNot there for {'; '.join(designs)}. {why}"


def _cells(own: Sequence[Result]) -> Iterator[str]:
    def mean(name: str) -> float:
        return float(np.mean([getattr(one, name) for one in own]))

    yield str(own[0].n)
    yield f"{mean('n_clusters'):.1f} ({own[0].n_groups})"
    yield f"{mean('ari'):.3f} ({mean('best'):.3f})"
    n_risks = sum(one.n_risks for one in own)
    for place in range(2):
        yield f"{sum(one.inside[place] for one in own)} of {n_risks}" if n_risks else ""
    gaps = np.array([one.nll - one.true_nll for one in own])
    yield "" if np.isnan(gaps).any() else f"{gaps.mean():+.4f}"
    yield f"{mean('seconds'):.0f}"
    yield f"{sum(one.passed for one in own)} of {len(own)}" if n_risks else ""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.profiles", description="Profile regression on simulated people."
    )
    parser.add_argument("--designs", nargs="+", choices=list(DESIGNS), default=list(DESIGNS))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--seeds", type=int, default=5, help="data sets of each design")
    parser.add_argument("--max-time", type=float, default=600.0, help="seconds of a fit")
    parser.add_argument("--quick", action="store_true", help="a fifth of the people, one data set")
    parser.add_argument("--keep", type=Path, help="a file for results: to continue, or print again")
    plan = parser.parse_args(arguments)
    share, seeds, limit = (0.2, 1, 60.0) if plan.quick else (1.0, plan.seeds, plan.max_time)
    names = [name for name in plan.designs if is_there(DESIGNS[name])]
    engines = [*plan.engines, *([PREMIUM] if premium.is_installed() else [])]
    tasks = [
        Task(name, engine, seed, share, limit)
        for name, engine, seed in product(names, engines, range(seeds))
    ]
    kept = Records(plan.keep)
    results(tasks, kept)
    print("\n".join(table(tasks, kept)))
    if PREMIUM not in engines:
        print(f"\n{premium.ABSENT}")


if __name__ == "__main__":
    main()
