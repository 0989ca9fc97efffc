"""Pólya–Gamma draws: acceptance against the density, moments, laws, the logistic likelihood,
extreme tilts, mutants.

Every bound of the sampler is checked without randomness: a scripted generator proposes a number,
and the greatest uniform number that still accepts it is its probability.
"""

import inspect
import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import invgauss, ks_2samp, norm

from dualview.numerics import polya_gamma
from dualview.numerics.polya_gamma import draw_into, draw_one, draw_shapes_into
from yardsticks import COMPILED, RARE, check_law, check_mean, distribution_function, python_of

N = 200_000 if COMPILED else 1000
N_MANY = 500_000 if COMPILED else 1000
TILTS = [0.0, 1e-6, 0.01, 0.3, 1.0, 1.7, 1.999, 2.0, 2.3, 4.0, 9.0, 25.0, 100.0, 1e3]
SOURCE = inspect.getsource(polya_gamma)


def stream(seed):
    return np.random.default_rng(seed).integers(2**64, size=4, dtype=np.uint64)


@pytest.fixture(autouse=True)
def words_wrap_around():
    """Plain Python warns of what is meant."""
    with np.errstate(over="ignore"):
        yield


def module_of(source):
    """The names that a version of the kernel's source defines."""
    scope = {"__name__": "variant"}
    exec(source, scope)
    return scope


def plain(source=SOURCE):
    """The kernel as plain Python from end to end."""
    return module_of(source.replace("@compiled\n", "").replace("@inlined\n", ""))


def drawn(tilt, seed, n=N, kernel=draw_into):
    """n draws from a stream; the tilts are one number or n of them."""
    out = np.full(n, np.nan)
    kernel(stream(seed), np.broadcast_to(tilt, n).astype(float), out)
    return out


def mean_of(tilt):
    """E ω = tanh(z/2)/(2z)."""
    return 0.25 if tilt < 1e-4 else math.tanh(tilt / 2) / (2 * tilt)


def variance_of(tilt):
    """(sinh z − z)/(4 z³ cosh²(z/2)), with sinh z = 2 sinh(z/2) cosh(z/2)."""
    if tilt < 1e-4:
        return 1 / 24
    return (2 * math.tanh(tilt / 2) - tilt / math.cosh(min(tilt / 2, 300.0)) ** 2) / (4 * tilt**3)


def log_cosh(x):
    return np.logaddexp(x, -x) - math.log(2)


def log_density(omega, tilt):
    """ln p(ω | z) by forty terms of one series below x = 4ω = 1, of the other above."""
    x, odd = 4 * np.asarray(omega, dtype=float)[..., None], 2 * np.arange(40) + 1
    signs = (-1.0) ** np.arange(40)
    below = signs * odd * np.exp(-(odd**2 - 1) / (2 * np.minimum(x, 1.0)))
    above = signs * odd * np.exp(-(odd**2 - 1) * math.pi**2 * np.maximum(x, 1.0) / 8)
    x = x[..., 0]
    low = np.log(below.sum(-1)) + 0.5 * np.log(2 / (math.pi * x**3)) - 1 / (2 * x)
    high = np.log(above.sum(-1)) + math.log(math.pi / 2) - math.pi**2 * x / 8
    return np.where(x < 1.0, low, high) + math.log(4) + log_cosh(tilt / 2) - tilt**2 * x / 8


def cdf_of(tilt):
    return distribution_function(
        lambda omega: log_density(omega, tilt), 1e-3 * mean_of(tilt), 40 * mean_of(tilt)
    )


def sums_of_gammas(rng, tilt, n, n_terms=300):
    """ω = Σ_k g_k / (2π² ((k − ½)² + z²/(4π²))) with g_k ~ Gamma(1), cut off, with the mean of what
    is left out."""
    weights = 1 / (2 * math.pi**2 * ((np.arange(n_terms) + 0.5) ** 2 + tilt**2 / (4 * math.pi**2)))
    return rng.standard_gamma(1.0, (n, n_terms)) @ weights + (mean_of(tilt) - weights.sum())


def jacobis_product(ratio):
    """Σ_n (−1)ⁿ (2n + 1) r^(n(n+1)/2) = Π_k (1 − r^k)³."""
    return np.prod(1 - ratio ** np.arange(1.0, 400.0)) ** 3


class RejectedError(Exception):
    """The sampler asked for more numbers than one proposal takes."""


class Script:
    """A generator that gives the uniform numbers it was given."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def random(self):
        if not self.numbers:
            raise RejectedError
        return self.numbers.pop(0)


def acceptance(draw):
    """The greatest level at which draw(level) does not reject, by halving."""
    low, high = 0.0, 1.0
    for _ in range(60):
        level = 0.5 * (low + high)
        try:
            draw(level)
        except RejectedError:
            high = level
        else:
            low = level
    return low


def check_weak_tilts(scope):
    """Proposal density × acceptance is a multiple of the law's density, above and below the meeting
    point."""
    draw, step = scope["_weakly_tilted"], 1e-6
    for half in (0.0, 0.4, 0.99, 1.5):
        sides, constants = set(), []
        for place in np.linspace(0.013, 0.987, 76):  # none where x jumps
            x, before, after = (
                draw(Script(at, 0.0), half) for at in (place, place - step, place + step)
            )
            taken = acceptance(
                lambda level, place=place, half=half: draw(Script(place, level), half)
            )
            spread = abs(after - before) / (2 * step)
            constants.append(math.log(taken / spread) - log_density(x / 4, 2 * half))
            sides.add(x < 2 / math.pi)
        assert len(sides) == 2
        np.testing.assert_allclose(constants, constants[0], rtol=0, atol=1e-7)


def check_strong_tilts(scope):
    """A proposal of the inverse Gaussian law is accepted with the whole series' probability."""
    for x in (0.09, 0.15, 0.3, 0.6, 0.6366, 0.637, 0.7, 1.0, 2.0, 5.0, 12.0):
        scope["_inverse_gaussian"] = lambda rng, _, x=x: x if rng.numbers else rng.random()
        taken = acceptance(lambda level: scope["_strongly_tilted"](Script(level), 1.0))
        assert taken == pytest.approx(jacobis_product(math.exp(-4 / x)), rel=1e-9)


def check_laws(kernel):
    """Draws follow the density's distribution function, from no tilt to strong ones."""
    for seed, tilt in enumerate((0.0, 0.8, 1.9, 2.1, 3.0, 6.0, 20.0)):
        check_law(drawn(tilt, [1, seed], N_MANY, kernel), cdf_of(tilt))


@pytest.mark.parametrize("ratio", [0.0, 1e-300, 1e-9, 1e-4, math.exp(-2 * math.pi), 0.01, 0.1])
def test_partial_sums_decide_as_the_whole_series(ratio):
    whole = jacobis_product(ratio)
    assert polya_gamma._below_series(whole * (1 - 1e-14), ratio)
    assert not polya_gamma._below_series(whole * (1 + 1e-14), ratio)


def test_what_is_accepted_under_weak_tilts():
    check_weak_tilts(plain())


def test_what_is_accepted_under_strong_tilts():
    check_strong_tilts(plain())


@pytest.mark.parametrize("mean", [1.0, 0.3, 1e-3])
def test_proposals_under_strong_tilts_are_inverse_gaussian(mean):
    rng, draw = np.random.default_rng(2), plain()["_inverse_gaussian"]
    check_law([draw(rng, mean) for _ in range(20_000)], invgauss(mean).cdf)


@pytest.mark.parametrize("tilt", TILTS)
def test_mean_and_variance(tilt):
    draws = drawn(tilt, 3, N_MANY)
    assert (draws > 0).all()
    check_mean(draws / mean_of(tilt), 1.0)
    check_mean((draws - mean_of(tilt)) ** 2 / variance_of(tilt), 1.0)
    check_mean((draws[::2] / mean_of(tilt) - 1) * (draws[1::2] / mean_of(tilt) - 1), 0.0)


def test_formulas_of_moments_are_those_of_the_density():
    for tilt in (0.0, 0.7, 2.0, 5.0, 30.0):
        omega = np.linspace(1e-4, 40, 20_001) * mean_of(tilt)
        density = np.exp(log_density(omega, tilt))
        moments = [
            np.trapezoid(density * g, omega) for g in (1.0, omega, (omega - mean_of(tilt)) ** 2)
        ]
        np.testing.assert_allclose(moments, [1.0, mean_of(tilt), variance_of(tilt)], rtol=1e-6)


@pytest.mark.parametrize("tilt", [0.0, 0.5, 1.9, 2.1, 5.0, 30.0])
def test_laplace_transform(tilt):
    """E exp(−tω) = cosh(z/2)/cosh √(z²/4 + t/2): the law's tilt moves from z² to z² + 2t. A
    negative t weighs the tail."""
    draws, scale = drawn(tilt, 4), mean_of(tilt)
    for t in (0.1 / scale, 1 / scale, 5 / scale, -0.3 / scale):
        expected = np.cosh(tilt / 2) / np.cosh(np.emath.sqrt(tilt**2 / 4 + t / 2)).real
        check_mean(np.exp(-t * draws) / expected, 1.0)


def test_laws():
    check_laws(draw_into)


@pytest.mark.parametrize("tilt", [0.0, 0.5, 1.5, 1.99, 2.01, 3.0, 10.0, 60.0])
def test_agrees_with_sums_of_gammas(tilt):
    others = sums_of_gammas(np.random.default_rng(5), tilt, N // 10)
    assert ks_2samp(drawn(tilt, 6), others).pvalue > RARE


def test_draws_from_a_generator_have_the_same_law():
    for tilt in (0.4, 3.0):
        out = np.empty(N)
        draw_into(np.random.default_rng(7), np.full(N, tilt), out)
        check_law(out, cdf_of(tilt))


@pytest.mark.parametrize("psi", [0.2, -1.0, 2.5, -4.0, 6.0])
def test_integrated_out_it_leaves_the_logistic_likelihood(psi):
    """σ(ψ)^y σ(−ψ)^(1−y) = ½ exp((y − ½) ψ) E exp(−ω ψ²/2) with ω ~ PG(1, 0)."""
    weights = np.exp(-drawn(0.0, 8, N_MANY) * psi**2 / 2)
    for y in (0, 1):
        check_mean(np.exp((y - 0.5) * psi) * weights / 2, expit(psi if y else -psi))


def test_one_gibbs_step_leaves_a_logistic_model_as_it_is():
    """ψ ~ N(m, 4), y ~ Bernoulli(σ(ψ)), ω ~ PG(1, ψ), then ψ given ω and y is normal: (ψ, y) keep
    their joint law."""
    rng, mean, precision = np.random.default_rng(9), 0.7, 0.25
    psi = mean + rng.standard_normal(N) / math.sqrt(precision)
    y = rng.random(N) < expit(psi)
    omega = drawn(psi, 10)
    psi = (precision * mean + y - 0.5) / (precision + omega) + rng.standard_normal(N) / np.sqrt(
        precision + omega
    )
    check_law(psi, norm(mean, precision**-0.5).cdf)
    check_mean(
        (y - expit(psi))[:, None] * np.stack([np.ones(N), psi, psi**2, psi < 0], axis=1), 0.0
    )


@pytest.mark.parametrize("source", [stream, np.random.default_rng])
def test_compiled_numbers_are_those_of_python(source):
    tilts = np.tile([0.0, -0.7, 1.9, 2.0, -3.0, 8.0, 1e3, 1e8], 50)
    out, python, other = np.empty((3, len(tilts)))
    draw_into(source(11), tilts, out)
    python_of(draw_into)(source(11), tilts, python)
    plain()["draw_into"](source(11), tilts, other)
    np.testing.assert_allclose(python, out, rtol=1e-13)
    np.testing.assert_allclose(other, out, rtol=1e-13)
    rng, again = source(11), source(11)
    np.testing.assert_array_equal([draw_one(rng, tilt) for tilt in tilts], out)
    np.testing.assert_allclose(
        [python_of(draw_one)(again, tilt) for tilt in tilts], out, rtol=1e-13
    )


def test_only_the_size_of_a_tilt_matters():
    tilts = np.linspace(0.0, 6.0, 500)
    draws = drawn(tilts, 12, 500)
    np.testing.assert_array_equal(drawn(-tilts, 12, 500), draws)
    np.testing.assert_array_equal(drawn(1e-200, 12, 500), drawn(0.0, 12, 500))


@pytest.mark.parametrize("tilt", [60.0, 1e3, 1e5, 1e8, 1e12])
def test_extreme_tilts_are_inverse_gaussian(tilt):
    """With mean 1/(2z) and shape 1/4: what cosh and the series add is less than exp(−z)."""
    draws = drawn(tilt, 13)
    check_law(4 * draws, invgauss(2 / tilt).cdf)
    check_mean((2 * tilt * draws - 1) ** 2 * tilt / 2, 1.0)


def test_no_tilt_is_too_large():
    tilts = np.concatenate([sign * 10.0 ** np.arange(-320, 309) for sign in (1, -1)])
    draws = drawn(tilts, 14, len(tilts))
    assert (np.isfinite(draws) & (draws > 0)).all()
    large = np.abs(tilts) > 1e30
    np.testing.assert_allclose(draws[large] * np.abs(tilts[large]), 0.5, rtol=1e-6)
    ends = np.array([math.inf, -math.inf, math.nan])
    np.testing.assert_array_equal(drawn(ends, 15, 3), [0.0, 0.0, math.nan])
    np.testing.assert_array_equal(
        [draw_one(np.random.default_rng(0), end) for end in ends], [0.0, 0.0, math.nan]
    )


@pytest.mark.parametrize("place", [0.0, 2.0**-53, 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize("half", [0.0, 0.99])
def test_the_ends_of_the_uniform_range(place, half):
    """The least and the greatest numbers a generator can give."""
    assert 0.0 < plain()["_weakly_tilted"](Script(place, 0.0), half) < 40.0


def mutated(old, new):
    """The source with a piece replaced."""
    if SOURCE.count(old) != 1:  # not an AssertionError, by which mutants are rejected
        raise ValueError(f"{old!r} stands {SOURCE.count(old)} times")
    return SOURCE.replace(old, new)


LAW_MUTANTS = [
    ("    4.0 / math.pi * math.exp", "    3.9 / math.pi * math.exp"),
    ("math.exp(0.125 * math.pi", "math.exp(0.12 * math.pi"),
]
MUTANTS = [
    (check_weak_tilts, *LAW_MUTANTS[0]),
    (check_weak_tilts, "math.exp(e * e / math.pi + 0.5", "math.exp(e * e / math.pi + 0.499"),
    (check_weak_tilts, "rate = 0.125", "rate = 0.126"),
    (check_weak_tilts, "_MEETING = 2.0 / math.pi", "_MEETING = 0.64"),
    (check_weak_tilts, "_SURE = 1.0 -", "_SURE = 1.001 -"),
    (check_weak_tilts, "        odd += 2.0", "        odd += 1.9"),
    (check_strong_tilts, *LAW_MUTANTS[1]),
    (check_strong_tilts, "_SURE = 1.0 -", "_SURE = 1.001 -"),
    (check_strong_tilts, "_SMALL = 0.1", "_SMALL = 0.31"),
    (check_strong_tilts, "scaled * math.sqrt(scaled)", "scaled"),
]


@pytest.mark.skipif(not COMPILED, reason="too few draws to tell")
@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), LAW_MUTANTS)
def test_the_laws_of_a_mutant_are_wrong(old, new):
    kernel = module_of(mutated(old, new))["draw_into"]
    with pytest.raises(AssertionError):
        check_laws(kernel)


@pytest.mark.parametrize(("check", "old", "new"), MUTANTS)
def test_a_mutant_accepts_what_it_should_not(check, old, new):
    with pytest.raises(AssertionError):
        check(plain(mutated(old, new)))


def drawn_of_shape(shape, tilt, seed, n=N):
    out = np.full(n, np.nan)
    draw_shapes_into(stream(seed), np.full(n, float(shape)), np.full(n, float(tilt)), out)
    return out


@pytest.mark.parametrize("shape", [0.05, 0.7, 1.0, 3.0, 4.5, 13.0, 400.25])
@pytest.mark.parametrize("tilt", [0.0, 0.3, -4.0, 25.0, 39.0, 41.0, 1e3])
def test_draws_of_any_shape_have_their_moments(shape, tilt):
    """Those of PG(1, z) times b; the third cumulant by differences of the second: dκ_2/d(−z²/2)."""
    draws, size = drawn_of_shape(shape, tilt, 16), abs(tilt)
    mean, variance = shape * mean_of(size), shape * variance_of(size)
    check_mean(draws / mean, 1.0)
    check_mean((draws - mean) ** 2 / variance, 1.0)
    if 0.0 < size < 30.0:
        step = 1e-3 * size
        third = shape * (variance_of(size - step) - variance_of(size + step)) / (2 * step * size)
        check_mean((draws - mean) ** 3 / third, 1.0)


@pytest.mark.parametrize(("shape", "tilt"), [(0.4, 0.0), (2.5, 1.0), (7.2, -6.0), (0.4, 60.0)])
def test_laplace_transform_of_any_shape(shape, tilt):
    draws, scale = drawn_of_shape(shape, tilt, 17), shape * mean_of(abs(tilt))
    for t in (0.1 / scale, 1 / scale, 5 / scale, -0.2 / scale):
        root = np.emath.sqrt(tilt**2 / 4 + t / 2)
        expected = (np.cosh(tilt / 2) / np.cosh(root)).real ** shape
        check_mean(np.exp(-t * draws) / expected, 1.0)


def test_whole_shapes_are_sums():
    assert (
        ks_2samp(
            drawn_of_shape(20.0, 1.5, 18), drawn(1.5, 19, 20 * N).reshape(20, -1).sum(0)
        ).pvalue
        > RARE
    )


def test_compiled_numbers_of_any_shape_are_those_of_python():
    shapes, tilts = np.tile([0.3, 2.0, 5.5, 30.0], 12), np.repeat([0.0, -2.0, 20.0, 50.0], 12)
    out, python = np.empty((2, len(tilts)))
    draw_shapes_into(stream(20), shapes, tilts, out)
    python_of(draw_shapes_into)(stream(20), shapes, tilts, python)
    np.testing.assert_allclose(python, out, rtol=1e-12)


@pytest.mark.skipif(not COMPILED, reason="too few draws to tell")
@pytest.mark.slow
def test_the_rest_of_the_series_is_needed():
    """A mutant without it is not right."""
    source = mutated("scale * (total + standard_gamma", "scale * (total + 0.0 * standard_gamma")
    draw, out = module_of(source)["draw_shapes_into"], np.empty(4 * N_MANY)
    draw(stream(21), np.full(len(out), 4.5), np.full(len(out), 1.0), out)
    with pytest.raises(AssertionError):
        check_mean(out / (4.5 * mean_of(1.0)), 1.0)
