"""Pairwise correlations before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato.cells.intervals import Intervals, read_intervals
from sfumato.cells.level_sets import read_bounds
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.local import look_up
from sfumato.engines.summaries import Count, Maximum, Mean, Minimum, Summary
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import canonical_order, use_one_thread
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.pairs.alignment import name_left_out, require_finite
from sfumato.pairs.standardisation import correlate_sums, pairwise_correlations, sum_products
from sfumato.parameters import parameters
from sfumato.schema import IDENTIFYING, Column

_MIDPOINT = "midpoint of the cell"
_KINDS = ("continuous", "integer", "ordinal")
_KIND_ASSUMPTIONS = {
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
    variables : variables to correlate. Default: all numbers and ordinal variables of the original
        that the release still has, except direct identifiers and weights. Numeric codes of
        categories may be named.
    kind : kind: "pearson" or "spearman" (of the ranks).

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> original = sf.Dataset(pl.DataFrame({"age": [20, 40, 60, 80], "stay": [1, 2, 3, 4]}))
    >>> frame = pl.DataFrame({"age": ["[20;40]", "[20;40]", "60", "*"], "stay": [1, 2, 3, 4]})
    >>> schema = sf.Schema({"age": sf.Column(kind="integer", cells="generalised")})
    >>> found = Correlations().measure(original, sf.Dataset(frame, schema))
    >>> round(found.value, 4)
    0.134

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Tables S4 and S5.
    """

    name = "correlations"
    runs_on = ("local", "streaming", "spark")
    examples = (
        {},
        {"variables": ["education", "income", "height", "children"], "kind": "spearman"},
    )
    of = "pair"
    numbers = (
        Number.loss("correlations", highest=2.0),
        Number.loss("mean_correlation_difference", highest=2.0),
        Number.score("correlation_of_correlations", lowest=-1.0, highest=1.0),
    )
    variables: list[str] | None = None
    kind: Literal["pearson", "spearman"] = "pearson"

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Correlate each data set by itself, then compare pair by pair."""
        if not engine.count(original) or not engine.count(released):
            raise MeasureError("There is no record to compare.", hint="are the data empty?")
        names, left_out = self._choose_variables(original, released, engine)
        sides = [self._read_side(original, data, names, engine) for data in (original, released)]
        before, after = (side.correlations for side in sides)
        rows = list(_build_rows(names, before, after))
        constant = [name for index, name in enumerate(names) if np.isnan(before[index, index])]
        known = [row for row in rows if not math.isnan(row["original"])]
        if not known:
            raise MeasureError(
                "No two variables vary together in the original, so there is no correlation.",
                hint="name variables that vary: variables = [...].",
            )
        lost = _explain_lost(known)
        # A correlation that the release lost has no difference, and the value is unknown.
        differences = [abs(row["difference"]) for row in known]
        return Evidence(
            name=self.name,
            subject="pair",
            value=math.nan if lost else max(differences),
            direction=self.direction,
            table=original.like(pl.DataFrame(rows)),
            details={
                "mean_correlation_difference": math.fsum(differences) / len(differences),
                **_measure_pattern(known),
                "kind": self.kind,
                "variables": tuple(names),
                **name_left_out(left_out),
            },
            assumptions=(_KIND_ASSUMPTIONS[self.kind], _COMPLETE, *_list_midpoints(names, sides)),
            warnings=_list_warnings(left_out, constant, rows),
            reason=lost,
        )

    def _choose_variables(
        self, original: Dataset, released: Dataset, engine: Engine
    ) -> tuple[list[str], dict[str, str]]:
        """The variables to correlate, and those left out with the reason."""
        wanted = self.variables
        if wanted is None:
            wanted = [
                name
                for name, declared in original.schema.items()
                if declared.kind in _KINDS and declared.role not in (*IDENTIFYING, "weight")
            ]
        original.schema.require(wanted)
        present = [name for name in wanted if name in released.columns]
        before, after = (
            engine.aggregate(data, {name: [Count()] for name in present})
            for data in (original, released)
        )
        reasons = {name: _explain_missing(before, after, name) for name in wanted}
        left_out = {name: why for name, why in reasons.items() if why}
        names = [name for name in wanted if name not in left_out]
        if left_out and self.variables is not None:
            declared = "; ".join(f"'{name}': {why}" for name, why in left_out.items())
            raise MeasureError(
                f"'{self.name}' cannot correlate {declared}.", hint="leave them out of `variables`."
            )
        if len(names) <= 1:
            raise MeasureError(
                f"'{self.name}' needs two numeric or ordinal variables with values in both data "
                "sets.",
                hint="name some: variables = [...].",
            )
        return names, left_out

    def _read_side(
        self, original: Dataset, data: Dataset, names: Sequence[str], engine: Engine
    ) -> _Side:
        """The correlations of one data set."""
        if engine.in_memory:
            read = {name: _read_values(original, data, name) for name in names}
            columns = [cells.midpoints() for cells in read.values()]
            return _Side(self._correlate(columns), _find_wide(read))
        if self.kind == "spearman":
            raise MeasureError(
                "Ranks of all records are worked out in memory only.", hint='use kind = "pearson".'
            )
        cells = {
            name: engine.tabulate(data, [name]).data
            for name in names
            if original.schema[name].kind == "ordinal" or not data.dtype(name).is_numeric()
        }
        read = {
            name: _read_values(engine.tabulate(original, [name]).data, rows, name)
            for name, rows in cells.items()
        }
        tables = {
            name: rows.batch([name])
            .with_columns(pl.Series(_MIDPOINT, read[name].midpoints()))
            .unique([name])
            for name, rows in cells.items()
        }
        return _Side(_correlate_by_sums(data, names, tables, engine), _find_wide(read))

    def _correlate(self, columns: Sequence[Floats]) -> Floats:
        # Summed in one and the same order, whatever the order of the records.
        values = np.column_stack(columns)[canonical_order(columns)]
        with use_one_thread():
            if self.kind == "pearson":
                return pairwise_correlations(values)
            if not np.isnan(values).any():
                return pairwise_correlations(_rank_columns(values))
            return _correlate_ranks(values)


@dataclass(frozen=True, eq=False)
class _Side:
    """The correlations of one data set, and the variables with cells that are ranges or sets."""

    correlations: Floats
    wide: frozenset[str]


def _find_wide(read: Mapping[str, Intervals]) -> frozenset[str]:
    return frozenset(
        name for name, cells in read.items() if bool((cells.low < cells.high)[~cells.open].any())
    )


def _correlate_by_sums(
    data: Dataset, names: Sequence[str], tables: Mapping[str, pl.DataFrame], engine: Engine
) -> Floats:
    """Correlations from sums over the parts of the records.

    `tables` has the midpoint of each cell of variables that do not hold plain numbers.
    """

    def read(batch: pl.DataFrame) -> Floats:
        columns = [
            look_up(batch, tables[name], [name])[_MIDPOINT] if name in tables else batch[name]
            for name in names
        ]
        numbers = [column.cast(pl.Float64).fill_null(np.nan).to_numpy() for column in columns]
        return np.column_stack(numbers)

    def derive(batch: pl.DataFrame) -> dict[str, pl.Series]:
        columns = zip(names, read(batch).T, strict=True)
        return {name: pl.Series(values, nan_to_null=True) for name, values in columns}

    wanted: list[Summary] = [Mean(), Minimum(), Maximum()]
    summary = engine.aggregate(data, dict.fromkeys(names, wanted), derive=derive, reads=names)
    means, spreads = np.zeros(len(names)), np.zeros(len(names))
    for index, name in enumerate(names):
        mean, low, high = summary[name].values()
        require_finite(math.isinf(high - low), name)
        if not math.isnan(mean):
            # Any scale does on which values are about 1; a constant has none.
            means[index], spreads[index] = mean, high - low

    def multiply(batch: pl.DataFrame) -> Floats:
        with use_one_thread():
            return sum_products(read(batch), means, spreads)

    return correlate_sums(sum(engine.gather(data, multiply, reads=names)))


def _explain_missing(original: Mapping[str, Any], released: Mapping[str, Any], name: str) -> str:
    if name not in released:
        return "it is not in the release"
    if not original[name]["count"]:
        return "the original has no value"
    return "" if released[name]["count"] else "the release has no value"


def _read_values(original: Dataset, data: Dataset, name: str) -> Intervals:
    """Numbers, days or ranks; codes of categories are numbers as they stand."""
    column: Column = original.schema[name]
    kind = data.schema[name].kind if name in data.schema else None
    if column.kind == "ordinal" and kind == "continuous":
        # Noise on the codes of levels leaves numbers in the order of the levels.
        return read_intervals(data.column(name), data.schema[name], "number")
    if name in data.schema:
        column = replace(column, cells=data.schema[name].cells)
    if column.kind in (*_KINDS, "date"):
        return read_bounds(data.column(name), column, original.column(name))
    return read_intervals(data.column(name), column, "number")


def _rank_columns(values: Floats) -> Floats:
    return np.column_stack([pl.Series(column).rank("average").to_numpy() for column in values.T])


def _correlate_ranks(values: Floats) -> Floats:
    """Ranks within the records that have both values, pair by pair."""
    size = values.shape[1]
    correlations = np.full((size, size), np.nan)
    for first in range(size):
        for second in range(first, size):
            both = values[:, [first, second]]
            both = both[~np.isnan(both).any(axis=1)]
            if len(both) > 1:
                correlations[first, second] = correlations[second, first] = pairwise_correlations(
                    _rank_columns(both)
                )[0, 1]
    return correlations


def _build_rows(
    names: Sequence[str], original: Floats, released: Floats
) -> Iterator[dict[str, Any]]:
    for first in range(len(names)):
        for second in range(first + 1, len(names)):
            before, after = float(original[first, second]), float(released[first, second])
            yield {
                "first": names[first],
                "second": names[second],
                "original": before,
                "released": after,
                "difference": after - before,
            }


def _explain_lost(known: Sequence[dict[str, Any]]) -> str:
    """Why there is no largest difference, if there is none."""
    lost = [row for row in known if math.isnan(row["released"])]
    if not lost:
        return ""
    pairs = ", ".join(f"'{row['first']}' and '{row['second']}'" for row in lost[:5])
    more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""  # noqa: PLR2004 - those listed
    return f"The release has no correlation, since a variable does not vary: {pairs}{more}."


def _measure_pattern(known: Sequence[dict[str, Any]]) -> dict[str, Any]:
    agreement = correlate_correlations(
        [row["original"] for row in known], [row["released"] for row in known]
    )
    if math.isnan(agreement):
        why = "it takes two correlations that differ in each data set."
        return {"correlation_of_correlations": agreement, "correlation_of_correlations_reason": why}
    return {"correlation_of_correlations": agreement}


def correlate_correlations(original: Sequence[float], released: Sequence[float]) -> float:
    """The correlation between two sets of correlations; NaN where one of them is unknown.

    Examples
    --------
    >>> correlate_correlations([0.1, 0.5, -0.2], [0.05, 0.25, -0.1])
    1.0
    """
    pairs = np.array([original, released], float).T
    if np.isnan(pairs).any() or len(pairs) <= 1:
        return math.nan
    return float(pairwise_correlations(pairs)[0, 1])


def _list_midpoints(names: Sequence[str], sides: Sequence[_Side]) -> tuple[str, ...]:
    wide = [name for name in names if any(name in side.wide for side in sides)]
    return (_MIDDLE.format(", ".join(f"'{name}'" for name in wide)),) if wide else ()


def _list_warnings(
    left_out: dict[str, str], constant: Sequence[str], rows: Sequence[dict[str, Any]]
) -> tuple[str, ...]:
    warnings = [f"Not correlated: '{name}', since {why}." for name, why in left_out.items()]
    warnings += [
        f"'{name}' does not vary in the original, so it has no correlation that could be lost."
        for name in constant
    ]
    alone = [
        f"'{row['first']}' and '{row['second']}'"
        for row in rows
        if math.isnan(row["original"]) and not {row["first"], row["second"]} & set(constant)
    ]
    if alone:
        pairs = ", ".join(alone)
        warnings.append(f"No correlation in the original, for want of records with both: {pairs}.")
    return tuple(warnings)
