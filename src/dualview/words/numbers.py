"""Numbers for readers: few digits, a real minus sign."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ABSENT = "–"


def number(value: float, digits: int = 3) -> str:
    """Three significant digits, and all digits before the point."""
    if not math.isfinite(value):
        return _ABSENT
    text = f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
    if "e" in text and abs(value) >= 1e-4:
        text = f"{value:,.6f}".rstrip("0")
    return _signed(text)


def tenths(value: float) -> str:
    """One digit after the point."""
    return _signed(f"{value:,.1f}") if math.isfinite(value) else _ABSENT


def decimals(width: float) -> int:
    """How many decimals tell two significant digits of an interval of this width."""
    return max(0, 1 - math.floor(math.log10(width))) if width > 0 else 3


def estimate(own: Mapping[str, float], digits: int | None = None) -> dict[str, str]:
    """A median with the ends of its interval, low and high; by default with two significant digits
    of the interval."""
    digits = decimals(own["high"] - own["low"]) if digits is None else digits
    return {end: _signed(f"{own[end]:,.{digits}f}") for end in ("median", "low", "high")}


def _signed(text: str) -> str:
    """With a real minus sign, and none before nothing."""
    return text.lstrip("-") if not text.strip("-0.,") else text.replace("-", "−")


def share(value: float) -> str:
    """A probability as a percentage; never 0 or 100 for what is only nearly so."""
    if not math.isfinite(value):
        return _ABSENT
    if 0 < value < 0.005:
        return "<1 %"
    if 0.995 <= value < 1:
        return ">99 %"
    return f"{100 * value:.0f} %"


def rounded(values: NDArray[np.floating], digits: int = 4) -> list[Any]:
    """Numbers with this many significant digits, for the page's data; None for what JSON has no
    name for."""
    return [
        float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values.tolist()
    ]


def counted(n: int, one: str, many: str) -> str:
    """'1 user', '1,234 users'."""
    return f"{n:,} {one if n == 1 else many}"
