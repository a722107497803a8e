"""Which of two plans is better for the data: paired differences and how sure they are."""

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

from sfumato.data import Dataset
from sfumato.errors import PlanError, SchemaError, SfumatoError, TargetError
from sfumato.evidence import Evidence
from sfumato.plan import Plan
from sfumato.plan.targets import Target, find_number, read_for_target
from sfumato.progress import current_progress
from sfumato.randomness import Key, keyed_order
from sfumato.run import protect
from sfumato.tuning.calibrate import t_quantile
from sfumato.tuning.runner import Runner, depends_on_key
from sfumato.tuning.scores import list_left_out

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
    table : a row per number: `a` and `b` on all records, at their worst reading; the `difference` a
        - b with its interval `low` to `high`, the share of draws that `agreed` on its sign, which
        of them is `better` ("a", "b", or that no difference can be told), and the `draws` in which
        both could be measured.
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


@dataclass(frozen=True)
class _Quantity:
    """A number that is compared: of which measure, and whether less (1) or more (-1) is better.

    `target` is the target on it, if there is one: it says which end of an interval is the worse.
    """

    label: str
    number: str
    sign: int
    target: Target | None = None

    def read(self, evidence: Evidence) -> float:
        """The number at worst, as a target would see it."""
        if self.target is None:
            return evidence.at_worst
        return read_for_target(self.target, self.number, evidence)[0]


def compare(
    runner: Runner,
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
    if len(runner.data) < 2 * _FEWEST:
        raise PlanError("Halves of so few records say nothing.", hint="compare on more records.")
    master = Key(hashlib.sha256(f"sfumato compare {seed}".encode()).digest())
    # Without targets, so that a missed one does not stop the comparison.
    plans = [
        Plan(schema=plan.schema, steps=plan.steps, evaluate=runner.searched, read=plan.read)
        for plan in (a, b)
    ]
    complete, unlike = _measure_both(runner, plans, master)
    halves = [_measure_half(runner, plans, master, repeat, repeats) for repeat in range(repeats)]
    rows = [
        _compare_number(
            name,
            quantity.sign,
            complete,
            [[half[name] for half in pair] for pair in halves],
            unlike.get(quantity.label, ""),
        )
        for name, quantity in _list_quantities(runner).items()
    ]
    return Compared(
        a=names[0], b=names[1], table=runner.data.like(pl.DataFrame(rows)), repeats=repeats
    )


def _list_quantities(runner: Runner) -> dict[str, _Quantity]:
    """Every number that is compared: those of the targets, and the value of every other measure."""
    quantities: dict[str, _Quantity] = {}
    targeted = set()
    for target in runner.plan.targets:
        position = find_number(target, runner.measures)
        if position is not None:
            targeted.add(position)
            sign = -1 if target.least is not None else 1
            quantities[target.name] = _Quantity(*position, sign, target)
    for label, measure in runner.measures.items():
        if (label, measure.name) not in targeted and label not in quantities:
            sign = -1 if measure.direction == "higher" else 1
            quantities[label] = _Quantity(label, measure.name, sign)
    return quantities


def _measure_both(
    runner: Runner, plans: Sequence[Plan], master: Key
) -> tuple[list[Numbers], dict[str, str]]:
    """The numbers of both plans on all records, and by measure what only one is scored on."""
    complete: list[Numbers] = []
    left_out = []
    for plan in plans:
        keys = [Key(master.subkey("compare", "whole", draw)) for draw in range(len(runner.keys))]
        draws = [
            _measure_plan(runner, runner.data, plan, key)
            for key in (keys if depends_on_key(plan.steps) else keys[:1])
        ]
        complete.append(
            {
                name: math.fsum(draw.numbers[name] for draw in draws) / len(draws)
                for name in draws[0].numbers
            }
        )
        left_out.append(draws[0].left_out)
    first, second = left_out
    unlike = {
        label: ", ".join(sorted(set(first.get(label, ())) ^ set(second.get(label, ()))))
        for label in {**first, **second}
    }
    return complete, {label: names for label, names in unlike.items() if names}


def _measure_half(
    runner: Runner, plans: Sequence[Plan], master: Key, repeat: int, repeats: int
) -> list[Numbers]:
    """Both plans on the same half, with the same key."""
    current_progress()("comparing", repeat, repeats)
    key = Key(master.subkey("compare", "half", repeat))
    drawn = keyed_order(runner.data.identity.ids(key), key)[: len(runner.data) // 2]
    # In the order of the data, so that methods see the records as they stood.
    half = runner.data.take(np.sort(drawn))
    return [_measure_plan(runner, half, plan, key).numbers for plan in plans]


@dataclass(frozen=True)
class _Scores:
    """The numbers of one run, and by measure the variables that are not compared."""

    numbers: Numbers
    left_out: Mapping[str, set[str]]


def _measure_plan(runner: Runner, data: Dataset, plan: Plan, key: Key) -> _Scores:
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
    numbers = {
        name: quantity.read(evidence[quantity.label]) if quantity.label in evidence else math.nan
        for name, quantity in _list_quantities(runner).items()
    }
    left_out = {label: list_left_out(measured) for label, measured in evidence.items()}
    return _Scores(numbers, {label: names for label, names in left_out.items() if names})


def _compare_number(
    name: str,
    sign: int,
    complete: Sequence[Numbers],
    halves: Sequence[Sequence[float]],
    unlike: str = "",
) -> dict[str, Any]:
    first, second = (numbers[name] for numbers in complete)
    gap = first - second
    differences = [a - b for a, b in halves]
    # A half that refused a plan leaves the comparison open: no imputation.
    finite = [difference for difference in differences if math.isfinite(difference)]
    row = {"number": name, "a": _or_none(first), "b": _or_none(second), "difference": _or_none(gap)}
    if math.isnan(gap) or len(finite) < len(differences) or unlike:
        lost = len(differences) - len(finite)
        why = f"it could not be measured in {lost} of {len(differences)} draws"
        if unlike:
            why = f"only one of both is scored on {unlike}"
        elif math.isnan(gap):
            why = "it could not be measured on all records"
        unsure = {"low": None, "high": None, "agreed": None, "better": f"{UNSURE}: {why}"}
        return row | unsure | {"draws": len(finite)}
    low, high = gap - _margin(finite, -1), gap + _margin(finite, 1)
    # The sign must be stable as well: a wide tail on one side may leave 0 out by luck.
    agreed = sum(difference * gap > 0 for difference in finite) / len(finite)
    better = UNSURE
    if agreed >= _AGREED and not low <= 0 <= high:
        better = "a" if sign * low < 0 else "b"  # both ends have the same sign
    return row | {
        "low": low,
        "high": high,
        "agreed": agreed,
        "better": better,
        "draws": len(finite),
    }


def _margin(differences: Sequence[float], side: int) -> float:
    """How far the difference may move to one side, from the draws on that side of their median.

    One half in which a plan goes badly wrong widens the interval to that side, not to both.
    """
    middle = statistics.median(differences)
    beyond = [
        side * (difference - middle)
        for difference in differences
        if side * (difference - middle) >= 0
    ]
    spread = math.sqrt(math.fsum(distance * distance for distance in beyond) / max(1, len(beyond)))
    return spread * t_quantile(max(_FEWEST, len(differences) // 2 + 1))


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
