"""The negative binomial family: counts that vary more than Poisson counts, with variance μ + μ²/r
about means μ = e^η. r, the dispersion, is learned; r → ∞ is Poisson.

With ψ = η − ln r the probability of y is proportional to e^{ψ y}/(1 + e^ψ)^{y + r}. So given ω ~
PG(y + r, ψ), y counts as a normal observation (y − r)/(2ω) of ψ with precision ω (Polson, Scott and
Windle 2013). For r much larger than μ these precisions are far above what a count tells of η, and
vectors and effects would creep. So they also move by the Metropolis step that families without an
augmentation have, with ω integrated out.

r is drawn with ω integrated out too, by a slice of ln r. Its prior is that of r^{-½}, about the
standard deviation of the logarithms of rates: half-t with three degrees of freedom and scale 1,
whose mode is Poisson.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc, betaln, expit, gammaln, log_expit

from dualview.behaviors.families.base import Array, Family, Given, Outcome, Params, Rows, Users
from dualview.behaviors.families.expected import ExpectedFactor, Parameter
from dualview.behaviors.families.quadrature import Bend, CountingOutcome, QuadratureOutcome
from dualview.numerics import polya_gamma
from dualview.numerics.hyperprior import FINITE_VARIANCES
from dualview.numerics.slice_sampling import slice_sample
from dualview.numerics.streams import stream_of

_HIGHEST = 40.0  # of logarithms of means at which counts can be drawn
_LARGE = 1e4  # r from which ratios of gamma functions are Stirling's
_DOF = 3.0  # of the prior of r^{-½}
_LOG_CONSTANT = float(np.log(2.0 / np.pi) - 0.5 * np.log(_DOF))  # of the density of its r
_WIDTH = 1.0  # of slices of ln r
_FURTHEST = 100.0  # |ln r| that is looked at: beyond, the prior has e^{−50} of its mass
_LEAST = 1e-290
_RANGE = (0.2, 50.0)  # of r to start from


def log_rising(y: Array, r: Any) -> Array:
    """ln Γ(y + r)/Γ(r) with all its digits, also where r is large."""
    large = np.maximum(r, _LARGE)
    stirling = (large + y - 0.5) * np.log1p(y / large) + y * np.log(large) - y
    stirling = stirling + (1.0 / (large + y) - 1.0 / large) / 12.0
    small = np.minimum(r, _LARGE)
    return np.asarray(np.where(r < _LARGE, gammaln(y + small) - gammaln(small), stirling))


class NegativeBinomialOutcome(CountingOutcome):
    """Counts from 0; locations are logarithms of their means. dispersions (S,): r in S draws."""

    def __init__(self, dispersions: Any) -> None:
        self.dispersions = np.asarray(dispersions, dtype=float)

    def of_draws(self, draws: NDArray[np.intp]) -> "NegativeBinomialOutcome":
        return NegativeBinomialOutcome(self.dispersions[draws])

    def joined(self, others: Sequence[QuadratureOutcome]) -> "NegativeBinomialOutcome":
        own = [one for one in (self, *others) if isinstance(one, NegativeBinomialOutcome)]
        return NegativeBinomialOutcome(np.concatenate([one.dispersions for one in own]))

    def _sizes(self, locations: Array) -> Any:
        """r, (S, 1), or that of one draw."""
        return self.dispersions[:, None] if locations.ndim > 1 else self.dispersions[0]

    def log_density(self, values: Array, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        """ln p(values | log means), (S, cases)."""
        r = self._sizes(locations)
        odds = locations - np.log(r)
        sizes, draws = np.unique(self.dispersions, return_inverse=True)
        height = (log_rising(values, sizes[:, None]) - gammaln(values + 1.0))[draws]
        return np.asarray(height + values * log_expit(odds) + r * log_expit(-odds))

    def derivatives(self, values: Array, locations: Array) -> tuple[Array, Array]:
        r = self._sizes(locations)
        share = expit(locations - np.log(r))
        return values - (values + r) * share, (values + r) * share * (1.0 - share)

    def moments(self, locations: Array) -> tuple[Array, Array]:
        means = np.exp(np.minimum(locations, _HIGHEST))
        return means, means + means**2 / self._sizes(locations)

    def mixed_moments(self, locations: Array, sds: Array) -> tuple[Array, Array]:
        mean = np.exp(locations + 0.5 * sds**2)
        square = np.exp(2.0 * locations + 2.0 * sds**2)
        return mean, mean + square * (1.0 + 1.0 / self._sizes(locations))

    def below(self, values: Array, locations: Array) -> Array:
        r = self._sizes(locations)
        return np.asarray(betaincc(values + 1.0, r, expit(locations - np.log(r))))

    def fall(self, values: Array, locations: Array) -> Bend:
        r = self._sizes(locations)
        odds = locations - np.log(r)
        share, n = expit(odds), values + 1.0 + r
        height = -betaln(values + 1.0, r)
        value = height + (values + 1.0) * log_expit(odds) + r * log_expit(-odds)
        return Bend(value, values + 1.0 - n * share, n * share * (1.0 - share))

    def augment(
        self, rng: np.random.Generator, values: Array, locations: Array
    ) -> tuple[Array, Array]:
        """By Pólya–Gamma variables ω: (y − r)/(2ω) of ψ with precision ω."""
        r = float(self.dispersions[0])
        odds, precision = locations - np.log(r), np.empty(len(locations))
        polya_gamma.draw_shapes_into(stream_of(rng), values + r, odds, precision)
        precision = np.maximum(precision, _LEAST)  # 0 in rounding where y is 0 and r tiny
        return 0.5 * (values - r) / precision - odds, precision

    def draw(self, rng: np.random.Generator, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        """A count for each location, (S, cases): Poisson, of gamma rates."""
        r = np.broadcast_to(self._sizes(locations), locations.shape)
        logs = locations + np.log(np.maximum(rng.standard_gamma(r) / r, 1e-300))
        return np.asarray(rng.poisson(np.exp(np.minimum(logs, _HIGHEST))), dtype=float)


@dataclass(frozen=True)
class NegativeBinomialFamily(Family):
    """Counts; the parameter is r, the dispersion."""

    # counts of 0 throughout leave latent vectors the tails of their prior
    hyperprior = FINITE_VARIANCES
    also_steps = True

    def outcome(self, phi: Params, rows: Rows) -> Outcome:  # noqa: ARG002
        return NegativeBinomialOutcome([phi["dispersion"]])

    def pull(self, y: Any, eta: Array) -> tuple[Array, float]:
        """As logarithms of counts pull, with the precision of a typical count."""
        typical = 1.0 / (1.0 / max(float(np.mean(y)), 0.25) + 0.5)
        return typical * (np.log(y + 0.5) - eta), typical

    def start(self, rng: np.random.Generator, rows: Rows) -> Params:  # noqa: ARG002
        """From what counts vary about the means to start from."""
        means = np.exp(np.minimum(rows.eta, _HIGHEST))
        excess = float(((rows.y - means) ** 2 - means).sum())
        found = float((means**2).sum()) / excess if excess > 0.0 else np.inf
        return {"dispersion": float(np.clip(found, *_RANGE))}

    def redraw(self, rng: np.random.Generator, given: Given) -> Params:
        """r given the locations."""
        start = float(np.log(given.phi["dispersion"]))
        log_density = dispersion_density(given.rows)
        return {"dispersion": float(np.exp(slice_sample(rng, log_density, start, _WIDTH)))}

    def log_prior(self, phi: Params) -> float:
        return float(log_dispersion_prior(phi["dispersion"]))

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:  # noqa: ARG002
        return {"dispersion": np.asarray(log_dispersion_prior(reported["dispersion"]))}

    def draw_prior(self, rng: np.random.Generator, z: Users) -> Params:  # noqa: ARG002
        return {"dispersion": float(rng.standard_t(_DOF) ** -2.0)}

    def expect(self, y: Any) -> ExpectedFactor:
        return ExpectedFactor.start(self, y, len(y), Parameter("dispersion", _LOG_CONSTANT))


def log_dispersion_prior(r: Any) -> Any:
    """ln p(r) up to a constant, of r^{-½} ~ |t_3|."""
    return -1.5 * np.log(r) - 0.5 * (_DOF + 1.0) * np.log1p(1.0 / (_DOF * np.asarray(r)))


def dispersion_density(rows: Rows) -> Any:
    """ln p(ln r | rows) up to a constant, as a function of ln r."""
    counts, places = np.unique(rows.y, return_inverse=True)
    numbers = np.bincount(places)

    def log_density(x: float) -> float:
        if abs(x) > _FURTHEST:
            return -np.inf
        r = float(np.exp(x))
        odds = rows.eta - x
        rising = float(numbers @ log_rising(counts, r))
        fit = float((rows.y * log_expit(odds) + r * log_expit(-odds)).sum())
        return rising + fit + float(log_dispersion_prior(r)) + x

    return log_density
