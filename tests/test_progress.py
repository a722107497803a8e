"""Progress is reported one way, and work stops where it reports."""

from __future__ import annotations

import threading

import pytest

import sfumato as sf
from sfumato.progress import Cancelled, Token, current_progress, part_of, send_progress_to


def test_a_token_passes_reports_on_until_it_is_cancelled():
    reports: list[tuple[str, int, int]] = []
    token = Token(lambda *report: reports.append(report))
    token("counting", 1, 3)
    token.cancel()
    with pytest.raises(Cancelled):
        token("counting", 2, 3)
    assert reports == [("counting", 1, 3)]


def test_protecting_stops_at_the_next_report_and_releases_nothing(cohort, tmp_path):
    plan = sf.Plan(
        schema=cohort.schema,
        steps=[sf.methods.Drop(), sf.methods.KAnonymity(variables=["sex", "region"], k=3)],
    )
    token = Token()

    def cancel_at_the_second_step(what: str, done: int, total: int) -> None:
        if "step 2" in what:
            token.cancel()

    token._progress = cancel_at_the_second_step
    with pytest.raises(Cancelled):
        sf.protect(cohort, plan, progress=token).write(tmp_path / "release")
    assert not list(tmp_path.iterdir())


def test_a_token_is_cancelled_from_another_thread():
    token = Token()
    thread = threading.Thread(target=token.cancel)
    thread.start()
    thread.join()
    with pytest.raises(Cancelled):
        token("counting", 0, 1)


def test_cancelling_is_handled_as_an_interrupt():
    assert issubclass(Cancelled, KeyboardInterrupt)


def test_reports_go_to_the_innermost_listener_and_back():
    outer: list[str] = []
    inner: list[str] = []
    with send_progress_to(lambda what, done, total: outer.append(what)):
        current_progress()("first", 0, 1)
        with send_progress_to(lambda what, done, total: inner.append(what)):
            current_progress()("second", 0, 1)
        current_progress()("third", 0, 1)
    current_progress()("nobody listens", 0, 1)
    assert (outer, inner) == (["first", "third"], ["second"])


def test_a_part_never_reports_more_than_there_is():
    reports: list[tuple[str, int, int]] = []
    report = part_of(lambda *args: reports.append(args), "reading")
    assert report is not None
    report(5, 3)
    report(0, 0)
    assert reports == [("reading", 3, 3)]
    assert part_of(None, "reading") is None
