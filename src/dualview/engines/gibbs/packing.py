"""What is kept of a state: a row of numbers for each draw, its labels, and a row for each of its components.

The row of a draw: α, the noise, ln p(data, state), the number of clusters; coefficients (C,); μ_0, R_0, W_0, β of the features'
view, then of the latent vectors'; latent vectors (U, q). The row of a component: its users, then mean and precision factor in
both views. A view of no dimensions has no numbers. ``inference.storage`` takes the rows apart.
"""

import numpy as np

from dualview.behaviors.likelihoods.conjugate import log_plain
from dualview.numerics.compiling import compiled, inlined
from dualview.partitions.concentration import log_alpha_prior, log_finite, log_process
from dualview.views.gaussian.density import log_view

N_SCALARS = 4


@inlined
def row_widths(n_users, n_dims, n_latent, n_coefficients):
    """Numbers in the row of a draw and in that of a component."""
    bases = n_dims + 2 * n_dims * n_dims + 1 + n_latent + 2 * n_latent * n_latent + 1
    return (
        N_SCALARS + n_coefficients + bases + n_users * n_latent,
        1 + n_dims + n_dims * n_dims + n_latent + n_latent * n_latent,
    )


@compiled
def put(row, at, values):
    """In place: the values into the row from a place on; returns the place after them."""
    for value in values.flat:
        row[at] = value
        at += 1
    return at


@compiled
def log_partition(counts, n_fixed, alpha, alpha_prior):
    """ln p(partition | α) + ln p(α); n_fixed as in ``sweep``, counts without empty clusters where they are inferred."""
    if n_fixed == 1:
        return 0.0
    total = log_finite(counts, alpha) if n_fixed else log_process(counts, alpha)
    return total + log_alpha_prior(alpha, alpha_prior)


@inlined
def log_joint(z, counts, n_fixed, alpha, alpha_prior, features, columns, base, latent, latent_base, terms, plain, hyperpriors):
    """ln p(data, state) up to a constant that depends on nothing learnt."""
    total = log_partition(counts, n_fixed, alpha, alpha_prior)
    if features.shape[1] > 0:
        total += log_view(features, z, columns[0], columns[1], base[0], base[1], base[2], base[3], hyperpriors[0])
    if latent.shape[1] > 0:
        mean, precision, covariance, dof = latent_base
        total += log_view(latent, z, columns[2], columns[3], mean, precision, covariance, dof, hyperpriors[1])
    if plain[0].shape[0] > 0:
        total += log_plain(terms, plain)
    return total


@inlined
def put_base(row, at, base):
    """In place: what a view's components share."""
    at = put(row, put(row, put(row, at, base[0]), base[1]), base[2])
    row[at] = base[3]
    return at + 1


@compiled
def pack(draw, rows, labels, first, components, state, n_fixed, alpha_prior, features, terms, plain, hyperpriors):
    """In place: rows and labels of a draw, and its components from row first on; more rows where they have run out.

    state = (z, counts, α, columns, base, latent, latent base); counts and n_fixed as in ``log_partition``. Returns the
    components and the row after them.
    """
    z, counts, alpha, columns, base, latent, latent_base = state
    means, factors, latent_means, latent_factors = columns
    n_components, n_clusters = counts.shape[0], 0
    if first + n_components > components.shape[0]:
        more = np.empty((2 * (first + n_components), components.shape[1]))
        for k in range(first):
            for i in range(components.shape[1]):
                more[k, i] = components[k, i]
        components = more
    for k in range(n_components):
        n_clusters += counts[k] > 0
        line = components[first + k]
        line[0] = counts[k]
        at = put(line, put(line, np.int64(1), means[k]), factors[k])
        put(line, put(line, at, latent_means[k]), latent_factors[k])
    for u in range(z.shape[0]):
        labels[draw, u] = z[u]
    line = rows[draw]
    line[0], line[1], line[3] = alpha, terms[5][0], n_clusters
    line[2] = log_joint(
        z, counts, n_fixed, alpha, alpha_prior, features, columns, base, latent, latent_base, terms, plain, hyperpriors
    )
    at = put(line, np.int64(N_SCALARS), plain[2])
    put(line, put_base(line, put_base(line, at, base), latent_base), latent)
    return components, first + n_components
