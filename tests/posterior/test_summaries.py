"""The clusters of a fit in words: one summary for Python, notebooks, commands and reports."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview import cli
from dualview.posterior.summaries import summarize
from dualview.report import collect_run
from dualview.runs.run import load_run, summary_of_run
from dualview.runs.summary_file import FILE, text_for_commands
from dualview.words.clusters import distinct_names, summary_text, traits_text

GROUP = np.repeat([0, 1, 2], [14, 10, 6])
TOWNS = np.array(["Bern", "Genf", "Zug"])


def write_tables(folder: Path) -> list[str]:
    """Users in three clear groups, with a column that the fit is told to ignore and cells that are
    missing, and answers with two coefficients each."""
    rng = np.random.default_rng(0)
    users = pd.DataFrame(
        {
            "user": [f"user{u:02d}" for u in range(30)],
            "age": np.array([30.0, 50.0, 70.0])[GROUP] + rng.normal(size=30),
            "height": rng.normal(size=30),
            "town": TOWNS[GROUP],
            "serial": 1000.0 * GROUP + np.arange(30),
        }
    )
    users.loc[[3, 20], "age"] = None
    users.to_csv(folder / "users.csv", index=False)
    user, dose = np.repeat(np.arange(30), 4), rng.normal(size=120)
    outcome = np.array([0.0, 5.0, -5.0])[GROUP[user]] + dose + 0.1 * rng.normal(size=120)
    answers = pd.DataFrame({"user": users["user"][user], "dose": dose, "outcome": outcome})
    answers.to_csv(folder / "answers.csv", index=False)
    kinds = (
        '[serial]\nkind = "ignore"\n[town]\nkind = "nominal"\nlevels = ["Bern", "Genf", "Zug"]\n'
    )
    (folder / "columns.toml").write_text(kinds)
    paths = [str(folder / name) for name in ("users.csv", "answers.csv", "columns.toml")]
    return [*paths[:2], "--kind", "regression", "--by", "dose", "--columns", paths[2]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("summary")
    short = ["--warmup", "60", "--draws", "60", "--chains", "2", "--quiet"]
    words = ["fit", *write_tables(folder), "--out", str(folder / "run"), *short]
    assert cli.main(words) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def model(run: Path) -> dv.DualViewMixture:
    return load_run(run)


def test_a_row_for_each_cluster(model: dv.DualViewMixture) -> None:
    found = model.summary()
    assert isinstance(found, pd.DataFrame)
    assert found["users"].tolist() == np.bincount(model.labels_).tolist() == [14, 10, 6]
    np.testing.assert_allclose(found["share"], found["users"] / 30)
    membership = model.posterior_.partition_estimate().membership
    for cluster, row in found.iterrows():
        members = np.flatnonzero(model.labels_ == cluster)
        assert row["certainty"] == pytest.approx(membership[members].mean())
        assert set(row["typical_users"]) <= {model.posterior_.user_ids[u] for u in members}
        own = model.posterior_.flat("latent")[:, members].mean(axis=1)
        for d, name in enumerate(("intercept", "dose")):
            ends = [row[f"latent.{name}_{end}"] for end in ("low", "median", "high")]
            np.testing.assert_allclose(ends, np.quantile(own[:, d], [0.025, 0.5, 0.975]))


def test_names_tell_what_stands_out_and_only_columns_of_the_fit(model: dv.DualViewMixture) -> None:
    found = model.summary()
    assert found["name"].is_unique
    assert "low age" in found["name"][0]
    assert "high age" in found["name"][2]
    for cluster, town in enumerate(TOWNS):
        assert f"town {town} (100 %)" in found["stands_out"][cluster]
    assert "age 49.7" in found["stands_out"][1]  # in the middle, but far from the others
    assert "high latent intercept" in found["stands_out"][1]
    assert not found["stands_out"].str.contains("latent dose").any()  # the same in all clusters
    assert not found[["name", "stands_out"]].map(lambda text: "serial" in text).to_numpy().any()


def test_one_summary_everywhere(
    model: dv.DualViewMixture, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = summarize(model.posterior_)
    assert json.loads((run / FILE).read_text())["summary"] == found == summary_of_run(run)
    assert cli.main(["summary", str(run)]) == 0
    text = capsys.readouterr().out
    assert text == text_for_commands(found) + "\n"
    assert max(map(len, text.splitlines())) <= 80
    shown = repr(model.summary())
    assert shown == summary_text(found)
    html = model.summary()._repr_html_()
    cards = collect_run(run)["roles"]["cards"]
    for cluster, card in zip(found["clusters"], cards, strict=True):
        people = ", ".join(cluster["typical_users"])
        assert cluster["name"] in shown
        assert people in shown
        assert cluster["name"] in html
        assert people in html
        assert card["label"] == cluster["name"]
        assert card["typical"] == cluster["typical_users"]
        assert cluster["words"].lower() in card["words"].lower()


def test_a_summary_of_another_posterior_is_made_anew(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "run")
    kept = json.loads((other / FILE).read_text())
    kept["summary"]["users"] = 7
    (other / FILE).write_text(json.dumps(kept))
    assert summary_of_run(other)["users"] == 7
    for stale in ({"posterior": "blake2b:0"}, {"version": "0.0"}, {"form": 1}):
        (other / FILE).write_text(json.dumps(kept | stale))
        assert summary_of_run(other)["users"] == 30
    (other / FILE).write_text("{")
    assert cli.main(["summary", str(other)]) == 2


def test_a_table_that_was_changed_is_shown_as_it_is(model: dv.DualViewMixture) -> None:
    found = model.summary()
    again = pickle.loads(pickle.dumps(found))
    assert repr(again) == repr(found)
    assert "Typical" not in repr(found.head(1))
    found["users"] = 0
    assert "Typical" not in repr(found)
    assert "<caption>" not in found._repr_html_()


def test_a_name_is_as_long_as_it_takes() -> None:
    phrases = [["a", "b", "c"], ["a", "b", "d"], ["a"], ["ordinary"], ["ordinary"]]
    assert distinct_names(phrases, [2, 2, 1, 1, 1]) == [
        "a, b, c",
        "a, b, d",
        "a",
        "ordinary (3)",
        "ordinary (4)",
    ]


def test_words_have_room_for_six() -> None:
    assert traits_text(list("abcdefgh"), ["x 1"]) == "a, b, c, d, e, f and 2 more"
    assert traits_text(["a"], [f"x{j} 1" for j in range(9)]) == "a; x0 1, x1 1, x2 1, x3 1, x4 1"
    assert traits_text([], []) == "ordinary"


def test_many_small_clusters_are_told_in_short(model: dv.DualViewMixture) -> None:
    found = summarize(model.posterior_)
    small = [found["clusters"][2] | {"cluster": k, "size": 1} for k in range(3, 40)]
    text = summary_text(found | {"clusters": [*found["clusters"], *small]})
    assert text.count("Typical:") == 3
    assert text.count("1 user (") == 20
    assert "And 17 clusters more, of 17 users together." in text
