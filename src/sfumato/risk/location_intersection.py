"""Whose displaced place can be traced: nearest homes, homes that fit, patterns of places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.coordinates import (
    EARTH_KM,
    find_area,
    find_commonest,
    find_ring_radii,
    find_vectors,
    number_alike,
    read_density,
    read_places,
    round_up,
    to_chord,
    to_km,
)
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.verbs import AFTER, BEFORE
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.measure import AT_WORST, AttackWording, Measure, Trial
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.risk.attacks.outcomes import mean_of, wilson

_ASSUMPTIONS = (
    "The attacker knows where everybody in the file lives, to the metre.",
    "They know the method, k and the share of the inner radius from the manifest.",
    "They know the released values of the other quasi-identifiers of everybody.",
    "They know which released rows are one person's, and all places of that person.",
)
_POPULATION = "They do not know who of the stated population is in the file."
_ROUNDED_KM = 0.005
"""Released places are rounded: a home may lie so much outside its ring."""
_TIED = 1e-9
_ALIKE_KM, _ALIKE_SHARE = 0.05, 0.01
"""Patterns that differ by less, and by less than this share of their extent, are the same."""
_MOST_PLACES = 12
"""So many places of a person are compared with those of others."""


@dataclass(frozen=True, eq=False)
class _Traces:
    """The different released places of some persons, and the homes of all.

    Parameters
    ----------
    homes, radii, strata : the true place of each person, the outer radius of its ring in km, and
        who is alike.
    owner, shown : whose each released place is, and where it lies.
    density : persons of the population per square kilometre, by person; None: those of the file.
    """

    homes: Floats = field(repr=False)
    radii: Floats = field(repr=False)
    strata: Integers = field(repr=False)
    owner: Integers = field(repr=False)
    shown: Floats = field(repr=False)
    density: Floats | None = field(repr=False)

    def list_targets(self, some: int) -> Iterator[tuple[int, Floats, _Candidates]]:
        """Each person who is looked at, their released places, and who else it could be."""
        strata = {
            stratum: _Candidates(members, self.homes[members], self.radii[members])
            for stratum, members in _group(self.strata).items()
        }
        for person, rows in enumerate(_split(self.owner, len(self.homes))[:some]):
            yield person, self.shown[rows], strata[self.strata[person]]


class _Candidates:
    """The persons who are alike in all other variables, and where they live."""

    def __init__(self, members: Integers, homes: Floats, radii: Floats) -> None:
        from scipy.spatial import cKDTree

        self.members = members
        self._homes, self._radii = homes, radii
        self._tree = cKDTree(homes)
        self._reach = to_chord(np.max(radii, where=np.isfinite(radii), initial=0.0) + _ROUNDED_KM)

    def find_nearest(self, point: Floats) -> Integers:
        """Those who live nearest to a point."""
        distance = self._tree.query(point)[0]
        nearest: Integers = self.members[self._tree.query_ball_point(point, distance + _TIED)]
        return nearest

    def find_fitting(self, shown: Floats, inner: float) -> tuple[Integers, Floats]:
        """Those in whose rings all released places lie, and how likely each of them is."""
        nearby = np.array(self._tree.query_ball_point(shown[0], self._reach), np.int64)
        distances = to_km(np.linalg.norm(self._homes[nearby][:, None] - shown[None], axis=2))
        outer = self._radii[nearby][:, None]
        in_ring = (distances <= outer + _ROUNDED_KM) & (distances >= inner * outer - _ROUNDED_KM)
        fit = nearby[in_ring.all(axis=1) & np.isfinite(self._radii[nearby])]
        # Uniform in the ring: a home in a small ring is the likelier one.
        return self.members[fit], find_area(self._radii[fit], inner) ** -float(len(shown))


@parameters
class LocationIntersection(Measure):
    """Share of persons whose home an attacker finds from their displaced places.

    Question: places were displaced by `displace_coordinates`. Who can be traced by somebody who
    knows where everybody lives?
    Assumes: the attacker knows the file's persons, where they live, and what else the release shows
    of them. Three ways are tried. The nearest home to the mean of the released places of a person;
    the home that fits best among those in whose rings all of them lie (intersection); and for
    persons with several places how these lie to each other (pattern), since all places of a person
    are moved alike. Where several fit equally well the attacker guesses among these. The baseline
    is a guess among all who are alike in the other variables.

    Of a person with several different places the pattern counts, of all others the intersection.
    The table says what each way achieves by itself, and a target holds for the best of them.

    Parameters
    ----------
    variables : the latitude and the longitude.
    k : fewest other persons who live in the ring; as in the method, published.
    inner : inner radius of the ring, as a share of the outer; published.
    alike : only persons who share these variables count; published. Default: all other
        quasi-identifiers of the release.
    persons_per_km2 : people per square kilometre; as in the method, published.
    known : what else the attacker knows. Default: all other quasi-identifiers of the release.
    persons : most persons looked at. Which follows from their identity.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> homes = np.random.default_rng(1).uniform([48, 11], [48.5, 12], (500, 2))
    >>> data = sf.Dataset(pl.DataFrame(homes, schema=["lat", "lon"]),
    ...                   sf.Schema({"lat": "quasi", "lon": "quasi"}))
    >>> moved = sf.methods.DisplaceCoordinates(k=5).apply(data, key=bytes(32))
    >>> found = LocationIntersection(variables=["lat", "lon"], k=5).measure(data, moved)
    >>> found.value < 0.26, found.baseline
    (True, 0.002)

    References: Cassa, Wieland & Mandl (2008), Re-identification of home addresses from spatial
    locations anonymized by Gaussian skew, Int J Health Geogr 7:45.
    """

    name = "location_intersection"
    attack = AttackWording(
        title="Tracing displaced places",
        control="a guess",
        sentence="Of the people whose places were displaced, {success} are traced to their home, "
        "and {control} by guessing. On average {homes_that_fit:.3g} homes fit.",
    )
    trial = Trial(
        exploits=("neighbourhoods",), acceptable="by k", seconds=10.0, in_sample="unknown"
    )
    examples = ({"variables": ["glucose", "exam_score"], "k": 3, "known": []},)
    of = "pair"
    counts_persons = True
    numbers = (Number.share("location_intersection"),)
    variables: Annotated[list[str], Field(min_length=2, max_length=2)]
    k: Annotated[int, Field(ge=2)]
    inner: Annotated[float, Field(ge=0, le=0.9)] = 0.25
    alike: list[str] | None = None
    persons_per_km2: Annotated[float, Field(gt=0, allow_inf_nan=False)] | str | None = None
    known: list[str] | None = None
    persons: Annotated[int, Field(ge=1)] = 2_000

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Trace some persons in three ways."""
        traces, patterns = self._read(original, released, engine)
        persons = len(traces.homes)
        some = min(self.persons, persons)
        fits = np.zeros(some)
        nearest, fitting = np.zeros(some), np.zeros(some)
        guesses = np.zeros(some)
        for person, shown, others in traces.list_targets(some):
            guesses[person] = 1 / len(others.members)
            best = others.find_nearest(shown.mean(axis=0))
            nearest[person] = float(person in best) / len(best)
            fitting[person], fits[person] = self._trace_fitting(traces, person, shown, others)
        pattern, several = patterns.trace(traces.strata, some)
        both = np.where(several, np.maximum(pattern, fitting), fitting)
        table = pl.DataFrame(
            {
                "way": ["all", "nearest home", "homes that fit", "pattern of places"],
                self.name: [
                    mean_of(both),
                    mean_of(nearest),
                    mean_of(fitting),
                    mean_of(pattern[several]) if several.any() else None,
                ],
                "persons": [some, some, some, int(several.sum())],
            }
        )
        value = mean_of(both)
        return Evidence(
            name=self.name,
            subject="pair",
            value=value,
            interval=wilson(value, some),
            direction=self.direction,
            baseline=mean_of(guesses),
            table=original.like(table),
            details={
                f"{self.name}{AT_WORST}": max(value, mean_of(nearest)),
                "homes_that_fit": mean_of(fits),
                "persons_with_several_places": int(several.sum()),
                "persons_looked_at": some,
                "persons": persons,
                "variables": tuple(self.variables),
            },
            assumptions=_ASSUMPTIONS if self.persons_per_km2 is None
            else (*_ASSUMPTIONS, _POPULATION),
            sampled=None if some == persons else (some, persons),
        )  # fmt: skip

    def _read(
        self, original: Dataset, released: Dataset, engine: Engine
    ) -> tuple[_Traces, _Patterns]:
        """The true homes and the released places of the persons who have both."""
        original.schema.require(self.variables)
        released.schema.require(self.variables)
        others = [n for n in released.schema.having("quasi") if n not in self.variables]
        names = others if self.known is None else self.known
        counted = others if self.alike is None else self.alike
        latitude, longitude, known = read_places(original, *self.variables)
        wanted = dict.fromkeys([*self.variables, *names, *counted])
        pairs = engine.pairs(original, released, list(wanted))
        north, east = (pairs.column(f"{AFTER}{name}") for name in self.variables)
        if not (north.dtype.is_numeric() and east.dtype.is_numeric()):
            raise MeasureError(
                f"'{self.name}' compares coordinates, and a released variable holds no numbers.",
                hint="name coordinates that were displaced, and not generalised afterwards.",
            )
        known &= (north.is_not_null() & east.is_not_null()).to_numpy()
        rows = np.flatnonzero(known)
        persons, owner = np.unique(original.units.numbers[rows], return_inverse=True)
        if len(persons) <= 1:
            raise MeasureError(
                f"'{self.name}' needs places of at least two persons, before and after.",
                hint="name variables with fewer missing values.",
            )
        strata = number_alike(_take_released_variables(pairs, names), names)
        vectors = find_vectors(latitude[rows], longitude[rows])
        first = find_commonest(vectors, owner, len(persons))
        density = None
        if self.persons_per_km2 is None:
            alike = number_alike(_take_released_variables(pairs, counted), counted)
            radii = find_ring_radii(
                latitude, longitude, known, original.units.numbers, alike, k=self.k,
                inner=self.inner,
            )[rows]  # fmt: skip
        else:
            stated = read_density(original, self.persons_per_km2)[rows]
            with np.errstate(divide="ignore"):
                radii = round_up(np.sqrt(self.k / stated / find_area(np.ones(1), self.inner)))
            density = stated[first]
        widest = np.zeros(len(persons))
        np.maximum.at(widest, owner, radii)
        shown = find_vectors(
            *(s.cast(pl.Float64).fill_null(0).to_numpy()[rows] for s in (north, east))
        )
        distinct = _find_distinct(owner, shown)
        order = _order_persons(original, rows[first])
        back = np.empty(len(persons), np.int64)
        back[order] = np.arange(len(persons))
        traces = _Traces(
            homes=vectors[first][order],
            radii=widest[order],
            strata=strata[rows][first][order],
            owner=back[owner[distinct]],
            shown=shown[distinct],
            density=None if density is None else density[order],
        )
        true = _find_distinct(owner, vectors)
        return traces, _Patterns(
            _measure_patterns(back[owner[true]], vectors[true], len(persons)),
            _measure_patterns(traces.owner, traces.shown, len(persons)),
        )

    def _trace_fitting(
        self, traces: _Traces, person: int, shown: Floats, others: _Candidates
    ) -> tuple[float, float]:
        """The probability that the best home among those that fit is the true one; how many fit."""
        fit, weights = others.find_fitting(shown, self.inner)
        if not len(fit):
            return 0.0, 0.0
        best = fit[weights >= weights.max() * (1 - _TIED)]
        probability = float(person in best) / len(best)
        if traces.density is not None and len(shown) == 1:
            # Others of the population who live there are as likely.
            probability *= min(1.0, float(weights.sum() / traces.density[person]))
        return probability, float(len(fit))


@dataclass(frozen=True, eq=False)
class _Patterns:
    """How the places of each person lie to each other, before and after."""

    true: dict[int, Floats] = field(repr=False)
    shown: dict[int, Floats] = field(repr=False)

    def trace(self, strata: Integers, some: int) -> tuple[Floats, Mask]:
        """Who is found by how their places lie to each other, and who has several."""
        probabilities, several = np.zeros(some), np.zeros(some, bool)
        alike: dict[tuple[int, int], list[int]] = {}
        for person, distances in self.true.items():
            alike.setdefault((int(strata[person]), len(distances)), []).append(person)
        for person in range(some):
            if person not in self.true:
                continue
            several[person] = True
            shown = self.shown.get(person)
            if shown is None or len(shown) != len(self.true[person]):
                continue
            others = np.array(alike[int(strata[person]), len(shown)])
            known = np.array([self.true[other] for other in others])
            tolerance = _ALIKE_KM + _ALIKE_SHARE * np.abs(shown).max()
            same = np.abs(known - shown) <= tolerance
            fit = same.all(axis=1)
            probabilities[person] = fit[others == person].any() / max(1, fit.sum())
        return probabilities, several


def _measure_patterns(owner: Integers, vectors: Floats, persons: int) -> dict[int, Floats]:
    """By person with several places where these lie from their middle, in km, south to north."""
    patterns = {}
    for person, rows in enumerate(_split(owner, persons)):
        if len(rows) > 1:
            some = vectors[rows[:_MOST_PLACES]]
            middle = some.mean(axis=0)
            middle /= np.linalg.norm(middle)
            east = np.array([-middle[1], middle[0], 0.0])
            east /= max(float(np.linalg.norm(east)), _TIED)
            axes = np.column_stack([np.cross(middle, east), east])
            flat = (some - middle) @ axes * EARTH_KM
            patterns[person] = flat[np.lexsort(flat.T[::-1])].ravel()
    return patterns


def _take_released_variables(pairs: Dataset, names: list[str]) -> Dataset:
    """Some variables as they are released, under their own names; what was dropped as it was."""
    columns = [
        pairs.column(f"{AFTER if f'{AFTER}{name}' in pairs.schema else BEFORE}{name}").alias(name)
        for name in names
    ]
    return Dataset(pl.DataFrame(columns) if names else pl.DataFrame({"row": range(len(pairs))}))


def _order_persons(data: Dataset, rows: Integers) -> Integers:
    """Persons in an order that says nothing of the data."""
    if data.units.declared:
        return np.arange(len(rows))
    digests = data.identity.digests[rows]
    return np.lexsort((digests[:, 1], digests[:, 0]))


def _find_distinct(owner: Integers, vectors: Floats) -> Integers:
    """Rows in which each person's different places stand first."""
    _, first = np.unique(np.column_stack([owner, vectors]), axis=0, return_index=True)
    return first


def _split(owner: Integers, persons: int) -> list[Integers]:
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.searchsorted(owner[order], np.arange(1, persons)))


def _group(strata: Integers) -> dict[int, Integers]:
    order = np.argsort(strata, kind="stable")
    starts = np.flatnonzero(np.diff(strata[order], prepend=-1))
    return {int(strata[part[0]]): part for part in np.split(order, starts[1:]) if len(part)}
