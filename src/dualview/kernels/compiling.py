"""One decorator policy for all compiled functions."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import event

# Nobody asks for the address of a kernel as a C function, and making it takes a twentieth of the time.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


class _WithoutCollector(event.Listener):
    """No garbage collection while Numba compiles: it makes millions of small objects, and looking through them again and again
    takes a tenth of the time. Compilations nest, and one thread compiles at a time.
    """

    def __init__(self) -> None:
        self._depth, self._was_on = 0, False

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        if self._depth == 0:
            self._was_on = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        self._depth -= 1
        if self._depth == 0 and self._was_on:
            gc.enable()


event.register("numba:compile", _WithoutCollector())


def _sources_stamp() -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of every kernel file."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return tuple((f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in files)


_STAMP = _sources_stamp()


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Compile to machine code, kept on disk where a place can be written.

    Numba's own cache only notices edits to the file of the function itself. A kernel holds the code of the kernels
    it calls, so the stamp of each cached entry covers all kernel files: an edit to any of them compiles all anew.
    """
    try:
        dispatcher = numba.njit(cache=True, **_OPTIONS, **options)(function)
    except RuntimeError:  # no writable place for the cache
        return uncached(function, **options)
    try:
        cache_file = dispatcher._cache._cache_file
        cache_file._source_stamp = (cache_file._source_stamp, _STAMP)
    except AttributeError:  # a Numba that keeps its stamp elsewhere: slower starts are better than stale code
        return uncached(function, **options)
    return dispatcher


def reordered(function: Callable[..., Any]) -> Any:
    """Compile with sums in the order that is quickest on the machine: for long dot products, which then run on vectors."""
    return compiled(function, fastmath={"reassoc", "contract", "nsz"})


def inlined(function: Callable[..., Any]) -> Any:
    """Compile into each caller: for short pieces of inner loops, where a call costs as much as the work."""
    return compiled(function, inline="always")


def uncached(function: Callable[..., Any], **options: Any) -> Any:
    """Compile without the disk cache: for kernels that take a function, whose cache entries would never be found."""
    return numba.njit(**_OPTIONS, **options)(function)
