"""From the counts and sums of a table to what it may show."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sfumato.kernels.arrays import Floats, Mask
from sfumato.outputs.output import OutputRefused, Verdict, worst
from sfumato.outputs.rules import Rules, warn_of_shared_persons
from sfumato.outputs.tables.aggregation import (
    CellCounts,
    Contributions,
    aggregate_values,
    aggregate_weights,
    count_distinct,
    list_units,
    read_values,
    read_weights,
)
from sfumato.outputs.tables.controlled_rounding import round_table
from sfumato.outputs.tables.lattice import Lattice
from sfumato.outputs.tables.primary_suppression import (
    Layer,
    assess_counts,
    assess_sums,
    assess_weights,
    find_empty_cells,
    find_full_cells,
)
from sfumato.outputs.tables.request import TableRequest
from sfumato.outputs.tables.secondary_suppression import find_suppression_pattern
from sfumato.outputs.tables.table import LIBRARIES, AttackerKnowledge, Table

_FULL = (
    "All records of some row or column lie in one cell: whoever belongs to it is known to have "
    "that value."
)
_CONSTANT = (
    "All values of some cell are the same: whoever belongs to it is known to have that value."
)
Findings = list[tuple[Verdict, str]]


@dataclass(frozen=True, eq=False, kw_only=True)
class _Draft:
    """A table before suppression: what it would show, and every layer that must be protected."""

    shown: dict[str, Floats]
    layers: dict[str, Layer] = field(default_factory=dict)
    findings: Findings = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def protect_table(counts: CellCounts, request: TableRequest) -> Table:
    """Hide or round what must not be seen, and say what asks for a second look."""
    records = counts.counts[-1]
    if request.k > records - request.rules.k:
        raise OutputRefused(
            # The exact end would disclose the exact number of records.
            f"k may be {max(int(records) - request.rules.k, 0) // 5 * 5} at most on these records.",
            hint="a larger k would hide everything.",
        )
    findings = _find_concerns(counts, request)
    if request.protection == "round":
        draft = _Draft(shown={"count": round_table(counts.lattice, counts.counts, request.base)})
        return _build_table(counts, request, draft, {}, findings)
    draft = (
        _draft_count_table(counts, request)
        if request.values is None
        else _draft_magnitude_table(counts, request)
    )
    # Everybody knows where nobody is, and how many there are in all.
    unsuppressible = draft.layers["count"].values == 0
    unsuppressible[-1] = True
    hidden = find_suppression_pattern(
        counts.lattice, list(draft.layers.values()), unsuppressible=unsuppressible
    )
    shown = {name: np.where(hidden, np.nan, cells) for name, cells in draft.shown.items()}
    known = {
        name: AttackerKnowledge(
            np.where(hidden, np.nan, layer.values), nonnegative=layer.nonnegative
        )
        for name, layer in draft.layers.items()
    }
    notes = draft.notes
    if "count" in shown:
        # What is hidden was chosen for exact counts, so that rounded ones tell less.
        shown["count"] = request.rules.round_counts(shown["count"])
        notes = [*notes, *request.rules.describe_rounding()]
    draft = _Draft(shown=shown, notes=notes, findings=draft.findings)
    return _build_table(counts, request, draft, known, findings)


def _draft_count_table(counts: CellCounts, request: TableRequest) -> _Draft:
    """A table of counts, weighted or not."""
    few = _find_few_units(counts, request)
    layer = assess_counts(counts.lattice, counts.counts, k=request.k, rules=request.rules, few=few)
    weights = read_weights(counts.data, request.weights)
    if weights is None:
        return _Draft(shown={"count": counts.counts}, layers={"count": layer})
    weighted = aggregate_weights(counts, weights, largest=_count_largest(request))
    layers = {"count": layer, **_assess_weights(counts, layer, weighted, request)}
    return _Draft(shown={"count": weighted.totals}, layers=layers)


def _assess_weights(
    counts: CellCounts, layer: Layer, weights: Contributions, request: TableRequest
) -> dict[str, Layer]:
    """Weights are numbers of persons, too: one of them must not dominate a cell.

    Whoever passes an income as the weight gets sums of incomes.
    """
    return {
        "weights": assess_weights(layer, weights.totals),
        "weights as sums": assess_sums(counts.lattice, layer, weights, rules=request.rules),
    }


def _draft_magnitude_table(counts: CellCounts, request: TableRequest) -> _Draft:
    """A table of values: every additive number behind it is a layer that must hold."""
    lattice, rules = counts.lattice, request.rules
    if _find_few_units(counts, request) is not None:
        raise OutputRefused(
            f"The rules count {rules.unit}, of which some have several records, and who dominates "
            "a sum or a mean is only known of records.",
            hint=f"make one record of each of the {rules.unit} first, or show counts.",
        )
    values = read_values(counts.data, str(request.values))
    weights = read_weights(counts.data, request.weights)
    wanted = [name for name in request.statistics if name not in ("count", "sum")]
    magnitudes = aggregate_values(
        counts, values, weights, wanted=wanted, k=request.k, largest=_count_largest(request)
    )
    records = magnitudes.records
    if records[-1] < rules.records:
        raise OutputRefused(
            f"Variable '{request.values}' has fewer than {rules.records} values here.",
            hint="put groups together, or leave the variable out.",
        )
    layer = assess_counts(lattice, records, k=request.k, rules=rules)
    layers = {"count": layer}
    if weights is not None:
        layers |= _assess_weights(counts, layer, magnitudes.weights, request)
    if {"sum", "mean", "std"} & set(request.statistics):
        layers["sum"] = assess_sums(lattice, layer, magnitudes.sums, rules=rules)
    if "std" in request.statistics:
        layers["squares"] = assess_sums(lattice, layer, magnitudes.squares, rules=rules)
    if magnitudes.cases is not None:
        # Sums and means of a variable of two values are counts: of the cases, and of the others.
        only_small = Rules(k=rules.k, zeros="show", full="show")
        others = records - magnitudes.cases
        layers |= {
            name: assess_counts(lattice, cells, k=request.k, rules=only_small)
            for name, cells in (("cases", magnitudes.cases), ("others", others))
        }
    shown = magnitudes.statistics | {
        "count": records if weights is None else magnitudes.weights.totals,
        "sum": magnitudes.sums.totals,
    }
    absent = float(1 - records[-1] / counts.counts[-1])
    note = f"{_format_rough_share(absent)} have no value of '{request.values}' and are left out."
    constant = magnitudes.constant and rules.full != "show"
    return _Draft(
        shown={name: shown[name] for name in request.statistics},
        layers=layers,
        findings=[("review", _CONSTANT)] if constant else [],
        notes=[note] if absent else [],
    )


def _find_few_units(counts: CellCounts, request: TableRequest) -> Mask | None:
    """Cells, margins among them, with fewer than k persons or groups, where the rules count these.

    None where every record is one of them.
    """
    units = list_units(counts.data, request.rules.unit)
    if not units:
        return None
    cells = counts.find_cells()
    few = np.zeros(counts.lattice.cells, bool)
    for unit in units:
        number = count_distinct(counts.lattice, cells, unit)
        few |= (number > 0) & (number < request.k)
    return few


def _count_largest(request: TableRequest) -> int:
    """How many of the largest contributions the rules look at."""
    return max([2, *(number for number, _ in request.rules.dominances)])


def _format_rough_share(share: float) -> str:
    """A share of the records that gives no number of them away."""
    percent = round(100 * share)
    return f"About {percent} % of the records" if percent else "Less than 1 % of the records"


def _find_concerns(counts: CellCounts, request: TableRequest) -> Findings:
    """What asks for a second look."""
    lattice, rules = counts.lattice, request.rules
    reasons = list(warn_of_shared_persons(counts.data) if rules.unit != "persons" else ())
    if request.protection == "round" and list_units(counts.data, rules.unit):
        reasons.append(f"Rounding hides few records, and the rules count {rules.unit}.")
    rare = [
        f"'{name}'"
        for axis, name in enumerate(counts.names)
        if (_get_level_totals(lattice, counts.counts, axis) < request.k).any()
    ]
    if rare:
        reasons.append(
            f"A level of {', '.join(rare)} has very few records. Its numbers are hidden, its name "
            "is not: put it together with another."
        )
    if request.protection != "round":
        full = find_full_cells(lattice, counts.counts, rules.full_share)
        if rules.full == "review" and full.any():
            nearly = f"A cell has {100 * rules.full_share:g} % or more of its row or column."
            reasons.append(_FULL if rules.full_share == 1 else nearly)
        several = len(lattice.sizes) > 1
        if rules.zeros == "review" and several and find_empty_cells(lattice, counts.counts).any():
            reasons.append("Some cells are empty: nobody of that group has that value.")
    sums = {"sum", "mean", "std"} & set(request.statistics)
    if sums and not (rules.dominance or rules.p_percent):
        reasons.append("No rule was set against sums that one contributor dominates.")
    return [("review", reason) for reason in reasons]


def _get_level_totals(lattice: Lattice, counts: Floats, axis: int) -> Floats:
    """How many records each level of one variable has."""
    selection = tuple(
        slice(0, size) if index == axis else size for index, size in enumerate(lattice.sizes)
    )
    totals: Floats = counts.reshape(lattice.shape)[selection]
    return totals


def _build_table(
    counts: CellCounts,
    request: TableRequest,
    draft: _Draft,
    known: dict[str, AttackerKnowledge],
    findings: Findings,
) -> Table:
    findings, notes = [*findings, *draft.findings], draft.notes
    if counts.share_left_out:
        share = _format_rough_share(counts.share_left_out)
        notes = [f"{share} have a missing value and are left out.", *notes]
    module = type(counts.data.frame).__module__.partition(".")[0]
    return Table(
        title=request.title,
        rows=request.rows,
        columns=request.columns,
        labels=counts.labels,
        occupied=counts.counts > 0,
        shown=_normalise(counts.lattice, request, draft.shown),
        known=known,
        margins=request.margins,
        subtotals=request.subtotals,
        verdict=worst(verdict for verdict, _ in findings),
        reasons=tuple(reason for _, reason in findings),
        notes=tuple(notes),
        rule=request.describe_rule(),
        library=module if module in LIBRARIES else "pandas",
    )


def _normalise(
    lattice: Lattice, request: TableRequest, shown: dict[str, Floats]
) -> dict[str, Floats]:
    """Shares of what is shown: where the cell or its total is hidden, so is the share."""
    if not request.normalize:
        return shown
    down, across = range(len(request.rows)), range(len(request.rows), len(request.names))
    axes = {"all": range(len(request.names)), "index": across, "columns": down}[request.normalize]
    shares = {}
    for name, cells in shown.items():
        table = total = cells.reshape(lattice.shape)
        for axis in axes:
            total = np.take(total, [lattice.sizes[axis]], axis=axis)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares[name] = (table / total).ravel()
    return shares
