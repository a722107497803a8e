"""Places on the globe: distances, moved places, and rings that hold enough people.

The earth is a sphere here, which is right to half a per cent.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import DataError
from sfumato.kernels.arrays import AnyIntegers, Floats, Integers, Mask
from sfumato.schema.inference.coordinates import HIGHEST_LATITUDE, HIGHEST_LONGITUDE

EARTH_KM = 6371.0088
"""The mean radius of the earth."""
KM_PER_DEGREE = EARTH_KM * np.pi / 180
_STEPS = 2
"""Radii double in so many steps: the radius of a place seldom changes when people come and go."""
_FARTHEST = EARTH_KM * np.pi
_LEAST_KM = 2.0**-10
"""No radius is smaller, about a metre."""


def read_places(data: Dataset, latitude: str, longitude: str) -> tuple[Floats, Floats, Mask]:
    """Latitudes and longitudes in degrees, and which rows have both."""
    columns = []
    for name, most in ((latitude, HIGHEST_LATITUDE), (longitude, HIGHEST_LONGITUDE)):
        if not data.dtype(name).is_numeric():
            raise DataError(
                f"Variable '{name}' holds no numbers, so they are no coordinates.",
                hint="name a latitude and a longitude in degrees, such as 48.137 and 11.575.",
            )
        degrees = data.column(name).cast(pl.Float64).fill_nan(None)
        if not bool((degrees.abs() <= most).all()):
            raise DataError(
                f"Variable '{name}' has values beyond {most:g} degrees either way.",
                hint="give latitude and longitude in this order, in degrees; set codes for "
                "missing with `missing`.",
            )
        columns.append(degrees)
    known = (columns[0].is_not_null() & columns[1].is_not_null()).to_numpy()
    return columns[0].fill_null(0).to_numpy(), columns[1].fill_null(0).to_numpy(), known


def find_vectors(latitude: Floats, longitude: Floats) -> Floats:
    """Places as points on a sphere of radius 1, a row each."""
    north, east = np.radians(latitude), np.radians(longitude)
    return np.column_stack(
        [np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)]
    )


def to_chord(km: Floats | float) -> Floats:
    """The straight distance on a sphere of radius 1 that belongs to kilometres on the ground."""
    chords: Floats = 2 * np.sin(np.minimum(np.asarray(km) / EARTH_KM, np.pi) / 2)
    return chords


def to_km(chords: Floats) -> Floats:
    """Kilometres on the ground that belong to straight distances on a sphere of radius 1."""
    km: Floats = 2 * EARTH_KM * np.arcsin(np.clip(chords / 2, 0, 1))
    return km


def move_places(
    latitude: Floats, longitude: Floats, km: Floats, bearing: Floats
) -> tuple[Floats, Floats]:
    """Places so many kilometres away in a direction, in radians from north over east.

    Examples
    --------
    >>> north, east = move_places(*(np.array([x]) for x in (60.0, 179.5, KM_PER_DEGREE, np.pi / 2)))
    >>> round(float(north[0]), 2), round(float(east[0]), 2)
    (59.98, -178.5)
    """
    start, arc = np.radians(latitude), km / EARTH_KM
    sine = np.sin(start) * np.cos(arc) + np.cos(start) * np.sin(arc) * np.cos(bearing)
    east = np.arctan2(
        np.sin(bearing) * np.sin(arc) * np.cos(start), np.cos(arc) - np.sin(start) * sine
    )
    moved = (longitude + np.degrees(east) + 180) % 360 - 180
    return np.degrees(np.arcsin(np.clip(sine, -1, 1))), moved


def round_up(km: Floats) -> Floats:
    """The next radius that is allowed: a power of the square root of 2.

    Examples
    --------
    >>> round_up(np.array([1.0, 1.2, 3.0])).round(3).tolist()
    [1.0, 1.414, 4.0]
    """
    steps = np.ceil(_STEPS * np.log2(np.maximum(km, _LEAST_KM)) - 1e-9)
    radii: Floats = 2.0 ** (steps / _STEPS)
    return radii


def find_radii(places: Floats, owners: Integers, homes: Floats, *, k: int, inner: float) -> Floats:
    """The smallest allowed outer radius in km at which a ring around each place holds k others.

    Parameters
    ----------
    places : points on the sphere.
    owners : whose each place is, a position in `homes`.
    homes : a point for each person.
    k : how many other persons live in the ring.
    inner : the inner radius, as a share of the outer.

    Where there are fewer others on earth, the radius is infinite.
    """
    from scipy.spatial import cKDTree

    radii = np.full(len(places), np.inf)
    if not len(places) or len(homes) <= k:
        return radii
    tree = cKDTree(homes)
    # The k nearest others lie no nearer than the k nearest, of whom one may be the person.
    nearest = tree.query(places, k=[k])[0][:, 0]
    current = round_up(to_km(nearest))
    own = to_km(np.linalg.norm(homes[owners] - places, axis=1))
    open_rows = np.arange(len(places))
    while len(open_rows):
        outer = current[open_rows]
        inside = _count_within(tree, places[open_rows], outer, own[open_rows])
        inside -= _count_within(tree, places[open_rows], inner * outer, own[open_rows])
        enough = inside >= k
        radii[open_rows[enough]] = outer[enough]
        open_rows = open_rows[~enough & (outer <= _FARTHEST)]
        current[open_rows] *= 2.0 ** (1 / _STEPS)
    return radii


def _count_within(tree: object, places: Floats, km: Floats, own: Floats) -> Integers:
    """How many other persons live within so many kilometres, the person's own home left out."""
    counts = tree.query_ball_point(  # type: ignore[attr-defined]
        places, to_chord(km) * (1 + 1e-12), return_length=True
    )
    return np.asarray(counts, np.int64) - (to_chord(own) <= to_chord(km) * (1 + 1e-12))


def find_area(outer: Floats, inner: float) -> Floats:
    """The area of rings in km², on the flat."""
    area: Floats = np.pi * outer**2 * (1 - inner**2)
    return area


def number_alike(data: Dataset, names: list[str]) -> Integers:
    """The same number for rows with the same values of some variables."""
    if not names:
        return np.zeros(len(data), np.int64)
    ranks = data.batch(names).select(pl.struct(names).rank("dense").alias("stratum"))
    return ranks["stratum"].to_numpy().astype(np.int64) - 1


def read_density(data: Dataset, stated: float | str) -> Floats:
    """Persons per square kilometre around each row; NaN where that is not known."""
    if not isinstance(stated, str):
        return np.full(len(data), float(stated))
    if not data.dtype(stated).is_numeric():
        raise DataError(
            f"Variable '{stated}' holds no numbers, so it is no density of people.",
            hint="name a variable with persons per square kilometre.",
        )
    return data.column(stated).cast(pl.Float64).fill_null(np.nan).to_numpy()


def find_ring_radii(
    latitude: Floats,
    longitude: Floats,
    known: Mask,
    owners: AnyIntegers,
    strata: Integers,
    *,
    k: int,
    inner: float,
) -> Floats:
    """The outer radius of the ring of each row, in km, among persons of the same stratum."""
    radii = np.full(len(known), np.inf)
    vectors = find_vectors(latitude, longitude)
    rows = np.flatnonzero(known)
    order = rows[np.argsort(strata[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(strata[order], prepend=-1))
    for part in np.split(order, starts[1:]) if len(order) else []:
        persons, owner = np.unique(owners[part], return_inverse=True)
        homes = vectors[part][find_commonest(vectors[part], owner, len(persons))]
        radii[part] = find_radii(vectors[part], owner, homes, k=k, inner=inner)
    return radii


def find_commonest(vectors: Floats, owner: Integers, persons: int) -> Integers:
    """For each person the position of the place that stands in most of their rows."""
    if len(vectors) == persons:
        first = np.empty(persons, np.int64)
        first[owner] = np.arange(persons)
        return first
    _, place = np.unique(vectors, axis=0, return_inverse=True)
    rows = pl.DataFrame({"owner": owner, "place": place.ravel(), "row": np.arange(len(owner))})
    counted = rows.group_by("owner", "place").agg(pl.len().alias("rows"), pl.col("row").min())
    best = counted.sort("owner", "rows", "place", descending=[False, True, False])
    return best.unique("owner", keep="first", maintain_order=True)["row"].to_numpy()
