"""The paper's three forums, drawn from their distributions, with the constants its figures were
made with.

Shapes: features (U, D), labels (U,), latent (U,), participation (T, U), outcome (T,).
"""

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import ArrayLike, NDArray
from sklearn.datasets import load_iris

from dualview.checks import number_in, whole_number
from dualview.errors import InputError

FEATURE_COVARIANCE = ((0.01, 0.001), (0.001, 0.01))
LATENT_SPACING = 25.0

# First spawn key of each stream: drawing more from one leaves the others as they are.
_USERS, _TEST, _TRAINING = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Threads:
    """Who took part in each thread, and its outcome.

    Attributes
    ----------
    participation : (T, U)
    outcome : (T,)
    """

    participation: NDArray[np.float64]
    outcome: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Forum:
    """Users, training threads and test threads, with the truth behind them.

    Attributes
    ----------
    features : (U, D)
    participation : (T, U), training threads
    outcome : (T,), training threads
    labels : (U,), the true cluster of each user, from 0
    latent : (U,), the true coefficient of each user
    test : threads kept from training
    feature_names : one for each column of the features
    name : of the scenario
    """

    features: NDArray[np.float64]
    participation: NDArray[np.float64]
    outcome: NDArray[np.float64]
    labels: NDArray[np.intp]
    latent: NDArray[np.float64]
    test: Threads
    feature_names: tuple[str, ...]
    name: str


def agreement(
    n_users: int = 50,
    n_threads: int = 100,
    n_test_threads: int = 100,
    *,
    n_clusters: int = 5,
    radius: float = 0.45,
    feature_covariance: ArrayLike = FEATURE_COVARIANCE,
    latent_means: ArrayLike | None = None,
    latent_sd: float = 5.0,
    noise_variance: float = 5.0,
    participation_rate: float = 0.5,
    normalize: bool = True,
    repetition: int = 0,
    seed: int = 0,
) -> Forum:
    """A forum where both views have the same clusters.

    Users, their coefficients and the test threads depend on ``seed`` alone; the training threads on
    ``seed`` and ``repetition``, and a smaller number of them is the beginning of a larger one. A
    thread without any participant is redrawn until it has one.

    Parameters
    ----------
    n_users, n_threads, n_test_threads : sizes
    n_clusters : dealt to the users as evenly as possible, in random order
    radius : of the circle the clusters' feature means lie on, at angles 2πk / n_clusters for k = 1,
    2, ...
    feature_covariance : (2, 2), inside every cluster
    latent_means : one for each cluster; 0, 25, 50, ... unless given
    latent_sd : of the coefficients inside every cluster
    noise_variance : of an outcome given who took part
    participation_rate : probability that a user takes part in a thread
    normalize : divide each thread's row by its sum (True) or leave it 0 and 1 (False)
    repetition, seed : integers from 0

    Examples
    --------
    >>> from dualview.datasets import agreement
    >>> forum = agreement(n_users=50, n_threads=20, seed=0)
    >>> forum.features.shape, forum.participation.shape, forum.test.outcome.shape
    ((50, 2), (20, 50), (100,))
    """
    plan = _Plan(
        n_threads, n_test_threads, noise_variance, participation_rate, normalize, repetition, seed
    )
    centers = _circle(whole_number(n_clusters, "n_clusters", 1), radius)
    return _around(centers, "agreement", n_users, feature_covariance, latent_means, latent_sd, plan)


def disagreement(
    n_users: int = 50,
    n_threads: int = 100,
    n_test_threads: int = 100,
    *,
    n_clusters: int = 5,
    radius: float = 0.5,
    feature_covariance: ArrayLike = FEATURE_COVARIANCE,
    latent_means: ArrayLike | None = None,
    latent_sd: float = 5.0,
    noise_variance: float = 5.0,
    participation_rate: float = 0.5,
    normalize: bool = True,
    repetition: int = 0,
    seed: int = 0,
) -> Forum:
    """A forum where the last two clusters are the same in the features.

    Both are centered at the origin of the features; their coefficients differ. Everything else,
    arguments included, is as in :func:`agreement`.

    Examples
    --------
    >>> from dualview.datasets import disagreement
    >>> forum = disagreement(n_users=25, n_threads=25, seed=0)
    >>> sorted(set(forum.labels.tolist()))
    [0, 1, 2, 3, 4]
    """
    plan = _Plan(
        n_threads, n_test_threads, noise_variance, participation_rate, normalize, repetition, seed
    )
    centers = _circle(whole_number(n_clusters, "n_clusters", 2), radius)
    centers[-2:] = 0.0
    return _around(
        centers, "disagreement", n_users, feature_covariance, latent_means, latent_sd, plan
    )


def iris(
    n_users: int = 50,
    n_threads: int = 100,
    n_test_threads: int = 100,
    *,
    latent_means: ArrayLike = (0.0, 50.0, 100.0),
    latent_sd: float = 5.0,
    noise_variance: float = 5.0,
    participation_rate: float = 0.5,
    normalize: bool = True,
    repetition: int = 0,
    seed: int = 0,
) -> Forum:
    """A forum whose users are flowers: rows of Fisher's iris, drawn without replacement.

    Features are sepal width, petal length and petal width; the cluster is the species, in the order
    setosa, versicolor, virginica. The other arguments are as in :func:`agreement`.

    Examples
    --------
    >>> from dualview.datasets import iris
    >>> iris(n_users=50, n_threads=10, seed=0).feature_names
    ('sepal width (cm)', 'petal length (cm)', 'petal width (cm)')
    """
    plan = _Plan(
        n_threads, n_test_threads, noise_variance, participation_rate, normalize, repetition, seed
    )
    flowers = load_iris()
    n_flowers = len(flowers.target)
    if whole_number(n_users, "n_users", 1) > n_flowers:
        raise InputError(
            f"n_users must be at most {n_flowers}, the flowers in iris; got {n_users}. Ask for "
            "fewer."
        )
    rng = plan.users()
    rows = rng.choice(n_flowers, size=n_users, replace=False)
    labels = flowers.target[rows].astype(np.intp)
    latent = _latent(rng, labels, _means(latent_means, 3), latent_sd)
    return plan.forum(
        "iris", flowers.data[rows, 1:], tuple(flowers.feature_names[1:]), labels, latent
    )


@dataclass(frozen=True)
class _Plan:
    """How threads are drawn for given users."""

    n_threads: int
    n_test_threads: int
    noise_variance: float
    participation_rate: float
    normalize: bool
    repetition: int
    seed: int

    def __post_init__(self) -> None:
        whole_number(self.n_threads, "n_threads", 1)
        whole_number(self.n_test_threads, "n_test_threads", 0)
        whole_number(self.repetition, "repetition", 0)
        whole_number(self.seed, "seed", 0)
        number_in(self.noise_variance, "noise_variance", 0, math.inf)
        rate = self.participation_rate
        if not (isinstance(rate, Real) and 0.0 < rate <= 1.0):
            raise InputError(
                f"participation_rate must be a probability in (0, 1]; got {rate!r}. "
                "Pass the share of users in a usual thread, such as 0.5; at 0 no thread would "
                "have anybody."
            )

    def users(self) -> Generator:
        return default_rng(SeedSequence(self.seed, spawn_key=(_USERS,)))

    def forum(
        self,
        name: str,
        features: NDArray[np.float64],
        feature_names: tuple[str, ...],
        labels: NDArray[np.intp],
        latent: NDArray[np.float64],
    ) -> Forum:
        train = self._threads(latent, self.n_threads, (_TRAINING, self.repetition))
        test = self._threads(latent, self.n_test_threads, (_TEST,))
        return Forum(
            features, train.participation, train.outcome, labels, latent, test, feature_names, name
        )

    def _threads(
        self, latent: NDArray[np.float64], n_threads: int, key: tuple[int, ...]
    ) -> Threads:
        # One stream for each purpose, each read in the order of the threads: hence the prefix
        # property.
        joining, filling, noise = map(default_rng, SeedSequence(self.seed, spawn_key=key).spawn(3))
        takes_part = joining.random((n_threads, len(latent))) < self.participation_rate
        for thread in np.flatnonzero(~takes_part.any(axis=1)):
            takes_part[thread] = _row_with_somebody(filling, len(latent), self.participation_rate)
        participation = takes_part.astype(np.float64)
        if self.normalize:
            participation /= participation.sum(axis=1, keepdims=True)
        error = math.sqrt(self.noise_variance) * noise.standard_normal(n_threads)
        return Threads(participation, participation @ latent + error)


def _row_with_somebody(rng: Generator, n_users: int, rate: float) -> NDArray[np.bool_]:
    """A thread's row given that it is not empty: the distribution of redrawing until somebody takes
    part, at once."""
    weight = (1.0 - rate) ** np.arange(n_users)
    first = rng.choice(n_users, p=weight / weight.sum())
    row = rng.random(n_users) < rate
    row[:first] = False
    row[first] = True
    return row


def _circle(n_clusters: int, radius: float) -> NDArray[np.float64]:
    """Feature means, (n_clusters, 2)."""
    number_in(radius, "radius", 0, math.inf)
    angle = 2.0 * np.pi * np.arange(1, n_clusters + 1) / n_clusters
    return radius * np.column_stack([np.cos(angle), np.sin(angle)])


def _around(
    centers: NDArray[np.float64],
    name: str,
    n_users: int,
    feature_covariance: ArrayLike,
    latent_means: ArrayLike | None,
    latent_sd: float,
    plan: _Plan,
) -> Forum:
    """A forum of equal clusters with these feature means."""
    n_clusters = len(centers)
    if whole_number(n_users, "n_users", 1) < n_clusters:
        raise InputError(
            f"n_users must be at least n_clusters = {n_clusters}, or a cluster stays empty; got "
            f"{n_users}. "
            "Ask for more users or fewer clusters."
        )
    means = _means(
        LATENT_SPACING * np.arange(n_clusters) if latent_means is None else latent_means, n_clusters
    )
    factor = _factor(feature_covariance)
    rng = plan.users()
    labels = rng.permutation(np.arange(n_users, dtype=np.intp) % n_clusters)
    features = centers[labels] + rng.standard_normal((n_users, 2)) @ factor.T
    return plan.forum(name, features, ("x", "y"), labels, _latent(rng, labels, means, latent_sd))


def _latent(
    rng: Generator, labels: NDArray[np.intp], means: NDArray[np.float64], sd: float
) -> NDArray[np.float64]:
    """The users' coefficients."""
    return means[labels] + number_in(sd, "latent_sd", 0, math.inf) * rng.standard_normal(
        len(labels)
    )


def _factor(covariance: ArrayLike) -> NDArray[np.float64]:
    """The lower Cholesky factor of the features' covariance."""
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.shape != (2, 2):
        raise InputError(
            f"feature_covariance must be (2, 2); got {matrix.shape}. Pass [[v, c], [c, w]]: "
            "variances v and w, covariance c."
        )
    symmetric = np.isfinite(matrix).all() and np.allclose(matrix, matrix.T)
    if not (symmetric and (np.linalg.eigvalsh(matrix) > 0.0).all()):
        raise InputError(
            f"feature_covariance must be symmetric and positive definite; got {matrix.tolist()}. "
            "Pass a covariance, not a correlation or a factor of it."
        )
    return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)


def _means(latent_means: ArrayLike, n_clusters: int) -> NDArray[np.float64]:
    means = np.asarray(latent_means, dtype=np.float64)
    if means.shape != (n_clusters,) or not np.isfinite(means).all():
        raise InputError(
            f"latent_means must be {n_clusters} finite numbers, one for each cluster; got "
            f"{means.tolist()} "
            f"of shape {means.shape}. Pass one mean for each cluster."
        )
    return means
