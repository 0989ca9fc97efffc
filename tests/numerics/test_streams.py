"""Random numbers inside compiled code: xoshiro256++ bit by bit, the laws made from it, and
Generators passed through."""

import numba
import numpy as np
import pytest
from scipy.stats import gamma, norm, uniform

from dualview.numerics import streams
from yardsticks import COMPILED, check_counts, check_law, check_mean, python_of

N = 100_000 if COMPILED else 300
WORD = 2**64


def stream(seed):
    return np.random.default_rng(seed).integers(WORD, size=4, dtype=np.uint64)


def xoshiro(state, n):
    """Words of xoshiro256++ from Python's unbounded integers, after the authors' reference code."""

    def turned(word, by):
        return (word << by | word >> (64 - by)) % WORD

    a, b, c, d = (int(word) for word in state)
    words = []
    for _ in range(n):
        words.append((turned((a + d) % WORD, 23) + a) % WORD)
        c, d, shifted = c ^ a, d ^ b, b << 17
        b, a = b ^ c, a ^ d
        c, d = (c ^ shifted) % WORD, turned(d, 45)
    return words, [a, b, c, d]


@numba.njit(error_model="numpy")
def many(rng, n, kind, shape):
    """n numbers: uniform (0), normal (1) or gamma (2)."""
    out = np.empty(n)
    for i in range(n):
        if kind == 0:
            out[i] = streams.random(rng)
        elif kind == 1:
            out[i] = streams.standard_normal(rng)
        else:
            out[i] = streams.standard_gamma(rng, shape)
    return out


@pytest.fixture(autouse=True)
def words_wrap_around():
    """Plain Python warns of what is meant."""
    with np.errstate(over="ignore"):
        yield


def test_words_are_those_published():
    """The first words from the state 1, 2, 3, 4, as other implementations test them."""
    state = np.array([1, 2, 3, 4], dtype=np.uint64)
    published = [
        41943041,
        58720359,
        3588806011781223,
        3591011842654386,
        9228616714210784205,
        9973669472204895162,
    ]
    assert [int(streams.next_word(state)) for _ in published] == published


@pytest.mark.parametrize("seed", range(5))
def test_words_and_states_are_those_of_unbounded_integers(seed):
    state = stream(seed)
    words, after = xoshiro(state, 100)
    assert [int(streams.next_word(state)) for _ in range(100)] == words
    assert [int(word) for word in state] == after


def test_uniform_numbers_are_the_top_bits():
    numbers = many(stream(1), 50, 0, 0.0)
    np.testing.assert_array_equal(
        numbers, [(word >> 11) / 2**53 for word in xoshiro(stream(1), 50)[0]]
    )


def test_the_ends_of_the_uniform_range():
    """The least and the greatest word a number can be made from: 0 and one step below 1."""
    state = np.zeros(4, dtype=np.uint64)
    assert streams.stream_random(state) == 0.0
    state[0] = (
        WORD - 1
    )  # turned, it is still all ones, and all ones twice are all ones but the last
    assert streams.stream_random(state) == 1.0 - 2.0**-53


@pytest.mark.parametrize("seed", range(3))
def test_uniform_numbers_fill_the_square_evenly(seed):
    numbers = many(stream(seed), 2 * N, 0, 0.0)
    check_law(numbers, uniform.cdf)
    cells = (16 * numbers[::2]).astype(int) * 16 + (16 * numbers[1::2]).astype(int)
    check_counts(np.bincount(cells, minlength=256), np.full(256, 1 / 256))


@pytest.mark.parametrize("seed", range(3))
def test_normal_numbers(seed):
    numbers = many(stream(seed), N, 1, 0.0)
    check_law(numbers, norm.cdf)
    check_law(np.abs(numbers), lambda x: 2 * norm.cdf(x) - 1)
    powers = np.column_stack([numbers, numbers**2, numbers**3, numbers**4, numbers**6])
    check_mean(powers, [0.0, 1.0, 0.0, 3.0, 15.0])
    check_mean(numbers[::2] * numbers[1::2], 0.0)
    check_mean(numbers[::2] ** 2 * numbers[1::2] ** 2, 1.0)


@pytest.mark.parametrize("shape", [0.02, 0.3, 0.5, 1.0, 1.01, 2.5, 40.0, 1e4, 1e12])
def test_gamma_numbers(shape):
    numbers = many(stream(7), N, 2, shape)
    assert (numbers > 0.0).all() or shape < 0.1  # where they may be less than any number
    check_law(numbers, gamma(shape).cdf)
    check_mean(numbers / shape, 1.0)
    check_mean((numbers - shape) ** 2 / shape, 1.0)
    check_mean((numbers[::2] / shape - 1) * (numbers[1::2] / shape - 1), 0.0)


@pytest.mark.parametrize(
    "generator",
    [
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.SFC64,
        np.random.Philox,
        np.random.MT19937,
    ],
)
def test_streams_seeded_one_after_another_begin_anywhere(generator):
    """The sampler takes a new stream for every sweep: across streams, first numbers are uniform and
    independent too."""
    rng = np.random.Generator(generator(11))
    first, second, third = np.array(
        [many(streams.stream_of(rng), 3, 0, 0.0) for _ in range(3000 if COMPILED else 100)]
    ).T
    for numbers in (first, second, third):
        check_law(numbers, uniform.cdf)
        check_mean((numbers[1:] - 0.5) * (numbers[:-1] - 0.5), 0.0)
    check_mean((first - 0.5) * (second - 0.5), 0.0)


def test_a_stream_is_four_words_and_its_generator_moves_on():
    rng, other = np.random.default_rng(12), np.random.default_rng(12)
    words, more = streams.stream_of(rng), streams.stream_of(rng)
    assert (words.shape, words.dtype) == ((4,), np.uint64)
    assert not np.isin(more, words).any()
    np.testing.assert_array_equal(words, streams.stream_of(other))


def test_a_generator_gives_its_own_numbers():
    numbers = [many(np.random.default_rng(8), 20, kind, 1.7) for kind in range(3)]
    rng = [np.random.default_rng(8) for _ in range(3)]
    np.testing.assert_array_equal(
        numbers, [rng[0].random(20), rng[1].standard_normal(20), rng[2].standard_gamma(1.7, 20)]
    )


@pytest.mark.parametrize("source", [stream, np.random.default_rng])
def test_compiled_numbers_are_those_of_python(source):
    for kind in range(3):
        for shape in (0.4, 3.0):
            compiled, plain = (
                many(source(9), 50, kind, shape),
                python_of(many)(source(9), 50, kind, shape),
            )
            np.testing.assert_allclose(compiled, plain, rtol=1e-14)
    state, other = stream(10), stream(10)
    assert [streams.next_word(state) for _ in range(20)] == [
        python_of(streams.next_word)(other) for _ in range(20)
    ]
    for kernel, *arguments in [
        (streams.stream_standard_normal,),
        (streams.stream_standard_gamma, 0.4),
    ]:
        compiled, plain = (
            [f(rng, *arguments) for _ in range(50)]
            for f, rng in ((kernel, state), (python_of(kernel), other))
        )
        np.testing.assert_allclose(compiled, plain, rtol=1e-14)
