"""From the counts and sums of a table to what it may show."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.outputs.output import OutputRefused, Verdict, worst
from sfumato.outputs.rules import Rules, warn_of_shared_persons
from sfumato.outputs.tables.aggregation import (
    CellCounts,
    Contributions,
    aggregate_values,
    aggregate_weights,
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
    "All records of some row or column lie in one cell: everybody who belongs to it is known to "
    "have that value."
)
_CONSTANT = (
    "All values of some cell are the same: everybody who belongs to it is known to have that value."
)
_ROUNDED = (
    "Standard deviations are rounded, and left out where the values of a few people would follow "
    "from them and the mean."
)
Findings = list[tuple[Verdict, str]]


@dataclass(frozen=True, eq=False, kw_only=True)
class _TableDraft:
    """A table before suppression: what it would show, and every layer that must be protected."""

    shown: dict[str, Floats]
    layers: dict[str, Layer] = field(default_factory=dict)
    findings: Findings = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def protect_table(counts: CellCounts, request: TableRequest) -> Table:
    """Hide or round what must not be seen, and say what asks for a second look."""
    number = int(counts.unit_counts[-1])
    if request.k == request.rules.k > number - request.rules.k:
        raise OutputRefused(
            f"A table needs at least {2 * request.k} {counts.units.word}, twice the rules' k.",
            hint="publish it of more people.",
        )
    if request.k > number - request.rules.k:
        raise OutputRefused(
            # The exact end would disclose the exact number of records.
            f"k may be {max(number - request.rules.k, 0) // 5 * 5} at most on these "
            f"{counts.units.word}.",
            hint="a larger k would hide everything.",
        )
    findings = _find_concerns(counts, request)
    if request.protection == "round":
        _refuse_rounding_few(counts, request)
        draft = _TableDraft(
            shown={"count": round_table(counts.lattice, counts.counts, request.base)}
        )
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
    draft = _TableDraft(shown=shown, notes=notes, findings=draft.findings)
    return _build_table(counts, request, draft, known, findings)


def _draft_count_table(counts: CellCounts, request: TableRequest) -> _TableDraft:
    """A table of counts, weighted or not."""
    layer = _assess_records(counts, request, request.rules)
    weights, layers = read_weights(counts.data, request.weights), {"count": layer}
    largest = request.rules.most_contributors
    if counts.units:
        ones = np.ones(len(counts.data))
        contributions = aggregate_weights(counts, ones, largest=largest)
        layers |= _assess_sums("count as sums", counts, layer, contributions, request)
    if weights is None:
        return _TableDraft(shown={"count": counts.counts}, layers=layers)
    weighted = aggregate_weights(counts, weights, largest=largest)
    layers |= _assess_weights(counts, layer, weighted, request)
    return _TableDraft(shown={"count": weighted[0].totals}, layers=layers)


def _assess_records(counts: CellCounts, request: TableRequest, rules: Rules) -> Layer:
    """Counts of records; sensitive too are those of fewer than k persons or groups."""
    few = _find_few(counts, request.k) if counts.units else None
    return assess_counts(counts.lattice, counts.counts, k=request.k, rules=rules, few=few)


def _find_few(counts: CellCounts, k: int) -> Mask:
    few: Mask = (counts.unit_counts > 0) & (counts.unit_counts < k)
    return few


def _assess_sums(
    name: str,
    counts: CellCounts,
    layer: Layer,
    contributions: tuple[Contributions, ...],
    request: TableRequest,
) -> dict[str, Layer]:
    """Sums that one or a few contributors dominate, for each kind of them.

    How many records a person has is a contribution to a count.
    """
    contributors = counts.unit_counts if counts.units else None
    return {
        f"{name} {kind}" if kind else name: assess_sums(
            counts.lattice, layer, by_kind, rules=request.rules, contributors=contributors
        )
        for kind, by_kind in enumerate(contributions)
    }


def _assess_weights(
    counts: CellCounts, layer: Layer, weights: tuple[Contributions, ...], request: TableRequest
) -> dict[str, Layer]:
    """Weights are numbers of persons, too: one of them must not dominate a cell.

    Whoever passes an income as the weight gets sums of incomes.
    """
    return {
        "weights": assess_weights(layer, weights[0].totals),
        **_assess_sums("weights as sums", counts, layer, weights, request),
    }


def _draft_magnitude_table(counts: CellCounts, request: TableRequest) -> _TableDraft:
    """A table of values: every additive number behind it is a layer that must hold."""
    rules = request.rules
    values = read_values(counts.data, str(request.values))
    weights = read_weights(counts.data, request.weights)
    wanted = [name for name in request.statistics if name not in ("count", "sum")]
    magnitudes = aggregate_values(
        counts, values, weights, wanted=wanted, k=request.k, largest=rules.most_contributors
    )
    records = magnitudes.records
    known = ~np.isnan(values)
    counts = counts.take(known, records)
    if counts.unit_counts[-1] < rules.records:
        values_of = f"{counts.units.word} with a value" if counts.units else "values"
        raise OutputRefused(
            f"Variable '{request.values}' has fewer than {rules.records} {values_of} here.",
            hint="put groups together, or leave the variable out.",
        )
    layer = _assess_records(counts, request, rules)
    layers = {"count": layer}
    if weights is not None:
        layers |= _assess_weights(counts, layer, magnitudes.weights, request)
    elif counts.units:
        layers |= _assess_sums("count as sums", counts, layer, magnitudes.weights, request)
    if {"sum", "mean", "std"} & set(request.statistics):
        layers |= _assess_sums("sum", counts, layer, magnitudes.sums, request)
    if "std" in request.statistics:
        layers |= _assess_sums("squares", counts, layer, magnitudes.squares, request)
    if magnitudes.cases is not None:
        # Sums and means of a variable of two values are counts: of the cases, and of the others.
        only_small = Rules(k=rules.k, zeros="show", full="show")
        is_case = values[known] == values[known].max()
        cases = counts.take(is_case, magnitudes.cases)
        others = counts.take(~is_case, records - magnitudes.cases)
        layers |= {
            "cases": _assess_records(cases, request, only_small),
            "others": _assess_records(others, request, only_small),
        }
    shown = magnitudes.statistics | {
        "count": records if weights is None else magnitudes.weights[0].totals,
        "sum": magnitudes.sums[0].totals,
    }
    absent = float(1 - known.mean())
    notes = [f"{_format_rough_share(absent)} have no value of '{request.values}' and are left out."]
    constant = magnitudes.constant and rules.full != "show"
    return _TableDraft(
        shown={name: shown[name] for name in request.statistics},
        layers=layers,
        findings=[("review", _CONSTANT)] if constant else [],
        notes=[*(notes if absent else []), *([_ROUNDED] if "std" in request.statistics else [])],
    )


def _refuse_rounding_few(counts: CellCounts, request: TableRequest) -> None:
    """Rounding hides a few records, but not that one person or group has many of them."""
    if counts.units and _find_few(counts, request.k).any():
        raise OutputRefused(
            f"Rounding hides few records, and some cell has records of fewer than {request.k} "
            f"{counts.units.word}.",
            hint='take protection="suppress", or coarser categories.',
        )


def _format_rough_share(share: float) -> str:
    """A share of the records that gives no number of them away."""
    percent = round(100 * share)
    return f"About {percent} % of the records" if percent else "Less than 1 % of the records"


def _find_concerns(counts: CellCounts, request: TableRequest) -> Findings:
    """What asks for a second look."""
    lattice, rules = counts.lattice, request.rules
    reasons = list(warn_of_shared_persons(counts.data, rules))
    rare = [
        f"'{name}'"
        for axis, name in enumerate(counts.names)
        if (_get_level_totals(lattice, counts.unit_counts, axis) < request.k).any()
    ]
    if rare:
        reasons.append(
            f"A level of {', '.join(rare)} has very few {counts.units.word}. Its numbers are "
            "hidden, its name is not: put it together with another."
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


def _get_level_totals(lattice: Lattice, counts: Integers, axis: int) -> Integers:
    """How many records each level of one variable has."""
    selection = tuple(
        slice(0, size) if index == axis else size for index, size in enumerate(lattice.sizes)
    )
    totals: Integers = counts.reshape(lattice.shape)[selection]
    return totals


def _build_table(
    counts: CellCounts,
    request: TableRequest,
    draft: _TableDraft,
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
        rule={
            **request.describe_rule(),
            **({"unit": counts.units.word} if counts.units else {}),
        },
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
