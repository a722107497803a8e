"""The table of an attacker who has put in what the rest of a release gives away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from sfumato.cells.notation import find_notation
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Mask
from sfumato.measure import AT_WORST, FILLED_IN, Measure
from sfumato.numbers import Number
from sfumato.pairs.alignment import quote_names
from sfumato.pairs.unchanged import write_cells
from sfumato.risk.dependencies.rules import (
    SAME,
    Finding,
    ReleasedView,
    TruthTable,
    find_dependencies,
    is_near,
    solve,
)

_ROUNDS = 3
"""What was worked out may be a tool for the next variable."""
_PRECISE = 0.5
"""From this share of right guesses beyond chance on, a rule is used wherever it says something."""
_SURE = 1e-3
"""Below that, only where chance would hardly ever bring so many equal values together."""
_WORTHWHILE = 0.05
"""The share of values that a rule must give back beyond chance. Of several hundred pairs of tools
that are tried in a sample, some give back 2 or 3 % of the values in groups of two or three."""
_CERTAIN = 0.95
"""The share of the others that must agree before a guess is put in. With fewer it is what is usual
among such people, as in any data with relations: most of those who earn much are married."""
_WITHIN = 0.01
_NAMED = 3
_GROUP, _COUNT, _GUESS = "\ufdd0group", "\ufdd0count", "\ufdd0guess"


@dataclass(frozen=True, eq=False)
class FilledIn:
    """A release with what its other variables give away.

    Parameters
    ----------
    dataset : the records with the guesses put in; a dropped variable stands there again.
    findings : by which rules.
    """

    dataset: Dataset
    findings: Sequence[Finding]

    def describe(self) -> str:
        """What was worked out from what."""
        texts = [
            f"'{finding.protected}' from {quote_names(finding.tools)}" for finding in self.findings
        ]
        return " and ".join(texts)

    def add_to(self, measure: Measure, evidence: Evidence) -> Evidence:
        """Evidence on the release, with the numbers that are worse on what the attacker has."""
        again = measure.look(self.dataset, "released", engine_for(self.dataset.frame))
        numbers = {
            number.name: now
            for number in measure.numbers
            if _is_worse(number, now := _read(again, number.name), _read(evidence, number.name))
        }
        if not numbers:
            return evidence
        worst = {
            f"{name}{AT_WORST}": number
            for name, number in numbers.items()
            # Of a sample, the end of an interval counts.
            if evidence.sampled is None or f"{name}{AT_WORST}" in evidence.details
        }
        changes = [
            f"{name} is {evidence.number(name):g} as released and {number:g} then"
            for name, number in numbers.items()
        ]
        listing = "; ".join(changes[:_NAMED])
        warning = f"The rest of the release gives away {self.describe()}: {listing}."
        filled = {f"{name}{FILLED_IN}": number for name, number in numbers.items()}
        return replace(
            evidence,
            details={**evidence.details, **worst, **filled, "filled_in": self.describe()},
            warnings=(*evidence.warnings, warning),
            # What can be worked out follows from the original, so the numbers stay inside.
            audience="custodian",
        )


def _read(evidence: Evidence, name: str) -> float:
    worst = f"{name}{AT_WORST}"
    return evidence.number(worst if worst in evidence.details else name)


def _is_worse(number: Number, now: float, than: float) -> bool:
    return now < than if number.safer == "more" else now > than


def fill_in(
    original: Dataset, released: Dataset, findings: Sequence[Finding] | None = None
) -> FilledIn | None:
    """Put in what rules give away of the protected variables; None where they give away nothing.

    Assumes: the attacker follows a rule wherever it says something, also where it is wrong, since
    nobody tells him; a cell that is a single value is believed, unless some of them are false.

    Parameters
    ----------
    original, released : the same records in the same order.
    findings : what `find_dependencies` finds in them, where that is known already.

    Examples
    --------
    >>> import sfumato as sf
    >>> frame = pl.DataFrame({"region": list("aabbcc") * 4, "rate": [1.5, 1.5, 2.5, 2.5, 7, 7] * 4})
    >>> schema = sf.Schema({"region": "quasi", "rate": "weight"})
    >>> hidden = frame.with_columns(region=pl.lit("*"))
    >>> filled = fill_in(sf.Dataset(frame, schema), sf.Dataset(hidden, schema))
    >>> filled.describe(), filled.dataset.frame["region"].equals(frame["region"])
    ("'region' from 'rate'", True)
    """
    current, used = released, dict[str, Finding]()
    latest: Sequence[str] | None = None
    for _ in range(_ROUNDS):
        unknown = [n for n in original.schema.having("quasi", "sensitive") if n not in used]
        if findings is None or latest is not None:
            findings = find_dependencies(original, current, unknown, by=latest)
        worthwhile = [finding for finding in findings if finding.gain >= _WORTHWHILE]
        if not worthwhile:
            break
        view, columns = ReleasedView(original, current), dict[str, pl.Series]()
        for finding in worthwhile:
            filled = _fill(view, finding)
            if filled is not None:
                columns[finding.protected] = filled
                used[finding.protected] = finding
        if not columns:
            break
        latest = list(columns)
        schema = current.schema.with_columns(
            {name: original.schema[name] for name in columns if name not in current.schema}
        )
        current = current.with_columns(pl.DataFrame(list(columns.values())), schema)
    return FilledIn(current, tuple(used.values())) if used else None


def _fill(view: ReleasedView, finding: Finding) -> pl.Series | None:
    """A protected variable as the attacker has it; None where he learns nothing new."""
    name = finding.protected
    guesses = _look_up(view, finding) if finding.rule == SAME else _work_out(view, finding)
    if name not in view.released.schema:
        return guesses.alias(name) if guesses.null_count() < len(guesses) else None
    guesses, cells = _unite(guesses, view.released.column(name))
    if guesses.dtype == pl.String and view.released.schema[name].generalised:
        guesses = guesses.set(find_notation(guesses).fill_null(value=False), None)
    values = write_cells(view.original.column(name)).unique()
    single = write_cells(cells).is_in(values.implode())
    hidden = ~pl.Series(view.unchanged[name])
    false_ones = bool((single.fill_null(value=False) & hidden).any())
    open_cells = pl.repeat(value=True, n=len(cells), eager=True)
    fillable = open_cells if false_ones else ~single.fill_null(value=False)
    filled = guesses.zip_with(fillable & guesses.is_not_null(), cells)
    return None if bool(filled.eq_missing(cells).all()) else filled.alias(name)


def _unite(guesses: pl.Series, cells: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Both in one type."""
    if guesses.dtype == cells.dtype:
        return guesses, cells
    if guesses.dtype.is_numeric() and cells.dtype.is_numeric():
        return guesses.cast(pl.Float64), cells.cast(pl.Float64)
    return write_cells(guesses), write_cells(cells)


def _look_up(view: ReleasedView, finding: Finding) -> pl.Series:
    """What most records with the same tool values have, for whoever shows these values."""
    truth = view.original.column(finding.protected).alias(_GUESS)
    usable = truth.is_not_null().to_numpy()
    learnt, shown = list[pl.Series](), _show_tools(view, finding)
    for index, tool in enumerate(finding.tools):
        values, is_shown = view.read_tool(tool)
        usable &= is_shown
        learnt.append(write_cells(values).alias(f"{index}"))
    keys = shown.columns
    table = (
        pl.DataFrame([*learnt, truth])
        .filter(pl.Series(usable))
        .group_by([*keys, _GUESS])
        .agg(pl.len().alias(_COUNT))
        .with_columns(pl.col(_COUNT).sum().over(keys).alias(_GROUP))
        .filter((pl.col(_GROUP) > 1) & (pl.col(_COUNT) >= _CERTAIN * pl.col(_GROUP)))
    )
    if finding.precision < _PRECISE:
        table = table.filter(pl.Series(_is_sure(table, truth), dtype=pl.Boolean))
    return shown.join(table, on=keys, how="left", maintain_order="left")[_GUESS]


def _show_tools(view: ReleasedView, finding: Finding) -> pl.DataFrame:
    """The cells of the tools as the attacker has them, true or not."""
    cells = (
        view.released.column(tool) if tool in view.released.schema else view.read_tool(tool)[0]
        for tool in finding.tools
    )
    return pl.DataFrame([write_cells(cell).alias(f"{i}") for i, cell in enumerate(cells)])


def _is_sure(table: pl.DataFrame, truth: pl.Series) -> Mask:
    """Which groups agree so often that chance hardly ever brings one of them about."""
    from scipy.stats import binom

    shares = truth.drop_nulls().value_counts(normalize=True, name="share")
    share = table.join(shares, on=_GUESS, how="left", maintain_order="left")["share"].to_numpy()
    rare = binom.sf(table[_COUNT].to_numpy() - 1, table[_GROUP].to_numpy(), share)
    sure: Mask = rare * max(len(table), 1) < _SURE
    return sure


def _work_out(view: ReleasedView, finding: Finding) -> pl.Series:
    """Numbers by an equation, or between those of the records before and after."""
    digests = view.original.identity.digests
    table = TruthTable(view, np.lexsort((digests[:, 1], digests[:, 0])))
    values, wanted = view.original.column(finding.protected), table.truth(finding.protected).numbers
    rows = table.usable(finding.protected, finding.tools)
    if wanted is None:
        return pl.repeat(None, len(values), dtype=values.dtype, eager=True)
    guess = solve(table, wanted[rows], finding.tools, finding.rule, rows)
    right = is_near(guess, wanted[rows], _WITHIN)
    if bool((wanted[rows] == np.rint(wanted[rows])).all()):
        guess = np.rint(guess)
    numbers: Floats = np.full(len(values), math.nan)
    # Who comes so near has the value, for all that it matters.
    numbers[table.rows[rows]] = np.where(right, wanted[rows], guess)
    # Records that show the same tools cannot be told apart: they get one guess, right or wrong.
    shown = _show_tools(view, finding)
    middle = pl.col(_GUESS).quantile(0.5, interpolation="lower").over(shown.columns)
    guesses = shown.with_columns(pl.Series(_GUESS, numbers).fill_nan(None)).select(middle)
    return _to_type(guesses[_GUESS], values.dtype)


def _to_type(numbers: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Numbers in the type of the values that they stand for."""
    if dtype.is_temporal():
        return numbers.round().cast(pl.Int32 if dtype == pl.Date else pl.Int64).cast(dtype)
    return numbers.cast(dtype, strict=False)
