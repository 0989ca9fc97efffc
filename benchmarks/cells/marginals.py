"""Each column by itself: what is known of a hidden cell without looking at the other columns."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.cells.problem import Predictions, Problem, equal_weights
from benchmarks.cells.scores import Normals, Prediction

Array = NDArray[np.float64]

PLAIN_SHARE = (
    0.01  # of the marginals in predictions that may otherwise give a cell no probability at all
)


def predictions(problem: Problem) -> Predictions:
    """Each column by itself: shares (n_l + 1/L)/(n + 1) of levels, and a kernel density of numbers.

    Kernels are normal, with Silverman's bandwidth 0.9 min(sd, IQR/1.34) n^(−1/5).
    """
    found: Predictions = {}
    for place, column in enumerate(problem.numbers):
        x = problem.standard_numbers[:, place]
        x = x[~np.isnan(x)]
        quartiles = np.quantile(x, [0.25, 0.75])
        width = min(1.0, float(quartiles[1] - quartiles[0]) / 1.34) or 1.0
        sds = np.full((1, len(x)), 0.9 * width * len(x) ** -0.2)
        found[column.name] = problem.normals(place, x[None], sds, equal_weights(len(x)))
    for place, column in enumerate(problem.levels):
        codes = problem.known_levels[:, place]
        n_levels = len(column.levels)
        counts = np.bincount(codes[~np.isnan(codes)].astype(int), minlength=n_levels)
        shares = (counts + 1.0 / n_levels) / (counts.sum() + 1.0)
        found[column.name] = np.tile(shares, (len(problem.rows(column)), 1))
    return found


def with_marginals(problem: Problem, found: Predictions) -> Predictions:
    """Mixtures of predictions with the marginals, which have a share of ``PLAIN_SHARE``."""
    return {name: _mixed(found[name], plain) for name, plain in predictions(problem).items()}


def _mixed(own: Prediction, plain: Prediction) -> Prediction:
    if not (isinstance(own, Normals) and isinstance(plain, Normals)):
        return np.asarray((1.0 - PLAIN_SHARE) * np.asarray(own) + PLAIN_SHARE * np.asarray(plain))
    own, plain = (
        own._replace(weights=(1.0 - PLAIN_SHARE) * own.weights),
        plain._replace(weights=PLAIN_SHARE * plain.weights),
    )
    return Normals(
        *(
            np.hstack([_rows(one, own), _rows(two, own)])
            for one, two in zip(own, plain, strict=True)
        )
    )


def _rows(part: Array, like: Normals) -> Array:
    return np.broadcast_to(part, (len(like.means), part.shape[1]))
