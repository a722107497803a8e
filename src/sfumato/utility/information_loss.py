"""What a release no longer tells, for values, ranges, sets and wildcards alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.summaries import Total
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Codes, Floats, Integers, Positions
from sfumato.kernels.exact_sums import exact_sum
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.pairs.alignment import count_class_sizes, pair_rows, split_classes, tabulate_pairs
from sfumato.parameters import parameters
from sfumato.utility.paired.cell_loss import CellLosses, VariableLoss, measure_variable_loss

_ASSUMPTIONS = (
    (
        "A distance is counted in standard deviations of the original (with n); a range counts "
        "with its end farther from the original value."
    ),
    (
        "Levels of a nominal variable are all equally far apart; those of an ordinal one lie at "
        "their ranks. Dates are days."
    ),
    (
        "`*`, a value that became missing and a dropped variable could be anything in the domain; "
        "a removed record, anything in every variable. What the original leaves open is no loss."
    ),
    (
        "A released name that is neither an original level nor a known group, such as `other`, "
        "stands for the original levels that became it."
    ),
    (
        "For the entropy a released cell that does not hold the original value, and a removed "
        "record, tell nothing of it. ARX counts removed records among themselves, so its "
        "non-uniform entropy is another number where records were removed."
    ),
)


@parameters
class InformationLoss(Measure):
    """How far the release moved or blurred the records, in standard deviations of the original.

    Question: how much detail did the protection cost, taking every range at its worst?
    Assumes: record by record, the released data belong to the original. The value is the mean
    over records of the standardised Euclidean distance between the original record and the
    released one, over the number of variables. In a range, the end farther from the original
    value counts. Beside it are the measures that ARX reports: `granularity` (the mean share of
    the domain that a cell leaves open), `discernibility` (the sum of squared class sizes; a
    removed record counts as many as there are records) and `average_class_size`. `entropy_loss`
    is the share of the bits that suppressing everything would lose. It is ARX's non-uniform
    entropy as long as no record was removed; a removed record has lost all its bits here, where
    ARX still tells it from the records that were not removed. `generalised` (and over
    all variables `generalised_cells`) is the share of cells that were changed or generalised:
    that no longer are exactly what the original says.

    Parameters
    ----------
    variables : the variables that count. Default: all whose role is "quasi" in the original.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> age = sf.Column(role="quasi", kind="integer", domain=(0, 99), cells="generalised")
    >>> original = sf.Dataset(pl.DataFrame({"age": [20, 40, 60, 80]}), sf.Schema({"age": age}))
    >>> frame = pl.DataFrame({"age": ["[20;40]", "[20;40]", "60", "*"]})
    >>> found = InformationLoss().measure(original, sf.Dataset(frame, sf.Schema({"age": age})))
    >>> round(found.value, 4), round(found.details["granularity"], 4)
    (1.3416, 0.351)

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Eq. 2-4; Iyengar
    (2002), KDD (granularity); Bayardo & Agrawal (2005), ICDE (discernibility); De Waal &
    Willenborg (1999), Neth. Off. Stat. 14:17 (non-uniform entropy); LeFevre, DeWitt &
    Ramakrishnan (2006), ICDE (average class size).
    """

    name = "information_loss"
    runs_on = ("local", "streaming", "spark")
    odd = {"one row": 0}
    examples = ({}, {"variables": ["birth_date", "sex", "education", "height"]})
    of = "pair"
    whole = True
    numbers = (
        Number.loss("information_loss", usual=True),
        Number.loss("granularity", highest=1.0),
        Number.loss("discernibility"),
        Number.loss("discernibility_share", highest=1.0),
        Number.loss("entropy_loss", highest=1.0),
        Number.loss("average_class_size", lowest=1.0),
        Number.loss("removed_records"),
        Number.loss("generalised_cells", highest=1.0),
    )
    variables: list[str] | None = None

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Add up what each variable lost, record by record."""
        names = self._choose_variables(original)
        records = engine.count(original)
        if not records:
            raise MeasureError("There is no record to compare.", hint="are the data empty?")
        add_up = _add_up_in_memory if engine.in_memory else _add_up_elsewhere
        total = add_up(original, released, names, engine)
        losses, sizes = total.losses, total.class_sizes
        without = [name for name in names if name not in {loss.name for loss in losses}]
        rows = [_build_row(loss.name, loss.lost, records) for loss in losses]
        self._require_some(rows, without)
        removed = records - engine.count(released)
        return Evidence(
            name=self.name,
            subject="pair",
            value=total.loss / records,
            direction=self.direction,
            records=None
            if total.records is None
            else original.like(pl.DataFrame({"information_loss": total.records})),
            table=original.like(pl.DataFrame(rows)),
            details={
                **_average_rows(rows),
                **_measure_entropy([loss.lost for loss in losses]),
                **_describe_classes(sizes, records),
                "removed_records": removed,
                "variables": tuple(row["variable"] for row in rows),
            },
            assumptions=(*_ASSUMPTIONS, *_list_without_domain(losses)),
            warnings=_list_warnings(without, losses, removed),
        )

    def _choose_variables(self, original: Dataset) -> Sequence[str]:
        if self.variables is None:
            names: Sequence[str] = original.schema.having("quasi")
        else:
            names = self.variables
            original.schema.require(names)
        if not names:
            raise MeasureError(
                "No variable is declared as known to outsiders, so nothing counts.",
                hint='give some variables the role "quasi", or name them: variables = [...].',
            )
        return names

    def _require_some(self, rows: Sequence[Any], without: Sequence[str]) -> None:
        if without and (self.variables is not None or not rows):
            names = ", ".join(f"'{name}'" for name in without)
            raise MeasureError(
                f"The original has no value that could be lost in: {names}.",
                hint="leave them out of `variables`.",
            )


class TotalLoss(NamedTuple):
    """What all variables lost together.

    Parameters
    ----------
    losses : that of each variable in which something could be lost.
    loss : the sum over all original records.
    records : that of each released record, in the order of the release; None where records are not
        in memory.
    class_sizes : how many released records are equal in all variables, for each class of them.
    """

    losses: list[VariableLoss]
    loss: float
    records: Floats | None
    class_sizes: Integers


def _add_up_in_memory(
    original: Dataset, released: Dataset, names: Sequence[str], engine: Engine
) -> TotalLoss:
    del engine
    rows = pair_rows(original, released)
    losses = list[VariableLoss]()
    classes = np.zeros(len(released), np.int32), 1
    squares = np.zeros(len(original))
    for name in names:  # one after the other: the same sum for every layout
        loss = measure_variable_loss(rows, name)
        if loss is None:
            continue
        squares += loss.lost.squares()
        # What each record lost, and its cell, are let go as soon as they are added up.
        lost, code = replace(loss.lost, of=None, moved=np.empty(0)), None
        if loss.code is not None:
            classes = split_classes(classes, loss.code)
            code = np.empty(0, np.int32), loss.code[1]
        losses.append(replace(loss, lost=lost, code=code))
        del loss
    sizes = count_class_sizes(classes[0][np.newaxis], classes[1:])
    del classes
    distances = np.sqrt(squares, out=squares)
    distances /= max(len(losses), 1)
    return TotalLoss(losses, exact_sum(distances), _order_by_release(distances, rows.match), sizes)


_SQUARE, _DISTANCE = "__square__", "distance"


def _add_up_elsewhere(
    original: Dataset, released: Dataset, names: Sequence[str], engine: Engine
) -> TotalLoss:
    """The same by counts: how many records have each pair of cells, variable by variable.

    A last pass looks up what the pairs of a record lost, since a root is taken of their sum.
    """
    pairs = engine.pairs(original, released, names)
    pairs = replace(pairs, schema=pairs.schema.changed(pairs.columns, missing=()))  # as they stand
    losses, squares, codes = list[VariableLoss](), list[pl.DataFrame](), dict[str, pl.DataFrame]()
    for name in names:
        rows, cells = tabulate_pairs(pairs, name, engine)
        loss = measure_variable_loss(rows, name)
        if loss is None:
            continue
        losses.append(loss)
        squares.append(cells.with_columns(pl.Series(_SQUARE, loss.lost.squares())))
        if loss.code is not None:
            shown = rows.released.frame.select(name)
            codes[name] = shown.with_columns(pl.Series(_SQUARE, loss.code[0])).unique()
    derive = partial(_derive_distance, squares)
    wanted = {_DISTANCE: [Total()]}
    total = engine.aggregate(pairs, wanted, derive=derive, reads=pairs.columns)[_DISTANCE]["total"]
    return TotalLoss(
        losses,
        total,
        None,
        _count_classes_elsewhere(released, codes, engine),
    )


def _derive_distance(squares: Sequence[pl.DataFrame], part: pl.DataFrame) -> pl.DataFrame:
    """How far some records moved."""
    total = np.zeros(part.height)
    for table in squares:
        columns = [name for name in table.columns if name != _SQUARE]
        joined = part.select(columns).join(
            table, on=columns, how="left", nulls_equal=True, maintain_order="left"
        )
        total += joined[_SQUARE].to_numpy()
    return pl.DataFrame({_DISTANCE: np.sqrt(total) / max(len(squares), 1)})


def _count_classes_elsewhere(
    released: Dataset, codes: Mapping[str, pl.DataFrame], engine: Engine
) -> Integers:
    if not codes or not engine.count(released):
        return count_class_sizes(np.empty((0, engine.count(released)), np.int32), [])
    rows = engine.tabulate(released, list(codes))
    coded, widths = list[Codes](), list[int]()
    for name, table in codes.items():
        cells = rows.data.frame.select(name).join(
            table, on=name, how="left", nulls_equal=True, maintain_order="left"
        )[_SQUARE]
        coded.append(cells.to_numpy())
        widths.append(int(table[_SQUARE].max()) + 1)  # type: ignore[arg-type]
    return count_class_sizes(np.stack(coded), widths, rows.counts)


def _order_by_release(loss: Floats, match: Positions | None) -> Floats:
    """The loss of each released record, in the order of the release."""
    if match is None:
        return loss
    released = match >= 0
    ordered = np.empty(int(released.sum()))
    ordered[match[released]] = loss[released]
    return ordered


def _build_row(name: str, lost: CellLosses, records: int) -> dict[str, Any]:
    return {
        "variable": name,
        "information_loss": lost.mean_moved,
        "granularity": lost.granularity / records,
        "generalised": lost.generalised / records,
    }


def _average_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def over_all(what: str) -> float:
        return math.fsum(row[what] for row in rows) / len(rows)

    return {
        "granularity": over_all("granularity"),
        "generalised_cells": over_all("generalised"),
    }


def _measure_entropy(lost: Sequence[CellLosses]) -> dict[str, Any]:
    """The bits lost, as a share of what suppressing everything would lose."""
    most = math.fsum(losses.most_bits for losses in lost)
    if not most > 0:
        return {
            "entropy_loss": math.nan,
            "entropy_loss_reason": "no variable has different values in the original.",
        }
    bits = math.fsum(losses.bits for losses in lost)
    return {"entropy_loss": min(max(bits / most, 0.0), 1.0), "bits_lost": bits}


def _describe_classes(sizes: Integers, originals: int) -> dict[str, Any]:
    """Squared class sizes: 0 as a share when all records differ, 1 when none do."""
    released = int(sizes.sum())
    # A removed record is as indistinct as the whole data set.
    penalty = int((sizes * sizes).sum()) + (originals - released) * originals
    details: dict[str, Any] = {"discernibility": penalty, "classes": len(sizes)}
    if originals > 1:
        details["discernibility_share"] = (penalty - originals) / (originals * (originals - 1))
    else:
        details["discernibility_share"] = math.nan
        details["discernibility_share_reason"] = "there is one record only."
    if len(sizes):
        return {**details, "average_class_size": released / len(sizes)}
    why = "the release holds no record."
    return {**details, "average_class_size": math.nan, "average_class_size_reason": why}


def _list_without_domain(losses: Sequence[VariableLoss]) -> tuple[str, ...]:
    """Which cells without a value took what the original holds, for want of a domain."""
    without = [f"'{loss.name}'" for loss in losses if loss.extremes]
    if not without:
        return ()
    names = ", ".join(without)
    assumption = (
        "No domain is declared, so a cell that could be anything takes what the original holds"
    )
    return (f"{assumption}: {names}.",)


def _list_warnings(
    without: Sequence[str], losses: Sequence[VariableLoss], removed: int
) -> tuple[str, ...]:
    warnings = []
    if without:
        names = ", ".join(f"'{name}'" for name in without)
        warnings.append(f"Not counted, since the original has no value there: {names}.")
    if gone := [f"'{loss.name}'" for loss in losses if loss.code is None]:
        warnings.append(f"Not in the release, so counted as suppressed: {', '.join(gone)}.")
    if removed:
        warnings.append(
            f"{removed} records were removed and count as suppressed in every variable."
        )
    return tuple(warnings)
