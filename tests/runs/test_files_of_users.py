"""What users name and what people open: pipes, links and standard output; names like formulas;
terminals of all kinds."""

import csv
import gzip
import io
import json
import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview import cli
from dualview.files.spreadsheets import unescape_name
from dualview.forum.archive import Archive
from dualview.forum.options import ForumOptions
from forum import small

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="Windows has neither pipes with names nor such devices"
)

NAMES = [
    "=1+1",
    "+2",
    "-3",
    "@x",
    "\ty",
    "\rz",
    "'=q",
    "''-a",
    "\U0001f600 é",
    "plain",
    "'apostrophe",
    "a,=b",
]
SHORT = ("--warmup", "5", "--draws", "30", "--chains", "1", "--quiet")


def write_tables(folder: Path) -> None:
    made = dv.datasets.agreement(12, 24, seed=0)
    users = pd.DataFrame(
        {"user": NAMES, "posts": made.features[:, 0], "degree": made.features[:, 1]}
    )
    threads = [
        {"thread": f"=t{t}", "user": NAMES[u], "outcome": made.outcome[t]}
        for t in range(24)
        for u in np.flatnonzero(made.participation[t])
    ]
    users.to_csv(folder / "users.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)
    pd.DataFrame(threads).to_csv(folder / "threads.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables, and a run of them in a folder whose name has blanks."""
    folder = tmp_path_factory.mktemp("made")
    write_tables(folder)
    run = folder / "my  run"
    assert (
        cli.main(
            [
                "fit",
                str(folder / "users.csv"),
                str(folder / "threads.csv"),
                "--out",
                str(run),
                *SHORT,
            ]
        )
        == 0
    )
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of the run."""
    return Path(shutil.copytree(made / "my  run", tmp_path / "my  run"))


@pytest.fixture
def feed(tmp_path: Path) -> Callable[[str, bytes], str]:
    """Makes a pipe that somebody writes this content to, once."""

    def make(name: str, content: bytes) -> str:
        os.mkfifo(tmp_path / name)
        threading.Thread(target=(tmp_path / name).write_bytes, args=(content,), daemon=True).start()
        return str(tmp_path / name)

    return make


def predicted(run: Path, made: Path, out: str) -> int:
    return cli.main(["predict", str(run), str(made / "threads.csv"), "--out", out])


class TestPlacesToWrite:
    @pytest.fixture
    def expected(self, run: Path, made: Path, tmp_path: Path) -> bytes:
        assert predicted(run, made, str(tmp_path / "plain.csv")) == 0
        return (tmp_path / "plain.csv").read_bytes()

    def test_links_and_pipes(self, run: Path, made: Path, tmp_path: Path, expected: bytes) -> None:
        (tmp_path / "link.csv").symlink_to("target.csv")
        (tmp_path / "target.csv").write_text("old")
        assert predicted(run, made, str(tmp_path / "link.csv")) == 0
        assert (tmp_path / "link.csv").is_symlink()
        assert (tmp_path / "target.csv").read_bytes() == expected
        pipe, read = tmp_path / "pipe", []
        os.mkfifo(pipe)
        reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
        reader.start()
        assert predicted(run, made, str(pipe)) == 0
        reader.join()
        assert read == [expected]
        assert stat.S_ISFIFO(pipe.stat().st_mode)

    @pytest.mark.parametrize("name", ["-", "/dev/stdout"])
    def test_standard_output_has_the_result_alone(
        self,
        name: str,
        run: Path,
        made: Path,
        expected: bytes,
        capfdbinary: pytest.CaptureFixture[bytes],
    ) -> None:
        capfdbinary.readouterr()
        assert predicted(run, made, name) == 0
        printed = capfdbinary.readouterr()
        assert printed.out == expected
        assert b"24 threads predicted" in printed.err
        assert b". Wrote to standard output." in printed.err
        assert cli.main(["columns", str(made / "users.csv"), "--out", name]) == 0
        printed = capfdbinary.readouterr()
        assert printed.out.startswith(b"# The codebook")
        assert b"Wrote to standard output." in printed.err
        assert cli.main(["report", str(run), "--out", name]) == 0
        printed = capfdbinary.readouterr()
        assert printed.out.startswith(b"<!")
        assert b"Wrote to standard output." in printed.err

    def test_the_table_of_a_comparison(
        self, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        other = shutil.copytree(run, tmp_path / "other")
        assert cli.main(["compare", str(run), str(other), "--out", "-"]) == 0
        printed = capsys.readouterr()
        assert len(json.loads(printed.out)["fits"]) == 2
        assert "elpd" in printed.err

    @pytest.mark.parametrize("command", ["predict", "columns", "report"])
    def test_folders_are_refused_before_the_work(
        self,
        command: str,
        run: Path,
        made: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        given = {
            "predict": [str(run), str(made / "threads.csv")],
            "columns": [str(made / "users.csv")],
            "report": [str(run)],
        }
        (tmp_path / "taken").mkdir()
        assert cli.main([command, *given[command], "--out", str(tmp_path / "taken")]) == 2
        assert "taken is a folder: name the file to write" in capsys.readouterr().err


class TestPipesAsInput:
    def test_a_run_keeps_what_it_read(
        self,
        made: Path,
        tmp_path: Path,
        feed: Callable[..., str],
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        users = feed("u", (made / "users.csv").read_bytes())
        threads = feed("t", gzip.compress((made / "threads.csv").read_bytes()))
        out = tmp_path / "run"
        assert cli.main(["fit", users, threads, "--out", str(out), *SHORT]) == 0
        assert (out / "users.csv").read_bytes() == (made / "my  run" / "users.csv").read_bytes()
        os.unlink(users)
        os.unlink(threads)
        assert cli.main(["resume", str(out), "--draws", "31", "--quiet"]) == 0
        assert cli.main(["compare", str(out), str(shutil.copytree(out, tmp_path / "other"))]) == 0
        assert "the same 24 threads" in capsys.readouterr().out

    def test_a_fit_that_is_refused_keeps_nothing(
        self, tmp_path: Path, feed: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        users = feed("u", b"name,x\na,1\n")
        assert cli.main(["fit", users, "--out", str(tmp_path / "run"), *SHORT]) == 2
        assert f"{users} must have a column 'user'" in capsys.readouterr().err
        assert not (tmp_path / "run").exists()

    def test_predictions_and_codebooks(
        self,
        run: Path,
        made: Path,
        tmp_path: Path,
        feed: Callable[..., str],
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        assert predicted(run, made, str(tmp_path / "plain.csv")) == 0
        threads = feed("t", (made / "threads.csv").read_bytes())
        assert cli.main(["predict", str(run), threads, "--out", str(tmp_path / "piped.csv")]) == 0
        assert (tmp_path / "piped.csv").read_bytes() == (tmp_path / "plain.csv").read_bytes()
        capsys.readouterr()
        assert cli.main(["columns", feed("u", (made / "users.csv").read_bytes())]) == 0
        piped = capsys.readouterr().out
        assert cli.main(["columns", str(made / "users.csv")]) == 0
        assert capsys.readouterr().out == piped

    def test_shards(self, made: Path, tmp_path: Path, feed: Callable[..., str]) -> None:
        users, threads = (
            feed(name, (made / f"{name}.csv").read_bytes()) for name in ("users", "threads")
        )
        assert cli.main(["shard", users, threads, "--out", str(tmp_path / "shards")]) == 0
        assert dv.Shards(tmp_path / "shards").n_users == 12


class TestNamesLikeFormulas:
    def test_files_for_people_are_safe_and_come_back(self, run: Path, made: Path) -> None:
        assert predicted(run, made, str(run / "predictions.csv")) == 0
        for name, column, expected in (
            ("users.csv", "user", NAMES),
            ("predictions.csv", "thread", [f"=t{t}" for t in range(24)]),
        ):
            cells = pd.read_csv(run / name, keep_default_na=False)[column].tolist()
            assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)
            assert sorted(map(unescape_name, cells)) == sorted(expected)
        assert cli.main(["report", str(run)]) == 0

    def test_summaries_have_the_names_themselves(
        self, run: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert cli.main(["summary", str(run), "--json"]) == 0
        shown = {
            name
            for cluster in json.loads(capsys.readouterr().out)["clusters"]
            for name in cluster["typical_users"]
        }
        assert shown <= set(NAMES)

    def test_our_files_are_tables_too(
        self, run: Path, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert predicted(run, made, str(tmp_path / "plain.csv")) == 0
        users = pd.read_csv(run / "users.csv", keep_default_na=False)[["user"]]
        users.assign(thread="'=t0").to_csv(
            tmp_path / "new.csv", index=False, quoting=csv.QUOTE_NONNUMERIC
        )
        assert (
            cli.main(
                ["predict", str(run), str(tmp_path / "new.csv"), "--out", str(tmp_path / "a.csv")]
            )
            == 0
        )
        assert "8 user(s) were found without or with the apostrophe" in capsys.readouterr().out
        pd.DataFrame({"user": NAMES, "thread": "=t0"}).to_csv(
            tmp_path / "same.csv", index=False, quoting=csv.QUOTE_NONNUMERIC
        )
        assert (
            cli.main(
                ["predict", str(run), str(tmp_path / "same.csv"), "--out", str(tmp_path / "b.csv")]
            )
            == 0
        )
        numbers = [
            pd.read_csv(tmp_path / name).drop(columns="thread") for name in ("a.csv", "b.csv")
        ]
        pd.testing.assert_frame_equal(*numbers)


class TestTerminals:
    def test_what_the_encoding_lacks_is_escaped(
        self, run: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = io.BytesIO()
        terminal = io.TextIOWrapper(content, encoding="cp1252")
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setattr(
            "dualview.runs.summary_file.summary_text",
            lambda found: " ".join(NAMES) if found["users"] == 12 else "other users",
        )
        assert cli.main(["summary", str(run)]) == 0
        terminal.flush()
        assert "\\U0001f600 é".encode("cp1252") in content.getvalue()
        assert terminal.errors == "strict"

    @pytest.mark.parametrize("out", [None, "-"])
    def test_a_reader_who_leaves_ends_the_program_quietly(
        self,
        out: str | None,
        run: Path,
        made: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as stdout, monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", stdout)
            code = cli.main(["summary", str(run)]) if out is None else predicted(run, made, out)
        assert code == 141
        assert capsys.readouterr().err == ""

    def test_so_does_one_who_leaves_in_the_middle_of_much(
        self, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """More than Python's buffer holds: nothing is left there that a second attempt could fail
        to write."""
        monkeypatch.setattr(
            "dualview.runs.summary_file.summary_text", lambda _: "a user, " * 100_000
        )
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as stdout, monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", stdout)
            assert cli.main(["summary", str(run)]) == 141
        assert capsys.readouterr().err == ""


class TestCommandsToContinue:
    def test_they_are_quoted(self, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["resume", str(run), "--quiet"]) == 0
        assert f"To draw more: dualview resume '{run}' --draws 60" in capsys.readouterr().out
        content = (run / "posterior.nc").read_bytes()
        (run / "posterior.nc").write_bytes(content[:1000])
        assert cli.main(["summary", str(run)]) == 2
        assert (
            f"To write it again from the chains: dualview resume '{run}'\n"
            in capsys.readouterr().err
        )
        (run / "posterior.nc").unlink()
        assert cli.main(["summary", str(run)]) == 2
        assert (
            f"the run is not finished. To continue: dualview resume '{run}'\n"
            in capsys.readouterr().err
        )

    @pytest.mark.parametrize("begun", [False, True])
    def test_ctrl_c_at_any_time_says_where_the_run_is(
        self,
        begun: bool,
        run: Path,
        made: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("dualview.runs.run.read_inputs", interrupt)
        out = run if begun else run / "new"
        code = cli.main(
            ["fit", str(made / "users.csv"), str(made / "threads.csv"), "--out", str(out), *SHORT]
        )
        said = capsys.readouterr().err
        assert code == 130
        if begun:
            assert (
                said
                == f"dualview: stopped: what was made is saved in {run}; to continue: dualview "
                f"resume '{run}'\n"
            )
        else:
            assert (
                said
                == f"dualview: stopped: nothing is saved in {out} yet; the same command starts "
                "again\n"
            )

    def test_a_run_of_a_newer_version_is_refused(
        self, run: Path, made: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        manifest = json.loads((run / "manifest.json").read_text())
        manifest |= {
            "format_version": manifest["format_version"] + 1,
            "versions": {"dualview": "99.0"},
        }
        (run / "manifest.json").write_text(json.dumps(manifest))
        threads = str(made / "threads.csv")
        for command in (
            ["summary", str(run)],
            ["predict", str(run), threads],
            ["report", str(run)],
            ["plot", str(run)],
            ["check", str(run)],
            ["resume", str(run), "--quiet"],
            ["compare", str(run), str(made / "my  run")],
            ["fit", str(made / "users.csv"), threads, "--out", str(run), *SHORT],
        ):
            assert cli.main(command) == 2
            said = capsys.readouterr().err
            assert f"{run} was made by a newer version of dualview 99.0 (format 4; dualview" in said
            assert said.endswith("pip install --upgrade dualview.\n")


def test_bombs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {"zeros": b"user,x\n" + bytes(3 << 26), "rows": b"user,x\n" + b"a,1\n" * (3 << 24)}
    for name, content in rows.items():
        path = tmp_path / f"{name}.csv.gz"
        path.write_bytes(gzip.compress(content))
        assert cli.main(["fit", str(path), "--out", str(tmp_path / "run"), *SHORT]) == 2
        assert (
            f"{path} cannot be read as a table: it unpacks to more than 300 times its size"
            in capsys.readouterr().err
        )
        assert cli.main(["forum", str(path), "--out", str(tmp_path / "run"), "--quiet"]) == 2
        assert (
            f"{path} cannot be unpacked: it unpacks to more than 300 times its size"
            in capsys.readouterr().err
        )
    assert not (tmp_path / "run").exists()


def test_posts_may_come_from_a_pipe(tmp_path: Path, feed: Callable[..., str]) -> None:
    posts = small.posts()
    posts.to_csv(tmp_path / "posts.csv", index=False)
    content = (tmp_path / "posts.csv").read_bytes()
    options = ForumOptions()
    with (
        Archive(tmp_path / "posts.csv", options) as plain,
        Archive(feed("p", gzip.compress(content)), options) as piped,
    ):
        assert piped.facts == plain.facts
