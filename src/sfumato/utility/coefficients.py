"""Whether a regression says the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field, field_validator

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import use_one_thread
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.pairs.alignment import quote_names
from sfumato.parameters import parameters
from sfumato.utility.models.distributed import fit_both_by_passes
from sfumato.utility.models.fitting import Family
from sfumato.utility.models.formula import read_formula
from sfumato.utility.models.regression import RegressionPair, fit_both

_SAME_MODEL = (
    "An analyst fits this model to the released records as if they were the original ones; "
    "categories are compared with the first level of the original."
)
_AVERAGED = (
    "Released cells that stand for several values (ranges, sets, masks, groups) enter the model "
    "with the average of its terms over the cell, all values alike likely: {}. `sf.fit` does "
    "better: it lets the model say which values are likely."
)
_PLAIN = "Records are taken as independent; survey weights and clusters are not used."
_WEIGHTED = (
    "Estimates are weighted, and standard errors those of a survey whose records were drawn one by "
    "one; clusters and strata of the design are not used."
)


@parameters
class Coefficients(Measure):
    """How far the coefficients of a regression move, counted in their standard errors.

    Question: would an analysis of the released data come to the same conclusions?
    Assumes: the model is one that people will fit. The value is the largest change of a
    coefficient over its standard error in the original, the intercept included.

    Parameters
    ----------
    formula : formula of the model: such as "systolic ~ height + C(smoking)". It may hold names (in
        backticks if they have spaces), numbers, + - * / : ^ ( ) and the functions C, I, log, log2,
        log10, exp, sqrt, center, scale and poly.
    family : kind of model: "linear", "logistic" (the outcome is 0 or 1, or a category of two
        levels) or "poisson".
    level : level of the confidence intervals; a term is significant if p lies below 1 - level.
    weight : survey weight by which both models are weighted; the released data with the weight that
        they have. In memory only.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> schema = sf.Schema({"age": "quasi", "pressure": "sensitive"})
    >>> frame = pl.DataFrame({"age": [30, 40, 50, 60], "pressure": [118, 126, 131, 142]})
    >>> original = sf.Dataset(frame, schema)
    >>> released = sf.Dataset(frame.with_columns(age=pl.Series([31, 40, 50, 59])), schema)
    >>> found = Coefficients(formula="pressure ~ age").measure(original, released)
    >>> round(found.value, 3), round(found.details["smallest_overlap"], 3)
    (0.589, 0.92)

    References: Avraam, Jones & Burton (2021), A deterministic approach for protecting privacy in
    sensitive personal data; Karr, Kohnen, Oganian, Reiter & Sanil (2006), A framework for
    evaluating the utility of data altered to protect confidentiality (overlap of intervals).
    """

    name = "coefficients"
    runs_on = ("local", "streaming", "spark")
    picture = "forest"
    examples = (
        {"formula": "systolic ~ height + weight_kg + C(smoking) + sex"},
        {"formula": "sex ~ height + log(income)", "family": "logistic", "level": 0.9},
        {"formula": "children ~ household_size", "family": "poisson"},
        {"formula": "systolic ~ height + sex", "weight": "survey_weight"},
    )
    of = "pair"
    numbers = (
        Number.loss("coefficients"),
        Number.loss("mean_difference"),
        Number.score("smallest_overlap", highest=1.0),
        Number.score("mean_overlap", highest=1.0),
        Number.score("signs_kept", lowest=0.0, highest=1.0),
        Number.score("significance_kept", lowest=0.0, highest=1.0),
    )
    formula: str
    family: Family = "linear"
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    weight: str | None = None

    @field_validator("formula")
    @classmethod
    def _check_formula(cls, formula: str) -> str:
        read_formula(formula)
        return formula

    def explain_refusal(self, engine: Engine) -> str:
        """Weighted models are fitted in memory only."""
        del engine
        return (
            "A weighted model is fitted in memory only; leave out `weight`." if self.weight else ""
        )

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Fit the same model to both and hold the terms side by side."""
        counts = engine.count(original), engine.count(released)
        if not all(counts):
            raise MeasureError("There is no record to compare.", hint="are the data empty?")
        formula = read_formula(self.formula)
        with use_one_thread():
            if engine.in_memory:
                both = fit_both(
                    original, released, formula, self.family, level=self.level, weight=self.weight
                )
            else:
                both = fit_both_by_passes(
                    original, released, formula, self.family, engine, level=self.level
                )
        table = _build_table(both, 1 - self.level)
        terms = len(both.original.terms)
        return Evidence(
            name=self.name,
            subject="pair",
            value=float(table["coefficients"].to_numpy().max()),
            direction=self.direction,
            table=original.like(table),
            details={
                "mean_difference": math.fsum(table["coefficients"]) / terms,
                "smallest_overlap": float(table["overlap"].to_numpy().min()),
                "mean_overlap": math.fsum(table["overlap"]) / terms,
                "signs_kept": int(table["sign_kept"].sum()) / terms,
                "significance_kept": int(table["significance_kept"].sum()) / terms,
                "terms": terms,
                "records_used_of_original": both.original.records,
                "records_used_of_released": both.released.records,
                "formula": self.formula,
                "level": self.level,
            },
            assumptions=(
                _SAME_MODEL,
                *_describe_averages(released, formula.variables),
                _WEIGHTED if self.weight else _PLAIN,
            ),
            warnings=_report_incomplete(counts, both),
        )


def _describe_averages(released: Dataset, names: Sequence[str]) -> tuple[str, ...]:
    averaged = [name for name in names if released.schema[name].generalised]
    return (_AVERAGED.format(quote_names(averaged)),) if averaged else ()


def _build_table(both: RegressionPair, threshold: float) -> pl.DataFrame:
    original, released = both.original, both.released
    sides = {
        f"{side}{suffix}": values
        for side, regression in (("original", original), ("released", released))
        for suffix, values in (
            ("", regression.estimate),
            ("_se", regression.error),
            ("_low", regression.low),
            ("_high", regression.high),
            ("_z", regression.statistic),
            ("_p", regression.p),
        )
    }
    return pl.DataFrame(
        {
            "term": original.terms,
            **sides,
            "coefficients": np.abs(original.estimate - released.estimate) / original.error,
            "overlap": _measure_overlap(both),
            "sign_kept": np.sign(original.estimate) == np.sign(released.estimate),
            "significance_kept": (original.p < threshold) == (released.p < threshold),
        }
    )


def _measure_overlap(both: RegressionPair) -> Floats:
    """The mean of the shares that each interval has in common with the other; below 0 if apart."""
    original, released = both.original, both.released
    common = np.minimum(original.high, released.high) - np.maximum(original.low, released.low)
    shares: Floats = (
        common / (original.high - original.low) + common / (released.high - released.low)
    ) / 2
    return shares


def _report_incomplete(counts: Sequence[int], both: RegressionPair) -> tuple[str, ...]:
    """How many records each fit had to leave out, in words."""
    warnings = []
    sides = (("the original", both.original), ("the released data", both.released))
    for records, (side, regression) in zip(counts, sides, strict=True):
        if regression.records < records:
            warnings.append(
                f"{records - regression.records} records of {side} have a missing value in the "
                "model and are left out."
            )
    return tuple(warnings)
