"""Differencing: several outputs that disclose together what none of them shows.

Question: could somebody subtract one output from another and be left with very few people, or work
out the number of a few people from the cells of several outputs?
Assumes: whoever has one output can have the others, and knows of every cell that is shown how many
records it holds. Records are compared by keyed hashes of their identity; where that is their
content, and the content changed in between, by keyed hashes of their cells (`record_linkage`).
What can be told in neither way is reported, not called safe. Compared are the populations, the
groups by each variable, and the cells by all of them. For linked cells, all outputs are cut into
the pieces that any of them distinguishes: each cell shown is a sum of pieces, and a sum of pieces
is known when it is a linear combination of the sums shown. People who stand in several rows count
several times: whoever copies all records but one has that one as twice one total less the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.data import Dataset
from sfumato.data.identity import digest, digest_identifiers
from sfumato.kernels.arrays import Floats, Integers, Mask, Positions, Words
from sfumato.outputs.record_linkage import hash_cells, link_records
from sfumato.randomness import Key, encrypt

_ID, _PERSON, _FIRST, _CELL = "id", "person", "first", "cell "
_CONTENT = "content of the record"
_SIZE = "how many records"
_ALL_RECORDS = ""
_GROUP, _WAY = "group", "way"
"""How an output splits its records: into groups, or into parts whose numbers are shown."""
_MOST_PIECES = 700
_MOST_TARGETS, _MOST_BOUNDED_PIECES = 20, 300
"""How many hidden cells are bounded one by one, and in how many pieces at most."""
_UNTRIED = "It has too many cells in common with output"
_NOTHING_IN_COMMON = "It has no record in common with output"
_RELABELLED = 0.5
"""Share of the records without a counterpart that must have one by their values."""
_TOLERANCE = 1e-7
_OPTIMAL = 0
Earlier = Sequence[tuple[int, str, "OutputPopulation"]]
"""Number, title and records of the outputs made before."""


@dataclass(frozen=True, eq=False)
class OutputPopulation:
    """The records behind an output: a keyed hash of each, and the group it is in.

    Parameters
    ----------
    basis : what distinguishes records.
    records : the hashes; and for each way in which the output splits its records a number for
        the part a record is in, below 0 where that part is hidden.
    cells : a short keyed hash of every cell, to recognise records whose content was changed.
    persons : the hash under which each record was first seen; None: its own.
    first_copies : of copies, and of rows with one identifier, the hash of the first; of rows of one
        person (role "person") the person's. None: its own.
    """

    basis: str
    records: pl.DataFrame
    cells: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False)
    persons: pl.Series | None = field(default=None, repr=False)
    first_copies: pl.Series | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.records.height

    def fingerprint(self) -> str:
        """The same for the same records, whatever their order; it discloses nothing about them."""
        # A sum modulo 2**64 does not depend on the order.
        total = int(self.records[_ID].to_numpy().sum(dtype=np.uint64))
        return hashlib.sha256(f"{len(self)}-{total}".encode()).hexdigest()[:16]

    def meets(self, other: OutputPopulation) -> bool:
        """Whether the two have a person in common."""
        return bool(_count_common(self.by_person(), other.by_person()))

    def get_persons(self) -> Words:
        """The hash under which each record was first seen."""
        persons = self.records[_ID] if self.persons is None else self.persons
        return persons.to_numpy()

    def get_owners(self) -> Words:
        """The person of each record: copies, and rows of one identifier, have the same."""
        persons = self.get_persons()
        if self.first_copies is None:
            return persons.copy()
        ids, firsts = self.records[_ID].to_numpy(), self.first_copies.to_numpy()
        order = np.argsort(ids)
        rows = order[np.minimum(np.searchsorted(ids, firsts, sorter=order), len(ids) - 1)]
        return np.where(ids[rows] == firsts, persons[rows], firsts)

    def by_person(self) -> OutputPopulation:
        """The same records, each under the hash under which it was first seen."""
        by_person = self.records.with_columns(pl.Series(_ID, self.get_persons()))
        return replace(self, records=by_person)

    @property
    def ways(self) -> list[str]:
        """The ways in which the output splits its records; not at all comes first."""
        return [_ALL_RECORDS, *(name for name in self.records.columns if name != _ID)]

    @property
    def shown_ways(self) -> list[str]:
        """The ways whose parts have their numbers shown."""
        return [name for name in self.records.columns if name.startswith(f"{_WAY} ")]

    def write(self, path: Path) -> None:
        """Store it in a file."""
        firsts = self.records[_ID] if self.first_copies is None else self.first_copies
        table = self.records.with_columns(
            pl.Series(_PERSON, self.get_persons()),
            firsts.alias(_FIRST),
            *(column.alias(f"{_CELL}{column.name}") for column in self.cells),
        )
        table.write_parquet(path, metadata={"basis": self.basis})

    @classmethod
    def read(cls, path: Path) -> OutputPopulation:
        """Read it back."""
        table = pl.read_parquet(path)
        hashed = [name for name in table.columns if name.startswith(_CELL)]
        cells = table.select(pl.col(name).alias(name.removeprefix(_CELL)) for name in hashed)
        persons = table[_PERSON] if _PERSON in table.columns else None
        firsts = table[_FIRST] if _FIRST in table.columns else None
        records = table.drop(*hashed, _PERSON, _FIRST, strict=False)
        records = records.with_columns(pl.exclude(_ID).cast(pl.Int64))
        return cls(pl.read_parquet_metadata(path)["basis"], records, cells, persons, firsts)


def hash_population(
    data: Dataset,
    groups: Sequence[str],
    key: Key,
    parts: Sequence[Integers] | None = None,
    *,
    grouped: bool = False,
) -> OutputPopulation:
    """Hash the records of an output, and number the parts it splits them into.

    Without `parts`, or with `grouped`, these are the groups by each variable and by all of them,
    none hidden; how many records a group has is not shown then.
    """
    columns = {_ID: pl.Series(data.identity.ids(key)[:, 0])}
    if parts is None or grouped:
        known = [name for name in groups if name in data.schema]
        ways = [[name] for name in known] + ([known] if len(known) > 1 else [])
        # Only which records go together is kept, not what they have in common.
        columns |= {
            f"{_GROUP} {index}": pl.Series(
                encode(data.batch(way).to_struct()).missing_first.astype(np.int64)
            )
            for index, way in enumerate(ways)
        }
    for index, part in enumerate(parts or ()):
        columns[f"{_WAY} {index}"] = pl.Series(np.asarray(part, np.int64))
    return OutputPopulation(
        data.identity.basis,
        pl.DataFrame(columns),
        hash_cells(data, key),
        first_copies=_hash_first_copies(data, key),
    )


def _hash_first_copies(data: Dataset, key: Key) -> pl.Series | None:
    """The hash that each record has where it is the first of its copies; or that of its person."""
    identity = data.identity
    if identity.persons is not None:
        digests = identity.persons.digests[identity.persons.numbers]
        unknown = ~digests.any(axis=1)
        digests[unknown] = identity.digests[unknown]
        return pl.Series(encrypt(digests, key.subkey("record id"))[:, 0])
    if not identity.columns or not {*identity.columns} <= {*data.columns}:
        return None  # an identity from elsewhere
    columns = [data.column(name) for name in identity.columns]
    content = identity.basis == _CONTENT
    digests = digest(columns) if content else digest_identifiers(columns)
    unknown = ~digests.any(axis=1)
    digests[unknown] = identity.digests[unknown]
    return pl.Series(encrypt(digests, key.subkey("record id"))[:, 0])


def recognise_persons(population: OutputPopulation, earlier: Earlier) -> OutputPopulation:
    """Find the records of the new output that earlier ones show with another content."""
    ids = population.records[_ID].to_numpy()
    persons, settled = ids.copy(), np.zeros(len(ids), bool)
    # Identifiers tell for themselves. The latest first: its content is likely the closest.
    others = [
        other for _, _, other in reversed(earlier) if not _share_identifier(population, other)
    ]
    for other in others:
        rows, positions = _find_rows(other.records[_ID].to_numpy(), ids)
        rows, positions = rows[~settled[positions]], positions[~settled[positions]]
        persons[positions], settled[positions] = other.get_persons()[rows], True
    for other in others:
        theirs = other.get_persons()
        open_new = np.flatnonzero(~settled)
        open_old = np.flatnonzero(~np.isin(theirs, persons[settled]))  # nobody is found twice
        new, old = link_records(population.cells, other.cells, open_new, open_old)
        persons[new], settled[new] = theirs[old], True
    return replace(population, persons=pl.Series(persons))


def _find_rows(known: Words, wanted: Words) -> tuple[Positions, Positions]:
    """Where the wanted hashes stand among the known ones: positions there, and here."""
    _, rows, positions = np.intersect1d(known, wanted, return_indices=True)
    return rows, positions


def _share_identifier(population: OutputPopulation, other: OutputPopulation) -> bool:
    """Whether the same identifier tells the records of both apart; equal content proves less."""
    return population.basis == other.basis and population.basis != _CONTENT


def compare_populations(
    population: OutputPopulation, earlier: Earlier, *, fewest: int
) -> list[str]:
    """What the new output discloses together with earlier ones, in sentences.

    By the content as it is, and by the persons that were recognised: a changed cell and a person
    left out are both found.
    """
    reasons = _compare_records(population, earlier, fewest=fewest)
    people = [(number, title, other.by_person()) for number, title, other in earlier]
    new = population.by_person()
    if new.records[_ID].to_list() != population.records[_ID].to_list():
        known = _compare_records(new, people, fewest=fewest)
        reasons += [reason for reason in known if not reason.startswith(_NOTHING_IN_COMMON)]
    for number, title, other in people:
        if _is_doubtful(new, other, fewest):
            reasons.append(
                f"It may rest on the same people as output {number} ('{title}') but for fewer than "
                f"{fewest}: the totals are as close as that, and some records have another content "
                "than before. Declare a direct identifier, so that this can be told."
            )
        elif _have_new_identifiers(new, other):
            reasons.append(
                f"Many of its records have other identifiers than those of output {number} "
                f"('{title}') and otherwise the same values: if these are the same people, "
                "differences go unseen."
            )
    reasons += _compare_copies(population, earlier, fewest=fewest)
    return list(dict.fromkeys(reasons))


def _is_doubtful(population: OutputPopulation, other: OutputPopulation, fewest: int) -> bool:
    """Whether records that were not recognised could leave a difference of very few.

    Of two parts that have people in common, as many of the others as both have may be the same
    people too.
    """
    if _share_identifier(population, other):
        return False
    joined = population.records.join(other.records, on=_ID, suffix=" before")
    for way, other_way in product(population.ways, other.ways):
        both = _pair_parts(population, other, joined, way, other_way)
        both = _add_unknown_records(both, population, other, way, "new", "new unknown")
        both = _add_unknown_records(both, other, population, other_way, "old", "old unknown")
        possible = both.select(pl.min_horizontal("new unknown", "old unknown")).to_series()
        shown = (both["new size"] >= fewest) & (both["old size"] >= fewest)
        close = shown & (possible > 0)
        for size in ("new size", "old size"):
            close &= both[size] - both["both"] - possible < fewest
        if close.any():
            return True
    return False


def _add_unknown_records(
    both: pl.DataFrame,
    population: OutputPopulation,
    other: OutputPopulation,
    way: str,
    part: str,
    into: str,
) -> pl.DataFrame:
    """Add how many records of each part were not recognised in the other output."""
    unknown = population.records.join(other.records, on=_ID, how="anti")
    if not way:
        return both.with_columns(pl.lit(unknown.height, pl.Int64).alias(into))
    counts = unknown.group_by(pl.col(way).alias(part)).len(into)
    joined = both.join(counts.with_columns(pl.col(into).cast(pl.Int64)), on=part, how="left")
    return joined.with_columns(pl.col(into).fill_null(0))


def _have_new_identifiers(population: OutputPopulation, other: OutputPopulation) -> bool:
    """Whether identifiers changed from one output to the next while the other values stayed."""
    if not _share_identifier(population, other):
        return False
    strangers = [
        np.flatnonzero(~mine.records[_ID].is_in(theirs.records[_ID].implode()).to_numpy())
        for mine, theirs in ((population, other), (other, population))
    ]
    fewer = min(map(len, strangers))
    if not fewer:
        return False
    linked, _ = link_records(population.cells, other.cells, *strangers)
    return len(linked) >= max(1, fewer * _RELABELLED)


def _compare_records(population: OutputPopulation, earlier: Earlier, *, fewest: int) -> list[str]:
    """What two outputs disclose together if a hash is a person."""
    reasons, disjoint = [], []
    overlaps = {}
    for number, title, other in earlier:
        joined = population.records.join(other.records, on=_ID, suffix=" before")
        overlaps[number] = joined.height
        if not joined.height:
            if not _share_identifier(population, other):
                disjoint.append(number)
            continue
        difference = _find_difference(population, other, joined, fewest)
        if difference:
            reasons.append(
                f"Taken together with output {number} ('{title}') it gives few people away: "
                f"{difference} that differ by fewer than {fewest} records."
            )
    reasons += _find_remainders(population, earlier, overlaps, fewest)
    overlapping = [(number, other) for number, _, other in earlier if overlaps[number]]
    reasons += _find_linked_cells(population, overlapping, fewest=fewest)
    if disjoint:
        reasons.append(
            f"{_NOTHING_IN_COMMON} {_list_numbers(disjoint)}, as far as their "
            "content tells. If variables were added or dropped in between, differences go unseen: "
            "declare a direct identifier."
        )
    return reasons


def _list_numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _find_difference(
    population: OutputPopulation, other: OutputPopulation, joined: pl.DataFrame, fewest: int
) -> str:
    """Which parts of two outputs differ by very few records; empty where none do."""
    for way, other_way in product(population.ways, other.ways):
        both = _pair_parts(population, other, joined, way, other_way)
        new, old = (both[size] - both["both"] for size in ("new size", "old size"))
        # A part below the threshold is not shown, so nobody can subtract it.
        shown = (both["new size"] >= fewest) & (both["old size"] >= fewest)
        close = (new < fewest) & (old < fewest) & ((new > 0) | (old > 0)) & shown
        if close.any():
            return "they rest on populations" if not (way or other_way) else "they show groups"
    return ""


def _pair_parts(
    population: OutputPopulation,
    other: OutputPopulation,
    joined: pl.DataFrame,
    way: str,
    other_way: str,
) -> pl.DataFrame:
    """Pairs of parts that have records in common: how many, and how many each has."""
    # The join renames ways of the earlier output that have the name of one of the new.
    renamed = f"{other_way} before"
    named = {"new": way, "old": renamed if renamed in joined.columns else other_way}
    both = joined.with_columns(
        (pl.col(name) if name else pl.lit(0, pl.Int64)).alias(part) for part, name in named.items()
    ).select("new", "old")
    both = both.filter(pl.all_horizontal(pl.all() >= 0)).group_by("new", "old").len("both")
    both = both.with_columns(pl.col("both").cast(pl.Int64))
    both = _add_sizes(both, population, way, "new", "new size")
    return _add_sizes(both, other, other_way, "old", "old size")


def _add_sizes(
    both: pl.DataFrame, population: OutputPopulation, way: str, part: str, into: str
) -> pl.DataFrame:
    """Add how many records each part has in its own output."""
    if not way:
        return both.with_columns(pl.lit(len(population), pl.Int64).alias(into))
    sizes = population.records.group_by(pl.col(way).alias(part)).len(into)
    return both.join(sizes.with_columns(pl.col(into).cast(pl.Int64)), on=part, how="left")


def _find_remainders(
    population: OutputPopulation, earlier: Earlier, overlaps: dict[int, int], fewest: int
) -> list[str]:
    """Two separate populations that make up a third one but for very few records."""
    reasons = []
    for (first_number, _, first), (second_number, _, second) in combinations(earlier, 2):
        shared = overlaps[first_number], overlaps[second_number]
        for union, parts in _list_unions(population, first, second, *shared):
            remainder = len(union) - sum(map(len, parts))
            if not 0 < remainder < fewest or _count_common(*parts):
                continue
            if all(_count_common(part, union) == len(part) for part in parts):
                reasons.append(
                    f"Taken together with outputs {first_number} and {second_number} it leaves "
                    f"fewer than {fewest} records over: one population is the other two and very "
                    "few more."
                )
                break
    return reasons


def _list_unions(
    population: OutputPopulation,
    first: OutputPopulation,
    second: OutputPopulation,
    shared_with_first: int,
    shared_with_second: int,
) -> Iterator[tuple[OutputPopulation, tuple[OutputPopulation, OutputPopulation]]]:
    """Which of three populations can be the union of the others, as far as sizes tell."""
    if shared_with_first == len(first) and shared_with_second == len(second):
        yield population, (first, second)
    if shared_with_first == len(population) and not shared_with_second:
        yield first, (population, second)
    if shared_with_second == len(population) and not shared_with_first:
        yield second, (population, first)


def _count_common(first: OutputPopulation, second: OutputPopulation) -> int:
    return first.records.join(second.records, on=_ID, how="semi").height


def _find_linked_cells(
    population: OutputPopulation, earlier: Sequence[tuple[int, OutputPopulation]], *, fewest: int
) -> list[str]:
    """Groups that follow from the cells of several outputs, in sentences.

    All earlier ones are taken together; where that makes too many pieces, one by one, and where
    even two make too many, the reader learns that it was not tried.
    """
    linked = [(number, other) for number, other in earlier if other.shown_ways]
    if not linked or not population.shown_ways:
        return []
    disclosed = _discloses_group([population, *(other for _, other in linked)], fewest)
    if disclosed is not None:
        return (
            [_describe_linked_outputs([number for number, _ in linked], fewest)]
            if disclosed
            else []
        )
    reasons, untried = [], []
    for number, other in linked:
        disclosed = _discloses_group([population, other], fewest)
        if disclosed:
            reasons.append(_describe_linked_outputs([number], fewest))
        elif disclosed is None:
            untried.append(number)
    if untried:
        reasons.append(
            f"{_UNTRIED} {_list_numbers(untried)} to try whether hidden ones can be worked out."
        )
    return reasons


def is_untried(reason: str) -> bool:
    """Whether a reason only says that there was too much to try."""
    return reason.startswith(_UNTRIED)


def _describe_linked_outputs(numbers: Sequence[int], fewest: int) -> str:
    outputs = f"output{'s' if len(numbers) > 1 else ''} {_list_numbers(numbers)}"
    return (
        f"Taken together with {outputs} it gives few people away: a group of fewer than {fewest} "
        "records that neither shows can be worked out from the cells that are shown."
    )


def _discloses_group(populations: Sequence[OutputPopulation], fewest: int) -> bool | None:
    """Whether a small group can be worked out; None where there is too much to try."""
    pieces = _cut_pieces(populations)
    if pieces.height > _MOST_PIECES:
        return None
    sizes = pieces[_SIZE].to_numpy().astype(np.float64)
    sums, hidden = _list_sums(pieces, fewest)
    small = (hidden @ sizes < fewest) if len(hidden) else np.zeros(0, bool)
    # A single piece is a group too: those who are in one cell of each output.
    single = np.eye(len(sizes))[sizes < fewest]
    targets = np.concatenate([hidden[small], single])
    if not len(targets) or not len(sums):
        return False
    known = _is_combination(targets, sums)
    # Only what the new output adds is its fault.
    known_before = _is_combination(targets, _list_sums(pieces, fewest, without=0)[0])
    if (known & ~known_before).any():
        return True
    bounded = np.unique(hidden[small][~known_before[: int(small.sum())]], axis=0)
    most = _MOST_TARGETS if len(sizes) <= _MOST_BOUNDED_PIECES else 0
    if _is_bounded_below(bounded[:most], sums, sizes, fewest):
        return True
    # What was not tried is reported, not called safe.
    return None if len(bounded) > most else False


def _cut_pieces(populations: Sequence[OutputPopulation]) -> pl.DataFrame:
    """Which parts of which outputs go together, and how many records are in each combination."""
    frames = [
        population.records.select(
            _ID, *(pl.col(name).alias(f"{index} {name}") for name in population.shown_ways)
        )
        for index, population in enumerate(populations)
    ]
    joined = reduce(
        lambda first, second: first.join(second, on=_ID, how="full", coalesce=True), frames
    )
    cells = joined.drop(_ID)
    return cells.group_by(cells.columns).len(_SIZE).sort(cells.columns)


def _list_sums(
    pieces: pl.DataFrame, fewest: int, without: int | None = None
) -> tuple[Floats, Floats]:
    """Of which pieces each cell that is shown is the sum, and each that is hidden.

    A cell of fewer than `fewest` is never shown.
    """
    sizes = pieces[_SIZE].to_numpy()
    shown, hidden = [np.zeros((0, pieces.height))], [np.zeros((0, pieces.height))]
    for name in pieces.columns:
        if name == _SIZE or (without is not None and name.startswith(f"{without} ")):
            continue
        coded = encode(pieces[name])
        levels = coded.levels.to_numpy()
        members = coded.codes[None, :] == np.arange(len(levels))[:, None]
        is_shown = (levels >= 0) & (members @ sizes >= fewest)
        shown.append(members[is_shown].astype(np.float64))
        hidden.append(members[~is_shown].astype(np.float64))
    return np.concatenate(shown), np.concatenate(hidden)


def _is_combination(targets: Floats, sums: Floats) -> Mask:
    """Which of these sums of pieces are linear combinations of those that are shown."""
    if not len(sums):
        return np.zeros(len(targets), bool)
    _, values, basis = np.linalg.svd(np.unique(sums, axis=0), full_matrices=False)
    # What the projection onto the row space of the shown sums leaves is unknown.
    basis = basis[values > _TOLERANCE * values.max()]
    residual = targets - (targets @ basis.T) @ basis
    limit = _TOLERANCE * np.linalg.norm(targets, axis=1)
    return np.asarray(np.linalg.norm(residual, axis=1) < limit)


def _is_bounded_below(targets: Floats, sums: Floats, sizes: Floats, fewest: int) -> bool:
    """Whether a hidden part cannot hold as many as `fewest`, since no piece is below zero."""
    from scipy.optimize import linprog

    distinct = np.unique(sums, axis=0)
    right: Any = distinct @ sizes
    for target in targets:
        solution = linprog(-target, A_eq=distinct, b_eq=right, bounds=(0, None), method="highs")
        if solution.status == _OPTIMAL and -solution.fun < fewest - _TOLERANCE:
            return True
    return False


# Copies ------------------------------------------------------------------------------------------


def _compare_copies(population: OutputPopulation, earlier: Earlier, *, fewest: int) -> list[str]:
    """What outputs disclose together in which people stand in several rows, in sentences."""
    reasons, owners = [], [population.get_owners()]
    numbers = []
    for number, title, other in earlier:
        mine, theirs = _unite_copies(population, other, owners[0], other.get_owners())
        owners.append(theirs)
        numbers.append(number)
        if not (_have_repeats(mine) or _have_repeats(theirs)) or not np.isin(mine, theirs).any():
            continue
        if _differ_by_few(population, mine, other, theirs, fewest):
            reasons.append(
                f"Taken together with output {number} ('{title}') it gives few people away: all "
                f"but fewer than {fewest} of them count a whole number of times more in one of "
                "both, since they stand in several rows."
            )
    if not reasons and len(owners) > 1 and any(map(_have_repeats, owners)):
        disclosed = _find_combination(owners, fewest)
        if disclosed:
            reasons.append(
                f"Taken together with outputs {_list_numbers(numbers)} it gives few people away: "
                f"their totals, each a number of times, leave fewer than {fewest} people over, "
                "since people stand in several rows."
            )
        elif disclosed is None:
            reasons.append(
                f"People stand in several rows of it or of outputs {_list_numbers(numbers)}, in "
                "too many ways to try what their totals leave over."
            )
    return reasons


def _have_repeats(owners: Words) -> bool:
    return len(np.unique(owners)) < len(owners)


def _unite_copies(
    population: OutputPopulation, other: OutputPopulation, mine: Words, theirs: Words
) -> tuple[Words, Words]:
    """The persons of two outputs, where a copy may have a cell that its original has not."""
    if _share_identifier(population, other):
        return mine, theirs
    mine, theirs = mine.copy(), theirs.copy()
    open_mine = np.flatnonzero(~np.isin(mine, theirs))
    open_theirs = np.flatnonzero(~np.isin(theirs, mine))
    if len(open_mine):
        new, old = link_records(population.cells, other.cells, open_mine, repeated=True)
        mine[new] = theirs[old]
    if len(open_theirs):
        old, new = link_records(other.cells, population.cells, open_theirs, repeated=True)
        theirs[old] = mine[new]
    return mine, theirs


def _differ_by_few(
    population: OutputPopulation, mine: Words, other: OutputPopulation, theirs: Words, fewest: int
) -> bool:
    """Whether in parts of two outputs all but very few people count in the same proportion."""
    for way, other_way in product(population.ways, other.ways):
        new = _count_rows(population, mine, way, "new")
        old = _count_rows(other, theirs, other_way, "old")
        joined = new.join(old, on=_PERSON)
        alike = joined.group_by(
            "new part", "old part", (pl.col("new rows") / pl.col("old rows")).alias("ratio")
        ).len("alike")
        for side, rows in (("new", new), ("old", old)):
            sizes = rows.group_by(f"{side} part").agg(
                pl.len().alias(f"{side} people"), pl.col(f"{side} rows").sum()
            )
            alike = alike.join(sizes, on=f"{side} part")
        unmatched = [
            alike[f"{side} people"].cast(pl.Int64) - alike["alike"] for side in ("new", "old")
        ]
        shown = (alike["new rows"] >= fewest) & (alike["old rows"] >= fewest)
        few = (
            (unmatched[0] < fewest)
            & (unmatched[1] < fewest)
            & ((unmatched[0] > 0) | (unmatched[1] > 0))
        )
        if (few & shown).any():
            return True
    return False


def _count_rows(population: OutputPopulation, owners: Words, way: str, side: str) -> pl.DataFrame:
    """In how many rows each person stands in each part that is shown."""
    part = population.records[way] if way else pl.zeros(len(population), pl.Int64, eager=True)
    table = pl.DataFrame({_PERSON: owners, f"{side} part": part})
    return (
        table.filter(pl.col(f"{side} part") >= 0)
        .group_by(_PERSON, f"{side} part")
        .agg(pl.len().cast(pl.Int64).alias(f"{side} rows"))
    )


def _find_combination(owners: Sequence[Words], fewest: int) -> bool | None:
    """Whether the totals of all outputs give a few people away; None where it is too much to try.

    A piece are all people who stand in as many rows of each output. The new one comes first.
    """
    frames = [
        pl.DataFrame({_PERSON: persons}).group_by(_PERSON).agg(pl.len().alias(str(index)))
        for index, persons in enumerate(owners)
    ]
    joined = reduce(
        lambda first, second: first.join(second, on=_PERSON, how="full", coalesce=True), frames
    )
    pieces = joined.drop(_PERSON).fill_null(0)
    pieces = pieces.group_by(pieces.columns).len(_SIZE).sort(pieces.columns)
    if pieces.height > _MOST_PIECES:
        return None
    sums = pieces.drop(_SIZE).to_numpy().T.astype(np.float64)
    targets = np.eye(pieces.height)[pieces[_SIZE].to_numpy() < fewest]
    if not len(targets):
        return False
    known = _is_combination(targets, sums)
    return bool((known & ~_is_combination(targets, sums[1:])).any())
