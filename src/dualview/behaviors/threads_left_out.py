"""Threads left out one at a time, with the coefficients of all users integrated out, or of those
who took part."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack

from dualview.behaviors.left_out import NormalLaws, normal_laws
from dualview.behaviors.records import Array, LatentPrior, LeftOut, Params
from dualview.errors import DegenerateError
from dualview.units import Whitening

MOST_WHOLE = 500  # vectors and coefficients, or threads, up to which all are integrated out


@dataclass(frozen=True)
class ThreadsLeftOut(LeftOut):
    """Threads with participation (T, U), covariates (T, C) and outcomes (T,).

    units: those in which slopes have the prior N(0, I). groups(params): effects of groups, (1, T),
    given which threads are left out; None for none. Up to ``MOST_WHOLE`` unknowns or threads, all
    vectors, means of clusters and slopes are integrated out; beyond, the vectors of a thread's
    participants, given everything else.
    """

    participation: Any
    covariates: Array
    outcome: Array
    units: Whitening
    groups: Callable[[Params], Array] | None = None

    @cached_property
    def _covariates(self) -> Array:
        """Of slopes with the prior N(0, I)."""
        return self.covariates @ self.units.factor

    @cached_property
    def _centred(self) -> Array:
        """Outcomes less what slopes at their prior's mean explain."""
        return np.asarray(self.outcome - self.covariates @ self.units.mean)

    @cached_property
    def _dense(self) -> Array:
        return (
            self.participation.toarray()
            if sparse.issparse(self.participation)
            else np.asarray(self.participation)
        )

    @cached_property
    def _design(self) -> Any:
        """Users and covariates beside each other, (T, U + C)."""
        if sparse.issparse(self.participation):
            return sparse.hstack(
                [self.participation, sparse.csr_array(self._covariates)], format="csr"
            )
        return np.hstack([self._dense, self._covariates])

    @cached_property
    def _gram(self) -> Array:
        gram = self._design.T @ self._design
        return gram.toarray() if sparse.issparse(gram) else np.asarray(gram)

    def laws(self, prior: LatentPrior, params: Params, latent: Array) -> NormalLaws:
        if self.groups is not None:
            added = self._by_groups(params)
            found = self._ungrouped(added).laws(prior, params, latent)
            return NormalLaws(found.locations + added, found.sds)
        unknowns = Unknowns.of(prior, self.covariates.shape[1])
        if min(len(unknowns.means), len(self.outcome)) <= MOST_WHOLE:
            return self._whole(prior, unknowns, float(params["noise_precision"]))
        return self._local(prior, params, latent)

    def _by_groups(self, params: Params) -> Array:
        assert self.groups is not None
        return np.asarray(
            self.groups({name: np.asarray(value)[None] for name, value in params.items()})[0]
        )

    def _ungrouped(self, added: Array) -> "ThreadsLeftOut":
        """The same with outcomes less these numbers and without groups; what follows from the
        design is kept."""
        other = copy.copy(self)
        other.__dict__.pop("_centred", None)
        object.__setattr__(other, "outcome", self.outcome - added)
        object.__setattr__(other, "groups", None)
        return other

    def _shifted(self, prior: LatentPrior) -> Array:
        """Outcomes less what slopes at their prior's mean, and a link, explain."""
        return (
            self._centred - self.participation @ prior.shift[:, 0]
            if prior.shift.any()
            else self._centred
        )

    def _by_threads(
        self, outcome: Array, unknowns: "Unknowns", noise_precision: float
    ) -> tuple[Array, Array]:
        """Precision matrix K of all outcomes, (T, T), and K (y − E y), (T,)."""
        means, precisions, spread = unknowns
        covariance = self._design @ ((spread / precisions) @ spread.T) @ self._design.T
        inverse = _inverse(covariance + np.eye(len(outcome)) / noise_precision)
        return inverse, np.asarray(inverse @ (outcome - self._design @ (spread @ means)))

    def _by_unknowns(
        self, outcome: Array, unknowns: "Unknowns", noise_precision: float
    ) -> tuple[Array, Array]:
        """Posterior covariance of the unknowns, (N, N), and residuals (T,) at their posterior
        mean."""
        means, precisions, spread = unknowns
        linear = precisions * means + noise_precision * (spread.T @ (self._design.T @ outcome))
        covariance = _inverse(
            np.diag(precisions) + noise_precision * (spread.T @ self._gram @ spread)
        )
        return covariance, np.asarray(outcome - self._design @ (spread @ (covariance @ linear)))

    def _whole(
        self, prior: LatentPrior, unknowns: "Unknowns", noise_precision: float
    ) -> NormalLaws:
        outcome, spread = self._shifted(prior), unknowns.spread
        if len(outcome) < len(unknowns.means):
            inverse, pull = self._by_threads(outcome, unknowns, noise_precision)
            return NormalLaws(
                self.outcome - pull / np.diagonal(inverse), 1.0 / np.sqrt(np.diagonal(inverse))
            )
        covariance, residual = self._by_unknowns(outcome, unknowns, noise_precision)
        by_users = self._design @ (spread @ covariance @ spread.T)
        products = (
            self._design.multiply(by_users)
            if sparse.issparse(self._design)
            else self._design * by_users
        )
        return normal_laws(
            self.outcome,
            residual,
            noise_precision * np.asarray(products.sum(axis=1)).ravel(),
            noise_precision,
        )

    def joint(
        self, prior: LatentPrior, params: Params, rows: NDArray[np.intp]
    ) -> tuple[Array, Array] | None:
        if self.groups is not None:
            return self._ungrouped(self._by_groups(params)).joint(prior, params, rows)
        unknowns, noise_precision = (
            Unknowns.of(prior, self.covariates.shape[1]),
            float(params["noise_precision"]),
        )
        outcome = self._shifted(prior)
        if min(len(unknowns.means), len(outcome)) > MOST_WHOLE:
            return None
        if len(outcome) < len(unknowns.means):
            inverse, pull = self._by_threads(outcome, unknowns, noise_precision)
            return inverse[np.ix_(rows, rows)], pull[rows]
        covariance, residual = self._by_unknowns(outcome, unknowns, noise_precision)
        design = self._design[rows] @ unknowns.spread
        precision = noise_precision * (
            np.eye(len(rows)) - noise_precision * (design @ covariance @ design.T)
        )
        return precision, noise_precision * residual[rows]

    def replicate(
        self, rng: np.random.Generator, prior: LatentPrior, params: Params
    ) -> "tuple[ThreadsLeftOut, Array, Array]":
        noise_precision, n_slopes = float(params["noise_precision"]), self.covariates.shape[1]
        unknowns = Unknowns.of(prior, n_slopes)
        if min(len(unknowns.means), len(self.outcome)) <= MOST_WHOLE:
            drawn = unknowns.means + rng.standard_normal(len(unknowns.means)) / np.sqrt(
                unknowns.precisions
            )
            spread = unknowns.spread @ drawn
            vectors, slopes = (
                spread[: len(prior.z)] + prior.shift[:, 0],
                self.units.vectors(spread[len(prior.z) :]),
            )
        else:
            assert prior.precisions is not None
            noise = rng.standard_normal(len(prior.z)) / np.sqrt(prior.precisions[prior.z, 0, 0])
            vectors = prior.means[prior.z, 0] + prior.shift[:, 0] + noise
            slopes = params["coefficients"] if n_slopes else np.empty(0)
        expected = self.participation @ vectors + self.covariates @ slopes
        if self.groups is not None:
            expected = expected + self._by_groups(params)
        outcome = np.asarray(
            expected + rng.standard_normal(len(expected)) / np.sqrt(noise_precision)
        )
        return replace(self, outcome=outcome), outcome, vectors[:, None]

    def evidence(self, prior: LatentPrior, noise_precision: float) -> tuple[Array, Array, Array]:
        """Of every user, what its threads say of its coefficient f given all other threads, in one
        draw; other users' are integrated out.

        ln p(threads of u | the others, f) = constant + linear f − precision f²/2, each (U,). With K
        = C⁻¹ of all outcomes without u's part, threads B of u, weights p on them and e = K(y − E
        y): precision pᵀ K_BB p, linear pᵀ e_B, constant (ln |K_BB/2π| − e_Bᵀ K_BB⁻¹ e_B)/2.
        """
        assert prior.precisions is not None
        means, variances = (
            prior.means[prior.z, 0] + prior.shift[:, 0],
            1.0 / prior.precisions[prior.z, 0, 0],
        )
        covariance = (
            self._dense * variances
        ) @ self._dense.T + self._covariates @ self._covariates.T
        covariance[np.diag_indices_from(covariance)] += 1.0 / noise_precision
        precision, away = _inverse(covariance), self._centred - self._dense @ means
        found = np.zeros((3, len(means)))
        for user, (mean, variance) in enumerate(zip(means, variances, strict=True)):
            own = np.flatnonzero(self._dense[:, user])
            if not len(own):
                continue
            weights = self._dense[own, user]
            column = precision[:, own] @ weights
            gain = variance / (1.0 - variance * (weights @ column[own]))
            block = precision[np.ix_(own, own)] + gain * np.outer(column[own], column[own])
            rest = away + mean * self._dense[:, user]
            pull = precision[own] @ rest + gain * column[own] * (column @ rest)
            factor = np.linalg.cholesky(block)
            half = np.linalg.solve(factor, pull)
            height = np.log(np.diagonal(factor)).sum() - 0.5 * len(own) * np.log(2 * np.pi)
            found[:, user] = height - 0.5 * half @ half, weights @ pull, weights @ block @ weights
        return found[0], found[1], found[2]

    @cached_property
    def _crowds(self) -> "list[_Crowd]":
        """Threads of as many participants together, with what their vectors share."""
        rows = sparse.csr_array(self.participation)
        gram = sparse.csr_array(rows.T @ rows)
        sizes = np.diff(rows.indptr)
        return [
            _Crowd.of(rows, gram, np.flatnonzero(sizes == size), int(size))
            for size in np.unique(sizes[sizes > 0])
        ]

    def _local(self, prior: LatentPrior, params: Params, latent: Array) -> NormalLaws:
        """Vectors of a thread's participants integrated out, given those of all others, the
        clusters' means and the slopes."""
        assert prior.precisions is not None  # clusters that share a vector are few unknowns
        noise_precision = float(params["noise_precision"])
        outcome = self.outcome
        if self.covariates.shape[1]:
            outcome = outcome - self.covariates @ params["coefficients"]
        vectors, all_means = latent[:, 0], prior.means[prior.z, 0] + prior.shift[:, 0]
        all_precisions = prior.precisions[prior.z, 0, 0]
        rest = outcome - self.participation @ vectors
        weighted = self.participation.T @ rest
        residual, leverage = rest.copy(), np.zeros(len(rest))
        for threads, members, weights, gram in self._crowds:
            precisions = all_precisions[members]
            matrices = noise_precision * gram
            matrices[:, np.arange(gram.shape[1]), np.arange(gram.shape[1])] += precisions
            own = vectors[members]
            linear = precisions * all_means[members] + noise_precision * (
                weighted[members] + (gram @ own[..., None])[..., 0]
            )
            solved = np.linalg.solve(matrices, np.stack([linear, weights], axis=-1))
            residual[threads] += (weights * (own - solved[..., 0])).sum(axis=1)
            leverage[threads] = noise_precision * (weights * solved[..., 1]).sum(axis=1)
        return normal_laws(self.outcome, residual, leverage, noise_precision)


class Unknowns(NamedTuple):
    """Independent normal numbers that are integrated out: means (N,), precisions (N,).

    spread (U + C, N): what each counts for in the users' coefficients and the slopes. They are the
    users' deviations, unless users share their cluster's coefficient, the clusters' means, and the
    slopes.
    """

    means: Array
    precisions: Array
    spread: Array

    @classmethod
    def of(cls, prior: LatentPrior, n_slopes: int) -> "Unknowns":
        n_users, n_clusters = len(prior.z), len(prior.means)
        own = 0 if prior.precisions is None else n_users
        spread = np.zeros((n_users + n_slopes, own + n_clusters + n_slopes))
        spread[np.arange(own), np.arange(own)] = 1.0
        spread[np.arange(n_users), own + prior.z] = 1.0
        spread[n_users + np.arange(n_slopes), own + n_clusters + np.arange(n_slopes)] = 1.0
        means = np.concatenate(
            [np.zeros(own), np.full(n_clusters, prior.base_mean[0]), np.zeros(n_slopes)]
        )
        deviations = np.empty(0) if prior.precisions is None else prior.precisions[prior.z, 0, 0]
        precisions = np.concatenate(
            [deviations, np.full(n_clusters, prior.base_precision[0, 0]), np.ones(n_slopes)]
        )
        return cls(means, precisions, spread)


class _Crowd(NamedTuple):
    """Threads (n,) of m participants: who they are (n, m), their weights (n, m), and Σ p pᵀ over
    all threads (n, m, m)."""

    threads: NDArray[np.intp]
    members: NDArray[np.int64]
    weights: Array
    gram: Array

    @classmethod
    def of(cls, rows: Any, gram: Any, threads: NDArray[np.intp], size: int) -> "_Crowd":
        places = rows.indptr[threads][:, None] + np.arange(size)
        members = rows.indices[places].astype(np.int64)
        pairs = gram[np.repeat(members, size, axis=1).ravel(), np.tile(members, (1, size)).ravel()]
        return cls(
            threads, members, rows.data[places], np.asarray(pairs).reshape(len(threads), size, size)
        )


def _inverse(matrix: Array) -> Array:
    """The inverse of a positive definite matrix, from its factor."""
    factor, failed = lapack.dpotrf(matrix, lower=1)
    inverse, failed_too = lapack.dpotri(factor, lower=1)
    if failed or failed_too:
        raise DegenerateError(
            "A precision matrix is numerically singular: these outcomes cannot be left out one "
            "by one."
        )
    return np.asarray(np.tril(inverse) + np.tril(inverse, -1).T)
