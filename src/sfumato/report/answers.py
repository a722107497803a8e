"""The answer before the tables: who can be singled out, in a sentence with counts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.evidence import AT_WORST, Evidence
from sfumato.measure import Measure
from sfumato.report.wording import format_percent
from sfumato.risk.least_known import LeastKnown, find_least_known
from sfumato.risk.uniqueness import Uniqueness
from sfumato.schema import Schema

_FEW = 4
"""Variables that are named in the answer; of more, these, and what they achieve."""


def answer_for_original(
    evidence: Mapping[str, Evidence], measures: Mapping[str, Measure], data: Dataset
) -> str:
    """Who can be singled out in data as they are, and by how little; empty if it was not measured.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"sex": ["f", "f", "m", "m"], "age": [30, 30, 30, 41]})
    >>> data = sf.Dataset(frame, sf.Schema({"sex": "quasi", "age": "quasi"}))
    >>> measures = {"uniqueness": sf.risk.Uniqueness()}
    >>> answer_for_original(sf.assess(data, measures), measures, data)
    '2 of 4 people can be singled out by sex and age.'
    """
    label, measured = _find_uniqueness(evidence)
    if measured is None:
        return ""
    measure = measures[label]
    assert isinstance(measure, Uniqueness)  # noqa: S101 - it has the name
    known = tuple(measure.known or data.schema.having("quasi"))
    alone, people = measured.details["unique_records"], _count_people(measured)
    if not alone:
        k = measured.details["k"]
        names = _join_names(known, data.schema) if len(known) <= _FEW else _count_known(known)
        return (
            f"Nobody can be singled out by {names}: at least {k:,} people share every combination."
        )
    engine, least = engine_for(data.frame), None
    if measure.missing == "value" and engine.in_memory:
        least = find_least_known(engine.prepare(data), known, engine)
    if least is None:
        return f"{_count(alone, people)} can be singled out by {_count_known(known)}."
    return _describe_least(least, known, data.schema)


def _describe_least(least: LeastKnown, known: Sequence[str], schema: Schema) -> str:
    count = _count(least.alone, least.people)
    if len(least.variables) <= _FEW:
        sentence = f"{count} can be singled out by {_join_names(least.variables, schema)}"
    else:
        first = _join_names(least.variables[:_FEW], schema)
        sentence = (
            f"{count} can be singled out by {_count_known(known)}; "
            f"{least.alone_so_far[_FEW - 1]:,} by {first}"
        )
    if len(least.variables) <= 2 or not least.by_two:  # noqa: PLR2004 - two are said already
        return f"{sentence}."
    if least.by_two == least.alone:
        return f"{sentence}; for each of them, two variables are enough."
    return f"{sentence}; {least.by_two:,} by two variables alone."


def answer_for_release(evidence: Mapping[str, Evidence]) -> str:
    """Who can be singled out in a release, and could be before; empty if it was not measured."""
    _, measured = _find_uniqueness(evidence)
    if measured is None:
        return ""
    details = measured.details
    alone = details.get(f"unique_records{AT_WORST}", details["unique_records"])
    k = details.get(f"k{AT_WORST}", details["k"])
    if alone:
        first = f"{_count(alone, _count_people(measured))} can be singled out in the release."
    else:
        first = (
            f"Nobody can be singled out in the release: at least {k:,} people share every "
            "combination of what others may know."
        )
    if measured.baseline is None:
        return first
    before = {0.0: "Nobody could be", 1.0: "Everybody could be"}.get(measured.baseline)
    before = before or f"{format_percent(measured.baseline)} could be"
    return f"{first} {before} in the original."


def _find_uniqueness(evidence: Mapping[str, Evidence]) -> tuple[str, Evidence | None]:
    """Where the measure is, and what it found; None where it was not taken."""
    for label, item in evidence.items():
        if item.name == Uniqueness.name and item.computed:
            return label, item
    return "", None


def _count_people(measured: Evidence) -> int:
    people: int = measured.details.get("persons", measured.details["records"])
    return people


def _count(number: int, people: int) -> str:
    return f"All {people:,} people" if number == people else f"{number:,} of {people:,} people"


def _count_known(known: Sequence[str]) -> str:
    if len(known) == 1:
        return "the one variable that others may know"
    return f"the {len(known)} variables that others may know"


def _join_names(names: Sequence[str], schema: Schema) -> str:
    labels = [schema[name].label or name for name in names]
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"
