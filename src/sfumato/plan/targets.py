"""What must hold, and whether it does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Self

from sfumato import catalogue
from sfumato.errors import PlanError, did_you_mean
from sfumato.evidence import Audience, Evidence
from sfumato.measure import AT_WORST, FILLED_IN, Measure
from sfumato.parameters import format_value
from sfumato.parameters import list_settings as given_parameters

# A measured share and a stated one may differ in the last bit without meaning anything.
_TOLERANCE = 1e-12
BARELY = 0.9
"""The part of a limit from which on it is met barely: less than a tenth of it is left."""
_NOT_COMPUTED = "it could not be computed."
_UNBOUNDED = "it was measured on a sample, which says nothing certain of the other records."


@dataclass(frozen=True, kw_only=True)
class Target:
    """A bound on a measured number: `k.min = 5`, `uniqueness.max = 0.0`.

    `name` is a measure, or a number among its details; "label.number" picks one of several.

    Examples
    --------
    >>> target = Target(name="t", most=0.25)
    >>> target.describe(), target.met_by(0.3)
    ('t at most 0.25', False)
    """

    name: str
    least: float | None = None
    most: float | None = None

    def describe(self) -> str:
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

    @classmethod
    def from_plain(cls, stated: Mapping[str, Any]) -> Self:
        """A target as a manifest or a custody record states it."""
        return cls(name=stated["target"], least=stated.get("min"), most=stated.get("max"))

    def met_by(self, number: float) -> bool:
        """Whether the number keeps the bound. What could not be computed never does."""
        if math.isnan(number):
            return False
        low = self.least is None or number >= self.least - _TOLERANCE
        return low and (self.most is None or number <= self.most + _TOLERANCE)

    def barely_met_by(self, number: float, *, exact: bool = False) -> bool:
        """Whether the number keeps the bound, but with less than a tenth of it to spare.

        A count that is as asked cannot be nearer, and holds exactly: k = 5 of 5 is no close call.
        Neither is 1/5, which is `exact` as the count behind it.

        Examples
        --------
        >>> Target(name="t", most=0.25).barely_met_by(0.249995)
        True
        >>> Target(name="t", most=0.25).barely_met_by(0.2)
        False
        >>> Target(name="k", least=5).barely_met_by(5)
        False
        """
        if not self.met_by(number) or exact:
            return False
        if all(float(value).is_integer() for value in (number, *self.plain().values())):
            return False
        over = self.most is not None and number > BARELY * self.most > 0
        return over or (self.least is not None and 0 < self.least > BARELY * number)

    def distance_beyond(self, number: float) -> float:
        """How far a number lies beyond the bound; below 0 as long as it keeps it."""
        beyond = [-math.inf]
        if self.least is not None:
            beyond.append(self.least - number)
        if self.most is not None:
            beyond.append(number - self.most)
        return max(beyond)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """One target, the number that was measured, and whether it is met.

    Examples
    --------
    >>> target = Target(name="k", least=5)
    >>> Judgement(target=target, measure="uniqueness", number=7, met=True).describe()
    'k at least 5: met, it is 7'
    """

    target: Target
    measure: str
    number: float
    met: bool
    reason: str = ""
    under: str = ""
    """What the measure was told besides its defaults, such as what the outsider knows."""
    worst: str = ""
    """The variable that decides, where the number is that of the worst of several."""
    sampled: str = ""
    """How few records were looked at, where it was not all: the number is an interval's bad end."""
    filled_in: str = ""
    """What an attacker has worked out first, where the number is that of his table."""
    audience: Audience = "custodian"
    """Who may see the number: what compares with the original stays inside, met or not."""
    exact: bool = False
    """Whether the number is 1/k: it is met as exactly as the count of people behind it."""

    def __repr__(self) -> str:
        """One short line; `describe` says more."""
        return f"Judgement({self.target.describe()}: {self.verdict}, it is {self.number:g})"

    @property
    def barely_met(self) -> bool:
        """Whether the target is met with less than a tenth of its limit to spare."""
        return self.met and self.target.barely_met_by(self.number, exact=self.exact)

    @property
    def verdict(self) -> str:
        """The verdict in a word or two."""
        if not self.met:
            return "MISSED"
        return "barely met" if self.barely_met else "met"

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "target": self.target.name,
            **self.target.plain(),
            "measure": self.measure,
            "value": None if math.isnan(self.number) else self.number,
            "met": self.met,
            **({"barely_met": True} if self.barely_met else {}),
            "reason": self.reason,
            "under": self.under,
            **({"sampled": self.sampled} if self.sampled else {}),
            **({"filled_in": self.filled_in} if self.filled_in else {}),
        }

    def public(self) -> dict[str, Any]:
        """As it stands in the public manifest: a number that tells of the original is withheld.

        With the release at hand a difference from the original is the original's own number, and
        two of them, of n records and of n - 1, are a person's.
        """
        if self.audience == "public":
            return self.plain()
        hidden = replace(self, filled_in="", number=math.nan)
        return hidden.plain() | {"withheld": True}

    def describe(self) -> str:
        """One line for people."""
        got = self.reason or f"it is {self.number:g}"
        if self.worst and not self.met and not self.reason:
            got += f" for '{self.worst}'"
        if self.sampled and not self.reason:
            got += f" {self.sampled}"
        if self.filled_in and not self.reason:
            got += f" {self.filled_in}"
        under = f" ({self.under})" if self.under else ""
        return f"{self.target.describe()}{under}: {self.verdict}, {got}"


_BOUNDS = ("min", "max")


def read_targets(bounds_by_name: Mapping[str, Any]) -> tuple[Target, ...]:
    """Targets from `{"k": {"min": 5}}` or `{"k.min": 5}`."""
    bounds: dict[str, dict[str, float]] = {}
    for path, value in _flatten(bounds_by_name):
        name, _, end = path.rpartition(".")
        if end not in _BOUNDS or not name:
            # A mistyped bound, k.mni, is not yet a name.
            subject = name if name and get_close_matches(end, _BOUNDS) else path
            raise PlanError(
                f"Target '{path}' needs a bound.",
                hint=f"write {subject}.min = … or {subject}.max = …",
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not _is_finite(value):
            raise PlanError(f"Target '{path}' must be a number. Got {value!r:.40} instead.")
        if end in bounds.setdefault(name, {}):
            raise PlanError(f"Target '{path}' is set twice.")
        bounds[name][end] = float(value)
    return tuple(
        Target(name=name, least=ends.get("min"), most=ends.get("max"))
        for name, ends in bounds.items()
    )


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _flatten(nested: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    if above and not nested:
        hint = f"write {above}.min or {above}.max."
        raise PlanError(f"Target '{above}' needs a bound.", hint=hint)
    for key, value in nested.items():
        path = f"{above}.{key}" if above else str(key)
        pairs += _flatten(value, path) if isinstance(value, Mapping) else [(path, value)]
    return pairs


def require_labels(evaluate: Mapping[str, Measure]) -> None:
    """Refuse labels that could be read as another number: they would redirect a target."""
    for label, measure in evaluate.items():
        if "." in label:
            raise PlanError(f"The label '{label}' has a dot.", hint="choose another label.")
        if label != measure.name and catalogue.measure_of(label) is not None:
            raise PlanError(
                f"A measure cannot be labelled '{label}': that is the name of a number.",
                hint="choose another label.",
            )


def measures_for(
    targets: tuple[Target, ...], evaluate: Mapping[str, Measure]
) -> dict[str, Measure]:
    """The measures to take: those the plan names, and measure for every target besides."""
    wanted = dict(evaluate)
    for target in targets:
        if find_number(target, wanted) is None:
            measure = _find_measure(target)
            wanted[measure.name] = _build_default(measure, target)
        _require_missable(target, wanted)
    return wanted


def _require_missable(target: Target, measures: Mapping[str, Measure]) -> None:
    """Refuse a target that no data could miss: it would be met, and promise nothing."""
    where = find_number(target, measures)
    if where is None:
        return
    label, name = where
    number = measures[label].find_number(name)
    low, high = (number.lowest, number.highest) if number else (-math.inf, math.inf)
    # Each end by itself: a real upper bound makes an empty lower one no promise.
    ends = {
        "min": target.least is not None and target.least <= low,
        "max": target.most is not None and target.most >= high,
    }
    for end, is_empty in ends.items():
        if is_empty:
            stated = replace(target, most=None) if end == "min" else replace(target, least=None)
            reach = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
            raise PlanError(
                f"The target '{stated.describe()}' cannot be missed, so it promises nothing.",
                hint=f"{name} is always {reach}; set {target.name}.{end} to what must hold, or "
                "leave it out.",
            )


def find_number(target: Target, measures: Mapping[str, Measure]) -> tuple[str, str] | None:
    """Where the target's number is found: (label of the measure, name of the number).

    A bare name means the measure as such, never one that somebody labelled and narrowed:
    `k` is that of "uniqueness"; that of `[evaluate.census]` is `census.k`.
    """
    if target.name in measures:
        return target.name, measures[target.name].name
    label, _, number = target.name.rpartition(".")
    for name, measure in measures.items():
        if name == (label or measure.name) and measure.find_number(number) is not None:
            return name, number
    return None


def limits_risk(target: Target, measures: Mapping[str, Measure]) -> bool:
    """Whether the bound lies on the side where the risk is: `k.min` does, `k.max` does not.

    Examples
    --------
    >>> import sfumato as sf
    >>> measures = {"uniqueness": sf.risk.Uniqueness()}
    >>> [limits_risk(Target(name="k", **end), measures) for end in ({"least": 5}, {"most": 5})]
    [True, False]
    """
    where = find_number(target, measures)
    if where is None:
        return True  # of a measure that others must know
    number = measures[where[0]].find_number(where[1])
    if number is None or number.safer == "neither":
        return False
    return (target.least if number.safer == "more" else target.most) is not None


def list_harmless(targets: tuple[Target, ...], measures: Mapping[str, Measure]) -> list[str]:
    """Targets on a risk that bound it from the safe side only, in words: they promise nothing."""
    lines = []
    for target in targets:
        where = find_number(target, measures)
        if where is None or measures[where[0]].room() != "risk" or limits_risk(target, measures):
            continue
        end, safer = ("min", "larger") if target.least is None else ("max", "smaller")
        lines.append(
            f"{target.describe()}: this protects nobody, since a {safer} number is safer. Did you "
            f"mean {target.name}.{end}?"
        )
    return lines


def _find_measure(target: Target) -> type[Measure]:
    if (found := catalogue.measure_of(target.name)) is not None:
        return found
    known = catalogue.measures()
    numbers = [(number, measure) for measure in known.values() for number in measure.numbers]
    asked = target.name.lower().replace("-", "_")
    ours = (number.name for number, _ in numbers if asked in number.also)
    raise PlanError(
        f"No measure gives '{target.name}', so the target on it cannot be checked.",
        hint=did_you_mean(next(ours, target.name), [number.name for number, _ in numbers]),
    )


def _build_default(measure: type[Measure], target: Target) -> Measure:
    try:
        return measure()
    except PlanError as error:
        raise PlanError(
            f"The target on '{target.name}' needs the measure '{measure.name}', which has no "
            f"default. {error.what}",
            hint=f"add a table [evaluate.{measure.name}] to the plan.",
        ) from None


def _describe_settings(measure: Measure) -> str:
    """The parameters that somebody has set, in words."""
    defaults = {
        parameter.name: parameter.default for parameter in catalogue.parameters_of(type(measure))
    }
    settings = []
    for name, value in given_parameters(measure).items():
        if value != defaults[name]:
            settings.append(f"{name}: {format_value(value)}")
    return "; ".join(settings)


def judge(
    targets: tuple[Target, ...],
    measures: Mapping[str, Measure],
    evidence: Mapping[str, Evidence],
) -> tuple[Judgement, ...]:
    """Check every target against the evidence."""
    judgements: list[Judgement] = []
    for target in targets:
        where = find_number(target, measures)
        if where is None:
            raise PlanError(f"No measure gives '{target.name}'.")
        label, number = where
        meaning = measures[label].find_number(number)
        value, is_estimate = read_for_target(target, number, evidence[label])
        reason = evidence[label].reason
        if math.isnan(value) and not reason:
            unknown = _UNBOUNDED if is_estimate else _NOT_COMPUTED
            reason = str(evidence[label].details.get(f"{number}_reason", unknown))
        judgements.append(
            Judgement(
                target=target,
                measure=label,
                number=value,
                met=target.met_by(value),
                reason=reason,
                under=_describe_settings(measures[label]),
                worst=str(evidence[label].details.get("worst_variable", "")),
                sampled=_describe_sample(evidence[label]) if is_estimate else "",
                filled_in=_describe_filled_in(number, value, evidence[label]),
                audience=evidence[label].audience,
                exact=meaning is not None and meaning.counts == "one in a class",
            )
        )
    return tuple(judgements)


def read_for_target(target: Target, number: str, evidence: Evidence) -> tuple[float, bool]:
    """The number that a target is checked against, and whether it is the end of an interval.

    Where a number has several readings, a promise holds only if it holds for the worst. Where only
    some records were looked at, it must hold at the bad end of the interval; a number of a sample
    that has no interval can keep no promise, and is NaN.
    """
    value, is_estimate = _read_released_number(target, number, evidence)
    filled = f"{number}{FILLED_IN}"
    if filled not in evidence.details or math.isnan(value):
        return value, is_estimate
    return max(value, evidence.number(filled), key=target.distance_beyond), is_estimate


def _read_released_number(target: Target, number: str, evidence: Evidence) -> tuple[float, bool]:
    worst = f"{number}{AT_WORST}"
    if worst in evidence.details:
        return evidence.number(worst), evidence.sampled is not None
    if evidence.sampled is None:
        return evidence.number(number), False
    ends = evidence.interval_of(number)
    if ends is None:
        return math.nan, True
    value = evidence.number(number)
    # The end that is nearer to missing the target; NaN stays so.
    candidates = [value, *ends]
    if any(math.isnan(candidate) for candidate in candidates):
        return math.nan, True
    return max(candidates, key=target.distance_beyond), True


def _describe_filled_in(number: str, value: float, evidence: Evidence) -> str:
    """What an attacker works out before the number is what it is."""
    filled, as_released = evidence.number(f"{number}{FILLED_IN}"), evidence.number(number)
    if value != filled or value == as_released:
        return ""
    what = evidence.details.get("filled_in", "")
    return f"once an attacker has worked out {what} (as released it is {as_released:g})"


def _describe_sample(evidence: Evidence) -> str:
    """How few records were looked at, and how to look at all."""
    if evidence.sampled is None:
        return ""
    looked, records = evidence.sampled
    return (
        f"at the bad end of its interval, since {looked:,} of {records:,} records were looked at "
        f"(all of them: individuals = {records})"
    )
