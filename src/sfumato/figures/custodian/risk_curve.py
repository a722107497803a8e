"""How the risk depends on how near is called near."""

from __future__ import annotations

import math
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.figures.custodian.source import read_rows, refuse_empty, to_float
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import (
    label_axes,
    make_picture,
    make_sheet,
    name_panel,
    put_legend_below,
)
from sfumato.figures.sheet.style import INK, MOST_MARKS, Mark, pick_mark, use_house_style
from sfumato.figures.sheet.text import format_number

NEEDED = ("w1", "w2", "risk1", "risk2")
_Points = dict[float, float]
_FEWEST = 3
"""Records that a public picture shows at least."""
_ROUNDING = 1e-6


def risk_curve(table: Any, *, records: int | None = None, public: bool = False) -> Picture:
    """The Mahalanobis risks as functions of their two parameters.

    Question: do the conclusions on the risk depend on the choice of w1 and w2?
    Assumes: `risk1` does not depend on `w2`.

    Parameters
    ----------
    table : columns w1, w2, risk1 and risk2, one row per pair of parameters.
    records : how many records the shares are of; needed when public.
    public : the custodian's word that it may be shown outside. It shows shares of all records;
        1 or 2 records at risk are drawn as none.

    Examples
    --------
    >>> rows = [{"w1": w, "w2": 0.05, "risk1": w, "risk2": w / 2} for w in (0.01, 0.02)]
    >>> risk_curve(rows).audience
    'custodian'

    References: Avraam, Jones & Burton (2021), Figure 5.
    """
    rows = read_rows(table, NEEDED, picture="risk_curve")
    if public:
        _require_size(records)
    first: _Points = {}
    second: dict[float, _Points] = {}
    for row in rows:
        w1, w2, risk1, risk2 = (to_float(row[name]) for name in NEEDED)
        if not (math.isfinite(w1) and math.isfinite(w2)):
            raise SfumatoError("The table of 'risk_curve' has a row without w1 or w2.")
        _add_point(first, w1, risk1, "risk1")
        _add_point(second.setdefault(w2, {}), w1, risk2, "risk2")
    lines = [first, *second.values()]
    if not any(math.isfinite(risk) for line in lines for risk in line.values()):
        raise refuse_empty("risk_curve")
    if len(second) > MOST_MARKS:
        raise SfumatoError(
            f"The table has {len(second)} values of w2; {MOST_MARKS} lines at most can be told "
            "apart.",
            hint="keep some of them.",
        )
    if public and records is not None:
        first = _suppress_few(first, records)
        second = {w2: _suppress_few(line, records) for w2, line in second.items()}
    with use_house_style():
        figure, panels = make_sheet(3.1, columns=2)
        values = sorted(second)
        looks = [pick_mark(i, f"w2 = {format_number(value)}") for i, value in enumerate(values)]
        _draw_curve(panels[0], first, Mark("risk1", INK))
        for value, look in zip(values, looks, strict=True):
            _draw_curve(panels[1], second[value], look)
        for axes, letter, name in zip(panels, "AB", ("risk1", "risk2"), strict=True):
            name_panel(axes, letter, name)
            label_axes(axes, "w1", "Share of records at risk")
            axes.set_ylim(bottom=0)
        put_legend_below(panels[1], looks, 2.8)
        return make_picture(
            figure,
            "Records at risk, by how near is called near",
            "risk1 counts the released records that lie near their original (within w1); risk2 "
            "counts those of them that have no other released record near (within w2)."
            + (f" Fewer than {_FEWEST} records are drawn as none." if public else ""),
            public=public,
        )


def _require_size(records: int | None) -> None:
    if not isinstance(records, int) or isinstance(records, bool) or records < 1:
        raise SfumatoError(
            "A public 'risk_curve' must hide 1 or 2 records at risk, and shares alone do not "
            "tell them.",
            hint="say how many records there are: risk_curve(table, records=..., public=True).",
        )


def _suppress_few(line: _Points, records: int) -> _Points:
    """0 where fewer records than may be shown are at risk."""
    return {x: 0.0 if y * records < _FEWEST - _ROUNDING else y for x, y in line.items()}


def _add_point(line: _Points, x: float, y: float, name: str) -> None:
    if line.setdefault(x, y) != y and math.isfinite(y):
        raise SfumatoError(
            f"The table of 'risk_curve' holds different values of {name} for one w1.",
            hint="one row per pair of w1 and w2; risk1 depends on w1 alone.",
        )


def _draw_curve(axes: Any, line: _Points, look: Mark) -> None:
    xs = sorted(line)
    axes.plot(xs, [line[x] for x in xs], color=look.colour, marker=look.marker, markersize=4,
              linewidth=1.4, clip_on=False)  # fmt: skip
