"""DualViewMixture: the front door, by scikit-learn's conventions.

X (U, D) features; the behaviour travels in y, as an object with a length of U.
"""

import contextlib
import numbers as abstract
import warnings
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from dualview.behaviors import Behavior, SharedOutcome
from dualview.checks import whole_number
from dualview.errors import ConvergenceWarning, DataWarning, InputError
from dualview.features import checked_features, feature_names, feature_units, warn_of_ties
from dualview.inference.chains import Progress, Schedule, run_chains
from dualview.inference.progress import Bar
from dualview.inference.storage import Record
from dualview.model import Model
from dualview.partitions import partition_prior
from dualview.posterior import Posterior
from dualview.posterior.new_users import Candidates, NewUsers, outcomes
from dualview.posterior.predictive import NormalMixture
from dualview.starts import Labels, Start, by_kmeans, check_init
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
        labels = check_init(self.init, n_users, self.n_clusters)
        units: dict[str, Whitening] = {}
        working = likelihood = None
        if features is not None:
            units["features"] = self._feature_units(features)
            working = np.ascontiguousarray(units["features"].to_working(features))
        if behavior is not None:
            units["behavior"], likelihood = behavior.prepare(self.behavior_prior)
        model = Model(partition_prior(self.n_clusters), working, likelihood, n_users)
        start = self._start(labels, n_users, working, behavior, units)
        records = self._run(model, start)
        self.posterior_ = Posterior.from_records(
            records, units, likelihood, self._coords(n_users, features, behavior), self.n_clusters
        )
        self._placement = _Placement(self.posterior_)
        self.behavior_ = behavior
        self.labels_ = self.posterior_.partition("dahl")
        self.n_clusters_ = int(self.labels_.max()) + 1
        if behavior is None:
            self.__dict__.pop("latent_", None)
        else:
            self.latent_ = self.posterior_.flat("latent").mean(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):  # diagnostics divide by the spread of chains that stand still
            converged = self.posterior_.converged
        if not converged:
            warnings.warn(self.posterior_.verdict(), ConvergenceWarning, stacklevel=2)
        return self

    def fit_predict(self, X: Any = None, y: Any = None) -> Labels:
        """Fit and return the partition estimate."""
        return self.fit(X, y).labels_

    def predict(self, X: Any) -> Labels:
        """The most probable cluster of each new user, by its features; −1: a cluster of its own."""
        probabilities = self.predict_proba(X)
        chosen = np.argmax(probabilities, axis=1)
        return np.where(chosen < self.n_clusters_, chosen, -1)

    def predict_proba(self, X: Any) -> Array:
        """Probability that each new user belongs to each cluster of ``labels_``, by its features, (J, n_clusters_).

        When the number of clusters is inferred there is one more column: a cluster that nobody of the fit is in.
        """
        check_is_fitted(self, "posterior_")
        if "features" not in self.posterior_.units:
            raise InputError("This model was fitted without features, so it cannot place users by them: fit(X, behavior) can.")
        return self._new_users(X, None).probabilities()

    def predict_latent(self, X_new: Any = None, behavior_new: Any = None) -> NormalMixture:
        """Predictive distribution of the latent behaviour of users new to the fit.

        Parameters
        ----------
        X_new : array or DataFrame (J, D)
            Their features. None when the fit had no features.
        behavior_new : SharedOutcome, optional
            What they did so far. Columns of participation: the users of the fit, then the new ones (or the new ones alone).
            A thread may have one new user.
        """
        check_is_fitted(self, "posterior_")
        self._fitted_behavior()
        return self._new_users(X_new, behavior_new).latent()

    def predict_outcome(self, new: Any, X_new: Any = None) -> NormalMixture:
        """Predictive distribution of new outcomes.

        Parameters
        ----------
        new : SharedOutcome without outcome, or participation (T, U)
            Who takes part in each new thread. With X_new, (T, U + J): columns of the users of the fit, then of the new users.
        X_new : array or DataFrame (J, D), optional
            Features of J users unknown to the fit, whose behaviour is then predicted from them.
        """
        check_is_fitted(self, "posterior_")
        behavior = self._fitted_behavior()
        if X_new is None:
            forecast = behavior.forecast(new, *self._known, 0)
            return NormalMixture.over_draws(forecast.n, forecast.known, forecast.sds)
        users = self._new_users(X_new, None)
        return outcomes(behavior.forecast(new, *self._known, len(users)), users)

    def _fitted_behavior(self) -> Behavior:
        if self.behavior_ is None:
            raise InputError("This model was fitted without a behaviour, so it predicts no outcomes: fit(X, behavior) does.")
        return self.behavior_

    @property
    def _known(self) -> tuple[Array, dict[str, Array]]:
        """Draws of the latent behaviour of the fit's users, and of what predictions need besides."""
        post = self.posterior_
        return post.flat("latent"), {name: post.flat(name) for name in self._fitted_behavior().param_names}

    def _new_users(self, X: Any, behavior: Any) -> NewUsers:
        post = self.posterior_
        x = None
        if "features" in post.units:
            if X is None:
                raise InputError("This model was fitted with features: give those of the new users too.")
            x = np.ascontiguousarray(post.units["features"].to_working(checked_features(self, X, reset=False)))
            n_users = len(x)
        elif X is not None:
            raise InputError("This model was fitted without features: X_new must be None.")
        elif behavior is None:
            raise InputError("Without features, a new user is known by what it did only: give behavior_new.")
        else:
            n_users = len(behavior) if len(behavior) < post.n_users else len(behavior) - post.n_users
        if n_users == 0:
            raise InputError(
                f"behavior_new has a column for each of the {post.n_users} users of the fit and none for a new one: add theirs."
            )
        evidence = None if behavior is None else self._fitted_behavior().evidence(behavior, *self._known, n_users)
        return NewUsers(self._candidates, x, n_users, evidence)

    @property
    def _candidates(self) -> Candidates:
        """Made when first asked for, and kept with the posterior it belongs to."""
        if self._placement.posterior is not self.posterior_:
            self._placement = _Placement(self.posterior_)
        return self._placement.candidates

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def _check_parameters(self) -> None:
        for name, least in (("n_warmup", 0), ("n_draws", 1), ("thin", 1), ("n_chains", 1), ("n_auxiliary", 1)):
            whole_number(getattr(self, name), name, least)
        if self.n_clusters is not None:
            whole_number(self.n_clusters, "n_clusters (None: inferred)", 1)
        for name in ("feature_prior", "behavior_prior"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, GaussianPrior):
                raise InputError(f"{name} must be a GaussianPrior(mean, covariance) or None; got {type(value).__name__}.")
        if self.n_jobs is not None and (not isinstance(self.n_jobs, abstract.Integral) or self.n_jobs == 0):
            raise InputError(f"n_jobs must be None or a whole number other than 0 (-1: all cores); got {self.n_jobs!r}.")
        if not (self.progress is None or isinstance(self.progress, bool) or callable(self.progress)):
            raise InputError(
                f"progress must be True, False or a function of (chain, iteration, clusters); got {self.progress!r}."
            )

    def _features(self, X: Any) -> Array | None:
        if X is not None:
            return checked_features(self, X)
        for name in ("feature_names_in_", "n_features_in_"):
            self.__dict__.pop(name, None)
        return None

    def _feature_units(self, features: Array) -> Whitening:
        names = feature_names(self)
        if self.n_clusters != 1:
            warn_of_ties(features, names)
        return feature_units(features, names, self.feature_prior)

    def _check_users(self, features: Array | None, behavior: Behavior | None) -> int:
        if features is None and behavior is None:
            raise InputError("fit needs features X, a behaviour, or both; got neither.")
        for prior, view in (("feature_prior", features), ("behavior_prior", behavior)):
            if view is None and getattr(self, prior) is not None:
                warnings.warn(f"{prior} is not used: there is no such view in this fit.", DataWarning, stacklevel=3)
        sizes = [len(part) for part in (features, behavior) if part is not None]
        if len(set(sizes)) > 1:
            raise InputError(_user_mismatch(sizes[0], behavior))
        n_users = sizes[0]
        if n_users < 2:
            raise InputError(f"A mixture needs at least two users; got {n_users}.")
        if self.n_clusters is not None and self.n_clusters > n_users:
            raise InputError(f"n_clusters must be at most the number of users, {n_users}; got {self.n_clusters}.")
        return n_users

    def _start(
        self,
        labels: Labels | None,
        n_users: int,
        working: Array | None,
        behavior: Behavior | None,
        units: dict[str, Whitening],
    ) -> Start:
        if labels is None and self.init == "one":
            labels = np.zeros(n_users, dtype=np.int64)
        if labels is not None:
            return lambda _: labels.copy()
        if working is None:
            assert behavior is not None
            working = units["behavior"].to_working(behavior.ridge_estimate().reshape(n_users, -1))
        return by_kmeans(working, self.n_clusters)

    def _run(self, model: Model, start: Start) -> list[Record]:
        schedule = Schedule(self.n_warmup, self.n_draws, self.thin, self.n_auxiliary)
        with contextlib.ExitStack() as stack:
            progress: Progress | None = None
            if self.progress is True:
                progress = stack.enter_context(Bar(self.n_chains, schedule.n_iterations))
            elif self.progress:
                progress = self.progress
            return run_chains(model, start, schedule, _seed(self.random_state), self.n_chains, self.n_jobs, progress)

    def _coords(self, n_users: int, features: Array | None, behavior: Behavior | None) -> dict[str, Any]:
        coords: dict[str, Any] = {"user": np.arange(n_users)}
        if features is not None:
            coords["feature"] = coords["feature_other"] = feature_names(self)
        if isinstance(behavior, SharedOutcome):
            coords["coefficient"] = behavior.coefficient_names
        return coords


class _Placement:
    """Keeps the candidates of a posterior beside the estimator, whose attributes a prediction may not change."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = posterior

    @cached_property
    def candidates(self) -> Candidates:
        return Candidates(self.posterior)


def _behavior(y: Any) -> Behavior | None:
    if isinstance(y, type):
        raise InputError(f"y must be a behaviour; got the class {y.__name__}. Make one: {y.__name__}(...).")
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
    message = f"X and behaviour must be of the same users: X has {n_rows} rows, the behaviour has {len(behavior)} users."
    if getattr(behavior, "n_observations", None) == n_rows:
        return (
            f"{message} It has {n_rows} threads: if participation is (n_users, n_threads), it is transposed and "
            "participation.T is right; else give X a row per user, not per thread."
        )
    return f"{message} Give both the same users, in the same order."


def _seed(random_state: Any) -> np.random.SeedSequence:
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, abstract.Integral) and not isinstance(random_state, bool) and int(random_state) >= 0:
        return np.random.SeedSequence(int(random_state))
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(2**63)))
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(int(random_state.randint(2**31)))
    raise InputError(f"random_state must be an int from 0, a Generator, a RandomState or None; got {random_state!r}.")
