"""The kind of each column by the rules, as asked, or refused with advice."""

import datetime
import decimal
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dualview as dv
from dualview.columns import Columns
from dualview.columns.numbers import common_step, tied_share
from dualview.errors import DataWarning, InputError

SETTINGS = settings(
    derandomize=True, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
N = 40


def column(values, wish=None, name="x"):
    """The codebook's column of values, whatever they are."""
    wishes = None if wish is None else {name: wish}
    return Columns.from_table(pd.DataFrame({name: values}), wishes).columns[0]


def normal(n=N):
    return np.random.default_rng(1).standard_normal(n)


WHOLE = np.arange(N) % 7

BY_RULES = [
    (normal(), "continuous"),
    (np.float32(normal()), "continuous"),
    (np.where(np.arange(N) < 5, np.nan, normal()), "continuous"),
    (np.maximum(normal(), 0), "limited"),  # ties at an end, and no common step
    (np.repeat(normal(20), 2), "continuous"),  # ties, but no common step
    (np.round(normal(), 1), "rounded"),
    (np.round(normal(), 6), "continuous"),  # no ties
    (WHOLE - 3, "rounded"),
    (WHOLE, "count"),
    (WHOLE.astype(np.uint8), "count"),
    (
        np.where(WHOLE == 2, np.nan, WHOLE),
        "count",
    ),  # whole numbers as floats: pandas' way with missing cells
    (pd.array(WHOLE, dtype="Int64"), "count"),
    (pd.array([None, *WHOLE[1:]], dtype="Int64"), "count"),
    (pd.array(normal(), dtype="Float64"), "continuous"),
    (pd.array(WHOLE.tolist(), dtype="int64[pyarrow]"), "count"),
    (pd.Series([decimal.Decimal(int(value)) for value in WHOLE], dtype=object), "count"),
    (
        pd.array(
            [decimal.Decimal(int(value)) for value in WHOLE],
            dtype=pd.ArrowDtype(pa.decimal128(5, 2)),
        ),
        "count",
    ),
    (pd.arrays.SparseArray(WHOLE.astype(float)), "count"),
    (WHOLE > 2, "nominal"),
    (pd.array([None, *(WHOLE[1:] > 2)], dtype="boolean"), "nominal"),
    (pd.Series([None, *(WHOLE[1:] > 2).tolist()], dtype=object), "nominal"),
    (WHOLE % 2, "nominal"),
    (np.where(WHOLE > 2, 0.25, 1.5), "nominal"),
    (pd.Series(["a", "b", None, "c"] * 10), "nominal"),
    (pd.Series(["a", "b", None, "c"] * 10, dtype=object), "nominal"),
    (pd.array(["a", "b", None, "c"] * 10, dtype="string[pyarrow]"), "nominal"),
    (pd.Categorical(["a", "b", "c", "a"] * 10), "nominal"),
    (pd.Categorical(["a", "b", "c", "a"] * 10, ordered=True), "ordinal"),
    (pd.Categorical(["a", "b", "b", "a"] * 10, ordered=True), "nominal"),
    (pd.Categorical([1, 2, 3, 3] * 10, ordered=True), "ordinal"),
    (pd.arrays.IntervalArray.from_tuples([(0, 1), (1, 3), None, (2, np.inf)] * 10), "censored"),
    (pd.Series([pd.Interval(0, 1), pd.Interval(1, 3), None, pd.NA] * 10, dtype=object), "censored"),
]


@pytest.mark.parametrize(
    ("values", "kind"), BY_RULES, ids=[f"{i}-{kind}" for i, (_, kind) in enumerate(BY_RULES)]
)
def test_kind_by_the_rules(values, kind):
    found = column(values)
    assert found.kind == kind
    assert found.missing == pytest.approx(pd.Series(values).isna().mean())


def test_tables_of_all_libraries_have_the_same_codebook():
    frame = pd.DataFrame(
        {
            "number": [0.3, None, 1.7, 2.2, 1.1],
            "count": [0, 5, 2, 0, 40],
            "holes": pd.array([0, None, 2, 0, 40], dtype="Int64"),
            "flag": [True, False, True, True, False],
            "town": ["x", None, "y", "x", "y"],
            "grade": pd.Categorical(
                ["low", "high", "mid", "low", None], ["low", "mid", "high"], ordered=True
            ),
        }
    )
    arrow = pa.Table.from_pandas(frame)
    polars = pl.from_arrow(arrow).with_columns(
        pl.col("grade").cast(pl.Enum(["low", "mid", "high"]))
    )
    book = Columns.from_table(frame)
    cells = book.cells(frame)
    assert [found.kind for found in book.columns] == [
        "continuous",
        "count",
        "count",
        "nominal",
        "nominal",
        "ordinal",
    ]
    for table in (arrow, polars):
        assert Columns.from_table(table) == book
        for name in ("low", "high", "codes"):
            np.testing.assert_array_equal(book.cells(table).data[name], cells.data[name])


def test_an_array_is_continuous_throughout():
    values = np.column_stack([WHOLE, WHOLE % 2, np.where(WHOLE == 1, np.nan, WHOLE), np.ones(N)])
    book = Columns.from_table(values)
    assert [found.kind for found in book.columns] == ["continuous"] * 4
    assert [found.name for found in book.columns] == ["x0", "x1", "x2", "x3"]
    cells = book.cells(values)
    assert cells.missing.sum() == (WHOLE == 1).sum()
    np.testing.assert_array_equal(cells.low[cells.exact], values[~np.isnan(values)])
    assert Columns.from_table(values, {"x0": "count"}).columns[0].kind == "count"
    masked = np.ma.masked_equal([[1, 7], [2, 3]], 7)
    assert Columns.from_table(masked).cells(masked).missing.tolist() == [
        [False, True],
        [False, False],
    ]
    assert Columns.from_table([[1, None], [2, 3.5]]).cells(
        [[1, None], [2, 3.5]]
    ).missing.tolist() == [
        [False, True],
        [False] * 2,
    ]


def test_skewed_counts_are_seen_on_the_scale_of_log1p():
    assert column([0, 0, 1, 1, 2, 3, 5, 300]).scale == "log1p"
    assert column(WHOLE).scale == "identity"
    assert column(WHOLE, {"kind": "count", "scale": "log1p"}).scale == "log1p"


def test_why_says_what_was_seen():
    assert (
        column([0, 0, 1, 812]).why
        == "whole numbers from 0 to 812, 50 % of users share a value with another, skewed"
    )
    assert "in steps of 0.1" in column(np.round(normal(), 1)).why
    asked = column(np.maximum(normal(), 0), "continuous")
    assert "have the lowest: a limit of measurement? Then call it limited" in asked.why


def shares(n=N):
    """Many at 0, some at 1, the others between."""
    found = np.clip(0.5 + normal(n), 0.0, 1.0)
    assert ((found == 0).sum(), (found == 1).sum()) > (4, 4)
    return found


def test_shares_are_censored_at_their_ends():
    values = shares()
    found = column(values)
    assert (found.kind, found.limits) == ("limited", (0.0, 1.0))
    assert "% have the lowest, 0, a limit and" in found.why
    table = pd.DataFrame({"x": values})
    cells = Columns.from_table(table).cells(table)
    low, high = cells.low[:, 0], cells.high[:, 0]
    np.testing.assert_array_equal(np.isneginf(low), values == 0)
    np.testing.assert_array_equal(np.isposinf(high), values == 1)
    np.testing.assert_array_equal(high[values == 0], 0.0)
    np.testing.assert_array_equal(low[values == 1], 1.0)
    inner = (values > 0) & (values < 1)
    np.testing.assert_array_equal(low[inner], values[inner])
    np.testing.assert_array_equal(high[inner], values[inner])
    np.testing.assert_array_equal(found.values(np.array([-3.0, 0.25, 7.0])), [0.0, 0.25, 1.0])
    np.testing.assert_array_equal(found.observed(low, high), values)
    again = found.coarsened(np.array([-3.0, 0.25, 7.0]))
    np.testing.assert_array_equal(again, [[-np.inf, 0.25, 1.0], [0.0, 0.25, np.inf]])
    assert type(found).from_json(found.to_json()) == found
    with pytest.raises(InputError, match=r"has the limits 0 and 1; got 1\.5"):
        Columns.from_table(table).cells(pd.DataFrame({"x": [0.5, 1.5]}))


def test_one_end_may_be_a_limit():
    assert column(np.maximum(normal(), 0)).limits == (0.0, None)
    assert column(np.minimum(normal(), 0)).limits == (None, 0.0)
    assert column(normal()).kind == "continuous"
    given = column(normal(), {"kind": "limited", "limits": [-9, None]})
    assert given.limits == (-9.0, None)
    assert column(shares(), "continuous").kind == "continuous"
    few = np.repeat([0.0, 0.1234567, 1.0], 12) + 0.0
    assert column(few).kind != "limited"


@pytest.mark.parametrize("limits", [[0], [1, 0], [None, None], "01", [True, 2], [np.nan, 1], 3])
def test_limits_that_are_none(limits):
    with pytest.raises(InputError, match="must be two numbers, the lower one first"):
        column(shares(), {"kind": "limited", "limits": limits})


def test_limits_that_the_values_do_not_have():
    with pytest.raises(InputError, match="Give the limits"):
        column(normal(), "limited")
    with pytest.raises(InputError, match="Set other limits"):
        column(normal(), {"kind": "limited", "limits": [0, 1]})


def codes(n_levels, seed):
    """Levels numbered in no order of their frequencies."""
    rng = np.random.default_rng(seed)
    return 1 + rng.choice(
        n_levels,
        600,
        p=rng.permutation(0.8 ** np.arange(n_levels) * 0.2 + 0.02)
        / (0.8 ** np.arange(n_levels) * 0.2 + 0.02).sum(),
    )


@pytest.mark.parametrize("seed", range(5))
def test_codes_are_doubted_and_amounts_are_not(seed):
    rng = np.random.default_rng(seed)
    assert "write columns={'x': 'nominal'}" in column(codes(12, seed)).doubt
    assert column(codes(12, seed), "count").doubt == ""
    amounts = [
        rng.poisson(4.0, 600),
        rng.geometric(0.2, 600),
        rng.binomial(7, 0.6, 600),
        np.clip(np.round(rng.normal(3.2, 1.1, 600)), 1, 5).astype(int),
        rng.integers(0, 10, 600),
        np.round(rng.normal(45, 12, 600)).astype(int),
        rng.poisson(rng.gamma(1.0, 8.0, 600)),
    ]
    assert [column(own).doubt for own in amounts] == [""] * len(amounts)


def test_numbers_with_a_typing_error_are_no_ids():
    amounts = [*map(str, normal(N)[1:]), "x0.5"]
    table = pd.DataFrame({"amount": amounts, "y": normal(N)})
    assert dv.describe_columns(table).set_index("column").loc["amount", "kind"] == "refused"


NAMES = [f"u{i}" for i in range(N)]
SCATTERED = 3 * np.random.default_rng(0).permutation(N) + 7


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("row", np.arange(N), "count"),
        ("row", np.arange(N, dtype=float) - 2.0, "rounded"),
        ("id", SCATTERED, "count"),
        ("user_id", SCATTERED, "count"),
        ("userId", SCATTERED, "count"),
        ("Patient ID", SCATTERED, "count"),
        ("who", NAMES, "nominal"),
        ("id", [f"{i:05d}" for i in range(N)], "nominal"),
    ],
)
def test_ids_are_left_out_unless_they_are_named(name, values, kind):
    table = pd.DataFrame({name: values, "y": normal(N)})
    found = dv.describe_columns(table).set_index("column").loc[name]
    assert found["kind"] == "ignore"
    assert f"To use it, write columns={{{name!r}: {kind!r}}}" in found["doubt"]
    asked = dv.describe_columns(table, {name: kind}).set_index("column").loc[name]
    assert (asked["kind"], asked["doubt"]) == (kind, "")


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("income", SCATTERED, "count"),
        ("covid", SCATTERED, "count"),
        ("row", np.r_[np.arange(N - 1), 0], "count"),
        ("id", np.arange(10), "count"),
        ("id", SCATTERED + 0.5, "continuous"),
        ("id", np.arange(N) % 7, "count"),
        ("town", [f"t{i % 7}" for i in range(N)], "nominal"),
        ("length", [f"{i},5" for i in range(N)], "refused"),
    ],
)
def test_other_columns_stay(name, values, kind):
    found = dv.describe_columns(pd.DataFrame({name: values})).set_index("column").loc[name]
    assert found["kind"] == kind


def test_a_table_of_ids_says_why_nothing_is_left():
    with pytest.raises(InputError, match=r"All columns are ignored \('id' is left out; it has"):
        dv.DualViewMixture().fit(pd.DataFrame({"id": np.arange(N)}))


def test_a_fit_warns_once_of_doubtful_kinds():
    table = pd.DataFrame({"field": codes(12, 0), "id": np.arange(600), "y": normal(600)})
    shown = dv.describe_columns(table).set_index("column")["doubt"]
    assert shown["y"] == ""
    model = dv.DualViewMixture(n_warmup=1, n_draws=2, n_chains=1, engine="gibbs")
    with pytest.warns(DataWarning, match="'field' is taken for a count") as found:
        model.fit(table)
    told = [str(own.message) for own in found if "in doubt" in str(own.message)]
    assert len(told) == 1
    assert "'id' is left out; it has a value of its own for each user" in told[0]
    assert "To use it, write columns={'id': 'count'}" in told[0]
    assert model.posterior_.feature_names == ["field", "y"]
    kinds = {"field": "nominal", "id": "ignore"}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Kinds of columns in doubt")
        dv.DualViewMixture(n_warmup=1, n_draws=2, n_chains=1, columns=kinds).fit(table)


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([0.1, 0.2, 0.7], 0.1),
        ([0.5, 1.0, 2.5], 0.5),
        ([5.1, 4.9, 5.2], 0.1),
        ([1000.25, 3.5], 996.75),
        ([20.0, 30.0, 60.0], 10.0),
        ([0.25, 0.75, 1.75], 0.5),
        ([1 / 3, 2 / 3, 5 / 3], 1 / 3),
        ([-0.2, 0.6, 0.8], 0.2),
        ([np.pi, np.pi + np.e, np.pi + 5 * np.e], np.e),
        ([np.pi, np.e, 1.0], None),
    ],
)
def test_common_step(values, step):
    found = common_step(np.array(values))
    assert found == (None if step is None else pytest.approx(step, rel=1e-12))


@SETTINGS
@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=30, unique=True),
    st.integers(0, 4),
    st.integers(1, 40),
)
def test_numbers_are_multiples_of_the_common_step(units, decimals, factor):
    values = np.array(units) * factor / 10**decimals
    step = common_step(values)
    multiples = (values - values[0]) / step
    np.testing.assert_allclose(multiples, np.round(multiples), atol=1e-6)
    assert step >= factor / 10**decimals * (1 - 1e-9)


def test_the_step_of_a_standardised_column():
    rounded = np.round(normal(200), 1)
    found = column((rounded - rounded.mean()) / rounded.std())
    assert found.kind == "rounded"
    assert found.step == pytest.approx(0.1 / rounded.std())


def test_a_step_of_numbers_that_were_stored_with_few_digits():
    found = column(np.float32(np.round(normal(), 1)))
    assert (found.kind, found.step) == ("rounded", 0.1)
    assert column(np.float32(np.concatenate([normal(), normal()]))).kind == "continuous"


def test_no_step_of_very_small_numbers():
    assert common_step(1e-25 * np.array([1.0, np.e, np.pi])) is None


def test_tied_share():
    assert tied_share(np.array([1.0, 1.0, 2.0, 3.0, 3.0, 3.0, 4.0, 5.0])) == 5 / 8


@pytest.mark.parametrize(
    ("values", "wish", "kind"),
    [
        (WHOLE, "continuous", "continuous"),
        (WHOLE, "nominal", "nominal"),
        (WHOLE, "ordinal", "ordinal"),
        (WHOLE, "rounded", "rounded"),
        (normal(), {"kind": "rounded", "step": 0.5}, "rounded"),
        (["u1", "u2", "u3"], "nominal", "nominal"),
        (["low", "mid", "high"], {"kind": "ordinal", "levels": ["low", "mid", "high"]}, "ordinal"),
        ([1, "a", 1, "b"], "nominal", "nominal"),
    ],
)
def test_kind_as_asked(values, wish, kind):
    assert column(values, wish).kind == kind


def test_an_ignored_column_may_hold_anything():
    frame = pd.DataFrame(
        {"a": normal(3), "b": [[1], {}, None], "c": pd.date_range("2020", periods=3)}
    )
    book = Columns.from_table(frame, {"b": "ignore", "c": "ignore"})
    assert [found.name for found in book.of("features")] == ["a"]
    assert book.cells(frame).low.shape == (3, 1)


def test_levels_that_are_declared_have_a_share():
    found = column(["a", "b", "b"], {"kind": "nominal", "levels": ["b", "a", "c"]})
    assert found.levels == ("b", "a", "c")
    np.testing.assert_allclose(
        found.shares, [(2 + 1 / 3) / 4, (1 + 1 / 3) / 4, (1 / 3) / 4]
    )  # (M15)
    assert column(pd.Categorical(["a", "b", "b"], ["b", "a", "c"])).shares == found.shares
    assert sum(found.shares) == pytest.approx(1.0)


DATES = pd.date_range("2020", periods=4)
REFUSED = [
    (DATES, None, "Column 'x' holds dates or time spans, .* leave it out: columns={'x': 'ignore'}"),
    (DATES - DATES[0], None, "holds dates or time spans"),
    (DATES.to_period("M"), None, "holds dates or time spans"),
    (
        [datetime.date(2020, 1, 1), None, datetime.date(2020, 1, 2), None],
        None,
        "Turn them into numbers, such as days since",
    ),
    ([[1, 2], [3], None, []], None, "holds lists or records, .* Spread them over columns"),
    (
        pd.array([[1, 2], [3], None, []], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
        None,
        "holds lists or records",
    ),
    (
        pd.array([datetime.date(2020, 1, 1)] * 4, dtype=pd.ArrowDtype(pa.date32())),
        None,
        "holds dates",
    ),
    ([b"a", b"b", b"a", b"b"], None, "holds objects of type bytes"),
    ([1, "a", 2, "b"], None, "holds mixed numbers and text, .* columns={'x': 'nominal'}"),
    ([1j, 2, 3, 4], None, "holds complex numbers"),
    ([object(), object(), None, None], None, "holds objects of type object"),
    (
        ["anna", "bert", "carl", "dora"],
        None,
        "Column 'x' has 4 levels for 4 users, such as anna: names, ids or free text",
    ),
    ([np.nan] * 4, None, "Column 'x' has no value at all. Leave it out: columns={'x': 'ignore'}"),
    ([None] * 4, None, "no value at all"),
    (pd.Categorical([None] * 4, ["a", "b"]), None, "no value at all"),
    ([3.5] * 4, None, "Column 'x' has one value only, 3.5: .* columns={'x': 'ignore'}"),
    (["a", "a", None, "a"], None, "one value only, a"),
    ([1.0, np.inf, 2.0, -np.inf], None, "Column 'x' has infinite values, in rows 1, 3"),
    ([1e200, 1.0, 2.0, 3.0], None, "Column 'x' is too large to compute with"),
    (
        normal(4),
        "gaussian",
        "kind of column 'x' must be one of continuous, rounded, .*; got 'gaussian'",
    ),
    (normal(4), 3, r"columns\['x'\] must be a kind .* got 3"),
    (normal(4), {"step": 3}, r"columns\['x'\] must be a kind"),
    (
        normal(4),
        {"kind": "continuous", "step": 3},
        r"columns\['x'\]: a continuous column takes no 'step'",
    ),
    (
        normal(4),
        {"kind": "rounded", "step": 0},
        "The step of column 'x' must be a positive number; got 0",
    ),
    (
        normal(4),
        {"kind": "nominal", "levels": ["a"]},
        "levels of column 'x' must be a list of two texts or more",
    ),
    (normal(4), {"kind": "nominal", "levels": ["a", "a"]}, "each once"),
    (
        WHOLE,
        {"kind": "count", "scale": "log"},
        "The scale of column 'x' must be identity or log1p; got 'log'",
    ),
    (normal(4), "rounded", "Column 'x' cannot be rounded: .* Give the step"),
    (normal(4), "count", "Column 'x' cannot be a count: counts are whole numbers from 0; it has"),
    ([-1, 2, 3, 4], "count", "it has -1. Call it rounded or continuous"),
    (
        ["a", "b", "a", "b"],
        "continuous",
        "Column 'x' cannot be continuous: it holds text, not numbers",
    ),
    ([True, False, True, True], "count", "cannot be count: it holds flags, not numbers"),
    (DATES, "nominal", "cannot be nominal: it holds dates"),
    (
        ["a", "b", "c", "a"],
        "ordinal",
        "cannot be ordinal without the order of its levels. Give it, lowest first",
    ),
    (
        [0, 1, 0, 1],
        "ordinal",
        "has two levels, where ordinal columns have three or more: call it nominal",
    ),
    (
        ["a", "b", "c", "a"],
        {"kind": "ordinal", "levels": ["a", "b", "d"]},
        "unknown level.* 'c', in row 2; known are a, b, d",
    ),
    (normal(4), "censored", r"cannot be censored by itself: .* Censored\(\"low\", \"high\"\)"),
    (pd.Categorical([1, "1", 2, 2]), None, "categories that read the same"),
]


@pytest.mark.parametrize(("values", "wish", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refused_with_advice(values, wish, message):
    with pytest.raises(InputError, match=message):
        column(values, wish)


def test_text_with_many_levels_is_refused_beyond_half_the_users():
    def texts(n_levels, n_users):
        return [f"level {i % n_levels}" for i in range(n_users)]

    for n_levels, n_users in ((2, 2), (3, 4), (10, 11), (20, 40)):
        assert column(texts(n_levels, n_users)).kind == "nominal"
    for n_levels, n_users in ((3, 3), (11, 12), (21, 40)):
        with pytest.raises(InputError, match=f"has {n_levels} levels for {n_users} users"):
            column(texts(n_levels, n_users))


def test_all_columns_that_are_refused_are_named_at_once():
    frame = pd.DataFrame({"a": normal(4), "b": [1] * 4, "c": DATES})
    with pytest.raises(InputError, match=r"Column 'b' has one value.*Column 'c' holds dates"):
        Columns.from_table(frame)
    described = dv.describe_columns(frame)
    assert described["kind"].tolist() == ["continuous", "refused", "refused"]
    assert "columns={'c': 'ignore'}" in described["why"][2]


@pytest.mark.parametrize(
    ("X", "columns", "message"),
    [
        (
            pd.DataFrame(np.ones((3, 2)), columns=["a", "a"]),
            None,
            "X must name each column once; more than once: a",
        ),
        (pd.DataFrame(np.ones((3, 2)), columns=[1, "1"]), None, "more than once: 1"),
        (
            pd.DataFrame({"a": normal(3)}),
            {"b": "count"},
            "columns names 'b', which X does not have; it has a",
        ),
        (pd.DataFrame({"a": normal(3)}), "count", "columns must be a dictionary such as"),
        (pd.DataFrame({"a": normal(3)}), {"a": "ignore"}, "All columns are ignored"),
        (pd.DataFrame({"a": []}), None, "X has no rows"),
        (pd.DataFrame(index=range(3)), None, "X has no columns"),
        (normal(3), None, r"X must be \(n_users, n_features\)"),
        ([["a", "b"]], None, "X must hold numbers only; got text"),
        (np.array([[np.inf, 1.0], [1.0, 2.0]]), None, "Column 'x0' has infinite values, in row 0"),
        (np.array([[np.nan, 1.0], [np.nan, 2.0]]), None, "Column 'x0' has no value at all"),
    ],
)
def test_tables_that_are_refused(X, columns, message):
    with pytest.raises(InputError, match=message):
        Columns.from_table(X, columns)


def test_users_are_named_by_the_index():
    frame = pd.DataFrame({"a": [1.0, np.inf, 2.5]}, index=["anna", "bert", "carl"])
    with pytest.raises(InputError, match="infinite values, in users bert"):
        Columns.from_table(frame)
