"""Sequences of outputs against an attacker with exact fractions: what passed gives nobody away.

    python -m tests.soak.outputs --cases 1000 [--first 0] [--log soak.log]

Every case is 10 to 40 people and up to seven outputs of random windows, choices and groupings of
them, as bare totals, tables, means and boxes; now and then the values of a few are changed in
between. The attacker (`tests/outputs/elimination.py`) shares no code with the log: it writes down
who counts in every sum that the log let pass, and eliminates with fractions. A group of people
that no output tells apart is one column, so that it is quick.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.outputs import Log, Output, Rules
from tests.outputs.elimination import reduce_rows

_PLAIN = Rules(zeros="show", full="show")
_FEWEST = 3
_PROGRESS = 50
_SCHEMA = sf.Schema({"number": "direct"})
Atom = tuple[int, float]
Sums = list[set[Atom]]
"""Of each sum that is shown the people in it, each with the value that counts."""


def make_people(chance: random.Random, count: int) -> pl.DataFrame:
    """People with two groupings, and pay of two decimals."""
    return pl.DataFrame(
        {
            "number": list(range(count)),
            "ward": [chance.choice("ab") for _ in range(count)],
            "shift": [chance.choice("xyz") for _ in range(count)],
            "pay": [round(chance.lognormvariate(10, 0.5), 2) for _ in range(count)],
        }
    )


def _choose(chance: random.Random, count: int) -> list[int]:
    if chance.random() < 0.6:
        low, high = sorted(chance.sample(range(count + 1), 2))
        return list(range(low, high))
    share = chance.choice((0.3, 0.5, 0.9))
    return [person for person in range(count) if chance.random() < share]


def _change(chance: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    some = chance.sample(range(frame.height), chance.choice((1, 2, frame.height // 2)))
    return frame.with_columns(
        pl.when(pl.col("number").is_in(some)).then(pl.col("pay") * 2).otherwise("pay").alias("pay")
    )


def show(chance: random.Random, frame: pl.DataFrame, log: Log) -> tuple[Sums, Sums]:
    """Make an output, and say which sums of people and of their pay it shows if it passes."""
    data = sf.Dataset(frame, _SCHEMA)
    kind = chance.choice(("total", "box", "table", "mean"))
    by = chance.choice(("ward", "shift"))
    everybody = set(zip(frame["number"].to_list(), frame["pay"].to_list(), strict=True))
    groups = [
        set(zip(part["number"].to_list(), part["pay"].to_list(), strict=True))
        for part in frame.partition_by(by)
    ]
    if kind in ("total", "box"):
        output = Output(kind="box", title=kind, variables=("pay",))
        log.add(output, data, parts=[] if kind == "total" else None)
        return [everybody], [everybody] if kind == "box" else []
    if kind == "table":
        table = sf.tables.crosstab(data, by, log=log)
    else:
        table = sf.tables.pivot(data, index=by, values="pay", log=log)
    name = table.statistics[0]
    hidden = {str(level) for level, value in zip(table.labels[0], table.shown[name], strict=True)
              if math.isnan(value)}  # fmt: skip
    labels = [part[by][0] for part in frame.partition_by(by)]
    shown = [group for label, group in zip(labels, groups, strict=True) if label not in hidden]
    shown += [] if table.labels[0][-1] in hidden else [everybody]
    return shown, shown if kind == "mean" else []


def find_people(sums: Sums, fewest: int) -> set[int] | None:
    """A group of fewer people that a combination of the sums leaves over; None where none does."""
    atoms = sorted({atom for members in sums for atom in members})
    columns: dict[tuple[bool, ...], list[Atom]] = {}
    for atom in atoms:
        columns.setdefault(tuple(atom in members for members in sums), []).append(atom)
    matrix = [[int(key[row]) for key in columns] for row in range(len(sums))]
    people = [{person for person, _ in members} for members in columns.values()]
    rank = len(reduce_rows(matrix))
    few = [index for index, members in enumerate(people) if len(members) < fewest]
    groups: list[tuple[int, ...]] = [(index,) for index in few]
    groups += [(i, j) for i in few for j in few if i < j and len(people[i] | people[j]) < fewest]
    for group in groups:
        left = [[n for index, n in enumerate(row) if index not in group] for row in matrix]
        if len(reduce_rows(left)) < rank:
            return set[int]().union(*(people[index] for index in group))
    return None


def run_case(number: int, tally: Counter[str]) -> str | None:
    """What the attacker found in one sequence of outputs; None where nothing."""
    chance = random.Random(f"outputs {number}")  # noqa: S311 - a case follows from its number
    frame = make_people(chance, chance.randint(10, 40))
    log, counts, sums = Log(rules=_PLAIN), Sums(), Sums()
    for _ in range(chance.randint(2, 7)):
        if chance.random() < 0.15:
            frame = _change(chance, frame)
        part = frame.filter(pl.col("number").is_in(_choose(chance, frame.height)))
        if part.height < _FEWEST:
            continue
        try:
            people, values = show(chance, part, log)
        except SfumatoError:
            tally["refused"] += 1
            continue
        verdict = list(log)[-1].verdict
        tally[verdict] += 1
        if verdict != "pass":
            return None  # whoever looks at it keeps it inside
        # Values count for the numbers of people as well, but not their versions.
        counts += [{(person, 0.0) for person, _ in members} for members in people]
        sums += values
        for shown in (counts, sums):
            found = find_people(shown, _FEWEST) if shown else None
            if found is not None:
                return f"{len(found)} people follow from {len(shown)} sums that passed"
    return None


def soak(first: int, count: int, *, log: Any = None) -> dict[str, Any]:
    """Run so many cases; failures are listed, and do not end it."""
    tally, failures, start = Counter[str](), list[str](), time.monotonic()
    for number in range(first, first + count):
        tally["cases"] += 1
        try:
            found = run_case(number, tally)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is to be reported
            where = traceback.extract_tb(error.__traceback__)[-1]
            found = f"{type(error).__name__}: {error} ({where.name}, {where.lineno})"
        if found is not None:
            failures.append(f"case {number}: {found}")
        if log is not None and tally["cases"] % _PROGRESS == 0:
            print(f"{tally['cases']:,} cases, {len(failures)} failures", file=log, flush=True)
    seconds = round(time.monotonic() - start)
    return {"outcomes": dict(tally.most_common()), "failures": failures, "seconds": seconds}


def main() -> int:
    """Soak for so many cases, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--log", type=Path, help="where progress goes; else to stderr")
    chosen = parser.parse_args()
    log = chosen.log.open("a") if chosen.log else sys.stderr
    facts = soak(chosen.first, chosen.cases, log=log)
    sys.stdout.write(json.dumps(facts, indent=2) + "\n")
    return 1 if facts["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
