"""What is measured of one fit. A score that a model does not have is NaN."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from dualview.datasets import Forum
from dualview.mixture import DualViewMixture
from reproduction.evidence import ratio

SCORES = (
    "nll",
    "nll_mean_of_logs",
    "rmse",
    "ari",
    "ari_last_draw",
    "n_clusters",
    "n_clusters_estimate",
    "features_ratio",
    "behavior_ratio",
    "r_hat",
    "ess",
    "cpu_seconds",
    "n_iterations",
)


def measure(model: DualViewMixture, forum: Forum) -> dict[str, float]:
    """Scores of a fitted model.

    nll: test NLL, by the log of the mean density; nll_mean_of_logs: by the mean of the log
    densities, which is never less. rmse: of the posterior means of the coefficients. ari: of the
    partition estimate against the truth; ari_last_draw: of the last draw. n_clusters: posterior
    mean. features_ratio, behavior_ratio: see ``evidence.ratio``. r_hat: the largest, ess: the least
    effective size.
    """
    scores = dict.fromkeys(SCORES, float("nan"))
    post = model.posterior_
    if model.behavior_ is not None:
        forecast = model.predict_outcome(forum.test.participation)
        scores["nll"] = forecast.nll(forum.test.outcome)
        scores["nll_mean_of_logs"] = nll_by_mean_of_logs(
            post.flat("latent") @ forum.test.participation.T,
            post.flat("noise_precision"),
            forum.test.outcome,
        )
        scores["rmse"] = float(np.sqrt(np.mean((model.posterior_.latent_mean - forum.latent) ** 2)))
    if model.n_clusters != 1:
        scores |= _of_partition(model, forum)
    table = post.diagnostics()
    scores["r_hat"] = float(table["r_hat"].max())
    scores["ess"] = float(table[["ess_bulk", "ess_tail"]].min(axis=None))
    return scores


def _of_partition(model: DualViewMixture, forum: Forum) -> dict[str, float]:
    """Of the paper's own estimate, Dahl's draw."""
    last, labels = model.posterior_["z"][-1, -1], model.posterior_.partition("dahl")
    return {
        "ari": float(adjusted_rand_score(forum.labels, labels)),
        "ari_last_draw": float(adjusted_rand_score(forum.labels, last)),
        "n_clusters": float(model.posterior_["n_clusters"].mean()),
        "n_clusters_estimate": float(labels.max() + 1),
        "features_ratio": ratio(forum.features, labels),
        "behavior_ratio": ratio(forum.latent, labels),
    }


def nll_by_mean_of_logs(
    locations: NDArray[Any], precisions: NDArray[Any], y: NDArray[Any]
) -> float:
    """Minus the mean over draws and cases of ln N(y; location, 1/precision): locations (S, n),
    precisions (S,), y (n,)."""
    log_density = (
        0.5 * np.log(precisions / (2 * np.pi))[:, None]
        - 0.5 * precisions[:, None] * (y - locations) ** 2
    )
    return -float(log_density.mean())
