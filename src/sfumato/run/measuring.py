"""Take measures of the original, the released, or both, and what an attacker fills in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import replace

from sfumato import catalogue
from sfumato.data import Dataset
from sfumato.engines import Engine, LocalEngine, engine_for, require_engine
from sfumato.errors import (
    MeasureError,
    PlanError,
    SchemaError,
    SfumatoError,
)
from sfumato.evidence import Evidence, Subject
from sfumato.io import frames
from sfumato.measure import Measure
from sfumato.progress import Progress, send_progress_to, silent
from sfumato.release import align_original

Measures = Mapping[str, Measure] | Iterable[Measure | str] | None


def align_with_release(original: Dataset, released: Dataset) -> Dataset:
    """The original records that were released, in the order of the release."""
    return align_original(original, released) if share_identity(original, released) else original


def share_identity(data: Dataset, released: Dataset) -> bool:
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
        align_with_release(original, released)
        if original is not None and released is not None
        else original
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
        if compared or share_identity(original, released):
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
    from sfumato.risk.dependencies.filling_in import fill_in

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
