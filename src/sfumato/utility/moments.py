"""Means, spreads, correlations and quantiles before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import (
    canonical_order,
    exact_mean,
    exact_parts,
    exact_sum,
    standard_deviation,
    use_one_thread,
)
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.pairs.alignment import (
    Pair,
    compare_numbers,
    compute_changes,
    find_numeric_variables,
    original_deviation,
    quote_names,
)
from sfumato.pairs.draws import describe_draws, draw_numbers
from sfumato.pairs.standardisation import correlate_sums, pairwise_correlations, sum_products
from sfumato.parameters import parameters
from sfumato.utility.paired.number_sums import Marginal, read_number_pairs

_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
_LARGEST = {
    "mean": "largest_mean_shift",
    "sd": "largest_sd_ratio_off",
    "quantile": "largest_quantile_shift",
    "correlation": "largest_correlation_shift",
    "eigenvalue": "largest_eigenvalue_shift",
}
_ASSUMPTIONS = (
    (
        "Changes of values, means and quantiles are counted in standard deviations of the "
        "original; of a standard deviation, as its ratio less 1; of a correlation or eigenvalue, "
        "as they are."
    ),
    (
        "Each number is of the values that are present; a correlation, of the records with both. "
        "In IL1s a value that became missing counts as the original's mean."
    ),
)


@parameters
class Moments(Measure):
    """How much values, means, spreads, quantiles and correlations changed.

    Question: would an analyst describe the released data as the original?
    Assumes: record by record, the released data belong to the original. The value is IL1s, the
    mean absolute change of a value over √2 standard deviations of the original. Of a range, a
    number is drawn evenly; a value that became missing counts as if it were the original's mean,
    so that no release gains by what it no longer shows.

    Parameters
    ----------
    variables : the numbers to compare. Default: all numbers of the original that the release
        still has, as numbers or as ranges of them.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> schema = sf.Schema({"age": "quasi"})
    >>> original = sf.Dataset(pl.DataFrame({"age": [30.0, 40.0, 50.0]}), schema)
    >>> released = sf.Dataset(pl.DataFrame({"age": [33.0, 40.0, 50.0]}), schema)
    >>> found = Moments(variables=["age"]).measure(original, released)
    >>> round(found.value, 4), found.details["largest_mean_shift"]
    (0.0707, 0.1)

    References: Mateo-Sanz, Sebé & Domingo-Ferrer (2004), Outlier protection in continuous
    microdata masking (IL1s; sdcMicro prints the total); Templ & Meindl (2008), Robust statistics
    meets SDC (eigenvalues).
    """

    name = "moments"
    runs_on = ("local", "streaming", "spark")
    picture = "moments"
    odd = {"one row": 0}
    examples = ({}, {"variables": ["height", "weight_kg", "glucose"]})
    of = "pair"
    numbers = (
        Number.loss(
            "moments",
            meaning="How far a value moved on average, in standard deviations divided by √2 "
            "(IL1s).",
        ),
        Number.loss("il1s"),
        Number.loss("il1s_total"),
        Number.loss("largest_mean_shift"),
        Number.loss("largest_sd_ratio_off"),
        Number.loss("largest_quantile_shift"),
        Number.loss("largest_correlation_shift"),
        Number.loss("largest_eigenvalue_shift"),
    )
    variables: list[str] | None = None

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Compare value by value, then what an analyst would describe."""
        wanted = find_numeric_variables(original) if self.variables is None else self.variables
        original.schema.require(wanted)
        if engine.in_memory:
            pair = self._describe_arrays(original, released, wanted)
        else:
            pair = self._describe_sums(original, released, wanted, engine)
        loss = pair.total / pair.values
        rows = [
            *_compare_marginals(pair.names, pair.before, pair.after),
            *_compare_joint(pair.names, *pair.correlations),
        ]
        return Evidence(
            name=self.name,
            subject="pair",
            value=loss,
            direction=self.direction,
            table=original.like(pl.DataFrame(rows)),
            details={
                "il1s": loss,
                "il1s_total": pair.total,
                **_find_largest(rows),
                "variables": tuple(pair.names),
                **pair.not_compared,
            },
            assumptions=(*_ASSUMPTIONS, *describe_draws(released, pair.names)),
            warnings=pair.warnings,
        )

    def _describe_arrays(
        self, original: Dataset, released: Dataset, wanted: Sequence[str]
    ) -> _Description:
        drawn = draw_numbers(original, released, wanted)
        pair = compare_numbers(original, released, self.variables, owner=self.name, drawn=drawn)
        changes = [_scaled_changes(pair, index) for index in range(len(pair.names))]
        # Summed in one and the same order, whatever the order of the records.
        order = canonical_order([*pair.original.T, *pair.released.T])
        with use_one_thread():
            before, after = (
                pairwise_correlations(side[order]) for side in (pair.original, pair.released)
            )
        return _Description(
            pair.names,
            math.fsum(exact_sum(change) for change in changes),
            sum(map(len, changes)),
            [_describe(column) for column in pair.original.T],
            [_describe(column) for column in pair.released.T],
            (before, after),
            pair.not_compared,
            pair.warnings(lost=False),
        )

    def _describe_sums(
        self, original: Dataset, released: Dataset, wanted: Sequence[str], engine: Engine
    ) -> _Description:
        """The same from sums over the parts of the records."""
        ranges = [n for n in wanted if n in released.schema and released.schema[n].generalised]
        if ranges:
            raise MeasureError(
                f"The release has ranges in {quote_names(ranges)}, and numbers are drawn from "
                "ranges in memory only.",
                hint="name variables without ranges: variables = [...].",
            )
        pair = read_number_pairs(
            original, released, self.variables, engine, owner=self.name, shares=_SHARES
        )
        sides = [
            np.array([[number.mean, number.sd] for number in side]).T
            for side in (pair.before, pair.after)
        ]
        spreads = pair.spreads

        def add_up(before: Floats, after: Floats) -> tuple[Any, ...]:
            with np.errstate(over="ignore"):
                # What became missing moved to the mean.
                changes = np.where(np.isnan(after), before - sides[0][0], after - before)
                losses = np.abs(changes) / (math.sqrt(2) * spreads)
                products = [
                    sum_products(values, *side)
                    for values, side in zip((before, after), sides, strict=True)
                ]
            known = [column[~np.isnan(column)] for column in losses.T]
            return [exact_parts(column) for column in known], sum(map(len, known)), products

        terms, values, products = zip(*pair.gather(add_up), strict=True)
        totals = [math.fsum(chain.from_iterable(column)) for column in zip(*terms, strict=True)]
        for name, total in zip(pair.names, totals, strict=True):
            _require_countable(math.isfinite(total), name)
        correlations = [correlate_sums(sum(side)) for side in zip(*products, strict=True)]
        return _Description(
            pair.names,
            math.fsum(totals),
            sum(values),
            pair.before,
            pair.after,
            (correlations[0], correlations[1]),
            pair.not_compared,
            pair.warnings(lost=False),
        )


@dataclass(frozen=True, eq=False)
class _Description:
    """What an analyst would describe of both data sets.

    Parameters
    ----------
    names : the variables.
    total, values : the sum of all changes, and of how many values.
    before, after : each variable by itself.
    correlations : of both data sets.
    not_compared, warnings : what is not part of it.
    """

    names: tuple[str, ...]
    total: float
    values: int
    before: Sequence[Marginal]
    after: Sequence[Marginal]
    correlations: tuple[Floats, Floats]
    not_compared: dict[str, tuple[str, ...]]
    warnings: tuple[str, ...]


def _describe(column: Floats) -> Marginal:
    values = column[~np.isnan(column)]
    quantiles = tuple(float(np.quantile(values, share)) for share in _SHARES)
    return Marginal(exact_mean(values), standard_deviation(values), quantiles)


def _require_countable(countable: bool, name: str) -> None:  # noqa: FBT001 - the only argument
    if not countable:
        raise MeasureError(
            f"Variable '{name}' changed by more than can be counted in its own spread.",
            hint="leave it out of `variables`, or look at its values.",
        )


def _scaled_changes(pair: Pair, index: int) -> Floats:
    """The absolute change of each value over √2 standard deviations of the original."""
    values = pair.original[:, index]
    became_missing = values[~np.isnan(values) & np.isnan(pair.released[:, index])]
    with np.errstate(over="ignore"):
        changes = compute_changes(pair, index)
        if len(became_missing):
            mean = exact_mean(values[~np.isnan(values)])
            changes = np.concatenate([changes, became_missing - mean])
        loss: Floats = np.abs(changes) / (math.sqrt(2) * original_deviation(pair, index))
    _require_countable(bool(np.isfinite(loss).all()), pair.names[index])
    return loss


def _build_row(
    statistic: str, variable: str, original: float, released: float, change: float
) -> dict[str, Any]:
    return {
        "statistic": statistic,
        "variable": variable,
        "original": original,
        "released": released,
        "moments": change,
    }


def _compare_marginals(
    names: Sequence[str], before: Sequence[Marginal], after: Sequence[Marginal]
) -> Iterator[dict[str, Any]]:
    """Mean, standard deviation and quantiles of each variable; never an extreme value."""
    kinds = ("mean", "sd", *(f"quantile {share:g}" for share in _SHARES))
    for name, was, now in zip(names, before, after, strict=True):
        sides = [(side.mean, side.sd, *side.quantiles) for side in (was, now)]
        for kind, first, second in zip(kinds, *sides, strict=True):
            change = _standardise_change(first, second, was.sd)
            yield _build_row(kind, name, first, second, change)


def _standardise_change(before: float, after: float, scale: float) -> float:
    """The change on a scale; 0 without a change, NaN where there is no scale."""
    # Also where the spread is 0: no change is no change.
    if after == before:
        return 0.0
    return (after - before) / scale if scale > 0 else math.nan


def _compare_joint(
    names: Sequence[str], original: Floats, released: Floats
) -> Iterator[dict[str, Any]]:
    """Correlations of all pairs of variables, and the eigenvalues of their matrix."""
    # A constant has no correlation that could be lost.
    varying = [index for index in range(len(names)) if not np.isnan(original[index, index])]
    for rank, first in enumerate(varying):
        for second in varying[rank + 1 :]:
            both = float(original[first, second]), float(released[first, second])
            label = f"{names[first]} × {names[second]}"  # noqa: RUF001 - it says "times"
            yield _build_row("correlation", label, *both, both[1] - both[0])
    varying_only = np.ix_(varying, varying)
    with use_one_thread():
        sizes = [_eigenvalues(side[varying_only]) for side in (original, released)]
    for rank, (before, after) in enumerate(zip(*sizes, strict=True), 1):
        yield _build_row("eigenvalue", f"number {rank}", before, after, after - before)


def _eigenvalues(correlations: Floats) -> list[float]:
    """From the largest to the smallest; NaN where a correlation is missing."""
    if len(correlations) <= 1:
        return []
    if np.isnan(correlations).any():
        return [math.nan] * len(correlations)
    return [float(size) for size in np.linalg.eigvalsh(correlations)[::-1]]


def _find_largest(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The largest change of each kind of statistic; NaN, with a reason, if one is unknown."""
    largest: dict[str, Any] = {}
    for kind, name in _LARGEST.items():
        changes = [
            (row["variable"], abs(row["moments"]))
            for row in rows
            if row["statistic"].partition(" ")[0] == kind
        ]
        unknown = dict.fromkeys(variable for variable, change in changes if math.isnan(change))
        largest[name] = (
            math.nan if unknown else max((change for _, change in changes), default=math.nan)
        )
        if not changes:
            largest[f"{name}_reason"] = "it takes two variables that vary in the original."
        elif unknown:
            largest[f"{name}_reason"] = f"the {kind} cannot be computed for: {', '.join(unknown)}."
    return largest
