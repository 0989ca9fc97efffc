"""Profiles of the clusters of a partition. labels (U,), membership (U,), features (U, D), values
(U,).

Features are told by quantiles and ranks: they mean the same on any scale, and a few very active
users do not decide them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dualview.checks import interval_ends
from dualview.posterior.draws.fit_facts import FitFacts
from dualview.posterior.partition.averages import UserAverages, share_above
from dualview.posterior.prediction.user_features import features_of

Array = NDArray[np.float64]
Users = NDArray[np.intp]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class MeanLatent:
    """The mean latent coefficient of a cluster's users.

    Attributes
    ----------
    median, low, high : float
        Posterior median and central interval.
    above : float
        Probability that it is larger than the mean of all users; draws in which the two are the
        same count half.
    """

    median: float
    low: float
    high: float
    above: float


@dataclass(frozen=True)
class Profile:
    """A cluster.

    Attributes
    ----------
    users : array (n,)
        Its users.
    quartiles : array (3, D), optional
        Lower quartile, median and upper quartile of their features.
    standing : array (D,), optional
        The share of all users below each median, those who are equal counted half.
    """

    users: Users
    quartiles: Array | None
    standing: Array | None


def profiles(groups: Sequence[Users], features: Array | None) -> list[Profile]:
    """A profile for each of some clusters."""
    if features is None:
        return [Profile(users, None, None) for users in groups]
    places = np.array([standings(values, groups) for values in features.T])
    return [
        Profile(users, np.quantile(features[users], [0.25, 0.5, 0.75], axis=0), places[:, k])
        for k, users in enumerate(groups)
    ]


def standings(values: Array, groups: Sequence[Users]) -> Array:
    """The share of all users below the median of each group (K,), those who are equal counted half.

    Missing values (NaN) do not count; a group that has no others stands in the middle.
    """
    known = np.sort(values[~np.isnan(values)])
    found = np.full(len(groups), 0.5)
    for k, users in enumerate(groups):
        own = values[users][~np.isnan(values[users])]
        if len(own):
            ends = [np.searchsorted(known, np.median(own), side) for side in ("left", "right")]
            found[k] = sum(ends) / (2 * len(known))
    return found


def typical_first(users: Users, membership: Array, ranks: Array | None) -> Users:
    """The surer half before the other; in both, those whose ranks are nearest to the medians first.
    Without ranks, the surest first."""
    if ranks is None:
        return users[np.argsort(-membership[users], kind="stable")]
    distance = np.abs(ranks[users] - np.median(ranks[users], axis=0)).mean(axis=1)
    doubtful = membership[users] < np.median(membership[users])
    return users[np.lexsort((distance, doubtful))]


def ranks_of(features: Array) -> Array:
    """Each feature's ranks, as shares of the users, ties in the middle; where a cell is missing the
    middle rank."""
    known = ~np.isnan(features)
    ranks = rankdata(np.where(known, features, np.inf), axis=0)
    return np.where(known, (ranks - 0.5) / np.maximum(known.sum(axis=0), 1), 0.5)


def separation(ranks: Array, labels: Labels) -> Array:
    """The share of each feature's variance in ranks that lies between clusters, (D,); 0 for a
    constant."""
    sizes = np.bincount(labels).astype(float)
    total = ranks.var(axis=0)
    means = np.array(
        [np.bincount(labels, column) / np.maximum(sizes, 1.0) for column in ranks.T]
    ).reshape(-1, len(sizes))
    between = ((means - ranks.mean(axis=0)[:, None]) ** 2 * sizes).sum(axis=1) / len(labels)
    return np.asarray(np.divide(between, total, out=np.zeros_like(total), where=total > 0))


def mean_latent(draws: Array, users: Users, probability: float = 0.95) -> MeanLatent:
    """The mean latent coefficient of some users, from draws (S, U) of everybody's."""
    averages = UserAverages(draws[:, :, None])
    away = averages.between(users, np.arange(draws.shape[1]))
    low_end, high_end = interval_ends(probability)
    low, median, high = np.quantile(averages.over(users), [low_end, 0.5, high_end])
    return MeanLatent(float(median), float(low), float(high), float(share_above(away)[0]))


def table_profile(post: FitFacts, users: Users) -> dict[str, Any]:
    """Medians of what is known of a cluster's users in the user's units, and shares of levels in
    nominal columns."""
    found: dict[str, dict[str, Any]] = {"feature_medians": {}}
    features = features_of(post)
    if features is not None:
        for block, own in zip(post.blocks, features[users].cells, strict=True):
            for name, values in block.profile(own).items():
                found.setdefault(name, {}).update(values)
    return found
