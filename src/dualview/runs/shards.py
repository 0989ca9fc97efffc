"""Tables of users and threads written as a folder of shards."""

from pathlib import Path

from dualview.inputs.sharding import shard_tables
from dualview.settings import Columns


def write_folder(
    users: Path, threads: Path | None, out: Path, names: Columns, sizes: tuple[int, int], drop: bool
) -> str:
    """Write the folder, and return a text on what is in it."""
    shards, notes = shard_tables(out, users, threads, names, sizes, drop)
    told = f"{shards!r}".removeprefix("Shards(").removesuffix(")")
    lines = [f"{note}." for note in notes]
    fit = f'To fit: dv.DualViewMixture(engine="variational").fit(dv.Shards({str(out)!r}))'
    return "\n".join([*lines, f"Wrote {out}: {told}.", fit])
