"""A chain that fails: the others stop at once, keep what they have and can be continued; no thread outlives the fit."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dualview as dv
from dualview.chains.checkpoint import ChainFiles
from dualview.engines.gibbs import GibbsEngine, engine
from dualview.errors import DataWarning, DegenerateError

FORUM = dv.datasets.agreement(12, 20, seed=0)
LONG = 100_000


@pytest.fixture(autouse=True)
def _short_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step in a call, so that chains can stop after any of them."""
    monkeypatch.setattr(engine, "AT_ONCE", 1)


def fit(**options: Any) -> dv.Posterior:
    settings = {"n_warmup": 0, "n_draws": LONG, "n_chains": 3, "n_jobs": 3, "checkpoint_interval": 1e-9} | options
    behavior = dv.SharedOutcome(FORUM.participation, FORUM.outcome)
    return dv.DualViewMixture(**settings).fit(FORUM.features, behavior).posterior_  # type: ignore[arg-type]


class Failing:
    """Steps as they are, but those of some chains fail as soon as every chain has made this many."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, chains: set[int], after: int, n_chains: int = 3) -> None:
        self.chains, self.after = chains, after
        self.made = dict.fromkeys(range(n_chains), 0)
        self.advance = GibbsEngine.advance
        monkeypatch.setattr(GibbsEngine, "advance", lambda *arguments: self(*arguments))

    def __call__(self, engine: GibbsEngine, rng: np.random.Generator, *arguments: Any) -> Any:
        chain = rng.bit_generator.seed_seq.spawn_key[0]  # type: ignore[attr-defined]
        if chain in self.chains and min(self.made.values()) >= self.after:
            raise DegenerateError("Numbers ran out.")
        self.made[chain] += 1
        return self.advance(engine, rng, *arguments)


def chain_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(("dualview-chain", "ThreadPool"))]


def test_the_others_stop_and_the_error_says_how_to_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Failing(monkeypatch, {1}, after=5)
    with pytest.raises(DegenerateError) as caught:
        fit()
    assert chain_threads() == []
    message = str(caught.value)
    assert message.startswith("Chain 1 of 3 (counting from 0) failed: Numbers ran out. The other chains were stopped;")
    assert f"draws they have: {steps.made[0]}, {steps.made[2]}." in message
    assert "fit with checkpoint=FOLDER" in message
    assert max(steps.made.values()) < LONG


def test_a_single_chain_fails_with_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    Failing(monkeypatch, {0}, after=2, n_chains=1)
    with pytest.raises(DegenerateError, match=r"^Numbers ran out\.$"):
        fit(n_chains=1)


def test_fitting_again_continues_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        Failing(patch, {1}, after=5)
        with pytest.raises(DegenerateError, match=r"They are in .*run: fit again with the same settings to continue"):
            fit(n_draws=15, checkpoint=tmp_path / "run")
    assert min(ChainFiles(tmp_path / "run" / f"chain-{index}").iteration for index in (0, 2)) >= 5
    with pytest.warns(DataWarning, match=r"^Chain 1 failed in an earlier session, .* without: Numbers ran out\."):
        rest = fit(n_draws=15, checkpoint=tmp_path / "run")
    whole = fit(n_draws=15)
    for name in ("z", "latent", "alpha"):
        np.testing.assert_array_equal(rest[name], whole[name][[0, 2]])


def test_a_failed_chain_is_tried_again_without_its_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        Failing(patch, {2}, after=3)
        with pytest.raises(DegenerateError, match="failed: Numbers ran out"):
            fit(n_draws=10, checkpoint=tmp_path / "run", n_jobs=1)
    for index in range(3):
        (tmp_path / "run" / f"chain-{index}" / "failed.txt").write_text("Numbers ran out.")
    with pytest.raises(DegenerateError, match=r"^Chains 0, 1, 2 failed in an earlier session: .* delete failed\.txt"):
        fit(n_draws=10, checkpoint=tmp_path / "run")
    for index in range(3):
        (tmp_path / "run" / f"chain-{index}" / "failed.txt").unlink()
    np.testing.assert_array_equal(fit(n_draws=10, checkpoint=tmp_path / "run")["alpha"], fit(n_draws=10)["alpha"])


def test_no_thread_outlives_another_error() -> None:
    def look(chain: int, iteration: int, _: int) -> None:
        if chain == 2 and iteration > 5:
            raise RuntimeError("the screen is gone")

    with pytest.raises(RuntimeError, match="the screen is gone"):
        fit(progress=look)
    assert chain_threads() == []
