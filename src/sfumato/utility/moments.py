"""Means, spreads, correlations and quantiles before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.compared import change_of, compared, spread_of
from sfumato.cells.correlated import correlations
from sfumato.cells.pairs import Pair
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats
from sfumato.kernels.canonical import deviation_of, mean_of, one_thread, order_of, total_of
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
    "Each number is of the values that are present; a correlation, of the records with both.",
)


@parameters
class Moments(Measure):
    """How much values, means, spreads, quantiles and correlations changed.

    Question: would an analyst describe the released data as the original?
    Assumes: record by record, the released data belong to the original. The value is IL1s, the
    mean absolute change of a value over √2 standard deviations of the original.

    Parameters
    ----------
    variables : the numbers to compare. Default: all numbers that are in both data sets.

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
    examples = ({}, {"variables": ["height", "weight_kg", "glucose"]})
    of = "pair"
    provides = ("il1s", "il1s_total", *_LARGEST.values())
    reach = dict.fromkeys(("moments", *provides), (0.0, math.inf))
    variables: list[str] | None = None

    def compare(self, original: Dataset, released: Dataset) -> Evidence:
        """Compare value by value, then what an analyst would describe."""
        pair = compared(original, released, self.variables, owner=self.name)
        changes = [_loss(pair, at) for at in range(len(pair.names))]
        total = math.fsum(total_of(change) for change in changes)
        loss = total / sum(map(len, changes))
        with one_thread():
            rows = [*_marginals(pair), *_joint(pair)]
        return Evidence(
            name=self.name,
            subject="pair",
            value=loss,
            direction=self.direction,
            table=original.like(pl.DataFrame(rows)),
            details={
                "il1s": loss,
                "il1s_total": total,
                **_largest(rows),
                "variables": ", ".join(pair.names),
            },
            assumptions=_ASSUMPTIONS,
            warnings=pair.warnings(),
        )


def _loss(pair: Pair, at: int) -> Floats:
    """The absolute change of each value over √2 standard deviations of the original."""
    with np.errstate(over="ignore"):
        loss: Floats = np.abs(change_of(pair, at)) / (math.sqrt(2) * spread_of(pair, at))
    if not np.isfinite(loss).all():
        raise MeasureError(
            f"Variable '{pair.names[at]}' changed by more than can be counted in its own spread.",
            hint="leave it out of `variables`, or look at its values.",
        )
    return loss


def _row(statistic: str, variable: str, was: float, now: float, change: float) -> dict[str, Any]:
    return {
        "statistic": statistic,
        "variable": variable,
        "original": was,
        "released": now,
        "moments": change,
    }


def _marginals(pair: Pair) -> Iterator[dict[str, Any]]:
    """Mean, standard deviation and quantiles of each variable; never an extreme value."""
    for at, name in enumerate(pair.names):
        was, now = (side[~np.isnan(side[:, at]), at] for side in (pair.original, pair.released))
        scale = deviation_of(was)
        means = mean_of(was), mean_of(now)
        yield _row("mean", name, *means, _shift(*means, scale))
        spreads = scale, deviation_of(now)
        yield _row("sd", name, *spreads, _shift(*spreads, scale))
        for share in _SHARES:
            places = float(np.quantile(was, share)), float(np.quantile(now, share))
            yield _row(f"quantile {share:g}", name, *places, _shift(*places, scale))


def _shift(was: float, now: float, scale: float) -> float:
    """The change on a scale; 0 without a change, NaN where there is no scale."""
    if now == was:
        return 0.0
    return (now - was) / scale if scale > 0 else math.nan


def _joint(pair: Pair) -> Iterator[dict[str, Any]]:
    """Correlations of all pairs of variables, and the eigenvalues of their matrix."""
    # Summed in one and the same order, whatever the order of the records.
    order = order_of([*pair.original.T, *pair.released.T])
    was, now = correlations(pair.original[order]), correlations(pair.released[order])
    # A constant has no correlation that could be lost.
    varying = [at for at in range(len(pair.names)) if not np.isnan(was[at, at])]
    for place, first in enumerate(varying):
        for second in varying[place + 1 :]:
            both = float(was[first, second]), float(now[first, second])
            label = f"{pair.names[first]} × {pair.names[second]}"  # noqa: RUF001 - it says "times"
            yield _row("correlation", label, *both, both[1] - both[0])
    kept = np.ix_(varying, varying)
    sizes = zip(_eigenvalues(was[kept]), _eigenvalues(now[kept]), strict=True)
    for place, (before, after) in enumerate(sizes, 1):
        yield _row("eigenvalue", f"number {place}", before, after, after - before)


def _eigenvalues(correlations: Floats) -> list[float]:
    """From the largest to the smallest; NaN where a correlation is missing."""
    if len(correlations) <= 1:
        return []
    if np.isnan(correlations).any():
        return [math.nan] * len(correlations)
    return [float(size) for size in np.linalg.eigvalsh(correlations)[::-1]]


def _largest(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The largest change of each kind of statistic; NaN, with a reason, if one is unknown."""
    told: dict[str, Any] = {}
    for kind, name in _LARGEST.items():
        changes = [
            (row["variable"], abs(row["moments"]))
            for row in rows
            if row["statistic"].partition(" ")[0] == kind
        ]
        unknown = dict.fromkeys(variable for variable, change in changes if math.isnan(change))
        told[name] = (
            math.nan if unknown else max((change for _, change in changes), default=math.nan)
        )
        if not changes:
            told[f"{name}_reason"] = "it takes two variables that vary in the original."
        elif unknown:
            told[f"{name}_reason"] = f"the {kind} cannot be computed for: {', '.join(unknown)}."
    return told
