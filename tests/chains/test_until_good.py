"""Fits that end when their verdict passes: whatever the workers, the kills and the files, the same
draws."""

import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import distributed
import joblib
import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview.chains import chains, checkpoint
from dualview.chains.checkpoint import ChainFiles
from dualview.chains.schedule import schedule_of
from dualview.engines.gibbs import engine as gibbs
from dualview.errors import FileError, InputError
from dualview.posterior.diagnostics.convergence import ConvergenceMonitor
from dualview.settings import Settings
from systems import needs_signals

FORUM = dv.datasets.agreement(20, 40, seed=0)
SETTINGS: dict[str, Any] = {
    "n_clusters": 1,
    "n_draws": 200,
    "n_chains": 3,
}  # one cluster: quick, and it takes some looks
NEVER: dict[str, Any] = {
    "n_draws": 200,
    "n_chains": 2,
    "max_draws": 560,
}  # so few that it never is good


def fit(**options: Any) -> dv.Posterior:
    behavior = dv.SharedOutcome(FORUM.participation, FORUM.outcome)
    features = None if options.get("n_clusters") == 1 else FORUM.features
    return dv.DualViewMixture(**options).fit(features, behavior).posterior_


def assert_same(a: dv.Posterior, b: dv.Posterior) -> None:
    assert a.names == b.names
    assert a.length == b.length
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    for name in a.components:
        np.testing.assert_array_equal(a.components[name], b.components[name], err_msg=name)


@pytest.fixture(scope="module")
def good() -> dv.Posterior:
    return fit(**SETTINGS, n_jobs=1)


@pytest.fixture(scope="module")
def limited() -> dv.Posterior:
    return fit(**NEVER, n_jobs=1)


def test_it_ends_when_the_verdict_passes_and_not_before(good: dv.Posterior) -> None:
    """A fixed length that ends at the look before the last has not passed."""
    assert good.converged
    assert good.verdict().startswith("Converged")
    assert good.length is not None
    assert good.length.ended == "converged"
    assert good.n_draws == 200
    stops = [part.stop for part in schedule_of(Settings(**SETTINGS), 20).rounds() if part.look]
    place = stops.index(good.length.n_iterations)
    assert place > 0, "it was good at the first look: this test shows nothing"
    before = fit(**SETTINGS, max_draws=stops[place - 1])
    assert not before.converged
    assert before.length is not None
    assert before.length.ended == "max_draws"
    assert "(max_time, max_draws)" in before.verdict()
    timed = before.timed_verdict()
    assert re.search(r"^Not converged: run .*\(max_time=\d+, max_draws\), about \d+ sec", timed)
    loaded = dv.Posterior(before.tree)  # by another session, which does not know how long it took
    assert loaded.timed_verdict() == loaded.verdict() == before.verdict()


def test_the_verdict_repeats_no_diagnostics_of_the_last_look(
    good: dv.Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A posterior is told what the last look found, which is what it would find itself."""
    told = []

    def tell(monitor: ConvergenceMonitor, post: dv.Posterior) -> None:
        whole(monitor, post)
        told.append(dict(post.rows))

    whole = ConvergenceMonitor.tell
    monkeypatch.setattr(ConvergenceMonitor, "tell", tell)
    fit(**SETTINGS, n_jobs=1)
    fresh = dv.Posterior(good.tree)
    assert fresh.rows == {}
    pd.testing.assert_frame_equal(fresh._table, good._table)
    assert told == [fresh.rows]


def test_draws_are_those_of_a_fixed_length_thinned(good: dv.Posterior) -> None:
    assert good.length is not None
    made, warmup, stride, _ = good.length
    whole = fit(**SETTINGS | {"n_draws": made}, n_warmup=0)
    for name in ("latent", "noise_precision", "log_joint"):
        np.testing.assert_array_equal(good[name], whole[name][:, warmup + stride - 1 :: stride])


def test_the_limit_of_draws_ends_it_and_draws_are_thinned(limited: dv.Posterior) -> None:
    assert limited.length == (560, 160, 2, "max_draws")
    assert limited.n_draws == 200
    assert not limited.converged
    whole = fit(**NEVER | {"n_draws": 560, "max_draws": None}, n_warmup=0)
    np.testing.assert_array_equal(limited["z"], whole["z"][:, 161::2])


def test_a_given_warm_up_is_kept_to() -> None:
    post = fit(**NEVER | {"max_draws": 350}, n_warmup=33)
    assert post.length == (383, 33, 2, "max_draws")
    whole = fit(n_draws=350, n_chains=2, n_warmup=33)
    np.testing.assert_array_equal(post["z"], whole["z"][:, 1::2])


@pytest.mark.parametrize("n_jobs", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_the_number_of_workers_changes_nothing(good: dv.Posterior, n_jobs: int) -> None:
    assert_same(fit(**SETTINGS, n_jobs=n_jobs), good)


def test_progress_changes_nothing(
    limited: dv.Posterior, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_same(fit(**NEVER, progress=True), limited)
    last = capsys.readouterr().err.split("\r")[-1]
    assert "560 iterations, R-hat 1." in last
    assert "effective draws, clusters " in last
    assert "0 s to go" in last


@pytest.mark.parametrize(("n_draws", "told"), [(3, False), (15, True)])
def test_a_fixed_length_is_looked_at_where_there_are_enough_draws(
    n_draws: int, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    post = fit(n_draws=n_draws, n_warmup=5, n_chains=2, progress=True)
    assert post.length == (5 + n_draws, 5, 1, "length")
    assert ("R-hat" in capsys.readouterr().err) == told


@pytest.mark.slow
def test_processes_give_the_draws_that_threads_give_and_tell_their_progress(
    good: dv.Posterior,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chains, "_SLICE", 1e-9)  # one call of the engine at a time
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert_same(fit(**SETTINGS, checkpoint=tmp_path / "run", progress=True), good)
    assert "R-hat 1.0" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_too(
    good: dv.Posterior, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": None,
        "local_directory": str(tmp_path),
    }
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        assert_same(fit(**SETTINGS, progress=True), good)
    assert "R-hat 1.0" in capsys.readouterr().err


class TestFiles:
    @pytest.fixture(autouse=True)
    def _short_calls(self, limited: dv.Posterior, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG002
        monkeypatch.setattr(gibbs, "AT_ONCE", 70)

    def test_a_checkpoint_changes_nothing(self, limited: dv.Posterior, tmp_path: Path) -> None:
        often = {"checkpoint": tmp_path / "run", "checkpoint_interval": 1e-9}
        assert_same(fit(**NEVER, **often), limited)
        assert_same(fit(**NEVER, **often), limited)  # a finished run is read

    @pytest.mark.parametrize(
        "iteration", [210, *(pytest.param(i, marks=pytest.mark.slow) for i in (126, 401))]
    )
    def test_a_killed_run_is_resumed_to_the_same_draws(
        self, limited: dv.Posterior, tmp_path: Path, iteration: int
    ) -> None:
        seen = [0] * 2

        class Killed(BaseException):
            pass

        def kill(chain: int, done: int, _: int) -> None:
            seen[chain] = done
            if done >= iteration and chain == 1:
                raise Killed

        with pytest.raises(Killed):
            fit(
                **NEVER,
                checkpoint=tmp_path / "run",
                checkpoint_interval=1e-9,
                n_jobs=2,
                progress=kill,
            )
        assert max(seen) < 560
        assert_same(fit(**NEVER, checkpoint=tmp_path / "run"), limited)

    def test_a_torn_chain_is_done_again(
        self, limited: dv.Posterior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Files of one chain only, from some iteration on, are lost."""
        monkeypatch.setattr(checkpoint, "_FAN", 1000)
        fit(**NEVER, checkpoint=tmp_path / "run", checkpoint_interval=1e-9)
        for path in (tmp_path / "run" / "chain-1").iterdir():
            if int(path.name.split("-")[1]) > 170:
                path.unlink()
        assert ChainFiles(tmp_path / "run" / "chain-1").iteration <= 170
        assert_same(fit(**NEVER, checkpoint=tmp_path / "run"), limited)

    def test_a_kill_while_chunks_are_thinned_loses_nothing(
        self, limited: dv.Posterior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = 0

        def die(path: Path, **_: Any) -> None:
            nonlocal calls
            calls += path.suffix == ".h5"
            if calls > 9:
                raise RuntimeError("killed")
            os.unlink(path)

        with monkeypatch.context() as patch:
            patch.setattr(
                Path, "unlink", die
            )  # chunks that were written again are removed one by one
            with pytest.raises(RuntimeError, match="killed"):
                fit(**NEVER, checkpoint=tmp_path / "run", checkpoint_interval=1e-9, n_jobs=1)
        assert_same(fit(**NEVER, checkpoint=tmp_path / "run"), limited)

    @pytest.mark.slow
    def test_files_stay_what_the_draws_need(self, tmp_path: Path) -> None:
        """Sixteen times as many iterations, as many draws: no more room."""
        sizes = []
        for limit in (400, 6400):  # 200 draws each, of 200 iterations and of 3,200
            fit(
                **NEVER | {"max_draws": limit},
                checkpoint=tmp_path / str(limit),
                checkpoint_interval=60.0,
            )
            sizes.append(
                sum(path.stat().st_size for path in (tmp_path / str(limit)).glob("chain-*/*.h5"))
            )
        assert sizes[1] < 1.05 * sizes[0]

    def test_a_run_at_its_limit_goes_on_with_a_larger_one(
        self, limited: dv.Posterior, tmp_path: Path
    ) -> None:
        for limit in (230, 401, 560):
            longer = fit(**NEVER | {"max_draws": limit}, checkpoint=tmp_path / "run")
        assert_same(longer, limited)
        shorter = fit(
            **NEVER | {"max_draws": 401}, checkpoint=tmp_path / "run"
        )  # what is thinned stays so
        assert shorter.length is not None
        assert shorter.length[:1] == (401,)
        assert shorter.length.stride == 2

    def test_what_may_not_change(self, tmp_path: Path) -> None:
        fit(**NEVER | {"max_draws": 220}, checkpoint=tmp_path / "grows")
        with pytest.raises(InputError, match="n_draws was 200, now 300"):
            fit(**NEVER | {"n_draws": 300}, checkpoint=tmp_path / "grows")
        with pytest.raises(InputError, match="length was 'until converged', now None"):
            fit(n_warmup=10, n_draws=200, n_chains=2, checkpoint=tmp_path / "grows")
        fit(n_warmup=10, n_draws=200, n_chains=2, checkpoint=tmp_path / "fixed")
        with pytest.raises(InputError, match="n_warmup was 10, now None"):
            fit(**NEVER, checkpoint=tmp_path / "fixed")


class TestTime:
    def test_the_time_limit_ends_it_and_is_recorded(self, tmp_path: Path) -> None:
        post = fit(n_draws=10**6, n_chains=3, max_time=0.5, n_jobs=2, checkpoint=tmp_path / "run")
        assert post.length is not None
        assert post.length.ended == "max_time"
        assert post.n_chains == 3
        assert '"ended": "max_time"' in (tmp_path / "run" / "manifest.json").read_text()
        post.save(tmp_path / "run.nc")
        assert dv.load(tmp_path / "run.nc").length == post.length

    def test_a_run_that_time_ended_is_resumed_to_the_same_draws(
        self, limited: dv.Posterior, tmp_path: Path
    ) -> None:
        cut_off = fit(
            **NEVER | {"max_draws": 10**6}, max_time=1e-6, n_jobs=1, checkpoint=tmp_path / "run"
        )
        assert cut_off.length is not None
        assert cut_off.length.ended == "max_time"
        assert_same(fit(**NEVER, checkpoint=tmp_path / "run"), limited)

    def test_time_that_is_over_before_the_first_draw_is_an_error(self) -> None:
        with pytest.raises(InputError, match="max_time ran out before the end of warm-up"):
            fit(n_warmup=10**6, max_time=1e-6)

    def test_processes_keep_to_it(self) -> None:
        with joblib.parallel_config(backend="loky", n_jobs=2):
            post = fit(n_draws=10**6, n_chains=2, max_time=0.3)
        assert post.length is not None
        assert post.length.ended == "max_time"


@needs_signals
class TestInterrupt:
    def test_in_threads_what_there_is_comes_back(self) -> None:
        def press(chain: int, iteration: int, _: int) -> None:
            if chain == 0 and iteration >= 300:
                os.kill(os.getpid(), signal.SIGINT)

        post = fit(**NEVER, progress=press, n_jobs=2)
        assert post.length is not None
        assert post.length.ended == "interrupted"
        assert post.n_chains == 2
        assert 250 <= post.length.n_iterations <= 400

    @pytest.mark.slow
    def test_in_processes_too(self) -> None:
        def press(chain: int, iteration: int, _: int) -> None:
            if chain == 0 and iteration > 0:
                os.kill(os.getpid(), signal.SIGINT)

        with joblib.parallel_config(backend="loky", n_jobs=2):
            post = fit(n_draws=10**6, n_chains=2, progress=press)
        assert post.length is not None
        assert post.length.ended == "interrupted"
        assert post.n_draws > 0


def test_a_summary_grows_too() -> None:
    """Scalars, whole draws and moments are over the same draws, those after a warm-up of
    n_draws."""
    options = {"n_clusters": 1, "n_draws": 200, "n_chains": 3, "max_draws": 700}
    post = fit(**options, keep="summary", n_whole=20)
    assert post.summary is not None
    assert post.length is not None
    made, warmup, stride, _ = post.length
    assert warmup == 200
    whole = fit(n_clusters=1, n_draws=made - 200, n_chains=3, n_warmup=200)
    np.testing.assert_array_equal(
        post.summary["noise_precision"].values, whole["noise_precision"][:, stride - 1 :: stride]
    )
    np.testing.assert_array_equal(
        post["latent"], whole["latent"][:, 10 * stride - 1 :: 10 * stride]
    )
    np.testing.assert_allclose(post.latent_mean, whole.flat("latent").mean(axis=0), rtol=1e-9)
    assert "latent[19]" in post.scalars()
    assert post.scalars()["latent[19]"].shape == post.summary["noise_precision"].shape


def test_too_few_draws_to_ever_be_good_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"n_draws × n_chains must be at least 400 .* got 50 × 4\. .*n_warmup"
    ):
        fit(n_draws=50)
    fit(n_draws=50, n_warmup=10)


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": "dualview run", "format_version": 1}')
    with pytest.raises(FileError, match="started by another version of dualview"):
        fit(**NEVER, checkpoint=tmp_path)


def test_no_thread_is_left() -> None:
    fit(**SETTINGS | {"max_draws": 220}, n_jobs=3)
    time.sleep(0.01)
    assert not [
        thread for thread in threading.enumerate() if thread.name.startswith("dualview-chain")
    ]
