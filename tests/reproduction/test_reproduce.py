"""The command: from names to a folder with a table, figures and a report."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from dualview import cli
from dualview.cli import commands
from reproduction import figures, published, reproduce
from reproduction.__main__ import main
from reproduction.cells import Effort
from reproduction.extras import ALPHA_SCALES
from reproduction.results import averages, compared, tidy
from reproduction.scores import SCORES
from reproduction.studies import ALL, STUDIES, Plan, chosen

TINY = replace(
    Plan.quick(0),
    sizes=(10, 50),
    repetitions=2,
    users=(10, 50),
    effort=Effort(1, 4, 8, 1),
    cost_effort=Effort(1, 4, 8, 1),
    link_effort=Effort(1, 4, 8, 1),
)


def made_up(cell):
    """Scores and extras of the right form without a fit; better than published, worse with fewer
    threads."""
    rng = np.random.default_rng(cell.n_threads + 1000 * cell.repetition)
    scores = dict.fromkeys(SCORES, float(rng.random())) | {
        "nll": 2.3 + 1 / cell.n_threads + 0.01 * cell.repetition,
        "ari": 0.97,
    }
    if cell.model == "single":
        scores |= dict.fromkeys(
            ("ari", "ari_last_draw", "features_ratio", "behavior_ratio"), float("nan")
        )
    times = {
        "time": 3.0,
        "ess_bulk": 50.0,
        "ess_tail": 40.0,
        "paper_tau": None,
        "white_noise_tau": None,
    }
    extras = {
        "sizes": {
            "n_clusters": [3, 4],
            "probability": [0.75, 0.25],
            "size_mean": [30, 15, 5],
            "size_sd": [2, 2, 1],
        },
        "autocorrelation": {"alpha": times, "behavior.base_mean": times | {"time": 7.0}},
        "predictions": {
            "outcome": [1, 2],
            "mean": [1, 2],
            "half": [[0, 2], [1, 3]],
            "most": [[-1, 3], [3, 4]],
        },
        "similarity": {"matrix": np.eye(4).tolist(), "labels": [0, 0, 1, 1]},
        "alpha_prior": {
            str(s): {"n_clusters": 4.0, "nll": 2.5, "effective_share": 0.8} for s in ALPHA_SCALES
        },
    }
    return {
        "scores": scores,
        "extras": {name: extras[name] for name in cell.extras},
        "warnings": [],
    }


@pytest.fixture(autouse=True)
def _small_pictures(monkeypatch):
    monkeypatch.setattr(reproduce, "_DPI", 20)


@pytest.fixture
def tiny(monkeypatch):
    """Quick plans are tiny, and nothing is fitted."""
    monkeypatch.setattr(Plan, "quick", classmethod(lambda _, seed: replace(TINY, seed=seed)))
    monkeypatch.setattr(reproduce, "run_cell", made_up)


def run(out, *arguments):
    return main([*arguments, "--out", str(out), "--quick", "--jobs", "1", "--quiet"])


def rows(folder):
    with open(folder / "results.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_every_study_writes_its_section_and_its_figures(tmp_path, capsys):
    assert run(tmp_path, "all", *STUDIES) == 0
    report = (tmp_path / "report.md").read_text()
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert {
        line.split("](")[1].split(")")[0] for line in report.splitlines() if line.startswith("![")
    } == pictures
    assert len(pictures) == 21
    assert {row["study"] for row in rows(tmp_path)} == set(STUDIES)
    assert "Wrote" in capsys.readouterr().out
    assert not re.search(r"\bnan\b", report)
    for words in (
        "3.366 ± 0.118",
        "NLL below published",
        "2.224",
        "python -m reproduction all models",
        "Fits that failed: 0",
    ):
        assert words in report
    assert "| agreement | 6 of 6 |" in report


@pytest.mark.slow
def test_a_real_run_is_resumed_and_can_grow(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        Plan,
        "quick",
        classmethod(lambda _, seed: replace(TINY, seed=seed, sizes=(10,), repetitions=1)),
    )
    assert run(tmp_path, "agreement") == 0
    before = rows(tmp_path)
    assert len(before) == 3
    assert all(float(row["nll"]) > 2 and row["error"] == "" for row in before)
    monkeypatch.setattr(reproduce, "run_cell", lambda cell: pytest.fail(f"{cell} was run again"))
    assert run(tmp_path, "agreement") == 0
    assert rows(tmp_path) == before
    monkeypatch.setattr(reproduce, "run_cell", made_up)
    assert run(tmp_path, "iris") == 0
    assert rows(tmp_path)[:3] == before
    assert {row["study"] for row in rows(tmp_path)} == {"agreement", "iris"}
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("tiny")
def test_failed_fits_are_rows_and_an_error_in_the_end(tmp_path, monkeypatch, capsys):
    def work(cell):
        if cell.model == "dual-fixed" and cell.n_threads == 50:
            raise ArithmeticError("out of range")
        return made_up(cell)

    monkeypatch.setattr(reproduce, "run_cell", work)
    assert run(tmp_path, "disagreement") == 2
    assert "2 of 12 fits failed" in capsys.readouterr().err
    assert [row["error"] for row in rows(tmp_path)].count("ArithmeticError: out of range") == 2
    assert "Fits that failed: 2" in (tmp_path / "report.md").read_text()


@pytest.mark.usefixtures("tiny")
def test_other_options_in_the_same_folder_are_refused(tmp_path, capsys):
    assert run(tmp_path, "iris") == 0
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert (plan["quick"], plan["seed"], plan["studies"]) == (True, 0, ["iris"])
    before = (tmp_path / "report.md").read_bytes()
    assert run(tmp_path, "iris", "--seed", "1") == 2
    assert "another --out" in capsys.readouterr().err
    assert (tmp_path / "report.md").read_bytes() == before
    (tmp_path / "plan.json").write_text(json.dumps(plan | {"dualview": "0.0.1"}))
    assert run(tmp_path, "iris") == 2
    assert "dualview 0.0.1" in capsys.readouterr().err


def test_an_unknown_name_lists_the_names_and_makes_nothing(tmp_path, capsys):
    assert run(tmp_path / "new", "agrement") == 2
    message = capsys.readouterr().err
    assert "'agrement'" in message
    assert "disagreement" in message
    assert "sensitivity" in message
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("tiny")
@pytest.mark.filterwarnings("always::FutureWarning")
def test_the_command_of_before_runs_it_in_a_checkout_and_says_where_it_is(tmp_path, capsys):
    words = ["reproduce", "iris", "--out", str(tmp_path), "--quick", "--jobs", "1", "--quiet"]
    assert cli.main(words) == 0
    assert {row["study"] for row in rows(tmp_path)} == {"iris"}
    out, errors = capsys.readouterr()
    assert "Wrote" in out
    assert "warning: dualview reproduce will go" in errors
    assert "python -m reproduction" in errors


def test_the_command_of_before_says_where_the_experiments_are_if_installed(
    tmp_path, monkeypatch, capsys
):
    installed = tmp_path / "lib" / "dualview" / "cli" / "commands.py"
    monkeypatch.setattr(commands, "__file__", str(installed))
    assert cli.main(["reproduce", "--out", str(tmp_path / "new")]) == 2
    message = capsys.readouterr().err
    assert "the folder reproduction of its source" in message
    assert "python -m reproduction all" in message
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_one_is_refused_before_the_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reproduce, "run_cell", lambda _: pytest.fail("worked"))
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "file", "iris") == 2
    assert "must be a folder" in capsys.readouterr().err
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "plan.json").write_text("[]")
    assert run(tmp_path / "old", "iris") == 2
    assert "Give another folder" in capsys.readouterr().err


def test_the_plan_is_the_papers():
    plan = Plan.full(0)
    cells = [cell for name in ALL[:3] for cell in STUDIES[name](plan)]
    assert len(set(cells)) == 450
    assert {cell.n_threads for cell in cells} == set(range(10, 101, 10))
    assert {cell.effort.n_iterations for cell in cells} == {30000}
    assert {cell.n_users for cell in cells} == {50}


def test_all_is_the_four_main_studies_and_names_come_in_order():
    assert chosen([]) == chosen(["all"]) == list(ALL)
    assert chosen(["users", "all", "models"]) == [*ALL, "models", "users"]


def frame_of(*nll):
    cells = [TINY.cell("agreement", "dual-DP", 10, repetition) for repetition in range(len(nll))]
    frame = tidy(
        "agreement",
        [reproduce.Outcome(cell, {"nll": value}) for cell, value in zip(cells, nll, strict=True)],
    )
    return frame.assign(ari=0.5)


def test_averages_are_means_and_standard_errors():
    row = averages(frame_of(2.0, 3.0, float("nan")), ["model", "n_threads"], "nll").iloc[0]
    assert (row["mean"], row["error"], row["n"]) == (2.5, pytest.approx(0.5), 2)


def test_gains_have_the_right_sign():
    (point,) = compared(frame_of(2.0, 3.0), "agreement", "nll")
    assert point.gain == pytest.approx(3.3665 - 2.5)
    assert point.standard_errors == pytest.approx(point.gain / (0.1179**2 + 0.5**2) ** 0.5)
    (point,) = compared(frame_of(2.0), "agreement", "ari")
    assert point.gain == pytest.approx(0.5 - 0.4746)


def test_the_figure_has_the_published_points_and_ours():
    left, right = figures.results(frame_of(2.5, 2.7), "agreement").axes
    for ax, metric, ours in ((left, "nll", 2.6), (right, "ari", 0.5)):
        drawn = {box.get_label(): box.lines[0].get_ydata() for box in ax.containers}
        assert drawn["dual-DP, published"].tolist() == [
            p.mean for p in published.curve("agreement", metric, "dual-DP")
        ]
        assert drawn["dual-DP, dualview"].tolist() == [pytest.approx(ours)]
