"""Tasks that worker processes can import: they have the path of the process that starts them."""

import os
import signal
from pathlib import Path
from typing import Any


def die_once(loaded: Any, number: int, argument: tuple[str, float]) -> float:
    """End the process in the middle of its work, the first time; then return the number that was
    sent."""
    marker, value = argument
    if number == 1 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return value + float(loaded.features(number).sum())


def die(loaded: Any, number: int, argument: None) -> None:  # noqa: ARG001
    """End the process, every time."""
    os.kill(os.getpid(), signal.SIGKILL)


def sizes(loaded: Any, number: int, argument: None) -> tuple[int, float, float]:  # noqa: ARG001
    """The process's id, and the bytes of shards that it keeps and may keep."""
    return os.getpid(), loaded.used, loaded.room
