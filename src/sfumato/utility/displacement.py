"""How far the values moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.pairs import (
    Pair,
    compare_numbers,
    compute_changes,
    find_numeric_variables,
    measure_distances,
    original_deviation,
)
from sfumato.cells.subsets import (
    WorstSubset,
    find_close,
    find_worst_subset,
    share_by_chance,
    share_rescaled,
)
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Mask
from sfumato.kernels.exact_sums import exact_mean
from sfumato.measure import AT_WORST, Measure
from sfumato.parameters import parameters

_SCALE = "A distance is counted in standard deviations of the original, over all variables."
_MISSING = (
    "Only values present in both data sets are compared; a record with none of them has not stayed."
)
_WORST = "The share that stayed is that of the worst variable: one exact value gives a person away."
_GREEDY = (
    "There are too many combinations of variables to try all; the worst was sought step by step."
)


@parameters
class Displacement(Measure):
    """How far released values lie from the original ones, and which records hardly moved.

    Question: how much of a variable's spread comes from the protection, and who stayed in place?
    Assumes: record by record, the released data belong to the original. The value is the largest
    displacement of a variable: its mean squared change over its variance (with n - 1).

    Beside it: `stayed`, the share of records that hardly moved in the worst variable, or in the
    worst combination of them where values are missing: a variable that was left exact is not hidden
    by the noise of the others. `worst_variable` and `worst_subset` name it; the table has every
    variable, with the share that chance alone would give (`by_chance`). `stayed_in_pair` is the
    share for the worst two variables together, and `stayed_in_all` that for all of them, by the
    distance over all variables. `stayed_rescaled` is `stayed` after each released variable was
    given the mean and standard deviation of the original: another unit moves all and hides nobody.
    A target on `stayed` must hold for that too.

    Parameters
    ----------
    variables : the numbers to compare. Default: all numbers that are in both data sets.
    role : instead, only numbers of this role. A plan then follows roles that are corrected.
    within : a value has stayed if it lies at most this many standard deviations of the original
        from where it was.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> schema = sf.Schema({"age": "quasi"})
    >>> original = sf.Dataset(pl.DataFrame({"age": [30.0, 40.0, 50.0]}), schema)
    >>> released = sf.Dataset(pl.DataFrame({"age": [30.0, 41.0, 48.0]}), schema)
    >>> found = Displacement().measure(original, released)
    >>> round(found.value, 4), found.details["stayed_records"]
    (0.0167, 1)

    References: Avraam, Jones & Burton (2021), A deterministic approach for protecting privacy in
    sensitive personal data (the variable-specific metric δ).
    """

    name = "displacement"
    picture = "displacement"
    examples = (
        {},
        {"variables": ["height", "glucose"], "within": 0.5},
        {"role": "sensitive"},
    )
    of = "pair"
    provides = (
        "stayed", "stayed_records", "stayed_rescaled", "stayed_in_pair", "stayed_in_all",
        "mean_delta", "median_distance", "outside_domain",
    )  # fmt: skip
    reach = {  # noqa: RUF012 - a class variable by its base
        **dict.fromkeys(
            ("stayed", "stayed_rescaled", "stayed_in_pair", "stayed_in_all"), (0.0, 1.0)
        ),
        **dict.fromkeys(
            ("displacement", "stayed_records", "mean_delta", "median_distance", "outside_domain"),
            (0.0, math.inf),
        ),
    }
    variables: list[str] | None = None
    role: Literal["quasi", "sensitive", "other"] | None = None
    within: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01

    def compare(self, original: Dataset, released: Dataset) -> Evidence:
        """Compare value by value, then record by record."""
        named = self._list_variables(original, released)
        pair = compare_numbers(original, released, named, owner=self.name)
        spread = np.array([original_deviation(pair, index) for index in range(len(pair.names))])
        table = self._build_table(original, pair, spread)
        moved = measure_distances(pair.original, pair.released, spread)
        known = moved[~np.isnan(moved)]
        in_all = np.less_equal(moved, self.within)  # False where nothing can be compared
        closeness = find_close(pair.original, pair.released, spread, self.within)
        worst = find_worst_subset(closeness)
        stayed = closeness.mark(worst.columns)
        rescaled = share_rescaled(pair.original, pair.released, spread, self.within)
        deltas = table["displacement"].to_list()
        return Evidence(
            name=self.name,
            subject="pair",
            value=max(deltas),
            direction=self.direction,
            records=original.like(_build_records(moved, stayed, in_all)),
            table=original.like(table),
            details={
                "stayed": worst.share,
                "stayed_records": int(stayed.sum()),
                "stayed_rescaled": rescaled,
                f"stayed{AT_WORST}": max(worst.share, rescaled),
                "worst_variable": pair.names[worst.variable],
                "worst_subset": ", ".join(pair.names[column] for column in worst.columns),
                **_describe_pair(worst, pair.names),
                "stayed_in_all": int(in_all.sum()) / len(known),
                "compared_records": len(known),
                "within": self.within,
                "mean_delta": math.fsum(deltas) / len(deltas),
                "median_distance": float(np.median(known)),
                "outside_domain": sum(table["outside_domain"]),
                "variables": ", ".join(pair.names),
                **pair.not_compared,
            },
            assumptions=(
                _SCALE,
                _MISSING,
                _WORST if worst.exhaustive else f"{_WORST} {_GREEDY}",
                *_list_without_domain(original, pair.names),
            ),
            warnings=(*pair.warnings(), *_report_incomparable(moved)),
        )

    def _list_variables(self, original: Dataset, released: Dataset) -> list[str] | None:
        if self.role is None:
            return self.variables
        named = [
            name
            for name in self.variables or find_numeric_variables(original)
            if original.schema[name].role == self.role and name in released.schema
        ]
        if not named:
            raise MeasureError(
                f"'{self.name}' finds no number with the role {self.role}.",
                hint="take `role` out, or the target that needs it.",
            )
        return named

    def _build_table(self, original: Dataset, pair: Pair, spread: Floats) -> pl.DataFrame:
        rows: list[dict[str, Any]] = []
        for index, name in enumerate(pair.names):
            change = compute_changes(pair, index) / spread[index]
            rows.append(
                {
                    "variable": name,
                    "displacement": _mean_square(name, change),
                    "stayed": int((np.abs(change) <= self.within).sum()) / len(change),
                    "by_chance": share_by_chance(
                        pair.original[:, index],
                        pair.released[:, index],
                        self.within * spread[index],
                    ),
                    "outside_domain": _count_outside(original, name, pair.released[:, index]),
                }
            )
        return pl.DataFrame(rows)


def _mean_square(name: str, change: Floats) -> float:
    with np.errstate(over="ignore"):
        squares = change * change
    if not np.isfinite(squares).all():
        raise MeasureError(
            f"Variable '{name}' changed by more than can be counted in its own spread.",
            hint="leave it out of `variables`, or look at its values.",
        )
    return exact_mean(squares)


def _count_outside(original: Dataset, name: str, released: Floats) -> int:
    """How many released values lie outside the domain that was declared for the original."""
    bounds = original.schema[name].bounds
    if bounds is None:
        return 0
    return int(((released < bounds[0]) | (released > bounds[1])).sum())


def _list_without_domain(original: Dataset, names: Sequence[str]) -> tuple[str, ...]:
    without = [name for name in names if original.schema[name].bounds is None]
    if not without:
        return ()
    names = ", ".join(f"'{name}'" for name in without)
    return (f"No domain is declared, so no value counts as outside it: {names}.",)


def _report_incomparable(moved: Floats) -> tuple[str, ...]:
    count = int(np.isnan(moved).sum())
    if not count:
        return ()
    return (f"{count} records have no value to compare; shares are of the others.",)


def _describe_pair(worst: WorstSubset, names: Sequence[str]) -> dict[str, Any]:
    """The worst two variables together; NaN with a reason where there is one only."""
    if worst.pair is None:
        return {
            "stayed_in_pair": math.nan,
            "stayed_in_pair_reason": "there is one variable only.",
        }
    return {
        "stayed_in_pair": worst.pair_share,
        "worst_pair": ", ".join(names[column] for column in worst.pair),
    }


def _build_records(moved: Floats, stayed: Mask, in_all: Mask) -> pl.DataFrame:
    columns = {"stayed": stayed, "stayed_in_all": in_all}
    return pl.DataFrame({"distance": pl.Series(moved).fill_nan(None), **columns})
