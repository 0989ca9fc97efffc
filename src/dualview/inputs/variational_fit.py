"""A fit by the variational engine: starts, q, and a posterior of draws from it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dualview.chains.run_folder import RunFolder
from dualview.chains.schedule import Length
from dualview.engines.starts import Labels, Start
from dualview.engines.variational import VariationalEngine
from dualview.engines.variational.engine import Fitted, Progress
from dualview.engines.variational.sharded.model import ShardedModel
from dualview.errors import InputError
from dualview.inputs.data import Data
from dualview.inputs.parameters import Parameters
from dualview.inputs.problem import Problem
from dualview.posterior import Posterior
from dualview.posterior.draws.approximated import ApproximationFacts, StartFacts
from dualview.settings import Variational

Array = NDArray[np.float64]

_STARTS_OF_CHAINS = 2  # of the approximation that chains start from
_NOTICEABLE = 0.01  # of the draws that come from a mode
_MOST_NEW = 0.5  # of the users who may have entered since the last fit from scratch
_MOST_APART = 0.1  # of the users who may be in clusters of users who have


@dataclass(frozen=True)
class Stream:
    """What ``partial_fit`` continues from: the data so far, q(z) of each mode (K, U), and the users
    of the last whole fit."""

    data: Data
    modes: list[Array]
    n_fitted: int


def fit_variational(
    parameters: Parameters,
    fit: Problem,
    start: Start,
    folder: RunFolder | None,  # noqa: ARG001
    seed: np.random.SeedSequence,
) -> tuple[Posterior, Stream | None]:
    """The posterior of draws from q, with as many chains of them as there were starts, and what it
    can be continued from: nothing, where users are in shards."""
    *seeds, last = _generators(parameters, seed)
    with threadpool_limits(1), _progress_line(parameters.progress) as progress:
        starts = [start(rng) for rng in _start_generators(parameters, seeds, seed)]
        fitted = VariationalEngine().fit(
            fit.model, _distinct(starts), progress, parameters.max_time
        )
        facts = _facts_of(fitted, fitted.pareto_k(last))
        post = _posterior_of(parameters, fit, fitted, seeds, facts)
    if isinstance(fit.model, ShardedModel):
        return post, None
    return post, Stream(fit.data, _modes(fitted), fit.data.n_users)


def continue_variational(
    parameters: Parameters,
    fit: Problem,
    stream: Stream,
    news: NDArray[np.bool_],
    seed: np.random.SeedSequence,
) -> tuple[Posterior, Stream]:
    """The posterior of more data, from the approximation of those before; news (U,): users of whom
    there is something new."""
    most = fit.model.partition.n_components
    if most is not None and max(len(mode) for mode in stream.modes) > most:
        raise InputError(
            f"partial_fit continues with the clusters of the fit before; n_clusters={most} is "
            "fewer. Call fit."
        )
    *seeds, last = _generators(parameters, seed)
    with threadpool_limits(1), _progress_line(parameters.progress) as progress:
        fitted = VariationalEngine().resume(
            fit.model, stream.modes, news, progress, parameters.max_time
        )
        facts = _facts_of(fitted, fitted.pareto_k(last))._replace(
            continued=True, due=_due(fitted, stream.n_fitted)
        )
        post = _posterior_of(parameters, fit, fitted, seeds, facts)
    return post, Stream(fit.data, _modes(fitted), stream.n_fitted)


def _generators(parameters: Parameters, seed: np.random.SeedSequence) -> list[np.random.Generator]:
    """One for each chain of draws, and one for the comparison with the posterior."""
    return [np.random.default_rng(child) for child in seed.spawn(parameters.n_chains + 1)]


def _start_generators(
    parameters: Parameters, seeds: list[np.random.Generator], seed: np.random.SeedSequence
) -> list[np.random.Generator]:
    """One for each start: those of the chains of draws, and more where there are more starts."""
    assert isinstance(parameters.engine, Variational)
    n_starts = parameters.engine.n_starts or len(seeds)
    more = seed.spawn(max(0, n_starts - len(seeds)))
    return [*seeds[:n_starts], *(np.random.default_rng(child) for child in more)]


def _posterior_of(
    parameters: Parameters,
    fit: Problem,
    fitted: Fitted,
    seeds: list[np.random.Generator],
    facts: ApproximationFacts,
) -> Posterior:
    records = [fitted.record(rng, int(parameters.n_draws), parameters.every) for rng in seeds]
    length = Length(facts.starts[0].n_steps, 0, 1, "length")
    return fit.posterior(records, length, {"approximation": facts.to_json()})


def _modes(fitted: Fitted) -> list[Array]:
    """q(z) of each mode that has a noticeable share of the draws."""
    return [
        q.responsibilities for q, share in zip(*fitted.modes, strict=True) if share >= _NOTICEABLE
    ]


def _due(fitted: Fitted, n_fitted: int) -> str | None:
    """Why a fit from scratch is due, in words; None where it is not.

    All clusters were last looked for with the first n_fitted users. Since then they have changed
    one at a time.
    """
    n_users = fitted.best.model.n_users
    n_since = n_users - n_fitted
    n_apart = new_users_apart(fitted.best.responsibilities, n_fitted)
    if n_since > _MOST_NEW * n_users:
        return f"{n_since} of {n_users} users have entered since the last one"
    if n_apart > _MOST_APART * n_users:
        return (
            f"{n_apart} of {n_users} users are in clusters made up mostly of users who have "
            "entered since the last one"
        )
    return None


def new_users_apart(responsibilities: Array, n_before: int) -> int:
    """Users in clusters that are mostly of users who came after the first n_before."""
    labels = responsibilities.argmax(axis=0)
    sizes = np.bincount(labels, minlength=len(responsibilities))
    new = np.bincount(labels[n_before:], minlength=len(responsibilities))
    return int(sizes[2 * new > sizes].sum())


def _distinct(starts: list[Labels]) -> list[Labels]:
    """Partitions to start from, each once."""
    return [
        z for i, z in enumerate(starts) if not any(np.array_equal(z, other) for other in starts[:i])
    ]


def _facts_of(fitted: Fitted, pareto_k: float | None) -> ApproximationFacts:
    starts = [
        StartFacts(
            found.q.evidence + fitted.constant,
            int(np.count_nonzero(found.q.counts >= 0.5)),
            found.n_steps,
            found.converged,
            agreement,
            found.ended_early,
        )
        for found, agreement in zip(fitted.found, fitted.agreements, strict=True)
    ]
    return ApproximationFacts(starts, len(fitted.modes[0]), pareto_k)


@dataclass(frozen=True)
class VariationalStart:
    """Partitions drawn from q, for chains to start from."""

    fitted: Fitted

    @classmethod
    def of(cls, fit: Problem, start: Start, seed: np.random.SeedSequence) -> "VariationalStart":
        """q of a model, from two starts; the same however many chains there are."""
        own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 2**31))
        seeds = [np.random.default_rng(child) for child in own.spawn(_STARTS_OF_CHAINS)]
        # any partition will do
        model = replace(fit.model, pooled=False, heavy_tails=False)
        with threadpool_limits(1):
            return cls(VariationalEngine().fit(model, _distinct([start(rng) for rng in seeds])))

    def __call__(self, rng: np.random.Generator) -> Labels:
        return self.fitted.states(rng, 1)[0].z


@contextmanager
def _progress_line(progress: Any) -> Iterator[Progress | None]:
    """Who is told of steps: nobody, a function, or one line on standard error."""
    if not progress:
        yield None
    elif callable(progress):
        yield progress
    else:
        yield lambda number, n_steps, n_components: print(
            f"\rstart {number + 1}: {n_steps} steps, {n_components} components   ",
            end="",
            file=sys.stderr,
            flush=True,
        )
        print(file=sys.stderr)
