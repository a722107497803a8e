"""Visits of persons, against as many rows that nobody links: k-anonymity and shifted dates.

A person has ten visits on average. The same table is worked on twice: with the role "person", so
that k-anonymity clusters persons and a person's dates move together, and with a number of its own
in each row, so that every row is a person. "steps" is `shift_dates` of two dates and `k_anonymity`
(k = 5) of age, sex and region; "protect" is `sf.protect` of the same plan with the target k >= 5.

"frames" is polars' `estimated_size` of the original and of the released table of that run together,
without anything else. It counts a text by its bytes, here 2 to 7; polars itself holds 16 for each
text, so a process with both tables and nothing else is above 1.0. The peak is that of the process
above its start, with the original, which is there already. The goal is 3 times the frames, and 3
times the CPU time of the unlinked rows.

python -m benchmarks bench_persons takes 0.1, 0.3 and 1 million visits; SFUMATO_RECORDS=10000000
takes as many as it says besides. At the end it says how both grow from one size to the next.
"""

from __future__ import annotations

import os
from itertools import pairwise

from benchmarks.cost import Cost, cost

SIZES = (100_000, 300_000, 1_000_000)
VISITS = 10
SETUP = """
import datetime as dt
import numpy as np
import polars as pl
import sfumato as sf
from sfumato.plan import Writing
FIRST, LAST = dt.date(2018, 1, 1), dt.date(2022, 12, 31)
def make_visits(rows, linked):
    random = np.random.default_rng(1)
    persons = rows // {visits}
    person = np.concatenate([np.arange(persons), random.integers(0, persons, rows - persons)])
    born = random.integers(-18_000, 16_000, persons).astype(np.int32)
    day = 17_532 + random.integers(0, 1_826, rows).astype(np.int32)
    columns = {{
        "patient": person if linked else np.arange(rows),
        "visit": pl.Series(day).cast(pl.Date),
        "ended": pl.Series(day + random.geometric(0.2, rows).astype(np.int32)).cast(pl.Date),
        "age": (day - born[person]) // 365,
        "sex": random.integers(0, 2, persons).astype(np.int8)[person],
        "region": random.integers(0, 40, persons).astype(np.int16)[person],
        "pressure": random.normal(130, 15, rows).round(1),
    }}
    return pl.DataFrame(columns)
def declare(linked):
    return sf.Schema({{
        "patient": "person" if linked else "direct",
        "visit": sf.Column(role="other", kind="date"),
        "ended": sf.Column(role="other", kind="date"),
        "age": sf.Column(role="quasi", kind="integer", domain=(0, 100)),
        "sex": sf.Column(role="quasi", kind="nominal"),
        "region": sf.Column(role="quasi", kind="nominal"),
        "pressure": sf.Column(role="sensitive", kind="continuous"),
    }})
STEPS = [sf.methods.Drop(), sf.methods.ShiftDates(window=364), sf.methods.KAnonymity(k=5)]
def steps(data):
    for step in STEPS:
        data = step.apply(data, key=bytes(range(32)))
    return data.frame
def protect(data):
    plan = sf.Plan(
        schema=data.schema,
        steps=STEPS,
        targets={{"k.min": 5}},
        release=Writing(accept_attacks="a benchmark"),
    )
    return sf.protect(data, plan, key=bytes(range(32))).data
def weigh(*frames):
    return sum(frame.estimated_size() for frame in frames) / 2**20
def read(rows):
    frame = make_visits(rows, {linked})
    return sf.Dataset(frame, declare({linked}))
{work}(read(20_000))
data = read({rows})
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the memory that the warm-up took
"""
WORKS = ("steps", "protect")


def measure(work: str, rows: int, *, linked: bool) -> Cost:
    """What a piece of work costs on so many visits, and how many MB both frames are."""
    setup = SETUP.format(work=work, rows=rows, linked=linked, visits=VISITS)
    return cost(f"released = {work}(data)", setup=setup, result="weigh(data.frame, released)")


def compare_peak(run: Cost, rows: int) -> float:
    """The peak with the original, in frames."""
    return (run.peak + rows * _ORIGINAL / 2**20) / run.result


_ORIGINAL = 31
"""Bytes of a row of the original."""


def main() -> None:
    """Print the table."""
    more = int(os.environ.get("SFUMATO_RECORDS", "0"))
    print(
        f"{'work':>8} {'visits':>11} {'persons s':>10} {'rows s':>8} {'ratio':>6} "
        f"{'persons MB':>11} {'rows MB':>8} {'ratio':>6} {'persons':>14} {'rows':>14}"
    )
    sizes = (*SIZES, more) if more else SIZES
    runs: dict[str, list[Cost]] = {work: [] for work in WORKS}
    for rows in sizes:
        for work in WORKS:
            persons, unlinked = (measure(work, rows, linked=linked) for linked in (True, False))
            runs[work].append(persons)
            print(
                f"{work:>8} {rows:>11,} {persons.cpu:>10.1f} {unlinked.cpu:>8.1f} "
                f"{persons.cpu / unlinked.cpu:>6.2f} {persons.peak:>11.0f} {unlinked.peak:>8.0f} "
                f"{persons.peak / unlinked.peak:>6.2f} {compare_peak(persons, rows):>7.2f} frames "
                f"{compare_peak(unlinked, rows):>7.2f} frames",
                flush=True,
            )
    for work in WORKS:
        for (before, after), (few, many) in zip(pairwise(runs[work]), pairwise(sizes), strict=True):
            print(
                f"{work}, from {few:,} to {many:,} visits of persons ({many / few:.1f} times): CPU "
                f"{after.cpu / before.cpu:.1f} times, peak {after.peak / before.peak:.1f} times"
            )


if __name__ == "__main__":
    main()
