"""Who can be singled out by exact values."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.engines.local import COUNT
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence, Subject
from sfumato.kernels.counts import wildcard_counts
from sfumato.measure import Measure
from sfumato.parameters import parameters

_WEIGHT = "__sfumato_weight__"
_SIZES = (1, 2, 3, 5, 10, 20, 50, 100)


@parameters
class Uniqueness(Measure):
    """Share of records that an outsider could single out by what is known of the person.

    Question: how many records have a combination of values that no other record shares?
    Assumes: the outsider knows that the person is in the data, and knows the exact values of
    `known`. A class is the records that share those values; k is the size of the smallest class.

    Parameters
    ----------
    known : the variables the outsider knows. Default: all whose role is "quasi".
    missing : what a missing value means: "value" (the outsider sees that it is missing, the
        stricter reading) or "wildcard" (it could be anything). The other reading is reported too.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"sex": ["f", "f", "m", "m"], "age": [30, 30, 30, 41]})
    >>> data = sf.Dataset(frame, sf.Schema({"sex": "quasi", "age": "quasi"}))
    >>> found = Uniqueness().measure(data)
    >>> found.value, found.details["k"]
    (0.5, 1)

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Eq. 1; El Emam
    (2013), Guide to the De-Identification of Personal Health Information (prosecutor,
    journalist and marketer risk).
    """

    name = "uniqueness"
    examples = ({}, {"known": ["sex", "region"], "missing": "wildcard"})
    provides = ("k", "prosecutor", "journalist", "marketer", "unique_records")
    known: list[str] | None = None
    missing: Literal["value", "wildcard"] = "value"

    def variables(self, data: Dataset) -> tuple[str, ...]:
        """What the outsider knows."""
        return data.schema.having("quasi") if self.known is None else tuple(self.known)

    def look(self, data: Dataset, subject: Subject) -> Evidence:
        """Count the classes and who is alone in one."""
        known = self._known(data, subject)
        if not len(data):
            raise MeasureError("There is no record to measure.", hint="are the data empty?")
        table = _classes(data, known)
        other = "wildcard" if self.missing == "value" else "value"
        details = _risks(table, self.missing)
        details["reading_of_missing"] = self.missing
        details[f"k_if_missing_is_{other}"] = int(table[other].min())  # type: ignore[arg-type]
        details[f"uniqueness_if_missing_is_{other}"] = _alone(table, other)
        listed = ", ".join(known) or "nothing that is left in the data"
        return Evidence(
            name=self.name,
            subject=subject,
            value=_alone(table, self.missing),
            direction=self.direction,
            records=self._records(data, table, known),
            table=data.like(_distribution(table, self.missing)),
            details={**details, "known": ", ".join(known)},
            assumptions=(
                f"The outsider knows that the person is in the data, and knows exactly: {listed}.",
                "Missing counts as a value of its own."
                if self.missing == "value"
                else "Missing could be any value.",
            ),
            audience="public" if subject == "released" else "custodian",
        )

    def _known(self, data: Dataset, subject: Subject) -> tuple[str, ...]:
        known = self.variables(data)
        if subject == "released":
            # What the release left out, nobody can compare with.
            return tuple(name for name in known if name in data.schema)
        data.schema.require(known)
        if not known:
            raise MeasureError(
                "No variable is declared as known to outsiders.",
                hint='give some variables the role "quasi", or name them: known = [...].',
            )
        return known

    def _records(self, data: Dataset, table: pl.DataFrame, known: tuple[str, ...]) -> Any:
        sizes = table.select(*known, pl.col(self.missing).alias("class_size"))

        def rows(batch: pl.DataFrame, _: object) -> pl.DataFrame:
            found = (
                batch.join(
                    sizes, on=list(known), how="left", nulls_equal=True, maintain_order="left"
                )
                if known
                else pl.DataFrame({"class_size": [len(data)] * len(data)})
            )
            return found.select(
                "class_size",
                (1 / pl.col("class_size")).alias("risk"),
                (pl.col("class_size") == 1).alias("unique"),
            )

        return data.like(rows(data.batch(known), None))


def _classes(data: Dataset, known: tuple[str, ...]) -> pl.DataFrame:
    """The distinct combinations with `count` and the class size under both readings."""
    engine = engine_for(data.frame)
    table = engine.distinct(data, known)
    weight = data.schema.having("weight")
    if weight:
        # How many people of the population each class stands for.
        held = data.batch([*known, weight[0]])
        totals = held.group_by(*known) if known else held.group_by(pl.lit(1))
        sums = totals.agg(pl.col(weight[0]).cast(pl.Float64).sort().sum().alias(_WEIGHT))
        table = (
            table.join(sums, on=list(known), how="left", nulls_equal=True)
            if known
            else table.with_columns(sums[_WEIGHT])
        )
    codes = [table[name].rank("dense").cast(pl.Int64).fill_null(0) - 1 for name in known]
    matrix = np.column_stack(codes) if codes else np.zeros((table.height, 0), np.int64)
    sizes = wildcard_counts(matrix, table[COUNT].to_numpy())
    return table.with_columns(pl.col(COUNT).alias("value"), pl.Series("wildcard", sizes))


def _alone(table: pl.DataFrame, reading: str) -> float:
    alone = table.filter(pl.col(reading) == 1)[COUNT].sum()
    return int(alone) / int(table[COUNT].sum())


def _risks(table: pl.DataFrame, reading: str) -> dict[str, Any]:
    records = int(table[COUNT].sum())
    smallest = int(table[reading].min())  # type: ignore[arg-type]
    share = float((table[COUNT] / table[reading]).sum()) / records
    details: dict[str, Any] = {
        "k": smallest,
        "unique_records": int(table.filter(pl.col(reading) == 1)[COUNT].sum()),
        "records": records,
        "classes": table.height,
        "prosecutor": 1 / smallest,
        "marketer": share,
    }
    if _WEIGHT in table.columns:
        people = table[_WEIGHT]
        known = people.null_count() == 0 and bool((people >= table[COUNT]).all())
        details["journalist"] = 1 / float(people.min()) if known else math.nan  # type: ignore[arg-type]
        if not known:
            details["journalist_reason"] = "the survey weights are missing or sum to less than 1."
    else:
        details["journalist"] = math.nan
        details["journalist_reason"] = (
            "no variable has the role weight, so the population is unknown."
        )
    return details


def _distribution(table: pl.DataFrame, reading: str) -> pl.DataFrame:
    """How many records and classes there are by class size."""
    edges = list(zip(_SIZES, [*(low - 1 for low in _SIZES[1:]), None], strict=True))
    rows = []
    for low, high in edges:
        inside = pl.col(reading) >= low
        if high is not None:
            inside &= pl.col(reading) <= high
        part = table.filter(inside)
        label = str(low) if high == low else f"{low}-{high}" if high else f"{low} or more"
        rows.append((label, int(part[COUNT].sum()), part.height))
    return pl.DataFrame(rows, schema=["class_size", "records", "classes"], orient="row")
