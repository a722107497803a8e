"""Microaggregation: the ways to find clusters of at least k similar records, on coded variables.

Mondrian cuts the data in two again and again; MDAV gathers the k nearest around the farthest
records; Algorithms S2 and S4 go along a distance to the zero record and along a confidential
variable. The compiled searches are in `kernels/clustering`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from sfumato.cells.confidential import (
    ConfidentialVariable,
    encode_confidential,
    select_confidential,
)
from sfumato.cells.same_values import unite_values
from sfumato.data import Dataset
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Array, Codes, Floats, Integers
from sfumato.methods._clustering.cells import Clusters
from sfumato.methods._clustering.variables import Variable

if TYPE_CHECKING:
    from sfumato.kernels.clustering.closeness import Rule

Diversity = Literal["distinct", "entropy", "recursive"]
_ROUNDING = 1e-12
_APART = 2.0
"""How far missing lies below the least value, in standard deviations."""


def cluster_by_mondrian(
    variables: Sequence[Variable],
    k: int,
    *,
    sensitive: Codes | None = None,
    rules: Sequence[Rule] = (),
) -> Clusters:
    """Mondrian: cut in two as long as both halves have k records and keep the rules."""
    from sfumato.kernels.clustering.mondrian import mondrian

    # LeFevre, DeWitt & Ramakrishnan (2006); the rules are those of l-diversity and t-closeness.
    order, starts = mondrian(
        _stack_codes(variables),
        k,
        ordered=[variable.worth is not None for variable in variables],
        values=[variable.worth for variable in variables],
        sensitive=sensitive,
        rules=rules,
    )
    return Clusters(order, starts)


def cluster_by_mdav(variables: Sequence[Variable], k: int, rank: Integers) -> Clusters:
    """MDAV on standardised values; k and more equal records are a cluster of their own."""
    from sfumato.kernels.clustering.mdav import mdav
    from sfumato.kernels.clustering.mondrian import group_equal_rows

    values = standardise_variables(variables, 'The clustering "mdav"')
    persons = np.argsort(rank)
    order, starts = group_equal_rows(_stack_codes(variables)[persons])
    order = persons[order]
    sizes = np.diff(starts)
    complete = sizes >= k
    if 0 < sizes[~complete].sum() < k:
        complete[:] = False  # too few would be left over
    in_complete = np.repeat(complete, sizes)
    equal, others = order[in_complete], order[~in_complete]
    ends = np.concatenate([[0], np.cumsum(sizes[complete])]).astype(np.int64)
    if not len(others):
        return Clusters(equal, ends)
    # Domingo-Ferrer & Torra (2005).
    members, begins = mdav(values[others], k)
    return Clusters(
        np.concatenate([equal, others[members]]), np.concatenate([ends, ends[-1] + begins[1:]])
    )


def cluster_along_origin(variables: Sequence[Variable], k: int, rank: Integers) -> Clusters:
    """Algorithm S2: k after k along the distance to the zero record."""
    from sfumato.kernels.clustering.clusters import origin_order

    persons = np.argsort(rank)
    values = read_numbers(variables, 'The clustering "origin"')[persons]
    # Sánchez et al. (2016), Algorithm S2.
    order, starts = origin_order(values, k)
    return Clusters(persons[order], starts)


def cluster_by_spread(
    variables: Sequence[Variable], confidential: Codes, k: int, t: float | None, rank: Integers
) -> Clusters:
    """Algorithm S4: each cluster takes records from the whole range of a confidential variable."""
    from sfumato.kernels.clustering.clusters import spread_order

    persons = np.argsort(rank)
    values = read_numbers(variables, 'The clustering "spread"')[persons]
    # Sánchez et al. (2016), Algorithm S4.
    order, starts = spread_order(values, confidential[persons], k, t)
    return Clusters(persons[order], starts)


def rank_persons(data: Dataset) -> Integers:
    """Each record's rank in an order that follows the person.

    Where a clustering divides records that are equal in all its variables, the person decides who
    goes where, not the row in the file.
    """
    digests = data.identity.digests
    ranks = np.empty(len(digests), np.int64)
    # Two words of the record's digest, which no order of rows or of files changes.
    ranks[np.lexsort((digests[:, 1], digests[:, 0]))] = np.arange(len(digests))
    return ranks


def _stack_codes(variables: Sequence[Variable]) -> Any:
    return np.column_stack([variable.codes for variable in variables])


# Codes as numbers --------------------------------------------------------------------------------


def read_numbers(variables: Sequence[Variable], owner: str) -> Array:
    """A row per record, a column per variable: the values themselves, as the paper codes them.

    Categories without numbers count by their rank among the levels.
    """
    columns = []
    for variable in variables:
        _require_complete(variable, owner)
        units: Any = variable.worth
        if variable.levels.dtype.is_integer():
            units = variable.levels.to_numpy()
        elif variable.levels.dtype.is_numeric():
            units = variable.levels.cast(pl.Float64).to_numpy()
        elif units is None:
            units = np.arange(len(variable.levels))
        columns.append(units[variable.codes])
    integers = all(column.dtype.kind in "iu" for column in columns)
    return np.column_stack(columns).astype(np.int64 if integers else np.float64)


def standardise_variables(variables: Sequence[Variable], owner: str) -> Floats:
    """A row per record, a column per variable, with mean 0 and SD 1; exact whatever the order.

    What is missing lies apart, below the least value.
    """
    columns = []
    for variable in variables:
        if variable.worth is None or variable.column.kind in ("nominal", "text"):
            raise MethodError(
                f"{owner} needs numbers, dates or ordered levels; variable '{variable.name}' is "
                f"{variable.column.kind}.",
                hint='choose clustering = "mondrian", which takes any variable.',
            )
        # Sums over the distinct values, in their order, do not depend on the records' order.
        counts = np.bincount(variable.codes, minlength=len(variable.levels))[variable.missing :]
        worth, present = variable.worth[variable.missing :], int(counts.sum())
        mean = math.fsum(counts * worth) / present if present else 0.0
        centred = worth - mean
        sd = math.sqrt(math.fsum(counts * centred * centred) / present) if present else 0.0
        scaled = centred / sd if sd > 0 else centred * 0.0
        gap = np.full(variable.missing, scaled.min(initial=0.0) - _APART)
        columns.append(np.concatenate([gap, scaled])[variable.codes])
    return np.column_stack(columns)


def _require_complete(variable: Variable, owner: str) -> None:
    if variable.missing:
        raise MethodError(
            f"{owner} measures distances, and variable '{variable.name}' has missing values.",
            hint='choose clustering = "mondrian", or fill them in first.',
        )


# Confidential variables --------------------------------------------------------------------------


def read_confidential(
    data: Dataset,
    named: str | list[str] | None,
    changed: Sequence[Variable],
    *,
    apart: bool | None = None,
) -> list[ConfidentialVariable]:
    """The confidential variables as codes, by default all whose role is "sensitive".

    Unless `apart` is None, each is followed by its readings in which values that say the same, in
    other spellings or digits, are one: what is promised must hold in all of them.
    """
    names = [named] if isinstance(named, str) else named
    known = [variable.name for variable in changed]
    selected = select_confidential(names, known, data, "original")
    secrets = [encode_confidential(data, name) for name in selected]
    if apart is None:
        return secrets
    return [
        reading
        for secret in secrets
        for reading in (
            secret,
            *(
                united.variable
                for united in unite_values(secret, data.schema[secret.name], apart=apart)
            ),
        )
    ]


def require_diverse(
    name: str, codes: Codes, least: float, kind: Diversity = "distinct", c: float = 1.0
) -> None:
    """Fail, with the best that is possible, where even all records together are not diverse."""
    from sfumato.kernels.clustering.closeness import achieved_l

    everyone = np.arange(len(codes)), np.array([0, len(codes)])
    best = float(achieved_l(codes, *everyone, kind, c)[0])
    if best < least * (1 - _ROUNDING):
        missing = ", where what is missing has the commonest value" if (codes < 0).any() else ""
        raise MethodError(
            f"No cluster can reach l = {least:g} ({kind}) in variable '{name}': all records "
            f"together have {math.floor(best * 1000) / 1000:g}{missing}.",
            hint="choose a smaller l, or another confidential variable.",
        )
