"""One linear account of what left, whatever the order and however many outputs.

Question: is there a combination of all that was shown, sums and differences with any factors, in
which fewer than so many people remain?
Assumes: the attacker has every output and knows of each part that is shown who belongs to it. What
cannot be written as a sum over people (a largest value, the order of values) is not in the account.

Whatever an output shows is a sum over people with known weights: a count has the weight 1 for the
members of a part; a mean or a standard deviation is the sum of a variable, or of its square, over
them; a quantile is the sum over the few records on which it rests; a model with the terms x is
all sums of x·x and of x·y. So each quantity (how many there are; the sum of a variable) has a
matrix: a row for each sum that is shown, a column for each *atom*, the people whom no output tells
apart. A value that was changed in between makes the same person another atom of that variable. A
combination of rows that is 0 but for a few people gives them away: their number, or their values.

Whether there is one is read off other worlds: columns u for which all sums shown are the same,
M u = 0. An atom at which every such u is 0 is the same in all worlds, so it is known. Two atoms at
which all u stand in one proportion are known together. Of random u, calculated exactly modulo a
prime, three are enough. The weights of a model are no whole numbers: there the share of an atom
that the sums explain is calculated in floating point, and it counts as known where what the rest
can add to it is next to nothing.

References: Denning, Denning & Schwartz (1979), ACM Transactions on Database Systems 4:76
(trackers); Chin & Özsoyoğlu (1982), IEEE Transactions on Software Engineering 8:574 (audit expert).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from sfumato.kernels.arrays import Floats, Integers, Mask, Words
from sfumato.outputs.population import ALL_RECORDS, ID, OutputPopulation

MOST_SUMS = 800
"""Different sums in one exact account."""
MOST_NUMBERS = 50_000_000
"""Atoms times sums in one account with the equations of models, in floating point."""
_MOST_BOUNDED_ATOMS, _MOST_BOUNDED_PARTS = 300, 20
"""In how many atoms hidden parts are bounded, and how many of them at most."""
_MOST_PEOPLE_OF_FEW = 5_000_000
"""How many atoms are looked at for groups that other outputs cut into pieces."""
_PRIME = (1 << 31) - 1
_WORLDS = 3
_ATTEMPTS = 9
_ABSENT = np.iinfo(np.int64).min
_SLACK_OF_COUNTS, _SLACK_OF_VALUES = 0.01, 0.5
"""What the rest may add to what models fix of a group, in people, so that it still counts as known.

Whoever stands out by terms is nearly fixed by the rounds of one ordinary model, where the attacker
knows already who has which terms; their outcomes are not.
"""
_LEAST_DIRECTION = 1e-7
"""Sums that differ from others by less than this share of the largest count as the same."""
_MOST_RANK = 0.75
"""Independent sums that models may show, as a share of the atoms, where some have few people."""
_MOST_GROWN = 60
_TOLERANCE = 1e-7
_OPTIMAL = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Account:
    """All sums of one quantity that were shown, over the atoms that they tell apart.

    Parameters
    ----------
    parts : which parts have which atoms, a row for each part that is shown.
    equations : the sums that models show, a row each.
    part_outputs, equation_outputs : the output of each row, by its position; the new one is 0.
    totals : which parts are everybody in an output.
    quantiles : which parts are the records on which a quantile rests.
    people : how many people each atom has.
    classes : a number for each atom; atoms of the same people have the same.
    hidden : which atoms each hidden part has.
    signatures : for each output, a word that tells the atoms apart as far as it does.
    slack : what models may leave open of a group, in people, so that it still counts as known.
    """

    parts: Any
    equations: Floats
    part_outputs: Integers
    equation_outputs: Integers
    totals: Mask
    quantiles: Mask
    people: Integers
    classes: Integers
    hidden: Any
    signatures: Words
    slack: float = _SLACK_OF_COUNTS

    @property
    def changed(self) -> bool:
        """Whether somebody is several atoms, with different values."""
        return len(np.unique(self.classes)) < len(self.classes)

    def choose(self, wanted: Sequence[int] | Integers) -> Account:
        """The same atoms with the sums of some outputs only."""
        kept, weighed = np.isin(self.part_outputs, wanted), np.isin(self.equation_outputs, wanted)
        return replace(
            self,
            parts=self.parts[np.flatnonzero(kept)],
            part_outputs=self.part_outputs[kept],
            totals=self.totals[kept],
            quantiles=self.quantiles[kept],
            equations=self.equations[weighed],
            equation_outputs=self.equation_outputs[weighed],
        )


# Opening an account ---------------------------------------------------------------------------


def open_account(
    populations: Sequence[OutputPopulation], *, fewest: int, variable: str | None = None
) -> Account:
    """Write what outputs show as sums over the atoms that they tell apart.

    Parameters
    ----------
    populations : of the outputs, the new one first.
    fewest : parts of fewer people are not shown.
    variable : the keyed name of the variable whose sums count; None: how many people there are.
    """
    chosen = [
        (output, population)
        for output, population in enumerate(populations)
        if variable is None or variable in (*population.sums, population.outcome)
    ]
    units, people = _number_units([population for _, population in chosen], variable)
    columns = list(_list_columns(chosen, units, len(people), fewest, variable))
    terms = [
        (output, unit, population.terms)
        for (output, population), unit in zip(chosen, units, strict=True)
        if population.terms is not None and variable in (None, population.outcome)
    ]
    by_output = np.zeros((len(people), len(populations)), np.uint64)
    for index, column in enumerate(columns):
        by_output[:, column.output] += mix(column.codes.view(np.uint64), index + 1)
    for output, unit, weights in terms:
        for index, weight in enumerate(np.asarray(weights).T):
            by_output[unit, output] += mix((weight + 0.0).view(np.uint64), 1000 + index)
    signature = by_output.sum(axis=1, dtype=np.uint64)
    persons = np.zeros(int(people.max(initial=-1)) + 1, np.uint64)
    np.add.at(persons, people, mix(signature, 0))
    both = np.stack([signature, persons[people]], axis=1)
    _, first, atoms = np.unique(mix(both[:, 0], 3) + both[:, 1], return_index=True,
                                return_inverse=True)  # fmt: skip
    parts, rows, hidden = _list_parts(columns, first)
    equations, equation_outputs = _list_equations(terms, first, len(people), variable)
    return Account(
        parts=_stack_rows(rows, len(first)),
        part_outputs=np.array([part.output for part in parts], np.int64),
        totals=np.array([part.total for part in parts], bool),
        quantiles=np.array([part.quantile for part in parts], bool),
        equations=equations,
        equation_outputs=equation_outputs,
        people=np.bincount(atoms, minlength=len(first)),
        classes=np.unique(persons[people][first], return_inverse=True)[1],
        hidden=_stack_rows(hidden, len(first)),
        signatures=by_output[first],
        slack=_SLACK_OF_COUNTS if variable is None else _SLACK_OF_VALUES,
    )


def mix(words: Words, salt: int) -> Words:
    """Words that look random, the same for the same (SplitMix64): for telling rows apart."""
    with np.errstate(over="ignore"):
        mixed = words + np.uint64(salt * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def _number_units(
    populations: Sequence[OutputPopulation], variable: str | None
) -> tuple[list[Integers], Integers]:
    """The unit of each record, a person with one value; and the person of each unit."""
    ids = np.concatenate([population.records[ID].to_numpy() for population in populations])
    keys = ids
    if variable is not None:
        versions = [
            population.cells[variable].to_numpy().astype(np.uint64)
            if variable in population.cells.columns
            else np.zeros(len(population), np.uint64)
            for population in populations
        ]
        keys = mix(ids, 5) + mix(np.concatenate(versions), 7)
    _, first, units = np.unique(keys, return_index=True, return_inverse=True)
    people = np.unique(ids[first], return_inverse=True)[1]
    ends = np.cumsum([len(population) for population in populations])
    return np.split(units, ends[:-1]), people


@dataclass(frozen=True, eq=False, kw_only=True)
class _SplitColumn:
    """One way in which an output splits its records, for all units; absent ones have none."""

    output: int
    total: bool
    quantile: bool
    codes: Integers
    shown: Mask
    """Whether the part with each number, from 0, is shown."""
    counts_hidden: bool


def _list_columns(
    chosen: Sequence[tuple[int, OutputPopulation]],
    units: Sequence[Integers],
    count: int,
    fewest: int,
    variable: str | None,
) -> Iterator[_SplitColumn]:
    for (output, population), unit in zip(chosen, units, strict=True):
        ways = list(population.ways)
        if variable is not None:
            if variable not in population.sums:
                ways = []  # a model's sums of its outcome are equations
            else:
                ways += population.windows
        for way in ways:
            codes = np.full(count, _ABSENT)
            codes[unit] = population.records[way].to_numpy() if way != ALL_RECORDS else 0
            if way in population.windows:
                codes[codes < 0] = _ABSENT
            sizes = np.bincount(codes[codes >= 0])
            # A part below the threshold is not shown, so nobody can subtract it.
            yield _SplitColumn(
                output=output, total=way == ALL_RECORDS, quantile=way in population.windows,
                codes=codes, shown=sizes >= fewest, counts_hidden=way in population.shown_ways,
            )  # fmt: skip


def _list_parts(
    columns: Sequence[_SplitColumn], first: Integers
) -> tuple[list[_SplitColumn], list[Integers], list[Integers]]:
    """The atoms of each part that is shown, with its column; and those of each that is hidden."""
    parts: list[_SplitColumn] = []
    shown: list[Integers] = []
    hidden: list[Integers] = []
    for column in columns if len(first) else ():
        codes = column.codes[first]
        order = np.argsort(codes, kind="stable")
        levels, starts = np.unique(codes[order], return_index=True)
        for level, members in zip(levels, np.split(order, starts[1:]), strict=True):
            if level == _ABSENT:
                continue
            if level >= 0 and column.shown[level]:
                parts.append(column)
                shown.append(members)
            elif column.counts_hidden:
                hidden.append(members)
    return parts, shown, hidden


def _stack_rows(rows: Sequence[Integers], columns: int) -> Any:
    from scipy import sparse

    indices = np.concatenate([*rows, np.empty(0, np.int64)]).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    ones = np.ones(len(indices), np.int64)
    return sparse.csr_matrix((ones, indices, ends), shape=(len(rows), columns))


def _list_equations(
    terms: Sequence[tuple[int, Integers, Any]], first: Integers, count: int, variable: str | None
) -> tuple[Floats, Integers]:
    """The sums that models show: of products of terms, or of their outcomes times a term."""
    rows: list[Floats] = []
    outputs: list[int] = []
    for output, unit, weights in terms:
        spread = np.zeros((count, weights.shape[1]))
        spread[unit] = weights
        columns, weight = spread[first, :-1], spread[first, -1]
        if variable is None:
            pairs = zip(*np.triu_indices(columns.shape[1]), strict=True)
            equations = [columns[:, j] * columns[:, k] for j, k in pairs]
        else:
            # With the usual links the outcome itself counts with the plain term.
            root = np.sqrt(np.where(weight > 0, weight, 1.0))
            equations = list((columns / root[:, None]).T)
        rows += equations
        outputs += [output] * len(equations)
    return np.array(rows).reshape(len(rows), len(first)), np.array(outputs, np.int64)


def open_owner_account(
    populations: Sequence[OutputPopulation], owners: Sequence[Words], *, fewest: int
) -> Account:
    """Write what outputs show as sums over persons, each of whom counts as often as they have rows.

    Parameters
    ----------
    populations : of the outputs, the new one first.
    owners : the person of each record, as a word.
    fewest : parts of fewer records are not shown.
    """
    from scipy import sparse

    people, numbers = np.unique(np.concatenate(owners), return_inverse=True)
    ends = np.cumsum([len(of) for of in owners])[:-1]
    rows: list[Integers] = []
    units: list[Integers] = []
    outputs: list[int] = []
    whole: list[bool] = []
    for output, (population, unit) in enumerate(
        zip(populations, np.split(numbers, ends), strict=True)
    ):
        for column in _list_columns([(output, population)], [np.arange(len(unit))], len(unit),
                                    fewest, None):  # fmt: skip
            shown = np.flatnonzero(column.shown)
            number = np.full(len(column.shown), -1)
            number[shown] = len(outputs) + np.arange(len(shown))
            counted = np.flatnonzero(column.codes >= 0)
            row = number[column.codes[counted]]
            rows.append(row[row >= 0])
            units.append(unit[counted][row >= 0])
            outputs += [output] * len(shown)
            whole += [column.total] * len(shown)
    place = (np.concatenate(rows), np.concatenate(units))
    shape = (len(outputs), len(people))
    # Whoever has several rows in a part is in its sum several times.
    sums = sparse.csr_matrix((np.ones(len(place[0]), np.int64), place), shape=shape)
    entries = sums.tocoo()
    signature = np.zeros(len(people), np.uint64)
    words = mix(entries.row.astype(np.uint64), 13) * entries.data.astype(np.uint64)
    np.add.at(signature, entries.col, words)
    _, first, counts = np.unique(signature, return_index=True, return_counts=True)
    return Account(
        parts=sums[:, first].tocsr(),
        part_outputs=np.array(outputs, np.int64),
        totals=np.array(whole, bool),
        quantiles=np.zeros(len(outputs), bool),
        equations=np.zeros((0, len(first))),
        equation_outputs=np.zeros(0, np.int64),
        people=counts,
        classes=np.arange(len(first)),
        hidden=_stack_rows([], len(first)),
        signatures=np.repeat(signature[first][:, None], len(populations), axis=1),
    )


# What follows from an account -----------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Known:
    """Of which groups of few people an account tells the number or the sum.

    Parameters
    ----------
    targets : whether each group is known.
    pairs : a word for each atom; two with the same are known together, 0 for none.
    """

    targets: Mask
    pairs: Words


def find_known(account: Account, targets: Any, *, fewest: int) -> Known | None:
    """Which targets, sums of atoms, follow from an account; None where it is too much to try."""
    atoms = len(account.people)
    if not account.parts.shape[0] and not len(account.equations):
        return Known(targets=np.zeros(targets.shape[0], bool), pairs=np.zeros(atoms, np.uint64))
    if len(account.equations):
        return _find_known_in_equations(account, targets, fewest)
    worlds = draw_worlds(account.parts)
    if worlds is None:
        return None
    same = (targets @ worlds) % _PRIME
    return Known(targets=~same.any(axis=1), pairs=_name_proportions(worlds))


def draw_worlds(sums: Any) -> Integers | None:
    """Random columns u with sums @ u = 0, exactly, modulo a prime; None where there are too many.

    With random weights D, u = r - D Mᵀ (M D Mᵀ)⁻¹ M r is r without all that the sums tell of it.

    Parameters
    ----------
    sums : a sparse matrix of whole numbers, a row for each sum, a column for each atom.

    Examples
    --------
    >>> from scipy import sparse
    >>> first_two_and_first_three = sparse.csr_matrix([[1, 1, 0, 0], [1, 1, 1, 0]])
    >>> draw_worlds(first_two_and_first_three).any(axis=1).tolist()
    [True, True, False, True]
    """
    atoms = sums.shape[1]
    numbers = np.arange(atoms, dtype=np.uint64)
    for attempt in range(1, _ATTEMPTS):
        words = np.stack([mix(numbers, 100 * attempt + j) for j in range(_WORLDS + 1)], axis=1)
        drawn = (words >> np.uint64(33)).astype(np.int64) % (_PRIME - 1) + 1
        random, weights = drawn[:, :-1], drawn[:, -1]
        # Sums that are the same for random numbers are the same.
        right = (sums @ random) % _PRIME
        _, distinct = np.unique(right, axis=0, return_index=True)
        if len(distinct) > MOST_SUMS:
            return None
        rows = sums[np.sort(distinct)]
        weighed = rows.multiply(weights[None, :]).tocsr()
        weighed.data %= _PRIME
        gram = (weighed @ rows.T).toarray() % _PRIME
        solution = solve_modulo(gram, right[np.sort(distinct)])
        worlds: Integers = (random - _multiply(weighed.T.tocsr(), solution)) % _PRIME
        if not ((sums @ worlds) % _PRIME).any():
            return worlds
    return None


def _multiply(matrix: Any, columns: Integers) -> Integers:
    """A sparse matrix times columns, modulo the prime, without ever passing 64 bits."""
    # 2**31 times 2**31 leaves room for one sum only: take the columns in two halves of 16 bits.
    low, high = columns & 0xFFFF, columns >> 16
    product: Integers = ((matrix @ high) % _PRIME * (1 << 16) + matrix @ low) % _PRIME
    return product


def solve_modulo(matrix: Integers, right: Integers) -> Integers:
    """Some solution of matrix @ x = right modulo the prime, where there is one.

    Examples
    --------
    >>> solve_modulo(np.array([[2, 0], [0, 3]]), np.array([[4], [9]])).tolist()
    [[2], [3]]
    """
    size = len(matrix)
    work = np.concatenate([matrix, right], axis=1) % _PRIME
    pivots: list[int] = []
    for column in range(size):
        rank = len(pivots)
        filled = np.flatnonzero(work[rank:, column])
        if not len(filled):
            continue
        work[[rank, rank + filled[0]]] = work[[rank + filled[0], rank]]
        row = work[rank, column:] * pow(int(work[rank, column]), -1, _PRIME) % _PRIME
        work[rank, column:] = row
        below = rank + 1 + np.flatnonzero(work[rank + 1 :, column])
        factors = work[below, column][:, None]
        work[below, column:] = (work[below, column:] - factors * row) % _PRIME
        pivots.append(column)
    solution = np.zeros((size, right.shape[1]), np.int64)
    for rank in range(len(pivots) - 1, -1, -1):
        column = pivots[rank]
        later = pivots[rank + 1 :]
        known = (work[rank, later][:, None] * solution[later] % _PRIME).sum(axis=0)
        solution[column] = (work[rank, size:] - known) % _PRIME
    return solution


def _name_proportions(worlds: Integers) -> Words:
    """A word for each atom, the same where all worlds stand in one proportion; 0 where known."""
    first, rest = worlds[:, 0].astype(object), worlds[:, 1:]
    names = np.zeros(len(worlds), np.uint64)
    for atom in np.flatnonzero(worlds[:, 0]):
        inverse = pow(int(first[atom]), -1, _PRIME)
        second, third = (int(number) * inverse % _PRIME for number in rest[atom])
        names[atom] = (second << 31 | third) + 1
    return names


def measure_leverage(account: Account) -> Floats | None:
    """The directions that all sums together fix, a row for each atom; None: too much to try.

    Atoms are weighted by the root of their people, so that the squared length of a row is the share
    of its atom that the sums explain.
    """
    count = account.parts.shape[0] + len(account.equations)
    if len(account.people) * count > MOST_NUMBERS:
        return None
    rows = np.concatenate([account.parts.toarray().astype(np.float64), account.equations])
    weighed = rows * np.sqrt(account.people)
    size = np.linalg.norm(weighed, axis=1)
    weighed = np.unique(weighed[size > 0] / size[size > 0, None], axis=0)
    _, values, directions = np.linalg.svd(weighed, full_matrices=False)
    return np.asarray(directions[values > _LEAST_DIRECTION * values.max(initial=0.0)].T)


def _find_known_in_equations(account: Account, targets: Any, fewest: int) -> Known | None:
    """The same where sums have weights: known is what the rest can hardly change."""
    directions = measure_leverage(account)
    if directions is None:
        return None
    limit = account.slack**2 / account.people.sum()
    # Targets are whole atoms, so that their squared length is how many people they are.
    length = np.asarray(targets @ account.people, np.float64)
    projected = targets @ (directions * np.sqrt(account.people)[:, None])
    explained = (projected**2).sum(axis=1) / np.where(length > 0, length, 1.0)
    known = (length > 0) & is_known(explained, length, limit)
    atoms = len(account.people)
    pairs = np.arange(1, atoms + 1, dtype=np.uint64)
    for number, group in enumerate(_grow_groups(directions, account.people, limit, fewest)):
        pairs[group] = atoms + 1 + number
    alone = (directions**2).sum(axis=1)
    pairs[is_known(alone, account.people.astype(np.float64), limit)] = 0
    return Known(targets=known, pairs=pairs)


def is_overdrawn(account: Account, *, fewest: int) -> bool:
    """Whether sums leave so little open that whole numbers of people may do the rest."""
    most = _MOST_RANK * len(account.people)
    shown = account.parts.shape[0] + len(account.equations)
    if shown <= most or not (account.people < fewest).any():
        return False
    directions = measure_leverage(account)
    return directions is not None and directions.shape[1] > most


def is_known(explained: Floats, length: Floats, limit: float) -> Mask:
    """Whether what is not explained of a group of people adds next to nothing to it.

    The rest of the combination, a vector of the length r, adds at most r times the root of all
    people to the group's number (Cauchy and Schwarz).

    Parameters
    ----------
    explained : the share of the group's squared length in the span of what is shown.
    length : the squared length: how many people they are.
    limit : how much of the squared length may be unexplained.
    """
    rest = length * (1 - explained) / np.maximum(explained, _TOLERANCE)
    return np.asarray(rest < limit)


def _grow_groups(
    directions: Floats, people: Integers, limit: float, fewest: int
) -> Iterator[Integers]:
    """Groups of several atoms and few people that sums fix together, the best explained first."""
    leverage = (directions**2).sum(axis=1)
    few = np.flatnonzero(people < fewest)
    few = few[np.argsort(-leverage[few], kind="stable")][:_MOST_GROWN]
    for start in few:
        group, count = [int(start)], int(people[start])
        vector = directions[start]
        while True:
            near = (directions[few] @ vector) ** 2
            near[np.isin(few, group) | (people[few] + count >= fewest)] = -1.0
            if near.max(initial=-1.0) <= 0:
                break
            group.append(int(few[np.argmax(near)]))
            count += int(people[group[-1]])
            block = directions[group]
            values, vectors = np.linalg.eigh(block @ block.T)
            vector = vectors[:, -1] @ block
            length = np.array([float(count)])
            if is_known(values[-1:], length, limit).all():
                yield np.array(group)
                break


# What the new output adds ---------------------------------------------------------------------


def adds_nothing(account: Account) -> bool:
    """Whether all that the new output shows was shown before."""
    if (account.equation_outputs == 0).any():
        return False
    words = mix(np.arange(len(account.people), dtype=np.uint64), 11) >> np.uint64(32)
    sums = account.parts @ words.astype(np.int64)
    new = account.part_outputs == 0
    return bool(np.isin(sums[new], sums[~new]).all())


def find_differences(account: Account, *, fewest: int) -> list[tuple[int, bool]]:
    """Earlier outputs with a part that differs from one of the new output by few people.

    With each, whether both parts are everybody.
    """
    new = account.part_outputs == 0
    mine, theirs = account.parts[np.flatnonzero(new)], account.parts[np.flatnonzero(~new)]
    if not mine.shape[0] or not theirs.shape[0]:
        return []
    both = np.asarray((mine.multiply(account.people[None, :]).tocsr() @ theirs.T).toarray())
    more = np.asarray(mine @ account.people)[:, None] - both
    fewer = np.asarray(theirs @ account.people)[None, :] - both
    # What was shown before adds nothing; but how many there are in all may have been a guess.
    mine_whole, theirs_whole = account.totals[new][:, None], account.totals[~new][None, :]
    repeated = ((more == 0) & (fewer == 0) & (mine_whole | ~theirs_whole)).any(axis=1)[:, None]
    close = (both > 0) & (more < fewest) & (fewer < fewest) & (more + fewer > 0) & ~repeated
    # The few records of two quantiles meet by chance; it matters if they are nearly the same.
    of_quantiles = account.quantiles[new][:, None] | account.quantiles[~new][None, :]
    close &= ~of_quantiles | (more + fewer < fewest)
    whole = mine_whole & theirs_whole
    outputs = account.part_outputs[~new]
    return [
        (int(output), bool((close & whole)[:, outputs == output].any()))
        for output in np.unique(outputs[close.any(axis=0)])
    ]


def find_groups(account: Account, *, fewest: int) -> list[int] | None:
    """The new output, 0, and the earlier ones which together give a few people away.

    None where there is too much to try; empty where nothing follows that did not before.
    """
    targets = _list_targets(account, fewest)
    found = _find_new_groups(account, targets, fewest)
    if found is None or not found:
        return None if found is None else []
    # The outputs without which it would still follow are not to blame.
    needed = [int(output) for output in np.unique(account.part_outputs) if output]
    needed += [int(o) for o in np.unique(account.equation_outputs) if o and o not in needed]
    for output in [*needed]:
        fewer = [other for other in needed if other != output]
        if _find_new_groups(account.choose([0, *fewer]), targets, fewest):
            needed = fewer
    return [0, *sorted(needed)]


def _find_new_groups(account: Account, targets: Any, fewest: int) -> bool | None:
    """Whether few people are known by all outputs, but neither by the earlier nor the new one."""
    known = find_known(account, targets, fewest=fewest)
    if known is None:
        return None
    if not known.targets.any() and not _list_pairs(account, known, fewest):
        return False
    outputs = np.unique(np.concatenate([account.part_outputs, account.equation_outputs]))
    # A model is not checked by anybody else, so that it is to blame for what it shows alone.
    alone = [account.choose(outputs[outputs > 0])]
    alone += [] if (account.equation_outputs == 0).any() else [account.choose([0])]
    before = [find_known(part, targets, fewest=fewest) for part in alone]
    fresh = known.targets.copy()
    for other in before:
        if other is not None:
            fresh &= ~other.targets
    if fresh.any():
        return True
    return any(
        not any(other is not None and _are_paired(other, pair) for other in before)
        for pair in _list_pairs(account, known, fewest)
    )


def _list_targets(account: Account, fewest: int) -> Any:
    """Groups of few people: single atoms, hidden parts, and atoms of a few of the outputs."""
    few = np.flatnonzero(account.people < fewest)
    rows = [np.array([atom]) for atom in few]
    hidden = account.hidden
    small = np.flatnonzero(hidden @ account.people < fewest)
    rows += [hidden.indices[hidden.indptr[part] : hidden.indptr[part + 1]] for part in small]
    if fewest > 3:  # noqa: PLR2004 - a group of two people is an atom, or a pair of them
        rows += _list_coarser_groups(account, fewest)
    return _stack_rows(rows, len(account.people))


def _list_coarser_groups(account: Account, fewest: int) -> list[Integers]:
    """Few people whom the new output and up to three others do not tell apart."""
    count = account.signatures.shape[1]
    groups: list[Integers] = []
    work = 0
    for size in (0, 1, 2, 3):
        for others in combinations(range(1, count), size):
            work += len(account.people)
            if work > _MOST_PEOPLE_OF_FEW:
                return groups
            chosen = [mix(account.signatures[:, other], other + 1) for other in (0, *others)]
            key: Words = np.sum(chosen, axis=0, dtype=np.uint64)
            order = np.argsort(key, kind="stable")
            starts = np.flatnonzero(np.append(True, key[order][1:] != key[order][:-1]))
            sizes = np.add.reduceat(account.people[order], starts)
            ends = np.append(starts[1:], len(order))
            several = np.flatnonzero((sizes < fewest) & (ends - starts > 1))
            groups += [order[starts[group] : ends[group]] for group in several]
    return groups


def _list_pairs(account: Account, known: Known, fewest: int) -> list[tuple[int, int]]:
    """Pairs of atoms, of few people together, that are known together and not one by one."""
    candidates = np.flatnonzero((account.people < fewest) & (known.pairs != 0))
    order = candidates[np.lexsort((account.people[candidates], known.pairs[candidates]))]
    names = known.pairs[order]
    ends = 1 + np.flatnonzero(names[1:] != names[:-1])
    pairs = []
    for group in np.split(order, ends):
        for first, second in combinations(group[:_MOST_GROWN], 2):
            same = account.classes[first] == account.classes[second]
            people = account.people[first] + (0 if same else account.people[second])
            if people < fewest:
                pairs.append((int(first), int(second)))
    return pairs


def _are_paired(known: Known, pair: tuple[int, int]) -> bool:
    first, second = (known.pairs[atom] for atom in pair)
    return bool(first == second) or not first or not second


def bound_hidden_parts(account: Account, *, fewest: int) -> bool | None:
    """Whether some hidden part cannot hold as many as `fewest`; None where it was not tried.

    No atom holds fewer than none: a linear programme says how many a part can hold at most.
    """
    from scipy import sparse

    small = account.hidden @ account.people < fewest
    hidden = np.unique(account.hidden[np.flatnonzero(small)].toarray(), axis=0)
    if not len(hidden):
        return False
    before = find_known(
        account.choose(np.arange(1, account.signatures.shape[1])),
        sparse.csr_matrix(hidden), fewest=fewest,
    )  # fmt: skip
    hidden = hidden if before is None else hidden[~before.targets]
    most = _MOST_BOUNDED_PARTS if len(account.people) <= _MOST_BOUNDED_ATOMS else 0
    sums = np.unique(account.parts.toarray(), axis=0).astype(np.float64)
    if _is_bounded_below(hidden[:most], sums, account.people, fewest):
        return True
    # What was not tried is reported, not called safe.
    return None if len(hidden) > most else False


def _is_bounded_below(targets: Any, sums: Floats, people: Integers, fewest: int) -> bool:
    from scipy.optimize import linprog

    right: Any = sums @ people
    for target in targets:
        solution = linprog(-target, A_eq=sums, b_eq=right, bounds=(0, None), method="highs")
        if solution.status == _OPTIMAL and -solution.fun < fewest - _TOLERANCE:
            return True
    return False
