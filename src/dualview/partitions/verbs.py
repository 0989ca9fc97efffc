"""What the sampler asks of a partition prior in compiled code: verbs, chosen by the class of the
prior's record.

A record holds the concentration as it stands; what is redrawn comes back as a new record. n users
and K clusters are counted without the user at hand where weights are asked for.
"""

from dualview.numerics.dispatch import verb


@verb
def opens(partition):
    """Whether users can open new clusters."""


@verb
def weight(n, partition):
    """What a component of n users weighs; of those that may be empty too."""


@verb
def new_weight(n_clusters, partition):
    """What a new cluster weighs beside n_clusters others."""


@verb
def log_cluster(n, partition):
    """What one cluster of n users adds to ln p(partition | α), where users can open clusters."""


@verb
def log_another(n_clusters, partition):
    """What one more cluster beside n_clusters adds to ln p(partition | α) besides, where users can
    open clusters."""


@verb
def log_density(counts, partition):
    """ln p(partition | α) + ln p(α); counts (K,) without empty clusters where users can open
    them."""


@verb
def redraw(rng, counts, partition):
    """The record with a new concentration, given the partition."""


@verb
def concentration(partition):
    """α; 1 where there is none."""
