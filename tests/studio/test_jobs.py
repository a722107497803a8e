"""Work is done elsewhere: a process that dies is reported, and the next question starts another."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from tests.studio.visitor import run_apart
from tests.waiting import PATIENCE

import sfumato as sf
from sfumato.studio.jobs import Job, WorkerHandle
from sfumato.studio.security import Settings
from sfumato.studio.server import Studio
from sfumato.studio.session import Sessions
from sfumato.studio.source import DataSource
from sfumato.studio.tasks import list_tasks
from sfumato.studio.texts import load_texts


@pytest.fixture
def source(tmp_path) -> DataSource:
    file = tmp_path / "cohort.csv"
    sf.datasets.cohort(200).write_csv(file)
    return DataSource(where=str(file), title="cohort.csv")


def ask(folder, source, *, kill: bool) -> tuple[Job, list[str]]:
    """A preview, by a process that is killed first or not."""
    heard: list[str] = []

    async def work() -> Job:
        worker = WorkerHandle(folder, lambda job: heard.append(job.state))
        try:
            if kill:
                job = await worker.ask(Job("preview", "a", {"rows": 1}), source, "")
                assert worker.process_id is not None
                os.kill(worker.process_id, signal.SIGKILL)
                await asyncio.wait_for(job.ended.wait(), PATIENCE)
                assert job.state == "failed"
                assert job.failure is not None
                assert "are safe" in job.failure["hint"]
            job = await worker.ask(Job("preview", "b", {"rows": 3}), source, "")
            same = await worker.ask(Job("preview", "b", {"rows": 3}), source, "")
            assert same is job
            await asyncio.wait_for(job.ended.wait(), PATIENCE)
            return job
        finally:
            await worker.close()

    return run_apart(work()), heard


@pytest.mark.parametrize("kill", [False, True])
def test_a_question_is_answered_even_after_a_crash(tmp_path, source, kill):
    folder = Sessions(tmp_path / "sessions").create(owner="ada").folder
    job, heard = ask(folder, source, kill=kill)
    assert job.state == "done"
    assert job.result["records"] == 200
    assert len(job.result["cells"]) == 3
    assert heard[-1] == "done"
    assert ("failed" in heard) == kill


def test_a_failure_says_what_and_quotes_nothing(tmp_path, source):
    (tmp_path / "cohort.csv").write_bytes(b"")
    folder = Sessions(tmp_path / "sessions").create(owner="ada").folder
    job, _ = ask(folder, source, kill=False)
    assert job.state == "failed"
    assert job.failure is not None
    assert job.failure["kind"] == "DataError"


def test_the_time_left_follows_from_the_pace():
    job = Job("preview", "key", {})
    assert job.estimate_seconds_left() is None
    job.done, job.total = 1, 4
    job.started -= 10
    left = job.estimate_seconds_left()
    assert left is not None
    assert 29 < left < 32
    job.done = 4
    assert job.estimate_seconds_left() is None


def test_every_task_has_a_name_for_people():
    texts = load_texts()
    assert [name for name in list_tasks() if f"tasks.{name}" not in texts] == []


def test_what_shows_records_goes_to_one_page_and_is_then_forgotten(tmp_path, source):
    """However long it takes: the page that waits gets it when it looks again."""

    async def work() -> None:
        studio = Studio(Settings(folder=tmp_path / "sessions", roots=(tmp_path,)))
        session = studio.sessions.create(owner="ada")
        session.change("opened", by="ada", source=source)
        try:
            first = await studio.ask(session, "preview", {"rows": 2}, soon=0)
            assert first.waiting
            assert first.job is not None
            await asyncio.wait_for(first.job.ended.wait(), PATIENCE)
            second = await studio.ask(session, "preview", {"rows": 2}, soon=0)
            assert second.ready
            assert len(second.value["cells"]) == 2
            assert first.job.result is None
            assert not list((session.folder / "results").iterdir())
        finally:
            await studio.close()

    run_apart(work())


def test_an_answer_that_cannot_be_kept_is_told(tmp_path, source):
    """As on a full disk: the page says so, instead of waiting for ever."""

    async def work() -> None:
        studio = Studio(Settings(folder=tmp_path / "sessions", roots=(tmp_path,)))
        session = studio.sessions.create(owner="ada")
        session.change("opened", by="ada", source=source)
        (session.folder / "results").rmdir()
        try:
            first = await studio.ask(session, "describe_data", {}, soon=0)
            assert first.job is not None
            await asyncio.wait_for(first.job.ended.wait(), PATIENCE)
            second = await studio.ask(session, "describe_data", {}, soon=0)
            assert second.failure is not None
            assert "disk full" in second.failure["hint"]
            (session.folder / "results").mkdir()
            studio.forget_failure(session, first.job.id)
            third = await studio.ask(session, "describe_data", {}, soon=60)
            assert third.ready
        finally:
            await studio.close()

    run_apart(work())
