"""q of a nominal view: Π_j q(γ_j) Π_k q(θ_kj | γ_j), exact given q(z).

Given soft counts n_kjl = Σ_u q(z_u = k) 1[c_uj = l], θ_kj | γ_j ~ Dirichlet(γ_j g_j + n_kj) as in
(C17), and γ_j, of one dimension, is kept on a grid, with the density (C18). Both together are the
best that q can be. Missing cells are in no count.

Levels of all columns stand in one row of numbers: those of column j from starts[j] to starts[j +
1]. codes (U, J), counts and logs (K, Σ L_j). J columns, G points of a grid.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, logsumexp

from dualview.distributions import log_gammas
from dualview.numerics.kinds import register
from dualview.views.approximation import Approximation
from dualview.views.base import Array
from dualview.views.nominal.state import NominalState, unit_indicators
from dualview.views.soft_vectors import SoftVectors

Shares = tuple[tuple[float, ...], ...]
Starts = NDArray[np.int64]

_LOG_RATIOS = np.linspace(-7.0, 21.0, 169)  # ln(γ / L) of the grid


class NominalFactors(NamedTuple):
    """What scores and sums need of q: E ln θ of every component, (K, Σ L_j)."""

    logs: Array
    starts: Starts


class LevelCounts(NamedTuple):
    """Soft counts of levels, (K, Σ L_j)."""

    counts: Array


def expected_score(table, vectors: SoftVectors, factors: NominalFactors) -> None:
    """In place: table (K, U) gains E ln θ of the users' levels, (V1)."""
    for j, start in enumerate(factors.starts[:-1]):
        codes = vectors.means[:, j].astype(np.int64)
        seen = np.flatnonzero(codes >= 0)
        table[:, seen] += factors.logs[:, start + codes[seen]]


def absorb(responsibilities: Array, vectors: SoftVectors, factors: NominalFactors) -> LevelCounts:
    """Soft counts."""
    counts = np.empty(factors.logs.shape)
    for j, (start, end) in enumerate(zip(factors.starts[:-1], factors.starts[1:], strict=True)):
        codes = vectors.means[:, j].astype(np.int64)
        seen = np.flatnonzero(codes >= 0)
        for k, own in enumerate(responsibilities):
            counts[k, start:end] = np.bincount(codes[seen], own[seen], minlength=end - start)
    return LevelCounts(counts)


register(NominalFactors, expected_score=expected_score, absorb=absorb)


@dataclass(frozen=True)
class ColumnFactor:
    """q(γ) Π_k q(θ_k | γ) of one column: shares g (L,), counts (K, L), log_weights (G,): ln
    q(γ)."""

    shares: Array
    counts: Array
    log_weights: Array

    @classmethod
    def best(cls, shares: Array, counts: Array) -> "ColumnFactor":
        """The best for these counts."""
        found = cls(shares, counts, np.zeros(len(_LOG_RATIOS)))
        log_joint = found._log_prior + found._log_norms
        return replace(found, log_weights=log_joint - logsumexp(log_joint))

    @property
    def grid(self) -> Array:
        """Values of γ, (G,)."""
        return len(self.shares) * np.exp(_LOG_RATIOS)

    @property
    def _log_prior(self) -> Array:
        """ln of the prior probabilities of γ on the grid, (M15): L/γ ~ G(1, 1)."""
        log_density = -0.5 * _LOG_RATIOS - 0.5 * np.exp(-_LOG_RATIOS)
        return np.asarray(log_density - logsumexp(log_density))

    @cached_property
    def _log_norms(self) -> Array:
        """ln of the probability of the counts given γ, θ integrated out, (G,)."""
        prior, totals = self.grid[:, None, None] * self.shares, self.counts.sum(axis=1)
        of_levels = (gammaln(prior + self.counts) - gammaln(prior)).sum(axis=(1, 2))
        return np.asarray(
            of_levels
            + (gammaln(self.grid[:, None]) - gammaln(self.grid[:, None] + totals)).sum(axis=1)
        )

    @cached_property
    def _log_means(self) -> Array:
        """E ln θ given γ, (G, K, L)."""
        total = digamma(self.grid[:, None] + self.counts.sum(axis=1))
        return np.asarray(
            digamma(self.grid[:, None, None] * self.shares + self.counts) - total[..., None]
        )

    @cached_property
    def logs(self) -> Array:
        """E ln θ, (K, L)."""
        return np.asarray(np.einsum("g,gkl->kl", np.exp(self.log_weights), self._log_means))

    def bound(self) -> float:
        """E ln p(θ, γ) + the entropy of q(θ, γ)."""
        fitted = np.einsum("kl,gkl->g", self.counts, self._log_means)
        return float(
            np.exp(self.log_weights)
            @ (self._log_prior - self.log_weights + self._log_norms - fitted)
        )


@dataclass(frozen=True)
class NominalApproximation(Approximation):
    """q of the components and concentrations of a nominal view."""

    shares: Shares
    columns: tuple[ColumnFactor, ...]

    @classmethod
    def start(cls, shares: Shares, codes: Array, responsibilities: Array) -> "NominalApproximation":
        """The best q given q(z)."""
        starts = _starts(shares)
        nothing = NominalFactors(np.zeros((len(responsibilities), int(starts[-1]))), starts)
        return cls(shares, ()).with_shares(absorb(responsibilities, SoftVectors(codes), nothing))

    @cached_property
    def factors(self) -> NominalFactors:
        return NominalFactors(
            np.hstack([column.logs for column in self.columns]), _starts(self.shares)
        )

    @property
    def counts(self) -> Array:
        """The counts that q was made for, (K, Σ L_j)."""
        return np.hstack([column.counts for column in self.columns])

    def updates(self) -> tuple[str, ...]:
        return ("with_shares",)

    def with_shares(self, sums: LevelCounts) -> "NominalApproximation":
        """q(θ, γ), as (C17) and (C18)."""
        parts = np.split(sums.counts, _starts(self.shares)[1:-1], axis=1)
        columns = (
            ColumnFactor.best(np.array(own), counts)
            for own, counts in zip(self.shares, parts, strict=True)
        )
        return replace(self, columns=tuple(columns))

    def fitted(self, sums: LevelCounts) -> float:
        """Σ_u Σ_k q(z_u = k) E ln p(levels of u | k)."""
        return float(np.sum(sums.counts * self.factors.logs))

    def bound(self) -> float:
        return sum(column.bound() for column in self.columns)

    def draws(self, rng: np.random.Generator, n: int) -> list[NominalState]:
        """Components and concentrations from q."""
        logs, concentrations = [], []
        for column in self.columns:
            values = rng.choice(column.grid, n, p=np.exp(column.log_weights))
            logs.append(_log_dirichlets(rng, values[:, None, None] * column.shares + column.counts))
            concentrations.append(values)
        parts = zip(np.concatenate(logs, axis=2), np.column_stack(concentrations), strict=True)
        return [NominalState(own, values) for own, values in parts]

    def from_base(self, rng: np.random.Generator, state: NominalState, n: int) -> NominalState:
        """n components from (M15)."""
        parts = [
            _log_dirichlets(rng, np.tile(value * np.array(own), (n, 1)))
            for own, value in zip(self.shares, state.concentrations, strict=True)
        ]
        return NominalState(np.hstack(parts), state.concentrations)

    def log_ratio(self, state: NominalState) -> float:
        """ln p − ln q at a state, up to a constant: q is the prior times θ to the power of the
        counts."""
        return -float(np.sum(self.counts * state.logs))

    def scores(self, state: NominalState, vectors: SoftVectors) -> Array:
        """ln p(levels of u | k) at a state, (K, U)."""
        table = np.zeros((len(state.logs), len(vectors.means)))
        expected_score(table, vectors, NominalFactors(state.logs, _starts(self.shares)))
        return table

    def take(self, components: NDArray[np.intp]) -> "NominalApproximation":
        """q with these components; the concentrations as they stand until the next update."""
        columns = (
            ColumnFactor(one.shares, one.counts[components], one.log_weights)
            for one in self.columns
        )
        return replace(self, columns=tuple(columns))

    def whitened(self, component: int, x: Array) -> Array:  # noqa: ARG002
        """Levels as numbers, each column with a total variance of 1."""
        return unit_indicators(x, self.shares)

    def numbers(self) -> Array:
        """None: nothing here changes slowly."""
        return np.empty(0)

    def with_numbers(self, numbers: Array) -> "NominalApproximation":  # noqa: ARG002
        return self


def _starts(shares: Shares) -> Starts:
    return np.cumsum([0, *(len(own) for own in shares)], dtype=np.int64)


def _log_dirichlets(rng: np.random.Generator, parameters: Array) -> Any:
    """Logarithms of draws from Dirichlet distributions with parameters (…, L)."""
    logs = log_gammas(rng, parameters)
    return logs - logsumexp(logs, axis=-1, keepdims=True)
