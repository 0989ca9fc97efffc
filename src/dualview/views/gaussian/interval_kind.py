"""The Gaussian kind with cells that are known to an interval: its record, and what it does
otherwise than the Gaussian kind."""

import math
from typing import NamedTuple

from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.hyperprior import Hyperprior
from dualview.numerics.kinds import register
from dualview.views.base import Array, Base, Components
from dualview.views.gaussian import kind
from dualview.views.gaussian.cells import Cells, draw_cells, score_seen, take_out
from dualview.views.gaussian.splitting import split_start


class IntervalGaussian(NamedTuple):
    """A Gaussian view of a table as the sampler sees it: vectors and rows are complete, and change
    with the cells."""

    vectors: Array
    rows: Array
    components: Components
    cores: Array
    base: Base
    hyperprior: Hyperprior
    cells: Cells


@compiled
def renewed(components, cores, base, view):
    return IntervalGaussian(
        view.vectors, view.rows, components, cores, base, view.hyperprior, view.cells
    )


@compiled
def score(table, offset, first, end, column, view):
    n_missing, before = view.cells.n_missing, table[column, first - offset : end - offset].copy()
    kind.score(table, offset, first, end, column, view)
    for u in range(first, end):
        if n_missing[u] > 0:
            table[column, u - offset] = before[u - first]
    mean, factor = view.components.means[column], view.components.factors[column]
    scores = table[column, first - offset : end - offset]
    score_seen(scores, first, mean, factor, view.vectors, view.cells, math.inf)


@in_place
def complete(rng, u, column, view):
    if view.cells.starts[u + 1] > view.cells.starts[u]:
        mean, factor = view.components.means[column], view.components.factors[column]
        draw_cells(rng, u, mean, factor, view.cells, view.vectors, view.rows)


@in_place
def base_width(view):
    return kind.base_width(view) + view.cells.columns.shape[0]


@in_place
def put_base(row, at, view):
    return take_out(row, kind.put_base(row, at, view), view.cells)


register(
    IntervalGaussian,
    **kind.FUNCTIONS
    | {
        "renewed": renewed,
        "score": score,
        "complete": complete,
        "base_width": base_width,
        "put_base": put_base,
        "split_start": split_start,
    },
)
