"""What two parameters do together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import finish, label_axes, sheet
from sfumato.figures._sheet.style import INK, SMALL, Mark, house_style
from sfumato.figures._sheet.words import number, shown, width_of, write
from sfumato.figures.custodian.columns import rows_with
from sfumato.figures.custodian.source import Row, nothing, real

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ACROSS, _UP = 12, 24
_ROOM = 5.3
"""Inches for all columns of cells."""
_RAMP = ((238, 244, 248), (158, 202, 225), (0, 114, 178), (0, 46, 84))
"""From little to much: lighter to darker in print and for every eye."""
_DARK, _LIGHT = "#101418", "#fcfcfc"
"""Numbers in cells keep their colour on dark pages: the cell below them keeps its own."""
_BRIGHT = 0.19
_STEPS = 5
_NOT_SET = "not set"
Cells = dict[tuple[Any, Any], float]


def surface(
    table: Any,
    x: str,
    y: str,
    value: str,
    *,
    limits: tuple[float, float] | None = None,
    public: bool = False,
) -> Picture:
    """A measured number over two parameters that vary independently, as a map of cells.

    Question: which of two resolutions protects, and which costs?
    Assumes: rows with the same `x` and `y` are repeated runs, of which the mean is drawn.

    Parameters
    ----------
    table : one row per run, as `sf.sweep` gives it over two parameters.
    x, y : the columns of the two parameters. Numbers stand in their order, others as they come.
    value : the column of the number to draw.
    limits : the ends of the scale of shades. Default: the lowest and the highest number. Give the
        same ends to two pictures that are to be compared.
    public : the custodian's word that it may be shown outside. It shows numbers of whole data
        sets.

    Examples
    --------
    >>> runs = [{"a": a, "b": b, "risk": a * b / 64} for a in (2, 8) for b in (2, 8)]
    >>> surface(runs, "a", "b", "risk").title
    'risk by a and b'

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Figs. S5 and S6.
    """
    rows = rows_with(table, [x, y, value], picture="surface")
    if x == y:
        raise SfumatoError("The picture 'surface' needs two different parameters.")
    columns, lines = _places(rows, x), _places(rows, y)
    if len(columns) > _ACROSS or len(lines) > _UP:
        raise SfumatoError(
            f"The picture 'surface' shows at most {_ACROSS} values of '{x}' and {_UP} of '{y}'; "
            f"there are {len(columns)} and {len(lines)}.",
            hint="keep some of them.",
        )
    cells = _means(rows, x, y, value)
    known = [one for one in cells.values() if math.isfinite(one)]
    if not known:
        raise nothing("surface")
    low, high = _ends(known, limits)
    with house_style():
        figure, (axes,) = sheet(0.75 + max(1.2, 0.34 * len(lines)))
        _draw(axes, columns, lines, cells, (low, high))
        label_axes(axes, x, y)
        return finish(
            figure,
            f"{_brief(value)} by {_brief(x)} and {_brief(y)}",
            _caption(rows, cells, len(columns) * len(lines)),
            public=public,
            legend=_key(low, high),
        )


def _brief(name: str) -> str:
    return shown(name, width=30, lines=1)


def _places(rows: Sequence[Row], name: str) -> list[Any]:
    """The values of a parameter: numbers in their order, others as they come, "not set" last."""
    found = list(dict.fromkeys(row[name] for row in rows))
    told = [one for one in found if one is not None]
    if all(math.isfinite(real(one)) and not isinstance(one, bool) for one in told):
        told.sort(key=real)
    return [*told, *([None] if None in found else [])]


def _means(rows: Sequence[Row], x: str, y: str, value: str) -> Cells:
    runs: dict[tuple[Any, Any], list[float]] = {}
    for row in rows:
        held = runs.setdefault((row[x], row[y]), [])
        one = real(row[value])
        held += [one] if math.isfinite(one) else []
    return {at: math.fsum(held) / len(held) if held else math.nan for at, held in runs.items()}


def _ends(known: Sequence[float], limits: tuple[float, float] | None) -> tuple[float, float]:
    if limits is None:
        return min(known), max(known)
    low, high = (real(end) for end in limits)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise SfumatoError("The limits of 'surface' must be two numbers, the lower first.")
    if min(known) < low or max(known) > high:
        raise SfumatoError(
            "Some number of 'surface' lies outside the limits.", hint="give wider limits."
        )
    return low, high


def _draw(
    axes: Axes, columns: list[Any], lines: list[Any], cells: Cells, ends: tuple[float, float]
) -> None:
    from matplotlib.patches import Rectangle

    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    axes.set(xlim=(0, len(columns)), ylim=(0, len(lines)))
    wide = _ROOM / len(columns)
    texts = {at: number(one, 3) for at, one in cells.items() if math.isfinite(one)}
    size = _fitting([*texts.values()], wide - 0.08)
    for i, column in enumerate(columns):
        for j, line in enumerate(lines):
            at = (column, line)
            shade = _shade(cells.get(at, math.nan), *ends)
            box = Rectangle((i + 0.02, j + 0.03), 0.96, 0.94, linewidth=0.8)
            box.set(facecolor=_hex(shade) if shade else "none")
            box.set(edgecolor="none" if shade else INK, alpha=1.0 if shade else 0.4)
            axes.add_patch(box)
            ink = (_DARK if _brightness(shade) > _BRIGHT else _LIGHT) if shade else INK
            text = axes.text(i + 0.5, j + 0.5, "", ha="center", va="center_baseline", color=ink)
            text.set_fontsize(size)
            write(text, texts.get(at, "none"))
    letters = max(4, int(wide / 0.085))
    _name(axes, "x", [i + 0.5 for i in range(len(columns))], columns, letters)
    _name(axes, "y", [j + 0.5 for j in range(len(lines))], lines, 14)


def _name(axes: Axes, side: str, spots: list[float], values: list[Any], letters: int) -> None:
    """The values at an axis; each text is written as it is."""
    from matplotlib.ticker import FixedFormatter

    names = [shown(_said(one), width=letters, lines=2 if side == "x" else 1) for one in values]
    axis = axes.xaxis if side == "x" else axes.yaxis
    axis.set_ticks(spots)
    labels = axis.get_ticklabels()
    drawn = [write(label, name).get_text() for label, name in zip(labels, names, strict=True)]
    # A tick asks its formatter again whenever it is drawn.
    axis.set_major_formatter(FixedFormatter(drawn))


def _said(value: Any) -> str:
    if value is None:
        return _NOT_SET
    numeric = math.isfinite(real(value)) and not isinstance(value, bool)
    return number(real(value)) if numeric else str(value)


def _fitting(texts: Sequence[str], room: float) -> float:
    """The largest size at which every number fits into its cell."""
    widest = max((width_of(one, SMALL) for one in texts), default=room)
    return SMALL * min(1.0, room / widest)


def _shade(value: float, low: float, high: float) -> tuple[float, float, float] | None:
    """The colour of a number between two ends, from light to dark."""
    if not math.isfinite(value):
        return None
    share = (value - low) / (high - low) if high > low else 0.0
    place = min(max(share, 0.0), 1.0) * (len(_RAMP) - 1)
    step = min(int(place), len(_RAMP) - 2)
    one, other = _RAMP[step], _RAMP[step + 1]
    red, green, blue = (
        (a + (b - a) * (place - step)) / 255 for a, b in zip(one, other, strict=True)
    )
    return red, green, blue


def _hex(shade: tuple[float, float, float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in shade)


def _brightness(shade: tuple[float, float, float]) -> float:
    """Relative luminance: where it is high, dark letters are read better."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4  # noqa: PLR2004 - sRGB
        for part in shade
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _key(low: float, high: float) -> tuple[Mark, ...]:
    """Some shades with their numbers."""
    if low == high:
        return ()
    values = [low + (high - low) * step / (_STEPS - 1) for step in range(_STEPS)]
    shades = [_shade(one, low, high) for one in values]
    return tuple(
        Mark(number(one, 3), _hex(shade), "s", "")
        for one, shade in zip(values, shades, strict=True)
        if shade
    )


def _caption(rows: Sequence[Row], cells: Cells, places: int) -> str:
    several = " Numbers are means over repeated runs." if len(rows) > len(cells) else ""
    gone = places - sum(math.isfinite(one) for one in cells.values())
    lost = f" {gone} of {places} cells have no number." if gone else ""
    return f"Darker cells have higher numbers.{several}{lost}"
