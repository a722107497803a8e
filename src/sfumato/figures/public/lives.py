"""How long each record was looked at, and whether the event ended it, by group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.errors import DataError, PlanError
from sfumato.figures.public.subjects import Subjects, dataset_of, subjects
from sfumato.kernels.arrays import Mask

if TYPE_CHECKING:
    from sfumato.outputs.rules import Rules


@dataclass(frozen=True, eq=False)
class Lives:
    """The records of a survival curve; `events` says by group who had the event."""

    who: Subjects
    events: tuple[Mask, ...]

    def named(self, event: str) -> Subjects:
        """The records, for the log, which names both variables."""
        return replace(self.who, names=(*self.who.names, event))


def lives_of(
    data: Any, time: str, event: str, hue: str | None = None, *, rules: Rules, k: int
) -> Lives:
    """The complete records. Everybody may have had the event, so it need not vary."""
    whole = dataset_of(data)
    whole.schema.require([time, event])
    happened = whole.column(event)
    if (gone := happened.is_null()).any():
        # Who lacks the one lacks both, so that all are counted as missing together.
        whole = whole.with_columns(pl.DataFrame([whole.column(time).set(gone, None)]))
    yes = _yes(happened, event)
    who = subjects(whole, [time], hue, rules=rules, k=k)
    if (who.column(time) < 0).any():
        raise PlanError(
            f"Variable '{time}' holds times below 0.", hint="time runs from the start, which is 0."
        )
    events = [yes if one.positions is None else yes[one.positions] for one in who.groups]
    return Lives(who, tuple(events))


def _yes(values: pl.Series, name: str) -> Mask:
    known = values.drop_nulls()
    plain = known.dtype == pl.Boolean or known.dtype.is_numeric()
    if not plain or not known.cast(pl.Float64).is_in([0.0, 1.0]).all():
        raise DataError(
            f"Variable '{name}' must say with 0 and 1 (or yes/no values) whether the event came.",
            hint="recode it: 1 where the event ended the time, 0 where something else did.",
        )
    return np.asarray(values.cast(pl.Float64).fill_null(0.0).to_numpy() == 1.0)
