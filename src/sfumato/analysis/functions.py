"""Functions of a noised number, such as log(x) or I(x ** 2), as functions of its true value.

The library that turns formulas into columns would run them on the released values, once. An engine
needs them for every value that may be the true one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from sfumato.kernels.arrays import Floats

_CALLS: Mapping[str, Callable[[Floats], Floats]] = {
    "I": lambda x: x, "log": np.log, "log2": np.log2, "log10": np.log10, "exp": np.exp,
    "sqrt": np.sqrt,
}  # fmt: skip
_OPERATORS: Mapping[type[ast.operator], Callable[[Floats, Floats], Floats]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
    ast.Pow: np.power,
}  # fmt: skip
LEARNT = ("center", "scale", "poly")
"""Functions that first learn something of all values: of noised ones they would learn it wrong."""


@dataclass(frozen=True)
class Of:
    """A function of one number.

    Parameters
    ----------
    text : how it is written, the number called x.

    Examples
    --------
    >>> Of("I(x ** 2)")(np.array([3.0]))
    array([9.])
    """

    text: str

    def __call__(self, x: Floats) -> Floats:
        """Its values."""
        with np.errstate(all="ignore"):
            made = _value(ast.parse(self.text, mode="eval").body, np.asarray(x, float))
        return np.broadcast_to(made, np.shape(x)).astype(float)

    @property
    def power(self) -> int | None:
        """N where it is the n-th power and nothing else."""
        body = _bare(ast.parse(self.text, mode="eval").body)
        if isinstance(body, ast.Name):
            return 1
        if isinstance(body, ast.BinOp) and isinstance(body.op, ast.Pow):
            base, power = _bare(body.left), body.right
            if isinstance(base, ast.Name) and isinstance(power, ast.Constant):
                return int(power.value) if isinstance(power.value, int) else None
        return None

    @property
    def call(self) -> str | None:
        """The function where it is one of the number itself, such as log(x)."""
        body = _bare(ast.parse(self.text, mode="eval").body)
        if isinstance(body, ast.Call) and isinstance(_bare(body.args[0]), ast.Name):
            return body.func.id if isinstance(body.func, ast.Name) else None
        return None


def _bare(node: ast.expr) -> ast.expr:
    """What stands inside I( )."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "I":
        node = node.args[0]
    return node


def _value(node: ast.expr, x: Floats) -> Floats:
    if isinstance(node, ast.Name) and node.id == "x":
        return x
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return np.float64(node.value)  # type: ignore[return-value]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _value(node.operand, x)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, x), _value(node.right, x))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        call = _CALLS.get(node.func.id)
        if call is not None and not node.keywords:
            return call(_value(node.args[0], x))
    raise ValueError


def factors_of(text: str) -> list[str]:
    """The factors of a product inside I( ); the text itself where it is no product.

    Examples
    --------
    >>> factors_of("I(v1 * v2 ** 2)"), factors_of("log(v1)")
    (['I(v1)', 'I(v2 ** 2)'], ['log(v1)'])
    """
    body = ast.parse(text, mode="eval").body
    if not isinstance(body, ast.Call) or getattr(body.func, "id", "") != "I":
        return [text]
    parts: list[ast.expr] = [_bare(body)]
    while any(isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult) for one in parts):
        parts = [
            inner
            for one in parts
            for inner in (
                [_bare(one.left), _bare(one.right)]
                if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult)
                else [one]
            )
        ]
    return [text] if len(parts) == 1 else [f"I({ast.unparse(one)})" for one in parts]


def function_of(text: str, variable: str) -> Of | None:
    """The function of a variable; None for the variable itself. A ValueError if it is not one.

    Examples
    --------
    >>> function_of("log(v3)", "v3")
    Of(text='log(x)')
    """
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == variable:
            node.id = "x"
    made = Of(ast.unparse(tree.body))
    _value(tree.body, np.ones(1))
    return None if made.power == 1 else made
