"""Files that are written whole or not at all."""

import contextlib
import os
import secrets
from pathlib import Path

from dualview.errors import FileError


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the place, force to disk, then move there: a reader sees the old file or the new one, never a part."""
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:  # less what the umask takes, as of any new file
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"{path} could not be written: {reason}. What was saved before is unchanged.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


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
    except (OSError, ValueError) as error:  # a NUL in a name is a ValueError
        reason = getattr(error, "strerror", None) or error
        shown = str(path).replace("\0", "\\0")
        raise FileError(f"{shown} cannot be made a folder: {reason}.") from error
