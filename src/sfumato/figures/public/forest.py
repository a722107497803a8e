"""The coefficients of one model with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from sfumato.data import Dataset
from sfumato.errors import PlanError, SfumatoError, did_you_mean
from sfumato.figures._sheet.sheet import beside, label_axes, name_row, rows_only, sheet, upright
from sfumato.figures._sheet.style import BLUE, FAINT, INK, SMALL, house_style
from sfumato.figures._sheet.words import number
from sfumato.figures.public.coefficients import Coefficients, Term, coefficients_of
from sfumato.figures.public.drawn import lay_out, logged, refusals
from sfumato.figures.public.model_outcomes import records_of
from sfumato.figures.public.plot import Plot
from sfumato.figures.public.protection import Protection, house_of
from sfumato.figures.public.subjects import Group, Subjects
from sfumato.figures.public.worded import worded
from sfumato.figures.public.words import records_said
from sfumato.outputs.judged import OutputRefused

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

_MOST = 100
_BESIDE = 112
"""Points from the edge of the panel to the end of the numbers beside it."""
_UNKNOWN = "On how many records each term rests is not known from a table of coefficients."
_ROUNDED = "Numbers are rounded by their intervals."
_PARTLY = "A single record has much influence on the model: look at its leverage."
_NOT_TOLD = "On how many records each term rests is not known for this model."


def forest(  # noqa: PLR0913 - all but two by name only
    model: Any,
    data: Any = None,
    *,
    terms: Sequence[str] | None = None,
    intercept: bool = False,
    protection: Literal["suppress"] | None = None,
    k: int | None = None,
    level: float = 0.95,
    title: str | None = None,
    rules: Rules | None = None,
    log: Log | None = None,
) -> Plot:
    """Estimates and intervals of a model that rests on enough records, term by term.

    Question: what did the model find, and how sure is it?
    Assumes: a coefficient is a sum over all records, and tells nothing of one of them, unless
    the model has nearly as many parameters as records, or a term belongs to a few of them.
    Such models and terms are refused. Numbers are rounded to what the interval warrants.

    Parameters
    ----------
    model : results of statsmodels, a LinearRegression with data=(X, y), an `sf.Fit`, or a frame
        with the columns `term`, `estimate`, `low`, `high`, and perhaps `records`.
    data : (X, y) for scikit-learn; elsewhere, if you like, the records of the model, for the log.
    terms : which to draw, in this order. Default: all but the intercept.
    intercept : draw the intercept, too.
    protection : "suppress": terms on fewer than k records are refused. There is no other.
    k : fewest records a term may rest on. Default: the rules' k, which is 3.
    level : of the intervals; a frame brings its own.
    title : of the figure.
    rules : the house rules.
    log : where the output is listed.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"term": ["age", "sex"], "estimate": [1.01234, -0.4],
    ...                       "low": [0.5, -0.9], "high": [1.5, 0.1], "records": [90, 40]})
    >>> made = sf.plots.forest(frame)
    >>> made.table["estimate"].to_list(), made.verdict
    ([1.01, -0.4], 'pass')

    References: Avraam, Jones & Burton (2021), Figures 4 and 6.
    """
    (house, k), named = house_of(rules, log, k), title or "Estimates of the model"
    if not 0 < level < 1:
        raise PlanError("level lies between 0 and 1.", hint="for instance level=0.95.")
    with refusals(log, kind="forest", title=named, variables=terms or ()):
        way = _way(protection, k, house)
        found = coefficients_of(model, data, level=level)
        _enough(found, house)
        drawn, left_out = _chosen(found, terms, intercept=intercept, k=k)
        _not_carried(found, k)
    unknown = any(one.records is None for one in drawn)
    from matplotlib.ticker import MaxNLocator

    with house_style():
        figure, (axes,) = sheet(0.75 + 0.34 * len(drawn))
        rows_only(axes, len(drawn))
        upright(axes, 0)
        for at, one in enumerate(drawn):
            _draw(axes, at, one)
        axes.margins(x=0.05)
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        label_axes(axes, "Coefficient", width=60)
        which = f"{100 * found.level:g} % intervals" if found.level else "their intervals"
        sentences = [
            _ROUNDED if unknown else way.sentence(),
            f"Points are estimates, lines {which}.",
            *left_out,
            f"It rests on {records_said(found.records)}." if found.records else "",
        ]
        caption = " ".join(one for one in sentences if one)
        lay_out(figure, named, caption)
    reasons = (_NOT_TOLD if found.records else _UNKNOWN,) if unknown else ()
    if found.carried(k):
        reasons = (*reasons, _PARTLY)
    made = Plot(
        figure=figure,
        axes=(axes,),
        title=named,
        caption=caption,
        audience="public",
        table=_table(drawn),
        rule={**way.rule(), **({"level": found.level} if found.level else {})},
        verdict="review" if reasons else "pass",
        reasons=reasons,
        details={"terms": len(drawn)},
    )
    if log is None:
        return made
    return logged(made, "forest", _subjects(model, data, drawn), log)


def _way(protection: Any, k: int, house: Rules) -> Protection:
    if protection not in (None, "suppress"):
        raise OutputRefused(
            "Coefficients are sums over all records: they are neither moved nor noised here.",
            hint="leave protection out, or protect the data with sf.methods and fit those.",
        )
    if isinstance(k, bool) or not isinstance(k, int) or k < house.k:
        raise OutputRefused(
            "k is below what the house rules ask for.", hint=f"k must be at least {house.k}."
        )
    said = "Every term rests on at least {k} records; numbers are rounded by their intervals."
    return worded(Protection(name="suppress", k=k), {"suppress": said})


def _enough(found: Coefficients, house: Rules) -> None:
    if found.records is None:
        return
    if found.records < house.records:
        raise OutputRefused(
            f"The model rests on fewer than {house.records} records.",
            hint=f"an output on at least {house.records} records is allowed.",
        )
    if found.parameters is not None and found.records - found.parameters < house.records:
        raise OutputRefused(
            "The model has nearly as many parameters as records: it repeats the data.",
            hint=f"at least {house.records} records more than parameters are asked for.",
        )


def _not_carried(found: Coefficients, k: int) -> None:
    if found.carried(k) == "wholly":
        raise OutputRefused(
            f"Fewer than {k} records carry a part of the model by themselves: a rare level, "
            "perhaps that of reference.",
            hint="join rare levels and fit again.",
        )


def _chosen(
    found: Coefficients, terms: Sequence[str] | None, *, intercept: bool, k: int
) -> tuple[list[Term], list[str]]:
    """The terms to draw, rounded; refused where one asked for rests on too few records."""
    known = {one.name: one for one in found.terms}
    for name in terms or ():
        if name not in known:
            raise SfumatoError(f"The model has no term '{name}'.", hint=did_you_mean(name, known))
    if terms is not None:
        wanted = [known[name] for name in terms]
    else:
        wanted = [one for one in found.terms if intercept or not one.intercept]
    rare = [one.name for one in wanted if one.records is not None and one.records < k]
    if rare:
        raise OutputRefused(
            f"Fewer than {k} records are behind: {', '.join(sorted(rare)[:5])}.",
            hint="join rare levels and fit again; leaving the term out of the figure does not "
            "help, since the others would tell it.",
        )
    left_out = (
        [] if all(one.known for one in wanted) else ["Terms without an interval are left out."]
    )
    drawn = [one.rounded() for one in wanted if one.known]
    if not drawn:
        raise SfumatoError("The model has no term to draw.", hint="pass intercept=True?")
    if len(drawn) > _MOST:
        raise SfumatoError(
            f"A forest plot shows {_MOST} terms at most.", hint="name those to draw: terms=[...]."
        )
    return drawn, left_out


def _draw(axes: Axes, at: int, one: Term) -> None:
    if at:
        axes.axhline(at - 0.5, color=INK, alpha=FAINT, linewidth=0.6)
    name_row(axes, at, one.name)
    axes.plot([one.low, one.high], [at, at], color=BLUE, linewidth=1.6, solid_capstyle="butt")
    axes.plot([one.estimate], [at], color=BLUE, marker="o", markersize=4.5)
    low, high = (number(end, 3) for end in (one.low, one.high))
    beside(axes, at, f"{number(one.estimate, 3)}  ({low}, {high})", _BESIDE, size=SMALL)


def _subjects(model: Any, data: Any, drawn: Sequence[Term]) -> Subjects:
    """For the log: whose records these are, as far as anybody has said."""
    records = records_of(model, data) or Dataset(pl.DataFrame({"record": []}, {"record": pl.Int64}))
    group = Group(label="", values=pl.DataFrame(), origin=records)
    names = tuple(one.name for one in drawn)
    return Subjects(names=names, groups=(group,), hue=None, data=records)


def _table(drawn: Sequence[Term]) -> pl.DataFrame:
    rows = [replace(one, records=None) for one in drawn]
    return pl.DataFrame(
        {
            "term": [one.name for one in rows],
            "estimate": [one.estimate for one in rows],
            "low": [one.low for one in rows],
            "high": [one.high for one in rows],
        }
    )
