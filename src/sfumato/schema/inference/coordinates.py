"""Latitude and longitude: two variables that are one place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from sfumato.schema.inference.words import remove_accents

_LATITUDE = {"lat", "latitude", "latitud", "latitudine", "breitengrad", "breddegrad"}
_LONGITUDE = {
    "lon", "lng", "long", "longitude", "longitud", "longitudine", "langengrad", "laengengrad",
    "lengdegrad",
}  # fmt: skip
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
HIGHEST_LATITUDE, HIGHEST_LONGITUDE = 90.0, 180.0


class Coordinates(NamedTuple):
    """The variables that say where a place is."""

    latitude: str
    longitude: str


def find_coordinates(names: Iterable[str]) -> list[Coordinates]:
    """The pairs among some names that speak of latitude and longitude of one place.

    Examples
    --------
    >>> find_coordinates(["home_lat", "age", "home_lon", "workLatitude", "workLongitude"])[0]
    Coordinates(latitude='home_lat', longitude='home_lon')
    >>> find_coordinates(["lat", "home_lon"])
    []
    """
    names_by_part: dict[str, dict[tuple[str, ...], str]] = {"latitude": {}, "longitude": {}}
    for name in names:
        words = [word.lower() for word in _WORD.findall(remove_accents(name))]
        for part, known in (("latitude", _LATITUDE), ("longitude", _LONGITUDE)):
            if sum(word in known for word in words) == 1:
                other_words = tuple(word for word in words if word not in known)
                names_by_part[part].setdefault(other_words, name)
    pairs = names_by_part["latitude"].items()
    longitudes = names_by_part["longitude"]
    return [
        Coordinates(name, longitudes[other_words])
        for other_words, name in pairs
        if other_words in longitudes
    ]
