"""A formula such as `weight / height ** 2`, read from text and turned into a query.

Nothing is ever executed: Python reads the syntax, and whatever is not on a short list is refused.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import polars as pl

from sfumato.data import Dataset
from sfumato.errors import did_you_mean

_LONGEST, _DEEPEST = 2_000, 30
_LARGEST = 1e300
_QUOTED = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|`([^`\n]+)`")
_WHOLE = 2.0**53
_ROUNDING = 1e-9


def _find_band(number: pl.Expr, *breaks: pl.Expr) -> pl.Expr:
    """How many of the rising breaks a number reaches: 0 below the first."""
    reached = [(number >= end).cast(pl.Int64) for end in breaks]
    return reduce(pl.Expr.add, reached)


def _count_years(later: pl.Expr, earlier: pl.Expr) -> pl.Expr:
    """Whole years from one day to another, as ages are counted."""
    born = earlier.dt.month() * 100 + earlier.dt.day()
    today = later.dt.month() * 100 + later.dt.day()
    years = later.dt.year().cast(pl.Int64) - earlier.dt.year().cast(pl.Int64)
    return years - (today < born).cast(pl.Int64)


def _round_number(number: pl.Expr, digits: pl.Expr | None = None) -> pl.Expr:
    if digits is None:
        return number.round(0)
    scale = pl.lit(10.0).pow(digits)
    return (number * scale).round(0) / scale


@dataclass(frozen=True)
class _Function:
    """A function of a formula: how many arguments it takes, and what it makes of them."""

    least: int
    most: int
    build: Callable[..., pl.Expr]


_MANY = 50
_FUNCTIONS: Mapping[str, _Function] = {
    "log": _Function(1, 1, lambda x: x.cast(pl.Float64).log()),
    "log2": _Function(1, 1, lambda x: x.cast(pl.Float64).log(2)),
    "log10": _Function(1, 1, lambda x: x.cast(pl.Float64).log(10)),
    "log1p": _Function(1, 1, lambda x: x.cast(pl.Float64).log1p()),
    "exp": _Function(1, 1, lambda x: x.cast(pl.Float64).exp()),
    "sqrt": _Function(1, 1, lambda x: x.cast(pl.Float64).sqrt()),
    "abs": _Function(1, 1, pl.Expr.abs),
    "floor": _Function(1, 1, pl.Expr.floor),
    "ceil": _Function(1, 1, pl.Expr.ceil),
    "round": _Function(1, 2, _round_number),
    "minimum": _Function(2, _MANY, pl.min_horizontal),
    "maximum": _Function(2, _MANY, pl.max_horizontal),
    "band": _Function(2, _MANY, _find_band),
    "where": _Function(3, 3, lambda test, yes, no: pl.when(test.cast(pl.Boolean)).then(yes)
                       .when(~test.cast(pl.Boolean)).then(no)),
    "year": _Function(1, 1, lambda day: day.dt.year().cast(pl.Int64)),
    "month": _Function(1, 1, lambda day: day.dt.month().cast(pl.Int64)),
    "days": _Function(2, 2, lambda later, earlier: (later.cast(pl.Date) - earlier.cast(pl.Date))
                      .dt.total_days()),
    "years": _Function(2, 2, _count_years),
}  # fmt: skip
_OPERATORS: Mapping[type[ast.operator], Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a.cast(pl.Float64).pow(b),
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}
ALLOWED = (
    "a formula holds names (odd ones in backticks), numbers, texts in quotes, + - * / // % **, "
    f"comparisons, `x in (1, 2)`, and, or, not, and {', '.join(_FUNCTIONS)}."
)


@dataclass(frozen=True)
class DerivedFormula:
    """A formula that was read.

    Parameters
    ----------
    text : as it was written.
    variables : those that it names, each once, in the order in which it names them.
    query : what it computes, for polars.

    Examples
    --------
    >>> formula = read_derived("weight / height ** 2")
    >>> formula.variables
    ('weight', 'height')
    >>> pl.DataFrame({"weight": [81.0], "height": [1.8]}).select(formula.query).item()
    25.0
    """

    text: str
    variables: tuple[str, ...]
    query: pl.Expr = field(repr=False, compare=False)


def read_derived(text: str) -> DerivedFormula:
    """Read a formula; a `ValueError` says what is allowed."""
    if len(text) > _LONGEST:
        raise ValueError(f"is longer than {_LONGEST} characters.")
    names: dict[str, str] = {}

    def substitute(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        # A name that the text cannot hold already, so that it hides no other variable.
        stand_in = f"_{'_' * text.count('_')}{len(names)}"
        names[stand_in] = match[1]
        return f" {stand_in} "

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SyntaxWarning)
            tree = ast.parse(_QUOTED.sub(substitute, text).strip(), mode="eval")
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        raise _refuse("cannot be read") from None
    reader = _Reader(names)
    query = reader.read(tree.body, _DEEPEST)
    if not reader.variables:
        raise _refuse("names no variable")
    return DerivedFormula(text, tuple(dict.fromkeys(reader.variables)), query)


def quote_variable(name: str) -> str:
    """A variable as a formula names it.

    Examples
    --------
    >>> quote_variable("age"), quote_variable("blood group"), quote_variable("class")
    ('age', '`blood group`', '`class`')
    """
    import keyword

    simple = name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
    return name if simple and name not in _FUNCTIONS else f"`{name}`"


def follows_formula(data: Dataset, name: str) -> bool:
    """Whether a variable is what its formula makes of the others in these very data.

    Looked at, not believed: a later step may have changed what it was made of.
    """
    text = data.schema[name].formula
    try:
        formula = read_derived(text)
    except ValueError:  # there is none, or a manifest that nobody here has written
        return False
    if not set(formula.variables) <= set(data.columns) - {name}:
        return False
    batch = data.batch([name, *formula.variables])
    made = tidy(batch.select(formula.query.alias(name))[name], name_type(data, name))
    made, shown = made.set(batch[name].is_null(), None), batch[name].cast(made.dtype)
    if not made.dtype.is_float():
        return bool(made.eq_missing(shown).all())
    # A file may hold a digit less.
    apart = (made - shown).abs() > _ROUNDING * shown.abs()
    return bool((made.is_null() == shown.is_null()).all()) and not apart.any()


def name_type(data: Dataset, name: str) -> str:
    """Of which type what is made again must be: "integer", "number", "boolean" or "text"."""
    dtype = data.dtype(name)
    if dtype.is_integer():
        return "integer"
    if dtype == pl.Boolean:
        return "boolean"
    return "text" if dtype in (pl.String, pl.Categorical, pl.Enum) else "number"


def tidy(values: pl.Series, wanted: str) -> pl.Series:
    """Values of the type that the variable has; what is no number is missing."""
    if values.dtype == pl.String or wanted == "text":
        return values.cast(pl.String)
    if values.dtype.is_float():
        values = values.set(~values.is_finite().fill_null(value=True), None)
    if wanted == "boolean":
        return values.cast(pl.Boolean)
    if wanted == "integer":
        numbers = values.cast(pl.Float64)
        numbers = numbers.set((numbers.abs() >= _WHOLE).fill_null(value=False), None)
        return numbers.round(0).cast(pl.Int64)
    return values.cast(pl.Float64) if wanted == "number" else values


class _Reader:
    """Turns the syntax of a formula into a query, and notes which variables it names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self.variables: list[str] = []

    def read(self, node: ast.expr, depth: int) -> pl.Expr:
        """The query of a part of the formula."""
        if not depth:
            raise _refuse("is nested too deeply")
        readers: Mapping[type[ast.expr], Callable[[Any, int], pl.Expr]] = {
            ast.Name: self._read_name,
            ast.Constant: lambda constant, _: pl.lit(_read_constant(constant)),
            ast.BinOp: self._read_operation,
            ast.UnaryOp: self._read_sign,
            ast.Compare: self._read_comparison,
            ast.BoolOp: self._read_joined,
            ast.Call: self._read_call,
        }
        if type(node) not in readers:
            raise _refuse("holds something that is not allowed")
        return readers[type(node)](node, depth)

    def _read_name(self, node: ast.Name, depth: int) -> pl.Expr:
        del depth
        name = self._names.get(node.id, node.id)
        self.variables.append(name)
        return pl.col(name)

    def _read_operation(self, node: ast.BinOp, depth: int) -> pl.Expr:
        if type(node.op) not in _OPERATORS:
            raise _refuse("holds something that is not allowed")
        parts = [self.read(part, depth - 1) for part in (node.left, node.right)]
        return _OPERATORS[type(node.op)](*parts)

    def _read_joined(self, node: ast.BoolOp, depth: int) -> pl.Expr:
        parts = [self.read(part, depth - 1).cast(pl.Boolean) for part in node.values]
        join = pl.Expr.and_ if isinstance(node.op, ast.And) else pl.Expr.or_
        return reduce(join, parts).cast(pl.Int64)

    def _read_sign(self, node: ast.UnaryOp, depth: int) -> pl.Expr:
        part = self.read(node.operand, depth - 1)
        if isinstance(node.op, ast.Not):
            return part.cast(pl.Boolean).not_().cast(pl.Int64)
        if isinstance(node.op, ast.USub):
            return -part
        if isinstance(node.op, ast.UAdd):
            return part
        raise _refuse("holds something that is not allowed")

    def _read_comparison(self, node: ast.Compare, depth: int) -> pl.Expr:
        left, parts = self.read(node.left, depth - 1), list[pl.Expr]()
        for sign, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(sign, ast.In) and isinstance(right, (ast.Tuple, ast.List)):
                values = [_read_constant(value) for value in right.elts]
                parts.append(reduce(pl.Expr.or_, [left == pl.lit(value) for value in values]))
                continue
            if type(sign) not in _COMPARISONS:
                raise _refuse("holds something that is not allowed")
            other = self.read(right, depth - 1)
            parts.append(_COMPARISONS[type(sign)](left, other))
            left = other
        return reduce(pl.Expr.and_, parts).cast(pl.Int64)

    def _read_call(self, node: ast.Call, depth: int) -> pl.Expr:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        function = _FUNCTIONS.get(name)
        if function is None or node.keywords:
            hint = did_you_mean(name, list(_FUNCTIONS)) if name else ""
            raise _refuse(f"has no function '{name}'. {hint}".strip())
        if not function.least <= len(node.args) <= function.most:
            raise _refuse(f"gives '{name}' {len(node.args)} values")
        return function.build(*[self.read(part, depth - 1) for part in node.args])


def _read_constant(node: ast.expr) -> float | str:
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    value: Any = inner.value if isinstance(inner, ast.Constant) else None
    if isinstance(value, str) and sign == 1:
        return value
    if type(value) in (int, float) and abs(value) < _LARGEST:
        number: float = sign * value
        return number
    raise _refuse("holds a value that is neither a number nor a text")


def _refuse(what: str) -> ValueError:
    return ValueError(f"{what}. Hint: {ALLOWED}")
