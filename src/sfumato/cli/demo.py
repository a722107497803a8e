"""The whole journey on the bundled cohort: assess, tune, protect, attack, report, fit."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import format_number, progress, say, show_json, show_table
from sfumato.cli.demo_noise import NoiseDemo, release_with_noise
from sfumato.cli.release import (
    list_check,
    list_variables,
    show_checks,
    show_lights,
    show_variables,
)
from sfumato.data import Dataset, read
from sfumato.datasets import cohort, cohort_schema
from sfumato.errors import ReleaseError
from sfumato.evidence import AT_WORST, Evidence
from sfumato.measure import Measure
from sfumato.methods.deterministic import Deterministic
from sfumato.methods.drop import Drop
from sfumato.methods.noise import Noise
from sfumato.methods.pseudonymise import Pseudonymise
from sfumato.methods.t_closeness import TCloseness
from sfumato.methods.topcode import Topcode
from sfumato.methods.weights import Weights
from sfumato.plan import Plan, Writing
from sfumato.progress import Progress, send_progress_to
from sfumato.release import Release
from sfumato.risk.closeness import Closeness
from sfumato.risk.h_index import HIndex
from sfumato.risk.linkage import Linkage
from sfumato.risk.mahalanobis import Mahalanobis
from sfumato.risk.peers import Peers
from sfumato.run import assess, protect
from sfumato.storage.contents import CUSTODY
from sfumato.storage.verifying import Check, verify_release
from sfumato.tuning.result import Tuned
from sfumato.tuning.scores import Candidate
from sfumato.tuning.search import tune
from sfumato.utility.coefficients import Coefficients
from sfumato.utility.displacement import Displacement
from sfumato.utility.information_loss import InformationLoss
from sfumato.utility.moments import Moments
from sfumato.utility.purpose import Purpose

_MEASURED = ["weight_kg", "glucose", "hdl", "systolic"]
_NAMES: dict[str, dict[str, Any]] = {
    "nhs_number": {"label": "NHS number"},
    "income": {"unit": "pounds"},
    "height": {"unit": "cm"},
    "weight_kg": {"label": "weight", "unit": "kg"},
    "glucose": {"unit": "mmol/l"},
    "hdl": {"label": "HDL cholesterol", "unit": "mmol/l"},
    "systolic": {"label": "systolic pressure", "unit": "mmHg"},
    "exam_score": {"unit": "points"},
}
"""What people call the variables, and in which unit they are: the report speaks in these."""
_PURPOSE = [
    "glucose ~ sex + smoking + weight_kg + hdl",
    "mean glucose by smoking",
    "mean systolic by sex",
    "smoking * sex",
    "diagnosis * sex",
]
"""What the invented cohort is shared for."""
_TRIED = 3000
"""Records on which the candidates are compared; the plan chosen is checked against all of them."""


@dataclass(frozen=True)
class _DemoResult:
    """What the demo made, for the screen or as JSON."""

    before: Evidence
    tuned: Tuned
    made: Release
    checks: tuple[Check, ...]
    noise: NoiseDemo


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command(epilog="Example: sfumato demo --out demo")(demo)


def demo_plan() -> Plan:
    """What must hold in the demo, and what matters; the first candidate is in it."""
    declared = cohort_schema()
    named = {name: replace(declared[name], **texts) for name, texts in _NAMES.items()}
    return Plan(
        schema=declared.with_columns(named),
        steps=[
            Drop(variables=["name", "email", "nhs_number", "address"]),
            Pseudonymise(variables=["person_id"]),
            Drop(variables=["postcode", "school"]),
            Topcode(variables=["income"], top_quantile=0.99),
            Weights(domains=["region"]),
            _blur_step(),
            TCloseness(confidential="diagnosis", k=5, t=0.25),
        ],
        targets={
            "k.min": 5,
            "reidentification.max": 0.0,
            "t.max": 0.3,  # the step keeps 0.25, so that there is room
            "attribute_disclosure.max": 0.05,
            "stayed.max": 0.2,
        },
        evaluate={
            "closeness": Closeness(confidential=["diagnosis"]),
            "displacement": Displacement(variables=_MEASURED),
            "mahalanobis": Mahalanobis(variables=_MEASURED),
            "information_loss": InformationLoss(),
            "glucose": Coefficients(formula="glucose ~ sex + smoking + weight_kg + hdl"),
        },
        read={"types": {"postcode": "text", "nhs_number": "text"}},
    )


def _blur_step() -> Deterministic:
    return Deterministic(
        variables=_MEASURED,
        strata=["sex", "smoking"],
        k=3,
        missing="median",
        missing_strata="level",
        at_most=0.15,
        bounds="keep",
    )


def _measures_for_report() -> dict[str, Measure]:
    """For the report: how far off an attacker lands, who is at risk, what the data are for."""
    known = ["sex", "region", "education", "marital_status", "children", "household_size"]
    return {
        "h_index": HIndex(variables=_MEASURED),
        "linkage": Linkage(variables=_MEASURED),
        "peers": Peers(known=known, sensitive=["smoking", "diagnosis"], most=3, individuals=2000),
        "moments": Moments(variables=_MEASURED),
        "purpose": Purpose(items=_PURPOSE),
    }


def _candidates() -> list[list[Any]]:
    """What the demo compares: two ways to blur numbers, and t-closeness with three k."""
    noise = Noise(variables=_MEASURED, variance_share=0.1)
    closeness = [TCloseness(confidential="diagnosis", k=k, t=0.25) for k in (5, 10, 20)]
    return [[blur, step] for blur in (_blur_step(), noise) for step in closeness]


def demo(
    to: Annotated[Path, typer.Option("--out", "-o", help="The folder for everything.")] = Path(
        "demo"
    ),
    records: Annotated[int, typer.Option(help="How many people.", min=20_000)] = 20_000,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Protect the bundled, invented cohort: assess, tune, protect, attack, report, verify, fit."""
    marker = to / ".sfumato-demo"
    if to.exists() and any(to.iterdir()) and not marker.exists():
        raise ReleaseError(f"'{to}' contains other files.", hint="choose another: --out NAME.")
    to.mkdir(parents=True, exist_ok=True)
    marker.touch()
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        done = _run_demo(to, records, tell)
    if json:
        checks = [list_check(check) for check in done.checks]
        show_json({"folder": str(to / "release"), "checks": checks,
                   "tuned": _describe_candidate(done.tuned.best), "fit": done.noise.rows,
                   **done.made.manifest, "lights": done.made.lights.plain(),
                   "ledger_of_variables": list_variables(done.made)})  # fmt: skip
        return
    _show(done, to, quiet=quiet)
    if any(check.passed is False for check in done.checks):
        raise typer.Exit(4)


def _run_demo(to: Path, records: int, tell: Progress) -> _DemoResult:
    file, folder, first = to / "cohort.csv", to / "release", demo_plan()
    tell("inventing a cohort", 0, 3)
    cohort(records).write_csv(file)
    data = read(file, **first.read).with_schema(first.schema)
    before = assess(data, ["uniqueness"], progress=tell)["uniqueness"]
    tuned = _tune_on_sample(data, first, tell)
    tuned.picture().save(to / "map.svg", overwrite=True)
    plan = Plan(
        schema=tuned.plan.schema,
        steps=tuned.plan.steps,
        targets=tuned.plan.targets,
        evaluate={**tuned.plan.evaluate, **_measures_for_report()},
        read=first.read,
        release=Writing(
            attack_seconds=60,
            title=f"Invented cohort of {records:,} people",
            custodian="Nobody: the data are invented",
            recipient="Anybody who tries Sfumato",
            purpose="To see a release from end to end",
            legal_basis="None is needed: no real person is in the data",
            date=dt.date(2026, 1, 1),
            contact="the documentation of Sfumato",
        ),
    )
    (to / "plan.toml").write_text(plan.text(comments=True), "utf-8")
    earlier = folder / CUSTODY / "key"
    release = protect(data, plan, key=earlier if earlier.is_file() else None, progress=tell)
    release.write(folder, overwrite=True, ledger=False, progress=tell)  # nobody is in it
    tell("checking", 2, 3)
    checks = verify_release(folder, data)
    return _DemoResult(
        before, tuned, release, checks, release_with_noise(data, to / "noised", tell)
    )


def _tune_on_sample(data: Dataset, plan: Plan, tell: Progress) -> Tuned:
    """Compare on the first records: a demo is no place to wait."""
    import numpy as np

    return tune(data.take(np.arange(_TRIED)), plan, space=_candidates(), repeats=2, progress=tell)


def _show(done: _DemoResult, to: Path, *, quiet: bool) -> None:
    before, after, release = done.before, done.made.evidence["uniqueness"], done.made
    show_table(
        f"What was tried, on {_TRIED:,} of them",
        ["steps", "targets", "loss, 0 is best"],
        [
            (_describe_candidate(row), "met" if row.met else "missed", f"{row.loss:.2f}")
            for row in done.tuned.candidates
        ],
    )
    numbers = [("share of records that are unique", before.at_worst, after.at_worst)] + [
        (label, before.details[name], after.details.get(f"{name}{AT_WORST}", after.details[name]))
        for label, name in (("smallest class (k)", "k"), ("highest risk of a person", "prosecutor"))
    ]
    learned = release.evidence["attribute_disclosure"]
    numbers.append(("diagnoses that a class gives away", learned.baseline, learned.at_worst))
    rows = [(label, format_number(old), format_number(new)) for label, old, new in numbers]
    show_table("What an outsider could single out", ["", "original", "release"], rows)
    show_variables(release)
    _show_utility(release)
    show_table(
        "A model of noised data: true, as it comes, and with the noise taken out",
        ["term", "original data", "noise ignored", "sf.fit", "interval"],
        [(row["term"], *(f"{row[name]:.3g}" for name in ("original", "naive", "fit")),
          f"{row['low']:.3g} to {row['high']:.3g}") for row in done.noise.rows],
    )  # fmt: skip
    show_checks("Checked on the disk", done.checks)
    show_lights(release.lights.plain())
    if not quiet:
        say(f"Original:  {to / 'cohort.csv'}  (invented; no real person is in it)")
        say(f"Plan:      {to / 'plan.toml'}  (chosen: {_describe_candidate(done.tuned.best)})")
        say(f"Map:       {to / 'map.svg'}  (risk and use of what was tried)")
        say(f"Release:   {to / 'release'}/")
        say(f"Report:    {to / 'release'}/report.html  (public)")
        say(f"           {to / 'release'}/custody/report.html  (inside, with the attacks)")
        say(f"Noised:    {to / 'noised'}/  (for sf.fit)")


def _describe_candidate(candidate: Candidate) -> str:
    """The steps that differ between the candidates, in a few words."""
    names = {
        "deterministic": "centres of neighbours",
        "noise": "noise",
        "t_closeness": "t-closeness with k =",
    }
    named = [step for step in candidate.plan.steps if step.name in names]
    phrases = [
        f"{names[step.name]} {step.k}" if isinstance(step, TCloseness) else names[step.name]
        for step in named
    ]
    return ", ".join(phrases) or "nothing but dropping"


def _show_utility(release: Release) -> None:
    model, moved = release.evidence["glucose"].details, release.evidence["displacement"]
    loss = release.evidence["information_loss"]
    rows = [
        ("blur of what outsiders may know, in SD per variable", format_number(loss.value)),
        (
            "share of the spread that comes from the blurring, at most",
            format_number(moved.at_worst),
        ),
        (
            "share of records that hardly moved, at most",
            format_number(moved.details[f"stayed{AT_WORST}"]),
        ),
        (
            "overlap of the intervals of a model's coefficients, mean",
            format_number(model["mean_overlap"]),
        ),
        ("coefficients whose sign is kept", format_number(model["signs_kept"])),
    ]
    show_table("What the release keeps", ["", "release"], rows)
