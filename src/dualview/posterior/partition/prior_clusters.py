"""The prior distribution of the number of clusters among n users, before any data.

With i users in t clusters, the next one opens another with probability (θ + σ t) / (θ + i) under
every prior here: θ = α and σ = 0 is the Dirichlet process, σ = d the process of Pitman and Yor, and
θ = K γ, σ = −γ a Dirichlet prior of K components with weight γ each. α, d and K are averaged over
their own priors. Given θ and σ

    p(t) = Π_{i<t} (θ + i σ) / (θ (θ + 1) … (θ + n − 1)) · B(n, t),
    B(n + 1, t) = B(n, t − 1) + (n − σ t) B(n, t),

B being generalized Stirling numbers (Pitman 2006, chapter 3).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import betaincinv

from dualview.checks import generator, whole_number
from dualview.errors import InputError
from dualview.partitions.choice import Process, concentration_of, partition_prior, partition_process
from dualview.partitions.finite_mixtures import FiniteMixtures
from dualview.partitions.priors import PartitionPrior
from dualview.posterior.draws.fit_facts import FitFacts
from dualview.posterior.partition.whole_numbers import WholeNumber

Array = NDArray[np.float64]

_MOST_WORK = 1e7  # B(n, t) that are worked out; beyond, numbers are drawn
_NODES, _FEW_NODES = 400, 48  # of a parameter's prior: where one B does for all of them, and not
_MOST_COMPONENTS = 20_000
_MOST_DRAWS, _LEAST_DRAWS, _MOST_STEPS = 20_000, 500, 2e8


@dataclass(frozen=True)
class PriorClusters(WholeNumber):
    """How many clusters a prior expects among n_users users.

    Attributes
    ----------
    n_users : int
    probabilities : array (n_users,)
        Of 1, 2, … clusters.
    n_draws : int or None
        How many numbers were drawn to estimate the probabilities; None where they were computed.
    """

    n_users: int
    probabilities: Array
    n_draws: int | None = None
    what: ClassVar[str] = "clusters"

    def __str__(self) -> str:
        low, high = self.interval(0.9)
        drawn = "" if self.n_draws is None else f" ({self.n_draws:,} draws)"
        return (
            f"{self.mean:.1f} clusters expected among {self.n_users:,} users, {low} to {high} with "
            f"probability 0.9, one with probability {self.probabilities[0]:.2f}{drawn}"
        )


def prior_clusters(
    n_users: int,
    n_clusters: int | Process | None = None,
    *,
    alpha: Any = None,
    random_state: Any = 0,
) -> PriorClusters:
    """The prior distribution of the number of clusters with users in them, before any data.

    With views that may disagree, those who do are two users here.

    Parameters
    ----------
    n_users : int
    n_clusters, alpha
        The prior over partitions, as :class:`DualViewMixture` takes it.
    random_state : int
        Of the numbers that are drawn: some thousand, where users are too many to compute the
        probabilities. ``n_draws`` of what is returned says how many.

    Returns
    -------
    PriorClusters

    Examples
    --------
    >>> import dualview as dv
    >>> prior = dv.prior_clusters(100, alpha=1.0)
    >>> print(prior)
    5.2 clusters expected among 100 users, 2 to 8 with probability 0.9, one with probability 0.01
    >>> prior.quantile(0.5), prior.interval(0.5)
    (5, (4, 6))
    >>> print(dv.prior_clusters(100, dv.FiniteMixtures()))
    1.9 clusters expected among 100 users, 1 to 5 with probability 0.9, one with probability 0.58
    """
    n_users = whole_number(n_users, "n_users", 1)
    process = n_clusters if isinstance(n_clusters, Process) else None
    fixed = None if process is not None or n_clusters is None else n_clusters
    if isinstance(fixed, str):
        process, fixed = partition_process(fixed), None
    if fixed is not None:
        fixed = whole_number(fixed, "n_clusters", 1)
    own = concentration_of(fixed, alpha, process)
    return number_of_clusters(
        partition_prior(fixed, own, process), n_users, generator(random_state)
    )


def number_of_clusters(
    prior: PartitionPrior, n_users: int, rng: np.random.Generator
) -> PriorClusters:
    """:func:`prior_clusters` of a prior that is known."""
    shared = _shares_sigma(prior)
    n_sigmas = 1 if shared else _FEW_NODES
    if n_sigmas * float(n_users) ** 2 > _MOST_WORK:
        return _simulated(prior, n_users, rng)
    found = np.zeros(n_users)
    for sigma, nodes in _by_sigma(prior, _NODES if shared else _FEW_NODES):
        log_ways = _log_ways(n_users, sigma)
        for log_share, theta in zip(nodes.log_share, nodes.theta, strict=True):
            found += np.exp(log_share + log_ways + _log_part(n_users, theta, sigma))
    return PriorClusters(n_users, found / found.sum())


def prior_of(post: FitFacts) -> PriorClusters | None:
    """That of the model of a posterior; None where it has one cluster, and where views may
    disagree, so that users may count twice."""
    if post.spec.n_clusters == 1 or post.spec.agreement is not None:
        return None
    return number_of_clusters(post.spec.partition_prior, post.n_users, np.random.default_rng(0))


class Nodes(NamedTuple):
    """Values of θ with the logarithms of their shares of the prior, (J,) both."""

    log_share: Array
    theta: Array


def _shares_sigma(prior: PartitionPrior) -> bool:
    """Whether σ is known."""
    moves = prior.alpha_prior.learned and np.ptp(prior.given(0.5).offset(np.array([1.0, 2.0]))) > 0
    return not moves and prior.discount_prior is None


def _by_sigma(prior: PartitionPrior, n: int) -> Iterator[tuple[float, Nodes]]:
    """Every σ with the θ that go with it, from Gauss and Legendre's rule along the levels of the
    priors' quantiles."""
    points, weights = np.polynomial.legendre.leggauss(n)
    levels, shares = 0.5 * (points + 1.0), 0.5 * weights
    alpha, log_share = _quantiles(prior, levels), np.log(shares)
    if not prior.alpha_prior.learned:
        alpha, log_share = np.array([prior.start_alpha]), np.zeros(1)
    if prior.discount_prior is not None:
        own = prior.discount_prior
        for d, share in zip(betaincinv(own.a, own.b, levels), shares, strict=True):
            yield float(d), Nodes(log_share + np.log(share), alpha)
        return
    offset = np.asarray(prior.offset(alpha), dtype=float)
    log_chance, theta = np.zeros(1), alpha[:, None]
    if isinstance(prior, FiniteMixtures):
        log_chance = _log_components(prior)
        theta = np.multiply.outer(offset, np.arange(1.0, len(log_chance) + 1.0))
    elif prior.n_components is not None:
        theta = (prior.n_components * offset)[:, None]
    log_shares = np.add.outer(log_share, log_chance)
    if np.ptp(offset) == 0.0:
        yield -float(offset[0]), Nodes(log_shares.ravel(), theta.ravel())
    else:
        for own, shares_of, thetas in zip(offset, log_shares, theta, strict=True):
            yield -float(own), Nodes(shares_of, thetas)


def _log_components(prior: FiniteMixtures) -> Array:
    """ln p(K) for K = 1, 2, … until a billionth is left."""
    found = prior.log_components(np.arange(1, _MOST_COMPONENTS + 1))
    n = int(np.searchsorted(np.cumsum(np.exp(found)), 1.0 - 1e-9)) + 1
    return found[:n]


def _quantiles(prior: PartitionPrior, levels: Array) -> Array:
    """Quantiles of the prior of α at some levels."""
    own = prior.alpha_prior
    if own.inverse_rate == 0.0:
        found = stats.gamma(own.power, scale=1.0 / max(own.rate, 1e-300)).ppf(levels)
    elif own.rate == 0.0:
        found = stats.invgamma(-own.power, scale=own.inverse_rate).ppf(levels)
    else:
        raise InputError("The number of clusters is known for gamma and inverse gamma priors of α.")
    return np.asarray(np.clip(found, 1e-300, 1e300))


def _log_ways(n_users: int, sigma: float) -> Array:
    """ln B(n, t) for t = 1, …, n; −inf where it is 0."""
    log_ways = np.full(n_users, -np.inf)
    log_ways[0] = 0.0
    numbers = np.arange(1, n_users + 1)
    for n in range(1, n_users):
        stays = log_ways[: n + 1] + np.log(np.maximum(n - sigma * numbers[: n + 1], 1e-300))
        log_ways[1 : n + 1] = np.logaddexp(stays[1:], log_ways[:n])
        log_ways[0] = stays[0]
    return log_ways


def _log_part(n_users: int, theta: float, sigma: float) -> Array:
    """ln of Π_{i<t} (θ + i σ) / (θ (θ + 1) …) for t = 1, …, n; −inf for more clusters than
    components."""
    i = np.arange(n_users)
    steps = 1.0 + i * (sigma / theta)
    open_up = steps > 1e-9  # K components: 1 − t/K
    logs = np.where(open_up, np.log(np.where(open_up, steps, 1.0)), -np.inf)
    both = np.arange(1, n_users + 1) * np.log(theta) + np.cumsum(logs)
    return np.asarray(both - np.log(theta) * n_users - np.log1p(i / theta).sum())


def _simulated(prior: PartitionPrior, n_users: int, rng: np.random.Generator) -> PriorClusters:
    """The same from numbers that are drawn, user after user."""
    n = int(np.clip(_MOST_STEPS / n_users, _LEAST_DRAWS, _MOST_DRAWS))
    alpha = np.array([prior.draw_alpha(rng) for _ in range(n)])
    discount = np.array([prior.draw_discount(rng) for _ in range(n)])
    own = prior.given(discount) if prior.discount_prior is not None else prior
    offset = np.asarray(own.offset(alpha), dtype=float) * np.ones(n)
    theta, most = alpha, np.full(n, np.inf)
    if isinstance(prior, FiniteMixtures):
        chances = np.exp(_log_components(prior))
        most = rng.choice(len(chances), n, p=chances / chances.sum()) + 1.0
    elif prior.n_components is not None:
        most = np.full(n, float(prior.n_components))
    limited = np.isfinite(most)
    theta = np.where(limited, np.where(limited, most, 0.0) * offset, alpha)
    found = np.ones(n)
    for i in range(1, n_users):
        chance = (theta - offset * found) / (theta + i)
        found += (rng.random(n) < chance) & (found < most)
    probabilities = np.bincount(found.astype(np.int64) - 1, minlength=n_users) / n
    return PriorClusters(n_users, probabilities, n)
