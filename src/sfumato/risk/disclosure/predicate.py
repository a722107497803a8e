"""Statements about confidential variables, such as `charge > 100000`, read from text.

Nothing is ever executed: the text is parsed, and whatever is not on a short list is refused.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Constant = int | float | str
Sign = Literal["<", "<=", ">", ">=", "==", "!=", "in"]

ALLOWED = (
    'a statement compares variables with values: charge > 100000, diagnosis == "AIDS", '
    'diagnosis in ["a", "b"], 10 <= age < 20, joined by and, or, not; odd names stand in '
    "backticks: `blood group`."
)
_LONGEST = 10_000
_LARGEST = 1e300
_DEEPEST = 50
_QUOTED = re.compile(
    r"""\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'"""
    r"|\#[^\n]*|`([^`]+)`|(?<!\w)((?:[A-Za-z_][A-Za-z0-9_]*)?(?:[^\x00-\x7f\s][A-Za-z0-9_]*)+)",
    re.DOTALL,
)
"""Texts and comments, which stay as they are; names in backticks; names with letters that Python
would turn into others that look alike."""
_ONE_EQUAL = re.compile(r"(?<![<>=!])=(?!=)")
_CAPITALS = re.compile(r"\b(?:AND|OR|NOT|And|Or|Not)\b")
_SIGNS: dict[type[ast.cmpop], Sign] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.In: "in", ast.NotIn: "in",
}  # fmt: skip
_TURNED: dict[Sign, Sign] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


@dataclass(frozen=True)
class Comparison:
    """One variable held against one constant, or against several (`in`)."""

    variable: str
    sign: Sign
    constants: tuple[Constant, ...]


@dataclass(frozen=True)
class Not:
    """What does not hold."""

    part: Predicate


@dataclass(frozen=True)
class Joined:
    """Several statements: all of them, or any of them."""

    every: bool
    parts: tuple[Predicate, ...]


Predicate = Comparison | Not | Joined


def parse(text: str) -> Predicate:
    """Read a statement; a `ValueError` says what is allowed.

    Examples
    --------
    >>> parse("charge > 100000")
    Comparison(variable='charge', sign='>', constants=(100000,))
    >>> parse("`blood group` not in ['A', 'B']").part.variable
    'blood group'
    """
    if len(text) > _LONGEST:
        raise _refuse(f"is longer than {_LONGEST} characters")
    names: dict[str, str] = {}

    def substitute(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if not name or (match[2] and not name.isidentifier()):
            return match[0]
        # A name that the text cannot hold already, so that it hides no other variable.
        stand_in = f"_{'_' * text.count('_')}{len(names)}"
        names[stand_in] = name
        return f" {stand_in} "

    try:
        text.encode()
        tree = _read_syntax(_QUOTED.sub(substitute, text).strip())
        predicate = _read(tree.body, names, _DEEPEST)
        for comparison in list_comparisons(predicate):
            "".join(map(str, comparison.constants)).encode()
    except UnicodeEncodeError:
        raise _refuse("has half a character, which no text can hold") from None
    except (SyntaxError, RecursionError, MemoryError):
        raise _refuse(
            "is not a statement that can be read", _suggest_corrections(text) + ALLOWED
        ) from None
    return predicate


def _read_syntax(text: str) -> ast.Expression:
    """Python reads the syntax; nothing of it is ever evaluated."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", SyntaxWarning)
        try:
            return ast.parse(text, mode="eval")
        except ValueError as error:  # of a null byte, before Python 3.11.4
            raise SyntaxError from error


def list_variables(predicate: Predicate) -> tuple[str, ...]:
    """The variables it names, each once, in the order in which it names them."""
    return tuple(dict.fromkeys(comparison.variable for comparison in list_comparisons(predicate)))


def list_comparisons(predicate: Predicate) -> Iterator[Comparison]:
    """All its comparisons."""
    if isinstance(predicate, Comparison):
        yield predicate
    elif isinstance(predicate, Not):
        yield from list_comparisons(predicate.part)
    else:
        for part in predicate.parts:
            yield from list_comparisons(part)


def replace_constants(
    predicate: Predicate, variable: str, spellings: Mapping[str, str]
) -> Predicate:
    """The same statement with some texts that it compares a variable with spelt otherwise."""
    if isinstance(predicate, Not):
        return Not(replace_constants(predicate.part, variable, spellings))
    if isinstance(predicate, Joined):
        parts = (replace_constants(part, variable, spellings) for part in predicate.parts)
        return Joined(predicate.every, tuple(parts))
    if predicate.variable != variable:
        return predicate
    renamed = (
        spellings.get(constant, constant) if isinstance(constant, str) else constant
        for constant in predicate.constants
    )
    return Comparison(variable, predicate.sign, tuple(dict.fromkeys(renamed)))


def _suggest_corrections(text: str) -> str:
    """What people write who know another language."""
    bare = _QUOTED.sub(" ", text)
    hints = []
    if _ONE_EQUAL.search(bare):
        hints.append("use == for equal")
    if _CAPITALS.search(bare):
        hints.append("write and, or, not in lower case")
    return "".join(f"{hint}; " for hint in hints)


def _refuse(what: str, hint: str = ALLOWED) -> ValueError:
    return ValueError(f"{what}. Hint: {hint}")


def _read(node: ast.expr, names: dict[str, str], depth: int) -> Predicate:
    if not depth:
        raise _refuse(f"is nested more than {_DEEPEST} times")
    if isinstance(node, ast.BoolOp):
        parts = tuple(_read(part, names, depth - 1) for part in node.values)
        return Joined(isinstance(node.op, ast.And), parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return Not(_read(node.operand, names, depth - 1))
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        # 1 < x < 5 is 1 < x and x < 5, as in Python.
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        parts = tuple(_read_comparison(first, op, second, names) for first, op, second in pairs)
        return parts[0] if len(parts) == 1 else Joined(True, parts)
    raise _refuse("has a part that compares nothing")


def _read_comparison(
    first: ast.expr, op: ast.cmpop, second: ast.expr, names: dict[str, str]
) -> Predicate:
    sign = _SIGNS.get(type(op))
    if sign is None:
        raise _refuse("uses a comparison that is not known")
    if sign == "in":
        if not isinstance(first, ast.Name) or not isinstance(
            second, ast.List | ast.Tuple | ast.Set
        ):
            raise _refuse("uses `in` other than with a variable and a list of values")
        constants = tuple(_read_constant(element) for element in second.elts)
        if not constants:
            raise _refuse("uses `in` with an empty list")
        comparison = Comparison(names.get(first.id, first.id), sign, constants)
        return Not(comparison) if isinstance(op, ast.NotIn) else comparison
    if isinstance(first, ast.Name) and not isinstance(second, ast.Name):
        return Comparison(names.get(first.id, first.id), sign, (_read_constant(second),))
    if isinstance(second, ast.Name) and not isinstance(first, ast.Name):
        return Comparison(names.get(second.id, second.id), _TURNED[sign], (_read_constant(first),))
    raise _refuse("has a comparison that is not between a variable and a value")


def _read_constant(node: ast.expr) -> Constant:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _read_constant(node.operand)
        if not isinstance(inner, str):
            return -inner
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, str) or (isinstance(value, (int, float)) and abs(value) <= _LARGEST):
        return value
    raise _refuse("has something else where a number, a text or True or False belongs")
