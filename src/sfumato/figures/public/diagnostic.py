"""What `residuals`, `qq` and `leverage` share: a cloud of a model's outcomes, protected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.figures._sheet.style import BLUE, INK, Mark
from sfumato.figures.public.cells import cell_details, grids, lost_said, protected
from sfumato.figures.public.facets import within
from sfumato.figures.public.grid import allowed_bins
from sfumato.figures.public.heatmap import BINS
from sfumato.figures.public.model_outcomes import Outcomes, outcomes_of, records_of
from sfumato.figures.public.protection import Keyed, Protecting, Protection, house_rules, resolve
from sfumato.figures.public.scatter import MANY
from sfumato.figures.public.small import Small, small_reasons
from sfumato.figures.public.strewn import bubbles, dots, mist, spots
from sfumato.figures.public.subjects import Group, Subjects, subjects
from sfumato.io import frames
from sfumato.kernels.arrays import Floats
from sfumato.outputs.judged import OutputRefused

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.figures.public.cells import Grid
    from sfumato.figures.public.points import Protected
    from sfumato.outputs.rules import Rules

_FINE = 150
_AS_GRID = "So many points are drawn as a fine grid of counts."
WHY = "Centres of neighbours were chosen: they keep the pattern, and nothing is random."
NOT_REFITTED = "What the model says of each record was protected; it was not fitted again."


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a user says of a diagnostic plot; see `residuals`."""

    protection: Protecting | None
    k: int
    bins: int | None
    sd_share: float
    key: Keyed
    small: Small
    rules: Rules | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Cloud:
    """The protected pairs: points, or the cells of a grid."""

    who: Subjects
    way: Protection
    points: list[Protected] | None
    cells: list[Grid] | None
    reasons: tuple[str, ...]
    notes: tuple[str, ...]

    def pairs(self) -> tuple[Floats, Floats, Floats]:
        """What is drawn: the two values of each point or cell, and how many it stands for."""
        if self.cells is not None:
            x, y, counts = self.cells[0].centres()
            return x, y, counts.astype(np.float64)
        (made,) = self.points or []
        x, y = (made.column(name) for name in made.values.columns)
        return x, y, np.ones(len(made))

    def table(self) -> pl.DataFrame:
        """The same as a table, under the names of the pair."""
        names = list(self.who.names)
        if self.cells is None:
            return (self.points or [])[0].values.select(names)
        table = self.cells[0].table(grouped=False)
        ends = {f"{old}_{end}": f"{new}_{end}" for old, new in zip("xy", names, strict=True)
                for end in ("low", "high")}  # fmt: skip
        return table.rename(ends)

    def rule(self, small: Small) -> dict[str, Any]:
        """Further parameters for the log."""
        return {} if self.cells is None else {"bins": len(self.cells[0].x) - 1, "small": small}

    def details(self) -> dict[str, int]:
        """A few numbers for the custodian."""
        return {} if self.cells is None else cell_details(self.cells)


def told_by(model: Any, data: Any, asked: Asked) -> tuple[Outcomes, Dataset]:
    """The outcomes of a model, and the records they belong to.

    Records that come as a frame lend the outcomes their identity, so that noise follows the
    record and the log can tell one population from another.
    """
    made = outcomes_of(model, data)
    house = house_rules(asked.rules)
    if made.parameters is not None and len(made) - made.parameters < house.records:
        raise OutputRefused(
            "The model has nearly as many parameters as records: it repeats the data.",
            hint=f"at least {house.records} records more than parameters are asked for.",
        )
    # A fit of noised data tells its outcomes in an order of its own.
    records = None if hasattr(model, "diagnostics_frame") else records_of(model, data)
    if records is None or len(records) != len(made):
        return made, Dataset(made.frame)
    return made, Dataset(made.frame, given_identity=records.identity)


def cloud(data: Dataset, names: Sequence[str], asked: Asked) -> Cloud:
    """Protect pairs as a scatter plot does."""
    house = house_rules(asked.rules)
    who = subjects(data, names, rules=house, k=asked.k)
    way = way_of(who, asked)
    return cloud_of(who, way, asked)


def way_of(who: Subjects, asked: Asked) -> Protection:
    """The protection asked for, or centres."""
    return resolve(asked.protection, default="deterministic", why=WHY, records=who.fewest,
                   k=asked.k, sd_share=asked.sd_share, key=asked.key,
                   rules=house_rules(asked.rules))  # fmt: skip


def cloud_of(
    who: Subjects, way: Protection, asked: Asked, made: list[Protected] | None = None
) -> Cloud:
    """The same for records and a protection that are known; `made` are values protected before."""
    reasons = small_reasons(asked.small, way)
    points = made
    if points is None and not way.cells:
        points = protected(who, who.names, way, lonely=asked.small == "show")
    cells = None
    if points is None or sum(map(len, points)) > MANY:
        usual = BINS.get(way.name, 15) if way.cells else _FINE
        cells = grids(
            who, who.names, way,
            bins=allowed_bins(asked.bins, usual, who.fewest, house_rules(asked.rules)),
            exact=asked.bins is not None, limits=(None, None),
            k=way.k if asked.small == "hide" else 1, made=points,
        )  # fmt: skip
    notes = [said for one in points or [] for said in one.notes()]
    if cells is not None:
        notes += [*lost_said(cells, way.k), *([] if way.cells else [_AS_GRID])]
    return Cloud(
        who=who, way=way, points=points, cells=cells, reasons=reasons,
        notes=tuple(dict.fromkeys(notes)),
    )  # fmt: skip


def draw(axes: Axes, made: Cloud) -> list[Mark]:
    """Draw the cloud; the legend."""
    look = Mark("", BLUE)
    if made.cells is not None and made.way.cells:
        bubbles(axes, made.cells[0], look, made.cells)
    elif made.cells is not None:
        mist(axes, made.cells[0], look)
    if made.cells is not None:
        within([axes], made.cells)
    elif made.points is not None:
        dots(axes, made.points[0], look)
        return spots(axes, made.points, [look])
    return []


def level_line(axes: Axes, at: float = 0.0) -> None:
    """Where nothing is left over."""
    axes.axhline(at, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), alpha=0.7)


def pairs_as(who: Subjects, table: pl.DataFrame) -> Subjects:
    """The same records with other values in the place of theirs; who is who is not told."""
    origin = Dataset(table)
    group = Group(label="", values=table, origin=origin)
    return replace(who, names=tuple(table.columns), groups=(group,), data=origin)


def is_frame(model: Any) -> bool:
    """Whether somebody passed records in the place of a model."""
    if isinstance(model, Dataset) or isinstance(getattr(model, "dataset", None), Dataset):
        return True
    if hasattr(model, "predict") or hasattr(model, "params"):
        return False
    return hasattr(model, "columns") and bool(list(frames.wrap(model).columns))
