"""What a report says, before it becomes a page."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview import cli
from dualview.errors import FileError
from dualview.inputs.cells import checked_table
from dualview.report import collect as collecting
from dualview.report import collect_run, render_page, write_report
from dualview.report.extras import read_predictions
from dualview.report.settings import fit_command, settings_section
from dualview.runs import run as runs
from dualview.runs.comparison import Ranking
from dualview.runs.request import Request
from dualview.runs.run import load_run, summary_of_run
from dualview.settings import Columns, Settings
from dualview.words import report as words
from report.conftest import FORUM, SHORT, USERS


def test_files_are_read_as_utf_8_in_any_locale(tmp_path: Path) -> None:
    (tmp_path / "roles.json").write_text('{"label": "Zoë"}', encoding="utf-8")
    program = (
        "import sys; from pathlib import Path; from dualview.report.extras import read_json; "
        "print(ascii(read_json(Path(sys.argv[1]))['label']))"
    )
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    told = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "roles.json")],
        env=os.environ | plain,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stdout == "'Zo\\xeb'\n", told.stderr


@pytest.fixture(scope="module")
def found(plain: Path) -> dict[str, Any]:
    return collect_run(plain)


@pytest.fixture(scope="module")
def more(full: Path) -> dict[str, Any]:
    return collect_run(full)


def fit(folder: Path, *arguments: str) -> Path:
    assert cli.main(["fit", *arguments, "--out", str(folder / "run"), *SHORT]) == 0
    return folder / "run"


def test_roles_are_those_of_the_run(found: dict[str, Any], plain: Path) -> None:
    table = pd.read_csv(plain / "users.csv", keep_default_na=False)
    cards = found["roles"]["cards"] + found["roles"]["others"]
    assert [card["size"] for card in cards] == np.bincount(table["cluster"]).tolist()
    for card in cards:
        members = table.loc[table["cluster"] == card["role"], "user"]
        assert set(card["typical"]) <= set(members)
        profile = {row["name"]: row for row in card["features"]}
        posts = np.exp(FORUM.features[members.index, 0] / 50)
        assert float(profile["posts"]["median"]) == pytest.approx(np.median(posts), rel=6e-3)
    assert found["data"]["role"] == table["cluster"].tolist()
    assert found["data"]["users"] == USERS
    np.testing.assert_allclose(
        found["data"]["columns"][0]["values"], table["latent_median"], rtol=1e-3
    )
    np.testing.assert_allclose(found["data"]["columns"][0]["high"], table["latent_high"], rtol=1e-3)


def test_powers_come_from_the_largest_with_the_intervals_of_the_summary(
    found: dict[str, Any], plain: Path
) -> None:
    summary = {
        cluster["cluster"]: cluster["latent"] for cluster in summary_of_run(plain)["clusters"]
    }
    rows = found["power"]["rows"]
    assert [row["role"] for row in rows] == sorted(
        summary, key=lambda role: -summary[role]["median"]
    )
    for row in rows:
        assert row["from"] < row["at"] < row["to"]
        for name in ("median", "low", "high"):
            assert float(row[name].replace("−", "-").replace(",", "")) == pytest.approx(
                summary[row["role"]][name], abs=0.06
            )


def test_a_plain_run_says_what_it_lacks(found: dict[str, Any]) -> None:
    assert "dualview predict" in found["predictions"]["missing"]
    assert "evaluation.json" in found["comparison"]["missing"]
    assert "dualview report RUN --against OTHER" in found["fits"]["missing"]
    assert found["similarity"]["missing"] is None
    assert "40 threads" in found["words"][0]
    assert found["notes"] == []
    json.dumps(found, allow_nan=False)


def test_the_command_asks_for_the_same_run(
    found: dict[str, Any], plain: Path, tables: Path, monkeypatch: Any
) -> None:
    asked = []
    monkeypatch.setattr(runs, "fit_run", lambda request, *_, **__: asked.append(request) or "")
    monkeypatch.chdir(tables)
    assert cli.main(shlex.split(found["settings"]["command"])[1:]) == 0
    assert asked == [Request.load(plain)]
    odd = Request(
        str(tables / "my users.csv"),
        str(tables / "t.mtx"),
        outcomes=str(tables / "o.csv"),
        columns=Columns(user="who's who", outcome="length"),
        covariates=("hour", "week day"),
        intercept=True,
        settings=Settings(
            n_clusters=3,
            link="linear",
            pooling="cluster",
            alpha="gamma(2, 4)",
            feature_prior="shrunk",
            behavior_prior="likelihood",
            keep="summary",
            n_whole=7,
            seed=5,
        ),
    )
    assert cli.main(shlex.split(fit_command(odd))[1:]) == 0
    assert asked[1] == odd


def test_the_columns_of_a_table_are_a_table_and_no_json(
    found: dict[str, Any], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    users = pd.DataFrame(
        {
            "posts": rng.poisson(np.exp(rng.normal(1, 1.5, 40))),
            "town": rng.choice(["Ulm", "<b>Bonn</b>", "a name that does not come to its end"], 40),
            "mood": pd.Categorical(
                rng.choice(["bad", "fair", "good"], 40), ["bad", "fair", "good"], ordered=True
            ),
            "height": np.round(rng.normal(170, 10, 40), 0) / 2,
            **{f"x{j}": rng.normal(size=40) for j in range(70)},
        }
    )
    columns = checked_table(dv.DualViewMixture(), users)[1]
    assert columns is not None
    made = {"n_draws": 5, "columns": columns.to_json()["columns"]}
    (tmp_path / "manifest.json").write_text(json.dumps({"made_with": made}))
    settings = settings_section(tmp_path, {})
    rows = {row["name"]: row for row in settings["columns"]["rows"]}
    assert rows["posts"]["kind"] == "count"
    assert rows["posts"]["details"] == "on the scale of log(1 + x)"
    assert rows["town"]["kind"] == "nominal"
    assert rows["town"]["details"] == "<b>Bonn</b>, Ulm, a name that does not co…"
    assert rows["mood"]["details"] == "bad < fair < good"
    assert rows["height"]["details"] == "steps of 0.5"
    assert settings["columns"]["more"] == "14 more columns: 14 continuous"
    assert settings["tables"][3] == ("Settings of the sampler", [("n draws", "5")])
    page = render_page({**found, "settings": settings})
    repeat = page[page.index('<section id="repeat"') : page.index("</main>")]
    assert "<caption>Columns of the table of users</caption>" in repeat
    assert "&lt;b&gt;Bonn&lt;/b&gt;" in repeat
    assert "{" not in repeat
    (tmp_path / "manifest.json").write_text(json.dumps({"made_with": {"columns": [{"name": "a"}]}}))
    with pytest.raises(FileError, match=r"manifest\.json is damaged: its columns"):
        settings_section(tmp_path, {})


def test_no_folder_of_the_machine_is_told(
    found: dict[str, Any], more: dict[str, Any], tables: Path
) -> None:
    assert str(tables) not in json.dumps(found)
    assert "/home/somebody" not in json.dumps(more)
    assert more["settings"]["command"] == "dualview forum posts.csv --out=run --seed=0"


def test_a_run_of_the_forum_shows_plain_units_labels_and_notes(
    more: dict[str, Any], full: Path
) -> None:
    assert more["title"] == "Roles of users: posts.csv"
    card = more["roles"]["cards"][0]
    assert "posts" in card["label"]
    assert not any("likes" in role["label"] for role in more["roles"]["cards"])  # not of the fit
    assert card["words"] == ""  # in the units of the model
    assert card["factor"] == {"median": "1.25", "low": "1.10", "high": "1.40"}
    labels = pd.read_csv(full / "users.csv", keep_default_na=False)["cluster"]
    medians = {row["name"]: row["median"] for row in card["features"]}
    assert float(medians["posts"]) == pytest.approx(
        np.median(np.flatnonzero(labels == 0)), rel=6e-3
    )
    assert set(medians) == {"posts", "likes"}
    assert "It did not use likes" in more["roles"]["units"]
    assert more["notes"] == ["3 bots removed (<i>bot</i>)."]
    assert {row["name"]: row["use"] for row in more["roles"]["meanings"]}[
        "likes"
    ] == "not used: says the same as posts"
    tables = dict(more["settings"]["tables"])
    assert ("user", "author") in tables["Columns of the file"]
    assert ("covariates", "hour") in tables["How the posts were prepared"]


def test_scores_of_other_models_with_the_best_marked(more: dict[str, Any]) -> None:
    section = more["comparison"]
    cells = {row["model"]: row["cells"] for row in section["rows"]}
    assert [cell["text"] for cell in cells["dual model"]] == ["1", "0.51", "0.200", "94 %", "–"]
    assert [cell["best"] for cell in cells["dual model"]] == [True, False, True, False, False]
    assert [cell["text"] for cell in cells["ridge"]] == [
        "1.2",
        "0.5",
        "−0.100",
        "90 %",
        "−0.2000 ± 0.0100",
    ]
    assert [cell["text"] for cell in cells["the mean"]][2:] == ["–", "–", "–"]
    assert "those of the single model" in section["words"][1]


def test_fits_are_ranked_with_the_run_of_the_page_marked(
    more: dict[str, Any], full: Path, linked: Path
) -> None:
    section, ranking = more["fits"], Ranking.load(full / "comparison.json")
    models = {}
    for folder in (full, linked):
        models[folder.name] = load_run(folder)
        models[folder.name].behavior_ = dv.SharedOutcome(FORUM.participation > 0, FORUM.outcome)
    table = dv.compare(models)
    assert (
        [row["name"] for row in section["rows"]]
        == [fit.name for fit in ranking.fits]
        == table.index.tolist()
    )
    rows = {row["name"]: row for row in section["rows"]}
    for name, row in rows.items():
        assert float(row["elpd"].replace("−", "-")) == pytest.approx(
            table.loc[name, "elpd"], abs=0.06
        )
        assert row["first"] == (name == table.index[0])
        assert row["best"] == (row["standing"] == "best")
        assert table.loc[name, "note"].startswith(row["standing"])
        assert row["unsure"] == str(table.loc[name, "unsure"])
        assert row["from"] <= row["at"] <= row["to"]
    assert [row["at"] for row in section["rows"]] == [section["zero"], rows[table.index[1]]["at"]]
    assert rows["run"]["this"]
    assert not rows[linked.name]["this"]
    assert rows["run"]["apart"] == "no link"
    assert rows[linked.name]["apart"] == "linear link"
    assert "Of 2 fits to the same 40 threads" in section["words"][0]
    assert "This page is about 'run'" in section["words"][0]
    assert any("have not converged" in words for words in section["words"])


@pytest.mark.slow
def test_a_comparison_of_a_run_that_was_drawn_further_is_not_shown(
    full: Path, linked: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(full, run)
    assert collect_run(run)["fits"]["missing"] is None
    (run / "forum.json").unlink()  # there are no posts to go on with
    assert cli.main(["resume", str(run), "--draws", "40", "--quiet"]) == 0
    assert "is out of date" in collect_run(run)["fits"]["missing"]
    page = write_report(run, tmp_path / "r.html", [linked])
    assert "This page is about &#39;run&#39;" in page.read_text()
    assert (
        cli.main(
            [
                "report",
                str(run),
                "--against",
                str(linked),
                str(full),
                "--out",
                str(tmp_path / "r.html"),
            ]
        )
        == 0
    )
    names = [fit.name for fit in Ranking.load(run / "comparison.json").fits]
    assert len(names) == 3
    assert {name.rpartition("/")[2] for name in names} == {"run", linked.name}
    assert str(tmp_path) not in (run / "comparison.json").read_text()


def test_predictions_are_scored(more: dict[str, Any], full: Path) -> None:
    table = pd.read_csv(full / "predictions.csv")
    scores = dict(more["predictions"]["scores"])
    assert scores["threads"] == "100"
    assert float(scores["negative log-likelihood per thread"]) == pytest.approx(
        -table["log_density"].mean(), rel=1e-3
    )
    error = table["outcome"] - table["median"]
    assert float(scores["root mean squared error"]) == pytest.approx(
        np.sqrt((error**2).mean()), rel=1e-3
    )
    inside = ((table["low"] <= table["outcome"]) & (table["outcome"] <= table["high"])).mean()
    assert float(scores["outcomes inside the 95 % interval"].split()[0]) == pytest.approx(
        100 * inside, abs=2
    )
    assert "from 2022-04-27 on" in more["predictions"]["words"][1]


def test_known_levels_decide_about_calibration(full: Path, tmp_path: Path) -> None:
    table = pd.read_csv(full / "predictions.csv")

    def said(changed: pd.DataFrame) -> Any:
        changed.to_csv(tmp_path / "predictions.csv", index=False)
        return read_predictions(tmp_path)

    exact = said(table.assign(level=np.linspace(0.005, 0.995, 100))).scores()
    assert exact["coverage"] == [(0.5, 0.5), (0.8, 0.8), (0.95, pytest.approx(0.95, abs=0.011))]
    assert words.predictions(exact, {})[1].startswith("Intervals are calibrated")
    assert "too wide" in words.predictions(said(table.assign(level=0.5)).scores(), {})[1]
    assert "too narrow" in words.predictions(said(table.assign(level=0.001)).scores(), {})[1]
    assert "part of the fit" in words.predictions(exact, {})[1]
    assert "no column 'outcome'" in said(table.drop(columns="outcome"))
    assert "no thread" in said(table.assign(outcome=np.nan))
    useless = said(table.assign(mean=-table["outcome"])).scores()
    assert "no signal" in words.predictions(useless, {})[0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("evaluation.json", "{", "evaluation.json cannot be read"),
        ("evaluation.json", "[]", "must hold a JSON object; it holds list"),
        ("evaluation.json", '{"scores": {}}', "must have 'scores', a list"),
        ("comparison.json", "{", "comparison.json cannot be read"),
        (
            "comparison.json",
            '{"n_threads": 3, "fits": [{"name": "a"}]}',
            "comparison.json cannot be read .* 'dualview compare'",
        ),
        ("profiles.csv", "name,posts\na,1\n", "must have a column user; it has name, posts"),
        (
            "profiles.csv",
            "user,posts\na,1\n",
            "must have a row per user of the run; it lacks <script>",
        ),
        (
            "predictions.csv",
            "thread,outcome\na,1\n",
            "must have columns median \\(or mean\\) and sd; it has thread, outcome",
        ),
    ],
)
def test_files_that_are_not_what_they_should_be(
    name: str, content: str, message: str, plain: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(plain, run)
    (run / name).write_text(content)
    with pytest.raises(FileError, match=message):
        collect_run(run)


@pytest.mark.filterwarnings("ignore:The partition estimate")  # of a few draws
def test_features_alone_and_threads_alone(tables: Path, tmp_path: Path) -> None:
    features = collect_run(fit(tmp_path / "a", str(tables / "users.parquet")))
    render_page(features)
    assert "without threads" in features["power"]["missing"]
    assert features["data"]["power"] is None
    assert len(features["data"]["columns"]) == 2
    pd.DataFrame({"user": USERS}).to_parquet(tmp_path / "ids.parquet")
    threads = collect_run(
        fit(tmp_path / "b", str(tmp_path / "ids.parquet"), str(tables / "threads.parquet"))
    )
    render_page(threads)
    assert not threads["roles"]["has_features"]
    assert threads["data"]["axes"] == [0, -1]
    assert "no features, so users are placed by their catalytic power" in threads["map"]["intro"]


def test_a_summary_says_what_rests_on_few_draws(tables: Path, tmp_path: Path) -> None:
    names = [str(tables / "users.parquet"), str(tables / "threads.parquet")]
    run = fit(tmp_path, *names, "--keep", "summary", "--whole", "5")
    found = collect_run(run)
    assert (
        "of 60 draws of the posterior a summary was kept, and 10 of them whole" in found["words"][2]
    )
    assert "only 10 whole draws were kept" in found["similarity"]["missing"]
    assert "With 10 whole draws the intervals are rough" in found["power"]["intro"]
    np.testing.assert_allclose(
        found["data"]["columns"][0]["values"],
        dv.load(run / "posterior.nc").latent_median,
        rtol=1e-3,
    )


def test_of_many_users_the_surest_of_each_role_are_listed(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "MOST_USERS", 12)
    monkeypatch.setattr("dualview.posterior.summaries.N_TYPICAL", 1)
    monkeypatch.setattr(collecting, "_SIMILARITY_USERS", 12)
    run = shutil.copytree(plain, tmp_path / "run")
    (run / "summary.json").unlink()
    found = collect_run(run)
    table = pd.read_csv(run / "users.csv", keep_default_na=False).set_index("user")
    shown = found["data"]["users"]
    assert len(shown) == 12
    assert "12 of 24 users" in found["users"]["note"]
    assert "24 users would be too large" in found["similarity"]["missing"]
    typical = {card["typical"][0] for card in found["roles"]["cards"]}
    assert typical <= set(shown)
    for role, members in table.groupby("cluster"):
        listed = members.loc[
            [user for user in shown if table.loc[user, "cluster"] == role and user not in typical]
        ]
        others = members.drop(index=[*listed.index, *(typical & set(members.index))])
        assert abs(len(listed) + 1 - len(members) / 2) <= 1.5
        assert listed["membership"].min() >= others["membership"].max() - 1e-12


def test_members_who_are_drawn_are_spread_over_their_powers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collecting, "_MOST_DOTS", 3)
    users, values = np.array([7, 3, 5, 1, 9]), np.array([0.0, 5, 0, 2, 0, 4, 0, 3, 0, 1])
    assert collecting._spread(users, values).tolist() == [9, 7, 1]
    assert sorted(collecting._spread(users[:2], values)) == [3, 7]


@pytest.mark.parametrize(
    "keep", [pytest.param([], marks=pytest.mark.slow), ["--keep", "summary", "--whole", "1"]]
)
def test_the_shortest_run_of_the_fewest_users(keep: list[str], tmp_path: Path) -> None:
    pd.DataFrame({"user": ["a", "b", "c"], "x": [0.0, 1.0, 3.0]}).to_csv(
        tmp_path / "u.csv", index=False
    )
    pd.DataFrame({"thread": [1, 2, 3], "user": ["a", "b", "c"], "outcome": [1, 2, 4]}).to_csv(
        tmp_path / "t.csv", index=False
    )
    files = [str(tmp_path / "u.csv"), str(tmp_path / "t.csv")]
    length = ["--warmup", "0", "--draws", "1", "--chains", "1", "--quiet", *keep]
    assert cli.main(["fit", *files, "--out", str(tmp_path / "run"), *length]) == 0
    found = collect_run(tmp_path / "run")
    assert found["diagnostics"]["rows"][0]["r_hat"] == "–"
    assert not found["diagnostics"]["converged"]
    assert "1 chain; " in found["words"][2]
    assert render_page(found).count("<section") == 12


def test_an_unfinished_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        FileError, match=r"is not the folder of a run: it has neither posterior.nc nor request.json"
    ):
        collect_run(tmp_path)
    (tmp_path / "request.json").write_text("{}")
    with pytest.raises(FileError, match="the run is not finished"):
        collect_run(tmp_path)
    with pytest.raises(FileError, match="absent: there is no such folder"):
        collect_run(tmp_path / "absent")
    with pytest.raises(FileError, match=r"request.json is a file, not the folder of a run"):
        collect_run(tmp_path / "request.json")
