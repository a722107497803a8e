"""The main job on the bundled cohort, from the file to the release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import progress, said, say, show_json, show_table
from sfumato.cli.release import show_checks
from sfumato.data import read
from sfumato.datasets import cohort, cohort_schema
from sfumato.errors import ReleaseError
from sfumato.methods.deterministic import Deterministic
from sfumato.methods.drop import Drop
from sfumato.methods.pseudonymise import Pseudonymise
from sfumato.methods.t_closeness import TCloseness
from sfumato.methods.topcode import Topcode
from sfumato.opened import CUSTODY, verify_release
from sfumato.plan import Plan
from sfumato.risk.attribute_disclosure import AttributeDisclosure
from sfumato.risk.closeness import Closeness
from sfumato.risk.mahalanobis import Mahalanobis
from sfumato.run import assess, protect
from sfumato.utility.coefficients import Coefficients
from sfumato.utility.displacement import Displacement

_MEASURED = ["weight_kg", "glucose", "hdl", "systolic"]


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command(epilog="Example: sfumato demo --out demo")(demo)


def demo_plan() -> Plan:
    """The plan of the demo: what it leaves out, blurs, and promises."""
    return Plan(
        schema=cohort_schema(),
        steps=[
            Drop(variables=["name", "email", "nhs_number", "address"]),
            Pseudonymise(variables=["person_id"]),
            Drop(variables=["postcode", "school"]),
            Topcode(variables=["income"], top_quantile=0.99),
            Deterministic(
                variables=_MEASURED,
                strata=["sex", "smoking"],
                k=3,
                missing="median",
                missing_strata="level",
                at_most=0.01,
                bounds="keep",
            ),
            TCloseness(confidential="diagnosis", k=5, t=0.25),
        ],
        targets={"k.min": 5, "reidentification.max": 0.0, "t.max": 0.25, "stayed.max": 0.01},
        evaluate={
            "closeness": Closeness(confidential=["diagnosis"]),
            "attribute_disclosure": AttributeDisclosure(confidential=["diagnosis"]),
            "displacement": Displacement(variables=_MEASURED),
            "mahalanobis": Mahalanobis(variables=_MEASURED),
            "glucose": Coefficients(formula="glucose ~ sex + smoking + weight_kg + hdl"),
        },
        read={"types": {"postcode": "text", "nhs_number": "text"}},
    )


def demo(
    to: Annotated[Path, typer.Option("--out", "-o", help="The folder for everything.")] = Path(
        "demo"
    ),
    records: Annotated[int, typer.Option(help="How many persons.", min=20_000)] = 20_000,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Protect the bundled, invented cohort: assess, protect, measure, report, verify."""
    marker = to / ".sfumato-demo"
    if to.exists() and any(to.iterdir()) and not marker.exists():
        raise ReleaseError(f"'{to}' holds other files.", hint="choose another folder: --out NAME.")
    to.mkdir(parents=True, exist_ok=True)
    marker.touch()
    file, folder, plan = to / "cohort.csv", to / "release", demo_plan()
    with progress(quiet=quiet or json) as tell:
        tell("inventing a cohort", 0, 3)
        cohort(records).write_csv(file)
        (to / "plan.toml").write_text(plan.text(comments=True), "utf-8")
        data = read(file, **plan.read).with_schema(plan.schema)
        before = assess(data, ["uniqueness"], progress=tell)["uniqueness"]
        earlier = folder / CUSTODY / "key"
        made = protect(data, plan, key=earlier if earlier.is_file() else None, progress=tell)
        made.write(folder, overwrite=True, progress=tell)
        tell("checking", 2, 3)
        checks = verify_release(folder, data)
    after = made.evidence["uniqueness"]
    if json:
        show_json({"folder": str(folder), "checks": [vars(one) for one in checks], **made.manifest})
        return
    numbers = [("share of records that are unique", before.value, after.value)] + [
        (label, before.details[name], after.details[name])
        for label, name in (("smallest class (k)", "k"), ("highest risk of a person", "prosecutor"))
    ]
    learned = made.evidence["attribute_disclosure"]
    numbers.append(("diagnoses that a class gives away", learned.baseline, learned.value))
    rows = [(label, said(old), said(new)) for label, old, new in numbers]
    show_table("What an outsider could single out", ["", "original", "release"], rows)
    model, moved = made.evidence["glucose"].details, made.evidence["displacement"]
    loss = made.evidence["information_loss"]
    kept = [
        ("blur of what outsiders may know, in SD per variable", said(loss.value)),
        ("share of the spread that comes from the blurring, at most", said(moved.value)),
        ("share of records that hardly moved", said(moved.details["stayed"])),
        ("overlap of the intervals of a model's coefficients, mean", said(model["mean_overlap"])),
        ("coefficients whose sign is kept", said(model["signs_kept"])),
    ]
    show_table("What the release keeps", ["", "release"], kept)
    show_checks("Checked on the disk", checks)
    if not quiet:
        say(f"Original:  {file}  (invented; no real person is in it)")
        say(f"Plan:      {to / 'plan.toml'}")
        say(f"Release:   {folder}/")
        say(f"Report:    {folder}/report.html  (public)")
        say(f"           {folder}/custody/report.html  (inside)")
    if any(one.passed is False for one in checks):
        raise typer.Exit(4)
