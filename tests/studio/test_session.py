"""Nothing is lost: states, branches, results and the audit trail survive undo, redo and a crash."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import DataError, PlanError
from sfumato.plan import Plan, Writing
from sfumato.schema import Role
from sfumato.studio.session import Session, Sessions, hold_sessions
from sfumato.studio.source import DataSource


def plan_with(role: Role) -> Plan:
    return Plan(schema={"age": role})


@pytest.fixture
def session(tmp_path) -> Session:
    return Sessions(tmp_path / "sessions").create(owner="ada")


def test_undo_and_redo_walk_through_all_states(session):
    roles: tuple[Role, ...] = ("quasi", "sensitive", "other")
    for role in roles:
        session.change(f"role {role}", by="ada", plan=plan_with(role))
    assert session.plan.schema["age"].role == "other"
    session.undo(by="ada", steps=2)
    assert session.plan.schema["age"].role == "quasi"
    session.undo(by="ada", steps=-1)
    assert session.plan.schema["age"].role == "sensitive"
    with pytest.raises(PlanError, match="nothing more to redo"):
        session.undo(by="ada", steps=-2)
    session.undo(by="ada", steps=2)
    with pytest.raises(PlanError, match="nothing more to undo"):
        session.undo(by="ada")


def test_a_change_after_undo_begins_anew_but_nothing_leaves_the_disk(session):
    session.change("one", by="ada", plan=plan_with("quasi"))
    session.change("two", by="ada", plan=plan_with("sensitive"))
    session.undo(by="ada")
    session.change("three", by="ada", plan=plan_with("other"))
    assert [session.states[n].what for n in session.branch.states] == [
        "session begun", "one", "three",
    ]  # fmt: skip
    assert len(session.states) == 4
    assert len(list((session.folder / "plans").iterdir())) == 3


def test_branches_stand_beside_each_other(session):
    session.change("one", by="ada", plan=plan_with("quasi"))
    session.begin_branch("bolder", by="ada")
    session.change("two", by="ada", plan=plan_with("other"))
    session.switch_branch("main", by="ada")
    assert session.plan.schema["age"].role == "quasi"
    assert session.read_plan(session.read_branch("bolder")) == plan_with("other").text()
    for name in ("bolder", "", "  "):
        with pytest.raises(PlanError):
            session.begin_branch(name, by="ada")
    with pytest.raises(PlanError):
        session.switch_branch("nowhere", by="ada")


@given(st.lists(st.sampled_from(["change", "undo", "redo", "branch", "switch"]), max_size=25))
def test_a_session_is_the_same_when_it_is_opened_again(tmp_path_factory, actions):
    session = Sessions(tmp_path_factory.mktemp("s") / "sessions").create(owner="ada")
    for number, action in enumerate(actions):
        try:
            if action == "change":
                session.change(f"change {number}", by="ada", plan=Plan(schema={f"v{number}": None}))
            elif action == "branch":
                session.begin_branch(f"branch {number}", by="ada")
            elif action == "switch":
                session.switch_branch(min(session.branches), by="ada")
            else:
                session.undo(by="ada", steps=1 if action == "undo" else -1)
        except PlanError:
            assert action in ("undo", "redo")
    again = Session.load(session.folder)
    assert again == session
    assert again.plan_text == session.plan_text
    assert next(line["what"] for line in again.read_audit()) == "session begun"


def test_answers_are_kept_by_what_they_depend_on(session, tmp_path):
    file = tmp_path / "data.csv"
    file.write_text("age\n1\n")
    source = DataSource(where=str(file), title="data.csv")
    session.change("opened", by="ada", source=source, plan=plan_with("quasi"))
    by_source = session.compute_key("task", "source", {})
    by_schema = session.compute_key("task", "schema", {})
    by_plan = session.compute_key("task", "plan", {})
    assert session.compute_key("task", "source", {"a": 1}) != by_source
    session.change("target", by="ada", plan=Plan(schema={"age": "quasi"}, targets={"k.min": 3}))
    assert session.compute_key("task", "schema", {}) == by_schema
    by_target = session.compute_key("task", "plan", {})
    assert by_target != by_plan
    # Who gets it changes nothing that was measured; what is accepted does.
    named = replace(session.plan, release=Writing(title="Ages", recipient="Institute"))
    session.change("words", by="ada", plan=named)
    assert session.compute_key("task", "plan", {}) == by_target
    accepted = replace(named, release=Writing(accept_attacks="a test"))
    session.change("accepted", by="ada", plan=accepted)
    assert session.compute_key("task", "plan", {}) != by_target
    session.change("role", by="ada", plan=plan_with("other"))
    assert session.compute_key("task", "source", {}) == by_source
    assert session.compute_key("task", "schema", {}) != by_schema
    file.write_text("age\n1\n2\n")
    assert session.compute_key("task", "source", {}) != by_source


def test_a_torn_result_is_computed_again(session):
    session.keep_result("key", {"result": 1, "warnings": []})
    assert session.read_result("key") == {"result": 1, "warnings": []}
    (session.folder / "results" / "key.json").write_text('{"result": ')
    assert session.read_result("key") is None


def test_uploads_go_and_decisions_stay(session):
    session.change("role", by="ada", plan=plan_with("quasi"))
    uploads = session.folder / "uploads"
    (uploads / "secret.csv").write_text("name\nAda\n")
    (uploads / "tables").mkdir()
    (uploads / "tables" / "visits.csv").write_text("name\nAda\n")
    session.remove_uploads()
    assert list(uploads.iterdir()) == []
    assert Session.load(session.folder).plan == plan_with("quasi")


def test_two_studios_never_share_sessions(tmp_path):
    place = tmp_path / "sessions"
    with hold_sessions(place), pytest.raises(PlanError, match="already"), hold_sessions(place):
        pytest.fail("two studios hold the same sessions")
    with hold_sessions(place):
        pass


def test_without_data_there_is_a_hint(session):
    with pytest.raises(DataError, match="under Data"):
        _ = session.source


def test_sessions_are_found_again_and_removed(tmp_path):
    sessions = Sessions(tmp_path / "sessions")
    first, second = sessions.create(owner="ada"), sessions.create(owner="bob")
    again = Sessions(tmp_path / "sessions")
    assert {session.id for session in again.list()} == {first.id, second.id}
    assert again.get("../../etc") is None
    again.remove(again.get(first.id))  # type: ignore[arg-type]
    assert [session.owner for session in Sessions(tmp_path / "sessions").list()] == ["bob"]
