"""All checks of a fit, from its posterior and its observations."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.base import Behavior
from dualview.behaviors.families.categorical import CategoricalOutcome
from dualview.behaviors.families.logit import BinaryOutcome
from dualview.behaviors.several import SeveralBehaviors
from dualview.posterior.checks.model_checks import (
    Check,
    Checks,
    Context,
    Outcomes,
    dispersion_check,
    outcome_checks,
    prior_checks,
    size_checks,
    vector_checks,
    view_check,
)
from dualview.posterior.checks.residuals import outcomes_of, residuals_of
from dualview.posterior.observations import fitted_model
from dualview.posterior.posterior import Posterior

Array = NDArray[np.float64]


def checks_of(
    post: Posterior, behavior: Behavior | None, views: Sequence[Posterior] | None, seed: int
) -> Checks:
    """Every check that the fit has data for. views: fits to the features alone and to the behavior
    alone, where there are."""
    rng = np.random.default_rng(seed)
    residuals = residuals_of(post, behavior, seed)
    context = _context(post, behavior)
    found: list[Check] = outcome_checks(residuals, context) + vector_checks(rng, residuals, context)
    found += size_checks(rng, residuals, context) + dispersion_checks(post, behavior)
    if views is not None:
        found += view_check(views[0]["z"], views[1]["z"], post["z"])
    if not isinstance(behavior, SeveralBehaviors):
        found += prior_checks(post.to_arviz(["log_prior", "log_likelihood"], behavior=behavior))
    return Checks(found, residuals)


def dispersion_checks(post: Posterior, behavior: Behavior | None) -> list[Check]:
    """How much more counts vary than Poisson counts, where that is learned."""
    parts = behavior.parts if isinstance(behavior, SeveralBehaviors) else {None: behavior}
    found = []
    for name, part in parts.items():
        variable = "dispersion" if name is None else f"{name}.dispersion"
        if part is not None and variable in post:
            mean = float(part.observed.mean())
            found.append(dispersion_check(outcomes_of(name), mean, post.flat(variable)))
    return found


def _context(post: Posterior, behavior: Behavior | None) -> Context:
    partition, linked = fitted_model(post, behavior).partition, "slopes" in post
    if behavior is None:
        return Context({}, linked, partition)
    latent, params = (
        post.flat("latent")[:1],
        {name: post.flat(name)[:1] for name in behavior.param_names},
    )
    if isinstance(behavior, SeveralBehaviors):
        forecasts = behavior.forecasts(behavior, latent, params, 0)
        of_each = {
            outcomes_of(name): (behavior[name], forecast) for name, forecast in forecasts.items()
        }
    else:
        of_each = {outcomes_of(None): (behavior, behavior.forecast(behavior, latent, params, 0))}
    found = {}
    for name, (part, forecast) in of_each.items():
        participants = part.constant_data().get("n_participants", (None, None))[1]
        found[name] = Outcomes(
            participants,
            _shares(post, part),
            part.noise_owner,
            isinstance(forecast.outcome, BinaryOutcome | CategoricalOutcome),
            part.advice_on_spread,
        )
    return Context(found, linked, partition)


def _shares(post: Posterior, behavior: Behavior) -> Array | None:
    """What each cluster of the partition estimate counts for in each observation, (n, C)."""
    weights = behavior.user_weights()
    if weights is None:
        return None
    labels = post.partition()
    members = np.eye(int(labels.max()) + 1)[labels]
    shares = np.asarray(abs(weights) @ members)
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), np.finfo(float).tiny))
