"""From posts to a run folder, as a user of the command line makes it."""

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview import cli
from dualview.forum import application
from dualview.forum.example import example_people, example_posts
from dualview.settings import Settings

SHORT = [
    "--warmup",
    "20",
    "--draws",
    "20",
    "--chains",
    "2",
    "--jobs",
    "1",
    "--quiet",
    "--min-threads",
    "3",
]
POSTS = example_posts(n_users=50, n_threads=250, seed=0)  # with rates that users share


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forum")
    active = POSTS["user"].value_counts().index[:3]
    names = dict(zip(active, ("<script>alert(1)</script>", "NA", "007"), strict=True))
    POSTS.assign(user=POSTS["user"].replace(names)).to_csv(folder / "posts.csv", index=False)
    assert cli.main(["forum", str(folder / "posts.csv"), "--out", str(folder / "run"), *SHORT]) == 0
    return folder / "run"


def text_table(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype={"user": str, "thread": str}, keep_default_na=False)


def test_the_folder_has_what_the_docstring_says(run: Path) -> None:
    settings = json.loads((run / "forum.json").read_text())
    evaluation = json.loads((run / "evaluation.json").read_text())
    roles = json.loads((run / "roles.json").read_text())["roles"]
    users, profiles = text_table(run / "users.csv"), text_table(run / "profiles.csv")
    predictions = text_table(run / "predictions.csv")
    assert sum(role["size"] for role in roles) == len(users) == len(profiles)
    assert users["user"].tolist() == profiles["user"].tolist()
    assert {"<script>alert(1)</script>", "NA", "007"} <= set(users["user"])
    assert users["cluster"].tolist() == profiles["cluster"].tolist()
    assert len(predictions) == settings["test_threads"] == evaluation["n_test"]
    assert {score["name"] for score in evaluation["scores"]} == {
        "dual",
        "single",
        "ridge_covariates",
        "ridge",
        "covariates",
        "mean",
    }
    dual = evaluation["scores"][0]
    assert dual["nll"] == pytest.approx(-predictions["log_density"].mean())
    inside = (predictions["outcome"] >= predictions["low"]) & (
        predictions["outcome"] <= predictions["high"]
    )
    assert dual["coverage"]["0.95"] == pytest.approx(inside.mean())
    assert predictions["level"].between(0, 1).all()
    assert evaluation["scores"][1]["nll"] == pytest.approx(
        -predictions["single_log_density"].mean()
    )
    assert (
        set(settings["features"]) | set(settings["left_out"])
        == set(profiles.columns[2:])
        == set(settings["meanings"])
    )
    assert evaluation["verdict"].startswith("The dual model explains")


def test_roles_are_in_plain_units(run: Path) -> None:
    roles = json.loads((run / "roles.json").read_text())["roles"]
    profiles = text_table(run / "profiles.csv")
    post = dv.load(run / "posterior.nc")
    for role in roles:
        members = profiles[profiles["cluster"] == role["role"]]
        assert role["profile"]["posts"]["median"] == members["posts"].median()
        power = post.flat("latent")[:, members.index].mean(axis=1)
        assert role["power"]["median"] == pytest.approx(np.median(power), rel=1e-4)
        assert role["factor"]["median"] == pytest.approx(np.exp(np.median(power)), rel=1e-3)
        assert role["power"]["low"] <= role["power"]["median"] <= role["power"]["high"]
        assert set(role["typical_users"]) <= set(members["user"])


def test_the_run_is_one_of_dualview_fit(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["summary", str(run)]) == 0
    assert "clusters" in capsys.readouterr().out
    assert cli.main(["plot", str(run)]) == 0


@pytest.mark.slow
def test_resume_continues_with_roles_and_scores_too(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    longer = tmp_path / "run"
    shutil.copytree(run, longer)
    before = {
        path.name: path.read_bytes() for path in run.iterdir() if path.suffix in (".csv", ".json")
    }
    for name in (
        "roles.json",
        "profiles.csv",
        "evaluation.json",
        "predictions.csv",
        "users.csv",
        "posterior.nc",
    ):
        (longer / name).unlink()
    facts = json.loads(before["forum.json"])
    facts["options"]["normalise"] = facts["options"].pop(
        "normalize"
    )  # as earlier versions wrote it
    (longer / "forum.json").write_text(json.dumps(facts))
    assert cli.main(["resume", str(longer), "--quiet"]) == 0
    for name in ("roles.json", "profiles.csv", "predictions.csv", "users.csv"):
        assert (longer / name).read_bytes() == before[name]
    assert f"dualview resume {longer} --draws 40" in capsys.readouterr().out
    assert cli.main(["resume", str(longer), "--draws", "60", "--quiet"]) == 0
    post = dv.load(longer / "posterior.nc")
    assert post.n_draws == 60
    np.testing.assert_array_equal(post["z"][:, :20], dv.load(run / "posterior.nc")["z"])
    users, predictions = text_table(longer / "users.csv"), text_table(longer / "predictions.csv")
    assert text_table(longer / "profiles.csv")["cluster"].tolist() == users["cluster"].tolist()
    scores = json.loads((longer / "evaluation.json").read_text())["scores"]
    assert scores[0]["nll"] == pytest.approx(-predictions["log_density"].mean())
    assert predictions["mean"].tolist() != text_table(run / "predictions.csv")["mean"].tolist()
    assert "--draws=60" in json.loads((longer / "forum.json").read_text())["command"]
    assert (longer / "report.html").stat().st_mtime_ns > (run / "report.html").stat().st_mtime_ns


def test_resume_says_what_is_gone(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = json.loads((run / "forum.json").read_text())
    for name in ("forum.json", "request.json"):
        shutil.copy(run / name, tmp_path)
    gone = settings | {"source": str(tmp_path / "moved.csv")}
    for content, message in (
        (json.dumps(gone), f"The posts of this run, {tmp_path / 'moved.csv'}, cannot be found"),
        (json.dumps({"data": {}}), "forum.json has no command, no source, no options."),
        ("{", "forum.json cannot be read"),
    ):
        (tmp_path / "forum.json").write_text(content)
        assert cli.main(["resume", str(tmp_path), "--quiet"]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_options_are_kept_as_they_were_asked(tmp_path: Path) -> None:
    """The command that a resumed run repeats is the first one's."""
    POSTS.rename(columns={"user": "member"}).to_csv(tmp_path / "posts.csv", index=False)
    words = [
        "forum",
        str(tmp_path / "posts.csv"),
        "--out",
        str(tmp_path / "run"),
        *SHORT,
        "--user-column",
        "member",
    ]
    assert (
        cli.main(
            [*words, "--thread-column", "thread", "--covariates", "hour", "--bot-names", "nobody"]
        )
        == 0
    )
    before = (tmp_path / "run" / "forum.json").read_bytes()
    assert cli.main(["resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert (tmp_path / "run" / "forum.json").read_bytes() == before


def test_the_same_command_again_goes_on_and_another_is_refused(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        path.name: path.read_bytes() for path in run.iterdir() if path.suffix in (".csv", ".json")
    }
    command = shlex.split(json.loads(files["forum.json"])["command"])
    assert command[0] == "dualview"
    assert cli.main([*command[1:], "--quiet"]) == 0
    assert (run / "predictions.csv").read_bytes() == files["predictions.csv"]
    assert cli.main([*command[1:], "--first", "4", "--quiet"]) == 2
    assert "has a run of other posts or options" in capsys.readouterr().err
    assert (run / "forum.json").read_bytes() == files["forum.json"]


@pytest.mark.slow
def test_it_says_at_the_start_how_long_it_takes(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, tmp_path / "run")
    told = [word for word in SHORT if word != "--quiet"]
    words = ["forum", str(run.parent / "posts.csv"), "--out", str(tmp_path / "run"), *told]
    assert cli.main(words) == 0
    errors = capsys.readouterr().err
    assert (
        "dualview: This takes about a minute, half a minute more if it is the first fit" in errors
    )
    assert errors.index("This takes") < errors.index("Fitting the single model")


@pytest.mark.parametrize(
    ("settings", "n_users", "words"),
    [
        (Settings(), 190, "2 to 8 minutes"),
        (Settings(n_chains=8), 190, "3 to 16 minutes"),
        (Settings(max_draws=7_000), 190, "about 2 minutes"),
        (Settings(max_time=60), 190, "about 2 minutes"),
        (Settings(max_time=590), 790, "5 to 12 minutes"),
        (Settings(n_warmup=100, n_draws=100), 190, "about a minute"),
    ],
)
def test_the_expected_time_follows_the_limits(
    settings: Settings, n_users: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "n_cores", lambda: 2)
    monkeypatch.setattr(application, "effective_n_jobs", lambda _: 4)
    assert application.expected_minutes(settings, n_users) == words


def test_the_link_and_the_scale_are_options(tmp_path: Path) -> None:
    example_posts(n_users=50, n_threads=450, seed=0).to_csv(tmp_path / "posts.csv", index=False)
    words = ["forum", str(tmp_path / "posts.csv"), "--out", str(tmp_path / "run"), *SHORT]
    assert cli.main([*words, "--link", "linear", "--behavior-prior", "likelihood"]) == 0
    post = dv.load(tmp_path / "run" / "posterior.nc")
    assert post["slopes"].shape[-1] == len(post.feature_names)
    assert "features.cells" in post
    command = json.loads((tmp_path / "run" / "forum.json").read_text())["command"]
    assert "--link=linear --behavior-prior=likelihood" in command
    assert cli.main([*shlex.split(command)[1:], "--quiet"]) == 0


def test_the_model_sees_intervals_in_their_own_units(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, post = json.loads((run / "forum.json").read_text()), dv.load(run / "posterior.nc")
    assert post.spec.codebook is not None
    assert post.cells is not None
    kinds = {column.name: column.kind for column in post.spec.codebook.columns}
    assert list(kinds) == list(settings["features"])
    assert {"censored", "continuous"} == set(kinds.values())
    for name, words in settings["features"].items():
        assert (kinds[name] == "censored") == words.endswith("known to an interval")
    exact = [
        column[mask] for column, mask in zip(post.cells.low.T, post.cells.exact.T, strict=True)
    ]
    assert all(len(np.unique(values)) == len(values) for values in exact)
    assert cli.main(["report", str(run)]) == 0
    capsys.readouterr()
    shown = (run / "report.html").read_text()
    assert "known to an interval" in shown


def test_an_option_of_earlier_versions_is_told_apart(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--ties", "jitter"], ["--ties=drop"]):
        assert cli.main(["forum", "--example", "--out", str(tmp_path / "new"), *words]) == 2
        assert (
            "--ties: this option was removed. Features that users share are now"
            in capsys.readouterr().err
        )
    assert cli.main(["forum", "--example", "--out", str(tmp_path / "new"), "--tie", "drop"]) == 2
    assert "Unknown option: --tie" in capsys.readouterr().err
    settings = json.loads((run / "forum.json").read_text())
    settings["options"]["ties"] = "drop"  # as earlier versions wrote it
    shutil.copy(run / "request.json", tmp_path)
    (tmp_path / "forum.json").write_text(json.dumps(settings))
    assert cli.main(["resume", str(tmp_path), "--quiet"]) == 2
    assert (
        "has a run of an earlier version, with an option that is gone (ties)"
        in capsys.readouterr().err
    )


@pytest.mark.slow
def test_members_of_a_role_can_share_one_power(tmp_path: Path) -> None:
    """The single model that it is compared with has a coefficient for each user all the same."""
    POSTS.to_csv(tmp_path / "posts.csv", index=False)
    words = ["forum", str(tmp_path / "posts.csv"), "--out", str(tmp_path / "run"), *SHORT]
    assert cli.main([*words, "--pooling", "cluster"]) == 0
    post = dv.load(tmp_path / "run" / "posterior.nc")
    for z, latent in zip(post.flat("z"), post.flat("latent"), strict=True):
        assert len(np.unique(latent)) == len(np.unique(z))
    assert (
        "pooling"
        not in json.loads((tmp_path / "run" / "single" / "manifest.json").read_text())["made_with"]
    )
    assert (
        "--pooling=cluster" in json.loads((tmp_path / "run" / "forum.json").read_text())["command"]
    )


def test_bad_input_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "posts.csv").write_text("thread,member,time\n1,a,2020-01-01\n")
    assert cli.main(["forum", str(tmp_path / "posts.csv"), "--out", str(tmp_path / "run")]) == 2
    assert "must have a column for user" in capsys.readouterr().err
    assert cli.main(["forum", "--out", str(tmp_path / "run")]) == 2
    assert "--example" in capsys.readouterr().err
    assert cli.main(["forum", "--example", "--out", str(tmp_path / "run"), "--first", "0"]) == 2
    assert not (tmp_path / "run").exists()


def test_another_programs_run_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "request.json").write_text("{}")
    POSTS.to_csv(tmp_path / "posts.csv", index=False)
    assert cli.main(["forum", str(tmp_path / "posts.csv"), "--out", str(tmp_path), "--quiet"]) == 2
    assert "'dualview fit' started" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"request.json", "posts.csv"}


def test_the_example_is_a_forum_with_heavy_tails() -> None:
    posts, people = example_posts(seed=3), example_people(seed=3)
    small = example_posts(30, 50, seed=3)
    pd.testing.assert_frame_equal(small, example_posts(30, 50, seed=3))
    assert not small.equals(example_posts(30, 50, seed=4))
    counts = posts["user"].value_counts()
    assert counts.iloc[: len(counts) // 10].sum() > 0.35 * len(posts)
    assert {"AutoModerator", "[deleted]"} <= set(counts.index)
    assert posts["section"].nunique() == 4
    data = dv.forum.read_forum(posts)
    # Participants tell something, in the direction of their true powers.
    power = people.set_index("user")["power"].reindex(data.activity.index).to_numpy()
    assert np.corrcoef(data.training.participation @ power, data.training.outcome)[0, 1] > 0.2
