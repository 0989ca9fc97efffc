"""Files that are written whole or not at all."""

import os
import tempfile
from pathlib import Path

from dualview.errors import FileError


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the place, force to disk, then move there: a reader sees the old file or the new one, never a part."""
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"{path} could not be written: {reason}. What was saved before is as it was.") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the move itself last, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows cannot open a folder
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder where there is none."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{path} cannot be made a folder: {error.strerror or error}.") from error
