"""Give each variable one level of its hierarchy: the best choice of levels that keeps k."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from sfumato.cells.notation import WILDCARD, format_value
from sfumato.data import Dataset
from sfumato.engines import Chance, Combinations, Engine
from sfumato.engines.local import find_class_of_each
from sfumato.errors import MethodError, PlanError
from sfumato.method import Fitted, Method, Strength
from sfumato.methods._generalisation.levels import LevelledVariable, level_variable
from sfumato.methods._generalisation.search import BestNode, LevelledRows, search_levels
from sfumato.methods._recoding.grouping import redeclare_groups
from sfumato.methods._suppression.local_suppression import encode_rows
from sfumato.methods.clustering.method import encode_sensitive
from sfumato.methods.clustering.variables import ConfidentialRule
from sfumato.methods.l_diversity import LDiversity
from sfumato.methods.persons import count_alike, has_persons
from sfumato.methods.t_closeness import TCloseness
from sfumato.parameters import parameters
from sfumato.schema import Schema
from sfumato.schema.hierarchies import Hierarchy

Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Level = Annotated[int, Field(ge=0)]


@parameters
class Generalise(Method):
    """Give each variable one level of its hierarchy: the levels that lose least and keep k.

    Question: which named groups are fine enough for analysts and broad enough for everybody?
    Assumes: the outsider knows `variables` and no others. All records show the same level of a
    variable: the value itself (level 0), a group of the hierarchy that the schema declares, or, as
    the last level, `*`. A variable without a hierarchy has the value and `*`. Records in a class of
    fewer than k are suppressed: each of their cells becomes `*`. They are a class as well; where
    they would be fewer than k, the class that costs least joins them. Missing is a value of its
    own, up to `*`.

    Every choice of levels is ruled out or tried, so the result is the optimum; the reason stands in
    `methods/_generalisation/search.py`. `fitted` has the levels, what they lose, how many choices
    were tried, and `gap`: how much better another choice may be. It is 0 unless there are more
    than a million choices, or the search has grouped 2^30 rows.

    Where rows belong to persons (role "person"), k counts persons. Variables that change within a
    person are then refused.

    Parameters
    ----------
    variables : what is generalised. Default: all whose role is "quasi".
    k : fewest records in a class, or persons.
    suppression : largest share of records, or persons, that may be suppressed.
    loss : what is to be least. "granularity" is the mean share of a variable's values that a cell
        leaves open; "entropy" the share of the bits that tell one value of the group from another
        (non-uniform entropy); "discernibility" the pairs of records that look alike, a suppressed
        record like all; "class size" the mean size of a class.
    l : fewest different confidential values in a class.
    confidential : variable that l and t are about, or several. Default: all whose role is
        "sensitive".
    t : largest distance of a class from all records: in a confidential variable; see `t_closeness`.
        With suppression, classes that are too far are suppressed like small ones.
    lowest : lowest level of a variable that may be chosen: `{ age = 1 }`. Default: 0.
    highest : highest level that may be chosen. Default: `*`.
    weights : what a variable's loss counts: `{ age = 3 }`, by default 1; for "granularity" and
        "entropy".

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> age = sf.Column(role="quasi", hierarchy=sf.hierarchies.intervals(20, 39, [5, 10]))
    >>> data = sf.Dataset(pl.DataFrame({"age": [20, 24, 31, 33]}), sf.Schema({"age": age}))
    >>> Generalise(k=2).apply(data).frame["age"].to_list()
    ['[20;24]', '[20;24]', '[30;34]', '[30;34]']

    References: Samarati (2001), IEEE Transactions on Knowledge and Data Engineering 13:1010
    (full-domain generalisation); El Emam et al. (2009), JAMIA 16:670 (optimum over the lattice);
    Prasser & Kohlmayer (2015), Medical Data Privacy Handbook (ARX); Iyengar (2002), KDD; De Waal &
    Willenborg (1999), Neth. Off. Stat. 14:17; Bayardo & Agrawal (2005), ICDE.
    """

    name = "generalise"
    strength = Strength("k")
    treats = "records"
    reports = ("information_loss",)
    runs_on = ("local", "streaming", "spark")
    odd = {"empty": "refused", "one row": "refused", "all missing": (1,), "constant": (1,)}
    examples = (
        {"variables": ["ethnicity", "region", "sex"]},
        {
            "variables": ["ethnicity", "education", "sex"],
            "confidential": "diagnosis",
            "k": 3,
            "l": 2,
            "suppression": 0.1,
        },
        {
            "variables": ["ethnicity", "region", "household_size"],
            "loss": "discernibility",
            "suppression": 0.0,
            "lowest": {"ethnicity": 1},
        },
    )
    variables: Annotated[list[str], Field(min_length=1)] | None = None
    k: Annotated[int, Field(ge=2)] = 5
    suppression: Annotated[float, Field(ge=0, le=1)] = 0.05
    loss: Literal["granularity", "discernibility", "entropy", "class size"] = "granularity"
    l: Annotated[float, Field(ge=1)] | None = None  # noqa: E741 - the literature's letter
    confidential: str | list[str] | None = None
    t: Annotated[float, Field(ge=0, le=1)] | None = None
    lowest: dict[str, Level] = Field(default_factory=dict)
    highest: dict[str, Level] = Field(default_factory=dict)
    weights: dict[str, Weight] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        if self.confidential is not None and self.l is None and self.t is None:
            msg = "confidential is for l and t; give one of them."
            raise ValueError(msg)
        if self.weights and self.loss not in ("granularity", "entropy"):
            msg = 'weights are for the losses "granularity" and "entropy".'
            raise ValueError(msg)
        return self

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The variables that are generalised."""
        if self.variables is not None:
            return tuple(self.variables)
        return schema.having("quasi")

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """The best levels, and what they lose."""
        names = self._list_variables(data)
        problem = self._read_rows(data, names, engine)[0]
        found = search_levels(problem)
        if not isinstance(found, BestNode):
            at_best = found.broken / problem.total
            raise MethodError(
                f"No levels of the variables keep {self._describe_rules()}: even at the highest, "
                f"{math.ceil(at_best * 1000) / 10:g} % of the records would have to be suppressed.",
                hint="allow higher levels in `highest`, more suppression, or a smaller k.",
            )
        marked = problem.mark_suppressed(found.node)
        return {
            "levels": {
                variable.name: variable.first + level
                for variable, level in zip(problem.variables, found.node, strict=True)
            },
            "loss": found.loss,
            "suppressed": int(problem.counts[marked].sum()) / problem.total,
            "choices": math.prod(problem.shape),
            "tried": found.tried,
            "gap": found.gap,
        }

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Write the group of each value, and `*` where a record is suppressed."""
        del chance
        names = self._list_variables(data)
        problem, distinct = self._read_rows(data, names, engine)
        levels: Mapping[str, int] = fitted["levels"]
        marked = problem.mark_suppressed(tuple(levels[v.name] - v.first for v in problem.variables))
        hidden = pl.Series("hidden", marked)
        used = [v for v in problem.variables if levels[v.name] or marked.any()]
        if not used:
            return data
        cells = pl.DataFrame([_hide(v.write_cells(levels[v.name]), hidden) for v in used])
        columns = distinct.values.columns

        def write_cells(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
            del draws
            return cells[find_class_of_each(batch.select(columns), distinct.values)]

        written = engine.map_rows(_show(data, names), write_cells, reads=columns)
        schema = _declare_groups(data.schema, {v.name: levels[v.name] for v in used})
        return replace(written, schema=schema)

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Every parameter, and the levels, which every cell shows."""
        return {**super().public(fitted), "levels": dict(fitted["levels"])}

    def _list_variables(self, data: Dataset) -> tuple[str, ...]:
        names = self.touches(data.schema)
        if not names:
            raise MethodError(
                "There is no variable to generalise.",
                hint='name some in variables, or give some the role "quasi".',
            )
        data.schema.require(names)
        for what in ("lowest", "highest", "weights"):
            if unknown := [name for name in getattr(self, what) if name not in names]:
                raise PlanError(
                    f"`{what}` names {', '.join(map(repr, unknown))}, which {self.name} does not "
                    "generalise.",
                    hint="name only variables of this step.",
                )
        return names

    def _read_rows(
        self, data: Dataset, names: tuple[str, ...], engine: Engine
    ) -> tuple[LevelledRows, Combinations]:
        """The rows that differ, as levels and as they are."""
        self._require_enough(engine.count(data), "records")
        rules = self._list_rules(data, names, engine)
        columns = [*names, *dict.fromkeys(rule.name for rule in rules)]
        distinct = _sort(count_alike(_show(data, names), columns, engine, self.name))
        total = int(distinct.counts.sum())
        self._require_enough(total, "persons" if has_persons(data) else "records")
        problem = LevelledRows(
            [self._level_variable(name, data.schema, distinct) for name in names],
            distinct.counts,
            self.k,
            math.floor(self.suppression * total * (1 + 1e-12)),
            self.loss,
            [self.weights.get(name, 1.0) for name in names],
            encode_sensitive(rules, distinct.values.get_column),
            [replace(rule.rule, column=column) for column, rule in enumerate(rules)],
        )
        return problem, distinct

    def _require_enough(self, number: int, what: str) -> None:
        if number < self.k:
            raise MethodError(
                f"There are {number} {what}, and k = {self.k} needs at least {self.k}.",
                hint="choose a smaller k.",
            )

    def _level_variable(
        self, name: str, schema: Schema, distinct: Combinations
    ) -> LevelledVariable:
        return level_variable(
            distinct.values[name],
            distinct.counts,
            schema[name],
            span=(self.lowest.get(name, 0), self.highest.get(name)),
            by_entropy=self.loss == "entropy",
        )

    def _list_rules(
        self, data: Dataset, names: tuple[str, ...], engine: Engine
    ) -> list[ConfidentialRule]:
        """What every class must keep about confidential variables: as the clusterings keep it."""
        rules: list[ConfidentialRule] = []
        if self.l is not None:
            diverse = LDiversity(confidential=self.confidential, l=self.l)
            rules += diverse.rules(data, names, engine)
        if self.t is not None:
            close = TCloseness(confidential=self.confidential, t=self.t)
            rules += close.rules(data, names, engine)
        return rules

    def _describe_rules(self) -> str:
        bounds = {"k": self.k, "l": self.l, "t": self.t}
        return ", ".join(f"{name} = {bound:g}" for name, bound in bounds.items() if bound)


def _show(data: Dataset, names: tuple[str, ...]) -> Dataset:
    """The data as an outsider sees them: which code for missing a cell holds can be seen."""
    return replace(
        data, schema=data.schema.changed(names, missing=()), given_identity=data.identity
    )


def _sort(distinct: Combinations) -> Combinations:
    """The rows in the order of their values: engines return them in any."""
    order = np.lexsort(encode_rows(distinct.values).T[::-1])
    return Combinations(distinct.values[order], distinct.counts[order])


def _hide(cells: pl.Series, hidden: pl.Series) -> pl.Series:
    """The cells, with `*` where a record is suppressed."""
    stars = pl.Series(cells.name, [WILDCARD] * len(cells), dtype=pl.String)
    return stars.zip_with(hidden, cells)


def _declare_groups(schema: Schema, levels: Mapping[str, int]) -> Schema:
    """What the variables are at these levels; cells are text now, and so are codes for missing."""
    changed = {}
    for name, level in levels.items():
        column = schema[name]
        hierarchy = Hierarchy.of(column.hierarchy or {})
        codes = tuple(map(format_value, column.missing))
        if 0 < level <= hierarchy.depth and set(hierarchy.at(level).values()) != {WILDCARD}:
            column = redeclare_groups(column, hierarchy.at(level), hierarchy)
        changed[name] = replace(column, missing=codes)
    return schema.with_columns(changed)
