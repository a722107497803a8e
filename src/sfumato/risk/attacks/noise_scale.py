"""The scale on which noise was added, as far as a manifest lets an attacker use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sfumato.kernels.arrays import Floats
from sfumato.noise.scales import Scale

ScaleName = Literal["log", "square_root", "logit", "rank_normal"]


def put_on_scale(
    name: str,
    scale: ScaleName | Mapping[str, ScaleName] | None,
    shift: float | Mapping[str, float] | None,
    sides: tuple[Floats, Floats],
) -> tuple[Scale | None, tuple[Floats, Floats]]:
    """The scale of a variable, and its true and released values on it.

    None, and the values as they are, where none was used. Ranks and logits are nearly straight
    between neighbours, so there the attacker works with the values themselves, and so he does where
    rounding has moved a value off the scale.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([1.0, 10.0])
    >>> put_on_scale("pay", {"pay": "log"}, None, (values, values))[1][0].round(2)
    array([0. , 2.3])
    """
    wanted = scale.get(name) if isinstance(scale, Mapping) else scale
    added = shift.get(name) if isinstance(shift, Mapping) else shift
    if wanted not in ("log", "square_root"):
        return None, sides
    found = Scale(name=wanted, shift=added or 0.0)
    if not all(found.holds(values).all() for values in sides):
        return None, sides
    return found, (found.forth(sides[0]), found.forth(sides[1]))
