"""Clusters of all draws in one table: every component of each draw, then fresh ones from its base.

Rows (R,) are sorted by draw. N draws of the posterior have m fresh clusters each.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.posterior.fresh import Component, FreshBlocks, FreshClusters
from dualview.posterior.posterior import Posterior


class ClusterRows:
    """draw (R,): the draw of each row. component (R,): its row in the posterior's table of
    components, −1 for a fresh one.

    first (N,): each draw's first row. known (R,): which rows are no fresh ones.
    """

    def __init__(self, owner: NDArray[Any], n_draws: int, n_fresh: int) -> None:
        """owner: the draw of each component."""
        self.n_draws, self.n_fresh = n_draws, n_fresh
        draw = np.concatenate([owner, np.repeat(np.arange(n_draws), n_fresh)])
        order = np.argsort(draw, kind="stable")
        self.draw = draw[order]
        self.component = np.concatenate([np.arange(len(owner)), np.full(n_draws * n_fresh, -1)])[
            order
        ]
        self.first = np.searchsorted(self.draw, np.arange(n_draws))
        self.known = self.component >= 0

    def __len__(self) -> int:
        return len(self.draw)

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """Each row's place among the known ones, or among the fresh ones, (R,)."""
        return np.where(self.known, np.cumsum(self.known), np.cumsum(~self.known)) - 1


class ViewRows(NamedTuple):
    """Components of the rows that the draws have, and the fresh ones where a cluster can be
    opened."""

    known: Component
    fresh: FreshClusters | FreshBlocks | None

    @classmethod
    def of(
        cls, rng: np.random.Generator, post: Posterior, view: str, rows: ClusterRows
    ) -> "ViewRows":
        """Those of a Gaussian view, by its name."""
        table, own = post.components, rows.component[rows.known]
        known = Component(table[f"{view}.means"][own], table[f"{view}.factors"][own])
        if not rows.n_fresh:
            return cls(known, None)
        base, layout = post.working_base(view), post.layout
        if view == "features" and layout is not None:
            return cls(
                known,
                FreshBlocks(rng, base, [block for _, block in layout.of_numbers], rows.n_fresh),
            )
        return cls(known, FreshClusters(rng, base, rows.n_fresh))
