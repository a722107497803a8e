"""The server: routes to the pages, jobs, events, figures; started by `sfumato studio`."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import pkgutil
import time
import traceback
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from sfumato.errors import SfumatoError, locate
from sfumato.studio import pages as pages_room
from sfumato.studio.jobs import Job, WorkerHandle
from sfumato.studio.security import Door, Guard, Settings, User, refuse
from sfumato.studio.session import Session, Sessions
from sfumato.studio.source import DataSource
from sfumato.studio.start import list_start_routes
from sfumato.studio.tasks import list_tasks
from sfumato.studio.texts import join_sentences
from sfumato.studio.view import (
    BESIDE,
    STEPS,
    Outcome,
    Page,
    View,
    read_body,
    respond,
    wait_soon,
)

_WORKERS = 4
"""Processes with data in memory at once; the longest idle one goes first."""
_NOT_KEPT = {
    "what": "The answer could not be written into the folder of the session.",
    "hint": "is the disk full? Make room, and try again.",
    "kind": "disk",
}
_IDLE_SECONDS = 1800.0
_HEARTBEAT_SECONDS = 15.0


class Studio:
    """All that the server keeps: sessions, the worker process of each, and what they were asked.

    Parameters
    ----------
    settings : how it is run.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.sessions = Sessions(settings.folder)
        self.pages = find_pages()
        self.flashes: dict[str, list[dict[str, str]]] = {}
        self._workers: dict[str, WorkerHandle] = {}
        self._failed: dict[str, Job] = {}
        self._listeners: dict[str, set[asyncio.Queue[Job]]] = {}

    def recognise(self, user: User, session: Session) -> User | None:
        """Who somebody is in a session; None where they may not see it.

        Who owns it works on it. Checkers check it. Where the team allows it, a custodian checks the
        work of another one, and sees and does no more than a checker there.
        """
        proxy = self.settings.proxy
        if proxy is None or user.name == session.owner or user.role == "checker":
            return user
        both = user.role == proxy.users.get(session.owner) == "custodian"
        return User(user.name, "checker") if both and proxy.custodians_approve else None

    def may_change(self, user: User, session: Session) -> bool:
        """Whether somebody may undo what was decided, or stop what is being done."""
        return self.settings.proxy is None or user.name == session.owner

    def choose_first_page(self, user: User) -> str:
        """The page on which somebody begins: the first that their role shows them."""
        return next(name for name in (*STEPS, *BESIDE) if self.pages[name].admits(user))

    def get_worker(self, session: Session) -> WorkerHandle:
        """The worker process of a session."""
        if session.id not in self._workers:
            self._workers[session.id] = WorkerHandle(
                session.folder, lambda job: self._publish(session.id, job)
            )
        return self._workers[session.id]

    def list_jobs(self, session: Session) -> list[Job]:
        """What the worker process of a session was asked lately."""
        worker = self._workers.get(session.id)
        return [] if worker is None else list(worker.jobs.values())

    async def peek(self, session: Session, task: str, parameters: Mapping[str, Any]) -> Outcome:
        """The answer to a question if there is one, or who is working on it."""
        key = session.compute_key(task, list_tasks()[task].depends, parameters)
        return self._find(session, key)

    async def ask(
        self, session: Session, task: str, parameters: Mapping[str, Any], *, soon: float
    ) -> Outcome:
        """The answer to a question, after a short while; else who is working on it."""
        asked = list_tasks()[task]
        key = session.compute_key(task, asked.depends, parameters)
        known = self._find(session, key)
        if known.ready or known.failure or known.waiting:
            if known.job is not None and known.waiting:
                await wait_soon(known.job, soon)
                return self._find(session, key)
            return known
        job = await self._begin(session, Job(task, key, parameters, once=not asked.keep))
        await wait_soon(job, soon)
        return self._find(session, key)

    async def start(
        self,
        session: Session,
        task: str,
        parameters: Mapping[str, Any],
        *,
        secrets: Mapping[str, str],
        soon: float,
    ) -> Outcome:
        """Have something done, also where it failed before; nobody keeps the `secrets`."""
        key = session.compute_key(task, list_tasks()[task].depends, parameters)
        self._failed.pop(key, None)
        job = Job(task, key, {**parameters, **secrets})
        begun = await self._begin(session, job)
        job.parameters = parameters
        await wait_soon(begun, soon)
        return self._judge(begun)

    def find_latest(self, session: Session, tasks: Collection[str]) -> Outcome:
        """What came of the latest of some tasks, or who is working on it."""
        jobs = [job for job in self.list_jobs(session) if job.task in tasks]
        return self._judge(jobs[-1]) if jobs else Outcome()

    async def _begin(self, session: Session, job: Job) -> Job:
        await self._make_room(session)
        # What depends on no data has no source.
        source = session.state.source or DataSource(where="", title="")
        return await self.get_worker(session).ask(job, source, session.plan_text)

    def forget_failure(self, session: Session, job_id: str) -> None:
        """Let what failed be tried again."""
        worker = self._workers.get(session.id)
        job = None if worker is None else worker.jobs.get(job_id)
        if job is not None:
            self._failed.pop(job.key, None)

    async def close(self) -> None:
        """End all worker processes, and remove what was uploaded: sessions stay, data do not."""
        await asyncio.gather(*(worker.close() for worker in self._workers.values()))
        for session in self.sessions.list():
            session.remove_uploads()

    def _find(self, session: Session, key: str) -> Outcome:
        kept = session.read_result(key)
        if kept is not None:
            return Outcome(value=kept["result"], warnings=kept["warnings"])
        if key in self._failed:
            return self._judge(self._failed[key])
        for job in self.list_jobs(session):
            if job.key == key and job.open:
                return Outcome(job=job)
            if job.key == key and job.once and job.result is not None:
                # It goes to the page that asked, and is forgotten.
                value, job.result = job.result, None
                return Outcome(value=value, warnings=job.warnings)
        return Outcome()

    @staticmethod
    def _judge(job: Job) -> Outcome:
        if job.state == "cancelled":
            return Outcome(job=job, failure={"what": "This was cancelled.", "hint": "",
                                             "kind": "cancelled"})  # fmt: skip
        return Outcome(
            value=job.result if job.state == "done" else None,
            failure=job.failure,
            warnings=job.warnings,
            job=job,
        )

    def _publish(self, session_id: str, job: Job) -> None:
        """Keep what a job has come to, and tell the pages that listen."""
        session = self.sessions.get(session_id)
        if session is not None and job.state == "done" and list_tasks()[job.task].keep:
            try:
                session.keep_result(job.key, {"result": job.result, "warnings": list(job.warnings)})
            except (OSError, SfumatoError):
                # Raised here it would end who listens to the worker, and every page would wait.
                job.state, job.failure = "failed", _NOT_KEPT
        if job.state in ("failed", "cancelled"):
            self._failed[job.key] = job
        for queue in self._listeners.get(session_id, ()):
            queue.put_nowait(job)

    @asynccontextmanager
    async def listen(self, session: Session) -> AsyncIterator[asyncio.Queue[Job]]:
        """Hear of every change of a session's jobs, as long as this lasts."""
        queue: asyncio.Queue[Job] = asyncio.Queue()
        listeners = self._listeners.setdefault(session.id, set())
        listeners.add(queue)
        try:
            yield queue
        finally:
            listeners.discard(queue)

    async def _make_room(self, session: Session) -> None:
        """End the processes that nobody has used for long, and the oldest idle one of too many."""
        idle = sorted(
            (worker.used, name)
            for name, worker in self._workers.items()
            if not worker.busy and worker.process_id is not None and name != session.id
        )
        late = time.monotonic() - _IDLE_SECONDS
        surplus = max(0, len(idle) + 1 - _WORKERS)
        for number, (used, name) in enumerate(idle):
            if number < surplus or used < late:
                await self._workers.pop(name).close()


def find_pages() -> dict[str, Page]:
    """All pages by name, found in the files of their folder."""
    pages: dict[str, Page] = {}
    for info in pkgutil.iter_modules(pages_room.__path__):
        module = importlib.import_module(f"{pages_room.__name__}.{info.name}")
        page: Page = module.page
        pages[page.name] = page
    return pages


def create_app(settings: Settings, door: Door | None = None) -> Starlette:
    """The application with its guard; `app.state.studio` and `app.state.door` are what it keeps."""
    studio, door = Studio(settings), door or Door()

    @asynccontextmanager
    async def live(app: Starlette) -> AsyncIterator[None]:
        del app
        yield
        await studio.close()

    inner = Starlette(routes=_list_routes(studio), exception_handlers={Exception: _explain_bug})
    app = Starlette(
        routes=[Mount(settings.prefix or "/", app=inner)],
        lifespan=live,
    )
    app.add_middleware(Guard, settings=settings, door=door)
    app.state.studio, app.state.door = studio, door
    return app


async def _explain_bug(request: Request, error: Exception) -> Response:
    """Of a bug only the place is told: its text could quote a cell."""
    del request
    if os.environ.get("SFUMATO_DEBUG"):
        traceback.print_exception(error)
    what = f"Something unexpected happened ({type(error).__name__}, {locate(error)})."
    return refuse(HTTPStatus.INTERNAL_SERVER_ERROR, what, "Nothing was lost. Please tell us.")


def _list_routes(studio: Studio) -> list[Route | Mount]:
    routes: list[Route | Mount] = [
        Mount("/static", StaticFiles(packages=[("sfumato.studio", "static")])),
        *list_start_routes(studio),
        Route("/sessions/{session}/events", _bind(_send_events, studio)),
        Route("/sessions/{session}/jobs/{job}/{name}", _bind(_act_on_job, studio),
              methods=["POST"]),
        Route("/sessions/{session}/history/{name}", _bind(_act_on_history, studio),
              methods=["POST"]),
    ]  # fmt: skip
    for page in studio.pages.values():
        endpoint = _bind_page(studio, page)
        routes += [
            Route(f"/sessions/{{session}}/{page.name}", endpoint),
            Route(f"/sessions/{{session}}/{page.name}/{{name}}", endpoint,
                  methods=["GET", "POST"]),
        ]  # fmt: skip
    return routes


def _bind(function: Any, studio: Studio) -> Any:
    async def endpoint(request: Request) -> Response:
        session = studio.sessions.get(request.path_params["session"])
        if session is None or studio.recognise(request.state.user, session) is None:
            return refuse(HTTPStatus.NOT_FOUND, "There is no such session.")
        answer: Response = await function(studio, session, request)
        return answer

    return endpoint


def _bind_page(studio: Studio, page: Page) -> Any:
    async def endpoint(request: Request) -> Response:
        return await respond(studio, page, request)

    return endpoint


async def _act_on_job(studio: Studio, session: Session, request: Request) -> Response:
    """Cancel a job, or let one that failed be tried again."""
    worker = studio.get_worker(session)
    job = worker.jobs.get(request.path_params["job"])
    form = await read_body(request)
    if job is None or form is None:
        return refuse(HTTPStatus.NOT_FOUND, "There is no such work.")
    if request.path_params["name"] == "cancel":
        if not studio.may_change(request.state.user, session):
            return refuse(HTTPStatus.FORBIDDEN, "Only its owner stops this.")
        await worker.cancel(job)
        session.note(f"{job.task} cancelled", by=request.state.user.name)
    elif request.path_params["name"] == "again":
        studio.forget_failure(session, job.id)
    view = View(studio, request, session, form)
    return view.go(view.get("back") or "data")


async def _act_on_history(studio: Studio, session: Session, request: Request) -> Response:
    """Undo, redo, go to a state, begin a branch or take one up."""
    if not studio.may_change(request.state.user, session):
        return refuse(HTTPStatus.FORBIDDEN, "Only its owner changes a session.")
    form = await read_body(request)
    if form is None:
        return refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "This form is too long.")
    view = View(studio, request, session, form)
    name, by = request.path_params["name"], view.user.name
    try:
        if name in ("undo", "redo"):
            session.undo(by=by, steps=1 if name == "undo" else -1)
        elif name == "go":
            session.undo(by=by, steps=session.branch.position - int(view.get("position", "0")))
        elif name == "branch":
            session.begin_branch(view.get("branch"), by=by)
        elif name == "switch":
            session.switch_branch(view.get("branch"), by=by)
    except SfumatoError as error:
        view.flash(join_sentences(error.what, error.hint), tone="bad")
    return view.go(view.get("back") or "data")


async def _send_events(studio: Studio, session: Session, request: Request) -> Response:
    """What happens to the jobs of a session, as it happens."""

    async def stream() -> AsyncIterator[str]:
        async with studio.listen(session) as queue:
            for job in studio.list_jobs(session):
                yield _write_event(job)
            while not await request.is_disconnected():
                try:
                    job = await asyncio.wait_for(queue.get(), _HEARTBEAT_SECONDS)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                # Only the newest of several reports of a job counts.
                latest = {job.id: job}
                while not queue.empty():
                    later = queue.get_nowait()
                    latest[later.id] = later
                for changed in latest.values():
                    yield _write_event(changed)
                await asyncio.sleep(0.1)

    return StreamingResponse(stream(), media_type="text/event-stream")


def _write_event(job: Job) -> str:
    return f"event: job\ndata: {json.dumps(job.plain())}\n\n"
