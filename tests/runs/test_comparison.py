"""Runs ranked by how well they predict: the table, its sentences, and what cannot be compared."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview import cli
from dualview.errors import InputError
from dualview.runs.comparison import Fit, Ranking, own_digest, rank_runs, short_names

FORUM = dv.datasets.agreement(12, 24, seed=0)
SHORT = ["--warmup", "20", "--draws", "30", "--chains", "2", "--quiet"]
FIT = Fit("a", "no link", -100.0, 3.0, 5.0, 0.0, 0.0, 0, True, "sha256:a")


def write_tables(folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    users = [f"user {u}" for u in range(12)]
    pd.DataFrame(
        {"user": users, "posts": FORUM.features[:, 0], "degree": FORUM.features[:, 1]}
    ).to_csv(folder / "users.csv", index=False)
    t, u = np.nonzero(FORUM.participation)
    rows = pd.DataFrame(
        {"thread": [f"t{i}" for i in t], "user": [users[i] for i in u], "outcome": FORUM.outcome[t]}
    )
    rows.to_csv(folder / "threads.csv", index=False)
    return [str(folder / "users.csv"), str(folder / "threads.csv")]


def fit(out: Path, *arguments: str) -> Path:
    assert cli.main(["fit", *arguments, "--out", str(out), *SHORT]) == 0
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the same threads."""
    folder = tmp_path_factory.mktemp("ranked")
    tables = write_tables(folder)
    fit(folder / "run", *tables)
    fit(folder / "fixed", *tables, "--clusters", "2", "--link", "linear")
    return folder


def test_the_command_prints_and_keeps_the_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert cli.main(["compare", str(folder / "run"), str(folder / "fixed")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("fit    differs in")
    assert "clusters: 2, linear link" in printed
    assert "Of 2 fits to the same 24 threads" in printed
    kept = [Ranking.load(folder / name / "comparison.json") for name in ("run", "fixed")]
    assert kept[0] == kept[1] == rank_runs([folder / "fixed", folder / "run"])
    assert {fit.name: fit.made_with for fit in kept[0].fits} == {
        name: own_digest(folder / name, dv.load(folder / name / "posterior.nc"))
        for name in ("run", "fixed")
    }
    assert (
        f"Wrote {folder / 'run' / 'comparison.json'}, {folder / 'fixed' / 'comparison.json'}."
        in printed
    )
    (folder / "run" / "comparison.json").unlink()
    assert (
        cli.main(
            ["compare", str(folder / "run"), str(folder / "fixed"), "--out", str(folder / "c.json")]
        )
        == 0
    )
    assert not (folder / "run" / "comparison.json").exists()
    assert Ranking.load(folder / "c.json") == kept[0]


def test_threads_in_another_order_are_matched(folder: Path, tmp_path: Path) -> None:
    users, threads = write_tables(tmp_path)
    table = pd.read_csv(threads)
    table.iloc[::-1].to_csv(threads, index=False)
    other = fit(tmp_path / "other", users, threads, "--seed", "5")
    forwards, backwards = (
        rank_runs(pair) for pair in ([folder / "run", other], [other, folder / "run"])
    )
    for one, same in zip(forwards.fits, backwards.fits, strict=True):
        assert (one.name, one.unsure, one.made_with) == (same.name, same.unsure, same.made_with)
        assert one.elpd == pytest.approx(same.elpd, rel=1e-12)  # sums in another order
        assert one.difference == pytest.approx(same.difference, rel=1e-9)
    assert {fit.apart for fit in forwards.fits} == {"seed 0", "seed 5"}
    assert abs(forwards.fits[1].difference) < 3 * forwards.fits[1].difference_se


def test_what_cannot_be_compared_is_said(folder: Path, tmp_path: Path) -> None:
    run = folder / "run"
    users, threads = write_tables(tmp_path)
    table = pd.read_csv(threads)
    alone = fit(tmp_path / "alone", users)
    with pytest.raises(InputError, match="alone was fitted without threads"):
        rank_runs([run, alone])
    table[table["thread"] != "t3"].to_csv(threads, index=False)
    fewer = fit(tmp_path / "fewer", users, threads)
    with pytest.raises(
        InputError, match="not fits to the same threads: they have 23 and 24, and 23 in common"
    ):
        rank_runs([run, fewer])
    table.assign(outcome=table["outcome"] + (table["thread"] == "t3")).to_csv(threads, index=False)
    other = fit(tmp_path / "other", users, threads)
    with pytest.raises(InputError, match=r"different outcomes in 1 thread\(s\), such as t3"):
        rank_runs([run, other])
    with pytest.raises(
        InputError,
        match=r"The tables of .*fewer have changed since the fit \(participation, outcome\)",
    ):
        rank_runs([other, fewer])
    few = tmp_path / "few"
    files = [str(folder / name) for name in ("users.csv", "threads.csv")]
    assert (
        cli.main(
            [
                "fit",
                *files,
                "--out",
                str(few),
                "--warmup",
                "5",
                "--draws",
                "5",
                "--chains",
                "1",
                "--quiet",
            ]
        )
        == 0
    )
    with pytest.raises(InputError, match="at least 25 draws of each fit; too few in few"):
        rank_runs([run, few])
    with pytest.raises(InputError, match="Name two or more finished runs to compare; got 1"):
        rank_runs([run])
    with pytest.raises(InputError, match="named twice"):
        rank_runs([run, run.parent / "." / "run"])


def test_python_refuses_other_outcomes() -> None:
    settings = {"n_warmup": 5, "n_draws": 30, "n_chains": 1}
    models = {
        name: dv.DualViewMixture(1, **settings).fit(
            None, dv.SharedOutcome(FORUM.participation, outcome)
        )
        for name, outcome in (("a", FORUM.outcome), ("b", FORUM.outcome + np.eye(24)[3]))
    }
    with pytest.raises(InputError, match="a and b have 1 different outcomes"):
        dv.compare(models)


def test_runs_without_a_manifest_or_a_folder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare", str(folder / "run"), str(folder / "absent")]) == 2
    assert "absent: there is no such folder" in capsys.readouterr().err
    shutil.copytree(folder / "run", tmp_path / "copy")
    (tmp_path / "copy" / "manifest.json").unlink()
    assert cli.main(["compare", str(folder / "run"), str(tmp_path / "copy")]) == 2
    assert "manifest.json cannot be read" in capsys.readouterr().err


def test_names_are_as_long_as_they_must_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "run").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "run")
    assert short_names([Path(), tmp_path / "linked"]) == ["run", "linked"]
    assert short_names([Path(), tmp_path / "b" / "run", tmp_path / "linked"])[:2] == [
        "a/run",
        "b/run",
    ]


def test_sentences_say_what_is_sure_and_what_is_not() -> None:
    behind = replace(FIT, name="b", elpd=-110.0, difference=10.0, difference_se=3.0)
    close = replace(
        FIT, name="c", elpd=-103.0, difference=3.0, difference_se=2.0, unsure=4, converged=False
    )
    assert Ranking(50, (FIT, behind)).verdict() == [
        "Of 2 fits to the same 50 threads, 'a' predicts best; the other is clearly behind."
    ]
    said = Ranking(50, (FIT, replace(close, unsure=0), behind)).verdict()
    assert said[0].endswith(
        "but 'c' cannot be distinguished from it: the difference is within two standard errors, "
        "or below 4."
    )
    assert "The chains of 'c' have not converged" in said[1]
    said = Ranking(50, (FIT, close, behind)).verdict()
    assert said[0].endswith(
        "predicts best according to the reliable scores; the rank of 'c' is uncertain."
    )
    assert "4 in 'c'" in said[1]
    said = Ranking(50, (replace(FIT, unsure=1), behind)).verdict()
    assert said[0].endswith(
        "'a' has the highest score, but some scores are unreliable, so this is not a ranking."
    )
    said = Ranking(50, (FIT, replace(close, unsure=0), close)).verdict()
    assert said[0].endswith("within two standard errors, or below 4. The rank of 'c' is uncertain.")
    lines = Ranking(50, (FIT, close)).text().splitlines()
    assert lines[1].split() == ["a", "no", "link", "-100.0", "0", "best"]
    assert lines[2].split()[3:] == ["-103.0", "3.0", "2.0", "4", "rank", "uncertain"]


def test_runs_are_fitted_again_in_folds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(folder / name) for name in ("run", "fixed")]
    out = str(folder / "folds.json")
    assert cli.main(["compare", *runs, "--folds", "2", "--out", out]) == 0
    ranking = Ranking.load(folder / "folds.json")
    assert ranking.folds == 2
    assert all(fit.unsure == 0 and np.isfinite(fit.elpd) for fit in ranking.fits)
    left_out = {fit.name: fit.elpd for fit in rank_runs([Path(run) for run in runs]).fits}
    assert all(fit.elpd != left_out[fit.name] for fit in ranking.fits)
    assert cli.main(["compare", *runs, "--folds", "25"]) == 2
    assert "folds must be from 2 to the number of threads, 24; got 25." in capsys.readouterr().err


def test_few_users_get_no_verdict() -> None:
    behind = replace(FIT, name="b", elpd=-110.0, difference=10.0, difference_se=3.0)
    said = Ranking(50, (FIT, behind), by="user", few=True).verdict()
    assert said[0].endswith("'b' cannot be distinguished from it.")  # 10 is more than two errors
    assert said[1] == "There are fewer than 100 users: too few for a verdict on scores by user."


def test_a_ranking_survives_its_file(tmp_path: Path) -> None:
    ranking = Ranking(50, (FIT, replace(FIT, name="<é>", difference=1.0)))
    ranking.save(tmp_path / "c.json")
    assert Ranking.load(tmp_path / "c.json") == ranking
    assert json.loads((tmp_path / "c.json").read_text())["fits"][1]["name"] == "<é>"
