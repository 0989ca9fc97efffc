"""Settings from a TOML file: the same request as by options, which win over it, and errors that say
what to write."""

from pathlib import Path
from typing import Any

import pytest

from dualview import cli
from dualview.forum import application
from dualview.runs import run as runs

FIT = """
users = "u.csv"
threads = "t.csv"
out = "run"
by = ["dose", "time"]
common = "age"
kind = "regression"
no-intercept = true
drop-unknown = false
alpha = 1.5
agreement = "learned"
clusters = 3
max-time = 60
user-column = "who"
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: Any) -> list[Any]:
    """What runs were asked for; nothing is fitted."""
    found: list[Any] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "fit_run", lambda *given, **_: found.append(given) or "")
    monkeypatch.setattr(application, "run_forum", lambda *given, **_: found.append(given) or "")
    monkeypatch.setattr(cli.commands, "report", lambda _: None)
    return found


def written(text: str) -> list[str]:
    Path("settings.toml").write_text(text, encoding="utf-8")
    return ["--config", "settings.toml"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            FIT,
            "--by dose --by time --common age --kind regression --no-intercept --alpha 1.5 "
            "--agreement learned --clusters 3 --max-time 60 --user-column who",
        ),
        (
            'users = "u.csv"\nthreads = "t.csv"\nout = "run"\npooling = "none"\n',
            "--pooling none",
        ),
        (
            'users = "u.csv"\nthreads = "t.csv"\nout = "run"\nnoise-variance = 2\n'
            'intercept = true\ncovariates = ["hour", "day"]\noutcomes = "o.csv"\n'
            'keep = "summary"\n',
            "--noise-variance 2 --intercept --covariates hour --covariates day --outcomes o.csv "
            "--keep summary",
        ),
        (
            'users = "u.csv"\nthreads = "t.csv"\nout = "run"\nnoise-variance = "paper"\n',
            "--noise-variance paper",
        ),
    ],
)
def test_keys_are_the_options_of_fit(text: str, words: str, asked: list[Any]) -> None:
    assert cli.main(["fit", *written(text)]) == 0
    assert cli.main(["fit", "u.csv", "t.csv", "--out", "run", *words.split()]) == 0
    assert asked[0] == asked[1]


def test_options_win_over_the_file_and_defaults_do_not(asked: list[Any]) -> None:
    config = written(FIT)
    more = ["--clusters", "7", "--by", "price", "--common=sex", "--out", "other"]
    assert cli.main(["fit", "mine.csv", *more, *config]) == 0
    request, out = asked[0]
    assert request.users == str(Path("mine.csv").absolute())
    assert request.threads == str(Path("t.csv").absolute())
    assert (request.settings.n_clusters, request.settings.alpha) == (7, "1.5")
    assert (request.answers.by, request.answers.common) == (("price",), ("sex",))
    assert out == Path("other")


def test_keys_are_the_options_of_forum(asked: list[Any]) -> None:
    text = 'posts = "p.csv"\nout = "run"\nfirst = 3\ncovariates = []\nthread-column = ["a", "b"]\n'
    assert cli.main(["forum", *written(text), "--first", "4"]) == 0
    options = asked[0][2]
    assert (options.first, options.covariates) == (4, ())
    assert options.columns == {"thread": ("a", "b")}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("drawz = 5", "fit has no option drawz. Near matches: draws. Try dualview fit"),
        ("outcome_colum = 5", "Near matches: outcome-column, outcome, user-column. Try"),
        ("max_time = 5", "fit has no option max_time. Near matches: max-time"),
        ("zzz = 5", "fit has no option zzz. Try dualview fit --help."),
        ("[sampler]\ndraws = 5", "fit has no option sampler."),
        ('config = "other.toml"', "fit has no option config."),
        ('draws = "5"', 'draws must be a whole number; got "5" (text).'),
        ("draws = 1.5", "draws must be a whole number; got 1.5 (a number)."),
        ("draws = true", "draws must be a whole number; got true (a truth value)."),
        ("draws = [5]", "draws must be a whole number; got [5] (a list)."),
        ("max-time = 2020-01-01", 'max-time must be a number; got "2020-01-01" (a date).'),
        ('quiet = "yes"', 'quiet must be true or false; got "yes" (text).'),
        ("quiet = 1", "quiet must be true or false; got 1 (a number)."),
        ("users = 5", "users must be text, the name of a file or folder; got 5 (a number)."),
        ("by = [true]", "by must be text or a list of such; got [true] (a list)."),
        ("alpha = {shape = 1}", 'alpha must be text; got {"shape": 1} (a table).'),
        ('engine = "gibs"', 'engine must be "gibbs" or "variational"; got "gibs" (text).'),
        ('noise-variance = "big"', 'noise-variance must be a number or "paper"; got "big" (text).'),
        ("draws = 5\ndraws = 6", "settings.toml is not a TOML file: Cannot overwrite a value"),
    ],
)
def test_mistakes_get_one_line_that_names_the_file(
    text: str, words: str, asked: list[Any], capsys: Any
) -> None:
    assert cli.main(["fit", "u.csv", "--out", "run", *written(text)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("dualview: settings.toml")
    assert said.count("\n") == 1
    assert words in said
    assert not asked


def test_a_file_that_is_not_there_is_named(asked: list[Any], capsys: Any) -> None:
    assert cli.main(["fit", "u.csv", "--out", "run", "--config", "none.toml"]) == 2
    assert "none.toml cannot be read: No such file or directory." in capsys.readouterr().err
    assert not asked
