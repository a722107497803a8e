"""The variables of a formula in two data sets, prepared so that both give the same terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import polars as pl

from sfumato.data import Dataset
from sfumato.engines.local import find_positions
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Integers
from sfumato.kernels.exact_sums import canonical_order
from sfumato.pairs.alignment import ComparableVariable, quote_names
from sfumato.pairs.draws import align_variables
from sfumato.utility.models.formula import Formula

if TYPE_CHECKING:
    import pandas as pd

MOST_LEVELS = 200
"""Of a category in a model: beyond that it is a name, and its columns would fill the memory."""
DRAWS = 10
"""How often a cell that stands for several values is drawn from, to average over it."""
SIDE_NAMES = {
    "original": "the original",
    "released": "the released data",
    "both": "both data sets",
}
_BINARY = 2


@dataclass(frozen=True, eq=False)
class Covariates:
    """The complete records of both data sets under aliases, each in canonical order.

    Parameters
    ----------
    original, released : a column v0, v1, … for each variable of the formula.
    labels : the levels of each category, the reference level first.
    further : the released records again, with other values of the same cells.
    """

    original: pd.DataFrame = field(repr=False)
    released: pd.DataFrame = field(repr=False)
    labels: Mapping[str, Sequence[str]] = field(repr=False)
    further: Sequence[pd.DataFrame] = field(default=(), repr=False)


def align_covariates(
    original: Dataset,
    released: Dataset,
    formula: Formula,
    *,
    binary: bool,
    paired: bool = False,
    weight: str | None = None,
) -> Covariates:
    """Prepare both data sets for a formula; a binary outcome may be a category of two levels.

    Levels and their order are those of the original: declared, where a domain is, else sorted.
    Where the records are paired, row by row, those complete in both are taken, in one order. A
    weight is one more column, the last unless the formula names it.
    """
    names = tuple(dict.fromkeys([*formula.variables, *([] if weight is None else [weight])]))
    original.schema.require(names)
    variables = _align(original, released, names, paired=paired)
    before = [draws[0].original for draws in variables.values()]
    after = [draws[0].released for draws in variables.values()]
    if paired:
        complete_before = complete_after = _find_complete([*before, *after], "both")
    else:
        complete_before = _find_complete(before, "original")
        complete_after = _find_complete(after, "released")
    labels: dict[str, list[str]] = {}
    first: dict[str, npt.NDArray[Any]] = {}
    second: dict[str, list[npt.NDArray[Any]]] = {}
    for name, draws in variables.items():
        was = draws[0].original.filter(complete_before)
        now = [draw.released.filter(complete_after) for draw in draws]
        if draws[0].categories or name in formula.categories:
            levels = sort_levels(original, name, was.unique())
            require_same_levels(name, levels, pl.concat(now).unique())
            labels[name] = [format_level(level) for level in levels]
            was, now = find_positions(was, levels), [find_positions(draw, levels) for draw in now]
        first[name], second[name] = was.to_numpy(), [draw.to_numpy() for draw in now]
    categories = list_categories(formula, labels, binary=binary)
    # Sorted, so that nothing depends on the order of the records.
    drawn = [values for draws in second.values() for values in draws]
    order = (
        (canonical_order([*first.values(), *drawn]),) * 2
        if paired
        else (canonical_order([*first.values()]), canonical_order(drawn))
    )
    frames = [
        build_frame({name: draws[index] for name, draws in second.items()}, categories, order[1])
        for index in range(len(next(iter(second.values()))))
    ]
    return Covariates(build_frame(first, categories, order[0]), frames[0], labels, frames[1:])


def _align(
    original: Dataset, released: Dataset, names: Sequence[str], *, paired: bool
) -> dict[str, list[ComparableVariable]]:
    """Both sides of each variable; several times where released cells stand for several values."""
    generalised = [
        name for name in names if name in released.columns and released.schema[name].generalised
    ]
    if paired and generalised:
        raise MeasureError(
            "The release holds ranges or sets in variables of the formula, so that no noise can be "
            f"read off the pairs of values: {quote_names(generalised)}.",
            hint="judge them by 'coefficients', which takes ranges; or fit the model to the "
            "release with sf.fit, and compare its standard errors with those of the original.",
        )
    aligned = align_variables(original, released, names, draws=DRAWS if generalised else 1)
    variables = {}
    for name, draws in aligned.items():
        if isinstance(draws, str):
            raise refuse_variable(name, draws)
        variables[name] = draws
    return variables


def refuse_variable(name: str, reason: str) -> MeasureError:
    """What is said of a variable of a formula that cannot be compared."""
    return MeasureError(
        f"The formula names '{name}', which cannot be compared: {reason}.",
        hint="leave it out of the formula.",
    )


def _find_complete(columns: Sequence[pl.Series], side: str) -> pl.Series:
    """Which records have all values."""
    complete = find_complete(columns)
    require_complete(complete.any(), side)
    return complete


def find_complete(columns: Sequence[pl.Series]) -> pl.Series:
    """Which records have a value in all columns."""
    frame = pl.DataFrame({str(index): column for index, column in enumerate(columns)})
    return frame.select(pl.all_horizontal(pl.all().is_not_null())).to_series()


def require_complete(any_complete: bool, side: str) -> None:  # noqa: FBT001 - what it asks
    """Fail where no record has all variables of a formula."""
    if not any_complete:
        raise MeasureError(
            f"No record of {SIDE_NAMES[side]} has all variables of the formula.",
            hint="leave variables with many missing values out of the formula.",
        )


def list_categories(
    formula: Formula, labels: Mapping[str, Sequence[str]], *, binary: bool
) -> dict[str, Sequence[str]]:
    """The levels of each variable that is a category in the model.

    A binary outcome stays a column of 0 and 1, as a logistic model needs it.
    """
    coded = binary and len(labels.get(formula.outcome or "", ())) == _BINARY
    return {name: labels[name] for name in labels if not (coded and name == formula.outcome)}


def sort_levels(original: Dataset, name: str, values: pl.Series) -> pl.Series:
    """The levels of a category in their order; fail where there are too few or too many."""
    levels = values.sort()
    if not 1 < len(levels) <= MOST_LEVELS:
        count = f"more than {MOST_LEVELS} levels" if len(levels) > 1 else "one level only"
        raise MeasureError(
            f"Category '{name}' has {count} in the original.",
            hint="leave it out of the formula.",
        )
    return order_levels(levels, original.schema[name].levels or ())


def order_levels(levels: pl.Series, declared: Sequence[object]) -> pl.Series:
    """The levels that occur in their declared order where all are declared, else as they come."""
    rank = {format_level(level): position for position, level in enumerate(declared)}
    if not all(format_level(level) in rank for level in levels):
        return levels
    return levels[sorted(range(len(levels)), key=lambda code: rank[format_level(levels[code])])]


def format_level(level: object) -> str:
    """The text of a level; whole numbers without a point, whatever their type."""
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)


def require_same_levels(name: str, levels: pl.Series, released: pl.Series) -> None:
    """Fail where a category has other levels in the release."""
    after, before = set(released), set(levels)
    if after == before:
        return
    new, lost = len(after - before), len(before - after)
    raise MeasureError(
        f"Category '{name}' has other levels in the release: {new} new, {lost} gone. Its "
        "coefficients cannot be compared.",
        hint="leave it out of the formula, or compare with an original coarsened the same way.",
    )


def build_frame(
    columns: Mapping[str, npt.NDArray[Any]],
    categories: Mapping[str, Sequence[str]],
    order: Integers | slice = slice(None),
) -> pd.DataFrame:
    """The records under aliases, in a given order."""
    import pandas as pd

    frame: dict[str, object] = {}
    for index, (name, values) in enumerate(columns.items()):
        if name in categories:
            codes = pd.Index([str(code) for code in range(len(categories[name]))])
            frame[f"v{index}"] = pd.Categorical.from_codes(values[order], categories=codes)
        else:
            frame[f"v{index}"] = values[order].astype(float)
    return pd.DataFrame(frame)
