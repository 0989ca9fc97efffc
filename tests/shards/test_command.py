"""The command that writes shards."""

from pathlib import Path

import pandas as pd
import pytest

import dualview as dv
from dualview import cli


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    users = pd.DataFrame({"name": ["007", "008", "NA", "x"], "age": [1.0, 2.5, 3.0, 7.0]})
    threads = pd.DataFrame(
        {"thread": [1, 1, 2, 3], "name": ["007", "NA", "008", "x"], "size": [3.0, 3.0, 1.0, 2.0]}
    )
    paths = [tmp_path / "users.csv", tmp_path / "threads.csv"]
    for table, path in zip((users, threads), paths, strict=True):
        table.to_csv(path, index=False)
    return [
        *map(str, paths),
        "--user-column",
        "name",
        "--outcome-column",
        "size",
        "--out",
        str(tmp_path / "shards"),
    ]


def test_it_writes_a_folder_and_says_what_is_in_it(
    tables: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["shard", *tables, "--users-per-shard", "3"]) == 0
    out = capsys.readouterr().out
    assert "4 users in 2 shards, 3 threads in 1 shard, 1 feature." in out
    shards = dv.Shards(tables[-1])
    assert shards.ids() == ["007", "008", "NA", "x"]
    assert shards.read_threads(0).outcome.tolist() == [3.0, 1.0, 2.0]


def test_an_unknown_user_is_one_line(tables: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path(tables[0]).write_text("name,age\n007,1\n008,2\nNA,3\n")
    assert cli.main(["shard", *tables]) == 2
    errors = capsys.readouterr().err
    assert "not in the table of users: x." in errors
    assert "--drop-unknown" in errors
    assert not Path(tables[-1]).exists()
    assert cli.main(["shard", *tables, "--drop-unknown"]) == 0
    assert "1 threads without a known user left out." in capsys.readouterr().out
