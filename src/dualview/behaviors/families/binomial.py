"""The binomial family: successes out of known numbers of trials, with log odds η.

y trials of one row are y answers with the same location, so the augmentation is that of yes or no:
ω ~ PG(n, η), and y counts as a normal observation (y − n/2)/ω with precision ω (Polson, Scott and
Windle 2013). Vectors and effects move by the Metropolis step besides, without ω, which would hold
them back where all trials of a cluster have the same end.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betainc, betaln, expit, gammaln, log_expit

from dualview.behaviors.families.base import Array, Family, Outcome, Params, Rows
from dualview.behaviors.families.logit import TiltFactor
from dualview.behaviors.families.quadrature import Bend, CountingOutcome
from dualview.errors import InputError
from dualview.numerics import polya_gamma
from dualview.numerics.hyperprior import FINITE_VARIANCES
from dualview.numerics.streams import stream_of


class BinomialOutcome(CountingOutcome):
    """Successes out of trials (n,); locations are log odds."""

    def __init__(self, trials: Array) -> None:
        self.trials = trials

    @property
    def highest(self) -> Array:
        """All trials."""
        return self.trials

    def of_cases(self, cases: slice) -> "BinomialOutcome":
        return BinomialOutcome(self.trials[cases])

    def checked(self, y: Any, n: int) -> Array:
        values = super().checked(y, n)
        odd = np.flatnonzero((values < 0) | (values > self.trials) | (values != np.floor(values)))
        if len(odd):
            raise InputError(
                "y must hold numbers of successes, whole and from 0 to the trials; got "
                f"{values[odd[0]]:g} of {self.trials[odd[0]]:g}."
            )
        return values

    def log_density(self, values: Array, locations: Array, cases: slice) -> Array:
        """ln p(values | log odds), (S, cases)."""
        y, n = _successes(values), self.trials[cases]
        ways = gammaln(n + 1.0) - gammaln(y + 1.0) - gammaln(n - y + 1.0)
        return np.asarray(ways + y * log_expit(locations) + (n - y) * log_expit(-locations))

    def derivatives(self, values: Array, locations: Array) -> tuple[Array, Array]:
        share = expit(locations)
        return (
            _successes(values) - self.trials * share,
            self.trials * share * (1.0 - share),
        )

    def moments(self, locations: Array) -> tuple[Array, Array]:
        share = expit(locations)
        return self.trials * share, self.trials * share * (1.0 - share)

    def below(self, values: Array, locations: Array) -> Array:
        left = np.maximum(self.trials - values, 0.5)  # it is not looked at where none is left
        some = betainc(left, values + 1.0, expit(-locations))
        return np.where(values < self.trials, some, 1.0)

    def fall(self, values: Array, locations: Array) -> Bend:
        left, share = np.maximum(self.trials - values, 0.5), expit(locations)
        value = (values + 1.0) * log_expit(locations) + left * log_expit(-locations)
        n = values + 1.0 + left
        return Bend(
            value - betaln(values + 1.0, left),
            values + 1.0 - n * share,
            n * share * (1.0 - share),
        )

    def augment(
        self, rng: np.random.Generator, values: Array, locations: Array
    ) -> tuple[Array, Array]:
        """By Pólya–Gamma variables ω: (y − n/2)/ω with precision ω."""
        precision = np.empty(len(locations))
        polya_gamma.draw_shapes_into(stream_of(rng), self.trials, locations, precision)
        return (_successes(values) - 0.5 * self.trials) / precision - locations, precision

    def draw(self, rng: np.random.Generator, locations: Array, cases: slice) -> Array:
        """Successes for each location, (S, cases)."""
        n = self.trials[cases].astype(np.int64)
        return np.asarray(rng.binomial(n, expit(locations)), dtype=float)


def _successes(values: Array) -> Array:
    """Of values that have the trials beside them, or have not."""
    return values[:, 0] if values.ndim == 2 else values


@dataclass(frozen=True)
class BinomialFamily(Family):
    """Successes and trials, y being (n, 2); there are no parameters."""

    # trials that all end alike leave latent vectors the tails of their prior
    hyperprior = FINITE_VARIANCES
    also_steps = True

    def outcome(self, phi: Params, rows: Rows) -> Outcome:  # noqa: ARG002
        return BinomialOutcome(np.ascontiguousarray(rows.y[:, 1]))

    def pull(self, y: Any, eta: Array) -> tuple[Array, float]:  # noqa: ARG002
        """At even odds."""
        return y[:, 0] - 0.5 * y[:, 1], 0.25 * float(y[:, 1].mean())

    def sample(self, rng: np.random.Generator, rows: Rows, phi: Params) -> Any:
        return np.column_stack([super().sample(rng, rows, phi), rows.y[:, 1]])

    def expect(self, y: Any) -> "BinomialFactor":
        return BinomialFactor(np.zeros(len(y)))


@dataclass(frozen=True)
class BinomialFactor(TiltFactor):
    """That of yes or no with n answers in a row, which have one tilt."""

    @staticmethod
    def _told(y: Any) -> tuple[Array, Any]:
        return y[:, 0] - 0.5 * y[:, 1], y[:, 1]
