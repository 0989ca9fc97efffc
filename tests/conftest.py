"""What holds for all tests."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

_LONG = 100  # draws of a chain that are enough to be looked at


@pytest.fixture(autouse=True, scope="session")
def _disks_are_not_waited_for() -> Iterator[None]:
    """Files are flushed, but not until the disk has them: hundreds of small runs would wait for minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)  # noqa: ARG005
        yield


@pytest.fixture(autouse=True, scope="module")
def verdicts() -> Iterator[None]:
    """After a fit of few draws R-hat and effective sizes are not computed: there are thousands, and it takes longer than they.

    The verdict on them is that they are too few, as it is on three. A module about verdicts has a fixture of this name that
    does nothing.
    """
    from dualview.posterior import diagnostics  # not above: warnings of what it imports are for pytest to filter

    row = diagnostics._row

    def brief_row(values: Any, brief: bool) -> dict[str, float]:
        return row(values, brief) if not brief or np.shape(values)[1] >= _LONG else row(values[:, :3], brief)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnostics, "_row", brief_row)
        yield
