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
from collections.abc import Callable, Iterator
from typing import Any

from numba.core import cgutils, types
from numba.extending import lower_builtin, type_callable

from dualview.numerics.compiling import compiled
from dualview.numerics.kinds import KINDS


def _function_of(record: type, verb: Any) -> Any:
    functions = KINDS.get(record, {})
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


class _Over:
    """A verb over the records of a tuple: its calls from Python, and their code.

    picked: parameters of which record i takes its own, at places[i] of what is given; None where
    all records are given the same, and there are no places. where: only records are called that
    take part, for which takes_part[places[i]] is not 0.
    """

    def __init__(
        self, one: Any, picked: tuple[str, ...] | None = None, *, where: bool = False
    ) -> None:
        *names, last = one.parameters
        self.one, self._by, self._where = one, picked is not None, where
        self._is_picked = [name in (picked or ()) for name in names]
        self.parameters = [*names, *["takes_part"] * where, *["places"] * self._by, f"{last}s"]

    def _parts(self, given: Any) -> tuple[Any, Any, Any]:
        """What is given: to the verb, to choose by, and the records."""
        n = len(self._is_picked)
        return given[:n], given[n:-1], given[-1]

    def calls(self, given: Any) -> Iterator[list[Any]]:
        """From Python: the verb's arguments for each record that takes part."""
        before, choice, records = self._parts(given)
        for i, record in enumerate(records):
            place = choice[-1][i] if self._by else None
            if not self._where or choice[0][place] != 0:
                pairs = zip(before, self._is_picked, strict=True)
                yield [*(value[place] if own else value for value, own in pairs), record]

    def _call(self, typing_context: Any, given: Any, i: int) -> _Call:
        """The call for record i, given types."""
        before, _, records = self._parts(given)
        pairs = zip(before, self._is_picked, strict=True)
        own = [
            _item(typing_context, kind).return_type if picked else kind for kind, picked in pairs
        ]
        return _verb_call(typing_context, self.one, *own, records[i])

    def returned(self, typing_context: Any, given: Any) -> list[Any]:
        """The types of what the verb returns for the records."""
        return [
            self._call(typing_context, given, i).signature.return_type
            for i in range(len(given[-1]))
        ]

    def emit(
        self, context: Any, builder: Any, i: int, given: Any, values: Any, to: Any = None
    ) -> Any:
        """What the verb returns for record i, cast to a type where one is given."""
        before, choice, _ = self._parts(given)
        own, chosen, records = self._parts(values)
        arguments = [
            _emit_item(context, builder, (kind, choice[-1]), (value, chosen[-1]), i)
            if picked
            else value
            for kind, value, picked in zip(before, own, self._is_picked, strict=True)
        ]
        call = self._call(context.typing_context, given, i)
        record = builder.extract_value(records, i)
        result = call.emit(context, builder, *arguments, record, to=to)
        for kind, value, picked in zip(before, arguments, self._is_picked, strict=True):
            if picked and context.enable_nrt:  # a reference that is no longer needed
                item = _item(context.typing_context, kind).return_type
                context.nrt.decref(builder, item, value)
        return result

    def takes_part(self, context: Any, builder: Any, i: int, given: Any, values: Any) -> Any:
        """Whether record i does, as a bit."""
        flag = _emit_item(context, builder, given[-3:-1], values[-3:-1], i)
        return builder.icmp_signed("!=", flag, flag.type(0))


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


def each(one: Any) -> Callable[..., Any]:
    """A function like the verb for a tuple of records: the tuple of what it returns for them."""
    return _each(_Over(one))


def each_by(one: Any, *picked: str) -> Callable[..., Any]:
    """``each``, with values of their own for some of the parameters: record i takes that at
    places[i] of what is given."""
    return _each(_Over(one, picked))


def _each(over: _Over) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        return tuple(over.one(*own) for own in over.calls(given))

    def typed(context: Any, given: Any) -> Any:
        return types.Tuple(over.returned(context, given))

    def emitted(context: Any, builder: Any, given: Any, values: Any, result: Any) -> Any:
        calls = [over.emit(context, builder, i, given, values) for i in range(len(given[-1]))]
        return context.make_tuple(builder, result, calls)

    _give_compiled_twin(call, over.parameters, typed, emitted)
    return call


def each_where(one: Any, *picked: str) -> Callable[..., Any]:
    """``each_by`` of a verb that returns nothing, for the records that take part: where
    takes_part[places[i]] is not 0."""
    return _each_where(_Over(one, picked, where=True))


def _each_where(over: _Over) -> Callable[..., Any]:
    def call(*given: Any) -> None:
        for own in over.calls(given):
            over.one(*own)

    def typed(context: Any, given: Any) -> Any:
        over.returned(context, given)  # raises where a record of some kind cannot be called so
        return types.none

    def emitted(context: Any, builder: Any, given: Any, values: Any, _: Any) -> Any:
        for i in range(len(given[-1])):
            with builder.if_then(over.takes_part(context, builder, i, given, values)):
                over.emit(context, builder, i, given, values)
        return context.get_dummy_value()

    _give_compiled_twin(call, over.parameters, typed, emitted)
    return call


def total(one: Any) -> Callable[..., Any]:
    """A function like the verb for a tuple of one record and more: the sum of what it returns, a
    float, from left to right."""
    return _total(_Over(one))


def _total(over: _Over) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        first, *others = (over.one(*own) for own in over.calls(given))
        return sum(others, start=first)

    def typed(context: Any, given: Any) -> Any:
        return context.unify_types(*map(types.unliteral, over.returned(context, given)))

    def emitted(context: Any, builder: Any, given: Any, values: Any, result: Any) -> Any:
        add = builder.fadd if isinstance(result, types.Float) else builder.add
        found = over.emit(context, builder, 0, given, values, to=result)
        for i in range(1, len(given[-1])):
            found = add(found, over.emit(context, builder, i, given, values, to=result))
        return found

    _give_compiled_twin(call, over.parameters, typed, emitted)
    return call


def total_where(one: Any, *picked: str) -> Callable[..., Any]:
    """The sum of what a verb returns, a float, over the records that take part; arguments as in
    ``each_where``."""
    return _total_where(_Over(one, picked, where=True))


def _total_where(over: _Over) -> Callable[..., Any]:
    def call(*given: Any) -> float:
        return sum((over.one(*own) for own in over.calls(given)), start=0.0)

    def typed(context: Any, given: Any) -> Any:
        over.returned(context, given)  # as above
        return types.float64

    def emitted(context: Any, builder: Any, given: Any, values: Any, result: Any) -> Any:
        place = cgutils.alloca_once_value(builder, context.get_constant(result, 0.0))
        for i in range(len(given[-1])):
            with builder.if_then(over.takes_part(context, builder, i, given, values)):
                value = over.emit(context, builder, i, given, values, to=result)
                builder.store(builder.fadd(builder.load(place), value), place)
        return builder.load(place)

    _give_compiled_twin(call, over.parameters, typed, emitted)
    return call


def in_turn(one: Any) -> Callable[..., Any]:
    """A function like the verb for a tuple of records, its second argument being what it returned
    for the record before.

    In compiled code every value on the way is cast to the type of the first, as an assignment to an
    element of an array would be: begin with a float where the verb's functions return floats.
    """
    return _in_turn(_Over(one))


def in_turn_by(one: Any, *picked: str) -> Callable[..., Any]:
    """``in_turn``, with values of their own for some of the parameters, as in ``each_by``; none of
    them the second."""
    return _in_turn(_Over(one, picked))


def _in_turn(over: _Over) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        at = given[1]
        for first, _, *others in over.calls(given):
            at = over.one(first, at, *others)
        return at

    def typed(context: Any, given: Any) -> Any:  # noqa: ARG001
        return types.unliteral(given[1])

    def emitted(context: Any, builder: Any, given: Any, values: Any, result: Any) -> Any:
        at = context.cast(builder, values[1], given[1], result)
        kinds = given[0], result, *given[2:]
        for i in range(len(given[-1])):
            at = over.emit(context, builder, i, kinds, (values[0], at, *values[2:]), to=result)
        return at

    _give_compiled_twin(call, over.parameters, typed, emitted)
    return call


def selected(choose: Callable[[list[type]], Any]) -> Callable[..., Any]:
    """A function of (rng, state) that is the one chosen by the classes of the state's views, when
    its caller is compiled."""

    def call(rng: Any, state: Any) -> Any:
        return choose([type(view) for view in state.views])(rng, state)

    def chosen_call(typing_context: Any, rng: Any, state: Any) -> _Call:
        views = state.types[state.instance_class._fields.index("views")]
        return _Call(typing_context, choose([view.instance_class for view in views]), rng, state)

    def typed(context: Any, given: Any) -> Any:
        return chosen_call(context, *given).signature.return_type

    def emitted(context: Any, builder: Any, given: Any, values: Any, _: Any) -> Any:
        return chosen_call(context.typing_context, *given).emit(context, builder, *values)

    call.__name__, call.__doc__ = choose.__name__, choose.__doc__
    _give_compiled_twin(call, ["rng", "state"], typed, emitted)
    return call
