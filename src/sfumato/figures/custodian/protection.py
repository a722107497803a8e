"""Who is protected in which variable: a map of variables by people, without anybody's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import finish, label_axes, name_row, refuse_public, sheet
from sfumato.figures._sheet.style import SMALL, Mark, house_style
from sfumato.figures._sheet.words import number, write
from sfumato.figures.custodian.blocks import (
    CLUSTERED,
    Column,
    alike_together,
    at_or_below,
    columns_of,
)
from sfumato.figures.custodian.source import nothing, real
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Palette = Literal["red", "safe"]
COLUMNS = 400
_ROWS = 40
_RAMPS = {
    "red": ("#7a0010", ("#fdae61", "#fede89", "#ffffbf", "#d3ec87", "#9bd469", "#5ab760")),
    "safe": ("#00204c", ("#8e8a79", "#a59c74", "#bcaf6f", "#d3c164", "#ead357", "#fee838")),
}
"""At or below p, then from little to much. The first is far darker than all others, so that print
and every eye tell it apart; "safe" keeps growing lighter all the way, in blue and yellow only."""
Box = tuple[float, float, float, float]


def protection(
    source: Any, *, p: float = 0.0, palette: Palette = "red", public: bool = False
) -> Picture:
    """How well each person is protected in each variable, people who are alike beside each other.

    Question: who is in danger, in which variables, and are these the same people?
    Assumes: the numbers are shares of protective peers. The order of people is that of a
    hierarchical clustering.

    Parameters
    ----------
    source : evidence of the measure "peers", or a frame with a column per variable and a row per
        person.
    p : the share of protective peers that is still a breach; it has a colour of its own.
    palette : "red" (dark red below a ramp from orange to green), or "safe" for colour-blind eyes.
    public : refused. The picture shows single records of the original.

    Examples
    --------
    >>> import polars as pl
    >>> protection(pl.DataFrame({"salary": [0.0, 0.5], "illness": [0.2, 0.4]})).audience
    'custodian'

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2),
    Fig. 2.
    """
    refuse_public("protection", public=public)
    names, values = numbers_of(source, "protection", sampled=isinstance(source, Evidence))
    return heat_map(
        names,
        values,
        p=p,
        palette=palette,
        title="Protection of each person by variable",
        subject="share of protective peers",
        rows="Rows are variables taken as sensitive, those that breach most people first.",
    )


def numbers_of(source: Any, picture: str, *, sampled: bool = False) -> tuple[list[str], Floats]:
    """The names of the variables, and people x variables; nothing may be missing.

    Only of a sample of people those who were not drawn have no number at all: they are left out.
    """
    if isinstance(source, Evidence):
        if source.records is None:
            raise SfumatoError(
                f"The picture '{picture}' needs evidence with a row per record.",
                hint="measure it again: what was read from a public file has no records.",
            )
        source = source.records
    names, columns = _columns(source)
    if not names or not len(columns[0]):
        raise nothing(picture)
    values = np.column_stack(columns)
    if sampled:
        values = values[~np.isnan(values).all(axis=1)]
        if not len(values):
            raise nothing(picture)
    if not (np.isfinite(values).all() and (values >= 0).all() and (values <= 1).all()):
        raise SfumatoError(
            f"The picture '{picture}' needs shares from 0 to 1, and some cells are none.",
            hint="leave out variables that have only one value.",
        )
    return names, values


def _columns(source: Any) -> tuple[list[str], list[Floats]]:
    """Columns of numbers by name; what is no number is NaN."""
    if isinstance(source, Sequence) and all(isinstance(one, Mapping) for one in source):
        names = list(source[0]) if source else []
        return names, [np.array([real(row.get(name)) for row in source]) for name in names]
    from sfumato.io.frames import column, wrap

    names = list(wrap(source).columns)
    found = [column(source, name) for name in names]
    return names, [
        (one.cast(float).to_numpy() if one.dtype.is_numeric() else np.full(len(one), np.nan))
        for one in found
    ]


def heat_map(  # noqa: PLR0913 - all but two by name only
    names: Sequence[str],
    values: Floats,
    *,
    p: float,
    palette: Palette,
    title: str,
    subject: str,
    rows: str,
    worst_first: bool = True,
) -> Picture:
    """The map itself, with a bar in each cell where a column stands for several people."""
    if palette not in _RAMPS:
        raise SfumatoError('The palette is "red" or "safe".')
    if not 0 <= p < 1:
        raise SfumatoError("p is 0 or more and below 1.")
    if len(names) > _ROWS:
        raise SfumatoError(
            f"The map shows at most {_ROWS} variables; there are {len(names)}.",
            hint="keep some of them.",
        )
    low = at_or_below(values, p).mean(axis=0)
    lines = sorted(range(len(names)), key=lambda at: (-low[at] if worst_first else low[at], at))
    values = values[:, lines]
    columns = columns_of(values, alike_together(values, p), p, COLUMNS)
    with house_style():
        figure, (axes,) = sheet(0.62 + 0.34 * len(names))
        _prepare(axes, len(columns), len(names))
        _fill(axes, columns, palette, p)
        for at, line in enumerate(lines):
            name_row(axes, at + 0.5, names[line])
            _beside_right(axes, at + 0.5, _said(low[line]))
        label_axes(axes, f"{len(values):,} people, those who are alike beside each other", width=60)
        return finish(
            figure,
            title,
            f"{_reading(columns, subject, p)} {rows} At the right: the share of all people at or "
            f"below {number(p)}. The order is that of a hierarchical clustering of at most "
            f"{CLUSTERED} kinds of people.",
            public=False,
            shows="shows",
            legend=_key(palette, p),
        )


def _prepare(axes: Axes, columns: int, rows: int) -> None:
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set(xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[])


def _fill(axes: Axes, columns: Sequence[Column], palette: Palette, p: float) -> None:
    """One path for each colour, so that a page stays small however many people there are."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    dark, ramp = _RAMPS[palette]
    colours = (dark, *ramp)
    boxes: list[list[Box]] = [[] for _ in colours]
    for row in range(len(columns[0].shares)):
        for which, box in _boxes(columns, row, len(ramp), p):
            boxes[which].append(box)
    for colour, some in zip(colours, boxes, strict=True):
        if some:
            path = Path.make_compound_path(*(_rectangle(*one) for one in some))
            axes.add_patch(PathPatch(path, facecolor=colour, edgecolor="none", linewidth=0))


def _rectangle(left: float, right: float, top: float, bottom: float) -> Any:
    from matplotlib.path import Path

    corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    return Path(corners, closed=True)


def _boxes(columns: Sequence[Column], row: int, steps: int, p: float) -> list[tuple[int, Box]]:
    """The parts of one row: which colour, and where; equal neighbours are one box."""
    found: list[tuple[int, Box]] = []
    runs: dict[bool, tuple[int, Box] | None] = {True: None, False: None}
    top, height = row + 0.05, 0.9
    for at, column in enumerate(columns):
        share = float(column.shares[row])
        cut = top + height * (1 - share)
        parts = {True: (0, (at, at + 1.0, cut, top + height)) if share > 0 else None,
                 False: (_step(float(column.means[row]), steps, p), (at, at + 1.0, top, cut))
                 if share < 1 else None}  # fmt: skip
        for part, new in parts.items():
            old = runs[part]
            if old and new and old[0] == new[0] and old[1][1:] == (at, *new[1][2:]):
                runs[part] = (old[0], (old[1][0], *new[1][1:]))
                continue
            found += [old] if old else []
            runs[part] = new
    return found + [one for one in runs.values() if one]


def _step(value: float, steps: int, p: float) -> int:
    """The colour of a number above p: the first is 1. The scale ends at 1 in every picture."""
    return 1 + min(int((value - p) / (1 - p) * steps), steps - 1)


def _beside_right(axes: Axes, at: float, text: str) -> None:
    made = axes.annotate(
        "", (1.0, at), xycoords=axes.get_yaxis_transform(), xytext=(5, 0),
        textcoords="offset points", ha="left", va="center", fontsize=SMALL, annotation_clip=False,
    )  # fmt: skip
    write(made, text)


def _said(share: float) -> str:
    """A share with two digits; few are not none, and nearly all are not all."""
    if 0 < share < 0.005 or 0.995 <= share < 1:  # noqa: PLR2004 - where two digits would lie
        return "<0.01" if share < 0.5 else ">0.99"  # noqa: PLR2004
    return f"{share:.2f}"


def _key(palette: Palette, p: float) -> tuple[Mark, ...]:
    dark, ramp = _RAMPS[palette]
    ends = [p + (1 - p) * (at + 1) / len(ramp) for at in range(len(ramp))]
    digits = 2 if 1 - p > 0.1 else 4  # noqa: PLR2004 - below it two digits would be equal
    return (
        Mark("none" if p == 0 else f"at or below {number(p)}", dark, "s", ""),
        *(
            Mark(f"to {number(end, digits)}", colour, "s", "")
            for colour, end in zip(ramp, ends, strict=True)
        ),
    )


_RIGHT = " At the right of each row stands the share of all people who are dark in it."


def _reading(columns: Sequence[Column], subject: str, p: float) -> str:
    """How to read a cell, and how many people it stands for."""
    people = {one.people for one in columns}
    breach = "of 0" if p == 0 else f"at or below {number(p)}"
    if people == {1}:
        return f"Each column is a person. Dark cells: a {subject} {breach}.{_RIGHT}"
    least, most = min(people), max(people)
    many = f"{least:,}" if least == most else f"{least:,} or {most:,}"
    return (
        f"Each column stands for {many} people. The dark part of a cell is the share of them with "
        f"a {subject} {breach}; the colour of the rest is the mean of the others.{_RIGHT}"
    )
