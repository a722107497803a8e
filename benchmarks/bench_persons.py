"""Visits of persons, against as many rows that nobody links: k-anonymity and shifted dates.

A person has ten visits on average. The same table is worked on twice: with the role "person", so
that k-anonymity clusters persons and a person's dates move together, and with a number of its own
in each row, so that every row is a person. "steps" is `shift_dates` of two dates and `k_anonymity`
(k = 5) of age, sex and region; "protect" is `sf.protect` of the same plan with the target k >= 5.
"frames" is the memory of the original and of the released table together, without anything else;
the peak is that of the process above its start, with the original, which is there already.

python -m benchmarks bench_persons takes 0.1, 0.3 and 1 million visits; SFUMATO_RECORDS=10000000
takes as many as it says besides.
"""

from __future__ import annotations

import os
from typing import Any

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
    sf.protect(data, plan, key=bytes(range(32)))
def read(rows):
    frame = make_visits(rows, {linked})
    return sf.Dataset(frame, declare({linked}))
{work}(read(20_000))
data = read({rows})
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the memory that the warm-up took
"""
_FEW = 20_000


def weigh_frames(*, linked: bool) -> tuple[float, float]:
    """Bytes of a row in the original frame, and in both frames."""
    code = SETUP.format(work="steps", rows=_FEW, linked=linked, visits=VISITS)
    names: dict[str, Any] = {}
    exec(code.partition("with open")[0], names)  # noqa: S102 - the setup of the runs
    original = names["data"].frame.estimated_size() / _FEW
    return original, original + names["steps"](names["data"]).estimated_size() / _FEW


def measure(work: str, rows: int, *, linked: bool) -> Cost:
    """What a piece of work costs on so many visits."""
    setup = SETUP.format(work=work, rows=rows, linked=linked, visits=VISITS)
    return cost(f"{work}(data)", setup=setup)


def main() -> None:
    """Print the table."""
    more = int(os.environ.get("SFUMATO_RECORDS", "0"))
    heads = (
        f"{'visits':>11} {'persons s':>10} {'rows s':>8} {'ratio':>6} {'peak MB':>8} {'frames':>7}"
    )
    print(f"{'work':>8} {heads}")
    of_persons, of_rows = (weigh_frames(linked=linked) for linked in (True, False))
    for rows in (*SIZES, more) if more else SIZES:
        for work in ("steps", "protect"):
            persons, unlinked = (measure(work, rows, linked=linked) for linked in (True, False))
            shares = [
                (found.peak + rows * original / 1e6) / (rows * both / 1e6)
                for found, (original, both) in ((persons, of_persons), (unlinked, of_rows))
            ]
            print(
                f"{work:>8} {rows:>11,} {persons.cpu:>10.1f} {unlinked.cpu:>8.1f} "
                f"{persons.cpu / unlinked.cpu:>6.2f} {persons.peak:>8.0f} "
                f"{shares[0]:>6.2f}x (unlinked {shares[1]:.2f}x)",
                flush=True,
            )


if __name__ == "__main__":
    main()
