"""Exchange categories for others with known probabilities: PRAM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, field_validator, model_validator

from sfumato.cells.codes import back, levels_of, levels_told, places, plain, retyped
from sfumato.cells.noise import described
from sfumato.cells.noise.described import Level
from sfumato.cells.noise.strata import draws_of, in_order, require_enough, stratum_of_each
from sfumato.cells.noise.transitions import (
    exchanged,
    invariant,
    purpose,
    shares_of,
    to_all,
    to_marginal,
    to_near,
)
from sfumato.data import Dataset
from sfumato.engines import Chance, Engine
from sfumato.errors import MethodError, PlanError
from sfumato.kernels.arrays import Floats
from sfumato.method import Fitted, RowWise
from sfumato.methods._noise.given import given_matrix, rows_as_text
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Column, Schema

Share = Annotated[float, Field(ge=0, lt=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
Rows = dict[str, dict[str, Probability]]
MOST = 300
"""Levels of a variable whose matrix a manifest can hold."""


@parameters
class Misclassify(RowWise):
    """Exchange each category for another with a known probability (PRAM).

    Question: how can nobody be sure of a released category, while its distribution can be told?
    Assumes: an analyst takes the matrix from the manifest into account. `invariant` keeps the
    expected frequencies of one variable; how it goes together with others is weakened all the
    same. Records are exchanged independently, so the share that stays in the data varies around
    its probability. Missing stays missing.

    The stated retention is a floor: no level stays with a smaller probability, however rare.

    Parameters
    ----------
    variables : the categories: nominal, ordinal, yes/no, or whole numbers with few values.
    retention : the probability that a value stays, at least: one for all, or by variable.
    towards : how the rest is spread: "equal" over all other levels, "marginal" in proportion to
        how frequent they are, "near" over the two neighbours of a level (ordinal or whole numbers).
    matrix : by variable the probabilities themselves, instead of `towards`: true level, released
        level, probability, `{sex = {f = {f = 0.9, m = 0.1}, m = {m = 1}}}`; or lists of numbers
        where the schema declares the levels and their order.
    invariant : keep the frequencies of the levels in expectation. Exchanges for rarer levels
        become less likely, so frequent levels stay more often than stated. A rare level is then
        right as often as it stays: without, it hides better.
    strata : variables within whose combinations frequencies are taken, and kept. They are released
        as they are.
    fewest : records a stratum must have (or the data, where there are no strata), if the matrix
        depends on frequencies: it is published, and tells them.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> data = sf.Dataset(pl.DataFrame({"sex": ["f", "m"] * 500}), sf.Schema({"sex": "quasi"}))
    >>> made = Misclassify(variables=["sex"], retention=0.8).apply(data, key=bytes(32))
    >>> stayed = (made.frame["sex"] == data.frame["sex"]).mean()
    >>> 0.75 < stayed < 0.85
    True

    References: Gouweleeuw, Kooiman, Willenborg & de Wolf (1998), Post randomisation for statistical
    disclosure control, J. Official Statistics 14:463; Goldstein & Shlomo (2020), section 5.
    """

    name = "misclassify"
    examples = (
        {"variables": ["sex", "region"], "retention": 0.8},
        {"variables": ["education", "children"], "retention": 0.7, "towards": "near"},
        {
            "variables": ["ethnicity"],
            "retention": 0.85,
            "towards": "marginal",
            "invariant": True,
            "strata": ["sex"],
        },
        {
            "variables": ["smoking"],
            "matrix": {"smoking": [[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]]},
        },
    )
    keyed = True
    variables: Annotated[list[str], Field(min_length=1)]
    retention: Share | dict[str, Share] | None = None
    towards: Literal["equal", "marginal", "near"] = "equal"
    matrix: dict[str, Rows | list[list[Probability]]] | None = None
    invariant: bool = False
    strata: list[str] = Field(default_factory=list)
    fewest: Annotated[int, Field(ge=2)] = 10

    @field_validator("matrix", mode="before")
    @classmethod
    def _levels_as_text(cls, matrix: Any) -> Any:
        """A plan file has text as keys; in Python a number or a truth value is at hand."""
        if not isinstance(matrix, Mapping):
            return matrix
        return {name: rows_as_text(told) for name, told in matrix.items()}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.retention is None and self.matrix is None:
            msg = "give the retention, or the matrix of each variable."
            raise ValueError(msg)
        both = set(self.variables) & set(self.strata)
        if both:
            msg = f"'{min(both)}' cannot be both exchanged and a stratum."
            raise ValueError(msg)
        if self.strata and not self._by_frequency:
            msg = 'strata matter only with towards = "marginal" or invariant = true.'
            raise ValueError(msg)
        return self

    @property
    def _by_frequency(self) -> bool:
        """Whether some matrix depends on how frequent levels are."""
        whole = set(self.matrix or {}) == set(self.variables)
        return self.invariant or (self.towards == "marginal" and not whole)

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The categories."""
        del schema
        return tuple(self.variables)

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """The categories and the strata."""
        del schema
        return (*self.variables, *self.strata)

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """The levels and the matrices of each variable."""
        data.schema.require(self.reads(data.schema))
        self._require_named()
        return {name: self._fitted(name, data, engine) for name in self.variables}

    def _require_named(self) -> None:
        """What is given by variable must be there for each of them, and for no other."""
        named = [set(one) for one in (self.matrix, self.retention) if isinstance(one, Mapping)]
        if not set().union(*named) <= set(self.variables):
            raise PlanError(
                "The matrix or the retention names a variable that is not in `variables`.",
                hint="name it there too, or leave it out.",
            )
        without = set(self.variables).difference(*named)
        if without and not isinstance(self.retention, float):
            raise PlanError(
                f"Variable '{min(without)}' has neither a retention nor a matrix.",
                hint="give one of the two.",
            )

    def _fitted(self, name: str, data: Dataset, engine: Engine) -> dict[str, Any]:
        column = data.schema[name]
        found = engine.distinct(data, [*self.strata, name])
        levels, declared = levels_of(name, column, found, most=MOST, ordered=self.towards == "near")
        at = places(found.values[name], levels)
        each = [found.values[one].to_list() for one in self.strata]
        rows = list(zip(*each, strict=True)) if self.strata else [()] * len(at)
        counts: dict[tuple[Any, ...], Floats] = {} if self.strata else {(): np.zeros(len(levels))}
        for row, level, count in zip(rows, at.tolist(), found.counts.tolist(), strict=True):
            held = counts.setdefault(tuple(map(plain, row)), np.zeros(len(levels)))
            if level >= 0:
                held[level] += count
        if self._by_frequency:
            require_enough(
                np.array([one.sum() for one in counts.values()]), self.fewest, self.strata
            )
        strata = [
            {
                "where": dict(zip(self.strata, row, strict=True)),
                "matrix": self._matrix(name, column, levels, counts[row]).tolist(),
            }
            for row in in_order(list(counts))
        ]
        return {"levels": levels, "declared": declared, "strata": strata}

    def _matrix(self, name: str, column: Column, levels: Sequence[Level], counts: Floats) -> Floats:
        """The probabilities of one variable in one stratum."""
        shares = shares_of(counts)
        floor = self.retention.get(name) if isinstance(self.retention, Mapping) else self.retention
        given = name in (self.matrix or {})
        if given:
            ordered = column.domain is not None or isinstance(levels[0], bool)
            made = given_matrix((self.matrix or {})[name], name, levels, declared=ordered)
            _require_floor(made, floor, name)
        else:
            made = self._spread(name, column, shares, floor or 0.0)
        told = self.invariant or (self.towards == "marginal" and not given)
        if told and (counts > 0).sum() == 1:
            where = "in a stratum " if self.strata else ""
            raise MethodError(
                f"Variable '{name}' has one level only {where}that occurs, and a matrix by "
                "frequencies would tell so.",
                hint='take towards = "equal" without invariant, or fewer variables in `strata`.',
            )
        return invariant(made, shares) if self.invariant else made

    def _spread(self, name: str, column: Column, shares: Floats, floor: float) -> Floats:
        """A level stays with the stated probability, and the rest goes where `towards` says."""
        levels = len(shares)
        if floor < 1 / levels:
            raise PlanError(
                f"The retention of variable '{name}' is less than one in its {levels} levels: a "
                "released value would tell by what it is not.",
                hint="take a larger one.",
            )
        if self.towards == "marginal":
            return to_marginal(shares, floor)
        if self.towards == "equal":
            return to_all(levels, floor)
        if column.kind == "nominal" and levels > 2:  # noqa: PLR2004 - two are always neighbours
            raise MethodError(
                f"Variable '{name}' has no order, so its levels have no neighbours.",
                hint='declare kind = "ordinal" with its levels, or take towards = "equal".',
            )
        return to_near(levels, floor)

    def describes(self, fitted: Fitted, schema: Schema) -> dict[str, described.Noise]:
        """The matrix of each variable, or those of its strata."""
        del schema
        return {name: self._described(fitted[name]) for name in self.variables}

    def _described(self, told: Mapping[str, Any]) -> described.Misclassification:
        if self.strata:
            return described.Misclassification(levels=told["levels"], strata=told["strata"])
        return described.Misclassification(
            levels=told["levels"], matrix=told["strata"][0]["matrix"]
        )

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Which variables were exchanged; how stands in the manifest under `noise`."""
        told = {"method": self.name, "variables": list(self.variables), **levels_told(fitted)}
        return told | ({"strata": list(self.strata)} if self.strata else {})

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Exchanged categories for a batch of records."""
        if draws is None:
            raise MethodError("Chance needs a key.", hint="pass key=…, or leave it to protect.")
        return pl.DataFrame(
            [self._exchanged(name, batch, fitted[name], draws) for name in self.variables]
        )

    def _exchanged(
        self, name: str, batch: pl.DataFrame, told: Mapping[str, Any], draws: Draws
    ) -> pl.Series:
        at = places(batch[name], told["levels"])
        stratum = stratum_of_each(batch, self.strata, told["strata"])
        made = at.copy()
        for place, one in enumerate(told["strata"]):
            some = np.flatnonzero(stratum == place)
            if len(some):
                matrix = np.array(one["matrix"], float)
                sort = purpose(told["levels"], matrix)
                uniform = draws_of(draws, some).lasting(name, sort, at[some].astype(float))
                made[some] = exchanged(at[some], uniform, matrix)
        return back(made, told["levels"], batch[name])

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Exchange, and give categories back the type that they had."""
        made = super().transform(data, fitted, engine=engine, chance=chance)
        return retyped(data, made, self.variables)


def _require_floor(matrix: Floats, floor: float | None, name: str) -> None:
    if floor is not None and matrix.diagonal().min() < floor:
        raise PlanError(
            f"The matrix of variable '{name}' lets some level stay with less than the retention.",
            hint="raise its diagonal, or lower the retention.",
        )
