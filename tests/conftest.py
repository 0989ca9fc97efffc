"""What holds for all tests."""

import gc
import os
from collections.abc import Iterator

import pytest

from resumed import pytest_addoption, pytest_configure  # noqa: F401


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


@pytest.fixture
def few_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks of a model with 100 replicates in place of 2000: for what they say, not for how sure
    it is."""
    from dualview.posterior.checks import model_checks, residuals

    monkeypatch.setattr(model_checks, "_N_NULL", 100)
    monkeypatch.setattr(residuals, "_N_REPLICATES", 100)
