"""The variational engine: an ascent from every start, and draws from what the starts have found.

An engine of chains makes a state from the one before. This one has no chains: it finds q, of which
draws are independent, so that its door is :meth:`VariationalEngine.fit` and what that returns.
Where starts end at different q with about the same evidence, as they do when several partitions
explain the data alike, draws come from each by its share of the evidence.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from dualview.chains.storage import Record, Store
from dualview.engines.variational.ascent import ascend
from dualview.engines.variational.draws import drawn, log_importance, states
from dualview.engines.variational.mean_field import MeanField
from dualview.engines.variational.moves import rounds
from dualview.engines.variational.responsibilities import (
    Base,
    Given,
    GivenRows,
    Nearest,
    by_scores,
    entropy_of,
)
from dualview.engines.variational.sharded.model import ShardedModel
from dualview.engines.variational.users import UsersInMemory
from dualview.errors import DegenerateError, InputError
from dualview.model import Model, State
from dualview.views import View

Array = NDArray[np.float64]
Progress = Callable[[int, int, int], None]  # start, steps done, components now

_COARSE = 0.05  # nats: where another number of components is tried
_COARSE_STEPS = 60  # after which it is tried anyway; fewer steps that cost much
_COARSE_STEPS_OF_MANY = 9
_BATCH = 200  # draws that are made at a time
_CHECKED = 300  # draws by which q is compared with the posterior
_CHECKED_WORK = 300_000  # draws × users of that comparison
_MOST_CHECKED = 5000  # users; with more, weights of importance say nothing: one draw has them all


class Found(NamedTuple):
    """What one start has found, in how many steps, and whether its bound has converged."""

    q: MeanField
    n_steps: int
    converged: bool


class _OutOfTimeError(Exception):
    """The time is over; q is what there was."""

    def __init__(self, q: MeanField) -> None:
        self.q = q


@dataclass(frozen=True)
class Fitted:
    """What all starts have found, from the highest evidence."""

    found: list[Found]

    @property
    def best(self) -> MeanField:
        return self.found[0].q

    @cached_property
    def agreements(self) -> list[float]:
        """The adjusted Rand index between each start's partition and that of the first."""
        labels = [found.q.responsibilities.argmax(axis=0) for found in self.found]
        return [float(adjusted_rand_score(labels[0], own)) for own in labels]

    @cached_property
    def modes(self) -> tuple[list[MeanField], Array]:
        """q of the starts, those with the same partition once, and their shares of the evidence."""
        kept: list[MeanField] = []
        partitions: list[NDArray[np.int64]] = []
        for found in self.found:
            own = found.q.responsibilities.argmax(axis=0)
            if all(adjusted_rand_score(own, other) < 1.0 for other in partitions):
                kept.append(found.q)
                partitions.append(own)
        evidence = np.array([q.evidence for q in kept])
        shares = np.exp(evidence - evidence.max())
        return kept, shares / shares.sum()

    @cached_property
    def constant(self) -> float:
        """What is to be added to every evidence: 0 unless the bound of very many latent vectors is
        known up to a constant."""
        latent = self.best.latent
        return 0.0 if latent is None else latent.reported_bound() - latent.bound()

    def states(self, rng: np.random.Generator, n: int) -> list[State]:
        """Independent draws."""
        kept, shares = self.modes
        made = [
            state
            for q, own in zip(kept, rng.multinomial(n, shares), strict=True)
            for state in states(rng, q, int(own))
        ]
        return [made[i] for i in rng.permutation(n)]

    def record(self, rng: np.random.Generator, n: int, every: int | None) -> Record:
        """n draws as a chain leaves them; every: of a summary, which of them are kept whole."""
        store = Store(self.best.model, every)
        for first in range(0, n, _BATCH):
            for state in self.states(rng, min(_BATCH, n - first)):
                store.append(state)
        return store.drain()

    def pareto_k(self, rng: np.random.Generator) -> float | None:
        """k̂ of the importance weights of draws from the best q: above 0.7 they are no stand-in for
        the posterior's.

        None for very many users, of which no approximation is close enough for a k̂ that means
        something, for users in shards, and where cells are known to an interval, which cannot be
        integrated out.
        """
        intervals = self.best.model.intervals
        known_to_intervals = intervals is not None and bool(
            (intervals.low < intervals.high)[~intervals.is_missing].any()
        )
        in_memory = isinstance(self.best.users, UsersInMemory)
        if self.best.model.n_users > _MOST_CHECKED or known_to_intervals or not in_memory:
            return None
        from arviz_stats import base  # slow to import

        n = int(np.clip(_CHECKED_WORK // self.best.model.n_users, 100, _CHECKED))
        return float(
            vars(base)["array_stats"].psislw(log_importance(self.best, drawn(rng, self.best, n)))[1]
        )


@dataclass(frozen=True)
class VariationalEngine:
    """Coordinate ascent from several starts.

    tolerance: nats of the bound that may be missing where it counts as converged, besides a
    millionth for each user. max_steps: of the last ascent of a start, after which it counts as not
    converged.
    """

    tolerance: float = 1e-3
    max_steps: int = 2000

    def fit(
        self,
        model: Model,
        starts: Sequence[NDArray[np.int64]],
        progress: Progress | None = None,
        max_time: float | None = None,
    ) -> Fitted:
        """q from each of these partitions, of all users or of those who are looked at; after
        max_time seconds ascents end where they are, and no other begins."""
        check_supported(model)
        return self._ascents(model, (start_from(model, z) for z in starts), progress, max_time)

    def resume(
        self,
        model: Model,
        earlier: Sequence[Array],
        users: NDArray[np.bool_],
        progress: Progress | None = None,
        max_time: float | None = None,
    ) -> Fitted:
        """q of all users, from each of these q(z) of the first of them, (K, U′); new users enter by
        their expected scores.

        users: a mask (U,) of those with new observations. Only their components are merged, deleted
        or split.
        """
        check_supported(model)
        all_users = (entered(model, own) for own in earlier)
        bases = (GivenRows(rows, entropy_of(rows)) for rows in all_users)
        return self._ascents(model, bases, progress, max_time, users)

    def _ascents(
        self,
        model: Model,
        bases: Iterable[Base],
        progress: Progress | None,
        max_time: float | None,
        users: NDArray[np.bool_] | None = None,
    ) -> Fitted:
        """What an ascent from each q(z) finds."""
        until = None if max_time is None else time.monotonic() + max_time
        found: list[Found] = []
        try:
            for number, base in enumerate(bases):
                if found and until is not None and time.monotonic() >= until:
                    break
                best = max((one.q for one in found), key=lambda q: q.evidence, default=None)
                held = None if best is None or best.together else best
                watch = _Watch(number, progress, until)
                found.append(self._from(model, base, watch, held, users))
        except np.linalg.LinAlgError as error:
            raise DegenerateError(
                f"The variational approximation lost its digits ({error}): clusters have "
                "shrunk onto single points, or "
                'features are nearly dependent. Use engine="gibbs".'
            ) from error
        return Fitted(sorted(found, key=lambda one: -one.q.evidence))

    def _from(
        self,
        model: Model,
        base: Base,
        watch: "_Watch",
        best: MeanField | None,
        users: NDArray[np.bool_] | None = None,
    ) -> Found:
        """What one start finds.

        Where q of latent vectors stays as it is while components change, it is the best start's
        from the second start on, and updated again only if its components turn out better: very
        many users take the time of one start.
        """
        try:
            q = MeanField.begun(model, base, None if best is None else best.latent)
            if best is None:
                q = ascend(
                    q, _COARSE, _COARSE_STEPS if q.together else _COARSE_STEPS_OF_MANY, watch
                ).q
            q = rounds(q.sorted(), watch.changed, users).sorted()
            if best is not None and q.evidence < best.evidence:
                return Found(q, watch.n_steps, True)
            n_before = watch.n_steps
            last = ascend(q, self.tolerance, self.max_steps, watch)
        except _OutOfTimeError as over:
            return Found(over.q, watch.n_steps, False)
        return Found(last.q, n_before + last.n_steps, last.converged)


@dataclass
class _Watch:
    """Counts the steps of a start, tells of them, and ends it when the time is over."""

    number: int
    progress: Progress | None
    until: float | None
    n_steps: int = 0
    _before: int = 0

    def __call__(self, q: MeanField, n_steps: int) -> None:
        if n_steps < self._before:  # another ascent
            self._before = 0
        self.n_steps += n_steps - self._before
        self._before = n_steps
        self._tell(q)

    def changed(self, q: MeanField) -> None:
        """Another number of components was taken."""
        self.n_steps += 1
        self._tell(q)

    def _tell(self, q: MeanField) -> None:
        if self.progress is not None:
            self.progress(self.number, self.n_steps, q.n_components)
        if self.until is not None and time.monotonic() >= self.until:
            raise _OutOfTimeError(q)


def check_supported(model: Model) -> None:
    """Raise where a part of the model has no variational approximation."""
    missing = []
    if model.pooled:
        missing.append('pooling="cluster"')
    if model.agreements:
        missing.append("agreement")
    for name in model.observed:
        kind = type(model.views[name])
        if kind.approximate is View.approximate:
            missing.append(f"{name} of this kind ({kind.__name__})")
    if model.likelihood is not None and not model.likelihood.can_approximate:
        missing.append(
            f"this behavior, link or list of behaviors ({type(model.likelihood).__name__})"
        )
    if missing:
        raise InputError(
            f"The variational approximation does not do {' or '.join(missing)} yet: it does "
            "columns of every kind, SharedOutcome, UserRegression with a noise that all "
            'share, BinaryOutcomes and PairwiseChoices. Use engine="gibbs" with init="kmeans".'
        )


def start_from(model: Model, z: NDArray[np.int64]) -> Base:
    """q(z) at a partition of all users, or of those who are looked at: the others are then where
    the features are nearest."""
    n_components = int(z.max()) + 1
    if len(z) == model.n_users:
        return Given(z, n_components)
    assert isinstance(model, ShardedModel)
    assert model.users is not None
    x = model.users.observed["features"].means
    return Nearest(np.stack([x[z == k].mean(axis=0) for k in range(n_components)]))


def entered(model: Model, earlier: Array) -> Array:
    """q(z) of all users of a model, given that of the first of them, (K, U′).

    What components look like follows from the earlier users. New users are then given q(z) by what
    is observed of them, (V1); without observed views by the weights of components alone. What they
    did counts from the first step of an ascent.
    """
    n_before = earlier.shape[1]
    n_new = model.n_users - n_before
    if n_new == 0:
        return earlier
    if model.observed:
        known = MeanField.given(model.of_observed(slice(0, n_before)), earlier)
        table = known.scores_of(model.of_observed(slice(n_before, None)))
    else:
        table = np.repeat(
            model.partition.approximate(earlier.sum(axis=1)).log_weights[:, None], n_new, axis=1
        )
    return np.hstack([earlier, by_scores(table)[0]])
