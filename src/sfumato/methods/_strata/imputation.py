"""Missing numbers: leave the record out, or impute. What was imputed is always known."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, cast

import numpy as np
import polars as pl

from sfumato.cells.codes import restore_categories
from sfumato.data import Dataset, drop_missing_codes
from sfumato.engines import Engine, GroupingEngine
from sfumato.engines.summaries import Count, Mean, Quantile, Summary
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.pairs.alignment import quote_names
from sfumato.randomness import Draws, Key

Missing = Literal["refuse", "drop", "median", "mean", "model"]
# Imputations by chained equations whose mean is taken.
_DRAWS = 5
_ROUNDS = 10
# Not a secret: the imputation protects nobody, it only places a record among the others.
_SEED = 20_210_323
_MOST_LEVELS = 50


def count_missing(data: Dataset, names: Sequence[str], engine: Engine) -> dict[str, int]:
    """How many values each of these variables lacks; those that lack none are left out."""
    records = engine.count(data)
    counts = engine.aggregate(data, {name: [Count()] for name in names})
    lacking = {name: records - counts[name]["count"] for name in names}
    return {name: count for name, count in lacking.items() if count}


def refuse_empty(data: Dataset, names: Sequence[str], engine: Engine) -> None:
    """Fail, naming the variables that have no value at all."""
    records = engine.count(data)
    empty = [n for n, count in count_missing(data, names, engine).items() if count == records]
    if empty:
        names_quoted = quote_names(empty)
        raise MethodError(
            f"These variables have no values: {names_quoted}.", hint="leave them out."
        )


def refuse_missing(data: Dataset, names: Sequence[str], engine: Engine, *, hint: str) -> None:
    """Fail, naming the variables that lack values and how many."""
    lacking = count_missing(data, names, engine)
    if lacking:
        counts = ", ".join(f"'{name}' ({count})" for name, count in lacking.items())
        raise MethodError(f"These variables have missing values: {counts}.", hint=hint)


def require_within_domain(data: Dataset, names: Sequence[str], engine: Engine) -> None:
    """Fail when no domain is declared, or when values lie outside theirs."""
    bounds = {name: ends for name in names if (ends := data.schema[name].bounds) is not None}
    if not bounds:
        raise MethodError(
            'bounds = "keep" needs a declared domain for at least one of the variables.',
            hint="for instance domain = [0, 120] in the plan's [columns].",
        )

    def count_outside(batch: pl.DataFrame) -> list[int]:
        ends = ((batch[name], low, high) for name, (low, high) in bounds.items())
        return [int(((values < low) | (values > high)).sum()) for values, low, high in ends]

    counted = zip(*engine.gather(data, count_outside, reads=list(bounds)), strict=True)
    for name, parts in zip(bounds, counted, strict=True):
        if outside := sum(parts):
            raise MethodError(
                f"Variable '{name}' has {outside} values outside its declared domain.",
                hint='correct the domain or the values, or say bounds = "report".',
            )


def take_complete(data: Dataset, names: Sequence[str], engine: Engine) -> Dataset:
    """The records that lack none of these values; fail when there are none."""

    def is_complete(batch: pl.DataFrame) -> Mask:
        lacking: Mask = np.logical_or.reduce([batch[name].is_null().to_numpy() for name in names])
        return ~lacking

    complete = take_records(data, is_complete, names, engine)
    if not engine.count(complete):
        raise MethodError(
            f"No record has all of these values: {quote_names(names)}.",
            hint="leave out the variable that is mostly missing.",
        )
    return complete


def take_records(
    data: Dataset, function: Callable[[pl.DataFrame], Mask], reads: Sequence[str], engine: Engine
) -> Dataset:
    """The records for which a function of some variables is true."""
    if not engine.in_memory:
        return cast("GroupingEngine", engine).filter(data, function, reads)
    wanted = function(data.batch(reads)) if reads else function(pl.DataFrame(height=len(data)))
    return data if wanted.all() else data.take(np.flatnonzero(wanted))


def resolve_missing_codes(
    data: Dataset, variables: Sequence[str], strata: Sequence[str], engine: Engine
) -> Dataset:
    """The records without codes for "missing" in the numbers, and with them as levels in strata.

    Whoever reads the release sees which of several codes it is, so each is a level of its own.
    """
    coded = [name for name in (*variables, *strata) if data.schema[name].missing]
    if not coded:
        return data
    before = data.schema
    bare = replace(data, schema=before.changed(coded, missing=()), given_identity=data.identity)
    numbers = [name for name in variables if name in coded]
    if not numbers:
        return bare

    def resolve(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
        del draws
        return drop_missing_codes(batch, before)

    return engine.map_rows(bare, resolve, reads=numbers)


def fit_fills(
    data: Dataset, names: Sequence[str], how: Missing, engine: Engine
) -> dict[str, float]:
    """The value that stands in for missing ones in each variable, for "median" and "mean"."""
    summary: Summary = Quantile(0.5) if how == "median" else Mean()
    lacking = list(count_missing(data, names, engine))
    values = engine.aggregate(data, {name: [summary] for name in lacking})
    return {name: values[name][summary.name] for name in lacking}


def mark_missing(
    data: Dataset, names: Sequence[str], values: Mapping[str, float], mark: str, engine: Engine
) -> Dataset:
    """The records with numbers only, and columns that say where they were missing."""

    def fill(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
        del draws
        columns = []
        for name in names:
            numbers = batch[name].cast(pl.Float64)
            columns += [
                numbers.fill_null(values[name]) if name in values else numbers,
                batch[name].is_null().alias(f"{mark}{name}"),
            ]
        return pl.DataFrame(columns)

    return engine.map_rows(data, fill, reads=names)


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
    lacking = {name for name in names if data.column(name).null_count()}
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


Guess = Literal["distribution", "model"]


def impute_categories(
    data: Dataset, names: Sequence[str], how: Guess, numbers: Sequence[str]
) -> Dataset:
    """Fill in missing categories by a draw, so that their frequencies stay as they are.

    The draw of a record belongs to the record, whatever the order of rows. It is no secret: it
    protects nobody, and only places a record among the others.

    Parameters
    ----------
    names : the categories; codes for missing count as missing.
    how : "distribution" draws from the categories that are known, as often as they occur (for two
        of them, from a binomial distribution). "model" draws from what a logistic regression on the
        numbers and the other categories predicts for the record.
    numbers : the numbers that the model knows.
    """
    known = drop_missing_codes(data.batch(names), data.schema)
    lacking = [name for name in names if known[name].null_count()]
    if not lacking:
        return data
    ids = data.identity.digests
    key = Key(hashlib.sha256(b"sfumato imputation of categories").digest())
    filled = []
    for name in lacking:
        values = known[name]
        rows = np.flatnonzero(values.is_null().to_numpy())
        levels = _list_levels(values)
        if how == "model" and 1 < len(levels) <= _MOST_LEVELS:
            chances = _predict_levels(data, known, name, levels, numbers, rows)
        else:
            _refuse_many(name, len(levels), how)
            counts = np.array([int((values == level).sum()) for level in levels], float)
            chances = np.tile(counts / counts.sum(), (len(rows), 1))
        uniform = Draws(key, 0, ids).uniform(name)[rows]
        below = np.cumsum(chances, axis=1)[:, :-1] <= uniform[:, None]
        drawn = levels.gather(below.sum(axis=1))
        filled.append(values.scatter(rows, drawn) if len(rows) else values)
    # No cell holds a code for missing any more.
    bare = data.schema.changed(lacking, missing=())
    filled_in = replace(data, schema=bare, given_identity=data.identity)
    return restore_categories(data, filled_in.with_columns(pl.DataFrame(filled)), lacking)


def _list_levels(values: pl.Series) -> pl.Series:
    """The levels that occur, in one order whatever the rows."""
    levels = values.drop_nulls().unique()
    if not len(levels):
        raise MethodError(
            f"Variable '{values.name}' has no values to impute from.", hint="leave it out."
        )
    return levels.gather(levels.cast(pl.String).arg_sort())


def _refuse_many(name: str, levels: int, how: Guess) -> None:
    if how == "model" and levels > _MOST_LEVELS:
        raise MethodError(
            f"Variable '{name}' has {levels} levels, and a model of gaps has at most "
            f"{_MOST_LEVELS}.",
            hint='recode it to fewer, or say missing_strata = "distribution".',
        )


def _predict_levels(
    data: Dataset,
    known: pl.DataFrame,
    name: str,
    levels: pl.Series,
    numbers: Sequence[str],
    rows: Integers,
) -> Floats:
    """For records that lack a category, how likely each level is (logistic regression)."""
    from sklearn.linear_model import LogisticRegression

    batch = drop_missing_codes(data.batch(numbers), data.schema)
    columns = [_fill_and_standardise(batch[number]) for number in numbers]
    others = [
        _make_dummies_of(known[other].cast(pl.String).fill_null(""))
        for other in known.columns
        if other != name
    ]
    predictors = np.column_stack([np.empty((len(data), 0)), *columns, *others])
    ids = data.identity.digests
    # In one order, whatever the order of the rows: sums differ in their last digits.
    order = np.lexsort((ids[:, 1], ids[:, 0]))
    complete = order[~np.isin(order, rows)]
    texts = known[name].cast(pl.String).to_numpy()[complete]
    model = LogisticRegression(max_iter=1000).fit(predictors[complete], texts.astype(str))
    wanted = [list(model.classes_).index(level) for level in levels.cast(pl.String)]
    chances: Floats = model.predict_proba(predictors[rows])[:, wanted]
    return chances


def _fill_and_standardise(values: pl.Series) -> Floats:
    """A number with mean 0 and deviation 1, and the median in place of what is missing."""
    known = values.cast(pl.Float64)
    filled = known.fill_null(known.median()).fill_null(0.0).to_numpy()
    spread = float(np.std(filled))
    standardised: Floats = (filled - filled.mean()) / (spread if spread > 0 else 1.0)
    return standardised


def _make_dummies(data: Dataset, name: str) -> Floats:
    """A column of zeros and ones per level but the first; variables of very many levels none."""
    return _make_dummies_of(data.column(name).cast(pl.String).fill_null(""))


def _make_dummies_of(levels: pl.Series) -> Floats:
    known = sorted(levels.unique().to_list())
    if len(known) > _MOST_LEVELS:
        return np.empty((len(levels), 0))
    return np.column_stack(
        [
            np.empty((len(levels), 0)),
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
