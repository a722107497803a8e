"""Which of two plans is better for the whole data: paired differences and how sure they are."""

from __future__ import annotations

import hashlib
import math
import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from sfumato.errors import PlanError, SchemaError, SfumatoError, TargetError
from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.plan.targets import home
from sfumato.progress import current_progress
from sfumato.randomness import Key, keyed_order
from sfumato.run import protect
from sfumato.tuning.bench import Bench, by_chance
from sfumato.tuning.trials import sureness

_AGREED = 0.9
UNSURE = "no difference can be told"
_FEWEST = 2
Numbers = Mapping[str, float]


@dataclass(frozen=True, eq=False, kw_only=True)
class Compared:
    """Two plans, number by number.

    Parameters
    ----------
    a, b : what they are called.
    table : a row per number: `a` and `b` on all records, the `difference` a - b with its interval
        `low` to `high`, the share of draws that `agreed` on its sign, which of them is `better`
        ("a", "b", or that no difference can be told), and the `draws` in which both could be
        measured.
    repeats : how many halves of the records were drawn.
    """

    a: str
    b: str
    table: Any = field(repr=False)
    repeats: int

    @property
    def why(self) -> tuple[str, ...]:
        """The answer, a sentence for each number."""
        from sfumato.io.frames import wrap

        names = {"a": self.a, "b": self.b}
        return tuple(
            f"{row['number']}: {names[row['better']]} is better by "
            f"{abs(row['difference']):.4g} ({row['low']:.4g} to {row['high']:.4g} as a - b)."
            if row["better"] in names
            else f"{row['number']}: {row['better']}."
            for row in wrap(self.table).rows(named=True)
        )


def compare(
    bench: Bench,
    a: Plan,
    b: Plan,
    *,
    names: tuple[str, str] = ("a", "b"),
    repeats: int = 20,
    seed: int = 0,
) -> Compared:
    """Measure two plans on all records and on random halves of them, each half with its own key.

    Question: which of two strategies is better for the whole data, or can that not be told?
    Assumes: the difference is that on all records, the mean over keys where there is chance. Its
    standard error is the spread of the difference over random halves drawn without replacement,
    both plans on the same half with the same key (the delete-half jackknife), to either side of
    their median. That is sound for means and shares; for the smallest class, such as k, it is a
    rough guide. Each interval is of 95 %, by itself. One is called better when its interval
    excludes 0, and nine in ten halves agree.

    References: Shao & Wu (1989), A general theory for jackknife variance estimation, Annals of
    Statistics 17:1176 (deleting half of the records).
    """
    if repeats < _FEWEST:
        raise PlanError("An interval takes at least two draws.", hint="give a larger `repeats`.")
    if len(bench.data) < 2 * _FEWEST:
        raise PlanError("Halves of so few records say nothing.", hint="compare on more records.")
    master = Key(hashlib.sha256(f"sfumato compare {seed}".encode()).digest())
    plans = [_bare(bench, one) for one in (a, b)]
    whole = [_over_keys(bench, one, master) for one in plans]
    halves = [_on_half(bench, plans, master, at, repeats) for at in range(repeats)]
    rows = [
        _row(name, sign, whole, [[half[name] for half in pair] for pair in halves])
        for name, sign in _directions(bench).items()
    ]
    return Compared(
        a=names[0], b=names[1], table=bench.data.like(pl.DataFrame(rows)), repeats=repeats
    )


def _bare(bench: Bench, plan: Plan) -> Plan:
    """The plan without targets, so that a missed one does not stop the comparison."""
    return Plan(schema=plan.schema, steps=plan.steps, evaluate=bench.measures, read=plan.read)


def _directions(bench: Bench) -> dict[str, int]:
    """Every number that is compared, and whether less (1) or more (-1) of it is better."""
    found: dict[str, int] = {}
    places = set()
    for target in bench.plan.targets:
        place = home(target, bench.measures)
        if place is not None:
            places.add(place)
            found[target.name] = -1 if target.least is not None else 1
    for label, one in bench.measures.items():
        if (label, one.name) not in places and label not in found:
            found[label] = _sign(one)
    return found


def _sign(one: Measure) -> int:
    return -1 if one.direction == "higher" else 1


def _over_keys(bench: Bench, plan: Plan, master: Key) -> Numbers:
    """The numbers on all records, the mean over keys."""
    keys = [Key(master.subkey("compare", "whole", at)) for at in range(len(bench.keys))]
    some = keys if by_chance(plan.steps) else keys[:1]
    found = [_numbers(bench, bench.data, plan, key) for key in some]
    return {name: math.fsum(one[name] for one in found) / len(found) for name in found[0]}


def _on_half(
    bench: Bench, plans: Sequence[Plan], master: Key, at: int, repeats: int
) -> list[Numbers]:
    """Both plans on the same half, with the same key."""
    current_progress()("comparing", at, repeats)
    key = Key(master.subkey("compare", "half", at))
    drawn = keyed_order(bench.data.identity.ids(key), key)[: len(bench.data) // 2]
    half = bench.data.take(np.sort(drawn))
    return [_numbers(bench, half, plan, key) for plan in plans]


def _numbers(bench: Bench, data: Any, plan: Plan, key: Key) -> dict[str, float]:
    """Every compared number of one run; NaN where it could not be computed."""
    evidence: Mapping[str, Evidence] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            evidence = protect(data, plan, key=key).evidence
    except TargetError as missed:
        evidence = missed.evidence
    except (PlanError, SchemaError):
        raise
    except SfumatoError:
        pass  # this half refuses it; the number is lacking, and the table says so
    made = {}
    for name in _directions(bench):
        label, number = _place(bench, name)
        made[name] = evidence[label].number(number) if label in evidence else math.nan
    return made


def _place(bench: Bench, name: str) -> tuple[str, str]:
    for target in bench.plan.targets:
        if target.name == name and (found := home(target, bench.measures)) is not None:
            return found
    return name, bench.measures[name].name


def _row(
    name: str, sign: int, whole: Sequence[Numbers], halves: Sequence[Sequence[float]]
) -> dict[str, Any]:
    first, second = (one[name] for one in whole)
    gap = first - second
    differences = [a - b for a, b in halves]
    done = [one for one in differences if math.isfinite(one)]
    row = {"number": name, "a": _known(first), "b": _known(second), "difference": _known(gap)}
    if math.isnan(gap) or len(done) < len(differences):
        lost = len(differences) - len(done)
        why = "it could not be measured on all records" if math.isnan(gap) else (
            f"it could not be measured in {lost} of {len(differences)} draws"
        )  # fmt: skip
        unsure = {"low": None, "high": None, "agreed": None, "better": f"{UNSURE}: {why}"}
        return row | unsure | {"draws": len(done)}
    low, high = gap - _margin(done, -1), gap + _margin(done, 1)
    agreed = sum(one * gap > 0 for one in done) / len(done)
    better = _better(sign, low, high) if agreed >= _AGREED else UNSURE
    return row | {"low": low, "high": high, "agreed": agreed, "better": better, "draws": len(done)}


def _margin(differences: Sequence[float], side: int) -> float:
    """How far the difference may move to one side, from the draws on that side of their median.

    One half in which a plan goes badly wrong widens the interval to that side, not to both.
    """
    middle = statistics.median(differences)
    away = [side * (one - middle) for one in differences if side * (one - middle) >= 0]
    spread = math.sqrt(math.fsum(one * one for one in away) / max(1, len(away)))
    return spread * sureness(max(_FEWEST, len(differences) // 2 + 1))


def _better(sign: int, low: float, high: float) -> str:
    if low <= 0 <= high:
        return UNSURE
    return "a" if sign * low < 0 else "b"  # both ends have one sign


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
