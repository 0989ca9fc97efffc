"""One chain: it runs one round at a time, and after any call of its engine it can be stopped,
saved, or left to wait while others have their turns."""

import re
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dualview.chains.checkpoint import ChainFiles
from dualview.chains.run_folder import RunFolder
from dualview.chains.schedule import Round, Schedule
from dualview.chains.snapshot import Snapshot
from dualview.chains.storage import Piece, Record, Store, joined
from dualview.engines.base import Engine
from dualview.errors import DegenerateError
from dualview.model import Model

_LOOKS = 100  # times that progress is told of, at least
# What NumPy, SciPy and slice sampling say of numbers that are not finite or not positive. Any other
# ValueError is an error of the program.
_OUT_OF_RANGE = re.compile(r"NaN|\binfs?\b|finit|<=? ?0|non-negative|sum to 1")

Progress = Callable[[int, int, int], None]  # chain, iterations done, clusters now
Starts = Callable[[np.random.Generator], NDArray[np.int64]]
# A chain on its way through a round. It makes one call of its engine each time that it is asked for
# the next iteration, and at the end returns where it stands and what it has kept.
Walk = Generator[int, None, tuple["Position", Piece]]


class Position(NamedTuple):
    """Where a chain stands: its last snapshot, None before its start, and its files, where the run
    has a folder."""

    snapshot: Snapshot | None = None
    files: ChainFiles | None = None
    n_clusters: int = 0

    @property
    def iteration(self) -> int:
        return 0 if self.snapshot is None else self.snapshot.iteration


@dataclass(frozen=True)
class Watch:
    """Who looks on, and what can end a round before its time: a request to stop, or a moment of
    ``time.monotonic``.

    patient: a chain moves by one call of its engine at least, however late it is.
    """

    progress: Progress | None = None
    stop: threading.Event | None = None
    until: float | None = None
    patient: bool = False

    @property
    def is_over(self) -> bool:
        return (self.stop is not None and self.stop.is_set()) or (
            self.until is not None and time.monotonic() >= self.until
        )


@dataclass(frozen=True)
class Chain:
    """One chain: where its numbers come from, who makes its steps, how it starts, how long it runs,
    where its draws go."""

    index: int
    seed: np.random.SeedSequence
    model: Model
    engine: Engine
    starts: Starts
    schedule: Schedule
    folder: RunFolder | None = None
    interval: float = 1.0

    def run(self, progress: Progress | None = None, stop: threading.Event | None = None) -> Record:
        """All draws of a chain of fixed length by itself, or those made until somebody asked to
        stop."""
        *_, last = self.schedule.rounds()
        with threadpool_limits(1):
            walk = self.advance(self.position(), last, Watch(progress, stop))
            try:
                while True:
                    next(walk)
            except StopIteration as end:
                position, piece = end.value
        pieces = [piece] if position.files is None else position.files.pieces(self.schedule.spacing)
        return joined(pieces, last.stride, self.schedule.spacing)

    def position(self) -> Position:
        """Where the chain stands: at its last snapshot on disk, or before its start."""
        if self.folder is None:
            return Position()
        files = self.folder.chain(self.index)
        snapshot = files.snapshot()
        files.discard_rest()
        return Position(
            snapshot, files, 0 if snapshot is None else len(np.unique(snapshot.state.z))
        )

    def advance(self, position: Position, part: Round, watch: Watch) -> Walk:
        """The way to the end of a round.

        What a chain of fixed length has written to files is not returned: it is read when all is
        done. A chain that waits holds what a snapshot of it holds, and draws not yet in a file.
        """
        try:
            return (yield from self._advance(position, part, watch))
        except (ValueError, np.linalg.LinAlgError) as error:
            linear_algebra = isinstance(error, np.linalg.LinAlgError)
            if not linear_algebra and not _OUT_OF_RANGE.search(str(error)):
                raise
            raise DegenerateError(
                f"Sampling overflowed or underflowed ({error}). Look for extreme values in "
                "the features or outcomes, "
                "and for columns that take only a few distinct values."
            ) from error

    def _advance(self, position: Position, part: Round, watch: Watch) -> Walk:
        rng = np.random.default_rng(self.seed)
        files, spacing = position.files, self.schedule.spacing
        if position.snapshot is None:
            iteration, state, moments = (
                0,
                self.engine.start(rng, self.model, self.starts(rng)),
                None,
            )
        else:
            position.snapshot.restore(rng)
            snapshot = position.snapshot
            iteration, state, moments = (
                snapshot.iteration,
                snapshot.state_of(self.model),
                snapshot.moments,
            )
        # A summary's moments are of every thin-th state; without a summary only those that are kept
        # leave the engine.
        apart = part.stride if self.schedule.every is None else spacing.thin
        store = Store(
            self.model,
            self.schedule.every,
            moments,
            spacing.n_by(iteration, apart),
            times=part.stride // apart,
        )
        pieces: list[Piece] = []
        began, n_clusters, saved = iteration, position.n_clusters, time.monotonic()
        at_once = self.engine.steps_at_once(self.model)
        if watch.progress is not None:  # somebody looks on
            at_once = min(at_once, max(1, self.schedule.n_iterations // _LOOKS))
        while iteration < part.stop and (
            not watch.is_over or (watch.patient and iteration == began)
        ):
            keep = spacing.mask(iteration, min(at_once, part.stop - iteration), apart)
            state, info = self.engine.advance(rng, self.model, state, keep)
            iteration, n_clusters = iteration + info.n_steps, info.n_clusters
            store.add(info.draws, info.last)
            if watch.progress is not None:
                watch.progress(self.index, iteration, n_clusters)
            if files is not None and time.monotonic() - saved >= self.interval:
                pieces.append(Piece(files.iteration, iteration, part.stride, store.drain()))
                files.append(pieces[-1], Snapshot.of(iteration, state, rng, store.moments), spacing)
                saved = time.monotonic()
                if not self.schedule.grows:
                    pieces.clear()
            paused = time.monotonic()
            yield iteration
            saved += time.monotonic() - paused  # so that the interval counts time at work
        if iteration == began:
            return position, Piece(began, began, part.stride, Record({}, {}))
        snapshot = Snapshot.of(iteration, state, rng, store.moments)
        if files is None or iteration > files.iteration:
            start = began if files is None else files.iteration
            pieces.append(Piece(start, iteration, part.stride, store.drain()))
            if files is not None:
                files.append(pieces[-1], snapshot, spacing)
        kept = Piece(began, iteration, part.stride, joined(pieces, part.stride, spacing))
        return Position(snapshot, files, n_clusters), kept
