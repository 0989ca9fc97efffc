"""Kernels with code of their own: callers share it, find it again on disk, and are compiled before
it is."""

import functools
import itertools
import operator
import os
import sys
import time
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core import event
from numba.core.compiler import Flags
from numba.core.targetconfig import ConfigStack

from dualview.numerics import compiling, kinds
from programs import run_here

pytestmark = pytest.mark.skipif(not compiling._parts, reason="This Numba is used without parts.")


class Pair(NamedTuple):
    """Two arrays."""

    left: np.ndarray
    right: np.ndarray


@compiling.standalone()
def swapped(pair, by):
    if by < 0.0:
        raise ValueError("by is below zero")
    return Pair(pair.right * by, pair.left.copy())


@compiling.standalone(returns="pair")
def doubled(pair):
    return Pair(2.0 * pair.left, pair.right)


@compiling.standalone(returns=0)
def says_whole_number(x):
    return x + 0.5


@compiling.standalone(returns=0.0, python=True)
def added(a, b):
    return a + b


def _face(kernel):
    from dualview.numerics import standalone

    return standalone._FACES[kernel.py_func.__module__, kernel.py_func.__name__]


def _pair():
    return Pair(np.array([1.0, 2.0]), np.array([3.0, 4.0]))


def test_callers_share_its_code_and_python_has_a_copy():
    once = compiling.uncached(lambda pair: swapped(pair, 2.0))
    twice = compiling.uncached(lambda pair: swapped(swapped(pair, 2.0), 10.0))
    assert np.array_equal(once(_pair()).left, [6.0, 8.0])
    assert np.array_equal(twice(_pair()).left, [10.0, 20.0])
    assert np.array_equal(twice(_pair()).right, [6.0, 8.0])
    assert not swapped.overloads
    assert np.array_equal(swapped(_pair(), 3.0).left, [9.0, 12.0])
    assert len(swapped.overloads) == 1


def test_its_errors_reach_the_caller():
    call = compiling.uncached(lambda pair, by: swapped(pair, by).left.sum())
    assert call(_pair(), 1.0) == 7.0
    with pytest.raises(ValueError, match="below zero"):
        call(_pair(), -1.0)


def test_a_kernel_that_other_people_compile_can_call_it():
    assert numba.njit(lambda pair: doubled(doubled(pair)).left.sum())(_pair()) == 12.0


def test_what_it_says_that_it_returns_is_checked():
    with pytest.raises(
        TypeError, match="says_whole_number returns float64, and says that it returns int64"
    ):
        compiling.uncached(lambda x: says_whole_number(x))(1.0)


def test_it_can_be_one_for_kernels_and_for_python():
    assert compiling.uncached(lambda a: added(a, 1.0))(2.0) == 3.0
    assert added(1.5, 2.0) == 3.5
    assert len(added.overloads) == 1


def test_records_of_other_packages_are_not_kept_on_disk():
    """Pair is of this module, whose edits the disk cache would not notice."""
    compiling.uncached(lambda pair: doubled(pair))(_pair())
    assert not _face(doubled)._kept.overloads
    assert len(_face(doubled)._passing.overloads) == 1
    assert not _face(doubled)._passing._cache.cache_path


@compiling.uncached
def _many(pair, n):
    total = 0.0
    for _ in range(n):
        pair = swapped(doubled(pair), 0.5)
        total += pair.left[0]
    return total


def test_its_arrays_are_given_back():
    stats = numba.core.runtime.rtsys.get_allocation_stats
    if not numba.config.NRT_STATS:
        numba.core.runtime._nrt_python.memsys_enable_stats()
    _many(_pair(), 1)
    before = stats()
    _many(_pair(), 100)
    after = stats()
    assert after.mi_alloc - before.mi_alloc >= 300
    assert after.mi_free - before.mi_free == after.mi_alloc - before.mi_alloc


# Code that waits


class _NoProcess:
    """Takes tasks, and does none."""

    def __init__(self, _):
        self._tasks = []

    def add(self, task, _):
        self._tasks.append(task)

    def add_spare(self, task):
        pass

    def take_back(self):
        return self._tasks.pop() if self._tasks else None

    def wait(self):
        pass

    close = wait


@pytest.fixture
def waiting(monkeypatch):
    """A new standalone kernel, whose code waits until its callers are compiled."""
    from dualview.numerics import standalone

    monkeypatch.setattr(standalone, "is_wanted", lambda: True)
    monkeypatch.setattr(standalone, "SecondProcess", _NoProcess)
    monkeypatch.setattr(standalone._Face, "is_made", lambda *_: False)

    def waited_for(a, b):
        return a - b

    waited_for.__name__ = f"waited_for_{len(standalone._FACES)}"
    return compiling.standalone(returns=0.0)(waited_for)


def test_it_waits_until_our_code_is_put_together(waiting):
    part = compiling.uncached(lambda a, b: 2.0 * waiting(a, b))
    assert compiling.uncached(lambda a: part(a, 1.0) + waiting(a, 2.0))(4.0) == 8.0


def test_it_does_not_wait_where_other_peoples_code_is_part_of_ours(waiting):
    """Were it not so, the process would end without a word."""
    part = compiling.uncached(lambda a, b: 2.0 * waiting(a, b))
    theirs = numba.njit(lambda a: part(a, 1.0) + waiting(a, 2.0))
    assert compiling.uncached(lambda a: waiting(a, 3.0) + theirs(a))(4.0) == 9.0


def test_other_people_can_call_it_after_a_compilation_of_ours_failed(waiting):
    part = compiling.uncached(lambda a, b: 2.0 * waiting(a, b))
    with pytest.raises(numba.TypingError):
        compiling.uncached(lambda a: part(a, 1.0) + a.nothing)(4.0)
    assert numba.njit(lambda a: part(a, 1.0))(4.0) == 6.0


# Copies


@compiling.uncached
def _fibonacci(n):
    a, b, before, seen = 0, 1, -1, 0
    for i in range(n):
        before = a
        kept = b
        a, b = b, a + b
        if i % 3 == 0:
            seen += kept - before
        last = kept
        while last > 10:
            last = last - 10
        seen += last
    return a, b, before, seen


@compiling.uncached
def _rotated(values, n):
    first, second, third = values, values + 1.0, values + 2.0
    for _ in range(n):
        held = first
        first, second, third = second, third, held
    return first - second, third


@pytest.mark.parametrize("n", [0, 1, 2, 7, 20])
def test_variables_that_were_copies_keep_their_values(n):
    assert _fibonacci(n) == _fibonacci.py_func(n)
    for own, expected in zip(
        _rotated(np.arange(3.0), n), _rotated.py_func(np.arange(3.0), n), strict=True
    ):
        assert np.array_equal(own, expected)


def _flags(kind, error_model):
    made = kind()
    made.error_model = error_model
    return made


def _resolved(function, pair, flags):
    """How a call is typed, and under which key its code is found; None where there is none."""
    context = numba.core.registry.cpu_target.typing_context
    with ConfigStack().enter(flags):
        try:
            signature = function.get_call_type(context, pair, {})
        except numba.TypingError:
            return None
    return signature, function.get_impl_key(signature)


def test_operators_are_resolved_as_numba_does():
    parts, context = compiling._parts, numba.core.registry.cpu_target.typing_context
    kinds = [numba.int64, numba.float64, numba.boolean, numba.float64[::1], numba.types.literal(2)]
    plain, ours = Flags(), [_flags(parts._Flags, model) for model in ("numpy", "python")]
    for name in ("add", "mul", "truediv", "lt", "getitem"):
        function = context.resolve_value_type(getattr(operator, name))
        for pair in itertools.product(kinds, kinds):
            expected = _resolved(function, pair, plain)
            with parts.quick_answers():
                for flags in (*ours, plain, *ours):
                    assert _resolved(function, pair, flags) == expected


def test_an_operator_is_remembered_for_its_flags_until_the_compilation_ends():
    parts, context = compiling._parts, numba.core.registry.cpu_target.typing_context
    add, pair = context.resolve_value_type(operator.add), (numba.float64, numba.float64)
    numpy, python = (_flags(parts._Flags, model) for model in ("numpy", "python"))
    with parts.quick_answers():
        signature, _ = _resolved(add, pair, numpy)
        with parts.quick_answers():
            add._impl_keys[signature.args] = "an overload that other flags have led to"
            assert _resolved(add, pair, numpy) == (signature, operator.add)
            assert len(parts._RESOLVED) == 1
            _resolved(add, pair, python)
        assert len(parts._RESOLVED) == 2
        _resolved(add, pair, Flags())
        assert len(parts._RESOLVED) == 2
    assert not parts._RESOLVED


class _Replaced(event.Listener):
    """Notes whether functions of Numba are replaced whenever a function is about to be compiled."""

    def __init__(self):
        self.seen = []

    def on_start(self, _):
        parts = compiling._parts
        self.seen.append(
            [getattr(owner, name) is quicker for owner, name, quicker in parts._QUICKER]
        )

    def on_end(self, _):
        pass


def test_functions_of_numba_are_replaced_inside_a_compilation_of_ours_only():
    part = compiling.uncached(lambda a: 2.0 * a)
    kernel, theirs = compiling.uncached(lambda a: part(a) + 1.0), numba.njit(lambda a: a + 1.0)
    with event.install_listener("numba:compile", look := _Replaced()):
        kernel(1.0)
        theirs(1.0)
    assert look.seen == [[False, False], [True, True], [False, False]]


def test_the_variables_of_a_statement_are_those_that_numba_lists():
    from numba.core import compiler, ir

    parts, blocks = compiling._parts, compiler.run_frontend(_fibonacci.py_func).blocks.values()
    for statement in [statement for block in blocks for statement in block.body]:
        values = statement.__dict__
        assert parts._variables_in(statement, values) == ir.Inst._rec_list_vars(statement, values)


# On disk

SUMS = """
import numpy as np
from dualview.views import no_view
from dualview.views.gaussian.conditionals import cluster_sums
from dualview.views.gaussian.kind import sums
view = no_view(3, 1)._replace(vectors=np.arange(6.0).reshape(3, 2))
view = view._replace(components=view.components._replace(means=np.zeros((1, 2))))
found = sums(np.zeros(3, dtype=np.int64), 0, 3, view)
print(*found.totals.ravel(), sum(sums.stats.cache_hits.values()), len(cluster_sums.overloads))
"""


def test_a_kernel_from_disk_finds_what_it_calls_or_has_it_compiled(tmp_path):
    """Were it not so, the process would end without a word."""
    first = run_here(SUMS, tmp_path)
    assert first[-2:] == [0, 1]
    lost = list(tmp_path.rglob("conditionals.cluster_sums*"))
    assert lost
    for file in lost:
        file.unlink()
    assert run_here(SUMS, tmp_path) == [*first[:-2], 1, 1]


THEIRS = """
import numba
from dualview.numerics import compiling

@compiling.standalone()
def doubled(x):
    return 2.0 * x

@compiling.compiled
def part(x):
    return doubled(x) + 1.0

@numba.njit(cache=True)
def call(x):
    return part(x) + doubled(x)
"""
CALL = """
import sys
sys.path.insert(0, {!r})
import theirs
print(theirs.call(4.0), sum(theirs.call.stats.cache_hits.values()))
"""


def test_other_peoples_code_from_disk_finds_what_it_calls(tmp_path):
    (tmp_path / "theirs.py").write_text(THEIRS)
    assert run_here(CALL.format(str(tmp_path)), tmp_path / "cache") == [17.0, 0]
    assert run_here(CALL.format(str(tmp_path)), tmp_path / "cache") == [17.0, 1]


ONCE = """
import warnings
import dualview as dv
from dualview.engines.gibbs.steps import run_steps
from dualview.numerics import standalone
warnings.simplefilter("ignore")
forum = dv.datasets.agreement(16, 30, n_clusters=2, seed=0)
behavior = dv.SharedOutcome(forum.participation, forum.outcome)
model = dv.DualViewMixture(n_warmup=5, n_draws=10, n_chains=1, n_jobs=1, random_state=0)
model.fit(forum.features, behavior)
faces = [face for face in standalone._FACES.values() if face._kept.overloads]
print(len(run_steps.overloads), len(faces), max(len(face._kept.overloads) for face in faces))
soon = standalone._SOON
print(len(soon), sum(set(one.face._kept.overloads) == {one.arguments} for one in soon))
"""


def test_a_fit_compiles_every_kernel_for_one_kind_of_arguments():
    """Those that were foreseen are those that it calls: what is compiled before a fit has data, and
    by the second process."""
    n_steps, n_faces, most, n_soon, n_right = run_here(ONCE)
    assert n_steps == most == 1
    assert n_faces > 8
    assert n_soon == n_right == 6


# The second process


def _until(happened, seconds=30.0):
    end = time.monotonic() + seconds
    while not happened() and time.monotonic() < end:
        time.sleep(0.02)
    assert happened()


@pytest.fixture
def second_process(monkeypatch):
    """Makes second processes, and ends them."""
    from dualview.numerics import second_process as module

    monkeypatch.delenv(module.SWITCH, raising=False)
    monkeypatch.setattr(module, "n_cores", lambda: 2)
    made = []

    def make(first):
        made.append(module.SecondProcess(first))
        return made[-1]

    yield make
    for process in made:
        process.close()
        assert process._process is None or process._process.poll() is not None
        assert not process._thread.is_alive()


def test_it_does_what_it_is_told(second_process, tmp_path):
    names = ["first", "one", "two", "spare"]
    first, one, two, spare = (functools.partial(os.mkdir, str(tmp_path / name)) for name in names)
    process = second_process(first)
    process.add_spare(spare)
    process.add(one, 1.0)
    process.add(two, 2.0)
    _until((tmp_path / "spare").exists)
    process.wait()
    assert {path.name for path in tmp_path.iterdir()} == set(names)
    assert process.take_back() is None


@pytest.mark.parametrize("where", ["first", "later"])
def test_one_that_fails_leaves_its_tasks_to_others(second_process, tmp_path, where):
    fails, works = (
        functools.partial(int, "nothing"),
        functools.partial(os.mkdir, str(tmp_path / "made")),
    )
    process = second_process(fails if where == "first" else functools.partial(int, "1"))
    if where == "later":
        process.add(fails, 3.0)
        _until(lambda: not process._thread.is_alive())
    process.add(works, 1.0)
    process.add(fails, 2.0)
    _until(lambda: not process._thread.is_alive())
    process.wait()
    assert process.take_back() is fails
    assert process.take_back() is works
    assert process.take_back() is None
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "why", ["one core", "switched off", "frozen", "embedded", "no interpreter"]
)
def test_there_may_be_none(second_process, monkeypatch, why):
    from dualview.numerics import second_process as module

    if why == "one core":
        monkeypatch.setattr(module, "n_cores", lambda: 1)
    elif why == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    elif why == "switched off":
        monkeypatch.setenv("DUALVIEW_COMPILE_PROCESSES", "1")
    else:
        monkeypatch.setattr(sys, "executable", "" if why == "no interpreter" else "/usr/sbin/uwsgi")
    process = second_process(functools.partial(int, "1"))
    assert process._process is None
    process.add(sys.exit, 1.0)
    process.wait()
    assert process.take_back() is sys.exit


@pytest.mark.parametrize(
    ("program", "is_one"),
    [
        *(
            (name, True)
            for name in (
                "python",
                "python3",
                "python3.13t",
                "python3.11-dbg",
                "Python",
                "pypy3.11",
                "pythonw.exe",
            )
        ),
        *(
            (name, False)
            for name in (
                "R",
                "uwsgi",
                "blender",
                "python_server",
                "httpd",
                "julia.exe",
                "ipython-app",
            )
        ),
    ],
)
def test_an_interpreter_is_told_by_its_name(monkeypatch, program, is_one):
    from dualview.numerics import second_process as module

    monkeypatch.setattr(sys, "executable", f"/somewhere/{program}")
    assert module.is_python() == is_one


def test_the_switch_is_one_or_two(monkeypatch):
    from dualview.numerics import second_process as module

    monkeypatch.setenv(module.SWITCH, "many")
    with pytest.raises(
        ValueError, match=r"DUALVIEW_COMPILE_PROCESSES must be 1 or 2 .*; got 'many'"
    ):
        module.is_wanted()


def test_a_process_that_would_compile_something_else_says_no():
    from dualview.numerics import standalone

    here = standalone.SameCompiler.here()
    here()
    record, functions = next(iter(here.kinds.items()))
    verb = next(iter(functions))
    for other in (
        standalone.SameCompiler(here.settings | {"OPT": -1}, here.kinds),
        standalone.SameCompiler(
            here.settings, here.kinds | {record: functions | {verb: "dualview.model:Model"}}
        ),
    ):
        with pytest.raises(RuntimeError, match="something else"):
            other()
    assert all(place.startswith("dualview.") for place in kinds.own_kinds())
