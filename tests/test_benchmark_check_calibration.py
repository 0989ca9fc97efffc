"""The benchmark of the checks' calibration: its worlds and its table."""

import sys
from pathlib import Path

import numpy as np
import pytest

from dualview.posterior.checks.model_checks import VERDICTS, Check

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, "benchmarks", raising=False)


def test_worlds_have_clusters_in_turn() -> None:
    from benchmarks.check_calibration import N_THREADS, N_USERS, right_world

    spreads = []
    for seed in (0, 1):
        features, behavior = right_world(seed)
        assert features.shape == (N_USERS, 2)
        assert behavior.n_observations == N_THREADS
        spreads.append(features.std(axis=0).max())
    assert spreads[0] > 2.0 > spreads[1]


def test_a_row_says_how_uniform_p_values_are() -> None:
    from benchmarks.check_calibration import row

    def check(p: float, verdict: str) -> Check:
        return Check("order", "about", 0.0, 0.0, 1.0, p, verdict, "")

    levels = (np.arange(40) + 0.5) / 40
    cells = row("order", [check(p, VERDICTS[int(p < 0.02)]) for p in levels]).split(" | ")
    assert cells[2] == "0.50 ± 0.05"
    assert cells[3].startswith("0.01 (p 1)")
    assert cells[4:] == ["2", "1 |"]
    assert row("views", [check(np.nan, VERDICTS[0])] * 3) == "| views | 3 | | | | 0 |"
