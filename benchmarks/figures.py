"""Make the tables and pictures of README and docs: ``python -m benchmarks.figures [NAME ...]``.

``docs/figures.toml`` says of each figure which commands make it and where it stands. Each is made,
written in place and stamped in ``docs/figures.json`` with the commit, the machine and a digest of
the code that it depends on. A figure whose commands fail stays as it was, stamp included; the
others are still made. Commands find a folder for their files in $OUT, the same again after an
interruption while the code is the same. A figure that is made by hand is stamped when it is asked
for by name and has changed since the commit.

``--list`` says which figures are current. ``--mark`` writes under each that is older than its code
that it is, and takes this line away elsewhere.
"""

import argparse
import ast
import datetime
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dualview
from benchmarks.paste import pasted, standing
from dualview.files.writing import write_json, write_whole

ROOT = Path(__file__).parents[1]
OLD = "*Made with an earlier version of the code"
_MARK = rf"(?:\n\n{re.escape(OLD)}[^\n]*\*)?"


class FailedError(Exception):
    """A figure could not be made."""


@dataclass(frozen=True)
class Figure:
    """A table or picture, or several of the same commands, as docs/figures.toml describes it."""

    name: str
    minutes: float  # of CPU, about
    run: Sequence[str] = ()
    tables: dict[str, str] = field(default_factory=dict)  # by marks: a file in $OUT, or printed
    files: dict[str, str] = field(default_factory=dict)  # by place: a file in $OUT
    fence: bool = False  # text that is no Markdown
    depends: Sequence[str] = ()  # modules with what they import, or files; else those that run
    needs: Sequence[str] = ()  # variables of the environment, or packages
    by_hand: str = ""  # how it is made where no command makes it


class Project:
    """The figures of a folder with a ``docs/figures.toml``, and their stamps."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root, self.file = root, root / "docs" / "figures.json"
        self.pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
        self.places = {
            name: page
            for page in self.pages
            for name in re.findall("<!-- end of (.*?) -->", page.read_text(encoding="utf-8"))
        }
        text = (root / "docs" / "figures.toml").read_text(encoding="utf-8")
        self.figures = {
            name: Figure(name, **({"tables": {name: ""}} if name in self.places else {}) | entry)
            for name, entry in tomllib.loads(text).items()
        }
        self._files = cache(self._files_of)

    @property
    def stamps(self) -> dict[str, dict[str, Any]]:
        return json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else {}

    def modules(self, figure: Figure) -> list[str]:
        """The modules and files that a figure depends on, by themselves."""
        asked = " ".join(figure.run)
        return [*figure.depends] or re.findall(r"python (?:-m )?([\w./]+)", asked)

    def sources(self, figure: Figure) -> set[Path]:
        """All files that a figure depends on."""
        found, todo = set[Path](), self.modules(figure)
        seen = set(todo)
        while todo:
            name = todo.pop()
            if "/" in name:
                found.add(self.root / name)
                new = set[str]() if figure.depends else _imports(self.root / name)
            else:
                paths = self._files(name)
                found.update(paths)
                new = {imported for path in paths for imported in _imports(path)}
            todo += new - seen
            seen |= new
        return found

    def _files_of(self, module: str) -> list[Path]:
        """The files of a module of the project: of a package that looks its names up when they are
        used, all."""
        if module == "dualview" or module.startswith("dualview._version"):
            return []  # the names of dualview are followed one by one
        parts, found = module.split("."), []
        for top in (self.root, self.root / "src", self.root / "tests"):
            for n in range(1, len(parts) + 1):
                place = top.joinpath(*parts[:n])
                if place.with_suffix(".py").is_file():
                    found.append(place.with_suffix(".py"))
                elif n == len(parts) and (lazy := place / "__init__.py").is_file():
                    whole = "__getattr__" in lazy.read_text(encoding="utf-8")
                    found += place.rglob("*.py") if whole else place.glob("__[im]*__.py")
                elif (place / "__init__.py").is_file() and place.name != "dualview":
                    found.append(place / "__init__.py")
        return found

    def digest(self, figure: Figure) -> str:
        """Of the commands of a figure and the code that it depends on, without comments, docstrings
        and layout."""
        found = hashlib.sha256(repr([*figure.run]).encode())
        for path in sorted(self.sources(figure)):
            found.update(f"{path.relative_to(self.root).as_posix()} {_code(path)}\n".encode())
        return found.hexdigest()

    def missing(self, figure: Figure) -> list[str]:
        """What a figure needs and is not there."""
        return [
            need
            for need in figure.needs
            if need not in os.environ and (need.isupper() or not _installed(need))
        ]

    def make(self, figure: Figure) -> None:
        """Run the commands of a figure, write it in place and stamp it."""
        forget()
        digest, commit = self.digest(figure), self._commit(figure)
        out = self.root / ".figures" / f"{figure.name.replace(' ', '-')}-{digest[:12]}"
        out.mkdir(parents=True, exist_ok=True)
        before = _cpu_seconds()
        printed = "".join(self._output(command, out) for command in figure.run)
        forget()
        if self.digest(figure) != digest:
            raise FailedError("The code has changed meanwhile.")
        for place, content in self._contents(figure, out, printed).items():
            write_whole(place, content)
        made = {"date": datetime.date.today().isoformat(), "commit": commit}
        made |= {"cpu_seconds": round(_cpu_seconds() - before)} | _machine() | {"digest": digest}
        write_json(self.file, dict(sorted((self.stamps | {figure.name: made}).items())))
        self.mark([figure])
        shutil.rmtree(out)

    def _output(self, command: str, out: Path) -> str:
        """What a command prints."""
        path = os.pathsep.join(map(str, (self.root, self.root / "src")))
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        own = {"OUT": str(out), "PYTHONPATH": path, "PATH": programs}
        environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"} | os.environ | own
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            raise FailedError(f"{command} ended with {done.returncode}.")
        return done.stdout

    def _contents(self, figure: Figure, out: Path, printed: str) -> dict[Path, bytes]:
        """What the files of a figure are to hold, before any is written."""
        contents = {}
        for place, name in figure.files.items():
            sources = [self.root / place] if figure.by_hand else sorted(out.glob(name))
            if not sources:
                raise FailedError(f"No command has made {name}.")
            if figure.by_hand and not self._git("status", "--porcelain", "--", place):
                raise FailedError(f"{place} is as it was. Make it anew: {figure.by_hand}.")
            for source in sources:
                target = self.root / place / (source.name if place.endswith("/") else "")
                contents[target] = source.read_bytes()
        texts = dict[Path, str]()
        for marker, name in figure.tables.items():
            page = self.places[marker]
            text = texts.get(page) or page.read_text(encoding="utf-8")
            table = (out / name).read_text(encoding="utf-8") if name else printed
            if f"<!-- {marker} -->" in table:
                table = standing(table, marker)
            if not table.strip():
                raise FailedError(f"No command has printed {marker}.")
            table = f"```text\n{table.rstrip()}\n```" if figure.fence else table
            texts[page] = pasted(text, marker, table)
        return contents | {page: text.encode() for page, text in texts.items()}

    def _commit(self, figure: Figure) -> str:
        """The commit, and whether the code differs from it."""
        paths = [str(path) for path in self.sources(figure)]
        head, changes = (
            self._git("rev-parse", "HEAD"),
            self._git("status", "--porcelain", "--", *paths),
        )
        return f"{head or 'unknown'}{', changed' if changes else ''}"

    def _git(self, *asked: str) -> str:
        """What Git says; nothing where it is not there."""
        return subprocess.run(
            ["git", *asked], cwd=self.root, capture_output=True, text=True, check=False
        ).stdout.strip()

    def marks(self) -> Iterator[tuple[Figure, Path, str]]:
        """Where figures stand: the figure, the page, and a pattern of three parts, of which the
        second is the line that says that the figure is old."""
        for figure in self.figures.values():
            for name in figure.tables:
                end = rf"(\n+<!-- end of {re.escape(name)} -->)"
                begin = rf"(<!-- {re.escape(name)} -->\n.*?[|`].*?)"  # empty ones are not old
                yield figure, self.places[name], f"(?s){begin}({_MARK}){end}"
            for place in figure.files:
                if place.endswith(".md"):
                    opening = r"(?s)(\A# [^\n]*\n\n.*?)"  # the first paragraph says what it is
                    yield figure, self.root / place, rf"{opening}({_MARK})(\n\n)"
                elif place.endswith(".png"):
                    shown = rf"(!\[[^\]]*\]\((?:docs/)?{re.escape(place.removeprefix('docs/'))}\))"
                    for page in self.pages:
                        yield figure, page, f"{shown}({_MARK})()"

    def mark(self, figures: Sequence[Figure]) -> None:
        """Say under figures that are older than their code that they are."""
        for page, text in self.marked(figures).items():
            write_whole(page, text.encode())

    def marked(self, figures: Sequence[Figure]) -> dict[Path, str]:
        """The pages that are to change, as they should be."""
        lines, texts = {figure.name: self.mark_of(figure) for figure in figures}, dict[Path, str]()
        for figure, page, pattern in self.marks():
            if figure.name in lines:
                text = texts.get(page) or page.read_text(encoding="utf-8")
                line = lines[figure.name]
                texts[page] = re.sub(pattern, lambda m, line=line: m[1] + line + m[3], text)
        return {
            page: text for page, text in texts.items() if text != page.read_text(encoding="utf-8")
        }

    def mark_of(self, figure: Figure) -> str:
        """The line under a figure that is older than its code; else nothing."""
        stamp = self.stamps.get(figure.name)
        if stamp is None:
            return f"\n\n{OLD}.*"
        if stamp["digest"] == self.digest(figure):
            return ""
        how = "" if figure.by_hand else "; `make figures` makes it again"
        return f"\n\n{OLD} (commit {stamp['commit'][:7]}){how}.*"


def forget() -> None:
    """Read files again when they are needed next: they may have changed."""
    for cached in (_tree, _imports, _code):
        cached.cache_clear()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """What runs: all but blocks for type checkers."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)):
            yield from _walk(child)


@cache
def _imports(path: Path) -> frozenset[str]:
    """The modules that a file may import, and names that it imports from them, which may be modules
    too."""
    found, short = set[str](), set[str]()
    nodes = list(_walk(_tree(path)))
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
            short |= {name.asname or name.name for name in node.names if name.name == "dualview"}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {f"dualview.{node.attr}"} if node.value.id in short else set()
    return frozenset(dualview._HOMES.get(name.removeprefix("dualview."), name) for name in found)


@cache
def _code(path: Path) -> str:
    """A digest of the code of a file, the same with all versions of Python."""
    code = repr(_plain(_tree(path))).encode() if path.suffix == ".py" else path.read_bytes()
    return hashlib.sha256(code).hexdigest()


def _plain(node: Any) -> Any:
    """A syntax tree as tuples, without docstrings and fields that are empty."""
    if isinstance(node, list):
        return [_plain(one) for one in node]
    if isinstance(node, ast.JoinedStr):  # Python 3.12 adds parts without characters
        return "JoinedStr", [_plain(one) for one in node.values if getattr(one, "value", 0) != ""]
    if not isinstance(node, ast.AST):
        return node
    parts = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
    documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    if documented and ast.get_docstring(node, clean=False) is not None:
        parts = [(name, value[1:] if name == "body" else value) for name, value in parts]
    return type(node).__name__, [(name, _plain(value)) for name, value in parts]


def _installed(package: str) -> bool:
    try:
        version(package)
    except ImportError:
        return False
    return True


def _cpu_seconds() -> float:
    used = os.times()
    return used.children_user + used.children_system


def _machine() -> dict[str, Any]:
    """The machine, without names of hosts or places."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        named = re.search(r"model name\s*: (.*)", information.read_text(encoding="utf-8"))
        model = named[1] if named else model
    packages = {name: version(name) for name in ("numpy", "numba")}
    return {"cores": os.cpu_count(), "cpu": model, "python": platform.python_version()} | packages


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    project = Project(root)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.figures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="all by default, short ones first")
    parser.add_argument("--list", action="store_true", help="say which are current")
    parser.add_argument("--mark", action="store_true", help="say on the pages which are old")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - set(project.figures):
        parser.error(f"No figures: {', '.join(sorted(unknown))}. --list says which there are.")
    chosen = [project.figures[name] for name in asked.names or project.figures]
    chosen.sort(key=lambda figure: figure.minutes)
    if asked.mark:
        project.mark(chosen)
    elif asked.list:
        for figure in chosen:
            made = "old" if project.mark_of(figure) else "current"
            pages = {project.places[table] for table in figure.tables}
            where = ", ".join([*(page.name for page in sorted(pages)), *figure.files])
            print(f"{figure.name:36s} {made:8s} {figure.minutes:4g} min of CPU  {where}")
    else:
        return _make(project, chosen, by_name=bool(asked.names))
    return 0


def _make(project: Project, figures: Sequence[Figure], by_name: bool) -> int:
    """Make figures one after the other: 0 if none has failed."""
    failed = 0
    for figure in figures:
        missing = project.missing(figure)
        if figure.by_hand and not by_name:
            print(f"{figure.name}: left out. By hand: {figure.by_hand}", flush=True)
            continue
        if missing and not by_name:
            print(f"{figure.name}: left out, it needs {', '.join(missing)}", flush=True)
            continue
        print(f"{figure.name}: about {figure.minutes:g} min of CPU", flush=True)
        try:
            if missing:
                raise FailedError(f"It needs {', '.join(missing)}.")
            project.make(figure)
        except (FailedError, OSError, SystemExit) as error:
            print(f"{figure.name}: failed, stays as it was. {error}", file=sys.stderr, flush=True)
            failed += 1
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
