"""Two outputs that give away, together, what neither shows.

Question: could somebody take one output from another and be left with very few people?
Assumes: whoever has one output can have the others. Records are compared by keyed hashes of
their identity, so nothing of their content is kept. Compared are the whole populations, the
groups by each variable, and the cells by all of them; what several outputs tell together of a
cell is worked out in `linked`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.kernels.arrays import Integers
from sfumato.outputs.linked import GROUP, WAY, linked
from sfumato.randomness import Key

_ID, _CONTENT = "id", "content of the record"
_WHOLE = ""
Earlier = Sequence[tuple[int, str, "Population"]]
"""Number, title and records of the outputs made before."""


@dataclass(frozen=True, eq=False)
class Population:
    """The records behind an output: a keyed hash of each, and the group it is in.

    Parameters
    ----------
    basis : by what records are told apart.
    records : the hashes; and for each way in which the output splits its records a number for
        the part a record is in, below 0 where that part is hidden.
    """

    basis: str
    records: pl.DataFrame

    def __len__(self) -> int:
        return self.records.height

    def fingerprint(self) -> str:
        """The same for the same records, whatever their order; it tells nothing about them."""
        total = int(self.records[_ID].to_numpy().sum(dtype=np.uint64))
        return hashlib.sha256(f"{len(self)}-{total}".encode()).hexdigest()[:16]

    def meets(self, other: Population) -> bool:
        """Whether the two have a record in common."""
        return bool(_common(self, other))

    @property
    def ways(self) -> list[str]:
        """The ways in which the output splits its records; not at all comes first."""
        return [_WHOLE, *(name for name in self.records.columns if name != _ID)]

    def write(self, stream: IO[bytes]) -> None:
        """Keep it in a file."""
        self.records.write_parquet(stream, metadata={"basis": self.basis})

    @classmethod
    def read(cls, path: Path) -> Population:
        """Read it back."""
        records = pl.read_parquet(path).with_columns(pl.exclude(_ID).cast(pl.Int64))
        return cls(pl.read_parquet_metadata(path)["basis"], records)


def population_of(
    data: Dataset,
    groups: Sequence[str],
    key: Key,
    parts: Sequence[Integers] | None = None,
    *,
    grouped: bool = False,
) -> Population:
    """Hash the records of an output, and number the parts it splits them into.

    Without `parts`, or with `grouped`, these are the groups by each variable and by all of them,
    none hidden; how many records a group has is not told then.
    """
    made = {_ID: pl.Series(data.identity.ids(key)[:, 0])}
    if parts is None or grouped:
        known = [name for name in groups if name in data.schema]
        ways = [[name] for name in known] + ([known] if len(known) > 1 else [])
        # Only which records go together is kept, not what they have in common.
        made |= {f"{GROUP} {at}": pl.Series(_numbered(data, way)) for at, way in enumerate(ways)}
    for at, part in enumerate(parts or ()):
        made[f"{WAY} {at}"] = pl.Series(np.asarray(part, np.int64))
    return Population(data.identity.basis, pl.DataFrame(made))


def _numbered(data: Dataset, names: Sequence[str]) -> Integers:
    batch = data.batch(names)
    found = batch.select(pl.struct(pl.all()).rank("dense").cast(pl.Int64)).to_series()
    return found.to_numpy()


def compared(made: Population, earlier: Earlier, *, fewest: int) -> list[str]:
    """What the new output gives away together with earlier ones, in sentences."""
    found, apart = [], []
    overlaps = {}
    for number, title, other in earlier:
        joined = made.records.join(other.records, on=_ID, suffix=" before")
        overlaps[number] = joined.height
        if not joined.height:
            if not (made.basis == other.basis and made.basis != _CONTENT):
                apart.append(number)
            continue
        what = _difference(made, other, joined, fewest)
        if what:
            found.append(
                f"Taken together with output {number} ('{title}') it gives few people away: "
                f"{what} that differ by fewer than {fewest} records."
            )
    found += _left_over(made, earlier, overlaps, fewest)
    met = [(number, other) for number, _, other in earlier if overlaps[number]]
    found += linked(made, met, fewest=fewest)
    if apart:
        listed = ", ".join(map(str, apart))
        found.append(
            f"It has no record in common with output {listed}, as far as their content tells. If "
            "variables were added or dropped in between, differences go unseen: declare a direct "
            "identifier."
        )
    return found


def _difference(made: Population, other: Population, joined: pl.DataFrame, fewest: int) -> str:
    """Which parts of two outputs differ by very few records; nothing where none do."""
    for mine, theirs in product(made.ways, other.ways):
        named = {"mine": mine, "theirs": _before(theirs, joined)}
        both = joined.with_columns(
            (pl.col(name) if name else pl.lit(0, pl.Int64)).alias(part)
            for part, name in named.items()
        ).select("mine", "theirs")
        both = both.filter(pl.all_horizontal(pl.all() >= 0)).group_by("mine", "theirs").len("both")
        both = both.with_columns(pl.col("both").cast(pl.Int64))
        both = _sizes(both, made, mine, "mine", "here")
        both = _sizes(both, other, theirs, "theirs", "there")
        here, there = (both[one] - both["both"] for one in ("here", "there"))
        # A part below the threshold is not shown, so nobody can subtract it.
        seen = (both["here"] >= fewest) & (both["there"] >= fewest)
        close = (here < fewest) & (there < fewest) & ((here > 0) | (there > 0)) & seen
        if close.any():
            return "they rest on populations" if not (mine or theirs) else "they show groups"
    return ""


def _before(way: str, joined: pl.DataFrame) -> str:
    """What a way of the earlier output is called in the joined table."""
    return f"{way} before" if f"{way} before" in joined.columns else way


def _sizes(both: pl.DataFrame, of: Population, way: str, part: str, into: str) -> pl.DataFrame:
    """Add how many records each part has in its own output."""
    if not way:
        return both.with_columns(pl.lit(len(of), pl.Int64).alias(into))
    sizes = of.records.group_by(pl.col(way).alias(part)).len(into)
    return both.join(sizes.with_columns(pl.col(into).cast(pl.Int64)), on=part, how="left")


def _left_over(
    made: Population, earlier: Earlier, overlaps: dict[int, int], fewest: int
) -> list[str]:
    """Two separate populations that leave very few of a third one over."""
    found = []
    for (one, _, first), (two, _, second) in combinations(earlier, 2):
        for whole, parts in _thirds(made, first, second, overlaps[one], overlaps[two]):
            left = len(whole) - sum(map(len, parts))
            if 0 < left < fewest and not _common(*parts) and _within(whole, parts):
                found.append(
                    f"Taken together with outputs {one} and {two} it leaves fewer than {fewest} "
                    "records over: one population is the other two and very few more."
                )
                break
    return found


def _thirds(
    made: Population, first: Population, second: Population, with_first: int, with_second: int
) -> Iterator[tuple[Population, tuple[Population, Population]]]:
    """Which of three populations can be the whole, as far as sizes tell."""
    if with_first == len(first) and with_second == len(second):
        yield made, (first, second)
    if with_first == len(made) and not with_second:
        yield first, (made, second)
    if with_second == len(made) and not with_first:
        yield second, (made, first)


def _common(one: Population, other: Population) -> int:
    return one.records.join(other.records, on=_ID, how="semi").height


def _within(whole: Population, parts: Sequence[Population]) -> bool:
    return all(_common(part, whole) == len(part) for part in parts)
