"""A finished plot: what was drawn, the protected values in it, and what a checker must know."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs

from sfumato.errors import SfumatoError
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.style import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.outputs.judged import Verdict

_TABLES = (".csv", ".json")


@dataclass(frozen=True, eq=False, kw_only=True)
class Plot(Picture):
    """A figure that holds protected values only, with the table of what is drawn.

    Parameters
    ----------
    figure : the matplotlib figure; go on with it as you like.
    title : what it shows, in a few words.
    caption : how it was protected, why so, and what is not shown.
    audience : "public", or "custodian": it must stay inside, and a stamp in it says so.
    stamp : the text of that stamp; empty when the figure is public.
    axes : the panels of the figure.
    table : exactly the protected values that are drawn.
    rule : the protection and its parameters. Never the key.
    verdict : "pass", or "review": somebody should have a second look before it leaves.
    reasons : why a second look.
    details : a few numbers for the custodian, such as how many cells are hidden.
    """

    axes: tuple[Axes, ...]
    table: pl.DataFrame
    rule: Mapping[str, Any] = field(default_factory=dict)
    verdict: Verdict = "pass"
    reasons: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def export(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the table of what is drawn, as CSV or JSON by the suffix."""
        from sfumato.io.atomic import replacing

        target = Path(path)
        kind = target.suffix.lower()
        if kind not in _TABLES:
            raise SfumatoError(
                f"A table of a plot cannot be written as '{kind or 'a file without a suffix'}'.",
                hint="the suffixes are .csv and .json.",
            )
        if target.exists() and not overwrite:
            raise SfumatoError(
                f"'{target}' exists already.",
                hint="choose another name, or pass overwrite=True.",
            )
        text = self._csv() if kind == ".csv" else self.table.write_json() + "\n"
        mode = 0o644 if self.audience == "public" else 0o600
        with replacing(target) as sibling:
            handle = os.open(sibling, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
        return target

    def _csv(self) -> str:
        """The table as text, harmless in a spreadsheet: labels of groups are anybody's words."""
        from sfumato.io.formulas import escape
        from sfumato.io.formulas import escape_name as safe

        texts = self.table.select(cs.string(include_categorical=True)).columns
        table = self.table.with_columns(escape(pl.col(name).cast(pl.String)) for name in texts)
        return table.rename({name: safe(name) for name in table.columns}).write_csv()

    def __repr__(self) -> str:
        return f"Plot({self.title!r}, {self.verdict}, {self.table.height} rows drawn)"

    def _repr_html_(self) -> str | None:
        """What a notebook shows. Notebooks are passed on: what must stay inside is not in it."""
        return self.svg() if self.audience == "public" else None

    def _holds_pixels(self) -> bool:
        """Whether pixels need white paper: ink of the page, as pixels, would vanish in the dark."""
        if self.audience != "public":
            return super()._holds_pixels()
        return any(_inked(one) for one in self.figure.findobj() if one.get_rasterized() is True)


def _inked(artist: Any) -> bool:
    from matplotlib.colors import to_rgb, to_rgba_array

    for name in ("get_color", "get_facecolor", "get_edgecolor"):
        colours = getattr(artist, name, lambda: "none")()
        if any(tuple(one[:3]) == to_rgb(INK) for one in to_rgba_array(colours) if one[3] > 0):
            return True
    return False
