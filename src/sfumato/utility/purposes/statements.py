"""What somebody wants to do with the data, read from a line of text.

wage ~ education + age          a model; logistic if the outcome has two values
poisson: visits ~ age + sex     a model of that kind
survival(time, died) ~ age      a proportional hazards model
survival(time, died) by arm     survival curves, for each group
mean wage by sex                the mean, for each group
sex * region                    a table: the share of each combination
correlation(height, weight)     how two numbers go together
wage                            the mean of a number, or the share of each category
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from sfumato.errors import PlanError
from sfumato.utility.models.formula import Formula, read_formula

Kind = Literal["model", "hazards", "survival", "means", "table", "correlation", "margin"]
ModelFamily = Literal["linear", "logistic", "poisson"]
_NAME = r"(?:`[^`]+`|[^\W\d][\w.]*)"
_SURVIVAL = re.compile(rf"^survival\(\s*({_NAME})\s*,\s*({_NAME})\s*\)\s*(?:(~|by)\s*(.+))?$")
_MEANS = re.compile(rf"^(?:mean\s+|mean\()?\s*({_NAME})\s*\)?\s+by\s+({_NAME})$")
_CORRELATION = re.compile(rf"^correlation\(\s*({_NAME})\s*,\s*({_NAME})\s*\)$")
_TABLE = re.compile(rf"^({_NAME})\s*\*\s*({_NAME})$")
_MARGIN = re.compile(rf"^(?:mean\s+)?({_NAME})$")
_FAMILY = re.compile(r"^(linear|logistic|poisson)\s*:\s*(.+)$")
_EXAMPLES = (
    'for instance "wage ~ education + age", "mean wage by sex", "sex * region", '
    '"survival(time, died) by arm" or "correlation(height, weight)".'
)


@dataclass(frozen=True)
class PurposeStatement:
    """One line of a purpose.

    Parameters
    ----------
    text : as it was written.
    kind : what it asks for.
    variables : those that it names.
    family : of a model; None: by the values of the outcome.
    formula : of a model: outcome and terms; of hazards: the terms.
    by : the variable whose groups are compared, where there is one.

    Examples
    --------
    >>> read_statement("mean wage by sex").kind, read_statement("wage ~ log(age)").variables
    ('means', ('wage', 'age'))
    """

    text: str
    kind: Kind
    variables: tuple[str, ...]
    family: ModelFamily | None = None
    formula: str = ""
    by: str = ""


def read_statement(text: str) -> PurposeStatement:
    """Read a line of a purpose; an error says what one looks like."""
    line = " ".join(text.split())
    if found := _SURVIVAL.match(line):
        return _read_survival(line, *found.groups())
    if "~" in line:
        return _read_model(line)
    for pattern, kind in ((_MEANS, "means"), (_CORRELATION, "correlation"), (_TABLE, "table"),
                          (_MARGIN, "margin")):  # fmt: skip
        if found := pattern.match(line):
            names = tuple(name.strip("`") for name in found.groups())
            by = names[1] if kind == "means" else ""
            return PurposeStatement(line, kind, names, by=by)  # type: ignore[arg-type]
    raise PlanError(f"The purpose '{line}' cannot be read.", hint=_EXAMPLES)


def _read_survival(
    line: str, time: str, event: str, sign: str | None, rest: str | None
) -> PurposeStatement:
    names = (time.strip("`"), event.strip("`"))
    if sign == "~" and rest:
        terms = _require_formula(line, f"{time} ~ {rest}").variables
        others = tuple(name for name in terms if name not in names)
        return PurposeStatement(line, "hazards", (*names, *others), formula=f"{time} ~ {rest}")
    if rest and not re.fullmatch(_NAME, rest):
        raise PlanError(f"The purpose '{line}' names no single variable after by.", hint=_EXAMPLES)
    by = rest.strip("`") if rest else ""
    return PurposeStatement(line, "survival", (*names, by) if by else names, by=by)


def _read_model(line: str) -> PurposeStatement:
    family, formula = None, line
    if found := _FAMILY.match(line):
        family, formula = found.groups()
    variables = _require_formula(line, formula).variables
    return PurposeStatement(line, "model", variables, family=family, formula=formula)  # type: ignore[arg-type]


def _require_formula(line: str, formula: str) -> Formula:
    if not formula.partition("~")[2].strip():
        raise PlanError(f"The purpose '{line}' names no variable after ~.", hint=_EXAMPLES)
    try:
        return read_formula(formula)
    except ValueError as error:
        raise PlanError(f"The purpose '{line}' {error}", hint=_EXAMPLES) from None
