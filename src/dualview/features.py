"""The feature matrix X (U, D): what is accepted, what its columns are called, in which units the model sees it."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import validate_data

from dualview.behaviors import Behavior
from dualview.checks import check_finite, check_range, names_text, refuse_non_numbers
from dualview.errors import DataWarning, InputError
from dualview.units import GaussianPrior, Whitening

Array = NDArray[np.float64]

_FEW_VALUES = 10
_LARGE_SHARE, _LARGE_SHARE_ALONE = 0.3, 0.1
_OFF_SPAN = 1e-4  # of a column's standard deviation: users of the fit are off the space they span by up to about 1e-5 of it
_OFF_CONSTANT = 1e-9  # of a constant column's value
_SHOWN = 5


def checked_features(estimator: Any, X: Any, reset: bool = True) -> Array:
    """X as floats; sets n_features_in_ and feature_names_in_ of the estimator, or checks against them (reset=False)."""
    if isinstance(X, Behavior):
        raise InputError("X takes the users' features; got a behaviour. Without features call fit(None, behavior).")
    if not sparse.issparse(X):  # scikit-learn has a message for that
        _check_table(X, least=2 if reset else 1)
    features = np.asarray(validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=False))
    names = feature_names(estimator)
    check_finite(features, "X", names)
    check_range(np.abs(features).max(axis=0), "X", names)
    return features


def row_ids(X: Any) -> list[str] | None:
    """The users' ids: the index of a pandas DataFrame, unless it only counts rows."""
    index = getattr(X, "index", None)
    if index is None or not isinstance(X, pd.DataFrame) or isinstance(index, pd.RangeIndex):
        return None
    ids = [str(user) for user in index]
    if len(set(ids)) < len(ids):
        repeated = sorted({user for user in ids if ids.count(user) > 1})
        raise InputError(f"The index of X must name each user once; more than once: {', '.join(repeated[:5])}.")
    return ids


def _check_table(X: Any, least: int) -> None:
    refuse_non_numbers(X, "X")
    shape = np.shape(X)
    if len(shape) != 2:
        raise InputError(
            f"X must be (n_users, n_features), a row per user; got shape {shape}. Reshape your data: a single feature is "
            "X.reshape(-1, 1), of a Series X.to_frame(); a single user is X.reshape(1, -1)."
        )
    if shape[0] < least:
        wanted = {1: "Give at least one user", 2: "A mixture needs at least two users"}[least]
        raise InputError(f"{wanted}; X has {shape[0]} sample(s), that is row(s).")


def feature_names(estimator: Any) -> list[str]:
    """The columns' names; x0, x1, … where X had none."""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{j}" for j in range(estimator.n_features_in_)] if names is None else [str(name) for name in names]


def feature_units(features: Array, names: list[str], prior: GaussianPrior | None) -> Whitening:
    """The units of the feature view, from the data where no prior is given; warns where the features span too little."""
    if prior is not None:
        prior.check_size(len(names), "feature_prior")
        return Whitening.of(prior)
    units = Whitening.of_data(features)
    if units.n_dims == 0:
        raise InputError(
            "All features are constant: there is nothing to cluster by. Pass X=None to cluster by behaviour alone."
        )
    if units.n_dims < len(names):
        warnings.warn(_rank_message(features, names, units), DataWarning, stacklevel=4)
    return units


def _rank_message(features: Array, names: list[str], units: Whitening) -> str:
    scale = np.sqrt((units.factor**2).sum(axis=1))
    constant = scale == 0
    unit = np.where(constant, 1.0, scale)
    null = (np.eye(len(names)) - units.factor @ units.inverse) * unit / unit[:, None]
    involved = ~constant & (np.abs(null).max(axis=1) > 1e-6)
    n_users, n_dims = features.shape
    parts = []
    if constant.any():
        parts.append(f"constant: {names_text(names, constant)}")
    if involved.any() and n_users <= n_dims:
        parts.append(f"only {n_users} users for {n_dims} features")
    if involved.any():
        parts.append(f"linearly dependent: {names_text(names, involved)}")
    return f"The features span {units.n_dims} of {n_dims} dimensions ({'; '.join(parts)}). The model works in those they span."


def warn_of_projection(features: Array, names: list[str], units: Whitening, rows: list[str]) -> None:
    """Warn of new users who differ from those of the fit where these do not: the model sees their projection only."""
    if units.n_dims == len(names):
        return
    away = features - units.vectors(units.to_working(features))
    scale = np.sqrt((units.factor**2).sum(axis=1))
    rounding = _OFF_CONSTANT * np.maximum(np.abs(units.mean), np.abs(features))
    beyond = np.abs(away) / np.maximum(_OFF_SPAN * scale, np.maximum(rounding, np.finfo(float).tiny))
    off = np.flatnonzero(beyond.max(axis=1) > 1.0)
    if not len(off):
        return
    worst = beyond[off].argmax(axis=1)
    texts = [f"{rows[j]} (by {away[j, d]:.3g} in {names[d]})" for j, d in zip(off[:_SHOWN], worst, strict=False)]
    more = f" and {len(off) - _SHOWN} more" if len(off) > _SHOWN else ""
    warnings.warn(
        f"{len(off)} of {len(features)} new user(s) leave the {units.n_dims} of {len(names)} dimensions in which the users of "
        f"the fit differ: {', '.join(texts)}{more}. The model knows nothing of such differences and sees the projection onto "
        "those dimensions. Check these columns, or fit again with users who vary in them.",
        DataWarning,
        stacklevel=5,
    )


def warn_of_ties(features: Array, names: list[str]) -> None:
    """Warn of columns on whose values clusters may shrink."""
    tied = tied_columns(features)
    if tied.any():
        warnings.warn(
            f"Many users share a value in column(s) {names_text(names, tied)}, as in categories, flags and counts with many "
            "zeros. Clusters can shrink onto such a value, where the posterior has no finite shape: the run may stop with a "
            "DegenerateError after hours. Leave these columns out, or add noise of the size of their rounding.",
            DataWarning,
            stacklevel=4,
        )


def tied_columns(features: Array) -> NDArray[np.bool_]:
    """Which columns (D,) are likely to make the posterior improper.

    As W_0's variance ε in a column goes to 0, the posterior goes as ε^{D/2 − 1 + mβ/2 − Σ(n_k − 1)/2}: the sum runs over the
    clusters whose n_k users share one value, m clusters are not like that. With U − (distinct values) < D that is always
    integrable. With more ties it is not, yet rounded measurements run for ever all the same, because the chain would first
    have to find a partition by values. What collapses within thousands of iterations was found by trial with 50 to 400 users
    and 1 to 4 features: columns of few values, and columns with one value, such as 0, for a large share of the users. Of 400
    samples of 50 irises nine are beyond that share, and three of the nine collapsed; of the others none that was tried.
    """
    n_users, n_dims = features.shape
    share = _LARGE_SHARE_ALONE if n_dims == 1 else _LARGE_SHARE
    tied = np.zeros(n_dims, dtype=bool)
    for j, column in enumerate(features.T):
        counts = np.unique(column, return_counts=True)[1]
        few = len(counts) < _FEW_VALUES and 2 * len(counts) <= n_users
        one_large = counts.max() > 2 * n_dims and counts.max() >= share * n_users
        tied[j] = len(counts) > 1 and n_users - len(counts) >= n_dims and (few or one_large)
    return tied
