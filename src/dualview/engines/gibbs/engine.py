"""The Gibbs sampler: a step redraws every block given the others.

In a step: clusters' means together with their users' latent vectors, where the likelihood can move
them without its augmentation; then the moves of ``steps.MOVES``; then the likelihood's own
parameters, (C8). The moves are one compiled call; with a conjugate likelihood all of it is, and one
call makes many steps and keeps their draws. With very many users, or users who share vectors, the
moves are made one by one, some of them on several threads and in blocks (``blocks``). Neither the
number of steps in a call nor the number of threads changes anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.conjugate import Conjugate
from dualview.behaviors.likelihoods.logit_location import Locations
from dualview.behaviors.records import Params, Prior
from dualview.engines.base import Engine, Info
from dualview.engines.gibbs import blocks, steps
from dualview.engines.gibbs.moves import assignment, shared
from dualview.engines.gibbs.packing import record_of
from dualview.engines.gibbs.working import Outcome, WorkingLabels, WorkingState
from dualview.errors import DegenerateError
from dualview.model import Model, State
from dualview.numerics.compiling import uncached_twin
from dualview.numerics.kinds import is_own
from dualview.numerics.messages import Terms
from dualview.numerics.streams import stream_of, streams_of
from dualview.partitions.agreement import Beta, LabelsByView
from dualview.views import Components, Followers, no_columns, no_table, no_tails, no_view

AT_ONCE = 100  # steps in a compiled call for fifty users or fewer
_NARROW = (
    1e-12  # of a variance: a mean that such clusters pull at keeps no digits along wider directions
)
# What stands for the views that a model lacks. Every table has both, so that no mix of columns
# needs code of its own.
_EMPTY: dict[str, Callable[[int, int], Any]] = {"features": no_view}
_EMPTY_OF_TABLES: dict[str, Callable[[int, int], Any]] = {
    "features": no_table,
    "categories": no_columns,
}
_BY_BLOCKS: dict[steps.Move, Callable[..., Any]] = {
    shared.redraw_components: blocks.redraw_components,
    assignment.run: blocks.assign,
}


@dataclass(frozen=True)
class GibbsEngine(Engine):
    """Every step redraws each block of the state given the others.

    n_auxiliary: auxiliary components that stand ready for new clusters (Neal 2000, algorithm 8).
    """

    n_auxiliary: int = 3

    def start(self, rng: np.random.Generator, model: Model, z: NDArray[np.int64]) -> State:
        """A first state with the clusters z (U,)."""
        _compile_steps(model)
        n_components = model.partition.n_components or int(z.max()) + 1
        latent, params = (None, {}) if model.likelihood is None else model.likelihood.start(rng)
        z = z.astype(np.int64)
        labels = LabelsByView.agreeing(z, [prior.start for prior in model.agreements])
        partition = model.partition
        discount = None if partition.discount_prior is None else partition.start_discount
        state = State(labels, partition.start_alpha, {}, latent, params, discount)
        vectors = model.vectors(state)
        views = {
            name: view.start(rng, vectors[name], z, n_components)
            for name, view in model.views.items()
        }
        if model.pooled and latent is not None:
            latent = views["behavior"].component_parts["means"][z]
        return replace(state, views=views, latent=latent)

    def step(self, rng: np.random.Generator, model: Model, state: State) -> State:
        """One step."""
        return self.advance(rng, model, state, np.zeros(1, dtype=np.bool_))[0]

    def advance(
        self, rng: np.random.Generator, model: Model, state: State, keep: NDArray[np.bool_]
    ) -> tuple[State, Info]:
        """Some steps: many in one compiled call where the likelihood can be redrawn inside it, else
        one."""
        if model.followed_cells:
            after, info = self._advance(rng, model.held(state), state, keep)
            after = _with_cells_redrawn(rng, model, state, after)
            return after, info._replace(last=after if keep[0] else None)
        return self._advance(rng, model, state, keep)

    def _advance(
        self, rng: np.random.Generator, model: Model, state: State, keep: NDArray[np.bool_]
    ) -> tuple[State, Info]:
        """:meth:`advance` where cells, if there are any, are drawn with the clusters."""
        at_once = not model.pooled and (model.n_users <= assignment.BLOCK or _with_others(model))
        conjugate = _conjugate(model, state) if at_once else None
        if conjugate is not None:
            return self._advance_at_once(rng, model, state, keep, *conjugate)
        working, params = self._before_moves(rng, model, state)
        if at_once:
            done = _run_steps(working)(
                streams_of(rng, 1), np.zeros(1, dtype=np.bool_), working, Conjugate.none()
            )
            working, collapsed = done.state, done.collapsed
        else:
            tell = _tell(model, params)
            working, collapsed = run_by_blocks(stream_of(rng), working, steps.MOVES, tell)
        _check(model, working, collapsed)
        after = _with_likelihood_redrawn(rng, model, working, params)
        n_clusters = int(np.count_nonzero(working.counts))
        return after, Info(
            n_clusters, working.outcome.n_opened, 1, None, after if keep[0] else None
        )

    def steps_at_once(self, model: Model) -> int:
        """What takes some hundredths of a second."""
        return max(1, min(AT_ONCE, 50 * AT_ONCE // model.n_users))

    def working_state(self, model: Model, state: State, terms: Terms) -> WorkingState:
        """The state as the moves see it, its arrays copied where they change."""
        n_components, n_users = state.n_components, model.n_users
        views: list[Any] = []
        for name in _whole_names(model)[:-1]:
            if name in model.observed:
                views += model.views[name].records(
                    state.views[name], model.observed[name].vectors, model.rows[name]
                )
            else:
                views.append(_empty(model)[name](n_users, n_components))
        if state.latent is None:
            views.append(no_view(n_users, n_components))
        else:
            own, vectors = model.views["behavior"], state.latent.copy()
            views.append(own.record(state.views["behavior"], vectors, np.empty((0, n_users))))
        n_auxiliary = self.n_auxiliary if model.partition.n_components is None else 0
        counts, record = state.counts, model.partition.record(state.alpha, state.discount)
        return WorkingState(
            _working_labels(model, state.labels, len(views)),
            counts,
            tuple(views),
            terms,
            np.empty(0),
            record,
            n_auxiliary,
            _independent(model),
            Outcome.none(),
        )

    def _before_moves(
        self, rng: np.random.Generator, model: Model, state: State
    ) -> tuple[WorkingState, Params]:
        """The working state of a step whose likelihood is redrawn after the moves, and the
        likelihood's parameters."""
        state = relocated(rng, model, state)
        terms = Terms.none(model.n_users)
        if model.likelihood is not None and state.latent is not None:
            terms = model.likelihood.terms(rng, state.latent, state.params)
        return self.working_state(model, state, terms), state.params

    def _advance_at_once(
        self,
        rng: np.random.Generator,
        model: Model,
        state: State,
        keep: NDArray[np.bool_],
        terms: Terms,
        conjugate: Conjugate,
    ) -> tuple[State, Info]:
        """:meth:`advance` in one compiled call."""
        before = rng.bit_generator.state if len(keep) > 1 else {}
        working = self.working_state(model, state, terms)
        done = _run_steps(working)(streams_of(rng, len(keep)), keep, working, conjugate)
        working = done.state
        _check(model, working, done.collapsed)
        if done.n_steps < len(keep):  # the generator as if no more had been asked for
            rng.bit_generator.state = before
            streams_of(rng, done.n_steps)
        latent, params = None, {}
        if model.likelihood is not None:
            latent = working.views[-1].vectors
            params = model.likelihood.params_of(float(terms.precision[0]), conjugate.coefficients)
            if done.unfinished:
                prior = _latent_prior(model, working)
                latent, params = model.likelihood.redraw_together(rng, latent, params, terms, prior)
        after = _after(model, working, latent, params)
        last = after if done.unfinished and keep[done.n_steps - 1] else None
        draws = record_of(model, done.kept, done.n_kept) if done.n_kept else None
        n_clusters = int(np.count_nonzero(working.counts))
        return after, Info(n_clusters, working.outcome.n_opened, done.n_steps, draws, last)


def _working_labels(model: Model, labels: LabelsByView, n_views: int) -> WorkingLabels:
    """Labels as the moves see them, copied: they change in place."""
    if not model.agreements:
        return WorkingLabels.shared(labels.z[0].copy(), n_views)
    tables: list[int] = []
    for name in _whole_names(model)[:-1]:
        tables += model.views[name].tables if name in model.views else [0]
    priors = [(own.a, own.b) if isinstance(own, Beta) else (0.0, 0.0) for own in model.agreements]
    return WorkingLabels(
        labels.z.copy(),
        np.append(1 + np.array(tables), 0),
        labels.agrees.astype(np.int64),
        labels.shares.copy(),
        np.array(priors).reshape(-1, 2),
    )


def run_by_blocks(
    rng: NDArray[np.uint64],
    working: WorkingState,
    moves: Sequence[steps.Move],
    tell: blocks.Tell | None = None,
) -> tuple[WorkingState, int]:
    """The moves of a step one by one, on threads where they allow it; the state, and the first view
    that collapsed or −1. tell: as in ``blocks.assign``."""
    for move in moves:
        run = _BY_BLOCKS.get(move, move)
        working = run(rng, working, tell) if run is blocks.assign else run(rng, working)
    return working, steps.first_collapsed(working.views)


def relocated(rng: np.random.Generator, model: Model, state: State) -> State:
    """The state after moves of the behavior's clusters with their users' vectors, where the
    likelihood can make some."""
    if state.latent is None or model.likelihood is None:
        return state
    view = state.views["behavior"]
    means, base = view.component_parts["means"], view.base_parts
    z = state.labels.behavior
    locations = Locations(z, means, base["base_mean"], base["base_precision"])
    moves = model.likelihood.relocate(rng, state.latent, state.params, locations)
    if moves is not None:
        moved = model.views["behavior"].restored(
            view.component_parts | base | {"means": means + moves}
        )
        state = replace(
            state, views={**state.views, "behavior": moved}, latent=state.latent + moves[z]
        )
    return recentered(rng, model, state)


def recentered(rng: np.random.Generator, model: Model, state: State) -> State:
    """The state after a step of all latent vectors, the clusters' means and the base mean, where
    the likelihood makes one."""
    view = state.views["behavior"]
    parts = view.component_parts | view.base_parts
    assert model.likelihood is not None
    assert state.latent is not None
    moved = model.likelihood.recenter(rng, state.params, parts["base_mean"])
    if moved is None:
        return state
    parts |= {"means": parts["means"] + moved.step, "base_mean": parts["base_mean"] + moved.step}
    views = {**state.views, "behavior": model.views["behavior"].restored(parts)}
    return replace(state, views=views, latent=state.latent + moved.step, params=moved.params)


def _conjugate(model: Model, state: State) -> tuple[Terms, Conjugate] | None:
    """What makes up the likelihood, where it can be redrawn inside the call or there is none."""
    if model.likelihood is None:
        return Terms.none(model.n_users), Conjugate.none()
    return model.likelihood.conjugate(state.params)


def _tell(model: Model, params: Params) -> blocks.Tell | None:
    """What observations say of clusters whose users share a vector, where they have no normal
    form."""
    likelihood = model.likelihood
    if likelihood is None or not (model.pooled and likelihood.held):
        return None
    return blocks.tell_by_density(
        lambda vectors, users: likelihood.log_table(vectors, params, users)
    )


def _independent(model: Model) -> bool:
    """Whether tables hold what observations say: users depend on each other through their clusters
    only, and are many or have observations without a normal form."""
    if model.pooled and model.likelihood is not None and model.likelihood.held:
        return True
    likelihood, many = (
        model.likelihood,
        model.n_users > assignment.BLOCK and not _with_others(model),
    )
    return (
        many
        and likelihood is not None
        and likelihood.one_user_each
        and not model.pooled
        and not model.agreements
    )


def _with_others(model: Model) -> bool:
    """Whether some view is of a kind from outside the package."""
    return not all(is_own(type(view)) for view in model.views.values())


def _run_steps(working: WorkingState) -> Any:
    """``steps.run_steps``, compiled anew in each process where a view is of a kind from outside the
    package."""
    return (
        steps.run_steps
        if all(is_own(type(view)) for view in working.views)
        else uncached_twin(steps.run_steps)
    )


def _compile_steps(model: Model) -> None:
    """Compile what :meth:`GibbsEngine.advance` calls, where no data are needed to know how.

    It would be compiled when it is called. But most of what the start of a chain needs is in it,
    and would be compiled first.
    """
    working = example_state(model)
    if working is not None and hasattr(steps.run_steps, "compile"):  # else Numba was told not to
        arguments = (
            np.zeros((1, 4), dtype=np.uint64),
            np.zeros(1, dtype=np.bool_),
            working,
            Conjugate.none(),
        )
        steps.run_steps.compile(tuple(numba.typeof(argument) for argument in arguments))


def example_state(model: Model) -> WorkingState | None:
    """A state whose arrays have the types of those to come, where a step is one compiled call and
    views are of usual kinds."""
    whole, n_users = _whole_names(model)[:-1], model.n_users
    one_table = _names(model)[:-1] == whole and set(whole) <= set(_empty(model))
    if model.pooled or not one_table or n_users > assignment.BLOCK or _with_others(model):
        return None
    views = tuple(_empty(model)[name](n_users, 1) for name in whole)
    counts, partition = np.zeros(1, dtype=np.int64), model.partition.record(1.0)
    labels = WorkingLabels.shared(np.zeros(n_users, dtype=np.int64), len(views) + 1)
    columns = labels, counts, (*views, no_view(n_users, 1)), Terms.none(n_users), np.empty(0)
    return WorkingState(*columns, partition, 0, False, Outcome.none())


def _latent_prior(model: Model, working: WorkingState) -> Prior:
    """The prior of latent vectors given their clusters; of the clusters' own vectors when users
    share them."""
    prior = model.views["behavior"].latent_prior(working.views[-1])
    return Prior(working.z, prior.means, prior.factors, model.pooled)


def _with_likelihood_redrawn(
    rng: np.random.Generator,
    model: Model,
    working: WorkingState,
    params: Params,
) -> State:
    """The next state, after a draw of the latent vectors and of the likelihood's parameters."""
    latent = None
    if model.likelihood is not None:
        own, prior = working.views[-1], _latent_prior(model, working)
        latent, params = model.likelihood.redraw(rng, own.vectors, params, working.terms, prior)
    return _after(model, working, latent, params)


def _with_cells_redrawn(
    rng: np.random.Generator, model: Model, before: State, after: State
) -> State:
    """The next state with the cells redrawn, where latent vectors follow them; those before are
    what stood in the step."""
    view, likelihood = model.feature_view, model.held(before).likelihood
    assert likelihood is not None
    assert after.latent is not None
    assert model.features is not None
    parts = after.views["features"].component_parts | after.views["features"].base_parts
    standing: Any = view.restored(parts | {"cells": before.views["features"].base_parts["cells"]})
    slopes = np.ascontiguousarray(after.params["slopes"][:, : view.n_dims])
    terms = likelihood.terms(rng, after.latent, after.params) if model.pooled else None
    prior = None if model.pooled else Components(**after.views["behavior"].component_parts)
    labels = after.labels
    followers = Followers(slopes, after.latent, prior, terms, labels.behavior)
    z = labels.of("features")
    features, latent = view.redraw_cells(rng, standing, model.features, z, followers)
    return replace(after, views={**after.views, "features": features}, latent=latent)


def _after(
    model: Model,
    working: WorkingState,
    latent: NDArray[np.float64] | None,
    params: Params,
) -> State:
    """The next state."""
    records = _records(model, working)
    views = {name: view.of_records(records[name]) for name, view in model.views.items()}
    if (
        latent is not None and model.pooled and latent is not working.views[-1].vectors
    ):  # the likelihood has moved them
        views["behavior"].component_parts["means"][working.z] = latent
    own, alpha = working.labels, float(working.partition.alpha)
    labels = LabelsByView(own.z, own.agrees.astype(np.bool_), own.shares)
    learns = model.partition.discount_prior is not None
    discount = float(working.partition.discount) if learns else None
    return State(labels, alpha, views, latent, params, discount)


def _check(model: Model, working: WorkingState, collapsed: int) -> None:
    """Raise where numbers have run out of range."""
    user = working.outcome.user_without_weight
    if collapsed < 0 and user < 0:
        return
    names = _names(model)
    if collapsed < 0:
        records = _records(model, working)
        narrow = [
            name for name, view in model.views.items() if view.any_narrow(records[name], _NARROW)
        ]
        collapsed = names.index(narrow[0]) if narrow else -1
    if collapsed >= 0:
        raise DegenerateError(_collapse_message(names[collapsed]))
    raise DegenerateError(_weight_message(user, working.outcome.column))


def _empty(model: Model) -> dict[str, Callable[[int, int], Any]]:
    is_table = model.intervals is not None or "categories" in model.others
    found = _EMPTY_OF_TABLES if is_table else _EMPTY
    has_tails = model.heavy_tails and model.features is not None
    return found | {"features": no_tails} if has_tails else found


def _whole_names(model: Model) -> list[str]:
    """The names of a working state's views, each once."""
    return list(dict.fromkeys([*_empty(model), *model.observed, "behavior"]))


def _names(model: Model) -> list[str]:
    """The name of every view of a working state: several have the same where a view has parts."""
    views = model.views
    return [
        name
        for name in _whole_names(model)
        for _ in (views[name].parts if name in views else (None,))
    ]


def _records(model: Model, working: WorkingState) -> dict[str, list[Any]]:
    """The records of a working state's views by name."""
    found: dict[str, list[Any]] = {}
    for name, record in zip(_names(model), working.views, strict=True):
        found.setdefault(name, []).append(record)
    return found


def _collapse_message(view: str) -> str:
    return (
        f"The {view} view has collapsed: its clusters shrank onto single points, so the "
        "posterior is improper. This "
        "happens when users have the same features, when a column takes only a few distinct "
        "values, as a category or a "
        "rounded number does, or when one value is so extreme that the others are lost to "
        "round-off. Leave such columns or "
        "values out, or give X as a table and say in columns what they are: rounded, counts or "
        "nominal."
    )


def _weight_message(user: int, column: int | None) -> str:
    if column is not None:
        return (
            f"The log density of user {user} (counting from 0) under component {column} is NaN "
            "or infinite, which "
            "should never happen: a cluster has shrunk onto a single point, or this is a bug in "
            "dualview. Look for columns "
            "that take only a few distinct values and for users with the same features; if there "
            "are none, please report it."
        )
    return (
        f"User {user} (counting from 0) has probability 0 under every cluster: numbers "
        "overflowed or underflowed. Look for an "
        "extreme value in its row, and for columns that take only a few distinct values."
    )
