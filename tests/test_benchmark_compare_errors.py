"""The table of the benchmark of the errors of compare."""

import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, "benchmarks", raising=False)


def test_the_table_counts_verdicts_and_those_that_are_wrong() -> None:
    from benchmarks.compare_errors import Found, summary

    results = pd.DataFrame(
        [
            Found("a", 0, 10.0, 6.0, 1.0, 2.0, 0),
            Found("a", 1, 10.0, -6.0, 1.0, 8.0, 0),
            Found("a", 2, -3.0, 1.0, 1.0, 2.0, 0),
        ]
    )
    independent, ours = (line.split(" | ") for line in list(summary(results))[2:])
    assert independent[4] == "independent"
    assert independent[6:] == ["2", "1 |"]
    assert ours[6:] == ["1", "0 |"]


def test_designs_have_observations_and_new_ones() -> None:
    from benchmarks.compare_errors import DESIGNS

    for draw in DESIGNS.values():
        features, behavior, new = draw(0)
        assert len(features) == len(behavior) == len(new)
        assert new.n_observations == 2000
