"""Which records are at risk, and how far they moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.cells.pairs import matrix
from sfumato.data import Dataset
from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import finish, head_of_panel, label_axes, refuse_public, sheet
from sfumato.figures._sheet.style import INK, ORIGINAL, RELEASED, Mark, house_style
from sfumato.figures.custodian.points import (
    left_out,
    limits,
    put_points,
    same_records,
    two_columns,
    whole,
)
from sfumato.figures.custodian.source import rows_of
from sfumato.io.frames import column
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TWO = 2
_OTHERS = Mark("Other records (original)", INK, ".", "", alpha=0.3)
_BEFORE = replace(ORIGINAL, name="At risk: original", line="", hollow=True)
_AFTER = replace(RELEASED, name="At risk: released", line="")


def at_risk(
    original: Dataset,
    released: Dataset,
    evidence: Evidence,
    *,
    variables: Sequence[str] | None = None,
    public: bool = False,
) -> Picture:
    """The records at risk among all others, joined with what became of them.

    Question: where in the data do the records at risk lie?
    Assumes: record by record, the released data belong to the original.

    Parameters
    ----------
    original, released : the two data sets that were compared.
    evidence : of the measure "mahalanobis" on them.
    variables : two of the variables compared. Default: the first two.
    public : refused. The picture shows single records of the original.

    References: Avraam, Jones & Burton (2021), Figure 2.
    """
    refuse_public("at_risk", public=public)
    names = list(variables if variables is not None else _compared(evidence))[:2]
    if len(names) != _TWO:
        raise SfumatoError(
            "The picture 'at_risk' shows two variables; only one was compared.",
            hint="compare two or more variables.",
        )
    if evidence.records is None:
        raise SfumatoError(
            "The picture 'at_risk' needs evidence with a row per record.",
            hint="measure it again: what was read from a file has no records.",
        )
    wide, narrow = (column(evidence.records, name).to_numpy() for name in ("at_risk", "unsafe"))
    return at_risk_from(
        matrix(original, names), matrix(released, names), wide, narrow, (names[0], names[1])
    )


def _compared(evidence: Evidence) -> list[str]:
    return [str(row["variable"]) for row in rows_of(evidence, ["variable"], picture="at_risk")]


def at_risk_from(
    original: Any,
    released: Any,
    risk1: Any,
    risk2: Any,
    names: tuple[str, str],
    *,
    public: bool = False,
) -> Picture:
    """The same from arrays, a row per record, in the same order everywhere.

    Parameters
    ----------
    original, released : two variables in their own units, a row per record.
    risk1, risk2 : whether the record is at risk, in the wide and in the narrow sense.
    names : what the two variables are called.
    public : refused. The picture shows single records of the original.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([[1.0, 2.0], [2.0, 1.0]])
    >>> at_risk_from(values, values, [True, False], [False, False], ("age", "fare")).audience
    'custodian'
    """
    refuse_public("at_risk", public=public)
    before, after = two_columns(original, "original"), two_columns(released, "released")
    same_records({"original": before, "released": after, "risk1": risk1, "risk2": risk2})
    kept = whole(before, after)
    marked = [np.asarray(one, dtype=bool)[kept] for one in (risk1, risk2)]
    before, after = before[kept], after[kept]
    with house_style():
        figure, axes = sheet(3.3, columns=2)
        for one, letter, name, risk in zip(axes, "AB", ("risk1", "risk2"), marked, strict=True):
            head_of_panel(one, letter, f"{name}: {int(risk.sum()):,} of {len(risk):,}")
            _mark(one, before, after, risk)
            label_axes(one, *names)
        limits(axes, np.vstack([before, after]))
        return finish(
            figure,
            "Records at risk",
            "A line joins each released record at risk with its original. risk1: it lies near its "
            f"original. risk2: and no other released record lies near.{left_out(kept)}",
            public=False,
            shows="shows",
            legend=(_BEFORE, _AFTER, _OTHERS),
        )


def _mark(axes: Axes, before: Floats, after: Floats, risk: npt.NDArray[np.bool_]) -> None:
    put_points(axes, before[~risk], _OTHERS)
    for start, end in zip(before[risk], after[risk], strict=True):
        axes.plot(*np.column_stack([start, end]), color=INK, linewidth=0.7, rasterized=True)
    put_points(axes, before[risk], _BEFORE, size=6.5)
    put_points(axes, after[risk], _AFTER, size=3.4)
