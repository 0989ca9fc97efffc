"""The study of what the link costs: pairs on the same draws, and a verdict that is computed."""

from dataclasses import replace

import numpy as np
import pytest

from reproduction.cells import Effort
from reproduction.forums import forum_of
from reproduction.grid import Outcome
from reproduction.models import fit
from reproduction.results import tidy
from reproduction.sections import Findings
from reproduction.sections.linked import ALLOWED, Paired, link, over_draws, pairs_of
from reproduction.studies import LINKED, STUDIES, Plan

PLAN = replace(Plan.quick(0), link_sizes=(10, 50), repetitions=3, link_effort=Effort(1, 4, 8, 1))
CELLS = STUDIES["link"](PLAN)


def found(loss):
    """Findings in which the link loses so much of a cell."""
    outcomes = [
        Outcome(
            cell,
            {
                "nll": 2.5 + 0.3 * cell.seed + (loss(cell) if cell.fit == LINKED else 0.0),
                "r_hat": 1.01,
                "ess": 50.0,
            },
        )
        for cell in CELLS
    ]
    return Findings(PLAN, outcomes, tidy("link", outcomes))


def test_both_ways_are_fitted_to_the_same_forum_with_the_same_seed():
    plain = [cell for cell in CELLS if cell.fit == ()]
    linked = [replace(cell, fit=()) for cell in CELLS if cell.fit == LINKED]
    assert set(plain) == set(linked)
    assert len(plain) == 3 * 2 * 3
    assert len({(cell.scenario, cell.seed) for cell in CELLS}) == 9


def test_the_option_reaches_the_fit():
    cell = next(cell for cell in CELLS if cell.fit == LINKED)
    model = fit(cell, forum_of(cell))
    assert model.link == "linear"
    assert "slopes" in model.posterior_


def test_errors_are_of_the_paired_differences_of_draws():
    pairs = pairs_of(found(lambda cell: 0.02 * cell.seed).frame)
    assert len(pairs) == 18
    one = over_draws(pairs[pairs["scenario"] == "iris"])
    assert one.difference == pytest.approx(0.02)
    assert one.error == pytest.approx(0.02 / np.sqrt(3))
    assert one.plain == pytest.approx(2.8)
    assert over_draws(pairs).n == 9


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([0.02, 0.021, 0.022], "**loses**"),
        ([0.002, 0.0021, 0.0022], "loses less than allowed"),
        ([-0.1, 0.1, 0.05], "no difference"),
        ([-0.1, -0.11, -0.12], "gains"),
    ],
)
def test_verdicts(differences, verdict):
    point = Paired.of(np.column_stack([np.full(3, 2.5), 2.5 + np.array(differences)]))
    assert point.verdict == verdict
    assert point.allowed == pytest.approx(ALLOWED + 2 * np.std(differences, ddof=1) / np.sqrt(3))


def test_the_section_says_where_the_link_loses():
    good = link(found(lambda cell: -0.001 * cell.seed)).text
    assert "the rule holds" in good
    assert "Of the 9 rows above it, it loses more than allowed in none" in good
    bad = link(found(lambda cell: 0.2 if cell.scenario == "iris" else 0.0)).text
    assert (
        "more than allowed in 3 (iris, 10 threads, +0.2000; iris, 50 threads, +0.2000; iris, all "
        "threads, +0.2000);" in bad
    )
    assert link(found(lambda _: 0.1)).text.count("the rule is broken") == 1
