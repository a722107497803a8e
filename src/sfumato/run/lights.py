"""Three lights on a release: whether targets hold, what attacks achieve, and what it is good for.

Green is rare on purpose. It says that targets were set and hold, that every attack that applies was
tried, and that none achieved more than is acceptable.

How much success is acceptable, an attack's class states (`Measure.trial`). A target of the plan may
ask for less, and cannot allow more: that takes a reason (`accept_attacks`). "By k" means 1 / k +
0.06: whoever sets k accepts that one in k is found; the upper end of the interval of 1000 persons
lies up to 0.03 above the share, and as much again is room. Without a target on k, it is taken as 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sfumato import catalogue
from sfumato.errors import TargetError
from sfumato.evidence import Evidence
from sfumato.measure import Trial
from sfumato.pairs.alignment import quote_names
from sfumato.plan import Plan
from sfumato.plan.targets import (
    Judgement,
    Target,
    find_number,
    limits_risk,
    list_harmless,
    read_for_target,
)
from sfumato.run.attacks import NOT_TRIED, SECONDS, list_unattacked, promise_k

Colour = Literal["green", "amber", "red"]
_ROOM = 0.06
_LEDGER = "untouched"
_LITTLE_LOST = 0.95
"""The share of the noise that is left together with earlier releases below which that is said."""
_FEW_MATCHED = 0.05
_KEPT, _LITTLE_KEPT = 0.9, 0.5
"""The share of the answers that must stay the same for a green light, and for any but a red one."""
"""The share of people whose rows are matched between releases above which that is said."""


@dataclass(frozen=True)
class Light:
    """A colour, and why it is not green.

    Examples
    --------
    >>> Light().colour, Light().dim(["nobody looked"]).colour
    ('green', 'amber')
    """

    colour: Colour = "green"
    reasons: tuple[str, ...] = ()

    def dim(self, reasons: Iterable[str]) -> Light:
        """With more reasons for a second look."""
        lines = (*self.reasons, *reasons)
        return replace(self, colour="amber" if lines and self.colour == "green" else self.colour,
                       reasons=lines)  # fmt: skip

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON; they stay inside, since reasons compare with the original."""
        return {"colour": self.colour, "reasons": list(self.reasons)}


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What asks for a second look although no target asks about it.

    Parameters
    ----------
    repeated_names : names and the like that repeat, where nobody could look whose rows they are.
    shared_secrets : by variable, the share of people whose secret is, or nearly is, that of
        everybody alike.
    secrets_unmeasured : why that could not be measured.
    on_cluster : the records are on a cluster, where less is tried.
    nobody_known : no variable is declared as known to outsiders.
    """

    repeated_names: tuple[str, ...] = ()
    shared_secrets: Mapping[str, float] = field(default_factory=dict)
    secrets_unmeasured: str = ""
    on_cluster: bool = False
    nobody_known: bool = False


@dataclass(frozen=True)
class Lights:
    """What the custodian looks at first.

    Examples
    --------
    >>> Lights(targets=Light(), attacks=Light().dim(["nobody looked"])).plain()["attacks"]["colour"]
    'amber'
    """

    targets: Light
    attacks: Light
    use: Light | None = None

    def __repr__(self) -> str:
        """One short line; `plain` has the reasons."""
        return f"Lights({', '.join(f'{n}: {light.colour}' for n, light in self._list().items())})"

    def _list(self) -> dict[str, Light]:
        use = {} if self.use is None else {"use": self.use}
        return {"targets": self.targets, "attacks": self.attacks, **use}

    def plain(self) -> dict[str, Any]:
        """All of them with their reasons, for the custody record."""
        return {name: light.plain() for name, light in self._list().items()}


def list_public(plan: Plan, tried: Mapping[str, Evidence]) -> dict[str, Any]:
    """What everybody may know of the attacks: which were tried, and whether the plan accepts them.

    Neither a rate nor a colour: a colour is decided by the original, and two of them, of n records
    and of n - 1, may differ. What is said here follows from the plan and the size of the release.
    """
    attacks = {label: item for label, item in tried.items() if item.name != _LEDGER}
    return {
        "tried": [label for label, item in attacks.items() if item.computed],
        "not_tried": [label for label, item in attacks.items() if not item.computed],
        "accepted": plan.release.accept_attacks is not None,
    }


def judge_attacks(plan: Plan, tried: Mapping[str, Evidence]) -> tuple[Judgement, ...]:
    """What each attack achieved at worst, held against what is acceptable.

    That is what the attack's class states, or the plan's own target where it asks for less.
    """
    stated_limits = [
        (find_number(target, plan.measures), target.most)
        for target in plan.targets
        if target.most is not None
    ]
    judged = []
    for label, evidence in tried.items():
        trial = catalogue.measure(evidence.name).trial
        if trial is None or trial.acceptable is None:
            continue
        number = trial.number or evidence.name
        name = number if label == evidence.name else f"{label}.{number}"
        stated = [most for where, most in stated_limits if where == (label, number)]
        target = Target(name=name, most=min([_limit(trial.acceptable, plan), *stated]))
        value, _ = read_for_target(target, number, evidence)
        # What could not be tried is neither met nor missed: it asks for a second look.
        met = target.met_by(value) or value != value  # noqa: PLR0124 - NaN
        judged.append(
            Judgement(
                target=target,
                measure=label,
                number=value,
                met=met,
                reason=evidence.reason,
                worst=str(evidence.details.get("worst_variable", "")),
            )
        )
    return tuple(judged)


def list_judged_attacks(
    plan: Plan, tried: Mapping[str, Evidence], judged: Sequence[Judgement]
) -> dict[str, Any]:
    """By attack, the number it is judged by, how large it is at worst, and what is acceptable."""
    return {
        judgement.measure: {
            "number": judgement.target.name,
            "at_worst": judgement.plain()["value"],
            "acceptable": judgement.target.most,
            "met": judgement.met,
            "accepted": plan.release.find_reason(tried[judgement.measure].name),
        }
        for judgement in judged
    }


def require_attempts_fail(plan: Plan, tried: Mapping[str, Evidence]) -> None:
    """The same of attacks that were tried."""
    judged = judge_attacks(plan, tried)
    missed = {item.measure: describe_success(item, tried) for item in judged if not item.met}
    untried = _list_cut_short(plan, tried)
    refused = {
        label: line
        for label, line in {**missed, **untried}.items()
        if plan.release.find_reason(tried[label].name) is None
    }
    if not refused:
        return
    lines = "\n".join(f"  - {line}" for line in refused.values())
    name = tried[next(iter(refused))].name
    count = sum(label in missed for label in refused)
    what = f"{count} {'attack succeeds' if count == 1 else 'attacks succeed'} too often"
    remedy = "protect more, or treat the variables that left unchanged"
    if not count:
        what, remedy = "The plan leaves no time for attacks", "leave attack_seconds out"
    error = TargetError(
        f"{what}, so nothing is released:\n{lines}",
        hint=f"{remedy}. If you want to release it anyway, say why in the plan: "
        f'[release] accept_attacks = {{ {name} = "..." }}.',
    )
    error.evidence, error.verdict = dict(tried), judged
    raise error


def _list_cut_short(plan: Plan, tried: Mapping[str, Evidence]) -> dict[str, str]:
    """The attacks for which there is no time, since the plan gives less than is usual."""
    stated = plan.release.attack_seconds
    if stated is None or stated >= SECONDS:
        return {}
    return {
        label: f"{_title(evidence)}: {evidence.reason}"
        for label, evidence in tried.items()
        if evidence.reason.startswith(NOT_TRIED)
    }


def _limit(stated: float | Literal["by k"], plan: Plan) -> float:
    return 1 / promise_k(plan) + _ROOM if stated == "by k" else stated


def light_targets(
    plan: Plan,
    verdict: Sequence[Judgement],
    evidence: Mapping[str, Evidence],
    findings: Findings,
) -> Light:
    """Amber where nothing was promised, hardly kept, or could not be measured."""
    if not all(judgement.met for judgement in verdict):
        missed = [judgement.describe() for judgement in verdict if not judgement.met]
        return Light("red", tuple(missed))
    reasons = [] if plan.targets else ["No target was set, so nothing is guaranteed."]
    harmless = list_harmless(plan.targets, plan.measures)
    if (
        plan.targets
        and not harmless
        and not any(limits_risk(target, plan.measures) for target in plan.targets)
    ):
        harmless = ["No target limits a risk, so no protection is promised."]
    reasons += [*harmless, *list_barely_met(verdict)]
    weaker = f"Less than the profile {plan.profile} asks for"
    reasons += [f"{weaker}: {line}" for line in plan.list_weaker()]
    reasons += [
        *_list_repeated_names(findings),
        *_list_trajectories(plan, evidence),
        *_list_shared_secrets(findings),
    ]
    if findings.on_cluster and plan.targets:
        reasons.append(
            "Targets are measured of the cells as they stand. On a cluster, what other variables "
            "give away of them is only looked for among some records (recoverable)."
        )
    measures = plan.measures
    reasons += [
        f"{label} could not be computed: {evidence[label].reason}"
        for label in measures
        if label in evidence and not evidence[label].computed
        and catalogue.measure(evidence[label].name).trial is None
    ]  # fmt: skip
    return Light().dim(reasons)


def _list_repeated_names(findings: Findings) -> list[str]:
    """Names and the like that repeat, where nobody can look whether their rows are one person's."""
    if not findings.repeated_names:
        return []
    what = f"Values of {quote_names(findings.repeated_names)} repeat, and k counts rows"
    return [f"{what}: whether rows are of one person is looked into in memory only."]


def _list_trajectories(plan: Plan, evidence: Mapping[str, Evidence]) -> list[str]:
    """Where who knows all rows of a person finds fewer than the plan promises of one row."""
    wanted = {find_number(target, plan.measures) for target in plan.targets}
    reasons = []
    for label, item in evidence.items():
        alike = item.details.get("k_of_trajectories", math.nan)
        if alike < promise_k(plan) and (label, "k_of_trajectories") not in wanted:
            reasons.append(
                f"'{item.details['rows_linked_by']}' tells which rows are one person's, and "
                f"some persons share all of theirs with {alike - 1} others only. Drop it, or set a "
                "target on k_of_trajectories."
            )
    return reasons


def _list_shared_secrets(findings: Findings) -> list[str]:
    """What a second look is for where no target asks what people alike give away."""
    if findings.secrets_unmeasured:
        what = "Whether people who look alike share a secret could not be measured"
        return [f"{what}: {findings.secrets_unmeasured}"]
    if not findings.shared_secrets:
        return []
    worst_first = sorted(findings.shared_secrets.items(), key=lambda item: -item[1])
    secrets = ", ".join(f"'{name}' of {100 * share:.3g} %" for name, share in worst_first)
    reason = (
        "Some people share a secret, or nearly, with everybody who looks like them, so whoever "
        f"finds their class learns it: {secrets} of the people. No target asks about that. Set one "
        "on attribute_disclosure, or add l_diversity or t_closeness."
    )
    return [reason]


def list_barely_met(verdict: Iterable[Judgement]) -> list[str]:
    """The targets that leave hardly any room, and what that means for who signs."""
    return [
        f"{judgement.describe()}. Less than a tenth of the limit is left. This refuses nothing: "
        "decide whether that is enough."
        for judgement in verdict
        if judgement.barely_met
    ]


def light_attempts(plan: Plan, tried: Mapping[str, Evidence], judged: Sequence[Judgement]) -> Light:
    """Red where an attack does better than acceptable, amber where the plan accepts that."""
    beyond, accepted = list[str](), list[str]()
    for judgement in judged:
        if not judgement.met:
            line = describe_success(judgement, tried)
            reason = plan.release.find_reason(tried[judgement.measure].name)
            (beyond if reason is None else accepted).append(_add_reason(line, reason))
    light = Light("red", tuple(beyond)) if beyond else Light()
    return light.dim(accepted)


def light_attacks(
    plan: Plan, tried: Mapping[str, Evidence], judged: Sequence[Judgement], findings: Findings
) -> Light:
    """What attacks achieve, what could not be tried, and what is worth a second look."""
    light = light_attempts(plan, tried, judged).dim(_list_untried_attacks(plan, tried, findings))
    light = light.dim(
        describe_success(judgement, tried)
        for judgement in judged
        if judgement.met
        and judgement.number > find_limits(judgement, tried[judgement.measure], plan)[0]
    )
    return light.dim(_list_fingerprints(tried))


def _add_reason(line: str, reason: str | None) -> str:
    return line if reason is None else f"{line} The plan accepts that: {reason}"


def _list_untried_attacks(
    plan: Plan, tried: Mapping[str, Evidence], findings: Findings
) -> list[str]:
    cut_short = _list_cut_short(plan, tried)
    reasons = [
        _add_reason(cut_short[label], plan.release.find_reason(evidence.name))
        if label in cut_short
        else f"{_title(evidence)}: {evidence.reason or 'it could not be computed.'}"
        for label, evidence in tried.items()
        if not evidence.computed
    ]
    reasons += [
        f"{_title(evidence)}: {evidence.warnings[-1]}"
        for evidence in tried.values()
        if "tried_on_records" in evidence.details
    ]
    reasons += list_unattacked(plan, tried)
    if findings.nobody_known:
        reasons.append(
            "No variable is declared as known to outsiders (role quasi), so nobody was looked for."
        )
    return reasons


def find_limits(judgement: Judgement, evidence: Evidence, plan: Plan) -> tuple[float, float]:
    """The most that is not worth a second look, and the most that is acceptable."""
    trial = catalogue.measure(evidence.name).trial or Trial()
    acceptable = judgement.target.most or 0.0
    limits = [trial.unremarkable_share * acceptable]
    if trial.unremarkable is not None:
        limits.append(_limit(trial.unremarkable, plan))
    return min(limits), acceptable


def _list_fingerprints(tried: Mapping[str, Evidence]) -> list[str]:
    """What is known of people, leaves as it is, and is rare."""
    ledgers = [evidence for evidence in tried.values() if evidence.name == _LEDGER]
    return [
        f"{quote_names(names)}: values leave unchanged that fewer than "
        f"{evidence.details['k']} records share."
        for evidence in ledgers
        if (names := evidence.details.get("fingerprints"))
    ]


def describe_success(judgement: Judgement, tried: Mapping[str, Evidence]) -> str:
    """What an attack achieved, and what is acceptable."""
    evidence = tried[judgement.measure]
    about = f" for '{judgement.worst}'" if judgement.worst else ""
    wording = catalogue.measure(evidence.name).attack
    lines = (evidence.details.get("finding"), wording.remedy if wording else "")
    remedy = "".join(f" {line}" for line in lines if line)
    return (
        f"{_title(evidence)}: {judgement.target.name} is {judgement.number:.3g}{about} at worst; "
        f"up to {judgement.target.most:.3g} is acceptable.{remedy}"
    )


def _title(evidence: Evidence) -> str:
    wording = catalogue.measure(evidence.name).attack
    return wording.title if wording else evidence.name


def light_use(evidence: Evidence | None) -> Light | None:
    """Whether the release gives the answers for which the data are shared.

    None where that was not looked at: records that are not in memory, several tables.
    """
    if evidence is None:
        return None
    if not evidence.computed:
        return Light().dim([f"What it is good for could not be measured: {evidence.reason}"])
    details = evidence.details
    if details["stated"]:
        what = f"{details['kept']} of {details['items']} answers of the purpose stay the same."
    else:
        what = (
            f"No purpose is stated. Of {details['items']} usual questions, {details['kept']} keep "
            "their answer."
        )
    single = [f"'{name}' must stay single values, and does not." for name in details["not_single"]]
    if evidence.value >= _KEPT and not single:
        return Light()
    light = Light().dim([what, *single])
    return replace(light, colour="red") if evidence.value < _LITTLE_KEPT else light


def dim_lights(lights: Lights, facts: Mapping[str, Any]) -> Lights:
    """The lights of a release, with what holds of it only by itself; `facts` of its composition."""
    targets, together = (
        facts.get("targets", ()),
        "Together with earlier releases of the same people",
    )
    missed = ", ".join(str(target["target"]) for target in targets if not target["met"])
    barely = ", ".join(str(target["target"]) for target in targets if target.get("barely_met"))
    lines = []
    if missed:
        lines.append(f"{together}, these targets are missed: {missed}. The plan accepts that: "
                     f"{facts['accepted']}")  # fmt: skip
    if barely:
        lines.append(f"{together}, these targets are barely met: {barely}.")
    if facts.get("noise_left", 1.0) < _LITTLE_LOST:
        lines.append(
            f"{together}, {facts['noise_left']:.0%} of the variance of the noise in "
            f"'{facts['noise_variable']}' is left: whoever has all of them averages it."
        )
    attacks = []
    if facts.get("matched_rows", 0.0) > _FEW_MATCHED:
        attacks.append(
            f"{together}, the rows of {facts['matched_rows']:.0%} of the people can be "
            f"matched from one release to the next, by {facts['matched_by']}."
        )
    if unsure := facts.get("unsure"):
        lines.append(
            f"It may be of the same people as {', '.join(unsure)}: nothing in these data tells "
            "people apart. If it is, measure both together (`earlier` in Python); what they give "
            "away together is not known. A direct identifier in the data, which is dropped, would "
            "tell."
        )
    return replace(lights, targets=lights.targets.dim(lines), attacks=lights.attacks.dim(attacks))
