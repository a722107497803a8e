"""What came of one protect, measured once: whoever comes later reads it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sfumato import catalogue
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import SfumatoError, TargetError
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.plan.targets import Judgement
from sfumato.release import Release
from sfumato.risk.attribute_disclosure import AttributeDisclosure
from sfumato.run.attacks import try_attacks
from sfumato.run.dossier import Dossier, build_dossier
from sfumato.run.gates import list_repeated_identifiers
from sfumato.run.lights import (
    Findings,
    Lights,
    judge_attacks,
    light_attacks,
    light_targets,
    light_use,
    require_attempts_fail,
)
from sfumato.run.measuring import take_measures
from sfumato.utility.moments import Moments
from sfumato.utility.purpose import Purpose


@dataclass(frozen=True, eq=False)
class Case:
    """A release with all that was found out about it: attacks, findings, lights, dossier.

    Each is taken when it is first asked for, and once: `Release.case` keeps the case.
    """

    release: Release

    @cached_property
    def attacks(self) -> dict[str, Evidence]:
        """The ledger of variables, and every attack that applies."""
        release = self.release
        return try_attacks(
            release.plan,
            release.manifest,
            release.original,
            release.dataset,
            measured=release.evidence,
        )

    @cached_property
    def use(self) -> dict[str, Evidence]:
        """What analysts keep, where the plan does not ask for it: answers, means and spreads."""
        release = self.release
        if not frames.is_in_memory(release.original.frame):
            return {}
        taken = {item.name for item in release.evidence.values()}
        missing = {m.name: m for m in (Purpose(), Moments()) if m.name not in taken}
        return take_measures(missing, release.original, release.dataset)

    @property
    def purpose(self) -> Evidence | None:
        """Whether the release gives the answers for which the data are shared, item by item."""
        found = {**self.release.evidence, **self.use}.values()
        return next((item for item in found if item.name == Purpose.name), None)

    @property
    def evidence(self) -> dict[str, Evidence]:
        """All of it by label: the plan's measures, what analysts keep, and the attacks."""
        return {**self.release.evidence, **self.use, **self.attacks}

    @cached_property
    def judged(self) -> tuple[Judgement, ...]:
        """What each attack achieved at worst, held against what is acceptable."""
        return judge_attacks(self.release.plan, self.attacks)

    @cached_property
    def findings(self) -> Findings:
        """What asks for a second look although no target asks about it."""
        original = self.release.original
        repeated: list[str] = []
        # In memory that was looked into before anything was released.
        if not frames.is_in_memory(original.frame) and original.schema.having("quasi"):
            repeated = list_repeated_identifiers(original, engine_for(original.frame))
        secrets, unmeasured = dict[str, float](), ""
        try:
            secrets = find_shared_secrets(self.release)
        except SfumatoError as error:
            unmeasured = error.what
        return Findings(
            repeated_names=tuple(repeated),
            shared_secrets=secrets,
            secrets_unmeasured=unmeasured,
            on_cluster=frames.is_distributed(self.release.dataset.frame),
            nobody_known=not original.schema.having("quasi"),
        )

    @cached_property
    def lights(self) -> Lights:
        """Whether the targets hold, what attacks achieve, and what it is good for; and why."""
        release = self.release
        return Lights(
            light_targets(release.plan, release.verdict, release.evidence, self.findings),
            light_attacks(release.plan, self.attacks, self.judged, self.findings),
            light_use(self.purpose),
        )

    @cached_property
    def dossier(self) -> Dossier | None:
        """The rules of the plan's profile, each with what was measured and tried; None: none."""
        release = self.release
        return build_dossier(release.plan, release.verdict, release.evidence, self.attacks)

    def require_attacks_held(self) -> None:
        """Refuse a release on which an attack does better than acceptable, or may not be tried.

        Unless the plan says why that may be.
        """
        try:
            require_attempts_fail(self.release.plan, self.attacks)
        except TargetError as error:
            error.evidence = self.evidence
            error.verdict = (*self.release.verdict, *error.verdict)
            raise


def find_shared_secrets(release: Release) -> dict[str, float]:
    """The share of people whose secret their class gives away, by variable no target is on.

    Nobody stands alone in a release with k = 5, and yet a class in which all died says it of each.
    It is the reading that a target on attribute_disclosure would be held against: the worst, where
    salaries within a few hundred are one, and whoever stands alone gives all away.
    """
    data: Dataset = release.dataset
    judged = {judgement.measure for judgement in release.verdict}
    covered = {
        name
        for label, evidence in release.evidence.items()
        if label in judged and catalogue.measure(evidence.name).of_secrets
        for name in evidence.details.get("confidential", ())
    }
    known = data.schema.having("quasi")
    secrets = [name for name in data.schema.having("sensitive") if name not in covered]
    if not known or not secrets:
        return {}
    table = frames.wrap(AttributeDisclosure(confidential=secrets).measure(data).table)
    shares = zip(table["variable"].to_list(), table["at_worst"].to_list(), strict=True)
    return {name: share for name, share in shares if share > 0}
