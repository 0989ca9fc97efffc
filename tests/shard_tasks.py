"""Tasks that worker processes can import: they have the path of the process that starts them."""

import os
import signal
from pathlib import Path
from typing import Any


def die_once(shard: Any, argument: tuple[str, float]) -> float:
    """End the process in the middle of its work, the first time; then return the number that was
    sent."""
    marker, value = argument
    if shard.number == 1 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return value + float(shard.observed["features"].means.sum())


def die(shard: Any, argument: None) -> None:  # noqa: ARG001
    """End the process, every time."""
    os.kill(os.getpid(), signal.SIGKILL)
