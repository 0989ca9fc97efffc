"""Files of posts as relations for SQL.

What a file is, is seen from its first bytes, not from its name: archives are named in many ways.
"""

import codecs
import csv
import lzma
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dualview.checks import require_extra
from dualview.errors import FileError, InputError
from dualview.files.reading import check_input, copy_stream, is_stream, packed_as, probe, unpacked

_BLOCK = 1 << 24
_LONGEST_LINE = 20_000_000
_DELIMITERS = ",\t;|"
_DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error)  # what unpacking a damaged file raises


@dataclass(frozen=True)
class Source:
    """A relation for SQL with the names and types of its columns. ``name`` is for messages,
    ``plain`` the text behind it."""

    relation: str
    types: dict[str, str]
    name: str
    plain: Path | None = None


def require_duckdb() -> Any:
    return require_extra("duckdb", "Reading forums needs", "forum")


def open_source(connection: Any, posts: Any, encoding: str, folder: Path) -> Source:
    """Posts from a file or a DataFrame; what must be unpacked or recoded on the way goes to the
    folder."""
    if not isinstance(posts, str | Path):
        return _frame(connection, posts)
    path = Path(posts)
    check_input(path, "a file of posts")
    file = copy_stream(path, folder, "piped") if is_stream(path) else path
    if file.stat().st_size == 0:
        raise InputError(f"{path} is empty: it must have a row per post.")
    plain = _plain(file, encoding, folder, str(path))
    begin = _opening(plain, str(path))
    if not begin.strip():
        raise InputError(f"{path} is empty: it must have a row per post.")
    if begin.startswith(b"PAR1"):
        return _described(connection, f"read_parquet({literal(str(plain))})", str(path))
    if begin.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        return _json(connection, plain, path)
    return _text_table(plain, path)


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def file_error(path: str, error: Exception) -> FileError:
    """The engine's complaint, in its first lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return FileError(f"{path} cannot be read: {'; '.join(lines[:3])}.")


def first_wrong_byte(source: Source) -> str | None:
    """Where the text behind a source stops being UTF-8, for a message; None where it does not, or
    cannot be unpacked."""
    if source.plain is None:
        return None
    try:
        with _opened(source.plain) as file:
            lines = iter(lambda: file.readline(_LONGEST_LINE), b"")
            for number, line in enumerate(lines, start=1):
                if len(line) == _LONGEST_LINE:
                    # its end may be cut inside a character, and it is too long whatever it holds
                    return None
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    return f"line {number} has the byte 0x{line[error.start]:02x}"
    except (*_DAMAGED, ValueError):
        pass
    return None


def _packed(path: Path) -> str:
    """How a file is packed, by its first bytes."""
    with open(path, "rb") as file:
        return packed_as(file.read(6))


def _opened(path: Path) -> AbstractContextManager[IO[bytes]]:
    return unpacked(path, _packed(path))


def _plain(path: Path, encoding: str, folder: Path, name: str) -> Path:
    """The file itself where the engine can read it, or a copy that it can."""
    packed = _packed(path)
    try:
        if packed == ".gz":
            probe(path, packed)
        elif packed:
            path = _copied(_unpacked(path, packed, name), folder / "unpacked")
        if encoding == "mixed" or codecs.lookup(encoding).name != "utf-8":
            with _opened(path) as file:
                if not file.peek(4).startswith(b"PAR1"):  # type: ignore[attr-defined]
                    path = _copied(_recoded(file, encoding), folder / "recoded")
    except UnicodeError as error:
        raise InputError(
            f"{name} is not in {encoding}: {error}. Give another --encoding, or 'mixed'."
        ) from error
    except _DAMAGED as error:
        raise _damaged(name, error) from error
    except ValueError as error:  # it unpacks to far too much
        raise FileError(f"{name} cannot be unpacked: {error}.") from error
    return path


def _copied(pieces: Iterator[bytes], copy: Path) -> Path:
    with open(copy, "wb") as out:
        for piece in pieces:
            out.write(piece)
    return copy


def _unpacked(path: Path, packed: str, name: str) -> Iterator[bytes]:
    if packed == ".zst":
        require_extra("zstandard", f"{name}: reading it needs", "forum")
    with unpacked(path, packed) as file:
        while block := file.read(_BLOCK):
            yield block


def _recoded(file: IO[bytes], encoding: str) -> Iterator[bytes]:
    """The content in UTF-8. Mixed: line by line, Windows-1252 where a line is not UTF-8."""
    if encoding != "mixed":
        decoder = codecs.getincrementaldecoder(encoding)()
        while block := file.read(_BLOCK):
            yield decoder.decode(block).encode()
        yield decoder.decode(b"", final=True).encode()
        return
    for line in file:
        try:
            line.decode()
            yield line
        except UnicodeDecodeError:
            yield line.decode("cp1252", errors="replace").encode()


def _opening(path: Path, name: str) -> bytes:
    try:
        with _opened(path) as file:
            return file.read(1 << 20)
    except _DAMAGED as error:
        raise _damaged(name, error) from error


def _damaged(name: str, error: Exception) -> FileError:
    return FileError(
        f"{name} cannot be unpacked: {error}. It is damaged or was cut short: get it again."
    )


def _described(connection: Any, relation: str, name: str) -> Source:
    duckdb = require_duckdb()
    try:
        rows = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    except duckdb.Error as error:
        raise file_error(name, error) from error
    return Source(relation, {row[0]: row[1] for row in rows}, name)


def _frame(connection: Any, posts: Any) -> Source:
    if not hasattr(posts, "columns") and not hasattr(posts, "column_names"):
        raise InputError(f"posts must be a file's path or a DataFrame; got {type(posts).__name__}.")
    duckdb = require_duckdb()
    try:
        connection.register("given_posts", posts)
    except (duckdb.Error, TypeError) as error:
        raise InputError(
            f"posts must be a file's path or a DataFrame; got {type(posts).__name__} ({error})."
        ) from error
    return _described(connection, "given_posts", "The table of posts")


def _json(connection: Any, plain: Path, path: Path) -> Source:
    """JSON lines, or one list. All values come as text: exports write the same field now as a
    number, now as a string."""
    sample = f"read_json({_packed_literal(plain)}, sample_size=20000)"
    return _as_text("read_json", "", _described(connection, sample, str(path)).types, plain, path)


def _packed_literal(plain: Path) -> str:
    """A file for SQL."""
    return f"{literal(str(plain))}, compression='{'gzip' if _packed(plain) else 'none'}'"


def _as_text(reader: str, options: str, names: Iterable[str], plain: Path, path: Path) -> Source:
    types = dict.fromkeys(names, "VARCHAR")
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in types)
    relation = f"{reader}({_packed_literal(plain)}, {options}columns={{{columns}}})"
    return Source(relation, types, str(path), plain)


def _text_table(plain: Path, path: Path) -> Source:
    """CSV with a header. Its dialect is taken from the header, because guesses from a sample go
    wrong in the millionth row."""
    header = (
        _opening(plain, str(path))
        .split(b"\n", 1)[0]
        .decode("utf-8-sig", errors="replace")
        .strip("\r")
    )
    delimiter = max(_DELIMITERS, key=header.count)
    try:
        names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter))]
    except csv.Error as error:
        raise FileError(
            f"{path} cannot be read: its first line is not a header of a table ({error})."
        ) from error
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(
            f"{path} must name each column once; more than once: {', '.join(map(repr, repeated))}."
        )
    options = (
        f"auto_detect=false, header=true, delim={literal(delimiter)}, quote='\"', escape='\"', "
        f"nullstr='', max_line_size={_LONGEST_LINE}, "
    )
    return _as_text("read_csv", options, names, plain, path)
