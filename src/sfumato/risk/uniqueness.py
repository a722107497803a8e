"""Who can be singled out by exact values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.classes import (
    ClassifiedRecords,
    EquivalenceClasses,
    classify_records,
    find_equivalence_classes,
)
from sfumato.cells.codes import encode_unordered
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MethodError, PlanError
from sfumato.evidence import Evidence, Subject
from sfumato.kernels.arrays import AnyIntegers, Floats, Integers
from sfumato.kernels.lattice.wildcards import count_fitting
from sfumato.kernels.memory import look_up, split_rows
from sfumato.measure import AT_WORST, Measure
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.risk._persons import choose_audience, count_fitting_persons
from sfumato.risk.known import describe_known, known_variables, require_records
from sfumato.risk.trajectories import (
    combine_risks,
    count_parts,
    count_trajectories,
    describe_trajectories,
    find_link,
)
from sfumato.units import COUNTS_PERSONS, count_codes

if TYPE_CHECKING:
    from sfumato.kernels.trees.equivalence_classes import Classes

_MISSING = {
    "value": "Missing counts as a value of its own.",
    "wildcard": "Missing could be any value, also one that no other record has. The size of a "
    "class is the number of records that fit it whatever that value is, or of persons whose true "
    "values fit the record, whichever is smaller.",
}
_UNDERSTATED = 1.1
"""How much larger the individual risk is than the journalist's before it is worth a warning."""
_EXACT_UP_TO = 2
"""Records of a class up to which sdcMicro computes the individual risk exactly."""
_TERMS, _MANY = 200, 10
"""Terms of a series, and the class size from which they are enough for all digits."""
_ROWS, _CLASSES = 1 << 17, 1 << 13
"""Rows, and classes, that are worked on at a time: what they need in between stays small."""
_SIZES = (1, 2, 3, 5, 10, 20, 50, 100)
_OF_POPULATION = ("journalist", "individual_risk")
_OF_GROUPS = (
    "k_of_groups", "k_if_clusters_are_known", "household_risk", "mean_household_risk",
    "k_of_households",
)  # fmt: skip
_OF_TRAJECTORIES = ("k_of_trajectories", "unique_trajectories")
_ONE_ROW = "every record is a person, and nobody has several rows."
_NO_LINK = (
    "no variable in the data says which rows are one person's, so nobody outside can put them "
    "together."
)


Posterior = Literal["exact", "approximate"]


@parameters
class Uniqueness(Measure):
    """Share of records that an outsider could single out by what is known of the person.

    Question: how many records have a combination of values that no other record shares?
    Assumes: the outsider knows that the person is in the data, and knows the exact values of
    `known`. A class is the records that share those values; k is the size of the smallest class.

    Where survey weights are known: `journalist`, 1 over the number of people that the smallest
    class stands for; and `individual_risk`, the largest chance to be found given the sample. The
    first takes the estimated number for the true one, which understates: of a class with one
    record of weight 100 there may be far fewer people. Targets on either are checked against
    `individual_risk`.

    `global_risk` is the mean of the individual risks of all records, and
    `expected_reidentifications` their sum. Without weights the risk of a record is 1 / class size.
    These, and the household risk below, are defined as in `measure_risk` of sdcMicro; that takes an
    approximation for classes of three records and more unless told otherwise, which
    `posterior = "approximate"` gives here.

    Where a variable has the role "person", all of this counts persons: a class is as large as the
    number of persons with a row in it, a person is unique if any of their rows stands alone, and
    `unique_records` are persons. `k` is for somebody who knows one row of a person. Somebody who
    knows all of them, or `known_rows`, looks for the whole trajectory: `k_of_trajectories` is the
    smallest number of persons who have the same rows in what is known, in any order, and
    `unique_trajectories` the share of persons who share theirs with nobody. It can be attacked
    only where a variable, such as a pseudonym, says which released rows belong together.

    Where a variable has the role "cluster": `k_of_groups` is the smallest number of groups in a
    class; `k_if_clusters_are_known` is k for an outsider who knows the group too. If the groups
    are households: `household_risk` is the largest chance that somebody of a household is found,
    and with them all (1 less the product of 1 - risk over its members, from `individual_risk` where
    there are weights and from 1 / class size otherwise), `mean_household_risk` its mean over all
    records, and `k_of_households` the smallest number of households whose members look the same.

    Parameters
    ----------
    known : the variables the outsider knows. Default: all whose role is "quasi".
    missing : what a missing value means: "value" (the outsider sees that it is missing, the
        stricter reading) or "wildcard" (it could be anything). The other reading is reported too.
        With "wildcard", sizes are by fitting: how many records fit a person's true values at
        least, and how many persons fit a record at least, whichever is smaller. Targets are
        checked against the worse of that and of records that show just the same (`k_at_worst`):
        who has everybody's true values can match all records at once.
    known_rows : rows of a person that an outsider knows: one who looks for trajectories. Default:
        all of them.
    row_counts : this outsider also knows how many rows the person has.
    posterior : how the individual risk follows from the weights: "exact", the mean of 1 / F where
        the number F of people is negative binomial; or "approximate", p / (f - 1 + p) for classes
        of f > 2 records that were sampled with probability p, as sdcMicro has it by default.

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
    counts_persons = True
    odd = {"one row": 1, "all missing": 0}
    examples = ({}, {"known": ["sex", "region"], "missing": "wildcard"})
    numbers = (
        Number.share("uniqueness", joined="measured"),
        Number.class_size(
            "k",
            joined="held",
            meaning="People in the smallest class of those who look alike to an outsider.",
            usual=True,
            also=("k_anonymity", "anonymity"),
        ),
        Number.share(
            "prosecutor",
            joined="measured",
            counts="one in a class",
            meaning="Highest chance that an outsider finds a given person.",
            usual=True,
        ),
        Number.share("journalist"),
        Number.share("individual_risk"),
        Number.share("marketer"),
        Number.count("unique_records", joined="measured"),
        Number.share("global_risk"),
        Number.count("expected_reidentifications"),
        Number.class_size("k_of_trajectories", counts="units alike", joined="measured"),
        Number.share("unique_trajectories", joined="measured"),
        Number.class_size("k_of_groups"),
        Number.class_size("k_if_clusters_are_known"),
        Number.share("household_risk"),
        Number.share("mean_household_risk"),
        Number.class_size("k_of_households", counts="units alike"),
    )
    known: list[str] | None = None
    missing: Literal["value", "wildcard"] = "value"
    known_rows: Annotated[int, Field(ge=1)] | None = None
    row_counts: bool = True
    posterior: Posterior = "exact"

    def require_joined(self, label: str) -> None:
        """Refuse wildcards, which would fit persons who have no such row."""
        if self.missing != "value":
            raise PlanError(
                f"'{label}' reads missing as a wildcard, which the joined view does not know: "
                "there, an empty cell may mean that a person has no such row.",
                hint='leave missing = "wildcard" out.',
            )

    def look(self, data: Dataset, subject: Subject, engine: Engine) -> Evidence:
        """Count the classes and who is alone in one."""
        known = known_variables(self.known, data, subject)
        records = classify_records(data, known, engine)
        require_records(records.rows.total)
        classes = records.classes
        fitting, alike = _count_with_wildcards(records)
        readings = {"value": classes.sizes, "wildcard": fitting}
        sizes = readings.pop(self.missing)
        other, others = readings.popitem()
        population, individual = _estimate_population(records, self.posterior)
        risks = 1 / sizes if individual is None else individual
        trajectories = self._count_trajectories(records)
        return Evidence(
            name=self.name,
            subject=subject,
            value=_share_unique(classes, sizes),
            direction=self.direction,
            records=records.rows.show_records(_records(look_up(sizes, classes.of))),
            table=data.like(_distribution(classes, sizes)),
            details={
                **_risks(classes, sizes),
                **classes.units.details(),
                **population,
                **trajectories,
                **_average_risks(classes, risks),
                **_count_with_clusters(records, risks),
                "reading_of_missing": self.missing,
                f"k_if_missing_is_{other}": int(others.min()),
                f"uniqueness_if_missing_is_{other}": _share_unique(classes, others),
                **(self._judge(classes, sizes, alike) if self.missing == "wildcard" else {}),
                "known": tuple(known),
            },
            assumptions=(
                describe_known(known),
                _MISSING[self.missing],
                *classes.units.describe(
                    COUNTS_PERSONS,
                    describe_trajectories(self.known_rows, row_counts=self.row_counts),
                ),
            ),
            warnings=(
                *_warn_of_journalist(population),
                *_warn_of_trajectories(trajectories, int(sizes.min())),
            ),
            audience=choose_audience(data, subject, classes.units),
        )

    def _count_trajectories(self, records: ClassifiedRecords) -> dict[str, Any]:
        """How few persons have the same rows, where an outsider sees which rows are one's."""
        classes = records.classes
        if classes.units.one_row_each:
            return _leave_open(_ONE_ROW, *_OF_TRAJECTORIES)
        of, persons = classes.of, classes.units.numbers
        link = find_link(records.data, persons)
        if link is None:
            return _leave_open(_NO_LINK, *_OF_TRAJECTORIES)
        alike: Integers | None
        if self.known_rows is not None:
            alike = count_parts(of, persons, self.known_rows, row_counts=self.row_counts)
        else:
            rows = slice(None) if self.row_counts else classes.units.find_once(of)
            alike = count_trajectories(of[rows], persons[rows])
        if alike is None:
            why = "there are too many parts of trajectories to list; name fewer known_rows."
            return _leave_open(why, *_OF_TRAJECTORIES)
        return {
            "k_of_trajectories": int(alike.min()),
            "unique_trajectories": int((alike == 1).sum()) / classes.total,
            "rows_linked_by": link,
        }

    def _judge(
        self, classes: EquivalenceClasses, fitting: Integers, alike: Integers
    ) -> dict[str, Any]:
        """What targets are checked against: the worse of fitting and of being alike."""
        sizes = np.minimum(fitting, alike)
        numbers = {self.name: _share_unique(classes, sizes), **_risks(classes, sizes)}
        judged = (self.name, "k", "prosecutor", "marketer", "unique_records")
        return {f"{number}{AT_WORST}": numbers[number] for number in judged}


def _count_with_wildcards(records: ClassifiedRecords) -> tuple[Integers, Integers]:
    """The size of each class when a missing value, or a code for it, could be anything.

    By fitting; and by records that show just the same, all codes for missing being one.
    """
    from sfumato.kernels.trees.equivalence_classes import find_classes

    sizes, cells = records.classes.sizes, records.encode_classes()
    if cells is None:
        return sizes, sizes
    of: AnyIntegers = np.arange(len(sizes), dtype=np.int32)
    if any(records.data.schema[name].missing for name in records.known):
        # Two codes for "missing" become one pattern here, so patterns are counted once.
        cells += 1
        same_cells = find_classes(cells, [int(row.max(initial=0)) + 1 for row in cells])
        cells, of = cells[:, same_cells.first] - 1, same_cells.of
    patterns = cells.T
    if not records.classes.units.one_row_each:
        fitted, same = count_fitting_persons(patterns, of, records.classes)
        return fitted[of], same[of]
    counts = np.bincount(of, sizes, len(patterns)).astype(np.int64)
    fitting: Integers = count_fitting(patterns, counts).smaller[of]
    return fitting, counts[of]


def _share_unique(classes: EquivalenceClasses, sizes: Integers) -> float:
    return classes.count_in(sizes == 1) / classes.total


def _records(sizes: Integers) -> pl.DataFrame:
    return pl.DataFrame({"class_size": sizes, "risk": 1 / sizes, "unique": sizes == 1})


def _risks(classes: EquivalenceClasses, sizes: Integers) -> dict[str, Any]:
    smallest = int(sizes.min())
    return {
        "k": smallest,
        "unique_records": classes.count_in(sizes == 1),
        "records": classes.units.count_records(),
        "classes": len(classes),
        "prosecutor": 1 / smallest,
        # The mean over records of 1 / class size.
        "marketer": classes.average_chance(sizes),
    }


def _average_risks(classes: EquivalenceClasses, risks: Floats) -> dict[str, float]:
    """The mean risk of all records, or persons, and how many of them are found on average."""
    with np.errstate(divide="ignore"):
        mean = classes.average_chance(1 / risks)
    return {"global_risk": mean, "expected_reidentifications": mean * classes.total}


def _estimate_population(
    records: ClassifiedRecords, posterior: Posterior
) -> tuple[dict[str, Any], Floats | None]:
    """The highest risk when the outsider does not know whether the person is in the data.

    Survey weights say how many people of the population a class stands for. A person with several
    rows in a class stands for as many as the least of their weights. Beside it, the risk of each
    class.
    """
    weight = records.data.schema.having("weight")
    if not weight:
        why = "no variable has the role weight, so the population is unknown."
        return _leave_open(why, *_OF_POPULATION), None
    try:
        rows, classes = records.read(weight[:1])
    except MethodError as error:  # too many different weights to be fetched from a cluster
        return _leave_open(error.what, *_OF_POPULATION), None
    weights = rows.column(weight[0]).cast(pl.Float64)
    people = pl.concat(
        _add_up_weights(weights, classes, *part) for part in _cut_classes(classes.starts)
    )
    if weights.null_count() or bool((people["weight"] < people["len"]).any()):
        why = "the survey weights are missing, or some class stands for less than its records."
        return _leave_open(why, *_OF_POPULATION), None
    # Of the classes of one size, the one that stands for the fewest is the riskiest.
    fewest = people.group_by("len").agg(pl.col("weight").min())
    individual = float(_list_individual_risks(fewest, posterior).max())
    numbers = {
        "journalist": 1 / float(people["weight"].min()),  # type: ignore[arg-type]  # numbers
        "individual_risk": individual,
        f"journalist{AT_WORST}": individual,
    }
    return numbers, _list_individual_risks(people, posterior)


def _cut_classes(starts: Integers) -> list[tuple[int, int]]:
    """Classes from one to before another, together about as many rows as are worked on at once."""
    first = np.searchsorted(starts, np.arange(0, starts[-1], _ROWS), side="right") - 1
    return list(pairwise(np.unique([*first, len(starts) - 1]).tolist()))


def _add_up_weights(
    weights: pl.Series, classes: EquivalenceClasses, first: int, after: int
) -> pl.DataFrame:
    """The records, or persons, of some classes and the people of the population in each."""
    rows, units = classes.order[classes.starts[first] : classes.starts[after]], classes.units
    # Each weight once and sorted, so that a sum does not depend on the order of the records.
    weighed = pl.DataFrame({"at": classes.of[rows], "weight": weights.gather(rows)}).with_columns(
        len=pl.lit(1) if units.counts is None else pl.Series(units.counts[rows])
    )
    if not units.one_row_each:
        weighed = weighed.group_by("at", pl.Series("person", units.numbers[rows])).agg(
            pl.col("weight").min(), pl.col("len").min()
        )
    return (
        weighed.group_by("at", "weight")
        .agg(pl.col("len").sum())
        .sort("at", "weight")
        .group_by("at", maintain_order=True)
        .agg((pl.col("weight") * pl.col("len")).sum(), pl.col("len").sum())
        .sort("at")
    )


def _list_individual_risks(people: pl.DataFrame, posterior: Posterior) -> Floats:
    size, total = (people[name].cast(pl.Float64).to_numpy() for name in ("len", "weight"))
    risks = estimate_individual_risk(size, total)
    if posterior == "exact":
        return risks
    share = size / total
    return np.where(size > _EXACT_UP_TO, share / (size - 1 + share), risks)


def estimate_individual_risk(sizes: Floats, people: Floats) -> Floats:
    """The expected chance 1 / F to find a person of a class, F people in the population.

    `sizes` are the records of each class, `people` the sums of their weights. Given f records that
    were sampled with probability p = f / people each, F is negative binomial, and E(1/F) is
    p / f * 2F1(1, 1; f + 1; 1 - p). For one record that is p / (1 - p) * log(1 / p).

    References: Benedetti & Franconi (1998); Hundepool et al. (2012), Statistical Disclosure
    Control, section 3.3.5.
    """
    risks = np.empty(len(sizes))
    # Few classes at a time stay in the fast memory through all the terms.
    for part in split_rows(len(sizes), _CLASSES):
        risks[part] = _add_terms(sizes[part], people[part])
    return risks


def _add_terms(sizes: Floats, people: Floats) -> Floats:
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
        "as much. Targets are checked against that."
    )
    return (warning,)


def _count_with_clusters(records: ClassifiedRecords, risks: Floats) -> dict[str, Any]:
    """What groups of records (schools, households) change.

    The smallest class if the outsider knew the group as well, the smallest number of different
    groups in a class (five records of one household hide none), the largest and the mean risk of a
    household, and how many have the same members. `risks` are those of the classes.
    """
    known = records.known
    more = [name for name in records.data.schema.having("cluster") if name not in known]
    if not more:
        return _leave_open("no variable has the role cluster.", *_OF_GROUPS)
    try:
        by_cluster = {name: records.read([name]) for name in more}
        rows, classes = by_cluster[more[0]] if len(more) == 1 else records.read(more)
    except MethodError as error:  # too many groups to be fetched from a cluster
        return _leave_open(error.what, *_OF_GROUPS)
    smallest = int(_split_by_groups(rows, classes, more).counts.min())
    if not (units := classes.units).one_row_each:
        known_too = find_equivalence_classes(records.data, [*known, *more], units)
        smallest = int(known_too.sizes.min())
    households = [_look_at_households(*by_cluster[name], name, risks) for name in more]
    return {
        "k_if_clusters_are_known": smallest,
        "k_of_groups": min(_count_groups(*by_cluster[name], name) for name in more),
        "household_risk": max(item.largest for item in households),
        "mean_household_risk": max(item.mean for item in households),
        "k_of_households": min(item.alike for item in households),
    }


def _split_by_groups(rows: Dataset, classes: EquivalenceClasses, names: Sequence[str]) -> Classes:
    """The classes of somebody who knows the groups too."""
    from sfumato.kernels.trees.equivalence_classes import join_classes

    groups = (encode_unordered(rows.column(name)) for name in names)
    return join_classes(
        chain([(classes.of, len(classes))], groups), len(classes.of), classes.units.counts
    )


def _count_groups(rows: Dataset, classes: EquivalenceClasses, name: str) -> int:
    """How many groups a class has at least."""
    split = _split_by_groups(rows, classes, [name])
    return int(count_codes(classes.of[split.first], None, len(classes)).min())


class _Households(NamedTuple):
    """The largest risk of a household, the mean over records, and how few have the same members."""

    largest: float
    mean: float
    alike: int


def _look_at_households(
    rows: Dataset, classes: EquivalenceClasses, name: str, risks: Floats
) -> _Households:
    groups = encode_unordered(rows.column(name))[0].astype(np.int64)
    if classes.units.counts is None:
        # Who is in no household is alone.
        alone = rows.column(name).is_null().to_numpy()
        groups[alone] = groups.max(initial=0) + 1 + np.arange(alone.sum())
    of, counts = classes.of.astype(np.int64), classes.units.counts
    alike = int(count_trajectories(of, groups, counts).min())
    if not classes.units.one_row_each:
        # Of each person in the household the row that is found most easily.
        within = replace(classes, of=groups.astype(np.int32))
        worst = next(within.choose_rows(of, [risks[of]]))
        of, groups = of[worst], groups[worst]
    combined = combine_risks(risks[of], groups, counts)
    members = np.ones(len(of)) if counts is None else counts
    mean = math.fsum(np.sort(combined[groups] * members)) / float(members.sum())
    return _Households(float(combined[groups].max()), mean, alike)


def _warn_of_trajectories(numbers: dict[str, Any], k: int) -> tuple[str, ...]:
    """Say where all rows of a person together tell more than one of them."""
    alike = numbers["k_of_trajectories"]
    if not alike < k:
        return ()
    warning = (
        f"'{numbers['rows_linked_by']}' tells which rows are one person's. Who knows a person's "
        f"rows finds {alike} with the same, while one row alone is shared by {k}: see "
        "k_of_trajectories."
    )
    return (warning,)


def _distribution(classes: EquivalenceClasses, sizes: Integers) -> pl.DataFrame:
    """How many records and classes there are by class size."""
    rows = []
    for low, after in zip(_SIZES, [*_SIZES[1:], None], strict=True):
        mask = sizes >= low if after is None else (sizes >= low) & (sizes < after)
        label = f"{low} or more" if after is None else f"{low}-{after - 1}"
        label = str(low) if after == low + 1 else label
        rows.append((label, classes.count_in(mask), int(mask.sum())))
    return pl.DataFrame(rows, schema=["class_size", "records", "classes"], orient="row")
