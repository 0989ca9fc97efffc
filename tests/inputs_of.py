"""The problem that a fit gives its engine."""

from typing import Any

import dualview as dv
from dualview.inputs.data import checked_data
from dualview.inputs.parameters import Parameters
from dualview.inputs.problem import Problem, build_model


def problem_of(X: Any, y: Any, **parameters: Any) -> Problem:
    """The problem of a fit with these parameters."""
    model = dv.DualViewMixture(**parameters)
    return build_model(Parameters.of(model), checked_data(model, X, y))
