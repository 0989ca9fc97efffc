"""Verbs: functions that are chosen by the class of a record, when their caller is compiled.

A kind of view, or of partition prior, is a NamedTuple class and compiled functions of its own,
which ``register`` brings together. A verb is what the rest of the sampler calls. Its last parameter
is the record, whose class says which function is meant. The choice is made while the caller is
compiled, which then calls the chosen function: nothing is looked up when the code runs, and nothing
else is compiled. Called from Python a verb makes the same choice.

``each``, ``total`` and ``in_turn`` apply a verb to every record of a tuple, which may be of
different kinds.

All this uses Numba's extension interface (``type_callable``, ``lower_builtin``) for functions of
this package, and the typing and target contexts that it hands over. Nothing depends on ``parts``:
it is the same with every Numba that can be installed, with ``DUALVIEW_COMPILE_PARTS=0`` too, and
``make test-numba`` tests it so.
"""

import inspect
import operator
from collections.abc import Callable
from typing import Any

from numba.core import cgutils, types
from numba.extending import lower_builtin, type_callable

from dualview.numerics.compiling import compiled

_KINDS: dict[type, dict[str, Callable[..., Any]]] = {}


def register(record: type, **functions: Callable[..., Any]) -> None:
    """The functions of a kind, by the names of their verbs."""
    _KINDS.setdefault(record, {}).update(functions)


def supports(record: type, *verbs: str) -> bool:
    """Whether a kind has functions for all of these verbs."""
    return all(verb in _KINDS.get(record, {}) for verb in verbs)


def is_own(record: type) -> bool:
    """Whether a kind is of this package. The disk cache of compiled code would not notice an edit
    to others."""
    return record.__module__.split(".")[0] == __name__.split(".")[0]


def own_kinds() -> dict[str, dict[str, str]]:
    """The module and name of every function of every kind of this package, by those of the kind and
    by verbs."""
    return {
        _place(record): {
            verb: _place(getattr(function, "py_func", function))
            for verb, function in functions.items()
        }
        for record, functions in _KINDS.items()
        if is_own(record)
    }


def _place(item: Any) -> str:
    return f"{item.__module__}:{item.__qualname__}"


def _function_of(record: type, verb: Any) -> Any:
    functions = _KINDS.get(record, {})
    if verb.__name__ not in functions:
        if functions and verb.default is not None:
            return verb.default
        known = ", ".join(sorted(functions)) or "nothing"
        raise TypeError(
            f"{record.__name__} has no function for the verb {verb.__name__!r}; it was "
            f"registered with {known}."
        )
    return functions[verb.__name__]


class _Call:
    """A call of a compiled function inside other compiled code, with arguments of these types."""

    def __init__(self, typing_context: Any, function: Any, *arguments: Any) -> None:
        self._function = types.Dispatcher(function)
        self._given = arguments
        wanted = tuple(types.unliteral(argument) for argument in arguments)
        self.signature = typing_context.resolve_function_type(self._function, wanted, {})

    def emit(self, context: Any, builder: Any, *values: Any, to: Any = None) -> Any:
        """The value that the function returns, cast to a type where one is given."""
        function = context.get_function(self._function, self.signature)
        pairs = zip(values, self._given, self.signature.args, strict=True)
        result = function(
            builder, [context.cast(builder, value, own, wanted) for value, own, wanted in pairs]
        )
        context.add_linking_libs(getattr(function, "libs", ()))
        return (
            result if to is None else context.cast(builder, result, self.signature.return_type, to)
        )


def _verb_call(typing_context: Any, verb: Any, *arguments: Any) -> _Call:
    """A call of the function that the last argument's class has for a verb."""
    return _Call(typing_context, _function_of(arguments[-1].instance_class, verb), *arguments)


def _give_compiled_twin(
    function: Callable[..., Any], names: list[str], typed: Any, emitted: Any
) -> None:
    """typed(typing context, types) is what the twin returns; emitted(context, builder, types,
    values, result type) its code."""
    scope: dict[str, Any] = {"typed": typed}
    exec(
        f"def typer(context):\n return lambda {', '.join(names)}: typed(context, "
        f"({', '.join(names)},))",
        scope,
    )
    type_callable(function)(scope["typer"])

    @lower_builtin(function, types.VarArg(types.Any))
    def lower(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return emitted(context, builder, signature.args, values, signature.return_type)


def verb(stub: Callable[..., Any], default: Any = None) -> Any:
    """Make a verb of a function that has its parameters and no body; default: for kinds that have
    no function for it."""
    names = list(inspect.signature(stub).parameters)

    def call(*arguments: Any) -> Any:
        return _function_of(type(arguments[-1]), call)(*arguments)

    def typed(context: Any, given: Any) -> Any:
        return _verb_call(context, call, *given).signature.return_type

    def emitted(context: Any, builder: Any, given: Any, values: Any, _: Any) -> Any:
        return _verb_call(context.typing_context, call, *given).emit(context, builder, *values)

    call.__name__, call.__doc__ = stub.__name__, stub.__doc__
    call.parameters, call.default = names, default  # type: ignore[attr-defined]
    _give_compiled_twin(call, names, typed, emitted)
    return call


def optional_verb(function: Callable[..., Any]) -> Any:
    """Make a verb of a function that does for kinds which have none of their own."""
    return verb(function, compiled(function))


def _records(builder: Any, records: Any, value: Any) -> list[tuple[Any, Any]]:
    """The records of a tuple, as (type, value)."""
    return [(record, builder.extract_value(value, i)) for i, record in enumerate(records)]


def each(one: Any) -> Callable[..., Any]:
    """A function like the verb for a tuple of records: the tuple of what it returns for them."""
    *names, last = one.parameters

    def call(*arguments: Any) -> Any:
        return tuple(one(*arguments[:-1], record) for record in arguments[-1])

    def typed(context: Any, given: Any) -> Any:
        *before, records = given
        return types.Tuple(
            [_verb_call(context, one, *before, record).signature.return_type for record in records]
        )

    def emitted(context: Any, builder: Any, given: Any, values: Any, result: Any) -> Any:
        calls = [
            _verb_call(context.typing_context, one, *given[:-1], record).emit(
                context, builder, *values[:-1], value
            )
            for record, value in _records(builder, given[-1], values[-1])
        ]
        return context.make_tuple(builder, result, calls)

    _give_compiled_twin(call, [*names, f"{last}s"], typed, emitted)
    return call


def total(one: Any) -> Callable[..., Any]:
    """A function like the verb for a tuple of one record and more: the sum of what it returns, a
    float, from left to right."""
    *names, last = one.parameters

    def call(*arguments: Any) -> Any:
        first, *others = (one(*arguments[:-1], record) for record in arguments[-1])
        return sum(others, start=first)

    def typed(context: Any, given: Any) -> Any:
        *before, records = given
        kinds = [
            types.unliteral(_verb_call(context, one, *before, record).signature.return_type)
            for record in records
        ]
        return context.unify_types(*kinds)

    def emitted(context: Any, builder: Any, given: Any, values: Any, result: Any) -> Any:
        first, *others = (
            _verb_call(context.typing_context, one, *given[:-1], record).emit(
                context, builder, *values[:-1], value, to=result
            )
            for record, value in _records(builder, given[-1], values[-1])
        )
        add = builder.fadd if isinstance(result, types.Float) else builder.add
        for other in others:
            first = add(first, other)
        return first

    _give_compiled_twin(call, [*names, f"{last}s"], typed, emitted)
    return call


def in_turn(one: Any) -> Callable[..., Any]:
    """A function like the verb for a tuple of records, its second argument being what it returned
    for the record before.

    In compiled code every value on the way is cast to the type of the first, as an assignment to an
    element of an array would be: begin with a float where the verb's functions return floats.
    """
    first, second, *names, last = one.parameters

    def call(*arguments: Any) -> Any:
        start, at, *others, records = arguments
        for record in records:
            at = one(start, at, *others, record)
        return at

    def typed(context: Any, given: Any) -> Any:  # noqa: ARG001
        return types.unliteral(given[1])

    def emitted(context: Any, builder: Any, given: Any, values: Any, result: Any) -> Any:
        at = context.cast(builder, values[1], given[1], result)
        for record, value in _records(builder, given[-1], values[-1]):
            own = _verb_call(context.typing_context, one, given[0], result, *given[2:-1], record)
            at = own.emit(context, builder, values[0], at, *values[2:-1], value, to=result)
        return at

    _give_compiled_twin(call, [first, second, *names, f"{last}s"], typed, emitted)
    return call


def selected(
    choose: Callable[[list[type]], Any], within: tuple[str, ...] = ()
) -> Callable[..., Any]:
    """A function of (rng, state) that is the one chosen by the classes of the state's views, when
    its caller is compiled.

    within: names of the fields in which the record is that has the views, from the outside.
    """

    def call(rng: Any, state: Any) -> Any:
        record = state
        for name in within:
            record = getattr(record, name)
        return choose([type(view) for view in record.views])(rng, state)

    def chosen_call(typing_context: Any, rng: Any, state: Any) -> _Call:
        views = state
        for name in (*within, "views"):
            views = views.types[views.instance_class._fields.index(name)]
        return _Call(typing_context, choose([view.instance_class for view in views]), rng, state)

    def typed(context: Any, given: Any) -> Any:
        return chosen_call(context, *given).signature.return_type

    def emitted(context: Any, builder: Any, given: Any, values: Any, _: Any) -> Any:
        return chosen_call(context.typing_context, *given).emit(context, builder, *values)

    call.__name__, call.__doc__ = choose.__name__, choose.__doc__
    _give_compiled_twin(call, ["rng", "state"], typed, emitted)
    return call


def _item(typing_context: Any, values: Any) -> Any:
    """The signature of values[index]."""
    return typing_context.resolve_function_type(operator.getitem, (values, types.intp), {})


def _emit_item(context: Any, builder: Any, given: Any, values: Any, i: int) -> Any:
    """values[places[i]]; given and values: the types and values of both."""
    index = context.get_constant(types.intp, i)
    for kind, value in zip(given[::-1], values[::-1], strict=True):  # of places, then of values
        signature = _item(context.typing_context, kind)
        index = context.get_function(operator.getitem, signature)(builder, [value, index])
    return index


class _Own:
    """Calls of a verb for the records of a tuple: record i takes its own of the arguments picked,
    at places[i] of each.

    given: the types of all arguments but places and records.
    """

    def __init__(
        self, typing_context: Any, one: Any, picked: tuple[str, ...], given: Any, places: Any
    ) -> None:
        self._context, self._one = typing_context, one
        self._given, self._places = given, places
        self._is_picked = [name in picked for name in one.parameters[:-1]]
        pairs = zip(given, self._is_picked, strict=True)
        self._types = [
            _item(typing_context, argument).return_type if own else argument
            for argument, own in pairs
        ]

    def call(self, record: Any) -> _Call:
        """The call for a record of this type."""
        return _verb_call(self._context, self._one, *self._types, record)

    def emit(
        self,
        context: Any,
        builder: Any,
        i: int,
        values: Any,
        places: Any,
        record: Any,
        to: Any = None,
    ) -> Any:
        """What the verb returns for record i, which is (type, value)."""
        own = [
            _emit_item(context, builder, (argument, self._places), (value, places), i)
            if is_own
            else value
            for argument, value, is_own in zip(self._given, values, self._is_picked, strict=True)
        ]
        result = self.call(record[0]).emit(context, builder, *own, record[1], to=to)
        for kind, value, is_own in zip(self._types, own, self._is_picked, strict=True):
            if is_own and context.enable_nrt:  # a reference that is no longer needed
                context.nrt.decref(builder, kind, value)
        return result


def each_by(one: Any, *picked: str) -> Callable[..., Any]:
    """``each``, with values of their own for some of the parameters: record i takes that at
    places[i] of what is given."""
    *names, last = one.parameters
    is_picked = [name in picked for name in names]

    def call(*arguments: Any) -> Any:
        *before, places, records = arguments
        return tuple(
            one(*_picked(before, is_picked, places[i]), record) for i, record in enumerate(records)
        )

    def typed(context: Any, given: Any) -> Any:
        *before, places, records = given
        own = _Own(context, one, picked, before, places)
        return types.Tuple([own.call(record).signature.return_type for record in records])

    def emitted(context: Any, builder: Any, given: Any, values: Any, result: Any) -> Any:
        own = _Own(context.typing_context, one, picked, given[:-2], given[-2])
        calls = [
            own.emit(context, builder, i, values[:-2], values[-2], record)
            for i, record in enumerate(_records(builder, given[-1], values[-1]))
        ]
        return context.make_tuple(builder, result, calls)

    _give_compiled_twin(call, [*names, "places", f"{last}s"], typed, emitted)
    return call


def each_where(one: Any, *picked: str) -> Callable[..., Any]:
    """``each_by`` of a verb that returns nothing, for the records that take part: where
    takes_part[places[i]] is not 0."""
    *names, last = one.parameters
    is_picked = [name in picked for name in names]

    def call(*arguments: Any) -> None:
        *before, takes_part, places, records = arguments
        for i, record in enumerate(records):
            if takes_part[places[i]] != 0:
                one(*_picked(before, is_picked, places[i]), record)

    def typed(context: Any, given: Any) -> Any:
        _check_calls(context, one, picked, given)
        return types.none

    def emitted(context: Any, builder: Any, given: Any, values: Any, _: Any) -> Any:
        own = _Own(context.typing_context, one, picked, given[:-3], given[-2])
        for i, record in enumerate(_records(builder, given[-1], values[-1])):
            with builder.if_then(_takes_part(context, builder, i, given, values)):
                own.emit(context, builder, i, values[:-3], values[-2], record)
        return context.get_dummy_value()

    _give_compiled_twin(call, [*names, "takes_part", "places", f"{last}s"], typed, emitted)
    return call


def total_where(one: Any, *picked: str) -> Callable[..., Any]:
    """The sum of what a verb returns, a float, over the records that take part; arguments as in
    ``each_where``."""
    *names, last = one.parameters
    is_picked = [name in picked for name in names]

    def call(*arguments: Any) -> float:
        *before, takes_part, places, records = arguments
        own = (
            one(*_picked(before, is_picked, places[i]), record)
            for i, record in enumerate(records)
            if takes_part[places[i]]
        )
        return sum(own, start=0.0)

    def typed(context: Any, given: Any) -> Any:
        _check_calls(context, one, picked, given)
        return types.float64

    def emitted(context: Any, builder: Any, given: Any, values: Any, result: Any) -> Any:
        own = _Own(context.typing_context, one, picked, given[:-3], given[-2])
        place = cgutils.alloca_once_value(builder, context.get_constant(result, 0.0))
        for i, record in enumerate(_records(builder, given[-1], values[-1])):
            with builder.if_then(_takes_part(context, builder, i, given, values)):
                value = own.emit(context, builder, i, values[:-3], values[-2], record, to=result)
                builder.store(builder.fadd(builder.load(place), value), place)
        return builder.load(place)

    _give_compiled_twin(call, [*names, "takes_part", "places", f"{last}s"], typed, emitted)
    return call


def in_turn_by(one: Any, *picked: str) -> Callable[..., Any]:
    """``in_turn``, with values of their own for some of the parameters, as in ``each_by``; none of
    them the second."""
    *names, last = one.parameters
    is_picked = [name in picked for name in names]

    def call(*arguments: Any) -> Any:
        *before, places, records = arguments
        for i, record in enumerate(records):
            before[1] = one(*_picked(before, is_picked, places[i]), record)
        return before[1]

    def typed(context: Any, given: Any) -> Any:  # noqa: ARG001
        return types.unliteral(given[1])

    def emitted(context: Any, builder: Any, given: Any, values: Any, result: Any) -> Any:
        own = _Own(context.typing_context, one, picked, (given[0], result, *given[2:-2]), given[-2])
        at = context.cast(builder, values[1], given[1], result)
        for i, record in enumerate(_records(builder, given[-1], values[-1])):
            at = own.emit(
                context, builder, i, (values[0], at, *values[2:-2]), values[-2], record, to=result
            )
        return at

    _give_compiled_twin(call, [*names, "places", f"{last}s"], typed, emitted)
    return call


def _picked(arguments: list[Any], is_picked: list[bool], place: Any) -> list[Any]:
    return [
        argument[place] if own else argument
        for argument, own in zip(arguments, is_picked, strict=True)
    ]


def _check_calls(context: Any, one: Any, picked: tuple[str, ...], given: Any) -> None:
    """Raise where a record of some kind cannot be called so."""
    *before, _, places, records = given
    own = _Own(context, one, picked, before, places)
    for record in records:
        own.call(record)


def _takes_part(context: Any, builder: Any, i: int, given: Any, values: Any) -> Any:
    """Whether record i does, as a bit."""
    flag = _emit_item(context, builder, given[-3:-1], values[-3:-1], i)
    return builder.icmp_signed("!=", flag, flag.type(0))
