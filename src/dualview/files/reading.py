"""Files that a user names as input: pipes and devices as well as files, packed or not, and never
unpacked without a limit.

A pipe, such as ``<(zcat users.csv.gz)``, can be read only once. It is copied to a temporary file,
whose name says what its content shows it to be; everything behind this module reads files.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import re
import shutil
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from dualview.errors import FileError, InputError

_BLOCK = 1 << 20
# A zstd frame can hold 32,000 times its size, and is unpacked a block at a time.
_FRAME_BLOCK = 1 << 13
_WINDOW = 2**31  # Reddit's archives are compressed with windows as long as the format allows
_SAFE = 1 << 27  # 128 MB may be unpacked from anything
_MOST_TIMES = 300  # beyond that, no more than this many times what was read
_LONGEST_LINE = 1 << 24
_OPEN = re.compile(r"/dev/stdin|/(?:dev|proc/self)/fd/\d+")
_MAGIC = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"PK\x03\x04": ".zip",
}


@contextmanager
def input_file(path: Path) -> Iterator[Path]:
    """A file to be read as often as needed: the one at the path or, of a pipe or a device, a
    temporary copy of its content."""
    check_input(path)
    if not is_stream(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="dualview-input-") as folder:
        yield copy_stream(path, Path(folder), "content")


def check_input(path: Path, what: str = "a table") -> None:
    """Raise where there is nothing to read."""
    if path.is_dir():
        raise FileError(f"{path} is a folder, not {what}.")
    if not path.exists():
        raise FileError(f"{path}: there is no such file.")


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{path} cannot be read: {reason}.") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not a TOML file: {error}.") from error


@contextmanager
def readable_json(path: Path, advice: str) -> Iterator[Any]:
    """The content of a JSON file. What is wrong with the file, or with the content in the eyes of
    those who use it here, is one error that names the file and ends with advice."""
    try:
        yield json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise FileError(f"{path} cannot be read ({error}). {advice}") from error


def is_stream(path: Path) -> bool:
    """Whether what is at a path can be read only once, or is something else the next time: a pipe,
    a device, or what the shell has opened, as in ``dualview columns /dev/stdin < users.csv``."""
    is_open = _OPEN.fullmatch(os.path.abspath(path)) is not None
    return path.exists() and not path.is_dir() and (is_open or not path.is_file())


def copy_stream(path: Path, folder: Path, name: str) -> Path:
    """Copy what a pipe or a device gives into a folder; the endings of the copy's name say what a
    table it is."""
    copy = folder / name
    most = shutil.disk_usage(folder).free // 2
    try:
        with open(path, "rb") as source, open(copy, "wb") as target:
            while block := source.read(_BLOCK):
                if target.tell() == 0 and len(block) == _BLOCK and not block.strip(b"\0"):
                    raise FileError(f"{path} gives nothing but NUL characters.")
                if target.tell() > most:
                    raise FileError(
                        f"{path} gives more than half of what {folder} has room for, "
                        f"{most >> 20:,} MB."
                    )
                target.write(block)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}.") from error
    return copy.rename(copy.with_name(f"{name}{_endings(copy)}"))


def _endings(file: Path) -> str:
    """The endings of a name that fit the content of a table: .csv, .tsv.gz, .parquet and the
    like."""
    with open(file, "rb") as opened:
        begin = opened.read(8)
    if begin.startswith(b"PAR1"):
        return ".parquet"
    packed = packed_as(begin)
    try:
        with unpacked(file, packed) as stream:
            line = stream.readline(_BLOCK)
    except Exception:  # it is damaged in one way or another; who reads it will say so
        line = b""
    if line.lower().startswith(b"%%matrixmarket"):
        return f".mtx{packed}"
    kind = ".tsv" if b"\t" in line and b"," not in line else ".csv"
    return f"{kind}{packed}"


def packed_as(begin: bytes) -> str:
    """The ending that names of files have which begin with these bytes; none of files that are not
    packed."""
    return next((ending for magic, ending in _MAGIC.items() if begin.startswith(magic)), "")


@contextmanager
def unpacked(file: Path, ending: str | None = None) -> Iterator[IO[bytes]]:
    """The content of a file, packed as the ending of its name says or not at all.

    A ValueError ends what unpacks to very much more than its size: a few megabytes can hold
    terabytes of zeros.
    """
    ending = _ending(file) if ending is None else ending
    with ExitStack() as stack:
        raw = stack.enter_context(open(file, "rb"))
        if ending not in _OPENERS:
            yield raw
            return
        stream = _Limited(_OPENERS[ending](raw, stack), raw)
        yield stack.enter_context(io.BufferedReader(stream, _BLOCK))


def _ending(file: Path) -> str:
    """The ending of a file's name that says how it is packed."""
    *_, inner, outer = ["", "", *(suffix.lower() for suffix in file.suffixes)]
    return inner if inner == ".tar" and outer in _OPENERS else outer


def probe(file: Path, ending: str | None = None) -> None:
    """Raise a ValueError, within a second, where a file unpacks to very much more than its size
    from its beginning."""
    with unpacked(file, ending) as stream:
        if isinstance(stream, io.BufferedReader) and isinstance(stream.raw, _Limited):
            left = _SAFE + _BLOCK
            while left > 0 and (block := stream.read(_BLOCK)):
                left -= len(block)


def first_lines(file: Path) -> bytes:
    """The beginning of a text, which has at least one whole line; a ValueError where its first line
    has no end."""
    with unpacked(file) as stream:
        begin = stream.read(_LONGEST_LINE)
    if len(begin) == _LONGEST_LINE and not (b"\n" in begin or b"\r" in begin):
        raise ValueError(
            f"its first line must name columns, and has no end within {_LONGEST_LINE >> 20} MB"
        )
    return begin


class _Limited(io.RawIOBase):
    """What a stream unpacks, as long as that is not very much more than what was read of its
    file."""

    def __init__(self, stream: Any, packed: IO[bytes]) -> None:
        self._stream, self._packed = stream, packed
        self._n_made = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._stream.read(len(buffer))
        self._n_made += len(block)
        n_read = self._packed.tell()
        if self._n_made > max(_SAFE, _MOST_TIMES * n_read):
            raise ValueError(
                f"it unpacks to more than {_MOST_TIMES} times its size: {self._n_made >> 20:,} "
                "MB come from the first "
                f"{n_read / 2**20:.1f} MB. If that is right, unpack it first"
            )
        buffer[: len(block)] = block
        return len(block)


class _Frames(io.RawIOBase):
    """Zstandard, frame by frame, because the library's own streams pass over an end that is
    missing."""

    def __init__(self, raw: IO[bytes]) -> None:
        import zstandard

        self._wrong = zstandard.ZstdError
        self._frames = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
        self._frame = self._frames.decompressobj()
        self._raw, self._rest, self._made = raw, b"", memoryview(b"")
        self._begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._made and (block := self._rest or self._raw.read(_FRAME_BLOCK)):
            if self._frame.eof:
                self._frame = self._frames.decompressobj()
            self._begun = True
            try:
                self._made = memoryview(self._frame.decompress(block))
            except self._wrong as error:
                raise EOFError(str(error)) from error
            self._rest = self._frame.unused_data if self._frame.eof else b""
        if not self._made and self._begun and not self._frame.eof:
            raise EOFError("it ends before its content does")
        n = min(len(buffer), len(self._made))
        buffer[:n], self._made = self._made[:n], self._made[n:]
        return n


def _zip_member(raw: IO[bytes], stack: ExitStack) -> Any:
    archive = stack.enter_context(zipfile.ZipFile(raw))
    return stack.enter_context(archive.open(_only(archive.namelist(), "ZIP")))


def _tar_member(raw: IO[bytes], stack: ExitStack) -> Any:
    packed = packed_as(raw.read(8))
    raw.seek(0)
    if packed:
        probe(Path(raw.name), packed)  # the list of members is found by unpacking everything
    archive = stack.enter_context(tarfile.open(fileobj=raw))  # noqa: SIM115
    name = _only([member.name for member in archive.getmembers() if member.isfile()], "TAR")
    member = archive.extractfile(name)
    assert member is not None
    return stack.enter_context(member)


def _only(names: list[str], kind: str) -> str:
    if len(names) != 1:
        raise ValueError(f"a {kind} archive must hold one file; it holds {len(names)}")
    return names[0]


_OPENERS: dict[str, Callable[[IO[bytes], ExitStack], Any]] = {
    ".gz": lambda raw, stack: stack.enter_context(gzip.GzipFile(fileobj=raw)),
    ".bz2": lambda raw, stack: stack.enter_context(bz2.BZ2File(raw)),
    ".xz": lambda raw, stack: stack.enter_context(lzma.LZMAFile(raw)),  # noqa: SIM115
    ".zst": lambda raw, stack: io.BufferedReader(_Frames(raw), _BLOCK),  # noqa: ARG005
    ".zip": _zip_member,
    ".tar": _tar_member,
}
