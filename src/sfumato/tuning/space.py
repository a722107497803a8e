"""What may be tried: families of candidates, and those that a user names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any

from sfumato.errors import PlanError, did_you_mean
from sfumato.method import Method
from sfumato.tuning.ladders import Axis, Heights

Steps = tuple[Method, ...]
Space = Mapping[str, Iterable[Any]] | Iterable[Iterable[Method]]


@dataclass(frozen=True, eq=False)
class Family:
    """Candidates of one kind, from the weakest to the strongest.

    Parameters
    ----------
    name : what people call it.
    axes : the parameters that make it weaker or stronger. None: there is one candidate.
    make : the steps for one value of each.
    start : where to begin on each axis, when something is known about it.
    every : try every rung, where more is not always stronger.
    own : the user's own, so that what is wrong with it is an error and no refusal.
    """

    name: str
    axes: tuple[Axis, ...]
    make: Callable[..., Steps] = field(repr=False)
    start: Heights | None = None
    every: bool = False
    own: bool = False

    def values(self, heights: Heights) -> dict[str, Any]:
        """The parameters at these heights."""
        return {axis.name: axis.at(at) for axis, at in zip(self.axes, heights, strict=True)}

    def steps(self, heights: Heights) -> Steps:
        """The steps at these heights."""
        return self.make(*self.values(heights).values())


def one(name: str, steps: Sequence[Method], *, own: bool = False) -> Family:
    """A family of one candidate."""
    kept = tuple(steps)
    return Family(name, (), lambda: kept, own=own)


def together(first: Family, then: Family) -> Family:
    """Both, one after the other; each as strong as it must be."""
    count = len(first.axes)
    axes = (*first.axes, *then.axes)
    if first.axes and then.axes:
        axes = tuple(
            replace(axis, name=f"{family.name} {axis.name}")
            for family in (first, then)
            for axis in family.axes
        )
    return Family(
        f"{first.name} + {then.name}",
        axes,
        lambda *values: (*first.make(*values[:count]), *then.make(*values[count:])),
        start=None if then.axes else first.start,
    )


def listed(space: Space, steps: Steps) -> list[Family]:
    """The candidates that the user names; each stands for itself.

    Examples
    --------
    >>> from sfumato.methods.k_anonymity import KAnonymity
    >>> found = listed({"k": [3, 5]}, (KAnonymity(k=2),))
    >>> [one.name for one in found], found[1].steps(())[0].k
    (['k = 3', 'k = 5'], 5)
    """
    if isinstance(space, Mapping):
        return _grid(space, steps)
    made = []
    for at, given in enumerate(space, 1):
        some = [given] if isinstance(given, Method) else list(given)
        if not all(isinstance(step, Method) for step in some):
            raise PlanError(
                "`space` is a table of parameters and their values, or a list of lists of methods.",
                hint='for instance {"deterministic.k": [3, 5, 10]}.',
            )
        names = " + ".join(step.name for step in some) or "nothing"
        made.append(one(f"{at}: {names}", some, own=True))
    if not made:
        raise PlanError("`space` names nothing to try.", hint="leave it out for the usual ways.")
    return made


def _grid(space: Mapping[str, Iterable[Any]], steps: Steps) -> list[Family]:
    values = {name: _values(name, given) for name, given in space.items()}
    if not values:
        raise PlanError("`space` names nothing to try.", hint="leave it out for the usual ways.")
    known = {name for step, at in _numbered(steps) for name in _names(step, at)}
    for name in values:
        if name not in known:
            raise PlanError(
                f"No protecting step of the plan has a parameter '{name}'.",
                hint=did_you_mean(name, known),
            )
    made = []
    for chosen in product(*values.values()):
        given = dict(zip(values, chosen, strict=True))
        told = ", ".join(f"{name} = {value}" for name, value in given.items())
        made.append(one(told, _with(steps, given), own=True))
    return made


def _values(name: str, given: Any) -> list[Any]:
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise PlanError(
            f"The values of '{name}' must be a list.", hint=f'for instance {{"{name}": [3, 5]}}.'
        )
    # Numbers of numpy become plain ones: a parameter is checked for its type.
    return [value.item() if hasattr(value, "item") else value for value in given]


def _numbered(steps: Steps) -> list[tuple[Method, int]]:
    """Every step, and which of its kind it is."""
    seen: dict[str, int] = {}
    made = []
    for step in steps:
        seen[step.name] = seen.get(step.name, 0) + 1
        made.append((step, seen[step.name]))
    return made


def _names(step: Method, at: int) -> dict[str, str]:
    """What the parameters may be called, as in a sweep: k, deterministic.k, deterministic.1.k."""
    own = [field.name for field in fields(step)]  # type: ignore[arg-type]  # all are dataclasses
    before = ("", f"{step.name}.", f"{step.name}.{at}.")
    return {f"{start}{name}": name for start in before for name in own}


def _with(steps: Steps, given: Mapping[str, Any]) -> Steps:
    made = []
    for step, at in _numbered(steps):
        meant = _names(step, at)
        mine = {meant[name]: value for name, value in given.items() if name in meant}
        made.append(replace(step, **mine) if mine else step)  # type: ignore[type-var]
    return tuple(made)
