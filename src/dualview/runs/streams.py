"""Tables that come to a fit from pipes: copies stay in the run's folder, for everything that reads
the tables again."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dualview.errors import DualViewError
from dualview.files.reading import copy_stream, is_stream
from dualview.files.writing import make_folder

_FOLDER = "inputs"


@contextmanager
def kept_streams(run: Path) -> Iterator[Callable[[str | None, str], str | None]]:
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
