"""Draws of effects outside the mixture: coefficients common to all users, and effects of the levels
of groups.

Observation i is normal with mean x_iᵀ f_{o(i)} + d_iᵀ e and precision w_i. o(i) is the owner of its
latent vector: a user, or a cluster whose users share one. Owners have f_o ~ N(μ_o, S_o⁻¹) and
effects e ~ N(0, diag(p)⁻¹). With the vectors integrated out,

    (C20) e | rest without f ~ N(Λ⁻¹ Dᵀ M (y − X μ), Λ⁻¹),   Λ = diag(p) + Dᵀ M D,   M = W − W X A⁻¹
    Xᵀ W,
          f_o | e, rest ~ N(A_o⁻¹ (S_o μ_o + Σ w_i x_i (y_i − d_iᵀ e)), A_o⁻¹),   A_o = S_o + Σ w_i
          x_i x_iᵀ.

A row d_i has few numbers that are not zero: ``columns`` and ``values`` (n, m) say where and which.
Up to ``MOST_DENSE`` effects Λ is factorised; beyond, it is applied owner by owner and never formed.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from dualview.behaviors.likelihoods.systems import solve
from dualview.behaviors.records import Array, Prior
from dualview.errors import DegenerateError
from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.linalg import factorise, loses_digits, solve_lower, solve_lower_transposed
from dualview.numerics.messages import Terms

MOST_DENSE = 400  # effects
_TOLERANCE = 1e-10  # of conjugate gradients: residual relative to the right-hand side


class SparseDesign(NamedTuple):
    """A matrix D (n, n_columns) whose rows have m numbers each: row i has values[i, j] in column
    columns[i, j]."""

    columns: NDArray[np.int64]
    values: Array
    n_columns: int


class Owners(NamedTuple):
    """Observations by the owner of their vector: those of o are rows[starts[o]:starts[o + 1]], with
    loads (n, q).

    means (O, q) and factors (O, q, q): the vectors' prior, precision S = factor factorᵀ. weights
    (n,): precisions of the observations, in their own order.
    """

    starts: NDArray[np.int64]
    rows: NDArray[Any]
    loads: Array
    means: Array
    factors: Array
    weights: Array


@compiled
def posterior_factors(owners):
    """Lower C with C Cᵀ = A_o for every owner, (O, q, q); NaN on a diagonal where A_o is not
    positive definite."""
    starts, rows, loads, weights = owners.starts, owners.rows, owners.loads, owners.weights
    n_dims = owners.means.shape[1]
    result = np.zeros((starts.shape[0] - 1, n_dims, n_dims))
    for o in range(result.shape[0]):
        matrix = result[o]
        for i in range(n_dims):
            for j in range(i + 1):
                for k in range(n_dims):
                    matrix[i, j] += owners.factors[o, i, k] * owners.factors[o, j, k]
        for place in range(starts[o], starts[o + 1]):
            weight = weights[rows[place]]
            for i in range(n_dims):
                for j in range(i + 1):
                    matrix[i, j] += weight * loads[place, i] * loads[place, j]
        factorise(matrix)
    return result


@compiled
def marginalise_vectors(owners, factors, values):
    """In place: values (n,) become M values."""
    starts, rows, loads, weights = owners.starts, owners.rows, owners.loads, owners.weights
    n_dims = owners.means.shape[1]
    pull = np.empty(n_dims)
    for o in range(starts.shape[0] - 1):
        for i in range(n_dims):
            pull[i] = 0.0
        for place in range(starts[o], starts[o + 1]):
            weighted = weights[rows[place]] * values[rows[place]]
            for i in range(n_dims):
                pull[i] += loads[place, i] * weighted
        solve_lower(factors[o], pull)
        solve_lower_transposed(factors[o], pull)
        for place in range(starts[o], starts[o + 1]):
            expected = 0.0
            for i in range(n_dims):
                expected += loads[place, i] * pull[i]
            values[rows[place]] = weights[rows[place]] * (values[rows[place]] - expected)


@in_place
def add_times(design, vector, result):
    """In place: D vector is added to result (n,)."""
    for i in range(result.shape[0]):
        for j in range(design.columns.shape[1]):
            result[i] += design.values[i, j] * vector[design.columns[i, j]]


@in_place
def add_transposed_times(design, values, result):
    """In place: Dᵀ values is added to result (n_columns,)."""
    for i in range(values.shape[0]):
        for j in range(design.columns.shape[1]):
            result[design.columns[i, j]] += design.values[i, j] * values[i]


@compiled
def marginal_gram(design, owners, factors):
    """Dᵀ M D, (n_columns, n_columns): owner by owner, over the columns that its observations
    have."""
    starts, rows, loads, weights = owners.starts, owners.rows, owners.loads, owners.weights
    columns, values = design.columns, design.values
    n_dims, n_entries, n = owners.means.shape[1], columns.shape[1], design.n_columns
    matrix, half = np.zeros((n, n)), np.empty((n, n_dims))
    slot, column = np.full(n, -1), np.empty(n, dtype=np.int64)
    for o in range(starts.shape[0] - 1):
        n_found = 0
        for place in range(starts[o], starts[o + 1]):
            row = rows[place]
            for a in range(n_entries):
                c, weighted = columns[row, a], weights[row] * values[row, a]
                if slot[c] < 0:
                    slot[c], column[n_found] = n_found, c
                    half[n_found] = 0.0
                    n_found += 1
                for i in range(n_dims):
                    half[slot[c], i] += weighted * loads[place, i]
                for b in range(n_entries):
                    matrix[c, columns[row, b]] += weighted * values[row, b]
        for a in range(n_found):
            solve_lower(factors[o], half[a])
            slot[column[a]] = -1
        for a in range(n_found):
            for b in range(n_found):
                for i in range(n_dims):
                    matrix[column[a], column[b]] -= half[a, i] * half[b, i]
    return matrix


@compiled
def draw_vectors(owners, factors, observed, noise):
    """f_o of every owner, (O, q), from observations less effects (n,) and standard normal noise (O,
    q)."""
    starts, rows, loads, weights = owners.starts, owners.rows, owners.loads, owners.weights
    n_dims = owners.means.shape[1]
    result, towards = np.empty((starts.shape[0] - 1, n_dims)), np.empty(n_dims)
    for o in range(result.shape[0]):
        drawn, prior = result[o], owners.factors[o]
        for i in range(n_dims):
            drawn[i] = towards[i] = 0.0
            for j in range(n_dims):
                towards[i] += prior[j, i] * owners.means[o, j]
        for i in range(n_dims):
            for j in range(n_dims):
                drawn[i] += prior[i, j] * towards[j]
        for place in range(starts[o], starts[o + 1]):
            weighted = weights[rows[place]] * observed[rows[place]]
            for i in range(n_dims):
                drawn[i] += loads[place, i] * weighted
        solve_lower(factors[o], drawn)
        for i in range(n_dims):
            drawn[i] += noise[o, i]
        solve_lower_transposed(factors[o], drawn)
    return result


@compiled
def expected_of(owners, vectors):
    """x_iᵀ f_{o(i)} of every observation, (n,)."""
    result = np.empty(owners.weights.shape[0])
    for o in range(owners.starts.shape[0] - 1):
        for place in range(owners.starts[o], owners.starts[o + 1]):
            total = 0.0
            for i in range(vectors.shape[1]):
                total += owners.loads[place, i] * vectors[o, i]
            result[owners.rows[place]] = total
    return result


def times(design: SparseDesign, vector: Array) -> Array:
    """D vector, (n,)."""
    result = np.zeros(len(design.columns))
    add_times(design, vector, result)
    return result


def transposed_times(design: SparseDesign, values: Array) -> Array:
    """Dᵀ values, (n_columns,)."""
    result = np.zeros(design.n_columns)
    add_transposed_times(design, values, result)
    return result


def owners_of(terms: Terms, prior: Prior) -> Owners:
    """The owners of vectors: users, or clusters whose users share one."""
    n = len(terms.residual)
    weights = terms.precision if len(terms.precision) == n else np.full(n, terms.precision[0])
    if not prior.pooled:
        return Owners(
            terms.starts,
            terms.rows,
            terms.loads,
            prior.means[prior.z],
            prior.factors[prior.z],
            weights,
        )
    cluster = np.repeat(prior.z, np.diff(terms.starts))
    order = np.argsort(cluster, kind="stable")
    starts = np.searchsorted(cluster[order], np.arange(len(prior.means) + 1)).astype(np.int64)
    return Owners(
        starts,
        terms.rows[order],
        np.ascontiguousarray(terms.loads[order]),
        prior.means,
        prior.factors,
        weights,
    )


class EffectsDraw(NamedTuple):
    """What a draw of effects is made from: D, the precisions p (n_columns,) of their prior, and the
    owners of vectors."""

    design: SparseDesign
    prior_precision: Array
    owners: Owners

    def draw(self, rng: np.random.Generator, factors: Array, observed: Array) -> Array | None:
        """e | rest without f, (C20), from factors of A_o and observations less X μ (n,); None where
        digits are lost."""
        if self.design.n_columns > MOST_DENSE:
            return self._by_conjugate_gradients(rng, factors, observed)
        linear, noise = self._linear(factors, observed), rng.standard_normal(self.design.n_columns)
        precision = self.precision(factors)
        try:
            factor = np.linalg.cholesky(precision)
        except np.linalg.LinAlgError:
            return None
        if loses_digits(factor, np.diagonal(precision).copy()):
            return None
        half = solve_triangular(factor, linear, lower=True)
        return np.asarray(solve_triangular(factor, half + noise, lower=True, trans="T"))

    def precision(self, factors: Array) -> Array:
        """Λ, (n_columns, n_columns)."""
        return np.asarray(
            marginal_gram(self.design, self.owners, factors) + np.diag(self.prior_precision)
        )

    def _linear(self, factors: Array, observed: Array) -> Array:
        """Dᵀ M (y − X μ)."""
        values = observed.copy()
        marginalise_vectors(self.owners, factors, values)
        return transposed_times(self.design, values)

    def _by_conjugate_gradients(
        self, rng: np.random.Generator, factors: Array, observed: Array
    ) -> Array:
        """A draw from the joint prior of effects and observations, moved by the mean of effects
        given the difference."""
        owners, root = self.owners, np.sqrt(self.prior_precision)
        effects = rng.standard_normal(self.design.n_columns) / root
        noise = rng.standard_normal((*owners.means.shape, 1))
        vectors = np.linalg.solve(np.swapaxes(owners.factors, 1, 2), noise)[..., 0]
        simulated = expected_of(owners, vectors) + times(self.design, effects)
        simulated += rng.standard_normal(len(observed)) / np.sqrt(owners.weights)
        squares = transposed_times(
            self.design._replace(values=self.design.values**2), owners.weights
        )
        step = solve(
            lambda v: self.prior_precision * v + self._linear(factors, times(self.design, v)),
            self._linear(factors, observed - simulated),
            np.zeros(self.design.n_columns),
            self.prior_precision + squares,
            _TOLERANCE,
        )
        return np.asarray(effects + step)


class Drawn(NamedTuple):
    """Latent vectors (U, q) and effects (n_columns,)."""

    latent: Array
    effects: Array


def draw_with_vectors(
    rng: np.random.Generator,
    design: SparseDesign,
    prior_precision: Array,
    terms: Terms,
    prior: Prior,
    standing: Drawn,
) -> Drawn:
    """Effects with latent vectors integrated out, then the vectors, (C20); in place on the residual
    of the terms."""
    shift = np.zeros_like(standing.latent) if prior.shift is None else prior.shift
    owners = owners_of(terms, prior)
    by_user = (
        owners
        if not prior.pooled
        else owners_of(terms, prior._replace(z=np.zeros_like(prior.z), pooled=False))
    )
    observed = (
        terms.residual
        + expected_of(by_user, standing.latent - shift)
        + times(design, standing.effects)
    )
    factors = posterior_factors(owners)
    effects = EffectsDraw(design, prior_precision, owners).draw(
        rng, factors, observed - expected_of(owners, owners.means)
    )
    if (
        effects is None
    ):  # given the vectors instead; whether it is so depends on nothing that is drawn here
        known = owners._replace(loads=np.zeros_like(owners.loads))
        rest = terms.residual + times(design, standing.effects)
        effects = EffectsDraw(design, prior_precision, known).draw(
            rng, posterior_factors(known), rest
        )
    if effects is None:
        raise DegenerateError(
            "The equations for common and group effects are numerically singular. Look for "
            "columns of common that repeat each "
            "other or are extreme."
        )
    left = observed - times(design, effects)
    vectors = draw_vectors(owners, factors, left, rng.standard_normal(owners.means.shape))
    latent = vectors[prior.z] if prior.pooled else vectors
    if not np.isfinite(latent).all():
        raise DegenerateError(
            "A user's latent vector is numerically undetermined: its observations have extreme "
            "weights."
        )
    terms.residual[:] = left - expected_of(by_user, latent)
    return Drawn(latent + shift, effects)


def redraw_vectors(rng: np.random.Generator, terms: Terms, prior: Prior, latent: Array) -> Array:
    """All latent vectors given observations and clusters, (U, q), users having one each; in place
    on the residual."""
    owners = owners_of(terms, prior)
    observed = terms.residual + expected_of(owners, latent)
    vectors = draw_vectors(
        owners, posterior_factors(owners), observed, rng.standard_normal(latent.shape)
    )
    terms.residual[:] = observed - expected_of(owners, vectors)
    return np.asarray(vectors)
