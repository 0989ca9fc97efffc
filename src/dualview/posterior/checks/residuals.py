"""Residuals of a model in some draws of its posterior: numbers that are standard normal if the
model is right.

Under a draw's clusters and parameters these are pivotal (Johnson 2007): each user's features and
latent vector, standardized by the cluster's mean and covariance, and each outcome, standardized by
its distribution given all others with the latent vectors integrated out. Cells that are not exact
stand where the draw has them. Whatever the parameters, in a draw from the posterior they have the
same distribution as under the parameters that the data came from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.base import Behavior
from dualview.behaviors.leave_one_out import LeftOutPart
from dualview.posterior.posterior import Posterior
from dualview.posterior.prediction.left_out import LatentPriors, draws_of
from dualview.posterior.prediction.user_features import features_of, rows_by_table
from dualview.views.gaussian.user_cells import standardized

Array = NDArray[np.float64]

N_DRAWS = 100  # of the posterior
_N_REPLICATES = 2000  # of outcomes, over all draws
_MOST_CELLS = 2_000_000  # replicates × observations


@dataclass(frozen=True)
class Residuals:
    """In S draws: of outcomes (S, n) with replicates (R, n), of features (S, U, D), of latent
    vectors (S, U, q).

    None where there is none. outcomes and replicates are by name: "outcomes", or "outcomes of NAME"
    for each of several behaviors. z (S, U): the clusters. alpha (S,), where there is a
    concentration; discount (S,), where one is learned.
    """

    z: NDArray[np.int64]
    outcomes: Mapping[str, Array] = field(default_factory=dict)
    replicates: Mapping[str, Array] = field(default_factory=dict)
    features: Array | None = None
    latent: Array | None = None
    alpha: Array | None = None
    discount: Array | None = None


def residuals_of(post: Posterior, behavior: Behavior | None, seed: int = 0) -> Residuals:
    """The residuals in up to ``N_DRAWS`` draws, evenly spread over the chains."""
    rng = np.random.default_rng(seed)
    n_all = post.n_chains * post.n_draws
    draws = np.linspace(0, n_all - 1, min(n_all, N_DRAWS)).round().astype(np.intp)
    found: dict[str, Any] = {"z": post.flat("z")[draws].astype(np.int64)}
    if "alpha" in post:
        found["alpha"] = post.flat("alpha")[draws]
    if "discount" in post:
        found["discount"] = post.flat("discount")[draws]
    acting = np.searchsorted(post.components["owner"], draws)[:, None] + post.flat_acts[draws]
    features = features_of(post)
    if features is not None:
        rows, cells = rows_by_table(post, draws), zip(post.blocks, features.cells, strict=True)
        parts = [block.residuals(rng, own, draws, rows[block.table]) for block, own in cells]
        known = [part for part in parts if part is not None]
        found["features"] = np.concatenate(known, axis=-1) if known else None
    if behavior is not None:
        units = post.spec.units["behavior"]
        if post.spec.pooling is None:
            vectors = post.flat("latent")[draws].reshape(len(draws), post.n_users, -1)
            shifts = LatentPriors(post).shifts(draws)
            means, factors = (
                post.components[f"behavior.{part}"][acting] for part in ("means", "factors")
            )
            found["latent"] = standardized(units.to_working(vectors - shifts), means, factors)
        made = {
            outcomes_of(part.name): _of_outcomes(rng, post, behavior, part, draws)
            for part in behavior.checked_parts()
        }
        found["outcomes"] = {name: own for name, (own, _) in made.items()}
        found["replicates"] = {name: again for name, (_, again) in made.items()}
    return Residuals(**found)


def outcomes_of(name: str | None) -> str:
    """What checks call the outcomes of a behavior; name: that among several."""
    return "outcomes" if name is None else f"outcomes of {name}"


def _of_outcomes(
    rng: np.random.Generator,
    post: Posterior,
    behavior: Behavior,
    part: LeftOutPart,
    draws: NDArray[np.intp],
) -> tuple[Array, Array]:
    """Standardized outcomes (S, n), and those of replicates (R, n): of outcomes drawn anew under
    the same draws."""
    left_out = part.left_out
    n = len(left_out.outcome)
    n_replicates = max(len(draws), min(_N_REPLICATES, _MOST_CELLS // n))
    found, replicates = [], []
    for place, drawn in enumerate(draws_of(post, behavior, draws)):
        prior, own, vectors = part.given(*drawn)
        found.append(left_out.predictive(prior, own, vectors).standardized(rng, left_out.outcome))
        for _ in range(
            n_replicates * (place + 1) // len(draws) - n_replicates * place // len(draws)
        ):
            again = left_out.replicate(rng, prior, own)
            if again is None:
                replicates.append(rng.standard_normal(n))
                continue
            other, theirs = again
            replicates.append(other.predictive(prior, own, theirs).standardized(rng, other.outcome))
    return np.array(found), np.array(replicates)
