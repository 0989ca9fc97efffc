"""Regressions whose outcomes are known to intervals: their likelihood in working units."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.interval import IntervalRegression
from dualview.behaviors.likelihoods.panel import PanelRegression
from dualview.behaviors.recorded import Recorded
from dualview.behaviors.records import Array


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
