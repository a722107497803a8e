"""Cells of a few protected values: hidden, unless somebody answers for showing them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfumato.errors import PlanError
from sfumato.outputs.judged import OutputRefused

if TYPE_CHECKING:
    from sfumato.figures.public.protection import Protection
    from sfumato.outputs.rules import Rules

Small = Literal["hide", "show"]


def small_reasons(small: Small, protection: Protection) -> tuple[str, ...]:
    """Why showing small cells asks for a second look; refused where the cells are original."""
    if small not in ("hide", "show"):
        raise PlanError('small is "hide" or "show".')
    if small == "hide":
        return ()
    if protection.cells:
        raise OutputRefused(
            f"Cells of fewer than {protection.k} original records are never shown.",
            hint='leave small="hide", or take protection="deterministic" or "noise".',
        )
    return (f"Cells of fewer than {protection.k} protected values are shown.",)


def full_reasons(counted: Iterable[Any], rules: Rules) -> tuple[str, ...]:
    """Why a group whose records all lie in one cell needs a second look: its value is told."""
    if rules.full == "show" or all(np.count_nonzero(one) > 1 for one in counted):
        return ()
    if rules.full == "hide":
        raise OutputRefused(
            "All records that are shown, or all of one group, lie in one cell.",
            hint="take narrower cells, or other groups.",
        )
    return ("All records that are shown, or all of one group, lie in one cell.",)
