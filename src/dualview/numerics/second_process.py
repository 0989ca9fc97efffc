"""A second process that compiles some of the standalone kernels while this one compiles the kernel
that calls them.

Compiling holds Python's lock, so threads would not help. What the second process has compiled is
read from disk. Where it cannot be started, or ends, this process compiles everything itself:
nothing depends on it but the time.
"""

import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from dualview.numerics.parallel import n_cores

SWITCH = "DUALVIEW_COMPILE_PROCESSES"  # 1 in the second process, which starts no other
# Packages are made without running their __init__ modules, which import much that kernels have no
# use for.
_PROGRAM = """
import pathlib, sys, types
folder = pathlib.Path(sys.argv[1])
for file in folder.rglob("__init__.py"):
    package = types.ModuleType(".".join(file.parent.relative_to(folder.parent).parts))
    package.__path__ = [str(file.parent)]
    sys.modules[package.__name__] = package
from dualview.numerics.second_process import main
main()
"""
_PATIENCE = 5.0  # seconds
_INTERPRETER = re.compile(r"(python|pypy)w?[0-9.]*[dt]*(-dbg|-intel64)?(\.exe)?")

Task = Callable[[], None]


class SecondProcess:
    """Does tasks, which can be pickled, the longest first; those it has not begun can be taken
    back.

    first: what it begins with, and does for no one else. Should that fail, it does nothing.
    """

    def __init__(self, first: Task) -> None:
        self._waiting: list[tuple[float, Task]] = []
        self._first = first
        self._changed = threading.Condition()
        self._spare: list[Task] = []
        self._at: Task | None = None
        self._at_spare = False
        self._over = False
        self._process = _started() if is_wanted() else None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        if self._process is not None:
            self._thread.start()

    def add(self, task: Task, work: float) -> None:
        """One more task; work: how long it takes, in any unit."""
        with self._changed:
            self._waiting.append((work, task))
            self._changed.notify_all()

    def add_spare(self, task: Task) -> None:
        """A task for when there is no other. Nobody waits for it."""
        with self._changed:
            self._spare.append(task)
            self._changed.notify_all()

    def take_back(self) -> Task | None:
        """The longest task that has not been begun; None if there is none."""
        with self._changed:
            return self._longest() if self._waiting else None

    def _longest(self) -> Task:
        place = max(range(len(self._waiting)), key=lambda i: self._waiting[i][0])
        return self._waiting.pop(place)[1]

    def wait(self) -> None:
        """Until no task is being done, but for spare ones."""
        with self._changed:
            self._changed.wait_for(lambda: self._at is None or self._at_spare)

    def close(self) -> None:
        """End the process. A spare task that it is doing may take some seconds more."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._at is None or not self._at_spare, timeout=_PATIENCE
            )
        if self._process is not None:
            self._process.kill()
            self._thread.join()
            self._process.wait()
            for end in (self._process.stdin, self._process.stdout):
                try:
                    end.close()  # type: ignore[union-attr]
                except OSError:  # what was left to write cannot be written any more
                    pass

    def _serve(self) -> None:
        """Hand out tasks, one when the one before is done, until the process ends."""
        alive = self._done(self._first)
        while alive:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._spare or self._over)
                if self._over:
                    break
                self._at_spare = not self._waiting
                self._at = self._spare.pop(0) if self._at_spare else self._longest()
            alive = self._done(self._at)
            with self._changed:
                self._at = None
                self._changed.notify_all()

    def _done(self, task: Task) -> bool:
        """Have a task done; whether that went well."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump(task, self._process.stdin)
            self._process.stdin.flush()
            return bool(self._process.stdout.readline())
        except (OSError, ValueError, pickle.PicklingError, TypeError, AttributeError):
            return False


def is_wanted() -> bool:
    """Whether a second process may be started."""
    wanted = os.environ.get(SWITCH, "") or "2"
    if wanted not in ("1", "2"):
        raise ValueError(
            f"{SWITCH} must be 1 or 2 (the default), the processes that compile a first fit; got "
            f"{wanted!r}."
        )
    return wanted == "2" and is_python() and n_cores() > 1


def is_python() -> bool:
    """Whether ``sys.executable`` is an interpreter.

    It is the program that holds this one where Python is frozen or embedded in something else, or
    it is empty.
    """
    name = os.path.basename(sys.executable or "").lower()
    return bool(_INTERPRETER.fullmatch(name)) and not getattr(sys, "frozen", False)


def _started() -> "subprocess.Popen[bytes] | None":
    """A process with this interpreter and this package; None where there can be none."""
    command = [sys.executable, "-P", "-c", _PROGRAM, str(Path(__file__).parents[1])]
    try:
        return subprocess.Popen(
            command,
            env=os.environ | {SWITCH: "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, ValueError):
        return None


def main() -> None:
    """The second process: does the tasks that come in, and says when each is done."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(
        os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
    )  # nobody else writes into the answers
    while True:
        try:
            task = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        task()
        answers.write(b"\n")
        answers.flush()
