"""A problem with what is known of it before anything is drawn: naive fit, corrected moments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.analysis.formula import ModelFormula
from sfumato.analysis.moments import Corrected, moments
from sfumato.analysis.naive import Estimates, naive
from sfumato.analysis.posed import posed
from sfumato.analysis.prepared import Prepared, prepared
from sfumato.analysis.problem import Family, Link, Problem, Shape
from sfumato.analysis.received import Received
from sfumato.analysis.residuals import residuals
from sfumato.analysis.stratified import looked_up, with_strata
from sfumato.analysis.unbiased import NoMomentsError, scores
from sfumato.cells.noise.described import Noise
from sfumato.data import Dataset
from sfumato.kernels.arrays import Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Modelled:
    """A model that can be fitted.

    Parameters
    ----------
    formula : as it was written.
    data : the released records.
    ready : the variables.
    problem : what engines get.
    levels : of each noised category the scores of its levels.
    naive, corrected : the fits without correction, and by corrected moments where there is one.
    noise : its description by variable.
    why_not : why there are no corrected moments.
    notes : what is to be known.
    shift : what is to be added to coefficients, see `posed`.
    """

    formula: str
    data: Dataset
    ready: Prepared
    problem: Problem
    levels: Mapping[str, Floats] = field(repr=False)
    naive: Estimates = field(repr=False)
    corrected: Corrected | None = field(repr=False)
    noise: Mapping[str, Noise] = field(repr=False)
    why_not: str
    notes: tuple[str, ...]
    shift: Mapping[str, float] = field(default_factory=dict)


def missing(problem: Problem) -> npt.NDArray[np.bool_]:
    """Which records lack a value of a noised predictor."""
    made = np.zeros(problem.records, bool)
    for one in problem.numbers:
        made |= np.isnan(one.seen)
    for category in problem.categories:
        made |= (category.density == 0).all(axis=1)
    return made


def left_out(count: int) -> str:
    """What a quick look does with records that lack a noised value."""
    return f"{count:,} records that lack a noised value were left out."


def modelled(
    formula: ModelFormula,
    got: Received,
    kind: tuple[Family, Link],
    *,
    measured: Mapping[str, float],
    trials: str | None,
    shape: Shape,
    clustered: bool,
) -> Modelled:
    """Pose the problem, and fit it in the plain ways."""
    ready = looked_up(prepared(got, formula, measured, trials), got.noise, measured)
    problem, shift = posed(formula, ready, got.noise, kind, shape=shape, clustered=clustered)
    problem = with_strata(problem)
    plain = naive(problem, ready.columns)
    levels: dict[str, Floats] = {}
    corrected, why = None, ""
    try:
        for one in problem.categories:
            levels[one.name] = scores(
                one.name, ready.kept[one.name], got.noise[one.name], ready.strata(one.name)
            )
        corrected = moments(problem, levels, plain)
    except NoMomentsError as error:
        why = str(error)
    return Modelled(
        formula=formula.text,
        data=got.data,
        ready=ready,
        problem=problem,
        levels=levels,
        naive=replace(plain, left=partial(residuals, problem, levels, plain, shift)),
        corrected=corrected,
        noise=got.noise,
        why_not=why,
        notes=tuple(_notes(ready, problem, plain, why)),
        shift=shift,
    )


def _notes(ready: Prepared, problem: Problem, plain: Estimates, why: str) -> list[str]:
    made: list[str] = []
    if ready.left_out:
        made.append(
            f"{ready.left_out:,} records without a value of the outcome or of a clean variable "
            "were left out."
        )
    noised: list[Any] = [*problem.numbers, *problem.categories]
    if not noised and problem.outcome_number is None and problem.outcome_category is None:
        made.append("No variable of the formula has noise: this is a plain fit.")
    if plain.note:
        made.append(f"There is {plain.note} beside it.")
    if why:
        made.append(f"There are no corrected moments beside it: {why}.")
    return made
