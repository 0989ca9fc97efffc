"""Predictive distributions of outcomes that users new to the fit may have a part in."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dualview.behaviors.families.base import Mixture, Parts
from dualview.behaviors.records import Forecast
from dualview.errors import InputError
from dualview.posterior.prediction.new_users import NewUsers

Array = NDArray[np.float64]


def outcomes(
    forecast: Forecast, n_draws: int, new_users: NewUsers | None = None, seed: int = 0
) -> Mixture:
    """Predictive distribution of outcomes, some of which users new to the fit may have a part
    in."""
    outcome, even = forecast.outcome, np.full((n_draws, 1), -np.log(n_draws))
    if new_users is None:
        return outcome.predictive(
            forecast.n,
            n_draws,
            lambda cases: Parts(even, forecast.known(cases), np.sqrt(forecast.variances(cases))),
        )
    noise = None if forecast.noise is None else 1.0 / new_users.noise(forecast.noise)
    drawn: dict[
        tuple[int, ...], Array
    ] = {}  # latent vectors of new users, the same in all observations

    def parts(cases: slice) -> Parts:
        known = forecast.known(cases)
        locations, variances = (
            _full(n_draws, known),
            _full(n_draws, forecast.variances(cases), known.shape[1]),
        )
        log_weights = np.repeat(even, locations.shape[1], axis=1)
        for column, case in enumerate(range(*cases.indices(forecast.n))):
            members, loads = _by_member(forecast.loads[[case]], len(new_users))
            if not len(members):
                continue
            log_density, means, covariances, places = new_users.imputed(
                seed, tuple(members.tolist())
            )
            log_weights[:, column] = log_density - logsumexp(log_density)
            if outcome.is_joint:
                who = tuple(members.tolist())
                if who not in drawn:
                    drawn[who] = _drawn(np.random.default_rng([seed, *who]), means, covariances)
                means = drawn[who]
            else:
                variances[:, column] += np.einsum("mq,mnqr,mr->n", loads, covariances, loads)
            locations[:, column] += np.einsum("mq,mnq->n", loads, means)
            if noise is not None:
                variances[:, column] += noise[places[0]]
        return Parts(log_weights, locations, np.sqrt(variances))

    return outcome.predictive(forecast.n, n_draws, parts)


def outcomes_given(forecast: Forecast, n_draws: int, new_users: NewUsers) -> Mixture:
    """The same when some observations of the new users are known; an outcome may have one of
    them."""
    outcome, draw = forecast.outcome, new_users.draw
    noise = None if forecast.noise is None else 1.0 / new_users.noise(forecast.noise)
    first = np.append(True, draw[1:] != draw[:-1])
    alone = np.where(first, -np.log(n_draws), -np.inf)
    drawn: dict[int, Array] = {}  # latent vectors of new users, the same in all observations

    def parts(cases: slice) -> Parts:
        known = forecast.known(cases)
        locations = _full(n_draws, known)[draw]
        variances = _full(n_draws, forecast.variances(cases), known.shape[1])[draw]
        log_weights = np.repeat(alone[:, None], locations.shape[1], axis=1)
        for column, case in enumerate(range(*cases.indices(forecast.n))):
            members, loads = _by_member(forecast.loads[[case]], len(new_users))
            if len(members) > 1:
                raise InputError(
                    f"With behavior_new, each outcome may have one new user; case {case} has "
                    f"{len(members)}. Leave it out, or "
                    "fit again with these users."
                )
            for user, load in zip(members, loads, strict=True):
                given = new_users.given_one(int(user))
                log_weights[:, column] = given.log_weights[:, 0]
                means, covariances = given.means[:, 0], given.covariances[:, 0]
                if outcome.is_joint:
                    if user not in drawn:
                        drawn[user] = _drawn(
                            np.random.default_rng([0, user]),
                            np.broadcast_to(means, (len(draw), *means.shape[1:])),
                            covariances,
                        )
                    means = drawn[user]
                else:
                    variances[:, column] += np.einsum("q,nqr,r->n", load, covariances, load)
                locations[:, column] += means @ load
                if noise is not None:
                    variances[:, column] += noise
        return Parts(log_weights, locations, np.sqrt(variances))

    return outcome.of_draws(draw).predictive(forecast.n, len(draw), parts)


def _drawn(rng: np.random.Generator, means: Array, covariances: Array) -> Array:
    """Vectors with these means (M, N, q) and covariances (M, N, q, q), which may be singular."""
    values, vectors = np.linalg.eigh(covariances)
    scaled = np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(means.shape)
    return np.asarray(means + (vectors @ scaled[..., None])[..., 0])


def _full(n_draws: int, values: Array, n_cases: int | None = None) -> Array:
    """A copy with a row per draw and a column per case."""
    return np.array(
        np.broadcast_to(values, (n_draws, values.shape[1] if n_cases is None else n_cases))
    )


def _by_member(row: Any, n_new: int) -> tuple[NDArray[np.intp], Array]:
    """The new users that have a part in an outcome, and the load of each one's vector, (members,
    q)."""
    q = row.shape[1] // max(n_new, 1)
    members = np.unique(row.indices // max(q, 1))
    return members, np.asarray(row.toarray()).reshape(n_new, q)[members] if n_new else np.empty(
        (0, q)
    )
