"""Random data in which something survives protection: is a light green that somebody breaks?

    python -m tests.soak.preserved --first 0 --cases 200 [--log soak.log]

Each case has a number, from which all of it follows: a family (totals, households, gaps between
dates, far outliers, clumped values, repeated readings), names, sizes, and whether there is a hole.
The data are protected, and an attacker who shares no code with the measures tries the release. A
case fails if the attacker succeeds clearly beyond what is acceptable and the light on attacks is
green, if there is no hole and it is red, or if an error is not one of Sfumato's.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import string
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.plan import Writing

KEY = bytes(range(32))
_K = 5
_FOUND = 1 / _K + 0.06 + 0.06
"""The share of people found beyond which a green light is wrong: what k accepts, and luck."""


@dataclass(frozen=True)
class PreservedCase:
    """Data, how they are protected, and who attacks them with what success is too much."""

    family: str
    hole: bool
    frame: pl.DataFrame
    roles: dict[str, Any]
    steps: list[sf.Method]
    attack: Callable[[pl.DataFrame, dict[str, Any]], float]
    acceptable: float


@dataclass
class PreservedTally:
    """What the cases came to."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def _draw_names(chance: random.Random, count: int) -> list[str]:
    names: set[str] = set()
    while len(names) < count:
        names.add("".join(chance.choices(string.ascii_lowercase, k=chance.randint(3, 8))))
    return sorted(names)


def make_preserved_case(number: int) -> PreservedCase:
    """A random case: the same for the same number."""
    chance, draws = random.Random(number), np.random.default_rng(number)  # noqa: S311 - no secret
    makers = (_add_up, _share_a_house, _visit, _stand_out, _pile_up, _repeat)
    return makers[number % len(makers)](chance, draws, chance.random() < 0.6)


def _add_up(chance: random.Random, draws: np.random.Generator, hole: bool) -> PreservedCase:  # noqa: FBT001
    """A total of two variables that are known; or one of something else."""
    one, other, total = _draw_names(chance, 3)
    people = chance.randint(200, 500)
    parts = draws.integers(0, chance.choice([500, 9000]), (2, people))
    weights = chance.choice([(1, 1), (1, -1), (2, 1), (1, 3)])
    true = weights[0] * parts[0] + weights[1] * parts[1]
    shown = true if hole else draws.integers(0, 9000, people)
    frame = pl.DataFrame({one: parts[0], other: parts[1], total: shown})
    step = sf.methods.KAnonymity(variables=[one, other], k=_K, output="range")

    def attack(released: pl.DataFrame, manifest: dict[str, Any]) -> float:
        del manifest
        ends = [
            [[float(end) for end in str(cell).strip("[]").split(";")] for cell in released[name]]
            for name in (one, other)
        ]
        low, high = (np.array([[cell[at] for cell in side] for side in ends]) for at in (0, -1))
        values, found = released[total].to_numpy(), 0.0
        for person in range(people):
            fits = (low <= parts[:, [person]]) & (parts[:, [person]] <= high)
            rows = np.flatnonzero(fits.all(axis=0) & (values == true[person]))
            found += (person in rows) / max(len(rows), 1)
        return found / people

    roles = {one: "quasi", other: "quasi", total: chance.choice(["other", "sensitive"])}
    return PreservedCase("totals", hole, frame, roles, [step], attack, _FOUND)


def _share_a_house(chance: random.Random, draws: np.random.Generator, hole: bool) -> PreservedCase:  # noqa: FBT001
    """Households under a pseudonym; or without one."""
    house, age, sex = _draw_names(chance, 3)
    sizes = draws.integers(1, chance.randint(3, 7), chance.randint(120, 250))
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    frame = pl.DataFrame(
        {
            house: numbers,
            age: draws.integers(0, 80, len(numbers)) // 20,
            sex: draws.choice(["f", "m"], len(numbers)),
        }
    )
    steps: list[sf.Method] = [
        sf.methods.Pseudonymise(variables=[house], namespace="house")
        if hole
        else sf.methods.Drop(variables=[house])
    ]

    def attack(released: pl.DataFrame, manifest: dict[str, Any]) -> float:
        del manifest
        if house not in released.columns:
            return 0.0
        profiles = Counter(
            tuple(sorted(rows.select(age, sex).rows()))
            for rows in released.partition_by(house, include_key=True)
        )
        # Who knows the members finds one of those that look the same.
        return len(profiles) / profiles.total()

    roles = {house: "cluster", age: "quasi", sex: "quasi"}
    return PreservedCase("households", hole, frame, roles, steps, attack, _FOUND)


def _visit(chance: random.Random, draws: np.random.Generator, hole: bool) -> PreservedCase:  # noqa: FBT001
    """Several dates of a person, shifted; or their order only."""
    person, day, sex = _draw_names(chance, 3)
    people, visits = chance.randint(80, 200), chance.randint(3, 6)
    numbers = np.repeat(np.arange(people), visits)
    start = dt.date(2015, 1, 1)
    days = [start + dt.timedelta(int(late)) for late in draws.integers(0, 900, people * visits)]
    frame = pl.DataFrame(
        {person: numbers, day: days, sex: np.repeat(draws.choice(["f", "m"], people), visits)}
    )
    shift = (
        sf.methods.ShiftDates(variables=[day], window=364)
        if hole
        else sf.methods.ShiftDates(variables=[day], origin=day, count="order")
    )
    steps = [sf.methods.Pseudonymise(variables=[person]), shift]

    def attack(released: pl.DataFrame, manifest: dict[str, Any]) -> float:
        del manifest
        if not released[day].dtype.is_temporal():
            return 0.0

        def count_gaps(table: pl.DataFrame) -> list[tuple[int, ...]]:
            rows = table.group_by(person).agg(pl.col(day).sort())[day].to_list()
            return [tuple((b - a).days for a, b in pairwise(sorted(dates))) for dates in rows]

        shown = Counter(count_gaps(released))
        return sum(1 / shown[gaps] if shown[gaps] else 0 for gaps in count_gaps(frame)) / people

    roles = {person: "person", day: "other", sex: "quasi"}
    return PreservedCase("gaps", hole, frame, roles, steps, attack, _FOUND)


def _stand_out(chance: random.Random, draws: np.random.Generator, hole: bool) -> PreservedCase:  # noqa: FBT001
    """One person far out under noise; or nobody."""
    income, sex = _draw_names(chance, 2)
    people = chance.randint(200, 600)
    values = draws.normal(0, 1, people)
    if hole:
        values[0] = chance.choice([-1, 1]) * chance.uniform(12, 40)
    frame = pl.DataFrame({income: values.round(3), sex: draws.choice(["f", "m"], people)})
    step = sf.methods.Noise(variables=[income], sd_share=chance.choice([0.1, 0.3]))

    def attack(released: pl.DataFrame, manifest: dict[str, Any]) -> float:
        if not hole:
            return 0.0  # nobody is known for being a little beyond the others
        # The attacker draws the published noise again and again.
        sd = manifest["noise"]["variables"][income]["variance"] ** 0.5
        del released
        again = values + np.random.default_rng(1).normal(0, sd, (400, people))
        highest = (again.argmax(axis=1) == values.argmax()).mean()
        return float(max(highest, (again.argmin(axis=1) == values.argmin()).mean()))

    roles = {income: "sensitive", sex: "quasi"}
    return PreservedCase("outliers", hole, frame, roles, [step], attack, 0.97)


def _pile_up(chance: random.Random, draws: np.random.Generator, hole: bool) -> PreservedCase:  # noqa: FBT001
    """Values on a few points under noise; or spread out."""
    pay, sex = _draw_names(chance, 2)
    people, points = chance.randint(500, 1200), chance.randint(3, 5)
    steps_up = np.cumsum(draws.uniform(0.8, 1.6, points))
    true = steps_up[draws.integers(0, points, people)] if hole else draws.normal(2, 0.6, people)
    true = 1000 * (true + draws.normal(0, 0.004, people))
    frame = pl.DataFrame({pay: true.round(1), sex: draws.choice(["f", "m"], people)})
    step = sf.methods.Noise(variables=[pay], sd_share=chance.choice([0.1, 0.15, 0.2]))

    def attack(released: pl.DataFrame, manifest: dict[str, Any]) -> float:
        shown = released[pay].to_numpy()
        sd = manifest["noise"]["variables"][pay]["variance"] ** 0.5
        # A histogram smoothed by the noise, its peaks, and for each value the nearest of them.
        grid = np.linspace(shown.min(), shown.max(), 400)
        density = np.exp(-((grid[:, None] - shown) ** 2) / (2 * (sd / 2) ** 2)).sum(axis=1)
        peaks = grid[1:-1][(density[1:-1] > density[:-2]) & (density[1:-1] > density[2:])]
        if not len(peaks):
            return 0.0
        guess = peaks[np.abs(shown[:, None] - peaks).argmin(axis=1)]
        reach = min(0.05 * true.std(), sd / 4)
        hits = [(np.abs(which - true) <= reach).mean() for which in (guess, shown)]
        values = np.sort(true)
        alike = np.searchsorted(values, values + 2 * reach, side="right") - np.arange(people)
        control = max(hits[1], alike.max() / people)
        return float((hits[0] - control) / (1 - control))

    roles = {pay: "sensitive", sex: "quasi"}
    return PreservedCase("clumps", hole, frame, roles, [step], attack, 0.3)


def _repeat(chance: random.Random, draws: np.random.Generator, hole: bool) -> PreservedCase:  # noqa: FBT001
    """Several readings of one quantity, each with noise of its own; or one noise for all."""
    names = _draw_names(chance, chance.randint(3, 5))
    *readings, sex = names
    people = chance.randint(300, 800)
    quantity = draws.normal(100, 10, people)
    columns = {name: quantity + draws.normal(0, 0.3, people) for name in readings}
    frame = pl.DataFrame({**columns, sex: draws.choice(["f", "m"], people)})
    share = chance.choice([0.1, 0.2])
    step: sf.Method = (
        sf.methods.Noise(variables=readings, sd_share=share)
        if hole
        else sf.methods.CorrelatedNoise(variables=readings, noise_share=share)
    )

    def attack(released: pl.DataFrame, manifest: dict[str, Any]) -> float:
        del manifest
        shown = released.select(readings).to_numpy()
        true = frame[readings[0]].to_numpy()
        errors = [
            np.var(guess - true - (guess - true).mean()) for guess in (shown[:, 0], shown.mean(1))
        ]
        return float(1 - errors[1] / errors[0])

    roles = dict.fromkeys(readings, "sensitive") | {sex: "quasi"}
    # With two readings half of the noise goes, which asks for a second look and no more.
    return PreservedCase("readings", hole, frame, roles, [step], attack, 0.35)


def run_preserved_case(case: PreservedCase, tally: PreservedTally) -> None:
    """Protect, attack, and hold the light against what the attack achieves."""
    schema = sf.Schema(case.roles)
    writing = Writing(keep_order=True, attack_seconds=600)
    plan = sf.Plan(schema=schema, steps=case.steps, release=writing)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = sf.protect(sf.Dataset(case.frame, schema), plan, key=KEY)
            light = release.lights.attacks
    except SfumatoError as error:
        tally.outcomes[f"{case.family}: refused: {type(error).__name__}"] += 1
        return
    achieved = case.attack(release.data, release.manifest)
    hole = "hole" if case.hole else "no hole"
    tally.outcomes[f"{case.family}, {hole}: {light.colour}"] += 1
    if light.colour == "green" and achieved > case.acceptable:
        raise AssertionError(f"{case.family}: green, and an attacker achieves {achieved:.2f}")
    if light.colour == "red" and not case.hole:
        raise AssertionError(f"{case.family}: red without a hole: {light.reasons[0]}")
    if case.hole and light.colour == "green":
        tally.outcomes[f"{case.family}: green with a hole that nobody found"] += 1


def soak_preserved(first: int, count: int, *, log: Any = None) -> PreservedTally:
    """Run so many cases; failures are listed, and do not end it."""
    tally = PreservedTally()
    for number in range(first, first + count):
        tally.outcomes["cases"] += 1
        try:
            run_preserved_case(make_preserved_case(number), tally)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is to be reported
            text = f"case {number}: {type(error).__name__}: {error}"
            tally.failures.append(text)
            if log is not None:
                print(text, file=log, flush=True)
    return tally


def main() -> int:
    """Soak for so many cases, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--log", type=Path, help="where failures go; else to stderr")
    chosen = parser.parse_args()
    start = time.monotonic()
    with chosen.log.open("a") if chosen.log else sys.stderr as log:
        tally = soak_preserved(chosen.first, chosen.cases, log=log)
    facts = {
        "outcomes": dict(sorted(tally.outcomes.items())),
        "failures": tally.failures,
        "seconds": round(time.monotonic() - start),
    }
    sys.stdout.write(json.dumps(facts, indent=2) + "\n")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
