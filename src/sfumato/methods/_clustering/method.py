"""The third shape of a method: records are put into clusters, and each cluster gets one cell."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import polars as pl
from pydantic import Field

from sfumato.cells.grids import PARTS, CalendarStep, Grid, count_enough
from sfumato.cells.group_grids import GroupGrid
from sfumato.data import Dataset
from sfumato.engines import Chance, Engine
from sfumato.errors import HeavyLossWarning, MethodError, PlanError
from sfumato.io import frames
from sfumato.method import Fitted, Method
from sfumato.methods._clustering.cells import AVERAGES, CellForm, Clusters, Output, write_cells
from sfumato.methods._clustering.variables import (
    Variable,
    align_to_grid,
    choose_variable_grid,
    encode_variables,
)
from sfumato.methods._publishing.digits import round_like_original
from sfumato.parameters import parameters
from sfumato.schema import Schema

Step = Annotated[float, Field(gt=0, allow_inf_nan=False)]
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

    @abstractmethod
    def clusters(self, data: Dataset, coded: Sequence[Variable], engine: Engine) -> Clusters:
        """Clusters of at least k records, whatever order the records have."""

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
        variables = encode_variables(data, names, type(self).__name__)
        outputs = self._resolve_outputs(variables)
        if len(data) < self.k:
            raise MethodError(
                f"There are {len(data)} records, and k = {self.k} needs at least {self.k}.",
                hint="choose a smaller k.",
            )
        grids = self._choose_grids(variables, outputs, len(data))
        # A clustering that sees cells of a grid cannot tell where in its cell a value lies.
        seen = [
            variable if grid is None else align_to_grid(variable, grid)
            for variable, grid in zip(variables, grids, strict=True)
        ]
        clusters = self.clusters(data, seen, engine)
        cluster_of_record = clusters.number_records()
        released = {}
        for variable, grid in zip(variables, grids, strict=True):
            name = variable.name
            outwards = self.ends == "grid"
            form = CellForm(outputs[name], grid, min(PARTS, self.k), outwards)
            cells = write_cells(variable, clusters, form)
            if cells is not None:
                cell_of_record = cells.of_cluster[cluster_of_record]
                released[name] = cells.table.gather(cell_of_record).alias(name)
            # Days that counted as equal may still differ by the time of the day.
            elif frames.get_column(data.frame, name).dtype == pl.Datetime:
                released[name] = variable.levels.gather(variable.codes)
        if released and len(clusters.starts) - 1 == 1 and len(data) >= _ROOM * self.k:
            warnings.warn(
                f"{self.name}: all {len(data):,} records became one cluster, so the release says "
                "next to nothing about them. Loosen the bound, or name fewer confidential "
                "variables.",
                HeavyLossWarning,
                stacklevel=2,
            )
        averaged = [name for name in released if outputs[name] in AVERAGES]
        return round_like_original(data, _replace_columns(data, released), averaged, engine)

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

    def _resolve_outputs(self, variables: Sequence[Variable]) -> dict[str, Output]:
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


def _replace_columns(data: Dataset, released: dict[str, pl.Series]) -> Dataset:
    """The data with new cells; what they mean by missing is in the cells already."""
    schema = data.schema
    for name, values in released.items():
        if values.dtype != frames.get_column(data.frame, name).dtype:
            schema = schema.changed([name], missing=())
        if values.dtype == pl.Float64 and schema[name].kind == "integer":
            schema = schema.changed([name], kind="continuous")
    bare = replace(
        data, schema=data.schema.changed(released, missing=()), given_identity=data.identity
    )
    return bare.with_columns(pl.DataFrame(list(released.values())), schema)
