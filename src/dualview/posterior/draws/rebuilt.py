"""The model of a posterior, rebuilt from its constants and the data, for its prior and for
checks."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from dualview.behaviors import Behavior, Likelihood, SeveralBehaviors
from dualview.behaviors.ids import Rows
from dualview.behaviors.likelihoods.linked import LinkedLikelihood
from dualview.errors import InputError, InputTypeError
from dualview.model import Model, categories_of
from dualview.partitions.alpha import concentration, concentration_from_text
from dualview.partitions.choice import partition_prior
from dualview.posterior.prediction.user_features import slope_units
from dualview.units import GaussianPrior
from dualview.views.gaussian.intervals import intervals_of

if TYPE_CHECKING:
    from dualview.posterior.posterior import Posterior


def rebuilt_model(post: "Posterior", behavior: Behavior | None) -> Model:
    """The model that was fitted, in working units; behavior has the observations of the fit, None
    where there were none."""
    features, intervals, cells, codebook = None, None, post.cells, post.codebook
    if cells is not None and codebook is not None and "features" in post.units:
        intervals = intervals_of(cells, codebook, post.units["features"])
        features = np.ascontiguousarray(post.units["features"].to_working(intervals.start))
    elif "features" in post.units:
        if post.features is None:
            raise InputError(
                "This posterior does not hold the features of its fit, so its model cannot be "
                "rebuilt: fit again."
            )
        features = np.ascontiguousarray(post.units["features"].to_working(post.features))
    alpha = concentration(concentration_from_text(post.alpha_prior))
    partition = partition_prior(post.n_clusters, alpha, post.partition_process)
    others = (
        {} if cells is None or codebook is None else categories_of(cells, codebook, post.layout)
    )
    pooled, likelihood = post.pooling is not None, _likelihood(post, behavior)
    if "slopes" in post and likelihood is not None:
        design = Model.design(features, others)
        n_levels = design.shape[1] - (0 if features is None else features.shape[1])
        units = slope_units(post.units.get("features"), n_levels)
        likelihood = LinkedLikelihood.of(likelihood, design, post.units["behavior"], units)
    return Model(
        partition,
        features,
        likelihood,
        post.n_users,
        pooled=pooled,
        spread_prior=post.spread_prior,
        others=others,
        intervals=intervals,
        agreement=post.agreement_prior,
        layout=post.layout,
    )


def _likelihood(post: "Posterior", behavior: Behavior | None) -> Likelihood | None:
    if "behavior" not in post.units:
        return None
    assert behavior is not None
    units = post.units["behavior"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit has said them
        _, likelihood = behavior.prepare(GaussianPrior(*units.prior))
    return likelihood


def observations_of(post: "Posterior", behavior: Behavior | None) -> Behavior | None:
    """The observations of the fit: those given, checked to be of the fit, or those that the
    posterior was made with."""
    if "behavior" not in post.units:
        return None
    fitted = post.behavior
    if behavior is not None and fitted is not None:
        behavior = _of_the_users(post, fitted, behavior)
    if behavior is not None and not isinstance(behavior, Behavior):
        raise InputTypeError(
            f"behavior must be the observations of the fit, a {type(fitted).__name__} with "
            f"outcomes; got {behavior!r:.80}."
        )
    found = post.observations if behavior is None else behavior
    if found is None:
        raise InputError(
            "The observations of the fit are needed here, and a posterior that was read from a "
            "file does not hold them: pass "
            "them as behavior=."
        )
    if found.outcome is None:
        raise InputError(
            "The observations of the fit are needed here with their outcomes; this behavior "
            "has none."
        )
    if behavior is not None:
        _check_same(post, behavior)
    return found


def _of_the_users(post: "Posterior", fitted: Behavior, behavior: Any) -> Behavior:
    """Observations with the users in the order of the fit."""
    rows = Rows(post.n_users, fitted.users)
    if isinstance(fitted, SeveralBehaviors):
        return fitted.observations_of(behavior).matched(rows)
    return behavior if type(behavior) is not type(fitted) else behavior.matched(rows)


def _check_same(post: "Posterior", behavior: Behavior) -> None:
    fitted = post.behavior
    assert fitted is not None
    if type(behavior) is not type(fitted) or len(behavior) != post.n_users:
        raise InputError(
            f"behavior must be that of the fit, a {type(fitted).__name__} of {post.n_users} "
            "users; got a "
            f"{type(behavior).__name__} of {len(behavior)}."
        )
    n = post.n_observations
    if n is not None and n != len(behavior.observed):
        raise InputError(
            f"behavior must be that of the fit, with {n} observations; got "
            f"{len(behavior.observed)}."
        )
