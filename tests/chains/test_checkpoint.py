"""Runs on disk: resumed draws are those of an uninterrupted run, bit for bit."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import dualview as dv
from dualview.chains import checkpoint
from dualview.chains.checkpoint import ChainFiles
from dualview.chains.run_folder import RunFolder
from dualview.engines.gibbs import engine
from dualview.errors import FileError, InputError
from systems import needs_signals

SETTINGS: dict[str, Any] = {
    "n_warmup": 4,
    "n_draws": 8,
    "n_chains": 2,
    "thin": 2,
}  # a file for each of twenty steps
FORUM = dv.datasets.agreement(12, 20, seed=0)


def behavior(shift: float = 0.0) -> dv.SharedOutcome:
    return dv.SharedOutcome(FORUM.participation, FORUM.outcome + shift, intercept=True)


def fit(folder: Path | None, **changes: Any) -> dv.Posterior:
    options = SETTINGS | {"checkpoint": folder, "checkpoint_interval": 1e-9} | changes
    return dv.DualViewMixture(**options).fit(FORUM.features, behavior()).posterior_


def assert_same(a: dv.Posterior, b: dv.Posterior) -> None:
    assert a.names == b.names
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    for name in a.components:
        np.testing.assert_array_equal(a.components[name], b.components[name], err_msg=name)


def cut(folder: Path, iteration: int) -> None:
    """Leave only what was on disk when each chain had come this far, as a kill would."""
    for chain in folder.glob("chain-*"):
        for path in chain.iterdir():
            if int(path.name.split("-")[1]) > iteration:
                path.unlink()


@pytest.fixture(scope="module")
def uninterrupted() -> dv.Posterior:
    """As chains usually are, many steps in a call."""
    return fit(None)


@pytest.fixture(autouse=True)
def _short_calls(uninterrupted: dv.Posterior, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """One step in a call, so that there is a file after every one of them."""
    monkeypatch.setattr(engine, "AT_ONCE", 1)


@pytest.fixture(scope="module")
def whole_run(uninterrupted: dv.Posterior, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001
    """The folder of a run with a file for every step."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "AT_ONCE", 1)
        patch.setattr(checkpoint, "_FAN", 1000)
        fit(folder)
    return folder


@pytest.fixture(scope="module")
def few_files(uninterrupted: dv.Posterior, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001
    """The folder of a run as chains usually are, for what is refused before anything is written."""
    folder = tmp_path_factory.mktemp("few") / "run"
    fit(folder)
    return folder


@pytest.fixture
def run(whole_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, whose files are not joined either."""
    monkeypatch.setattr(checkpoint, "_FAN", 1000)
    shutil.copytree(whole_run, tmp_path / "run")
    return tmp_path / "run"


def test_a_checkpoint_changes_no_draw(uninterrupted: dv.Posterior, tmp_path: Path) -> None:
    assert_same(fit(tmp_path / "run"), uninterrupted)
    assert_same(fit(tmp_path / "run"), uninterrupted)  # a finished run is read


@pytest.mark.parametrize("iteration", [1, 3, 4, 9, 19])
def test_resuming_gives_the_same_draws(
    uninterrupted: dv.Posterior, run: Path, iteration: int
) -> None:
    cut(run, iteration)
    assert_same(fit(run), uninterrupted)


def test_more_draws_go_on_where_the_run_ended(uninterrupted: dv.Posterior, tmp_path: Path) -> None:
    fit(tmp_path / "run", n_draws=5)
    assert_same(fit(tmp_path / "run"), uninterrupted)


def test_files_stay_few(tmp_path: Path) -> None:
    fit(tmp_path / "run", n_draws=4 * checkpoint._FAN, n_chains=1, thin=1)
    assert len(list((tmp_path / "run" / "chain-0").iterdir())) < 3 * checkpoint._FAN


@pytest.mark.parametrize("damage", ["torn", "emptied", "changed", "foreign", "gap"])
def test_damaged_files_are_noticed(uninterrupted: dv.Posterior, run: Path, damage: str) -> None:
    chunks = sorted((run / "chain-0").iterdir())
    victim = chunks[len(chunks) // 2]
    content = victim.read_bytes()
    if damage == "gap":
        victim.unlink()
    elif damage == "foreign":
        victim.write_bytes(
            (run / "chain-1").joinpath(sorted(os.listdir(run / "chain-1"))[3]).read_bytes()
        )
    else:
        middle = len(content) // 2
        replaced = {
            "torn": content[:middle],
            "emptied": b"",
            "changed": content[:middle] + b"?" + content[middle + 1 :],
        }
        victim.write_bytes(replaced[damage])
    good = ChainFiles(run / "chain-0").iteration
    assert good == int(victim.name.split("-")[0])
    assert_same(fit(run), uninterrupted)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_warmup": 10}, "n_warmup was 4, now 10"),
        ({"n_draws": 5}, "n_draws was 8 and can only grow, now 5"),
        ({"n_clusters": 3}, "n_clusters was None, now 3"),
        ({"random_state": 5}, "random_state was 0, now 5"),
        ({"init": "one"}, "init was 'kmeans', now 'one'"),
        ({"behavior_prior": dv.GaussianPrior(0.0, 1.0)}, "behavior_prior has changed"),
        ({"feature_prior": "diagonal"}, "feature_prior was None, now 'diagonal'"),
        ({"alpha": 1.5}, r"alpha was 'gamma\(0.25, 0.25\)', now '1.5'"),
        ({"alpha": "paper"}, r"alpha was 'gamma\(0.25, 0.25\)', now 'inverse gamma\(0.5, 0.5\)'"),
    ],
)
def test_changed_settings_are_refused(
    few_files: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        fit(few_files, **changes)


def test_changed_data_are_refused(few_files: Path) -> None:
    model = dv.DualViewMixture(**SETTINGS, checkpoint=few_files)
    with pytest.raises(InputError, match="outcome has changed"):
        model.fit(FORUM.features, behavior(1e-9))
    with pytest.raises(InputError, match="features has changed"):
        model.fit(FORUM.features + 1e-9, behavior())


def test_without_a_seed_a_run_goes_on_with_its_own(tmp_path: Path) -> None:
    first = fit(tmp_path / "run", random_state=None, n_draws=3)
    longer = fit(tmp_path / "run", random_state=None, n_draws=5)
    np.testing.assert_array_equal(longer["alpha"][:, :3], first["alpha"])


def test_manifest_says_how_to_repeat_the_run(few_files: Path) -> None:
    manifest = json.loads((few_files / "manifest.json").read_text())
    assert manifest["made_with"]["n_warmup"] == 4
    assert manifest["entropy"] == "0"
    assert {"dualview", "numpy", "numba", "python"} <= set(manifest["versions"])


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_loses_nothing_that_was_saved(
    uninterrupted: dv.Posterior, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    real = getattr(os, step)

    def fail_later(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 15:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(os, step, fail_later)
    with pytest.raises(
        FileError, match=r"No space left on device\. What was saved before is unchanged"
    ):
        fit(tmp_path / "run")
    monkeypatch.undo()
    assert (
        max(ChainFiles(tmp_path / "run" / f"chain-{c}").iteration for c in range(2)) > 0
    )  # whichever came first
    assert_same(fit(tmp_path / "run"), uninterrupted)


def test_foreign_folders(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": "something else"}')
    with pytest.raises(FileError, match="not from a run of dualview"):
        fit(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": "dualview run", "format_version": 1}')
    with pytest.raises(
        FileError, match="started by another version of dualview, whose sampler draws other numbers"
    ):
        fit(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(FileError, match=r"manifest\.json cannot be read"):
        fit(tmp_path)


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    """By a lock that dies with its process: the holder is killed, and the folder is free."""
    script = f"""
    import time
    from dualview.chains.run_folder import RunFolder
    with RunFolder({str(tmp_path)!r}).lock():
        print("locked", flush=True)
        time.sleep(60)
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    with pytest.raises(FileError, match=f"Another run is using .* .process {holder.pid}."):
        fit(tmp_path)
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with RunFolder(tmp_path).lock():
        pass


@pytest.mark.slow
def test_processes_give_the_draws_that_threads_give(uninterrupted: dv.Posterior) -> None:
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert_same(fit(None), uninterrupted)


RUN = """
import sys, warnings
import dualview as dv
warnings.simplefilter("ignore")
forum = dv.datasets.agreement(12, 20, seed=0)
model = dv.DualViewMixture(
    n_warmup=200, n_draws=2000, n_chains=2, n_jobs=2,
    checkpoint=sys.argv[1], checkpoint_interval=0.02,
)
print("at work", flush=True)
behavior = dv.SharedOutcome(forum.participation, forum.outcome)
model.fit(forum.features, behavior).posterior_.save(sys.argv[2])
"""


@pytest.mark.slow
def test_a_run_killed_twenty_times_has_the_draws_of_one_that_was_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    command = [sys.executable, "-c", RUN, str(tmp_path / "run"), str(tmp_path / "killed.nc")]
    kills = 0
    while kills < 20:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(rng.uniform(0.2, 1.6))
        assert process.poll() is None, "the run ended before it was killed twenty times"
        process.kill()
        process.wait()
        process.stdout.close()
        kills += 1
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    whole = [sys.executable, "-c", RUN, str(tmp_path / "other"), str(tmp_path / "whole.nc")]
    subprocess.run(whole, check=True, stdout=subprocess.DEVNULL)
    assert_same(dv.load(tmp_path / "killed.nc"), dv.load(tmp_path / "whole.nc"))


@needs_signals
def test_interrupt_returns_what_was_drawn() -> None:
    """Ctrl-C in the middle: the posterior has the draws that all chains have made so far, in turns,
    the same as the first of a whole run."""
    whole = fit(None, n_jobs=2)

    def press(chain: int, iteration: int, _: int) -> None:
        if chain == 0 and iteration == 14:
            os.kill(os.getpid(), signal.SIGINT)

    part = fit(None, progress=press, n_jobs=1)
    assert part.length == (13, 4, 2, "interrupted")
    np.testing.assert_array_equal(part["alpha"], whole["alpha"][:, :4])


@needs_signals
def test_interrupt_during_warm_up_is_an_interrupt() -> None:
    def press(chain: int, iteration: int, _: int) -> None:
        if chain == 0 and iteration == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="no draws yet"):
        fit(None, progress=press, n_jobs=1)
