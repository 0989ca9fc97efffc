"""Runs in folders, as a user of the command line makes them."""

import gzip
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.io import mmwrite

import dualview as dv
from dualview import cli
from dualview.errors import DualViewError, InputError
from dualview.inputs.tables import Columns, read_threads, read_users
from systems import needs_signals

FORUM = dv.datasets.agreement(12, 24, seed=0)
USERS = [f"user {u}" for u in range(12)]
SHORT = ["--warmup", "20", "--draws", "30", "--chains", "2", "--quiet"]


def write_tables(folder: Path) -> tuple[Path, Path]:
    users = pd.DataFrame(FORUM.features, columns=["posts", "degree"])
    users.insert(0, "user", USERS)
    users.to_csv(folder / "users.csv", index=False)
    rows = [
        {
            "thread": f"t{t}",
            "user": USERS[u],
            "weight": FORUM.participation[t, u],
            "outcome": FORUM.outcome[t],
        }
        for t in range(24)
        for u in np.flatnonzero(FORUM.participation[t])
    ]
    pd.DataFrame(rows).to_csv(folder / "threads.csv", index=False)
    return folder / "users.csv", folder / "threads.csv"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    users, threads = write_tables(folder)
    assert cli.main(["fit", str(users), str(threads), "--out", str(folder / "run"), *SHORT]) == 0
    return folder


def test_fit_equals_the_fit_in_python(run: Path) -> None:
    post = dv.load(run / "run" / "posterior.nc")
    model = dv.DualViewMixture(n_warmup=20, n_draws=30, n_chains=2)
    model.fit(FORUM.features, dv.SharedOutcome(FORUM.participation, FORUM.outcome))
    np.testing.assert_allclose(post["latent"], model.posterior_["latent"], rtol=1e-6)
    assert post.user_ids == USERS
    assert post.feature_names == ["posts", "degree"]
    table = pd.read_csv(run / "run" / "users.csv")
    assert table["user"].tolist() == USERS
    np.testing.assert_array_equal(table["cluster"], model.labels_)


def test_the_constant_of_the_noise_is_asked_for_and_recorded(run: Path, tmp_path: Path) -> None:
    tables = [str(run / "users.csv"), str(run / "threads.csv")]
    few = ["--warmup", "2", "--draws", "2", "--chains", "1", "--quiet"]
    for given, recorded, constant in (
        ([], "likelihood", dv.SharedOutcome(FORUM.participation, FORUM.outcome).noise_constant),
        (
            ["--noise-variance", "paper"],
            None,
            np.var(FORUM.outcome, ddof=1),
        ),  # as earlier versions recorded it
        (["--noise-variance", "7.5"], 7.5, 7.5),
    ):
        out = tmp_path / str(recorded)
        assert cli.main(["fit", *tables, "--out", str(out), *few, *given]) == 0
        assert (
            json.loads((out / "manifest.json").read_text())["made_with"]["noise_variance"]
            == recorded
        )
        assert dv.load(out / "posterior.nc").behavior.noise_variance == pytest.approx(
            constant, rel=1e-6
        )
        assert cli.main(["resume", str(out), "--quiet"]) == 0


def test_runs_that_began_with_the_former_prior_of_alpha_continue_with_it(
    run: Path, tmp_path: Path
) -> None:
    out, tables = tmp_path / "run", [str(run / "users.csv"), str(run / "threads.csv")]
    few = ["--clusters", "3", "--warmup", "2", "--chains", "1", "--quiet"]
    command = ["fit", *tables, "--out", str(out), *few, "--draws"]
    assert cli.main([*command, "3", "--alpha", "gamma(0.25,0.25)"]) == 0
    before = dv.load(out / "posterior.nc")["alpha"]
    request = json.loads((out / "request.json").read_text())
    (out / "request.json").write_text(json.dumps(request | {"alpha": None}))
    assert cli.main(["resume", str(out), "--draws", "6", "--quiet"]) == 0
    np.testing.assert_array_equal(dv.load(out / "posterior.nc")["alpha"][:, :3], before)
    assert cli.main(["fit", *tables, "--out", str(tmp_path / "new"), *few, "--draws", "3"]) == 0
    made = json.loads((tmp_path / "new" / "manifest.json").read_text())["made_with"]
    assert made["alpha"] == str(dv.InverseGamma(0.5, 0.5))
    assert cli.main(["resume", str(tmp_path / "new"), "--draws", "6", "--quiet"]) == 0


def test_resume_of_a_finished_run_and_with_more_draws(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dv.load(run / "run" / "posterior.nc")
    assert cli.main(["resume", str(run / "run"), "--quiet"]) == 0
    np.testing.assert_array_equal(dv.load(run / "run" / "posterior.nc")["alpha"], before["alpha"])
    shutil.copytree(run / "run", tmp_path / "run")
    assert cli.main(["resume", str(tmp_path / "run"), "--draws", "40", "--quiet"]) == 0
    longer = dv.load(tmp_path / "run" / "posterior.nc")
    assert longer.n_draws == 40
    np.testing.assert_array_equal(longer["alpha"][:, :30], before["alpha"])
    assert "posterior.nc" in capsys.readouterr().out


def test_changed_tables_are_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run / "run", tmp_path / "run")
    table = pd.read_csv(run / "threads.csv")
    table.loc[table["thread"] == "t0", "outcome"] += 1
    table.to_csv(tmp_path / "threads.csv", index=False)
    request = json.loads((tmp_path / "run" / "request.json").read_text())
    (tmp_path / "run" / "request.json").write_text(
        json.dumps(request | {"threads": str(tmp_path / "threads.csv")})
    )
    assert cli.main(["resume", str(tmp_path / "run"), "--quiet"]) == 2
    assert "outcome has changed" in capsys.readouterr().err


def test_predict_writes_a_row_per_thread(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "predictions.csv"
    assert cli.main(["predict", str(run / "run"), str(run / "threads.csv"), "--out", str(out)]) == 0
    table = pd.read_csv(out)
    assert table["thread"].tolist() == [f"t{t}" for t in range(24)]
    assert (table["low"] < table["median"]).all()
    assert (table["median"] < table["high"]).all()
    assert "negative log-likelihood" in capsys.readouterr().out
    model = dv.DualViewMixture.from_posterior(dv.load(run / "run" / "posterior.nc"))
    np.testing.assert_allclose(
        table["mean"], model.predict_outcome(FORUM.participation).mean, rtol=1e-6
    )
    strangers = pd.DataFrame({"thread": ["a", "a"], "user": ["user 1", "nobody"]})
    strangers.to_csv(tmp_path / "new.csv", index=False)
    assert (
        cli.main(["predict", str(run / "run"), str(tmp_path / "new.csv"), "--out", str(out)]) == 2
    )
    assert "not in the table of users: nobody" in capsys.readouterr().err
    assert (
        cli.main(
            [
                "predict",
                str(run / "run"),
                str(tmp_path / "new.csv"),
                "--drop-unknown",
                "--out",
                str(out),
            ]
        )
        == 0
    )
    assert "1 rows of 1 unknown users left out" in capsys.readouterr().out
    people = pd.DataFrame({"user": ["nobody"], "posts": [0.5], "degree": [1.0]})
    people.to_csv(tmp_path / "people.csv", index=False)
    told = ["--users", str(tmp_path / "people.csv"), "--out", str(out)]
    assert cli.main(["predict", str(run / "run"), str(tmp_path / "new.csv"), *told]) == 0
    together = np.zeros((1, len(USERS) + 1))
    together[0, [USERS.index("user 1"), -1]] = 1.0
    law = model.predict_outcome(together, people.set_index("user"))
    np.testing.assert_allclose(pd.read_csv(out)["median"], law.median, rtol=1e-6)


def test_a_matrix_needs_a_table_for_what_it_cannot_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users, _ = write_tables(tmp_path)
    mmwrite(tmp_path / "p.mtx", sparse.coo_matrix(FORUM.participation))
    table = pd.DataFrame(
        {
            "thread": [f"t{t}" for t in range(24)],
            "hour": np.arange(24.0) % 7,
            "outcome": FORUM.outcome,
        }
    )
    table.to_csv(tmp_path / "o.csv", index=False)
    table.assign(note=None).drop(columns="outcome").to_csv(tmp_path / "new.csv", index=False)
    fit = [
        "fit",
        str(users),
        str(tmp_path / "p.mtx"),
        "--out",
        str(tmp_path / "run"),
        "--covariates",
        "hour",
        *SHORT,
    ]
    assert cli.main(fit) == 2
    assert (
        "give --outcomes a table with a row per thread, in the same order, and columns thread, "
        "hour, outcome" in (capsys.readouterr().err)
    )
    assert cli.main([*fit, "--outcomes", str(tmp_path / "o.csv")]) == 0
    predict = ["predict", str(tmp_path / "run"), str(tmp_path / "p.mtx")]
    capsys.readouterr()
    assert cli.main(predict) == 2
    assert "in the same order, and columns thread, hour." in capsys.readouterr().err
    assert cli.main([*predict, "--outcomes", str(tmp_path / "new.csv")]) == 0
    assert "24 threads predicted. Wrote" in capsys.readouterr().out
    assert cli.main([*predict, "--outcomes", str(tmp_path / "o.csv")]) == 0
    assert "negative log-likelihood" in capsys.readouterr().out


def test_summary_for_readers_and_for_programs(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["summary", str(run / "run")]) == 0
    text = capsys.readouterr().out
    assert "12 users in" in text
    assert "onverged" in text
    assert cli.main(["summary", str(run / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(cluster["size"] for cluster in found["clusters"]) == 12
    assert set(found["clusters"][0]["feature_medians"]) == {"posts", "degree"}


def test_plot_draws_everything(run: Path) -> None:
    assert cli.main(["plot", str(run / "run")]) == 0
    names = {path.name for path in (run / "run" / "plots").iterdir()}
    assert names == {"clusters.png", "traces.png", "similarity.png", "features.png", "latent.png"}
    assert all(
        path.read_bytes().startswith(b"\x89PNG") for path in (run / "run" / "plots").iterdir()
    )


@pytest.mark.slow
def test_as_a_process(run: Path) -> None:
    command = [sys.executable, "-m", "dualview.cli", "summary", str(run / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "12 users in" in done.stdout
    command[-1] = str(run / "absent")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("dualview: ")
    assert "Traceback" not in done.stderr


def test_matrix_market_and_compressed_and_parquet_tables(tmp_path: Path) -> None:
    users, threads = write_tables(tmp_path)
    table = pd.read_csv(threads)
    with gzip.open(tmp_path / "threads.csv.gz", "wt") as file:
        table.to_csv(file, index=False)
    table.to_parquet(tmp_path / "threads.parquet")
    mmwrite(tmp_path / "p.mtx", sparse.coo_matrix(FORUM.participation))
    pd.DataFrame({"thread": [f"t{t}" for t in range(24)], "outcome": FORUM.outcome}).to_csv(
        tmp_path / "o.csv", index=False
    )
    ids = read_users(users, Columns()).ids
    expected = read_threads(threads, ids, Columns())
    for name, outcomes in (
        ("threads.csv.gz", None),
        ("threads.parquet", None),
        ("p.mtx", tmp_path / "o.csv"),
    ):
        found = read_threads(tmp_path / name, ids, Columns(), outcomes=outcomes)
        np.testing.assert_allclose(found.participation.toarray(), expected.participation.toarray())
        np.testing.assert_allclose(found.outcome, expected.outcome)
        assert found.ids == expected.ids


def test_ids_of_parquet_files_are_the_same_as_whole_numbers_and_as_floats(tmp_path: Path) -> None:
    """A column of whole numbers in which some are missing is one of floats."""
    pd.DataFrame({"user": [9, 7], "age": [1.0, 2.0]}).to_parquet(tmp_path / "users.parquet")
    pd.DataFrame({"thread": [1, 2], "user": [7.0, 9.0], "outcome": [5.0, 6.0]}).to_parquet(
        tmp_path / "threads.parquet"
    )
    ids = read_users(tmp_path / "users.parquet", Columns()).ids
    found = read_threads(tmp_path / "threads.parquet", ids, Columns())
    assert ids == ["9", "7"]
    np.testing.assert_array_equal(found.participation.toarray(), [[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            {"thread": ["a"], "user": ["user 1"]},
            "must have a column 'outcome'; it has thread, user",
        ),
        (
            {"thread": ["a"], "person": ["user 1"]},
            "must have a column 'user'; it has thread, person. Name it with --user-column",
        ),
        (
            {"thread": ["a", "a"], "user": ["user 1", "user 2"], "outcome": [1, 2]},
            "the same in all rows of a thread; it is not in a",
        ),
        (
            {"thread": ["a"], "user": ["user 1"], "outcome": ["long"]},
            "must be a number; it is not in thread.s. a",
        ),
        (
            {"thread": ["a", None], "user": ["user 1"] * 2, "outcome": [1, 1]},
            "column 'thread' is empty in line.s. 3",
        ),
        (
            {"thread": ["a"], "user": ["user 1"], "outcome": [1], "weight": ["x"]},
            "'weight' must hold numbers; it does not in line",
        ),
        (
            {"thread": [], "user": [], "outcome": []},
            "threads.csv has no threads. Give it a row per thread",
        ),
        (
            {"thread": ["a"], "user": ["x"], "outcome": [1]},
            "1 user.s. are not in the table of users: x",
        ),
    ],
)
def test_bad_threads(rows: dict, message: str, tmp_path: Path) -> None:
    pd.DataFrame(rows).to_csv(tmp_path / "threads.csv", index=False)
    with pytest.raises(InputError, match=message):
        read_threads(tmp_path / "threads.csv", USERS, Columns())


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    rows = {
        "thread": ["a", "a", "b", "b", "c"],
        "user": ["user 1", "user 1", "user 2", "x", "x"],
        "outcome": [1, 1, 2, 2, 3],
    }
    pd.DataFrame(rows).to_csv(tmp_path / "threads.csv", index=False)
    found = read_threads(tmp_path / "threads.csv", USERS, Columns(), drop_unknown=True)
    assert found.ids == ["a", "b"]
    assert found.participation.toarray()[0, 1] == 2
    notes = " | ".join(found.notes)
    assert len(found.notes) == 4
    assert "2 rows of 1 unknown users left out (x)" in notes
    assert "1 repeated rows" in notes
    assert "1 threads without a known user left out (c)" in notes
    assert "10 of 12 users take part in no thread" in notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,x\na,1\nb,2\na,3\n", "listed more than once: a.$"),
        (
            "user,thread,x\na,1,1\nb,2,2\na,3,3\n",
            "listed more than once: a. It looks like the table of threads: users come first",
        ),
        (
            "user;x\na;1\nb;2\n",
            "must have a column 'user'; it has user;x. Its fields must be separated by commas",
        ),
        (
            "user,x\na,1,5\nb,2,6\n",
            "cannot be read as a table: its rows have more fields than its header, which names 2 "
            "columns",
        ),
        ("user,x\na,1\n,2\n", "column 'user' is empty in line.s. 3"),
        ("", "users.csv cannot be read as a table: it is empty, and its first line must name"),
        ("user,x\n", "users.csv has no users: it names columns"),
        ("user;x\na;1,5\n", "names 1 columns. Its fields must be separated .* with points"),
    ],
)
def test_bad_users(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text(text)
    with pytest.raises(DualViewError, match=message):
        read_users(tmp_path / "users.csv", Columns())


def test_commas_in_a_table_that_is_called_tsv(tmp_path: Path) -> None:
    (tmp_path / "users.tsv").write_text("user,x\na,1\n")
    with pytest.raises(InputError, match=r"separated by commas, or by tabs in a file called \.tsv"):
        read_users(tmp_path / "users.tsv", Columns())


def test_an_empty_column_of_outcomes_is_as_none(tmp_path: Path) -> None:
    path = tmp_path / "threads.csv"
    path.write_text("thread,user,outcome\na,user 1,\nb,user 1,\n")
    assert read_threads(path, USERS, Columns(), need_outcome=False).outcome is None
    with pytest.raises(InputError, match=r"'outcome' is empty in line.s. 2, 3\.$"):
        read_threads(path, USERS, Columns())
    path.write_text("thread,user,outcome\na,user 1,\nb,user 1,2\n")
    with pytest.raises(InputError, match=r"line.s. 2\. To predict, .* leave the column out\.$"):
        read_threads(path, USERS, Columns(), need_outcome=False)


def test_an_outcome_is_no_covariate(tmp_path: Path) -> None:
    (tmp_path / "threads.csv").write_text("thread,user,outcome\na,user 1,1.5\n")
    with pytest.raises(InputError, match="--covariates has the outcome, 'outcome'"):
        read_threads(tmp_path / "threads.csv", USERS, Columns(), covariates=["outcome"])


def test_ids_are_text_as_they_are_written(tmp_path: Path) -> None:
    """Somebody can be called 007, 7, NA or 1e3, in every table. A feature can be missing, an
    outcome cannot."""
    names = ["007", "7", "NA", "1e3", "None"]
    (tmp_path / "users.csv").write_text(
        "user,posts\n" + "".join(f"{name},{u}.5\n" for u, name in enumerate(names))
    )
    threads = "thread,user,outcome\n01,007,3\n01,NA,3\n1,7,5\nNA,1e3,2\nNA,None,2\n"
    (tmp_path / "threads.csv").write_text(threads)
    (tmp_path / "who.tsv").write_text(threads.replace(",", "\t"))
    (tmp_path / "outcomes.csv").write_text("thread,outcome\nNA,2\n01,3\n1,5\n")
    users = read_users(tmp_path / "users.csv", Columns())
    assert users.ids == names
    assert users.features is not None
    assert users.features["posts"].dtype == float
    for found in (
        read_threads(tmp_path / "threads.csv", users.ids, Columns()),
        read_threads(
            tmp_path / "who.tsv", users.ids, Columns(), outcomes=tmp_path / "outcomes.csv"
        ),
    ):
        assert found.ids == ["01", "1", "NA"]
        assert found.outcome is not None
        assert found.outcome.tolist() == [3, 5, 2]
        assert found.participation.toarray().tolist() == [
            [1, 0, 1, 0, 0],
            [0, 1, 0, 0, 0],
            [0, 0, 0, 1, 1],
        ]
    files = [str(tmp_path / "users.csv"), str(tmp_path / "threads.csv")]
    assert cli.main(["fit", *files, "--out", str(tmp_path / "run"), *SHORT]) == 0
    assert (tmp_path / "run" / "users.csv").read_text().splitlines()[1].startswith("007,")
    assert dv.load(tmp_path / "run" / "posterior.nc").user_ids == names
    (tmp_path / "users.csv").write_text("user,posts\n007,1.5\n7,NA\nNA,2.5\n1e3,3\n")
    assert np.isnan(read_users(tmp_path / "users.csv", Columns()).features["posts"]).tolist() == [
        False,
        True,
        False,
        False,
    ]
    (tmp_path / "threads.csv").write_text("thread,user,outcome\na,007,NA\n")
    with pytest.raises(InputError, match=r"column 'outcome' is empty in line.s. 2"):
        read_threads(tmp_path / "threads.csv", names, Columns())


def test_ids_decide_not_positions() -> None:
    """Participation with its users in another order than the rows of X gives the same fit."""
    features = pd.DataFrame(FORUM.features, index=USERS)
    order = np.random.default_rng(0).permutation(12)
    shuffled = dv.SharedOutcome(
        FORUM.participation[:, order], FORUM.outcome, users=[USERS[u] for u in order]
    )
    straight = dv.SharedOutcome(FORUM.participation, FORUM.outcome)
    options = {"n_warmup": 5, "n_draws": 5, "n_chains": 1}
    a = dv.DualViewMixture(**options).fit(features, shuffled)
    b = dv.DualViewMixture(**options).fit(FORUM.features, straight)
    np.testing.assert_allclose(a.latent_, b.latent_)
    assert a.posterior_.user_ids == USERS
    other = dv.SharedOutcome(FORUM.participation, FORUM.outcome, users=["somebody", *USERS[1:]])
    with pytest.raises(InputError, match="only in X: user 0; only in the behavior: somebody"):
        dv.DualViewMixture(**options).fit(features, other)


def test_a_summary_is_resumed_with_more_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every third draw is whole, before and after."""
    users, threads = write_tables(tmp_path)
    options = [*SHORT, "--keep", "summary", "--whole", "10"]
    assert (
        cli.main(["fit", str(users), str(threads), "--out", str(tmp_path / "run"), *options]) == 0
    )
    assert cli.main(["resume", str(tmp_path / "run"), "--draws", "60", "--quiet"]) == 0
    post = dv.load(tmp_path / "run" / "posterior.nc")
    assert post["z"].shape == (2, 20, 12)
    assert post.summary is not None
    assert post.summary["alpha"].shape == (2, 60)
    assert "clusters" in capsys.readouterr().out


def test_a_killed_run_is_resumed(tmp_path: Path) -> None:
    """Killed as soon as something is on disk; resumed, it has the draws of a run that was not."""
    users, threads = write_tables(tmp_path)
    length = ["--warmup", "100", "--draws", "1500", "--chains", "2", "--quiet"]
    command = [
        sys.executable,
        "-m",
        "dualview.cli",
        "fit",
        str(users),
        str(threads),
        "--out",
        str(tmp_path / "run"),
        *length,
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not list((tmp_path / "run").glob("chain-*/*.h5")):
        time.sleep(0.05)
    assert process.poll() is None, "the run ended before it could be killed"
    process.kill()
    process.wait()
    assert not (tmp_path / "run" / "posterior.nc").exists()
    assert cli.main(["resume", str(tmp_path / "run"), "--quiet"]) == 0
    model = dv.DualViewMixture(n_warmup=100, n_draws=1500, n_chains=2)
    features = pd.read_csv(users, index_col="user")
    model.fit(features, read_threads(threads, USERS, Columns()).behavior(False))
    np.testing.assert_array_equal(
        dv.load(tmp_path / "run" / "posterior.nc")["latent"], model.posterior_["latent"]
    )


@pytest.mark.slow
def test_a_run_that_ends_when_it_has_converged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It reaches a limit first, is resumed with a larger one, and has the draws of a run that had
    that one from the start."""
    users, threads = write_tables(tmp_path)
    out = str(tmp_path / "run")
    fit = ["fit", str(users), str(threads), "--draws", "100", "--quiet"]
    assert cli.main([*fit, "--out", out, "--max-draws", "300"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "4 chains of 100 draws, 2 iterations apart, after 100 of 300 iterations as warm-up; the "
        "limit of draws" in text
    )
    assert "(--max-time, --max-draws)" in text
    assert f"To draw more: dualview resume {out} --max-draws 600" in text
    assert cli.main(["resume", out, "--draws", "200", "--quiet"]) == 2
    assert (
        "--draws cannot change in a run that ends when it has converged" in capsys.readouterr().err
    )
    assert cli.main(["resume", out, "--max-draws", "600", "--quiet"]) == 0
    assert cli.main([*fit, "--out", str(tmp_path / "whole"), "--max-draws", "600"]) == 0
    longer, whole = (dv.load(tmp_path / name / "posterior.nc") for name in ("run", "whole"))
    assert longer.length == whole.length
    np.testing.assert_array_equal(longer["latent"], whole["latent"])
    capsys.readouterr()
    assert cli.main(["summary", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["length"]["ended"] == "max_draws"


def test_a_run_of_fixed_length_has_no_limits_to_change(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["resume", str(run / "run"), "--max-time", "5", "--quiet"]) == 2
    assert "this one has chains of fixed length. Give --draws." in capsys.readouterr().err


@needs_signals
def test_a_run_that_ctrl_c_stops_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users, threads = write_tables(tmp_path)
    out = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "dualview.cli",
        "fit",
        str(users),
        str(threads),
        "--out",
        str(out),
        "--warmup",
        "5",
    ]
    process = subprocess.Popen(
        [*command, "--draws", "2000000", "--chains", "1", "--quiet"],
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not list(out.glob("chain-0/*.h5")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.startswith("dualview: stopped: ")
    assert (
        "of 2,000,000 draws of each chain are made and saved; to continue, give the same "
        "command, or: "
        f"dualview resume {out}\n" in said
    )
    assert said.count("\n") == 1
    assert cli.main(["summary", str(out)]) == 0
    assert "1 chains of" in capsys.readouterr().out


def test_a_fit_that_is_refused_leaves_nothing_to_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users, threads = write_tables(tmp_path)
    fit = ["fit", str(users), str(threads), "--out", str(tmp_path / "run"), *SHORT]
    (tmp_path / "run").mkdir()
    assert cli.main([*fit, "--clusters", "13"]) == 2
    assert "--clusters must be at most the number of users, 12; got 13" in capsys.readouterr().err
    assert cli.main(["resume", str(tmp_path / "run")]) == 2
    assert "it has no request.json" in capsys.readouterr().err
    assert cli.main(fit) == 0
    text, errors = capsys.readouterr()
    assert errors == ""  # what has not converged is told once, in the summary
    assert text.count("Too few draws") == 1
    assert f"To draw more: dualview resume {tmp_path / 'run'} --draws 60" in text
    assert "plots.traces" not in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "columns.toml cannot be read"),
        ("[posts", "columns.toml is not a TOML file"),
        ('posts = "nonsense"\n', "nonsense"),
        ('age = "count"\n', "age"),
    ],
)
def test_a_fit_that_is_refused_leaves_no_folder(
    text: str | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users, threads = write_tables(tmp_path)
    kinds = tmp_path / "columns.toml"
    if text is not None:
        kinds.write_text(text)
    out = ["--out", str(tmp_path / "run"), "--columns", str(kinds)]
    assert cli.main(["fit", str(users), str(threads), *out, *SHORT]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_predictions_go_by_ids_too() -> None:
    """Columns of new threads in another order, some left out, and users whom the fit does not
    know."""
    behavior = dv.SharedOutcome(FORUM.participation, FORUM.outcome, users=USERS)
    model = dv.DualViewMixture(n_warmup=5, n_draws=20, n_chains=1).fit(
        pd.DataFrame(FORUM.features, index=USERS), behavior
    )
    loaded = dv.DualViewMixture.from_posterior(model.posterior_)
    order = [7, 2, 9]
    threads = np.zeros((2, 12))
    threads[:, order] = [[1.0, 0.0, 2.0], [0.0, 3.0, 1.0]]
    expected = model.predict_outcome(threads).mean
    named = dv.SharedOutcome(threads[:, order], users=[USERS[u] for u in order])
    for estimator in (model, loaded):
        np.testing.assert_allclose(estimator.predict_outcome(named).mean, expected)
        with pytest.raises(InputError, match=r"1 user\(s\) unknown to the fit \(somebody\)"):
            estimator.predict_outcome(
                dv.SharedOutcome(np.ones((1, 2)), users=["user 1", "somebody"])
            )
    with_new = dv.SharedOutcome(np.ones((1, 2)), users=["somebody", "user 1"])
    positions = np.zeros((1, 13))
    positions[0, [1, 12]] = 1.0
    x_new = FORUM.features[:1]
    np.testing.assert_allclose(
        model.predict_outcome(with_new, x_new).mean, model.predict_outcome(positions, x_new).mean
    )


def test_users_are_made_up_from_a_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = run / "run", run / "made.csv"
    asked = ["sample", str(folder), "--n", "7", "--given", "posts=3", "--out", str(out)]
    assert cli.main(asked) == 0
    assert "7 users made up" in capsys.readouterr().out
    made = pd.read_csv(out)
    assert list(made) == ["posts", "degree"]
    assert (made["posts"] == 3).all()
    assert made["degree"].nunique() == 7
    for text, message in (("posts", "column=value"), ("posts=many", "must be a number")):
        assert cli.main(["sample", str(folder), "--given", text]) == 2
        assert message in capsys.readouterr().err
