"""Finds variables that follow from protected ones, with the formula by which they do.

Question: which variables would give a protected one back, only because they say the same?
Assumes: a relation that holds for every record is no accident. Squares, logarithms, units, sums,
ratios, products, bands and indicators are looked for; a rule of any other kind is found by the
measure `recoverable`, when the plan is tried.

Such a variable is neither dropped nor blurred for itself: it is made again from what is released.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.cells.derivation import quote_variable, read_derived, tidy
from sfumato.data import Dataset
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import use_one_thread
from sfumato.schema import Schema

_SAMPLE = 3_000
"""Records among which relations are looked for; all of them must agree before one counts."""
_FEWEST = 20
_NEAR = 1e-2
"""Standard deviations by which a value may miss its formula: rounding, and no more."""
_LOOSE = 5 * _NEAR
"""The same as long as nothing is said yet of how the variable was rounded."""
_PROMISING = 1 - _LOOSE**2 / 2
_ROWS_A_TERM = 5
_MOST_TERMS = 12
_MOST_LEVELS = 200
_MOST_NAMED = 12
"""Levels that a formula names, each of them of so many records that naming it shows nobody."""
_RECORDS_A_LEVEL = 20
_MOST_PRODUCTS = 1_000
_DIGITS = 6
_LITTLE = 1e-7
"""Relative; what was stored in single precision is that far off."""
_HALF = 0.5
_MOST_DECIMALS = 12


@dataclass(frozen=True)
class DerivedVariable:
    """A variable that follows from others.

    Parameters
    ----------
    variable : what follows.
    formula : how.
    sources : what it follows from.
    """

    variable: str
    formula: str
    sources: tuple[str, ...]


def find_relations(data: Dataset, schema: Schema) -> list[DerivedVariable]:
    """Variables that follow from protected ones, in an order in which they can be made.

    Of several that follow from each other, one is protected and the others are made of it: the
    first that is known to others or secret.

    Parameters
    ----------
    data : the original records.
    schema : their roles.
    """
    protected = list(schema.having("quasi", "sensitive"))
    others = [name for name in schema if schema[name].role in ("other", None)]
    if not protected or len(data) < _FEWEST:
        return []
    with use_one_thread():
        return _find_all(_RelationSearch(data, schema), protected, others)


def _find_all(
    search: _RelationSearch, protected: Sequence[str], others: Sequence[str]
) -> list[DerivedVariable]:
    found: list[DerivedVariable] = []
    bases = list[str]()
    for name in protected:
        relation = search.find(name, bases, [])
        if relation is None:
            bases.append(name)
        else:
            found.append(relation)
    free = list(others)
    for name in others:
        free.remove(name)
        relation = search.find(name, bases, [other for other in others if other in free])
        if relation is None:
            free.append(name)
        else:
            found.append(relation)
    return found


def find_sources(data: Dataset, schema: Schema) -> dict[str, str]:
    """Variables that tell a protected one and more, each with the one that it tells.

    The number of years at school tells the level of education. It is not made of it, so it is as
    well known: it gets its role.
    """
    sources: dict[str, str] = {}
    search = _RelationSearch(data, schema)
    for name in schema:
        if schema[name].role not in ("other", None) or not search.repeats(name):
            continue
        for protected in schema.having("quasi", "sensitive"):
            if search.is_function(protected, name):
                sources[name] = protected
                break
    return sources


@dataclass(frozen=True, eq=False)
class _CandidateTerm:
    """What a variable may be a straight line in."""

    text: str
    variables: tuple[str, ...]
    values: Floats


class _RelationSearch:
    """Looks for relations among some records, and confirms them among all."""

    def __init__(self, data: Dataset, schema: Schema) -> None:
        self._data, self._schema = data, schema
        self._terms: tuple[tuple[str, ...], list[_CandidateTerm], Floats] | None = None
        digests = data.identity.digests
        order = np.lexsort((digests[:, 1], digests[:, 0]))[:_SAMPLE]
        self._sample = data.take(order) if len(data) > _SAMPLE else data
        self._numbers = {
            name: values.cast(pl.Float64).fill_null(math.nan).to_numpy()
            for name in schema
            if (values := self._sample.column(name)).dtype.is_numeric()
            or values.dtype == pl.Boolean
        }

    def find(self, name: str, bases: Sequence[str], free: Sequence[str]) -> DerivedVariable | None:
        """The relation by which a variable follows from protected ones, and maybe from others.

        Parameters
        ----------
        name : the variable.
        bases : the protected ones, of which at least one must take part.
        free : others that may take part.
        """
        for formula in self._list_formulas(name, bases, free):
            rounded = self._round_alike(name, formula)
            if self._holds(name, rounded):
                return DerivedVariable(name, rounded, read_derived(rounded).variables)
        return None

    def _round_alike(self, name: str, formula: str) -> str:
        """The formula, rounded as the variable is."""
        digits = _count_digits(self._numbers.get(name, np.empty(0)))
        return formula if digits is None else f"round({formula}, {digits})"

    def _list_formulas(self, name: str, bases: Sequence[str], free: Sequence[str]) -> Iterator[str]:
        bases = [base for base in bases if base != name]
        for base in bases:
            few = self._sample.column(base).n_unique() <= _MOST_LEVELS
            if few and self.is_function(name, base):
                yield from self._list_levels(name, base)
        if name in self._numbers and np.nanstd(self._numbers[name]) > 0:
            yield from self._list_single_terms(name, bases, free)
            yield from self._list_sums(name, bases, free)
            yield from self._list_products(name, bases, free)

    # One term --------------------------------------------------------------------------------

    def _list_single_terms(
        self, name: str, bases: Sequence[str], free: Sequence[str]
    ) -> Iterator[str]:
        """A unit, a square, a logarithm, a product: a straight line in one term."""
        wanted = self._numbers[name]
        rows = ~np.isnan(wanted)
        y = wanted[rows]
        if len(y) < _FEWEST or y.std() == 0:
            return
        terms, values = self._get_terms(bases)
        usable = [
            index for index, term in enumerate(terms)
            if name not in term.variables and set(term.variables) <= {*bases, *free}
        ]  # fmt: skip
        x = values[np.ix_(rows, usable)]
        with np.errstate(all="ignore"):
            centred = x - x.mean(axis=0)
            correlations = (y - y.mean()) @ centred / (len(y) * y.std() * centred.std(axis=0))
        for position in np.flatnonzero(np.abs(np.nan_to_num(correlations)) >= _PROMISING):
            best, scaled = terms[usable[position]].text, centred[:, position]
            slope = float((scaled @ (y - y.mean())) / (scaled @ scaled))
            constant = float(y.mean() - slope * x[:, position].mean())
            yield from _write_lines(best, slope, constant)

    def _get_terms(self, bases: Sequence[str]) -> tuple[list[_CandidateTerm], Floats]:
        """All terms of these bases, computed once; what is not finite never correlates."""
        if self._terms is None or self._terms[0] != tuple(bases):
            terms = list(self._list_terms(bases))
            shape = (len(self._sample), len(terms))
            values = np.empty(shape)
            for index, term in enumerate(terms):
                values[:, index] = term.values
            values[~np.isfinite(values)] = np.nan
            self._terms = tuple(bases), terms, values
        return self._terms[1], self._terms[2]

    def _list_terms(self, bases: Sequence[str]) -> Iterator[_CandidateTerm]:
        numeric = [base for base in bases if base in self._numbers]
        for base in numeric:
            x, text = self._numbers[base], quote_variable(base)
            made: dict[str, Floats] = {text: x}
            with np.errstate(all="ignore"):
                made |= {f"{text} ** 2": x**2, f"{text} ** 3": x**3}
                if np.nanmin(x) > 0:
                    made |= {f"log({text})": np.log(x), f"1 / {text}": 1 / x}
                if np.nanmin(x) >= 0:
                    made |= {f"log1p({text})": np.log1p(x), f"sqrt({text})": np.sqrt(x)}
                made[f"exp({text})"] = np.exp(x)
            yield from (_CandidateTerm(term, (base,), values) for term, values in made.items())
        others = [other for other in self._numbers if other not in bases]
        pairs = [*itertools.combinations(numeric, 2), *itertools.product(numeric, others)]
        for first, second in pairs[:_MOST_PRODUCTS]:
            text = f"{quote_variable(first)} * {quote_variable(second)}"
            yield _CandidateTerm(
                text, (first, second), self._numbers[first] * self._numbers[second]
            )

    # Several terms ---------------------------------------------------------------------------

    def _list_sums(self, name: str, bases: Sequence[str], free: Sequence[str]) -> Iterator[str]:
        """A sum or difference of several."""
        solved = self._solve(name, self._numbers, bases, free)
        if solved is None:
            return
        constant, terms = solved
        yield _write_sum(constant, terms, _DIGITS)

    def _list_products(self, name: str, bases: Sequence[str], free: Sequence[str]) -> Iterator[str]:
        """A product or ratio of several, each maybe squared: a sum of logarithms."""
        with np.errstate(all="ignore"):
            positive = {
                other: np.log(values)
                for other, values in self._numbers.items()
                if np.nanmin(values, initial=math.inf) > 0
            }
        solved = self._solve(name, positive, bases, free) if name in positive else None
        if solved is None:
            return
        powers = {other: round(2 * power) / 2 for other, power in solved[1].items()}
        if any(abs(powers[other] - power) > _LOOSE for other, power in solved[1].items()):
            return
        powers = {other: power for other, power in powers.items() if power}
        rest = positive[name] - sum(power * positive[other] for other, power in powers.items())
        parts = [f"{quote_variable(other)} ** {power:g}" for other, power in powers.items()]
        for digits in (2, _DIGITS):
            factor = _write(float(f"{math.exp(float(np.nanmean(rest))):.{digits}g}"))
            yield f"{factor} * {' * '.join(parts)}"

    def _solve(
        self,
        name: str,
        numbers: Mapping[str, Floats],
        bases: Sequence[str],
        free: Sequence[str],
    ) -> tuple[float, dict[str, float]] | None:
        """The constant and the weights of a sum that gives the variable, with a protected part."""
        rows = ~np.isnan(numbers[name])
        if numbers[name][rows].std() == 0:
            return None
        names, columns = list[str](), list[Floats]()
        for other in (*bases, *free):
            if other == name or other not in numbers:
                continue
            x = numbers[other][rows]
            if np.isfinite(x).all() and x.std() > 0:
                names.append(other)
                columns.append((x - x.mean()) / x.std())
        if not names or rows.sum() < _ROWS_A_TERM * (len(names) + 1):
            return None
        y = numbers[name][rows]
        scaled = (y - y.mean()) / y.std()
        chosen = _choose_independent(np.column_stack(columns))
        design = np.column_stack(columns)[:, chosen]
        weights = np.linalg.lstsq(design, scaled, rcond=None)[0]
        if np.abs(design @ weights - scaled).max() > _LOOSE:
            return None
        values_of = {names[index]: numbers[names[index]][rows] for index in chosen}
        terms = {
            other: float(weight * y.std() / values.std())
            for (other, values), weight in zip(values_of.items(), weights, strict=True)
            if abs(weight) > _NEAR / 2  # less is rounding
        }
        if not 1 < len(terms) <= _MOST_TERMS or not set(terms) & set(bases):
            return None
        constant = float(
            y.mean() - sum(weight * values_of[other].mean() for other, weight in terms.items())
        )
        return constant, terms

    # Levels ----------------------------------------------------------------------------------

    def repeats(self, name: str) -> bool:
        """Whether most records share their value with another: else everything follows from it."""
        known = self._sample.column(name).drop_nulls()
        return 1 < known.n_unique() <= _HALF * len(known)

    def is_function(self, name: str, base: str) -> bool:
        """Whether each value of the base goes with one value of the variable."""
        if name == base or not self.repeats(base):
            return False
        pairs = pl.DataFrame(
            [self._sample.column(base).alias("base"), self._sample.column(name).alias("name")]
        )
        if pairs["name"].n_unique() <= 1 or pairs["base"].n_unique() < pairs["name"].n_unique():
            return False
        return bool(pairs.group_by("base").agg(pl.col("name").n_unique())["name"].max() == 1)

    def _list_levels(self, name: str, base: str) -> Iterator[str]:
        """An indicator of some levels, or bands of a number."""
        table = (
            pl.DataFrame([self._data.column(base).alias("base"),
                          self._data.column(name).alias("name")])
            .drop_nulls()
            .group_by("base")
            .agg(pl.col("name").first(), pl.len().alias("records"))
            .sort("base")
        )  # fmt: skip
        if table.is_empty():
            return
        text, levels, names = quote_variable(base), table["base"].to_list(), table["name"]
        changes = [index for index in range(1, len(levels)) if names[index] != names[index - 1]]
        is_number = table["base"].dtype.is_numeric()
        values = names.to_list()
        runs = [values[0], *(values[index] for index in changes)]
        if is_number and names.dtype.is_integer() and len(changes) <= _MOST_NAMED:
            # A formula is published, and a value where a band begins would be somebody's.
            breaks = ", ".join(
                _write(_find_round(levels[index - 1], levels[index])) for index in changes
            )
            if runs == list(range(runs[0], runs[0] + len(runs))):
                start = f"{runs[0]} + " if runs[0] else ""
                yield f"{start}band({text}, {breaks})"
        if not names.dtype.is_numeric() or set(values) != {0, 1}:
            return
        chosen = table.filter(pl.col("name") == 1)
        if len(chosen) <= _MOST_NAMED and int(chosen["records"].min()) >= _RECORDS_A_LEVEL:  # type: ignore[arg-type]
            named = [_write(level) for level in chosen["base"].to_list()]
            yield f"{text} == {named[0]}" if len(named) == 1 else f"{text} in ({', '.join(named)})"

    # All records -----------------------------------------------------------------------------

    def _holds(self, name: str, formula: str) -> bool:
        """Whether all records agree, but for rounding."""
        read = read_derived(formula)
        batch = self._data.batch([name, *read.variables])
        truth = batch[name]
        made = tidy(batch.select(read.query.alias(name))[name], "number")
        numbers = truth.cast(pl.Float64)
        known = truth.is_not_null()
        if bool((known & made.is_null()).any()):
            return False
        spread = float(numbers.std() or 0.0)  # type: ignore[arg-type]
        misses = (made - numbers).abs().filter(known)
        if not len(misses):
            return False
        if truth.dtype.is_integer() or truth.dtype == pl.Boolean:
            return bool((made.filter(known).round(0) == numbers.filter(known)).all())
        digits = _count_digits(numbers.drop_nulls().to_numpy())
        # What was computed from values that were rounded later may be one unit off.
        room = 0.0 if digits is None else min(1.01 * 10.0**-digits, _LOOSE * spread)
        return float(misses.max()) <= max(_NEAR * spread, room)  # type: ignore[arg-type]


def _count_digits(numbers: Floats) -> int | None:
    """How many decimals all numbers have; None where they are whole or have many.

    Examples
    --------
    >>> _count_digits(np.array([1.25, 3.1])), _count_digits(np.array([1.0, 2.0]))
    (2, None)
    """
    known = numbers[np.isfinite(numbers)]
    for digits in range(_DIGITS - 1):
        if bool((np.abs(known - np.round(known, digits)) <= _LITTLE * np.abs(known)).all()):
            return digits or None
    return None


def _choose_independent(design: Floats) -> list[int]:
    """Columns that do not follow from those before them (Gram and Schmidt)."""
    basis: list[Floats] = []
    chosen = list[int]()
    for index in range(design.shape[1]):
        column = design[:, index].copy()
        for _ in range(2):  # twice, since once is not orthogonal enough
            for direction in basis:
                column -= (direction @ column) * direction
        size = float(np.linalg.norm(column))
        if size > 1e-6 * math.sqrt(len(column)):
            basis.append(column / size)
            chosen.append(index)
    return chosen


def _write_lines(text: str, slope: float, constant: float) -> Iterator[str]:
    """A straight line in a term, with round numbers first."""
    for digits in (2, _DIGITS):
        factor, start = float(f"{slope:.{digits}g}"), float(f"{constant:.{digits}g}")
        if abs(start) < 10.0**-_DIGITS * max(abs(factor), 1.0):
            start = 0.0
        line = text if factor == 1 else f"{_write(factor)} * {text}"
        yield line if start == 0 else f"{_write(start)} + {line}"


def _write_sum(constant: float, terms: Mapping[str, float], digits: int) -> str:
    parts = []
    for name, weight in terms.items():
        factor = float(f"{weight:.{digits}g}")
        text = quote_variable(name) if abs(factor) == 1 else (
            f"{_write(abs(factor))} * {quote_variable(name)}"
        )  # fmt: skip
        parts.append(f"{'-' if factor < 0 else '+'} {text}")
    start = float(f"{constant:.{digits}g}")
    if abs(start) > 10.0**-_DIGITS:
        parts.insert(0, f"{'-' if start < 0 else '+'} {_write(abs(start))}")
    joined = " ".join(parts)
    return joined.removeprefix("+ ") if joined.startswith("+ ") else joined.replace("- ", "-", 1)


def _find_round(low: float, high: float) -> float:
    """The number with the fewest digits that lies above one value and not above the next.

    Examples
    --------
    >>> _find_round(43.17, 51.62), _find_round(8, 9), _find_round(0.231, 0.238)
    (50.0, 9.0, 0.235)
    """
    span = high - low
    for power in range(math.floor(math.log10(span)) + 1, -_MOST_DECIMALS, -1):
        for part in (1.0, 0.5):
            unit = part * 10.0**power
            candidate = round(math.floor(high / unit) * unit, _MOST_DECIMALS)
            if low < candidate <= high:
                return candidate
    return high


def _write(value: object) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 10.0**_DIGITS:
        return str(int(value))
    if isinstance(value, bool):
        return str(int(value))
    return f'"{value}"' if isinstance(value, str) else repr(value)
