"""Plausible values for masked cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, field_validator, model_validator

from sfumato.cells.notation import format_value
from sfumato.data import Dataset, find_missing_codes
from sfumato.engines import Chance, Engine
from sfumato.errors import MethodError, PlanError
from sfumato.kernels.arrays import Codes, Integers, Mask, Positions
from sfumato.method import Fitted, Method, require_draws
from sfumato.methods._noise.drawing import select_draws
from sfumato.methods._regeneration.allocation import allocate, apportion
from sfumato.methods._regeneration.masked_cells import (
    PARTIAL_HINT,
    MaskedColumn,
    cast_texts,
    draw_from_domain,
    draw_values,
    find_fitting_values,
    find_masked_cells,
    restore_type,
)
from sfumato.methods.persons import (
    ONCE,
    PERSON,
    attach_persons,
    count_changes,
    draw_by_person,
    has_persons,
)
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Column, Kind

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_NUMERIC_KINDS = ("integer", "continuous", "date")
_CELLS = ("missing", "wildcard", "partial")


@parameters
class Regenerate(Method):
    """Put plausible values into masked cells, so that their numbers follow a known distribution.

    Question: what could the data have looked like before cells were masked?
    Assumes: somebody published how often each value was masked (`counts`), or masked cells are
    distributed as the others. Which cell gets which value is random and follows the record. A
    cell that says something, such as `937**` or `[20;29]`, takes only a value that fits. The
    values are made up: marginals follow what they are taken from, and what went together in the
    masked cells does not (measure `correlations`).

    A variable that never changes within a person (role "person") is filled once for each person:
    what others of their rows show, or else one value for all of them. `counts` then count persons.

    Parameters
    ----------
    variables : the variables with masked cells.
    counts : by variable, how many masked cells had each value.
    marginal : where frequencies come from: "given" needs counts for every variable; "observed"
        takes the distribution of the unmasked values where there are none. A partial cell draws
        from those that fit it; where none does, every whole number, day or level in the cell is as
        likely.
    masked : which cells are filled: "missing", "wildcard" (`*`) and "partial" (ranges, sets,
        masks and groups).
    scale : take the counts as proportions where they do not add up.
    exact : fail when no way of filling the cells meets the counts; otherwise the cells that are
        left over take values that fit, beyond their counts.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": ["34", "*", "[20;29]", "51"]})
    >>> age = sf.Column(role="quasi", kind="integer", cells="generalised")
    >>> data = sf.Dataset(frame, sf.Schema({"age": age}))
    >>> fill = Regenerate(variables=["age"], counts={"age": {"25": 1, "60": 1}})
    >>> fill.apply(data, key=bytes(32)).frame["age"].to_list()
    [34, 60, 25, 51]

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Algorithm S1.
    """

    name = "regenerate"
    fills_in = True
    reports = ("correlations",)
    odd = {"all missing": (0,)}
    examples = (
        {"variables": ["income", "education"], "marginal": "observed"},
        {
            "variables": ["smoking", "glucose"],
            "counts": {"smoking": {"never": 3, "current": 1}, "glucose": {"5.0": 2, "6.5": 1}},
            "scale": True,
        },
    )
    keyed = True
    variables: Annotated[list[str], Field(min_length=1)]
    counts: dict[str, Annotated[dict[str, Amount], Field(min_length=1)]] | None = None
    marginal: Literal["given", "observed"] = "given"
    masked: list[str] = Field(default_factory=lambda: [*_CELLS])
    scale: bool = False
    exact: bool = True

    @field_validator("counts", mode="before")
    @classmethod
    def _format_keys(cls, counts: Any) -> Any:
        """A plan file has text as keys; in Python a number or a date is at hand."""
        return _format_counts(counts) if isinstance(counts, Mapping) else counts

    @model_validator(mode="after")
    def _check_amounts(self) -> Self:
        if not self.masked or not set(self.masked) <= set(_CELLS):
            msg = f"masked lists some of: {', '.join(_CELLS)}."
            raise ValueError(msg)
        amounts = [amount for counts in (self.counts or {}).values() for amount in counts.values()]
        if not self.scale and not all(float(amount).is_integer() for amount in amounts):
            msg = "counts are whole numbers. Hint: scale = true takes them as proportions."
            raise ValueError(msg)
        return self

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Every parameter; of the counts only how many, since no cell need show their values."""
        described = {**super().public(fitted), **fitted}
        if self.counts is not None:
            described["counts"] = {
                name: f"{len(counts)} values" for name, counts in self.counts.items()
            }
        return described

    def fit(self, data: Dataset, engine: Engine) -> Fitted:
        """Which variables never change within persons; counts and variables must go together."""
        counts = self.counts or {}
        if wrong := [name for name in counts if name not in self.variables]:
            raise PlanError(
                f"Counts are given for variables that are not filled: {', '.join(wrong)}.",
                hint="name them in `variables` too, or leave their counts out.",
            )
        without = [name for name in self.variables if name not in counts]
        if without and self.marginal == "given":
            raise PlanError(
                f"No counts are given for: {', '.join(without)}.",
                hint='give them, or set marginal = "observed".',
            )
        if not has_persons(data):
            return {}
        changes = count_changes(data, self.variables, engine)
        return {ONCE: [name for name, counted in changes.items() if not counted.different]}

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Fill the cells, over all records at once: their numbers are right over all of them."""
        schema, once = data.schema, fitted.get(ONCE, ())

        def fill(batch: pl.DataFrame, starts: Integers, draws: Draws | None) -> pl.DataFrame:
            del starts
            seeded = require_draws(draws, "Regenerating")
            return pl.DataFrame(
                [
                    self._fill_persons(batch[name], batch[PERSON], schema[name], seeded)
                    if name in once
                    else self._fill_variable(batch[name], schema[name], seeded)
                    for name in reads
                ]
            )

        reads = self.variables
        # A cell with a code for "missing" is filled like others, so the code must not come back.
        uncoded = schema.changed(reads, missing=())
        visible = replace(data, schema=uncoded, given_identity=data.identity)
        if once:
            visible = attach_persons(visible, engine)
        names = [*reads, *([PERSON] if once else [])]
        filled = engine.map_groups(visible, fill, by=(), reads=names, chance=chance)
        released = filled.without([PERSON]) if once else filled
        columns = {name: self._redeclare(data, released, name) for name in reads}
        return replace(released, schema=schema.with_columns(columns))

    def _redeclare(self, data: Dataset, released: Dataset, name: str) -> Column:
        """What a variable is afterwards: ranges that became numbers or dates are those."""
        column, dtype = data.schema[name], released.column(name).dtype
        codes = () if "missing" in self.masked else column.missing
        if (
            data.column(name).dtype != pl.String
            or dtype == pl.String
            or column.kind in _NUMERIC_KINDS
        ):
            return replace(column, missing=codes)
        kind: Kind = "date" if dtype == pl.Date else "continuous"
        kind = "integer" if dtype.is_integer() else kind
        return replace(column, missing=codes, kind=kind, domain=None, hierarchy=None)

    def _fill_variable(self, values: pl.Series, column: Column, draws: Draws) -> pl.Series:
        """A variable with values in its masked cells."""
        if values.dtype == pl.Null:
            values = values.cast(pl.String)  # an empty column says nothing of its type
        coded = find_missing_codes(values, column)
        absent = values.is_null() if coded is None else values.is_null() | coded
        cells = find_masked_cells(values, absent.to_numpy(), column, self.masked)
        rows = np.flatnonzero(cells.sort >= 0)
        if values.name in (self.counts or {}):
            choice, wanted = self._count_wanted_values(values, cells, len(rows))
            if len(rows):
                values = self._fill_by_counts(values, cells, choice, wanted, column, draws)
        elif len(rows):
            values = self._fill_by_observed_values(values, cells, column, draws)
        single = cells.single.copy()
        single[rows] = True
        masked = ~single & ~values.is_null().to_numpy()
        return values if masked.any() else restore_type(values, cells.type)

    def _fill_persons(
        self, values: pl.Series, persons: pl.Series, column: Column, draws: Draws
    ) -> pl.Series:
        """A variable of which nobody has two values, filled once for each person."""
        coded = find_missing_codes(values, column)
        absent = values.is_null() if coded is None else values.is_null() | coded
        # Whoever shows a value somewhere has it everywhere; the first row stands for the others.
        rows = pl.DataFrame({"person": persons, "absent": absent}).with_row_index("row")
        chosen = rows.sort("person", "absent", "row").unique("person", keep="first").sort("person")
        of_person = values.gather(chosen["row"])
        by_person = select_draws(draw_by_person(draws, None), chosen["row"].to_numpy())
        filled = self._fill_variable(of_person, column, by_person)
        position = rows.join(
            chosen.select("person").with_row_index("place"),
            on="person",
            how="left",
            maintain_order="left",
        )["place"]
        spread = filled.gather(position)
        if "missing" in self.masked or not absent.any():
            return spread
        # A code for missing stays where it can stand.
        if values.dtype == spread.dtype:
            return spread.zip_with(~absent, values)
        return spread.set(absent, None)

    def _fill_by_counts(
        self,
        values: pl.Series,
        cells: MaskedColumn,
        choice: pl.Series,
        wanted: Integers,
        column: Column,
        draws: Draws,
    ) -> pl.Series:
        """Hand out values as often as they are wanted."""
        rows = np.flatnonzero(cells.sort >= 0)
        allocated = self._allocate(cells, choice, wanted, column)
        ranked = rows[_shuffle(cells.sort[rows], draws, values.name, rows)]
        return values.scatter(ranked, choice.gather(allocated))

    def _fill_by_observed_values(
        self, values: pl.Series, cells: MaskedColumn, column: Column, draws: Draws
    ) -> pl.Series:
        """Fill cells by the unmasked values; where a cell says something, by those that fit."""
        name, u = values.name, draws.uniform(values.name, 1)
        choice, counts = _count_values(values, cells.single)
        filled = draw_values(values, cells, column, choice, counts, u)
        rows = np.flatnonzero(cells.sort == 0)
        if len(rows) and not len(choice):
            # Cells that say something are then all that tells how the others are distributed.
            choice, counts = _count_values(filled, cells.sort > 0)
        if not len(rows):
            return filled
        if len(choice):
            ranked = rows[_shuffle(cells.sort[rows], draws, name, rows)]
            shares = apportion(counts, len(rows))
            return filled.scatter(ranked, choice.gather(np.repeat(np.arange(len(choice)), shares)))
        if values.dtype != pl.String or not column.domain:
            raise MethodError(
                f"Variable '{name}' has no unmasked value to take the distribution of.",
                hint="give counts for it, or declare its domain.",
            )
        texts = draw_from_domain(cells, column, name, u[rows])
        return filled.scatter(rows, pl.Series(texts, dtype=values.dtype))

    def _count_wanted_values(
        self, values: pl.Series, cells: MaskedColumn, masked: int
    ) -> tuple[pl.Series, Integers]:
        """The values to hand out, in rising order, and how often each, by the counts given."""
        name = values.name
        stated = (self.counts or {})[name]
        # Two ways to write one number are one value.
        table = pl.DataFrame(
            {"value": cast_texts(list(stated), values, cells.type), "count": list(stated.values())}
        )
        table = table.group_by("value").agg(pl.sum("count"))
        table = table.filter(pl.col("count") > 0).sort("value")
        counts = table["count"].to_numpy()
        total = int(counts.sum())
        if self.scale:
            if masked and not len(counts):
                raise MethodError(
                    f"The counts for variable '{name}' are all 0.",
                    hint="give the values that were masked.",
                )
            return table["value"].alias(name), apportion(counts, masked)
        if total != masked:
            raise MethodError(
                f"The counts for variable '{name}' add up to {total}, and {masked} of its cells "
                "are masked.",
                hint="correct them, or take them as proportions: scale = true.",
            )
        return table["value"].alias(name), counts.astype(np.int64)

    def _allocate(
        self, cells: MaskedColumn, choice: pl.Series, wanted: Integers, column: Column
    ) -> Integers:
        """For the masked cells, sort after sort, which of the values each gets."""
        fits = find_fitting_values(cells, choice, column)
        allocated, without = allocate(cells.counts, fits, wanted)
        if without.any() and self.exact:
            raise MethodError(
                f"The counts for variable '{choice.name}' cannot be met: {int(without.sum())} "
                "masked cells fit none of the values that are left.",
                hint="correct the counts, let these cells exceed them (exact = false), or leave "
                f"partial cells as they are: {PARTIAL_HINT}.",
            )
        for sort in np.flatnonzero(without).tolist():
            more = self._apportion_excess(choice.name, wanted[fits[sort]], int(without[sort]))
            allocated[sort] += more
        pairs = zip(fits, allocated, strict=True)
        return np.concatenate([np.repeat(values, counts) for values, counts in pairs])

    def _apportion_excess(self, name: str, weights: Integers, cells: int) -> Integers:
        if not weights.any():
            raise MethodError(
                f"Variable '{name}' has masked cells that fit none of the values.",
                hint=f"give counts for values that fit, or leave partial cells: {PARTIAL_HINT}.",
            )
        return apportion(weights, cells)


def _count_values(values: pl.Series, rows: Mask) -> tuple[pl.Series, Integers]:
    """The values of some records in rising order, each once, and how often each occurs."""
    table = values.filter(pl.Series(rows)).alias("value").value_counts().sort("value")
    return table["value"].alias(values.name), table["count"].cast(pl.Int64).to_numpy()


def _format_counts(counts: Mapping[Any, Any]) -> dict[Any, Any]:
    """Counts whose values are text; two that become the same are refused, not lost."""
    formatted = dict(counts)
    for name, table in counts.items():
        if isinstance(table, Mapping):
            formatted[name] = {format_value(value): count for value, count in table.items()}
            if len(formatted[name]) < len(table):
                msg = "the counts of a variable name a value twice."
                raise ValueError(msg)
    return formatted


def _shuffle(sort: Codes, draws: Draws, name: str, rows: Positions) -> Positions:
    """Masked cells sort after sort, in an order that follows the records and nothing else."""
    chance = draws.uniform(name)[rows]
    if len(np.unique(chance)) == len(chance):
        return np.lexsort((chance, sort))
    ids = draws.ids if isinstance(draws.ids, np.ndarray) else draws.ids.ids(draws.key)
    return np.lexsort((ids[rows, 1], ids[rows, 0], chance, sort))
