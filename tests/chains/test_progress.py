"""The progress display."""

import io
import os
import time

import pytest

from dualview.chains.progress import Bar, Lines
from dualview.chains.schedule import ConvergenceStatus, FixedLength, Length, Schedule, UntilGood

GROWS = UntilGood(0, 1000, max_draws=100_000)


def lines(stream: io.StringIO) -> list[str]:
    return [line for line in stream.getvalue().replace("\n", "\r").split("\r") if line.strip()]


def fixed(n_iterations: int) -> Schedule:
    return FixedLength(0, n_iterations)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_one_line_for_all_chains() -> None:
    stream = io.StringIO()
    with Bar(2, fixed(10), stream=stream) as bar:
        for iteration in range(1, 11):
            bar(0, iteration, 3)
            bar(1, iteration, 5)
    last = lines(stream)[-1]
    assert "about 0 s to go after 0 s, 10 of 10 iterations, clusters 3, 5" in last
    assert stream.getvalue().endswith("\n")


def test_speed_of_a_resumed_run_counts_new_iterations_only(now: list[float]) -> None:
    stream = io.StringIO()
    with Bar(1, fixed(1000), stream=stream) as bar:
        bar(0, 901, 3)
        now[0] = 10.0
        bar(0, 950, 3)
    assert "about 10 s to go after 10 s, 950 of 1,000 iterations, clusters 3" in lines(stream)[-1]


def test_time_counts_from_the_first_iterations_and_what_comes_before_is_said(
    now: list[float],
) -> None:
    """A first fit compiles for half a minute; no trace of the longer line stays."""
    stream = io.StringIO()
    with Bar(2, fixed(1000), stream=stream) as bar:
        assert lines(stream)[-1].endswith(
            "0 of 1,000 iterations; the first fit on a machine compiles for half a minute"
        )
        now[0] = 60.0
        bar(0, 100, 3)
        shown = stream.getvalue().split("\r")
        assert shown[-2].rstrip().endswith(" 0 s, 0 of 1,000 iterations, clusters 3")
        assert len(shown[-2]) == len(shown[1])
        bar(1, 100, 4)
        now[0] = 62.0
        bar(0, 300, 3)
    assert "about 16 s to go after 2 s, 100 of 1,000 iterations, clusters 3, 4" in lines(stream)[-1]


def test_a_look_tells_how_good_it_is_and_when_it_may_be_good_enough(now: list[float]) -> None:
    """Both chains made 2,500 iterations in 5 s, a thousand a second, and would have to be three
    times as long."""
    stream = io.StringIO()
    bar = Bar(2, GROWS, stream=stream)
    bar(0, 1, 3)
    bar(1, 1, 5)
    now[0] = 5.0
    bar(0, 2500, 3)
    bar(1, 2500, 5)
    assert lines(stream)[-1].strip("░ ").startswith("at most ")
    bar.looked(ConvergenceStatus(False, 1.03, 150.4, 3.0), Length(2500, 500, 2, "max_draws"))
    said = "about 10 s to go after 5 s, 2,500 iterations, R-hat 1.030, 150 effective draws"
    assert f"{said}, clusters 3, 5" in lines(stream)[-1]
    assert lines(stream)[-1].startswith("███░")  # 5 of 15 s
    bar.looked(
        ConvergenceStatus(False, 1.4, 7.0, 57.0, "the number of clusters"),
        Length(2500, 500, 2, "max_draws"),
    )
    assert "at most 195 s to go after 5 s" in lines(stream)[-1]
    said = "R-hat 1.40, 7 effective draws, clusters 3, 5, slowest: the number of clusters"
    assert lines(stream)[-1].rstrip().endswith(said)


def test_a_time_limit_bounds_the_estimate(now: list[float]) -> None:
    stream = io.StringIO()
    bar = Bar(1, GROWS, 30.0, stream)
    bar(0, 1, 3)
    now[0] = 5.0
    bar(0, 2500, 3)
    assert "at most 25 s to go after 5 s" in lines(stream)[-1]


def test_a_fit_that_fails_before_its_first_iteration_ends_the_line() -> None:
    stream = io.StringIO()
    with pytest.raises(KeyError), Bar(1, fixed(10), stream=stream):
        raise KeyError
    assert lines(stream)[-1].rstrip().endswith("0 of 10 iterations, clusters –")
    assert stream.getvalue().endswith("\n")


def test_the_line_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda **_: os.terminal_size((30, 20)))
    with Bar(2, fixed(10), stream=stream) as bar:
        bar(0, 1, 3)
    assert {len(line) for line in lines(stream)} == {29}


def test_a_log_has_a_line_for_each_look() -> None:
    stream = io.StringIO()
    log = Lines("dual-DP", stream)
    log(0, 100, 3)
    log.looked(ConvergenceStatus(False, 1.0312, 150.4, 3.0), Length(2500, 500, 2, "max_draws"))
    log.looked(
        ConvergenceStatus(False, 1.0, 90.0, 5.0, "alpha"),
        Length(2500, 500, 2, "max_draws"),
    )
    log.looked(
        ConvergenceStatus(False, float("nan"), float("nan"), float("inf")),
        Length(1, 0, 1, "max_draws"),
    )
    assert stream.getvalue().splitlines() == [
        "dual-DP: 2,500 iterations, R-hat 1.031, 150 effective draws",
        "dual-DP: 2,500 iterations, R-hat 1.000, 90 effective draws, slowest: alpha",
        "dual-DP: 1 iterations",
    ]
