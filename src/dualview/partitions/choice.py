"""Which prior over partitions a model has: from its number of clusters, and from the words or
objects that choose a process."""

import re
from dataclasses import replace
from typing import Any, NamedTuple

from dualview.errors import InputError
from dualview.partitions.agreement import agreement_prior
from dualview.partitions.alpha import PAPER, Concentration, Known, concentration
from dualview.partitions.finite_mixtures import FiniteMixtures
from dualview.partitions.pitman_yor import PitmanYor
from dualview.partitions.priors import (
    ChineseRestaurant,
    FiniteDirichlet,
    OneCluster,
    PartitionPrior,
)

_CALL = re.compile(r"(pitman[ _-]?yor|finite[ _-]?mixtures?)\s*(?:\((.*)\))?")

Process = PitmanYor | FiniteMixtures


class PartitionNames(NamedTuple):
    """What the prior over partitions was: a fixed number of clusters, the prior of α and the
    process, in words, or None."""

    n_clusters: int | None
    alpha_prior: str | None = None
    process: str | None = None


def partition_process(partition: Any) -> Process | None:
    """The process that ``partition`` of the estimator or of a command line stands for; None is the
    Dirichlet process."""
    if partition is None or isinstance(partition, Process):
        return partition
    call = _CALL.fullmatch(partition.strip().lower()) if isinstance(partition, str) else None
    if call is not None and call[1].startswith("finite"):
        return FiniteMixtures() if call[2] is None else FiniteMixtures(call[2])
    if call is not None and call[2] is not None:
        return PitmanYor(_discount(call[2].strip()))
    wanted = (
        "None (a Dirichlet process), PitmanYor(discount=...), FiniteMixtures(...) or the text "
        '"pitman-yor(DISCOUNT)" or "finite-mixtures"'
    )
    raise InputError(f"partition must be {wanted}; got {partition!r}.")


def _discount(text: str) -> Any:
    """The discount that a text stands for: a number, "learned" or a beta distribution."""
    try:
        return float(text)
    except ValueError:
        return agreement_prior(text) if text.startswith("beta") else text


def concentration_of(n_clusters: int | None, alpha: Any, partition: Any) -> Concentration:
    """The prior that ``alpha`` stands for under a prior over partitions; with finite mixtures it is
    1 by default."""
    if alpha is None and isinstance(partition_process(partition), FiniteMixtures):
        return Known(1.0)
    return concentration(alpha, n_clusters)


def partition_names(n_clusters: int | None, alpha: Any, partition: Any) -> PartitionNames:
    """What an estimator's parameters say of the prior over partitions, in words."""
    process = partition_process(partition)
    own = concentration_of(n_clusters, alpha, process)
    return PartitionNames(
        n_clusters,
        None if n_clusters == 1 else str(own),
        None if process is None else str(process),
    )


def partition_prior(
    n_clusters: int | None, alpha: Concentration = PAPER, partition: Process | str | None = None
) -> PartitionPrior:
    """The prior for an inferred (None) or fixed number of clusters; α has the paper's prior unless
    another is given."""
    process = partition_process(partition)
    if n_clusters is not None:
        return OneCluster() if n_clusters == 1 else FiniteDirichlet(n_clusters, alpha)
    return ChineseRestaurant(alpha) if process is None else replace(process, concentration=alpha)
