"""Bias and coverage of `fit` in designs that break what a simpler model assumes.

`python -m benchmarks.study_designs --sets 200` prints a row for each design: how many data sets,
the bias of the posterior mean in posterior SDs, the coverage of 95 % intervals, that of the naive
fit, and in which share of data sets a check of the model failed. Each row is about one
coefficient, the one at stake. `--designs A,B` selects some, `--list` names them; `--seconds 60`
stops a design after so much CPU time, with fewer data sets. `--into FOLDER` keeps each data set in
a file, so that a run that was stopped goes on where it was. `--original` fits the same data sets
before noise: what is left of bias there comes from few records, not from noise. `--draws 600` makes
longer chains, where 250 draws are worth too few independent ones.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf
from sfumato.kernels.arrays import Floats

CHAINS, DRAWS = 2, 250
Columns = dict[str, Any]
Generator = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class Design:
    """Data sets of one kind, and the model that is fitted to them.

    Parameters
    ----------
    simulate : true columns, from a generator.
    formula, family : the model.
    term, true : the coefficient at stake, and its value.
    variances : of the normal noise that is added, by variable.
    flipped : the probability that a yes/no is exchanged, by variable.
    shared : variables that are constant in `school`, whose noise is drawn once for each.
    weights : the variable of the survey weights; "" for none.
    shape : of the fit.
    about : what is special, in words.
    """

    simulate: Callable[[Generator], Columns]
    formula: str
    term: str
    true: float
    about: str
    family: str = "gaussian"
    variances: dict[str, float] = field(default_factory=dict)
    flipped: dict[str, float] = field(default_factory=dict)
    shared: frozenset[str] = frozenset()
    weights: str = ""
    shape: Any = "auto"


def release(design: Design, seed: int) -> tuple[pl.DataFrame, dict[str, Any]]:
    """A data set with its noise, and the description of that."""
    # Designs have chance of their own: bad luck in one says nothing of another.
    rng = np.random.default_rng([zlib.crc32(design.about.encode()), seed])
    columns = design.simulate(rng)
    noise: dict[str, Any] = {}
    for name, variance in design.variances.items():
        error = rng.normal(scale=np.sqrt(variance), size=len(columns[name]))
        if name in design.shared:
            error = error[columns["school"]]
        columns[name] = columns[name] + error
        noise[name] = sf.Gaussian(variance=variance)
    for name, share in design.flipped.items():
        flips = rng.uniform(size=len(columns[name])) < share
        flips = flips[columns["school"]] if name in design.shared else flips
        columns[name] = np.where(flips, 1 - columns[name], columns[name])
        matrix = [[1 - share, share], [share, 1 - share]]
        noise[name] = sf.Misclassification(levels=[0, 1], matrix=matrix)
    return pl.DataFrame(columns), noise


def fit_data_set(design: Design, seed: int, draws: int = DRAWS) -> dict[str, Any]:
    """What is kept of one data set."""
    frame, noise = release(design, seed)
    start = time.process_time()
    fit = sf.fit(
        design.formula, frame, noise=noise, family=design.family, draws=draws, chains=CHAINS,
        shape=design.shape, weights=design.weights or None,
    )  # fmt: skip
    seconds = time.process_time() - start
    row = next(row for row in fit.rows if row["term"].replace(".0", "") == design.term)
    reach = 1.96 * fit.naive.error.get(row["term"], np.nan)
    return {
        "mean": row["mean"],
        "sd": row["sd"],
        "bias": (row["mean"] - design.true) / row["sd"],
        "inside": bool(row["low"] < design.true < row["high"]),
        "naive": bool(abs(row["naive"] - design.true) < reach),
        # A check that failed is a warning, or was answered by another engine.
        "warned": fit.engine == "resampled moments"
        or any(warning.startswith("Check failed") for warning in fit.warnings),
        "rhat": row["rhat"],
        "ess": row["ess"],
        "engine": fit.engine,
        "seconds": seconds,
    }


# True values


def _draw_yes(rng: Generator, records: int, share: float) -> Floats:
    return (rng.uniform(size=records) < share).astype(float)


def _outcome(rng: Generator, eta: Floats, family: str, sd: Floats | float = 1.0) -> Floats:
    if family == "bernoulli":
        return (rng.uniform(size=len(eta)) < 1 / (1 + np.exp(-eta))).astype(float)
    if family == "poisson":
        return rng.poisson(np.exp(eta)).astype(float)
    return eta + sd * rng.normal(size=len(eta))


def simulate_spread(
    rng: Generator, *, sds: tuple[float, float], family: str = "gaussian", records: int = 800,
    skewed: bool = False,
) -> Columns:  # fmt: skip
    """Of y ~ x * z, where x has another SD in each group of z."""
    z = _draw_yes(rng, records, 0.5)
    deviation = rng.exponential(size=records) - 1 if skewed else rng.normal(size=records)
    x = 0.5 * z + np.where(z == 1, sds[1], sds[0]) * deviation
    if family == "poisson":
        return {"y": _outcome(rng, 0.2 + 0.2 * x + 0.2 * z + 0.2 * x * z, family), "x": x, "z": z}
    return {"y": _outcome(rng, 0.2 + 0.5 * x + 0.3 * z + 0.5 * x * z, family), "x": x, "z": z}


def simulate_spread_without_product(rng: Generator) -> Columns:
    """Of y ~ x + z, where x has another SD in each group of z."""
    columns = simulate_spread(rng, sds=(1.8, 0.6))
    eta = 0.2 + 0.5 * columns["x"] + 0.3 * columns["z"]
    return {**columns, "y": _outcome(rng, eta, "bernoulli")}


def simulate_growing(rng: Generator, *, family: str = "gaussian", records: int = 800) -> Columns:
    """Of y ~ x * z, where the variance of x grows with a clean number z."""
    z = rng.normal(size=records)
    x = np.exp(0.5 * z) * rng.normal(size=records)
    return {"y": _outcome(rng, 0.2 + 0.5 * x + 0.3 * z + 0.3 * x * z, family), "x": x, "z": z}


def simulate_bimodal(rng: Generator, *, family: str = "gaussian", records: int = 800) -> Columns:
    """Of y ~ x * z, where x has two modes in one group only."""
    z = _draw_yes(rng, records, 0.5)
    side = 3.0 * _draw_yes(rng, records, 0.5) - 1.5
    x = np.where(z == 1, side + 0.4 * rng.normal(size=records), rng.normal(size=records))
    return {"y": _outcome(rng, 0.2 + 0.5 * x + 0.3 * z + 0.5 * x * z, family), "x": x, "z": z}


def simulate_parabolic(
    rng: Generator, *, family: str = "gaussian", records: int = 800, product: bool = False
) -> Columns:
    """X is a parabola of a clean number z."""
    z = rng.normal(size=records)
    x = 0.7 * (z * z - 1) + 0.7 * rng.normal(size=records)
    eta = 0.2 + 0.5 * x + 0.3 * z + (0.3 * x * z if product else 0.0)
    return {"y": _outcome(rng, eta, family), "x": x, "z": z}


def simulate_exposed(rng: Generator, *, records: int = 800) -> Columns:
    """Counts over years of observation, which depend on the true x."""
    columns = simulate_plain(rng, records=records)
    x, z = columns["x"], columns["z"]
    years = np.exp(0.4 * x + 0.5 * rng.normal(size=records))
    return {**columns, "years": years, "y": rng.poisson(years * np.exp(0.2 + 0.5 * x + 0.3 * z))}


def simulate_overdispersed(rng: Generator, *, records: int = 800) -> Columns:
    """Counts of variance μ + μ²/2."""
    columns = simulate_plain(rng, records=records)
    mean = np.exp(0.2 + 0.5 * columns["x"] + 0.3 * columns["z"])
    return {**columns, "y": rng.poisson(mean * rng.gamma(2.0, 0.5, size=records))}


def simulate_levels(rng: Generator, *, records: int = 800) -> Columns:
    """Four levels in order: `y`; three without order: `kind`, from 0 on."""
    columns = simulate_plain(rng, records=records)
    x, z = columns["x"], columns["z"]
    y = np.searchsorted([-1.0, 0.5, 2.0], 0.5 * x + 0.3 * z + rng.logistic(size=records))
    lines = np.column_stack([np.zeros(records), 0.3 + 0.5 * x, -0.2 - 0.6 * x + 0.5 * z])
    kind = (lines + rng.gumbel(size=lines.shape)).argmax(axis=1)
    return {**columns, "y": y, "kind": kind}


def simulate_three_way(rng: Generator, *, records: int = 1000) -> Columns:
    """Of y ~ x * z * g, where the spread of x depends on both groups."""
    z, g = (_draw_yes(rng, records, 0.5) for _ in range(2))
    x = 0.3 * z - 0.3 * g + np.exp(0.4 * z - 0.5 * g) * rng.normal(size=records)
    eta = 0.2 + 0.5 * x + 0.3 * z + 0.2 * g + 0.3 * x * z - 0.2 * x * g + 0.4 * x * z * g
    return {"y": _outcome(rng, eta, "gaussian"), "x": x, "z": z, "g": g}


def simulate_two_noised(
    rng: Generator, *, spread: bool, family: str = "gaussian", records: int = 800
) -> Columns:
    """Of y ~ a * b + z, both noised; their spread may depend on z."""
    z = _draw_yes(rng, records, 0.5)
    scale = np.where(z == 1, 1.4, 0.7) if spread else np.ones(records)
    a = scale * rng.normal(size=records)
    b = 0.4 * a + scale * rng.normal(size=records)
    return {"y": _outcome(rng, 0.2 + 0.5 * a + 0.3 * b + 0.3 * a * b + 0.2 * z, family), "a": a,
            "b": b, "z": z}  # fmt: skip


def simulate_skewed(
    rng: Generator, *, family: str = "gaussian", records: int = 800, square: bool = False
) -> Columns:
    """One clean and one noised predictor; x is exponential."""
    z = rng.normal(size=records)
    x = 0.4 * z + rng.exponential(size=records) - 1
    slope = 0.3 if family == "poisson" else 0.5
    eta = 0.2 + slope * x + 0.3 * z + (0.2 * x * x if square else 0.0)
    return {"y": _outcome(rng, eta, family), "x": x, "z": z}


def simulate_skewed_with_level(rng: Generator, *, records: int = 800) -> Columns:
    """Two skewed noised numbers and a misclassified yes/no, as in Table 6a of the paper."""
    d = _draw_yes(rng, records, 0.4)
    a = (0.8 + 0.4 * d) * rng.gamma(2.0, size=records)
    b = 0.5 * a + rng.gamma(2.0, size=records)
    y = _outcome(rng, 0.2 + 0.5 * a + 0.3 * b + 0.7 * d, "gaussian")
    return {"y": y, "a": a, "b": b, "d": d.astype(int)}


def simulate_u_shaped(rng: Generator, *, family: str = "gaussian", records: int = 1000) -> Columns:
    """A misclassified yes/no d that depends U-shaped on a clean number z."""
    z = rng.normal(size=records)
    d = (rng.uniform(size=records) < 1 / (1 + np.exp(1.5 - 1.5 * z * z))).astype(int)
    return {"y": _outcome(rng, 0.2 + 0.8 * d + 0.4 * z, family), "d": d, "z": z}


def simulate_heteroscedastic(rng: Generator, *, by: str, records: int = 800) -> Columns:
    """Of y ~ x + z, where the residual variance depends on z, or on x."""
    z = rng.normal(size=records)
    x = 0.4 * z + rng.normal(size=records)
    if by == "group":
        z = _draw_yes(rng, records, 0.3)
        x = 0.5 * z + rng.normal(size=records)
        sd = np.where(z == 1, 2.5, 0.6)
    else:
        sd = np.exp(0.6 * (x if by == "x" else z))
    return {"y": _outcome(rng, 0.2 + 0.5 * x + 0.3 * z, "gaussian", sd), "x": x, "z": z}


def simulate_product_heteroscedastic(rng: Generator, *, records: int = 800) -> Columns:
    """Of y ~ x * z, where both the spread of x and the residual variance depend on z."""
    z = _draw_yes(rng, records, 0.5)
    x = 0.5 * z + np.where(z == 1, 0.7, 1.4) * rng.normal(size=records)
    sd = np.where(z == 1, 1.6, 0.7)
    return {"y": _outcome(rng, 0.2 + 0.5 * x + 0.3 * z + 0.5 * x * z, "gaussian", sd), "x": x,
            "z": z}  # fmt: skip


def simulate_school_kinds(rng: Generator, schools: int = 80, size: int = 8) -> Columns:
    """Schools of two kinds, and pupils with a clean number."""
    school = np.repeat(np.arange(schools), size)
    d, z = _draw_yes(rng, schools, 0.5)[school], rng.normal(size=len(school))
    eta = 1 + 0.8 * d + 0.3 * z + 0.5 * rng.normal(size=schools)[school]
    return {"y": _outcome(rng, eta, "gaussian"), "d": d, "z": z, "school": school}


def simulate_school_and_pupil(rng: Generator, schools: int = 60, size: int = 8) -> Columns:
    """A number of schools, and one of pupils that depends on it."""
    school = np.repeat(np.arange(schools), size)
    g = rng.normal(size=schools)[school]
    x = 0.5 * g + rng.normal(size=len(school))
    eta = 1 + 0.4 * x + 0.5 * g + 0.3 * x * g + 0.5 * rng.normal(size=schools)[school]
    return {"y": _outcome(rng, eta, "gaussian"), "x": x, "g": g, "school": school}


def simulate_schools(
    rng: Generator, *, family: str = "gaussian", spread: bool = False, level: str = "record",
    schools: int = 40, size: int = 15,
) -> Columns:  # fmt: skip
    """Two levels: x differs by school, or is constant in it."""
    school = np.repeat(np.arange(schools), size)
    z = _draw_yes(rng, len(school), 0.5)
    if level == "school":
        x = rng.normal(size=schools)[school]
    else:
        within = np.where(z == 1, 1.3, 0.6) if spread else 1.0
        x = 0.5 * rng.normal(size=schools)[school] + within * rng.normal(size=len(school))
    effect = 0.5 * rng.normal(size=schools)[school]
    eta = 0.2 + 0.5 * x + 0.3 * z + (0.4 * x * z if spread else 0.0) + effect
    return {"y": _outcome(rng, eta, family), "x": x, "z": z, "school": school}


def simulate_areas(
    rng: Generator, *, family: str = "gaussian", nested: bool = False, records: int = 600,
    schools: int = 40, areas: int = 15,
) -> Columns:  # fmt: skip
    """Pupils of schools and areas; schools lie within areas, or have pupils of all areas."""
    school = rng.integers(0, schools, records)
    area = school % areas if nested else rng.integers(0, areas, records)
    z = rng.normal(size=records)
    x = rng.normal(size=records) + 0.5 * rng.normal(size=schools)[school]
    x += 0.5 * rng.normal(size=areas)[area]
    eta = 0.2 + 0.5 * x + 0.3 * z + 0.5 * rng.normal(size=schools)[school]
    eta += 0.5 * rng.normal(size=areas)[area]
    return {"y": _outcome(rng, eta, family), "x": x, "z": z, "school": school, "area": area}


def simulate_slopes(
    rng: Generator, *, family: str = "gaussian", schools: int = 40, size: int = 20
) -> Columns:
    """Each school has an intercept and a slope of its own, of variance 0.25 and correlated."""
    school = np.repeat(np.arange(schools), size)
    own = rng.multivariate_normal([0.0, 0.0], [[0.25, 0.1], [0.1, 0.25]], schools)[school]
    x = rng.normal(size=len(school)) + 0.5 * rng.normal(size=schools)[school]
    eta = 0.2 + 0.5 * x + own[:, 0] + own[:, 1] * x
    return {"y": _outcome(rng, eta, family), "x": x, "school": school}


def simulate_survey(rng: Generator, *, family: str = "gaussian", people: int = 8000) -> Columns:
    """People who are drawn the more often, the larger their outcome; weights undo that."""
    columns = simulate_plain(rng, family=family, records=people)
    y = np.asarray(columns["y"])
    chance = 0.4 / (1 + np.exp(1.0 - y + 0.5 * np.asarray(columns["x"])))
    drawn = rng.uniform(size=people) < chance
    return {name: values[drawn] for name, values in {**columns, "w": 1 / chance}.items()}


def simulate_plain(rng: Generator, *, family: str = "gaussian", records: int = 800) -> Columns:
    """Nothing is special: normal x, linear in z."""
    z = rng.normal(size=records)
    x = 0.4 * z + rng.normal(size=records)
    slope = 0.3 if family == "poisson" else 0.5
    return {"y": _outcome(rng, 0.2 + slope * x + 0.3 * z, family), "x": x, "z": z}


_PRODUCT: dict[str, Any] = {"formula": "y ~ x*z", "term": "x:z", "true": 0.5}
_SLOPE: dict[str, Any] = {"formula": "y ~ x + z", "term": "x", "true": 0.5}
_NOISE = {"x": 0.3}
DESIGNS: dict[str, Design] = {
    "spread_1.8_0.6": Design(
        simulate=partial(simulate_spread, sds=(1.8, 0.6)), variances=_NOISE,
        about="y ~ x*z, SD of x 1.8 and 0.6 by z", **_PRODUCT),
    "spread_1.2_0.8": Design(
        simulate=partial(simulate_spread, sds=(1.2, 0.8)), variances=_NOISE,
        about="y ~ x*z, SD of x 1.2 and 0.8 by z", **_PRODUCT),
    "spread_equal": Design(
        simulate=partial(simulate_spread, sds=(1.0, 1.0)), variances=_NOISE,
        about="y ~ x*z, SD of x the same", **_PRODUCT),
    "spread_skewed": Design(
        simulate=partial(simulate_spread, sds=(1.5, 0.7), skewed=True), variances=_NOISE,
        about="y ~ x*z, exponential x, SD 1.5 and 0.7 by z", **_PRODUCT),
    "logit_spread_1.8_0.6": Design(
        simulate=partial(simulate_spread, sds=(1.8, 0.6), family="bernoulli"), family="bernoulli",
        variances=_NOISE, about="logit y ~ x*z, SD 1.8 and 0.6", **_PRODUCT),
    "logit_spread_1.2_0.8": Design(
        simulate=partial(simulate_spread, sds=(1.2, 0.8), family="bernoulli"), family="bernoulli",
        variances=_NOISE, about="logit y ~ x*z, SD 1.2 and 0.8", **_PRODUCT),
    "poisson_spread": Design(
        simulate=partial(simulate_spread, sds=(1.4, 0.7), family="poisson"), family="poisson",
        variances=_NOISE, about="Poisson y ~ x*z, SD 1.4 and 0.7", formula="y ~ x*z", term="x:z",
        true=0.2),
    "logit_spread_no_product": Design(
        simulate=simulate_spread_without_product, family="bernoulli", variances=_NOISE,
        about="logit y ~ x + z, SD of x 1.8 and 0.6 by z", **_SLOPE),
    "growing": Design(
        simulate=simulate_growing, variances=_NOISE, formula="y ~ x*z", term="x:z", true=0.3,
        about="variance of x grows with a clean number"),
    "logit_growing": Design(
        simulate=partial(simulate_growing, family="bernoulli"), family="bernoulli",
        variances=_NOISE, formula="y ~ x*z", term="x:z", true=0.3,
        about="logit, variance of x grows with a clean number"),
    "bimodal": Design(
        simulate=simulate_bimodal, variances={"x": 0.5}, about="x bimodal in one group only",
        **_PRODUCT),
    "logit_bimodal": Design(
        simulate=partial(simulate_bimodal, family="bernoulli"), family="bernoulli",
        variances={"x": 0.5}, about="logit, x bimodal in one group only", **_PRODUCT),
    "parabolic": Design(
        simulate=simulate_parabolic, variances=_NOISE, about="x parabolic in z", **_SLOPE),
    "parabolic_product": Design(
        simulate=partial(simulate_parabolic, product=True), variances=_NOISE,
        formula="y ~ x*z", term="x:z", true=0.3, about="y ~ x*z, x parabolic in z"),
    "logit_parabolic": Design(
        simulate=partial(simulate_parabolic, family="bernoulli"), family="bernoulli",
        variances=_NOISE, about="logit, x parabolic in z", **_SLOPE),
    "three_way": Design(
        simulate=simulate_three_way, variances=_NOISE, formula="y ~ x*z*g", term="x:z:g",
        true=0.4, about="three-way interaction, spread by both groups"),
    "two_noised": Design(
        simulate=partial(simulate_two_noised, spread=False), variances={"a": 0.3, "b": 0.3},
        formula="y ~ a*b + z", term="a:b", true=0.3, about="product of two noised numbers"),
    "two_noised_spread": Design(
        simulate=partial(simulate_two_noised, spread=True), variances={"a": 0.3, "b": 0.3},
        formula="y ~ a*b + z", term="a:b", true=0.3,
        about="product of two noised numbers whose spread differs by z"),
    "u_shaped": Design(
        simulate=simulate_u_shaped, flipped={"d": 0.15}, formula="y ~ d + z", term="d", true=0.8,
        about="misclassified yes/no, U-shaped in z"),
    "logit_u_shaped": Design(
        simulate=partial(simulate_u_shaped, family="bernoulli"), family="bernoulli",
        flipped={"d": 0.15}, formula="y ~ d + z", term="d", true=0.8,
        about="logit, misclassified yes/no, U-shaped in z"),
    "skewed": Design(
        simulate=simulate_skewed, variances={"x": 0.2}, about="exponential x, 17 % noise",
        **_SLOPE),
    "skewed_square": Design(
        simulate=partial(simulate_skewed, square=True), variances={"x": 0.2},
        formula="y ~ x + I(x**2) + z", term="I(x ** 2)", true=0.2,
        about="exponential x and its square, 17 % noise"),
    "logit_skewed": Design(
        simulate=partial(simulate_skewed, family="bernoulli"), family="bernoulli",
        variances={"x": 0.2}, about="logit, exponential x, 17 % noise", **_SLOPE),
    "poisson_skewed": Design(
        simulate=partial(simulate_skewed, family="poisson"), family="poisson",
        variances={"x": 0.2}, formula="y ~ x + z", term="x", true=0.3,
        about="Poisson, exponential x, 17 % noise"),
    "skewed_level": Design(
        simulate=simulate_skewed_with_level, variances={"a": 0.35, "b": 0.45},
        flipped={"d": 0.1}, formula="y ~ a + b + d", term="b", true=0.3,
        about="two skewed numbers, 17 % noise, and a misclassified yes/no"),
    "hetero_group": Design(
        simulate=partial(simulate_heteroscedastic, by="group"), variances=_NOISE,
        formula="y ~ x + z", term="z", true=0.3, about="residual SD 2.5 and 0.6 by z"),
    "hetero_number": Design(
        simulate=partial(simulate_heteroscedastic, by="z"), variances=_NOISE,
        formula="y ~ x + z", term="z", true=0.3, about="residual SD grows with z"),
    "hetero_x": Design(
        simulate=partial(simulate_heteroscedastic, by="x"), variances=_NOISE,
        about="residual SD grows with x", **_SLOPE),
    "hetero_product": Design(
        simulate=simulate_product_heteroscedastic, variances=_NOISE,
        about="y ~ x*z, spread of x and residual SD differ by z", **_PRODUCT),
    "two_level": Design(
        simulate=simulate_schools, variances=_NOISE, formula="y ~ x + z + (1 | school)",
        term="x", true=0.5, about="two levels, x differs by school"),
    "two_level_spread": Design(
        simulate=partial(simulate_schools, spread=True), variances=_NOISE,
        formula="y ~ x*z + (1 | school)", term="x:z", true=0.4,
        about="two levels, y ~ x*z, SD of x 1.3 and 0.6 by z"),
    "two_level_logit": Design(
        simulate=partial(simulate_schools, family="bernoulli"), family="bernoulli",
        variances=_NOISE, formula="y ~ x + z + (1 | school)", term="x", true=0.5,
        about="two-level logit"),
    "group_level": Design(
        simulate=partial(simulate_schools, level="school"), variances=_NOISE,
        shared=frozenset({"x"}), formula="y ~ x + z + (1 | school)", term="x", true=0.5,
        about="x constant in schools, noise drawn once for each"),
    "group_level_logit": Design(
        simulate=partial(simulate_schools, level="school", family="bernoulli", schools=100),
        family="bernoulli", variances=_NOISE, shared=frozenset({"x"}),
        formula="y ~ x + z + (1 | school)", term="x", true=0.5,
        about="two-level logit, x constant in schools, noise drawn once for each"),
    "group_level_category": Design(
        simulate=simulate_school_kinds, flipped={"d": 0.15}, shared=frozenset({"d"}),
        formula="y ~ d + z + (1 | school)", term="d", true=0.8,
        about="misclassified yes/no of schools, exchanged once for each"),
    "group_level_both": Design(
        simulate=simulate_school_and_pupil, variances={"x": 0.3, "g": 0.3},
        shared=frozenset({"g"}), formula="y ~ x*g + (1 | school)", term="g", true=0.5,
        about="noised number of schools times one of pupils that depends on it"),
    "crossed": Design(
        simulate=simulate_areas, variances=_NOISE, term="x", true=0.5,
        formula="y ~ x + z + (1 | school) + (1 | area)", about="schools crossed with areas"),
    "nested": Design(
        simulate=partial(simulate_areas, nested=True), variances=_NOISE, term="x", true=0.5,
        formula="y ~ x + z + (1 | area/school)", about="schools within areas"),
    "crossed_logit": Design(
        simulate=partial(simulate_areas, family="bernoulli"), variances=_NOISE, term="x", true=0.5,
        family="bernoulli", formula="y ~ x + z + (1 | school) + (1 | area)",
        about="logit, schools crossed with areas"),
    "slopes": Design(
        simulate=simulate_slopes, variances=_NOISE, formula="y ~ x + (1 + x | school)", term="x",
        true=0.5, about="slopes of x differ by school"),
    "slope_variance": Design(
        simulate=simulate_slopes, variances=_NOISE, formula="y ~ x + (1 + x | school)",
        term="variance of x by group", true=0.25, about="the variance of slopes by school"),
    "weighted": Design(
        simulate=simulate_survey, variances={"x": 0.3, "w": 1.0}, weights="w",
        about="drawn by outcome, noise in x and in the weights", **_SLOPE),
    "weighted_logit": Design(
        simulate=partial(simulate_survey, family="bernoulli"), family="bernoulli",
        variances={"x": 0.3, "w": 1.0}, weights="w",
        about="logit, drawn by outcome, noise in x and in the weights", **_SLOPE),
    "poisson_offset": Design(
        simulate=simulate_exposed, family="poisson", variances=_NOISE,
        formula="y ~ x + z + offset(log(years))", term="x", true=0.5,
        about="Poisson rates, years depend on x"),
    "negative_binomial": Design(
        simulate=simulate_overdispersed, family="negative_binomial", variances=_NOISE,
        about="negative binomial, nothing special", **_SLOPE),
    "dispersion": Design(
        simulate=simulate_overdispersed, family="negative_binomial", variances=_NOISE,
        formula="y ~ x + z", term="dispersion", true=0.5, about="negative binomial, dispersion"),
    "ordinal": Design(
        simulate=simulate_levels, family="ordinal", variances=_NOISE,
        about="four levels in order, nothing special", **_SLOPE),
    "multinomial": Design(
        simulate=simulate_levels, family="multinomial", variances=_NOISE,
        formula="kind ~ x + z", term="1: x", true=0.5, about="three levels without order"),
    "plain": Design(simulate=simulate_plain, variances=_NOISE, about="nothing special", **_SLOPE),
    "logit_plain": Design(
        simulate=partial(simulate_plain, family="bernoulli"), family="bernoulli",
        variances=_NOISE, about="logit, nothing special", **_SLOPE),
    "poisson_plain": Design(
        simulate=partial(simulate_plain, family="poisson"), family="poisson", variances=_NOISE,
        formula="y ~ x + z", term="x", true=0.3, about="Poisson, nothing special"),
}  # fmt: skip


def run(
    name: str, design: Design, wanted: range, into: Path | None, most: float, draws: int = DRAWS
) -> list[dict[str, Any]]:
    """The data sets of a design, as many as fit into `most` CPU seconds.

    Those in the file are not fitted again.
    """
    done: dict[int, dict[str, Any]] = {}
    path = None if into is None else into / f"{name}.jsonl"
    if path is not None and path.exists():
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        done = {row["set"]: row for row in rows}
    spent = 0.0
    for seed in wanted:
        if seed not in done:
            if spent > most:
                break
            done[seed] = {"set": seed, **fit_data_set(design, seed, draws)}
            if path is not None:
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(done[seed]) + "\n")
        spent += done[seed]["seconds"]
    return [done[seed] for seed in wanted if seed in done]


def write_row(name: str, results: list[dict[str, Any]]) -> str:
    """The row of one design."""
    from scipy.stats import binomtest

    def mean(key: str) -> float:
        return float(np.mean([result[key] for result in results]))

    biases = np.array([result["bias"] for result in results])
    error = float(biases.std(ddof=1)) / np.sqrt(len(results)) if len(results) > 1 else np.nan
    hits = sum(result["inside"] for result in results)
    bounds = binomtest(hits, len(results)).proportion_ci()
    design = DESIGNS[name]
    return (
        f"| {name} | {design.about} | `{design.term}` | {len(results)} | {biases.mean():+.2f} "
        f"({error:.2f}) | {hits / len(results):.3f} ({bounds.low:.2f} to {bounds.high:.2f}) | "
        f"{mean('naive'):.2f} | {mean('warned'):.2f} | {mean('seconds'):.2f} |"
    )


def main() -> None:
    """Run the designs and print their table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sets", type=int, default=20)
    options.add_argument("--first", type=int, default=0, help="the seed of the first data set")
    options.add_argument("--designs", default=",".join(DESIGNS))
    options.add_argument("--seconds", type=float, default=np.inf, help="of CPU for each design")
    options.add_argument("--into", type=Path)
    options.add_argument("--original", action="store_true", help="without noise")
    options.add_argument("--list", action="store_true")
    options.add_argument("--draws", type=int, default=DRAWS, help="of each chain")
    given = options.parse_args()
    if given.list:
        print("\n".join(f"{name}: {design.about}" for name, design in DESIGNS.items()))
        return
    if given.into is not None:
        given.into.mkdir(parents=True, exist_ok=True)
    print(
        "| design | what is special | coefficient | sets | bias in SD | coverage | naive coverage "
        "| check failed | CPU s |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in given.designs.split(","):
        wanted = range(given.first, given.first + given.sets)
        design = DESIGNS[name]
        if given.original:
            design = replace(design, variances={}, flipped={}, shared=frozenset())
        results = run(name, design, wanted, given.into, given.seconds, given.draws)
        print(write_row(name, results), flush=True)


if __name__ == "__main__":
    main()
