"""What the targets ask for: crowds to hide in, or distance from the original."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.cells.pairs import numbers_of
from sfumato.data import Dataset
from sfumato.errors import SfumatoError
from sfumato.measure import AT_WORST, Measure
from sfumato.plan.targets import Target, home

_BY_KNOWN = ("h_index", "linkage")
_CROWD = ("k", "k_of_groups", "k_if_clusters_are_known")
_MOVED = "displacement"


@dataclass(frozen=True)
class Needs:
    """What must still be protected, in the data as the preparation leaves them.

    Parameters
    ----------
    known : the variables among which people must not stand out.
    far : the numbers that must lie away from their original.
    secret : the variables that nobody may learn; empty where no target is about them.
    k : the least number of records of a class that a target names; or None.
    only_k : whether that is all that is asked of crowds.
    h : the target on h that noise can be calibrated for, with its measure; or None.
    """

    known: tuple[str, ...]
    far: tuple[str, ...]
    secret: tuple[str, ...]
    k: int | None
    only_k: bool
    h: tuple[Target, Measure] | None


def needs(targets: Iterable[Target], measures: Mapping[str, Measure], prepared: Dataset) -> Needs:
    """Read the needs off the targets."""
    known, far, secret = dict[str, None](), dict[str, None](), dict[str, None]()
    k, h, only_k = None, None, True
    for target, number, measure in _placed(targets, measures):
        if _holds(target, number, measure, prepared):
            continue
        if measure.of == "one" and hasattr(measure, "known"):
            known |= dict.fromkeys(_left(_given(measure, "known"), prepared, "quasi"))
            only_k = only_k and number in _CROWD
        if hasattr(measure, "confidential") or hasattr(measure, "sensitive"):
            named = _given(measure, "confidential") or _given(measure, "sensitive")
            secret |= dict.fromkeys(_left(named, prepared, "sensitive"))
        if _is_distance(measure):
            far |= dict.fromkeys(_numbers(measure, prepared))
        if number in _CROWD and target.least:
            k = max(k or 2, math.ceil(target.least))
        if number == "mean_h" and target.least is not None:
            h = target, measure
        if number == "h_index" and target.most is not None:
            h = target, measure
    return Needs(
        tuple(name for name in known if prepared.schema[name].role != "weight"),
        tuple(far),
        tuple(name for name in secret if name not in known),
        k,
        only_k and k is not None,
        h,
    )


def _placed(
    targets: Iterable[Target], measures: Mapping[str, Measure]
) -> Iterator[tuple[Target, str, Measure]]:
    for target in targets:
        place = home(target, measures)
        if place is not None:
            yield target, place[1], measures[place[0]]


def _holds(target: Target, number: str, measure: Measure, prepared: Dataset) -> bool:
    """Whether the preparation keeps it already, so that nothing need be done for it."""
    if measure.of == "pair":
        return False
    try:
        found = measure.look(prepared, "released")
    except SfumatoError:
        return False
    worst = f"{number}{AT_WORST}"
    return target.met_by(found.number(worst if worst in found.details else number))


def _is_distance(measure: Measure) -> bool:
    """Whether it asks how far released numbers lie from the original ones."""
    pair = measure.room() == "risk" and measure.of == "pair" and hasattr(measure, "variables")
    return pair or measure.name == _MOVED


def _given(measure: Measure, name: str) -> tuple[str, ...]:
    told: Any = getattr(measure, name, None)
    if isinstance(told, str):
        return (told,)
    return tuple(told or ())


def _left(named: tuple[str, ...], prepared: Dataset, role: Any) -> tuple[str, ...]:
    """Those named, or those of a role, as far as the preparation left them."""
    wanted = named or prepared.schema.having(role)
    return tuple(name for name in wanted if name in prepared.schema)


def _numbers(measure: Measure, prepared: Dataset) -> tuple[str, ...]:
    numbers = numbers_of(prepared)
    if named := _given(measure, "variables"):
        return tuple(name for name in named if name in numbers)
    if measure.name in _BY_KNOWN:
        for role in ("quasi", "sensitive"):
            if found := [name for name in numbers if prepared.schema[name].role == role]:
                return tuple(found)
    return numbers
