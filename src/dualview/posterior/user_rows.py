"""The users' clusters in draws, as rows of the table of components: by table, where each table of
features has its label."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dualview.posterior.posterior import Posterior

Array = NDArray[np.float64]
Rows = NDArray[np.int64]


def rows_by_table(post: "Posterior", draws: NDArray[np.intp]) -> Rows:
    """Rows (T, S, U) of the clusters that users look like in some draws (S,), in every table; T is
    1 with one label for all."""
    first = np.searchsorted(post.components["owner"], draws)[:, None]
    if "z_tables" not in post:
        return np.asarray((first + post.flat("z")[draws])[None])
    return np.asarray(first + np.moveaxis(post.flat("z_tables")[draws], 1, 0))


def components_of(post: "Posterior", rows: Rows) -> tuple[Array, Array]:
    """Means (S, U, D) and precision factors (S, U, D, D) of the features of users in rows (T, S,
    U), in working units."""
    means, factors = (post.components[f"features.{part}"] for part in ("means", "factors"))
    if len(rows) == 1:
        return means[rows[0]], factors[rows[0]]
    assert post.layout is not None
    shape = (*rows.shape[1:], means.shape[1])
    found, matrices = np.empty(shape), np.zeros((*shape, shape[2]))
    for table, own in post.layout.of_numbers:
        found[..., own] = means[rows[table]][..., own]
        matrices[..., own, own] = factors[rows[table]][..., own, own]
    return found, matrices


def rows_of_category(post: "Posterior", rows: Rows, column: int) -> Rows:
    """Those of the table that a nominal column belongs to, (S, U)."""
    if len(rows) == 1:
        return np.asarray(rows[0])
    assert post.layout is not None
    return np.asarray(
        rows[
            next(
                table for table, own in post.layout.of_categories if own.start <= column < own.stop
            )
        ]
    )
