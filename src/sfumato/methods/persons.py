"""Rows of one person: draws that follow the person, and variables that do not change within one.

A variable is constant within persons where nobody has two different values of it, and somebody has
two values at all. A missing value beside a value does not count: it stays missing.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from sfumato.cells.codes import encode_unordered
from sfumato.data import Dataset
from sfumato.data.identity import Identity, digest_identifiers, fold_identifiers
from sfumato.engines import Combinations, Engine, Starts
from sfumato.engines.local import count_combinations
from sfumato.errors import MethodError, WeakProtectionWarning
from sfumato.io import frames
from sfumato.methods.groups import draw_by_group, find_group_level
from sfumato.randomness import Draws, encrypt

PERSON = "__sfumato_person"
BY_PERSON = "by_person"
"""Under this key a fitted variable has what says whose a row is, where it is drawn by person."""
ONCE = "drawn_once_per_person"
"""Under this key a manifest lists the variables that are drawn by person."""
ONCE_BY_GROUP = "drawn_once_per_group"
"""Under this key a manifest lists the variables that are drawn by group."""
_CHANGES = "__sfumato_changes"
_ALONE, _SAME, _DIFFERENT = 0, 1, 2
"""A person has at most one value of a variable, several equal ones, or different ones."""
_NEARLY = 0.05
"""Share of the persons with several values up to which different ones look like errors."""


class Constancy(NamedTuple):
    """How many persons have several values of a variable, and how many of them different ones."""

    several: int
    different: int


def has_persons(data: Dataset) -> bool:
    """Whether rows belong to persons, who may have several."""
    return data.schema.person is not None or data.units.declared


def draw_by_person(draws: Draws, named: pl.Series | None) -> Draws:
    """The same draws for all rows of a person, in every table that names the person alike.

    The ids are those of records identified by the same number, so that a table with a row for
    each person draws as one with many. In memory it is known who is who even if an earlier step has
    taken the identifier away; elsewhere it is read in `named`. Rows that say no person are their
    own.
    """
    known = draws.ids.persons if isinstance(draws.ids, Identity) else None
    if known is not None:
        digests = known.digests[known.numbers]
    elif named is not None:
        digests = digest_identifiers([named])
    else:
        return draws
    ids = encrypt(digests, draws.key.subkey("record id"))
    unknown = ~digests.any(axis=1)
    if unknown.any():
        record_ids = draws.ids if isinstance(draws.ids, np.ndarray) else draws.ids.ids(draws.key)
        ids[unknown] = record_ids[unknown]
    return Draws(draws.key, draws.step, ids)


def draw_for_variable(
    draws: Draws, batch: pl.DataFrame, by_person: str | list[str] | None
) -> Draws:
    """The draws of a variable: by record, by the person whom a variable names, or by group."""
    if by_person is None:
        return draws
    if isinstance(by_person, list):
        return draw_by_group(draws, batch[by_person[0]])
    return draw_by_person(draws, batch[by_person] if by_person in batch.columns else None)


def attach_persons(data: Dataset, engine: Engine) -> Dataset:
    """The data with a column `PERSON` that is the same in all rows of a person."""
    if engine.in_memory and data.units.declared:
        return data.with_columns(pl.DataFrame({PERSON: data.units.numbers}))
    person = data.schema.person or ""

    def spell_person(batch: pl.DataFrame, draws: Draws | None) -> pl.DataFrame:
        del draws
        return pl.DataFrame([fold_identifiers(batch[person]).cast(pl.String).alias(PERSON)])

    return engine.map_rows(data, spell_person, reads=[person])


def find_constant(
    data: Dataset, names: Sequence[str], engine: Engine, *, missing_differs: bool = False
) -> list[str]:
    """The variables that are constant within every person.

    Parameters
    ----------
    data : the data; without persons in them nothing is constant.
    names : the variables to look at.
    engine : where to look.
    missing_differs : whether a missing value beside a value makes a variable change.
    """
    if not names or not has_persons(data):
        return []
    constant = []
    counted = count_changes(data, names, engine, missing_differs=missing_differs)
    for name, (several, different) in counted.items():
        if several and not different:
            constant.append(name)
        elif 0 < different <= _NEARLY * several:
            warnings.warn(
                f"Variable '{name}' has different values within {different:,} of {several:,} "
                "persons, so it is treated row by row, and its rows together tell more than one "
                "does. If these are errors, correct them first.",
                WeakProtectionWarning,
                stacklevel=4,
            )
    return constant


def mark_constant(
    fitted: Mapping[str, Mapping[str, Any]],
    data: Dataset,
    engine: Engine,
    strata: Sequence[str] = (),
) -> dict[str, Any]:
    """What was fitted, with a word at the variables that are drawn once for each person or group.

    Where strata change within persons, so does what is drawn, and there are none. A list with the
    group's variable says that it is drawn by group.
    """
    constant = find_constant(data, [*fitted, *strata], engine)
    person = data.schema.person or ""
    steady = set(strata) <= set(constant)
    by_person = {name: person for name in fitted if steady and name in constant}
    others = [name for name in fitted if name not in by_person]
    owners = {**by_person, **find_group_of(data, others, strata, engine)}
    return {
        name: {**fit, BY_PERSON: owners[name]} if name in owners else dict(fit)
        for name, fit in fitted.items()
    }


def find_group_of(
    data: Dataset, names: Sequence[str], strata: Sequence[str], engine: Engine
) -> dict[str, list[str]]:
    """By variable of group level what says which group a row belongs to; see `_groups`."""
    if not names or not data.schema.having("cluster"):
        return {}
    level = find_group_level(data, [*names, *strata], engine)
    return {
        name: [group]
        for group, members in level.items()
        if set(strata) <= set(members)
        for name in members
        if name in names
    }


def list_once(fitted: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """For the manifest, the variables that are drawn once for each person, or group, if any."""
    by_group = [n for n, fit in fitted.items() if isinstance(fit.get(BY_PERSON), list)]
    once = [name for name, fit in fitted.items() if BY_PERSON in fit and name not in by_group]
    return {**({ONCE: once} if once else {}), **({ONCE_BY_GROUP: by_group} if by_group else {})}


def describe_draws_by(fit: Mapping[str, Any]) -> dict[str, bool]:
    """For `Method.follows`: draws by person or by group are others than those by record."""
    if isinstance(fit.get(BY_PERSON), list):
        return {"by_group": True}
    return {BY_PERSON: True} if BY_PERSON in fit else {}


def count_changes(
    data: Dataset, names: Sequence[str], engine: Engine, *, missing_differs: bool = False
) -> dict[str, Constancy]:
    """For each variable how many persons have several values, and different ones."""
    slim = data.without(set(data.columns) - {*names, *data.schema.having("person")})
    grouped = attach_persons(slim, engine)
    columns = [f"{_CHANGES}_{position}" for position in range(len(names))]

    def compare_values(batch: pl.DataFrame, starts: Starts, draws: Draws | None) -> pl.DataFrame:
        del draws
        return pl.DataFrame(
            [
                _compare_within(batch[name], starts, missing_differs=missing_differs).alias(column)
                for name, column in zip(names, columns, strict=True)
            ]
        )

    compared = engine.map_groups(grouped, compare_values, by=[PERSON], reads=list(names))
    if not set(columns) <= set(compared.columns):
        return dict.fromkeys(names, Constancy(0, 0))  # there is no row
    parts = engine.gather(compared, _count_persons, reads=columns)
    return {
        name: Constancy(*(sum(part[position][i] for part in parts) for i in (0, 1)))
        for position, name in enumerate(names)
    }


def _compare_within(values: pl.Series, starts: Starts, *, missing_differs: bool) -> pl.Series:
    """At the first row of each person whether their values are the same; 0 at all others."""
    codes, most = encode_unordered(values)
    changes = np.zeros(len(codes), np.int8)
    if not len(codes):
        return pl.Series(changes)
    first = starts[:-1]
    high = np.maximum.reduceat(codes, first)
    low = np.minimum.reduceat(codes if missing_differs else np.where(codes, codes, most + 1), first)
    counted = np.ones(len(codes), np.int64) if missing_differs else (codes > 0).astype(np.int64)
    several = np.add.reduceat(counted, first) > 1
    changes[first] = np.where(several, np.where(low == high, _SAME, _DIFFERENT), _ALONE)
    return pl.Series(changes)


def _count_persons(batch: pl.DataFrame) -> list[tuple[int, int]]:
    return [
        (int((values > _ALONE).sum()), int((values == _DIFFERENT).sum()))
        for values in batch.get_columns()
    ]


def count_units(data: Dataset, names: Sequence[str], engine: Engine) -> Combinations:
    """The combinations of some variables, and how many units have each: everybody counts once.

    Whoever has several counts for the commonest of theirs, so that a group of them has at least as
    many persons as are counted for all of them together. A missing value of the last variable
    counts nobody.
    """
    if not has_persons(data):
        return engine.distinct(data, names)
    pairs = engine.distinct(attach_persons(data, engine), [PERSON, *names])
    columns = [f"{_CHANGES}_{position}" for position in range(len(names))]
    rows = pl.DataFrame(
        [
            pairs.values[PERSON].alias("person"),
            pl.Series("rows", pairs.counts),
            *(pairs.values[old].alias(new) for old, new in zip(names, columns, strict=True)),
        ]
    )
    commonest = rows.filter(pl.col(columns[-1]).is_not_null()).sort(
        "person", "rows", *columns, descending=[False, True, *[False] * len(columns)]
    )
    counted = commonest.unique("person", keep="first").group_by(columns).len("persons")
    values = rows.select(columns).unique()
    joined = values.join(counted, on=columns, how="left", nulls_equal=True)
    persons = joined["persons"].fill_null(0).cast(pl.Int64).to_numpy()
    renamed = joined.select(pl.col(old).alias(new) for old, new in zip(columns, names, strict=True))
    return Combinations(renamed, persons)


def count_alike(data: Dataset, names: Sequence[str], engine: Engine, owner: str) -> Combinations:
    """The combinations of some variables, and how many units have each.

    Fail where a person has several: no combination stands for a person then.
    """
    if not has_persons(data):
        return engine.distinct(data, names)
    pairs = engine.distinct(attach_persons(data, engine), [PERSON, *names])
    if pairs.values[PERSON].n_unique() < len(pairs):
        changing = [
            name
            for name, counted in count_changes(data, names, engine, missing_differs=True).items()
            if counted.different
        ]
        raise MethodError(
            f"{owner} counts persons, and these variables have different values in the rows of a "
            f"person: {', '.join(changing)}.",
            hint="use `k_anonymity`, which takes all rows of a person together, leave them out, or "
            "keep one row of each person (`thin_rows`).",
        )
    keys = pairs.values.drop(PERSON)
    return count_combinations(keys)


def refuse_persons(data: Dataset, owner: str, hint: str) -> None:
    """Refuse data in which a person has several rows, for a method whose k counts rows."""
    if has_persons(data) and not (frames.is_in_memory(data.frame) and data.units.one_row_each):
        raise MethodError(
            f"{owner} would count rows, and a person may have several.",
            hint=hint,
        )
