"""The arrays of a chain: what stays as it is, and what is drawn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


class Data(NamedTuple):
    """What stays as it is while a chain runs.

    Parameters
    ----------
    clean : (record, column) a basis of all clean columns; the first is 1, those constant in
        groups come next.
    seen : (record, number) the released numbers and, last, the outcome; 0 where missing.
    pattern, present : which pattern of missing values a record has; (pattern, number) 1 or 0.
    density : (record, level) log density of what was released of the categories.
    roles, earlier : (split, level) see `gibbs_splits`; (split, level, dummy).
    dummies : (level, dummy) of the categories, for the model of the numbers.
    cell : the row of the table of level probabilities; unused with splits.
    group, starts : records are ordered by group; group g is starts[g]:starts[g + 1].
    random : (record, column) the columns whose coefficients differ by group.
    outcome : (level, term, column) the terms without numbers, as combinations of clean columns.
    outcome_prior : precision of their coefficients before the data.
    error : covariance of the noise of the numbers and the outcome.
    lift_random, lift_column, lift_term : directions in which coefficients and group effects can
        be exchanged: which effect, (direction, group) and (direction, term).
    upper : (group, column) the clean columns that are constant in groups.
    options : clustered, splits, interacting, steps on the coefficients for each pass.
    """

    clean: Floats
    seen: Floats
    pattern: Codes
    present: Floats
    density: Floats
    roles: Codes
    earlier: Floats
    dummies: Floats
    cell: Codes
    group: Codes
    starts: Codes
    random: Floats
    outcome: Floats
    outcome_prior: Floats
    error: Floats
    lift_random: Codes
    lift_column: Floats
    lift_term: Floats
    upper: Floats
    options: Codes


class State(NamedTuple):
    """What a chain draws: all of it is changed in place.

    Parameters
    ----------
    beta, slope, residual : coefficients of the terms without numbers, of the numbers, and the
        residual variance (one value).
    gamma : (feature, number) of the model of the numbers: clean columns but the first, dummies.
    middle, spread : mean and covariance of each component.
    share : (level, component).
    effect, between : (group, column) effects on the outcome, and their covariance.
    shift, among : the same for the numbers.
    table : (cell, level) log probabilities.
    alpha, tilt, wide : (split, feature), (split, group), (split): see `gibbs_splits`.
    code, component : of each record.
    stats : (component, pattern, level, column, column) cross products.
    """

    beta: Floats
    slope: Floats
    residual: Floats
    gamma: Floats
    middle: Floats
    spread: Floats
    share: Floats
    effect: Floats
    between: Floats
    shift: Floats
    among: Floats
    table: Floats
    alpha: Floats
    tilt: Floats
    wide: Floats
    code: Codes
    component: Codes
    stats: Floats
