"""Chains come through the door of an engine and do not know what is behind it."""

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from dualview.chains.chain import Chain
from dualview.chains.chains import run_chains
from dualview.chains.run_folder import RunFolder
from dualview.chains.schedule import FixedLength
from dualview.chains.storage import Record
from dualview.engines.base import Engine, Info
from dualview.engines.gibbs import GibbsEngine
from dualview.errors import DegenerateError
from dualview.model import Model, State
from dualview.partitions.agreement import LabelsByView
from dualview.partitions.priors import ChineseRestaurant

N_USERS = 5
MODEL = Model(
    ChineseRestaurant(), np.random.default_rng(0).standard_normal((N_USERS, 1)), None, N_USERS
)
SCHEDULE = FixedLength(n_warmup=3, n_draws=4, thin=2)


@dataclass(frozen=True)
class Counting(Engine):
    """A toy engine: every step adds one to α, draws a number and leaves the rest. It fails at step
    fails_at."""

    at_once: int = 1
    fails_at: float = np.inf
    error: Exception = field(default_factory=lambda: DegenerateError("Numbers ran out."))

    def start(self, rng: np.random.Generator, model: Model, z: np.ndarray) -> State:
        return State(
            LabelsByView.agreeing(z),
            1.0,
            {name: view.draw_prior(rng, int(z.max()) + 1) for name, view in model.views.items()},
        )

    def advance(
        self,
        rng: np.random.Generator,
        model: Model,  # noqa: ARG002
        state: State,
        keep: np.ndarray,
    ) -> tuple[State, Info]:
        n_steps = int(np.argmax(keep)) + 1 if keep.any() else len(keep)  # up to the first draw
        for _ in range(n_steps):
            if state.alpha >= self.fails_at:
                raise self.error
            labels = LabelsByView.agreeing(rng.permutation(state.z))
            state = replace(state, alpha=state.alpha + 1.0, labels=labels)
        return state, Info(2, 0, n_steps, None, state if keep[n_steps - 1] else None)

    def steps_at_once(self, model: Model) -> int:  # noqa: ARG002
        return self.at_once


class OneByOne(Counting):
    steps_at_once = Engine.steps_at_once


@pytest.fixture(autouse=True)
def _no_other_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("start", "advance", "steps_at_once"):
        monkeypatch.delattr(GibbsEngine, name)


def chain(engine: Engine, index: int = 0, folder: Path | None = None) -> Chain:
    seed = np.random.SeedSequence(1).spawn(2)[index]
    run = None if folder is None else RunFolder(folder)
    return Chain(
        index,
        seed,
        MODEL,
        engine,
        lambda rng: rng.permutation([0, 0, 0, 1, 1]),
        SCHEDULE,
        run,
        1e-9,
    )


def assert_same(one: Record, other: Record) -> None:
    for name, values in one.fixed.items():
        np.testing.assert_array_equal(values, other.fixed[name], err_msg=name)


@pytest.mark.parametrize("engine", [Counting(1), Counting(4), Counting(100), OneByOne()], ids=repr)
def test_the_schedule_is_the_chains(engine: Engine) -> None:
    record = chain(engine).run()
    assert record.fixed["alpha"].tolist() == [6.0, 8.0, 10.0, 12.0]
    assert_same(record, chain(Counting()).run())


def test_many_chains_have_streams_of_their_own() -> None:
    alone, together = (
        chain(Counting(), 1).run(),
        run_chains([chain(Counting(), index) for index in (0, 1)], n_jobs=2).records,
    )
    assert_same(alone, together[1])
    assert (together[0].fixed["z"] != together[1].fixed["z"]).any()


def test_a_chain_that_was_stopped_continues_to_the_same_draws(tmp_path: Path) -> None:
    stop = threading.Event()
    first = chain(Counting(), folder=tmp_path).run(
        lambda _, iteration, __: stop.set() if iteration == 6 else None, stop
    )
    assert first.n_draws == 1
    assert_same(chain(Counting(), folder=tmp_path).run(), chain(Counting()).run())


def test_an_engine_that_fails(tmp_path: Path) -> None:
    with pytest.raises(DegenerateError, match=r"^Numbers ran out\.$"):
        run_chains([chain(Counting(fails_at=7.0), folder=tmp_path)])
    assert RunFolder(tmp_path).failure(0) == "Numbers ran out."


@pytest.mark.parametrize(
    "error",
    [
        ValueError("array must not contain infs or NaNs"),
        ValueError("scale < 0"),
        ValueError("slice sampling: the density is not finite at its start"),
        np.linalg.LinAlgError("Singular matrix"),
    ],
    ids=str,
)
def test_numbers_out_of_range_end_a_chain(error: Exception) -> None:
    with pytest.raises(DegenerateError, match=r"^Sampling overflowed or underflowed"):
        chain(Counting(fails_at=7.0, error=error)).run()


def test_other_errors_are_those_of_the_program() -> None:
    error = ValueError("operands could not be broadcast together with shapes (3,) (4,)")
    with pytest.raises(ValueError, match=r"^operands could not be broadcast"):
        chain(Counting(fails_at=7.0, error=error)).run()


def test_an_engine_without_steps_is_none() -> None:
    class Idle(Engine):
        start = Counting.start

    with pytest.raises(TypeError, match=r"Idle.*advance"):
        Idle()  # type: ignore[abstract]
