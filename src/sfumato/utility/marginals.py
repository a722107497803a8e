"""How well the release keeps every two-way table: the k-marginal score, with its sampling null."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.intervals import read_intervals
from sfumato.cells.level_sets import list_distinct_texts, list_levels, read_level_sets
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.pairs.alignment import name_left_out, quote_names
from sfumato.parameters import parameters
from sfumato.schema import IDENTIFYING
from sfumato.utility.paired.spreads import Spread, spread_over_bins, spread_over_levels

_FEW = 30
"""Distinct numbers up to which each is a cell of its own."""
_MOST_LEVELS = 500
_POINTS = 500.0
_ASSUMPTIONS = (
    "A range, a set, a mask or * counts for each of its values by the same part.",
    "Missing is a value of its own.",
    "Numbers and dates with many values are put into the same bins in both files.",
)


@parameters
class Marginals(Measure):
    """Mean difference of all two-way tables, and the k-marginal score of NIST.

    Question: does the release keep the joint picture, pair by pair?
    Assumes: for each pair of variables, the shares of all combinations are compared. The value is
    the sum of their absolute differences, from 0 (the same table) to 2 (nothing in common),
    averaged over the pairs. `k_marginal` is NIST's score, (2 - value) x 500: 1000 is identical.
    `k_marginal_null` is the score that a fresh sample of as many people would have: a release
    above it keeps these tables better than a second survey would. `worst_pair` names the pair
    that changed most. The table has every variable with the mean difference of its pairs.

    Parameters
    ----------
    variables : variables to compare. Default: all but direct identifiers and weights that are in
        both data sets and have at most 500 levels or are numbers or dates.
    bins : number of bins: for a number or a date with more than 30 values.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> schema = sf.Schema({"sex": "quasi", "smokes": "other"})
    >>> original = pl.DataFrame({"sex": list("ffmm"), "smokes": list("ynyn")})
    >>> released = pl.DataFrame({"sex": list("ffmm"), "smokes": list("ynyy")})
    >>> found = Marginals().measure(sf.Dataset(original, schema), sf.Dataset(released, schema))
    >>> found.value, found.details["k_marginal"]
    (0.5, 750.0)

    References: Task, Bhagat & Howarth (2023), SDNist v2: Deidentified data report tool (NIST);
    de Moivre (1730), Miscellanea Analytica (mean absolute deviation of a binomial).
    """

    name = "marginals"
    odd = {"one row": 0, "all missing": 0}
    examples = ({}, {"variables": ["sex", "region", "income"], "bins": 10})
    of = "pair"
    numbers = (
        Number.loss("marginals", highest=2.0),
        Number.score("k_marginal", lowest=0.0, highest=1000.0),
        Number.loss("worst_pair_difference", highest=2.0),
    )
    variables: list[str] | None = None
    bins: Annotated[int, Field(ge=2, le=200)] = 20

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Compare every two-way table."""
        del engine  # all records are in memory
        if not len(original) or not len(released):
            raise MeasureError("There is no record to compare.", hint="are the data empty?")
        names, left_out = self._choose(original, released)
        views = {name: self._view(original, released, name) for name in names}
        pairs, nulls = {}, []
        for first, second in itertools.combinations(names, 2):
            before = _joint_shares(views[first].before, views[second].before)
            after = _joint_shares(views[first].after, views[second].after)
            pairs[first, second] = float(np.abs(before - after).sum())
            nulls.append(_expected_difference(before, len(released)))
        value = math.fsum(pairs.values()) / len(pairs)
        null = math.fsum(nulls) / len(nulls)
        worst = max(pairs, key=lambda pair: pairs[pair])
        rows = [
            (name, float(np.mean([gap for pair, gap in pairs.items() if name in pair])))
            for name in names
        ]
        warnings = (f"Not compared: {quote_names(left_out)}.",) if left_out else ()
        return Evidence(
            name=self.name,
            subject="pair",
            value=value,
            direction=self.direction,
            baseline=null,
            table=original.like(pl.DataFrame(rows, schema=["variable", "marginals"], orient="row")),
            details={
                "k_marginal": (2 - value) * _POINTS,
                "k_marginal_null": (2 - null) * _POINTS,
                "worst_pair": tuple(worst),
                "worst_pair_difference": pairs[worst],
                "pairs": len(pairs),
                "variables": tuple(names),
                **name_left_out(left_out),
            },
            assumptions=_ASSUMPTIONS,
            warnings=warnings,
        )

    def _choose(self, original: Dataset, released: Dataset) -> tuple[list[str], list[str]]:
        if self.variables is not None:
            original.schema.require(self.variables)
            released.schema.require(self.variables)
            wanted = list(self.variables)
        else:
            wanted = [
                name
                for name, column in original.schema.items()
                if column.role not in (*IDENTIFYING, "weight")
            ]
        names = [
            name for name in wanted if name in released.columns and _is_countable(original, name)
        ]
        if len(names) < 2:  # noqa: PLR2004 - a pair
            raise MeasureError(
                f"'{self.name}' needs two variables that are in both data sets.",
                hint="name them in `variables`.",
            )
        return names, [name for name in wanted if name not in names]

    def _view(self, original: Dataset, released: Dataset, name: str) -> _View:
        values, cells = original.column(name), released.column(name)
        column = original.schema[name]
        if _is_number(original, name) and values.n_unique() > _FEW:
            kind: Any = "date" if values.dtype.is_temporal() else "number"
            exact = read_intervals(values, column, kind)
            edges = _choose_edges(exact.low[np.isfinite(exact.low)], self.bins)
            after = read_intervals(cells, released.schema[name], kind)
            return _View(spread_over_bins(exact, edges), spread_over_bins(after, edges))
        texts = [*list_distinct_texts(values), *list_distinct_texts(cells)]
        levels = list_levels(texts, released.schema[name], name, ordered=False)
        before = read_level_sets(values, levels, column)
        return _View(
            spread_over_levels(before, len(levels)),
            spread_over_levels(read_level_sets(cells, levels, released.schema[name]), len(levels)),
        )


@dataclass(frozen=True, eq=False)
class _View:
    before: Spread
    after: Spread


def _is_number(original: Dataset, name: str) -> bool:
    dtype = original.column(name).dtype
    return dtype.is_numeric() or dtype.is_temporal()


def _is_countable(original: Dataset, name: str) -> bool:
    return _is_number(original, name) or original.column(name).n_unique() <= _MOST_LEVELS


def _choose_edges(values: Floats, bins: int) -> Floats:
    """Inner edges at even shares of the original's values."""
    shares = np.linspace(0, 1, bins + 1)[1:-1]
    edges: Floats = np.unique(np.quantile(values, shares, method="inverted_cdf"))
    return edges


def _joint_shares(first: Spread, second: Spread) -> Floats:
    """The two-way table of shares: parts of the one, times counts of cells, times the other."""
    from scipy.sparse import csr_matrix

    shape = (first.parts.shape[0], second.parts.shape[0])
    ones = np.ones(len(first.of))
    counts = csr_matrix((ones, (first.of, second.of)), shape=shape)
    table = (first.parts.T @ counts @ second.parts).toarray() / len(first.of)
    return np.asarray(table, np.float64)


def _expected_difference(shares: Floats, records: int) -> float:
    """The sum of absolute differences that a sample of so many records has on average.

    De Moivre (1730): E|X - np| of a binomial is 2 v C(n, v) p^v (1 - p)^(n - v + 1), v = [np] + 1.
    """
    from scipy.special import gammaln, xlog1py, xlogy

    p = shares[(shares > 0) & (shares < 1)]
    v = np.floor(records * p) + 1
    logs = (
        gammaln(records + 1) - gammaln(v + 1) - gammaln(records - v + 1)
        + xlogy(v, p) + xlog1py(records - v + 1, -p) + np.log(2 * v)
    )  # fmt: skip
    return float(np.exp(logs).sum() / records)
