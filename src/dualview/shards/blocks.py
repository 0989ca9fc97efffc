"""What one shard holds: some users, or some threads.

A block of U users has features (U, D) and may have ids. A block of T threads has outcomes (T,), and
who took part in them: the entries of thread t are starts[t] to starts[t + 1] of columns and
weights, and columns count through the block's own users, a sorted list of positions among all
users.
"""

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.errors import FileError

Array = NDArray[np.float64]


class UserBlock(NamedTuple):
    """Users in their order: features (U, D), and ids (U,) where they have some."""

    features: Array
    ids: NDArray[np.str_] | None = None


class ThreadBlock(NamedTuple):
    """Threads in their order: starts (T + 1,), columns and weights (E,) of entries, outcomes
    (T,)."""

    starts: NDArray[np.int64]
    columns: NDArray[np.uint32]
    weights: Array
    outcome: Array


def to_bytes(block: UserBlock | ThreadBlock) -> bytes:
    """A block as an NPZ file, without compression."""
    target = io.BytesIO()
    np.savez(target, **{name: part for name, part in block._asdict().items() if part is not None})
    return target.getvalue()


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an NPZ file by name; nothing in it is executed."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except MemoryError:
        raise
    except Exception as error:  # a damaged archive makes the readers below raise anything at all
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise FileError(
            f"{path} cannot be read as a shard: {reason[:300]}. Write the shards again."
        ) from error


def _refuse(path: Path, reason: str) -> FileError:
    return FileError(f"{path} is no shard of this folder: {reason}. Write the shards again.")


def read_users(path: Path, n_users: int, n_features: int, has_ids: bool) -> UserBlock:
    """Users of a file, which must be this many, with this many features."""
    arrays = _arrays(path)
    features, ids = arrays.get("features"), arrays.get("ids")
    if features is None or features.dtype != np.float64 or features.shape != (n_users, n_features):
        found = "none" if features is None else f"{features.shape} of {features.dtype}"
        raise _refuse(
            path, f"its features must be {(n_users, n_features)} of float64, and are {found}"
        )
    if not np.isfinite(features).all():
        raise _refuse(path, "its features have NaN or infinite numbers")
    if has_ids and (ids is None or ids.dtype.kind != "U" or ids.shape != (n_users,)):
        raise _refuse(path, f"it must have an id for each of its {n_users} users")
    return UserBlock(features, ids if has_ids else None)


def read_threads(path: Path, n_threads: int, n_users: int) -> ThreadBlock:
    """Threads of a file, which must be this many, with this many users of their own."""
    arrays = _arrays(path)
    kinds = {"starts": np.int64, "columns": np.uint32, "weights": np.float64, "outcome": np.float64}
    for name, kind in kinds.items():
        if name not in arrays or arrays[name].dtype != kind or arrays[name].ndim != 1:
            raise _refuse(path, f"it lacks {name} (n,) of {np.dtype(kind).name}")
    block = ThreadBlock(**{name: arrays[name] for name in kinds})
    if len(block.outcome) != n_threads or len(block.starts) != n_threads + 1:
        raise _refuse(path, f"it must have {n_threads} threads, and has {len(block.outcome)}")
    n_entries = len(block.columns)
    ordered = (
        block.starts[0] == 0
        and block.starts[-1] == n_entries
        and bool((np.diff(block.starts) >= 0).all())
    )
    if not ordered or len(block.weights) != n_entries:
        raise _refuse(path, "its threads do not add up to its entries")
    if n_entries and int(block.columns.max()) >= n_users:
        raise _refuse(path, f"it must have {n_users} users of its own, and has an entry of another")
    if not (np.isfinite(block.weights).all() and np.isfinite(block.outcome).all()):
        raise _refuse(path, "its weights or outcomes have NaN or infinite numbers")
    return block


def read_members(path: Path, n_members: int, n_users: int) -> NDArray[np.uint32]:
    """The users of a block of threads, by their positions among all users; mapped, not read."""
    try:
        members: NDArray[np.uint32] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # as above
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise FileError(
            f"{path} cannot be read as the users of a shard: {reason[:300]}. Write the shards "
            "again."
        ) from error
    if members.dtype != np.uint32 or members.shape != (n_members,):
        raise _refuse(
            path, f"it must have {n_members} users, and has {members.shape} of {members.dtype}"
        )
    if n_members and int(members[-1]) >= n_users:
        raise _refuse(path, f"it has a user beyond the {n_users} of the folder")
    return members
