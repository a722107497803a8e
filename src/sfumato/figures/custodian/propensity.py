"""Whether a model can tell which records are the released ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import finish, label_axes, name_row, rows_only, sheet, upright
from sfumato.figures._sheet.style import ORIGINAL, RELEASED, SMALL, Mark, house_style
from sfumato.figures._sheet.words import number
from sfumato.figures.custodian.source import Row, Source, nothing, real, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIVE = ("low", "q1", "median", "q3", "high")
NEEDED = ("data", *_FIVE)
_LOOKS = {"original": ORIGINAL, "released": RELEASED}
_EVEN = 0.5


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
    rows = rows_of(evidence, NEEDED, picture="propensity")
    boxes = {str(row["data"]): _five(row) for row in rows}
    if not set(boxes) <= set(_LOOKS) or len(boxes) < len(rows):
        raise SfumatoError(
            "The picture 'propensity' needs one row for 'original' and one for 'released'.",
            hint="pass the table of the measure 'propensity'.",
        )
    ends = [value for five in boxes.values() for value in five if math.isfinite(value)]
    if not ends:
        raise nothing("propensity")
    details = evidence.details if isinstance(evidence, Evidence) else {}
    even = real(details.get("share_released", _EVEN)) if share is None else share
    with house_style():
        figure, (axes,) = sheet(1.75)
        reach = max(0.001, *(abs(value - even) for value in ends)) * 1.12
        axes.set_xlim(even - reach, even + reach)
        rows_only(axes, len(_LOOKS))
        upright(axes, even)
        axes.text(even, 1.02, "cannot be told apart", transform=axes.get_xaxis_transform(),
                  ha="center", va="bottom", fontsize=SMALL, alpha=0.75)  # fmt: skip
        for at, (name, look) in enumerate(_LOOKS.items()):
            name_row(axes, at, look.name)
            _draw_box(axes, at, boxes.get(name, (math.nan,) * 5), look)
        label_axes(axes, "Propensity score: probability of being a released record", width=60)
        return finish(
            figure,
            "Propensity scores of original and released records",
            "Boxes hold the middle half of the records, lines the middle 90\u00a0%; the mark is "
            f"the median. Near {number(even)} the model cannot tell released records from others.",
            public=public,
        )


def _five(row: Row) -> tuple[float, ...]:
    return tuple(real(row[name]) for name in _FIVE)


def _draw_box(axes: Axes, at: int, five: tuple[float, ...], look: Mark) -> None:
    from matplotlib.patches import Rectangle

    low, first, middle, third, high = five
    if not all(map(math.isfinite, five)):
        axes.text(0.5, at, "no scores", transform=axes.get_yaxis_transform(), ha="center",
                  va="center", fontsize=SMALL)  # fmt: skip
        return
    height = 0.46
    for start, end in ((low, first), (third, high)):
        axes.plot([start, end], [at, at], color=look.colour, linewidth=1.3)
    for end in (low, high):
        axes.plot([end, end], [at - 0.1, at + 0.1], color=look.colour, linewidth=1.3)
    corner = (first, at - height / 2)
    axes.add_patch(Rectangle(corner, third - first, height, color=look.colour, alpha=0.16,
                             linewidth=0))  # fmt: skip
    axes.add_patch(Rectangle(corner, third - first, height, fill=False, edgecolor=look.colour,
                             linewidth=1.3))  # fmt: skip
    axes.plot([middle] * 2, [at - height / 2, at + height / 2], color=look.colour, linewidth=2)
    axes.plot([middle], [at], color=look.colour, marker=look.marker, markersize=6)
