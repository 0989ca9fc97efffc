"""The wheel, in an environment of its own and outside the checkout: it installs, runs, and names
the extras it misses."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from dualview import __version__

ROOT = Path(__file__).parents[1]
JOSS = ROOT / "docs" / "joss" / "paper.md"
WANTED = {  # what is done without an extra, and the extra that the error names
    "cli": "from dualview.cli import main; raise SystemExit(main(['--help']))",
    "plots": "import dualview as dv; dv.plots.require_matplotlib()",
    "report": "import dualview as dv; dv.report.write_report('.')",
    "tables": "from pathlib import Path; from dualview.inputs.table_files import read_table; "
    "read_table(Path('t.parquet'))",
    "formulas": "import dualview as dv; import pandas as pd; "
    "dv.fit('y ~ t | u', pd.DataFrame({'y': [1.5], 't': [1], 'u': [1]}))",
    "forum": "import dualview as dv; dv.forum.read_forum('posts.csv')",
}


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in text
    assert f"\nlicense: {project()['license']}\n" in text
    assert f"\ntitle: {project()['name']}\n" in text


def test_the_workflow_only_calls_make_targets():
    lines = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8").splitlines()
    commands = [
        line.split("run:", 1)[1].strip() for line in lines if line.strip().startswith("- run:")
    ]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {"make test", "make docs", "make wheel", "make test-wheel"} == set(commands)
    for command in commands:
        assert f"\n{command.removeprefix('make ')}:" in makefile
    assert project()["requires-python"] == ">=3.11"
    assert any('python: ["3.11"' in line for line in lines)


def test_a_release_is_tested_with_the_numbas_that_are_supported():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    numba = next(word for word in project()["dependencies"] if word.startswith("numba"))
    oldest, beyond = re.fullmatch(r"numba>=0\.(\d+),<0\.(\d+)", numba).groups()
    used = {oldest, str(int(beyond) - 1)}
    assert set(re.findall(r'numba: \[?"0\.(\d+)"', text)) == used
    offered = re.search(r"^NUMBAS \?= (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    assert {f"0.{minor}" for minor in used} == {offered[0], offered[-1]}
    assert 'python: ["3.11", "3.12", "3.13", "3.14"]' in text
    assert "id-token: write" in text
    assert "password" not in text.replace("no password", "")


def test_what_zenodo_and_citations_say_agrees():
    zenodo = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert zenodo["title"] == project()["name"]
    assert zenodo["license"] == project()["license"]
    assert zenodo["keywords"] == project()["keywords"]
    assert [own["name"] for own in zenodo["creators"]] == [
        own["name"] for own in project()["authors"]
    ]
    assert all(f"  - {word}\n" in citation for word in zenodo["keywords"])
    paper = zenodo["related_identifiers"][0]["identifier"]
    assert f"doi: {paper}\n" in citation
    assert f"doi = {{{paper}}}" in JOSS.with_name("paper.bib").read_text(encoding="utf-8")


def test_the_paper_cites_what_its_bibliography_has():
    text = JOSS.read_text(encoding="utf-8")
    keys = re.findall(r"^@\w+\{(\w+),$", JOSS.with_name("paper.bib").read_text("utf-8"), re.M)
    assert set(re.findall(r"@(\w+)", text)) == set(keys)
    assert len(keys) == len(set(keys))
    words = re.sub(r"^---.*?^---", "", text, flags=re.S | re.M).split()
    assert 750 < len(words) < 1750  # what the journal asks for


def run(command: list[str | Path], folder: Path, **settings) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = kept | {"MPLBACKEND": "Agg"}
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        **settings,
    )


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    """A folder with the wheel and the sdist of the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    built = run([sys.executable, "-m", "build", "--outdir", folder, ROOT], folder, timeout=600)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(dist) -> Path:
    return next(dist.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """An interpreter of an environment that has the wheel and what it depends on, without
    extras."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=True)
    interpreter = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    installed = run([interpreter, "-m", "pip", "install", "--quiet", wheel], folder, timeout=1200)
    assert installed.returncode == 0, installed.stderr
    return interpreter


@pytest.mark.slow
def test_wheel_and_sdist_hold_what_they_should(dist, wheel):
    assert wheel.name == f"dualview-{__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert "dualview/py.typed" in names
    assert any(name.startswith("dualview/report/templates/") for name in names)
    assert not [
        name
        for name in names
        if name.startswith(("tests/", "docs/", "benchmarks/", "reproduction/"))
    ]
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        held = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    assert {
        "CITATION.cff",
        "LICENSE",
        "docs/conf.py",
        "examples/gallery/roles.py",
        "Makefile",
        "reproduction/published.json",
    } <= held
    assert not [
        name for name in held if name.startswith(("docs/_build", "docs/gallery", "docs/tutorial"))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("extra", WANTED)
def test_a_missing_extra_is_named(extra, python, tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    (tmp_path / "posts.csv").write_text("thread,user,time\n1,ann,2020-01-01\n")
    said = run([python, "-c", WANTED[extra]], tmp_path, timeout=120)
    assert said.returncode != 0
    assert f"pip install 'dualview[{extra}]'" in said.stderr


@pytest.mark.slow
def test_the_wheel_runs_outside_the_checkout(python, wheel, tmp_path):
    extras = run(
        [python, "-m", "pip", "install", "--quiet", f"{wheel}[cli,plots]"], tmp_path, timeout=1200
    )
    assert extras.returncode == 0, extras.stderr
    sizes = ["--users", "12", "--threads", "20", "--draws", "100", "--max-draws", "200"]
    demo = run([python.with_name("dualview"), "demo", "--quiet", *sizes], tmp_path, timeout=900)
    assert demo.returncode == 0, demo.stderr
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {
        "picture.png",
        "report.md",
        "users.csv",
    }
    shutil.copy(ROOT / "examples" / "gallery" / "roles.py", tmp_path)
    example = run([python, "-W", "error::DeprecationWarning", "roles.py"], tmp_path, timeout=900)
    assert example.returncode == 0, example.stderr
    assert "dualview predicts later threads better" in example.stdout
    where = run([python, "-c", "import dualview; print(dualview.__file__)"], tmp_path, timeout=60)
    assert str(ROOT) not in where.stdout
