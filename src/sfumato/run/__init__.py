"""The one place that orchestrates: assess, protect, evaluate."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from sfumato.data import Dataset
from sfumato.data.linked import LinkedTables
from sfumato.engines import Engine, engine_for
from sfumato.errors import (
    DataError,
    PlanError,
    WeakProtectionWarning,
)
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.plan import Plan
from sfumato.plan.targets import list_harmless
from sfumato.progress import Progress
from sfumato.randomness import Key
from sfumato.release import Release
from sfumato.run.composition import hold_composition, pair_release, require_composition
from sfumato.run.finishing import finish_table
from sfumato.run.folders import open_release, read_plan_and_manifest
from sfumato.run.gates import (
    LAST_GATES,
    Protected,
    declare,
    pass_gates,
    refuse_direct,
    require_memory,
    require_met,
    require_persons,
    require_runs,
)
from sfumato.run.measuring import (
    Measures,
    align_with_release,
    choose_measures,
    share_identity,
    take_measures,
)
from sfumato.run.remedies import name_untreated_variables
from sfumato.run.steps import apply_steps

if TYPE_CHECKING:
    from sfumato.run.tables import LinkedRelease


def assess(
    data: Dataset | LinkedTables, measures: Measures = None, *, progress: Progress | None = None
) -> dict[str, Evidence]:
    """Measure the risk of the data as they are.

    Parameters
    ----------
    data : the original records, with roles in their schema. Of `LinkedTables`, the view that joins
        them is measured.
    measures : which to take, as measures or names. Default: every risk measure of one data set; of
        linked tables `uniqueness`.

    Returns
    -------
    Evidence by the measure's label. One that cannot be computed is there with its reason.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(500), sf.datasets.cohort_schema())
    >>> found = sf.assess(data, ["uniqueness"])
    >>> found["uniqueness"].details["records"]
    500
    """
    if isinstance(data, LinkedTables):
        from sfumato.run.tables import assess_tables

        return assess_tables(data, measures, progress=progress)
    _require_dataset(data)
    engine = engine_for(data.frame, progress)
    chosen = choose_measures(measures, of="one", engine=engine)
    require_memory(data, engine)
    data = engine.keep(engine.prepare(data))
    return take_measures(chosen, data, progress=progress)


def evaluate(
    data: Dataset,
    release: Release | Dataset | str | Path,
    measures: Measures = None,
    *,
    paired: bool = False,
    progress: Progress | None = None,
) -> dict[str, Evidence]:
    """Measure a release, with the original as the baseline.

    Parameters
    ----------
    data : the original records.
    release : a `Release`, a protected `Dataset`, or the folder of a release with its custody
        record, from which the records are paired again.
    measures : which to take. Default: every measure that runs by default.
    paired : whether the rows of a plain `Dataset` are in the order of the original. A file of
        a release is not: pass its folder.
    """
    _require_dataset(data)
    chosen = choose_measures(measures, engine=engine_for(data.frame, progress))
    original, released = _open(data, release)
    comparisons = [label for label, measure in chosen.items() if measure.of == "pair"]
    if comparisons and not share_identity(original, released) and not paired:
        raise DataError(
            f"{', '.join(comparisons)}: nothing says which records belong together.",
            hint="pass the Release or its folder; or pass paired=True if the rows correspond.",
        )
    if paired and original.units.declared and not released.units.declared:
        identity = released.identity.with_persons(original.units.numbers)
        released = replace(released, given_identity=identity)
    return take_measures(chosen, original, released, progress=progress)


def _require_dataset(data: Any) -> None:
    """Say how a frame becomes data whose variables have roles."""
    if not isinstance(data, Dataset):
        raise DataError(
            f"Risk depends on what each variable is, and a {type(data).__name__} does not say so.",
            hint="sf.Dataset(frame, sf.Schema.infer(frame)) takes suggested roles: correct "
            'them. Or declare them: sf.Dataset(frame, {"age": "quasi", "income": "sensitive"}).',
        )


def pair(data: Dataset, release: Release | Dataset | str | Path) -> tuple[Dataset, Dataset]:
    """The original as the release's plan declares it, and the released records in its order."""
    original, released = _open(data, release)
    return align_with_release(original, released), released


def read_plan(
    release: Release | Dataset | str | Path,
) -> tuple[Plan | None, Mapping[str, Any] | None]:
    """The plan behind a release, and its manifest; of protected records alone, neither."""
    if isinstance(release, Dataset):
        return None, None
    if isinstance(release, Release):
        return release.plan, release.manifest
    return read_plan_and_manifest(release)


def _open(data: Dataset, release: Release | Dataset | str | Path) -> tuple[Dataset, Dataset]:
    """The whole original as the release's plan declares it, and the released records."""
    prepare = engine_for(data.frame).prepare
    if isinstance(release, (str, Path)):
        opened = open_release(release, like=data.frame)
        data = prepare(opened.plan().declare(data))
        released = opened.paired(data)
    elif isinstance(release, Release):
        data, released = prepare(release.plan.declare(data)), release.dataset
    else:
        data, released = prepare(data), release
    require_memory(data, engine_for(data.frame))
    if frames.is_distributed(data.frame) != frames.is_distributed(released.frame):
        raise DataError(
            "One of the original and the released data is on a cluster, the other is not.",
            hint="read both there, or both here.",
        )
    if len(released) != len(data) and not share_identity(data, released):
        raise DataError(
            f"The released data have {len(released)} records, the original has {len(data)}, and "
            "nothing says which belong together.",
            hint="evaluate a Release, or the folder it was written to.",
        )
    return data, released


@overload
def protect(
    data: Dataset,
    plan: Plan,
    *,
    key: Key | bytes | str | Path | None = None,
    earlier: Iterable[Release | str | Path] = (),
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Release: ...


@overload
def protect(
    data: LinkedTables | Mapping[str, Any],
    plan: Plan,
    *,
    key: Key | bytes | str | Path | None = None,
    earlier: Iterable[LinkedRelease | str | Path] = (),
    progress: Progress | None = None,
) -> LinkedRelease: ...


def protect(
    data: Dataset | LinkedTables | Mapping[str, Any],
    plan: Plan,
    *,
    key: Key | bytes | str | Path | None = None,
    earlier: Iterable[Any] = (),
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Release | LinkedRelease:
    """Carry out a plan, measure the result, and check it against the targets.

    Parameters
    ----------
    data : the original records. They are never changed. With a plan for several tables, the frame
        or `Dataset` of each by its name.
    plan : what to do and what must hold.
    key : the custodian's secret; a new one by default. The same key, data and plan give the
        same release, so that nobody can average the noise away.
    earlier : releases of the same records that are out already, or their folders. What all of
        them disclose together is checked against the targets too, of linked tables in the joined
        view. `Release.write` finds those that the ledger knows by itself.

    Raises
    ------
    TargetError : a target is missed. `error.evidence` and `error.verdict` say by how much.
    """
    if plan.tiers:
        raise PlanError(
            "The plan has tiers, and each is a release of its own.",
            hint=f'take sf.protect_tiers, or one of them: plan.for_tier("{list(plan.tiers)[-1]}").',
        )
    for line in plan.list_weaker():
        what = f"Less than the profile {plan.profile} asks for, so it is not met: {line}"
        warnings.warn(what, WeakProtectionWarning, stacklevel=2)
    for line in list_harmless(plan.targets, plan.measures):
        warnings.warn(line, WeakProtectionWarning, stacklevel=2)
    if plan.tables and not isinstance(data, Dataset):
        from sfumato.run.tables import protect_tables

        return protect_tables(data, plan, key=Key.of(key), earlier=earlier, progress=progress)
    if plan.tables or not isinstance(data, Dataset):
        raise PlanError(
            "A plan for one table takes a Dataset, one for several tables a Dataset for each.",
            hint="sf.protect(sf.Dataset(frame), sf.Plan(...)), or "
            'sf.protect({"patients": ..., "visits": ...}, sf.Plan(tables={...}, ...)).',
        )
    where = engine or engine_for(data.frame, progress)
    require_runs(plan, where)
    declared = declare(data, plan)
    require_persons(declared, where)
    # Said before the work is done; afterwards the released records are looked at again.
    treated = {name for step in plan.steps for name in step.touches(declared.schema)}
    refuse_direct([name for name in declared.schema.identifiers if name not in treated])
    original = where.keep(where.prepare(declared))
    secret = Key.of(key)
    released, fitted = apply_steps(original, plan.steps, secret, engine=where, progress=progress)
    release = finish_table(
        original, released, plan, fitted=fitted, key=secret, engine=where, progress=progress
    )
    untreated = name_untreated_variables(plan.steps, release.dataset)
    require_met(release.verdict, release.evidence, untreated=untreated)
    pass_gates(Protected(original, release.dataset, plan.steps, where), LAST_GATES)
    paired = [pair_release(original, item) for item in earlier]
    if not paired:
        return release
    composition = hold_composition(plan, original, release.dataset, paired, progress=progress)
    require_composition(plan, composition, release.evidence)
    evidence = {**release.evidence, composition.label: composition.evidence}
    return replace(release, evidence=evidence, earlier=paired)
