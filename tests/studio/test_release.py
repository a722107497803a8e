"""Release: the same bytes as the command line, approvals, refusals, signatures, next extracts."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.studio.visitor import RunningStudio, start_studio, stop_studio
from tests.waiting import wait_until
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.app import app
from sfumato.data import Dataset
from sfumato.errors import PlanError, ReleaseError
from sfumato.storage import writing
from sfumato.storage.contents import TRAIL_FILE, digest_files
from sfumato.storage.verifying import is_intact, verify_release
from sfumato.studio.approvals import (
    WriteOptions,
    add_approval,
    compute_subject,
    judge_approvals,
    keep_options,
    list_approvals,
)
from sfumato.studio.reproduction import Recipe
from sfumato.studio.security import User
from sfumato.studio.session import Session, Sessions
from sfumato.studio.source import DataSource
from sfumato.studio.tasks import KEY, Work
from sfumato.studio.tasks.release import (
    compare_extract,
    digest_records,
    list_written,
    make_keys,
    sign_written,
    verify_written,
    write_release,
)
from sfumato.studio.worker import Workshop

ACTOR = {"by": "you", "branch": "main"}
WORDS = "tell it to nobody"
SECRET = bytes(range(32)).hex()
PLAN = """
[columns]
name = "direct"
sex = "quasi"
region = "other"
systolic = "sensitive"

[[steps]]
method = "drop"

[[steps]]
method = "noise"
variables = ["systolic"]
variance_share = 0.2

[targets]
k.min = 2

[release]
title = "Cohort"
attack_seconds = 0
accept_attacks = "a test"
"""


class _Clock(dt.datetime):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return cls(2026, 1, 31, 12, 0, 0, tzinfo=tz)


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    file = tmp_path / "cohort.csv"
    names = ["name", "sex", "region", "systolic"]
    sf.datasets.cohort(500).select(names).write_csv(file)
    return file


def begin(folder: Path, source: DataSource, plan: str = PLAN) -> Session:
    """A session with data, a plan and a key that the test knows."""
    session = Sessions(folder).create(owner="you")
    session.change("data opened", by="you", source=source, plan=plan)
    (session.folder / KEY).write_text(f"{SECRET}\n")
    (session.folder / KEY).chmod(0o600)
    return session


def get_work(session: Session) -> Work:
    return Work(Workshop(), session.source, session.plan_text, session.folder)


def write(session: Session, to: Path, **options: Any) -> dict[str, Any]:
    chosen = {"approved": "", "overwrite": False, "ledger": False, **options}
    answer: dict[str, Any] = write_release(get_work(session), to=str(to), **chosen, **ACTOR)
    return answer


def stop_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The custody record says when it was written; nothing else differs from day to day."""
    stopped = type("dt", (), {"datetime": _Clock, "UTC": dt.UTC, "date": dt.date})
    monkeypatch.setattr(writing, "dt", stopped)


@pytest.mark.parametrize("kind", ["one table", "tiers", "several tables"])
def test_the_folder_is_what_the_command_line_makes(kind, cohort, tmp_path, monkeypatch):
    stop_clock(monkeypatch)
    plan, source = PLAN, DataSource(where=str(cohort), title="cohort.csv")
    if kind == "tiers":
        plan += "\n[tiers.inside]\n\n[tiers.public.noise]\nvariance_share = 0.4\n"
    if kind == "several tables":
        source = DataSource(where=str(tmp_path / "tables"), title="tables", linked=True)
        (tmp_path / "tables").mkdir()
        people = sf.datasets.cohort(200).select("sex", "region").with_row_index("person")
        people.write_csv(tmp_path / "tables" / "people.csv")
        people.select("person", sex_again="sex").write_csv(tmp_path / "tables" / "visits.csv")
        plan = """
person = "people.person"
[keys]
"visits.person" = "people.person"
[tables.people.columns]
sex = "quasi"
region = "quasi"
[tables.visits.columns]
sex_again = "quasi"
[release]
attack_seconds = 0
accept_attacks = "a test"
"""
    session = begin(tmp_path / "sessions", source, plan)
    # A tier knows where the others lie, so all three are written to the same place.
    out, mine, theirs = (tmp_path / name / "release" for name in ("out", "studio", "terminal"))
    assert write(session, out) == {"refused": False}
    _check_written(session, [out / "inside", out / "public"] if kind == "tiers" else [out])
    move(out, mine)

    recipe = Recipe(source=source, plan=session.plan, key=session.folder / KEY, to=out,  # type: ignore[arg-type]
                    ledger=False)  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text(session.plan_text)
    words = shlex.split(recipe.write_command())
    assert words[0] == "sfumato"
    done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == 0, done.output
    move(out, theirs)
    trails = [name for name in digest_files(mine) if name.endswith(TRAIL_FILE)]
    assert len(trails) == (2 if kind == "tiers" else 1)
    assert digest_files(mine, without=trails) == digest_files(theirs)

    exec(compile(recipe.write_script(), "release.py", "exec"), {})  # noqa: S102
    assert digest_files(out) == digest_files(theirs)


def move(out: Path, to: Path) -> None:
    to.parent.mkdir()
    out.rename(to)


def _check_written(session: Session, folders: list[Path]) -> None:
    for folder in folders:
        checks = verify_release(folder)
        assert is_intact(checks)
        assert [check.passed for check in checks if check.name == "trail"] == [True]
    written = list_written(session.folder)[0]["folders"]
    assert [item["folder"] for item in written] == list(map(str, folders))
    assert all(check["passed"] is not False for item in written for check in item["checks"])


def test_a_trail_that_was_changed_fails(cohort, tmp_path):
    session = begin(tmp_path / "sessions", DataSource(where=str(cohort), title="cohort.csv"))
    write(session, tmp_path / "out")
    trail = tmp_path / "out" / TRAIL_FILE
    assert "data opened" in trail.read_text()
    trail.write_text(trail.read_text().replace('"you"', '"mum"', 1))
    assert not is_intact(verify_release(tmp_path / "out"))


def test_a_refusal_keeps_its_evidence_and_says_so(cohort, tmp_path):
    source = DataSource(where=str(cohort), title="cohort.csv")
    session = begin(tmp_path / "sessions", source, PLAN.replace("k.min = 2", "k.min = 400"))
    assert write(session, tmp_path / "out") == {"refused": True}
    assert not (tmp_path / "out").exists()
    refused = list_written(session.folder)[0]["refused"]
    assert Path(refused["page"]).parent == tmp_path / "out.refused"
    assert "Nothing was released" in Path(refused["page"]).read_text()


def test_two_people_sign_and_the_passphrase_is_nowhere(cohort, tmp_path):
    session = begin(tmp_path / "sessions", DataSource(where=str(cohort), title="cohort.csv"))
    work, folder = get_work(session), tmp_path / "out"
    write(session, folder)
    for name in ("ada", "ben"):
        keys = make_keys(work, name=str(tmp_path / name), passphrase=WORDS)
        sign_written(work, folder=str(folder), key_file=keys["private"], signed_by=name,
                     remark="", passphrase=WORDS, **ACTOR)  # fmt: skip
    verify_written(work, folder=str(folder), **ACTOR)
    checks = list_written(session.folder)[0]["folders"][0]["checks"]
    signed = [check["finding"] for check in checks if check["name"] == "signature"]
    assert [re.findall("'(.*?)'", text)[0] for text in signed] == ["ada", "ben"] or len(signed) == 2
    assert all(check["passed"] is not False for check in checks)
    assert "signed by 'ben'" in (folder / TRAIL_FILE).read_text()
    everything = [*session.folder.rglob("*"), *folder.rglob("*")]
    assert not [path for path in everything if path.is_file()
                and WORDS.encode() in path.read_bytes()]  # fmt: skip


def test_an_approval_is_void_as_soon_as_the_plan_changes(cohort, tmp_path):
    session = begin(tmp_path / "sessions", DataSource(where=str(cohort), title="cohort.csv"))
    you = User("you", "custodian")
    seen = compute_subject(session)
    add_approval(session, you, "approve", subject=seen, name="Ben", comment="", alone=True)
    assert judge(session) == "approve"
    assert "in the name of 'Ben', typed on one's own machine" in session.read_audit()[-1]["what"]
    session.change("k", by="you", plan=PLAN.replace("k.min = 2", "k.min = 3"))
    assert judge(session) is None
    session.undo(by="you")
    assert judge(session) == "approve"
    keep_options(session, WriteOptions(overwrite=True))
    assert judge(session) is None
    assert compute_subject(session).list_changes(seen) == ["writing"]
    keep_options(session, WriteOptions(ledger=False))
    assert judge(session) is None
    keep_options(session, WriteOptions())
    assert judge(session) == "approve"
    # The data changed, and neither their size nor their time tells.
    text, times = cohort.read_text(), cohort.stat()
    cohort.write_text(text.replace("female", "femald", 1))
    os.utime(cohort, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert cohort.stat().st_size == times.st_size
    assert judge(session) is None
    assert compute_subject(session).list_changes(seen) == ["data"]
    with pytest.raises(ReleaseError, match="changed since somebody looked"):
        write(session, tmp_path / "out", approved=seen.data)
    assert not (tmp_path / "out").exists()
    cohort.write_text(text)  # as it was, at another time
    assert judge(session) == "approve"
    assert write(session, tmp_path / "out", approved=seen.data) == {"refused": False}


def judge(session: Session) -> str | None:
    return judge_approvals(compute_subject(session), list_approvals(session))


def test_of_a_database_what_was_read_is_approved(cohort, tmp_path, monkeypatch):
    address = "postgresql://ada@server/cohort"
    session = begin(tmp_path / "sessions", DataSource(where=address, title="cohort", table="t"))
    held = sf.read(cohort)
    monkeypatch.setattr(Workshop, "read", lambda *_: held)
    with pytest.raises(PlanError, match="not read yet"):
        add_approval(session, User("you", "custodian"), "approve", subject=compute_subject(session),
                     name="Ben", comment="", alone=True)  # fmt: skip
    seen = compute_subject(session, digest_records(get_work(session)))
    held = sf.read(cohort)  # once more, the same
    assert compute_subject(session, digest_records(get_work(session))) == seen
    held = Dataset(held.frame.head(499), held.schema)
    later = compute_subject(session, digest_records(get_work(session)))
    assert later.list_changes(seen) == ["data"]
    with pytest.raises(ReleaseError, match="changed since somebody looked"):
        write(session, tmp_path / "out", approved=seen.data)


def test_nobody_approves_their_own_work_behind_a_proxy(cohort, tmp_path):
    session = begin(tmp_path / "sessions", DataSource(where=str(cohort), title="cohort.csv"))
    seen = compute_subject(session)
    with pytest.raises(PlanError, match="your own work"):
        add_approval(session, User("you", "custodian"), "approve", subject=seen, name="Ben",
                     comment="", alone=False)  # fmt: skip
    session.change("k", by="eve", plan=PLAN.replace("k.min = 2", "k.min = 3"))
    session.undo(by="you")
    with pytest.raises(PlanError, match="your own work"):  # decided once, and undone since
        add_approval(session, User("eve", "custodian"), "reject", subject=seen, name="",
                     comment="no", alone=False)  # fmt: skip
    ben = User("ben", "checker")
    assert (
        add_approval(
            session, ben, "reject", subject=seen, name="", comment="why?", alone=False
        ).name
        == "ben"
    )
    assert judge(session) == "reject"


def test_the_next_extract_is_compared_before_anything_begins(cohort, tmp_path):
    session = begin(tmp_path / "sessions", DataSource(where=str(cohort), title="cohort.csv"))
    new = tmp_path / "next.csv"
    frame = sf.datasets.cohort(300).select("name", "sex", "region", "hdl")
    frame.write_csv(new)
    answer = compare_extract(get_work(session), file=str(new))
    rows = {row["variable"]: row for row in answer["rows"]}
    assert answer["records"] == 300
    assert rows["systolic"]["needed"]
    assert not rows["systolic"]["after"]
    assert not rows["hdl"]["needed"]
    assert "systolic" in rows[""]["trouble"]


def wait_for(studio: RunningStudio, path: str, text: str) -> str:
    """The page when it says something."""

    def read() -> str:
        page = studio.get(path).text
        return page if text in page else ""

    return wait_until(read, f"'{text}' on {path}", every=0.2)


@pytest.fixture
def opened(studio, tmp_path) -> str:
    """A session of the running studio, with the cohort below its root."""
    file = studio.root / "cohort.csv"
    names = ["name", "sex", "region", "systolic"]
    sf.datasets.cohort(500).select(names).write_csv(file)
    session = begin(studio.folder, DataSource(where=str(file), title="cohort.csv"))
    return f"/sessions/{session.id}"


def press(tab: Any, name: str) -> None:
    """Press a button, and wait until the page that it leads to is there."""
    # A page that is just fetching itself would take the button away under the finger.
    tab.wait_for_selector("[data-await], main[aria-busy]", state="detached")
    tab.evaluate("document.querySelector('#main > h1').id = 'old'")
    tab.get_by_role("button", name=name).click()
    tab.locator("#old").wait_for(state="detached")


def pick(tab: Any, label: str, name: str) -> None:
    """Choose something of the first folder in the dialog."""
    tab.get_by_role("button", name=f"Choose: {label}", exact=True).click()
    tab.get_by_role("dialog").get_by_role("button", name=f"Choose {name}", exact=True).click()
    tab.locator("dialog[open]").wait_for(state="detached")


def mistype_passphrase(tab: Any, studio: RunningStudio) -> None:
    """Two passphrases that differ: refused in sight, and what was typed is still there."""
    tab.locator("#new-again").fill(f"{WORDS} else")
    press(tab, "Make a pair of keys")
    refused = tab.get_by_text("The two passphrases differ. Write the same twice.")
    assert 0 < refused.bounding_box()["y"] < 900
    assert tab.evaluate("window.scrollY") > 500
    assert tab.locator("#new-key").input_value() == str(studio.root / "ben")
    refused.get_by_role("button", name="Close").click()
    refused.wait_for(state="detached")
    tab.locator("#new-again").fill(WORDS)


def test_from_words_to_a_signed_folder_in_a_browser(tab, studio, opened):
    tab.goto(f"http://{studio.host}{studio.prefix}{opened}/release")
    tab.get_by_label("Who gets the release").fill("Institute <b>")
    press(tab, "Save these details")
    tab.get_by_label("Your name", exact=True).fill("Ben")
    press(tab, "Approve this plan")
    tab.get_by_text("That is a statement, not a proof.").first.wait_for()
    tab.get_by_text("name as typed, not proven").wait_for()
    tab.get_by_label("Who gets the release").fill("Institute")
    press(tab, "Save these details")
    tab.get_by_text("no longer counts; changed since: the plan").wait_for()
    to = studio.root / "browser" / "out"
    (studio.root / "browser").mkdir()
    tab.get_by_label("Folder to write to", exact=True).fill("out")
    pick(tab, "Folder to write to", "browser")
    assert tab.locator("#to").input_value() == str(to)
    tab.get_by_label("Do not look for earlier releases").check()
    tab.get_by_label("What it may be used for").fill("Typed and not kept")
    press(tab, "Write the release")
    tab.get_by_text("Every check that could be made has passed.").wait_for()
    assert is_intact(verify_release(to))
    report = tab.get_by_role("link", name="Report for everybody").get_attribute("href")
    answer = studio.send("GET", report)
    assert "sandbox" in answer.headers["content-security-policy"]
    assert "Institute" in answer.text
    assert "Typed and not kept" in answer.text
    outside = report.replace("report.html", "custody/key")
    assert "There is no such page" in studio.send("GET", outside).text
    stolen = f"{studio.prefix}{opened}/release/document?file=report.html&folder=/etc"
    assert "wrote no such release" in studio.send("GET", stolen).text

    tab.get_by_text("You have no key yet?").click()
    tab.get_by_role("textbox", name="Where to put them").fill(str(studio.root / "ben"))
    for label in ("Passphrase", "The passphrase again"):
        tab.locator("form[action$=keygen]").get_by_label(label, exact=True).fill(WORDS)
    mistype_passphrase(tab, studio)
    press(tab, "Make a pair of keys")
    tab.get_by_text("Your private key is").wait_for()
    sign = tab.locator("form[action$=sign]")
    pick(tab, "Your private key (a .pem file)", "ben.pem")
    assert tab.locator("#sign-key").input_value() == str(studio.root / "ben.pem")
    sign.get_by_label("Passphrase", exact=True).fill(WORDS)
    sign.get_by_label("Your name").fill("Ben")
    press(tab, "Sign this release")
    for _ in range(100):
        if (to / "signatures").exists():
            break
        tab.wait_for_timeout(200)
    assert len(list((to / "signatures").iterdir())) == 1


def test_what_is_shown_runs_at_the_command_line(studio, opened, tmp_path):
    page = studio.get(f"{opened}/release").text
    command = re.search(r'<pre id="command">(.*?)</pre>', page, re.DOTALL)[1]  # type: ignore[index]
    plan = studio.get(f"{opened}/release/plan").text
    (tmp_path / "plan.toml").write_text(plan)
    words = shlex.split(command.replace("&#39;", "'"))
    words[words.index("--out") + 1] = str(tmp_path / "out")
    done = subprocess.run(
        [sys.executable, "-m", *words, "--no-ledger"], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "custody" / "key").read_text().strip() == SECRET


def begun_to_write(place: Path) -> bool:
    return bool(list(place.glob(".sfumato-partial-*")) or (place / "out").exists())


def test_a_worker_killed_while_it_writes_leaves_nothing_half(studio, opened):
    place = studio.root / "killed"
    fields = {"to": str(place / "out"), "no_ledger": "1"}
    assert studio.post(f"{opened}/release/write", fields).status == 303
    wait_until(lambda: begun_to_write(place), "the release, begun or written", every=0.02)
    listed = subprocess.run(["pgrep", "-f", f"sfumato.studio.worker .*{opened[-12:]}"],
                            capture_output=True, text=True, check=False)  # fmt: skip
    for process in listed.stdout.split():
        subprocess.run(["kill", "-9", process], check=False)
    wait_for(studio, f"{opened}/release", "ended before it was done")
    assert not (place / "out").exists() or is_intact(verify_release(place / "out"))
    if not (place / "out").exists():
        assert studio.post(f"{opened}/release/write", fields).status == 303
        wait_for(studio, f"{opened}/release", "Every check that could be made has passed.")
    assert [path.name for path in place.iterdir()] == ["out"]
    trail = [json.loads(line) for line in (place / "out" / TRAIL_FILE).read_text().splitlines()]
    assert any("not approved by anybody" in line.get("what", "") for line in trail)


def test_a_server_killed_while_it_writes_leaves_nothing_half(tmp_path, cohort):
    place = tmp_path / "killed"
    running = start_studio(tmp_path / "sessions", tmp_path)
    try:
        running.enter()
        session = begin(tmp_path / "sessions", DataSource(where=str(cohort), title="cohort.csv"))
        fields = {"to": str(place / "out"), "no_ledger": "1"}
        assert running.post(f"/sessions/{session.id}/release/write", fields).status == 303
        wait_until(lambda: begun_to_write(place), "the release, begun or written", every=0.02)
    finally:
        running.process.kill()
        stop_studio(running)
    wait_until(
        lambda: not [path for path in place.iterdir() if path.name != "out"],
        "the worker, to notice that the server is gone and to clear up",
    )
    assert not (place / "out").exists() or is_intact(verify_release(place / "out"))
    # The session is as it was, and goes on.
    again = Sessions(tmp_path / "sessions").get(session.id)
    assert again is not None
    if not (place / "out").exists():
        assert write(again, place / "out") == {"refused": False}


def test_several_tables_have_a_page_of_their_own(studio):
    session = studio.begin("hospital")
    page = studio.get(f"{session}/release").text
    assert "There is nothing to release yet" in page
    assert f"{session}/roles" in page
