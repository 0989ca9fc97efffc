"""Where chains start: the first partition of the users."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from dualview.checks import rows_text
from dualview.errors import InputError

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Start = Callable[[np.random.Generator], Labels]

_INFERRED = 10  # clusters of k-means when their number is inferred


def check_init(init: Any, n_users: int, n_clusters: int | None) -> Labels | None:
    """The labels that every chain starts from, as numbers from 0; None for k-means and for a
    variational approximation."""
    if isinstance(init, str):
        if init not in ("kmeans", "one", "variational"):
            raise InputError(
                f"init must be 'kmeans', 'one', 'variational' or an array of labels; got {init!r}."
            )
        return np.zeros(n_users, dtype=np.int64) if init == "one" else None
    given = np.asarray(init)
    if given.shape != (n_users,):
        raise InputError(
            "init must be 'kmeans', 'one', 'variational' or a label per user, shape "
            f"({n_users},); got {type(init).__name__} "
            f"of shape {given.shape}."
        )
    if given.dtype.kind == "O":
        given = np.array(given.tolist())
    if given.dtype.kind == "f":
        missing = np.isnan(given)
        what = f"NaN in {rows_text(missing)}" if missing.any() else "floats"
        raise InputError(
            f"init must hold a whole number or a name per user; got {what}. Fill and convert: "
            "init.astype(int)."
        )
    if given.dtype.kind not in "biuUST":
        raise InputError(
            f"init must hold a whole number or a name per user; got {given.tolist()[:5]} …."
        )
    labels = np.unique(given, return_inverse=True)[1].astype(np.int64)
    if n_clusters is not None and labels.max() >= n_clusters:
        raise InputError(
            f"init has {labels.max() + 1} clusters, more than n_clusters = {n_clusters}. Merge "
            "some, or raise n_clusters."
        )
    return labels


@dataclass(frozen=True)
class GivenStart:
    """The same partition for every chain."""

    labels: Labels

    def __call__(self, rng: np.random.Generator) -> Labels:  # noqa: ARG002
        return self.labels.copy()


@dataclass(frozen=True)
class KMeansStart:
    """K-means on the users' vectors in working units, at most as many clusters as there are
    distinct vectors."""

    vectors: Array
    n_clusters: int | None

    def __call__(self, rng: np.random.Generator) -> Labels:
        scaled = self.vectors / max(float(np.abs(self.vectors).max()), np.finfo(float).tiny)
        n_distinct = len(np.unique(np.round(scaled, 12), axis=0))
        n_start = min(self.n_clusters or _INFERRED, n_distinct)
        kmeans = KMeans(n_start, n_init=1, random_state=int(rng.integers(2**31)))
        return np.unique(kmeans.fit_predict(self.vectors), return_inverse=True)[1].astype(np.int64)
