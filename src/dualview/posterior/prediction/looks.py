"""How well the features of new users go with every row: computed once for all that is asked about
the same users."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.user_features import Features
from dualview.views.gaussian.block import MOST_CELLS

Array = NDArray[np.float64]

_KEPT = 50_000_000  # numbers of the users asked for last


class ByFeatures(NamedTuple):
    """ln of (prior weight × density of the features) of some users, (J, R), and of its sum over the
    rows, (J,)."""

    log_weights: Array
    log_sums: Array

    def of(self, users: slice) -> "ByFeatures":
        """Those of some of the users."""
        return ByFeatures(self.log_weights[users], self.log_sums[users])

    @property
    def normalized(self) -> Array:
        """ln of each row's probability, (J, R)."""
        return np.asarray(self.log_weights - self.log_sums[:, None])


class Looks:
    """J new users with features x in every row.

    Several users are computed with the rest of their page, the next users as many as are kept; one
    of several is computed alone, since the others may not be asked for. Which users are asked for
    before thus changes nothing.
    """

    def __init__(self, rows: Candidates, x: Features | None, n_users: int) -> None:
        self._rows, self._x, self._n = rows, x, n_users
        self._size = max(1, _KEPT // len(rows))  # users of a page
        self._held: tuple[int, ByFeatures] | None = None

    @property
    def batch(self) -> int:
        """How many users are worked on at a time."""
        return users_at_once(self._rows)

    def of(self, users: slice, *, with_others: bool = False) -> ByFeatures:
        """Those of some users, which are not to be written into. with_others: the others will be
        asked for as well, so that one of several is computed with them."""
        first, end, _ = users.indices(self._n)
        size, alone = self._size, end - first == 1 < self._n and not with_others
        if end - first > size or alone:
            return self._computed(slice(first, end))

        def part(number: int) -> ByFeatures:
            own = slice(max(first - number * size, 0), end - number * size)
            return self._page(number).of(own)

        numbers = range(first // size, -(-end // size))
        if len(numbers) == 1:
            return part(numbers[0])
        copies = [tuple(map(np.copy, part(number))) for number in numbers]  # pages are let go
        return ByFeatures(*map(np.concatenate, zip(*copies, strict=True)))

    def _page(self, number: int) -> ByFeatures:
        held, self._held = self._held, None  # which goes before another comes
        if held is None or held[0] != number:
            held = None
            users = slice(number * self._size, min((number + 1) * self._size, self._n))
            held = number, self._computed(users)
        self._held = held
        return held[1]

    def _computed(self, users: slice) -> ByFeatures:
        rows, n = self._rows, len(range(*users.indices(self._n)))
        x = None if self._x is None else self._x[users]
        found = ByFeatures(np.empty((n, len(rows))), np.empty(n))
        for own, log_features in features_in_batches(rows, x, n):
            log_features += rows.log_prior
            found.log_weights[own] = log_features
            found.log_sums[own] = _log_sums(log_features)
        return found


def _log_sums(values: Array) -> Array:
    """ln of the sum of e^values (J, R) over the rows, (J,). SciPy's takes several times as long."""
    top = values.max(axis=1)
    top[~np.isfinite(top)] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(values - top[:, None]).sum(axis=1)))


def users_at_once(rows: Candidates) -> int:
    """How many users are worked on at a time."""
    return max(1, MOST_CELLS // len(rows))


def features_in_batches(
    rows: Candidates, x: Features | None, n_users: int
) -> Iterator[tuple[NDArray[np.intp], Array]]:
    """Users (n,) who lack the same cells, as many as are worked on at a time, and ln p(features of
    each | row), (n, R)."""
    order = np.arange(n_users) if x is None else rows.features.by_lacking(x)
    size = users_at_once(rows)
    for first in range(0, n_users, size):
        own = order[first : first + size]
        yield own, rows.log_features(None if x is None else x[own], len(own))
