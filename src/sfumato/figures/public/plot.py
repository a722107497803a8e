"""A plot from what somebody asks for to the finished figure, with its verdict and its log entry."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs

from sfumato.errors import SfumatoError
from sfumato.figures.public.distance import Distance
from sfumato.figures.public.parameters import DEFAULTS, Binned
from sfumato.figures.public.protected_values import STAYS, ProtectedValues, protect_values
from sfumato.figures.public.protection import (
    Keyed,
    Named,
    Protecting,
    Protection,
    Small,
    resolve_protection,
    resolve_rules,
)
from sfumato.figures.public.subjects import Subjects, select_subjects
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import format_stamp, put_head_and_foot
from sfumato.figures.sheet.style import INK, MOST_OVERLAID, Mark
from sfumato.figures.sheet.text import format_records
from sfumato.kernels.arrays import Integers
from sfumato.outputs.output import Output, OutputRefused, digest_of
from sfumato.outputs.rules import warn_of_figure, warn_of_shared_persons

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sfumato.evidence import Audience
    from sfumato.outputs.log import Log
    from sfumato.outputs.output import Verdict
    from sfumato.outputs.rules import Rules

_TABLES = (".csv", ".json")
_OF_COUNTS = ("histogram", "heatmap", "contour", "box")
"""Plots that ask for nothing but counts and quantiles, unless values are protected or logged."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Plot(Picture):
    """A figure that holds protected values only, with the table of what is drawn.

    Parameters
    ----------
    figure : the matplotlib figure; go on with it as you like.
    title : what it shows, in a few words.
    caption : how it was protected, and how far it is from the unprotected figure.
    description : the rest: why so, what is not shown, on how many records it rests.
    audience : "public", or "custodian": it must stay inside, and a stamp in it says so.
    stamp : the text of that stamp; empty when the figure is public.
    axes : the panels of the figure.
    table : exactly the protected values that are drawn.
    rule : the protection and its parameters. Never the key.
    verdict : "pass", or "review": somebody should have a second look before it leaves.
    reasons : why a second look.
    details : a few numbers for the custodian, such as how many cells are hidden.

    Examples
    --------
    >>> import sfumato as sf
    >>> plot = sf.plots.bar(sf.datasets.cohort(500), "region")
    >>> plot.verdict, plot.table.columns
    ('pass', ['level', 'share'])
    """

    axes: tuple[Axes, ...]
    table: pl.DataFrame
    rule: Mapping[str, Any] = field(default_factory=dict)
    verdict: Verdict = "pass"
    reasons: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write an SVG, PNG or PDF; or an HTML page to hover over and zoom, of a public plot."""
        target = Path(path)
        if target.suffix.lower() != ".html":
            return super().save(target, overwrite=overwrite)
        from sfumato.figures.public.interactive import render_interactive

        return self._write(target, render_interactive(self).encode(), overwrite=overwrite)

    def export(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the table of what is drawn, as CSV or JSON by the suffix."""
        target = Path(path)
        kind = target.suffix.lower()
        if kind not in _TABLES:
            raise SfumatoError(
                f"A table of a plot cannot be written as '{kind or 'a file without a suffix'}'.",
                hint="the suffixes are .csv and .json.",
            )
        text = self._to_csv() if kind == ".csv" else self.table.write_json() + "\n"
        return self._write(target, text.encode(), overwrite=overwrite)

    def _to_csv(self) -> str:
        """The table as text, harmless in a spreadsheet: labels of groups are anybody's words."""
        from sfumato.io.formulas import escape, escape_name

        texts = self.table.select(cs.string(include_categorical=True)).columns
        table = self.table.with_columns(escape(pl.col(name).cast(pl.String)) for name in texts)
        return table.rename({name: escape_name(name) for name in table.columns}).write_csv()

    def __repr__(self) -> str:
        return f"Plot({self.title!r}, {self.verdict}, {self.table.height} rows drawn)"

    def _repr_html_(self) -> str | None:
        """What a notebook shows. Notebooks are passed on: what must stay inside is not in it."""
        return self.svg() if self.audience == "public" else None

    def _holds_pixels(self) -> bool:
        """Whether pixels need white paper: ink of the page, as pixels, would vanish in the dark."""
        if self.audience != "public":
            return super()._holds_pixels()
        return any(
            _has_ink(item) for item in self.figure.findobj() if item.get_rasterized() is True
        )


def _has_ink(artist: Any) -> bool:
    from matplotlib.colors import to_rgb, to_rgba_array

    for name in ("get_color", "get_facecolor", "get_edgecolor"):
        colours = to_rgba_array(getattr(artist, name, lambda: "none")())
        if any(tuple(rgba[:3]) == to_rgb(INK) for rgba in colours if rgba[3] > 0):
            return True
    return False


@dataclass(frozen=True, kw_only=True)
class Request:
    """What somebody asks of a plot, under the rules of the house; see `Binned`.

    Parameters
    ----------
    kind : the name of the plot, for the log.
    variables : what it shows.
    """

    kind: str
    title: str
    variables: tuple[str, ...]
    k: int
    rules: Rules
    sd_share: float
    small: Small
    log: Log | None = None
    hue: str | None = None
    protection: Protecting | None = None
    bins: int | None = None
    key: Keyed = None

    @property
    def least(self) -> int:
        """Cells of fewer values are hidden."""
        return self.k if self.small == "hide" else 1

    @contextmanager
    def record_refusals(self) -> Iterator[None]:
        """Put a refusal into the log before it is raised on."""
        try:
            yield
        except OutputRefused as error:
            if self.log is not None:
                self.log.refused(
                    Output(
                        kind=self.kind,
                        title=self.title,
                        variables=self.variables,
                        groups=() if self.hue is None else (self.hue,),
                        verdict="refuse",
                        reasons=(error.what,),
                    )
                )
            raise

    def select(self, data: Any) -> Subjects:
        """The records that the plot rests on."""
        by_counts = (
            self.kind in _OF_COUNTS
            and self.protection in (None, "suppress", "generalise")
            and self.log is None
        )
        return select_subjects(
            data, self.variables, self.hue, rules=self.rules, k=self.k, by_counts=by_counts
        )

    def resolve(self, subjects: Subjects, *, default: Named, why: str = "") -> Protection:
        """The protection asked for, or the plot's default with the reason for it."""
        return resolve_protection(
            self.protection, default=default, why=why, records=subjects.fewest, k=self.k,
            sd_share=self.sd_share, key=self.key, rules=self.rules, unit=subjects.units.word,
        )  # fmt: skip

    def protect(self, subjects: Subjects, protection: Protection) -> list[ProtectedValues]:
        """The protected values of each group."""
        lonely = self.small == "show"
        return [
            protect_values(group, subjects.names, protection, lonely=lonely)
            for group in subjects.groups
        ]


def make_request(
    kind: str,
    heading: str,
    variables: Sequence[str],
    *,
    hue: str | None = None,
    **asked: Unpack[Binned],
) -> Request:
    """What was asked for, with the house rules or those of the log."""
    house, fewest = resolve_rules(asked.get("rules"), asked.get("log"), asked.get("k"))
    given: dict[str, Any] = {**DEFAULTS, **asked, "title": asked.get("title") or heading}
    given |= {"k": fewest, "rules": house}
    return Request(kind=kind, variables=tuple(variables), hue=hue, **given)


def make_plot(  # noqa: PLR0913 - all but three by name only
    figure: Figure,
    axes: Sequence[Axes],
    request: Request,
    *,
    protection: Protection,
    subjects: Subjects,
    table: pl.DataFrame,
    notes: Sequence[str] = (),
    reasons: Sequence[str] = (),
    rule: Mapping[str, Any] | None = None,
    details: Mapping[str, Any] | None = None,
    legend: Sequence[Mark] = (),
    parts: Sequence[Integers] | None = None,
    distance: Distance | None = None,
    rounds: bool = False,
) -> Plot:
    """Put head and foot on the sheet, settle the layout, judge it, and list it in the log.

    Parameters
    ----------
    figure : with everything drawn in it.
    axes : its panels.
    request : what was asked for.
    protection : as resolved.
    subjects : the records it rests on.
    table : exactly the protected values that are drawn.
    notes : further sentences for the caption.
    reasons : why somebody should have a second look, besides those of the protection.
    rule : further parameters for the log, such as the bins.
    details : a few numbers for the custodian.
    legend : what the symbols mean.
    parts : the cell of each record, group after group, where counts in cells are shown; below 0
        where the cell is hidden. The log compares them with those of other outputs.
    distance : how far it is from the figure without protection.
    rounds : whether the counts it shows are rounded by the rules.
    """
    caption = join_sentences(
        [protection.sentence(), "" if distance is None else distance.sentence(request.k)]
    )
    description = join_sentences(
        [
            protection.reason,
            *notes,
            *(request.rules.describe_rounding() if rounds else ()),
            *subjects.notes,
            f"It rests on {format_records(subjects.records)}{_format_units(subjects)}.",
        ]
    )
    shared = (
        *warn_of_shared_persons(subjects.data, request.rules),
        *warn_of_figure(request.rules, rounds=rounds),
    )
    far = () if distance is None else distance.concerns()
    concerns = tuple(dict.fromkeys([*protection.concerns, *reasons, *shared, *far]))
    audience: Audience = "public"
    stamp = ""
    if STAYS in notes:
        audience, stamp, concerns = "custodian", format_stamp(), (*concerns, STAYS)
    overlaid = len(subjects.groups) <= MOST_OVERLAID
    put_head_and_foot(
        figure, request.title, legend=legend,
        legend_title=subjects.describe(subjects.hue) if overlaid else "",
        stamp=stamp, foot=caption, below=description,
    )  # fmt: skip
    plot = Plot(
        figure=figure,
        axes=tuple(axes),
        title=request.title,
        caption=caption,
        description=description,
        audience=audience,
        stamp=stamp,
        table=table,
        rule={**protection.rule(), **(rule or {})},
        verdict="refuse" if audience != "public" else "review" if concerns else "pass",
        reasons=concerns,
        details={**(details or {}), **({} if distance is None else {"distance": distance.value})},
    )
    return record_plot(plot, request, subjects, parts)


def _format_units(subjects: Subjects) -> str:
    """Of how many persons or groups the records are, where these are counted."""
    units = subjects.units
    if not units:
        return ""
    return f" of {format_records(units.count(subjects.records), units.word)}"


def join_names(y: str, x: str, hue: str | None) -> str:
    """The usual title of a figure of two variables, perhaps in groups."""
    return f"{y} by {x}{f' and {hue}' if hue is not None else ''}"


def join_sentences(sentences: Iterable[str]) -> str:
    """Sentences as one text, each of them once."""
    return " ".join(dict.fromkeys(sentence for sentence in sentences if sentence))


def record_plot(
    plot: Plot, request: Request, subjects: Subjects, parts: Sequence[Integers] | None = None
) -> Plot:
    """List a plot in the log of outputs; the log may know reasons for a second look."""
    if request.log is None:
        return plot
    output = Output(
        kind=request.kind,
        title=plot.title,
        variables=subjects.names,
        groups=() if subjects.hue is None else (subjects.hue,),
        rule=plot.rule,
        verdict=plot.verdict,
        reasons=plot.reasons,
        digest=digest_of(plot.table),
    )
    judged = request.log.add(output, subjects.population, parts=parts, grouped=parts is not None)
    return replace(plot, verdict=judged.verdict, reasons=judged.reasons)
