"""Files that are written whole or not at all, and the one rule for every path that a user names.

A link is followed: its target gets the new content, and the link stays. Pipes, terminals and other
character devices are written through. A dash, or /dev/stdout, is standard output. Folders, disks
and sockets are refused.
"""

import contextlib
import json
import os
import re
import secrets
import stat
import sys
from pathlib import Path
from typing import Any

from dualview.errors import FileError

_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the place, force to disk, then move there: a reader sees the old file or the new
    one, never a part.

    What is no file, such as a pipe, is written through. A BrokenPipeError says that nobody reads
    standard output any more.
    """
    check_place(path)
    try:
        if (number := _descriptor(path)) is not None:
            _write_open(number, content)
        elif path.exists() and not path.is_file():
            with open(path, "wb", buffering=0) as stream:
                _write_all(stream.fileno(), content)
        else:
            _replace(Path(os.path.realpath(path)), content)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and is_standard_output(path):
            raise
        reason = error.strerror or str(error)
        raise FileError(
            f"{path} could not be written: {reason}. What was saved before is unchanged."
        ) from error


def write_json(path: Path, content: Any) -> None:
    """Write plain values as JSON, whole or not at all."""
    write_whole(path, json.dumps(content, indent=2, ensure_ascii=False).encode())


def check_place(path: Path) -> None:
    """Raise where no file can be written; called before the work that fills it, too."""
    if _descriptor(path) is not None:
        return
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = None
    except (OSError, ValueError) as error:  # a NUL in a name is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{_shown(path)} could not be written: {reason}.") from error
    if mode is None:
        target = Path(os.path.realpath(path))
        if not target.parent.is_dir():
            raise FileError(
                f"{path} could not be written: there is no folder {target.parent}; make it first."
            )
    elif stat.S_ISDIR(mode):
        raise FileError(f"{path} is a folder: name the file to write, such as {path / 'FILE'}.")
    elif stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        what = "a disk" if stat.S_ISBLK(mode) else "a socket"
        raise FileError(f"{path} is {what}: name a file, a pipe or a character device to write to.")
    elif stat.S_ISREG(mode) and not os.access(path, os.W_OK):
        raise FileError(
            f"{path} could not be written: it is read-only. Name another file, or allow writing "
            "to it."
        )


def is_standard_output(path: Path | None) -> bool:
    """Whether a path means standard output: then nothing else may be printed there."""
    return path is not None and _descriptor(path) == 1


def _descriptor(path: Path) -> int | None:
    """The number of the open file that a path means; None for a path on disk."""
    if str(path) == "-":
        return 1
    place = os.path.abspath(path)
    found = _DESCRIPTOR.fullmatch(place)
    return int(found[1]) if found else _STANDARD.get(place)


def _write_open(number: int, content: bytes) -> None:
    """Write to a file that is open already, behind what was printed before."""
    printed = {1: sys.stdout, 2: sys.stderr}.get(number)
    if printed is not None:
        printed.flush()
        buffer = getattr(printed, "buffer", None)
        if buffer is not None:
            buffer.write(content)
            buffer.flush()
            return
    _write_all(number, content)


def _write_all(number: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(number, rest) :]


def _replace(path: Path, content: bytes) -> None:
    """Put a new file in the place of an old one, with the permissions of the old one or, without
    one, of any new file."""
    temporary = path.parent / f".{path.name[:40]}.{secrets.token_hex(4)}.part"
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
        with os.fdopen(
            os.open(temporary, flags, 0o666), "wb"
        ) as file:  # less what the umask takes, as of any new file
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _keep_permissions(path, temporary)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _keep_permissions(old: Path, new: Path) -> None:
    """Give a new file the owner and the mode of an old one, where there is one and as far as the
    system lets us."""
    try:
        before, now = old.stat(), new.stat()
    except FileNotFoundError:
        return
    if hasattr(os, "chown") and (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
        with contextlib.suppress(PermissionError):
            os.chown(new, before.st_uid, before.st_gid)
    if stat.S_IMODE(before.st_mode) != stat.S_IMODE(now.st_mode):
        os.chmod(new, stat.S_IMODE(before.st_mode) & 0o777)


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


def check_folder_place(path: Path) -> None:
    """Raise where a path means standard output or another open file, and a folder is wanted;
    called before the work that fills it, too."""
    if _descriptor(path) is not None:
        raise FileError(f"{path} cannot be made a folder: it means an open file. Name a folder.")


def make_folder(path: Path) -> None:
    """Make a folder where there is none."""
    check_folder_place(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # a NUL in a name is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{_shown(path)} cannot be made a folder: {reason}.") from error


def wrote(*paths: Path) -> str:
    """A sentence that says where something was written."""
    places = ["to standard output" if is_standard_output(path) else _shown(path) for path in paths]
    return f"Wrote {', '.join(places)}."


def _shown(path: Path) -> str:
    """A path in a message, which cannot hold a NUL."""
    return str(path).replace("\0", "\\0")
