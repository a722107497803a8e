"""Leave variables out."""

from __future__ import annotations

from sfumato.data import Dataset
from sfumato.engines import Chance, Engine
from sfumato.method import Fitted, Method
from sfumato.parameters import parameters
from sfumato.schema import Schema


@parameters
class Drop(Method):
    """Leave variables out of the release, by default all direct identifiers.

    Question: what must never leave the building?
    Assumes: nothing. What is not there cannot be misused.

    Parameters
    ----------
    variables : variables to leave out. Default: every variable whose role is "direct" or "person".

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"name": ["Ada", "Bea"], "age": [36, 52]})
    >>> data = sf.Dataset(frame, sf.Schema({"name": "direct", "age": "quasi"}))
    >>> Drop().apply(data).columns
    ('age',)
    """

    name = "drop"
    runs_on = ("local", "streaming", "spark")
    examples = ({}, {"variables": ["postcode"]})
    variables: list[str] | None = None

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The variables that go."""
        return schema.identifiers if self.variables is None else tuple(self.variables)

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Take the variables away."""
        del fitted, engine, chance
        return data.without(self.touches(data.schema))
