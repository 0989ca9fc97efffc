"""The folder of a run: its manifest, its lock and its chains."""

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from dualview._version import __version__
from dualview.errors import FileError, InputError
from dualview.files.writing import make_folder, write_whole

if TYPE_CHECKING:
    from dualview.chains.checkpoint import ChainFiles

_FORMAT = "dualview run"
_LOCKED = 1 << 20  # the place of the byte that Windows locks, far beyond what the file says
UNTIL_GOOD = "until converged"  # in place of a number of iterations
_VERSION = (
    3  # also counts samplers: chains that another one began would continue with other numbers
)


def versions() -> dict[str, str]:
    """What the numbers depend on besides data and settings."""
    packages = ("numpy", "scipy", "numba", "scikit-learn")
    return {
        "dualview": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def _readable_manifest(folder: Path) -> dict[str, Any]:
    """A folder's manifest as it is; empty if it cannot be read: whoever needs it says why."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    is_ours = isinstance(manifest, dict) and manifest.get("format") == _FORMAT
    return manifest if is_ours else {}


def began_with(folder: Path, name: str) -> Any:
    """What a run in a folder was begun with, by name; None if the folder does not say."""
    made_with = _readable_manifest(folder).get("made_with")
    return made_with.get(name) if isinstance(made_with, dict) else None


def check_not_newer(folder: Path) -> None:
    """Raise where a folder's manifest says that a newer version made the run, whose files may mean
    something else."""
    manifest = _readable_manifest(folder)
    found = manifest.get("format_version")
    if isinstance(found, int) and found > _VERSION:
        made = manifest.get("versions")
        by = f" {made['dualview']}" if isinstance(made, dict) and "dualview" in made else ""
        raise FileError(
            f"{folder} was made by a newer version of dualview{by} (format {found}; dualview "
            f"{__version__} reads formats up to "
            f"{_VERSION}). Use that version or a later one: pip install --upgrade dualview."
        )


class FolderLock:
    """A lock that dies with its process."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        try:
            self._file = open(self._path, "a+")
            _lock(self._file)
        except BlockingIOError:
            assert self._file is not None
            self._file.seek(0)
            owner = self._file.read().strip() or "unknown"
            self._file.close()
            raise FileError(
                f"Another run is using {self._path.parent} (process {owner}). Wait for it, stop "
                "it, or use another folder."
            ) from None
        except OSError as error:
            raise FileError(
                f"{self._path} cannot be written: {error.strerror or error}."
            ) from error
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _lock(file: IO[str]) -> None:
    """Raise BlockingIOError when somebody else has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            file.seek(_LOCKED)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError as error:
            raise BlockingIOError from error
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class RunFolder:
    """A folder that is new, or that holds a run made with the same settings and data."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        make_folder(self.path)

    def lock(self) -> FolderLock:
        return FolderLock(self.path)

    def chain(self, index: int) -> "ChainFiles":
        """The files of one chain."""
        from dualview.chains.checkpoint import ChainFiles  # a summary is read without the sampler

        return ChainFiles(self.path / f"chain-{index}")

    def failure(self, index: int) -> str | None:
        """Why a chain failed in an earlier sitting; None where it did not."""
        path = self._failure_file(index)
        try:
            return path.read_text(encoding="utf-8") if path.exists() else None
        except (OSError, ValueError) as error:
            raise FileError(f"{path} cannot be read ({error}).") from error

    def note_failure(self, index: int, reason: str) -> None:
        """Keep why a chain failed: it would fail again in the same place."""
        write_whole(self._failure_file(index), reason.encode())

    def _failure_file(self, index: int) -> Path:
        return self.path / f"chain-{index}" / "failed.txt"

    def manifest(self) -> dict[str, Any] | None:
        """What the run was made with; None in a new folder."""
        path = self.path / "manifest.json"
        if not path.exists():
            if any(self.path.glob("chain-*")):
                raise FileError(
                    f"{self.path} has chains but no manifest.json: the run is incomplete. Use "
                    "another folder."
                )
            return None
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FileError(
                f"{path} cannot be read ({error}): it is damaged. Use another folder."
            ) from error
        if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
            raise FileError(f"{path} is not from a run of dualview. Use another folder.")
        check_not_newer(self.path)
        if manifest.get("format_version") != _VERSION:
            raise FileError(
                f"{self.path} was started by another version of dualview, whose sampler draws "
                "other numbers (format "
                f"{manifest.get('format_version')}, now {_VERSION}). Its posterior.nc can still "
                "be loaded; to continue it, use "
                "that version. To fit again, use another folder."
            )
        if (
            not isinstance(manifest.get("made_with"), dict)
            or not str(manifest.get("entropy", "")).isdecimal()
        ):
            raise FileError(
                f"{path} is damaged: it does not say what the run was made with. Use another "
                "folder."
            )
        return manifest

    def write_manifest(self, content: dict[str, Any]) -> None:
        """Write or replace manifest.json."""
        text = json.dumps({"format": _FORMAT, "format_version": _VERSION, **content}, indent=2)
        write_whole(self.path / "manifest.json", text.encode())

    def note_length(self, length: dict[str, Any]) -> None:
        """Keep how long the chains were and why they ended."""
        self.write_manifest({**(self.manifest() or {}), "length": length})

    def claim(self, made_with: dict[str, Any], notes: dict[str, Any]) -> dict[str, Any]:
        """Take the folder for a run; returns its manifest.

        made_with is what may not change between sittings, n_draws of a fixed length apart, which
        may grow. notes (seed, versions) are kept from the first sitting.
        """
        manifest = self.manifest()
        if manifest is None:
            manifest = {"made_with": made_with, **notes}
        else:
            changes = _changes(manifest["made_with"], made_with)
            if changes:
                raise InputError(
                    f"The run in {self.path} was made with other data or settings: "
                    f"{'; '.join(changes)}. Use the same "
                    "again, or another folder."
                )
            manifest = {**notes, **manifest, "made_with": made_with}
        self.write_manifest(manifest)
        return manifest


def _changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What differs, in words; digests of data are named, not shown."""
    changes = []
    grows = UNTIL_GOOD in (before.get("length"), now.get("length"))
    if now.get("engine") == "variational":  # these were noted, though they are of chains
        now = now | {
            name: before[name]
            for name in ("n_warmup", "thin", "n_auxiliary", "length")
            if name in before
        }
    for name in {**before, **now}:
        old, new = before.get(name), now.get(name)
        if name == "n_draws" and not grows and old is not None and new is not None:
            if new < old:
                changes.append(f"n_draws was {old} and can only grow, now {new}")
        elif old != new:
            hidden = any(
                isinstance(value, str) and value.startswith("sha256:") for value in (old, new)
            )
            changes.append(f"{name} has changed" if hidden else f"{name} was {old!r}, now {new!r}")
    return changes
