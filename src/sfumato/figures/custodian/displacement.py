"""How far the records moved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence
from sfumato.figures.custodian.source import read_records, refuse_empty, to_float
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import draw_reference_line, label_axes, make_picture, make_sheet
from sfumato.figures.sheet.style import BLUE, INK, SMALL, VERMILION, Mark, use_house_style
from sfumato.figures.sheet.text import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST = 3
"""Bins with fewer records are joined with their neighbour: nobody stands alone."""
_PER_DECADE = 4
_FARTHEST = 4
"""Powers of ten to either side of the threshold; what lies beyond stands in the last bin."""
_ZERO, _TOLERANCE = 1e-300, 1e-9


@dataclass(frozen=True)
class _Bin:
    """Steps `first` to `last` of a fixed grid about the threshold, and how many records."""

    first: int
    last: int
    count: int

    @property
    def is_small(self) -> bool:
        return 0 < self.count < FEWEST

    def join(self, following: _Bin) -> _Bin:
        return _Bin(self.first, following.last, self.count + following.count)


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
    distances = read_records(evidence, "distance", picture="displacement")
    threshold = to_float(evidence.details.get("within", 0.01)) if within is None else within
    if not (math.isfinite(threshold) and threshold > 0):
        raise SfumatoError(
            "The picture 'displacement' needs a `within` above 0 on its logarithmic scale.",
            hint="pass one, such as within=0.01.",
        )
    if not distances:
        raise refuse_empty("displacement")
    if len(distances) < FEWEST:
        raise SfumatoError(
            f"Fewer than {FEWEST} records: a picture of how far they moved would show each.",
        )
    bins = _merge_small_bins(_count_steps(distances, threshold))
    with use_house_style():
        figure, (axes,) = make_sheet(2.7)
        _draw_bins(axes, bins, len(distances), threshold)
        distance, share = "Distance moved, in standard deviations", "Share of records per bin"
        label_axes(axes, distance, share, width=60)
        return make_picture(
            figure,
            "How far the records moved",
            "Distances on a logarithmic scale. Bins with fewer than three records are joined and "
            "show their mean height.",
            public=public,
            legend=_make_legend(distances, threshold),
        )


def _count_steps(distances: list[float], threshold: float) -> list[_Bin]:
    """Records per step of a quarter of a power of ten; the two far ends are open."""
    ends = _FARTHEST * _PER_DECADE
    counts: dict[int, int] = {}
    for distance in distances:
        # A distance just at the threshold counts as within it.
        step = _PER_DECADE * math.log10(max(distance, _ZERO) / threshold)
        index = min(max(math.ceil(step - _TOLERANCE) - 1, -ends), ends)
        counts[index] = counts.get(index, 0) + 1
    return [_Bin(step, step, counts.get(step, 0)) for step in range(min(counts), max(counts) + 1)]


def _merge_small_bins(bins: list[_Bin]) -> list[_Bin]:
    """Neighbours joined until none holds one or two; first those on one side of the threshold."""
    near = [item for item in bins if item.first < 0]
    far = [item for item in bins if item.first >= 0]
    return _merge_neighbours([*_merge_neighbours(near), *_merge_neighbours(far)])


def _merge_neighbours(bins: list[_Bin]) -> list[_Bin]:
    merged: list[_Bin] = []
    for item in bins:
        if merged and merged[-1].is_small:
            merged[-1] = merged[-1].join(item)
        else:
            merged.append(item)
    while len(merged) > 1 and merged[-1].is_small:
        last = merged.pop()
        merged[-1] = merged[-1].join(last)
    return merged


def _draw_bins(axes: Axes, bins: list[_Bin], records: int, threshold: float) -> None:
    from matplotlib.patches import Rectangle

    heights = [item.count / records / (item.last - item.first + 1) for item in bins]
    for item, height in zip(bins, heights, strict=True):
        colour = VERMILION if item.last < 0 else BLUE if item.first >= 0 else INK
        for fill, alpha in ((True, 0.25), (False, 1.0)):
            box = Rectangle((item.first, 0), item.last - item.first + 1, height, fill=fill)
            box.set(facecolor=colour if fill else "none", edgecolor="none" if fill else colour)
            box.set(linewidth=1.1, alpha=alpha)
            axes.add_patch(box)
    low, high = min(bins[0].first, -1), max(bins[-1].last + 1, 1)
    axes.set(xlim=(low - 0.5, high + 0.5), ylim=(0, max(heights) * 1.12))
    draw_reference_line(axes, 0)
    axes.text(0, 1.02, f"within {format_number(threshold)}",
              transform=axes.get_xaxis_transform(), ha="center", va="bottom",
              fontsize=SMALL)  # fmt: skip
    _name_ticks(axes, threshold, open_end=bins[0].first == -_FARTHEST * _PER_DECADE)


def _name_ticks(axes: Axes, threshold: float, *, open_end: bool) -> None:
    """Powers of ten at the axis; at the open end what hardly moved."""
    low, high = (threshold * 10 ** (end / _PER_DECADE) for end in axes.get_xlim())
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    powers = powers[:: max(1, math.ceil(len(powers) / 8))]
    ticks = {
        _PER_DECADE * math.log10(10.0**power / threshold): format_number(10.0**power)
        for power in powers
    }
    if open_end:
        start = -_FARTHEST * _PER_DECADE
        ticks = {position: text for position, text in ticks.items() if position > start + 2}
        ticks = {start + 0.5: "about 0", **ticks}
    axes.set_xticks(list(ticks), list(ticks.values()))


def _make_legend(distances: list[float], threshold: float) -> tuple[Mark, Mark]:
    """How many stayed near and how many did not; never a number that is one or two people."""
    stayed = sum(distance <= threshold for distance in distances)
    few = f"fewer than {FEWEST}"
    shares = [
        f"{100 * count / len(distances):.1f} %" if count >= FEWEST else few
        for count in (stayed, len(distances) - stayed)
    ]
    if few in shares:
        shares = [share if share == few else "all others" for share in shares]
    return (
        Mark(f"Within {format_number(threshold)}: {shares[0]}", VERMILION, "s", ""),
        Mark(f"Farther: {shares[1]}", BLUE, "D", ""),
    )
