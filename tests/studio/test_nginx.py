"""The proxy of the docs: the text of the page is run with nginx, on the loopback address."""

from __future__ import annotations

import base64
import getpass
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPResponse, HTTPSConnection
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.studio.test_team import HOST, SECRET, find_free_port, start_team
from tests.studio.visitor import RunningStudio, stop_studio
from tests.waiting import PATIENCE, wait_until

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "studio-for-a-team.md"
PASSWORDS = {"ada": "correct horse", "bob": "battery staple", "mallory": "known to nginx only"}


@dataclass
class Proxied:
    """A studio behind nginx."""

    studio: RunningStudio
    port: int
    log: Path

    def send(
        self,
        method: str,
        path: str,
        user: str = "",
        password: str = "",
        body: str = "",
        **more: str,
    ) -> tuple[HTTPResponse, bytes]:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = HTTPSConnection("127.0.0.1", self.port, context=context, timeout=PATIENCE)
        headers = {"Host": HOST, **more}
        if user:
            login = base64.b64encode(f"{user}:{password or PASSWORDS[user]}".encode()).decode()
            headers["Authorization"] = f"Basic {login}"
        if method == "POST":
            headers.setdefault("Origin", f"https://{HOST}")
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        with closing(connection):
            connection.request(method, path, body=body or None, headers=headers)
            answer = connection.getresponse()
            # The stream of events never ends: its first line is enough.
            endless = answer.getheader("Content-Type", "").startswith("text/event-stream")
            with answer:
                return answer, answer.readline() if endless else answer.read()


def find_nginx() -> str:
    nginx = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if nginx is None:
        if os.environ.get("SFUMATO_NOTHING_SKIPPED"):
            pytest.fail("nginx is not installed, and nothing may be skipped here")
        pytest.skip("nginx is not installed")
    return nginx


def write_configuration(folder: Path, studio: RunningStudio, port: int) -> Path:
    """The text of the docs, with paths, ports and the secret of this test and nothing else."""
    found = re.search(r"```nginx\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    text = found[1]
    for old, new in {
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "/etc/ssl/studio.pem": str(folder / "studio.pem"),
        "/etc/ssl/studio.key": str(folder / "studio.key"),
        "/etc/nginx/studio.htpasswd": str(folder / "passwords"),
        "http://127.0.0.1:8765": f"http://{studio.host}",
        "the secret": SECRET,
    }.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    places = "".join(
        f"{name}_temp_path {folder / name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / "nginx.conf"
    # Its workers read the passwords in a folder of ours, so they are who we are.
    user = f"user {getpass.getuser()};\n" if os.geteuid() == 0 else ""
    file.write_text(
        f"{user}pid {folder / 'pid'};\nerror_log {folder / 'errors'};\ndaemon off;\n"
        f"events {{}}\nhttp {{\naccess_log {folder / 'log'};\n{places}{text}}}\n"
    )
    return file


@pytest.fixture(scope="module")
def proxied(tmp_path_factory) -> Iterator[Proxied]:
    nginx = find_nginx()
    folder = tmp_path_factory.mktemp("nginx")
    lines = []
    for name, word in PASSWORDS.items():
        run = subprocess.run(["openssl", "passwd", "-apr1", "-stdin"], input=word, text=True,
                             capture_output=True, check=True)  # fmt: skip
        lines.append(f"{name}:{run.stdout}")
    (folder / "passwords").write_text("".join(lines))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={HOST}",
                    "-keyout", str(folder / "studio.key"), "-out", str(folder / "studio.pem")],
                   check=True, capture_output=True)  # fmt: skip
    studio = start_team(tmp_path_factory.mktemp("team"))
    port = find_free_port()
    file = write_configuration(folder, studio, port)
    process = subprocess.Popen([nginx, "-c", str(file), "-p", str(folder)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:

        def is_open() -> bool:
            assert process.poll() is None, (folder / "errors").read_text()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_until(is_open, "nginx")
        yield Proxied(studio, port, folder / "log")
    finally:
        process.terminate()
        process.wait(PATIENCE)
        stop_studio(studio)


def test_nginx_asks_who_it_is_and_the_studio_what_they_may(proxied):
    assert proxied.send("GET", "/")[0].status == 401
    assert proxied.send("GET", "/", "ada", "wrong")[0].status == 401
    answer, body = proxied.send("GET", "/", "ada")
    assert answer.status == 200
    assert b"/begin/demo" in body
    # Whom nginx knows and the team does not is nobody.
    assert proxied.send("GET", "/", "mallory")[0].status == 403


def test_nobody_passes_for_somebody_else(proxied):
    forged = {"X-Forwarded-User": "ada", "X-Sfumato-Proxy": SECRET}
    assert proxied.send("GET", "/", **forged)[0].status == 401
    assert proxied.send("GET", "/", "mallory", **forged)[0].status == 403
    _, body = proxied.send("GET", "/", "bob", **forged)
    assert b"/begin/demo" not in body  # still the checker, not the custodian


def test_the_whole_way_through_the_proxy(proxied):
    answer, _ = proxied.send("POST", "/begin/empty", "ada")
    assert answer.status == 303
    session = str(answer.getheader("Location")).rpartition("/")[0]
    assert session.startswith("/sessions/")
    # From another site it is refused, also with the right password.
    answer, _ = proxied.send("POST", "/begin/empty", "ada", Origin="https://evil.example")
    assert answer.status == 403
    content = "id,age\n" + "".join(f"{number},{20 + number % 60}\n" for number in range(5000))
    query = urlencode({"name": "people.csv", "number": 0, "of": 1, "batch": "a" * 16})
    answer, body = proxied.send("POST", f"{session}/data/upload?{query}", "ada", body=content)
    assert answer.status in (200, 303), body
    wait_until(
        lambda: b"5,000" in proxied.send("GET", f"{session}/data", "ada")[1],
        "the 5,000 records on the page Data",
    )
    # What happens is told as it happens: a line comes although the answer never ends.
    events, line = proxied.send("GET", f"{session}/events", "ada")
    assert events.status == 200
    assert line.startswith(b"event: job")
    assert proxied.send("GET", f"{session}/data", "bob")[0].status == 404
    assert proxied.send("GET", f"{session}/release", "bob")[0].status == 200
    for word in PASSWORDS.values():
        assert word not in proxied.log.read_text()
        assert not [path for path in proxied.studio.folder.rglob("*")
                    if path.is_file() and word.encode() in path.read_bytes()]  # fmt: skip
