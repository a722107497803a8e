"""The first page: go on with a session, or begin one with a file or with invented data."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from sfumato.errors import DataError
from sfumato.io.atomic import PRIVATE
from sfumato.studio.security import User, refuse
from sfumato.studio.session import INVENTED, Session
from sfumato.studio.source import DataSource
from sfumato.studio.texts import say
from sfumato.studio.view import get_environment, read_body

if TYPE_CHECKING:
    from sfumato.studio.server import Studio

_COHORT = 20_000


def list_start_routes(studio: Studio) -> list[Route]:
    """The routes of the first page."""
    return [
        Route("/", _bind(show, studio)),
        Route("/begin/{kind}", _bind(begin, studio), methods=["POST"]),
        Route("/remove/{session}", _bind(remove, studio), methods=["POST"]),
    ]


def _bind(
    function: Callable[[Studio, Request], Awaitable[Response]], studio: Studio
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await function(studio, request)

    return endpoint


async def show(studio: Studio, request: Request) -> Response:
    """Sessions, the newest first, and ways to begin one."""
    user: User = request.state.user
    seen = [(item, studio.recognise(user, item)) for item in studio.sessions.list()]
    sessions = [(item, studio.choose_first_page(there)) for item, there in seen if there]
    page = get_environment().get_template("start.html")
    return HTMLResponse(
        page.render(
            root=studio.settings.prefix,
            user=user,
            sessions=sessions,
            page="start",
        )
    )


async def begin(studio: Studio, request: Request) -> Response:
    """A new session: empty, or with invented data."""
    user: User = request.state.user
    kind = request.path_params["kind"]
    if await read_body(request) is None or (user.role != "custodian" and kind != "empty"):
        return refuse(HTTPStatus.FORBIDDEN, "Only a custodian opens data.")
    # Inventing people takes a second, and other pages must not wait for it.
    session = await asyncio.to_thread(begin_session, studio, kind, owner=user.name)
    first = studio.choose_first_page(user)
    address = f"{studio.settings.prefix}/sessions/{session.id}/{first}"
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)


def begin_session(studio: Studio, kind: str, *, owner: str) -> Session:
    """A session of one kind: "demo" and "hospital" bring invented data."""
    session = studio.sessions.create(owner=owner, title=say("start.untitled"))
    folder = session.folder / INVENTED
    if kind == "demo":
        from sfumato.datasets import cohort

        file = folder / "cohort.csv"
        cohort(_COHORT).write_csv(file)
        file.chmod(PRIVATE)
        title = say("start.demo.title")
        source = DataSource(where=str(file), title=title)
    elif kind == "hospital":
        from sfumato.datasets import hospital

        for name, table in hospital().items():
            file = folder / f"{name}.csv"
            table.write_csv(file)
            file.chmod(PRIVATE)
        title = say("start.hospital.title")
        source = DataSource(where=str(folder), title=title, linked=True)
    else:
        return session
    session.title = title
    session.change(say("start.opened"), by=owner, source=source)
    return session


def open_file(studio: Studio, file: Path, *, owner: str) -> Session:
    """A session with a file or a folder that was named at the command line."""
    if not file.exists():
        raise DataError(f"there is no file '{file}'.", hint="check the name and the folder.")
    session = studio.sessions.create(owner=owner, title=file.name)
    source = DataSource(where=str(file.resolve()), title=file.name, linked=file.is_dir())
    session.change(say("start.opened"), by=owner, source=source)
    return session


async def remove(studio: Studio, request: Request) -> Response:
    """Remove a session with everything in it."""
    user: User = request.state.user
    session = studio.sessions.get(request.path_params["session"])
    if session is not None and user.name == session.owner and await read_body(request) is not None:
        await studio.get_worker(session).close()
        studio.sessions.remove(session)
    return RedirectResponse(f"{studio.settings.prefix}/", HTTPStatus.SEE_OTHER)
