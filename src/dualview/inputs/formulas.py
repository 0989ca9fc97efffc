"""Formulas such as "bdi ~ 1 + month | subject", of which no text runs that is not on a short list.

formulaic evaluates parts of a formula as Python, and terms are read from files of fits too. So they
are taken apart here first, and columns go by plain stand-ins in what formulaic reads: no name of a
column can be code, or be taken for one of its functions.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dualview.checks import refuse_repeated_columns, require_extra
from dualview.errors import InputError, InputTypeError

_EXAMPLE = '"bdi ~ 1 + month | subject"'
# Functions that a formula may call, with their number of arguments: of one row at a time, so that
# other tables are coded alike, and without effects
_FUNCTIONS = dict.fromkeys(("C", "I", "log", "log2", "log10", "exp"), 1) | {
    **{f"np.{name}": 1 for name in ("log", "log1p", "log2", "log10", "exp", "sqrt", "abs")},
    **{f"np.{name}": 1 for name in ("sin", "cos", "tanh", "square")},
    **{f"np.{name}": 2 for name in ("minimum", "maximum")},
}
_TOKEN = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<function>[^\W\d][\w.]*)\s*\(|(?P<name>[^\W\d][\w.]*)"
    r"|(?P<other>[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+|\*\*|[-+*/:(),]))"
)
_STAND_IN = re.compile(r"\bdv([0-9]+)_column\b")
_MOST_TERMS = 1000
_HIGHEST_POWER = 10


class Formula(NamedTuple):
    """The parts of a formula: a column of outcomes, terms, and a column of users."""

    outcome: str
    terms: str
    user: str

    @classmethod
    def of(cls, text: Any) -> "Formula":
        """From text such as "bdi ~ 1 + month | subject"."""
        if not isinstance(text, str):
            got = f"a {type(text).__name__}" if hasattr(text, "shape") else f"{text!r:.60}"
            raise InputTypeError(f"formula must be text such as {_EXAMPLE}; got {got}.")
        if text.count("`") % 2:
            raise InputError(f"A backtick in the formula {text!r:.80} has no second one.")
        outcome, *sides = _split("~", text)
        terms, *users = _split("|", "~".join(sides))
        if not sides or not users:
            missing = "a ~ after the outcome" if not sides else "the column of users after |"
            raise InputError(
                f"formula must be like {_EXAMPLE}, outcome ~ terms | user; {text!r} lacks "
                f"{missing}."
            )
        user = users[-1]
        if len(users) > 1 or (")" in user and "`" not in user):
            raise InputError(
                f"formula must be like {_EXAMPLE}; got {text!r}. Every user has all of the terms, "
                "which parentheses around them do not change. Columns with one coefficient for "
                "everybody go to common=."
            )
        if "(" in outcome and "`" not in outcome:
            raise InputError(
                f"The outcome of a formula is a column; got {outcome.strip()!r}. Make a column of "
                "it: df['new'] = ...; then use new."
            )
        parts = [part.strip().strip("`") for part in (outcome, user)]
        if not all([*parts, terms.strip()]):
            raise InputError(f"formula must be like {_EXAMPLE}; a part of {text!r} is empty.")
        return cls(parts[0], terms.strip(), parts[1])


def _split(sign: str, text: str) -> list[str]:
    """The parts of a text between signs that are not in backticks."""
    return re.split(rf"\{sign}(?=[^`]*(?:`[^`]*`[^`]*)*$)", text)


@dataclass(frozen=True)
class Terms:
    """Terms of a formula that hold nothing but columns, arithmetic and functions of one row.

    told: as they were written. text: as formulaic reads them, with stand-ins for columns. columns:
    their names, in the order of the stand-ins. levelled: those inside C(). ratios: those of parts
    that are divided.
    """

    told: str
    text: str
    columns: tuple[str, ...]
    levelled: frozenset[str]
    ratios: tuple[frozenset[str], ...] = ()

    @classmethod
    def of(cls, told: str) -> "Terms":
        """From text; raises where it holds anything else."""
        columns: dict[str, str] = {}
        text = " ".join(_pieces(told, columns))
        check = _Check(told, tuple(columns))
        try:
            check.count(ast.parse(text.replace(":", "@"), mode="eval").body)
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise _unreadable(told, "it is no sum of terms") from error
        both = sorted(check.inside & check.outside)
        if both:
            raise InputError(
                f"The column {both[0]!r} is inside C() and outside it in {told!r:.80}: a column "
                "is levels or numbers, not both. Make a copy of it, as in "
                f"df['{both[0]}_level'] = df['{both[0]}'], and use C() of the copy."
            )
        return cls(told, text, tuple(columns), frozenset(check.inside), tuple(check.ratios))

    @property
    def formula(self) -> Any:
        """The terms as formulaic has them."""
        formulaic = _formulaic()
        try:
            return formulaic.Formula(self.text)
        except (formulaic.errors.FormulaicError, RecursionError) as error:
            raise _unreadable(self.told, self._reason(error)) from error

    @property
    def has_intercept(self) -> bool:
        """Whether a term is 1, as there is unless another is 0."""
        return "1" in [str(term) for term in self.formula]

    @property
    def alone(self) -> list[str]:
        """Columns that are terms of their own, as numbers or as levels."""
        terms = {str(term) for term in self.formula}
        return [
            name
            for place, name in enumerate(self.columns)
            if terms & {_stand_in(place), f"C({_stand_in(place)})"}
        ]

    def matrix(self, cells: Mapping[str, Any]) -> pd.DataFrame:
        """The terms as numbers, without the intercept. cells: of each column."""
        formulaic = _formulaic()
        frame = pd.DataFrame({_stand_in(j): cells[name] for j, name in enumerate(self.columns)})
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused afterwards
                made = formulaic.model_matrix(self.formula, frame, na_action="ignore", context={})
        except formulaic.errors.FormulaicError as error:
            raise _unreadable(self.told, self._reason(error)) from error
        matrix = pd.DataFrame(made).drop(columns="Intercept", errors="ignore").astype(float)
        matrix.columns = [
            _named(str(name).replace("[T.", "["), self.columns) for name in matrix.columns
        ]
        refuse_repeated_columns(matrix, f"The formula {self.told!r:.80}")
        return matrix

    def _reason(self, error: Exception) -> str:
        text = re.sub(r"\x1b\[[0-9;]*m|⧛[^⧚]*⧚", "", str(error)).split("\n")[0].rstrip(". ")
        return _named(text, self.columns)


def _pieces(told: str, columns: dict[str, str]) -> Iterator[str]:
    """The terms piece by piece, with stand-ins for columns, whose names become keys of columns."""
    end = len(told.rstrip())
    place = 0
    while place < end:
        piece = _TOKEN.match(told, place, end)
        if piece is None:
            raise _strange(told, told[place:].lstrip()[0])
        function, name = piece["function"], piece["quoted"] or piece["name"]
        if function and function not in _FUNCTIONS:
            raise _not_allowed(f"{function}()")
        if name:
            columns.setdefault(name, _stand_in(len(columns)))
        yield f"{function}(" if function else columns[name] if name else piece["other"]
        place = piece.end()


def _stand_in(place: int) -> str:
    return f"dv{place}_column"


def _named(text: str, columns: tuple[str, ...]) -> str:
    """Text with the names of columns in the place of stand-ins."""
    places = {_stand_in(place): name for place, name in enumerate(columns)}
    return _STAND_IN.sub(lambda found: places.get(found[0], found[0]), text)


@dataclass(frozen=True)
class _Check:
    """What is allowed in terms that were parsed as Python, with @ for a product of columns.

    inside, outside: columns that were found inside C() and outside it. ratios: those of parts that
    are divided.
    """

    told: str
    columns: tuple[str, ...]
    inside: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)
    ratios: list[frozenset[str]] = field(default_factory=list)

    def count(self, node: ast.expr) -> int:
        """Number of terms when products and powers are written out."""
        match node:
            case ast.Call():
                self.call(node)
                return 1
            case ast.Name() | ast.Constant(value=0 | 1):
                self.value(node)
                return 1
            case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
                self.removal(node, operand, set())
                return self.count(operand)
            case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))):
                n_terms = self.count(left)
                if not 1 <= power <= _HIGHEST_POWER:
                    raise self.refusal(node)
                if n_terms == 1 < power:
                    raise self.arithmetic(node)
                return self.limited(n_terms**power)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                self.removal(node, right, _names(left))
                return self.limited(self.count(left) + self.count(right))
            case ast.BinOp(left=left, op=ast.Mult() | ast.MatMult() | ast.Div(), right=right):
                if isinstance(left, ast.Constant) or isinstance(right, ast.Constant):
                    raise self.arithmetic(node)
                return self.limited(self.product(node.op, left, right))
        raise self.refusal(node)

    def product(self, op: ast.operator, left: ast.expr, right: ast.expr) -> int:
        """Number of terms of a * b, of a:b and of a / b, which is a + a:b."""
        one, other = self.count(left), self.count(right)
        if isinstance(op, ast.Div):
            both = _names(left) | _names(right)
            self.ratios.append(frozenset(_named(name, self.columns) for name in both))
            return one + other
        return one * other + (one + other if isinstance(op, ast.Mult) else 0)

    def removal(self, node: Any, removed: ast.expr, there: set[str]) -> None:
        """Raise where a minus takes away columns that no term has, as nothing would come of it."""
        is_minus = isinstance(node.op, ast.USub | ast.Sub)
        if is_minus and not _names(removed) <= there:
            raise self.arithmetic(node)

    def arithmetic(self, node: ast.expr) -> InputError:
        """Of terms that mean nothing, or something else than the arithmetic they look like."""
        return not_arithmetic(_named(ast.unparse(node).replace("@", ":"), self.columns))

    def limited(self, terms: int) -> int:
        """A number of terms, where it is not too large."""
        if terms > _MOST_TERMS:
            raise InputError(
                f"The formula {self.told!r:.80} has more than {_MOST_TERMS} terms when its "
                "products and powers are written out. Leave some out."
            )
        return terms

    def value(self, node: ast.expr) -> None:
        """Raise unless a part is arithmetic of columns and numbers."""
        match node:
            case ast.Name(id=name) if _STAND_IN.fullmatch(name):
                self.outside.add(_named(name, self.columns))
            case ast.Constant(value=number) if type(number) in (int, float):
                pass
            case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
                self.value(operand)
            case ast.BinOp(left=left, op=op, right=right) if isinstance(
                op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Pow
            ):
                if isinstance(op, ast.Pow) and not _is_small_power(node, right):
                    raise self.refusal(node)
                self.value(left)
                self.value(right)
            case ast.Call() if ast.unparse(node.func) != "C":
                self.call(node)
            case _:
                raise self.refusal(node)

    def call(self, node: ast.Call) -> None:
        """Raise unless a call is of an allowed function, of as many values as it takes."""
        function = ast.unparse(node.func)
        if node.keywords or _FUNCTIONS.get(function) != len(node.args) or not _has_column(node):
            raise self.refusal(node)
        if function != "C":
            for value in node.args:
                self.value(value)
        elif isinstance(node.args[0], ast.Name):
            self.inside.add(_named(node.args[0].id, self.columns))
        else:
            raise self.refusal(node)

    def refusal(self, node: ast.expr) -> InputError:
        return _not_allowed(_named(ast.unparse(node).replace("@", ":"), self.columns))


def _names(node: ast.AST) -> set[str]:
    """The stand-ins of the columns in a part of the terms."""
    parts = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return {name for name in parts if _STAND_IN.fullmatch(name)}


def _has_column(node: ast.AST) -> bool:
    return bool(_names(node))


def _is_small_power(node: ast.expr, exponent: ast.expr) -> bool:
    """Whether a power is soon computed. Columns are floats, which overflow; Python's whole numbers
    grow without bound."""
    powers = [part for part in ast.walk(node) if isinstance(part, ast.Pow)]
    if not _has_column(node) and len(powers) > 1:
        return False
    if _has_column(exponent):
        return True
    number = exponent.operand if isinstance(exponent, ast.UnaryOp) else exponent
    value = number.value if isinstance(number, ast.Constant) else None
    return isinstance(value, int | float) and value <= _HIGHEST_POWER


def _not_allowed(term: str) -> InputError:
    return InputError(
        f"The term {term!r:.80} of the formula is not allowed: terms are columns, arithmetic as in "
        "I(month ** 2), C() of one column and functions of one row such as np.log. Make a column "
        "of it: df['new'] = ...; then use new."
    )


def not_arithmetic(term: str) -> InputError:
    """An error for terms that look like arithmetic and are none."""
    return InputError(
        f"The term {term!r:.80} of the formula is no arithmetic: outside I() a sign joins or "
        "removes terms, and numbers are 1 and 0, with and without a level of each user. For the "
        f"arithmetic write I({term:.80})."
    )


def _strange(told: str, found: str) -> InputError:
    if found == ".":
        return InputError("formula must name its columns; got the term '.'. Write them out.")
    return InputError(
        f"The terms {told!r:.80} of the formula hold {found!r}, which is not allowed there. If it "
        "is in the name of a column, put the name in backticks, or rename such columns first."
    )


def _unreadable(told: str, reason: str) -> InputError:
    return InputError(f"The terms {told!r:.80} of the formula cannot be read: {reason}.")


def _formulaic() -> Any:
    wanted = "Formulas, without which dv.from_long names the columns, need"
    return require_extra("formulaic", wanted, "formulas")
