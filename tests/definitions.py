"""What the modules of a package define, and which of it some tests reach.

A definition is a statement of a module that binds names: a function, a class, a constant. What else
a module does when it is imported (a call, a loop) and functions with decorators that may write
themselves down are reached wherever the module is. A definition reaches those that it names; one
that names a module as a whole, and not one of its attributes, reaches all of it.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import accumulate
from typing import NamedTuple

Target = tuple[str, str | None]  # a module and a name in it; None: all of it
Rows = tuple[int, int]  # first and last line, from 1

NOTHING = ""  # of a module, but what it does when it is imported

_CALLED = re.compile(r"[\"'](dualview(?:\.\w+)+)")
_HARMLESS = {  # decorators that do nothing but change what they decorate
    "abstractmethod",
    "cache",
    "cached_property",
    "classmethod",
    "compiled",
    "contextmanager",
    "dataclass",
    "in_place",
    "inlined",
    "property",
    "runtime_checkable",
    "standalone",
    "staticmethod",
    "total_ordering",
}


class Statement(NamedTuple):
    """used: names, and which of their attributes; None for the name itself. targets: what the
    statement imports itself, or calls by its name in text."""

    rows: Rows
    used: frozenset[tuple[str, str | None]]
    targets: frozenset[Target]

    @classmethod
    def of(cls, node: ast.stmt, text: str) -> "Statement":
        first = min([node.lineno, *(own.lineno for own in getattr(node, "decorator_list", ()))])
        owners, used, targets = set[int](), set[tuple[str, str | None]](), set[Target]()
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                used.add((part.value.id, part.attr))
                owners.add(id(part.value))
            elif isinstance(part, ast.Import | ast.ImportFrom):
                targets |= {target for _, target in _imported(part)}
            elif isinstance(part, ast.Name) and id(part) not in owners:
                used.add((part.id, None))
            elif isinstance(part, ast.arg):  # a fixture's name, perhaps
                used.add((part.arg, None))
        for name in _CALLED.findall(ast.get_source_segment(text, node) or ""):
            module, _, last = name.rpartition(".")
            targets.add((module, last))
        return cls((first, node.end_lineno or first), frozenset(used), frozenset(targets))


class Module:
    """What a module binds, what it does besides, and where the names come from that it imports."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.bound: dict[str, list[Statement]] = defaultdict(list)
        self.effects: list[Statement] = []
        self.imports: dict[str, Target] = {}
        self.every: list[Statement] = []
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imports |= dict(_imported(node))
                continue
            statement, names = Statement.of(node, text), list(_names_bound(node))
            if _is_for_types(node) or _is_docstring(node):
                continue
            self.every.append(statement)
            if not names or not _is_harmless(node):
                self.effects.append(statement)
            for name in names:
                self.bound[name].append(statement)


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Target]]:
    """The names that an import binds, and what they are."""
    for name in node.names:
        if isinstance(node, ast.Import):
            yield name.asname or name.name.partition(".")[0], (name.name, None)
        elif node.module:
            yield name.asname or name.name, (node.module, name.name)


def _names_bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


def _is_harmless(node: ast.stmt) -> bool:
    """Whether it only binds names."""
    for decorator in getattr(node, "decorator_list", ()):
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name not in _HARMLESS:
            return False
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Name | ast.Tuple) for target in node.targets)
    return not isinstance(node, ast.AugAssign)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


_read = cache(Module)


class Reached:
    """What some targets reach in the modules of a package."""

    def __init__(self, text: Callable[[str], str | None], is_lazy: Callable[[str], bool]) -> None:
        """text: of a module of the package; None for others. is_lazy: whether a package finds names
        when they are used."""
        self._text, self._is_lazy = text, is_lazy

    def _module(self, name: str) -> Module | None:
        text = self._text(name)
        return None if text is None else _read(name, text)

    def rows(self, starts: Iterable[Target]) -> dict[str, set[Rows]] | None:
        """The rows that are reached, by module; None where a name may be anywhere."""
        found: dict[str, set[Rows]] = {}
        seen, todo = set[Target](), list(starts)
        while todo:
            target = todo.pop()
            module = self._module(target[0])
            if target in seen or module is None:
                continue
            seen.add(target)
            name, wanted = target
            if name not in found:
                found[name] = set()
                todo += self._of(module, module.effects, found[name])
                todo += self._imported_with(module)
            if wanted == NOTHING:
                continue
            if wanted in module.bound:
                todo += self._of(module, module.bound[wanted], found[name])
            elif wanted in module.imports:
                todo.append(self._resolved(module.imports[wanted], None))
            elif wanted is not None and self._text(f"{name}.{wanted}") is not None:
                todo.append((f"{name}.{wanted}", None))
            elif self._is_lazy(name):
                return None
            else:
                todo += self._of(module, module.every, found[name])
                todo += [self._resolved(own, None) for own in module.imports.values()]
        return found

    def of_text(self, text: str) -> set[Target]:
        """What a file outside the package reaches first: all that it names."""
        module = _read("", text)
        return {*self._of(module, module.every, set()), *self._imported_with(module)}

    def _imported_with(self, module: Module) -> Iterator[Target]:
        """The modules that are imported with one."""
        for part in accumulate(module.name.split("."), "{}.{}".format):
            yield part, NOTHING
        for owner, name in module.imports.values():
            yield owner, NOTHING
            yield f"{owner}.{name}", NOTHING

    def _of(
        self, module: Module, statements: Iterable[Statement], rows: set[Rows]
    ) -> Iterator[Target]:
        """What statements reach. In place: their rows."""
        for statement in statements:
            rows.add(statement.rows)
            yield from statement.targets
            for name, attribute in statement.used:
                if name in module.bound:
                    yield module.name, name
                elif name in module.imports:
                    yield self._resolved(module.imports[name], attribute)

    def _resolved(self, imported: Target, attribute: str | None) -> Target:
        """What was imported, or an attribute of it where that is a module."""
        owner, name = imported
        whole = owner if name is None else f"{owner}.{name}"
        return imported if self._text(whole) is None else (whole, attribute)
