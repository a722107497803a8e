"""`sfumato report`: pages written again."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from tests.cli.command_line import sfumato

import sfumato as sf


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("report")
    frame = sf.datasets.cohort(200)
    frame.write_csv(folder / "cohort.csv")
    schema = sf.datasets.cohort_schema()
    plan = sf.Plan(
        schema=schema,
        steps=[
            sf.methods.Drop(),
            sf.methods.Drop(variables=["postcode", "school"]),
            sf.methods.KAnonymity(k=3),
        ],
        targets={"k.min": 3},
        read={"types": {"postcode": "text", "nhs_number": "text"}},
    )
    data = sf.read(folder / "cohort.csv", **plan.read).with_schema(schema)
    sf.protect(data, plan, key=bytes(range(32))).write(folder / "release")
    return folder


def test_the_public_page_is_the_one_in_the_folder(place):
    done = sfumato("report", "release", "--out", "page.html", cwd=place)
    assert done.returncode == 0, done.stderr
    assert (place / "page.html").read_bytes() == (place / "release" / "report.html").read_bytes()
    again = sfumato("report", "release", "--out", "page.html", cwd=place)
    assert again.returncode == 2
    assert "exists already" in again.stderr


def test_the_inside_page_with_attacks(place):
    done = sfumato(
        "report", "release", "--edition", "inside", "--original", "cohort.csv", "--attacks",
        "--measure", "moments", "--out", "inside.html", "--json", cwd=place,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    twin = json.loads(done.stdout)
    assert {"singling_out", "mixed_linkage", "attribute_inference", "moments"} <= set(
        twin["custody"]["evidence"]
    )
    text = (place / "inside.html").read_text()
    assert "What an outsider could still do" in text
    assert "inside only" in text
    assert stat.S_IMODE((place / "inside.html").stat().st_mode) == 0o600
    key = (place / "release" / "custody" / "key").read_text().strip()
    assert key not in text + done.stdout


def test_what_stays_inside_is_not_put_into_the_public_page(place):
    done = sfumato(
        "report", "release", "--original", "cohort.csv", "--attacks", "--out", "x.html", cwd=place
    )
    assert done.returncode == 2
    assert "belongs to the inside edition" in done.stderr
    assert not (place / "x.html").exists()
    nowhere = sfumato("report", "release", cwd=place)
    assert nowhere.returncode == 2
    missing = sfumato("report", "nothing", "--out", "y.html", cwd=place)
    assert missing.returncode == 4
