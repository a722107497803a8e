"""Pairwise correlations before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato.cells.correlated import correlations
from sfumato.cells.ends import Ends, number_ends
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats
from sfumato.kernels.canonical import one_thread, order_of
from sfumato.measure import Measure
from sfumato.parameters import parameters
from sfumato.schema import Column
from sfumato.utility._paired.variable import ends_of

_KINDS = ("continuous", "integer", "ordinal")
_SAID = {
    "pearson": "Correlations are Pearson's; ordinal variables count by the rank of their level.",
    "spearman": "Correlations are Spearman's, of the ranks within the records that have both.",
}
_COMPLETE = (
    "Each correlation is of the records that have both values, in each data set by itself; `*` and "
    "missing are no values."
)
_MIDDLE = "Ranges and sets are taken at their middle: {}."


@parameters
class Correlations(Measure):
    """How much the correlations between variables changed.

    Question: do variables still go together as they did?
    Assumes: variables are numbers, or ordered levels that count by their rank. The value is the
    largest absolute difference of a correlation. Each is computed from the records that have both
    values, so that masked cells of either data set are left out; records need not be paired.
    `correlation_of_correlations` says how well the pattern as a whole is kept: 1 if the released
    correlations lie on a line with the original ones. `moments` compares more statistics, of
    plain numbers only.

    Parameters
    ----------
    variables : which to correlate. Default: all numbers and ordinal variables of the original
        that the release still has, except direct identifiers and weights. Numeric codes of
        categories may be named.
    kind : "pearson" or "spearman" (of the ranks).

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> original = sf.Dataset(pl.DataFrame({"age": [20, 40, 60, 80], "stay": [1, 2, 3, 4]}))
    >>> frame = pl.DataFrame({"age": ["[20;40]", "[20;40]", "60", "*"], "stay": [1, 2, 3, 4]})
    >>> schema = sf.Schema({"age": sf.Column(kind="integer")})
    >>> found = Correlations().measure(original, sf.Dataset(frame, schema))
    >>> round(found.value, 4)
    0.134

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Tables S4 and S5.
    """

    name = "correlations"
    examples = (
        {},
        {"variables": ["education", "income", "height", "children"], "kind": "spearman"},
    )
    of = "pair"
    provides = ("mean_correlation_difference", "correlation_of_correlations")
    reach = {  # noqa: RUF012 - a class variable by its base
        **dict.fromkeys(("correlations", "mean_correlation_difference"), (0.0, 2.0)),
        "correlation_of_correlations": (-1.0, 1.0),
    }
    variables: list[str] | None = None
    kind: Literal["pearson", "spearman"] = "pearson"

    def compare(self, original: Dataset, released: Dataset) -> Evidence:
        """Correlate each data set by itself, then compare pair by pair."""
        if not len(original) or not len(released):
            raise MeasureError("There is no record to compare.", hint="are the data empty?")
        names, left_out = self._names(original, released)
        read = [[_read(original, data, name) for name in names] for data in (original, released)]
        was, now = (self._correlated([one.middles() for one in side]) for side in read)
        rows = list(_rows(names, was, now))
        constant = [name for at, name in enumerate(names) if np.isnan(was[at, at])]
        known = [row for row in rows if not math.isnan(row["original"])]
        if not known:
            raise MeasureError(
                "No two variables vary together in the original, so there is no correlation.",
                hint="name variables that vary: variables = [...].",
            )
        lost = _lost(known)
        differences = [abs(row["difference"]) for row in known]
        return Evidence(
            name=self.name,
            subject="pair",
            value=math.nan if lost else max(differences),
            direction=self.direction,
            table=original.like(pl.DataFrame(rows)),
            details={
                "mean_correlation_difference": math.fsum(differences) / len(differences),
                **_pattern(known),
                "kind": self.kind,
                "variables": ", ".join(names),
            },
            assumptions=(_SAID[self.kind], _COMPLETE, *_middles(names, read)),
            warnings=_warnings(left_out, constant, rows),
            reason=lost,
        )

    def _names(self, original: Dataset, released: Dataset) -> tuple[list[str], dict[str, str]]:
        """The variables to correlate, and those left out with the reason."""
        wanted = self.variables
        if wanted is None:
            wanted = [
                name
                for name, told in original.schema.items()
                if told.kind in _KINDS and told.role not in ("direct", "weight")
            ]
        original.schema.require(wanted)
        reasons = {name: _missing(original, released, name) for name in wanted}
        left_out = {name: why for name, why in reasons.items() if why}
        names = [name for name in wanted if name not in left_out]
        if left_out and self.variables is not None:
            told = "; ".join(f"'{name}': {why}" for name, why in left_out.items())
            raise MeasureError(
                f"'{self.name}' cannot correlate {told}.", hint="leave them out of `variables`."
            )
        if len(names) <= 1:
            raise MeasureError(
                f"'{self.name}' needs two numeric or ordinal variables with values in both data "
                "sets.",
                hint="name some: variables = [...].",
            )
        return names, left_out

    def _correlated(self, columns: Sequence[Floats]) -> Floats:
        # Summed in one and the same order, whatever the order of the records.
        values = np.column_stack(columns)[order_of(columns)]
        with one_thread():
            if self.kind == "pearson":
                return correlations(values)
            if not np.isnan(values).any():
                return correlations(_ranks(values))
            return _rank_correlations(values)


def _missing(original: Dataset, released: Dataset, name: str) -> str:
    if name not in released.columns:
        return "it is not in the release"
    if original.column(name).null_count() == len(original):
        return "the original has no value"
    if released.column(name).null_count() == len(released):
        return "the release has no value"
    return ""


def _read(original: Dataset, data: Dataset, name: str) -> Ends:
    """Numbers, days or ranks; codes of categories are numbers as they stand."""
    column: Column = original.schema[name]
    told = data.schema[name].kind if name in data.schema else None
    if column.kind == "ordinal" and told == "continuous":
        # Noise on the codes of levels leaves numbers in the order of the levels.
        return number_ends(data.column(name), data.schema[name], "number")
    if column.kind in (*_KINDS, "date"):
        return ends_of(data.column(name), column, original.column(name))
    return number_ends(data.column(name), column, "number")


def _ranks(values: Floats) -> Floats:
    return np.column_stack([pl.Series(one).rank("average").to_numpy() for one in values.T])


def _rank_correlations(values: Floats) -> Floats:
    """Ranks within the records that have both values, pair by pair."""
    size = values.shape[1]
    found = np.full((size, size), np.nan)
    for first in range(size):
        for second in range(first, size):
            both = values[:, [first, second]]
            both = both[~np.isnan(both).any(axis=1)]
            if len(both) > 1:
                found[first, second] = found[second, first] = correlations(_ranks(both))[0, 1]
    return found


def _rows(names: Sequence[str], was: Floats, now: Floats) -> Iterator[dict[str, Any]]:
    for first in range(len(names)):
        for second in range(first + 1, len(names)):
            before, after = float(was[first, second]), float(now[first, second])
            yield {
                "first": names[first],
                "second": names[second],
                "original": before,
                "released": after,
                "difference": after - before,
            }


def _lost(known: Sequence[dict[str, Any]]) -> str:
    """Why there is no largest difference, if there is none."""
    lost = [row for row in known if math.isnan(row["released"])]
    if not lost:
        return ""
    pairs = ", ".join(f"'{row['first']}' and '{row['second']}'" for row in lost[:5])
    more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""  # noqa: PLR2004 - those listed
    return f"The release has no correlation, since a variable does not vary: {pairs}{more}."


def _pattern(known: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found = agreement([row["original"] for row in known], [row["released"] for row in known])
    if math.isnan(found):
        why = "it takes two correlations that differ in each data set."
        return {"correlation_of_correlations": found, "correlation_of_correlations_reason": why}
    return {"correlation_of_correlations": found}


def agreement(was: Sequence[float], now: Sequence[float]) -> float:
    """The correlation between two sets of correlations; NaN where one of them is unknown.

    Examples
    --------
    >>> agreement([0.1, 0.5, -0.2], [0.05, 0.25, -0.1])
    1.0
    """
    pairs = np.array([was, now], float).T
    if np.isnan(pairs).any() or len(pairs) <= 1:
        return math.nan
    return float(correlations(pairs)[0, 1])


def _middles(names: Sequence[str], read: Sequence[Sequence[Ends]]) -> tuple[str, ...]:
    wide = [
        name
        for name, *sides in zip(names, *read, strict=True)
        if any(bool((side.low < side.high)[~side.open].any()) for side in sides)
    ]
    return (_MIDDLE.format(", ".join(f"'{name}'" for name in wide)),) if wide else ()


def _warnings(
    left_out: dict[str, str], constant: Sequence[str], rows: Sequence[dict[str, Any]]
) -> tuple[str, ...]:
    said = [f"Not correlated: '{name}', since {why}." for name, why in left_out.items()]
    said += [
        f"'{name}' does not vary in the original, so it has no correlation that could be lost."
        for name in constant
    ]
    alone = [
        f"'{row['first']}' and '{row['second']}'"
        for row in rows
        if math.isnan(row["original"]) and not {row["first"], row["second"]} & set(constant)
    ]
    if alone:
        listed = ", ".join(alone)
        said.append(f"No correlation in the original, for want of records with both: {listed}.")
    return tuple(said)
