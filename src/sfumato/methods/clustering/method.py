"""The third shape of a method: records are put into clusters, and each cluster gets one cell."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, cast

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.codes import encode, encode_unordered
from sfumato.cells.grids import PARTS, CalendarStep, Grid, count_enough
from sfumato.cells.group_grids import GroupGrid
from sfumato.cells.notation import find_notation
from sfumato.data import Dataset
from sfumato.data.stream import number_records
from sfumato.engines import BatchEngine, Chance, Engine, GroupingEngine
from sfumato.engines.local import find_class_of_each
from sfumato.errors import HeavyLossWarning, MethodError, PlanError
from sfumato.kernels.arrays import UNWEIGHTED, AnyIntegers, Codes
from sfumato.method import Fitted, Method
from sfumato.methods._publishing.digits import round_like_original
from sfumato.methods._strata.strata import require_large
from sfumato.methods.clustering.cells import (
    AVERAGES,
    CellForm,
    ClusterCells,
    Clusters,
    Output,
    RowCodes,
    write_cells,
)
from sfumato.methods.clustering.microaggregation import Clustering, cluster_rows, list_person_keys
from sfumato.methods.clustering.persons import PersonRows
from sfumato.methods.clustering.variables import (
    ClusteredRows,
    ConfidentialRule,
    Variable,
    align_to_grid,
    choose_variable_grid,
    encode_variables,
)
from sfumato.methods.persons import has_persons
from sfumato.parameters import parameters
from sfumato.schema import Schema

Step = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_RECORD, _CODE = 48, 6
"""Bytes that finding clusters takes, for each record and for each of its codes."""
_INDEX = "\ufdd0"
# From so many times k records on, one cluster for all is a surprise.
_ROOM = 4


@parameters
class ClusteringMethod(Method):
    """A method that makes the records of a cluster alike; a subclass says how it finds them."""

    variables: Annotated[list[str], Field(min_length=1)] | None = None
    k: Annotated[int, Field(ge=1)] = 5
    output: Output | dict[str, Output] = "range"
    ends: Literal["grid", "observed"] = "grid"
    grid: dict[str, Step | CalendarStep] = Field(default_factory=dict)

    def by(self, schema: Schema) -> list[str]:
        """The strata within which clusters are formed."""
        del schema
        return []

    def rules(self, data: Dataset, known: Sequence[str], engine: Engine) -> list[ConfidentialRule]:
        """What every cluster must keep about confidential variables, beside having k records."""
        del data, known, engine
        return []

    def choose_clustering(self, variables: Sequence[Variable], records: int) -> Clustering:
        """How clusters are found."""
        del variables, records
        return "mondrian"

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The variables whose values become those of a cluster."""
        if self.variables is not None:
            return tuple(self.variables)
        return schema.having("quasi")

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Find the clusters, and write one cell for each."""
        del fitted, chance
        names = self.touches(data.schema)
        if engine.name != "local" and has_persons(data):
            raise MethodError(
                f"{self.name} clusters persons with several rows only where one machine holds all "
                "of them in memory.",
                hint="read the data whole; where everybody has one row, give the identifier the "
                'role "direct".',
            )
        if engine.name not in ("local", "streaming"):
            from sfumato.methods.clustering.distributed import cluster_elsewhere

            return cluster_elsewhere(self, data, cast("GroupingEngine", engine))
        if engine.in_batches:
            needed = len(data) * (_RECORD + _CODE * len(names))
            cast("BatchEngine", engine).require_memory(needed, self.name)
        released, cluster, averaged = self._write_clusters(data, names, engine)
        shown = show_cells(data, released, cluster, engine)
        return round_like_original(data, shown, averaged, engine)

    def _write_clusters(
        self, data: Dataset, names: tuple[str, ...], engine: Engine
    ) -> tuple[dict[str, ClusterCells], AnyIntegers, list[str]]:
        """The cells of all clusters, the number of each record's, and which cells are averages."""
        variables = encode_variables(data, names, type(self).__name__)
        if data.units.one_row_each:
            forms, aligned = self.prepare(variables, len(data))
            clusters = self._find_clusters(
                data, aligned, aligned, engine, lambda: list_person_keys(data)
            )
        else:
            rows = PersonRows.of(data.units.numbers)
            forms, aligned = self.prepare(variables, len(rows), "persons")
            clusters = self._cluster_persons(data, rows, aligned, engine)
        released, averaged = self.write_cells(data, variables, forms, clusters)
        return released, clusters.number_records(), averaged

    def write_cells(
        self,
        data: Dataset,
        variables: Sequence[Variable],
        forms: Sequence[CellForm],
        clusters: Clusters,
    ) -> tuple[dict[str, ClusterCells], list[str]]:
        """The cells of all clusters, by variable, and which of the variables are averages."""
        released = {}
        for variable, form in zip(variables, forms, strict=True):
            codes = RowCodes(variable.codes, variable.codes, UNWEIGHTED)
            cells = write_cells(variable, codes, clusters, form)
            if cells is not None:
                released[variable.name] = cells
            # Days that counted as equal may still differ by the time of the day.
            elif data.dtype(variable.name) == pl.Datetime:
                firsts = clusters.order[clusters.starts[:-1]]
                released[variable.name] = ClusterCells(variable.levels, variable.codes[firsts])
        if released and len(clusters.starts) - 1 == 1:
            self.warn_of_loss(len(data))
        outputs = self.resolve_outputs(variables)
        return released, [name for name in released if outputs[name] in AVERAGES]

    def _find_clusters(
        self,
        data: Dataset,
        aligned: Sequence[Variable],
        summary: Sequence[Variable],
        engine: Engine,
        list_keys: Callable[[], Sequence[AnyIntegers]],
    ) -> Clusters:
        """The clusters of data in which a record is a person.

        `aligned` are the variables as a clustering may see them, `summary` those that it goes by,
        `list_keys` keys in an order that follows the person.
        """
        strata = number_strata(self, data, engine)
        rules = self.rules(data, self.touches(data.schema), engine)
        rows = ClusteredRows(
            summary,
            UNWEIGHTED,
            None if strata is None else _find_strata(data, strata),
            _read_sensitive(data, rules),
            [replace(rule.rule, column=column) for column, rule in enumerate(rules)],
            list_keys,
        )
        return cluster_rows(rows, self.k, self.choose_clustering(aligned, len(data)))

    def _cluster_persons(
        self, data: Dataset, rows: PersonRows, aligned: Sequence[Variable], engine: Engine
    ) -> Clusters:
        """The clusters of all rows, where persons have several: by a summary of each person."""
        everybody = data.take(rows.firsts)
        by = self.by(data.schema)
        rules = self.rules(everybody, self.touches(data.schema), engine)
        for name in dict.fromkeys([*by, *(rule.name for rule in rules)]):
            if rows.find_changing(encode_unordered(data.column(name))[0]):
                what = "a stratum" if name in by else "confidential"
                raise MethodError(
                    f"Variable '{name}' is {what}, and has different values in the rows of a "
                    "person, so no cluster of persons has one distribution of it.",
                    hint="leave it out, or keep one row of each person (`thin_rows`).",
                )
        summary = rows.summarise(aligned)
        # Persons are numbered in an order that follows from who they are.
        of_persons = self._find_clusters(
            everybody, aligned, summary, engine, lambda: [np.arange(len(rows))]
        )
        return rows.spread(of_persons)

    def prepare(
        self, variables: Sequence[Variable], records: int, what: str = "records"
    ) -> tuple[list[CellForm], list[Variable]]:
        """What the cells will look like, and the variables as a clustering may see them."""
        outputs = self.resolve_outputs(variables)
        if records < self.k:
            raise MethodError(
                f"There are {records} {what}, and k = {self.k} needs at least {self.k}.",
                hint="choose a smaller k.",
            )
        grids = self._choose_grids(variables, outputs, records)
        # A clustering that sees cells of a grid cannot tell where in its cell a value lies.
        aligned = [
            variable if grid is None else align_to_grid(variable, grid)
            for variable, grid in zip(variables, grids, strict=True)
        ]
        forms = [
            CellForm(outputs[variable.name], grid, min(PARTS, self.k), self.ends == "grid")
            for variable, grid in zip(variables, grids, strict=True)
        ]
        return forms, aligned

    def warn_of_loss(self, records: int) -> None:
        """Say that all records became one cluster, where that is a surprise."""
        if records >= _ROOM * self.k:
            warnings.warn(
                f"{self.name}: all {records:,} records became one cluster, so the release says "
                "next to nothing about them. Loosen the bound, or name fewer confidential "
                "variables.",
                HeavyLossWarning,
                stacklevel=3,
            )

    def _choose_grids(
        self, variables: Sequence[Variable], outputs: Mapping[str, Output], records: int
    ) -> list[Grid | GroupGrid | None]:
        """The grid of each variable that becomes ranges of numbers or of days."""
        ranges = [name for name, output in outputs.items() if output in ("range", "middle")]
        if unknown := [name for name in self.grid if name not in ranges]:
            raise PlanError(
                f"`grid` names {', '.join(map(repr, unknown))}, of which {self.name} writes no "
                "ranges.",
                hint='name variables of this step with the output "range" or "middle".',
            )
        if self.ends == "observed":
            return [None] * len(variables)
        enough = count_enough(records, self.k, len(variables))
        return [
            choose_variable_grid(variable, self.grid.get(variable.name), enough)
            if variable.name in ranges
            else None
            for variable in variables
        ]

    def resolve_outputs(self, variables: Sequence[Variable]) -> dict[str, Output]:
        """What a cluster gets, by variable."""
        names = [variable.name for variable in variables]
        if not isinstance(self.output, dict):
            return {v.name: _choose_value(v, self.output) for v in variables}
        if unknown := [name for name in self.output if name not in names]:
            raise PlanError(
                f"`output` names {', '.join(map(repr, unknown))}, which {self.name} does not "
                "change.",
                hint="name only variables of this step.",
            )
        return {v.name: _choose_value(v, self.output.get(v.name, "range")) for v in variables}


def number_strata(method: ClusteringMethod, data: Dataset, engine: Engine) -> pl.DataFrame | None:
    """The strata as the release shows them, in the order of their levels; None without."""
    by = method.by(data.schema)
    if not by:
        return None
    # Every code for missing is a level by itself.
    shown = replace(data, schema=data.schema.changed(by, missing=()))
    require_large(shown, by, method.k, engine, hint="use fewer variables in `strata`.")
    levels = engine.distinct(shown, by).values
    texts = levels.select(pl.all().cast(pl.String)).with_row_index(_INDEX)
    return levels[texts.sort(by, nulls_last=True)[_INDEX]]


def _find_strata(data: Dataset, strata: pl.DataFrame) -> Any:
    """The number of each record's stratum."""
    names = strata.columns
    shown = replace(data, schema=data.schema.changed(names, missing=()))
    return number_records(
        shown, names, lambda part: find_class_of_each(part.batch(names), strata).astype(np.int32)
    )


def _read_sensitive(data: Dataset, rules: Sequence[ConfidentialRule]) -> Any:
    """The codes of all records, a column for each rule."""
    if not rules:
        return None
    names = list(dict.fromkeys(rule.name for rule in rules))

    def encode_part(part: Dataset) -> AnyIntegers:
        codes = encode_sensitive(rules, part.column)
        return np.empty((0, len(rules)), np.int32) if codes is None else codes

    return number_records(data, names, encode_part)


def encode_sensitive(
    rules: Sequence[ConfidentialRule], read: Callable[[str], pl.Series]
) -> Codes | None:
    """A column of codes for each rule, of records whose confidential values are given."""
    levels = {rule.name: rule.levels for rule in rules}
    position = {name: encode(read(name), values).codes for name, values in levels.items()}
    return np.column_stack([rule.codes[position[rule.name]] for rule in rules]) if rules else None


def _choose_value(variable: Variable, output: Output) -> Output:
    """The output as named; of "value", that which gives a single one and suits the variable."""
    if output != "value":
        return output
    column = variable.column
    if column.kind == "text" and variable.levels.dtype == pl.String:
        return "range"
    if column.kind == "ordinal" and column.levels is not None:
        return "median"
    is_number = column.kind in ("continuous", "integer", "date") and variable.worth is not None
    return "mean" if is_number else "balanced"


def declare_cells(data: Dataset, tables: Mapping[str, pl.Series]) -> Schema:
    """What the variables are with these cells, each of which some record gets."""
    schema = data.schema
    for name, table in tables.items():
        if table.dtype != data.dtype(name):
            schema = schema.changed([name], missing=())
            # Where there was no text before, nothing else can look like a range or a set.
            if table.dtype == pl.String and find_notation(table).any():
                schema = schema.changed([name], cells="generalised")
        if table.dtype == pl.Float64 and schema[name].kind == "integer":
            schema = schema.changed([name], kind="continuous")
    return schema


def show_cells(
    data: Dataset, released: dict[str, ClusterCells], cluster: AnyIntegers, engine: Engine
) -> Dataset:
    """The data with the cells of each record's cluster; what they mean by missing is in them."""
    schema = declare_cells(data, {name: cells.table for name, cells in released.items()})
    tables = {name: cells.to_table(name) for name, cells in released.items()}

    def write(clusters: AnyIntegers) -> pl.DataFrame:
        index = pl.Series(clusters.astype(np.uint32))
        return pl.DataFrame([table.gather(index) for table in tables.values()])

    if engine.in_batches:
        return cast("BatchEngine", engine).write_by_number(data, cluster, write, schema)
    bare = replace(
        data, schema=data.schema.changed(released, missing=()), given_identity=data.identity
    )
    return bare.with_columns(write(cluster), schema)
