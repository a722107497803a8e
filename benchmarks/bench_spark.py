"""What each verb costs on a Spark cluster of two workers on this machine: time, bytes, memory.

`python -m benchmarks.bench_spark 100000 1000000` prints, for each size and piece of work, wall
seconds, CPU seconds of all processes, bytes shuffled per record, and the GB of the largest process
of the driver and of a worker (Java and Python). It starts and stops a cluster of its own; records
have nine quasi-identifiers of 10 values each and one measurement.
`python -m benchmarks.bench_spark classes 10000000` takes discharges as in `bench_big` instead:
uniqueness, noise, S2 and k-anonymity with k = 100, whose classes are compared with those that one
machine makes; with more than 10 million records all but k-anonymity.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
from tools.spark_cluster import Cluster, open_session, start_cluster

import sfumato as sf
from benchmarks.bench_big import make_files
from benchmarks.discharges import KEYS
from sfumato.engines import engine_for
from sfumato.engines.spark import SparkEngine
from sfumato.engines.summaries import Deviation, Mean, Quantile, Summary
from sfumato.plan import Writing
from sfumato.storage.cluster import count_files

SIZES = (100_000, 1_000_000)
_MOST_FOR_CLASSES = 10_000_000
_IN_PART, _FEWEST_PARTS = 1_000_000, 8
_RECORD, _ID, _DIGEST, _PLACE = 100, 8, 24, 24
"""Bytes: of a record, and what goes with each through a shuffle for its id, digest and place."""
_PART, _LISTED = 100e6, 100
"""Bytes of a part, and of a file's line in the manifest."""
KNOWN = [f"q{number}" for number in range(9)]
ROLES: dict[str, Any] = {"id": "direct", **dict.fromkeys(KNOWN, "quasi"), "x": "sensitive"}
KEY = "3" * 64


def make_records(session: Any, records: int, folder: Path) -> Any:
    """Records that depend on nothing but their number, written and read as Parquet."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

    frame = session.range(records, numPartitions=8)
    for number, name in enumerate(KNOWN):
        frame = frame.withColumn(name, F.pmod(F.xxhash64("id", F.lit(number)), F.lit(10)))
    frame = frame.withColumn("x", F.pmod(F.xxhash64("id"), F.lit(1_000_003)) / 1000.0)
    frame.write.parquet(str(folder))
    return session.read.parquet(str(folder))


def read_shuffled(session: Any) -> float:
    """Bytes shuffled so far, of all executors."""
    store = session.sparkContext._jsc.sc().statusStore()  # noqa: SLF001 - no other door to it
    executors = store.executorList(False)
    return float(sum(executors.apply(i).totalShuffleWrite() for i in range(executors.size())))


@dataclass(frozen=True)
class Processes:
    """CPU seconds of all processes of the driver and under the workers, and the largest's GB."""

    cpu: float
    driver: float
    java: float
    python: float


def look_at_processes(cluster: Cluster) -> Processes:
    """What they took so far: driver (Python and Java), executors (Java), their Python workers."""
    parents, stats = dict[int, int](), dict[int, tuple[str, float, float]]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            lines = dict(x.split(":", 1) for x in (folder / "status").read_text().splitlines())
            peak = int(lines["VmHWM"].split()[0]) / 1e6
        except (OSError, KeyError):
            continue  # it ended meanwhile, or is a thread of the kernel
        parents[int(folder.name)] = int(words[1])
        # Its own, and that of children which have ended.
        spent = sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
        stats[int(folder.name)] = lines["Name"].strip(), spent, peak
    workers = {worker.pid for worker in cluster.workers}

    def find_root(process: int) -> str:
        while process in parents:
            if process in workers:
                return "worker"
            if process == os.getpid():
                return "driver"
            process = parents[process]
        return ""

    cpu, peaks = 0.0, {"driver": 0.0, "java": 0.0, "python": 0.0}
    for process, (name, spent, peak) in stats.items():
        if root := find_root(process):
            kind = root if root == "driver" else "java" if name == "java" else "python"
            cpu, peaks[kind] = cpu + spent, max(peaks[kind], peak)
    return Processes(cpu, **peaks)


def print_paper() -> None:
    """What ids, digest and writing shuffle of so many records, and what becomes of them."""
    shuffled = 2 * _RECORD + _ID + _DIGEST + _PLACE
    print(f"{shuffled} bytes a record; {_PLACE + 2 * _ID} to pair it, {_ID} for its id")
    for records in (10**9, 10**11):
        files, size = count_files(records), records * _RECORD
        print(
            f"{records:,} records: {size / 1e9:,.0f} GB, {records * shuffled / 1e9:,.0f} GB "
            f"shuffled, {size / _PART:,.0f} parts, {files:,} files, "
            f"{files * _LISTED / 1e6:,.1f} MB of digests, {records / 4096 / 1e6:,.1f} million in "
            f"each of 4096 buckets, {records / 4096 * 16 / 1e9:,.2f} GB"
        )


def main() -> None:
    """Print a row for each size and piece of work; the model alone with `paper`."""
    if sys.argv[1:] == ["paper"]:
        print_paper()
        return
    is_discharges = sys.argv[1:2] == ["classes"]
    sizes = tuple(map(int, sys.argv[2 if is_discharges else 1 :])) or SIZES
    measure = _measure_classes if is_discharges else _measure
    heads = f"{'wall s':>8} {'CPU s':>8} {'shuffled':>9} {'driver':>6} {'java':>6} {'python':>6}"
    print(f"{'records':>12} {'work':<22} {heads}")
    with tempfile.TemporaryDirectory() as place, start_cluster(memory="3g") as cluster:
        settings = {"memory": "1500m", "extraJavaOptions": "-XX:+UseSerialGC"}
        executor = {f"spark.executor.{name}": value for name, value in settings.items()}
        session = open_session(cluster.master, **executor)
        make_records(session, 1000, Path(place) / "warm").count()
        for records in sizes:
            parts = max(_FEWEST_PARTS, records // _IN_PART)
            session.conf.set("spark.sql.shuffle.partitions", str(parts))
            measure(session, cluster, records, Path(place) / str(records))
        session.stop()


def _run(
    session: Any, cluster: Cluster, records: int, name: str, work: Callable[[], object]
) -> None:
    """Do a piece of work, and print what it took."""
    before, shuffled = look_at_processes(cluster), read_shuffled(session)
    start = time.perf_counter()
    work()
    wall, after = time.perf_counter() - start, look_at_processes(cluster)
    moved = (read_shuffled(session) - shuffled) / records
    print(
        f"{records:>12,} {name:<22} {wall:>8.1f} {after.cpu - before.cpu:>8.1f} {moved:>7.0f} B "
        f"{after.driver:>6.2f} {after.java:>6.2f} {after.python:>6.2f}",
        flush=True,
    )


def _measure_classes(session: Any, cluster: Cluster, records: int, place: Path) -> None:
    """Methods and a measure that look at many records at once, on invented discharges."""
    place.mkdir()
    path, _ = make_files(place, records)
    schema = sf.Schema({**dict.fromkeys(KEYS, "quasi"), "charge": "sensitive"})
    engine, state, names = SparkEngine(), dict[str, Any](), list(KEYS)
    run = partial(_run, session, cluster, records)

    def prepare() -> None:
        data = sf.Dataset(session.read.parquet(str(path)), schema)
        state["data"] = engine.keep(engine.prepare(data))
        len(state["data"])

    def apply(step: sf.Method) -> sf.Dataset:
        released: sf.Dataset = engine.keep(step.apply(state["data"], key=KEY))
        state[step.name] = released
        return released

    run("prepare (ids)", prepare)
    uniqueness = sf.risk.Uniqueness(known=["age_yrs", "sex", "race", "patcnty"])
    run("uniqueness", lambda: uniqueness.measure(state["data"]))
    by_rank = sf.methods.KAnonymity(variables=["age_yrs", "sex", "los"], k=10, clustering="origin")
    noise = sf.methods.Noise(variables=["charge"], variance_share=0.1)
    run("noise", lambda: len(apply(noise)))
    engine.let_go(state[noise.name])
    run("S2, k = 10", lambda: len(apply(by_rank)))
    engine.let_go(state[by_rank.name])
    if records > _MOST_FOR_CLASSES:
        engine.let_go(state["data"])
        return
    run("k-anonymity, k = 100", lambda: len(apply(sf.methods.KAnonymity(k=100))))
    there = engine.distinct(state["k_anonymity"], names)
    here = sf.methods.KAnonymity(k=100).apply(sf.scan(path, schema=schema), key=KEY)
    local = engine_for(here.frame).distinct(here, names)
    tables = [item.values.with_columns(n=pl.Series(item.counts)) for item in (there, local)]
    first, second = (table.cast(pl.String).sort(table.columns) for table in tables)
    print(f"{len(there):,} classes of at least {there.counts.min()}; same: {first.equals(second)}")
    for data in state.values():
        engine.let_go(data)


def _measure(session: Any, cluster: Cluster, records: int, place: Path) -> None:
    engine = SparkEngine()
    state: dict[str, Any] = {}

    run = partial(_run, session, cluster, records)

    def prepare() -> None:
        data = sf.Dataset(make_records(session, records, place / "in"), sf.Schema(ROLES))
        state["data"] = engine.keep(engine.prepare(data))
        len(state["data"])

    def noise() -> None:
        step = sf.methods.Noise(variables=["x"], variance=1.0)
        len(step.apply(state["data"], key=KEY))

    summaries: dict[str, list[Summary]] = {"x": [Mean(), Deviation(), Quantile(0.5)]}
    plan = sf.Plan(
        schema=sf.Schema(ROLES),
        steps=[
            sf.methods.Drop(),
            sf.methods.Drop(variables=KNOWN[3:]),
            sf.methods.Noise(variables=["x"], variance=1.0),
        ],
        targets={"k": {"min": 2}},
        release=Writing(accept_attacks="a benchmark"),
    )
    run("prepare (ids)", prepare)
    run("aggregate", lambda: engine.aggregate(state["data"], summaries))
    run("distinct, 5 variables", lambda: engine.distinct(state["data"], KNOWN[:5]))
    run("noise (map_rows)", noise)
    run("protect", lambda: state.update(release=sf.protect(state["data"], plan, key=KEY)))
    run("write", lambda: state["release"].write(place / "release", ledger=False))
    for data in (state["data"], state["release"].dataset, state["release"].original):
        engine.let_go(data)


if __name__ == "__main__":
    main()
