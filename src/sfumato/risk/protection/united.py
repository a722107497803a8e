"""Peers whose secrets may be the same do not protect each other: spelt otherwise, or missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from sfumato.cells.classes import find_equivalence_classes
from sfumato.cells.confidential import ConfidentialVariable, count_by_class, encode_confidential
from sfumato.cells.overlaps import CellMeanings, read_meanings
from sfumato.cells.same_values import UnitedReading, unite_values
from sfumato.data import Dataset
from sfumato.engines import Rows
from sfumato.kernels.arrays import Codes, Integers
from sfumato.risk.protection.matching import PeerQuestion, PeerSearch, find_peers
from sfumato.schema import Column, Schema
from sfumato.units import Units


@dataclass(frozen=True, eq=False)
class PeerReading:
    """Peers with regard to one secret, as an attacker may read it.

    Parameters
    ----------
    secret : the variable as it stands.
    united : how its values were united, or None.
    searches : the peers among some of the records, and which records these are.
    """

    secret: ConfidentialVariable
    united: UnitedReading | None
    searches: tuple[tuple[Integers, PeerSearch], ...]


def search_readings(
    rows: Rows, question: PeerQuestion, same_within: float
) -> Iterator[PeerReading]:
    """Search again for each secret of which some values may be the same.

    Secrets with a tolerance of their own are matched by that already.

    Examples
    --------
    >>> data = Dataset(pl.DataFrame({"age": [30, 30, 40], "ill": ["HIV", "hiv", "flu"]}))
    >>> question = PeerQuestion(known=("age",), sensitive=("ill",))
    >>> [reading] = search_readings(Rows(data, None), question, 0.0)
    >>> [(_, search)] = reading.searches
    >>> search.peers.least_ppp[:, search.row_of]
    array([[0., 0., 0.]])
    """
    for name in question.sensitive:
        column = rows.data.schema[name]
        secret = encode_confidential(rows.data, name, rows.counts)
        has_tolerance = question.tolerance.get(name) or question.relative_tolerance.get(name)
        question_on_secret = _ask_for(question, name)
        meanings = None if has_tolerance else read_meanings(secret, column, same_within)
        if meanings is not None:
            codes = UnitedReading(_write_codes(secret, meanings), len(meanings), "overlap")
            column = Column(role=column.role, kind="integer", cells="generalised")
            yield PeerReading(
                secret, codes, _search_complete(rows, codes.variable, column, question_on_secret)
            )
            continue
        if secret.missing:
            yield PeerReading(
                secret, None, _search_complete(rows, secret, column, question_on_secret)
            )
        for reading in [] if has_tolerance else unite_values(secret, column, same_within):
            searches = _search_complete(rows, reading.variable, column, question_on_secret)
            yield PeerReading(secret, reading, searches)


def _search_complete(
    rows: Rows, variable: ConfidentialVariable, column: Column, question: PeerQuestion
) -> tuple[tuple[Integers, PeerSearch], ...]:
    """The peers of all records, if all have a value; else without those that have none.

    Then also with the commonest value of those who share all that is known in place of what is
    missing: where all that are shown agree, who did not tell has that value at worst.
    """
    fillings = [variable.codes]
    if variable.missing:
        known = tuple(name for name in question.known if name != variable.name)
        fillings.append(_fill_missing(rows, variable, known))
    searches = []
    for codes in fillings:
        present = np.flatnonzero(codes >= 0)
        if len(present):
            read = _rewrite(rows.data, variable, codes, column)
            part = read if len(present) == len(codes) else read.take(present)
            searches.append((present, find_peers(part, question, rows.units.take(present))))
    return tuple(searches)


def _fill_missing(rows: Rows, variable: ConfidentialVariable, known: tuple[str, ...]) -> Codes:
    """Missing codes become the commonest of their class; where it has none, they stay."""
    classes = find_equivalence_classes(
        rows.data, known, Units.standing_for(len(rows.units), rows.counts)
    )
    both = count_by_class(classes, variable.codes, len(variable.distinct))
    # Of values that are equally common, the first.
    order = np.lexsort((-both.code, both.counts))
    commonest = np.full(len(classes), -1, np.int32)
    commonest[both.at[order]] = both.code[order]
    return np.where(variable.codes < 0, commonest[classes.of], variable.codes)


def _rewrite(
    data: Dataset, variable: ConfidentialVariable, codes: Codes, column: Column
) -> Dataset:
    """The data with a variable as it is read."""
    numbers = pl.Series(codes)
    values = variable.distinct.gather(numbers.set(numbers < 0, None)).alias(variable.name)
    # No cell holds a code for missing any more.
    columns = {**dict(data.schema), variable.name: replace(column, missing=())}
    redeclared = replace(data, schema=Schema(columns), given_identity=data.identity)
    return redeclared.with_columns(values.to_frame())


def _write_codes(variable: ConfidentialVariable, meanings: CellMeanings) -> ConfidentialVariable:
    """The variable with cells that are ranges and sets of codes: those that overlap share some."""
    return replace(variable, distinct=pl.Series(variable.name, meanings.write_codes()))


def _ask_for(question: PeerQuestion, name: str) -> PeerQuestion:
    """The question about one secret only."""
    names = {*question.known, name}
    return replace(
        question,
        sensitive=(name,),
        tolerance={key: value for key, value in question.tolerance.items() if key in names},
        relative_tolerance={
            key: value for key, value in question.relative_tolerance.items() if key in names
        },
    )
