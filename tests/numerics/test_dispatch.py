"""Verbs: the function that a record's class stands for, from Python and inside compiled code, for
one record and for tuples."""

import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest

from dualview.numerics.compiling import compiled, uncached
from dualview.numerics.dispatch import each, each_by, in_turn, selected, total, total_where, verb
from dualview.numerics.kinds import register, supports
from yardsticks import COMPILED, python_of


class Line(NamedTuple):
    """n points: 0, step, 2 step, …."""

    step: float
    n: int = 4


class Table(NamedTuple):
    """Points as they are given."""

    points: np.ndarray
    n_asked: np.ndarray


class Mute(NamedTuple):
    """A kind that knows no verb of this file."""

    number: float


@verb
def point(i, curve):
    """Point i."""


@verb
def stretched(by, curve):
    """The curve with its points times a number."""


@verb
def n_points(curve):
    """How many points there are."""


@verb
def followed(scale, at, curve):
    """A place, moved on along the curve."""


@compiled
def point_of_line(i, curve):
    return i * curve.step


@compiled
def point_of_table(i, curve):
    curve.n_asked[0] += 1
    return curve.points[i]


@compiled
def stretched_line(by, curve):
    return Line(by * curve.step, curve.n)


@compiled
def stretched_table(by, curve):
    return Table(by * curve.points, curve.n_asked)


@compiled
def points_of_line(curve):
    return curve.n


@compiled
def points_of_table(curve):
    return curve.points.shape[0]


@compiled
def followed_line(scale, at, curve):
    return at + scale * curve.step


@compiled
def followed_table(scale, at, curve):
    return scale * at + curve.points[0]


register(
    Line,
    point=point_of_line,
    stretched=stretched_line,
    n_points=points_of_line,
    followed=followed_line,
)
register(
    Table,
    point=point_of_table,
    stretched=stretched_table,
    n_points=points_of_table,
    followed=followed_table,
)
point_each, stretched_each = each(point), each(stretched)
total_point, total_points, followed_all = total(point), total(n_points), in_turn(followed)


def line():
    return Line(0.5)


def table():
    return Table(np.array([3.0, 7.0, -2.0]), np.zeros(1, dtype=np.int64))


TUPLES = {
    "one": (line(),),
    "alike": (line(), Line(2.5)),
    "mixed": (line(), table(), Line(-4.0)),
    "mixed, the other first": (table(), line()),
}
each_tuple = pytest.mark.parametrize("curves", list(TUPLES.values()), ids=list(TUPLES))


def both(function):
    """A function as it is in Python and compiled."""
    return function, uncached(function)


@pytest.mark.parametrize("call", both(lambda i, curve: point(i, curve)), ids=["Python", "compiled"])
def test_the_class_of_the_last_argument_chooses_the_function(call):
    """And what a function changes in place is changed."""
    curve = table()
    assert call(3, line()) == 1.5
    assert call(1, curve) == 7.0
    assert call(2, curve) == -2.0
    assert curve.n_asked[0] == 2


@pytest.mark.parametrize(
    "call", both(lambda by, curve: point(2, stretched(by, curve))), ids=["Python", "compiled"]
)
def test_a_verb_may_return_a_record_that_a_verb_takes(call):
    assert call(3.0, line()) == 3.0
    assert call(3.0, table()) == -6.0


@pytest.mark.parametrize(
    "call", both(lambda curve: (point(2, curve), point(2.0, curve))), ids=["Python", "compiled"]
)
def test_numbers_written_in_the_code_are_arguments_like_others(call):
    """In compiled code their types are those of constants."""
    assert call(line()) == (1.0, 1.0)


@each_tuple
def test_each_is_the_tuple_of_what_a_verb_returns(curves):
    def all_of(curves):
        return point_each(1, curves)

    def then(curves):
        return point_each(1, stretched_each(-2.0, curves))

    expected = tuple(point(1, curve) for curve in curves)
    for call in both(all_of):
        assert call(curves) == expected
    for call in both(then):
        assert call(curves) == tuple(-2.0 * number for number in expected)
    stretched_curves = uncached(lambda curves: stretched_each(2.0, curves))(curves)
    assert [type(curve) for curve in stretched_curves] == [type(curve) for curve in curves]


@each_tuple
def test_total_is_the_sum_from_left_to_right(curves):
    """Of floats and of whole numbers."""

    def sums(i, curves):
        return total_point(i, curves), total_points(curves)

    by_hand = 0.0
    for curve in curves:
        by_hand += point(2, curve)
    for call in both(sums):
        assert call(2, curves) == (by_hand, sum(n_points(curve) for curve in curves))


def test_a_total_rounds_in_its_order():
    """(1 + 1e16) − 1e16 is not 1 + (1e16 − 1e16)."""
    curves = (Line(1.0), Line(1e16), Line(-1e16))
    for call in both(lambda curves: total_point(1, curves)):
        assert call(curves) == 0.0
        assert call(curves[::-1]) == 1.0


@each_tuple
@pytest.mark.parametrize("start", [1.0, 1])
def test_in_turn_each_function_begins_where_the_one_before_ended(curves, start):
    """The order counts: some scale what they are given, some add to it. What it returns has the
    type of the start."""
    curves = [
        Line(2.0 * curve.step) if isinstance(curve, Line) else curve for curve in curves
    ]  # whole numbers all along
    at = start
    for curve in curves:
        at = 3 * at + curve.points[0] if isinstance(curve, Table) else at + 3 * curve.step
    for call in both(lambda at, curves: followed_all(3, at, curves)):
        assert call(start, tuple(curves)) == at
    if COMPILED:
        assert type(
            uncached(lambda at, curves: followed_all(3, at, curves))(start, tuple(curves))
        ) is type(start)


def test_compiled_callers_call_the_kinds_function_and_nothing_else():
    """Kinds that a caller does not meet are not compiled for it: this one could not be."""

    class Broken(NamedTuple):
        number: float

    register(Broken, point=uncached(lambda i, curve: curve.nothing + i))
    assert uncached(lambda curve: point(1, curve))(line()) == 0.5
    if COMPILED:
        with pytest.raises(numba.TypingError, match="nothing"):
            uncached(lambda curve: point(1, curve))(Broken(1.0))


def test_functions_registered_later_are_known_as_well():
    class Late(NamedTuple):
        number: float

    assert not supports(Late, "point")
    register(Late, point=uncached(lambda i, curve: curve.number - i))
    register(Late, n_points=uncached(lambda curve: 1))  # noqa: ARG005
    assert supports(Late, "point", "n_points")
    assert not supports(Late, "point", "stretched")
    for call in both(lambda curve: point(2, curve) + n_points(curve)):
        assert call(Late(10.0)) == 9.0


MESSAGE = r"Mute has no function for the verb 'point'; it was registered with nothing\."
PARTLY = (
    r"Table has no function for the verb 'area'; it was registered with followed, "
    r"n_points, point, stretched\."
)


@verb
def area(curve):
    """Nobody knows it."""


@pytest.mark.parametrize(
    ("call", "argument", "message"),
    [
        (lambda curve: point(1, curve), Mute(1.0), MESSAGE),
        (lambda curve: area(curve), table(), PARTLY),
        (lambda curves: point_each(1, curves), (line(), Mute(1.0)), MESSAGE),
        (lambda curves: total_point(1, curves), (line(), Mute(1.0)), MESSAGE),
    ],
    ids=["a kind without verbs", "a verb without kinds", "each", "total"],
)
def test_a_missing_function_is_named_with_its_kind(call, argument, message):
    with pytest.raises(TypeError, match=message):
        call(argument)
    if COMPILED:
        with pytest.raises((TypeError, numba.TypingError), match=message):
            uncached(call)(argument)


def test_a_missing_function_of_a_chain_is_named_with_its_kind():
    def chain(curves):
        return followed_all(2.0, 1.0, curves)

    for call in both(chain):
        with pytest.raises(TypeError, match="Mute has no function for the verb 'followed'"):
            call((line(), Mute(1.0)))


def test_totals_of_constants():
    """Whose types in compiled code are those of one number."""

    class One(NamedTuple):
        number: float

    register(One, n_points=uncached(lambda curve: 1))  # noqa: ARG005
    for call in both(lambda curves: total_points(curves)):
        assert call((One(0.0), One(0.0))) == 2
        assert call((One(0.0), table())) == 4


def test_totals_of_whole_numbers_and_others():
    class Whole(NamedTuple):
        number: int

    register(Whole, point=uncached(lambda i, curve: curve.number + i))
    for call in both(lambda curves: total_point(1, curves)):
        assert call((line(), Whole(3))) == 4.5
        assert call((Whole(3), line())) == 4.5


class Bar(NamedTuple):
    height: float


@verb
def filled(row, n, bar):
    """In place: the first n of a row."""


def fill_bar(row, n, bar):
    for i in range(n):
        row[i] += bar.height
    return bar.height * n


register(Bar, filled=uncached(fill_bar))
filled_by, filled_where = each_by(filled, "row"), total_where(filled, "row", "n")


@pytest.mark.parametrize("counted", [True, False])
def test_records_take_their_own_of_what_is_given(counted):
    """Rows of an array among it; whether or not the caller counts references to these."""
    bars, places = (Bar(1.0), Bar(10.0), Bar(100.0)), np.array([1, 0, 1])
    n, takes_part = np.array([2, 3]), np.array([0, 1])

    def by(rows, places, bars):
        return filled_by(rows, 2, places, bars)

    def where(rows, n, takes_part, places, bars):
        return filled_where(rows, n, takes_part, places, bars)

    for make in (lambda function: function, lambda function: uncached(function, _nrt=counted)):
        rows = np.zeros((2, 4))
        n_references = sys.getrefcount(rows)
        assert make(by)(rows, places, bars) == (2.0, 20.0, 200.0)
        np.testing.assert_array_equal(rows, [[10, 10, 0, 0], [101, 101, 0, 0]])
        assert make(where)(rows, n, takes_part, places, bars) == 303.0
        np.testing.assert_array_equal(rows, [[10, 10, 0, 0], [202, 202, 101, 0]])
        assert sys.getrefcount(rows) == n_references


class Scene(NamedTuple):
    """A state, as a function that is selected takes it."""

    offset: float
    views: tuple


@compiled
def by_lines(rng, state):
    return rng[0] + state.offset + total_point(2, state.views)


@compiled
def by_tables(rng, state):
    return rng[0] - state.offset * state.views[0].points[1]


def curves_alike(kinds):
    """The function for lines, or that for anything else."""
    return by_lines if kinds == [Line] * len(kinds) else by_tables


alike = selected(curves_alike)


@pytest.mark.parametrize(
    "call", both(lambda rng, state: alike(rng, state)), ids=["Python", "compiled"]
)
def test_a_function_is_selected_by_the_classes_of_all_views(call):
    rng = np.array([100.0])
    assert call(rng, Scene(10.0, (line(), Line(1.0)))) == 113.0
    assert call(rng, Scene(10.0, (table(),))) == 30.0
    assert call(rng, Scene(10.0, (table(), line()))) == 30.0


def test_names_and_documentation_of_verbs_are_kept():
    assert (point.__name__, point.__doc__) == ("point", "Point i.")
    assert (alike.__name__, alike.__doc__) == ("curves_alike", curves_alike.__doc__)


def test_a_verb_calls_the_same_code_as_its_function():
    """What is compiled for a verb and for the function itself gives the same bits."""
    curves = (line(), table(), Line(0.1))
    direct = uncached(
        lambda a, b, c: point_of_line(2, a) + point_of_table(2, b) + point_of_line(2, c)
    )
    assert uncached(lambda curves: total_point(2, curves))(curves) == direct(*curves)
    assert python_of(point_of_line)(3, curves[2]) == point(3, curves[2])
