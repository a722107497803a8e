"""How many confidential values hide behind a class."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.classes import EquivalenceClasses, classify_records
from sfumato.cells.confidential import (
    ConfidentialVariable,
    encode_confidential,
    select_confidential,
)
from sfumato.cells.overlaps import CellMeanings, describe_overlap, read_meanings
from sfumato.cells.same_values import TOLERANCE, unite_values
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.evidence import Evidence, Subject
from sfumato.kernels.arrays import Codes, Floats
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.risk._persons import (
    BY_PERSON,
    choose_audience,
    choose_readings,
    describe_choice,
)
from sfumato.risk.disclosure.class_scores import count_fewest_values, score_classes
from sfumato.risk.disclosure.united import IN_SPELLING, WorstReading
from sfumato.risk.known import describe_known, known_variables, require_records
from sfumato.units import count_codes

Reading = Literal["value", "none"]
Kind = Literal["distinct", "entropy", "recursive"]
_KINDS: tuple[Kind, ...] = ("distinct", "entropy", "recursive")
_MISSING = {
    "value": "Missing in a confidential variable is one value.",
    "none": "Missing in a confidential variable is no value; l is 0 where a class has none.",
}
_NUMBERS = ("l", "l_entropy", "l_recursive")


@parameters
class Diversity(Measure):
    """How many well-represented confidential values the worst class has: l.

    Question: having found the class of a person, between how many values does one have to guess?
    Assumes: the outsider knows the exact values of `known`. A class is the records that share them;
    missing is a value there. l counts different values; l_entropy is the exponential of their
    entropy in the class; l_recursive is the largest l for which the commonest value is rarer than
    c times all values from the l-th commonest on. Each is that of the worst class and variable.
    A person with several rows in a class counts once for each of their values there. Somebody who
    guesses the value that most persons of a class have is right for all of these, whatever else
    they have: targets are also held against each person counted once, with that value.

    Parameters
    ----------
    known : the variables the outsider knows. Default: all whose role is "quasi".
    confidential : the variables nobody should learn. Default: all whose role is "sensitive".
    missing_confidential : what missing in a confidential variable is: one "value", or "none" at
        all. The other reading is reported too. Targets are checked against the worst value that it
        may hide: the commonest of its class.
    c : constant of recursive diversity: how much commoner the commonest value may be.
    same_within : numbers that count as the same: those that differ by less than this share are one
        value, and texts that differ only in spelling are, and ranges and sets that share a value
        may be; targets are checked against the worst of these readings (`l_at_worst`).

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [30, 30, 30, 41, 41], "ill": ["a", "a", "b", "a", None]})
    >>> data = sf.Dataset(frame, sf.Schema({"age": "quasi", "ill": "sensitive"}))
    >>> found = Diversity().measure(data)
    >>> found.value, found.details["l_at_worst"]
    (2, 1)

    References: Machanavajjhala, Kifer, Gehrke & Venkitasubramaniam (2007), l-diversity, ACM TKDD 1.
    """

    name = "diversity"
    runs_on = ("local", "streaming", "spark")
    counts_persons = True
    of_secrets = True
    numbers = (
        Number.class_size("diversity", counts="values in a class", joined="held"),
        Number.class_size(
            "l",
            joined="held",
            counts="values in a class",
            meaning="Confidential values in the class that has fewest.",
            usual=True,
            also=("l_diversity",),
        ),
        Number.class_size("l_entropy", counts="values in a class", joined="measured"),
        Number.class_size("l_recursive", counts="values in a class", joined="measured"),
    )
    odd = {"one row": 1, "all missing": {0: 1, 1: 0}}
    examples = (
        {},
        {
            "known": ["sex", "region"],
            "confidential": ["diagnosis", "income"],
            "missing_confidential": "none",
        },
    )
    known: list[str] | None = None
    confidential: list[str] | None = None
    missing_confidential: Reading = "value"
    c: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3.0
    same_within: Annotated[float, Field(ge=0, lt=1)] = TOLERANCE

    def look(self, data: Dataset, subject: Subject, engine: Engine) -> Evidence:
        """Count the values in every class."""
        known = known_variables(self.known, data, subject)
        names = select_confidential(self.confidential, known, data, subject)
        records = classify_records(data, known, engine)
        require_records(records.rows.total)
        classes = records.classes
        other: Reading = "none" if self.missing_confidential == "value" else "value"
        fewest, others = np.full((2, len(classes)), np.inf)
        rows: list[dict[str, Any]] = []
        remarks: list[str] = []
        worst = WorstReading(min)
        for name in names:
            rows_of, classes_of = records.read([name])
            confidential = encode_confidential(rows_of, name, classes_of.units.counts)
            column = data.schema[name]
            scores = self._scores(confidential, classes_of, self.missing_confidential)
            fewest = np.minimum(fewest, scores["distinct"])
            gaps = self._scores(confidential, classes_of, other) if confidential.missing else scores
            others = np.minimum(others, gaps["distinct"])
            rows.append(_row(name, scores))
            numbers = _list_numbers(scores)
            for chosen in choose_readings(classes_of, confidential.codes):
                guessed = self._score_codes(chosen.codes, chosen.classes, filled=True)
                worst.add(numbers, _list_numbers(guessed), describe_choice(name), BY_PERSON)
            if confidential.missing:
                filled = self._scores(confidential, classes_of, "filled")
                worst.add_reading_without_missing(numbers, _list_numbers(filled), confidential)
            meanings = read_meanings(confidential, column, self.same_within)
            if meanings is not None and meanings.overlapping:
                overlapping = self._score_overlaps(confidential, meanings, classes_of)
                warning = describe_overlap(name, len(meanings))
                worst.add(numbers, _list_numbers(overlapping), warning, IN_SPELLING)
            else:
                for reading in unite_values(confidential, column, self.same_within):
                    united = self._scores(reading.variable, classes_of, "filled")
                    worst.add_united_reading(numbers, _list_numbers(united), reading)
            remarks += confidential.remarks
        table = pl.DataFrame(rows)
        l_plain = int(fewest.min())
        return Evidence(
            name=self.name,
            subject=subject,
            value=l_plain,
            direction=self.direction,
            records=records.rows.show_records(_records(fewest, classes)),
            table=data.like(table),
            details={
                "l": l_plain,
                "worst_variable": table["variable"][table[self.name].arg_min() or 0],
                **_find_least(table),
                **worst.judge({"diversity": l_plain, "l": l_plain, **_find_least(table)}),
                "c": self.c,
                "reading_of_missing": self.missing_confidential,
                f"l_if_missing_is_{other}": int(others.min()),
                "classes": len(classes),
                "smallest_class": int(classes.sizes.min()),
                "known": tuple(known),
                "confidential": tuple(names),
            },
            assumptions=(
                describe_known(known),
                *classes.units.describe(),
                _MISSING[self.missing_confidential],
                *dict.fromkeys(remarks),
                *worst.assumptions,
            ),
            warnings=tuple(worst.warnings),
            audience=choose_audience(data, subject, classes.units),
        )

    def _scores(
        self,
        confidential: ConfidentialVariable,
        classes: EquivalenceClasses,
        missing: Reading | Literal["filled"],
    ) -> dict[Kind, Floats]:
        """The l of every class in one variable; "filled" is by the worst filling."""
        codes = (
            confidential.codes + np.int32(1)
            if confidential.missing and missing == "value"
            else confidential.codes
        )
        return self._score_codes(codes, classes, filled=missing == "filled")

    def _score_codes(
        self, codes: Codes, classes: EquivalenceClasses, *, filled: bool
    ) -> dict[Kind, Floats]:
        from sfumato.kernels.clustering.closeness import ClosenessRule

        counts = count_codes(codes, classes.units.counts)
        rules = [ClosenessRule(kind, 0.0, c=self.c) for kind in _KINDS]
        by_kind = score_classes(classes, codes, counts, rules, filled=filled)
        scores = dict(zip(_KINDS, by_kind, strict=True))
        # The entropy of one value is 0 but for its last bit.
        scores["entropy"] = np.maximum(scores["entropy"], np.minimum(scores["distinct"], 1))
        return scores

    def _score_overlaps(
        self,
        confidential: ConfidentialVariable,
        meanings: CellMeanings,
        classes: EquivalenceClasses,
    ) -> dict[Kind, Floats]:
        """The least l of every class where cells may stand for the same value."""
        fewest = count_fewest_values(classes, confidential.codes, meanings)
        scores = self._score_codes(fewest.codes, fewest.classes, filled=True)
        return {**scores, "distinct": fewest.counts}


def _list_numbers(scores: dict[Kind, Floats]) -> dict[str, float]:
    """The numbers of one variable on which a target may be set."""
    row = _row("", scores)
    return {"diversity": row["diversity"], "l": row["diversity"]} | {
        number: row[number] for number in _NUMBERS[1:]
    }


def _find_least(table: pl.DataFrame) -> dict[str, float]:
    return {number: min(table[number]) for number in _NUMBERS[1:]}


def _row(name: str, scores: dict[Kind, Floats]) -> dict[str, Any]:
    return {
        "variable": name,
        "diversity": int(scores["distinct"].min()),
        "l_entropy": float(scores["entropy"].min()),
        "l_recursive": int(scores["recursive"].min()),
    }


def _records(fewest: Floats, classes: EquivalenceClasses) -> pl.DataFrame:
    return pl.DataFrame(
        {"l": fewest[classes.of].astype(np.int64), "class_size": classes.sizes[classes.of]}
    )
