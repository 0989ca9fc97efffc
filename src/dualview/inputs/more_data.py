"""More data for a fit: users who are new to it, and more observations of those it knows.

Users are matched by their ids where those of the fit have ids: the index of a DataFrame X, the ids
of a behavior. Else they are matched by position: those of the fit first, new ones after them in the
order in which they come.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from dualview.behaviors.base import Behavior
from dualview.checks import listed
from dualview.columns import Cells
from dualview.errors import InputError
from dualview.inputs.cells import checked_table, new_cells
from dualview.inputs.data import Data
from dualview.inputs.features import counts_from, row_ids
from dualview.inputs.several_tables import joined_tables

Array = NDArray[np.float64]


class MoreData(NamedTuple):
    """The data of a fit and more of them, and a mask (U,) of the users of whom there is something
    new."""

    data: Data
    news: NDArray[np.bool_]


def append_data(estimator: BaseEstimator, data: Data, X: Any, y: Any) -> MoreData:
    """The data of a fit with users and observations that ``partial_fit`` is given."""
    _check_views(data, X, y)
    if X is not None and data.tables:
        X = joined_tables(X, data.tables)[0]
    ids = list(data.users) if _has_ids(data) else None
    if data.behavior is not None and X is not None:
        data.behavior.check_who_is_new(y, int(np.shape(X)[0]))
    y = y if y is None else y.called_as(ids)
    new_ids = _new_ids(data, ids, X, y)
    n_new = _n_new(data, X, y) if ids is None else len(new_ids)
    everybody = None if ids is None else [*ids, *new_ids]
    features, codebook, cells = data.features, data.codebook, data.cells
    if X is not None:
        features, codebook, cells = _more_rows(estimator, data, X)
    behavior, n_before = data.behavior, 0
    if behavior is not None:
        n_before = len(behavior.observed)
        behavior = behavior.extended(y, n_new, everybody)
    n_users = data.n_users + n_new
    news = np.zeros(n_users, dtype=np.bool_)
    news[data.n_users :] = True
    if behavior is not None:
        news |= np.asarray(abs(behavior.user_weights()[n_before:]).sum(axis=0)).ravel() > 0.0
    users: Sequence[Any] = range(n_users) if everybody is None else everybody
    more = Data(features, data.feature_names, behavior, users, codebook, cells, data.tables)
    return MoreData(more, news)


def _has_ids(data: Data) -> bool:
    return not isinstance(data.users, range)


def _check_views(data: Data, X: Any, y: Any) -> None:
    """Raise where what is given is not of the views of the fit."""
    if X is None and y is None:
        raise InputError(
            "partial_fit needs features X of new users, a behavior with new observations, or "
            "both; got neither."
        )
    if X is not None and not data.has_features:
        raise InputError("The fit has no features, so new users cannot have any: pass X=None.")
    if y is not None and not isinstance(y, Behavior):
        raise InputError(f"y must be a behavior; got {type(y).__name__}.")
    if y is not None and data.behavior is None:
        raise InputError("The fit has no behavior, so new users cannot have any: pass y=None.")


def _new_ids(data: Data, ids: list[str] | None, X: Any, y: Any) -> list[str]:
    """Ids of the new users, where users have ids: those of the rows of X, or without features those
    of the behavior."""
    given = row_ids(X)
    if ids is None:
        if given is not None and not counts_from(X, data.n_users):
            raise InputError(
                "The fit knows its users by position, so new ones come in order, without ids; the "
                "index of X holds ids. Pass X.reset_index(drop=True), or fit with ids first."
            )
        return []
    known = set(ids)
    if X is not None:
        if given is None:
            raise InputError(
                "The users of the fit have ids, so new ones need some: give X as a DataFrame "
                "with ids as its index."
            )
        again = [user for user in given if user in known]
        if again:
            raise InputError(
                "X must hold users who are new to the fit; already in it: "
                f"{listed(again)}. Leave out their rows: the features of a known user "
                "cannot change. New observations of known users need no row."
            )
        return given
    if data.has_features:
        return []
    if y.users is None and len(y) != len(ids):
        raise InputError(
            "The users of the fit have ids, so new ones need some: give the behavior the ids of "
            "its users."
        )
    return [] if y.users is None else [user for user in y.users if user not in known]


def _n_new(data: Data, X: Any, y: Any) -> int:
    """Number of new users, where users are known by position."""
    if X is not None:
        return int(np.shape(X)[0])
    return 0 if data.has_features else max(0, len(y) - data.n_users)


def _more_rows(
    estimator: BaseEstimator, data: Data, X: Any
) -> tuple[Array | None, Any, Cells | None]:
    """Features, codebook and cells of the users of a fit and of the rows of X, read as those of the
    fit were."""
    rows = new_cells(estimator, data.codebook, X)
    if data.cells is not None:
        return None, data.codebook, data.cells.joined(rows)
    assert data.features is not None
    if data.codebook is None:
        numbers = np.where(rows.missing, np.nan, rows.low)
        return checked_table(estimator, np.vstack([data.features, numbers]))
    if rows.is_exact:
        return np.vstack([data.features, rows.low]), data.codebook, None
    return None, data.codebook, Cells.of_numbers(data.features).joined(rows)
