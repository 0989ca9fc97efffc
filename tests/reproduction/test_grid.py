"""The grid: nothing is done twice, nothing is lost."""

import io
import json
import math

import pytest

from reproduction.cells import Cell, Effort
from reproduction.grid import Tally, run_grid
from reproduction.work import run_cell

EFFORT = Effort(2, 10, 20, 1)
CELLS = [Cell("agreement", "dual-DP", 10, r, 0, EFFORT, n_users=12) for r in range(4)]


def score_of(cell):
    return {
        "scores": {"nll": cell.repetition + 0.1, "ari": math.nan},
        "extras": {"x": [1, math.inf]},
        "warnings": ["w"],
    }


class Counted:
    """Work that remembers what it was asked, and fails or is stopped where told to."""

    def __init__(self, fails=(), stops_at=None, work=score_of):
        self.asked, self.fails, self.stops_at, self.work = [], fails, stops_at, work

    def __call__(self, cell):
        self.asked.append(cell)
        if cell.repetition == self.stops_at:
            raise KeyboardInterrupt
        if cell.repetition in self.fails:
            raise ValueError(f"no luck\nwith {cell.repetition}")
        return self.work(cell)


def run(folder, work, cells=CELLS, **options):
    return run_grid(cells, folder, work, n_jobs=1, quiet=True, **options)


def test_outcomes_are_in_order_and_nan_survives_the_file(tmp_path):
    fresh, read = run(tmp_path, Counted()), run(tmp_path, Counted(fails=range(4)))
    for outcomes in (fresh, read):
        assert [o.cell for o in outcomes] == CELLS
        assert [o.scores["nll"] for o in outcomes] == [0.1, 1.1, 2.1, 3.1]
        assert all(math.isnan(o.scores["ari"]) for o in outcomes)
        assert outcomes[0].extras == {"x": [1, None]}
        assert outcomes[0].warnings == ("w",)


def test_a_cell_that_is_there_is_not_run_again(tmp_path):
    run(tmp_path, Counted(), CELLS[:2])
    work = Counted()
    run(tmp_path, work)
    assert work.asked == CELLS[2:]


def test_a_cell_that_comes_twice_is_run_once(tmp_path):
    work = Counted()
    outcomes = run(tmp_path, work, [*CELLS, *CELLS])
    assert work.asked == CELLS
    assert len(outcomes) == len(CELLS)


def test_a_failing_cell_is_reported_and_tried_again(tmp_path):
    outcomes = run(tmp_path, Counted(fails=[1]))
    assert [o.error for o in outcomes] == ["", "ValueError: no luck with 1", "", ""]
    again = Counted()
    assert [o.error for o in run(tmp_path, again)] == [""] * 4
    assert again.asked == [CELLS[1]]


def test_a_torn_file_is_run_again(tmp_path):
    run(tmp_path, Counted())
    path = tmp_path / f"{CELLS[2].name}.json"
    path.write_text(path.read_text()[:40])
    work = Counted()
    run(tmp_path, work)
    assert work.asked == [CELLS[2]]


@pytest.mark.slow
def test_a_stopped_run_goes_on_to_the_same_numbers(tmp_path):
    with pytest.raises(KeyboardInterrupt, match="2 of 4 fits are saved"):
        run(tmp_path / "stopped", Counted(stops_at=2, work=run_cell))
    kept = {path.name: path.read_bytes() for path in (tmp_path / "stopped").iterdir()}
    assert len(kept) == 2
    resumed = run(tmp_path / "stopped", run_cell)
    assert all(
        (tmp_path / "stopped" / name).read_bytes() == content for name, content in kept.items()
    )
    for one, other in zip(resumed, run(tmp_path / "whole", run_cell), strict=True):
        assert one.scores.keys() == other.scores.keys()
        for name in one.scores.keys() - {"cpu_seconds"}:
            assert one.scores[name] == other.scores[name] or math.isnan(one.scores[name]), name


@pytest.mark.slow
def test_processes_give_the_same_numbers(tmp_path):
    cells = [Cell("iris", "ridge", n, 0, 0, EFFORT) for n in (10, 20)]
    apart = run_grid(cells, tmp_path / "two", run_cell, n_jobs=2, quiet=True)
    assert [o.scores["nll"] for o in apart] == [
        o.scores["nll"] for o in run(tmp_path / "one", run_cell, cells)
    ]


def test_names_of_files_tell_cells_apart():
    others = [
        CELLS[0],
        CELLS[1],
        Cell("agreement", "dual-DP", 10, 0, 1, EFFORT, n_users=12),
        Cell("agreement", "dual-DP", 10, 0, 0, Effort(2, 10, 21, 1), n_users=12),
        Cell("agreement", "dual-DP", 10, 0, 0, EFFORT, n_users=12, data=(("radius", 0.3),)),
        Cell("agreement", "dual-DP", 10, 0, 0, EFFORT, n_users=12, fit=(("init", "one"),)),
        Cell("agreement", "dual-DP", 10, 0, 0, EFFORT, n_users=12, extras=("sizes",)),
    ]
    assert len({cell.name for cell in others}) == len(others)
    assert len({cell.sampler_seed for cell in CELLS}) == len(CELLS)


def test_files_are_plain_json_with_their_cell(tmp_path):
    run(tmp_path, Counted(), CELLS[:1])
    content = json.loads(
        (tmp_path / f"{CELLS[0].name}.json").read_text(), parse_constant=pytest.fail
    )
    assert content["cell"]["model"] == "dual-DP"
    assert content["cell"]["effort"]["n_draws"] == 20


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_one_line_on_a_terminal_and_few_lines_in_a_log():
    terminal, log, nothing = Terminal(), io.StringIO(), io.StringIO()
    for stream, quiet in ((terminal, False), (log, False), (nothing, True)):
        tally = Tally(100, quiet, stream)
        for _ in range(100):
            tally(CELLS[0])
    assert terminal.getvalue().count("\n") == 1
    assert "100/100 fits" in terminal.getvalue()
    assert "agreement, dual-DP" in terminal.getvalue()
    assert len(log.getvalue().splitlines()) == 20
    assert nothing.getvalue() == ""
