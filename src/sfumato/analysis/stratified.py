"""Noise that differs by stratum: numbers whose noise has a variance of its own for each record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.analysis.problem import Number, Problem
from sfumato.cells.noise.described import Noise, StratifiedGaussian
from sfumato.cells.noise.strata import key_of
from sfumato.errors import DataError
from sfumato.kernels.arrays import Floats, Integers

if TYPE_CHECKING:
    from sfumato.analysis.prepared import Prepared
    from sfumato.cells.noise.scales import Growth


@dataclass(frozen=True)
class ByStratum(Noise):
    """Noise that differs by stratum, whose records are still to be looked up.

    Parameters
    ----------
    told : its description.
    """

    distribution = "stratified_gaussian"
    told: StratifiedGaussian

    def plain(self) -> dict[str, Any]:
        """The description as it stands in a manifest."""
        return self.told.plain()

    @property
    def by(self) -> list[str]:
        """The variables that make up the strata."""
        return list(self.told.strata[0].get("where", {}))

    def of(self, name: str) -> int:
        """The place of a variable among those perturbed together."""
        if name not in self.told.variables or self.told.weight == 0:
            what = "is not among the variables of its own description"
            gone = "was replaced by noise altogether, so nothing of it is left"
            raise DataError(
                f"Variable '{name}' {what if self.told.weight else gone}.",
                hint="is it the description of these data?",
            )
        return self.told.variables.index(name)

    def shared(self, one: str, other: str) -> bool:
        """Whether the noise of two variables goes together in any stratum."""
        a, b = self.of(one), self.of(other)
        return any(each["covariance"][a][b] for each in self.told.strata)


@dataclass(frozen=True, eq=False)
class Each:
    """The variance of the noise of each record, where others say how it grows with the value."""

    values: Floats = field(repr=False)
    form: str = "each"

    def variance(self, x: Floats) -> Floats:  # noqa: ARG002 - it depends on the record alone
        """Of all records, whatever their values."""
        return self.values


@dataclass(frozen=True, eq=False, kw_only=True)
class StratifiedNumber(Number):
    """A number whose noise differs by stratum.

    Parameters
    ----------
    told : the description of the noise.
    stratum : the place of each record's stratum in it.
    covariances : of the noise of all variables in each stratum, on the scale of `seen`.
    """

    told: ByStratum = field(repr=False)
    stratum: Integers = field(repr=False)
    covariances: Floats = field(repr=False)

    def shared(self, other: Number) -> Floats:
        """The covariance with the noise of another, for each record."""
        if not isinstance(other, StratifiedNumber) or other.told != self.told:
            return np.zeros(len(self.stratum))
        a, b = self.told.of(self.name), self.told.of(other.name)
        made: Floats = self.covariances[self.stratum, a, b]
        return made


def place_of(
    name: str, told: Sequence[Mapping[str, Any]], strata: pl.DataFrame
) -> npt.NDArray[np.int64]:
    """The place of each record's stratum in a description.

    Parameters
    ----------
    name : the variable that is described.
    told : the strata, each with `where`.
    strata : the variables that make them up.
    """
    known = {key_of([one["where"][key] for key in strata.columns]): i for i, one in enumerate(told)}
    found = strata.unique(maintain_order=True)
    at = [known.get(key_of(row)) for row in found.iter_rows()]
    if None in at:
        raise DataError(
            f"Variable '{name}' has records of a stratum that its description does not name.",
            hint="is it the description of these data?",
        )
    numbered = found.with_columns(pl.Series("", at, dtype=pl.Int64))
    joined = strata.join(
        numbered, on=strata.columns, how="left", nulls_equal=True, maintain_order="left"
    )
    made: npt.NDArray[np.int64] = joined[""].to_numpy()
    return made


def looked_up(
    ready: Prepared, noise: Mapping[str, Noise], measured: Mapping[str, float]
) -> Prepared:
    """Variables with the noise of each record's stratum.

    Parameters
    ----------
    ready : the variables; `by` names those that make up the strata.
    noise : descriptions by variable.
    measured : the variance of the error that a measurement has anyway, by variable.
    """
    columns, numbers = dict(ready.columns), dict(ready.numbers)
    for name, one in ready.numbers.items():
        told = noise.get(name)
        if isinstance(told, ByStratum):
            numbers[name] = _number(one, told, ready.strata(name), measured.get(name, 0.0))
            columns[name] = numbers[name].seen
    return replace(ready, columns=columns, numbers=numbers)


def _number(one: Number, told: ByStratum, strata: pl.DataFrame, own: float) -> StratifiedNumber:
    at, weight = told.of(one.name), told.told.weight
    stratum = place_of(one.name, told.told.strata, strata)
    means = np.asarray([each["mean"] for each in told.told.strata], float)
    covariances = np.asarray([each["covariance"] for each in told.told.strata], float) / weight**2
    return StratifiedNumber(
        name=one.name,
        seen=(one.seen - means[stratum, at]) / weight,
        variance=None,
        growth=cast("Growth", Each(covariances[stratum, at, at] + own)),
        told=told,
        stratum=stratum,
        covariances=covariances,
    )


def with_strata(problem: Problem) -> Problem:
    """With the strata among the clean columns: true values differ by them, as their noise does."""
    columns = [problem.covariates]
    seen: list[ByStratum] = []
    for one in [*problem.numbers, problem.outcome_number]:
        if isinstance(one, StratifiedNumber) and one.told not in seen:
            seen.append(one.told)
            some = np.unique(one.stratum)[1:]
            columns.append((one.stratum[:, None] == some).astype(float))
    return replace(problem, covariates=np.column_stack(columns)) if seen else problem


def by_record(problem: Problem) -> bool:
    """Whether some noise has a variance of its own for each record."""
    numbers = [*problem.numbers, problem.outcome_number]
    return any(isinstance(one, StratifiedNumber) for one in numbers)


def errors_of(problem: Problem) -> Floats:
    """(record or one for all, number, number): the covariance of the noise of the numbers."""
    if not any(isinstance(one, StratifiedNumber) for one in problem.numbers):
        return problem.error[None]
    made = np.repeat(problem.error[None], problem.records, axis=0)
    for a, one in enumerate(problem.numbers):
        if isinstance(one, StratifiedNumber):
            for b, other in enumerate(problem.numbers):
                if isinstance(other, StratifiedNumber):
                    made[:, a, b] = one.shared(other)
            assert one.growth is not None  # noqa: S101 - that of each record
            made[:, a, a] = one.growth.variance(one.seen)
    return made
