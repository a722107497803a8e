"""How often a statement made from the release alone isolates one original person."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.evidence import Evidence
from sfumato.measure import AttackWording, Measure
from sfumato.parameters import parameters
from sfumato.risk._attacks.attacker_view import VariableView, view_release
from sfumato.risk._attacks.statements import Form, StatementOutcomes, try_conjunctions, try_extremes
from sfumato.risk._known import known_variables
from sfumato.risk.linkage import wilson

_WORDS: dict[Form, str] = {
    "cells": "the values as they stand",
    "tails": "this much or more, or less",
}
_EXTREMES = "extremes and lone categories"
_ASSUMPTIONS = (
    "A statement isolates somebody if it holds for one original person and for no other.",
    "Ranges, sets, masks and * hold for every value they include; a missing cell says nothing.",
    "The control makes its statements from the same release with each variable shuffled.",
)


@parameters
class SinglingOut(Measure):
    """Share of statements, made from the release alone, that isolate one original person.

    Question: can somebody who knows nobody say "there is exactly one person who …", and be right?
    Assumes: the outsider has the released file and nothing else. From each of some released
    records they make a statement, variable by variable in an order of its own, until no other
    released record satisfies it, and say it of the original. Two ways are tried: the values as
    they stand ("sex is f and age is in [30;39]"), and tails ("at least 190 cm and at most 20
    years"). The value is the rate of the better way; the interval is Wilson's, 95 %.

    The baseline is the control: statements made in the same way, and narrowed down to as few
    released records, after each variable was shuffled by itself. They know which values there are,
    and no person. `singling_out_excess` is (value - baseline) / (1 - baseline), at least 0.
    Beside it: `singled_out_by_extremes`, the rate for statements of one variable: the least, the
    greatest, and categories that one released record has; NaN where there is none.

    Parameters
    ----------
    known : the variables that statements are made of. Default: all whose role is "quasi".
    individuals : make a statement from so many released records at most, picked without pattern.

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
    >>> SinglingOut(known=known).measure(data, method.apply(data)).value
    0.0

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
    examples = (
        {},
        {"known": ["sex", "region", "education", "height", "children"], "individuals": 100},
    )
    of = "pair"
    provides = ("singling_out_excess", "singled_out_by_extremes", "singled_out_records")
    reach = {  # noqa: RUF012 - a class variable by its base
        **dict.fromkeys(
            ("singling_out", "singling_out_excess", "singled_out_by_extremes"), (0.0, 1.0)
        ),
        "singled_out_records": (0.0, math.inf),
    }
    known: list[str] | None = None
    individuals: Annotated[int, Field(ge=1)] = 1000

    def compare(self, original: Dataset, released: Dataset) -> Evidence:
        """Make statements in both ways, and the same after shuffling."""
        known = known_variables(self.known, original, "original")
        views, warnings = view_release(original, released, known, owner=self.name)
        tried = {form: try_conjunctions(views, form, self.individuals) for form in _WORDS}
        control = {
            form: try_conjunctions(views, form, self.individuals, shuffled=True) for form in _WORDS
        }
        outer = try_extremes(views)
        # The outsider chooses the way that works better.
        best: Form = max(tried, key=lambda form: tried[form].rate)
        value, baseline = tried[best].rate, max(view.rate for view in control.values())
        flags = _flag_isolated(len(original), [*tried.values(), outer])
        table = [self._row(_WORDS[form], tried[form], control[form].rate) for form in tried]
        return Evidence(
            name=self.name,
            subject="pair",
            value=value,
            interval=wilson(value, len(tried[best].isolates)),
            direction=self.direction,
            baseline=baseline,
            records=original.like(pl.DataFrame({"singled_out": flags})),
            table=original.like(pl.DataFrame([*table, *self._extremes_row(outer)])),
            details={
                "singling_out_excess": max(0.0, (value - baseline) / (1 - baseline))
                if baseline < 1
                else 0.0,
                **_describe_extremes(outer),
                "singled_out_records": int(flags.sum()),
                "attempts": len(tried[best].isolates),
                "best_way": _WORDS[best],
                "chance_by_weight": tried[best].by_weight,
                "records": len(original),
                "variables": ", ".join(view.name for view in views),
            },
            assumptions=(_describe_variables(views), *_ASSUMPTIONS),
            warnings=(*warnings, *_list_warnings(value, baseline, len(tried[best].isolates))),
        )

    def _row(self, words: str, tried: StatementOutcomes, baseline: float) -> dict[str, Any]:
        low, high = wilson(tried.rate, len(tried.isolates))
        return {
            "statement": words,
            "attempts": len(tried.isolates),
            "isolated": int((tried.isolates >= 0).sum()),
            self.name: tried.rate,
            "low": low,
            "high": high,
            "baseline": baseline,
        }

    def _extremes_row(self, outer: StatementOutcomes) -> list[dict[str, Any]]:
        return [self._row(_EXTREMES, outer, outer.by_weight)] if len(outer.isolates) else []


def _describe_variables(views: list[VariableView]) -> str:
    return f"Statements are made of: {', '.join(view.name for view in views)}."


def _flag_isolated(count: int, tried: list[StatementOutcomes]) -> Any:
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
        "extremes_tried": len(outer.isolates),
        "extremes_by_weight": outer.by_weight,
    }


def _list_warnings(value: float, baseline: float, attempts: int) -> tuple[str, ...]:
    """Warn where the release helps, beyond what chance could do."""
    # Only where both intervals are apart: chance alone may differ by less.
    if wilson(value, attempts)[0] <= wilson(baseline, attempts)[1]:
        return ()
    warning = (
        f"Statements made from the release isolate one person in {value:.1%} of the attempts, "
        f"those of the control in {baseline:.1%}: the release tells persons apart."
    )
    return (warning,)
