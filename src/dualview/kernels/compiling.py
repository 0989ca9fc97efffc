"""One decorator policy for all compiled functions.

Numba makes machine code of every function it meets, with that of all functions it calls inside, and throws most of it away: of
the hundred and fifty functions behind a fit, Python calls five. So a kernel is compiled in two ways. Called from Python, it is
as Numba makes it, and kept on disk. Called by another kernel, it is a part of that one: nothing is made for Python, and machine
code only where it ends up. The first fit is ready sooner. Were small parts not optimised on their own it would be a little
sooner still, but their callers would be slower.
"""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import codegen, compiler, event, typed_passes
from numba.core.compiler_machinery import LoweringPass, register_pass

# Nobody asks for the address of a kernel as a C function, and making it takes a twentieth of the time.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

# Functions in a part, those it calls included, that is optimised on its own: what LLVM puts into a caller depends on how short
# it is by then. Larger parts would only be optimised again and again, which would take a seventh of the time.
_LARGEST_OPTIMISED = 5

# Parts are made with what Numba does not promise to keep; a later version compiles whole functions, which takes longer.
_LAST_WITH_PARTS = (0, 68)


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


class _PartLibrary(codegen.JITCodeLibrary):
    """Code that becomes machine code only inside other code, and is optimised there; here as well where it is small."""

    def _optimize_final_module(self) -> None:
        functions = (function for function in self._final_module.functions if not function.is_declaration)
        if sum(1 for _ in functions) <= _LARGEST_OPTIMISED:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalized = True


@register_pass(mutates_CFG=False, analysis_only=False)
class _BeginPart(LoweringPass):
    """Before a function is lowered: where it goes, and nothing for Python."""

    _name = "begin_part"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = state.flags.no_cpython_wrapper = True
        return False


@register_pass(mutates_CFG=False, analysis_only=False)
class _EndPart(LoweringPass):
    """After it: callers find it, under a key that no other part has."""

    _name = "end_part"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        own: list[Any] = []
        key = own.append  # Numba's tables want a built-in function, and each list has one of its own
        state.targetctx.insert_user_function(key, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=key)
        return False


class _PartCompiler(compiler.CompilerBase):
    def define_pipelines(self) -> list[Any]:
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_BeginPart, typed_passes.AnnotateTypes)
        passes.add_pass_after(_EndPart, typed_passes.NativeLowering)
        passes.finalize()
        return [passes]


def _with_part(dispatcher: Any, options: dict[str, Any]) -> Any:
    """The same function, whose callers in compiled code are given its part; a plain one where Numba was told not to compile.

    What Numba itself writes into each caller has no part.
    """
    if "inline" in options:
        return dispatcher
    if numba.version_info.short <= _LAST_WITH_PARTS and hasattr(dispatcher, "get_call_template"):
        part = numba.njit(**_OPTIONS, **options, pipeline_class=_PartCompiler)(dispatcher.py_func)
        dispatcher.get_call_template, dispatcher.get_overload = part.get_call_template, part.get_overload
    return dispatcher


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
    return _with_part(dispatcher, options)


def reordered(function: Callable[..., Any]) -> Any:
    """Compile with sums in the order that is quickest on the machine: for long dot products, which then run on vectors."""
    return compiled(function, fastmath={"reassoc", "contract", "nsz"})


def inlined(function: Callable[..., Any]) -> Any:
    """Compile into each caller: for short pieces of inner loops, where a call costs as much as the work."""
    return compiled(function, inline="always")


def uncached(function: Callable[..., Any], **options: Any) -> Any:
    """Compile without the disk cache: for kernels that take a function, whose cache entries would never be found."""
    return _with_part(numba.njit(**_OPTIONS, **options)(function), options)
