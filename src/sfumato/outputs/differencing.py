"""Differencing: several outputs that disclose together what none of them shows.

Question: could somebody subtract one output from another and be left with very few people, or work
out the number of a few people from the cells of several outputs?
Assumes: whoever has one output can have the others, and knows of every cell that is shown how many
records it holds. Records are compared by keyed hashes of their identity; where that is their
content, and the content changed in between, by keyed hashes of their cells (`record_linkage`).
What can be told in neither way is reported, not called safe. An output is compared with all that
share people with it, or with one that does, and so on: `account` says how. People who stand in
several rows count several times: whoever copies all records but one has that one as twice one total
less the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import polars as pl

from sfumato.kernels.arrays import Positions, Words
from sfumato.outputs.account import (
    Account,
    adds_nothing,
    bound_hidden_parts,
    find_differences,
    find_groups,
    is_overdrawn,
    open_account,
    open_owner_account,
)
from sfumato.outputs.population import CONTENT, ID, OutputPopulation
from sfumato.outputs.record_linkage import link_records

_PERSON = "person"
_OVERDRAWN = (
    "Models have asked too much of these variables: so many sums over combinations of their values "
    "that few of them are open, and some are few people's."
)
_TOO_LARGE = (
    "It and the outputs before show too many sums to try whether a few people can be worked out "
    "from them."
)
_UNTRIED = "It has too many cells in common with output"
_NOTHING_IN_COMMON = "It has no record in common with output"
_RELABELLED = 0.5
"""Share of the records without a counterpart that must have one by their values."""
Earlier = Sequence[tuple[int, str, OutputPopulation]]
"""Number, title and records of the outputs made before."""


def recognise_persons(population: OutputPopulation, earlier: Earlier) -> OutputPopulation:
    """Find the records of the new output that earlier ones show with another content."""
    ids = population.records[ID].to_numpy()
    persons, settled = ids.copy(), np.zeros(len(ids), bool)
    # Identifiers tell for themselves. The latest first: its content is likely the closest.
    others = [
        other for _, _, other in reversed(earlier) if not _share_identifier(population, other)
    ]
    for other in others:
        rows, positions = _find_rows(other.records[ID].to_numpy(), ids)
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
    return population.basis == other.basis and population.basis != CONTENT


def compare_populations(
    population: OutputPopulation, earlier: Earlier, *, fewest: int, fewest_in_models: int
) -> list[str]:
    """What the new output discloses together with earlier ones, in sentences.

    By the content as it is, and by the persons that were recognised: a changed cell and a person
    left out are both found.

    Parameters
    ----------
    population : of the new output.
    earlier : the outputs made before.
    fewest : what differs by fewer people is flagged.
    fewest_in_models : the same where some output is a model, whose sums weigh people.
    """
    limits = _Limits(fewest, max(fewest, fewest_in_models))
    reasons = _compare_records(population, earlier, limits)
    people = [(number, title, other.by_person()) for number, title, other in earlier]
    new = population.by_person()
    if new.records[ID].to_list() != population.records[ID].to_list():
        known = _compare_records(new, people, limits)
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
    joined = population.records.join(other.records, on=ID, suffix=" before")
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
    unknown = population.records.join(other.records, on=ID, how="anti")
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
        np.flatnonzero(~mine.records[ID].is_in(theirs.records[ID].implode()).to_numpy())
        for mine, theirs in ((population, other), (other, population))
    ]
    fewer = min(map(len, strangers))
    if not fewer:
        return False
    linked, _ = link_records(population.cells, other.cells, *strangers)
    return len(linked) >= max(1, fewer * _RELABELLED)


@dataclass(frozen=True)
class _Limits:
    """How few people are too few, of sums over whole people and of those of models."""

    fewest: int
    in_models: int


def _compare_records(population: OutputPopulation, earlier: Earlier, limits: _Limits) -> list[str]:
    """What outputs disclose together if a hash is a person."""
    ids = population.records[ID].to_numpy()
    disjoint = [
        number
        for number, _, other in earlier
        if not _share_identifier(population, other)
        and not np.isin(other.records[ID].to_numpy(), ids).any()
    ]
    linked = _find_component(population, earlier)
    judged = linked or population.terms is not None
    reasons = _judge_accounts(population, linked, limits) if judged else []
    if disjoint:
        reasons.append(
            f"{_NOTHING_IN_COMMON} {_list_numbers(disjoint)}, as far as their "
            "content tells. If variables were added or dropped in between, differences go unseen: "
            "declare a direct identifier."
        )
    return reasons


def _list_numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _find_component(population: OutputPopulation, earlier: Earlier) -> Earlier:
    """The earlier outputs that share people with the new one, or with one that does, and so on."""
    reached, linked = population.records[ID].to_numpy(), set[int]()
    while True:
        found = [
            index
            for index, (_, _, other) in enumerate(earlier)
            if index not in linked and np.isin(other.records[ID].to_numpy(), reached).any()
        ]
        if not found:
            return [entry for index, entry in enumerate(earlier) if index in linked]
        linked |= set(found)
        reached = np.unique(
            np.concatenate([reached, *(earlier[index][2].records[ID] for index in found)])
        )


def _judge_accounts(population: OutputPopulation, linked: Earlier, limits: _Limits) -> list[str]:
    """What follows from the account of people, and of each variable whose sums are shown."""
    populations, fewest = [population, *(other for _, _, other in linked)], limits.fewest
    accounts: dict[str | None, Account] = {None: open_account(populations, fewest=fewest)}
    for shown in sorted({*population.sums, population.outcome} - {""}):
        account = open_account(populations, fewest=fewest, variable=shown)
        # Sums of values that stayed as they were, over the same parts, tell no more than counts.
        if account.changed or population.windows or len(account.equations):
            accounts[shown] = account
    reasons: list[str] = []
    for variable, account in accounts.items():
        reasons += _describe_differences(account, linked, fewest, of_values=variable is not None)
        if adds_nothing(account):
            continue
        few = limits.in_models if len(account.equations) else fewest
        outputs = find_groups(account, fewest=few)
        if outputs is None:
            reasons.append(_TOO_LARGE)
        elif outputs:
            numbers = [linked[output - 1][0] for output in outputs if output]
            reasons.append(_describe_linked_outputs(numbers, few))
    if population.terms is not None and is_overdrawn(accounts[None], fewest=limits.in_models):
        reasons.append(_OVERDRAWN)
    if not adds_nothing(accounts[None]):
        reasons += _bound_hidden_parts(accounts[None], population, linked, fewest)
    return list(dict.fromkeys(reasons))


def _describe_differences(
    account: Account, linked: Earlier, fewest: int, *, of_values: bool
) -> list[str]:
    reasons = []
    for output, whole in find_differences(account, fewest=fewest):
        number, title, _ = linked[output - 1]
        what = "they rest on populations" if whole else "they show groups"
        if of_values:
            what = "they show sums of values"
        reasons.append(
            f"Taken together with output {number} ('{title}') it gives few people away: "
            f"{what} that differ by fewer than {fewest} records."
        )
    return reasons


def _bound_hidden_parts(
    account: Account, population: OutputPopulation, linked: Earlier, fewest: int
) -> list[str]:
    """Hidden parts that hold few by what all outputs show; where that is too much, by two."""
    if len(account.equations):  # which parts can hold how many does not hang on weights
        account = open_account(
            [part.drop_terms() for part in (population, *(other for _, _, other in linked))],
            fewest=fewest,
        )
    bounded = bound_hidden_parts(account, fewest=fewest)
    if bounded is not None:
        numbers = [number for number, _, other in linked if other.shown_ways]
        return [_describe_linked_outputs(numbers, fewest)] if bounded and numbers else []
    reasons, untried = [], []
    for number, _, other in linked:
        if not other.shown_ways:
            continue
        pair = open_account([population.drop_terms(), other.drop_terms()], fewest=fewest)
        bounded = bound_hidden_parts(pair, fewest=fewest)
        if bounded:
            reasons.append(_describe_linked_outputs([number], fewest))
        elif bounded is None:
            untried.append(number)
    return [*reasons, *([_describe_untried(untried)] if untried else [])]


def is_unbounded(reason: str) -> bool:
    """Whether a reason only says that hidden parts were too many to bound.

    That none of them follows exactly was tried all the same.
    """
    return reason.startswith(_UNTRIED)


def _describe_untried(numbers: Sequence[int]) -> str:
    return f"{_UNTRIED} {_list_numbers(numbers)} to try whether hidden ones can be worked out."


def _describe_linked_outputs(numbers: Sequence[int], fewest: int) -> str:
    if not numbers:
        return (
            f"What the model adds up gives few people away: a group of fewer than {fewest} records "
            "can be worked out from its sums."
        )
    outputs = f"output{'s' if len(numbers) > 1 else ''} {_list_numbers(numbers)}"
    return (
        f"Taken together with {outputs} it gives few people away: a group of fewer than {fewest} "
        "records that neither shows can be worked out from the cells that are shown."
    )


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
        populations = [population, *(other for _, _, other in earlier)]
        outputs = find_groups(open_owner_account(populations, owners, fewest=fewest), fewest=fewest)
        if outputs:
            blamed = [numbers[output - 1] for output in outputs if output]
            reasons.append(
                f"Taken together with outputs {_list_numbers(blamed)} it gives few people away: "
                f"their numbers, each a number of times, leave fewer than {fewest} people over, "
                "since people stand in several rows."
            )
        elif outputs is None:
            reasons.append(
                f"People stand in several rows of it or of outputs {_list_numbers(numbers)}, in "
                "too many ways to try what their numbers leave over."
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
