"""The look of all figures: one ink, few colours that everybody can tell apart, a shape for each.

The colours are those of Okabe and Ito. Nothing is shown by colour alone: each has its own marker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

INK = "#1d2228"
"""Text, axes and the original. Nothing else has it: in a page it becomes the page's own ink."""
VERMILION = "#d55e00"
BLUE = "#0072b2"
WIDTH = 6.4
"""Inches: 640 pixels at 100 dots per inch."""
TITLE, PANEL, LABEL, SMALL = 11.0, 9.5, 9.0, 8.0
FAINT = 0.13
DASHES = (0, (4, 3))
"""Of the lines that everything else is compared with."""

_COLOURS = (BLUE, VERMILION, "#009e73", "#e69f00", "#56b4e9", "#cc79a7")
_MARKERS = "os^DvPX<>ph*"
MOST_MARKS = len(_MARKERS)
"""Nobody can tell apart more than this many series in one figure."""
MOST_OVERLAID = 3
"""More groups than this have a panel each."""

_SETTINGS: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": LABEL,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "path.simplify": False,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "sfumato",
    "pdf.fonttype": 42,
}


@dataclass(frozen=True)
class Mark:
    """How one series looks, and what it is called in the legend."""

    name: str
    colour: str = INK
    marker: str = "o"
    line: Literal["-", "--", ""] = "-"
    alpha: float = 1.0
    hollow: bool = False


ORIGINAL = Mark("Original")
RELEASED = Mark("Released", VERMILION, "D")


def pick_mark(index: int, name: str) -> Mark:
    """The look of the n-th of several series: no two share both colour and shape."""
    return Mark(name, _COLOURS[index % len(_COLOURS)], _MARKERS[index % MOST_MARKS])


def pick_marks(labels: list[str], *, grouped: bool) -> list[Mark]:
    """A look for each group; a nameless blue one where there are no groups."""
    if not grouped:
        return [Mark("", BLUE)] * len(labels)
    return [pick_mark(index, label) for index, label in enumerate(labels)]


@contextmanager
def use_house_style() -> Iterator[None]:
    """Our settings while something is drawn, whatever the user's are; theirs come back after."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield
