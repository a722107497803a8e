"""A plan carried out on a real Spark cluster gives the release that one machine gives."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.cli.command_line import sfumato
from tests.engines.spark_frames import download, upload
from tools.spark_cluster import Cluster

import sfumato as sf
from sfumato.engines import engine_for, spark_source
from sfumato.errors import DataError
from sfumato.plan import Writing
from sfumato.run.composition import hold_composition
from sfumato.storage import cluster as parts
from sfumato.storage.opening import read_custody, read_manifest
from sfumato.storage.verifying import verify_release

pytestmark = [
    pytest.mark.spark,
    # Py4J leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
KEY = "5" * 64
RECORDS = 300
NAMES = ["person_id", "sex", "region", "household_size", "smoking", "income", "height"]
SCHEMA = sf.Schema({name: sf.datasets.cohort_schema()[name] for name in NAMES})
PLAN = sf.Plan(
    schema=SCHEMA,
    steps=[
        sf.methods.Drop(),
        sf.methods.Coarsen(variables=["household_size"], intervals=3),
        sf.methods.Noise(variables=["height"], variance=16.0),
    ],
    targets={"uniqueness": {"max": 0.5}},
    evaluate=[sf.risk.Uniqueness(known=["sex", "region", "household_size"])],
    release=Writing(accept_attacks="a few hundred records, to see that both are the same"),
)


@pytest.fixture(scope="module")
def records() -> pl.DataFrame:
    return sf.datasets.cohort(RECORDS).select(NAMES)


@pytest.fixture(scope="module")
def here(records: pl.DataFrame) -> sf.Dataset:
    return sf.Dataset(records, SCHEMA)


def _put(session: Any, records: pl.DataFrame, number: int) -> sf.Dataset:
    frame = upload(session, records.sample(fraction=1, shuffle=True, seed=1))
    return sf.Dataset(frame.repartition(number), SCHEMA)


@pytest.fixture(scope="module")
def folder(
    session: Any, records: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, sf.Release]:
    """A release that the cluster has written, in several files."""
    release = sf.protect(_put(session, records, 3), PLAN, key=KEY)
    path = tmp_path_factory.mktemp("releases") / "release"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "RECORDS_A_FILE", 100)
        release.write(path)
    return path, release


def _sorted(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort(frame.columns)


def test_values_evidence_and_manifest_are_those_of_one_machine(
    folder: tuple[Path, sf.Release], here: sf.Dataset
) -> None:
    path, release = folder
    local = sf.protect(here, PLAN, key=KEY)
    assert _sorted(download(release.data)).equals(_sorted(local.data))
    evidence, wanted = release.evidence["uniqueness"], local.evidence["uniqueness"]
    assert (evidence.value, evidence.baseline) == (wanted.value, wanted.baseline)
    written = read_manifest(path)
    for entry in ("records", "variables", "methods", "noise", "targets", "key_commitment"):
        assert written[entry] == json.loads(json.dumps(local.manifest[entry])), entry
    assert len(list((path / "data.parquet").iterdir())) == 3
    reasons = release.lights.targets.reasons
    assert any("On a cluster" in reason for reason in reasons)


def test_the_folder_is_verified_there_and_here(
    folder: tuple[Path, sf.Release], here: sf.Dataset, session: Any, records: pl.DataFrame
) -> None:
    path, _ = folder
    for original in (_put(session, records, 2), here):
        checks = verify_release(path, original)
        assert {check.name: check.passed for check in checks if not check.passed} == {}
    part, stranger = (path / "data.parquet" / f"part-0000{n}.parquet" for n in (1, 9))
    content = part.read_bytes()
    try:
        part.write_bytes(content[:-1] + b"?")
        stranger.write_bytes(content)
        failed = {check.name for check in verify_release(path, here) if check.passed is False}
    finally:
        part.write_bytes(content)
        stranger.unlink()
    assert failed >= {"data", "folder"}


def test_pairs_are_found_again_in_the_folder(
    folder: tuple[Path, sf.Release], here: sf.Dataset, session: Any, records: pl.DataFrame
) -> None:
    path, release = folder
    there = _put(session, records, 2)
    paired = sf.run.pair(there, path)[1]
    ids = download(vars(paired.identity)["frame"])
    before = download(vars(release.dataset.identity)["frame"])
    names = ["smoking", "height", "__sfumato_id_0", "__sfumato_id_1"]
    found, wanted = (_sorted(table.select(names)) for table in (ids, before))
    assert found.equals(wanted)
    local = sf.run.pair(here, path)[1]
    assert sorted(local.identity.digests[:, 0].view("int64").tolist()) == sorted(
        found["__sfumato_id_0"].to_list()
    )
    measured = sf.evaluate(there, path, ["uniqueness"])["uniqueness"]
    assert measured.value == sf.evaluate(here, path, ["uniqueness"])["uniqueness"].value


def test_a_worker_that_dies_changes_nothing(
    folder: tuple[Path, sf.Release],
    session: Any,
    records: pl.DataFrame,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same bytes, although an executor dies while it protects and another while it writes."""
    killed: list[int] = []

    def kill(what: str, done: int, total: int) -> None:
        moments = ("protecting: step 3", "checking what was written")
        if len(killed) < len(moments) and what.startswith(moments[len(killed)]):
            victim = cluster.find_executors()[0]
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    monkeypatch.setattr(parts, "RECORDS_A_FILE", 100)
    # Another layout of the records as well.
    release = sf.protect(_put(session, records, 5), PLAN, key=KEY, progress=kill)
    release.write(tmp_path / "release", ledger=False, progress=kill)
    assert len(killed) == 2
    assert read_manifest(tmp_path / "release")["data"] == read_manifest(folder[0])["data"]
    again, first = (read_custody(path) for path in (tmp_path / "release", folder[0]))
    assert again["input"] == first["input"]


def test_where_the_cluster_is_gone_there_is_no_release(
    folder: tuple[Path, sf.Release], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise OSError("the disk of a worker is full")

    monkeypatch.setattr(parts, "_describe", fail)
    with pytest.raises(sf.errors.ReleaseError, match="could not be written"):
        folder[1].write(tmp_path / "release", ledger=False)
    assert list(tmp_path.iterdir()) == []


def test_releases_of_the_same_records_are_refused_unless_accepted(
    folder: tuple[Path, sf.Release],
) -> None:
    _, release = folder
    from sfumato.run.composition import pair_release

    earlier = [pair_release(release.original, release)]
    held = hold_composition(PLAN, release.original, release.dataset, earlier)
    assert not held.evidence.computed
    assert [judgement.met for judgement in held.verdict] == [False]


def test_the_command_line_does_it_all(
    session: Any,
    cluster: Cluster,
    records: pl.DataFrame,
    tmp_path: Path,
) -> None:
    def run(*words: object) -> Any:
        done = sfumato(*words, "--engine", "spark", "--master", cluster.master, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    files, plan, out = tmp_path / "cohort", tmp_path / "plan.toml", tmp_path / "release"
    files.mkdir()
    for number in range(2):
        records[number::2].write_csv(files / f"{number}.csv")
    first = [sf.methods.Drop(), sf.methods.Topcode(variables=["height"], top=190.0)]
    plan.write_text(sf.Plan(schema=SCHEMA, steps=first, release=PLAN.release).text())
    found = run("inspect", files)
    assert found["records"] == RECORDS
    assert found["variables"]["person_id"]["distinct"] == RECORDS
    assert "of 300 records" in found["read"][0]
    made = run("protect", files, "-p", plan, "-o", out)
    assert made["data"]["parts"].keys() == {"part-00000.parquet"}
    checks = run("verify", out)
    assert {check["name"] for check in checks} >= {"data", "custody", "folder"}


def test_a_csv_folder_is_read_as_one_machine_reads_it(session: Any, tmp_path: Path) -> None:
    table = pl.DataFrame(
        {
            "code": ["007", "12", "3"],
            "number": ["1", "", "NA"],
            "day": ["2024-01-05", "2024-02-01", ""],
            "mixed": ["1", "2.5", "x"],
            "share": ["0.5", "1", "-2"],
        }
    )
    table.write_csv(tmp_path / "a.csv")
    there = spark_source.read_on_cluster(session, str(tmp_path))
    here = sf.read(tmp_path / "a.csv")
    assert {name: there.dtype(name) for name in there.columns} == {
        name: here.dtype(name) for name in here.columns
    }
    assert _sorted(download(there.frame)).equals(_sorted(here.frame))
    # An error of ours on a worker is told here as it was there; any other is not quoted.
    wrong = spark_source.read_on_cluster(session, str(tmp_path), types={"mixed": "integer"})
    with pytest.raises(DataError, match="Variable 'mixed' holds cells that are no integer"):
        engine_for(wrong.frame).distinct(wrong, ["mixed"])
    session.createDataFrame([(1, "a")], "x int, y string").createOrReplaceTempView("people")
    assert spark_source.read_on_cluster(session, "table:people").columns == ("x", "y")
    with pytest.raises(DataError, match="cannot be read on the cluster"):
        spark_source.read_on_cluster(session, "table:nobody")
