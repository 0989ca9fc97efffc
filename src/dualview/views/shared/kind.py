"""The kind of view in which a cluster has one vector, which its users share: its record, and its
functions for the verbs.

vectors (U, q): those of the users' clusters; means (C, q): the vectors f_k of all columns; mean and
precision: μ_0 and R_0.
"""

from typing import NamedTuple

import numpy as np

from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.hyperprior import Hyperprior
from dualview.numerics.kinds import register
from dualview.numerics.messages import gain, ratio_of
from dualview.views.base import Array
from dualview.views.gaussian.conditionals import draw_location, draw_means
from dualview.views.shared import conditionals


class SharedVector(NamedTuple):
    """A view of shared vectors as the sampler sees it."""

    vectors: Array
    means: Array
    mean: Array
    precision: Array
    hyperprior: Hyperprior


@compiled
def with_means(means, view):
    """The view with other columns."""
    return SharedVector(view.vectors, means, view.mean, view.precision, view.hyperprior)


@compiled
def with_room(means, n):
    """Vectors with room for n more."""
    wide = np.empty((means.shape[0] + n, means.shape[1]))
    for k in range(means.shape[0]):
        for i in range(means.shape[1]):
            wide[k, i] = means[k, i]
    return wide


@compiled
def open_columns(rng, n_auxiliary, n_room, marginal, view):  # noqa: ARG001
    first, means = view.means.shape[0], with_room(view.means, n_auxiliary + n_room)
    draw_means(rng, first, first + n_auxiliary, means, view.mean, view.precision)
    return with_means(means, view)


@in_place
def open_column(rng, column, view):
    draw_means(rng, column, column + 1, view.means, view.mean, view.precision)


@compiled
def grow(view):
    return with_means(with_room(view.means, view.means.shape[0]), view)


@compiled
def compact(counts, n_kept, view):
    means, k = np.empty((n_kept, view.means.shape[1])), 0
    for c in range(counts.shape[0]):
        if counts[c] > 0:
            for i in range(means.shape[1]):
                means[k, i] = view.means[c, i]
            k += 1
    return with_means(means, view)


@compiled
def rescale_and_shift(rng, z, terms, view):  # noqa: ARG001
    return view


@compiled
def redraw_latent(rng, z, terms, view):
    means = conditionals.draw_vectors(rng, z, terms, view)
    mean, precision = draw_location(rng, means, view.precision, view.hyperprior)
    return SharedVector(view.vectors, means, mean, precision, view.hyperprior)


@in_place
def add_log_marginal(exponents, weights, message, view):
    for c in range(weights.shape[0]):
        if weights[c] != 0.0:
            exponents[c] += ratio_of(c, message) * gain(view.means[c], message)


@in_place
def draw_user_latent(rng, u, column, message, view):  # noqa: ARG001
    for i in range(view.means.shape[1]):
        message.step[i] = view.means[column, i] - view.vectors[u, i]
        view.vectors[u, i] = view.means[column, i]


register(
    SharedVector,
    open_columns=open_columns,
    open_column=open_column,
    grow=grow,
    compact=compact,
    rescale_and_shift=rescale_and_shift,
    redraw_latent=redraw_latent,
    add_log_marginal=add_log_marginal,
    draw_user_latent=draw_user_latent,
)
