"""Which variables to make coarser, in which order and how: as steps of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.frames import wrap
from sfumato.methods.coarsen import Coarsen
from sfumato.peering.cuts import all_cuts
from sfumato.peering.gains import gains
from sfumato.peering.places import Places, placed
from sfumato.peering.rows import distinct_rows
from sfumato.peering.widths import widths

_ALL_WIDTHS = 200
"""Up to so many values, every width is looked at."""
_FEW = 20
_NONE = "No generalisation with so many categories protects more."
_NOT_ENOUGH = "None protects enough; this one protects most."


@dataclass(frozen=True, eq=False, kw_only=True)
class Recommendation:
    """What to make coarser, the most helpful variable first.

    Parameters
    ----------
    table : a row per known variable, with what `gains` says of it: the share of records that are
        `protected` when everything is known and `without` this variable, and the `gain`. Then the
        generalisation that protects most: `width`, `offset`, `categories`; the share of records
        protected over all combinations `before` and when `coarsened`; and how many were `tried`.
        Where there is none to recommend, or none is enough, `reason` says so.
    steps : that as steps of a plan, in the same order. Each was measured alone: begin with the
        first, and measure again.
    """

    table: Any = field(repr=False)
    steps: tuple[Coarsen, ...]


def recommend(
    data: Dataset,
    sensitive: str,
    known: Sequence[str] | None = None,
    *,
    p: float = 0.0,
    fewest: int = 2,
    enough: float | None = None,
    budget: int = 2_000_000_000,
) -> Recommendation:
    """Variables by what would be gained if they were unknown, each with its best generalisation.

    Question: where does making data coarser protect most people?
    Assumes: as `gains` and `widths`. Variables of more than 200 values are cut at every offset
    into 2 to 20 parts only; the column `tried` says how many generalisations that were.

    Parameters
    ----------
    data : the records.
    sensitive : the variable to protect.
    known : what an outsider may know. Default: all whose role is "quasi".
    p : the share of protective peers that is still a breach.
    fewest : how many categories must stay at least. One category is as good as no variable.
    enough : the share of records that suffices: among the generalisations that protect so many,
        the one of most categories is taken. Default: what protects most.
    budget : how many generalisations times records times combinations may be looked at.

    Examples
    --------
    >>> frame = pl.DataFrame({"age": [30, 31, 40, 41], "ill": [0, 1, 1, 0]})
    >>> found = recommend(Dataset(frame), "ill", ["age"])
    >>> found.steps[0].breaks, found.table["coarsened"].to_list()
    ([32.0, 34.0, 36.0, 38.0, 40.0], [1.0])

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2).
    """
    if fewest < 1:
        raise MeasureError("`fewest` is 1 or more.")
    rows = distinct_rows(data, sensitive, known)
    gained = wrap(gains(data, sensitive, known, p).table).rows(named=True)
    table, steps = [], []
    for row in sorted(gained, key=lambda one: (-one["gain"], rows.known.index(one["variable"]))):
        name = row["variable"]
        kept = {key: row[key] for key in ("variable", "protected", "without", "gain")}
        try:
            places = placed(data, name, rows.values[name])
            sizes = _sizes(places.span)
            found = wrap(
                widths(data, sensitive, name, known, p, sizes=sizes, budget=budget)
            ).to_polars()
        except MeasureError as error:
            table.append({**kept, "reason": error.what})
            continue
        best, reason = _chosen(found, fewest, enough)
        step = _step(data, name, places, best) if "width" in best else None
        if "width" in best and step is None:
            reason = "The method 'coarsen' takes numbers and dates only."
        table.append({**kept, **best, "tried": len(found), "reason": reason})
        steps += [step] if step else []
    return Recommendation(table=data.like(pl.DataFrame(table, schema=_SCHEMA)), steps=tuple(steps))


_SCHEMA = {
    "variable": pl.String,
    **dict.fromkeys(("protected", "without", "gain"), pl.Float64),
    **dict.fromkeys(("width", "offset", "categories"), pl.Int64),
    **dict.fromkeys(("before", "coarsened"), pl.Float64),
    "tried": pl.Int64,
    "reason": pl.String,
}


def _sizes(span: int) -> list[int] | None:
    if span <= _ALL_WIDTHS:
        return None
    return sorted({1, *(-(-span // parts) for parts in range(1, _FEW + 1))})


def _chosen(
    found: pl.DataFrame, fewest: int, enough: float | None
) -> tuple[dict[str, Any], str | None]:
    """The generalisation that protects most, or enough, with as many categories as possible."""
    finest = found["categories"].max()
    now = found.filter(pl.col("width") == 1).row(0, named=True)
    some = found.filter(
        (pl.col("categories") >= fewest)
        & (pl.col("categories") < finest)
        & (pl.col("protected_records") > now["protected_records"])
    )
    if some.is_empty():
        return {"before": now["protected"]}, _NONE
    reached = some if enough is None else some.filter(pl.col("protected") >= enough)
    by = ["categories", "protected_records"]
    if enough is None or reached.is_empty():
        by.reverse()
    order = (reached if len(reached) else some).sort(
        *by, "width", "offset", descending=[True, True, False, False]
    )
    row = order.row(0, named=True)
    kept = {name: row[name] for name in ("width", "offset", "categories")}
    made = {**kept, "before": now["protected"], "coarsened": row["protected"]}
    return made, _NOT_ENOUGH if reached.is_empty() else None


def _step(data: Dataset, name: str, places: Places, best: dict[str, Any]) -> Coarsen | None:
    if not places.numbers:
        return None
    cuts = all_cuts(places.span, "narrow", [best["width"]])[0]
    breaks = [places.value(one) for one in cuts.starts(best["offset"] - 1)]
    declared = data.schema[name].bounds is not None
    return Coarsen(variables=[name], breaks=breaks, edges="declared" if declared else "observed")
