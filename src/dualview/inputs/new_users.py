"""Features of users new to a fit, read as the fit's own were."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from sklearn.base import BaseEstimator

from dualview.behaviors.base import Behavior
from dualview.behaviors.ids import counted
from dualview.behaviors.several import SeveralBehaviors
from dualview.behaviors.shared_outcome import SharedOutcome
from dualview.columns import Cells
from dualview.errors import InputError
from dualview.inputs.cells import new_cells
from dualview.inputs.features import feature_names, row_ids, warn_of_projection
from dualview.inputs.several_tables import comes_as_tables, joined_tables
from dualview.posterior import Posterior
from dualview.posterior.prediction.user_features import Features
from dualview.views.gaussian.user_cells import UserCells


@dataclass(frozen=True)
class NewFeatures:
    """Cells of J new users, and what predictions see of them.

    names: what the users are called in results. ids: those of the index of a table, where it has
    some.
    """

    cells: Cells
    seen: Features
    names: Sequence[Any]
    ids: list[str] | None

    def __len__(self) -> int:
        return len(self.seen)


def new_features(
    estimator: BaseEstimator, post: Posterior, X: Any, unknown: Literal["error", "missing"]
) -> NewFeatures:
    """Features of new users by the columns of the fit. unknown: what a level is that the fit has
    not seen."""
    if unknown not in ("error", "missing"):
        raise InputError(f'unknown must be "error" or "missing"; got {unknown!r}.')
    X = _one_table(post, X)
    cells = new_cells(estimator, post.spec.codebook, X, unknown, in_order=True)
    units = post.spec.units.get("features")
    ids = row_ids(X)
    rows_by_number: Sequence[Any] = (
        X.index.tolist() if isinstance(X, pd.DataFrame) else range(cells.n_users)
    )
    if units is not None:
        names = feature_names(estimator, post.spec.codebook)
        rows = ids or [f"row {j}" for j in range(cells.n_users)]
        warn_of_projection(UserCells(cells.low, cells.high, units).filled(), names, units, rows)
    seen = Features.of(post, cells.data)
    if ids is None or isinstance(X.index, pd.RangeIndex):
        return NewFeatures(cells, seen, rows_by_number, ids)
    return NewFeatures(cells, seen, ids, ids)


def new_ids(post: Posterior, X: Any) -> list[str] | None:
    return row_ids(_one_table(post, X))


def _one_table(post: Posterior, X: Any) -> Any:
    """X, joined where it comes as the tables of the fit."""
    layout = post.spec.layout
    return X if layout is None or not comes_as_tables(X) else joined_tables(X, layout.names)[0]


def among_new_users(fitted: Behavior, given: Any, ids: list[str] | None) -> Any:
    """New observations with their users in the order of the fit's and then of the rows of X_new,
    which have these ids.

    Where ids do not tell, observations stay as they are.
    """
    if given is None or ids is None:
        return given
    if isinstance(fitted, SeveralBehaviors):
        parts = fitted.parts_of(given)
        return {
            name: among_new_users(fitted.parts[name], part, ids) for name, part in parts.items()
        }
    new = fitted.threads(given) if isinstance(fitted, SharedOutcome) else given
    own = _ids_of_new(fitted, new, ids)
    if own is None:
        return given
    everybody = [*(fitted.users or counted(len(fitted))), *ids]
    if fitted.users is None and own <= set(ids):
        return new.among(ids).without_ids()
    if len(set(everybody)) < len(everybody) or not own <= set(everybody) or not own & set(ids):
        return given
    placed = new.among(everybody)
    return placed if fitted.users is not None else placed.without_ids()


def _ids_of_new(fitted: Behavior, new: Any, ids: list[str]) -> set[str] | None:
    """Ids of the users of new observations; None where users are known by position."""
    if (
        not isinstance(new, Behavior)
        or new.ids is None
        or (isinstance(new, SharedOutcome) and not new.has_ids)
    ):
        return None
    numbers = new._user_numbers
    if numbers is not None and not numbers.are_ids_among([*(fitted.users or ()), *ids]):
        return None
    return set(new.ids)
