"""One partition from many draws. z (N, U) holds a partition per draw."""

import numpy as np
from numpy.typing import NDArray

from dualview.kernels import pairs

Labels = NDArray[np.int64]


def similarity(z: NDArray[np.integer]) -> NDArray[np.float64]:
    """Posterior similarity π̂ (U, U): the share of draws in which two users are together."""
    return np.asarray(pairs.similarity(np.ascontiguousarray(z, dtype=np.int64)))


def dahl(z: NDArray[np.integer]) -> int:
    """Index of the draw closest to the similarity in squared error (Dahl 2006)."""
    draws = np.ascontiguousarray(z, dtype=np.int64)
    n_draws, n_users = draws.shape
    if n_users <= n_draws:
        losses = pairs.squared_losses(draws, pairs.similarity(draws))
    else:
        losses = pairs.squared_losses_by_draws(draws, int(draws.max()) + 1)
    return int(np.argmin(losses))


def by_size(z: NDArray[np.integer]) -> Labels:
    """The same partition with labels 0, 1, … from the largest cluster to the smallest, ties by first member."""
    _, first, inverse, counts = np.unique(z, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((first, -counts))
    label = np.empty(len(order), dtype=np.int64)
    label[order] = np.arange(len(order))
    return label[inverse]
