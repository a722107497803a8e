"""The middle, the quarters and the reach of variables: paper 003, Figure 4."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.errors import DataError
from sfumato.figures.public.distance import Distance, compare_lines, measure_groups
from sfumato.figures.public.distant import look_up_ranks
from sfumato.figures.public.grid import (
    Limits,
    check_limits,
    choose_edges,
    count_large_cells,
    judge_limits,
    resolve_bins,
)
from sfumato.figures.public.parameters import Binned, takes
from sfumato.figures.public.plot import Request, make_plot, make_request
from sfumato.figures.public.protection import Protection, judge_small_cells
from sfumato.figures.public.subjects import DistantGroup, Group
from sfumato.figures.sheet.sheet import label_axes, make_sheet, name_row, set_rows
from sfumato.figures.sheet.style import INK, Mark, pick_marks, use_house_style
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.kernels.exact_sums import exact_mean
from sfumato.outputs.contributors import ALONE, Contributors, find_dominated_sums, list_largest
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.quantiles import (
    FIVE,
    choose_step,
    count_needed_records,
    list_needed_ranks,
    safe_quantiles,
    snap_to_grid,
)

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes

    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.subjects import Subjects
    from sfumato.outputs.rules import Rules

_PARTS = ("low", "lower", "middle", "upper", "high")
_BINS = 15
_WHY = "Quantiles were taken of the original: they keep the shape and show nobody."
_WORDS = {
    "suppress": "Each line is the mean of {k} neighbouring {unit}, rounded; whiskers end at 5 and "
    "95 % of the records, and what lies beyond is not shown.",
    "generalise": "Lines are read off counts in wide bins, those of fewer than {k} {unit} left "
    "out; whiskers end at 5 and 95 %, and what lies beyond is not shown.",
}
_TUKEY = "Boxes, whiskers (1.5 box lengths at most) and points are of protected values, rounded."
_LONELY = "Points with fewer than {k} values near them are not drawn."
_REACH = 1.5
"""Whiskers of protected values reach so many lengths of the box at most (Tukey)."""
_CLOSE = 0.5
"""Points are close together within so many SDs: twice the least noise of the house rules."""
_HEIGHT = 0.56


@takes(Binned)
def box(
    data: Any,
    x: str | Sequence[str],
    *,
    by: str | None = None,
    limits: Limits | None = None,
    mean: bool = False,
    **asked: Unpack[Binned],
) -> Plot:
    """Boxes whose every line rests on at least k records.

    Question: where does the bulk of a variable lie, and is it the same in all groups?
    Assumes: one record is one person, or the role "person" says whose it is.

    Parameters
    ----------
    x : the variable, or several; each has a panel of its own.
    protection : kind of protection: "suppress" (default), safe quantiles, whiskers at 5 and 95 %,
        no outliers. "generalise": the same, read off wide bins. "deterministic" and "noise": boxes
        of protected values, with whiskers and outliers as usual; an outlier is a protected value.
    bins : number of bins for "generalise". Default: 15.
    limits : limits of the axis. Default: what is drawn. Only with one variable.
    small : outliers that lie alone: "show" draws protected ones, too; the verdict is "review" then.
    mean : draw the mean as well, rounded; not where a few records make up most of it.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> made = sf.plots.box(pl.DataFrame({"age": np.linspace(20, 80, 301)}), "age")
    >>> made.table["value"].to_list(), made.verdict
    ([23.0, 35.0, 50.0, 65.0, 77.0], 'pass')

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.1 and Figure 4.
    """
    names = [x] if isinstance(x, str) else list(dict.fromkeys(x))
    heading = f"Box plot of {', '.join(names)}{f' by {by}' if by is not None else ''}"
    request = make_request("box", heading, names, hue=by, **asked)
    with request.record_refusals():
        subjects = _drop_small_groups(request.select(data), request.k)
        resolved = request.resolve(subjects, default="suppress", why=_WHY)
        reasons = judge_small_cells(request.small, resolved)
        allowed = resolve_bins(request.bins, _BINS, subjects.fewest, request.rules)
        boxes, notes = _compute_boxes(subjects, resolved, request, allowed)
        if mean:
            boxes, more = _add_means(boxes, subjects, resolved, request)
            notes += more
    with use_house_style():
        height = len(names) * (0.62 + 0.42 * len(subjects.groups)) + 0.1
        figure, panels = make_sheet(height, rows=len(names))
        for axes, name in zip(panels, names, strict=True):
            draw_panel(axes, [by_name[name] for by_name in boxes], subjects.labels)
            label_axes(axes, subjects.describe(name), width=60)
            if limits is not None and len(names) == 1:
                axes.set_xlim(check_limits(limits))
        return make_plot(
            figure,
            panels,
            request,
            protection=resolved.with_wording(_WORDS),
            subjects=subjects,
            table=_make_table(boxes, subjects),
            notes=notes,
            reasons=[*reasons, *judge_limits(subjects, [limits])],
            rule={
                **(
                    {"bins": allowed} if resolved.name == "generalise" else {"small": request.small}
                ),
                **({"mean": True} if mean else {}),
            },
            details={"boxes": len(boxes) * len(names)},
            distance=_measure_distance(boxes, subjects, resolved),
        )


def _measure_distance(
    boxes: Sequence[dict[str, Box]], subjects: Subjects, protection: Protection
) -> Distance:
    """How far the lines are from those of a box without protection, in shares of the records."""
    gaps = []
    for by_name, group in zip(boxes, subjects.groups, strict=True):
        own = []
        for name, item in by_name.items():
            values = group.column(name)
            shares = list(FIVE) if protection.cells else _find_tukey_shares(values)
            own.append(compare_lines(values, [getattr(item, part) for part in _PARTS], shares))
        gaps.append(max(own))
    return measure_groups("the share of records below any line", subjects, gaps)


def _find_tukey_shares(values: Floats) -> list[float]:
    """The shares below the five lines of an unprotected box, with whiskers as Tukey has them."""
    lower, upper = np.quantile(values, [FIVE[1], FIVE[-2]])
    reach = _REACH * (upper - lower)
    below, within = (values < lower - reach).mean(), (values <= upper + reach).mean()
    return [float(below), *FIVE[1:-1], float(within)]


def _drop_small_groups(subjects: Subjects, k: int) -> Subjects:
    """Only groups with enough records for five numbers of k records each."""
    needed = count_needed_records(len(FIVE), k)
    large = tuple(group for group in subjects.groups if _has_quantiles(group, needed, k))
    if not large:
        raise OutputRefused(
            f"There are too few {subjects.units.word} for a box whose every line rests on k of "
            "them.",
            hint=f"with k = {k}, at least {needed} are needed.",
        )
    if len(large) == len(subjects.groups):
        return subjects
    left_out = f"Groups of few {subjects.units.word} are left out."
    notes = tuple(dict.fromkeys((*subjects.notes, left_out)))
    return replace(subjects, groups=large, notes=notes)


def _has_quantiles(group: Group, needed: int, k: int) -> bool:
    """Whether there are enough records, and enough persons or groups around each quantile."""
    if len(group) < needed:
        return False
    try:
        for name in group.values.columns if group.units else ():
            safe_quantiles(group.column(name), k=k, units=group.units)
    except OutputRefused:
        return False
    return True


# The five numbers --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Box:
    """One box: whisker, box, middle line, box, whisker, and the points beyond."""

    low: float
    lower: float
    middle: float
    upper: float
    high: float
    outliers: tuple[float, ...] = ()
    mean: float | None = None


def _add_means(
    boxes: Sequence[dict[str, Box]], subjects: Subjects, protection: Protection, request: Request
) -> tuple[list[dict[str, Box]], list[str]]:
    """The same boxes with the mean of what they show, and what the reader must know."""
    values: Sequence[Any] = subjects.groups
    if not protection.cells:
        values = request.protect(subjects, protection)
    elif any(isinstance(group, DistantGroup) for group in subjects.groups):
        raise DataError(
            "The mean in a box plot needs the records in memory.", hint="leave out mean."
        )
    changed, left_out = [], False
    for by_name, group in zip(boxes, values, strict=True):
        row = {}
        for name, item in by_name.items():
            column = group.column(name)
            parts = np.abs(column - item.middle)
            if protection.cells and is_dominated(parts, request.rules, group.units):
                left_out, row[name] = True, item
                continue
            step = choose_step(item.high - item.low)
            row[name] = replace(item, mean=snap_to_grid(exact_mean(column), step))
        changed.append(row)
    notes = ["The diamond is the mean, rounded."]
    if left_out:
        notes.append("Where a few records make up most of it, the mean is not shown.")
    return changed, notes


def is_dominated(contributions: Floats, rules: Rules, units: Contributors = ALONE) -> bool:
    """Whether the largest contributors to a sum give so much that it tells theirs.

    Contributors are records, or the persons or groups that `units` says.

    Examples
    --------
    >>> from sfumato.outputs.rules import Rules
    >>> is_dominated(np.array([1.0] * 50), Rules()), is_dominated(np.array([1.0, 1, 99]), Rules())
    (False, True)
    """
    for number in units.numbers:
        cells = np.zeros(len(contributions), np.int64)
        largest, sums = list_largest(cells, number, contributions, 1, rules.most_contributors)
        if find_dominated_sums(largest, sums, rules)[0]:
            return True
    ordered = np.sort(contributions)[::-1]
    total = math.fsum(ordered)
    if any(math.fsum(ordered[:count]) > share * total for count, share in rules.dominances):
        return True
    rest = total - math.fsum(ordered[:2])
    return rules.p_percent is not None and rest < rules.p_percent * float(ordered[0])


def _compute_boxes(
    subjects: Subjects, protection: Protection, request: Request, bins: int
) -> tuple[list[dict[str, Box]], list[str]]:
    """By group, the box of each variable; and what the reader must know about them."""
    names, k, lonely = subjects.names, protection.k, request.small == "show"
    if not protection.cells:
        points = request.protect(subjects, protection)
        notes = [_TUKEY, *(note for values in points for note in values.notes())]
        notes += [] if lonely else [_LONELY.format(k=k)]
        protected = [
            {
                name: compute_tukey_box(values.column(name), k, lonely=lonely, units=values.units)
                for name in names
            }
            for values in points
        ]
        return protected, notes
    boxes: list[dict[str, Box]] = [{} for _ in subjects.groups]
    whose = subjects.units
    for name in names:
        pooled = subjects.column(name)
        # One grid for all groups: another grid for each would tell their spread twice.
        if protection.name == "generalise":
            cuts = choose_edges(pooled, bins, k=k, domain=subjects.bounds(name),
                                whole=subjects.is_integer(name), units=whose)  # fmt: skip
            of_groups = [
                read_box_off_bins(group.column(name), cuts, k, group.units)
                for group in subjects.groups
            ]
        else:
            look_up_ranks(
                [pooled, *(group.column(name) for group in subjects.groups)],
                lambda records: list_needed_ranks(records, k),
            )
            step = safe_quantiles(pooled, k=k, units=whose).step
            of_groups = [
                # Whiskers at 5 and 95 %, no outliers; every number the mean of k records or units.
                make_box(
                    safe_quantiles(group.column(name), k=k, step=step, units=group.units).values
                )
                for group in subjects.groups
            ]
        for by_name, box_of_group in zip(boxes, of_groups, strict=True):
            by_name[name] = box_of_group
    return boxes, []


def make_box(five: Iterable[float]) -> Box:
    """The box of five numbers, rising."""
    low, lower, middle, upper, high = five
    return Box(low, lower, middle, upper, high)


def read_box_off_bins(values: Floats, cuts: Floats, k: int, units: Contributors = ALONE) -> Box:
    """The five numbers read off the counts of wide bins, those of fewer than k records hidden.

    Within a bin the records are taken as evenly spread.

    Examples
    --------
    >>> read_box_off_bins(np.arange(100.0), np.array([0.0, 25, 50, 75, 100]), 3)
    Box(low=5.0, lower=25.0, middle=50.0, upper=75.0, high=95.0, outliers=(), mean=None)
    """
    return read_box_off_counts(count_large_cells([values], [cuts], k, units)[0], cuts)


def read_box_off_counts(counts: Integers | Floats, cuts: Floats) -> Box:
    """The same from counts that are safe already."""
    if not counts.sum():
        raise OutputRefused(
            "No bin holds enough records for a box.", hint="take larger groups or fewer bins."
        )
    below = np.append(0, np.cumsum(counts)) / counts.sum()
    quantiles = []
    for share in FIVE:
        index = int(np.searchsorted(below, share, "left")) - 1
        within = (share - below[index]) / (below[index + 1] - below[index])
        quantiles.append(cuts[index] + within * (cuts[index + 1] - cuts[index]))
    step = choose_step(float(quantiles[-1] - quantiles[0]))
    return make_box(snap_to_grid(float(value), step) for value in quantiles)


def compute_tukey_box(
    values: Floats, k: int, *, lonely: bool = False, units: Contributors = ALONE
) -> Box:
    """A box of values that are protected already; its whiskers and outliers as Tukey has them.

    A whisker ends at the mean of the k outermost values it may reach. Points beyond are drawn
    where at least k of them lie close together: noise does not hide who lies far from all others.
    All of it lies on a coarse grid, so ten million values give a few hundred points at most.

    Parameters
    ----------
    values : protected values.
    k : how many share in each line.
    lonely : take single values for the whiskers' ends, and points that lie alone, too.
    units : whose each value is: then k of them share in each line.

    Examples
    --------
    >>> values = np.append(np.linspace(0, 1, 100), [2.9, 3.0, 3.1, 9.0])
    >>> compute_tukey_box(values, 3).outliers, compute_tukey_box(values, 3, lonely=True).outliers
    ((2.9, 3.0, 3.1), (2.9, 3.0, 3.1, 9.0))
    """
    quartiles = safe_quantiles(values, at=FIVE[1:-1], k=k, units=units)
    lower, middle, upper = quartiles.values
    reach = _REACH * (upper - lower)
    order = units.sort(values)
    ordered, whose = values[order], units.take(order)
    first, last = np.searchsorted(ordered, [lower - reach, upper + reach], "left")
    last += int(np.searchsorted(ordered[last:], upper + reach, "right"))
    step, shared = quartiles.step, 1 if lonely else k
    reached = ordered[first:last]
    low, high = lower, upper
    if len(reached):
        inside = whose.take(slice(first, last))
        rising = np.arange(len(reached))
        low, high = (
            snap_to_grid(_average_end(reached[rows], shared, inside.take(rows)), step)
            for rows in (rising, rising[::-1])
        )
    far = [ordered[:first], ordered[last:]]
    if not lonely:
        close = _CLOSE * _population_sd(ordered)
        far = [side[_have_neighbours(side, ordered, close, k, whose)] for side in far]
    beyond = sorted({snap_to_grid(float(value), step) for value in np.concatenate(far)})
    return Box(
        min(low, lower), lower, middle, upper, max(high, upper),
        tuple(value for value in beyond if not low <= value <= high),
    )  # fmt: skip


def _population_sd(ordered: Floats) -> float:
    mean = math.fsum(ordered) / len(ordered)
    return math.sqrt(math.fsum((ordered - mean) ** 2) / len(ordered))


def _average_end(values: Floats, shared: int, units: Contributors) -> float:
    """The mean of the first few values, or of as many as are of so many units; of all if fewer."""
    depth = units.find_depth(shared) or len(values)
    return units.take(slice(depth)).average(values[:depth])


def _have_neighbours(
    values: Floats, ordered: Floats, close: float, k: int, units: Contributors = ALONE
) -> Mask:
    """Which values have at least k of all values (themselves counted) within reach."""
    below = np.searchsorted(ordered, values - close, "left")
    above = np.searchsorted(ordered, values + close, "right")
    if not units:
        return np.asarray(above - below >= k)
    near = [
        units.take(slice(start, end)).count(int(end - start))
        for start, end in zip(below, above, strict=True)
    ]
    return np.array(near, np.int64) >= k


# Drawing -----------------------------------------------------------------------------------------


def draw_panel(axes: Axes, boxes: Sequence[Box], labels: list[str]) -> None:
    """The boxes of one variable, a row each."""
    set_rows(axes, len(boxes))
    looks = pick_marks(labels, grouped=labels != [""])
    for row, (item, look) in enumerate(zip(boxes, looks, strict=True)):
        _draw_box(axes, row, item, look)
        if look.name:
            name_row(axes, row, look.name)
    axes.margins(x=0.04)


def _draw_box(axes: Axes, row: int, item: Box, look: Mark) -> None:
    """One box lying along its row."""
    for start, end in ((item.low, item.lower), (item.upper, item.high)):
        axes.plot([start, end], [row, row], color=look.colour, linewidth=1.2)
    for end in (item.low, item.high):
        cap = [row - _HEIGHT / 4, row + _HEIGHT / 4]
        axes.plot([end, end], cap, color=look.colour, linewidth=1.2)
    width = item.upper - item.lower
    axes.barh(row, width, _HEIGHT, item.lower, facecolor=look.colour, alpha=0.3)
    axes.barh(row, width, _HEIGHT, item.lower, facecolor="none", edgecolor=look.colour,
              linewidth=1.2)  # fmt: skip
    axes.plot([item.middle] * 2, [row - _HEIGHT / 2, row + _HEIGHT / 2], color=INK, linewidth=2.0,
              solid_capstyle="butt")  # fmt: skip
    if item.mean is not None:
        axes.plot([item.mean], [row], linestyle="", marker="D", markersize=5.0,
                  markerfacecolor="white", markeredgecolor=INK, markeredgewidth=1.2,
                  zorder=4)  # fmt: skip
    if item.outliers:
        axes.plot(item.outliers, np.full(len(item.outliers), row), linestyle="", marker="o",
                  markersize=3.5, markerfacecolor="none", markeredgecolor=look.colour,
                  markeredgewidth=0.9)  # fmt: skip


def _make_table(boxes: Sequence[dict[str, Box]], subjects: Subjects) -> pl.DataFrame:
    rows = []
    for label, by_name in zip(subjects.labels, boxes, strict=True):
        for name, item in by_name.items():
            parts = [(part, getattr(item, part)) for part in _PARTS]
            parts += [] if item.mean is None else [("mean", item.mean)]
            parts += [("outlier", value) for value in item.outliers]
            rows += [(name, label, part, value) for part, value in parts]
    columns = ["variable", "group", "part", "value"]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    return table.drop("group") if subjects.hue is None else table
