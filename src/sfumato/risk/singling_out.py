"""How often a statement made from the release alone isolates one original person."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.evidence import Evidence
from sfumato.measure import AT_WORST, AttackWording, Measure, Trial
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.risk.attacks.attacker_view import OrderedView, VariableView, view_release
from sfumato.risk.attacks.class_statements import (
    Family,
    count_classes,
    list_keys,
    try_classes,
    try_single_cells,
)
from sfumato.risk.attacks.outcomes import bound_by_luck, bound_share, wilson
from sfumato.risk.attacks.statements import (
    Form,
    StatementOutcomes,
    try_conjunctions,
    try_extremes,
    try_gaps,
)
from sfumato.risk.known import known_variables, require_records
from sfumato.units import Units

_WORDS: dict[Form, str] = {
    "cells": "the values as they stand",
    "tails": "this much or more, or less",
}
_EXTREMES = "extremes and lone categories"
_SINGLE = "one cell, whoever shares it"
_GAPS = "where no cell reaches"
_RARE = "ways with few statements, together"
_CLASS_WORDS: dict[Family, str] = {
    "ends": "a class, and an end of its range",
    "members": "a class, and a member of its set",
    "outside": "a class, but not this cell",
    "two variables": "two cells, whoever shares them",
    "all variables": "all cells, whoever shares them",
}
_FEWEST = 20
"""Ways with fewer statements decide together with their kind, not each by itself."""
_ROWS_OF_ONE = "It may hold for several rows of that person."
_ASSUMPTIONS = (
    "A statement isolates somebody if it holds for one original person and for no other.",
    "Ranges, sets, masks and * hold for every value they include; a missing cell says nothing.",
    "The control makes its statements from the same release with each variable shuffled.",
    "For an end it takes any value that occurs within the range, for a member any that occurs.",
    "For a cell that a statement excludes it excludes that of another record.",
    "For a gap it takes one as wide elsewhere, for a single cell the chance by its weight.",
)


@parameters
class SinglingOut(Measure):
    """Share of statements, made from the release alone, that isolate one original person.

    Question: can somebody who knows nobody say "there is exactly one person who …", and be right?
    Assumes: the outsider has the released file and nothing else, and says what it shows of the
    original. The ways that are tried:

    - from some released records, variable by variable in an order of its own, until no other
      released record satisfies the statement: the values as they stand ("sex is f and age is in
      [30;39]"), and tails ("at least 190 cm and at most 20 years");
    - one cell, two cells, or all cells of a class, whoever shares them: five released records may
      show a value that one original person has;
    - a class, and an end of its range, or a member of its set;
    - a class, but outside one of its cells; and where no released cell of a variable reaches.

    The value is the rate of the way that works best. Ways with fewer than 20 statements count
    together with others of their kind; a kind with fewer than 20 counts by the least rate that is
    not luck, and together with other such kinds by its rate; the interval is 95 %. The baseline is
    the control of that way, which knows what values there are and no person. A statement about a
    class of five isolates somebody now and then whatever it names, so look at `singling_out_excess`
    beside it: the largest (rate - control) / (1 - control) of any way, at least 0. The table has
    every way with its control; of pairs of variables, the worst. Beside it:
    `singled_out_by_extremes`, the rate for the least, the greatest, the outermost ends of ranges,
    the same within a category, and categories that one released record has; NaN where there is
    none.

    Parameters
    ----------
    known : variables that statements are made of. Default: all whose role is "quasi".
    individuals : most released records that a statement is made from: picked without pattern. A
        target is then held against the upper end of the interval: one of 0 takes all records.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(500), sf.datasets.cohort_schema())
    >>> known = ["sex", "region", "height", "children"]
    >>> SinglingOut(known=known).measure(data, data).value > 0.9
    True
    >>> method = sf.methods.KAnonymity(
    ...     variables=known, k=5, clustering="mondrian", output="range"
    ... )
    >>> evidence = SinglingOut(known=known).measure(data, method.apply(data))
    >>> evidence.value < 0.3, evidence.details["singling_out_excess"] < 0.1
    (True, True)

    References: Giomi, Boenisch, Wehmeyer & Tasnádi (2023), A unified framework for quantifying
    privacy risk in synthetic data, PoPETs 2023:312; Cohen & Nissim (2020), Towards formalizing
    the GDPR's notion of singling out, PNAS 117:8344.
    """

    name = "singling_out"
    attack = AttackWording(
        title="Singling out",
        control="shuffled columns",
        sentence="Of {attempts:,} statements drawn from the released file alone, {success} hold "
        "for exactly one original person. Of statements made with the values but without any "
        "person, {control} do.",
    )
    # A statement on one member of a set isolates somebody in half of the classes of k-anonymous
    # data; of data as they are, nearly every statement does.
    trial = Trial(
        needs=("quasi",),
        number="singling_out_excess",
        acceptable=0.67,
        unremarkable="by k",
        seconds=16.0,
        looks_for="individuals",
    )
    odd = {"one row": 1}
    examples = (
        {},
        {"known": ["sex", "region", "education", "height", "children"], "individuals": 100},
    )
    of = "pair"
    counts_persons = True
    numbers = (
        Number.share("singling_out"),
        Number.share("singling_out_excess"),
        Number.share("singled_out_by_extremes"),
        Number.count("singled_out_records"),
    )
    known: list[str] | None = None
    individuals: Annotated[int, Field(ge=1)] = 1000

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Make statements in every way, and those of the control."""
        del engine  # all records are in memory
        require_records(len(original))
        known = known_variables(self.known, original, "original")
        views, warnings = view_release(original, released, known, owner=self.name)
        units = original.units
        ways = [
            *_try_conjunctions(views, self.individuals, units),
            *_try_others(views, self.individuals, units),
        ]
        outer = try_extremes(views, units)
        # The outsider chooses the way that works best.
        serious = _pool_rare(ways)
        best = max(serious, key=lambda way: way.surely)
        value, baseline, attempts = best.surely, best.baseline, len(best.tried.isolates)
        # Another way, of which only some statements were tried, might be the best.
        highest = max([best.interval[1], *(way.interval[1] for way in serious if way.sampled)])
        interval = min(best.interval[0], value), highest
        sampled = next((way.sampled for way in (best, *serious) if way.sampled), None)
        furthest = max(serious, key=lambda way: _compute_excess(way.surely, way.baseline))
        flags = _flag_isolated_persons(len(original), [*(way.tried for way in ways), outer])
        isolated = units.count_among(flags)
        rows = [self._row(way) for way in ways if way.listed]
        return Evidence(
            name=self.name,
            subject="pair",
            value=value,
            interval=interval,
            direction=self.direction,
            baseline=baseline,
            sampled=sampled,
            records=original.like(pl.DataFrame({"singled_out": flags})),
            table=original.like(pl.DataFrame([*rows, *self._extremes_row(outer)])),
            details={
                **{
                    f"singling_out_excess{end}": _compute_excess(share, furthest.baseline)
                    for end, share in (
                        ("", furthest.surely),
                        ("_low", furthest.interval[0]),
                        ("_high", furthest.interval[1]),
                    )
                },
                **_describe_extremes(outer),
                "singled_out_records": isolated,
                "singled_out_records_low": isolated,
                "singled_out_records_high": max(isolated, math.ceil(interval[1] * units.count)),
                "attempts": attempts,
                "best_way": best.title,
                "chance_by_weight": best.tried.by_weight,
                "records": len(original),
                **units.details(),
                "variables": tuple(view.name for view in views),
            },
            assumptions=(
                _describe_variables(views),
                *units.describe(_ROWS_OF_ONE),
                *_ASSUMPTIONS,
            ),
            warnings=(*warnings, *_list_warnings(furthest)),
        )

    def _row(self, way: _Way) -> dict[str, Any]:
        low, high = way.interval
        return {
            "statement": way.words,
            "of": way.variables,
            "attempts": len(way.tried.isolates),
            "isolated": int((way.tried.isolates >= 0).sum()),
            self.name: way.tried.rate,
            "low": low,
            "high": high,
            "baseline": way.baseline,
        }

    def _extremes_row(self, outer: StatementOutcomes) -> list[dict[str, Any]]:
        if not len(outer.isolates):
            return []
        count = len(outer.isolates)
        return [self._row(_Way(_EXTREMES, "", outer, outer.by_weight, count))]


@dataclass(frozen=True, eq=False)
class _Way:
    """A way of making statements, and what came of them."""

    words: str
    variables: str
    tried: StatementOutcomes
    baseline: float
    possible: int
    listed: bool = True

    @property
    def title(self) -> str:
        return f"{self.words}: {self.variables}" if self.variables else self.words

    @property
    def interval(self) -> tuple[float, float]:
        isolated = float((self.tried.isolates >= 0).sum())
        return bound_share(isolated, len(self.tried.isolates), self.possible)

    @property
    def surely(self) -> float:
        """The rate; of few statements of a kind, the least that is not luck."""
        attempts = len(self.tried.isolates)
        if attempts >= _FEWEST or self.words in (*_WORDS.values(), _RARE):
            return self.tried.rate
        return bound_by_luck(int((self.tried.isolates >= 0).sum()), attempts)

    @property
    def sampled(self) -> tuple[int, int] | None:
        attempts = len(self.tried.isolates)
        return (attempts, self.possible) if attempts < self.possible else None


def _try_conjunctions(views: list[VariableView], most: int, units: Units) -> list[_Way]:
    """Statements that take one variable after the other from a released record."""
    tried = {form: try_conjunctions(views, form, most, units) for form in _WORDS}
    control = [try_conjunctions(views, form, most, units, shuffled=True).rate for form in _WORDS]
    records = len(views[0].persons)
    return [_Way(_WORDS[form], "", tried[form], max(control), records) for form in tried]


def _try_others(views: list[VariableView], most: int, units: Units) -> list[_Way]:
    """Statements of single cells, of classes and their ends, and of what no cell covers."""
    ways: list[_Way] = []
    for view in views:
        single = try_single_cells(view, units)
        if len(single.isolates):
            ways.append(_Way(_SINGLE, view.name, single, single.by_weight, len(single.isolates)))
    tried, drawn = try_classes(views, most, units)
    shuffled, _ = try_classes(views, most, units, shuffled=True)
    records, classes = len(views[0].persons), count_classes(views)
    pairs: list[_Way] = []
    for key in list_keys(tried):
        outcomes = tried.outcomes(key, records)
        control = drawn if key[0] in ("ends", "members", "outside") else shuffled
        expected = control.outcomes(key, records)
        # Of every class that was left out, as many statements could have been made.
        share = classes / min(most, classes)
        possible = math.ceil(len(outcomes.isolates) * share)
        baseline = expected.rate if len(expected.isolates) else 0.0
        way = _Way(_CLASS_WORDS[key[0]], key[1], outcomes, baseline, possible)
        (pairs if key[0] == "two variables" else ways).append(way)
    if pairs:
        # There are many pairs; the one that isolates most is shown.
        worst = max(pairs, key=lambda way: way.tried.rate)
        ways += [replace(way, listed=way is worst) for way in pairs]
    for view in views:
        if isinstance(view, OrderedView) and view.shows_value().any():
            gaps = try_gaps(view, most, units)
            shifted = try_gaps(view, most, units, shifted=True).rate
            ways.append(_Way(_GAPS, view.name, gaps, shifted, len(gaps.isolates)))
    return ways


def _pool_rare(ways: list[_Way]) -> list[_Way]:
    """The ways that decide: those with few statements join their kind, and all kinds together.

    So none is lost, and a kind that works is not watered down by others. The conjunctions come
    first, and count whatever their number.
    """
    serious, others = ways[: len(_WORDS)], ways[len(_WORDS) :]
    serious += [way for way in others if len(way.tried.isolates) >= _FEWEST]
    rare = [way for way in others if 0 < len(way.tried.isolates) < _FEWEST]
    kinds = [
        _join_ways([way for way in rare if way.words == words], words)
        for words in dict.fromkeys(way.words for way in rare)
    ]
    few = [kind for kind in kinds if len(kind.tried.isolates) < _FEWEST]
    return [*serious, *kinds, *([_join_ways(few, _RARE)] if few else [])]


def _join_ways(ways: list[_Way], words: str) -> _Way:
    outcomes = [way.tried for way in ways]
    together = StatementOutcomes(
        isolates=np.concatenate([tried.isolates for tried in outcomes]),
        weights=np.concatenate([tried.weights for tried in outcomes]),
        variables=np.concatenate([tried.variables for tried in outcomes]),
        records=outcomes[0].records,
    )
    expected = sum(way.baseline * len(way.tried.isolates) for way in ways)
    possible = sum(way.possible for way in ways)
    return _Way(words, "", together, expected / len(together.isolates), possible, listed=False)


def _compute_excess(share: float, baseline: float) -> float:
    """How much of what the control leaves open the attack achieves."""
    return max(0.0, (share - baseline) / (1 - baseline)) if baseline < 1 else 0.0


def _describe_variables(views: list[VariableView]) -> str:
    return f"Statements are made of: {', '.join(view.name for view in views)}."


def _flag_isolated_persons(count: int, tried: list[StatementOutcomes]) -> Any:
    """Which original persons some statement isolated."""
    flags = np.zeros(count, bool)
    for outcomes in tried:
        flags[outcomes.isolates[outcomes.isolates >= 0]] = True
    return flags


def _describe_extremes(outer: StatementOutcomes) -> dict[str, Any]:
    if not len(outer.isolates):
        why = "no variable has an order, or a category that one released record has."
        return {"singled_out_by_extremes": math.nan, "singled_out_by_extremes_reason": why}
    return {
        "singled_out_by_extremes": outer.rate,
        # All extremes are tried, whatever the number of other statements.
        f"singled_out_by_extremes{AT_WORST}": outer.rate,
        "extremes_tried": len(outer.isolates),
        "extremes_by_weight": outer.by_weight,
    }


def _list_warnings(way: _Way) -> tuple[str, ...]:
    """Warn where the release helps, beyond what chance could do."""
    value, attempts = way.tried.rate, len(way.tried.isolates)
    # Only where both intervals are apart: chance alone may differ by less.
    if wilson(value, attempts)[0] <= wilson(way.baseline, attempts)[1]:
        return ()
    warning = (
        f"Statements made from the release ({way.title}) isolate one person in {value:.1%} of the "
        f"attempts, those of the control in {way.baseline:.1%}: the release tells persons apart."
    )
    return (warning,)
