"""The feature matrix X (U, D): what is accepted, what its columns are called, in which units the
model sees it."""

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from dualview.behaviors.base import Behavior
from dualview.behaviors.ids import checked_ids
from dualview.checks import (
    check_finite,
    check_memory,
    check_range,
    is_series,
    listed,
    names_text,
    refuse_non_numbers,
    refuse_repeated_columns,
    series_remedy,
)
from dualview.columns import Columns
from dualview.errors import DataWarning, InputError, InputTypeError
from dualview.units import Whitening

Array = NDArray[np.float64]

_FEW_VALUES = 10
_USERS_PER_FEATURE = 4  # with fewer, features lose much of what they say
_SETS_SHOWN, _USERS_SHOWN = 3, 4
_LARGE_SHARE, _LARGE_SHARE_ALONE = 0.3, 0.1
# of a column's standard deviation: users of the fit are off the space they span by up to about 1e-5
# of it
_OFF_SPAN = 1e-4
_OFF_CONSTANT = 1e-9  # of a constant column's value


def checked_features(
    estimator: BaseEstimator, X: Any, reset: bool = True, missing: bool = False
) -> Array:
    """X as floats; sets n_features_in_ and feature_names_in_ of the estimator, or checks against
    them (reset=False).

    missing: cells may be NaN.
    """
    if isinstance(X, Behavior):
        raise InputError(
            "X takes the users' features; got a behavior. Without features call fit(None, "
            "behavior)."
        )
    if not sparse.issparse(X):  # scikit-learn has a message for that
        _check_table(X, least=2 if reset else 1)
    features = np.asarray(validated(estimator, X, reset))
    names = feature_names(estimator)
    known = np.where(np.isnan(features), 0.0, features) if missing else features
    check_finite(known, "X", names)
    check_range(np.abs(known).max(axis=0), "X", names)
    return features


def validated(estimator: BaseEstimator, X: Any, reset: bool, names_only: bool = False) -> Any:
    """What scikit-learn makes of X, or of the names of its columns only; its errors are ours."""
    kinds = X.dtypes if isinstance(X, pd.DataFrame) else []
    if len(kinds) and all(isinstance(kind, pd.SparseDtype) for kind in kinds):
        X = X.sparse.to_dense()
    try:
        return validate_data(
            estimator,
            X,
            reset=reset,
            skip_check_array=names_only,
            dtype=np.float64,
            ensure_all_finite=False,
        )
    except TypeError as error:
        raise InputTypeError(str(error)) from error
    except ValueError as error:
        raise InputError(str(error)) from error


def row_ids(X: Any) -> list[str] | None:
    """The users' ids: the index of a pandas DataFrame, unless it only counts rows from 0."""
    if not isinstance(X, pd.DataFrame) or counts_from(X, 0):
        return None
    ids = checked_ids(X.index.tolist(), "The index of X")
    repeated = [user for user, n in Counter(ids).items() if n > 1]
    if repeated:
        raise InputError(
            f"The index of X must name each user once; more than once: {listed(sorted(repeated))}."
        )
    return ids


def counts_from(X: Any, first: int) -> bool:
    """Whether the index of a table is the one that pandas makes for rows without ids, from this
    number on."""
    return isinstance(X.index, pd.RangeIndex) and X.index.equals(
        pd.RangeIndex(first, first + len(X))
    )


def _check_table(X: Any, least: int) -> None:
    if isinstance(X, np.matrix):
        raise InputTypeError(
            "X must be an array or a table of users; got a np.matrix. Pass np.asarray(X)."
        )
    if is_series(X):
        raise InputError(
            f"X must be (n_users, n_features), a row per user; got a {type(X).__name__}. "
            f"{series_remedy(X, 'X')}"
        )
    refuse_repeated_columns(X, "X")
    refuse_non_numbers(X, "X")
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    if len(shape) != 2:
        raise InputError(
            f"X must be (n_users, n_features), a row per user; got shape {shape}. Reshape your "
            "data: a single feature is "
            "X.reshape(-1, 1), of a Series X.to_frame(); a single user is X.reshape(1, -1)."
        )
    if shape[0] < least:
        wanted = {1: "Give at least one user", 2: "A mixture needs at least two users"}[least]
        raise InputError(f"{wanted}; X has {shape[0]} sample(s), that is row(s).")


def check_room(n_features: int, n_draws: int) -> None:
    """Raise where draws of the features' base matrices, two of (D, D) each, need more memory than
    the machine has."""
    check_memory(
        16.0 * n_draws * n_features**2,
        f"X has {n_features:,} columns: {n_draws:,} draws of two {n_features:,} × {n_features:,} "
        "matrices",
        "Leave columns out, reduce them first (for example to principal components), or keep fewer "
        "draws.",
    )


def feature_names(estimator: BaseEstimator, codebook: Columns | None = None) -> list[str]:
    """The names of the columns of numbers; x0, x1, … where X had none."""
    if codebook is not None:
        return [column.name for column in codebook.of("features")]
    names = getattr(estimator, "feature_names_in_", None)
    return (
        [f"x{j}" for j in range(estimator.n_features_in_)]
        if names is None
        else [str(name) for name in names]
    )


def feature_units(features: Array, names: list[str], shrinkage: str | None) -> Whitening:
    """The units of the feature view from the data; shrinkage: a name in ``units.SHRINKAGES``."""
    units = Whitening.of_data(features, shrinkage)
    if units.n_dims == 0:
        raise InputError(
            "All features are constant: there is nothing to cluster by. Pass X=None to cluster "
            "by behavior alone."
        )
    warn_of_rank(len(features), names, units)
    return units


def warn_of_many_features(n_users: int, units: Whitening) -> None:
    """Warn where units that come from the covariance of the features leave little of their
    differences, or nothing."""
    n_dims = units.n_dims
    if n_dims == 1 or _USERS_PER_FEATURE * n_dims < n_users:
        return
    effect = "little" if n_dims < n_users - 1 else "nothing"
    warnings.warn(
        f"The features span {n_dims} dimensions and there are only {n_users} users. In units of "
        f"the features' own covariance, the default, they then say {effect} about clusters: with U "
        "- 1 dimensions for U users, all users are equally far from each other. Give "
        'feature_prior="diagonal", or "shrunk" where features are strongly correlated inside '
        "clusters, or fewer columns, such as the first principal components.",
        DataWarning,
        stacklevel=6,
    )


def warn_of_rank(n_users: int, names: list[str], units: Whitening) -> None:
    """Warn where the features span fewer dimensions than they have columns."""
    n_dims = len(names)
    if units.n_dims == n_dims:
        return
    scale = np.sqrt((units.factor**2).sum(axis=1))
    constant = scale == 0
    unit = np.where(constant, 1.0, scale)
    null = (np.eye(len(names)) - units.factor @ units.inverse) * unit / unit[:, None]
    involved = ~constant & (np.abs(null).max(axis=1) > 1e-6)
    parts = []
    if constant.any():
        parts.append(f"constant: {names_text(names, constant)}")
    if involved.any() and n_users <= n_dims:
        parts.append(f"only {n_users} users for {n_dims} features")
    if involved.any():
        parts.append(f"linearly dependent: {names_text(names, involved)}")
    warnings.warn(
        f"The features span {units.n_dims} of {n_dims} dimensions ({'; '.join(parts)}). The "
        "model works in those they span.",
        DataWarning,
        stacklevel=7,
    )


def warn_of_projection(
    features: Array, names: list[str], units: Whitening, rows: list[str]
) -> None:
    """Warn of new users who differ from those of the fit where these do not: the model sees their
    projection only."""
    if units.n_dims == len(names):
        return
    away = features - units.vectors(units.to_working(features))
    scale = np.sqrt((units.factor**2).sum(axis=1))
    rounding = _OFF_CONSTANT * np.maximum(np.abs(units.mean), np.abs(features))
    beyond = np.abs(away) / np.maximum(
        _OFF_SPAN * scale, np.maximum(rounding, np.finfo(float).tiny)
    )
    off = np.flatnonzero(beyond.max(axis=1) > 1.0)
    if not len(off):
        return
    worst = beyond[off].argmax(axis=1)
    texts = [
        f"{rows[j]} (by {away[j, d]:.3g} in {names[d]})" for j, d in zip(off, worst, strict=True)
    ]
    warnings.warn(
        f"{len(off)} of {len(features)} new user(s) lie outside the {units.n_dims} of {len(names)} "
        f"dimensions that users of the fit span: {listed(texts)}. The model knows nothing "
        "about such differences and uses the projection onto those dimensions. Check these "
        "columns, or fit again with users who vary in them.",
        DataWarning,
        stacklevel=5,
    )


def warn_of_ties(
    features: Array, names: list[str], users: Sequence[Any], n_clusters: int | None
) -> None:
    """Warn of columns on whose values clusters may shrink, and of users with the same features,
    whose cluster may."""
    if n_clusters == 1:
        return
    tied = tied_columns(features)
    if tied.any():
        warnings.warn(
            f"Many users share a value in column(s) {names_text(names, tied)}, as in categories, "
            "flags and counts with many zeros. Clusters can shrink onto such a value, and the "
            "posterior is then improper: chains may fail after hours (DegenerateError). Leave "
            "these columns out, or give X as a table and say in columns that they are counts, "
            "rounded or nominal.",
            DataWarning,
            stacklevel=6,
        )
    sets = repeated_rows(features)
    n_users, n_dims = features.shape
    if can_shrink(sets, n_users, n_dims, n_clusters):
        warnings.warn(
            f"{repeats_text(sets, users)} A cluster of such users can shrink onto one point, and "
            "the posterior is then improper: sooner or later chains may fail (DegenerateError). If "
            "the features are rounded, give X as a table and say so in columns; if a user appears "
            "more than once, keep one row.",
            DataWarning,
            stacklevel=6,
        )


def repeated_rows(features: Array) -> list[NDArray[np.int64]]:
    """The sets of two or more users, as numbers of rows, whose features are the same in all
    columns."""
    order = np.lexsort(features.T)
    same = (features[order[1:]] == features[order[:-1]]).all(axis=1)
    sets = [np.sort(part) for part in np.split(order, np.flatnonzero(~same) + 1) if len(part) > 1]
    return sorted(sets, key=lambda rows: int(rows[0]))


def can_shrink(
    sets: list[NDArray[np.int64]], n_users: int, n_dims: int, n_clusters: int | None
) -> bool:
    """Whether users with the same features, in these sets, make the posterior improper.

    In clusters of their own, beside M clusters of different users, n_k such users leave an integral
    over W_0 of
    |W_0|^{(Mβ − 1 − Σ(n_k − 1))/2}
    near its singular matrices, which is infinite when the exponent is −1 or less. With an
    inferred number of clusters, or as many as there are different users, M can be 0 and a pair is
    enough. With fewer clusters M is 1 at best, and β > D − 1 can be as near to D − 1 as it has to
    be.
    """
    extra = sorted((len(users) - 1 for users in sets), reverse=True)
    if n_clusters is None or n_users - sum(extra) <= n_clusters:
        return len(extra) > 0
    return sum(extra[: n_clusters - 1]) > n_dims


def repeats_text(sets: list[NDArray[np.int64]], users: Sequence[Any]) -> str:
    """Who has the same features as somebody else, by name."""
    shown = []
    for rows in sets[:_SETS_SHOWN]:
        names = [str(users[row]) for row in rows[:_USERS_SHOWN]]
        shown.append(
            ", ".join(names) + (f", … ({len(rows)} users)" if len(rows) > _USERS_SHOWN else "")
        )
    more = f"; … ({len(sets)} sets of users)" if len(sets) > _SETS_SHOWN else ""
    return f"Users with the same features in all columns: {'; '.join(shown)}{more}."


def tied_columns(features: Array) -> NDArray[np.bool_]:
    """Which columns (D,) are likely to make the posterior improper.

    As W_0's variance ε in a column goes to 0, the posterior goes as ε^{(ρ − 1)/2 + Mβ/2 − Σ(n_k −
    1)/2}, (B1) of the model page: the sum runs over the clusters whose n_k users share one value, M
    clusters are not like that, and ρ ≤ D − 1 is the number of directions in which users of the
    first kind differ inside their clusters. Where the other columns hold numbers without ties ρ =
    min(D − 1, Σ(n_k − 1)), so that with U − (distinct values) < D it is always integrable. Users
    who are alike in other columns too have a smaller ρ: ``can_shrink``. With more ties it is not
    integrable, yet rounded measurements run for ever all the same, because the chain would first
    have to find a partition by values. What collapses within thousands of iterations was found by
    trial with 50 to 400 users and 1 to 4 features: columns of few values, and columns with one
    value, such as 0, for a large share of the users. Of 400 samples of 50 irises nine are beyond
    that share, and three of the nine collapsed; of the others none that was tried.
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
