"""Behind a proxy: who it does not name gets nothing, and each sees what their role needs."""

from __future__ import annotations

import pytest
from tests.studio.visitor import RunningStudio, start_studio, stop_studio

SECRET = "a secret of the proxy"  # noqa: S105 - of a test
HOST = "studio.example.org"


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    folder = tmp_path_factory.mktemp("team")
    (folder / "secret").write_text(f"{SECRET}\n")
    (folder / "team.toml").write_text(
        f'hosts = ["{HOST}"]\nsecret_file = "secret"\n'
        '[users]\nada = "custodian"\nyou = "custodian"\nbob = "checker"\neve = "analyst"\n'
    )
    running = start_studio(folder / "sessions", folder, "--behind-proxy", str(folder / "team.toml"),
                           "--port", "8790")  # fmt: skip
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
    assert team.get("/", headers=told("ada", host="127.0.0.1:8790")).status == 403
    assert team.get("/", headers={"Host": HOST}).status == 403
    assert team.get("/", headers=told("mallory")).status == 403
    assert team.get("/?token=x", headers=told("mallory")).status == 403


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
