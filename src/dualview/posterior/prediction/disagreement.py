"""How new users act, where they need not act as they look: weights of clusters by behavior from
those by features, and back.

Rows are the clusters of all draws, known and fresh ones, as in ``new_users``. A new user looks like
row r with a weight p_r and acts like row l with probability

    ρ [l = r] + (1 − ρ) (w_l + [l = r]) / W_r,

w_l being what a row weighs by its customers and W_r the sum over the draw's rows, once the user
has joined row r, (M16). A fresh row that the user itself has opened by its look weighs as a cluster
of one customer; the fresh rows of a draw share the weight of a new cluster, which may be another
one when a customer more is there, and another one when a cluster more is.
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

    weight (R,): w of known rows, 0 of fresh ones. totals (2, N): W of a user who looks like a known
    row, and of one who looks like a fresh one. own (R,): what a row weighs more if the user looks
    like it. new (2, R): what each fresh row weighs beside the clusters there are, and beside one
    more; 0 of known rows.
    """

    share: Array
    draw: NDArray[np.int64]
    first: NDArray[np.intp]
    weight: Array
    totals: Array
    own: Array
    new: Array

    @classmethod
    def of(cls, rows: Rows, weight: Array, new: Sequence[Array]) -> "Customers":
        """From the weight (R,) of all rows, and what a new cluster of a draw weighs once the user
        has joined a cluster and once it has opened one, (N,) each."""
        known, draw = rows.known, rows.draw
        weight = np.where(known, weight, 0.0)
        own = np.where(known, 1.0, 1.0 + rows.offset[draw])
        n_fresh = np.maximum(np.bincount(draw[~known], minlength=len(rows.first)), 1)
        fresh = np.array([np.where(known, 0.0, (by_draw / n_fresh)[draw]) for by_draw in new])
        there = np.add.reduceat(weight, rows.first) + 1.0
        totals = np.array([there + new[0], there + rows.offset + new[1]])
        return cls(rows.share, draw, rows.first, weight, totals, own, fresh)

    def acting(self, log_looks: Array) -> Array:
        """ln of the weights by behavior, from those by features, (J, R) both."""
        top = np.maximum.reduceat(log_looks, self.first, axis=1)
        looks = np.exp(log_looks - top[:, self.draw])
        opened = self._sums(looks * self._is_fresh)
        joined = self._sums(looks) - opened
        same, (beside, further) = self._shares
        acts = looks * same + (
            (self.weight + self.new[0]) * beside * joined[:, self.draw]
            + (self.weight + self.new[1]) * further * opened[:, self.draw]
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
        others = np.where(self._is_fresh, apart[1] * (known + further), apart[0] * (known + beside))
        with np.errstate(divide="ignore"):
            gain = np.log(acts * same + others)
        return np.asarray(log_looks + gain + top[:, self.draw])

    @property
    def _is_fresh(self) -> NDArray[np.bool_]:
        return np.asarray(self.new[0] > 0.0)

    @property
    def _shares(self) -> tuple[Array, Array]:
        """The probability of acting as one looks by agreement or by a second draw, (R,); what a
        unit of weight has of the rest, (2, R): of a user who has joined a cluster, and opened
        one."""
        apart = ((1.0 - self.share) / self.totals)[:, self.draw]
        by_look = np.where(self._is_fresh, apart[1], apart[0])
        return self.share[self.draw] + by_look * self.own, apart

    def _sums(self, values: Array) -> Array:
        """Over the rows of each draw, (J, N)."""
        return np.asarray(np.add.reduceat(values, self.first, axis=1))
