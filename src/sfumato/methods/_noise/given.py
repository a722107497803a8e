"""Matrices of probabilities as people write them down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.cells.noise.described import Level
from sfumato.cells.notation import written
from sfumato.errors import PlanError
from sfumato.kernels.arrays import Floats

_NEAR = 1e-9
"""How far from 1 the probabilities of a row may add up."""


def given_matrix(
    told: Mapping[str, Mapping[str, float]] | Sequence[Sequence[float]],
    name: str,
    levels: Sequence[Level],
    *,
    declared: bool,
) -> Floats:
    """A matrix as somebody wrote it down, in the order of the levels."""
    known = [written(one) for one in levels]
    if isinstance(told, Mapping):
        inside = {one for row in told.values() for one in row}
        if set(told) != set(known) or not inside <= set(known):
            raise PlanError(
                f"The matrix of variable '{name}' must have a row for each of its levels, and name "
                "no other.",
                hint="a level that always stays has a row too: { f = { f = 1 } }.",
            )
        made = np.array([[told[one].get(other, 0.0) for other in known] for one in known])
    else:
        if not declared:
            raise PlanError(
                f"The matrix of variable '{name}' has no levels beside it, and the schema declares "
                "none.",
                hint="declare them as its domain, or write the matrix with its levels.",
            )
        fits = [len(told), *map(len, told)] == [len(known)] * (len(known) + 1)
        made = np.array(told if fits else [[0.0]], float)
    if made.shape != (len(known),) * 2 or (np.abs(made.sum(axis=1) - 1) > _NEAR).any():
        raise PlanError(
            f"The matrix of variable '{name}' needs a probability for each of its {len(known)} "
            "levels in every row, and each row must add up to 1.",
            hint="row: true level; column: released level.",
        )
    if ((made > 0).sum(axis=0) <= 1).all():
        raise PlanError(
            f"The matrix of variable '{name}' hides nothing: every released level comes from one "
            "true level.",
            hint="exchange levels with probabilities between 0 and 1.",
        )
    return made


def rows_as_text(told: Any) -> Any:
    """Rows whose levels are text; two that become the same are refused, not lost."""
    if not isinstance(told, Mapping):
        return told
    made = {
        written(level): {written(other): share for other, share in row.items()}
        if isinstance(row, Mapping)
        else row
        for level, row in told.items()
    }
    if len(made) < len(told) or any(
        isinstance(row, Mapping) and len(made[written(level)]) < len(row)
        for level, row in told.items()
    ):
        msg = "the matrix of a variable names a level twice."
        raise ValueError(msg)
    return made
