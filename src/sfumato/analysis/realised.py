"""What taking the noise out has cost, by coefficient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.analysis.information import information
from sfumato.analysis.moments import Corrected
from sfumato.analysis.naive import Estimates
from sfumato.analysis.problem import Problem
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats


def realised(
    problem: Problem, corrected: Corrected | None, estimates: Estimates
) -> list[dict[str, Any]]:
    """A row per term; nothing where it cannot be told what the records would have given.

    In linear models of one level the products of the true terms are known on average, so the
    standard errors are too that the same records would have given without noise. Of other models
    they are those of true values drawn from what is expected of them (`information`). Where there
    are no corrected moments, nothing is predicted.
    """
    clean = _clean(problem, corrected, estimates)
    if clean is None:
        return []
    rows = []
    for one, square in zip(problem.terms, clean.tolist(), strict=True):
        name, nan = one.name, math.nan
        predicted = corrected.estimates.error.get(name, nan) if corrected else nan
        found = estimates.error.get(name, nan)
        rows.append(
            {
                "term": name,
                "se_without_noise": math.sqrt(square),
                "se_predicted": predicted,
                "sd": found,
                "predicted": square / predicted**2 if predicted else nan,
                "realised": square / found**2 if found else nan,
            }
        )
    return rows


def _clean(problem: Problem, corrected: Corrected | None, estimates: Estimates) -> Floats | None:
    """The squared standard errors without noise."""
    if corrected is not None and corrected.gram is not None and problem.groups is None:
        variance = estimates.value.get("residual variance", np.nan)
        return variance * np.diag(np.linalg.inv(corrected.gram)) if variance > 0 else None
    levels = corrected.levels if corrected else {}
    try:
        made = np.diag(np.linalg.inv(information(problem, levels, estimates)))
    except (MeasureError, np.linalg.LinAlgError):
        return None
    return made if bool((np.isfinite(made) & (made > 0)).all()) else None


def determinant_ratio(corrected: Corrected | None) -> float:
    """The paper's overall measure: |X'X| over that of the noisy terms."""
    if corrected is None or corrected.gram is None or corrected.noisy is None:
        return float("nan")
    true, noisy = (np.linalg.slogdet(one)[1] for one in (corrected.gram, corrected.noisy))
    return float(np.exp(true - noisy))
