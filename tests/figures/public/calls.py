"""How every plot is called on the same people: name -> a figure under one protection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

import sfumato as sf
from sfumato.figures.public.plot import Plot

KEY = bytes(range(32))
Call = Callable[[pl.DataFrame, Any], Plot]


def model_of(frame: pl.DataFrame) -> Any:
    """A straight line of y on x."""
    import statsmodels.formula.api as smf

    return smf.ols("y ~ x", frame.to_pandas()).fit()


CALLS: dict[str, Call] = {
    "box": lambda frame, way: sf.plots.box(frame, ["x", "y"], protection=way, key=KEY),
    "violin": lambda frame, way: sf.plots.violin(frame, "x", protection=way, key=KEY),
    "density": lambda frame, way: sf.plots.density(frame, "x", protection=way, key=KEY),
    "survival": lambda frame, way: sf.plots.survival(
        frame, "time", "event", protection=way, key=KEY
    ),
    "residuals": lambda frame, way: sf.plots.residuals(model_of(frame), protection=way, key=KEY),
    "qq": lambda frame, way: sf.plots.qq(model_of(frame), protection=way, key=KEY),
    "leverage": lambda frame, way: sf.plots.leverage(model_of(frame), protection=way, key=KEY),
    "forest": lambda frame, way: sf.plots.forest(
        model_of(frame), protection="suppress" if way in (None, "suppress") else way
    ),
}
