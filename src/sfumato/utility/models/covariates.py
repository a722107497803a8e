"""The variables of a formula in two data sets, prepared so that both give the same terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import polars as pl

from sfumato.cells.alike import Alike, alike
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Integers
from sfumato.kernels.canonical import order_of
from sfumato.utility.models.formula import Formula

if TYPE_CHECKING:
    import pandas as pd

MOST_LEVELS = 200
"""Of a category in a model: beyond that it is a name, and its columns would fill the memory."""
SAID = {"original": "the original", "released": "the released data", "both": "both data sets"}
_BINARY = 2


@dataclass(frozen=True, eq=False)
class Covariates:
    """The complete records of both data sets under aliases, each in canonical order.

    Parameters
    ----------
    original, released : a column v0, v1, … for each variable of the formula.
    labels : the levels of each category, the reference level first.
    """

    original: pd.DataFrame = field(repr=False)
    released: pd.DataFrame = field(repr=False)
    labels: Mapping[str, Sequence[str]] = field(repr=False)


def covariates(
    original: Dataset, released: Dataset, formula: Formula, *, binary: bool, paired: bool = False
) -> Covariates:
    """Prepare both data sets for a formula; a binary outcome may be a category of two levels.

    Levels and their order are those of the original: declared, where a domain is, else sorted.
    Where the records are paired, row by row, those complete in both are taken, in one order.
    """
    original.schema.require(formula.variables)
    both = {name: _sides(original, released, name) for name in formula.variables}
    was = _complete([one.original for one in both.values()], "original")
    now = _complete([one.released for one in both.values()], "released")
    if paired:
        was = now = _complete(
            [side for one in both.values() for side in (one.original, one.released)], "both"
        )
    labels: dict[str, list[str]] = {}
    columns: dict[str, tuple[pl.Series, pl.Series]] = {}
    for name, one in both.items():
        kept, after = one.original.filter(was), one.released.filter(now)
        if one.categories or name in formula.categories:
            levels = _levels(original, name, kept)
            _require_same_levels(name, levels, after)
            labels[name] = [_label(level) for level in levels]
            kept, after = (_codes(side, levels) for side in (kept, after))
        columns[name] = kept, after
    plain = {formula.outcome} if binary and _is_binary(formula, labels) else set()
    categories = {name: list(labels[name]) for name in labels if name not in plain}
    arrays = [[sides[at].to_numpy() for sides in columns.values()] for at in (0, 1)]
    # Sorted, so that nothing depends on the order of the records.
    together = order_of([*arrays[0], *arrays[1]]) if paired else None
    before, then = (
        _frame(columns, one, categories, order_of(one) if together is None else together)
        for one in arrays
    )
    return Covariates(before, then, labels)


def _sides(original: Dataset, released: Dataset, name: str) -> Alike:
    found = alike(original, released, name)
    if isinstance(found, str):
        raise MeasureError(
            f"The formula names '{name}', which cannot be compared: {found}.",
            hint="leave it out of the formula.",
        )
    return found


def _complete(columns: Sequence[pl.Series], side: str) -> pl.Series:
    """Which records have all values."""
    frame = pl.DataFrame({str(at): column for at, column in enumerate(columns)})
    complete = frame.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    if not complete.any():
        raise MeasureError(
            f"No record of {SAID[side]} has all variables of the formula.",
            hint="leave variables with many missing values out of the formula.",
        )
    return complete


def _levels(original: Dataset, name: str, values: pl.Series) -> pl.Series:
    """The levels that occur, in their declared order where all are declared, else sorted."""
    found = values.unique().sort()
    if not 1 < len(found) <= MOST_LEVELS:
        count = f"more than {MOST_LEVELS} levels" if len(found) > 1 else "one level only"
        raise MeasureError(
            f"Category '{name}' has {count} in the original.",
            hint="leave it out of the formula.",
        )
    declared = original.schema[name].levels or ()
    place = {_label(level): at for at, level in enumerate(declared)}
    if not all(_label(level) in place for level in found):
        return found
    return found[sorted(range(len(found)), key=lambda at: place[_label(found[at])])]


def _label(level: object) -> str:
    """The text of a level; whole numbers without a point, whatever their type."""
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)


def _require_same_levels(name: str, levels: pl.Series, released: pl.Series) -> None:
    now, was = set(released.unique()), set(levels)
    if now == was:
        return
    new, lost = len(now - was), len(was - now)
    raise MeasureError(
        f"Category '{name}' has other levels in the release: {new} new, {lost} gone. Its "
        "coefficients cannot be compared.",
        hint="leave it out of the formula, or compare with an original coarsened the same way.",
    )


def _codes(values: pl.Series, levels: pl.Series) -> pl.Series:
    return values.replace_strict(levels, pl.Series(range(len(levels))), return_dtype=pl.Int64)


def _is_binary(formula: Formula, labels: Mapping[str, Sequence[str]]) -> bool:
    return len(labels.get(formula.outcome or "", ())) == _BINARY


def _frame(
    names: Iterable[str],
    arrays: Sequence[npt.NDArray[Any]],
    categories: Mapping[str, Sequence[str]],
    order: Integers,
) -> pd.DataFrame:
    """The records under aliases, in the order that is given."""
    import pandas as pd

    made: dict[str, object] = {}
    for at, (name, values) in enumerate(zip(names, arrays, strict=True)):
        if name in categories:
            codes = pd.Index([str(code) for code in range(len(categories[name]))])
            made[f"v{at}"] = pd.Categorical.from_codes(values[order], categories=codes)
        else:
            made[f"v{at}"] = values[order].astype(float)
    return pd.DataFrame(made)
