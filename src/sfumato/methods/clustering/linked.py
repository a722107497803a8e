"""Clusters of persons over several tables: by a summary of all their rows, then all rows alike.

The summary is that of `persons.py`, of each table. Whoever has no row in a table is told apart from
those who have some, so persons are clustered within those who have rows in the same tables. Where
these are fewer than k, nothing hides them, and they are left out (`find_rare_persons`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sfumato.cells.literals import declare_generalised
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.kernels.arrays import UNWEIGHTED, AnyIntegers, Integers
from sfumato.methods._publishing.digits import round_like_original
from sfumato.methods.clustering.cells import Clusters
from sfumato.methods.clustering.method import ClusteringMethod, show_cells
from sfumato.methods.clustering.microaggregation import cluster_rows
from sfumato.methods.clustering.persons import PersonRows
from sfumato.methods.clustering.variables import ClusteredRows, Variable, encode_variables


def cluster_tables(
    steps: Mapping[str, ClusteringMethod],
    tables: Mapping[str, Dataset],
    persons: Mapping[str, Integers],
) -> dict[str, Dataset]:
    """All tables with the rows of each cluster of persons alike.

    Parameters
    ----------
    steps : for each table that has variables to generalise, the step with these variables.
    tables : all tables whose rows are persons'.
    persons : the number of each row's person, in an order that follows the person; none of them is
        rare.
    """
    numbers, of_row = _renumber(persons)
    count, step = len(numbers), next(iter(steps.values()))
    prepared, summaries = {}, list[Variable]()
    for name, table_step in steps.items():
        names = table_step.touches(tables[name].schema)
        variables = encode_variables(tables[name], names, type(table_step).__name__)
        forms, aligned = table_step.prepare(variables, count, "persons")
        prepared[name] = variables, forms
        rows = PersonRows.of(of_row[name])
        present = np.unique(of_row[name])
        for variable in rows.summarise(aligned):
            # Who has no row there is in a stratum of its own, so that any code will do.
            codes = np.zeros(count, variable.codes.dtype)
            codes[present] = variable.codes
            summaries.append(replace(variable, codes=codes, known_counts=None))
    coded = ClusteredRows(
        summaries,
        UNWEIGHTED,
        _number_patterns(persons)[1],
        list_person_keys=lambda: [np.arange(count)],
    )
    of_person = cluster_rows(coded, step.k, "mondrian").number_records()
    return {
        name: data
        if name not in steps
        else _write(steps[name], data, prepared[name], of_person[of_row[name]].astype(np.int64))
        for name, data in tables.items()
    }


def _renumber(persons: Mapping[str, Integers]) -> tuple[Integers, dict[str, Integers]]:
    """All persons who have a row, and for each row which of them it is, from 0."""
    numbers = np.unique(np.concatenate(list(persons.values())))
    return numbers, {name: np.searchsorted(numbers, of) for name, of in persons.items()}


def _number_patterns(persons: Mapping[str, Integers]) -> tuple[Integers, Integers, Integers]:
    """All persons, the tables in which each has rows as a number, and how many have the same."""
    numbers, of_row = _renumber(persons)
    pattern = np.zeros(len(numbers), np.int64)
    for position, rows in enumerate(of_row.values()):
        pattern[np.unique(rows)] += 1 << position
    _, stratum, sizes = np.unique(pattern, return_inverse=True, return_counts=True)
    return numbers, stratum.ravel().astype(np.int64), sizes


def find_rare_persons(persons: Mapping[str, Integers], k: int) -> Integers:
    """The persons who have rows in a combination of tables in which fewer than k have some.

    Nothing that is done to their values hides them: they stand out by the tables they are in.

    Examples
    --------
    >>> find_rare_persons({"patients": np.arange(5), "visits": np.array([1, 1, 4])}, 3).tolist()
    [1, 4]
    """
    numbers, stratum, sizes = _number_patterns(persons)
    rare: Integers = numbers[(sizes < k)[stratum]]
    return rare


def _write(
    step: ClusteringMethod,
    data: Dataset,
    prepared: tuple[list[Variable], list],  # type: ignore[type-arg]
    cluster: AnyIntegers,
) -> Dataset:
    """A table with the cells of each row's cluster."""
    variables, forms = prepared
    engine = engine_for(data.frame)
    _, of_row, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
    order = np.argsort(of_row.ravel(), kind="stable")
    clusters = Clusters(order, np.concatenate([[0], np.cumsum(sizes)]))
    cells, averaged = step.write_cells(data, variables, forms, clusters)
    shown = show_cells(data, cells, of_row.ravel().astype(np.int32), engine)
    released = round_like_original(data, shown, averaged, engine)
    return declare_generalised(data, released, step.touches(data.schema), step.name, engine=engine)
