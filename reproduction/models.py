"""The paper's seven models (Table 1) as settings of one estimator."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dualview.behaviors.shared_outcome import SharedOutcome
from dualview.datasets import Forum, agreement
from dualview.mixture import DualViewMixture
from dualview.settings import Gibbs
from dualview.units import GaussianPrior
from reproduction.cells import Cell
from reproduction.forums import n_true_clusters


class Kind(NamedTuple):
    """Which views a model has, and its number of clusters: "inferred", "true" or "one"."""

    features: bool
    behavior: bool
    clusters: str


MODELS = {
    "dual-DP": Kind(True, True, "inferred"),
    "dual-fixed": Kind(True, True, "true"),
    "single": Kind(False, True, "one"),
    "IGMM": Kind(True, False, "inferred"),
    "GMM": Kind(True, False, "true"),
    "latent-IGMM": Kind(False, True, "inferred"),
    "latent-GMM": Kind(False, True, "true"),
}
COMPARED = ("dual-DP", "dual-fixed", "single")


def fit(cell: Cell, forum: Forum) -> DualViewMixture:
    """The model of a cell, fitted to its forum.

    Options of a cell's fit: init and n_auxiliary are the engine's, link the estimator's, and init
    "truth" starts at the true clusters; feature_scale and behavior_scale multiply the covariance of
    a view's constants. The priors of α, of W_0 and of the noise are the paper's.
    """
    kind = MODELS[cell.model]
    behavior = (
        SharedOutcome(forum.participation, forum.outcome, noise_variance="paper")
        if kind.behavior
        else None
    )
    features = forum.features if kind.features else None
    options: dict[str, Any] = {"spread_prior": "paper"} if kind.behavior else {}
    options |= ({} if kind.clusters == "one" else {"alpha": "paper"}) | dict(cell.fit)
    if options.get("init") == "truth":
        options["init"] = forum.labels
    if "feature_scale" in options:
        options["feature_prior"] = _scaled(forum.features, options.pop("feature_scale"))
    if "behavior_scale" in options:
        estimate = SharedOutcome(forum.participation, forum.outcome).ridge_estimate()
        options["behavior_prior"] = _scaled(
            estimate.reshape(len(forum.labels), -1), options.pop("behavior_scale")
        )
    effort = cell.effort
    own = {name: options.pop(name) for name in ("init", "n_auxiliary") if name in options}
    model = DualViewMixture(
        {"inferred": None, "true": n_true_clusters(forum), "one": 1}[kind.clusters],
        engine=Gibbs(n_warmup=effort.n_warmup, thin=effort.thin, **own),
        n_draws=effort.n_draws,
        n_chains=effort.n_chains,
        n_jobs=1,
        random_state=cell.sampler_seed,
        **options,
    )
    return model.fit(features, behavior)


@cache
def compile_first(model: str, link: str | None = None) -> None:
    """Run a model for a moment, so that compiling is not counted as its time; once for each
    process."""
    forum = agreement(n_users=50, n_threads=50)
    kind = MODELS[model]
    clusters = {"inferred": None, "true": 5, "one": 1}[kind.clusters]
    short = DualViewMixture(clusters, engine=Gibbs(n_warmup=10), n_draws=20, n_chains=2, link=link)
    behavior = SharedOutcome(forum.participation, forum.outcome) if kind.behavior else None
    short.fit(forum.features if kind.features else None, behavior)


def _scaled(vectors: Any, scale: float) -> GaussianPrior:
    """The constants that the data give, with a covariance that is this many times as large."""
    covariance = np.atleast_2d(np.cov(vectors, rowvar=False))
    return GaussianPrior(vectors.mean(axis=0), scale * covariance)
