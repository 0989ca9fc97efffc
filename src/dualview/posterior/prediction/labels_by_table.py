"""New users whose features come as several tables, each of which may agree with their behavior or
not, (M16) for every table.

Rows are the clusters of all draws, known and fresh ones, as in ``candidates``. A user acts like a
row r, and every table either agrees (ρ) or has a label of its own (1 − ρ), drawn as one more
customer. Labels of customers who come one after the other are a Pólya urn: each comes from the urn
as it was before the user, of weight w_l for row l and W in all, or copies one of the user's labels
before it. Summed over who copies whom, with M the user's customers and A_t(r) = p(vectors of table
t | row r),

    p(features, r) = w_r Σ_T c_T Π_{t ∈ T} A_t(r),
    c_T = Σ_{E ⊆ T} Π_{t ∈ E} ρ_t Π_{t ∉ E} (1 − ρ_t) |T − E|! / (W (W + 1) … (W + M − 1)) · Q(the
    other tables), Q(D) = Σ_{partitions of D} Π_B (|B| − 1)! S_B,   S_B = Σ_l w_l Π_{t ∈ B} A_t(l),

T being the tables that have the row of behavior: E because they agree, the others by copying. Fresh
rows share the weight of a new cluster; their parameters in different tables are independent.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Array = NDArray[np.float64]
Tables = tuple[int, ...]


class LabelsByTable:
    """What the rows weigh before a user comes: weight (R,), total (N,) by draw. draw (R,), first
    (N,): the rows of a draw.

    shares (N, T): ρ of each table in each draw.
    """

    def __init__(
        self,
        weight: Array,
        total: Array,
        draw: NDArray[np.int64],
        first: NDArray[np.intp],
        shares: Array,
    ) -> None:
        with np.errstate(divide="ignore"):
            self._log_weight = np.log(weight)
            self._log_shares, self._log_others = np.log(shares).T, np.log1p(-shares).T
            self._log_total = np.log(total)
        self._draw, self._first = draw, first
        steps = np.log(total[:, None] + 1.0 + np.arange(shares.shape[1]))
        self._log_rising = np.concatenate(
            [np.zeros((len(total), 1)), np.cumsum(steps, axis=1)], axis=1
        ).T  # by M − 1

    def log_features(self, tables: Sequence[Array]) -> Array:
        """ln of p(features, r) over what r weighs, (J, R), from ln p(vectors of each table | row),
        (J, R) each."""
        everything, found = tuple(range(len(tables))), []
        sums = {own: self._log_sum(tables, own) for own in _subsets(everything) if own}
        for own in _subsets(everything):
            rest = tuple(t for t in everything if t not in own)
            log_c = self._log_coefficient(own, rest) + self._log_rest(rest, sums)
            found.append(log_c[:, self._draw] + sum(tables[t] for t in own))
        return np.asarray(logsumexp(found, axis=0))

    def draw_rows(
        self, rng: np.random.Generator, tables: Sequence[Array], levels: Array
    ) -> tuple[NDArray[np.int64], Array]:
        """Rows (T, n) that one user has by each table, drawn together, and the probability of each
        row by each table, (T, R); tables: ln p(vectors of each | row), (R,) each. levels (n,):
        between 0 and 1, of the cases that are drawn.

        First the draw of the posterior and which tables share a row, then the rows.
        """
        everything, found = tuple(range(len(tables))), [table[None] for table in tables]
        log_sums = {own: self._log_sum(found, own)[0] for own in _subsets(everything) if own}
        log_sums[()] = self._log_total
        cases, log_weights = [], []
        for own in _subsets(everything):
            rest = tuple(t for t in everything if t not in own)
            for blocks in partitions(rest):
                cases.append((own, *blocks))
                log_weights.append(
                    self._log_coefficient(own, rest)[0]
                    + log_sums[own]
                    + sum(math.lgamma(len(block)) + log_sums[block] for block in blocks)
                    - self._log_total
                )
        chances = np.exp(np.array(log_weights) - logsumexp(log_weights))  # (cases, N)
        cumulative = np.cumsum(chances)
        levels, n = levels * cumulative[-1], len(levels)
        chosen = np.minimum(np.searchsorted(cumulative, levels, side="right"), chances.size - 1)
        case, draw = np.divmod(rng.permutation(chosen), chances.shape[1])
        rows, probabilities = (
            np.empty((len(tables), n), dtype=np.int64),
            np.zeros((len(tables), len(self._draw))),
        )
        for number, groups in enumerate(cases):
            places = np.flatnonzero(case == number)
            for group in groups:
                if group:
                    given = self._given_draw(tables, group, log_sums[group])
                    rows[np.array(group)[:, None], places] = self._choose(rng, given, draw[places])
                    probabilities[list(group)] += chances[number][self._draw] * given
        return rows, probabilities

    def _given_draw(self, tables: Sequence[Array], own: Tables, log_sum: Array) -> Array:
        """The probability of each row in its draw, (R,), for tables that share it."""
        log_sums = np.where(np.isfinite(log_sum), log_sum, np.inf)[self._draw]
        return np.asarray(np.exp(self._log_weight + sum(tables[t] for t in own) - log_sums))

    def _choose(
        self, rng: np.random.Generator, given: Array, draws: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """A row in each of some draws."""
        cumulative = np.cumsum(given)
        first = self._first[draws]
        last = np.append(self._first[1:], len(given))[draws] - 1
        start = cumulative[first] - given[first]
        levels = start + rng.random(len(draws)) * (cumulative[last] - start)
        chosen = np.searchsorted(cumulative, levels, side="right")
        return np.asarray(np.clip(chosen, first, last))

    def _log_sum(self, tables: Sequence[Array], own: Tables) -> Array:
        """ln S_B of some tables, (J, N)."""
        values = self._log_weight + sum(tables[t] for t in own)
        top = np.maximum.reduceat(values, self._first, axis=1)
        top = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(
                top
                + np.log(np.add.reduceat(np.exp(values - top[:, self._draw]), self._first, axis=1))
            )

    def _log_coefficient(self, own: Tables, rest: Tables) -> Array:
        """ln of c_T over the sum over partitions, (1, N)."""
        found = []
        for agreeing in _subsets(own):
            copying = [t for t in own if t not in agreeing]
            total = math.lgamma(len(copying) + 1.0) - self._log_rising[len(copying) + len(rest)]
            total = (
                total
                + sum(self._log_shares[t] for t in agreeing)
                + sum(self._log_others[t] for t in (*copying, *rest))
            )
            found.append(total)
        return np.asarray(logsumexp(found, axis=0))[None]

    @staticmethod
    def _log_rest(rest: Tables, sums: dict[Tables, Array]) -> Array:
        """ln of the sum over partitions of Π_B (|B| − 1)! S_B, (J, N) or (1, 1)."""
        if not rest:
            return np.zeros((1, 1))
        found = [
            sum(math.lgamma(len(own)) + sums[own] for own in blocks) for blocks in partitions(rest)
        ]
        return np.asarray(logsumexp(found, axis=0))


def _subsets(tables: Tables) -> Iterator[Tables]:
    return chain.from_iterable(combinations(tables, n) for n in range(len(tables) + 1))


def partitions(tables: Tables) -> Iterator[list[Tables]]:
    """All ways to take some tables apart into blocks, each block in order."""
    if not tables:
        yield []
        return
    first, others = tables[0], tables[1:]
    for together in _subsets(others):
        rest = tuple(t for t in others if t not in together)
        for blocks in partitions(rest):
            yield [(first, *together), *blocks]
