"""Who can be singled out by exact values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato.cells.classes import ClassifiedRecords, classify_records
from sfumato.cells.codes import encode
from sfumato.data import Dataset, find_missing_codes
from sfumato.engines import Engine
from sfumato.engines.local import count_combinations
from sfumato.errors import MethodError
from sfumato.evidence import Evidence, Subject
from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.lattice.wildcards import count_fitting
from sfumato.measure import AT_WORST, Measure
from sfumato.parameters import parameters
from sfumato.risk._known import describe_known, known_variables, require_records
from sfumato.schema import Schema

_MISSING = {
    "value": "Missing counts as a value of its own.",
    "wildcard": "Missing could be any value, also one that no other record has. The size of a "
    "class is the number of records that fit it whatever that value is, or of persons whose true "
    "values fit the record, whichever is smaller.",
}
_UNDERSTATED = 1.1
"""How much larger the individual risk is than the journalist's before it is worth a warning."""
_TERMS, _MANY = 200, 10
"""Terms of a series, and the class size from which they are enough for all digits."""
_SIZES = (1, 2, 3, 5, 10, 20, 50, 100)
_OF_POPULATION = ("journalist", "individual_risk")
_OF_GROUPS = ("k_of_groups", "k_if_clusters_are_known")


@parameters
class Uniqueness(Measure):
    """Share of records that an outsider could single out by what is known of the person.

    Question: how many records have a combination of values that no other record shares?
    Assumes: the outsider knows that the person is in the data, and knows the exact values of
    `known`. A class is the records that share those values; k is the size of the smallest class.

    Where survey weights are known: `journalist`, 1 over the number of people that the smallest
    class stands for; and `individual_risk`, the largest chance to be found given the sample. The
    first takes the estimated number for the true one, which understates: of a class with one
    record of weight 100 there may be far fewer people. Targets on either are held against
    `individual_risk`.

    Parameters
    ----------
    known : the variables the outsider knows. Default: all whose role is "quasi".
    missing : what a missing value means: "value" (the outsider sees that it is missing, the
        stricter reading) or "wildcard" (it could be anything). The other reading is reported too.
        With "wildcard", sizes are by fitting: how many records fit a person's true values at
        least, and how many persons fit a record at least, whichever is smaller. Targets are held
        against the worse of that and of records that show just the same (`k_at_worst`): who has
        everybody's true values can match all records at once.

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
    journalist and marketer risk); Benedetti & Franconi (1998), Statistical and technological
    solutions for controlled data dissemination (individual risk).
    """

    name = "uniqueness"
    runs_on = ("local", "streaming", "spark")
    examples = ({}, {"known": ["sex", "region"], "missing": "wildcard"})
    provides = (
        "k", "prosecutor", "journalist", "individual_risk", "marketer", "unique_records",
        "k_of_groups", "k_if_clusters_are_known",
    )  # fmt: skip
    reach = {  # noqa: RUF012 - a class variable by its base
        **dict.fromkeys(
            ("uniqueness", "prosecutor", "journalist", "individual_risk", "marketer"), (0.0, 1.0)
        ),
        **dict.fromkeys(("k", "k_of_groups", "k_if_clusters_are_known"), (1.0, math.inf)),
        "unique_records": (0.0, math.inf),
    }
    known: list[str] | None = None
    missing: Literal["value", "wildcard"] = "value"

    def look(self, data: Dataset, subject: Subject, engine: Engine) -> Evidence:
        """Count the classes and who is alone in one."""
        known = known_variables(self.known, data, subject)
        records = classify_records(data, known, engine)
        require_records(records.rows.total)
        counts = records.classes.sizes
        fitting, alike = _count_with_wildcards(records)
        readings = {"value": counts, "wildcard": fitting}
        sizes = readings.pop(self.missing)
        (other, others), names = readings.popitem(), ", ".join(known)
        population = _estimate_population(records)
        return Evidence(
            name=self.name,
            subject=subject,
            value=_share_unique(counts, sizes),
            direction=self.direction,
            records=records.rows.show_records(_records(sizes[records.classes.of])),
            table=data.like(_distribution(counts, sizes)),
            details={
                **_risks(counts, sizes),
                **population,
                **_count_with_clusters(records),
                "reading_of_missing": self.missing,
                f"k_if_missing_is_{other}": int(others.min()),
                f"uniqueness_if_missing_is_{other}": _share_unique(counts, others),
                **(self._judge(counts, sizes, alike) if self.missing == "wildcard" else {}),
                "known": names,
            },
            assumptions=(describe_known(known), _MISSING[self.missing]),
            warnings=_warn_of_journalist(population),
            audience="public" if subject == "released" else "custodian",
        )

    def _judge(self, counts: Integers, fitting: Integers, alike: Integers) -> dict[str, Any]:
        """What targets are held against: the worse of fitting and of being alike."""
        sizes = np.minimum(fitting, alike)
        numbers = {self.name: _share_unique(counts, sizes), **_risks(counts, sizes)}
        judged = (self.name, "k", "prosecutor", "marketer", "unique_records")
        return {f"{number}{AT_WORST}": numbers[number] for number in judged}


def _count_with_wildcards(records: ClassifiedRecords) -> tuple[Integers, Integers]:
    """The size of each class when a missing value, or a code for it, could be anything.

    By fitting; and by records that show just the same, all codes for missing being one.
    """
    sizes, schema = records.classes.sizes, records.data.schema
    values = [_blank_missing(column, schema) for column in records.show_classes()]
    if not any(column.null_count() for column in values):
        return sizes, sizes
    # Two codes for "missing" become one pattern here, so patterns are counted once.
    codes = np.column_stack([encode(column).codes for column in values]).astype(np.int64)
    patterns, pattern_of = np.unique(codes, axis=0, return_inverse=True)
    counts = np.bincount(pattern_of.ravel(), sizes, len(patterns)).astype(np.int64)
    of = pattern_of.ravel()
    fitting: Integers = count_fitting(patterns, counts).smaller[of]
    return fitting, counts[of]


def _blank_missing(values: pl.Series, schema: Schema) -> pl.Series:
    coded = find_missing_codes(values, schema[values.name])
    return values if coded is None else values.set(coded, None)


def _share_unique(counts: Integers, sizes: Integers) -> float:
    return int(counts[sizes == 1].sum()) / int(counts.sum())


def _records(sizes: Integers) -> pl.DataFrame:
    return pl.DataFrame({"class_size": sizes, "risk": 1 / sizes, "unique": sizes == 1})


def _risks(counts: Integers, sizes: Integers) -> dict[str, Any]:
    records, smallest = int(counts.sum()), int(sizes.min())
    return {
        "k": smallest,
        "unique_records": int(counts[sizes == 1].sum()),
        "records": records,
        "classes": len(counts),
        "prosecutor": 1 / smallest,
        # The mean over records of 1 / class size; exact, whatever their order.
        "marketer": math.fsum(counts / sizes) / records,
    }


def _estimate_population(records: ClassifiedRecords) -> dict[str, Any]:
    """The highest risk when the outsider does not know whether the person is in the data.

    Survey weights say how many people of the population a class stands for.
    """
    weight = records.data.schema.having("weight")
    if not weight:
        why = "no variable has the role weight, so the population is unknown."
        return _leave_open(why, *_OF_POPULATION)
    try:
        rows, classes = records.read(weight[:1])
    except MethodError as error:  # too many different weights to be fetched from a cluster
        return _leave_open(error.what, *_OF_POPULATION)
    weights = rows.column(weight[0]).cast(pl.Float64)
    counts = pl.lit(1) if classes.counts is None else pl.Series(classes.counts)
    # Each weight once and sorted, so that a sum does not depend on the order of the records.
    people = (
        pl.DataFrame({"at": classes.of, "weight": weights})
        .with_columns(len=counts)
        .group_by("at", "weight")
        .agg(pl.col("len").sum())
        .sort("at", "weight")
        .group_by("at", maintain_order=True)
        .agg((pl.col("weight") * pl.col("len")).sum(), pl.col("len").sum())
    )
    if weights.null_count() or bool((people["weight"] < people["len"]).any()):
        why = "the survey weights are missing, or some class stands for less than its records."
        return _leave_open(why, *_OF_POPULATION)
    # Of the classes of one size, the one that stands for the fewest is the riskiest.
    fewest = people.group_by("len").agg(pl.col("weight").min())
    size, total = (fewest[name].cast(pl.Float64).to_numpy() for name in ("len", "weight"))
    individual = float(estimate_individual_risk(size, total).max())
    return {
        "journalist": 1 / float(total.min()),
        "individual_risk": individual,
        f"journalist{AT_WORST}": individual,
    }


def estimate_individual_risk(sizes: Floats, people: Floats) -> Floats:
    """The expected chance 1 / F to find a person of a class, F people in the population.

    `sizes` are the records of each class, `people` the sums of their weights. Given f records that
    were sampled with probability p = f / people each, F is negative binomial, and E(1/F) is
    p / f * 2F1(1, 1; f + 1; 1 - p). For one record that is p / (1 - p) * log(1 / p).

    References: Benedetti & Franconi (1998); Hundepool et al. (2012), Statistical Disclosure
    Control, section 3.3.5.
    """
    rest = 1 - sizes / people
    # 2F1 as a series; where that is slow, by recurrence from one record to more.
    factor, term = np.ones(len(sizes)), np.ones(len(sizes))
    for number in range(1, _TERMS):
        term = term * number * rest / (sizes + number)
        factor += term
    slow = (rest > 1 / 2) & (sizes < _MANY)
    odds = (1 - rest[slow]) / rest[slow]
    by_size = -np.log1p(-rest[slow]) / rest[slow]
    for size in range(2, _MANY):
        more = size / (size - 1) * (1 / rest[slow] - odds * by_size)
        by_size = np.where(sizes[slow] >= size, more, by_size)
    factor[slow] = by_size
    risks: Floats = np.minimum(factor / people, 1.0)
    return risks


def _leave_open(why: str, *names: str) -> dict[str, Any]:
    return {**dict.fromkeys(names, math.nan), **{f"{name}_reason": why for name in names}}


def _warn_of_journalist(population: dict[str, Any]) -> tuple[str, ...]:
    """Say by how much the simple estimate understates."""
    simple, expected = population["journalist"], population["individual_risk"]
    if not expected > _UNDERSTATED * simple:
        return ()
    warning = (
        f"The journalist risk of {simple:.2g} takes the estimated number of people for the true "
        f"one and understates: the expected risk is {expected:.2g}, {expected / simple:.1f} times "
        "as much. Targets are held against that."
    )
    return (warning,)


def _count_with_clusters(records: ClassifiedRecords) -> dict[str, Any]:
    """What groups of records (schools, households, persons with several records) change.

    The smallest class if the outsider knew the group as well, and the smallest number of
    different groups in a class: five records of one person hide nobody.
    """
    known, engine = records.known, records.engine
    more = [name for name in records.data.schema.having("cluster") if name not in known]
    if not more:
        return _leave_open("no variable has the role cluster.", *_OF_GROUPS)
    # A release shows which code for "missing" a cell holds, so codes are values here.
    data = replace(records.data, schema=records.data.schema.changed(known, missing=()))
    try:
        by_cluster = {name: engine.distinct(data, [*known, name]) for name in more}
        together = by_cluster[more[0]] if len(more) == 1 else engine.distinct(data, [*known, *more])
    except MethodError as error:  # too many groups to be fetched from a cluster
        return _leave_open(error.what, *_OF_GROUPS)
    fewest = [
        int(count_combinations(classes.values.drop(name)).counts.min()) if known else len(classes)
        for name, classes in by_cluster.items()
    ]
    return {"k_if_clusters_are_known": int(together.counts.min()), "k_of_groups": min(fewest)}


def _distribution(counts: Integers, sizes: Integers) -> pl.DataFrame:
    """How many records and classes there are by class size."""
    rows = []
    for low, after in zip(_SIZES, [*_SIZES[1:], None], strict=True):
        mask = sizes >= low if after is None else (sizes >= low) & (sizes < after)
        label = f"{low} or more" if after is None else f"{low}-{after - 1}"
        label = str(low) if after == low + 1 else label
        rows.append((label, int(counts[mask].sum()), int(mask.sum())))
    return pl.DataFrame(rows, schema=["class_size", "records", "classes"], orient="row")
