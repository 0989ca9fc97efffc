"""Users who are made up: draws from the posterior predictive distribution of features."""

import numpy as np
import pandas as pd

from dualview.columns import Column
from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.cell_table import Array, CellTable
from dualview.posterior.prediction.new_users import NewUsers

_LARGEST_WHOLE = 2.0**53


def drawn_values(
    rng: np.random.Generator,
    candidates: Candidates,
    given: CellTable,
    n: int,
    *,
    independent: bool = True,
) -> list[Array]:
    """Values (n, columns) of each block on the view's scale, of n users of whom this is given.

    given: one row. independent: or with clusters spread evenly over their probability.
    """
    found = NewUsers(candidates, given.features, 1).clusters_of(rng, 0, n, independent=independent)
    blocks = list(zip(given.post.blocks, given.features.cells, strict=True))
    lacking = [block.unknown(x)[1] for block, x in blocks]
    values = []
    for (block, x), columns, drawn in zip(blocks, lacking, found.fill(rng, lacking), strict=True):
        own = np.repeat(block.values(x), n, axis=0)
        if drawn is not None:
            own[:, columns] = drawn[0]
        values.append(own)
    return values


def simulated(
    rng: np.random.Generator, candidates: Candidates, given: CellTable, n: int
) -> pd.DataFrame:
    """A table of n users in the user's units, with the columns of the fit."""
    values = drawn_values(rng, candidates, given, n)
    return pd.DataFrame(
        {
            name: _series(place.column, values[place.block][:, place.position])
            for name, place in given.places.items()
        }
    )


def _series(column: Column, x: Array) -> object:
    """Values as a table has them: levels as categories, counts as whole numbers."""
    found = column.series(x)
    if column.kind == "count" and np.abs(found).max(initial=0.0) < _LARGEST_WHOLE:
        return np.asarray(found).astype(np.int64)
    return found
