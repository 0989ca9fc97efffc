"""Tables and pictures of the pages: each has an entry that says what makes it, and one that is
older than its code says so."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.figures import OLD, Project, forget, main

ROOT = Path(__file__).parents[1]
NO_BASH = shutil.which("bash") is None


@pytest.fixture(scope="module")
def project() -> Project:
    return Project(ROOT)


def test_a_figure_that_is_older_than_the_code_says_so(project: Project) -> None:
    wrong = project.marked([*project.figures.values()])
    assert not wrong, (
        f"{', '.join(sorted(page.name for page in wrong))}: make the figures again, or say that "
        "they are old with: python -m benchmarks.figures --mark"
    )


def test_every_mark_of_a_page_has_one_figure(project: Project) -> None:
    tables = [name for figure in project.figures.values() for name in figure.tables]
    assert sorted(tables) == sorted(project.places)
    marks = [
        name
        for page in project.pages
        for name in re.findall("<!-- end of (.*?) -->", page.read_text(encoding="utf-8"))
    ]
    assert sorted(marks) == sorted(project.places)


def test_every_picture_of_the_pages_has_a_figure(project: Project) -> None:
    shown = {
        (page.parent / place).relative_to(ROOT).as_posix()
        for page in project.pages
        for place in re.findall(r"!\[[^\]]*\]\(([^)]*\.png)\)", page.read_text(encoding="utf-8"))
    }
    places = [place for figure in project.figures.values() for place in figure.files]
    assert len(shown) > 10
    assert not {
        name for name in shown if name not in places and f"{Path(name).parent}/" not in places
    }


def test_every_figure_has_a_place_and_programs_that_are_there(project: Project) -> None:
    for figure in project.figures.values():
        assert figure.tables or figure.files, figure.name
        assert bool(figure.run) != bool(figure.by_hand), figure.name
        assert project.modules(figure), figure.name
        asked = re.findall(r"python (?:-m )?([\w./]+)", " ".join(figure.run))
        for name in {*asked, *figure.depends}:
            path = ROOT / (name if "/" in name else f"{name.replace('.', '/')}")
            paths = [path, path.with_suffix(".py"), ROOT / "src" / path.relative_to(ROOT)]
            paths.append(paths[-1].with_suffix(".py"))
            assert any(one.exists() for one in paths), f"{figure.name}: {name}"


def test_every_stamp_is_of_a_figure_and_names_no_place(project: Project) -> None:
    assert set(project.stamps) <= set(project.figures)
    for stamp in project.stamps.values():
        assert set(stamp) >= {"commit", "digest", "date", "cpu_seconds", "cores", "cpu", "numba"}
        assert "/" not in re.sub(r" w/ | \d+/\d+", "", json.dumps(stamp))


def test_a_benchmark_depends_on_what_it_imports(project: Project) -> None:
    sources = {
        name: {path.relative_to(ROOT).as_posix() for path in project.sources(project.figures[name])}
        for name in ("coverage", "prior of the spread", "forum", "link", "combinations")
    }
    assert {
        "benchmarks/coverage.py",
        "benchmarks/mixing.py",
        "src/dualview/mixture.py",
        "src/dualview/engines/gibbs/moves/assignment.py",
    } <= sources["coverage"]
    assert not [name for name in sources["coverage"] if "/cli/" in name or "/report/" in name]
    assert "src/dualview/mixture.py" not in sources["prior of the spread"]
    assert "src/dualview/forum/scores.py" in sources["forum"]
    assert {"examples/link.py", "src/dualview/mixture.py"} <= sources["link"]
    assert sources["combinations"] == {"tests/combinations.py"}
    assert "src/dualview/_version.py" not in set.union(*sources.values())


TOML = """
[numbers]
minutes = 1
run = ["python -m tool"]

[both]
minutes = 2
run = ["python -m tool marks", "cp README.md $OUT/made.png"]
tables = { first = "", second = "" }
files = { "docs/made.png" = "made.png" }

[drawn]
minutes = 1
by_hand = "with a pencil"
files = { "docs/drawn.png" = "drawn.png" }
depends = ["tool"]
"""
TOOL = '''"""A tool."""

import sys

import part


def main() -> None:
    """Print."""
    if sys.argv[1:] == ["marks"]:
        for name in ("first", "second"):
            print(f"<!-- {name} -->\\n\\n| {part.VALUE} {name} |\\n\\n<!-- end of {name} -->")
    else:
        print(f"| {part.VALUE} |")


main()
'''
PAGE = """# Page

<!-- numbers -->

| 0 |

<!-- end of numbers -->

<!-- first -->

| 0 |

<!-- end of first -->

After.

<!-- second -->

Nothing yet.

<!-- end of second -->

![Made](made.png)

*A picture.*
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    files = {"docs/figures.toml": TOML, "docs/page.md": PAGE, "tool.py": TOOL}
    files |= {"part.py": "VALUE = 1\n", "README.md": "# Read\n\n![Drawn](docs/drawn.png)\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def digest(root: Path, name: str = "numbers") -> str:
    forget()
    project = Project(root)
    return project.digest(project.figures[name])


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_comments_docstrings_and_layout_do_not_change_a_digest(root: Path) -> None:
    before = digest(root)
    change(root / "tool.py", '"""A tool."""\n', '"""Another."""  # of many\n\n')
    change(root / "tool.py", '    """Print."""\n', "    # prints\n")
    change(root / "part.py", "VALUE = 1", "VALUE = (\n    1\n)")
    assert digest(root) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("tool.py", "| {part.VALUE} |", "| {part.VALUE}. |"),
        ("part.py", "1", "2"),
        ("docs/figures.toml", '"python -m tool"', '"python -m tool 2"'),
    ],
)
def test_code_and_commands_change_a_digest(root: Path, name: str, old: str, new: str) -> None:
    before = digest(root)
    change(root / name, old, new)
    assert digest(root) != before


def test_code_for_type_checkers_is_not_followed(root: Path) -> None:
    change(root / "tool.py", "import part", "if 0:\n    pass\nimport part")
    change(root / "part.py", "VALUE", "from typing import TYPE_CHECKING\n\nVALUE")
    change(root / "part.py", "1", "1\nif TYPE_CHECKING:\n    import other")
    (root / "other.py").write_text("", encoding="utf-8")
    digest(root)
    project = Project(root)
    names = {path.name for path in project.sources(project.figures["numbers"])}
    assert names == {"tool.py", "part.py"}


def test_marks_stand_under_old_figures_once(root: Path) -> None:
    main(["--mark"], root)
    page = (root / "docs" / "page.md").read_text(encoding="utf-8")
    assert f"| 0 |\n\n{OLD}.*\n\n<!-- end of numbers -->" in page
    assert f"![Made](made.png)\n\n{OLD}.*\n\n*A picture.*" in page
    assert "Nothing yet.\n\n<!-- end of second -->" in page  # it was never made
    assert page.count(OLD) == 3
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert readme == f"# Read\n\n![Drawn](docs/drawn.png)\n\n{OLD}.*\n"
    main(["--mark"], root)
    assert (root / "docs" / "page.md").read_text(encoding="utf-8") == page
    assert not Project(root).marked([*Project(root).figures.values()])


def test_a_page_that_is_written_whole_is_marked_below_its_first_paragraph(root: Path) -> None:
    with (root / "docs" / "figures.toml").open("a", encoding="utf-8") as file:
        print('[whole]\nminutes = 1\nrun = ["true"]\nfiles = { "docs/whole.md" = "a" }', file=file)
    page = root / "docs" / "whole.md"
    page.write_text("# All\n\nFirst,\nsays what.\n\nSecond.\n", encoding="utf-8")
    for _ in range(2):
        main(["--mark"], root)
        text = page.read_text(encoding="utf-8")
        assert text == f"# All\n\nFirst,\nsays what.\n\n{OLD}.*\n\nSecond.\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="the commit is Git's")
def test_a_figure_by_hand_is_stamped_when_it_has_changed(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    picture = root / "docs" / "drawn.png"
    picture.write_bytes(b"before")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for asked in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "-m", "first"]):
        subprocess.run(["git", *asked], cwd=root, check=True)
    assert main(["drawn"], root) == 1
    assert "docs/drawn.png is as it was. Make it anew: with a pencil." in capfd.readouterr().err
    picture.write_bytes(b"after")
    assert main(["drawn"], root) == 0
    assert picture.read_bytes() == b"after"
    assert Project(root).stamps["drawn"]["digest"] == digest(root, "drawn")


@pytest.mark.skipif(NO_BASH, reason="commands are those of bash")
def test_a_figure_is_written_in_place_and_stamped(root: Path) -> None:
    main(["--mark"], root)
    assert main([], root) == 0
    page = (root / "docs" / "page.md").read_text(encoding="utf-8")
    assert "<!-- numbers -->\n\n| 1 |\n\n<!-- end of numbers -->" in page
    assert "<!-- first -->\n\n| 1 first |\n\n<!-- end of first -->" in page
    assert "| 1 second |" in page
    assert OLD not in page
    assert (root / "docs" / "made.png").read_bytes() == (root / "README.md").read_bytes()
    stamps = Project(root).stamps
    assert list(stamps) == ["both", "numbers"]  # what is made by hand is stamped by its name only
    assert stamps["numbers"]["digest"] == digest(root)
    assert stamps["numbers"]["cores"] > 0
    assert not [*(root / ".figures").iterdir()]

    change(root / "part.py", "1", "2")
    digest(root)  # which forgets what was read before
    main(["--mark"], root)
    page = (root / "docs" / "page.md").read_text(encoding="utf-8")
    line = f"{OLD} (commit {stamps['numbers']['commit'][:7]}); `make figures` makes it again.*"
    assert f"| 1 |\n\n{line}\n\n<!-- end of numbers -->" in page
    assert page.count(OLD) == 4
    change(root / "part.py", "2", "1")
    digest(root)
    main(["--mark"], root)
    assert OLD not in (root / "docs" / "page.md").read_text(encoding="utf-8")


@pytest.mark.skipif(NO_BASH, reason="commands are those of bash")
@pytest.mark.parametrize("broken", ["cp README.md $OUT/made.png; false", "true", "false | true"])
def test_a_figure_that_fails_stays_as_it_was_and_others_are_made(
    root: Path, broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change(root / "docs" / "figures.toml", "cp README.md $OUT/made.png", broken)
    assert main([], root) == 1
    page = (root / "docs" / "page.md").read_text(encoding="utf-8")
    assert page == PAGE.replace("| 0 |", "| 1 |", 1)
    assert list(Project(root).stamps) == ["numbers"]
    assert not (root / "docs" / "made.png").exists()
    assert "both: failed, stays as it was" in capsys.readouterr().err


@pytest.mark.skipif(NO_BASH, reason="commands are those of bash")
def test_code_that_changes_meanwhile_makes_no_figure(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(root / "docs" / "figures.toml", 'tool"]', 'tool", "echo >> tool.py"]')
    assert main(["numbers"], root) == 0  # an empty line is no change
    change(root / "docs" / "figures.toml", "echo >> tool.py", "echo VALUE = 2 > part.py")
    before = (root / "docs" / "page.md").read_text(encoding="utf-8")
    stamps = Project(root).stamps
    assert main(["numbers"], root) == 1
    assert "has changed meanwhile" in capsys.readouterr().err
    assert (root / "docs" / "page.md").read_text(encoding="utf-8") == before
    assert Project(root).stamps == stamps


def test_what_a_figure_needs_is_looked_for(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("THERE", "yes")
    needs = 'needs = ["THERE", "ABSENT", "numpy", "no-such-package"]'
    change(root / "docs" / "figures.toml", '"python -m tool"]', f'"python -m tool"]\n{needs}')
    project = Project(root)
    assert project.missing(project.figures["numbers"]) == ["ABSENT", "no-such-package"]
    assert main(["numbers"], root) == 1
    assert main(["--list"], root) == 0
    assert "page.md" in capsys.readouterr().out
