"""The formula of a model of noised data: fixed terms, random effects, transformations.

The library that turns formulas into columns would evaluate log(x) or I(x ** 2) once, on the
released values. An engine needs them for every candidate of the true value, so they are
parsed here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.utility.models.formula import Formula, FormulaToken, read_formula

_QUOTED = re.compile(r"`[^`]*`")
_NAME = re.compile(r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\W\d]\w*))\s*$")
_OFFSET = re.compile(r"\boffset\s*\(")
_EXAMPLE = (
    "write it as in 'y ~ x + (1 | school)', 'y ~ x + (1 + x | school)', "
    "'y ~ x + (1 | school) + (1 | area)' or 'y ~ x + (1 | region/school)'."
)
_CALLS: Mapping[str, Callable[[Floats], Floats]] = {
    "I": lambda x: x, "log": np.log, "log2": np.log2, "log10": np.log10, "exp": np.exp,
    "sqrt": np.sqrt,
}  # fmt: skip
_OPERATORS: Mapping[type[ast.operator], Callable[[Floats, Floats], Floats]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
    ast.Pow: np.power,
}  # fmt: skip
DATA_DEPENDENT = ("center", "scale", "poly")
"""Functions that first learn something of all values: of noised ones they would learn it wrong."""


@dataclass(frozen=True)
class RandomPart:
    """Effects that differ by group.

    Parameters
    ----------
    effects : the terms whose coefficients differ, with the outcome before them.
    by : the variables whose combinations are the groups.
    """

    effects: Formula
    by: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of the grouping factor, such as "school" or "region:school"."""
        return ":".join(self.by)


@dataclass(frozen=True)
class ModelFormula:
    """The formula of a model, with or without random parts.

    Parameters
    ----------
    text : as it was written.
    fixed : outcome and fixed terms.
    parts : the random parts, one for each grouping factor; none in a model of one level.
    offset : what is added to the linear predictor as it is, with the outcome before it; None for
        nothing.
    """

    text: str
    fixed: Formula
    parts: tuple[RandomPart, ...] = ()
    offset: Formula | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables, those of the groups last."""
        names = self.fixed.variables + self.offset_variables
        random = (name for part in self.parts for name in part.effects.variables)
        return tuple(dict.fromkeys([*names, *random, *self.group_variables]))

    @property
    def group_variables(self) -> tuple[str, ...]:
        """Those of the grouping factors."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.by))

    @property
    def offset_variables(self) -> tuple[str, ...]:
        """Those of the offset."""
        outcome = self.fixed.outcome
        return tuple(x for x in (self.offset.variables if self.offset else ()) if x != outcome)


def read_model_formula(text: str) -> ModelFormula:
    """Read a formula with or without random parts; an error says what in it is not allowed.

    Random parts are written as in lme4. (1 | region/school) is schools within regions, the same as
    (1 | region) + (1 | region:school).

    Examples
    --------
    >>> read = read_model_formula("exam ~ reading + (1 + reading | school) + (1 | area)")
    >>> [part.name for part in read.parts], read.parts[0].effects.variables
    (['school', 'area'], ('exam', 'reading'))
    """
    if (match := _OFFSET.search(_blank_quoted_names(text))) is not None:
        return _read_with_offset(text, match.start(), match.end())
    # Random parts (effects | group) are cut out, and read as formulas of their own.
    outcome, remaining = text[: max(_blank_quoted_names(text).find("~"), 0)], text
    parts: list[RandomPart] = []
    while positions := _find_random_parts(remaining):
        start, bar, end = positions[-1]
        effects, groups = remaining[start + 1 : bar], _read_groups(remaining[bar + 1 : end])
        if not effects.strip():
            raise MeasureError("The part with groups cannot be read.", hint=_EXAMPLE)
        read = _read_fixed_part(f"{outcome} ~ {effects}")
        parts = [*(RandomPart(read, by) for by in groups), *parts]
        remaining = _cut_out(remaining, start, end)
    return ModelFormula(text, _read_fixed_part(remaining), tuple(parts))


def _read_groups(text: str) -> list[tuple[str, ...]]:
    """The grouping factors of a part: a / b is a, and b within a."""
    blanked = _blank_quoted_names(text)
    if "/" in blanked and ":" in blanked:
        raise MeasureError(
            "A part with groups has both a / and a colon.",
            hint="write two parts: (1 | a:b) + (1 | a:b:c).",
        )
    cuts = [match.start() for match in re.finditer(r"[/:]", blanked)]
    ends = zip([-1, *cuts], [*cuts, len(text)], strict=True)
    names: list[str] = []
    for start, end in ends:
        match = _NAME.match(text[start + 1 : end])
        if match is None:
            raise MeasureError("The part with groups cannot be read.", hint=_EXAMPLE)
        names.append(match["quoted"] or match["name"])
    if "/" in blanked:
        return [tuple(names[: count + 1]) for count in range(len(names))]
    return [tuple(names)]


def _read_with_offset(text: str, start: int, opened: int) -> ModelFormula:
    """The formula without its offset, and that as a formula of its own, in I( ) as one column."""
    blanked = _blank_quoted_names(text)
    depth, end = 1, opened
    while depth and end < len(text):
        depth += {"(": 1, ")": -1}.get(blanked[end], 0)
        end += 1
    content, joined = text[opened : end - 1], blanked[:start].rstrip().endswith(("+", "~"))
    follows = blanked[end:].lstrip()[:1]
    if depth or not content.strip() or not joined or follows not in ("", "+"):
        raise MeasureError(
            "The offset of the formula cannot be read.",
            hint="add it to the terms with a +: 'y ~ x + offset(log(years))'.",
        )
    model = read_model_formula(_cut_out(text, start, end - 1))
    if model.offset is not None:
        raise MeasureError(
            "The formula has more than one offset.", hint="write one: offset(log(a) + log(b))."
        )
    outcome = text[: blanked.index("~")]
    offset = _read_fixed_part(f"{outcome} ~ 0 + I({content})")
    return replace(model, text=text, offset=offset)


def _read_fixed_part(text: str) -> Formula:
    try:
        formula = read_formula(text)
    except ValueError as error:
        raise MeasureError(f"The formula {error}") from None
    _require_two_sides(formula)
    return formula


def _require_two_sides(formula: Formula) -> None:
    """Refuse a formula that lacks an outcome or terms, or has the outcome on both sides."""
    tilde = formula.tokens.index(FormulaToken("operator", "~"))
    left_side, right_side = formula.tokens[:tilde], formula.tokens[tilde + 1 :]
    if not right_side:
        raise MeasureError("The formula names no term after ~.", hint="as in 'y ~ x', or 'y ~ 1'.")
    if right_side[-1].kind == "operator" and right_side[-1].text != ")":
        raise MeasureError(
            f"The formula ends with '{right_side[-1].text}'.",
            hint="name a term after it, as in 'y ~ x'.",
        )
    outcome = {token.text for token in left_side if token.kind == "name"}
    if not outcome:
        raise MeasureError("The formula names no outcome before ~.", hint="as in 'y ~ x'.")
    if both := [
        token.text for token in right_side if token.kind == "name" and token.text in outcome
    ]:
        raise MeasureError(
            f"Variable '{both[0]}' is the outcome, and also stands among the terms.",
            hint="leave it out after ~.",
        )


def _blank_quoted_names(text: str) -> str:
    """A formula of the same length with quoted names blanked: they may hold any character."""
    return _QUOTED.sub(lambda match: "`" * len(match[0]), text)


def _find_random_parts(text: str) -> list[tuple[int, int, int]]:
    """Where each bracket with a bar begins, where its bar is, and where it ends."""
    blanked = _blank_quoted_names(text)
    parts: list[tuple[int, int, int]] = []
    for match in re.finditer(r"\|", blanked):
        bar = match.start()
        start, end = blanked.rfind("(", 0, bar), blanked.find(")", bar)
        complete = start >= 0 and end >= 0 and _is_simple_bracket(blanked[start + 1 : end])
        if not complete or "~" in blanked[start:end] or blanked.find("~") > start:
            raise MeasureError("The formula has a | outside a part with groups.", hint=_EXAMPLE)
        if not blanked[:start].rstrip().endswith(("+", "~")):
            raise MeasureError("A part with groups is added to the others with a +.", hint=_EXAMPLE)
        parts.append((start, bar, end))
    return parts


def _is_simple_bracket(content: str) -> bool:
    return content.count("|") == 1 and not set("()") & set(content)


def _cut_out(text: str, start: int, end: int) -> str:
    """The formula without a part of it, and without the plus that joined it."""
    before, after = text[:start].rstrip(), text[end + 1 :].lstrip()
    if before.endswith("+"):
        before = before[:-1].rstrip()
        return f"{before} {after or '1'}" if before.endswith("~") else f"{before} {after}"
    if after and not after.startswith("+"):
        raise MeasureError("A part with groups is added to the others with a +.", hint=_EXAMPLE)
    return f"{before} {after[1:].strip() or '1'}"


# Transformations of a noised number, such as log(x) or I(x ** 2)


@dataclass(frozen=True)
class Transformation:
    """A function of one number.

    Parameters
    ----------
    text : how it is written, the number called x.

    Examples
    --------
    >>> Transformation("I(x ** 2)")(np.array([3.0]))
    array([9.])
    """

    text: str

    def __call__(self, x: Floats) -> Floats:
        """Its values."""
        with np.errstate(all="ignore"):
            values = _evaluate(ast.parse(self.text, mode="eval").body, np.asarray(x, float))
        return np.broadcast_to(values, np.shape(x)).astype(float)

    @property
    def power(self) -> int | None:
        """N where it is the n-th power and nothing else."""
        body = _strip_identity(ast.parse(self.text, mode="eval").body)
        if isinstance(body, ast.Name):
            return 1
        if isinstance(body, ast.BinOp) and isinstance(body.op, ast.Pow):
            base, power = _strip_identity(body.left), body.right
            if isinstance(base, ast.Name) and isinstance(power, ast.Constant):
                return int(power.value) if isinstance(power.value, int) else None
        return None

    @property
    def call(self) -> str | None:
        """The function where it is one of the number itself, such as log(x)."""
        body = _strip_identity(ast.parse(self.text, mode="eval").body)
        if isinstance(body, ast.Call) and isinstance(_strip_identity(body.args[0]), ast.Name):
            return body.func.id if isinstance(body.func, ast.Name) else None
        return None


def _strip_identity(node: ast.expr) -> ast.expr:
    """What stands inside I( )."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "I":
        node = node.args[0]
    return node


def _evaluate(node: ast.expr, x: Floats) -> Floats:
    if isinstance(node, ast.Name) and node.id == "x":
        return x
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return np.float64(node.value)  # type: ignore[return-value]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _evaluate(node.operand, x)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluate(node.left, x), _evaluate(node.right, x))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        call = _CALLS.get(node.func.id)
        if call is not None and not node.keywords:
            return call(_evaluate(node.args[0], x))
    raise ValueError


def split_product(text: str) -> list[str]:
    """The factors of a product inside I( ); the text itself where it is no product.

    Examples
    --------
    >>> split_product("I(v1 * v2 ** 2)"), split_product("log(v1)")
    (['I(v1)', 'I(v2 ** 2)'], ['log(v1)'])
    """
    body = ast.parse(text, mode="eval").body
    if not isinstance(body, ast.Call) or getattr(body.func, "id", "") != "I":
        return [text]
    parts: list[ast.expr] = [_strip_identity(body)]
    while any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) for node in parts):
        parts = [
            factor
            for node in parts
            for factor in (
                [_strip_identity(node.left), _strip_identity(node.right)]
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
                else [node]
            )
        ]
    return [text] if len(parts) == 1 else [f"I({ast.unparse(node)})" for node in parts]


def parse_transformation(text: str, variable: str) -> Transformation | None:
    """The function of a variable; None for the variable itself. A ValueError if it is not one.

    Examples
    --------
    >>> parse_transformation("log(v3)", "v3")
    Transformation(text='log(x)')
    """
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == variable:
            node.id = "x"
    transformation = Transformation(ast.unparse(tree.body))
    # Evaluated once, so that an unknown function is an error here and not in an engine.
    _evaluate(tree.body, np.ones(1))
    return None if transformation.power == 1 else transformation
