"""What must hold, and whether it does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato import catalogue
from sfumato.errors import PlanError, did_you_mean
from sfumato.evidence import Evidence
from sfumato.measure import AT_WORST, Measure
from sfumato.parameters import given as given_parameters
from sfumato.parameters import value_said

# A measured share and a stated one may differ in the last bit without meaning anything.
_TOLERANCE = 1e-12


@dataclass(frozen=True, kw_only=True)
class Target:
    """A bound on a measured number: `k.min = 5`, `uniqueness.max = 0.0`.

    `name` is a measure, or a number among its details; "label.number" picks one of several.
    """

    name: str
    least: float | None = None
    most: float | None = None

    def said(self) -> str:
        """The target in words."""
        ends = []
        if self.least is not None:
            ends.append(f"at least {self.least:g}")
        if self.most is not None:
            ends.append(f"at most {self.most:g}")
        return f"{self.name} {' and '.join(ends)}"

    def plain(self) -> dict[str, float]:
        """As it stands in the plan."""
        ends = {"min": self.least, "max": self.most}
        return {end: value for end, value in ends.items() if value is not None}

    def met_by(self, number: float) -> bool:
        """Whether the number keeps the bound. What could not be computed never does."""
        if math.isnan(number):
            return False
        low = self.least is None or number >= self.least - _TOLERANCE
        return low and (self.most is None or number <= self.most + _TOLERANCE)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """One target, the number that was measured, and whether it is met."""

    target: Target
    measure: str
    number: float
    met: bool
    reason: str = ""
    under: str = ""
    """What the measure was told besides its defaults, such as what the outsider knows."""
    worst: str = ""
    """The variable that decides, where the number is that of the worst of several."""

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "target": self.target.name,
            **self.target.plain(),
            "measure": self.measure,
            "value": None if math.isnan(self.number) else self.number,
            "met": self.met,
            "reason": self.reason,
            "under": self.under,
        }

    def said(self) -> str:
        """One line for people."""
        got = self.reason or f"it is {self.number:g}"
        if self.worst and not self.met and not self.reason:
            got += f" for '{self.worst}'"
        under = f" ({self.under})" if self.under else ""
        return f"{self.target.said()}{under}: {'met' if self.met else 'MISSED'}, {got}"


def read_targets(given: Mapping[str, Any]) -> tuple[Target, ...]:
    """Targets from `{"k": {"min": 5}}` or `{"k.min": 5}`."""
    bounds: dict[str, dict[str, float]] = {}
    for path, value in _flat(given):
        name, _, end = path.rpartition(".")
        if end not in ("min", "max") or not name:
            raise PlanError(
                f"Target '{path}' needs a bound.", hint=f"write {path}.min = … or {path}.max = …"
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not _finite(value):
            raise PlanError(f"Target '{path}' must be a number. Got {value!r:.40} instead.")
        if end in bounds.setdefault(name, {}):
            raise PlanError(f"Target '{path}' is set twice.")
        bounds[name][end] = float(value)
    return tuple(
        Target(name=name, least=ends.get("min"), most=ends.get("max"))
        for name, ends in bounds.items()
    )


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _flat(given: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    if above and not given:
        hint = f"write {above}.min or {above}.max."
        raise PlanError(f"Target '{above}' needs a bound.", hint=hint)
    for key, value in given.items():
        path = f"{above}.{key}" if above else str(key)
        pairs += _flat(value, path) if isinstance(value, Mapping) else [(path, value)]
    return pairs


def require_labels(evaluate: Mapping[str, Measure]) -> None:
    """Refuse labels that could be read as another number: they would redirect a target."""
    taken = {name for one in catalogue.measures().values() for name in (one.name, *one.provides)}
    for label, one in evaluate.items():
        if "." in label:
            raise PlanError(f"The label '{label}' has a dot.", hint="choose another label.")
        if label in taken and label != one.name:
            raise PlanError(
                f"A measure cannot be labelled '{label}': that is the name of a number.",
                hint="choose another label.",
            )


def measures_for(
    targets: tuple[Target, ...], evaluate: Mapping[str, Measure]
) -> dict[str, Measure]:
    """The measures to take: those the plan names, and one for every target besides."""
    wanted = dict(evaluate)
    for target in targets:
        if home(target, wanted) is None:
            one = _measure_of(target)
            wanted[one.name] = _by_default(one, target)
        _require_missable(target, wanted)
    return wanted


def _require_missable(target: Target, measures: Mapping[str, Measure]) -> None:
    """Refuse a target that no data could miss: it would be met, and promise nothing."""
    place = home(target, measures)
    if place is None:
        return
    label, number = place
    low, high = measures[label].reach.get(number, (-math.inf, math.inf))
    below = target.least is None or target.least <= low
    if below and (target.most is None or target.most >= high):
        raise PlanError(
            f"The target '{target.said()}' cannot be missed, so it promises nothing.",
            hint=f"{number} lies between {low:g} and {high:g}.",
        )


def home(target: Target, measures: Mapping[str, Measure]) -> tuple[str, str] | None:
    """Where the target's number is found: (label of the measure, name of the number).

    A bare name means the measure as such, never one that somebody labelled and narrowed:
    `k` is that of "uniqueness"; that of `[evaluate.census]` is `census.k`.
    """
    if target.name in measures:
        return target.name, measures[target.name].name
    label, _, number = target.name.rpartition(".")
    for at, one in measures.items():
        if at == (label or one.name) and number in (one.name, *one.provides):
            return at, number
    return None


def _measure_of(target: Target) -> type[Measure]:
    known = catalogue.measures()
    for one in known.values():
        if target.name in (one.name, *one.provides):
            return one
    names = [name for one in known.values() for name in (one.name, *one.provides)]
    raise PlanError(
        f"No measure gives '{target.name}', so the target on it cannot be checked.",
        hint=did_you_mean(target.name, names),
    )


def _by_default(one: type[Measure], target: Target) -> Measure:
    try:
        return one()
    except PlanError as error:
        raise PlanError(
            f"The target on '{target.name}' needs the measure '{one.name}', which has no default. "
            f"{error.what}",
            hint=f"add a table [evaluate.{one.name}] to the plan.",
        ) from None


def _told(one: Measure) -> str:
    """The parameters that somebody has set, in words."""
    defaults = {each.name: each.default for each in catalogue.parameters_of(type(one))}
    said = []
    for name, value in given_parameters(one).items():
        if value != defaults[name]:
            said.append(f"{name}: {value_said(value)}")
    return "; ".join(said)


def judge(
    targets: tuple[Target, ...],
    measures: Mapping[str, Measure],
    evidence: Mapping[str, Evidence],
) -> tuple[Judgement, ...]:
    """Hold every target against the evidence."""
    found: list[Judgement] = []
    for target in targets:
        place = home(target, measures)
        if place is None:
            raise PlanError(f"No measure gives '{target.name}'.")
        label, number = place
        # Where a number has two readings, a promise holds only if it holds for the worse.
        worst = f"{number}{AT_WORST}"
        value = evidence[label].number(worst if worst in evidence[label].details else number)
        reason = evidence[label].reason
        if math.isnan(value) and not reason:
            told = evidence[label].details.get(f"{number}_reason", "it could not be computed.")
            reason = str(told)
        found.append(
            Judgement(
                target=target,
                measure=label,
                number=value,
                met=target.met_by(value),
                reason=reason,
                under=_told(measures[label]),
                worst=str(evidence[label].details.get("worst_variable", "")),
            )
        )
    return tuple(found)
