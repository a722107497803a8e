"""Exchange categories tier by tier: what a less trusted user gets is the finer tier, degraded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from sfumato.errors import PlanError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.noise.description import Level
from sfumato.noise.transitions import draw_transitions, find_further
from sfumato.randomness import Draws

THEN = "then "
"""Begins the names of further exchanges: one tier may have more of them than another."""
_DIGITS = 12
"""Decimals of a computed matrix. Draws are known by it, and the last bits of linear algebra differ
from processor to processor: with all of them, each processor would draw other categories."""


def multiply_again(stated: Sequence[Floats], again: Sequence[bool]) -> list[Floats]:
    """The matrices from the true to the released level, tier by tier.

    Parameters
    ----------
    stated : by tier, the matrix that it states.
    again : by tier, whether this one is applied to what the tier before released.
    """
    totals: list[Floats] = []
    for matrix, further in zip(stated, again, strict=True):
        totals.append((totals[-1] @ matrix).round(_DIGITS) if further else matrix)
    return totals


def chain_matrices(totals: Sequence[Floats], name: str, hint: str) -> list[Floats]:
    """What leads from each tier to the next; refused where none does.

    Examples
    --------
    >>> import numpy as np
    >>> keep = lambda stays: np.array([[stays, 1 - stays], [1 - stays, stays]])
    >>> chain_matrices([keep(0.9), keep(0.8)], "sex", "")[0].round(3)
    array([[0.875, 0.125],
           [0.125, 0.875]])
    """
    further = []
    for finer, coarser in pairwise(totals):
        matrix = find_further(finer, coarser)
        if matrix is None:
            raise PlanError(
                f"The tiers of variable '{name}' are not nested: no further exchange of the finer "
                "tier has the matrix of the next one, so both together would tell more.",
                hint=hint,
            )
        further.append(matrix.round(_DIGITS))
    return further


def exchange_again(
    name: str,
    released: Integers,
    levels: Sequence[Level],
    further: Sequence[Floats],
    draws: Draws,
) -> Integers:
    """The levels of the last tier, from those of the first; missing stays missing.

    The draws of each tier belong to record, tier and the level that the tier before released, and
    know nothing of the true level: given the finer tier, the coarser tells nothing more.
    """
    for number, matrix in enumerate(further, 1):
        purpose = json.dumps(["exchanged again", number, list(levels), matrix.tolist()])
        uniform = draws.lasting(name, purpose, released.astype(float))
        released = draw_transitions(released, uniform, matrix)
    return released


def describe_chain(chain: Sequence[Any] | None) -> dict[str, Any]:
    """What the draws of a tier are known by: the first tier, and every further exchange."""
    if chain is None:
        return {}
    first, *further = chain
    return {"chain": first} | {f"{THEN}{number}": step for number, step in enumerate(further, 1)}


def describe_chains(fit: Mapping[str, Any]) -> dict[str, Any]:
    """The same for matrices by stratum."""
    if "chain" not in fit:
        return {}
    where = [stratum["where"] for stratum in fit["strata"]]
    return {
        "where": where,
        **describe_chain([list(step) for step in zip(*fit["chain"], strict=True)]),
    }
