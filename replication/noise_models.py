"""Models of noised data: Tables 4 and 5 of Goldstein & Shlomo (2020), simulated and exam data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from replication.comparison import (
    ERRORS,
    Bound,
    Row,
    bound_by_chance,
    bound_by_scatter,
    read_table,
)
from replication.sources import Sources
from sfumato.analysis.fit import fit
from sfumato.kernels.arrays import Floats
from sfumato.noise.description import CodeNoise, Gaussian
from sfumato.progress import current_progress

VARIANCE = 0.2
_PAPER_SETS = 100
_RECORDS = 1000
SETS = 100
"""Simulated data sets of Table 4, as many as in the paper."""
NOISE_DRAWS = 16
"""Draws of the noise for Table 5; the paper made one."""
_CHAINS = 100
_ITERATIONS = 500
"""Of the paper's chains: so many for burn-in, and as many that are kept."""
_TERMS = ("Intercept", "x1", "x2")
_RESIDUAL = "residual variance"
_SCHOOLS = "variance of Intercept by group"
_TABLE_4 = """
0.974 0.997
0.887 1.004
1.051 1.003
1.0   1.0
"""
_TABLE_5 = """
-0.097 0.050 -0.082 0.044 -0.093 0.042
 0.559 0.013  0.460 0.012  0.549 0.014
 0.174 0.033  0.109 0.030  0.155 0.035
 0.097 0.021  0.102 0.022  0.100 0.020
 0.563 0.013  0.614 0.013  0.562 0.014
"""
_PARAMETERS = {
    "Intercept": "intercept", "x1": "reading score", "x2": "girl",
    _SCHOOLS: "variance of schools", _RESIDUAL: "residual variance",
}  # fmt: skip
_FORMULA = "y ~ x1 + x2 + (1 | school)"
_STATISTICS = {"mean": "", "sd": ", standard error"}


def describe_noise() -> dict[str, Any]:
    """The noise on the number and, cut off at 0 and 1, on the yes/no."""
    return {
        "x1": Gaussian(variance=VARIANCE),
        "x2": CodeNoise(variance=VARIANCE, levels=[0, 1], ends="clip"),
    }


def _perturb(chance: np.random.Generator, number: Floats, code: Floats) -> dict[str, Floats]:
    size = math.sqrt(VARIANCE)
    return {
        "x1": number + size * chance.normal(size=len(number)),
        "x2": np.clip(code + size * chance.normal(size=len(code)), 0, 1),
    }


def adjust(formula: str, frame: pl.DataFrame, *, draws: int, seed: int, **how: Any) -> Any:
    """Rows of a fit by term, the noise taken out; a level of a category has its variable's name."""
    summary = fit(formula, frame, noise=describe_noise(), draws=draws, seed=seed, **how).summary()
    return _index_by_term(summary)


def _index_by_term(table: Any) -> dict[str, Any]:
    return {
        str(term).split("[")[0].removeprefix("C(").removesuffix(")"): table.loc[term]
        for term in table.index
    }


def compare_table_4() -> Iterator[Row]:
    """The mean estimates over simulated data sets, without and with adjustment."""
    names, report = (*_TERMS, _RESIDUAL), current_progress()
    estimates: dict[str, list[list[float]]] = {"naive": [], "adjusted": []}
    errors, unexplained = [], []
    for index in range(SETS):
        report("fitting simulated data", index, SETS)
        chance = np.random.default_rng([4, index])
        x1, hidden = chance.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], _RECORDS).T
        x2 = (hidden > 0).astype(float)
        y = 1 + x1 + x2 + chance.normal(size=_RECORDS)
        noised = _perturb(chance, x1, x2)
        table = adjust("y ~ x1 + x2", pl.DataFrame({"y": y, **noised}), draws=100, seed=index)
        estimates["naive"].append([float(table[name]["naive"]) for name in names])
        estimates["adjusted"].append([float(table[name]["mean"]) for name in names])
        errors.append([float(table[name]["sd"]) for name in _TERMS])
        design = np.column_stack([np.ones(_RECORDS), *noised.values()])
        _, residual_squares, *_ = np.linalg.lstsq(design, x1 + x2, rcond=None)
        unexplained.append(float(residual_squares[0]) / (_RECORDS - 3))
    why = f"chance: the mean of {SETS} data sets beside the mean of {_PAPER_SETS} others."
    for column, (which, sets) in enumerate(estimates.items()):
        for index, name in enumerate(names):
            values = [estimate[index] for estimate in sets]
            row = Row(place="Table 4", what=f"{which}: {name}",
                      printed=read_table(_TABLE_4)[index][column],
                      ours=math.fsum(values) / SETS, why=why,
                      bound=bound_by_scatter(values, published=_PAPER_SETS))  # fmt: skip
            if which == "naive" and name == _RESIDUAL:
                row = _explain_residual(row, values, unexplained)
            yield row
    sizes = ", ".join(f"{np.mean(column):.2g}" for column in zip(*errors, strict=True))
    why = (
        f"said to be standard deviations of the chains, which for {_RECORDS:,} records are {sizes} "
        "here: over ten times the printed ones. The paper does not say what they were divided by."
    )
    yield Row(place="Table 4", what="standard errors in brackets (6)", why=why)
    why = "these are the adjusted estimates above, less 1, in percent."
    yield Row(place="Table 4", what="bias in percent (4)", why=why)


def _explain_residual(row: Row, naive: Sequence[float], unexplained: Sequence[float]) -> Row:
    """Ours must be the variance of the errors, 1, and what noised predictors leave of the rest."""
    beyond = [
        value - unexplained_variance
        for value, unexplained_variance in zip(naive, unexplained, strict=True)
    ]
    error = float(np.std(beyond, ddof=1)) / math.sqrt(len(beyond))
    middle = 1 + math.fsum(unexplained) / len(unexplained)
    why = (
        "the printed 1.0 cannot be right: what noised predictors leave unexplained of the true "
        "ones adds "
        "to the variance of the errors, which is 1. The bound is that sum, by simulation."
    )
    bound = Bound(middle - ERRORS * error, middle + ERRORS * error, of="ours")
    return Row(place=row.place, what=row.what, printed=row.printed, ours=row.ours, why=why,
               bound=bound)  # fmt: skip


class _Scatter(NamedTuple):
    """How far chains of the paper's length scatter, by parameter: their means and their SDs."""

    mean: Floats
    sd: Floats


def compare_table_5(sources: Sources) -> Iterator[Row]:
    """The exam data: before noise, with noise, and with the noise taken out."""
    exam = sources.read("exam.csv")
    girl = (exam["sex"] == "F").cast(pl.Float64).to_numpy()
    score, outcome = exam["standLRT"].to_numpy(), exam.select(y="normexam", school="school")
    clean = outcome.with_columns(x1=score, x2=girl)
    original = _fit_as_clean(clean, draws=400)
    columns: dict[str, list[Any]] = {"original": [original], "naive": [], "adjusted": []}
    report, noised = current_progress(), clean
    for index in range(NOISE_DRAWS):
        report("fitting the exam data", index, NOISE_DRAWS)
        chance = np.random.default_rng([5, index])
        noised = outcome.with_columns(**_perturb(chance, score, girl))
        columns["naive"].append(_fit_as_clean(noised, draws=60))
        columns["adjusted"].append(adjust(_FORMULA, noised, draws=60, seed=1, clustered=False))
    chains = {"original": _scatter_chains(clean), "naive": _scatter_chains(noised)}
    for column, (which, tables) in enumerate(columns.items()):
        scatter = chains.get(which, chains["naive"])
        for line, (name, label) in enumerate(_PARAMETERS.items()):
            for offset, (statistic, suffix) in enumerate(_STATISTICS.items()):
                yield _compare_estimate(
                    f"{which}: {label}{suffix}",
                    read_table(_TABLE_5)[line][2 * column + offset],
                    [float(table[name][statistic]) for table in tables],
                    error=float(getattr(scatter, statistic)[line]),
                    own_error=_estimate_own_error(tables[0][name], statistic),
                )
    yield from _measure_better(noised, original)


def _compare_estimate(
    what: str, printed: str, values: list[float], *, error: float, own_error: float
) -> Row:
    """An estimate of the exam data, from the records as they are or from several draws of noise."""
    if len(values) == 1:
        why = f"chance in a chain of {_ITERATIONS} draws, judged by {_CHAINS} such chains."
        bound = bound_by_chance(values[0], own_error, theirs=error)
    else:
        why = (
            f"the paper drew the noise once. Ours is the mean over {len(values)} draws of it; the "
            f"bound is the scatter over these, and that of chains of {_ITERATIONS} draws."
        )
        bound = bound_by_scatter(values, extra=error)
    return Row(place="Table 5", what=what, printed=printed, ours=math.fsum(values) / len(values),
               why=why, bound=bound)  # fmt: skip


def _estimate_own_error(row: Any, statistic: str) -> float:
    """The Monte Carlo error of our mean, or of our standard deviation."""
    return float(row["mcse"] if statistic == "mean" else row["sd"] / math.sqrt(2 * row["ess"]))


def _measure_better(noised: pl.DataFrame, original: Any) -> Iterator[Row]:
    """Not in the paper: school effects in the model of the true values, which it leaves out."""
    better = adjust(_FORMULA, noised, draws=150, seed=1)
    why = (
        "the paper leaves school effects out of the model of the true values. The bound is about "
        "our estimate from the original: four times what the noise adds to the standard error."
    )
    for name in _TERMS:
        ours, known = better[name], original[name]
        added = math.sqrt(max(float(ours["sd"]) ** 2 - float(known["sd"]) ** 2, 0.0))
        middle, reach = float(known["mean"]), ERRORS * math.hypot(added, float(ours["mcse"]))
        yield Row(place="not in the paper", ours=float(ours["mean"]), why=why,
                  what=f"adjusted, schools in both models: {_PARAMETERS[name]}",
                  bound=Bound(middle - reach, middle + reach, of="ours"))  # fmt: skip


def _fit_as_clean(frame: pl.DataFrame, *, draws: int) -> Any:
    """The fit of somebody who takes every value for the true one."""
    how: Any = {"clean": ["x1", "x2"], "noise": {}, "draws": draws, "seed": 1}
    return _index_by_term(fit(_FORMULA, frame, **how).summary())


def _scatter_chains(frame: pl.DataFrame) -> _Scatter:
    """Run the paper's sampler, without noise in its model, many times at once.

    A plain Gibbs sampler: school effects, coefficients, the two variances (under flat priors) in
    turn. It forgets the intercept slowly, so that a chain of 500 draws is worth far fewer. It is
    for the bound only: what stands beside the paper's numbers is fitted by `sf.fit`.
    """
    random = np.random.default_rng(6)
    y = frame["y"].to_numpy()
    design = np.column_stack([np.ones(len(y)), frame["x1"], frame["x2"]])
    school = frame["school"].rank("dense").to_numpy() - 1
    counts = np.bincount(school).astype(float)
    of_school = np.array([np.bincount(school, column) for column in design.T]).T
    y_of_school, products = np.bincount(school, y), design.T @ design
    inverse, with_y = np.linalg.inv(products), design.T @ y
    root = np.linalg.cholesky(inverse)
    beta = np.tile(inverse @ with_y, (_CHAINS, 1))
    residual, between = np.full(_CHAINS, y.var()), np.full(_CHAINS, 0.1 * y.var())
    draws = np.empty((_ITERATIONS, _CHAINS, len(_PARAMETERS)))
    for iteration in range(-_ITERATIONS, _ITERATIONS):
        precision = counts / residual[:, None] + 1 / between[:, None]
        residual_sums = y_of_school - beta @ of_school.T
        effects = residual_sums / residual[:, None] / precision
        effects += random.normal(size=effects.shape) / np.sqrt(precision)
        beta = (with_y - effects @ of_school) @ inverse
        beta += np.sqrt(residual)[:, None] * random.normal(size=beta.shape) @ root.T
        residual_sums = y_of_school - beta @ of_school.T
        squares = (
            y @ y - 2 * beta @ with_y + np.einsum("ci,ij,cj->c", beta, products, beta)
            - 2 * (effects * residual_sums).sum(axis=1) + effects**2 @ counts
        )  # fmt: skip
        residual = squares / 2 / random.gamma(len(y) / 2 - 1, size=_CHAINS)
        between = (effects**2).sum(axis=1) / 2 / random.gamma(len(counts) / 2 - 1, size=_CHAINS)
        if iteration >= 0:
            draws[iteration] = np.column_stack([beta, between, residual])
    return _Scatter(draws.mean(axis=0).std(axis=0, ddof=1), draws.std(axis=0, ddof=1).std(axis=0))
