"""Dirichlet priors of partitions for compiled code: K components with weights from Dir(α/K, …,
α/K), and their limit.

n_components = 0 stands for the limit K → ∞, the Dirichlet process, in which a cluster weighs its
users and a new one α. With one component there is nothing to learn, and no α.
"""

import math
from typing import NamedTuple

from dualview.numerics.compiling import compiled
from dualview.numerics.kinds import register
from dualview.numerics.special import log_gamma
from dualview.partitions import concentration as kernels
from dualview.partitions.concentration import AlphaPrior


class Dirichlet(NamedTuple):
    """spread: what a component weighs beyond its users, α/K; 0 in the limit. prior: that of α."""

    alpha: float
    spread: float
    n_components: int
    prior: AlphaPrior


@compiled
def dirichlet(alpha, n_components, prior):
    """The record with this α."""
    spread = 0.0
    if n_components == 1:
        spread = 1.0
    elif n_components > 1:
        spread = alpha / n_components
    return Dirichlet(alpha, spread, n_components, prior)


@compiled
def opens(partition):
    return partition.n_components == 0


@compiled
def weight(n, partition):
    return n + partition.spread


@compiled
def new_weight(n_clusters, n_users, partition):  # noqa: ARG001
    return partition.alpha


@compiled
def log_cluster(n, partition):  # noqa: ARG001
    return log_gamma(float(n))


@compiled
def log_another(n_clusters, n_users, partition):  # noqa: ARG001
    return math.log(partition.alpha)


@compiled
def log_density(counts, partition):
    if partition.n_components == 1:
        return 0.0
    if partition.n_components > 1:
        total = kernels.log_finite(counts, partition.alpha)
    else:
        total = kernels.log_process(counts, partition.alpha)
    return total + kernels.log_alpha_prior(partition.alpha, partition.prior)


@compiled
def redraw(rng, counts, partition):
    if partition.n_components == 1:
        return partition
    n_users = n_clusters = 0
    for k in range(counts.shape[0]):
        n_users += counts[k]
        n_clusters += counts[k] > 0
    if (
        partition.n_components > 1
    ):  # (C10): as many tables as the weights of the components would have
        n_clusters = kernels.draw_table_counts(rng, counts, partition.spread)
    alpha = kernels.draw_alpha(rng, n_clusters, n_users, partition.alpha, partition.prior)
    return dirichlet(alpha, partition.n_components, partition.prior)


@compiled
def concentration(partition):
    return partition.alpha


@compiled
def discount(partition):  # noqa: ARG001
    return 0.0


register(
    Dirichlet,
    opens=opens,
    weight=weight,
    new_weight=new_weight,
    log_cluster=log_cluster,
    log_another=log_another,
    log_density=log_density,
    redraw=redraw,
    concentration=concentration,
    discount=discount,
)
