"""How users who are new to an approximation enter it: q(z) of earlier users is kept, new ones are
given their expected scores.

responsibilities (K, U): q(z_u = k).
"""

import numpy as np
from numpy.typing import NDArray

from dualview.engines.variational.mean_field import MeanField, by_scores
from dualview.model import Model

Array = NDArray[np.float64]


def entered(model: Model, earlier: Array) -> Array:
    """q(z) of all users of a model, given that of the first of them, (K, U′).

    What components look like follows from the earlier users. New users are then given q(z) by what
    is observed of them, (V1); without observed views by the weights of components alone. What they
    did counts from the first step of an ascent.
    """
    n_before = earlier.shape[1]
    n_new = model.n_users - n_before
    if n_new == 0:
        return earlier
    if model.observed:
        known = MeanField.given(model.of_observed(slice(0, n_before)), earlier)
        table = known.scores_of(model.of_observed(slice(n_before, None)))
    else:
        table = np.repeat(
            model.partition.approximate(earlier.sum(axis=1)).log_weights[:, None], n_new, axis=1
        )
    return np.hstack([earlier, by_scores(table)[0]])


def new_users_apart(responsibilities: Array, n_before: int) -> int:
    """Users in clusters that are mostly of users who came after the first n_before."""
    labels = responsibilities.argmax(axis=0)
    sizes = np.bincount(labels, minlength=len(responsibilities))
    new = np.bincount(labels[n_before:], minlength=len(responsibilities))
    return int(sizes[2 * new > sizes].sum())
