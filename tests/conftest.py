"""What holds for all tests."""

import gc
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

_LONG = 100  # draws of a chain that are enough to be looked at


def pytest_collection_finish() -> None:
    """What was imported stays: the collector of garbage need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def _disks_are_not_waited_for() -> Iterator[None]:
    """Files are flushed, but not until the disk has them: hundreds of small runs would wait for
    minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)  # noqa: ARG005
        yield


@pytest.fixture(autouse=True, scope="module")
def verdicts() -> Iterator[Any]:
    """After a fit of few draws R-hat and effective sizes are not computed: there are thousands, and
    it takes longer than they.

    The verdict on them is that they are too few, as it is on three. A module about verdicts has a
    fixture of this name that does nothing; a test takes ``looked_at``.
    """
    from dualview.posterior import (
        diagnostics,
    )  # not above: warnings of what it imports are for pytest to filter

    row = diagnostics._row

    def brief_row(values: Any, brief: bool) -> dict[str, float]:
        return (
            row(values, brief)
            if not brief or np.shape(values)[1] >= _LONG
            else row(values[:, :3], brief)
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnostics, "_row", brief_row)
        yield row


@pytest.fixture
def looked_at(verdicts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short chains have their verdict here, as for users."""
    from dualview.posterior import diagnostics

    monkeypatch.setattr(diagnostics, "_row", verdicts)


@pytest.fixture
def few_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks of a model with 100 replicates in place of 2000: for what they say, not for how sure
    it is."""
    from dualview.posterior.checks import model_checks, residuals

    monkeypatch.setattr(model_checks, "_N_NULL", 100)
    monkeypatch.setattr(residuals, "_N_REPLICATES", 100)
