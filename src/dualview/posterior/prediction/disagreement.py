"""How new users act, where they need not act as they look: weights of clusters by behavior from
those by features, and back.

Rows are the clusters of all draws, known and fresh ones, as in ``new_users``. A new user looks like
row r with a weight p_r and acts like row l with probability

    ρ [l = r] + (1 − ρ) (w_l + [l = r]) / (W + 1),

w_l being what a row weighs by its customers and W the sum over the draw's rows, (M16). A fresh row
that the user itself has opened by its look weighs as a cluster of one customer; the fresh rows of a
draw share the weight of a new cluster.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Rows(NamedTuple):
    """Rows of some draws: draw (R,), first (N,), each draw's first row, and known (R,), which are
    no fresh ones.

    offset (N,): what a cluster weighs more than its customers. share (N,): ρ.
    """

    draw: NDArray[np.int64]
    first: NDArray[np.intp]
    known: NDArray[np.bool_]
    offset: Array
    share: Array


class Customers(NamedTuple):
    """What the rows weigh. share (N,): ρ. draw (R,), first (N,): the rows' draws, and each draw's
    first row.

    weight (R,): w of known rows, 0 of fresh ones. total (N,): W. own (R,): what a row weighs more
    if the user looks like it. new (2, R): what each fresh row weighs beside the clusters there are,
    and beside one more; 0 of known rows.
    """

    share: Array
    draw: NDArray[np.int64]
    first: NDArray[np.intp]
    weight: Array
    total: Array
    own: Array
    new: Array

    @classmethod
    def of(cls, rows: Rows, weight: Array, total: Array, new: Sequence[Array]) -> "Customers":
        """From the weight (R,) of all rows and its total (N,), and what each fresh row of a draw
        weighs, (N,) twice."""
        known, draw = rows.known, rows.draw
        own = np.where(known, 1.0, 1.0 + rows.offset[draw])
        fresh = np.array([np.where(known, 0.0, by_draw[draw]) for by_draw in new])
        return cls(rows.share, draw, rows.first, np.where(known, weight, 0.0), total, own, fresh)

    def acting(self, log_looks: Array) -> Array:
        """ln of the weights by behavior, from those by features, (J, R) both."""
        top = np.maximum.reduceat(log_looks, self.first, axis=1)
        looks = np.exp(log_looks - top[:, self.draw])
        total, opened = self._sums(looks), self._sums(looks * self._is_fresh)
        same, apart = self._shares
        acts = looks * same + apart * (
            self.weight * total[:, self.draw]
            + self.new[0] * (total - opened)[:, self.draw]
            + self.new[1] * opened[:, self.draw]
        )
        with np.errstate(divide="ignore"):
            return np.asarray(top[:, self.draw] + np.log(acts))

    def looking(self, log_looks: Array, log_acts: Array) -> Array:
        """ln of the weights by features once ln p(observations | row) is known, (J, R) all."""
        top = np.maximum.reduceat(log_acts, self.first, axis=1)
        acts = np.exp(log_acts - top[:, self.draw])
        known, beside, further = (
            self._sums(acts * part)[:, self.draw] for part in (self.weight, *self.new)
        )
        same, apart = self._shares
        with np.errstate(divide="ignore"):
            gain = np.log(acts * same + apart * (known + np.where(self._is_fresh, further, beside)))
        return np.asarray(log_looks + gain + top[:, self.draw])

    @property
    def _is_fresh(self) -> NDArray[np.bool_]:
        return np.asarray(self.new[0] > 0.0)

    @property
    def _shares(self) -> tuple[Array, Array]:
        """The probability of acting as one looks by agreement or by a second draw; what a unit of
        weight has of the rest."""
        apart = ((1.0 - self.share) / (self.total + 1.0))[self.draw]
        return self.share[self.draw] + apart * self.own, apart

    def _sums(self, values: Array) -> Array:
        """Over the rows of each draw, (J, N)."""
        return np.asarray(np.add.reduceat(values, self.first, axis=1))
