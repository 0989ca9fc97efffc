"""Bars of levels by cluster."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview import plots
from dualview.errors import InputError


@pytest.fixture(scope="module")
def towns() -> pd.DataFrame:
    rng, side = np.random.default_rng(1), np.arange(40) % 2
    table = pd.DataFrame(
        {
            "age": 30.0 + 20.0 * side + rng.standard_normal(40),
            "town": np.array(["x", "y", "z"])[np.where(side, 2, rng.integers(0, 2, 40))],
            "grade": pd.Categorical.from_codes(
                rng.integers(0, 3, 40), ["low", "some", "high"], ordered=True
            ),
        }
    )
    table.loc[0, "town"] = None
    return table


@pytest.fixture(scope="module")
def model(towns: pd.DataFrame) -> Any:
    return dv.DualViewMixture(2, n_warmup=30, n_draws=40, n_chains=2).fit(towns)


def widths(ax: Any) -> np.ndarray:
    """Of the bars, (levels, clusters and all)."""
    return np.array([[bar.get_width() for bar in level] for level in ax.containers])


def test_bars_are_shares_of_levels(model: Any, towns: pd.DataFrame) -> None:
    town, grade = plots.levels(model)
    assert [ax.get_title(loc="left") for ax in (town, grade)] == ["town", "grade"]
    for ax, name in ((town, "town"), (grade, "grade")):
        found = widths(ax)
        np.testing.assert_allclose(found.sum(axis=0), 1.0)
        shares = pd.Series(towns[name]).value_counts(normalize=True).sort_index()
        np.testing.assert_allclose(found[:, -1], shares.to_numpy())
        for cluster in range(2):
            own = pd.Series(towns[name])[model.labels_ == cluster].value_counts(normalize=True)
            np.testing.assert_allclose(
                found[:, cluster], [own.get(level, 0.0) for level in shares.index]
            )


def test_columns_and_axes_are_chosen(model: Any) -> None:
    (ax,) = plots.levels(model, "grade")
    assert plots.levels(model.posterior_, ["grade"], axes=[ax])[0] is ax
    assert [text.get_text() for text in ax.get_legend().get_texts()][:3] == ["low", "some", "high"]


def test_the_rarest_of_many_levels_share_a_bar() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"age": rng.standard_normal(60), "team": [f"t{k}" for k in rng.integers(0, 12, 60)]}
    )
    ax = plots.levels(
        dv.DualViewMixture(2, n_warmup=5, n_draws=5, n_chains=1, columns={"team": "nominal"}).fit(
            table
        )
    )[0]
    assert len(ax.containers) == 8
    assert ax.get_legend().get_texts()[-1].get_text().endswith("others")
    np.testing.assert_allclose(widths(ax).sum(axis=0), 1.0)


@pytest.mark.parametrize("columns", ["age", ["town", "nowhere"], []])
def test_other_columns_are_refused(model: Any, columns: Any) -> None:
    with pytest.raises(InputError, match="the fit has town, grade"):
        plots.levels(model, columns)
