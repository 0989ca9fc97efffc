"""The Poisson family: counts whose logarithmic rates are their locations.

It has no augmentation that makes rows normal and exact, so latent vectors move by the Metropolis
step of all such families (``likelihoods.metropolis``). An exposure is an offset, its logarithm.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaincc, gammaln

from dualview.behaviors.families.base import Array, Family, Outcome, Params, Rows
from dualview.behaviors.families.expected import ExpectedFactor
from dualview.behaviors.families.quadrature import Bend, CountingOutcome
from dualview.numerics.hyperprior import FINITE_VARIANCES

_HIGHEST = 40.0  # of logarithms of rates at which counts can be drawn: those beyond have no number


def _rates(locations: Array) -> Array:
    """Rates that are numbers, for proposals, means and draws."""
    return np.asarray(np.exp(np.minimum(locations, _HIGHEST)))


class PoissonOutcome(CountingOutcome):
    """Counts from 0; locations are logarithms of their rates."""

    def log_density(self, values: Array, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        """ln p(values | log rates), (S, cases)."""
        with np.errstate(over="ignore"):  # a rate beyond all numbers leaves no count a probability
            rates = np.exp(locations)
        return np.asarray(values * locations - rates - gammaln(values + 1.0))

    def derivatives(self, values: Array, locations: Array) -> tuple[Array, Array]:
        rates = _rates(locations)
        return values - rates, rates

    def moments(self, locations: Array) -> tuple[Array, Array]:
        rates = _rates(locations)
        return rates, rates

    def mixed_moments(self, locations: Array, sds: Array) -> tuple[Array, Array]:
        mean = np.exp(locations + 0.5 * sds**2)
        return mean, mean + np.exp(2.0 * locations + 2.0 * sds**2)

    def below(self, values: Array, locations: Array) -> Array:
        return np.asarray(gammaincc(values + 1.0, _rates(locations)))

    def fall(self, values: Array, locations: Array) -> Bend:
        """e^η p(y), the density of a logarithm of a gamma variable."""
        rates = np.exp(np.minimum(locations, 700.0))
        value = (values + 1.0) * locations - rates - gammaln(values + 1.0)
        return Bend(value, values + 1.0 - rates, rates)

    def draw(self, rng: np.random.Generator, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        """A count for each location, (S, cases)."""
        return rng.poisson(_rates(locations)).astype(float)


@dataclass(frozen=True)
class PoissonFamily(Family):
    """Counts; there are no parameters."""

    # counts of 0 throughout leave latent vectors the tails of their prior
    hyperprior = FINITE_VARIANCES
    has_augmentation = False

    def outcome(self, phi: Params, rows: Rows) -> Outcome:  # noqa: ARG002
        return PoissonOutcome()

    def pull(self, y: Any, eta: Array) -> tuple[Array, float]:
        """As logarithms of counts pull, with the precision of a typical count."""
        typical = max(float(np.mean(y)), 0.25)
        return typical * (np.log(y + 0.5) - eta), typical

    def expect(self, y: Any) -> ExpectedFactor:
        return ExpectedFactor.start(self, y, len(y))
