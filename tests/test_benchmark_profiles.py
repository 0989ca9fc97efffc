"""The benchmark of profile regression: its simulated people, its scores, records and table."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, "benchmarks", raising=False)


def test_outcomes_have_the_densities_that_they_are_drawn_from() -> None:
    from benchmarks.profiles.outcomes import CENSORED_AT, OUTCOMES, SHAPE

    rng = np.random.default_rng(0)
    n, eta = 20_000, np.full(20_000, 0.7)
    for name, family in OUTCOMES.items():
        if name in ("categorical", "survival"):
            continue
        rows = family.rows(rng, n)
        one = {key: np.full(n, values[0]) for key, values in rows.items()}
        y = family.draw(rng, eta, one)
        if name == "normal":
            assert quad(lambda x: np.exp(OUTCOMES["normal"].log_density(x, 0.7, {})), -9, 9)[0] == (
                pytest.approx(1.0)
            )
            continue
        values, counts = np.unique(y, return_counts=True)
        p = np.exp(
            family.log_density(values, eta[: len(values)], {k: v[:1] for k, v in one.items()})
        )
        error = np.sqrt(p * (1.0 - p) / n)
        assert (np.abs(counts / n - p) < 4.5 * error + 1e-4).all(), name
    levels = np.tile([0.0, 1.0, -1.0], (n, 1))
    shares = np.bincount(OUTCOMES["categorical"].draw(rng, levels, {}).astype(int)) / n
    expected = OUTCOMES["categorical"].risk(levels[0])
    assert (np.abs(shares - expected) < 4.5 * np.sqrt(expected * (1.0 - expected) / n)).all()
    survival, rows = OUTCOMES["survival"], OUTCOMES["survival"].rows(rng, n)
    times = survival.draw(rng, np.full(n, np.log(0.0003)), rows)
    theta, seen, late = np.log(0.0003), {"event": np.ones(1)}, {"event": np.zeros(1)}
    mass = quad(lambda t: np.exp(survival.log_density(t, theta, seen))[0], 0, CENSORED_AT)[0]
    after = np.exp(survival.log_density(CENSORED_AT, theta, late))[0]
    assert mass + after == pytest.approx(1.0)
    assert abs(1.0 - rows["event"].mean() - after) < 4.5 * np.sqrt(after / n)
    risk = survival.risk(np.array(theta))[0]
    assert risk == pytest.approx(1.0 - np.exp(-0.0003 * 10.0**SHAPE))
    assert abs((times < 10.0).mean() - risk) < 4.5 * np.sqrt(risk / n)


def test_people_are_as_many_as_the_design_says_and_the_truth_scores_best() -> None:
    from benchmarks.profiles.designs import DESIGNS

    assert {name.split(", ")[0] for name in DESIGNS} >= {"Bernoulli", "Poisson", "survival"}
    for name, design in DESIGNS.items():
        people = design.people(np.random.default_rng(1), 0.2)
        sizes = [round(0.2 * group.size) for group in design.groups]
        assert np.bincount(people.labels).tolist() == sizes, name
        assert people.covariates.shape[1] == 5 if "discrete" in name else 2
        assert (design.best_labels(people) == people.labels).mean() > 0.5
        other = people._replace(outcome=np.roll(people.outcome, len(people.outcome) // 2))
        assert design.nll(people).mean() < design.nll(other).mean()
        assert design.risks(people).shape[0] == len(people.labels)


def test_densities_of_covariates_sum_to_one_and_skip_missing_cells() -> None:
    from benchmarks.profiles.designs import DESIGNS, _log_normal

    design = DESIGNS["Poisson, discrete"]
    sizes = [len(shares) for shares in design.groups[0].shares]
    grid = np.stack(np.meshgrid(*[np.arange(size) for size in sizes], indexing="ij"), axis=-1)
    table = pd.DataFrame(np.array(list("abcd"))[grid.reshape(-1, len(sizes))])
    with np.errstate(divide="ignore"):
        logs = design._log_covariates(SimpleNamespace(labels=table.index, covariates=table))
    np.testing.assert_allclose(np.exp(logs).sum(axis=0), 1.0)
    half = _log_normal(np.array([[1.0, np.nan]]), np.zeros(2), np.array([[4.0, 1.0], [1.0, 2.0]]))
    np.testing.assert_allclose(half, -0.125 - 0.5 * np.log(2.0 * np.pi * 4.0))


def test_risks_are_averaged_over_the_members_of_a_profile() -> None:
    from benchmarks.profiles.designs import DESIGNS, Group
    from benchmarks.profiles.fits import covered

    design = DESIGNS["normal, normal"].__class__(
        "normal", "normal", [Group(3, -1.0), Group(3, 1.0)]
    )
    people = SimpleNamespace(labels=np.array([0, 0, 1, 0, 1, 1]))
    rng = np.random.default_rng(0)
    latent = np.array([-1.0, -1.0, 1.0, 5.0, 5.0, 5.0]) + rng.normal(size=(400, 1))
    post = SimpleNamespace(flat=lambda name: latent if name == "latent" else np.zeros((400, 6)))
    model: Any = SimpleNamespace(
        posterior_=post, labels_=np.array([0, 0, 0, 1, 1, 1]), n_clusters_=2
    )
    assert covered(design, model, people) == ((1, 1), 2)  # −1/3 is, 1/3 is not near 5


def test_a_run_continues_from_its_file_and_prints_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.profiles import __main__ as command
    from benchmarks.profiles.fits import Result

    asked = []

    def ran(task: Any) -> Result:
        asked.append(task)
        if task.engine == "variational":
            return Result(note="It cannot.")
        if len(asked) == 3:
            raise KeyboardInterrupt
        return Result(900, 3, 3, 0.9, 0.95, (2, 3), 3, 0.5, 0.4, 7.0, True)

    monkeypatch.setattr(command, "run", ran)
    monkeypatch.setattr(command.premium, "is_installed", lambda: False)
    words = ["--keep", str(tmp_path / "kept.jsonl"), "--seeds", "2"]
    words += ["--designs", "Bernoulli, mixed", "normal, normal"]
    with pytest.raises(KeyboardInterrupt):
        command.main(["--engines", "gibbs", *words])
    command.main(["--engines", "gibbs", *words])
    assert len(asked) == 5  # two, the one that was stopped, and two more
    capsys.readouterr()
    command.main(words)
    printed = capsys.readouterr().out
    row = "| Bernoulli, mixed | gibbs | 900 | 3.0 (3) | 0.900 (0.950) | 4 of 6 | 6 of 6 |"
    assert f"{row} +0.1000 | 7 | 2 of 2 |" in printed
    assert "Not there for Bernoulli, mixed; normal, normal. variational: It cannot." in printed
    assert "PReMiuM is left out" in printed


def test_a_fit_of_one_row_each_comes_near_the_truth() -> None:
    from benchmarks.profiles.fits import Task, run

    found = run(Task("normal, normal", "variational", 0, 0.1, 60.0))
    assert not found.note
    assert found.n == 120
    assert found.ari > 0.8
    assert abs(found.nll - found.true_nll) < 0.5


def test_what_premium_would_read_has_its_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.profiles import premium
    from benchmarks.profiles.designs import DESIGNS

    design = DESIGNS["Poisson, discrete"]
    table, asked = premium._inputs(design, design.people(np.random.default_rng(0), 0.2), 1)
    assert asked["covariates"] == "Discrete"
    assert asked["levels"][0] in table
    assert set(table[asked["levels"][4]].dropna()) == {0, 1, 2, 3}
    assert {"outcome", "outcomeT", "common.0"} <= set(table)
    monkeypatch.setattr(premium.shutil, "which", lambda _: None)
    assert not premium.is_installed()
