"""Whether a model can tell released from original records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import exact_sum, use_one_thread
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.pairs.alignment import name_left_out
from sfumato.pairs.draws import describe_draws
from sfumato.parameters import parameters
from sfumato.utility.models.distributed_propensity import (
    build_distant_design,
    find_records,
    fit_distant_logistic,
)
from sfumato.utility.models.propensity import (
    DesignMatrix,
    MergedRecords,
    build_design,
    build_features,
    choose_leaf_size,
    fit_logistic,
    fit_tree,
    merge_records,
    score_permutations,
)

_SHARES = {"low": 0.05, "q1": 0.25, "median": 0.5, "q3": 0.75, "high": 0.95}
_USUAL = {"main": 199, "interactions": 199, "tree": 49}
_TIE = 1e-9, 1e-20
"""Relative and absolute difference of two permutations that is rounding."""
_TOO_FEW, _FEW = 3, 10
"""Records a parameter: with hardly more than 2, a model tells any two data sets apart."""

_MISSING = "Missing is a level of its own; a missing number counts as an average one besides."
_NULL = (
    "`expected` is what U would be on average, had both data sets been drawn from one population, "
    "so that the labels mean nothing; `ratio`, `standardised` and `p_value` rest on that."
)
_BELOW = (
    "Protected records stem from the original ones, so U can lie far below `expected`: a `ratio` "
    "below 1 means that the release is closer to the original than two samples of one population "
    "are to each other."
)
_REDRAWN = (
    "`expected_if_redrawn` is what U would be, had the released records been drawn anew from the "
    "very distribution that the original shows, as synthetic data are."
)
_CHANCE = (
    "`p_value` is how often labels dealt out by chance differ as much. It is small when the "
    "release differs by more than two samples of one population do, and near 1 when by less."
)


@parameters
class Propensity(Measure):
    """How well a model can tell the released records from the original ones: U, or pMSE.

    Question: do the released data as a whole look like the original?
    Assumes: what the model cannot see is no loss. U is the mean squared deviation of the
    propensity (the estimated probability of being released) from the share of released records:
    0 when the data sets cannot be told apart, 0.25 when every record can be recognised.

    Parameters
    ----------
    variables : variables that the model sees. Default: all variables in both data sets but direct
        identifiers, weights, clusters, and categories with more than 50 levels in the original. A
        cell that stands for several values counts as one of them, drawn evenly: which variables are
        compared never depends on how coarse a release is.
    categories : numbers that are codes and no quantities.
    model : shape of the model: "main" sees a shift of each variable; "interactions" also changes of
        spread and of what goes together, by squares and products; "tree" sees changes of any shape.
    permutations : number of random relabellings, for the p value; the same each time for the same
        records. Default: 199, or 49 for "tree". Logistic models take no fit for it (2 s for 199
        with 200,000 records in both data sets together); a tree is grown anew each time (0.2 s each
        with 20,000 records, 3 s each with 200,000). Records that are not in memory have no
        permutations, and no tree.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> schema = sf.Schema({"age": "quasi"})
    >>> original = sf.Dataset(pl.DataFrame({"age": [30, 40, 50, 60, 70]}), schema)
    >>> released = sf.Dataset(pl.DataFrame({"age": [32, 41, 50, 58, 69]}), schema)
    >>> found = Propensity().measure(original, released)
    >>> found.value < found.details["expected"]
    True

    References: Woo, Reiter, Oganian & Karr (2009), Global measures of data utility for microdata
    masked for disclosure limitation; Snoke, Raab, Nowok, Dibben & Slavkovic (2018), General and
    specific utility measures for synthetic data (permutations, and the value if redrawn).
    """

    name = "propensity"
    runs_on = ("local", "streaming", "spark")
    picture = "propensity"
    examples = (
        {},
        {"variables": ["sex", "height", "weight_kg", "glucose"], "model": "interactions"},
        {"variables": ["smoking", "children"], "categories": ["children"], "model": "tree",
         "permutations": 10},
    )  # fmt: skip
    of = "pair"
    numbers = (
        Number.loss("propensity", highest=0.25),
        Number.loss("ratio"),
        Number.loss("standardised", lowest=-math.inf),
        Number.score("p_value", useful="neither", lowest=0.0, highest=1.0),
    )
    variables: list[str] | None = None
    categories: list[str] | None = None
    model: Literal["main", "interactions", "tree"] = "main"
    permutations: Annotated[int, Field(ge=0, le=10_000)] | None = None

    @model_validator(mode="after")
    def _check_categories(self) -> Self:
        beyond = set(self.categories or ()) - set(self.variables or self.categories or ())
        if beyond:
            msg = f"`categories` must be among `variables`; these are not: {', '.join(beyond)}."
            raise ValueError(msg)
        return self

    def for_value(self) -> Self:
        """Without permutations, which U does not need; unless somebody has asked for them."""
        return self if self.permutations is not None else replace(self, permutations=0)

    def explain_refusal(self, engine: Engine) -> str:
        """Trees are grown, and labels dealt out, in memory only."""
        del engine
        if self.model == "tree":
            return 'A tree is grown in memory only; choose model = "main" or "interactions".'
        if self.permutations:
            return "Labels are dealt out by chance in memory only; leave out `permutations`."
        return ""

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Fit the model to both data sets together, and to permuted labels."""
        with use_one_thread():
            if engine.in_memory:
                result = self._compare_records(original, released)
            else:
                result = self._compare_by_passes(original, released, engine)
        return Evidence(
            name=self.name,
            subject="pair",
            value=result.value,
            direction=self.direction,
            records=result.records,
            table=original.like(result.table),
            details={
                **_compare_with_chance(result),
                "model": self.model,
                "permutations": len(result.permuted),
                "share_released": result.share,
                "variables": tuple(result.names),
                **name_left_out(result.left_out),
                **result.details,
            },
            assumptions=(
                _MISSING,
                *describe_draws(released, result.names),
                *result.assumptions,
                _NULL,
                _BELOW,
                _CHANCE,
            ),
            warnings=(*_report_left_out(result.left_out), *result.warnings),
        )

    def _compare_records(self, original: Dataset, released: Dataset) -> _ModelResult:
        merged = merge_records(
            original, released, self.variables, categories=self.categories or (), owner=self.name
        )
        _require_different(len(merged.counts) > 1)
        permutations = _USUAL[self.model] if self.permutations is None else self.permutations
        if self.model == "tree":
            result, fitted = _run_tree(merged, permutations)
        else:
            result, fitted = _run_logistic(merged, permutations, self.model)
        return replace(
            result,
            names=[variable.name for variable in merged.variables],
            left_out=merged.left_out,
            records=_build_records(original, merged, fitted),
            table=_summarise_distribution(merged, fitted),
        )

    def _compare_by_passes(
        self, original: Dataset, released: Dataset, engine: Engine
    ) -> _ModelResult:
        """The same, where the records are."""
        merged = find_records(
            original, released, self.variables, engine,
            categories=self.categories or (), owner=self.name,
        )  # fmt: skip
        design = build_distant_design(merged, interactions=self.model == "interactions")
        _require_different(design.parameters > 1)
        _require_enough(design, merged.records)
        fit = fit_distant_logistic(merged, design, _SHARES)
        result = _describe_logistic(
            design, fit.value, merged.share, merged.records, certain=fit.certain
        )
        result = replace(result, names=merged.names, left_out=merged.left_out, table=fit.table)
        if self.permutations is None:
            result = replace(result, without_chance="labels are dealt out in memory only.")
        return result


@dataclass(frozen=True, eq=False, kw_only=True)
class _ModelResult:
    """What a model found, and what it finds by chance.

    Parameters
    ----------
    value : U.
    share : of released records among all.
    expected, deviation : mean and standard deviation of U by chance.
    observed : what is checked against the permutations: U, or its first step.
    permuted : the same of permuted labels.
    without_chance : why there are no permutations, where there are none.
    names, left_out : the variables compared, and the others, each with the reason.
    records, table : the propensities of each record, and by quantiles.
    """

    value: float
    share: float
    expected: float
    deviation: float
    observed: float = math.nan
    permuted: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    details: Mapping[str, Any]
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    without_chance: str = "it takes permutations: at least 2."
    names: Sequence[str] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    records: Any = field(default=None, repr=False)
    table: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False)


def _require_different(different: bool) -> None:  # noqa: FBT001 - what it asks
    if not different:
        raise MeasureError(
            "All records are equal, so no model can separate the data sets.",
            hint="are these the right variables?",
        )


def _mean_squared_deviation(merged: MergedRecords, probability: Floats) -> float:
    """The mean squared deviation from the share of the released records."""
    # Never above 0.25 by rounding, which is the value of a perfect model.
    squares = merged.counts * (probability - merged.share) ** 2
    return min(exact_sum(squares) / merged.records, 0.25)


def _run_logistic(
    merged: MergedRecords, permutations: int, model: str
) -> tuple[_ModelResult, Floats]:
    """What the model found, and the propensity of each distinct record."""
    design = build_design(merged, interactions=model == "interactions")
    _require_enough(design, merged.records)
    fitted, chance = fit_logistic(design), score_permutations(design, permutations)
    value = _mean_squared_deviation(merged, fitted.probability)
    result = _describe_logistic(design, value, merged.share, merged.records, certain=fitted.certain)
    result = replace(result, observed=chance.observed, permuted=chance.permuted)
    return result, fitted.probability


def _describe_logistic(
    model: DesignMatrix, value: float, share: float, records: int, *, certain: bool
) -> _ModelResult:
    """What the model found, beside what is known of chance without permutations."""
    free = model.parameters - 1
    # Under permuted labels U is a chi square with `free` degrees of freedom, in this unit.
    unit = share * (1 - share) / records
    warnings = []
    if certain:
        warnings.append(
            "Some records can be recognised with certainty: they hold values that occur in one "
            "data set only."
        )
    if records < _FEW * model.parameters:
        warnings.append(
            f"There are fewer than {_FEW} records a parameter, so that U is large by chance "
            "alone, and larger than `expected` says."
        )
    repeated = ", ".join(f"'{name}'" for name in model.list_collinear())
    return _ModelResult(
        value=value,
        share=share,
        expected=free * unit,
        deviation=math.sqrt(2 * free) * unit,
        details={
            "expected_if_redrawn": free * unit * (1 - share),
            "parameters": model.parameters,
        },
        assumptions=(
            *((f"What only repeats other variables is dropped, in: {repeated}.",) * bool(repeated)),
            _REDRAWN,
        ),
        warnings=tuple(warnings),
    )


def _require_enough(model: DesignMatrix, records: int) -> None:
    needed = model.parameters
    if records < _TOO_FEW * needed:
        raise MeasureError(
            f"The model has {needed} parameters for {records} records in both data sets together, "
            "and would tell anything apart.",
            hint='name fewer variables, or choose model = "main".',
        )


def _run_tree(merged: MergedRecords, permutations: int) -> tuple[_ModelResult, Floats]:
    """What the tree found, and the propensity of each distinct record."""
    leaf, features = choose_leaf_size(merged), build_features(merged)
    probability = fit_tree(merged, features, merged.releases, leaf=leaf)
    permuted = np.array(
        [
            _mean_squared_deviation(merged, fit_tree(merged, features, releases, leaf=leaf))
            for releases in merged.shuffle_labels(permutations)
        ]
    )
    value = _mean_squared_deviation(merged, probability)
    result = _ModelResult(
        value=value,
        share=merged.share,
        expected=float(permuted.mean()) if permutations else math.nan,
        deviation=float(permuted.std(ddof=1)) if permutations > 1 else math.nan,
        observed=value,
        permuted=permuted,
        details={"smallest_leaf": leaf},
        assumptions=(
            f"A leaf of the tree has at least {leaf} records.",
            "For a tree, `expected` is the mean over the permutations.",
        ),
    )
    return result, probability


def _compare_with_chance(result: _ModelResult) -> dict[str, Any]:
    """U beside what it would be by chance; NaN, with a reason, where that is unknown."""
    value, known = result.value, result.deviation > 0
    numbers: dict[str, Any] = {
        "expected": result.expected,
        "ratio": value / result.expected if result.expected > 0 else math.nan,
        "standardised": (value - result.expected) / result.deviation if known else math.nan,
        "p_value": math.nan,
    }
    # Of permutations that tie with the data, all count: the p value is never too small.
    if len(result.permuted):
        as_large = int((result.permuted >= result.observed * (1 - _TIE[0]) - _TIE[1]).sum())
        numbers["p_value"] = (1 + as_large) / (1 + len(result.permuted))
    few = len(result.permuted) <= 1
    why = result.without_chance if few else "the tree finds nothing by chance."
    reasons = {f"{name}_reason": why for name, number in numbers.items() if math.isnan(number)}
    return numbers | reasons


def _report_left_out(left_out: Mapping[str, str]) -> tuple[str, ...]:
    if not left_out:
        return ()
    reasons = "; ".join(f"'{name}', {why}" for name, why in left_out.items())
    return (f"Not compared: {reasons}.",)


def _build_records(original: Dataset, merged: MergedRecords, probability: Floats) -> Any:
    """A row per record, where each released record belongs to an original one."""
    if len(merged.place_of_original) != len(merged.place_of_released):
        return None
    return original.like(
        pl.DataFrame(
            {
                "propensity_original": probability[merged.place_of_original],
                "propensity_released": probability[merged.place_of_released],
            }
        )
    )


def _summarise_distribution(merged: MergedRecords, probability: Floats) -> pl.DataFrame:
    """The propensities of either data set, for two box plots."""
    sides = {"original": merged.place_of_original, "released": merged.place_of_released}
    return pl.DataFrame(
        [
            {
                "data": name,
                **{
                    label: float(np.quantile(probability[rows], share))
                    for label, share in _SHARES.items()
                },
            }
            for name, rows in sides.items()
        ]
    )
