"""The likelihood of per-user regressions of which intervals are recorded, in working units: low_i ≤
y_i ≤ high_i.

    y_i ~ N(x_iᵀ f_{u(i)}, 1/s); the interval [low_i, high_i] holds y_i, which is exact where both
    ends are equal.

Before each sweep y_i is drawn from its normal distribution between the ends, and it is forgotten
after it. The noise s is drawn with the y_i integrated out, by slices: given them it would hardly
move where intervals are wide. latent (U, q).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.panel import AugmentedRegression, PanelRegression
from dualview.behaviors.recorded import Recorded
from dualview.behaviors.records import Array, Params, Prior
from dualview.numerics.hyperprior import FINITE_VARIANCES, PUBLISHED, Hyperprior
from dualview.numerics.messages import Terms
from dualview.numerics.streams import stream_of
from dualview.numerics.truncated import draw_between
from dualview.outcomes.interval import log_probability


@dataclass(frozen=True)
class IntervalRegression(AugmentedRegression):
    """Normal observations of one user each that are known to lie between two ends, low and high
    (n,).

    The panel's outcome is a number between them, to start from. is_open: some intervals have one
    end only, so that observations may leave latent vectors the tails of their prior. record(y): the
    ends that other numbers (n,) would have.
    """

    low: Array = field(default_factory=lambda: np.empty(0))
    high: Array = field(default_factory=lambda: np.empty(0))
    is_open: bool = True
    record: Callable[[Array], tuple[Array, Array]] | None = None

    @property
    def hyperprior(self) -> Hyperprior:
        """With lighter tails where intervals are open."""
        return FINITE_VARIANCES if self.is_open else PUBLISHED

    def precisions(self, params: Params) -> Array:
        """Of every observation, (n,)."""
        noise = np.asarray(params.get("noise_precision", 1.0), dtype=float)
        return noise[self.panel.user] if self.by_cluster else np.full(len(self.low), noise)

    def log_probabilities(self, latent: Array, precision: Any, own: Any = slice(None)) -> Array:
        """Of some observations given the latent vectors, (n,); y is integrated out."""
        expected = self.predictor(latent)[own]
        return log_probability(self.low[own], self.high[own], expected, 1.0 / np.sqrt(precision))

    def terms(self, rng: np.random.Generator, latent: Array, params: Params) -> Terms:
        """As of a regression, of numbers y that are drawn here."""
        expected, sds = self.predictor(latent), 1.0 / np.sqrt(self.precisions(params))
        residual = draw_between(stream_of(rng), self.low - expected, self.high - expected, sds)
        return super().terms(rng, latent, params)._replace(residual=residual)

    def redraw(
        self,
        rng: np.random.Generator,
        latent: Array,
        params: Params,
        terms: Terms,
        prior: Prior,
    ) -> tuple[Array, Params]:
        """The noise, unless it is known, with y integrated out; where clusters have their own, of
        each that has users."""
        if self.known_noise:
            return latent, params
        if not self.by_cluster:
            everything = np.arange(len(self.low))
            return latent, {
                "noise_precision": self._next_noise(
                    rng, latent, float(params["noise_precision"]), everything
                )
            }
        noise = np.array(terms.noise)
        for cluster in np.unique(prior.z):
            users = prior.z == cluster
            own = np.flatnonzero(users[self.panel.user])
            noise[users] = self._next_noise(rng, latent, float(noise[users][0]), own)
        return latent, {"noise_precision": noise}

    def _next_noise(
        self, rng: np.random.Generator, latent: Array, noise: float, own: NDArray[np.intp]
    ) -> float:
        return self.next_noise(rng, self.noise_density(latent, own), noise, len(own))

    def noise_density(self, latent: Array, own: NDArray[np.intp]) -> Callable[[float], float]:
        """Log density of ln s given the latent vectors and some observations, up to a constant, y
        integrated out."""
        expected, low, high = self.predictor(latent)[own], self.low[own], self.high[own]
        return self.log_noise_density(
            lambda noise: float(log_probability(low, high, expected, noise**-0.5).sum())
        )

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(intervals, s | latent) up to a constant."""
        likelihood = float(self.log_probabilities(latent, self.precisions(params)).sum())
        if self.known_noise:
            return likelihood
        noises = np.unique(np.atleast_1d(params["noise_precision"]))
        return likelihood + sum(self._working_prior.log_density(float(value)) for value in noises)

    def simulate(
        self, rng: np.random.Generator, latent: Array, params: Params
    ) -> "IntervalRegression":
        """New numbers, and what is recorded of them."""
        assert self.record is not None
        errors = rng.standard_normal(len(self.low)) / np.sqrt(self.precisions(params))
        outcome = self.predictor(latent) + errors
        low, high = self.record(outcome)
        return replace(self, panel=self.panel._replace(outcome=outcome), low=low, high=high)


class Ends(NamedTuple):
    """Lower and upper ends of what was recorded, (n,), on the scale of the regression."""

    low: Array
    high: Array


class Frame(NamedTuple):
    """From outcomes (n,) to working units: (y − known)/sds, in the panel's order."""

    order: NDArray[np.intp]
    known: Array
    sds: Array

    def working(self, values: Array) -> Array:
        return np.asarray(((values - self.known) / self.sds)[self.order])

    def outcomes(self, working: Array) -> Array:
        """The inverse of :meth:`working`."""
        result = np.empty(len(working))
        result[self.order] = working
        return result * self.sds + self.known


def interval_regression(
    likelihood: PanelRegression, recorded: Recorded, ends: Ends, frame: Frame
) -> IntervalRegression:
    """The regression with the ends of what was recorded."""

    def record(outcome: Array) -> tuple[Array, Array]:
        low, high = recorded.observed_again(frame.outcomes(outcome), *ends)
        return frame.working(low), frame.working(high)

    return IntervalRegression(
        likelihood.panel,
        likelihood.noise_prior,
        likelihood.by_cluster,
        known_noise=likelihood.known_noise,
        low=frame.working(ends.low),
        high=frame.working(ends.high),
        is_open=not np.isfinite([ends.low, ends.high]).all(),
        record=record,
    )
