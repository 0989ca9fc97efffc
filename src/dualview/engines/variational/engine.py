"""The variational engine: an ascent from every start, and draws from what the starts have found.

An engine of chains makes a state from the one before. This one has no chains: it finds q, of which
draws are independent, so that its door is :meth:`VariationalEngine.fit` and what that returns.
Where starts end at different q with about the same evidence, as they do when several partitions
explain the data alike, draws come from each by its share of the evidence.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from dualview.chains.storage import Record, Store
from dualview.engines.variational import clock
from dualview.engines.variational.ascent import ascend
from dualview.engines.variational.draws import drawn, log_importance, states
from dualview.engines.variational.mean_field import MeanField
from dualview.engines.variational.moves import MANY_USERS, larger, rounds, smaller
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
_COARSE_STEPS = 60  # after which it is tried anyway: after few steps merges end at lower bounds
_COARSE_STEPS_OF_MANY = 9  # where steps cost much
_ALIKE = 0.97  # Rand index from which very many users are together in the same way, but for a few
_BEHIND = 5.0  # nats: a share of the draws below 1 %
_FIRST = 2  # merges that are tried while all starts are under way
_LAST = 2  # splits that are tried where a start is behind
_BATCH = 200  # draws that are made at a time
_CHECKED = 300  # draws by which q is compared with the posterior
_CHECKED_WORK = 300_000  # draws × users of that comparison
_MOST_CHECKED = 5000  # users; with more, weights of importance say nothing: one draw has them all


class Found(NamedTuple):
    """What one start has found, in how many steps, whether its bound has converged, and whether it
    ended early, behind another one."""

    q: MeanField
    n_steps: int
    converged: bool
    ended_early: bool = False


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
            if found.ended_early:
                continue
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
        until = clock.after(max_time)
        race = _Race(model, self.tolerance, self.max_steps, progress, users)
        try:
            race.run(bases, until)
        except np.linalg.LinAlgError as error:
            raise DegenerateError(
                f"The variational approximation lost its digits ({error}): clusters have "
                "shrunk onto single points, or "
                'features are nearly dependent. Use engine="gibbs".'
            ) from error
        return Fitted(sorted(race.found, key=lambda one: -one.q.evidence))


@dataclass
class _Start:
    """A start on its way: q so far, and its evidence after merges, before splits."""

    number: int
    progress: Progress | None
    q: MeanField
    n_steps: int = 0
    merged: float = -np.inf
    _before: int = 0

    def __call__(self, q: MeanField, n_steps: int) -> None:
        """An ascent has come to q in so many steps."""
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
        self.q = q
        if self.progress is not None:
            self.progress(self.number, self.n_steps, q.n_components)
        clock.check()

    def found(self, converged: bool = True, ended_early: bool = False) -> Found:
        return Found(self.q, self.n_steps, converged, ended_early)


@dataclass
class _Race:
    """Ascents from several starts, of which those that cannot be the best end early.

    All merge their components first, which is quick, and go on from the highest evidence. A start
    ends where its users are together as in one before, after its merges or at its end, for it
    would end there too. It ends where it is farther behind than what others have gained from there,
    and some nats more, and the splits that look best do not help. Where there
    are very many users, or starts share latent vectors, they go one by one.
    """

    model: Model
    tolerance: float
    max_steps: int
    progress: Progress | None
    users: NDArray[np.bool_] | None
    found: list[Found] = field(default_factory=list)
    _seen: list[tuple[NDArray[np.intp], Found]] = field(default_factory=list)  # partitions
    _gain: float = 0.0  # of the evidence, at most, from merges to the end

    def run(self, bases: Iterable[Base], until: float | None) -> None:
        """Find q from each of these q(z)."""
        waiting: list[_Start] = []
        try:
            for number, base in enumerate(bases):
                waiting.append(self._begun(number, base, until))
                with clock.ending_at(until):
                    self._merge(waiting[-1])
                    if self.model.n_users > MANY_USERS or not waiting[0].q.together:
                        self._finish(waiting[0])
                        del waiting[0]
            waiting.sort(key=lambda start: -start.merged)
            while waiting:
                with clock.ending_at(until):
                    self._finish(waiting[0])
                del waiting[0]
        except clock.OutOfTimeError:
            self.found += [start.found(converged=False) for start in waiting]

    @property
    def _held(self) -> MeanField | None:
        """The best q so far, where that of its latent vectors serves all starts: very many users
        then take little more than the time of one start."""
        best = max((one.q for one in self.found), key=lambda q: q.evidence, default=None)
        return None if best is None or best.together else best

    def _begun(self, number: int, base: Base, until: float | None) -> _Start:
        """A start; the first one begins whatever the time."""
        held = self._held
        with clock.ending_at(until if number else None):
            q = MeanField.begun(self.model, base, None if held is None else held.latent)
        return _Start(number, self.progress, q)

    def _merge(self, start: _Start) -> None:
        """Some steps, and fewer components where that helps."""
        if self._held is None:
            n_steps = _COARSE_STEPS if start.q.together else _COARSE_STEPS_OF_MANY
            start.q = ascend(start.q, _COARSE, n_steps, start).q
        start.q = smaller(start.q.sorted(), start.changed, self.users, _FIRST)
        start.merged = start.q.evidence

    def _finish(self, start: _Start) -> None:
        """Other numbers of components, and steps until the bound has converged, unless the start
        ends before."""
        merged = start.q
        if self._joins(start):
            return
        if self._is_behind(merged) and larger(merged, start.changed, self.users, _LAST) is merged:
            self.found.append(start.found(converged=False, ended_early=True))
            return
        start.q = rounds(start.q, start.changed, self.users).sorted()
        if start.q is not merged and self._joins(start):
            return
        held = self._held
        if held is not None and start.q.evidence < held.evidence:
            self._keep(start.found(), merged)
            return
        n_before = start.n_steps
        last = ascend(start.q, self.tolerance, self.max_steps, start)
        start.q, start.n_steps = last.q, n_before + last.n_steps
        self._keep(start.found(last.converged), merged)

    def _joins(self, start: _Start) -> bool:
        """Whether a start has come to where another has been; it has then found the same."""
        own = start.q.responsibilities.argmax(axis=0)
        for other, found in self._seen:
            alike = adjusted_rand_score(own, other)
            is_near = alike >= _ALIKE and self.model.n_users > MANY_USERS
            if alike == 1.0 or (is_near and start.q.evidence < found.q.evidence + _BEHIND):
                self.found.append(found._replace(n_steps=start.n_steps))
                return True
        return False

    def _is_behind(self, q: MeanField) -> bool:
        """Whether q, after merges, is farther behind the best than others have come from there."""
        best = max((one.q.evidence for one in self.found), default=-np.inf)
        return q.evidence < best - self._gain - _BEHIND

    def _keep(self, found: Found, merged: MeanField) -> None:
        """What a start has found, and its partitions after merges and now."""
        self.found.append(found)
        self._gain = max(self._gain, found.q.evidence - merged.evidence)
        for q in (merged, found.q):
            self._seen.append((q.responsibilities.argmax(axis=0), found))


def check_supported(model: Model) -> None:
    """Raise where a part of the model has no variational approximation."""
    missing = []
    if model.pooled:
        missing.append('pooling="cluster"')
    if model.agreements:
        missing.append("agreement")
    if model.heavy_tails:
        missing.append("clusters with heavy tails")
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
            "share, BinaryOutcomes, PairwiseChoices, CountOutcomes and SurvivalOutcomes. Use "
            'engine="gibbs" with init="kmeans".'
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
