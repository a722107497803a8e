"""Figures that may leave the building: every one holds protected values and nothing else.

`sf.plots.scatter(data, x="age", y="bmi")` lives in `scatter.py`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.figures.public.bar import bar
    from sfumato.figures.public.box import box
    from sfumato.figures.public.compare import compare
    from sfumato.figures.public.contour import contour
    from sfumato.figures.public.density import density
    from sfumato.figures.public.forest import forest
    from sfumato.figures.public.gallery import gallery
    from sfumato.figures.public.heatmap import heatmap
    from sfumato.figures.public.histogram import histogram
    from sfumato.figures.public.leverage import leverage
    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.qq import qq
    from sfumato.figures.public.residuals import residuals
    from sfumato.figures.public.scatter import scatter
    from sfumato.figures.public.survival import survival
    from sfumato.figures.public.violin import violin

__all__ = [
    "Plot",
    "bar",
    "box",
    "compare",
    "contour",
    "density",
    "forest",
    "gallery",
    "heatmap",
    "histogram",
    "leverage",
    "qq",
    "residuals",
    "scatter",
    "survival",
    "violin",
]


class _Room(ModuleType):
    """The package itself. A module in it never hides the function of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in __all__ and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Room


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"{__name__}.{name.lower()}"), name)
    msg = f"module 'sfumato.plots' has no attribute '{name}'"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
