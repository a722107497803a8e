"""Microaggregation: the ways to find clusters of at least k similar records, on coded variables.

Mondrian cuts the data in two again and again; MDAV gathers the k nearest around the farthest
records; Algorithms S2 and S4 go along a distance to the zero record and along a confidential
variable. The compiled searches are in `kernels/clustering`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
from sfumato.engines import Engine
from sfumato.errors import MethodError
from sfumato.kernels.arrays import AnyIntegers, Array, Codes, Floats, Integers
from sfumato.methods.clustering.cells import Clusters
from sfumato.methods.clustering.variables import ClusteredRows, ConfidentialRule, Variable
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.kernels.clustering.closeness import ClosenessRule

Clustering = Literal["mondrian", "mdav", "origin", "spread"]
Diversity = Literal["distinct", "entropy", "recursive"]
_ROUNDING = 1e-12
_APART = 2.0
"""How far missing lies below the least value, in standard deviations."""


def cluster_rows(rows: ClusteredRows, k: int, clustering: Clustering) -> Clusters:
    """Clusters of at least k records that keep all rules, within each stratum."""
    if rows.strata is None:
        return _CLUSTERINGS[clustering](rows, k)
    order = np.argsort(rows.strata, kind="stable")
    bounds = np.flatnonzero(np.diff(rows.strata[order], prepend=-1, append=-1))
    orders, starts, done = [], [np.zeros(1, np.int64)], 0
    # In the order of their numbers: what is balanced is carried on from cluster to cluster.
    for first, last in pairwise(bounds.tolist()):
        members = order[first:last]
        part = _CLUSTERINGS[clustering](rows.take(members), k)
        orders.append(members[part.order])
        # Clusters of a stratum are numbered on from those before it.
        starts.append(done + part.starts[1:])
        done += len(members)
    return Clusters(np.concatenate(orders), np.concatenate(starts))


def cluster_by_mondrian(rows: ClusteredRows, k: int) -> Clusters:
    """Mondrian: cut in two as long as both halves have k records and keep the rules."""
    from sfumato.kernels.clustering.mondrian import mondrian

    # LeFevre, DeWitt & Ramakrishnan (2006); the rules are those of l-diversity and t-closeness.
    order, starts = mondrian(
        stack_codes(rows.variables),
        k,
        ordered=[variable.worth is not None for variable in rows.variables],
        values=[variable.worth for variable in rows.variables],
        sensitive=rows.sensitive,
        rules=rows.rules,
        weights=rows.weights,
    )
    return Clusters(order, starts)


def cluster_by_mdav(rows: ClusteredRows, k: int) -> Clusters:
    """MDAV on standardised values; k and more equal records are a cluster of their own."""
    from sfumato.kernels.clustering.mdav import mdav
    from sfumato.kernels.clustering.mondrian import group_equal_rows

    values = standardise_variables(rows.variables, 'The clustering "mdav"')
    persons = _sort_persons(rows)
    order, starts = group_equal_rows(stack_codes(rows.variables)[persons])
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


def cluster_along_origin(rows: ClusteredRows, k: int) -> Clusters:
    """Algorithm S2: k after k along the distance to the zero record."""
    from sfumato.kernels.clustering.clusters import order_codes_along_origin

    units = [read_units(variable, 'The clustering "origin"') for variable in rows.variables]
    codes = [variable.codes for variable in rows.variables]
    # Sánchez et al. (2016), Algorithm S2.
    return Clusters(*order_codes_along_origin(codes, units, _list_person_keys(rows), k))


def cluster_by_spread(rows: ClusteredRows, k: int) -> Clusters:
    """Algorithm S4: each cluster takes records from the whole range of a confidential variable."""
    from sfumato.kernels.clustering.clusters import spread_order

    persons = _sort_persons(rows)
    values = read_numbers(rows.variables, 'The clustering "spread"')[persons]
    codes = np.zeros((0, 1), np.int32) if rows.sensitive is None else rows.sensitive
    t = None if math.isinf(rows.rules[0].limit) else rows.rules[0].limit
    # Sánchez et al. (2016), Algorithm S4.
    order, starts = spread_order(values, codes[persons, 0], k, t)
    return Clusters(persons[order], starts)


_CLUSTERINGS: dict[Clustering, Callable[[ClusteredRows, int], Clusters]] = {
    "mondrian": cluster_by_mondrian,
    "mdav": cluster_by_mdav,
    "origin": cluster_along_origin,
    "spread": cluster_by_spread,
}


def _sort_persons(rows: ClusteredRows) -> Integers:
    """The rows in an order that follows the person."""
    from sfumato.kernels.orders import sort_by_keys

    return sort_by_keys(_list_person_keys(rows))


def _list_person_keys(rows: ClusteredRows) -> Sequence[AnyIntegers]:
    if rows.list_person_keys is None:
        raise TypeError("This clustering needs to know who is who.")
    return rows.list_person_keys()


def list_person_keys(data: Dataset) -> Sequence[AnyIntegers]:
    """Keys that put records in an order which follows the person, the most important first.

    Where a clustering divides records that are equal in all its variables, the person decides who
    goes where, not the row in the file.
    """
    # Two words of the record's digest, which no order of rows or of files changes.
    digests = data.identity.digests
    return digests[:, 0], digests[:, 1]


def stack_codes(variables: Sequence[Variable]) -> Any:
    """A row per record or row, a column per variable."""
    return np.column_stack([variable.codes for variable in variables])


# Codes as numbers --------------------------------------------------------------------------------


def read_numbers(variables: Sequence[Variable], owner: str) -> Array:
    """A row per record, a column per variable: the values themselves, as the paper codes them.

    Categories without numbers count by their rank among the levels.
    """
    columns = [read_units(variable, owner)[variable.codes] for variable in variables]
    integers = all(column.dtype.kind in "iu" for column in columns)
    return np.column_stack(columns).astype(np.int64 if integers else np.float64)


def read_units(variable: Variable, owner: str) -> Array:
    """What each level of a variable is as a number."""
    _require_complete(variable, owner)
    if variable.levels.dtype.is_integer():
        return variable.levels.to_numpy()
    if variable.levels.dtype.is_numeric():
        return variable.levels.cast(pl.Float64).to_numpy()
    return np.arange(len(variable.levels)) if variable.worth is None else variable.worth


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
        counts = variable.counts[variable.missing :]
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


@dataclass(frozen=True, eq=False)
class ConfidentialLevels:
    """The values of a confidential variable that occur, and one way to read them.

    Parameters
    ----------
    variable : the values as read, a code for each.
    as_written : the same, as they stand.
    counts : how many records have each.
    """

    variable: ConfidentialVariable
    as_written: ConfidentialVariable
    counts: Integers

    def make_rule(self, codes: Codes, rule: ClosenessRule) -> ConfidentialRule:
        """A rule about codes of the values as read."""
        by_level = np.full(len(self.as_written.distinct) + 1, -1, np.int32)
        by_level[self.as_written.codes] = codes  # -1 is the last: missing
        return ConfidentialRule(self.as_written.name, self.as_written.distinct, by_level, rule)


def read_confidential(
    data: Dataset,
    named: str | list[str] | None,
    changed: Sequence[str],
    engine: Engine,
    *,
    apart: bool | None = None,
) -> list[ConfidentialLevels]:
    """The values of the confidential variables, by default all whose role is "sensitive".

    Unless `apart` is None, each is followed by its readings in which values that say the same, in
    other spellings or digits, are one: what is promised must hold in all of them.
    """
    names = [named] if isinstance(named, str) else named
    readings = []
    for name in select_confidential(names, changed, data, "original"):
        occurring, column = engine.distinct(data, [name]), data.schema[name]
        few = Dataset(occurring.values, Schema({name: column}))
        as_written = encode_confidential(few, name)
        united = [] if apart is None else unite_values(as_written, column, apart=apart)
        readings += [
            ConfidentialLevels(variable, as_written, occurring.counts)
            for variable in (as_written, *(reading.variable for reading in united))
        ]
    return readings


def require_diverse(
    levels: ConfidentialLevels, least: float, kind: Diversity = "distinct", c: float = 1.0
) -> None:
    """Fail, with the best that is possible, where even all records together are not diverse."""
    from sfumato.kernels.clustering.closeness import achieved_l

    name, codes = levels.variable.name, levels.variable.codes
    everyone = np.arange(len(codes)), np.array([0, len(codes)])
    best = float(achieved_l(codes, *everyone, kind, c, levels.counts)[0])
    if best < least * (1 - _ROUNDING):
        missing = ", where what is missing has the commonest value" if (codes < 0).any() else ""
        raise MethodError(
            f"No cluster can reach l = {least:g} ({kind}) in variable '{name}': all records "
            f"together have {math.floor(best * 1000) / 1000:g}{missing}.",
            hint="choose a smaller l, or another confidential variable.",
        )
