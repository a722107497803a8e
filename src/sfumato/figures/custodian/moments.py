"""Means, spreads and correlations before and after."""

from __future__ import annotations

import math
from dataclasses import replace

from sfumato.errors import SfumatoError, did_you_mean
from sfumato.figures.custodian.source import Source, read_rows, refuse_empty, to_float
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import label_axes, make_picture, make_sheet, name_row, set_rows
from sfumato.figures.sheet.style import FAINT, INK, ORIGINAL, RELEASED, use_house_style
from sfumato.figures.sheet.text import clean_name

NEEDED = ("statistic", "variable", "original", "released")
_MOST_ROWS = 200


def moments(evidence: Source, *, statistic: str = "correlation", public: bool = False) -> Picture:
    """One statistic of each variable, or of each pair of variables, before and after.

    Question: are the moments of the data what they were?
    Assumes: nothing.

    Parameters
    ----------
    evidence : of the measure "moments", or its table.
    statistic : which of its statistics to draw.
    public : the custodian's word that the statistics of the original may be shown. Refused for
        quantiles: each is the value of a record.

    Examples
    --------
    >>> row = {"statistic": "correlation", "variable": "age × fare", "original": 0.1}
    >>> moments([{**row, "released": 0.12}]).title
    'Correlation in the original and in the release'
    """
    if public and statistic.startswith("quantile"):
        raise SfumatoError(
            "A quantile of the original is somebody's value; the picture cannot be public.",
            hint='show "mean", "sd" or "correlation" outside.',
        )
    table = read_rows(evidence, NEEDED, picture="moments")
    rows = [row for row in table if row["statistic"] == statistic]
    if not rows:
        known = {str(row["statistic"]) for row in table}
        raise SfumatoError(
            f"The table has no statistic '{statistic}'.", hint=did_you_mean(statistic, known)
        )
    if len(rows) > _MOST_ROWS:
        raise SfumatoError(f"The table has {len(rows)} rows; a picture shows {_MOST_ROWS} at most.")
    pairs = [(to_float(row["original"]), to_float(row["released"])) for row in rows]
    ends = [value for pair in pairs for value in pair if math.isfinite(value)]
    if not ends:
        raise refuse_empty("moments")
    name = clean_name(statistic).capitalize()
    with use_house_style():
        figure, (axes,) = make_sheet(0.7 + 0.28 * len(rows))
        pad = 0.06 * ((max(ends) - min(ends)) or 1.0)
        limits = (-1.05, 1.05) if statistic == "correlation" else (min(ends) - pad, max(ends) + pad)
        axes.set_xlim(*limits)
        set_rows(axes, len(rows))
        for index, (row, (before, after)) in enumerate(zip(rows, pairs, strict=True)):
            axes.axhline(index, color=INK, alpha=FAINT, linewidth=0.6)
            name_row(axes, index, row["variable"])
            axes.plot([before, after], [index, index], color=INK, linewidth=1.0, alpha=0.6)
            axes.plot([before], [index], color=INK, marker="o", markersize=6.5, fillstyle="none")
            axes.plot([after], [index], color=RELEASED.colour, marker="D", markersize=3.6)
        label_axes(axes, name)
        return make_picture(
            figure,
            f"{name} in the original and in the release",
            "Circles are the original, diamonds the release.",
            public=public,
            legend=(replace(ORIGINAL, line="", hollow=True), replace(RELEASED, line="")),
        )
