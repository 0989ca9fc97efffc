"""The progress display."""

import io
import time

import pytest

from dualview.inference.progress import Bar


def lines(stream: io.StringIO) -> list[str]:
    return [line for line in stream.getvalue().replace("\n", "\r").split("\r") if line.strip()]


def test_one_line_for_all_chains() -> None:
    stream = io.StringIO()
    with Bar(2, 10, stream) as bar:
        for iteration in range(1, 11):
            bar(0, iteration, 3)
            bar(1, iteration, 5)
    last = lines(stream)[-1]
    assert "20/20 iterations" in last
    assert "clusters 3, 5" in last
    assert "0 s left" in last
    assert stream.getvalue().endswith("\n")


def test_speed_of_a_resumed_run_counts_new_iterations_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    with Bar(1, 1000, stream) as bar:
        bar(0, 901, 3)
        now[0] = 10.0
        bar(0, 950, 3)
    assert "950/1000 iterations, 5/s, 10 s left" in lines(stream)[-1]
