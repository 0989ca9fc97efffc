"""Centralities of the graph of replies. weights (U, U) sparse: weights[v, u] counts the replies of
u to v."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]

_DAMPING = 0.85
_TOLERANCE = 1e-10
_MOST_STEPS = 200
_PIVOTS = 128  # users whom closeness is measured to, where there are more
_AT_ONCE = 32


def reply_graph(source: Any, target: Any, count: Any, n_users: int) -> sparse.csr_array:
    """The graph of who replied to whom how often; replies to oneself are not in it."""
    other = source != target
    return sparse.csr_array(
        (count[other].astype(float), (target[other], source[other])), shape=(n_users, n_users)
    )


def pagerank(weights: sparse.csr_array) -> Array:
    """PageRank (U,) of replies, 1 on average: a share of attention that is passed on along replies.

    >>> ring = reply_graph(np.array([0, 1, 2]), np.array([1, 2, 0]), np.ones(3), 3)
    >>> pagerank(ring).round(6).tolist()
    [1.0, 1.0, 1.0]
    """
    n_users = weights.shape[0]
    given = np.asarray(weights.sum(axis=0)).ravel()
    flow = sparse.csr_array(weights * np.divide(1.0, given, out=np.zeros(n_users), where=given > 0))
    silent = given == 0
    rank = np.ones(n_users)
    for _ in range(_MOST_STEPS):
        # Who replies to nobody passes attention to everybody.
        new = 1.0 - _DAMPING + _DAMPING * (flow @ rank + rank[silent].sum() / n_users)
        if np.abs(new - rank).sum() < _TOLERANCE * n_users:
            return np.asarray(new)
        rank = new
    return rank


def closeness(rng: np.random.Generator, weights: sparse.csr_array) -> Array:
    """Harmonic closeness (U,): the mean of 1 / distance to others, along replies in either
    direction.

    To all others, or to some drawn at random in a large graph.

    >>> path = reply_graph(np.array([0, 1]), np.array([1, 2]), np.ones(2), 3)
    >>> closeness(np.random.default_rng(0), path).tolist()
    [0.75, 1.0, 0.75]
    """
    n_users = weights.shape[0]
    link = sparse.csr_array(
        (np.ones(weights.nnz, dtype=np.float32), weights.indices, weights.indptr),
        shape=weights.shape,
    )
    link = sparse.csr_array(link + link.T)
    pivots = (
        np.arange(n_users)
        if n_users <= _PIVOTS
        else np.sort(rng.choice(n_users, _PIVOTS, replace=False))
    )
    total = np.zeros(n_users)
    for first in range(0, len(pivots), _AT_ONCE):
        total += _inverse_distances(link, pivots[first : first + _AT_ONCE])
    others = np.full(n_users, float(len(pivots)))
    others[pivots] -= 1
    return np.asarray(total / np.maximum(others, 1.0))


def _inverse_distances(link: sparse.csr_array, pivots: NDArray[np.int64]) -> Array:
    """Sum over the pivots of 1 / distance, 0 where there is no way; level by level for all pivots
    at once."""
    n_users = link.shape[0]
    seen = np.zeros((n_users, len(pivots)), dtype=bool)
    seen[pivots, np.arange(len(pivots))] = True
    frontier = seen.astype(np.float32)
    total, distance = np.zeros(n_users), 0
    while frontier.any():
        distance += 1
        new = ((link @ frontier) > 0) & ~seen
        total += new.sum(axis=1) / distance
        seen |= new
        frontier = new.astype(np.float32)
    return total
