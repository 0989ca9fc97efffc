"""One decorator policy for all compiled functions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def _sources_stamp() -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of every kernel file."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return tuple((f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in files)


_STAMP = _sources_stamp()


def compiled(function: Callable[..., Any]) -> Any:
    """Compile to machine code, kept on disk where a place can be written.

    Numba's own cache only notices edits to the file of the function itself. A kernel holds the code of the kernels
    it calls, so the stamp of each cached entry covers all kernel files: an edit to any of them compiles all anew.
    """
    try:
        dispatcher = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no writable place for the cache
        return uncached(function)
    try:
        cache_file = dispatcher._cache._cache_file
        cache_file._source_stamp = (cache_file._source_stamp, _STAMP)
    except AttributeError:  # a Numba that keeps its stamp elsewhere: slower starts are better than stale code
        return uncached(function)
    return dispatcher


def uncached(function: Callable[..., Any]) -> Any:
    """Compile without the disk cache: for kernels that take a function, whose cache entries would never be found."""
    return numba.njit(**_OPTIONS)(function)
