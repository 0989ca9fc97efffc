"""The benchmark of held-out cells: its scores, its tables, and the distributions it makes of
draws."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dualview as dv
from dualview.columns import Column

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, "benchmarks", raising=False)


def test_cells_score_by_the_probability_of_their_interval_and_by_density_where_they_are_exact() -> (
    None
):
    from benchmarks.cells.scores import Normals, scored

    normals = Normals(np.array([[0.0, 3.0]]), np.array([[1.0, 2.0]]), np.array([[0.25, 0.75]]))
    parts = stats.norm([0.0, 3.0], [1.0, 2.0])
    count = scored(Column("posts", "count", lowest=0.0), np.array([2.0]), normals, 1.0)
    mass = np.dot([0.25, 0.75], parts.cdf(2.5) - parts.cdf(1.5))
    np.testing.assert_allclose(count.logs, [np.log(mass)])
    none = scored(Column("posts", "count", lowest=0.0), np.array([0.0]), normals, 1.0)
    np.testing.assert_allclose(none.logs, [np.log(np.dot([0.25, 0.75], parts.cdf(0.5)))])
    exact = scored(Column("age", "continuous"), np.array([2.0]), normals, 5.0)
    np.testing.assert_allclose(exact.logs, [np.log(5.0 * np.dot([0.25, 0.75], parts.pdf(2.0)))])
    level = scored(
        Column("town", "nominal"), np.array([1.0, 0.0]), np.array([[0.2, 0.8], [0.4, 0.6]]), 1.0
    )
    np.testing.assert_allclose(level.logs, np.log([0.8, 0.4]))
    assert level.right.tolist() == [1.0, 0.0]
    np.testing.assert_allclose(normals.shares(np.array([1.0, 2.0])).sum(axis=1), 1.0)


def test_calibrated_cells_are_covered_as_often_as_intervals_say() -> None:
    from benchmarks.cells.scores import COVERAGES, covered

    ends = np.linspace(0.0, 1.0, 8)  # cells that share out the whole distribution
    widths = np.diff(ends)
    np.testing.assert_allclose(widths @ covered(ends[:-1], ends[1:]), COVERAGES)
    exact = np.array([0.01, 0.2, 0.5])
    assert covered(exact, exact).tolist() == [[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]]


def test_the_calibration_error_weighs_bins_by_their_cells() -> None:
    from benchmarks.cells.scores import calibration_error

    confidence, right = np.array([0.62, 0.64, 0.66, 0.95]), np.array([1.0, 0.0, 1.0, 1.0])
    assert calibration_error(confidence, right) == pytest.approx((abs(1.92 - 2.0) + 0.05) / 4)


def test_tables_hide_known_cells_only() -> None:
    from benchmarks.cells.tables import TABLES

    for make in TABLES.values():
        table = make()
        hidden, known = table.hide(0.3, [1]), table.frame.notna().to_numpy()
        assert hidden.sum() == round(0.3 * known.sum())
        assert not (hidden & ~known).any()
        assert {"nominal"} < {column.kind for column in table.codebook.columns}
        masked = dv.describe_columns(table.frame.mask(hidden), table.declared)
        assert masked["kind"].tolist() == [column.kind for column in table.codebook.columns]


def test_a_cell_given_the_rest_is_the_conditional_of_its_clusters_gaussian() -> None:
    from benchmarks.cells.mixture import given_the_rest

    rng = np.random.default_rng(0)
    users = pd.DataFrame(
        rng.standard_normal((30, 3)) @ rng.standard_normal((3, 3)), columns=list("abc")
    )
    users["b"] = users["b"].round(1)
    users = users.mask(rng.random(users.shape) < 0.2)
    post = dv.DualViewMixture(n_warmup=5, n_draws=4, n_chains=2).fit(users).posterior_
    means, sds = given_the_rest(post)
    for s, u, j in [(0, 0, 0), (3, 7, 1), (7, 29, 2)]:
        row = np.searchsorted(post.components["owner"], s) + post.flat("z")[s, u]
        factor = post.components["features.factors"][row]
        covariance = post.spec.units["features"].covariances(np.linalg.inv(factor @ factor.T))
        centre = post.spec.units["features"].vectors(post.components["features.means"][row])
        x, drawn = (
            post.cells.low[u].copy(),
            dict(
                zip(
                    zip(*post.cells.drawn, strict=True), post.flat("features.cells")[s], strict=True
                )
            ),
        )
        for d in range(3):
            x[d] = drawn.get((u, d), x[d])
        others = [d for d in range(3) if d != j]
        slopes = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, j])
        assert means[s, u, j] == pytest.approx(centre[j] + slopes @ (x - centre)[others])
        assert sds[s, u, j] ** 2 == pytest.approx(covariance[j, j] - slopes @ covariance[others, j])


def test_the_floor_is_a_mixture_with_the_marginals_of_the_same_mask() -> None:
    from benchmarks.cells.__main__ import MIXED, Result, mixed
    from benchmarks.cells.scores import Scored

    def result(method: str, mask: int, log: float) -> Result:
        part = Scored(np.array([log]), np.empty((0, 3)), np.empty(0), np.empty(0))
        return Result(method, "wages", 0.3, mask, part, part, 1.0)

    found = [
        result("dualview", 0, -100.0),
        result("dualview", 1, -1.0),
        result("marginals", 1, -9.0),
        result("marginals", 0, -2.0),
    ]
    rows = list(mixed(found))
    assert [(row.method, row.mask) for row in rows] == [(MIXED, 0), (MIXED, 1)]
    expected = [np.log(0.01) - 2.0, np.log(0.99 * np.exp(-1.0) + 0.01 * np.exp(-9.0))]
    np.testing.assert_allclose([row.mean for row in rows], expected)


def test_a_method_without_its_package_is_left_out_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.cells.__main__ import available

    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "lace" else "found"
    )
    assert list(available(["dualview", "Lace", "StepMix"])) == ["dualview", "StepMix"]
    said = capsys.readouterr().out
    assert "Lace is left out" in said
    assert ".[benchmarks]" in said
