"""What a link adds to the latent vectors of new users, in draws and in the clusters of draws."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dualview.errors import InputError
from dualview.posterior.posterior import Posterior
from dualview.posterior.prediction.user_features import FeatureRows, Features, slopes_of
from dualview.views.features import ClusterRows

Array = NDArray[np.float64]

_CELL_SEED = 22  # of cells drawn for users whose behavior follows them


class LinkRows:
    """Shifts of latent vectors by a link, in the user's units; they are 0 without one."""

    def __init__(self, post: Posterior, rows: ClusterRows, features: FeatureRows) -> None:
        self._post, self._rows, self._features = post, rows, features

    @property
    def has_slopes(self) -> bool:
        """Whether there is a link."""
        return "slopes" in self._post

    @cached_property
    def _slopes(self) -> Array:
        """Those of every draw, (N, q, columns)."""
        return slopes_of(self._post)

    def complete(self, x: Features | None) -> NDArray[np.bool_]:
        """Which users (J,) have everything that a link follows."""
        if x is None or not self.has_slopes:
            return np.ones(0 if x is None else len(x), dtype=np.bool_)
        parts = zip(self._features.blocks, x.cells, strict=True)
        return np.asarray(np.all([block.complete(own) for block, own in parts], axis=0))

    def by_draw(self, x: Features | None) -> Array:
        """Shifts of users with features x, (N, J, q), or (1, 1, 1) without a link."""
        if x is None or not self.has_slopes:
            return np.zeros((1, 1, 1))
        parts = zip(self._features.blocks, x.cells, strict=True)
        columns = np.hstack([block.design(own) for block, own in parts])
        return np.asarray(np.einsum("nqd,jd->njq", self._slopes, columns))

    def by_row(self, x: Features | None) -> Array:
        """Shifts of users in each row, (R, J, q), or (1, 1, 1) without a link.

        Cells that are not exact are drawn in each row given its cluster and the other cells.
        """
        shifts = self.by_draw(x)
        if x is None or not self.has_slopes:
            return shifts
        shifts, rows = np.asarray(shifts[self._rows.draw]), np.arange(len(self._rows))
        for j in np.flatnonzero(~self.complete(x)):
            own = x[j : j + 1]
            values = self._features.draw(np.random.default_rng(_CELL_SEED), rows, own)
            shifts[:, j] = self.of_values(self._rows.draw, values, own)
        return shifts

    def of_values(
        self, draws: NDArray[np.intp], values: Sequence[Array | None], x: Features
    ) -> Array:
        """Shifts of one user with some complete values (n, columns) of each block, each in a draw
        (n,): (n, q)."""
        found = np.zeros((len(draws), self._slopes.shape[1]))
        first = 0
        for block, own, drawn in zip(self._features.blocks, x.cells, values, strict=True):
            columns = block.design(own, drawn)
            slopes = self._slopes[draws][..., first : first + columns.shape[1]]
            found += np.einsum("nqd,nd->nq", slopes, np.broadcast_to(columns, slopes.shape[::2]))
            first += columns.shape[1]
        return found

    def require_cells(self, x: Features | None) -> None:
        """Raise for cells that are not exact where users need not act as they look: shifts then
        depend on both clusters."""
        if "agreement" in self._post and not self.complete(x).all():
            raise InputError(
                "Latent behavior that follows features by a link cannot be predicted for users "
                "with missing or inexact "
                "cells where users need not act as they look: give complete rows, or fit with "
                "agreement=None or link=None."
            )
