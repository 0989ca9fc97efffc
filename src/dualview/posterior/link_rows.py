"""What a link adds to the latent vectors of new users, in draws and in the clusters of draws
(``cluster_rows``)."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dualview.errors import InputError
from dualview.posterior.cluster_rows import ClusterRows
from dualview.posterior.feature_rows import FeatureRows, Features
from dualview.posterior.followed import followed, slopes_of
from dualview.posterior.posterior import Posterior
from dualview.posterior.user_cells import UserCells

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

    def by_draw(self, x: Features | None) -> Array:
        """Shifts of users with features x, (N, J, q), or (1, 1, 1) without a link."""
        if x is None or not self.has_slopes:
            return np.zeros((1, 1, 1))
        vectors, codes = (None, x.cells.codes) if isinstance(x, UserCells) else (x, None)
        if isinstance(x, UserCells) and x.units is not None:
            vectors = x.vectors()
        return np.asarray(
            np.einsum("nqd,jd->njq", self._slopes, followed(self._post, vectors, codes))
        )

    def by_row(self, x: Features | None) -> Array:
        """Shifts of users in each row, (R, J, q), or (1, 1, 1) without a link.

        Cells that are not exact are drawn in each row given its cluster and the other cells.
        """
        shifts = self.by_draw(x)
        if len(shifts) == 1 and not self.has_slopes:
            return shifts
        shifts = np.asarray(shifts[self._rows.draw])
        if isinstance(x, UserCells) and x.units is not None:
            rows = np.arange(len(self._rows))
            for j in np.flatnonzero(~x.complete):
                own = x[j : j + 1]
                values = self._features.drawn_cells(np.random.default_rng(_CELL_SEED), rows, own)
                shifts[:, j] = self.of_values(self._rows.draw, values, own)
        return shifts

    def of_values(self, draws: NDArray[np.intp], values: Array, x: UserCells) -> Array:
        """Shifts of one user with some complete values (n, D), each in a draw (n,): (n, q)."""
        vectors = self._post.units["features"].to_working(values)
        columns = followed(self._post, vectors[:, None], x.cells.codes)[:, 0]
        return np.asarray(np.einsum("nqd,nd->nq", self._slopes[draws], columns))

    def require_cells(self, x: Features | None) -> None:
        """Raise for cells that are not exact where users need not act as they look: shifts then
        depend on both clusters."""
        if (
            "agreement" in self._post
            and self.has_slopes
            and isinstance(x, UserCells)
            and not x.complete.all()
        ):
            raise InputError(
                "Latent behavior that follows features by a link cannot be predicted for users "
                "with missing or inexact "
                "cells where users need not act as they look: give complete rows, or fit with "
                "agreement=None or link=None."
            )
