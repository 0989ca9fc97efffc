"""What some systems lack."""

import os

import pytest

needs_signals = pytest.mark.skipif(
    os.name == "nt", reason="Windows ends a process that is sent a signal"
)
