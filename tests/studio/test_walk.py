"""The whole job in a real browser: from opening data to a signed release, without a command.

What is written is, to the byte, what the command line makes from the plan and the key that the page
shows.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import sfumato as sf
from sfumato.storage.contents import RECORD_FILE, TRAIL_FILE
from sfumato.storage.signing import read_public_key
from sfumato.storage.verifying import verify_release

WORDS = "a long passphrase"


def settle(page: Any) -> None:
    """Until nothing on the page is being worked on."""
    page.wait_for_selector("[data-await], main[aria-busy]", state="detached")


def press(page: Any, action: str) -> None:
    """Press the button of the form that does this, and wait until it is done."""
    page.locator(f"main form[action$='{action}'] button:not([type=button])").first.click()
    settle(page)


def go(page: Any, step: str) -> None:
    """Go to a step by the bar at the top."""
    page.locator(f".steps a[href$='/{step}']").click()
    page.wait_for_url(f"**/{step}")
    settle(page)


def open_data(page: Any, kind: str, root: Path, data: Path | None) -> None:
    if kind == "hospital":
        page.locator("form[action$='/begin/hospital'] button").click()
    else:
        page.locator("form[action$='/begin/empty'] button").click()
        page.wait_for_url("**/data")
    if kind == "cohort":
        file = root / "people.csv"
        sf.datasets.cohort(1500).write_csv(file)
        page.locator("input[type=file]").set_input_files(file)
        page.get_by_role("button", name="Upload and open").click()
    if kind == "titanic":
        assert data is not None
        (root / "titanic.csv").write_bytes((data / "titanic.csv").read_bytes())
        page.locator("#path").fill("titanic.csv")
        press(page, "/data/open")
    page.wait_for_selector("table.preview")
    settle(page)


@pytest.mark.parametrize(
    "kind",
    [
        "cohort",
        pytest.param("titanic", marks=pytest.mark.study),
        pytest.param("hospital", marks=pytest.mark.study),
    ],
)
def test_from_data_to_a_signed_release(tab, studio, kind, request, tmp_path):
    data = request.getfixturevalue("shared_data") if kind == "titanic" else None
    open_data(tab, kind, studio.root, data)
    go(tab, "roles")
    if kind == "hospital":
        press(tab, "/roles/keys")
        for table in ("laboratory", "patients", "stays"):
            tab.locator(f"main a[href*='table={table}']").first.click()
            tab.wait_for_url(f"**table={table}*")
            settle(tab)
            press(tab, "/roles/accept_all")
            decide_the_rest(tab)
    else:
        press(tab, "/roles/accept_all")
        decide_the_rest(tab)
    press(tab, "/roles/build")
    press(tab, "/roles/use")
    go(tab, "risk")
    assert tab.locator("main").inner_text()
    go(tab, "protect")
    press(tab, "/protect/try")
    go(tab, "compare")
    go(tab, "release")
    tab.locator("#w-title").fill(f"People of the {kind}")
    press(tab, "/release/describe")
    to = studio.root / f"{kind}-release"
    tab.locator("#to").fill(str(to))
    press(tab, "/release/write")
    assert (to / "manifest.json").is_file(), tab.locator("main").inner_text().split("written\n")[-1]
    sign(tab, studio.root / f"{kind}-key", to)
    signer = read_public_key(studio.root / f"{kind}-key.public.pem")
    checks = verify_release(to, signers=[signer])
    assert [check.finding for check in checks if check.passed is False] == []
    compare_with_command_line(tab, to, tmp_path, studio.ledger)


def decide_the_rest(page: Any) -> None:
    """Of what nobody could guess, say one by one that outsiders may know it."""
    while (left := page.locator("main select.undecided")).count():
        before = left.count()
        left.first.select_option("quasi")
        expect(left).to_have_count(before - 1)
        settle(page)


def sign(page: Any, key: Path, to: Path) -> None:
    page.locator("details:has(#new-key) summary").click()
    for field, text in (("#new-key", str(key)), ("#new-pass", WORDS), ("#new-again", WORDS)):
        page.locator(field).fill(text)
    press(page, "/release/keygen")
    for field, text in (("#sign-key", f"{key}.pem"), ("#sign-pass", WORDS), ("#sign-name", "Ada")):
        page.locator(field).fill(text)
    press(page, "/release/sign")
    assert list((to / "signatures").iterdir()), page.locator("main").inner_text()
    # Nobody keeps the passphrase: neither the page nor the folder of the session.
    assert WORDS not in page.content()


def compare_with_command_line(page: Any, to: Path, apart: Path, ledger: Path) -> None:
    """Run the command that the page shows, as if the first release had never been written."""
    (apart / "plan.toml").write_text(page.locator("#plan").text_content())
    command = shlex.split(page.locator("#command").text_content())
    mine = to.rename(apart / "studio")
    shutil.rmtree(ledger)
    done = subprocess.run(
        [sys.executable, "-m", *command, "--quiet"], cwd=apart, capture_output=True, text=True,
        check=False, env={**os.environ, "SFUMATO_LEDGER": str(ledger)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = (
        {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and path.parent.name != "signatures"
        }
        for folder in (mine, to)
    )
    assert first.pop(TRAIL_FILE)
    # The custody record, and the report inside, say when it was written; all else is the same.
    for files in (first, second):
        created = json.loads(files.pop(RECORD_FILE))["created"].encode()
        files["custody/report.html"] = files["custody/report.html"].replace(created, b"")
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
