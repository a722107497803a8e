"""What taking the noise out has cost, by coefficient."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.analysis.moments import Corrected
from sfumato.analysis.naive import Estimates
from sfumato.analysis.problem import Problem


def realised(
    problem: Problem, corrected: Corrected | None, estimates: Estimates
) -> list[dict[str, Any]]:
    """A row per term of a linear model of one level; nothing for others.

    The products of the true terms are known on average, so the standard errors are too that the
    same records would have given without noise.
    """
    if corrected is None or corrected.gram is None or problem.groups is not None:
        return []
    names = [one.name for one in problem.terms]
    variance = estimates.value.get("residual variance", np.nan)
    if not variance > 0:
        return []
    clean = variance * np.diag(np.linalg.inv(corrected.gram))
    rows = []
    for name, square in zip(names, clean.tolist(), strict=True):
        predicted, found = corrected.estimates.error[name], estimates.error.get(name, np.nan)
        rows.append(
            {
                "term": name,
                "se_without_noise": float(np.sqrt(square)),
                "se_predicted": predicted,
                "sd": found,
                "predicted": square / predicted**2,
                "realised": square / found**2,
            }
        )
    return rows


def determinant_ratio(corrected: Corrected | None) -> float:
    """The paper's overall measure: |X'X| over that of the noisy terms."""
    if corrected is None or corrected.gram is None or corrected.noisy is None:
        return float("nan")
    true, noisy = (np.linalg.slogdet(one)[1] for one in (corrected.gram, corrected.noisy))
    return float(np.exp(true - noisy))
