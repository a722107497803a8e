"""Privacy of each individual: the example, the three data sets, and generalisation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from replication.comparison import Bound, Row
from replication.sources import Sources
from sfumato.data import Dataset
from sfumato.risk import protection as peering
from sfumato.risk.peers import Peers
from sfumato.risk.protection.distinct_records import code_rows
from sfumato.schema import Schema

_TABLE_2 = {
    "adult": ("30162", "19502", {
        "gender": 2, "age": 72, "race": 5, "marital_status": 7, "education": 16,
        "native_country": 41, "workclass": 7, "salary": 2, "occupation": 14,
    }),
    "diabetes": ("99493", "77748", {
        "gender": 3, "age": 10, "race": 5, "lab_procedures": 118, "medications": 75, "change": 2,
        "diabetes_medication": 2, "readmitted": 3,
    }),
    "cervical": ("789", "254", {"pregnancies": 11, "smoking": 2, "age": 43, "biopsy": 2}),
}  # fmt: skip
_MEASURED = ("adult", "cervical")


def compare_rows(sources: Sources) -> Iterator[Row]:
    """Example 3, Table 2, what Figure 2 shows in numbers, and Figure 4."""
    yield from _compare_example()
    sets = {name: _read_data(sources, name) for name in _TABLE_2}
    for name, (records, distinct, domains) in _TABLE_2.items():
        data = sets[name]
        coded = code_rows(data, data.columns)
        yield Row(place="Table 2", what=f"{name}: records", printed=records,
                  ours=int(coded.counts.sum()))  # fmt: skip
        yield Row(place="Table 2", what=f"{name}: different records (printed as unique)",
                  printed=distinct, ours=len(coded.codes))  # fmt: skip
        for column, (variable, size) in enumerate(domains.items()):
            yield Row(place="Table 2", what=f"{name}: values of {variable}", printed=str(size),
                      ours=int(coded.codes[:, column].max()) + 1)  # fmt: skip
    for name in _MEASURED:
        yield from _count_breaches(name, sets[name])
    yield from _compare_figure_4(sets["cervical"])


def _read_data(sources: Sources, name: str) -> Dataset:
    columns = list(_TABLE_2[name][2])
    frame = sources.read(f"{name}.csv").select(columns)
    return Dataset(frame, Schema(dict.fromkeys(columns, "quasi")))


def _compare_example() -> Iterator[Row]:
    """Table 1 with ages in groups of ten years; Alice is the first, the text has the third."""
    frame = pl.DataFrame(
        {
            "diagnosis": ["cancer", "cancer", "cancer", "arthrosis", "diabetes"],
            "gender": ["f", "m", "f", "m", "f"],
            "age": ["45-54", "35-44", "35-44", "55-64", "45-54"],
        }
    )
    data = Dataset(frame, Schema(dict.fromkeys(frame.columns, "quasi")))
    protection = peering.who(data, sensitive=["diagnosis", "age"])

    def of(record: int, variable: str) -> dict[str, Any]:
        rows = protection.filter(record=record, variable=variable).rows(named=True)
        return dict(rows[0])

    alice = of(0, "diagnosis")
    for what, printed, column in (
        ("share of peers who protect (PPP)", "0.5", "ppp"),
        ("number of peers who protect (NPP)", "1", "npp"),
        ("share of other diagnoses that stay possible (PoAC)", "0.5", "poac"),
    ):
        yield Row(place="Example 3", what=f"Alice: {what}", printed=printed, ours=alice[column])
    yield Row(place="text", what="individual 3: diagnosis can be uncovered (PoAC)", printed="0",
              ours=of(2, "diagnosis")["poac"])  # fmt: skip
    others = frame["age"].n_unique() - 1
    possible = frame.filter(gender="f", diagnosis="cancer")["age"].n_unique() - 1
    why = (
        f"the paper's formula leaves the true value out, above and below: {possible} of {others} "
        "other age groups. The text counts the true one on both sides."
    )
    yield Row(place="text", what="individual 3: share of other ages that stay possible (PoAC)",
              printed="2/3", ours=of(2, "age")["poac"], why=why,
              bound=Bound(possible / others, possible / others, of="ours"))  # fmt: skip


def _count_breaches(name: str, data: Dataset) -> Iterator[Row]:
    """Figure 2 is a picture; these are the numbers behind its rows."""
    names = list(data.columns)
    table = Peers(known=names, sensitive=names).measure(data).table
    for row in table.rows(named=True):
        what = f"{name}: records whose {row['variable']} some combination gives away"
        yield Row(place="Figure 2", what=what, ours=row["breached_records"])


def _compare_figure_4(data: Dataset) -> Iterator[Row]:
    known = ["pregnancies", "smoking", "age"]
    for variable, printed in (("pregnancies", "59%"), ("age", "97%")):
        table = peering.widths(data, "biopsy", variable, known)
        most = float(table["protected"].max())
        # Half a digit, and half of the next one for a number that was rounded before.
        reach = 0.005 + 0.0005
        why = f"it is {most:.2%}, and was rounded twice: to {most:.1%}, then to a whole percent."
        yield Row(place="Figure 4", what=f"most records protected by making {variable} coarser",
                  printed=printed, ours=most, why=why,
                  bound=Bound(most - reach, most + reach))  # fmt: skip
