"""Means, spreads, correlations and quantiles before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.draws import describe_draws, draw_numbers
from sfumato.cells.pairs import (
    Pair,
    compare_numbers,
    compute_changes,
    find_numeric_variables,
    original_deviation,
)
from sfumato.cells.standardisation import pairwise_correlations
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import (
    canonical_order,
    exact_mean,
    exact_sum,
    standard_deviation,
    use_one_thread,
)
from sfumato.measure import Measure
from sfumato.parameters import parameters

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
    picture = "moments"
    examples = ({}, {"variables": ["height", "weight_kg", "glucose"]})
    of = "pair"
    provides = ("il1s", "il1s_total", *_LARGEST.values())
    reach = dict.fromkeys(("moments", *provides), (0.0, math.inf))
    variables: list[str] | None = None

    def compare(self, original: Dataset, released: Dataset) -> Evidence:
        """Compare value by value, then what an analyst would describe."""
        wanted = find_numeric_variables(original) if self.variables is None else self.variables
        original.schema.require(wanted)
        drawn = draw_numbers(original, released, wanted)
        pair = compare_numbers(original, released, self.variables, owner=self.name, drawn=drawn)
        changes = [_scaled_changes(pair, index) for index in range(len(pair.names))]
        total = math.fsum(exact_sum(change) for change in changes)
        loss = total / sum(map(len, changes))
        with use_one_thread():
            rows = [*_compare_marginals(pair), *_compare_joint(pair)]
        return Evidence(
            name=self.name,
            subject="pair",
            value=loss,
            direction=self.direction,
            table=original.like(pl.DataFrame(rows)),
            details={
                "il1s": loss,
                "il1s_total": total,
                **_find_largest(rows),
                "variables": ", ".join(pair.names),
                **pair.not_compared,
            },
            assumptions=(*_ASSUMPTIONS, *describe_draws(released, pair.names)),
            warnings=pair.warnings(lost=False),
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
    if not np.isfinite(loss).all():
        raise MeasureError(
            f"Variable '{pair.names[index]}' changed by more than can be counted in its own "
            "spread.",
            hint="leave it out of `variables`, or look at its values.",
        )
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


def _compare_marginals(pair: Pair) -> Iterator[dict[str, Any]]:
    """Mean, standard deviation and quantiles of each variable; never an extreme value."""
    for index, name in enumerate(pair.names):
        before, after = (
            side[~np.isnan(side[:, index]), index] for side in (pair.original, pair.released)
        )
        scale = standard_deviation(before)
        means = exact_mean(before), exact_mean(after)
        yield _build_row("mean", name, *means, _standardise_change(*means, scale))
        spreads = scale, standard_deviation(after)
        yield _build_row("sd", name, *spreads, _standardise_change(*spreads, scale))
        for share in _SHARES:
            quantiles = float(np.quantile(before, share)), float(np.quantile(after, share))
            yield _build_row(
                f"quantile {share:g}", name, *quantiles, _standardise_change(*quantiles, scale)
            )


def _standardise_change(before: float, after: float, scale: float) -> float:
    """The change on a scale; 0 without a change, NaN where there is no scale."""
    # Also where the spread is 0: no change is no change.
    if after == before:
        return 0.0
    return (after - before) / scale if scale > 0 else math.nan


def _compare_joint(pair: Pair) -> Iterator[dict[str, Any]]:
    """Correlations of all pairs of variables, and the eigenvalues of their matrix."""
    # Summed in one and the same order, whatever the order of the records.
    order = canonical_order([*pair.original.T, *pair.released.T])
    original, released = (
        pairwise_correlations(pair.original[order]),
        pairwise_correlations(pair.released[order]),
    )
    # A constant has no correlation that could be lost.
    varying = [index for index in range(len(pair.names)) if not np.isnan(original[index, index])]
    for rank, first in enumerate(varying):
        for second in varying[rank + 1 :]:
            both = float(original[first, second]), float(released[first, second])
            label = f"{pair.names[first]} × {pair.names[second]}"  # noqa: RUF001 - it says "times"
            yield _build_row("correlation", label, *both, both[1] - both[0])
    varying_only = np.ix_(varying, varying)
    sizes = zip(
        _eigenvalues(original[varying_only]), _eigenvalues(released[varying_only]), strict=True
    )
    for rank, (before, after) in enumerate(sizes, 1):
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
