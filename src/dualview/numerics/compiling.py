"""One decorator policy for all compiled functions.

A kernel is compiled when it is first called, and kept on disk. The kernels that it calls are
compiled as parts of it, or once for all their callers, which makes the first fit ready sooner
(:mod:`dualview.numerics.parts` and
:mod:`dualview.numerics.standalone`: all that relies on Numba's insides, but for the disk cache
below). Other people's functions are compiled as without this package. Three things turn parts off,
so that every kernel is compiled by ``numba.njit`` alone: the environment variable
``DUALVIEW_COMPILE_PARTS=0``, a Numba version that they were not tested with, and a Numba that lacks
one of the names they use.
"""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile

SWITCH = "DUALVIEW_COMPILE_PARTS"
TESTED = (
    (0, 63),
    (0, 68),
)  # the oldest and the newest Numba whose insides are known: make test-numba runs both

# Where kernels are. A module elsewhere that compiled one would not be noticed when it is edited.
_FOLDERS = "numerics", "views", "behaviors/likelihoods", "partitions", "engines"

# _nrt: count references to arrays. Stated here because a function without the option takes over
# that of its caller.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": True}


def _find_parts() -> Any:
    """The module that compiles kernels as parts of others; None where it is switched off or cannot
    be used."""
    wanted = os.environ.get(SWITCH, "") or "1"
    if wanted not in ("0", "1"):
        raise ValueError(
            f"{SWITCH} must be 1 (kernels are compiled as parts of others, the default) or 0; "
            f"got {wanted!r}."
        )
    oldest, newest = TESTED
    if wanted == "0" or not oldest <= numba.version_info.short <= newest:
        return None
    try:
        from dualview.numerics import parts, standalone  # noqa: F401  (both can be used, or neither is)
    except (ImportError, AttributeError):  # a name that a module or a class of Numba no longer has
        return None
    return parts


def _sources_stamp() -> tuple[Any, ...]:
    """Name, time and size of every kernel file, and whether kernels are compiled as parts of
    others."""
    package = Path(__file__).parent.parent
    files = sorted(file for folder in _FOLDERS for file in (package / folder).rglob("*.py"))
    sources = ((str(f.relative_to(package)), f.stat().st_mtime_ns, f.stat().st_size) for f in files)
    return ("parts" if _parts else "whole", *sources)


_parts = _find_parts()
_STAMP = _sources_stamp()


def _jit(function: Callable[..., Any], **options: Any) -> Any:
    jit = _parts.jit if _parts else numba.njit
    return jit(**(_OPTIONS | options))(function)


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Compile to machine code, kept on disk where a place can be written.

    Numba's own cache only notices edits to the file of the function itself. A kernel holds the code
    of the kernels it calls, so the stamp of each cached entry covers all kernel files: an edit to
    any of them compiles all anew. It also says how kernels were compiled: code that was made as
    parts is not mixed with code that was not.
    """
    try:
        dispatcher = _jit(function, cache=True, **options)
    except RuntimeError:  # no writable place for the cache
        return uncached(function, **options)
    try:
        cache_file = dispatcher._cache._cache_file
        cache_file._source_stamp = (cache_file._source_stamp, _STAMP)
    except (
        AttributeError
    ):  # a Numba that keeps its stamp elsewhere: slower starts are better than stale code
        return uncached(function, **options)
    return dispatcher


def standalone(
    *, returns: Any = None, work: float = 1.0, python: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Compile to machine code that all kernels which call it share: for the large pieces of a step.

    returns: the name of the parameter whose type it returns, or a value of the type; callers can
    then be compiled before it is. work: how many seconds compiling it takes, about. python: Python
    calls it as well.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = compiled(function)
        if _parts and hasattr(kernel, "get_call_template"):
            from dualview.numerics.standalone import called_by_name

            called_by_name(kernel, None if python else _with_own_place, returns, work, **_OPTIONS)
        return kernel

    return decorate


def called_soon(*arguments: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile for Python, which calls the function with such arguments at the end of every fit.

    Where a second process compiles a part of the steps, it compiles this as well, when it has
    nothing else to do.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = standalone(python=True)(function)
        if _parts and hasattr(kernel, "get_call_template"):
            from dualview.numerics.standalone import expect_soon

            expect_soon(kernel, *arguments)
        return kernel

    return decorate


def _with_own_place(dispatcher: Any) -> Any:
    """A second dispatcher of a function, which keeps its code on disk in files of its own."""
    cache = dispatcher._cache
    if cache.cache_path is not None:
        stamp = (cache._cache_file._source_stamp, _STAMP)
        cache._cache_file = IndexDataCacheFile(
            cache.cache_path, f"{cache._impl.filename_base}.standalone", stamp
        )
    return dispatcher


def composite(function: Callable[..., Any]) -> Any:
    """Compile a function that is made up of many standalone ones."""
    kernel = compiled(function)
    if _parts and hasattr(kernel, "get_call_template"):
        from dualview.numerics.standalone import expect_large

        expect_large(kernel)
    return kernel


def reordered(function: Callable[..., Any]) -> Any:
    """Compile with sums in the order that is quickest on the machine: for long dot products, which
    then run on vectors."""
    return compiled(function, fastmath={"reassoc", "contract", "nsz"})


def in_place(function: Callable[..., Any]) -> Any:
    """Compile without reference counts: for functions that make no arrays, and neither get nor
    return any from those they call.

    Every array that is taken out of a record would else be counted in and out, which in the loops
    over users costs as much as the work.
    """
    return compiled(function, _nrt=False)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile into each caller: for short pieces of inner loops, where a call costs as much as the
    work.

    And for functions that take and return a whole state: each such call counts all its arrays in
    and out.
    """
    return compiled(function, inline="always")


@cache
def uncached_twin(kernel: Any) -> Any:
    """A kernel compiled anew in each process: for arguments whose kinds the stamp of the disk cache
    does not cover."""
    return uncached(getattr(kernel, "py_func", kernel))  # a function where nothing is compiled


def uncached(function: Callable[..., Any], **options: Any) -> Any:
    """Compile without the disk cache: for kernels that take a function, whose cache entries would
    never be found."""
    return _jit(function, **options)
