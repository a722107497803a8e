"""A model's formula, read as what it may be: names, a few functions, and how they are combined.

A formula may come from a plan that somebody else wrote, and the library that turns formulas into
columns runs what it is given. So it never gets the text: variables go by aliases, and nothing but
the tokens known here is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from sfumato.errors import did_you_mean

FUNCTIONS = ("C", "I", "log", "log2", "log10", "exp", "sqrt", "center", "scale", "poly")
_TOKEN = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\W\d]\w*)|(?P<number>\d{1,9}(?:\.\d{1,9})?(?![\w.]))"
    r"|(?P<operator>\*\*|[-+*/:^()~,]))"
)
_COLUMN = re.compile(r"(?P<head>C\(v(\d+)\)|v(\d+))\[(?P<reduced>T\.)?(?P<level>\d+)\]|\bv(\d+)\b")
_LONGEST, _DEEPEST = 2000, 5
_MOST_PRODUCTS = 6
"""Of `*`, `/` and powers between terms: each may double the number of terms."""
_HIGHEST = {"terms": 3, "function": 9}
"""Powers of terms, and of numbers inside a function."""


class Token(NamedTuple):
    """A part of a formula: a "name", "function", "number" or "operator"."""

    kind: str
    text: str


@dataclass(frozen=True)
class Formula:
    """A formula that was read, such as `survived ~ C(class) + sex + log(fare)`.

    Parameters
    ----------
    tokens : its parts in order.
    variables : the variables it names.
    categories : those it says are categories, such as class in `C(class)`.
    outcome : the variable left of `~`, where there is nothing but a variable.
    """

    tokens: tuple[Token, ...]
    variables: tuple[str, ...]
    categories: frozenset[str]
    outcome: str | None

    def aliased(self) -> str:
        """The formula with the variables called v0, v1, … in their order."""
        alias = {name: f"v{at}" for at, name in enumerate(self.variables)}
        written = {"^": "**"}
        parts = [
            alias[text] if kind == "name" else written.get(text, text) for kind, text in self.tokens
        ]
        # A function stands right before its bracket, or it would be taken for a variable.
        ends = ["" if kind == "function" else " " for kind, _ in self.tokens]
        return "".join(map("".join, zip(parts, ends, strict=True))).strip()

    def named(self, column: str, labels: Mapping[str, Sequence[str]] | None = None) -> str:
        """A column of the aliased formula by the names of the variables and of their levels.

        Without labels the level is left out: it is a value of somebody, and no word for an error.
        """

        def name(found: re.Match[str]) -> str:
            variable = self.variables[int(found[2] or found[3] or found[6])]
            if found[6]:
                return variable
            head = f"C({variable})" if found[2] else variable
            if labels is None:
                return head
            return f"{head}[{found['reduced'] or ''}{labels[variable][int(found['level'])]}]"

        return _COLUMN.sub(name, column)


def read_formula(text: str) -> Formula:
    """Read a formula; a ValueError says what in it is not allowed.

    Examples
    --------
    >>> read_formula("y ~ C(ward) + log(`length of stay`)").variables
    ('y', 'ward', 'length of stay')
    """
    tokens = _tokens(text)
    _check_shape(tokens)
    _check_calls(tokens)
    _check_powers(tokens)
    names = [token.text for token in tokens if token.kind == "name"]
    if not names:
        raise ValueError("names no variable.")
    categories = {
        tokens[at + 2].text for at, token in enumerate(tokens) if token == Token("function", "C")
    }
    left = tokens[: tokens.index(Token("operator", "~"))]
    if not left:
        raise ValueError("names no outcome before ~.")
    outcome = left[0].text if len(left) == 1 and left[0].kind == "name" else None
    return Formula(tokens, tuple(dict.fromkeys(names)), frozenset(categories), outcome)


def _tokens(text: str) -> tuple[Token, ...]:
    if len(text) > _LONGEST:
        raise ValueError(f"must have at most {_LONGEST} characters.")
    found: list[Token] = []
    at = 0
    while text[at:].strip():
        part = _TOKEN.match(text, at)
        if part is None:
            raise ValueError(
                f"cannot be read at {text[at:].strip()[:20]!r}. Hint: it may hold names (in "
                "backticks if they have spaces), numbers, + - * / : ^ ( ) ~ and the functions "
                f"{', '.join(FUNCTIONS)}."
            )
        kind = str(part.lastgroup)
        found.append(Token("name" if kind == "quoted" else kind, part[kind]))
        at = part.end()
        if kind == "name" and text[at:].lstrip().startswith("("):
            found[-1] = Token("function", part[kind])
    return tuple(found)


def _check_shape(tokens: Sequence[Token]) -> None:
    for one, after in pairwise(tokens):
        ends = one.kind in ("name", "number") or one.text == ")"
        begins = after.kind != "operator" or after.text == "("
        if ends and begins:
            raise ValueError(f"has nothing between '{one.text}' and '{after.text}'.")
    texts = [token.text for token in tokens if token.kind == "operator"]
    if texts.count("~") != 1:
        raise ValueError("needs one ~ between the outcome and the terms, as in 'y ~ x + z'.")
    depth = 0
    for text in texts:
        depth += {"(": 1, ")": -1}.get(text, 0)
        if depth < 0 or depth > _DEEPEST or (text == "~" and depth):
            break
    if depth:
        raise ValueError(f"has brackets that do not match, or more than {_DEEPEST} inside others.")


def _check_calls(tokens: Sequence[Token]) -> None:
    """Only functions known here; C of one variable, poly of one variable and a number."""
    commas = sum(token.text == "," for token in tokens)
    for at, (kind, text) in enumerate(tokens):
        if kind != "function":
            continue
        if text not in FUNCTIONS:
            raise ValueError(f"calls '{text}'. Hint: {did_you_mean(text, FUNCTIONS)}")
        shape = [token.text if token.kind == "operator" else token.kind for token in tokens[at:]]
        if text == "C" and shape[1:4] != ["(", "name", ")"]:
            raise ValueError("needs one variable inside C( ).")
        if text == "poly":
            commas -= 1
            if shape[1:6] != ["(", "name", ",", "number", ")"]:
                raise ValueError("needs poly(variable, degree).")
    if commas:
        raise ValueError("has a comma outside poly(variable, degree).")


def _check_powers(tokens: Sequence[Token]) -> None:
    """Powers and products that would never end, or make more terms than anybody can read."""
    inside: list[bool] = []
    products = 0
    for at, (kind, text) in enumerate(tokens):
        if text == "(" and kind == "operator":
            inside.append(any(inside) or tokens[at - 1].kind == "function")
        elif text == ")" and kind == "operator":
            inside.pop()
        elif text in ("**", "^"):
            highest = _HIGHEST["function" if any(inside) else "terms"]
            power = tokens[at + 1].text if at + 1 < len(tokens) else ""
            chained = tokens[at - 1].kind == "number" or tokens[at + 2 : at + 3] in (
                (Token("operator", "**"),),
                (Token("operator", "^"),),
            )
            if not power.isdigit() or int(power) > highest or chained:
                raise ValueError(f"has a power that is no whole number from 0 to {highest}.")
        if text in ("*", "/", "**", "^") and not any(inside):
            products += 1
    if products > _MOST_PRODUCTS:
        raise ValueError(f"has more than {_MOST_PRODUCTS} products. Hint: write out the terms.")
