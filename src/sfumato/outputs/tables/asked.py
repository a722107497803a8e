"""What a table was asked to show, checked before anything is counted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from sfumato.errors import PlanError, did_you_mean
from sfumato.outputs.judged import OutputRefused
from sfumato.outputs.rules import Rules

_NAMED = ("count", "sum", "mean", "std", "median")
_EXTREMES = ("min", "max", "minimum", "maximum", "range", "first", "last", "mode", "nunique")
_PERCENTILE = re.compile(r"q(\d{1,2}(?:\.\d+)?)")
_ADDITIVE = ("count", "sum")
_PROTECTIONS = ("suppress", "round")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The parameters of a table; see `crosstab`."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: str | None
    statistics: tuple[str, ...]
    weights: str | None
    margins: bool
    subtotals: bool
    normalize: str
    protection: str
    k: int
    base: int
    title: str
    rules: Rules

    @classmethod
    def of(cls, **told: Any) -> Asked:
        """Check everything that can be checked without the data."""
        rules = told["rules"] or Rules()
        if not isinstance(rules, Rules):
            raise PlanError("'rules' must be Rules.", hint="sf.outputs.Rules.load('rules.toml').")
        rows, columns = (_names(told[one]) for one in ("rows", "columns"))
        aggregate = told.pop("aggregate")
        if aggregate is None and told["values"] is not None:
            raise PlanError(
                "Say what to make of the values.", hint="aggregate='mean', for instance."
            )
        statistics = statistics_of("count" if aggregate is None else aggregate)
        asked = cls(
            **told
            | {
                "rules": rules,
                "rows": rows,
                "columns": columns,
                "statistics": statistics,
                "normalize": _normalize(told["normalize"]),
                "k": _threshold(told["k"], rules),
                "title": told["title"] or _title(rows, columns, statistics, told["values"]),
            }
        )
        asked._fit_together()
        return asked

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that make the cells."""
        return (*self.rows, *self.columns)

    def rule(self) -> dict[str, Any]:
        """What the log says of the protection."""
        told: dict[str, Any] = {"protection": self.protection, "k": self.k}
        if self.protection == "round":
            told["base"] = self.base
        if self.statistics != ("count",):
            told |= {name: self.rules.plain()[name] for name in ("dominance", "p_percent")}
        return told | {"statistics": list(self.statistics)}

    def _fit_together(self) -> None:
        counting = self.statistics == ("count",)
        if not counting and self.values is None:
            raise PlanError(
                f"To show a {self.statistics[-1]}, say of which variable.",
                hint="pass values='income', for instance.",
            )
        if self.protection not in _PROTECTIONS:
            raise PlanError(
                f"There is no protection '{self.protection}' for tables.",
                hint=did_you_mean(str(self.protection), _PROTECTIONS),
            )
        if self.protection == "round" and (not counting or self.weights or self.values):
            raise PlanError("Only plain counts can be rounded.", hint="use protection='suppress'.")
        if self.protection == "round" and (
            not isinstance(self.base, Integral) or int(self.base) < self.k
        ):
            raise PlanError(f"The base must be a whole number and at least k, which is {self.k}.")
        if self.normalize and any(one not in _ADDITIVE for one in self.statistics):
            raise PlanError("Only counts and sums have shares.", hint="leave out normalize.")
        if self.weights and any(one.startswith("q") for one in self.statistics):
            raise PlanError("Quantiles are taken without weights.", hint="leave out weights.")


def statistics_of(aggregate: str | Sequence[str]) -> tuple[str, ...]:
    """The statistics that were asked for; extremes are refused."""
    found = []
    for one in (aggregate,) if isinstance(aggregate, str) else tuple(aggregate):
        if one in _EXTREMES:
            raise OutputRefused(
                f"A '{one}' may not leave: it can be the value of one person.",
                hint="use quantiles that rest on several values: 'q5', 'median', 'q95'.",
            )
        if one not in _NAMED and not _PERCENTILE.fullmatch(str(one)):
            hint = did_you_mean(str(one), (*_NAMED, "q25"))
            raise PlanError(f"There is no aggregate '{one}'.", hint=hint)
        found.append("q50" if one == "median" else str(one))
    if not found or len(set(found)) < len(found):
        raise PlanError("Name at least one aggregate, and none of them twice.")
    return tuple(found)


def _names(told: Any) -> tuple[str, ...]:
    if told is None:
        return ()
    listed = (told,) if isinstance(told, str) else tuple(told)
    if not all(isinstance(one, str) for one in listed):
        raise PlanError(
            "Rows and columns are names of variables.",
            hint="pass the data first: crosstab(data, 'sex', 'region').",
        )
    return listed


def _normalize(told: Any) -> str:
    if told in (False, None):
        return ""
    if told is True:
        return "all"
    if told not in ("all", "index", "columns"):
        raise PlanError('\'normalize\' is "all", "index" or "columns".')
    return str(told)


def _threshold(k: Any, rules: Rules) -> int:
    if k is None:
        return rules.k
    if not isinstance(k, Integral) or isinstance(k, bool) or int(k) < rules.k:
        raise PlanError(f"k must be a whole number, {rules.k} or more by the rules of the house.")
    return int(k)


def _title(
    rows: tuple[str, ...], columns: tuple[str, ...], statistics: tuple[str, ...], of: str | None
) -> str:
    what = ", ".join("median" if one == "q50" else one for one in statistics)
    return (
        f"{what[:1].upper()}{what[1:]}{f' of {of}' if of else ''} by {', '.join((*rows, *columns))}"
    )
