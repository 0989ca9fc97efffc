"""Grouping of posts: ``python -m benchmarks.forum [--posts 5000000]`` makes a forum, reads it, and
reads it with Polars beside.

Each reading runs in a process of its own, for its peak memory. The twin in Polars does the grouping
only: order in threads, early participants, lengths, users' counts and pairs of replies. It is the
part that the embedded engine was chosen for.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

READ = """
import json, sys, time
import numpy, pandas, scipy.sparse, scipy.stats, sklearn.utils.validation
import dualview as dv
dv.forum.read_forum
began = time.perf_counter()
forum = dv.forum.read_forum(sys.argv[1])
seconds = time.perf_counter() - began
cpu = time.process_time()
memory = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
peak = int(memory.split()[1]) / 2**20
print(json.dumps({"seconds": seconds, "cpu_s": cpu, "peak_gb": peak, "users": len(forum.features)}))
"""

GROUP = """
import json, sys, time
from pathlib import Path
from dualview.forum.archive import Archive
from dualview.forum.options import ForumOptions
from dualview.forum.threads import build_threads
from dualview.forum import activity
began = time.perf_counter()
with Archive(Path(sys.argv[1]), ForumOptions()) as archive:
    threads = build_threads(archive)
    activity._mark_training(archive, threads)
    archive.arrays(activity._habits_query(archive))
    archive.arrays(activity._edges_query(archive))
    seconds = time.perf_counter() - began
cpu = time.process_time()
memory = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
peak = int(memory.split()[1]) / 2**20
print(json.dumps({"seconds": seconds, "cpu_s": cpu, "peak_gb": peak, "threads": len(threads.ids)}))
"""

POLARS = """
import json, sys, time
import polars as pl
began = time.perf_counter()
path, m = sys.argv[1], 5
scan = pl.scan_parquet(path) if path.endswith(".parquet") else pl.scan_csv(path)
posts = scan.with_columns(seconds=pl.col("created_utc").cast(pl.Float64)).unique(
    subset=["link_id", "id"], keep="first", maintain_order=True).collect()
posts = posts.sort("link_id", "seconds", maintain_order=True)
posts = posts.with_columns(position=pl.int_range(pl.len()).over("link_id"),
    starter=pl.col("author").first().over("link_id"))
threads = posts.group_by("link_id").agg(length=pl.len(), start=pl.col("seconds").min(),
    section=pl.col("subreddit").first(),
    early=pl.col("seconds").filter(pl.col("position") < m).max())
used = threads.filter(pl.col("length") > m).sort("start")
cut = used["start"][int(0.8 * len(used))]
early = posts.filter(pl.col("position") < m).group_by("link_id", "author").len()
begun = threads.filter(pl.col("start") < cut).select("link_id")
training = posts.join(begun, on="link_id", how="semi").filter(pl.col("seconds") < cut)
habits = training.group_by("author").agg(posts=pl.len(), threads=pl.col("link_id").n_unique(),
    started=(pl.col("position") == 0).sum(), characters=pl.col("text_len").sum(),
    points=pl.col("score").sum(),
    first=pl.col("seconds").min(), last=pl.col("seconds").max())
who = training.select("link_id", parent_key=pl.concat_str(pl.lit("t1_"), "id"), target="author")
edges = (training.filter(pl.col("position") > 0)
    .join(who, left_on=["link_id", "parent_id"], right_on=["link_id", "parent_key"], how="left")
    .with_columns(pl.col("target").fill_null(pl.col("starter")))
    .filter(pl.col("target") != pl.col("author"))
    .group_by("author", "target").len())
seconds = time.perf_counter() - began
cpu = time.process_time()
memory = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
peak = int(memory.split()[1]) / 2**20
found = {"seconds": seconds, "cpu_s": cpu, "peak_gb": peak}
print(json.dumps(found | {"threads": len(used), "pairs": len(edges)}))
"""


def make_posts(n_posts: int, seed: int = 0) -> pd.DataFrame:
    """Posts as Reddit's archives have them, with heavy-tailed lengths and activity, in the order of
    time."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(np.rint(1 + rng.pareto(1.1, n_posts) * 4).astype(np.int64), 2000)
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), n_posts)) + 1]
    thread = np.repeat(np.arange(len(lengths)), lengths)[:n_posts]
    position = np.arange(n_posts) - (np.cumsum(lengths) - lengths)[thread]
    n_users = max(n_posts // 20, 10)
    user = np.minimum(rng.pareto(0.9, n_posts) * 20, n_users - 1).astype(np.int64)
    begin = 1.5e9 + 1e8 * np.sort(rng.random(len(lengths)))
    time = np.floor(begin[thread] + position * rng.exponential(900.0, n_posts))
    parent = (
        np.arange(n_posts)
        - 1
        - (rng.random(n_posts) * np.maximum(position - 1, 0)).astype(np.int64)
    )
    names, ids = (
        np.array([f"user_{u}" for u in range(n_users)]),
        np.char.add("p", np.arange(n_posts).astype(str)),
    )
    threads = np.char.add("t3_", np.arange(len(lengths)).astype(str))[thread]
    table = pd.DataFrame(
        {
            "id": ids,
            "link_id": threads,
            "author": names[user],
            "created_utc": time.astype(np.int64),
            "parent_id": np.where(
                position == 0, threads, np.char.add("t1_", ids[np.maximum(parent, 0)])
            ),
            "subreddit": np.array([f"section {s}" for s in range(12)])[
                (rng.random(len(lengths)) ** 2 * 12).astype(int)
            ][thread],
            "score": rng.poisson(2.0, n_posts),
            "text_len": rng.integers(1, 2000, n_posts),
        }
    )
    return table.sort_values("created_utc", kind="stable", ignore_index=True)


def measured(program: str, path: Path) -> dict[str, float]:
    """What the program says of itself, in a fresh process."""
    run = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise SystemExit(run.stderr)
    result: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forum", description=__doc__)
    parser.add_argument("--posts", type=int, default=5_000_000)
    parser.add_argument("--out", type=Path, default=None, help="write the numbers as JSON")
    options = parser.parse_args()
    result: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        table = make_posts(options.posts)
        paths = {kind: Path(folder) / f"posts.{kind}" for kind in ("parquet", "csv")}
        table.to_parquet(paths["parquet"], index=False)
        table.to_csv(paths["csv"], index=False)
        del table
        for kind, path in paths.items():
            found = {
                name: measured(program, path)
                for name, program in (("all", READ), ("grouped", GROUP), ("polars", POLARS))
            }
            result[kind] = found
            print(f"{options.posts} posts, {kind}, {path.stat().st_size / 1e6:.0f} MB")
            for name, row in found.items():
                print(
                    f"  {name:8s} {row['seconds']:7.2f} s   {row['cpu_s']:7.2f} s of CPU   peak "
                    f"{row['peak_gb']:.2f} GB"
                )
            ratios = [
                found["grouped"][name] / found["polars"][name]
                for name in ("seconds", "cpu_s", "peak_gb")
            ]
            print(
                "  DuckDB beside Polars: {:.2f} times the time, {:.2f} the CPU, {:.2f} the "
                "memory".format(*ratios)
            )
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
