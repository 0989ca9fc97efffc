"""Models fitted beside a run, and their stack."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview import cli
from dualview.errors import InputError
from dualview.runs.choices import choose, load_choice, other_requests, plain_settings
from dualview.runs.comparison import Ranking
from dualview.runs.request import Request
from dualview.runs.run import build_estimator
from dualview.settings import Settings

FORUM = dv.datasets.agreement(12, 24, seed=0)
SHORT = ["--warmup", "20", "--draws", "30", "--chains", "2", "--quiet"]
USERS = [f"={u}" for u in range(12)]


def write_tables(folder: Path) -> list[str]:
    users = pd.DataFrame(FORUM.features, columns=["posts", "degree"])
    users.insert(0, "user", USERS)
    users.to_csv(folder / "users.csv", index=False)
    t, u = np.nonzero(FORUM.participation)
    rows = {"thread": [f"t{i}" for i in t], "user": [USERS[i] for i in u]}
    pd.DataFrame(rows | {"outcome": FORUM.outcome[t]}).to_csv(folder / "threads.csv", index=False)
    return [str(folder / "users.csv"), str(folder / "threads.csv")]


def test_requests_differ_from_the_run_in_what_they_try(tmp_path: Path) -> None:
    users, threads = write_tables(tmp_path)
    request = Request(users, threads)
    others = other_requests(request, tmp_path)
    assert list(others) == ["learned", "single"]
    assert others["learned"] == replace(
        request, settings=replace(request.settings, agreement="beta(1,1)")
    )
    assert others["single"].settings == replace(request.settings, n_clusters=1)
    table = pd.read_csv(str(others["single"].users))
    assert table.to_dict(orient="list") == {"user": USERS}

    def names(**settings: object) -> list[str]:
        changed = replace(request, settings=replace(request.settings, **settings))
        return list(other_requests(changed, tmp_path))

    assert names(agreement="full") == ["learned", "single"]
    assert names(agreement="beta(1,1)") == ["agreed", "single"]
    assert names(engine="variational") == ["single"]
    assert names(n_clusters=1) == ["single"]
    assert list(other_requests(others["single"], tmp_path)) == ["clusters"]


def test_a_plain_model_needs_nothing_of_the_features_or_of_the_partition() -> None:
    asked = Settings(partition="pitman-yor(0.3)", link="linear", feature_prior="shrunk", thin=2)
    plain = plain_settings(asked, 1)
    assert plain == Settings(n_clusters=1, thin=2)
    assert build_estimator(plain, None, 1, True).n_clusters == 1


def test_a_run_is_stacked_with_the_models_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, run = write_tables(tmp_path), tmp_path / "my run"
    assert cli.main(["fit", *tables, "--out", str(run), *SHORT]) == 0
    with pytest.raises(InputError, match=r"has no models beside it: dualview choose '.*my run'"):
        load_choice(run)
    capsys.readouterr()
    assert cli.main(["choose", str(run), "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "mixture" in printed
    assert f"Wrote {run / 'comparison.json'}." in printed
    ranking = Ranking.load(run / "comparison.json")
    assert {fit.name for fit in ranking.fits} == {"my run", "learned", "single"}
    assert sum(ranking.weights.values()) == pytest.approx(1.0)
    stacked = load_choice(run)
    assert dict(stacked.weights) == ranking.weights
    out = tmp_path / "p.csv"
    words = ["predict", str(run), tables[1], "--out", str(out)]
    assert cli.main([*words, "--stacked"]) == 0
    mixed = pd.read_csv(out)["mean"].to_numpy()
    parts = {
        name: own.predict_outcome((FORUM.participation > 0).astype(float)).mean
        for name, own in stacked.fits.items()
    }
    by_hand = sum(ranking.weights[name] * mean for name, mean in parts.items())
    np.testing.assert_allclose(mixed, by_hand, rtol=1e-6)
    written = {path: path.stat().st_mtime_ns for path in run.glob("single/chain*/*")}
    assert choose(run, quiet=True) == ranking  # what is finished is not fitted again
    assert {path: path.stat().st_mtime_ns for path in written} == written
    first, *others = ranking.fits
    replace(ranking, fits=(replace(first, made_with="other"), *others)).save(
        run / "comparison.json"
    )
    with pytest.raises(InputError, match="Make them again: dualview choose '"):
        load_choice(run)


def test_a_run_of_features_alone_has_nothing_to_predict(tmp_path: Path) -> None:
    users, _ = write_tables(tmp_path)
    assert cli.main(["fit", users, "--out", str(tmp_path / "run"), *SHORT]) == 0
    with pytest.raises(InputError, match="was fitted without threads or answers"):
        choose(tmp_path / "run")
