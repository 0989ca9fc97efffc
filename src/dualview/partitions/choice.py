"""Which prior over partitions a model has: from its number of clusters, and from the words or
objects that choose a process."""

import re
from dataclasses import replace
from typing import Any, NamedTuple

from dualview.errors import InputError
from dualview.partitions.alpha import PAPER, Concentration, concentration
from dualview.partitions.pitman_yor import PitmanYor
from dualview.partitions.priors import (
    ChineseRestaurant,
    FiniteDirichlet,
    OneCluster,
    PartitionPrior,
)

_CALL = re.compile(r"pitman[ _-]?yor\s*\(\s*([^,()]+?)\s*\)")


class PartitionNames(NamedTuple):
    """What the prior over partitions was: a fixed number of clusters, the prior of α and the
    process, in words, or None."""

    n_clusters: int | None
    alpha_prior: str | None = None
    process: str | None = None


def partition_process(partition: Any) -> PitmanYor | None:
    """The process that ``partition`` of the estimator or of a command line stands for; None is the
    Dirichlet process."""
    if partition is None or isinstance(partition, PitmanYor):
        return partition
    call = _CALL.fullmatch(partition.strip().lower()) if isinstance(partition, str) else None
    try:
        if call is not None:
            return PitmanYor(float(call[1]))
    except ValueError:
        pass
    wanted = (
        'None (a Dirichlet process), PitmanYor(discount=...) or the text "pitman-yor(DISCOUNT)"'
    )
    raise InputError(f"partition must be {wanted}; got {partition!r}.")


def partition_names(n_clusters: int | None, alpha: Any, partition: Any) -> PartitionNames:
    """What an estimator's parameters say of the prior over partitions, in words."""
    process = partition_process(partition)
    return PartitionNames(
        n_clusters,
        None if n_clusters == 1 else str(concentration(alpha, n_clusters)),
        None if process is None else f"pitman-yor({process.discount!r})",
    )


def partition_prior(
    n_clusters: int | None, alpha: Concentration = PAPER, partition: PitmanYor | str | None = None
) -> PartitionPrior:
    """The prior for an inferred (None) or fixed number of clusters; α has the paper's prior unless
    another is given."""
    process = partition_process(partition)
    if n_clusters is not None:
        return OneCluster() if n_clusters == 1 else FiniteDirichlet(n_clusters, alpha)
    return ChineseRestaurant(alpha) if process is None else replace(process, concentration=alpha)
