"""Release: say for whom and why, let a second person look, write the folder, sign it."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from starlette.responses import HTMLResponse, Response

from sfumato.errors import DataError, PlanError, ReleaseError
from sfumato.parameters import list_settings
from sfumato.plan import PARTIES, Plan, Writing
from sfumato.storage.contents import CODEBOOK, CUSTODY, REPORT, is_plain_file
from sfumato.studio.approvals import (
    CLAIM,
    Approval,
    Subject,
    WriteOptions,
    add_approval,
    compute_subject,
    judge_approvals,
    keep_options,
    list_approvals,
    read_options,
)
from sfumato.studio.forms import list_fields, read_form
from sfumato.studio.paths import confine, confine_data
from sfumato.studio.reproduction import PLAN, Recipe
from sfumato.studio.security import DOCUMENT_POLICY
from sfumato.studio.source import DataSource
from sfumato.studio.tasks import KEY, list_tasks
from sfumato.studio.tasks.release import list_written
from sfumato.studio.texts import say
from sfumato.studio.view import Outcome, Page, View

page = Page("release", roles=("checker",))
_FIRST = (*PARTIES, "format")
"""What everybody fills in; the rest of how a release is written is for few."""
_DOCUMENTS = (REPORT, CODEBOOK[0], f"{CUSTODY}/{REPORT}")
_WORK = ("write_release", "verify_written", "sign_written", "make_keys")
_WRITING: Any = Writing
"""A form is made from it as from a method: it has typed fields and a docstring."""


@page.show
async def show(view: View) -> Mapping[str, Any]:
    """Everything from the words of the first page to the signed folder."""
    session = view.session
    if session.state.source is None or view.plan is None:
        return {"plan": None, "open": session.state.source is not None}
    plan = view.plan
    approvals, subject = list_approvals(session), await _find_subject(view)
    written = list_written(session.folder)
    recipe = _make_recipe(view, plan, written)
    fields = list_fields(_WRITING, list_settings(plan.release))
    attacked = await _peek(view, "attack_release")
    return {
        "plan": plan,
        "plan_text": session.plan_text,
        "fields": [item for name in _FIRST for item in fields if item.name == name],
        "further": [item for item in fields if item.name not in _FIRST],
        "tried": await _peek(view, "try_plan"),
        "attacked": attacked,
        "beaten": _list_beaten(attacked),
        "tiers": list(plan.tiers),
        "approvals": approvals,
        "subject": subject,
        "judged": judge_approvals(subject, approvals),
        "describe_void": partial(_describe_void, subject),
        "options": read_options(session),
        "alone": is_alone(view),
        "own": view.user.name in session.authors,
        "custodian": view.user.role == "custodian",
        "recipe": recipe,
        "suggested": recipe.to if not recipe.to.exists() else _suggest_folder(view),
        "roots": view.studio.settings.places.allowed,
        "written": list(reversed(written)),
        "doing": view.find_latest(*_WORK),
        "extract": view.find_latest("compare_extract"),
    }


def is_alone(view: View) -> bool:
    """Whether the studio runs on one's own machine, where nobody says who is at the keyboard."""
    return view.studio.settings.proxy is None


async def _peek(view: View, task: str) -> Outcome:
    """What was found when the plan was tried, if it was."""
    if task not in list_tasks():
        return Outcome()
    for parameters in ({}, {"tier": ""}):
        outcome = await view.peek(task, **parameters)
        if outcome.ready or outcome.waiting:
            return outcome
    return Outcome()


def _list_beaten(attacked: Outcome) -> list[dict[str, str]]:
    """The attacks that do better than is acceptable."""
    parts = attacked.value["parts"].values() if attacked.ready else ()
    rows = [row for part in parts for row in (part["attacks"] or {"rows": ()})["rows"]]
    beaten = {row["measure"]: row["title"] for row in rows if row.get("tone") == "bad"}
    return [{"measure": measure, "title": title} for measure, title in beaten.items()]


async def _find_subject(view: View) -> Subject:
    """What an approval is about: of a database what the worker process has read from it."""
    session = view.session
    if session.source.in_files:
        # Other pages must not wait while a large file is digested.
        return await asyncio.to_thread(compute_subject, session)
    read = await view.ask("digest_records")
    return compute_subject(session, str(read.value) if read.ready else "")


def _make_recipe(
    view: View, plan: Plan, written: list[dict[str, Any]], to: Path | None = None
) -> Recipe:
    session = view.session
    last = written[-1] if written and written[-1]["plan"] == plan.digest else None
    if to is None:
        to = Path(last["to"]) if last else _suggest_folder(view)
    return Recipe(source=session.source, plan=plan, key=session.folder / KEY, to=to,
                  ledger=last["ledger"] if last else read_options(session).ledger)  # fmt: skip


def _suggest_folder(view: View) -> Path:
    """A folder that is not there yet, beside the data where that is allowed."""
    beside = view.studio.settings.places.allowed[0]
    stem = re.sub(r"\W+", "-", view.session.source.title.partition(".")[0], flags=re.ASCII)
    stem = stem.strip("-").lower()[:40] or "data"
    number, path = 1, beside / f"{stem}-release"
    while path.exists():
        number += 1
        path = beside / f"{stem}-release-{number}"
    return path


def _require_custodian(view: View) -> None:
    """A checker looks and speaks; whoever answers for the data acts."""
    if view.user.role != "custodian":
        raise PlanError(
            "Only the custodian does this.", hint="you may approve, reject or comment below."
        )


def _require_plan(view: View) -> Plan:
    if view.plan is None:
        raise PlanError("There is no plan yet.", hint="begin under Roles.")
    return view.plan


@page.action("describe")
async def describe(view: View) -> None:
    """Keep what the first page of the report says, and how the release is written."""
    _require_custodian(view)
    if not _keep_words(view):
        view.flash(say("release.unchanged"), tone="neutral")


def _keep_words(view: View) -> bool:
    """Put into the plan what was typed about the release; whether that changes anything."""
    plan = _require_plan(view)
    sent = read_form(_WRITING, view.form, "w-")
    try:
        writing = Writing(**sent)
    except ValueError:
        raise PlanError(
            "One of the fields cannot be read.", hint="a date is written 2026-01-31."
        ) from None
    if writing == plan.release:
        return False
    view.change(say("release.described"), plan=replace(plan, release=writing))
    return True


@page.action("accept")
async def accept(view: View) -> None:
    """Say why what an attack achieves may leave all the same."""
    _require_custodian(view)
    plan = _require_plan(view)
    beaten = _list_beaten(await _peek(view, "attack_release"))
    reasons = {item["measure"]: view.get(f"why-{item['measure']}").strip() for item in beaten}
    if not reasons or not all(reasons.values()):
        raise PlanError(say("release.accept_first"))
    earlier = plan.release.accept_attacks
    kept = earlier if isinstance(earlier, dict) else {}
    writing = replace(plan.release, accept_attacks={**kept, **reasons})
    attacks = ", ".join(item["title"] for item in beaten)
    view.change(say("release.accepted", attacks=attacks), plan=replace(plan, release=writing))


@page.action("approve")
async def approve(view: View) -> None:
    """Keep what a second person says."""
    _require_plan(view)
    decision = view.get("decision")
    subject = await _find_subject(view)
    if view.get("subject") != subject.digest:
        raise PlanError(
            "The plan or the data changed while you were reading.", hint="look at it again."
        )
    add_approval(view.session, view.user, decision, subject=subject, name=view.get("name"),
                 comment=view.get("comment"), alone=is_alone(view))  # fmt: skip
    view.flash(say(f"release.said.{decision}"), tone="bad" if decision == "reject" else "good")


@page.action("choose")
async def choose(view: View) -> Response:
    """Keep how the release is written, for who approves it."""
    _require_custodian(view)
    _keep_options(view)
    return view.go("release#write")


def _keep_options(view: View) -> WriteOptions:
    options = WriteOptions(overwrite=bool(view.get("overwrite")), ledger=not view.get("no_ledger"))
    if options != read_options(view.session):
        keep_options(view.session, options)
        view.session.note(say("release.chosen"), by=view.user.name)
    return options


def _describe_void(subject: Subject, approval: Approval) -> str:
    """Why what somebody said no longer counts; empty where it does."""
    parts = ", ".join(
        say(f"release.part.{name}") for name in subject.list_changes(approval.subject)
    )
    return say("release.void", changes=parts) if parts else ""


@page.action("write")
async def write(view: View) -> Response:
    """Write the release, or be refused."""
    _require_custodian(view)
    if any(name.startswith("w-") for name in view.form):
        # Words that were typed and not kept belong to the release that is asked for.
        _keep_words(view)
    _require_plan(view)
    options, approvals = _keep_options(view), list_approvals(view.session)
    subject = await _find_subject(view)
    judged = judge_approvals(subject, approvals)
    if judged == "reject":
        raise PlanError("This plan was rejected.", hint="change it, or let it be approved.")
    if judged is None and not is_alone(view):
        approved = [item for item in approvals if item.decision == "approve"]
        void = _describe_void(subject, approved[-1]) if approved else ""
        raise PlanError(
            f"The approval {void}." if void else "Nobody has approved this plan yet.",
            hint="ask somebody else who may approve to open this page.",
        )
    target = confine(view.get("to"), view.studio.settings.places)
    if target.exists() and not options.overwrite:
        raise ReleaseError(
            f"'{target}' exists already.", hint="choose another folder, or tick 'replace'."
        )
    stand = "not approved by anybody" if judged is None else "approved"
    stand += f" in a name {CLAIM}" if judged is not None and is_alone(view) else ""
    view.session.note(f"writing to '{target}' begun; the plan is {stand}", by=view.user.name)
    await view.start("write_release", to=str(target), approved=subject.data,
                     overwrite=options.overwrite, ledger=options.ledger,
                     **_name_actor(view))  # fmt: skip
    return view.go("release#written")


@page.action("verify")
async def verify(view: View) -> Response:
    """Check a written release once more, against the original."""
    folder = _find_folder(view, view.get("folder"))
    await view.start("verify_written", folder=str(folder), **_name_actor(view))
    return view.go("release#written")


@page.action("sign")
async def sign(view: View) -> Response:
    """Sign a written release with a key of one's own."""
    folder = _find_folder(view, view.get("folder"))
    key_file = confine(view.get("key_file"), view.studio.settings.places)
    await view.start(
        "sign_written",
        folder=str(folder),
        key_file=str(key_file),
        signed_by=view.get("signed_by").strip(),
        remark=view.get("remark").strip(),
        secrets={"passphrase": view.get("passphrase")},
        **_name_actor(view),
    )
    return view.go("release#written")


@page.action("keygen")
async def keygen(view: View) -> Response:
    """Make a pair of keys to sign with."""
    if view.get("passphrase") != view.get("repeated"):
        raise PlanError("The two passphrases differ.", hint="write the same twice.")
    name = confine(view.get("name"), view.studio.settings.places)
    outcome = await view.start("make_keys", name=str(name),
                               secrets={"passphrase": view.get("passphrase")})  # fmt: skip
    if outcome.ready:
        view.flash(say("release.keys_made", **outcome.value))
    return view.go("release#sign")


def _name_actor(view: View) -> dict[str, Any]:
    return {"by": view.user.name, "branch": view.session.current}


def _find_folder(view: View, text: str) -> Path:
    """A folder that this session wrote, and no other."""
    for item in list_written(view.session.folder):
        for known in item["folders"]:
            if known["folder"] == text:
                return confine(text, view.studio.settings.places)
    raise DataError("This session wrote no such release.", hint="choose one from the list.")


@page.part("document")
async def document(view: View) -> Response:
    """A page of a written release, or of one that was refused: no script runs in it."""
    name = view.query.get("file", "")
    if name == "refused":
        pages = [item["refused"]["page"] for item in list_written(view.session.folder)
                 if item["refused"]]  # fmt: skip
        path = Path(view.query.get("folder", ""))
        if str(path) not in pages:
            raise DataError("There is no such page.")
        path = confine(str(path), view.studio.settings.places)
    else:
        folder = _find_folder(view, view.query.get("folder", ""))
        if name not in _DOCUMENTS:
            raise DataError("There is no such page.")
        path = folder / name
    if not is_plain_file(path):
        raise DataError("This page is no longer there.", hint="was the folder moved?")
    return HTMLResponse(path.read_bytes(), headers={"Content-Security-Policy": DOCUMENT_POLICY})


@page.part("plan")
async def download_plan(view: View) -> Response:
    """The plan as a file."""
    return _download(view.session.plan_text, PLAN)


@page.part("script")
async def download_script(view: View) -> Response:
    """The script as a file."""
    recipe = _make_recipe(view, _require_plan(view), list_written(view.session.folder))
    return _download(recipe.write_script(), "release.py")


def _download(text: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type="text/plain; charset=utf-8", headers=headers)


@page.action("look")
async def look_at_extract(view: View) -> Response:
    """Compare the variables of the next extract with those of this one."""
    _require_custodian(view)
    file = confine_data(view.get("file"), view.studio.settings.places)
    if not file.exists():
        raise DataError("There is no such file.", hint="check the name and the folder.")
    await view.start("compare_extract", file=str(file))
    return view.go("release#next")


@page.action("replay")
async def replay(view: View) -> Response:
    """A new session with the next extract, the same plan and the same key."""
    _require_custodian(view)
    _require_plan(view)
    file = confine_data(view.get("file"), view.studio.settings.places)
    if not file.exists():
        raise DataError("There is no such file.", hint="check the name and the folder.")
    old = view.session
    new = view.studio.sessions.create(owner=view.user.name, title=file.name)
    source = DataSource(where=str(file), title=file.name, table=old.source.table,
                    linked=old.source.linked)  # fmt: skip
    if (old.folder / KEY).exists():
        # Persons keep their noise and pseudonyms: nobody learns more from two extracts.
        shutil.copy2(old.folder / KEY, new.folder / KEY)
    new.change(say("release.replayed", title=old.title), by=view.user.name,
               plan=old.plan_text or None, source=source)  # fmt: skip
    old.note(f"plan and key taken over for '{file.name}'", by=view.user.name)
    view.studio.flashes.setdefault(new.id, []).append(
        {"text": say("release.replay_begun"), "tone": "good"}
    )
    return View(view.studio, view.request, new).go("release")
