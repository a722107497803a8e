"""All plots in all protections on one page, of one's own data. Do not pass it on."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import PlanError, SfumatoError
from sfumato.figures.public.compare import compare
from sfumato.figures.public.parameters import Noisy, takes
from sfumato.figures.sheet.sheet import format_stamp
from sfumato.progress import current_progress
from sfumato.randomness import Key

if TYPE_CHECKING:
    from typing import Unpack

    from sfumato.figures.public.plot import Plot

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2228; --paper: #fff; --line: #c9ced4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --paper: #16181b; --line: #3c4148; } }
body { margin: 1.5rem auto; max-width: 48rem; padding: 0 1rem; color: var(--ink);
  background: var(--paper); font: 15px/1.5 system-ui, sans-serif; }
.stamp { border: 2px solid #d55e00; padding: .4rem .8rem; font-weight: 600; }
section { border-top: 1px solid var(--line); padding-top: .8rem; margin-top: 1.6rem; }
"""


@dataclass(frozen=True, eq=False)
class Gallery:
    """Comparisons of all plots, by name; the reason where one cannot be drawn.

    Parameters
    ----------
    title : what it shows.
    plots : by the name of the plot, the comparison of its protections.
    refused : by the name of the plot, why there is none.
    """

    title: str
    plots: Mapping[str, Plot] = field(repr=False)
    refused: Mapping[str, str] = field(default_factory=dict)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write one HTML page: no script, nothing to load; only its owner can read it."""
        from sfumato.io.atomic import PRIVATE, write_file

        target = Path(path)
        if target.suffix.lower() != ".html":
            raise SfumatoError("A gallery is an HTML page.", hint="the suffix is .html.")
        if target.exists() and not overwrite:
            raise SfumatoError(
                f"'{target}' exists already.", hint="choose another name, or pass overwrite=True."
            )
        write_file(target, self.page(), mode=PRIVATE)
        return target

    def page(self) -> str:
        """The page."""
        sections = [
            f"<section><h2>{html.escape(name.capitalize())}</h2>\n{plot.svg()}</section>"
            for name, plot in self.plots.items()
        ]
        if self.refused:
            items = "".join(
                f"<li>{html.escape(name.capitalize())}: {html.escape(why)}</li>"
                for name, why in self.refused.items()
            )
            sections.append(f"<section><h2>Not drawn</h2>\n<ul>{items}</ul></section>")
        body = "\n".join(sections)
        title = html.escape(self.title)
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
        return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<p class="stamp">{html.escape(format_stamp())}</p>
<h1>{title}</h1>
<p>Each figure shows the original beside what each protection makes of it. Choose by them which
figure to publish, and make it anew with that protection alone.</p>
{body}
</body>
</html>
"""


@takes(Noisy)
def gallery(
    data: Any,
    x: str,
    y: str,
    *,
    hue: str | None = None,
    time: str | None = None,
    event: str | None = None,
    model: Any = None,
    **asked: Unpack[Noisy],
) -> Gallery:
    """Every plot in every protection, of one's own data, on one page.

    Question: which plot, in which protection, shows best what these data are to show?
    Assumes: it stays inside. It shows the original; a log lists it as refused.

    Parameters
    ----------
    x, y : two variables of numbers.
    hue : a variable that forms groups.
    time, event : for survival curves.
    model : a fitted model, for its residuals, quantiles and leverages.

    Examples
    --------
    >>> import sfumato as sf
    >>> made = sf.plots.gallery(sf.datasets.cohort(200), "height", "systolic")
    >>> list(made.plots)[:3]
    ['histogram of height', 'histogram of systolic', 'density of height']

    References: Avraam et al. (2021), EPJ Data Science 10:2, Figures 1 to 7.
    """
    if (time is None) != (event is None):
        raise PlanError("A survival curve needs time and event.", hint="name both, or neither.")
    heading = asked.pop("title", None) or f"{y} and {x} in all protections"
    settings: dict[str, Any] = {**asked, "key": Key.of(asked.get("key"))}
    plots, refused = {}, {}
    wanted = list(_list_comparisons(data, x, y, hue, time, event, model))
    for index, (name, kind, source, variables, options) in enumerate(wanted):
        current_progress()("drawing", index, len(wanted))
        try:
            plots[name] = compare(kind, source, *variables, **options, **settings)
        except SfumatoError as error:
            refused[name] = error.what
    if not plots:
        raise PlanError(
            "Not one plot of these variables can be drawn.", hint=next(iter(refused.values()))
        )
    return Gallery(heading, plots, refused)


def _list_comparisons(
    data: Any, x: str, y: str, hue: str | None, time: str | None, event: str | None, model: Any
) -> Iterator[tuple[str, str, Any, list[Any], dict[str, Any]]]:
    """Name, kind, source, variables and options of each comparison."""
    grouped = {} if hue is None else {"hue": hue}
    by = {} if hue is None else {"by": hue}
    for kind in ("histogram", "density"):
        for name in (x, y):
            yield f"{kind} of {name}", kind, data, [name], grouped
    yield f"box plot of {x} and {y}", "box", data, [[x, y]], by
    for name in (x, y):
        yield f"violin plot of {name}", "violin", data, [name], by
    yield "scatter plot", "scatter", data, [x, y], grouped
    yield "heat map", "heatmap", data, [x, y], grouped
    yield "contours", "contour", data, [x, y], grouped
    if time is not None:
        yield "survival curve", "survival", data, [time, event], grouped
    if model is not None:
        for kind in ("residuals", "qq", "leverage"):
            yield {"qq": "quantiles of residuals"}.get(kind, kind), kind, model, [], {}
