"""What an analyst would have found with the original, and what is found with the release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from sfumato.errors import SfumatoError, did_you_mean
from sfumato.evidence import Evidence
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import (
    beside,
    finish,
    label_axes,
    name_row,
    rows_only,
    sheet,
    upright,
)
from sfumato.figures._sheet.style import FAINT, INK, ORIGINAL, RELEASED, SMALL, Mark, house_style
from sfumato.figures._sheet.words import number
from sfumato.figures.custodian.source import Row, Source, nothing, real, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Scale = Literal["standard_error", "coefficient"]
NEEDED = (
    "term", "original", "original_low", "original_high",
    "released", "released_low", "released_high",
)  # fmt: skip
_ERROR = "original_se"
_INTERCEPTS = {"intercept", "const"}
_MOST = 200
_AXIS = {
    "standard_error": "Coefficient, in standard errors of the original",
    "coefficient": "Coefficient",
}
_COLUMNS = (54, 106)
"""Points from the edge to the end of the numbers beside the panel."""


@dataclass(frozen=True)
class _Estimate:
    value: float
    low: float
    high: float

    def times(self, factor: float) -> _Estimate:
        return _Estimate(self.value * factor, self.low * factor, self.high * factor)

    @property
    def drawn(self) -> bool:
        return all(map(math.isfinite, (self.value, self.low, self.high)))


@dataclass(frozen=True)
class _Line:
    term: str
    original: _Estimate
    released: _Estimate
    error: float
    """The standard error in the original."""

    def scaled(self, scale: Scale) -> _Line:
        """Both estimates by the original's standard error: the gap is the measured difference."""
        if scale == "coefficient":
            return self
        factor = 1 / self.error if self.error > 0 else math.nan
        return replace(
            self, original=self.original.times(factor), released=self.released.times(factor)
        )


def forest(
    evidence: Source,
    *,
    terms: Sequence[str] | None = None,
    intercept: bool = False,
    scale: Scale = "standard_error",
    level: float | None = None,
    public: bool = False,
) -> Picture:
    """Coefficients of one model with their intervals, from the original and from the release.

    Question: would an analyst of the release have come to the same conclusions?
    Assumes: the intervals of both have the same confidence level.

    Parameters
    ----------
    evidence : of the measure "coefficients", or its table.
    terms : which to draw, in this order. Default: all.
    intercept : whether to draw the intercept too.
    scale : "standard_error" divides each term by the original's standard error, so that all of
        them can be read on one axis; "coefficient" draws them as they are.
    level : of the intervals, for the caption. Default: that of the evidence; a table has none.
    public : the custodian's word that the coefficients of the original may be shown.

    Examples
    --------
    >>> row = {"term": "age", "original": 1.0, "original_low": 0.5, "original_high": 1.5,
    ...        "original_se": 0.25, "released": 1.1, "released_low": 0.6, "released_high": 1.6}
    >>> forest([row]).audience
    'custodian'

    References: Avraam, Jones & Burton (2021), Figures 4 and 6.
    """
    needed = NEEDED if scale == "coefficient" else (*NEEDED, _ERROR)
    rows = rows_of(evidence, needed, picture="forest")
    lines = _chosen([_line(row) for row in rows], terms, intercept=intercept)
    drawn = [one.scaled(scale) for one in lines]
    if not any(one.original.drawn or one.released.drawn for one in drawn):
        raise nothing("forest")
    from matplotlib.ticker import MaxNLocator

    with house_style():
        figure, (axes,) = sheet(0.75 + 0.36 * len(lines))
        low, high = _limits(drawn)
        axes.set_xlim(low, high)
        axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
        rows_only(axes, len(lines))
        upright(axes, 0)
        for at, (line, scaled) in enumerate(zip(lines, drawn, strict=True)):
            _draw_line(axes, at, line, scaled)
        _head_columns(axes)
        label_axes(axes, _AXIS[scale], width=60)
        return finish(
            figure,
            "Coefficients from the original and from the release",
            f"Points are estimates, lines their {_intervals(evidence, level)}"
            + (
                "; the numbers beside them are the coefficients." if scale != "coefficient" else "."
            ),
            public=public,
            legend=(ORIGINAL, RELEASED),
        )


def _line(row: Row) -> _Line:
    original, released = (
        _Estimate(*(real(row[name]) for name in (side, f"{side}_low", f"{side}_high")))
        for side in ("original", "released")
    )
    return _Line(str(row["term"]), original, released, real(row.get(_ERROR)))


def _intervals(source: Source, level: float | None) -> str:
    """What the intervals are, as far as it is known."""
    if level is None and isinstance(source, Evidence):
        level = source.details.get("level")
    if level is None:
        return "intervals"
    return f"{100 * level:.10g}\u00a0% intervals"


def _chosen(lines: list[_Line], terms: Sequence[str] | None, *, intercept: bool) -> list[_Line]:
    if terms is not None:
        known = {one.term: one for one in lines}
        for name in terms:
            if name not in known:
                raise SfumatoError(
                    f"The model has no term '{name}'.", hint=did_you_mean(name, known)
                )
        return [known[name] for name in terms]
    kept = [one for one in lines if intercept or not _is_intercept(one.term)]
    if not kept:
        raise SfumatoError(
            "The model has no term besides its intercept.", hint="pass intercept=True."
        )
    if len(kept) > _MOST:
        raise SfumatoError(
            f"The model has {len(kept)} terms; a picture shows {_MOST} at most.",
            hint="name those to draw: terms=[...].",
        )
    return kept


def _is_intercept(term: str) -> bool:
    return term.strip("()").casefold() in _INTERCEPTS


def _limits(lines: list[_Line]) -> tuple[float, float]:
    """Room for zero, all estimates and the original's intervals; for wide ones of the release too.

    A release that ruined one estimate must not press all others together: its interval ends in
    an arrow then.
    """
    ends = [0.0]
    for one in lines:
        if one.original.drawn:
            ends += [one.original.low, one.original.high]
        if one.released.drawn:
            ends.append(one.released.value)
    low, high = min(ends), max(ends)
    span = (high - low) or 1.0
    wide = [
        end for one in lines if one.released.drawn for end in (one.released.low, one.released.high)
    ]
    low = max(min([low, *wide]), low - 0.35 * span)
    high = min(max([high, *wide]), high + 0.35 * span)
    return low - 0.04 * span, high + 0.04 * span


def _draw_line(axes: Axes, at: int, line: _Line, scaled: _Line) -> None:
    if at:
        axes.axhline(at - 0.5, color=INK, alpha=FAINT, linewidth=0.6)
    name_row(axes, at, line.term)
    for one, look, shift in ((scaled.original, ORIGINAL, -0.16), (scaled.released, RELEASED, 0.16)):
        _draw_estimate(axes, at + shift, one, look)
    if not (scaled.original.drawn or scaled.released.drawn):
        axes.text(0.5, at, "no interval", transform=axes.get_yaxis_transform(), ha="center",
                  va="center", fontsize=SMALL, alpha=0.7)  # fmt: skip
    for points, one in zip(_COLUMNS, (line.original, line.released), strict=True):
        told = number(one.value, 3) if math.isfinite(one.value) else "none"
        beside(axes, at, told, points, size=SMALL)


def _head_columns(axes: Axes) -> None:
    for points, text in zip(_COLUMNS, ("Original", "Released"), strict=True):
        beside(axes, -0.75, text, points, size=SMALL)


def _draw_estimate(axes: Axes, y: float, one: _Estimate, look: Mark) -> None:
    if not one.drawn:
        return
    left, right = axes.get_xlim()
    inside = 0.012 * (right - left)
    low, high = max(one.low, left + inside), min(one.high, right - inside)
    axes.plot([low, high], [y, y], color=look.colour, linewidth=1.6, solid_capstyle="butt")
    if left <= one.value <= right:
        axes.plot([one.value], [y], color=look.colour, marker=look.marker, markersize=5)
    for end, cut, arrow in ((low, one.low < left, "<"), (high, one.high > right, ">")):
        if cut:
            axes.plot([end], [y], color=look.colour, marker=arrow, markersize=5, clip_on=False)
