"""How much an outsider learns about confidential variables from a class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.classes import EquivalenceClasses, classify_records
from sfumato.cells.confidential import count_by_class, encode_confidential, select_confidential
from sfumato.cells.ground_distance import Distance, GroundDistance, choose_ground_distance
from sfumato.cells.same_values import TOLERANCE, unite_values
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.evidence import Evidence, Subject
from sfumato.kernels.arrays import Floats
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.risk._persons import (
    BY_PERSON,
    choose_audience,
    choose_readings,
    describe_choice,
)
from sfumato.risk.disclosure.class_scores import score_classes
from sfumato.risk.disclosure.united import WorstReading
from sfumato.risk.known import describe_known, known_variables, require_records

_ASSUMPTIONS = (
    "Everybody knows how each confidential variable is distributed in all released records.",
    "Missing in a confidential variable is one value, below all others where they are ordered.",
    "beta is about values that are commoner in a class than in all records.",
    "delta is about values that a class has; delta_strict is infinite where a class lacks a value.",
)
_INFINITE = "it is infinite, since some class lacks a value that others have."


@parameters
class Closeness(Measure):
    """How far a class is from all records in its confidential variables: t, beta, delta.

    Question: how much more does an outsider know about a person after finding the class?
    Assumes: the outsider knows the exact values of `known`, and how the confidential variables are
    distributed in all released records. A class is the records that share the values of `known`;
    missing is a value there. t is the earth mover's distance between the distribution in a class
    and that in all records, for the worst class and variable. beta is the largest relative gain
    (q - p) / p of a value's share, delta the largest |log(q / p)| of a value that a class has.
    A person with several rows in a class counts once for each of their values there. For beta and
    delta, shares are of persons. Targets on t are also held against each person counted once: with
    the value that most of the class have, the one that tells most about it, their least or their
    greatest.

    Parameters
    ----------
    known : the variables the outsider knows. Default: all whose role is "quasi".
    confidential : the variables nobody should learn. Default: all whose role is "sensitive".
    distance : how far apart values are: "ordered" (by their places in the order), "equal", or
        "hierarchical" (by the schema's hierarchy). "auto": ordered for numbers, dates and declared
        levels, hierarchical for categories with a hierarchy, else equal.
    same_within : numbers that count as the same: those that differ by less than this share are one
        value, and texts that differ only in spelling are. Targets are checked against the worst of
        these readings, and of that among the records of which no value is missing (`t_at_worst`).

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [30, 30, 41, 41], "charge": [100, 200, 300, 400]})
    >>> data = sf.Dataset(frame, sf.Schema({"age": "quasi", "charge": "sensitive"}))
    >>> found = Closeness().measure(data)
    >>> round(found.value, 3), found.details["beta"]
    (0.333, 1.0)

    References: Li, Li & Venkatasubramanian (2007), t-closeness, ICDE; Cao & Karras (2012),
    Publishing microdata with a robust privacy guarantee, PVLDB 5 (basic beta-likeness); Brickell &
    Shmatikov (2008), The cost of privacy, KDD (delta-disclosure).
    """

    name = "closeness"
    runs_on = ("local", "streaming", "spark")
    counts_persons = True
    of_secrets = True
    odd = {"one row": 0, "all missing": 0}
    examples = (
        {},
        {"known": ["sex", "region"], "confidential": ["income", "diagnosis", "smoking"]},
        {"known": ["sex"], "confidential": ["diagnosis", "systolic"], "distance": "equal"},
    )
    numbers = (
        Number.share("closeness", joined="held"),
        Number.share(
            "t",
            joined="held",
            meaning="How far the confidential values of a class may be from those of all records.",
            usual=True,
            also=("t_closeness",),
        ),
        Number.score("beta", safer="less", useful="neither", lowest=0.0, joined="measured"),
        Number.score("delta", safer="less", useful="neither", lowest=0.0),
    )
    known: list[str] | None = None
    confidential: list[str] | None = None
    distance: Distance = "auto"
    same_within: Annotated[float, Field(ge=0, lt=1)] = TOLERANCE

    def look(self, data: Dataset, subject: Subject, engine: Engine) -> Evidence:
        """Compare every class with all records."""
        known = known_variables(self.known, data, subject)
        names = select_confidential(self.confidential, known, data, subject)
        records = classify_records(data, known, engine)
        require_records(records.rows.total)
        classes = records.classes
        worst, rows, remarks, constant = np.zeros(len(classes)), [], [], []
        united = WorstReading(max)
        for name in names:
            rows_of, classes_of = records.read([name])
            confidential = encode_confidential(rows_of, name, classes_of.units.counts)
            by = choose_ground_distance(data, confidential, self.distance)
            far = distances(by, classes_of)
            worst = np.maximum(worst, far)
            rows.append({"variable": name, self.name: float(far.max()), **_gains(by, classes_of)})
            rows[-1]["distance"] = by.distance
            remarks += [by.remarks, *confidential.remarks]
            constant += [name] if len(by.counts) == 1 else []
            column = data.schema[name]
            numbers = _list_numbers(float(far.max()), rows[-1])
            for chosen in choose_readings(classes_of, by.codes):
                counts = np.bincount(chosen.codes, None, len(by.counts))
                again = replace(by, codes=chosen.codes, counts=counts)
                t = float(distances(again, chosen.classes).max())
                united.add(numbers, {"closeness": t, "t": t}, describe_choice(name), BY_PERSON)
            if by.missing and len(by.counts) > 1:
                united.add_reading_without_missing(
                    numbers, _measure_present(by, classes_of), confidential
                )
            for reading in unite_values(confidential, column, self.same_within, apart=True):
                again = choose_ground_distance(data, reading.variable, self.distance)
                t = float(distances(again, classes_of).max())
                united.add_united_reading(
                    numbers, _list_numbers(t, _gains(again, classes_of)), reading
                )
                if again.missing and len(again.counts) > 1:
                    united.add_united_reading(numbers, _measure_present(again, classes_of), reading)
        table = pl.DataFrame(rows)
        strict = max(table["delta_strict"])
        largest = {number: max(table[number]) for number in ("beta", "delta")}
        t_plain = float(worst.max())
        return Evidence(
            name=self.name,
            subject=subject,
            value=t_plain,
            direction=self.direction,
            records=records.rows.show_records(_records(worst, classes)),
            table=data.like(table.drop("delta_strict")),
            details={
                "t": t_plain,
                **largest,
                **united.judge({"closeness": t_plain, "t": t_plain, **largest}),
                "delta_strict": strict,
                **({"delta_strict_reason": _INFINITE} if math.isinf(strict) else {}),
                "worst_variable": table["variable"][table[self.name].arg_max() or 0],
                "classes": len(classes),
                "smallest_class": int(classes.sizes.min()),
                "known": tuple(known),
                "confidential": tuple(names),
            },
            assumptions=(
                describe_known(known),
                *classes.units.describe(),
                *_ASSUMPTIONS,
                *dict.fromkeys(remarks),
                *united.assumptions,
            ),
            warnings=(*map(_describe_constant, constant), *united.warnings),
            audience=choose_audience(data, subject, classes.units),
        )


def distances(by: GroundDistance, classes: EquivalenceClasses) -> Floats:
    """The t of every class in one variable."""
    from sfumato.kernels.clustering.closeness import ClosenessRule

    rule = ClosenessRule("ordered" if by.distance == "ordered" else "equal", 0.0, tree=by.tree)
    return score_classes(classes, by.codes, by.counts, [rule])[0]


def _measure_present(by: GroundDistance, classes: EquivalenceClasses) -> dict[str, float]:
    """The numbers of one variable among the records that have a value."""
    present = by.leave_out_missing()
    return _list_numbers(float(distances(present, classes).max()), _gains(present, classes))


def _list_numbers(t: float, gains: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of one variable on which a target may be set."""
    return {"closeness": t, "t": t, "beta": gains["beta"], "delta": gains["delta"]}


def _gains(by: GroundDistance, classes: EquivalenceClasses) -> dict[str, float]:
    """The beta and delta of the worst class and value; counts are multiplied as whole numbers."""
    sizes, total, present = classes.sizes, classes.total, by.codes >= 0
    if not present.all():
        sizes, total = classes.count_some(present), classes.units.count_among(present)
    overall = classes.units.count_groups(by.codes, len(by.counts))
    both = count_by_class(classes, by.codes, len(by.counts))
    observed = both.counts * total
    expected = sizes[both.at] * overall[both.code]
    ratios = observed / expected
    # delta-disclosure: the largest log ratio of a value's share in a class to that in all.
    delta = max(math.log(ratios.max()), -math.log(ratios.min()))
    complete = len(both.at) == len(classes) * len(by.counts)
    return {
        "beta": float(((observed - expected) / expected).max()),
        "delta": delta,
        "delta_strict": delta if complete else math.inf,
    }


def _records(worst: Floats, classes: EquivalenceClasses) -> pl.DataFrame:
    columns: dict[str, Any] = {"t": worst[classes.of], "class_size": classes.sizes[classes.of]}
    return pl.DataFrame(columns)


def _describe_constant(name: str) -> str:
    return (
        f"All records have one value of '{name}', so t is 0 there although anybody knows it of "
        "everybody. Look at diversity and attribute_disclosure."
    )
