"""Peers whose secrets say the same, in other spellings or digits, do not protect each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from sfumato.cells.confidential import encode_confidential
from sfumato.cells.same_values import UnitedReading, unite_values
from sfumato.data import Dataset
from sfumato.risk._peers.matching import PeerQuestion, PeerSearch, find_peers


def search_united(
    data: Dataset, question: PeerQuestion, same_within: float
) -> Iterator[tuple[UnitedReading, PeerSearch]]:
    """Search again for each secret of which some values say the same, these being one.

    Secrets with a tolerance of their own are matched by that already.

    Examples
    --------
    >>> data = Dataset(pl.DataFrame({"age": [30, 30, 40], "ill": ["HIV", "hiv", "flu"]}))
    >>> question = PeerQuestion(known=("age",), sensitive=("ill",))
    >>> [(_, search)] = search_united(data, question, 0.0)
    >>> search.peers.least_ppp[:, search.row_of]
    array([[0., 0., 0.]])
    """
    for name in question.sensitive:
        if question.tolerance.get(name) or question.relative_tolerance.get(name):
            continue
        variable, column = encode_confidential(data, name), data.schema[name]
        if variable.generalised or variable.suppressed:
            continue
        for reading in unite_values(variable, column, same_within):
            yield reading, find_peers(_rewrite(data, reading), _ask_for(question, name))


def _rewrite(data: Dataset, reading: UnitedReading) -> Dataset:
    """The data with one value for all that say the same."""
    variable = reading.variable
    codes = pl.Series(variable.codes)
    values = variable.distinct.gather(codes.set(codes < 0, None)).alias(variable.name)
    return data.with_columns(values.to_frame())


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
