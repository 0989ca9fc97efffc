"""Designs that PReMiuM simulates to try its models, rebuilt: groups of people whose covariates are
distributed differently, and whose outcomes have another risk.

K groups; covariates are categories, normal numbers, or both; C columns outside the profile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp

from benchmarks.profiles.outcomes import OUTCOMES

Array = NDArray[np.float64]
Labels = NDArray[np.intp]
Shares = Sequence[Sequence[float]]  # of the levels of each column of categories


class People(NamedTuple):
    """covariates (n, D); common (n, C): outside the profile; rows: trials, exposure, or whether an
    event was seen."""

    labels: Labels
    covariates: pd.DataFrame
    common: Array
    rows: Mapping[str, Array]
    outcome: Array


class Group(NamedTuple):
    """theta: the location of outcomes, of categories a location each; then how the covariates are
    distributed."""

    size: int
    theta: Any
    shares: Shares = ()
    mean: Sequence[float] = ()
    covariance: Sequence[Sequence[float]] = ()


@dataclass(frozen=True)
class Design:
    """effects (C,), of categories (L, C): coefficients of the columns outside the profile. missing:
    the share of cells of covariates that are not known."""

    outcome: str
    covariates: str
    groups: Sequence[Group]
    effects: Any = ()
    missing: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.outcome}, {self.covariates}"

    @property
    def family(self) -> Any:
        return OUTCOMES[self.outcome]

    @property
    def shares(self) -> Array:
        """Of the groups, (K,)."""
        sizes = np.array([group.size for group in self.groups], dtype=float)
        return sizes / sizes.sum()

    @property
    def _thetas(self) -> Array:
        return np.array([group.theta for group in self.groups], dtype=float)

    def people(self, rng: np.random.Generator, share: float = 1.0) -> People:
        """As many of each group as the design says, or a share of them."""
        sizes = [max(2, round(share * group.size)) for group in self.groups]
        return self._drawn(rng, np.repeat(np.arange(len(sizes)), sizes))

    def new_people(self, rng: np.random.Generator, n: int) -> People:
        """People of groups drawn at random."""
        return self._drawn(rng, rng.choice(len(self.groups), n, p=self.shares))

    def _drawn(self, rng: np.random.Generator, labels: Labels) -> People:
        n, effects = len(labels), np.array(self.effects, dtype=float)
        common = rng.standard_normal((n, effects.shape[-1]))
        covariates = self._covariates(rng, labels)
        rows = self.family.rows(rng, n)
        eta = self._thetas[labels] + common @ effects.T
        return People(labels, covariates, common, rows, self.family.draw(rng, eta, rows))

    def _covariates(self, rng: np.random.Generator, labels: Labels) -> pd.DataFrame:
        n, first = len(labels), self.groups[0]
        n_codes, n_numbers = len(first.shares), len(first.mean)
        codes, numbers = np.empty((n, n_codes), dtype=int), np.empty((n, n_numbers))
        for k, group in enumerate(self.groups):
            own = np.flatnonzero(labels == k)
            for j, shares in enumerate(group.shares):
                codes[own, j] = rng.choice(len(shares), len(own), p=shares)
            if n_numbers:
                numbers[own] = rng.multivariate_normal(group.mean, group.covariance, len(own))
        names = [f"level {j}" for j in range(n_codes)] + [f"number {j}" for j in range(n_numbers)]
        columns = [*np.array(list("abcd"))[codes].T, *numbers.T]
        table = pd.DataFrame(dict(zip(names, columns, strict=True)))
        return table.mask(rng.random(table.shape) < self.missing)

    def _log_covariates(self, people: People) -> Array:
        """ln p(covariates | group), (n, K)."""
        table, found = people.covariates, np.zeros((len(people.labels), len(self.groups)))
        n_codes = len(self.groups[0].shares)
        codes = np.column_stack(
            [pd.Categorical(table.iloc[:, j], list("abcd")).codes for j in range(n_codes)]
            or [np.empty((len(table), 0), dtype=int)]
        )
        numbers = table.iloc[:, n_codes:].to_numpy(dtype=float)
        for k, group in enumerate(self.groups):
            for j, shares in enumerate(group.shares):
                found[:, k] += np.where(codes[:, j] < 0, 0.0, np.log(shares)[codes[:, j]])
            found[:, k] += _log_normal(numbers, np.array(group.mean), np.array(group.covariance))
        return found

    def log_outcomes(self, people: People) -> Array:
        """ln p(outcome | group), (n, K)."""
        moved = people.common @ np.array(self.effects, dtype=float).T
        columns = [
            self.family.log_density(people.outcome, theta + moved, people.rows)
            for theta in self._thetas
        ]
        return np.column_stack(columns)

    def best_labels(self, people: People) -> Labels:
        """The most probable groups, by the true parameters, given covariates and outcomes."""
        scores = np.log(self.shares) + self._log_covariates(people) + self.log_outcomes(people)
        return np.asarray(scores.argmax(axis=1))

    def nll(self, people: People) -> Array:
        """−ln p(outcome | covariates) of people by the true parameters, (n,)."""
        scores = np.log(self.shares) + self._log_covariates(people)
        own = scores - logsumexp(scores, axis=1, keepdims=True)
        return -np.asarray(logsumexp(own + self.log_outcomes(people), axis=1))

    def risks(self, people: People) -> Array:
        """The true risk of each, (n, R)."""
        return np.asarray(self.family.risk(self._thetas)[people.labels])


def _log_normal(x: Array, mean: Array, covariance: Array) -> Array:
    """ln of a normal density at x (n, D), of what is known of it."""
    found, known = np.zeros(len(x)), ~np.isnan(x)
    for pattern in np.unique(known, axis=0):
        if pattern.any():
            rows = np.flatnonzero((known == pattern).all(axis=1))
            own = covariance[np.ix_(pattern, pattern)]
            found[rows] = stats.multivariate_normal.logpdf(
                x[np.ix_(rows, pattern)], mean[pattern], own
            )
    return found


def _levels(*columns: str) -> list[list[float]]:
    """Shares of the levels of columns, by the names of their patterns."""
    named = {
        "a": [0.8, 0.1, 0.1],
        "b": [0.1, 0.8, 0.1],
        "c": [0.1, 0.1, 0.8],
        "bc": [0.1, 0.6, 0.3],
    }
    return [named[column] for column in columns]


_EVEN, _LAST = [0.25] * 4, [0.1, 0.1, 0.1, 0.7]
_FIVE = [_levels(*words) for words in ("aaaaa", "aabbc", "bbbbb", "cbaca", "ccccc")]
_MEANS = ([0.0, 2.0], [3.0, 2.0], [10.0, -5.0])
_RISKS = np.log([10.0, 3.0, 0.1])


def _normal(sizes: Sequence[int], thetas: Sequence[float], shared: float) -> list[Group]:
    """Three groups with two normal covariates; shared: the covariance of the last."""
    covariances = (
        [[0.5, 0.0], [0.0, 3.0]],
        [[1.0, 0.0], [0.0, 1.0]],
        [[2.0, shared], [shared, 1.0]],
    )
    parts = zip(sizes, thetas, _MEANS, covariances, strict=True)
    return [Group(size, theta, (), mean, cov) for size, theta, mean, cov in parts]


def _discrete(sizes: Sequence[int], thetas: Sequence[Any], shares: Sequence[Shares]) -> list[Group]:
    return [Group(*parts) for parts in zip(sizes, thetas, shares, strict=True)]


def _mixed() -> list[Group]:
    numbers = _normal([300] * 3, _RISKS.tolist(), 0.9)
    means = ([-10.0, 2.0], [3.0, 20.0], [10.0, -5.0])
    shares = [_levels(*words) for words in ("aaa", "bbb", "ccc")]
    return [
        group._replace(mean=mean, shares=own)
        for group, mean, own in zip(numbers, means, shares, strict=True)
    ]


_COUNTED = [
    [[0.8, 0.2], [0.2, 0.8], [0.6, 0.2, 0.2], [0.25, 0.5, 0.25], _EVEN],
    [[0.8, 0.2], [0.9, 0.1], [0.7, 0.15, 0.15], [0.6, 0.2, 0.2], _EVEN],
    [[0.2, 0.8], [0.9, 0.1], *_levels("a", "a"), _EVEN],
    [[0.2, 0.8], [0.3, 0.7], [0.15, 0.7, 0.15], *_levels("a"), _EVEN],
    [[0.2, 0.8], [0.5, 0.5], *_levels("c", "a"), _LAST],
]
_TIMED = [
    [[0.8, 0.2], [0.8, 0.2], *_levels("a", "a"), _EVEN],
    [[0.8, 0.2], [0.2, 0.8], *_levels("c", "b"), _EVEN],
    [[0.2, 0.8], [0.2, 0.8], *_levels("c", "b"), _LAST],
]
_CHOSEN = [_levels("a", "a", "a", "a", "a"), _levels("b", "b", "b", "b", "a")]
_CHOSEN.append(_levels("a", "c", "bc", "c", "c"))

DESIGNS = {
    design.name: design
    for design in (
        Design(
            "Bernoulli",
            "discrete",
            _discrete([200] * 5, np.log([9.0, 2.0, 1.0, 1 / 2, 1 / 9]).tolist(), _FIVE),
            (0.1, -0.5),
        ),
        Design("Bernoulli", "mixed", _mixed()),
        Design("binomial", "normal", _normal([200, 700, 100], _RISKS.tolist(), 0.7), (0.1,), 0.001),
        Design(
            "Poisson",
            "discrete",
            _discrete(
                [150, 250, 250, 250, 150], np.log([10.0, 5.0, 2.5, 1.0, 0.1]).tolist(), _COUNTED
            ),
            (0.01,),
            0.001,
        ),
        Design(
            "Poisson",
            "normal",
            _normal([500, 600, 400], _RISKS.tolist(), 0.7),
            (-0.05, 0.1),
            0.001,
        ),
        Design(
            "normal",
            "discrete",
            _discrete([500, 700, 300, 600, 900], [10.0, 5.0, 0.0, -5.0, -10.0], _FIVE),
            (0.1, -0.5),
        ),
        Design("normal", "normal", _normal([300, 500, 400], [-5.0, 0.0, 5.0], 0.9)),
        Design(
            "categorical",
            "discrete",
            _discrete(
                [200, 300, 400], [[0.0, 3.0, 0.5], [0.0, 0.5, 3.0], [0.0, -2.0, -2.0]], _CHOSEN
            ),
            ((0.0, 0.0), (-3.0, 1.0), (3.0, 7.0)),
            0.001,
        ),
        Design(
            "survival",
            "discrete",
            _discrete([250] * 3, np.log([0.01, 0.001, 0.005]).tolist(), _TIMED),
            (0.0,),
        ),
    )
}
