"""A first look at a release with the noise taken out: `explore`.

Question: what would means, spreads, shares, quantiles, densities and correlations of the original
have been, and how certain is that?
Means, standard deviations and correlations come from moments less those of the noise, wherever
noise was simply added. Quantiles, densities and shares come from the likelihood of what was
released; see `deconvolution`. All intervals are those of records drawn anew (bootstrap).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.analysis.deconvolution import Distribution, deconvolve, fit_free, measure_cliffs
from sfumato.analysis.measurement_error import (
    StratifiedNumber,
    build_category,
    build_number,
    covariance_between,
    is_noiseless,
    is_numeric_noise,
    strata_variables,
)
from sfumato.analysis.problem import Category, NoisyNumber
from sfumato.analysis.release_input import (
    ReleaseInput,
    open_once,
    read_release_input,
    require_descriptions,
)
from sfumato.cells.notation import format_value
from sfumato.engines.local import find_positions
from sfumato.errors import DataError, MeasureError, SfumatoError
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.kernels.exact_sums import canonical_order, use_one_thread
from sfumato.progress import Progress, current_progress, send_progress_to
from sfumato.schema import Column

if TYPE_CHECKING:
    from sfumato.figures.sheet.picture import Picture

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_DRAWS = 240
_FEWEST = 30
"""Records below which a distribution is not looked for."""
_POINTS = 161
_BINS_A_DEVIATION = 8
"""Observations this close to each other, in shares of the noise's SD, are taken together."""
_MOST_OBSERVATIONS = 3000
_MOST_WHOLE = 60
"""Whole numbers in a range up to which each of them is a point of its own."""
_WIDENED = 1.15
"""What quantiles and densities are widened by: smoothing leaves them some bias, which drawing
records anew does not show; see docs/explanation/explore.md."""
_MOSTLY_NOISE = 0.5
_MOST_EXCESS = 30.0
"""Twice the log likelihood by which the best distribution may beat the smooth one."""
_STEEP = 6.0
"""Twice the log likelihood that a distribution which breaks off may gain; see `measure_cliffs`."""
_MOST_LEVELS = 50


@dataclass(frozen=True, eq=False, kw_only=True)
class Exploration:
    """What the original is likely to have shown, variable by variable.

    Parameters
    ----------
    records : how many there are.
    level : of the intervals.
    rows : the summary of numbers: mean, SD, quantiles, each with its interval, and the naive one.
    share_rows : the shares of the levels of categories, likewise.
    correlation_rows : of each pair of numbers, likewise.
    densities : by number, its density on a grid, with limits.
    left_out : variables that were not looked at, with the reason.
    warnings : what to be wary of.
    """

    records: int
    level: float
    rows: tuple[Mapping[str, Any], ...] = field(repr=False)
    share_rows: tuple[Mapping[str, Any], ...] = field(repr=False)
    correlation_rows: tuple[Mapping[str, Any], ...] = field(repr=False)
    densities: Mapping[str, pl.DataFrame] = field(repr=False)
    left_out: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        numbers = len({row["variable"] for row in self.rows})
        categories = len({row["variable"] for row in self.share_rows})
        wary = f", {len(self.warnings)} warnings" if self.warnings else ""
        return (
            f"Exploration({self.records:,} records, {numbers} numbers, {categories} categories"
            f"{wary})"
        )

    def summary(self) -> Any:
        """A pandas frame of numbers: a row per variable and statistic."""
        return _to_pandas(self.rows, ["variable", "statistic"])

    def shares(self) -> Any:
        """A pandas frame of categories: a row per variable and level."""
        return _to_pandas(self.share_rows, ["variable", "level"])

    def correlations(self) -> Any:
        """A pandas frame of pairs of numbers."""
        return _to_pandas(self.correlation_rows, ["first", "second"])

    def density(self, variable: str) -> pl.DataFrame:
        """The density of a number: value, density, low, high, and the naive density."""
        if variable not in self.densities:
            raise SfumatoError(
                f"There is no density of '{variable}'.",
                hint=f"there are those of {', '.join(self.densities) or 'no variable'}.",
            )
        return self.densities[variable]

    def plot_density(self, variable: str) -> Picture:
        """The density of a number with its limits, beside that of the released values."""
        from sfumato.figures.custodian.densities import draw_corrected_density

        return draw_corrected_density(variable, self.density(variable), level=self.level)


def _to_pandas(rows: Sequence[Mapping[str, Any]], index: list[str]) -> Any:
    import pandas as pd

    return pd.DataFrame(list(rows), columns=None if rows else index).set_index(index)


def explore(  # noqa: PLR0913 - a look has as many choices
    release: Any,
    variables: Sequence[str] | None = None,
    *,
    noise: Mapping[str, Any] | None = None,
    clean: Collection[str] = (),
    weights: str | None = None,
    quantiles: Sequence[float] = QUANTILES,
    level: float = 0.95,
    seed: int = 0,
    accredited: Any = None,
    progress: Progress | None = None,
) -> Exploration:
    """Means, spreads, quantiles, densities, shares and correlations with the noise taken out.

    Question: what would the original have shown, and how certain is that?
    Assumes: the noise is as described. Densities are smooth: cliffs and spikes that are narrower
    than the noise come out rounded; declare the domain of a variable that ends somewhere. One
    record is one person.

    Parameters
    ----------
    release : what `protect` returned, the folder of a release, a file, or a frame with `noise`.
    variables : which to look at. Default: all that can be.
    noise : descriptions by variable, where no manifest has them.
    clean : variables to take as they are, though some method changed them.
    weights : the variable with sampling weights. Default: every record counts once.
    quantiles : which to estimate.
    level : probability level of the intervals.
    seed : seed of the resampling: the same seed, the same intervals.
    accredited : the manifest for accredited analysts, or where it lies.
    progress : called with what is being done, how much of it is done, and how much there is.

    Examples
    --------
    >>> import sfumato as sf
    >>> rng = np.random.default_rng(1)
    >>> frame = pl.DataFrame({"x": rng.normal(size=2000) + rng.normal(scale=0.7, size=2000)})
    >>> seen = explore(frame, noise={"x": sf.Gaussian(variance=0.49)})
    >>> seen.summary().loc[("x", "sd"), ["estimate", "naive"]].round(1).to_list()
    [1.0, 1.2]

    References: Fuller (1987), Measurement error models; Efron (2016), Empirical Bayes
    deconvolution estimates.
    """
    _check_options(quantiles, level)
    opened = open_once(release)
    if variables is None:
        names, untold = _find_readable_variables(opened, noise, accredited, clean)
    else:
        names, untold = list(dict.fromkeys(variables)), {}
    records = read_release_input(opened, noise, names, accredited, clean)
    records.data.schema.require([*names, *([weights] if weights else [])])
    if variables is not None:
        require_descriptions(records, names, (), clean)
    with send_progress_to(progress), use_one_thread(), np.errstate(all="ignore"):
        look = _Look(records, clean, weights, tuple(quantiles), level, seed)
        look.left_out |= untold
        return look.look(names, named=variables is not None)


def _check_options(quantiles: Sequence[float], level: float) -> None:
    if not 0 < level < 1:
        raise MeasureError("`level` lies between 0 and 1.", hint="level=0.95.")
    if not all(0 < share < 1 for share in quantiles):
        raise MeasureError("Quantiles lie between 0 and 1.", hint="quantiles=[0.25, 0.5, 0.75].")


def _find_readable_variables(
    release: Any, noise: Mapping[str, Any] | None, accredited: Any, clean: Collection[str]
) -> tuple[list[str], dict[str, str]]:
    """The variables whose noise is told, but for those that say who a record is; and the others."""
    data = getattr(release, "dataset", release)
    apart = {
        *data.schema.identifiers, *data.schema.having("weight"), *data.schema.having("cluster")
    }  # fmt: skip
    readable: list[str] = []
    untold: dict[str, str] = {}
    for name in data.columns:
        if name in apart:
            continue
        try:
            read_release_input(release, noise, [name], accredited, clean)
        except DataError as error:
            untold[name] = f"could not be looked at: {error.what.removesuffix('.')}"
        else:
            readable.append(name)
    if not readable:
        raise DataError(
            "None of these variables can be looked at.",
            hint=next(iter(untold.values()), "are there any?"),
        )
    return readable, untold


@dataclass(frozen=True, eq=False)
class _ReleasedNumber:
    """A number as it was released: on the scale of the noise, with what is known of the noise."""

    name: str
    number: NoisyNumber
    simple: bool
    """Whether noise was simply added, or there is none: moments can be corrected."""


class _Look:
    """One look at a release."""

    def __init__(
        self,
        records: ReleaseInput,
        clean: Collection[str],
        weights: str | None,
        quantiles: tuple[float, ...],
        level: float,
        seed: int,
    ) -> None:
        self.records, self.clean = records, set(clean)
        self.quantiles, self.level, self.seed = quantiles, level, seed
        self.warnings: list[str] = []
        self.left_out: dict[str, str] = {}
        self.weights = self._read_weights(weights)

    def _read_weights(self, name: str | None) -> Floats:
        count = len(self.records.data)
        if not count:
            raise DataError("There is no record in these data.", hint="is it the right file?")
        if name is None:
            return np.ones(count)
        column = self.records.data.column(name)
        if not column.dtype.is_numeric():
            raise DataError(f"The weights '{name}' are no numbers.", hint="name another variable.")
        weights: Floats = column.cast(pl.Float64).fill_null(math.nan).to_numpy()
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
            raise DataError(
                f"The weights '{name}' are not all numbers of 0 or more.",
                hint="leave out records without a weight.",
            )
        return weights

    def look(self, names: Sequence[str], *, named: bool) -> Exploration:
        tell, total = current_progress(), len(names)
        rows: list[Mapping[str, Any]] = []
        share_rows: list[Mapping[str, Any]] = []
        densities: dict[str, pl.DataFrame] = {}
        numbers: list[_ReleasedNumber] = []
        for done, name in enumerate(names):
            tell("taking the noise out", done, total)
            if reason := self._find_reason(name):
                if named:
                    raise DataError(f"Variable '{name}' {reason}.", hint="leave it out.")
                self.left_out[name] = reason
                continue
            try:
                number = self._read_number(name)
                if number is None:
                    share_rows += self._count_shares(name)
                    continue
                more, density = self._summarise(number)
            except (DataError, MeasureError) as error:
                if named:
                    raise
                self.left_out[name] = f"could not be looked at: {error.what.removesuffix('.')}"
                continue
            rows += more
            if density is not None:
                densities[name] = density
            numbers.append(number)
        return Exploration(
            records=len(self.records.data),
            level=self.level,
            rows=tuple(rows),
            share_rows=tuple(share_rows),
            correlation_rows=tuple(self._correlate(numbers)),
            densities=densities,
            left_out=self.left_out,
            warnings=tuple(self.warnings),
        )

    def _find_reason(self, name: str) -> str:
        """Why a variable cannot be looked at; empty if it can be."""
        if name in self.records.generalised:
            return "was released as ranges or sets; a model reads them (`sf.fit`)"
        methods = self.records.changed.get(name, ())
        if methods and name not in self.records.noise and name not in self.clean:
            return f"was changed by {', '.join(methods)}, and nothing says how to undo it"
        by = strata_variables(self.records.noise[name]) if name in self.records.noise else []
        moved = [
            other
            for other in by
            if other not in self.records.data.schema or other in self.records.noise
        ]
        return f"has noise that differs by '{moved[0]}', which is not known" if moved else ""

    def _read_number(self, name: str) -> _ReleasedNumber | None:
        """The variable as a number; None where it is a category."""
        column = self.records.data.column(name)
        noise = self.records.noise.get(name)
        if noise is None or is_noiseless(noise):
            kind = self.records.data.schema[name].kind
            if not column.dtype.is_numeric() or kind in ("nominal", "ordinal", "text"):
                return None
            values = self._to_floats(name, column)
            return _ReleasedNumber(
                name, NoisyNumber(name=name, observed=values, variance=0.0), simple=True
            )
        if not is_numeric_noise(noise):
            return None
        strata = self.records.data.batch(strata_variables(noise))
        number = build_number(name, self._to_floats(name, column), noise, strata=strata)
        simple = (
            number.scale is None
            and math.isinf(number.low)
            and math.isinf(number.high)
            and (number.growth is None or isinstance(number, StratifiedNumber))
        )
        return _ReleasedNumber(name, number, simple=simple)

    @staticmethod
    def _to_floats(name: str, column: pl.Series) -> Floats:
        if not column.dtype.is_numeric():
            raise DataError(
                f"Variable '{name}' is described as a number, and holds none.",
                hint="is it the description of these data?",
            )
        values: Floats = column.cast(pl.Float64).fill_null(math.nan).to_numpy()
        return np.where(np.isfinite(values), values, np.nan)

    def _summarise(
        self, variable: _ReleasedNumber
    ) -> tuple[list[Mapping[str, Any]], pl.DataFrame | None]:
        number, name = variable.number, variable.name
        known = np.flatnonzero(~np.isnan(number.observed))
        if len(known) < _FEWEST:
            raise DataError(
                f"Variable '{name}' has a value in fewer than {_FEWEST} records.",
                hint="a distribution needs more.",
            )
        # In an order of their values, so that resampling does not depend on that of the file.
        known = known[canonical_order([number.observed[known], self.weights[known]])]
        observed, weights = number.observed[known], self.weights[known]
        error = _get_variances(number)[known]
        multiples = self._resample(len(known), name)
        face = number.true(observed)
        naive = _describe_values(face, weights, self.quantiles)
        distribution = None
        if error.any():
            column = self.records.data.schema[name]
            distribution = self._deconvolve(number, column, known, multiples)
            estimates, drawn = self._read_off(number, distribution)
        else:
            estimates = naive
            drawn = np.stack(
                [_describe_values(face, weights * again, self.quantiles) for again in multiples]
            )
        if variable.simple:
            estimates, drawn = self._replace_moments(
                observed, weights, error, multiples, estimates, drawn, name
            )
        self._warn_of_noise(variable, distribution, error, weights, observed)
        low, high = self._find_limits(estimates, drawn, widened=bool(error.any()))
        labels = ["mean", "sd", *(f"q{share:g}" for share in self.quantiles)]
        noise_share = _get_noise_share(observed, weights, error) if variable.simple else math.nan
        rows: list[Mapping[str, Any]] = [
            {
                "variable": name,
                "statistic": label,
                "estimate": float(estimates[index]),
                "low": float(low[index]),
                "high": float(high[index]),
                "naive": float(naive[index]),
                "noise_share": noise_share,
            }
            for index, label in enumerate(labels)
        ]
        density = None
        if distribution is not None:
            density = self._draw_density(number, distribution, face, weights)
        return rows, density

    def _resample(self, count: int, name: str) -> Floats:
        """(draw, record): how often each record is in a sample drawn anew."""
        seed = [self.seed, *name.encode()]
        draws: Floats = (
            np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=_DRAWS)
        ).astype(float)
        return draws

    def _deconvolve(
        self, number: NoisyNumber, column: Column, known: Integers, multiples: Floats
    ) -> Distribution:
        observed, weights = number.observed[known], self.weights[known]
        variances = _get_variances(number)[known]
        points = _choose_points(number, column, observed)
        fine = math.sqrt(float(np.median(variances))) / _BINS_A_DEVIATION
        span = float(np.ptp(observed))
        fine = max(fine, span / _MOST_OBSERVATIONS, np.spacing(np.abs(observed).max()) * 4)
        stratified = isinstance(number, StratifiedNumber)
        keys = np.column_stack(
            [
                np.round(observed / fine),
                # What was set to a limit is another observation than what lies next to it.
                observed <= number.low,
                observed >= number.high,
                variances if stratified else np.zeros(len(known)),
            ]
        )
        _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        group = group.ravel()
        totals = np.bincount(group, weights)
        with np.errstate(invalid="ignore", divide="ignore"):
            centres = np.bincount(group, weights * observed) / totals
        centres = np.where(totals > 0, centres, observed[first])
        group_variances = variances[first] if stratified else None
        likelihood = np.exp(_get_log_likelihood(number, centres, points, group_variances))
        resampled = np.stack(
            [np.bincount(group, weights * again, minlength=len(totals)) for again in multiples]
        )
        # As many records as there are, whatever the unit of the weights; fewer where they vary.
        scale = weights.sum() / float((weights**2).sum())
        totals, resampled = totals * scale, resampled * scale
        distribution = deconvolve(likelihood, totals, points, resampled)
        if len(points) == _POINTS and math.isinf(number.low) and math.isinf(number.high):
            gains = measure_cliffs(likelihood, totals, distribution)
            self._warn_of_cliffs(number, column, gains)
        return distribution

    def _warn_of_cliffs(
        self, number: NoisyNumber, column: Column, gains: tuple[float, float, float]
    ) -> None:
        is_low, is_high = (not math.isfinite(end) for end in _read_domain(number, column))
        steep = {
            "low end": is_low and gains[0] > _STEEP,
            "high end": is_high and gains[1] > _STEEP,
            "ends": is_low and is_high and gains[2] > max(_STEEP, *gains[:2]),
        }
        if any(steep.values()):
            where = [name for name, holds in steep.items() if holds][-1]
            self.warnings.append(
                f"'{number.name}': its {where} may break off instead of running out; intervals of "
                "the outer quantiles are then too narrow. If the variable has a limit, declare it "
                "as its domain."
            )

    def _read_off(self, number: NoisyNumber, distribution: Distribution) -> tuple[Floats, Floats]:
        values = number.true(distribution.points)
        estimates = _describe_points(values, distribution.probability, self.quantiles)
        drawn = np.stack(
            [_describe_points(values, draw, self.quantiles) for draw in distribution.draws]
        )
        return estimates, drawn

    def _replace_moments(
        self,
        observed: Floats,
        weights: Floats,
        error: Floats,
        multiples: Floats,
        estimates: Floats,
        drawn: Floats,
        name: str,
    ) -> tuple[Floats, Floats]:
        """Mean and SD by moments less those of the noise, which assume no smoothness."""

        def moments(counted: Floats) -> tuple[float, float]:
            total = counted.sum()
            mean = float(counted @ observed) / total
            spread = float(counted @ (observed - mean) ** 2) / total * _free(counted)
            variance = spread - float(counted @ error) / total
            return mean, math.sqrt(max(variance, 0.0))

        estimates, drawn = estimates.copy(), drawn.copy()
        estimates[:2] = moments(weights)
        drawn[:, :2] = [moments(weights * again) for again in multiples]
        if estimates[1] == 0:
            self.warnings.append(
                f"'{name}': the released values vary no more than their noise, so nothing can be "
                "said of how the true ones vary."
            )
        return estimates, drawn

    def _warn_of_noise(
        self,
        variable: _ReleasedNumber,
        distribution: Distribution | None,
        error: Floats,
        weights: Floats,
        observed: Floats,
    ) -> None:
        if distribution is None:
            return
        share = _get_noise_share(observed, weights, error)
        if share > _MOSTLY_NOISE:
            self.warnings.append(
                f"'{variable.name}': {share:.0%} of the variance of the released values is noise. "
                "Its quantiles and density lean on their being smooth."
            )
        if distribution.excess > _MOST_EXCESS:
            self.warnings.append(
                f"'{variable.name}': no smooth distribution explains the released values as well "
                "as one with spikes or gaps. Its quantiles and density are too smooth."
            )

    def _find_limits(
        self, estimates: Floats, drawn: Floats, *, widened: bool
    ) -> tuple[Floats, Floats]:
        tails = [(1 - self.level) / 2, (1 + self.level) / 2]
        low, high = np.quantile(drawn, tails, axis=0)
        if widened:
            # Not the moments, which have no such bias.
            by = np.full(estimates.shape, _WIDENED)
            by[:2] = 1.0
            low, high = estimates - by * (estimates - low), estimates + by * (high - estimates)
        return np.minimum(low, estimates), np.maximum(high, estimates)

    def _draw_density(
        self, number: NoisyNumber, distribution: Distribution, face: Floats, weights: Floats
    ) -> pl.DataFrame:
        values = number.true(distribution.points)
        edges = number.true(_get_edges(distribution.points))
        width = np.diff(edges)
        density = distribution.probability / width
        tails = [(1 - self.level) / 2, (1 + self.level) / 2]
        low, high = np.quantile(distribution.draws / width, tails, axis=0)
        low, high = (density + _WIDENED * (limit - density) for limit in (low, high))
        counted, _ = np.histogram(face, bins=edges, weights=weights)
        smooth = _smooth(counted / weights.sum() / width)
        return pl.DataFrame(
            {
                "value": values,
                "density": density,
                "low": np.clip(np.minimum(low, density), 0, None),
                "high": np.maximum(high, density),
                "naive": smooth,
            }
        )

    def _count_shares(self, name: str) -> list[Mapping[str, Any]]:
        column, noise = self.records.data.column(name), self.records.noise.get(name)
        if noise is None or is_noiseless(noise):
            levels = column.drop_nulls().unique().sort().to_list()
            if len(levels) > _MOST_LEVELS:
                self.left_out[name] = f"has more than {_MOST_LEVELS} levels"
                return []
            positions = find_positions(column, pl.Series(levels, dtype=column.dtype))
            codes: Integers = positions.cast(pl.Int64).fill_null(-1).to_numpy()
            labels = [format_value(level) for level in levels]
            likelihood: Floats = np.eye(len(levels))[np.maximum(codes, 0)]
            known: Mask = codes >= 0
        else:
            strata = self.records.data.batch(strata_variables(noise))
            category: Category = build_category(name, column, noise, strata)
            labels, likelihood = list(category.levels), np.exp(category.density)
            known = ~column.is_null().to_numpy()
        if not labels or known.sum() < _FEWEST:
            raise DataError(
                f"Variable '{name}' has a value in fewer than {_FEWEST} records.",
                hint="shares need more.",
            )
        likelihood, weights = likelihood[known], self.weights[known]
        alike, row_of = np.unique(likelihood, axis=0, return_inverse=True)
        row_of = row_of.ravel()
        order = np.lexsort((weights, row_of))
        row_of, weights = row_of[order], weights[order]
        multiples = self._resample(len(row_of), name)

        def count(counted: Floats) -> Floats:
            return np.bincount(row_of, counted, minlength=len(alike)).astype(np.float64)

        share = fit_free(alike, count(weights))
        drawn = np.stack([fit_free(alike, count(weights * again)) for again in multiples])
        tails = [(1 - self.level) / 2, (1 + self.level) / 2]
        low, high = np.quantile(drawn, tails, axis=0)
        face = np.bincount(likelihood[order].argmax(axis=1), weights, minlength=len(labels))
        naive = face / weights.sum()
        return [
            {
                "variable": name,
                "level": label,
                "share": float(share[index]),
                "low": float(min(low[index], share[index])),
                "high": float(max(high[index], share[index])),
                "naive": float(naive[index]),
            }
            for index, label in enumerate(labels)
        ]

    def _correlate(self, numbers: Sequence[_ReleasedNumber]) -> list[Mapping[str, Any]]:
        from scipy.special import ndtri

        reach = float(ndtri((1 + self.level) / 2))
        rows: list[Mapping[str, Any]] = []
        simple = [number for number in numbers if number.simple]
        for index, second in enumerate(simple):
            for first in simple[:index]:
                known = ~np.isnan(first.number.observed) & ~np.isnan(second.number.observed)
                if known.sum() < _FEWEST:
                    continue
                estimate, error, naive = self._correlate_pair(first, second, known)
                depth = math.atanh(np.clip(estimate, -0.999999, 0.999999))
                by = reach * error / max(1 - min(estimate**2, 0.999999), 1e-6)
                rows.append(
                    {
                        "first": first.name,
                        "second": second.name,
                        "correlation": estimate,
                        "low": math.tanh(depth - by) if math.isfinite(by) else math.nan,
                        "high": math.tanh(depth + by) if math.isfinite(by) else math.nan,
                        "naive": naive,
                    }
                )
        if len(simple) < len(numbers):
            others = ", ".join(f"'{other.name}'" for other in numbers if not other.simple)
            self.left_out["correlations"] = (
                f"are not there for {others}: their noise was added on another scale, grows with "
                "the value, or was cut off at a limit"
            )
        return rows

    def _correlate_pair(
        self, first: _ReleasedNumber, second: _ReleasedNumber, known: Any
    ) -> tuple[float, float, float]:
        """The corrected correlation, its standard error by influence, and the naive one."""
        weights = self.weights[known] / self.weights[known].sum()
        values = [variable.number.observed[known] for variable in (first, second)]
        centred = [value - weights @ value for value in values]
        errors = [_get_variances(variable.number)[known] for variable in (first, second)]
        shared = _get_shared_variance(first.number, second.number, self.records)[known]
        products = np.stack([centred[0] ** 2, centred[1] ** 2, centred[0] * centred[1]])
        noises = np.stack([errors[0], errors[1], shared])
        raw, true = products @ weights, (products - noises) @ weights
        naive = raw[2] / math.sqrt(raw[0] * raw[1]) if raw[0] > 0 and raw[1] > 0 else math.nan
        if true[0] <= 0 or true[1] <= 0:
            return math.nan, math.nan, naive
        estimate = true[2] / math.sqrt(true[0] * true[1])
        parts = products - noises - true[:, None]
        influence = parts[2] / math.sqrt(true[0] * true[1]) - estimate / 2 * (
            parts[0] / true[0] + parts[1] / true[1]
        )
        error = math.sqrt(float(weights**2 @ influence**2))
        return float(np.clip(estimate, -1, 1)), error, float(naive)


def _get_variances(number: NoisyNumber) -> Floats:
    """The variance of each record's noise; where it grows with the true value, at the released."""
    if number.growth is None:
        return np.full(len(number.observed), number.variance or 0.0)
    return np.asarray(number.growth.variance(number.observed), float)


def _get_shared_variance(first: NoisyNumber, second: NoisyNumber, records: ReleaseInput) -> Floats:
    if isinstance(first, StratifiedNumber):
        return first.covariance_with(second)
    if first.name not in records.noise or second.name not in records.noise:
        return np.zeros(len(first.observed))
    shared = covariance_between(records.noise, first.name, second.name)
    return np.full(len(first.observed), shared)


def _get_noise_share(observed: Floats, weights: Floats, error: Floats) -> float:
    mean = weights @ observed / weights.sum()
    spread = weights @ (observed - mean) ** 2
    return float(min(weights @ error / spread, 1.0)) if spread > 0 else 0.0


def _free(weights: Floats) -> float:
    """What makes a weighted variance unbiased."""
    share = weights / weights.sum()
    return 1 / max(1 - float(share @ share), 1e-12)


def _choose_points(number: NoisyNumber, column: Column, observed: Floats) -> Floats:
    """The true values that are considered, on the scale of the noise."""
    low, high = float(observed.min()), float(observed.max())
    # Beyond a limit to which values were set, nobody knows how far they lay.
    beyond = (high - low) / 2
    low -= beyond if math.isfinite(number.low) else 0.0
    high += beyond if math.isfinite(number.high) else 0.0
    ends = _read_domain(number, column)
    low, high = max(low, ends[0]), min(high, ends[1])
    if not low < high:
        raise DataError(
            f"The released values of '{number.name}' lie outside its domain, or are all the same.",
            hint="is the domain declared for these data?",
        )
    if column.kind == "integer" and number.scale is None and high - low <= _MOST_WHOLE:
        integers = np.arange(math.floor(low), math.ceil(high) + 1, dtype=float)
        if len(integers) >= 5:  # noqa: PLR2004 - fewer bend no spline
            return integers
    return np.linspace(low, high, _POINTS)


def _read_domain(number: NoisyNumber, column: Column) -> tuple[float, float]:
    """The declared ends of a variable on the scale of the noise; infinite where there is none."""
    bounds = column.domain if column.kind in ("integer", "continuous") else None
    if bounds is None or len(bounds) != 2:  # noqa: PLR2004
        return -math.inf, math.inf
    ends = np.array([float(bounds[0]), float(bounds[1])])
    if number.scale is not None:
        with np.errstate(all="ignore"):
            ends = number.scale.forth(ends)
    low, high = np.where(np.isfinite(ends), ends, [-math.inf, math.inf])
    return float(low), float(high)


def _get_log_likelihood(
    number: NoisyNumber, observed: Floats, points: Floats, variances: Floats | None
) -> Floats:
    """(observation, point): the log density, or probability, of what was released."""
    from scipy.stats import laplace, norm

    if variances is not None:
        sd = np.sqrt(variances)[:, None]
    elif number.growth is not None:
        sd = np.sqrt(number.growth.variance(points))[None, :]
    else:
        sd = np.full((1, 1), math.sqrt(number.variance or 0.0))
    family, scale = (laplace, sd / math.sqrt(2)) if number.laplace else (norm, sd)
    scale = np.maximum(scale, 1e-12)
    if number.width:
        ends = observed[:, None] - number.width / 2, observed[:, None] + number.width / 2
        probability = family.cdf(ends[1], points, scale) - family.cdf(ends[0], points, scale)
        log = np.log(np.maximum(probability, 1e-300))
    else:
        log = family.logpdf(observed[:, None], points, scale)
    # What was rounded to a limit lay up to half a step within it.
    half = number.width / 2
    if math.isfinite(number.low):
        below = family.logcdf(number.low + half, points, scale)
        log = np.where((observed <= number.low)[:, None], below, log)
    if math.isfinite(number.high):
        above = family.logsf(number.high - half, points, scale)
        log = np.where((observed >= number.high)[:, None], above, log)
    return np.asarray(log - log.max(axis=1, keepdims=True), float)


def _get_edges(points: Floats) -> Floats:
    middles = (points[1:] + points[:-1]) / 2
    first, last = points[0] - (middles[0] - points[0]), points[-1] + (points[-1] - middles[-1])
    return np.concatenate([[first], middles, [last]])


def _describe_points(values: Floats, probability: Floats, quantiles: Sequence[float]) -> Floats:
    """Mean, SD and quantiles of a distribution on points, each the middle of an interval."""
    mean = float(probability @ values)
    sd = math.sqrt(max(float(probability @ (values - mean) ** 2), 0.0))
    cumulated = np.concatenate([[0.0], np.cumsum(probability)])
    return np.array([mean, sd, *np.interp(quantiles, cumulated, _get_edges(values))])


def _describe_values(values: Floats, weights: Floats, quantiles: Sequence[float]) -> Floats:
    """Mean, SD and quantiles of weighted values."""
    total = weights.sum()
    mean = float(weights @ values) / total
    variance = float(weights @ (values - mean) ** 2) / total * _free(weights)
    order = np.argsort(values, kind="stable")
    cumulated = (np.cumsum(weights[order]) - weights[order] / 2) / total
    return np.array(
        [mean, math.sqrt(max(variance, 0.0)), *np.interp(quantiles, cumulated, values[order])]
    )


def _smooth(density: Floats) -> Floats:
    """A histogram of many bins as a line."""
    kernel = np.exp(-0.5 * (np.arange(-8, 9) / 3) ** 2)
    padded = np.convolve(density, kernel / kernel.sum(), mode="same")
    return np.asarray(padded, float)
