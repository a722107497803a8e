"""Categories and counts: how common each level is, and what it depends on."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.kernels.arrays import Floats, Integers, Mask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


SEX = ("female", "male")
FEMALE_SHARE = 0.51

REGIONS: dict[str, tuple[str, float]] = {
    "Kingsport": ("04", 0.21),
    "Midvale": ("23", 0.17),
    "Sundale": ("46", 0.15),
    "Westrel": ("35", 0.13),
    "Norlund": ("01", 0.11),
    "Estmere": ("17", 0.09),
    "Larkshire": ("58", 0.08),
    "Harrowmoor": ("08", 0.045),
    "Isle of Senn": ("70", 0.015),
}
"""Invented regions: the two digits their postcodes begin with, and their share of the schools."""

ETHNICITY: dict[str, tuple[float, float, str]] = {
    "White British": (0.875, 0.640, "White"),
    "White Irish": (0.010, 0.025, "White"),
    "Other White": (0.035, 0.085, "White"),
    "Roma": (0.0008, 0.001, "White"),
    "Indian": (0.022, 0.070, "Asian"),
    "Pakistani": (0.018, 0.050, "Asian"),
    "Bangladeshi": (0.007, 0.025, "Asian"),
    "Chinese": (0.005, 0.012, "Asian"),
    "Black African": (0.008, 0.040, "Black"),
    "Black Caribbean": (0.009, 0.035, "Black"),
    "Mixed": (0.009, 0.013, "Other"),
    "Arab": (0.0012, 0.004, "Other"),
}
"""Shares outside and inside the port city, and the broader group."""
PORT = "Kingsport"

MARITAL: dict[str, tuple[float, float, float, float]] = {
    # women born early, women born late, men born early, men born late
    "single": (0.09, 0.15, 0.12, 0.19),
    "cohabiting": (0.09, 0.15, 0.10, 0.16),
    "married": (0.60, 0.54, 0.64, 0.55),
    "divorced": (0.18, 0.15, 0.125, 0.095),
    "widowed": (0.04, 0.01, 0.015, 0.005),
}
PARTNERED = ("cohabiting", "married")

CHILDREN: dict[str, tuple[float, ...]] = {
    # shares of 0, 1, 2, … children
    "single": (0.62, 0.19, 0.12, 0.05, 0.015, 0.004, 0.001),
    "cohabiting": (0.25, 0.24, 0.32, 0.13, 0.045, 0.012, 0.003),
    "married": (0.11, 0.16, 0.45, 0.19, 0.06, 0.018, 0.007, 0.003, 0.002),
    "divorced": (0.17, 0.23, 0.38, 0.15, 0.05, 0.015, 0.005),
    "widowed": (0.14, 0.20, 0.40, 0.17, 0.06, 0.02, 0.007, 0.003),
}
MOST_CHILDREN = 8
STAY = 0.55
"""Chance that a child still lives at home."""

EDUCATION: dict[str, float] = {
    "no qualification": 0.14,
    "lower secondary": 0.30,
    "upper secondary": 0.22,
    "vocational": 0.14,
    "degree": 0.15,
    "higher degree": 0.05,
}

SMOKING: dict[str, tuple[float, ...]] = {
    # by education, from none to higher degree
    "never": (0.36, 0.43, 0.48, 0.50, 0.60, 0.66),
    "former": (0.27, 0.29, 0.31, 0.30, 0.28, 0.26),
    "current": (0.37, 0.28, 0.21, 0.20, 0.12, 0.08),
}

DIAGNOSES: dict[str, tuple[str, float, dict[str, float]]] = {
    # ICD-10 code: chapter, share, how many times more common under a condition
    "Z00": ("Z", 0.600, {}),  # nothing found
    "I10": ("I", 0.060, {"high pressure": 8.0, "obese": 1.5}),
    "E11": ("E", 0.012, {"high glucose": 60.0}),
    "E66": ("E", 0.008, {"obese": 12.0}),
    "M54": ("M", 0.085, {"obese": 1.4}),
    "J45": ("J", 0.060, {"smoker": 1.3}),
    "F32": ("F", 0.060, {"woman": 1.8, "poor": 1.8}),
    "J44": ("J", 0.004, {"smoker": 12.0}),
    "I25": ("I", 0.009, {"smoker": 2.5, "high pressure": 2.5}),
    "N18": ("N", 0.004, {"high pressure": 3.0, "high glucose": 4.0}),
    "C50": ("C", 0.010, {"woman": 1.6, "man": 0.01}),
    "C61": ("C", 0.008, {"woman": 0.0}),
    "G35": ("G", 0.0016, {"woman": 2.4}),
    "B20": ("B", 0.0012, {"man": 2.0}),
    "D57": ("D", 0.0001, {"black": 60.0}),
    "E84": ("E", 0.0004, {}),
    "G10": ("G", 0.0002, {}),
}


def choose_levels(
    uniform: Floats, shares: npt.ArrayLike, group: Integers | None = None
) -> Integers:
    """The level that each uniform falls on; `shares` has a row per group, a column per level."""
    table = np.atleast_2d(np.asarray(shares, np.float64))
    ends = np.cumsum(table, axis=1)
    ends /= ends[:, -1:]
    # The last end is 1 and no uniform reaches it: left out, rounding cannot invent a level.
    inner = ends[:, :-1]
    if group is None:
        return np.searchsorted(inner[0], uniform, side="right").astype(np.int64)
    return np.asarray((uniform[:, None] >= inner[group]).sum(axis=1), np.int64)


def label_levels(levels: Iterable[str], codes: Integers) -> pl.Series:
    """The level that each code stands for."""
    return pl.Series(list(levels), dtype=pl.String).gather(codes)


def build_share_table(levels: Mapping[str, tuple[float, ...]]) -> Floats:
    """One row per group from a mapping of level to its shares by group."""
    return np.array(list(levels.values())).T


def draw_children(uniform: Floats, marital: Integers) -> Integers:
    """How many children, given the marital status."""
    rows = [(*shares, *[0.0] * (MOST_CHILDREN + 1 - len(shares))) for shares in CHILDREN.values()]
    return choose_levels(uniform, rows, marital)


def count_at_home(uniform: Floats, born: Integers) -> Integers:
    """How many of the children still live in the household."""
    counts = range(MOST_CHILDREN + 1)
    binomial = [[comb(n, k) * STAY**k * (1 - STAY) ** (n - k) for k in counts] for n in counts]
    return choose_levels(uniform, binomial, born)


def rank_education(latent: Floats) -> Integers:
    """Cut a standard normal propensity so that the levels have the stated shares."""
    from scipy.special import ndtr  # scipy is slow to import

    return choose_levels(ndtr(latent), list(EDUCATION.values()))


def draw_diagnosis(
    uniform: Floats,
    conditions: Mapping[str, Mask],
    diagnoses: Mapping[str, tuple[str, float, dict[str, float]]] = DIAGNOSES,
) -> Integers:
    """The main diagnosis, given who has which of the conditions."""
    chance = np.empty((len(uniform), len(diagnoses)))
    for column, (_, share, factors) in enumerate(diagnoses.values()):
        chance[:, column] = share
        for condition, factor in factors.items():
            chance[conditions[condition], column] *= factor
    ends = np.cumsum(chance, axis=1)
    passed = uniform[:, None] * ends[:, -1:] >= ends[:, :-1]
    return np.asarray(passed.sum(axis=1), np.int64)
