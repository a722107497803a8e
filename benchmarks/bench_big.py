"""Discharges in a file, worked on in memory and batch by batch: time, memory and how both grow.

The baseline is one np.sort of a random column of as many numbers. "written" is all of
`sf.protect` and `Release.write`: k-anonymity (k = 100, nine quasi-identifiers, Mondrian), the
targets, attacks on a sample, the file in the order of its key, and k measured again in the file.
"plain file" is k-anonymity alone, k measured again in what it made, and a Parquet file of it in the
order of the records, without a manifest.

python -m benchmarks bench_big takes 1 and 10 million records; SFUMATO_RECORDS=100000000 takes as
many as it says (10 GB of memory, 15 GB of disk in $TMPDIR).
"""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path

import polars as pl

from benchmarks.cost import Cost, cost
from benchmarks.discharges import KEYS, discharges

SIZES = (1_000_000, 10_000_000)
_PART = 10_000_000
SETUP = """
import pathlib, tempfile
import numpy as np
import sfumato as sf
from benchmarks.discharges import KEYS
from sfumato.plan import Writing
quasi = dict.fromkeys(KEYS, "quasi")
schema = sf.Schema({{**quasi, "charge": "sensitive"}})
few = sf.read({few!r}, schema=schema)
data = sf.{read}({path!r}, schema=schema)
release = Writing(accept_attacks="a benchmark")
folder = tempfile.TemporaryDirectory()
def classes(): return sf.methods.KAnonymity(k=100)
def written(data, name):
    plan = sf.Plan(schema=schema, steps=[classes()], targets={{"k.min": 100}}, release=release)
    protected = sf.protect(data, plan, key=bytes(range(32)))
    protected.write(pathlib.Path(folder.name) / name / "release", ledger=False)
def apply(step, data):
    frame = step.apply(data, key=bytes(range(32))).frame
    if not hasattr(frame, "height"):
        for batch in frame.collect_batches(): pass
def grouped(data): apply(classes(), data)
def plain(data):
    released = classes().apply(data, key=bytes(range(32)))
    assert sf.risk.Uniqueness().measure(released).details["k"] >= 100
    frame = getattr(released.frame, "lazy", lambda: released.frame)()
    frame.sink_parquet(pathlib.Path(folder.name) / "plain.parquet", row_group_size=1 << 18)
def alone(data): sf.risk.Uniqueness(known=["age_yrs", "sex", "race", "patcnty"]).measure(data)
def noised(data): apply(sf.methods.Noise(variables=["charge"], variance_share=0.1), data)
def s2(data):
    names = ["age_yrs", "sex", "los"]
    apply(sf.methods.KAnonymity(variables=names, k=10, clustering="origin"), data)
{work}(few{name})
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the memory that the warm-up took
"""
WORKS = {
    "k-anonymity": ("grouped", ("read", "scan")),
    "plain file": ("plain", ("read", "scan")),
    "written": ("written", ("read", "scan")),
    "uniqueness": ("alone", ("scan",)),
    "noise": ("noised", ("scan",)),
    "S2": ("s2", ("scan",)),
}


def make_files(folder: Path, records: int) -> tuple[Path, Path]:
    """A folder of Parquet files of so many records, and a file of a few of them."""
    parts = folder / f"{records}"
    parts.mkdir()
    for number, start in enumerate(range(0, records, _PART)):
        part = discharges(min(_PART, records - start), seed=number)
        part.write_parquet(parts / f"part-{number:03}.parquet", row_group_size=1 << 18)
    few = folder / f"few-{records}.parquet"
    pl.scan_parquet(parts / "part-000.parquet").head(20_000).sink_parquet(few)
    return (parts if records > _PART else parts / "part-000.parquet"), few


def measure(work: str, read: str, path: Path, few: Path) -> Cost:
    """What a piece of work costs on the records of a file."""
    is_written = work == "written"
    setup = SETUP.format(
        work=work, read=read, path=str(path), few=str(few), name=', "few"' if is_written else ""
    )
    return cost('written(data, "all")' if is_written else f"{work}(data)", setup=setup)


def main() -> None:
    """Print the table."""
    more = int(os.environ.get("SFUMATO_RECORDS", "0"))
    sizes = (*SIZES, more) if more else SIZES
    print(f"{len(KEYS)} quasi-identifiers and a charge; peak is memory above the start")
    heads = f"{'records':>11} {'CPU s':>7} {'wall s':>7} {'sorts':>6} {'peak MB':>8} growth"
    print(f"{'work':>12} {'engine':>9} {heads}")
    with tempfile.TemporaryDirectory() as name:
        before: dict[tuple[str, str], tuple[int, float]] = {}
        for records in sizes:
            path, few = make_files(Path(name), records)
            column = f"import numpy as np\ncolumn = np.random.default_rng(0).random({records})"
            base = cost("np.sort(column)", setup=column)
            for label, (work, readers) in WORKS.items():
                for read in readers:
                    if read == "read" and records > max(SIZES):
                        continue
                    _report(label, read, records, measure(work, read, path, few), base, before)


def _report(
    label: str,
    read: str,
    records: int,
    found: Cost,
    base: Cost,
    before: dict[tuple[str, str], tuple[int, float]],
) -> None:
    engine, growth = ("streaming" if read == "scan" else "local"), ""
    if (label, read) in before:
        count, seconds = before[label, read]
        ideal = records * math.log(records) / (count * math.log(count))
        growth = f"{found.cpu / seconds:.1f} times (n log n: {ideal:.1f})"
    before[label, read] = records, found.cpu
    print(
        f"{label:>12} {engine:>9} {records:>11,} {found.cpu:>7.1f} {found.wall:>7.1f} "
        f"{found.cpu / base.cpu:>6.1f} "
        f"{found.peak:>8.0f} {growth}",
        flush=True,
    )


if __name__ == "__main__":
    main()
