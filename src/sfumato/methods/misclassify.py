"""PRAM, the post-randomisation method: exchange categories with known probabilities."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, field_validator, model_validator

from sfumato.cells.codes import (
    count_rare_levels,
    decode_levels,
    encode_levels,
    encode_strata,
    find_levels,
    report_observed_levels,
    require_common_levels,
    restore_categories,
    sort_strata,
    to_plain,
)
from sfumato.cells.notation import format_value
from sfumato.data import Dataset
from sfumato.engines import Chance, Engine
from sfumato.errors import MethodError, PlanError
from sfumato.kernels.arrays import Floats, Integers, Positions
from sfumato.method import Fitted, RowWise, require_draws
from sfumato.methods._noise.drawing import require_large_strata, select_draws
from sfumato.methods._publishing.counts import EPSILON, noise_counts
from sfumato.methods.noise_tiers import (
    chain_matrices,
    describe_chains,
    exchange_again,
    multiply_again,
)
from sfumato.methods.persons import (
    BY_PERSON,
    count_units,
    describe_draws_by,
    draw_for_variable,
    list_once,
    mark_constant,
)
from sfumato.noise import description as described
from sfumato.noise.description import TOLERANCE, Level
from sfumato.noise.transitions import (
    describe_draws,
    draw_along_path,
    draw_transitions,
    find_survival,
    invariant,
    to_all,
    to_marginal,
    to_near,
)
from sfumato.parameters import parameters
from sfumato.randomness import Draws, Key, fold_name
from sfumato.schema import Column, Schema

Share = Annotated[float, Field(ge=0, lt=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
Rows = dict[str, dict[str, Probability]]
MOST = 300
"""Levels of a variable whose matrix a manifest can hold."""
_AGAIN = "say again = true in the tier: its retention or matrix is then that of a further exchange."


@parameters
class Misclassify(RowWise):
    """Exchange each category for another with a known probability (PRAM).

    Question: how can every released category be in doubt while their distribution can be estimated?
    Assumes: an analyst takes the matrix from the manifest into account. `invariant` keeps the
    expected frequencies of one variable; how it goes together with others is weakened all the
    same. Records are exchanged independently, so the share that stays in the data varies around
    its probability. Missing stays missing. A variable that is constant within every person (role
    "person"), as the strata are, is exchanged once for each person, and stays constant.

    The stated retention is a floor: no level stays with a smaller probability, however rare.

    A matrix that depends on frequencies is computed from noised counts, and is published as it was
    used. What the noise costs: `invariant` keeps frequencies to within about three times `fewest`
    records times 1 - retention, rarely more than ten times. Without `invariant` and "marginal" no
    matrix depends on the data.

    Parameters
    ----------
    variables : the categories: nominal, ordinal, yes/no, or whole numbers with few values.
    retention : least probability that a value stays: one for all, or by variable.
    towards : where other values move: "equal" over all other levels, "marginal" in proportion to
        how frequent they are, "near" over the two neighbours of a level (ordinal or whole numbers).
    matrix : probabilities of exchange, by variable: instead of `towards`, true level, released
        level, probability, `{sex = {f = {f = 0.9, m = 0.1}, m = {m = 1}}}`; or lists of numbers
        where the schema declares the levels and their order.
    invariant : keep the frequencies of the levels, in expectation. Exchanges for rarer levels
        become less likely, so frequent levels stay more often than stated. A rare level is then
        right as often as it stays: without, it hides better.
    strata : within groups of: variables within whose combinations frequencies are taken, and kept.
        They are released as they are.
    fewest : fewest records in a stratum: or the data, where there are no strata. It counts where
        the matrix depends on frequencies, and the step in which counts are rounded and noised for
        it, since it is published, and tells them. One record more leaves it as it was but once in
        `fewest` times. Persons with several rows (role "person") are counted, each for the
        commonest of theirs.
    again : exchange what the tier before released; in a tier of a plan, with this retention or
        matrix. The published matrix is that of all exchanges together.
    finer : exchanges of the more trusted tiers: what they have in place of `retention`, `matrix`
        and `again`, as a plan with tiers writes it. The release is theirs, exchanged again.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> data = sf.Dataset(pl.DataFrame({"sex": ["f", "m"] * 500}), sf.Schema({"sex": "quasi"}))
    >>> released = Misclassify(variables=["sex"], retention=0.8).apply(data, key=bytes(32))
    >>> stayed = (released.frame["sex"] == data.frame["sex"]).mean()
    >>> 0.75 < stayed < 0.85
    True

    References: Gouweleeuw, Kooiman, Willenborg & de Wolf (1998), Post randomisation for statistical
    disclosure control, J. Official Statistics 14:463; Goldstein & Shlomo (2020), section 5.
    """

    name = "misclassify"
    runs_on = ("local", "streaming", "spark")
    tiered = ("retention", "matrix", "again")
    odd = {"empty": (2,), "one row": (2,), "all missing": (2,), "constant": (2,)}
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
    again: bool | None = None
    finer: list[dict[str, Any]] | None = None

    @field_validator("matrix", mode="before")
    @classmethod
    def _format_levels(cls, matrix: Any) -> Any:
        """A plan file has text as keys; in Python a number or a truth value is at hand."""
        if not isinstance(matrix, Mapping):
            return matrix
        return {name: _format_rows(rows) for name, rows in matrix.items()}

    @model_validator(mode="after")
    def _check_parameters(self) -> Self:
        if self.retention is None and self.matrix is None:
            msg = "give the retention, or the matrix of each variable."
            raise ValueError(msg)
        if self.again and not self.finer:
            msg = "nothing was exchanged before: `again` is for a tier after the first."
            raise ValueError(msg)
        both = set(self.variables) & set(self.strata)
        if both:
            msg = f"'{min(both)}' cannot be both exchanged and a stratum."
            raise ValueError(msg)
        if self.strata and not self._uses_frequencies:
            msg = 'strata matter only with towards = "marginal" or invariant = true.'
            raise ValueError(msg)
        return self

    @property
    def _uses_frequencies(self) -> bool:
        """Whether some matrix depends on how frequent levels are."""
        by_matrix = set(self.matrix or {}) == set(self.variables)
        return self.invariant or (self.towards == "marginal" and not by_matrix)

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """The categories and the strata, and whose they are."""
        named = (*self.variables, *self.strata)
        return (*named, *(name for name in schema.having("person", "cluster") if name not in named))

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """The levels and matrices for a look, without a key: no matrix of these is published."""
        return self.fit_keyed(data, engine, None)

    def fit_keyed(self, data: Dataset, engine: Engine, chance: Chance | None) -> dict[str, Any]:
        """The levels and the matrices of each variable, as they are used and published."""
        data.schema.require(self.reads(data.schema))
        self._require_each_variable()
        key = None if chance is None else chance.key
        fitted = {name: self._fit_variable(name, data, engine, key) for name in self.variables}
        if self.finer is not None:
            tiers = [self._fit_tier(tier, data, engine, chance) for tier in self.finer]
            fitted = self._chain_tiers([*tiers, fitted])
        return mark_constant(fitted, data, engine, strata=self.strata)

    def _fit_tier(
        self, tier: Mapping[str, Any], data: Dataset, engine: Engine, chance: Chance | None
    ) -> dict[str, Any]:
        """The matrices of a more trusted tier, as that one states them."""
        settings: dict[str, Any] = {name: tier.get(name) for name in ("retention", "matrix")}
        step = replace(self, finer=None, again=None, **settings)
        return step.fit_keyed(data, engine, chance)

    def _chain_tiers(self, tiers: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The last tier, each of whose values is that of the tier before, exchanged again."""
        again = [bool(tier.get("again")) for tier in (*(self.finer or ()), {"again": self.again})]
        last = tiers[-1]
        for name, fit in last.items():
            fit["chain"] = []
            for number, stratum in enumerate(fit["strata"]):
                stated = [np.array(tier[name]["strata"][number]["matrix"], float) for tier in tiers]
                totals = multiply_again(stated, again)
                stratum["matrix"] = totals[-1].tolist()
                further = chain_matrices(totals, name, _AGAIN)
                fit["chain"].append([totals[0].tolist(), *(step.tolist() for step in further)])
        return last

    def _require_each_variable(self) -> None:
        """What is given by variable must be there for each of them, and for no other."""
        tables = (self.matrix, self.retention)
        named = [set(table) for table in tables if isinstance(table, Mapping)]
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

    def _fit_variable(
        self, name: str, data: Dataset, engine: Engine, key: Key | None
    ) -> dict[str, Any]:
        column = data.schema[name]
        distinct = count_units(data, [*self.strata, name], engine)
        levels, declared = find_levels(
            name, column, distinct, most=MOST, ordered=self.towards == "near"
        )
        codes = encode_levels(distinct.values[name], levels)
        columns = [distinct.values[stratum].to_list() for stratum in self.strata]
        rows = list(zip(*columns, strict=True)) if self.strata else [()] * len(codes)
        counts: dict[tuple[Any, ...], Floats] = {} if self.strata else {(): np.zeros(len(levels))}
        for row, level, count in zip(rows, codes.tolist(), distinct.counts.tolist(), strict=True):
            of_stratum = counts.setdefault(tuple(map(to_plain, row)), np.zeros(len(levels)))
            if level >= 0:
                of_stratum[level] += count
        if self._uses_frequencies:
            require_large_strata(
                np.array([of_stratum.sum() for of_stratum in counts.values()]),
                self.fewest,
                self.strata,
            )
        strata = [
            {
                "where": dict(zip(self.strata, row, strict=True)),
                "matrix": self._build_matrix(name, column, levels, counts[row], row, key).tolist(),
            }
            for row in sort_strata(list(counts))
        ]
        rare = 0 if self._names_levels(name) else count_rare_levels(name, column, distinct)
        return {"levels": levels, "declared": declared, "rare": rare, "strata": strata}

    def _names_levels(self, name: str) -> bool:
        """Whether the plan itself names every level of a variable, in its matrix."""
        return isinstance((self.matrix or {}).get(name), Mapping)

    def _build_matrix(
        self,
        name: str,
        column: Column,
        levels: Sequence[Level],
        counts: Floats,
        stratum: tuple[Any, ...],
        key: Key | None,
    ) -> Floats:
        """The probabilities of one variable in one stratum."""
        # The matrix gives these shares away, so they are not the exact ones.
        purpose = fold_name(name), json.dumps(stratum)
        noised = noise_counts(counts, self.fewest, levels, key, *purpose)
        shares = noised / noised.sum()
        floor = self.retention.get(name) if isinstance(self.retention, Mapping) else self.retention
        written = name in (self.matrix or {})
        if written:
            ordered = column.domain is not None or isinstance(levels[0], bool)
            matrix = _read_matrix((self.matrix or {})[name], name, levels, declared=ordered)
            _require_floor(matrix, floor, name)
        else:
            matrix = self._spread_rest(name, column, shares, floor or 0.0)
        by_frequency = self.invariant or (self.towards == "marginal" and not written)
        if by_frequency and (counts > 0).sum() == 1:
            where = "in a stratum " if self.strata else ""
            raise MethodError(
                f"Variable '{name}' has one level only {where}that occurs, and a matrix by "
                "frequencies would reveal that.",
                hint='take towards = "equal" without invariant, or fewer variables in `strata`.',
            )
        return invariant(matrix, shares) if self.invariant else matrix

    def _spread_rest(self, name: str, column: Column, shares: Floats, floor: float) -> Floats:
        """A level stays with the stated probability, and the rest goes where `towards` says."""
        levels = len(shares)
        if floor < 1 / levels:
            raise PlanError(
                f"The retention of variable '{name}' is less than one in its {levels} levels: a "
                "released value would reveal what the true one is not.",
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

    def describes(self, fitted: Fitted, schema: Schema) -> dict[str, described.NoiseDescription]:
        """The matrix of each variable, or those of its strata."""
        del schema
        require_common_levels(fitted)
        return {name: self._describe_variable(fitted[name]) for name in self.variables}

    def _describe_variable(self, fit: Mapping[str, Any]) -> described.Misclassification:
        if self.strata:
            return described.Misclassification(levels=fit["levels"], strata=fit["strata"])
        return described.Misclassification(levels=fit["levels"], matrix=fit["strata"][0]["matrix"])

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Which variables were exchanged; how stands in the manifest under `noise`."""
        described = {
            "method": self.name,
            "variables": list(self.variables),
            **report_observed_levels(fitted),
            **list_once(fitted),
        }
        if self._uses_frequencies:
            noise = {"step": self.fewest, "noise": "two-sided geometric", "epsilon": EPSILON}
            described["frequencies"] = noise
        return described | ({"strata": list(self.strata)} if self.strata else {})

    def follows(self, fitted: Fitted) -> dict[str, dict[str, Any]]:
        """The levels of each variable; and a matrix that does not exchange all of them alike."""
        return {
            name: {
                "method": self.name,
                "levels": list(fit["levels"]),
                "matrix": [
                    {"where": stratum["where"], "matrix": stratum["matrix"]}
                    for stratum in fit["strata"]
                    if find_survival(np.array(stratum["matrix"], float)) is None
                ]
                if "chain" not in fit
                else [],
                **describe_chains(fit),
                **describe_draws_by(fit),
            }
            for name, fit in fitted.items()
        }

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Exchanged categories for a batch of records."""
        draws = require_draws(draws, "Chance")
        return pl.DataFrame(
            [
                self._apply_pram(
                    name,
                    batch,
                    fitted[name],
                    draw_for_variable(draws, batch, fitted[name].get(BY_PERSON)),
                )
                for name in self.variables
            ]
        )

    def _apply_pram(
        self, name: str, batch: pl.DataFrame, fit: Mapping[str, Any], draws: Draws
    ) -> pl.Series:
        codes = encode_levels(batch[name], fit["levels"])
        stratum_of = encode_strata(batch, self.strata, fit["strata"])
        released = codes.copy()
        for number, stratum in enumerate(fit["strata"]):
            rows = np.flatnonzero(stratum_of == number)
            if len(rows):
                chain = fit["chain"][number] if "chain" in fit else [stratum["matrix"]]
                matrix, *further = (np.array(step, float) for step in chain)
                some = select_draws(draws, rows)
                exchanged = _exchange(name, codes[rows], fit["levels"], matrix, some)
                released[rows] = exchange_again(name, exchanged, fit["levels"], further, some)
        return decode_levels(released, fit["levels"], batch[name])

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Exchange, and give categories back the type that they had."""
        released = super().transform(data, fitted, engine=engine, chance=chance)
        return restore_categories(data, released, self.variables)


def _exchange(
    name: str, codes: Integers, levels: Sequence[Level], matrix: Floats, draws: Draws
) -> Integers:
    """The released levels of the records of one stratum."""
    true = codes.astype(float)
    survival = find_survival(matrix)
    if survival is None:
        # One uniform draw a record, which belongs to it under this key and this matrix.
        uniform = draws.lasting(name, describe_draws(levels, matrix), true)
        return draw_transitions(codes, uniform, matrix)

    def draw(purpose: str, rows: Positions) -> Floats:
        described = json.dumps(["misclassification path", list(levels), purpose])
        return select_draws(draws, rows).lasting(name, described, true[rows])

    return draw_along_path(codes, len(levels), survival, draw)


def _require_floor(matrix: Floats, floor: float | None, name: str) -> None:
    if floor is not None and matrix.diagonal().min() < floor:
        raise PlanError(
            f"The matrix of variable '{name}' lets some level stay with less than the retention.",
            hint="raise its diagonal, or lower the retention.",
        )


def _read_matrix(
    rows: Mapping[str, Mapping[str, float]] | Sequence[Sequence[float]],
    name: str,
    levels: Sequence[Level],
    *,
    declared: bool,
) -> Floats:
    """A matrix as somebody wrote it down, in the order of the levels."""
    known = [format_value(level) for level in levels]
    if isinstance(rows, Mapping):
        named = {level for row in rows.values() for level in row}
        if set(rows) != set(known) or not named <= set(known):
            raise PlanError(
                f"The matrix of variable '{name}' must have a row for each of its levels, and name "
                "no other.",
                hint="a level that always stays has a row too: { f = { f = 1 } }.",
            )
        matrix = np.array([[rows[true].get(released, 0.0) for released in known] for true in known])
    else:
        if not declared:
            raise PlanError(
                f"The matrix of variable '{name}' has no levels beside it, and the schema declares "
                "none.",
                hint="declare them as its domain, or write the matrix with its levels.",
            )
        square = [len(rows), *map(len, rows)] == [len(known)] * (len(known) + 1)
        matrix = np.array(rows if square else [[0.0]], float)
    if matrix.shape != (len(known),) * 2 or (np.abs(matrix.sum(axis=1) - 1) > TOLERANCE).any():
        raise PlanError(
            f"The matrix of variable '{name}' needs a probability for each of its {len(known)} "
            "levels in every row, and each row must add up to 1.",
            hint="row: true level; column: released level.",
        )
    if ((matrix > 0).sum(axis=0) <= 1).all():
        raise PlanError(
            f"The matrix of variable '{name}' hides nothing: every released level comes from one "
            "true level.",
            hint="exchange levels with probabilities between 0 and 1.",
        )
    return matrix


def _format_rows(rows: Any) -> Any:
    """Rows whose levels are text; two that become the same are refused, not lost."""
    if not isinstance(rows, Mapping):
        return rows
    texts = {format_value(level): _format_keys(row) for level, row in rows.items()}
    _require_all(texts, rows)
    return texts


def _format_keys(row: Any) -> Any:
    if not isinstance(row, Mapping):
        return row
    texts = {format_value(level): share for level, share in row.items()}
    _require_all(texts, row)
    return texts


def _require_all(texts: Mapping[str, Any], levels: Mapping[Any, Any]) -> None:
    if len(texts) < len(levels):
        msg = "the matrix of a variable names a level twice."
        raise ValueError(msg)
