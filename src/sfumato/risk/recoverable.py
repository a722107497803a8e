"""What the unchanged variables of a release give away about the protected ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.codes import encode_unordered
from sfumato.cells.pairs import quote_names
from sfumato.cells.unchanged import mark_unchanged, write_cells
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Integers, Mask, Positions
from sfumato.measure import AttackWording, Measure
from sfumato.parameters import parameters

_MOSTLY = 0.5
"""The share of unchanged cells from which on a variable is a tool, and of hits for an equation."""
_AGREEING = 0.8
"""The share of the others with the same tool value that must have the same protected value."""
_SAMPLE = 8_000
"""Records on which rules are sought; the best is then followed for all."""
_FEWEST = 10
_COMMONEST = 50
"""Levels of a protected variable that agree by chance often enough to count."""
SAME = "same value"
MONOTONE = "rising or falling"
LINEAR = "sum or difference"
PRODUCT = "product or ratio"
_MOST_PAIRS = 300
_ROUNDS = 8
_ROWS_A_COEFFICIENT = 5
_LEAST_GAIN = 0.02
_BEYOND_CHANCE = 5.0
"""Standard deviations that a rule must lie above its controls: hundreds of rules are tried."""
_ASSUMPTIONS = (
    "A tool is a released variable of which at least half of the cells are unchanged.",
    "The attacker knows the rules; each record's own is learnt from the other records only.",
    "Only records whose protected cell was changed count.",
    "The control is what the same rules give if tools and protected variable are unrelated.",
)


@parameters
class Recoverable(Measure):
    """Share of protected values that unchanged variables give back.

    Question: does something that leaves as it is undo what was protected?
    Assumes: an attacker knows how variables depend on each other, and follows four kinds of rules
    from the variables that left unchanged (the tools) to each protected one: the same value of a
    tool, or of two tools together, goes with one protected value (a survey weight that stands for
    region and household size); the protected number rises or falls with a tool (its logarithm);
    it is a sum or difference of tools; or a product or ratio of them. Dependencies that hold for
    most records count as well.

    The value is the largest share of changed cells, over the protected variables, that come back,
    beyond what the same rules give by chance. A number comes back if it is hit to `within` standard
    deviations, whole numbers and categories if they are hit exactly. `recoverable_records` counts
    the records for which at least one protected value comes back; the table has the best rule for
    each protected variable.

    Parameters
    ----------
    variables : the protected variables. Default: all whose role is "quasi" or "sensitive" and of
        which the release changed at least one cell.
    within : how near a number must come, in standard deviations of the original.
    pairs : whether two tools together are tried as well; at most 300 pairs, those with the fewest
        distinct values first.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"region": ["a", "a", "b", "b", "c", "c"] * 4,
    ...                       "rate": [1.5, 1.5, 2.5, 2.5, 7.0, 7.0] * 4})
    >>> schema = sf.Schema({"region": "quasi", "rate": "weight"})
    >>> original = sf.Dataset(frame, schema)
    >>> released = sf.Dataset(frame.with_columns(region=pl.lit("*")), schema)
    >>> found = Recoverable().measure(original, released)
    >>> round(found.value, 2), found.details["worst_variable"], found.details["worst_tools"]
    (1.0, 'region', 'rate')

    References: Huhtala et al. (1999), TANE: an efficient algorithm for discovering functional and
    approximate dependencies.
    """

    name = "recoverable"
    attack = AttackWording(
        title="Undoing by unchanged variables",
        control="the same rules on unrelated values",
        sentence="From what left unchanged, somebody works out {success} of the changed values of "
        "{worst_variable}. On unrelated values the same rules give {control}.",
    )
    examples = ({}, {"variables": ["region", "household_size"], "pairs": False})
    of = "pair"
    provides = ("recoverable_records",)
    reach = {  # noqa: RUF012 - a class variable by its base
        "recoverable": (0.0, 1.0),
        "recoverable_records": (0.0, math.inf),
    }
    variables: list[str] | None = None
    within: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.01
    pairs: bool = True

    def compare(self, original: Dataset, released: Dataset) -> Evidence:
        """Follow every rule from every tool to every protected variable."""
        findings = self.find_dependencies(original, released)
        worst = max(findings, key=lambda finding: finding.gain, default=None)
        flags = np.zeros(len(original), bool)
        for finding in findings:
            if finding.gain >= _LEAST_GAIN:
                flags[finding.recovered] = True
        return Evidence(
            name=self.name,
            subject="pair",
            value=worst.gain if worst else 0.0,
            direction=self.direction,
            baseline=worst.chance if worst else 0.0,
            records=original.like(pl.DataFrame({"recoverable": flags})),
            table=original.like(_tabulate(findings)),
            details={
                "recoverable_records": int(flags.sum()),
                "worst_variable": worst.protected if worst else "",
                "worst_tools": ", ".join(worst.tools) if worst else "",
                "worst_rule": worst.rule if worst else "",
                "recovered": worst.share if worst else 0.0,
                "protected": ", ".join(finding.protected for finding in findings),
                "records": len(original),
            },
            assumptions=_ASSUMPTIONS,
            warnings=_list_warnings(findings),
        )

    def find_dependencies(self, original: Dataset, released: Dataset) -> list[Finding]:
        """The rule that gives back the most of each protected variable."""
        if not len(original):
            raise MeasureError("There is no record to compare.", hint="are the data empty?")
        unchanged = {
            name: mark_unchanged(original, released, name)
            for name in original.columns
            if name in released.schema
        }
        tools = [name for name, same in unchanged.items() if same.mean() >= _MOSTLY]
        # In an order of the records' own, so that neither sample nor halves follow the file.
        digests = original.identity.digests
        order = np.lexsort((digests[:, 1], digests[:, 0]))
        everybody = _Table(original, order, unchanged)
        sample = _Table(original, order[:_SAMPLE], unchanged)
        return [
            self._search(name, [tool for tool in tools if tool != name], sample, everybody)
            for name in self._choose_protected(original, unchanged)
        ]

    def _choose_protected(self, original: Dataset, unchanged: Mapping[str, Mask]) -> list[str]:
        if self.variables is not None:
            original.schema.require(self.variables)
        wanted = self.variables or [
            name
            for name, column in original.schema.items()
            if column.role in ("quasi", "sensitive")
        ]
        return [name for name in wanted if name not in unchanged or not unchanged[name].all()]

    def _search(
        self, name: str, tools: Sequence[str], sample: _Table, everybody: _Table
    ) -> Finding:
        """Seek the best rule on a sample, and follow that one for all records."""
        best = Finding(name, (), "none")
        for chosen, kind in _list_rules(sample, name, tools, pairs=self.pairs):
            finding = _follow(sample, name, chosen, kind, self.within, max(best.gain, _LEAST_GAIN))
            if finding.gain > best.gain:
                best = finding
        if not best.tools or len(sample) == len(everybody):
            return best
        return _follow(everybody, name, best.tools, best.rule, self.within)


@dataclass(frozen=True)
class Finding:
    """What one rule gives back of one protected variable.

    Parameters
    ----------
    protected : the variable.
    tools : the unchanged variables that give it back.
    rule : how.
    share : of the changed cells, how many come back.
    chance : the same if the tools had nothing to do with it.
    deviation : the standard deviation of that.
    recovered : the rows, within the sample, whose value comes back.
    """

    protected: str
    tools: tuple[str, ...]
    rule: str
    share: float = 0.0
    chance: float = 0.0
    deviation: float = 0.0
    recovered: Positions = field(default_factory=lambda: np.empty(0, np.intp), repr=False)

    @property
    def gain(self) -> float:
        """The share beyond chance: (share - chance) / (1 - chance); 0 where it could be chance."""
        beyond = self.share - self.chance
        if self.chance >= 1 or beyond <= _BEYOND_CHANCE * self.deviation:
            return 0.0
        return beyond / (1 - self.chance)


class _Table:
    """Some records' variables as codes and as numbers, each made once."""

    def __init__(self, original: Dataset, rows: Positions, unchanged: Mapping[str, Mask]) -> None:
        self.original, self.rows, self._unchanged = original, rows, unchanged
        self._codes: dict[str, Integers] = {}
        self._numbers: dict[str, Floats | None] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def codes(self, name: str) -> Integers:
        """Equal numbers for equal values; 0 is missing."""
        if name not in self._codes:
            codes, _ = encode_unordered(self.original.column(name).gather(self.rows))
            self._codes[name] = np.where(codes == 0, 0, 1 + _compact(codes))
        return self._codes[name]

    def numbers(self, name: str) -> Floats | None:
        """Numbers and days; None for categories. NaN is missing."""
        if name not in self._numbers:
            values = self.original.column(name).gather(self.rows)
            if values.dtype.is_temporal():
                values = values.to_physical()
            usable = values.dtype.is_numeric()
            self._numbers[name] = (
                values.cast(pl.Float64).fill_null(math.nan).to_numpy() if usable else None
            )
        return self._numbers[name]

    def changed(self, name: str) -> Mask:
        """Where the release does not show the value that there is."""
        shown = self._unchanged.get(name)
        present = self.codes(name) > 0
        return present if shown is None else present & ~shown[self.rows]

    def shown(self, name: str) -> Mask:
        """Where the release shows the value that there is."""
        return (self.codes(name) > 0) & self._unchanged[name][self.rows]


def _follow(
    table: _Table, name: str, tools: tuple[str, ...], kind: str, within: float, least: float = 0.0
) -> Finding:
    """The share of changed cells that a rule gives back, and the same after shuffling.

    A rule that gives back no more than `least` is not looked at any further.
    """
    changed = table.changed(name)
    usable = changed.copy()
    for tool in tools:
        usable &= table.shown(tool)
    rows, total = np.flatnonzero(usable), int(changed.sum())
    if len(rows) < _FEWEST:
        return Finding(name, tools, kind)
    hits = _guess(table, name, tools, kind, within, rows, rows)
    if kind != SAME and hits.mean() < _MOSTLY:
        # Nobody can tell the records that a weak equation hits from those that it misses.
        return Finding(name, tools, kind)
    share = int(hits.sum()) / total
    if share <= least:
        return Finding(name, tools, kind)
    if kind == SAME:
        chance, deviation = _agree_by_chance(
            [table.codes(tool)[rows] for tool in tools], table.codes(name)[rows]
        )
    else:
        # Half a turn of rows that have no order: a shuffle without chance.
        turned = np.roll(rows, len(rows) // 2)
        chance = float(_guess(table, name, tools, kind, within, rows, turned).sum())
        deviation = math.sqrt(max(chance, 1.0) * (1 - chance / len(rows)))
    recovered = table.rows[rows[hits]]
    return Finding(name, tools, kind, share, chance / total, deviation / total, recovered)


def _guess(
    table: _Table,
    name: str,
    tools: tuple[str, ...],
    kind: str,
    within: float,
    rows: Positions,
    truth: Positions,
) -> Mask:
    """Which rows' protected values, taken from the rows `truth`, are hit from their tools."""
    if kind == SAME:
        tool_codes = [table.codes(tool)[rows] for tool in tools]
        return _agree(tool_codes, table.codes(name)[truth])
    target = table.numbers(name)
    columns = [numbers[rows] for tool in tools if (numbers := table.numbers(tool)) is not None]
    if target is None or len(columns) < len(tools):
        return np.zeros(len(rows), bool)
    wanted, known = target[truth], np.column_stack(columns)
    if kind == MONOTONE:
        guess = _interpolate(known[:, 0], wanted)
    elif kind == LINEAR:
        guess = _solve_halves(known, wanted)
    else:
        guess = np.exp(_solve_halves(np.log(known), np.log(wanted)))
    if bool((wanted == np.rint(wanted)).all()):
        hit: Mask = np.rint(guess) == wanted
        return hit
    return np.abs(guess - wanted) <= within * float(np.std(wanted))


def _agree(tools: Sequence[Integers], target: Integers) -> Mask:
    """Whether nearly all others with the same tool values have the same protected value."""
    keys = _join(tools)
    both = _join([keys, target])
    group, alike = np.bincount(keys)[keys], np.bincount(both)[both]
    agreeing: Mask = (group > 1) & (alike - 1 >= _AGREEING * (group - 1))
    return agreeing


def _agree_by_chance(tools: Sequence[Integers], target: Integers) -> tuple[float, float]:
    """How many records `_agree` would find if the tools had nothing to do with the target.

    Within a group of g records the number m of those with level c is binomial(g, share of c), and
    counts only from t = 1 + 0.8 (g - 1) on. E[m; m >= t] = g p P(m' >= t - 1) with m' of g - 1
    records; the second moment in the same way. Returns mean and standard deviation of the total.
    """
    from scipy.stats import binom

    sizes, groups = np.unique(np.bincount(_join(tools)), return_counts=True)
    several = sizes > 1
    g, groups = sizes[several][:, None].astype(float), groups[several]
    shares = np.sort(np.bincount(_compact(target)) / len(target))[::-1][None, :_COMMONEST]
    t = 1 + np.ceil(_AGREEING * (g - 1) - 1e-9)
    first = g * shares * binom.sf(t - 2, g - 1, shares)
    second = first + g * (g - 1) * shares**2 * binom.sf(t - 3, g - 2, shares)
    mean = first.sum(axis=1)
    variance = second.sum(axis=1) - mean**2
    return float(groups @ mean), math.sqrt(max(float(groups @ variance), 0.0))


def _join(columns: Sequence[Integers]) -> Integers:
    """One code for each combination of codes."""
    keys = _compact(columns[0])
    for codes in columns[1:]:
        keys = _compact(keys * (int(codes.max(initial=0)) + 1) + codes)
    return keys


def _list_rules(
    table: _Table, name: str, tools: Sequence[str], *, pairs: bool
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every rule worth following, the simplest first."""
    for tool in tools:
        yield (tool,), SAME
    numeric = [tool for tool in tools if table.numbers(tool) is not None]
    target = table.numbers(name)
    if target is not None:
        for tool in numeric:
            yield (tool,), MONOTONE
        yield from _list_equations(table, target, numeric)
    if pairs:
        # Few distinct values first: with many, no two records share a pair.
        ranked = sorted(tools, key=lambda tool: (int(table.codes(tool).max(initial=0)), tool))
        for pair in itertools.islice(itertools.combinations(ranked, 2), _MOST_PAIRS):
            yield pair, SAME


def _list_equations(
    table: _Table, target: Floats, numeric: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Linear equations with one, two and all tools; products where everything is positive."""
    groups: list[tuple[str, ...]] = [(tool,) for tool in numeric]
    groups += itertools.islice(itertools.combinations(numeric, 2), _MOST_PAIRS)
    if len(numeric) > 2:  # noqa: PLR2004 - pairs are there already
        groups.append(tuple(numeric))
    positive = {tool: _is_positive(table.numbers(tool)) for tool in numeric}
    for group in groups:
        yield group, LINEAR
        if _is_positive(target) and all(positive[tool] for tool in group):
            yield group, PRODUCT


def _is_positive(values: Floats | None) -> bool:
    if values is None:
        return False
    known = values[~np.isnan(values)]
    return len(known) > 0 and bool((known > 0).all())


def _interpolate(tool: Floats, wanted: Floats) -> Floats:
    """Each value from its two neighbours in the order of the tool; NaN at the ends."""
    order = np.argsort(tool, kind="stable")
    u, p = tool[order], wanted[order]
    guess = np.full(len(u), math.nan)
    width = u[2:] - u[:-2]
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = np.where(width > 0, (u[1:-1] - u[:-2]) / width, 0.5)
    # Not by a straight line alone: a value between equal neighbours is that value.
    guess[1:-1] = p[:-2] + weight * (p[2:] - p[:-2])
    out = np.empty(len(u))
    out[order] = guess
    return out


def _solve_halves(known: Floats, wanted: Floats) -> Floats:
    """A linear equation, learnt on one half of the records and applied to the other."""
    scaled = _standardise(known)
    design = np.column_stack([np.ones(len(wanted)), scaled])
    guess = np.full(len(wanted), math.nan)
    half = np.arange(len(wanted)) % 2 == 0
    for learn in (half, ~half):
        if int(learn.sum()) < _ROWS_A_COEFFICIENT * design.shape[1]:
            return guess
        guess[~learn] = design[~learn] @ _solve_trimmed(design[learn], wanted[learn])
    return guess


def _standardise(known: Floats) -> Floats:
    spread = known.std(axis=0)
    scaled: Floats = (known - known.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return scaled


def _solve_trimmed(design: Floats, wanted: Floats) -> Floats:
    """Least trimmed squares: the equation that the better half of the records obeys.

    Concentration steps of Rousseeuw & Van Driessen (2006) from the ordinary solution.
    """
    coefficients = np.linalg.lstsq(design, wanted, rcond=None)[0]
    size = max(len(wanted) // 2, design.shape[1] + 1)
    for _ in range(_ROUNDS):
        residuals = np.abs(wanted - design @ coefficients)
        better = np.argpartition(residuals, size - 1)[:size]
        improved = np.linalg.lstsq(design[better], wanted[better], rcond=None)[0]
        if np.allclose(improved, coefficients, rtol=1e-12, atol=0):
            break
        coefficients = improved
    return np.asarray(coefficients, np.float64)


def _compact(codes: Any) -> Integers:
    """Codes without gaps, from 0 on."""
    return pl.Series(codes).rank("dense").to_numpy().astype(np.int64) - 1


def _tabulate(findings: Sequence[Finding]) -> pl.DataFrame:
    schema = {
        "variable": pl.String,
        "recoverable": pl.Float64,
        "share": pl.Float64,
        "by_chance": pl.Float64,
        "rule": pl.String,
        "tools": pl.String,
    }
    rows = [(f.protected, f.gain, f.share, f.chance, f.rule, ", ".join(f.tools)) for f in findings]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _list_warnings(findings: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(
        f"{finding.share:.1%} of the changed values of '{finding.protected}' come back from "
        f"{quote_names(finding.tools)} ({finding.rule}), which left unchanged."
        for finding in findings
        if finding.gain >= _LEAST_GAIN
    )


def fill_in(original: Dataset, released: Dataset) -> Dataset | None:
    """The release after an attacker has put back what is recoverable; None where nothing is."""
    columns = {}
    for finding in Recoverable().find_dependencies(original, released):
        if finding.gain < _LEAST_GAIN or finding.protected not in released.schema:
            continue
        name = finding.protected
        before, after = original.column(name), released.column(name)
        if before.dtype != after.dtype:
            before, after = write_cells(before), write_cells(after)
        hit = np.zeros(len(after), bool)
        hit[finding.recovered] = True
        columns[name] = before.zip_with(pl.Series(hit), after).alias(name)
    return released.with_columns(pl.DataFrame(list(columns.values()))) if columns else None
