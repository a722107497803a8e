"""Coefficients of one model, estimated twice: from original and release, or corrected and naive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sfumato.errors import SfumatoError, did_you_mean
from sfumato.evidence import Evidence
from sfumato.figures.custodian.source import Row, Source, read_rows, refuse_empty, to_float
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import (
    draw_reference_line,
    label_axes,
    make_picture,
    make_sheet,
    name_row,
    set_rows,
    write_beside,
)
from sfumato.figures.sheet.style import (
    BLUE,
    FAINT,
    INK,
    ORIGINAL,
    RELEASED,
    SMALL,
    VERMILION,
    Mark,
    use_house_style,
)
from sfumato.figures.sheet.text import format_intervals, format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Scale = Literal["standard_error", "coefficient"]
NEEDED = (
    "term", "original", "original_low", "original_high",
    "released", "released_low", "released_high",
)  # fmt: skip
_ERROR = "original_se"
_CORRECTED_COLUMNS = ("term", "mean", "low", "high", "naive", "naive_low", "naive_high")
_INTERCEPTS = {"intercept", "const"}
_MOST_TERMS = 200
_AXIS = {
    "standard_error": "Coefficient, in standard errors of the original",
    "coefficient": "Coefficient",
}
_COLUMNS = (54, 106)
"""Points from the edge to the end of the numbers beside the panel."""
_SHIFTS = (-0.16, 0.16)
_CORRECTED = Mark("Noise taken out", BLUE, "o")
_NAIVE = Mark("Naive", VERMILION, "D", hollow=True)


@dataclass(frozen=True)
class _Estimate:
    value: float
    low: float
    high: float

    @property
    def is_complete(self) -> bool:
        return all(map(math.isfinite, (self.value, self.low, self.high)))

    def blank_unless_complete(self) -> _Estimate:
        return self if self.is_complete else _Estimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class _Term:
    """A coefficient estimated twice; `unit` scales both, so that all terms share one axis."""

    name: str
    first: _Estimate
    second: _Estimate
    unit: float = 1.0

    def scale(self) -> tuple[_Estimate, _Estimate]:
        """Both estimates in the term's unit: the gap between them is the measured difference."""
        factor = 1 / self.unit if self.unit > 0 else math.nan
        first, second = (
            _Estimate(item.value * factor, item.low * factor, item.high * factor)
            for item in (self.first, self.second)
        )
        return first, second


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
    rows = read_rows(evidence, needed, picture="forest")
    lines = [
        _Term(
            str(row["term"]),
            _read_estimate(row, ("original", "original_low", "original_high")),
            _read_estimate(row, ("released", "released_low", "released_high")),
            1.0 if scale == "coefficient" else to_float(row[_ERROR]),
        )
        for row in rows
    ]
    lines = _choose_terms(lines, terms, intercept=intercept)
    drawn = [line.scale() for line in lines]
    if not any(estimate.is_complete for pair in drawn for estimate in pair):
        raise refuse_empty("forest")
    # An estimate without an interval is not drawn: the row says so.
    pairs = [(first.blank_unless_complete(), second.blank_unless_complete())
             for first, second in drawn]  # fmt: skip
    if level is None and isinstance(evidence, Evidence):
        level = evidence.details.get("level")
    beside = "." if scale == "coefficient" else "; the numbers beside them are the coefficients."
    with use_house_style():
        figure = _draw_forest(lines, pairs, (ORIGINAL, RELEASED), _find_limits(pairs), _AXIS[scale])
        return make_picture(
            figure,
            "Coefficients from the original and from the release",
            f"Points are estimates, lines their {format_intervals(level)}{beside}",
            public=public,
            legend=(ORIGINAL, RELEASED),
        )


def draw_corrected_forest(rows: Any, *, level: float | None = None) -> Picture:
    """Coefficients of a model of noised data with their intervals, beside the naive ones.

    Question: what did the noise do to the model, and what is left when it is taken out?
    Assumes: nothing. All coefficients are drawn on one axis, in half-widths of their intervals.

    Parameters
    ----------
    rows : a row per term: term, mean, low, high, naive, naive_low, naive_high.
    level : of the intervals, for the caption.

    Examples
    --------
    >>> row = {"term": "x", "mean": 1.0, "low": 0.8, "high": 1.2, "naive": 0.7,
    ...        "naive_low": 0.6, "naive_high": 0.8}
    >>> draw_corrected_forest([row]).audience
    'public'
    """
    found = read_rows(rows, _CORRECTED_COLUMNS, picture="adjusted")
    _require_few(len(found))
    lines = []
    for row in found:
        corrected = _read_estimate(row, ("mean", "low", "high"))
        naive = _read_estimate(row, ("naive", "naive_low", "naive_high"))
        lines.append(
            _Term(str(row["term"]), corrected, naive, (corrected.high - corrected.low) / 2)
        )
    pairs = [line.scale() for line in lines]
    if not any(math.isfinite(corrected.value) for corrected, _ in pairs):
        raise refuse_empty("adjusted")
    ends = [0.0]
    for estimate in (estimate for pair in pairs for estimate in pair):
        numbers = (estimate.value, estimate.low, estimate.high)
        ends += [number for number in numbers if math.isfinite(number)]
    pad = 0.04 * (max(ends) - min(ends) or 1.0)
    with use_house_style():
        figure = _draw_forest(
            lines, pairs, (_CORRECTED, _NAIVE), (min(ends) - pad, max(ends) + pad),
            "Coefficient, in half-widths of its corrected interval", heads=("Corrected", "Naive"),
        )  # fmt: skip
        return make_picture(
            figure,
            "Coefficients with the noise taken out, and naive",
            f"Points are estimates, lines their {format_intervals(level)}; the numbers beside them "
            "are the coefficients.",
            public=True,
            legend=(_CORRECTED, _NAIVE),
        )


def _read_estimate(row: Row, names: tuple[str, str, str]) -> _Estimate:
    return _Estimate(*(to_float(row[name]) for name in names))


def _require_few(terms: int) -> None:
    if terms > _MOST_TERMS:
        raise SfumatoError(
            f"The model has {terms} terms; a picture shows {_MOST_TERMS} at most.",
            hint="name those to draw: terms=[...].",
        )


def _choose_terms(
    lines: list[_Term], terms: Sequence[str] | None, *, intercept: bool
) -> list[_Term]:
    if terms is not None:
        known = {line.name: line for line in lines}
        for name in terms:
            if name not in known:
                raise SfumatoError(
                    f"The model has no term '{name}'.", hint=did_you_mean(name, known)
                )
        return [known[name] for name in terms]
    chosen = [line for line in lines if intercept or not _is_intercept(line.name)]
    if not chosen:
        raise SfumatoError(
            "The model has no term besides its intercept.", hint="pass intercept=True."
        )
    _require_few(len(chosen))
    return chosen


def _is_intercept(term: str) -> bool:
    return term.strip("()").casefold() in _INTERCEPTS


def _find_limits(drawn: Sequence[tuple[_Estimate, _Estimate]]) -> tuple[float, float]:
    """Room for zero, all estimates and the original's intervals; for wide ones of the release too.

    A release that ruined one estimate must not press all others together: its interval ends in
    an arrow then.
    """
    ends, wide = [0.0], []
    for original, released in drawn:
        if original.is_complete:
            ends += [original.low, original.high]
        if released.is_complete:
            ends.append(released.value)
            wide += [released.low, released.high]
    low, high = min(ends), max(ends)
    span = (high - low) or 1.0
    low = max(min([low, *wide]), low - 0.35 * span)
    high = min(max([high, *wide]), high + 0.35 * span)
    return low - 0.04 * span, high + 0.04 * span


# Drawing -----------------------------------------------------------------------------------------


def _draw_forest(
    lines: Sequence[_Term],
    pairs: Sequence[tuple[_Estimate, _Estimate]],
    looks: tuple[Mark, Mark],
    limits: tuple[float, float],
    label: str,
    heads: tuple[str, str] | None = None,
) -> Figure:
    """A row for each term: both estimates with their intervals, and the numbers beside them."""
    from matplotlib.ticker import MaxNLocator

    figure, (axes,) = make_sheet(0.75 + 0.36 * len(lines))
    axes.set_xlim(*limits)
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    set_rows(axes, len(lines))
    draw_reference_line(axes, 0)
    for row, (line, pair) in enumerate(zip(lines, pairs, strict=True)):
        if row:
            axes.axhline(row - 0.5, color=INK, alpha=FAINT, linewidth=0.6)
        name_row(axes, row, line.name)
        for estimate, look, shift in zip(pair, looks, _SHIFTS, strict=True):
            _draw_estimate(axes, row + shift, estimate, look)
        if not any(math.isfinite(estimate.value) for estimate in pair):
            axes.text(0.5, row, "no interval", transform=axes.get_yaxis_transform(), ha="center",
                      va="center", fontsize=SMALL, alpha=0.7)  # fmt: skip
        for points, estimate in zip(_COLUMNS, (line.first, line.second), strict=True):
            known = math.isfinite(estimate.value)
            text = format_number(estimate.value, 3) if known else "none"
            write_beside(axes, row, text, points, size=SMALL)
    for points, text in zip(_COLUMNS, heads or [look.name for look in looks], strict=True):
        write_beside(axes, -0.75, text, points, size=SMALL)
    label_axes(axes, label, width=60)
    return figure


def _draw_estimate(axes: Axes, y: float, estimate: _Estimate, look: Mark) -> None:
    start, end = axes.get_xlim()
    if math.isfinite(estimate.low) and math.isfinite(estimate.high):
        inset = 0.012 * (end - start)
        low, high = max(estimate.low, start + inset), min(estimate.high, end - inset)
        axes.plot([low, high], [y, y], color=look.colour, linewidth=1.6, solid_capstyle="butt")
        cuts = ((low, estimate.low < start, "<"), (high, estimate.high > end, ">"))
        for position, is_cut, arrow in cuts:
            if is_cut:
                axes.plot([position], [y], color=look.colour, marker=arrow, markersize=5,
                          clip_on=False)  # fmt: skip
    if start <= estimate.value <= end:
        axes.plot([estimate.value], [y], color=look.colour, marker=look.marker, markersize=5,
                  fillstyle="none" if look.hollow else "full")  # fmt: skip
