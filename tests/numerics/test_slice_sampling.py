"""Slice sampling: a step from a law stays in it, whatever the width; chains come to it; bad targets
are refused; mutants fail.

All test laws are branches of one target, chosen by the first parameter, so that one sampler is
compiled.
"""

import inspect
import itertools
import math

import numba
import numpy as np
import pytest
from scipy.stats import beta, chi2, laplace, loggamma, norm

from dualview.numerics import slice_sampling as slices
from yardsticks import COMPILED, N_DRAWS, check_law, check_mean, python_of

NORMAL, LOG_GAMMA, LAPLACE, TAIL, TWO_MODES, BETA, FLAT, RISING, FALLING, STEP, MISSING = range(11)


@numba.njit(error_model="numpy")
def target(x, parameters):
    """Log densities; BETA is NaN on one side of its support and −∞ on the other.

    Those of logarithms end where the range of numbers does, as the package's own do.
    """
    law = parameters[0]
    if law in (LOG_GAMMA, TAIL) and abs(x) > 700.0:
        value = -math.inf
    elif law == NORMAL:
        z = (x - parameters[1]) / parameters[2]
        value = -0.5 * z * z
    elif law == LOG_GAMMA:
        value = parameters[1] * x - math.exp(x)
    elif law == LAPLACE:
        value = -abs(x)
    elif law == TAIL:
        value = -0.5 * x - 0.5 * math.exp(-x)
    elif law == TWO_MODES:
        value = np.logaddexp(
            -0.5 * (x - parameters[1]) ** 2,
            math.log(parameters[2]) - 0.5 * (x + parameters[1]) ** 2,
        )
    elif law == BETA:
        if x <= 0.0 or x >= 1.0:
            value = -math.inf if x <= 0.0 else math.nan
        else:
            value = (parameters[1] - 1.0) * math.log(x) + (parameters[2] - 1.0) * math.log1p(-x)
    elif law == STEP:
        value = min(x, 0.0)
    elif law == MISSING:
        value = parameters[1]
    else:
        value = 0.0 if law == FLAT else (x if law == RISING else -x)
    return value


class TwoModes:
    """Two unit normals at ±gap, the left one with this many times the right one's mass."""

    def __init__(self, gap, left):
        self.gap, self.share = gap, left / (1 + left)

    def cdf(self, x):
        return self.share * norm.cdf(x, -self.gap) + (1 - self.share) * norm.cdf(x, self.gap)

    def rvs(self, size, random_state):
        return random_state.normal(
            np.where(random_state.random(size) < self.share, -self.gap, self.gap)
        )


class Tail:
    """Minus the logarithm of a χ² of one degree of freedom: falls as exp(−y/2), the priors of ln α
    and ln(β − D + 1)."""

    def cdf(self, x):
        return chi2(1).sf(np.exp(-x))

    def rvs(self, size, random_state):
        return -np.log(random_state.chisquare(1, size))


LAWS = {
    "normal": ([NORMAL, 0.0, 1.0], norm()),
    "far narrow normal": ([NORMAL, 1e6, 1e-3], norm(1e6, 1e-3)),
    "gamma of shape 0.2": ([LOG_GAMMA, 0.2], loggamma(0.2)),
    "gamma of shape 30": ([LOG_GAMMA, 30.0], loggamma(30.0)),
    "laplace": ([LAPLACE], laplace()),
    "heavy tail": ([TAIL], Tail()),
    "two near modes": ([TWO_MODES, 1.5, 3.0], TwoModes(1.5, 3.0)),
    "two far modes": ([TWO_MODES, 8.0, 0.5], TwoModes(8.0, 0.5)),
    "beta, ending on both sides": ([BETA, 1.5, 4.0], beta(1.5, 4.0)),
}
WIDTHS = [0.02, 1.0, 30.0, 1e6]
sample = slices.sampler(target)
limited = slices.sampler(target, reach=3)


def spread(law):
    """A width's unit."""
    return float(
        np.subtract(
            *np.quantile(law.rvs(size=500, random_state=np.random.default_rng(0)), [0.75, 0.25])
        )
    )


def step(kernel, parameters, starts, width, seed):
    """One step from each start; an error where the kernel raises one."""
    stream = (
        np.random.default_rng(seed).integers(2**64, size=4, dtype=np.uint64)
        if COMPILED
        else np.random.default_rng(seed)
    )
    parameters = np.array(parameters, dtype=float)
    return np.array([kernel(stream, parameters, start, width) for start in starts])


def check_stays(kernel, name, width, seed=1):
    """One step from exact draws gives exact draws, and before and after may be exchanged."""
    parameters, law = LAWS[name]
    before = law.rvs(size=N_DRAWS, random_state=np.random.default_rng(seed))
    after = step(kernel, parameters, before, width * spread(law), seed)
    check_law(after, law.cdf)
    ranks, new_ranks = law.cdf(before) - 0.5, law.cdf(after) - 0.5
    check_mean(ranks**2 * new_ranks - new_ranks**2 * ranks, 0.0)
    check_mean(ranks**3 * new_ranks - new_ranks**3 * ranks, 0.0)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", LAWS)
def test_a_step_from_the_law_stays_in_it(name, width):
    check_stays(sample, name, width)


@pytest.mark.parametrize("width", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("name", LAWS)
def test_a_limited_step_from_the_law_stays_in_it(name, width):
    check_stays(limited, name, width)


def test_a_limited_step_is_limited():
    starts = np.full(2000, -30.0)
    moved = step(limited, [NORMAL, 0.0, 1.0], starts, 0.5, 4) - starts
    assert np.abs(moved).max() <= 3 * 0.5
    assert np.abs(step(sample, [NORMAL, 0.0, 1.0], starts, 0.5, 4) - starts).max() > 10.0


@pytest.mark.parametrize("start", [-1.0, 1.0])
@pytest.mark.parametrize(
    "name", [name for name in LAWS if "two" not in name and "beta" not in name]
)
def test_chains_from_far_away_come_to_the_law(name, start):
    parameters, law = LAWS[name]
    unit = spread(law)
    values = np.full(
        N_DRAWS // 5,
        np.median(law.rvs(size=99, random_state=np.random.default_rng(3))) + 20 * start * unit,
    )
    for seed in range(25):
        values = step(sample, parameters, values, unit, seed)
    check_law(values, law.cdf)


def test_a_wide_interval_crosses_to_the_other_mode():
    parameters, law = LAWS["two far modes"]
    values = np.full(N_DRAWS // 5, -8.0)
    for seed in range(80):
        values = step(sample, parameters, values, 40.0, seed)
    check_law(values, law.cdf)


def mutant(old, new):
    """The sampler with a piece of its source replaced."""
    source = inspect.getsource(slices.sampler)
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times"
    scope = dict(vars(slices))
    exec(source.replace(old, new), scope)
    return scope["sampler"](target, reach=2 if "n_left" in old else 0)


def check_a_few(kernel):
    for name, width in itertools.product(
        ("normal", "gamma of shape 0.2", "laplace", "two far modes"), (0.3, 1.0, 3.0)
    ):
        check_stays(kernel, name, width)


def test_the_check_for_mutants_passes_the_sampler():
    check_a_few(sample)


@pytest.mark.skipif(not COMPILED, reason="too few draws to tell")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("if point < start:", "if point > start:", id="shrinks to the wrong side"),
        pytest.param(" + math.log1p(-random(rng))", "", id="the height is the density itself"),
        pytest.param(
            "math.log1p(-random(rng))",
            "math.log1p(-0.5 * random(rng))",
            id="the height is never low",
        ),
        pytest.param(
            "math.log1p(-random(rng))", "-random(rng)", id="the height is not log-uniform"
        ),
        pytest.param(
            "left = start - width * random(rng)",
            "left = start - 0.1 * width",
            id="the interval is not at random",
        ),
        pytest.param(
            ">= height or not left < right", ">= height - 0.5", id="accepts below the slice"
        ),
        pytest.param(
            "left = edge(parameters, left, -width, height)", "", id="does not step out to the left"
        ),
        pytest.param(
            "n_left = min(int(random(rng) * reach), reach - 1)",
            "n_left = 0",
            id="never steps out to the left",
        ),
    ],
)
def test_a_mutant_is_caught(old, new):
    kernel = mutant(old, new)
    with pytest.raises(AssertionError):
        check_a_few(kernel)


@pytest.mark.parametrize(
    ("parameters", "start"),
    [
        ([MISSING, math.nan], 0.0),
        ([MISSING, math.inf], 0.0),
        ([MISSING, -math.inf], 0.0),
        ([BETA, 2.0, 2.0], -0.1),
        ([BETA, 2.0, 2.0], 1.1),
        ([NORMAL, 0.0, 1.0], math.nan),
    ],
)
def test_a_density_that_is_not_finite_at_its_start_is_refused(parameters, start):
    with pytest.raises(ValueError, match="not finite at its start"):
        step(sample, parameters, [start], 1.0, 4)


@pytest.mark.parametrize("law", [FLAT, RISING, FALLING, STEP])
@pytest.mark.parametrize("start", [-5.0, 0.0, 5.0])
@pytest.mark.parametrize("width", [0.1, 10.0])
def test_a_tail_that_does_not_fall_is_refused(law, start, width):
    with pytest.raises(ValueError, match="tail does not fall"):
        step(sample, [law], [start], width, 5)


def test_a_width_thousands_of_times_too_small_is_refused_rather_than_cut_short():
    with pytest.raises(ValueError, match="tail does not fall"):
        step(sample, [NORMAL, 0.0, 1.0], [0.0] * 5, 1e-5, 6)


def test_compiled_numbers_are_those_of_python():
    for parameters in ([NORMAL, 2.0, 0.1], [LOG_GAMMA, 0.7], [TAIL]):
        compiled, plain = (
            [f(rng, np.array(parameters), 0.3, 0.5) for _ in range(50)]
            for f, rng in (
                (sample, np.random.default_rng(7)),
                (python_of(sample), np.random.default_rng(7)),
            )
        )
        assert compiled == plain
