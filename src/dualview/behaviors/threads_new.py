"""New threads beside those of a fit: matched with its users, and joined to its threads.

participation (T, U) dense or sparse; n_new more users come after those of the fit.
"""

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from dualview.behaviors.effects import Effects
from dualview.behaviors.ids import joined_ids, known_and_new, places_among
from dualview.errors import InputError

if TYPE_CHECKING:
    from dualview.behaviors.shared_outcome import SharedOutcome


def with_participation(
    threads: "SharedOutcome", participation: Any, users: list[str] | None
) -> "SharedOutcome":
    """The same threads with other columns of users, and their ids."""
    other = copy.copy(threads)
    other.__dict__.pop("noise_constant", None)
    other.participation, other.users, other._user_numbers = participation, users, None
    return other


def matched_threads(fit: "SharedOutcome", new: "SharedOutcome", n_new: int) -> "SharedOutcome":
    """New threads, checked to be of the users of the fit and n_new others, with the same
    covariates."""
    new = new.called_as(fit.users)
    if fit.users is not None and new.users is not None:
        everybody = known_and_new(new.users, fit.users, n_new, "threads")
        new = with_participation(
            new, placed_columns(new.participation, new.users, everybody), everybody
        )
    n_known, (n_threads, width) = len(fit), new.participation.shape
    alone = n_new > 0 and width == n_new
    if not alone and width != n_known + n_new:
        raise InputError(_width_message(new.participation.shape, n_known, n_new))
    if new.coefficient_names != fit.coefficient_names:
        raise InputError(
            "New threads must have the coefficients of the fit, "
            f"{fit.coefficient_names or 'none'}; got "
            f"{new.coefficient_names or 'none'}. Pass SharedOutcome(participation, "
            "covariates=..., intercept=...)."
        )
    participation = new.participation
    if alone:
        silent = sparse.csr_array((n_threads, n_known))
        participation = sparse.hstack([silent, sparse.csr_array(participation)], format="csr")
    threads = with_participation(new, participation, new.users)
    threads.effects = fit.effects.like(new.effects)
    return threads


def joined_threads(
    before: "SharedOutcome", new: "SharedOutcome | None", n_new: int, users: Sequence[str] | None
) -> "SharedOutcome":
    """Threads and new ones, which have outcomes too; covariates and options are those of the
    threads before, without groups.

    users: ids of everybody, where users have ids. new: None for none.
    """
    everybody = None if users is None else list(users)
    if new is None:
        nothing = sparse.csr_array((0, len(before) + n_new))
        return with_participation(before, _stacked(before.participation, nothing, n_new), everybody)
    new = new.called_as(users)
    if new.users is not None and users is not None:
        new = with_participation(new, placed_columns(new.participation, new.users, users), None)
    threads = matched_threads(before, new, n_new)
    both = with_participation(
        before, _stacked(before.participation, threads.participation, n_new), everybody
    )
    both.__dict__.pop("coefficient_design", None)
    both.outcome = np.concatenate([before.observed, threads.observed])
    if before.covariates is not None and threads.covariates is not None:
        both.covariates = np.vstack([before.covariates, threads.covariates])
    both.observation_ids = joined_ids(before.observation_ids, threads.observation_ids, "threads")
    both.effects = Effects.of(both.n_observations, None, None, None, None)
    return both


def placed_columns(participation: Any, users: Sequence[str], everybody: Sequence[str]) -> Any:
    """Participation with a column for each of everybody, by their ids; an error where a user is
    none of them."""
    places = np.array(places_among(users, everybody, "threads"), dtype=np.int64)
    given = sparse.coo_array(participation)
    return sparse.csr_array(
        (given.data, (given.row, places[given.col])), shape=(given.shape[0], len(everybody))
    )


def _stacked(before: Any, new: Any, n_new: int) -> Any:
    """Participation in threads of before and in new ones, in which n_new more users take part."""
    if sparse.issparse(before):
        silent = sparse.csr_array((before.shape[0], n_new))
        return sparse.csr_array(
            sparse.vstack([sparse.hstack([before, silent]), sparse.csr_array(new)])
        )
    wide = np.hstack([before, np.zeros((len(before), n_new))])
    return np.vstack([wide, new.toarray() if sparse.issparse(new) else new])


def _width_message(shape: tuple[int, ...], n_known: int, n_new: int) -> str:
    """What is wrong with new threads whose participation has this shape."""
    n_threads, width = shape
    message = (
        f"New threads must be of the {n_known} users of the fit, (n_threads, {n_known}); "
        f"got {shape}."
    )
    if n_new:
        message = (
            f"New threads must have a column for each of the {n_known} users of the fit and then "
            f"for each of the {n_new} new "
            f"users, {n_known + n_new} in all; got {width}."
        )
    elif n_threads == n_known:
        message += " It looks transposed: pass participation.T."
    elif width > n_known:
        message += (
            f" Columns {n_known} to {width - 1} are users unknown to the fit: give their "
            "features as X_new, or leave out the "
            "threads they take part in."
        )
    return message
