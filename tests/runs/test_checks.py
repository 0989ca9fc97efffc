"""Checks of runs in folders, and the section of the report about them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview import cli
from dualview.report import write_report

FORUM = dv.datasets.agreement(16, 40, n_clusters=2, seed=0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checked")
    users = [f"u{u}" for u in range(16)]
    pd.DataFrame({"user": users, "a": FORUM.features[:, 0], "b": FORUM.features[:, 1]}).to_csv(
        folder / "users.csv", index=False
    )
    t, u = np.nonzero(FORUM.participation)
    threads = {
        "thread": [f"t{i}" for i in t],
        "user": [users[i] for i in u],
        "weight": FORUM.participation[t, u],
    }
    pd.DataFrame({**threads, "outcome": FORUM.outcome[t]}).to_csv(
        folder / "threads.csv", index=False
    )
    short = ["--warmup", "50", "--draws", "60", "--chains", "2", "--quiet"]
    names = [str(folder / "users.csv"), str(folder / "threads.csv")]
    assert cli.main(["fit", *names, "--out", str(folder / "run"), *short]) == 0
    return folder / "run"


def test_a_report_without_checks_says_how_to_make_them(run: Path, tmp_path: Path) -> None:
    page = write_report(run, tmp_path / "report.html").read_text()
    assert "To check it: dualview check RUN" in page


@pytest.mark.slow
def test_checks_are_printed_written_and_reported(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", str(run)]) == 0
    said = capsys.readouterr().out
    assert "outcomes: fine" in said
    assert f"Wrote {run / 'checks.json'}" in said
    content = json.loads((run / "checks.json").read_text())
    assert {check["name"] for check in content["checks"]} >= {
        "outcomes",
        "features inside clusters",
        "link",
        "sizes",
    }
    assert len(content["levels"]["outcomes"]) == 40
    page = write_report(run, tmp_path / "report.html").read_text()
    assert "Checks of the model, those that are not fine first" in page
    assert "data:image/png" in page.split('id="model-fit"')[1].split("</section>")[0]
    assert "features inside clusters" in page


def test_checks_of_a_run_that_was_drawn_further_are_not_shown(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "run"
    shutil.copytree(run, other)
    (other / "checks.json").write_text(
        json.dumps({"made_with": "another", "checks": [], "levels": {}})
    )
    assert (
        "has not been checked against its data"
        in write_report(other, tmp_path / "report.html").read_text()
    )


def test_damaged_files_and_changed_tables_are_errors(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "run"
    shutil.copytree(run, other)
    (other / "checks.json").write_text("{")
    assert cli.main(["report", str(other), "--out", str(tmp_path / "report.html")]) == 2
    assert "Make it again with 'dualview check'" in capsys.readouterr().err
    request = json.loads((other / "request.json").read_text())
    table = pd.read_csv(request["threads"])
    table.assign(outcome=table["outcome"] + 1).to_csv(tmp_path / "threads.csv", index=False)
    (other / "request.json").write_text(
        json.dumps({**request, "threads": str(tmp_path / "threads.csv")})
    )
    assert cli.main(["check", str(other)]) == 2
    assert "have changed since the fit (outcome)" in capsys.readouterr().err
    assert cli.main(["check", str(tmp_path / "absent")]) == 2
