"""Observations left out one at a time, with the latent vectors integrated out: what leave-one-out
scores weigh draws by.

Given clusters, parameters and the augmentation of its family, rows are normal and linear in vectors
with normal priors. So the location of a row given all other rows is normal, in closed form, (L1) in
docs/model.md, and the row's own distribution is the family's about that location, which its
predictive distribution integrates. The importance weights of a draw carry clusters, parameters and
the augmentation of the other rows, not the vectors that each row has pulled towards itself, nor the
means of their clusters.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack

from dualview.behaviors.families.base import Mixture, Outcome, Parts
from dualview.behaviors.families.gaussian import NormalOutcome
from dualview.behaviors.likelihoods.vector_blocks import Block, block_latent_prior
from dualview.behaviors.records import Array, LatentPrior, Params, own_params
from dualview.errors import DegenerateError, InputError
from dualview.units import Whitening

MOST_WHOLE = 500  # vectors and coefficients, or threads, up to which all are integrated out
_SEED = 25  # of augmentations
_LITTLE = 1e-3  # of what is known of a location, from all rows but one


class LeaveOneOut(ABC):
    """n observations, outcome (n,) or (n, 2), each given all others and one draw of clusters and
    parameters."""

    outcome: Array

    @abstractmethod
    def predictive(self, prior: LatentPrior, params: Params, latent: Array) -> Mixture:
        """The distribution of each observation given all others.

        It is under one draw's prior of latent vectors, parameters in the user's units and vectors
        (U, q). A behavior too large to integrate all vectors out integrates those that an
        observation depends on, given the others.
        """

    def joint(
        self,
        prior: LatentPrior,  # noqa: ARG002
        params: Params,  # noqa: ARG002
        rows: NDArray[np.intp],  # noqa: ARG002
    ) -> tuple[Array, Array] | None:
        """Precision matrix K (m, m) of some observations given all others under one draw, and K (y
        − E y) (m,).

        For outcomes that are jointly normal with vectors integrated out; None by default. Errors of
        scores need it.
        """
        return None

    def replicate(
        self,
        rng: np.random.Generator,  # noqa: ARG002
        prior: LatentPrior,  # noqa: ARG002
        params: Params,  # noqa: ARG002
    ) -> "tuple[LeaveOneOut, Array] | None":
        """The same with new outcomes under one draw, and the vectors (U, q) they came of; None by
        default.

        Checks compare standardized outcomes with those of replicates; without them, with
        independent normal numbers.
        """
        return None


class LeftOutPart(NamedTuple):
    """The observations of a behavior, or of one of several.

    The vectors of the behavior that an observation belongs to are integrated out, given those of
    the other behaviors, which are part of the draw and which the observation tells little about.
    """

    left_out: LeaveOneOut
    name: str | None = None
    block: Block | None = None

    def given(
        self, prior: LatentPrior, params: Params, latent: Array
    ) -> tuple[LatentPrior, Params, Array]:
        """The prior of the behavior's own vectors, its parameters, and its vectors."""
        if self.name is None or self.block is None:
            return prior, params, latent
        own = own_params(params, self.name)
        if not len(self.block.rest):
            return prior, own, latent
        if prior.precisions is None:
            raise InputError(
                "Observations of several behaviors can be left out only where users have a "
                "latent vector each."
            )
        return block_latent_prior(prior, self.block, latent), own, self.block.of(latent)


def one_draw(params: Params) -> Params:
    """Parameters of one draw as those of S = 1 draws."""
    return {name: np.asarray(value)[None] for name, value in params.items()}


def about(outcome: Outcome, locations: Array, variances: Array) -> Mixture:
    """The distribution of observations whose locations are N(location, variance), (n,) each."""

    def parts(cases: slice) -> Parts:
        sds = np.sqrt(variances[None, cases] + outcome.spread(cases) ** 2)
        return Parts(np.zeros((1, 1)), locations[None, cases], sds)

    return outcome.predictive(len(locations), 1, parts)


def left_out_locations(
    response: Array, residual: Array, spread: Array, precision: Any
) -> tuple[Array, Array]:
    """(L1): means and variances (n,) of the locations of rows given all other rows.

    residual, spread (n,): of responses from the posterior means of their locations, and the
    posterior variances of these, given all rows.
    """
    left = 1.0 - precision * spread
    if not np.all(left > 0.0):
        raise DegenerateError(
            "An observation cannot be left out: what the others say about it is lost to round-off."
        )
    return response - residual / left, spread / left


@dataclass(frozen=True)
class UsersLeaveOneOut(LeaveOneOut):
    """Rows of one user each: user (n,), design (n, q), outcome (n,) or (n, 2).

    outside(params): what acts on the locations outside the mixture, (1, n). family(params): the
    distribution of the rows given their locations in one draw.
    """

    user: NDArray[np.int64]
    design: Array
    outcome: Array
    outside: Callable[[Params], Array]
    family: Callable[[Params], Outcome]
    _rng: np.random.Generator = field(
        default_factory=lambda: np.random.default_rng(_SEED), compare=False
    )

    @cached_property
    def _squares(self) -> Array:
        return self.design[:, :, None] * self.design[:, None, :]

    def _expected(self, vectors: Array) -> Array:
        return np.asarray((self.design * vectors[self.user]).sum(axis=1))

    def _spread(self, covariances: Array, rows: Any = slice(None)) -> Array:
        """Variances of the locations of some rows by the covariances of their users' vectors."""
        design = self.design[rows]
        return np.asarray(np.einsum("nq,nqr,nr->n", design, covariances, design))

    def _says_most(self, prior: LatentPrior, squares: Array, share: Array) -> NDArray[np.bool_]:
        """Which rows say nearly all that is known of their locations, so that a difference from
        what all rows say would lose digits. share (n,): of what is known; it may be lost itself."""
        group = prior.z[self.user] if prior.precisions is None else self.user
        own = np.trace(squares, axis1=1, axis2=2)
        others = np.bincount(group, own)[group] - own
        known = prior.base_precision if prior.precisions is None else prior.precisions
        before = np.trace(known, axis1=-2, axis2=-1)
        others = others + (before if prior.precisions is None else before[prior.z[self.user]])
        return np.asarray(~((1.0 - share > _LITTLE) & (own * _LITTLE < others)), dtype=bool)

    def predictive(self, prior: LatentPrior, params: Params, latent: Array) -> Mixture:
        given = one_draw(params)
        family, known = self.family(given), self.outside(given)[0] + self._expected(prior.shift)
        location = known + self._expected(latent - prior.shift)
        residual, precision = family.augment(self._rng, self.outcome, location)
        response = location - known + residual
        told = (
            precision[:, None, None] * self._squares,
            (precision * response)[:, None] * self.design,
        )
        n_users, q = len(prior.z), self.design.shape[1]
        squares, linear = np.zeros((n_users, q, q)), np.zeros((n_users, q))
        np.add.at(squares, self.user, told[0])
        np.add.at(linear, self.user, told[1])
        vectors, covariances = _posterior_of_vectors(prior, squares, linear)
        spread = self._spread(covariances[self.user])
        lost = self._says_most(prior, told[0], precision * spread)
        locations, variances = left_out_locations(
            response, response - self._expected(vectors), np.where(lost, 0.0, spread), precision
        )
        if lost.any():
            near = np.isin(prior.z[self.user], prior.z[self.user[lost]])
            vectors, covariances = _vectors_given_others(
                prior, self.user[near], told[0][near], told[1][near]
            )
            locations[near] = np.where(
                lost[near], (self.design[near] * vectors).sum(axis=1), locations[near]
            )
            variances[near] = np.where(lost[near], self._spread(covariances, near), variances[near])
        return about(family, known + locations, variances)

    def replicate(
        self, rng: np.random.Generator, prior: LatentPrior, params: Params
    ) -> "tuple[UsersLeaveOneOut, Array] | None":
        vectors, given = drawn_vectors(rng, prior), one_draw(params)
        locations = self._expected(vectors) + self.outside(given)[0]
        outcome = self.family(given).draw_again(rng, self.outcome, locations)
        return replace(self, outcome=outcome), vectors


@dataclass(frozen=True)
class GivenVectors(UsersLeaveOneOut):
    """The same rows given the latent vectors, as a draw has them: for checks of a family without an
    augmentation.

    Standardized by its distribution at a draw from the posterior, an observation is what it is
    under the parameters and vectors that it came from.
    """

    def predictive(self, prior: LatentPrior, params: Params, latent: Array) -> Mixture:  # noqa: ARG002
        given = one_draw(params)
        locations = self.outside(given)[0] + self._expected(latent)
        return about(self.family(given), locations, np.zeros(len(locations)))

    def replicate(
        self,
        rng: np.random.Generator,
        prior: LatentPrior,
        params: Params,
    ) -> None:
        """They are independent normal numbers, whatever the vectors."""


def drawn_vectors(rng: np.random.Generator, prior: LatentPrior) -> Array:
    """Latent vectors (U, q) from their prior, means of clusters included."""

    def normal(precisions: Array) -> Array:
        factors = np.linalg.cholesky(precisions)
        noise = rng.standard_normal((len(precisions), precisions.shape[-1], 1))
        return np.asarray(np.linalg.solve(np.swapaxes(factors, -1, -2), noise)[..., 0])

    means = prior.base_mean + normal(np.tile(prior.base_precision, (len(prior.means), 1, 1)))
    vectors = means[prior.z] + prior.shift
    return vectors if prior.precisions is None else vectors + normal(prior.precisions[prior.z])


def _posterior_of_vectors(prior: LatentPrior, squares: Array, linear: Array) -> tuple[Array, Array]:
    """Mean (U, q) and covariance (U, q, q) of each user's vector without its shift, means of
    clusters integrated out.

    ln p(observations of u | f) = linear_u · f − fᵀ squares_u f/2 up to a constant. Users who do not
    share a vector depend on each other through their cluster's mean only: given it, f_u ~
    N(Λ_u⁻¹(S_k μ_k + linear_u), Λ_u⁻¹), Λ_u = S_k + squares_u.
    """
    z, (n_clusters, q) = prior.z, prior.means.shape
    matrices, pull = (
        np.tile(prior.base_precision, (n_clusters, 1, 1)),
        np.tile(prior.base_precision @ prior.base_mean, (n_clusters, 1)),
    )
    identity = np.eye(q)
    if prior.precisions is None:
        np.add.at(matrices, z, squares)
        np.add.at(pull, z, linear)
        covariances = np.linalg.solve(matrices, np.broadcast_to(identity, matrices.shape))
        return (covariances @ pull[..., None])[z, :, 0], np.asarray(covariances[z])
    own = prior.precisions[z]
    given = np.linalg.solve(own + squares, np.broadcast_to(identity, own.shape))  # Λ_u⁻¹
    follow = given @ own  # how f_u follows μ_k
    np.add.at(matrices, z, own - own @ follow)
    np.add.at(pull, z, (np.swapaxes(follow, -1, -2) @ linear[..., None])[..., 0])
    of_means = np.linalg.solve(matrices, np.broadcast_to(identity, matrices.shape))
    means = (of_means @ pull[..., None])[..., 0]
    vectors = (follow @ means[z][..., None])[..., 0] + (given @ linear[..., None])[..., 0]
    return vectors, np.asarray(given + follow @ of_means[z] @ np.swapaxes(follow, -1, -2))


def _vectors_given_others(
    prior: LatentPrior, user: NDArray[np.int64], squares: Array, linear: Array
) -> tuple[Array, Array]:
    """Mean (n, q) and covariance (n, q, q) of each row's user's vector without its shift, given all
    other rows, means of clusters integrated out.

    ln p(row i | f) = linear_i · f − fᵀ squares_i f/2 up to a constant. Users who do not share a
    vector depend on each other through their cluster's mean only: given it, f_u ~ N(Λ_u⁻¹(S_k μ_k +
    linear_u), Λ_u⁻¹), Λ_u = S_k + squares_u. No row is subtracted from a sum, so that one that says
    nearly all of what is known may be left out, too.
    """
    z, base = prior.z[user], prior.base_precision
    pull = base @ prior.base_mean
    if prior.precisions is None:
        matrices, right = base + sums_of_others(squares, z), pull + sums_of_others(linear, z)
        return _solved(matrices, right), np.asarray(np.linalg.inv(matrices))
    own, n_users = prior.precisions[z], len(prior.z)
    told, said = sums_of_others(squares, user), sums_of_others(linear, user)
    given = np.linalg.inv(own + told)  # Λ⁻¹
    follow = given @ own  # how f_u follows μ_k
    whole, heard = np.zeros((n_users, *squares.shape[1:])), np.zeros((n_users, linear.shape[1]))
    np.add.at(whole, user, squares)
    np.add.at(heard, user, linear)
    through = np.linalg.solve(prior.precisions[prior.z] + whole, prior.precisions[prior.z])
    through = np.asarray(np.swapaxes(through, -1, -2), dtype=float)
    matrices = (
        sums_of_others(np.asarray(through @ whole, dtype=float), prior.z)[user]
        + np.swapaxes(follow, -1, -2) @ told
    )
    right = sums_of_others(np.einsum("uqr,ur->uq", through, heard), prior.z)[user]
    right = pull + right + np.einsum("nrq,nr->nq", follow, said)
    means, alone = _solved(base + matrices, right), _solved(own + told, said)
    vectors = np.einsum("nqr,nr->nq", follow, means) + alone
    of_means = np.linalg.inv(base + matrices)
    return vectors, given + follow @ of_means @ np.swapaxes(follow, -1, -2)


def _solved(matrices: Array, right: Array) -> Array:
    """Solutions (n, q) of systems (n, q, q)."""
    return np.asarray(np.linalg.solve(matrices, right[..., None])[..., 0])


def sums_of_others(values: Array, group: NDArray[np.int64]) -> Array:
    """For each of values (n, …) the sum of the others in its group (n,), without a difference."""
    order = np.argsort(group, kind="stable")
    found = np.empty(values.shape)
    found[order] = _before(values[order], group[order])
    found[order[::-1]] += _before(values[order[::-1]], group[order[::-1]])
    return found


def _before(values: Array, group: NDArray[np.int64]) -> Array:
    """For each of values (n, …) the sum of those before it in its group, which lies together."""
    total, step = np.zeros(values.shape), 1
    same = group[1:] == group[:-1]
    total[1:][same] = values[:-1][same]
    longest = int(np.bincount(np.cumsum(np.append(0, ~same))[: len(group)]).max(initial=0))
    while step < longest:
        same = group[step:] == group[:-step]
        more = total.copy()
        more[step:][same] += total[:-step][same]
        total, step = more, 2 * step
    return total


@dataclass(frozen=True)
class ThreadsLeaveOneOut(LeaveOneOut):
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
    def _centered(self) -> Array:
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

    def predictive(self, prior: LatentPrior, params: Params, latent: Array) -> Mixture:
        plain, added = self._ungrouped(params)
        unknowns, noise_precision = self._unknowns(prior), float(params["noise_precision"])
        if self._is_small(unknowns):
            locations, variances = plain._whole(prior, unknowns, noise_precision)
        else:
            locations, variances = plain._local(prior, params, latent)
        return about(NormalOutcome([noise_precision**-0.5]), locations + added, variances)

    def _unknowns(self, prior: LatentPrior) -> "Unknowns":
        return Unknowns.of(prior, self.covariates.shape[1])

    def _is_small(self, unknowns: "Unknowns") -> bool:
        return min(len(unknowns.means), len(self.outcome)) <= MOST_WHOLE

    def _ungrouped(self, params: Params) -> "tuple[ThreadsLeaveOneOut, Array]":
        """The same without groups, with outcomes less their effects, and these; what follows from
        the design is kept."""
        if self.groups is None:
            return self, np.zeros(len(self.outcome))
        added, other = np.asarray(self.groups(one_draw(params))[0]), copy.copy(self)
        other.__dict__.pop("_centered", None)
        object.__setattr__(other, "outcome", self.outcome - added)
        object.__setattr__(other, "groups", None)
        return other, added

    def _shifted(self, prior: LatentPrior) -> Array:
        """Outcomes less what slopes at their prior's mean, and a link, explain."""
        return (
            self._centered - self.participation @ prior.shift[:, 0]
            if prior.shift.any()
            else self._centered
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
    ) -> tuple[Array, Array]:
        outcome, spread = self._shifted(prior), unknowns.spread
        if len(outcome) < len(unknowns.means):
            inverse, pull = self._by_threads(outcome, unknowns, noise_precision)
            own = np.diagonal(inverse)
            return self.outcome - pull / own, np.maximum(1.0 / own - 1.0 / noise_precision, 0.0)
        covariance, residual = self._by_unknowns(outcome, unknowns, noise_precision)
        by_users = self._design @ (spread @ covariance @ spread.T)
        products = (
            self._design.multiply(by_users)
            if sparse.issparse(self._design)
            else self._design * by_users
        )
        variances = np.asarray(products.sum(axis=1)).ravel()
        return left_out_locations(self.outcome, residual, variances, noise_precision)

    def joint(
        self, prior: LatentPrior, params: Params, rows: NDArray[np.intp]
    ) -> tuple[Array, Array] | None:
        if self.groups is not None:
            return self._ungrouped(params)[0].joint(prior, params, rows)
        unknowns, noise_precision = self._unknowns(prior), float(params["noise_precision"])
        if not self._is_small(unknowns):
            return None
        outcome = self._shifted(prior)
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
    ) -> "tuple[ThreadsLeaveOneOut, Array]":
        unknowns = self._unknowns(prior)
        if self._is_small(unknowns):
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
            slopes = params["coefficients"] if self.covariates.shape[1] else np.empty(0)
        expected = self.participation @ vectors + self.covariates @ slopes
        expected = expected + self._ungrouped(params)[1]
        noise = rng.standard_normal(len(expected)) / np.sqrt(float(params["noise_precision"]))
        return replace(self, outcome=np.asarray(expected + noise)), vectors[:, None]

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
        precision, away = _inverse(covariance), self._centered - self._dense @ means
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

    def _local(self, prior: LatentPrior, params: Params, latent: Array) -> tuple[Array, Array]:
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
        residual, variances = rest.copy(), np.zeros(len(rest))
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
            variances[threads] = (weights * solved[..., 1]).sum(axis=1)
        return left_out_locations(self.outcome, residual, variances, noise_precision)


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
