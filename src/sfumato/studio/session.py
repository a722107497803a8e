"""Sessions: what was decided, in a private folder: nothing is lost, and all can be undone.

A session is a folder: `history.json` (every state, the branches, where one stands), `plans/` (the
text of every plan that was ever the current one), `results/` (what was measured, by what it depends
on), `audit.jsonl` (who did what and when), `uploads/`. A state is a source and a plan; nothing else
counts.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sfumato import __version__
from sfumato.errors import DataError, PlanError
from sfumato.io.atomic import PRIVATE, write_file
from sfumato.io.locks import take_abandoned_lock
from sfumato.plan import PARTIES, Plan
from sfumato.studio.source import DataSource, parse_plan
from sfumato.studio.tasks import Depends

_HISTORY, _AUDIT, _PLANS, _RESULTS, UPLOADS = (
    "history.json", "audit.jsonl", "plans", "results", "uploads",
)  # fmt: skip
INVENTED = "invented"
"""Data about nobody, which may stay when uploads go."""
_ID = re.compile(r"[a-z0-9]{12}")
MAIN = "main"
_LONGEST_NAME = 60
_MOST_RESULTS = 500
"""Answers that a session keeps; the oldest go first."""


@dataclass(frozen=True)
class State:
    """A source, a plan, and what was done to arrive there.

    Parameters
    ----------
    number : of the state in its session; it never changes.
    what : what was done, in a few words.
    by, at : who did it, and when (UTC).
    source : where the records come from; None before anything was opened.
    plan : the digest of the plan's text; empty where there is none.
    """

    number: int
    what: str
    by: str
    at: str
    source: DataSource | None
    plan: str


@dataclass
class Branch:
    """States in their order, and where one stands: what is behind can be redone."""

    states: list[int]
    position: int = 0


@dataclass
class Session:
    """One piece of work.

    Parameters
    ----------
    folder : where it is kept; its name is the session's id.
    owner : who began it.
    """

    folder: Path
    owner: str
    title: str = ""
    created: str = ""
    states: dict[int, State] = field(default_factory=dict)
    branches: dict[str, Branch] = field(default_factory=dict)
    current: str = MAIN

    @property
    def id(self) -> str:
        """By which addresses name it."""
        return self.folder.name

    @property
    def branch(self) -> Branch:
        """The branch that is worked on."""
        return self.branches[self.current]

    @property
    def state(self) -> State:
        """Where one stands."""
        return self.states[self.branch.states[self.branch.position]]

    @property
    def source(self) -> DataSource:
        """Where the records come from."""
        if self.state.source is None:
            raise DataError("No data are open.", hint="choose a file under Data.")
        return self.state.source

    @property
    def plan_text(self) -> str:
        """The plan as it stands; empty where there is none."""
        return self.read_plan(self.state)

    @property
    def plan(self) -> Plan | None:
        """The plan as it stands; None where nobody has said how several tables belong together."""
        linked = self.state.source is not None and self.state.source.linked
        return parse_plan(self.plan_text, linked=linked)

    @property
    def authors(self) -> frozenset[str]:
        """Whoever began it or decided anything in it, also what was undone since."""
        return frozenset({self.owner, *(state.by for state in self.states.values())})

    def read_plan(self, state: State) -> str:
        """The text of the plan of a state."""
        if not state.plan:
            return ""
        return (self.folder / _PLANS / f"{state.plan}.toml").read_text("utf-8")

    def read_branch(self, name: str) -> State:
        """Where a branch stands."""
        branch = self.branches[name]
        return self.states[branch.states[branch.position]]

    # What changes a session ------------------------------------------------------------------

    def change(
        self,
        what: str,
        *,
        by: str,
        plan: str | Plan | None = None,
        source: DataSource | None = None,
    ) -> None:
        """Go on to a new state; what was undone before is no longer ahead, but stays on the disk.

        Parameters
        ----------
        what : what was done, in a few words and without a value of the data.
        by : who did it.
        plan : the new plan, or its text; as it was by default.
        source : where the records come from now; as before by default.
        """
        text = self.plan_text if plan is None else plan if isinstance(plan, str) else plan.text()
        digest = ""
        if text:
            digest = hashlib.sha256(text.encode()).hexdigest()
            path = self.folder / _PLANS / f"{digest}.toml"
            if not path.exists():
                write_file(path, text, mode=PRIVATE)
        number = len(self.states)
        self.states[number] = State(number, what, by, now(), source or self.state.source, digest)
        branch = self.branch
        branch.states = [*branch.states[: branch.position + 1], number]
        branch.position = len(branch.states) - 1
        self.save()
        self.note(what, by=by)

    def undo(self, *, by: str, steps: int = 1) -> None:
        """Go back; with a negative number of steps, forward again."""
        target = self.branch.position - steps
        if not 0 <= target < len(self.branch.states):
            raise PlanError("There is nothing more to undo." if steps > 0 else
                            "There is nothing more to redo.")  # fmt: skip
        self.branch.position = target
        self.save()
        self.note("undo" if steps > 0 else "redo", by=by)

    def begin_branch(self, name: str, *, by: str) -> None:
        """Go on from here under another name; the branch that was worked on stays as it is."""
        label = " ".join(name.split())[:_LONGEST_NAME]
        if not label or label in self.branches:
            raise PlanError(
                "A branch of this name exists already." if label else "A branch needs a name."
            )
        self.branches[label] = Branch([*self.branch.states[: self.branch.position + 1]],
                                      self.branch.position)  # fmt: skip
        self.current = label
        self.save()
        self.note(f"branch '{label}' begun", by=by)

    def switch_branch(self, name: str, *, by: str) -> None:
        """Work on another branch."""
        if name not in self.branches:
            raise PlanError("There is no such branch.")
        self.current = name
        self.save()
        self.note(f"branch '{name}' taken up", by=by)

    def note(self, what: str, *, by: str) -> None:
        """Add a line to the audit trail, which nothing ever removes."""
        add_to_audit(self.folder, what, by=by, branch=self.current)

    def read_audit(self) -> list[dict[str, Any]]:
        """Who did what and when, the first first."""
        return read_audit(self.folder)

    # What is kept on the disk ----------------------------------------------------------------

    def save(self) -> None:
        """Write the history, whole or not at all."""
        content = {
            "version": __version__,
            "owner": self.owner,
            "title": self.title,
            "created": self.created,
            "current": self.current,
            "branches": {name: asdict(branch) for name, branch in self.branches.items()},
            "states": [{**asdict(state), "source": state.source and state.source.plain()}
                       for state in self.states.values()],
        }  # fmt: skip
        write_file(self.folder / _HISTORY, json.dumps(content), mode=PRIVATE)

    @classmethod
    def load(cls, folder: Path) -> Session:
        """Open a session again, after a crash or tomorrow."""
        content = json.loads((folder / _HISTORY).read_text("utf-8"))
        states = [
            State(**{**state, "source": state["source"] and DataSource.from_plain(state["source"])})
            for state in content["states"]
        ]
        return cls(
            folder=folder,
            owner=content["owner"],
            title=content["title"],
            created=content["created"],
            states={state.number: state for state in states},
            branches={name: Branch(**branch) for name, branch in content["branches"].items()},
            current=content["current"],
        )

    def compute_key(self, task: str, depends: Depends, parameters: Mapping[str, Any]) -> str:
        """What an answer depends on: the records, the part of the plan, and the parameters."""
        if depends == "nothing":
            return _digest([__version__, task, parameters])
        plan = self.plan
        part = ""
        if plan is not None and depends != "plan":
            part = _write_part(plan, depends)
        elif plan is not None:
            # Who gets it and what for changes nothing that is measured.
            unnamed: dict[str, Any] = dict.fromkeys(PARTIES)
            part = replace(plan, release=replace(plan.release, **unnamed)).text()
        facts = [__version__, task, self.source.stamp, part, parameters]
        return _digest(facts)

    def read_result(self, key: str) -> dict[str, Any] | None:
        """What was answered before to the same question; None where it was not."""
        path = self.folder / _RESULTS / f"{key}.json"
        try:
            return dict(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError):
            return None

    def keep_result(self, key: str, result: Mapping[str, Any]) -> None:
        """Keep an answer, so that it need not be computed again."""
        content = json.dumps(result, default=str)
        write_file(self.folder / _RESULTS / f"{key}.json", content, mode=PRIVATE)
        kept = sorted((self.folder / _RESULTS).glob("*.json"), key=_read_time)
        for path in kept[:-_MOST_RESULTS]:
            path.unlink(missing_ok=True)

    def remove_uploads(self) -> None:
        """Remove the files that were uploaded; what was decided and measured stays."""
        for path in (self.folder / UPLOADS).iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


@dataclass
class Sessions:
    """All sessions of a folder that only its owner can look into."""

    folder: Path
    opened: dict[str, Session] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)

    def create(self, *, owner: str, title: str = "") -> Session:
        """A new session."""
        folder = self.folder / secrets.token_hex(6)
        for path in (folder, *(folder / name for name in (_PLANS, _RESULTS, UPLOADS, INVENTED))):
            path.mkdir(mode=0o700)
        began = State(0, "session begun", owner, now(), None, "")
        session = Session(
            folder=folder,
            owner=owner,
            title=title,
            created=began.at,
            states={0: began},
            branches={MAIN: Branch([0])},
        )
        session.save()
        session.note(began.what, by=owner)
        self.opened[session.id] = session
        return session

    def get(self, id: str) -> Session | None:  # noqa: A002 - it is called so everywhere
        """The session of this id; None where there is none."""
        if id in self.opened:
            return self.opened[id]
        if not _ID.fullmatch(id) or not (self.folder / id / _HISTORY).is_file():
            return None
        self.opened[id] = Session.load(self.folder / id)
        return self.opened[id]

    def list(self) -> list[Session]:
        """All of them, the newest first."""
        ids = [path.name for path in self.folder.iterdir() if _ID.fullmatch(path.name)]
        sessions = [session for name in ids if (session := self.get(name)) is not None]
        return sorted(sessions, key=lambda session: session.state.at, reverse=True)

    def remove(self, session: Session) -> None:
        """Remove a session with all that it holds; releases that were written elsewhere stay."""
        self.opened.pop(session.id, None)
        shutil.rmtree(session.folder)


def add_to_audit(folder: Path, what: str, *, by: str, branch: str) -> None:
    """Add a line to the audit trail in the folder of a session."""
    line = json.dumps({"at": now(), "by": by, "branch": branch, "what": what})
    handle = os.open(folder / _AUDIT, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE)
    with os.fdopen(handle, "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def read_audit(folder: Path) -> list[dict[str, Any]]:
    """The audit trail in the folder of a session, the first line first."""
    path = folder / _AUDIT
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _digest(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def _read_time(path: Path) -> float:
    return path.stat().st_mtime


@contextmanager
def hold_sessions(folder: Path) -> Iterator[None]:
    """Nobody else works on the sessions of this folder meanwhile: two would undo each other."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = folder / ".lock"
    lock.touch(PRIVATE)
    with take_abandoned_lock(lock) as taken:
        if not taken:
            raise PlanError(
                "A studio with these sessions is running already.",
                hint="use that one: press Enter in its terminal for its address; or keep other "
                "sessions: --sessions FOLDER.",
            )
        yield


def _write_part(plan: Plan, depends: Depends) -> str:
    """What the records depend on; with "schema" also their roles, and the keys between tables.

    Steps, targets and parties do not change what the records are.
    """
    whole = depends == "schema"
    tables = {name: Plan(schema=own.schema if whole else None, read=own.read).text()
              for name, own in plan.by_table.items()}  # fmt: skip
    keys = [[str(key), key.target] for key in plan.keys] if whole else []
    return json.dumps([tables, dict(plan.files), keys, plan.person if whole else ""])


def now() -> str:
    """The time, to the second, in UTC."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
