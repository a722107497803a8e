"""Which variables to make coarser, each by itself, in which order and how: as steps of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.io.frames import wrap
from sfumato.parameters import write_short
from sfumato.progress import current_progress
from sfumato.risk.protection.distinct_records import (
    DistinctRecords,
    find_distinct_records,
    read_threshold,
)
from sfumato.risk.protection.equal_widths import list_widths, order_distinct, widths
from sfumato.risk.protection.gains import gains
from sfumato.tuning.recommendation.generalisations import (
    ProtectedCounter,
    Step,
    build_cut_step,
    build_identity,
    list_generalisations,
)

_ALL_WIDTHS = 200
"""Up to so many values, every width is looked at."""
_FEW = 20
_NONE = "No generalisation with so many categories protects more."
_NO_STEP = (
    "No step can be added for it: its values are ranges already (change the step that made them), "
    "or the name of a group is taken."
)
_NOT_ENOUGH = "None protects enough; this one protects most."
_SCHEMA = {
    "variable": pl.String,
    **dict.fromkeys(("protected", "without", "gain"), pl.Float64),
    **dict.fromkeys(("width", "offset", "categories"), pl.Int64),
    **dict.fromkeys(("before", "coarsened"), pl.Float64),
    "how": pl.String,
    "tried": pl.Int64,
    "reason": pl.String,
}


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

    __repr__ = write_short


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
    records = find_distinct_records(data, sensitive, known)
    search = _VariableSearch(data, sensitive, records, p, fewest, enough, budget)
    ranked = wrap(gains(data, sensitive, known, p).table).rows(named=True)
    ranked.sort(key=lambda row: (-row["gain"], records.known.index(row["variable"])))
    table, steps = [], []
    for index, row in enumerate(ranked):
        current_progress()("recommending: each variable alone", index, len(ranked))
        gain = {name: row[name] for name in ("variable", "protected", "without", "gain")}
        best, step = search.find_best(row["variable"])
        table.append({**gain, **best})
        steps += [step] if step else []
    return Recommendation(table=data.like(pl.DataFrame(table, schema=_SCHEMA)), steps=tuple(steps))


@dataclass(frozen=True, eq=False)
class _VariableSearch:
    """The search for the best generalisation of one variable after the other."""

    data: Dataset
    sensitive: str
    records: DistinctRecords
    p: float
    fewest: int
    enough: float | None
    budget: int

    def find_best(self, name: str) -> tuple[dict[str, Any], Step | None]:
        """The best generalisation of a variable by itself, and the step that makes it."""
        try:
            ordered = order_distinct(self.data, name, self.records.values[name])
            sizes = _choose_sizes(ordered.span, self._affordable)
            table = wrap(
                widths(self.data, self.sensitive, name, self.records.known, self.p, sizes=sizes,
                       budget=self.budget)
            ).to_polars()  # fmt: skip
        except MeasureError as error:
            if self.records.values[name].dtype.is_numeric():
                return {"reason": error.what}, None
            return self._find_best_recoding(name, error.what)
        best, reason = _choose(table, self.fewest, self.enough)
        step = None
        if "width" in best:
            cuts = list_widths(ordered.span, "narrow", [best["width"]])[0]
            step = build_cut_step(self.data, name, ordered, cuts, best["offset"] - 1)
            best["how"] = f"width {best['width']:,}, lowest {best['offset']:,}"
            reason = reason if step else _NO_STEP
        return {**best, "tried": len(table), "reason": reason}, step

    @property
    def _affordable(self) -> int:
        """How many generalisations of one variable the budget allows."""
        combinations = 1 if self.p == 0 else 2 ** len(self.records.known) - 1
        return self.budget // (len(self.records.counts) * combinations)

    def _find_best_recoding(self, name: str, why: str) -> tuple[dict[str, Any], Step | None]:
        """Categories without an order: the best level of their hierarchy, or rare ones joined."""
        variable = self.records.known.index(name)
        candidates = list_generalisations(self.data, self.records, variable, self.fewest, 1)
        if not candidates:
            return {"reason": why}, None
        # Nothing is left out silently: the table says why there is none.
        if len(candidates) >= self._affordable:
            return {"reason": "The budget does not allow to look at its generalisations."}, None
        unchanged = [
            build_identity(self.records, index) for index in range(len(self.records.known))
        ]
        counter = ProtectedCounter(self.records, read_threshold(self.p, "p"), self.budget)
        rows = []
        for index, candidate in enumerate([unchanged[variable], *candidates], start=-1):
            chosen = [*unchanged[:variable], candidate, *unchanged[variable + 1 :]]
            protected = counter.count(chosen)
            rows.append(
                {
                    "width": 1 if index < 0 else 2,
                    "offset": index,
                    "categories": candidate.categories,
                    "protected_records": protected,
                    "protected": protected / self.records.records,
                }
            )
        best, reason = _choose(pl.DataFrame(rows), self.fewest, self.enough)
        taken = candidates[best["offset"]] if "offset" in best else None
        result: dict[str, Any] = {
            key: best[key] for key in ("categories", "before", "coarsened") if key in best
        }
        how = taken.how if taken else None
        step = taken.step if taken else None
        return {**result, "how": how, "tried": len(rows), "reason": reason}, step


def _choose_sizes(span: int, affordable: int) -> list[int] | None:
    # All widths of n values are n (n + 1) / 2 generalisations.
    if span <= _ALL_WIDTHS and span * (span + 1) // 2 <= affordable:
        return None
    return sorted({1, *(-(-span // parts) for parts in range(1, _FEW + 1))})


def _choose(
    table: pl.DataFrame, fewest: int, enough: float | None
) -> tuple[dict[str, Any], str | None]:
    """The generalisation that protects most, or enough, with as many categories as possible."""
    finest = table["categories"].max()
    unchanged = table.filter(pl.col("width") == 1).row(0, named=True)
    helpful = table.filter(
        (pl.col("categories") >= fewest)
        & (pl.col("categories") < finest)
        & (pl.col("protected_records") > unchanged["protected_records"])
    )
    if helpful.is_empty():
        return {"before": unchanged["protected"]}, _NONE
    reached = helpful if enough is None else helpful.filter(pl.col("protected") >= enough)
    # If several are enough, the finest; otherwise what protects most.
    by = ["categories", "protected_records"]
    if enough is None or reached.is_empty():
        by.reverse()
    order = (reached if len(reached) else helpful).sort(
        *by, "width", "offset", descending=[True, True, False, False]
    )
    row = order.row(0, named=True)
    best = {name: row[name] for name in ("width", "offset", "categories")}
    best |= {"before": unchanged["protected"], "coarsened": row["protected"]}
    return best, _NOT_ENOUGH if reached.is_empty() else None
