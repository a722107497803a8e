"""The coefficients of one model with their intervals, and on how many records each rests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import DataError, PlanError, SfumatoError, did_you_mean
from sfumato.figures.public.diagnostics import (
    compute_leverage,
    count_support,
    find_design,
    find_records,
    read_outcomes,
    refuse_many_parameters,
)
from sfumato.figures.public.distance import round_up_share
from sfumato.figures.public.parameters import Ruled, takes
from sfumato.figures.public.plot import Plot, make_request, record_plot
from sfumato.figures.public.protection import Protection
from sfumato.figures.public.subjects import Group, Subjects
from sfumato.figures.sheet.sheet import (
    draw_reference_line,
    label_axes,
    make_sheet,
    name_row,
    put_head_and_foot,
    set_rows,
    write_beside,
)
from sfumato.figures.sheet.style import BLUE, FAINT, INK, SMALL, use_house_style
from sfumato.figures.sheet.text import format_number, format_records
from sfumato.io import frames
from sfumato.kernels.arrays import Floats
from sfumato.outputs.contributors import ALONE, Contributors, find_contributors
from sfumato.outputs.output import OutputRefused

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes

    from sfumato.outputs.rules import Rules

_NEEDED = ("term", "estimate", "low", "high")
_INTERCEPTS = {"intercept", "const", "(intercept)"}
_DIGITS = 2
"""Digits of the half-width of the interval that an estimate is rounded to."""
_TOLERANCE = 1e-9
_MOST_TERMS = 100
_BESIDE = 112
"""Points from the edge of the panel to the end of the numbers beside it."""
_UNKNOWN_OF_TABLE = "On how many records each term rests is not known from a table of coefficients."
_UNKNOWN_OF_MODEL = "On how many records each term rests is not known for this model."
_ROUNDED = "Numbers are rounded by their intervals."
_KNOWN = "Every term rests on at least {k} {unit}; numbers are rounded by their intervals."
_PARTLY = "A single one of the {unit} has much influence on the model: look at its leverage."


@takes(Ruled)
def forest(
    model: Any,
    data: Any = None,
    *,
    terms: Sequence[str] | None = None,
    intercept: bool = False,
    protection: Literal["suppress"] | None = None,
    level: float = 0.95,
    **asked: Unpack[Ruled],
) -> Plot:
    """Estimates and intervals of a model that rests on enough records, term by term.

    Question: what did the model find, and how sure is it?
    Assumes: a coefficient is a sum over all records, and says nothing about a single one, unless
    the model has nearly as many parameters as records, or a term belongs to a few of them.
    Such models and terms are refused. Numbers are rounded to what the interval warrants.

    Parameters
    ----------
    model : results of statsmodels, a LinearRegression with data=(X, y), an `sf.Fit`, or a frame
        with the columns `term`, `estimate`, `low`, `high`, and perhaps `records`.
    data : (X, y) for scikit-learn; elsewhere, if you like, the records of the model in its order,
        for the log, and so that persons with several of them are counted.
    terms : which to draw, in this order. Default: all but the intercept.
    intercept : draw the intercept, too.
    protection : kind of protection: "suppress"; terms on fewer than k records are refused. There is
        no other.
    k : fewest records a term may rest on. Default: the rules' k, which is 3.
    level : level of the intervals; a frame brings its own.

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
    request = make_request("forest", "Estimates of the model", terms or (), **asked)
    house, fewest = request.rules, request.k
    if not 0 < level < 1:
        raise PlanError("level lies between 0 and 1.", hint="for instance level=0.95.")
    with request.record_refusals():
        units = _find_units(model, data, house)
        resolved = _check_protection(protection, fewest, house, units)
        coefficients = read_coefficients(model, data, level=level, units=units)
        _require_records(coefficients, house)
        drawn, left_out = _choose_terms(coefficients, terms, intercept=intercept, k=fewest)
        _refuse_carried(coefficients, fewest)
    unknown = any(term.records is None for term in drawn)
    which = f"{100 * coefficients.level:g} % intervals" if coefficients.level else "their intervals"
    gap = _measure_rounding(drawn, coefficients)
    sentences = [
        _ROUNDED if unknown else resolved.sentence(),
        f"Points are estimates, lines {which}.",
        f"Rounding moves no number by more than {100 * round_up_share(gap):.0f} % of its interval.",
        *left_out,
        f"It rests on {format_records(coefficients.records, coefficients.unit)}."
        if coefficients.records
        else "",
    ]
    caption = " ".join(sentence for sentence in sentences if sentence)
    with use_house_style():
        figure, (axes,) = make_sheet(0.75 + 0.34 * len(drawn))
        _draw_terms(axes, drawn)
        put_head_and_foot(figure, request.title, foot=caption)
    reasons: tuple[str, ...] = ()
    if unknown:
        reasons = (_UNKNOWN_OF_MODEL if coefficients.records else _UNKNOWN_OF_TABLE,)
    if coefficients.carried(fewest):
        reasons = (*reasons, _PARTLY.format(unit=coefficients.unit))
    plot = Plot(
        figure=figure,
        axes=(axes,),
        title=request.title,
        caption=caption,
        audience="public",
        table=_make_table(drawn),
        rule={**resolved.rule(), **({"level": coefficients.level} if coefficients.level else {})},
        verdict="review" if reasons else "pass",
        reasons=reasons,
        details={"terms": len(drawn), "distance": gap},
    )
    return (
        plot
        if request.log is None
        else record_plot(plot, request, _find_subjects(model, data, drawn))
    )


# Coefficients of whatever was fitted -------------------------------------------------------------


@dataclass(frozen=True)
class ForestTerm:
    """One coefficient; `records` is None where nobody knows on how many it rests."""

    name: str
    estimate: float
    low: float
    high: float
    records: int | None = None

    @property
    def is_intercept(self) -> bool:
        """Whether it is the constant of the model."""
        return self.name.casefold() in _INTERCEPTS

    @property
    def is_complete(self) -> bool:
        """Whether all three numbers are there."""
        return all(map(math.isfinite, (self.estimate, self.low, self.high)))

    def round(self) -> ForestTerm:
        """As many digits as the interval warrants: more would only help to work records out."""
        half = (self.high - self.low) / 2
        if not (half > 0 and math.isfinite(half)):
            return self
        digits = _DIGITS - 1 - math.floor(math.log10(half))
        estimate, low, high = (
            round(value, digits) + 0.0 for value in (self.estimate, self.low, self.high)
        )
        return replace(self, estimate=estimate, low=low, high=high)


@dataclass(frozen=True)
class ModelCoefficients:
    """All terms of a model; how many records and parameters it has, where known.

    Where the rules count persons or groups, and it is known whose the records are, these are
    counted in place of records (`unit`), and the leverage is that of all their records.
    """

    terms: tuple[ForestTerm, ...]
    records: int | None = None
    parameters: int | None = None
    level: float | None = None
    leverage: Floats | None = field(default=None, repr=False)
    unit: str = "records"

    def carried(self, k: int) -> Literal["", "partly", "wholly"]:
        """Whether fewer than k records carry a part of the model by themselves.

        Each of m records that have a parameter of their own (a rare level, the reference level
        too) has a leverage of at least 1/m, and together they have at least 1.
        """
        if self.leverage is None:
            return ""
        strong = self.leverage[self.leverage >= 1 / (k - 1) - _TOLERANCE]
        if not len(strong):
            return ""
        return "wholly" if math.fsum(strong) >= 1 - _TOLERANCE else "partly"


def read_coefficients(
    model: Any, data: Any = None, *, level: float = 0.95, units: Contributors = ALONE
) -> ModelCoefficients:
    """The coefficients of results of statsmodels, of a LinearRegression, an `sf.Fit` or a frame.

    Parameters
    ----------
    model : what was fitted, or a frame with term, estimate, low and high (and perhaps records).
    data : (X, y), for scikit-learn only.
    level : of the intervals, where they are worked out here.
    units : whose each record of the model is, where the rules count persons or groups.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"term": ["age"], "estimate": [1.0], "low": [0.5], "high": [1.5]})
    >>> read_coefficients(frame).terms
    (ForestTerm(name='age', estimate=1.0, low=0.5, high=1.5, records=None),)
    """
    if hasattr(model, "rows") and hasattr(model, "terms") and hasattr(model, "records"):
        return _read_fit(model)
    if hasattr(model, "conf_int") and hasattr(model, "params"):
        return _read_statsmodels(model, level, units)
    if hasattr(model, "predict"):
        return _read_sklearn(model, data, level, units)
    if hasattr(model, "columns"):
        return _read_frame(model)
    raise SfumatoError(
        "This is no model whose coefficients could be drawn.",
        hint="pass results of statsmodels, a LinearRegression with data=(X, y), an sf.Fit, or a "
        "frame with the columns 'term', 'estimate', 'low' and 'high'.",
    )


def _read_fit(fit: Any) -> ModelCoefficients:
    known = set(fit.terms)
    terms = tuple(
        ForestTerm(str(row["term"]), float(row["mean"]), float(row["low"]), float(row["high"]))
        for row in fit.rows
        if row["term"] in known
    )
    return ModelCoefficients(terms, int(fit.records), len(fit.parameters), float(fit.level))


def _read_statsmodels(results: Any, level: float, units: Contributors) -> ModelCoefficients:
    estimates = np.asarray(results.params, np.float64)
    if estimates.ndim != 1:
        raise SfumatoError(
            "A model of several outcomes has no single forest.",
            hint="pass a frame with the columns 'term', 'estimate', 'low' and 'high'.",
        )
    ends = np.asarray(results.conf_int(alpha=1 - level), np.float64)
    model = results.model
    index = getattr(getattr(results, "params", None), "index", None)
    names = [str(name) for name in (index if index is not None else model.exog_names)]
    design = np.asarray(model.exog, np.float64)
    columns = [str(name) for name in model.exog_names]
    support = {}
    if design.ndim == 2:  # noqa: PLR2004 - a matrix
        support = count_support(design, columns, units)
    terms = tuple(
        ForestTerm(name, float(value), float(low), float(high), support.get(name))
        for name, value, (low, high) in zip(names, estimates, ends, strict=False)
    )
    number = units.count(len(design))
    if not support:
        return ModelCoefficients(terms, number, None, level, unit=units.word)
    leverage, rank = compute_leverage(design)
    return ModelCoefficients(terms, number, rank, level, _add_up(leverage, units), units.word)


def _add_up(leverage: Floats, units: Contributors) -> Floats:
    """The leverage of each record, or of all records of each person or group: the largest kind."""
    if not units:
        return leverage
    sums = [
        np.bincount(np.unique(number, return_inverse=True)[1].ravel(), leverage).astype(np.float64)
        for number in units.numbers
    ]
    return max(sums, key=np.max)


def _read_sklearn(model: Any, data: Any, level: float, units: Contributors) -> ModelCoefficients:
    from scipy.special import stdtrit

    outcomes = read_outcomes(model, data)
    design = find_design(model, data[0]) if outcomes.parameters else None
    if design is None or outcomes.parameters is None:
        raise SfumatoError(
            "Intervals are known for a LinearRegression only.",
            hint="pass a frame with the columns 'term', 'estimate', 'low' and 'high'.",
        )
    matrix = design.values
    freedom = max(len(matrix) - outcomes.parameters, 1)
    residual = outcomes.frame["residual"].to_numpy()
    inverse = np.linalg.pinv(matrix.T @ matrix)
    errors = np.sqrt(np.diag(inverse) * (residual**2).sum() / freedom)
    last = model[-1] if hasattr(model, "steps") else model
    values = np.append(last.intercept_, last.coef_) if last.fit_intercept else last.coef_
    quantile = float(stdtrit(freedom, 0.5 + level / 2))
    support = count_support(matrix, design.names, units)
    terms = tuple(
        ForestTerm(name, float(value), float(value - quantile * error),
                   float(value + quantile * error),
             support.get(name))
        for name, value, error in zip(design.names, np.ravel(values), errors, strict=True)
    )  # fmt: skip
    leverage, _ = compute_leverage(matrix)
    number, by_unit = units.count(len(matrix)), _add_up(leverage, units)
    return ModelCoefficients(terms, number, outcomes.parameters, level, by_unit, units.word)


def _read_frame(frame: Any) -> ModelCoefficients:
    known = list(frames.wrap(frame).columns)
    for name in _NEEDED:
        if name not in known:
            raise DataError(
                f"A forest plot needs a column '{name}'.", hint=did_you_mean(name, known)
            )
    numbers = {}
    for name in (*_NEEDED[1:], *(["records"] if "records" in known else [])):
        values = frames.get_column(frame, name)
        if not values.dtype.is_numeric():
            raise DataError(f"Column '{name}' of a forest plot must hold numbers.")
        numbers[name] = [math.nan if value is None else float(value) for value in values]
    terms = []
    for row, name in enumerate(frames.get_column(frame, "term").to_list()):
        counts = numbers.get("records")
        records = None if counts is None or math.isnan(counts[row]) else int(counts[row])
        estimate, low, high = (numbers[part][row] for part in _NEEDED[1:])
        terms.append(ForestTerm(str(name), estimate, low, high, records))
    return ModelCoefficients(tuple(terms))


# What may be shown -------------------------------------------------------------------------------


def _find_units(model: Any, data: Any, rules: Rules) -> Contributors:
    """Whose the records of a model are, as far as anybody has said."""
    records = None if hasattr(model, "diagnostics_frame") else find_records(model, data)
    if records is None:
        return ALONE
    units = find_contributors(records, rules)
    return units if len(records) == _count_rows(model, data) else ALONE


def _count_rows(model: Any, data: Any) -> int:
    """How many records a model was fitted to."""
    if hasattr(model, "conf_int") and hasattr(model, "params"):
        return len(np.asarray(model.model.exog))
    return len(data[1]) if isinstance(data, (tuple, list)) else 0


def _check_protection(protection: Any, k: int, house: Rules, units: Contributors) -> Protection:
    if protection not in (None, "suppress"):
        raise OutputRefused(
            "Coefficients are sums over all records: they are neither moved nor noised here.",
            hint="leave protection out, or protect the data with sf.methods and fit those.",
        )
    if isinstance(k, bool) or not isinstance(k, int) or k < house.k:
        raise OutputRefused(
            "k is below what the house rules ask for.", hint=f"k must be at least {house.k}."
        )
    return Protection(name="suppress", k=k, wording=_KNOWN.format(k=k, unit=units.word))


def _require_records(coefficients: ModelCoefficients, house: Rules) -> None:
    if coefficients.records is None:
        return
    if coefficients.records < house.records:
        raise OutputRefused(
            f"The model rests on fewer than {house.records} {coefficients.unit}.",
            hint=f"an output on at least {house.records} {coefficients.unit} is allowed.",
        )
    refuse_many_parameters(coefficients.records, coefficients.parameters, house)


def _refuse_carried(coefficients: ModelCoefficients, k: int) -> None:
    if coefficients.carried(k) == "wholly":
        raise OutputRefused(
            f"Fewer than {k} {coefficients.unit} carry a part of the model by themselves: a rare "
            "level, perhaps that of reference.",
            hint="join rare levels and fit again.",
        )


def _choose_terms(
    coefficients: ModelCoefficients, terms: Sequence[str] | None, *, intercept: bool, k: int
) -> tuple[list[ForestTerm], list[str]]:
    """The terms to draw, rounded; refused where one asked for rests on too few records."""
    known = {term.name: term for term in coefficients.terms}
    for name in terms or ():
        if name not in known:
            raise SfumatoError(f"The model has no term '{name}'.", hint=did_you_mean(name, known))
    if terms is not None:
        wanted = [known[name] for name in terms]
    else:
        wanted = [term for term in coefficients.terms if intercept or not term.is_intercept]
    rare = [term.name for term in wanted if term.records is not None and term.records < k]
    if rare:
        raise OutputRefused(
            f"Fewer than {k} {coefficients.unit} are behind: {', '.join(sorted(rare)[:5])}.",
            hint="join rare levels and fit again; leaving the term out of the figure does not "
            "help, since the others would give it away.",
        )
    drawn = [term.round() for term in wanted if term.is_complete]
    if not drawn:
        raise SfumatoError("The model has no term to draw.", hint="pass intercept=True?")
    if len(drawn) > _MOST_TERMS:
        raise SfumatoError(
            f"A forest plot shows {_MOST_TERMS} terms at most.",
            hint="name those to draw: terms=[...].",
        )
    return drawn, ["Terms without an interval are left out."] * (len(drawn) < len(wanted))


def _measure_rounding(drawn: Sequence[ForestTerm], coefficients: ModelCoefficients) -> float:
    """By how much rounding moves a number at most, as a share of the width of its interval."""
    exact = {term.name: term for term in coefficients.terms}
    gaps = [
        abs(getattr(term, part) - getattr(exact[term.name], part)) / (term.high - term.low)
        for term in drawn
        for part in ("estimate", "low", "high")
        if term.high > term.low
    ]
    return max(gaps, default=0.0)


def _draw_terms(axes: Axes, terms: Sequence[ForestTerm]) -> None:
    from matplotlib.ticker import MaxNLocator

    set_rows(axes, len(terms))
    draw_reference_line(axes, 0)
    for row, term in enumerate(terms):
        if row:
            axes.axhline(row - 0.5, color=INK, alpha=FAINT, linewidth=0.6)
        name_row(axes, row, term.name)
        axes.plot([term.low, term.high], [row, row], color=BLUE, linewidth=1.6,
                  solid_capstyle="butt")  # fmt: skip
        axes.plot([term.estimate], [row], color=BLUE, marker="o", markersize=4.5)
        estimate, low, high = (
            format_number(value, 3) for value in (term.estimate, term.low, term.high)
        )
        write_beside(axes, row, f"{estimate}  ({low}, {high})", _BESIDE, size=SMALL)
    axes.margins(x=0.05)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    label_axes(axes, "Coefficient", width=60)


def _find_subjects(model: Any, data: Any, drawn: Sequence[ForestTerm]) -> Subjects:
    """For the log: whose records these are, as far as anybody has said."""
    records = find_records(model, data)
    if records is None:
        records = Dataset(pl.DataFrame({"record": []}, {"record": pl.Int64}))
    group = Group(label="", values=pl.DataFrame(), origin=records)
    names = tuple(term.name for term in drawn)
    return Subjects(names=names, groups=(group,), hue=None, data=records)


def _make_table(terms: Sequence[ForestTerm]) -> pl.DataFrame:
    columns = {"term": "name", "estimate": "estimate", "low": "low", "high": "high"}
    return pl.DataFrame(
        {column: [getattr(term, part) for term in terms] for column, part in columns.items()}
    )
