"""Tables with cells that are not exact, or with categories: what is accepted, and how the model
sees them."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from dualview.behaviors.base import Behavior
from dualview.checks import check_range, listed, refuse_repeated_columns, unmasked
from dualview.columns import Cells, Columns
from dualview.errors import DataWarning, InputError
from dualview.inputs.features import checked_features, feature_names, validated
from dualview.interval_gaussian import fit_gaussian
from dualview.units import GaussianPrior, Whitening
from dualview.views import Intervals
from dualview.views.features import feature_kinds

Array = NDArray[np.float64]


def checked_table(
    estimator: BaseEstimator, X: Any, kinds: Mapping[str, Any] | None = None
) -> tuple[Array | None, Columns | None, Cells | None]:
    """Features, codebook and cells of the table that ``fit`` is given; sets n_features_in_ and
    feature_names_in_.

    Features are complete numbers; a table with other cells has none. kinds: of columns, unless the
    estimator says another.
    """
    columns = {**(kinds or {}), **(estimator.columns or {})} or None
    X = unmasked(X)
    if isinstance(X, Behavior) or not _has_codebook(X, columns):
        return checked_features(estimator, X), None, None
    refuse_repeated_columns(X, "X")
    if len(X) < 2:
        raise InputError(
            f"A mixture needs at least two users; X has {len(X)} sample(s), that is row(s)."
        )
    codebook = Columns.from_table(X, columns)
    doubts = codebook.doubts()
    if doubts:
        warnings.warn(f"Kinds of columns in doubt: {doubts}.", DataWarning, stacklevel=5)
    cells = codebook.cells(X)
    if cells.is_exact and len(codebook.of("features")) == len(codebook.columns):
        return checked_features(estimator, X), codebook, None
    validated(estimator, X, reset=True, names_only=True)
    ends = np.stack([cells.low, cells.high])
    largest = np.where(np.isfinite(ends), np.abs(ends), 0.0).max(axis=(0, 1))
    check_range(largest, "X", feature_names(estimator, codebook))
    return None, codebook, cells


def new_cells(
    estimator: BaseEstimator,
    codebook: Columns | None,
    X: Any,
    unknown: Literal["error", "missing"] = "error",
    in_order: bool = False,
) -> Cells:
    """The table of users who are new to a fit, read by its codebook, or as numbers where it has
    none. in_order: columns of plain numbers must be in the order of the fit, as scikit-learn wants
    them."""
    X = unmasked(X)
    if codebook is None:
        return Cells.of_numbers(checked_features(estimator, X, reset=False, missing=True))
    if isinstance(X, Behavior):
        raise InputError("X takes the users' features; got a behavior.")
    refuse_repeated_columns(X, "X")
    if in_order and all(column.kind == "continuous" for column in codebook.columns):
        validated(estimator, X, reset=False, names_only=True)
    return codebook.cells(X, unknown)


def _has_codebook(X: Any, columns: Any) -> bool:
    """Whether columns may be of other kinds than complete numbers: in a table, and in an array with
    missing cells."""
    if (
        columns is not None
        or (hasattr(X, "columns") and not sparse.issparse(X))
        or hasattr(X, "column_names")
    ):
        return True
    try:
        values = np.asarray(X)
    except ValueError:
        return False
    return values.ndim == 2 and values.dtype.kind == "f" and bool(np.isnan(values).any())


def warn_of_empty_rows(
    cells: Cells, codebook: Columns, users: Sequence[Any], with_behavior: bool
) -> None:
    """Say which users have nothing observed in any column: they are known by their behavior, if
    there is one."""
    empty = np.flatnonzero(codebook.without_information(cells))
    if not len(empty):
        return
    known = (
        "They stay in the fit, known by their behavior alone"
        if with_behavior
        else "Nothing is known about them"
    )
    warnings.warn(
        f"{len(empty)} user(s) have no cell observed in X: "
        f"{listed([str(users[u]) for u in empty.tolist()])}. {known}.",
        DataWarning,
        stacklevel=5,
    )


def as_if_exact(cells: Cells) -> Array:
    """The exact cells, and in place of each other cell a number that no other cell has: for
    warnings about ties."""
    others = (
        np.where(cells.exact, np.abs(cells.low), 0.0).max(initial=0.0)
        + 1.0
        + np.arange(cells.low.size)
    )
    return np.where(cells.exact, cells.low, others.reshape(cells.low.shape))


def cell_units(cells: Cells, names: list[str], shrinkage: str | None) -> Whitening:
    """The units of the feature view: those of the Gaussian under which the cells are most
    likely."""
    mean, covariance = fit_gaussian(cells.low, cells.high, names)
    if shrinkage is not None:
        started = Intervals(cells.low, cells.high, mean, np.eye(len(mean)), np.eye(len(mean))).start
        covariance = Whitening.shrunk(covariance, started, shrinkage)
    return Whitening.of(GaussianPrior(mean, covariance))


def cell_coords(codebook: Columns, cells: Cells, users: Sequence[Any]) -> dict[str, Any]:
    """Names along the dimensions of what kinds of columns have in draws; of what a link follows
    where that is more than numbers."""
    found: dict[str, Any] = {}
    slopes: list[str] = []
    for kind in feature_kinds():
        columns = codebook.of(kind.view)
        if columns:
            found |= kind.coords(columns, cells, users)
            slopes += kind.slope_names(columns)
    if slopes:
        found["slope"] = [*(column.name for column in codebook.of("features")), *slopes]
    return found
