"""Chains on disk: chunks of draws with the state that follows them.

A run's folder holds manifest.json, a lock, and a folder per chain with chunks named
START-STOP-LEVEL-DIGEST.h5: HDF5 files with the draws of iterations START to STOP and the chain's
state at STOP. The digest is of the file's own bytes, so that a torn or foreign file is known by its
name. Sixteen chunks of a level are joined to one of the next, so that files stay few. Where draws
lie further apart than every thin-th, the name ends in -STRIDE.h5; when a growing chain thins its
draws, its chunks are written again with fewer.
"""

import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from dualview.chains.schedule import Spacing
from dualview.chains.snapshot import Snapshot
from dualview.chains.storage import Piece, Record, joined
from dualview.errors import FileError
from dualview.files.writing import make_folder, write_whole

_NAME = re.compile(r"(\d{10})-(\d{10})-(\d)-([0-9a-f]{16})(?:-(\d+))?\.h5")
_FAN = 16
_LAST_LEVEL = 9  # chunks of it are joined no more
_LARGEST = 64_000_000  # bytes of a chunk that is still joined with others


@dataclass(frozen=True)
class Chunk:
    """A file of draws; stride is None where every thin-th state is one."""

    path: Path
    start: int
    stop: int
    level: int
    digest: str
    stride: int | None = None

    @classmethod
    def at(cls, path: Path) -> "Chunk | None":
        match = _NAME.fullmatch(path.name)
        if match is None:
            return None
        return cls(
            path,
            int(match[1]),
            int(match[2]),
            int(match[3]),
            match[4],
            int(match[5]) if match[5] else None,
        )

    def content(self) -> bytes | None:
        """The file's bytes, or None when they are not what was written."""
        try:
            content = self.path.read_bytes()
        except OSError:
            return None
        return content if _digest(content) == self.digest else None


class ChainFiles:
    """The chunks of one chain. Only those that follow each other from iteration 0 without a gap
    count."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make_folder(folder)
        self._chunks = self._usable()

    def _usable(self) -> list[Chunk]:
        found = [chunk for path in self._folder.iterdir() if (chunk := Chunk.at(path)) is not None]
        usable: list[Chunk] = []
        reached = 0
        for chunk in sorted(found, key=lambda c: (c.start, -c.stop)):
            if chunk.start == reached and chunk.stop > chunk.start and chunk.content() is not None:
                usable.append(chunk)
                reached = chunk.stop
        return usable

    @property
    def iteration(self) -> int:
        """How far the chain has come on disk."""
        return self._chunks[-1].stop if self._chunks else 0

    def discard_rest(self) -> None:
        """Remove what does not count: torn chunks, parts of joined ones, unfinished temporary
        files."""
        kept = {chunk.path for chunk in self._chunks}
        for path in self._folder.iterdir():
            if path not in kept and (Chunk.at(path) is not None or path.name.endswith(".part")):
                path.unlink(missing_ok=True)

    def snapshot(self) -> Snapshot | None:
        """The chain as it was when the last good chunk was written."""
        return _read(self._chunks[-1])[1] if self._chunks else None

    def append(self, piece: Piece, snapshot: Snapshot, spacing: Spacing) -> None:
        """Write the draws since the last chunk, with the state that follows them; chunks with
        closer draws are thinned."""
        stride = None if piece.stride == spacing.thin else piece.stride
        self._add(_packed(piece.record, snapshot), self.iteration, snapshot.iteration, 0, stride)
        if any(chunk.stride != stride for chunk in self._chunks):
            self._thin(stride, spacing)
        while self._join():
            pass

    def _add(self, content: bytes, start: int, stop: int, level: int, stride: int | None) -> None:
        digest = _digest(content)
        apart = "" if stride is None else f"-{stride}"
        path = self._folder / f"{start:010d}-{stop:010d}-{level}-{digest}{apart}.h5"
        write_whole(path, content)
        self._chunks.append(Chunk(path, start, stop, level, digest, stride))

    def _thin(self, stride: int | None, spacing: Spacing) -> None:
        """Write chunks again with draws that lie further apart, as few as their size allows.

        Where old and new files are both found, either is good.
        """
        before, self._chunks = self._chunks, []
        group: list[Chunk] = []
        for chunk in before:
            group.append(chunk)
            if chunk is before[-1] or sum(one.path.stat().st_size for one in group) > _LARGEST:
                self._rewrite(group, stride, spacing)
                group = []

    def _rewrite(self, group: list[Chunk], stride: int | None, spacing: Spacing) -> None:
        read = [_read(chunk) for chunk in group]
        pieces = [
            Piece(chunk.start, chunk.stop, chunk.stride or spacing.thin, record)
            for chunk, (record, _) in zip(group, read, strict=True)
        ]
        content = _packed(joined(pieces, stride or spacing.thin, spacing), read[-1][1])
        self._add(content, group[0].start, group[-1].stop, _LAST_LEVEL, stride)
        for chunk in group:
            if chunk.path != self._chunks[-1].path:
                chunk.path.unlink(missing_ok=True)

    def _join(self) -> bool:
        """Join the last chunks when there are enough of one level."""
        level, stride = self._chunks[-1].level, self._chunks[-1].stride
        parts = self._chunks[-_FAN:]
        if len(parts) < _FAN or level == _LAST_LEVEL or any(part.level != level for part in parts):
            return False
        if sum(part.path.stat().st_size for part in parts) > _LARGEST:
            return False
        read = [_read(part) for part in parts]
        content = _packed(Record.joined([record for record, _ in read]), read[-1][1])
        del self._chunks[-_FAN:]
        self._add(content, parts[0].start, parts[-1].stop, level + 1, stride)
        for part in parts:
            part.path.unlink(missing_ok=True)
        return True

    def stride(self, spacing: Spacing) -> int:
        """Iterations between draws, at the most."""
        return max((chunk.stride or spacing.thin for chunk in self._chunks), default=spacing.thin)

    def pieces(self, spacing: Spacing) -> Iterator[Piece]:
        """All draws, chunk by chunk."""
        for chunk in self._chunks:
            yield Piece(chunk.start, chunk.stop, chunk.stride or spacing.thin, _read(chunk)[0])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _packed(record: Record, snapshot: Snapshot) -> bytes:
    """An HDF5 file in memory."""
    groups = {
        "fixed": record.fixed,
        "ragged": record.ragged,
        "scalars": record.scalars,
        "state": snapshot.arrays(),
    }
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.attrs["iteration"] = snapshot.iteration
        file.attrs["generator"] = snapshot.generator_text()
        for name, arrays in groups.items():
            group = file.create_group(name)
            for variable, values in arrays.items():
                group.create_dataset(variable, data=values)
    return buffer.getvalue()


def _read(chunk: Chunk) -> tuple[Record, Snapshot]:
    content = chunk.content()
    if content is None:
        raise FileError(f"{chunk.path} has changed while the run was using it.")
    with h5py.File(io.BytesIO(content), "r") as file:
        fixed, ragged, scalars, state = (
            {name: np.asarray(values[()]) for name, values in file[group].items()}
            for group in ("fixed", "ragged", "scalars", "state")
        )
        snapshot = Snapshot.from_arrays(
            int(file.attrs["iteration"]), state, str(file.attrs["generator"])
        )
    return Record(fixed, ragged, scalars, snapshot.moments), snapshot
