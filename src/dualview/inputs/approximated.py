"""A fit by the variational engine: starts, q, and a posterior of draws from it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dualview.chains.schedule import Length
from dualview.engines.starts import Labels, Start
from dualview.engines.variational import VariationalEngine
from dualview.engines.variational.engine import Fitted, Progress
from dualview.inputs.modelled import Modelled
from dualview.posterior import Posterior
from dualview.posterior.approximated import ApproximationFacts, StartFacts

_STARTS_OF_CHAINS = 2  # of the approximation that chains start from


def approximated(estimator: Any, fit: Modelled, start: Start, seed: np.random.SeedSequence) -> Posterior:
    """The posterior of draws from q, with as many chains of them as there were starts."""
    *seeds, last = (np.random.default_rng(child) for child in seed.spawn(estimator.n_chains + 1))
    with threadpool_limits(1), _line(estimator.progress) as progress:
        fitted = VariationalEngine().fit(fit.model, _distinct([start(rng) for rng in seeds]), progress, estimator.max_time)
        every = max(1, estimator.n_draws // estimator.n_whole) if estimator.keep == "summary" else None
        records = [fitted.record(rng, int(estimator.n_draws), every) for rng in seeds]
        facts = _facts(fitted, fitted.pareto_k(last))
    length = Length(facts.starts[0].n_steps, 0, 1, "length")
    return fit.posterior(records, length).with_approximation(facts)


def _distinct(starts: list[Labels]) -> list[Labels]:
    """Partitions to start from, each once."""
    return [z for i, z in enumerate(starts) if not any(np.array_equal(z, other) for other in starts[:i])]


def _facts(fitted: Fitted, pareto_k: float | None) -> ApproximationFacts:
    starts = [
        StartFacts(
            found.q.evidence + fitted.constant,
            int(np.count_nonzero(found.q.counts >= 0.5)),
            found.n_steps,
            found.converged,
            agreement,
        )
        for found, agreement in zip(fitted.found, fitted.agreements, strict=True)
    ]
    return ApproximationFacts(starts, len(fitted.modes[0]), pareto_k)


@dataclass(frozen=True)
class VariationalStart:
    """Partitions drawn from q, for chains to start from."""

    fitted: Fitted

    @classmethod
    def of(cls, fit: Modelled, start: Start, seed: np.random.SeedSequence) -> "VariationalStart":
        """q of a model, from two starts; the same however many chains there are."""
        own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 2**31))
        seeds = [np.random.default_rng(child) for child in own.spawn(_STARTS_OF_CHAINS)]
        with threadpool_limits(1):
            return cls(VariationalEngine().fit(fit.model, _distinct([start(rng) for rng in seeds])))

    def __call__(self, rng: np.random.Generator) -> Labels:
        return self.fitted.states(rng, 1)[0].z


@contextmanager
def _line(progress: Any) -> Iterator[Progress | None]:
    """Who is told of steps: nobody, a function, or one line on standard error."""
    if not progress:
        yield None
    elif callable(progress):
        yield progress
    else:
        yield lambda number, n_steps, n_components: print(
            f"\rstart {number + 1}: {n_steps} steps, {n_components} components   ", end="", file=sys.stderr, flush=True
        )
        print(file=sys.stderr)
