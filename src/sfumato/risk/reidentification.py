"""Who can be singled out where values are ranges, sets, masks or wildcards."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.evidence import Evidence, Subject
from sfumato.generalised.cells import Missing, boxes
from sfumato.kernels.boxes import COVERED, UNDECIDED, classes, covered
from sfumato.known import known_said, known_variables
from sfumato.measure import Measure
from sfumato.parameters import parameters

_WORST = "The true values are those, among all that a record may stand for, that fewest others fit."
_MISSING = {
    "value": "Missing counts as a value of its own, which no wildcard includes.",
    "wildcard": "Missing could be any value.",
}
_SIZES = (1, 2, 3, 5, 10, 20, 50, 100)
Status = npt.NDArray[np.int8]
Sizes = npt.NDArray[np.int64]


@parameters
class Reidentification(Measure):
    """Share of records that an outsider could single out, even if values are generalised.

    Question: how many records may stand for a combination of values that no other record fits?
    Assumes: the outsider knows that the person is in the data, and knows the exact values of
    `known`. A record fits values if each of its cells includes them: `[24;28]` includes 26,
    `937**` every code from 93700 to 93799, `{a;b}` both, `*` anything. The worst case is taken,
    over all variables jointly. What is not decided within the budget counts as unique.

    Parameters
    ----------
    known : the variables the outsider knows. Default: all whose role is "quasi".
    missing : what a missing value means: "value" (the outsider sees that it is missing) or
        "wildcard" (it could be anything). The other reading is reported too.
    budget : how many comparisons may be made for one record.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> age = sf.Column(role="quasi", kind="integer")
    >>> frame = pl.DataFrame({"age": ["26", "[24;28]", "70", "70"]})
    >>> found = Reidentification().measure(sf.Dataset(frame, sf.Schema({"age": age})))
    >>> found.value, found.records["unique"].to_list()
    (0.25, [False, True, False, False])

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Eq. 1.
    """

    name = "reidentification"
    examples = ({}, {"known": ["sex", "region", "birth_date"], "missing": "wildcard"})
    provides = ("reidentifiable_records", "undecided_records", "guess", "k_by_fitting")
    reach = {  # noqa: RUF012 - a class variable by its base
        **dict.fromkeys(("reidentification", "guess"), (0.0, 1.0)),
        **dict.fromkeys(("reidentifiable_records", "undecided_records"), (0.0, math.inf)),
        "k_by_fitting": (1.0, math.inf),
    }
    known: list[str] | None = None
    missing: Literal["value", "wildcard"] = "value"
    budget: Annotated[int, Field(ge=0)] = 10_000

    def look(self, data: Dataset, subject: Subject) -> Evidence:
        """Find the records that others do not cover."""
        known = known_variables(self.known, data, subject)
        other: Missing = "wildcard" if self.missing == "value" else "value"
        status, sizes = self._read(data, known, self.missing)
        gaps = any(data.column(name).null_count() for name in known)
        others = self._read(data, known, other)[0] if gaps else status
        undecided, listed = int((status == UNDECIDED).sum()), ", ".join(known)
        return Evidence(
            name=self.name,
            subject=subject,
            value=_unique(status),
            direction=self.direction,
            records=data.like(_records(status, sizes)),
            table=data.like(_distribution(sizes)),
            details={
                "reidentifiable_records": int((status != COVERED).sum()),
                "undecided_records": undecided,
                "records": len(data),
                "guess": _guess(sizes),
                "k_by_fitting": int(sizes.min()),
                "reading_of_missing": self.missing,
                f"reidentification_if_missing_is_{other}": _unique(others),
                "known": listed,
            },
            assumptions=(known_said(known), _WORST, _MISSING[self.missing]),
            warnings=(_undecided(undecided),) if undecided else (),
            audience="public" if subject == "released" else "custodian",
        )

    def _read(
        self, data: Dataset, known: tuple[str, ...], missing: Missing
    ) -> tuple[Status, Sizes]:
        """Whether others cover each record, and how many records fit it at least.

        Equal records all fit each other, and one that is covered has another that fits.
        """
        made = boxes(data, known, missing=missing)
        status = covered(made.cells, made.tables, budget=self.budget)
        alike = classes(made.cells, [len(table) for table in made.tables])
        return status, np.maximum(alike.counts[alike.of], np.where(status == COVERED, 2, 1))


def _unique(status: Status) -> float:
    return int((status != COVERED).sum()) / len(status)


def _guess(sizes: Sizes) -> float:
    """The highest share of records that guessing among those that fit would get right."""
    each, counts = np.unique(sizes, return_counts=True)
    return math.fsum(counts / each) / len(sizes)


def _undecided(records: int) -> str:
    return (
        f"{records} records could not be decided within the budget and count as unique. "
        "A larger budget may show that others cover them."
    )


def _records(status: Status, sizes: Sizes) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "unique": status != COVERED,
            "undecided": status == UNDECIDED,
            "class_size_at_least": sizes,
        }
    )


def _distribution(sizes: Sizes) -> pl.DataFrame:
    """How many records there are by how many fit them at least."""
    rows: list[tuple[Any, ...]] = []
    for low, after in zip(_SIZES, [*_SIZES[1:], None], strict=True):
        inside = sizes >= low if after is None else (sizes >= low) & (sizes < after)
        label = f"{low} or more" if after is None else f"{low}-{after - 1}"
        rows.append((str(low) if after == low + 1 else label, int(inside.sum())))
    return pl.DataFrame(rows, schema=["class_size", "records"], orient="row")
