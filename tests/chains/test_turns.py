"""Chains take turns where workers are fewer: whenever a fit ends, all have come about equally far,
and the draws are those of chains that nobody stopped."""

import os
import signal
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from dualview.chains import chains as chains_module
from dualview.chains.chain import Chain
from dualview.chains.chains import Drawn, run_chains
from dualview.chains.checkpoint import ChainFiles
from dualview.chains.run_folder import RunFolder
from dualview.chains.schedule import FixedLength, Schedule, UntilGood
from dualview.engines.base import Engine, Info
from dualview.errors import DegenerateError
from dualview.model import Model, State
from dualview.partitions.agreement import LabelsByView
from dualview.partitions.priors import ChineseRestaurant
from systems import needs_signals

MODEL = Model(ChineseRestaurant(), np.zeros((5, 1)), None, 5)
CALL = 10  # steps, the last of which is a draw
FIXED = FixedLength(0, 100, thin=CALL)
GROWS = UntilGood(0, 80, thin=CALL, max_draws=10_000)
COSTS = (1.0, 1.3, 0.8, 1.1)  # of a call, in units that a test chooses


@dataclass
class Clock:
    """A clock that only steps of chains move on; at: iterations of each chain, by who looks on."""

    now: float = 0.0
    at: dict[int, int] = field(default_factory=dict)
    press: int = 10**9  # iteration of chain 1 at which Ctrl-C is pressed

    def look(self, chain: int, iteration: int, _: int) -> None:
        self.at[chain] = iteration
        if chain == 1 and iteration == self.press:
            os.kill(os.getpid(), signal.SIGINT)


@dataclass(frozen=True)
class Slow(Engine):
    """A toy engine: a step draws labels, and takes a time that differs between chains."""

    clock: Clock = field(default_factory=Clock)
    seconds: float = 0.0
    fails_at: float = np.inf

    def start(self, rng: np.random.Generator, model: Model, z: np.ndarray) -> State:
        views = {name: view.draw_prior(rng, 2) for name, view in model.views.items()}
        return State(LabelsByView.agreeing(z), 1.0, views)

    def advance(
        self,
        rng: np.random.Generator,
        model: Model,  # noqa: ARG002
        state: State,
        keep: np.ndarray,
    ) -> tuple[State, Info]:
        chain = rng.bit_generator.seed_seq.spawn_key[0]  # type: ignore[attr-defined]
        n_steps = int(np.argmax(keep)) + 1 if keep.any() else len(keep)  # up to the first draw
        for _ in range(n_steps):
            state = replace(state, labels=LabelsByView.agreeing(rng.permutation(state.z)))
        self.clock.now += self.seconds * COSTS[chain] * n_steps / CALL
        return state, Info(2, 0, n_steps, None, state if keep[n_steps - 1] else None)

    def steps_at_once(self, model: Model) -> int:  # noqa: ARG002
        return CALL


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    return clock


def build_chains(
    engine: Engine, schedule: Schedule = FIXED, folder: Path | None = None, interval: float = 1.0
) -> list[Chain]:
    run = None if folder is None else RunFolder(folder)
    return [
        Chain(i, seed, MODEL, engine, lambda _: np.array([0, 0, 0, 1, 1]), schedule, run, interval)
        for i, seed in enumerate(np.random.SeedSequence(1).spawn(4))
    ]


def assert_first_draws(drawn: Drawn) -> None:
    """Every chain is there, and has the draws that it makes where nobody stops it."""
    assert len(drawn.records) == 4
    assert drawn.length.stride == CALL
    first, n = drawn.length.n_warmup // CALL, drawn.length.n_iterations // CALL
    for alone, record in zip(build_chains(Slow()), drawn.records, strict=True):
        np.testing.assert_array_equal(record.fixed["z"], alone.run().fixed["z"][first:n])


@pytest.mark.parametrize("schedule", [FIXED, GROWS], ids=["fixed", "grows"])
@pytest.mark.parametrize("steps", [50, 330])
@needs_signals
def test_ctrl_c_finds_chains_within_a_call_of_each_other(schedule: Schedule, steps: int) -> None:
    clock = Clock(press=steps)
    drawn = run_chains(build_chains(Slow(clock), schedule), n_jobs=1, progress=clock.look)
    assert drawn.length.ended == "interrupted"
    assert drawn.length.n_iterations == min(clock.at.values())
    assert set(clock.at.values()) <= {steps - CALL, steps}
    assert_first_draws(drawn)


@pytest.mark.parametrize("folder", [False, True], ids=["in memory", "in files"])
def test_all_that_was_sampled_is_kept_when_time_is_over(
    clock: Clock, tmp_path: Path, folder: bool
) -> None:
    """Time counts from the end of the first iterations."""
    chains = build_chains(Slow(clock, 0.07), GROWS, tmp_path / "run" if folder else None)
    drawn = run_chains(chains, n_jobs=1, progress=clock.look, max_time=20.0)
    assert drawn.length.ended == "max_time"
    assert set(clock.at.values()) == {drawn.length.n_iterations}
    assert 20.0 <= clock.now <= 21.1
    assert_first_draws(drawn)


def test_calls_that_take_a_good_part_of_the_limit_exceed_it_by_little(clock: Clock) -> None:
    """Nine calls and a part: not all can catch up."""
    chains = build_chains(Slow(clock, 1.0), GROWS)
    drawn = run_chains(chains, n_jobs=1, progress=clock.look, max_time=10.0)
    assert max(clock.at.values()) - drawn.length.n_iterations <= CALL
    assert clock.now <= 12.0
    assert_first_draws(drawn)


def test_resumed_for_a_short_time_every_chain_gains(clock: Clock, tmp_path: Path) -> None:
    lengths, now = [], 0.0
    for _ in range(3):
        chains = build_chains(Slow(clock, 0.07), GROWS, tmp_path / "run")
        drawn = run_chains(chains, n_jobs=1, progress=clock.look, max_time=2.0)
        lengths.append(drawn.length.n_iterations)
        assert clock.now - now <= 2.4
        now = clock.now
    assert np.diff([0, *lengths]).min() >= 5 * CALL
    assert_first_draws(drawn)


def test_chains_that_lag_far_behind_come_first(clock: Clock, tmp_path: Path) -> None:
    """As runs left them in which chains did not take turns."""
    chains = build_chains(Slow(clock, 0.07), FIXED, tmp_path / "run")
    for chain, n in zip(chains, (400, 400, 90, 60), strict=True):
        stop = threading.Event()
        chain.run(lambda _, i, __, stop=stop, n=n: stop.set() if i == n else None, stop)  # type: ignore[misc]
    clock.now = 0.0
    drawn = run_chains(
        build_chains(Slow(clock, 0.07), GROWS, tmp_path / "run"),
        n_jobs=1,
        progress=clock.look,
        max_time=3.0,
    )
    assert set(clock.at) == {2, 3}
    assert drawn.length.n_iterations >= 240
    assert_first_draws(drawn)


def test_chains_elsewhere_share_what_time_is_left(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker that takes its tasks one after the other; as much time for each chain, so that
    fast ones come a little further."""
    monkeypatch.setattr(
        chains_module, "Parallel", lambda **_: lambda tasks: [do(*given) for do, given, _ in tasks]
    )
    with joblib.parallel_config(backend="loky", n_jobs=1):
        drawn = run_chains(
            build_chains(Slow(clock, 0.05), GROWS), progress=clock.look, max_time=10.0
        )
    assert drawn.length.ended == "max_time"
    assert drawn.length.n_iterations >= 0.8 * max(clock.at.values())  # speeds differ by 1.6
    assert 10.0 <= clock.now <= 11.0
    assert_first_draws(drawn)


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 4])
def test_as_many_chains_are_at_work_as_there_are_workers_and_none_twice(n_jobs: int) -> None:
    lock, at_work, most = threading.Lock(), set[int](), 0

    class Seen(Slow):
        def advance(self, rng: np.random.Generator, *rest: Any) -> tuple[State, Info]:
            nonlocal most
            chain = rng.bit_generator.seed_seq.spawn_key[0]  # type: ignore[attr-defined]
            with lock:
                assert chain not in at_work
                at_work.add(chain)
                most = max(most, len(at_work))
            if most < n_jobs:
                time.sleep(0.01)
            done = super().advance(rng, *rest)
            with lock:
                at_work.remove(chain)
            return done

    drawn = run_chains(build_chains(Seen()), n_jobs=n_jobs)
    assert most == n_jobs
    assert drawn.length.ended == "length"
    assert_first_draws(drawn)
    assert not [one for one in threading.enumerate() if one.name.startswith("dualview-chain")]


def test_a_chain_that_fails_loses_its_turns_alone(clock: Clock) -> None:
    class Failing(Slow):
        def advance(self, rng: np.random.Generator, *rest: Any) -> tuple[State, Info]:
            chain = rng.bit_generator.seed_seq.spawn_key[0]  # type: ignore[attr-defined]
            if chain == 2 and self.clock.at[chain] == 200:
                raise DegenerateError("Numbers ran out.")
            return super().advance(rng, *rest)

    clock.at[2] = 0
    drawn = run_chains(build_chains(Failing(clock)), n_jobs=1, progress=clock.look)
    assert drawn.failures == ((2, "Numbers ran out."),)
    assert clock.at == {0: 1000, 1: 1000, 2: 200, 3: 1000}
    assert [record.n_draws for record in drawn.records] == [100] * 3


def test_waiting_is_no_reason_to_save(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain saves itself after so many seconds of its own work: four chains on one worker write
    as often as one."""
    saves: list[int] = []
    append = ChainFiles.append

    def count(files: ChainFiles, *given: Any) -> None:
        saves.append(len(saves))
        append(files, *given)

    monkeypatch.setattr(ChainFiles, "append", count)
    schedule = FixedLength(0, 20, thin=CALL)
    run_chains(build_chains(Slow(clock, 0.25), schedule, tmp_path / "run"), n_jobs=1)
    assert clock.now == pytest.approx(5 * sum(COSTS))
    assert 0.7 * clock.now <= len(saves) <= clock.now + 4
