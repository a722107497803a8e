"""Takes the noise out of predictors: regression calibration.

Each noised number is replaced by what it is expected to be, given all numbers of the model: then
slopes are no longer too small. `sf.fit` does the same and more from what the manifest publishes;
here the variance of the noise is read off the pairs, which only the custodian has.

References: Carroll, Ruppert, Stefanski & Crainiceanu (2006), Measurement Error in Nonlinear Models,
chapter 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.kernels.arrays import Floats
from sfumato.pairs.unchanged import mark_unchanged

_MOSTLY = 0.5
_FEWEST = 30
_UNRELATED = 3.0
"""Standard errors by which noise may go with the value: more, and it is no independent noise."""


def calibrate_noised(
    original: Dataset, released: Dataset, names: Sequence[str], outcome: str | None
) -> Dataset | None:
    """The released records with noised predictors replaced by their expectation; None: no noise."""
    predictors = [
        name for name in names
        if name != outcome and _is_number(original, name) and _is_number(released, name)
    ]  # fmt: skip
    if len(original) != len(released) or len(released) < _FEWEST:
        return None
    noise = {name: _find_noise(original, released, name) for name in predictors}
    if not any(noise.values()):
        return None
    values = released.batch(predictors).cast(pl.Float64).fill_null(math.nan).to_numpy()
    known = ~np.isnan(values).any(axis=1)
    centre = values[known].mean(axis=0)
    total = np.cov(values[known].T, ddof=1).reshape(len(predictors), -1)
    signal = total - np.diag([noise[name] for name in predictors])
    if np.linalg.eigvalsh(signal)[0] <= 0:
        return None
    expected: Floats = centre + (values - centre) @ np.linalg.solve(total, signal)
    made = pl.DataFrame(
        {
            name: pl.Series(name, expected[:, index]).fill_nan(None)
            for index, name in enumerate(predictors)
            if noise[name]
        }
    )
    return released.with_columns(made)


def _is_number(data: Dataset, name: str) -> bool:
    column = data.schema[name]
    return (
        data.dtype(name).is_numeric()
        and not column.generalised
        and column.kind in ("continuous", "integer")
    )


def _find_noise(original: Dataset, released: Dataset, name: str) -> float:
    """The variance of independent noise on a number; 0 where it has none of that kind."""
    if float(mark_unchanged(original, released, name).mean()) > _MOSTLY:
        return 0.0
    before = original.column(name).cast(pl.Float64).fill_null(math.nan).to_numpy()
    after = released.column(name).cast(pl.Float64).fill_null(math.nan).to_numpy()
    known = ~(np.isnan(before) | np.isnan(after))
    before, change = before[known], (after - before)[known]
    if len(change) < _FEWEST or before.std() == 0 or change.std() == 0:
        return 0.0
    together = abs(float(np.corrcoef(before, change)[0, 1])) * math.sqrt(len(change))
    return float(change.var(ddof=1)) if together < _UNRELATED else 0.0
