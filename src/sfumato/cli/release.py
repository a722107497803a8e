"""Make, judge and check a release: protect, evaluate, verify."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sfumato.cli import options, tables
from sfumato.cli.console import format_number, out, progress, say, show_json, show_table
from sfumato.cli.look import save_pictures, show_evidence
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import DataError, PlanError, ReleaseError, SchemaError, TargetError
from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.plan import WHOLE, Plan
from sfumato.plan.targets import Target
from sfumato.progress import send_progress_to
from sfumato.randomness import Key
from sfumato.release import Release
from sfumato.report.answers import answer_for_release
from sfumato.run import evaluate as run_evaluate
from sfumato.run import pair
from sfumato.run.measuring import choose_measures
from sfumato.run.tables import LinkedRelease
from sfumato.run.tiers import TieredRelease
from sfumato.storage.contents import MANIFEST, PLAN_FILE, RECORD_FILE
from sfumato.storage.ledger import Ledger
from sfumato.storage.opening import (
    read_any_manifest,
    read_custody,
    read_plan_of,
)
from sfumato.storage.protecting import (
    find_identifiers,
    find_key,
    finish_draft,
    list_folders,
    protect_into,
)
from sfumato.storage.signing import read_public_key
from sfumato.storage.verifying import Check, is_intact, verify_files, verify_release

_MANY = 0.1
"""Share of records that hardly moved above which it is said in colour."""


_FINAL = "Release:   {}/  (pass on everything but custody/)"
_NAMED = 3
"""Variables that are named before the others are only counted."""
_ROWS = 40
"""Variables whose row is shown on the screen."""


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command(epilog="Example: sfumato protect cohort.csv --plan plan.toml --out release")(
        protect
    )
    app.command(epilog="Example: sfumato release draft --original cohort.csv")(release)
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
        bool,
        typer.Option("--overwrite", help="Replace an earlier release that nobody has received."),
    ] = False,
    ledger: options.LedgerFolder = None,
    no_ledger: Annotated[
        bool,
        typer.Option("--no-ledger", help="Do not look for earlier releases in the ledger."),
    ] = False,
    draft: Annotated[
        bool,
        typer.Option("--draft", help="Write a draft to look at; `sfumato release` makes it final."),
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Carry out a plan and write the release, if every target is met and attacks on it fail.

    Three lights show the result: the targets, the attacks that apply, and the use. Earlier
    releases of the same records are looked up in the ledger and beside OUT. What all of them
    disclose together is checked against the targets too.

    If a target is missed, or an attack succeeds too often, nothing is released, the
    evidence is kept in OUT.refused, and the exit code is 3.

    A plan with tiers writes a release folder for each of them into OUT. With a plan for several
    linked tables, FILE is the folder of their files, or a database.
    """
    loaded = Plan.load(plan)
    if to.exists() and not overwrite:
        # Said before the work is done, not after.
        raise ReleaseError(f"'{to}' exists already.", hint="choose another, or add --overwrite.")
    folders = list_folders(loaded, to)
    if key is None and (key := find_key(folders)) is not None:
        say("The key of the release that is overwritten is used again.")
    if overwrite and any((folder / MANIFEST).is_file() for folder in folders) and not no_ledger:
        say(
            "What is overwritten still counts, since somebody may have it. If nobody has: "
            "sfumato ledger forget."
        )
    place: Path | Literal[False] | None = False if no_ledger else ledger
    with progress(quiet=quiet or json) as tell, _say_what_was_kept():
        tell("reading", 0, 1)
        data = tables.read_for(
            file, loaded, table=table, query=query, engine=engine, master=master, progress=tell
        )
        if isinstance(data, Dataset):
            for line in find_identifiers(data, loaded).values():
                say(f"Warning: {line}", style="yellow")
        released = protect_into(
            to, data, loaded, key=key, overwrite=overwrite, ledger=place, draft=draft,
            progress=tell,
        )  # fmt: skip
    _show_protected(released, to, as_json=json, quiet=quiet)
    if draft and not json and not quiet:
        say(f"This is a draft. To make it final: sfumato release {to} --original {file}")


def release(
    folder: Annotated[Path, typer.Argument(help="The draft, with its custody record.")],
    original: Annotated[
        str, typer.Option("--original", help="The file that the draft was made of.")
    ],
    to: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Another folder. Default: the place of the draft."),
    ] = None,
    table: options.Table = None,
    query: options.Query = None,
    ledger: options.LedgerFolder = None,
    no_ledger: Annotated[
        bool,
        typer.Option("--no-ledger", help="Do not look for earlier releases in the ledger."),
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a draft final: held against all earlier releases, and entered into the ledger.

    The plan is carried out once more with the key of the draft, which gives the same records.
    """
    loaded = read_plan_of(folder)
    place: Path | Literal[False] | None = False if no_ledger else ledger
    with progress(quiet=quiet or json) as tell, _say_what_was_kept():
        tell("reading", 0, 1)
        data = tables.read_for(
            original, loaded, table=table, query=query, engine=None, master=None, progress=tell
        )
        released = finish_draft(folder, data, out=to, ledger=place, progress=tell)
    _show_protected(released, to or folder, as_json=json, quiet=quiet)


def _show_protected(
    released: Release | TieredRelease | LinkedRelease, to: Path, *, as_json: bool, quiet: bool
) -> None:
    if not isinstance(released, TieredRelease):
        if as_json:
            show_json(_list_release(released, to))
        else:
            _show_written(released, to, quiet=quiet)
        return
    if as_json:
        tiers = {name: _list_release(release, to / name) for name, release in released.items()}
        show_json({"folder": str(to), "tiers": tiers})
        return
    for name, release in released.items():
        say(f"Tier:      {name}", style="bold")
        _show_written(release, to / name, quiet=quiet)


@contextmanager
def _say_what_was_kept() -> Iterator[None]:
    """Say so where the evidence of a refused release could not be kept."""
    try:
        yield
    except TargetError as error:
        if not error.kept:
            say("The evidence of the attempt could not be saved on the disk.")
        raise


def _list_release(released: Release | LinkedRelease, to: Path) -> dict[str, Any]:
    """A release as it was written, for machines."""
    record = read_custody(to)
    together = record["evidence"].get("composition")
    listed = {
        "folder": str(to),
        **read_any_manifest(to),
        "composition": {**record["composition"], "evidence": together},
        "lights": record["lights"],
        **({"dossier": record["dossier"]} if "dossier" in record else {}),
    }
    found = {
        name: {
            "judged_attacks": (record["tables"][name] if name else record)["judged_attacks"],
            "losses": [
                {"step": number, "method": step.name, "loss": fitted["loss"]}
                for number, (step, fitted) in enumerate(
                    zip(table.plan.steps, table.fitted, strict=True), 1
                )
                if "loss" in fitted
            ],
            "ledger_of_variables": list_variables(table),
        }
        for name, table in released.tables.items()
    }
    if WHOLE in found:
        return listed | found[WHOLE]
    # What was found of each table stands by its name.
    return listed | {
        part: {name: facts[part] for name, facts in found.items()}
        for part in ("judged_attacks", "losses", "ledger_of_variables")
    }


def _show_written(released: Release | LinkedRelease, to: Path, *, quiet: bool) -> None:
    """A release as it was written."""
    record = read_custody(to)
    _show_release(released, to, quiet=quiet)
    _show_composition(record, quiet=quiet)
    _show_tiers(record["composition"].get("tiers"))
    show_lights(record["lights"])
    _show_dossier(record.get("dossier"))


def _show_dossier(dossier: Mapping[str, Any] | None) -> None:
    """How a release stands by its profile: what was missed, and what a person must do."""
    if dossier is None:
        return
    say(f"Profile:   {dossier['sentence']}", style=_STYLES[dossier["met"]])
    for line in dossier["weaker"]:
        say(f"  - {line}", style="red")
    for row in dossier["rows"]:
        missed = "missed. " if row["met"] is False else ""
        if missed or row["asks"]:
            text = f"{row['title']}: {missed}{row['asks'] or row['sentence']}"
            say(f"  - {text}", style=_STYLES[row["met"]])


_STYLES = {True: "green", False: "red", None: "yellow"}


def _show_tiers(facts: Mapping[str, Any] | None) -> None:
    """What all tiers that are out leave of the noise of the best of them."""
    if not facts:
        return
    others = ", ".join(facts["together_with"])
    if facts["noise_left"] is None:
        say(f"Tiers:     not measured together with {others}", style="yellow")
        return
    least = f"{facts['least_left']:.0%}"
    say(f"Tiers:     together with {others}, {least} of the noise of the best one is left")


def _show_release(released: Release | LinkedRelease, to: Path, *, quiet: bool) -> None:
    rows = [
        (
            judgement.target.describe(),
            judgement.under,
            f"{judgement.number:g}",
            judgement.verdict,
        )
        for judgement in released.all_judgements
    ]
    if rows:
        show_table("Targets", ["target", "measured with", "measured", ""], rows)
    else:
        say("No target was set, so nothing is guaranteed.", style="yellow")
    for name, table in released.tables.items():
        show_variables(table, name)
    _show_notes(released)
    if not quiet:
        draft = read_any_manifest(to).get("draft")
        what = "Draft:     {}/  (do not pass it on)" if draft else _FINAL
        say(what.format(to))
        say(f"Report:    {to}/report.html")
        say(f"Codebook:  {to}/codebook.html  (for analysts)")
        say(f"Custody:   {to}/custody/  (keep it: key, plan, evidence, internal report)")


def list_variables(released: Release) -> list[dict[str, Any]]:
    """The ledger of variables, for machines: what was done to each, and what it still shows."""
    table = released.attacks["untouched"].plain()["table"] or []
    return [{**row, "steps": released.steps.get(row["variable"], [])} for row in table]


def show_variables(released: Release, table: str = WHOLE) -> None:
    """The ledger of variables as a table; of very many, those that left unchanged come first."""
    rows = list_variables(released)
    shown = rows
    if len(rows) > _ROWS:
        ranked = sorted(rows, key=lambda row: (row["done"] == "dropped", -row["fingerprint"],
                                               -row["unchanged"]))  # fmt: skip
        shown = ranked[:_ROWS]
    show_table(
        f"Variables{f' of {table}' if table else ''}, and what they still show",
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
    """The lights, with the reasons why one is not green."""
    for name, light in lights.items():
        style = {"amber": "yellow"}.get(light["colour"], light["colour"])
        say(f"{name.capitalize() + ':':<10} {light['colour'].upper()}", style=style)
        for line in light["reasons"]:
            say(f"  - {line}", style=style)


def _show_composition(record: Mapping[str, Any], *, quiet: bool) -> None:
    """What this release and the earlier ones of the same records disclose together."""
    facts = record["composition"]
    if facts["ledger"] is None and not quiet and not record.get("draft"):
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
            _describe_together(target),
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
        left = format_number(item["details"].get("k_of_what_can_be_paired", item["value"]))
        say(
            f"Together:  {left} left in the smallest class of people, "
            f"{item['baseline']:,} in this release alone"
        )
        for line in item["warnings"]:
            say(f"{label}: {line}", style="yellow")
    if facts["accepted"]:
        say(f"Accepted:  {facts['accepted']}", style="yellow")


def _describe_together(target: Mapping[str, Any]) -> str:
    """The verdict on a target that all releases together must keep."""
    if not target["met"]:
        return "MISSED, accepted"
    return "barely met" if target.get("barely_met") else "met"


def _show_notes(released: Release | LinkedRelease) -> None:
    """What a custodian must not overlook: who was left out, who hardly moved, what failed."""
    if isinstance(released, LinkedRelease):
        people = released.original.person_count
        if left := people - released.linked.person_count:
            say(f"Left out:  {left:,} of {people:,} people, in all tables")
    for name, table in released.tables.items():
        of = f" of {name}" if name else ""
        if removed := len(table.original) - len(table.dataset):
            say(f"Left out:  {removed:,} of {len(table.original):,} records{of}")
    for label, item in released.all_evidence.items():
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
        typer.Option(help="Draw what was measured into this new folder. Do not pass it on."),
    ] = None,
    table: options.Table = None,
    query: options.Query = None,
    engine: options.Engine = None,
    master: options.Master = None,
    details: options.Details = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    *,
    parameters: options.Parameters,
) -> None:
    """Say who can still be singled out in a release, and what else was measured.

    FILE is the original, for comparison.
    """
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
    sentence = answer_for_release(evidence)
    show_evidence(evidence, sentence, details=details, as_json=json, quiet=quiet)


def _draw(
    folder: Path,
    evidence: dict[str, Evidence],
    measures: dict[str, Measure],
    original: Dataset,
    released: Dataset,
) -> None:
    from sfumato.figures.custodian import album

    save_pictures(folder, *album(evidence, measures, original, released))


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

    The ledger says whether it is the release that was last written here, and whether there is a
    later one of the same records.

    Exit code 4 if something was changed or added, or if a target is no longer met.
    """
    secret = None if key is None else Key.of(key)
    signers = [read_public_key(path) for path in signer or []]
    with progress(quiet=quiet or json) as tell:
        tell("checking", 0, 2)
        data: Dataset | Mapping[str, Dataset] | None = None
        strange: list[Check] = []
        # A plan that somebody changed must not tell us what to read.
        intact = original is not None and is_intact(verify_files(release, key=secret))
        has_custody = intact and (release / RECORD_FILE).is_file()
        where: dict[str, Any] = {
            "table": table, "query": query, "engine": engine, "master": master,
        }  # fmt: skip
        load: Any = partial(options.load, **where)
        load_all: Any = partial(tables.read_for, progress=tell, **where)
        if original is not None and has_custody:
            plan = Plan.load(release / PLAN_FILE)
            try:
                data = load_all(original, plan)
            except (DataError, SchemaError):
                if plan.tables:
                    raise
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
    out.print(_describe_checks(checks), style="bold", markup=False)
    show_table(
        title,
        ["check", "", ""],
        [(check.name, words[check.passed], check.finding) for check in checks],
    )


def _describe_checks(checks: Sequence[Check]) -> str:
    """All checks in a sentence.

    Examples
    --------
    >>> data, k = (Check(name="", passed=passed, finding="") for passed in (True, None))
    >>> _describe_checks([data, k])
    'Nothing wrong was found: 1 check passed, 1 could not be made.'
    """
    failed = [check.name for check in checks if check.passed is False]
    passed = sum(check.passed is True for check in checks)
    open_yet = len(checks) - passed - len(failed)
    first = f"Wrong: {', '.join(dict.fromkeys(failed))}." if failed else "Nothing wrong was found:"
    counts = f"{passed} check{'s' if passed != 1 else ''} passed"
    return f"{first} {counts}{f', {open_yet} could not be made' if open_yet else ''}."


def list_check(check: Check) -> dict[str, Any]:
    """A check for machines."""
    return {"name": check.name, "passed": check.passed, "said": check.finding}
