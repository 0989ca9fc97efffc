"""StepMix's predictions of hidden cells: ``pip install stepmix``."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.cells.marginals import with_marginals
from benchmarks.cells.problem import Predictions, Problem

Array = NDArray[np.float64]

N_CLASSES, N_STARTS = (1, 2, 3, 4, 5, 6, 8), 2
# of the mean log-likelihood of a user; by default 1e-10, which takes several times as long
TOLERANCE = 1e-6
MORE_VARIANCE = 1e-6  # in standard units, as scikit-learn's mixtures have


def predictions(problem: Problem) -> Predictions:
    """StepMix: a latent class model of independent normal and categorical columns, by maximum
    likelihood with missing cells.

    The number of classes has the least BIC. Rounded numbers and counts are drawn from all that
    round to them: otherwise classes of equal numbers have no variance and an infinite likelihood.
    It is a plug-in estimate, which may give a level no probability: the marginals get
    ``PLAIN_SHARE``.
    """
    table = np.hstack([problem.spread_numbers(), problem.known_levels])
    model = _fitted(problem, table)
    weights, params = model.predict_proba(table), model.get_parameters()["measurement"]
    means, variances = (
        params["continuous_nan"]["means"],
        params["continuous_nan"]["covariances"] + MORE_VARIANCE,
    )
    found: Predictions = {}
    for place, column in enumerate(problem.numbers):
        own = weights[problem.rows(column)]
        normals = (
            np.broadcast_to(part[:, place], own.shape) for part in (means, np.sqrt(variances))
        )
        found[column.name] = problem.normals(place, *normals, own)
    shares = params["categorical_nan"]["pis"].reshape(len(means), len(problem.levels), -1)
    for place, column in enumerate(problem.levels):
        own = weights[problem.rows(column)] @ shares[:, place, : len(column.levels)]
        found[column.name] = own / own.sum(axis=1, keepdims=True)
    return with_marginals(problem, found)


def _fitted(problem: Problem, table: Array) -> Any:
    """The model with the least BIC."""
    from stepmix.stepmix import StepMix  # type: ignore[import-not-found, import-untyped, unused-ignore]

    sizes = [len(column.levels) for column in problem.levels]
    measurement = {
        "continuous_nan": {"model": "continuous_nan", "n_columns": len(problem.numbers)},
        "categorical_nan": {
            "model": "categorical_nan",
            "n_columns": len(sizes),
            "max_n_outcomes": max(sizes),
            "total_outcomes": sum(sizes),
        },
    }
    fits = {}
    for n_classes in N_CLASSES:
        model = StepMix(
            n_classes,
            measurement=measurement,
            n_init=N_STARTS,
            abs_tol=TOLERANCE,
            random_state=problem.seed,
            progress_bar=0,
        )
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                fits[float(model.fit(table).bic(table))] = model
            except ValueError:  # the variance of a class has become 0
                continue
    return fits[min(bic for bic in fits if np.isfinite(bic))]
