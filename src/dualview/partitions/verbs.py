"""What the sampler asks of a partition prior in compiled code: verbs, chosen by the class of the
prior's record.

A record holds the concentration and the discount as they stand; what is redrawn comes back as a
new record. Users and clusters are counted without the user at hand where weights are asked for.
"""

from dualview.numerics.dispatch import verb


@verb
def opens(partition):
    """Whether users can open new clusters."""


@verb
def weight(n, partition):
    """What a component of n users weighs; of those that may be empty too."""


@verb
def new_weight(n_clusters, n_users, partition):
    """What a new cluster weighs beside n_clusters others, which have n_users users."""


@verb
def log_cluster(n, partition):
    """What one cluster of n users adds to ln p(partition | α), where users can open clusters."""


@verb
def log_another(n_clusters, n_users, partition):
    """What one more cluster beside n_clusters adds to ln p(partition | α) besides, where users can
    open clusters; n_users: those of all clusters, that one's as well."""


@verb
def log_density(counts, partition):
    """ln p(partition | α) + ln p(α); counts (K,) without empty clusters where users can open
    them."""


@verb
def redraw(rng, counts, partition):
    """The record with a new concentration and a new discount, given the partition."""


@verb
def concentration(partition):
    """α; 1 where there is none."""


@verb
def discount(partition):
    """What every cluster weighs less than its users; 0 where there is no discount."""
