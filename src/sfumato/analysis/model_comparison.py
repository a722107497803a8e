"""Which of several models of one outcome predicts it best, the noise of predictors taken out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from sfumato.analysis.result import Fit, import_arviz
from sfumato.errors import MeasureError

_FEWEST = 2


def compare_models(fits: Mapping[str, Fit]) -> Any:
    """Compare models of one outcome by leave-one-out cross-validation, the best first.

    Question: which model predicts the outcome of a record best that it has not seen?
    Assumes: all fits have `pointwise=True`, the same outcome and the same records.

    Parameters
    ----------
    fits : by name.

    Returns
    -------
    A pandas frame by name, with the columns of ArviZ: `rank`; `elpd_loo`, the expected log
    predictive density, with `se`; `p_loo`, the effective number of parameters; `elpd_diff`, how far
    behind the best, with `dse`; `weight` in an average of the models; `warning`, whether some
    record sways a fit so much that its part is unreliable (Pareto k above 0.7).

    References: Vehtari, Gelman & Gabry (2017), Statistics and Computing 27:1413; Yao, Vehtari,
    Simpson & Gelman (2018), Bayesian Analysis 13:917 (weights by stacking).
    """
    if len(fits) < _FEWEST:
        raise MeasureError("There is one model at most.", hint="name two or more.")
    (first_name, first), *others = fits.items()
    pointwise = first.require_pointwise("compare_models")
    for name, fit in others:
        other = fit.require_pointwise("compare_models")
        if not np.array_equal(pointwise.rows, other.rows):
            raise MeasureError(
                f"The models '{first_name}' and '{name}' rest on different records.",
                hint="leave out records that lack a clean variable of any model, then fit again.",
            )
        is_density = [x.family == "gaussian" for x in (first, fit)]
        if not np.allclose(pointwise.observed, other.observed) or is_density[0] != is_density[1]:
            raise MeasureError(
                f"The models '{first_name}' and '{name}' have different outcomes.",
                hint="compare models of the same outcome; a density of a number and a probability "
                "of a count do not compare.",
            )
    exported = {name: fit.to_arviz() for name, fit in fits.items()}
    with warnings.catch_warnings():
        # The column `warning` says it.
        warnings.simplefilter("ignore")
        return import_arviz().compare(exported)
