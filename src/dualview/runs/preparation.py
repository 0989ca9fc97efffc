"""Tables before a run: their codebook, a folder of shards, and copies of those that come from
pipes."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dualview.columns import codebook_text, describe_columns, doubt_text
from dualview.errors import DualViewError, InputError
from dualview.files.reading import copy_stream, is_stream
from dualview.files.writing import check_place, make_folder, write_whole, wrote
from dualview.inputs.sharding import shard_tables
from dualview.inputs.table_files import separator_advice
from dualview.inputs.tables import GivenTable, require_users
from dualview.settings import Columns

_WIDTH = 80  # of a reason in the printed codebook; the file has it whole
_FOLDER = "inputs"  # of a run, with the copies


def write_codebook(users: Path, out: Path | None, user_column: str) -> str:
    """Write the codebook of a table to a TOML file and return a table to read; without a file,
    return the TOML."""
    if out is not None:
        check_place(out)
    given = GivenTable.read(users, [user_column])
    advice = separator_advice(given.frame.columns)
    if advice:
        raise InputError(f"{users} has one column, {given.frame.columns[0]!r}. {advice}")
    require_users(given)
    table = given.frame.drop(columns=user_column, errors="ignore")
    if not table.shape[1]:
        raise InputError(
            f"{users} has no columns besides {user_column!r}: there is nothing to describe."
        )
    if out is None:
        return codebook_text(table)
    write_whole(out, codebook_text(table).encode())
    described = describe_columns(table)
    doubts = "".join(
        f"\nIn doubt: {doubt_text(name, kind, doubt)}."
        for name, kind, doubt in described[["column", "kind", "doubt"]].to_numpy()
        if doubt
    )
    shown = described.drop(columns="doubt").to_string(
        index=False, max_colwidth=_WIDTH, formatters={"missing": "{:.3f}".format}
    )
    return f"{shown}{doubts}\n{wrote(out)}"


def write_shards(
    users: Path, threads: Path | None, out: Path, names: Columns, sizes: tuple[int, int], drop: bool
) -> str:
    """Write the folder, and return a text on what is in it."""
    shards, notes = shard_tables(out, users, threads, names, sizes, drop)
    told = f"{shards!r}".removeprefix("Shards(").removesuffix(")")
    lines = [f"{note}." for note in notes]
    fit = f'To fit: dv.DualViewMixture(engine="variational").fit(dv.Shards({str(out)!r}))'
    return "\n".join([*lines, f"Wrote {out}: {told}.", fit])


@contextmanager
def keep_streams(run: Path) -> Iterator[Callable[[str | None, str], str | None]]:
    """A function that copies what a pipe gives to the run's folder and returns the copy's path;
    other paths stay.

    A copy's name has a digest of its content, so that no other content ever takes its place. A fit
    that is refused before its run begins leaves no copy.
    """
    made: dict[Path, str] = {}

    def keep(path: str | None, name: str) -> str | None:
        if path is None or not is_stream(Path(path)):
            return path
        copy = _copied(Path(path), run / _FOLDER, name)
        made[copy] = path
        return str(copy.absolute())

    try:
        yield keep
    except DualViewError as error:
        if not made or (run / "manifest.json").exists():
            raise
        _remove(list(made), run)
        message = str(error)
        for copy, path in made.items():
            message = message.replace(str(copy.absolute()), path)
        raise type(error)(message) from error


def _copied(path: Path, folder: Path, name: str) -> Path:
    make_folder(folder)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        copy = copy_stream(path, Path(place), name)
        with open(copy, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
        kept = folder / f"{name}-{digest}{copy.name.removeprefix(name)}"
        os.replace(copy, kept)
    return kept


def _remove(copies: list[Path], run: Path) -> None:
    """Remove copies, and the folders that they leave empty."""
    for copy in copies:
        copy.unlink(missing_ok=True)
    for folder in (run / _FOLDER, run):
        with suppress(OSError):  # it holds something else
            folder.rmdir()
