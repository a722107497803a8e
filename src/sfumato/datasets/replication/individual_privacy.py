"""Privacy of each individual: the example, the three data sets, and generalisation."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sfumato.data import Dataset
from sfumato.datasets.replication.comparison import Row, round_tolerance
from sfumato.datasets.replication.sources import Sources
from sfumato.risk import _peers as peering
from sfumato.risk._peers.distinct_records import code_rows, read_threshold
from sfumato.risk.peers import Peers
from sfumato.schema import Schema

_TABLE_2 = {
    "adult": (30_162, 19_502, {
        "gender": 2, "age": 72, "race": 5, "marital_status": 7, "education": 16,
        "native_country": 41, "workclass": 7, "salary": 2, "occupation": 14,
    }),
    "diabetes": (99_493, 77_748, {
        "gender": 3, "age": 10, "race": 5, "lab_procedures": 118, "medications": 75, "change": 2,
        "diabetes_medication": 2, "readmitted": 3,
    }),
    "cervical": (789, 254, {"pregnancies": 11, "smoking": 2, "age": 43, "biopsy": 2}),
}  # fmt: skip
_MEASURED = ("adult", "cervical")


def compare_rows(sources: Sources) -> Iterator[Row]:
    """Example 3, Table 2, what Figure 2 shows in numbers, and Figure 4."""
    yield from _compare_example()
    sets = {name: _read_data(sources, name) for name in _TABLE_2}
    for name, (records, distinct, domains) in _TABLE_2.items():
        data = sets[name]
        _, codes, _, _ = code_rows(data, data.columns)
        yield Row(place="Table 2", what=f"{name}: records", published=records, ours=len(data))
        yield Row(place="Table 2", what=f"{name}: different records (printed as unique)",
                  published=distinct, ours=len(codes))  # fmt: skip
        for variable, size in domains.items():
            yield Row(place="Table 2", what=f"{name}: values of {variable}", published=size,
                      ours=data.column(variable).n_unique())  # fmt: skip
    for name in _MEASURED:
        yield from _count_breaches(name, sets[name])
    yield from _compare_figure_4(sets["cervical"])


def _read_data(sources: Sources, name: str) -> Dataset:
    columns = list(_TABLE_2[name][2])
    frame = sources.read(f"{name}.csv").select(columns)
    return Dataset(frame, Schema(dict.fromkeys(columns, "quasi")))


def _compare_example() -> Iterator[Row]:
    from sfumato.kernels.lattice.peers import count_at_maximum

    frame = pl.DataFrame(
        {
            "diagnosis": ["cancer", "cancer", "cancer", "arthrosis", "diabetes"],
            "gender": ["f", "m", "f", "m", "f"],
            "age": ["45-54", "35-44", "35-44", "55-64", "45-54"],
        }
    )
    data = Dataset(frame, Schema(dict.fromkeys(frame.columns, "quasi")))
    _, codes, counts, of = code_rows(data, data.columns)
    all_known, alike, _ = count_at_maximum(codes, counts, 0, [1, 2], read_threshold(0.0, "q"))
    alice = float((all_known - alike)[of[0]] / all_known[of[0]])
    yield Row(
        place="Example 3", what="Alice: share of peers who protect", published=0.5, ours=alice
    )
    peers = frame.filter((pl.col("gender") == "f") & (pl.col("age") == "45-54"))
    other = peers.filter(pl.col("diagnosis") != "cancer")
    yield Row(place="Example 3", what="Alice: number of peers who protect", published=1,
              ours=len(other))  # fmt: skip
    yield Row(place="Example 3", what="Alice: share of other diagnoses that stay possible",
              published=0.5, ours=other["diagnosis"].n_unique() / 2)  # fmt: skip
    same = frame.filter((pl.col("gender") == "f") & (pl.col("diagnosis") == "cancer"))
    ours = len(same.filter(pl.col("age") != "35-44")) / len(same)
    why = "the formula gives 1/2; the text's 2/3 contradicts it."
    yield Row(place="text", what="individual 3: share of peers who protect the age",
              published=2 / 3, ours=ours, why=why)  # fmt: skip


def _count_breaches(name: str, data: Dataset) -> Iterator[Row]:
    """Figure 2 is a picture; these are the numbers behind its rows."""
    names = list(data.columns)
    table = Peers(known=names, sensitive=names).measure(data).table
    for row in table.rows(named=True):
        what = f"{name}: records whose {row['variable']} some combination gives away"
        yield Row(place="Figure 2", what=what, published=None, ours=row["breached_records"])


def _compare_figure_4(data: Dataset) -> Iterator[Row]:
    known = ["pregnancies", "smoking", "age"]
    for variable, published, digits, why in (
        ("pregnancies", 0.587, 3, ""),
        ("age", 0.97, 2, "it is 761 of 789, 96.45 %; printed as 97 %."),
    ):
        table = peering.widths(data, "biopsy", variable, known)
        most = float(table["protected"].max())
        yield Row(place="Figure 4", what=f"most records protected by making {variable} coarser",
                  published=published, ours=most, within=round_tolerance(digits),
                  why=why)  # fmt: skip
