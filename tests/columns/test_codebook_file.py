"""The codebook as a TOML file, and the command that writes it."""

import tomllib

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dualview as dv
from dualview import cli
from dualview.columns import Columns, codebook_text, read_columns_file
from dualview.errors import FileError, InputError

SETTINGS = settings(
    derandomize=True, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


def mixed(n=30):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            'a "quoted" name': rng.standard_normal(n),
            "back\\slash": np.round(rng.standard_normal(n), 1),
            "line\nbreak": rng.integers(0, 90, n) ** 2,
            "ü.[town]": rng.choice(['Ly"on', "Me\\tz", "#"], n),
            "grade": pd.Categorical(rng.choice(list("abc"), n), list("abcd"), ordered=True),
            "date": pd.date_range("2020", periods=n),
            "low": np.arange(n),
            "high": np.arange(n) + 1,
        }
    )


WISHES = {"income": dv.Censored("low", "high")}


def test_a_codebook_is_read_back(tmp_path):
    table = mixed()
    path = tmp_path / "columns.toml"
    path.write_text(codebook_text(table, WISHES), encoding="utf-8")
    wishes = read_columns_file(path)
    assert wishes["income"] == dv.Censored("low", "high")
    assert wishes["date"] == {"kind": "ignore"}
    book, usual = (
        Columns.from_table(table, wishes),
        Columns.from_table(table, {**WISHES, "date": "ignore"}),
    )
    for ours, other in zip(book.columns, usual.columns, strict=True):
        for field in (
            "name",
            "kind",
            "levels",
            "shares",
            "cuts",
            "step",
            "scale",
            "lowest",
            "sources",
            "missing",
        ):
            assert getattr(ours, field) == getattr(other, field)
    assert "# Column 'date' holds dates" in path.read_text()


@SETTINGS
@given(
    st.lists(NAMES, min_size=2, max_size=4, unique=True),
    st.lists(NAMES, min_size=2, max_size=5, unique=True),
)
def test_any_text_survives(names, levels):
    table = pd.DataFrame({name: pd.Categorical(levels, levels) for name in names})
    record = tomllib.loads(codebook_text(table))
    assert list(record) == names
    assert all(entry == {"kind": "nominal", "levels": levels} for entry in record.values())


@SETTINGS
@given(st.lists(NAMES, min_size=3, max_size=3, unique=True))
def test_any_text_survives_in_a_comment(levels):
    assert tomllib.loads(codebook_text(pd.DataFrame({"x": levels}))) == {"x": {"kind": "ignore"}}


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("a = [", InputError, "is not a TOML file"),
        ("a = 3", InputError, r"columns.toml: columns\['a'\] must be a kind"),
        ('a = "tiny"', InputError, "kind of column 'a' must be one of"),
        (
            '[a]\nkind = "count"\nlevels = ["x", "y"]',
            InputError,
            "a count column takes no 'levels'",
        ),
        (
            '[a]\nkind = "censored"\nlow = "x"\nstep = 1',
            InputError,
            "a censored column takes no 'step', only low and high",
        ),
    ],
)
def test_files_that_are_refused(text, error, message, tmp_path):
    path = tmp_path / "columns.toml"
    path.write_text(text)
    with pytest.raises(error, match=message):
        read_columns_file(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileError, match="cannot be read: No such file"):
        read_columns_file(tmp_path / "none.toml")


def test_short_form(tmp_path):
    path = tmp_path / "columns.toml"
    path.write_text('town = "nominal"\n[income]\nkind = "censored"\nlow = "least"\n')
    assert read_columns_file(path) == {"town": "nominal", "income": dv.Censored("least", None)}


@pytest.fixture
def users(tmp_path):
    path = tmp_path / "users.csv"
    path.write_text("user,age,town\n007,31.5,Lyon\n008,,Metz\n009,22.25,Lyon\n010,40.125,\n")
    return path


def test_the_command_prints_the_codebook(users, capsys):
    assert cli.main(["columns", str(users)]) == 0
    text, errors = capsys.readouterr()
    assert errors == ""
    assert tomllib.loads(text) == {
        "age": {"kind": "continuous"},
        "town": {"kind": "nominal", "levels": ["Lyon", "Metz"]},
    }


def test_the_command_writes_a_file_and_prints_a_table(users, tmp_path, capsys):
    out = tmp_path / "columns.toml"
    assert cli.main(["columns", str(users), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0].split() == ["column", "kind", "why", "levels", "missing"]
    assert "Lyon, Metz" in text
    assert f"Wrote {out}." in text
    assert set(read_columns_file(out)) == {"age", "town"}


def test_mistakes_get_one_line(users, tmp_path, capsys):
    assert cli.main(["columns", str(tmp_path / "none.csv")]) == 2
    assert "there is no such file" in capsys.readouterr().err
    users.write_text("user\na\nb\n")
    assert cli.main(["columns", str(users)]) == 2
    assert "has no columns besides 'user'" in capsys.readouterr().err
    users.write_text("user,age\n")
    assert cli.main(["columns", str(users)]) == 2
    assert f"{users} has no users: it names columns" in capsys.readouterr().err


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_than_commas_are_told(separator, users, tmp_path, capsys):
    users.write_text("user,age\na,1.5\nb,2.5\n".replace(",", separator))
    for out in ([], ["--out", str(tmp_path / "columns.toml")]):
        assert cli.main(["columns", str(users), *out]) == 2
        said = f"{users} has one column, {f'user{separator}age'!r}. Its fields must be separated by"
        assert said in capsys.readouterr().err
    assert not (tmp_path / "columns.toml").exists()
