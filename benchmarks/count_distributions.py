"""Distributions of counts in one simple model: an intercept of each user, normal over users, and
coefficients that all share.

Fits maximize the marginal likelihood: each intercept is integrated out by quadrature, so that no
sampler comes between.

n counts of U users: user (n,), common (n, C) with a column of ones, y (n,). K nodes.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp

from dualview.behaviors.families.interval import log_probability
from dualview.behaviors.recorded import Recorded

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
LOG_WEIGHTS = np.log(WEIGHTS) - 0.5 * np.log(2 * np.pi)


class Counts(NamedTuple):
    """Counts of users; in training or held out. New users have no training counts."""

    user: Integers
    common: Array
    y: Array
    training: NDArray[np.bool_]


class Distribution(Protocol):
    """The distribution of a count given its location."""

    def working(self, y: Array) -> Array:
        """About the locations that counts (n,) suggest, for a start."""

    def log_pmf(self, y: Array, location: Array, log_dispersion: float) -> Array:
        """Log probabilities (n, K) of counts (n, 1) with locations (n, K)."""


class Rounded(NamedTuple):
    """A normal number on the library's scale, of which the library's interval is recorded."""

    recorded: Recorded

    def working(self, y: Array) -> Array:
        return self.recorded.scaled(y)

    def log_pmf(self, y: Array, location: Array, log_dispersion: float) -> Array:
        return log_probability(*self.recorded.intervals(y), location, np.exp(log_dispersion))


class Poisson(NamedTuple):
    """Poisson with the mean exp(location)."""

    def working(self, y: Array) -> Array:
        return np.log(y + 0.5)

    def log_pmf(self, y: Array, location: Array, _: float) -> Array:
        return np.asarray(y * location - np.exp(location) - gammaln(y + 1.0))


class NegativeBinomial(NamedTuple):
    """Negative binomial with the mean m = exp(location) and the variance m + m²/r, where ln r is
    minus the log dispersion."""

    def working(self, y: Array) -> Array:
        return np.log(y + 0.5)

    def log_pmf(self, y: Array, location: Array, log_dispersion: float) -> Array:
        r, log_odds = np.exp(-log_dispersion), location + log_dispersion  # of m against r
        ways = gammaln(y + r) - gammaln(r) - gammaln(y + 1.0)
        return np.asarray(ways + y * log_odds - (y + r) * np.logaddexp(0.0, log_odds))


class TruncatedNegativeBinomial(NamedTuple):
    """A negative binomial count that is known to be above 0."""

    def working(self, y: Array) -> Array:
        return np.log(y)

    def log_pmf(self, y: Array, location: Array, log_dispersion: float) -> Array:
        whole = NegativeBinomial()
        none = whole.log_pmf(np.zeros((1, 1)), location, log_dispersion)
        return whole.log_pmf(y, location, log_dispersion) - np.log(-np.expm1(none))


class Above(NamedTuple):
    """A count less the lowest that is possible has the distribution."""

    lowest: float
    distribution: Distribution

    def working(self, y: Array) -> Array:
        return self.distribution.working(y - self.lowest)

    def log_pmf(self, y: Array, location: Array, log_dispersion: float) -> Array:
        return self.distribution.log_pmf(y - self.lowest, location, log_dispersion)


class Parameters(NamedTuple):
    """Coefficients of the common columns, and logarithms of the intercepts' sd and of the
    dispersion of a count."""

    coefficients: Array
    log_sd: float
    log_dispersion: float


def log_marginal(
    distribution: Distribution,
    given: Parameters,
    case: Integers,
    common: Array,
    y: Array,
    n_cases: int,
) -> Array:
    """Log probability of the counts of each case, (n_cases,), its intercept integrated out; 0 where
    there are none.

    Gauss–Hermite quadrature around the mode of each intercept. Modes are found by Newton's method
    with differences.
    """
    fixed, sd = common @ given.coefficients, np.exp(given.log_sd)

    def log_joint(v: Array) -> Array:
        """Of the intercepts sd · v, v (n_cases, K), and the counts; without the constant of the
        normal density."""
        own = distribution.log_pmf(y[:, None], fixed[:, None] + sd * v[case], given.log_dispersion)
        return (
            np.column_stack([np.bincount(case, column, n_cases) for column in own.T]) - 0.5 * v**2
        )

    step, mode, curvature = 0.01, np.zeros(n_cases), np.ones(n_cases)
    for _ in range(8):
        below, here, above = log_joint(mode[:, None] + step * np.array([-1.0, 0.0, 1.0])).T
        curvature = np.maximum((2.0 * here - below - above) / step**2, 0.5)  # the prior's is 1
        mode = mode + np.clip((above - below) / (2.0 * step) / curvature, -2.0, 2.0)
    width = curvature[:, None] ** -0.5
    at_nodes = log_joint(mode[:, None] + width * NODES) + 0.5 * NODES**2 + np.log(width)
    return np.asarray(logsumexp(at_nodes + LOG_WEIGHTS, axis=1))


def fitted(distribution: Distribution, data: Counts) -> Parameters:
    """Maximum marginal likelihood of the training counts."""
    _, case = np.unique(data.user[data.training], return_inverse=True)
    common, y = data.common[data.training], data.y[data.training]

    def loss(theta: Array) -> float:
        given = Parameters(theta[:-2], theta[-2], theta[-1])
        return -float(
            log_marginal(distribution, given, case, common, y, int(case.max()) + 1).sum()
        ) / len(y)

    start, *_ = np.linalg.lstsq(common, distribution.working(y))
    spread = np.log((distribution.working(y) - common @ start).std())
    bounds = [(None, None)] * len(start) + [(-10.0, 10.0)] * 2  # logarithms of 0 are not reached
    begin, options = [*start, spread - 0.5, spread], {"eps": 1e-5, "gtol": 1e-5}
    found = minimize(loss, begin, method="L-BFGS-B", bounds=bounds, options=options)
    if np.abs(found.jac).max() > 1e-3:
        raise RuntimeError(f"The fit of {distribution} did not converge: {found.message}")
    return Parameters(found.x[:-2], found.x[-2], found.x[-1])


def log_scores(distribution: Distribution, given: Parameters, data: Counts) -> Array:
    """Log probability of each held-out count given the training counts of its user, if there are
    any."""
    training, asked = np.flatnonzero(data.training), np.flatnonzero(~data.training)
    n_users = int(data.user.max()) + 1
    known = log_marginal(
        distribution, given, data.user[training], data.common[training], data.y[training], n_users
    )
    own = [np.append(training[data.user[training] == data.user[row]], row) for row in asked]
    rows, case = np.concatenate(own), np.repeat(np.arange(len(asked)), [len(one) for one in own])
    both = log_marginal(distribution, given, case, data.common[rows], data.y[rows], len(asked))
    return both - known[data.user[asked]]
