"""The result of a fit: estimates beside the naive ones, draws, diagnostics and warnings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from sfumato.analysis.diagnostics import bulk_ess, mcse, rhat
from sfumato.analysis.naive_fit import Estimates
from sfumato.analysis.problem import Pointwise
from sfumato.errors import SfumatoError
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from sfumato.data import Dataset
    from sfumato.figures.sheet.picture import Picture

Method = Literal["posterior", "moments", "calibration", "simex"]
INTERRUPTED = (
    "It was interrupted: this is what there was until then, with rough standard errors or none. "
    "Fit again for more."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """A model of noised data, with the noise taken out.

    Parameters
    ----------
    formula, family, link : the model.
    method : how it was fitted; `engine` says by which engine where draws were made.
    records, left_out : how many records it rests on, and how many lacked a value that is needed.
    level : of the intervals.
    terms : the columns of the model.
    estimates : by parameter: posterior means and SDs, or estimates and standard errors.
    naive : the fit that takes released values for true ones.
    moments : the fit by corrected moments, as a check; None where there is none.
    normal : posterior means where true values are taken as normal, when a mixture was used.
    sampled : the draws as an array (chain, draw, parameter); None but for a posterior.
    shape, components : the shape of true values given all that is clean.
    warnings : what to be wary of, and what to do about it.
    notes : what was done, in words.
    efficiency_rows : see `efficiency`.
    determinant_ratio : the paper's overall measure of efficiency. It is optimistic: it knows
        nothing of what taking the noise out costs.
    complete : whether it ran to its end. After an interrupt what is there is returned.
    data : the released records.
    pointwise : the log-likelihood and predictions of each record, if they were asked for.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(size=400)
    >>> frame = pl.DataFrame({"x": x + rng.normal(0, 0.5, 400), "y": 2 * x + rng.normal(size=400)})
    >>> model = sf.fit("y ~ x", frame, noise={"x": sf.Gaussian(variance=0.25)}, method="moments")
    >>> bool(model.summary().loc["x", "mean"] > model.summary().loc["x", "naive"])
    True
    """

    formula: str
    family: str
    link: str
    method: Method
    engine: str
    records: int
    left_out: int
    level: float
    terms: tuple[str, ...]
    estimates: Estimates = field(repr=False)
    naive: Estimates = field(repr=False)
    moments: Estimates | None = field(default=None, repr=False)
    normal: Mapping[str, float] | None = field(default=None, repr=False)
    sampled: Floats | None = field(default=None, repr=False)
    shape: str = ""
    components: int = 1
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    efficiency_rows: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    determinant_ratio: float = math.nan
    complete: bool = True
    data: Dataset | None = field(default=None, repr=False)
    pointwise: Pointwise | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.estimates.complete:
            return
        # A quick look that was interrupted; of draws the engine says so itself.
        object.__setattr__(self, "complete", False)
        if INTERRUPTED not in self.warnings:
            object.__setattr__(self, "warnings", (*self.warnings, INTERRUPTED))

    def __repr__(self) -> str:
        drawn = ""
        if self.sampled is not None:
            chains, draws, _ = self.sampled.shape
            drawn = f", {chains} x {draws:,} draws by {self.engine}"
        wary = f", {len(self.warnings)} warnings" if self.warnings else ""
        return f"Fit({self.formula!r}, {self.family}, {self.records:,} records, {self.method}{drawn}{wary})"  # noqa: E501

    @property
    def parameters(self) -> tuple[str, ...]:
        """The coefficients by term, then variances."""
        return tuple(self.estimates.value)

    @cached_property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """The summary, a row per parameter."""
        return tuple(self._build_row(index, name) for index, name in enumerate(self.parameters))

    def _build_row(self, index: int, name: str) -> dict[str, Any]:
        nan = math.nan
        mean, sd = self.estimates.value[name], self.estimates.error.get(name, nan)
        row: dict[str, Any] = {"term": name, "mean": mean, "sd": sd}
        if self.sampled is None:
            from scipy.special import ndtri

            # No draws: a normal interval, and no diagnostics.
            reach = float(ndtri((1 + self.level) / 2)) * sd
            row |= {"low": mean - reach, "high": mean + reach, "rhat": nan, "ess": nan}
            row |= {"mcse": nan}
        else:
            draws = self.sampled[:, :, index]
            tails = [(1 - self.level) / 2, (1 + self.level) / 2]
            low, high = (float(bound) for bound in np.quantile(draws, tails))
            row |= {"low": low, "high": high, "rhat": rhat(draws), "ess": bulk_ess(draws)}
            row |= {"mcse": mcse(draws)}
        row["naive"] = self.naive.value.get(name, nan)
        row["moments"] = self.moments.value.get(name, nan) if self.moments else nan
        if self.normal is not None:
            row["normal"] = self.normal.get(name, nan)
        return row

    def summary(self) -> Any:
        """A pandas frame indexed by term: estimate, SD, interval, diagnostics, naive, moments.

        `table` has the same in the library of the data.
        """
        import pandas as pd

        return pd.DataFrame(list(self.rows)).set_index("term")

    @property
    def table(self) -> Any:
        """The summary as a frame of the library that the data came in, with a column `term`."""
        return self._to_data_library(pl.DataFrame(list(self.rows)))

    @property
    def draws(self) -> Any:
        """The draws as a frame: chain, draw, and a column per parameter."""
        sampled = self._require_draws("draws")
        chains, count, _ = sampled.shape
        columns: dict[str, Any] = {
            "chain": np.repeat(np.arange(chains), count),
            "draw": np.tile(np.arange(count), chains),
        }
        for index, name in enumerate(self.parameters):
            columns[name] = sampled[:, :, index].ravel()
        return self._to_data_library(pl.DataFrame(columns))

    @property
    def efficiency(self) -> Any:
        """Standard errors without noise against those with it, by term; None where not known.

        `se_without_noise` is what the same records would have given as they were;
        `predicted` and `realised` are the shares of records that would do without noise, by
        corrected moments in large samples and by this fit.
        """
        rows = list(self.efficiency_rows)
        return self._to_data_library(pl.DataFrame(rows)) if rows else None

    def diagnostics_frame(self) -> pl.DataFrame:
        """What the fit leaves of each record: `fitted`, `residual`, `standardised`, `leverage`.

        They belong to the released (noised) records, in an order of their values and not in that
        of the file, and are approximate: what is expected of true values, given all that was
        released but the outcome, stands in their place, so that residuals are wider than without
        noise. Fitted values are means of the outcome, the effects of groups in them. Residuals
        are those of the outcome; standardised residuals are divided by their standard deviation
        (of generalised models: Pearson's). A record that lacks a noised value has nulls.
        """
        residuals = self.naive.residuals
        if residuals is None:
            raise SfumatoError(
                "This fit does not know its records.", hint="take one that `fit` returned."
            )
        return pl.DataFrame(dict(residuals(self.estimates.value))).fill_nan(None)

    def to_arviz(self) -> Any:
        """The draws for ArviZ: an InferenceData (ArviZ 0.x) or a DataTree (1.x).

        A fit with `pointwise=True` also has the groups `log_likelihood`, `posterior_predictive` and
        `observed_data`, with the rows of the released data as coordinates of records.
        """
        attributes = {"formula": self.formula, "family": self.family, "engine": self.engine}
        draws = self._require_draws("to_arviz")
        return _export_to_arviz(self.parameters, draws, attributes, self.pointwise)

    def loo(self) -> Any:
        """How well the outcome of a record is predicted that is left out (PSIS-LOO), by ArviZ.

        Pareto-smoothed importance sampling makes it from one fit. A Pareto k above 0.7 means that
        a record sways the fit so much that its part is unreliable.

        References: Vehtari, Gelman & Gabry (2017), Statistics and Computing 27:1413.
        """
        return self._ask_arviz("loo")

    def waic(self) -> Any:
        """The widely applicable information criterion, by ArviZ; `loo` also says when it fails."""
        return self._ask_arviz("waic")

    def _ask_arviz(self, criterion: str) -> Any:
        self.require_pointwise(criterion)
        compute = getattr(import_arviz(), criterion, None)
        if compute is None:
            raise SfumatoError(
                f"This version of ArviZ has no `{criterion}`.", hint="use `loo`, which does more."
            )
        return compute(self.to_arviz(), pointwise=True)

    def require_pointwise(self, what: str) -> Pointwise:
        """The likelihoods by record, or an error that says how to get them."""
        if self.pointwise is None:
            raise SfumatoError(
                f"This fit kept no likelihood by record, which `{what}` needs.",
                hint="fit with pointwise=True.",
            )
        return self.pointwise

    def plot_trace(self, terms: Sequence[str] | None = None) -> Picture:
        """The draws of each parameter in the order in which they were made, by chain."""
        from sfumato.figures.custodian.chains import draw_trace

        return draw_trace(self._select_draws(terms, "plot_trace"))

    def plot_ranks(self, terms: Sequence[str] | None = None) -> Picture:
        """How the ranks of each chain's draws are spread: evenly, if the chains agree."""
        from sfumato.figures.custodian.chains import draw_ranks

        return draw_ranks(self._select_draws(terms, "plot_ranks"))

    def plot_forest(
        self, terms: Sequence[str] | None = None, *, intercept: bool = False
    ) -> Picture:
        """The coefficients with their intervals, beside the naive ones."""
        from sfumato.figures.custodian.forest import draw_corrected_forest

        wanted = list(self.terms if terms is None else terms)
        known = {row["term"]: row for row in self.rows}
        self._require(wanted, known)
        if terms is None and not intercept and len(wanted) > 1:
            wanted = [name for name in wanted if name != "Intercept"]
        return draw_corrected_forest(
            [self._add_naive_interval(known[name]) for name in wanted], level=self.level
        )

    def _add_naive_interval(self, row: Mapping[str, Any]) -> dict[str, Any]:
        from scipy.special import ndtri

        name = row["term"]
        reach = float(ndtri((1 + self.level) / 2)) * self.naive.error.get(name, math.nan)
        return {
            **{key: row[key] for key in ("term", "mean", "low", "high", "naive")},
            "naive_low": row["naive"] - reach,
            "naive_high": row["naive"] + reach,
        }

    def _select_draws(self, terms: Sequence[str] | None, what: str) -> dict[str, Floats]:
        sampled = self._require_draws(what)
        draws = {name: sampled[:, :, index] for index, name in enumerate(self.parameters)}
        self._require(terms or (), draws)
        return draws if terms is None else {name: draws[name] for name in terms}

    def _require(self, terms: Sequence[str], known: Mapping[str, Any]) -> None:
        from sfumato.errors import did_you_mean

        for name in terms:
            if name not in known:
                raise SfumatoError(
                    f"The model has no term '{name}'.", hint=did_you_mean(name, known)
                )

    def _require_draws(self, what: str) -> Floats:
        if self.sampled is None:
            raise SfumatoError(
                f"A fit by method '{self.method}' has no draws, which `{what}` needs.",
                hint='fit with method="posterior".',
            )
        return self.sampled

    def _to_data_library(self, frame: pl.DataFrame) -> Any:
        return frame if self.data is None else self.data.like(frame)


def import_arviz() -> Any:
    """ArviZ, or an error that says how to get it."""
    try:
        with warnings.catch_warnings():
            # Version 0.x warns of version 1 when it is imported.
            warnings.simplefilter("ignore")
            return import_module("arviz")
    except ImportError:
        raise SfumatoError(
            "ArviZ is not installed.", hint="pip install arviz; or take `.draws`, a plain frame."
        ) from None


def _export_to_arviz(
    names: Sequence[str],
    draws: Floats,
    attributes: Mapping[str, Any],
    pointwise: Pointwise | None = None,
) -> Any:
    """Draws (chain, draw, parameter) as ArviZ takes them, with the draws of records beside them."""
    arviz = import_arviz()
    if pointwise is not None:
        # ArviZ relates draws of records to those of parameters, so both are the same.
        draws = draws[:, pointwise.interval - 1 :: pointwise.interval]
    groups: dict[str, Any] = {
        "posterior": {
            name: np.ascontiguousarray(draws[:, :, index]) for index, name in enumerate(names)
        }
    }
    more: dict[str, Any] = {}
    if pointwise is not None:
        groups["log_likelihood"] = {"outcome": pointwise.log_likelihood}
        groups["posterior_predictive"] = {"outcome": pointwise.predicted}
        groups["observed_data"] = {"outcome": pointwise.observed}
        more = {"coords": {"record": pointwise.rows}, "dims": {"outcome": ["record"]}}
    if int(arviz.__version__.partition(".")[0]) >= 1:
        # In a tree a slash parts a branch from its leaf.
        leaves = {name.replace("/", "\u2215"): x for name, x in groups["posterior"].items()}
        exported: Any = arviz.from_dict({**groups, "posterior": leaves}, **more)
    else:
        exported = arviz.from_dict(**groups, **more)
    exported["posterior"].attrs.update(attributes)
    return exported
