"""Outputs: figures and tables that may leave, each looked at by a checker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import HTMLResponse, Response

from sfumato.errors import DataError, PlanError
from sfumato.outputs.log import Log
from sfumato.report.outputs_page import render_outputs
from sfumato.storage.contents import is_plain_file
from sfumato.studio.output_decisions import FILES, OUTPUTS, decide, list_outputs, zip_approved
from sfumato.studio.output_forms import get_kind, list_kinds, list_output_fields, read_output_form
from sfumato.studio.pages.release import is_alone
from sfumato.studio.security import DOCUMENT_POLICY
from sfumato.studio.tasks.release import list_written
from sfumato.studio.texts import say
from sfumato.studio.view import Outcome, Page, View

page = Page("outputs", roles=("checker",))
_SHOWN = 50
"""Outputs on a page, the newest first."""
_USUAL = "histogram"


@page.show
async def show(view: View) -> Mapping[str, Any]:
    """A form for a new output, and all that were made."""
    session = view.session
    open_data = session.state.source is not None and view.plan is not None
    custodian = view.user.role == "custodian"
    kind = get_kind(view.query.get("kind", _USUAL))
    variables = await view.ask("list_variables") if open_data and custodian else Outcome()
    tables = {part: names for part, names in (variables.value or {}).items()
              if part or not session.source.linked}  # fmt: skip
    table = view.query.get("table") or next(iter(tables), "")
    names = [row["name"] for row in tables.get(table, ())]
    outputs = list(reversed(list_outputs(session)))
    asked = view.query.get("first", "0")
    first = int(asked) if asked.isdigit() else 0
    approved = sum(item["decided"] is not None and item["decided"].decision == "approve"
                   for item in outputs)  # fmt: skip
    return {
        "open": open_data,
        "custodian": custodian,
        "may_decide": is_alone(view) or view.user.name not in session.authors,
        "alone": is_alone(view),
        "kinds": list_kinds(),
        "kind": kind,
        "variables": variables,
        "tables": tables,
        "table": table,
        "fields": list_output_fields(kind, names),
        "releases": [folder["folder"] for item in list_written(session.folder)
                     for folder in item["folders"]],
        "doing": view.find_latest("make_output"),
        "outputs": outputs[first : first + _SHOWN],
        "count": len(outputs),
        "first": first,
        "shown": _SHOWN,
        "approved": approved,
    }  # fmt: skip


@page.action("make")
async def make(view: View) -> Response:
    """Make a figure or a table."""
    if view.user.role != "custodian":
        raise PlanError("Only the custodian makes outputs.", hint="you approve or reject them.")
    kind = get_kind(view.get("kind"))
    of = view.get("of")
    known = [folder["folder"] for item in list_written(view.session.folder)
             for folder in item["folders"]]  # fmt: skip
    if of and of not in known:
        raise DataError("This session wrote no such release.", hint="choose one from the list.")
    settings = read_output_form(kind, view.form)
    table = view.get("table")
    view.session.note(f"{kind.name} for the log of outputs asked for", by=view.user.name)
    await view.start("make_output", kind=kind.name, of=of, table=table, settings=settings)
    return view.go("outputs", kind=kind.name, **({"table": table} if table else {}))


@page.action("decide")
async def decide_output(view: View) -> None:
    """Approve or reject an output."""
    number = view.get("number")
    if not number.isdigit():
        raise PlanError("There is no such output.")
    decide(view.session, view.user, int(number), view.get("decision"), reason=view.get("reason"),
           alone=is_alone(view))  # fmt: skip
    view.flash(say(f"outputs.said.{view.get('decision')}", number=number))


@page.part("picture")
async def picture(view: View) -> Response:
    """The figure of an output, exactly as it would leave."""
    number = view.query.get("number", "")
    names = [name for item in list_outputs(view.session) if str(item["number"]) == number
             for name in item["files"] if name.endswith(".svg")]  # fmt: skip
    path = view.session.folder / OUTPUTS / FILES / (names[0] if names else "none")
    if not is_plain_file(path):
        raise DataError("There is no such figure.")
    return Response(path.read_bytes(), media_type="image/svg+xml",
                    headers={"Content-Security-Policy": DOCUMENT_POLICY})  # fmt: skip


@page.part("approved")
async def download_approved(view: View) -> Response:
    """A zip file of the approved outputs and of nothing else."""
    headers = {"Content-Disposition": 'attachment; filename="approved-outputs.zip"'}
    return Response(zip_approved(view.session), media_type="application/zip", headers=headers)


@page.part("log")
async def show_log(view: View) -> Response:
    """The whole log as one page."""
    folder = view.session.folder / OUTPUTS
    if not (folder / "log.json").is_file():
        raise DataError("No outputs have been made yet.")
    return HTMLResponse(render_outputs(Log(folder).plain()),
                        headers={"Content-Security-Policy": DOCUMENT_POLICY})  # fmt: skip
