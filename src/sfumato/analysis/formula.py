"""The formula of a model of noised data: fixed terms, and what differs from group to group."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sfumato.errors import MeasureError
from sfumato.utility.models.formula import Formula, Token, read_formula

_QUOTED = re.compile(r"`[^`]*`")
_NAME = re.compile(r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\W\d]\w*))\s*$")
_EXAMPLE = "write it as in 'y ~ x + (1 | school)' or 'y ~ x + (1 + x | school)'."


@dataclass(frozen=True)
class ModelFormula:
    """A formula that was read.

    Parameters
    ----------
    text : as it was written.
    fixed : outcome and fixed terms.
    random : the terms whose coefficients differ by group, with the outcome before them; None in a
        model of one level.
    group : the variable of the groups.
    """

    text: str
    fixed: Formula
    random: Formula | None = None
    group: str | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables, that of the groups last."""
        inside = self.fixed.variables + (self.random.variables if self.random else ())
        return tuple(dict.fromkeys([*inside, *([self.group] if self.group else [])]))


def read_model(text: str) -> ModelFormula:
    """Read a formula with or without a random part; an error says what in it is not allowed.

    Examples
    --------
    >>> read = read_model("exam ~ reading + (1 + reading | school)")
    >>> read.group, read.fixed.variables, read.random.variables
    ('school', ('exam', 'reading'), ('exam', 'reading'))
    """
    parts = _random_parts(text)
    if not parts:
        return ModelFormula(text, _read(text))
    if len(parts) > 1:
        raise MeasureError(
            "The formula has more than one part with groups.",
            hint="one is fitted here: put all that differs by group into one pair of brackets.",
        )
    start, bar, end = parts[0]
    inside, name = text[start + 1 : bar], _NAME.match(text[bar + 1 : end])
    if name is None or not inside.strip():
        raise MeasureError("The part with groups cannot be read.", hint=_EXAMPLE)
    fixed = _read(_without(text, start, end))
    left = text[: _plain(text).index("~")]
    return ModelFormula(text, fixed, _read(f"{left} ~ {inside}"), name["quoted"] or name["name"])


def _read(text: str) -> Formula:
    try:
        found = read_formula(text)
    except ValueError as error:
        raise MeasureError(f"The formula {error}") from None
    _require_two_sides(found)
    return found


def _require_two_sides(found: Formula) -> None:
    """Refuse a formula that lacks an outcome or terms, or has the outcome on both sides."""
    at = found.tokens.index(Token("operator", "~"))
    left, right = found.tokens[:at], found.tokens[at + 1 :]
    if not right:
        raise MeasureError("The formula names no term after ~.", hint="as in 'y ~ x', or 'y ~ 1'.")
    if right[-1].kind == "operator" and right[-1].text != ")":
        raise MeasureError(
            f"The formula ends with '{right[-1].text}'.",
            hint="name a term after it, as in 'y ~ x'.",
        )
    outcome = {token.text for token in left if token.kind == "name"}
    if not outcome:
        raise MeasureError("The formula names no outcome before ~.", hint="as in 'y ~ x'.")
    if both := [token.text for token in right if token.kind == "name" and token.text in outcome]:
        raise MeasureError(
            f"Variable '{both[0]}' is the outcome, and also stands among the terms.",
            hint="leave it out after ~.",
        )


def _plain(text: str) -> str:
    """A formula of the same length without what stands in backticks: a name, whatever it holds."""
    return _QUOTED.sub(lambda found: "`" * len(found[0]), text)


def _random_parts(text: str) -> list[tuple[int, int, int]]:
    """Where each bracket with a bar begins, where its bar is, and where it ends."""
    plain = _plain(text)
    found: list[tuple[int, int, int]] = []
    for one in re.finditer(r"\|", plain):
        bar = one.start()
        start, end = plain.rfind("(", 0, bar), plain.find(")", bar)
        whole = start >= 0 and end >= 0 and _matches(plain[start + 1 : end])
        if not whole or "~" in plain[start:end] or plain.find("~") > start:
            raise MeasureError("The formula has a | outside a part with groups.", hint=_EXAMPLE)
        if not plain[:start].rstrip().endswith(("+", "~")):
            raise MeasureError("A part with groups is added to the others with a +.", hint=_EXAMPLE)
        found.append((start, bar, end))
    return found


def _matches(inside: str) -> bool:
    return inside.count("|") == 1 and not set("()") & set(inside)


def _without(text: str, start: int, end: int) -> str:
    """The formula without a part of it, and without the plus that joined it."""
    before, after = text[:start].rstrip(), text[end + 1 :].lstrip()
    if before.endswith("+"):
        before = before[:-1].rstrip()
        return f"{before} {after or '1'}" if before.endswith("~") else f"{before} {after}"
    if after and not after.startswith("+"):
        raise MeasureError("A part with groups is added to the others with a +.", hint=_EXAMPLE)
    return f"{before} {after[1:].strip() or '1'}"
