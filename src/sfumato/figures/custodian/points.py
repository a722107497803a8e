"""Single records as points. They are drawn as pixels, so that no file holds their coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import SfumatoError
from sfumato.figures._sheet.style import Mark
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MANY = 5000


def two_columns(values: Any, what: str) -> Floats:
    """Records by two variables; NaN where a value is missing."""
    try:
        found = values if isinstance(values, np.ndarray) else np.column_stack(list(values))
        if found.ndim == 2 and found.shape[1] == 2 and len(found):  # noqa: PLR2004 - x and y
            return found.astype(np.float64)
    except (TypeError, ValueError):
        pass  # their texts quote values
    raise SfumatoError(
        f"The {what} records must be numbers in two columns, one record at least.",
        hint="pass an array with a row per record, or the two variables.",
    )


def same_records(given: dict[str, Sequence[Any] | Floats]) -> int:
    """How many records all of these have; fail when they differ."""
    sizes = {name: len(values) for name, values in given.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise SfumatoError(f"The number of records differs: {told}.")
    return next(iter(sizes.values()))


def put_points(axes: Axes, values: Floats, look: Mark, *, size: float = 2.6) -> None:
    """Draw records; smaller and lighter where there are many."""
    many = len(values) > _MANY
    axes.plot(
        values[:, 0],
        values[:, 1],
        linestyle="none",
        marker=look.marker,
        markersize=size * (0.5 if many else 1),
        color=look.colour,
        alpha=look.alpha * (0.6 if many else 1),
        markeredgewidth=1.0 if look.hollow else 0,
        fillstyle="none" if look.hollow else "full",
        rasterized=True,
    )


def limits(axes: Sequence[Axes], values: Floats) -> None:
    """The same room in several panels, so that they can be compared."""
    finite = values[np.isfinite(values).all(axis=1)]
    low, high = finite.min(axis=0), finite.max(axis=0)
    pad = np.where(high > low, 0.05 * (high - low), 0.5)
    for one in axes:
        one.set_xlim(low[0] - pad[0], high[0] + pad[0])
        one.set_ylim(low[1] - pad[1], high[1] + pad[1])


def whole(*all_values: Floats) -> npt.NDArray[np.bool_]:
    """Which records have all their values; fail when none has."""
    kept = np.logical_and.reduce([np.isfinite(values).all(axis=1) for values in all_values])
    if not kept.any():
        raise SfumatoError(
            "Not one record has both values, so there is nothing to draw.",
            hint="choose variables with fewer missing values.",
        )
    found: npt.NDArray[np.bool_] = kept
    return found


def left_out(kept: npt.NDArray[np.bool_]) -> str:
    """What is not in the picture, in words."""
    gone = int((~kept).sum())
    if not gone:
        return ""
    return f" Not drawn, since a value is missing: {gone:,} record{'s' if gone > 1 else ''}."
