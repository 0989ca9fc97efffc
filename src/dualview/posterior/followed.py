"""What latent vectors follow by a link: columns of numbers, less their means, then a column for
every level of the others."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dualview.units import Whitening
from dualview.views import level_indicators

if TYPE_CHECKING:
    from dualview.posterior.posterior import Posterior

Array = NDArray[np.float64]


def slope_units(units: Whitening | None, n_levels: int) -> Whitening:
    """Units of the columns that are followed, given those of the numbers among them."""
    nothing = Whitening(np.empty(0), np.empty((0, 0)), np.empty((0, 0)))
    return (nothing if units is None else units).with_others(n_levels)


def slopes_of(post: "Posterior") -> Array:
    """Γ of every draw in the user's units, (N, q, columns)."""
    slopes = post.flat("slopes")
    return slopes.reshape(len(slopes), -1, slopes.shape[-1])


def followed(post: "Posterior", vectors: Array | None, codes: NDArray[Any] | None) -> Array:
    """The columns of users (…, U, columns) from vectors (…, U, r) in working units and codes (U, J)
    of levels."""
    units, codebook = post.units.get("features"), post.codebook
    parts = [] if units is None or vectors is None else [vectors @ units.factor.T]
    if codebook is not None and codebook.nominal and codes is not None:
        levels = level_indicators(codes, [column.shares for column in codebook.nominal])
        shape = levels.shape if not parts else (*parts[0].shape[:-1], levels.shape[-1])
        parts.append(np.broadcast_to(levels, shape))
    return np.concatenate(parts, axis=-1)
