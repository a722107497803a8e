"""The ledger of releases: private, whole or an error, and it recognises people, not files."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import stat
import threading
import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import ReleaseError, RepeatedReleaseWarning, TargetError
from sfumato.plan import Writing
from sfumato.randomness import Key
from sfumato.storage.fingerprint import Fingerprint, take_fingerprint
from sfumato.storage.ledger import Ledger, find_default_folder

KEY = sf.Key(bytes(range(32)))


def people(records: int = 120, seed: int = 1, **more) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": [f"secret-{seed}-{number}" for number in range(records)],
            "sex": draw.choice(["f", "m"], records),
            "born": draw.integers(0, 30_000, records),
            **more,
        }
    )


SCHEMA: dict[str, Any] = {
    "id": "direct",
    "sex": sf.Column(role="quasi", kind="nominal"),
    "born": sf.Column(role="quasi", kind="integer", domain=(0, 29_999)),
}


def plan(intervals: int = 3, **options) -> sf.Plan:
    return sf.Plan(
        schema=options.pop("schema", SCHEMA),
        steps=[
            sf.methods.Drop(),
            sf.methods.Coarsen(variables=["born"], intervals=intervals),
        ],
        release=Writing(format="csv", **options.pop("release", {})),
        **options,
    )


def write(frame, folder, how=None, key=KEY, **options):
    return sf.protect(sf.Dataset(frame), how or plan(), key=key).write(folder, **options)


def test_every_release_is_written_down_and_only_its_owner_reads_it(tmp_path, ledger_of_the_test):
    frame = people()
    folder = write(frame, tmp_path / "one")
    [entry] = Ledger().read()
    assert (entry.number, entry.folder, entry.pending) == (1, str(folder.resolve()), False)
    assert entry.key_commitment == KEY.commitment
    assert list(entry.variables) == ["sex", "born"]
    assert [step["method"] for step in entry.methods] == ["drop", "coarsen"]
    for path in ledger_of_the_test.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    content = b"".join(p.read_bytes() for p in ledger_of_the_test.rglob("*") if p.is_file())
    for value in (*frame["id"], *map(str, frame["born"].filter(frame["born"] > 9999))):
        assert value.encode() not in content
    assert KEY.text.encode() not in content


def test_where_it_lies(monkeypatch, tmp_path):
    assert find_default_folder() == Ledger().folder
    monkeypatch.delenv("SFUMATO_LEDGER")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert find_default_folder() == tmp_path / "sfumato" / "ledger"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_default_folder() == tmp_path / ".local" / "state" / "sfumato" / "ledger"


def change_a_byte(folder):
    path = folder / "ledger.json"
    path.write_bytes(path.read_bytes().replace(b'"random"', b'"rondom"'))


def lose_its_end(folder):
    path = folder / "ledger.json"
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize(
    "damage",
    [
        change_a_byte,
        lose_its_end,
        lambda folder: (folder / "ledger.json").write_bytes(b""),
        lambda folder: (folder / "ledger.json").unlink(),
        lambda folder: (folder / "key").unlink(),
        lambda folder: (folder / "key").write_text(Key.new().text),
    ],
)
def test_a_damaged_ledger_is_an_error_and_nothing_is_released(tmp_path, ledger_of_the_test, damage):
    write(people(), tmp_path / "one")
    damage(ledger_of_the_test)
    with pytest.raises(ReleaseError, match="The ledger of releases in .* cannot be used"):
        write(people(seed=2), tmp_path / "two")
    assert not (tmp_path / "two").exists()


def test_a_ledger_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ReleaseError, match="cannot be written") as caught:
        write(people(), tmp_path / "one", ledger=tmp_path / "file" / "ledger")
    assert "SFUMATO_LEDGER" in caught.value.hint
    assert write(people(), tmp_path / "one", ledger=False)


def test_a_release_that_failed_is_not_in_it(tmp_path, monkeypatch):
    from sfumato.storage import writing

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "put_folder_in_place", fail)
    with pytest.raises(ReleaseError, match="No space left"):
        write(people(), tmp_path / "one")
    assert Ledger().read() == []
    assert not list((Ledger().folder / "records").iterdir())


def test_a_writer_that_died_left_nothing_that_counts(tmp_path):
    """Written down before it is in place; what never came into being is passed over."""
    folder = write(people(), tmp_path / "one", plan(2))
    book = Ledger()
    [entry] = book.read()
    from dataclasses import replace

    book._write([replace(entry, pending=True)])
    folder.rename(tmp_path / ".sfumato-partial-of-a-dead-writer")
    assert write(people(), tmp_path / "two", plan(3, targets={"k.min": 2}))
    # But one that is there counts, though nobody came to say so.
    folder = write(people(seed=4), tmp_path / "three", plan(2))
    entries = book.read()
    book._write([replace(e, pending=True) if e.folder == str(folder) else e for e in entries])
    found = book.compare_people(sf.Dataset(people(seed=4)))
    assert [e.folder for e, likeness in found if likeness == "same"] == [str(folder)]


def write_at_once(number, place, ledger):
    write(people(seed=number), place / f"r{number}", ledger=ledger)


@pytest.mark.parametrize(
    "kind",
    [
        threading.Thread,
        pytest.param(multiprocessing.get_context("spawn").Process, marks=pytest.mark.study),
    ],
)
def test_writers_at_once_lose_no_entry(tmp_path, kind):
    workers = [
        kind(target=write_at_once, args=(n, tmp_path, tmp_path / "ledger")) for n in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    entries = Ledger(tmp_path / "ledger").read()
    assert sorted(entry.number for entry in entries) == [1, 2, 3]
    assert {entry.folder for entry in entries} == {str(tmp_path / f"r{n}") for n in range(3)}


def test_a_write_within_a_write_does_not_wait_for_itself(tmp_path):
    book = Ledger()
    with book.lock():
        assert write(people(), tmp_path / "one")
    assert len(book.read()) == 1


# Forgetting and replacing ------------------------------------------------------------------------


def test_what_nobody_has_is_forgotten_for_a_reason(tmp_path):
    held = plan(3, targets={"k.min": 10})
    shutil.rmtree(write(people(), tmp_path / "one", plan(8)))
    with pytest.raises(TargetError, match="gone or was changed"):
        write(people(), tmp_path / "two", held)
    with pytest.raises(ReleaseError, match="only for a reason"):
        Ledger().forget(1, "  ")
    with pytest.raises(ReleaseError, match="has no release 7"):
        Ledger().forget(7, "x")
    Ledger().forget(1, "never passed on")
    assert write(people(), tmp_path / "two", held)
    assert Ledger().get(1).state.startswith("forgotten: never passed on")


def test_what_is_overwritten_counts_until_it_is_forgotten_with_a_reason(tmp_path):
    """Month after month into one folder: whoever got the first copies has them."""
    write(people(), tmp_path / "one", plan(8))
    held = plan(3, targets={"k.min": 10})
    with pytest.raises(TargetError, match="together with 'one'"):
        write(people(), tmp_path / "one", held, overwrite=True)
    accepted = plan(8, release={"accept_composition": "a test", "title": "another"})
    write(people(), tmp_path / "one", accepted, overwrite=True)
    # The very same cells show nothing new, so the second is no release of its own.
    write(people(), tmp_path / "one", plan(4, release={"accept_composition": "x"}), overwrite=True)
    states = [entry.state for entry in Ledger().read()]
    assert states == ["counts; overwritten by 2", "counts; overwritten by 3", "counts"]
    kept = list((Ledger().folder / "overwritten").iterdir())
    assert len(kept) == 2
    for path in (Ledger().folder / "overwritten").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    # It is measured, not only known: all that was there is kept in the ledger.
    with pytest.raises(TargetError, match=r"release 1 of the ledger.*it is") as caught:
        write(people(), tmp_path / "two", held)
    assert "gone" not in str(caught.value)
    for number in (1, 2, 3):
        Ledger().forget(number, "never passed on")
    assert not list((Ledger().folder / "overwritten").iterdir())
    assert write(people(), tmp_path / "two", held)


def test_a_folder_that_was_moved_is_found_beside_the_new_one(tmp_path):
    write(people(), tmp_path / "one", plan(8)).rename(tmp_path / "moved")
    release = sf.protect(sf.Dataset(people()), plan(3, targets={"k.min": 10}), key=KEY)
    with pytest.raises(TargetError, match="together with 'moved'.*it is"):
        release.write(tmp_path / "two")


def test_a_release_beside_it_counts_though_the_ledger_does_not_know_it(tmp_path):
    write(people(), tmp_path / "one", plan(8), ledger=False)
    with pytest.raises(TargetError, match="together with 'one'"):
        write(people(), tmp_path / "two", plan(3, targets={"k.min": 10}))


def test_in_memory_earlier_releases_are_named(tmp_path):
    data = sf.Dataset(people())
    first = sf.protect(data, plan(8), key=KEY)
    folder = first.write(tmp_path / "first")
    held = plan(3, targets={"k.min": 10})
    assert sf.protect(data, held, key=KEY).evidence.keys() == {"uniqueness"}
    for earlier in (first, folder):
        with pytest.raises(TargetError, match="together with"):
            sf.protect(data, held, key=KEY, earlier=[earlier])
    itself = sf.protect(data, held, key=KEY)
    again = sf.protect(data, held, key=KEY, earlier=[itself])
    k = itself.evidence["uniqueness"].details["k"]
    assert again.evidence["composition"].value == k


def test_a_target_on_the_composition_takes_the_place_of_the_others(tmp_path):
    write(people(), tmp_path / "one", plan(8))
    both = {"k.min": 10, "composed_k.min": 2}
    folder = write(people(), tmp_path / "two", plan(3, targets=both))
    record = json.loads((folder / "custody" / "custody.json").read_text())
    [target] = record["composition"]["targets"]
    assert (target["target"], target["met"]) == ("composed_k", True)
    # What lies in the folder alone says nothing of earlier ones: it is not judged by it.
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [stated["target"] for stated in manifest["targets"]] == ["k"]
    with pytest.raises(TargetError, match="composed_k at least 9"):
        write(people(), tmp_path / "three", plan(4, targets={"composed_k.min": 9}))


def test_utility_is_not_held_against_all_together(tmp_path):
    write(people(), tmp_path / "one", plan(8))
    assert write(people(), tmp_path / "two", plan(3, targets={"information_loss.max": 0.9}))


# Identity and key --------------------------------------------------------------------------------


def noisy(schema) -> sf.Plan:
    return sf.Plan(
        schema=schema,
        steps=[
            sf.methods.Drop(),
            sf.methods.Noise(variables=["born"], variance_share=0.2, whole=False),
        ],
        release=Writing(format="csv"),
    )


def test_records_told_apart_otherwise_under_the_same_key_are_refused(tmp_path):
    frame = people(number=[f"n{i}" for i in range(120)])
    first = {**SCHEMA, "number": sf.Column(role="other")}
    second = {**SCHEMA, "number": sf.Column(role="direct", identity=True)}
    write(frame, tmp_path / "one", noisy(first))
    how = sf.Plan(
        schema=second,
        steps=[
            sf.methods.Drop(),
            *noisy(second).steps[1:],
        ],
        release=Writing(format="csv"),
    )
    with pytest.raises(ReleaseError, match=r"told apart by .*'id'.* now told apart by .*'number'"):
        write(frame, tmp_path / "two", how)
    with pytest.warns(RepeatedReleaseWarning, match="under another key"):
        write(frame, tmp_path / "two", how, key=Key.new())


# Recognising -------------------------------------------------------------------------------------

BOOK = Key(bytes(32))


def compare(*tables: pl.DataFrame, schema: Any = None) -> str:
    """Whether two files are of the same people; as the ledger writes it down and reads it again."""
    first, second = (
        take_fingerprint(sf.Dataset(frame, sf.Schema(schema or {})), BOOK) for frame in tables
    )
    likeness = Fingerprint.from_plain(json.loads(json.dumps(first.plain()))).compare(second)
    assert likeness == second.compare(first)
    return likeness


def same(first: pl.DataFrame, second: pl.DataFrame) -> bool:
    return compare(first, second) == "same"


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    records=st.integers(80, 2000),
    share=st.floats(0.3, 1.0),
    how=st.sampled_from(["plain", "spelling", "renamed", "without id"]),
)
def test_the_same_people_are_recognised_in_another_export(seed, records, share, how):
    frame = people(records, seed)
    again = frame.sample(fraction=share, seed=seed, shuffle=True)
    if how == "spelling":
        again = again.with_columns(
            id=" " + pl.col("id").str.to_uppercase(), born=pl.col("born") * 1.0
        )
    if how == "renamed":
        again = again.rename({"id": "person", "born": "days"})
    if how == "without id":
        again = again.drop("id")
    assert same(frame, again)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), records=st.integers(80, 2000))
def test_other_people_are_not(seed, records):
    frame, others = people(records, seed), people(records, seed + 1)
    assert not same(frame, others)
    # Everybody numbers from 1 to n.
    numbered = [data.with_columns(id=pl.int_range(records)) for data in (frame, others)]
    assert not same(*numbered)


NEW_EXPORTS = {
    "a converted number": lambda frame: frame.with_columns(pl.col("paid") * 1.08),
    "a rounded number": lambda frame: frame.with_columns((pl.col("paid") / 100).round()),
    "two converted numbers": lambda frame: frame.with_columns(pl.col("paid", "weight") / 7),
    "other names": lambda frame: frame.with_columns(pl.col("paid") * 1.08).rename({"born": "dob"}),
    "a few more and fewer": lambda frame: pl.concat(
        [frame[20:].with_columns(pl.col("paid") * 1.08), make_survey(40, 77)]
    ),
    "half of them": lambda frame: frame[::2].with_columns(pl.col("paid") * 1.08),
}


def make_survey(records: int, seed: int) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": [f"N{number}" for number in draw.choice(10**6, records, replace=False)],
            "born": np.datetime64("1950-01-01") + draw.integers(0, 14_000, records),
            "sex": draw.choice(["f", "m"], records),
            "paid": draw.lognormal(10, 0.5, records).round(2),
            "weight": draw.gamma(8, 40, records).round(3),
        }
    )


@pytest.mark.parametrize("how", NEW_EXPORTS)
def test_the_same_people_with_new_identifiers_are_recognised(how):
    frame = make_survey(400, 1)
    again = NEW_EXPORTS[how](frame)
    # New numbers at random, or counted through.
    again = again.with_columns(id=make_survey(again.height, 99)["id"])
    assert same(frame, again)
    assert same(again.with_columns(id="K" + pl.int_range(pl.len()).cast(pl.String)), frame)


def test_running_numbers_alone_prove_nothing():
    """P001 to P400 with another number of theirs: of the same people or not, nobody can tell."""
    first, second = (
        make_survey(records, 1)
        .select(id="P" + pl.int_range(pl.len()).cast(pl.String), paid=pl.col("paid"))
        .with_columns(pl.col("paid") * factor)
        for records, factor in ((400, 1.0), (390, 1.08))
    )
    assert compare(first, second) == compare(first, second, schema={"id": "direct"}) == "unknown"


def test_a_number_that_stands_in_all_rows_of_a_person_tells(tmp_path):
    """Everybody but one, with another k: rows of one patient are one person's."""
    draw = np.random.default_rng(8)
    patients = draw.choice(10**6, 200, replace=False).repeat(4)
    visits = pl.DataFrame({"patient": patients, "ward": draw.integers(0, 5, 800)})
    others = visits.with_columns(pl.col("patient") + 10**6)
    schema = {"patient": "person", "ward": "quasi"}
    assert compare(visits, visits[4:].sample(fraction=1, shuffle=True), schema=schema) == "same"
    assert compare(visits, others, schema=schema) == "others"


def test_the_identifier_of_a_wide_file_is_looked_at_whatever_its_name():
    draw = np.random.default_rng(8)
    answers = {f"a{number:03}": draw.integers(0, 3, 300) for number in range(200)}
    ids = [f"z{number}" for number in draw.choice(10**6, 300, replace=False)]
    first = pl.DataFrame({**answers, "zz": ids})
    second = first.with_columns(pl.col("^a.*$").reverse())[20:]
    schema = {"zz": sf.Column(role="direct", identity=True)}
    assert compare(first, second, schema=schema) == "same"
    # Without it whole records tell, over all variables.
    assert compare(first.drop("zz"), first.drop("zz")[20:]) == "same"
    others = pl.DataFrame({name: draw.integers(0, 3, 300) for name in answers})
    assert compare(first.drop("zz"), others) == "others"


@pytest.mark.parametrize("records", [60, 400])
def test_two_studies_that_number_their_people_alike_are_others(records):
    """P0000, P0001, ...: the numbers agree, and nothing else does."""
    number = pl.format("P{}", pl.int_range(records).cast(pl.String).str.zfill(4))
    schema = {"id": "direct"}
    for seed in range(4):
        first, second = (
            make_survey(records, 10 * seed + year).with_columns(
                id=number, region=pl.Series(np.random.default_rng(seed + year).choice(5, records))
            )
            for year in (0, 1)
        )
        assert compare(first, second, schema=schema) == "others"
        assert compare(first, second, schema={**schema, "sex": "quasi"}) == "others"
        # The same people with most of what is known of them changed since.
        again = first.with_columns(second["paid", "weight", "region"])[: records * 3 // 4]
        assert compare(first, again, schema=schema) == "same"


def test_people_whom_nothing_tells_apart_turn_a_light_amber(tmp_path):
    draw = np.random.default_rng(2)
    few = pl.DataFrame({"sex": draw.choice(["f", "m"], 500), "smokes": draw.choice([0, 1], 500)})
    assert compare(few, few[1:]) == "unknown"
    assert compare(few, few.select(city=pl.col("sex") + "x")) == "others"
    how = sf.Plan(
        schema={"sex": "quasi", "smokes": "sensitive"},
        targets={"k.min": 5},
        release=Writing(format="csv", accept_attacks="a test"),
    )
    colours = []
    for name, frame in (("one", few), ("two", few[1:])):
        folder = write(frame, tmp_path / name, how)
        record = json.loads((folder / "custody" / "custody.json").read_text())
        colours.append(record["lights"]["targets"])
    told = [any("nothing in these data tells" in line for line in c["reasons"]) for c in colours]
    assert told == [False, True]
    assert colours[1]["colour"] == "amber"


def test_noise_drawn_again_and_again_is_refused_by_what_is_left_of_it(tmp_path):
    """Six keys: nothing of k is missed, and the noise is averaged away."""
    frame = people(400)
    how = sf.Plan(
        schema={**SCHEMA, "born": sf.Column(role="sensitive", kind="continuous")},
        steps=[sf.methods.Drop(), sf.methods.Noise(variables=["born"], sd_share=0.5)],
        release=Writing(format="csv", accept_attacks="a test"),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedReleaseWarning)
        write(frame, tmp_path / "0", how)
        second = write(frame, tmp_path / "1", how, key=Key.new())
        with pytest.raises(TargetError, match=r"noise_left at least 0.5 .*it is 0\.3"):
            write(frame, tmp_path / "2", how, key=Key.new())
    record = json.loads((second / "custody" / "custody.json").read_text())
    light = record["lights"]["targets"]
    assert light["colour"] == "amber"
    assert any("of the variance of the noise in 'born' is left" in r for r in light["reasons"])


@pytest.mark.parametrize("records", [100, 400, 3000])
def test_next_years_people_are_others(records):
    """Numbered alike, and with everything else drawn from the same population."""
    for seed in range(3):
        first, second = (sf.datasets.cohort(records, seed=2 * seed + year) for year in (0, 1))
        assert not same(first, second)
        assert not same(first, sf.datasets.cohort(5 * records, seed=2 * seed + 1))
    first, second = (make_survey(records, seed) for seed in (1, 2))
    for number in ("K" + pl.int_range(pl.len()).cast(pl.String), pl.int_range(pl.len()) * 10):
        assert not same(first.with_columns(id=number), second.with_columns(id=number))
    # One visit a day, on the same days: a calendar is nobody's.
    day = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 1, 1) + pl.duration(days=records - 1))
    assert not same(first.with_columns(visit=day), second.with_columns(visit=day))


def test_numbers_from_1_to_n_do_not_make_other_people_the_same(tmp_path):
    """Nothing but a number tells people apart: the sketches cannot say, the cells can."""

    def numbered(seed):
        draw = np.random.default_rng(seed)
        return pl.DataFrame({"id": range(400), "sex": draw.choice(["f", "m", "x"], 400)})

    schema: dict[str, Any] = {"id": "direct", "sex": sf.Column(role="quasi", kind="nominal")}
    how = sf.Plan(
        schema=schema,
        steps=[sf.methods.Drop()],
        targets={"k.min": 50},
        release=Writing(format="csv"),
    )
    write(numbered(1), tmp_path / "one", how)
    folder = write(numbered(2), tmp_path / "two", how)
    record = json.loads((folder / "custody" / "custody.json").read_text())
    assert "targets" not in record["composition"]
