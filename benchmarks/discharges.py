"""Invented patient discharges, like those of paper 002: its domains, its correlations.

A patient lives in a zip code, which lies in one county, and is mostly treated in it. The other
variables follow from a Gaussian copula given zip code, county and hospital. Its correlations are
chosen so that the values, not the normal scores, correlate as in Table S4 of the paper.

Populations are those of the census of 2010; the other shares are rough ones for hospitals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import factorial, sqrt

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.special import eval_hermitenorm, ndtr, ndtri

from benchmarks.masking import mask, masked
from sfumato.kernels.arrays import Floats, Integers

__all__ = ["CORRELATIONS", "KEYS", "RECORDS", "coded", "discharges", "mask", "masked"]

RECORDS = 3_985_166
KEYS = (
    "oshpd_id", "age_yrs", "sex", "ethncty", "race", "patzip", "patcnty", "los", "adm_qtr",
)  # fmt: skip
CORRELATIONS = (
    (0.001, 0.001, 0.045, -0.056, 0.043, 0.811, 0.003, -0.001),
    (0.013, 0.359, -0.215, -0.006, -0.004, 0.118, -0.012),
    (-0.048, 0.022, 0.007, 0.012, -0.036, 0.004),
    (-0.334, 0.134, 0.036, 0.048, -0.007),
    (-0.081, -0.054, -0.014, 0.015),
    (0.094, -0.012, -0.002),
    (0.001, 0.000),
    (-0.005,),
)
"""Table S4: of each variable with those after it."""
_POPULATION = (
    1510, 1.2, 38, 220, 46, 21, 1049, 29, 181, 930, 28, 135, 175, 19, 840, 153, 65, 35, 9819, 151,
    252, 18, 88, 256, 9.7, 14, 415, 136, 99, 3010, 348, 20, 2190, 1419, 55, 2035, 3095, 805, 685,
    270, 718, 424, 1782, 262, 177, 3.2, 45, 413, 484, 514, 95, 63, 14, 442, 55, 823, 201, 72,
)  # fmt: skip
"""Of the 58 counties, in thousands, in the order of their numbers."""
_ALONG = (
    19, 43, 39, 49, 50, 37, 33, 13, 36, 30, 56, 42, 54, 16, 15, 40, 14, 26, 10, 20, 27, 41, 38, 1,
    7, 28, 48, 21, 44, 35, 5, 22, 24, 55, 17, 23, 12, 8, 57, 3, 31, 9, 34, 4, 51, 58, 6, 29, 11,
    32, 45, 52, 47, 53, 2, 25, 18, 46,
)  # fmt: skip
"""The counties in the order of their zip codes: from south to north.

Numbers 43, 39, 49 and 50 lie farther south than on the map. On it, zip code and county would
correlate by .26; in the table it is .094.
"""
_ZIPS, _HOSPITALS = 2500, 450
_AT_HOME = 0.815
"""Share of the patients treated in their own county."""
_FAVOURITE = 0.93
"""Share of those who go where their zip code mostly goes, at home or away."""
_CHUNK = 1 << 18
_DEGREE = 40
_ABOVE = 0.1
"""Share of the charges above 100 000."""
_HIGHER, _SCATTER = 0.9, 0.75
"""How the log charge rises with the log of the days, and how it scatters."""
PLACE = ("patzip", "patcnty", "oshpd_id")


def discharges(n: int, seed: int = 0) -> pl.DataFrame:
    """So many records: the nine quasi-identifiers and the charge, all of them whole numbers."""
    random = np.random.default_rng(seed)
    out = {name: np.empty(n, np.int32) for name in (*KEYS, "charge")}
    for start in range(0, n, _CHUNK):
        some = slice(start, min(start + _CHUNK, n))
        for name, values in _drawn(some.stop - some.start, random).items():
            out[name][some] = values
    return pl.DataFrame(out)


def coded(frame: pl.DataFrame) -> tuple[npt.NDArray[np.int32], list[npt.NDArray[np.int32]]]:
    """The quasi-identifiers numbered from 0 on, a column each, and the values of the numbers."""
    codes = np.empty((frame.height, len(KEYS)), np.int32)
    values = []
    for at, name in enumerate(KEYS):
        held = frame[name].to_numpy()
        seen = np.flatnonzero(np.bincount(held)).astype(np.int32)
        codes[:, at] = np.searchsorted(seen, held)
        values.append(seen)
    return codes, values


@dataclass(frozen=True)
class _Person:
    """The values of a variable and where the normal score passes from one to the next."""

    values: Integers
    shares: Floats

    @property
    def steps(self) -> Floats:
        found: Floats = ndtri(np.cumsum(self.shares)[:-1])
        return found

    @property
    def spread(self) -> float:
        mean = self.shares @ self.values
        return float(np.sqrt(self.shares @ (self.values - mean) ** 2))

    @property
    def slopes(self) -> Floats:
        """How the standardised value follows each Hermite polynomial of its normal score."""
        at, rise = self.steps, np.diff(self.values)
        dense = np.exp(-at * at / 2) / np.sqrt(2 * np.pi)
        found = [
            (rise * dense) @ eval_hermitenorm(degree - 1, at) / sqrt(factorial(degree))
            for degree in range(1, _DEGREE)
        ]
        return np.array(found) / self.spread


def _person(first: int, *weights: float) -> _Person:
    return _Person(np.arange(first, first + len(weights)), np.array(weights) / np.sum(weights))


@cache
def _people() -> dict[str, _Person]:
    age = np.interp(
        np.arange(1, 85),
        [1, 4, 12, 18, 24, 30, 40, 55, 70, 84],
        [7, 3, 2.5, 6, 11, 12, 9, 12, 14, 12],
    )
    days = np.arange(1, 366)
    stay = np.exp(-(np.log(days / 2.3) ** 2) / 1.0) / days + 0.012 / days**1.6
    return {
        "age_yrs": _person(0, 130, *age, 75),
        "sex": _person(1, 0.42, 0.5795, 0.0005),
        "ethncty": _person(1, 0.29, 0.66, 0.05),
        "race": _person(1, 568394, 136264, 10761, 130597, 193477, 32857),
        "los": _person(0, 0.02 * stay.sum(), *stay),
        "adm_qtr": _person(1, 0.255, 0.25, 0.247, 0.248),
    }


@dataclass(frozen=True)
class _Places:
    """Zip codes with their shares and counties; hospitals with their shares, county by county."""

    zips: Integers
    zip_ends: Floats
    county: Integers
    hospitals: Integers
    hospital_ends: Floats
    first: Integers
    usual: Floats
    """Per zip code, the point on the scale of shares where its usual hospital lies."""


def _ends(weights: Floats) -> Floats:
    ends = np.cumsum(weights)
    return np.asarray(ends / ends[-1])


def _dealt(weights: Floats, total: int) -> Integers:
    """So many things by weight, at least one to each."""
    counts: Integers = np.maximum(1, weights / weights.sum() * total).astype(np.int64)
    counts[np.argmax(counts)] += total - counts.sum()
    return counts


@cache
def _places() -> _Places:
    people = np.array(_POPULATION, np.float64)
    along = np.array(_ALONG)
    held = _dealt(people[along - 1] ** 0.75, _ZIPS)
    county = np.repeat(along, held)
    rank = np.concatenate([np.arange(1, one + 1) for one in held])
    weight = rank**-0.9
    weight *= (people / np.bincount(county - 1, weight, 58))[county - 1]
    zips = np.linspace(90001, 96162, _ZIPS).astype(np.int64)
    beds = _dealt(people**0.9, _HOSPITALS)
    place = np.concatenate([np.arange(one) for one in beds])
    home = np.repeat(np.arange(1, 59), beds)
    size = (place + 1.0) ** -0.4
    size *= (people / np.bincount(home - 1, size, 58))[home - 1]
    first = np.concatenate(([0], np.cumsum(beds)))
    usual = np.random.default_rng(0).random((2, _ZIPS))
    numbers = 100_000 + home * 10_000 + 7 * place + 11
    return _Places(zips, _ends(weight), county, numbers, _ends(size), first, usual)


@dataclass(frozen=True)
class _Copula:
    """Normal scores of a person: a share that follows from the place, and a rest."""

    means: Floats
    spreads: Floats
    follow: Floats
    mix: Floats


def _wanted(one: str, other: str) -> float:
    low, high = sorted((KEYS.index(one), KEYS.index(other)))
    return CORRELATIONS[low][high - low - 1]


def _latent(one: _Person, other: _Person, wanted: float) -> float:
    """The correlation of two normal scores whose values correlate as wanted."""
    products, low, high = one.slopes * other.slopes, -0.99, 0.99
    for _ in range(60):
        middle = (low + high) / 2
        reached = np.sum(products * middle ** np.arange(1, _DEGREE))
        low, high = (middle, high) if reached < wanted else (low, middle)
    return low


@cache
def _copula() -> _Copula:
    people, random = _people(), np.random.default_rng(0)
    place = np.array(_live(200_000, random), np.float64)
    among = np.eye(len(people))
    for i, j in combinations(range(len(people)), 2):
        one, other = list(people)[i], list(people)[j]
        among[i, j] = among[j, i] = _latent(people[one], people[other], _wanted(one, other))
    # The place is not normal. It says little about a person, so that the first degree will do.
    across = [
        [_wanted(spot, name) / person.slopes[0] for name, person in people.items()]
        for spot in PLACE
    ]
    inside = np.corrcoef(place)
    follow: Floats = np.linalg.solve(inside, np.array(across)).astype(np.float64)
    mix: Floats = np.linalg.cholesky(among - follow.T @ inside @ follow).astype(np.float64)
    return _Copula(place.mean(axis=1), place.std(axis=1), follow, mix)


def _live(n: int, random: np.random.Generator) -> tuple[Integers, Integers, Integers]:
    """Zip code, county and hospital."""
    places = _places()
    at = np.searchsorted(places.zip_ends, random.random(n))
    county = places.county[at]
    ends = np.concatenate(([0.0], places.hospital_ends))
    low, high = ends[places.first[county - 1]], ends[places.first[county]]
    home = random.random(n) < _AT_HOME
    usual = np.where(home, places.usual[0][at], places.usual[1][at])
    part = np.where(random.random(n) < _FAVOURITE, usual, random.random(n))
    aim = np.where(home, low, 0.0) + part * np.where(home, high - low, 1.0)
    clinic = np.searchsorted(places.hospital_ends, aim).clip(0, _HOSPITALS - 1)
    return places.zips[at], county, places.hospitals[clinic]


@cache
def _price() -> float:
    """The mean log charge of a day: such that one charge in ten is above 100 000."""
    stay = _people()["los"]
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        gaps = (np.log(100_000) - middle - _HIGHER * np.log1p(stay.values)) / _SCATTER
        low, high = (middle, high) if stay.shares @ ndtr(-gaps) < _ABOVE else (low, middle)
    return low


def _drawn(n: int, random: np.random.Generator) -> dict[str, npt.NDArray[np.number]]:
    copula = _copula()
    place = _live(n, random)
    out: dict[str, npt.NDArray[np.number]] = dict(zip(PLACE, place, strict=True))
    scaled = (np.array(place) - copula.means[:, None]) / copula.spreads[:, None]
    scores = copula.mix @ random.standard_normal((len(copula.mix), n)) + copula.follow.T @ scaled
    for (name, person), score in zip(_people().items(), scores, strict=True):
        out[name] = person.values[np.searchsorted(person.steps, score)]
    cost = _price() + _HIGHER * np.log1p(out["los"]) + _SCATTER * random.standard_normal(n)
    out["charge"] = np.exp(cost).astype(np.int64)
    return out
