"""The studio: the whole job in a browser."""

from __future__ import annotations

import os
import socket
import threading
import tomllib
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from sfumato.cli import options
from sfumato.cli.console import say, show_json
from sfumato.errors import PlanError

if TYPE_CHECKING:
    from sfumato.studio.security import Door, Proxy, Settings

_GIGABYTE = 10**9
_PORTS = 20
"""Further ports that are tried when the first is taken."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: sfumato studio cohort.csv")(studio)


def studio(
    file: Annotated[
        Path | None,
        typer.Argument(help="A file or folder to open. Default: choose in the browser."),
    ] = None,
    folder: Annotated[
        list[Path] | None,
        typer.Option(help="Files below this folder may be opened; repeatable. Default: here."),
    ] = None,
    sessions: Annotated[
        Path | None,
        typer.Option(help="Where sessions are kept. Default: $SFUMATO_STUDIO, else yours."),
    ] = None,
    port: Annotated[int, typer.Option(help="Where to listen; the next free one.", min=1)] = 8765,
    listen: Annotated[
        str, typer.Option(help="The address to listen to; 0.0.0.0 in a container, and only there.")
    ] = "127.0.0.1",
    most_upload: Annotated[
        float, typer.Option(help="Gigabytes that an upload may have.", min=0.001)
    ] = 16.0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
    behind_proxy: Annotated[
        Path | None,
        typer.Option(help="For a team: a TOML file with hosts, users and the proxy's secret."),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Do the whole job in a browser on this machine: look, decide, protect, compare, release.

    Only this machine can reach it, and only with the address that is printed, which works once.
    Press Enter for a new address, Ctrl-C to stop. Nothing is lost: sessions are kept.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise PlanError(
            "The studio needs a web server that is not installed.",
            hint="in your copy of Sfumato: pip install '.[studio]'.",
        ) from None
    from sfumato.studio.security import YOU, Door, Settings
    from sfumato.studio.server import create_app
    from sfumato.studio.session import hold_sessions
    from sfumato.studio.start import open_file

    proxy = None if behind_proxy is None else read_proxy(behind_proxy)
    listener = _listen(listen, port, search=proxy is None)
    settings = Settings(
        folder=sessions or find_sessions(),
        roots=tuple(path.resolve() for path in folder or [Path.cwd()])
        + (() if file is None else (file.resolve().parent,)),
        port=listener.getsockname()[1],
        most_upload=int(most_upload * _GIGABYTE),
        proxy=proxy,
        **({} if proxy is None else {"prefix": ""}),
    )
    with hold_sessions(settings.folder):
        door = Door()
        app = create_app(settings, door)
        opened = None if file is None else open_file(app.state.studio, file, owner=YOU)
        if proxy is not None:
            where = f"http://127.0.0.1:{settings.port}"
            if json:
                show_json({"address": where, "folder": str(settings.folder)})
            elif not quiet:
                say(f"The proxy reaches the studio at {where}; nobody else should.")
        else:
            path = "/" if opened is None else f"/sessions/{opened.id}/data"
            address = _make_address(settings, door, path)
            _show_address(address, settings, as_json=json, quiet=quiet)
            if not no_browser and not json:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
            threading.Thread(target=_offer_addresses, args=(settings, door), daemon=True).start()
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="critical", access_log=False, server_header=False,
                           timeout_graceful_shutdown=3, lifespan="on")
        )  # fmt: skip
        server.run(sockets=[listener])


def find_sessions() -> Path:
    """Where sessions are kept: one's own data folder."""
    if "SFUMATO_STUDIO" in os.environ:
        return Path(os.environ["SFUMATO_STUDIO"])
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "sfumato" / "studio"


def read_proxy(path: Path) -> Proxy:
    """The settings of a studio for a team."""
    from sfumato.studio.security import Proxy, read_secret

    try:
        raw: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        return Proxy(
            hosts=tuple(raw["hosts"]),
            secret=read_secret(Path(path.parent, raw["secret_file"])),
            header=raw.get("header", "X-Forwarded-User"),
            users=_require_roles(raw["users"]),
            custodians_approve=_require_switch(raw.get("custodians_approve", False)),
        )
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError, AttributeError):
        raise PlanError(
            f"'{path}' does not say how the studio is run behind a proxy.",
            hint='it has hosts = ["studio.example.org"], secret_file = "secret" and '
            "[users] with a role for each (custodian, checker or analyst), such as "
            'ada = "custodian"; custodians_approve is true or false.',
        ) from None


def _require_roles(users: dict[str, Any]) -> dict[str, Any]:
    from sfumato.studio.security import Role

    if unknown := {role for role in users.values() if role not in get_args(Role)}:
        raise ValueError(unknown)
    return users


def _require_switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _listen(address: str, port: int, *, search: bool) -> socket.socket:
    """A socket on an address of this machine; the next free port where this one is taken."""
    for number in range(port, port + (_PORTS if search else 1)):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, number))
        except OSError:
            listener.close()
            continue
        listener.listen(128)  # a browser that is faster than the server waits
        return listener
    raise PlanError(f"Port {port} is taken.", hint="choose another: --port 8800.")


def _make_address(settings: Settings, door: Door, path: str = "/") -> str:
    return f"http://127.0.0.1:{settings.port}/?token={door.issue_token(path)}"


def _show_address(address: str, settings: Settings, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        show_json({"address": address, "folder": str(settings.folder)})
        return
    say(f"Open in your browser:  {address}")
    if not quiet:
        say("The address works once. Press Enter for a new one, Ctrl-C to stop.")


def _offer_addresses(settings: Settings, door: Door) -> None:
    """Print a new address whenever somebody presses Enter."""
    while True:
        try:
            input()
        except (EOFError, OSError):
            return
        say(f"Open in your browser:  {_make_address(settings, door)}")
