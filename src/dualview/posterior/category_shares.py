"""Nominal columns in the clusters that a new user may belong to, (M15): shares of levels, θ
integrated out in fresh ones."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dualview.numerics.streams import stream_of
from dualview.views import NominalView
from dualview.views.nominal.conditionals import draw_shares

if TYPE_CHECKING:
    from dualview.posterior.posterior import Posterior

Array = NDArray[np.float64]
Places = NDArray[np.int64]


class CategoryShares:
    """ln θ of R rows: component (R,) is a row of the posterior's table, −1 for a fresh cluster,
    draw (R,) its draw."""

    def __init__(self, post: "Posterior", component: Places, draw: Places) -> None:
        self._view = nominal_view(post)
        self._table = np.vstack(
            [post.components["categories.log_shares"], np.log(self._view.flat)]
        )  # the last one is fresh
        self._component, self._draw = component, draw
        self._concentrations = post.flat("categories.concentrations")

    def log_probability(self, codes: Places) -> Array:
        """ln p(levels of user j | row), (J, R), of codes (J, columns); missing ones add nothing."""
        found = np.array([self.log_of_levels(self._table, own) for own in codes])
        return np.asarray(found[:, self._component])

    def log_of_levels(self, log_shares: Array, codes: Places) -> Array:
        """ln p(levels of one user | ln θ of n clusters), (n,)."""
        seen = codes >= 0
        return np.asarray(log_shares[:, self._view.starts[:-1][seen] + codes[seen]].sum(axis=1))

    def probabilities(self, column: int) -> Array:
        """Each row's probabilities of a column's levels, (R, L)."""
        levels = slice(self._view.starts[column], self._view.starts[column + 1])
        return np.asarray(np.exp(self._table[:, levels])[self._component])

    def opened(self, rng: np.random.Generator, rows: Places, codes: Places) -> Array:
        """ln θ (rows, Σ L_j) of fresh clusters once a user with these levels is in them, (C17)."""
        view, seen = self._view, codes >= 0
        counts = np.zeros(len(view.flat))
        counts[view.starts[:-1][seen] + codes[seen]] = 1.0
        found, stream = np.empty((len(rows), len(view.flat))), stream_of(rng)
        for concentrations, log_shares in zip(
            self._concentrations[self._draw[rows]], found, strict=True
        ):
            draw_shares(stream, counts, view.starts, view.flat, concentrations, log_shares)
        return found


def nominal_view(post: "Posterior") -> NominalView:
    """The view of the fit's nominal columns."""
    assert post.codebook is not None
    return NominalView(tuple(column.shares for column in post.codebook.nominal))
