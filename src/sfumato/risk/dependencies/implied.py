"""What follows from what is known of people, and stands in the release all the same: totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.kernels.arrays import Floats, Mask, Positions
from sfumato.pairs.alignment import quote_names
from sfumato.schema import Column

_WITHIN = 0.05
"""How near both sides of a relation must lie, in standard deviations, to say who somebody is."""
_MOSTLY = 0.8
"""The share of records that must obey it."""
_ROWS_A_COLUMN = 10
_MOST_COLUMNS = 30
_MOST_RELATIONS = 3
_SAMPLE = 1_000
"""Records on which relations are sought; all must then obey them."""
_ROUNDS = 6
_HALF = 0.5
_NEGLIGIBLE = 1e-3
"""A column that moves its side by less than this share takes no part in a relation."""
_COLLINEAR = 1e-9
_NAME = "\ufdd0implied"


@dataclass(frozen=True, eq=False)
class ImpliedRelation:
    """A sum of known variables that is a sum of released ones, for nearly all records.

    Parameters
    ----------
    known, shown : the variables on either side.
    logarithms : whether their logarithms are added: a product or ratio.
    persons : the known side, of each original record; NaN where something is missing.
    cells : the same side as the release shows it.
    """

    known: tuple[str, ...]
    shown: tuple[str, ...]
    logarithms: bool
    persons: Floats = field(repr=False)
    cells: Floats = field(repr=False)

    def describe(self) -> str:
        """Who knows what from what, and what to do about it."""
        return (
            f"Whoever knows {quote_names(self.known)} knows what follows from them: "
            f"{quote_names(self.shown)} in the release. Drop it, or work it out again from the "
            "released values."
        )


@dataclass(frozen=True, eq=False)
class ImpliedKnowledge:
    """Both data sets with what is known by relations as further variables.

    Parameters
    ----------
    original, released : with a column for each relation.
    names : the names of these columns.
    relations : what they are.
    """

    original: Dataset
    released: Dataset
    names: tuple[str, ...]
    relations: tuple[ImpliedRelation, ...]


def add_implied(original: Dataset, released: Dataset, known: Sequence[str]) -> ImpliedKnowledge:
    """What somebody who knows some variables of a person knows of further released ones.

    Relations are sought between sums: `income = wage + rent`, but also `total - other = wage`,
    with any coefficients; and between sums of logarithms, which are products and ratios. They hold
    in the original, exactly or nearly, and are applied to what the release shows.

    Examples
    --------
    >>> import sfumato as sf
    >>> rng = np.random.default_rng(1)
    >>> frame = pl.DataFrame(rng.integers(1, 99, (100, 2)), schema=["wage", "rent"])
    >>> frame = frame.with_columns(all=pl.col("wage") + pl.col("rent"))
    >>> data = sf.Dataset(frame, sf.Schema({"wage": "quasi", "rent": "quasi", "all": "other"}))
    >>> [relation.shown for relation in add_implied(data, data, ["wage", "rent"]).relations]
    [('all',)]
    """
    relations = tuple(_find_relations(original, released, known))
    names = tuple(f"{_NAME}{number}" for number in range(len(relations)))
    if not relations:
        return ImpliedKnowledge(original, released, (), ())
    declared = dict.fromkeys(names, Column(role="quasi", kind="continuous"))
    sides = [
        data.with_columns(
            pl.DataFrame(
                [
                    pl.Series(name, values).fill_nan(None)
                    for name, values in zip(names, columns, strict=True)
                ]
            ),
            data.schema.with_columns(declared),
        )
        for data, columns in (
            (original, [relation.persons for relation in relations]),
            (released, [relation.cells for relation in relations]),
        )
    ]
    return ImpliedKnowledge(sides[0], sides[1], names, relations)


def _find_relations(
    original: Dataset, released: Dataset, known: Sequence[str]
) -> list[ImpliedRelation]:
    numeric = [name for name in original.columns if _is_number(original, name)]
    mine = [name for name in known if name in numeric][:_MOST_COLUMNS]
    others = [
        name
        for name in numeric
        if name not in known and name in released.schema and _is_number(released, name)
    ][:_MOST_COLUMNS]
    if not mine or not others:
        return []
    found: list[ImpliedRelation] = []
    for logarithms in (False, True):
        left, right, shown = (
            _read(data, names, logarithms=logarithms)
            for data, names in ((original, mine), (original, others), (released, others))
        )
        for weights in _seek(left, right, _choose_rows(original)):
            relation = _apply(left, right, shown, weights, (mine, others))
            if relation is not None and all(relation.shown != other.shown for other in found):
                found.append(replace(relation, logarithms=logarithms))
    return found


def _is_number(data: Dataset, name: str) -> bool:
    dtype = data.dtype(name)
    return dtype.is_numeric() or dtype.is_temporal()


def _choose_rows(original: Dataset) -> Positions:
    """Some records in an order that does not hang on how they stand."""
    digests = original.identity.digests
    return np.lexsort((digests[:, 1], digests[:, 0]))[:_SAMPLE]


def _read(data: Dataset, names: Sequence[str], *, logarithms: bool) -> Floats:
    columns = []
    for name in names:
        values = data.column(name)
        values = values.to_physical() if values.dtype.is_temporal() else values
        numbers = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
        if logarithms:
            with np.errstate(invalid="ignore", divide="ignore"):
                numbers = np.where(numbers > 0, np.log(numbers), np.nan)
        columns.append(numbers)
    return np.column_stack(columns)


def _seek(left: Floats, right: Floats, rows: Positions) -> list[tuple[Floats, Floats]]:
    """The coefficients of sums on both sides that may be the same."""
    # A column that is mostly missing, or has no logarithm, would leave no complete record.
    use_left, use_right = (np.isfinite(side[rows]).mean(axis=0) > _MOSTLY for side in (left, right))
    if not use_left.any() or not use_right.any():
        return []
    a, b = left[rows][:, use_left], right[rows][:, use_right]
    complete = np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1)
    a, b = a[complete], b[complete]
    if len(a) < _ROWS_A_COLUMN * (a.shape[1] + b.shape[1]):
        return []
    found = []
    for number in range(_MOST_RELATIONS):
        weights = _correlate(a, b, number)
        if weights is None or not _agree(a @ weights[0], b @ weights[1]):
            break  # what goes together less well agrees less
        both = np.zeros(left.shape[1]), np.zeros(right.shape[1])
        both[0][use_left], both[1][use_right] = weights
        found.append(both)
    return found


def _correlate(a: Floats, b: Floats, number: int) -> tuple[Floats, Floats] | None:
    """The sums on both sides that go together best, after `number` better ones.

    Canonical correlation (Hotelling 1936), with concentration steps: records that break a rule
    must not bend it.
    """
    rows = np.ones(len(a), bool)
    weights: tuple[Floats, Floats] | None = None
    for _ in range(_ROUNDS):
        weights = _solve(a[rows], b[rows], number)
        if weights is None:
            return None
        apart = _subtract(a @ weights[0], b @ weights[1])
        better = np.zeros(len(a), bool)
        better[np.argsort(apart, kind="stable")[: int(len(a) * (_HALF + _MOSTLY) / 2)]] = True
        if np.array_equal(better, rows):
            break
        rows = better
    return weights


def _solve(a: Floats, b: Floats, number: int) -> tuple[Floats, Floats] | None:
    sides = []
    for side in (a, b):
        centred = side - side.mean(axis=0)
        spread = centred.std(axis=0)
        scale = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1.0), 0.0)
        basis, sizes, turned = np.linalg.svd(centred * scale, full_matrices=False)
        kept = sizes > _COLLINEAR * max(sizes[0], _COLLINEAR)
        sides.append((basis[:, kept], sizes[kept], turned[kept], scale))
    one, other = sides
    if not one[0].shape[1] or not other[0].shape[1]:
        return None
    left, correlations, right = np.linalg.svd(one[0].T @ other[0], full_matrices=False)
    if number >= len(correlations):
        return None
    # In the unit of the known side, the standard deviation of which is 1.
    root = np.sqrt(len(a))
    first = one[3] * (one[2].T @ (left[:, number] / one[1])) * root
    second = other[3] * (other[2].T @ (right[number] / other[1])) * root
    return first, second


def _agree(one: Floats, other: Floats) -> bool:
    """Whether nearly all records obey a relation."""
    spread = float(np.std(one)) if len(one) else 0.0
    return spread > 0 and float((_subtract(one, other) <= _WITHIN * spread).mean()) >= _MOSTLY


def _subtract(one: Floats, other: Floats) -> Floats:
    apart: Floats = np.abs((one - np.median(one)) - (other - np.median(other)))
    return apart


def _apply(
    left: Floats,
    right: Floats,
    shown: Floats,
    weights: tuple[Floats, Floats],
    names: tuple[Sequence[str], Sequence[str]],
) -> ImpliedRelation | None:
    """The relation, if nearly all records obey it; without columns that take no part."""
    parts = [_take_part(side, weight) for side, weight in zip((left, right), weights, strict=True)]
    if not all(part.any() for part in parts):
        return None
    sums = [
        side[:, part] @ weight[part]
        for side, weight, part in zip(
            (left, right, shown),
            (*weights, weights[1]),
            (*parts, parts[1]),
            strict=True,
        )
    ]
    known = np.isfinite(sums[0]) & np.isfinite(sums[1])
    if not _agree(sums[0][known], sums[1][known]):
        return None
    persons = sums[0] - np.median(sums[0][known])
    cells = sums[2] - np.median(sums[1][known])
    chosen = [
        tuple(name for name, takes in zip(side, part, strict=True) if takes)
        for side, part in zip(names, parts, strict=True)
    ]
    return ImpliedRelation(chosen[0], chosen[1], logarithms=False, persons=persons, cells=cells)


def _take_part(side: Floats, weight: Floats) -> Mask:
    moves = np.abs(weight) * np.nanstd(side, axis=0)
    part: Mask = np.isfinite(moves) & (moves > _NEGLIGIBLE * np.nanmax(moves, initial=0.0))
    return part
