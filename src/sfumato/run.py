"""The one place that orchestrates: assess, protect, evaluate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path

from sfumato import catalogue
from sfumato.data import Dataset
from sfumato.engines import Chance, Engine, engine_for
from sfumato.errors import (
    DataError,
    MeasureError,
    PlanError,
    SchemaError,
    SfumatoError,
    TargetError,
)
from sfumato.evidence import Evidence, Subject
from sfumato.io import frames
from sfumato.measure import Measure
from sfumato.method import Fitted, Method
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, judge
from sfumato.progress import Progress, send_progress_to, silent
from sfumato.randomness import Key
from sfumato.release import Release, align_original

Measures = Mapping[str, Measure] | Iterable[Measure | str] | None


def assess(
    data: Dataset, measures: Measures = None, *, progress: Progress | None = None
) -> dict[str, Evidence]:
    """Measure the risk of the data as they are.

    Parameters
    ----------
    data : the original records, with roles in their schema.
    measures : which to take, as measures or names. Default: every risk measure of one data set.

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
    chosen = choose_measures(measures, of="one")
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
    original, released = _open(data, release)
    chosen = choose_measures(measures)
    comparisons = [label for label, measure in chosen.items() if measure.of == "pair"]
    if comparisons and not _share_identity(original, released) and not paired:
        raise DataError(
            f"{', '.join(comparisons)}: nothing says which records belong together.",
            hint="pass the Release or its folder; or pass paired=True if the rows correspond.",
        )
    return take_measures(chosen, original, released, progress=progress)


def pair(data: Dataset, release: Release | Dataset | str | Path) -> tuple[Dataset, Dataset]:
    """The original as the release's plan declares it, and the released records in its order."""
    original, released = _open(data, release)
    return _align(original, released), released


def _align(original: Dataset, released: Dataset) -> Dataset:
    """The original records that were released, in the order of the release."""
    return align_original(original, released) if _share_identity(original, released) else original


def _open(data: Dataset, release: Release | Dataset | str | Path) -> tuple[Dataset, Dataset]:
    """The whole original as the release's plan declares it, and the released records."""
    if isinstance(release, (str, Path)):
        from sfumato.storage.opening import open_release

        opened = open_release(Path(release))
        data = data.with_schema(opened.plan().schema)
        released = opened.paired(data)
    elif isinstance(release, Release):
        data, released = data.with_schema(release.plan.schema), release.dataset
    else:
        released = release
    if len(released) != len(data) and not _share_identity(data, released):
        raise DataError(
            f"The released data have {len(released)} records, the original has {len(data)}, and "
            "nothing says which belong together.",
            hint="evaluate a Release, or the folder it was written to.",
        )
    return data, released


def protect(
    data: Dataset,
    plan: Plan,
    *,
    key: Key | bytes | str | Path | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Release:
    """Carry out a plan, measure the result, and check it against the targets.

    Parameters
    ----------
    data : the original records. They are never changed.
    plan : what to do and what must hold.
    key : the custodian's secret; a new one by default. The same key, data and plan give the
        same release, so that nobody can average the noise away.

    Raises
    ------
    TargetError : a target is missed. `error.evidence` and `error.verdict` say by how much.
    """
    original = _declare(data, plan)
    secret = Key.of(key)
    released, fitted = apply_steps(original, plan.steps, secret, engine=engine, progress=progress)
    _require_no_direct(released)
    measures = plan.measures
    evidence = take_measures(measures, original, released, progress=progress)
    verdict = judge(plan.targets, measures, evidence)
    require_met(verdict, evidence)
    return Release(
        dataset=replace(released, frame=frames.strip_metadata(released.frame)),
        plan=plan,
        evidence=evidence,
        verdict=verdict,
        original=original,
        key=secret,
        fitted=fitted,
    )


def _declare(data: Dataset, plan: Plan) -> Dataset:
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
    return original


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
            fitted = step.fit(data, where)
            data = step.transform(data, fitted, engine=where, chance=chance)
        fitted_steps.append(fitted)
    report("protecting", total, total)
    return data, fitted_steps


def _require_no_direct(released: Dataset) -> None:
    if direct := released.schema.having("direct"):
        names = ", ".join(f"'{name}'" for name in direct)
        raise PlanError(
            f"These direct identifiers would be released as they are: {names}.",
            hint='add a step with method "drop" or "pseudonymise" to the plan.',
        )
    if not released.columns:
        raise PlanError("The plan drops every variable; nothing would be released.")


def require_met(verdict: Iterable[Judgement], evidence: Mapping[str, Evidence]) -> None:
    """Fail when a target is missed, with all the evidence of the attempt."""
    judged = tuple(verdict)
    missed = [judgement for judgement in judged if not judgement.met]
    if missed:
        lines = "\n".join(f"  - {judgement.describe()}" for judgement in missed)
        error = TargetError(
            f"{len(missed)} of {len(judged)} targets missed, so nothing is released:\n{lines}",
            hint=_suggest_remedy(missed, evidence),
        )
        error.evidence = dict(evidence)
        error.verdict = judged
        raise error


def _suggest_remedy(missed: list[Judgement], evidence: Mapping[str, Evidence]) -> str:
    if decided := [judgement for judgement in missed if judgement.worst]:
        names = ", ".join(sorted({f"'{judgement.worst}'" for judgement in decided}))
        label = decided[0].measure
        if hasattr(catalogue.measure(evidence[label].name), "sensitive"):
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


def choose_measures(measures: Measures, *, of: str | None = None) -> dict[str, Measure]:
    """The measures by label; without a choice, all that need no parameter."""
    if measures is None:
        return {
            name: entry()
            for name, entry in catalogue.measures().items()
            if (of is None or entry.of == of) and _runs_by_default(entry)
        }
    if isinstance(measures, Mapping):
        return dict(measures)
    chosen = [
        catalogue.measure(measure)() if isinstance(measure, str) else measure
        for measure in measures
    ]
    return {measure.name: measure for measure in chosen}


def _runs_by_default(entry: type[Measure]) -> bool:
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
    kept = _align(original, released) if original is not None and released is not None else original
    evidence: dict[str, Evidence] = {}
    for position, (label, measure) in enumerate(measures.items()):
        report(f"measuring: {label}", position, len(measures))
        try:
            with send_progress_to(report):
                if baselines is not None and measure.of == "one" and kept is original:
                    evidence[label] = _with_baseline(label, measure, original, released, baselines)
                else:
                    evidence[label] = _take(measure, original if measure.whole else kept, released)
        except SchemaError:
            raise
        except SfumatoError as error:
            subject: Subject = "original" if released is None else "released"
            evidence[label] = Evidence.failed(measure.name, subject, str(error))
    report("measuring", len(measures), len(measures))
    return evidence


def _take(measure: Measure, original: Dataset | None, released: Dataset | None) -> Evidence:
    if original is not None:
        return measure.measure(original, released)
    if released is None:
        raise MeasureError("There is nothing to measure.", hint="pass the data.")
    if measure.of == "pair":
        return Evidence.failed(measure.name, "pair", "it needs the original, which was not given.")
    return measure.look(released, "released")


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
    evidence = measure.look(released, "released")
    if label not in baselines:
        baselines[label] = measure.look(original, "original").value
    return replace(evidence, baseline=baselines[label])
