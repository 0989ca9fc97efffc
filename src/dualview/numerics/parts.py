"""Kernels that are compiled as parts of the kernels that call them. This module relies on Numba's insides.

**What.** Numba makes machine code of every function it meets, with that of all functions it calls inside, and throws most of
it away: of the hundred and fifty functions behind a fit, Python calls five. :func:`jit` therefore gives a kernel two faces.
Called from Python, it is compiled as ``numba.njit`` compiles it. Called by another kernel, it is a part of that one:

- no wrapper for Python or C is made for a part, and no machine code but that of the kernel it ends up in;
- a part is optimized on its own only where it is small, for that decides what LLVM puts into callers;
- no kernel has a wrapper for C, and none is compiled again for each constant that it is called with;
- sets of compiler flags, by which Numba looks up every call it resolves, are compared by the flags that are set, with the same
  result, in place of listing all flags each time;
- Python's garbage collector works more rarely while a kernel of this package is compiled, for it would look through millions
  of small objects again and again. It is never paused, and compilations of other people's functions are left alone.

**Why.** The first fit is ready in a little more than half the CPU time: 51 s against 93 s with ``numba.njit`` alone, and 56 s
with as many garbage collections as always, in one run (``python -m benchmarks.compiling``, docs/benchmarks.md). The draws were
the same bit for bit.

**Which versions.** The tests pass with it and without it on the oldest and the newest Numba of ``compiling.TESTED``
(``make test-numba``). Numba promises none of the names used here, so other versions, and a Numba that lacks one of
the names, do without: importing this module raises ``ImportError`` then.

**How to switch it off.** Set ``DUALVIEW_COMPILE_PARTS=0`` before the package is imported.
"""

import gc
from collections.abc import Callable
from typing import Any

import numba
from numba.core import base, codegen, compiler, dispatcher, targetconfig, typed_passes, types
from numba.core.compiler_machinery import LoweringPass, register_pass

# Functions in a part, those it calls included, that is optimized on its own: what LLVM puts into a caller depends on how short
# it is by then. Larger parts would only be optimized again and again, which would take a seventh of the time.
_LARGEST_OPTIMISED = 5

# Objects that are made between two garbage collections, in place of Python's 700 or 2,000.
_NEW_OBJECTS = 200_000

# What is called or replaced below; names that are imported or subclassed need no mention.
_USED = (
    (base.BaseContext, "insert_user_function"),
    (codegen.JITCodeLibrary, "_optimize_final_module"),
    (codegen.JITCodeLibrary, "_finalize_final_module"),
    (compiler.CompilerBase, "compile_extra"),
    (compiler.CompileResult, "_replace"),
    (compiler.DefaultPassBuilder, "define_nopython_pipeline"),
    (dispatcher.Dispatcher, "get_call_template"),
    (dispatcher.Dispatcher, "get_overload"),
    (targetconfig.TargetConfig(), "_values"),
    (targetconfig.TargetConfig, "options"),
    (typed_passes, "AnnotateTypes"),
    (typed_passes, "NativeLowering"),
)
_MISSING = [f"{getattr(owner, '__name__', type(owner).__name__)}.{name}" for owner, name in _USED if not hasattr(owner, name)]
if _MISSING:
    raise ImportError(f"Numba {numba.__version__} lacks {', '.join(_MISSING)}.")


def _with_rare_collections(compile_function: Callable[[], Any]) -> Any:
    """What a compilation gives, made with fewer garbage collections. One thread compiles at a time, and compilations nest."""
    first, *others = gc.get_threshold()
    if first == 0:  # there are none
        return compile_function()
    gc.set_threshold(max(first, _NEW_OBJECTS), *others)
    try:
        return compile_function()
    finally:
        gc.set_threshold(first, *others)


def _same_flags(own: Any, other: Any) -> Any:
    """Whether two sets of flags are equal: ``TargetConfig.__eq__``, without making a dictionary of all flags of both."""
    if type(own) is not type(other):
        return _listed_flags_equal(own, other)
    if own._values == other._values:
        return True
    defaults = own.options
    return all(
        own._values.get(name, defaults[name].default) == other._values.get(name, defaults[name].default)
        for name in own._values.keys() | other._values.keys()
    )


def _hash_of_flags(own: Any) -> int:
    """``TargetConfig.__hash__``, which depends on the names of the flags only, so on the class."""
    kind = type(own)
    if kind not in _HASHES:
        _HASHES[kind] = _listed_flags_hash(own)
    return _HASHES[kind]


_HASHES: dict[type, int] = {}
_listed_flags_equal, _listed_flags_hash = targetconfig.TargetConfig.__eq__, targetconfig.TargetConfig.__hash__
for _name, _quick in (("__eq__", _same_flags), ("__hash__", _hash_of_flags)):
    setattr(targetconfig.TargetConfig, _name, _quick)


class _PartLibrary(codegen.JITCodeLibrary):
    """Code that becomes machine code only inside other code, and is optimized there; here as well where it is small."""

    def _optimize_final_module(self) -> None:
        functions = (function for function in self._final_module.functions if not function.is_declaration)
        if sum(1 for _ in functions) <= _LARGEST_OPTIMISED:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalized = True


@register_pass(mutates_CFG=False, analysis_only=False)
class _BeginPart(LoweringPass):
    """Before a function is lowered: where its code goes, and nothing for Python."""

    _name = "begin_part"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = state.flags.no_cpython_wrapper = True
        return False


@register_pass(mutates_CFG=False, analysis_only=False)
class _EndPart(LoweringPass):
    """After a function is lowered: callers find it, under a key that no other part has."""

    _name = "end_part"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        own: list[Any] = []
        key = own.append  # Numba's tables want a built-in function, and each list has one of its own
        state.targetctx.insert_user_function(key, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=key)
        return False


class _KernelCompiler(compiler.Compiler):
    """Numba's own compiler, with fewer garbage collections."""

    def compile_extra(self, func: Any) -> Any:
        return _with_rare_collections(lambda: compiler.Compiler.compile_extra(self, func))


class _PartCompiler(compiler.CompilerBase):
    """Compiles a function that only other kernels call."""

    def define_pipelines(self) -> list[Any]:
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_BeginPart, typed_passes.AnnotateTypes)
        passes.add_pass_after(_EndPart, typed_passes.NativeLowering)
        passes.finalize()
        return [passes]


def _without_literals(get_call_template: Callable[..., Any]) -> Callable[..., Any]:
    """Resolve calls by the types of constants, not by their values: else each constant would compile a part of its own."""

    def resolved(arguments: Any, keywords: Any) -> Any:
        plain = {name: types.unliteral(argument) for name, argument in keywords.items()}
        return get_call_template(tuple(types.unliteral(argument) for argument in arguments), plain)

    return resolved


def jit(*, cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function as ``numba.njit`` does, and give its callers in compiled code a part in place of the whole.

    A function that Numba writes into each of its callers (``inline``) has no part, nor has one that Numba was told
    not to compile.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        shared = {"no_cfunc_wrapper": True, **options}
        kernel = numba.njit(cache=cache, pipeline_class=_KernelCompiler, **shared)(function)
        if "inline" not in options and hasattr(kernel, "get_call_template"):
            part = numba.njit(pipeline_class=_PartCompiler, **shared)(function)
            kernel.get_call_template, kernel.get_overload = _without_literals(part.get_call_template), part.get_overload
        return kernel

    return decorate
