"""Protected values in place of the original ones: centres, noise, or a method of your own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MethodError
from sfumato.figures.public.lonely import seen_alone
from sfumato.kernels.arrays import Floats, Mask
from sfumato.outputs.judged import OutputRefused

if TYPE_CHECKING:
    from sfumato.figures.public.protection import Protection
    from sfumato.figures.public.subjects import Group, Subjects
    from sfumato.method import Method

STAYS = "Most values stay as they were, so that this figure shows the original."
_NEAR, _MOST = 0.01, 0.5
_ROUNDS = 3
_SURE = 3.0
"""Standard errors of a standard deviation by which noise may fall short by chance."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Protected:
    """Protected values, sorted, so that their order says nothing of the records'.

    Parameters
    ----------
    values : one column a variable.
    coinciding : which of them lie exactly where another one lies.
    left_out : the share of records that are not among them, since the method left them as they
        were or took them out.
    outside : how many values lay beyond the declared domain and stand at its end now.
    stays : whether a method of the user's own moves most records next to nowhere.
    alone : whether records that lie far from all others were left out.
    """

    values: pl.DataFrame = field(repr=False)
    coinciding: Mask = field(repr=False)
    left_out: float = 0.0
    outside: int = 0
    stays: bool = False
    alone: bool = False

    def __len__(self) -> int:
        return self.values.height

    def column(self, name: str) -> Floats:
        """One variable."""
        return self.values[name].to_numpy()

    def notes(self) -> tuple[str, ...]:
        """What a reader must know of them, in sentences."""
        said = [STAYS] if self.stays else []
        if self.outside:
            said.append("Values pushed beyond the declared range are drawn at its end.")
        if self.left_out:
            said.append("Records whose values the method left as they were are not drawn.")
        if self.alone:
            said.append("Records that lie far from all others are not drawn.")
        return tuple(said)


def points(
    data: Subjects | Group | Dataset,
    names: Sequence[str],
    protection: Protection,
    *,
    lonely: bool = False,
) -> Protected:
    """Protected values of some variables, for deterministic, noise, or a method.

    Records that lie far from all others are left out, unless `lonely`: somebody answers for it.
    """
    from sfumato.figures.public.subjects import Group, Subjects

    if isinstance(data, Subjects):
        if len(data.groups) != 1:
            msg = "points are made group by group"
            raise TypeError(msg)
        data = data.groups[0]
    wanted = list(dict.fromkeys(names))
    if isinstance(data, Dataset):
        group = Group(label="", values=_floats(data, wanted), origin=data)
    else:
        group = data
    found, stays = _made(group, wanted, protection)
    rest = group
    for _ in range(_ROUNDS):
        if lonely or stays or found.height != len(rest):
            break
        alone = seen_alone(rest.values.select(wanted), found, protection.k)
        if not alone.any():
            break
        # Without them from the start: what they add to the SD would tell of them.
        rest = rest.without(alone)
        found, stays = _made(rest, wanted, protection)
    aligned = found.height == len(rest)
    if aligned:
        found = found.filter(~_exposed(found, rest.values.select(wanted), protection.k))
    inside, outside = _inside(found, group.origin, wanted)
    inside = inside.sort(wanted)
    return Protected(
        values=inside,
        coinciding=inside.is_duplicated().to_numpy(),
        left_out=1 - found.height / len(rest),
        outside=outside,
        stays=stays,
        alone=len(rest) < len(group),
    )


def _made(group: Group, names: list[str], protection: Protection) -> tuple[pl.DataFrame, bool]:
    """The values a method makes of a group's, and whether they are next to the original."""
    method = _method(protection, names, group)
    made = method.apply(group.dataset(identity=method.keyed), key=protection.key)
    found, stays = _checked(made, names, method), False
    if found.height == len(group):
        original = group.values.select(names)
        shown = ~_exposed(found, original, protection.k)
        after, before = found.filter(shown), original.filter(shown)
        stays = protection.method is not None and (
            _stays(after, before)
            or (method.keyed and _too_near(after, before, protection.sd_share))
        )
        enough = after.height
    else:
        enough = found.height
    if enough < protection.k:
        raise OutputRefused(
            f"The method '{protection.name}' leaves too few protected values to draw.",
            hint="take another protection.",
        )
    return found, stays


def _stays(made: pl.DataFrame, original: pl.DataFrame) -> bool:
    """Whether most records move by less than a hundredth of an SD in every variable."""
    near = [
        (made[name] - original[name]).abs() < _NEAR * (original[name].std() or 0.0)
        for name in made.columns
    ]
    share = pl.select(pl.all_horizontal(near)).to_series().mean()
    return isinstance(share, float) and share > _MOST


def _too_near(made: pl.DataFrame, original: pl.DataFrame, share: float) -> bool:
    """Whether random moves are smaller than the house asks of noise, beyond mere chance."""
    chance = max(0.0, 1 - _SURE / math.sqrt(2 * max(made.height, 1)))
    for name in made.columns:
        moved, spread = made[name] - original[name], original[name].sort().std()
        # In rising order, so that the order of the records does not matter.
        size = math.sqrt(float((moved**2).sort().sum()) / max(made.height, 1))
        if isinstance(spread, float) and size < chance * share * spread:
            return True
    return False


def _floats(data: Dataset, names: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame([data.column(name).cast(pl.Float64) for name in names])


def _method(protection: Protection, names: list[str], group: Group) -> Method:
    if protection.method is not None:
        return protection.method
    if protection.name == "deterministic":
        from sfumato.methods.deterministic import Deterministic

        return Deterministic(variables=names, strata=[], k=protection.k)
    if protection.name == "noise":
        from sfumato.methods.noise import Noise

        # Whole numbers are not rounded again: many would fall back on their own value.
        size = _size(protection.sd_share, names, group)
        return Noise(variables=names, **size, bounds="ignore", whole=False)
    msg = f"'{protection.name}' shows cells, not points"
    raise TypeError(msg)


def _size(share: float, names: list[str], group: Group) -> dict[str, Any]:
    """How much noise; the method takes shares up to 1, and a variance beyond."""
    if share <= 1:
        return {"sd_share": share}
    from sfumato.engines import engine_for
    from sfumato.engines.summaries import Deviation

    data = group.dataset(identity=False)
    found = engine_for(data.frame).aggregate(data, {name: [Deviation()] for name in names})
    return {"variance": {name: (share * found[name]["sd"]) ** 2 for name in names}}


def _checked(made: Dataset, names: list[str], method: Method) -> pl.DataFrame:
    """The values a method has made; they must all be numbers, and it must have touched them."""
    touched = set(method.touches(made.schema)) if made.schema else set()
    for name in names:
        if name not in made.schema or name not in touched:
            raise MethodError(
                f"The method '{method.name}' does not protect variable '{name}' of this figure.",
                hint="name the variable in the method, or take another protection.",
            )
        if not made.column(name).dtype.is_numeric():
            raise MethodError(
                f"The method '{method.name}' makes no numbers of variable '{name}'.",
                hint='take "suppress", "generalise", "deterministic" or "noise".',
            )
    return _floats(made, names).drop_nulls()


def _exposed(made: pl.DataFrame, original: pl.DataFrame, k: int) -> pl.Series:
    """Records that stand where they stood, with fewer than k there: these would be shown as is."""
    both = [made[name] == original[name] for name in made.columns]
    stayed = pl.select(pl.all_horizontal(both)).to_series()
    if not stayed.any():
        return stayed
    alike = original.select(pl.len().over(list(original.columns)) < k).to_series()
    return stayed & alike


def _inside(made: pl.DataFrame, origin: Dataset, names: list[str]) -> tuple[pl.DataFrame, int]:
    """Values within the declared domain, and how many had to be moved to its ends."""
    moved, columns = 0, []
    for name in names:
        values, bounds = made[name], origin.schema[name].bounds
        if bounds is not None:
            low, high = float(bounds[0]), float(bounds[1])
            moved += int(((values < low) | (values > high)).sum())
            values = values.clip(low, high)
        columns.append(values)
    return pl.DataFrame(columns), moved
