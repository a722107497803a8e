"""Who can be singled out where values are ranges, sets, masks or wildcards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Literal, Self

import polars as pl
from pydantic import Field, model_validator

from sfumato.cells.boxes import Boxes, Missing, read_boxes
from sfumato.cells.fitting import Fitting, find_fitting
from sfumato.data import Dataset
from sfumato.engines import Engine, Rows
from sfumato.evidence import Evidence, Subject
from sfumato.kernels.trees.box_cells import COVERED, UNDECIDED
from sfumato.measure import AT_WORST, AttackWording, Measure
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.risk._persons import choose_audience
from sfumato.risk.known import (
    Groups,
    check_groups,
    describe_known,
    known_variables,
    list_combinations,
    require_records,
    warn_of_unknown_variables,
)
from sfumato.units import Units

_WORST = "The true values are those, among all that a record may stand for, that fewest others fit."
_MISSING = {
    "value": "Missing counts as a value of its own, which no wildcard includes.",
    "wildcard": "Missing could be any value.",
}
_SIZES = (1, 2, 3, 5, 10, 20, 50, 100)


@dataclass(frozen=True, eq=False)
class _Read:
    """The variables under both meanings of missing, those with gaps, and whom rows are about."""

    value: Boxes
    wildcard: Boxes
    gaps: frozenset[str]
    units: Units


@parameters
class Reidentification(Measure):
    """Share of records that an outsider could single out, even if values are generalised.

    Question: how many records may stand for a combination of values that no other record fits?
    Assumes: the outsider knows that the person is in the data, and knows the exact values of
    `known`. A record fits values if each of its cells includes them: `[24;28]` includes 26,
    `937**` every code from 93700 to 93799, `{a;b}` both, `*` anything. The worst case is taken,
    over all variables jointly. What is not decided within the budget counts as unique. How many
    records fit is a bound from below (`class_sizes` says when it is exact): as many as have the
    same cells or, where cells are nested, cells around them; and two at least where others hide
    the record. The other way round, `k_of_persons` says of how many persons the true values fit
    any record at least: of as many as have records within its cells. Targets are checked against
    the worse of both ways (`reidentification_at_worst`, `k_by_fitting_at_worst`), since who knows
    everybody's true values may begin with a record as well as with a person: 39 times `[0;100]`
    hide the record `50` from somebody who looks for a person of 50; but nobody else is sure to be
    50, so who begins with this record may find one person. `guess`, the share of persons that a
    guess among those who fit gets right, is a bound from above. Where persons have several rows,
    all numbers count persons, each by the row that hides least: a person hides another if one row
    of theirs has the same cells or cells around them. A person's own other rows hide nothing.

    Parameters
    ----------
    known : the variables the outsider knows. Default: all whose role is "quasi".
    missing : what a missing value means: "value" (the outsider sees that it is missing) or
        "wildcard" (it could be anything). The other reading is reported too. With "wildcard",
        targets are checked against the worse of both readings (`k_by_fitting_at_worst`): that a
        blank record fits everybody does not hide the others from who looks for an exact match.
    budget : most comparisons that may be made for one record.
    groups : what outsiders may know together: up to six lists of variables by name. The table then
        has the risk for every combination of groups, and not the class sizes.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> age = sf.Column(role="quasi", kind="integer", cells="generalised")
    >>> frame = pl.DataFrame({"age": ["26", "[24;28]", "70", "70"], "sex": ["f", "f", "f", "m"]})
    >>> data = sf.Dataset(frame, sf.Schema({"age": age, "sex": "quasi"}))
    >>> found = Reidentification(known=["age"]).measure(data)
    >>> found.value, found.records["unique"].to_list()
    (0.25, [False, True, False, False])
    >>> found = Reidentification(groups={"years": ["age"], "person": ["sex"]}).measure(data)
    >>> found.table.select("known", "reidentification").rows()
    [('years', 0.25), ('person', 0.25), ('years + person', 0.75)]

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Eq. 1 and Fig. S3.
    """

    name = "reidentification"
    runs_on = ("local", "streaming", "spark")
    counts_persons = True
    attack = AttackWording(
        title="Standing alone",
        control="in the original",
        sentence="{success} of the released records may stand for values that no other record "
        "fits.",
        verdict="",
    )
    picture = "known_groups"
    odd = {"one row": 1, "all missing": 0}
    examples = (
        {},
        {"known": ["sex", "region", "birth_date"], "missing": "wildcard"},
        {"groups": {"census": ["sex", "education"], "spatial": ["region"]}},
    )
    numbers = (
        Number.share("reidentification", usual=True),
        Number.count("reidentifiable_records"),
        Number.count("undecided_records"),
        Number.share("guess"),
        Number.class_size("k_by_fitting"),
        Number.class_size("k_of_persons"),
    )
    known: list[str] | None = None
    missing: Literal["value", "wildcard"] = "value"
    budget: Annotated[int, Field(ge=0, le=2**62)] = 10_000
    groups: Groups | None = None

    @model_validator(mode="after")
    def _few_groups_of_something(self) -> Self:
        check_groups(self.groups)
        return self

    def look(self, data: Dataset, subject: Subject, engine: Engine) -> Evidence:
        """Find the records that others do not cover."""
        known = known_variables(self.known, data, subject)
        combined = dict(list_combinations(self.groups, data, subject))
        named = tuple(dict.fromkeys(chain(known, *combined.values())))
        rows_of = engine.tabulate(data, named)
        require_records(rows_of.total)
        read = _read_boxes(rows_of, named)
        fitting, others = readings = self._both(read, known)
        rows = [
            self._row(
                label, names, *(readings if {*names} == {*known} else self._both(read, names))
            )
            for label, names in combined.items()
        ]
        return Evidence(
            name=self.name,
            subject=subject,
            value=fitting.share,
            direction=self.direction,
            records=rows_of.show_records(_records(fitting)),
            table=data.like(pl.DataFrame(rows) if rows else _distribution(fitting)),
            details={
                "reidentifiable_records": fitting.unique,
                "undecided_records": fitting.undecided,
                "records": rows_of.total,
                **read.units.details(),
                "guess": fitting.guess,
                "k_by_fitting": fitting.smallest,
                "class_sizes": _describe_sizes(fitting),
                "reading_of_missing": self.missing,
                self._other_reading: others.share,
                "k_of_persons": fitting.fewest_persons,
                **self._judge(fitting, others),
                "known": tuple(known),
            },
            assumptions=(
                describe_known(known),
                *read.units.describe(),
                _WORST,
                _MISSING[self.missing],
            ),
            warnings=(
                *_warn_of_undecided_records(fitting),
                *warn_of_unknown_variables(known, combined),
                *_describe_lone_records(fitting),
                *_describe_literals(read.value),
            ),
            audience=choose_audience(data, subject, read.units),
        )

    @property
    def _other_reading(self) -> str:
        other = "wildcard" if self.missing == "value" else "value"
        return f"reidentification_if_missing_is_{other}"

    def _both(self, read: _Read, names: tuple[str, ...]) -> tuple[Fitting, Fitting]:
        """By the declared meaning of missing, and by the other."""
        boxes = (read.value, read.wildcard)
        declared, other = boxes if self.missing == "value" else boxes[::-1]
        fitting = find_fitting(declared, names, budget=self.budget, units=read.units)
        # Without missing values both readings are the same.
        if read.gaps.isdisjoint(names):
            return fitting, fitting
        return fitting, find_fitting(other, names, budget=self.budget, units=read.units)

    def _judge(self, fitting: Fitting, others: Fitting) -> dict[str, Any]:
        """What targets are checked against: the worse of both directions, and of both readings."""
        readings = (fitting, others) if self.missing == "wildcard" else (fitting,)
        persons = min(reading.fewest_persons for reading in readings)
        exposed = max(reading.exposed for reading in readings)
        worst: dict[str, Any] = {
            "reidentification": exposed / fitting.records,
            "reidentifiable_records": exposed,
            "guess": max(max(reading.guess, reading.guess_of_persons) for reading in readings),
            "k_by_fitting": min(persons, *(reading.smallest for reading in readings)),
        }
        if self.missing == "wildcard":
            worst |= {
                "undecided_records": max(reading.undecided for reading in readings),
                "k_of_persons": persons,
            }
        return {f"{number}{AT_WORST}": value for number, value in worst.items()}

    def _row(
        self, label: str, names: tuple[str, ...], fitting: Fitting, others: Fitting
    ) -> dict[str, Any]:
        """The risk by what is known, under both meanings of missing."""
        return {
            "known": label,
            "variables": ", ".join(names),
            "reidentification": fitting.share,
            self._other_reading: others.share,
            "guess": fitting.guess,
            "k_by_fitting": fitting.smallest,
            "class_sizes": _describe_sizes(fitting),
            "undecided_records": fitting.undecided,
        }


def _read_boxes(rows: Rows, names: tuple[str, ...]) -> _Read:
    gaps = frozenset(name for name in names if rows.data.column(name).null_count())
    readings: tuple[Missing, ...] = ("value", "wildcard") if gaps else ("value",)
    boxes = [read_boxes(rows.data, names, missing=m, counts=rows.counts) for m in readings]
    return _Read(boxes[0], boxes[-1], gaps, rows.units)


def _describe_sizes(fitting: Fitting) -> str:
    return "exact" if fitting.exact else "lower bounds"


def _warn_of_undecided_records(fitting: Fitting) -> Iterator[str]:
    if fitting.undecided:
        yield (
            f"{fitting.undecided} records could not be decided within the budget and count as "
            "unique. A larger budget may show that others cover them."
        )


def _describe_lone_records(fitting: Fitting) -> Iterator[str]:
    """A warning where records are hidden by wider ones only."""
    lone = fitting.count((fitting.status == COVERED) & (fitting.persons == 1))
    if lone:
        yield (
            f"{lone} records are hidden only by records that may be anybody's: nobody else is sure "
            "to have values that fit them. Who knows everybody's true values may match them "
            "exactly; see k_of_persons."
        )


def _describe_literals(boxes: Boxes) -> Iterator[str]:
    for name, count in boxes.literals.items():
        yield (
            f"'{name}' has {count} cells that look like ranges, sets, masks or `*`. They are taken "
            'as values like any other; declare cells = "generalised" if they stand for several.'
        )


def _records(fitting: Fitting) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "unique": fitting.status != COVERED,
            "undecided": fitting.status == UNDECIDED,
            "class_size_at_least": fitting.sizes,
        }
    )


def _distribution(fitting: Fitting) -> pl.DataFrame:
    """How many records there are by how many fit them at least."""
    sizes = fitting.sizes
    rows: list[tuple[Any, ...]] = []
    for low, after in zip(_SIZES, [*_SIZES[1:], None], strict=True):
        mask = sizes >= low if after is None else (sizes >= low) & (sizes < after)
        label = f"{low} or more" if after is None else f"{low}-{after - 1}"
        rows.append((str(low) if after == low + 1 else label, fitting.count(mask)))
    return pl.DataFrame(rows, schema=["class_size", "records"], orient="row")
