"""Draws from truncated normal distributions have the law of SciPy's."""

import numpy as np
import pytest
from scipy import stats

from dualview.numerics.compiling import uncached
from dualview.numerics.streams import stream_of
from dualview.numerics.truncated import truncated_normal


@uncached
def some(rng, mean, sd, low, high, draws):
    for i in range(draws.shape[0]):
        draws[i] = truncated_normal(rng, mean, sd, low, high)


def sample(mean, sd, low, high, n=20_000, seed=0):
    draws = np.empty(n)
    some(stream_of(np.random.default_rng(seed)), mean, sd, low, high, draws)
    return draws


INTERVALS = {
    "none": (-np.inf, np.inf),
    "middle": (-3.0, 2.0),
    "short middle": (-0.4, 0.9),
    "above": (1.5, np.inf),
    "below": (-np.inf, -2.5),
    "far above": (9.0, np.inf),
    "far and short": (9.0, 9.05),
    "far and longer": (9.0, 9.6),
    "below, both ends": (-6.0, -1.0),
    "touching 0": (0.0, 3.0),
    "half": (-0.1, np.inf),
}


@pytest.mark.parametrize("name", INTERVALS)
def test_law(name):
    low, high = INTERVALS[name]
    mean, sd = 1.25, 0.5
    draws = sample(mean, sd, mean + sd * low, mean + sd * high)
    law = stats.truncnorm(low, high)
    assert stats.kstest((draws - mean) / sd, law.cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    ("low", "high"),
    [(40.0, 41.0), (1e8, np.inf), (-1e6, -1e6 + 1e-7), (3.0, np.nextafter(3.0, 4.0))],
)
def test_draws_stay_in_intervals_far_out(low, high):
    draws = sample(0.0, 1.0, low, high, n=200)
    assert ((draws >= low) & (draws <= high)).all()


def test_scale_beyond_a_long_tail():
    """Beyond 40 standard deviations what exceeds the bound is exponential with that rate."""
    draws = 40.0 * (sample(0.0, 1.0, 40.0, np.inf) - 40.0)
    assert draws.mean() == pytest.approx(1.0, abs=0.03)
