"""k-anonymity and t-closeness: the tables that need no data of patients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from replication.comparison import Bound, Row
from replication.sources import Sources
from sfumato.data import Dataset
from sfumato.kernels.clustering.clusters import bound_t
from sfumato.methods.coarsen import Coarsen
from sfumato.methods.k_anonymity import KAnonymity
from sfumato.risk.attribute_disclosure import AttributeDisclosure
from sfumato.risk.reidentification import Reidentification
from sfumato.risk.uniqueness import Uniqueness
from sfumato.schema import Column, Schema
from sfumato.utility.correlations import correlate_correlations

_INTERVALS = {
    ("text", 4): "0-20 21-42 43-63 64-85",
    ("Table S8", 8): "0-9 10-20 21-31 32-42 43-52 53-63 64-74 75-85",
    ("Table S7", 16): (
        "0-4 5-9 10-15 16-20 21-25 26-31 32-36 37-42 43-47 48-52 53-58 59-63 64-68 69-74 75-79 "
        "80-85"
    ),
}
_DISCHARGES = 3_985_166
_TABLE_S9 = {2: "0.25", 3: "0.17", 5: "0.10", 10: "0.05"}
_TABLE_S2: dict[str, list[Any]] = {
    "age": [42, 35, 52, 70, 57, 61],
    "gender": ["Male", "Male", "Male", "Female", "Male", "Male"],
    "ethnicity": ["Non-hispanic"] * 3 + ["Hispanic", "Non-hispanic", "Non-hispanic"],
    "race": ["White", "White", "Black", "White", "White", "White"],
    "zip": [93722, 93611, 93561, 93560, 93555, 93551],
    "county": ["Fresno", "Fresno", "Kern", "Kern", "Kern", "Los Angeles"],
    "quarter": [1, 2, 2, 2, 4, 2],
    "stay": [33, 47, 13, 1, 2, 2],
}
_TABLE_S6 = (
    {"age": "42-52", "zip": "93561-93722", "quarter": "1-2", "stay": "13-47"},
    {"age": "57-70", "zip": "93551-93560", "quarter": "2-4", "stay": "1-2"},
)
_CHARGES = [505_785, 1_083_683, 252_303, 107_179, 34_392, 24_846]
_TABLE_S4 = (
    0.001, 0.001, 0.045, -0.056, 0.043, 0.811, 0.003, -0.001, 0.013, 0.359, -0.215, -0.006,
    -0.004, 0.118, -0.012, -0.048, 0.022, 0.007, 0.012, -0.036, 0.004, -0.334, 0.134, 0.036,
    0.048, -0.007, -0.081, -0.054, -0.014, 0.015, 0.094, -0.012, -0.002, 0.001, 0.000, -0.005,
)  # fmt: skip
_TABLE_S5 = (
    0.000, 0.003, 0.029, -0.045, 0.031, 0.807, 0.003, -0.001, 0.006, 0.209, -0.117, -0.001,
    -0.004, 0.022, -0.006, -0.035, 0.008, 0.037, 0.013, -0.013, 0.002, -0.209, 0.008, 0.021,
    0.012, -0.003, -0.027, -0.044, 0.003, 0.013, 0.180, -0.014, -0.007, 0.000, -0.001, -0.002,
)  # fmt: skip


def compare_rows(sources: Sources) -> Iterator[Row]:
    """Intervals, bounds and the example; then what needs the discharges."""
    del sources
    yield from _compare_intervals()
    yield from _compare_example()
    for k, printed in _TABLE_S9.items():
        yield Row(place="Table S9", what=f"t that k = {k} allows", printed=printed,
                  ours=bound_t(_DISCHARGES, k))  # fmt: skip
    yield Row(place="text", what="correlation of correlations, Tables S4 and S5", printed="0.957",
              ours=correlate_correlations(_TABLE_S4, _TABLE_S5))  # fmt: skip
    why = (
        "the discharges of 2009 are available on request only. In kind, on invented discharges, by "
        "`python -m benchmarks.bench_discharges`: no record of a k-anonymous file is found again, "
        "t-closeness discloses no charge, coarsening does both. That 2-anonymity loses less than "
        "coarsening by 1/8 depends on the data and on the clustering."
    )
    yield Row(
        place="Figures S1 to S7, Tables S1, S3 to S5, S10, text on them",
        what="patient discharges",
        why=why,
    )


def _compare_intervals() -> Iterator[Row]:
    column = Column(role="quasi", kind="integer", domain=(0, 85))
    ages = Dataset(pl.DataFrame({"age": range(86)}), Schema({"age": column}))
    for (passage, count), printed in _INTERVALS.items():
        coarsened = Coarsen(variables=["age"], intervals=count).apply(ages).frame["age"]
        cells = coarsened.unique(maintain_order=True).to_list()
        for index, (cell, interval) in enumerate(zip(cells, printed.split(), strict=True)):
            for end, ours, theirs in zip(
                ("start", "end"), _read_ends(cell), interval.split("-"), strict=True
            ):
                yield Row(place=passage, what=f"age in {count} intervals: {end} of {index + 1}",
                          printed=theirs, ours=ours)  # fmt: skip


def _read_ends(cell: str) -> list[int]:
    """The two ends of a range; of a single number, it twice."""
    ends = [int(end) for end in cell.strip("[]").split(";")]
    return [ends[0], ends[-1]]


def _compare_example() -> Iterator[Row]:
    frame = pl.DataFrame({**_TABLE_S2, "charge": _CHARGES})
    known = list(_TABLE_S2)
    schema = Schema({**dict.fromkeys(known, "quasi"), "charge": "sensitive"})
    data = Dataset(frame, schema)
    # As published: ranges end at the values of their records.
    released = KAnonymity(variables=known, k=3, ends="observed").apply(data)
    for record, members, ranges in ((0, slice(0, 3), _TABLE_S6[0]), (3, slice(3, 6), _TABLE_S6[1])):
        for name, printed in ranges.items():
            ends = _read_ends(str(released.frame[name][record]))
            values = _TABLE_S2[name][members]
            for end, ours, theirs, true in zip(
                ("lowest", "highest"), ends, printed.split("-"), (min(values), max(values)),
                strict=True,
            ):  # fmt: skip
                why = (
                    f"the records of this class in Table S2 have {true}: the print leaves one out."
                )
                yield Row(place="Table S6", what=f"{end} {name} of class {record // 3 + 1}",
                          printed=theirs, ours=ours, why=why,
                          bound=Bound(true, true, of="ours"))  # fmt: skip
    k = Uniqueness(known=known).measure(released).details["k"]
    yield Row(place="Table S6", what="records in the smallest class", printed="3", ours=k)
    risk = Reidentification(known=known).measure(data, released)
    yield Row(place="text", what="records of the 3-anonymous example that are re-identified",
              printed="0", ours=risk.value)  # fmt: skip
    evidence = AttributeDisclosure(where="charge > 250000").measure(released)
    yield Row(place="text", what="patients of the first class known to be charged above 250,000",
              printed="3", ours=evidence.details["disclosed_records"])  # fmt: skip
