"""Users matched by their ids, or by position. What new observations are called in messages is
``what``.

Ids are compared as text: 7, 7.0 and "7" are one id, "007" is another. Observations name users by
text, or by whole numbers, which may be ids or may count the rows of X from 0. A fit decides as
follows, and raises an error where both are possible and differ.

==========================  ============================  ==================================
X                           whole numbers                 text
==========================  ============================  ==================================
None                        ids: the users are those who  ids, in the order of appearance
                            are there, in order
array, polars or Arrow      count the rows from 0. An     digits: count the rows from 0;
table, or pandas with the   error unless 0 is there:      other text: sorted, or as users=
index 0 to n − 1            they may count from 1         says
pandas with other whole     ids, matched with the index   ids, matched with the index
numbers or digits as its
index
pandas with other text as   of a column: ids, matched     ids, matched with the index
its index                   with the index; of an array:
                            count the rows, since they
                            cannot be ids
==========================  ============================  ==================================

``users=`` makes numbers ids, in this order of the rows of an X without ids. ``n_users=`` makes them
positions.
"""

import numbers as abstract
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.checks import is_missing, listed
from dualview.errors import InputError, InputTypeError

_SHOWN = 5
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_DIGITS = re.compile(r"-?[0-9]+")
_LIMIT = 2**63  # of whole numbers in arrays
_EXACT = 2.0**53  # beyond it floats have lost digits of whole numbers


class Rows(NamedTuple):
    """The rows of X: how many there are, the users' ids where X has some, and whether X is a pandas
    table.

    what, unit: what they are called in messages, where they are no rows of X.
    """

    n: int
    ids: list[str] | None = None
    is_table: bool = False
    what: str = "X"
    unit: str = "rows"


class Numbers(NamedTuple):
    """Whole numbers that users are called by, until it is known whether they are ids or positions.

    labeled: they are a column of a table, or names of columns; numbers of an array are not.
    """

    values: NDArray[np.int64]
    labeled: bool

    @property
    def ids(self) -> list[str]:
        return [str(value) for value in self.values.tolist()]

    @property
    def count_from_0(self) -> bool:
        """Whether they are 0, 1, 2, … in this order, so that both readings are the same."""
        return bool(np.array_equal(self.values, np.arange(len(self.values))))

    @property
    def increase(self) -> bool:
        """Whether each is larger than the one before it."""
        return bool((np.diff(self.values) > 0).all())

    def are_ids_among(self, ids: Sequence[str]) -> bool:
        """Whether they are matched with these ids by value: positions are meant only where ids are
        text."""
        return self.labeled or has_numbers(ids)

    def check_count(self, rows: Rows) -> None:
        """Raise unless these numbers can only count the rows of X from 0."""
        first, last = int(self.values.min()), int(self.values.max())
        if first > 0 and last < rows.n:
            raise InputError(self._two_readings(rows, first, last))
        if last >= rows.n:
            beyond = [str(value) for value in self.values.tolist() if value >= rows.n]
            raise InputError(
                f"X and behavior must be of the same users: {rows.what} has {rows.n} "
                f"{rows.unit}, 0 to {rows.n - 1}, and user "
                f"holds {listed(beyond)} besides. If these are ids, {_say_ids(rows)}"
            )

    def _two_readings(self, rows: Rows, first: int, last: int) -> str:
        return (
            f"user holds whole numbers from {first} to {last}, without 0, and {rows.what} has "
            f"{rows.n} {rows.unit}: they may "
            f"count these from 0, or be ids. If they count from 0, say n_users={rows.n}. If they "
            f"are ids, {_say_ids(rows)}"
        )


def _say_ids(rows: Rows) -> str:
    """How to say that numbers are ids of the users of X."""
    if rows.ids is not None:
        return f"give them as the index of X does, which holds {listed(rows.ids[:2])}, …"
    if rows.what != "X":
        return "give all behaviors ids: users=ids."
    return (
        "say whose rows those of X are: users=ids in their order, such as users=range(1, "
        f"{rows.n + 1}), or a DataFrame X with "
        "ids as its index."
    )


class Labeled(NamedTuple):
    """Values that are a column of a table."""

    values: list[Any]
    name: str = "user"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.values, dtype=dtype)


def is_labeled(values: Any) -> bool:
    """Whether values are a column of a table, as a pandas or polars Series or an Arrow array is,
    and not a plain array."""
    return hasattr(values, "name") or hasattr(values, "to_pandas")


def id_text(value: Any) -> str:
    """An id as text: whole numbers without a decimal point, whatever type they come in."""
    if not isinstance(value, abstract.Real) or isinstance(value, bool | np.bool_):
        return str(value)
    if isinstance(value, abstract.Integral):
        return str(int(value))
    if not float(value).is_integer():
        return str(value)
    _check_exact(abs(float(value)))
    return str(int(float(value)))


def _check_exact(largest: float) -> None:
    """Raise where ids came as floats that cannot tell them apart."""
    if largest >= _EXACT:
        raise InputError(
            f"Ids of 2**53 and more, such as {largest:.0f}, came as floats, which have lost their "
            "last digits: several users may have become one. Read the column as text, or as whole "
            'numbers: dtype="Int64" in pandas, where ids are missing.'
        )


def has_numbers(ids: Sequence[str]) -> bool:
    """Whether some of these ids are whole numbers, or would be without zeros in front: 007 may have
    become 7 where it was read."""
    return any(_DIGITS.fullmatch(user) for user in ids)


def are_numbers(ids: Sequence[str]) -> bool:
    """Whether all of these ids are whole numbers that fit into 64 bits."""
    return all(_WHOLE.fullmatch(user) and -_LIMIT <= int(user) < _LIMIT for user in ids)


def counted(n: int) -> list[str]:
    """Ids of n users who are known by position."""
    return [str(user) for user in range(n)]


def whole_numbers(values: NDArray[Any]) -> NDArray[np.int64] | None:
    """Values as whole numbers; None where they are none, or do not fit into 64 bits. Floats are
    where they have no fractions."""
    if values.dtype.kind in "iu":
        return values.astype(np.int64) if values.max(initial=0) < _LIMIT else None
    if values.dtype.kind == "f":
        known = np.where(np.isfinite(values), values, 0.5)
        if not (known == np.floor(known)).all():
            return None
        _check_exact(np.abs(known).max(initial=0.0))
        return values.astype(np.int64)
    given = values.tolist() if values.dtype.kind == "O" else []
    if not given or not all(
        isinstance(value, abstract.Real) and not isinstance(value, bool | np.bool_)
        for value in given
    ):
        return None
    if not all(isinstance(value, abstract.Integral) for value in given):
        return whole_numbers(np.array(given, dtype=np.float64))
    fits = all(-_LIMIT <= value < _LIMIT for value in given)
    return np.array(given, dtype=np.int64) if fits else None


def check_distinct(users: Sequence[str]) -> None:
    """Raise where two users have the same id."""
    repeated = [user for user, n in Counter(users).items() if n > 1]
    if repeated:
        raise InputError(f"users must differ; more than once: {', '.join(repeated[:_SHOWN])}.")


def checked_ids(values: Sequence[Any], what: str) -> list[str]:
    """Ids as text; an error where one is missing."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputTypeError(f"{what} must be a list of ids, an id for each user; got {values!r}.")
    found = list(values)
    if any(isinstance(value, list | np.ndarray) for value in found):
        raise InputTypeError(
            f"{what} must be a list of ids, an id for each user; got a list of lists."
        )
    if any(is_missing(value) or value != value for value in found):
        raise InputError(
            f"{what} must name every user; an id is missing (NaN or None). Give each user an id."
        )
    return [id_text(value) for value in found]


def check_positions(user: NDArray[np.int64], ids: Sequence[str]) -> None:
    """Raise where positions of users, as n_users says, may as well be ids among these, and the two
    differ."""
    place = {name: row for row, name in enumerate(ids)}
    seen = np.unique(user).tolist()
    if not all(str(u) in place for u in seen):
        return
    other = [u for u in seen if place[str(u)] != u]
    if other:
        raise InputError(
            f"user may hold positions, as n_users says, or ids: user {other[0]} is the user at "
            f"position {other[0]}, called "
            f"{ids[other[0]] if other[0] < len(ids) else '…'}, or the one called {other[0]}. If "
            "user holds ids, leave n_users "
            "out. If it holds positions, give ids in their place: X.index[user]."
        )


def places_among(users: Sequence[str], everybody: Sequence[str], what: str) -> list[int]:
    """Positions of users among everybody who has features; an error where a user has none."""
    place = {user: u for u, user in enumerate(everybody)}
    unknown = [user for user in users if user not in place]
    if unknown:
        raise InputError(
            f"New {what} have users without features: {listed(unknown)}. Give X a row for each "
            "of them, or leave out "
            f"their {what}."
        )
    return [place[user] for user in users]


def known_and_new(users: Sequence[str], known: Sequence[str], n_new: int, what: str) -> list[str]:
    """Ids of the fit's users in its order, then of the others, of whom there are features of
    n_new."""
    fitted = set(known)
    new = [user for user in users if user not in fitted]
    if len(new) != n_new:
        raise InputError(
            f"New {what} have {len(new)} user(s) unknown to the fit ({listed(new) or 'none'}) "
            "and there are features of "
            f"{n_new}: give X_new a row for each, in the order of their ids, or leave out their "
            f"{what}."
        )
    return [*known, *new]


def joined_ids(before: list[str] | None, new: list[str] | None, what: str) -> list[str] | None:
    """Ids of observations and of those that come after them, where both have some; an error where
    one comes again."""
    if before is None or new is None:
        return None
    again = sorted(set(before) & set(new))
    if again:
        raise InputError(
            f"New {what} must be new; already in the fit: {', '.join(again[:_SHOWN])}. Leave "
            "them out."
        )
    return [*before, *new]


def distinct_numbers(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct numbers in increasing order, and where each of the numbers is among them."""
    n = int(numbers.max()) + 1
    # The usual case, without sorting.
    if n <= len(numbers) and np.bincount(numbers, minlength=n).all():
        return np.arange(n), numbers
    return np.unique(numbers, return_inverse=True)


def places_of_ids(
    given: NDArray[Any], users: Sequence[Any] | None
) -> tuple[NDArray[np.int64], list[str]]:
    """Positions of the users, and their ids: those that are there, in the order in which they
    appear, or all."""
    values = given.tolist()
    if (users is None and given.dtype.kind == "f") or any(
        is_missing(value) or value != value for value in values
    ):
        raise InputError(
            "user must hold whole numbers from 0, or ids as text; got fractions or missing values."
        )
    ids = [id_text(value) for value in values]
    names = list(dict.fromkeys(ids)) if users is None else checked_ids(users, "users")
    check_distinct(names)
    place = {name: u for u, name in enumerate(names)}
    unknown = [name for name in dict.fromkeys(ids) if name not in place]
    if unknown:
        raise InputError(f"users must name everybody in user; missing: {listed(unknown)}.")
    return np.array([place[name] for name in ids], dtype=np.int64), names
