"""Kernels with machine code of their own, which the kernels that call them share. This module
relies on Numba's insides.

**What.** A part (:mod:`dualview.numerics.parts`) is compiled again inside every kernel that it ends
up in. A large one is better compiled once: its callers call it by a name, under which its machine
code is known to the process. The code is kept on disk like that of any kernel. A kernel that is
read from disk reads what it calls first.

**Why.** What is the same in two models is compiled once for both. And a second process can compile
a part of it: a kernel that says what it returns need not be there while its callers are compiled,
so it waits until they are, and whichever process is free takes it
(:mod:`dualview.numerics.second_process`). ``python -m benchmarks.compiling`` measures what that
gains (docs/benchmarks.md).

It has the switch and the versions of ``parts``.
"""

import hashlib
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import base, caching, codegen, sigutils, typed_passes, types
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.typing import templates

from dualview.numerics import parts
from dualview.numerics.kinds import is_own, own_kinds
from dualview.numerics.second_process import SecondProcess, is_wanted

_USED = (
    (base.BaseContext, "insert_user_function"),
    (caching.Cache, "_index_key"),
    (caching.IndexDataCacheFile, "_load_index"),
    (codegen.JITCodeLibrary, "get_pointer_to_function"),
    (Dispatcher, "get_call_template"),
    (Dispatcher, "get_overload"),
    (typed_passes, "AnnotateTypes"),
    (templates, "make_concrete_template"),
)
parts.require(_USED)


@dataclass(frozen=True)
class Needed:
    """A standalone kernel for arguments of these types. Called, it is compiled or read from disk,
    and has its name."""

    module: str
    name: str
    arguments: tuple[Any, ...]

    def __call__(self) -> None:
        self.face.make_ready(self.arguments)

    @property
    def face(self) -> "_Face":
        """What the kernel's callers see of it."""
        importlib.import_module(self.module)
        return _FACES[self.module, self.name]

    @property
    def symbol(self) -> str:
        """The name that callers call."""
        words = f"{self.arguments} {[record.__module__ for record in _records(self.arguments)]}"
        return f"{self.module}.{self.name}.{hashlib.sha256(words.encode()).hexdigest()}"


def _records(arguments: Iterable[Any]) -> list[type]:
    """The classes of all records among arguments of these types."""
    found: list[type] = []
    for argument in arguments:
        record = getattr(argument, "instance_class", None)
        if record is not None:
            found.append(record)
        found += _records(getattr(argument, "types", ()))
    return found


def _is_foreign(arguments: Iterable[Any]) -> bool:
    """Whether some record is of a class from outside the package. The stamp of the disk cache does
    not cover its functions."""
    return not all(is_own(record) for record in _records(arguments))


class _NameLibrary(parts.PartLibrary):
    """No code: what has to be there before a kernel that calls a name.

    Numba passes ``_reload_init`` on to all code that this becomes a part of, and runs it before
    such code is read from disk.
    """

    def __init__(self, own: Any, needed: Needed) -> None:
        super().__init__(own, needed.name)
        self._finalized = True
        self._shared_module = self._final_module
        self._reload_init.add(needed)


@register_pass(mutates_CFG=False, analysis_only=False)
class _WithoutWrapper(LoweringPass):
    """Before a function is lowered: nothing for Python."""

    _name = "without_wrapper"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.flags.no_cpython_wrapper = True
        return False


class _Compiler(parts.KernelCompiler):
    """Compiles a function that only kernels call, to machine code."""

    def add_passes(self, passes: Any) -> None:
        passes.add_pass_after(_WithoutWrapper, typed_passes.AnnotateTypes)


class _Face:
    """What the callers of a standalone kernel see of it: how calls are resolved, and the names to
    call.

    kept: compiles it. options: for Numba. returns: the name of the parameter whose type it returns,
    a value of the type that it returns, or None where that is found out by compiling it. work: how
    long compiling it takes, in any unit.
    """

    def __init__(self, kept: Any, options: dict[str, Any], returns: Any, work: float) -> None:
        self._kept, self._options, self._returns, self.work = kept, options, returns, work
        self._passing: Any = None
        self._keys: dict[Any, Any] = {}
        self._ready: set[Any] = set()

    def _dispatcher(self, arguments: Any) -> Any:
        if not _is_foreign(arguments):
            return self._kept
        if self._passing is None:
            self._passing = numba.njit(pipeline_class=_Compiler, **self._options)(
                self._kept.py_func
            )
        return self._passing

    def get_call_template(self, arguments: Any, keywords: Any) -> Any:
        """How a call with arguments of these types is resolved, as
        ``Dispatcher.get_call_template``."""
        given = {name: types.unliteral(argument) for name, argument in keywords.items()}
        plain = tuple(types.unliteral(argument) for argument in arguments)
        signature, folded = self._kept._compiler.fold_argument_types(plain, given)
        folded = tuple(folded)
        result = self._returned(folded)
        if (
            _opened is not None
            and result is not None
            and not _is_foreign(folded)
            and not self.is_made(folded)
        ):
            _opened.add(Needed(*self._place, folded))
        if result is None or not self._waits(folded):
            return type(self._kept).get_call_template(self._dispatcher(folded), folded, {})
        name = self._kept.py_func.__name__
        template = templates.make_concrete_template(
            name, key=name, signatures=[templates.signature(result, *folded)]
        )
        return template, signature, folded, {}

    @property
    def _place(self) -> tuple[str, str]:
        return self._kept.py_func.__module__, self._kept.py_func.__name__

    def _waits(self, arguments: Any) -> bool:
        return _opened is not None and Needed(*self._place, arguments) in _opened.waiting

    def _returned(self, arguments: Any) -> Any:
        """The type that the kernel says it returns."""
        if isinstance(self._returns, str):
            code = self._kept.py_func.__code__
            return arguments[code.co_varnames[: code.co_argcount].index(self._returns)]
        return None if self._returns is None else numba.typeof(self._returns)

    def is_made(self, arguments: Any) -> bool:
        """Whether there is code for arguments of these types, in memory or on disk."""
        if arguments in self._kept.overloads:
            return True
        cache = self._kept._cache
        file = getattr(cache, "_cache_file", None)
        return (
            file is None
            or cache._index_key(arguments, self._kept.targetctx.codegen()) in file._load_index()
        )

    def get_overload(self, signature: Any) -> Any:
        """The key under which callers find code that calls the kernel by name."""
        arguments = tuple(sigutils.normalize_signature(signature)[0])
        if arguments not in self._keys:
            needed, context = Needed(*self._place, arguments), self._kept.targetctx
            if not self._waits(arguments):
                self.make_ready(arguments)
            result = (
                self._returned(arguments)
                or self._dispatcher(arguments).overloads[arguments].signature.return_type
            )
            code = self._kept.py_func.__code__
            description = SimpleNamespace(
                mangled_name=needed.symbol,
                restype=result,
                argtypes=arguments,
                args=code.co_varnames[: code.co_argcount],
                noalias=False,
                inline=False,
            )
            own: list[Any] = []
            self._keys[arguments] = own.append  # as in parts
            context.insert_user_function(
                own.append, description, [_NameLibrary(context.codegen(), needed)]
            )
        return self._keys[arguments]

    def make_ready(self, arguments: Any) -> None:
        """Compile the kernel or read it from disk, and give its code its name."""
        if arguments in self._ready:
            return
        kernel = self._dispatcher(arguments)
        kernel.compile(arguments)
        made, expected = kernel.overloads[arguments], self._returned(arguments)
        needed = Needed(*self._place, arguments)
        if expected is not None and made.signature.return_type != expected:
            raise TypeError(
                f"{needed.name} returns {made.signature.return_type}, and says that it returns "
                f"{expected}."
            )
        llvm.add_symbol(
            needed.symbol, made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
        )
        self._ready.add(arguments)


_FACES: dict[tuple[str, str], _Face] = {}
_LARGE: set[Any] = set()
_SOON: list[Needed] = []


def expect_large(kernel: Any) -> None:
    """Say that a kernel has many standalone ones inside, so that the second process is started
    before they are met."""
    _LARGE.add(kernel.py_func)


@dataclass(frozen=True)
class SameCompiler:
    """Makes sure that another process compiles the same: Numba's settings, and the functions of
    every kind.

    kinds: as ``kinds.own_kinds``.
    """

    settings: dict[str, Any]
    kinds: dict[str, dict[str, str]]

    @classmethod
    def here(cls) -> "SameCompiler":
        """As this process compiles."""
        return cls(_settings(), own_kinds())

    def __call__(self) -> None:
        for place in [
            *self.kinds,
            *(place for functions in self.kinds.values() for place in functions.values()),
        ]:
            importlib.import_module(place.split(":")[0])
        own = own_kinds()
        if (
            _settings() != self.settings
            or {record: own.get(record) for record in self.kinds} != self.kinds
        ):
            raise RuntimeError("This process would compile something else.")


def _settings() -> dict[str, Any]:
    """Numba's settings, whether they come from the environment or were made by a program."""
    values = {name: getattr(numba.config, name) for name in dir(numba.config) if name.isupper()}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, (str, int, float, type(None)))
    }


class _Opened:
    """While a kernel is compiled: what it calls by name and has no code yet, and the process that
    may compile some of it."""

    def __init__(self) -> None:
        self.waiting: set[Needed] = set()
        self._second: SecondProcess | None = None

    def start(self) -> None:
        """Have the process at hand."""
        if self._second is None:
            self._second = SecondProcess(SameCompiler.here())
            for needed in _SOON:
                if not needed.face.is_made(needed.arguments):
                    self._second.add_spare(needed)

    def add(self, needed: Needed) -> None:
        if needed not in self.waiting:
            self.waiting.add(needed)
            self.start()
            assert self._second is not None
            self._second.add(needed, needed.face.work)

    def finish(self) -> None:
        """Until everything that waits has code, made here or on disk."""
        while self._second is not None and (task := self._second.take_back()) is not None:
            task()
        if self._second is not None:
            self._second.wait()

    def close(self) -> None:
        if self._second is not None:
            self._second.close()


_opened: _Opened | None = None


def _while_open(function: Any, compile_function: Callable[[], Any]) -> Any:
    """What the compilation of a kernel gives, with a second process at hand. Compilations nest, the
    outermost has it."""
    global _opened
    if _opened is not None or not is_wanted():
        return compile_function()
    _opened = _Opened()
    try:
        if function in _LARGE:
            _opened.start()
        return compile_function()
    finally:
        _opened.close()
        _opened = None


def _make_ready(library: Any) -> None:
    """Have machine code for all that a library calls by name."""
    needed = [each for each in library._reload_init if isinstance(each, Needed)]
    if needed and _opened is not None:
        _opened.finish()
    for each in needed:
        each()


parts.before_calls.append(_make_ready)
parts.around_kernels.append(_while_open)


def expect_soon(kernel: Any, *arguments: Any) -> None:
    """Say that a standalone kernel, which Python calls as well, will be called with such arguments
    after a large one."""
    needed = Needed(
        kernel.py_func.__module__,
        kernel.py_func.__name__,
        tuple(numba.typeof(argument) for argument in arguments),
    )
    _SOON.append(needed)


def called_by_name(
    kernel: Any, renewed: Callable[[Any], Any] | None, returns: Any, work: float, **options: Any
) -> None:
    """Let other kernels call this one by name.

    renewed: gives a second dispatcher of the same function its own place on disk; None: Python
    calls the kernel as well, and both share one.
    """
    options = {"no_cfunc_wrapper": True, **options}
    kept = kernel
    if renewed is not None:
        kept = renewed(
            numba.njit(
                cache=kernel._cache.cache_path is not None, pipeline_class=_Compiler, **options
            )(kernel.py_func)
        )
    face = _Face(kept, options, returns, work)
    _FACES[kernel.py_func.__module__, kernel.py_func.__name__] = face
    kernel.get_call_template, kernel.get_overload = face.get_call_template, face.get_overload
