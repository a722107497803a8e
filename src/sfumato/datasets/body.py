"""Measurements with stated means, spreads, skewness, kurtosis and correlations.

Each is a cubic polynomial of a standard normal (Fleishman), and the normals are correlated so
that the polynomials have the stated correlations (Vale & Maurelli). All targets hold within
each sex: a mean and a spread per sex change neither shape nor correlation. Income is made on the
log scale, so that it is positive and has a heavy right tail.

References: Fleishman (1978), Psychometrika 43:521; Vale & Maurelli (1983), Psychometrika 48:465.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    import numpy.typing as npt

    from sfumato.randomness import Draws

OUTLIERS = 0.001
"""Share of people who are extreme, in each of the variables that have such people."""
SHORT = 0.25
"""Share of those extreme in height who are short, not tall."""


@dataclass(frozen=True, kw_only=True)
class MeasurementTarget:
    """What a measurement shall look like within each sex, and the polynomial that does it."""

    female: tuple[float, float]
    male: tuple[float, float]
    skewness: float
    kurtosis: float
    """Excess kurtosis: 0 for a normal."""
    polynomial: tuple[float, float, float]
    """b, c, d of bz + c(z² - 1) + dz³: Fleishman's equations solved, as a test does again."""


TARGETS: dict[str, MeasurementTarget] = {
    "height": MeasurementTarget(
        female=(162.5, 6.5),
        male=(176.0, 7.0),
        skewness=0.0,
        kurtosis=0.0,
        polynomial=(1.0, 0.0, 0.0),
    ),
    "weight_kg": MeasurementTarget(
        female=(70.5, 14.0),
        male=(84.5, 14.5),
        skewness=0.9,
        kurtosis=1.4,
        polynomial=(0.94203924, 0.14128957, 0.01244025),
    ),
    "glucose": MeasurementTarget(
        female=(5.3, 0.9),
        male=(5.5, 1.0),
        skewness=2.0,
        kurtosis=7.0,
        polynomial=(0.76158527, 0.26002260, 0.05307227),
    ),
    "hdl": MeasurementTarget(
        female=(1.65, 0.42),
        male=(1.35, 0.36),
        skewness=0.8,
        kurtosis=1.2,
        polynomial=(0.94387072, 0.12456509, 0.01331664),
    ),
    "systolic": MeasurementTarget(
        female=(122.0, 15.5),
        male=(129.0, 15.0),
        skewness=0.6,
        kurtosis=0.8,
        polynomial=(0.95403905, 0.09357094, 0.01223779),
    ),
    "log_income": MeasurementTarget(
        female=(10.3, 0.55),
        male=(10.3, 0.55),
        skewness=0.2,
        kurtosis=0.8,
        polynomial=(0.92259850, 0.02883766, 0.02490198),
    ),
}

CORRELATIONS = np.array(
    [
        # height, weight_kg, glucose, hdl, systolic, log_income
        [1.00, 0.45, -0.05, -0.05, 0.02, 0.15],
        [0.45, 1.00, 0.30, -0.35, 0.28, -0.08],
        [-0.05, 0.30, 1.00, -0.25, 0.20, -0.10],
        [-0.05, -0.35, -0.25, 1.00, -0.08, 0.12],
        [0.02, 0.28, 0.20, -0.08, 1.00, -0.08],
        [0.15, -0.08, -0.10, 0.12, -0.08, 1.00],
    ]
)
"""Target correlations within each sex, in the order of `TARGETS`."""

INTERMEDIATE = np.array(
    [
        [1.000000, 0.459484, -0.054300, -0.050822, 0.020187, 0.150405],
        [0.459484, 1.000000, 0.323968, -0.368153, 0.286314, -0.081962],
        [-0.054300, 0.323968, 1.000000, -0.281531, 0.216681, -0.109078],
        [-0.050822, -0.368153, -0.281531, 1.000000, -0.082236, 0.122190],
        [0.020187, 0.286314, 0.216681, -0.082236, 1.000000, -0.081000],
        [0.150405, -0.081962, -0.109078, 0.122190, -0.081000, 1.000000],
    ]
)
"""Correlations of the normals that give `CORRELATIONS`. A test solves Vale & Maurelli's cubic."""


def draw_measurements(draws: Draws, female: npt.NDArray[np.bool_]) -> dict[str, Floats]:
    """The six measurements, unrounded, before anybody is made an outlier or goes missing."""
    independent = [draws.normal(name) for name in TARGETS]
    out: dict[str, Floats] = {}
    for loadings, (name, target) in zip(
        np.linalg.cholesky(INTERMEDIATE), TARGETS.items(), strict=True
    ):
        # Not a matrix product: its last digit may depend on how many records there are.
        z = np.zeros(len(female))
        for loading, normal in zip(loadings, independent, strict=True):
            z += loading * normal
        b, c, d = target.polynomial
        shaped = -c + z * (b + z * (c + z * d))
        mean = np.where(female, target.female[0], target.male[0])
        spread = np.where(female, target.female[1], target.male[1])
        out[name] = mean + spread * shaped
    return out


def add_outliers(draws: Draws, measured: dict[str, Floats]) -> dict[str, Floats]:
    """Make a few people extreme in height, a few in glucose and a few in income."""
    size = draws.uniform("outlier size")
    height = np.where(size < SHORT, 128 + 40 * size, 200 + 22 * size)
    extreme = {
        "height": height,
        "glucose": 16 + 16 * size**2,
        "log_income": np.log(250_000) + 2 * size**2,
    }
    changed = {
        name: np.where(draws.uniform(f"outlier {name}") < OUTLIERS, values, measured[name])
        for name, values in extreme.items()
    }
    return {**measured, **changed}
