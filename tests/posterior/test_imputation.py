"""Cells filled in: of the fit's users and of new ones, in the user's units."""

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from checks import ACCEPT
from dualview.errors import InputError

pytestmark = [
    pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning"),
    pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning"),
]

SETTINGS = {"n_warmup": 200, "n_draws": 400, "n_chains": 2}


def people(n: int = 60) -> pd.DataFrame:
    """Two groups that differ in every column; the second cell of each kind is missing for
    somebody."""
    rng = np.random.default_rng(5)
    group = np.arange(n) % 2
    grades = pd.Categorical.from_codes(
        np.clip(3 * group + rng.integers(-1, 2, n), 0, 3),
        ["low", "mid", "high", "top"],
        ordered=True,
    )
    earned = rng.normal(1000.0 + 2000.0 * group, 100.0)
    hidden = np.arange(n) >= n - 6
    table = pd.DataFrame(
        {
            "height": rng.normal(160.0 + 20.0 * group, 3.0),
            "posts": rng.poisson(np.where(group == 1, 30, 3)),
            "grade": grades,
            "earned_low": np.where(hidden, 100.0 * np.floor(earned / 100.0), earned),
            "earned_high": np.where(hidden, np.inf, earned),
            "town": np.where(group == 1, "Metz", "Lyon"),
        },
        index=[f"u{i}" for i in range(n)],
    )
    table["posts"] = table["posts"].astype("Int64")
    for place, name in enumerate(["height", "posts", "grade", "town"]):
        table.loc[f"u{place + 10}", name] = None
    return table


COLUMNS = {
    "earned": dv.Censored("earned_low", "earned_high"),
    "posts": {"kind": "count", "scale": "log1p"},
}


@pytest.fixture(scope="module")
def model() -> dv.DualViewMixture:
    return dv.DualViewMixture(columns=COLUMNS, **SETTINGS).fit(people())


def test_cells_of_the_fit(model: dv.DualViewMixture) -> None:
    found = model.impute()
    table = people()
    cells = found.cells.set_index(["user", "column"])
    assert set(cells.index) == {
        ("u10", "height"), ("u11", "posts"), ("u12", "grade"), ("u13", "town"),
        *((f"u{i}", "earned") for i in range(54, 60)),
    }  # fmt: skip
    assert 150 < cells.loc[("u10", "height"), "value"] < 170
    assert 15 < cells.loc[("u11", "posts"), "value"] < 50
    assert float(cells.loc[("u11", "posts"), "value"]).is_integer()
    assert cells.loc[("u12", "grade"), "value"] in ("low", "mid")
    assert cells.loc[("u13", "town"), "value"] == "Metz"
    assert cells.loc[("u13", "town"), "probability"] > 0.8
    assert np.isnan(cells.loc[("u10", "height"), "probability"])
    low, high = cells.loc[("u10", "height"), ["low_95", "high_95"]]
    inner = cells.loc[("u10", "height"), ["low_80", "high_80"]]
    assert low < inner.iloc[0] < cells.loc[("u10", "height"), "value"] < inner.iloc[1] < high
    for i in range(54, 60):
        assert (found.draws(f"u{i}", "earned") >= table.loc[f"u{i}", "earned_low"]).all()


def test_the_completed_table_keeps_what_is_known(model: dv.DualViewMixture) -> None:
    found, table = model.impute(), people()
    assert found.frame.index.tolist() == table.index.tolist()
    assert list(found.frame) == ["height", "posts", "grade", "earned", "town"]
    assert not found.frame.isna().any(axis=None)
    for name in ("height", "posts", "grade", "town"):
        known = table[name].notna()
        assert found.frame.loc[known, name].tolist() == table.loc[known, name].tolist()
    exact = np.isfinite(table["earned_high"])
    np.testing.assert_allclose(found.frame.loc[exact, "earned"], table.loc[exact, "earned_low"])
    one, two = found.completed(0), found.completed(1)
    assert one.loc["u10", "height"] == found.draws("u10", "height")[0]
    assert one.loc["u10", "height"] != two.loc["u10", "height"]
    assert one.loc["u0"].equals(two.loc["u0"])


def test_draws_are_the_posteriors(model: dv.DualViewMixture) -> None:
    found, post = model.impute(), model.posterior_
    names = post.tree["posterior"].coords["cell"].values.tolist()
    np.testing.assert_array_equal(
        found.draws("u10", "height"), post.flat("features.cells")[:, names.index("u10/height")]
    )
    drawn = found.draws("u13", "town")
    share = found.probabilities("town").loc["u13", "Metz"]
    assert (
        abs((drawn == "Metz").mean() - share)
        < ACCEPT * np.sqrt(share * (1 - share) / len(drawn)) + 1e-9
    )
    np.testing.assert_allclose(found.probabilities("grade").sum(axis=1), 1.0)
    assert found.n_draws == 800


def test_the_table_of_the_fit_means_its_users(model: dv.DualViewMixture) -> None:
    pd.testing.assert_frame_equal(model.impute(people()).cells, model.impute().cells)


def test_new_users(model: dv.DualViewMixture) -> None:
    """Somebody like the second group, of whom little is known; and somebody of whom nothing is."""
    new = pd.DataFrame(
        {"height": [181.0, None], "posts": [None, None], "grade": [None, None],
         "earned_low": [2000.0, None], "earned_high": [None, None], "town": [None, None]},
        index=["eve", "bob"],
    )  # fmt: skip
    found = model.impute(new, n_draws=2000)
    cells = found.cells.set_index(["user", "column"])
    assert len(cells) == 9
    assert 15 < cells.loc[("eve", "posts"), "value"] < 60
    assert cells.loc[("eve", "town"), "value"] == "Metz"
    assert cells.loc[("eve", "grade"), "value"] in ("high", "top")
    assert (found.draws("eve", "earned") >= 2000.0).all()
    assert 2500 < cells.loc[("eve", "earned"), "value"] < 3500
    assert 0.3 < found.probabilities("town").loc["bob", "Metz"] < 0.7
    spread = cells.loc[("bob", "height"), ["low_80", "high_80"]]
    assert spread.iloc[0] < 165 < 175 < spread.iloc[1]
    again = model.impute(new, n_draws=2000)
    pd.testing.assert_frame_equal(again.cells, found.cells)
    assert (
        model.impute(new, n_draws=2000, seed=1).draws("bob", "height")[0]
        != found.draws("bob", "height")[0]
    )


def test_an_array_with_missing_cells_and_one_without() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 2))
    x[:, 1] = x[:, 0] + 0.1 * x[:, 1]
    complete = dv.DualViewMixture(1, **SETTINGS).fit(x)
    assert complete.impute().cells.empty
    np.testing.assert_array_equal(complete.impute().frame.to_numpy(), x)
    filled = complete.impute([[1.0, np.nan], [np.nan, -2.0]])
    np.testing.assert_allclose(filled.frame.to_numpy(), [[1.0, 1.0], [-2.0, -2.0]], atol=0.2)
    x[3, 1] = np.nan
    holes = dv.DualViewMixture(1, **SETTINGS).fit(x)
    assert holes.impute().frame.loc[3, "x1"] == pytest.approx(x[3, 0], abs=0.2)


def test_messages(model: dv.DualViewMixture) -> None:
    found = model.impute()
    with pytest.raises(InputError, match="No cell of user 'u0' in column 'height' was filled in"):
        found.draws("u0", "height")
    with pytest.raises(
        InputError, match="'height' is no column with levels; those are grade, town"
    ):
        found.probabilities("height")
    with pytest.raises(InputError, match="draw must be from 0 to 799; got 800"):
        found.completed(800)
    with pytest.raises(InputError, match="n_draws"):
        model.impute(people(), n_draws=0)
    forum = dv.datasets.agreement(10, 20, seed=0)
    without = dv.DualViewMixture(1, n_warmup=5, n_draws=5, n_chains=1)
    without.fit(None, dv.SharedOutcome(forum.participation, forum.outcome))
    with pytest.raises(InputError, match="fitted without features"):
        without.impute()
