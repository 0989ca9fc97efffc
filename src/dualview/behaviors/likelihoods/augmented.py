"""Per-user regressions whose observations are completed before each sweep, by numbers that are
forgotten after it.

The noise s ~ G(ν, 1/ν) is drawn with these numbers integrated out, by slices of ln s: given them it
would hardly move.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dualview.behaviors.likelihoods.conjugate import Conjugate
from dualview.behaviors.likelihoods.panel import PanelRegression
from dualview.behaviors.records import Params
from dualview.numerics.messages import Terms
from dualview.numerics.python_slices import slice_sample

MOST_LOG = 600.0  # a logarithm beyond which numbers leave their range


@dataclass(frozen=True)
class AugmentedRegression(PanelRegression):
    """A regression of which nothing is conjugate until it is completed."""

    def log_noise_density(
        self, log_likelihood: Callable[[float], float]
    ) -> Callable[[float], float]:
        """Log density of ln s up to a constant, from the log likelihood of s with all else held."""
        prior = self._working_prior

        def log_density(log_noise: float) -> float:
            if abs(log_noise) > MOST_LOG:
                return -math.inf
            noise = math.exp(log_noise)
            return log_likelihood(noise) + prior.log_density(noise) + log_noise

        return log_density

    def next_noise(
        self, rng: np.random.Generator, density: Callable[[float], float], noise: float, n: int
    ) -> float:
        """A step of s from where it is, by its log density, which rests on n observations."""
        return math.exp(slice_sample(rng, density, math.log(noise), 4.0 / math.sqrt(1.0 + 0.2 * n)))

    def conjugate(self, params: Params) -> tuple[Terms, Conjugate] | None:  # noqa: ARG002
        """Observations are completed before each sweep."""
        return None

    @property
    def can_approximate(self) -> bool:
        """Not while observations are to be completed."""
        return False
