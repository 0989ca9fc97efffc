"""Tables with cells that are not exact, or with categories: what is accepted, and how the model
sees them."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from dualview.behaviors import Behavior
from dualview.checks import check_range, refuse_repeated_columns
from dualview.columns import Cells, Columns
from dualview.errors import DataWarning, InputError
from dualview.inputs.features import checked_features
from dualview.interval_gaussian import fit_gaussian
from dualview.model import categories_of as categories_of
from dualview.units import GaussianPrior, Whitening
from dualview.views import Intervals, level_indicators
from dualview.views.gaussian.intervals import intervals_of as intervals_of

Array = NDArray[np.float64]

_SHOWN = 5


def checked_table(
    estimator: BaseEstimator, X: Any, kinds: Mapping[str, Any] | None = None
) -> tuple[Array | None, Columns | None, Cells | None]:
    """Features, codebook and cells of the table that ``fit`` is given; sets n_features_in_ and
    feature_names_in_.

    Features are complete numbers; a table with other cells has none. kinds: of columns, unless the
    estimator says another.
    """
    columns = {**(kinds or {}), **(estimator.columns or {})} or None
    if isinstance(X, Behavior) or not _has_codebook(X, columns):
        return checked_features(estimator, X), None, None
    refuse_repeated_columns(X, "X")
    if len(X) < 2:
        raise InputError(
            f"A mixture needs at least two users; X has {len(X)} sample(s), that is row(s)."
        )
    codebook = Columns.from_table(X, columns)
    cells = codebook.cells(X)
    if cells.is_exact and len(codebook.gaussian) == len(codebook.columns):
        return checked_features(estimator, X), codebook, None
    validate_data(estimator, X, reset=True, skip_check_array=True)
    names = [column.name for column in codebook.gaussian]
    if not names:
        return None, codebook, cells
    ends = np.stack([cells.low, cells.high])
    largest = np.where(np.isfinite(ends), np.abs(ends), 0.0).max(axis=(0, 1))
    check_range(largest, "X", names)
    return None, codebook, cells


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


def warn_of_empty_rows(cells: Cells, users: Sequence[Any], with_behavior: bool) -> None:
    """Say which users have nothing observed in any column: they are known by their behavior, if
    there is one."""
    empty = np.flatnonzero(cells.without_information)
    if not len(empty):
        return
    shown = ", ".join(str(users[u]) for u in empty[:_SHOWN]) + (
        ", …" if len(empty) > _SHOWN else ""
    )
    known = (
        "They stay in the fit, known by their behavior alone"
        if with_behavior
        else "Nothing is known about them"
    )
    warnings.warn(
        f"{len(empty)} user(s) have no cell observed in X: {shown}. {known}.",
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


def cell_units(cells: Cells, names: list[str], prior: GaussianPrior | str | None) -> Whitening:
    """The units of the feature view: those of the prior, or of the Gaussian under which the cells
    are most likely."""
    if isinstance(prior, GaussianPrior):
        prior.check_size(len(names), "feature_prior")
        return Whitening.of(prior)
    mean, covariance = fit_gaussian(cells.low, cells.high, names)
    if prior is None:
        return Whitening.of(GaussianPrior(mean, covariance))
    started = Intervals(cells.low, cells.high, mean, np.eye(len(mean)), np.eye(len(mean))).start
    return Whitening.of(GaussianPrior(mean, Whitening.shrunk(covariance, started, prior)))


def indicators(cells: Cells, codebook: Columns) -> Array:
    """A column of numbers for every level (U, Σ L), each nominal column with a total variance of 1,
    missing cells at 0."""
    shares = [column.shares for column in codebook.nominal]
    sds = [np.sqrt((np.array(own) * (1.0 - np.array(own))).sum()) for own in shares]
    found = level_indicators(cells.codes, shares) / np.repeat(sds, [*map(len, shares)])
    return np.asarray(found)


def cell_coords(codebook: Columns, cells: Cells, users: Sequence[Any]) -> dict[str, Any]:
    """Names of the cells that are not exact, of nominal columns, and of their levels."""
    names = [column.name for column in codebook.gaussian]
    rows, columns = cells.drawn
    found: dict[str, Any] = {}
    if len(rows):
        found["cell"] = [
            f"{users[row]}/{names[column]}" for row, column in zip(rows, columns, strict=True)
        ]
    if codebook.nominal:
        found["category"] = [column.name for column in codebook.nominal]
        found["level"] = [
            f"{column.name}={level}" for column in codebook.nominal for level in column.levels
        ]
    return found
