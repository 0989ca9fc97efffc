"""Kernels that are compiled as parts of the kernels that call them. This module relies on Numba's
insides.

**What.** Numba makes machine code of every function it meets, with that of all functions it calls
inside, and throws most of it away: of the hundred and fifty functions behind a fit, Python calls
five. :func:`jit` therefore gives a kernel two faces. Called from Python, it is compiled as
``numba.njit`` compiles it. Called by another kernel, it is a part of that one:

- no wrapper for Python or C is made for a part, and no machine code but that of the kernel it ends
  up in;
- a part is optimized on its own only where it is small, for that decides what LLVM puts into
  callers;
- no kernel has a wrapper for C, and none is compiled again for each constant that it is called
  with;
- variables that are only other names for others are left out, and functions are only tidied before
  they are optimized together;
- Python's garbage collector works more rarely while a kernel of this package is compiled, for it
  would look through millions
  of small objects again and again. It is never paused, and compilations of other people's functions
  are left alone.

Four questions that Numba asks often are answered more quickly: whether two sets of compiler flags
are equal, which references a value holds, how an operator is resolved, which variables a statement
has. The first two are methods of classes of this module, which only our compilers use. The last two
are functions of Numba. They are replaced while a kernel of this package is compiled, and at no
other time (:func:`quick_answers`).

**Why.** The first fit is ready in a third of the CPU time (``python -m benchmarks.compiling``,
docs/benchmarks.md). The draws were the same bit for bit with the newest Numba, and up to rounding
with the oldest.

**Which versions.** The tests pass with it and without it on the oldest and the newest Numba of
``compiling.TESTED`` (``make test-numba``). Numba promises none of the names used here, so other
versions, and a Numba that lacks one of the names, do without: importing this module raises
``ImportError`` then.

**How to switch it off.** Set ``DUALVIEW_COMPILE_PARTS=0`` before the package is imported.
"""

import gc
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numba
from numba.core import (
    base,
    codegen,
    compiler,
    dispatcher,
    ir,
    ir_utils,
    targetconfig,
    typed_passes,
    types,
)
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.runtime import context

# Functions in a part, those it calls included, that is optimized on its own: what LLVM puts into a
# caller depends on how short it is by then. Larger parts would only be optimized again and again,
# which would take a seventh of the time.
_LARGEST_OPTIMISED = 5

# Objects that are made between two garbage collections, in place of Python's 700 or 2,000.
_NEW_OBJECTS = 200_000

# What is called, replaced or overridden below; names that are imported or subclassed need no
# mention.
_USED = (
    (base.BaseContext, "insert_user_function"),
    (base.BaseContext, "nrt"),
    (base.BaseContext, "enable_nrt"),
    (codegen.JITCodeLibrary, "_ensure_finalized"),
    (codegen.JITCodeLibrary, "_get_module_for_linking"),
    (codegen.JITCodeLibrary, "_optimize_functions"),
    (codegen.JITCodeLibrary, "_optimize_final_module"),
    (codegen.JITCodeLibrary, "_finalize_final_module"),
    (compiler.CompilerBase, "compile_extra"),
    (compiler.CompileResult, "_replace"),
    (compiler.DefaultPassBuilder, "define_nopython_pipeline"),
    (context.NRTContext, "get_meminfos"),
    (dispatcher.Dispatcher, "get_call_template"),
    (dispatcher.Dispatcher, "get_overload"),
    (ir.Inst, "_rec_list_vars"),
    (targetconfig.ConfigStack, "top_or_none"),
    (targetconfig.TargetConfig(), "_values"),
    (targetconfig.TargetConfig, "options"),
    (typed_passes, "AnnotateTypes"),
    (types.Function, "get_call_type"),
    (types.Function, "get_impl_key"),
    (typed_passes, "NativeLowering"),
)


def require(used: Sequence[tuple[Any, str]]) -> None:
    """Raise ``ImportError`` where Numba lacks a name of something."""
    missing = [
        f"{getattr(owner, '__name__', type(owner).__name__)}.{name}"
        for owner, name in used
        if not hasattr(owner, name)
    ]
    if missing:
        raise ImportError(f"Numba {numba.__version__} lacks {', '.join(missing)}.")


require(_USED)


def _with_rare_collections(_: Any, compile_function: Callable[[], Any]) -> Any:
    """What a compilation gives, made with fewer garbage collections. One thread compiles at a time,
    and compilations nest."""
    first, *others = gc.get_threshold()
    if first == 0:  # there are none
        return compile_function()
    gc.set_threshold(max(first, _NEW_OBJECTS), *others)
    try:
        return compile_function()
    finally:
        gc.set_threshold(first, *others)


class _Flags(compiler.Flags):
    """Flags of our compilations. Equal to others where Numba says so, without making a dictionary
    of all flags of both."""

    __slots__ = ()

    def __eq__(self, other: Any) -> Any:
        if type(other) is not _Flags and type(other) is not compiler.Flags:
            return compiler.Flags.__eq__(self, other)
        own, others, defaults = self._values, other._values, compiler.Flags.options
        return own == others or all(
            own.get(name, defaults[name].default) == others.get(name, defaults[name].default)
            for name in own.keys() | others.keys()
        )

    def __hash__(self) -> int:
        return _HASH_OF_FLAGS


_HASH_OF_FLAGS = hash(compiler.Flags())  # depends on the names of the flags only

_UNCOUNTED = {
    types.Integer,
    types.Float,
    types.Complex,
    types.Boolean,
    types.CPointer,
    types.RawPointer,
    types.PyObject,
}


def _is_uncounted(kind: Any) -> bool:
    """Whether values of a type hold nothing whose references are counted: numbers, bare pointers,
    and tuples of one of them."""
    return type(kind) in _UNCOUNTED or (
        isinstance(kind, types.UniTuple) and _is_uncounted(kind.dtype)
    )


class _Counts(context.NRTContext):
    """Counts references, without taking out of a value what holds nothing that is counted.

    Of every array that goes in or out of a record Numba takes out ten numbers and more, and uses
    one.
    """

    def get_meminfos(self, builder: Any, kind: Any, value: Any) -> list[Any]:
        model = self._context.data_model_manager[kind]
        found = [(kind, model.get_nrt_meminfo(builder, value))] if model.has_nrt_meminfo() else []
        for inner, taken_from in model.traverse(builder):
            if not _is_uncounted(inner):
                found += self.get_meminfos(builder, inner, taken_from(value))
        return found


def _variables_in(own: Any, value: Any) -> list[Any]:
    """``ir.Inst._rec_list_vars``, the variables in a value, with the commonest kinds of values told
    by their class first."""
    if isinstance(value, ir.Var):
        return [value]
    if isinstance(value, ir.Inst):
        found: list[Any] = value.list_vars()
        return found
    if not isinstance(value, (list, tuple, dict)):
        return []
    found = []
    for inner in value.values() if isinstance(value, dict) else value:
        kind = type(inner)
        if kind is ir.Var:
            found.append(inner)
        elif kind not in _WITHOUT_VARIABLES:
            found += own._rec_list_vars(inner)
    return found


_WITHOUT_VARIABLES = {str, int, float, bool, type(None), ir.Loc}


def _call_type(own: Any, typing_context: Any, arguments: Any, keywords: Any) -> Any:
    """``Function.get_call_type``, which remembers how operators were resolved.

    Numba tries some thirty ways of adding two things each time that a sum of two numbers is
    compiled. An operator is remembered for the same types, flags and context, until the outermost
    compilation ends, and only if no overload was found: an overload is compiled anew for other
    flags. Other people's functions, inside ours or in other threads, do not have our flags, so
    nothing is remembered for them.
    """
    flags, search = targetconfig.ConfigStack.top_or_none(), _NUMBAS["get_call_type"]
    if (
        type(flags) is not _Flags
        or keywords
        or getattr(own.typing_key, "__module__", None) != "_operator"
    ):
        return search(own, typing_context, arguments, keywords)
    key = own, typing_context, flags, tuple(arguments)
    signature = _RESOLVED.get(key)
    if signature is None:
        signature = search(own, typing_context, arguments, keywords)
        if own.get_impl_key(signature) is own.typing_key:
            _RESOLVED[key] = signature
    else:
        own._impl_keys[signature.args] = (
            own.typing_key
        )  # somebody else's flags may have led to an overload since
    return signature


_RESOLVED: dict[Any, Any] = {}
_QUICKER = (
    (ir.Inst, "_rec_list_vars", _variables_in),
    (types.BaseFunction, "get_call_type", _call_type),
)
_NUMBAS = {name: owner.__dict__[name] for owner, name, _ in _QUICKER}
_are_quick = False


@contextmanager
def quick_answers() -> Iterator[None]:
    """Replace functions of Numba by quicker ones that give the same answers, while one thread
    compiles. Compilations nest."""
    global _are_quick
    with global_compiler_lock:
        if _are_quick:
            yield
            return
        _NUMBAS.update({name: owner.__dict__[name] for owner, name, _ in _QUICKER})
        _are_quick = True
        try:
            for owner, name, quicker in _QUICKER:
                setattr(owner, name, quicker)
            yield
        finally:
            for owner, name, _ in _QUICKER:
                setattr(owner, name, _NUMBAS[name])
            _RESOLVED.clear()
            _are_quick = False


# Each is called with a library, before what that calls must have machine code.
before_calls: list[Callable[[Any], None]] = []


class _KernelLibrary(codegen.JITCodeLibrary):
    """The code of a kernel. Its functions are tidied before they are optimized together, which does
    all of it again."""

    is_linking = False

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager(opt=1, loop_vectorize=False)
                passes.run(function, builder)

    def finalize(self) -> None:
        with _linking(True):
            super().finalize()

    def _finalize_final_module(self) -> None:
        with _linking(False):
            prepare_calls(self)
        super()._finalize_final_module()


@contextmanager
def _linking(ours: bool) -> Iterator[None]:
    """Say whether code of ours is being put together, from parts among others. One thread does so
    at a time."""
    before, _KernelLibrary.is_linking = _KernelLibrary.is_linking, ours
    try:
        yield
    finally:
        _KernelLibrary.is_linking = before


def prepare_calls(library: Any) -> None:
    """Have machine code for all that a library calls."""
    for prepare in before_calls:
        prepare(library)


class PartLibrary(_KernelLibrary):
    """Code that becomes machine code only inside other code, and is optimized there; here as well
    where it is small."""

    def _optimize_final_module(self) -> None:
        functions = (
            function for function in self._final_module.functions if not function.is_declaration
        )
        if sum(1 for _ in functions) <= _LARGEST_OPTIMISED:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        module = super()._get_module_for_linking()
        if not _KernelLibrary.is_linking:  # other people's code, which becomes machine code at once
            prepare_calls(self)
        return module


_NUMBERS: dict[int, Iterator[int]] = {}  # by process


def _own_number() -> int:
    """A number that no function of another process has either.

    Symbols are named by function, types of arguments and a number, which Numba counts from 1 in
    each process. Code that is read from disk keeps the numbers of the process that made it: two
    functions of one name, such as closures, could then have one symbol, and the first code under
    it would serve both.
    """
    process = os.getpid()
    if process not in _NUMBERS:
        _NUMBERS[process] = itertools.count(int.from_bytes(os.urandom(6), "little"))
    return next(_NUMBERS[process])


@register_pass(mutates_CFG=False, analysis_only=False)
class _BeginPart(LoweringPass):
    """Before a function is lowered: where its code goes, and nothing for Python."""

    _name = "begin_part"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
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
        key = (
            own.append
        )  # Numba's tables want a built-in function, and each list has one of its own
        state.targetctx.insert_user_function(key, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=key)
        return False


@register_pass(mutates_CFG=False, analysis_only=False)
class _WithoutCopies(LoweringPass):
    """A variable that is only another name for a second one is replaced by it.

    Numba copies a variable wherever it is read, and counts all arrays of a copied record twice.
    Both variables must be assigned at one place only: then the second cannot change while the first
    is in use.
    """

    _name = "without_copies"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        blocks, kinds = state.func_ir.blocks, state.typemap
        statements = [statement for block in blocks.values() for statement in block.body]
        if any(_is_opaque(statement) for statement in statements):
            return False
        assigned = Counter(
            statement.target.name for statement in statements if isinstance(statement, ir.Assign)
        )
        original: dict[str, Any] = {}
        for statement in statements:
            if (
                _is_copy(statement)
                and assigned[statement.target.name] == assigned[statement.value.name] == 1
            ):
                if kinds[statement.target.name] == kinds[statement.value.name]:
                    original[statement.target.name] = statement.value
        for name, variable in original.items():
            while variable.name in original:
                variable = original[variable.name]
            original[name] = variable
        for block in blocks.values():
            block.body = [
                statement
                for statement in block.body
                if not (_is_copy(statement) and statement.target.name in original)
            ]
        ir_utils.replace_vars(blocks, original)
        state.func_ir._definitions = ir_utils.build_definitions(blocks)
        return bool(original)


def _is_copy(statement: Any) -> bool:
    return isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Var)


def _is_opaque(statement: Any) -> bool:
    """Whether a statement may hold variables that ``replace_vars`` does not find, or ends the life
    of one."""
    if isinstance(statement, ir.Assign):
        return isinstance(statement.value, ir.Expr) and statement.value.op == "arrayexpr"
    return not isinstance(statement, _TRANSPARENT)


_TRANSPARENT = (
    ir.Return,
    ir.Raise,
    ir.StaticRaise,
    ir.Branch,
    ir.Jump,
    ir.SetItem,
    ir.StaticSetItem,
    ir.SetAttr,
)


@register_pass(mutates_CFG=False, analysis_only=False)
class _BeginKernel(LoweringPass):
    """Before a function is lowered: where its code goes."""

    _name = "begin_kernel"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = _KernelLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return False


class _Compiler(compiler.CompilerBase):
    """Numba's own compiler, with fewer copies and quicker answers."""

    def __init__(
        self,
        typing: Any,
        target: Any,
        library: Any,
        args: Any,
        returned: Any,
        flags: Any,
        variables: Any,
    ) -> None:
        super().__init__(typing, target, library, args, returned, _Flags(flags), variables)
        own = self.state.targetctx  # a copy
        own.nrt = _Counts(own, own.enable_nrt)

    def compile_extra(self, func: Any) -> Any:
        with quick_answers():
            return super().compile_extra(func)

    def define_pipelines(self) -> list[Any]:
        self.state.func_id.unique_id = _own_number()
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_WithoutCopies, typed_passes.NoPythonSupportedFeatureValidation)
        passes.add_pass_after(_BeginKernel, typed_passes.AnnotateTypes)
        self.add_passes(passes)
        passes.finalize()
        return [passes]

    def add_passes(self, passes: Any) -> None:
        """More passes, for some kinds of functions."""


# Each is called with a function and with what compiles it, and returns what that gives.
around_kernels: list[Callable[[Any, Callable[[], Any]], Any]] = [_with_rare_collections]


class KernelCompiler(_Compiler):
    """Compiles a function to machine code, with fewer garbage collections."""

    def compile_extra(self, func: Any) -> Any:
        compile_function = partial(_Compiler.compile_extra, self, func)
        for around in around_kernels:
            compile_function = partial(around, func, compile_function)
        return compile_function()


class _PartCompiler(_Compiler):
    """Compiles a function that only other kernels call."""

    def add_passes(self, passes: Any) -> None:
        passes.add_pass_after(_BeginPart, _BeginKernel)
        passes.add_pass_after(_EndPart, typed_passes.NativeLowering)


def _without_literals(get_call_template: Callable[..., Any]) -> Callable[..., Any]:
    """Resolve calls by the types of constants, not by their values: else each constant would
    compile a part of its own."""

    def resolved(arguments: Any, keywords: Any) -> Any:
        plain = {name: types.unliteral(argument) for name, argument in keywords.items()}
        return get_call_template(tuple(types.unliteral(argument) for argument in arguments), plain)

    return resolved


def jit(*, cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function as ``numba.njit`` does, and give its callers in compiled code a part in
    place of the whole.

    A function that Numba writes into each of its callers (``inline``) has no part, nor has one that
    Numba was told not to compile.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        shared = {"no_cfunc_wrapper": True, **options}
        kernel = numba.njit(cache=cache, pipeline_class=KernelCompiler, **shared)(function)
        if "inline" not in options and hasattr(kernel, "get_call_template"):
            part = numba.njit(pipeline_class=_PartCompiler, **shared)(function)
            kernel.get_call_template, kernel.get_overload = (
                _without_literals(part.get_call_template),
                part.get_overload,
            )
        return kernel

    return decorate
