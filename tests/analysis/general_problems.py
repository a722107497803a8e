"""Made-up data with every kind of noise, beside what they were before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from scipy.stats import norm

from sfumato.analysis.problem import Category, NoisyNumber, Problem, Term
from sfumato.kernels.arrays import Floats
from sfumato.noise.scales import Growth, Scale

CONSTANT = Term(name="Intercept")
X = Term(name="x", numbers=((0, None),))
NOISE = 0.3


@dataclass(frozen=True)
class Case:
    """A problem, and the columns and the outcome without noise."""

    problem: Problem
    design: Floats
    y: Floats


def error_of(numbers: tuple[NoisyNumber, ...]) -> Floats:
    return np.diag([number.variance or 0.0 for number in numbers]).reshape(
        len(numbers), len(numbers)
    )


def with_z(
    numbers: tuple[NoisyNumber, ...], terms: tuple[Term, ...], z: Floats, y: Floats, **more: Any
) -> Problem:
    return Problem(
        **{
            "family": "gaussian",
            "link": "identity",
            "y": y,
            "numbers": numbers,
            "error": error_of(numbers),
            "terms": (CONSTANT, X, Term(name="z", clean=z), *terms),
            "covariates": np.column_stack([np.ones(len(z)), z]),
            **more,
        }
    )


def release_number(kind: str, x: Floats, rng: np.random.Generator) -> tuple[NoisyNumber, Floats]:
    """The noised number, and the true values that it is of."""
    noise = rng.normal(size=len(x)) * NOISE**0.5
    if kind == "clipped":
        return NoisyNumber(name="x", observed=np.minimum(x + noise, 1), variance=NOISE, high=1.0), x
    if kind == "laplace":
        values = x + rng.laplace(size=len(x)) * (NOISE / 2) ** 0.5
        return NoisyNumber(name="x", observed=values, variance=NOISE, laplace=True), x
    if kind == "rounded":
        return NoisyNumber(name="x", observed=np.rint(x + noise), variance=NOISE, width=1.0), x
    if kind == "growing":
        growth = Growth(form="power", constant=0.1, slope=0.2, power=1.0)
        values = x + rng.normal(size=len(x)) * np.sqrt(growth.variance(x))
        return NoisyNumber(name="x", observed=values, variance=None, growth=growth), x
    if kind == "log":
        values = x / 2 + noise / 2
        return (
            NoisyNumber(name="x", observed=values, variance=NOISE / 4, scale=Scale(name="log")),
            np.exp(x / 2),
        )
    missing = (kind == "missing") & (rng.uniform(size=len(x)) < 0.1)
    return NoisyNumber(name="x", observed=np.where(missing, np.nan, x + noise), variance=NOISE), x


def linear_case(kind: str, records: int, seed: int) -> Case:
    """y = 1 + x - z / 2 + e, x seen with noise of some kind."""
    rng = np.random.default_rng([seed, 11])
    z = rng.normal(size=records)
    number, x = release_number(kind, z / 2 + rng.normal(size=records), rng)
    y = 1 + x - z / 2 + rng.normal(size=records)
    shape = "auto" if kind in ("plain", "clipped", "log", "rounded") else "normal"
    problem = with_z((number,), (), z, y, shape=shape)
    return Case(problem, np.column_stack([np.ones(records), x, z]), y)


def curved_case(records: int, seed: int) -> Case:
    """A square of x and its product with z."""
    rng = np.random.default_rng([seed, 12])
    z = rng.normal(size=records)
    number, x = release_number("plain", z / 2 + rng.normal(size=records), rng)
    y = 1 + x - z / 2 + x**2 / 2 + 0.3 * x * z + rng.normal(size=records)
    square = Term(name="x ** 2", numbers=((0, np.square),))
    product = Term(name="x:z", clean=z, numbers=((0, None),))
    problem = with_z((number,), (square, product), z, y)
    return Case(problem, np.column_stack([np.ones(records), x, z, x**2, x * z]), y)


def misclassify(true: npt.NDArray[np.int64], wrong: float, rng: np.random.Generator) -> Floats:
    """Log probability of what was released, for each record and true level."""
    values = np.where(rng.uniform(size=len(true)) < wrong, 1 - true, true)
    chances = np.log(np.array([[1 - wrong, wrong], [wrong, 1 - wrong]]))
    return np.ascontiguousarray(chances[:, values].T)


def level_case(records: int, seed: int) -> Case:
    """A misclassified level, and its product with a noised number."""
    rng = np.random.default_rng([seed, 13])
    z = rng.normal(size=records)
    c = (rng.uniform(size=records) < expit(z / 2)).astype(np.int64)
    number, x = release_number("plain", z / 2 + c / 2 + rng.normal(size=records), rng)
    y = 1 + x - z / 2 + 0.7 * c + 0.5 * c * x + rng.normal(size=records)
    category = Category(name="c", levels=("a", "b"), density=misclassify(c, 0.15, rng))
    terms = (
        Term(name="c", levels=((0, 1),)),
        Term(name="c:x", levels=((0, 1),), numbers=((0, None),)),
    )
    problem = with_z((number,), terms, z, y, categories=(category,))
    return Case(problem, np.column_stack([np.ones(records), x, z, c, c * x]), y)


def outcome_case(kind: str, records: int, seed: int) -> Case:
    """A noised outcome: a number plain or set to a constant, or misclassified."""
    rng = np.random.default_rng([seed, 14])
    z = rng.normal(size=records)
    number, x = release_number("plain", z / 2 + rng.normal(size=records), rng)
    design = np.column_stack([np.ones(records), x, z, x * z])
    product = (Term(name="x:z", clean=z, numbers=((0, None),)),)
    eta = design @ [0.5, 1.0, -0.5, 0.3]
    if kind == "misclassified":
        y = (rng.uniform(size=records) < expit(eta)).astype(np.int64)
        category = Category(name="y", levels=("0", "1"), density=misclassify(y, 0.1, rng))
        more: Any = {"family": "bernoulli", "link": "logit", "outcome_category": category}
        return Case(with_z((number,), product, z, y.astype(float), **more), design, y.astype(float))
    y = eta + rng.normal(size=records)
    values = y + rng.normal(size=records) * 0.5**0.5
    high = 2.5 if kind == "clipped" else np.inf
    outcome = NoisyNumber(name="y", observed=np.minimum(values, high), variance=0.5, high=high)
    problem = with_z((number,), product, z, outcome.observed, outcome_number=outcome)
    return Case(problem, design, y)


def generalised_case(kind: str, records: int, seed: int) -> Case:
    """Logit, probit, binomial and Poisson models with a product."""
    rng = np.random.default_rng([seed, 15])
    z = rng.normal(size=records)
    number, x = release_number("plain", z / 2 + rng.normal(size=records), rng)
    design = np.column_stack([np.ones(records), x, z, x * z])
    product = (Term(name="x:z", clean=z, numbers=((0, None),)),)
    eta = design @ [0.2, 0.6, -0.4, 0.2]
    more: Any = {"family": "bernoulli", "link": kind}
    chance = norm.cdf(eta) if kind == "probit" else expit(eta)
    y = (rng.uniform(size=records) < chance).astype(float)
    if kind == "binomial":
        more = {"family": kind, "link": "logit", "trials": np.full(records, 5.0)}
        y = rng.binomial(5, chance).astype(float)
    if kind == "poisson":
        more = {"family": kind, "link": "log"}
        y = rng.poisson(np.exp(eta)).astype(float)
    return Case(with_z((number,), product, z, y, **more), design, y)


def grouped_case(family: str, records: int, groups: int, seed: int) -> Case:
    """Two levels; true predictors differ by group."""
    rng = np.random.default_rng([seed, 16])
    group = rng.permutation(np.arange(records) % groups)
    z = rng.normal(size=records)
    mean = rng.normal(size=groups)[group] / 2
    number, x = release_number("plain", mean + z / 2 + rng.normal(size=records), rng)
    design = np.column_stack([np.ones(records), x, z])
    eta = design @ [0.5, 0.8, -0.5] + 0.6 * rng.normal(size=groups)[group]
    more: Any = {"groups": group.astype(np.int64), "random": (0,)}
    y = eta + rng.normal(size=records)
    if family == "bernoulli":
        more |= {"family": family, "link": "logit"}
        y = (rng.uniform(size=records) < expit(eta)).astype(float)
    return Case(with_z((number,), (), z, y, **more), design, y)
