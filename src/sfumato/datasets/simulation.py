"""Cohorts of any size after the observed distribution of another data set.

Within each stratum the numbers follow the observed means, standard deviations, skewness,
kurtosis and correlations: each is a cubic polynomial of a standard normal (Fleishman), and the
normals are correlated so that the polynomials have the observed correlations (Vale & Maurelli).

References: Fleishman (1978), Psychometrika 43:521; Vale & Maurelli (1983), Psychometrika 48:465.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data import Dataset
from sfumato.datasets.fleishman import (
    Polynomial,
    find_nearest_polynomial,
    repair_correlations,
    solve_intermediate_correlation,
    solve_polynomial,
)
from sfumato.errors import DataError
from sfumato.kernels.arrays import Floats
from sfumato.randomness import Draws, Key

__all__ = ["Simulator", "simulated", "simulator"]

FEWEST = 10
"""Records below which a stratum says too little of the shape of a variable."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Stratum:
    """What is kept of one stratum: its share, and the shape of each variable in it."""

    levels: Mapping[str, Any]
    records: int
    means: tuple[float, ...]
    spreads: tuple[float, ...]
    polynomials: tuple[Polynomial, ...]
    loadings: npt.NDArray[np.floating[Any]]
    """Row by row, how the correlated normals are made of independent ones."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulator:
    """Draws cohorts after the distribution that was fitted once; made by `simulator`.

    `simulator(…)(records, repeat)` is the cohort with the seed `repeat`, as `sf.sweep` asks.
    """

    continuous: tuple[str, ...]
    types: Mapping[str, pl.DataType] = field(repr=False)
    """The variables that make the strata, and their types."""
    strata: tuple[Stratum, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    """What could not be matched as observed, in words."""

    def __call__(self, records: int, repeat: int) -> pl.DataFrame:
        """The cohort of this size whose seed is the number of the repeat."""
        return self.draw(records, repeat)

    def draw(self, records: int, seed: int = 0) -> pl.DataFrame:
        """A cohort of so many records, each stratum with its observed share.

        A record depends on the seed, its stratum and its place in it alone, so cohorts of the
        same seed have most records in common. A smaller one need not be part of a larger one:
        with largest remainders, a stratum may have fewer records in a larger cohort.
        """
        for name, value, least in (("number of records", records, 1), ("seed", seed, 0)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise DataError(
                    f"The {name} of a simulated cohort must be a whole number, {least} or more.",
                    hint="for instance draw(500, seed=1).",
                )
        key = Key(hashlib.sha256(f"sfumato simulated {seed}".encode()).digest())
        shares = apportion_records([stratum.records for stratum in self.strata], records)
        parts = [
            self._draw_stratum(stratum, index, size, key)
            for index, (stratum, size) in enumerate(zip(self.strata, shares, strict=True))
        ]
        return pl.concat(parts)

    def _draw_stratum(self, stratum: Stratum, index: int, records: int, key: Key) -> pl.DataFrame:
        ids = np.zeros((records, 2), np.uint64)
        ids[:, 0] = np.arange(records)
        draws = Draws(key, index, ids)
        independent = [draws.normal(name) for name in self.continuous]
        columns = [
            pl.Series(name, [stratum.levels[name]], dtype=dtype).new_from_index(0, records)
            for name, dtype in self.types.items()
        ]
        for variable, name in enumerate(self.continuous):
            # Not a matrix product: its last digit may depend on how many records there are.
            z = np.zeros(records)
            for loading, normal in zip(stratum.loadings[variable], independent, strict=True):
                z += loading * normal
            shaped = stratum.polynomials[variable].of(z)
            values = stratum.means[variable] + stratum.spreads[variable] * shaped
            columns.append(pl.Series(name, values))
        return pl.DataFrame(columns)


def simulated(
    like: Any,
    records: int,
    *,
    continuous: Sequence[str] | None = None,
    strata: Sequence[str] | None = None,
    nearest_kurtosis: bool = False,
    seed: int = 0,
) -> pl.DataFrame:
    """Simulate a cohort after the observed distribution of another data set.

    Question: how would a method do on data like ours, of another size, drawn again and again?
    Assumes: means, spreads, skewness, kurtosis and correlations within strata say what matters.
    It protects nobody by itself. To draw many cohorts, fit once: `simulator`.

    Parameters
    ----------
    like : the data set to take after: a frame or a `Dataset`, without missing values.
    records : how many to simulate. The strata keep their shares (largest remainders).
    continuous : the numbers to simulate. Default: all numeric variables apart from the strata.
    strata : the variables whose combinations are the strata. Default: all that are not numbers.
    nearest_kurtosis : as in `simulator`.
    seed : another seed, another cohort.

    Examples
    --------
    >>> import sfumato as sf
    >>> like = sf.datasets.cohort(2000).select("sex", "height", "systolic").drop_nulls()
    >>> made = simulated(like, 500)
    >>> made["sex"].value_counts(sort=True).rows()
    [('female', 251), ('male', 249)]
    """
    source = simulator(
        like, continuous=continuous, strata=strata, nearest_kurtosis=nearest_kurtosis
    )
    return source.draw(records, seed)


def simulator(
    like: Any,
    *,
    continuous: Sequence[str] | None = None,
    strata: Sequence[str] | None = None,
    nearest_kurtosis: bool = False,
) -> Simulator:
    """Fit the distribution of a data set once, to draw many cohorts after it.

    Parameters
    ----------
    like, continuous, strata : as in `simulated`.
    nearest_kurtosis : where no cubic polynomial has the observed skewness and kurtosis, take
        the nearest kurtosis that one has, with a warning. By default that is an error.

    Examples
    --------
    >>> import sfumato as sf
    >>> like = sf.datasets.cohort(2000).select("sex", "height", "systolic").drop_nulls()
    >>> made = simulator(like)
    >>> [len(made.draw(records, seed=1)) for records in (50, 500)]
    [50, 500]
    """
    data = like if isinstance(like, Dataset) else Dataset(like)
    by, numbers = _choose_variables(data, strata, continuous)
    # In one order, whatever the order of the rows: a mean's last digit depends on it.
    frame = _require_complete(data, by, numbers).sort(*by, *numbers)
    notes: list[str] = []
    parts = frame.partition_by(by, maintain_order=True) if by else [frame]
    fitted_strata = tuple(
        _fit_stratum(part, by, numbers, notes, nearest_kurtosis=nearest_kurtosis) for part in parts
    )
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=2)
    types = {name: frame.schema[name] for name in by}
    return Simulator(continuous=numbers, types=types, strata=fitted_strata, notes=tuple(notes))


def apportion_records(sizes: Sequence[int], records: int) -> list[int]:
    """So many records shared out in proportion to the sizes, by largest remainders.

    Examples
    --------
    >>> apportion_records([492, 111, 468, 140], 500)
    [203, 46, 193, 58]
    """
    total = sum(sizes)
    shares = [records * size // total for size in sizes]
    # Whole numbers throughout; of equal remainders the larger stratum goes first.
    order = sorted(range(len(sizes)), key=lambda i: (-(records * sizes[i] % total), -sizes[i], i))
    for index in order[: records - sum(shares)]:
        shares[index] += 1
    return shares


def _choose_variables(
    data: Dataset, strata: Sequence[str] | None, continuous: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The variables that make the strata, and those to simulate."""
    for names in (strata, continuous):
        if isinstance(names, str):
            raise DataError("Variables are given as a list.", hint=f'for instance ["{names}"].')
    named = {*(strata or ()), *(continuous or ())}
    data.schema.require(named)
    numeric = [name for name in data.columns if data.column(name).dtype.is_numeric()]
    if strata is None:
        strata = [name for name in data.columns if name not in {*numeric, *named}]
    if continuous is None:
        continuous = [name for name in numeric if name not in strata]
    wrong = [name for name in continuous if name not in numeric or name in strata]
    if wrong or not continuous:
        listed_names = ", ".join(f"'{name}'" for name in wrong)
        raise DataError(
            f"Only numbers that make no stratum can be simulated; these are not: {listed_names}."
            if wrong
            else "There is no number to simulate.",
            hint="name others: continuous = [...].",
        )
    return tuple(strata), tuple(continuous)


def _require_complete(data: Dataset, by: tuple[str, ...], numbers: tuple[str, ...]) -> pl.DataFrame:
    frame = data.batch([*by, *numbers]).with_columns(pl.col(*numbers).cast(pl.Float64))
    missing = [name for name in frame.columns if frame[name].null_count()]
    if missing:
        listed_names = ", ".join(f"'{name}'" for name in missing)
        raise DataError(
            f"These variables have missing values: {listed_names}.",
            hint="take the complete records first, for instance frame.drop_nulls().",
        )
    endless = [name for name in numbers if not frame[name].is_finite().all()]
    if endless:
        listed_names = ", ".join(f"'{name}'" for name in endless)
        raise DataError(f"These variables hold infinite values: {listed_names}.")
    return frame


def _fit_stratum(
    part: pl.DataFrame,
    by: tuple[str, ...],
    names: tuple[str, ...],
    notes: list[str],
    *,
    nearest_kurtosis: bool,
) -> Stratum:
    if len(part) < FEWEST:
        raise DataError(
            f"A stratum has only {len(part)} records; that is too few to know its shape.",
            hint=f"choose strata of at least {FEWEST} records.",
        )
    values = part.select(names).to_numpy()
    means, spreads = values.mean(axis=0), values.std(axis=0, ddof=1)
    for name, lowest, highest in zip(names, values.min(axis=0), values.max(axis=0), strict=True):
        if lowest == highest:
            raise DataError(
                f"Variable '{name}' does not vary within a stratum of {len(part)} records.",
                hint="leave it out, or choose larger strata.",
            )
    z = (values - means) / values.std(axis=0)
    shapes = [
        _fit_shape(name, z[:, index], notes, nearest_kurtosis=nearest_kurtosis)
        for index, name in enumerate(names)
    ]
    correlations = np.atleast_2d(np.corrcoef(values, rowvar=False))
    return Stratum(
        levels=part.select(by).row(0, named=True) if by else {},
        records=len(part),
        means=tuple(map(float, means)),
        spreads=tuple(map(float, spreads)),
        polynomials=tuple(shapes),
        loadings=np.linalg.cholesky(_solve_correlations(names, shapes, correlations, notes)),
    )


def _fit_shape(name: str, z: Floats, notes: list[str], *, nearest_kurtosis: bool) -> Polynomial:
    """The polynomial with the skewness and kurtosis of a standardised variable."""
    skewness, kurtosis = float((z**3).mean()), float((z**4).mean() - 3)
    polynomial = solve_polynomial(skewness, kurtosis)
    if polynomial is not None:
        return polynomial
    what = (
        f"No cubic polynomial of a normal has the skewness {skewness:.2f} and the kurtosis "
        f"{kurtosis:.2f} of variable '{name}' in a stratum of {len(z)} records"
    )
    polynomial = find_nearest_polynomial(skewness, kurtosis) if nearest_kurtosis else None
    if polynomial is None:
        # Somebody who has said it already must not be told to say it.
        further = "" if nearest_kurtosis else ", or say nearest_kurtosis = true"
        despite_nearest = ", not even with the nearest kurtosis" if nearest_kurtosis else ""
        raise DataError(
            f"{what}{despite_nearest}.",
            hint=f"take its logarithm, leave extreme records or the variable out{further}.",
        )
    notes.append(f"{what}; the nearest kurtosis {polynomial.kurtosis:.2f} is taken.")
    return polynomial


def _solve_correlations(
    names: tuple[str, ...], shapes: list[Polynomial], wanted: Floats, notes: list[str]
) -> Floats:
    """The correlations of the normals that give the polynomials the wanted ones."""
    correlations = np.eye(len(names))
    for i, j in combinations(range(len(names)), 2):
        correlation = solve_intermediate_correlation(shapes[i], shapes[j], float(wanted[i, j]))
        if correlation is None:
            raise DataError(
                f"Variables '{names[i]}' and '{names[j]}' correlate more strongly than variables "
                "of their shapes can by this method.",
                hint="leave one of them out.",
            )
        correlations[i, j] = correlations[j, i] = correlation
    repaired = repair_correlations(correlations)
    if repaired is not correlations:
        notes.append("The correlations of a stratum were changed a little, so that normals exist.")
    return repaired
