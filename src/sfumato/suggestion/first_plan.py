"""A first plan for data that nobody has looked at yet. A start, not an answer."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from sfumato.cells.derivation import read_derived
from sfumato.cells.notation import reads_as_notation
from sfumato.data import Dataset
from sfumato.data.identity import find_identifiers
from sfumato.engines import engine_for
from sfumato.errors import DataError, SfumatoError
from sfumato.measure import AT_WORST, Measure
from sfumato.method import Method
from sfumato.methods.clustering.cells import Output
from sfumato.methods.derive import Derive
from sfumato.methods.displace_coordinates import DisplaceCoordinates
from sfumato.methods.drop import Drop
from sfumato.methods.k_anonymity import KAnonymity
from sfumato.methods.noise import Noise
from sfumato.methods.persons import count_changes, has_persons
from sfumato.methods.pseudonymise import Pseudonymise
from sfumato.methods.recode import Recode
from sfumato.methods.shift_dates import ShiftDates
from sfumato.methods.weights import Weights
from sfumato.plan import Plan
from sfumato.risk.location_intersection import LocationIntersection
from sfumato.schema import Column, Role, Schema
from sfumato.schema.inference.coordinates import find_coordinates
from sfumato.schema.inference.formats import are_prefix_codes
from sfumato.schema.inference.free_text import is_free_text
from sfumato.schema.spelling import choose_representatives, normalise_spellings
from sfumato.suggestion.mending import Mends, find_followers, measure_prediction, mend
from sfumato.suggestion.person_search import find_person
from sfumato.suggestion.profile_steps import ProfileRequirements, read_profile
from sfumato.suggestion.relations import DerivedVariable, find_relations, find_sources
from sfumato.utility.displacement import Displacement

_PARTS = 5
_MOST_SPELLINGS = 200
"""With more different texts, a plan that lists spellings would not be read."""
_BEGINNING = 2
"""Characters of a postcode that tell the region, where a region is in the data too."""
_MOST_TOLD = 0.5
"""The share of what is not guessed anyway that the beginning of a code may tell of a category."""
_MOST_CODES = 50
_RECORDS_A_CODE = 10
_CLASS_SIZE = 5
"""The smallest class of a first plan."""
_IN_RING = tuple(_CLASS_SIZE * times for times in (2, 4, 8, 16))
"""Persons in the ring in which a place is displaced: at the edge of a town half of it is empty."""
_STRATUM_MULTIPLE = 10
"""How many times k a stratum should hold, so that the records of a class are alike in the rest."""
_SIZES = (0.2, 0.3, 0.5)
"""Standard deviations of noise, as shares of the variable's own: the first that moves enough."""
_MANY_ZEROS = 0.1
"""The share of zeros from which on 0 says that there is none."""
_FEW_VALUES = 10
"""So few values are codes or counts, which whole noise treats."""
_UNMOVED_SHARE = 0.2
"""The share of records that may stay next to their original in any one variable. Of a variable in
whole numbers a few in a hundred do by chance."""
_SURELY = 0.75
"""The part of a limit within which a draw under one key must lie, to lie below it under all."""
_FEWEST = 30
"""With fewer records, the spread that noise is measured by is that of single persons."""
_RARE = 0.05
"""The share of people below which a secret is one of few."""
_LEAKING_SHARE = 0.2
"""The share of protected values that unchanged variables may give back: what the light allows."""
_FINGERPRINTS = 0.05
"""The share of records that a rare, unchanged value may point to."""
_SHIFT = ShiftDates(window=364)
"""Of dates of persons with several rows, up to a year."""


def first_plan(
    data: Dataset,
    schema: Schema | None = None,
    *,
    profile: str | None = None,
    open_roles: Collection[str] = (),
) -> Plan:
    """Suggest roles, drop what names people, make those who may be known alike, set targets.

    Steps name no variables where roles say which are meant, so that a corrected role reaches them.
    They are tried on the data; what would give too much back is treated in another way, or dropped.

    Parameters
    ----------
    data : the original records.
    schema : roles and kinds that somebody has decided on. Default: suggestions.
    profile : the rule book that the release shall meet.
    open_roles : variables whose role somebody gave in bulk, so that it may still change where the
        data speak against it.
    """
    _require_records(data)
    suggested = suggest_schema(data) if schema is None else schema
    requirements = read_profile(profile, data, smallest=_CLASS_SIZE)
    if schema is None and not requirements.steps:
        suggested = _declare_shifted_dates(data, suggested)
    # A code for missing must not count as a value.
    declared = data.with_schema(suggested)
    changeable = {*suggested} if schema is None else {*open_roles}
    suggested = _declare_structure(declared, suggested, changeable, decided=schema is not None)
    relations = find_relations(declared, suggested)
    suggested = _declare_relations(suggested, relations, changeable)
    declared = data.with_schema(suggested)
    start = Mends() if schema is None else _find_left_out(data, schema)
    derived = {relation.variable: relation.formula for relation in relations}
    mends = mend(
        declared,
        replace(start, derived=derived),
        partial(_list_steps, requirements=requirements),
        most=_LEAKING_SHARE,
        k=requirements.k,
        roles=schema is None,
    )
    final = mends.declare(suggested)
    draft = _draft(declared, final, mends, requirements)
    return Plan(
        schema=final,
        steps=draft.steps,
        targets=_choose_targets(draft, requirements.k),
        evaluate=_choose_measures(draft),
        read=_describe_reading(data),
        profile=profile,
    )


def _declare_structure(
    data: Dataset, schema: Schema, changeable: Collection[str], *, decided: bool
) -> Schema:
    """Whose a row is, and what is as well known as a variable that it tells.

    Where roles were given in bulk, what nobody has decided on is read as known to others.
    """
    if decided:
        undecided = [name for name in schema.unknown if name in changeable]
        schema = _change_roles(
            schema, undecided, "quasi", "Nobody has decided: read as known to others."
        )
    person = find_person(data, schema)
    if person is not None and person in changeable:
        why = "The same person in several rows: what does not change is the same in all of them."
        schema = _change_roles(schema, [person], "person", why)
    for name, told in find_sources(data, schema).items():
        if name in changeable:
            schema = _change_roles(schema, [name], schema[told].role, f"It tells '{told}'.")
    return schema


def _declare_relations(
    schema: Schema, relations: Sequence[DerivedVariable], changeable: Collection[str]
) -> Schema:
    """What is made again is protected by what it is made of."""
    for relation in relations:
        if relation.variable in changeable:
            why = f"It is {relation.formula}, and is made again of what is released."
            schema = _change_roles(schema, [relation.variable], "other", why)
    return schema


def _change_roles(schema: Schema, names: Sequence[str], role: Role | None, why: str) -> Schema:
    return schema.with_columns(
        {
            name: replace(schema[name], role=role, reason=f"{schema[name].reason} {why}".strip())
            for name in names
        }
    )


def _find_left_out(data: Dataset, schema: Schema) -> Mends:
    """What an earlier first plan has left out since it follows from another variable."""
    inferred = Schema.infer(data.frame, known=data.schema)
    followed = find_followers(data.with_schema(schema))
    return Mends(
        followers={
            name: followed[name]
            for name in schema.having("other")
            if inferred[name].role == "quasi" and followed.get(name) in schema.having("quasi")
        }
    )


def suggest_schema(data: Dataset, decided: Mapping[str, Role] | None = None) -> Schema:
    """Roles, kinds and domains, each with its reason; what follows from another says so.

    Parameters
    ----------
    decided : roles that somebody has given.
    """
    _require_records(data)
    # What the file itself declares, such as the missing codes of SPSS, stays; and a code for
    # missing must not widen a domain.
    inferred = Schema.infer(data.frame, known=data.schema)
    named = {
        name: replace(inferred[name], role=role, reason="As somebody said.")
        for name, role in (decided or {}).items()
    }
    data = data.with_schema(inferred.with_columns(named))
    schema = _name_identity(data, _add_orders(data, _add_domains(data, data.schema)))
    # The file brings the labels of its values each time it is read.
    labelled = [name for name, column in schema.items() if column.labels]
    schema = schema.changed(labelled, labels=None)
    followed = find_followers(data)
    return schema.with_columns(
        {
            name: replace(schema[name], reason=f"{schema[name].reason} It follows from '{source}'.")
            for name, source in followed.items()
        }
    )


def _declare_shifted_dates(data: Dataset, schema: Schema) -> Schema:
    """Dates that change within a person, such as visits, are known to nobody once they are shifted.

    Others, such as a birth date, stay what they are: they are shifted too, and made alike.
    """
    declared = data.with_schema(schema)
    dates = [name for name in _find_dates(declared) if schema[name].role == "quasi"]
    if not dates or not has_persons(declared):
        return schema
    changes = count_changes(declared, dates, engine_for(data.frame))
    return schema.with_columns(
        {
            name: replace(
                schema[name],
                role="other",
                reason=f"{schema[name].reason} It is shifted, so nobody outside knows it; the days "
                "between a person's dates stay the same.",
            )
            for name, counted in changes.items()
            if counted.different
        }
    )


def _find_dates(data: Dataset) -> list[str]:
    """The calendar dates, whatever their role; identifiers are dropped anyway."""
    return [
        name
        for name in data.schema.of_kind("date")
        if name not in data.schema.identifiers and data.dtype(name) in (pl.Date, pl.Datetime)
    ]


def _require_records(data: Dataset) -> None:
    if not len(data):
        raise DataError("There is no record in these data.", hint="is it the right file?")


@dataclass(frozen=True)
class _Draft:
    """Steps, and what they leave.

    Parameters
    ----------
    steps : what is done.
    left : the records less what is dropped.
    noise : the step that adds it, where there is one.
    blurred : the numbers of which noise moves enough people.
    """

    steps: list[Method]
    left: Dataset
    noise: Noise | None
    blurred: list[str]


def _list_steps(
    data: Dataset, schema: Schema, mends: Mends, *, requirements: ProfileRequirements
) -> list[Method]:
    return _draft(data, schema, mends, requirements).steps


def _draft(
    data: Dataset, schema: Schema, mends: Mends, requirements: ProfileRequirements
) -> _Draft:
    draft = _draft_without_groups(data, schema, mends, requirements)
    schema_left, steps = draft.left.schema, list(draft.steps)
    groups = [n for n in schema_left.having("cluster") if schema_left[n].cells is None]
    if groups:
        # The number of a group would give all its members away.
        steps.append(Pseudonymise(variables=groups, namespace="group"))
    if formulas := _list_formulas(schema_left, mends.derived):
        steps.append(Derive(formulas=formulas))
    return replace(draft, steps=steps)


def _list_formulas(schema: Schema, derived: Mapping[str, str]) -> dict[str, str]:
    """The formulas of what is left; see `_choose_drops` for what cannot be made."""
    return {name: formula for name, formula in derived.items() if name in schema}


def _draft_without_groups(
    data: Dataset, schema: Schema, mends: Mends, requirements: ProfileRequirements
) -> _Draft:
    steps = [*_unite_spellings(data, schema), *_choose_drops(data, schema, mends)]
    dropped = [name for step in steps for name in _list_dropped_variables(step, schema)]
    remaining = data.with_schema(schema).without(dropped)
    for step in requirements.narrow(remaining):
        steps.append(step)
        remaining = step.apply(remaining)
    if schema.having("weight") and _can_fit(Weights(), remaining):
        steps.append(Weights())
    if has_persons(remaining) and _find_dates(remaining) and _can_fit(_SHIFT, remaining):
        steps.append(_SHIFT)
    noise, blurred = _choose_noise(remaining)
    if noise is not None:
        steps.append(noise)
    if known := remaining.schema.having("quasi"):
        strata = _choose_strata(remaining, known, requirements.k)
        generalised = [name for name in known if name not in strata]
        if telling := _find_telling(remaining, generalised):
            steps.append(Drop(variables=telling))
            remaining = remaining.without(telling)
        if (displace := _choose_displacement(remaining, generalised)) is not None:
            # Nothing else needs to be made alike, so places can stay near where they are.
            steps.append(displace)
            remaining = remaining.with_schema(remaining.schema.changed(generalised, role="other"))
            return _Draft(steps, remaining, noise, blurred)
        output = _choose_output(generalised, mends, requirements)
        steps.append(KAnonymity(k=requirements.k, output=output, strata=strata))
    return _Draft(steps, remaining, noise, blurred)


def _choose_displacement(data: Dataset, generalised: Sequence[str]) -> DisplaceCoordinates | None:
    """The step for latitude and longitude, where nothing else is generalised.

    The fewest people in the ring, such that few enough are traced.
    """
    pairs = find_coordinates(data.schema)
    if len(pairs) != 1 or {*pairs[0]} != {*generalised}:
        return None
    for k in _IN_RING:
        step = DisplaceCoordinates(k=k)
        try:
            released = step.apply(data, key=bytes(32))
            attack = LocationIntersection(variables=list(pairs[0]), k=k)
            traced = attack.measure(data, released).number(f"{attack.name}{AT_WORST}")
        except SfumatoError:
            return None
        if traced <= _SURELY / _CLASS_SIZE:
            return step
    return None


def _choose_output(
    names: Sequence[str], mends: Mends, requirements: ProfileRequirements
) -> Output | dict[str, Output]:
    """A single value for all; by variable only where the trial asks for another one in some.

    The mean of some years would be a part of a year.
    """
    years: dict[str, Output] = dict.fromkeys(requirements.years, "median")
    others = {name: how for name, how in {**years, **mends.outputs}.items() if name in names}
    return {**dict.fromkeys(names, "value"), **others} if others else "value"


def _choose_targets(draft: _Draft, k: int) -> dict[str, Any]:
    remaining, targets = draft.left, dict[str, Any]()
    if remaining.schema.having("quasi"):
        targets["k"] = {"min": k}
    if draft.blurred:
        targets["stayed"] = {"max": _UNMOVED_SHARE}
    if remaining.schema.having("quasi", "sensitive"):
        targets["recoverable"] = {"max": _LEAKING_SHARE}
    if remaining.schema.having("quasi", "weight"):
        targets["untouched"] = {"max": _FINGERPRINTS}
    return targets


def _name_identity(data: Dataset, schema: Schema) -> Schema:
    """Say who a record is: all that is random follows it, and must not follow another next time."""
    identifiers = find_identifiers(schema, data.column)
    return schema if identifiers is None else schema.changed(identifiers[0], identity=True)


def _describe_reading(data: Dataset) -> dict[str, Any]:
    """How the file was read, so that the next one is read alike; shown in the plan to confirm."""
    source = data.source
    if source is None:
        return {}
    options = {key: value for key, value in source.options.items() if key in _READ and value}
    if source.format == "csv":
        options["types"] = {name: column.type for name, column in source.columns.items()}
    return options


_READ = ("delimiter", "decimal", "encoding", "sheet", "dates", "missing")


def _unite_spellings(data: Dataset, schema: Schema) -> list[Method]:
    """One step for each variable with several spellings of a value: the commonest stands for all.

    It is there to be read, corrected or deleted. Groups name values, so the plan stays inside.
    """
    steps: list[Method] = []
    for name in schema.having("quasi", "sensitive", "other"):
        if not _is_category(schema[name]) or (values := data.column(name)).dtype != pl.String:
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


def _choose_drops(data: Dataset, schema: Schema, mends: Mends) -> list[Method]:
    steps: list[Method] = [Drop()] if schema.identifiers else []
    # Sets of free text would be as long as the data, so it stays inside. Codes of one length, such
    # as postcodes, become what they begin with, unless that gives a region away.
    loose = [
        name
        for name in schema.having("quasi")
        if schema[name].kind == "text"
        and (not are_prefix_codes(data.column(name)) or _tells_another(data, name, schema))
    ]
    # People may be named in it; what is declared a direct identifier goes anyway.
    named = [
        name
        for name in schema.having("quasi", "sensitive", "other")
        if schema[name].levels is None
        and schema[name].cells is None
        and (values := data.column(name)).dtype == pl.String
        and is_free_text(values)
    ]
    # What few people have at all tells who they are, and what it is.
    rare = [
        name for name in schema.having("sensitive") if data.column(name).count() < _RARE * len(data)
    ]
    dropped = dict.fromkeys((*loose, *named, *rare, *mends.dropped, *mends.followers))
    gone = {*dropped, *schema.identifiers}
    for name, formula in mends.derived.items():
        if gone & {*read_derived(formula).variables}:
            dropped[name] = None
            gone.add(name)
    if dropped:
        steps.append(Drop(variables=[*dropped]))
    return steps


def _tells_another(data: Dataset, name: str, schema: Schema) -> bool:
    """Whether what codes begin with gives much of another category away, such as the region."""
    categories = [other for other in schema.having("quasi") if _is_category(schema[other])]
    codes = data.column(name).str.head(_BEGINNING)
    return any(measure_prediction(codes, data.column(other)) > _MOST_TOLD for other in categories)


def _find_telling(data: Dataset, known: Sequence[str]) -> list[str]:
    """Clusters that give a generalised category away, as a school gives away its region."""
    categories = [data.column(name) for name in known if _is_category(data.schema[name])]
    return [
        name
        for name in data.schema.having("cluster")
        if any(
            measure_prediction(data.column(name), category) > _LEAKING_SHARE
            for category in categories
        )
    ]


def _is_category(column: Column) -> bool:
    return column.kind in ("nominal", "ordinal")


def _list_dropped_variables(step: Method, schema: Schema) -> tuple[str, ...]:
    return step.touches(schema) if isinstance(step, Drop) else ()


def _choose_noise(data: Dataset) -> tuple[Noise | None, list[str]]:
    """Noise on what nobody should learn, and the numbers of which it moves enough people.

    Why noise, and not centres of neighbours: see `benchmarks/bench_first_plan.py`. Codes and counts
    need more of it than measurements, since less than half a unit is rounded away. Only where sizes
    differ are variables named. Where many have none of it, such as no visits, none stays none; and
    what is above 0 stays above it.
    """
    noise = Noise(sd_share=_SIZES[0])
    if len(data) < _FEWEST or not _can_fit(noise, data):
        return None, []
    names = noise.touches(data.schema)
    keep = {name: [0.0] for name in names if _has_many_zeros(data.column(name))}
    scale = dict.fromkeys(
        (n for n in names if _would_turn_negative(data.column(n), zeros=n in keep)), "log"
    )
    shape: dict[str, Any] = {"keep": keep or None, "scale": scale or None}
    sizes = dict.fromkeys(names, _SIZES[0])
    unmoved = {name for name in names if name not in keep}
    for size in _SIZES:
        sizes |= dict.fromkeys(unmoved, size)
        tried = Noise(variables=list(names), sd_share=size, **shape)
        if not _can_fit(tried, data):
            return None, []
        released = tried.apply(data, key=bytes(32))
        unmoved = {name for name in unmoved if not _moves_enough(data, released, name)}
    if keep or scale or len(set(sizes.values())) > 1:
        noise = Noise(variables=list(names), sd_share=sizes, **shape)
    else:
        noise = Noise(sd_share=sizes[names[0]])
    return noise, [name for name in names if name not in unmoved and name not in keep]


def _has_many_zeros(values: pl.Series) -> bool:
    """Whether 0 says that there is none, and not how much."""
    known = values.drop_nulls()
    zeros = float((known == 0).mean() or 0.0)  # type: ignore[arg-type]
    return _MANY_ZEROS <= zeros < 1 and known.n_unique() > _FEW_VALUES


def _would_turn_negative(values: pl.Series, *, zeros: bool) -> bool:
    """Whether noise of the smallest size would lead below 0 what lies above it.

    Parameters
    ----------
    zeros : whether zeros stay as they are, so that they do not count.
    """
    known = values.drop_nulls().cast(pl.Float64)
    above = known.filter(known != 0) if zeros else known
    if not len(above) or above.n_unique() <= _FEW_VALUES or float(above.min()) <= 0:  # type: ignore[arg-type]
        return False
    return bool(float(above.min()) < 3 * _SIZES[0] * float(known.std() or 0.0))  # type: ignore[arg-type]


def _moves_enough(data: Dataset, released: Dataset, name: str) -> bool:
    stayed = Displacement(variables=[name]).measure(data, released).number(f"stayed{AT_WORST}")
    return stayed <= _SURELY * _UNMOVED_SHARE


def _choose_measures(draft: _Draft) -> list[Measure]:
    """How far people moved: by role, unless some numbers hardly can."""
    if draft.noise is None or not draft.blurred:
        return []
    if set(draft.blurred) == set(draft.noise.touches(draft.left.schema)):
        return [Displacement(role="sensitive")]
    return [Displacement(variables=draft.blurred)]


def _choose_strata(data: Dataset, known: Sequence[str], k: int) -> list[str]:
    """Categories that may stay as they are, since all their combinations are common."""
    strata: list[str] = []
    levels = {name: data.column(name).n_unique() for name in known}
    changes = count_changes(data, known, engine_for(data.frame)) if has_persons(data) else {}
    for name in sorted(known, key=lambda name: levels[name]):
        column = data.schema[name]
        if name in changes and changes[name].different:
            continue  # rows of a person cannot lie in several strata
        if not _is_category(column) or column.generalised or data.column(name).null_count():
            continue
        smallest = engine_for(data.frame).distinct(data, [*strata, name]).counts.min()
        if smallest >= _STRATUM_MULTIPLE * k:
            strata.append(name)
    # At least one variable is left to be generalised.
    return strata if len(strata) < len(known) else strata[:-1]


def _can_fit(step: Method, data: Dataset) -> bool:
    """Whether a step can be carried out: a plan that cannot be is no start."""
    try:
        step.fit(data, engine_for(data.frame))
    except SfumatoError:
        return False
    return True


def _add_domains(data: Dataset, schema: Schema) -> Schema:
    """Add a domain to numbers and dates; rounded, so that it does not show the extreme values."""
    declared: dict[str, Column] = {}
    domain: tuple[Any, Any] | None
    for name in schema.having("quasi", "sensitive"):
        column = schema[name]
        if column.role == "sensitive" and column.kind != "integer":
            continue
        values = data.column(name)
        if column.role == "sensitive":
            domain = _find_codes(values)
        elif values.dtype.is_temporal():
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


def _find_codes(values: pl.Series) -> tuple[int, int] | None:
    """The least and the greatest of some codes, as long as several people have them.

    Noise must not lead beyond a scale. Measurements have no such ends.
    """
    counts = values.drop_nulls().value_counts(name="records").sort(values.name)
    are_integers = values.dtype.is_numeric() and bool((counts[values.name] % 1 == 0).all())
    if not are_integers or not 1 < len(counts) <= min(_MOST_CODES, len(values) // _RECORDS_A_CODE):
        return None
    if counts["records"][0] < _CLASS_SIZE or counts["records"][-1] < _CLASS_SIZE:
        return _round_domain(values)
    return int(counts[values.name][0]), int(counts[values.name][-1])


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
    dates = values.cast(pl.Date)
    earliest, latest = dates.min(), dates.max()
    if not isinstance(earliest, dt.date) or not isinstance(latest, dt.date):
        return None
    first, last = earliest.year, latest.year
    return dt.date(first - first % 5, 1, 1), dt.date(last - last % 5 + 4, 12, 31)
