"""Invented farms of the shape of Goldstein & Shlomo's sugar cane data, which cannot be had.

333 farms; receipts on region (two codes), harvest in tonnes and costs in dollars, both skewed and
related to each other; coefficients and residual variance as published for the data without noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from replication.sugar_farms import FARMS, invent_farms
from tests.analysis.linear_problems import code_log_density, fit_least_squares

from replication import sugar_farms
from sfumato.analysis.problem import Category, NoisyNumber, Problem, Term
from sfumato.kernels.arrays import Floats

PARAMETERS = ("Intercept", "region", "harvest", "cost", "residual variance")
TRUE = np.array(sugar_farms.TRUE)


@dataclass(frozen=True, eq=False)
class Farms:
    """True columns, released ones, and the problem; fits to both as they are."""

    columns: dict[str, Floats]
    released: dict[str, Floats]
    problem: Problem
    true: Floats
    clean: Floats
    naive: Floats


def farms(chance: np.random.Generator, share: float, *, outcome: bool, sign: int = 1) -> Farms:
    """Independent noise of so large a share of each variable's variance.

    The noise of `sign=-1` is that of `sign=1` with the other sign: what is linear in the noise
    cancels in the mean of both, and a bias remains.
    """
    columns = {name: column.to_numpy() for name, column in invent_farms(chance).to_dict().items()}
    variances = {name: share * float(one.var()) for name, one in columns.items()}
    noise = {name: sign * chance.normal(size=FARMS) * np.sqrt(variances[name]) for name in columns}
    released = {name: one + noise[name] for name, one in columns.items()}
    released["region"] = np.clip(released["region"], 0, 1)
    if not outcome:
        released["receipts"] = columns["receipts"]
    return Farms(
        columns,
        released,
        _problem(released, variances, outcome=outcome),
        TRUE,
        plain(columns),
        plain(released),
    )


def plain(columns: dict[str, Floats]) -> Floats:
    """Least squares on the columns as they are."""
    predictors = [columns[name] for name in ("region", "harvest", "cost")]
    made: Floats = fit_least_squares([np.ones(FARMS), *predictors], columns["receipts"])[0]
    return made


def _problem(released: dict[str, Floats], variances: dict[str, float], *, outcome: bool) -> Problem:
    y: Any = released["receipts"]
    names = ("harvest", "cost")
    return Problem(
        family="gaussian",
        link="identity",
        y=y,
        outcome_number=NoisyNumber(name="receipts", observed=y, variance=variances["receipts"])
        if outcome
        else None,
        numbers=tuple(
            NoisyNumber(name=one, observed=released[one], variance=variances[one]) for one in names
        ),
        categories=(
            Category(
                name="region",
                levels=("Southern", "Northern"),
                density=code_log_density(released["region"], variances["region"]),
            ),
        ),
        error=np.diag([variances[one] for one in names]),
        terms=(
            Term(name="Intercept"),
            Term(name="region", levels=((0, 1),)),
            Term(name="harvest", numbers=((0, None),)),
            Term(name="cost", numbers=((1, None),)),
        ),
        covariates=np.ones((FARMS, 1)),
    )
