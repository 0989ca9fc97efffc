"""Other numbers of components: two merged, one deleted, one split, each kept where a bound is
higher after some steps.

A bound compares any two q of the same model, whatever their numbers of components, so that no other
penalty is needed. It is the bound by partitions, ``MeanField.evidence``: the more components there
are, the more orders of them a partition can come in. Under a Dirichlet process components beyond
those of q have no users and cost nothing.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dualview.engines.variational.mean_field import MeanField
from dualview.engines.variational.responsibilities import two_means

Array = NDArray[np.float64]
Trial = Callable[[], MeanField]
Users = NDArray[np.bool_]

_MOST_STEPS = 25  # of a trial
_PATIENCE = 6  # times its last gain that a trial may be behind
_LEAST_GAIN = 1e-3  # nats for which another number of components is taken
_FEWEST = 1.5  # expected users of a component that is split
_FEWEST_OPEN = 0.5  # expected users with new observations of a component that may change for them
# above, fewer ways are tried: a few merges, no deletion of a large component, one split of each
_MANY_USERS = 5000
_FEW_PAIRS = 4


def improved(q: MeanField, trial: MeanField) -> MeanField | None:
    """The trial after some steps, once its evidence is above that of q; None where it does not get
    there."""
    target = q.evidence + _LEAST_GAIN
    before = trial.evidence
    for n_left in range(_MOST_STEPS, 0, -1):
        if before > target:
            return trial
        trial = trial.trial_step()
        gain, before = trial.evidence - before, trial.evidence
        if before + gain * min(n_left, _PATIENCE) < target:
            return None
    return trial if before > target else None


def rounds(
    q: MeanField, notify: Callable[[MeanField], None], users: Users | None = None
) -> MeanField:
    """Merges and deletions while they help, then splits while they help, until neither does.

    users: a mask (U,); only components in which these users are expected change. None: all
    components.
    """
    changed = True
    while changed:
        changed = False
        for candidates in (_smaller, _larger):
            found = _best_of(q, partial(candidates, users=users), notify)
            changed, q = changed or found is not q, found
    return q


def _best_of(
    q: MeanField,
    candidates: Callable[[MeanField], Iterator[Trial]],
    notify: Callable[[MeanField], None],
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
    """Merges of the pairs whose users are best explained by each other, then deletions, of the
    smallest first."""
    if q.n_components == 1:
        return
    is_open = _open(q, users)
    table = q.table()
    counts = np.maximum(q.responsibilities.sum(axis=1), np.finfo(float).tiny)
    own = np.einsum("ku,ku->k", q.responsibilities, table)
    losses = (own[:, None] - q.responsibilities @ table.T) / counts[
        :, None
    ]  # by moving the users of one to another
    pairs = np.minimum(losses, losses.T) + np.where(np.tri(q.n_components, dtype=bool), np.inf, 0.0)
    pairs[~(is_open[:, None] | is_open)] = np.inf
    many = q.model.n_users > _MANY_USERS
    order = np.argsort(pairs, axis=None)[: _FEW_PAIRS if many else 2 * q.n_components]
    for k in np.argsort(q.counts):
        if q.counts[k] < 1.0:
            yield partial(q.deleted, int(k))
    for place in order:
        one, other = np.unravel_index(place, pairs.shape)
        if np.isfinite(pairs[one, other]):
            yield partial(q.merged, int(one), int(other))
    for k in np.argsort(q.counts):
        if q.counts[k] >= 1.0 and is_open[k] and not many:
            yield partial(q.deleted, int(k))


def _larger(q: MeanField, users: Users | None) -> Iterator[Trial]:
    """Splits of components, of the largest first."""
    is_open = _open(q, users)
    most = q.model.partition.n_components
    if most is not None and q.n_components >= most:
        return
    views = [list(q.views)]
    if len(q.views) > 1 and q.model.n_users <= _MANY_USERS:
        views += [[name] for name in q.views]
    for k in np.argsort(-q.counts):
        if q.counts[k] >= _FEWEST and is_open[k]:
            for names in views:
                yield partial(split, q, int(k), names)


def split(q: MeanField, k: int, names: list[str]) -> MeanField:
    """q with k in two parts, by two means of its users in these views, in units of its own
    width."""
    return q.split(k, names, two_means(q.located(k, names), q.responsibilities[k]))
