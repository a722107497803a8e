"""Who may ask the studio for anything: checked before any page is looked up.

On one's own machine the door is a one-time token in the address, which becomes a cookie. A page of
another site in the same browser can neither read from here (no CORS, foreign `Host` refused, so
that no name can be rebound to the loopback address) nor write (foreign `Origin` refused, cookie
never sent across sites). The cookie is bound to a path that nobody can guess, since browsers send a
cookie to every port of a host: a program of another user on this machine never gets to see it.

For a team, a proxy in front says who the user is, in a header, and proves with a secret that it is
the proxy.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.errors import PlanError
from sfumato.studio.paths import OpenFolders

Role = Literal["custodian", "checker", "analyst"]
YOU = "you"
"""The only user on one's own machine."""
_SAFE = ("GET", "HEAD")
SHORTEST_SECRET = 32
"""Characters that the proxy's secret has at least: 16 random bytes, written in hexadecimal."""
_PROVES = "X-Sfumato-Proxy"
"""The header in which the proxy sends its secret."""
LONGEST_FORM = 4 << 20
"""Bytes that a form may have. Uploads have a limit of their own."""
_RATE, _BURST = 100.0, 400.0
"""Requests a second that one user may send in the long run, and at once."""
_TRIES = 20.0
"""Wrong tokens that are looked at before it takes ever longer."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""Nothing from anywhere else, nothing inline."""
DOCUMENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
"""Of reports and figures that were written as files of their own: style within, no script."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class User:
    """Who asks, and what they may do."""

    name: str
    role: Role


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A proxy in front of the studio that says who the user is.

    Parameters
    ----------
    hosts : the names under which the proxy is reached.
    secret : what it sends in the header `X-Sfumato-Proxy`, so that nobody else can pass for it.
    header : the header in which it names the user.
    users : what each of them may do; whoever is not listed may nothing.
    custodians_approve : whether a custodian may check the work of another, as a checker does.
    """

    hosts: tuple[str, ...]
    secret: str = field(repr=False)
    header: str = "X-Forwarded-User"
    users: Mapping[str, Role] = field(default_factory=dict)
    custodians_approve: bool = False

    def __post_init__(self) -> None:
        if len(self.secret) < SHORTEST_SECRET:
            raise PlanError(
                f"The proxy's secret has fewer than {SHORTEST_SECRET} characters.",
                hint="make one: head -c 32 /dev/urandom | base64 > secret",
            )
        if "" in self.users:
            # A request without the header would be theirs.
            raise PlanError("A user of the studio has no name.", hint="name each under [users].")


def read_secret(path: Path) -> str:
    """The proxy's secret, from a file that not everybody on this machine can read."""
    with path.open(encoding="utf-8") as file:
        if os.fstat(file.fileno()).st_mode & stat.S_IRWXO:
            raise PlanError(
                f"Everybody on this machine can read or change the proxy's secret, '{path}'.",
                hint=f"chmod 600 '{path}', and make a new secret: this one may be known.",
            )
        return file.read().strip()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the studio is run.

    Parameters
    ----------
    folder : where sessions are kept; private to its owner.
    roots : the folders below which files may be opened and releases written.
    host, port : where it listens: the loopback address unless a proxy stands in front.
    most_upload : bytes that an upload may have.
    prefix : a path before all addresses that nobody can guess; none behind a proxy.
    proxy : who stands in front; None on one's own machine.
    """

    folder: Path
    roots: tuple[Path, ...]
    host: str = "127.0.0.1"
    port: int = 8765
    most_upload: int = 16 * 10**9
    prefix: str = field(default_factory=lambda: f"/{secrets.token_hex(8)}")
    proxy: Proxy | None = None

    def __post_init__(self) -> None:
        if not self.places.allowed:
            raise PlanError(
                "The folder of the sessions holds every folder that files are opened from.",
                hint="keep sessions elsewhere: --sessions FOLDER.",
            )

    @property
    def places(self) -> OpenFolders:
        """What may be opened and written: never what belongs to a session."""
        return OpenFolders(self.roots, closed=self.folder)

    @property
    def hosts(self) -> frozenset[str]:
        """What the header `Host` may say."""
        if self.proxy is not None:
            return frozenset(self.proxy.hosts)
        return frozenset(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))


class Door:
    """Tokens that open the door once, and cookies that keep it open."""

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}
        self._cookies: set[str] = set()
        self._tries = Bucket(rate=1.0, burst=_TRIES)

    def issue_token(self, path: str = "/") -> str:
        """A token that opens one page; the ones before it no longer open anything."""
        token = secrets.token_urlsafe(24)
        self._tokens = {token: path}
        return token

    def redeem(self, token: str) -> tuple[str, str] | None:
        """The cookie for a token, and the page it opens; None for a wrong one. It works once."""
        sent = token.encode()
        match = next((t for t in self._tokens if hmac.compare_digest(t.encode(), sent)), None)
        if match is None:
            self._tries.take()
            return None
        cookie = secrets.token_urlsafe(32)
        self._cookies.add(cookie)
        return cookie, self._tokens.pop(match)

    def is_open(self, cookie: str | None) -> bool:
        """Whether a cookie came from here."""
        return cookie is not None and any(
            hmac.compare_digest(known.encode(), cookie.encode()) for known in self._cookies
        )

    @property
    def is_besieged(self) -> bool:
        """Whether so many wrong tokens were tried that no more are looked at for a while."""
        return self._tries.is_empty


class Bucket:
    """A limit on how often: so many at once, and so many a second in the long run."""

    def __init__(self, *, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._level, self._filled = burst, time.monotonic()

    def take(self) -> bool:
        """Take one; False where there is none left."""
        self._fill()
        if self._level < 1:
            return False
        self._level -= 1
        return True

    @property
    def is_empty(self) -> bool:
        """Whether there is none left at the moment."""
        self._fill()
        return self._level < 1

    def _fill(self) -> None:
        now = time.monotonic()
        self._level = min(self._burst, self._level + (now - self._filled) * self._rate)
        self._filled = now


class Guard:
    """Stands before the application and refuses who has no business here."""

    def __init__(self, app: ASGIApp, *, settings: Settings, door: Door) -> None:
        self._app = app
        self._settings = settings
        self._door = door
        self._cookie = f"sfumato_{settings.port}"
        self._buckets: defaultdict[str, Bucket] = defaultdict(
            lambda: Bucket(rate=_RATE, burst=_BURST)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there is no web socket here
            return
        request = Request(scope, receive)
        answer = self._examine(request)
        if answer is None:
            await self._app(scope, receive, _add_headers(send))
        else:
            await answer(scope, receive, _add_headers(send))

    def _examine(self, request: Request) -> Response | None:
        """The refusal, the answer to a token, or None where the request may pass."""
        settings = self._settings
        if (strange := self._refuse_strange(request)) is not None:
            return strange
        if not request.url.path.startswith(f"{settings.prefix}/"):
            return self._open(request)
        user = self._recognise(request)
        if user is None:
            return refuse(HTTPStatus.FORBIDDEN, *_CLOSED[settings.proxy is not None])
        if not self._buckets[user.name].take():
            return refuse(HTTPStatus.TOO_MANY_REQUESTS, "Too many requests at once. Wait a second.")
        request.scope["state"] = {**request.scope.get("state", {}), "user": user}
        return None

    def _is_from_here(self, request: Request) -> bool:
        """Whether our own page sent it, or a person typed the address."""
        scheme = "http" if self._settings.proxy is None else "https"
        origin = request.headers.get("origin")
        if request.method in _SAFE:
            # A link in an e-mail is no reason to show anything but the door.
            site = request.headers.get("sec-fetch-site", "same-origin")
            outside = not request.url.path.startswith(f"{self._settings.prefix}/")
            return site in ("same-origin", "none") or (outside and request.method == "GET")
        allowed = {f"{scheme}://{host}" for host in self._settings.hosts}
        return origin in allowed and origin == f"{scheme}://{request.headers['host']}"

    def _open(self, request: Request) -> Response:
        """Turn a token into a cookie."""
        if self._settings.proxy is not None:
            return refuse(HTTPStatus.NOT_FOUND, "There is nothing at this address.")
        if self._door.is_besieged:
            return refuse(HTTPStatus.TOO_MANY_REQUESTS, "Too many wrong links were tried. Wait.")
        redeemed = self._door.redeem(request.query_params.get("token", ""))
        if redeemed is None:
            return refuse(HTTPStatus.FORBIDDEN, *_CLOSED[False])
        cookie, path = redeemed
        answer = RedirectResponse(f"{self._settings.prefix}{path}", HTTPStatus.SEE_OTHER)
        answer.set_cookie(
            self._cookie, cookie, httponly=True, samesite="strict", path=self._settings.prefix
        )
        return answer

    def _refuse_strange(self, request: Request) -> Response | None:
        """The refusal of what no page of ours sent, before anybody asks who sent it."""
        if request.headers.get("host", "") not in self._settings.hosts:
            return refuse(HTTPStatus.FORBIDDEN, "This address is not served here.")
        if not self._is_from_here(request):
            return refuse(HTTPStatus.FORBIDDEN, "Another site sent this request.")
        return refuse(HTTPStatus.BAD_REQUEST, *_DOUBLED) if self._is_doubled(request) else None

    def _is_doubled(self, request: Request) -> bool:
        """Whether what only the proxy says is said twice: one of the two may be the browser's.

        A proxy that adds its header to those of the browser, instead of putting it in their place,
        would let anybody choose who they are.
        """
        proxy = self._settings.proxy
        told = () if proxy is None else (proxy.header, _PROVES)
        return any(len(request.headers.getlist(name)) > 1 for name in told)

    def _recognise(self, request: Request) -> User | None:
        proxy = self._settings.proxy
        if proxy is None:
            open_door = self._door.is_open(request.cookies.get(self._cookie))
            return User(YOU, "custodian") if open_door else None
        sent = request.headers.get(_PROVES, "")
        if not hmac.compare_digest(sent.encode(), proxy.secret.encode()):
            return None
        name = request.headers.get(proxy.header, "")
        return User(name, proxy.users[name]) if name in proxy.users else None


_CLOSED: Mapping[bool, tuple[str, str]] = {
    False: (
        "This link no longer opens the studio.",
        "Press Enter in the terminal where the studio runs: it shows a new link.",
    ),
    True: (
        "You are not on the list of users.",
        "Ask the person who runs the studio for a role.",
    ),
}


_DOUBLED = (
    "This request says twice who sent it.",
    "The proxy must put its own headers in the place of those that browsers send, not add them.",
)


def refuse(status: HTTPStatus, what: str, hint: str = "") -> HTMLResponse:
    """A short page that says why not, and quotes nothing of the request."""
    text = (
        f"<!doctype html><html lang='en'><title>Sfumato</title><h1>{what}</h1><p>{hint}</p></html>"
    )
    return HTMLResponse(text, status)


def _add_headers(send: Send) -> Send:
    """Answers with the headers that lock a page up, unless a page has set its own."""

    async def send_locked(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_locked


def require_small(headers: Headers, most: int = LONGEST_FORM) -> bool:
    """Whether a request says that it is no longer than it may be."""
    length: Any = headers.get("content-length", "")
    return length.isdigit() and int(length) <= most
