"""k-anonymity in two stages, so that what belongs to a group stays the same within it.

First the groups are clustered by the variables that belong to them, k groups at least in each; all
members of a group get the same cells. Then the records of each of these clusters are clustered by
all other variables, k persons at least in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MethodError
from sfumato.kernels.arrays import AnyIntegers, Integers
from sfumato.methods._publishing.digits import round_like_original
from sfumato.methods.clustering.method import ClusteringMethod, show_cells
from sfumato.methods.groups import find_group_level, number_groups
from sfumato.methods.persons import PERSON
from sfumato.units import Units

if TYPE_CHECKING:
    from sfumato.methods.k_anonymity import KAnonymity

_CLASS = "__sfumato_group_class"


def cluster_by_group(method: KAnonymity, data: Dataset, engine: Engine) -> Dataset | None:
    """The data with clusters that keep groups together; None where no variable is of a group."""
    names = method.touches(data.schema)
    level = find_group_level(data, [*names, *method.strata], engine)
    group = next((g for g in level if any(name in names for name in level[g])), None)
    if group is None:
        return None
    if not engine.in_memory:
        of_group = ", ".join(f"'{name}'" for name in level[group] if name in names)
        raise MethodError(
            f"{of_group}: the same within each group of '{group}', and {method.name} keeps that "
            "only where one machine holds all records in memory.",
            hint=f"read the data whole, drop '{group}', or give it another role.",
        )
    groups = number_groups(data.column(group))
    if not _are_nested(data.units, groups):
        return None
    return _cluster_in_stages(method, data, groups, level[group], engine)


def _are_nested(units: Units, groups: Integers) -> bool:
    """Whether nobody is in two groups."""
    return units.one_row_each or int(units.count_groups(groups).sum()) == units.count


def _cluster_in_stages(
    method: KAnonymity, data: Dataset, groups: Integers, level: Sequence[str], engine: Engine
) -> Dataset:
    names = method.touches(data.schema)
    of_group = [name for name in names if name in level]
    others = [name for name in names if name not in level]
    classes: AnyIntegers = _number_rows(data.batch(of_group))
    staged = data
    # Where every group hides its members, what belongs to it may stay as it is.
    hidden = data.units.count_groups(groups).min() >= method.k
    if not hidden or not _holds_enough(data, method, classes):
        staged, classes = _cluster_groups(method, data, groups, of_group, level, engine)
    if not others:
        return staged
    column = pl.DataFrame([pl.Series(_CLASS, classes)])
    within = staged.with_columns(column, staged.schema)
    second = _narrow(method, others, strata=[*method.strata, _CLASS])
    released = ClusteringMethod.transform(second, within, {}, engine=engine, chance=None)
    return released.without([_CLASS])


def _cluster_groups(
    method: KAnonymity,
    data: Dataset,
    groups: Integers,
    of_group: list[str],
    level: Sequence[str],
    engine: Engine,
) -> tuple[Dataset, AnyIntegers]:
    """The first stage: cells for k groups at least, and enough persons of each stratum in them."""
    united = replace(data, given_identity=data.identity.with_persons(groups))
    strata = [name for name in method.strata if name in level]
    total = int(groups.max(initial=-1)) + 1
    if total < method.k:
        raise MethodError(
            f"Variables {', '.join(map(repr, of_group))} belong to groups, of which there are "
            f"{total}, and k = {method.k} needs at least {method.k}.",
            hint="drop these variables, or choose a smaller k.",
        )
    k = method.k
    while True:
        first = _narrow(method, of_group, strata=strata, k=min(k, total))
        released, classes, averaged = first._write_clusters(united, tuple(of_group), engine)  # noqa: SLF001
        if k >= total or _holds_enough(data, method, classes):
            break
        k *= 2
    shown = round_like_original(data, show_cells(data, released, classes, engine), averaged, engine)
    return shown, np.asarray(classes, np.int64)


def _holds_enough(data: Dataset, method: KAnonymity, classes: AnyIntegers) -> bool:
    """Whether every stratum in every cluster of groups has k persons."""
    rows = pl.DataFrame({_CLASS: np.asarray(classes, np.int64), PERSON: data.units.numbers})
    persons = rows.with_columns(data.column(name) for name in method.strata).unique()
    sizes = persons.group_by([*method.strata, _CLASS]).len()["len"]
    return bool((sizes >= method.k).all())


def _number_rows(batch: pl.DataFrame) -> Integers:
    numbered = batch.select(pl.struct(pl.all()).rank("dense").alias("number"))
    return numbered["number"].to_numpy().astype(np.int64)


def _narrow(method: KAnonymity, names: list[str], **changes: Any) -> KAnonymity:
    """The same method for some of its variables."""
    output = method.output
    if isinstance(output, dict):
        output = {name: how for name, how in output.items() if name in names}
    grid = {name: step for name, step in method.grid.items() if name in names}
    return replace(method, variables=names, output=output, grid=grid, **changes)
