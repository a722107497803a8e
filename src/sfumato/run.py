"""The one place that orchestrates: assess, protect, evaluate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato import catalogue
from sfumato.data import Dataset
from sfumato.engines import Chance, Engine, engine_for
from sfumato.errors import DataError, PlanError, SchemaError, SfumatoError, TargetError
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.measure import Measure
from sfumato.method import Fitted
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, judge
from sfumato.progress import Progress, send_progress_to, silent
from sfumato.randomness import Key
from sfumato.release import Release, aligned

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
    wanted = named(measures, of="one")
    return _take(wanted, lambda one: one.measure(data), "original", progress)


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
    paired : say that the rows of a plain `Dataset` stand in the order of the original. A file of
        a release does not: pass its folder.
    """
    original, released = _opened(data, release)
    wanted = named(measures)
    compared = [label for label, one in wanted.items() if one.of == "pair"]
    if compared and not _related(original, released) and not paired:
        raise DataError(
            f"{', '.join(compared)}: nothing says which records belong together.",
            hint="pass the Release or its folder; or say paired=True if the rows correspond.",
        )
    kept = _kept(original, released)
    return _take(
        wanted,
        lambda one: one.measure(original if one.whole else kept, released),
        "released",
        progress,
    )


def pair(data: Dataset, release: Release | Dataset | str | Path) -> tuple[Dataset, Dataset]:
    """The original as the release's plan declares it, and the released records in its order."""
    original, released = _opened(data, release)
    return _kept(original, released), released


def _kept(original: Dataset, released: Dataset) -> Dataset:
    """The original records that were released, in their order."""
    return aligned(original, released) if _related(original, released) else original


def _opened(data: Dataset, release: Release | Dataset | str | Path) -> tuple[Dataset, Dataset]:
    """The whole original as the release's plan declares it, and the released records."""
    if isinstance(release, (str, Path)):
        from sfumato.storage.opened import open_release

        opened = open_release(Path(release))
        data = data.with_schema(opened.plan().schema)
        released = opened.paired(data)
    elif isinstance(release, Release):
        data, released = data.with_schema(release.plan.schema), release.dataset
    else:
        released = release
    if len(released) != len(data) and not _related(data, released):
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
    """Carry out a plan, measure the result, and hold it against the targets.

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
    say = progress or silent
    original = _prepared(data, plan)
    secret = Key.of(key)
    where = engine or engine_for(original.frame, progress)
    released, fitted = _stepped(original, plan, secret, where, say)
    _require_no_direct(released)
    measures = plan.measures
    kept = aligned(original, released)
    evidence = _take(
        measures,
        lambda one: one.measure(original if one.whole else kept, released),
        "released",
        progress,
    )
    verdict = judge(plan.targets, measures, evidence)
    require_met(verdict, evidence)
    return Release(
        dataset=replace(released, frame=frames.bare(released.frame)),
        plan=plan,
        evidence=evidence,
        verdict=verdict,
        original=original,
        key=secret,
        fitted=fitted,
    )


def _prepared(data: Dataset, plan: Plan) -> Dataset:
    original = data.with_schema(plan.schema)
    if not len(original):
        raise DataError("There is no record in these data.", hint="is it the right file?")
    if original.schema.unknown:
        listed = ", ".join(f"'{name}'" for name in original.schema.unknown)
        raise SchemaError(
            f"These variables have no role, so nobody knows whether they may leave: {listed}.",
            hint='give each a role in the plan; "other" if it is harmless. '
            "`sfumato inspect` suggests roles.",
        )
    return original


def _stepped(
    original: Dataset, plan: Plan, key: Key, engine: Engine, say: Progress
) -> tuple[Dataset, list[Fitted]]:
    data, kept = original, []
    for at, step in enumerate(plan.steps):
        say(f"protecting: step {at + 1} of {len(plan.steps)}, {step.name}", at, len(plan.steps))
        data.schema.require(step.touches(data.schema))
        fitted = step.fit(data, engine)
        chance = Chance(key, at) if step.keyed else None
        data = step.transform(data, fitted, engine=engine, chance=chance)
        kept.append(fitted)
    say("protecting", len(plan.steps), len(plan.steps))
    return data, kept


def _require_no_direct(released: Dataset) -> None:
    left = released.schema.having("direct")
    if left:
        listed = ", ".join(f"'{name}'" for name in left)
        raise PlanError(
            f"These direct identifiers would be released as they are: {listed}.",
            hint='add a step with method "drop" or "pseudonymise" to the plan.',
        )
    if not released.columns:
        raise PlanError("The plan drops every variable; nothing would be released.")


def require_met(verdict: Iterable[Judgement], evidence: Mapping[str, Evidence]) -> None:
    """Fail when a target is missed, with all the evidence of the attempt."""
    judged = tuple(verdict)
    missed = [one for one in judged if not one.met]
    if missed:
        lines = "\n".join(f"  - {one.said()}" for one in missed)
        error = TargetError(
            f"{len(missed)} of {len(judged)} targets missed, so nothing is released:\n{lines}",
            hint=_what_to_do(missed, evidence),
        )
        error.evidence = dict(evidence)
        error.verdict = judged
        raise error


def _what_to_do(missed: list[Judgement], evidence: Mapping[str, Evidence]) -> str:
    if decided := [one for one in missed if one.worst]:
        named = ", ".join(sorted({f"'{one.worst}'" for one in decided}))
        label = decided[0].measure
        if hasattr(catalogue.measure(evidence[label].name), "sensitive"):
            return (
                f"make what is known coarser (`sfumato recommend` says what protects {named}), or "
                f"say which variables count: [evaluate.{label}] sensitive = [...]."
            )
        return (
            f"name {named} in the step as well, or say which variables count: "
            f"[evaluate.{label}] confidential = [...]."
        )
    rooms = {catalogue.measure(evidence[one.measure].name).room() for one in missed}
    if rooms == {"utility"}:
        return "protect less (a smaller k, finer intervals), or state a target that you can defend."
    if "utility" in rooms:
        return "some ask for more protection, some for less: state targets that go together."
    return "protect more (coarsen further, drop a variable), or state a target that you can defend."


def _related(data: Dataset, released: Dataset) -> bool:
    """Whether the released records carry the identity they had in the original."""
    return released.given_identity is not None and data.identity.basis == released.identity.basis


def named(measures: Measures, *, of: str | None = None) -> dict[str, Measure]:
    """The measures by label; without a choice, all that need no parameter."""
    if measures is None:
        return {
            name: one()
            for name, one in catalogue.measures().items()
            if (of is None or one.of == of) and _runs_by_default(one)
        }
    if isinstance(measures, Mapping):
        return dict(measures)
    made = [catalogue.measure(one)() if isinstance(one, str) else one for one in measures]
    return {one.name: one for one in made}


def _runs_by_default(one: type[Measure]) -> bool:
    try:
        one()
    except PlanError:
        return False
    return True


def _take(
    measures: Mapping[str, Measure], take: Any, subject: Any, progress: Progress | None
) -> dict[str, Evidence]:
    say = progress or silent
    found: dict[str, Evidence] = {}
    for at, (label, one) in enumerate(measures.items()):
        say(f"measuring: {label}", at, len(measures))
        try:
            with send_progress_to(say):
                found[label] = take(one)
        except SchemaError:
            raise  # a wrong name is the user's to mend, not a measurement that failed
        except SfumatoError as error:
            found[label] = Evidence.failed(one.name, subject, str(error))
    say("measuring", len(measures), len(measures))
    return found
