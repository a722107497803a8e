"""Identifiers that stand in several rows: whether these are one person's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals as nw
import polars as pl

from sfumato.schema import Column
from sfumato.schema.inference.names import Sign, find_signs

_PERSONS = (
    "the number of a person",
    "a national, tax or insurance number",
    "a medical record number",
    "an e-mail address",
)
"""What says who a person is, the plainest first."""
_RECORDS = ("a number or code of a record", "the number of a record")
_SHARED_BY_MANY = (
    "a person's name",
    "an address",
    "a telephone number",
    "free text",
    "an account, card, certificate or licence number",
    "a vehicle or a device",
    "an address or account on the internet",
    "a picture, signature or body feature of a person",
)
"""What different people may share, so that it takes more than a repeated value."""
_MANY = 10
"""A number with no more different values is that of a group."""
_SEVERAL = 0.05
"""The share of rows with an identifier of other rows; below, somebody mistyped some."""
_BY_CHANCE = 0.2
"""How often two persons may agree in a variable by chance for rows that agree to be one's."""
_AGREE = 0.9


def is_shared_by_many(name: str, column: Column) -> bool:
    """Whether different people may well have the same: a surname, a date, a measurement."""
    signs = find_signs(name)
    named = bool(signs) and signs[0].what in _SHARED_BY_MANY
    return named or column.kind in ("date", "continuous")


def names_person(name: str) -> bool:
    """Whether the name speaks of the number of a person."""
    signs = find_signs(name)
    return bool(signs) and signs[0].what == _PERSONS[0]


def agree_in_any(owners: pl.Series, others: Iterable[pl.Series]) -> bool:
    """Whether rows with the same identifier have something in common that few others share.

    Examples
    --------
    >>> owners = pl.Series([1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6])
    >>> agree_in_any(owners, [pl.Series("height", [h for h in range(150, 156) for _ in "ab"])])
    True
    >>> agree_in_any(owners, [pl.Series("height", range(150, 162))])
    False
    """
    repeated = owners.is_duplicated() & owners.is_not_null()
    if not repeated.any():
        return False
    return any(_agree_in(values, owners, repeated) for values in others)


def _agree_in(values: pl.Series, owners: pl.Series, repeated: pl.Series) -> bool:
    shares = values.value_counts(name="\ufdd0count")["\ufdd0count"] / max(len(values), 1)
    rows = pl.DataFrame([owners.alias("owner"), values.alias("value")]).filter(repeated)
    same = rows.select((pl.col("value") == pl.col("value").first().over("owner")).mean()).item()
    return float((shares**2).sum()) < _BY_CHANCE and (same or 0.0) >= _AGREE


def find_person(
    columns: Mapping[str, Column],
    signs: Mapping[str, Sequence[Sign]],
    shared: Mapping[str, float],
    table: nw.DataFrame[Any],
) -> str | None:
    """The identifier whose rows are one person's; None where every row is a person.

    Parameters
    ----------
    columns : what is suggested so far.
    signs : what each name speaks of, the likeliest first.
    shared : the share of rows of each variable whose value others have too.
    table : the records.
    """

    def speaks_of(name: str, whats: Sequence[str]) -> str:
        return next((sign.what for sign in signs[name][:1] if sign.what in whats), "")

    direct = [name for name, column in columns.items() if column.role == "direct"]
    numbers = [name for name in direct if speaks_of(name, _PERSONS)]
    if any(speaks_of(name, _PERSONS[:1]) and not shared[name] for name in numbers):
        return None
    groups = [_read(table, name) for name, column in columns.items() if column.role == "cluster"]
    several = [
        name
        for name in numbers
        if shared[name] >= _SEVERAL and not _count_within(_read(table, name), groups)
    ]
    if several:
        return min(several, key=lambda name: _PERSONS.index(speaks_of(name, _PERSONS)))
    for name in columns:
        if not speaks_of(name, _RECORDS) or columns[name].role not in (None, "direct"):
            continue
        owners = _read(table, name)
        if shared[name] >= 1 - _AGREE + _SEVERAL and owners.n_unique() > _MANY:
            others = (_read(table, other) for other in columns if other != name)
            if agree_in_any(owners, others):
                return name
    return None


def _count_within(owners: pl.Series, groups: Iterable[pl.Series]) -> bool:
    """Whether numbers begin anew in each group, as those of pupils in their schools do."""
    return any(
        float(pl.DataFrame([owners.alias("owner"), group.alias("group")]).is_duplicated().mean())  # type: ignore[arg-type]  # of a mask
        < _SEVERAL
        for group in groups
    )


def describe_person(sign: Sign, rows: int, persons: int) -> str:
    """The reason for the role."""
    return (
        f"{sign.says} {sign.what}, and its values stand in several rows ({rows:,} rows, "
        f"{persons:,} values), which are taken for one person's: risks then count persons. If "
        'different people share its values, give it the role "direct" and identity = false.'
    )


def _read(table: nw.DataFrame[Any], name: str) -> pl.Series:
    from sfumato.io import frames

    return frames.get_column(table.to_native(), name)
