"""Log densities of the top-level priors in every draw of a posterior, by name: what prior
sensitivity scales.

Priors are those of quantities that nothing else is above: the concentration, the noise, what the
components of a view share, coefficients outside the mixture, slopes of a link. Each is up to a
constant that depends on nothing learned.
"""

import numpy as np
from numpy.typing import NDArray

from dualview.model import Model
from dualview.partitions.agreement import LEARNED, Beta
from dualview.partitions.concentration import log_alpha_prior
from dualview.posterior.draws.fit_facts import FitFacts

Array = NDArray[np.float64]


_OF_LIKELIHOODS = (
    *("noise_precision", "typical_noise_precision", "degrees_of_freedom"),
    *("coefficients", "group_sd", "slopes", "slope_precision", "cut_points"),
    "dispersion",
)


def log_priors(post: FitFacts, model: Model) -> dict[str, Array]:
    """By name, each (S,) over the draws of all chains."""
    found: dict[str, Array] = {}
    if model.partition.has_alpha and model.partition.alpha_prior.learned:
        found["alpha"] = np.array(
            [log_alpha_prior(alpha, model.partition.alpha_prior) for alpha in post.flat("alpha")]
        )
    of_discount = model.partition.discount_prior
    if of_discount is not None and of_discount != LEARNED:
        found["discount"] = np.array([of_discount.log_density(d) for d in post.flat("discount")])
    for name, view in model.views.items():
        parts = [part for part in view.base_shapes if part != "cells"]
        base, n_draws = post.base(name, parts), post.n_chains * post.n_draws
        if parts:
            found[f"{name}.base"] = np.array(
                [view.log_base({part: base[part][i] for part in parts}) for i in range(n_draws)]
            )
    if model.likelihood is not None:
        reported = {
            name: post.flat(name) for name in post.names if name.split(".")[-1] in _OF_LIKELIHOODS
        }
        found |= model.likelihood.log_priors(reported, post.flat_acts)
    # LEARNED is flat: it adds nothing.
    learned = [
        (t, own)
        for t, own in enumerate(model.agreements)
        if isinstance(own, Beta) and own != LEARNED
    ]
    if learned:
        shares = post.flat("agreement").reshape(-1, len(model.agreements))
        found["agreement"] = np.array(
            [sum(own.log_density(row[t]) for t, own in learned) for row in shares]
        )
    return found
