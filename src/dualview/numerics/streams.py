"""Random numbers inside compiled code, from a short stream that is an array of four words, or from
a NumPy Generator.

Handing a Generator to compiled code costs as much as redrawing a whole view of fifty users, so the
sampler's calls get a stream that the chain's Generator has just seeded: ``stream_of(rng)``. The
words are the state of xoshiro256++ (Blackman and Vigna 2021) and move on in place.
"""

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from dualview.numerics.compiling import compiled, inlined

_ULP = 2.0**-53


def streams_of(rng: Any, n: int) -> Any:
    """n streams seeded by a Generator, which moves on: the ones that ``stream_of`` gives one after
    the other."""
    source = rng.bit_generator
    if isinstance(source, np.random.MT19937):  # its raw words have 32 bits
        words = source.random_raw(8 * n).reshape(n, 8)
        return (words[:, :4] << np.uint64(32)) | words[:, 4:]
    return source.random_raw(4 * n).reshape(n, 4)


def stream_of(rng: Any) -> Any:
    """A stream seeded by a Generator, which moves on."""
    return streams_of(rng, 1)[0]


@inlined
def _turned(word, by):
    return (word << np.uint64(by)) | (word >> np.uint64(64 - by))


@compiled
def next_word(state):
    """The next 64 bits of xoshiro256++; the state (4,) moves on."""
    result = _turned(state[0] + state[3], 23) + state[0]
    shifted = state[1] << np.uint64(17)
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = _turned(state[3], 45)
    return result


@compiled
def stream_random(state):
    """Uniform on [0, 1), a multiple of 2⁻⁵³."""
    return (next_word(state) >> np.uint64(11)) * _ULP


@compiled
def stream_standard_normal(state):
    """By Marsaglia's polar method; the second number of each pair is left."""
    while True:
        x, y = 2.0 * stream_random(state) - 1.0, 2.0 * stream_random(state) - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return x * math.sqrt(-2.0 * math.log(square) / square)


@compiled
def stream_standard_gamma(state, shape):
    """By Marsaglia and Tsang (2000); a shape below 1 by a power of a uniform number."""
    boost = 1.0
    if shape < 1.0:
        boost = (1.0 - stream_random(state)) ** (1.0 / shape)
        shape += 1.0
    third = shape - 1.0 / 3.0
    width = 1.0 / math.sqrt(9.0 * third)
    while True:
        normal = stream_standard_normal(state)
        root = 1.0 + width * normal
        if root > 0.0:
            cube = root * root * root
            uniform = 1.0 - stream_random(state)
            square = normal * normal
            quick = (
                uniform < 1.0 - 0.0331 * square * square
            )  # inside what the logarithms would accept, nearly always
            if quick or math.log(uniform) < 0.5 * square + third * (1.0 - cube + math.log(cube)):
                return boost * third * cube


@compiled
def split(state):
    """A stream of its own, its state drawn from this one."""
    other = np.empty(4, dtype=np.uint64)
    for i in range(4):
        other[i] = next_word(state)
    return other


def random(rng):
    """Uniform on [0, 1)."""
    return stream_random(rng) if isinstance(rng, np.ndarray) else rng.random()


def standard_normal(rng):
    """N(0, 1)."""
    return stream_standard_normal(rng) if isinstance(rng, np.ndarray) else rng.standard_normal()


def standard_gamma(rng, shape):
    """Gamma with this shape and scale 1."""
    return (
        stream_standard_gamma(rng, shape)
        if isinstance(rng, np.ndarray)
        else rng.standard_gamma(shape)
    )


@overload(random)
def _compiled_random(rng):
    if isinstance(rng, types.Array):
        return lambda rng: stream_random(rng)
    return lambda rng: rng.random()


@overload(standard_normal)
def _compiled_standard_normal(rng):
    if isinstance(rng, types.Array):
        return lambda rng: stream_standard_normal(rng)
    return lambda rng: rng.standard_normal()


@overload(standard_gamma)
def _compiled_standard_gamma(rng, shape):  # noqa: ARG001
    if isinstance(rng, types.Array):
        return lambda rng, shape: stream_standard_gamma(rng, shape)
    return lambda rng, shape: rng.standard_gamma(shape)
