"""Densities of cells of users in every draw, a sum over all clusters and a new one."""

import numpy as np

from dualview.posterior.posterior import Posterior
from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.cell_table import Array, CellTable
from dualview.posterior.prediction.new_users import NewUsers
from dualview.views.gaussian.block import MOST_CELLS


def log_density(candidates: Candidates, cells: CellTable) -> Array:
    """ln of the posterior predictive density of each user's cells in the user's units, (J,); cells
    that are missing are integrated out."""
    new = NewUsers(candidates, cells.features, len(cells))
    return np.asarray(new.log_density() - log_volume(cells.post))


def log_volume(post: Posterior) -> float:
    """ln of the volume in the user's units of a unit of the features' working units."""
    return post.spec.units["features"].log_volume if "features" in post.spec.units else 0.0


def log_by_draw(candidates: Candidates, cells: CellTable) -> Array:
    """ln p(cells of user j | draw) in the user's units, (J, N); of users who are equal only
    once."""
    once, alike = cells.different
    size, parts = max(1, MOST_CELLS // len(candidates)), []
    for first in range(0, len(once), size):
        x = cells.features[once[first : first + size]]
        log_rows = candidates.log_prior + candidates.log_features(x, len(x))
        parts.append(by_draw(candidates, log_rows))
    return np.asarray(np.concatenate(parts)[alike] - log_volume(cells.post))


def by_draw(candidates: Candidates, log_rows: Array) -> Array:
    """ln of the sum over the rows of each draw, (J, R) → (J, N)."""
    top = np.maximum.reduceat(log_rows, candidates.first, axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    sums = np.add.reduceat(np.exp(log_rows - top[:, candidates.draw]), candidates.first, axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(sums))
