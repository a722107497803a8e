"""Opening data: by path, by upload, from a database; what is said of them, and what is refused."""

from __future__ import annotations

import re
import shutil
import stat
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args
from urllib.parse import urlencode

import duckdb
import polars as pl
import pytest
from tests.studio.visitor import run_apart
from tests.waiting import wait_until

import sfumato as sf
from sfumato.errors import DataError
from sfumato.studio.diagram import draw_tables
from sfumato.studio.pages.data import list_problems
from sfumato.studio.paths import OpenFolders
from sfumato.studio.picker import Want, find_start, list_folder
from sfumato.studio.source import DataSource
from sfumato.studio.tasks import Work
from sfumato.studio.tasks.data import check_links, describe_data, preview, suggest_links
from sfumato.studio.uploads import store, unpack
from sfumato.studio.worker import Workshop

CSV = "id,sex,weight\n1,f,60\n2,F ,71\n3,m,n.k.\n3,m,n.k.\n4,m,80\n5,m,80\n6,m,80\n"


def work_on(path: Path, folder: Path, *, linked: bool = False, plan: str = "") -> Work:
    source = DataSource(where=str(path), title=path.name, linked=linked)
    return Work(workshop=Workshop(), source=source, plan_text=plan, folder=folder)


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    path = tmp_path / "odd.csv"
    path.write_text(CSV)
    return path


def test_what_looks_odd_is_counted_without_a_value(odd, tmp_path):
    description = describe_data(work_on(odd, tmp_path))
    assert description["records"] == 7
    assert description["duplicates"] == 1
    found = {item["name"]: item for item in description["variables"]}
    assert (found["sex"]["distinct"], found["sex"]["united"]) == (3, 2)
    assert found["weight"]["mixed"] == {"mostly": "numbers", "others": 2}
    assert [problem["kind"] for problem in list_problems(description)] == ["", "spellings", "mixed"]
    assert "n.k." not in str(description)


def test_dates_of_which_the_day_is_unclear_are_told_and_declared(studio, tmp_path):
    file = studio.root / "visits.csv"
    file.write_text("visit\n03/04/1999\n05/06/2001\n07/08/2003\n")
    found = describe_data(work_on(file, tmp_path))
    assert found["variables"][0]["mixed"] == {"mostly": "dates", "others": 0}
    assert [problem["kind"] for problem in list_problems(found)] == ["unclear"]
    session = studio.begin("empty")
    # In quotation marks, as Windows copies a path.
    studio.post(f"{session}/data/open", {"path": f'"{file}"'})
    studio.post(f"{session}/data/type", {"table": "", "name": "visit", "type": "date|%d/%m/%Y"})
    plan = studio.get(f"{session}/release/plan").text
    assert sf.Plan.parse(plan).read == {"types": {"visit": "date"}, "dates": {"visit": "%d/%m/%Y"}}
    declared = describe_data(work_on(file, tmp_path, plan=plan))
    assert declared["variables"][0]["type"] == "date"


def test_reading_as_corrected_changes_what_is_described(odd, tmp_path):
    plan = sf.Plan(read={"missing": ["n.k."]}).text()
    description = describe_data(work_on(odd, tmp_path, plan=plan))
    weight = next(item for item in description["variables"] if item["name"] == "weight")
    assert weight["type"] == "integer"
    assert weight["missing"] == pytest.approx(2 / 7)


def test_records_are_shown_a_page_at_a_time(odd, tmp_path):
    shown = preview(work_on(odd, tmp_path), first=5, rows=20)
    assert shown["records"] == 7
    assert [row[0] for row in shown["cells"]] == [["5", ""], ["6", ""]]


def test_keys_are_suggested_checked_and_drawn(tmp_path):
    pl.DataFrame({"patient": [1, 2, 3]}).write_csv(tmp_path / "patients.csv")
    pl.DataFrame({"patient": [1, 1, 9, 2]}).write_csv(tmp_path / "stays.csv")
    work = work_on(tmp_path, tmp_path, linked=True)
    links = suggest_links(work)
    assert links["person"] == "patients.patient"
    assert [key[:2] for key in links["keys"]] == [["stays.patient", "patients.patient"]]
    checks = check_links(work, keys=[key[:2] for key in links["keys"]])
    assert checks["stays.patient"] == {"rows": 4, "orphans": 1, "repeated": 0}
    drawing = draw_tables(
        {"patients": 3, "stays": 4}, [links["keys"][0][:2]], "patients.patient", checks
    )
    assert drawing.arrows[0].label == "1 row leads nowhere"
    assert drawing.arrows[0].tone == "bad"


def test_the_picker_stays_below_its_folders(tmp_path):
    inside = tmp_path / "inside"
    (inside / "below").mkdir(parents=True)
    (inside / "a.csv").write_text(CSV)
    (inside / "notes.md").write_text("x")
    (tmp_path / "secret.csv").write_text(CSV)
    (inside / "link.csv").symlink_to(tmp_path / "secret.csv")
    (inside / "up").symlink_to(tmp_path)
    folder = list_folder("", OpenFolders((inside,)))
    assert [entry.name for entry in folder.entries] == ["below", "a.csv"]
    assert (folder.tables, folder.others) == (1, 3)
    assert [
        name for name, _ in list_folder(str(inside / "below"), OpenFolders((inside,))).crumbs
    ] == [
        "inside",
        "below",
    ]
    for outside in (f"{inside}/..", f"{inside}/up", "/etc", f"{inside}/a\x00"):
        for want in get_args(Want):
            with pytest.raises(DataError):
                list_folder(outside, OpenFolders((inside,)), want=want)
        assert find_start(outside, OpenFolders((inside,))) in ("", str(inside))


def test_the_picker_shows_what_is_looked_for_and_no_other_file(tmp_path):
    for name in ("a.csv", "b.csv", "my-key.pem", "my-key.public.pem", "release/manifest.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n1\n")
    (tmp_path / "trap").mkdir()
    (tmp_path / "trap" / "manifest.json").symlink_to(tmp_path / "release" / "manifest.json")

    def choices(want: Want, folder: str = "") -> list[str]:
        found = list_folder(folder, OpenFolders((tmp_path,)), want=want)
        itself = [found.path] if found.choice else []
        return [*itself, *(entry.name for entry in found.entries if entry.choice)]

    assert choices("data") == ["a.csv", "b.csv"]
    assert choices("extract") == [str(tmp_path), "a.csv", "b.csv"]
    assert choices("key") == ["my-key.pem"]
    assert choices("release") == ["release"]
    assert choices("release", "release") == [str(tmp_path / "release")]
    assert choices("folder") == [str(tmp_path), "release", "trap"]
    assert find_start(str(tmp_path / "release" / "new" / "name"), OpenFolders((tmp_path,))) == str(
        tmp_path / "release"
    )


def test_the_picker_answers_by_role_and_below_the_folders_only(studio):
    session = studio.begin("empty")
    (studio.root / "secrets.csv").write_text(CSV)
    listed = studio.get(f"{session}/pick/list?want=extract&field=next-file").text
    assert 'data-choose="' + str(studio.root / "secrets.csv") in listed
    assert "secrets" not in studio.get(f"{session}/pick/list?want=folder&field=to").text
    assert "not open to the studio" in studio.get(
        f"{session}/pick/list?want=folder&field=to&folder=/etc"
    ).text  # fmt: skip
    assert "nothing to choose" in studio.get(f"{session}/pick/list?want=all&field=to").text
    assert studio.get(f"{session}/pick").status == 404


def write_zip(path: Path, parts: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            packed.writestr(name, content)
    return path


def test_tables_are_unpacked_privately_and_nothing_else_is(tmp_path):
    parts = {
        "data/a.csv": b"x\n1\n",
        "b.csv": b"x\n2\n",
        "read.me": b"no",
        "__MACOSX/._a.csv": b"no",
    }
    unpack(write_zip(tmp_path / "tables.zip", parts), 1 << 20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.csv"]
    assert stat.S_IMODE((tmp_path / "a.csv").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("parts", "most", "what"),
    [
        ({"../a.csv": b"x\n1\n"}, 1 << 20, "outside its folder"),
        ({"/etc/a.csv": b"x\n1\n"}, 1 << 20, "outside its folder"),
        ({"a.csv": b"x" * 5000}, 1000, "more than the"),
        ({"a/x.csv": b"x\n1\n", "b/x.csv": b"x\n1\n"}, 1 << 20, "the same name"),
        ({f"{n}.csv": b"x\n1\n" for n in range(201)}, 1 << 20, "more than 200 files"),
        ({"read.me": b"no"}, 1 << 20, "no table"),
        ({"bomb.csv": bytes(80 << 20)}, 1 << 30, "far more than tables do"),
    ],
)
def test_harmful_archives_are_refused(tmp_path, parts, most, what):
    archive = write_zip(tmp_path / "tables.zip", parts)
    with pytest.raises(DataError, match=what):
        unpack(archive, most)


def test_a_link_in_an_archive_is_refused(tmp_path):
    info = zipfile.ZipInfo("link.csv")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "tables.zip", "w") as packed:
        packed.writestr(info, "/etc/passwd")
    with pytest.raises(DataError, match="link"):
        unpack(tmp_path / "tables.zip", 1 << 20)


async def send(*chunks: bytes, broken: bool = False) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    if broken:
        raise ConnectionError


@pytest.mark.parametrize(
    ("chunks", "broken", "most"),
    [([b"a" * 50], True, 1000), ([b"a" * 50] * 30, False, 1000), ([], False, 9)],
)
def test_half_an_upload_is_removed(tmp_path, chunks, broken, most):
    stream = send(*chunks, broken=broken)
    with pytest.raises((ConnectionError, DataError)):
        run_apart(store(stream, tmp_path, "a.csv", length=0, most=most))
    assert list(tmp_path.iterdir()) == []


def wait(studio, path: str, text: str) -> str:
    """The page once it says something."""

    def read() -> str:
        page = str(studio.get(path).text)
        return page if text in page else ""

    return wait_until(read, f"'{text}' on {path}")


def upload(studio, session: str, name: str, content: bytes, *, batch: str = "batch-12345"):
    query = urlencode({"name": name, "number": 0, "of": 1, "batch": batch})
    return studio.send("POST", f"{studio.prefix}{session}/data/upload?{query}", body=content)


def test_an_upload_is_stored_privately_and_opened(studio):
    session = studio.begin("empty")
    answer = upload(studio, session, "../../odd.csv", CSV.encode())
    assert answer.status == 303
    page = wait(studio, f"{session}/data", "Exact copies of an earlier row: 1")
    assert "odd.csv" in page
    stored = list(studio.folder.glob("*/uploads/*/odd.csv"))
    assert len(stored) == 1
    assert stat.S_IMODE(stored[0].stat().st_mode) == 0o600


def test_what_cannot_be_read_is_told_and_nothing_is_lost(studio):
    session = studio.begin("empty")
    assert upload(studio, session, "virus.exe", b"MZ").status == 422
    assert upload(studio, session, "empty.csv", b"", batch="batch-empty").status == 422
    assert "is empty" in upload(studio, session, "e.csv", b"", batch="batch-empty2").text
    assert not list(studio.folder.glob("*/uploads/batch-empty*"))
    upload(studio, session, "good.csv", CSV.encode(), batch="batch-good")
    upload(studio, session, "broken.xlsx", b"no workbook", batch="batch-broken")
    wait(studio, f"{session}/data", "not a whole spreadsheet")
    studio.post(f"{session}/history/undo", {"back": "data"})
    wait(studio, f"{session}/data", "good.csv")
    # As after a restart: uploads are gone, and the page says why.
    shutil.rmtree(studio.folder / session.rpartition("/")[2] / "uploads" / "batch-good")
    assert "uploads are removed when the studio stops" in studio.get(f"{session}/data").text


def test_a_database_is_opened_by_its_tables(studio):
    path = studio.root / "ward.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE patients AS SELECT 1 AS id, 'f' AS sex")
        connection.execute("CREATE TABLE stays AS SELECT 1 AS patient_id, 3 AS days")
    session = studio.begin("empty")
    answer = studio.post(f"{session}/data/open", {"path": str(path)})
    assert answer.location.endswith("choose=tables")
    page = studio.get(f"{session}/data?choose=tables").text
    assert re.findall(r'name="table" value="(\w+)"', page) == ["patients", "stays"]
    studio.post(f"{session}/data/choose", {"table": ["patients"]})
    assert "ward.duckdb, patients" in wait(studio, f"{session}/data", 'table class="preview"')


def test_a_password_is_shown_nowhere(studio):
    session = studio.begin("empty")
    fields = {"path": "postgresql://ada@127.0.0.1:1/none", "password": "hunter2/@"}
    studio.post(f"{session}/data/open", fields)
    page = studio.get(f"{session}/data").text
    assert "cannot be reached" in page
    folder = studio.folder / session.rpartition("/")[2]
    said = page + (folder / "history.json").read_text() + (folder / "audit.jsonl").read_text()
    assert "hunter2" not in said


def test_paths_outside_are_refused(studio):
    session = studio.begin("empty")
    for path in ("/etc/passwd", "../../etc/passwd", "duckdb:////etc/passwd"):
        studio.post(f"{session}/data/open", {"path": path})
        assert "not open to the studio" in studio.get(f"{session}/data").text
