"""Point estimates of the partition from draws, and users who look like one cluster and act like
another."""

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.errors import InputError
from dualview.posterior import partition as partitions
from dualview.posterior.draws.fit_facts import FitFacts

Array = NDArray[np.float64]


class PartitionEstimates(FitFacts):
    """Draws and the partitions that they are summarized by."""

    def similarity(self) -> Array:
        """Share of draws in which two users are together, (U, U); for up to a few thousand
        users."""
        return partitions.similarity(self.flat("z"))

    def partition(self, method: str = partitions.DEFAULT) -> partitions.Labels:
        """A point estimate of the partition, clusters numbered from the largest.

        "vi", "binder": the partition that minimizes the posterior expected variation of information
        or Binder loss, found by a search. "dahl": the draw with the smallest squared distance to
        the similarity matrix (Dahl 2006).
        """
        if not isinstance(method, str) or method not in partitions.METHODS:
            raise InputError(f"partition takes 'vi', 'binder' or 'dahl'; got {method!r}.")
        return self._estimated(method)[: self.n_users].copy()

    def behavior_partition(self, method: str = partitions.DEFAULT) -> partitions.Labels:
        """The same by behavior where users need not act as they look, clusters numbered as in
        :meth:`partition`.

        Numbers that :meth:`partition` does not have are of clusters that somebody acts like and
        nobody looks like.
        """
        if "z_behavior" not in self:
            return self.partition(method)
        return self._estimated(method)[-self.n_users :].copy()

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
        return self._estimated(method)[first : first + self.n_users].copy()

    def _estimated(self, method: str) -> partitions.Labels:
        """The estimate for all labels together, (U,); where views may disagree those by features,
        then those by behavior.

        Where several tables have labels of their own, those by behavior come first, then those by
        each table.
        """
        if method not in self._partitions:
            labels = [self.flat("z")]
            if "z_behavior" in self:
                labels.append(self.flat("z_behavior"))
            if "z_tables" in self:
                labels += list(np.moveaxis(self.flat("z_tables"), 1, 0))
            z = np.hstack(labels)
            found = (
                partitions.by_size(z[partitions.dahl(z)])
                if method == "dahl"
                else partitions.least_loss(z, method).labels
            )
            self._partitions[method] = (
                found if len(labels) == 1 else _renumbered(found, self.n_users)
            )
        return self._partitions[method]

    @cached_property
    def _partitions(self) -> dict[str, partitions.Labels]:
        """Estimates that were asked for, by method."""
        return {}

    def partition_estimate(
        self, method: str = partitions.DEFAULT, probability: float = 0.95
    ) -> partitions.PartitionEstimate:
        """The partition estimate with its expected loss, a credible ball and each user's
        probability of membership."""
        loss = "binder" if method == "dahl" else method
        return partitions.estimate(self.flat("z"), self.partition(method), loss, probability)

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
