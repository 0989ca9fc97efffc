"""The table of what goes with what is on its page, and is true."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import combinations as options

ROOT = Path(__file__).parents[1]
N_SHARES = 4


def test_the_page_has_the_table_of_every_option_and_question() -> None:
    page = (ROOT / "docs" / "combinations.md").read_text(encoding="utf-8")
    assert options.table() in page
    assert all(name in page for name in (*options.OPTIONS, *options.QUESTIONS))


def test_every_refusal_is_about_options_and_questions_that_are_there() -> None:
    names = {*options.OPTIONS, *options.QUESTIONS}
    for each in options.NO_MEANING + options.NOT_WRITTEN:
        assert {*each.some, *each.others} <= names


def test_the_command_line_has_the_options_that_the_table_names() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "dualview.cli", "fit", "--help-all"],
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert set(options.COMMAND_LINE) == set(options.OPTIONS)
    assert not [how for how in options.COMMAND_LINE.values() if how[0] == "-" and how not in shown]


@pytest.mark.slow
@pytest.mark.parametrize("share", range(N_SHARES))
def test_every_pair_works_or_is_refused_as_the_table_says(share: int) -> None:
    """In Python: a fit of a pair takes half a second, and a minute to compile."""
    found = subprocess.run(
        [sys.executable, "tests/combinations.py", "--share", f"{share}/{N_SHARES}"],
        cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    *wrong, last = found.stdout.strip().splitlines()
    assert not wrong, "\n".join(wrong)
    assert "as the table says" in last
