"""The methods that are compared, and the packages that some of them need.

Only dualview is told of rounding and order. The others get numbers as they stand, and ratings as
categories (IterativeImputer: as numbers). The same intervals score them all.
"""

from collections.abc import Callable

from benchmarks.cells import iterative, lace, marginals, mixture, stepmix
from benchmarks.cells.problem import Predictions, Problem

METHODS: dict[str, Callable[[Problem], Predictions]] = {
    "dualview": mixture.predictions,
    "Lace": lace.predictions,
    "StepMix": stepmix.predictions,
    "IterativeImputer": iterative.predictions,
    "marginals": marginals.predictions,
}
NEEDED = {"Lace": "lace", "StepMix": "stepmix"}
