"""What each size of noise brought, and which one was chosen."""

from __future__ import annotations

import math
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import finish, label_axes, plain_numbers, sheet
from sfumato.figures._sheet.style import BLUE, INK, VERMILION, Mark, house_style
from sfumato.figures.custodian.source import nothing, real, rows_of

_NEEDED = ("share", "achieved", "margin")
_TRIED = Mark("Tried, with its margin", BLUE, "o")
_CHOSEN = Mark("Chosen", VERMILION, "*", "")
_ASKED = Mark("Asked for", INK, "", "--")


def calibrated(found: Any, *, public: bool = False) -> Picture:
    """What was reached with each size of noise that was tried.

    Question: how much noise is enough, and what would more or less of it do?
    Assumes: nothing.

    Parameters
    ----------
    found : what `sf.calibrate` returned.
    public : the custodian's word that it may be shown outside. It shows shares of many records.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(200), sf.datasets.cohort_schema())
    >>> found = sf.calibrate(data, ["height", "systolic"], mean_h=2, draws=2)
    >>> calibrated(found).title
    'Noise and how far off an attacker lands'
    """
    if not hasattr(found, "asked") or not hasattr(found, "goal"):
        raise SfumatoError(
            "The picture 'calibrated' needs what `sf.calibrate` returned.",
            hint="found = sf.calibrate(data, mean_h=3); sf.pictures.calibrated(found).",
        )
    rows = [
        (real(row["share"]), real(row["achieved"]), real(row["margin"]))
        for row in rows_of(found.table, _NEEDED, picture="calibrated")
    ]
    rows = sorted(one for one in rows if all(map(math.isfinite, one)))
    if not rows:
        raise nothing("calibrated")
    with house_style():
        figure, (axes,) = sheet(3.1)
        axes.axhline(found.goal, color=INK, linewidth=1.1, linestyle=(0, (4, 3)))
        axes.errorbar(
            [one[0] for one in rows], [one[1] for one in rows], yerr=[one[2] for one in rows],
            color=_TRIED.colour, marker="o", markersize=4.5, linewidth=1.4, capsize=2.5,
        )  # fmt: skip
        if found.met:
            axes.plot([found.share], [found.achieved], color=_CHOSEN.colour, marker="*",
                      markersize=12, linestyle="none", zorder=5)  # fmt: skip
        axes.set_xscale("log")
        _ticks(axes, [one[0] for one in rows])
        axes.set_ylim(bottom=0)
        said = found.asked.split(" at ")[0]
        label_axes(axes, "Variance of the noise, as a share of the variable's",
                   said[0].upper() + said[1:], width=60)  # fmt: skip
        return finish(
            figure,
            "Noise and how far off an attacker lands",
            f"What was asked for: {found.asked}. A point is the worst group at one size of noise, "
            "the mean over several draws; the bar is the margin that chance may take. "
            + ("The star is the least that suffices." if found.met else "None suffices."),
            public=public,
            legend=(_TRIED, _CHOSEN, _ASKED) if found.met else (_TRIED, _ASKED),
        )


def _ticks(axes: Any, shares: list[float]) -> None:
    """Round numbers on a scale of powers, at least two."""
    low, high = min(shares), max(shares)
    some = [base * 10.0**power for power in range(-5, 1) for base in (1, 2, 5)]
    inside = [one for one in some if low * 0.95 <= one <= high * 1.05]
    axes.set_xticks(inside if len(inside) > 1 else sorted({low, high}))
    axes.set_xticks([], minor=True)
    plain_numbers(axes.xaxis)
