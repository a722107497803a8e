"""Which variables to make coarser, in which order and how: as steps of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.io.frames import wrap
from sfumato.progress import current_progress
from sfumato.risk._peers.cuts import all_cuts
from sfumato.risk._peers.gains import gains
from sfumato.risk._peers.places import placed
from sfumato.risk._peers.rows import Rows, distinct_rows, share_of
from sfumato.risk._peers.widths import widths
from sfumato.tuning.recommendation.joint_choices import Step, as_it_is, choices, cut_step
from sfumato.tuning.recommendation.joint_state import State

_ALL_WIDTHS = 200
"""Up to so many values, every width is looked at."""
_FEW = 20
_NONE = "No generalisation with so many categories protects more."
_NO_STEP = (
    "No step can be added for it: its values are ranges already (change the step that made them), "
    "or the name of a group is taken."
)
_NOT_ENOUGH = "None protects enough; this one protects most."


@dataclass(frozen=True, eq=False, kw_only=True)
class Recommendation:
    """What to make coarser, the most helpful variable first.

    Parameters
    ----------
    table : a row per known variable, with what `gains` says of it: the share of records that are
        `protected` when everything is known and `without` this variable, and the `gain`. Then the
        generalisation that protects most: `width` and `offset` (of numbers, dates and ordered
        categories), `categories`, and `how` in words; the share of records protected over all
        combinations `before` and when `coarsened`; and how many were `tried`.
        Where there is none to recommend, or none is enough, `reason` says so.
    steps : that as steps of a plan, in the same order. Each was measured alone;
        `recommend_jointly` finds steps that go together.
    """

    table: Any = field(repr=False)
    steps: tuple[Step, ...]


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
    Assumes: as `gains` and `widths`. Variables of more than 200 values, or of more than the budget
    allows, are cut at every offset into 2 to 20 parts only; the column `tried` says how many
    generalisations that were.

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
    asked = _Asked(data, sensitive, rows, p, fewest, enough, budget)
    gained = wrap(gains(data, sensitive, known, p).table).rows(named=True)
    gained.sort(key=lambda one: (-one["gain"], rows.known.index(one["variable"])))
    table, steps = [], []
    for at, row in enumerate(gained):
        current_progress()("recommending: each variable alone", at, len(gained))
        kept = {key: row[key] for key in ("variable", "protected", "without", "gain")}
        found, step = asked.best(row["variable"])
        table.append({**kept, **found})
        steps += [step] if step else []
    return Recommendation(table=data.like(pl.DataFrame(table, schema=_SCHEMA)), steps=tuple(steps))


_SCHEMA = {
    "variable": pl.String,
    **dict.fromkeys(("protected", "without", "gain"), pl.Float64),
    **dict.fromkeys(("width", "offset", "categories"), pl.Int64),
    **dict.fromkeys(("before", "coarsened"), pl.Float64),
    "how": pl.String,
    "tried": pl.Int64,
    "reason": pl.String,
}


@dataclass(frozen=True, eq=False)
class _Asked:
    """What was asked for, to be answered for one variable after the other."""

    data: Dataset
    sensitive: str
    rows: Rows
    p: float
    fewest: int
    enough: float | None
    budget: int

    def best(self, name: str) -> tuple[dict[str, Any], Step | None]:
        """The best generalisation of a variable by itself, and the step that makes it."""
        try:
            places = placed(self.data, name, self.rows.values[name])
            sizes = _sizes(places.span, self._looks)
            found = wrap(
                widths(self.data, self.sensitive, name, self.rows.known, self.p, sizes=sizes,
                       budget=self.budget)
            ).to_polars()  # fmt: skip
        except MeasureError as error:
            if self.rows.values[name].dtype.is_numeric():
                return {"reason": error.what}, None
            return self._recoded(name, error.what)
        best, reason = _chosen(found, self.fewest, self.enough)
        step = None
        if "width" in best:
            cuts = all_cuts(places.span, "narrow", [best["width"]])[0]
            step = cut_step(self.data, name, places, cuts, best["offset"] - 1)
            best["how"] = f"width {best['width']:,}, lowest {best['offset']:,}"
            reason = reason if step else _NO_STEP
        return {**best, "tried": len(found), "reason": reason}, step

    @property
    def _looks(self) -> int:
        """So many generalisations of one variable the budget allows."""
        combinations = 1 if self.p == 0 else 2 ** len(self.rows.known) - 1
        return self.budget // (len(self.rows.counts) * combinations)

    def _recoded(self, name: str, why: str) -> tuple[dict[str, Any], Step | None]:
        """Categories without an order: the best level of their hierarchy, or rare ones joined."""
        at = self.rows.known.index(name)
        some = choices(self.data, self.rows, at, self.fewest, 1)
        if not some:
            return {"reason": why}, None
        now = [as_it_is(self.rows, one) for one in range(len(self.rows.known))]
        if len(some) >= self._looks:
            return {"reason": "The budget does not allow to look at its generalisations."}, None
        state = State.of(self.rows, share_of(self.p, "p"), self.budget)
        rows = [
            {
                "width": 1 if which < 0 else 2,
                "offset": which,
                "categories": one.categories,
                "protected_records": (safe := state.protected([*now[:at], one, *now[at + 1 :]])),
                "protected": safe / self.rows.records,
            }
            for which, one in enumerate([now[at], *some], start=-1)
        ]
        best, reason = _chosen(pl.DataFrame(rows), self.fewest, self.enough)
        taken = some[best["offset"]] if "offset" in best else None
        kept: dict[str, Any] = {
            key: best[key] for key in ("categories", "before", "coarsened") if key in best
        }
        how = taken.how if taken else None
        step = taken.step if taken else None
        return {**kept, "how": how, "tried": len(rows), "reason": reason}, step


def _sizes(span: int, looks: int) -> list[int] | None:
    if span <= _ALL_WIDTHS and span * (span + 1) // 2 <= looks:
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
