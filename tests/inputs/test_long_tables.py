"""Long tables: features and behaviors from pandas, polars and Arrow, formulas, and predictions that
read new tables as the fit did."""

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dualview as dv
from dualview import cli
from dualview.errors import DataWarning, InputError, InputTypeError, MissingExtraError
from dualview.inputs.designs import Coding, FormulaDesign, design_from
from dualview.inputs.formulas import Formula
from dualview.inputs.new_rows import new_observations
from dualview.inputs.tables import GivenTable

N = 12
SHORT: dict[str, Any] = {"engine": dv.Gibbs(n_warmup=20), "n_draws": 20, "n_chains": 1}


def visits() -> pd.DataFrame:
    """Made-up visits: six of each user, in two groups of slopes; ids that count from 5."""
    rng = np.random.default_rng(3)
    user = np.repeat(np.arange(N), 6)
    month = np.tile(np.arange(6.0), N)
    town = rng.permutation(np.tile(["a", "b", "c"], 2 * N))
    bdi = 20.0 + np.where(user % 2, -2.0, 1.0) * month + (town == "c") + rng.normal(size=6 * N)
    return pd.DataFrame(
        {
            "subject": user + 5,
            "age": 30.0 + 3 * (user % 2) + rng.normal(size=N)[user],
            "drug": np.where(user % 3, "yes", "no"),
            "month": month,
            "town": town,
            "item": rng.choice(["i", "j", "k"], 6 * N),
            "bdi": bdi,
            "better": (bdi < 20).astype(int),
            "grade": pd.cut(bdi, [-99, 15, 20, 99], labels=["low", "mid", "high"]),
            "falls": rng.poisson(2.0, 6 * N),
        }
    )


def long(table: Any, **options: Any) -> tuple[Any, Any]:
    return dv.from_long(table, **{"user": "subject", "outcome": "bdi"} | options)


@pytest.fixture(scope="module")
def model() -> dv.DualViewMixture:
    return dv.fit("bdi ~ month + town | subject", visits(), features=["age", "drug"], **SHORT)


def test_a_behavior_is_the_one_that_is_built_by_hand() -> None:
    table = visits()
    X, behavior = long(
        table, by=["month", "town"], common="drug", groups="item", features=["age", "drug"]
    )
    design = table[["month"]].assign(
        **{"town[b]": table["town"] == "b", "town[c]": table["town"] == "c"}
    )
    by_hand = dv.UserRegression(
        table["subject"],
        design.astype(float),
        table["bdi"],
        common=pd.DataFrame({"drug[yes]": 1.0 * (table["drug"] == "yes")}),
        groups=table[["item"]],
        intercept=True,
        users=X.index,
    )
    assert behavior.fingerprint() == by_hand.fingerprint()
    assert behavior.users == [str(user) for user in X.index]
    assert behavior.coords() == by_hand.coords()
    users = table.drop_duplicates("subject").set_index("subject")[["age", "drug"]]
    pd.testing.assert_frame_equal(X, users)


@pytest.mark.parametrize("made", [pl.DataFrame, pa.Table.from_pandas], ids=["polars", "Arrow"])
def test_other_tables_are_read_as_those_of_pandas(made: Any) -> None:
    table = visits().drop(columns="grade")
    wanted = {"by": ["month", "town"], "features": ["age", "drug"]}
    X, behavior = long(made(table), **wanted)
    X0, behavior0 = long(table, **wanted)
    pd.testing.assert_frame_equal(X, X0, check_dtype=False)
    assert behavior.fingerprint() == behavior0.fingerprint()


@pytest.mark.parametrize("by", [["town", "drug"], "0 + town + drug"], ids=["columns", "formula"])
def test_without_an_intercept_each_level_has_an_effect(by: Any) -> None:
    if isinstance(by, str):
        behavior = dv.fit(f"bdi ~ {by} | subject", visits(), **SHORT).behavior_
    else:
        behavior = long(visits(), by=by, intercept=False)[1]
    assert behavior.names == ["town[a]", "town[b]", "town[c]", "drug[yes]"]


def test_users_may_be_in_the_index() -> None:
    assert long(visits().set_index("subject"))[1].fingerprint() == long(visits())[1].fingerprint()


@pytest.mark.parametrize(
    ("outcome", "kind", "said"),
    [
        ("bdi", dv.UserRegression, "'bdi' as numbers, family=\"regression\""),
        ("falls", dv.UserRegression, 'whole numbers may be family="ordinal"'),
        ("better", dv.BinaryOutcomes, 'family="binary": it holds 0 and 1'),
        ("grade", dv.OrdinalOutcomes, 'family="ordinal"'),
    ],
)
def test_the_family_is_told_by_the_outcome(outcome: str, kind: Any, said: str) -> None:
    behavior = long(visits(), outcome=outcome)[1]
    assert isinstance(behavior, kind)
    assert said in repr(behavior)
    assert said in str(behavior.facts()["read"])
    coded = long(visits(), outcome=outcome, by="town", common="drug")[1]
    assert repr(coded).endswith("; levels of town against a, drug against no)")


@pytest.mark.parametrize("word", ["count", "rounded"])
def test_the_words_of_the_command_line_are_families(word: str) -> None:
    behavior = long(visits(), outcome="falls", family=word)[1]
    assert behavior.recorded.column.kind == word
    assert dv.UserRegression in type(behavior).__mro__
    assert long(visits(), outcome="falls", family="ordinal")[1].levels.names[0] == "0"


def test_levels_without_an_order_are_said_or_told_by_a_categorical() -> None:
    table = visits()
    behavior = long(table, outcome="town", by=None, family="categorical")[1]
    assert behavior.levels.names == ("a", "b", "c")
    again = long(table.assign(town=table["town"].astype("category")), outcome="town", by=None)[1]
    assert type(again) is dv.CategoricalOutcomes
    assert again.fingerprint() == behavior.fingerprint()
    with pytest.raises(InputError, match='without an order say family="categorical"'):
        long(table, outcome="town", by=None)
    with pytest.raises(InputError, match='levels= is for family="ordinal" or "categorical"'):
        long(table, levels=[1, 2], family="regression")


def test_times_have_events_or_ends() -> None:
    table = visits().assign(days=lambda t: t["bdi"].abs() + 1.0, seen=lambda t: t["better"])
    options = {"outcome": "days", "family": "survival", "event": "seen"}
    behavior = long(table, **options | {"family": "log-logistic"})[1]
    assert behavior.times_family == "log-logistic"
    np.testing.assert_array_equal(np.isinf(behavior.observed[:, 1]), table["seen"] == 0)
    exact = long(table, outcome="days", family="survival")[1]
    assert exact.observed.ndim == 1
    table["high"] = table["days"].where(table["seen"] == 1)
    ends = long(table, outcome=["days", "high"], family="survival")[1]
    np.testing.assert_array_equal(ends.observed, behavior.observed)
    with pytest.raises(InputError, match=r"must hold 1 where the time was seen .* got 2"):
        long(table.assign(seen=2), **options)
    with pytest.raises(InputError, match='with family="survival"'):
        long(table, outcome="days", event="seen")
    with pytest.raises(InputError, match="outcome is the column 'seen', and by has it too"):
        long(table, **options, by="seen")


def test_levels_of_numbers_count_as_their_numbers() -> None:
    table = visits().assign(grade=lambda t: pd.Categorical(t["falls"], ordered=True))
    levels = long(table, outcome="grade")[1].levels
    assert levels.values.tolist() == sorted(set(table["falls"]))


def test_two_columns_hold_the_ends_of_intervals() -> None:
    table = visits().assign(low=lambda t: t["bdi"] - 1, high=lambda t: t["bdi"] + 1)
    table.loc[3, "high"] = None
    behavior = long(table, outcome=["low", "high"])[1]
    assert behavior.outcome[3].tolist() == [table["low"][3], np.inf]


def test_missing_outcomes_are_left_out_and_counted() -> None:
    table = visits()
    table.loc[:5, "bdi"] = None
    table.loc[8, "bdi"] = None
    with pytest.warns(DataWarning, match=r"7 of 72 rows have no outcome .* 1 user\(s\) .* kept"):
        X, behavior = long(table, features="age")
    assert (len(X), len(behavior), behavior.n_observations) == (N, N, 65)
    with pytest.warns(DataWarning, match="left out: they have no features"):
        X, behavior = long(table)
    assert X is None
    assert len(behavior) == N - 1


def test_a_feature_in_one_row_of_a_user_is_that_of_the_user() -> None:
    table = visits()
    table.loc[table["month"] > 0, "age"] = None
    assert not long(table, features="age")[0]["age"].isna().any()
    table["drug"] = table["drug"].where(table["month"] == 0, "")
    assert set(long(table, features="drug")[0]["drug"]) == {"yes", "no"}


def test_decimals_of_arrow_are_numbers() -> None:
    """With an empty cell, which is an open end."""
    cells = pa.array([None, *map(Decimal, range(71))], pa.decimal128(6, 2))
    low = pd.Series(pd.arrays.ArrowExtensionArray(cells))
    _, behavior = long(visits().assign(low=low, high=99.0), outcome=["low", "high"])
    np.testing.assert_array_equal(behavior.outcome[:, 0], [-np.inf, *range(71)])


ARRAYS = pd.Series([np.ones(2)] * 72)
WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a column that is not there": ({}, {"by": "mont"}, "'mont'.* Did you mean 'month'"),
    "an id that is missing": (
        {"subject": [None, *range(71)]},
        {},
        r"1 of 72 rows have none: row\(s\) 0",
    ),
    "a feature that changes": (
        {"age": [31.0, 32.0, *[31.0] * 70]},
        {"features": "age"},
        "'age' must be the same .* user 5 has 31.0 and 32.0",
    ),
    "an outcome that is a feature": ({}, {"features": "bdi"}, "outcome is the column 'bdi', and f"),
    "an event of counts": (
        {"bdi": 3},
        {"family": "poisson", "event": "better"},
        'with family="survival".*got outcome bdi and family="poisson"',
    ),
    "exposures of times": (
        {},
        {"family": "weibull", "exposure": "age"},
        'exposure= is for family="counts" or "negative binomial" or "poisson" or "auto"',
    ),
    "a family that is none": ({}, {"family": "gaussian"}, '"auto", "regression", "binary", "ord'),
    "yes or no as numbers": ({}, {"family": "binary"}, 'must hold 0 and 1.* family="binary"'),
    "two numbers": ({"bdi": [1, 2] * 36}, {}, r"two values, 1 and 2.*df\['bdi'\] == 2"),
    "text as outcome": ({}, {"outcome": "town"}, r"holds text \(a, b, c\).*levels=\[...\]"),
    "a missing cell": ({"month": [None, *range(71)]}, {"by": "month"}, r"is empty in row\(s\) 0"),
    "a typing error": (
        {"month": ["o", *map(str, range(71))]},
        {"by": "month"},
        r"by= column 'month' must hold numbers; it does not in row\(s\) 0",
    ),
    "dates": (
        {"month": pd.date_range("2020-01-01", periods=72)},
        {"by": "month"},
        "dates or time spans. Make it numbers",
    ),
    "months": (
        {"low": pd.period_range("2020-01", periods=72, freq="M"), "high": None},
        {"outcome": ["low", "high"]},
        "'low' must hold numbers or nothing",
    ),
    "levels that are fractions": ({"town": 0.5}, {"groups": "town"}, "holds fractions"),
    "ids that are fractions": ({"subject": 0.5}, {}, "Name the column of ids with user="),
    "ids that are infinite": ({"subject": [np.inf, *range(71)]}, {}, "Name the column of ids"),
    "a column twice": ({}, {"by": "month", "common": "month"}, "by and common both have 'month'"),
    "text as yes or no": ({}, {"outcome": "town", "family": "binary"}, r"df\['town'\] == 'yes'"),
    "very many levels": (
        {"town": [f"t{i}" for i in range(72)]},
        {"by": "town"},
        "72 levels .* groups=",
    ),
    "one level": ({"town": "a"}, {"common": "town"}, "one level only, a"),
    "nothing to depend on": ({}, {"intercept": False}, "must depend on something"),
    "no outcome at all": ({"bdi": None}, {}, "'?bdi'? is empty in every row"),
    "levels of numbers": ({}, {"family": "count", "levels": [1, 2, 3]}, "levels= is for"),
    "infinite outcomes": ({"bdi": [np.inf, *range(71)]}, {}, r"must hold numbers.*row\(s\) 0"),
    "a list in a cell": ({"age": [[1]] * 72}, {"features": "age"}, "one value in each cell"),
    "an imaginary feature": ({"age": 1j}, {"features": "age"}, "it holds complex numbers"),
    "arrays in cells": ({"month": ARRAYS}, {"by": "month"}, r"must hold numbers.* row\(s\) 0"),
    "arrays as outcomes": ({"bdi": ARRAYS}, {}, "holds lists or records"),
    "arrays as ids": ({"subject": ARRAYS}, {}, "got a list of lists"),
    "arrays as levels": ({"item": ARRAYS}, {"groups": "item"}, "it holds lists or records"),
    "a list as a level": ({"item": [["i"]] * 72}, {"groups": "item"}, "it holds lists or records"),
    "complex numbers": ({"month": 1j}, {"by": "month"}, r"'month' must hold numbers.* row\(s\) 0"),
    "complex objects": (
        {"month": np.array([1j, *range(71)], dtype=object)},
        {"common": "month"},
        "'month' must hold numbers",
    ),
    "no column of outcomes": ({}, {"outcome": []}, "outcome must name a column .*got none"),
    "a number of levels": ({}, {"outcome": "grade", "levels": 3}, "levels must list .*got 3"),
    "levels in lists": (
        {},
        {"outcome": "grade", "levels": [["low"], ["mid", "high"]]},
        "must list",
    ),
    "a level that is missing": (
        {},
        {"outcome": "grade", "levels": ["low", None, "high"]},
        "must l",
    ),
    "levels in one text": ({}, {"outcome": "grade", "levels": "low"}, "must list names or numbers"),
    "a column called intercept": (
        {"intercept": 1.0},
        {"by": "intercept"},
        "'intercept', and intercept=True puts one before it: rename",
    ),
    "a NUL in an id": ({"subject": ["a\0"] * 72}, {}, "has a NUL character"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_table_that_is_held_wrong_gets_advice(name: str) -> None:
    cells, options, message = WRONG[name]
    with pytest.raises(InputError, match=message):
        long(visits().assign(**cells), **options)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({"subject": [1]}, {}, "got a dict. Make it one"),
        (pl.LazyFrame({"subject": [1]}), {}, "Call collect"),
        (visits(), {"by": visits()["month"]}, 'as in by="month"'),
        (visits(), {"user": ["subject", "month"]}, "user must name one column"),
    ],
    ids=["a dict", "a lazy table", "a column in the place of its name", "two columns of users"],
)
def test_what_is_no_table_or_name_is_refused(table: Any, options: Any, message: str) -> None:
    with pytest.raises(InputTypeError, match=message):
        long(table, **options)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("bdi ~ month", "lacks the column of users after"),
        ("bdi | subject", "lacks a ~"),
        ("bdi ~ month + (1 + month | subject)", "common="),
        ("bdi ~ mont | subject", "Did you mean 'month'"),
        ("bdi ~ center(month) | subject", "not allowed.*functions of one row"),
        ("bdi ~ np.load(month) | subject", "not allowed"),
        ("bdi ~ np.log(month) | subject", r"must be finite.* row\(s\) 0, 6"),
        ("bdi ~ month +* town | subject", "cannot be read: it is no sum of terms"),
        ("bdi ~ . | subject", "must name its columns"),
        ("bdi ~ 0 | subject", "must depend on something"),
        ("log(bdi) ~ month | subject", r"a column; got 'log\(bdi\)'"),
        ("bdi ~ bdi | subject", "outcome is the column 'bdi', and the formula has it too"),
        ("bdi ~ month + subject | subject", "user is the column 'subject', and the formula"),
        ("bdi ~ month ** 2 | subject", r"'month \*\* 2' .* no arithmetic.* I\(month \*\* 2\)\."),
        ("bdi ~ 1 / month | subject", r"no arithmetic: .* write I\(1 / month\)\."),
        ("bdi ~ 2 * month | subject", r"write I\(2 \* month\)"),
        ("bdi ~ month / 2 | subject", r"write I\(month / 2\)"),
        ("bdi ~ month / age | subject", r"write I\(month / age\)"),
        ("bdi ~ age - month | subject", r"write I\(age - month\)"),
        ("bdi ~ -month | subject", r"write I\(-month\)"),
        ("bdi ~ month + 2 | subject", "The term '2' of the formula is not allowed"),
        ("bdi ~ `month | subject", "A backtick in .* has no second one"),
        (visits(), "must be text such as .*got a DataFrame"),
        (3, "must be text such as"),
    ],
)
def test_a_formula_that_is_held_wrong_gets_advice(formula: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        dv.fit(formula, visits())


def test_a_column_has_one_kind_of_coefficient() -> None:
    for formula in ("bdi ~ month | subject", "bdi ~ age + C(month) | subject"):
        with pytest.raises(InputError, match="the formula and common both have 'month'"):
            dv.fit(formula, visits(), common="month")


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ("month * town - town", ["month", "month:town[b]", "month:town[c]"]),
        ("(month + age) ** 2 - month:age", ["month", "age"]),
        ("drug / month", ["drug[yes]", "drug[no]:month", "drug[yes]:month"]),
        ("month - 1", ["month"]),
        ("-1 + month", ["month"]),
    ],
)
def test_signs_join_and_remove_terms(terms: str, names: list[str]) -> None:
    table = GivenTable(visits(), "T")
    assert list(FormulaDesign.of(table, terms).matrix(table)) == names


def test_signs_in_backticks_are_part_of_a_name() -> None:
    parts = Formula.of("`a ~ b` ~ `c | d` + month | `user (id)`")
    assert parts == ("a ~ b", "`c | d` + month", "user (id)")


ATTACKS = [
    "{(print('RAN') or abs)(month)} ~ month",
    "f((__import__('os').system('echo RAN') or abs)(month)) ~ month",
    "month + I(month * ('`' == str(print('RAN')) + '`'))",
    "I((lambda: month)())",
    "I(month.__class__())",
    "month[print(1)]",
    "I(*month)",
    "I(9 ** 9 ** 9 * month)",
    "I((9 ** 10) ** 10 * month)",
    "I(9 ** (9 * 9) * month)",
    "month ** 11",
    "((month + age) ** 10) ** 10",
    "(" * 300 + "month" + ")" * 300,
    "-" * 5000 + "month",
]


@pytest.mark.parametrize("terms", ATTACKS)
def test_terms_run_nothing(terms: str, capfd: pytest.CaptureFixture[str]) -> None:
    told = {"terms": terms, "codings": [{"name": "month", "levels": [], "is_whole": False}]}
    with pytest.raises(InputError):
        FormulaDesign(terms, (Coding("month"),)).matrix(GivenTable(visits(), "T"))
    with pytest.raises(InputError):
        design_from(told).matrix(GivenTable(visits(), "T"))
    with pytest.raises(InputError):
        dv.fit(f"bdi ~ {terms} | subject", visits())
    assert "RAN" not in "".join(capfd.readouterr())


def test_a_description_that_lacks_a_column_is_damaged() -> None:
    with pytest.raises(InputError, match="the description of the fit is damaged"):
        FormulaDesign("month + age", (Coding("month"),)).matrix(GivenTable(visits(), "T"))


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (
            "C(np.minimum(month, 3))",
            r"'C\(np\.minimum.*C\(\) of one column.*Make a col",
        ),
        ("C(month, month)", r"C\(\) of one column"),
        ("C(month, 'y')", "rename such columns first"),
        ("C(month) + month:age", "'month' is inside .* and outside.*Make a copy"),
        ("C(`month`) + I(month ** 2)", "'month' is inside .* and outside.*Make a copy"),
        ("I(3)", "not allowed"),
        ("np.log(month, age)", "not allowed"),
        ("I(1 / 0 + month)", r"cannot be read: Unable to evaluate factor `I\(1 / 0 \+ month\)`"),
        ("scale + month", "must have a column 'scale'"),
    ],
)
def test_terms_that_other_tables_would_not_share_are_refused(terms: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        FormulaDesign.of(GivenTable(visits(), "T"), terms).matrix(GivenTable(visits(), "T"))


@pytest.mark.parametrize(
    "name", ["scale", "center", "lag", "poly", "C", "exp", "np", "bs", "cs", "hashed", "dose.mg"]
)
def test_columns_may_be_called_as_functions_are(name: str) -> None:
    table = visits().rename(columns={"age": name})
    design = FormulaDesign.of(GivenTable(table, "T"), f"{name} + np.exp(month):{name}")
    matrix = design.matrix(GivenTable(table, "T"))
    assert list(matrix) == [name, f"np.exp(month):{name}"]
    np.testing.assert_allclose(matrix[name], visits()["age"])
    np.testing.assert_allclose(matrix.iloc[:, 1], np.exp(table["month"]) * table[name])


def test_levels_of_a_name_in_backticks_are_those_of_the_fit() -> None:
    table = visits().rename(columns={"month": "the month's"})
    design = FormulaDesign.of(GivenTable(table, "T"), "C(`the month's`)")
    later = design.matrix(GivenTable(table[table["the month's"] > 3], "T"))
    assert list(later) == [f"C(the month's)[{month}]" for month in range(1, 6)]
    assert later.sum().tolist() == [0, 0, 0, N, N]


def test_a_setting_that_is_none_is_named() -> None:
    with pytest.raises(InputError, match="no parameter 'n_drawz'"):
        dv.fit("bdi ~ month | subject", visits(), n_drawz=3)


def test_a_missing_formulaic_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(MissingExtraError, match=r"dualview\[formulas\]"):
        dv.fit("bdi ~ month | subject", visits())


def test_terms_of_a_formula_are_columns(model: dv.DualViewMixture) -> None:
    by_columns = long(visits(), by=["month", "town"], features=["age", "drug"])[1]
    assert model.behavior_ is not None
    assert model.behavior_.fingerprint() == by_columns.fingerprint()


def new_visits() -> pd.DataFrame:
    """Of two users of the fit, and of one who is new."""
    columns = {"subject": [7, 99, 6], "month": [7.0, 7.0, 1.0], "town": ["c", "b", "b"]}
    return pd.DataFrame(columns | {"age": [None, 33.0, None], "drug": [None, "no", None]})


def test_predictions_read_tables_as_the_fit_did(model: dv.DualViewMixture) -> None:
    table = visits()
    users = [*map(str, range(5, 5 + N)), "99"]
    design = pd.DataFrame(
        {"month": [7.0, 7.0, 1.0], "town[b]": [0.0, 1.0, 1.0], "town[c]": [1.0, 0.0, 0.0]}
    )
    by_hand = dv.UserRegression([7, 99, 6], design, intercept=True, users=users)
    X_new = pd.DataFrame({"age": [33.0], "drug": ["no"]}, index=["99"])
    expected = model.predict_outcome(by_hand, X_new)
    for new in (new_visits(), pl.DataFrame(new_visits())):
        np.testing.assert_array_equal(model.predict_outcome(new).mean, expected.mean)
    known = model.predict_outcome(table)
    assert np.corrcoef(known.mean, table["bdi"])[0, 1] > 0.9


def test_a_saved_fit_reads_tables_too(model: dv.DualViewMixture, tmp_path: Path) -> None:
    model.posterior_.save(tmp_path / "fit.nc")
    loaded = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "fit.nc"))
    for new in (new_visits(), visits()):
        expected = model.predict_outcome(new).mean
        np.testing.assert_array_equal(loaded.predict_outcome(new).mean, expected)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (
            new_visits().assign(month=pd.period_range("2020-01", periods=3, freq="M")),
            r"'month' must hold numbers; it does not in row\(s\) 0, 1, 2",
        ),
        (new_visits().assign(town="z"), r"'town' has level\(s\) that the fit has not seen, z"),
        (new_visits().drop(columns="month"), "must have a column 'month'"),
        (new_visits().drop(columns="age"), r"1 user\(s\) are new to the fit \(99\).* lacks .* age"),
        (new_visits().assign(subject=None), "3 of 3 rows have none"),
        (new_visits().iloc[:0], "has no rows"),
    ],
)
def test_new_tables_that_are_held_wrong_get_advice(
    model: dv.DualViewMixture, new: pd.DataFrame, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        model.predict_outcome(new)


def test_features_from_elsewhere_are_asked_for() -> None:
    table = visits()
    users = table.drop_duplicates("subject").set_index("subject")[["age"]]
    model = dv.DualViewMixture(**SHORT).fit(users, long(table, by="month")[1])
    with pytest.raises(InputError, match="features of the fit, which came from elsewhere"):
        model.predict_outcome(new_visits())
    X_new = pd.DataFrame({"age": [33.0]}, index=[99])
    assert len(model.predict_outcome(new_visits(), X_new).mean) == 3


def test_outcomes_of_new_users_come_from_a_table_too(model: dv.DualViewMixture) -> None:
    before = new_visits().assign(bdi=[None, 60.0, None]).iloc[[1] * 4]
    X_new = pd.DataFrame({"age": [33.0], "drug": ["no"]}, index=["99"])
    design = pd.DataFrame({"month": 7.0, "town[b]": 1.0, "town[c]": 0.0}, index=range(4))
    by_hand = dv.UserRegression(["99"] * 4, design, [60.0] * 4, intercept=True)
    expected = model.predict_outcome(new_visits(), X_new, by_hand).mean
    found = model.predict_outcome(new_visits(), behavior_new=before).mean
    np.testing.assert_array_equal(found, expected)
    assert found[1] > model.predict_outcome(new_visits()).mean[1]
    with pytest.raises(InputError, match="X_new has users of the fit: 5"):
        model.predict_outcome(new_visits(), X_new.set_axis([5]))


def test_tables_are_scored(model: dv.DualViewMixture) -> None:
    behavior = long(visits(), by=["month", "town"], features=["age", "drug"])[1]
    assert model.score(None, visits()) == model.score(None, behavior)
    with pytest.raises(InputError, match="the table has others: 99"):
        model.score(None, new_visits().assign(bdi=1.0))


def test_a_table_to_score_has_outcomes(model: dv.DualViewMixture) -> None:
    with pytest.raises(InputError, match="must have a column 'bdi'"):
        model.score(None, visits().drop(columns="bdi"))


def later(*users: Any) -> pd.DataFrame:
    return pd.DataFrame({"subject": users, "month": 7.0, "town": "c"})


def read_later(table: Any, **options: Any) -> tuple[Any, Any]:
    """New observations of the behavior of the visits, which needs no fit."""
    return new_observations(long(visits(), by=["month", "town"])[1], table, **options)


def test_several_new_users_are_matched_by_id() -> None:
    X_new = pl.DataFrame({"age": [33.0, 50.0]})
    with pytest.raises(InputError, match=r"X_new must name its users: .*with ids as its index"):
        read_later(later(98, 99), X_new=X_new, ids_of_X=None, names=["age"])
    behavior, _ = read_later(later(98, 99), X_new=X_new, ids_of_X=["99", "98"], names=["age"])
    assert behavior.users[-2:] == ["99", "98"]
    assert [behavior.users[place] for place in behavior.user] == ["98", "99"]
    with pytest.raises(InputError, match="neither in the fit nor in X_new: 98"):
        read_later(later(98, 99), X_new=X_new[:1], ids_of_X=["99"], names=["age"])
    behavior, _ = read_later(later(98), X_new=X_new[:1], names=["age"])
    assert behavior.users[-1] == "98"


def test_two_tables_of_new_users_are_matched_by_id(model: dv.DualViewMixture) -> None:
    columns = {"age": [33.0, 31.0], "drug": "no"}
    before = later(98, 99).assign(bdi=[10.0, 60.0], **columns)
    found = model.predict_outcome(later(99, 98), behavior_new=before)
    again = model.predict_outcome(later(98, 99), behavior_new=before)
    np.testing.assert_allclose(found.mean, again.mean[::-1])
    with pytest.raises(InputError, match="X_new must name its users, since new and behavior_new"):
        model.predict_outcome(later(99), pl.DataFrame(columns)[:1], before[:1])


def test_users_of_whom_none_is_known_are_told() -> None:
    users = [f"u{place}" for place in range(7)]
    with pytest.warns(DataWarning, match=r"No user .* u0, .*u4.* as new users.* such as 5, 6\."):
        read_later(later(*users))
    read_later(later(5, "u0"))
    with pytest.raises(InputError, match=r"'007' for '7', ' 8' for '8', '9\.0' for '9'"):
        read_later(later("007", " 8", "9.0", "u0", "5"))
    table = later("007", "u0", "5").assign(age=33.0)
    fitted = long(visits(), by=["month", "town"], features="age")[1]
    with pytest.raises(InputError, match=r"'007' for '7'.* give X_new with their ids"):
        new_observations(fitted, table, names=["age"])


def test_features_may_be_called_as_those_without_names_are(tmp_path: Path) -> None:
    table = visits().assign(x0=lambda t: t["age"], x1=lambda t: t["age"] ** 2)
    model = dv.fit("bdi ~ month | subject", table, features=["x0", "x1"], **SHORT)
    model.posterior_.save(tmp_path / "fit.nc")
    loaded = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "fit.nc"))
    new = new_visits().assign(x0=33.0, x1=33.0**2)
    np.testing.assert_allclose(loaded.predict_outcome(new).mean, model.predict_outcome(new).mean)


def test_the_latent_behavior_is_predicted_from_a_table(model: dv.DualViewMixture) -> None:
    before = later(99, 99).assign(bdi=60.0, age=33.0, drug="no")
    X_new = pd.DataFrame({"age": [33.0], "drug": ["no"]}, index=["99"])
    expected = model.predict_latent(X_new, before).mean
    np.testing.assert_array_equal(model.predict_latent(None, before).mean, expected)
    assert not np.allclose(model.predict_latent(X_new).mean, expected)


def test_levels_of_an_index_are_columns_unless_there_is_one() -> None:
    table = visits()
    by_index = table.set_index(["subject", "month"]).assign(month=table["month"].to_numpy())
    expected = long(table, by="month")[1].fingerprint()
    assert long(by_index, by="month")[1].fingerprint() == expected
    assert long(by_index.rename_axis(["subject", None]), by="month")[1].fingerprint() == expected


@pytest.mark.parametrize("names", [[1, "1"], [0, 0]])
def test_names_that_are_the_same_as_text_are_refused(names: list[Any]) -> None:
    table = visits().rename(columns={"age": "A", "drug": "B"})
    table.columns = [dict(zip("AB", names, strict=True)).get(name, name) for name in table.columns]
    with pytest.raises(InputError, match=f"each column once; more than once: {names[0]}"):
        long(table)


def test_new_users_of_a_fit_without_features_are_predicted(tmp_path: Path) -> None:
    model = dv.fit("grade ~ 1 | subject", visits(), groups="item", **SHORT)
    new = pd.DataFrame({"subject": [5, 99], "item": ["i", "new"]})
    predicted = model.predict_outcome(new)
    assert predicted.probabilities.shape == (2, 3)
    model.posterior_.save(tmp_path / "fit.nc")
    loaded = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "fit.nc"))
    again = loaded.predict_outcome(new)
    assert again.levels == predicted.levels == ("low", "mid", "high")
    np.testing.assert_array_equal(again.probabilities, predicted.probabilities)


def test_a_fit_to_no_long_table_says_where_tables_are_read() -> None:
    table = visits()
    behavior = dv.UserRegression(table["subject"], table[["month"]], table["bdi"], intercept=True)
    fitted = dv.DualViewMixture(**SHORT).fit(None, behavior)
    with pytest.raises(InputError, match=r"Tables are read for fits to the behavior of dv\.from"):
        fitted.predict_outcome(table)


def test_the_command_line_codes_levels_alike(tmp_path: Path) -> None:
    table = visits()
    X, behavior = long(table, by=["month", "town"], features=["age", "drug"])
    X.to_csv(tmp_path / "users.csv")
    table.to_csv(tmp_path / "answers.csv", index=False)
    run = tmp_path / "run"
    words = ["--kind", "regression", "--outcome", "bdi", "--by", "month,town", "--user-column"]
    words += ["subject", "--warmup", "20", "--draws", "20", "--chains", "1", "--quiet"]
    paths = [str(tmp_path / name) for name in ("users.csv", "answers.csv")]
    assert cli.main(["fit", *paths, "--out", str(run), *words]) == 0
    model = dv.DualViewMixture(**SHORT).fit(X, behavior)
    saved = dv.load(run / "posterior.nc")
    np.testing.assert_array_equal(saved["latent"], model.posterior_["latent"])
    new = new_visits().iloc[[0, 2]]
    new.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "predictions.csv"
    assert cli.main(["predict", str(run), str(tmp_path / "new.csv"), "--out", str(out)]) == 0
    expected = model.predict_outcome(new).median
    np.testing.assert_allclose(pd.read_csv(out)["median"], expected)
    loaded = dv.DualViewMixture.from_posterior(saved)
    np.testing.assert_array_equal(loaded.predict_outcome(new).median, expected)
