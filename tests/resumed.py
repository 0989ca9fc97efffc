"""Tests that have passed need not run again while what they depend on stays as it is.

``pytest --resume=FILE`` leaves out the tests that FILE says have passed with the same code, and
writes down those that pass now, so that a run of hours which was cut short continues where it
stopped. Code is the same if each line is, without docstrings and comments: of the file of the test,
of the definitions that it reaches in the package and in what tests share (``definitions``), of the
settings of pytest, and the versions of Python and of all that is installed. A test that uses
``dualview`` as users do depends on the whole package; one that starts other programs, or looks for
files of the project, on each byte of all of it but other tests.
"""

import ast
import hashlib
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import grimp
import pytest

from definitions import Reached, Rows

ROOT = Path(__file__).parents[1]
_EVERYTHING = ("src/dualview", "tests", "benchmarks", "reproduction", "examples", "docs")
_PROGRAMS = {"subprocess", "programs", "runpy", "benchmarks", "reproduction", "examples"}
_LOOKS_FOR_FILES = re.compile(r"\bROOT\b|\bparents?\b|[\"'/](?:docs|examples|src|README)\b")
_IGNORED = {".pyc", ".nbi", ".nbc"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--resume", type=Path, metavar="FILE", help="leave out what FILE says has passed"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--resume") is None:
        return
    given = getattr(config, "workerinput", None)  # workers of xdist must leave out the same tests
    if given is None:
        config.pluginmanager.register(Ledger(config.getoption("--resume")), "ledger")
    else:
        config.pluginmanager.register(Left(given["passed"]), "left out")


class Left:
    """Leaves out tests that have passed."""

    def __init__(self, passed: Iterable[str]) -> None:
        self.passed = set(passed)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        gone = [item for item in items if item.nodeid in self.passed]
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item.nodeid not in self.passed]


class Ledger(Left):
    """Also writes down those that pass."""

    def __init__(self, path: Path) -> None:
        self.path, self.dependencies = path, Dependencies(ROOT)
        self.bad: set[str] = set()
        super().__init__(self._read())

    def _read(self) -> Iterator[str]:
        if not self.path.exists():
            return
        for line in self.path.read_text().splitlines():
            record = json.loads(line)
            if record["code"] == self.dependencies.digest(record["test"].split("::")[0]):
                yield record["test"]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["passed"] = sorted(self.passed)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed" or hasattr(report, "wasxfail"):
            self.bad.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid not in self.bad:
            code = self.dependencies.digest(report.nodeid.split("::")[0])
            with self.path.open("a") as file:
                file.write(json.dumps({"test": report.nodeid, "code": code}) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.passed and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(
            f"{len(self.passed)} more have passed before, with the same code ({self.path})"
        )


class Dependencies:
    """What the tests of a project depend on."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.digest = cache(self._digest)

    def _digest(self, test: str) -> str:
        """Of everything that the tests of a file, a path from the root, depend on."""
        files = self.files(self.root / test) | {self.root / test, self.root / "tests/conftest.py"}
        found = hashlib.sha256(self._surroundings)
        read = self._bytes_digest if files >= self._everything else self._lines_digest
        reached = None if files >= self._package else self._reached(files)
        for path in sorted(files):
            name = f"{path.relative_to(self.root)}\0".encode()
            if reached is None or self._is_test(path):
                found.update(name + read(path))
            elif reached.get(path):
                found.update(name + self._rows_digest(path, reached[path]))
        return found.hexdigest()

    def _reached(self, files: set[Path]) -> dict[Path, set[Rows]] | None:
        """What the tests among these files reach in the package and in the modules that tests
        import; None for all of it."""
        found = self._definitions.rows(
            target
            for path in files
            if path.name.startswith("test_")
            for target in self._definitions.of_text(path.read_text())
        )
        return found and {self._file(module): rows for module, rows in found.items()}

    def _is_test(self, path: Path) -> bool:
        return path.suffix == ".py" and path.name.startswith(("test_", "conftest"))

    @cached_property
    def _definitions(self) -> Reached:
        def text(module: str) -> str | None:
            known = module in self._graph.modules or module in self._helpers
            return self._file(module).read_text() if known else None

        return Reached(cache(text), self._is_lazy)

    def files(self, test: Path) -> set[Path]:
        """The files that a file of tests depends on."""
        modules, seen, todo = set[str](), set[Path](), [test]
        while todo:
            path = todo.pop()
            if path in seen:
                continue
            seen.add(path)
            if _LOOKS_FOR_FILES.search(path.read_text()):
                return self._everything
            for name in _names(path):
                if name in self._helpers:
                    todo.append(self._helpers[name])
                elif name.split(".")[0] in _PROGRAMS:
                    return self._everything
                elif self._is_looked_up(name):
                    seen |= self._package
                elif name in self._graph.modules:
                    modules.add(name)
        return seen | self._closure(modules)

    def _closure(self, modules: Iterable[str]) -> set[Path]:
        """Files of modules of the package, of all that they import, and of the packages that these
        are in; all files where one takes a name from a package that looks it up when it is used."""
        found, todo = set[str](), [*modules]
        while todo:
            module = todo.pop()
            if module in found:
                continue
            found.add(module)
            if not self._is_lazy(module):
                if any(map(self._is_looked_up, _names(self._file(module)))):
                    return self._package
                todo += self._graph.find_modules_directly_imported_by(module)
            if "." in module:
                todo.append(module.rpartition(".")[0])
        return {self._file(module) for module in found}

    def _is_looked_up(self, name: str) -> bool:
        """Whether a package finds the name, or those of all its parts (``package.*``), when it is
        used."""
        package = name.rpartition(".")[0]
        return name not in self._graph.modules and self._is_lazy(package)

    @cache  # noqa: B019
    def _is_lazy(self, module: str) -> bool:
        """Whether it is a package that looks its names up when they are used."""
        known = module in self._graph.modules
        return known and "def __getattr__(" in self._file(module).read_text()

    def _file(self, module: str) -> Path:
        if module in self._helpers:
            return self._helpers[module]
        path = self.root / "src" / module.replace(".", "/")
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

    @cached_property
    def _graph(self) -> Any:
        return grimp.build_graph("dualview", exclude_type_checking_imports=True, cache_dir=None)

    @cached_property
    def _helpers(self) -> dict[str, Path]:
        """Modules that tests import by their names."""
        paths = (self.root / "tests").rglob("*.py")
        return {path.stem: path for path in paths if not path.name.startswith("test_")}

    @cached_property
    def _package(self) -> set[Path]:
        return set(self._in("src/dualview"))

    def _in(self, folder: str) -> Iterator[Path]:
        """The files of a folder that Git knows; all where there is no Git."""
        if (self.root / ".git").exists():
            listed = ["git", "ls-files", "-z", folder]
            told = subprocess.run(listed, cwd=self.root, capture_output=True, check=True).stdout
            paths: Iterable[Path] = (self.root / name for name in told.decode().split("\0") if name)
        else:
            paths = (self.root / folder).rglob("*")
        for path in paths:
            if path.is_file() and path.suffix not in _IGNORED:
                yield path

    @cached_property
    def _everything(self) -> set[Path]:
        return {
            path
            for folder in _EVERYTHING
            for path in self._in(folder)
            if not path.name.startswith("test_")
        } | {path for path in self.root.iterdir() if path.suffix in {".md", ".toml", ".cff"}}

    @cached_property
    def _surroundings(self) -> bytes:
        settings = tomllib.loads((self.root / "pyproject.toml").read_text())["tool"]["pytest"]
        installed = sorted({f"{own.name} {own.version}" for own in distributions()})
        return "\n".join([sys.version, json.dumps(settings), *installed]).encode()

    @cache  # noqa: B019
    def _bytes_digest(self, path: Path) -> bytes:
        return hashlib.sha256(path.read_bytes()).digest()

    @cache  # noqa: B019
    def _lines_digest(self, path: Path) -> bytes:
        if path.suffix != ".py":
            return self._bytes_digest(path)
        return hashlib.sha256(_joined(_code_lines(path.read_text())).encode()).digest()

    def _rows_digest(self, path: Path, reached: set[Rows]) -> bytes:
        lines = _code_lines(path.read_text())
        parts = [_joined(lines[first - 1 : last]) for first, last in sorted(reached)]
        return hashlib.sha256("\0".join(parts).encode()).digest()


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(line.rstrip() for line in lines if line.strip())


@cache
def _code_lines(text: str) -> list[str]:
    """The lines of a module, empty in the place of docstrings and comments; mutants replace text,
    so how the others are broken matters."""
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        owns_docstring = isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        )
        if owns_docstring and ast.get_docstring(node, clean=False) is not None:
            said = node.body[0]
            assert said.end_lineno is not None
            for row in range(said.lineno, said.end_lineno + 1):
                lines[row - 1] = ""
    return lines


@cache
def _names(path: Path) -> set[str]:
    """The modules that a file imports, or calls by their names in text, and names that it imports
    from them, which may be modules too."""
    text, found = path.read_text(), set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            whole = {name.name for name in node.names}
            found |= whole | {f"{name}.*" for name in whole}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{name.name}" for name in node.names}
            found |= {node.module} | whole | {f"{name}.*" for name in whole}
    called = re.findall(r"[\"'](dualview(?:\.\w+)+)", text)
    return found | {name.rpartition(".")[0] for name in called} | set(called)
