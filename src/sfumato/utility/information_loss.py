"""What a release no longer tells, for values, ranges, sets and wildcards alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.pairs import count_class_sizes, pair_rows
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Positions
from sfumato.kernels.exact_sums import exact_sum
from sfumato.measure import Measure
from sfumato.parameters import parameters
from sfumato.utility._paired.cell_loss import CellLosses, VariableLoss, measure_variable_loss

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
    examples = ({}, {"variables": ["birth_date", "sex", "education", "height"]})
    of = "pair"
    whole = True
    provides = (
        "granularity", "discernibility", "discernibility_share", "entropy_loss",
        "average_class_size", "removed_records", "generalised_cells",
    )  # fmt: skip
    reach = {  # noqa: RUF012 - a class variable by its base
        **dict.fromkeys(
            ("granularity", "discernibility_share", "entropy_loss", "generalised_cells"),
            (0.0, 1.0),
        ),
        **dict.fromkeys(("information_loss", "discernibility", "removed_records"), (0.0, math.inf)),
        "average_class_size": (1.0, math.inf),
    }
    variables: list[str] | None = None

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Add up what each variable lost, record by record."""
        names = self._choose_variables(original)
        rows_of = pair_rows(original, released, names, engine)
        records, counts = rows_of.records, rows_of.counts
        if not records:
            raise MeasureError("There is no record to compare.", hint="are the data empty?")
        total = np.zeros(len(rows_of.original))
        rows, losses, codes = [], [], []
        without: list[str] = []
        for name in names:
            variable_loss = measure_variable_loss(rows_of, name)
            if variable_loss is None:
                without.append(name)
                continue
            total += (
                variable_loss.lost.squares()
            )  # one after the other: the same sum for every layout
            rows.append(_build_row(name, variable_loss.lost, records))
            if variable_loss.code is not None:
                codes.append(variable_loss.code)
            losses.append(variable_loss)
        self._require_some(rows, without)
        loss = np.sqrt(total) / len(rows)
        sizes = count_class_sizes(codes, rows_of.released_records, rows_of.released_counts)
        removed = records - rows_of.released_records
        return Evidence(
            name=self.name,
            subject="pair",
            value=exact_sum(loss if counts is None else loss * counts) / records,
            direction=self.direction,
            records=original.like(
                pl.DataFrame({"information_loss": _order_by_release(loss, rows_of.match)})
            )
            if counts is None
            else None,
            table=original.like(pl.DataFrame(rows)),
            details={
                **_average_rows(rows),
                **_measure_entropy([loss_of.lost for loss_of in losses]),
                **_describe_classes(sizes, records),
                "removed_records": removed,
                "variables": ", ".join(row["variable"] for row in rows),
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


def _order_by_release(
    loss: npt.NDArray[np.float64], match: Positions | None
) -> npt.NDArray[np.float64]:
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


def _describe_classes(sizes: npt.NDArray[np.int64], originals: int) -> dict[str, Any]:
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
