"""Averages of clusters' members with intervals, by column."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

import dualview as dv
from dualview import plots
from dualview.errors import InputError
from plots.artists import clouds, colliding_texts, segments


@pytest.fixture(scope="module")
def users() -> pd.DataFrame:
    rng, side = np.random.default_rng(1), np.arange(40) % 2
    return pd.DataFrame(
        {
            "noise": rng.standard_normal(40),
            "age": 30.0 + 20.0 * side + rng.standard_normal(40),
            "town": np.array(["x", "y", "z"])[np.where(side, 2, rng.integers(0, 2, 40))],
            "member": rng.random(40) < 0.5,
        }
    )


@pytest.fixture(scope="module")
def model(users: pd.DataFrame) -> Any:
    return dv.DualViewMixture(2, n_warmup=30, n_draws=40, n_chains=2).fit(users)


def titles(axes: Any) -> list[str]:
    return [ax.get_title(loc="left") for ax in axes]


def test_markers_and_intervals_are_those_of_the_table(model: Any) -> None:
    axes = plots.profiles(model, probability=0.8)
    table = model.profiles(probability=0.8)
    everybody = model.profiles("everybody", probability=0.8)
    for ax in axes:
        name, _, level = ax.get_title(loc="left").partition(": ")
        rows = table[(table["column"] == name) & (table["level"] == level)]
        scale = 100.0 if level else 1.0
        places = [cloud.get_offsets()[0] for cloud in clouds(ax)]
        np.testing.assert_allclose([at for at, _ in places], scale * rows["median"])
        np.testing.assert_allclose([row for _, row in places], rows["cluster"])
        ends = [segment[:, 0] for segment in segments(ax)]
        np.testing.assert_allclose(ends, scale * rows[["low", "high"]].to_numpy())
        (own,) = everybody[
            (everybody["column"] == name) & (everybody["level"] == level)
        ].itertuples()
        np.testing.assert_allclose(ax.lines[0].get_xdata(), scale * own.median)
        band = ax.patches[0].get_extents().transformed(ax.transData.inverted())
        np.testing.assert_allclose([band.x0, band.x1], [scale * own.low, scale * own.high])


def test_columns_that_distinguish_come_first_and_levels_have_panels(model: Any) -> None:
    found = titles(plots.profiles(model))
    assert found[0] == "age"
    assert set(found) == {"age", "noise", "town: x", "town: y", "town: z", "member: True"}
    assert set(found[-3:]) & {"noise", "member: True"} == {"noise", "member: True"}


def test_contrasts_are_drawn_beside_zero(model: Any) -> None:
    (ax,) = plots.profiles(model, "age", against=0)
    ((at, place),) = (cloud.get_offsets()[0] for cloud in clouds(ax))
    np.testing.assert_allclose(
        at, model.profiles(1, against=0).set_index("column")["median"]["age"]
    )
    assert place == 0
    assert ax.lines[0].get_xdata()[0] == 0
    assert ax.get_xlabel() == "mean, less that of cluster 0"
    assert [text.get_text() for text in ax.get_yticklabels()] == ["1  (20)"]
    (ax,) = plots.profiles(model, ["age"], against="everybody")
    assert ax.get_xlabel() == "mean, less that of everybody"
    assert len(clouds(ax)) == 2


def test_axes_and_posteriors_are_taken(model: Any) -> None:
    from matplotlib.figure import Figure

    given = Figure().subplots(1, 2)
    found = plots.profiles(model.posterior_, ["age", "noise"], axes=given)
    assert list(found) == list(given)


def test_texts_do_not_collide(model: Any, inferred: Any) -> None:
    assert colliding_texts(plots.profiles(model)[0].figure) == []
    assert colliding_texts(plots.profiles(inferred)[0].figure) == []


def test_long_names_are_cut_in_their_middle(fit: Any) -> None:
    """Also wide letters, several lines, and signs that mean mathematics elsewhere."""
    rng = np.random.default_rng(2)
    question = "How often in the last four weeks did you feel, all in all,"
    names = [f"{question} tired?", f"{question} well?", "W" * 60, "cost in $ or\n€, as $x^", "age"]
    users = pd.DataFrame(rng.standard_normal((30, 5)), columns=names)
    users["answer " * 12] = rng.choice(["none of " * 9, "all of " * 9, "some"], 30)
    model = fit(users, n_clusters=2, n_warmup=2, n_draws=4, n_chains=1)
    axes = plots.profiles(model)
    found = titles(axes)
    assert colliding_texts(axes[0].figure) == []
    for ax, title in zip(axes, found, strict=True):
        text = next(own for own in ax.findobj(Text) if own.get_text() == title)
        assert text.get_window_extent().width <= 1.02 * ax.get_window_extent().width
    assert len(set(found)) == len(found) == 8
    assert {"age", "cost in $ or €, as $x^"} <= set(found)
    tired = next(title for title in found if title.endswith("tired?"))
    assert tired.startswith("How often")
    assert "…" in tired
    assert sum(title.startswith("answer") for title in found) == 3
    assert any(title.endswith(": some") for title in found)


def test_few_clusters_and_few_panels_when_there_are_many(fit: Any) -> None:
    rng, group = np.random.default_rng(0), np.repeat(np.arange(16), [8] * 14 + [1, 1])
    x = pd.DataFrame({f"x{j}": rng.standard_normal(len(group)) for j in range(12)})
    model = fit(x, n_clusters=16, init=group, n_warmup=0, n_draws=1, n_chains=1)
    shown = type("Shown", (dv.DualViewMixture,), {"labels_": group})()
    shown.posterior_ = model.posterior_
    axes = plots.profiles(shown)
    assert len(axes) == 9
    assert len(clouds(axes[0])) == 12
    assert colliding_texts(axes[0].figure) == []


@pytest.mark.parametrize("columns", ["weight", ["age", "nowhere"], []])
def test_other_columns_are_refused(model: Any, columns: Any) -> None:
    with pytest.raises(InputError, match=r"profiles shows .*age.*; got (weight|nowhere|no column)"):
        plots.profiles(model, columns)


@pytest.mark.parametrize("against", [7, "somebody"])
def test_other_clusters_are_refused(model: Any, against: Any) -> None:
    with pytest.raises(InputError, match="A cluster is a number from 0 to 1"):
        plots.profiles(model, against=against)
