"""The dossier of a release: each rule of its profile, what was measured, what was tried, and said.

It promises nothing of its own. A rule holds where the number measured on the release keeps the
bound of the profile, whatever the plan asks for. What only people can decide stays open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato import catalogue
from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, Target, find_number, read_targets
from sfumato.profiles import Profile, Rule, load_profile
from sfumato.release import Release
from sfumato.run.lights import judge_attacks

_ABOUT_OUTPUTS = "This rule is about tables and figures: make them with --profile {name}."


@dataclass(frozen=True, kw_only=True)
class TriedAttack:
    """An attack that belongs to a rule, and what it achieved at worst."""

    label: str
    name: str
    title: str
    tried: bool
    number: float = math.nan
    acceptable: float | None = None
    met: bool | None = None
    reason: str = ""

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            **self.public(),
            "achieved": None if math.isnan(self.number) else self.number,
            "acceptable": self.acceptable,
            "met": self.met,
            "reason": self.reason,
        }

    def public(self) -> dict[str, Any]:
        """What everybody may know: a rate compares with the original."""
        return {"label": self.label, "title": self.title, "tried": self.tried}


@dataclass(frozen=True, kw_only=True)
class DossierRow:
    """One rule, the number measured on the release, the attacks tried, and a sentence.

    `met` is None where a person decides; `asks` then says what is to be done.
    """

    rule: Rule
    bound: str = ""
    number: float = math.nan
    measured: str = ""
    met: bool | None = None
    asks: str = ""
    reason: str = ""
    attacks: tuple[TriedAttack, ...] = ()
    sentence: str = ""
    is_public: bool = True

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "rule": self.rule.name,
            "title": self.rule.title,
            "text": self.rule.text,
            "bound": self.bound,
            "bound_by": self.rule.bound_by if self.bound or self.rule.judged_by_attacks else "",
            "number": None if math.isnan(self.number) else self.number,
            "measured": self.measured,
            "met": self.met,
            "asks": self.asks,
            "reason": self.reason,
            "attacks": [attack.plain() for attack in self.attacks],
            "sentence": self.sentence,
        }

    def public(self) -> dict[str, Any]:
        """As everybody may see it: numbers that tell of the original are withheld."""
        attacks = {"attacks": [attack.public() for attack in self.attacks]}
        if self.is_public:
            return self.plain() | attacks
        hidden = replace(self, number=math.nan, measured="", met=None, reason="",
                         sentence=self.rule.text)  # fmt: skip
        return hidden.plain() | attacks | {"withheld": True}


@dataclass(frozen=True, kw_only=True)
class Dossier:
    """What a board is told about a profile: rule by rule, and as a whole.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> people = pl.DataFrame({"sex": ["f", "m"] * 20})
    >>> plan = sf.Plan(schema={"sex": "quasi"}, profile="ema-0070")
    >>> dossier = sf.protect(sf.Dataset(people, plan.schema), plan).dossier
    >>> {row.rule.name: row.met for row in dossier.rows}
    {'maximum-risk': True, 'class-size': True, 'anonymisation-report': None}
    """

    profile: Profile
    rows: tuple[DossierRow, ...]
    weaker: tuple[str, ...] = ()

    @property
    def met(self) -> bool | None:
        """Whether all rules hold; None while a person must decide one of them."""
        return _decide([row.met for row in self.rows], self.weaker)

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON, with all numbers; they stay inside."""
        return self._describe([row.plain() for row in self.rows])

    def public(self) -> dict[str, Any]:
        """As plain values for JSON, for everybody."""
        return self._describe([row.public() for row in self.rows])

    def _describe(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        profile, met = self.profile, [row["met"] for row in rows]
        return {
            "profile": profile.name,
            "title": profile.title,
            "issuer": profile.issuer,
            "edition": profile.edition,
            "source": profile.source,
            "read": profile.read,
            "met": _decide(met, self.weaker),
            "sentence": self._summarise(met),
            "weaker": list(self.weaker),
            "rows": rows,
            "silent": list(profile.silent),
        }

    def _summarise(self, met: Sequence[bool | None]) -> str:
        title, missed, open_rules = self.profile.title, met.count(False), met.count(None)
        if missed:
            return f"{_count(missed, 'rule')} of {len(met)} of “{title}” missed."
        if self.weaker:
            return f"The plan asks for less than “{title}”, so the release claims nothing by it."
        if not open_rules:
            return f"All {len(met)} rules of “{title}” are met."
        if open_rules == len(met):
            return f"“{title}” is for people to decide; nothing in it is settled by a number."
        verb = "needs" if open_rules == 1 else "need"
        return (
            f"The rules of “{title}” that a number settles are met; "
            f"{_count(open_rules, 'rule')} {verb} a person's decision."
        )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _decide(met: Sequence[bool | None], weaker: Sequence[str]) -> bool | None:
    if weaker or False in met:
        return False
    return None if None in met else True


def build_dossier(
    plan: Plan,
    verdict: Sequence[Judgement],
    evidence: Mapping[str, Evidence],
    tried: Mapping[str, Evidence],
    tables: Mapping[str, Release] | None = None,
) -> Dossier | None:
    """The dossier of a release under its plan; None where the plan has no profile.

    Of several tables, rules are checked against the joined view, where it is measured. What is
    measured of tables only holds where it holds in the worst of them, and an attack counts
    whichever table it was tried on.

    Parameters
    ----------
    plan : with the profile.
    verdict : the targets of the plan, measured on what is released.
    evidence : what else was measured.
    tried : the attacks that were tried.
    tables : of several tables, the release of each.
    """
    if plan.profile is None:
        return None
    profile = load_profile(plan.profile)
    worst: dict[str, Judgement] = {}
    measures: dict[str, Measure] = {}
    attacks = [*_describe_attacks(tried, judge_attacks(plan, tried))]
    for name, table in (tables or {}).items():
        measures |= table.plan.measures
        for judgement in table.verdict:
            known = worst.setdefault(judgement.target.name, judgement)
            worst[judgement.target.name] = max(known, judgement, key=_rank)
        attacks += [
            replace(attack, label=f"{name}.{attack.label}", title=f"{attack.title} ({name})")
            for attack in _describe_attacks(table.attacks, table.case.judged)
        ]
    facts = _Facts(
        measures={**measures, **plan.measures},
        by_target={**worst, **{judgement.target.name: judgement for judgement in verdict}},
        evidence=evidence,
        attacks=tuple(attacks),
    )
    rows = tuple(_describe_rule(rule, profile, facts) for rule in profile.rules)
    return Dossier(profile=profile, rows=rows, weaker=plan.list_weaker())


def _rank(judgement: Judgement) -> float:
    """How bad a number is for its target; what could not be measured is worst."""
    if math.isnan(judgement.number):
        return math.inf
    return judgement.target.distance_beyond(judgement.number)


@dataclass(frozen=True)
class _Facts:
    """What is known of a release, whatever it is of.

    Parameters
    ----------
    measures : by label, those that were taken.
    by_target : by the name of a target, the number held against it.
    evidence : by label, what was measured.
    attacks : those that were tried, or could not be.
    """

    measures: Mapping[str, Measure]
    by_target: Mapping[str, Judgement]
    evidence: Mapping[str, Evidence]
    attacks: tuple[TriedAttack, ...]


def _describe_rule(rule: Rule, profile: Profile, facts: _Facts) -> DossierRow:
    attacks = tuple(
        attack for name in rule.attacks for attack in facts.attacks if attack.name == name
    )
    row = DossierRow(rule=rule, attacks=attacks, asks=rule.asks, sentence=rule.sentence)
    if rule.target:
        wanted = read_targets(rule.target)[0]
        return _hold_target(row, wanted, facts.by_target.get(wanted.name), facts.measures)
    if rule.judged_by_attacks:
        return _hold_attacks(row)
    if rule.shows:
        number, is_public = _find_number(rule.shows, facts)
        statement = _say(row, number, rule.shows, facts.measures)
        return replace(row, **statement, is_public=is_public)
    if rule.outputs:
        about = _ABOUT_OUTPUTS.format(name=profile.name)
        return replace(row, asks=f"{about} {rule.asks}".strip())
    return row


def _hold_target(
    row: DossierRow,
    wanted: Target,
    judgement: Judgement | None,
    measures: Mapping[str, Measure],
) -> DossierRow:
    """A rule with a bound, held against the number that was measured."""
    bound = " and ".join(
        f"at {'least' if end == 'min' else 'most'} {_format(number, wanted.name, measures)}"
        for end, number in wanted.plain().items()
    )
    if judgement is None or math.isnan(judgement.number):
        reason = "it was not measured." if judgement is None else judgement.reason
        return replace(row, bound=bound, met=False, reason=reason, sentence=row.rule.text)
    met = wanted.met_by(judgement.number)
    statement = _say(row, judgement.number, wanted.name, measures)
    statement["sentence"] += _name_limit(row.rule, bound)
    is_public = judgement.audience == "public"
    return replace(row, bound=bound, met=met, **statement, is_public=is_public)


def _hold_attacks(row: DossierRow) -> DossierRow:
    """A rule without a number, held against what Sfumato accepts of the attacks on it."""
    tried = [attack for attack in row.attacks if attack.tried]
    untried = [attack for attack in row.attacks if not attack.tried]
    if untried or not tried:
        reasons = [attack.reason for attack in untried]
        why = " ".join(reasons) or "No attack on this rule applies to the release."
        return replace(row, reason=why, asks="Decide without it, or try it yourself.",
                       sentence=row.rule.text, is_public=False)  # fmt: skip
    worst = max(tried, key=lambda attack: attack.number - (attack.acceptable or 0.0))
    number = _format_share(worst.number)
    limit = f"at most {_format_share(worst.acceptable or 0.0)}"
    return replace(
        row,
        bound=limit,
        number=worst.number,
        measured=number,
        met=all(attack.met for attack in tried),
        sentence=row.rule.sentence.format(number=number) + _name_limit(row.rule, limit),
        is_public=False,
    )


def _describe_attacks(
    tried: Mapping[str, Evidence], judged: Sequence[Judgement]
) -> Iterator[TriedAttack]:
    """Each attack, and what it achieved at worst; without a number where it could not be tried."""
    by_label = {judgement.measure: judgement for judgement in judged}
    for label, item in tried.items():
        wording = catalogue.measure(item.name).attack
        attack = TriedAttack(label=label, name=item.name, title=wording.title if wording else
                             item.name, tried=item.computed, reason=item.reason)  # fmt: skip
        judgement = by_label.get(label)
        if judgement is not None and item.computed and not math.isnan(judgement.number):
            attack = replace(
                attack, number=judgement.number, acceptable=judgement.target.most,
                met=judgement.met, reason="",
            )  # fmt: skip
        yield attack


def _find_number(name: str, facts: _Facts) -> tuple[float, bool]:
    where = find_number(Target(name=name), facts.measures)
    if where is None or where[0] not in facts.evidence:
        return math.nan, False
    item = facts.evidence[where[0]]
    return item.number(where[1]), item.audience == "public"


def _say(
    row: DossierRow, number: float, name: str, measures: Mapping[str, Measure]
) -> dict[str, Any]:
    """The number, how it is written, and the sentence with it."""
    if math.isnan(number):
        return {"reason": "it could not be computed.", "sentence": row.rule.text}
    text = _format(number, name, measures)
    return {
        "number": number,
        "measured": text,
        "sentence": row.rule.sentence.format(number=text),
    }


def _name_limit(rule: Rule, bound: str) -> str:
    return f" The rule names no limit; Sfumato's is {bound}." if rule.bound_by == "sfumato" else ""


def _format(number: float, name: str, measures: Mapping[str, Measure]) -> str:
    """Shares in per cent, counts as they are."""
    where = find_number(Target(name=name), measures)
    meaning = measures[where[0]].find_number(where[1]) if where is not None else None
    if meaning is not None and meaning.is_share:
        return _format_share(number)
    return f"{number:g}"


def _format_share(share: float) -> str:
    return f"{100 * share:.3g} %"
