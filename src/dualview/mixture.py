"""DualViewMixture: the estimator, by scikit-learn's conventions.

X (U, D) features; the behavior is passed as y, an object of length U.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dualview.behaviors.base import Behavior
from dualview.chains.chain import Progress
from dualview.chains.chains import seed_sequence
from dualview.checks import whole_number
from dualview.engines.starts import Labels
from dualview.errors import InputError, InputTypeError
from dualview.inputs.data import checked_data
from dualview.inputs.fits import fit_model, fits_to_views, warn_of_fit
from dualview.inputs.formulas import Formula
from dualview.inputs.from_long import Wanted, column_list, column_name, read_long
from dualview.inputs.long_tables import as_read_by
from dualview.inputs.more_data import append_data
from dualview.inputs.parameters import Parameters, check_use, of_engine
from dualview.inputs.problem import build_model
from dualview.inputs.shard_problem import problem_of_shards
from dualview.inputs.variational_fit import Stream, continue_variational
from dualview.partitions.finite_mixtures import FiniteMixtures
from dualview.partitions.pitman_yor import PitmanYor
from dualview.posterior import Posterior
from dualview.posterior.checks.checking import checks_of
from dualview.posterior.checks.model_checks import Checks
from dualview.posterior.observations import observations_of
from dualview.posterior.partition import DEFAULT, limits_in_fit
from dualview.posterior.partition.averages import profiles_of
from dualview.posterior.summaries import ClusterTable, summarize
from dualview.predictions import Placement, Predictions
from dualview.settings import Gibbs, Variational
from dualview.shards.folder import Shards, check_shards
from dualview.units import GaussianPrior


class DualViewMixture(Predictions, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Bayesian mixture model that clusters users by their features and by their behavior.

    In each cluster the features are Gaussian, and so is the latent behavior, which is seen only
    through observations. The posterior is sampled by a Gibbs sampler or approximated by variational
    inference. Without X there is no feature view, without a behavior no behavior view.

    Parameters
    ----------
    n_clusters : int, PitmanYor, FiniteMixtures or None
        None: inferred by a Dirichlet process. An int: fixed, though some clusters may stay empty.
        1: all users in one cluster. ``PitmanYor(discount)``: inferred by a process with more small
        clusters, whose number grows faster with the number of users; ``PitmanYor("learned")``: with
        a discount that the data decide. ``FiniteMixtures()``: inferred under a prior of the number
        of components, which the number of clusters does not exceed. :func:`prior_clusters` shows
        what each expects.
    alpha : None, "paper", float, Gamma or InverseGamma
        Concentration of the prior over partitions; larger values mean more clusters. None: learned.
        If the number of clusters is inferred, with the prior α ~ Gamma(1/4, 1/4), which allows for
        one cluster as well as for many; if it is fixed, with the paper's prior. "paper": learned,
        with the paper's prior 1/α ~ G(1, 1), under which, where the number is inferred, every user
        alone is about as likely as all users in one cluster. A number: fixed. ``Gamma(shape,
        rate)`` or ``InverseGamma(shape, scale)``: learned, with that prior. With one cluster there
        is no α. With ``FiniteMixtures`` it is γ, the weight of each component, and 1 by default.
    n_draws, n_chains : int
        Draws to keep from each chain, and number of chains. Chains that run until they have
        converged keep no more than n_draws draws, however long they get; the draws are then spaced
        further apart.
    max_time : float, optional
        Seconds after which chains end even without convergence; the compilation at the first fit on
        a machine does not count. With fewer workers than chains they take turns, so that all come
        equally far. The search for ``labels_`` then takes up to 3 % of the limit more. The draws
        depend on the machine's speed; ``posterior_.length`` says so. None: no limit.
    engine : "gibbs", "variational", Gibbs or Variational
        "gibbs": Markov chains that sample the posterior, until they have converged. "variational":
        a mean-field approximation, found by coordinate ascent from n_chains starts, with n_draws
        independent draws from each; it takes seconds where chains take hours. Means are good,
        intervals often too narrow; ``posterior_.verdict()`` says how far to trust it. It supports
        features of every kind, ``SharedOutcome``, ``UserRegression`` with one noise for all users,
        ``BinaryOutcomes`` and ``PairwiseChoices``. ``Gibbs(n_warmup, thin, n_auxiliary, max_draws,
        init, ...)`` and ``Variational(n_starts, init)`` are these engines with settings of their
        own: how long chains run, and where they start.
    columns : dict, optional
        Kinds of the columns of a table X, by name: "continuous", "rounded", "count", "ordinal",
        "nominal", "ignore", or ``Censored(low, high)``. The kinds of other columns are detected
        (``describe_columns``). Missing cells, rounded and censored numbers, counts and ratings are
        sampled with the rest; categories have probabilities in each cluster. All columns of an
        array are continuous, with NaN for missing cells.
    feature_prior, behavior_prior : GaussianPrior, optional
        The constants (m, Σ) of a view in the data's units; estimated from the data by default. Of
        several tables of features, side by side; the block of Σ of each is used.
        feature_prior="shrunk" or "diagonal", for many features and few users: Σ is the sample
        covariance shrunk toward its diagonal (Ledoit and Wolf 2004), or the diagonal alone.
        feature_prior="student": clusters of features have heavy tails, t distributions in place of
        normal ones, so that outliers and skew do not make clusters of their own; also
        "student-shrunk", "student-diagonal" and ``GaussianPrior(m, Σ, tails="student")``.
        behavior_prior="likelihood": the maximum likelihood estimates with one cluster; better than
        the default if users have few observations. It is the default for behaviors of single users
        with effects outside the mixture (``common``, ``groups``).
    spread_prior : "flat" or "paper"
        Prior of the spread of latent behavior inside clusters, W_0 ~ W(ω, Σ/ω). "flat": ω = q + 1,
        a density that is flat near 0. "paper": ω = q, whose density is unbounded at 0; if
        observations say little about the spread, clusters are then too narrow and intervals have
        less than their nominal coverage.
    link : None or "linear"
        None: given the cluster, features say nothing more about behavior. "linear": latent behavior
        also depends on the features, with slopes that all clusters share: ``posterior_["slopes"]``,
        in your units.
    agreement : None, "learned", float, Beta or dict of these
        None: users act as they look, in both views they are in the same cluster. "learned": each
        user has a cluster by its features and one by its behavior; with probability ρ they are the
        same, and ρ is learned, with a uniform prior. A number: ρ is known. ``Beta(a, b)``: its
        prior. ``posterior_["agreement"]`` is ρ, ``posterior_["agrees"]`` who agrees,
        ``posterior_["z_behavior"]`` the clusters by behavior; ``z`` and ``labels_`` are then those
        by features. If features come as several tables, each has a cluster and a ρ of its own, a
        dict says which (a table it does not name agrees), ``posterior_["z_tables"]`` are the
        clusters by table, and ``z`` and ``labels_`` those by behavior.
    pooling : "auto", None or "cluster"
        None: each user has an individual latent behavior, spread around that of the cluster.
        "cluster": all users of a cluster share one (complete pooling inside clusters), which suits
        few observations per user. Only the behavior view changes. "auto": "cluster" where each
        user has one observation at most, a row of a behavior of single users without known standard
        errors, which does not tell differences between users of a cluster from noise; else None.
        Also None with several behaviors and with ``engine="variational"``, which has no pooling.
    keep : "draws", "summary" or int
        "draws": keep every draw in full. "summary", for very many users: keep the scalars of every
        draw, running moments of the latent behavior, and about 100 evenly spaced full draws of each
        chain, which partition estimates and predictions then use. An int: a summary with about this
        many full draws.
    checkpoint : path, optional
        Folder for saving draws and states. Fitting again with the same data, settings and folder
        continues from the saved state and gives the same draws, bit for bit. Limits of time and
        draws may change; n_draws may grow if lengths are fixed. A variational fit is noted there,
        and starts again from the beginning.
    n_jobs : int, optional
        Chains to run in parallel, as in joblib: in threads, or as set by ``joblib.parallel_config``
        (processes, Dask). None: as many as there are cores, but one with more than 100,000 users; a
        joblib context or a parallel search around the fit takes precedence. The draws do not depend
        on it.
    random_state : int, Generator, RandomState or None
        Seed; the same int gives the same draws.
    progress : bool or callable
        True: show a line on the terminal or in the notebook, with the largest R̂ and the smallest
        effective sample size so far, clusters, seconds and an estimate of the time left. A callable
        gets (chain, iterations done, clusters now) every few iterations; from other processes every
        two seconds.

    Other Parameters
    ----------------
    n_warmup, thin, n_auxiliary, max_draws, checkpoint_interval : deprecated
        Now of ``Gibbs``: ``engine=dv.Gibbs(n_warmup=500)``.
    init : deprecated
        Now of each engine: ``engine=dv.Gibbs(init="one")``.
    partition : deprecated
        Now ``n_clusters=dv.PitmanYor(discount)``.
    n_whole : deprecated
        Now ``keep=100``.

    Attributes
    ----------
    labels_ : array (U,)
        Estimated cluster of each user, numbered from the largest cluster.
    behavior_labels_ : array (U,)
        The same by behavior: ``labels_`` unless ``agreement`` lets the views disagree.
    n_clusters_ : int
        Number of clusters in ``labels_``.
    latent_ : array (U,) or (U, q)
        Posterior median of each user's latent behavior. (The mean need not exist for users without
        observations.)
    posterior_ : Posterior
        All draws by name.

    Examples
    --------
    >>> import dualview as dv
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    >>> model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
    >>> model = model.fit(forum.features, dv.SharedOutcome(forum.participation, forum.outcome))
    >>> model.labels_.shape, model.latent_.shape
    ((20,), (20,))
    """

    def __init__(
        self,
        n_clusters: int | PitmanYor | FiniteMixtures | None = None,
        *,
        alpha: Any = None,
        n_draws: int = 1000,
        max_time: float | None = None,
        n_chains: int = 4,
        engine: str | Gibbs | Variational = "gibbs",
        columns: Mapping[str, Any] | None = None,
        feature_prior: GaussianPrior | str | None = None,
        behavior_prior: GaussianPrior | str | None = None,
        spread_prior: str = "flat",
        link: str | None = None,
        pooling: str | None = "auto",
        agreement: Any = None,
        keep: str | int = "draws",
        checkpoint: Any = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        progress: bool | Progress = False,
        partition: Any = None,
        n_warmup: int | None = None,
        max_draws: int | None = None,
        thin: int = 1,
        n_auxiliary: int = 3,
        init: Any = "kmeans",
        n_whole: int = 100,
        checkpoint_interval: float = 1.0,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.n_draws = n_draws
        self.max_time = max_time
        self.n_chains = n_chains
        self.engine = engine
        self.columns = columns
        self.feature_prior = feature_prior
        self.behavior_prior = behavior_prior
        self.spread_prior = spread_prior
        self.link = link
        self.pooling = pooling
        self.agreement = agreement
        self.keep = keep
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress
        self.partition = partition
        self.n_warmup = n_warmup
        self.max_draws = max_draws
        self.thin = thin
        self.n_auxiliary = n_auxiliary
        self.init = init
        self.n_whole = n_whole
        self.checkpoint_interval = checkpoint_interval

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Draw from the posterior.

        Parameters
        ----------
        X : array or table (U, D), dict of these, or Shards, optional
            Features of the users, as a NumPy array or a pandas, polars or Arrow table; missing
            cells are NaN, None or NA. Several tables of the same users, ``{"profile": X1,
            "activity": X2}``, are independent given the cluster; their columns are called
            profile.age and so on. Predictions take them in the same way. The index of a pandas
            table holds the users' ids, unless it is 0, 1, 2, …, as pandas makes it; users of y are
            matched with them. ``Shards`` hold features and threads that need not fit into memory,
            for ``engine="variational"``.
        y : behavior, optional
            What the users did: ``SharedOutcome``, ``UserRegression``, ``BinaryOutcomes``,
            ``OrdinalOutcomes``, ``PairwiseChoices`` or ``Rankings``. Several of them at once as a
            list, or as a dictionary by name.
        """
        with _unchanged_by_errors(self):
            parameters = Parameters.of(self)
            if isinstance(X, Shards):
                with problem_of_shards(self, parameters, check_shards(X, y)) as problem:
                    post = fit_model(parameters, problem)[0]
                self._take(post, post.behavior)
            else:
                data = checked_data(self, X, y)
                check_use(parameters, data)
                post, stream = fit_model(parameters, build_model(parameters, data))
                self._take(post, data.behavior, stream)
        warn_of_fit(self.posterior_, self.labels_)
        return self

    @of_engine("variational")
    def partial_fit(self, X: Any = None, y: Any = None) -> Self:
        """Add users and observations to a fit by ``engine="variational"``; the first call is a fit.

        Afterwards the estimator is that of all data so far, new users behind those it knew. The
        approximation of the earlier data is where the ascent starts, which takes one start and far
        fewer steps than a fit. Everything else is as in ``fit`` on all data: priors that come from
        the data are estimated again, and the bound is that of all data. Columns of a table keep the
        kinds, levels and scales that the first fit found.

        A ConvergenceWarning says when a fit from scratch is due: more than half of the users have
        entered since the last one, or more than a tenth of the users are in clusters made up mostly
        of such users.

        Parameters
        ----------
        X : array or table (J, D), optional
            Features of users who are new to the fit. If users of the fit have ids (the index of a
            DataFrame), new ones need some too. Features of known users cannot change.
        y : behavior, optional
            New observations, with outcomes, of known users, of new ones, or of both. Users are
            matched by ids if both the fit and the behavior have some. Otherwise they are in the
            order of the fit, followed by the new users in the order of X; with X, a behavior of the
            new users alone is enough, whose numbers ``n_users=J`` says to count them alone. Without
            features, users beyond those of the fit are new.

        Examples
        --------
        >>> import dualview as dv
        >>> forum = dv.datasets.agreement(n_users=30, n_threads=40, seed=1)
        >>> first = dv.SharedOutcome(forum.participation[:25, :20], forum.outcome[:25])
        >>> more = dv.SharedOutcome(forum.participation[25:], forum.outcome[25:])
        >>> model = dv.DualViewMixture(engine="variational", n_chains=2, n_draws=50)
        >>> model = model.fit(forum.features[:20], first).partial_fit(forum.features[20:], more)
        >>> model.labels_.shape, model.posterior_.n_observations
        ((30,), 40)
        """
        if not hasattr(self, "posterior_"):
            return self.fit(X, y)
        parameters = Parameters.of(self)
        if self._stream is None:
            raise InputError(
                'partial_fit continues a fit by engine="variational" of this estimator; this one '
                "was fitted by another engine, "
                "or its posterior was loaded from a file. Call fit with all data first."
            )
        if self.checkpoint is not None:
            raise InputError(
                "partial_fit keeps no checkpoint: call set_params(checkpoint=None) first."
            )
        data, news = append_data(self, self._stream.data, X, y)
        check_use(parameters, data)
        with data.named_in_errors():
            seed = seed_sequence(self.random_state)
            post, stream = continue_variational(
                parameters, build_model(parameters, data), self._stream, news, seed
            )
        self._take(post, data.behavior, stream)
        warn_of_fit(self.posterior_, self.labels_)
        return self

    @classmethod
    def from_posterior(cls, posterior: Posterior) -> Self:
        """An estimator that predicts from a posterior, for example one that ``dualview.load``
        read."""
        if not isinstance(posterior, Posterior):
            raise InputTypeError(
                f"from_posterior takes a Posterior, such as dv.load(path); got {posterior!r:.80}."
            )
        model = cls(**posterior.spec.parameters())
        if posterior.has_features:
            codebook = posterior.spec.codebook
            names = posterior.feature_names if codebook is None else codebook.source_names
            model.n_features_in_ = len(names)
            long = as_read_by(posterior.behavior)
            of_table = long is not None and list(long.features) == names
            if of_table or names != [f"x{j}" for j in range(len(names))]:
                model.feature_names_in_ = np.array(names, dtype=object)
        model._take(posterior, posterior.behavior)
        return model

    def _take(
        self, posterior: Posterior, behavior: Behavior | None, stream: Stream | None = None
    ) -> None:
        """Set everything that follows from a posterior. stream: what partial_fit continues from,
        where it can."""
        self.posterior_ = posterior
        self._stream = stream
        self._placement = Placement(posterior)
        self.behavior_ = behavior
        posterior.estimated(DEFAULT, limits_in_fit(self.max_time))
        if behavior is None:
            self.__dict__.pop("latent_", None)
        else:
            self.latent_ = posterior.latent_median

    @property
    def labels_(self) -> Labels:
        """Estimated cluster of each user, numbered from the largest cluster."""
        return self.posterior_.partition()

    @property
    def behavior_labels_(self) -> Labels:
        """The same by behavior."""
        return self.posterior_.behavior_partition()

    @property
    def n_clusters_(self) -> int:
        """Number of clusters in ``labels_``."""
        return int(self.labels_.max()) + 1

    def check(
        self, behavior: Behavior | None = None, *, refit: bool = True, seed: int = 0
    ) -> Checks:
        """Does the model fit its data? Checks of outcomes, features, clusters, link, views and
        priors, each with a verdict.

        Diagnostics say whether chains agree; these checks compare the model with its data. Each
        check has a p-value, or another statistic, and the verdict "fine", "look here" (p below
        0.01) or "the model is wrong here" (p below 0.001), with advice. Outcomes of several
        behaviors are checked one behavior at a time; their priors are not.

        Parameters
        ----------
        behavior : behavior, optional
            The observations of the fit, for a model that was loaded from a file.
        refit : bool
            Fit the features alone and the behavior alone, with short chains, to see whether the
            views agree.
        seed : int
            Seed of replicates and of these fits.

        Examples
        --------
        >>> import dualview as dv
        >>> forum = dv.datasets.agreement(n_users=25, n_threads=60, seed=1)
        >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
        >>> model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=100), n_draws=100, n_chains=2)
        >>> model = model.fit(forum.features, behavior)
        >>> checks = model.check(refit=False)
        >>> checks["outcomes"].verdict
        'fine'
        """
        check_is_fitted(self, "posterior_")
        whole_number(seed, "seed", 0)
        post = self.posterior_
        observations = observations_of(post, behavior)
        views = None
        if refit and observations is not None and post.has_features:
            views = fits_to_views(Parameters.of(self, warn=False), post, observations, seed)
        return checks_of(post, observations, views, seed)

    def summary(self) -> pd.DataFrame:
        """The estimated clusters, a row each, from the largest.

        Columns: name; users, share; certainty, the probability that two of its members, chosen at
        random, are in the same cluster; ``latent_median``, ``latent_low``, ``latent_high``, the
        mean latent behavior of its users with a 95 % interval (``latent.NAME_median`` … where users
        have several); stands_out, what distinguishes it, with medians of features; typical_users.
        Names tell in what a cluster stands out, no two of them are alike. Printed, or in a
        notebook, the table also says how certain the clusters are and whether the fit has
        converged. ``dualview summary`` prints the same.

        Examples
        --------
        >>> import dualview as dv
        >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
        >>> model = dv.DualViewMixture(2, engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
        >>> model = model.fit(forum.features, dv.SharedOutcome(forum.participation, forum.outcome))
        >>> found = model.summary()
        >>> list(found)[:4], int(found["users"].sum())
        (['name', 'users', 'share', 'certainty'], 20)
        """
        check_is_fitted(self, "posterior_")
        return ClusterTable.of(summarize(self.posterior_))

    def profiles(
        self, clusters: Any = None, against: Any = None, *, probability: float = 0.95
    ) -> pd.DataFrame:
        """What the members of each estimated cluster are like on average, with its uncertainty, and
        how clusters differ.

        In each draw the parameters of the components that the members then have are averaged over
        them; so it does not matter how a draw numbers its components, and doubts about who belongs
        together widen the intervals. Of numbers these are means, of skewed counts typical counts
        (the mean of ln(1 + count), as a count), of columns with levels the probability of each
        level, and of the latent behavior the members' own vectors. Columns of kinds that were
        registered from outside the package are left out.

        Columns of the frame: cluster, column, level, quantity; mean, sd, median, low, high: of the
        average, or of the contrast; above: the probability that the cluster's average is larger
        than that of ``against``, by default that of all users (draws in which both are the same
        count half); standardized: the posterior mean of the same difference in standard deviations
        of the column among all users. Clusters have the rows of the columns that distinguish them
        most, by the absolute value of ``standardized``, first.

        Parameters
        ----------
        clusters : int, "everybody" or list of these, optional
            Clusters, as ``labels_`` numbers them; all by default.
        against : int or "everybody", optional
            Tell the contrasts with this cluster, or with the average over all users, in place of
            the averages themselves.
        probability : float
            Probability of the intervals.

        Examples
        --------
        >>> import dualview as dv
        >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
        >>> model = dv.DualViewMixture(2, engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
        >>> model = model.fit(forum.features, dv.SharedOutcome(forum.participation, forum.outcome))
        >>> sorted(model.profiles(0)["column"])
        ['latent', 'x0', 'x1']
        >>> found = model.profiles(0, against=1).set_index("column")
        >>> bool((found["low"] < found["mean"]).all())
        True
        """
        check_is_fitted(self, "posterior_")
        return profiles_of(self.posterior_, self.labels_, clusters, against, probability)

    def fit_predict(self, X: Any = None, y: Any = None) -> Labels:
        """Fit and return the partition estimate."""
        return self.fit(X, y).labels_

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Probability that each user belongs to each cluster, given the features, (J, K): the same
        as :meth:`predict_proba`.

        ``set_output(transform="pandas")`` makes it a data frame with the names of
        :meth:`get_feature_names_out`. ``fit_transform(X, y)`` fits to features and behavior and
        gives the probabilities of the users of X by their features.
        """
        return self.predict_proba(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Names of the columns of :meth:`transform`: cluster0, cluster1 and so on; "new_cluster" is
        the last if the number of clusters is inferred. input_features are ignored."""
        check_is_fitted(self, "posterior_")
        names = [f"cluster{k}" for k in range(self.n_clusters_)]
        if self.posterior_.spec.n_clusters is None:
            names.append("new_cluster")
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.input_tags.allow_nan = True
        return tags


@contextmanager
def _unchanged_by_errors(model: DualViewMixture) -> Iterator[None]:
    """Inside, an error leaves an estimator with the fit it had, if any: a new fit notes the columns
    of X long before it has a posterior of them."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        model.__dict__.clear()
        model.__dict__.update(before)
        raise


def fit(
    formula: str,
    table: Any,
    *,
    features: str | Sequence[str] | None = None,
    common: str | Sequence[str] | None = None,
    groups: str | Sequence[str] | None = None,
    family: str = "auto",
    levels: Sequence[Any] | None = None,
    exposure: str | None = None,
    trials: str | None = None,
    event: str | None = None,
    **settings: Any,
) -> DualViewMixture:
    """A model fitted to a long table by a formula, with the package ``formulaic``.

    Parameters
    ----------
    formula : str
        ``"bdi ~ 1 + month | subject"``: the outcome, the terms that have a coefficient for each
        user, and the column with the users' ids. Users have a level of their own unless a term is
        0. Terms may be products of columns, ``C(month)`` for levels, ``I(month ** 2)`` and
        functions of one row such as ``np.log(month)``.
    table, features, common, groups, family, levels, exposure, trials, event
        As in :func:`from_long`.
    **settings
        Parameters of :class:`DualViewMixture`.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> import dualview as dv
    >>> rng = np.random.default_rng(0)
    >>> visits = pd.DataFrame({"subject": np.repeat(np.arange(10), 4)})
    >>> visits["month"] = np.tile([0, 2, 4, 6], 10)
    >>> visits["age"] = 30.0 + 2 * visits["subject"]
    >>> visits["bdi"] = 25.0 - visits["month"] + rng.normal(size=40)
    >>> short = dict(engine=dv.Gibbs(n_warmup=50), n_draws=50)
    >>> model = dv.fit("bdi ~ 1 + month | subject", visits, features="age", **short)
    >>> new = pd.DataFrame({"subject": [3, 99], "month": [8, 8], "age": [36.0, 41.0]})
    >>> model.predict_outcome(new).median.shape
    (2,)
    """
    parts = Formula.of(formula)
    wanted = Wanted(
        parts.user,
        (parts.outcome,),
        terms=parts.terms,
        common=column_list(common, "common"),
        groups=column_list(groups, "groups"),
        features=column_list(features, "features"),
        family=family,
        levels=levels,
        exposure="" if exposure is None else column_name(exposure, "exposure"),
        trials="" if trials is None else column_name(trials, "trials"),
        event=column_list(event, "event")[0] if event else "",
    )
    strange = sorted(set(settings) - set(DualViewMixture().get_params()))
    if strange:
        raise InputError(
            f"fit has no parameter {strange[0]!r}: settings are the parameters of DualViewMixture, "
            "such as n_draws=500."
        )
    X, behavior = read_long(table, wanted)
    return DualViewMixture(**settings).fit(X, behavior)
