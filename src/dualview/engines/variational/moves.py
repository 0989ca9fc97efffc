"""Other numbers of components: two merged, one deleted, one split, each kept where a bound is
higher after some steps.

A bound compares any two q of the same model, whatever their numbers of components, so that no other
penalty is needed. It is the bound by partitions, ``MeanField.evidence``: the more components there
are, the more orders of them a partition can come in. Under a Dirichlet process components beyond
those of q have no users and cost nothing.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice

import numpy as np
from numpy.typing import NDArray

from dualview.engines.variational.mean_field import MeanField
from dualview.engines.variational.responsibilities import bimodality, two_means

Array = NDArray[np.float64]
Trial = Callable[[], MeanField]
Notify = Callable[[MeanField], None]
Users = NDArray[np.bool_]

_MOST_STEPS = 25  # of a trial
_PATIENCE = 6  # times its last gain that a trial may be behind
_LEAST_GAIN = 1e-3  # nats for which another number of components is taken
_HOPELESS = 4.0, 0.02  # nats, and nats for each user, that a trial without a step may be behind
_FEWEST = 1.5  # expected users of a component that is split
_FEWEST_OPEN = 0.5  # expected users with new observations of a component that may change for them
_SAME_SIDE = 0.5  # expected users who are on another side where two splits are different ones
# above, fewer ways are tried: half as many as there are components or a few, no deletion of a large
# component, splits in all views together
MANY_USERS = 5000
_FEW = 4


def improved(q: MeanField, trial: MeanField) -> MeanField | None:
    """The trial after some steps, once its evidence is above that of q; None where it does not get
    there."""
    target = q.evidence + _LEAST_GAIN
    before = trial.evidence
    if before < target - _HOPELESS[0] - _HOPELESS[1] * q.model.n_users:
        return None
    for n_left in range(_MOST_STEPS, 0, -1):
        if before > target:
            return trial
        trial = trial.trial_step()
        gain, before = trial.evidence - before, trial.evidence
        if before + gain * min(n_left, _PATIENCE) < target:
            return None
    return trial if before > target else None


def rounds(q: MeanField, notify: Notify, users: Users | None = None) -> MeanField:
    """Merges and deletions while they help, then splits while they help, until neither does.

    users: a mask (U,); only components in which these users are expected change. None: all
    components.
    """
    q = smaller(q, notify, users)
    for move in cycle((larger, smaller)):
        found = move(q, notify, users)
        if found is q:  # the other kind found nothing from here before
            return q
        q = found
    raise AssertionError("a cycle has no end")


def smaller(
    q: MeanField, notify: Notify, users: Users | None = None, most: int | None = None
) -> MeanField:
    """Merges and deletions while they help, of which so many are tried at most."""
    return _best_of(q, lambda q: islice(_smaller(q, users), most), notify)


def larger(
    q: MeanField, notify: Notify, users: Users | None = None, most: int | None = None
) -> MeanField:
    """Splits while they help, of which so many are tried at most."""
    return _best_of(q, lambda q: islice(_larger(q, users), most), notify)


def _best_of(
    q: MeanField,
    candidates: Callable[[MeanField], Iterator[Trial]],
    notify: Notify,
) -> MeanField:
    """q after the first candidate that helps, then the first that helps from there, until none
    does."""
    while True:
        for trial in candidates(q):
            found = improved(q, trial())
            if found is not None:
                q = found
                notify(q)
                break
        else:
            return q


def _open(q: MeanField, users: Users | None) -> NDArray[np.bool_]:
    """Which components may change, (K,)."""
    if users is None:
        return np.ones(q.n_components, dtype=np.bool_)
    return np.asarray(q.responsibilities[:, users].sum(axis=1) >= _FEWEST_OPEN)


def _smaller(q: MeanField, users: Users | None) -> Iterator[Trial]:
    """Deletions of components without users, then merges of the pairs whose users are best
    explained by each other, then deletions of the components whose users lose least."""
    if q.n_components == 1:
        return
    is_open = _open(q, users)
    table, counts = q.table(), np.maximum(q.responsibilities.sum(axis=1), np.finfo(float).tiny)
    own = np.einsum("ku,ku->k", q.responsibilities, table)
    for k in np.argsort(q.counts):
        if q.counts[k] < 1.0:
            yield partial(q.deleted, int(k))
    # by moving the users of one to another
    losses = (own[:, None] - q.responsibilities @ table.T) / counts[:, None]
    pairs = np.minimum(losses, losses.T) + np.where(np.tri(q.n_components, dtype=bool), np.inf, 0.0)
    pairs[~(is_open[:, None] | is_open)] = np.inf
    for place in np.argsort(pairs, axis=None)[: _n_tried(q)]:
        one, other = np.unravel_index(place, pairs.shape)
        if np.isfinite(pairs[one, other]):
            yield partial(q.merged, int(one), int(other))
    if q.model.n_users <= MANY_USERS:
        ways = np.flatnonzero(is_open & (q.counts >= 1.0))
        elsewhere = [np.delete(table, k, axis=0).max(axis=0) for k in ways]
        losses = own[ways] - [
            q.responsibilities[k] @ x for k, x in zip(ways, elsewhere, strict=True)
        ]
        for k in ways[np.argsort(losses)[: _n_tried(q)]]:
            yield partial(q.deleted, int(k))


def _n_tried(q: MeanField) -> int:
    """How many merges, deletions or splits are tried: those that look best."""
    n = q.n_components
    return max(_FEW, n // 2) if q.model.n_users > MANY_USERS else 2 * n


def _larger(q: MeanField, users: Users | None) -> Iterator[Trial]:
    """Splits, of the components that look most like two first."""
    most = q.model.partition.n_components
    if most is not None and q.n_components >= most:
        return
    is_open = _open(q, users)
    views = [list(q.views)]
    if len(q.views) > 1 and q.model.n_users <= MANY_USERS:
        views += [[name] for name in q.views]
    ways: list[tuple[float, Trial]] = []
    for k in np.flatnonzero(is_open & (q.counts >= _FEWEST)):
        ways += _splits(q, int(k), views)
    for _, trial in sorted(ways, key=lambda way: -way[0])[: _n_tried(q)]:
        yield trial


def _splits(q: MeanField, k: int, views: list[list[str]]) -> list[tuple[float, Trial]]:
    """Splits of k by two means in some views, each partition once, with how much its users look
    like two clusters."""
    weights = q.responsibilities[k]
    found: list[tuple[float, Trial]] = []
    sides: list[NDArray[np.bool_]] = []
    for names in views:
        x = q.located(k, names)
        plane = two_means(x, weights)
        side = plane.is_above(x)
        if not any(_is_same(side, other, weights) for other in sides):
            sides.append(side)
            found.append((bimodality(x, weights, plane), partial(q.split, k, names, plane)))
    return found


def _is_same(side: Users, other: Users, weights: Array) -> bool:
    """Whether two cuts have the same users together, but for less than one."""
    moved = float(weights @ (side != other))
    return min(moved, float(weights.sum()) - moved) < _SAME_SIDE


def split(q: MeanField, k: int, names: list[str]) -> MeanField:
    """q with k in two parts, by two means of its users in these views, in units of its own
    width."""
    return q.split(k, names, two_means(q.located(k, names), q.responsibilities[k]))
