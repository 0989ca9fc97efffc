"""A chain that fails is left out and the others run to their end; any other error ends all, and no
thread outlives the fit."""

import io
import threading
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import dualview as dv
from dualview.chains.progress import Bar
from dualview.chains.schedule import FixedLength
from dualview.engines.gibbs import GibbsEngine, engine
from dualview.errors import DataWarning, DegenerateError

FORUM = dv.datasets.agreement(12, 20, seed=0)
LONG = 100_000


@pytest.fixture(autouse=True)
def _short_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step in a call, so that chains can stop after any of them."""
    monkeypatch.setattr(engine, "AT_ONCE", 1)


def fit(**options: Any) -> dv.Posterior:
    settings = {
        "n_warmup": 0,
        "n_draws": LONG,
        "n_chains": 3,
        "n_jobs": 3,
        "checkpoint_interval": 1e-9,
    } | options
    behavior = dv.SharedOutcome(FORUM.participation, FORUM.outcome)
    return dv.DualViewMixture(**settings).fit(FORUM.features, behavior).posterior_  # type: ignore[arg-type]


class Failing:
    """Steps as they are, but those of some chains fail once they have made this many."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, chains: set[int], after: int, n_chains: int = 3
    ) -> None:
        self.chains, self.after = chains, after
        self.made = dict.fromkeys(range(n_chains), 0)
        self.advance = GibbsEngine.advance
        monkeypatch.setattr(GibbsEngine, "advance", lambda *arguments: self(*arguments))

    def __call__(self, engine: GibbsEngine, rng: np.random.Generator, *arguments: Any) -> Any:
        chain = rng.bit_generator.seed_seq.spawn_key[0]  # type: ignore[attr-defined]
        if chain in self.chains and self.made[chain] >= self.after:
            raise DegenerateError("Numbers ran out.")
        self.made[chain] += 1
        return self.advance(engine, rng, *arguments)


def chain_threads() -> list[str]:
    return [
        thread.name
        for thread in threading.enumerate()
        if thread.name.startswith(("dualview-chain", "ThreadPool"))
    ]


def assert_same_as(rest: dv.Posterior, whole: dv.Posterior, chains: list[int]) -> None:
    for name in ("z", "latent", "alpha"):
        np.testing.assert_array_equal(rest[name], whole[name][chains])


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_the_others_run_to_their_end_and_a_warning_says_so(
    monkeypatch: pytest.MonkeyPatch, n_jobs: int
) -> None:
    whole = fit(n_draws=15)
    Failing(monkeypatch, {1}, after=5 if n_jobs == 3 else 0)
    with pytest.warns(
        DataWarning, match=r"^Chain 1 of 3 \(counting from 0\) failed: Numbers ran out\."
    ) as caught:
        rest = fit(n_draws=15, n_jobs=n_jobs)
    message = next(str(one.message) for one in caught if one.category is DataWarning)
    assert " The other 2 chains were kept, and the draws are theirs alone." in message
    assert "failed.txt" not in message
    assert rest.n_chains == 2
    assert rest.failures == message
    assert message in rest.verdict()
    assert whole.failures is None
    assert_same_as(rest, whole, [0, 2])
    assert chain_threads() == []


def test_a_failure_is_kept_in_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Failing(monkeypatch, {0, 2}, after=0)
    with pytest.warns(DataWarning, match=r"^Chains 0, 2 of 3 .* The other chain was kept"):
        post = fit(n_draws=15, n_jobs=1)
    post.save(tmp_path / "run.nc")
    assert dv.load(tmp_path / "run.nc").failures == post.failures


def test_chains_that_grow_are_judged_without_the_failed_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "AT_ONCE", 100)
    options: dict[str, Any] = {"n_warmup": None, "n_draws": 140, "max_draws": 300, "n_jobs": 1}
    whole = fit(**options)
    Failing(monkeypatch, {0}, after=0)
    with pytest.warns(DataWarning, match="Chain 0 of 3"):
        rest = fit(**options)
    assert rest.length == whole.length
    assert_same_as(rest, whole, [1, 2])


def test_a_chain_that_fails_in_another_process_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit(n_draws=15)
    Failing(monkeypatch, {1}, after=0)
    seen: set[int] = set()
    with joblib.parallel_config("loky", n_jobs=1), pytest.warns(DataWarning, match="Chain 1 of 3"):
        rest = fit(n_draws=15, n_jobs=None, progress=lambda chain, *_: seen.add(chain))
    assert_same_as(rest, whole, [0, 2])
    assert seen == {0, 2}


def test_it_is_an_error_when_no_chain_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    Failing(monkeypatch, {0, 1, 2}, after=0)
    with pytest.raises(
        DegenerateError,
        match=r"^Chains 0, 1, 2 of 3 \(counting from 0\) failed: Numbers ran out\.$",
    ):
        fit(n_draws=15, n_jobs=1)
    assert chain_threads() == []


@pytest.mark.filterwarnings("ignore:Users with the same features", "ignore:Not converged")
def test_a_cluster_that_shrinks_onto_users_with_the_same_features(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "AT_ONCE", 100)
    features = np.random.default_rng(1).normal(size=(8, 2))
    features[1] = features[0]
    model = dv.DualViewMixture(n_warmup=500, n_draws=1500, random_state=1)
    with pytest.warns(
        DataWarning, match=r"The features view has collapsed.* same features in all columns: 0, 1\."
    ):
        model.fit(features)
    assert model.posterior_.n_chains == 3


def test_a_display_does_not_wait_for_a_failed_chain() -> None:
    screen = io.StringIO()
    with Bar(3, FixedLength(0, 100), stream=screen) as bar:
        for chain in (0, 1):
            bar(chain, 100, 2)
        bar.failed(2)
    assert "100 of 100 iterations" in screen.getvalue()


def test_a_single_chain_fails_with_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    Failing(monkeypatch, {0}, after=2, n_chains=1)
    with pytest.raises(DegenerateError, match=r"^Numbers ran out\.$"):
        fit(n_chains=1)


def test_fitting_again_continues_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        Failing(patch, {1}, after=5)
        with pytest.warns(
            DataWarning, match=r"^Chain 1 of 3 .* delete failed\.txt in its folder\."
        ):
            first = fit(n_draws=10, checkpoint=tmp_path / "run")
    with pytest.warns(DataWarning, match=r"^Chain 1 of 3 .* failed: Numbers ran out\."):
        rest = fit(n_draws=15, checkpoint=tmp_path / "run")
    whole = fit(n_draws=15)
    assert first.n_draws == 10
    assert_same_as(rest, whole, [0, 2])


def test_a_failed_chain_is_tried_again_without_its_note(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        Failing(patch, {2}, after=3)
        with pytest.warns(DataWarning, match="failed: Numbers ran out"):
            fit(n_draws=10, checkpoint=tmp_path / "run", n_jobs=1)
    for index in range(3):
        (tmp_path / "run" / f"chain-{index}" / "failed.txt").write_text("Numbers ran out.")
    with pytest.raises(
        DegenerateError,
        match=r"^Chains 0, 1, 2 of 3 .* in an earlier session\. .* delete failed\.txt",
    ):
        fit(n_draws=10, checkpoint=tmp_path / "run")
    for index in range(3):
        (tmp_path / "run" / f"chain-{index}" / "failed.txt").unlink()
    np.testing.assert_array_equal(
        fit(n_draws=10, checkpoint=tmp_path / "run")["alpha"], fit(n_draws=10)["alpha"]
    )


def test_no_thread_outlives_another_error() -> None:
    def look(chain: int, iteration: int, _: int) -> None:
        if chain == 2 and iteration > 5:
            raise RuntimeError("the screen is gone")

    with pytest.raises(RuntimeError, match="the screen is gone"):
        fit(progress=look)
    assert chain_threads() == []
