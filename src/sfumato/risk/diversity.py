"""How many confidential values hide behind a class."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.classes import EqualClasses, equal_classes
from sfumato.cells.confidential import Coded, coded, confidential_variables
from sfumato.data import Dataset
from sfumato.evidence import Evidence, Subject
from sfumato.kernels.arrays import Floats
from sfumato.measure import Measure
from sfumato.parameters import parameters
from sfumato.risk._disclosure.scores import class_scores
from sfumato.risk._known import known_said, known_variables

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

    Parameters
    ----------
    known : the variables the outsider knows. Default: all whose role is "quasi".
    confidential : the variables nobody should learn. Default: all whose role is "sensitive".
    missing_confidential : what missing in a confidential variable is: one "value", or "none" at
        all. The other reading is reported too.
    c : of recursive diversity: how much commoner the commonest value may be.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [30, 30, 30, 41, 41], "ill": ["a", "a", "b", "a", None]})
    >>> data = sf.Dataset(frame, sf.Schema({"age": "quasi", "ill": "sensitive"}))
    >>> found = Diversity().measure(data)
    >>> found.value, found.details["l_if_missing_is_none"]
    (2, 1)

    References: Machanavajjhala, Kifer, Gehrke & Venkitasubramaniam (2007), l-diversity, ACM TKDD 1.
    """

    name = "diversity"
    direction = "higher"
    examples = (
        {},
        {
            "known": ["sex", "region"],
            "confidential": ["diagnosis", "income"],
            "missing_confidential": "none",
        },
    )
    provides = _NUMBERS
    reach = {  # noqa: RUF012 - a class variable by its base
        **dict.fromkeys(("diversity", *_NUMBERS), (0.0, math.inf)),
    }
    known: list[str] | None = None
    confidential: list[str] | None = None
    missing_confidential: Reading = "value"
    c: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3.0

    def look(self, data: Dataset, subject: Subject) -> Evidence:
        """Count the values in every class."""
        known = known_variables(self.known, data, subject)
        names = confidential_variables(self.confidential, known, data, subject)
        classes = equal_classes(data, known)
        other: Reading = "none" if self.missing_confidential == "value" else "value"
        fewest, others = np.full((2, len(classes)), np.inf)
        rows: list[dict[str, Any]] = []
        said: list[str] = []
        for name in names:
            one = coded(data, name)
            found = self._scores(one, classes, self.missing_confidential)
            fewest = np.minimum(fewest, found["distinct"])
            gaps = self._scores(one, classes, other) if one.missing else found
            others = np.minimum(others, gaps["distinct"])
            rows.append(_row(name, found))
            said += one.said
        table = pl.DataFrame(rows)
        return Evidence(
            name=self.name,
            subject=subject,
            value=int(fewest.min()),
            direction=self.direction,
            records=data.like(_records(fewest, classes)),
            table=data.like(table),
            details={
                "l": int(fewest.min()),
                "worst_variable": table["variable"][table[self.name].arg_min() or 0],
                **{number: min(table[number]) for number in _NUMBERS[1:]},
                "c": self.c,
                "reading_of_missing": self.missing_confidential,
                f"l_if_missing_is_{other}": int(others.min()),
                "classes": len(classes),
                "smallest_class": int(classes.sizes.min()),
                "known": ", ".join(known),
                "confidential": ", ".join(names),
            },
            assumptions=(
                known_said(known),
                _MISSING[self.missing_confidential],
                *dict.fromkeys(said),
            ),
            audience="public" if subject == "released" else "custodian",
        )

    def _scores(self, one: Coded, classes: EqualClasses, missing: Reading) -> dict[Kind, Floats]:
        """The l of every class in one variable."""
        from sfumato.kernels.clustering.rules import Rule

        codes = one.codes + np.int32(1) if one.missing and missing == "value" else one.codes
        counts = np.bincount(codes[codes >= 0])
        rules = [Rule(kind, 0.0, c=self.c) for kind in _KINDS]
        found = dict(zip(_KINDS, class_scores(classes, codes, counts, rules), strict=True))
        # The entropy of one value is 0 but for its last bit.
        found["entropy"] = np.maximum(found["entropy"], np.minimum(found["distinct"], 1))
        return found


def _row(name: str, found: dict[Kind, Floats]) -> dict[str, Any]:
    return {
        "variable": name,
        "diversity": int(found["distinct"].min()),
        "l_entropy": float(found["entropy"].min()),
        "l_recursive": int(found["recursive"].min()),
    }


def _records(fewest: Floats, classes: EqualClasses) -> pl.DataFrame:
    return pl.DataFrame(
        {"l": fewest[classes.of].astype(np.int64), "class_size": classes.sizes[classes.of]}
    )
