"""Outcomes of new threads given draws of a fit, and what they say of users new to it.

S draws: latent (S, U), parameters in the user's units. New threads have been matched with the users
of the fit.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dualview.behaviors.records import Evidence, Forecast, Params
from dualview.checks import rows_text
from dualview.errors import InputError
from dualview.outcomes import NormalOutcome

if TYPE_CHECKING:
    from dualview.behaviors.shared_outcome import SharedOutcome

Array = NDArray[np.float64]


def forecast_of(threads: "SharedOutcome", latent: Array, params: Params) -> Forecast:
    """The distribution of outcomes; users beyond those of the draws are new."""
    n_known = latent.shape[1]
    known = threads.participation[:, :n_known]

    def locations(cases: slice) -> Array:
        expected = np.asarray(known[cases] @ latent.T).T
        if threads.coefficient_names:
            expected = expected + params["coefficients"] @ threads.coefficient_design[cases].T
        if not threads.effects.none:
            expected = expected + threads.effects.locations(params, cases)
        return np.asarray(expected)

    unsure = (
        (lambda cases: threads.effects.variances(params, cases))
        if threads.effects.has_unseen
        else None
    )
    loads = sparse.csr_array(threads.participation[:, n_known:])
    outcome = NormalOutcome(1.0 / np.sqrt(params["noise_precision"]))
    return Forecast(threads.n_observations, locations, outcome, loads, unsure=unsure)


def evidence_of(threads: "SharedOutcome", latent: Array, params: Params) -> Evidence:
    """What outcomes say of each new user's coefficient, given everybody else's."""
    forecast = forecast_of(threads, latent, params)
    loads = forecast.loads
    crowded = np.diff(loads.indptr) > 1
    if crowded.any():
        raise InputError(
            f"Each thread may have one new user; {rows_text(crowded)} of behavior_new have more. "
            "Without a new fit their "
            "coefficients cannot be told apart: leave those threads out, or fit again with these "
            "users."
        )
    residual = threads.observed - forecast.known(slice(0, forecast.n))  # (S, n)
    if threads.effects.has_unseen:
        residual = residual - (
            threads.effects.drawn_locations(params) - threads.effects.locations(params)
        )
    precision = params["noise_precision"][:, None]
    squares = np.asarray(loads.multiply(loads).sum(axis=0))
    taking_part = np.asarray((loads != 0).astype(float).toarray())
    log_density = 0.5 * np.log(precision / (2 * np.pi)) - 0.5 * precision * residual**2
    linear, curvature = precision * (residual @ loads), precision * squares
    return Evidence(log_density @ taking_part, linear[..., None], curvature[..., None, None])
