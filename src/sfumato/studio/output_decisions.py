"""What the checker decided about each output, and the file of those that may leave."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from sfumato.errors import PlanError
from sfumato.io.atomic import PRIVATE, write_file
from sfumato.outputs.log import Log
from sfumato.storage.contents import is_file_with, sha256
from sfumato.studio.security import User
from sfumato.studio.session import Session, now

Decision = Literal["approve", "reject"]
OUTPUTS, FILES = "outputs", "files"
"""The folder of the log in a session, and that of the figures and tables in it."""
_DECISIONS = "decisions.json"
_MIDNIGHT = (1980, 1, 1, 0, 0, 0)
"""The first moment that a zip file knows: the same outputs give the same bytes."""


@dataclass(frozen=True, kw_only=True)
class OutputDecision:
    """What somebody decided about an output.

    Parameters
    ----------
    number : of the output in the log.
    decision : whether it may leave.
    reason : why.
    by, role, at : who decided, in which role, and when.
    files : the digest of each of its files, as they were looked at.
    """

    number: int
    decision: Decision
    reason: str
    by: str
    role: str
    at: str
    files: Mapping[str, str]


def list_outputs(session: Session) -> list[dict[str, Any]]:
    """Every output of the log with what the page shows of it, the first first."""
    folder = session.folder / OUTPUTS
    if not (folder / "log.json").is_file():
        return []
    decided = {item.number: item for item in list_decisions(session)}
    return [
        {**entry, **_read_description(folder, entry["number"]),
         "decided": decided.get(entry["number"])}
        for entry in Log(folder).plain()["outputs"]
    ]  # fmt: skip


def _read_description(folder: Path, number: int) -> dict[str, Any]:
    path = folder / FILES / f"{number:05d}.json"
    if not path.is_file():
        return {"caption": "", "description": "", "files": [], "head": [], "rows": [], "notes": []}
    return dict(json.loads(path.read_text("utf-8")))


def list_decisions(session: Session) -> list[OutputDecision]:
    """All decisions, the first first."""
    path = session.folder / OUTPUTS / _DECISIONS
    if not path.exists():
        return []
    return [OutputDecision(**item) for item in json.loads(path.read_text("utf-8"))]


def decide(
    session: Session, user: User, number: int, decision: str, *, reason: str, alone: bool
) -> None:
    """Keep what a checker decided about an output.

    Parameters
    ----------
    number : of the output in the log.
    decision : "approve" or "reject".
    reason : why; it must be given to reject, and to approve what asks for a second look.
    alone : whether the studio runs on one's own machine.
    """
    if decision not in get_args(Decision):
        raise PlanError("Approve or reject.")
    if not alone and user.name in session.authors:
        raise PlanError(
            "Nobody checks their own outputs.",
            hint="ask somebody else who may approve to open this page.",
        )
    output = next((item for item in list_outputs(session) if item["number"] == number), None)
    if output is None or not output["files"]:
        raise PlanError("There is no such output.", hint="one that was refused was never made.")
    words = " ".join(reason.split())[:2000]
    if not words and (decision == "reject" or output["verdict"] != "pass"):
        raise PlanError("Say why.", hint="write a reason beside the button.")
    folder = session.folder / OUTPUTS / FILES
    made = OutputDecision(
        number=number, decision=decision, reason=words, by=user.name, role=user.role,  # type: ignore[arg-type]
        at=now(), files={name: sha256(folder / name) for name in output["files"]},
    )  # fmt: skip
    content = [asdict(item) for item in (*list_decisions(session), made)]
    write_file(session.folder / OUTPUTS / _DECISIONS, json.dumps(content), mode=PRIVATE)
    told = "approved" if decision == "approve" else "rejected"
    session.note(f"output {number} {told}{f': {words}' if words else ''}", by=user.name)


def zip_approved(session: Session) -> bytes:
    """A zip file of the approved outputs and of nothing else; the same outputs, the same bytes."""
    folder = session.folder / OUTPUTS / FILES
    last = {item.number: item for item in list_decisions(session)}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for _, item in sorted(last.items()):
            for name, digest in sorted(item.files.items()):
                # What was changed since it was looked at was not approved.
                if item.decision == "approve" and is_file_with(folder / name, digest):
                    entry = zipfile.ZipInfo(name, _MIDNIGHT)
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    entry.external_attr = 0o644 << 16
                    archive.writestr(entry, (folder / name).read_bytes())
    return buffer.getvalue()
