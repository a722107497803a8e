"""What all plots share: head and foot of the sheet, the caption, the verdict, and the log."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.figures._sheet.sheet import key, key_rows, sheet
from sfumato.figures._sheet.style import SMALL, TITLE, VERMILION, WIDTH, Mark
from sfumato.figures._sheet.words import shown, write
from sfumato.figures.public.plot import Plot
from sfumato.figures.public.points import STAYS
from sfumato.figures.public.words import records_said, share_said
from sfumato.kernels.arrays import Integers
from sfumato.outputs.judged import Output, OutputRefused, digest_of
from sfumato.outputs.persons import shared_by

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sfumato.evidence import Audience
    from sfumato.figures.public.protection import Protection
    from sfumato.figures.public.subjects import Subjects
    from sfumato.outputs.log import Log

__all__ = ["finished", "records_said", "refusals", "share_said", "sheet"]

_EDGE, _LINE, _SMALL_LINE = 0.12, 0.23, 0.155
STAMP = "Inside only: shows the original data"
_LETTERS = 104
"""Signs of small type on one line of the foot."""


@contextmanager
def refusals(
    log: Log | None, *, kind: str, title: str, variables: Sequence[str], groups: Sequence[str] = ()
) -> Iterator[None]:
    """Put a refusal into the log before it is raised on."""
    try:
        yield
    except OutputRefused as error:
        if log is not None:
            log.refused(
                Output(
                    kind=kind,
                    title=title,
                    variables=tuple(variables),
                    groups=tuple(groups),
                    verdict="refuse",
                    reasons=(error.what,),
                )
            )
        raise


def finished(  # noqa: PLR0913 - all but two by name only
    figure: Figure,
    axes: Sequence[Axes],
    *,
    kind: str,
    title: str,
    protection: Protection,
    shown_of: Subjects,
    table: pl.DataFrame,
    notes: Sequence[str] = (),
    reasons: Sequence[str] = (),
    rule: Mapping[str, Any] | None = None,
    details: Mapping[str, Any] | None = None,
    legend: Sequence[Mark] = (),
    audience: Audience = "public",
    stamp: str = "",
    log: Log | None = None,
    parts: Sequence[Integers] | None = None,
) -> Plot:
    """Put head and foot on the sheet, settle the layout, judge it, and log it.

    Parameters
    ----------
    figure : with everything drawn in it.
    axes : its panels.
    kind : the name of the plot, for the log.
    title : what it shows.
    protection : as resolved.
    shown_of : the records it rests on.
    table : exactly the protected values that are drawn.
    notes : further sentences for the caption.
    reasons : why somebody should have a second look, besides those of the protection.
    rule : further parameters for the log, such as the bins.
    details : a few numbers for the custodian.
    legend : what the signs mean.
    audience : "public", or "custodian" with a stamp.
    stamp : the text of the stamp.
    log : where to list it.
    parts : the cell of each record, group after group, where counts in cells are shown; below 0
        where the cell is hidden. The log compares them with those of other outputs.
    """
    sentences = [
        protection.sentence(),
        protection.reason,
        *notes,
        *shown_of.notes,
        f"It rests on {records_said(shown_of.records)}.",
    ]
    caption = " ".join(dict.fromkeys(one for one in sentences if one))
    concerns = tuple(dict.fromkeys([*protection.concerns, *reasons, *shared_by(shown_of.data)]))
    if STAYS in notes:
        audience, stamp, concerns = "custodian", STAMP, (*concerns, STAYS)
    lay_out(figure, title, caption, legend=legend, stamp=stamp)
    made = Plot(
        figure=figure,
        axes=tuple(axes),
        title=title,
        caption=caption,
        audience=audience,
        stamp=stamp,
        table=table,
        rule={**protection.rule(), **(rule or {})},
        verdict="refuse" if audience != "public" else "review" if concerns else "pass",
        reasons=concerns,
        details=details or {},
    )
    return made if log is None else logged(made, kind, shown_of, log, parts)


def logged(
    made: Plot,
    kind: str,
    shown_of: Subjects,
    log: Log,
    parts: Sequence[Integers] | None = None,
) -> Plot:
    """List a plot in the log of outputs; the log may know reasons for a second look."""
    output = Output(
        kind=kind,
        title=made.title,
        variables=shown_of.names,
        groups=() if shown_of.hue is None else (shown_of.hue,),
        rule=made.rule,
        verdict=made.verdict,
        reasons=made.reasons,
        digest=digest_of(made.table),
    )
    judged = log.add(output, shown_of.population, parts=parts, grouped=parts is not None)
    return replace(made, verdict=judged.verdict, reasons=judged.reasons)


def lay_out(
    figure: Figure, title: str, caption: str, *, legend: Sequence[Mark] = (), stamp: str = ""
) -> None:
    """The title and the legend above the panels, the caption below; settled for all formats."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    lines = shown(title, width=62).split("\n")
    # No line begins with a sign of per cent.
    foot = textwrap.wrap(caption.replace(" %", "\N{NO-BREAK SPACE}%"), _LETTERS)
    body = float(figure.get_size_inches()[1])
    above = [_LINE * len(lines) + 0.05, 0.2 * key_rows(legend, WIDTH - 2 * _EDGE)]
    above.append(0.36 if stamp else 0.0)
    below = _SMALL_LINE * len(foot) + (_EDGE if foot else 0)
    height = body + sum(above) + below + _EDGE
    figure.set_size_inches(WIDTH, height)
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0.0, below / height, 1.0, body / height), w_pad=0.09, h_pad=0.07,
                   wspace=0.04, hspace=0.05)  # fmt: skip
    top = height - _EDGE - above[2]
    if stamp:
        _put_stamp(figure, stamp, height)
    _line(figure, top, height, "\n".join(lines), size=TITLE, bold=True)
    if legend:
        at = (_EDGE / WIDTH, (top - above[0]) / height)
        key(figure, legend, loc="upper left", bbox_to_anchor=at,
            ncols=_columns(legend))  # fmt: skip
    for place, text in enumerate(foot):
        _line(figure, below - _SMALL_LINE * place, height, text, size=SMALL - 0.5)
    for one in figure.texts:
        one.set_in_layout(False)
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine("none")


def _put_stamp(figure: Figure, stamp: str, height: float) -> None:
    box = {"boxstyle": "round,pad=0.35", "edgecolor": VERMILION, "facecolor": "none"}
    at = ((_EDGE + 0.05) / WIDTH, 1 - (_EDGE + 0.04) / height)
    text = figure.text(*at, "", va="top", fontsize=SMALL, fontweight="bold")
    text.set_bbox({**box, "linewidth": 1.4})
    write(text, stamp)


def _columns(legend: Sequence[Mark]) -> int:
    rows = key_rows(legend, WIDTH - 2 * _EDGE)
    return -(-len(legend) // max(rows, 1))


def _line(
    figure: Figure, top: float, height: float, text: str, *, size: float, bold: bool = False
) -> None:
    """A text that begins at the left edge, `top` inches above the lower edge."""
    made = figure.text(_EDGE / WIDTH, top / height, "", va="top", fontsize=size)
    made.set_fontweight("bold" if bold else "normal")
    write(made, text)
