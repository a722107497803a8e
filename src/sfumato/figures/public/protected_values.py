"""Protected values in place of the original ones: centres, noise, or a method of your own.

Records that lie far from all others are left out. A centre of k neighbours, or noise by a share of
the SD, moves a record by about as much as others are spread. A record a hundred times as far away
is still seen where it is, to within a per cent; and what it adds to the SD shifts all others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MethodError
from sfumato.figures.public.subjects import Group, Subjects
from sfumato.figures.public.unit_centres import find_unit_centres, find_unit_neighbours
from sfumato.kernels.arrays import Floats, Mask
from sfumato.outputs.contributors import ALONE, Contributors, find_contributors
from sfumato.outputs.output import OutputRefused

if TYPE_CHECKING:
    from sfumato.figures.public.protection import Protection
    from sfumato.method import Method

STAYS = "Most values stay as they were, so that this figure shows the original."
_CENTRES: dict[str, Literal["euclidean", "mahalanobis"]] = {
    "deterministic": "euclidean",
    "mahalanobis": "mahalanobis",
}
_NEAR_SDS, _MOST_RECORDS = 0.01, 0.5
_ROUNDS = 3
_STANDARD_ERRORS = 3.0
"""Standard errors of a standard deviation by which noise may fall short by chance."""
_FAR = 1.0
"""Spreads of the middle of the records, by which a record must be apart from others to be alone."""
_HARDLY_MOVED = 0.25
"""Share of that distance; a record that moves by less is still seen where it was."""
_MIDDLE, _MIDDLE_IN_SDS = (0.05, 0.95), 3.29
_MOST_NEIGHBOURS = 3
_VISIBLE_DIGITS = 4
"""Digits of the range that an axis shows: a figure has a thousand pixels, and not ten thousand."""
_MOST_DECIMALS = 300


@dataclass(frozen=True, kw_only=True, eq=False)
class ProtectedValues:
    """Protected values, sorted, so that their order says nothing about the records'.

    Parameters
    ----------
    values : one column a variable.
    coinciding : which of them lie exactly where another one lies.
    left_out : the share of records that are not among them, since the method left them as they
        were or took them out.
    outside : how many values lay beyond what is possible, and are mirrored at its end.
    stays : whether a method of the user's own moves most records next to nowhere.
    alone : whether records that lie far from all others were left out.
    units : whose each of them is, where the rules count persons or groups.
    """

    values: pl.DataFrame = field(repr=False)
    coinciding: Mask = field(repr=False)
    left_out: float = 0.0
    outside: int = 0
    stays: bool = False
    alone: bool = False
    units: Contributors = field(default=ALONE, repr=False)

    def __len__(self) -> int:
        return self.values.height

    def column(self, name: str) -> Floats:
        """One variable."""
        return self.values[name].to_numpy()

    def notes(self) -> tuple[str, ...]:
        """What a reader must know about them, in sentences."""
        sentences = [STAYS] if self.stays else []
        if self.outside:
            sentences.append("Values pushed beyond what is possible are mirrored at its end.")
        if self.left_out:
            sentences.append("Records whose values the method left as they were are not drawn.")
        if self.alone:
            sentences.append("Records that lie far from all others are not drawn.")
        return tuple(sentences)


def protect_values(
    data: Subjects | Group | Dataset,
    names: Sequence[str],
    protection: Protection,
    *,
    lonely: bool = False,
) -> ProtectedValues:
    """Protected values of some variables, for deterministic, noise, or a method.

    Records that lie far from all others are left out, unless `lonely`: somebody answers for it.
    """
    variables = list(dict.fromkeys(names))
    group = _take_group(data, variables)
    changed = _apply_method(group, variables, protection)
    remaining = group
    for _ in range(_ROUNDS):
        if lonely or changed.stays or changed.values.height != len(remaining):
            break
        original = remaining.values.select(variables)
        alone = find_isolated(original, changed.values, protection.k, remaining.units)
        if not alone.any():
            break
        # Without them from the start: what they add to the SD would give them away.
        remaining = remaining.take(np.flatnonzero(~alone))
        changed = _apply_method(remaining, variables, protection)
    released, units, stays = changed.values, changed.units, changed.stays
    if released.height == len(remaining):
        original = remaining.values.select(variables)
        moved = ~_find_unmoved(released, original, protection.k, units)
        released, units = released.filter(moved), units.take(np.flatnonzero(moved.to_numpy()))
    possible, outside = _mirror_into_domain(released, group, variables)
    coinciding = possible.is_duplicated().rename("coinciding")
    # Sorted after rounding: the order among equal values would tell the digits that were cut.
    visible = possible.select(_round_to_sight(possible[name]) for name in variables)
    order = visible.select(pl.arg_sort_by(*visible.get_columns(), coinciding)).to_series()
    return ProtectedValues(
        values=visible[order],
        coinciding=coinciding[order].to_numpy(),
        left_out=1 - released.height / len(remaining),
        outside=outside,
        stays=stays,
        alone=len(remaining) < len(group),
        units=units.take(order.to_numpy()),
    )


def _round_to_sight(values: pl.Series) -> pl.Series:
    """Values to as many digits as a figure can show.

    More would not be seen, and would help: the centre of three whole numbers, to thirteen digits,
    is one of very few sums.
    """
    low, high = values.min(), values.max()
    if not isinstance(low, float) or not isinstance(high, float):
        return values
    spread = high - low or abs(high)
    if not (math.isfinite(spread) and spread > 0):
        return values
    decimals = _VISIBLE_DIGITS - 1 - math.floor(math.log10(spread))
    if abs(decimals) > _MOST_DECIMALS:
        return values
    return pl.Series(values.name, np.round(values.to_numpy(), decimals) + 0.0)


def _take_group(data: Subjects | Group | Dataset, names: list[str]) -> Group:
    if isinstance(data, Dataset):
        return Group(label="", values=_read_floats(data, names), origin=data)
    if isinstance(data, Group):
        return data
    if len(data.groups) != 1:
        msg = "values are protected group by group"
        raise TypeError(msg)
    return data.groups[0]


@dataclass(frozen=True, eq=False)
class _ChangedValues:
    """The values a method makes of a group's, whose they are, and whether they are next to them."""

    values: pl.DataFrame
    units: Contributors
    stays: bool = False


def _apply_method(group: Group, names: list[str], protection: Protection) -> _ChangedValues:
    """Protect the values of a group; refused where too few are left to draw."""
    if group.units and protection.method is None and protection.name in _CENTRES:
        values = group.values.select(names)
        distance = _CENTRES[protection.name]
        centres = find_unit_centres(values, group.units, protection.k, distance)
        changed = _ChangedValues(centres, group.units)
    else:
        changed = _run_method(group, names, protection)
    shown = changed.units.count(changed.values.height)
    if changed.values.height == len(group):
        original = group.values.select(names)
        moved = ~_find_unmoved(changed.values, original, protection.k, changed.units)
        after, before = changed.values.filter(moved), original.filter(moved)
        keyed = protection.method is not None and protection.method.keyed
        stays = protection.method is not None and (
            _is_near(after, before)
            or (keyed and _has_little_noise(after, before, protection.sd_share))
        )
        changed = replace(changed, stays=stays)
        shown = changed.units.take(np.flatnonzero(moved.to_numpy())).count(after.height)
    if shown < protection.k:
        raise OutputRefused(
            f"The method '{protection.name}' leaves too few protected values to draw.",
            hint="take another protection.",
        )
    return changed


def _run_method(group: Group, names: list[str], protection: Protection) -> _ChangedValues:
    method = _choose_method(protection, names, group)
    source = group.dataset(identity=method.keyed)
    if protection.name == "growing_noise" and protection.method is None:
        values = _add_growing_noise(source, names, method, protection)
        return _ChangedValues(values, group.units)
    output = method.apply(source, key=protection.key)
    values = _check_output(output, names, method)
    complete = values.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    kept = np.flatnonzero(complete.to_numpy())
    units = group.units
    if units and len(output) != len(group):
        units = _find_units_left(source, output, units, method)
    return _ChangedValues(values.filter(complete), units.take(kept))


def _find_units_left(
    source: Dataset, output: Dataset, units: Contributors, method: Method
) -> Contributors:
    """Whose the records are that a method has not left out."""
    assert units.rules is not None  # noqa: S101 - units are counted by rules
    lost = (source.units.declared and not output.units.declared) or (
        source.schema.having("cluster") != output.schema.having("cluster")
    )
    if lost:
        raise OutputRefused(
            f"The method '{method.name}' leaves records out, and nothing says to whom the others "
            f"belong: the rules count {units.word}.",
            hint='take "suppress", "generalise", "deterministic" or "noise".',
        )
    return find_contributors(output, units.rules)


def _is_near(released: pl.DataFrame, original: pl.DataFrame) -> bool:
    """Whether most records move by less than a hundredth of an SD in every variable."""
    near = [
        (released[name] - original[name]).abs() < _NEAR_SDS * (original[name].std() or 0.0)
        for name in released.columns
    ]
    share = pl.select(pl.all_horizontal(near)).to_series().mean()
    return isinstance(share, float) and share > _MOST_RECORDS


def _has_little_noise(released: pl.DataFrame, original: pl.DataFrame, share: float) -> bool:
    """Whether random moves are smaller than the house asks of noise, beyond mere chance."""
    chance = max(0.0, 1 - _STANDARD_ERRORS / math.sqrt(2 * max(released.height, 1)))
    for name in released.columns:
        moved, spread = released[name] - original[name], original[name].sort().std()
        # In rising order, so that the order of the records does not matter.
        size = math.sqrt(float((moved**2).sort().sum()) / max(released.height, 1))
        if isinstance(spread, float) and size < chance * share * spread:
            return True
    return False


def _read_floats(data: Dataset, names: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame([data.column(name).cast(pl.Float64) for name in names])


def _choose_method(protection: Protection, names: list[str], group: Group) -> Method:
    if protection.method is not None:
        return protection.method
    if protection.name in ("deterministic", "mahalanobis"):
        from sfumato.methods.deterministic import Deterministic

        distance: Any = "mahalanobis" if protection.name == "mahalanobis" else "euclidean"
        return Deterministic(variables=names, strata=[], k=protection.k, distance=distance)
    if protection.name == "growing_noise":
        from sfumato.methods.noise import Noise
        from sfumato.noise.scales import Growth

        # On standardised values: the variance is share² in the middle, and share² (1 + z²) at z.
        share = protection.sd_share**2
        growth = Growth(form="power", constant=share, slope=share, power=2.0)
        return Noise(variables=names, growth=growth, bounds="ignore", whole=False)
    if protection.name == "noise":
        from sfumato.methods.noise import Noise

        # Whole numbers are not rounded again: many would fall back on their own value.
        size = _scale_noise(protection.sd_share, names, group)
        return Noise(variables=names, **size, bounds="ignore", whole=False)
    msg = f"'{protection.name}' shows cells, not points"
    raise TypeError(msg)


def _add_growing_noise(
    source: Dataset, names: list[str], method: Method, protection: Protection
) -> pl.DataFrame:
    """Noise on values measured from the middle in SDs, and back again."""
    middles = {name: float(np.median(source.column(name).to_numpy())) for name in names}
    spreads = {name: float(source.column(name).sort().std() or 1.0) for name in names}  # type: ignore[arg-type]
    standard = source.with_columns(
        pl.DataFrame([(source.column(name) - middles[name]) / spreads[name] for name in names])
    )
    output = method.apply(standard, key=protection.key)
    noisy = _check_output(output, names, method).drop_nulls()
    return noisy.select(pl.col(name) * spreads[name] + middles[name] for name in names)


def _scale_noise(share: float, names: list[str], group: Group) -> dict[str, Any]:
    """How much noise; the method takes shares up to 1, and a variance beyond."""
    if share <= 1:
        return {"sd_share": share}
    from sfumato.engines import engine_for
    from sfumato.engines.summaries import Deviation

    data = group.dataset(identity=False)
    summary = engine_for(data.frame).aggregate(data, {name: [Deviation()] for name in names})
    return {"variance": {name: (share * summary[name]["sd"]) ** 2 for name in names}}


def _check_output(output: Dataset, names: list[str], method: Method) -> pl.DataFrame:
    """The values a method returned; they must all be numbers, and it must have touched them."""
    touched = set(method.touches(output.schema)) if output.schema else set()
    for name in names:
        if name not in output.schema or name not in touched:
            raise MethodError(
                f"The method '{method.name}' does not protect variable '{name}' of this figure.",
                hint="name the variable in the method, or take another protection.",
            )
        if not output.column(name).dtype.is_numeric():
            raise MethodError(
                f"The method '{method.name}' makes no numbers of variable '{name}'.",
                hint='take "suppress", "generalise", "deterministic" or "noise".',
            )
    return _read_floats(output, names)


def _find_unmoved(
    released: pl.DataFrame, original: pl.DataFrame, k: int, units: Contributors
) -> pl.Series:
    """Records that stand where they stood, with fewer than k there: these would be shown as is."""
    equal = [released[name] == original[name] for name in released.columns]
    stayed = pl.select(pl.all_horizontal(equal)).to_series()
    if not stayed.any():
        return stayed
    rare = original.select(pl.len().over(list(original.columns)) < k).to_series()
    if units:
        place = original.select(pl.struct(pl.all()).rank("dense")).to_series().to_numpy()
        rare |= pl.Series(units.count_in(place, len(place) + 1)[place] < k)
    return stayed & rare


def _mirror_into_domain(
    released: pl.DataFrame, group: Group, names: list[str]
) -> tuple[pl.DataFrame, int]:
    """Values within what is possible, and how many had to be mirrored at its ends.

    Cut off at an end, they would pile up there.
    """
    moved, columns = 0, []
    for name in names:
        values, (low, high) = released[name], find_possible_range(group, name)
        moved += int(((values < low) | (values > high)).sum())
        if math.isfinite(low):
            values = low + (values - low).abs()
        if math.isfinite(high):
            values = high - (high - values).abs()
        columns.append(values.clip(low, high))
    return pl.DataFrame(columns), moved


def find_possible_range(group: Group, name: str) -> tuple[float, float]:
    """The declared domain of a variable; without one, 0 where no value is negative."""
    bounds = group.origin.schema[name].bounds
    if bounds is not None:
        return float(bounds[0]), float(bounds[1])
    return (0.0 if group.column(name).min() >= 0 else -math.inf), math.inf


# Records that lie alone --------------------------------------------------------------------------


def find_isolated(
    original: pl.DataFrame, released: pl.DataFrame, k: int, units: Contributors = ALONE
) -> Mask:
    """Which records have fewer than k - 1 others near them, and are drawn near to where they were.

    Distances are the largest over the variables, in units of the spread of the middle 90 %. Where
    the rules count persons or groups, others are records of others, and it does not matter where
    they are drawn.

    Examples
    --------
    >>> import polars as pl
    >>> before = pl.DataFrame({"x": [*np.linspace(0.0, 1.0, 50), 100.0]})
    >>> find_isolated(before, before + 0.1, 3).nonzero()[0].tolist()
    [50]
    """
    before, after = original.to_numpy(), released.select(original.columns).to_numpy()
    spreads = np.array([_robust_spread(column) for column in before.T])
    values = before / spreads
    moved = (np.abs(after - before) / spreads).max(axis=1)
    isolated = np.zeros(len(values), bool)
    candidates = np.flatnonzero(_are_few_in_cell(values, k, units))
    if len(candidates):
        others = min(k, _MOST_NEIGHBOURS, len(values) - 1)
        gaps = _neighbour_distance(values, candidates, others, units)
        # Noise averages out over many records of one, so that these are seen however far they move.
        near = moved[candidates] < _HARDLY_MOVED * gaps
        isolated[candidates] = (gaps > _FAR) & (near | bool(units))
    return isolated


def _robust_spread(values: Floats) -> float:
    """The SD by the middle of the records: far ones do not count."""
    low, high = np.quantile(values, _MIDDLE)
    return float((high - low) / _MIDDLE_IN_SDS or values.std() or 1.0)


def _are_few_in_cell(values: Floats, k: int, units: Contributors) -> Mask:
    """Records in cells of one spread that hold fewer than k: all others have k - 1 near them."""
    cells = np.floor(values / _FAR)
    found, index = np.unique(cells, axis=0, return_inverse=True)
    index = index.ravel()
    return np.asarray(units.count_in(index, len(found))[index] < k)


def _neighbour_distance(
    values: Floats, rows: npt.NDArray[np.intp], others: int, units: Contributors
) -> Floats:
    """How far the (k - 1)-th nearest other record is, or the nearest of the (k - 1)-th other."""
    if units:
        nearest = find_unit_neighbours(values, rows, units, others, norm=np.inf)
        gaps = np.abs(values[nearest[:, -1]] - values[rows]).max(axis=1)
        return np.where(nearest[:, -1] < 0, np.inf, gaps)
    from scipy.spatial import cKDTree

    distances, _ = cKDTree(values).query(values[rows], k=[others], p=np.inf)
    return np.asarray(distances, np.float64)[:, -1]
