"""The examples run, and so do the pages of the guide."""

import csv
import doctest
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page for page in (ROOT / "docs").glob("*.md") if ">>>" in page.read_text(encoding="utf-8")
)
LONG_PAGES = {
    "agreement.md",
    "arviz.md",
    "behavior-options.md",
    "behaviors.md",
    "checks.md",
    "comparing.md",
    "draws.md",
    "link.md",
    "new-behavior.md",
    "posterior.md",
    "variational.md",
}


def pages() -> list[Any]:
    return [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow] * (page.name in LONG_PAGES))
        for page in PAGES
    ]


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(
        spec
    )  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cold_start() -> ModuleType:
    return example("cold_start")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of statsmodels
def test_repeated_measures_writes_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example("repeated_measures").main(["--quick", "--out", str(tmp_path / "new")])
    with open(tmp_path / "new" / "repeated_measures.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == 2 * [
        "separate",
        "pooled",
        "mixed",
        "dual",
        "noise",
        "one",
    ]
    by_name = {(row["study"], row["method"]): float(row["nll"]) for row in rows}
    for study in ("sleepstudy", "BodyWeight"):
        assert by_name[study, "dual"] < by_name[study, "pooled"]
    assert "RMSE" in capsys.readouterr().out


def test_cold_start_writes_table_and_picture(
    cold_start: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cold_start.main(["--quick", "--out", str(tmp_path / "new" / "folder"), "--seed", "3"])
    folder = tmp_path / "new" / "folder"
    assert {path.name for path in folder.iterdir()} == {
        f"cold_start.{ending}" for ending in ("csv", "txt", "png")
    }
    with open(folder / "cold_start.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    plan = cold_start.QUICK
    assert [(row["model"], int(row["threads"])) for row in rows] == [
        (name, n) for name in cold_start.MODELS for n in plan.n_observed
    ]
    for row in rows:
        assert float(row["rmse"]) > 0
        assert float(row["rmse_se"]) >= 0
        assert 0 <= float(row["coverage_80"]) <= float(row["coverage_95"]) <= 1
    assert (folder / "cold_start.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert all(f"{float(row['rmse']):.1f} ±" in printed for row in rows)
    assert "dual-DP: 0 of 2 fits converged" in printed


def test_the_picture_of_the_link_has_shares_that_sum_to_one(tmp_path: Path) -> None:
    example("link").main(["--quick", "--out", str(tmp_path / "new")])
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"link.csv", "link.png"}
    with open(tmp_path / "new" / "link.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == ["Truth", "Without a link", "With a link"]
    for row in rows:
        parts = ("covariates", "clusters", "link", "users", "noise")
        assert sum(float(row[part]) for part in parts) == pytest.approx(1.0, abs=1e-3)
    assert float(rows[1]["link"]) == 0.0
    assert (tmp_path / "new" / "link.png").read_bytes().startswith(b"\x89PNG")


def test_cold_start_keeps_new_users_out_of_training(cold_start: ModuleType) -> None:
    plan = cold_start.QUICK
    case = cold_start.draw_case(plan, seed=0)
    assert len(case.training) == plan.n_known
    newcomers = case.new_threads.participation[:, plan.n_known :] > 0
    assert (newcomers.sum(axis=1) == 1).all()
    for n in plan.n_observed:
        seen = cold_start.first_threads(case, n).participation[:, plan.n_known :] > 0
        assert (seen.sum(axis=0) == n).all()


def test_cold_start_statistics(cold_start: ModuleType) -> None:
    rng = np.random.default_rng(0)
    errors = rng.normal(0.0, 3.0, (400, 25))
    rmse, error = cold_start.rmse_with_error(errors)
    assert rmse == pytest.approx(np.sqrt((errors**2).mean()))
    assert error == pytest.approx(
        3.0 / np.sqrt(2 * errors.size), rel=0.2
    )  # the normal law's, for independent users
    together = np.repeat(errors[:, :1], 25, axis=1)
    assert cold_start.rmse_with_error(together)[1] == pytest.approx(
        3.0 / np.sqrt(2 * len(errors)), rel=0.2
    )
    levels = np.array([[0.01, 0.05, 0.2], [0.5, 0.92, 0.99]])
    np.testing.assert_array_equal(cold_start.inside(levels, 0.8), [[0, 0, 1], [1, 0, 0]])
    assert cold_start.mean_with_error(cold_start.inside(levels, 0.95)) == (
        pytest.approx(2 / 3),
        pytest.approx(0.0),
    )


@pytest.mark.parametrize("page", pages())
def test_guide(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # examples may write files
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert result.attempted > 0
    assert result.failed == 0
