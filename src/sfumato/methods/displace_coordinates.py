"""Displace places within a ring that holds enough people."""

from __future__ import annotations

import json
import warnings
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.coordinates import (
    find_area,
    find_ring_radii,
    move_places,
    number_alike,
    read_density,
    read_places,
    round_up,
)
from sfumato.data import Dataset
from sfumato.engines import Chance, Engine
from sfumato.errors import HeavyLossWarning, MethodError, WeakProtectionWarning
from sfumato.kernels.arrays import Floats, Mask
from sfumato.method import Fitted, Method, Strength, require_draws
from sfumato.methods._coordinates import name_pair, require_pair
from sfumato.methods.persons import draw_by_person
from sfumato.pairs.alignment import quote_names
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Schema

_DIGITS = 5
"""Decimals of a degree that are released: about a metre."""
_SHARED, _MANY = 0.02, 50
"""A single place with this share of the persons, and so many of them, gives displacements away."""
_MOST_LOST = 0.5
"""The share of places that may be blanked because too few people are alike."""


@parameters
class DisplaceCoordinates(Method):
    """Move each person's place by a secret distance and direction, within a ring of k people.

    Question: how can a map of homes leave without showing who lives where?
    Assumes: an attacker knows where everybody in the file lives, and what else the release shows of
    them (`alike`). At least k other persons who are alike live in the ring around each place within
    which it is displaced ("donut geomasking"), so rings are wide where people are few. The attack
    `location_intersection` says how many persons are found all the same. Places may come to lie in
    a lake or beyond a border.

    The displacement is drawn once for each person (role "person", without one: for each record)
    under the key: all places of a person move alike, the same in every later release as long as the
    key, `k`, `inner` and `persons_per_km2` and the radius are. Radii go up in steps, so that they
    seldom change when people join the file. A place of which one coordinate is missing becomes
    missing.

    Parameters
    ----------
    variables : the latitude and the longitude, in degrees, in this order. Default: the only two
        whose names say so.
    k : fewest other persons who live in the ring.
    inner : inner radius of the ring, as a share of the outer: nobody stays nearer.
    alike : count only persons who share these variables: an attacker knows them too. Default: all
        other quasi-identifiers as they are at this step, so put it after those that generalise
        them. Places of which too few are alike become missing.
    persons_per_km2 : people per square kilometre: count those of the population instead of those in
        the file; a number, or the variable that has it for each row, such as from a census. Then
        the attacker does not know who is in the file. `alike` does not count.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> homes = np.random.default_rng(1).uniform([48, 11], [48.5, 12], (200, 2))
    >>> data = sf.Dataset(pl.DataFrame(homes, schema=["lat", "lon"]),
    ...                   sf.Schema({"lat": "quasi", "lon": "quasi"}))
    >>> moved = DisplaceCoordinates(k=5).apply(data, key=bytes(32)).frame
    >>> bool(((moved["lat"] - data.frame["lat"]).abs() < 0.2).all())
    True

    References: Hampton et al. (2010), Mapping health data: improved privacy protection with donut
    method geomasking, Am J Epidemiol 172:1062. Allshouse et al. (2010), Geospatial Health 6:S33.
    """

    name = "displace_coordinates"
    keyed = True
    strength = Strength("k", stronger="up")
    preserves = ("neighbourhoods",)
    odd = {"one row": "refused", "constant": "refused"}
    examples = ({"variables": ["glucose", "exam_score"], "k": 3, "alike": []},)
    variables: Annotated[list[str], Field(min_length=2, max_length=2)] | None = None
    k: Annotated[int, Field(ge=2)]
    inner: Annotated[float, Field(ge=0, le=0.9)] = 0.25
    alike: list[str] | None = None
    persons_per_km2: Annotated[float, Field(gt=0, allow_inf_nan=False)] | str | None = None

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The latitude and the longitude."""
        return name_pair(self.variables, schema)

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """Which variables are the place, and which must be alike."""
        del engine
        pair = require_pair(self.touches(data.schema), data.schema)
        alike = [n for n in data.schema.having("quasi") if n not in pair]
        if self.persons_per_km2 is not None:
            alike = []
        elif self.alike is not None:
            alike = self.alike
        data.schema.require(alike)
        if isinstance(self.persons_per_km2, str):
            data.schema.require([self.persons_per_km2])
        read_places(data, *pair)
        return {"variables": list(pair), "alike": list(alike)}

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Displace every place, and blank those that too few people are alike in."""
        del engine
        latitude, longitude, known = read_places(data, *fitted["variables"])
        radii = self._find_radii(data, fitted, latitude, longitude, known)
        _warn_of_shared_places(data, latitude[known], longitude[known], known)
        lost = known & ~np.isfinite(radii)
        _report_lost(int(lost.sum()), int(known.sum()), fitted["variables"], self.k)
        shown = known & ~lost
        draws = None if chance is None else Draws(chance.key, chance.step, data.identity)
        km, bearing = self._draw(require_draws(draws, "Displacement"), radii, data)
        km = np.where(shown, km, 0.0)
        moved = move_places(latitude, longitude, km, bearing)
        columns = pl.DataFrame(
            [
                pl.Series(name, np.round(values, _DIGITS)).set(pl.Series(~shown), None)
                for name, values in zip(fitted["variables"], moved, strict=True)
            ]
        )
        return data.with_columns(columns, self._reschema(data.schema, fitted["variables"]))

    def _find_radii(
        self, data: Dataset, fitted: Fitted, latitude: Floats, longitude: Floats, known: Mask
    ) -> Floats:
        """The outer radius of each row in km, the same in all rows of a person."""
        owners = data.units.numbers
        if self.persons_per_km2 is None:
            strata = number_alike(data, fitted["alike"])
            radii = find_ring_radii(
                latitude, longitude, known, owners, strata, k=self.k, inner=self.inner
            )
        else:
            density = read_density(data, self.persons_per_km2)
            with np.errstate(divide="ignore"):
                radii = round_up(np.sqrt(self.k / density / find_area(np.ones(1), self.inner)))
            radii[~known | ~(density > 0)] = np.inf
        widest = np.zeros(owners.max(initial=-1) + 1)
        np.maximum.at(widest, owners[known], radii[known])
        return widest[owners]

    def _draw(self, draws: Draws, radii: Floats, data: Dataset) -> tuple[Floats, Floats]:
        """The distance in km and the direction of each row, uniform in the area of the ring."""
        person = data.schema.person
        draws = draw_by_person(draws, None if person is None else data.column(person))
        settings = json.dumps([self.k, self.inner, self.persons_per_km2])
        # Another radius has another draw: along one line the two places would tell the third.
        finite = np.where(np.isfinite(radii), radii, 0.0)
        distance, turn = (
            draws.lasting(f"displacement: {part}", settings, finite)
            for part in ("distance", "direction")
        )
        share = np.sqrt(self.inner**2 + distance * (1 - self.inner**2))
        return share * finite, 2 * np.pi * turn

    def _reschema(self, schema: Schema, names: list[str]) -> Schema:
        """Nobody knows a displaced place; what the true one tells is measured by the attack."""
        known = [name for name in names if schema[name].role == "quasi"]
        return schema.changed(known, role="other").changed(
            names, kind="continuous", domain=None, hierarchy=None, missing=()
        )

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Every parameter, and which variables they are about; never a radius."""
        return {**super().public(fitted), **fitted}

    def follows(self, fitted: Fitted) -> dict[str, dict[str, Any]]:
        """What the displacement is drawn by: under others it is drawn independently."""
        parts = {part: getattr(self, part) for part in ("k", "inner", "persons_per_km2")}
        return {name: {"method": self.name, **parts} for name in fitted["variables"]}


def _report_lost(lost: int, known: int, names: list[str], k: int) -> None:
    if not lost:
        return
    if lost > _MOST_LOST * known:
        raise MethodError(
            f"{lost:,} of {known:,} places ({quote_names(names)}) have fewer than {k} other "
            "persons around them who are alike and live elsewhere.",
            hint="put this step after those that generalise the other quasi-identifiers, or say "
            "which must be alike: alike = [...].",
        )
    warnings.warn(
        f"{lost:,} of {known:,} places ({quote_names(names)}) were blanked: fewer than {k} other "
        "persons are alike (`alike`).",
        HeavyLossWarning,
        stacklevel=4,
    )


def _warn_of_shared_places(data: Dataset, latitude: Floats, longitude: Floats, known: Mask) -> None:
    """Say so where many persons have one and the same place, such as a hospital."""
    if data.units.one_row_each:
        return
    owners = data.units.numbers[known]
    homes = pl.DataFrame({"north": latitude, "east": longitude, "owner": owners}).unique()
    several = homes.filter(pl.len().over("owner") > 1)
    if not len(several):
        return
    most = int(several.group_by("north", "east").len()["len"].max() or 0)  # type: ignore[arg-type]
    persons = homes["owner"].n_unique()
    if most >= _MANY and most >= _SHARED * persons:
        warnings.warn(
            f"One place stands in rows of {most:,} of {persons:,} persons who have other places "
            "too. Somebody who knows which place that is can work out how far all their places "
            "were moved. Leave out places that many people share.",
            WeakProtectionWarning,
            stacklevel=4,
        )
