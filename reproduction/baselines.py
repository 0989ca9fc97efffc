"""What a reader would try first: mixtures by EM, k-means and ridge regression, all of scikit-learn.

Clusterings are of the features, or of the features and the true coefficients ("both"), which no
real forum would show: the most that a clustering of both views can hope for. Columns are
standardized. Those that need a number of clusters get the true one.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.cluster import KMeans
from sklearn.linear_model import BayesianRidge, RidgeCV
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.preprocessing import StandardScaler

from dualview.datasets import Forum
from reproduction.forums import n_true_clusters
from reproduction.scores import SCORES

Array = NDArray[np.float64]

_INFERRED = 10  # components that the Bayesian mixture may use
_PENALTIES = np.logspace(-5, 2, 57)


def _em(x: Array, n_clusters: int, seed: int) -> NDArray[np.integer]:
    return np.asarray(GaussianMixture(n_clusters, n_init=10, random_state=seed).fit_predict(x))


def _bayesian(x: Array, n_clusters: int, seed: int) -> NDArray[np.integer]:  # noqa: ARG001
    mixture = BayesianGaussianMixture(
        n_components=min(_INFERRED, len(x)), n_init=5, max_iter=2000, random_state=seed
    )
    return np.asarray(mixture.fit_predict(x))


def _kmeans(x: Array, n_clusters: int, seed: int) -> NDArray[np.integer]:
    return np.asarray(KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(x))


def _ridge(forum: Forum) -> tuple[Array, Array]:
    """Means and standard deviations of the test outcomes; the penalty and the deviation by leaving
    one thread out."""
    model = RidgeCV(_PENALTIES).fit(forum.participation, forum.outcome)
    means = model.predict(forum.test.participation)
    return means, np.full(len(means), np.sqrt(-model.best_score_))


def _bayesian_ridge(forum: Forum) -> tuple[Array, Array]:
    model = BayesianRidge(max_iter=2000).fit(forum.participation, forum.outcome)
    means, sds = model.predict(forum.test.participation, return_std=True)
    return means, sds


_CLUSTERERS = {"EM": _em, "Bayesian-EM": _bayesian, "k-means": _kmeans}
_REGRESSIONS: dict[str, Callable[[Forum], tuple[Array, Array]]] = {
    "ridge": _ridge,
    "Bayesian-ridge": _bayesian_ridge,
}
CLUSTERINGS = tuple(f"{name}-{view}" for name in _CLUSTERERS for view in ("features", "both"))
BASELINES = (*CLUSTERINGS, *_REGRESSIONS)


def measure_baseline(name: str, forum: Forum, seed: int) -> dict[str, float]:
    """Adjusted Rand index of a clustering, or test NLL of a regression."""
    scores = dict.fromkeys(SCORES, float("nan"))
    if name in _REGRESSIONS:
        means, sds = _REGRESSIONS[name](forum)
        scores["nll"] = -float(norm.logpdf(forum.test.outcome, means, sds).mean())
        return scores
    method, view = name.rsplit("-", 1)
    x = forum.features if view == "features" else np.column_stack([forum.features, forum.latent])
    labels = _CLUSTERERS[method](StandardScaler().fit_transform(x), n_true_clusters(forum), seed)
    scores["ari"] = float(adjusted_rand_score(forum.labels, labels))
    scores["n_clusters_estimate"] = float(len(np.unique(labels)))
    return scores
