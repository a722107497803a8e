"""Whether a model can tell which records are the released ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence
from sfumato.figures.custodian.source import Source, read_rows, refuse_empty, to_float
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import (
    draw_reference_line,
    label_axes,
    make_picture,
    make_sheet,
    name_row,
    set_rows,
)
from sfumato.figures.sheet.style import ORIGINAL, RELEASED, SMALL, Mark, use_house_style
from sfumato.figures.sheet.text import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIVE = ("low", "q1", "median", "q3", "high")
NEEDED = ("data", *_FIVE)
_LOOKS = {"original": ORIGINAL, "released": RELEASED}
_EVEN = 0.5
_HEIGHT = 0.46


def propensity(evidence: Source, *, share: float | None = None, public: bool = False) -> Picture:
    """Boxes of the propensity scores of the original and of the released records.

    Question: do a model's guesses differ between original and released records?
    Assumes: a blind guess is the share of released records, 0.5 when there are as many of both.

    Parameters
    ----------
    evidence : of the measure "propensity", or its table.
    share : the share of released records. Default: what the evidence says, else 0.5.
    public : the custodian's word that it may be shown outside. It shows five numbers a group.

    Examples
    --------
    >>> row = {"low": 0.48, "q1": 0.49, "median": 0.5, "q3": 0.51, "high": 0.52}
    >>> propensity([{"data": "original", **row}, {"data": "released", **row}]).title
    'Propensity scores of original and released records'

    References: Avraam, Jones & Burton (2021), Figure 3.
    """
    rows = read_rows(evidence, NEEDED, picture="propensity")
    boxes = {str(row["data"]): tuple(to_float(row[name]) for name in _FIVE) for row in rows}
    if not set(boxes) <= set(_LOOKS) or len(boxes) < len(rows):
        raise SfumatoError(
            "The picture 'propensity' needs one row for 'original' and one for 'released'.",
            hint="pass the table of the measure 'propensity'.",
        )
    ends = [value for five in boxes.values() for value in five if math.isfinite(value)]
    if not ends:
        raise refuse_empty("propensity")
    details = evidence.details if isinstance(evidence, Evidence) else {}
    even = to_float(details.get("share_released", _EVEN)) if share is None else share
    with use_house_style():
        figure, (axes,) = make_sheet(1.75)
        reach = max(0.001, *(abs(value - even) for value in ends)) * 1.12
        axes.set_xlim(even - reach, even + reach)
        set_rows(axes, len(_LOOKS))
        draw_reference_line(axes, even)
        axes.text(even, 1.02, "cannot be told apart", transform=axes.get_xaxis_transform(),
                  ha="center", va="bottom", fontsize=SMALL, alpha=0.75)  # fmt: skip
        for row, (name, look) in enumerate(_LOOKS.items()):
            name_row(axes, row, look.name)
            _draw_box(axes, row, boxes.get(name, (math.nan,) * 5), look)
        label_axes(axes, "Propensity score: probability of being a released record", width=60)
        return make_picture(
            figure,
            "Propensity scores of original and released records",
            "Boxes hold the middle half of the records, lines the middle 90\u00a0%; the symbol is "
            f"the median. Near {format_number(even)} the model cannot tell released records from "
            "others.",
            public=public,
        )


def _draw_box(axes: Axes, row: int, five: tuple[float, ...], look: Mark) -> None:
    from matplotlib.patches import Rectangle

    low, first, middle, third, high = five
    if not all(map(math.isfinite, five)):
        axes.text(0.5, row, "no scores", transform=axes.get_yaxis_transform(), ha="center",
                  va="center", fontsize=SMALL)  # fmt: skip
        return
    for start, end in ((low, first), (third, high)):
        axes.plot([start, end], [row, row], color=look.colour, linewidth=1.3)
    for end in (low, high):
        axes.plot([end, end], [row - 0.1, row + 0.1], color=look.colour, linewidth=1.3)
    corner, width = (first, row - _HEIGHT / 2), third - first
    axes.add_patch(Rectangle(corner, width, _HEIGHT, color=look.colour, alpha=0.16, linewidth=0))
    axes.add_patch(Rectangle(corner, width, _HEIGHT, fill=False, edgecolor=look.colour,
                             linewidth=1.3))  # fmt: skip
    span = [row - _HEIGHT / 2, row + _HEIGHT / 2]
    axes.plot([middle] * 2, span, color=look.colour, linewidth=2)
    axes.plot([middle], [row], color=look.colour, marker=look.marker, markersize=6)
