"""`sfumato report` and `sfumato replicate`: pages written again, and the papers recomputed."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from tests.cli.command_line import sfumato
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.app import app
from sfumato.datasets.replication import k_anonymity


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


def test_replicate_writes_a_page(tmp_path, shared_data):
    done = sfumato(
        "replicate", "--paper", "crowds", "--data", str(shared_data), "--page", "page.md",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Table S6" in done.stdout
    assert "The papers, replicated" in (tmp_path / "page.md").read_text()
    told = sfumato("replicate", "--paper", "crowds", "--json", cwd=tmp_path)
    assert {one["status"] for one in json.loads(told.stdout)["crowds"]} == {
        "same", "explained", "cannot",
    }  # fmt: skip
    wrong = sfumato("replicate", "--paper", "crowd", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "did you mean 'crowds'" in wrong.stderr
    refused = sfumato("replicate", "--download", "http://localhost", cwd=tmp_path)
    assert refused.returncode == 2


def test_replicate_ends_with_3_where_a_number_differs(monkeypatch):
    words = ["replicate", "--paper", "crowds"]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert "35 to 35" in done.stdout  # the bound of what is explained
    monkeypatch.setattr(k_anonymity, "_TABLE_S9", {2: "0.26"})
    done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert done.exit_code == 3
    assert "k = 2" in done.stdout
    assert "1 different" in done.stdout
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 3
    different = [row for row in json.loads(done.stdout)["crowds"] if row["status"] == "different"]
    assert [(row["printed"], row["ours"]) for row in different] == [("0.26", pytest.approx(0.25))]
