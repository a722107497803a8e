"""Make, judge and check a release: protect, evaluate, verify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sfumato import catalogue
from sfumato.cli import options
from sfumato.cli.console import format_number, progress, say, show_json, show_table
from sfumato.cli.look import show_evidence
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import DataError, PlanError, ReleaseError, SchemaError, TargetError
from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.plan.targets import Target
from sfumato.progress import send_progress_to
from sfumato.randomness import Key
from sfumato.release import Release
from sfumato.run import choose_measures, pair
from sfumato.run import evaluate as run_evaluate
from sfumato.run import protect as run_protect
from sfumato.storage.contents import KEY_FILE, MANIFEST, RECORD_FILE
from sfumato.storage.ledger import Ledger
from sfumato.storage.opening import read_custody, read_manifest, read_plan_of
from sfumato.storage.signing import read_public_key
from sfumato.storage.verifying import Check, is_intact, verify_files, verify_release
from sfumato.storage.writing import keep_attempt

_MANY = 0.1
"""Share of records that hardly moved above which it is said in colour."""


_NAMED = 3
"""Variables that are named before the others are only counted."""
_ROWS = 40
"""Variables whose row is shown on the screen."""


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command(epilog="Example: sfumato protect cohort.csv --plan plan.toml --out release")(
        protect
    )
    app.command(epilog="Example: sfumato evaluate cohort.csv release")(
        options.add_measure_options(evaluate)
    )
    app.command(epilog="Example: sfumato verify release --original cohort.csv")(verify)


def protect(
    file: options.File,
    plan: options.PlanFile,
    to: Annotated[Path, typer.Option("--out", "-o", help="The folder to write the release to.")],
    key: Annotated[
        Path | None,
        typer.Option(help="Key file of an earlier release of the same data (custody/key)."),
    ] = None,
    table: options.Table = None,
    query: options.Query = None,
    engine: options.Engine = None,
    master: options.Master = None,
    overwrite: Annotated[
        bool, typer.Option(help="Replace an earlier release, which nobody has.")
    ] = False,
    ledger: options.LedgerFolder = None,
    no_ledger: Annotated[
        bool,
        typer.Option("--no-ledger", help="Do not look for earlier releases in the ledger."),
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Carry out a plan and write the release, if every target is met and attacks on it fail.

    Two lights say how it stands: one for the targets, one for the attacks that apply. Earlier
    releases of the same records are looked up in the ledger and beside OUT. What all of them
    disclose together is held against the targets too.

    If a target is missed, or an attack does better than is acceptable, nothing is released, the
    evidence is kept in OUT.refused, and the exit code is 3.
    """
    loaded = Plan.load(plan)
    if to.exists() and not overwrite:
        # Said before the work is done, not after.
        raise ReleaseError(f"'{to}' exists already.", hint="choose another, or add --overwrite.")
    if key is None and (to / KEY_FILE).is_file():
        key = to / KEY_FILE
        say("The key of the release that is overwritten is used again.")
    elif key is None and (to / MANIFEST).is_file():
        raise ReleaseError(
            f"The custody record of the release in '{to}' was moved away, and its key with it.",
            hint="pass that key: --key custody/key, wherever it is now.",
        )
    if overwrite and (to / MANIFEST).is_file() and not no_ledger:
        say(
            "What is overwritten counts as never passed on. If somebody has it, choose another OUT."
        )
    with progress(quiet=quiet or json) as tell:
        tell("reading", 0, 1)
        data = options.load(
            file,
            plan=loaded,
            table=table,
            query=query,
            engine=engine,
            master=master,
            progress=tell,
        )
        try:
            released = run_protect(data, loaded, key=key, progress=tell)
            place: Path | Literal[False] | None = False if no_ledger else ledger
            released.write(to, overwrite=overwrite, ledger=place, progress=tell)
        except TargetError as error:
            try:
                error.kept = str(keep_attempt(to, loaded, error))
            except OSError:
                say("The evidence of the attempt could not be saved on the disk.")
            raise error from None
    record = read_custody(to)
    if json:
        together = record["evidence"].get("composition")
        composition = {**record["composition"], "evidence": together}
        show_json(
            {
                "folder": str(to),
                **read_manifest(to),
                "composition": composition,
                "lights": record["lights"],
                "judged_attacks": record["judged_attacks"],
                "losses": [
                    {"step": number, "method": step["method"], "loss": step["fitted"]["loss"]}
                    for number, step in enumerate(record["steps"], 1)
                    if "loss" in step["fitted"]
                ],
                "ledger_of_variables": list_variables(released),
            }
        )
    else:
        _show_release(released, to, quiet=quiet)
        _show_composition(record, quiet=quiet)
        show_lights(record["lights"])


def _show_release(released: Release, to: Path, *, quiet: bool) -> None:
    rows = [
        (
            judgement.target.describe(),
            judgement.under,
            f"{judgement.number:g}",
            "met" if judgement.met else "MISSED",
        )
        for judgement in released.verdict
    ]
    if rows:
        show_table("Targets", ["target", "measured with", "measured", ""], rows)
    else:
        say("No target was set, so nothing is guaranteed.", style="yellow")
    show_variables(released)
    _show_notes(released)
    if not quiet:
        say(f"Release:   {to}/  (pass on everything but custody/)")
        say(f"Report:    {to}/report.html")
        say(f"Codebook:  {to}/codebook.html  (for analysts)")
        say(f"Custody:   {to}/custody/  (keep it: key, plan, evidence, inside report)")


def list_variables(released: Release) -> list[dict[str, Any]]:
    """The ledger of variables, for machines: what was done to each, and what it still shows."""
    table = released.attacks["untouched"].plain()["table"] or []
    return [{**row, "steps": released.steps.get(row["variable"], [])} for row in table]


def show_variables(released: Release) -> None:
    """The ledger of variables as a table; of very many, those that left unchanged come first."""
    rows = list_variables(released)
    shown = rows
    if len(rows) > _ROWS:
        ranked = sorted(rows, key=lambda row: (row["done"] == "dropped", -row["fingerprint"],
                                               -row["unchanged"]))  # fmt: skip
        shown = ranked[:_ROWS]
    show_table(
        "Variables, and what they still show",
        ["variable", "role", "done", "unchanged", "distinct", "unique", "rare"],
        [_list_cells(row) for row in shown],
    )
    if len(shown) < len(rows):
        say(f"and {len(rows) - len(shown):,} more: all are in custody/report.html")


def _list_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    if row["done"] == "dropped":
        return (row["variable"], row["role"], "dropped", "", "", "", "")
    done = ", ".join(row["steps"]) or "as it is"
    shares = (f"{row[name]:.0%}" if row[name] in (0, 1) else f"{row[name]:.1%}"
              for name in ("unchanged", "unique", "rare"))  # fmt: skip
    unchanged, unique, rare = shares
    return (row["variable"], row["role"], done, unchanged, f"{row['distinct']:,}", unique, rare)


def show_lights(lights: Mapping[str, Any]) -> None:
    """Both lights, with the reasons why one is not green."""
    for name, light in lights.items():
        style = {"amber": "yellow"}.get(light["colour"], light["colour"])
        say(f"{name.capitalize() + ':':<10} {light['colour'].upper()}", style=style)
        for line in light["reasons"]:
            say(f"  - {line}", style=style)


def _show_composition(record: Mapping[str, Any], *, quiet: bool) -> None:
    """What this release and the earlier ones of the same records disclose together."""
    facts = record["composition"]
    if facts["ledger"] is None and not quiet:
        say("Ledger:    not used, so earlier releases elsewhere are not known", style="yellow")
    evidence = {
        label: item for label, item in record["evidence"].items() if item["name"] == "composition"
    }
    if "targets" not in facts:
        return
    rows = [
        (
            Target.from_plain(target).describe(),
            target["under"],
            format_number(target["value"]),
            "met" if target["met"] else "MISSED, accepted",
        )
        for target in facts["targets"]
    ]
    if rows:
        show_table(
            "Together with earlier releases", ["target", "measured with", "measured", ""], rows
        )
    for label, item in evidence.items():
        if item["value"] is None and not item["details"]:
            say(f"Together:  {item['reason']}", style="yellow")
            continue
        left = format_number(item["details"]["k_of_what_can_be_paired"])
        say(
            f"Together:  {left} left in the smallest class of persons, "
            f"{item['baseline']:,} in this release alone"
        )
        for line in item["warnings"]:
            say(f"{label}: {line}", style="yellow")
    if facts["accepted"]:
        say(f"Accepted:  {facts['accepted']}", style="yellow")


def _show_notes(released: Release) -> None:
    """What a custodian must not overlook: who was left out, who hardly moved, what failed."""
    removed = len(released.original) - len(released.dataset)
    if removed:
        say(f"Left out:  {removed:,} of {len(released.original):,} records")
    for label, item in released.evidence.items():
        if not item.computed:
            say(f"{label}: could not be computed. {item.reason}", style="red")
        if item.name == "displacement" and item.computed:
            share = item.details["stayed_at_worst"]
            tone = "yellow" if share > _MANY else ""
            say(f"Hardly moved: at most {share:.1%} of the records in any variable", style=tone)
        for line in item.warnings:
            say(f"{label}: {line}", style="yellow")


def evaluate(
    file: options.File,
    release: Annotated[Path, typer.Argument(help="The folder of the release, with custody/.")],
    measure: options.Measures = None,
    pictures: Annotated[
        Path | None,
        typer.Option(help="Draw what was measured into this new folder. It stays inside."),
    ] = None,
    table: options.Table = None,
    query: options.Query = None,
    engine: options.Engine = None,
    master: options.Master = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    *,
    parameters: options.Parameters,
) -> None:
    """Measure a release, with the original as the baseline."""
    if pictures is not None and pictures.exists():
        raise PlanError(f"'{pictures}' exists already.", hint="choose another folder.")
    plan = read_plan_of(release)
    with progress(quiet=quiet or json) as tell:
        tell("reading", 0, 1)
        data = options.load(
            file,
            plan=plan,
            table=table,
            query=query,
            engine=engine,
            master=master,
            progress=tell,
        )
        measures = options.choose_measures(measure, parameters)
        if measures is None:
            where = engine_for(data.frame)
            planned = {k: m for k, m in plan.measures.items() if where.name in m.runs_on}
            usual = planned or choose_measures(None, engine=where)
            measures = options.adjust_measures(usual, parameters)
        evidence = run_evaluate(data, release, measures, progress=tell)
        if pictures is not None:
            tell("drawing", 0, 1)
            _draw(pictures, evidence, measures, *pair(data, release))
    show_evidence(evidence, as_json=json, quiet=quiet)


def _draw(
    folder: Path,
    evidence: dict[str, Evidence],
    measures: dict[str, Measure],
    original: Dataset,
    released: Dataset,
) -> None:
    from sfumato.figures.custodian import album

    drawings, failed = album(evidence, measures, original, released)
    for name, reason in failed.items():
        say(f"No picture of {name}: {reason}")
    if not drawings:
        if not failed:
            say(f"None of these measures has a picture. There are pictures of {list_drawn()}.")
        return
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError:
        raise PlanError(
            f"The folder '{folder}' cannot be created.", hint="choose another place."
        ) from None
    for name, picture in drawings.items():
        # A label is anybody's text; a file name is not.
        safe = "".join(sign if sign.isalnum() or sign in "-_" else "_" for sign in name)
        say(f"Picture:   {picture.save(folder / f'{safe}.svg')}")


def list_drawn() -> str:
    """The measures that have a picture, in words."""
    names = [name for name, entry in catalogue.measures().items() if entry.picture]
    return ", ".join(sorted(names)).replace("reidentification", "reidentification with groups")


def verify(
    release: Annotated[Path, typer.Argument(help="The folder of the release.")],
    original: Annotated[
        str | None,
        typer.Option(help="The original file: for targets that compare with it, and for attacks."),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(help="Your own copy of the key: was the release made under it?"),
    ] = None,
    signer: Annotated[
        list[Path] | None,
        typer.Option(help="A public key whose holder must have signed it; may be repeated."),
    ] = None,
    ledger: options.LedgerFolder = None,
    no_ledger: Annotated[
        bool, typer.Option("--no-ledger", help="Do not look the release up in the ledger.")
    ] = False,
    table: options.Table = None,
    query: options.Query = None,
    engine: options.Engine = None,
    master: options.Master = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check every file of a release and measure its targets again, from its bytes on disk.

    With --original, the attacks that were tried on the release are tried again. With --signer, the
    release must have been signed with that key, and be as it was then.

    The ledger tells whether it is the release that was written here last, and whether there is a
    later one of the same records.

    Exit code 4 if something was changed, was added, or no longer holds.
    """
    secret = None if key is None else Key.of(key)
    signers = [read_public_key(path) for path in signer or []]
    with progress(quiet=quiet or json) as tell:
        tell("checking", 0, 2)
        data, strange = None, []
        # A plan that somebody changed must not tell us what to read.
        intact = original is not None and is_intact(verify_files(release, key=secret))
        has_custody = intact and (release / RECORD_FILE).is_file()
        load = partial(options.load, table=table, query=query, engine=engine, master=master)
        if original is not None and has_custody:
            plan = read_plan_of(release)
            try:
                data = load(original, plan=plan)
            except (DataError, SchemaError):
                bare = load(original)
                lacking = [name for name in plan.schema if name not in bare.columns]
                if not lacking:
                    raise
                strange = [_not_the_original(lacking)]
        elif original is not None:
            strange = [_original_not_read(intact=intact)]
        tell("checking", 1, 2)
        book = None if no_ledger else Ledger(ledger)
        with send_progress_to(tell):
            session = options.open_session(engine, master)
            verified = verify_release(
                release, data, key=secret, ledger=book, signers=signers, session=session
            )
            checks = [*strange, *verified]
    if json:
        show_json([list_check(check) for check in checks])
    else:
        show_checks(f"Checks of {release}", checks)
    if any(check.passed is False for check in checks):
        raise typer.Exit(4)


def _original_not_read(*, intact: bool) -> Check:
    why = "the custody record is not here" if intact else "the release was changed"
    return Check(name="original", passed=None, finding=f"the original was not read: {why}")


def _not_the_original(lacking: Sequence[str]) -> Check:
    """Of a file that does not even have the variables of the plan."""
    names = ", ".join(f"'{name}'" for name in lacking[:_NAMED])
    more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
    what = "the variable" if len(lacking) == 1 else "the variables"
    finding = f"this is not the original that was protected: it lacks {what} {names}{more}"
    return Check(name="original", passed=False, finding=finding)


def show_checks(title: str, checks: Sequence[Check]) -> None:
    """What was checked, as a table."""
    words = {True: "passed", False: "FAILED", None: "not checked"}
    show_table(
        title,
        ["check", "", ""],
        [(check.name, words[check.passed], check.finding) for check in checks],
    )


def list_check(check: Check) -> dict[str, Any]:
    """A check for machines."""
    return {"name": check.name, "passed": check.passed, "said": check.finding}
