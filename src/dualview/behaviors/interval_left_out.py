"""Outcomes that are known to intervals, left out one at a time, with the latent vectors integrated
out.

In each draw the outcomes themselves are drawn between their ends, given the draw's latent vectors.
Given those of all others, an outcome has the normal distribution of a regression, (L1), and what
was recorded of it a probability. The importance weights of a draw then carry clusters, parameters
and the other outcomes.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtri

from dualview.behaviors.left_out import PanelLeftOut
from dualview.behaviors.likelihoods.interval import draw_between
from dualview.behaviors.panel import with_field
from dualview.behaviors.recorded import Recorded
from dualview.behaviors.records import Array, LatentPrior, LeftOut, LeftOutLaws, Params
from dualview.numerics.streams import stream_of
from dualview.outcomes.interval import log_probability
from dualview.outcomes.truncated_normal import quantiles

_SEED = 25  # of outcomes drawn between their ends


class IntervalLaws(LeftOutLaws):
    """Normal distributions with locations and standard deviations (n,), of whose numbers intervals
    are recorded."""

    def __init__(self, locations: Array, sds: Array, recorded: Recorded) -> None:
        self.locations, self.sds, self.recorded = locations, sds, recorded

    def log_density(self, values: Array) -> Array:
        low, high = self.recorded.intervals(values)
        return log_probability(low, high, self.locations, self.sds)

    def standardised(self, rng: np.random.Generator, values: Array) -> Array:
        """A number is drawn between the ends of each interval."""
        low, high = self.recorded.intervals(values)
        a, b, wide = (
            (low - self.locations) / self.sds,
            (high - self.locations) / self.sds,
            low < high,
        )
        levels = rng.random(len(a))
        found = quantiles(
            levels, a, np.where(wide, b, a + 1.0), np.where(wide, (high - low) / self.sds, 1.0)
        )
        least, most = ndtri([1e-15, 1.0 - 1e-15])
        return np.asarray(np.clip(np.where(wide, found, a), least, most))


@dataclass(frozen=True)
class IntervalLeftOut(LeftOut):
    """Outcomes of one user each, observed (n,) or (n, 2) as they were recorded.

    panel: the same regression of numbers, whose outcomes are not looked at.
    """

    panel: PanelLeftOut
    observed: Array
    recorded: Recorded
    _rng: np.random.Generator = field(
        default_factory=lambda: np.random.default_rng(_SEED), compare=False
    )

    def completed(self, params: Params, latent: Array) -> Array:
        """Outcomes (n,) on the scale of the regression, drawn between their ends given latent
        vectors (U, q)."""
        panel = self.panel
        expected = (panel.design * latent[panel.user]).sum(axis=1)
        if panel.offset is not None:
            expected = expected + panel._offset(params)
        low, high = self.recorded.intervals(self.observed)
        sds = 1.0 / np.sqrt(panel._precision(params))
        return np.asarray(
            expected + draw_between(stream_of(self._rng), low - expected, high - expected, sds)
        )

    def laws(self, prior: LatentPrior, params: Params, latent: Array) -> IntervalLaws:
        numbers = with_field(self.panel, "outcome", self.completed(params, latent))
        found = numbers.laws(prior, params, latent)
        return IntervalLaws(found.locations, found.sds, self.recorded)

    def replicate(
        self, rng: np.random.Generator, prior: LatentPrior, params: Params
    ) -> "tuple[IntervalLeftOut, Array, Array]":
        _, numbers, vectors = self.panel.replicate(rng, prior, params)
        low, high = self.recorded.observed_again(numbers, *self.recorded.intervals(self.observed))
        observed = (
            self.recorded.values(numbers)
            if self.observed.ndim == 1
            else np.column_stack([low, high])
        )
        return replace(self, observed=observed), observed, vectors
