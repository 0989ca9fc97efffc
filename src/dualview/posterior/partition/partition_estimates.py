"""Point estimates of the partition from draws, and users who look like one cluster and act like
another."""

import math
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from dualview.checks import positive_number
from dualview.errors import InputError
from dualview.posterior import partition as partitions
from dualview.posterior.draws.fit_facts import FitFacts
from dualview.posterior.partition.n_components import NumberOfComponents, components_of

Array = NDArray[np.float64]

_GROUP = "partition_estimates"  # of the tree


class PartitionEstimates(FitFacts):
    """Draws and the partitions that they are summarized by."""

    def similarity(self) -> Array:
        """Share of draws in which two users are together, (U, U); for up to a few thousand
        users."""
        return partitions.similarity(self.flat("z"))

    def partition(
        self, method: str = partitions.DEFAULT, *, max_time: float | None = None
    ) -> partitions.Labels:
        """A point estimate of the partition, clusters numbered from the largest.

        "vi", "binder": the partition that minimizes the posterior expected variation of information
        or Binder loss, found by a search. "dahl": the draw with the smallest squared distance to
        the similarity matrix (Dahl 2006).

        The search is made once, with limits, and kept: a fit makes that for "vi", in a small share
        of its ``max_time`` if it has one. It is never worse than the best draw that it looks at,
        and ``partition_estimate().finished`` says whether it came to its end. max_time: search on
        for up to so many seconds, from more starts and over all draws (``math.inf``: to the end).
        What is better is kept for all later questions, and is ``labels_`` of an estimator then.
        """
        if not isinstance(method, str) or method not in partitions.METHODS:
            raise InputError(f"partition takes 'vi', 'binder' or 'dahl'; got {method!r}.")
        if max_time is not None:
            self._search_on(method, max_time)
        return self.estimated(method).labels[: self.n_users].copy()

    def behavior_partition(self, method: str = partitions.DEFAULT) -> partitions.Labels:
        """The same by behavior where users need not act as they look, clusters numbered as in
        :meth:`partition`.

        Numbers that :meth:`partition` does not have are of clusters that somebody acts like and
        nobody looks like.
        """
        if "z_behavior" not in self:
            return self.partition(method)
        return self.estimated(method).labels[-self.n_users :].copy()

    def table_partition(self, table: str, method: str = partitions.DEFAULT) -> partitions.Labels:
        """The same by one of several tables of features, which have labels of their own, by its
        name."""
        if self.spec.layout is None or table not in self.spec.layout.names:
            known = (
                "came as one table"
                if self.spec.layout is None
                else f"came as {', '.join(self.spec.layout.names)}"
            )
            raise InputError(f"There is no table {table!r} of features: they {known}.")
        if "z_tables" not in self:
            return self.partition(method)
        first = (1 + self.spec.layout.names.index(table)) * self.n_users
        return self.estimated(method).labels[first : first + self.n_users].copy()

    def n_components(self) -> NumberOfComponents:
        """The posterior of the number of components of a mixture of finite mixtures,
        ``n_clusters=dv.FiniteMixtures()``, those without users among them (Miller and Harrison
        2018).

        Examples
        --------
        >>> import dualview as dv
        >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
        >>> short = dict(engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
        >>> model = dv.DualViewMixture(dv.FiniteMixtures(), **short).fit(forum.features)
        >>> found = model.posterior_.n_components()
        >>> bool(found.mean >= model.posterior_["n_clusters"].mean())
        True
        >>> list(found.table().columns)
        ['probability', 'at_least']
        """
        found = components_of(self)
        if found is None:
            raise InputError(
                "The number of components is known of fits with n_clusters=dv.FiniteMixtures() and "
                "without agreement; this one has "
                f"{'another prior' if self.spec.agreement is None else 'agreement'}. "
                'posterior_["n_clusters"] has draws of the number of clusters that have users.'
            )
        return found

    def estimated(
        self, method: str, limits: partitions.Limits = partitions.IN_A_FIT
    ) -> partitions.Found:
        """The estimate for all labels together; made within the limits unless it is known.

        Where views may disagree, labels by features come first, then those by behavior; where
        several tables have labels of their own, those by behavior come first, then those by each
        table.
        """
        kept = self._tree.children.get(_GROUP)
        if kept is None or method not in kept:
            z = self._all_labels()
            self._keep(
                method,
                partitions.Found(partitions.by_size(z[partitions.dahl(z)]), True)
                if method == "dahl"
                else partitions.least_loss(z, method, limits, most=self.spec.n_clusters),
            )
        found = self._tree[_GROUP][method]
        return partitions.Found(
            np.asarray(found.values).reshape(-1),
            method not in self._tree[_GROUP].attrs["cut_short"],
        )

    def _search_on(self, method: str, max_time: float) -> None:
        """Search further than before, and keep what is better."""
        if method == "dahl":
            raise InputError(
                "max_time is for searches, and 'dahl' compares all draws: leave max_time out, or "
                "ask for 'vi' or 'binder'."
            )
        seconds = max_time if max_time == math.inf else positive_number(max_time, "max_time")
        limits = partitions.FULL._replace(seconds=seconds)
        known, most = self.estimated(method).labels, self.spec.n_clusters
        z = self._all_labels()
        self._keep(method, partitions.least_loss(z, method, limits, most=most, known=known, seed=1))

    def _all_labels(self) -> NDArray[np.integer]:
        """The draws of all labels of a user side by side, (S, U) or several times as wide."""
        labels = [self.flat("z")]
        if "z_behavior" in self:
            labels.append(self.flat("z_behavior"))
        if "z_tables" in self:
            labels += list(np.moveaxis(self.flat("z_tables"), 1, 0))
        return np.hstack(labels)

    def _keep(self, method: str, found: partitions.Found) -> None:
        """Note an estimate in the tree, with which it is saved."""
        group = self._tree.children.get(_GROUP)
        kept = xr.Dataset(attrs={"cut_short": ""}) if group is None else group.to_dataset()
        others = [name for name in kept.attrs["cut_short"].split() if name != method]
        kept.attrs["cut_short"] = " ".join(others if found.finished else [*others, method])
        labels = found.labels.reshape(-1, self.n_users)
        ordered = found.labels if len(labels) == 1 else _renumbered(found.labels, self.n_users)
        kept[method] = ("labels", "user"), ordered.reshape(labels.shape)
        self._tree[_GROUP] = xr.DataTree(kept)

    def partition_estimate(
        self, method: str = partitions.DEFAULT, probability: float = 0.95
    ) -> partitions.PartitionEstimate:
        """The partition estimate with its expected loss, a credible ball and each user's
        probability of membership."""
        loss = "binder" if method == "dahl" else method
        labels = self.partition(method)
        found = partitions.Found(labels, self.estimated(method).finished)
        return partitions.estimate(self.flat("z"), found, loss, probability)

    def disagreements(self, least: float = 0.5) -> pd.DataFrame:
        """Users who look like one cluster and act like another, with a probability of at least
        ``least``.

        Columns: user, looks, acts (clusters of the estimate), probability (that the two differ),
        and before them table, where features came as several. Empty unless the fit had
        ``agreement``.
        """
        return _disagreements(self, least)

    def crosstab(self, table: str | None = None) -> pd.DataFrame:
        """Users by the cluster they look like (rows) and the one they act like (columns), both of
        the estimate.

        table: the table of features by whose clusters they look, where these have labels of their
        own.
        """
        if "z_tables" in self and table is None:
            names = ", ".join(() if self.spec.layout is None else self.spec.layout.names)
            raise InputError(
                f"Each table of features has labels of its own: say which table, of {names}."
            )
        looks = self.partition() if table is None else self.table_partition(table)
        return pd.crosstab(
            pd.Series(looks, name="looks"), pd.Series(self.behavior_partition(), name="acts")
        )


def _renumbered(labels: partitions.Labels, n_users: int) -> partitions.Labels:
    """Labels (2 U,) by features, then by behavior, with clusters numbered from the one that most
    users look like."""
    sizes = np.bincount(labels[:n_users], minlength=int(labels.max()) + 1)
    place = np.empty(len(sizes), dtype=np.int64)
    place[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return np.asarray(place[labels])


def looks_of(post: PartitionEstimates, table: str | None) -> NDArray[Any]:
    """Labels by features in all draws, (S, U)."""
    if table is None or post.spec.layout is None:
        return post.flat("z")
    return np.asarray(post.flat("z_tables")[:, post.spec.layout.names.index(table)])


def _disagreements(post: PartitionEstimates, least: float) -> pd.DataFrame:
    """Users whose labels differ with at least this probability, and in the estimate: user, looks,
    acts, probability."""
    if "z_tables" in post:
        assert post.spec.layout is not None
        found = []
        for table in post.spec.layout.names:
            own = _disagreeing(post, least, looks_of(post, table), post.table_partition(table))
            own.insert(0, "table", table)
            found.append(own)
        return pd.concat(found, ignore_index=True)
    return _disagreeing(post, least, post.flat("z"), post.partition())


def _disagreeing(
    post: PartitionEstimates, least: float, looks: NDArray[Any], estimate: partitions.Labels
) -> pd.DataFrame:
    apart = (looks != post.flat_acts).mean(axis=0)
    table = {"looks": estimate, "acts": post.behavior_partition(), "probability": apart}
    found = pd.DataFrame({"user": post.tree["posterior"].coords["user"].values, **table})
    chosen = found[(apart >= least) & (found["looks"] != found["acts"])]
    return chosen.sort_values("probability", ascending=False, kind="stable").reset_index(drop=True)
