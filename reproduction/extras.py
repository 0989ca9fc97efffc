"""What some cells keep besides their scores: enough to draw a figure, as plain lists and
numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dualview.datasets import Forum
from dualview.mixture import DualViewMixture
from dualview.posterior.diagnostics import paper_autocorrelation_time

ALPHA_SCALES = (0.25, 1.0, 4.0)
_FEWEST_DRAWS = 2000  # that the paper's autocorrelation time needs


def predictions(model: DualViewMixture, forum: Forum) -> dict[str, Any]:
    """Outcomes of the test threads from the shortest to the longest, with predictive means and
    intervals."""
    order = np.argsort(forum.test.outcome, kind="stable")
    forecast = model.predict_outcome(forum.test.participation[order])
    half, most = forecast.interval(0.5), forecast.interval(0.95)
    return {
        "outcome": forum.test.outcome[order].tolist(),
        "mean": forecast.mean.tolist(),
        "half": half.tolist(),
        "most": most.tolist(),
    }


def similarity(model: DualViewMixture, forum: Forum) -> dict[str, Any]:
    """Share of draws in which two users are together, users by true cluster."""
    order = np.argsort(forum.labels, kind="stable")
    matrix = model.posterior_.similarity()[np.ix_(order, order)]
    return {"matrix": np.round(matrix, 4).tolist(), "labels": forum.labels[order].tolist()}


def sizes(model: DualViewMixture, forum: Forum) -> dict[str, Any]:  # noqa: ARG001
    """Posterior of the number of clusters, and mean and standard deviation of the largest, second
    largest, … size."""
    z = model.posterior_.flat("z")
    n_clusters = model.posterior_.flat("n_clusters").astype(int)
    ranked = np.zeros((len(z), int(n_clusters.max())))
    for draw, labels in zip(ranked, z, strict=True):
        counts = np.sort(np.unique(labels, return_counts=True)[1])[::-1]
        draw[: len(counts)] = counts
    numbers, draws = np.unique(n_clusters, return_counts=True)
    return {
        "n_clusters": numbers.tolist(),
        "probability": (draws / len(z)).tolist(),
        "size_mean": ranked.mean(axis=0).tolist(),
        "size_sd": ranked.std(axis=0).tolist(),
    }


def autocorrelation(model: DualViewMixture, forum: Forum) -> dict[str, Any]:  # noqa: ARG001
    """Of each scalar of the diagnostics: autocorrelation time, effective sizes, and the paper's τ
    with its noise floor."""
    post = model.posterior_
    table = post.diagnostics()
    rows = {}
    for name, values in post.scalars().items():
        tau = noise = float("nan")
        if post.n_draws >= _FEWEST_DRAWS and all(np.ptp(chain) > 0 for chain in values):
            tau, noise = np.mean([paper_autocorrelation_time(chain) for chain in values], axis=0)
        row = table.loc[name]
        rows[name] = {
            "time": float(row["autocorrelation_time"]),
            "ess_bulk": float(row["ess_bulk"]),
            "ess_tail": float(row["ess_tail"]),
            "paper_tau": float(tau),
            "white_noise_tau": float(noise),
        }
    return rows


def alpha_prior(model: DualViewMixture, forum: Forum) -> dict[str, Any]:
    """What another prior of α would give: 1/α ~ G(1, s) in place of G(1, 1), by weighting the draws
    with the priors' ratio.

    The weights depend on a draw through its α alone, so the weighted draws are those of the other
    posterior; their effective number says how well they cover it.
    """
    post = model.posterior_
    alpha = post.flat("alpha")
    precisions = post.flat("noise_precision")[:, None]
    locations = post.flat("latent") @ forum.test.participation.T
    log_density = (
        0.5 * np.log(precisions / (2 * np.pi))
        - 0.5 * precisions * (forum.test.outcome - locations) ** 2
    )
    result = {}
    for scale in ALPHA_SCALES:
        log_weights = prior_ratio(alpha, scale)
        log_weights -= logsumexp(log_weights)
        weights = np.exp(log_weights)
        result[str(scale)] = {
            "n_clusters": float(weights @ post.flat("n_clusters")),
            "nll": -float(logsumexp(log_weights[:, None] + log_density, axis=0).mean()),
            "effective_share": float(1.0 / np.sum(weights**2) / len(weights)),
        }
    return result


def prior_ratio(alpha: NDArray[Any], scale: float) -> NDArray[np.float64]:
    """ln of p(α | 1/α ~ G(1, scale)) / p(α | 1/α ~ G(1, 1)), up to a constant."""
    return np.asarray(-0.5 / alpha * (1.0 / scale - 1.0))


EXTRAS: dict[str, Callable[[DualViewMixture, Forum], dict[str, Any]]] = {
    "predictions": predictions,
    "similarity": similarity,
    "sizes": sizes,
    "autocorrelation": autocorrelation,
    "alpha_prior": alpha_prior,
}
