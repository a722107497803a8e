"""What a second person said about a plan: approved, rejected or only commented.

An approval holds for the data and the plan that were shown to the approver. As soon as either
changes it is void; going back to them makes it hold again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from sfumato.errors import PlanError
from sfumato.io.atomic import PRIVATE, write_file
from sfumato.studio.security import User
from sfumato.studio.session import Session, now

Decision = Literal["approve", "reject", "comment"]
_FILE = "approvals.json"
CLAIM = "typed on one's own machine and not proven"
"""Whoever sits at the keyboard can write any name."""
_LONGEST = 2000
"""Characters of a name or a comment."""


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
    subject : the digest of data and plan that it is about.
    comment : their words.
    """

    decision: Decision
    by: str
    role: str
    name: str
    at: str
    subject: str
    comment: str = ""


def compute_subject(session: Session) -> str:
    """What an approval is about: the digest of the plan, and the state of the data."""
    plan = session.plan
    facts = ["" if plan is None else plan.digest, session.source.stamp]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def list_approvals(session: Session) -> list[Approval]:
    """All that was said, the first first."""
    path = session.folder / _FILE
    if not path.exists():
        return []
    return [Approval(**item) for item in json.loads(path.read_text("utf-8"))]


def add_approval(
    session: Session, user: User, decision: str, *, name: str, comment: str, alone: bool
) -> Approval:
    """Keep what somebody says about the plan as it stands.

    Parameters
    ----------
    session : whose plan it is.
    user : who is at the keyboard.
    decision : "approve", "reject" or "comment".
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
    signer = _clean(name) if alone else user.name
    words = _clean(comment)
    if not signer:
        raise PlanError("The name is missing.", hint="write your name.")
    if decision != "approve" and not words:
        raise PlanError("Say why.", hint="write a comment.")
    approval = Approval(decision=decision, by=user.name, role=user.role, name=signer, at=now(),  # type: ignore[arg-type]
                        subject=compute_subject(session), comment=words)  # fmt: skip
    content = [asdict(item) for item in (*list_approvals(session), approval)]
    write_file(session.folder / _FILE, json.dumps(content), mode=PRIVATE)
    told = {"approve": "plan approved", "reject": "plan rejected", "comment": "comment"}[decision]
    whom = f" in the name of '{signer}', {CLAIM}" if alone else ""
    session.note(f"{told}{whom}{f': {words}' if words else ''}", by=user.name)
    return approval


def judge_approvals(session: Session, approvals: Sequence[Approval]) -> Decision | None:
    """What holds of the plan as it stands: the last word of each person, a rejection first."""
    if session.state.source is None:
        return None
    subject = compute_subject(session)
    last = {(item.by, item.name): item.decision for item in approvals
            if item.subject == subject and item.decision != "comment"}  # fmt: skip
    return next((word for word in ("reject", "approve") if word in last.values()), None)


def _clean(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]
