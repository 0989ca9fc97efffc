"""The posterior of the number of components K of a mixture of finite mixtures.

A component need not have users. What the data say of K they say by the number of clusters t, the
components that have some: given t, γ and n users

    p(K | t, γ) ∝ p(K) K! / (K − t)! · Γ(γ K) / Γ(γ K + n) for K ≥ t

(Miller and Harrison 2018, section 3), which is averaged over the draws of t and γ.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from dualview.partitions.finite_mixtures import FiniteMixtures
from dualview.posterior.draws.fit_facts import FitFacts
from dualview.posterior.partition.whole_numbers import WholeNumber

Array = NDArray[np.float64]

_FIRST, _MOST = 128, 2**17  # components that are looked at
_LEFT = 1e-9  # of the probability, beyond them


@dataclass(frozen=True)
class NumberOfComponents(WholeNumber):
    """How many components a mixture of finite mixtures has, given the data.

    Attributes
    ----------
    probabilities : array
        Of 1, 2, … components.
    """

    probabilities: Array
    what: ClassVar[str] = "components"

    def __str__(self) -> str:
        low, high = self.interval(0.9)
        return f"{self.mean:.1f} components expected, {low} to {high} with probability 0.9"


def number_of_components(
    prior: FiniteMixtures, n_users: int, n_clusters: NDArray[np.int64], weight: Array
) -> NumberOfComponents:
    """K given numbers of clusters t and weights of components γ in draws, (N,) both."""
    draws, repeats = np.unique(np.column_stack([n_clusters, weight]), axis=0, return_counts=True)
    most = int(n_clusters.max()) + _FIRST
    while True:
        log_prior, numbers = prior.log_components(np.arange(1, most + 1)), np.arange(1.0, most + 1)
        found = np.zeros(most)
        for (t, gamma), n in zip(draws, repeats, strict=True):
            k = numbers[int(t) - 1 :]
            terms = gammaln(k + 1.0) - gammaln(k - t + 1.0) + betaln(gamma * k, n_users)
            terms += log_prior[int(t) - 1 :]
            own = np.exp(terms - terms.max())
            found[int(t) - 1 :] += n * own / own.sum()
        found /= found.sum()
        # Tails are lighter than 1 / K²
        if most * found[-1] < _LEFT or most >= _MOST:
            return NumberOfComponents(found)
        most *= 4


def mixture_of(post: FitFacts) -> FiniteMixtures | None:
    """The prior of a fit of a mixture of finite mixtures; None of others, and where views may
    disagree, so that users may count twice."""
    prior = post.spec.partition_prior
    return prior if isinstance(prior, FiniteMixtures) and post.spec.agreement is None else None


def components_of(post: FitFacts) -> NumberOfComponents | None:
    """The number of components of a fit; None where it is not known, see :func:`mixture_of`."""
    prior = mixture_of(post)
    if prior is None:
        return None
    names = ("n_clusters", "alpha")
    t, weight = (
        post.flat(name) if post.summary is None else post.summary[name].values.ravel()
        for name in names
    )
    return number_of_components(prior, post.n_users, t.astype(np.int64), weight.astype(float))
