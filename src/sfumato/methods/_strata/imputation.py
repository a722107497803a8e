"""Missing numbers: leave the record out, or impute. What was imputed is always known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import polars as pl

from sfumato.cells.pairs import quote_names
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.summaries import Mean, Quantile, Summary
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Floats

Missing = Literal["refuse", "drop", "median", "mean", "model"]
# Imputations by chained equations whose mean is taken.
_DRAWS = 5
_ROUNDS = 10
# Not a secret: the imputation protects nobody, it only places a record among the others.
_SEED = 20_210_323
_MOST_LEVELS = 50


def count_missing(data: Dataset, names: Sequence[str]) -> dict[str, int]:
    """How many values each of these variables lacks; those that lack none are left out."""
    counts = {name: data.column(name).null_count() for name in names}
    return {name: count for name, count in counts.items() if count}


def refuse_empty(data: Dataset, names: Sequence[str]) -> None:
    """Fail, naming the variables that have no value at all."""
    empty = [name for name, count in count_missing(data, names).items() if count == len(data)]
    if empty:
        names_quoted = quote_names(empty)
        raise MethodError(
            f"These variables have no values: {names_quoted}.", hint="leave them out."
        )


def refuse_missing(data: Dataset, names: Sequence[str], *, hint: str) -> None:
    """Fail, naming the variables that lack values and how many."""
    lacking = count_missing(data, names)
    if lacking:
        counts = ", ".join(f"'{name}' ({count})" for name, count in lacking.items())
        raise MethodError(f"These variables have missing values: {counts}.", hint=hint)


def require_within_domain(data: Dataset, names: Sequence[str]) -> None:
    """Fail when no domain is declared, or when values lie outside theirs."""
    bounds = {name: data.schema[name].bounds for name in names}
    if not any(bounds.values()):
        raise MethodError(
            'bounds = "keep" needs a declared domain for at least one of the variables.',
            hint="for instance domain = [0, 120] in the plan's [columns].",
        )
    for name, ends in bounds.items():
        if ends is None:
            continue
        values = data.column(name).drop_nulls()
        outside = int(((values < ends[0]) | (values > ends[1])).sum())
        if outside:
            raise MethodError(
                f"Variable '{name}' has {outside} values outside its declared domain.",
                hint='correct the domain or the values, or say bounds = "report".',
            )


def take_complete(data: Dataset, names: Sequence[str]) -> Dataset:
    """The records that lack none of these values; fail when there are none."""
    batch = data.batch(names)
    full = ~np.logical_or.reduce([batch[name].is_null().to_numpy() for name in names])
    if not full.any():
        raise MethodError(
            f"No record has all of these values: {quote_names(names)}.",
            hint="leave out the variable that is mostly missing.",
        )
    return data if full.all() else data.take(np.flatnonzero(full))


def resolve_missing_codes(
    data: Dataset, variables: Sequence[str], strata: Sequence[str]
) -> Dataset:
    """The records without codes for "missing" in the numbers, and with them as levels in strata.

    Whoever reads the release sees which of several codes it is, so each is a level of its own.
    """
    coded = [name for name in (*variables, *strata) if data.schema[name].missing]
    if not coded:
        return data
    bare = replace(
        data, schema=data.schema.changed(coded, missing=()), given_identity=data.identity
    )
    return bare.with_columns(data.batch([name for name in variables if name in coded]))


def fit_fills(
    data: Dataset, names: Sequence[str], how: Missing, engine: Engine
) -> dict[str, float]:
    """The value that stands in for missing ones in each variable, for "median" and "mean"."""
    summary: Summary = Quantile(0.5) if how == "median" else Mean()
    lacking = list(count_missing(data, names))
    values = engine.aggregate(data, {name: [summary] for name in lacking})
    return {name: values[name][summary.name] for name in lacking}


def fill_missing(data: Dataset, values: Mapping[str, float]) -> Dataset:
    """The records with one value in place of the missing ones of a variable."""
    if not values:
        return data
    return data.with_columns(
        pl.DataFrame(
            [data.column(name).cast(pl.Float64).fill_null(value) for name, value in values.items()]
        )
    )


def impute_by_model(data: Dataset, names: Sequence[str], categories: Sequence[str]) -> Dataset:
    """Fill gaps by multiple imputation with chained equations: the mean of several draws.

    Each variable with gaps is predicted from the others and the categories, in turn, and the
    prediction is drawn from its posterior (scikit-learn's IterativeImputer with Bayesian ridge
    regression). Records go in in an order of their own, so that the order of rows is no matter.
    """
    lacking = count_missing(data, names)
    if not lacking:
        return data
    batch = data.batch(names)
    values = np.column_stack([batch[name].cast(pl.Float64).to_numpy() for name in names])
    beside = np.column_stack(
        [np.empty((len(data), 0)), *(_make_dummies(data, name) for name in categories)]
    )
    ids = data.identity.digests
    # By value and then by person: the imputer draws in the order of its rows.
    order = np.lexsort((ids[:, 1], ids[:, 0], *np.nan_to_num(values, nan=np.inf).T))
    imputed = np.empty_like(values)
    imputed[order] = _impute_by_chained_equations(np.column_stack([values, beside])[order])[
        :, : len(names)
    ]
    imputed = np.where(np.isnan(values), imputed, values)  # what is known stays to the last bit
    return data.with_columns(
        pl.DataFrame(
            {name: imputed[:, column] for column, name in enumerate(names) if name in lacking}
        )
    )


def _make_dummies(data: Dataset, name: str) -> Floats:
    """A column of zeros and ones per level but the first; variables of very many levels none."""
    levels = data.column(name).cast(pl.String).fill_null("")
    known = sorted(levels.unique().to_list())
    if len(known) > _MOST_LEVELS:
        return np.empty((len(data), 0))
    return np.column_stack(
        [
            np.empty((len(data), 0)),
            *((levels == level).cast(pl.Float64).to_numpy() for level in known[1:]),
        ]
    )


def _impute_by_chained_equations(values: Floats) -> Floats:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - it says so itself
    from sklearn.impute import IterativeImputer

    mean = np.nanmean(values, axis=0)
    spread = np.nanstd(values, axis=0)
    spread[spread == 0] = 1.0
    scaled = (values - mean) / spread
    total: Floats = np.zeros_like(values)
    for draw in range(_DRAWS):
        imputer = IterativeImputer(
            sample_posterior=True, max_iter=_ROUNDS, random_state=_SEED + draw, skip_complete=True
        )
        total += imputer.fit_transform(scaled)
    average: Floats = total / _DRAWS * spread + mean
    return average
