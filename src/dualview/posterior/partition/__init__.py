"""One partition from many draws, and its uncertainty. z (N, U) holds a partition per draw.

Losses between partitions: "binder", the share of ordered pairs of users on which they disagree;
"vi", the variation of information in nats. Nothing here forms a users × users matrix but
:func:`similarity`, which is asked for it.
"""

import math
import time
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.checks import checked_probability
from dualview.errors import InputError
from dualview.numerics import parallel
from dualview.numerics import partition_search as search

Labels = NDArray[np.int64]
Array = NDArray[np.float64]

_SIMILARITY_LIMIT = 5000
_MOST_PAIRS = 2e7  # draws × draws × users that are compared to find a draw to start from
_MOST_PLACES = 2e9  # draws × users × clusters that a search looks at in a pass
_PASSES = 400  # over all users that a search with limits should be able to make
_FEWEST = 100  # draws that starts look at, where there are as many
_MOST_CELLS = 5e7  # draws × clusters × clusters that a search counts users in, of 12 bytes each
_SLICE = 2e7  # places between two looks at the clock
_STEPS = 16  # parts that the comparison of draws with draws is cut into
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
    finished : bool
        Whether the search for the estimate came to its end; if not, ``partition(max_time=...)``
        searches on.
    """

    labels: Labels
    loss: str
    expected_loss: float
    membership: Array
    probability: float
    radius: float
    inside: NDArray[np.bool_]
    farthest: Labels
    finished: bool


def similarity(z: NDArray[np.integer]) -> Array:
    """Posterior similarity π̂ (U, U): the share of draws in which two users are together."""
    n_users = z.shape[1]
    if n_users > _SIMILARITY_LIMIT:
        raise InputError(
            f"A similarity matrix of {n_users} users would need {8e-9 * n_users**2:.1f} GB; the "
            f"limit is {_SIMILARITY_LIMIT} "
            "users. partition() and partition_estimate() work without it."
        )
    draws = np.ascontiguousarray(z, dtype=np.int64)
    return np.asarray(search.similarity(draws, np.ones(len(draws))))


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
    """Drawn partitions, equal ones once, and the expected losses of partitions against all of them.

    z (N, U) are those that differ, with compact labels, counts (N,) how often each was drawn, and
    place (S,) where each of the draws is among them.
    """

    def __init__(self, z: NDArray[np.integer], loss: str) -> None:
        if loss not in LOSSES:
            raise InputError(f"The loss must be one of {', '.join(LOSSES)}; got {loss!r}.")
        self.z, self.place = _distinct(z)
        self.counts = np.bincount(self.place).astype(float)
        self.n_labels = int(self.z.max()) + 1
        self.loss = loss
        self.growth = search.growth_of(self.z.shape[1], loss == "vi")

    def scores(self) -> Array:
        """Expected loss less a constant of each partition that differs, (N,), in the units of
        ``growth``."""
        n_draws, n_users = self.z.shape
        if self.loss == "binder" and n_users <= min(n_draws, _SIMILARITY_LIMIT):
            wide = self.z.astype(np.int64)
            return np.asarray(search.squared_losses(wide, search.similarity(wide, self.counts)))
        parts = parallel.apply(
            lambda first: search.overlaps(
                self.z, self.counts, self.n_labels, self.growth, first, _STEPS
            ),
            range(_STEPS),
        )
        sums, own = (sum(part) for part in zip(*parts, strict=True))
        return np.asarray(own - 2.0 * sums / self.counts.sum())

    def distances(self, labels: Labels) -> Array:
        """The loss between a partition and every draw, (S,)."""
        candidate = by_size(labels).astype(np.int32)
        n_labels = max(self.n_labels, int(candidate.max()) + 1)
        result = search.distances(candidate, self.z, n_labels, self.growth)
        n_users = len(candidate)
        scale = n_users * (n_users - 1) if self.loss == "binder" else n_users
        return np.asarray(np.maximum(result / scale, 0.0))[self.place]

    def membership(self, labels: Labels) -> Array:
        """Each user's probability of being with a random other member of its cluster; of being
        alone, for a cluster of one."""
        sums = search.memberships(self.z, self.counts, labels, np.bincount(labels), self.n_labels)
        return np.asarray(sums / self.counts.sum())


def _distinct(z: NDArray[np.integer]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The different partitions among some, with labels 0..K−1 in each so that count tables stay
    small, and where each of all is among them."""
    numbered = search.renumbered(np.ascontiguousarray(z, dtype=np.int32))
    known: dict[bytes, int] = {}
    place = np.array(
        [known.setdefault(blake2b(draw, digest_size=16).digest(), len(known)) for draw in numbered]
    )
    first = np.unique(place, return_index=True)[1]
    return numbered if len(first) == len(place) else numbered[first], place


def dahl(z: NDArray[np.integer]) -> int:
    """Index of the draw closest to the similarity in squared error (Dahl 2006)."""
    draws = Draws(z, "binder")
    return int(np.argmin(draws.scores()[draws.place]))


def best_draw(z: NDArray[np.integer], loss: str) -> Labels:
    """The draw with the least expected loss; of some, evenly spread, where there are many."""
    some = Draws(_spread(z, int(np.sqrt(_MOST_PAIRS / z.shape[1]))), loss)
    return np.asarray(some.z[int(np.argmin(some.scores()))], dtype=np.int64)


class Limits(NamedTuple):
    """How far a search goes.

    n_starts: partitions that are built up from nothing, besides the best of the draws. n_draws:
    draws, evenly spread, that are looked at from each start. work: places of tables, that is draws
    × users × clusters, that are looked at in all. seconds: of the clock.
    """

    n_starts: int = 8
    n_draws: float = 1000
    work: float = 2e10
    seconds: float = math.inf


IN_A_FIT, FULL = Limits(), Limits(n_starts=24, n_draws=math.inf, work=math.inf)
_SHARE = 0.03  # of the time that a fit may take
_SHARE_OF_STARTS = 0.7  # of the time that a search may take


def limits_in_fit(max_time: float | None) -> Limits:
    """The limits of the search at the end of a fit with a limit of time, or without."""
    return IN_A_FIT if max_time is None else IN_A_FIT._replace(seconds=_SHARE * max_time)


class Found(NamedTuple):
    """The best partition that a search found, and whether it came to its end, where moving any one
    user makes the partition worse."""

    labels: Labels
    finished: bool


@dataclass
class _Clock:
    """When a search must end, in seconds of the monotonic clock."""

    end: float

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.end


def least_loss(
    z: NDArray[np.integer],
    loss: str,
    limits: Limits = IN_A_FIT,
    *,
    most: int | None = None,
    known: Labels | None = None,
    seed: int = 0,
) -> Found:
    """The partition with the least expected loss that a search finds: never worse than the draw
    that it starts from, nor than a partition that is known.

    Users move one at a time to where the loss is least until nobody moves, from the best of the
    draws (of some, evenly spread, where there are thousands) and from users taken in random order
    one after the other. Where there are thousands of draws all this looks at some of them; then
    users move from the best partition so found until nobody does, over all draws. With very many
    users the draws that count are some of them, too. What the limits cut short ends with the best
    so far. most: clusters that a partition can have; by default two more than any draw has.
    """
    began = time.monotonic()
    z = _some(z)
    draws, start = Draws(z, loss), best_draw(z, loss) if known is None else known
    affordable = max(_FEWEST, limits.work / (_PASSES * z.shape[1] * draws.n_labels))
    n_few = int(min(len(z), limits.n_draws, affordable))
    few = draws if n_few == len(z) else Draws(_spread(z, n_few), loss)
    work, clock = limits.work / 2, _Clock(began + _SHARE_OF_STARTS * limits.seconds)
    capacity = _capacity(draws, start, most)
    ends = _descend_from_all(few, start, capacity, limits.n_starts, work, clock, seed)
    whole = [end.labels for end in ends if end.labels.min() >= 0]
    best = min(whole, key=lambda labels: float(few.distances(labels).mean()))
    clock.end = began + limits.seconds
    last = _descend(np.random.default_rng(seed), draws, best, capacity, work, clock)
    labels = min(start, last.labels, key=lambda labels: float(draws.distances(labels).mean()))
    return Found(by_size(labels), last.finished and all(end.finished for end in ends))


def _capacity(draws: Draws, start: Labels, most: int | None) -> int:
    """Clusters that a search has room for."""
    used = max(draws.n_labels, int(start.max()) + 1)
    return min(len(start), used + 2 if most is None else max(most, used))


def _descend_from_all(
    draws: Draws,
    start: Labels,
    capacity: int,
    n_starts: int,
    work: float,
    clock: _Clock,
    seed: int,
) -> list[Found]:
    """Where the search ends from a partition, and from users who are taken one after the other, so
    many times; on all cores."""
    starts = [start, *(np.full_like(start, -1) for _ in range(n_starts))]

    def descend(i: int) -> Found:
        rng = np.random.default_rng([seed, i])
        return _descend(rng, draws, starts[i], capacity, work / len(starts), clock)

    try:
        return list(parallel.apply(descend, range(len(starts))))
    except BaseException:
        clock.end = -math.inf  # Ctrl-C leaves no thread at work
        raise


def _some(z: NDArray[np.integer]) -> NDArray[np.integer]:
    """As many draws as a search can take in, evenly spread; all of them unless users or clusters
    are very many."""
    n_labels = int(z.max()) + 1
    return _spread(z, int(min(_MOST_PLACES / (z.shape[1] * n_labels), _MOST_CELLS / n_labels**2)))


def _spread(z: NDArray[np.integer], most: int) -> NDArray[np.integer]:
    """Some of the draws, evenly spread; all of them unless there are more."""
    most = max(most, 1)
    return z if len(z) <= most else z[np.linspace(0, len(z) - 1, most).round().astype(int)]


def _descend(
    rng: np.random.Generator,
    draws: Draws,
    start: Labels,
    capacity: int,
    work: float,
    clock: _Clock,
) -> Found:
    """Where the search ends that starts at a partition; −1 stands for users who are nowhere yet.

    Those who have moved come first again, and everybody where none of these moves. A search that
    has used up its work ends with the users that it is at, one that has used up its time at once.
    """
    candidate, n_users = start.copy(), len(start)
    if clock.is_over:
        return Found(candidate, False)
    tables = np.zeros((len(draws.z), draws.n_labels, capacity), dtype=np.int32)
    growths = np.zeros(tables.shape)
    search.fill(draws.z, draws.counts, candidate, tables, growths, draws.growth)
    sizes = np.bincount(candidate[candidate >= 0], minlength=capacity)
    by_user = np.ascontiguousarray(draws.z.T)
    step = max(1, int(_SLICE / (len(draws.z) * capacity)))
    order = rng.permutation(n_users)
    while work > 0:
        before = candidate.copy()
        for first in range(0, len(order), step):
            if clock.is_over:
                return Found(candidate, False)
            work -= search.improve(
                order[first : first + step],
                by_user,
                draws.counts,
                candidate,
                tables,
                growths,
                sizes,
                draws.growth,
            )
        moved = np.flatnonzero(candidate != before)
        if len(moved) == 0 and len(order) == n_users:
            return Found(candidate, True)
        order = rng.permutation(moved if len(moved) else n_users)
    return Found(candidate, False)


def estimate(
    z: NDArray[np.integer], found: Found, loss: str, probability: float
) -> PartitionEstimate:
    """Expected loss, memberships and credible ball of a partition."""
    probability = checked_probability(probability, "The ball's")
    draws, labels = Draws(z, loss), found.labels
    distances = draws.distances(labels)
    radius = float(np.quantile(distances, probability, method="higher"))
    inside = distances <= radius
    farthest = draws.z[draws.place[int(np.argmax(np.where(inside, distances, -1.0)))]]
    return PartitionEstimate(
        labels,
        loss,
        float(distances.mean()),
        draws.membership(labels),
        probability,
        radius,
        inside,
        by_size(farthest),
        found.finished,
    )
