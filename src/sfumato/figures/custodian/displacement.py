"""How far the records moved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import finish, label_axes, sheet, upright
from sfumato.figures._sheet.style import BLUE, INK, SMALL, VERMILION, Mark, house_style
from sfumato.figures._sheet.words import number
from sfumato.figures.custodian.source import nothing, real, records_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST = 3
"""Bins with fewer records are joined with their neighbour: nobody stands alone."""
_PER_DECADE = 4
_FARTHEST = 4
"""Powers of ten to either side of the mark; what lies beyond stands in the last bin."""
_ZERO, _HAIR = 1e-300, 1e-9


@dataclass(frozen=True)
class _Bin:
    """Steps `first` to `last` of a fixed grid about the threshold, and how many records."""

    first: int
    last: int
    count: int


def displacement(
    evidence: Evidence, *, within: float | None = None, public: bool = False
) -> Picture:
    """How far the records moved, as a histogram on a logarithmic scale.

    Question: how many records stayed so near their original that they are hardly protected?
    Assumes: distances in standard deviations of the original. The grid does not depend on the
    data, and bins with fewer than three records are joined.

    Parameters
    ----------
    evidence : of the measure "displacement", with a `distance` per record.
    within : what counts as near. Default: what the evidence says.
    public : the custodian's word that it may be shown outside.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> moved = pl.DataFrame({"distance": [0.001, 0.002, 0.002, 0.1, 0.2, 0.3]})
    >>> found = sf.Evidence(name="displacement", subject="pair", value=0.1, records=moved)
    >>> displacement(found, within=0.01).audience
    'custodian'
    """
    distances = records_of(evidence, "distance", picture="displacement")
    near = real(evidence.details.get("within", 0.01)) if within is None else within
    if not (math.isfinite(near) and near > 0):
        raise SfumatoError(
            "The picture 'displacement' needs a `within` above 0 on its logarithmic scale.",
            hint="pass one, such as within=0.01.",
        )
    if not distances:
        raise nothing("displacement")
    if len(distances) < FEWEST:
        raise SfumatoError(
            f"Fewer than {FEWEST} records: a picture of how far they moved would show each.",
        )
    bins = _joined(_counted(distances, near))
    with house_style():
        figure, (axes,) = sheet(2.7)
        _draw(axes, bins, len(distances), near)
        distance, share = "Distance moved, in standard deviations", "Share of records per bin"
        label_axes(axes, distance, share, width=60)
        return finish(
            figure,
            "How far the records moved",
            "Distances on a logarithmic scale. Bins with fewer than three records are joined and "
            "show their mean height.",
            public=public,
            legend=_legend(distances, near),
        )


def _counted(distances: list[float], near: float) -> list[_Bin]:
    """Records per step of a quarter of a power of ten; the two far ends are open."""
    ends = _FARTHEST * _PER_DECADE
    counts: dict[int, int] = {}
    for one in distances:
        # A distance just at the mark counts as within it.
        step = math.ceil(_PER_DECADE * math.log10(max(one, _ZERO) / near) - _HAIR) - 1
        step = min(max(step, -ends), ends)
        counts[step] = counts.get(step, 0) + 1
    return [_Bin(step, step, counts.get(step, 0)) for step in range(min(counts), max(counts) + 1)]


def _joined(bins: list[_Bin]) -> list[_Bin]:
    """Neighbours joined until none holds one or two; first those on one side of the mark."""
    sides = [[one for one in bins if one.first < 0], [one for one in bins if one.first >= 0]]
    return _join([made for side in sides for made in _join(side)])


def _join(bins: list[_Bin]) -> list[_Bin]:
    made: list[_Bin] = []
    for one in bins:
        if made and _few(made[-1]):
            made[-1] = _Bin(made[-1].first, one.last, made[-1].count + one.count)
        else:
            made.append(one)
    while len(made) > 1 and _few(made[-1]):
        last = made.pop()
        made[-1] = _Bin(made[-1].first, last.last, made[-1].count + last.count)
    return made


def _few(one: _Bin) -> bool:
    return 0 < one.count < FEWEST


def _draw(axes: Axes, bins: list[_Bin], records: int, near: float) -> None:
    from matplotlib.patches import Rectangle

    heights = [one.count / records / (one.last - one.first + 1) for one in bins]
    for one, height in zip(bins, heights, strict=True):
        colour = VERMILION if one.last < 0 else BLUE if one.first >= 0 else INK
        for fill, alpha in ((True, 0.25), (False, 1.0)):
            box = Rectangle((one.first, 0), one.last - one.first + 1, height, fill=fill)
            box.set(facecolor=colour if fill else "none", edgecolor="none" if fill else colour)
            box.set(linewidth=1.1, alpha=alpha)
            axes.add_patch(box)
    low, high = min(bins[0].first, -1), max(bins[-1].last + 1, 1)
    axes.set(xlim=(low - 0.5, high + 0.5), ylim=(0, max(heights) * 1.12))
    upright(axes, 0)
    axes.text(0, 1.02, f"within {number(near)}", transform=axes.get_xaxis_transform(),
              ha="center", va="bottom", fontsize=SMALL)  # fmt: skip
    _name_ticks(axes, near, open_end=bins[0].first == -_FARTHEST * _PER_DECADE)


def _name_ticks(axes: Axes, near: float, *, open_end: bool) -> None:
    """Powers of ten at the axis; at the open end what hardly moved."""
    low, high = (near * 10 ** (end / _PER_DECADE) for end in axes.get_xlim())
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    powers = powers[:: max(1, math.ceil(len(powers) / 8))]
    places = {_PER_DECADE * math.log10(10.0**one / near): number(10.0**one) for one in powers}
    if open_end:
        start = -_FARTHEST * _PER_DECADE
        places = {at: told for at, told in places.items() if at > start + 2}
        places = {start + 0.5: "about 0", **places}
    axes.set_xticks(list(places), list(places.values()))


def _legend(distances: list[float], near: float) -> tuple[Mark, Mark]:
    """How many stayed near and how many did not; never a number that is one or two people."""
    stayed = sum(one <= near for one in distances)
    shares = [
        f"{100 * count / len(distances):.1f} %" if count >= FEWEST else f"fewer than {FEWEST}"
        for count in (stayed, len(distances) - stayed)
    ]
    if f"fewer than {FEWEST}" in shares:
        shares = [one if one.startswith("fewer") else "all others" for one in shares]
    return (
        Mark(f"Within {number(near)}: {shares[0]}", VERMILION, "s", ""),
        Mark(f"Farther: {shares[1]}", BLUE, "D", ""),
    )
