"""Tables of a PostgreSQL server, opened from the page Data; its password is shown nowhere."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.postgres_server import start_postgres
from tests.studio.test_accessibility import PAGES, settle, wait
from tests.studio.visitor import RunningStudio

import sfumato as sf

PASSWORD = "p@ss/w:rd %41?"  # noqa: S105 - of a test
WRONG = "n0t-the-0ne"

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server with two linked tables, which asks for a password."""
    with start_postgres(PASSWORD) as address:
        with psycopg.connect(address, password=PASSWORD) as connection:
            connection.execute("CREATE TABLE people (person int PRIMARY KEY, sex text, born date)")
            connection.execute("CREATE TABLE visits (person int REFERENCES people, reason text)")
            connection.execute("CREATE SCHEMA closed")
            connection.execute("CREATE TABLE closed.staff (name text)")
            rows = sf.datasets.cohort(200).select("sex", "birth_date").rows()
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO people VALUES (%s, %s, %s)",
                                   [(number, *row) for number, row in enumerate(rows)])  # fmt: skip
                visits = [(number % 200, "control") for number in range(300)]
                cursor.executemany("INSERT INTO visits VALUES (%s, %s)", visits)
            connection.execute("INSERT INTO closed.staff VALUES ('Ada')")
        yield address


def connect(tab: Any, address: str, password: str) -> None:
    tab.locator("#address").fill(address)
    tab.locator("#password").fill(password)
    tab.get_by_role("button", name="Connect").click()


def test_a_table_is_opened_with_its_password_and_protected(tab, studio, server):
    tab.locator("form[action$='/begin/empty'] button").click()
    tab.wait_for_url("**/data")
    # A wrong password is told as such, nothing is opened, and neither password is on the page.
    connect(tab, server, WRONG)
    alert = tab.get_by_role("alert")
    alert.wait_for()
    assert "password" in alert.inner_text().lower()
    assert WRONG not in tab.content()
    assert tab.locator("table.preview").count() == 0
    connect(tab, server, PASSWORD)
    tab.get_by_role("group", name="Tables").wait_for()
    shown = tab.locator("main .chip").all_inner_texts()
    assert [text.strip() for text in shown] == ["people", "visits"]
    tab.get_by_label("people").check()
    tab.get_by_role("button", name="Open ticked tables").click()
    tab.wait_for_selector("table.preview")
    settle(tab)
    assert "200" in tab.locator(".numbers").inner_text()
    session = "/" + "/".join(tab.url.split("/")[4:6])
    wait(studio, f"{session}/roles")
    for action in ("accept_all", "build", "use"):
        assert studio.post(f"{session}/roles/{action}").status == 303
        wait(studio, f"{session}/roles")
    require_no_password(studio, session)


def test_several_tables_and_another_schema(studio, server):
    session = studio.begin("empty")
    studio.post(f"{session}/data/open", {"path": server, "password": PASSWORD})
    assert "visits" in studio.get(f"{session}/data?choose=tables").text
    studio.post(f"{session}/data/schema", {"schema": "closed"})
    page = studio.get(f"{session}/data?choose=tables").text
    assert 'value="staff"' in page
    assert 'value="people"' not in page
    studio.post(f"{session}/data/schema", {"schema": ""})
    studio.post(f"{session}/data/choose", {"table": ["people", "visits"]})
    wait(studio, f"{session}/data")
    assert "visits.person" in studio.get(f"{session}/roles").text
    require_no_password(studio, session)


def require_no_password(studio: RunningStudio, session: str) -> None:
    """Neither on a page nor on a terminal, and in no file but the private history."""
    for name in PAGES:
        wait(studio, f"{session}/{name}")
        text = html.unescape(studio.get(f"{session}/{name}").text)
        for spelled in (PASSWORD, "p%40ss", "w%3Ard"):
            assert spelled not in text, name
    assert PASSWORD not in html.unescape(studio.get("/").text)
    assert not [line for line in studio.said if "p@ss" in line or "p%40ss" in line]
    folder = studio.folder / session.rpartition("/")[2]
    words = (b"p@ss", b"p%40ss", WRONG.encode())
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    holding = {name for name, content in files.items() if any(word in content for word in words)}
    assert holding <= {"history.json", "database.json"}
    assert all((folder / name).stat().st_mode & 0o077 == 0 for name in holding)
