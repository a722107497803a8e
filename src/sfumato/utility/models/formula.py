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


class FormulaToken(NamedTuple):
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

    tokens: tuple[FormulaToken, ...]
    variables: tuple[str, ...]
    categories: frozenset[str]
    outcome: str | None

    def write_with_aliases(self) -> str:
        """The formula with the variables called v0, v1, … in their order."""
        alias = {name: f"v{index}" for index, name in enumerate(self.variables)}
        written = {"^": "**"}
        parts = [
            alias[text] if kind == "name" else written.get(text, text) for kind, text in self.tokens
        ]
        # A function stands right before its bracket, or it would be taken for a variable.
        ends = ["" if kind == "function" else " " for kind, _ in self.tokens]
        return "".join(map("".join, zip(parts, ends, strict=True))).strip()

    def name_column(self, column: str, labels: Mapping[str, Sequence[str]] | None = None) -> str:
        """A column of the aliased formula by the names of the variables and of their levels.

        Without labels the level is left out: it is somebody's value, and does not belong in an
        error.
        """

        def name(match: re.Match[str]) -> str:
            variable = self.variables[int(match[2] or match[3] or match[6])]
            if match[6]:
                return variable
            head = f"C({variable})" if match[2] else variable
            if labels is None:
                return head
            return f"{head}[{match['reduced'] or ''}{labels[variable][int(match['level'])]}]"

        return _COLUMN.sub(name, column)


def read_formula(text: str) -> Formula:
    """Read a formula; a ValueError says what in it is not allowed.

    Examples
    --------
    >>> read_formula("y ~ C(ward) + log(`length of stay`)").variables
    ('y', 'ward', 'length of stay')
    """
    tokens = _split_tokens(text)
    _check_shape(tokens)
    _check_calls(tokens)
    _check_powers(tokens)
    names = [token.text for token in tokens if token.kind == "name"]
    if not names:
        raise ValueError("names no variable.")
    categories = {
        tokens[index + 2].text
        for index, token in enumerate(tokens)
        if token == FormulaToken("function", "C")
    }
    outcome_tokens = tokens[: tokens.index(FormulaToken("operator", "~"))]
    if not outcome_tokens:
        raise ValueError("names no outcome before ~.")
    outcome = (
        outcome_tokens[0].text
        if len(outcome_tokens) == 1 and outcome_tokens[0].kind == "name"
        else None
    )
    return Formula(tokens, tuple(dict.fromkeys(names)), frozenset(categories), outcome)


def _split_tokens(text: str) -> tuple[FormulaToken, ...]:
    if len(text) > _LONGEST:
        raise ValueError(f"must have at most {_LONGEST} characters.")
    tokens: list[FormulaToken] = []
    start = 0
    while text[start:].strip():
        part = _TOKEN.match(text, start)
        if part is None:
            raise ValueError(
                f"cannot be read at {text[start:].strip()[:20]!r}. Hint: it may hold names (in "
                "backticks if they have spaces), numbers, + - * / : ^ ( ) ~ and the functions "
                f"{', '.join(FUNCTIONS)}."
            )
        kind = str(part.lastgroup)
        tokens.append(FormulaToken("name" if kind == "quoted" else kind, part[kind]))
        start = part.end()
        if kind == "name" and text[start:].lstrip().startswith("("):
            tokens[-1] = FormulaToken("function", part[kind])
    return tuple(tokens)


def _check_shape(tokens: Sequence[FormulaToken]) -> None:
    for token, after in pairwise(tokens):
        ends = token.kind in ("name", "number") or token.text == ")"
        begins = after.kind != "operator" or after.text == "("
        if ends and begins:
            raise ValueError(f"has nothing between '{token.text}' and '{after.text}'.")
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


def _check_calls(tokens: Sequence[FormulaToken]) -> None:
    """Only functions known here; C of one variable, poly of one variable and a number."""
    commas = sum(token.text == "," for token in tokens)
    for index, (kind, text) in enumerate(tokens):
        if kind != "function":
            continue
        if text not in FUNCTIONS:
            raise ValueError(f"calls '{text}'. Hint: {did_you_mean(text, FUNCTIONS)}")
        shape = [token.text if token.kind == "operator" else token.kind for token in tokens[index:]]
        if text == "C" and shape[1:4] != ["(", "name", ")"]:
            raise ValueError("needs one variable inside C( ).")
        if text == "poly":
            commas -= 1
            if shape[1:6] != ["(", "name", ",", "number", ")"]:
                raise ValueError("needs poly(variable, degree).")
    if commas:
        raise ValueError("has a comma outside poly(variable, degree).")


def _check_powers(tokens: Sequence[FormulaToken]) -> None:
    """Powers and products that would never end, or make more terms than anybody can read."""
    in_function: list[bool] = []
    products = 0
    for index, (kind, text) in enumerate(tokens):
        if text == "(" and kind == "operator":
            in_function.append(any(in_function) or tokens[index - 1].kind == "function")
        elif text == ")" and kind == "operator":
            in_function.pop()
        elif text in ("**", "^"):
            highest = _HIGHEST["function" if any(in_function) else "terms"]
            power = tokens[index + 1].text if index + 1 < len(tokens) else ""
            chained = tokens[index - 1].kind == "number" or tokens[index + 2 : index + 3] in (
                (FormulaToken("operator", "**"),),
                (FormulaToken("operator", "^"),),
            )
            if not power.isdigit() or int(power) > highest or chained:
                raise ValueError(f"has a power that is no whole number from 0 to {highest}.")
        if text in ("*", "/", "**", "^") and not any(in_function):
            products += 1
    if products > _MOST_PRODUCTS:
        raise ValueError(f"has more than {_MOST_PRODUCTS} products. Hint: write out the terms.")
