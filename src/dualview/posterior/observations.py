"""The observations of a posterior's fit, and its model with them, for its prior and for checks."""

import warnings
from typing import Any

import numpy as np
from pandas.util import hash_array
from scipy import sparse

from dualview.behaviors.base import Behavior, Likelihood
from dualview.behaviors.ids import Rows
from dualview.behaviors.panel import PerUser
from dualview.behaviors.several import SeveralBehaviors
from dualview.behaviors.shared_outcome import SharedOutcome
from dualview.errors import InputError, InputTypeError
from dualview.files.digests import digest
from dualview.model import Model
from dualview.posterior.draws.fit_facts import FitFacts
from dualview.units import GaussianPrior

_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no two values of a column become one


def observations_digest(behavior: Behavior) -> Any:
    """A digest of the observations in whatever order: whether two behaviors of the same users have
    the same; of several behaviors by name."""
    if isinstance(behavior, SeveralBehaviors):
        return {name: observations_digest(part) for name, part in behavior.parts.items()}
    found = {
        name: values
        for name, (dims, values) in behavior.constant_data().items()
        if dims[0] == "observation" and name not in ("owner", "participation")
    }
    found["outcome"] = behavior.observed
    if isinstance(behavior, PerUser):
        found["user"] = behavior.user
    rows = np.zeros(len(behavior.observed), dtype=np.uint64)
    for name in sorted(found):
        for column in np.atleast_2d(np.asarray(found[name]).T):
            rows = rows * _FACTOR + hash_array(np.ascontiguousarray(column))
    if isinstance(behavior, SharedOutcome):
        matrix = sparse.coo_array(behavior.participation)
        cells = hash_array(matrix.col) * _FACTOR + hash_array(matrix.data)
        users = np.zeros_like(rows)
        np.add.at(users, matrix.row, cells)
        rows = rows * _FACTOR + users
    return digest(np.sort(rows))


def fitted_model(post: FitFacts, behavior: Behavior | None) -> Model:
    """The model that was fitted, in working units; behavior has the observations of the fit, None
    where there were none."""
    if "features" in post.spec.units and post.features is None and post.cells is None:
        raise InputError(
            "This posterior does not hold the features of its fit, so its model cannot be "
            "rebuilt: fit again."
        )
    return post.spec.build(post.features, post.cells, _likelihood(post, behavior), post.n_users)


def _likelihood(post: FitFacts, behavior: Behavior | None) -> Likelihood | None:
    if "behavior" not in post.spec.units:
        return None
    assert behavior is not None
    units = post.spec.units["behavior"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit has said them
        _, likelihood = behavior.prepare(GaussianPrior(*units.prior))
    return likelihood


def observations_of(post: FitFacts, behavior: Behavior | None) -> Behavior | None:
    """The observations of the fit: those given, checked to be of the fit, or those that the
    posterior was made with."""
    if "behavior" not in post.spec.units:
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


def _of_the_users(post: FitFacts, fitted: Behavior, behavior: Any) -> Behavior:
    """Observations with the users in the order of the fit."""
    rows = Rows(post.n_users, fitted.users)
    if isinstance(fitted, SeveralBehaviors):
        return fitted.observations_of(behavior).matched(rows)
    return behavior if type(behavior) is not type(fitted) else behavior.matched(rows)


def _check_same(post: FitFacts, behavior: Behavior) -> None:
    fitted = post.behavior
    assert fitted is not None
    if type(behavior) is not type(fitted) or len(behavior) != post.n_users:
        raise InputError(
            f"behavior must be that of the fit, a {type(fitted).__name__} of {post.n_users} "
            "users; got a "
            f"{type(behavior).__name__} of {len(behavior)}."
        )
    own = post.observations
    n = post.n_observations if own is None else len(own.observed)
    if n is not None and n != len(behavior.observed):
        raise InputError(
            f"behavior must be that of the fit, with {n} observations; got "
            f"{len(behavior.observed)}."
        )
    known = (post.spec.behavior or {}).get("digest")
    if known is not None and known != observations_digest(behavior):
        raise InputError(
            "behavior must hold the observations of the fit; outcomes, users or what they depend "
            "on differ. For other observations: predict_outcome(behavior).nll(outcome)."
        )
