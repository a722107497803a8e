"""Replace places by the middles of the cells of a fixed grid."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.coordinates import KM_PER_DEGREE
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.summaries import Maximum, Minimum, Summary
from sfumato.errors import DataError
from sfumato.kernels.arrays import Floats
from sfumato.method import Fitted, RowWise, Strength, require_numbers
from sfumato.methods._coordinates import name_pair, require_pair
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Schema
from sfumato.schema.inference.coordinates import HIGHEST_LATITUDE, HIGHEST_LONGITUDE

_PARTS = 100
"""The middle of a cell is rounded to less than a hundredth of the cell."""


@parameters
class GridCoordinates(RowWise):
    """Replace each place by the middle of the grid cell it lies in.

    Question: how exactly must a place be known?
    Assumes: cells are fixed in advance, and are the same for all data. Few people may live in one:
    this guarantees nothing, so set a target on k.

    Cells are as many kilometres high and wide everywhere: nearer to the poles a degree of
    longitude is shorter, so that a cell spans more of them. A place of which one coordinate is
    missing becomes missing.

    Parameters
    ----------
    variables : the latitude and the longitude, in degrees, in this order. Default: the only two
        whose names say so.
    cell_km : height and width of a cell in km, at least; at most a few per cent more.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> places = pl.DataFrame({"lat": [52.520, 52.522], "lon": [13.405, 13.401]})
    >>> data = sf.Dataset(places, sf.Schema({"lat": "quasi", "lon": "quasi"}))
    >>> GridCoordinates(cell_km=5).apply(data).frame.rows()
    [(52.5206, 13.3771), (52.5206, 13.3771)]
    """

    name = "grid_coordinates"
    runs_on = ("local", "streaming", "spark")
    strength = Strength("cell_km", stronger="up")
    examples = ({"variables": ["glucose", "exam_score"], "cell_km": 50},)
    variables: Annotated[list[str], Field(min_length=2, max_length=2)] | None = None
    cell_km: Annotated[float, Field(gt=0, le=5000, allow_inf_nan=False)]

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The latitude and the longitude."""
        return name_pair(self.variables, schema)

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """Which variables are the place; their values must be degrees."""
        pair = require_pair(self.touches(data.schema), data.schema)
        require_numbers(data, pair, "A grid of places", dates=False, engine=engine)
        ends: list[Summary] = [Minimum(), Maximum()]
        summary = engine.aggregate(data, dict.fromkeys(pair, ends))
        limits = (HIGHEST_LATITUDE, HIGHEST_LONGITUDE)
        for name, most in zip(pair, limits, strict=True):
            if any(value is not None and abs(value) > most for value in summary[name].values()):
                raise DataError(
                    f"Variable '{name}' has values beyond {most:g} degrees either way.",
                    hint="give latitude and longitude in this order, in degrees; set codes for "
                    "missing with `missing`.",
                )
        return {"variables": list(pair)}

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """The middles of the cells of a batch of records."""
        del draws
        names = fitted["variables"]
        degrees = [batch[name].cast(pl.Float64).fill_nan(None) for name in names]
        missing = degrees[0].is_null() | degrees[1].is_null()
        middles = self._find_middles(*(values.fill_null(0).to_numpy() for values in degrees))
        return pl.DataFrame(
            [
                pl.Series(name, values).set(missing, None)
                for name, values in zip(names, middles, strict=True)
            ]
        )

    def _find_middles(self, latitude: Floats, longitude: Floats) -> tuple[Floats, Floats]:
        """The middle of the cell of each place: bands of latitude are cut into equal cells."""
        bands = max(1, int(2 * HIGHEST_LATITUDE * KM_PER_DEGREE / self.cell_km))
        height = 2 * HIGHEST_LATITUDE / bands
        band = np.minimum(np.floor((latitude + HIGHEST_LATITUDE) / height), bands - 1)
        middle = (band + 0.5) * height - HIGHEST_LATITUDE
        circle = 2 * HIGHEST_LONGITUDE * KM_PER_DEGREE * np.cos(np.radians(middle))
        cells = np.maximum(1.0, np.floor(circle / self.cell_km))
        width = 2 * HIGHEST_LONGITUDE / cells
        # 180 degrees west and east are the same place.
        turned = (longitude + HIGHEST_LONGITUDE) % (2 * HIGHEST_LONGITUDE)
        cell = np.minimum(np.floor(turned / width), cells - 1)
        digits = max(0, int(np.ceil(-np.log10(height / _PARTS))))
        east = (cell + 0.5) * width - HIGHEST_LONGITUDE
        return np.round(middle, digits), np.round(east, digits)

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """The same, in numbers that are no longer those of the original domain."""
        return schema.changed(
            fitted["variables"], kind="continuous", domain=None, hierarchy=None, missing=()
        )

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Every parameter, and which variables they are about."""
        return {**super().public(fitted), **fitted}
