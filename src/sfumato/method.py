"""What every protection is. A method is one of a few shapes and says nothing of where it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import polars as pl

from sfumato.cells.literals import declare_generalised
from sfumato.data import Dataset
from sfumato.engines import Chance, Engine, Starts, engine_for, require_engine
from sfumato.engines.summaries import Infinite
from sfumato.errors import DataError, MethodError
from sfumato.invariants import Invariant, require_known_invariants
from sfumato.parameters import list_settings
from sfumato.randomness import Draws, Key
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.noise.description import NoiseDescription

Fitted = Mapping[str, Any]
"""A few small values, JSON-able, computed once on the original and kept in custody."""


@dataclass(frozen=True)
class Strength:
    """The parameter that makes a method protect more, and which way: what `tune` turns.

    Examples
    --------
    >>> Strength("k", stronger="up")
    Strength(parameter='k', stronger='up')
    """

    parameter: str
    stronger: Literal["up", "down"] = "up"


class Method(ABC):
    """One protection: it changes some variables of the data and never measures."""

    name: ClassVar[str]
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """Parameters that make sense on the bundled cohort, for the reference and the tests."""
    reports: ClassVar[tuple[str, ...]] = ()
    """Measures that every release made with it reports, whatever the plan says."""
    informs: ClassVar[tuple[str, ...]] = ()
    """Measures that take parameters from it (`set_report`) where the plan does not set them."""
    keyed: ClassVar[bool] = False
    """Whether it takes draws, so that the result depends on the key."""
    strength: ClassVar[Strength | None] = None
    """The parameter that `tune` turns; None: there is nothing to turn."""
    keeps_groups: ClassVar[bool] = True
    """Whether the members of a group (role cluster) keep what they have in common."""
    draws_for: ClassVar[Literal["records", "values"]] = "records"
    """What its draws belong to: a further release with the same key repeats those of values."""
    treats: ClassVar[Literal["values", "records"]] = "values"
    """Whether it changes values as such, or makes records alike (equivalence classes)."""
    preserves: ClassVar[tuple[Invariant, ...]] = ()
    """What it leaves as it was of the variables it touches. It invites every attack that exploits
    that (`Trial.exploits`), beside those on any release."""
    fills_in: ClassVar[bool] = False
    """Whether it puts values where there were none; nothing else may make one up."""
    odd: ClassVar[Mapping[str, Literal["refused"] | tuple[int, ...]]] = {}
    """What it refuses of "empty", "one row", "all missing" and "constant" data: in every example,
    or in those at these positions. What is not here it carries out on any data."""
    runs_on: ClassVar[tuple[str, ...]] = ("local",)
    """The engines on which it runs."""
    over_tables: ClassVar[bool] = False
    """Whether it works over several linked tables at once; see `sf.Plan`."""
    tiered: ClassVar[tuple[str, ...]] = ()
    """Parameters in which tiers of a plan may differ: sizes of noise, each the smaller and more."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        require_known_invariants(cls.__name__, cls.preserves)

    def fit(self, data: Dataset, engine: Engine) -> Fitted:
        """Look at the data once, and keep a few values. Most methods need none."""
        del data, engine
        return {}

    def fit_keyed(self, data: Dataset, engine: Engine, chance: Chance | None) -> Fitted:
        """Fit with the key at hand, for what is fitted and published as well.

        A value that depends on the data and leaves with the release must not tell a record by
        the difference between two releases, with and without it. A method whose value would,
        overrides this and takes secret thresholds or noise from the key. All others need none.
        """
        del chance
        return self.fit(data, engine)

    @abstractmethod
    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Protect the data with what was fitted."""

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The variables it changes or removes: `variables`, unless a method says otherwise.

        All others stay byte-identical.
        """
        del schema
        variables: Sequence[str] | None = getattr(self, "variables", None)
        if variables is None:
            raise TypeError(f"{type(self).__name__} must say which variables it touches.")
        return tuple(variables)

    def apply(
        self,
        data: Dataset,
        *,
        key: Key | bytes | str | None = None,
        step: int = 0,
        engine: Engine | None = None,
    ) -> Dataset:
        """Protect the data by this one method. Keyed methods draw a new key when none is given."""
        where = engine or engine_for(data.frame)
        require_engine(self, where)
        data = where.prepare(data)
        data.schema.require(self.touches(data.schema))
        chance = Chance(Key.of(key), step) if self.keyed else None
        fitted = self.fit_keyed(data, where, chance)
        return carry_out(self, data, fitted, engine=where, chance=chance)

    def set_report(self, name: str) -> dict[str, Any]:
        """The parameters with which a measure that it `reports` or `informs` is taken."""
        del name
        return {}

    def require_over_tables(self, number: int) -> None:
        """Refuse parameters that make no sense over several tables; `number` is of the step."""
        del number

    def explain_refusal(self, engine: Engine) -> str:
        """Why these parameters do not run on an engine that others run on; empty where they do."""
        del engine
        return ""

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """What an analyst may and must know of it. Never a fitted value unless overridden.

        It is published, and so is what `describes` returns. Ask of every fitted value in it: what
        do two of them tell, of n records and of n - 1? (See "What leaves" in the docs; a test
        asks the same of every method.) Override it where a parameter names values, which no cell
        may show, or gives away what the custodian may keep back: the size of noise (see
        `describes`).
        """
        del fitted
        return {"method": self.name, **list_settings(self)}

    def describes(self, fitted: Fitted, schema: Schema) -> dict[str, NoiseDescription]:
        """The noise it leaves in each variable, for analysts who take it out. Most leave none."""
        del fitted, schema
        return {}

    def follows(self, fitted: Fitted) -> dict[str, dict[str, Any]]:
        """What the draws for each variable are known by, under one key. Most take none.

        Noise of any size is on one path, so a second size tells nothing more. Where something in
        here differs, the draws are independent ones: somebody who has both can average them.
        """
        del fitted
        return {}


def carry_out(
    step: Method, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
) -> Dataset:
    """Protect the data by a fitted method; variables with ranges, sets or masks are declared so."""
    touched = step.touches(data.schema)
    released = step.transform(data, fitted, engine=engine, chance=chance)
    return declare_generalised(data, released, touched, step.name, engine=engine, draws=step.keyed)


class RowWise(Method):
    """A method that treats each record by itself, given a few fitted values."""

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """The variables it looks at."""
        return self.touches(schema)

    @abstractmethod
    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """New values of the touched variables for a batch of records."""

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """What the variables are afterwards."""
        del fitted
        return schema

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Run `rows` over all records, on any engine."""
        result = engine.map_rows(
            data,
            lambda batch, draws: self.rows(batch, fitted, draws),
            reads=self.reads(data.schema),
            chance=chance,
        )
        return replace(result, schema=self.reschema(data.schema, fitted))


class Grouped(Method):
    """A method that treats all records of a stratum together, several strata at a time."""

    @abstractmethod
    def by(self, schema: Schema) -> tuple[str, ...]:
        """The variables whose combinations are the strata."""

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """The variables it looks at within a stratum."""
        return self.touches(schema)

    @abstractmethod
    def groups(
        self, batch: pl.DataFrame, starts: Starts, fitted: Fitted, draws: Draws | None
    ) -> pl.DataFrame:
        """New values of the touched variables for all records of some strata."""

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Run `group` over all strata, on any engine."""
        return engine.map_groups(
            data,
            lambda batch, starts, draws: self.groups(batch, starts, fitted, draws),
            by=self.by(data.schema),
            reads=self.reads(data.schema),
            chance=chance,
        )


def require_numbers(
    data: Dataset, names: Sequence[str], owner: str, *, dates: bool, engine: Engine
) -> None:
    """Fail, naming the variable, on what is no number (or date), or is not finite."""
    data.schema.require(names)
    types = {name: data.dtype(name) for name in names}
    for name, dtype in types.items():
        if not dtype.is_numeric() and not (dates and dtype in (pl.Date, pl.Datetime)):
            raise MethodError(
                f"{owner} needs numbers{' or dates' if dates else ''}; variable '{name}' "
                f"holds {_describe(dtype)}.",
                hint="leave it out, or declare how to read it.",
            )
    floats = [name for name, dtype in types.items() if dtype.is_float()]
    for name, summary in engine.aggregate(data, {name: [Infinite()] for name in floats}).items():
        if summary["infinite"]:
            raise DataError(
                f"Variable '{name}' holds infinite values.",
                hint="set them to missing, or correct them at the source.",
            )


def require_draws(draws: Draws | None, owner: str) -> Draws:
    """The draws of a keyed method; it cannot do without."""
    if draws is None:
        raise MethodError(f"{owner} needs a key.", hint="pass key=…, or leave it to protect.")
    return draws


def is_integer(data: Dataset, name: str) -> bool:
    """Whether a variable holds whole numbers, or is declared to."""
    return data.schema[name].kind == "integer" or data.dtype(name).is_integer()


def _describe(dtype: pl.DataType) -> str:
    if dtype == pl.Boolean:
        return "yes/no values"
    return "dates" if dtype.is_temporal() else "text"
