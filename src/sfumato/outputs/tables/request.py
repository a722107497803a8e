"""What the caller wants a table to show, checked before anything is counted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from sfumato.errors import PlanError, did_you_mean
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.rules import Rules

_STATISTICS = ("count", "sum", "mean", "std", "median")
_EXTREMES = ("min", "max", "minimum", "maximum", "range", "first", "last", "mode", "nunique")
_PERCENTILE = re.compile(r"q(\d{1,2}(?:\.\d+)?)")
_ADDITIVE = ("count", "sum")
_PROTECTIONS = ("suppress", "round")


@dataclass(frozen=True, kw_only=True)
class TableRequest:
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
    def check(cls, **options: Any) -> TableRequest:
        """Check everything that can be checked without the data."""
        rules = options["rules"] or Rules()
        if not isinstance(rules, Rules):
            raise PlanError("'rules' must be Rules.", hint="sf.outputs.Rules.load('rules.toml').")
        rows, columns = (_parse_names(options[side]) for side in ("rows", "columns"))
        values, aggregate = options["values"], options.pop("aggregate")
        if aggregate is None and values is not None:
            raise PlanError(
                "Say what to make of the values.", hint="aggregate='mean', for instance."
            )
        statistics = parse_statistics("count" if aggregate is None else aggregate)
        request = cls(
            **options
            | {
                "rules": rules,
                "rows": rows,
                "columns": columns,
                "statistics": statistics,
                "normalize": _parse_normalize(options["normalize"]),
                "k": _parse_threshold(options["k"], rules),
                "title": options["title"] or _make_title((*rows, *columns), statistics, values),
            }
        )
        request._check_together()
        return request

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that span the cells."""
        return (*self.rows, *self.columns)

    def describe_rule(self) -> dict[str, Any]:
        """The protection as the log records it."""
        rule: dict[str, Any] = {"protection": self.protection, "k": self.k}
        if self.protection == "round":
            rule["base"] = self.base
        elif self.rules.round_to:
            rule |= {"round_to": self.rules.round_to, "rounding": self.rules.rounding}
        if self.statistics != ("count",):
            rule |= {name: self.rules.plain()[name] for name in ("dominance", "p_percent")}
        return rule | {"statistics": list(self.statistics)}

    def _check_together(self) -> None:
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
        if self.normalize and any(name not in _ADDITIVE for name in self.statistics):
            raise PlanError("Only counts and sums have shares.", hint="leave out normalize.")
        if self.weights and any(name.startswith("q") for name in self.statistics):
            raise PlanError("Quantiles are taken without weights.", hint="leave out weights.")


def parse_statistics(aggregate: str | Sequence[str]) -> tuple[str, ...]:
    """The requested statistics, "median" as "q50"; extremes are refused."""
    statistics = []
    for name in (aggregate,) if isinstance(aggregate, str) else tuple(aggregate):
        if name in _EXTREMES:
            raise OutputRefused(
                f"A '{name}' may not leave: it can be the value of one person.",
                hint="use quantiles that rest on several values: 'q5', 'median', 'q95'.",
            )
        if name not in _STATISTICS and not _PERCENTILE.fullmatch(str(name)):
            hint = did_you_mean(str(name), (*_STATISTICS, "q25"))
            raise PlanError(f"There is no aggregate '{name}'.", hint=hint)
        statistics.append("q50" if name == "median" else str(name))
    if not statistics or len(set(statistics)) < len(statistics):
        raise PlanError("Name at least one aggregate, and none of them twice.")
    return tuple(statistics)


def _parse_names(names: Any) -> tuple[str, ...]:
    if names is None:
        return ()
    names = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) for name in names):
        raise PlanError(
            "Rows and columns are names of variables.",
            hint="pass the data first: crosstab(data, 'sex', 'region').",
        )
    return tuple(names)


def _parse_normalize(normalize: Any) -> str:
    if normalize in (False, None):
        return ""
    if normalize is True:
        return "all"
    if normalize not in ("all", "index", "columns"):
        raise PlanError('\'normalize\' is "all", "index" or "columns".')
    return str(normalize)


def _parse_threshold(k: Any, rules: Rules) -> int:
    if k is None:
        return rules.k
    if not isinstance(k, Integral) or isinstance(k, bool) or int(k) < rules.k:
        raise PlanError(f"k must be a whole number, {rules.k} or more by the rules of the house.")
    return int(k)


def _make_title(by: tuple[str, ...], statistics: tuple[str, ...], values: str | None) -> str:
    shown = ", ".join("median" if name == "q50" else name for name in statistics)
    of = f" of {values}" if values else ""
    return f"{shown[:1].upper()}{shown[1:]}{of} by {', '.join(by)}"
