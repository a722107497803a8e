"""The one place that orchestrates: assess, protect, evaluate."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import polars as pl

from sfumato import catalogue
from sfumato.cells.pairs import quote_names
from sfumato.data import Dataset
from sfumato.data.identity import match_identities
from sfumato.data.linked import LinkedTables
from sfumato.engines import Chance, Engine, LocalEngine, engine_for, require_engine
from sfumato.engines.summaries import Count, Distinct, Summary
from sfumato.errors import (
    DataError,
    MeasureError,
    PlanError,
    SchemaError,
    SfumatoError,
    TargetError,
    WeakProtectionWarning,
)
from sfumato.evidence import Evidence, Subject
from sfumato.io import frames
from sfumato.kernels.arrays import Positions
from sfumato.measure import Measure
from sfumato.method import Fitted, Method, carry_out
from sfumato.methods._groups import find_contradictions, find_group_level
from sfumato.plan import Plan
from sfumato.plan.profile import list_weaker
from sfumato.plan.targets import (
    Judgement,
    Target,
    find_number,
    judge,
    limits_risk,
    list_harmless,
    measures_for,
)
from sfumato.progress import Progress, send_progress_to, silent
from sfumato.randomness import Key
from sfumato.release import Release, align_original
from sfumato.schema.inference.coordinates import find_coordinates
from sfumato.schema.inference.free_text import is_free_text, split_sets
from sfumato.schema.inference.repeats import agree_in_any, is_shared_by_many, names_person

if TYPE_CHECKING:
    from sfumato.plan.linked import LinkedPlan
    from sfumato.risk.composition import EarlierRelease
    from sfumato.run.linked import LinkedRelease

Measures = Mapping[str, Measure] | Iterable[Measure | str] | None
_TEXTS = 10_000
"""Records that are looked at for free text."""
_RECORDS_A_TEXT = 30
"""Where each value is shared by more records on average, they are categories."""
NOT_ON_CLUSTER = "what it discloses together with others is measured in memory only."


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
        from sfumato.run.linked import assess_tables

        return assess_tables(data, measures, progress=progress)
    _require_dataset(data)
    engine = engine_for(data.frame, progress)
    chosen = choose_measures(measures, of="one", engine=engine)
    _require_memory(data, engine)
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
    if comparisons and not _share_identity(original, released) and not paired:
        raise DataError(
            f"{', '.join(comparisons)}: nothing says which records belong together.",
            hint="pass the Release or its folder; or pass paired=True if the rows correspond.",
        )
    if paired and original.persons is not None and released.persons is None:
        persons = original.persons.to_numpy().astype(np.int64)
        released = replace(released, given_identity=released.identity.with_persons(persons))
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
    return _align(original, released), released


def _align(original: Dataset, released: Dataset) -> Dataset:
    """The original records that were released, in the order of the release."""
    return align_original(original, released) if _share_identity(original, released) else original


def read_plan(
    release: Release | Dataset | str | Path,
) -> tuple[Plan | None, Mapping[str, Any] | None]:
    """The plan behind a release, and its manifest; of protected records alone, neither."""
    if isinstance(release, Dataset):
        return None, None
    if isinstance(release, Release):
        return release.plan, release.manifest
    from sfumato.storage.opening import read_manifest, read_plan_of

    return read_plan_of(Path(release)), read_manifest(Path(release))


def _open(data: Dataset, release: Release | Dataset | str | Path) -> tuple[Dataset, Dataset]:
    """The whole original as the release's plan declares it, and the released records."""
    prepare = engine_for(data.frame).prepare
    if isinstance(release, (str, Path)):
        from sfumato.storage.opening import open_release

        opened = open_release(Path(release), like=data.frame)
        data = prepare(data.with_schema(opened.plan().schema))
        released = opened.paired(data)
    elif isinstance(release, Release):
        data, released = prepare(data.with_schema(release.plan.schema)), release.dataset
    else:
        data, released = prepare(data), release
    _require_memory(data, engine_for(data.frame))
    if frames.is_distributed(data.frame) != frames.is_distributed(released.frame):
        raise DataError(
            "One of the original and the released data is on a cluster, the other is not.",
            hint="read both there, or both here.",
        )
    if len(released) != len(data) and not _share_identity(data, released):
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
    plan: LinkedPlan,
    *,
    key: Key | bytes | str | Path | None = None,
    earlier: Iterable[LinkedRelease | str | Path] = (),
    progress: Progress | None = None,
) -> LinkedRelease: ...


def protect(
    data: Dataset | LinkedTables | Mapping[str, Any],
    plan: Plan | LinkedPlan,
    *,
    key: Key | bytes | str | Path | None = None,
    earlier: Iterable[Any] = (),
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Release | LinkedRelease:
    """Carry out a plan, measure the result, and check it against the targets.

    Parameters
    ----------
    data : the original records. They are never changed. With a `LinkedPlan`, the frame or `Dataset`
        of each table by its name.
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
    if not isinstance(data, Dataset) or not isinstance(plan, Plan):
        return _protect_several_tables(data, plan, key, tuple(earlier), progress)
    if plan.tiers:
        raise PlanError(
            "The plan has tiers, and each is a release of its own.",
            hint=f'take sf.protect_tiers, or one of them: plan.for_tier("{list(plan.tiers)[-1]}").',
        )
    for line in list_weaker(plan):
        what = f"Less than the profile {plan.profile} asks for, so it is not met: {line}"
        warnings.warn(what, WeakProtectionWarning, stacklevel=2)
    for line in list_harmless(plan.targets, plan.measures):
        warnings.warn(line, WeakProtectionWarning, stacklevel=2)
    where = engine or engine_for(data.frame, progress)
    require_runs(plan, where)
    declared = declare(data, plan)
    require_persons(declared, where)
    # Said before the work is done; afterwards the released records are looked at again.
    treated = {name for step in plan.steps for name in step.touches(declared.schema)}
    _refuse_direct([name for name in declared.schema.identifiers if name not in treated])
    original = where.keep(where.prepare(declared))
    secret = Key.of(key)
    released, fitted = apply_steps(original, plan.steps, secret, engine=where, progress=progress)
    require_no_direct(released)
    # Before anything is measured: afterwards it would stand in memory beside all evidence.
    released = replace(released, frame=frames.strip_metadata(released.frame))
    released = where.keep(released)
    require_no_free_text(released, where)
    require_consistent_groups(original, released, plan.steps, where)
    measures = plan.measures
    evidence = take_measures(measures, original, released, progress=progress)
    evidence |= add_losses(plan.steps, fitted, evidence)
    verdict = judge(plan.targets, measures, evidence)
    require_met(verdict, evidence, untreated=_name_untreated_variables(plan.steps, released))
    require_no_raw_groups(released)
    paired = [pair_release(original, item) for item in earlier]
    if paired:
        composition = hold_composition(plan, original, released, paired, progress=progress)
        require_composition(plan, composition, evidence)
        evidence |= {composition.label: composition.evidence}
    return Release(
        dataset=released,
        plan=plan,
        evidence=evidence,
        verdict=verdict,
        original=original,
        key=secret,
        fitted=fitted,
        earlier=paired,
    )


def _protect_several_tables(
    data: Dataset | LinkedTables | Mapping[str, Any],
    plan: Plan | LinkedPlan,
    key: Key | bytes | str | Path | None,
    earlier: Sequence[Any],
    progress: Progress | None,
) -> LinkedRelease:
    """Carry out a plan for several tables, if both are about several."""
    from sfumato.run.linked import protect_tables

    if isinstance(plan, Plan) or isinstance(data, Dataset):
        raise PlanError(
            "A plan for one table takes a Dataset, one for several tables a Dataset for each.",
            hint="sf.protect(sf.Dataset(frame), sf.Plan(...)), or "
            'sf.protect({"patients": ..., "visits": ...}, sf.LinkedPlan(...)).',
        )
    return protect_tables(data, plan, key=key, earlier=earlier, progress=progress)


def add_losses(
    steps: Sequence[Method], fitted: Sequence[Fitted], evidence: Mapping[str, Evidence]
) -> dict[str, Evidence]:
    """What a step says it costs, as a warning in the measures that it reports."""
    noted: dict[str, Evidence] = {}
    for step, values in zip(steps, fitted, strict=True):
        for label, item in evidence.items():
            if "loss" in values and item.name in step.reports:
                warned = noted.get(label, item)
                noted[label] = replace(warned, warnings=(*warned.warnings, values["loss"]))
    return noted


def declare(data: Dataset, plan: Plan) -> Dataset:
    """The original with the roles and kinds of the plan, refused where a role is missing."""
    original = data.with_schema(plan.schema)
    if not len(original):
        raise DataError("There is no record in these data.", hint="is it the right file?")
    if original.schema.unknown:
        names = ", ".join(f"'{name}'" for name in original.schema.unknown)
        raise SchemaError(
            f"These variables have no role, so Sfumato cannot tell if they may leave: {names}.",
            hint='give each a role in the plan; "other" if it is harmless. '
            "`sfumato inspect` suggests roles.",
        )
    _require_one_place(original)
    return original


def _require_one_place(data: Dataset) -> None:
    """Refuse latitude and longitude of one place that have different roles: one tells the other."""
    for coordinates in find_coordinates(data.schema):
        roles = {data.schema[name].role for name in coordinates}
        if len(roles) > 1 and all(data.dtype(name).is_numeric() for name in coordinates):
            raise SchemaError(
                f"{quote_names(coordinates)} are latitude and longitude of one place, and have "
                "different roles.",
                hint='give both the same role, "quasi" if somebody may know where a person lives.',
            )


def require_persons(data: Dataset, engine: Engine) -> None:
    """Refuse data in which rows may be one person's, unless the schema says whose they are.

    A variable with the role "person" says so. Without one, a direct identifier whose values repeat
    needs a word from the custodian. Names, addresses and the like, which different people share,
    need it only where their rows agree in something that few others agree in.
    """
    _require_memory(data, engine)
    if data.schema.person is not None:
        return
    repeated = list_repeated_identifiers(data, engine)
    loose = [name for name in repeated if is_shared_by_many(name, data.schema[name])]
    if loose and engine.in_memory:
        known = [data.column(name) for name in data.schema.having("quasi")]
        loose = [name for name in loose if not agree_in_any(data.column(name), known)]
    undeclared = [name for name in repeated if name not in loose]
    if undeclared:
        raise SchemaError(
            f"Values of {quote_names(undeclared)} occur in several rows. If they belong to one "
            "person, five rows hide nobody, and every risk must count people.",
            hint=f'say which it is in the plan: {undeclared[0]} = {{ role = "person" }} if rows '
            f"with the same value are one person's; {undeclared[0]} = "
            '{ role = "direct", identity = false } if different people share a value.',
        )


def _require_memory(data: Dataset, engine: Engine) -> None:
    """Persons with several rows are told apart in memory."""
    if data.schema.person is not None and not engine.in_memory:
        raise DataError(
            f"Variable '{data.schema.person}' says that a person may have several rows, and "
            "persons are counted in memory only.",
            hint="read the data whole, or release one row for each person.",
        )


def list_repeated_identifiers(data: Dataset, engine: Engine) -> list[str]:
    """Direct identifiers whose values repeat, and of which nobody has said what that means."""
    schema = data.schema
    names = [name for name in schema.having("direct") if schema[name].identity is not False]
    wanted: dict[str, list[Summary]] = {name: [Count(), Distinct()] for name in names}
    counts = engine.aggregate(data, wanted) if names else {}
    if any(names_person(name) and counts[name]["distinct"] == len(data) for name in names):
        return []  # no two rows are one person's
    return [name for name in names if counts[name]["distinct"] < counts[name]["count"]]


def apply_steps(
    original: Dataset,
    steps: Sequence[Method],
    key: Key,
    *,
    first: int = 0,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> tuple[Dataset, list[Fitted]]:
    """Carry out the steps of a plan one after the other: the protected data, and what was fitted.

    Parameters
    ----------
    original : the records as the plan declares them.
    steps : what to do, in order.
    key : the secret from which every draw is derived.
    first : the position of the first step in its plan. A draw belongs to a position.
    """
    where = engine or engine_for(original.frame, progress)
    report = progress or silent
    data, fitted_steps, total = original, list[Fitted](), len(steps)
    for position, step in enumerate(steps):
        report(f"protecting: step {position + 1} of {total}, {step.name}", position, total)
        data.schema.require(step.touches(data.schema))
        chance = Chance(key, first + position) if step.keyed else None
        with send_progress_to(progress):
            fitted = step.fit_keyed(data, where, chance)
            data = carry_out(step, data, fitted, engine=where, chance=chance)
        fitted_steps.append(fitted)
    report("protecting", total, total)
    return data, fitted_steps


def require_runs(plan: Plan, engine: Engine) -> None:
    """Say what of a plan does not run where the records are, before any work starts."""
    named = measures_for(plan.targets, plan.evaluate)
    others = []
    if engine.name == "spark":
        if plan.release.keep_order:
            others.append("Records on a cluster have no order to keep ([release] keep_order).")
        if plan.release.format not in (None, "parquet", "csv"):
            others.append("A cluster writes Parquet and CSV ([release] format).")
    require_engine([*plan.steps, *named.values()], engine, others=others)


def require_no_direct(released: Dataset) -> None:
    """Refuse a release that shows identifiers as they are, or nothing at all."""
    _refuse_direct(released.schema.identifiers)
    if not released.columns:
        raise PlanError("The plan drops every variable; nothing would be released.")


def _refuse_direct(names: Sequence[str]) -> None:
    if names:
        raise PlanError(
            f"These direct identifiers would be released unchanged: {quote_names(names)}.",
            hint='add a step with method "drop" or "pseudonymise" to the plan.',
        )


def require_no_free_text(released: Dataset, engine: Engine) -> None:
    """Refuse free text, in which people may be named, unless a step has de-identified it.

    Categories in many words are told from it by what the schema lists of them (`domain`).
    """
    texts = [
        name
        for name, column in released.schema.items()
        if column.cells not in ("deidentified", "pseudonyms")
        and column.levels is None
        and column.hierarchy is None
        and released.dtype(name) in (pl.String, pl.Categorical, pl.Enum)
    ]
    loose = find_free_text(released, texts, engine) if texts else []
    if loose:
        raise PlanError(
            f"Free text would be released unchanged, and it may name people: {quote_names(loose)}.",
            hint='drop it, or add a step with method "deidentify_text". If the values are a fixed '
            f"list of categories, say so in the plan: {loose[0]} = "
            '{ kind = "nominal", domain = [...] }.',
        )


def require_no_raw_groups(released: Dataset) -> None:
    """Refuse numbers of groups, such as households or schools, that would leave as they are.

    Who knows the number of a group has all its members.
    """
    names = [n for n in released.schema.having("cluster") if released.schema[n].cells is None]
    if names:
        raise PlanError(
            f"The groups of {quote_names(names)} would be released with their numbers or names, "
            "and somebody who knows a group could find its members.",
            hint='add a step with method "pseudonymise", which keeps members together, or "drop". '
            f'If the numbers are new ones that nobody knows: {names[0]} = {{ cells = "values" }}.',
        )


def require_consistent_groups(
    original: Dataset, released: Dataset, steps: Sequence[Method], engine: Engine
) -> None:
    """Refuse a release in which members of a group contradict each other.

    There, a variable that is the same within each group of the original differs within some. Away
    from memory, that is taken to be so where a step clusters records and not groups.
    """
    # Where the groups themselves are not released, nobody sees members contradict each other.
    groups = [name for name in original.schema.having("cluster") if name in released.columns]
    names = [name for name in released.columns if name in original.schema]
    if not engine.in_memory:
        clustered = [step.touches(original.schema) for step in steps if not step.keeps_groups]
        names = [name for name in names if any(name in touched for touched in clustered)]
    if not groups or not names:
        return
    levels = find_group_level(original, names, engine)
    level = {group: constant for group, constant in levels.items() if group in groups}
    differing = [name for constant in level.values() for name in constant]
    if engine.in_memory:
        differing = [*find_contradictions(_align(original, released), released, level)]
    if differing:
        raise PlanError(
            f"In {quote_names(differing)}, members of a group would contradict each other: the "
            "original has one value within each group, and the release several.",
            hint="methods k_anonymity, noise, code_noise, misclassify and weights keep one value "
            "for each group. Or drop the variable, or the number of the group.",
        )


def find_free_text(data: Dataset, names: Sequence[str], engine: Engine) -> list[str]:
    """The variables among these in which many records have a sentence of their own."""
    some = _take_some(data, names, engine)
    free_text = [name for name in names if is_free_text(split_sets(some[name].cast(pl.String)))]
    if not free_text or some.height == len(data):
        return free_text
    # A sentence that many records share may be rare among some of them.
    wanted: dict[str, list[Summary]] = {name: [Count(), Distinct()] for name in free_text}
    counted = engine.aggregate(data, wanted)
    return [n for n in free_text if counted[n]["distinct"] * _RECORDS_A_TEXT >= counted[n]["count"]]


def _take_some(data: Dataset, names: Sequence[str], engine: Engine) -> pl.DataFrame:
    if not engine.in_memory:
        return engine.sample(data, names, _TEXTS)
    apart = -(-len(data) // _TEXTS)
    return pl.DataFrame([data.column(name).gather_every(apart) for name in names])


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
        from sfumato.storage.opening import open_release

        opened = open_release(Path(release))
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
                aligned = _align(original, table)
                measured |= _measure_filled_in({name: prepared}, aligned, table, measured)
    if not composed.evidence.computed:
        # What cannot be measured is never safe.
        measured = {
            name: Evidence.failed(item.name, "pair", composed.evidence.reason)
            for name, item in measured.items()
        }
    verdict = judge(tuple(on_composition or targets), measures, measured)
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


def require_met(
    verdict: Iterable[Judgement],
    evidence: Mapping[str, Evidence],
    *,
    hint: str = "",
    untreated: str = "",
) -> None:
    """Fail when a target is missed, with all the evidence of the attempt.

    Parameters
    ----------
    hint : what to do. Default: what goes with the targets that are missed.
    untreated : what a step leaves out, if any; said where a target on classes is missed.
    """
    judged = tuple(verdict)
    missed = [judgement for judgement in judged if not judgement.met]
    if missed:
        lines = "\n".join(f"  - {judgement.describe()}" for judgement in missed)
        error = TargetError(
            f"{len(missed)} of {len(judged)} targets missed, so nothing is released:\n{lines}",
            hint=hint
            or _name_tools(missed, evidence)
            or (untreated if _is_on_classes(missed, evidence) else "")
            or _suggest_remedy(missed, evidence),
        )
        error.evidence = dict(evidence)
        error.verdict = judged
        raise error


def _name_untreated_variables(steps: Sequence[Method], released: Dataset) -> str:
    """The quasi-identifiers that no step makes alike, and the step that leaves them out."""
    alike = [(number, step) for number, step in enumerate(steps, 1) if step.treats == "records"]
    if not alike:
        return ""
    treated = {
        name
        for _, step in alike
        for name in (*step.touches(released.schema), *getattr(step, "strata", ()))
    }
    left_out = [name for name in released.schema.having("quasi") if name not in treated]
    if not left_out:
        return ""
    number, step = alike[-1]
    return (
        f"step {number}, {step.name}, does not treat {quote_names(left_out)}: leave `variables` "
        "out of the step, so that it follows the roles, or name them there."
    )


def _is_on_classes(missed: Iterable[Judgement], evidence: Mapping[str, Evidence]) -> bool:
    """Whether a missed target counts records that are alike, which needs all that is known."""
    measures = (catalogue.measure(evidence[judgement.measure].name) for judgement in missed)
    return any(measure.of == "one" and measure.room() == "risk" for measure in measures)


def _name_tools(missed: list[Judgement], evidence: Mapping[str, Evidence]) -> str:
    """What to do where a target is missed only because other variables give something away."""
    filled = [judgement for judgement in missed if judgement.filled_in]
    if not filled:
        return ""
    what = evidence[filled[0].measure].details["filled_in"]
    return (
        f"the release gives away {what}: drop, coarsen or blur what it is worked out from (method "
        '"weights" for a survey weight). `recoverable` lists all of it.'
    )


def _suggest_remedy(  # noqa: PLR0911 - a remedy for each kind of miss
    missed: list[Judgement], evidence: Mapping[str, Evidence]
) -> str:
    if decided := [judgement for judgement in missed if judgement.worst]:
        names = ", ".join(sorted({f"'{judgement.worst}'" for judgement in decided}))
        label = decided[0].measure
        measure = catalogue.measure(evidence[label].name)
        if tools := evidence[label].details.get("worst_tools"):
            return (
                f"the release gives away {names} from {quote_names(str(tools).split(', '))}: drop, "
                "coarsen or blur what it is worked out from."
            )
        if measure.of == "pair":
            return (
                f"move the values of {names} further (more noise, more neighbours, or ranges), or "
                f"say which variables count: [evaluate.{label}] variables = [...]."
            )
        if hasattr(measure, "sensitive"):
            return (
                f"make what is known coarser (`sfumato recommend` says what protects {names}), or "
                f"say which variables count: [evaluate.{label}] sensitive = [...]."
            )
        return (
            f"name {names} in the step as well, or say which variables count: "
            f"[evaluate.{label}] confidential = [...]."
        )
    rooms = {catalogue.measure(evidence[judgement.measure].name).room() for judgement in missed}
    if rooms == {"utility"}:
        return "protect less (a smaller k, finer intervals), or state a target that you can defend."
    if "utility" in rooms:
        return "some ask for more protection, some for less: state targets that go together."
    return "protect more (coarsen further, drop a variable), or state a target that you can defend."


def _share_identity(data: Dataset, released: Dataset) -> bool:
    """Whether the released records carry the identity they had in the original."""
    return released.given_identity is not None and data.identity.basis == released.identity.basis


def choose_measures(
    measures: Measures, *, of: str | None = None, engine: Engine | None = None
) -> dict[str, Measure]:
    """The measures by label; without a choice, all that need no parameter and run on the engine.

    Those that were chosen and do not run there are refused.
    """
    where = engine or LocalEngine()
    if measures is None:
        return {
            name: entry()
            for name, entry in catalogue.measures().items()
            if (of is None or entry.of == of)
            and where.name in entry.runs_on
            and _runs_by_default(entry)
        }
    chosen = [
        catalogue.measure(measure)() if isinstance(measure, str) else measure
        for measure in (measures.values() if isinstance(measures, Mapping) else measures)
    ]
    require_engine(chosen, where)
    if isinstance(measures, Mapping):
        return dict(measures)
    return {measure.name: measure for measure in chosen}


def _runs_by_default(entry: type[Measure]) -> bool:
    if not entry.by_default:
        return False
    try:
        entry()
    except PlanError:
        return False
    return True


def take_measures(
    measures: Mapping[str, Measure],
    original: Dataset | None,
    released: Dataset | None = None,
    *,
    baselines: MutableMapping[str, float] | None = None,
    progress: Progress | None = None,
) -> dict[str, Evidence]:
    """Evidence by label: of the original alone, or of the released with the original as baseline.

    Parameters
    ----------
    measures : what to measure, by label.
    original : the original records; None where only the released ones are at hand.
    released : the released records; None to measure the original.
    baselines : what measures of one data set gave for the original, by label. Where records were
        removed these change, so they are used (and filled) only while all records are there.

    What cannot be computed is there as evidence with a reason. A wrong name is an error: the user
    can fix it.
    """
    report = progress or silent
    aligned = (
        _align(original, released) if original is not None and released is not None else original
    )
    evidence: dict[str, Evidence] = {}
    for position, (label, measure) in enumerate(measures.items()):
        report(f"measuring: {label}", position, len(measures))
        try:
            with send_progress_to(report):
                if baselines is not None and measure.of == "one" and aligned is original:
                    evidence[label] = _with_baseline(label, measure, original, released, baselines)
                else:
                    evidence[label] = _take(
                        measure, original if measure.whole else aligned, released
                    )
        except SchemaError:
            raise
        except SfumatoError as error:
            subject: Subject = "original" if released is None else "released"
            evidence[label] = Evidence.failed(measure.name, subject, str(error))
    if original is not None and aligned is not None and released is not None:
        # Only where somebody knows which records belong together.
        compared = any(measure.of == "pair" for measure in measures.values())
        if compared or _share_identity(original, released):
            evidence |= _measure_filled_in(measures, aligned, released, evidence)
    report("measuring", len(measures), len(measures))
    return evidence


def _measure_filled_in(
    measures: Mapping[str, Measure],
    original: Dataset,
    released: Dataset,
    evidence: Mapping[str, Evidence],
) -> dict[str, Evidence]:
    """Risks of the release once more, for who has put in what the rest of it gives away."""
    from sfumato.risk._dependencies.filling_in import fill_in

    again = {
        label: measure
        for label, measure in measures.items()
        if measure.of == "one" and measure.room() == "risk" and evidence[label].computed
    }
    # On a cluster the attack `recoverable` says so, of a sample.
    here = frames.is_in_memory(released.frame)
    filled = fill_in(original, released) if again and here else None
    if filled is None:
        return {}
    filled_in: dict[str, Evidence] = {}
    for label, measure in again.items():
        try:
            filled_in[label] = filled.add_to(measure, evidence[label])
        except SfumatoError as error:
            why = f"it could not be measured once {filled.describe()} was worked out: {error}"
            filled_in[label] = Evidence.failed(measure.name, "released", why)
    return filled_in


def _take(measure: Measure, original: Dataset | None, released: Dataset | None) -> Evidence:
    if released is not None:
        measure.require_persons(released, original)
    if original is not None:
        return measure.measure(original, released)
    if released is None:
        raise MeasureError("There is nothing to measure.", hint="pass the data.")
    if measure.of == "pair":
        return Evidence.failed(measure.name, "pair", "it needs the original.")
    return measure.look(released, "released", engine_for(released.frame))


def _with_baseline(
    label: str,
    measure: Measure,
    original: Dataset | None,
    released: Dataset | None,
    baselines: MutableMapping[str, float],
) -> Evidence:
    """The released data measured, with the number of the original, which is taken once."""
    if original is None or released is None:
        return _take(measure, original, released)
    engine = engine_for(released.frame)
    measure.require_persons(released, original)
    evidence = measure.look(released, "released", engine)
    if label not in baselines:
        baselines[label] = measure.look(original, "original", engine).value
    return replace(evidence, baseline=baselines[label])
