"""What this release and the earlier ones disclose together, held against the targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato.data import Dataset
from sfumato.data.identity import match_identities
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.kernels.arrays import Positions
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.plan.targets import (
    Judgement,
    Target,
    find_number,
    judge,
    limits_risk,
)
from sfumato.progress import Progress, silent
from sfumato.release import Release
from sfumato.run.folders import open_release
from sfumato.run.gates import require_met
from sfumato.run.measuring import _measure_filled_in, align_with_release, take_measures

if TYPE_CHECKING:
    from sfumato.risk.composition import EarlierRelease


NOT_ON_CLUSTER = "what it discloses together with others is measured in memory only."
LEAST_NOISE = 0.5
"""The share of the variance of noise that must be left together with earlier releases, unless the
plan sets a target on it: two fresh draws leave half, and whoever adds a third averages them."""
_NOISE_LEFT = "noise_left"


@dataclass(frozen=True, eq=False)
class HeldComposition:
    """What this release and the earlier ones disclose together, held against the targets.

    Parameters
    ----------
    label : that of the measure `composition`.
    evidence : what it found.
    verdict : the targets, held against all releases together.
    measured : the evidence behind the verdict, by label.
    """

    label: str
    evidence: Evidence
    verdict: tuple[Judgement, ...]
    measured: Mapping[str, Evidence]


def pair_release(original: Dataset, release: Release | str | Path) -> EarlierRelease:
    """An earlier release with the identity that its records have in the original of today."""
    from sfumato.risk.composition import EarlierRelease

    if not frames.is_in_memory(original.frame):
        return EarlierRelease("an earlier release", reason=NOT_ON_CLUSTER)
    if isinstance(release, (str, Path)):
        opened = open_release(release)
        keeps_order = opened.manifest["order_of_rows"] == "as given"
        label, schema = f"'{Path(release).name}'", opened.plan().schema
        dataset = opened.paired(original)
    else:
        label, schema = f"the release of plan {release.plan.digest[:8]}", release.plan.schema
        dataset, keeps_order = release.dataset, release.plan.release.keep_order
    # Records are told apart as they were then, whatever the plan of today says.
    declared = original.with_schema({n: c for n, c in schema.items() if n in original.schema})
    if declared.identity.basis != dataset.identity.basis:
        why = f"its records were told apart by {dataset.identity.basis}."
        return EarlierRelease(label, reason=why)
    rows = match_identities(declared.identity.digests, dataset.identity.digests)
    return EarlierRelease(label, place_records(original, dataset, rows), keeps_order=keeps_order)


def place_records(original: Dataset, released: Dataset, rows: Positions) -> Dataset:
    """The released records that stand in the original, with their identity there.

    `rows` says which original record each is, and -1 where it is none.
    """
    placed = np.flatnonzero(rows >= 0)
    identity = original.identity.take(rows[placed])
    return replace(released, frame=frames.take(released.frame, placed), given_identity=identity)


def hold_composition(
    plan: Plan,
    original: Dataset,
    released: Dataset,
    earlier: Sequence[EarlierRelease],
    *,
    progress: Progress | None = None,
) -> HeldComposition:
    """Measure this release together with earlier ones, and hold that against the targets on risk.

    Targets on the composition itself come first: where the plan has some, they are all that must
    hold. Otherwise what must hold of the release must hold of all of them together.
    """
    from sfumato.risk.composition import Composition

    measures = plan.measures
    composing = {k: m for k, m in measures.items() if isinstance(m, Composition)}
    label, measure = next(iter(composing.items()), (Composition.name, Composition()))
    (progress or silent)("measuring: together with earlier releases", 0, 1)
    if not frames.is_in_memory(original.frame):
        return _fail_composition(plan, label, earlier)
    composed = measure.compose(original, released, earlier, keeps_order=plan.release.keep_order)
    targets = [target for target in plan.targets if is_on_risk(target, measures)]
    on_composition = [target for target in targets if _find_label(target, measures) in composing]
    measured: dict[str, Evidence] = {label: composed.evidence}
    for target in on_composition or targets:
        name = _find_label(target, measures)
        if name not in measured:
            prepared, table = composed.prepare(measures[name])
            # The original has no columns of earlier releases, by which a baseline could be taken.
            comparable = prepared is measures[name] or prepared.of == "pair"
            against = original if comparable else None
            measured |= take_measures({name: prepared}, against, table, progress=progress)
            if not comparable:
                aligned = align_with_release(original, table)
                measured |= _measure_filled_in({name: prepared}, aligned, table, measured)
    if not composed.evidence.computed:
        # What cannot be measured is never safe.
        measured = {
            name: Evidence.failed(item.name, "pair", composed.evidence.reason)
            for name, item in measured.items()
        }
    verdict = judge(tuple(on_composition or targets), measures, measured)
    if not any(find_number(target, measures) == (label, _NOISE_LEFT) for target in targets):
        floor = judge(
            (Target(name=f"{label}.{_NOISE_LEFT}", least=LEAST_NOISE),),
            {label: measure},
            {label: composed.evidence},
        )
        # Not there where it holds: the plan does not ask for it.
        verdict = (*verdict, *(judgement for judgement in floor if not judgement.met))
    labels = ", ".join(release.label for release in earlier)
    together = [
        replace(item, under="; ".join(filter(None, [item.under, f"together with {labels}"])))
        for item in verdict
    ]
    return HeldComposition(label, composed.evidence, tuple(together), measured)


def _fail_composition(plan: Plan, label: str, earlier: Sequence[EarlierRelease]) -> HeldComposition:
    """Of releases that cannot be measured together, no target on risk is met."""
    failed = Evidence.failed("composition", "pair", NOT_ON_CLUSTER)
    measures = plan.measures
    targets = tuple(target for target in plan.targets if is_on_risk(target, measures))
    measured = {
        name: Evidence.failed(measures[name].name, "pair", NOT_ON_CLUSTER)
        for name in (_find_label(target, measures) for target in targets)
    }
    under = f"together with {', '.join(release.label for release in earlier)}"
    verdict = tuple(replace(item, under=under) for item in judge(targets, measures, measured))
    return HeldComposition(label, failed, verdict, measured)


def _find_label(target: Target, measures: Mapping[str, Measure]) -> str:
    where = find_number(target, measures)
    return where[0] if where else ""


def is_on_risk(target: Target, measures: Mapping[str, Measure]) -> bool:
    """Whether a target is on a risk, and not on what the data are good for."""
    if measures[_find_label(target, measures)].room() == "risk":
        return True
    # Who hardly moved is a risk, although the measure of it is one of utility.
    return limits_risk(target, measures)


def leave_out_composition(plan: Plan) -> tuple[tuple[Target, ...], dict[str, Measure]]:
    """The targets and measures of a release by itself: earlier ones are not in its folder."""
    measures = plan.measures
    alone = {label: m for label, m in measures.items() if m.name != "composition"}
    targets = tuple(t for t in plan.targets if _find_label(t, measures) in alone)
    return targets, alone


def select_targeted(
    plan: Plan,
) -> tuple[tuple[Target, ...], dict[str, Measure]]:
    """The same with no measure but those behind targets: what a written file is held against."""
    targets, alone = leave_out_composition(plan)
    targeted = {_find_label(target, plan.measures) for target in targets}
    return targets, {label: measure for label, measure in alone.items() if label in targeted}


def require_composition(
    plan: Plan, composition: HeldComposition, evidence: Mapping[str, Evidence]
) -> None:
    """Fail when the releases together miss a target that the plan does not let go."""
    if plan.release.accept_composition is None:
        require_met(
            composition.verdict,
            {**evidence, **composition.measured, composition.label: composition.evidence},
            hint="protect more, use the key and the plan of the earlier release, or say in the "
            'plan why both may be released: [release] accept_composition = "…". If nobody has '
            "received a release, remove it with `sfumato ledger forget`.",
        )
