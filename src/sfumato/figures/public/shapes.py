"""The densities of all groups, from counts in bins: what `density` and `violin` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.figures.public.grid import Limits, allowed_bins, checked, edges, own_extremes, reach
from sfumato.figures.public.protection import (
    Keyed,
    Protecting,
    Protection,
    house_rules,
    points,
    resolve,
    subjects,
)
from sfumato.figures.public.small import Small, small_reasons
from sfumato.figures.public.smoothed import Smooth, smooth
from sfumato.figures.public.words import share_said

if TYPE_CHECKING:
    from sfumato.figures.public.subjects import Subjects
    from sfumato.outputs.rules import Rules

_BINS = {"suppress": 30, "generalise": 15}
_WHY = "A smooth curve of the counts keeps the shape, and hides small bins only."
_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a user says of a density; see `density`."""

    x: str
    hue: str | None
    protection: Protecting | None
    k: int
    bins: int | None
    limits: Limits | None
    sd_share: float
    key: Keyed
    small: Small
    rules: Rules | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Shapes:
    """The curve of each group, and what the caption and the log must know."""

    who: Subjects
    way: Protection
    curves: tuple[Smooth, ...]
    notes: tuple[str, ...]
    reasons: tuple[str, ...]
    bins: int

    def table(self) -> pl.DataFrame:
        """What is drawn: places and densities, by group."""
        made = []
        for group, one in zip(self.who.groups, self.curves, strict=True):
            digits = [float(f"{value:.{_DIGITS}g}") for value in one.density]
            columns: dict[str, Any] = {"group": [group.label] * len(digits)}
            made.append(pl.DataFrame(columns | {"value": one.places, "density": digits}))
        table = pl.concat(made)
        return table.drop("group") if self.who.hue is None else table

    def details(self) -> dict[str, int]:
        """A few numbers for the custodian."""
        return {
            "cells": sum(len(one.held) for one in self.curves),
            "suppressed": sum(one.hidden for one in self.curves),
        }


_SAID = "The curve is smoothed from counts in bins, those of fewer than {k} records left out."
WORDS = {"suppress": _SAID, "generalise": _SAID}


def shapes(data: Any, asked: Asked) -> Shapes:
    """Count in bins, hide the small ones, and smooth."""
    house = house_rules(asked.rules)
    who = subjects(data, [asked.x], asked.hue, rules=house, k=asked.k)
    way = resolve(asked.protection, default="suppress", why=_WHY, records=who.fewest, k=asked.k,
                  sd_share=asked.sd_share, key=asked.key, rules=house)  # fmt: skip
    reasons = small_reasons(asked.small, way)
    bins = allowed_bins(asked.bins, _BINS.get(way.name, 30), who.fewest, house)
    notes: list[str] = []
    if way.cells:
        values = [one.column(asked.x) for one in who.groups]
    else:
        made = [points(one, [asked.x], way, lonely=asked.small == "show") for one in who.groups]
        values = [one.column(asked.x) for one in made]
        notes = [said for one in made for said in one.notes()]
    limits = None if asked.limits is None else checked(asked.limits)
    if own_extremes(who.column(asked.x), asked.limits):
        reasons = (*reasons, "The limits of the axis are extremes of the data themselves.")
    together = values[0] if len(values) == 1 else np.concatenate(values)
    cuts = edges(together, bins, limits, reach(way), domain=who.bounds(asked.x),
                 exact=asked.bins is not None,
                 whole=way.cells and who.whole(asked.x) and asked.bins is None)  # fmt: skip
    least = way.k if asked.small == "hide" else 1
    curves = tuple(smooth(one, cuts, least) for one in values)
    shown = sum(int(one.held.sum()) for one in curves)
    if lost := sum(map(len, values)) - shown:
        said = share_said(lost / who.records, records=who.records, k=way.k)
        notes.append(f"Not shown: {said} of the values.")
    return Shapes(
        who=who, way=way, curves=curves, notes=tuple(dict.fromkeys(notes)), reasons=reasons,
        bins=len(cuts) - 1,
    )  # fmt: skip
