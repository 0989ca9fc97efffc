"""DualViewMixture: the front door, by scikit-learn's conventions.

X (U, D) features; the behaviour travels in y, as an object with a length of U.
"""

import contextlib
import numbers as abstract
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.utils.validation import check_is_fitted

from dualview.behaviors import Behavior, Likelihood
from dualview.behaviors.base import check_inherits
from dualview.behaviors.likelihoods.linked import LinkedLikelihood
from dualview.chains.chain import Chain, Progress
from dualview.chains.chains import Drawn, run_chains
from dualview.chains.progress import Bar, Watcher
from dualview.chains.run_folder import UNTIL_GOOD, RunFolder, versions
from dualview.chains.schedule import FixedLength, Length, Schedule, UntilGood, check_length, most_draws
from dualview.chains.storage import Record
from dualview.checks import positive_number, whole_number
from dualview.engines.gibbs import GibbsEngine
from dualview.engines.starts import GivenStart, KMeansStart, Labels, Start, check_init
from dualview.errors import ConvergenceWarning, DataWarning, DegenerateError, InputError
from dualview.files.digests import digest
from dualview.inputs.features import (
    check_room,
    checked_features,
    feature_names,
    feature_units,
    repeated_rows,
    repeats_text,
    row_ids,
    warn_of_many_features,
    warn_of_ties,
)
from dualview.model import Model
from dualview.partitions.alpha import concentration, concentration_from_text
from dualview.partitions.choice import PartitionNames, partition_prior, partition_process, partition_text
from dualview.posterior import Posterior
from dualview.posterior.checking import checks_of
from dualview.posterior.diagnostics import check_enough
from dualview.posterior.judge import Judge
from dualview.posterior.model_checks import Checks
from dualview.posterior.rebuilt import observations_of
from dualview.predictions import Placement, Predictions
from dualview.settings import Settings, check_values, choices, defaults, setting_names
from dualview.units import GaussianPrior, Whitening

Array = NDArray[np.float64]

# Settings that can be objects here, not only words and numbers.
_WIDER = ("alpha", "partition", "feature_prior", "behavior_prior", "seed")
_LOOKS = 4  # at chains of fixed length, where somebody watches
_FEW_USERS = 20  # with fewer, the clusters that chains start from are more than half as many


class DualViewMixture(Predictions, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters of users from what they are and from what they do.

    A mixture over users with a Gaussian component over the features and one over the latent behaviour, sampled by Gibbs.
    Without X there is no feature view, without a behaviour no behaviour view.

    Parameters
    ----------
    n_clusters : int or None
        None: inferred by a Dirichlet process. An int: fixed (some may stay empty). 1: everybody together.
    alpha : None, "paper", float, Gamma or InverseGamma
        The concentration of the prior over partitions: more of it, more clusters. None: learnt, with a prior that allows for
        one cluster as well as for many, α ~ Gamma(1/4, 1/4). "paper": learnt, with the paper's prior, 1/α ~ G(1, 1), under
        which everybody alone is about as likely as everybody together. A number: known. ``Gamma(shape, rate)`` or
        ``InverseGamma(shape, scale)``: learnt, with that prior. With one cluster there is no α.
    partition : None or PitmanYor
        The process behind an inferred number of clusters. None: a Dirichlet process. ``PitmanYor(discount)``: one with more
        small clusters, whose number grows faster with the users.
    n_warmup : int or None
        None: chains run until they have converged by the library's own verdict (R̂ below 1.01 and at least 400 effective draws
        of everything looked at), and the warm-up is chosen: a fifth to a half of each chain, at its beginning. A number alone:
        chains of fixed length, n_warmup + n_draws × thin iterations. A number with ``max_time`` or ``max_draws``: so many
        iterations are warm-up, then chains run until they have converged.
    n_draws, n_chains : int
        Draws that are kept of each chain, and number of chains. Chains that run until they have converged keep no more than
        n_draws however long they get: draws that lie further apart.
    max_time : float, optional
        Seconds after which chains end that have not converged; compiling, on a machine's first fit, does not count. The draws
        then depend on the machine's speed; ``posterior_.length`` says so. None: no limit.
    max_draws : int, optional
        Draws of each chain, kept or not, after which chains end that have not converged. None: 100 × n_draws; with more than
        500 users fewer, down to 2 × n_draws.
    thin : int
        Iterations for each draw, at the least.
    n_auxiliary : int
        Auxiliary components that stand ready for new clusters in the assignment sweep (Neal 2000, algorithm 8; Favaro and Teh
        2013). Any number gives the same posterior; more make new clusters easier to open.
    init : "kmeans", "one" or array (U,)
        Where chains start: k-means with n_clusters (10 when inferred), everybody together, or given labels.
    feature_prior, behavior_prior : GaussianPrior, optional
        The constants (m, Σ) of a view in the data's units; from the data by default. feature_prior="shrunk" or "diagonal", for
        many features and few users: Σ is the sample covariance shrunk towards its diagonal (Ledoit and Wolf 2004), or the
        diagonal alone. behavior_prior="likelihood", for ``SharedOutcome``: those under which the outcomes are most likely with
        one cluster; better than the default, which is the paper's, when users have few threads.
    link : None or "linear"
        None: given the cluster, features say nothing more about behaviour. "linear": latent behaviour also follows the features
        along slopes that all clusters share; ``posterior_["slopes"]``, in your units.
    pooling : None or "cluster"
        None: each user has a latent behaviour of its own, spread about its cluster's. "cluster": the users of a cluster share
        one, with nothing of their own; fewer unknowns, for few observations per user. Only the behaviour view changes.
    keep : "draws" or "summary"
        "draws": every draw whole. "summary", for very many users: of every draw the numbers that do not depend on how clusters
        are numbered, running moments of the latent behaviour, and about ``n_whole`` whole draws, spread evenly, which partition
        estimates and predictions then use.
    n_whole : int
        Whole draws of each chain in a summary.
    checkpoint : path, optional
        A folder to save draws and states in. Fitting again with the same data, settings and folder goes on where the files
        stop, to the same draws bit for bit. max_time and max_draws may change; n_draws may grow where lengths are fixed.
    checkpoint_interval : float
        Seconds between two savings.
    n_jobs : int, optional
        Chains at a time, as joblib takes it: threads, or what ``joblib.parallel_config`` says (processes, Dask). None: as many
        as there are cores, and one with more than 100,000 users, unless a joblib context or a parallel search around the fit
        says otherwise. The draws are the same.
    random_state : int, Generator, RandomState or None
        Same int, same draws.
    progress : bool or callable
        True: a line on the terminal or in the notebook, with the largest R̂ and the least effective size so far, clusters,
        seconds and an estimate of those to go. A callable gets (chain, iterations done, clusters now), after one iteration or
        some; from other processes every two seconds.

    Attributes
    ----------
    labels_ : array (U,)
        The partition estimate, clusters numbered from the largest.
    n_clusters_ : int
        Its number of clusters.
    latent_ : array (U,) or (U, q)
        Posterior median of each user's latent behaviour: users without observations need not have a mean.
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
        alpha: Any = None,
        partition: Any = None,
        n_warmup: int | None = None,
        n_draws: int = 1000,
        max_time: float | None = None,
        max_draws: int | None = None,
        thin: int = 1,
        n_chains: int = 4,
        n_auxiliary: int = 3,
        init: Any = "kmeans",
        feature_prior: GaussianPrior | str | None = None,
        behavior_prior: GaussianPrior | str | None = None,
        link: str | None = None,
        pooling: str | None = None,
        keep: str = "draws",
        n_whole: int = 100,
        checkpoint: Any = None,
        checkpoint_interval: float = 1.0,
        n_jobs: int | None = None,
        random_state: Any = 0,
        progress: bool | Progress = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.partition = partition
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.max_time = max_time
        self.max_draws = max_draws
        self.thin = thin
        self.n_chains = n_chains
        self.n_auxiliary = n_auxiliary
        self.init = init
        self.feature_prior = feature_prior
        self.behavior_prior = behavior_prior
        self.link = link
        self.pooling = pooling
        self.keep = keep
        self.n_whole = n_whole
        self.checkpoint = checkpoint
        self.checkpoint_interval = checkpoint_interval
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
            What the users did: ``SharedOutcome``, ``UserRegression``, ``BinaryOutcomes`` or ``PairwiseChoices``.
        """
        self._check_parameters()
        behavior = _behavior(y)
        features = self._features(X)
        ids = row_ids(X)
        if behavior is not None:
            behavior = behavior if ids is None else behavior.aligned(ids)
            ids = ids or behavior.users
        n_users = self._check_users(features, behavior)
        labels = check_init(self.init, n_users, self.n_clusters)
        users = range(n_users) if ids is None else ids
        units: dict[str, Whitening] = {}
        working = likelihood = None
        if features is not None:
            units["features"] = self._feature_units(features, users)
            working = np.ascontiguousarray(units["features"].to_working(features))
        if behavior is not None:
            units["behavior"], likelihood = behavior.prepare(self._behavior_prior(features, behavior))
            check_inherits(likelihood, Likelihood, f"What {type(behavior).__name__}.prepare returns")
        if self.link is not None and likelihood is not None and working is not None:
            likelihood = LinkedLikelihood.of(likelihood, working, units["behavior"], units["features"])
        partition = partition_prior(self.n_clusters, concentration(self.alpha), self.partition)
        model = Model(partition, working, likelihood, n_users, pooled=self.pooling is not None)
        start = self._start(labels, n_users, working, behavior, units)
        coords = self._coords(users, features, behavior)

        partition_named = PartitionNames(self.n_clusters, self._alpha_text, partition_text(self.partition))

        def made(records: list[Record], length: Length) -> Posterior:
            return Posterior.from_records(records, units, likelihood, coords, partition_named, length)

        with contextlib.ExitStack() as stack:
            folder, seed = self._folder(stack, features, behavior, labels)
            try:
                drawn = self._run(stack, model, start, folder, seed, made)
            except DegenerateError as error:
                raise DegenerateError(_with_culprits(str(error), features, users)) from error
            if folder is not None:
                folder.note_length(drawn.length._asdict())
        self._take(made(*drawn).with_data(features, behavior), behavior)
        if not self.posterior_.converged:
            warnings.warn(self.posterior_.verdict(), ConvergenceWarning, stacklevel=2)
        if self.n_clusters is None and n_users >= _FEW_USERS and 2 * self.n_clusters_ > n_users:
            warnings.warn(_many_clusters(self.n_clusters_, n_users), DataWarning, stacklevel=2)
        return self

    @classmethod
    def from_posterior(cls, posterior: Posterior) -> Self:
        """An estimator that predicts from a posterior, for example one that ``dualview.load`` read."""
        model = cls(
            posterior.n_clusters,
            alpha=concentration_from_text(posterior.alpha_prior),
            partition=partition_process(posterior.partition_process),
            link="linear" if "slopes" in posterior else None,
            pooling=posterior.pooling,
        )
        if "features" in posterior.units:
            names = posterior.feature_names
            model.n_features_in_ = len(names)
            if names != [f"x{j}" for j in range(len(names))]:  # else X came without names
                model.feature_names_in_ = np.array(names, dtype=object)
        model._take(posterior, posterior.behavior)
        return model

    def _take(self, posterior: Posterior, behavior: Behavior | None) -> None:
        """Set everything that follows from a posterior."""
        self.posterior_ = posterior
        self._placement = Placement(posterior)
        self.behavior_ = behavior
        self.labels_ = posterior.partition("dahl")
        self.n_clusters_ = int(self.labels_.max()) + 1
        if behavior is None:
            self.__dict__.pop("latent_", None)
        else:
            self.latent_ = posterior.latent_median

    def check(self, behavior: Behavior | None = None, *, refit: bool = True, seed: int = 0) -> Checks:
        """Does the model fit its data? Checks of outcomes, features, clusters, link, views and priors, each with a verdict.

        Diagnostics say whether chains agree; this says whether what they agree on is like the data. Each check has a p-value,
        or a figure, and says "fine", "look here" (p below 0.01) or "the model is wrong here" (p below 0.001), with what to try.

        Parameters
        ----------
        behavior : behaviour, optional
            The observations of the fit, for a model that was made from a file.
        refit : bool
            Fit the features alone and the behaviour alone, with short chains, to see whether the views agree.
        seed : int
            Of replicates and of these fits.

        Examples
        --------
        >>> import dualview as dv
        >>> forum = dv.datasets.agreement(n_users=25, n_threads=60, seed=1)
        >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
        >>> model = dv.DualViewMixture(n_warmup=100, n_draws=100, n_chains=2).fit(forum.features, behavior)
        >>> checks = model.check(refit=False)
        >>> checks["outcomes"].verdict
        'fine'
        """
        check_is_fitted(self, "posterior_")
        whole_number(seed, "seed", 0)
        post = self.posterior_
        observations = observations_of(post, behavior)
        views = None
        if refit and observations is not None and post.features is not None:
            views = [self._refitted(post.features, None, seed), self._refitted(None, observations, seed)]
        return checks_of(post, observations, views, seed)

    def _refitted(self, X: Any, y: Any, seed: int) -> Posterior:
        """A short fit to one view, with this estimator's settings for it."""
        unused = {"behavior_prior": None, "pooling": None} if y is None else {"feature_prior": None}
        short = {"n_warmup": 500, "n_draws": 250, "n_chains": 2, "thin": 1, "keep": "draws", "checkpoint": None}
        one: Self = clone(self).set_params(link=None, progress=False, random_state=seed, init="kmeans", **short, **unused)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return one.fit(X, y).posterior_

    def fit_predict(self, X: Any = None, y: Any = None) -> Labels:
        """Fit and return the partition estimate."""
        return self.fit(X, y).labels_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def _check_parameters(self) -> None:
        check_values(Settings, {name: getattr(self, name) for name in setting_names(Settings) if name not in _WIDER})
        whole_number(self.n_auxiliary, "n_auxiliary", 1)
        check_length(self.n_warmup, self.n_draws, self.thin, self.n_chains, self.max_draws)
        if not self._is_fixed:
            check_enough(self.n_draws, self.n_chains)
        concentration(self.alpha)
        if partition_process(self.partition) is not None and self.n_clusters is not None:
            raise InputError(
                f"partition is for an inferred number of clusters; got n_clusters={self.n_clusters} as well. Leave one out."
            )
        for name in ("feature_prior", "behavior_prior"):
            _check_prior(name, getattr(self, name))
        if self.n_jobs is not None and (not isinstance(self.n_jobs, abstract.Integral) or self.n_jobs == 0):
            raise InputError(f"n_jobs must be None or a whole number other than 0 (-1: all cores); got {self.n_jobs!r}.")
        positive_number(self.checkpoint_interval, "checkpoint_interval")
        if not (self.checkpoint is None or isinstance(self.checkpoint, str | os.PathLike)):
            raise InputError(f"checkpoint must be a folder's path or None; got {self.checkpoint!r}.")
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

    def _feature_units(self, features: Array, users: Sequence[Any]) -> Whitening:
        names = feature_names(self)
        n_kept = self.n_draws if self.keep == "draws" else min(self.n_draws, self.n_whole)
        check_room(len(names), self.n_chains * n_kept)
        units = feature_units(features, names, self.feature_prior)
        warn_of_ties(features, names, users, self.n_clusters)
        if self.n_clusters != 1 and self.feature_prior is None:
            warn_of_many_features(len(features), units)
        return units

    def _behavior_prior(self, features: Array | None, behavior: Behavior) -> GaussianPrior | None:
        if not isinstance(self.behavior_prior, str):
            return self.behavior_prior
        return behavior.likely_prior(features)

    def _check_users(self, features: Array | None, behavior: Behavior | None) -> int:
        if features is None and behavior is None:
            raise InputError("fit needs features X, a behaviour, or both; got neither.")
        for name, view in (("feature_prior", features), ("behavior_prior", behavior), ("pooling", behavior)):
            if view is None and getattr(self, name) is not None:
                warnings.warn(f"{name} is not used: there is no such view in this fit.", DataWarning, stacklevel=3)
        if self.n_clusters == 1 and self.alpha is not None:
            warnings.warn("alpha is not used: with one cluster there is none.", DataWarning, stacklevel=3)
        if self.link is not None and (features is None or behavior is None):
            missing = "features X" if features is None else "a behaviour"
            raise InputError(f'link="linear" joins features and behaviour; this fit lacks {missing}. Give both, or link=None.')
        sizes = [len(part) for part in (features, behavior) if part is not None]
        if len(set(sizes)) > 1:
            assert behavior is not None
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
            return GivenStart(labels)
        if working is None:
            assert behavior is not None
            working = units["behavior"].to_working(behavior.ridge_estimate().reshape(n_users, -1))
        return KMeansStart(working, self.n_clusters)

    def _folder(
        self, stack: contextlib.ExitStack, features: Array | None, behavior: Behavior | None, labels: Labels | None
    ) -> tuple[RunFolder | None, np.random.SeedSequence]:
        """The locked folder of the run, where one is wanted, and the seed: in a folder, that of its first sitting."""
        seed = _seed(self.random_state)
        if self.checkpoint is None:
            return None, seed
        folder = RunFolder(self.checkpoint)
        stack.enter_context(folder.lock())
        made_with = self._made_with(features, behavior, labels)
        manifest = folder.claim(made_with, {"entropy": str(seed.entropy), "versions": versions()})
        return folder, np.random.SeedSequence(int(manifest["entropy"]))

    def _made_with(self, features: Array | None, behavior: Behavior | None, labels: Labels | None) -> dict[str, Any]:
        """Everything that decides which numbers are drawn, in a form that can be compared and shown."""
        always, usual = (*setting_names(Settings, "always"), "n_auxiliary"), defaults(Settings)
        others = setting_names(Settings, "if changed")
        made_with: dict[str, Any] = {name: None if (value := getattr(self, name)) is None else int(value) for name in always}
        if self._alpha_text is not None:
            made_with["alpha"] = self._alpha_text
        if self.partition is not None:
            made_with["partition"] = partition_text(self.partition)
        made_with |= {name: value for name in others if (value := getattr(self, name)) != usual[name]}
        if not self._is_fixed:
            made_with["length"] = UNTIL_GOOD
        if self.keep == "summary":
            made_with["whole draws, every"] = max(1, self.n_draws // self.n_whole)
        made_with |= {"init": self.init if labels is None else digest(labels)}
        made_with |= {name: _prior_text(getattr(self, name)) for name in ("feature_prior", "behavior_prior")}
        if isinstance(self.random_state, abstract.Integral):
            made_with["random_state"] = int(self.random_state)
        made_with["features"] = None if features is None else digest(features)
        if behavior is not None:
            made_with |= behavior.fingerprint()
        return made_with

    @property
    def _alpha_text(self) -> str | None:
        """The prior of α in words; None with one cluster."""
        return None if self.n_clusters == 1 else str(concentration(self.alpha))

    @property
    def _is_fixed(self) -> bool:
        return Settings(n_warmup=self.n_warmup, max_time=self.max_time, max_draws=self.max_draws).is_fixed

    @property
    def _n_whole(self) -> int | None:
        return int(self.n_whole) if self.keep == "summary" else None

    def _schedule(self, n_users: int, n_looks: int) -> Schedule:
        """Chains of fixed length, looked at a few times on the way, or chains that run until they are good.

        A summary's moments cannot be taken apart, so that its warm-up is known from the start: n_draws × thin by default.
        """
        lengths = self.n_draws, self.thin, self._n_whole
        if self._is_fixed:
            return FixedLength(self.n_warmup or 0, *lengths, looks=n_looks)
        limit = most_draws(self.n_draws, self.thin, n_users) if self.max_draws is None else int(self.max_draws)
        if self.n_warmup is None and self.keep == "draws":
            return UntilGood(0, *lengths, max_draws=limit)
        warmup = self.n_draws * self.thin if self.n_warmup is None else self.n_warmup
        return UntilGood(warmup, *lengths, max_draws=limit, chosen=False)

    def _run(
        self,
        stack: contextlib.ExitStack,
        model: Model,
        start: Start,
        folder: RunFolder | None,
        seed: np.random.SeedSequence,
        made: Callable[[list[Record], Length], Posterior],
    ) -> Drawn:
        watched = self.progress is True or isinstance(self.progress, Watcher)
        schedule = self._schedule(model.n_users, _LOOKS if watched else 0)
        progress: Progress | None = None
        if self.progress is True:
            progress = stack.enter_context(Bar(self.n_chains, schedule, self.max_time))
        elif self.progress:
            progress = self.progress

        engine = GibbsEngine(int(self.n_auxiliary))
        chains = [
            Chain(index, child, model, engine, start, schedule, folder, float(self.checkpoint_interval))
            for index, child in enumerate(seed.spawn(self.n_chains))
        ]
        judge = Judge(made, progress if isinstance(progress, Watcher) else None)
        return run_chains(chains, self.n_jobs, progress, judge, self.max_time)

    def _coords(self, users: Sequence[Any], features: Array | None, behavior: Behavior | None) -> dict[str, Any]:
        coords: dict[str, Any] = {"user": np.asarray(users)}
        if features is not None:
            coords["feature"] = coords["feature_other"] = feature_names(self)
        if behavior is not None:
            coords |= behavior.coords()
        for kind, names in coords.items():
            odd = [name for name in names if isinstance(name, str) and "\0" in name]
            if odd:  # files of results cannot hold them
                raise InputError(f"The name of a {kind} has a NUL character: {odd[0]!r}. Give it another name.")
        return coords


def _behavior(y: Any) -> Behavior | None:
    if isinstance(y, type):
        raise InputError(f"y must be a behaviour; got the class {y.__name__}. Make one: {y.__name__}(...).")
    if y is None or isinstance(y, Behavior):
        return y
    if hasattr(y, "prepare"):  # written as a behaviour, which is not to be passed over
        check_inherits(y, Behavior, "A behaviour")
    warnings.warn(
        f"y is not a behaviour ({type(y).__name__}) and is ignored, as scikit-learn's clusterers do. A behaviour is for "
        "example dv.SharedOutcome(participation, outcome).",
        DataWarning,
        stacklevel=3,
    )
    return None


def _user_mismatch(n_rows: int, behavior: Behavior) -> str:
    message = f"X and behaviour must be of the same users: X has {n_rows} rows, the behaviour has {len(behavior)} users."
    return f"{message} {behavior.advice(n_rows)}"


def _many_clusters(n_clusters: int, n_users: int) -> str:
    return (
        f"The partition estimate has {n_clusters} clusters for {n_users} users: most users are alone or nearly so, as when the "
        'data show no clusters. Compare posterior_["n_clusters"] and posterior_.partition("vi"). For fewer clusters give alpha '
        "a prior of smaller values, such as dv.Gamma(1, 4), or fix n_clusters."
    )


def _with_culprits(message: str, features: Array | None, users: Sequence[Any]) -> str:
    """The message of a fit that failed, with the users who have the same features, where there are any."""
    sets = [] if features is None else repeated_rows(features)
    return f"{message} {repeats_text(sets, users)} A cluster of them can shrink onto one point." if sets else message


def _check_prior(name: str, value: Any) -> None:
    """Raise where a prior of a view is neither one nor a word for one."""
    words = [word for word in choices(Settings)[name] if word is not None]
    if value is None or isinstance(value, GaussianPrior) or (isinstance(value, str) and value in words):
        return
    listed = "".join(f', "{word}"' for word in words)
    got = repr(value) if isinstance(value, str) else type(value).__name__
    raise InputError(f"{name} must be a GaussianPrior(mean, covariance){listed} or None; got {got}.")


def _prior_text(prior: GaussianPrior | str | None) -> str | None:
    return prior if prior is None or isinstance(prior, str) else digest(prior.mean, prior.covariance)


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
