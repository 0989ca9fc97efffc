"""Posterior: the draws of all chains by name, in the user's units, on an xarray DataTree that ArviZ reads.

Groups of the tree: posterior (chain, draw, …); components, a row per cluster of each draw, in working units; working, the maps
between the user's units and working units.
"""

import json
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from dualview.behaviors import Behavior, Likelihood, behavior_from
from dualview.chains.schedule import Length, Look
from dualview.chains.storage import Record
from dualview.checks import interval_ends
from dualview.columns import Cells, Columns
from dualview.columns.layout import Layout
from dualview.errors import InputError
from dualview.partitions.agreement import AgreementPrior, agreement_priors
from dualview.partitions.choice import PartitionNames, partition_prior
from dualview.partitions.priors import PartitionPrior
from dualview.posterior import crossings, diagnostics, files
from dualview.posterior import partition as partitions
from dualview.posterior.approximated import ApproximationFacts
from dualview.posterior.fresh import Base
from dualview.posterior.from_records import tree_of
from dualview.posterior.notebook import posterior_table
from dualview.posterior.scalars import scalars
from dualview.posterior.tree import Asked, saved_tree, whole_tree
from dualview.units import Whitening

Array = NDArray[np.float64]

_ANCHORS = 50  # users whose latent coefficients diagnostics() looks at one by one
_FEW_ANCHORS = 6  # and for the verdict after each fit


class Posterior:
    """Draws (chain, draw, …) by name: post["z"], post["alpha"], post["features.base_mean"] and so on.

    ``post.names`` lists them. ``post.to_arviz()`` is the DataTree for ArviZ, ``post.save(path)`` a NetCDF file of it.
    """

    def __init__(self, tree: xr.DataTree, observations: Behavior | None = None) -> None:
        self._tree = tree
        self.observations = observations

    @property
    def tree(self) -> xr.DataTree:
        """The draws as they are kept and saved; :meth:`to_arviz` adds what follows from them."""
        return self._tree

    @classmethod
    def from_records(
        cls,
        records: list[Record],
        units: dict[str, Whitening],
        likelihood: Likelihood | None,
        coords: dict[str, Any],
        partition: PartitionNames,
        length: Length | None = None,
    ) -> "Posterior":
        """Join the chains' records, in the user's units."""
        return cls(tree_of(records, units, likelihood, coords, partition, length))

    def with_codebook(self, codebook: Columns) -> "Posterior":
        """The posterior with what the columns of its fit's table are."""
        tree = self._tree.copy()
        tree.attrs["codebook"] = json.dumps(codebook.to_json())
        return Posterior(tree, self.observations)

    @property
    def codebook(self) -> Columns | None:
        """What the columns of the fit's table are; None where it was an array of numbers."""
        text = self._tree.attrs.get("codebook")
        return None if text is None else Columns.from_json(json.loads(text))

    def with_data(self, features: Array | None, behavior: Behavior | None, cells: Cells | None = None) -> "Posterior":
        """The posterior with what summaries and predictions need of the data."""
        tree = self._tree.copy()
        if cells is not None:
            table: dict[str, Any] = {"low": (("user", "feature"), cells.low), "high": (("user", "feature"), cells.high)}
            table["codes"] = (("user", "category"), cells.codes)
            known = {dim: tree["posterior"].coords[dim] for dim in ("user", "feature") if dim in tree["posterior"].coords}
            tree["observed_data"] = xr.DataTree(xr.Dataset(table, coords=known))
        if features is not None:
            users = {dim: tree["posterior"].coords[dim] for dim in ("user", "feature")}
            tree["observed_data"] = xr.DataTree(xr.Dataset({"features": (("user", "feature"), features)}, coords=users))
        if behavior is not None:
            tree.attrs["behavior"] = json.dumps(behavior.described())
        return Posterior(tree, behavior)

    @property
    def n_clusters(self) -> int | None:
        """The fixed number of clusters; None when it was inferred."""
        return self._tree.attrs["n_clusters"] or None

    @property
    def alpha_prior(self) -> str | None:
        """The prior of the concentration in words, or its value if it was fixed; None with one cluster."""
        return None if self.n_clusters == 1 else str(self._tree.attrs.get("alpha_prior", "paper"))  # the only one there was

    @property
    def partition_process(self) -> str | None:
        """The process behind an inferred number of clusters in words; None for a Dirichlet process."""
        return self._tree.attrs.get("partition")

    def with_spread_prior(self, name: str) -> "Posterior":
        """The posterior with the name of the prior of latent vectors' spread inside clusters."""
        tree = self._tree.copy()
        tree.attrs["spread_prior"] = name
        return Posterior(tree, self.observations)

    @property
    def spread_prior(self) -> str:
        """The prior of latent vectors' spread inside clusters, by name."""
        return str(self._tree.attrs.get("spread_prior", "paper"))  # the only one there was

    def with_agreement_prior(self, text: str) -> "Posterior":
        """The posterior with the prior of the share of users who act as they look, in words; by table, where these have one."""
        tree = self._tree.copy()
        tree.attrs["agreement"] = text
        return Posterior(tree, self.observations)

    @property
    def agreement_prior(self) -> AgreementPrior | tuple[AgreementPrior, ...] | None:
        """The prior of the share of users who act as they look, or one for each table of features; None where all do."""
        text = self._tree.attrs.get("agreement")
        return agreement_priors(text, () if self.layout is None else self.layout.names)

    def with_layout(self, layout: Layout) -> "Posterior":
        """The posterior with which features belong to which table."""
        tree = self._tree.copy()
        tree.attrs["tables"] = json.dumps(layout.to_json())
        return Posterior(tree, self.observations)

    @property
    def layout(self) -> Layout | None:
        """Which features belong to which table; None where they came as one."""
        text = self._tree.attrs.get("tables")
        return None if text is None else Layout.from_json(json.loads(text))

    @property
    def flat_acts(self) -> NDArray[Any]:
        """Labels of the users' behavior in the draws of all chains, (chain × draw, user): ``z`` unless views may disagree."""
        return self.flat("z_behavior" if "z_behavior" in self else "z")

    @property
    def pooling(self) -> str | None:
        """'cluster' when the users of a cluster share one latent behavior, else None."""
        components = self._tree["components"].data_vars
        return "cluster" if "behavior.means" in components and "behavior.factors" not in components else None

    @property
    def length(self) -> Length | None:
        """Length of the chains, including warm-up, spacing of the kept draws, and why the chains ended.

        It has ``n_iterations``, ``n_warmup`` and ``stride``, in iterations, and ``ended``: "converged", "max_draws",
        "max_time", "interrupted", or "length" if that was fixed. None in files of versions that did not store it.
        """
        attrs = self._tree.attrs
        if "ended" not in attrs:
            return None
        return Length(int(attrs["n_iterations"]), int(attrs["n_warmup"]), int(attrs["stride"]), attrs["ended"])

    def with_approximation(self, facts: ApproximationFacts) -> "Posterior":
        """The posterior with what is known of the variational approximation that its draws come from."""
        tree = self._tree.copy()
        tree.attrs["approximation"] = facts.to_json()
        return Posterior(tree, self.observations)

    @property
    def approximation(self) -> ApproximationFacts | None:
        """Results of the variational approximation that the draws come from; None if the draws come from chains."""
        text = self._tree.attrs.get("approximation")
        return None if text is None else ApproximationFacts.from_json(text)

    @property
    def user_ids(self) -> list[str]:
        """The users' ids as text; their positions if there were no ids."""
        return [str(user) for user in self._tree["posterior"].coords["user"].values]

    @property
    def features(self) -> Array | None:
        """The features that were fitted, in the user's units, (U, D)."""
        group = self._tree.children.get("observed_data")
        if group is None or "features" not in group or "codes" in group:
            return None
        return np.asarray(group["features"].values)

    @property
    def cells(self) -> Cells | None:
        """The table of the fit as the model sees it, where some of its cells are not exact or are categories."""
        if "observed_data" not in self._tree.children or "codes" not in self._tree["observed_data"]:
            return None
        table = self._tree["observed_data"].to_dataset()
        return Cells(table["low"].values, table["high"].values, table["codes"].values)

    @property
    def has_features(self) -> bool:
        """Whether the fit had a table or an array of features."""
        return "features" in self.units or "categories.concentrations" in self

    @property
    def feature_names(self) -> list[str]:
        coords = self._tree["posterior"].coords
        return [str(name) for name in coords["feature"].values] if "feature" in coords else []

    @property
    def latent_names(self) -> list[str]:
        """Names of the numbers of a latent vector; one name without a meaning where there is one."""
        coords = self._tree["posterior"].coords
        return [str(name) for name in coords["function"].values] if "function" in coords else ["latent"]

    @property
    def behavior(self) -> Behavior | None:
        """The behavior of the fit without its observations: enough to predict."""
        text = self._tree.attrs.get("behavior")
        if text is None:
            return None
        named = self._tree["posterior"].coords["user"].dtype.kind != "i"
        return behavior_from({**json.loads(text), "users": self.user_ids if named else None})

    @property
    def n_observations(self) -> int | None:
        """Number of threads of the fit; None without a behavior, and in files of versions that did not store it."""
        found = json.loads(self._tree.attrs.get("behavior", "{}")).get("n_observations")
        return None if found is None else int(found)

    def __getitem__(self, name: str) -> NDArray[Any]:
        draws = self._tree["posterior"]
        if name not in draws.data_vars:
            raise InputError(f"The posterior has no {name!r}; it has {', '.join(self.names)}.")
        return np.asarray(draws[name].values)

    def __contains__(self, name: object) -> bool:
        return name in self._tree["posterior"].data_vars

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __repr__(self) -> str:
        return f"Posterior({self.n_chains} chains × {self.n_draws} draws: {', '.join(self.names)})"

    def _repr_html_(self) -> str:
        return posterior_table(self)

    @property
    def names(self) -> list[str]:
        """Names of everything that was drawn."""
        return [str(name) for name in self._tree["posterior"].data_vars]

    @property
    def n_chains(self) -> int:
        return int(self._tree["posterior"].sizes["chain"])

    @property
    def n_draws(self) -> int:
        """Draws per chain."""
        return int(self._tree["posterior"].sizes["draw"])

    @property
    def n_users(self) -> int:
        return int(self._tree["posterior"].sizes["user"])

    def flat(self, name: str) -> NDArray[Any]:
        """The draws of all chains in a row, (chain × draw, …)."""
        values = self[name]
        return values.reshape(-1, *values.shape[2:])

    @property
    def summary(self) -> xr.Dataset | None:
        """With ``keep="summary"``: scalars of every draw (chain, iteration); latent_mean and latent_sd over all of them.

        z and latent (chain, iteration, anchor) are those of up to 200 users, whose positions are the coordinate anchor.
        latent_mean and latent_sd are (user) or (user, function). For users without observations the posterior need not have
        a mean and a standard deviation; then these two mean nothing.
        """
        group = self._tree.children.get("summary")
        return None if group is None else group.to_dataset()

    @property
    def latent_median(self) -> Array:
        """Posterior median of each user's latent behavior, (U,) or (U, q), over the draws that were kept whole."""
        return np.asarray(np.median(self.flat("latent"), axis=0))

    @property
    def latent_mean(self) -> Array:
        """Average of each user's latent behavior, (U,) or (U, q), over all draws.

        It estimates the posterior mean, if that exists. For users without observations it need not: a cluster's spread has
        tails so heavy that averages differ from seed to seed. ``latent_median`` always exists.
        """
        if self.summary is not None:
            return np.asarray(self.summary["latent_mean"].values)
        return np.asarray(self.flat("latent").mean(axis=0))

    def interval(self, name: str, probability: float = 0.95) -> NDArray[Any]:
        """Central interval of each element of a quantity, (…, 2): low and high along the last axis.

        Examples
        --------
        >>> import dualview as dv
        >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
        >>> post = dv.DualViewMixture(n_warmup=50, n_draws=50, n_chains=1).fit(forum.features).posterior_
        >>> post.interval("alpha", 0.9).shape, post.interval("features.base_mean", 0.9).shape
        ((2,), (2, 2))
        >>> low, high = post.interval("features.base_mean", 0.9).T
        >>> bool((low < high).all())
        True
        """
        ends = np.quantile(self.flat(name), interval_ends(probability), axis=0)
        return np.asarray(np.moveaxis(ends, 0, -1))

    @cached_property
    def units(self) -> dict[str, Whitening]:
        """The map between user's units and working units of each view."""
        group = self._tree["working"]
        views = [str(name).removesuffix(".factor") for name in group.data_vars if str(name).endswith(".factor")]
        parts = ("mean", "factor", "inverse")
        return {view: Whitening(*(np.asarray(group[f"{view}.{part}"].values) for part in parts)) for view in views}

    @property
    def partition_prior(self) -> PartitionPrior:
        """The prior over partitions of the fit."""
        return partition_prior(self.n_clusters, partition=self.partition_process)

    @cached_property
    def components(self) -> dict[str, NDArray[Any]]:
        """A row per component of each draw, draws of all chains in a row: owner (its draw), count, and each view's means
        and, unless users share them, precision factors in working units."""
        group = self._tree["components"]
        table = {str(name): np.asarray(group[str(name)].values) for name in group.data_vars}
        table["owner"] = table.pop("chain") * self.n_draws + table.pop("draw")
        return table

    def working_base(self, view: str) -> Base:
        """μ_0, R_0, W_0 and β in every draw of a view that is not pooled, in working units."""
        units = self.units[view]
        shape = (self.n_chains * self.n_draws, len(units.mean))
        precisions = self.flat(f"{view}.base_precision").reshape(*shape, shape[1])
        covariances = self.flat(f"{view}.base_covariance").reshape(*shape, shape[1])
        return Base(
            units.to_working(self.flat(f"{view}.base_mean").reshape(shape)),
            units.factor.T @ precisions @ units.factor,
            units.inverse @ covariances @ units.inverse.T,
            self.flat(f"{view}.base_dof"),
        )

    def similarity(self) -> Array:
        """Share of draws in which two users are together, (U, U); for up to a few thousand users."""
        return partitions.similarity(self.flat("z"))

    def partition(self, method: str = partitions.DEFAULT) -> partitions.Labels:
        """A point estimate of the partition, clusters numbered from the largest.

        "vi", "binder": the partition that minimizes the posterior expected variation of information or Binder loss, found by a
        search. "dahl": the draw with the smallest squared distance to the similarity matrix (Dahl 2006).
        """
        if method not in partitions.METHODS:
            raise InputError(f"partition takes 'vi', 'binder' or 'dahl'; got {method!r}.")
        return self._estimated(method)[: self.n_users].copy()

    def behavior_partition(self, method: str = partitions.DEFAULT) -> partitions.Labels:
        """The same by behavior where users need not act as they look, clusters numbered as in :meth:`partition`.

        Numbers that :meth:`partition` does not have are of clusters that somebody acts like and nobody looks like.
        """
        if "z_behavior" not in self:
            return self.partition(method)
        return self._estimated(method)[-self.n_users :].copy()

    def table_partition(self, table: str, method: str = partitions.DEFAULT) -> partitions.Labels:
        """The same by one of several tables of features, which have labels of their own, by its name."""
        if self.layout is None or table not in self.layout.names:
            known = "came as one table" if self.layout is None else f"came as {', '.join(self.layout.names)}"
            raise InputError(f"There is no table {table!r} of features: they {known}.")
        if "z_tables" not in self:
            return self.partition(method)
        first = (1 + self.layout.names.index(table)) * self.n_users
        return self._estimated(method)[first : first + self.n_users].copy()

    def _estimated(self, method: str) -> partitions.Labels:
        """The estimate for all labels together, (U,); where views may disagree those by features, then those by behavior.

        Where several tables have labels of their own, those by behavior come first, then those by each table.
        """
        if method not in self._partitions:
            labels = [self.flat("z")]
            if "z_behavior" in self:
                labels.append(self.flat("z_behavior"))
            if "z_tables" in self:
                labels += list(np.moveaxis(self.flat("z_tables"), 1, 0))
            z = np.hstack(labels)
            found = partitions.by_size(z[partitions.dahl(z)]) if method == "dahl" else partitions.least_loss(z, method)
            self._partitions[method] = found if len(labels) == 1 else crossings.renumbered(found, self.n_users)
        return self._partitions[method]

    def disagreements(self, least: float = 0.5) -> pd.DataFrame:
        """Users who look like one cluster and act like another, with a probability of at least ``least``.

        Columns: user, looks, acts (clusters of the estimate), probability (that the two differ), and before them table, where
        features came as several. Empty unless the fit had ``agreement``.
        """
        return crossings.disagreements(self, least)

    def crossings(self, table: str | None = None) -> pd.DataFrame:
        """Users by the cluster they look like (rows) and the one they act like (columns), both of the estimate.

        table: the table of features by whose clusters they look, where these have labels of their own.
        """
        if "z_tables" in self and table is None:
            names = ", ".join(() if self.layout is None else self.layout.names)
            raise InputError(f"Each table of features has labels of its own: say which table, of {names}.")
        looks = self.partition() if table is None else self.table_partition(table)
        return crossings.table(looks, self.behavior_partition())

    @cached_property
    def _partitions(self) -> dict[str, partitions.Labels]:
        """Estimates that were asked for, by method."""
        return {}

    def partition_estimate(self, method: str = partitions.DEFAULT, probability: float = 0.95) -> partitions.PartitionEstimate:
        """The partition estimate with its expected loss, a credible ball and each user's probability of membership."""
        loss = "binder" if method == "dahl" else method
        return partitions.estimate(self.flat("z"), self.partition(method), loss, probability)

    def diagnostics(self) -> pd.DataFrame:
        """A row per scalar that does not depend on how clusters are numbered.

        Columns: mean, sd, r_hat, ess_bulk, ess_tail, geweke_z, autocorrelation_time (in draws).
        """
        return diagnostics.table(self.scalars())

    def scalars(self, n_anchors: int = _ANCHORS) -> dict[str, Array]:
        """What diagnostics look at, by name, each (chain, draw); latent coefficients of n_anchors users, spread evenly."""
        return scalars(self, n_anchors)

    def verdict(self) -> str:
        """One paragraph: has it converged, and if not, what to do."""
        return self._verdict[1]

    @property
    def converged(self) -> bool:
        """Whether every diagnostic is within its limits."""
        return self._verdict[0]

    def look(self) -> Look:
        """Whether all diagnostics are within the limits of the verdict, largest R̂ and least effective size."""
        return diagnostics.look(self._looked_at)

    @cached_property
    def few_scalars(self) -> dict[str, Array]:
        """What the verdict looks at: :meth:`scalars` with latent coefficients of six users."""
        return self.scalars(n_anchors=_FEW_ANCHORS)

    @cached_property
    def _looked_at(self) -> pd.DataFrame:
        return diagnostics.table(self.few_scalars, brief=True)

    @cached_property
    def _verdict(self) -> tuple[bool, str]:
        if self.approximation is not None:
            return self.approximation.verdict()
        fixed = self.length is None or self.length.ended == "length"
        lengths = "n_warmup, n_draws" if fixed else "max_time, max_draws"
        return diagnostics.verdict(self._looked_at, self.n_chains, self.chain_distance(), lengths)

    def chain_distance(self) -> float | None:
        """Mean variation of information between the chains' own partition estimates, as a share of ln U; None for one chain."""
        if self.n_chains == 1:
            return None
        own = np.array([chain[partitions.dahl(chain)] for chain in self["z"]])
        draws = partitions.Draws(own, "vi")
        distances = np.array([draws.distances(labels.astype(np.int64)) for labels in draws.z])
        off = ~np.eye(len(own), dtype=bool)
        return float(distances[off].mean() / np.log(self.n_users))

    def to_arviz(
        self,
        groups: Sequence[str] | None = None,
        *,
        variables: Sequence[str] | None = None,
        behavior: Behavior | None = None,
        n_draws: int | None = None,
        n_observations: int | None = None,
        n_prior: int = 500,
        seed: int = 0,
    ) -> xr.DataTree:
        """The draws as an xarray DataTree with all groups that ArviZ's functions use, made on request.

        Groups: ``posterior``, ``sample_stats``, ``observed_data``, ``constant_data``, ``expected`` (locations of the outcomes
        and the noise), ``posterior_predictive``, ``log_likelihood``, ``log_prior`` (by top-level prior), ``prior`` and
        ``prior_predictive``. Outcomes are called ``outcome``, features ``features``.

        Parameters
        ----------
        groups : list of str, optional
            Groups to make besides posterior and sample_stats; all by default. A posterior loaded from a file has no
            observations: it gets no other groups unless they are named or ``behavior`` is given.
        variables : list of "outcome" and "features", optional
            Variables of the data, replicates and likelihoods; both by default. With only one, ArviZ's functions do not need
            its name.
        behavior : behavior, optional
            The observations of the fit, for a posterior loaded from a file.
        n_draws, n_observations : int, optional
            Draws of each chain and observations to keep, the same in all groups. All by default; with more than twenty million
            draws × observations, fewer: evenly spaced draws, and observations at random.
        n_prior : int
            Draws from the prior.
        seed : int
            Seed; the same seed gives the same replicates.

        Examples
        --------
        >>> import dualview as dv
        >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
        >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
        >>> post = dv.DualViewMixture(n_warmup=50, n_draws=50, n_chains=2).fit(forum.features, behavior).posterior_
        >>> tree = post.to_arviz(n_prior=50)
        >>> dict(tree["posterior_predictive"]["outcome"].sizes)
        {'chain': 2, 'draw': 50, 'observation': 30}
        >>> list(tree["log_prior"].data_vars)
        ['alpha', 'features.base', 'behavior.base', 'noise_precision']
        """
        return whole_tree(self, Asked(groups, variables, n_draws, n_observations, n_prior, seed), behavior)

    def save(self, path: str | os.PathLike[str], *, whole: bool = False) -> None:
        """Write a NetCDF file that ``dualview.load`` reads; whole or not at all.

        whole: with the groups that :meth:`to_arviz` makes, which the posterior that is read back then has.
        """
        files.save(saved_tree(self) if whole else self._tree, path)


def load(path: str | os.PathLike[str]) -> Posterior:
    """Read a posterior that ``Posterior.save`` wrote."""
    return Posterior(files.load(path))
