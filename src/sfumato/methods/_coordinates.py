"""Which two variables are the latitude and the longitude that a step is about."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.errors import MethodError
from sfumato.schema import Schema
from sfumato.schema.inference.coordinates import find_coordinates


def name_pair(variables: Sequence[str] | None, schema: Schema) -> tuple[str, ...]:
    """The two as named, or the only two whose names say so; none where there are others."""
    if variables is not None:
        return tuple(variables)
    pairs = find_coordinates(schema)
    return tuple(pairs[0]) if len(pairs) == 1 else ()


def require_pair(pair: tuple[str, ...], schema: Schema) -> tuple[str, str]:
    """The latitude and the longitude; fail where nothing says which they are."""
    if not pair:
        count = len(find_coordinates(schema))
        what = f"{count} pairs of variables are" if count else "No two variables are"
        raise MethodError(
            f"{what} called latitude and longitude.",
            hint='name the two: variables = ["lat", "lon"].',
        )
    schema.require(pair)
    latitude, longitude = pair
    return latitude, longitude
