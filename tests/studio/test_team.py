"""Behind a proxy: who it does not name gets nothing, and each sees what their role needs."""

from __future__ import annotations

import http.client
import re
import socket
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.studio.visitor import RunningStudio, start_studio, stop_studio
from tests.waiting import PATIENCE

from sfumato.cli.studio import read_proxy
from sfumato.errors import PlanError

SECRET = "a secret of the proxy and of nobody else"  # noqa: S105 - of a test
HOST = "studio.example.org"


USERS = '[users]\nada = "custodian"\nyou = "custodian"\nbob = "checker"\neve = "analyst"\n'


def find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def write_secret(folder: Path, text: str, mode: int = 0o600) -> None:
    (folder / "secret").write_text(text)
    (folder / "secret").chmod(mode)


def start_team(folder: Path, line: str = "") -> RunningStudio:
    write_secret(folder, f"{SECRET}\n")
    (folder / "team.toml").write_text(
        f'hosts = ["{HOST}"]\nsecret_file = "secret"\n{line}\n{USERS}'
    )
    return start_studio(folder / "sessions", folder, "--behind-proxy", str(folder / "team.toml"),
                        "--port", str(find_free_port()))  # fmt: skip


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    running = start_team(tmp_path_factory.mktemp("team"))
    yield running
    stop_studio(running)


@pytest.fixture(scope="module")
def trusting(tmp_path_factory):
    """A team in which custodians approve each other's releases."""
    running = start_team(tmp_path_factory.mktemp("trusting"), "custodians_approve = true")
    yield running
    stop_studio(running)


def told(user: str, *, secret: str = SECRET, host: str = HOST) -> dict[str, str]:
    """What the proxy sends along."""
    return {"Host": host, "Origin": f"https://{host}", "X-Sfumato-Proxy": secret,
            "X-Forwarded-User": user}  # fmt: skip


def begin(team: RunningStudio, user: str, kind: str = "empty") -> str:
    answer = team.post(f"/begin/{kind}", headers=told(user))
    assert answer.status == 303
    return answer.location


def test_only_the_proxy_is_heard(team):
    assert team.get("/", headers=told("ada")).status == 200
    assert team.get("/", headers=told("ada", secret=SECRET[:-1])).status == 403
    assert team.get("/", headers=told("ada", secret="")).status == 403
    assert team.get("/", headers=told("ada", host=team.host)).status == 403
    assert team.get("/", headers={"Host": HOST}).status == 403
    assert team.get("/", headers=told("mallory")).status == 403
    assert team.get("/?token=x", headers=told("mallory")).status == 403


@pytest.mark.parametrize("doubled", ["X-Forwarded-User", "X-Sfumato-Proxy"])
@pytest.mark.parametrize("first", ["mine", "theirs"])
def test_a_proxy_that_adds_its_headers_to_those_of_a_browser_serves_nobody(team, doubled, first):
    made_up = {"X-Forwarded-User": "ada", "X-Sfumato-Proxy": "guessed"}[doubled]
    values = [made_up, told("bob")[doubled]]
    connection = http.client.HTTPConnection(team.host, timeout=PATIENCE)
    connection.putrequest("GET", "/", skip_host=True)
    for name, value in told("bob").items():
        if name != doubled:
            connection.putheader(name, value)
    for value in values if first == "theirs" else values[::-1]:
        connection.putheader(doubled.lower() if value == made_up else doubled, value)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 400
    assert "says twice" in text
    assert "guessed" not in text


@pytest.mark.parametrize(
    ("text", "mode", "what"),
    [
        ("", 0o600, "fewer than 32"),
        (" " * 40, 0o600, "fewer than 32"),
        (SECRET[:31], 0o600, "fewer than 32"),
        (SECRET, 0o604, "Everybody"),
        (SECRET, 0o602, "Everybody"),
    ],
)
def test_a_secret_that_is_none_does_not_start_a_studio(tmp_path, text, mode, what):
    write_secret(tmp_path, text, mode)
    (tmp_path / "team.toml").write_text(f'hosts = ["h"]\nsecret_file = "secret"\n{USERS}')
    with pytest.raises(PlanError, match=what) as refused:
        read_proxy(tmp_path / "team.toml")
    assert SECRET[:31] not in str(refused.value)


def test_a_user_has_a_name(tmp_path):
    write_secret(tmp_path, SECRET, 0o640)  # those of its group may read it
    team = f'hosts = ["h"]\nsecret_file = "secret"\n{USERS}'
    (tmp_path / "team.toml").write_text(team)
    assert read_proxy(tmp_path / "team.toml").secret == SECRET
    (tmp_path / "team.toml").write_text(f'{team}"" = "custodian"\n')
    with pytest.raises(PlanError, match="no name"):
        read_proxy(tmp_path / "team.toml")


def test_two_custodians_do_not_see_each_other(team):
    address = begin(team, "ada")
    assert team.get(address, headers=told("ada")).status == 200
    for other in ("you", "eve"):
        assert team.get(address, headers=told(other)).status == 404
        assert address.rpartition("/")[0] not in team.get("/", headers=told(other)).text
        assert team.post(f"{address.rpartition('/')[0]}/history/undo",
                         headers=told(other)).status == 404  # fmt: skip
    session = address.split("/")[2]
    team.post(f"/remove/{session}", headers=told("you"))
    assert team.get(address, headers=told("ada")).status == 200


def test_a_checker_sees_what_is_to_be_checked_and_an_analyst_only_analyses(team):
    session = begin(team, "ada").rpartition("/")[0]
    assert team.get(f"{session}/outputs", headers=told("bob")).status == 200
    assert team.get(f"{session}/data", headers=told("bob")).status == 404
    assert team.post(f"{session}/history/undo", headers=told("bob")).status == 403
    assert team.post("/begin/demo", headers=told("eve")).status == 403
    own = begin(team, "eve")
    assert own.endswith("/analyse")
    assert team.get(own, headers=told("eve")).status == 200
    assert team.get(f"{own.rpartition('/')[0]}/data", headers=told("eve")).status == 404


def test_the_picker_shows_nobody_more_than_they_need(team):
    (team.root / "cohort.csv").write_text("x\n1\n")
    (team.root / "bob.pem").write_text("x")
    session = begin(team, "ada").rpartition("/")[0]
    own = begin(team, "eve").rpartition("/")[0]
    pages = {
        (user, want): team.get(f"{place}/pick/list?want={want}&field=f", headers=told(user)).text
        for user, place in (("ada", session), ("bob", session), ("eve", own))
        for want in ("data", "extract", "release", "key", "folder")
    }
    refused = {asked for asked, text in pages.items() if "nothing to choose" in text}
    assert {asked for asked in pages if asked[0] == "ada"} & refused == set()
    assert set(pages) - refused >= {("bob", "key"), ("eve", "release")}
    assert len(set(pages) - refused) == 7
    assert {asked for asked, text in pages.items() if "cohort.csv" in text} == {
        ("ada", "data"), ("ada", "extract")}  # fmt: skip
    assert {asked for asked, text in pages.items() if "bob.pem" in text} == {
        ("ada", "key"), ("bob", "key")}  # fmt: skip


def test_a_second_custodian_approves_and_does_nothing_else(trusting):
    session = begin(trusting, "ada", "demo").rpartition("/")[0]
    subject = re.search(r'name="subject" value="(\w+)"',
                        trusting.get(f"{session}/release", headers=told("ada")).text)  # fmt: skip
    assert subject is not None

    def say(user: str, decision: str) -> str:
        fields = {"subject": subject[1], "decision": decision, "comment": "looked at it"}
        answer = trusting.send("POST", f"{session}/release/approve", body=urlencode(fields),
                               headers=told(user))  # fmt: skip
        assert answer.status == 303
        return str(trusting.get(f"{session}/release", headers=told(user)).text)

    assert "You cannot approve your own work" in say("ada", "approve")
    assert "You began this session" in trusting.get(f"{session}/release", headers=told("ada")).text
    # The other one finds it on the first page, and sees what a checker sees.
    assert f'href="{session}/release"' in trusting.get("/", headers=told("you")).text
    for page in ("data", "roles", "risk", "protect", "compare", "analyse"):
        assert trusting.get(f"{session}/{page}", headers=told("you")).status == 404
    assert trusting.post(f"{session}/data/open", headers=told("you")).status == 404
    assert trusting.post(f"{session}/history/undo", headers=told("you")).status == 403
    to = trusting.root / "out"
    trusting.post(f"{session}/release/write", {"to": str(to)}, headers=told("you"))
    page = trusting.get(f"{session}/release", headers=told("you")).text
    assert "Only the custodian does this" in page
    assert not to.exists()
    assert "This plan is approved." in say("you", "approve")
    # What is chosen afterwards was not approved, and is not written.
    chosen = {"to": str(to), "overwrite": "1"}
    trusting.post(f"{session}/release/write", chosen, headers=told("ada"))
    page = trusting.get(f"{session}/release", headers=told("ada")).text
    assert "The approval no longer counts; changed since: how the release is written." in page
    assert "An earlier release in the folder: replaced." in page
    assert not to.exists()
    trusting.post(f"{session}/release/choose", {"to": str(to)}, headers=told("ada"))
    page = trusting.get(f"{session}/release", headers=told("ada")).text
    assert "This plan is approved." in page
    assert "This plan is rejected." in say("bob", "reject")
    # Their own session is theirs, and an analyst sees neither.
    own = begin(trusting, "you")
    assert trusting.get(own, headers=told("you")).status == 200
    assert trusting.get(f"{session}/release", headers=told("eve")).status == 404
    analysing = begin(trusting, "eve").rpartition("/")[0]
    assert trusting.get(f"{analysing}/outputs", headers=told("you")).status == 404


@pytest.mark.parametrize("line", ['custodians_approve = "yes"', "", "users = 3"])
def test_a_file_that_says_nothing_clear_is_refused(tmp_path, line):
    write_secret(tmp_path, SECRET)
    roles = '[users]\nada = "owner"\n' if not line else "" if "users" in line else USERS
    (tmp_path / "team.toml").write_text(f'hosts = ["h"]\nsecret_file = "secret"\n{line}\n{roles}')
    with pytest.raises(PlanError, match="does not say how"):
        read_proxy(tmp_path / "team.toml")
