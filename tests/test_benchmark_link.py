"""The comparison of the link with regressions on forums: its regressions are right, and it goes on
where it stopped."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from dualview.forum import example_posts

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def link() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "benchmarks_link", ROOT / "benchmarks" / "link.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_variances_and_predictions_are_those_of_the_dense_mixed_model(link: ModuleType) -> None:
    rng = np.random.default_rng(0)
    n, new = 80, 7
    fixed = np.column_stack([np.ones(n + new), rng.normal(size=n + new)])
    slopes, effects = rng.normal(size=(n + new, 3)), (rng.random((n + new, 12)) < 0.3).astype(float)
    y = (
        fixed @ [2.0, -1.0]
        + slopes @ rng.normal(size=3)
        + effects @ rng.normal(size=12)
        + rng.normal(size=n + new)
    )
    rows = link.Columns(fixed, slopes, effects)
    mean, variance = link.fit_linear(link.Columns(*(p[:n] for p in rows)), y[:n])(
        link.Columns(*(p[n:] for p in rows))
    )

    def restricted(logs: np.ndarray) -> tuple[float, np.ndarray, float]:
        v = (
            np.eye(n + new)
            + np.exp(logs[0]) * slopes @ slopes.T
            + np.exp(logs[1]) * effects @ effects.T
        )
        inner, w = np.linalg.solve(v[:n, :n], np.column_stack([fixed[:n], y[:n]])), fixed[:n]
        gram = w.T @ inner[:, :2]
        beta = np.linalg.solve(gram, w.T @ inner[:, 2])
        residual = y[:n] - w @ beta
        noise = residual @ np.linalg.solve(v[:n, :n], residual) / (n - 2)
        value = 0.5 * (
            np.linalg.slogdet(v[:n, :n])[1] + np.linalg.slogdet(gram)[1] + (n - 2) * np.log(noise)
        )
        return value, v, noise

    best = minimize(
        lambda logs: restricted(logs)[0],
        np.zeros(2),
        method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-12},
    )
    _, v, noise = restricted(best.x)
    w, across = fixed[:n], v[n:, :n]
    gram = w.T @ np.linalg.solve(v[:n, :n], w)
    beta = np.linalg.solve(gram, w.T @ np.linalg.solve(v[:n, :n], y[:n]))
    unexplained = fixed[n:] - across @ np.linalg.solve(v[:n, :n], w)
    expected = fixed[n:] @ beta + across @ np.linalg.solve(v[:n, :n], y[:n] - w @ beta)
    spread = (
        v[n:, n:]
        - across @ np.linalg.solve(v[:n, :n], across.T)
        + unexplained @ np.linalg.solve(gram, unexplained.T)
    )
    assert np.allclose(mean, expected, atol=1e-3)
    assert np.allclose(variance, noise * np.diag(spread), rtol=1e-3)


def test_gains_have_the_right_sign(link: ModuleType) -> None:
    nll = {
        "mean": 3.0,
        "ridge": 2.0,
        "features": 1.0,
        "both": 1.5,
        "dual": 1.6,
        "link": 1.5,
        "dual*": 1.6,
        "link*": 1.4,
    }
    rows = pd.DataFrame(
        [
            {
                "forum": "f",
                "threads": 10,
                "subset": k,
                "model": name,
                "nll": value + 0.01 * k * (name == "ridge"),
            }
            for k in range(3)
            for name, value in nll.items()
        ]
    )
    gains = link.gains(rows, "nll", "link")
    assert {rival: gains["f", 10, rival].verdict for rival in link.RIVALS["link"]} == {
        "ridge": "+",
        "features": "−",
        "both": "=",
        "dual": "+",
    }
    assert gains["f", 10, "ridge"].mean == pytest.approx(0.51)
    assert gains["f", 10, "ridge"].error == pytest.approx(0.01 / 3**0.5)


@pytest.mark.slow
def test_a_made_up_forum_is_scored_and_a_second_run_only_reads(
    link: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    posts = tmp_path / "posts.csv"
    example_posts(n_users=60, n_threads=400, seed=0).to_csv(posts, index=False)
    arguments = [
        "--forum",
        "made",
        str(posts),
        "covariates=section",
        "--threads",
        "60",
        "120",
        "--subsets",
        "2",
        "--users",
        "20",
    ]
    arguments += [
        "--warmup",
        "10",
        "--draws",
        "20",
        "--chains",
        "2",
        "--out",
        str(tmp_path / "out"),
    ]
    link.main(arguments)
    rows = pd.read_csv(tmp_path / "out" / "forums.csv")
    assert len(rows) == 2 * 2 * len(link.MODELS)
    assert rows[["nll", "r2"]].notna().all(axis=None)
    assert rows[rows["model"] == "link"]["prediction_r_hat"].notna().all()
    assert rows["users"].iloc[0] >= 20
    text = (tmp_path / "out" / "forums.md").read_text(encoding="utf-8")
    assert "- link against both: better at" in text
    assert "--forum made" in text
    monkeypatch.setattr(link, "score", lambda *_: pytest.fail("fitted again"))
    link.main(arguments)
    assert (tmp_path / "out" / "forums.md").read_text(encoding="utf-8") == text
    with pytest.raises(SystemExit, match="another command"):
        link.main([*arguments, "--seed", "1"])
