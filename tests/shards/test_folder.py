"""Folders of shards: what is written is read, in pieces of any size, and what is not whole is
refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import dualview as dv
from dualview.errors import FileError, InputError
from dualview.inputs import table_files
from dualview.inputs.sharding import shard_tables
from dualview.settings import Columns

N_USERS, N_THREADS = 23, 31


@pytest.fixture(scope="module")
def features() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N_USERS, 2))


@pytest.fixture(scope="module")
def behavior() -> dv.SharedOutcome:
    rng = np.random.default_rng(1)
    weights = np.where(
        rng.random((N_THREADS, N_USERS)) < 0.2, rng.random((N_THREADS, N_USERS)), 0.0
    )
    weights[np.arange(N_THREADS), np.arange(N_THREADS) % N_USERS] = (
        1.0  # no thread is without a participant
    )
    return dv.SharedOutcome(sparse.csr_array(weights), rng.standard_normal(N_THREADS))


@pytest.fixture
def shards(features: np.ndarray, behavior: dv.SharedOutcome, tmp_path: Path) -> dv.Shards:
    return dv.write_shards(
        tmp_path / "forum", features, behavior, users_per_shard=10, threads_per_shard=7
    )


def participation(shards: dv.Shards) -> np.ndarray:
    """The matrix of all threads, and their outcomes in a last column."""
    rows = []
    for number in range(len(shards.threads)):
        block, members = shards.read_threads(number), shards.members(number)
        shape = (len(block.outcome), len(members))
        part = np.zeros((shape[0], shards.n_users + 1))
        part[:, members] = sparse.csr_array(
            (block.weights, block.columns, block.starts), shape=shape
        ).toarray()
        part[:, -1] = block.outcome
        rows.append(part)
    return np.vstack(rows)


def long_table(behavior: dv.SharedOutcome) -> pd.DataFrame:
    entries = sparse.coo_array(behavior.participation)
    order = np.lexsort((entries.col, entries.row))
    row, column = entries.row[order], entries.col[order]
    table = {
        "thread": row,
        "user": [f"u{i}" for i in column],
        "weight": entries.data[order],
        "outcome": behavior.outcome[row],
    }
    return pd.DataFrame(table)


def test_what_is_written_is_read(
    shards: dv.Shards, features: np.ndarray, behavior: dv.SharedOutcome
) -> None:
    assert [entry.n_users for entry in shards.users] == [10, 10, 3]
    assert [entry.n_threads for entry in shards.threads] == [7, 7, 7, 7, 3]
    read = np.vstack([shards.read_users(number).features for number in range(3)])
    np.testing.assert_array_equal(read, features)
    dense = behavior.participation.toarray()
    np.testing.assert_array_equal(participation(shards), np.column_stack([dense, behavior.outcome]))
    assert shards.ids() is None


@pytest.mark.parametrize("kind", ["csv", "parquet", "frames"])
def test_tables_in_pieces_give_the_same_as_a_behavior(
    kind: str,
    shards: dv.Shards,
    features: np.ndarray,
    behavior: dv.SharedOutcome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where a thread begins in one piece and ends in the next."""
    monkeypatch.setattr(table_files.pieces_of, "__defaults__", (5,))
    users = pd.DataFrame(features, columns=["a", "b"]).assign(
        user=[f"u{i}" for i in range(N_USERS)]
    )
    threads = long_table(behavior)
    if kind == "frames":
        given = (
            [users.iloc[:11], users.iloc[11:]],
            (threads.iloc[i : i + 4] for i in range(0, len(threads), 4)),
        )
    else:
        given = tmp_path / f"users.{kind}", tmp_path / f"threads.{kind}"
        for table, path in zip((users, threads), given, strict=True):
            table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    found = dv.write_shards(tmp_path / "again", *given, users_per_shard=10, threads_per_shard=7)
    np.testing.assert_allclose(participation(found), participation(shards), rtol=1e-15)
    assert found.feature_names == ["a", "b"]
    assert found.ids() == users["user"].tolist()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_numbers_are_ids_in_tables_of_every_kind(make: Any, tmp_path: Path) -> None:
    """Once a feature, unless the table was of pandas; and 7.0, of a column where some are missing,
    was another user than 7."""
    users = make({"user": [9, 7, 8], "age": [1.0, 2.0, 3.0]})
    threads = make(
        {"thread": [1, 1, 2], "user": [7.0, 9.0, 8.0], "outcome": [5.0, 5.0, 6.0]},
    )
    found = dv.write_shards(tmp_path / "shards", users, threads)
    assert found.ids() == ["9", "7", "8"]
    assert found.feature_names == ["age"]
    np.testing.assert_array_equal(participation(found), [[1, 1, 0, 5], [0, 0, 1, 6]])


def test_users_who_are_unknown_are_an_error_or_left_out(
    features: np.ndarray, tmp_path: Path
) -> None:
    users = (
        pd.DataFrame(features).rename(columns=str).assign(user=[f"u{i}" for i in range(N_USERS)])
    )
    threads = pd.DataFrame(
        {
            "thread": [1, 1, 2, 3],
            "user": ["u0", "who", "who", "u4"],
            "outcome": [1.0, 1.0, 2.0, 3.0],
        }
    )
    with pytest.raises(InputError, match="not in the table of users: who"):
        dv.write_shards(tmp_path / "one", users, threads)
    found, notes = shard_tables(tmp_path / "two", users, threads, Columns(), (10, 10), True)
    assert (found.n_threads, notes) == (
        2,
        ["2 rows of unknown users left out", "1 threads without a known user left out"],
    )


def test_rows_of_the_same_thread_and_user_are_added_up(
    features: np.ndarray, tmp_path: Path
) -> None:
    users = pd.DataFrame(features).rename(columns=str).assign(user=range(N_USERS))
    threads = pd.DataFrame(
        {
            "thread": [1, 1, 2],
            "user": [3, 3, 4],
            "weight": [1.0, 2.0, 5.0],
            "outcome": [1.0, 1.0, 2.0],
        }
    )
    found = participation(dv.write_shards(tmp_path / "forum", users, threads))
    assert (found[0, 3], found[1, 4], np.count_nonzero(found[:, :-1])) == (3.0, 5.0, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"thread": [1, 2, 1]}, "1 thread\\(s\\) come again"),
        ({"outcome": [1.0, 9.0, 2.0]}, "must be the same in all rows of a thread; not so in 1"),
        (
            {"outcome": [1.0, 1.0, np.nan]},
            "'outcome' must be a number; it is not in thread\\(s\\) 2",
        ),
        ({"user": ["u0", "", "u2"]}, "column 'user' is empty in 1 row"),
        ({"outcome": None}, "must have the columns outcome; it has thread, user"),
    ],
)
def test_bad_threads_are_refused_and_nothing_is_left(
    change: dict, message: str, features: np.ndarray, tmp_path: Path
) -> None:
    users = (
        pd.DataFrame(features).rename(columns=str).assign(user=[f"u{i}" for i in range(N_USERS)])
    )
    parts = {"thread": [1, 1, 2], "user": ["u0", "u1", "u2"], "outcome": [1.0, 1.0, 2.0]} | change
    threads = pd.DataFrame({name: values for name, values in parts.items() if values is not None})
    with pytest.raises(InputError, match=message):
        dv.write_shards(tmp_path / "forum", users, threads)
    assert list(tmp_path.iterdir()) == []


def test_bad_users_are_refused(
    features: np.ndarray, behavior: dv.SharedOutcome, tmp_path: Path
) -> None:
    twice = (
        pd.DataFrame(features).rename(columns=str).assign(user=["a", "b", *["c"] * (N_USERS - 2)])
    )
    with pytest.raises(InputError, match="listed once; 20 id\\(s\\) come again, the first in rows"):
        dv.write_shards(tmp_path / "one", twice, long_table(behavior))
    holes = features.copy()
    holes[3, 1] = np.nan
    with pytest.raises(InputError, match="users"):
        dv.write_shards(tmp_path / "two", holes)
    with pytest.raises(InputError, match=r"users is a dict of a, b\. Shards hold one table"):
        dv.write_shards(tmp_path / "two", {"a": features, "b": features})
    with pytest.raises(InputError, match="threads is a dict of posts"):
        dv.write_shards(tmp_path / "two", features, {"posts": behavior})
    with pytest.raises(InputError, match="columns of the first"):
        dv.write_shards(tmp_path / "three", [features, features[:, :1]])
    with pytest.raises(InputError, match="intercept, covariates or groups"):
        dv.write_shards(
            tmp_path / "four",
            features,
            dv.SharedOutcome(behavior.participation, behavior.outcome, intercept=True),
        )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_as_it_is(shards: dv.Shards, features: np.ndarray) -> None:
    with pytest.raises(FileError, match="exists already"):
        dv.write_shards(shards.folder, features)
    assert dv.Shards(shards.folder).n_threads == N_THREADS


def test_a_manifest_in_another_order_is_the_same(shards: dv.Shards) -> None:
    path = shards.folder / "shards.json"
    content = json.loads(path.read_text())
    for part in ("users", "threads"):
        content[part].reverse()
    path.write_text(json.dumps(content))
    assert dv.Shards(shards.folder).manifest == shards.manifest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "else"}, "does not say"),
        ({"version": 2}, "reads version 1"),
        ({"n_users": 24}, "have 23 users, where 24 were due"),
        ({"users": []}, "have 0 users"),
        ({"features": "a"}, "a list of names"),
        ({"threads": [{"file": "../threads.npz"}]}, "each file must have"),
    ],
)
def test_bad_manifests_are_refused(change: dict, message: str, shards: dv.Shards) -> None:
    path = shards.folder / "shards.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FileError, match=message):
        dv.Shards(shards.folder)


def test_a_path_out_of_the_folder_is_refused(shards: dv.Shards) -> None:
    path = shards.folder / "shards.json"
    path.write_text(path.read_text().replace('"users-00000.npz"', '"../users-00000.npz"'))
    with pytest.raises(FileError, match="no name of a shard"):
        dv.Shards(shards.folder)


def test_bad_folders_are_refused(shards: dv.Shards, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such folder"):
        dv.Shards(tmp_path / "nowhere")
    with pytest.raises(FileError, match=r"shards\.json cannot be read"):
        dv.Shards(tmp_path)
    with pytest.raises(InputError, match="cache must be a positive number"):
        dv.Shards(shards.folder, cache=0)
    (shards.folder / "threads-00002.users.npy").unlink()
    with pytest.raises(FileError, match=r"lacks threads-00002\.users\.npy"):
        dv.Shards(shards.folder)


def test_damaged_files_are_refused(shards: dv.Shards) -> None:
    cut = shards.folder / shards.users[1].file
    content = cut.read_bytes()
    cut.write_bytes(content[:-10])
    with pytest.raises(FileError, match="bytes, where"):
        dv.Shards(shards.folder)
    cut.write_bytes(bytes(len(content)))
    with pytest.raises(FileError, match="cannot be read as a shard"):
        dv.Shards(shards.folder).read_users(1)


def test_shards_of_another_folder_are_refused(shards: dv.Shards) -> None:
    first, last = (shards.folder / shards.threads[number].file for number in (0, 4))
    first.write_bytes(last.read_bytes())
    path = shards.folder / "shards.json"
    content = json.loads(path.read_text())
    content["threads"][0]["n_bytes"] = content["threads"][4]["n_bytes"]
    path.write_text(json.dumps(content))
    with pytest.raises(FileError, match="must have 7 threads, and has 3"):
        dv.Shards(shards.folder).read_threads(0)
