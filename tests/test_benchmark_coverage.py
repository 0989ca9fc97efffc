"""The benchmark of coverage: its worlds and its table."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, "benchmarks", raising=False)


def test_a_world_is_cut_into_known_and_new_users() -> None:
    from benchmarks.coverage import N_KNOWN, N_NEW, N_TEST, N_TRAINING, draw_world

    world = draw_world("agreement", 3)
    assert world.features.shape == (N_KNOWN, 2)
    assert world.new_features.shape == (N_NEW, 2)
    assert (len(world.training.observed), len(world.test.observed)) == (N_TRAINING, N_TEST)
    assert world.latent.shape == (N_KNOWN + N_NEW,)


def test_a_row_counts_true_values_inside_central_intervals() -> None:
    from benchmarks.coverage import Found, row

    levels = [np.array([0.5, 0.3, 0.12, 0.02]), np.array([0.5, 0.5]), np.array([0.0, 1.0])]
    cells = row(
        "agreement", 200, "flat", [Found(levels, [1.0, 2.0]), Found(levels, [3.0, 2.0])]
    ).split(" | ")
    assert cells[3] == "50 ± 0, 75 ± 0, 75 ± 0"
    assert cells[4] == "100 ± 0, 100 ± 0, 100 ± 0"
    assert cells[5] == "0 ± 0, 0 ± 0, 0 ± 0"
    assert float(cells[6].split()[0]) == pytest.approx(2.0)
