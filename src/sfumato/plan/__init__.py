"""What to do and what must hold: a TOML file that people can read, sign and repeat."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from sfumato import catalogue
from sfumato.errors import did_you_mean
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.parameters import ParameterError, parameters
from sfumato.plan.profile import add_profile
from sfumato.plan.targets import Target, measures_for, read_targets, require_labels
from sfumato.plan.tiers import TierOf, derive_tier, read_tiers, require_tiers
from sfumato.schema import Column, Role, Schema

_Reason = Annotated[str, Field(min_length=1, pattern=r"\S")]
PARTIES = {
    "title": "what the data are",
    "custodian": "who answers for the original data",
    "recipient": "who gets the release",
    "purpose": "what it may be used for",
    "legal_basis": "what allows it: a consent, a law, an approval with its number",
    "date": "of this plan, such as 2026-01-31; the report shows no other",
    "contact": "whom analysts may ask",
}
"""What the first page of the report says of a release besides what was measured, and what it is."""


@parameters
class Writing:
    """How the release is written.

    Parameters
    ----------
    format : "csv", "parquet", "arrow", "xlsx", "dta", "sav" or "xpt". Default: as the data came.
    keep_order : keep the order of the rows. By default they get a keyed random order,
        since a position in a file can point to a person.
    formulas : what to do with text in a CSV file that a spreadsheet would run as a formula:
        "escape" it with an apostrophe, "refuse" to write, or "keep" it.
    noise : what the public manifest says about noise: "all"; "safe", the default: all but what
        reveals values (variances that grow with the value, knots of a scale by ranks); or
        "none", only which variables have noise. The rest goes into `accredited/manifest.json`.
    accept_composition : the reason why this may be released although, together with earlier
        releases of the same records, it misses a target or cannot be measured.
    attack_seconds : for about how long attacks are tried on the release, by the time that each is
        stated to take for so many records and variables; 60 by default. Where less leaves one
        untried, `accept_attacks` must say why.
    accept_attacks : the reason why this may be released although an attack on it succeeds too
        often, or had no time; or reasons by attack, `{ singling_out = "..." }`.
    title : what the data are, as the first page of the report calls them.
    custodian : who answers for the original data.
    recipient : who gets the release.
    purpose : what it may be used for.
    legal_basis : what allows it, such as a consent, a law or an approval with its number.
    date : of the plan. The report shows no other date, so that it stays the same.
    contact : whom analysts may ask.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.Plan(release=Writing(title="Cohort of 2026", format="parquet")).release.format
    'parquet'
    """

    format: Literal["csv", "parquet", "arrow", "xlsx", "dta", "sav", "xpt"] | None = None
    keep_order: bool = False
    formulas: Literal["escape", "refuse", "keep"] = "escape"
    # None, so that plans written before there was noise keep their digest.
    noise: Literal["all", "safe", "none"] | None = None
    accept_composition: _Reason | None = None
    attack_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    accept_attacks: _Reason | dict[str, _Reason] | None = None
    title: _Reason | None = None
    custodian: _Reason | None = None
    recipient: _Reason | None = None
    purpose: _Reason | None = None
    legal_basis: _Reason | None = None
    date: dt.date | None = None
    contact: _Reason | None = None

    @field_validator("accept_attacks")
    @classmethod
    def _name_attacks(cls, reasons: str | dict[str, str] | None) -> str | dict[str, str] | None:
        known = [name for name, entry in catalogue.measures().items() if entry.trial is not None]
        for name in reasons if isinstance(reasons, dict) else ():
            if name not in known:
                msg = f"names '{name}', which is no attack. Hint: {did_you_mean(name, known)}"
                raise ValueError(msg)
        return reasons or None

    @model_validator(mode="after")
    def _say_why(self) -> Self:
        if self.attack_seconds == 0 and self.accept_attacks is None:
            wrong = (
                "is 0, so that no attack is tried. Hint: leave it out, or say why nobody need try: "
                'accept_attacks = "...".'
            )
            raise ParameterError("Writing", [("attack_seconds", wrong)])
        return self

    def describe_parties(self) -> dict[str, str]:
        """For whom, by whom, what for and since when: what the first page of the report says."""
        stated = {name: getattr(self, name) for name in PARTIES}
        return {name: str(value) for name, value in stated.items() if value is not None}

    def find_reason(self, attack: str) -> str | None:
        """Why an attack may do better than is acceptable, or need not be tried; None: no reason."""
        reasons = self.accept_attacks
        return reasons.get(attack) if isinstance(reasons, dict) else reasons


@dataclass(frozen=True, init=False)
class Plan:
    """Roles, steps, targets and evaluation. Frozen; equal plans have equal digests.

    Parameters
    ----------
    schema : the role of each variable; a `Schema` or a mapping from variable to role.
    steps : the methods, in the order they are applied.
    targets : what must hold, `{"k.min": 5}`. If a target is missed, nothing is released.
    evaluate : the measures to take; a list, or a mapping from a label to a measure.
    read : how to read the file: delimiter, encoding, types (see `sfumato.read`).
    release : how to write the release; see `Writing`.
    tiers : what differs for users of different trust, from the most trusted to the least,
        `{"internal": {}, "public": {"noise": {"variance_share": 0.4}}}`; see `for_tier`.
    tier : which tier of another plan this one is.
    profile : the rule book that the release shall meet, such as "ema-0070". Its targets and
        measures hold where the plan sets none of its own; see `sfumato profiles`.

    Examples
    --------
    >>> import sfumato as sf
    >>> plan = Plan(schema={"name": "direct", "sex": "quasi"}, steps=[sf.methods.Drop()],
    ...             targets={"k.min": 2})
    >>> Plan.parse(plan.text()) == plan
    True
    """

    schema: Schema
    steps: tuple[Method, ...]
    targets: tuple[Target, ...]
    evaluate: Mapping[str, Measure]
    read: Mapping[str, Any]
    release: Writing
    tiers: Mapping[str, Mapping[str, Any]]
    tier: TierOf | None
    profile: str | None

    def __repr__(self) -> str:
        counts = f"{len(self.schema)} variables, {len(self.steps)} steps"
        return f"Plan({counts}, {len(self.targets)} targets)"

    def __init__(  # noqa: PLR0913 - a parameter for each section of a plan file
        self,
        *,
        schema: Schema | Mapping[str, Column | Role | None] | None = None,
        steps: Iterable[Method] = (),
        targets: Mapping[str, Any] | Iterable[Target] = (),
        evaluate: Mapping[str, Measure] | Iterable[Measure] = (),
        read: Mapping[str, Any] | None = None,
        release: Writing | None = None,
        tiers: Mapping[str, Mapping[str, Any]] | None = None,
        tier: TierOf | None = None,
        profile: str | None = None,
    ) -> None:
        # Frozen, so the fields are set past the dataclass; here people's shorthand becomes types.
        put = partial(object.__setattr__, self)
        put("schema", schema if isinstance(schema, Schema) else Schema(schema))
        put("steps", tuple(steps))
        bounds = read_targets(targets) if isinstance(targets, Mapping) else tuple(targets)
        if isinstance(evaluate, Mapping):
            named = dict(evaluate)
        else:
            named = {measure.name: measure for measure in evaluate}
        put("profile", profile)
        if profile is not None:
            bounds, named = add_profile(profile, bounds, named)
        put("targets", bounds)
        require_labels(named)
        put("evaluate", named)
        put("read", dict(read or {}))
        put("release", release or Writing())
        put("tiers", read_tiers(tiers or {}))
        put("tier", tier)
        require_tiers(self)

    @property
    def measures(self) -> dict[str, Measure]:
        """Every measure the plan needs, by label: named ones, those of targets and of methods."""
        named = self._inform(measures_for(self.targets, self.evaluate))
        reported = {name: step.set_report(name) for step in self.steps for name in step.reports}
        # A target is checked against what the step promises, unless the plan names the measure.
        return named | {
            name: catalogue.measure(name)(**reported[name])
            for name in sorted(reported)
            if name not in named or (reported[name] and name not in self.evaluate)
        }

    def _inform(self, measures: dict[str, Measure]) -> dict[str, Measure]:
        """The measures with what steps tell them, where nobody has set it."""
        settings: dict[str, dict[str, Any]] = {}
        for step in self.steps:
            for name in step.informs:
                settings.setdefault(name, {}).update(step.set_report(name))
        informed = dict(measures)
        for label, measure in measures.items():
            unset = {name: value for name, value in settings.get(measure.name, {}).items()
                     if getattr(measure, name) is None}  # fmt: skip
            if unset:
                informed[label] = replace(measure, **unset)  # type: ignore[type-var]
        return informed

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan from a TOML file."""
        from sfumato.plan.toml_reader import load

        return load(Path(path))

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Read a plan from TOML text."""
        from sfumato.plan.toml_reader import parse

        return parse(text)

    def text(self, *, comments: bool = False) -> str:
        """The plan as TOML; with comments, each line says what it does."""
        from sfumato.plan.toml_writer import write

        return write(self, comments=comments)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan without comments: equal plans, equal digests."""
        return hashlib.sha256(self.text().encode()).hexdigest()

    def with_schema(self, schema: Schema | Mapping[str, Column | Role | None]) -> Plan:
        """The same plan for other declarations."""
        return Plan(
            schema=schema,
            steps=self.steps,
            targets=self.targets,
            evaluate=self.evaluate,
            read=self.read,
            release=self.release,
            tiers=self.tiers,
            tier=self.tier,
            profile=self.profile,
        )

    def for_tier(self, name: str) -> Plan:
        """The plan of one of its tiers, as `protect` takes it."""
        return derive_tier(self, name)

    def __hash__(self) -> int:
        return hash(self.digest)
