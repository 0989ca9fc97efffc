"""One partition from many draws, and its uncertainty. z (N, U) holds a partition per draw.

Losses between partitions: "binder", the share of ordered pairs of users on which they disagree;
"vi", the variation of information in nats. Nothing here forms a users × users matrix but
:func:`similarity`, which is asked for it.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dualview.errors import InputError
from dualview.numerics import partition_search as search

Labels = NDArray[np.int64]
Array = NDArray[np.float64]

_SIMILARITY_LIMIT = 5000
_MOST_PAIRS = 2e8  # draws × draws × users that are compared to find a draw to start from
_MOST_PLACES = 2e9  # draws × users × clusters that a search looks at in a pass
_THREADS = 2
LOSSES = ("binder", "vi")
METHODS = ("dahl", *LOSSES)
DEFAULT = "vi"  # which finds the true clusters best: python -m benchmarks.roles


@dataclass(frozen=True)
class PartitionEstimate:
    """A partition and its uncertainty.

    Attributes
    ----------
    labels : array (U,)
        Clusters numbered from the largest.
    loss : "binder" or "vi"
        The loss it minimizes.
    expected_loss : float
        Its posterior expected loss.
    membership : array (U,)
        Each user's probability of being with a random other member of the user's cluster; of being
        alone, in a cluster of one.
    probability, radius : float
        The credible ball: the share of the posterior within this loss of the estimate.
    inside : array (N,) of bool
        Which draws lie in the ball.
    farthest : array (U,)
        The partition of the ball that is farthest from the estimate.
    """

    labels: Labels
    loss: str
    expected_loss: float
    membership: Array
    probability: float
    radius: float
    inside: NDArray[np.bool_]
    farthest: Labels


def similarity(z: NDArray[np.integer]) -> Array:
    """Posterior similarity π̂ (U, U): the share of draws in which two users are together."""
    n_users = z.shape[1]
    if n_users > _SIMILARITY_LIMIT:
        raise InputError(
            f"A similarity matrix of {n_users} users would need {8e-9 * n_users**2:.1f} GB; the "
            f"limit is {_SIMILARITY_LIMIT} "
            "users. partition() and partition_estimate() work without it."
        )
    return np.asarray(search.similarity(np.ascontiguousarray(z, dtype=np.int64)))


def by_size(z: NDArray[np.integer]) -> Labels:
    """The same partition with labels 0, 1, … from the largest cluster to the smallest, ties by
    first member."""
    _, first, inverse, counts = np.unique(
        z, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.lexsort((first, -counts))
    label = np.empty(len(order), dtype=np.int64)
    label[order] = np.arange(len(order))
    return label[inverse]


class Draws:
    """Drawn partitions with labels made compact, and the expected losses of partitions against
    them."""

    def __init__(self, z: NDArray[np.integer], loss: str) -> None:
        if loss not in LOSSES:
            raise InputError(f"The loss must be one of {', '.join(LOSSES)}; got {loss!r}.")
        self.z = _compact(z)
        self.n_labels = int(self.z.max()) + 1
        self.loss = loss
        self.growth = search.growth_of(self.z.shape[1], loss == "vi")

    def scores(self) -> Array:
        """Each draw's expected loss less a constant, in the units of ``growth``."""
        n_draws, n_users = self.z.shape
        if self.loss == "binder" and n_users <= min(n_draws, _SIMILARITY_LIMIT):
            wide = self.z.astype(np.int64)
            return np.asarray(search.squared_losses(wide, search.similarity(wide)))
        steps = 4 * _THREADS
        with ThreadPoolExecutor(_THREADS) as pool:
            tasks = [
                pool.submit(search.overlaps, self.z, self.n_labels, self.growth, i, steps)
                for i in range(steps)
            ]
            sums, own = (
                sum(parts) for parts in zip(*(task.result() for task in tasks), strict=True)
            )
        return np.asarray(own - 2.0 * sums / n_draws)

    def distances(self, labels: Labels) -> Array:
        """The loss between a partition and every draw, (N,)."""
        candidate = by_size(labels).astype(np.int32)
        n_labels = max(self.n_labels, int(candidate.max()) + 1)
        result = search.distances(candidate, self.z, n_labels, self.growth)
        n_users = len(candidate)
        scale = n_users * (n_users - 1) if self.loss == "binder" else n_users
        return np.asarray(np.maximum(result / scale, 0.0))


def _compact(z: NDArray[np.integer]) -> NDArray[np.int32]:
    """Labels 0..K−1 in every draw, so that count tables stay small."""
    compact = np.empty(z.shape, dtype=np.int32)
    for n, draw in enumerate(z):
        compact[n] = np.unique(draw, return_inverse=True)[1]
    return compact


def dahl(z: NDArray[np.integer]) -> int:
    """Index of the draw closest to the similarity in squared error (Dahl 2006)."""
    return int(np.argmin(Draws(z, "binder").scores()))


def least_loss(z: NDArray[np.integer], loss: str, *, n_starts: int = 8, seed: int = 0) -> Labels:
    """The partition with the least expected loss that a search finds: never worse than the draw
    that it starts from.

    Users move one at a time to where the loss is least until nobody moves, from the best of the
    draws (of some, evenly spread, where there are thousands) and from users taken in random order
    one after the other. With very many users the draws that count are some of them, too.
    """
    draws = Draws(_some(z), loss)
    rng = np.random.default_rng(seed)
    n_draws, n_users = draws.z.shape
    few = Draws(_spread(draws.z, max(1, int(np.sqrt(_MOST_PAIRS / n_users)))), loss)
    best_draw = few.z[int(np.argmin(few.scores()))].astype(np.int64)
    by_user = np.ascontiguousarray(draws.z.T)
    affordable = int(_MOST_PLACES / (n_draws * n_users * draws.n_labels))
    starts = [best_draw] + [np.full(n_users, -1, dtype=np.int64)] * min(
        n_starts, max(affordable, 1)
    )
    found = [_descend(rng, draws, by_user, start.copy()) for start in starts]
    losses = [draws.distances(labels).mean() for labels in found]
    return by_size(found[int(np.argmin(losses))])


def _some(z: NDArray[np.integer]) -> NDArray[np.integer]:
    """As many draws as a search can take in, evenly spread; all of them unless users are very
    many."""
    return _spread(z, max(1, int(_MOST_PLACES / (z.shape[1] * (int(z.max()) + 1)))))


def _spread(z: NDArray[np.integer], most: int) -> NDArray[np.integer]:
    """Some of the draws, evenly spread; all of them unless there are more."""
    return z if len(z) <= most else z[np.linspace(0, len(z) - 1, most).round().astype(int)]


def _descend(
    rng: np.random.Generator, draws: Draws, by_user: NDArray[np.int32], candidate: Labels
) -> Labels:
    """Where the search ends that starts at a candidate; −1 stands for users who are nowhere yet."""
    n_users = len(candidate)
    capacity = min(n_users, max(draws.n_labels, int(candidate.max()) + 1) + 2)
    tables = np.zeros((len(draws.z), draws.n_labels, capacity), dtype=np.int32)
    growths = np.zeros(tables.shape)
    search.fill(draws.z, candidate, tables, growths, draws.growth)
    sizes = np.bincount(candidate[candidate >= 0], minlength=capacity)
    for _ in range(100):
        order = rng.permutation(n_users)
        if search.improve(order, by_user, candidate, tables, growths, sizes, draws.growth) == 0:
            break
    return candidate


def estimate(
    z: NDArray[np.integer], labels: Labels, loss: str, probability: float
) -> PartitionEstimate:
    """Expected loss, memberships and credible ball of a partition."""
    if not 0 < probability < 1:
        raise InputError(f"The ball's probability lies between 0 and 1; got {probability!r}.")
    draws = Draws(z, loss)
    distances = draws.distances(labels)
    radius = float(np.quantile(distances, probability, method="higher"))
    inside = distances <= radius
    farthest = draws.z[int(np.argmax(np.where(inside, distances, -1.0)))]
    return PartitionEstimate(
        labels,
        loss,
        float(distances.mean()),
        membership(draws.z, labels),
        probability,
        radius,
        inside,
        by_size(farthest),
    )


def membership(z: NDArray[np.integer], labels: Labels) -> Array:
    """Each user's probability of being with a random other member of its cluster; of being alone,
    for a cluster of one."""
    draws = _compact(z)
    n_labels = int(draws.max()) + 1
    sizes = np.bincount(labels)
    result = np.zeros(len(labels))
    alone = sizes[labels] == 1
    for draw in draws:
        table = np.zeros((len(sizes), n_labels))
        np.add.at(table, (labels, draw), 1.0)
        together = (table[labels, draw] - 1.0) / np.maximum(sizes[labels] - 1.0, 1.0)
        result += np.where(alone, np.bincount(draw, minlength=n_labels)[draw] == 1, together)
    return result / len(draws)
