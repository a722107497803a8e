"""Pages: what each step shows and does, and what they all share.

A page is a file in `pages/`: it makes a `Page`, says with `@page.show` what its template needs, and
with `@page.action("name")` what its forms do. A part (`@page.part("name")`) is a piece of a page
that the browser fetches by itself, into a dialog or a corner.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from sfumato import __version__, catalogue
from sfumato.errors import PlanError, SfumatoError
from sfumato.plan import Plan
from sfumato.report.html import make_environment
from sfumato.report.wording import format_percent, format_result
from sfumato.studio.jobs import Job
from sfumato.studio.security import LONGEST_FORM, Role, User, refuse, require_small
from sfumato.studio.session import Session
from sfumato.studio.source import DataSource
from sfumato.studio.tasks import list_tasks
from sfumato.studio.texts import join_sentences, say

if TYPE_CHECKING:
    from sfumato.studio.server import Studio

STEPS = ("data", "roles", "risk", "protect", "compare", "release")
"""The steps of the work, in their order."""
BESIDE = ("outputs", "analyse")
"""What stands beside them."""
_SHORT = 2
"""Sentences of what a method or measure assumes that are shown at once."""
_SOON_SECONDS = 0.1
"""How long a page waits for an answer before it shows how far the work is instead."""
Show = Callable[["View"], Awaitable[Mapping[str, Any]]]
Action = Callable[["View"], Awaitable[Response | None]]


@dataclass(frozen=True)
class Outcome:
    """What came of a question to the worker process, so far.

    Parameters
    ----------
    value : the answer; None while there is none.
    failure : what went wrong (`what`, `hint`); None where nothing did.
    warnings : what the library warned of.
    job : who is working on it.
    """

    value: Any = None
    failure: Mapping[str, str] | None = None
    warnings: Sequence[str] = ()
    job: Job | None = None

    @property
    def ready(self) -> bool:
        """Whether there is an answer."""
        return self.value is not None

    @property
    def waiting(self) -> bool:
        """Whether somebody is working on it."""
        return self.job is not None and self.job.open


@dataclass(frozen=True)
class View:
    """A request about a session, with all that a page needs to answer it."""

    studio: Studio
    request: Request
    session: Session
    form: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def user(self) -> User:
        """Who asks."""
        user: User = self.request.state.user
        return user

    @property
    def plan(self) -> Plan | None:
        """The plan as it stands; None where nobody has said how several tables belong together."""
        return self.session.plan

    @property
    def table_plan(self) -> Plan:
        """The plan of a single table."""
        if self.plan is None:
            raise PlanError("This works with one table, and these are several.")
        return self.plan.require_one_table()

    @property
    def query(self) -> Mapping[str, str]:
        """What the address says after the question mark."""
        return self.request.query_params

    def get(self, name: str, default: str = "") -> str:
        """The value of a field of the form that was sent."""
        return self.form.get(name, (default,))[-1]

    def get_all(self, name: str) -> list[str]:
        """All values of a field of the form that was sent."""
        return list(self.form.get(name, ()))

    def change(
        self,
        what: str,
        plan: str | Plan | None = None,
        source: DataSource | None = None,
    ) -> None:
        """Go on to a new state of the session; see `Session.change`."""
        self.session.change(what, by=self.user.name, plan=plan, source=source)

    def flash(self, text: str, *, tone: str = "good") -> None:
        """Say something at the top of the next page: "good", "warn" or "bad"."""
        self.studio.flashes.setdefault(self.session.id, []).append({"text": text, "tone": tone})

    async def ask(self, task: str, *, soon: float = _SOON_SECONDS, **parameters: Any) -> Outcome:
        """Ask the worker process; wait a moment, and return the answer or who is working on it.

        An answer that depends on the same things is not computed again. One that failed is tried
        again only when `again` asks for it, or when what it depends on has changed.
        """
        return await self.studio.ask(self.session, task, parameters, soon=soon)

    async def peek(self, task: str, **parameters: Any) -> Outcome:
        """The answer if there is one, or who is working on it; nobody is set to work."""
        return await self.studio.peek(self.session, task, parameters)

    async def start(
        self, task: str, *, secrets: Mapping[str, str] | None = None, **parameters: Any
    ) -> Outcome:
        """Have the worker process do something that a person wants done, now and each time.

        Parameters
        ----------
        secrets : further parameters, such as a passphrase, that nobody keeps.
        """
        return await self.studio.start(
            self.session, task, parameters, secrets=secrets or {}, soon=_SOON_SECONDS
        )

    def find_latest(self, *tasks: str) -> Outcome:
        """What came of the latest of some tasks that were started, or who is working on it."""
        return self.studio.find_latest(self.session, tasks)

    def address(self, page: str, **query: str) -> str:
        """The address of a page of this session."""
        asked = "&".join(f"{quote(name)}={quote(value)}" for name, value in query.items())
        root = self.studio.settings.prefix
        return f"{root}/sessions/{self.session.id}/{page}{f'?{asked}' if asked else ''}"

    def go(self, page: str, **query: str) -> RedirectResponse:
        """Send the browser to a page of this session."""
        return RedirectResponse(self.address(page, **query), HTTPStatus.SEE_OTHER)


@dataclass
class Page:
    """One page: what it shows, what its forms do, and who may see it.

    Parameters
    ----------
    name : of the page, of its template, and of its part of the catalogue of texts.
    roles : who may see it behind a proxy; the custodian always may.
    """

    name: str
    roles: tuple[Role, ...] = ()
    shown: Show | None = None
    actions: dict[str, Action] = field(default_factory=dict)
    streams: set[str] = field(default_factory=set)
    parts: dict[str, Callable[[View], Awaitable[Any]]] = field(default_factory=dict)

    def show(self, function: Show) -> Show:
        """What the template needs."""
        self.shown = function
        return function

    def action(self, name: str, *, streams: bool = False) -> Callable[[Action], Action]:
        """What a form of the page does; the browser then goes back to the page it came from.

        One that `streams` reads the body of the request by itself, and bounds it.
        """

        def register(function: Action) -> Action:
            self.actions[name] = function
            if streams:
                self.streams.add(name)
            return function

        return register

    def part(self, name: str) -> Callable[[Any], Any]:
        """A piece of the page: the values for `{page}_{name}.html`, or a finished response."""

        def register(function: Any) -> Any:
            self.parts[name] = function
            return function

        return register

    def admits(self, user: User) -> bool:
        """Whether somebody may see it."""
        return user.role == "custodian" or user.role in self.roles


@cache
def get_environment() -> Environment:
    """The templates of pages, with what all of them use."""
    environment = make_environment("studio/templates")
    environment.filters["thousands"] = lambda number: f"{number:,}"
    environment.filters["cell"] = lambda value: "" if value is None else format_result(value)
    environment.filters["figure"] = write_figure
    environment.globals["t"] = say
    environment.globals["explain"] = explain
    environment.globals["version"] = __version__
    return environment


def write_figure(number: float, line: str) -> str:
    """A measured number as people read it: in per cent where its first line says it is a share."""
    return format_percent(number) if line.startswith("Share") else format_result(number)


@cache
def explain(name: str) -> dict[str, str]:
    """What a method or measure is about: its first line, question, assumption and sources."""
    entries: dict[str, Any] = {**catalogue.measures(), **catalogue.methods()}
    entry = entries.get(name)
    if entry is None:
        return {"name": name, "line": "", "question": "", "assumes": "", "further": "",
                "references": ""}  # fmt: skip
    text = " ".join((entry.__doc__ or "").split())
    # A sentence ends where another begins; what a number means must not be a wall of words.
    assumed = re.split(r"(?<=[.:]) (?=[A-Z`])", _cut(text, "Assumes:", ("Parameters -",)))
    return {
        "name": name,
        "line": catalogue.first_line(entry),
        "question": _cut(text, "Question:", ("Assumes:",)),
        "assumes": " ".join(assumed[:_SHORT]),
        "further": " ".join(assumed[_SHORT:]),
        "references": _cut(text, "References:", ()),
    }


def _cut(text: str, begin: str, ends: Sequence[str]) -> str:
    _, found, rest = text.partition(begin)
    for end in ends:
        rest = rest.partition(end)[0]
    return rest.strip() if found else ""


async def respond(studio: Studio, page: Page, request: Request) -> Response:
    """Answer a request for a page, one of its parts or one of its actions."""
    session = studio.sessions.get(request.path_params["session"])
    user = None if session is None else studio.recognise(request.state.user, session)
    if session is None or user is None or not page.admits(user):
        return refuse(HTTPStatus.NOT_FOUND, "There is no such session.")
    request.state.user = user
    name = request.path_params.get("name")
    if request.method == "POST":
        return await _act(studio, page, request, session, str(name))
    view = View(studio, request, session)
    if name is None and page.shown is None:
        return refuse(HTTPStatus.NOT_FOUND, "There is no such page.")
    return await render(view, page) if name is None else await _render_part(view, page, name)


async def _render_part(view: View, page: Page, name: str) -> Response:
    if name not in page.parts:
        return refuse(HTTPStatus.NOT_FOUND, "There is no such page.")
    template = f"{page.name}_{name}.html"
    try:
        values = await page.parts[name](view)
    except SfumatoError as error:
        values = {"failure": {"what": error.what, "hint": error.hint}}
        template = "failure.html"
    if isinstance(values, Response):
        return values
    return _render_template(view, template, {"page": page.name, **values})


async def render(view: View, page: Page) -> Response:
    """The whole page; what goes wrong is shown in its place, and the way on stays open."""
    assert page.shown is not None  # noqa: S101 - asked before
    try:
        values = dict(await page.shown(view))
        template = f"{page.name}.html"
    except SfumatoError as error:
        values = {"failure": {"what": error.what, "hint": error.hint}}
        template = "broken.html"
    flashes = view.studio.flashes.pop(view.session.id, [])
    return _render_template(view, template, {"page": page.name, "flashes": flashes, **values})


def _render_template(view: View, template: str, values: Mapping[str, Any]) -> HTMLResponse:
    shared = {
        "view": view,
        "session": view.session,
        "user": view.user,
        "root": view.studio.settings.prefix,
        "here": f"{view.studio.settings.prefix}/sessions/{view.session.id}",
        "steps": [step for step in STEPS if view.studio.pages[step].admits(view.user)],
        "beside": [step for step in BESIDE if view.studio.pages[step].admits(view.user)],
        "running": [job for job in view.studio.list_jobs(view.session) if job.open],
    }
    text = get_environment().get_template(template).render({**shared, **values})
    return HTMLResponse(text)


async def _act(
    studio: Studio, page: Page, request: Request, session: Session, name: str
) -> Response:
    if name not in page.actions:
        return refuse(HTTPStatus.NOT_FOUND, "There is no such action.")
    form = {} if name in page.streams else await read_body(request)
    if form is None:
        return refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "This form is too long.")
    view = View(studio, request, session, form)
    try:
        answer = await page.actions[name](view)
    except SfumatoError as error:
        view.flash(join_sentences(error.what, error.hint), tone="bad")
        answer = None
    return answer or view.go(view.get("back") or page.name)


async def read_body(request: Request) -> dict[str, list[str]] | None:
    """The fields of a form; None where it is longer than a form may be."""
    if not require_small(request.headers):
        return None
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_FORM:
            return None
    return parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)


async def wait_soon(job: Job, seconds: float) -> None:
    """Wait a moment for a job to end."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(job.ended.wait(), seconds)


def require_task(name: str) -> None:
    """Refuse a task that does not exist: a mistake of ours."""
    if name not in list_tasks():
        raise PlanError(f"There is no task '{name}'.")
