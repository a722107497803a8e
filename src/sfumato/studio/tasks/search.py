"""Search for a better plan: candidates on the risk-utility map, the size of noise, branches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.errors import PlanError, SfumatoError, TargetError
from sfumato.evidence import Evidence
from sfumato.io.frames import wrap
from sfumato.parameters import list_settings
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement
from sfumato.progress import current_progress
from sfumato.report.wording import format_measured
from sfumato.run.measuring import choose_measures
from sfumato.studio.source import parse_plan
from sfumato.studio.tasks import Work, task
from sfumato.studio.tasks.protect import carry_out, read_table
from sfumato.studio.texts import join_sentences
from sfumato.tuning.calibrate import Calibrated, Who, calibrate
from sfumato.tuning.plans import USUAL
from sfumato.tuning.recommendation.placement import (
    find_placement,
    insert_steps,
    require_untouched_variables,
)
from sfumato.tuning.result import Tuned
from sfumato.tuning.scores import Candidate
from sfumato.tuning.search import tune
from sfumato.tuning.sweep import add_measures

_FOLDER = "tuning"
"""Where finished candidates are kept, so that a search that was stopped goes on from there."""
_CLASSES = "uniqueness"


@task(depends="source")
def tune_plan(work: Work, *, plan: str, runs: int, seconds: float) -> dict[str, Any]:
    """Search methods and parameters for the plan that meets the targets and loses least.

    The plan is a parameter: the map stays when one of its points has become the current plan.
    """
    start = _parse_table_plan(plan)
    tuned = tune(
        read_table(work, start),
        start,
        runs=runs,
        budget=seconds or None,
        key=work.key,
        folder=work.folder / _FOLDER,
        progress=current_progress(),
    )
    return {
        "met": tuned.met,
        "best": tuned.best.number,
        "why": list(tuned.why),
        "stopped": tuned.stopped,
        "targets": [target.name for target in start.targets],
        "bounds": [target.plain() for target in start.targets],
        "measures": list(tuned.weights),
        "candidates": [_describe_candidate(tuned, item) for item in tuned.candidates],
    }


def _parse_table_plan(text: str) -> Plan:
    return Plan.parse(text).require_one_table()


def _describe_candidate(tuned: Tuned, candidate: Candidate) -> dict[str, Any]:
    return {
        "number": candidate.number,
        "what": candidate.describe(),
        "family": candidate.family,
        "met": candidate.met,
        "front": candidate.front,
        "best": candidate.number == tuned.best.number,
        "loss": _finite(candidate.loss),
        "numbers": [_finite(judged.number) for judged in candidate.verdict],
        "utility": {label: _finite(candidate.utility.get(label, math.nan))
                    for label in tuned.weights},
        "reason": candidate.reason,
        "steps": Plan(steps=candidate.plan.steps).text(),
    }  # fmt: skip


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


@task()
def calibrate_noise(  # noqa: PLR0913 - the options are the interface
    work: Work,
    *,
    variables: Sequence[str],
    known: Sequence[str],
    mean_h: float | None,
    below: int,
    at_most: float | None,
    who: str,
    draws: int,
) -> dict[str, Any]:
    """Find the least noise with which an attacker lands far enough off, and put it into the plan.

    `who` is "all", "deciles", or a share of the records that have the fewest others around.
    """
    plan, data = work.table_plan, work.data
    chosen: Who = who if who in ("all", "deciles") else float(who)  # type: ignore[assignment]
    calibrated = calibrate(
        data,
        list(variables) or None,
        mean_h=mean_h,
        below=below,
        at_most=at_most,
        who=chosen,
        known=list(known) or None,
        draws=draws,
    )
    return {
        **_describe_calibrated(plan, data, calibrated),
        "asked": calibrated.asked,
        "reason": calibrated.reason,
        "warnings": list(calibrated.warnings),
        "tried": [dict(row) for row in wrap(calibrated.table).rows(named=True)],
        "groups": [dict(row) for row in wrap(calibrated.groups).rows(named=True)],
        "goal": calibrated.goal,
        "offers": [_describe_calibrated(plan, data, offer) for offer in calibrated.offers],
    }


def _describe_calibrated(plan: Plan, data: Any, found: Calibrated) -> dict[str, Any]:
    """The noise, and the plan with it; or why it does not fit into the plan."""
    extended, clash = "", ""
    if found.met:
        try:
            require_untouched_variables(plan, data.schema, found.step.touches(data.schema))
            extended = insert_steps(plan, find_placement(plan, data), [found.step]).text()
        except SfumatoError as error:
            clash = join_sentences(error.what, error.hint)
    shares = found.step.variance_share
    return {
        "met": found.met,
        "share": found.share,
        "shares": shares if isinstance(shares, dict) else {},
        "settings": list_settings(found.step),
        "achieved": _finite(found.achieved),
        "error": _finite(found.error),
        "worst": found.worst,
        "cut": found.step.at_most is not None,
        "plan": extended,
        "clash": clash,
    }


@task(depends="source")
def measure_branch(work: Work, *, plan: str) -> dict[str, Any]:
    """What a branch comes to: its verdict, and the usual numbers of risk and loss."""
    parsed = parse_plan(plan, linked=work.source.linked)
    if parsed is None:
        raise PlanError("This branch does not say yet how the tables belong together.")
    widened = _add_usual(parsed)
    refused = ""
    judged: Sequence[Judgement] = ()
    evidence: Mapping[str, Evidence] = {}
    try:
        release = carry_out(work, widened)
        judged, evidence = release.all_judgements, release.all_evidence
    except TargetError as missed:
        judged, evidence = missed.verdict, missed.evidence
    except SfumatoError as error:
        refused = join_sentences(error.what, error.hint)
    return {
        "refused": refused,
        "targets": len(judged),
        "met": sum(item.met for item in judged),
        "missed": [item.describe() for item in judged if not item.met],
        "k": _find_number(evidence, _CLASSES, "k"),
        "numbers": {
            name: format_measured(name, name, value)
            for name in USUAL
            if (value := _find_number(evidence, name, name)) is not None
        },
    }


def _add_usual(plan: Plan) -> Plan:
    """The plan with the numbers that branches are compared by, where it does not take them."""
    if plan.tables:
        return plan  # persons are counted in the joined view anyway
    usual = choose_measures([_CLASSES, *USUAL])
    own = plan.measures
    return add_measures(plan, {label: item for label, item in usual.items() if label not in own})


def _find_number(evidence: Mapping[str, Evidence], measure: str, number: str) -> float | None:
    """A number of the first measure of this name; of linked tables that of the joined view."""
    found = (item for item in evidence.values() if item.name == measure)
    item = next(found, None)
    return None if item is None else _finite(item.number(number))
