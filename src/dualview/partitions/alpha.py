"""Priors of the concentration α, small classes with the same methods, and the words that choose
one."""

import math
import numbers as abstract
import re
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dualview.checks import LARGEST, SMALLEST, positive_number
from dualview.errors import InputError
from dualview.partitions.concentration import AlphaPrior

_LEAST_SHAPE = 0.05  # with a smaller one ln α leaves the range of numbers


class Concentration(Protocol):
    """What a partition prior asks of the prior of its concentration."""

    @property
    def start(self) -> float:
        """A typical value, where chains start."""

    @property
    def record(self) -> AlphaPrior:
        """The density as numbers, for compiled code."""

    def draw(self, rng: np.random.Generator) -> float:
        """α from its prior."""


def number_text(value: float) -> str:
    """The shortest text that reads as this number again."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _checked(owner: str, shape: Any, size: Any, name: str) -> tuple[float, float]:
    """Both parameters as floats that keep α in the range of numbers."""
    shape, size = (
        positive_number(shape, f"{owner}: shape"),
        positive_number(size, f"{owner}: {name}"),
    )
    if not _LEAST_SHAPE <= shape <= LARGEST or not SMALLEST <= size <= LARGEST:
        raise InputError(
            f"{owner} takes a shape from {_LEAST_SHAPE} and a {name} from {SMALLEST:g}, both up "
            f"to {LARGEST:g}, so that α "
            f"neither overflows nor underflows; got {shape:g} and {size:g}."
        )
    return shape, size


@dataclass(frozen=True)
class Gamma:
    """α ~ Gamma(shape, rate), with mean shape / rate.

    Parameters
    ----------
    shape : float
        At least 0.05.
    rate : float
        One over the scale.

    Examples
    --------
    >>> Gamma(2, 4)
    Gamma(shape=2.0, rate=4.0)
    """

    shape: float
    rate: float

    def __post_init__(self) -> None:
        shape, rate = _checked("Gamma", self.shape, self.rate, "rate")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "rate", rate)

    @property
    def start(self) -> float:
        return self.shape / self.rate

    @property
    def record(self) -> AlphaPrior:
        log_constant = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        return AlphaPrior(self.shape, self.rate, 0.0, log_constant, True)

    def draw(self, rng: np.random.Generator) -> float:
        return float(rng.standard_gamma(self.shape) / self.rate)

    def __str__(self) -> str:
        return f"gamma({number_text(self.shape)}, {number_text(self.rate)})"


@dataclass(frozen=True)
class InverseGamma:
    """1/α ~ Gamma(shape, scale): α has density ∝ α^{−shape−1} e^{−scale/α}, whose tail is heavy.

    Parameters
    ----------
    shape : float
        At least 0.05.
    scale : float
        The rate of 1/α.

    Examples
    --------
    The paper's prior, 1/α ~ G(1, 1), which ``alpha="paper"`` stands for:

    >>> InverseGamma(0.5, 0.5)
    InverseGamma(shape=0.5, scale=0.5)
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        shape, scale = _checked("InverseGamma", self.shape, self.scale, "scale")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "scale", scale)

    @property
    def start(self) -> float:
        return self.scale / self.shape

    @property
    def record(self) -> AlphaPrior:
        log_constant = self.shape * math.log(self.scale) - math.lgamma(self.shape)
        return AlphaPrior(-self.shape, 0.0, self.scale, log_constant, True)

    def draw(self, rng: np.random.Generator) -> float:
        return float(self.scale / rng.standard_gamma(self.shape))

    def __str__(self) -> str:
        return f"inverse gamma({number_text(self.shape)}, {number_text(self.scale)})"


@dataclass(frozen=True)
class Known:
    """α is this number."""

    value: float

    def __post_init__(self) -> None:
        value = positive_number(self.value, "alpha")
        if not SMALLEST <= value <= LARGEST:
            raise InputError(f"alpha must be from {SMALLEST:g} to {LARGEST:g}; got {value:g}.")
        object.__setattr__(self, "value", value)

    @property
    def start(self) -> float:
        return self.value

    @property
    def record(self) -> AlphaPrior:
        return AlphaPrior(1.0, 0.0, 0.0, 0.0, False)

    def draw(self, rng: np.random.Generator) -> float:  # noqa: ARG002
        return self.value

    def __str__(self) -> str:
        return number_text(self.value)


PAPER = InverseGamma(0.5, 0.5)
# Where the number of clusters is inferred: much mass near 0, so that one cluster has a prior
# probability of about a half, and a tail for many. See benchmarks/roles.py.
DEFAULT = Gamma(0.25, 0.25)
_WANTED = (
    'None, "paper", a positive number, or a prior: Gamma(shape, rate) or InverseGamma(shape, scale)'
)
_CALL = re.compile(r"(inverse)?[ _-]?gamma\s*\(\s*([^,()]+?)\s*,\s*([^,()]+?)\s*\)")


def concentration(alpha: Any, n_clusters: int | None = None) -> Concentration:
    """The prior that ``alpha`` of the estimator stands for, with n_clusters clusters if their
    number is fixed.

    By default a fixed number has the paper's prior: under one with much mass near 0, clusters that
    were asked for would be left empty where data say little.
    """
    if alpha is None:
        return DEFAULT if n_clusters is None else PAPER
    if isinstance(alpha, Gamma | InverseGamma | Known):
        return alpha
    if isinstance(alpha, str) and alpha == "paper":
        return PAPER
    if (
        isinstance(alpha, abstract.Real)
        and not isinstance(alpha, bool)
        and 0 < float(alpha) < np.inf
    ):
        return Known(float(alpha))
    got = repr(alpha) if isinstance(alpha, str | bool | abstract.Real) else type(alpha).__name__
    raise InputError(f"alpha must be {_WANTED}; got {got}.")


def concentration_from_text(text: str | None) -> Concentration | None:
    """What the text on a command line or in a file stands for: "paper", "1.5", "gamma(2, 4)",
    "inverse gamma(0.5, 0.5)".

    None stands for the default and stays None.
    """
    if text is None:
        return None
    call = _CALL.fullmatch(text.strip().lower())
    try:
        if call is not None:
            return (InverseGamma if call[1] else Gamma)(float(call[2]), float(call[3]))
        return PAPER if text == "paper" else Known(float(text))
    except InputError:
        raise
    except ValueError:
        raise InputError(
            "alpha must be a positive number, paper, gamma(SHAPE,RATE) or "
            f"inverse-gamma(SHAPE,SCALE); got {text!r}."
        ) from None
