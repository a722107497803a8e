"""Add noise of known distribution."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from sfumato.data import Dataset
from sfumato.engines import Chance, Engine
from sfumato.engines.summaries import Count, Deviation, Maximum, Minimum, Summary, Transformed
from sfumato.errors import MethodError, WeakProtectionWarning, did_you_mean
from sfumato.method import Fitted, RowWise, Strength, is_integer, require_draws, require_numbers
from sfumato.methods._noise.summaries import LEAST_RECORDS, fit_knots, least_variance
from sfumato.methods._publishing.digits import (
    LEAST_DIGITS,
    find_step,
    fit_steps,
    get_largest,
    list_sizes,
    round_digits,
    round_to_step,
    step_over_codes,
)
from sfumato.methods._publishing.preferred_numbers import round_up_to_preferred_number
from sfumato.methods.persons import (
    BY_PERSON,
    describe_draws_by,
    draw_for_variable,
    list_once,
    mark_constant,
)
from sfumato.noise.description import Gaussian, Laplace, read_description
from sfumato.noise.description import NoiseDescription as Described
from sfumato.noise.scales import Finite, Growth, Scale
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Column, Schema

Size = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]
ScaleName = Literal["log", "square_root", "logit", "rank_normal"]
_SIZES = ("variance", "variance_share", "sd_share", "growth")
_TABLES = (*_SIZES, "scale", "shift", "at_least", "at_most", "keep")
_FEWEST_KNOTS = 5
_TENTH = 0.1


@parameters
class Noise(RowWise):
    """Add independent noise of known distribution to numbers: released = original + noise.

    Question: how can nobody be sure of a value, and every model still be estimated?
    Assumes: analysts take the noise out again (`sf.fit`, or any method for measurement error),
    for which its description is published. Without that, slopes come out too small. How much
    noise protects is not known beforehand: measure `h_index`, and set a target.

    Give exactly one of `variance`, `variance_share`, `sd_share` and `growth`. The noise of a
    value belongs to the record and the key: no order of rows and no second release under the
    same key draws it anew. A larger variance is the same noise and more. Where rows belong to
    persons (role "person"), a variable that is constant within every person gets its noise once
    for each person, and stays constant; the manifest says which.

    Parameters
    ----------
    variables : the numbers to perturb. Default: all numbers whose role is "sensitive".
    variance : variance of the noise; one for all, or a table by variable.
    variance_share : variance of the noise as a share of the original's: 0.1 is a tenth. The
        variance is rounded up to a preferred number (ISO 3), by 3.6 % at most from 1000 records on,
        by 60 % at most below 80: it is published, and must not tell a record.
    sd_share : SD of the noise, as a share of the original's: 0.1 is a variance share of 0.01.
        Rounded in the same way.
    growth : how the variance of the noise grows with the value; see `sf.Growth`.
    distribution : distribution of the noise: "gaussian", or "laplace", which has more very small
        and very large noise.
    scale : scale on which noise is added, for skewed variables; one for all, or a table by
        variable. Variances then are those on the scale. "logit" takes its ends from the declared
        domain.
    shift : constant added before "log" or "square_root" is taken.
    at_least : lowest released value: what lies below is set to it.
    at_most : highest released value: what lies above is set to it.
    bounds : values outside the domain: "declared" keeps released values in the domain that the
        schema declares.
    keep : values that stay as they are, such as 0 for none: one list for all, or a table by
        variable. Who has such a value is then known; noise leads nobody there.
    whole : whole numbers stay whole numbers: the released value is rounded. Others are rounded to
        the decimals that nearly all original values have, or that the schema declares (`digits`).

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> data = sf.Dataset(pl.DataFrame({"bmi": [22.5, 31.0]}), sf.Schema({"bmi": "quasi"}))
    >>> noise = Noise(variables=["bmi"], variance=4)
    >>> noise.apply(data, key=bytes(32)).frame["bmi"].to_list()
    [...]
    >>> Noise(variables=["bmi"], sd_share=0.5).fit(data, sf.engines.engine_for(data.frame))
    {'bmi': {'distribution': 'gaussian', 'variance': 10.0, 'whole': False, 'step': 0.1}}

    References: Goldstein & Shlomo (2020), J. Official Statistics 36:89, sections 2 and 10.
    """

    name = "noise"
    runs_on = ("local", "streaming", "spark")
    strength = Strength("variance_share")
    tiered = ("variance", "variance_share", "sd_share")
    preserves = ("repeated readings", "support points", "extremes")
    keyed = True
    odd = {
        "empty": (0, 1, 2),
        "one row": (0, 1, 2),
        "all missing": (0, 1, 2),
        "constant": (0, 1, 2),
    }
    examples = (
        {"variables": ["systolic", "glucose"], "variance_share": 0.1},
        {"variables": ["height", "income"], "sd_share": 0.3, "scale": {"income": "log"},
         "shift": {"income": 1.0}, "at_most": {"income": 200_000.0}},
        {"variables": ["income"], "variance_share": 0.2, "scale": "rank_normal"},
        {"variables": ["exam_score"], "distribution": "laplace",
         "growth": {"form": "power", "constant": 1.0, "slope": 0.005, "power": 2.0}},
    )  # fmt: skip
    variables: Annotated[list[str], Field(min_length=1)] | None = None
    variance: Size | dict[str, Size] | None = None
    variance_share: Share | dict[str, Share] | None = None
    sd_share: Share | dict[str, Share] | None = None
    growth: Growth | dict[str, Growth] | None = None
    distribution: Literal["gaussian", "laplace"] = "gaussian"
    scale: ScaleName | dict[str, ScaleName] | None = None
    shift: Finite | dict[str, Finite] | None = None
    at_least: Finite | dict[str, Finite] | None = None
    at_most: Finite | dict[str, Finite] | None = None
    bounds: Literal["declared", "ignore"] = "declared"
    keep: list[Finite] | dict[str, list[Finite]] | None = None
    whole: bool = True

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        sizes = [size for size in _SIZES if getattr(self, size) is not None]
        if len(sizes) != 1:
            msg = f"give exactly one of {', '.join(_SIZES)}."
            raise ValueError(msg)
        for table in _TABLES:
            by_variable = getattr(self, table)
            if not isinstance(by_variable, dict):
                continue
            if self.variables is None:
                if table in _SIZES:
                    msg = f"{table} names variables, so `variables` must name them too."
                    raise ValueError(msg)
                continue
            for name in by_variable:
                if name not in self.variables:
                    hint = did_you_mean(name, self.variables)
                    msg = f"{table} names '{name}', which is none of the variables. Hint: {hint}"
                    raise ValueError(msg)
            if table in _SIZES and len(by_variable) != len(self.variables):
                msg = f"{table} must name every variable."
                raise ValueError(msg)
        return self

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The variables as named, or what nobody should learn, as far as it is numbers."""
        if self.variables is not None:
            return tuple(self.variables)
        numbers = schema.of_kind("continuous", "integer")
        return tuple(
            name
            for name in schema.having("sensitive")
            if name in numbers and not schema[name].generalised
        )

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """The description of each variable's noise."""
        names = self.touches(data.schema)
        data = self._set_kept_aside(data, names)
        if not names:
            raise MethodError(
                "There is no number to add noise to.",
                hint='give a number the role "sensitive", name it in `variables`, or take the '
                "step out.",
            )
        require_numbers(data, names, "Noise", dates=False, engine=engine)
        _require_numbers(data, names)
        ends: list[Summary] = [Count(), Minimum(), Maximum()]
        summary = engine.aggregate(data, dict.fromkeys(names, ends))
        scales = {name: self._fit_scale(name, data, summary[name], engine) for name in names}
        sizes: dict[str, list[Summary]] = {
            name: list(self._list_summaries(name, scales[name])) for name in names
        }
        measured = engine.aggregate(data, sizes)
        steps = fit_steps(data, names, engine)
        fitted = {
            name: self._describe_variable(
                name, data, scales[name], summary[name], list(measured[name].values()), steps[name]
            ).plain()
            for name in names
        }
        return mark_constant(fitted, data, engine)

    def _set_kept_aside(self, data: Dataset, names: Iterable[str]) -> Dataset:
        """The records with the values that stay declared as codes: codes are never touched."""
        kept = {name: _value_of(self.keep, name) for name in names}
        columns = {
            name: replace(data.schema[name], missing=(*data.schema[name].missing, *values))
            for name, values in kept.items()
            if values
        }
        return data.with_schema(data.schema.with_columns(columns)) if columns else data

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """The numbers, and whose they are."""
        return tuple(dict.fromkeys((*self.touches(schema), *schema.having("person", "cluster"))))

    def _fit_scale(
        self, name: str, data: Dataset, summary: Mapping[str, Any], engine: Engine
    ) -> Scale | None:
        wanted: ScaleName | None = _value_of(self.scale, name)
        if wanted is None:
            return None
        fields: dict[str, Any] = {"shift": _value_of(self.shift, name) or 0.0}
        if wanted == "logit":
            fields = _logit_ends(name, data.schema[name], integers=is_integer(data, name))
        if wanted == "rank_normal":
            fields = fit_knots(data, name, engine)
            if len(fields["values"]) < _FEWEST_KNOTS:
                raise MethodError(
                    f"Variable '{name}' has too few records or too few different values for a "
                    f"scale by ranks: a knot stands for at least {LEAST_RECORDS} records.",
                    hint="take another scale, such as log.",
                )
        scale = Scale(name=wanted, **fields)
        if summary["count"] and not scale.holds(np.array([summary["min"], summary["max"]])).all():
            hint = "give a shift that makes every value positive, or declare the domain."
            if wanted == "logit":
                hint = "declare a wider domain, or take another scale."
            what = f"Variable '{name}' has values that have no place on the scale '{wanted}'."
            raise MethodError(what, hint=hint)
        return scale

    def _list_summaries(self, name: str, scale: Scale | None) -> tuple[Summary, ...]:
        """What must be known of a variable on the scale of the noise."""
        if self.variance is not None:
            return ()
        growth = _value_of(self.growth, name)
        summary: Summary = Deviation() if growth is None else least_variance(growth)
        if scale is None:
            return (summary,)
        return (Transformed(scale.forth, summary, "on the scale"),)

    def _describe_variable(
        self,
        name: str,
        data: Dataset,
        scale: Scale | None,
        summary: Mapping[str, Any],
        measured: list[float],
        step: float,
    ) -> Gaussian:
        integers, digits = is_integer(data, name), data.schema[name].digits
        whole = self.whole and integers and not digits
        if integers and digits is None:
            step = min(step, _TENTH)
        size: dict[str, Any] = {"variance": _value_of(self.variance, name)}
        if self.growth is not None:
            size = {"growth": _value_of(self.growth, name)}
            _require_noise(name, Gaussian(**size), measured[-1])
        elif self.variance is None:
            size = {"variance": self._fit_share(name, summary, measured[-1])}
        low, high = self._find_limits(name, data.schema[name], whole=whole)
        kind = Laplace if self.distribution == "laplace" else Gaussian
        keep = _value_of(self.keep, name) or None
        if whole or not step:
            return kind(**size, scale=scale, at_least=low, at_most=high, whole=whole, keep=keep)
        return kind(**size, scale=scale, at_least=low, at_most=high, step=step, keep=keep)

    def _fit_share(self, name: str, summary: Mapping[str, Any], deviation: float) -> float:
        if summary["count"] == 0 or summary["min"] == summary["max"] or not deviation > 0:
            raise MethodError(
                f"Variable '{name}' does not vary, so a share of its variance is no noise.",
                hint="leave it out, or give the variance itself.",
            )
        share = _value_of(self.variance_share, name)
        wanted = (
            deviation**2 * share
            if share
            else (deviation * (_value_of(self.sd_share, name) or 0)) ** 2
        )
        if not 0 < wanted < math.inf:
            raise MethodError(
                f"Variable '{name}' varies too much or too little to be computed with.",
                hint="take another unit, such as millions.",
            )
        # Published, so rounded: two exact variances, of n records and of n - 1, tell how far the
        # person that makes the difference is from the mean. Upwards: never less than was asked for.
        return round_up_to_preferred_number(wanted, int(summary["count"]))

    def _find_limits(
        self, name: str, column: Column, *, whole: bool
    ) -> tuple[float | None, float | None]:
        """Where released values end, on either side: constants given, and the declared domain."""
        low, high = _value_of(self.at_least, name), _value_of(self.at_most, name)
        if self.bounds == "declared" and column.bounds is not None:
            least, most = column.bounds
            low = float(least) if low is None else max(low, float(least))
            high = float(most) if high is None else min(high, float(most))
        if whole:
            low = None if low is None else float(math.ceil(low))
            high = None if high is None else float(math.floor(high))
        if low is not None and high is not None and low > high:
            raise MethodError(
                f"Variable '{name}': no value lies between the limits.",
                hint="at_least must lie below at_most, and both within the declared domain.",
            )
        return low, high

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Perturbed values for a batch of records."""
        draws = require_draws(draws, "Noise")
        from sfumato.methods._noise.drawing import draw_noise

        return pl.DataFrame(
            [
                draw_noise(
                    batch[name],
                    _read_noise(name, fit),
                    draw_for_variable(draws, batch, fit.get(BY_PERSON)),
                )
                for name, fit in fitted.items()
            ]
        )

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Add the noise, and round fractions to digits that tell nothing of it."""
        from sfumato.methods._noise.drawing import require_room

        declared = data.schema
        data = self._set_kept_aside(data, fitted)
        schema = data.schema
        noises = {name: _read_noise(name, fit) for name, fit in fitted.items()}

        def draw_batch(batch: pl.DataFrame, draws: Draws | None) -> pl.DataFrame:
            # Here a missing value is missing; once released, it is a code like any number.
            noised = self.rows(batch, fitted, draws)
            return noised.select(
                step_over_codes(noised[name], schema[name])
                if isinstance(noise, Gaussian) and noise.whole
                else noised[name]
                for name, noise in noises.items()
            )

        noised = engine.map_rows(data, draw_batch, reads=self.reads(schema), chance=chance)
        noised = replace(noised, schema=self.reschema(schema, fitted))
        types = {name: data.dtype(name) for name in fitted}
        sizes = engine.aggregate(noised, {name: _list_sizes(noises[name]) for name in fitted})
        for name, noise in noises.items():
            if isinstance(noise, Gaussian) and not noise.whole:
                largest = get_largest(sizes[name])
                require_room(name, noise, largest, find_step(largest), types[name])
                _warn_of_rounding(name, noise, sizes[name])

        def round_batch(batch: pl.DataFrame, draws: Draws | None) -> pl.DataFrame:
            del draws
            columns = []
            for name, noise in noises.items():
                values = _round_values(batch[name], noise, schema[name], sizes[name])
                columns.append(values.cast(types[name]) if types[name].is_float() else values)
            return pl.DataFrame(columns)

        rounded = engine.map_rows(noised, round_batch, reads=tuple(fitted))
        if schema is declared:
            return rounded
        # What was set aside for a while is a value again.
        back = {
            name: replace(rounded.schema[name], missing=declared[name].missing) for name in fitted
        }
        return replace(rounded, schema=rounded.schema.with_columns(back))

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """Whole numbers may have become others, and values may lie beyond the domain."""
        fractions = [name for name in fitted if not fitted[name]["whole"]]
        integers = [name for name in fractions if schema[name].kind == "integer"]
        changed = schema.changed(integers, kind="continuous")
        return changed.changed(fitted, domain=None) if self.bounds == "ignore" else changed

    def describes(self, fitted: Fitted, schema: Schema) -> dict[str, Described]:
        """The noise of each variable."""
        del schema
        return {name: _read_noise(name, fit) for name, fit in fitted.items()}

    def follows(self, fitted: Fitted) -> dict[str, dict[str, Any]]:
        """Shape and scale of the noise of each variable, and how it grows; not its size.

        But that of Laplace noise: several sizes of it show who got little of it.
        """
        parts = ["distribution", "scale", "growth"]
        if self.distribution == "laplace":
            parts.append("variance")
        return {
            name: {
                "method": self.name,
                **{part: fit.get(part) for part in parts},
                **describe_draws_by(fit),
            }
            for name, fit in fitted.items()
        }

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Which variables have noise. What noise stands in the manifest under `noise`."""
        return {"method": self.name, "variables": list(fitted), **list_once(fitted)}


def _read_noise(name: str, fit: Mapping[str, Any]) -> Described:
    return read_description(name, {part: fit[part] for part in fit if part != BY_PERSON})


def _value_of(parameter: Any, name: str) -> Any:
    """A parameter of one variable: the same for all, or its own in a table."""
    return parameter.get(name) if isinstance(parameter, dict) else parameter


def _require_noise(name: str, noise: Gaussian, least: float) -> None:
    from sfumato.methods._noise.drawing import is_next_to_none

    if least <= 0 or is_next_to_none(noise, least):
        raise MethodError(
            f"Some values of variable '{name}' would get no noise at all, or next to none.",
            hint="give the growth a constant above 0.",
        )


def _list_sizes(noise: Described) -> list[Summary]:
    """What must be known of the noised numbers before they are rounded."""
    if not isinstance(noise, Gaussian):
        return []
    growth: list[Summary] = [] if noise.growth is None else [least_variance(noise.growth)]
    return [*list_sizes(relative=noise.scale is not None), *growth]


def _round_values(
    values: pl.Series, noise: Described, column: Column, sizes: Mapping[str, Any]
) -> pl.Series:
    if not isinstance(noise, Gaussian) or noise.whole:
        return values
    if noise.step:
        # Small numbers have little noise on another scale, which must not be rounded away.
        least_digits = 0 if noise.scale is None else LEAST_DIGITS
        values = round_to_step(values, noise.step, column, least_digits=least_digits)
    else:
        values = round_digits(values, sizes, relative=noise.scale is not None)
    return values.clip(noise.at_least, noise.at_most)


def _warn_of_rounding(name: str, noise: Gaussian, sizes: Mapping[str, Any]) -> None:
    """Say so where the last released digit is larger than the noise that some value gets."""
    if not noise.step:
        return
    least = noise.variance if noise.growth is None else sizes[least_variance(noise.growth).name]
    # On another scale small values keep digits of their own.
    if noise.scale is None and noise.step**2 > (least or 0.0):
        warnings.warn(
            f"Variable '{name}': the noise is smaller than the last digit that is released, and "
            "rounding leaves many values as they were. Give more noise, or declare more digits.",
            WeakProtectionWarning,
            stacklevel=4,
        )


def _require_numbers(data: Dataset, names: Iterable[str]) -> None:
    for name in names:
        if data.schema[name].kind in ("nominal", "ordinal"):
            raise MethodError(
                f"Variable '{name}' is declared as categories; noise is for measured numbers.",
                hint='use the method "code_noise" or "misclassify", or declare another kind.',
            )


def _logit_ends(name: str, column: Column, *, integers: bool) -> dict[str, float]:
    if column.bounds is None:
        raise MethodError(
            f"Variable '{name}' has no declared domain, so its logit has no ends.",
            hint="declare one in the schema, such as domain = [0, 100].",
        )
    # The ends themselves have no logit; whole numbers reach half a unit beyond theirs.
    beyond = 0.5 if integers else 0.0
    return {"low": float(column.bounds[0]) - beyond, "high": float(column.bounds[1]) + beyond}
