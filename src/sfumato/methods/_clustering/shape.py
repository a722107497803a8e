"""The third shape of a method: records are put into clusters, and each cluster gets one cell."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Chance, Engine
from sfumato.errors import HeavyLossWarning, MethodError, PlanError
from sfumato.io import frames
from sfumato.method import Fitted, Method
from sfumato.methods._clustering.cells import Clusters, Output, cells
from sfumato.methods._clustering.coded import Variable, coded
from sfumato.parameters import parameters
from sfumato.schema import Schema

_ONE = 2
"""Where one cluster begins and ends."""
_ROOM = 4
"""From so many times k records on, one cluster for all is a surprise."""


@parameters
class Clustered(Method):
    """A method that makes the records of a cluster alike. How it finds the clusters, it says."""

    variables: Annotated[list[str], Field(min_length=1)] | None = None
    k: Annotated[int, Field(ge=1)] = 5
    output: Output | dict[str, Output] = "range"

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
        outputs = self._outputs(names)
        variables = coded(data, names, type(self).__name__)
        if len(data) < self.k:
            raise MethodError(
                f"There are {len(data)} records, and k = {self.k} needs at least {self.k}.",
                hint="choose a smaller k.",
            )
        found = self.clusters(data, variables, engine)
        of_each = found.of_each()
        made = {}
        for one in variables:
            new = cells(one, found, outputs[one.name])
            if new is not None:
                made[one.name] = new.table.gather(new.at[of_each]).alias(one.name)
            elif _finer(frames.column(data.frame, one.name)):
                made[one.name] = one.levels.gather(one.codes)
        if made and len(found.starts) == _ONE and len(data) >= _ROOM * self.k:
            warnings.warn(
                f"{self.name}: all {len(data):,} records became one cluster, so the release says "
                "next to nothing about them. Loosen the bound, or name fewer confidential "
                "variables.",
                HeavyLossWarning,
                stacklevel=2,
            )
        return _with(data, made)

    def _outputs(self, names: Sequence[str]) -> dict[str, Output]:
        if not isinstance(self.output, dict):
            return dict.fromkeys(names, self.output)
        if unknown := [name for name in self.output if name not in names]:
            raise PlanError(
                f"`output` names {', '.join(map(repr, unknown))}, which {self.name} does not "
                "change.",
                hint="name only variables of this step.",
            )
        return {name: self.output.get(name, "range") for name in names}


def _finer(values: pl.Series) -> bool:
    """Whether values that counted as equal may differ still, by the time of the day."""
    return values.dtype == pl.Datetime


def _with(data: Dataset, made: dict[str, pl.Series]) -> Dataset:
    """The data with new cells; what they mean by missing is in the cells already."""
    schema = data.schema
    for name, values in made.items():
        if values.dtype != frames.column(data.frame, name).dtype:
            schema = schema.changed([name], missing=())
        if values.dtype == pl.Float64 and schema[name].kind == "integer":
            schema = schema.changed([name], kind="continuous")
    bare = replace(data, schema=data.schema.changed(made, missing=()), given_identity=data.identity)
    return bare.with_columns(pl.DataFrame(list(made.values())), schema)
