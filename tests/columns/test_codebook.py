"""Tables as cells and back, for the fit's users and for new ones."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import dualview as dv
from dualview.columns import Cells, Column, Columns
from dualview.errors import InputError

SETTINGS = settings(
    derandomize=True, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
INF = np.inf


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "height": [1.712, np.nan, 1.655, 1.801, 1.783],
            "town": ["Lyon", "Metz", None, "Lyon", "Lyon"],
            "posts": [0, 3, 300, 1, 1],
            "width": [0.2, 0.2, 0.4, 0.6, 0.2],
            "low": [10.0, np.nan, 30.0, np.nan, 50.0],
            "high": [20.0, 5.0, 30.0, np.nan, np.nan],
            "grade": pd.Categorical(["b", "a", "c", "b", None], ["a", "b", "c"], ordered=True),
            "member": [True, False, True, True, False],
            "id": list("vwxyz"),
        },
        index=["anna", "bert", "carl", "dora", "emil"],
    )


WISHES = {"income": dv.Censored("low", "high"), "id": "ignore"}


@pytest.fixture
def book(frame):
    return Columns.from_table(frame, WISHES)


def test_the_codebook_in_the_tables_order(book):
    kinds = {column.name: column.kind for column in book.columns}
    assert kinds == {
        "height": "continuous",
        "town": "nominal",
        "posts": "count",
        "width": "rounded",
        "income": "censored",
        "grade": "ordinal",
        "member": "nominal",
        "id": "ignore",
    }
    assert [column.name for column in book.of("features")] == [
        "height",
        "posts",
        "width",
        "income",
        "grade",
    ]
    assert [column.name for column in book.of("categories")] == ["town", "member"]


def test_cells_of_every_kind(book, frame):
    cells = book.cells(frame)
    shares = (np.array([1, 2, 1]) + 1 / 3) / 5
    first, second = norm.ppf(np.cumsum(shares)[:2])
    posts = np.log1p([[0.0, 0.5], [2.5, 3.5], [299.5, 300.5], [0.5, 1.5], [0.5, 1.5]])
    posts[0, 0] = -INF
    expected = {
        "height": [(1.712, 1.712), (-INF, INF), (1.655, 1.655), (1.801, 1.801), (1.783, 1.783)],
        "posts": posts,
        "width": [(0.1, 0.3), (0.1, 0.3), (0.3, 0.5), (0.5, 0.7), (0.1, 0.3)],
        "income": [(10, 20), (-INF, 5), (30, 30), (-INF, INF), (50, INF)],
        "grade": [(first, second), (-INF, first), (second, INF), (first, second), (-INF, INF)],
    }
    for d, column in enumerate(book.of("features")):
        np.testing.assert_allclose(
            np.column_stack([cells.low, cells.high])[:, [d, d + 5]],
            expected[column.name],
            rtol=1e-12,
        )
    np.testing.assert_array_equal(cells.data["codes"], [[0, 1], [1, 0], [-1, 1], [0, 1], [0, 0]])
    assert cells.data["codes"].dtype == np.int64
    assert cells.missing.sum(axis=0).tolist() == [1, 0, 0, 1, 1]
    assert cells.exact.sum(axis=0).tolist() == [4, 0, 0, 1, 0]
    assert not cells.is_exact
    assert cells.n_users == 5


def test_a_table_of_numbers_is_exact():
    x = np.random.default_rng(0).standard_normal((6, 2))
    for table in (x, pd.DataFrame(x, columns=["a", "b"])):
        cells = Columns.from_table(table).cells(table)
        assert cells.is_exact
        np.testing.assert_array_equal(cells.low, x)
    assert not Cells({"low": x, "high": x, "codes": np.zeros((6, 1), dtype=np.int64)}).is_exact


def test_users_of_whom_nothing_is_known_are_kept(book, frame):
    cells = book.cells(frame.where(frame.index.to_series() != "bert", axis=0))
    empty = book.without_information(cells)
    assert empty.tolist() == [False, True, False, False, False]
    assert cells.take(empty).missing.all()


def test_new_users_are_read_by_the_codebook_of_the_fit(book, frame):
    new = frame.iloc[[3, 0]][
        ["grade", "town", "member", "posts", "low", "high", "width", "height"]
    ]  # another order, no id
    np.testing.assert_array_equal(book.cells(new).low, book.cells(frame).low[[3, 0]])
    np.testing.assert_array_equal(
        book.cells(new).data["codes"], book.cells(frame).data["codes"][[3, 0]]
    )
    plain = frame.iloc[[2]].assign(grade="c", posts=300.0)
    np.testing.assert_array_equal(book.cells(plain).low, book.cells(frame).low[[2]])
    empty = frame.iloc[[2]].assign(town=None, grade=None, height=None, posts=None)
    assert book.cells(empty).data["codes"].tolist() == [[-1, 1]]
    assert book.cells(empty).missing.tolist() == [[True, True, False, False, True]]


def test_unknown_levels(book, frame):
    new = frame.assign(town=["Lyon", "Brest", "Metz", "Brest", "Nice"])
    with pytest.raises(
        InputError,
        match=r"Column 'town' has unknown level\(s\) 'Brest', 'Nice', in users bert, dora, emil; "
        r"known are Lyon, Metz. "
        'Correct them.*unknown="missing"',
    ):
        book.cells(new)
    assert book.cells(new, unknown="missing").data["codes"][:, 0].tolist() == [0, -1, 1, -1, -1]
    new = frame.assign(grade=["a", "b", "d", "c", "a"])
    with pytest.raises(InputError, match=r"Column 'grade' has unknown level.* 'd', in users carl"):
        book.cells(new)
    assert book.cells(new, unknown="missing").missing[2, 4]
    with pytest.raises(InputError, match='unknown must be "error" or "missing"; got \'ignore\''):
        book.cells(frame, unknown="ignore")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"posts": [1, 2, -3, 4, 5]},
            "Column 'posts' is a count in the fit: whole numbers from 0; got -3, in users carl",
        ),
        ({"posts": [1, 2, 2.5, 4, 5]}, "got 2.5, in users carl"),
        (
            {"posts": list("abcde")},
            "Column 'posts' is count in the fit and must hold numbers; it holds text",
        ),
        (
            {"height": [1.0, INF, 2.0, 3.0, 4.0]},
            "Column 'height' has infinite values, in users bert",
        ),
        (
            {"town": pd.date_range("2020", periods=5)},
            "Column 'town' is nominal in the fit; it holds dates",
        ),
        (
            {"low": [25.0, 1.0, 1.0, 1.0, 1.0]},
            "Column 'income': the lower end must not be above .* got 25 to 20, in users anna",
        ),
        (
            {"low": list("abcde")},
            "Column 'low', an end of 'income', must hold numbers; it holds text",
        ),
        ({"age": 3}, r"X must have the columns of the fit \(unknown: age\)"),
    ],
)
def test_new_tables_that_are_refused(book, frame, change, message):
    with pytest.raises(InputError, match=message):
        book.cells(frame.assign(**change))


def test_missing_columns_are_named(book, frame):
    with pytest.raises(InputError, match=r"columns of the fit \(missing: town, low\)"):
        book.cells(frame.drop(columns=["town", "low"]))


def test_arrays_have_the_columns_in_order():
    x = np.random.default_rng(0).standard_normal((6, 3))
    table = pd.DataFrame(x, columns=["a", "b", "c"])
    book = Columns.from_table(table, {"b": "ignore"})
    np.testing.assert_array_equal(book.cells(x).low, x[:, [0, 2]])
    np.testing.assert_array_equal(book.cells(x[:, [0, 2]]).low, x[:, [0, 2]])
    np.testing.assert_array_equal(Columns.from_table(x).cells(table).low, x)
    with pytest.raises(
        InputError, match="X must have the 2 columns of the fit, in order; it has 4"
    ):
        book.cells(np.ones((2, 4)))


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"income": dv.Censored("low", "hi")}, "columns names 'hi', which X does not have"),
        (
            {"height": dv.Censored("low", "high")},
            "calls a censored column 'height', as another column",
        ),
        ({"income": dv.Censored("low", "high"), "low": "count"}, "columns uses 'low' twice"),
        (
            {"a": dv.Censored("low", "high"), "b": dv.Censored("low", None)},
            "columns uses 'low' twice",
        ),
        (
            {"income": dv.Censored("town", "high")},
            "Column 'town', an end of 'income', must hold numbers; it holds text",
        ),
        (
            {"income": dv.Censored("height", "posts")},
            "Column 'income': .* got 1.712 to 0, in users anna",
        ),
        ({"income": dv.Censored("high", "low")}, "got 20 to 10, in users anna"),
    ],
)
def test_censored_columns_that_are_refused(frame, wishes, message):
    with pytest.raises(InputError, match=message):
        Columns.from_table(frame.drop(columns="id"), wishes)


def test_bounds_that_say_nothing_are_refused():
    table = pd.DataFrame({"a": [1.5, 2.1, 3.7], "low": [np.nan, 2, 2], "high": np.nan})
    with pytest.raises(InputError, match="Column 'x' has one value only, 2 to inf"):
        Columns.from_table(table, {"x": dv.Censored("low", "high")})
    with pytest.raises(InputError, match="Column 'x' has no value at all"):
        Columns.from_table(table.assign(low=np.nan), {"x": dv.Censored("low", "high")})
    for ends in (("low", "low"), (None, None), (1, "high")):
        with pytest.raises(InputError, match="Censored takes the names of two columns of X"):
            dv.Censored(*ends)


def test_a_censored_column_may_take_the_name_and_the_place_of_an_end():
    table = pd.DataFrame({"a": [1.5, 2.1, 3.7], "income": [1.0, 2.0, 5.0], "b": [0.3, 0.1, 0.2]})
    book = Columns.from_table(table, {"income": dv.Censored("income", None)})
    assert [column.name for column in book.columns] == ["a", "income", "b"]
    cells = book.cells(table)
    np.testing.assert_array_equal(cells.low[:, 1], table["income"])
    assert np.isposinf(cells.high[:, 1]).all()


def test_intervals_of_pandas():
    table = pd.DataFrame(
        {"x": pd.arrays.IntervalArray.from_tuples([(0, 1), None, (2, np.inf), (3, 3)])}
    )
    cells = Columns.from_table(table).cells(table)
    np.testing.assert_array_equal(cells.low[:, 0], [0, -INF, 2, 3])
    np.testing.assert_array_equal(cells.high[:, 0], [1, INF, INF, 3])


def columns_of_each_kind():
    cuts = (-0.7, 0.1, 0.9)
    return [
        Column("a", "continuous"),
        Column("b", "rounded", step=0.1, lowest=-2.3),
        Column("c", "count", lowest=0.0),
        Column("d", "count", scale="log1p", lowest=0.0),
        Column("e", "count", scale="log1p", lowest=1.0),
        Column("f", "ordinal", levels=("r", "s", "t", "u"), cuts=cuts),
    ]


@SETTINGS
@given(st.integers(-50, 10**6), st.floats(0.01, 0.99))
def test_values_inside_an_interval_come_back(number, share):
    for column in columns_of_each_kind():
        value = {
            "continuous": number / 7,
            "rounded": -2.3 + number * 0.1,
            "ordinal": abs(number) % 4,
        }.get(column.kind, abs(number))
        value = max(value, column.lowest) if column.kind == "count" else value
        low, high = column.intervals(np.array([value]))
        assert low <= high
        low, high = (
            (low if np.isfinite(low) else high - 3),
            (high if np.isfinite(high) else low + 3),
        )
        inside = np.where(low == high, low, low + share * (high - low))
        np.testing.assert_allclose(column.values(inside), value, rtol=1e-12, atol=1e-9)


def test_intervals_of_counts_and_levels_cover_the_line():
    for column in columns_of_each_kind()[2:]:
        values = np.arange(column.lowest or 0, 4.0)
        low, high = column.intervals(values)
        assert np.isneginf(low[0])
        np.testing.assert_array_equal(low[1:], high[:-1])
        assert np.isposinf(high[-1]) == (column.kind == "ordinal")


def test_a_count_below_the_lowest_is_open_downwards():
    column = Column("e", "count", scale="log1p", lowest=1.0)
    low, high = column.intervals(np.array([0.0, 1.0, 2.0, np.nan]))
    np.testing.assert_allclose(low, [-INF, -INF, np.log1p(1.5), -INF])
    np.testing.assert_allclose(high, np.append(np.log1p([0.5, 1.5, 2.5]), INF))
    np.testing.assert_array_equal(column.values(np.array([-30.0, 0.0, 1.0])), [1, 1, 2])


def test_values_and_series(book):
    x = np.array([[1.7, np.log1p(3.2), 0.41, 12.0, -2.0], [1.6, -1.0, 0.19, 14.0, 2.0]])
    values = [column.values(own) for column, own in zip(book.of("features"), x.T, strict=True)]
    np.testing.assert_allclose(np.transpose(values), [[1.7, 3, 0.4, 12, 0], [1.6, 0, 0.2, 14, 2]])
    codes = np.array([[1, 0], [-1, 1]])
    found = {
        column.name: column.series(own)
        for column, own in zip(
            (*book.of("features"), *book.of("categories")), (*x.T, *codes.T), strict=True
        )
    }
    assert found["grade"].tolist() == ["a", "c"]
    assert found["grade"].ordered
    assert found["town"].isna().tolist() == [False, True]
    assert found["town"][0] == "Metz"
    assert found["member"].tolist() == ["False", "True"]
    assert book.of("features")[-1].named(x[:, -1]).tolist() == ["a", "c"]


def test_json_round_trip(book, frame):
    text = json.dumps(book.to_json(), allow_nan=False)
    again = Columns.from_json(json.loads(text))
    assert again == book
    np.testing.assert_array_equal(again.cells(frame).low, book.cells(frame).low)
    with pytest.raises(InputError, match="'a' is of the kind 'strange', which is not among"):
        Columns.from_json({"is_named": True, "columns": [{"name": "a", "kind": "strange"}]})
    with pytest.raises(InputError, match="must have a name and a kind"):
        Column.from_json({"name": "a", "kind": "count", "colour": "red"})


def test_describe_columns(frame):
    described = dv.describe_columns(frame, WISHES)
    assert list(described.columns) == ["column", "kind", "why", "levels", "missing", "doubt"]
    row = described.set_index("column").loc["town"]
    assert (row["kind"], row["levels"], row["missing"]) == ("nominal", "Lyon, Metz", 0.2)
    assert dv.describe_columns(frame)["kind"].tolist()[-1] == "refused"
    many = pd.DataFrame({"x": [f"l{i % 9}" for i in range(90)]})
    assert dv.describe_columns(many)["levels"][0] == "l0, l1, l2, l3, l4, l5, … (9)"


@SETTINGS
@given(st.data())
def test_shares_and_cuts_follow_the_model(data):
    n_levels = data.draw(st.integers(3, 6))
    levels = [f"l{i}" for i in range(n_levels)]
    cells = data.draw(st.lists(st.sampled_from([*levels, None]), min_size=2, max_size=40))
    if len({cell for cell in cells if cell}) < 2:
        return
    frame = pd.DataFrame(
        {"n": pd.Categorical(cells, levels), "o": pd.Categorical(cells, levels, ordered=True)}
    )
    nominal, ordinal = Columns.from_table(frame).columns
    counts = np.array([cells.count(level) for level in levels])
    np.testing.assert_allclose(nominal.shares, (counts + 1 / n_levels) / (counts.sum() + 1))
    np.testing.assert_allclose(norm.cdf(ordinal.cuts), np.cumsum(nominal.shares)[:-1])
    assert (np.diff(ordinal.cuts) > 0).all()
