"""Summaries of a variable that come out the same however the records are split.

Each states what to keep of a part (`partial`) and how to join the parts (`merge`). Sums are
exact, so a mean does not depend on the order of rows, not even in its last bit: a last-bit
difference already flips a tie between neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np
import polars as pl

from sfumato.kernels.arrays import Floats, Integers, Words


def to_floats(values: pl.Series) -> Floats:
    """The values as floats; dates as days since 1970."""
    # Days since 1970.
    if values.dtype.is_temporal():
        values = values.cast(pl.Date).to_physical()
    return values.cast(pl.Float64).to_numpy()


class Summary(Protocol):
    """One number about a variable. `earlier` holds the summaries named in `needs`.

    Where what is kept of a part is not a few numbers, `combine` makes one of two parts, so that an
    engine with many parts need not hold all of them.
    """

    @property
    def name(self) -> str:
        """The key under which `aggregate` returns it."""

    @property
    def needs(self) -> tuple[Summary, ...]:
        """Summaries that must be known before this one can be taken."""

    def partial(self, values: pl.Series, earlier: Mapping[str, Any]) -> Any:
        """What to keep of one part."""

    def merge(self, parts: Sequence[Any], earlier: Mapping[str, Any]) -> Any:
        """The summary of all parts."""


_FEW = 10_000
"""Below this many values, loading compiled code costs more than it saves."""


def exact_sum(values: Floats) -> list[float]:
    """A few floats whose exact sum is the exact sum of the values, to be merged with others.

    Examples
    --------
    >>> math.fsum(exact_sum(np.array([1e100, 1.0, -1e100])))
    1.0
    """
    if len(values) > _FEW and np.isfinite(values).all():
        from sfumato.kernels.exact_sums import exact_parts

        return exact_parts(values)
    terms = values.tolist()
    parts: list[float] = []
    # Shewchuk (1997): what a rounded sum leaves is summed again, until nothing is left.
    while (error := math.fsum([*terms, *(-part for part in parts)])) != 0 and math.isfinite(error):
        parts.append(error)
    return parts if math.isfinite(error) else [error]


@dataclass(frozen=True)
class Count:
    """How many values are not missing."""

    name: ClassVar[str] = "count"
    needs: ClassVar[tuple[Summary, ...]] = ()

    def partial(self, values: pl.Series, earlier: Mapping[str, Any]) -> int:
        """Count one part."""
        del earlier
        return len(values)

    def merge(self, parts: Sequence[int], earlier: Mapping[str, Any]) -> int:
        """Add the counts."""
        del earlier
        return sum(parts)


@dataclass(frozen=True)
class Distinct:
    """How many different values there are, missing not counted. Any type of variable.

    Values are distinguished by 64-bit digests: wrong once in 10 million times for 2 million values.
    """

    name: ClassVar[str] = "distinct"
    needs: ClassVar[tuple[Summary, ...]] = ()

    def partial(self, values: pl.Series, earlier: Mapping[str, Any]) -> pl.Series:
        """Digests of one part."""
        del earlier
        return values.hash(seed=0)

    def combine(self, first: pl.Series, second: pl.Series) -> pl.Series:
        """The digests of two parts, each once."""
        return pl.concat([first, second]).unique()

    def merge(self, parts: Sequence[pl.Series], earlier: Mapping[str, Any]) -> int:
        """Count over all parts."""
        del earlier
        return pl.concat(parts).n_unique()


@dataclass(frozen=True)
class Infinite:
    """How many values are infinite: no calculation goes on from there."""

    name: ClassVar[str] = "infinite"
    needs: ClassVar[tuple[Summary, ...]] = ()

    def partial(self, values: pl.Series, earlier: Mapping[str, Any]) -> int:
        """Count one part."""
        del earlier
        return int(values.is_infinite().sum()) if values.dtype.is_float() else 0

    def merge(self, parts: Sequence[int], earlier: Mapping[str, Any]) -> int:
        """Add the counts."""
        del earlier
        return sum(parts)


@dataclass(frozen=True)
class _Extreme:
    """The extreme of the extremes of all parts; an empty part has none and gives NaN."""

    needs: ClassVar[tuple[Summary, ...]] = ()
    choose: ClassVar[Callable[..., float]]

    def partial(self, values: pl.Series, earlier: Mapping[str, Any]) -> float:
        """Extreme of one part."""
        del earlier
        return float(type(self).choose(to_floats(values))) if len(values) else math.nan

    def merge(self, parts: Sequence[float], earlier: Mapping[str, Any]) -> float:
        """Extreme of all."""
        del earlier
        known = [part for part in parts if not math.isnan(part)]
        return float(type(self).choose(known)) if known else math.nan


@dataclass(frozen=True)
class Minimum(_Extreme):
    """The smallest value; NaN when there is none."""

    name: ClassVar[str] = "min"
    choose: ClassVar[Callable[..., float]] = np.min


@dataclass(frozen=True)
class Maximum(_Extreme):
    """The largest value; NaN when there is none."""

    name: ClassVar[str] = "max"
    choose: ClassVar[Callable[..., float]] = np.max


@dataclass(frozen=True)
class Mean:
    """The mean, from an exact sum."""

    name: ClassVar[str] = "mean"
    needs: ClassVar[tuple[Summary, ...]] = (Count(),)

    def partial(self, values: pl.Series, earlier: Mapping[str, Any]) -> list[float]:
        """Exact sum of one part."""
        del earlier
        return exact_sum(to_floats(values))

    def merge(self, parts: Sequence[list[float]], earlier: Mapping[str, Any]) -> float:
        """Exact sum of all, divided once."""
        total = math.fsum(term for part in parts for term in part)
        return total / earlier["count"] if earlier["count"] else math.nan


@dataclass(frozen=True)
class Deviation:
    """The standard deviation with n - 1; NaN below two values."""

    name: ClassVar[str] = "sd"
    needs: ClassVar[tuple[Summary, ...]] = (Count(), Mean())

    def partial(self, values: pl.Series, earlier: Mapping[str, Any]) -> list[float]:
        """Exact sum of squared distances from the mean of all."""
        with np.errstate(over="ignore"):  # an infinite spread says so by itself
            return exact_sum((to_floats(values) - earlier["mean"]) ** 2)

    def merge(self, parts: Sequence[list[float]], earlier: Mapping[str, Any]) -> float:
        """Root of the mean square."""
        # Two passes: a one-pass formula would cancel where the mean is large.
        if earlier["count"] <= 1:
            return math.nan
        return math.sqrt(
            math.fsum(term for part in parts for term in part) / (earlier["count"] - 1)
        )


_DIGIT = 16
"""Bits by which each pass over the values narrows a quantile down."""
_SIGN = np.uint64(1 << 63)


def _to_words(values: Floats) -> Words:
    """Floats as whole numbers of 64 bits in the same order."""
    bits = (values + 0.0).view(np.uint64)  # minus zero is zero
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _to_float(word: int) -> float:
    bits = np.uint64(word)
    return float((bits ^ _SIGN if bits & _SIGN else ~bits).view(np.float64))


class _Narrowed(NamedTuple):
    """The leading bits of the value of some rank, and its rank among the values that have them."""

    prefix: int
    rank: int


@dataclass(frozen=True)
class _LeadingBits:
    """The first `passes` x 16 bits of the two values next to a quantile, or of some ranks.

    A part keeps one count for each way the next 16 bits can go: 512 kB, however many values there
    are. Four passes give the values exactly (a radix selection).
    """

    of: float | tuple[int, ...]
    passes: int

    @property
    def name(self) -> str:
        """Not asked for by anybody but the next pass."""
        return f"leading {self.passes * _DIGIT} bits of {self.of}"

    @property
    def needs(self) -> tuple[Summary, ...]:
        """The bits before, which say where to look."""
        if self.passes > 1:
            return (replace(self, passes=self.passes - 1),)
        return () if isinstance(self.of, tuple) else (Count(),)

    def partial(self, values: pl.Series, earlier: Mapping[str, Any]) -> dict[int, Integers]:
        """How many values go which way, for each of the prefixes that are looked at."""
        words = _to_words(to_floats(values))
        shift = np.uint64(64 - _DIGIT * self.passes)
        counts: dict[int, Integers] = {}
        for prefix, _ in self._look_up(earlier):
            if prefix in counts:
                continue
            among = words
            if self.passes > 1:
                among = words[words >> (shift + np.uint64(_DIGIT)) == np.uint64(prefix)]
            digits = (among >> shift) & np.uint64((1 << _DIGIT) - 1)
            counts[prefix] = np.bincount(digits.astype(np.int64), minlength=1 << _DIGIT)
        return counts

    def combine(
        self, first: dict[int, Integers], second: dict[int, Integers]
    ) -> dict[int, Integers]:
        """The counts of two parts."""
        return {prefix: counts + second[prefix] for prefix, counts in first.items()}

    def merge(
        self, parts: Sequence[dict[int, Integers]], earlier: Mapping[str, Any]
    ) -> tuple[_Narrowed, ...]:
        """Go the way on which the wanted rank lies."""
        narrowed: list[_Narrowed] = []
        for prefix, rank in self._look_up(earlier):
            reached = np.cumsum(sum(part[prefix] for part in parts))
            digit = int(np.searchsorted(reached, rank, side="right"))
            below = int(reached[digit - 1]) if digit else 0
            narrowed.append(_Narrowed((prefix << _DIGIT) + digit, rank - below))
        return tuple(narrowed)

    def _look_up(self, earlier: Mapping[str, Any]) -> tuple[_Narrowed, ...]:
        if self.passes == 1 and isinstance(self.of, tuple):
            return tuple(_Narrowed(0, rank) for rank in self.of)
        before = earlier[self.needs[0].name]
        if self.passes > 1:
            return tuple(before)
        if not before:
            return ()
        # Type 7 of Hyndman & Fan (1996): the position (n - 1) p, counted from 0.
        position = cast("float", self.of) * (before - 1)
        ranks = dict.fromkeys((math.floor(position), math.ceil(position)))
        return tuple(_Narrowed(0, rank) for rank in ranks)


@dataclass(frozen=True)
class Quantile:
    """The value below which a share `p` of the values lies, interpolated (R's type 7)."""

    p: float

    @property
    def name(self) -> str:
        """For instance "quantile 0.99"."""
        return f"quantile {self.p:g}"

    @property
    def needs(self) -> tuple[Summary, ...]:
        """The values on either side."""
        return (_LeadingBits(self.p, 64 // _DIGIT), Count())

    def partial(self, values: pl.Series, earlier: Mapping[str, Any]) -> None:
        """All is known."""
        del values, earlier

    def merge(self, parts: Sequence[None], earlier: Mapping[str, Any]) -> float:
        """Interpolate between the two."""
        del parts
        neighbours = [_to_float(value.prefix) for value in earlier[self.needs[0].name]]
        if not neighbours:
            return math.nan
        position = self.p * (earlier["count"] - 1)
        share = position - math.floor(position)
        low, high = neighbours[0], neighbours[-1]
        return low if share == 0 else low + share * (high - low)


@dataclass(frozen=True)
class OrderStatistics:
    """The values at some ranks of the sorted values, counted from 0, which must be there."""

    ranks: tuple[int, ...]

    @property
    def name(self) -> str:
        """For instance "ranks 0, 5"."""
        return f"ranks {', '.join(map(str, self.ranks))}"

    @property
    def needs(self) -> tuple[Summary, ...]:
        """All bits of the values."""
        return (_LeadingBits(self.ranks, 64 // _DIGIT),)

    def partial(self, values: pl.Series, earlier: Mapping[str, Any]) -> None:
        """All is known."""
        del values, earlier

    def merge(self, parts: Sequence[None], earlier: Mapping[str, Any]) -> tuple[float, ...]:
        """The bits as values."""
        del parts
        return tuple(_to_float(value.prefix) for value in earlier[self.needs[0].name])


def order_by_need(summaries: Sequence[Summary]) -> list[Summary]:
    """Summaries with all that they need, each once, those that are needed first."""
    ordered: dict[str, Summary] = {}

    def add(summary: Summary) -> None:
        for needed in summary.needs:
            add(needed)
        ordered.setdefault(summary.name, summary)

    for summary in summaries:
        add(summary)
    return list(ordered.values())


def aggregate_in_passes(
    wanted: Mapping[str, Sequence[Summary]],
    take: Callable[[dict[str, list[Summary]], dict[str, dict[str, Any]]], None],
) -> dict[str, dict[str, Any]]:
    """Summaries by variable, in as few passes over the records as their needs allow.

    Parameters
    ----------
    wanted : by variable, what is wanted.
    take : takes some summaries in one pass; they are given by variable, with what is known by then,
        to which it adds them.
    """
    known: dict[str, dict[str, Any]] = {name: {} for name in wanted}
    pending = {name: order_by_need(summaries) for name, summaries in wanted.items()}
    while any(pending.values()):
        # All that can be taken by now goes into one pass: records are read once for each.
        ready = {
            name: [s for s in summaries if all(n.name in known[name] for n in s.needs)]
            for name, summaries in pending.items()
            if summaries
        }
        take(ready, known)
        pending = {
            name: [s for s in summaries if s.name not in known[name]]
            for name, summaries in pending.items()
        }
    return {
        name: {summary.name: known[name][summary.name] for summary in summaries}
        for name, summaries in wanted.items()
    }


@dataclass(frozen=True)
class Transformed:
    """A summary of the values as a function makes them."""

    function: Callable[[Floats], Floats]
    inner: Summary
    words: str
    """What the values are then, for instance "on the scale"."""

    @property
    def name(self) -> str:
        """For instance "sd on the scale"."""
        return f"{self.inner.name} {self.words}"

    @property
    def needs(self) -> tuple[Summary, ...]:
        """What the inner one needs, of the same values."""
        return tuple(replace(self, inner=summary) for summary in self.inner.needs)

    def partial(self, values: pl.Series, earlier: Mapping[str, Any]) -> Any:
        """What to keep of one part."""
        return self.inner.partial(
            pl.Series(self.function(to_floats(values))), self._read_earlier(earlier)
        )

    @property
    def combine(self) -> Callable[[Any, Any], Any]:
        """As the inner one does; that has none where its parts are small."""
        combine: Callable[[Any, Any], Any] = self.inner.combine  # type: ignore[attr-defined]
        return combine

    def merge(self, parts: Sequence[Any], earlier: Mapping[str, Any]) -> Any:
        """The summary of all parts."""
        return self.inner.merge(parts, self._read_earlier(earlier))

    def _read_earlier(self, earlier: Mapping[str, Any]) -> dict[str, Any]:
        return {
            summary.name: earlier[needed.name]
            for summary, needed in zip(self.inner.needs, self.needs, strict=True)
        }
