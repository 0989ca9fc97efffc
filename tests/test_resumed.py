"""A run of slow tests that continues where it stopped."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from resumed import ROOT, Dependencies, Ledger

SAMPLER = "tests/engines/gibbs/test_joint.py"
WHOLE = "tests/test_several_tables.py"
PROJECT = "tests/test_site.py"


@pytest.fixture(scope="module")
def here():
    return Dependencies(ROOT)


@pytest.fixture
def copy(tmp_path):
    """The project, where files may be changed."""
    for folder in ("src", "tests"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_tests_of_the_sampler_depend_on_the_sampler_alone(here):
    files = here.files(ROOT / SAMPLER)
    for used in (
        SAMPLER,
        "tests/checks.py",
        "tests/rows.py",
        "src/dualview/__init__.py",
        "src/dualview/engines/gibbs/moves/assignment.py",
        "src/dualview/numerics/linalg.py",
        "src/dualview/views/gaussian/density.py",
    ):
        assert ROOT / used in files
    assert not [path for path in files if "report" in path.parts or "cli" in path.parts]


def test_tests_of_what_users_do_depend_on_the_whole_package(here):
    files = here.files(ROOT / WHOLE)
    assert ROOT / "src/dualview/report/templates/report.html" in files
    for other in ("README.md", "tests/rows.py", SAMPLER):
        assert ROOT / other not in files


def test_tests_of_the_project_depend_on_everything_but_other_tests(here):
    files = here.files(ROOT / PROJECT)
    for used in ("src/dualview/__init__.py", "docs/index.md", "README.md", "tests/rows.py"):
        assert ROOT / used in files
    assert ROOT / SAMPLER not in files


@pytest.mark.parametrize(
    ("changed", "sampler", "whole"),
    [
        ("src/dualview/numerics/linalg.py", True, True),
        ("src/dualview/report/render.py", False, True),
        ("src/dualview/behaviors/binary.py", False, True),
        ("src/dualview/behaviors/families/poisson.py", False, True),
        ("tests/rows.py", True, False),
        (SAMPLER, True, False),
        ("tests/conftest.py", True, True),
        ("tests/test_units.py", False, False),
    ],
)
def test_what_a_change_makes_run_again(copy: Path, changed, sampler, whole):
    before = Dependencies(copy)
    digests = before.digest(SAMPLER), before.digest(WHOLE)
    with (copy / changed).open("a") as file:
        file.write("for more in ():\n    more()\n")
    after = Dependencies(copy)
    assert (after.digest(SAMPLER) != digests[0]) is sampler
    assert (after.digest(WHOLE) != digests[1]) is whole


def test_what_no_test_reaches_changes_nothing(copy: Path):
    path, before = copy / "src/dualview/numerics/linalg.py", Dependencies(copy).digest(SAMPLER)
    text = path.read_text()
    assert text.startswith('"""')
    path.write_text('"""Other words.' + text[3:] + "\n\n# A comment.\n")
    assert Dependencies(copy).digest(SAMPLER) == before
    path.write_text(text + "\ndef no_one_calls_it():\n    return 1\n")
    assert Dependencies(copy).digest(SAMPLER) == before
    used = "def inverse_factors(factors):"
    assert used in text
    path.write_text(text.replace(used, f"{used}\n    factors += 0"))
    assert Dependencies(copy).digest(SAMPLER) != before


@pytest.mark.parametrize(
    "line", ["import dualview.behaviors", "from dualview import behaviors", "import dualview"]
)
def test_names_that_are_looked_up_when_used_may_be_anywhere(copy: Path, line: str):
    one, other = (copy / f"tests/engines/gibbs/test_of_{name}.py" for name in ("one", "all"))
    one.write_text("from dualview.behaviors.base import Behavior\n")
    other.write_text(line + "\n")
    files = Dependencies(copy).files
    assert files(one) - {one} < files(other) - {other}


def test_what_failed_is_not_written_down(tmp_path):
    path = tmp_path / "passed"
    ledger = Ledger(path)

    def report(name: str, when: str, outcome: str = "passed") -> None:
        told = SimpleNamespace(nodeid=f"{SAMPLER}::{name}", when=when, outcome=outcome)
        ledger.pytest_runtest_logreport(told)  # type: ignore[arg-type]

    for name, outcome in (("good", "passed"), ("bad", "failed"), ("left out", "skipped")):
        report(name, "setup")
        report(name, "call", outcome)
        report(name, "teardown")
    report("ends badly", "call")
    report("ends badly", "teardown", "failed")
    assert Ledger(path).passed == {f"{SAMPLER}::good"}
    record = json.loads(path.read_text()) | {"code": "of before"}
    path.write_text(json.dumps(record) + "\n")
    assert not Ledger(path).passed


def test_make_says_it_so_that_pytest_knows_it():
    """A value that stands alone looks like a path, in whose place pytest looks for options."""
    makefile = (ROOT / "Makefile").read_text()
    (line,) = [line for line in makefile.splitlines() if '-m "slow or paper"' in line]
    options = line.split('-m "slow or paper"')[1].split()
    assert options[0].startswith("--resume=")
    assert all(option.startswith("-") for option in options)
