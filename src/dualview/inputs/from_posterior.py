"""What a posterior tells of the estimator that it came from: its parameters, and the columns that
it was fitted to."""

from typing import Any

from dualview.partitions.alpha import concentration_from_text
from dualview.partitions.choice import partition_process
from dualview.posterior import Posterior


def parameters_of(posterior: Posterior) -> dict[str, Any]:
    """Parameters of the model, by name."""
    return {
        "n_clusters": posterior.n_clusters or partition_process(posterior.partition_process),
        "alpha": concentration_from_text(posterior.alpha_prior),
        "link": "linear" if "slopes" in posterior else None,
        "pooling": posterior.pooling,
        "agreement": _agreement_of(posterior),
        "spread_prior": posterior.spread_prior,
    }


def _agreement_of(posterior: Posterior) -> Any:
    """What ``agreement`` was; by table, where features came as several."""
    prior, layout = posterior.agreement_prior, posterior.layout
    return (
        dict(zip(layout.names, prior, strict=True))
        if layout is not None and isinstance(prior, tuple)
        else prior
    )


def columns_of(posterior: Posterior) -> tuple[list[str], bool]:
    """Names of the columns of X, and whether they came with X."""
    names = (
        posterior.feature_names if posterior.codebook is None else posterior.codebook.source_names
    )
    return names, names != [f"x{j}" for j in range(len(names))]
