"""What the marginal likelihood takes and gives: records, parameters, and sums over records."""

from __future__ import annotations

from typing import NamedTuple

from sfumato.kernels.arrays import Floats, Integers


class Records(NamedTuple):
    """What is seen of each record.

    Parameters
    ----------
    clean : (record, column) the clean part of the model.
    covariates : (record, column) what true values may depend on.
    seen : (record, number) the released numbers, anything where missing.
    pattern : which numbers are missing, as a place in the lists of `Values`.
    y, trials : the outcome.
    released : (record, 2) the chance of the released outcome given the true one; no rows where
        the outcome is as it was.
    density : (record, cell) log chance of the released categories, given the true ones.
    """

    clean: Floats
    covariates: Floats
    seen: Floats
    pattern: Integers
    y: Floats
    trials: Floats
    released: Floats
    density: Floats


class Values(NamedTuple):
    """The parameters, made ready: P patterns, K components, J cells of categories, m numbers.

    `totals` takes several at once, each array (but the tables) with an axis before the others.

    Parameters
    ----------
    family : see `quadrature`.
    slopes : of the clean columns.
    offset : (J) what the levels add to the linear predictor.
    loading : (m) the coefficients of the true numbers.
    centre : (m, covariate) the true numbers' regression on the covariates.
    shift : (J, m) what the levels add to it.
    move : (K, m) what the components add to it.
    odds : (J, covariate) the multinomial logit of the levels.
    inverse : (P, K, m, m) of the covariance of the released numbers; nought where missing.
    lean : (P, K, m) how the linear predictor follows the released numbers.
    rest : (P, K, m) the loading less that.
    constant : (P, K) log weight of the component less half the log determinant.
    spread : (P, K) the standard deviation of the linear predictor.
    rule : (P, K) which rule of integration, as a row of the tables.
    nodes, weights : (rule, node) the tables, the same for all parameters.
    length : (rule) how long they are.
    """

    family: int
    slopes: Floats
    offset: Floats
    loading: Floats
    centre: Floats
    shift: Floats
    move: Floats
    odds: Floats
    inverse: Floats
    lean: Floats
    rest: Floats
    constant: Floats
    spread: Floats
    rule: Integers
    nodes: Floats
    weights: Floats
    length: Integers


def sliced(values: Values, first: int, last: int) -> Values:
    """Some of several parameters."""
    tables = ("family", "nodes", "weights", "length")
    parts = values._asdict()
    return Values(**{n: part if n in tables else part[first:last] for n, part in parts.items()})


class Parts(NamedTuple):
    """Sums over records, each weighted by the chance of its cell and component.

    Parameters
    ----------
    clean : slope of the log likelihood by `slopes`.
    offset : by `offset`.
    direct : by `loading`, the released numbers held fixed.
    centre, shift, move, odds : by those.
    weight : (P, K) the weight; its sum over patterns is the expected count of a component.
    square : (P, K, m, m) of the residuals of the released numbers, squared.
    pull : (P, K, m) of the residuals times the slope by the mean of the linear predictor.
    width : (P, K) of the slope by its variance.
    """

    clean: Floats
    offset: Floats
    direct: Floats
    centre: Floats
    shift: Floats
    move: Floats
    odds: Floats
    weight: Floats
    square: Floats
    pull: Floats
    width: Floats
