"""A first plan for data that nobody has looked at yet. A start, not an answer."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from typing import Any

import polars as pl

from sfumato.cells.notation import reads_as_notation
from sfumato.data import Dataset
from sfumato.data.identity import find_identifiers
from sfumato.engines import engine_for
from sfumato.errors import SfumatoError
from sfumato.method import Method
from sfumato.methods.deterministic import Deterministic
from sfumato.methods.drop import Drop
from sfumato.methods.k_anonymity import KAnonymity
from sfumato.methods.recode import Recode
from sfumato.plan import Plan
from sfumato.schema import Column, Schema
from sfumato.schema.spelling import choose_representatives, normalise_spellings
from sfumato.utility.displacement import Displacement

_MOST_LEVELS = 12
_PARTS = 5
_RECORDS_PER_VALUE = 50
"""A number that takes fewer different values than records over this is a count, not measured."""
_MOST_SPELLINGS = 200
"""With more different texts, a plan that lists spellings would not be read."""
_CLASS_SIZE = 5
"""The smallest class of a first plan."""
_NEIGHBOURS = 3
_UNMOVED_SHARE = 0.2
"""The share of records that may stay next to their original in any one variable. Of a variable in
whole numbers a few in a hundred do by chance."""
_STRATUM_MULTIPLE = 10
"""How many times k a stratum should hold, so that neighbours are near and centres differ."""


def first_plan(data: Dataset) -> Plan:
    """Suggest roles, drop what names people, make those who may be known alike, set targets."""
    # What the file itself declares, such as the missing codes of SPSS, stays.
    schema = _add_domains(data, data.schema.over(dict(Schema.infer(data.frame))))
    schema = _name_identity(data, _add_orders(data, schema))
    blurred = _choose_blur(data.with_schema(schema))
    targets: dict[str, Any] = {}
    if schema.having("quasi"):
        targets["k"] = {"min": _CLASS_SIZE}
    if blurred is not None:
        targets["stayed"] = {"max": _UNMOVED_SHARE}
    return Plan(
        schema=schema,
        steps=[*_unite_spellings(data, schema), *_choose_steps(schema, blurred)],
        targets=targets,
        evaluate=[Displacement(variables=blurred.variables)] if blurred else [],
        read=_describe_reading(data),
    )


def _name_identity(data: Dataset, schema: Schema) -> Schema:
    """Say who a record is: all that is random follows it, and must not follow another next time."""
    found = find_identifiers(schema, data.column)
    return schema if found is None else schema.changed(found[0], identity=True)


def _describe_reading(data: Dataset) -> dict[str, Any]:
    """How the file was read, so that the next one is read alike; shown in the plan to confirm."""
    source = data.source
    if source is None:
        return {}
    options = {key: value for key, value in source.options.items() if key in _READ and value}
    if source.format == "csv":
        options["types"] = {name: column.type for name, column in source.columns.items()}
    return options


_READ = ("delimiter", "decimal", "encoding", "sheet", "dates")


def _unite_spellings(data: Dataset, schema: Schema) -> list[Method]:
    """One step for each variable with several spellings of a value: the commonest stands for all.

    It is there to be read, corrected or deleted. Groups name values, so the plan stays inside.
    """
    steps: list[Method] = []
    for name in schema.having("quasi", "sensitive", "other"):
        values = data.column(name)
        kind = schema[name].kind
        if values.dtype != pl.String or kind not in ("nominal", "ordinal"):
            continue
        counted = values.drop_nulls().value_counts(name="records").sort("records", name)[::-1]
        texts = counted[name]
        if not 1 < len(texts) <= _MOST_SPELLINGS:
            continue
        keys = normalise_spellings(texts)
        of = choose_representatives(texts, keys, ())
        groups: dict[str, list[str]] = {}
        for text, chosen in zip(texts.to_list(), texts.gather(of).to_list(), strict=True):
            groups.setdefault(chosen, []).append(text)
        several = {chosen: group for chosen, group in groups.items() if len(group) > 1}
        # A name that reads as a range, a set or a mask would be refused.
        several = {chosen: several[chosen] for chosen in several if not reads_as_notation(chosen)}
        if several:
            steps.append(Recode(variables=[name], groups=several))
    return steps


def _choose_steps(schema: Schema, blurred: Deterministic | None) -> list[Method]:
    steps: list[Method] = []
    quasi = schema.having("quasi")
    loose = [name for name in quasi if schema[name].kind == "text"]
    if schema.having("direct"):
        steps.append(Drop())
    if loose:
        # Sets of free text or codes would be as long as the data, so it stays inside.
        steps.append(Drop(variables=loose))
    if blurred is not None:
        # Before k-anonymity: afterwards the strata would be sets.
        steps.append(blurred)
    if known := [name for name in quasi if name not in loose]:
        steps.append(KAnonymity(variables=known, k=_CLASS_SIZE))
    return steps


def _choose_blur(data: Dataset) -> Deterministic | None:
    """Blur what was measured on a person, within categories that are large enough for it."""
    measured = [
        name
        for name in data.schema.having("sensitive", "other")
        if data.schema[name].kind in ("continuous", "integer")
        and data.column(name).dtype.is_numeric()
        # Counts that many people share hardly move, however many neighbours are taken.
        and data.column(name).n_unique() > max(_MOST_LEVELS, len(data) // _RECORDS_PER_VALUE)
    ]
    if not measured or len(data) < _STRATUM_MULTIPLE * _NEIGHBOURS:
        return None
    strata: list[str] = []
    for name in data.schema.of_kind("nominal", "ordinal"):
        if data.schema[name].role not in ("quasi", "sensitive") or data.column(name).null_count():
            continue
        smallest = engine_for(data.frame).distinct(data, [*strata, name]).counts.min()
        if smallest >= _STRATUM_MULTIPLE * _NEIGHBOURS:
            strata.append(name)
    gaps = any(data.column(name).null_count() for name in measured)
    step = Deterministic(
        variables=measured,
        strata=strata,
        k=_NEIGHBOURS,
        at_most=_UNMOVED_SHARE,
        missing="median" if gaps else "refuse",
        whole=True,
    )
    # A plan that cannot be carried out is no start: numbers of few values may not move enough.
    ways = (step, replace(step, k_by="stratum"), replace(step, strata=[]))
    return next((candidate for candidate in ways if _can_fit(candidate, data)), None)


def _can_fit(step: Deterministic, data: Dataset) -> bool:
    try:
        step.fit(data, engine_for(data.frame))
    except SfumatoError:
        return False
    return True


def _add_domains(data: Dataset, schema: Schema) -> Schema:
    """Add a domain to numbers and dates; rounded, so that it does not show the extreme values."""
    declared: dict[str, Column] = {}
    for name in schema.having("quasi"):
        column, values = schema[name], data.column(name)
        if values.dtype.is_temporal():
            domain = _round_years(values)
        elif values.dtype.is_numeric() and column.kind in ("continuous", "integer"):
            domain = _round_domain(values)
        else:
            domain = None
        if domain is not None:
            declared[name] = replace(
                column, domain=domain, reason=f"{column.reason} Check the domain."
            )
    return schema.with_columns(declared)


def _add_orders(data: Dataset, schema: Schema) -> Schema:
    """Levels whose order nobody has declared yet are plain categories until somebody does."""
    declared = {
        name: replace(
            schema[name],
            kind="nominal",
            reason=f'{schema[name].reason} For ranges: kind = "ordinal", domain = [all levels].',
        )
        for name in schema.having("quasi")
        if schema[name].kind == "ordinal"
        and schema[name].levels is None
        and data.column(name).dtype == pl.String
    }
    return schema.with_columns(declared)


def _round_domain(values: pl.Series) -> tuple[Any, Any] | None:
    finite = values.cast(pl.Float64).drop_nulls()
    finite = finite.filter(finite.is_finite())
    if not len(finite):
        return None
    low, high = float(finite.min()), float(finite.max())  # type: ignore[arg-type]
    step = _round_step(high - low)
    floor, ceiling = math.floor(low / step) * step, math.ceil(high / step) * step
    floor = floor - step if floor == low and low != 0 else floor
    ceiling = ceiling + step if ceiling == high else ceiling
    return (int(floor), int(ceiling)) if step >= 1 else (floor, ceiling)


def _round_step(span: float) -> float:
    """A round step that cuts a span into about five to ten parts."""
    if span <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span))
    return (
        power if span / power >= _PARTS else power / 2 if span / power >= _PARTS / 2 else power / 5
    )


def _round_years(values: pl.Series) -> tuple[dt.date, dt.date] | None:
    years = values.cast(pl.Date).dt.year().drop_nulls()
    if not len(years):
        return None
    first, last = int(years.min()), int(years.max())  # type: ignore[arg-type]
    return dt.date(first - first % 5, 1, 1), dt.date(last - last % 5 + 4, 12, 31)
