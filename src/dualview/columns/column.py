"""One column of a table of users: its kind, and how its values become intervals on the scale of the
Gaussian view and back."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.columns.cells import inside, missing_cells
from dualview.errors import InputError

Array = NDArray[np.float64]

Scale = Literal["identity", "log1p"]
Limits = tuple[float | None, float | None]
SCALES: tuple[Scale, ...] = ("identity", "log1p")


@dataclass(frozen=True)
class Censored:
    """Values that are known to lie between two numbers: a column of a table, or the outcomes of a
    behavior.

    In a table the ends stand in two columns, which ``columns=`` names: ``columns={"income":
    dv.Censored("income_low", "income_high")}``. The outcomes of a behavior have numbers as ends:
    ``dv.UserRegression(user, design, dv.Censored(low, high))``. Where both ends are equal the value
    is exact; without the low one (NaN or −inf) it is at most the high one; without the high one
    (NaN or inf) at least the low one; without both it is missing, which outcomes must not be.
    ``Censored("at_least", None)`` has lower ends only.

    Parameters
    ----------
    low, high : str, array (n,) or None
        Names of the columns with the lower and the upper ends, or the ends themselves, of which one
        may be a number that all share. None: there are no such ends.
    """

    low: Any
    high: Any

    def __post_init__(self) -> None:
        if not self.is_named:
            return
        names = (self.low, self.high)
        if (
            not all(name is None or isinstance(name, str) for name in names)
            or self.low == self.high
        ):
            raise InputError(
                "Censored takes the names of two columns of X, those of the lower and the upper "
                "ends, one of which may be "
                f"None; got {self.low!r} and {self.high!r}. For example: "
                f'columns={{"income": Censored("low", "high")}}.'
            )

    @property
    def is_named(self) -> bool:
        """Whether the ends are columns of a table; else they are numbers."""
        return all(
            end is None or isinstance(end, str) or np.ndim(end) == 0
            for end in (self.low, self.high)
        )


@dataclass(frozen=True)
class Column:
    """What one column is.

    Attributes
    ----------
    name : str
    kind : str
        What ``columns=`` calls it.
    why : str
        The reason for the kind, a clause for the codebook.
    missing : float
        The share of users of the fit without a value.
    levels : tuple of str
        Of nominal and ordinal columns; of ordinal ones in order.
    shares : tuple of float
        Of nominal columns: g_jl = (n_jl + 1/L_j)/(n_j + 1) of (M15).
    cuts : tuple of float
        Of ordinal columns: the inner bounds g_1 … g_{L−1} of the levels' intervals, (M14).
    step : float or None
        Of rounded columns: the unit to which values are rounded.
    scale : "identity" or "log1p"
        The scale on which the Gaussian view sees the column. Counts may be on that of log1p.
    lowest : float or None
        Of counts: the lowest that is possible, 0, or 1 where the fit's lowest is 1; its interval is
        open downwards. Of rounded columns: the lowest value of the fit, from which steps are
        counted.
    limits : tuple of (float or None), or ()
        Of limited columns: the lower and the upper end, at which values are censored; None for no
        end.
    doubt : str
        Why the kind may be wrong, and what to write then; "" where nothing speaks against it.
    sources : tuple of (str or None)
        Of censored columns: the columns with the lower and the upper ends; one name where a column
        holds intervals.
    """

    name: str
    kind: str
    why: str = ""
    missing: float = 0.0
    levels: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    cuts: tuple[float, ...] = ()
    step: float | None = None
    scale: Scale = "identity"
    lowest: float | None = None
    sources: tuple[str | None, ...] = ()
    limits: Limits | tuple[()] = ()
    doubt: str = ""

    def intervals(self, values: Array) -> tuple[Array, Array]:
        """Low and high ends on the Gaussian view's scale of values (…) in the user's units, of
        levels by number; NaN: missing.

        Not for censored columns, whose ends are data.
        """
        if self.kind == "ordinal":
            bounds = np.array([-np.inf, *self.cuts, np.inf])
            level = np.nan_to_num(values, nan=0.0).astype(np.int64)
            low, high = bounds[level], bounds[level + 1]
        else:
            half = {"rounded": 0.5 * (self.step or 0.0), "count": 0.5}.get(self.kind, 0.0)
            low, high = self.scaled(values - half), self.scaled(values + half)
            if self.kind == "count":
                low = np.where(values <= (self.lowest or 0.0), -np.inf, low)
            if self.limits:
                lower, upper = self.limits
                low = low if lower is None else np.where(values <= lower, -np.inf, low)
                high = high if upper is None else np.where(values >= upper, np.inf, high)
        unknown = np.isnan(values)
        return np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)

    def values(self, x: Array) -> Array:
        """Values in the user's units, of columns with levels their numbers, of x (…) on the view's
        scale."""
        if self.kind == "ordinal":
            return np.searchsorted(np.asarray(self.cuts), x, side="left").astype(float)
        raw = self.unscaled(x)
        if self.kind == "count":
            return np.maximum(np.round(raw), self.lowest or 0.0)
        if self.kind == "rounded":
            step, origin = self.step or 1.0, self.lowest or 0.0
            return np.asarray(origin + step * np.round((raw - origin) / step))
        return np.clip(raw, *self.limits) if self.limits else raw

    def observed(self, low: Array, high: Array) -> Array:
        """What is known of cells (…) between these ends on the Gaussian view's scale, in the user's
        units: NaN where they are missing; of censored ones, the only end."""
        known = inside(low, high)
        if self.kind == "censored":
            known = np.where(np.isposinf(high), low, np.where(np.isneginf(low), high, known))
        return np.where(missing_cells(low, high), np.nan, self.values(known))

    def coarsened(self, x: Array) -> tuple[Array, Array]:
        """The ends that numbers (…) on the Gaussian view's scale would be observed as."""
        if self.kind in ("continuous", "censored"):
            return x, x
        return self.intervals(self.values(x))

    def series(self, x: NDArray[Any]) -> Any:
        """Complete values (U,) on the view's scale as a table has them: levels as categories."""
        values = self.values(x)
        if not self.levels:
            return values
        ordered = self.kind == "ordinal"
        return pd.Categorical.from_codes(values.astype(int), self.levels, ordered=ordered)

    def named(self, x: NDArray[Any]) -> NDArray[Any]:
        """Complete values (…) on the view's scale in the user's units; levels by name."""
        values = self.values(x)
        return np.asarray(self.levels, dtype=object)[values.astype(int)] if self.levels else values

    def scaled(self, values: Array) -> Array:
        """Numbers in the user's units on the Gaussian view's scale; below the scale's range −∞."""
        if self.scale == "identity":
            return np.asarray(values, dtype=float)
        return np.log1p(
            np.maximum(values, -1.0),
            out=np.full(np.shape(values), -np.inf),
            where=np.asarray(values) > -1.0,
        )

    def unscaled(self, x: Array) -> Array:
        """The inverse of ``scaled``: numbers in the user's units, not rounded."""
        return np.asarray(x if self.scale == "identity" else np.expm1(x), dtype=float)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Column":
        """The column of a dictionary that ``to_json`` made."""
        known = {field.name for field in fields(cls)}
        if not {"name", "kind"} <= set(record) <= known:
            raise InputError(
                "The record of a column must have a name and a kind, and no more than "
                f"{sorted(known)}."
            )
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in record.items()
        }
        return cls(**values)
