"""Hostile files and options: one line that names the file, exit code 2, and never a traceback."""

import bz2
import gzip
import io
import lzma
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zstandard
from scipy import sparse
from scipy.io import mmread, mmwrite

import dualview as dv
from dualview import cli
from dualview.files.matrix_market import read_matrix
from forum import small

SCENARIO = dv.datasets.agreement(12, 24, seed=0)
IDS = [f"user {u}" for u in range(12)]
USERS = pd.DataFrame(
    {"user": IDS, "posts": SCENARIO.features[:, 0], "degree": SCENARIO.features[:, 1]}
)
THREADS = pd.DataFrame(
    [
        {
            "thread": f"t{t}",
            "user": IDS[u],
            "weight": SCENARIO.participation[t, u],
            "outcome": SCENARIO.outcome[t],
        }
        for t in range(24)
        for u in np.flatnonzero(SCENARIO.participation[t])
    ]
)
OUTCOMES = THREADS.drop_duplicates("thread")[["thread", "outcome"]]


def csv_of(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False).encode()


def parquet_of(table: pd.DataFrame) -> bytes:
    content = io.BytesIO()
    table.to_parquet(content, index=False)
    return content.getvalue()


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("table.csv", content)
    return file.getvalue()


def tarred(content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("table.csv")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "csv.gz": gzip.compress,
    "csv.bz2": bz2.compress,
    "csv.xz": lzma.compress,
    "csv.zst": lambda content: zstandard.ZstdCompressor().compress(content),
    "csv.zip": zipped,
    "csv.tar": tarred,
}


def damaged(content: bytes, seed: int) -> Iterator[bytes]:
    """Cut short, emptied, with a byte changed, with something behind the end."""
    rng = np.random.default_rng(seed)
    yield from (
        b"",
        content[:5],
        content[: len(content) // 2],
        content[:-7],
        content + b"\0\1garbage",
    )
    for place in rng.integers(len(content), size=4):
        yield content[:place] + bytes([content[place] ^ 0x5A]) + content[place + 1 :]


class Line:
    """What a command ended with."""

    def __init__(self, code: int, errors: str) -> None:
        self.code = code
        self.errors = [
            line for line in errors.splitlines() if not line.startswith("dualview: warning: ")
        ]

    def assert_refused(self, *words: str) -> None:
        assert self.code == 2
        assert len(self.errors) == 1, self.errors
        for word in words:
            assert word in self.errors[0], self.errors[0]

    @property
    def is_clean(self) -> bool:
        """Whether it worked, or was refused in one line."""
        return self.code == 0 or (self.code == 2 and len(self.errors) == 1)


@pytest.fixture
def fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Line]:
    """Run ``dualview fit`` on files of this content, up to where sampling would begin."""
    monkeypatch.setattr("dualview.inputs.gibbs_fit.run_chains", _no_sampling)

    def run(
        users: object = csv_of(USERS),
        threads: object = csv_of(THREADS),
        /,
        *options: str,
        **names: str,
    ) -> Line:
        given = {"users": users, "threads": threads}
        paths = {kind: tmp_path / names.get(kind, f"{kind}.csv") for kind in given}
        for kind, content in given.items():
            if isinstance(content, bytes):
                paths[kind].write_bytes(content)
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        out = names.get("out", str(tmp_path / "run"))
        code = cli.main(
            ["fit", str(paths["users"]), str(paths["threads"]), "--out", out, "--quiet", *options]
        )
        return Line(code, capsys.readouterr().err)

    return run


def _no_sampling(*_: object) -> None:
    raise dv.errors.DualViewError("sampling would begin")


def test_whole_files_reach_the_sampler(fit: Callable[..., Line]) -> None:
    for name, pack in {"csv": bytes, **PACKED}.items():
        fit(pack(csv_of(USERS)), users=f"users.{name}").assert_refused("sampling would begin")
    fit(parquet_of(USERS), users="users.parquet").assert_refused("sampling would begin")


SOME = ("csv.gz", "csv.zst", "csv.zip")


@pytest.mark.parametrize(
    "name",
    [name if name in SOME else pytest.param(name, marks=pytest.mark.slow) for name in PACKED],
)
def test_damaged_archives(name: str, fit: Callable[..., Line]) -> None:
    whole = PACKED[name](csv_of(THREADS))
    for content in damaged(whole, seed=0):
        line = fit(csv_of(USERS), content, threads=f"threads.{name}")
        assert line.is_clean
        if "sampling would begin" not in line.errors[0]:  # gzip and tar do not notice every byte
            line.assert_refused(f"threads.{name}")
    fit(csv_of(USERS), csv_of(THREADS), threads=f"threads.{name}").assert_refused(
        f"threads.{name} cannot be read as a table"
    )


def test_damaged_parquet(fit: Callable[..., Line]) -> None:
    for content in damaged(parquet_of(THREADS), seed=1):
        line = fit(csv_of(USERS), content, threads="threads.parquet")
        assert line.is_clean
        if "sampling would begin" not in line.errors[0]:
            line.assert_refused("threads.parquet")


@pytest.mark.parametrize("column", ["thread", "user", "weight", "outcome"])
@pytest.mark.parametrize("value", [[1.0, 2.0], {"a": 1}], ids=["list", "record"])
def test_lists_and_records_in_parquet(column: str, value: object, fit: Callable[..., Line]) -> None:
    table = THREADS.assign(**{column: [value] * len(THREADS)})
    line = fit(csv_of(USERS), parquet_of(table), threads="threads.parquet")
    line.assert_refused("threads.parquet", f"column(s) {column} have lists or records")


def test_dates_in_the_place_of_numbers(fit: Callable[..., Line]) -> None:
    dates = pd.date_range("2020", periods=len(THREADS))
    line = fit(
        csv_of(USERS), parquet_of(THREADS.assign(outcome=dates[0])), threads="threads.parquet"
    )
    line.assert_refused("threads.parquet: the outcome must be a number")
    line = fit(csv_of(USERS), parquet_of(THREADS.assign(weight=dates)), threads="threads.parquet")
    line.assert_refused("threads.parquet: column 'weight' must hold numbers")
    fit(parquet_of(USERS.assign(posts=dates[:12])), users="users.parquet").assert_refused(
        "users.parquet", "holds dates", "posts"
    )


def test_nul_characters(fit: Callable[..., Line], tmp_path: Path) -> None:
    users = USERS.assign(user=["us\0er", *IDS[1:]])
    fit(csv_of(users)).assert_refused("users.csv: column 'user' has a NUL character in line(s) 2")
    fit(parquet_of(users), users="users.parquet").assert_refused(
        "users.parquet: column 'user' has a NUL character"
    )
    fit(
        parquet_of(USERS.rename(columns={"posts": "po\0sts"})), users="users.parquet"
    ).assert_refused("name of a column")
    fit(out=str(tmp_path / "r\0un")).assert_refused("r\\0un cannot be made a folder")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--thin", "1000000000000", "--warmup", "1000"],
            "1,000 + 1,000 × 1,000,000,000,000 = 1,000,000,000,001,000. Draw fewer",
        ),
        (["--draws", "1000000000000"], "at most 1,000,000,000 iterations"),
        (["--chains", "1000000000000"], "--chains must be at most 10,000"),
    ],
)
def test_runs_that_would_never_end(
    options: list[str], words: str, fit: Callable[..., Line]
) -> None:
    fit(csv_of(USERS), csv_of(THREADS), *options).assert_refused(words)


def test_very_many_columns(fit: Callable[..., Line]) -> None:
    head = ",".join(["user", *(f"c{j}" for j in range(10_001))])
    fit(f"{head}\n".encode()).assert_refused(
        "users.csv", "it has 10,002 columns, where at most 10,000 can be used"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 100,
        b"\n\n",
        b"   \n",
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        "user,posts\nä,1\n".encode("utf-16"),
        "user,posts\nä,1\nb,2\n".encode("latin-1"),
        csv_of(USERS).replace(b"posts", b"degree"),
        csv_of(USERS).replace(b"user 3", b'"user 3'),
        csv_of(USERS).replace(b"user 3,", b"user 3,1,2,"),
        csv_of(USERS).replace(b",0.", b",1e999"),
        csv_of(USERS).replace(b",0.", b",x", 1),
    ],
    ids=[
        "nuls",
        "newlines",
        "blanks",
        "png",
        "utf-16",
        "latin-1",
        "twice",
        "quote",
        "fields",
        "infinite",
        "text",
    ],
)
def test_what_is_no_table(content: bytes, fit: Callable[..., Line]) -> None:
    fit(content).assert_refused("users.csv")


MATRIX = io.BytesIO()
mmwrite(MATRIX, sparse.coo_array(SCENARIO.participation))


class TestMatrixMarket:
    def test_equals_scipy_on_whole_files(self, tmp_path: Path) -> None:
        symmetric = SCENARIO.participation[:12] + SCENARIO.participation[:12].T
        kinds = {
            "sparse": sparse.coo_array(SCENARIO.participation),
            "dense": SCENARIO.participation,
            "integer": sparse.coo_array((SCENARIO.participation > 0).astype(int)),
            "symmetric": sparse.coo_array(symmetric),
            "nothing": sparse.coo_array((3, 2)),
        }
        for kind, matrix in kinds.items():
            path = tmp_path / f"{kind}.mtx"
            mmwrite(
                path,
                matrix,
                comment="made by hand\nin a test",
                symmetry="symmetric" if kind == "symmetric" else "general",
            )
            expected = mmread(path)
            expected = expected if isinstance(expected, np.ndarray) else expected.toarray()
            np.testing.assert_array_equal(read_matrix(path).toarray(), expected)
            (tmp_path / "packed.mtx.gz").write_bytes(gzip.compress(path.read_bytes()))
            np.testing.assert_array_equal(
                read_matrix(tmp_path / "packed.mtx.gz").toarray(), expected
            )
        (tmp_path / "pattern.mtx").write_text(
            "%%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 1\n2 3\n"
        )
        np.testing.assert_array_equal(
            read_matrix(tmp_path / "pattern.mtx").toarray(), [[1, 0, 0], [0, 0, 1]]
        )

    def test_damaged(self, fit: Callable[..., Line], tmp_path: Path) -> None:
        outcomes = tmp_path / "outcomes.csv"
        outcomes.write_bytes(csv_of(OUTCOMES))
        whole = MATRIX.getvalue()
        fit(csv_of(USERS), whole, "--outcomes", str(outcomes), threads="p.mtx").assert_refused(
            "sampling would begin"
        )
        # Cut in the middle of a line, SciPy's own reader ends the process.
        for size in range(60, len(whole), 97):
            (tmp_path / "cut.mtx").write_bytes(whole[:size])
            with pytest.raises(dv.errors.DualViewError, match=r"cut\.mtx"):
                read_matrix(tmp_path / "cut.mtx")
        for content in damaged(whole, seed=2):
            line = fit(csv_of(USERS), content, "--outcomes", str(outcomes), threads="p.mtx")
            assert line.is_clean
            if "sampling would begin" not in line.errors[0]:
                line.assert_refused("p.mtx")

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (
                "coordinate real general\n24 12 2000000000\n1 1 1\n",
                "it claims 2000000000 entries and has 1",
            ),
            (
                "coordinate real general\n2000000000 12 1\n1 1 1\n",
                "it claims 2000000000 rows and has 1 entries",
            ),
            (
                "array real general\n2000000000 12\n1\n",
                "it claims 2000000000 by 12 numbers and has 1",
            ),
            ("coordinate complex general\n24 12 1\n1 1 1 1\n", "its first line says complex"),
            ("coordinate real general\n24 12 1\n25 1 1\n", "outside the 24 rows and 12 columns"),
            ("coordinate real general\n24 12 1\n1 1 nan\n", "an entry is not a number"),
            ("coordinate real general\n24 -12 1\n1 1 1\n", "its line of sizes is '24 -12 1'"),
            ("coordinate real general\n24 12 1\n1 1 x\n", "cannot be read as a Matrix Market file"),
            (
                "coordinate real general\n24 2000000000 1\n1 1 1\n",
                "p.mtx must have a column per user, 12",
            ),
        ],
    )
    def test_claims(self, text: str, words: str, fit: Callable[..., Line], tmp_path: Path) -> None:
        outcomes = tmp_path / "outcomes.csv"
        outcomes.write_bytes(csv_of(OUTCOMES))
        content = f"%%MatrixMarket matrix {text}".encode()
        line = fit(csv_of(USERS), content, "--outcomes", str(outcomes), threads="p.mtx")
        line.assert_refused("p.mtx", words)


def test_a_damaged_posterior_in_a_run_names_the_command_that_mends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "users.csv").write_bytes(csv_of(USERS))
    (tmp_path / "threads.csv").write_bytes(csv_of(THREADS))
    run = tmp_path / "run"
    short = ["--warmup", "5", "--draws", "5", "--chains", "1", "--quiet"]
    assert (
        cli.main(
            [
                "fit",
                str(tmp_path / "users.csv"),
                str(tmp_path / "threads.csv"),
                "--out",
                str(run),
                *short,
            ]
        )
        == 0
    )
    path = run / "posterior.nc"
    whole = path.read_bytes()
    path.write_bytes(whole[:1000] + b"\xff" * 50 + whole[1050:])
    capsys.readouterr()
    line = Line(cli.main(["summary", str(run)]), capsys.readouterr().err)
    line.assert_refused(str(path), f"To write it again from the chains: dualview resume {run}")
    assert cli.main(["resume", str(run), "--quiet"]) == 0
    assert cli.main(["summary", str(run)]) == 0
    capsys.readouterr()
    manifest = run / "manifest.json"
    for content in (
        b"{}",
        b"[]",
        b'{"format": "dualview run", "format_version": 3}',
        b"\xff",
        manifest.read_bytes()[:50],
    ):
        manifest.write_bytes(content)
        Line(cli.main(["resume", str(run), "--quiet"]), capsys.readouterr().err).assert_refused(
            str(manifest)
        )
    for content in (b"{}", b"[]", b"3", b"\xff"):
        (run / "request.json").write_bytes(content)
        line = Line(cli.main(["resume", str(run), "--quiet"]), capsys.readouterr().err)
        line.assert_refused(str(run / "request.json"))


class TestForum:
    @pytest.fixture
    def forum(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> Callable[..., Line]:
        """Run ``dualview forum`` on a file of this content, up to where sampling would begin."""
        monkeypatch.setattr("dualview.forum.application.fit_run", lambda *_, **__: _no_sampling())

        def run(content: bytes, name: str = "posts.csv", *options: str) -> Line:
            shutil.rmtree(tmp_path / "run", ignore_errors=True)
            (tmp_path / name).write_bytes(content)
            start = [
                "forum",
                str(tmp_path / name),
                "--out",
                str(tmp_path / "run"),
                "--first",
                "3",
                "--min-threads",
                "3",
            ]
            return Line(cli.main([*start, "--quiet", *options]), capsys.readouterr().err)

        return run

    @pytest.mark.parametrize(
        "name",
        [
            "csv.gz",
            "csv.zst",
            *(pytest.param(n, marks=pytest.mark.slow) for n in ("csv.bz2", "csv.xz")),
        ],
    )
    def test_damaged_archives(self, name: str, forum: Callable[..., Line]) -> None:
        whole = PACKED[name](csv_of(small.posts()))
        forum(whole, f"posts.{name}").assert_refused("sampling would begin")
        for content in damaged(whole, seed=3):
            line = forum(content, f"posts.{name}")
            assert line.is_clean
            if "sampling would begin" not in line.errors[0]:
                line.assert_refused(f"posts.{name}")

    @pytest.mark.parametrize("column", ["user", "thread", "section"])
    def test_nul_characters(self, column: str, forum: Callable[..., Line]) -> None:
        posts = small.posts()
        values = posts[column].astype(object)
        values[values == values.iloc[0]] = "a\0b"
        line = forum(csv_of(posts.assign(**{column: values})))
        line.assert_refused(f"posts.csv: the {column} has a NUL character in post(s) 1")

    def test_a_field_over_the_readers_limit(self, forum: Callable[..., Line]) -> None:
        forum(b"h" * 140_000 + b",b\n1,2\n").assert_refused(
            "posts.csv", "its first line is not a header of a table"
        )
        head, rest = csv_of(small.posts()).split(b"\n", 1)
        long = b'"' + b"y" * 21_000_000 + b'"' + b"," * head.count(b",")
        forum(head + b"\n" + long + b"\n" + rest).assert_refused("posts.csv cannot be read")

    @pytest.mark.parametrize("encoding", ["hex", "rot13", "base64", "a\0b", "", "nonsense"])
    def test_encodings_that_are_none(self, encoding: str, forum: Callable[..., Line]) -> None:
        forum(csv_of(small.posts()), "posts.csv", "--encoding", encoding).assert_refused("encoding")
