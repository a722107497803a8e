"""Crosstabs and pivots that may leave: pandas' calls, with protection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal

import numpy as np

from sfumato.data import Dataset
from sfumato.errors import DataError, PlanError
from sfumato.io import frames
from sfumato.kernels.arrays import Integers
from sfumato.outputs.log import Log
from sfumato.outputs.output import Output, OutputRefused, digest_of
from sfumato.outputs.rules import Rules
from sfumato.outputs.tables.aggregation import (
    CellCounts,
    Missing,
    count_cells,
    list_quantile_windows,
    map_to_margin,
)
from sfumato.outputs.tables.protection import protect_table
from sfumato.outputs.tables.request import TableRequest
from sfumato.outputs.tables.table import Table

Protecting = Literal["suppress", "round"]
Names = str | Sequence[str]


def crosstab(  # noqa: PLR0913 - a table has as many parameters as pandas' own, by name
    data: Any,
    rows: Names,
    columns: Names | None = None,
    *,
    values: str | None = None,
    aggregate: str | Sequence[str] | None = None,
    weights: str | None = None,
    margins: bool = True,
    subtotals: bool = False,
    normalize: bool | Literal["all", "index", "columns"] = False,
    protection: Protecting = "suppress",
    k: int | None = None,
    base: int = 5,
    missing: Missing = "level",
    title: str | None = None,
    rules: Rules | None = None,
    log: Log | None = None,
) -> Table:
    """Count records, or sum up a variable, by one or more others, so that the table may leave.

    Question: which cells disclose something about a person (primary suppression), and which others
    must be hidden so that nobody can work those out (secondary suppression)?
    Assumes: one record is one person, unless the role "person" or "cluster" says whose the records
    are: then these are counted, as the rules say. The attacker knows every cell that is shown and
    every margin, whether it is shown or not; see `sfumato.outputs.tables.attack`.

    Parameters
    ----------
    data : a `Dataset`, a `Release`, or a pandas, polars or pyarrow frame.
    rows : the variable or variables down the side.
    columns : the variable or variables across the top.
    values : the variable to sum up; with any `aggregate` but "count".
    aggregate : what to sum up: "count" (default), "sum", "mean", "std", "median", or a percentile
        such as "q25"; or several. Must be said where there are `values`. Minimum and maximum are
        refused: they are somebody's value.
    weights : the variable with survey weights. Thresholds still count records, or persons.
    margins : show the totals. They are protected either way.
    subtotals : show the totals within nested rows and columns too.
    normalize : show shares: of "all" records, of each row ("index") or of each column ("columns").
    protection : kind of protection: "suppress" hides cells, "round" rounds counts to multiples of
        `base`. Rounding is refused where a cell has records of fewer than k persons.
    k : fewest records, or persons, in a cell. Default: the rules' k.
    base : what to round to; at least k.
    missing : missing values: a "level" of their own, or "leave out" the records that have one.
    title : what the table is called in the log.
    rules : the rules of the house.
    log : where the table is noted.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"sex": ["f", "m"] * 12, "ill": (["no"] * 11 + ["yes"]) * 2})
    >>> print(sf.tables.crosstab(frame, "sex", "ill"))
    sex  no  yes  All
    f    12    0   12
    m     ·    ·   12
    All   ·    ·   24
    · hidden, so that no cell of fewer than 3 shows.

    References: Willenborg & de Waal (2001), Elements of Statistical Disclosure Control; Hundepool
    et al. (2012), Statistical Disclosure Control, chapter 4; Ritchie & Smith (2018), ACRO.
    """
    if log is not None and not isinstance(log, Log):
        raise PlanError("log must be a Log.", hint="for instance log=sf.outputs.Log('outputs').")
    options = {
        "rows": rows, "columns": columns, "values": values, "aggregate": aggregate,
        "weights": weights, "margins": margins, "subtotals": subtotals, "normalize": normalize,
        "protection": protection, "k": k, "base": base, "title": title,
        "rules": rules or (None if log is None else log.rules),
    }  # fmt: skip
    try:
        request = TableRequest.check(**options)
    except OutputRefused as refusal:
        if log is not None:
            log.refused(_describe_refusal(refusal, title or f"{aggregate} of {values}", values))
        raise
    return _make_table(_get_dataset(data), request, missing, log)


def pivot(
    data: Any,
    *,
    index: Names,
    columns: Names | None = None,
    values: str,
    aggregate: str | Sequence[str] | None = None,
    aggfunc: str | Sequence[str] | None = None,
    **options: Any,
) -> Table:
    """Sum up a variable by others: `pandas.pivot_table`, with protection.

    Parameters
    ----------
    data : a `Dataset`, a `Release`, or a frame.
    index : the variable or variables down the side.
    columns : the variable or variables across the top.
    values : the variable to sum up.
    aggregate : "mean" (default), "sum", "std", "median", "q25", "count"; or several.
    aggfunc : the same, as pandas calls it.
    options : as of `crosstab`.
    """
    if aggregate is not None and aggfunc is not None:
        raise PlanError("aggregate and aggfunc are the same.", hint="name one of them.")
    wanted = aggregate or aggfunc or "mean"
    return crosstab(data, index, columns, values=values, aggregate=wanted, **options)


def _get_dataset(data: Any) -> Dataset:
    if isinstance(data, Dataset):
        return data
    inner = getattr(data, "dataset", None)
    return inner if isinstance(inner, Dataset) else Dataset(data)


def _make_table(data: Dataset, request: TableRequest, missing: Missing, log: Log | None) -> Table:
    if missing not in ("level", "leave out"):
        raise PlanError(f'\'missing\' is "level" or "leave out", not {missing!r}.')
    counting = request.values is None and request.weights is None and log is None
    if not counting and not frames.is_in_memory(data.frame):
        raise DataError(
            "These records are in a file or on a cluster: tables of them are counts, without "
            "`values`, `weights` and `log`.",
            hint="leave these out, or take the table of a sample in memory.",
        )
    try:
        counts = count_cells(data, request.names, missing=missing, rules=request.rules)
        table = protect_table(counts, request)
    except OutputRefused as refusal:
        if log is not None:
            log.refused(_describe_output(request, verdict="refuse", reasons=(refusal.what,)), data)
        raise
    if log is None:
        return table
    output = _describe_output(
        request, verdict=table.verdict, reasons=table.reasons, digest=digest_of(table.cells),
        rule=table.rule,
    )  # fmt: skip
    population, parts, windows = _find_population(counts, request, table)
    judged = log.add(
        output, population, parts=parts, windows=windows,
        sums=() if request.values is None else [request.values],
    )  # fmt: skip
    return replace(table, verdict=judged.verdict, reasons=judged.reasons)


def _find_population(
    counts: CellCounts, request: TableRequest, table: Table
) -> tuple[Dataset, list[Integers], list[Integers]]:
    """The records behind a table, and the cell and the margins each is in, where shown.

    Besides the records on which its quantiles rest.
    """
    cells, data, windows = counts.find_cells(), counts.data, []
    if request.values is not None:
        present = np.flatnonzero(data.column(request.values).is_not_null().to_numpy())
        cells, data = cells[present], data.take(present)
        listed = list_quantile_windows(counts, request.values, request.statistics, request.k)
        windows = [window[present] for window in listed]
    if request.protection == "round":
        return (
            data,
            [],
            [],
        )  # rounding hides more than the few records by which two tables may differ
    hidden = np.isnan(table.known["count"].cells)
    ways = product((False, True), repeat=len(counts.names))
    margins = [map_to_margin(counts.lattice, summed)[cells] for summed in ways]
    # Hidden cells keep their index, below 0: the log tries to work them out.
    parts = [np.where(hidden[margin], -1 - margin, margin) for margin in margins]
    return data, parts, windows


def _describe_refusal(refusal: OutputRefused, title: str, values: str | None) -> Output:
    return Output(
        kind="pivot",
        title=title,
        variables=(values,) if values else (),
        verdict="refuse",
        reasons=(refusal.what,),
    )


def _describe_output(request: TableRequest, **judgement: Any) -> Output:
    variables = (*request.names, request.values, request.weights)
    return Output(
        kind="crosstab" if request.statistics == ("count",) else "pivot",
        title=request.title,
        variables=tuple(name for name in variables if name),
        groups=request.names,
        **{"rule": request.describe_rule(), **judgement},
    )
