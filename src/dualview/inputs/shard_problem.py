"""The problem of data in shards: their units, their model, and who works on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import numpy as np
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from dualview.behaviors.likelihoods.restricted import Left, median_noise, spectrum_of
from dualview.behaviors.likelihoods.systems import solve
from dualview.chains.chains import is_configured
from dualview.checks import check_memory, check_range
from dualview.engines.variational.sharded.equations import (
    ShardedEquations,
    ThreadTotals,
    totals_of,
)
from dualview.engines.variational.sharded.model import ShardedModel
from dualview.engines.variational.sharded.users import ShardedUsers
from dualview.engines.variational.sharded.worker import Source, ThreadUnits
from dualview.engines.variational.sharded.workers import (
    DaskCluster,
    LocalProcesses,
    ThisProcess,
    Workers,
)
from dualview.errors import InputError
from dualview.inputs.data import Data
from dualview.inputs.features import check_room, warn_of_rank
from dualview.inputs.parameters import Parameters, check_n_clusters
from dualview.inputs.problem import Problem, describe_model
from dualview.numerics.parallel import n_cores
from dualview.shards import Shards
from dualview.units import GaussianPrior, Whitening, shrinkage_share

Array = NDArray[np.float64]

_RIDGE = 0.01  # as in SharedOutcome
_RIDGE_TOLERANCE = 1e-6
# Share of the sum of squares of outcomes, once their mean is taken out; less is rounding.
_LEAST_LEFT = 1e-12
_BYTES = 12  # of a user in a draw that is kept whole: cluster and coefficient


@contextmanager
def problem_of_shards(
    estimator: BaseEstimator, parameters: Parameters, shards: Shards
) -> Iterator[Problem]:
    """The problem, while its workers are there; sets the estimator's n_features_in_ and
    feature_names_in_."""
    _check(parameters, shards)
    names = shards.feature_names
    estimator.n_features_in_ = len(names)
    estimator.__dict__.pop("feature_names_in_", None)
    if names != [f"x{j}" for j in range(len(names))]:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    with workers_of(parameters.n_jobs) as workers:
        source = Source(uuid4().hex, str(shards.folder), shards.cache)
        yield build_shard_model(parameters, ShardedUsers(shards, workers, source))


def workers_of(n_jobs: int | None) -> Workers:
    """Who works: as joblib's context says, where there is one; else as many processes as n_jobs, or
    this one."""
    backend, default = get_active_backend()
    if type(backend).__name__ == "DaskDistributedBackend":
        return DaskCluster(backend.client)
    if n_jobs is None:
        n_jobs = default if is_configured() else 1
    n = n_cores() + 1 + n_jobs if n_jobs < 0 else n_jobs
    return LocalProcesses(n) if n > 1 else ThisProcess()


def _check(parameters: Parameters, shards: Shards) -> None:
    """Raise where something is asked for that fits to shards do not have."""
    parameters = parameters.given(None)
    engine = parameters.engine.word
    if engine != "variational":
        raise InputError(
            f'Shards are for engine="variational"; this estimator has engine="{engine}".'
        )
    for name in ("link", "pooling", "agreement", "columns"):
        if getattr(parameters, name) is not None:
            raise InputError(
                f"Fits to shards do not have {name} yet: leave it out, or fit in memory."
            )
    if parameters.tails is not None:
        raise InputError(
            "Fits to shards do not have clusters with heavy tails: their engine adds up normal "
            'vectors, without weights. Leave "student" out of feature_prior, or fit in memory.'
        )
    if isinstance(parameters.behavior_prior, str):
        raise InputError(
            f'behavior_prior="{parameters.behavior_prior}" is not for shards: give a '
            "GaussianPrior, or None."
        )
    check_n_clusters(parameters, shards.n_users)
    n_kept = parameters.n_kept
    check_room(len(shards.feature_names), n_kept)
    check_memory(
        float(_BYTES) * n_kept * shards.n_users,
        f"{n_kept:,} draws of {shards.n_users:,} users",
        'Keep fewer: n_draws and n_chains, or keep="summary" with a small n_whole.',
    )


def build_shard_model(parameters: Parameters, raw: ShardedUsers) -> Problem:
    """The model of shards."""
    shards = raw.shards
    units = {"features": _feature_units(parameters, raw)}
    threads, noise_variance = ThreadUnits(), None
    if shards.n_threads:
        totals = totals_of(raw)
        noise_variance = _noise_constant(raw, totals)
        given = parameters.behavior_prior
        prior = given if isinstance(given, GaussianPrior) else _latent_prior(raw, totals)
        prior.check_size(1, "behavior_prior")
        units["behavior"] = Whitening.of(prior)
        sd = float(np.sqrt(noise_variance))
        threads = ThreadUnits(float(units["behavior"].factor[0, 0]) / sd, float(prior.mean[0]), sd)
    spec = describe_model(parameters.given(None), units, _behavior_of(shards))
    model = ShardedModel.of(
        raw.in_units(units["features"], threads),
        units["features"].n_dims,
        spec.partition_prior,
        noise_variance,
        parameters.spread_prior,
    )
    ids = shards.ids()
    known = Data(None, shards.feature_names, None, range(shards.n_users) if ids is None else ids)
    return Problem(known, spec, model, known.coords() | {"coefficient": []})


def _feature_units(parameters: Parameters, raw: ShardedUsers) -> Whitening:
    names, prior = raw.shards.feature_names, parameters.feature_constants
    if isinstance(prior, GaussianPrior):
        prior.check_size(len(names), "feature_prior")
        return Whitening.of(prior)
    moments = raw.feature_moments()
    check_range(moments.largest, "X", names)
    looked_at = raw.observed["features"].means
    units = Whitening.of_moments(*moments, share=shrinkage_share(looked_at, prior))
    if units.n_dims == 0:
        raise InputError("All features of the shards are constant: there is nothing to cluster by.")
    warn_of_rank(raw.n_users, names, units)
    return units


def _outcome_variance(totals: ThreadTotals) -> float:
    n, variance = totals.outcome.n, float(totals.outcome.scatter[0, 0]) / (totals.outcome.n - 1)
    if not np.sqrt(variance) > 1e-14 * float(totals.outcome.largest[0]):
        raise InputError(
            f"The outcome is constant in all {n:,} threads of the shards: there is nothing to "
            "explain."
        )
    return variance


def _noise_constant(raw: ShardedUsers, totals: ThreadTotals) -> float:
    """σ_0² of (M9): the noise that the restricted likelihood of one cluster estimates, as in
    memory."""
    variance, outcome = _outcome_variance(totals), totals.outcome
    equations = ShardedEquations(raw, totals.weighted, totals.squares)
    # Pᵀ P 1: the totals of threads are P 1.
    of_all = equations.gram_times(np.ones((raw.n_users, 1)))[:, 0]
    square, product = float(of_all.sum()), float(totals.weighted.sum())
    sum_of_squares = float(outcome.scatter[0, 0]) + outcome.n * float(outcome.mean[0]) ** 2
    left = sum_of_squares - product**2 / square
    if outcome.n < 2 or not left > _LEAST_LEFT * sum_of_squares:
        return variance

    def gram_times(vectors: Array) -> Array:
        return equations.gram_times(vectors) - np.outer(of_all, of_all @ vectors) / square

    cross = totals.weighted - of_all * (product / square)
    return median_noise(
        spectrum_of(gram_times, cross, Left(outcome.n - 1, left, float(totals.squares.sum())))
    )


def _latent_prior(raw: ShardedUsers, totals: ThreadTotals) -> GaussianPrior:
    """Mean and variance of the ridge estimate, (M11)."""
    unit = float(f"{totals.weight / totals.outcome.n:.12g}") or 1.0
    penalty = _RIDGE * unit**2
    equations = ShardedEquations(raw, totals.weighted, totals.squares)
    right, start = totals.weighted, np.zeros(raw.n_users)
    estimate = solve(
        lambda f: equations.gram_times(f) + penalty * f,
        right,
        start,
        totals.squares + penalty,
        _RIDGE_TOLERANCE,
    )
    variance = float(np.var(estimate, ddof=1))
    if not np.sqrt(variance) > _RIDGE_TOLERANCE * float(np.abs(estimate).max()):
        raise InputError(
            "The ridge estimates of the latent coefficients are all equal, so the behavior view "
            "has no scale: does participation differ between users? To fit anyway, give "
            "behavior_prior=GaussianPrior(m, variance)."
        )
    return GaussianPrior(float(estimate.mean()), variance)


def _behavior_of(shards: Shards) -> dict[str, Any] | None:
    """What predictions need to know of the threads, which are elsewhere."""
    if not shards.n_threads:
        return None
    told = {"kind": "SharedOutcome", "n_users": shards.n_users, "n_observations": shards.n_threads}
    return told | {"intercept": False, "covariates": []}
