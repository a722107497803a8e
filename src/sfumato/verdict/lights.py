"""Two lights on a release: whether its targets hold, and what attacks on it achieve.

Green is rare on purpose. It says that targets were set and hold, that every attack that applies was
tried, and that none achieved more than whoever set the targets has accepted anyway.

How much success is acceptable, an attack's class states (`Measure.trial`), unless the plan has a
target of its own on that measure. "By k" means 1 / k + 0.06: whoever sets k accepts that one in k
is found; the upper end of the interval of 1000 persons lies up to 0.03 above the share, and as much
again is room. Without a target on k, it is taken as 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import polars as pl

from sfumato import catalogue
from sfumato.cells.pairs import quote_names
from sfumato.errors import TargetError
from sfumato.evidence import Evidence
from sfumato.measure import Trial
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, Target, find_number, read_for_target
from sfumato.release import Release, align_original
from sfumato.run import is_on_risk
from sfumato.verdict.attacks import promise_k

Colour = Literal["green", "amber", "red"]
_BARELY = 0.9
"""The part of a limit from which on it is met barely."""
_ROOM = 0.06
_SHARED = 0.2
"""How often two persons may agree in a variable by chance for rows that agree to be one's."""
_LEDGER = "untouched"


@dataclass(frozen=True)
class Light:
    """A colour, and why it is not green.

    Examples
    --------
    >>> Light().colour, Light().dimmed(["nobody looked"]).colour
    ('green', 'amber')
    """

    colour: Colour = "green"
    reasons: tuple[str, ...] = ()

    def dimmed(self, reasons: Iterable[str]) -> Light:
        """With more reasons for a second look."""
        lines = (*self.reasons, *reasons)
        return replace(self, colour="amber" if lines and self.colour == "green" else self.colour,
                       reasons=lines)  # fmt: skip

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON; they stay inside, since reasons compare with the original."""
        return {"colour": self.colour, "reasons": list(self.reasons)}


@dataclass(frozen=True)
class Lights:
    """What the custodian looks at first."""

    targets: Light
    attacks: Light

    def plain(self) -> dict[str, Any]:
        """Both with their reasons, for the custody record."""
        return {"targets": self.targets.plain(), "attacks": self.attacks.plain()}


def show_lights(release: Release) -> Lights:
    """Both lights of a release whose attacks were tried."""
    judged = judge_attacks(release.plan, release.attacks)
    return Lights(_light_targets(release), _light_attacks(release, judged))


def list_public(release: Release) -> dict[str, Any]:
    """What everybody may know of the attacks: which were tried, and whether the plan accepts them.

    Neither a rate nor a colour: a colour is decided by the original, and two of them, of n records
    and of n - 1, may differ. What is said here follows from the plan and the size of the release.
    """
    attacks = {label: item for label, item in release.attacks.items() if item.name != _LEDGER}
    return {
        "tried": [label for label, item in attacks.items() if item.computed],
        "not_tried": [label for label, item in attacks.items() if not item.computed],
        "accepted": release.plan.release.accept_attacks is not None,
    }


def judge_attacks(plan: Plan, tried: Mapping[str, Evidence]) -> tuple[Judgement, ...]:
    """What each attack achieved at worst, held against what is acceptable.

    An attack on which the plan has a target of its own is judged by that, and not here.
    """
    measures = plan.measures
    own = {where[0] for target in plan.targets if (where := find_number(target, measures))}
    judged = []
    for label, evidence in tried.items():
        trial = catalogue.measure(evidence.name).trial
        if trial is None or trial.acceptable is None or label in own:
            continue
        number = trial.number or evidence.name
        name = number if label == evidence.name else f"{label}.{number}"
        target = Target(name=name, most=_limit(trial.acceptable, plan))
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


def require_acceptable(release: Release) -> None:
    """Refuse a release on which an attack does better than acceptable, unless the plan says so."""
    judged = judge_attacks(release.plan, release.attacks)
    missed = [judgement for judgement in judged if not judgement.met]
    if not missed or release.plan.release.accept_attacks is not None:
        return
    lines = "\n".join(f"  - {_describe_success(judgement, release)}" for judgement in missed)
    does = "attack does" if len(missed) == 1 else "attacks do"
    target = missed[0].target.name
    error = TargetError(
        f"{len(missed)} {does} better than is acceptable, so nothing is released:\n{lines}",
        hint="protect more, or treat the variables that left unchanged. If this may leave all the "
        f"same, set a target that you can defend ({target}.max = ...), or say why in the plan: "
        '[release] accept_attacks = "...".',
    )
    error.evidence = {**release.evidence, **release.attacks}
    error.verdict = (*release.verdict, *judged)
    raise error


def _limit(stated: float | Literal["by k"], plan: Plan) -> float:
    return 1 / promise_k(plan) + _ROOM if stated == "by k" else stated


def _light_targets(release: Release) -> Light:
    """Amber where nothing was promised, hardly kept, or could not be measured."""
    plan = release.plan
    if not all(judgement.met for judgement in release.verdict):
        missed = [judgement.describe() for judgement in release.verdict if not judgement.met]
        return Light("red", tuple(missed))
    reasons = [] if plan.targets else ["No target was set, so nothing is guaranteed."]
    reasons += [
        f"{judgement.describe()}: less than a tenth below the limit."
        for judgement in release.verdict
        if _is_barely_met(judgement, plan)
    ]
    reasons += _list_repeated_persons(release)
    measures = plan.measures
    reasons += [
        f"{label} could not be computed: {release.evidence[label].reason}"
        for label in measures
        if label in release.evidence and not release.evidence[label].computed
        and catalogue.measure(release.evidence[label].name).trial is None
    ]  # fmt: skip
    return Light().dimmed(reasons)


def _list_repeated_persons(release: Release) -> list[str]:
    """Identifiers that stand for a person in several rows, where k counts rows and not persons.

    A number repeats because its rows are one person's if they agree in something that few others
    agree in; of a name, which many bear, they do not.
    """
    original = align_original(release.original, release.dataset)
    known = [name for name in release.dataset.schema.having("quasi") if name in original.schema]
    if not known:
        return []
    k, reasons = promise_k(release.plan), []
    # Under names of their own, whatever the variables are called.
    cells = pl.DataFrame({str(i): release.dataset.column(n) for i, n in enumerate(known)})
    for identifier in original.schema.having("direct"):
        owners = original.column(identifier).alias("owner")
        repeated = owners.is_duplicated() & owners.is_not_null()
        if not any(_agree_in(original.column(name), owners, repeated) for name in known):
            continue
        persons = (
            cells.with_columns(owners).group_by(cells.columns).agg(pl.n_unique("owner"))["owner"]
        )
        fewest = int(persons.min())  # type: ignore[arg-type]  # counts
        if fewest < k:
            reasons.append(
                f"'{identifier}' repeats: there are rows of the same person, and k counts rows. "
                f"The smallest class has {fewest} of the persons that '{identifier}' names."
            )
    return reasons


def _agree_in(values: pl.Series, owners: pl.Series, repeated: pl.Series) -> bool:
    """Whether rows with the same identifier have the same value, which few others share."""
    if not repeated.any():
        return False
    shares = values.value_counts()["count"] / len(values)
    rows = pl.DataFrame([owners, values.alias("value")]).filter(repeated)
    same = rows.select((pl.col("value") == pl.col("value").first().over("owner")).mean()).item()
    return float((shares**2).sum()) < _SHARED and (same or 0.0) >= _BARELY


def _is_barely_met(judgement: Judgement, plan: Plan) -> bool:
    """Whether a number that rests on a comparison lies within a tenth of its limit.

    k, l and t are counted in the released file, and hold exactly. An attack, or a distance from
    the original, might be done better by somebody else.
    """
    measure, target = plan.measures[judgement.measure], judgement.target
    if measure.of != "pair" or not is_on_risk(target, plan.measures):
        return False
    over = target.most is not None and judgement.number > _BARELY * target.most > 0
    return over or (target.least is not None and 0 < target.least > _BARELY * judgement.number)


def _light_attacks(release: Release, judged: Sequence[Judgement]) -> Light:
    plan, tried = release.plan, release.attacks
    beyond = [_describe_success(judgement, release) for judgement in judged if not judgement.met]
    accepted = plan.release.accept_attacks
    if beyond and accepted is None:
        light = Light("red", tuple(beyond))
    else:
        light = Light().dimmed(f"{line} The plan accepts that: {accepted}" for line in beyond)
    light = light.dimmed(_list_untried(release))
    light = light.dimmed(
        _describe_success(judgement, release)
        for judgement in judged
        if judgement.met and judgement.number > _find_unremarkable(judgement, release)
    )
    return light.dimmed(_list_fingerprints(tried))


def _list_untried(release: Release) -> list[str]:
    reasons = [
        f"{_title(evidence)}: {evidence.reason or 'it could not be computed.'}"
        for evidence in release.attacks.values()
        if not evidence.computed
    ]
    if not release.original.schema.having("quasi"):
        reasons.append(
            "No variable is declared as known to outsiders (role quasi), so nobody was looked for."
        )
    return reasons


def _find_unremarkable(judgement: Judgement, release: Release) -> float:
    """The most that is not worth a second look."""
    trial = catalogue.measure(release.attacks[judgement.measure].name).trial or Trial()
    if trial.unremarkable is None:
        return _BARELY * (judgement.target.most or 0.0)
    return _limit(trial.unremarkable, release.plan)


def _list_fingerprints(tried: Mapping[str, Evidence]) -> list[str]:
    """What is known of people, leaves as it is, and is rare."""
    ledgers = [evidence for evidence in tried.values() if evidence.name == _LEDGER]
    return [
        f"{quote_names(names.split(', '))}: values leave unchanged that fewer than "
        f"{evidence.details['k']} records share."
        for evidence in ledgers
        if (names := str(evidence.details.get("fingerprints", "")))
    ]


def _describe_success(judgement: Judgement, release: Release) -> str:
    evidence = release.attacks[judgement.measure]
    about = f" for '{judgement.worst}'" if judgement.worst else ""
    return (
        f"{_title(evidence)}: {judgement.target.name} is {judgement.number:.3g}{about} at worst; "
        f"up to {judgement.target.most:.3g} is acceptable."
    )


def _title(evidence: Evidence) -> str:
    wording = catalogue.measure(evidence.name).attack
    return wording.title if wording else evidence.name
