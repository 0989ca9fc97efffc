"""Priors of the number of components K of a finite mixture, K = 1, 2, …, and the words that choose
one."""

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from dualview.errors import InputError
from dualview.numerics.compiling import in_place
from dualview.numerics.special import log_gamma, log_rising
from dualview.partitions.alpha import number_text

_MOST = 1000.0  # the largest mean of K − 1


class Components(NamedTuple):
    """p(K): ln p(1), and p(m + 2) / p(m + 1) = (a m + b) (c m + d) / ((m + 1) (e m + f))."""

    log_first: float
    a: float
    b: float
    c: float
    d: float
    e: float
    f: float


@in_place
def log_products(k, slope, level):
    """ln Π_{i < k − 1} (slope i + level), less lnΓ(k) where the slope is not 0; k ≥ 1, any real
    number. Without that the difference of such logarithms would lose its digits at large k."""
    if slope == 0.0:
        return (k - 1.0) * math.log(level)
    first = level / slope
    return (k - 1.0) * math.log(slope) + log_rising(k, first - 1.0) - log_gamma(first)


@in_place
def log_chance(k, components):
    """ln p(K = k); smooth in k, which need not be whole."""
    p = components
    above = log_products(k, p.a, p.b) + log_products(k, p.c, p.d)
    found = p.log_first + above - log_products(k, p.e, p.f)
    n_left = (p.a > 0.0) + (p.c > 0.0) - (p.e > 0.0) - 1
    return found if n_left == 0 else found + n_left * log_gamma(k)


def _poisson(mean: float) -> Components:
    """K − 1 ~ Poisson(mean)."""
    return Components(-mean, 0.0, mean, 0.0, 1.0, 0.0, 1.0)


def _geometric(chance: float) -> Components:
    """p(K) = chance (1 − chance)^{K − 1}."""
    return Components(math.log(chance), 1.0 - chance, 1.0 - chance, 0.0, 1.0, 0.0, 1.0)


def _beta_negative_binomial(shape: float, a: float, b: float) -> Components:
    """K − 1 ~ BNB(shape, a, b): negative binomial with this shape and a probability ~ Beta(a, b);
    the mean is shape · b / (a − 1)."""
    log_first = math.lgamma(a + shape) + math.lgamma(a + b)
    log_first -= math.lgamma(a + shape + b) + math.lgamma(a)
    return Components(log_first, 1.0, shape, 1.0, b, 1.0, a + b + shape)


_KINDS: dict[str, tuple[Callable[..., Components], int]] = {
    "poisson": (_poisson, 1),
    "geometric": (_geometric, 1),
    "beta-negative-binomial": (_beta_negative_binomial, 3),
}
_CALL = re.compile(r"([a-z][a-z _-]*?)\s*\(\s*([^()]*?)\s*\)")
_WANTED = (
    "poisson(MEAN), K - 1 with a mean of at most 1000; geometric(P), P from 0.001 to less than 1; "
    "or beta-negative-binomial(SHAPE, A, B), K - 1 with A of at least 2 and a mean "
    "SHAPE * B / (A - 1) of at most 1000"
)


def _is_possible(kind: str, numbers: list[float]) -> bool:
    """Whether these are parameters of a distribution whose sums are found in a moment."""
    if not all(math.isfinite(number) and number > 0.0 for number in numbers):
        return False
    if kind == "poisson":
        return numbers[0] <= _MOST
    if kind == "geometric":
        return 1.0 / _MOST <= numbers[0] < 1.0
    shape, a, b = numbers
    return a >= 2.0 and shape * b / (a - 1.0) <= _MOST


def _read(text: str) -> tuple[str, list[float]] | None:
    """The kind and its parameters; None where it is neither."""
    call = _CALL.fullmatch(text.strip().lower())
    if call is None:
        return None
    kind = call[1].replace("_", "-").replace(" ", "-")
    try:
        numbers = [float(part) for part in call[2].split(",")]
    except ValueError:
        return None
    is_known = kind in _KINDS and len(numbers) == _KINDS[kind][1]
    return (kind, numbers) if is_known and _is_possible(kind, numbers) else None


def components_text(text: Any) -> str:
    """The words of a prior of K, the same for all that mean the same."""
    found = _read(text) if isinstance(text, str) else None
    if found is None:
        raise InputError(f"FiniteMixtures: components must be {_WANTED}; got {text!r}.")
    return f"{found[0]}({', '.join(number_text(number) for number in found[1])})"


def components_prior(text: str) -> Components:
    """The prior of K that a text stands for."""
    kind, numbers = _read(components_text(text)) or ("", [])
    return _KINDS[kind][0](*numbers)
