"""The progress display."""

import io
import time

import pytest

from dualview.chains.progress import Bar


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


def test_time_counts_from_the_first_iterations_and_what_comes_before_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first fit compiles for a minute; no trace of the longer line stays."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    with Bar(2, 1000, stream) as bar:
        assert lines(stream)[-1].endswith("0/2000 iterations; the first fit on a machine compiles for a minute")
        now[0] = 60.0
        bar(0, 100, 3)
        shown = stream.getvalue().split("\r")
        assert shown[-2].rstrip().endswith("100/2000 iterations, clusters 3")
        assert len(shown[-2]) == len(shown[1])
        bar(1, 100, 4)
        now[0] = 62.0
        bar(0, 300, 3)
    assert "400/2000 iterations, 100/s, 16 s left, clusters 3, 4" in lines(stream)[-1]


def test_a_fit_that_fails_before_its_first_iteration_ends_the_line() -> None:
    stream = io.StringIO()
    with pytest.raises(KeyError), Bar(1, 10, stream):
        raise KeyError
    assert lines(stream)[-1].rstrip().endswith("0/10 iterations, clusters –")
    assert stream.getvalue().endswith("\n")
