"""The benchmark of finished fits: what its table says."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, "benchmarks", raising=False)


def test_a_row_counts_what_passed_and_has_medians_largest_and_error() -> None:
    from benchmarks.finished import Fit, line

    fits = [
        Fit(True, 1.0, 2.0, 1250, 0.2, 0.9),
        Fit(False, 5.0, 9.0, 100_000, 0.36, 0.7),
        Fit(True, 2.0, 4.0, 2500, 0.2, 0.8),
    ]
    assert (
        line("iris", fits)
        == "| iris | 2 of 3 | 2.0 (5.0) | 4.0 (9.0) | 2,500 (100,000) | 20% | 0.800 ± 0.058 |"
    )
