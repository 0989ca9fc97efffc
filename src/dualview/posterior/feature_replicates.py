"""Features as a tree shows them: observed, and replicates of them; ``features`` are numbers,
``codes`` those of levels.

Numbers are in the user's units and recorded as the fit's were: rounded, counted, as numbers of
levels. NaN stands for a missing number, −1 for a missing level. Replicates have neither, and are
not censored.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dualview.posterior.category_shares import nominal_view
from dualview.posterior.user_rows import components_of, rows_of_category

if TYPE_CHECKING:
    from dualview.posterior.posterior import Posterior

Array = NDArray[np.float64]
Variables = dict[str, tuple[tuple[str, ...], NDArray[Any]]]

DIMS = {"features": "feature", "codes": "category"}  # of what has replicates


def n_columns(post: "Posterior") -> int:
    """Of both kinds; 0 without features."""
    if post.features is not None:
        return int(post.features.shape[1])
    return 0 if post.cells is None else int(post.cells.low.shape[1] + post.cells.codes.shape[1])


def observed(post: "Posterior", users: NDArray[np.intp]) -> Variables:
    """What is known of some users; the ends of intervals besides."""
    if post.features is not None:
        return {"features": (("user", "feature"), post.features[users])}
    if post.cells is None or post.codebook is None:
        return {}
    cells = post.cells.take(users)
    parts = {
        "features": post.codebook.observed(cells),
        "low": cells.low,
        "high": cells.high,
        "codes": cells.codes,
    }
    return {name: (("user", DIMS.get(name, "feature")), part) for name, part in parts.items()}


def recorded(post: "Posterior", vectors: Array) -> Array:
    """Vectors of the Gaussian view (…, D), in working units, as they would be recorded."""
    found = post.units["features"].vectors(vectors)
    return found if post.codebook is None else post.codebook.values(found)


def given_clusters(
    rng: np.random.Generator, post: "Posterior", rows: NDArray[np.int64]
) -> dict[str, Array]:
    """Replicates for users in clusters that are rows (T, S, U) of the table of components, by
    variable."""
    table, found = post.components, {}
    if "features" in post.units:
        means, factors = components_of(post, rows)
        away = np.linalg.solve(
            np.swapaxes(factors, -1, -2), rng.standard_normal(means.shape)[..., None]
        )[..., 0]
        found["features"] = recorded(post, means + away)
    if "categories.log_shares" in table:
        starts, logs = nominal_view(post).starts, table["categories.log_shares"]
        columns = [
            _levels(rng, np.exp(logs[:, low:high]), rows_of_category(post, rows, column))
            for column, (low, high) in enumerate(pairwise(starts))
        ]
        found["codes"] = np.stack(columns, axis=-1)
    return found


def _levels(rng: np.random.Generator, shares: Array, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """A level for each of the rows of shares (R, L)."""
    cumulative = np.cumsum(shares, axis=1)[rows]
    return np.asarray(
        (rng.random(rows.shape)[..., None] * cumulative[..., -1:] >= cumulative).sum(axis=-1)
    )
