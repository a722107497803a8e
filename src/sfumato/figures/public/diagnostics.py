"""What a fitted model says about each record, and its protected cloud of points.

`residuals`, `qq` and `leverage` draw it, and `forest` reads the design. The model is taken as it
was fitted to the original. Its outcomes are protected afterwards; it is never fitted again to
protected data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import DataError, SfumatoError, did_you_mean
from sfumato.figures.public.grid import Grid, count_grid_cells, describe_lost_of_grids
from sfumato.figures.public.heatmap import crop_to_grids
from sfumato.figures.public.plot import Request, make_plot
from sfumato.figures.public.protection import Protection, judge_small_cells
from sfumato.figures.public.scatter import (
    AS_GRID,
    choose_grids,
    draw_dots,
    draw_grid,
    mark_coinciding,
    measure_cloud,
)
from sfumato.figures.public.subjects import Group, Subjects
from sfumato.figures.sheet.style import BLUE, DASHES, INK, Mark
from sfumato.io import frames
from sfumato.kernels.arrays import Floats
from sfumato.outputs.contributors import ALONE, Contributors, find_contributors
from sfumato.outputs.output import OutputRefused
from sfumato.schema import Column, Schema

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.protected_values import ProtectedValues
    from sfumato.outputs.rules import Rules

WHY = "Centres of neighbours were chosen: they keep the pattern, and nothing is random."
NOT_REFITTED = "What the model says about each record was protected; it was not fitted again."
_NEEDED = ("fitted", "residual")
_COLUMNS = (*_NEEDED, "standardised", "leverage")
_ITSELF = 1 - 1e-10
"""A record of higher leverage is fitted by itself alone: its residual says nothing."""
_RANK_TOLERANCE = 1e-10
_CLUSTER = "__sfumato_cluster "


# Outcomes of a model, record by record -----------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcomes:
    """Fitted values and residuals of one model, a row per record.

    Parameters
    ----------
    frame : `fitted`, `residual`, `standardised` (residual by its own standard error where the
        leverage is known, by the SD of all residuals elsewhere), `leverage` and `cook`; the last
        two are missing where the model does not tell them.
    parameters : how many the model has; None where nobody knows.
    support : by term, on how many records it rests; empty where the design is not known.
    outcome : the name of what was modelled, where known.
    """

    frame: pl.DataFrame = field(repr=False)
    parameters: int | None = None
    support: Mapping[str, int] = field(default_factory=dict, repr=False)
    outcome: str = ""

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def has_leverage(self) -> bool:
        """Whether the leverage is known."""
        return self.frame["leverage"].null_count() < len(self.frame)


def read_outcomes(model: Any, data: Any = None) -> Outcomes:
    """Fitted values, residuals, leverage and Cook's distance of whatever was fitted.

    Parameters
    ----------
    model : results of statsmodels (OLS, WLS, GLM, Logit, Probit, Poisson), a fitted regressor or
        pipeline of scikit-learn, an `sf.Fit`, or a frame with the columns `fitted` and
        `residual`, and perhaps `standardised` and `leverage`.
    data : the pair (X, y), for scikit-learn only: its models do not keep their data.

    Examples
    --------
    >>> frame = pl.DataFrame({"fitted": [1.0, 2, 3, 4], "residual": [0.5, -0.5, -0.5, 0.5]})
    >>> read_outcomes(frame).frame["standardised"].round(3).to_list()
    [0.866, -0.866, -0.866, 0.866]
    """
    if hasattr(model, "diagnostics_frame"):
        outcomes = _read_frame(model.diagnostics_frame())
        terms = len(getattr(model, "terms", ())) or outcomes.parameters
        formula = getattr(model, "formula", "")
        left = formula.partition("~")[0].strip() if "~" in formula else ""
        return _complete_outcomes(outcomes.frame, terms, outcome=left)
    if _is_statsmodels(model):
        return _read_statsmodels(model)
    if hasattr(model, "predict"):
        return _read_sklearn(model, data)
    if hasattr(model, "columns"):
        return _read_frame(model)
    raise SfumatoError(
        "These are no outcomes of a model.",
        hint="pass results of statsmodels, a scikit-learn regressor with data=(X, y), an sf.Fit, "
        "or a frame with the columns 'fitted' and 'residual'.",
    )


def find_records(model: Any, data: Any = None) -> Dataset | None:
    """The records that a model was fitted to, where somebody passed them or the model keeps them.

    They say who is who: noise follows the record, and the log knows the population.
    """
    owner = data[0] if isinstance(data, (tuple, list)) else data
    if owner is None and _is_statsmodels(model):
        owner = getattr(getattr(model.model, "data", None), "frame", None)
        if owner is None:
            design = np.asarray(model.model.exog)
            columns = {f"x{index}": column for index, column in enumerate(design.T)}
            return Dataset(pl.DataFrame({"y": np.asarray(model.model.endog), **columns}))
    if owner is None:
        owner = getattr(model, "data", None)
    if isinstance(owner, Dataset):
        return owner
    return Dataset(owner) if hasattr(owner, "columns") else None


def count_support(design: Floats, names: list[str], units: Contributors = ALONE) -> dict[str, int]:
    """On how many records each column of a design rests: those without its commonest value.

    Where the rules count persons or groups, it is the number of these.

    Examples
    --------
    >>> count_support(np.array([[1.0, 0], [1, 0], [1, 1]]), ["Intercept", "rare"])
    {'Intercept': 3, 'rare': 1}
    """
    support = {}
    for name, column in zip(names, design.T, strict=True):
        values, counts = np.unique(column, return_counts=True)
        # A constant column is the intercept: it rests on all of them.
        others = np.flatnonzero(column != values[counts.argmax()])
        others = np.arange(len(column)) if len(counts) == 1 else others
        support[name] = units.take(others).count(len(others))
    return support


def compute_leverage(design: Floats) -> tuple[Floats, int]:
    """The leverage of each record in a (weighted) design, and the rank of the design.

    The leverages are the diagonal of the hat matrix, from the left singular vectors.
    """
    norms = np.linalg.norm(design, axis=0)
    left_vectors, values, _ = np.linalg.svd(
        design / np.where(norms > 0, norms, 1.0), full_matrices=False
    )
    rank = int((values > _RANK_TOLERANCE * values.max(initial=0)).sum())
    return np.asarray((left_vectors[:, :rank] ** 2).sum(axis=1)), rank


def _is_statsmodels(model: Any) -> bool:
    return hasattr(model, "model") and hasattr(model.model, "exog") and hasattr(model, "params")


def _read_statsmodels(results: Any) -> Outcomes:
    model = results.model
    design = np.asarray(model.exog, np.float64)
    fitted = np.asarray(results.fittedvalues, np.float64)
    if type(model).__name__ in _DISCRETE:
        # Here `fittedvalues` are on the scale of the link.
        fitted = np.asarray(results.predict(), np.float64)
        weights = _DISCRETE[type(model).__name__](design @ np.asarray(results.params), fitted)
        residual = np.asarray(results.resid_pearson, np.float64)
    elif hasattr(model, "family"):
        weights = np.asarray(model.iweights * model.n_trials * model.family.weights(fitted))
        residual = np.asarray(results.resid_pearson, np.float64)
    elif hasattr(results, "wresid"):
        weights = np.broadcast_to(np.asarray(getattr(model, "weights", 1.0)), fitted.shape)
        if weights.ndim != 1:
            raise _no_residuals("a model of correlated errors")
        residual = np.asarray(results.wresid, np.float64)
    else:
        raise _no_residuals(f"results of '{type(model).__name__}'")
    if fitted.shape != (len(design),):
        raise _no_residuals("a model of several outcomes")
    names = [str(name) for name in model.exog_names]
    leverage, rank = compute_leverage(np.sqrt(weights)[:, None] * design)
    _refuse_saturated(len(fitted), rank)
    return _standardise(
        fitted, residual, leverage, rank, scale=float(getattr(results, "scale", 1.0)),
        support=count_support(design, names), outcome=str(model.endog_names),
    )  # fmt: skip


def _weigh_probit(predictor: Floats, fitted: Floats) -> Floats:
    """The weights of a probit model: the squared density over the variance."""
    density = np.exp(-(predictor**2) / 2) / math.sqrt(2 * math.pi)
    weights: Floats = density**2 / (fitted * (1 - fitted))
    return weights


_DISCRETE: dict[str, Callable[[Floats, Floats], Floats]] = {
    "Logit": lambda _, fitted: fitted * (1 - fitted),
    "Probit": _weigh_probit,
    "Poisson": lambda _, fitted: fitted,
}
"""Models of statsmodels that are no GLM to it: their weights, from predictor and fitted values."""


def _read_sklearn(model: Any, data: Any) -> Outcomes:
    if not (isinstance(data, (tuple, list)) and len(data) == 2):  # noqa: PLR2004 - X and y
        raise SfumatoError(
            "A model of scikit-learn does not keep its data.", hint="pass data=(X, y)."
        )
    if hasattr(model, "predict_proba") or hasattr(model, "classes_"):
        raise _no_residuals("a classifier")
    table, outcome = data
    fitted = np.asarray(model.predict(table), np.float64)
    observed = np.asarray(outcome, np.float64)
    if observed.shape != fitted.shape and observed.size == fitted.size:
        observed = observed.reshape(fitted.shape)
    if fitted.ndim == 2 and fitted.shape[1] == 1:  # noqa: PLR2004 - y was a column
        fitted, observed = fitted.ravel(), observed.ravel()
    if fitted.ndim != 1 or observed.shape != fitted.shape:
        raise _no_residuals("a model of several outcomes")
    residual, name = observed - fitted, str(getattr(outcome, "name", "") or "")
    design = find_design(model, table)
    if design is None:
        columns = {"fitted": fitted, "residual": residual}
        return _complete_outcomes(pl.DataFrame(columns), None, outcome=name)
    leverage, rank = compute_leverage(design.values)
    _refuse_saturated(len(fitted), rank)
    scale = float((residual**2).sum()) / (len(fitted) - rank)
    return _standardise(
        fitted, residual, leverage, rank, scale=scale,
        support=count_support(design.values, design.names), outcome=name,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Design:
    """The design matrix of a linear model, and what its columns are called."""

    values: Floats
    names: list[str]


def find_design(model: Any, table: Any) -> Design | None:
    """The columns that a LinearRegression, perhaps at the end of a pipeline, was fitted to.

    None for any other model: the leverage of a record is not known there.
    """
    last = model[-1] if hasattr(model, "steps") else model
    if type(last).__name__ != "LinearRegression" or getattr(last, "positive", False):
        return None
    inner = model[:-1].transform(table) if hasattr(model, "steps") and len(model) > 1 else table
    if hasattr(inner, "toarray"):
        inner = inner.toarray()
    columns = list(getattr(inner, "columns", ()))
    values = np.asarray(inner, np.float64)
    if not columns and hasattr(model, "steps") and len(model) > 1:
        get_names = getattr(model[:-1], "get_feature_names_out", None)
        columns = list(get_names()) if get_names is not None else []
    names = [str(name) for name in columns] or [f"x{i + 1}" for i in range(values.shape[1])]
    if last.fit_intercept:
        values = np.column_stack([np.ones(len(values)), values])
        names = ["Intercept", *names]
    return Design(values, names)


def _read_frame(frame: Any) -> Outcomes:
    known = list(frames.wrap(frame).columns)
    for name in _NEEDED:
        if name not in known:
            raise DataError(
                f"The outcomes of a model need a column '{name}'.", hint=did_you_mean(name, known)
            )
    columns = {}
    for name in _COLUMNS:
        if name in known:
            values = frames.get_column(frame, name)
            if not values.dtype.is_numeric():
                raise DataError(f"Variable '{name}' must hold numbers.")
            columns[name] = values.cast(pl.Float64)
    parameters = None
    if "leverage" in columns and columns["leverage"].null_count() == 0:
        # The leverages of all records add up to the number of parameters.
        parameters = round(float(np.sort(columns["leverage"].to_numpy()).sum())) or None
    return _complete_outcomes(pl.DataFrame(columns), parameters)


def _refuse_saturated(records: int, parameters: int) -> None:
    if records <= parameters:
        raise OutputRefused(
            "The model has as many parameters as records: it repeats the data.",
            hint="a saturated model shows single records; fit a smaller one.",
        )


def refuse_many_parameters(records: int, parameters: int | None, rules: Rules) -> None:
    """A model with nearly as many parameters as records shows the records themselves."""
    if parameters is not None and records - parameters < rules.records:
        raise OutputRefused(
            "The model has nearly as many parameters as records: it repeats the data.",
            hint=f"at least {rules.records} records more than parameters are asked for.",
        )


def _standardise(
    fitted: Floats, residual: Floats, leverage: Floats, rank: int, *, scale: float, **about: Any
) -> Outcomes:
    with np.errstate(divide="ignore", invalid="ignore"):
        # Internally studentised: residual / (sigma * sqrt(1 - leverage)).
        free = np.where(leverage < _ITSELF, 1 - leverage, np.nan)
        standardised = residual / np.sqrt(scale * free)
    columns = {
        "fitted": fitted, "residual": residual, "standardised": standardised,
        "leverage": leverage,
    }  # fmt: skip
    return _complete_outcomes(pl.DataFrame(columns, nan_to_null=True), rank, **about)


def _complete_outcomes(frame: pl.DataFrame, parameters: int | None, **about: Any) -> Outcomes:
    """Add the columns that can be worked out from the others."""
    if "standardised" not in frame.columns:
        spread = frame["residual"].sort().std()
        if not spread:
            raise DataError("All residuals are the same: there is nothing to look at.")
        frame = frame.with_columns(standardised=pl.col("residual") / float(spread))  # type: ignore[arg-type]
    if "leverage" not in frame.columns:
        frame = frame.with_columns(leverage=pl.lit(None, pl.Float64))
    # Cook (1977): D = r^2 / p * h / (1 - h), with r the standardised residual.
    free = 1 - pl.col("leverage")
    cook = pl.col("standardised") ** 2 * pl.col("leverage") / free / (parameters or 1)
    distance = pl.when(free > 1 - _ITSELF).then(cook) if parameters else pl.lit(None, pl.Float64)
    frame = frame.with_columns(distance.alias("cook")).select(*_COLUMNS, "cook")
    return Outcomes(frame=frame, parameters=parameters, **about)


def _no_residuals(what: str) -> SfumatoError:
    return SfumatoError(
        f"Residuals of {what} cannot be taken from it.",
        hint="pass a frame with the columns 'fitted' and 'residual'.",
    )


# The protected cloud -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Cloud:
    """The protected pairs: points, or the cells of a grid."""

    request: Request
    subjects: Subjects
    protection: Protection
    points: list[ProtectedValues] | None
    grids: list[Grid] | None
    reasons: tuple[str, ...]
    notes: tuple[str, ...]

    def pairs(self) -> tuple[Floats, Floats, Floats]:
        """What is drawn: the two values of each point or cell, and how many it stands for."""
        if self.grids is not None:
            x, y, counts = self.grids[0].centres()
            return x, y, counts.astype(np.float64)
        (values,) = self.points or []
        x, y = (values.column(name) for name in values.values.columns)
        return x, y, np.ones(len(values))

    def table(self) -> pl.DataFrame:
        """The same as a table, under the names of the pair."""
        names = list(self.subjects.names)
        if self.grids is None:
            return (self.points or [])[0].values.select(names)
        table = self.grids[0].table(grouped=False)
        ends = {f"{old}_{end}": f"{new}_{end}" for old, new in zip("xy", names, strict=True)
                for end in ("low", "high")}  # fmt: skip
        return table.rename(ends)

    def draw(self, axes: Axes) -> list[Mark]:
        """Draw the cloud; the legend."""
        look = Mark("", BLUE)
        if self.grids is not None:
            draw_grid(axes, self.grids, 0, look, sized=self.protection.cells)
            crop_to_grids([axes], self.grids)
            return []
        points = self.points or []
        draw_dots(axes, points[0], look)
        return mark_coinciding([axes], points, [look])

    def make_plot(
        self,
        figure: Figure,
        axes: Axes,
        *,
        subjects: Subjects | None = None,
        notes: Sequence[str] = (),
        details: Mapping[str, Any] | None = None,
        legend: Sequence[Mark] = (),
    ) -> Plot:
        """Finish the plot in which this cloud is drawn."""
        grids = self.grids
        rule = {} if grids is None else {
            "bins": len(grids[0].x) - 1, "small": self.request.small}  # fmt: skip
        cells = {} if grids is None else count_grid_cells(grids)
        return make_plot(
            figure,
            [axes],
            self.request,
            protection=self.protection,
            subjects=self.subjects if subjects is None else subjects,
            table=self.table(),
            notes=[*notes, *self.notes],
            reasons=self.reasons,
            rule=rule,
            details={**cells, **(details or {})},
            legend=legend,
            distance=measure_cloud(
                self.subjects, self.points, grids, exact=self.request.bins is not None
            ),
        )


def read_model(model: Any, data: Any, request: Request) -> tuple[Outcomes, Dataset]:
    """The outcomes of a model, and the records they belong to.

    Records that come as a frame lend the outcomes their identity, so that noise follows the
    record and the log can tell one population from another.
    """
    outcomes = read_outcomes(model, data)
    # A fit of noised data gives its outcomes in an order of its own.
    records = None if hasattr(model, "diagnostics_frame") else find_records(model, data)
    if records is None or len(records) != len(outcomes):
        refuse_many_parameters(len(outcomes), outcomes.parameters, request.rules)
        return outcomes, Dataset(outcomes.frame)
    units = find_contributors(records, request.rules)
    refuse_many_parameters(units.count(len(outcomes)), outcomes.parameters, request.rules)
    groups = records.batch(records.schema.having("cluster"))
    groups = groups.rename({name: f"{_CLUSTER}{name}" for name in groups.columns})
    roles = {name: Column(role="cluster") for name in groups.columns}
    frame = outcomes.frame.hstack(groups)
    return outcomes, Dataset(frame, Schema(roles), given_identity=records.identity)


def protect_cloud(data: Dataset, request: Request) -> Cloud:
    """Protect pairs as a scatter plot does."""
    subjects = request.select(data)
    resolved = request.resolve(subjects, default="deterministic", why=WHY)
    return make_cloud(subjects, resolved, request)


def make_cloud(
    subjects: Subjects,
    protection: Protection,
    request: Request,
    points: list[ProtectedValues] | None = None,
) -> Cloud:
    """The same for records and a protection that are known; `points` were protected before."""
    reasons = judge_small_cells(request.small, protection)
    if points is None and not protection.cells:
        points = request.protect(subjects, protection)
    grids = choose_grids(subjects, protection, request, points)
    notes = [note for values in points or [] for note in values.notes()]
    if grids is not None:
        notes += describe_lost_of_grids(grids, protection.k)
        notes += [] if protection.cells else [AS_GRID]
    return Cloud(
        request=request, subjects=subjects, protection=protection, points=points, grids=grids,
        reasons=reasons, notes=tuple(dict.fromkeys(notes)),
    )  # fmt: skip


def draw_level_line(axes: Axes, y: float = 0.0) -> None:
    """Where nothing is left over."""
    axes.axhline(y, color=INK, linewidth=0.9, linestyle=DASHES, alpha=0.7)


def replace_values(subjects: Subjects, table: pl.DataFrame, units: Contributors) -> Subjects:
    """The same records with other values in place of theirs, and without their identity.

    `units` says whose each row of the table is, where the rules count persons or groups.
    """
    origin = Dataset(table)
    group = Group(label="", values=table, origin=origin, units=units)
    return replace(subjects, names=tuple(table.columns), groups=(group,), data=origin)


def is_frame(model: Any) -> bool:
    """Whether somebody passed records in place of a model."""
    if isinstance(model, Dataset) or isinstance(getattr(model, "dataset", None), Dataset):
        return True
    if hasattr(model, "predict") or hasattr(model, "params"):
        return False
    return hasattr(model, "columns") and bool(list(frames.wrap(model).columns))
