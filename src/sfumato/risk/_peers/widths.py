"""What every equal-width generalisation of a variable does for people's privacy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.risk._peers.cuts import (
    Cuts,
    Ends,
    all_cuts,
    check_budget,
    nearest,
    protected_above,
    protected_by_any,
)
from sfumato.risk._peers.places import placed
from sfumato.risk._peers.rows import distinct_rows, share_of

_WHOLE = ("width", "offset", "categories", "protected_records")


def widths(  # noqa: PLR0913 - the last three by name only
    data: Dataset,
    sensitive: str,
    variable: str,
    known: Sequence[str] | None = None,
    p: float = 0.0,
    *,
    ends: Ends = "narrow",
    sizes: Sequence[int] | None = None,
    budget: int = 2_000_000_000,
) -> Any:
    """The share of records that are protected, for every equal-width generalisation of a variable.

    Question: how coarse must a variable become, and where should it be cut?
    Assumes: a record is protected if, for every combination of the known variables, more than a
    share p of its peers have another sensitive value. Missing stays a category of its own.

    Parameters
    ----------
    data : the records.
    sensitive : the variable to protect.
    variable : the one to generalise: whole numbers, dates, or ordered categories.
    known : what an outsider may know. Default: all whose role is "quasi".
    p : the share of protective peers that is still a breach.
    ends : "narrow": the lowest and the highest category may be cut short. "any": they may also be
        wider than the others, and there are as many categories as the width needs at least. This
        is the published choice.
    sizes : the widths to look at. Default: all.
    budget : how many generalisations times records times combinations may be looked at.

    Returns a row per generalisation: `width`, `offset` (how many values the lowest category has),
    `categories`, `protected_records`, `protected` (their share), and `best`: nothing with as many
    categories protects more. Where two protect equally, the narrower stands, then the lower offset.

    Examples
    --------
    >>> frame = pl.DataFrame({"age": [30, 31, 33], "ill": [0, 1, 0]})
    >>> table = widths(Dataset(frame), "ill", "age", ["age"], sizes=[2])
    >>> table.select("width", "offset", "categories", "protected_records").rows()
    [(2, 1, 3, 0), (2, 2, 2, 2)]

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2),
    Fig. 4.
    """
    above = share_of(p, "p")
    rows = distinct_rows(data, sensitive, known)
    if variable not in rows.known:
        raise MeasureError(
            f"Variable '{variable}' is not known to the outsider, so making it coarse is no help.",
            hint="name it in `known`.",
        )
    at, places = rows.known.index(variable), placed(data, variable, rows.values[variable])
    check_budget(places.span, ends, sizes, rows, above, budget)
    cuts = all_cuts(places.span, ends, sizes)
    if above == 0:
        # Somebody protects a record in every combination if somebody does when all is known.
        near = nearest(rows, at, places)
        found: list[Any] = [protected_by_any(near, one, places.span) for one in cuts]
    else:
        found = [protected_above(rows, at, places, one, above) for one in cuts]
    return data.like(_table(cuts, np.concatenate(found), rows.records))


def _table(cuts: Sequence[Cuts], protected: Any, records: int) -> pl.DataFrame:
    table = pl.DataFrame(
        {
            "width": np.concatenate([np.full(len(one.offsets), one.width) for one in cuts]),
            "offset": np.concatenate([one.offsets for one in cuts]),
            "categories": np.concatenate([one.categories for one in cuts]),
            "protected_records": protected,
            # Not divided by polars, which multiplies by the reciprocal: 3 of 3 must be 1.
            "protected": protected / records,
        },
        schema_overrides=dict.fromkeys(_WHOLE, pl.Int64),
    ).with_row_index("at")
    order = table.sort("protected_records", "at", descending=[True, False])
    best = order.unique("categories", keep="first", maintain_order=True)["at"]
    return table.with_columns(best=pl.col("at").is_in(best.implode())).drop("at")
