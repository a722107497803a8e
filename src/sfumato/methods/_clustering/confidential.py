"""The confidential variables of a method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from sfumato.cells.confidential import Coded, coded, confidential_variables
from sfumato.data import Dataset
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Codes
from sfumato.methods._clustering.coded import Variable

Diverse = Literal["distinct", "entropy", "recursive"]
_ROUNDING = 1e-12


def confidential(
    data: Dataset, named: str | list[str] | None, changed: Sequence[Variable]
) -> list[Coded]:
    """The confidential variables as codes, by default all whose role is "sensitive"."""
    listed = [named] if isinstance(named, str) else named
    known = [one.name for one in changed]
    return [coded(data, name) for name in confidential_variables(listed, known, data, "original")]


def require_diverse(
    name: str, codes: Codes, least: float, kind: Diverse = "distinct", c: float = 1.0
) -> None:
    """Fail, with the best that is possible, where even all records together are not diverse."""
    from sfumato.kernels.clustering.rules import achieved_l

    everyone = np.arange(len(codes)), np.array([0, len(codes)])
    best = float(achieved_l(codes, *everyone, kind, c)[0])
    if best < least * (1 - _ROUNDING):
        raise MethodError(
            f"No cluster can reach l = {least:g} ({kind}) in variable '{name}': all records "
            f"together have {math.floor(best * 1000) / 1000:g}.",
            hint="choose a smaller l, or another confidential variable.",
        )
