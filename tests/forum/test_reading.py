"""The same posts in any file give the same forum; bad files give messages."""

import bz2
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zstandard

import dualview as dv
from dualview.errors import DualViewError, FileError, InputError, MissingExtraError
from forum import small

POSTS = small.posts()
OPTIONS: dict[str, Any] = {"first": 3, "min_threads": 3}


def json_lines(table: pd.DataFrame) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in table.to_dict("records")).encode()


def assert_same(found: dv.forum.ForumData, wanted: dv.forum.ForumData) -> None:
    assert found.training.ids == wanted.training.ids
    np.testing.assert_array_equal(
        found.training.participation.toarray(), wanted.training.participation.toarray()
    )
    np.testing.assert_array_equal(found.test.outcome, wanted.test.outcome)
    pd.testing.assert_frame_equal(found.activity, wanted.activity)
    pd.testing.assert_frame_equal(found.test.covariates, wanted.test.covariates)


@pytest.fixture(scope="module")
def wanted() -> dv.forum.ForumData:
    return dv.forum.read_forum(POSTS, **OPTIONS)


@pytest.mark.parametrize(
    "name",
    [
        "posts.csv",
        "posts.tsv",
        "posts.csv.gz",
        "posts.csv.zst",
        "posts.csv.bz2",
        "posts.csv.xz",
        "posts.jsonl",
        "RC_2020-01.zst",
        "posts.json",
        "posts.parquet",
        "posts.dat",
        "semicolons.csv",
    ],
)
def test_any_file(name: str, wanted: dv.forum.ForumData, tmp_path: Path) -> None:
    path = tmp_path / name
    comma = POSTS.to_csv(index=False).encode()
    if name == "posts.parquet":
        POSTS.to_parquet(path, index=False)
    else:
        content = {
            "posts.tsv": lambda: POSTS.to_csv(index=False, sep="\t").encode(),
            "semicolons.csv": lambda: b"\xef\xbb\xbf" + POSTS.to_csv(index=False, sep=";").encode(),
            "posts.csv.gz": lambda: gzip.compress(comma),
            "posts.csv.zst": lambda: zstandard.compress(comma),
            "posts.csv.bz2": lambda: bz2.compress(comma),
            "posts.csv.xz": lambda: lzma.compress(comma),
            "posts.jsonl": lambda: json_lines(POSTS),
            "RC_2020-01.zst": lambda: zstandard.compress(json_lines(POSTS)),
            "posts.json": lambda: json.dumps(POSTS.to_dict("records")).encode(),
        }.get(name, lambda: comma)()
        path.write_bytes(content)
    assert_same(dv.forum.read_forum(path, **OPTIONS), wanted)


def test_a_window_as_long_as_reddits(wanted: dv.forum.ForumData, tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(
        window_log=31, enable_ldm=True, hash_log=10, chain_log=10, ldm_hash_log=10
    )
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    content = json_lines(POSTS)
    packed = compressor.compress(content) + compressor.flush()
    with pytest.raises(zstandard.ZstdError):  # the library's own limit is smaller
        zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    (tmp_path / "RC.zst").write_bytes(packed)
    assert_same(dv.forum.read_forum(tmp_path / "RC.zst", **OPTIONS), wanted)


@pytest.mark.parametrize(
    "times",
    [
        lambda t: pd.to_datetime(t, unit="s", utc=True),
        lambda t: pd.to_datetime(t, unit="s", utc=True).dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        lambda t: pd.to_datetime(t + 7200, unit="s").dt.strftime("%Y-%m-%d %H:%M:%S+02:00"),
        lambda t: t * 1000,
        lambda t: t.astype(str) + ".0",
    ],
    ids=["timestamps", "text", "another zone", "milliseconds", "numbers as text"],
)
def test_any_time(times: Any, wanted: dv.forum.ForumData) -> None:
    assert_same(dv.forum.read_forum(POSTS.assign(time=times(POSTS["time"])), **OPTIONS), wanted)


def test_reddits_prefixes_are_understood(wanted: dv.forum.ForumData) -> None:
    table = POSTS.assign(
        link_id="t3_" + POSTS["thread"],
        parent_id=np.where(
            POSTS["parent"].isna(), "t3_" + POSTS["thread"], "t1_" + POSTS["parent"].fillna("")
        ),
    ).rename(
        columns={"post": "id", "user": "author", "time": "created_utc", "section": "subreddit"}
    )
    found = dv.forum.read_forum(table.drop(columns=["thread", "parent"]), **OPTIONS)
    pd.testing.assert_frame_equal(found.activity, wanted.activity)


def test_parents_by_their_place_in_the_thread(wanted: dv.forum.ForumData) -> None:
    place = POSTS["parent"].str.split("-").str[1].astype("Int64") + 1
    table = POSTS.assign(
        post_number=POSTS.groupby("thread").cumcount() + 1, reply_to_post_number=place
    )
    found = dv.forum.read_forum(table.drop(columns="parent"), **OPTIONS)
    assert found.names.parent_is_number
    pd.testing.assert_frame_equal(found.activity, wanted.activity)


def test_ids_stay_as_they_are_written(tmp_path: Path) -> None:
    names = {
        "u0": "007",
        "u1": "NA",
        "u2": "1e5",
        "u3": "<script>",
        "u4": "null-ish",
        "u5": 'a,"b"\nc',
    }
    table = POSTS.assign(user=POSTS["user"].replace(names))
    found = dv.forum.read_forum(small.write(table, tmp_path / "posts.csv"), **OPTIONS)
    assert set(found.activity.index) == set(table["user"])


def test_posts_in_any_order_of_the_file_are_put_in_order(wanted: dv.forum.ForumData) -> None:
    shuffled = POSTS.sample(frac=1, random_state=0)
    found = dv.forum.read_forum(shuffled, **OPTIONS)
    assert any("were not in the order of their times" in note for note in found.notes)
    assert found.training.ids == wanted.training.ids
    users = list(wanted.activity.index)
    pd.testing.assert_frame_equal(found.activity.loc[users], wanted.activity, check_exact=False)


@pytest.mark.parametrize("ids", [True, False])
def test_duplicate_posts_count_once(ids: bool, wanted: dv.forum.ForumData) -> None:
    table = pd.concat([POSTS, POSTS.iloc[10:40]], ignore_index=True)
    if not ids:
        table = table.drop(columns=["post", "parent"])
        wanted = dv.forum.read_forum(POSTS.drop(columns=["post", "parent"]), **OPTIONS)
    found = dv.forum.read_forum(table, **OPTIONS)
    assert found.facts["duplicates"] == 30
    assert "30 posts appear more than once" in " ".join(found.notes)
    assert_same(found, wanted)


def test_encodings(tmp_path: Path) -> None:
    table = POSTS.assign(user=POSTS["user"].replace({"u0": "Zoë", "u1": "Jérôme"}))
    wanted = dv.forum.read_forum(table, **OPTIONS)
    text = table.to_csv(index=False)
    lines = text.splitlines(keepends=True)
    mixed = b"".join(line.encode("cp1252" if "Zo" in line else "utf-8") for line in lines)
    first = next(n for n, line in enumerate(lines, start=1) if "Zo" in line)
    path = tmp_path / "posts.csv"
    path.write_bytes(mixed)
    with pytest.raises(
        InputError, match=f"not UTF-8: line {first} has the byte 0xeb.*--encoding.*'mixed'"
    ):
        dv.forum.read_forum(path, **OPTIONS)
    assert_same(dv.forum.read_forum(path, encoding="mixed", **OPTIONS), wanted)
    for encoding in ("latin-1", "utf-16"):
        path.write_bytes(text.encode(encoding))
        assert_same(dv.forum.read_forum(path, encoding=encoding, **OPTIONS), wanted)
    with pytest.raises(InputError, match="encoding must be 'utf-8', 'mixed' or a codec"):
        dv.forum.read_forum(path, encoding="klingon")


def test_json_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "posts.jsonl").write_bytes(json_lines(POSTS).replace(b'"u0"', b'"Zo\xeb"'))
    with pytest.raises(DualViewError, match=r"UTF-8|cannot be read"):
        dv.forum.read_forum(tmp_path / "posts.jsonl", **OPTIONS)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", InputError, "is empty"),
        (b"\n \n", InputError, "is empty"),
        (gzip.compress(b"", mtime=0), InputError, "is empty"),
        (b"thread,user,time\n", InputError, "has no posts"),
        (b"a,b\n1,2\n", InputError, "column for thread and user and time.*It has a, b"),
        (b"thread,user,user,time\n1,a,b,2\n", InputError, "name each column once.*'user'"),
        (b"thread,user,time\n1,a,2\n1,b\n", FileError, "cannot be read"),
        (
            b'{"thread": 1, "user": "a", "time": 2}\n{"thread": 1, "user": \n',
            FileError,
            "cannot be read",
        ),
        (
            gzip.compress(b"thread,user,time\n" + b"1,a,1600000000\n" * 9999, mtime=0)[:60],
            FileError,
            "cannot be",
        ),
        (
            zstandard.compress(b"thread,user,time\n" + b"1,a,1600000000\n" * 9999)[:30],
            FileError,
            "cannot be",
        ),
        (b"PAR1 and nothing else", FileError, "cannot be read"),
        (
            b"thread,user,time\nt,a,1600000000\nt,b,soon\nt,a,\n",
            InputError,
            "2 of 3 posts have no time.*'soon', nothing.*2, 3 of",
        ),
        (
            b"thread,user,time\n,a,1600000000\nt,b,1600000001\n",
            InputError,
            r"1 of 2 posts have no thread \(column thread\)",
        ),
        (
            b"thread,user,time\nt,a,1\nt,b,2\n",
            InputError,
            "numbers up to 2, too small.*--time-unit",
        ),
        (
            b"thread,user,time\nt,a,1600000000\nt,a,1600000009\n",
            InputError,
            "at least two users; these posts have 1",
        ),
        (
            b"thread,user,time\nt,[deleted],1600000000\nt,,1600000009\n",
            InputError,
            "at least two users; these posts have 0",
        ),
        (
            b"thread,user,time\nt,a,1600000000\nt,b,1600000009\n",
            InputError,
            "Only 0 of 1 threads have more than 5 posts",
        ),
    ],
)
def test_bad_files(content: bytes, error: type[Exception], message: str, tmp_path: Path) -> None:
    (tmp_path / "posts.csv").write_bytes(content)
    with pytest.raises(error, match=message):
        dv.forum.read_forum(tmp_path / "posts.csv")


def test_no_file_a_folder_and_no_table(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        dv.forum.read_forum(tmp_path / "nowhere.csv")
    with pytest.raises(FileError, match="is a folder"):
        dv.forum.read_forum(tmp_path)
    with pytest.raises(InputError, match="a file's path or a DataFrame; got int"):
        dv.forum.read_forum(3)


def test_bad_rows_are_left_out_where_that_is_asked() -> None:
    table = POSTS.assign(time=POSTS["time"].astype(object))
    table.loc[[3, 50], "time"] = "soon"
    table.loc[7, "thread"] = None
    found = dv.forum.read_forum(table, skip_bad_rows=True, **OPTIONS)
    assert found.facts["posts"] == len(table) - 3
    assert {"1 posts with no thread", "2 posts with no time"} <= {
        " ".join(note.split()[:5]) for note in found.notes
    }


def test_bad_rows_alone_are_no_posts() -> None:
    with pytest.raises(InputError, match="no post with a thread and a time that can be read"):
        dv.forum.read_forum(POSTS.assign(time=None), skip_bad_rows=True, **OPTIONS)


@pytest.mark.parametrize("package", ["duckdb", "zstandard"])
def test_a_missing_package_is_named_with_its_extra(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    (tmp_path / "posts.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    with pytest.raises(
        MissingExtraError,
        match=rf"{package}, which is not installed: pip install 'dualview\[forum\]'",
    ):
        dv.forum.read_forum(tmp_path / "posts.zst")


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dv.forum.read_forum(POSTS, **OPTIONS)
    with pytest.raises(InputError):
        dv.forum.read_forum(POSTS.iloc[:20], **OPTIONS)
    assert list(tmp_path.iterdir()) == []
