"""Names that a spreadsheet would take for formulas: escaped, and read back as they were."""

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualview.files.spreadsheets import (
    csv_bytes,
    escape_name,
    match_names,
    unescape_name,
    unescape_table,
)

SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "\N{MINUS SIGN}")
NAMES = [f"{begin}{sign}1+1" for begin in ("", "'", "''") for sign in SIGNS] + [
    "plain",
    "'quoted'",
    "",
    "a=b",
    "a,b",
    '"',
    "NA",
    "007",
]


@pytest.mark.parametrize("sign", SIGNS)
def test_names_that_begin_like_formulas_get_an_apostrophe(sign: str) -> None:
    assert escape_name(f"{sign}1+1") == f"'{sign}1+1"
    assert escape_name(f"'{sign}1+1") == f"''{sign}1+1"
    assert escape_name(f"1{sign}1") == f"1{sign}1"


@given(st.text(alphabet="'=+-@\t\rab1"))
def test_the_way_back_is_exact(name: str) -> None:
    assert unescape_name(escape_name(name)) == name


@given(st.lists(st.text(alphabet="'=+-@\t\rab1", max_size=4), unique=True))
def test_different_names_stay_different(names: list[str]) -> None:
    assert len({escape_name(name) for name in names}) == len(names)
    assert not any(escape_name(name).startswith(SIGNS) for name in names)


def test_tables_come_back_as_they_were() -> None:
    table = pd.DataFrame(
        {"user": NAMES, "=x": NAMES[::-1], "number": np.linspace(-1.5, 1.5, len(NAMES))}
    )
    content = csv_bytes(table)
    raw = pd.read_csv(io.BytesIO(content), keep_default_na=False, dtype={"user": str, "'=x": str})
    assert list(raw.columns) == ["user", "'=x", "number"]
    assert not raw["user"].str.startswith(SIGNS).any()
    np.testing.assert_array_equal(raw["number"], table["number"])
    pd.testing.assert_frame_equal(unescape_table(raw), table, check_dtype=False)


def test_tables_without_such_names_are_written_as_ever() -> None:
    table = pd.DataFrame(
        {"user": ["a", "b,c", None], "x": [-1.5, np.nan, 2.0], "flag": [True, False, True]}
    )
    assert csv_bytes(table) == table.to_csv(index=False).encode()
    kinds = table.assign(
        kind=pd.Categorical(["-a", "b", "b"]), when=pd.to_datetime(["2020-01-01"] * 3)
    )
    assert csv_bytes(kinds) == kinds.assign(kind=["'-a", "b", "b"]).to_csv(index=False).encode()


def test_known_names_are_matched_as_they_are_first() -> None:
    assert match_names(["'=a", "=a", "b"], {"=a", "b"}) == ["=a", "=a", "b"]
    assert match_names(["'=a", "=a"], {"=a", "'=a"}) == ["'=a", "=a"]
    assert match_names(["=a", "'=c", "'d"], {"'=a", "d"}) == ["'=a", "'=c", "'d"]
