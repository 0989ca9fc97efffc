"""Checks at the door: what passes comes out as floats, what does not is told why."""

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from dualview import checks
from dualview.errors import InputError


@pytest.mark.parametrize("value", [1, np.int64(4), np.uint8(1)])
def test_whole_numbers(value):
    assert checks.whole_number(value, "thin", 1) == value


@pytest.mark.parametrize("value", [0, -1, 1.5, 2.0, True, np.True_, "3", None, np.nan])
def test_what_is_no_whole_number(value):
    with pytest.raises(InputError, match="thin must be a whole number of at least 1; got "):
        checks.whole_number(value, "thin", 1)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2), Fraction(1, 3), 1e-300])
def test_positive_numbers(value):
    assert checks.positive_number(value, "ridge") == float(value)


@pytest.mark.parametrize("value", [0, -0.1, np.nan, np.inf, True, "1", None, [1.0], 1j])
def test_what_is_no_positive_number(value):
    with pytest.raises(InputError, match="ridge must be a positive number; got "):
        checks.positive_number(value, "ridge")


@pytest.mark.parametrize(
    "table", [pd.DataFrame({"a": [1], "b": [2]}), pl.DataFrame({"a": [1], "b": [2]})]
)
def test_column_names_of_every_library(table):
    assert checks.column_names(table) == ["a", "b"]


def test_arrow_tables():
    table = pytest.importorskip("pyarrow").table({"a": [1, 3], "b": [2.0, 4.0]})
    assert checks.column_names(table) == ["a", "b"]
    np.testing.assert_array_equal(checks.numbers(table, "covariates", n_dims=2), [[1, 2], [3, 4]])


@pytest.mark.parametrize("table", [np.ones((2, 2)), [[1, 2]], pd.DataFrame([[1, 2]]), None])
def test_no_column_names(table):
    assert checks.column_names(table) is None


@pytest.mark.parametrize(
    "values",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], dtype=np.uint8),
        np.array([[1, 2], [3, 4]], dtype=object),
        [[Decimal(1), Fraction(2)], [3.0, 4]],
        np.matrix([[1, 2], [3, 4]]),
        pd.DataFrame([[1, 2], [3, 4]], dtype="Int64"),
        pl.DataFrame({"a": [1, 3], "b": [2.0, 4.0]}),
    ],
)
def test_tables_of_every_kind(values):
    array = checks.numbers(values, "covariates", n_dims=2)
    assert array.dtype == float
    np.testing.assert_array_equal(array, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    "values", [pd.Series([True, False]), pl.Series([True, False]), [True, False], np.array([1, 0])]
)
def test_columns_of_every_kind(values):
    np.testing.assert_array_equal(checks.numbers(values, "outcome", n_dims=1), [1.0, 0.0])


@pytest.mark.parametrize(
    "values",
    [
        [1.0, np.nan, 3.0],
        [1.0, None, 3.0],
        [1, -np.inf, 3],
        pd.Series([1, None, 3], dtype="Int64"),
        pd.Series([1, pd.NA, 3], dtype=object),
        pl.Series([1, None, 3]),
        np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False]),
    ],
)
def test_missing_and_infinite_values_are_told_by_row(values):
    with pytest.raises(
        InputError,
        match=r"outcome must be finite; it contains NaN or infinity \(inf\) in row 1\. Drop "
        r"or fill",
    ):
        checks.numbers(values, "outcome", n_dims=1)


def test_missing_values_are_told_by_column_where_there_are_names():
    with pytest.raises(InputError, match=r"in rows 0, 2, column\(s\) hour\."):
        checks.numbers(
            pd.DataFrame({"hour": [np.nan, 1, np.inf], "day": [1, 2, 3]}), "covariates", n_dims=2
        )


def test_long_lists_are_cut():
    with pytest.raises(InputError, match=r"in rows 0, 1, 2, 3, 4, … \(30 in all\)\."):
        checks.numbers(np.full(30, np.nan), "outcome", n_dims=1)


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (["1", "2"], "text, such as 1, in rows 0, 1"),
        (np.array(["a", 1.0], dtype=object), "text, such as a, in row 0"),
        (pd.Series([1, "b"]), "text, such as b, in row 1"),
        (pd.Series(["1.5", "many"]), "text, such as many, in rows 0, 1"),
        (np.array([b"x", b"y"]), "text"),
        (pd.Series(pd.date_range("2020", periods=2)), "dates"),
        ([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)], "dates or time spans"),
        (np.array([1, 2], dtype="timedelta64[s]"), "time spans"),
        (np.array([1.0, 2j]), "complex numbers"),
    ],
)
def test_what_is_no_number(values, what):
    with pytest.raises(InputError, match=f"outcome must hold numbers only; got {what}"):
        checks.numbers(values, "outcome", n_dims=1)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_columns_of_text_are_named(library):
    table = library({"hour": [1.0, 2.0], "topic": ["x", "y"], "digits": ["1", "2"]})
    with pytest.raises(
        InputError,
        match=r"in column\(s\) topic, digits\. Convert it to numbers, encode it or drop it\.",
    ):
        checks.numbers(table, "covariates", n_dims=2)


def test_something_else():
    with pytest.raises(
        InputError, match="outcome must hold numbers only; got something of type dict"
    ):
        checks.numbers(np.array([{}, []], dtype=object), "outcome", n_dims=1)
    with pytest.raises(InputError, match="covariates must have rows of one length; row 0 has 2"):
        checks.numbers([[1, 2], [3]], "covariates", n_dims=2)
    with pytest.raises(
        InputError,
        match=r"must be a dense array; got a sparse matrix\. Pass covariates\.toarray\(\)",
    ):
        checks.numbers(sparse.eye_array(3), "covariates", n_dims=2)


@pytest.mark.parametrize(
    ("values", "n_dims", "message"),
    [
        (
            np.ones(3),
            2,
            r"a table with rows and columns; got an array of shape \(3,\)\. A single column is "
            r"v.reshape\(-1, 1\)",
        ),
        (
            np.ones((3, 1)),
            1,
            r"one-dimensional; got an array of shape \(3, 1\)\. Pass v\.ravel\(\)",
        ),
        (np.ones((3, 2)), 1, r"one-dimensional; got an array of shape \(3, 2\)\.$"),
        (1.0, 1, r"one-dimensional; got an array of shape \(\)"),
        (None, 2, "a table with rows and columns"),
        (np.ones((2, 2, 2)), 2, "a table with rows and columns"),
    ],
)
def test_wrong_dimensions(values, n_dims, message):
    with pytest.raises(InputError, match=f"v must be {message}"):
        checks.numbers(values, "v", n_dims=n_dims)


@pytest.mark.parametrize(
    ("factor", "size"), [(1e101, "large"), (1e300, "large"), (1e-101, "small"), (5e-324, "small")]
)
def test_numbers_without_squares(factor, size):
    with pytest.raises(
        InputError, match=f"outcome is too {size} to compute with: .* Use another unit"
    ):
        checks.numbers(factor * np.ones(3), "outcome", n_dims=1)
    with pytest.raises(InputError, match=rf"too {size} to compute with in column\(s\) b:"):
        checks.check_range(np.array([1.0, factor]), "X", ["a", "b"])
    with pytest.raises(InputError, match=f"participation is too {size}"):
        checks.participation_matrix(sparse.csr_array(factor * np.eye(3)))


@pytest.mark.parametrize("values", [np.zeros(3), np.full(3, 1e100), np.full(3, -1e-100)])
def test_numbers_with_squares(values):
    assert checks.numbers(values, "outcome", n_dims=1) is not None


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 / 3, -1e-90])
def test_rounding_is_no_variation(value):
    assert not checks.varies(np.full(77, value))
    assert checks.varies(np.append(np.full(76, value), value * (1 + 1e-10) + 1e-95))


PARTICIPATION = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.5, 1.0, 0.0]])
FORMS = [
    sparse.csr_array,
    sparse.csc_array,
    sparse.coo_array,
    sparse.csr_matrix,
    sparse.csc_matrix,
    sparse.coo_matrix,
]


@pytest.mark.parametrize(
    "form", [*FORMS, sparse.lil_array, sparse.dok_array, sparse.bsr_matrix, sparse.dia_matrix]
)
def test_every_sparse_format(form):
    matrix = checks.participation_matrix(form(PARTICIPATION))
    assert isinstance(matrix, sparse.csr_array)
    np.testing.assert_array_equal(matrix.toarray(), PARTICIPATION)


def test_duplicates_and_explicit_zeros_leave_the_given_matrix_as_it_is():
    given = sparse.csr_array(
        (np.array([1.0, 2.0, 0.0, 4.0]), np.array([1, 1, 0, 2]), np.array([0, 3, 4])), shape=(2, 3)
    )
    matrix = checks.participation_matrix(given)
    np.testing.assert_array_equal(matrix.toarray(), [[0, 3, 0], [0, 0, 4]])
    assert (matrix.nnz, given.nnz) == (2, 4)


@pytest.mark.parametrize("form", [np.asarray, *FORMS])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_participation_that_is_not_finite(form, value):
    bad = PARTICIPATION.copy()
    bad[2, 1] = bad[0, 1] = value
    with pytest.raises(
        InputError,
        match=r"participation must be finite; it contains NaN or infinity \(inf\) in rows 0, 2\.",
    ):
        checks.participation_matrix(form(bad))


def test_other_matrices_that_are_no_participation():
    with pytest.raises(
        InputError, match="participation must hold numbers only; got a sparse matrix of complex128"
    ):
        checks.participation_matrix(sparse.csr_array(1j * PARTICIPATION))
    with pytest.raises(InputError, match="participation must be a table"):
        checks.participation_matrix(sparse.coo_array(np.ones(3)))
    for empty in (np.empty((0, 3)), np.empty((3, 0)), sparse.csr_array((0, 3))):
        with pytest.raises(InputError, match="got an empty matrix of shape"):
            checks.participation_matrix(empty)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float32])
def test_participation_of_every_type(dtype):
    counts = np.array([[1, 0, 1], [0, 1, 0]]).astype(dtype)
    np.testing.assert_array_equal(checks.participation_matrix(counts), counts.astype(float))
    np.testing.assert_array_equal(
        checks.participation_matrix(sparse.csr_array(counts)).toarray(), counts.astype(float)
    )
