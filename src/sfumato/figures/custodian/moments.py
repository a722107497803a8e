"""Means, spreads and correlations before and after."""

from __future__ import annotations

import math
from dataclasses import replace

from sfumato.errors import SfumatoError, did_you_mean
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import finish, label_axes, name_row, rows_only, sheet
from sfumato.figures._sheet.style import FAINT, INK, ORIGINAL, RELEASED, house_style
from sfumato.figures._sheet.words import clean
from sfumato.figures.custodian.source import Source, nothing, real, rows_of

NEEDED = ("statistic", "variable", "original", "released")
_MOST = 200


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
    rows = rows_of(evidence, NEEDED, picture="moments")
    kept = [row for row in rows if row["statistic"] == statistic]
    if not kept:
        known = {str(row["statistic"]) for row in rows}
        raise SfumatoError(
            f"The table has no statistic '{statistic}'.", hint=did_you_mean(statistic, known)
        )
    if len(kept) > _MOST:
        raise SfumatoError(f"The table has {len(kept)} rows; a picture shows {_MOST} at most.")
    pairs = [(row["variable"], real(row["original"]), real(row["released"])) for row in kept]
    ends = [value for _, *both in pairs for value in both if math.isfinite(value)]
    if not ends:
        raise nothing("moments")
    with house_style():
        figure, (axes,) = sheet(0.7 + 0.28 * len(pairs))
        pad = 0.06 * ((max(ends) - min(ends)) or 1.0)
        limits = (-1.05, 1.05) if statistic == "correlation" else (min(ends) - pad, max(ends) + pad)
        axes.set(
            xlim=limits,
        )
        rows_only(axes, len(pairs))
        for at, (name, before, after) in enumerate(pairs):
            axes.axhline(at, color=INK, alpha=FAINT, linewidth=0.6)
            name_row(axes, at, name)
            axes.plot([before, after], [at, at], color=INK, linewidth=1.0, alpha=0.6)
            axes.plot([before], [at], color=INK, marker="o", markersize=6.5, fillstyle="none")
            axes.plot([after], [at], color=RELEASED.colour, marker="D", markersize=3.6)
        label_axes(axes, clean(statistic).capitalize())
        return finish(
            figure,
            f"{clean(statistic).capitalize()} in the original and in the release",
            "Circles are the original, diamonds the release.",
            public=public,
            legend=(replace(ORIGINAL, line="", hollow=True), replace(RELEASED, line="")),
        )
