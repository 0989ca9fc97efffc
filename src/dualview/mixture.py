"""DualViewMixture: the front door, by scikit-learn's conventions.

X (U, D) features; the behaviour travels in y, as an object with a length of U.
"""

import contextlib
import numbers as abstract
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted, validate_data

from dualview.behaviors import Behavior, SharedOutcome
from dualview.checks import rows_text
from dualview.errors import DataWarning, InputError
from dualview.inference.chains import Progress, Schedule, run_chains
from dualview.inference.progress import Bar
from dualview.model import Model
from dualview.partitions import ChineseRestaurant, FiniteDirichlet, OneCluster, PartitionPrior
from dualview.posterior import Posterior
from dualview.posterior.predictive import NormalMixture
from dualview.units import GaussianPrior, Whitening

Array = NDArray[np.float64]


class DualViewMixture(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters of users from what they are and from what they do.

    A mixture over users with a Gaussian component over the features and one over the latent behaviour, sampled by Gibbs.
    Without X there is no feature view, without a behaviour no behaviour view.

    Parameters
    ----------
    n_clusters : int or None
        None: inferred by a Dirichlet process. An int: fixed (some may stay empty). 1: everybody together.
    n_warmup, n_draws, thin, n_chains : int
        Each chain runs n_warmup iterations, then keeps n_draws states, every thin-th.
    n_auxiliary : int
        Auxiliary components per user in the assignment sweep (Neal 2000, algorithm 8). Any number gives the same posterior.
    init : "kmeans", "one" or array (U,)
        Where chains start: k-means with n_clusters (10 when inferred), everybody together, or given labels.
    feature_prior, behavior_prior : GaussianPrior, optional
        The constants (m, Σ) of a view in the data's units; from the data by default.
    n_jobs : int, optional
        Chains at a time, as joblib takes it.
    random_state : int, Generator, RandomState or None
        Same int, same draws.
    progress : bool or callable
        True: a bar on the terminal. A callable gets (chain, iteration, clusters now).

    Attributes
    ----------
    labels_ : array (U,)
        The partition estimate, clusters numbered from the largest.
    n_clusters_ : int
        Its number of clusters.
    latent_ : array (U,) or (U, q)
        Posterior mean of each user's latent behaviour.
    posterior_ : Posterior
        All draws by name.

    Examples
    --------
    >>> import dualview as dv
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    >>> model = dv.DualViewMixture(n_warmup=50, n_draws=50, n_chains=1)
    >>> model = model.fit(forum.features, dv.SharedOutcome(forum.participation, forum.outcome))
    >>> model.labels_.shape, model.latent_.shape
    ((20,), (20,))
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        n_warmup: int = 1000,
        n_draws: int = 1000,
        thin: int = 1,
        n_chains: int = 4,
        n_auxiliary: int = 3,
        init: Any = "kmeans",
        feature_prior: GaussianPrior | None = None,
        behavior_prior: GaussianPrior | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        progress: bool | Progress = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.thin = thin
        self.n_chains = n_chains
        self.n_auxiliary = n_auxiliary
        self.init = init
        self.feature_prior = feature_prior
        self.behavior_prior = behavior_prior
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Draw from the posterior.

        Parameters
        ----------
        X : array or DataFrame (U, D), optional
            Features of the users.
        y : behaviour, optional
            What the users did, for example ``SharedOutcome(participation, outcome)``.
        """
        self._check_parameters()
        behavior = _behavior(y)
        features = self._features(X)
        n_users = self._check_users(features, behavior)
        units: dict[str, Whitening] = {}
        working = likelihood = None
        if features is not None:
            units["features"] = self._feature_units(features)
            working = np.ascontiguousarray(units["features"].to_working(features))
        if behavior is not None:
            units["behavior"], likelihood = behavior.prepare(self.behavior_prior)
        model = Model(self._partition(n_users), working, likelihood, n_users)
        schedule = Schedule(self.n_warmup, self.n_draws, self.thin, self.n_auxiliary)
        start_vectors = self._start_vectors(working, behavior, units)
        with contextlib.ExitStack() as stack:
            progress: Progress | None = None
            if self.progress is True:
                progress = stack.enter_context(Bar(self.n_chains, schedule.n_iterations))
            elif self.progress:
                progress = self.progress
            records = run_chains(
                model,
                lambda rng: self._start(rng, n_users, start_vectors),
                schedule,
                _seed(self.random_state),
                self.n_chains,
                self.n_jobs,
                progress,
            )
        coords = self._coords(n_users, features, behavior)
        self.posterior_ = Posterior.from_records(records, units, likelihood, coords)
        self.behavior_ = behavior
        self.labels_ = self.posterior_.partition("dahl")
        self.n_clusters_ = int(self.labels_.max()) + 1
        if behavior is not None:
            self.latent_ = self.posterior_.flat("latent").mean(axis=0)
        return self

    def fit_predict(self, X: Any = None, y: Any = None, **kwargs: Any) -> NDArray[np.int64]:
        """Fit and return the partition estimate."""
        return self.fit(X, y, **kwargs).labels_

    def predict_outcome(self, new: Any) -> NormalMixture:
        """Predictive distribution of outcomes that users of the fit produce.

        Parameters
        ----------
        new : SharedOutcome without outcome, or participation (T, U)
            Who takes part in each new thread.
        """
        check_is_fitted(self, "posterior_")
        if self.behavior_ is None:
            raise InputError("This model was fitted without a behaviour, so it predicts no outcomes: fit(X, behavior) does.")
        post = self.posterior_
        params = {name: post.flat(name) for name in self.behavior_.param_names}
        return NormalMixture(*self.behavior_.prediction(new, post.flat("latent"), params))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def _check_parameters(self) -> None:
        for name, least in (
            ("n_warmup", 0),
            ("n_draws", 1),
            ("thin", 1),
            ("n_chains", 1),
            ("n_auxiliary", 1),
        ):
            value = getattr(self, name)
            if not isinstance(value, abstract.Integral) or isinstance(value, bool) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}.")
        if self.n_clusters is not None and (not isinstance(self.n_clusters, abstract.Integral) or self.n_clusters < 1):
            raise InputError(f"n_clusters must be None (inferred) or a whole number of at least 1; got {self.n_clusters!r}.")
        for name in ("feature_prior", "behavior_prior"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, GaussianPrior):
                raise InputError(f"{name} must be a GaussianPrior(mean, covariance) or None; got {type(value).__name__}.")

    def _features(self, X: Any) -> Array | None:
        if X is None:
            for name in ("feature_names_in_", "n_features_in_"):
                self.__dict__.pop(name, None)
            return None
        try:
            features = validate_data(self, X, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=2)
        except (TypeError, ValueError) as error:
            if "could not convert string" in str(error):
                raise InputError(f"X must hold numbers only: {error}. Encode or drop columns of text.") from None
            raise
        finite = np.isfinite(features)
        if not finite.all():
            columns = ", ".join(str(self._feature_names()[j]) for j in np.flatnonzero(~finite.all(axis=0))[:5])
            raise InputError(
                f"X must be finite; it contains NaN or infinity (inf) in {rows_text(~finite.all(axis=1))}, "
                f"column(s) {columns}. Drop or fill them first."
            )
        return np.asarray(features)

    def _feature_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if names is None else list(names)

    def _check_users(self, features: Array | None, behavior: Behavior | None) -> int:
        if features is None and behavior is None:
            raise InputError("fit needs features X, a behaviour, or both; got neither.")
        sizes = [len(part) for part in (features, behavior) if part is not None]
        if features is not None and behavior is not None and sizes[0] != sizes[1]:
            raise InputError(_user_mismatch(sizes[0], behavior))
        n_users = sizes[0]
        if n_users < 2:
            raise InputError(f"A mixture needs at least two users; got {n_users}.")
        if self.n_clusters is not None and self.n_clusters > n_users:
            raise InputError(f"n_clusters must be at most the number of users, {n_users}; got {self.n_clusters}.")
        return n_users

    def _partition(self, n_users: int) -> PartitionPrior:  # noqa: ARG002
        if self.n_clusters is None:
            return ChineseRestaurant()
        return OneCluster() if self.n_clusters == 1 else FiniteDirichlet(int(self.n_clusters))

    def _feature_units(self, features: Array) -> Whitening:
        if self.feature_prior is not None:
            self.feature_prior.check_size(features.shape[1], "feature_prior")
            return Whitening.of(self.feature_prior)
        units = Whitening.of_data(features)
        if units.n_dims == 0:
            raise InputError(
                "All features are constant: there is nothing to cluster by. Pass X=None to cluster by behaviour alone."
            )
        if units.n_dims < features.shape[1]:
            warnings.warn(_rank_message(features, self._feature_names(), units), DataWarning, stacklevel=3)
        return units

    def _start_vectors(self, working: Array | None, behavior: Behavior | None, units: dict[str, Whitening]) -> Array:
        if working is not None:
            return working
        assert behavior is not None
        return units["behavior"].to_working(behavior.ridge_estimate().reshape(len(behavior), -1))

    def _start(self, rng: np.random.Generator, n_users: int, vectors: Array) -> NDArray[np.int64]:
        """The first partition of a chain."""
        limit = self.n_clusters or n_users
        if isinstance(self.init, str) and self.init == "one":
            return np.zeros(n_users, dtype=np.int64)
        if isinstance(self.init, str) and self.init == "kmeans":
            distinct = len(np.unique(vectors, axis=0))
            n_clusters = min(self.n_clusters or 10, n_users, distinct)
            kmeans = KMeans(n_clusters, n_init=1, random_state=int(rng.integers(2**31)))
            z = kmeans.fit_predict(vectors)
        elif isinstance(self.init, str):
            raise InputError(f"init must be 'kmeans', 'one' or an array of labels; got {self.init!r}.")
        else:
            z = np.asarray(self.init)
            if z.shape != (n_users,):
                raise InputError(f"init must have one label per user, shape ({n_users},); got {z.shape}.")
        labels = np.unique(z, return_inverse=True)[1]
        if labels.max() >= limit:
            raise InputError(f"init has {labels.max() + 1} clusters, more than n_clusters = {limit}.")
        return labels.astype(np.int64)

    def _coords(self, n_users: int, features: Array | None, behavior: Behavior | None) -> dict[str, Any]:
        coords: dict[str, Any] = {"user": np.arange(n_users)}
        if features is not None:
            coords["feature"] = coords["feature_other"] = self._feature_names()
        if isinstance(behavior, SharedOutcome):
            coords["coefficient"] = behavior.coefficient_names
        return coords


def _behavior(y: Any) -> Behavior | None:
    if y is None or isinstance(y, Behavior):
        return y
    warnings.warn(
        f"y is not a behaviour ({type(y).__name__}) and is ignored, as scikit-learn's clusterers do. A behaviour is for "
        "example dv.SharedOutcome(participation, outcome).",
        DataWarning,
        stacklevel=3,
    )
    return None


def _user_mismatch(n_rows: int, behavior: Any) -> str:
    message = f"features and behaviour must be of the same users: X has {n_rows} rows, the behaviour has {len(behavior)} users."
    if getattr(behavior, "n_observations", None) == n_rows:
        message += " participation looks transposed: it is (n_threads, n_users); pass participation.T."
    return message


def _rank_message(features: Array, names: list[str], units: Whitening) -> str:
    constant = [name for name, row in zip(names, units.factor, strict=True) if not np.any(row)]
    null = np.eye(len(names)) - units.factor @ units.inverse
    involved = [name for name, row in zip(names, null, strict=True) if name not in constant and np.abs(row).max() > 1e-6]
    n_users, n_dims = features.shape
    parts = []
    if constant:
        parts.append(f"constant: {', '.join(constant)}")
    if involved and n_users <= n_dims:
        parts.append(f"only {n_users} users for {n_dims} features")
    if involved:
        parts.append(f"linearly dependent: {', '.join(involved)}")
    return (
        f"The features span {units.n_dims} of {n_dims} dimensions ({'; '.join(parts)}). The model works in the dimensions "
        "they span; nothing else is lost."
    )


def _seed(random_state: Any) -> np.random.SeedSequence:
    if random_state is None or isinstance(random_state, abstract.Integral):
        return np.random.SeedSequence(None if random_state is None else int(random_state))
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(2**63)))
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(int(random_state.randint(2**31)))
    raise InputError(f"random_state must be an int, a Generator, a RandomState or None; got {random_state!r}.")
