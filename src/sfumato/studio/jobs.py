"""Jobs: what a worker process was asked for, how far it is, and what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sfumato.studio.source import DataSource
from sfumato.studio.tasks import list_tasks

State = Literal["waiting", "running", "done", "failed", "cancelled"]
_LONGEST_LINE = 1 << 28
"""Bytes of an answer: figures and tables of many variables are long."""
_PATIENCE_SECONDS = 3.0
"""How long a job may take to stop by itself before its process is ended."""
_SURE = 0.02
"""The share that must be done before the time left is guessed from it."""
_DIED = {
    "what": "The process that worked on this ended before it was done.",
    "hint": "your data, plan and results are safe. If memory ran out, close other programs or "
    "leave out variables, and try again.",
    "kind": "died",
}


@dataclass(eq=False)
class Job:
    """One question to the worker process.

    Parameters
    ----------
    task : its name.
    key : what the answer depends on; equal questions have equal keys.
    parameters : plain values.
    once : whether the answer goes to one page and is then forgotten.
    """

    task: str
    key: str
    parameters: Mapping[str, Any]
    once: bool = False
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    state: State = "waiting"
    what: str = ""
    done: int = 0
    total: int = 0
    started: float = field(default_factory=time.monotonic)
    result: Any = None
    failure: Mapping[str, str] | None = None
    warnings: tuple[str, ...] = ()
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def open(self) -> bool:
        """Whether it is still to be answered."""
        return self.state in ("waiting", "running")

    @property
    def share(self) -> float | None:
        """How much of what is being done now is done; None where nobody knows."""
        return min(1.0, self.done / self.total) if self.total else None

    def estimate_seconds_left(self) -> float | None:
        """How long it may still take, at the pace so far; None where that cannot be told."""
        if self.share is None or self.share < _SURE or self.share >= 1:
            return None
        return (time.monotonic() - self.started) * (1 - self.share) / self.share

    def plain(self) -> dict[str, Any]:
        """As the page's script reads it."""
        return {
            "job": self.id,
            "task": self.task,
            "state": self.state,
            "what": self.what,
            "share": self.share,
            "seconds_left": self.estimate_seconds_left(),
            "seconds": time.monotonic() - self.started,
        }


class WorkerHandle:
    """The server's end of a worker process: it is started when something is asked of it.

    Parameters
    ----------
    folder : the private folder of the session.
    tell : called with a job whenever something about it has changed.
    """

    def __init__(self, folder: Path, tell: Callable[[Job], None]) -> None:
        self._folder = folder
        self._tell = tell
        self._process: asyncio.subprocess.Process | None = None
        self._listener: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self.jobs: dict[str, Job] = {}
        self.used = time.monotonic()

    @property
    def busy(self) -> bool:
        """Whether something is being worked on."""
        return any(job.open for job in self.jobs.values())

    @property
    def process_id(self) -> int | None:
        """Of the process, where one runs."""
        return None if self._process is None else self._process.pid

    async def ask(self, job: Job, source: DataSource, plan: str) -> Job:
        """Hand a job to the process; an equal one that is open already is the same job."""
        self.used = time.monotonic()
        for other in self.jobs.values():
            if other.open and other.key == job.key:
                return other
        self.jobs[job.id] = job
        self._forget_old()
        request = {"job": job.id, "task": job.task, "parameters": job.parameters,
                   "source": source.plain(), "plan": plan}  # fmt: skip
        await self._send(request)
        self._tell(job)
        return job

    async def cancel(self, job: Job) -> None:
        """Stop a job at its next report; if it does not report soon, end its process."""
        if not job.open:
            return
        await self._send({"cancel": job.id})
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(job.ended.wait(), _PATIENCE_SECONDS)
        if job.open:
            self._end(job, "cancelled")
            await self.close()

    async def close(self) -> None:
        """End the process. What it was working on is over; the session is not."""
        process, self._process = self._process, None
        if process is not None:
            # It removes what is half-written when its input ends; what is stuck is killed.
            if process.stdin is not None:
                process.stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _PATIENCE_SECONDS)
            if process.returncode is None:
                process.kill()
                await process.wait()
        if self._listener is not None:
            await self._listener
            self._listener = None

    async def _send(self, request: Mapping[str, Any]) -> None:
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                await self._start()
        process = self._process
        assert process is not None  # noqa: S101 - just started
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        # A process that has just died is noticed by who listens to it.
        with contextlib.suppress(ConnectionError):
            process.stdin.write(f"{json.dumps(request, default=str)}\n".encode())
            await process.stdin.drain()

    async def _start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "sfumato.studio.worker",
            str(self._folder),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
        )
        self._listener = asyncio.create_task(self._listen(self._process))

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        while line := await process.stdout.readline():
            self._hear(json.loads(line))
        await process.wait()
        for job in list(self.jobs.values()):
            if job.open:
                job.failure = _DIED
                self._end(job, "failed")
        if self._process is process:
            self._process = None

    def _hear(self, answer: Mapping[str, Any]) -> None:
        job = self.jobs.get(answer["job"])
        if job is None or not job.open:
            return
        if "progress" in answer:
            job.state = "running"
            what, job.done, job.total = answer["progress"]
            if what != job.what:
                # The pace of what is done now, not of what was done before.
                job.what, job.started = what, time.monotonic()
            self._tell(job)
            return
        job.warnings = tuple(answer.get("warnings", ()))
        job.result, job.failure = answer.get("result"), answer.get("failure")
        ended: State = "cancelled" if "cancelled" in answer else "failed" if job.failure else "done"
        self._end(job, ended)

    def _end(self, job: Job, state: State) -> None:
        job.state = state
        job.ended.set()
        self._tell(job)

    def _forget_old(self) -> None:
        closed = [job for job in self.jobs.values() if not job.open]
        for job in closed[:-50]:
            del self.jobs[job.id]


def get_lane(job: Job) -> str:
    """Where the job is worked off."""
    return list_tasks()[job.task].lane
