"""Who is protected in which variable, and what would protect them, without anybody's values.

Three pictures of protective peers: a map of variables by people, the same map if one variable were
unknown, and how many people are protected the coarser a variable becomes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence
from sfumato.figures.custodian.source import (
    Row,
    refuse_empty,
    refuse_without_records,
    require_columns,
    to_float,
)
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import (
    format_axis,
    label_axes,
    make_picture,
    make_sheet,
    name_row,
    refuse_public,
    write_beside,
)
from sfumato.figures.sheet.style import BLUE, SMALL, VERMILION, Mark, use_house_style
from sfumato.figures.sheet.text import format_number, wrap_name
from sfumato.kernels.arrays import AnyIntegers, Floats
from sfumato.risk.protection.groups import CLUSTERED, at_or_below, order_by_similarity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.risk.protection import Gains

Palette = Literal["red", "safe"]
COLUMNS = 400
_MOST_ROWS = 40
_RAMPS = {
    "red": ("#7a0010", ("#fdae61", "#fede89", "#ffffbf", "#d3ec87", "#9bd469", "#5ab760")),
    "safe": ("#00204c", ("#8e8a79", "#a59c74", "#bcaf6f", "#d3c164", "#ead357", "#fee838")),
}
"""At or below p, then from little to much. The first is far darker than all others, so that print
and every eye tell it apart; "safe" keeps growing lighter all the way, in blue and yellow only."""
_RIGHT = " On the right of each row is the share of all people who are dark in it."
Box = tuple[float, float, float, float]

_WIDTH_COLUMNS = ("categories", "protected", "best")
_WIDE = 24
"""More categories than this need a logarithmic scale."""
_GENERALISATION = Mark("One generalisation", BLUE, "o", "", alpha=0.45)
_BEST = Mark("The best of as many categories", VERMILION, "*", "-")


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
    names, values = _read_shares(source, "protection", sampled=isinstance(source, Evidence))
    return _draw_heat_map(
        names,
        values,
        p=p,
        palette=palette,
        title="Protection of each person by variable",
        subject="share of protective peers",
        rows="Rows are variables taken as sensitive, those that breach most people first.",
    )


def alternatives(source: Any, *, palette: Palette = "red", public: bool = False) -> Picture:
    """How many other values everybody else's secret may have, with all other variables known.

    Question: of whom can somebody rule out values, in which variables?
    Assumes: the numbers are proportions of alternatives considered (PoAC). Nothing can be ruled
    out where it is 1.

    Parameters
    ----------
    source : what `peering.who` returns.
    palette : "red", or "safe" for colour-blind eyes.
    public : refused. The picture shows single records of the original.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [30, 31, 30], "sex": ["f", "f", "m"], "ill": [0, 1, 0]})
    >>> alternatives(sf.peering.who(sf.Dataset(frame), None, ["age", "sex", "ill"])).title
    'Values that cannot be ruled out, by person and variable'

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2),
    Fig. 1.
    """
    refuse_public("alternatives", public=public)
    rows = require_columns(source, ("record", "variable", "poac"), picture="alternatives")
    by_variable: dict[str, list[float]] = {}
    for row in rows:
        by_variable.setdefault(str(row["variable"]), []).append(to_float(row["poac"]))
    # Who was not drawn has no number; what cannot be told of a variable leaves it out.
    shares = {name: np.array(column) for name, column in by_variable.items()}
    known = {name: column for name, column in shares.items() if not np.isnan(column).all()}
    if not known:
        raise SfumatoError(
            "The picture 'alternatives' needs values that can be told apart.",
            hint="leave out tolerances, and persons with several rows.",
        )
    values = np.column_stack(list(known.values()))
    values = values[~np.isnan(values).any(axis=1)]
    if not len(values):
        raise refuse_empty("alternatives")
    return _draw_heat_map(
        list(known),
        values,
        p=0.0,
        palette=palette,
        title="Values that cannot be ruled out, by person and variable",
        subject="share of alternative values",
        rows="Rows are variables taken as sensitive, with all others known. Where it is 1, no "
        "value can be ruled out.",
    )


def gains(
    found: Gains,
    *,
    of: Literal["peers", "alternatives"] = "peers",
    palette: Palette = "red",
    public: bool = False,
) -> Picture:
    """The protection of each person if one variable were unknown, and all others known.

    Question: which variable gives people away, so that generalising it would help?
    Assumes: as `peering.gains`.

    Parameters
    ----------
    found : what `peering.gains` returns.
    of : "peers" draws the share of protective peers, "alternatives" that of alternative values.
    palette : "red", or "safe" for colour-blind eyes.
    public : refused. The picture shows single records of the original.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> from sfumato import peering
    >>> frame = pl.DataFrame({"age": [30, 31, 30], "sex": ["f", "f", "m"], "ill": [0, 1, 0]})
    >>> gains(peering.gains(sf.Dataset(frame), "ill", ["age", "sex"])).title
    "Protection of 'ill' if one variable were unknown"

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2),
    Fig. 3.
    """
    refuse_public("gains", public=public)
    peers = of == "peers"
    names, values = _read_shares(found.peers if peers else found.alternatives, "gains")
    return _draw_heat_map(
        names,
        values,
        # A share p of peers is no threshold for alternatives.
        p=found.p if peers else 0.0,
        palette=palette,
        title=f"Protection of '{wrap_name(found.sensitive, width=30, lines=1)}' if one variable "
        "were unknown",
        subject=f"share of {'protective peers' if peers else 'alternative values'}",
        rows="In each row everything is known but the variable named. The upper rows gain most: "
        "their variable gives most people away.",
        worst_first=False,
    )


def _read_shares(source: Any, picture: str, *, sampled: bool = False) -> tuple[list[str], Floats]:
    """The names of the variables, and people x variables; nothing may be missing.

    Only in a sample of people, those who were not drawn have no number at all: they are left out.
    """
    if isinstance(source, Evidence):
        if source.records is None:
            raise refuse_without_records(picture)
        source = source.records
    names, columns = _read_columns(source)
    if not names or not len(columns[0]):
        raise refuse_empty(picture)
    values = np.column_stack(columns)
    if sampled:
        values = values[~np.isnan(values).all(axis=1)]
        if not len(values):
            raise refuse_empty(picture)
    if not (np.isfinite(values).all() and (values >= 0).all() and (values <= 1).all()):
        raise SfumatoError(
            f"The picture '{picture}' needs shares from 0 to 1, and some cells are none.",
            hint="leave out variables that have only one value.",
        )
    return names, values


def _read_columns(source: Any) -> tuple[list[str], list[Floats]]:
    """Columns of numbers by name; what is no number is NaN."""
    if isinstance(source, Sequence) and all(isinstance(row, Mapping) for row in source):
        names = list(source[0]) if source else []
        return names, [np.array([to_float(row.get(name)) for row in source]) for name in names]
    from sfumato.io.frames import get_column, wrap

    names = list(wrap(source).columns)
    series = [get_column(source, name) for name in names]
    return names, [
        values.cast(float).to_numpy() if values.dtype.is_numeric() else np.full(len(values), np.nan)
        for values in series
    ]


# The map of people -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PooledPeople:
    """Some people together: for each variable the share of them at or below p, the mean of others.

    The mean is NaN where there are no others.
    """

    people: int
    shares: Floats
    means: Floats


def pool_people(values: Floats, order: AnyIntegers, p: float, most: int) -> list[PooledPeople]:
    """Neighbours in the order put together into at most so many columns, as even as possible."""
    columns = []
    for people in np.array_split(order, min(most, len(order))):
        low = at_or_below(values[people], p)
        total = np.where(low, 0.0, values[people]).sum(axis=0)
        others = (~low).sum(axis=0)
        means = np.where(others > 0, total / np.maximum(others, 1), np.nan)
        columns.append(PooledPeople(len(people), low.mean(axis=0), means))
    return columns


def _draw_heat_map(  # noqa: PLR0913 - all but two by name only
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
    if len(names) > _MOST_ROWS:
        raise SfumatoError(
            f"The map shows at most {_MOST_ROWS} variables; there are {len(names)}.",
            hint="keep some of them.",
        )
    low = at_or_below(values, p).mean(axis=0)
    order = sorted(range(len(names)), key=lambda i: (-low[i] if worst_first else low[i], i))
    values = values[:, order]
    columns = pool_people(values, order_by_similarity(values, p), p, COLUMNS)
    with use_house_style():
        figure, (axes,) = make_sheet(0.62 + 0.34 * len(names))
        axes.grid(visible=False)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.set(xlim=(0, len(columns)), ylim=(len(names), 0), xticks=[], yticks=[])
        _fill_cells(axes, columns, palette, p)
        for row, variable in enumerate(order):
            name_row(axes, row + 0.5, names[variable])
            share = _format_share(low[variable])
            write_beside(axes, row + 0.5, share, 5, size=SMALL, align="left")
        label_axes(axes, f"{len(values):,} people, similar ones next to each other", width=60)
        return make_picture(
            figure,
            title,
            f"{_describe_cells(columns, subject, p)} {rows} At the right: the share of all people "
            f"at or below {format_number(p)}. The order is that of a hierarchical clustering of at "
            f"most {CLUSTERED} kinds of people.",
            public=False,
            shows="shows",
            legend=_make_legend(palette, p),
        )


def _fill_cells(axes: Axes, columns: Sequence[PooledPeople], palette: Palette, p: float) -> None:
    """One path for each colour, so that a page stays small however many people there are."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    dark, ramp = _RAMPS[palette]
    colours = (dark, *ramp)
    boxes: list[list[Box]] = [[] for _ in colours]
    for row in range(len(columns[0].shares)):
        for colour, box in _merge_boxes(columns, row, len(ramp), p):
            boxes[colour].append(box)
    for name, of_colour in zip(colours, boxes, strict=True):
        if of_colour:
            path = Path.make_compound_path(*(_make_rectangle(*box) for box in of_colour))
            axes.add_patch(PathPatch(path, facecolor=name, edgecolor="none", linewidth=0))


def _make_rectangle(start: float, end: float, top: float, bottom: float) -> Any:
    from matplotlib.path import Path

    corners = [(start, top), (end, top), (end, bottom), (start, bottom), (start, top)]
    return Path(corners, closed=True)


def _merge_boxes(
    columns: Sequence[PooledPeople], row: int, steps: int, p: float
) -> list[tuple[int, Box]]:
    """The parts of one row: which colour, and where; equal neighbours are one box."""
    boxes: list[tuple[int, Box]] = []
    runs: dict[bool, tuple[int, Box] | None] = {True: None, False: None}
    top, height = row + 0.05, 0.9
    for index, column in enumerate(columns):
        share = float(column.shares[row])
        cut = top + height * (1 - share)
        colour = _pick_step(float(column.means[row]), steps, p) if share < 1 else 0
        # The dark part stands at the bottom of the cell, the mean of the others above it.
        parts = {
            True: (0, (index, index + 1.0, cut, top + height)) if share > 0 else None,
            False: (colour, (index, index + 1.0, top, cut)) if share < 1 else None,
        }
        for part, new in parts.items():
            old = runs[part]
            if old and new and old[0] == new[0] and old[1][1:] == (index, *new[1][2:]):
                runs[part] = (old[0], (old[1][0], *new[1][1:]))
                continue
            boxes += [old] if old else []
            runs[part] = new
    return boxes + [run for run in runs.values() if run]


def _pick_step(value: float, steps: int, p: float) -> int:
    """The colour of a number above p: the first is 1. The scale ends at 1 in every picture."""
    return 1 + min(int((value - p) / (1 - p) * steps), steps - 1)


def _format_share(share: float) -> str:
    """A share with two digits; few are not none, and nearly all are not all."""
    if 0 < share < 0.005 or 0.995 <= share < 1:  # noqa: PLR2004 - where two digits would lie
        return "<0.01" if share < 0.5 else ">0.99"  # noqa: PLR2004
    return f"{share:.2f}"


def _make_legend(palette: Palette, p: float) -> tuple[Mark, ...]:
    dark, ramp = _RAMPS[palette]
    ends = [p + (1 - p) * (index + 1) / len(ramp) for index in range(len(ramp))]
    digits = 2 if 1 - p > 0.1 else 4  # noqa: PLR2004 - below it two digits would be equal
    return (
        Mark("none" if p == 0 else f"at or below {format_number(p)}", dark, "s", ""),
        *(
            Mark(f"to {format_number(end, digits)}", colour, "s", "")
            for colour, end in zip(ramp, ends, strict=True)
        ),
    )


def _describe_cells(columns: Sequence[PooledPeople], subject: str, p: float) -> str:
    """How to read a cell, and how many people it stands for."""
    people = {column.people for column in columns}
    breach = "of 0" if p == 0 else f"at or below {format_number(p)}"
    if people == {1}:
        return f"Each column is a person. Dark cells: a {subject} {breach}.{_RIGHT}"
    least, most = min(people), max(people)
    many = f"{least:,}" if least == most else f"{least:,} or {most:,}"
    return (
        f"Each column stands for {many} people. The dark part of a cell is the share of them with "
        f"a {subject} {breach}; the colour of the other part is the mean of the others.{_RIGHT}"
    )


# Coarser variables -------------------------------------------------------------------------------


def widths(table: Any, *, variable: str = "", public: bool = False) -> Picture:
    """The share of records that are protected, by the number of categories of a variable.

    Question: how coarse must a variable become, and how much depends on where it is cut?
    Assumes: nothing.

    Parameters
    ----------
    table : what `peering.widths` returns.
    variable : the name of the generalised variable.
    public : the custodian's word that it may be shown outside. It shows shares of all records.

    Examples
    --------
    >>> rows = [{"categories": 2, "protected": 0.5, "best": True},
    ...         {"categories": 1, "protected": 0.75, "best": True}]
    >>> widths(rows, variable="age").title
    'Records protected when age is made coarser'

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2),
    Fig. 4.
    """
    rows = [
        row
        for row in require_columns(table, _WIDTH_COLUMNS, picture="widths")
        if math.isfinite(to_float(row["protected"])) and to_float(row["categories"]) >= 1
    ]
    if not rows:
        raise refuse_empty("widths")
    name = wrap_name(variable, width=30, lines=1) if variable else "a variable"
    with use_house_style():
        figure, (axes,) = make_sheet(3.1)
        _scale_categories(axes, max(to_float(row["categories"]) for row in rows))
        _put_generalisations(axes, sorted({_read_point(row) for row in rows}), _GENERALISATION, 3.6)
        _put_generalisations(
            axes, sorted(_read_point(row) for row in rows if row["best"]), _BEST, 8
        )
        label_axes(axes, f"Categories of {name}", "Share of records protected")
        return make_picture(
            figure,
            f"Records protected when {name} is made coarser",
            "A point is one way to cut the values into categories of equal width; ways with as "
            "many categories differ in width or in where they begin. A star marks the best. One "
            "category is as good as no variable.",
            public=public,
            legend=(_GENERALISATION, _BEST),
        )


def _read_point(row: Row) -> tuple[float, float]:
    return to_float(row["categories"]), to_float(row["protected"])


def _scale_categories(axes: Any, most: float) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

    axes.set_ylim(-0.03, 1.03)
    if most <= _WIDE:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_xlim(0.5, most + 0.5)
        return
    axes.set_xscale("log")
    ticks = [base * 10**power for power in range(9) for base in (1, 2, 5)]
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if tick <= most]))
    axes.xaxis.set_minor_locator(NullLocator())
    format_axis(axes.xaxis)
    axes.set_xlim(0.85, most * 1.18)


def _put_generalisations(
    axes: Any, points: Sequence[tuple[float, float]], look: Mark, size: float
) -> None:
    if points:
        axes.plot(
            *zip(*points, strict=True), color=look.colour, marker=look.marker, markersize=size,
            linestyle=look.line or "none", linewidth=1.0, alpha=look.alpha, markeredgewidth=0,
        )  # fmt: skip
