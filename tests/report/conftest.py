"""A small run with users whose names are made to break a page, and copies of it with more or fewer
files."""

import json
import shutil
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview import cli
from dualview.report import write_report

mpl.use("Agg")

FORUM = dv.datasets.agreement(24, 40, n_clusters=3, seed=0)
EVIL = [
    "<script>document.hacked = 1</script>",
    "</script><b>bold</b>",
    "]]>",
    "<!--<script>",
    "NA",
    "a\"b'c&amp;",
    "x" * 90,
]
USERS = [*EVIL, *(f"user {u}" for u in range(len(EVIL), 24))]
SHORT = ["--warmup", "20", "--draws", "30", "--chains", "2", "--quiet"]


def rows_of(participation: np.ndarray, outcome: np.ndarray) -> pd.DataFrame:
    t, u = np.nonzero(participation)
    return pd.DataFrame(
        {"thread": [f"t{i}" for i in t], "user": [USERS[i] for i in u], "outcome": outcome[t]}
    )


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of users, threads and test threads."""
    folder = tmp_path_factory.mktemp("tables")
    users = pd.DataFrame(
        {
            "user": USERS,
            "posts": np.exp(FORUM.features[:, 0] / 50),
            "long_name_of_degree": FORUM.features[:, 1],
        }
    )
    users.to_parquet(folder / "users.parquet")
    rows_of(FORUM.participation, FORUM.outcome).to_parquet(folder / "threads.parquet")
    rows_of(FORUM.test.participation, FORUM.test.outcome).to_parquet(folder / "test.parquet")
    return folder


@pytest.fixture(scope="session")
def plain(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 'dualview fit', with nothing beside."""
    run = tmp_path_factory.mktemp("plain") / "run"
    names = [str(tables / "users.parquet"), str(tables / "threads.parquet")]
    assert cli.main(["fit", *names, "--out", str(run), *SHORT]) == 0
    return run


@pytest.fixture(scope="session")
def linked(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the same threads with a link, in a folder whose name is made to break a page."""
    run = tmp_path_factory.mktemp("linked") / "<b>linked & long_names_of_folders_too"
    names = [str(tables / "users.parquet"), str(tables / "threads.parquet")]
    assert cli.main(["fit", *names, "--link", "linear", "--out", str(run), *SHORT]) == 0
    return run


@pytest.fixture(scope="session")
def full(plain: Path, linked: Path, tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run with everything that the forum application writes, and compared with another."""
    run = tmp_path_factory.mktemp("full") / "run"
    shutil.copytree(plain, run)
    assert cli.main(["compare", str(run), str(linked), "--out", str(run / "comparison.json")]) == 0
    assert cli.main(["predict", str(run), str(tables / "test.parquet")]) == 0
    rng = np.random.default_rng(0)
    labels = pd.read_csv(run / "users.csv", keep_default_na=False)["cluster"]
    profiles = pd.DataFrame(
        {"user": USERS, "cluster": labels, "posts": np.arange(24), "likes": rng.poisson(5, 24)}
    )
    profiles.to_csv(run / "profiles.csv", index=False)
    contents = {
        "forum.json": {
            "command": "dualview forum /home/somebody/posts.csv --out=/home/somebody/run --seed=0",
            "source": "/home/somebody/posts.csv",
            "options": {"first": 5, "covariates": ["hour"], "bot_names": []},
            "columns": {"user": "author", "parent": None},
            "facts": {"posts": 12345},
            "notes": ["3 bots removed (<i>bot</i>)"],
            "first_posts": 5,
            "outcome": "logarithm of posts of the thread",
            "logarithm": True,
            "features": {"posts": "log(x + 1)"},
            "left_out": {"likes": "says the same as posts"},
            "meanings": {"posts": "posts written", "likes": "likes received"},
            "training_threads": 40,
            "test_threads": 100,
            "cut": "2022-04-27T16:55:00+00:00",
        },
        "roles.json": {
            "roles": [
                {
                    "role": 0,
                    "label": "many posts",
                    "factor": {"median": 1.25, "low": 1.1, "high": 1.4},
                }
            ]
        },
        "evaluation.json": {
            "n_test": 100,
            "scores": [
                {
                    "name": "dual",
                    "words": "dual model",
                    "nll": 1.0,
                    "rmse": 0.51,
                    "r2": 0.2,
                    "coverage": {"0.95": 0.94},
                },
                {
                    "name": "ridge",
                    "words": "ridge",
                    "nll": 1.2,
                    "rmse": 0.5,
                    "r2": -0.1,
                    "coverage": {"0.95": 0.9},
                },
                {
                    "name": "mean",
                    "words": "the mean",
                    "nll": 1.4,
                    "rmse": 0.6,
                    "r2": float("nan"),
                    "coverage": {},
                },
            ],
            "differences": [{"than": "ridge", "gain": -0.2, "error": 0.01}],
            "verdict": "It is <b>better</b>.",
            "converged": {"dual": True, "single": False},
        },
    }
    for name, content in contents.items():
        (run / name).write_text(json.dumps(content))
    return run


@pytest.fixture(scope="session")
def page(full: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(full, tmp_path_factory.mktemp("page") / "report.html")
