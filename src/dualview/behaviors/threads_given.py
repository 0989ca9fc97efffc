"""What is given of threads, checked: outcomes, covariates, ids of users, priors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dualview.behaviors.ids import Numbers, are_numbers, check_distinct, checked_ids, whole_numbers
from dualview.checks import (
    check_range,
    column_names,
    names_text,
    numbers,
    positive_number,
    refuse_repeated_columns,
    varies,
)
from dualview.errors import InputError
from dualview.units import GaussianPrior, Whitening

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Named:
    """An array with column names, for rebuilding a behavior from a part of itself."""

    values: Array
    columns: list[str] | None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.values, dtype=dtype)


def checked_outcome(outcome: Any, shape: tuple[int, ...]) -> Array:
    """Outcomes (T,), one for each thread of a participation matrix of this shape."""
    values = numbers(outcome, "outcome", n_dims=1)
    if len(values) != shape[0]:
        raise InputError(_shape_message(shape, len(values)))
    return values


def checked_covariates(covariates: Any, names: list[str] | None, n_threads: int) -> Array:
    """Covariates (T, C) of n_threads threads."""
    refuse_repeated_columns(covariates, "covariates")
    values = numbers(covariates, "covariates", n_dims=2)
    if len(values) != n_threads:
        raise InputError(f"covariates must have a row per thread, {n_threads}; got {len(values)}.")
    check_range(
        np.abs(values).max(axis=0), "covariates", names or [f"x{c}" for c in range(values.shape[1])]
    )
    return values


def check_coefficient_prior(prior: Any, names: list[str]) -> None:
    """A prior over the coefficients of these names."""
    if not isinstance(prior, GaussianPrior):
        raise InputError(
            "coefficient_prior must be a GaussianPrior(mean, covariance) or None; got "
            f"{type(prior).__name__}."
        )
    if not names:
        raise InputError(
            "coefficient_prior is over intercept and covariates; there are none. Set "
            "intercept=True, or drop it."
        )
    prior.check_size(len(names), f"coefficient_prior over ({', '.join(names)})")


def checked_users(users: Sequence[Any] | None, n_columns: int) -> list[str] | None:
    """Ids of the columns of a participation matrix, if they have any."""
    if users is None:
        return None
    ids = checked_ids(users, "users")
    if len(ids) != n_columns:
        raise InputError(
            f"users must name each of the {n_columns} columns of participation; got {len(ids)} "
            "names."
        )
    check_distinct(ids)
    return ids


def column_ids(participation: Any) -> list[str] | None:
    """What the columns of a table of participation are called by, as text, dates and pairs of
    labels too; None where that is whole numbers, and where there are no names."""
    names, columns = column_names(participation), getattr(participation, "columns", None)
    if names is not None or columns is None or not hasattr(columns, "dtype"):
        return names
    if column_numbers(participation) is not None:
        return None
    return checked_ids(columns.tolist(), "The columns of participation")


def column_numbers(participation: Any) -> Numbers | None:
    """Whole numbers that the columns of a table of participation are called by, as text too; None
    where they are none."""
    names, columns = column_names(participation), getattr(participation, "columns", None)
    if names is not None and are_numbers(names):
        return Numbers(np.array(names, dtype=np.int64), True)
    if names is not None or not hasattr(columns, "dtype"):  # pandas' have one
        return None
    values = whole_numbers(np.asarray(columns))
    if values is None:
        return None
    found = Numbers(values, True)
    return found._replace(labeled=type(columns).__name__ != "RangeIndex" or not found.count_from_0)


def checked_noise_variance(given: Any) -> float | str | None:
    """σ_0² of the noise's prior: a positive number, "paper" or None."""
    if given is None or (isinstance(given, str) and given == "paper"):
        return given
    if isinstance(given, str):
        raise InputError(
            f'noise_variance must be a positive number, "paper" or None; got {given!r}.'
        )
    return positive_number(given, "noise_variance")


def outcome_variance(outcome: Array) -> float:
    """The variance of outcomes (T,); an error where they are all the same."""
    if not varies(outcome):
        raise InputError(
            f"outcome is constant ({outcome[0]:g} in all {len(outcome)} threads): there is "
            "nothing to explain. "
            "To fit anyway, give behavior_prior, noise_variance and coefficient_prior."
        )
    return float(np.var(outcome, ddof=1))


def coefficient_units(
    outcome: Array, intercept: bool, covariates: Array, names: list[str]
) -> Whitening:
    """The units in which intercept, if there is one, and slopes on covariates (T, C) have the prior
    N(0, I), by the data."""
    if not names:
        return Whitening(np.empty(0), np.empty((0, 0)), np.empty((0, 0)))
    first = int(intercept)
    mean, variances = np.zeros(len(names)), np.full(len(names), outcome_variance(outcome))
    if intercept:
        mean[0] = outcome.mean()
    constant = ~np.array([varies(column) for column in covariates.T], dtype=np.bool_)
    if constant.any():
        raise InputError(
            "covariates must vary between threads; constant: "
            f"{names_text(names[first:], constant)}. Use intercept=True for a constant."
        )
    if covariates.shape[1]:
        variances[first:] /= covariates.var(axis=0, ddof=1)
    return Whitening.of(GaussianPrior(mean, np.diag(variances)))


def _shape_message(shape: tuple[int, ...], n_outcomes: int) -> str:
    message = (
        f"participation must be (n_threads, n_users) with n_threads = {n_outcomes}, the "
        f"length of outcome; got {shape}."
    )
    if shape[1] == n_outcomes:
        return f"{message} It looks transposed: pass participation.T."
    return f"{message} Give each row of participation one outcome."


def stacked(before: Any, new: Any, n_new: int) -> Any:
    """Participation in threads of before and in new ones, in which n_new more users take part."""
    if sparse.issparse(before):
        silent = sparse.csr_array((before.shape[0], n_new))
        return sparse.csr_array(
            sparse.vstack([sparse.hstack([before, silent]), sparse.csr_array(new)])
        )
    wide = np.hstack([before, np.zeros((len(before), n_new))])
    return np.vstack([wide, new.toarray() if sparse.issparse(new) else new])


def width_message(shape: tuple[int, ...], n_known: int, n_new: int) -> str:
    """What is wrong with new threads whose participation has this shape."""
    n_threads, width = shape
    message = (
        f"New threads must be of the {n_known} users of the fit, (n_threads, {n_known}); "
        f"got {shape}."
    )
    if n_new:
        message = (
            f"New threads must have a column for each of the {n_known} users of the fit and then "
            f"for each of the {n_new} new "
            f"users, {n_known + n_new} in all; got {width}."
        )
    elif n_threads == n_known:
        message += " It looks transposed: pass participation.T."
    elif width > n_known:
        message += (
            f" Columns {n_known} to {width - 1} are users unknown to the fit: give their "
            "features as X_new, or leave out the "
            "threads they take part in."
        )
    return message
