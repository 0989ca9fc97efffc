"""New long tables as new observations of a fit, and its users who are new."""

import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.behaviors.base import Behavior
from dualview.checks import listed
from dualview.errors import DataWarning, InputError
from dualview.inputs.from_long import (
    features_of,
    rows_with_outcome,
    table_of,
    users_of,
)
from dualview.inputs.long_tables import KINDS, LongTable, as_read_by
from dualview.inputs.tables import GivenTable


def new_observations(
    fitted: Behavior,
    table: Any,
    X_new: Any = None,
    ids_of_X: list[str] | None = None,
    names: Sequence[str] | None = None,
    with_outcomes: bool = False,
) -> tuple[Behavior, Any]:
    """The rows of a long table as new observations, and the features of its users who are new to
    the fit.

    X_new: these features, where they were given, of users with the ids ids_of_X. names: of the
    fit's features; None where it had none. with_outcomes: rows have outcomes, else these are left
    out.
    """
    long = as_read_by(fitted)
    assert long is not None
    if long.kind not in KINDS:
        raise InputError(
            f"A fit to {long.kind} predicts from a {type(fitted).__name__}, not from a table."
        )
    given = table_of(table)
    ids = users_of(given, long.user)
    known = dict.fromkeys(fitted.users or ())
    new = [user for user in dict.fromkeys(ids) if user not in known]
    if X_new is not None:
        new = _named_in_order(ids_of_X, new, known)
    elif new:
        _refuse_ids_alike(new, known)
        if not with_outcomes and known.keys().isdisjoint(ids):
            _warn_of_new(new, known)
        X_new = _features_of_new(given, ids, new, long, names)
    if with_outcomes:
        rows = rows_with_outcome(given, long.outcome, ids, True)
        given, ids = given.take(rows), ids[rows]
    else:
        long = replace(long, outcome=())
    observed = long.read(given, with_outcomes)
    return long.behavior(ids.tolist(), observed, [*known, *new]), X_new


def _named_in_order(named: list[str] | None, new: list[str], known: Collection[str]) -> list[str]:
    """Ids of new users in the order of the rows of X_new. named: what these have as ids. new: those
    of the table."""
    if named is None:
        if len(new) > 1:
            raise InputError(
                "X_new must name its users: give a pandas table with ids as its index. The table "
                f"has {len(new)} users who are new to the fit: {listed(new)}."
            )
        return new
    again = [user for user in named if user in known]
    if again:
        raise InputError(
            f"X_new has users of the fit: {listed(again)}. Give it those who are new only."
        )
    absent = sorted(set(new) - set(named))
    if absent:
        raise InputError(
            f"The table has users who are neither in the fit nor in X_new: {listed(absent)}. Give "
            "X_new a row for each, or leave out their rows."
        )
    return named


def _refuse_ids_alike(new: Sequence[str], known: Collection[str]) -> None:
    """Raise where ids of new users are those of the fit but for how they are written."""
    alike = {_plain_id(user): user for user in known}
    meant = [(user, alike[_plain_id(user)]) for user in new if _plain_id(user) in alike]
    if meant:
        pairs = listed([f"{user!r} for {other!r}" for user, other in meant])
        raise InputError(
            "Users of the table are new to the fit, and only the way in which their ids are "
            f"written sets them apart from its users: {pairs}. Write ids as in the table of the "
            "fit. If these are other users, give X_new with their ids as its index."
        )


def _warn_of_new(new: Sequence[str], known: Collection[str]) -> None:
    warnings.warn(
        f"No user of the table is known to the fit: {listed(new)} are predicted as new users. If "
        f"the fit has them, write their ids as there, such as {listed([*known][:2])}.",
        DataWarning,
        stacklevel=5,
    )


def _plain_id(user: str) -> str:
    """An id without what is lost when it is read as a number, or as text with spaces."""
    text = user.strip()
    number = re.fullmatch(r"0*([0-9]+)(\.0*)?", text)
    return number[1] if number else text


def _features_of_new(
    table: GivenTable,
    ids: NDArray[np.object_],
    new: list[str],
    long: LongTable,
    names: Sequence[str] | None,
) -> pd.DataFrame:
    """Features of users who are new to a fit, from their rows; columns are as the fit had them."""
    if names is None:
        return pd.DataFrame(index=pd.Index(new, name=long.user))
    missing = [name for name in long.features if name not in table.frame.columns]
    if list(names) != list(long.features) or missing:
        why = (
            f"lacks the column(s) {listed(missing)}"
            if missing
            else "does not have the features of the fit, which came from elsewhere"
        )
        raise InputError(
            f"{len(new)} user(s) are new to the fit ({listed(new)}), and the table {why}. Give "
            "their features as X_new, with ids as its index, or leave out their rows."
        )
    rows = np.isin(ids, new)
    X = features_of(table.take(rows), ids[rows], long.user, long.features)
    return X.set_axis(pd.Index(new, name=long.user))
