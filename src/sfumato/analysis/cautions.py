"""What an analyst must be wary of in a fit, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.analysis.naive import Estimates
from sfumato.analysis.problem import Posterior, Problem
from sfumato.kernels.arrays import Floats

_MIXED_BADLY, _FEW_DRAWS, _FEW_GROUPS = 1.01, 400, 10
_UNRELIABLE, _LOST = 0.5, 0.2
_FAR = 0.5
"""Of an SD: how far apart two estimates may be before it matters."""
_BOUNDLESS, _HARDLY_BOUND = 5.0, 1.5
"""On the scale of the link: so large an SD of the effect of a variable's SD is that of a prior."""
_APART = 3.0
"""Of a standard error: how far corrected moments may be from the posterior."""


def reliabilities(problem: Problem, levels: Mapping[str, Floats]) -> dict[str, float]:
    """The share of the variance of each noised variable, given all that is clean, that is true."""
    clean = problem.covariates
    made = {}
    for at, one in enumerate(problem.numbers):
        seen = np.isfinite(one.seen)
        made[one.name] = 1 - problem.error[at, at] / _left(clean[seen], one.seen[seen])
    for category in problem.categories:
        scores = levels.get(category.name)
        if scores is None:
            continue
        known = np.isfinite(scores).all(axis=1)
        share = np.clip(scores[known].mean(axis=0), 0, 1)
        spread = scores[known].var(axis=0)
        each = share * (1 - share) / np.maximum(spread, 1e-300)
        made[category.name] = float(np.min(each))
    return made


def _left(clean: Floats, values: Floats) -> float:
    """The variance of values given clean columns."""
    beta, *_ = np.linalg.lstsq(clean, values, rcond=None)
    rest = values - clean @ beta
    return float(max(rest @ rest / max(len(rest) - clean.shape[1], 1), 1e-300))


def of_problem(problem: Problem, reliability: Mapping[str, float], naive: Estimates) -> list[str]:
    """What can be said before anything is drawn."""
    made = []
    numbers = {one.name for one in problem.numbers}
    for name, one in reliability.items():
        if one < _UNRELIABLE:
            look = " Compare shape='normal' with 'mixture'." if name in numbers else ""
            much = "nearly all" if one < _LOST else "more than half"
            made.append(
                f"Of the variance of '{name}' {much} is noise (reliability {max(one, 0):.2f}): its "
                f"coefficient rests on the model of its true values.{look} Ask for a release with "
                "less noise on it."
            )
    if problem.groups is not None and (count := len(np.unique(problem.groups))) < _FEW_GROUPS:
        made.append(
            f"There are {count} groups: their variance is hardly known, and rests on its prior. "
            "Take the groups as a fixed term instead: C(group)."
        )
    if naive.certain:
        made.append(
            "The terms predict the outcome of some records with certainty (separation), so some "
            "coefficients have no finite estimate. Leave out the term that does, or join rare "
            "levels."
        )
    return made


def of_draws(rows: Sequence[Mapping[str, Any]], posterior: Posterior) -> list[str]:
    """What the draws say of themselves."""
    made = []
    if not posterior.complete:
        made.append("It was interrupted: the draws made until then are here. Fit again for more.")
    bad = [row["term"] for row in rows if row["rhat"] > _MIXED_BADLY]
    # Independent draws agree but for chance, and R-hat of a few is nothing but chance.
    if bad and not posterior.independent:
        made.append(
            f"The chains do not agree (R-hat above {_MIXED_BADLY}) on {_listed(bad)}: do not use "
            "these. Draw more: draws=4000; if that does not help, leave out a term, or take "
            "shape='normal'."
        )
    few = [row["term"] for row in rows if row["ess"] < _FEW_DRAWS]
    if few:
        made.append(
            f"Fewer than {_FEW_DRAWS} effective draws of {_listed(few)}: intervals are rough. Draw "
            "more: draws=4000."
        )
    lost = [row["term"] for row in rows if not math.isfinite(row["mean"])]
    if lost:
        made.append(f"There is no finite estimate of {_listed(lost)}. Leave the term out.")
    return made


def of_checks(rows: Sequence[Mapping[str, Any]], moments: Estimates | None) -> list[str]:
    """What other ways of fitting say."""
    made = []
    apart = [row["term"] for row in rows if abs(row.get("normal", math.nan) - row["mean"])
             > _FAR * row["sd"]]  # fmt: skip
    if apart:
        made.append(
            f"Taking true values as normal changes {_listed(apart)} by more than half an SD. The "
            "data ask for the mixture that was used; the column 'normal' has the other."
        )
    if moments is not None:
        far = [
            row["term"]
            for row in rows
            if abs(row["moments"] - row["mean"])
            > _APART * math.hypot(row["sd"], moments.error.get(row["term"], math.nan))
        ]
        if far:
            made.append(
                f"Corrected moments, which assume no shape of true values, differ on "
                f"{_listed(far)}. Is the description of the noise right, and the formula?"
            )
    return made


def unbounded(problem: Problem, x: Floats, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Coefficients that no data bound: without the noise, terms would tell the outcome for sure.

    The plain fit cannot see it, since noise blurs what would be certain.
    """
    if problem.family == "gaussian":
        return []
    # A yes or no has a weak prior, behind which the data may have little to say.
    most = _BOUNDLESS if problem.family == "poisson" else _HARDLY_BOUND
    spread = dict(zip([one.name for one in problem.terms], np.nanstd(x, axis=0), strict=True))
    wide = [row["term"] for row in rows if row["sd"] * spread.get(row["term"], 0.0) > most]
    if not wide:
        return []
    said = (
        f"The data hardly bound the coefficient of {_listed(wide)}: its true values may well tell "
        "the outcome for sure (separation), and the prior has its say. Do not use its size. Leave "
        "the term out; or say only on which side of 0 it lies, as the naive fit does."
    )
    return [said]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{one}'" for one in names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > len(names[:4]) else shown
