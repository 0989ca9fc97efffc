"""Which view led: the log evidence of a partition in one view, against the best partition of that
view alone.

x (U, D), labels (U,). A cluster of n users is normal with a conjugate normal-inverse-Wishart prior,
in the units of the view's own sample mean and covariance, where the prior's constants are m = 0, κ
= 0.1, ν = D + 2, Ψ = I / 10: cluster means spread like the users, and a cluster's covariance is
about a tenth of theirs. With S the scatter of the cluster about its mean x̄,

    ln p(x) = −(nD/2) ln π + ln Γ_D(ν_n/2) − ln Γ_D(ν/2) + (ν/2) ln|Ψ| − (ν_n/2) ln|Ψ_n| + (D/2)
    ln(κ/κ_n),
    ν_n = ν + n,  κ_n = κ + n,  Ψ_n = Ψ + S + (κ n/κ_n) x̄ x̄ᵀ.

The partition itself counts with its Chinese-restaurant probability at α = 1, ln Γ(n) for each
cluster and a constant: without it the best partition of 50 users would always be one of many tiny
clusters.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, multigammaln
from sklearn.cluster import KMeans

from dualview.units import Whitening

Array = NDArray[np.float64]
Labels = NDArray[np.integer]

KAPPA, SPREAD = 0.1, 0.1
_MOST_CLUSTERS = 8  # of the k-means starts of the search


def log_cluster(x: Array) -> float:
    """ln p of one cluster's vectors (n, D), the cluster's mean and covariance integrated out."""
    n, d = x.shape
    nu, nu_n, kappa_n = d + 2, d + 2 + n, KAPPA + n
    mean = x.mean(axis=0)
    centered = x - mean
    psi_n = SPREAD * np.eye(d) + centered.T @ centered + KAPPA * n / kappa_n * np.outer(mean, mean)
    return float(
        -0.5 * n * d * np.log(np.pi)
        + multigammaln(0.5 * nu_n, d)
        - multigammaln(0.5 * nu, d)
        + 0.5 * nu * d * np.log(SPREAD)
        - 0.5 * nu_n * np.linalg.slogdet(psi_n)[1]
        + 0.5 * d * np.log(KAPPA / kappa_n)
    )


def log_evidence(x: Array, labels: Labels) -> float:
    """ln p(x, partition) of vectors in the view's own units, up to a constant of the number of
    users."""
    parts = [x[labels == cluster] for cluster in np.unique(labels)]
    return float(sum(log_cluster(part) + gammaln(len(part)) for part in parts))


def ratio(x: Array, labels: Labels) -> float:
    """(1/U) (ln p(x, labels) − ln p(x, best partition of this view)): 0 where the view had its way,
    else below.

    The best partition is the best that a greedy search finds; labels that beat it count as the best
    themselves.
    """
    vectors = np.ascontiguousarray(x, dtype=float).reshape(len(x), -1)
    own = Whitening.of_data(vectors).to_working(vectors)
    score = log_evidence(own, labels)
    best = log_evidence(own, np.array(_best(own.tobytes(), own.shape)))
    return (score - max(score, best)) / len(own)


@lru_cache(maxsize=64)
def _best(content: bytes, shape: tuple[int, ...]) -> tuple[int, ...]:
    """``best_partition`` of the same vectors is looked for once."""
    return tuple(best_partition(np.frombuffer(content).reshape(shape)).tolist())


def best_partition(x: Array) -> NDArray[np.int64]:
    """The partition with the largest evidence: single users move while that helps, from k-means
    with 1, 2, … clusters."""
    starts = [
        KMeans(k, n_init=5, random_state=0).fit_predict(x)
        for k in range(1, min(_MOST_CLUSTERS, len(x)) + 1)
    ]
    found = [_climb(x, start.astype(np.int64)) for start in starts]
    return max(found, key=lambda labels: log_evidence(x, labels))


def _climb(x: Array, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Move single users to the cluster, or a new one, that gains most, until nobody gains."""
    labels = labels.copy()
    moved = True
    while moved:
        moved = False
        for user in range(len(x)):
            target = _best_place(x, labels, user)
            if target != labels[user]:
                labels[user] = target
                moved = True
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _best_place(x: Array, labels: NDArray[np.int64], user: int) -> int:
    """Where the user adds most; its own cluster unless another is better by more than rounding."""
    others = np.arange(len(x)) != user
    gains = {}
    for cluster in np.unique(labels[others]):
        members = x[others & (labels == cluster)]
        gains[int(cluster)] = (
            log_cluster(np.vstack([members, x[user]])) - log_cluster(members) + np.log(len(members))
        )
    home = int(labels[user])
    new = int(labels.max()) + 1 if home in gains else home
    gains[new] = log_cluster(x[user : user + 1])
    best = max(gains, key=lambda place: gains[place])
    return best if gains[best] > gains[home] + 1e-9 else home
