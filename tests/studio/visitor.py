"""A studio in a process of its own, as people start it, and a client that speaks to it."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.waiting import PATIENCE, wait_until


def run_apart(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns, in a thread: a browser that is open has the loop of this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


@dataclass
class Answer:
    """What the server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def location(self) -> str:
        return self.headers.get("location", "")


@dataclass
class RunningStudio:
    """A studio that runs, and a visitor who has its cookie."""

    process: subprocess.Popen[str]
    address: str
    folder: Path
    root: Path
    ledger: Path
    cookie: str = ""
    prefix: str = ""
    said: list[str] = field(default_factory=list)
    listener: threading.Thread = field(default_factory=threading.Thread)

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        cookie: bool = True,
    ) -> Answer:
        """One request; redirects are not followed."""
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        sent = {"Host": self.host, **({"Cookie": self.cookie} if cookie and self.cookie else {})}
        if method != "GET":
            sent |= {"Origin": f"http://{self.host}",
                     "Content-Type": "application/x-www-form-urlencoded"}  # fmt: skip
        sent |= dict(headers or {})
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        content = body.encode() if isinstance(body, str) else body
        if content is not None and not hasattr(content, "__next__"):
            sent.setdefault("Content-Length", str(len(content)))
        elif method == "POST" and content is None:
            sent.setdefault("Content-Length", "0")
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(content, encode_chunked=hasattr(content, "__next__"))
        response = connection.getresponse()
        read = Answer(
            response.status,
            {name.lower(): value for name, value in response.getheaders()},
            response.read(),
        )
        connection.close()
        return read

    def get(self, path: str, **options: Any) -> Answer:
        return self.send("GET", f"{self.prefix}{path}", **options)

    def post(self, path: str, fields: Mapping[str, Any] | None = None, **options: Any) -> Answer:
        body = urlencode(fields or {}, doseq=True)
        return self.send("POST", f"{self.prefix}{path}", body=body, **options)

    def enter(self) -> None:
        """Redeem the token of the address for a cookie."""
        parts = urlsplit(self.address)
        answer = self.send("GET", f"{parts.path}?{parts.query}")
        assert answer.status == 303, answer.text
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        self.prefix = re.match(r"/\w+", answer.location)[0]  # type: ignore[index]

    def begin(self, kind: str = "demo") -> str:
        """A new session; its path below the prefix."""
        answer = self.post(f"/begin/{kind}")
        assert answer.status == 303, answer.text
        return answer.location.removeprefix(self.prefix).rpartition("/")[0]

    def new_address(self) -> str:
        """Press Enter in the terminal: a further address, for the browser."""
        assert self.process.stdin is not None
        before = len(self.said)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        wait_until(lambda: len(self.said) > before, "a new address", every=0.05)
        return re.search(r"http\S+", self.said[-1])[0]  # type: ignore[index]


def start_studio(folder: Path, root: Path, *arguments: str, **environment: str) -> RunningStudio:
    """Start `sfumato studio` as people do, with a ledger of its own."""
    ledger = folder.with_name(f"{folder.name}-ledger")
    process = subprocess.Popen(
        [sys.executable, "-m", "sfumato", "studio", "--no-browser", "--json",
         "--folder", str(root), "--sessions", str(folder), *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "COLUMNS": "200", "PYTHONUNBUFFERED": "",  # as people start it
             "SFUMATO_LEDGER": str(ledger), **environment},
    )  # fmt: skip
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or lines[-1] != "}\n":
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr and process.stderr.read()
    running = RunningStudio(process, json.loads("".join(lines))["address"], folder, root, ledger)
    running.listener = threading.Thread(target=_listen, args=(running,), daemon=True)
    running.listener.start()
    return running


def _listen(running: RunningStudio) -> None:
    assert running.process.stderr is not None
    running.said.extend(iter(running.process.stderr.readline, ""))


def stop_studio(running: RunningStudio) -> None:
    running.process.send_signal(signal.SIGINT)
    try:
        running.process.wait(60)
    except subprocess.TimeoutExpired:
        running.process.kill()
        running.process.wait()
    running.listener.join(60)
    for pipe in (running.process.stdin, running.process.stdout, running.process.stderr):
        if pipe is not None:
            pipe.close()
