"""Replace categories, codes and dates by broader groups."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

import polars as pl
from pydantic import Field, model_validator

from sfumato.cells.notation import MASK, RANGE, SET, WILDCARD, written
from sfumato.data import Dataset
from sfumato.engines import Combinations, Engine
from sfumato.errors import MethodError
from sfumato.method import Fitted, RowWise
from sfumato.methods._recoding.rare import joined_neighbours, joined_rare, rising
from sfumato.methods._recoding.schema import grouped, regrouped
from sfumato.methods._recoding.texts import are_codes, in_periods, masked, texts_of
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Column, Schema
from sfumato.schema.hierarchies import Hierarchy
from sfumato.schema.periods import label_of, periods, range_of

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
    level : which level of the hierarchy that the schema declares, 1 for the narrowest groups.
    keep : how many characters of a code to keep; the others become `*`, so 93722 is `937**`.
    period : "month", "quarter" or "year", for dates.
    groups : new groups and the values that each replaces, `{north = ["Norlund", "Estmere"]}`.
    fewest : values of fewer records than this are joined, until each has as many: in `other`, or
        with a neighbour where values have an order, written `[a;b]`.
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
    reports = ("information_loss",)
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
    def _one_way(self) -> Self:
        if sum(getattr(self, way) is not None for way in _WAYS) != 1:
            msg = f"give one of {', '.join(_WAYS)}."
            raise ValueError(msg)
        merged = self.groups or {}
        members = [one for held in merged.values() for one in held]
        if len(members) != len(set(members)):
            msg = "a value stands in two groups."
            raise ValueError(msg)
        if any(new in set(members) - set(held) for new, held in merged.items()):
            msg = "a group has the name of a value that another group replaces."
            raise ValueError(msg)
        if any(not label or _generalised(label) for label in (self.other, *merged)):
            msg = "a group's name would be read as a range, a set, a masked code or anything."
            raise ValueError(msg)
        return self

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The variables to recode."""
        del schema
        return tuple(self.variables)

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """For each variable what becomes of its values, where that depends on the data."""
        data.schema.require(self.variables)
        return {
            name: self._fitted(name, data.schema[name], engine.distinct(data, [name]))
            for name in self.variables
        }

    def _fitted(self, name: str, column: Column, found: Combinations) -> dict[str, Any]:
        values = found.values[name]
        told = {"text": values.dtype == pl.String, "date": values.dtype.is_temporal()}
        if self.period is not None:
            if values.dtype not in (pl.Date, pl.Datetime) and values.null_count() < len(values):
                raise _refused(name, "holds no dates, so it has no periods", "leave it out.")
            return told
        texts = texts_of(values)
        counts: dict[str, int] = {}
        for text, count in zip(texts.to_list(), found.counts.tolist(), strict=True):
            if text is not None:
                counts[text] = counts.get(text, 0) + count
        if self.level is not None:
            return told | {"new": self._at_level(name, column, counts, self.level)}
        if self.groups is not None:
            self._require_apart(name, counts)
            return told
        if self.keep is not None and not are_codes(values):
            hint = "keep is for text and whole numbers from 0 on."
            raise _refused(name, "holds no codes to mask", hint)
        if any(RANGE.fullmatch(text) or SET.fullmatch(text) for text in counts):
            raise _refused(name, "has ranges or sets already", "recode first, then generalise.")
        return told | ({"new": self._rare(name, column, counts)} if self.fewest else {})

    def _at_level(
        self, name: str, column: Column, counts: Mapping[str, int], level: int
    ) -> dict[str, str]:
        """The group of each value that occurs."""
        told = Hierarchy.of(column.hierarchy or {})
        if level > told.depth:
            raise _refused(
                name,
                f"has no level {level}: its hierarchy has {told.depth}",
                "declare it in the schema, such as hierarchy = 'region.csv'.",
            )
        groups = told.at(level)
        unknown = sum(count for text, count in counts.items() if text not in groups)
        if unknown:
            raise _refused(
                name,
                f"has {unknown} records with a value that its hierarchy does not know",
                "add all values to the hierarchy; codes are text, so 01067 is not 1067.",
            )
        return {text: groups[text] for text in sorted(counts)}

    def _require_apart(self, name: str, counts: Mapping[str, int]) -> None:
        replaced = {one for held in (self.groups or {}).values() for one in held}
        taken = sum(counts.get(new, 0) for new in self.groups or {} if new not in replaced)
        if taken:
            raise _refused(
                name,
                f"has {taken} records with a value that has the name of a new group",
                "list that value in the group, or name the group differently.",
            )

    def _rare(self, name: str, column: Column, counts: Mapping[str, int]) -> dict[str, str]:
        """What becomes of the values that are joined."""
        fewest = self.fewest or 0
        if 0 < sum(counts.values()) < fewest:
            raise _refused(
                name, "has fewer values in all than a group must have", "take a smaller `fewest`."
            )
        if column.kind in ("continuous", "date"):
            raise _refused(name, "has numbers or dates", 'use "coarsen" or a period for them.')
        if column.kind not in ("ordinal", "integer"):
            return joined_rare(counts, fewest, self.other)
        order = [written(level) for level in column.levels or ()]
        if column.kind == "integer":
            order = _whole(name, counts)
        if not set(counts) <= set(order):
            raise _refused(
                name,
                "has no declared order of all its values, so nobody knows their neighbours",
                "declare its levels, from low to high, as its domain.",
            )
        return joined_neighbours([one for one in order if one in counts], counts, fewest, name)

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Broader groups for a batch of records."""
        del draws
        return pl.DataFrame([self._recoded(batch[name], fitted[name]) for name in self.variables])

    def _recoded(self, values: pl.Series, told: Mapping[str, Any]) -> pl.Series:
        if self.period is not None:
            return in_periods(values, self.period, self.output)
        texts = texts_of(values)
        if self.keep is not None:
            return masked(texts, self.keep)
        new = told.get("new", self._merging)
        return texts.replace(list(new), list(new.values())) if new else texts

    @property
    def _merging(self) -> dict[str, str]:
        return {old: new for new, held in (self.groups or {}).items() for old in held}

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """What the variables are now; the hierarchy stays wherever the new groups fit into it."""
        changed = schema
        for name in self.variables:
            column = self._column(schema[name], fitted[name])
            # Codes for missing survive only where the type does.
            kept = column.missing if fitted[name]["text"] else ()
            changed = changed.with_columns({name: column}).changed([name], missing=kept)
        return changed

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Every parameter; of the groups their names and sizes, since no cell shows the values."""
        told = super().public(fitted)
        if self.groups is not None:
            sizes = {new: len(held) for new, held in self.groups.items()}
            told["groups"] = {
                new: f"{size} value{'s' if size != 1 else ''}" for new, size in sizes.items()
            }
        return told

    def _column(self, column: Column, told: Mapping[str, Any]) -> Column:
        known = Hierarchy.of(column.hierarchy or {})
        if self.level is not None:
            return grouped(column, known.at(self.level), known)
        if self.keep is not None:
            size = self.keep
            return regrouped(
                column, None, known.with_level(lambda one: one[:size] + "*" * len(one[size:]))
            )
        if self.period is not None:
            return self._column_of_periods(column, self.period, known)
        if self.groups is not None:
            new = self._merging
            return grouped(column, new, known.with_level(lambda one: new.get(one, one)))
        numbers = rising(told["new"]) if column.kind == "integer" else None
        return grouped(column, told["new"], None, values=numbers)

    def _column_of_periods(
        self, column: Column, period: Literal["month", "quarter", "year"], known: Hierarchy
    ) -> Column:
        said = label_of if self.output == "label" else range_of
        try:
            kept = known.with_level(lambda day: said(dt.date.fromisoformat(day), period))
        except ValueError:
            kept = None  # a hierarchy of something else than days
        levels: Iterable[str] | None = None
        if column.kind == "date" and column.bounds is not None:
            low, high = (
                one.date() if isinstance(one, dt.datetime) else one for one in column.bounds
            )
            levels = periods(low, high, lambda day: said(day, period))
        return regrouped(column, levels, kept, kind="ordinal")


def _generalised(text: str) -> bool:
    found = (one.fullmatch(text) for one in (RANGE, SET, MASK))
    return text == WILDCARD or any(found)


def _whole(name: str, counts: Mapping[str, int]) -> list[str]:
    order = rising(counts)
    if order is None:
        raise _refused(
            name,
            "is declared integer, and not all its values are whole numbers",
            "declare what it is, or correct the values.",
        )
    return order


def _refused(name: str, what: str, hint: str) -> MethodError:
    return MethodError(f"Variable '{name}' {what}.", hint=hint)
