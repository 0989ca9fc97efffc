"""What a method sees of a study, and what it is asked.

The users are cut into folds. The users of one fold are new, those of all others are known: one half
of their observations is for training, the other is held out. Observations are in a random order.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.worth.sets import Array, Places, Study

Rows = NDArray[np.int64]

HELD_OUT = "held out"
MOST_ASKED = 8  # rows of a new user


class Question(NamedTuple):
    """Rows to predict, and what is known of their users: ``history``. n_known: rows of each user in
    it, None if it varies."""

    name: str
    history: Rows
    asked: Rows
    n_known: int | None

    @property
    def is_new(self) -> bool:
        """Whether the users are new to the fit."""
        return self.n_known is not None


class Problem:
    """A study, one fold of whose users is new. training: the rows that a method may learn from."""

    def __init__(
        self, study: Study, fold: int, is_new: NDArray[np.bool_], rng: np.random.Generator
    ) -> None:
        self.study, self.fold = study, fold
        self.known, self.new = np.flatnonzero(~is_new), np.flatnonzero(is_new)
        place, total = (
            _places(study.user, rng),
            np.bincount(study.user, minlength=study.n_users)[study.user],
        )
        half, most = (total + 1) // 2, max(study.counts)
        of_new = is_new[study.user]
        self.training: Rows = np.flatnonzero(~of_new & (place < half))
        self.held_out: Rows = np.flatnonzero(~of_new & (place >= half))
        self._place, self._asked = (
            place,
            np.flatnonzero(of_new & (place >= most) & (place < most + MOST_ASKED)),
        )
        self._with_asked = np.flatnonzero(of_new & (total > most))

    def questions(self) -> Iterator[Question]:
        """Held-out rows of known users, then rows of new users when a few others are known: always
        the same rows."""
        yield Question(HELD_OUT, self.training, self.held_out, None)
        for n in self.study.counts:
            yield Question(
                f"new, {n}", self._with_asked[self._place[self._with_asked] < n], self._asked, n
            )

    @cached_property
    def feature_columns(self) -> Array:
        """Features of all users as numbers: in standard deviations of the known ones, categories as
        indicators."""
        columns = pd.get_dummies(self.study.features, drop_first=True).to_numpy(dtype=float)
        return _standard(columns, columns[self.known])

    @cached_property
    def observation_columns(self) -> Array:
        """Everything an observation depends on but its user, (n, q − 1 + C), in standard deviations
        of the training rows."""
        columns = np.column_stack([self.study.design[:, 1:], self.study.common])
        return _standard(columns, columns[self.training])


def _standard(columns: Array, known: Array) -> Array:
    spread = known.std(axis=0)
    return np.asarray((columns - known.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))


def _places(user: Places, rng: np.random.Generator) -> Places:
    """The place of each row among those of its user, in a random order."""
    order = rng.permutation(len(user))
    place = np.empty(len(user), dtype=np.int64)
    place[order] = pd.Series(user[order]).groupby(user[order]).cumcount().to_numpy()
    return place


def problems(study: Study, n_folds: int, seed: int) -> Iterator[Problem]:
    """A problem for each fold; every user is new in one of them."""
    fold_of = np.random.default_rng([seed, 0]).permutation(study.n_users) % n_folds
    for fold in range(n_folds):
        yield Problem(study, fold, fold_of == fold, np.random.default_rng([seed, 1, fold]))
