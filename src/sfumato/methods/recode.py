"""Replace categories, codes and dates by broader groups."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

import polars as pl
from pydantic import Field, model_validator

from sfumato.cells.notation import RANGE, SET, WILDCARD, format_value, is_generalised
from sfumato.data import Dataset
from sfumato.engines import Combinations, Engine
from sfumato.errors import MethodError
from sfumato.method import Fitted, RowWise
from sfumato.methods._recoding.grouping import (
    are_codes,
    format_values,
    group_in_periods,
    join_neighbours,
    mask_codes,
    redeclare,
    redeclare_groups,
    sort_integers,
)
from sfumato.methods.persons import count_units
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Column, Schema
from sfumato.schema.hierarchies import Hierarchy, join_rare
from sfumato.schema.periods import format_label, format_range, list_periods

_WAYS = ("level", "keep", "period", "groups", "fewest")


@parameters
class Recode(RowWise):
    """Replace each category, code or date by a broader group.

    Question: how fine must a category be?
    Assumes: groups are fixed in advance, except for `fewest`, which the frequencies decide. Fewer
    combinations stay unique, but this guarantees nothing: always set a target. Missing stays
    missing. The result is text.

    Parameters
    ----------
    variables : the variables to recode, all in the same way. Give one of the next five.
    level : level of the hierarchy that the schema declares: 1 for the narrowest groups.
    keep : how many characters of a code to keep; the others become `*`, so 93722 is `937**`.
    period : period for dates: "month", "quarter" or "year".
    groups : new groups and the values that each replaces: `{north = ["Norlund", "Estmere"]}`.
    fewest : fewest records in a group: values of fewer are joined, until each has as many, in
        `other`, or with a neighbour where values have an order, written `[a;b]`. Where rows belong
        to persons (role "person"), it is persons, each counted for their commonest value. A group
        of whole numbers reaches to the next group, and the outermost end on round numbers or with
        the domain.
    other : what joined values are called.
    output : how periods are written: "range" as `[2020-04-01;2020-06-30]`, which every measure
        reads as days; "label" as `2020-Q2`.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> data = sf.Dataset(pl.DataFrame({"zip": ["93722", "93701"]}), sf.Schema({"zip": "quasi"}))
    >>> Recode(variables=["zip"], keep=3).apply(data).frame["zip"].to_list()
    ['937**', '937**']

    References: Hundepool et al. (2012), Statistical Disclosure Control, section 3.2.3 (global
    recoding); Prasser & Kohlmayer (2015), Medical Data Privacy Handbook (ARX and hierarchies).
    """

    name = "recode"
    runs_on = ("local", "streaming", "spark")
    reports = ("information_loss",)
    odd = {"one row": (5,)}
    examples = (
        {"variables": ["ethnicity", "diagnosis"], "level": 1},
        {"variables": ["postcode"], "keep": 2},
        {"variables": ["birth_date"], "period": "quarter"},
        {"variables": ["birth_date"], "period": "year", "output": "label"},
        {"variables": ["marital_status"], "groups": {"pair": ["cohabiting", "married"]}},
        {"variables": ["ethnicity", "education", "children"], "fewest": 20},
    )
    variables: Annotated[list[str], Field(min_length=1)]
    level: Annotated[int, Field(ge=1)] | None = None
    keep: Annotated[int, Field(ge=1)] | None = None
    period: Literal["month", "quarter", "year"] | None = None
    groups: Annotated[dict[str, list[str]], Field(min_length=1)] | None = None
    fewest: Annotated[int, Field(ge=2)] | None = None
    other: str = "other"
    output: Literal["range", "label"] = "range"

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        if sum(getattr(self, way) is not None for way in _WAYS) != 1:
            msg = f"give one of {', '.join(_WAYS)}."
            raise ValueError(msg)
        merged = self.groups or {}
        members = [value for group in merged.values() for value in group]
        if len(members) != len(set(members)):
            msg = "a value stands in two groups."
            raise ValueError(msg)
        if any(new in set(members) - set(group) for new, group in merged.items()):
            msg = "a group has the name of a value that another group replaces."
            raise ValueError(msg)
        if any(not label or _reads_as_cell(label) for label in (self.other, *merged)):
            msg = "a group's name would be read as a range, a set, a masked code or anything."
            raise ValueError(msg)
        return self

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """For each variable what becomes of its values, where that depends on the data."""
        data.schema.require(self.variables)
        return {
            name: self._fit_variable(
                name,
                data.schema[name],
                engine.distinct(data, [name])
                if self.fewest is None
                else count_units(data, [name], engine),
            )
            for name in self.variables
        }

    def _fit_variable(self, name: str, column: Column, distinct: Combinations) -> dict[str, Any]:
        values = distinct.values[name]
        fit = {"text": values.dtype == pl.String, "date": values.dtype.is_temporal()}
        if self.period is not None:
            if values.dtype not in (pl.Date, pl.Datetime) and values.null_count() < len(values):
                raise _recode_error(name, "holds no dates, so it has no periods", "leave it out.")
            return fit
        texts = format_values(values)
        counts: dict[str, int] = {}
        for text, count in zip(texts.to_list(), distinct.counts.tolist(), strict=True):
            if text is not None:
                counts[text] = counts.get(text, 0) + count
        if self.level is not None:
            return fit | {"new": self._group_by_level(name, column, counts, self.level)}
        if self.groups is not None:
            self._require_free_names(name, counts)
            return fit
        if self.keep is not None and not are_codes(values):
            hint = "keep is for text and whole numbers from 0 on."
            raise _recode_error(name, "holds no codes to mask", hint)
        if column.generalised and any(RANGE.fullmatch(t) or SET.fullmatch(t) for t in counts):
            raise _recode_error(
                name, "has ranges or sets already", "recode first, then generalise."
            )
        return fit | ({"new": self._join_rare(name, column, counts)} if self.fewest else {})

    def _group_by_level(
        self, name: str, column: Column, counts: Mapping[str, int], level: int
    ) -> dict[str, str]:
        """The group of each value that occurs."""
        hierarchy = Hierarchy.of(column.hierarchy or {})
        if level > hierarchy.depth:
            raise _recode_error(
                name,
                f"has no level {level}: its hierarchy has {hierarchy.depth}",
                "declare it in the schema, such as hierarchy = 'region.csv'.",
            )
        groups = hierarchy.at(level)
        unknown = sum(count for text, count in counts.items() if text not in groups)
        if unknown:
            raise _recode_error(
                name,
                f"has {unknown} records with a value that its hierarchy does not know",
                "add all values to the hierarchy; codes are text, so 01067 is not 1067.",
            )
        # Only values that occur: the rest of the hierarchy stays in the schema.
        return {text: groups[text] for text in sorted(counts)}

    def _require_free_names(self, name: str, counts: Mapping[str, int]) -> None:
        replaced = {value for group in (self.groups or {}).values() for value in group}
        taken = sum(counts.get(new, 0) for new in self.groups or {} if new not in replaced)
        if taken:
            raise _recode_error(
                name,
                f"has {taken} records with a value that has the name of a new group",
                "list that value in the group, or name the group differently.",
            )

    def _join_rare(self, name: str, column: Column, counts: Mapping[str, int]) -> dict[str, str]:
        """What becomes of the values that are joined."""
        fewest = self.fewest or 0
        if 0 < sum(counts.values()) < fewest:
            raise _recode_error(
                name, "has fewer values in all than a group must have", "take a smaller `fewest`."
            )
        if column.kind in ("continuous", "date"):
            raise _recode_error(name, "has numbers or dates", 'use "coarsen" or a period for them.')
        if column.kind not in ("ordinal", "integer"):
            return join_rare(counts, fewest, self.other)
        order = [format_value(level) for level in column.levels or ()]
        if column.kind == "integer":
            order = _sort_whole(name, counts)
        if not set(counts) <= set(order):
            raise _recode_error(
                name,
                "has no declared order of all its values, so nobody knows their neighbours",
                "declare its levels, from low to high, as its domain.",
            )
        occurring = [value for value in order if value in counts]
        is_integer = column.kind == "integer"
        bounds = column.bounds if is_integer else None
        return join_neighbours(occurring, counts, fewest, name, whole=is_integer, bounds=bounds)

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Broader groups for a batch of records."""
        del draws
        return pl.DataFrame(
            [self._recode_values(batch[name], fitted[name]) for name in self.variables]
        )

    def _recode_values(self, values: pl.Series, fit: Mapping[str, Any]) -> pl.Series:
        if self.period is not None:
            return group_in_periods(values, self.period, self.output)
        texts = format_values(values)
        if self.keep is not None:
            return mask_codes(texts, self.keep)
        new = fit.get("new", self._group_of_value)
        return texts.replace(list(new), list(new.values())) if new else texts

    @property
    def _group_of_value(self) -> dict[str, str]:
        return {old: new for new, group in (self.groups or {}).items() for old in group}

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """What the variables are now; the hierarchy stays wherever the new groups fit into it."""
        changed = schema
        for name in self.variables:
            column = self._redeclare(schema[name], fitted[name])
            # Codes for missing survive only where the type does.
            codes = column.missing if fitted[name]["text"] else ()
            changed = changed.with_columns({name: column}).changed([name], missing=codes)
        return changed

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Every parameter; of the groups their names and sizes, since no cell shows the values."""
        described = super().public(fitted)
        if self.groups is not None:
            sizes = {new: len(group) for new, group in self.groups.items()}
            described["groups"] = {
                new: f"{size} value{'s' if size != 1 else ''}" for new, size in sizes.items()
            }
        return described

    def _redeclare(self, column: Column, fit: Mapping[str, Any]) -> Column:
        known = Hierarchy.of(column.hierarchy or {})
        if self.level is not None:
            return redeclare_groups(column, known.at(self.level), known)
        if self.keep is not None:
            size = self.keep
            masked = known.with_level(lambda code: code[:size] + "*" * len(code[size:]))
            return redeclare(column, None, masked)
        if self.period is not None:
            return self._redeclare_periods(column, self.period, known)
        if self.groups is not None:
            new = self._group_of_value
            hierarchy = known.with_level(lambda value: new.get(value, value))
            return redeclare_groups(column, new, hierarchy)
        numbers = sort_integers(fit["new"]) if column.kind == "integer" else None
        return redeclare_groups(column, fit["new"], None, values=numbers)

    def _redeclare_periods(
        self, column: Column, period: Literal["month", "quarter", "year"], known: Hierarchy
    ) -> Column:
        name_period = format_label if self.output == "label" else format_range
        try:
            hierarchy = known.with_level(
                lambda day: name_period(dt.date.fromisoformat(day), period)
            )
        except ValueError:
            hierarchy = None  # a hierarchy of something else than days
        levels: Iterable[str] | None = None
        if column.kind == "date" and column.bounds is not None:
            low, high = (
                end.date() if isinstance(end, dt.datetime) else end for end in column.bounds
            )
            levels = list_periods(low, high, lambda day: name_period(day, period))
        return redeclare(column, levels, hierarchy, kind="ordinal")


def _reads_as_cell(text: str) -> bool:
    return text == WILDCARD or is_generalised(text)


def _sort_whole(name: str, counts: Mapping[str, int]) -> list[str]:
    order = sort_integers(counts)
    if order is None:
        raise _recode_error(
            name,
            "is declared integer, and not all its values are whole numbers",
            "declare what it is, or correct the values.",
        )
    return order


def _recode_error(name: str, what: str, hint: str) -> MethodError:
    return MethodError(f"Variable '{name}' {what}.", hint=hint)
