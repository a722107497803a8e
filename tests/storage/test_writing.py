"""The release on disk: complete, checked, private where it must be, the same bytes each time."""

from __future__ import annotations

import json
import re
import stat
import warnings

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import ReleaseError, RepeatedReleaseWarning, TargetError
from sfumato.run.measuring import take_measures
from sfumato.storage.opening import open_release
from sfumato.storage.verifying import verify_release
from sfumato.storage.writing import keep_attempt

KEY = sf.Key(bytes(range(32)))


def plan(**more) -> sf.Plan:
    return sf.Plan(
        schema=sf.datasets.cohort_schema(),
        steps=[
            sf.methods.Pseudonymise(variables=["person_id"]),
            sf.methods.Drop(),
            sf.methods.Coarsen(variables=["birth_date", "height"], intervals=3),
        ],
        evaluate={"census": sf.risk.Uniqueness(known=["sex", "region"])},
        **more,
    )


def release(data: sf.Dataset, **more) -> sf.Release:
    return sf.protect(data, plan(targets={"census.max": 0.5}, **more), key=KEY)


def writing(**options):
    from sfumato.plan import Writing

    return Writing(**options)


def test_everything_is_there_and_private_things_are_private(cohort, tmp_path):
    folder = release(cohort).write(tmp_path / "out")
    assert sorted(path.name for path in folder.iterdir()) == [
        "codebook.html",
        "codebook.json",
        "custody",
        "data.parquet",
        "manifest.json",
        "report.html",
    ]
    assert sorted(path.name for path in (folder / "custody").iterdir()) == [
        "custody.json",
        "key",
        "plan.toml",
        "purpose.json",
        "records.parquet",
        "report.html",
    ]
    assert stat.S_IMODE((folder / "custody").stat().st_mode) == 0o700
    for path in (folder / "custody").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert (folder / "custody" / "key").read_text().strip() == KEY.text
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("format", ["csv", "parquet", "arrow", "xlsx", "dta", "sav"])
def test_what_is_read_back_is_what_was_protected(cohort, tmp_path, format):
    made = release(cohort, release=writing(format=format))
    opened = open_release(made.write(tmp_path / "out"))
    paired = opened.paired(cohort)
    order = made.order()
    assert order is not None
    for name in made.dataset.columns:
        was = made.dataset.column(name).gather(order)
        now = paired.column(name)
        if was.dtype.is_numeric():
            assert now.cast(pl.Float64).to_list() == was.cast(pl.Float64).to_list(), name
        else:
            assert now.cast(pl.String).to_list() == was.cast(pl.String).to_list(), name


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_the_bytes_do_not_depend_on_the_order_of_rows(cohort, tmp_path, format):
    shuffled = cohort.frame[np.random.default_rng(3).permutation(len(cohort))]
    files = []
    for at, frame in enumerate((cohort.frame, shuffled)):
        data = sf.Dataset(frame, cohort.schema)
        folder = release(data, release=writing(format=format)).write(tmp_path / str(at))
        files.append([(folder / one).read_bytes() for one in (f"data.{format}", "manifest.json")])
        files[-1].append((folder / "report.html").read_bytes())
    assert files[0] == files[1]


def test_rows_leave_in_another_order_unless_the_plan_keeps_it(cohort, tmp_path):
    mixed = open_release(release(cohort).write(tmp_path / "mixed"))
    kept = open_release(release(cohort, release=writing(keep_order=True)).write(tmp_path / "kept"))
    scores = cohort.frame["exam_score"].to_list()
    assert kept.data["exam_score"].to_list() == scores
    assert mixed.data["exam_score"].to_list() != scores


def test_nothing_is_overwritten_unless_told(cohort, tmp_path):
    made = release(cohort)
    folder = made.write(tmp_path / "out")
    before = (folder / "manifest.json").read_bytes()
    with pytest.raises(ReleaseError, match="exists already"):
        made.write(folder)
    with pytest.raises(ReleaseError, match="would destroy the key"):
        sf.protect(cohort, plan()).write(folder, overwrite=True)
    assert (folder / "manifest.json").read_bytes() == before
    other = sf.protect(cohort, plan(), key=KEY).write(folder, overwrite=True)
    assert (other / "manifest.json").read_bytes() != before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.txt").write_text("x")
    with pytest.raises(ReleaseError, match="is not a release"):
        made.write(tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "precious.txt").exists()


def test_the_input_is_never_overwritten(cohort_frame, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    cohort_frame.write_parquet(folder / "cohort.parquet")
    data = sf.read(folder / "cohort.parquet", schema=sf.datasets.cohort_schema())
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(ReleaseError, match="contains the original data"):
        release(data).write(folder, overwrite=True)
    assert (folder / "cohort.parquet").exists()


def test_targets_are_measured_again_on_the_written_file(cohort, tmp_path, monkeypatch):
    """A writer that spoils the data is caught, and nothing appears."""
    made = release(cohort)

    def spoiled(frame, path, **options):
        frame.with_columns(region=pl.int_range(pl.len()).cast(pl.String)).write_parquet(path)
        return {}

    monkeypatch.setattr("sfumato.storage.writing.write_table", spoiled)
    with pytest.raises(ReleaseError, match="cannot hold some cells.*'region'"):
        made.write(tmp_path / "out")
    monkeypatch.setattr("sfumato.storage.writing.require_same", lambda wanted, written: None)
    with pytest.raises(TargetError, match="census at most 0.5.*: MISSED, it is 1"):
        made.write(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_second_key_for_the_same_data_warns(cohort, tmp_path):
    release(cohort).write(tmp_path / "one")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release(cohort).write(tmp_path / "same-key")
    other = sf.protect(cohort, plan())
    with pytest.warns(RepeatedReleaseWarning, match="under another key, in 'one', 'same-key'"):
        other.write(tmp_path / "two")


def test_verify_passes_what_is_whole_and_finds_every_change(cohort, tmp_path):
    folder = release(cohort).write(tmp_path / "out")
    checks = verify_release(folder, cohort)
    assert [one.name for one in checks] == [
        "data", "manifest", "key", "plan", "custody", "files", "folder", "permissions", "targets",
        "original", "census",
    ]  # fmt: skip
    assert all(one.passed for one in checks)

    def failed() -> list[str]:
        checks = {one.name: one.passed for one in verify_release(folder)}
        # Of what was changed, nobody measures targets.
        assert checks.pop("targets", None) in (None, True)
        return [name for name, passed in checks.items() if passed is not True]

    def spoil(path, change):
        content = path.read_bytes()
        path.write_bytes(change(content))
        names = failed()
        path.write_bytes(content)
        return names

    data = folder / "data.parquet"
    assert spoil(data, lambda old: old[:200] + b"x" + old[201:]) == ["data"]
    manifest = folder / "manifest.json"
    blank = spoil(manifest, lambda old: old.replace(b'"records": 300', b'"records":  300'))
    assert blank == ["manifest"]
    assert spoil(manifest, lambda old: old.replace(b'"max": 0.5', b'"max": 0.6')) == ["manifest"]
    for key in (b"0" * 64 + b"\n", b"nonsense"):
        # Under another key nothing is authentic.
        assert spoil(folder / "custody" / "key", lambda old, key=key: key) == [
            "manifest", "key", "custody",
        ]  # fmt: skip
    plan_file = folder / "custody" / "plan.toml"
    assert spoil(plan_file, lambda old: old.replace(b"max = 0.5", b"max = 0.9")) == ["plan"]
    assert spoil(folder / "report.html", lambda old: old + b" ") == ["files"]
    assert spoil(folder / "custody" / "records.parquet", lambda old: old[:-1]) == ["files"]


def test_an_analysts_copy_has_no_custody_and_is_still_checked(cohort, tmp_path):
    import shutil

    folder = release(cohort).write(tmp_path / "out")
    shutil.rmtree(folder / "custody")
    checks = verify_release(folder)
    assert {one.name: one.passed for one in checks} == {
        "data": True, "manifest": None, "files": True, "folder": True, "permissions": True,
        "targets": None,
    }  # fmt: skip
    for asked in (lambda one: one.paired(cohort), lambda one: one.plan(), lambda one: one.key()):
        with pytest.raises(ReleaseError, match="custody record is not here"):
            asked(open_release(folder))


def test_other_data_cannot_be_paired(cohort, tmp_path):
    folder = release(cohort).write(tmp_path / "out")
    other = sf.Dataset(sf.datasets.cohort(600).tail(300), cohort.schema)
    with pytest.raises(ReleaseError, match="not the data"):
        sf.evaluate(other, folder)
    assert sf.evaluate(cohort, folder, ["uniqueness"])["uniqueness"].baseline == 1.0


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        '{"data": {"file": "../secret.csv"}}',
        "[]",
        '{"data": 3}',
        '{"data": {"file": "a", "sha256": ""}}',
    ],
)
def test_what_is_no_release_is_refused(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(ReleaseError):
        open_release(tmp_path)
    with pytest.raises(ReleaseError):
        open_release(tmp_path / "nothing")


def test_another_original_of_the_same_persons_is_noticed(cohort, tmp_path):
    folder = release(cohort).write(tmp_path / "out")
    other = sf.Dataset(cohort.frame.with_columns(sex=pl.lit("x")), cohort.schema)
    checks = {one.name: one.passed for one in verify_release(folder, other)}
    assert checks["original"] is False
    fewer = sf.Dataset(cohort.frame.head(200), cohort.schema)
    checks = {one.name: one.passed for one in verify_release(folder, fewer)}
    assert checks["original"] is False


def test_formats_that_cannot_hold_the_data_are_refused(tmp_path):
    frame = pl.DataFrame({"n": [2**53, 2**53 + 1], "t": ["", None], "sex": ["f", "f"]})
    schema = sf.Schema({"n": "other", "t": "other", "sex": "quasi"})
    for suffix in ("dta", "sav"):
        wanted = sf.Plan(schema=schema, release=writing(format=suffix))
        made = sf.protect(sf.Dataset(frame, schema), wanted, key=KEY)
        with pytest.raises(ReleaseError, match="cannot hold some cells as they are: .*'n'"):
            made.write(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_libraries_write_the_same_bytes(cohort_frame, tmp_path):
    """Whole numbers with gaps and days, which pandas cannot hold, are written as what they are."""
    files = []
    for at, frame in enumerate((cohort_frame, cohort_frame.to_pandas(), cohort_frame.to_arrow())):
        data = sf.Dataset(frame, sf.datasets.cohort_schema())
        steps = [sf.methods.Pseudonymise(variables=["person_id"]), sf.methods.Drop()]
        wanted = sf.Plan(schema=data.schema, steps=steps, release=writing(format="csv"))
        folder = sf.protect(data, wanted, key=KEY).write(tmp_path / str(at))
        files.append([(folder / one).read_bytes() for one in ("data.csv", "manifest.json")])
    assert files[0] == files[1] == files[2]


def test_minus_zero_and_levels_nobody_has_do_not_reach_the_file(tmp_path):
    levels = pl.Enum(["Zoe Secret", "a", "b"])
    frame = pl.DataFrame({"x": [0.0, -0.0], "e": pl.Series(["a", "b"], dtype=levels)})
    schema = sf.Schema({"x": "quasi", "e": "other"})
    for suffix in ("csv", "parquet", "arrow"):
        wanted = sf.Plan(schema=schema, release=writing(format=suffix))
        made = sf.protect(sf.Dataset(frame, schema), wanted, key=KEY)
        content = (made.write(tmp_path / suffix) / f"data.{suffix}").read_bytes()
        assert b"Zoe" not in content
        assert b"-0.0" not in content


def test_what_frames_carry_unseen_does_not_leave():
    import pandas as pd
    import pyarrow as pa

    frame = pd.DataFrame({"x": pd.Categorical(["a", "b"], categories=["a", "b", "Zoe Secret"])})
    frame.attrs = {"path": "/secret"}
    out = sf.protect(sf.Dataset(frame, sf.Schema({"x": "quasi"})), sf.Plan()).data
    assert out.attrs == {}
    assert list(out["x"].cat.categories) == ["a", "b"]
    assert frame.attrs
    table = pa.table({"x": [1]}).replace_schema_metadata({"path": "/secret"})
    out = sf.protect(sf.Dataset(table, sf.Schema({"x": "quasi"})), sf.Plan()).data
    assert out.schema.metadata is None


def test_the_last_one_to_write_does_not_win(cohort, tmp_path, monkeypatch):
    """A folder that came into being while we worked is left alone."""
    made, target = release(cohort), tmp_path / "out"
    from sfumato.storage import writing as module

    real = module._write_all

    def slow(*given):
        real(*given)
        if not target.exists():
            monkeypatch.setattr(module, "_write_all", real)
            made.write(target, ledger=False)

    monkeypatch.setattr(module, "_write_all", slow)
    with pytest.raises(ReleaseError, match="came into being meanwhile"):
        sf.protect(cohort, plan(), key=KEY).write(target, ledger=False)
    assert all(one.passed for one in verify_release(target))


def test_strangers_files_and_roundabout_paths_are_safe(cohort_frame, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    cohort_frame.write_parquet(folder / "cohort.parquet")
    data = sf.read(folder / "cohort.parquet", schema=sf.datasets.cohort_schema())
    (tmp_path / "z").mkdir()
    with pytest.raises(ReleaseError, match="contains the original data"):
        release(data).write(tmp_path / "z" / ".." / "data", overwrite=True)
    out = release(data).write(tmp_path / "out")
    (out / "notes.txt").write_text("mine")
    with pytest.raises(ReleaseError, match="not of a release: .*notes.txt"):
        release(data).write(out, overwrite=True)


def test_a_place_that_cannot_be_written_is_told(cohort, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ReleaseError, match="could not be written"):
        release(cohort).write(tmp_path / "file" / "out")


def test_a_damaged_custody_record_is_told(cohort, tmp_path):
    folder = release(cohort).write(tmp_path / "out")
    (folder / "custody" / "custody.json").write_text("{}")
    with pytest.raises(ReleaseError, match="damaged"):
        verify_release(folder)


def test_raw_data_may_be_evaluated_against_a_release(cohort, tmp_path):
    """The release knows the roles; the original may come without."""
    made = release(cohort)
    folder = made.write(tmp_path / "out")
    for one in (made, folder):
        found = sf.evaluate(sf.Dataset(cohort.frame), one, ["uniqueness"])["uniqueness"]
        assert found.baseline == 1.0


def test_removed_records_are_kept_in_mind(cohort, tmp_path):
    """A method that leaves records out still lets the rest be paired with the original."""
    from dataclasses import replace

    made = release(cohort)
    some = np.arange(0, 300, 3)
    found = {"x": replace(made.evidence["census"], records=None)}
    fewer = replace(made, dataset=made.dataset.take(some), evidence=found, plan=plan())
    opened = open_release(fewer.write(tmp_path / "out"))
    expected = cohort.identity.digests[some]
    assert len(opened.dataset) == 100
    paired = opened.paired(cohort).identity.digests
    assert sorted(map(tuple, paired.tolist())) == sorted(map(tuple, expected.tolist()))


def test_no_text_of_ours_shows_a_cell(cohort):
    made = release(cohort)
    shown = f"{cohort!r} {made!r} {made.evidence!r} {made.dataset!r}"
    names = cohort.frame["name"].to_list()
    assert not [name for name in names if name in shown]


def test_the_evidence_of_an_attempt_is_kept_inside(cohort, tmp_path):
    wanted = plan(targets={"k.min": 1000})
    with pytest.raises(TargetError) as error:
        sf.protect(cohort, wanted, key=KEY)
    paths = [keep_attempt(tmp_path / "out", wanted, error.value) for _ in range(2)]
    assert [path.name for path in paths] == ["attempt-1.json", "attempt-2.json"]
    kept = json.loads(paths[0].read_text())
    assert kept["targets"][0]["met"] is False
    assert kept["plan_digest"] == wanted.digest
    assert stat.S_IMODE(paths[0].parent.stat().st_mode) == 0o700


def test_nothing_raw_leaves(cohort, tmp_path):
    """No original value beyond the release itself, and no key, in manifest or either report."""
    made = release(cohort, release=writing(format="csv"))
    folder = made.write(tmp_path / "out")
    raw = ("person_id", "name", "email", "nhs_number", "address", "postcode", "income")
    secrets = [cohort.frame[name].drop_nulls().cast(pl.String).to_list() for name in raw]
    cells = {cell for column in secrets for cell in column if len(cell) > 4}
    for path in (folder / "manifest.json", folder / "report.html", folder / "custody/report.html"):
        text = path.read_text("utf-8")
        assert KEY.text not in text
        # Five digits of a number stand in some digest, or in a longer number, by chance.
        text = re.sub("[0-9a-f]{64}", "", text)
        whole = [re.compile(rf"(?<![\d.]){re.escape(cell)}(?!\d)") for cell in cells]
        assert not [cell.pattern for cell in whole if cell.search(text)], path
    public = (folder / "manifest.json").read_text() + (folder / "report.html").read_text()
    ids = cohort.identity.ids(KEY)
    assert not any(str(word) in public for word in ids.ravel().tolist())


def test_a_comparison_without_the_original_is_not_checked_and_a_failure_is_evidence(
    cohort, tmp_path, monkeypatch
):
    folder = release(cohort).write(tmp_path / "out")
    monkeypatch.setattr(sf.risk.Uniqueness, "of", "pair")
    checks = {one.name: one for one in verify_release(folder)}
    assert checks["census"].passed is None
    assert "needs the original" in checks["census"].finding
    monkeypatch.setattr(sf.risk.Uniqueness, "of", "one")

    def broken(self, data, subject, engine):
        raise ReleaseError("no such luck")

    monkeypatch.setattr(sf.risk.Uniqueness, "look", broken)
    found = take_measures({"k": sf.risk.Uniqueness()}, None, cohort)["k"]
    assert not found.computed
    assert "no such luck" in found.reason
