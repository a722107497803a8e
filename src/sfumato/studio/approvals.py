"""What a second person said about a plan: approved, rejected or only commented.

An approval holds for what was shown to the approver: the plan, what the data hold, and how the
release is written. As soon as one of them changes it is void; going back makes it hold again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from sfumato.errors import PlanError
from sfumato.io.atomic import PRIVATE, write_file
from sfumato.studio.security import User
from sfumato.studio.session import Session, now

Decision = Literal["approve", "reject", "comment"]
_FILE, _OPTIONS = "approvals.json", "writing.json"
CLAIM = "typed on one's own machine and not proven"
"""Whoever sits at the keyboard can write any name."""
_LONGEST = 2000
"""Characters of a name or a comment."""


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """How a release is written.

    Parameters
    ----------
    overwrite : whether an earlier release in the same folder is replaced.
    ledger : whether earlier releases of the same people are looked up, and this one is entered.
    """

    overwrite: bool = False
    ledger: bool = True


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What an approval is about.

    Parameters
    ----------
    plan : its digest.
    data : the digest of the files, or of what was read from a database; empty as long as nobody
        has read it.
    writing : the digest of how the release is written.
    """

    plan: str
    data: str
    writing: str

    @property
    def digest(self) -> str:
        """All of it together."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()

    def list_changes(self, earlier: Subject) -> list[str]:
        """Which parts are no longer what they were."""
        return [part.name for part in fields(self)
                if getattr(self, part.name) != getattr(earlier, part.name)]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Approval:
    """What somebody said about a plan.

    Parameters
    ----------
    decision : whether they approve, reject, or only say something.
    by : the user who was at the keyboard, as the studio knows them.
    role : of that user.
    name : who says it, as they wrote it themselves; behind a proxy the same as `by`.
    at : when.
    subject : what it is about.
    comment : their words.
    """

    decision: Decision
    by: str
    role: str
    name: str
    at: str
    subject: Subject
    comment: str = ""

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Approval:
        """From what was kept."""
        kept = plain["subject"]
        if isinstance(kept, str):  # before the three were told apart: it is void
            kept = {"plan": kept, "data": kept, "writing": kept}
        return cls(**{**plain, "subject": Subject(**kept)})


def compute_subject(session: Session, records: str = "") -> Subject:
    """What an approval would be about now.

    Parameters
    ----------
    session : whose plan and data.
    records : of a database, the digest of what was read from it.
    """
    plan, source = session.plan, session.source
    options = json.dumps(asdict(read_options(session)))
    return Subject(
        plan="" if plan is None else plan.digest,
        data=source.compute_digest() if source.in_files else records,
        writing=hashlib.sha256(options.encode()).hexdigest(),
    )


def read_options(session: Session) -> WriteOptions:
    """How the release of a session is written."""
    path = session.folder / _OPTIONS
    return WriteOptions(**json.loads(path.read_text("utf-8"))) if path.exists() else WriteOptions()


def keep_options(session: Session, options: WriteOptions) -> None:
    """Keep how the release of a session is written; what was approved otherwise is void."""
    write_file(session.folder / _OPTIONS, json.dumps(asdict(options)), mode=PRIVATE)


def list_approvals(session: Session) -> list[Approval]:
    """All that was said, the first first."""
    path = session.folder / _FILE
    if not path.exists():
        return []
    return [Approval.from_plain(item) for item in json.loads(path.read_text("utf-8"))]


def add_approval(
    session: Session,
    user: User,
    decision: str,
    *,
    subject: Subject,
    name: str,
    comment: str,
    alone: bool,
) -> Approval:
    """Keep what somebody says about the plan as it stands.

    Parameters
    ----------
    session : whose plan it is.
    user : who is at the keyboard.
    decision : "approve", "reject" or "comment".
    subject : what it is about.
    name : who says it; on one's own machine only, where the studio knows nobody.
    comment : their words.
    alone : whether the studio runs on one's own machine, and knows one user only.
    """
    if decision not in get_args(Decision):
        raise PlanError("Approve, reject or comment.")
    if not alone and user.name in session.authors and decision != "comment":
        raise PlanError(
            "You cannot approve your own work.",
            hint="ask somebody else who may approve to open this page.",
        )
    if not subject.data and decision != "comment":
        raise PlanError("The data are not read yet.", hint="wait a moment.")
    signer = _clean(name) if alone else user.name
    words = _clean(comment)
    if not signer:
        raise PlanError("The name is missing.", hint="write your name.")
    if decision != "approve" and not words:
        raise PlanError("Say why.", hint="write a comment.")
    approval = Approval(decision=decision, by=user.name, role=user.role, name=signer, at=now(),  # type: ignore[arg-type]
                        subject=subject, comment=words)  # fmt: skip
    content = [asdict(item) for item in (*list_approvals(session), approval)]
    write_file(session.folder / _FILE, json.dumps(content), mode=PRIVATE)
    told = {"approve": "plan approved", "reject": "plan rejected", "comment": "comment"}[decision]
    whom = f" in the name of '{signer}', {CLAIM}" if alone else ""
    session.note(f"{told}{whom}{f': {words}' if words else ''}", by=user.name)
    return approval


def judge_approvals(subject: Subject, approvals: Sequence[Approval]) -> Decision | None:
    """What holds of the plan as it stands: the last word of each person, a rejection first."""
    last = {(item.by, item.name): item.decision for item in approvals
            if item.subject == subject and item.decision != "comment"}  # fmt: skip
    return next((word for word in ("reject", "approve") if word in last.values()), None)


def _clean(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]
