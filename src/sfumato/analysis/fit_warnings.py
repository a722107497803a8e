"""Warnings and notes of a fit: what an analyst must be wary of, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.analysis.diagnostics import AGREEMENT
from sfumato.analysis.generalised_cells import find_single_levels, measure_cell_variance
from sfumato.analysis.group_level import find_first_records
from sfumato.analysis.naive_fit import Estimates
from sfumato.analysis.predictive_check import Mismatch
from sfumato.analysis.problem import Category, GeneralisedNumber, Posterior, Problem
from sfumato.kernels.arrays import Floats

_FEW_DRAWS, _FEW_GROUPS = 400, 10
_UNRELIABLE, _LOST = 0.5, 0.2
_NARROW, _NARROW_IF_CUT = 0.9, 0.75
"""The share of a variable's variance between its ranges, from which on their width hardly matters;
where it is known that classes were cut apart."""
_FAR = 0.5
"""Of an SD: how far apart two estimates may be before it matters."""
_BOUNDLESS, _HARDLY_BOUND = 5.0, 1.5
"""On the scale of the link: so large an SD of the effect of a variable's SD is that of a prior."""
_APART, _LEAST_APART = 3.3, 0.35
"""How many SDs of their difference corrected moments may be from the posterior, and the least such
SD, as a share of the error of the moments."""


def describe_left_out(count: int) -> str:
    """What a quick look does with records that lack a noised value."""
    return f"{count:,} records that lack a noised value were left out."


def estimate_reliabilities(problem: Problem, levels: Mapping[str, Floats]) -> dict[str, float]:
    """The share of the variance of each noised variable, given all that is clean, that is true."""
    clean = problem.covariates
    reliabilities = {}
    for index, number in enumerate(problem.numbers):
        if isinstance(number, GeneralisedNumber):
            reliabilities[number.name] = _estimate_cell_reliability(clean, number)
            continue
        known = np.isfinite(number.observed)
        if number.by_group and problem.groups is not None:
            # What a group has counts once.
            known &= np.isin(np.arange(len(known)), find_first_records(problem.groups))
        reliabilities[number.name] = 1 - problem.error[index, index] / _residual_variance(
            clean[known], number.observed[known]
        )
    for category in problem.categories:
        if category.generalised:
            reliabilities[category.name] = float(np.isfinite(find_single_levels(category)).mean())
        scores = levels.get(category.name)
        if scores is None:
            continue
        scores = scores[np.isfinite(scores).all(axis=1)]
        share = np.clip(scores.mean(axis=0), 0, 1)
        # A level indicator has the variance p (1 - p); its score has that and the noise.
        ratios = share * (1 - share) / np.maximum(scores.var(axis=0), 1e-300)
        reliabilities[category.name] = float(np.min(ratios))
    return reliabilities


def _estimate_cell_reliability(clean: Floats, number: GeneralisedNumber) -> float:
    """The share of the variance that lies between cells, where values are spread evenly within."""
    known = np.isfinite(number.observed)
    between = _residual_variance(clean[known], number.observed[known])
    within = measure_cell_variance(number)[known]
    total = between + float(within[np.isfinite(within)].mean()) if known.any() else math.inf
    # A cell that says nothing leaves all of the variance open.
    return float(known.mean()) * between / total


def _residual_variance(clean: Floats, values: Floats) -> float:
    """The variance of values given clean columns."""
    beta, *_ = np.linalg.lstsq(clean, values, rcond=None)
    residual = values - clean @ beta
    return float(max(residual @ residual / max(len(residual) - clean.shape[1], 1), 1e-300))


def check_problem(
    problem: Problem, reliability: Mapping[str, float], naive: Estimates
) -> list[str]:
    """Warnings that need no draw: little reliability, few groups, separation."""
    warnings = []
    numbers = {share.name for share in problem.numbers}
    for name, share in reliability.items():
        if name in problem.generalised:
            cut = problem.partition is not None and name in problem.partition.variables
            warnings += _warn_of_wide_cells(name, share, is_number=name in numbers, cut=cut)
        elif share < _UNRELIABLE:
            look = " Compare shape='normal' with 'mixture'." if name in numbers else ""
            much = "nearly all" if share < _LOST else "more than half"
            warnings.append(
                f"Of the variance of '{name}' {much} is noise (reliability {max(share, 0):.2f}): "
                f"its coefficient rests on the model of its true values.{look} Ask for a "
                "release with less noise on it."
            )
    warnings += [
        f"{count} levels of '{category.name}' never stand alone in a cell: their coefficients rest "
        "on the model and on a weak prior. Join levels that always come together, or ask for a "
        "release that keeps them apart."
        for category in problem.categories
        if category.generalised and (count := _count_levels_never_alone(category))
    ]
    for factor in problem.factors:
        if (count := len(np.unique(factor.groups))) < _FEW_GROUPS:
            named = f" of '{factor.name}'" if problem.more_factors else ""
            warnings.append(
                f"There are {count} groups{named}: their variance is hardly known, and rests on "
                f"its prior. Take the groups as a fixed term instead: C({factor.name})."
            )
    if naive.certain:
        warnings.append(
            "The terms predict the outcome of some records with certainty (separation), so some "
            "coefficients have no finite estimate. Leave out the term that does, or join rare "
            "levels."
        )
    return warnings


def _warn_of_wide_cells(name: str, share: float, *, is_number: bool, cut: bool) -> list[str]:
    warning = ""
    if is_number and share < (_NARROW_IF_CUT if cut else _NARROW):
        reason = (
            "its coefficient rests on the model of its true values, of whose shape ranges so wide "
            "say little, and its interval may be too narrow."
            if cut
            else "its coefficient rests on the model of its true values, and may be too far from "
            "0. Pass the release folder, if there is one: it may say that ranges do not really "
            "overlap."
        )
        warning = (
            f"Of the variance of '{name}' about {1 - share:.0%} lies within its ranges: {reason} "
            "Ask for a release with narrower ranges of it."
        )
    if not is_number and share < _UNRELIABLE:
        warning = (
            f"The level of '{name}' is known for {share:.0%} of the records: its coefficients rest "
            "on the model of its true levels. Ask for a release with fewer sets of it."
        )
    return [warning] if warning else []


def _count_levels_never_alone(category: Category) -> int:
    single = find_single_levels(category)
    return len(category.levels) - len(np.unique(single[np.isfinite(single)]))


def check_draws(rows: Sequence[Mapping[str, Any]], posterior: Posterior) -> list[str]:
    """Warnings of the draws: interrupts, chains that disagree, few effective draws."""
    warnings = []
    if not posterior.complete:
        chains, draws, _ = posterior.draws.shape
        warnings.append(
            f"It was interrupted: what is here rests on the {chains} x {draws:,} draws made until "
            "then. Fit again for more."
        )
    more = f"draws={max(4000, 4 * posterior.draws.shape[1])}"
    bad = [row["term"] for row in rows if row["rhat"] > AGREEMENT]
    # Independent draws agree up to chance, and the R-hat of a few of them is only chance.
    if bad and not posterior.independent:
        warnings.append(
            f"The chains do not agree (R-hat above {AGREEMENT}) on {quote_terms(bad)}: do not "
            f"use these. Draw more: {more}; if that does not help, leave out a term, or take "
            "shape='normal'."
        )
    few = [row["term"] for row in rows if row["ess"] < _FEW_DRAWS]
    if few:
        warnings.append(
            f"Fewer than {_FEW_DRAWS} effective draws of {quote_terms(few)}: intervals are rough. "
            f"Draw more: {more}."
        )
    lost = [row["term"] for row in rows if not math.isfinite(row["mean"])]
    if lost:
        warnings.append(f"There is no finite estimate of {quote_terms(lost)}. Leave the term out.")
    return warnings


def check_agreement(rows: Sequence[Mapping[str, Any]], moments: Estimates | None) -> list[str]:
    """Warnings where other estimators disagree."""
    warnings = []
    apart = [row["term"] for row in rows if abs(row.get("normal", math.nan) - row["mean"])
             > _FAR * row["sd"]]  # fmt: skip
    if apart:
        warnings.append(
            f"Taking true values as normal changes {quote_terms(apart)} by more than half an SD. "
            "The data ask for the mixture that was used; the column 'normal' has the other."
        )
    if far := find_disagreements(rows, moments):
        warnings.append(
            f"Check failed: corrected moments, which assume no shape of true values, differ on "
            f"{quote_terms(far)}. Is the description of the noise right, and the formula?"
        )
    return warnings


def find_disagreements(rows: Sequence[Mapping[str, Any]], moments: Estimates | None) -> list[str]:
    """The terms on which corrected moments and the posterior differ too much."""
    if moments is None:
        return []
    return [
        row["term"]
        for row in rows
        if abs(row["moments"] - row["mean"])
        > _APART * _measure_disagreement(row, moments.error.get(row["term"], math.nan))
    ]


def _measure_disagreement(row: Mapping[str, Any], error: float) -> float:
    """The SD of the difference between corrected moments and posterior, if the model is right.

    Both come from the same records, and what the model adds is all that they differ by. So the
    variance of the difference is the difference of the variances (Hausman 1978, Econometrica
    46:1251); that is a small number with an error of its own, so it has a floor.
    """
    variance = max(error**2 - row["sd"] ** 2, (_LEAST_APART * error) ** 2)
    mcse = row["mcse"] if math.isfinite(row["mcse"]) else 0.0
    return math.sqrt(variance + mcse**2)


def check_mismatches(mismatches: Sequence[Mismatch]) -> list[str]:
    """Warnings where a release that the model simulates differs from the received one."""
    warnings = []
    for variable in dict.fromkeys(mismatch.variable for mismatch in mismatches):
        worst = next(mismatch for mismatch in mismatches if mismatch.variable == variable)
        if variable:
            warnings.append(
                f"Check failed: the model of true values does not reproduce what was released of "
                f"'{variable}' ({describe_mismatch(worst)}). Coefficients of '{variable}' and of "
                "its products may be biased. Take shape='auto', and put what it depends on into "
                "the formula; compare the column 'moments'."
            )
        else:
            warnings.append(
                f"Check failed: the residual variance is not the same everywhere "
                f"({describe_mismatch(worst)}), and intervals may be too narrow. Transform the "
                "outcome, or model what its spread depends on."
            )
    return warnings


def describe_mismatch(mismatch: Mismatch) -> str:
    """The statistic in the release, and in simulated ones."""
    what = mismatch.statistic if mismatch.variable else f"{mismatch.statistic} of residuals"
    where = f" {mismatch.where}" if mismatch.where else ""
    return f"{what}{where}: {mismatch.received:.3g}, simulated {mismatch.simulated:.3g}"


def detect_separation(problem: Problem, x: Floats, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Warn of coefficients that the data do not bound: without noise there is separation.

    The naive fit cannot detect it, since noise blurs what would be certain.
    """
    if problem.family == "gaussian":
        return []
    # Coefficients of a binary outcome have a weak prior, which shows where the data say little.
    counts = problem.family in ("poisson", "negative_binomial")
    most = _BOUNDLESS if counts else _HARDLY_BOUND
    spread = dict(zip([term.name for term in problem.terms], np.nanstd(x, axis=0), strict=True))
    wide = [row["term"] for row in rows if row["sd"] * spread.get(row["term"], 0.0) > most]
    if not wide:
        return []
    warning = (
        f"The data hardly bound the coefficient of {quote_terms(wide)}: its true values may well "
        "predict the outcome with certainty (separation), and its size depends on the prior. Do "
        "not use its size. Leave the term out; or report only its sign, as the naive fit does."
    )
    return [warning]


def quote_terms(names: Sequence[str]) -> str:
    """The first few names, in quotes."""
    shown = ", ".join(f"'{name}'" for name in names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > len(names[:4]) else shown
