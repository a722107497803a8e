"""From what was counted to what may be shown."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.arrays import Floats, Mask
from sfumato.outputs.judged import OutputRefused, Verdict, worst
from sfumato.outputs.persons import shared_by
from sfumato.outputs.rules import Rules
from sfumato.outputs.tables.asked import Asked
from sfumato.outputs.tables.gathered import Gathered
from sfumato.outputs.tables.lattice import Lattice
from sfumato.outputs.tables.layers import (
    Layer,
    count_layer,
    empty_cells,
    full_cells,
    sum_layer,
    weight_layer,
)
from sfumato.outputs.tables.magnitudes import (
    Contributions,
    magnitudes,
    values_of,
    weighed,
    weights_of,
)
from sfumato.outputs.tables.rounding import rounded
from sfumato.outputs.tables.suppression import hidden_cells
from sfumato.outputs.tables.table import LIBRARIES, Known, Table

_FULL = (
    "All records of some row or column lie in one cell: whoever belongs to it is known to have "
    "that value."
)
_ALIKE = "All values of some cell are the same: whoever belongs to it is known to have that value."


def protect(gathered: Gathered, asked: Asked) -> Table:
    """Hide or round what must not be seen, and say what asks for a second look."""
    records = gathered.counts[-1]
    if asked.k > records - asked.rules.k:
        raise OutputRefused(
            # The exact end would tell the exact number of records.
            f"k may be {max(int(records) - asked.rules.k, 0) // 5 * 5} at most on these records.",
            hint="a larger k would hide everything.",
        )
    if asked.protection == "round":
        shown = {"count": rounded(gathered.lattice, gathered.counts, asked.base)}
        return _table(gathered, asked, shown, {}, _findings(gathered, asked, rounding=True), [])
    shown, layers, notes = (
        _counted(gathered, asked) if asked.values is None else _summed(gathered, asked)
    )
    findings = _findings(gathered, asked)
    if _ALIKE in notes and asked.rules.full != "show":
        findings.append(("review", _ALIKE))
    notes = [one for one in notes if one != _ALIKE]
    never = _never(layers["count"].values)
    hidden = hidden_cells(gathered.lattice, list(layers.values()), never=never)
    shown = {name: np.where(hidden, np.nan, cells) for name, cells in shown.items()}
    known = {
        name: Known(np.where(hidden, np.nan, layer.values), nonnegative=layer.nonnegative)
        for name, layer in layers.items()
    }
    return _table(gathered, asked, shown, known, findings, notes)


def _counted(
    gathered: Gathered, asked: Asked
) -> tuple[dict[str, Floats], dict[str, Layer], list[str]]:
    """A table of counts, weighted or not."""
    counts = count_layer(gathered.lattice, gathered.counts, k=asked.k, rules=asked.rules)
    weights = weights_of(gathered.data, asked.weights)
    if weights is None:
        return {"count": gathered.counts}, {"count": counts}, []
    heavy = weighed(gathered, weights, _largest(asked))
    layers = {"count": counts, **_weight_layers(gathered, counts, heavy, asked)}
    return {"count": heavy.totals}, layers, []


def _weight_layers(
    gathered: Gathered, counts: Layer, heavy: Contributions, asked: Asked
) -> dict[str, Layer]:
    """Weights are numbers of persons, too: one of them must not make up a cell.

    Whoever passes an income as the weight gets sums of incomes.
    """
    return {
        "weights": weight_layer(counts, heavy.totals),
        "weights as sums": sum_layer(gathered.lattice, counts, heavy, rules=asked.rules),
    }


def _summed(
    gathered: Gathered, asked: Asked
) -> tuple[dict[str, Floats], dict[str, Layer], list[str]]:
    """A table of values: every additive number behind it is a layer that must hold."""
    values = values_of(gathered.data, str(asked.values))
    weights = weights_of(gathered.data, asked.weights)
    wanted = [name for name in asked.statistics if name not in ("count", "sum")]
    found = magnitudes(gathered, values, weights, wanted=wanted, k=asked.k, largest=_largest(asked))
    if found.records[-1] < asked.rules.records:
        raise OutputRefused(
            f"Variable '{asked.values}' has fewer than {asked.rules.records} values here.",
            hint="put groups together, or leave the variable out.",
        )
    counts = count_layer(gathered.lattice, found.records, k=asked.k, rules=asked.rules)
    layers = {"count": counts}
    if weights is not None:
        layers |= _weight_layers(gathered, counts, found.weights, asked)
    if {"sum", "mean", "std"} & set(asked.statistics):
        layers["sum"] = sum_layer(gathered.lattice, counts, found.sums, rules=asked.rules)
    if "std" in asked.statistics:
        layers["squares"] = sum_layer(gathered.lattice, counts, found.squares, rules=asked.rules)
    if found.cases is not None:
        layers |= _case_layers(gathered, found.cases, found.records, asked)
    shown = found.statistics | {
        "count": found.records if weights is None else found.weights.totals,
        "sum": found.sums.totals,
    }
    absent = float(1 - found.records[-1] / gathered.counts[-1])
    said = f"{_about(absent)} have no value of '{asked.values}' and are left out."
    notes = [*([said] if absent else []), *([_ALIKE] if found.alike else [])]
    return {name: shown[name] for name in asked.statistics}, layers, notes


def _case_layers(
    gathered: Gathered, cases: Floats, records: Floats, asked: Asked
) -> dict[str, Layer]:
    """Sums and means of a variable of two values are counts: of those who have it, and not."""
    plain = Rules(k=asked.rules.k, zeros="show", full="show")
    return {
        name: count_layer(gathered.lattice, held, k=asked.k, rules=plain)
        for name, held in (("cases", cases), ("others", records - cases))
    }


def _largest(asked: Asked) -> int:
    """How many of the largest contributions the rules look at."""
    return max(2, asked.rules.dominance[0] if asked.rules.dominance else 0)


def _never(counts: Floats) -> Mask:
    """What everybody knows: where nobody is, and how many there are in all."""
    never: Mask = counts == 0
    never[-1] = True
    return never


def _about(share: float) -> str:
    """A share of the records that gives no number of them away."""
    percent = round(100 * share)
    return f"About {percent} % of the records" if percent else "Less than 1 % of the records"


def _findings(
    gathered: Gathered, asked: Asked, *, rounding: bool = False
) -> list[tuple[Verdict, str]]:
    """What asks for a second look."""
    lattice, counts, rules = gathered.lattice, gathered.counts, asked.rules
    found: list[tuple[Verdict, str]] = [("review", one) for one in shared_by(gathered.data)]
    rare = [
        name
        for axis, name in enumerate(gathered.names)
        if (_totals(lattice, counts, axis) < asked.k).any()
    ]
    if rare:
        listed = ", ".join(f"'{name}'" for name in rare)
        said = f"A level of {listed} has very few records. Its numbers are hidden, its name is not"
        found.append(("review", f"{said}: put it together with another."))
    if not rounding:
        if rules.full == "review" and full_cells(lattice, counts).any():
            found.append(("review", _FULL))
        if rules.zeros == "review" and _open_zeros(lattice, counts):
            found.append(("review", "Some cells are empty: nobody of that group has that value."))
    if {"sum", "mean", "std"} & set(asked.statistics) and not (rules.dominance or rules.p_percent):
        found.append(("review", "No rule was set against sums that one contributor makes up."))
    return found


def _totals(lattice: Lattice, counts: Floats, axis: int) -> Floats:
    """How many records each level of one variable has."""
    table = counts.reshape(lattice.shape)
    at = tuple(slice(0, size) if here == axis else size for here, size in enumerate(lattice.sizes))
    totals: Floats = table[at]
    return totals


def _open_zeros(lattice: Lattice, counts: Floats) -> bool:
    """Whether a cell is empty in a line that is shown, beyond those that make another full."""
    return len(lattice.sizes) > 1 and bool(empty_cells(lattice, counts).any())


def _table(
    gathered: Gathered,
    asked: Asked,
    shown: dict[str, Floats],
    known: dict[str, Known],
    found: list[tuple[Verdict, str]],
    notes: list[str],
) -> Table:
    if gathered.left_out:
        notes = [f"{_about(gathered.left_out)} have a missing value and are left out.", *notes]
    module = type(gathered.data.frame).__module__.partition(".")[0]
    return Table(
        title=asked.title,
        rows=asked.rows,
        columns=asked.columns,
        labels=gathered.labels,
        occupied=gathered.counts > 0,
        shown=_shares(gathered.lattice, asked, shown),
        known=known,
        margins=asked.margins,
        subtotals=asked.subtotals,
        verdict=worst(verdict for verdict, _ in found),
        reasons=tuple(reason for _, reason in found),
        notes=tuple(notes),
        rule=asked.rule(),
        library=module if module in LIBRARIES else "pandas",
    )


def _shares(lattice: Lattice, asked: Asked, shown: dict[str, Floats]) -> dict[str, Floats]:
    """Shares of what is shown: where the cell or its whole is hidden, so is the share."""
    if not asked.normalize:
        return shown
    across = range(len(asked.rows), len(asked.names))
    down = range(len(asked.rows))
    over = {"all": range(len(asked.names)), "index": across, "columns": down}[asked.normalize]
    made = {}
    for name, cells in shown.items():
        table = cells.reshape(lattice.shape)
        whole = table
        for axis in over:
            whole = np.take(whole, [lattice.sizes[axis]], axis=axis)
        with np.errstate(divide="ignore", invalid="ignore"):
            made[name] = (table / whole).ravel()
    return made
