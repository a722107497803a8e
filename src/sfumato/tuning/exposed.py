"""Whose exposure counts: everybody, the most exposed, or every tenth of the records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Mask
from sfumato.risk._attacks.spaces import Space
from sfumato.risk._attacks.targets import order_values, tenths

Who = Literal["all", "deciles"] | float
OWNER = "calibrate"


@dataclass(frozen=True, eq=False)
class Group:
    """Some of the records, and what to call them."""

    name: str
    among: Mask = field(repr=False)


def groups(where: Space, who: Who, *, by: str, near: int) -> list[Group]:
    """The groups that must be protected, each by itself.

    Parameters
    ----------
    where : the records as the attacker measures distances.
    who : "all"; "deciles" by an order; or a share: those who have the fewest others around.
    by : the order: "sum" of the variables, "distance" from the centre, or a variable.
    near : how many others must be around: the distance to so many decides who is most exposed.
    """
    size = len(where.original)
    if who == "all":
        return [Group("all records", np.ones(size, bool))]
    if who == "deciles":
        found = tenths(order_values(where, by, standardise=True, owner=OWNER))
        return [
            Group(f"{start:g} to {end:g} by {by}", _marked(rows, size))
            for start, end, rows in zip(found.starts, found.ends, found.rows, strict=True)
        ]
    if isinstance(who, str) or not 0 < who <= 1:
        raise MeasureError(
            '`who` is "all", "deciles", or a share of the records, such as 0.05.',
            hint="0.05 is the twentieth that has the fewest others around.",
        )
    alone = _alone(where.original * where.scale, near)
    count = max(1, round(who * size))
    # Whoever is as far from others as the last one belongs to them.
    least = np.partition(alone, size - count)[size - count]
    return [Group(f"the {who:g} with the fewest others around", alone >= least)]


def _marked(rows: npt.NDArray[np.intp], size: int) -> Mask:
    made = np.zeros(size, bool)
    made[rows] = True
    return made


def _alone(values: Floats, near: int) -> Floats:
    """How far away the n-th nearest other record is."""
    from scipy.spatial import cKDTree

    wanted = min(near, len(values) - 1) + 1
    far, _ = cKDTree(values).query(values, k=[wanted])
    return np.asarray(far[:, 0], float)
