"""The nominal kind: its record, and its functions for the verbs of a view.

Column j has L_j levels. codes (J, U): every user's level, −1 where it is missing. Levels of all
columns stand in one row of numbers: those of column j from starts[j] to starts[j + 1]. logs (C, Σ
L_j): ln θ of every component, kept as logarithms because a Dirichlet law with small parameters has
draws below all numbers. An auxiliary component whose θ is integrated out holds ln g until a user
opens it. A view of no columns is no view: nothing is drawn for it, and it adds nothing.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.kinds import register
from dualview.numerics.linalg import put
from dualview.views.base import Array
from dualview.views.nominal.conditionals import (
    Counts,
    count_levels,
    draw_concentrations,
    draw_shares,
    join_counts,
    log_concentrations,
    log_shares,
)


class Nominal(NamedTuple):
    """Categories as the sampler sees them. shares (Σ L_j,): g. concentrations (J,): γ. marginal:
    auxiliary ones have no θ."""

    codes: NDArray[np.int64]
    starts: NDArray[np.int64]
    shares: Array
    logs: Array
    concentrations: Array
    marginal: bool


@compiled
def redraw_from(rng, sums, view):
    """In place, (C18) with θ integrated out, then (C17)."""
    draw_concentrations(rng, sums.levels, view.starts, view.shares, view.concentrations)
    for k in range(view.logs.shape[0]):
        draw_shares(
            rng, sums.levels[k], view.starts, view.shares, view.concentrations, view.logs[k]
        )
    return view


@compiled
def sums(z, first, end, view):
    return Counts(count_levels(z, first, end, view.codes, view.starts, view.logs.shape[0]))


@compiled
def redraw(rng, z, view):
    return redraw_from(rng, sums(z, np.int64(0), z.shape[0], view), view)


@compiled
def with_room(view, n, marginal):
    """The view with n more columns."""
    n_columns, n_levels = view.logs.shape
    logs = np.empty((n_columns + n, n_levels))
    for c in range(n_columns):
        for i in range(n_levels):
            logs[c, i] = view.logs[c, i]
    return Nominal(view.codes, view.starts, view.shares, logs, view.concentrations, marginal)


@compiled
def open_columns(rng, n_auxiliary, n_room, marginal, view):
    first = view.logs.shape[0]
    wide = with_room(view, n_auxiliary + n_room, marginal)
    for c in range(first, first + n_auxiliary):
        open_column(rng, c, wide)
    return wide


@compiled
def open_column(rng, column, view):
    if view.marginal:
        retire(column, view)
    else:
        draw_shares(
            rng,
            np.zeros(view.shares.shape[0]),
            view.starts,
            view.shares,
            view.concentrations,
            view.logs[column],
        )


@in_place
def retire(column, view):
    if view.marginal:
        for i in range(view.shares.shape[0]):
            view.logs[column, i] = math.log(view.shares[i])


@compiled
def adopt(rng, u, column, view):
    if view.marginal:
        counts = np.zeros(view.shares.shape[0])
        for j in range(view.codes.shape[0]):
            if view.codes[j, u] >= 0:
                counts[view.starts[j] + view.codes[j, u]] = 1.0
        draw_shares(rng, counts, view.starts, view.shares, view.concentrations, view.logs[column])


@compiled
def grow(view):
    return with_room(view, view.logs.shape[0], view.marginal)


@compiled
def compact(counts, n_kept, view):
    n_levels, k = view.shares.shape[0], 0
    logs = np.empty((n_kept, n_levels))
    for c in range(counts.shape[0]):
        if counts[c] > 0:
            for i in range(n_levels):
                logs[k, i] = view.logs[c, i]
            k += 1
    return Nominal(view.codes, view.starts, view.shares, logs, view.concentrations, view.marginal)


@in_place
def score(table, offset, first, end, column, view):
    for j in range(view.codes.shape[0]):
        start = view.starts[j]
        for u in range(first, end):
            code = view.codes[j, u]
            if code >= 0:
                table[column, u - offset] += view.logs[column, start + code]


@in_place
def log_density(z, start, view):
    total = start + log_concentrations(view.concentrations, view.starts)
    for k in range(view.logs.shape[0]):
        total += log_shares(view.logs[k], view.starts, view.shares, view.concentrations)
    for j in range(view.codes.shape[0]):
        for u in range(z.shape[0]):
            if view.codes[j, u] >= 0:
                total += view.logs[z[u], view.starts[j] + view.codes[j, u]]
    return total


@in_place
def base_width(view):
    return view.concentrations.shape[0]


@in_place
def put_base(row, at, view):
    return put(row, at, view.concentrations)


@in_place
def component_width(view):
    return view.shares.shape[0]


@in_place
def put_component(row, at, column, view):
    return put(row, at, view.logs[column])


register(Counts, join_sums=join_counts)
register(
    Nominal,
    redraw=redraw,
    sums=sums,
    redraw_from=redraw_from,
    open_columns=open_columns,
    open_column=open_column,
    retire=retire,
    adopt=adopt,
    grow=grow,
    compact=compact,
    score=score,
    log_density=log_density,
    base_width=base_width,
    put_base=put_base,
    component_width=component_width,
    put_component=put_component,
)
