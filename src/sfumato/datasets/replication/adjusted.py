"""Models of noised data: Table 4 by simulation, Table 5 from the exam data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from sfumato.analysis.fit import fit
from sfumato.cells.noise.described import CodeNoise, Gaussian
from sfumato.datasets.replication.rows import Row, rounding
from sfumato.datasets.replication.sources import Sources

_SETS = 40
"""Simulated data sets; the paper had 100. `benchmarks.bench_fit_linear study` takes 400."""
_VARIANCE = 0.2
_TERMS = ("Intercept", "x1", "x2")
_TABLE_4 = {"naive": (0.974, 0.887, 1.051), "adjusted": (0.997, 1.004, 1.003)}
_SPREAD = (0.07, 0.05, 0.10)
"""The standard deviation of the estimates over data sets of 1000, from 100 of them."""
_TABLE_5 = {
    "original": (-0.097, 0.559, 0.174),
    "naive": (-0.082, 0.460, 0.109),
    "adjusted": (-0.093, 0.549, 0.155),
}
_LIMITS_5 = {
    "original": (0.006, 0.001, 0.004),
    "naive": (0.04, 0.02, 0.07),
    "adjusted": (0.04, 0.03, 0.08),
}
"""Posterior chance for the original; four times the scatter over draws of the noise otherwise."""


def _noise(code: str) -> dict[str, Any]:
    return {
        "x1": Gaussian(variance=_VARIANCE),
        code: CodeNoise(variance=_VARIANCE, levels=[0, 1], ends="clip"),
    }


def _codes(chance: np.random.Generator, values: Any) -> Any:
    return np.clip(values + chance.normal(size=len(values)) * np.sqrt(_VARIANCE), 0, 1)


def table_4() -> Iterator[Row]:
    """The mean estimates over simulated data sets, without and with adjustment."""
    found: dict[str, list[list[float]]] = {"naive": [], "adjusted": []}
    residual = []
    for at in range(_SETS):
        chance = np.random.default_rng([4, at])
        x1, hidden = chance.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 1000).T
        x2 = (hidden > 0).astype(float)
        y = 1 + x1 + x2 + chance.normal(size=1000)
        seen = x1 + chance.normal(size=1000) * np.sqrt(_VARIANCE)
        frame = pl.DataFrame({"y": y, "x1": seen, "x2": _codes(chance, x2)})
        told = fit("y ~ x1 + x2", frame, noise=_noise("x2"), draws=150, seed=at).summary()
        table = _by_term(told)
        found["naive"].append([table[one]["naive"] for one in _TERMS])
        found["adjusted"].append([table[one]["mean"] for one in _TERMS])
        design = np.column_stack([np.ones(1000), frame["x1"], frame["x2"]])
        residual.append(float((y - design @ found["naive"][-1]).var(ddof=3)))
    why = "chance: the mean of 40 data sets beside the mean of 100."
    for which, printed in _TABLE_4.items():
        ours = np.mean(found[which], axis=0)
        for at, (term, published) in enumerate(zip(_TERMS, printed, strict=True)):
            within = 4 * _SPREAD[at] * np.sqrt(1 / _SETS + 1 / 100)
            yield Row(place="Table 4", what=f"{which}: {term}", published=published,
                      ours=float(ours[at]), within=float(within), why=why)  # fmt: skip
    why = (
        "what the noise takes from the slopes becomes residual variance, so the printed 1.0 cannot "
        "be."
    )
    yield Row(place="Table 4", what="naive: residual variance", published=1.0,
              ours=float(np.mean(residual)), within=rounding(1), why=why)  # fmt: skip


def table_5(sources: Sources) -> Iterator[Row]:
    """The exam data: before noise, with noise, and with the noise taken out."""
    frame = sources.read("exam.csv")
    girl = (frame["sex"] == "F").cast(pl.Float64).to_numpy()
    score, y, school = frame["standLRT"].to_numpy(), frame["normexam"], frame["school"]
    chance = np.random.default_rng([5, 1])
    seen = score + chance.normal(size=len(score)) * np.sqrt(_VARIANCE)
    noised = pl.DataFrame({"y": y, "school": school, "x1": seen, "x2": _codes(chance, girl)})
    clean = pl.DataFrame({"y": y, "school": school, "x1": score, "x2": girl})
    formula = "y ~ x1 + x2 + (1 | school)"
    how: Any = {"draws": 300, "seed": 1}
    original = _by_term(fit(formula, clean, clean=["x1", "x2"], noise={}, **how).summary())
    paper = _by_term(fit(formula, noised, noise=_noise("x2"), clustered=False, **how).summary())
    better = _by_term(fit(formula, noised, noise=_noise("x2"), **how).summary())
    columns = {
        "original": (original, "mean", ""),
        "naive": (paper, "naive", "one draw of the noise, as in the paper, but another one."),
        "adjusted": (paper, "mean", "one draw of the noise, as in the paper, but another one."),
    }
    for which, (table, column, why) in columns.items():
        for at, term in enumerate(_TERMS):
            yield Row(place="Table 5", what=f"{which}: {_said(term)}",
                      published=_TABLE_5[which][at], ours=float(table[term][column]),
                      within=_LIMITS_5[which][at], why=why)  # fmt: skip
    for at, term in enumerate(_TERMS):
        why = (
            "with school effects in the model of the true values, which the paper leaves out; "
            "beside the original column."
        )
        yield Row(place="beyond the paper", what=f"adjusted, schools in both models: {_said(term)}",
                  published=_TABLE_5["original"][at], ours=float(better[term]["mean"]),
                  within=_LIMITS_5["adjusted"][at], why=why)  # fmt: skip


def _said(term: str) -> str:
    return {"Intercept": "intercept", "x1": "reading score", "x2": "girl"}[term]


def _by_term(table: Any) -> dict[str, Any]:
    """The rows of a summary by the term's name; a level of a category has its variable's."""
    found = {}
    for term in table.index:
        name = str(term).split("[")[0].removeprefix("C(").removesuffix(")")
        found[name] = table.loc[term]
    return found
