"""Nobody but the person with the address gets in, and nothing gets out of where it belongs."""

from __future__ import annotations

import stat
import time

import pytest
from tests.studio.visitor import start_studio, stop_studio

from sfumato.errors import DataError, PlanError
from sfumato.studio.paths import OpenFolders, clean_name, confine, confine_data
from sfumato.studio.picker import find_start, list_folder
from sfumato.studio.security import Bucket, Door, Settings

EVERYWHERE = "0.0.0.0"  # noqa: S104 - as in a container


def test_without_the_token_there_is_nothing(studio):
    for path in ("/", "/?token=wrong", f"{studio.prefix}/", f"{studio.prefix}/static/studio.js"):
        assert studio.send("GET", path, cookie=False).status == 403
    assert studio.send("POST", f"{studio.prefix}/begin/demo", cookie=False).status == 403


def test_a_token_works_once(studio):
    address = studio.new_address()
    path = "/" + address.split("/", 3)[3]
    first = studio.send("GET", path, cookie=False)
    assert first.status == 303
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    # Browsers send cookies to every port of a host: only this path gets it.
    assert f"path={studio.prefix}" in cookie
    assert studio.send("GET", path, cookie=False).status == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:8765", ""]
)
def test_a_foreign_host_is_refused(studio, host):
    answer = studio.get("/", headers={"Host": host})
    assert answer.status == 403
    assert host not in answer.text or not host


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "https://127.0.0.1:8765"])
def test_a_cross_origin_post_is_refused(studio, origin):
    before = studio.get("/").text.count("/remove/")
    assert studio.post("/begin/empty", headers={"Origin": origin}).status == 403
    assert studio.get("/").text.count("/remove/") == before


def test_another_site_cannot_even_read(studio):
    assert studio.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status == 403
    assert studio.get("/", headers={"Sec-Fetch-Site": "same-site"}).status == 403
    assert studio.get("/", headers={"Sec-Fetch-Site": "same-origin"}).status == 200


def test_every_answer_is_locked_up(studio):
    for answer in (studio.get("/"), studio.get("/", cookie=False), studio.get("/nothing")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers
    assert studio.get("/").headers["cache-control"] == "no-store"


def test_a_form_that_is_too_long_is_refused(studio):
    session = studio.begin("empty")
    long = "x" * (5 << 20)
    assert studio.post(f"{session}/history/branch", {"branch": long}).status == 413


def test_a_container_may_listen_to_all_but_nobody_else_is_answered(tmp_path):
    running = start_studio(tmp_path / "sessions", tmp_path, "--listen", EVERYWHERE,
                           "--port", "8780")  # fmt: skip
    try:
        port = running.host.rpartition(":")[2]
        assert running.send("GET", "/", headers={"Host": f"{EVERYWHERE}:{port}"}).status == 403
        running.enter()
        assert running.get("/").status == 200
    finally:
        stop_studio(running)


def test_sessions_are_private_on_the_disk(studio):
    studio.begin("demo")
    assert stat.S_IMODE(studio.folder.stat().st_mode) == 0o700
    for path in studio.folder.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_an_unknown_session_or_page_is_not_there(studio):
    session = studio.begin("empty")
    for path in (
        "/sessions/000000000000/data",
        "/sessions/..%2f..%2fetc/data",
        f"{session}/nothing",
        f"{session}/data/nothing",
        "/static/../worker.py",
        "/static/%2e%2e/worker.py",
    ):
        assert studio.get(path).status in (403, 404), path


def test_paths_are_confined(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "file.csv").write_text("a\n1\n")
    (inside / "link").symlink_to(outside)
    places = OpenFolders((inside,))
    assert confine("file.csv", places) == inside / "file.csv"
    assert confine(str(inside / "." / "file.csv"), places) == inside / "file.csv"
    for text in ("../out", str(outside), "link/x", "/etc/passwd", "a\0b", "", "\n", "in/../../out"):
        with pytest.raises(DataError) as caught:
            confine(text, places)
        assert "passwd" not in str(caught.value)


def test_sessions_are_open_to_nobody_even_below_an_open_folder(tmp_path):
    """As where the studio is started in the home folder, which its sessions lie below, too."""
    own = tmp_path / "data" / "sessions"
    (own / "0123456789ab").mkdir(parents=True)
    (own / "0123456789ab" / "upload.csv").write_text("a\n1\n")
    (own.parent / "mine.csv").write_text("a\n1\n")
    for link, to in {"in": own, "further": own / "0123456789ab"}.items():
        (own.parent / link).symlink_to(to)
    tables = own.parent / "tables"
    tables.mkdir()
    (tables / "theirs.csv").symlink_to(own / "0123456789ab" / "upload.csv")
    places = Settings(folder=own.parent / "in", roots=(own.parent,)).places
    assert [entry.name for entry in list_folder("", places).entries] == ["tables", "mine.csv"]
    assert confine_data("mine.csv", places).is_file()
    for text in ("sessions", "sessions/0123456789ab", "sessions/0123456789ab/upload.csv", "in",
                 "tables/theirs.csv", "further/upload.csv", "tables/../sessions/new"):  # fmt: skip
        with pytest.raises(DataError, match="not open to the studio"):
            confine(text, places)
        assert find_start(text, places) == ""
    with pytest.raises(DataError, match="a link to a place"):
        confine_data("tables", places)


def test_what_holds_only_sessions_is_no_folder_to_open_files_from(tmp_path):
    own = tmp_path / "sessions"
    (own / "below").mkdir(parents=True)
    for roots in ((own,), (own / "below",)):
        with pytest.raises(PlanError, match="folder of the sessions"):
            Settings(folder=own, roots=roots)
    both = Settings(folder=own, roots=(own / "below", tmp_path)).places
    assert [entry.name for entry in list_folder("", both).entries] == []


@pytest.mark.parametrize(
    ("name", "stored"),
    [("a.csv", "a.csv"), ("../a.csv", "a.csv"), ("..\\a.csv", "a.csv"), (".hidden", "hidden"),
     ("a\0b.csv", "a_b.csv"), ("", "upload"), ("<img src=x>.csv", "_img src_x_.csv")],
)  # fmt: skip
def test_names_of_uploads_are_harmless(name, stored):
    assert clean_name(name) == stored


def test_guessing_tokens_is_slowed_down():
    door = Door()
    token = door.issue_token()
    for _ in range(50):
        assert door.redeem("wrong") is None
    assert door.is_besieged
    assert door.redeem(token) is not None  # the guard no longer asks; the door itself is just


def test_a_bucket_fills_again(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    bucket = Bucket(rate=2, burst=3)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    now[0] = 0.5
    assert [bucket.take() for _ in range(2)] == [True, False]
