"""The Gibbs sampler: a step redraws every block given the others.

The assignment sweep sees a table of log likelihoods per user and component, summed over views, made for a block of users at a
time.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.errors import DegenerateError
from dualview.kernels.assign import assign
from dualview.model import Model, State
from dualview.views.gaussian import Components, GaussianState

Array = NDArray[np.float64]

_BLOCK_CELLS = 4_000_000  # users × components of one table
# A base variance below this, in working units, is a view whose clusters have shrunk onto single points; rounding of the means
# stops the shrinking near 1e-32, and a feature with an outlier of 1e12 times its spread has about 1e-24.
_COLLAPSED = 1e-28


class Info(NamedTuple):
    """What happened in a step."""

    n_clusters: int
    n_opened: int


def start(rng: np.random.Generator, model: Model, z: NDArray[np.int64]) -> State:
    """A first state with the assignments z."""
    n_components = model.partition.n_components or int(z.max()) + 1
    latent, params = (None, {}) if model.likelihood is None else model.likelihood.start(rng)
    state = State(z.astype(np.int64), 1.0, {}, latent, params)
    vectors = model.vectors(state)
    views = {name: view.start(rng, vectors[name], z, n_components) for name, view in model.views.items()}
    return replace(state, views=views)


def step(rng: np.random.Generator, model: Model, state: State, n_auxiliary: int) -> tuple[State, Info]:
    """One sweep over all blocks."""
    state = redraw_views(rng, model, state)
    state = redraw_behavior(rng, model, state)
    state, n_opened = redraw_assignments(rng, model, state, n_auxiliary)
    counts = state.counts
    state = replace(state, alpha=model.partition.redraw_alpha(rng, counts, state.alpha))
    return state, Info(int(np.count_nonzero(counts)), n_opened)


def redraw_views(rng: np.random.Generator, model: Model, state: State) -> State:
    """Components and base parameters of every view, (C1) to (C6)."""
    vectors = model.vectors(state)
    views = {}
    for name, view in model.views.items():
        views[name] = view.redraw(rng, state.views[name], vectors[name], state.z)
        base_covariance = views[name].base_covariance
        if not (np.isfinite(base_covariance).all() and (np.diagonal(base_covariance) > _COLLAPSED).all()):
            raise DegenerateError(_collapse_message(name))
    return replace(state, views=views)


def redraw_behavior(rng: np.random.Generator, model: Model, state: State) -> State:
    """Latent vectors and the likelihood's own parameters, (C7) and (C8)."""
    if model.likelihood is None:
        return state
    means, factors = state.views["behavior"].components
    latent, params = model.likelihood.redraw(rng, state.params, means[state.z], factors[state.z])
    return replace(state, latent=latent, params=params)


def redraw_assignments(rng: np.random.Generator, model: Model, state: State, n_auxiliary: int) -> tuple[State, int]:
    """z, (C11); clusters left empty are dropped when their number is inferred."""
    if model.partition.n_components == 1:
        return state, 0
    sweep = Sweep(model, state, n_auxiliary)
    block = max(1, _BLOCK_CELLS // (state.n_components + n_auxiliary))
    for first in range(0, model.n_users, block):
        sweep.run(rng, slice(first, min(first + block, model.n_users)))
    return sweep.finish(), sweep.n_opened


class Sweep:
    """The assignments on their way from one state to the next."""

    def __init__(self, model: Model, state: State, n_auxiliary: int) -> None:
        self._model, self._state = model, state
        self._n_auxiliary = n_auxiliary if model.partition.n_components is None else 0
        self._vectors = model.vectors(state)
        self._z = state.z.copy()
        self._counts = state.counts
        self.n_opened = 0

    def run(self, rng: np.random.Generator, users: slice) -> None:
        """Redraw the assignments of a block of users."""
        partition, alpha, m = self._model.partition, self._state.alpha, self._n_auxiliary
        vectors = {name: x[users] for name, x in self._vectors.items()}
        z = self._z[users]
        uniforms = rng.random(len(z))
        auxiliary = self._draw_auxiliary(rng, len(z) * m)
        table = self._table(self._state.views, vectors)
        own = np.zeros((len(z), m))
        for name, view in self._model.views.items():
            own += view.log_likelihood_of_own(auxiliary[name], vectors[name]) if m else 0.0
        spread = partition.spread(alpha)
        new_weight = partition.new_weight(alpha) / max(m, 1)
        u = 0
        while u < len(z):
            u, chosen = assign(u, uniforms, table, own, z, self._counts, spread, new_weight)
            if chosen == -2:
                raise DegenerateError(_no_weight_message(u + users.start))
            if chosen >= 0:
                table = self._open(auxiliary, u * m + chosen, table, vectors)
                z[u] = len(self._counts) - 1
                u += 1

    def _draw_auxiliary(self, rng: np.random.Generator, n: int) -> dict[str, Components]:
        if n == 0:
            return {}
        views = self._model.views.items()
        return {name: view.draw_from_base(rng, self._state.views[name], n) for name, view in views}

    def _table(self, views: Mapping[str, GaussianState], vectors: dict[str, Array]) -> Array:
        tables = [view.log_likelihood(views[name].components, vectors[name]) for name, view in self._model.views.items()]
        return np.asarray(sum(tables[1:], tables[0]))

    def _open(self, auxiliary: dict[str, Components], index: int, table: Array, vectors: dict[str, Array]) -> Array:
        """Make an auxiliary component a cluster of one; returns the table with its column."""
        views, column = {}, np.zeros((len(table), 1))
        for name, view in self._model.views.items():
            new = Components(*(part[index : index + 1] for part in auxiliary[name]))
            views[name] = view.add(self._state.views[name], new)
            column += view.log_likelihood(new, vectors[name])
        self._state = replace(self._state, views=views)
        self._counts = np.append(self._counts, 1)
        self.n_opened += 1
        return np.hstack([table, column])

    def finish(self) -> State:
        """The new state, without empty clusters when their number is inferred."""
        if self._n_auxiliary == 0:
            return replace(self._state, z=self._z)
        kept = np.flatnonzero(self._counts)
        label = np.empty(len(self._counts), dtype=np.int64)
        label[kept] = np.arange(len(kept))
        views = {name: view.keep(self._state.views[name], kept) for name, view in self._model.views.items()}
        return replace(self._state, z=label[self._z], views=views)


def _collapse_message(view: str) -> str:
    return (
        f"The {view} view has collapsed: its clusters shrank onto single points, so the posterior has no finite shape. This "
        "happens when a column takes only a few distinct values, as a category or a rounded number does, or when one "
        "extreme value leaves no digits for the others. Leave such columns or values out, or add noise of the size of the "
        "rounding."
    )


def _no_weight_message(user: int) -> str:
    return (
        f"User {user} has probability 0 under every cluster: numbers ran out of range. Look for an extreme value in its row, "
        "and for columns that take only a few distinct values."
    )
