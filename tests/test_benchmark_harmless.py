"""The controls: what is permuted, what is kept, and what the table says."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dualview as dv
from dualview.forum import example_posts

ROOT = Path(__file__).parents[1]
TINY: dict[str, Any] = {"engine": dv.Gibbs(n_warmup=10), "n_draws": 20, "n_chains": 2}


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, "benchmarks", raising=False)


def small_study() -> Any:
    """24 users with six observations each; an effect of a feature."""
    from benchmarks.worth.sets import Study

    rng = np.random.default_rng(0)
    user, x = np.repeat(np.arange(24), 6), rng.standard_normal(24)
    return Study(
        "small",
        "nowhere",
        "a user",
        "a number",
        pd.DataFrame({"x": x, "kind": np.where(x > 0.5, "a", "b")}),
        user,
        np.ones((len(user), 1)),
        np.empty((len(user), 0)),
        2.0 * x[user] + rng.standard_normal(len(user)),
        False,
        (0, 1),
    )


def row(model: str, split: int, units: Any, **more: Any) -> Any:
    from benchmarks.harmless.rows import Row

    units = np.array(units, dtype=float)
    facts = {
        "set": "small",
        "control": "none",
        "nll": float(np.nanmean(units)) if len(units) else np.nan,
        "seconds": 1.5,
        "passed": True,
        "r_hat": np.nan if model == "mean" else 1.005,
        "limit": np.inf,
        "note": "",
    }
    return Row(**facts | {"model": model, "split": split, "units": units} | more)


def study_moments(problem: Any) -> tuple[float, float]:
    """Mean and standard deviation of all training outcomes."""
    outcome = problem.study.outcome[problem.training]
    return float(outcome.mean()), float(outcome.std(ddof=1))


def same(one: Any, other: Any) -> bool:
    return one.equals(other) if isinstance(one, pd.DataFrame) else np.array_equal(one, other)


@pytest.mark.parametrize(
    ("control", "permuted"), [("none", None), ("features", "features"), ("outcomes", "outcome")]
)
def test_a_control_permutes_one_thing_in_the_same_way_each_time(
    control: str, permuted: str | None
) -> None:
    from benchmarks.harmless.controls import CONTROLS

    study, change = small_study(), CONTROLS[control].of_study
    found, again, other = change(study, 0), change(study, 0), change(study, 1)
    for part in ("features", "user", "design", "common", "outcome"):
        own, before = getattr(found, part), getattr(study, part)
        assert same(own, getattr(again, part))
        assert same(own, before) == (part != permuted)
        assert same(own, getattr(other, part)) == (part != permuted)
        if part == permuted == "features":  # rows stay whole
            assert sorted(own.itertuples(index=False)) == sorted(before.itertuples(index=False))
            assert list(own.index) == list(before.index)
        elif part == permuted:
            assert np.array_equal(np.sort(own), np.sort(before))


def test_splits_are_those_of_worth_and_the_mean_is_of_everybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from benchmarks.harmless import trials
    from benchmarks.worth.problem import problems

    monkeypatch.setitem(trials.SETS, "small", small_study)
    source = trials.PublicSet("small")
    for problem in problems(small_study(), 3, 0):
        own = source.trial("none", problem.fold).problem
        assert np.array_equal(own.training, problem.training)
        assert np.array_equal(own.held_out, problem.held_out)
        mean, spread = study_moments(problem)
        truth = problem.study.outcome[problem.held_out]
        nll = -stats.norm(mean, spread).logpdf(truth)
        user = problem.study.user[problem.held_out]
        found = source.trial("none", problem.fold).simple("mean")
        assert np.isnan(found[problem.new]).all()
        for u in problem.known:
            assert found[u] == pytest.approx(nll[user == u].mean())
    first, fourth = (source.trial("none", split).problem for split in (0, 3))
    assert not np.array_equal(first.held_out, fourth.held_out)


def test_a_run_keeps_what_it_has_and_continues(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from benchmarks.harmless import run as running
    from benchmarks.harmless import trials
    from benchmarks.harmless.rows import CONTINUED, Kept
    from benchmarks.harmless.tables import markdown

    monkeypatch.setitem(trials.SETS, "small", small_study)
    plan = running.Plan(
        [trials.PublicSet("small")],
        ["features"],
        running.MODELS,
        1,
        None,
        tmp_path / "fits",
        settings=TINY,
    )
    path, whole = tmp_path / "rows.csv", running.result

    def killed(task: Any) -> Any:
        if task.model == "agreement":
            (task.folder / task.model).mkdir()  # the checkpoint of a fit that has begun
            raise KeyboardInterrupt
        return whole(task)

    monkeypatch.setattr(running, "result", killed)
    with pytest.raises(KeyboardInterrupt):
        running.run(plan, Kept(path))
    done = [key[-1] for key in Kept(path).rows]
    assert done == ["mean", "ridge", "mixed", "single", "dual"]

    asked: list[str] = []
    monkeypatch.setattr(running, "result", lambda task: asked.append(task.model) or whole(task))
    kept, tables = Kept(path), []
    running.run(plan, kept, lambda: tables.append(markdown(kept.rows)))
    assert asked == ["agreement", "link", "stacked"]
    assert not [own.note for own in kept.rows.values() if own.failed]
    assert [key[-1] for key, own in kept.rows.items() if own.note == CONTINUED] == ["agreement"]
    assert len(re.findall(r"\| over \d", tables[-1])) == 2  # its own, and those of the stack
    again = Kept(path)
    assert [key[-1] for key in again.rows] == list(running.MODELS)
    for key, own in kept.rows.items():
        assert again.rows[key].passed == own.passed
        assert again.rows[key].nll == own.nll
        assert again.rows[key].seconds == own.seconds
        np.testing.assert_array_equal(again.rows[key].units, own.units)
    assert len(tables) == 3
    assert markdown(again.rows) == tables[-1]
    running.run(plan, again)
    assert asked == ["agreement", "link", "stacked"]  # nothing is fitted twice

    weights = [
        float(part.split()[-1])
        for part in kept.rows["small", "features", 0, "stacked"].note.split(", ")
    ]
    assert sum(weights) == pytest.approx(1.0, abs=0.03)
    stack, *parts = (
        kept.rows["small", "features", 0, name].nll for name in ("stacked", *running.MIXTURES)
    )
    assert min(parts) - 0.1 < stack < max(parts)


def test_a_model_that_fails_leaves_a_note_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from benchmarks.harmless import run as running
    from benchmarks.harmless import trials
    from benchmarks.harmless.rows import Kept
    from benchmarks.harmless.tables import markdown

    monkeypatch.setitem(trials.SETS, "small", small_study)
    monkeypatch.setitem(trials._OF_SETS, "ridge", "no such method")
    plan = running.Plan(
        [trials.PublicSet("small")], ["none"], ["mean", "ridge"], 2, None, tmp_path / "fits"
    )
    kept = Kept(tmp_path / "rows.csv")
    running.run(plan, kept)
    assert kept.rows["small", "none", 1, "ridge"].note == "KeyError: 'no such method'"
    assert "| small | as they are | ridge |  |  |  |  | 2 failed |  |" in markdown(kept.rows)
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setitem(trials.SETS, "small", small_study)
    running.run(plan, kept)
    assert not kept.rows["small", "none", 1, "ridge"].failed


def test_fits_that_did_not_pass_are_done_with_the_time_they_had(tmp_path: Path) -> None:
    from benchmarks.harmless.rows import Kept

    kept = Kept(tmp_path / "rows.csv")
    kept.add(row("dual", 0, [1.0], passed=False, limit=60.0))
    kept.add(row("link", 0, [1.0], limit=60.0))
    kept.add(row("single", 0, []))
    kept = Kept(kept.path)
    answers = {
        (model, limit): kept.has(("small", "none", 0, model), limit)
        for model in ("dual", "link", "single", "mean")
        for limit in (30.0, 60.0, 90.0, None)
    }
    assert [key for key, is_done in answers.items() if is_done] == [
        ("dual", 30.0),
        ("dual", 60.0),
        *[("link", limit) for limit in (30.0, 60.0, 90.0, None)],
    ]


def test_standard_errors_are_over_users_and_over_splits() -> None:
    from benchmarks.harmless.tables import Difference

    nan = np.nan
    one = {
        0: row("dual", 0, [1.0, 2.0, nan]),
        1: row("dual", 1, [3.0, nan, 7.0]),
        2: row("dual", 2, [9.0, 9.0, 9.0]),
    }
    other = {
        0: row("single", 0, [0.5, 0.0, nan]),
        1: row("single", 1, [1.5, nan, 4.0]),
    }
    found = Difference.between(one, other)  # by user 1, 2 and 3; by split 1.25 and 2.25
    assert found is not None
    assert found == pytest.approx((2.0, 1.0 / np.sqrt(3.0), 0.5))
    assert found.is_clear
    assert str(found) == "**+2.000 ± 0.577 / 0.500**"
    lonely = Difference.between({0: one[0]}, other)
    assert lonely is not None
    assert str(lonely) == "+1.250 ± 0.750"
    assert Difference.between({2: one[2]}, other) is None


def test_the_table_marks_what_did_not_pass_and_counts_clear_differences() -> None:
    from benchmarks.harmless.tables import markdown

    users = np.linspace(-1.0, 1.0, 9)
    rows = []
    for split in range(3):
        wobble = 0.01 * split
        rows += [
            row("mean", split, users + 1.0),
            row("single", split, users + 0.5 + 0.1 * users**2),
            row(
                "dual",
                split,
                users + 0.9 + wobble + 0.1 * users,
                passed=split != 1,
                r_hat=1.01 + wobble,
                seconds=10.0 + split,
            ),
        ]
    text = markdown({own.key: own for own in rows})
    assert "| as they are | dual | 0 / 0 / 1 | 1 / 0 / 0 |" in text
    assert "| as they are | single |  | 1 / 0 / 0 |" in text
    (line,) = [
        line for line in text.splitlines() if line.startswith("| small | as they are | dual")
    ]
    assert line.endswith("| 11.0 | † 2 of 3 passed | 1.030 |")
    assert "| small | as they are | mean | 1.000 | " in text
    assert "3 of 3 passed | 1.005 |" in text
    assert text.endswith("† Not all verdicts passed.\n")


def test_a_forum_is_permuted_split_and_scored(tmp_path: Path) -> None:
    from benchmarks.harmless import run as running
    from benchmarks.harmless import trials
    from benchmarks.harmless.rows import Kept

    posts = tmp_path / "posts.csv"
    example_posts(n_users=60, n_threads=300, seed=0).to_csv(posts, index=False)
    forum = trials.Forum(("made", str(posts), "covariates=section"), 20, 60)
    plain, features, outcomes = (
        forum.trial(control, 0) for control in ("none", "features", "outcomes")
    )
    for trial in (features, outcomes):
        assert trial.train.ids == plain.train.ids
        assert list(trial.data.numbers.index) == list(plain.data.numbers.index)
    assert len(plain.train.ids) == 60
    assert set(plain.train.ids).isdisjoint(plain.data.test.ids)
    assert forum.trial("none", 1).train.ids != plain.train.ids
    assert not features.data.numbers.equals(plain.data.numbers)
    assert np.array_equal(features.train.outcome, plain.train.outcome)
    assert outcomes.data.numbers.equals(plain.data.numbers)
    before, after = (
        np.concatenate([trial.data.training.outcome, trial.data.test.outcome])
        for trial in (plain, outcomes)
    )
    assert np.array_equal(np.sort(before), np.sort(after))
    assert not np.array_equal(before, after)
    models = ("mean", "ridge", "mixed", "single", "dual")
    plan = running.Plan([forum], ["none"], models, 1, None, tmp_path / "fits", settings=TINY)
    kept = Kept(tmp_path / "rows.csv")
    running.run(plan, kept)
    assert [key[-1] for key in kept.rows] == list(models)
    for own in kept.rows.values():
        assert own.note == ""
        assert own.units.shape == plain.data.test.outcome.shape
        assert np.isfinite(own.units).all()
