"""The Gibbs sampler: a step redraws every block given the others.

In a step: clusters' means together with their users' latent vectors, where the likelihood can move them without its
augmentation; the scale of the latent vectors, then their location; each view's components and base parameters, (C1) to (C5)
and β; splits and merges of clusters, in some of the steps; every user's cluster together with its latent vector, (C7) and
(C11); α, (C9) or (C10); the likelihood's own parameters, (C8). All but the first and the last is one compiled call; with a
conjugate likelihood all of it is, and one call makes many steps and keeps their draws. Very many users, and users who share
vectors, are taken in blocks instead, with the parts that allow it on several threads; neither the number of steps in a call
nor the number of threads changes anything.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.base import Params, Plain, Prior, Terms
from dualview.behaviors.likelihoods import noise
from dualview.behaviors.likelihoods.logit_location import Locations
from dualview.engines.base import Info
from dualview.engines.gibbs import assignment as assign
from dualview.engines.gibbs import independent_users as apart
from dualview.engines.gibbs import split_merge as splits
from dualview.engines.gibbs import sweep
from dualview.engines.gibbs.packed_draws import PackedDraws
from dualview.errors import DegenerateError
from dualview.model import Model, State
from dualview.numerics import parallel as threads
from dualview.numerics.streams import split, stream_of, streams_of
from dualview.views import ViewState
from dualview.views.base import Base, Components
from dualview.views.gaussian import conditionals as gaussian
from dualview.views.gaussian import location
from dualview.views.gaussian.view import GaussianState
from dualview.views.shared import conditionals as pooled

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Cores = tuple[Array, Array]  # as in ``auxiliary``
Stream = NDArray[np.uint64]  # as in ``numerics.streams``

AT_ONCE = 100  # steps in a compiled call for fifty users or fewer
_ONE_NOT_KEPT = np.zeros(1, dtype=np.bool_)
_NOT_PLAIN = Plain.none()
_NARROW = 1e-12  # of a variance: a mean that such clusters pull at keeps no digits along wider directions
_NOBODY = assign.Lost(-1, assign.NO_WEIGHT)
BLOCK = 6000  # users of one table; not a power of two, so that a user's cells do not share a place in the cache


def start(rng: np.random.Generator, model: Model, z: NDArray[np.int64]) -> State:
    """A first state with the assignments z."""
    n_components = model.partition.n_components or int(z.max()) + 1
    latent, params = (None, {}) if model.likelihood is None else model.likelihood.start(rng)
    state = State(z.astype(np.int64), model.partition.start_alpha, {}, latent, params)
    vectors = model.vectors(state)
    views = {name: view.start(rng, vectors[name], z, n_components) for name, view in model.views.items()}
    if model.pooled and latent is not None:
        latent = views["behavior"].components.means[z]
    return replace(state, views=views, latent=latent)


def step(rng: np.random.Generator, model: Model, state: State, n_auxiliary: int) -> tuple[State, Info]:
    """One sweep over all blocks of the state."""
    return advance(rng, model, state, n_auxiliary, np.zeros(1, dtype=np.bool_))


def advance(
    rng: np.random.Generator, model: Model, state: State, n_auxiliary: int, keep: NDArray[np.bool_]
) -> tuple[State, Info]:
    """Some steps, at most as many as keep (n,) is long, which says after which of them the state is a draw.

    It is one step only where they cannot be made in one compiled call. However many there are, the states are the same.
    """
    at_once = model.n_users <= BLOCK and not model.pooled
    plain = _plain(model, state) if at_once else None
    if plain is not None:
        return _advance_at_once(rng, model, state, n_auxiliary, keep, *plain)
    moving = Moving.of(rng, model, relocated(rng, model, state))
    if at_once:
        moving.sweep_at_once(streams_of(rng, 1), n_auxiliary)
    else:
        moving.sweep_by_blocks(stream_of(rng), n_auxiliary)
    moving.check()
    latent, params = None, state.params
    if model.likelihood is not None:
        latent, params = model.likelihood.redraw(rng, moving.latent, params, moving.terms, moving.latent_prior())
    after = moving.state(latent, params)
    return after, Info(moving.n_clusters, moving.n_opened, 1, None, after if keep[0] else None)


def relocated(rng: np.random.Generator, model: Model, state: State) -> State:
    """The state after a move of the behaviour's clusters with their users' vectors, where the likelihood can make one."""
    if state.latent is None or model.likelihood is None:
        return state
    view = state.views["behavior"]
    (means, factors), base = view.components, view.base
    locations = Locations(state.z, means, base[0], base[1])
    steps = model.likelihood.relocate(rng, state.latent, state.params, locations)
    if steps is None:
        return state
    moved = model.views["behavior"].state(Components(means + steps, factors), base)
    return replace(state, views={**state.views, "behavior": moved}, latent=state.latent + steps[state.z])


def steps_at_once(model: Model) -> int:
    """How many steps to ask of :func:`advance`: what takes some hundredths of a second."""
    return max(1, min(AT_ONCE, 50 * AT_ONCE // model.n_users))


def _plain(model: Model, state: State) -> tuple[Terms, Plain] | None:
    """What makes up the likelihood, where it can be redrawn inside the call or there is none."""
    if model.likelihood is None:
        return Terms.none(model.n_users), Plain.none()
    return model.likelihood.conjugate(state.params)


def _advance_at_once(
    rng: np.random.Generator,
    model: Model,
    state: State,
    n_auxiliary: int,
    keep: NDArray[np.bool_],
    terms: Terms,
    plain: Plain,
) -> tuple[State, Info]:
    """:func:`advance` in one compiled call."""
    before = rng.bit_generator.state if len(keep) > 1 else {}
    moving = Moving.at(model, state, terms)
    draws = moving.sweep_at_once(streams_of(rng, len(keep)), n_auxiliary, keep, plain)
    moving.check()
    if moving.n_steps < len(keep):  # the generator as if no more had been asked for
        rng.bit_generator.state = before
        streams_of(rng, moving.n_steps)
    latent, params = None, {}
    if model.likelihood is not None:
        latent, params = moving.latent, model.likelihood.params_of(float(terms.precision[0]), plain.coefficients)
        if moving.unfinished:
            latent, params = model.likelihood.redraw_together(rng, latent, params, terms, moving.latent_prior())
    after = moving.state(latent, params)
    last = after if moving.unfinished and keep[moving.n_steps - 1] else None
    return after, Info(moving.n_clusters, moving.n_opened, moving.n_steps, draws.record(model), last)


@dataclass
class Moving:
    """A state on its way to the next. Both views are there; one of no dimensions is no view.

    columns as in ``assignment``: means and precision factors of the features' components, then of the latent vectors'.
    """

    model: Model
    z: NDArray[np.int64]
    alpha: float
    features: Array
    latent: Array
    terms: Terms
    columns: tuple[Array, Array, Array, Array]
    base: Base
    latent_base: Base
    n_clusters: int = 0
    n_opened: int = 0
    n_steps: int = 1
    unfinished: bool = False  # a joint draw is to come
    lost: assign.Lost = _NOBODY
    collapsed: int = -1  # a view, 0 or 1

    @classmethod
    def of(cls, rng: np.random.Generator, model: Model, state: State) -> "Moving":
        if model.likelihood is None or state.latent is None:
            return cls.at(model, state, Terms.none(model.n_users))
        return cls.at(model, state, model.likelihood.terms(rng, state.latent, state.params))

    @classmethod
    def at(cls, model: Model, state: State, terms: Terms) -> "Moving":
        """With these terms."""
        features, behavior = state.views.get("features"), state.views.get("behavior")
        features = _no_view(state.n_components) if features is None else features
        behavior = _no_view(state.n_components) if behavior is None else behavior
        latent = np.empty((model.n_users, 0)) if state.latent is None else state.latent.copy()
        observed = np.empty((model.n_users, 0)) if model.features is None else model.features
        columns = features.components + behavior.components
        return cls(model, state.z.copy(), state.alpha, observed, latent, terms, columns, features.base, behavior.base)

    def sweep_at_once(
        self, streams: Stream, n_auxiliary: int, keep: NDArray[np.bool_] = _ONE_NOT_KEPT, plain: Plain = _NOT_PLAIN
    ) -> PackedDraws:
        """Everything in one compiled call, a sweep for each stream."""
        drawn = sweep.sweeps(
            streams,
            keep,
            self.z,
            self.alpha,
            self.model.partition.n_components or 0,
            self.model.partition.alpha_prior,
            self._n_pool(n_auxiliary),
            self.features,
            self.model.feature_rows,
            self.columns,
            self.base,
            self.latent,
            self.latent_base,
            tuple(self.terms),
            tuple(plain),
            self.model.hyperpriors,
        )
        self.n_steps, self.alpha, counts, self.n_opened, self.lost, self.collapsed, self.unfinished = drawn[:7]
        self.columns, self.base, self.latent_base, kept = drawn[7:]
        self.n_clusters = int(np.count_nonzero(counts))
        return PackedDraws(*kept)

    def sweep_by_blocks(self, rng: Stream, n_auxiliary: int) -> None:
        """The same as :meth:`sweep_at_once`, step by step; sums over blocks of users are added up in their order."""
        if self.latent.shape[1] and not self.model.pooled:
            (mean, precision, covariance, dof), terms = self.latent_base, tuple(self.terms)
            covariance = sweep.rescale_latent(rng, self.z, self.columns[2], covariance, self.latent, terms)
            self.latent_base = (mean, precision, covariance, dof)
            means = location.relocate_in_turn(rng, self.z, self.columns[2], self.latent_base, self.latent, terms)
            self.columns = (*self.columns[:2], means, self.columns[3])
        shared, own = self.model.hyperpriors
        drawn = gaussian.redraw_view(rng, *self._sums(self.features, self.columns[0]), *self.base, shared)
        components, self.base = drawn[:2], drawn[2:]
        if self.latent.shape[1] and self.model.pooled:
            terms = tuple(self.terms)
            drawn = pooled.redraw_pooled(rng, self.z, self.latent, self.columns[2], self.latent_base, terms, own)
        else:
            drawn = gaussian.redraw_view(rng, *self._sums(self.latent, self.columns[2]), *self.latent_base, own)
        latent_components, self.latent_base = drawn[:2], drawn[2:]
        self.columns = (*components, *latent_components)
        counts = self.redraw_assignments(rng, n_auxiliary)
        self.collapsed = sweep.collapsed_view(self.base[2], self.latent_base[2])
        if self.lost.user < 0:
            self.alpha = self.model.partition.redraw_alpha(rng, counts, self.alpha)

    def redraw_assignments(self, rng: Stream, n_auxiliary: int) -> NDArray[np.int64]:
        """z and latent vectors; empty clusters are dropped when their number is inferred. Returns the users of each cluster."""
        fixed = self.model.partition.n_components or 0
        n_moves = 0 if self.model.pooled else splits.draw_moves(rng, fixed, self.terms.noise)
        n_components, n_pool, n_room = len(self.columns[0]), self._n_pool(n_auxiliary), 0 if fixed else sweep.ROOM + n_moves
        drawn = [
            sweep.with_pool(rng, *components, n_pool, n_room, base, not self._apart)
            for components, base in ((self.columns[:2], self.base), (self.columns[2:], self.latent_base))
        ]
        self.columns, cores = (*drawn[0][:2], *drawn[1][:2]), (drawn[0][2], drawn[1][2])
        counts = assign.column_counts(self.z, n_components, n_pool, len(self.columns[0]))
        if not (fixed or self.model.pooled or len(self.terms.noise)):  # also without moves: all is compiled in the first sweep
            bases = (self.base, self.latent_base)
            splits.split_and_merge(rng, n_moves, self.z, counts, self.alpha, self.features, self.latent, self.columns, bases)
        counts = self._reassign(rng, counts, n_components + np.arange(n_pool), cores)
        if not fixed:
            self.columns = assign.compact(self.z, counts, self.columns)
            counts = counts[counts > 0]
        self.n_clusters = int(np.count_nonzero(counts))
        return counts

    def _n_pool(self, n_auxiliary: int) -> int:
        """Auxiliary components: none when no cluster can be opened."""
        return n_auxiliary if self.model.partition.n_components is None else 0

    def _weights(self, n_pool: int) -> tuple[float, float]:
        """What a component weighs beyond its count, and what each of the pool weighs."""
        partition = self.model.partition
        return partition.spread(self.alpha), partition.new_weight(self.alpha) / max(n_pool, 1)

    def _blocks(self) -> list[slice]:
        return [slice(first, min(first + BLOCK, len(self.z))) for first in range(0, len(self.z), BLOCK)]

    def _sums(self, x: Array, means: Array) -> tuple[Array, Array, Array]:
        """Counts, sums and scatter factors of the clusters."""
        parts = threads.apply(lambda users: gaussian.cluster_sums(x[users], self.z[users], means), self._blocks())
        total: tuple[Array, Array, Array] = next(parts)
        for part in parts:
            gaussian.join_sums(*total, *part)
        return total

    def _reassign(self, rng: Stream, counts: Labels, pool: Labels, cores: Cores) -> Labels:
        """z and latent vectors, block after block; returns the users of every column."""
        if len(self.terms.gram) > BLOCK:
            raise ValueError("terms with a gram matrix are for users who fit in one block")
        weights = self._weights(len(pool))
        noises = noise.redraw_noises(rng, self.z, tuple(self.terms), len(counts))
        for users in self._blocks():
            x = np.ascontiguousarray(self.model.feature_rows[:, users])
            table = self._table(x, counts)
            if self._apart:
                counts, noises, opened, lost = self._assign_apart(rng, users, counts, pool, table, weights, x, noises)
            else:
                counts, self.columns, noises, cores, opened, lost = sweep.reassign(
                    rng,
                    self.z[users],
                    counts,
                    pool,
                    table,
                    weights,
                    x,
                    self.latent[users],
                    self._terms_of(users),
                    self.columns,
                    noises,
                    cores,
                    (self.base, self.latent_base),
                )
            self.n_opened += opened
            if lost.user >= 0:
                self.lost = lost._replace(user=lost.user + users.start)
                break
        return counts

    @property
    def _apart(self) -> bool:
        """Whether users depend on each other through their clusters only."""
        likelihood = self.model.likelihood
        return likelihood is not None and likelihood.one_user_each and not self.model.pooled

    def _terms_of(self, users: slice) -> tuple[Any, ...]:
        """The terms of one block."""
        starts, terms = self.terms.starts[users.start : users.stop + 1], self.terms
        return tuple(terms._replace(starts=starts, squares=terms.squares[users], noise=terms.noise[users]))

    def _assign_apart(
        self, rng: Stream, users: slice, counts: Labels, pool: Labels, table: Array, weights: Any, x: Array, noises: Array
    ) -> tuple[Labels, Array, int, assign.Lost]:
        """What observations say of clusters, z in turn, then latent vectors, on a thread for each half.

        The table holds what observations say, so the pool's members keep their means. Returns the users of every column, their
        noises, how many were opened, and who is lost.
        """
        z, latent, terms, bases = self.z[users], self.latent[users], self._terms_of(users), (self.base, self.latent_base)
        n_users, n_opened, first = len(z), 0, 0
        halves = [(0, n_users // 2), (n_users // 2, n_users)]

        def tell(first: int, columns: tuple[int, int]) -> None:
            def one(half: tuple[int, int]) -> None:
                begin, end = (max(u, first) for u in half)
                apart.tell(table, begin, end, *columns, counts, latent, *self.columns[2:], terms, noises)

            list(threads.apply(one, halves))

        def draw(piece: tuple[Stream, tuple[int, int]]) -> None:
            apart.draw_given(piece[0], *piece[1], z, latent, *self.columns[2:], terms, noises)

        tell(0, (0, len(counts)))
        nobody, nothing, cores = np.empty((n_users, 0)), tuple(Terms.none(n_users)), (np.empty((0, 0, 0)), np.empty((0, 0, 0)))
        while True:
            first, opened, lost = assign.assign(
                rng, first, z, counts, pool, table, weights, x, nobody, nothing, self.columns, noises, cores, bases, 1
            )
            n_opened += opened
            if lost.user >= 0:
                return counts, noises, n_opened, lost
            if first == n_users:
                break
            if counts.min() >= 0:
                counts, table, self.columns, noises, cores = sweep.grow(counts, table, self.columns, noises, cores)
            for column in pool:  # one of them is new
                assign.tabulate(table, first, column, x, self.columns[0][column], self.columns[1][column])
                tell(first, (column, column + 1))
        list(threads.apply(draw, [(split(rng), half) for half in halves]))
        return counts, noises, n_opened, lost

    def _table(self, x: Array, counts: NDArray[np.int64]) -> Array:
        """The features' log likelihoods (C, U), half of the columns at a time."""
        table = np.empty((len(counts), x.shape[1]))
        middle = len(counts) // 2

        def fill(part: tuple[int, int]) -> None:
            assign.fill(table, *part, x, counts, *self.columns[:2])

        list(threads.apply(fill, [(0, middle), (middle, len(counts))]))
        return table

    def latent_prior(self) -> Prior:
        """The prior of latent vectors given their clusters; of the clusters' own vectors when users share them."""
        _, _, means, factors = self.columns
        if self.model.pooled:
            means, factors = pooled.prior_of(len(means), *self.latent_base[:2])
        return Prior(self.z, means, factors, self.model.pooled)

    def check(self) -> None:
        """Raise where numbers have run out of range."""
        view = self._narrow_view() if self.collapsed < 0 <= self.lost.user else self.collapsed
        if view >= 0:
            raise DegenerateError(_collapse_message(("features", "behavior")[view]))
        if self.lost.user >= 0:
            raise DegenerateError(_lost_message(self.lost))

    def _narrow_view(self) -> int:
        """The first view whose clusters are so narrow in some direction that digits run out: 0, 1, or −1 for none."""
        for view, (_, _, covariance, _) in enumerate((self.base, self.latent_base)):
            if covariance.size and not np.isfinite(covariance).all():
                return view
            if covariance.size and np.linalg.eigvalsh(covariance)[0] < _NARROW:
                return view
        return -1

    def state(self, latent: Array | None, params: Params) -> State:
        """The next state."""
        means, factors, latent_means, latent_factors = self.columns
        views: dict[str, ViewState] = {}
        if self.model.features is not None:
            views["features"] = self.model.views["features"].state(Components(means, factors), self.base)
        if latent is not None:
            if self.model.pooled and latent is not self.latent:  # the likelihood has moved them
                latent_means[self.z] = latent
            views["behavior"] = self.model.views["behavior"].state(Components(latent_means, latent_factors), self.latent_base)
        return State(self.z, self.alpha, views, latent, params)


def _no_view(n_components: int) -> GaussianState:
    """A view of no dimensions."""
    components = Components(np.empty((n_components, 0)), np.empty((n_components, 0, 0)))
    return GaussianState(components, np.empty(0), np.empty((0, 0)), np.empty((0, 0)), 1.0)


def _collapse_message(view: str) -> str:
    return (
        f"The {view} view has collapsed: its clusters shrank onto single points, so the posterior has no finite shape. This "
        "happens when users have the same features, when a column takes only a few distinct values, as a category or a "
        "rounded number does, or when one extreme value leaves no digits for the others. Leave such columns or values out, or "
        "add noise of the size of the rounding."
    )


def _lost_message(lost: assign.Lost) -> str:
    if lost.column is not None:
        return (
            f"The log density of user {lost.user} (users count from 0) under component {lost.column} is NaN or infinite, which "
            "it can be for no data: a cluster has shrunk onto a single point, or this is a bug in dualview. Look for columns "
            "that take only a few distinct values and for users with the same features; if there are none, please report it."
        )
    return (
        f"User {lost.user} (users count from 0) has probability 0 under every cluster: numbers ran out of range. Look for an "
        "extreme value in its row, and for columns that take only a few distinct values."
    )
