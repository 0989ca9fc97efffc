"""The Gaussian kind: its record, and its functions for the verbs of a view.

vectors (U, D), observed or latent; rows (D, U): the same where they are observed, for tables;
components of C columns; cores as in ``auxiliary``, without rows where means are not integrated out.
A view of no dimensions is no view: nothing is drawn for it, and it adds nothing. Functions that
give a view other components or another base return a record of its own class (``renewed``).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from dualview.numerics.compiling import compiled, in_place, standalone
from dualview.numerics.dispatch import verb
from dualview.numerics.draws import log_root
from dualview.numerics.hyperprior import Hyperprior
from dualview.numerics.kinds import register
from dualview.numerics.linalg import copy_into, put, scaled, trace
from dualview.numerics.messages import (
    along,
    along_gram,
    draw_latent,
    draw_one,
    evidence,
    evidence_of_one,
    ratio_of,
)
from dualview.views.base import Array, Base, Components
from dualview.views.gaussian import conditionals, density
from dualview.views.gaussian.auxiliary import draw_mean, marginalise_mean
from dualview.views.gaussian.conditionals import Sums, cluster_sums, draw_into, redraw_view
from dualview.views.gaussian.location import relocate_in_turn
from dualview.views.gaussian.scale import draw_latent_scale


class GaussianState(NamedTuple):
    """Everything a Gaussian view learns. cells (n,): values of the cells that are not exact, in the
    data's units. tail_dof: ν of (M19), ∞ without heavy tails."""

    components: Components
    base: Base
    cells: Array = np.empty(0)
    tail_dof: float = math.inf

    @property
    def component_parts(self) -> dict[str, Array]:
        return self.components._asdict()

    @property
    def base_parts(self) -> dict[str, Any]:
        parts = {f"base_{name}": value for name, value in self.base._asdict().items()}
        if self.tail_dof < math.inf:
            parts["tail_dof"] = self.tail_dof
        return parts | {"cells": self.cells} if len(self.cells) else parts

    @property
    def n_components(self) -> int:
        return len(self.components.means)


class Gaussian(NamedTuple):
    """A Gaussian view as the sampler sees it."""

    vectors: Array
    rows: Array
    components: Components
    cores: Array
    base: Base
    hyperprior: Hyperprior


@verb
def renewed(components, cores, base, view):
    """The view with other components, cores and base."""


@compiled
def gaussian_renewed(components, cores, base, view):
    return Gaussian(view.vectors, view.rows, components, cores, base, view.hyperprior)


@compiled
def sums(z, first, end, view):
    own = slice(first, end)
    return cluster_sums(view.vectors[own], z[own], view.components.means, np.empty(0))


@compiled
def redraw_from(rng, sums, view):
    components, base = view.components, view.base
    if view.vectors.shape[1] > 0:
        components, base = redraw_view(rng, sums, base, view.hyperprior)
    return renewed(components, view.cores, base, view)


@standalone(returns="view", work=6)
def redraw(rng, z, view):
    return redraw_from(rng, sums(z, 0, z.shape[0], view), view)


@compiled
def with_room(components, n):
    """Components with room for n more."""
    means, factors = components.means, components.factors
    n_wide, n_dims = means.shape[0] + n, means.shape[1]
    wide = Components(np.empty((n_wide, n_dims)), np.empty((n_wide, n_dims, n_dims)))
    copy_into(means, factors, wide.means, wide.factors)
    return wide


@compiled
def open_columns(rng, n_auxiliary, n_room, marginal, view):
    first, n_dims = view.components.means.shape
    components = with_room(view.components, n_auxiliary + n_room)
    draw_into(rng, first, first + n_auxiliary, components, view.base)
    n_cores = components.means.shape[0] if marginal and n_auxiliary > 0 and n_dims > 0 else 0
    cores = np.empty((n_cores, n_dims, n_dims))
    for c in range(first, first + n_auxiliary if n_cores > 0 else first):
        marginalise_mean(c, components, cores, view.base)
    return renewed(components, cores, view.base, view)


@in_place
def open_column(rng, column, view):
    draw_into(rng, column, column + 1, view.components, view.base)
    retire(column, view)


@in_place
def retire(column, view):
    if view.cores.shape[0] > 0:
        marginalise_mean(column, view.components, view.cores, view.base)


@in_place
def adopt(rng, u, column, view):
    if view.cores.shape[0] > 0:
        draw_mean(rng, column, view.vectors[u], view.components, view.cores, view.base)


@compiled
def grow(view):
    n_cores, n_dims = view.cores.shape[:2]
    cores = np.empty((2 * n_cores, n_dims, n_dims))
    for c in range(n_cores):
        for i in range(n_dims):
            for j in range(n_dims):
                cores[c, i, j] = view.cores[c, i, j]
    components = with_room(view.components, view.components.means.shape[0])
    return renewed(components, cores, view.base, view)


@compiled
def compact(counts, n_kept, view):
    means, factors = view.components.means, view.components.factors
    n_dims = means.shape[1]
    kept, k = Components(np.empty((n_kept, n_dims)), np.empty((n_kept, n_dims, n_dims))), 0
    for c in range(counts.shape[0]):
        if counts[c] > 0:
            for i in range(n_dims):
                kept.means[k, i] = means[c, i]
                for j in range(n_dims):
                    kept.factors[k, i, j] = factors[c, i, j]
            k += 1
    return renewed(kept, view.cores, view.base, view)


@compiled
def score(table, offset, first, end, column, view):
    rows, mean, factor = view.rows, view.components.means[column], view.components.factors[column]
    n_dims = rows.shape[0]
    constant = -0.5 * n_dims * math.log(2.0 * math.pi)
    for i in range(n_dims):
        constant += log_root(factor[i, i])
    for u in range(first, end):
        table[column, u - offset] += constant
    subtract_halves(table[column, first - offset : end - offset], first, mean, factor, rows)


@compiled
def subtract_halves(scores, first, mean, factor, rows):
    """In place on the scores (n,) of users from the first on: − (x_u − μ)ᵀ S (x_u − μ)/2."""
    n = scores.shape[0]
    projection = np.empty(n)
    for i in range(rows.shape[0]):
        for j in range(i + 1):
            weight, centre = factor[j, i], mean[j]
            if j == 0:
                for u in range(n):
                    projection[u] = weight * (rows[j, first + u] - centre)
            else:
                for u in range(n):
                    projection[u] += weight * (rows[j, first + u] - centre)
        for u in range(n):
            scores[u] -= 0.5 * projection[u] * projection[u]


@compiled
def degenerate(view):
    return conditionals.degenerate(view.base.covariance)


@standalone(returns=0.0, work=2)
def log_density(z, start, view):
    if view.vectors.shape[1] == 0:
        return start
    return start + density.log_view(view.vectors, z, view.components, view.base, view.hyperprior)


@in_place
def base_width(view):
    n_dims = view.vectors.shape[1]
    return n_dims + 2 * n_dims * n_dims + 1 if n_dims > 0 else 0


@in_place
def put_base(row, at, view):
    if view.vectors.shape[1] == 0:
        return at
    at = put(row, put(row, put(row, at, view.base.mean), view.base.precision), view.base.covariance)
    row[at] = view.base.dof
    return at + 1


@in_place
def component_width(view):
    n_dims = view.vectors.shape[1]
    return n_dims + n_dims * n_dims


@in_place
def put_component(row, at, column, view):
    return put(row, put(row, at, view.components.means[column]), view.components.factors[column])


@compiled
def rescale(rng, z, terms, view):
    """In place on latent vectors and residuals: the joint move of W_0, the S_k and the latent
    vectors; returns the new W_0."""
    latent, means, covariance = view.vectors, view.components.means, view.base.covariance
    if terms.gram.shape[0] > 0:
        slope, curvature = along_gram(z, means, latent, terms)
        effect = np.empty(0)
    else:
        slope, curvature, effect = along(z, means, latent, terms)
    prior_dof = float(latent.shape[1] - 1 + view.hyperprior.of_spreads)
    scale = draw_latent_scale(rng, slope, curvature, trace(covariance), latent.shape[1], prior_dof)
    root = math.sqrt(scale)
    for u in range(z.shape[0]):
        for i in range(latent.shape[1]):
            latent[u, i] = means[z[u], i] + root * (latent[u, i] - means[z[u], i])
    for t in range(effect.shape[0]):
        terms.residual[t] -= (root - 1.0) * effect[t]
    return scaled(covariance, scale)


@standalone(returns="view", work=6)
def rescale_and_shift(rng, z, terms, view):
    if view.vectors.shape[1] == 0:
        return view
    base = Base(view.base.mean, view.base.precision, rescale(rng, z, terms, view), view.base.dof)
    means = relocate_in_turn(rng, z, view.components.means, base, view.vectors, terms)
    components = Components(means, view.components.factors)
    return renewed(components, view.cores, base, view)


@compiled
def redraw_latent(rng, z, terms, view):  # noqa: ARG001
    return redraw(rng, z, view)


@in_place
def add_log_marginal(exponents, weights, message, view):
    means, factors = view.components.means, view.components.factors
    n_dims = view.vectors.shape[1]
    if n_dims == 1:
        at, gradient, curvature = message.at[0], message.gradient[0], message.curvature[0, 0]
        for c in range(weights.shape[0]):
            if weights[c] != 0.0:
                ratio = ratio_of(c, message)
                exponent, factor = evidence_of_one(
                    means[c, 0], factors[c, 0, 0], at, ratio * gradient, ratio * curvature
                )
                exponents[c] += exponent
                weights[c] *= factor
    elif n_dims > 1:
        for c in range(weights.shape[0]):
            if weights[c] != 0.0:
                exponents[c] += evidence(means[c], factors[c], ratio_of(c, message), message)


@in_place
def draw_user_latent(rng, u, column, message, view):
    latent, mean, factor = (
        view.vectors,
        view.components.means[column],
        view.components.factors[column],
    )
    ratio = ratio_of(column, message)
    if latent.shape[1] == 1:
        at, gradient, curvature = (
            message.at[0],
            ratio * message.gradient[0],
            ratio * message.curvature[0, 0],
        )
        latent[u, 0] = draw_one(rng, mean[0], factor[0, 0], at, gradient, curvature)
        message.step[0] = latent[u, 0] - at
    elif latent.shape[1] > 1:
        evidence(mean, factor, ratio, message)
        draw_latent(rng, mean, latent[u], message)


# Of every record that has the fields of a Gaussian view.
FUNCTIONS = {
    "redraw": redraw,
    "sums": sums,
    "redraw_from": redraw_from,
    "open_columns": open_columns,
    "open_column": open_column,
    "retire": retire,
    "adopt": adopt,
    "grow": grow,
    "compact": compact,
    "score": score,
    "degenerate": degenerate,
    "log_density": log_density,
    "base_width": base_width,
    "put_base": put_base,
    "component_width": component_width,
    "put_component": put_component,
}
register(Sums, join_sums=conditionals.join_sums)
register(
    Gaussian,
    renewed=gaussian_renewed,
    rescale_and_shift=rescale_and_shift,
    redraw_latent=redraw_latent,
    add_log_marginal=add_log_marginal,
    draw_user_latent=draw_user_latent,
    **FUNCTIONS,
)
