"""Rules that lead from the variables of a release to a protected one, and what they give back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.codes import encode_unordered
from sfumato.cells.derivation import follows_formula
from sfumato.data import Dataset
from sfumato.data.identity import sort_digests
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers, Mask, Positions
from sfumato.pairs.unchanged import mark_unchanged

_MOSTLY = 0.5
"""The share of unchanged cells from which on a variable is a tool, and of hits for an equation."""
AGREEING = 0.8
"""The share of the others with the same tool value that must have the same protected value."""
SAMPLE = 8_000
"""Records on which rules are sought; the best is then followed for all."""
_FEWEST = 10
_COMMONEST = 50
"""Levels of a protected variable that agree by chance often enough to count."""
SAME = "same value"
MONOTONE = "rising or falling"
LINEAR = "sum or difference"
PRODUCT = "product or ratio"
EARLIER = "an earlier release"
_MOST_PAIRS = 300
_GLANCE = 1_000
"""Records on which an equation must look promising before it is followed."""
_ROOM, _SHORT = 16, 1_000
_TINY = 1e-12
_RIDGE = 1e-13
_NOTHING: Mapping[str, Mask] = MappingProxyType({})
_ROUNDS = 8
_ROWS_A_COEFFICIENT = 5
LEAST_GAIN = 0.02
_BEYOND_CHANCE = 5.0
"""Standard deviations that a rule must lie above its controls: hundreds of rules are tried."""


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
    deviations : how many standard deviations the rule does better than by chance.
    precision : of what is guessed by it, the share that is right, beyond chance.
    recovered : the rows whose value comes back.
    """

    protected: str
    tools: tuple[str, ...]
    rule: str
    share: float = 0.0
    chance: float = 0.0
    deviations: float = 0.0
    precision: float = 0.0
    recovered: Positions = field(default_factory=lambda: np.empty(0, np.intp), repr=False)

    @property
    def gain(self) -> float:
        """The share beyond chance: (share - chance) / (1 - chance); 0 where it could be chance."""
        beyond = self.share - self.chance
        if self.chance >= 1 or beyond <= 0 or self.deviations <= _BEYOND_CHANCE:
            return 0.0
        return beyond / (1 - self.chance)

    @property
    def counts(self) -> bool:
        """Whether it gives back enough to be named."""
        return self.gain >= LEAST_GAIN


def find_dependencies(
    original: Dataset,
    released: Dataset,
    protected: Sequence[str] | None = None,
    *,
    within: float = 0.01,
    pairs: bool = True,
    shown_before: Mapping[str, Mask] | None = None,
    by: Collection[str] | None = None,
) -> list[Finding]:
    """The rule that gives back the most of each protected variable of which some cell was changed.

    Parameters
    ----------
    original, released : the same records in the same order.
    protected : the variables. Default: all whose role is "quasi" or "sensitive".
    within : how near a number must come, in standard deviations of the original.
    pairs : whether two tools together are tried as well.
    shown_before : by variable, the records whose value an earlier release has shown.
    by : only rules with one of these tools, where somebody has tried all others.
    """
    if not len(original):
        raise MeasureError("There is no record to compare.", hint="are the data empty?")
    wanted = original.schema.having("quasi", "sensitive") if protected is None else protected
    view = ReleasedView(original, released, shown_before or {})
    changed = [
        name for name in wanted if name not in view.unchanged or not view.unchanged[name].all()
    ]
    if not changed:
        return []
    # In an order of the records' own, so that neither sample nor halves follow the file.
    order = sort_digests(original.identity.digests)
    if not original.units.one_row_each:
        # Other rows of the same person are no others: who has them has the value already.
        rank = np.empty(len(order), np.intp)
        rank[order] = np.arange(len(order))
        order = order[np.isin(order, original.units.choose_rows(rank))]
    everybody, sample = (
        TruthTable(view, order),
        TruthTable(view, _draw_sample(view, changed, order)),
    )
    findings = [
        _search(name, [tool for tool in view.tools if tool != name], sample, everybody,
                within=within, pairs=pairs, by=by)
        for name in changed
    ]  # fmt: skip
    if original.units.one_row_each:
        return findings
    return [_extend_to_persons(finding, view) for finding in findings]


def _extend_to_persons(finding: Finding, view: ReleasedView) -> Finding:
    """The same for all rows of a person that look like the one that was looked at."""
    if not len(finding.recovered):
        return finding
    numbers = view.original.units.numbers
    columns = [encode_unordered(view.read_tool(tool)[0])[0] for tool in finding.tools]
    columns.append(encode_unordered(view.original.column(finding.protected))[0])
    keys = pl.DataFrame({"unit": numbers, **{str(i): c for i, c in enumerate(columns)}})
    rows = keys.with_row_index().join(keys[finding.recovered].unique(), on=keys.columns)
    return replace(finding, recovered=np.sort(rows["index"].to_numpy()).astype(np.intp))


def _draw_sample(view: ReleasedView, protected: Sequence[str], order: Positions) -> Positions:
    """Some records, of which half have a changed cell as long as there are so many."""
    if len(order) <= SAMPLE:
        return order
    nobody = np.zeros(len(view.original), bool)
    touched = nobody.copy()
    for name in protected:
        touched |= ~view.unchanged.get(name, nobody)
    chosen = np.zeros(len(order), bool)
    chosen[np.flatnonzero(touched[order])[: SAMPLE // 2]] = True
    chosen[np.flatnonzero(~chosen)[: SAMPLE - int(chosen.sum())]] = True
    return order[chosen]


def _search(
    name: str,
    tools: Sequence[str],
    sample: TruthTable,
    everybody: TruthTable,
    *,
    within: float,
    pairs: bool,
    by: Collection[str] | None,
) -> Finding:
    """Seek the best rule on a sample, and follow that one for all records."""
    best = _look_up(everybody, name)
    if not sample.truth(name).usable.any():
        return best
    for chosen, kind in list_rules(sample, name, tools, pairs=pairs):
        if by is not None and not any(tool in by for tool in chosen):
            continue
        finding = follow(sample, name, chosen, kind, within, max(best.gain, LEAST_GAIN))
        if finding.gain > best.gain:
            best = finding
    if best.rule in ("none", EARLIER) or len(sample) == len(everybody):
        return best
    return follow(everybody, name, best.tools, best.rule, within)


def _look_up(table: TruthTable, name: str) -> Finding:
    """What earlier releases show of a variable that this one protects."""
    shown_before = table.view.shown_before.get(name)
    if shown_before is None:
        return Finding(name, (), "none")
    hidden = table.truth(name).usable
    recovered = hidden & shown_before[table.rows]
    if not recovered.any():
        return Finding(name, (), "none")
    share = float(recovered.sum() / hidden.sum())
    return Finding(name, (name,), EARLIER, share, 0.0, math.inf, 1.0, table.rows[recovered])


class ReleasedView:
    """What an attacker sees of each variable: its cells, and where they are the true ones."""

    def __init__(
        self, original: Dataset, released: Dataset, shown_before: Mapping[str, Mask] = _NOTHING
    ) -> None:
        self.original, self.released, self.shown_before = original, released, shown_before
        self.unchanged = {
            name: mark_unchanged(original, released, name)
            for name in original.columns
            if name in released.schema
        }
        nobody = np.zeros(len(original), bool)
        self.shown: dict[str, Mask] = {
            name: self.unchanged.get(name, nobody) | shown_before.get(name, nobody)
            for name in original.columns
            if name in self.unchanged or name in shown_before
        }
        self._as_they_were = [
            name for name, mask in self.shown.items() if float(mask.mean()) >= _MOSTLY
        ]
        self.tools = [
            *self._as_they_were,
            *(
                name
                for name in released.columns
                if name not in self._as_they_were and _may_tell(released, name)
            ),
        ]

    def read_truth(self, name: str) -> tuple[pl.Series, Mask]:
        """The true values, and where somebody sees them."""
        values = self.original.column(name)
        return values, self.shown.get(name, np.zeros(len(values), bool))

    def read_tool(self, name: str) -> tuple[pl.Series, Mask]:
        """The cells of a tool, and where they can be used."""
        if name in self._as_they_were:
            values, shown = self.read_truth(name)
        else:
            values = self.released.column(name)
            shown = np.ones(len(values), bool)
        return values, shown & values.is_not_null().to_numpy()


def _may_tell(released: Dataset, name: str) -> bool:
    """Whether a changed variable may still tell something: a weight that was only rounded.

    Pseudonyms are left out, since nobody knows beforehand what one stands for, and so is what is
    protected itself: its cells are counted by k and the like.
    """
    column = released.schema[name]
    if column.role in ("quasi", "sensitive") or column.kind == "text":
        return False
    # What was made of other released variables tells nothing that they do not.
    return not follows_formula(released, name)


class ReadColumn:
    """One variable of some records as codes and as numbers, each made once."""

    def __init__(self, values: pl.Series, usable: Mask) -> None:
        self.values, self.usable = values, usable

    @cached_property
    def codes(self) -> Integers:
        """Equal numbers for equal values; 0 is missing."""
        codes, _ = encode_unordered(self.values)
        return np.where(codes == 0, 0, 1 + _compact(codes))

    @cached_property
    def numbers(self) -> Floats | None:
        """Numbers and days; None for categories. NaN is missing."""
        values = self.values.to_physical() if self.values.dtype.is_temporal() else self.values
        if not values.dtype.is_numeric():
            return None
        return values.cast(pl.Float64).fill_null(math.nan).to_numpy()

    @property
    def distinct(self) -> int:
        """How many values it has."""
        return int(self.codes.max(initial=0))


class TruthTable:
    """Some records: the truth of each variable, and each variable as a tool."""

    def __init__(self, view: ReleasedView, rows: Positions) -> None:
        self.view, self.rows = view, rows
        self._truths: dict[str, ReadColumn] = {}
        self._tools: dict[str, ReadColumn] = {}
        self._joined: dict[tuple[str, ...], Integers] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def truth(self, name: str) -> ReadColumn:
        """A protected variable; usable where the release does not show the value that there is."""
        if name not in self._truths:
            values = self.view.original.column(name)
            same = self.view.unchanged.get(name)
            hidden = values.is_not_null().to_numpy() & (True if same is None else ~same)
            self._truths[name] = ReadColumn(values.gather(self.rows), hidden[self.rows])
        return self._truths[name]

    def tool(self, name: str) -> ReadColumn:
        """A variable from which others are worked out."""
        if name not in self._tools:
            values, usable = self.view.read_tool(name)
            self._tools[name] = ReadColumn(values.gather(self.rows), usable[self.rows])
        return self._tools[name]

    def join(self, tools: tuple[str, ...]) -> Integers:
        """One code for each combination of the values of tools."""
        if tools not in self._joined:
            self._joined[tools] = _join([self.tool(tool).codes for tool in tools])
        return self._joined[tools]

    def usable(self, name: str, tools: tuple[str, ...]) -> Positions:
        """The records that have a value, and whose tools can be used."""
        mask = self.truth(name).codes > 0
        for tool in tools:
            mask = mask & self.tool(tool).usable
        return np.flatnonzero(mask)


def follow(
    table: TruthTable,
    name: str,
    tools: tuple[str, ...],
    kind: str,
    within: float,
    least: float = 0.0,
) -> Finding:
    """The share of changed cells that a rule gives back, and what it would give by chance.

    The rule is learnt from all records, and must do better than chance among all of them. One that
    gives back no more than `least` is not looked at any further.
    """
    nothing = Finding(name, tools, kind)
    hidden, rows = table.truth(name).usable, table.usable(name, tools)
    total = int(hidden.sum())
    if len(rows) < _FEWEST:
        return nothing
    some = rows[: max(_GLANCE, 4 * _ROWS_A_COEFFICIENT * (1 + len(tools)))]
    if (
        kind != SAME
        and least
        and len(some) < len(rows)
        and _hit(table, name, tools, kind, within, some, some).mean() < _MOSTLY / 2
    ):
        return nothing
    hits = _hit(table, name, tools, kind, within, rows, rows)
    if kind != SAME and hits.mean() < _MOSTLY:
        # Nobody can tell the records that a weak equation hits from those that it misses.
        return nothing
    counted = hidden[rows]
    share = int((hits & counted).sum()) / total
    if share <= least:
        return nothing
    if kind == SAME:
        keys, target = table.join(tools)[rows], table.truth(name).codes[rows]
        chance, deviation = _agree_by_chance(keys, target)
        guesses = int(hits.sum()) + _count_wrong(keys, target)
    else:
        # Half a turn of rows that have no order: a shuffle without chance.
        turned = np.roll(rows, len(rows) // 2)
        chance = float(_hit(table, name, tools, kind, within, rows, turned).sum())
        deviation = math.sqrt(max(chance, 1.0) * (1 - chance / len(rows)))
        guesses = len(rows)
    return Finding(
        name,
        tools,
        kind,
        share,
        chance / len(rows) * int(counted.sum()) / total,
        (int(hits.sum()) - chance) / max(deviation, _TINY),
        (int(hits.sum()) - chance) / max(guesses - chance, _TINY),
        table.rows[rows[hits & counted]],
    )


def _hit(
    table: TruthTable,
    name: str,
    tools: tuple[str, ...],
    kind: str,
    within: float,
    rows: Positions,
    truth: Positions,
) -> Mask:
    """Which rows' protected values, taken from the rows `truth`, are hit from their tools."""
    if kind == SAME:
        return _agree(table.join(tools)[rows], table.truth(name).codes[truth])
    wanted = table.truth(name).numbers
    if wanted is None:
        return np.zeros(len(rows), bool)
    guess = solve(table, wanted[truth], tools, kind, rows)
    return is_near(guess, wanted[truth], within)


def is_near(guess: Floats, wanted: Floats, within: float) -> Mask:
    """Whether numbers are hit: whole ones exactly, others to some standard deviations."""
    if bool((wanted == np.rint(wanted)).all()):
        hit: Mask = np.rint(guess) == wanted
        return hit
    return np.abs(guess - wanted) <= within * float(np.std(wanted))


def solve(
    table: TruthTable, wanted: Floats, tools: tuple[str, ...], kind: str, rows: Positions
) -> Floats:
    """Each record's number, by a rule that was learnt from other records."""
    columns = [number[rows] for tool in tools if (number := table.tool(tool).numbers) is not None]
    if len(columns) < len(tools):
        return np.full(len(rows), math.nan)
    known = np.column_stack(columns)
    if kind == MONOTONE:
        return _interpolate(known[:, 0], wanted)
    if kind == LINEAR:
        return _solve_halves(known, wanted)
    with np.errstate(over="ignore"):
        return np.exp(_solve_halves(np.log(known), np.log(wanted)))


def _agree(keys: Integers, target: Integers) -> Mask:
    """Whether nearly all others with the same tool values have the same protected value."""
    both = _join([keys, target])
    group, alike = np.bincount(keys)[keys], np.bincount(both)[both]
    agreeing: Mask = (group > 1) & (alike - 1 >= AGREEING * (group - 1))
    return agreeing


def _count_wrong(keys: Integers, target: Integers) -> int:
    """For how many records nearly all others with the same tool values have another value."""
    both = _join([keys, target])
    group, alike = np.bincount(keys)[keys], np.bincount(both)[both]
    most = np.zeros(int(keys.max(initial=0)) + 1, np.int64)
    np.maximum.at(most, keys, alike)
    pair = 2
    differing = (alike < most[keys]) | ((group == pair) & (alike == 1))
    wrong = (group > 1) & differing & (most[keys] >= AGREEING * (group - 1))
    return int(wrong.sum())


def _agree_by_chance(keys: Integers, target: Integers) -> tuple[float, float]:
    """How many records `_agree` would find if the tools had nothing to do with the target.

    Within a group of g records the number m of those with level c is binomial(g, share of c), and
    counts only from t = 1 + 0.8 (g - 1) on. E[m; m >= t] = g p P(m' >= t - 1) with m' of g - 1
    records; the second moment in the same way. Returns mean and standard deviation of the total.
    """
    from scipy.special import bdtrc

    sizes, groups = np.unique(np.bincount(keys), return_counts=True)
    several = sizes > 1
    n, groups = sizes[several][:, None], groups[several]
    g = n.astype(float)
    counts = np.bincount(target)
    shares = np.sort(counts[counts > 0] / len(target))[::-1][None, :_COMMONEST]
    t = 1 + np.ceil(AGREEING * (g - 1) - 1e-9)
    # bdtrc(k, n, p): the probability of more than k of n.
    first = g * shares * bdtrc(t - 2, n - 1, shares)
    second = first + g * (g - 1) * shares**2 * bdtrc(t - 3, n - 2, shares)
    mean = first.sum(axis=1)
    variance = second.sum(axis=1) - mean**2
    return float(groups @ mean), math.sqrt(max(float(groups @ variance), 0.0))


def _join(columns: Sequence[Integers]) -> Integers:
    """One code for each combination of codes; a few stand for nothing."""
    keys = columns[0]
    for codes in columns[1:]:
        width = int(codes.max(initial=0)) + 1
        keys = keys * width + codes
        # A table of counts is quicker than sorting, as long as it is no longer than the records.
        if int(keys.max(initial=0)) > _ROOM * max(len(keys), 1):
            keys = _compact(keys)
    return keys


def list_rules(
    table: TruthTable, name: str, tools: Sequence[str], *, pairs: bool
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every rule worth following, the simplest first."""
    for tool in tools:
        yield (tool,), SAME
    numeric = [tool for tool in tools if table.tool(tool).numbers is not None]
    target = table.truth(name).numbers
    if target is not None:
        for tool in numeric:
            yield (tool,), MONOTONE
        yield from _list_equations(table, target, numeric)
    if pairs:
        # Few distinct values first: with many, no two records share a pair.
        ranked = sorted(tools, key=lambda tool: (table.tool(tool).distinct, tool))
        for pair in itertools.islice(itertools.combinations(ranked, 2), _MOST_PAIRS):
            yield pair, SAME


def _list_equations(
    table: TruthTable, target: Floats, numeric: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Linear equations with one, two and all tools; products where everything is positive."""
    groups: list[tuple[str, ...]] = [(tool,) for tool in numeric]
    groups += itertools.islice(itertools.combinations(numeric, 2), _MOST_PAIRS)
    if len(numeric) > 2:  # noqa: PLR2004 - pairs are there already
        groups.append(tuple(numeric))
    positive = {tool: _is_positive(table.tool(tool).numbers) for tool in numeric}
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
        guess[~learn] = design[~learn] @ _solve_least_trimmed_squares(design[learn], wanted[learn])
    return guess


def _standardise(known: Floats) -> Floats:
    spread = known.std(axis=0)
    scaled: Floats = (known - known.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return scaled


def _solve_least_trimmed_squares(design: Floats, wanted: Floats) -> Floats:
    """Least trimmed squares: the equation that the better half of the records obeys.

    Concentration steps of Rousseeuw & Van Driessen (2006) from the ordinary solution.
    """
    coefficients = _fit(design, wanted)
    size = max(len(wanted) // 2, design.shape[1] + 1)
    for _ in range(_ROUNDS):
        residuals = np.abs(wanted - design @ coefficients)
        better = np.argpartition(residuals, size - 1)[:size]
        improved = _fit(design[better], wanted[better])
        if bool((np.abs(improved - coefficients) <= _TINY * np.abs(coefficients)).all()):
            break
        coefficients = improved
    return coefficients


def _fit(design: Floats, wanted: Floats) -> Floats:
    """Least squares; columns are standardised, so that next to no ridge makes it solvable."""
    squares = design.T @ design
    squares.flat[:: len(squares) + 1] += _RIDGE * len(wanted)
    return np.asarray(np.linalg.solve(squares, design.T @ wanted), np.float64)


def _compact(codes: Any) -> Integers:
    """Codes without gaps, from 0 on."""
    if len(codes) < _SHORT:
        return np.unique(codes, return_inverse=True)[1].ravel().astype(np.int64)
    return pl.Series(codes).rank("dense").to_numpy().astype(np.int64) - 1
